/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: makes the list of the cases of a device. */
#include "list_make.h"
#include "conform.h"
#include "parts.h"
#include "cases/ccl.h"
#include "cases/stress.h"
#include "suites/suites.h"
#include <backplane/kernel.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct listed *list_add(struct list *list, enum suite suite)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->at = realloc(list->at, list->room * sizeof *list->at);
        if (!list->at) abort();
    }
    list->at[list->n] = (struct listed){.suite = suite,
                                        .unit = list->unit,
                                        .at = (int)(list->n - list->first),
                                        .row = -1,
                                        .quick = true};
    return &list->at[list->n++];
}

bool list_unit_begin(struct list *list, enum suite suite, const char *name)
{
    char stem[CASE_ID];

    list->unit++;
    list->first = list->n;
    if (list->only != LIST_ALL) return list->unit == list->only;
    snprintf(stem, sizeof stem, "%s%s%s", suite_name(suite), name ? "/" : "", name ? name : "");
    if (selection_has(list->wanted, suite) && selection_reaches(list->wanted, stem)) return true;
    list->left_out[suite] = true;
    return false;
}

static void add_checks(struct list *list, enum suite suite, const struct check_case *checks)
{
    for (; checks->id; checks++) {
        struct listed *l = list_add(list, suite);
        snprintf(l->id, sizeof l->id, "%s/%s", suite_name(suite), checks->id);
        l->run = checks->run;
    }
}

static const char *kind_name(int64_t kind)
{
    return kind == BP_STREAM_INLINE ? "inline" : "async";
}

/* A device whose work runs asynchronously has no inline streams. */
static void add_kinds(struct list *list, enum suite suite, const struct check_kinds *checks)
{
    static const int64_t kinds[] = {BP_STREAM_ASYNC, BP_STREAM_INLINE};
    struct bp_device_properties p = {.size = sizeof p};
    size_t n = !bp_device_get_properties(list->fixture->device, &p) && p.flags & BP_DEVICE_INLINE
                   ? 2
                   : 1;

    for (; checks->id; checks++)
        for (size_t i = 0; i < n * (checks->streams > 1 ? n : 1); i++) {
            struct listed *l = list_add(list, suite);
            l->run = checks->run;
            l->arg[0] = kinds[i % n];
            l->arg[1] = kinds[i / n];
            snprintf(l->id, sizeof l->id, "%s/%s/%s%s%s", suite_name(suite), checks->id,
                     kind_name(l->arg[0]), checks->streams > 1 ? "-" : "",
                     checks->streams > 1 ? kind_name(l->arg[1]) : "");
        }
}

static void add_roundtrips(struct list *list)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 17, 63, 64, 65, 257, 4099, 65537, 300007};

    for (uint32_t dtype = 0; dtype < 64; dtype++)
        for (size_t i = 0; num_type(dtype) && i < sizeof sizes / sizeof *sizes; i++) {
            struct listed *l = list_add(list, SUITE_MEMORY);
            snprintf(l->id, sizeof l->id, "memory/roundtrip/%s/%lld", num_type(dtype)->name,
                     (long long)sizes[i]);
            l->run = memory_roundtrip;
            l->arg[0] = dtype;
            l->arg[1] = sizes[i];
            l->quick = i % 3 == 1;
        }
}

struct into {
    struct list *list;
    int row;
    bool in_programs; /* the row has layouts of the plugin, so that only programs use it */
    uint64_t lacking; /* dtypes for which the list already has a note about missing rows */
};

/* Adds a note: a line in the report for something that cannot be run. Its id is kernel/<op>@<row>,
 * kernel/<op>/<dtype>@none or gradient/<op>. */
static void add_note(struct list *list, enum suite suite, enum outcome outcome,
                     const char *message, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static void add_note(struct list *list, enum suite suite, enum outcome outcome,
                     const char *message, const char *format, ...)
{
    struct listed *l = list_add(list, suite);
    va_list args;

    va_start(args, format);
    vsnprintf(l->id, sizeof l->id, format, args);
    va_end(args);
    l->outcome = outcome;
    l->message = strdup(message);
    if (!l->message) abort();
}

/* FNV-1a. */
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325;

    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3;
    return hash;
}

/* Whether the device lacks a kernel row that the case needs. The case is then not added; instead
 * one note covers all such cases of the operator and dtype. */
static bool is_lacking(struct into *into, const struct kernel_case *made)
{
    uint32_t dtype = made->in[0].dtype;
    bool known = into->lacking >> dtype & 1;
    char text[160];

    if (!parts_lack(into->list->fixture, made, known ? NULL : text, sizeof text)) return false;
    if (!known)
        add_note(into->list, SUITE_KERNEL, OUTCOME_UNSUPPORTED, text, "kernel/%s/%s@none",
                 made->op->name, num_type(dtype)->name);
    into->lacking |= UINT64_C(1) << dtype;
    return true;
}

uint64_t list_number_id(const struct list *list, char *id)
{
    uint64_t hash = hash_of(id);
    size_t same = 1, end = strcspn(id, "@");
    char row[CASE_ID];

    for (size_t i = list->first; i < list->n; i++) same += list->at[i].hash == hash;
    if (same == 1) return hash;
    snprintf(row, sizeof row, "%s", id + end);
    snprintf(id + end, CASE_ID - end, "#%zu%s", same, row);
    return hash;
}

/* Whether a call in a program can be as the case is. The program has no memory of the app for its
 * results, and no attributes that are tensors. */
static bool may_be_node(const struct kernel_case *made)
{
    return !made->large && !made->in_place && !made->host && !made->given &&
           made->out <= LAYOUT_OFFSET;
}

static void add_kernel(void *ctx, struct kernel_case *made)
{
    struct into *into = ctx;
    struct listed *l;
    uint64_t hash;

    made->in_program = into->in_programs;
    if (made->in_program ? !may_be_node(made) : is_lacking(into, made)) {
        free(made);
        return;
    }
    hash = list_number_id(into->list, made->id);
    l = list_add(into->list, SUITE_KERNEL);
    l->hash = hash;
    snprintf(l->id, sizeof l->id, "%s", made->id);
    l->kernel = made;
    l->row = into->row;
    l->quick = made->quick;
}

void list_add_dtypes(struct case_builder *builder, const struct bp_opinfo *op,
                     const uint64_t *types, int variable)
{
    if (variable == 4) {
        builder->op->cases(builder);
        if (builder->has_layouts) case_blocks(builder);
        return;
    }
    for (uint32_t t = 0; t < 64; t++) {
        bool has = types[variable] && op->types[variable]; /* not one that only a HOST input has */
        if (has ? !(types[variable] >> t & 1) || !num_type(t) : t != builder->dtype[0]) continue;
        builder->dtype[variable] = t;
        list_add_dtypes(builder, op, types, variable + 1);
    }
}

/* The work of a case, measured in elements of its inputs. */
static int64_t elements_of(const struct kernel_case *made)
{
    int64_t all = 0;

    for (int i = 0; i < made->n_in; i++) {
        int64_t n = made->in[i].present;
        for (int a = 0; a < made->in[i].rank; a++) n *= made->in[i].shape[a];
        all += n;
    }
    return all;
}

/* Orders cases by size, the largest first; of equal ones those with frozen inputs first, for which
 * a row keeps the most state. */
static int compare_sizes(const void *a, const void *b)
{
    const struct kernel_case *const *x = a, *const *y = b;
    int64_t p = elements_of(*x), q = elements_of(*y);
    bool fx = kernel_case_facts(*x) >> ROW_FROZEN & 1, fy = kernel_case_facts(*y) >> ROW_FROZEN & 1;

    if (p != q) return (p < q) - (p > q);
    return fx != fy ? fy - fx : strcmp((*x)->id, (*y)->id);
}

/* Whether the case may run on two streams at the same time. Excluded are cases that run several
 * times or in place, and cases that the row must reject because of its flags. */
static bool may_be_twice(const struct kernel_case *k)
{
    return !k->sweep && !k->large && !k->in_place && !k->host && !kernel_case_excess(k);
}

/* Adds one case that runs on two streams at the same time. The largest of the row's cases (those
 * from `first` on) that the row supports runs; which one this is becomes known when it runs. The id
 * names the largest case. */
static void add_twice(struct list *list, size_t first)
{
    size_t n_case = list->n - first, n = 0, stem;
    const struct kernel_case **of = calloc(n_case + 1, sizeof *of);
    struct kernel_case *made;
    struct listed *l;

    if (!of) abort();
    for (size_t i = first; i < list->n; i++)
        if (list->at[i].kernel && may_be_twice(list->at[i].kernel)) of[n++] = list->at[i].kernel;
    if (!n) {
        free(of);
        return;
    }
    qsort(of, n, sizeof *of, compare_sizes);
    made = case_copy(of[0]);
    made->twice = true;
    made->of_twice = of;
    made->n_twice = (int)n;
    stem = strcspn(made->id, "@");
    snprintf(made->id, sizeof made->id, "%.*s.twice%s", (int)stem, of[0]->id, of[0]->id + stem);
    l = list_add(list, SUITE_KERNEL);
    snprintf(l->id, sizeof l->id, "%s", made->id);
    l->hash = hash_of(l->id);
    l->kernel = made;
    l->of_twice = of;
    l->row = list->at[first].row;
    l->quick = true;
}

void list_row_types(const struct bp_opinfo *op, const struct bp_kernel_info *info, uint64_t *types)
{
    for (int v = 0; v < BP_VAR_COUNT; v++) {
        types[v] = info->types[v];
        if (types[v] & ~op->types[v]) types[v] = BP_M(I64);
    }
}

static void add_row(struct list *list, const struct bp_kernel_info *info,
                    const struct bp_opinfo *op, int row)
{
    struct into into = {.list = list, .row = row, .in_programs = *info->layouts};
    struct case_builder builder = {.op = conform_op(op->name),
                               .row = info->name,
                               .row_flags = info->flags,
                               .has_layouts = *info->layouts,
                               .defaults = op->defaults,
                               .attrs_size = op->attrs_size,
                               .seed = list->fixture->seed,
                               .made = add_kernel,
                               .ctx = &into};
    uint64_t types[BP_VAR_COUNT];
    size_t first = list->n;

    list_row_types(op, info, types);
    if (types[0]) list_add_dtypes(&builder, op, types, 0);
    add_twice(list, first);
}

/* Adds a note for a kernel row that this core does not use: skipped, or failed if no core could use
 * the row, which is a mistake in the plugin. */
static void add_unused(struct list *list, const struct bp_kernel_info *info)
{
    char text[600];

    if (!kernel_is_misfit(info->reason)) {
        add_note(list, SUITE_KERNEL, OUTCOME_SKIP, info->reason, "kernel/%s@%s", info->op,
                 info->name);
        return;
    }
    snprintf(text, sizeof text, "row %s: %s", info->name, info->reason);
    add_note(list, SUITE_KERNEL, OUTCOME_FAIL, text, "kernel/%s@%s", info->op, info->name);
}

/* Adds the cases of an operator that needs no kernel row, for the dtypes that the device can
 * hold. */
static void add_rowless(struct list *list, const struct bp_opinfo *op)
{
    struct bp_device_properties properties = {.size = sizeof properties};
    struct into into = {.list = list, .row = -1};
    struct case_builder builder = {.op = conform_op(op->name),
                               .row_flags = BP_KERNEL_STRIDED,
                               .defaults = op->defaults,
                               .attrs_size = op->attrs_size,
                               .seed = list->fixture->seed,
                               .made = add_kernel,
                               .ctx = &into};
    uint64_t types[4];

    if (bp_device_get_properties(list->fixture->device, &properties)) return;
    for (int i = 0; i < 4; i++) types[i] = op->types[i] & properties.dtypes;
    list_add_dtypes(&builder, op, types, 0);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Whether the core runs the operator without a kernel row of the device: as a view or a copy. */
static bool needs_no_row(const struct bp_opinfo *op)
{
    return op->flags & BP_OP_VIEW || !strcmp(op->name, "assign");
}

/* Adds the cases of operators without a kernel row, and of operators with a row that run as their
 * decomposition. */
static void add_others(struct list *list)
{
    const char **has = calloc(list->n_row + 1, sizeof *has);
    size_t n = 0;

    if (!has) abort();
    for (size_t r = 0; r < list->n_row; r++) {
        /* An operator whose rows cannot run is run as if it had none. */
        const struct bp_opinfo *op = bp_opinfo_find(list->row[r].op);
        bool without = op && (needs_no_row(op) || op->flags & BP_OP_EXPAND);
        bool calls = list->row[r].usable && !list->row[r].in_programs;
        if (calls || !without) has[n++] = list->row[r].op;
    }
    qsort(has, n, sizeof *has, compare_names);
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        bool rows = bsearch(&op->name, has, n, sizeof *has, compare_names);
        bool defined = op->flags & BP_OP_EXPAND && !(op->flags & BP_OP_VIEW);
        if ((rows && !defined) || !list_unit_begin(list, SUITE_KERNEL, op->name)) continue;
        if (rows) list_add_defined(list, op);
        else if (needs_no_row(op) || op->flags & BP_OP_EXPAND) add_rowless(list, op);
        else
            add_note(list, SUITE_KERNEL, OUTCOME_UNSUPPORTED,
                     "the device has no row for this operator", "kernel/%s", op->name);
    }
    free(has);
}

/* Adds the cases of a row of an operator that a plugin defines. Without a decomposition nothing
 * here knows what the operator means. No such row must be executed. */
static void add_own(struct list *list, uint32_t index, const struct bp_kernel_info *info)
{
    const struct bp_opinfo *op = bp_opinfo_find(info->op);

    if (!list_unit_begin(list, SUITE_KERNEL, info->op)) return;
    if (!op || !(op->flags & BP_OP_EXPAND) || op->out[op->n_out - 1].kind == BP_PORT_VAROUT) {
        add_note(list, SUITE_KERNEL, OUTCOME_SKIP,
                 "an operator of the plugin's own, without a decomposition: nothing here knows "
                 "what it means", "kernel/%s@%s", info->op, info->name);
        return;
    }
    if (*info->reason && !*info->layouts) {
        add_unused(list, info);
        return;
    }
    for (uint32_t dtype = 0; dtype < 64; dtype++)
        for (int shape = 0; shape < OWN_SHAPES && info->types[BP_VAR_T] >> dtype & 1; shape++) {
            struct listed *l = list_add(list, SUITE_KERNEL);
            snprintf(l->id, sizeof l->id, "kernel/%s/%s/%d@%s", info->op, num_type(dtype)->name,
                     shape, info->name);
            l->run = kernel_own_run;
            l->arg[0] = index;
            l->arg[1] = dtype | (int64_t)shape << 8 | (int64_t)(*info->layouts != 0) << 16;
            l->quick = true;
        }
}

static void add_rows(struct list *list)
{
    uint32_t n = bp_device_kernels(list->fixture->device);

    list->row = calloc(n + 1, sizeof *list->row);
    if (!list->row) abort();
    for (uint32_t i = 0; i < n; i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        const struct bp_opinfo *op;
        bool usable;
        if (bp_device_kernel(list->fixture->device, i, &info)) continue;
        if (strchr(info.op, '.')) { /* DOMAIN.NAME */
            add_own(list, i, &info);
            continue;
        }
        usable = !*info.reason || *info.layouts;
        list->row[list->n_row] = (struct list_row){info.name, info.op, usable, *info.layouts};
        op = bp_opinfo_find(info.op);
        list->n_row++;
        /* A row may name its operator by an alias; ids use the operator's name. */
        if (!list_unit_begin(list, SUITE_KERNEL, op && usable ? op->name : info.op)) continue;
        if (!usable) add_unused(list, &info);
        else if (op && conform_op(op->name)) add_row(list, &info, op, (int)list->n_row - 1);
    }
    add_others(list);
    list_add_inside(list);
}

/* Adds a case that a family marked for gradients, and the same case for the second order. */
static void add_gradient(void *ctx, struct kernel_case *made)
{
    struct list *list = ((struct into *)ctx)->list;
    uint64_t hash = list_number_id(list, made->id);

    for (int order = 1; order <= made->gradient; order++) {
        struct listed *l = list_add(list, SUITE_GRADIENT);
        snprintf(l->id, sizeof l->id, "%.*s%s", CASE_ID - 8, made->id,
                 order == 2 ? "/second" : "");
        l->hash = order == 1 ? hash : 0;
        l->kernel = case_copy(made);
        l->kernel->gradient = order;
    }
    free(made);
}

/* Chooses the dtype of each type variable: f64 if the variable has it, else c128, else i64
 * (indices), else the first dtype that it has. */
static void gradient_dtypes(const struct bp_opinfo *op, uint32_t *dtype)
{
    for (int v = 0; v < BP_VAR_COUNT; v++) {
        uint64_t types = op->types[v];
        dtype[v] = types >> BP_F64 & 1    ? (uint32_t)BP_F64
                   : types >> BP_C128 & 1 ? (uint32_t)BP_C128
                                          : (uint32_t)BP_I64;
        for (uint32_t t = 0; t < 64 && types && !(types >> dtype[v] & 1); t++)
            if (types >> t & 1) dtype[v] = t;
        if (!types) dtype[v] = dtype[0];
    }
}

/* Whether the device cannot run the operator at all, so that one note replaces its cases. */
static bool lacks_operator(struct fixture *fixture, const struct bp_opinfo *op, uint32_t dtype,
                           const struct kernel_case *made, char *text, size_t size)
{
    if (needs_no_row(op) || kernel_has_row(fixture->device, op->name, dtype)) return false;
    if (op->flags & BP_OP_EXPAND) return parts_lack(fixture, made, text, size);
    snprintf(text, size, "the device has no row of %s for %s", op->name, bp_dtype_name(dtype));
    return true;
}

/* Adds the gradient cases of one operator. An operator with a gradient must have such a case. */
static void add_gradients_of(struct list *list, const struct bp_opinfo *op)
{
    struct into into = {.list = list, .row = -1};
    struct case_builder builder = {.op = conform_op(op->name),
                               .row_flags = BP_KERNEL_STRIDED,
                               .gradients = true,
                               .defaults = op->defaults,
                               .attrs_size = op->attrs_size,
                               .seed = list->fixture->seed,
                               .made = add_gradient,
                               .ctx = &into};
    size_t before = list->n;
    char text[160];

    if (!builder.op || builder.op->nodiff || !(builder.op->grad || builder.op->decompose)) return;
    gradient_dtypes(op, builder.dtype);
    builder.op->cases(&builder);
    if (list->n == before)
        add_note(list, SUITE_GRADIENT, OUTCOME_FAIL,
                 "no gradient case: it has a gradient, but its family marks no case "
                 "(case_smooth, case_gradient of ops/common/cases.h)",
                 "gradient/%s", op->name);
    else if (lacks_operator(list->fixture, op, builder.dtype[0], list->at[before].kernel, text,
                            sizeof text)) {
        while (list->n > before) free(list->at[--list->n].kernel);
        add_note(list, SUITE_GRADIENT, OUTCOME_UNSUPPORTED, text, "gradient/%s", op->name);
    }
}

static void add_gradients(struct list *list)
{
    struct bp_device_properties p = {.size = sizeof p};

    if (bp_device_get_properties(list->fixture->device, &p)) return;
    if (!(p.dtypes >> BP_F64 & 1)) {
        if (!list_unit_begin(list, SUITE_GRADIENT, "f64")) return;
        add_note(list, SUITE_GRADIENT, OUTCOME_UNSUPPORTED,
                 "the device does not hold f64, in which gradients are compared", "gradient/f64");
        return;
    }
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        if (list_unit_begin(list, SUITE_GRADIENT, op->name)) add_gradients_of(list, op);
    }
}

/* Whether the operator already has cases of the suite stress. */
static bool is_stressed(const struct list *list, const char *op)
{
    char id[64];
    size_t n = (size_t)snprintf(id, sizeof id, "%s/%s/", suite_name(SUITE_STRESS), op);

    for (size_t i = list->first; i < list->n; i++)
        if (!strncmp(list->at[i].id, id, n)) return true;
    return false;
}

static void add_stressed(void *ctx, struct kernel_case *made)
{
    struct into *into = ctx;
    struct listed *l = list_add(into->list, SUITE_STRESS);

    snprintf(l->id, sizeof l->id, "%s%s", suite_name(SUITE_STRESS), strchr(made->id, '/'));
    l->kernel = made;
}

/* Adds stress cases of the first kernel row of an operator that supports f32. The other type
 * variables have f32 if they can, else i64, else the first dtype that the row supports. */
static void add_stress_of(struct list *list, const struct bp_kernel_info *info,
                          const struct bp_opinfo *op)
{
    struct into into = {.list = list, .row = -1};
    struct case_builder builder = {.op = conform_op(op->name),
                               .row = info->name,
                               .row_flags = info->flags,
                               .defaults = op->defaults,
                               .attrs_size = op->attrs_size,
                               .seed = list->fixture->seed,
                               .made = add_stressed,
                               .ctx = &into};
    uint64_t of_row[BP_VAR_COUNT];

    if (!builder.op || !(info->types[0] >> BP_F32 & 1)) return;
    list_row_types(op, info, of_row);
    for (int v = 0; v < BP_VAR_COUNT; v++) {
        uint64_t types = of_row[v];
        builder.dtype[v] = types >> BP_F32 & 1 ? (uint32_t)BP_F32 : (uint32_t)BP_I64;
        for (uint32_t t = 0; t < 64 && types && !(types >> builder.dtype[v] & 1); t++)
            if (types >> t & 1) builder.dtype[v] = t;
        if (!types) builder.dtype[v] = builder.dtype[0];
    }
    cases_stress(&builder);
}

static void add_stress(struct list *list)
{
    for (uint32_t i = 0; i < bp_device_kernels(list->fixture->device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        const struct bp_opinfo *op;
        if (bp_device_kernel(list->fixture->device, i, &info) || *info.reason) continue;
        op = bp_opinfo_find(info.op);
        if (op && !is_stressed(list, op->name)) add_stress_of(list, &info, op);
    }
    add_checks(list, SUITE_STRESS, suite_stress_large);
}

static void add_rest(struct list *list)
{
    add_checks(list, SUITE_RUNTIME, suite_runtime_device);
    add_checks(list, SUITE_RUNTIME, suite_runtime_stream);
    add_checks(list, SUITE_RUNTIME, suite_runtime_event);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_order);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_wait);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_launch);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_failure);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_other);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_pair);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_callback);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_graph);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_program);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_program_other);
    add_kinds(list, SUITE_RUNTIME, suite_runtime_program_random);
    add_checks(list, SUITE_MEMORY, suite_memory_tensor);
    add_checks(list, SUITE_MEMORY, suite_memory_use);
    add_checks(list, SUITE_MEMORY, suite_memory_stats);
    add_checks(list, SUITE_MEMORY, suite_memory_space);
    add_checks(list, SUITE_MEMORY, suite_memory_returned);
    add_checks(list, SUITE_MEMORY, suite_memory_plans);
    add_checks(list, SUITE_MEMORY, suite_memory_folded);
    add_kinds(list, SUITE_MEMORY, suite_memory_order);
    add_roundtrips(list);
}

static void add_ccl(void *ctx, const struct ccl_case *k, bool quick, const char *id)
{
    struct listed *l = list_add(ctx, SUITE_CCL);

    snprintf(l->id, sizeof l->id, "%s/%s", suite_name(SUITE_CCL), id);
    l->run = ccl_case_run;
    ccl_pack(k, l->arg);
    l->quick = quick;
}

static const struct conform_cases *brought;

void conform_bring(const struct conform_cases *cases)
{
    brought = cases;
}

bool conform_brings(void)
{
    return brought != NULL;
}

static void run_brought(struct check *c, const int64_t *arg)
{
    brought->run(brought->ctx, (size_t)*arg, c);
}

static void add_brought(struct list *list)
{
    const char *id;

    for (size_t i = 0; (id = brought->id(brought->ctx, i)); i++) {
        struct listed *l = list_add(list, SUITE_ONNX);
        snprintf(l->id, sizeof l->id, "%s/%s", suite_name(SUITE_ONNX), id);
        l->run = run_brought;
        l->arg[0] = (int64_t)i;
    }
}

void list_init(struct list *list, struct fixture *fixture, int unit, const struct selection *wanted)
{
    *list = (struct list){.unit = 0, .only = unit, .fixture = fixture, .wanted = wanted};
    if (unit == LIST_ALL || unit == 0) {
        if (brought) {
            add_brought(list);
            return;
        }
        add_checks(list, SUITE_PLUGIN, suite_plugin);
        if (fixture->device) add_rest(list);
    }
    if (!fixture->device || unit == 0) return;
    if (list_unit_begin(list, SUITE_STRESS, NULL)) add_stress(list);
    if (list_unit_begin(list, SUITE_CCL, NULL)) cases_ccl(add_ccl, list);
    add_rows(list);
    add_gradients(list);
    list_add_passes(list);
    list_add_networks(list);
}

void list_finish(struct list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->at[i].kernel);
        free(list->at[i].of_twice);
        free(list->at[i].message);
    }
    free(list->at);
    free(list->row);
    *list = (struct list){0};
}
