/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: makes the list of cases. */
#include "list.h"
#include "suites/suites.h"
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
};

static void add_kernel(void *ctx, struct kernel_case *made)
{
    struct into *into = ctx;
    struct listed *l = add(into->list, SUITE_KERNEL);

    snprintf(l->id, sizeof l->id, "%s", made->id);
    l->kernel = made;
    l->row = into->row;
    l->quick = made->quick;
}

/* A line in the report for what cannot be run. */
static void add_note(struct list *list, const char *op, const char *row, enum outcome outcome,
                     const char *message)
{
    struct listed *l = add(list, SUITE_KERNEL);

    snprintf(l->id, sizeof l->id, "kernel/%s%s%s", op, *row ? "@" : "", row);
    l->outcome = outcome;
    l->message = message;
}

/* All dtypes that the row takes, with all others of a second type variable. */
static void add_row(struct list *list, const struct bp_kernel_info *info,
                    const struct bp_opinfo *op, int row)
{
    struct into into = {list, row};
    struct case_maker maker = {.op = conform_op(op->name),
                               .row = info->name,
                               .row_flags = info->flags,
                               .defaults = op->defaults,
                               .attrs_size = op->attrs_size,
                               .made = add_kernel,
                               .ctx = &into};

    for (uint32_t t = 0; t < 64; t++) {
        if (!(info->types[0] >> t & 1) || !num_type(t)) continue;
        for (uint32_t u = 0; u < 64; u++) {
            if (op->types[1] ? !(info->types[1] >> u & 1) || !num_type(u) : u != t) continue;
            maker.dtype[0] = t;
            maker.dtype[1] = u;
            maker.op->cases(&maker);
        }
    }
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
        if (*info.reason) add_note(list, info.op, info.name, OUTCOME_SKIP, info.reason);
        else if (op && conform_op(op->name)) add_row(list, &info, op, (int)list->n_row);
        list->n_row++;
    }
    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const char *op = bp_opinfo_at(i)->name;
        bool found = false;
        for (size_t r = 0; r < list->n_row; r++) found = found || !strcmp(list->row[r].op, op);
        if (!found)
            add_note(list, op, "", OUTCOME_UNSUPPORTED, "the device has no row for this operator");
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
    add_checks(list, SUITE_MEMORY, suite_memory_tensor);
    add_checks(list, SUITE_MEMORY, suite_memory_use);
    add_roundtrips(list);
    add_rows(list, device);
}

void list_finish(struct list *list)
{
    for (size_t i = 0; i < list->n; i++) free(list->at[i].kernel);
    free(list->at);
    free(list->row);
    *list = (struct list){0};
}
