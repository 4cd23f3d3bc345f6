/* SPDX-License-Identifier: Apache-2.0 */
/* pass_clean.c: removes nodes whose results nothing reads, nodes that compute what another one has
 * computed (common subexpressions), and nodes that return their input unchanged. */
#include "passes.h"

#include <backplane/ops.h>

#include <stdlib.h>
#include <string.h>

/* ---- dead nodes ---- */

/* Whether nothing reads a node's results. A node without a result is kept for its effect. */
static bool is_unread(const struct bp_ir *ir, const struct bp_node *node)
{
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE && ir->value[node->out[i]].uses) return false;
    return true;
}

/* The numbers of later random nodes do not change: bp_ir_node.random_at. */
static void remove_unread(struct bp_compilation *c)
{
    struct bp_ir *ir = c->ir;

    for (uint32_t n = ir->last, previous; n != BP_NO_VALUE; n = previous) {
        const struct bp_node *node = &ir->node[n].call;
        previous = ir->node[n].previous;
        if (node->row->updates || !is_unread(ir, node)) continue;
        bp_ir_kill(ir, n);
        c->changes++;
    }
}

/* ---- values that are equal ---- */

bool bp_value_may_become(const struct bp_ir *ir, uint32_t v, uint32_t by)
{
    return v != by && bp_ir_is_stable(ir, v) && bp_ir_is_stable(ir, by) &&
           !ir->value[ir->value[v].root].returned;
}

static uint64_t hash_mix(uint64_t h, uint64_t word)
{
    return (h ^ word) * UINT64_C(0x9e3779b97f4a7c15) ^ h >> 29;
}

/* Adds an attribute to a hash: its words, or the entries of its list. */
static uint64_t attr_hash(uint64_t h, const struct bp_attr *a, const void *attrs)
{
    const char *field = (const char *)attrs + a->offset;
    struct bp_dims list;

    if (a->kind != BP_ATTR_DIMS) {
        for (uint32_t i = 0; i < a->count; i++) h = hash_mix(h, bp_attrs_word(field, i));
        return h;
    }
    memcpy(&list, field, sizeof list);
    for (int64_t i = 0; i < list.n; i++) h = hash_mix(h, (uint64_t)list.at[i]);
    return hash_mix(h, (uint64_t)list.n);
}

static uint64_t node_hash(const struct bp_ir *ir, const struct bp_node *node)
{
    uint64_t h = hash_mix((uintptr_t)node->row, node->n_out);

    for (uint32_t i = 0; i < node->n_in; i++)
        h = hash_mix(h, node->in[i] == BP_NO_VALUE ? BP_NO_VALUE : bp_ir_same(ir, node->in[i]));
    for (uint32_t i = 0; node->attrs && i < node->row->info.n_attr; i++)
        h = attr_hash(h, &node->row->info.attr[i], node->attrs);
    return h;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

static bool same_call(const struct bp_ir *ir, const struct bp_node *a, const struct bp_node *b)
{
    if (a->row != b->row || a->n_in != b->n_in || a->n_out != b->n_out ||
        memcmp(a->in_at, b->in_at, (a->row->info.n_in + 1u) * sizeof *a->in_at) ||
        !same_text(a->kernel, b->kernel))
        return false;
    for (uint32_t i = 0; i < a->n_in; i++) {
        bool absent = a->in[i] == BP_NO_VALUE || b->in[i] == BP_NO_VALUE;
        if (absent ? a->in[i] != b->in[i] : bp_ir_same(ir, a->in[i]) != bp_ir_same(ir, b->in[i]))
            return false;
    }
    return bp_attrs_same(&a->row->info, a->attrs, b->attrs);
}

static bool may_merge(const struct bp_ir *ir, const struct bp_node *node,
                      const struct bp_node *first)
{
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE && !bp_ir_is_stable(ir, bp_ir_same(ir, node->in[i])))
            return false;
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE && first->out[i] != BP_NO_VALUE &&
            !bp_value_may_become(ir, node->out[i], first->out[i]))
            return false;
    return true;
}

enum bp_status bp_node_table_init(const struct bp_ir *ir, struct bp_node_table *table)
{
    uint32_t room = 16;

    while (room < 2 * ir->n_node) room *= 2;
    table->slot = malloc(room * sizeof *table->slot);
    if (!table->slot) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    memset(table->slot, 0xff, room * sizeof *table->slot);
    table->mask = room - 1;
    return BP_OK;
}

void bp_node_table_finish(struct bp_node_table *table)
{
    free(table->slot);
    table->slot = NULL;
}

uint32_t bp_node_table_find(const struct bp_ir *ir, const struct bp_node_table *table,
                            const struct bp_node *node, uint32_t *out_at)
{
    uint32_t at = (uint32_t)node_hash(ir, node) & table->mask;

    for (; table->slot[at] != BP_NO_VALUE; at = (at + 1) & table->mask)
        if (same_call(ir, node, &ir->node[table->slot[at]].call)) break;
    *out_at = at;
    return table->slot[at];
}

/* Replaces the results of a node by those of an earlier node that computes the same. A result that
 * is wanted of the later node only becomes one of the earlier node. */
static void node_merge(struct bp_ir *ir, uint32_t n, uint32_t first)
{
    struct bp_node *node = &ir->node[n].call, *to = &ir->node[first].call;

    for (uint32_t i = 0; i < node->n_out; i++) {
        if (node->out[i] == BP_NO_VALUE) continue;
        if (to->out[i] != BP_NO_VALUE) {
            bp_ir_forward(ir, node->out[i], to->out[i]);
            continue;
        }
        to->out[i] = node->out[i];
        ir->value[node->out[i]].node = first;
    }
    to->want |= node->want;
    bp_ir_add_sources(ir, first, n);
    bp_ir_kill(ir, n);
}

static enum bp_status merge_equal(struct bp_compilation *c)
{
    struct bp_ir *ir = c->ir;
    struct bp_node_table table;

    TRY(bp_node_table_init(ir, &table));
    for (uint32_t n = ir->first, next; n != BP_NO_VALUE; n = next) {
        const struct bp_node *node = &ir->node[n].call;
        uint32_t first, at;
        next = ir->node[n].next;
        if (!bp_ir_is_pure(node)) continue;
        first = bp_node_table_find(ir, &table, node, &at);
        if (first == BP_NO_VALUE) {
            table.slot[at] = n;
        } else if (may_merge(ir, node, &ir->node[first].call)) {
            node_merge(ir, n, first);
            c->changes++;
        }
    }
    bp_node_table_finish(&table);
    return BP_OK;
}

/* ---- identities ---- */

static bool same_types(const struct bp_ir *ir, uint32_t a, uint32_t b)
{
    return bp_same_type(&ir->value[a].type->view, &ir->value[b].type->view);
}

static bool keeps_order(const struct bp_node *node, uint32_t rank)
{
    const struct bp_transpose_attrs *attrs = node->attrs;

    if (!attrs->perm.n) return rank < 2; /* the default reverses the axes */
    for (int64_t i = 0; i < attrs->perm.n; i++)
        if (attrs->perm.at[i] != i && attrs->perm.at[i] + (int64_t)rank != i) return false;
    return true;
}

/* Whether the result of a node of one input equals that input, also in its layout. A result of the
 * same type by reshape, expand and cast has all elements at their places. */
static bool is_identity(const struct bp_ir *ir, const struct bp_node *node)
{
    static const enum bp_row_number same[] = {BP_ROW_reshape, BP_ROW_expand,    BP_ROW_cast,
                                              BP_ROW_squeeze, BP_ROW_unsqueeze, BP_ROW_flatten};
    uint32_t row = bp_opdef_number(node->row);

    if (node->n_out != 1 || !node->n_in || node->in[0] == BP_NO_VALUE ||
        node->out[0] == BP_NO_VALUE || !same_types(ir, node->in[0], node->out[0]))
        return false;
    if (row == BP_ROW_transpose)
        return keeps_order(node, ir->value[node->in[0]].type->view.rank);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (row == same[i]) return true;
    return false;
}

static void remove_identities(struct bp_compilation *c)
{
    struct bp_ir *ir = c->ir;

    for (uint32_t n = ir->first, next; n != BP_NO_VALUE; n = next) {
        const struct bp_node *node = &ir->node[n].call;
        next = ir->node[n].next;
        if (!is_identity(ir, node)) continue;
        if (!bp_value_may_become(ir, node->out[0], bp_ir_same(ir, node->in[0]))) continue;
        bp_ir_forward(ir, node->out[0], node->in[0]);
        bp_ir_kill(ir, n);
        c->changes++;
    }
}

enum bp_status bp_pass_clean(struct bp_compilation *c)
{
    remove_identities(c);
    TRY(merge_equal(c));
    remove_unread(c);
    return BP_OK;
}
