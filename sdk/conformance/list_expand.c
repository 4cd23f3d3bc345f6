/* SPDX-License-Identifier: Apache-2.0 */
/* list_expand.c: adds cases of operators that run as their decomposition: with the rows that the
 * device chooses, and with each row that could be chosen. */
#include "list_make.h"
#include "parts.h"
#include "suites/suites.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kernel row of an operator that has several rows: its index in the list of rows, and the dtypes
 * that another row supports too. */
struct rival {
    struct bp_kernel_info info;
    int row;
    uint64_t types;
    bool wanted; /* cases of the operator that is being examined need it */
    int real;    /* whether its own operator has cases of real size; -1: unknown */
};

struct rivals {
    struct rival *at;
    size_t n;
};

/* The cases of one decomposition. */
struct expansion {
    struct list *list;
    /* The row that must run as a step, in the cases of real size that need it. NULL: the rows that
     * the device chooses, in cases of real size and quick ones. */
    const struct rival *via;
};

/* Whether the row may run as a step of the case. Of an operator with several outputs, only the case
 * of the first output is used. */
static bool is_made_of(struct fixture *fixture, const struct kernel_case *made,
                       const struct rival *row)
{
    return !made->part && parts_have(fixture, made, row->info.op, row->types);
}

static void add_expanded(void *ctx, struct kernel_case *made)
{
    const struct expansion *e = ctx;
    size_t stem = strcspn(made->id, "@");
    bool wanted = made->real || (!e->via && made->quick);
    char text[160], id[CASE_ID];
    struct listed *l;

    if (!wanted || made->sweep || made->large || made->in_place || made->host ||
        (e->via && !is_made_of(e->list->fixture, made, e->via)) ||
        parts_lack(e->list->fixture, made, text, sizeof text)) {
        free(made);
        return;
    }
    snprintf(id, sizeof id, "%.*s.expanded@%s", (int)stem, made->id,
             e->via ? e->via->info.name : "none");
    snprintf(made->id, sizeof made->id, "%s", id);
    made->decompose = true;
    made->via = e->via ? e->via->info.name : NULL;
    l = list_add(e->list, SUITE_KERNEL);
    l->hash = list_number_id(e->list, made->id);
    snprintf(l->id, sizeof l->id, "%s", made->id);
    l->kernel = made;
    l->row = e->via ? e->via->row : -1;
    l->quick = made->quick;
}

static bool is_expanded(const struct bp_opinfo *op)
{
    for (uint32_t i = 0; i < op->n_out; i++)
        if (op->out[i].kind == BP_PORT_UPDATE) return false;
    return op->flags & BP_OP_EXPAND && conform_op(op->name);
}

static struct case_builder builder_of(const struct list *list, const struct bp_opinfo *op)
{
    return (struct case_builder){.op = conform_op(op->name),
                               .row_flags = BP_KERNEL_STRIDED,
                               .defaults = op->defaults,
                               .attrs_size = op->attrs_size,
                               .seed = list->fixture->seed};
}

/* Adds the cases for the dtypes that types has for each type variable. */
static void add_expansion(struct expansion *e, const struct bp_opinfo *op, const uint64_t *types)
{
    struct case_builder builder = builder_of(e->list, op);

    builder.made = add_expanded;
    builder.ctx = e;
    if (is_expanded(op)) list_add_dtypes(&builder, op, types, 0);
}

void list_add_defined(struct list *list, const struct bp_opinfo *op)
{
    struct bp_device *device = list->fixture->device;
    struct expansion e = {.list = list};
    uint64_t types[BP_VAR_COUNT] = {0}, own[BP_VAR_COUNT];

    for (uint32_t i = 0; i < bp_device_kernels(device); i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        if (bp_device_kernel(device, i, &info) || *info.reason || strcmp(info.op, op->name))
            continue;
        list_row_types(op, &info, own);
        for (int v = 0; v < BP_VAR_COUNT; v++) types[v] |= own[v];
    }
    if (types[0]) add_expansion(&e, op, types);
}

/* The rows that cases of real size need, and whether such cases exist. */
struct probe {
    struct fixture *fixture;
    struct rivals rivals;
    bool real;
};

static void note_needs(void *ctx, struct kernel_case *made)
{
    struct probe *p = ctx;

    for (size_t k = 0; k < p->rivals.n && made->real; k++)
        p->rivals.at[k].wanted |= parts_have(p->fixture, made, p->rivals.at[k].info.op, UINT64_MAX);
    p->real |= made->real;
    free(made);
}

/* Marks the rows whose operators are steps of the operator's cases of real size, in one combination
 * of dtypes: f32, else i64, else the first one that the type variable has. Returns whether the
 * operator has such cases. */
static bool find_wanted(const struct list *list, const struct bp_opinfo *op, struct rivals rivals)
{
    struct case_builder builder = builder_of(list, op);
    struct probe p = {list->fixture, rivals, false};

    builder.made = note_needs;
    builder.ctx = &p;
    for (int v = 0; v < BP_VAR_COUNT; v++) {
        uint64_t types = op->types[v];
        builder.dtype[v] = types >> BP_F32 & 1 ? (uint32_t)BP_F32 : (uint32_t)BP_I64;
        if (!types) builder.dtype[v] = builder.dtype[0];
        for (uint32_t t = 0; t < 64 && types && !(types >> builder.dtype[v] & 1); t++)
            if (types >> t & 1) builder.dtype[v] = t;
    }
    for (size_t k = 0; k < rivals.n; k++) rivals.at[k].wanted = false;
    builder.op->cases(&builder);
    return p.real;
}

/* Finds the device's rows that share a dtype with another row of the same operator. */
static struct rivals rivals_of(struct bp_device *device)
{
    uint32_t n = bp_device_kernels(device);
    struct rivals r = {calloc(n + 1, sizeof *r.at), 0};
    size_t all = 0;
    int row = 0;

    if (!r.at) abort();
    for (uint32_t i = 0; i < n; i++) {
        struct bp_kernel_info info = {.size = sizeof info};
        if (bp_device_kernel(device, i, &info) || strchr(info.op, '.')) continue; /* not listed */
        if (!*info.reason) r.at[all++] = (struct rival){.info = info, .row = row, .real = -1};
        row++;
    }
    for (size_t i = 0; i < all; i++)
        for (size_t k = 0; k < all; k++)
            if (k != i && !strcmp(r.at[i].info.op, r.at[k].info.op))
                r.at[i].types |= r.at[i].info.types[0] & r.at[k].info.types[0];
    for (size_t i = 0; i < all; i++)
        if (r.at[i].types) r.at[r.n++] = r.at[i];
    return r;
}

/* Whether the operator of a row has cases of real size, that is, whether the size decides which row
 * runs. The result is kept in all rows of the operator. */
static bool has_real(const struct list *list, const struct rivals *r, size_t at)
{
    const char *name = r->at[at].info.op;
    const struct bp_opinfo *op = bp_opinfo_find(name);
    bool known = op && conform_op(op->name);

    if (r->at[at].real >= 0) return r->at[at].real;
    bool real = known && find_wanted(list, op, (struct rivals){NULL, 0});
    for (size_t k = 0; k < r->n; k++)
        if (!strcmp(r->at[k].info.op, name)) r->at[k].real = real;
    return real;
}

static void add_inside(struct list *list, const struct bp_opinfo *op, struct rivals *r)
{
    find_wanted(list, op, *r);
    for (size_t k = 0; k < r->n; k++) {
        struct expansion e = {.list = list, .via = &r->at[k]};
        uint64_t types[BP_VAR_COUNT];
        if (!r->at[k].wanted || !strcmp(r->at[k].info.op, op->name)) continue;
        if (!has_real(list, r, k)) continue;
        for (int v = 0; v < BP_VAR_COUNT; v++) types[v] = op->types[v];
        if (types[0] & r->at[k].types) types[0] &= r->at[k].types;
        add_expansion(&e, op, types);
    }
}

void list_add_inside(struct list *list)
{
    struct rivals r = {NULL, 0};

    for (uint32_t i = 0; i < bp_opinfo_count(); i++) {
        const struct bp_opinfo *op = bp_opinfo_at(i);
        if (op->flags & BP_OP_VIEW || !is_expanded(op)) continue;
        if (!list_unit_begin(list, SUITE_KERNEL, op->name)) continue;
        if (!r.at) r = rivals_of(list->fixture->device);
        if (r.n) add_inside(list, op, &r);
    }
    free(r.at);
}
