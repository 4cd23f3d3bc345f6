/* SPDX-License-Identifier: Apache-2.0 */
/* pass_plugin.c: replaces the matches of one pattern of a plugin. The core checks what a plugin
 * cannot know or may get wrong: the order of execution, types, aliases, and whether the device runs
 * the result. */
#include "passes.h"
#include "plugin_match.h"
#include "rewrite.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOVED_MOST = 64, /* nodes outside a match that have to run after it */
    ROUNDS = 8,      /* without fewer nodes */
    ATTR_WORDS = 64, /* of an attribute struct */
    GIVEN = BP_WANT_VALUES + BP_GIVE_NODES
};

/* A match that is being replaced. */
struct swap {
    struct bp_ir *ir;
    struct bp_plugin_pattern *p;
    struct bp_plugin_match m;
    uint32_t node[BP_WANT_NODES], n_node; /* of the match, in the order of execution */
    uint32_t moved[MOVED_MOST], n_moved;  /* nodes between these that read results of the match */
    struct bp_rewrite rw;
    struct bp_tensor *made[GIVEN]; /* owned: results of the new nodes, by their indices */
    uint64_t attrs[BP_GIVE_NODES][ATTR_WORDS];
};

/* Warns once about a match of this pattern that had to be refused. */
static void swap_warn(const struct swap *s, const char *why)
{
    if (atomic_exchange(&s->p->warned, true)) return;
    bp_core_log(s->ir->device->core, BP_LOG_WARN, "pattern %s is refused at node %s: %s",
                s->p->name, s->ir->node[s->node[s->n_node - 1]].call.name, why);
}

/* ---- order ---- */

static bool list_has(const uint32_t *list, uint32_t n, uint32_t node)
{
    for (uint32_t i = 0; i < n; i++)
        if (list[i] == node) return true;
    return false;
}

/* Whether a node reads a result of one of these nodes. */
static bool reads_result(const struct bp_ir *ir, const struct bp_node *node, const uint32_t *list,
                         uint32_t n)
{
    for (uint32_t i = 0; i < node->n_in; i++) {
        const struct bp_ir_value *value;
        if (node->in[i] == BP_NO_VALUE) continue;
        value = &ir->value[bp_ir_same(ir, node->in[i])];
        if (value->kind == BP_VALUE_RESULT && list_has(list, n, value->node)) return true;
    }
    return false;
}

/* Lists the nodes of the match in the order of execution, and the nodes between them that read its
 * results. false: one of these computes what the match reads, or must stay where it is. */
static bool swap_order(struct swap *s)
{
    const struct bp_ir *ir = s->ir;
    uint32_t all = 0;

    for (uint32_t i = 0; i < s->p->row.n_node; i++) all += s->m.node[i] != BP_NO_VALUE;
    s->n_node = s->n_moved = 0;
    for (uint32_t n = ir->first; n != BP_NO_VALUE && s->n_node < all; n = ir->node[n].next) {
        const struct bp_node *node = &ir->node[n].call;
        bool after = s->n_node && (reads_result(ir, node, s->moved, s->n_moved) ||
                                   (!list_has(s->m.node, s->p->row.n_node, n) &&
                                    reads_result(ir, node, s->node, s->n_node)));
        if (list_has(s->m.node, s->p->row.n_node, n)) {
            if (after) return false;
            s->node[s->n_node++] = n;
        } else if (after) {
            if (s->n_moved == MOVED_MOST || !bp_rewrite_may_move(ir, node)) return false;
            s->moved[s->n_moved++] = n;
        }
    }
    return s->n_node == all;
}

/* ---- the result ---- */

/* The tensor for an index of a list of inputs. */
static enum bp_status swap_input(struct swap *s, int16_t index, struct bp_tensor **out)
{
    *out = NULL;
    if (index == BP_NO_INDEX) return BP_OK;
    if (index >= (int32_t)s->p->row.n_value) {
        *out = s->made[BP_WANT_VALUES + index - (int32_t)s->p->row.n_value];
        return BP_OK;
    }
    *out = s->made[index];
    return *out ? BP_OK : bp_rewrite_in(&s->rw, s->m.value[index], out);
}

/* Writes the inputs of node g of the result as a flat list. */
static enum bp_status swap_inputs(struct swap *s, const struct bp_give_node *give,
                                  struct bp_tensor **flat, uint32_t *out_n)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < give->n_in; i++) {
        if (give->in[i] != BP_REST) {
            TRY(swap_input(s, give->in[i], &flat[n++]));
            continue;
        }
        for (uint32_t k = 0; k < s->m.n_rest; k++)
            TRY(bp_rewrite_in(&s->rw, s->m.rest[k], &flat[n++]));
    }
    *out_n = n;
    return BP_OK;
}

static enum bp_status swap_record_node(struct swap *s, uint32_t g)
{
    struct bp_tensor *flat[BP_WANT_VALUES + BP_REST_MAX], *out[BP_PORT_MAX] = {NULL};
    const struct bp_give_node *give = &s->p->row.give[g];
    const struct bp_opdef *row = s->p->give[g];
    struct bp_arg arg[BP_PORT_MAX];
    const struct bp_call call = {.size = sizeof call,
                                 .op = row->info.name,
                                 .in = arg,
                                 .n_in = row->info.n_in,
                                 .attrs = row->info.attrs_size ? s->attrs[g] : NULL};
    uint8_t want[BP_PORT_MAX];
    uint32_t n;

    for (uint32_t i = 0; i < give->n_out; i++)
        want[i] = give->out[i] != BP_NO_INDEX ||
                  (!row->varies && row->info.out[i].kind != BP_PORT_OPTOUT);
    TRY(swap_inputs(s, give, flat, &n));
    bp_rewrite_args(row, flat, n, arg);
    TRY(bp_graph_trace(s->rw.graph, row, &call, out, give->n_out, want));
    for (uint32_t i = 0; i < give->n_out; i++) {
        int32_t v = give->out[i], n_value = (int32_t)s->p->row.n_value;
        if (v == BP_NO_INDEX) bp_tensor_destroy(out[i]);
        else s->made[v < n_value ? v : BP_WANT_VALUES + v - n_value] = out[i];
    }
    return BP_OK;
}

static enum bp_status swap_record(struct swap *s)
{
    for (uint32_t g = 0; g < s->p->row.n_give; g++) TRY(swap_record_node(s, g));
    return BP_OK;
}

/* ---- checks ---- */

/* The value of the IR that output i of the pattern replaces. */
static const struct bp_ir_value *swap_replaced(const struct swap *s, uint32_t i)
{
    return &s->ir->value[s->m.value[s->p->row.out[i]]];
}

static bool types_agree(struct swap *s)
{
    for (uint32_t i = 0; i < s->p->row.n_out; i++) {
        uint32_t v;
        if (bp_graph_value_of(s->rw.graph, s->made[s->p->row.out[i]], &v)) return false;
        if (bp_same_type(&s->rw.graph->value[v].type->view, &swap_replaced(s, i)->type->view))
            continue;
        swap_warn(s, "the result has another dtype or shape than the value that it replaces");
        return false;
    }
    return true;
}

/* A value that the app gets, and that is no view, must not become a view of something else. */
static bool roots_agree(struct swap *s)
{
    for (uint32_t i = 0; i < s->p->row.n_out; i++) {
        const struct bp_ir_value *old = swap_replaced(s, i);
        uint32_t v;
        if (bp_graph_value_of(s->rw.graph, s->made[s->p->row.out[i]], &v)) return false;
        if (s->ir->value[old->root].returned && bp_rewrite_is_view(s->rw.graph, v)) return false;
    }
    return true;
}

/* ---- the pass ---- */

static bool swap_fits(const struct swap *s)
{
    uint32_t values = s->m.n_rest;

    for (uint32_t v = 0; v < s->p->row.n_value; v++)
        values += s->m.value[v] != BP_NO_VALUE && !(s->p->made >> v & 1);
    return values <= BP_REWRITE_IN;
}

/* Moves the nodes that read results of the match behind its last node. */
static void swap_move(struct swap *s)
{
    uint32_t after = s->ir->node[s->node[s->n_node - 1]].next; /* BP_NO_VALUE: the end */

    for (uint32_t i = 0; i < s->n_moved; i++) bp_ir_move_before(s->ir, s->moved[i], after);
}

/* Puts the recorded result in the place of the match. Takes over the results' tensors. */
static bool swap_end(struct swap *s)
{
    struct bp_tensor *result[BP_PORT_MAX];
    uint32_t value[BP_PORT_MAX];

    swap_move(s);
    for (uint32_t i = 0; i < s->p->row.n_out; i++) {
        result[i] = s->made[s->p->row.out[i]];
        value[i] = s->m.value[s->p->row.out[i]];
        s->made[s->p->row.out[i]] = NULL;
    }
    for (uint32_t i = 0; i < GIVEN; i++) bp_tensor_destroy(s->made[i]);
    return bp_rewrite_end_all(&s->rw, result, value, s->p->row.n_out) == BP_OK;
}

static bool swap_run(struct swap *s)
{
    void *attrs[BP_GIVE_NODES];
    enum bp_status status;

    if (!swap_order(s) || !swap_fits(s)) return false;
    for (uint32_t g = 0; g < s->p->row.n_give; g++) {
        bp_give_attrs_fill(s->ir, s->p, g, &s->m, s->attrs[g]);
        attrs[g] = s->p->give[g]->info.attrs_size ? s->attrs[g] : NULL;
    }
    if (!bp_plugin_match_accepted(s->ir, s->p, &s->m, s->node, s->n_node, attrs)) return false;
    if (bp_rewrite_begin(&s->rw, s->ir, s->node, s->n_node)) return false;
    memset(s->made, 0, sizeof s->made);
    status = swap_record(s);
    if (status) swap_warn(s, bp_error_message());
    if (!status && types_agree(s) && roots_agree(s) &&
        bp_rewrite_runs(s->ir, s->rw.graph))
        return swap_end(s);
    for (uint32_t i = 0; i < GIVEN; i++) bp_tensor_destroy(s->made[i]);
    bp_rewrite_cancel(&s->rw);
    return false;
}

/* Visits the nodes from the last to the first. New nodes are visited in the next round only. */
static uint32_t plugin_round(struct swap *s)
{
    struct bp_ir *ir = s->ir;
    uint32_t found = 0, n = ir->last;

    while (n != BP_NO_VALUE) {
        uint32_t first = ir->n_node;
        if (bp_plugin_match_find(ir, s->p, n, &s->m) && swap_run(s)) {
            found++;
            n = ir->node[first].previous;
        } else {
            n = ir->node[n].previous;
        }
    }
    bp_ir_resolve(ir);
    return found;
}

static void plugin_rounds(struct bp_compilation *c, struct swap *s)
{
    uint32_t still = 0, found = 1, before;

    while (found && !atomic_load(&s->p->stopped)) {
        before = c->ir->living;
        found = plugin_round(s);
        c->changes += found;
        still = c->ir->living < before ? 0 : still + 1;
        if (!found || still < ROUNDS) continue;
        atomic_store(&s->p->stopped, true);
        bp_core_log(c->ir->device->core, BP_LOG_WARN,
                    "pattern %s is not used any more: it matches its own result", s->p->name);
    }
}

enum bp_status bp_pass_plugin(struct bp_compilation *c)
{
    char *before = strdup(bp_error_message());
    struct swap *s = calloc(1, sizeof *s);

    if (before && s && (c->pattern->row.allow & ~c->ir->allow) == 0) {
        s->ir = c->ir;
        s->p = c->pattern;
        plugin_rounds(c, s);
    }
    if (before) bp_error_write("%s", before);
    free(before);
    free(s);
    return before && s ? BP_OK : bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}
