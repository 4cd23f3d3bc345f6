/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: makes the list of cases. */
#include "list.h"
#include "suites/suites.h"
#include <backplane/kernel.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *suite_name(enum suite suite)
{
    static const char *const name[] = {
#define X(NAME, name) #name,
        CONFORM_SUITES(X)
#undef X
    };
    return name[suite];
}

static struct listed *add(struct list *list, enum suite suite)
{
    if (list->n == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->at = realloc(list->at, list->room * sizeof *list->at);
        if (!list->at) abort();
    }
    list->at[list->n] = (struct listed){.suite = suite, .row = -1, .quick = true};
    return &list->at[list->n++];
}

static void add_checks(struct list *list, enum suite suite, const struct check_case *checks)
{
    for (; checks->id; checks++) {
        struct listed *l = add(list, suite);
        snprintf(l->id, sizeof l->id, "%s/%s", suite_name(suite), checks->id);
        l->run = checks->run;
    }
}

static const char *kind_name(int64_t kind)
{
    return kind == BP_STREAM_INLINE ? "inline" : "async";
}

/* A device that works behind the host's back has no inline streams. */
static void add_kinds(struct list *list, enum suite suite, struct bp_device *device,
                      const struct check_kinds *checks)
{
    static const int64_t kinds[] = {BP_STREAM_ASYNC, BP_STREAM_INLINE};
    struct bp_device_properties p = {.size = sizeof p};
    size_t n = !bp_device_properties(device, &p) && p.flags & BP_DEVICE_INLINE ? 2 : 1;

    for (; checks->id; checks++)
        for (size_t i = 0; i < n * (checks->streams > 1 ? n : 1); i++) {
            struct listed *l = add(list, suite);
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

    for (uint32_t dtype = 0; num_type(dtype); dtype++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct listed *l = add(list, SUITE_MEMORY);
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
    struct bp_device *device;
};

/* A line in the report for what cannot be run: kernel/<op>@<row>, or kernel/<op>/<dtype>@none. */
static void add_note(struct list *list, enum outcome outcome, const char *message,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
static void add_note(struct list *list, enum outcome outcome, const char *message,
                     const char *format, ...)
{
    struct listed *l = add(list, SUITE_KERNEL);
    va_list args;

    va_start(args, format);
    vsnprintf(l->id, sizeof l->id, format, args);
    va_end(args);
    l->outcome = outcome;
    l->message = strdup(message);
    if (!l->message) abort();
}

/* A case for which the device lacks a row is no case: one line stands for all of its operator and
 * dtype. */
static bool is_lacking(struct into *into, const struct kernel_case *made)
{
    const char *dtype = num_type(made->in[0].dtype)->name;
    char text[160], id[96];

    if (!kernel_case_lacks(into->device, made, text, sizeof text)) return false;
    snprintf(id, sizeof id, "kernel/%s/%s@none", made->op->name, dtype);
    for (size_t i = 0; i < into->list->n; i++)
        if (!strcmp(into->list->at[i].id, id)) return true;
    add_note(into->list, OUTCOME_UNSUPPORTED, text, "%s", id);
    return true;
}

static void add_kernel(void *ctx, struct kernel_case *made)
{
    struct into *into = ctx;
    struct listed *l;

    if (is_lacking(into, made)) {
        free(made);
        return;
    }
    l = add(into->list, SUITE_KERNEL);
    snprintf(l->id, sizeof l->id, "%s", made->id);
    l->kernel = made;
    l->row = into->row;
    l->quick = made->quick;
}

/* All dtypes of the first type variable with all others of a second. */
static void add_dtypes(struct case_maker *maker, const struct bp_opinfo *op, const uint64_t *types)
{
    for (uint32_t t = 0; t < 64; t++) {
        if (!(types[0] >> t & 1) || !num_type(t)) continue;
        for (uint32_t u = 0; u < 64; u++) {
            if (op->types[1] ? !(types[1] >> u & 1) || !num_type(u) : u != t) continue;
            maker->dtype[0] = t;
            maker->dtype[1] = u;
            maker->op->cases(maker);
        }
    }
}

/* What the row takes. */
static void add_row(struct list *list, struct bp_device *device,
                    const struct bp_kernel_info *info, const struct bp_opinfo *op, int row)
{
    struct into into = {list, row, device};
    struct case_maker maker = {.op = conform_op(op->name),
                               .row = info->name,
                               .row_flags = info->flags,
                               .defaults = op->defaults,
                               .attrs_size = op->attrs_size,
                               .made = add_kernel,
                               .ctx = &into};

    add_dtypes(&maker, op, info->types);
}

/* An operator that needs no row: what the device holds. */
static void add_rowless(struct list *list, struct bp_device *device, const struct bp_opinfo *op)
{
    struct bp_device_properties properties = {.size = sizeof properties};
    struct into into = {list, -1, device};
    struct case_maker maker = {.op = conform_op(op->name),
                               .row_flags = BP_KERNEL_STRIDED,
                               .defaults = op->defaults,
                               .attrs_size = op->attrs_size,
                               .made = add_kernel,
                               .ctx = &into};
    uint64_t types[4];

    if (bp_device_properties(device, &properties)) return;
    for (int i = 0; i < 4; i++) types[i] = op->types[i] & properties.dtypes;
    add_dtypes(&maker, op, types);
}

static void add_rows(struct list *list, struct bp_device *device)
{
    uint32_t n = bp_device_kernels(device);

    list->row = calloc(n + 1, sizeof *list->row);
    if (!list->row) abort();
    for (uint32_t i = 0; i < n; i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        const struct bp_opinfo *op;
        if (bp_device_kernel(device, i, &info)) continue;
        list->row[list->n_row] = (struct list_row){info.name, info.op, !*info.reason};
        op = bp_opinfo_find(info.op);
        if (*info.reason)
            add_note(list, OUTCOME_SKIP, info.reason, "kernel/%s@%s", info.op, info.name);
        else if (op && conform_op(op->name)) add_row(list, device, &info, op, (int)list->n_row);
        list->n_row++;
    }
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        bool found = false;
        for (size_t r = 0; r < list->n_row; r++)
            found = found || !strcmp(list->row[r].op, op->name);
        if (found) continue;
        if (op->flags & (BP_OP_VIEW | BP_OP_EXPAND)) add_rowless(list, device, op);
        else
            add_note(list, OUTCOME_UNSUPPORTED, "the device has no row for this operator",
                     "kernel/%s", op->name);
    }
}

void list_init(struct list *list, struct bp_device *device)
{
    *list = (struct list){0};
    add_checks(list, SUITE_PLUGIN, suite_plugin);
    if (!device) return;
    add_checks(list, SUITE_RUNTIME, suite_runtime_device);
    add_checks(list, SUITE_RUNTIME, suite_runtime_stream);
    add_checks(list, SUITE_RUNTIME, suite_runtime_event);
    add_kinds(list, SUITE_RUNTIME, device, suite_runtime_order);
    add_kinds(list, SUITE_RUNTIME, device, suite_runtime_wait);
    add_kinds(list, SUITE_RUNTIME, device, suite_runtime_other);
    add_kinds(list, SUITE_RUNTIME, device, suite_runtime_callback);
    add_kinds(list, SUITE_RUNTIME, device, suite_runtime_graph);
    add_checks(list, SUITE_MEMORY, suite_memory_tensor);
    add_checks(list, SUITE_MEMORY, suite_memory_use);
    add_checks(list, SUITE_MEMORY, suite_memory_stats);
    add_kinds(list, SUITE_MEMORY, device, suite_memory_order);
    add_roundtrips(list);
    add_rows(list, device);
}

void list_finish(struct list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        free(list->at[i].kernel);
        free(list->at[i].message);
    }
    free(list->at);
    free(list->row);
    *list = (struct list){0};
}
