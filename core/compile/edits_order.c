/* SPDX-License-Identifier: Apache-2.0 */
/* edits_order.c: finds an order of execution after the edits of a plugin's rewrite. Nodes that stay
 * keep their order as far as possible; a new node comes before its first reader, and where the last
 * node was that its edit removes. */
#include "edits.h"

#include <stdlib.h>

enum {
    UNSEEN,
    OPEN, /* its dependencies are being visited */
    DONE
};

/* A search in depth over nodes: those of the graph, then the new ones. */
struct ordering {
    const struct bp_edits_made *e;
    uint8_t *state;   /* of each node */
    uint32_t *cursor; /* of each node: its next dependency to visit */
    uint32_t *stack, *order;
    uint32_t *first;   /* of each node of the graph: its first place in earlier; one entry more */
    uint32_t *earlier; /* nodes that must run before, from the pairs of the graph */
    uint32_t n_node, n_order;
};

static enum bp_status order_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

static const struct bp_data_node *order_node(const struct ordering *o, uint32_t n)
{
    const struct bp_graph_data *d = &o->e->copy->data;

    return BP_ROW(struct bp_data_node, d->node, d->node_stride, n);
}

/* Finds the node that computes a value after all edits; BP_DATA_NONE: none needs to run. */
static enum bp_status order_producer(const struct ordering *o, uint32_t v, uint32_t *out_node)
{
    const struct bp_graph_data *d = &o->e->copy->data;
    const struct bp_data_value *row;

    for (uint32_t step = 0; o->e->by[v]; step++) {
        const struct bp_edit_made *edit = &o->e->edit[o->e->by[v] - 1];
        const struct bp_value *made = &edit->graph->value[o->e->result[v]];
        uint32_t at = 0;
        if (made->kind == BP_VALUE_RESULT) {
            *out_node = o->n_node + edit->first + made->node;
            return BP_OK;
        }
        if (step == d->n_value)
            return bp_error(BP_ERR_INVALID, "values are replaced by each other in a circle");
        while (edit->graph->input[at] != o->e->result[v]) at++;
        v = edit->in[at];
    }
    row = BP_ROW(struct bp_data_value, d->value, d->value_stride, v);
    *out_node = row->node;
    if (row->node == BP_DATA_NONE || !o->e->killer[row->node]) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s is read, and the node that computes it is removed",
                    row->name);
}

static const struct bp_edit_made *order_edit(const struct ordering *o, uint32_t added)
{
    uint32_t i = o->e->n_edit - 1;

    while (o->e->edit[i].first > added) i--;
    return &o->e->edit[i];
}

/* The same for input i of new node `added`. */
static enum bp_status order_producer_of_new(const struct ordering *o, uint32_t added, uint32_t i,
                                            uint32_t *out_node)
{
    const struct bp_edit_made *edit = order_edit(o, added);
    uint32_t v = edit->graph->node[added - edit->first].in[i], at = 0;

    *out_node = BP_DATA_NONE;
    if (v == BP_NO_VALUE) return BP_OK;
    if (edit->graph->value[v].kind == BP_VALUE_RESULT) {
        *out_node = o->n_node + edit->first + edit->graph->value[v].node;
        return BP_OK;
    }
    while (edit->graph->input[at] != v) at++;
    return order_producer(o, edit->in[at], out_node);
}

/* Finds dependency i of a node; false: it has fewer. */
static bool order_dependency(const struct ordering *o, uint32_t n, uint32_t i, uint32_t *out_node,
                             enum bp_status *out_status)
{
    const struct bp_data_node *row;

    *out_node = BP_DATA_NONE;
    if (n >= o->n_node) {
        const struct bp_edit_made *edit = order_edit(o, n - o->n_node);
        if (i >= edit->graph->node[n - o->n_node - edit->first].n_in) return false;
        *out_status = order_producer_of_new(o, n - o->n_node, i, out_node);
        return true;
    }
    row = order_node(o, n);
    if (i < row->n_in) {
        if (row->in[i] != BP_DATA_NONE) *out_status = order_producer(o, row->in[i], out_node);
        return true;
    }
    i -= row->n_in;
    if (i >= o->first[n + 1] - o->first[n]) return false;
    *out_node = o->earlier[o->first[n] + i];
    return true;
}

/* Lists a node behind all that it depends on. */
static enum bp_status order_visit(struct ordering *o, uint32_t root)
{
    uint32_t depth = 0;
    enum bp_status status = BP_OK;

    if (o->state[root]) return BP_OK;
    o->stack[depth++] = root;
    o->state[root] = OPEN;
    while (depth) {
        uint32_t n = o->stack[depth - 1], next;
        if (!order_dependency(o, n, o->cursor[n]++, &next, &status)) {
            o->state[n] = DONE;
            o->order[o->n_order++] = n;
            depth--;
            continue;
        }
        if (status) return status;
        if (next == BP_DATA_NONE || o->state[next] == DONE) continue;
        if (o->state[next] == OPEN)
            return bp_error(BP_ERR_INVALID, "nodes would depend on their own results");
        o->state[next] = OPEN;
        o->stack[depth++] = next;
    }
    return BP_OK;
}

/* Sorts the pairs of the graph by their second node. No pair has a node that is removed: such nodes
 * use no memory that the graph updates. */
static void order_pairs(struct ordering *o)
{
    const struct bp_graph_data *d = &o->e->copy->data;

    for (uint32_t i = 0; i < d->n_before; i++) o->first[d->before[2 * i + 1] + 1]++;
    for (uint32_t n = 0; n < o->n_node; n++) o->first[n + 1] += o->first[n];
    for (uint32_t i = d->n_before; i-- > 0;) {
        uint32_t second = d->before[2 * i + 1];
        o->earlier[o->first[second] + o->cursor[second]++] = d->before[2 * i];
    }
    for (uint32_t n = 0; n < o->n_node; n++) o->cursor[n] = 0;
}

/* Visits the new nodes of an edit in the place of the last node that it removes. */
static enum bp_status order_visit_new(struct ordering *o, uint32_t removed)
{
    const struct bp_edit_made *edit = &o->e->edit[o->e->killer[removed] - 1];

    for (uint32_t i = 0; i < edit->n_kill; i++)
        if (edit->kill[i] > removed) return BP_OK;
    for (uint32_t n = 0; n < edit->graph->n_node; n++)
        TRY(order_visit(o, o->n_node + edit->first + n));
    return BP_OK;
}

static enum bp_status order_all(struct ordering *o)
{
    const struct bp_graph_data *d = &o->e->copy->data;
    uint32_t node;

    order_pairs(o);
    for (uint32_t n = 0; n < o->n_node; n++)
        TRY(o->e->killer[n] ? order_visit_new(o, n) : order_visit(o, n));
    for (uint32_t i = 0; i < d->n_out; i++) TRY(order_producer(o, d->out[i], &node));
    return BP_OK;
}

enum bp_status bp_edits_order(const struct bp_edits_made *e, uint32_t **out_order, uint32_t *out_n)
{
    uint32_t n = e->copy->n_node, all = n + e->n_added;
    struct ordering o = {.e = e,
                         .n_node = n,
                         .state = calloc(all + 1u, 1),
                         .cursor = calloc(all + 1u, sizeof *o.cursor),
                         .stack = malloc((all + 1u) * sizeof *o.stack),
                         .order = malloc((all + 1u) * sizeof *o.order),
                         .first = calloc(n + 2u, sizeof *o.first),
                         .earlier = malloc((e->copy->data.n_before + 1u) * sizeof *o.earlier)};
    enum bp_status status = order_no_memory();

    if (o.state && o.cursor && o.stack && o.order && o.first && o.earlier) status = order_all(&o);
    free(o.state);
    free(o.cursor);
    free(o.stack);
    free(o.first);
    free(o.earlier);
    if (status) free(o.order);
    else *out_order = o.order;
    if (!status) *out_n = o.n_order;
    return status;
}
