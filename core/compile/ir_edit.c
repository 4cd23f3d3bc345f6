/* SPDX-License-Identifier: Apache-2.0 */
/* ir_edit.c: changes the compiler's representation: adds, replaces and removes nodes. */
#include "ir.h"

#include <stdlib.h>
#include <string.h>

static enum bp_status edit_no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
}

/* Makes room for `more` values and nodes, so that an edit does not fail in its middle. */
static enum bp_status edit_room(struct bp_ir *ir, uint32_t values, uint32_t nodes)
{
    if (ir->n_value + values > ir->room_value) {
        uint32_t room = 2 * ir->room_value + values;
        struct bp_ir_value *list = realloc(ir->value, room * sizeof *list);
        if (!list) return edit_no_memory();
        ir->value = list;
        ir->room_value = room;
    }
    if (ir->n_node + nodes > ir->room_node) {
        uint32_t room = 2 * ir->room_node + nodes;
        struct bp_ir_node *list = realloc(ir->node, room * sizeof *list);
        if (!list) return edit_no_memory();
        ir->node = list;
        ir->room_node = room;
    }
    return BP_OK;
}

static void node_unlink(struct bp_ir *ir, uint32_t n)
{
    uint32_t previous = ir->node[n].previous, next = ir->node[n].next;

    if (previous == BP_NO_VALUE) ir->first = next;
    else ir->node[previous].next = next;
    if (next == BP_NO_VALUE) ir->last = previous;
    else ir->node[next].previous = previous;
}

/* before: BP_NO_VALUE for the end. */
static void node_link_before(struct bp_ir *ir, uint32_t n, uint32_t before)
{
    uint32_t previous = before == BP_NO_VALUE ? ir->last : ir->node[before].previous;

    ir->node[n].previous = previous;
    ir->node[n].next = before;
    if (before == BP_NO_VALUE) ir->last = n;
    else ir->node[before].previous = n;
    if (previous == BP_NO_VALUE) ir->first = n;
    else ir->node[previous].next = n;
}

void bp_ir_move_before(struct bp_ir *ir, uint32_t n, uint32_t before)
{
    node_unlink(ir, n);
    node_link_before(ir, n, before);
    ir->edited = true;
}

void bp_ir_set_order(struct bp_ir *ir, const uint32_t *node, uint32_t n)
{
    ir->first = ir->last = BP_NO_VALUE;
    for (uint32_t i = 0; i < n; i++) node_link_before(ir, node[i], BP_NO_VALUE);
    ir->edited = true;
}

void bp_ir_kill(struct bp_ir *ir, uint32_t n)
{
    struct bp_node *node = &ir->node[n].call;

    if (ir->node[n].dead) return;
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE) ir->value[bp_ir_same(ir, node->in[i])].uses--;
    ir->edited = true;
    ir->node[n].dead = true;
    ir->living--;
    node_unlink(ir, n);
}

void bp_ir_set_input(struct bp_ir *ir, uint32_t n, uint32_t i, uint32_t value)
{
    struct bp_node *node = &ir->node[n].call;

    ir->value[bp_ir_same(ir, node->in[i])].uses--;
    node->in[i] = value;
    ir->value[value].uses++;
    ir->edited = true;
}

void bp_ir_forward(struct bp_ir *ir, uint32_t value, uint32_t by)
{
    by = bp_ir_same(ir, by);
    if (by == value) return;
    ir->edited = true;
    ir->value[value].same = by;
    ir->value[by].uses += ir->value[value].uses;
    ir->value[value].uses = 0;
}

void bp_ir_resolve(struct bp_ir *ir)
{
    if (!ir->edited) return;
    ir->edited = false;
    for (uint32_t v = 0; v < ir->n_value; v++) ir->value[v].same = bp_ir_same(ir, v);
    for (uint32_t n = ir->first; n != BP_NO_VALUE; n = ir->node[n].next) {
        struct bp_node *node = &ir->node[n].call;
        for (uint32_t i = 0; i < node->n_in; i++)
            if (node->in[i] != BP_NO_VALUE) node->in[i] = bp_ir_same(ir, node->in[i]);
    }
    for (uint32_t o = 0; o < ir->n_output; o++) ir->output[o] = bp_ir_same(ir, ir->output[o]);
    bp_ir_find_roots(ir);
}

/* The IR's value for each value of a graph that is spliced. */
struct splice {
    struct bp_ir *ir;
    struct bp_graph *graph;
    uint32_t *value;
};

/* Finds the values of the graph's inputs and outputs, and adds the others. The types of added
 * values move to the IR. */
static void splice_values(struct splice *s, const uint32_t *in, const uint32_t *out)
{
    struct bp_graph *g = s->graph;
    struct bp_ir *ir = s->ir;

    for (uint32_t v = 0; v < g->n_value; v++) s->value[v] = BP_NO_VALUE;
    for (uint32_t i = 0; i < g->n_input; i++) s->value[g->input[i]] = bp_ir_same(ir, in[i]);
    for (uint32_t o = 0; o < g->n_output; o++)
        if (s->value[g->output[o]] == BP_NO_VALUE && g->value[g->output[o]].kind == BP_VALUE_RESULT)
            s->value[g->output[o]] = out[o];
    for (uint32_t v = 0; v < g->n_value; v++) {
        struct bp_ir_value *to = &ir->value[ir->n_value];
        if (s->value[v] != BP_NO_VALUE) continue;
        *to = (struct bp_ir_value){.type = g->value[v].type,
                                   .kind = g->value[v].kind,
                                   .same = ir->n_value,
                                   .root = ir->n_value};
        if (g->value[v].constant) bp_ir_set_constant(to, g->value[v].constant);
        g->value[v].type = NULL;
        g->value[v].constant = NULL;
        s->value[v] = ir->n_value++;
    }
}

/* Moves node n of the graph to the IR, before node `before`. */
static void splice_node(struct splice *s, uint32_t n, uint32_t before)
{
    struct bp_node *from = &s->graph->node[n];
    struct bp_ir *ir = s->ir;
    uint32_t number = ir->n_node++;
    struct bp_ir_node *to = &ir->node[number];

    *to = (struct bp_ir_node){.call = *from, .made = true};
    from->attrs = NULL;
    from->name = from->kernel = NULL;
    from->in = NULL;
    node_link_before(ir, number, before);
    ir->living++;
    for (uint32_t i = 0; i < to->call.n_in; i++) {
        if (to->call.in[i] == BP_NO_VALUE) continue;
        to->call.in[i] = s->value[to->call.in[i]];
        ir->value[to->call.in[i]].uses++;
    }
    for (uint32_t i = 0; i < to->call.n_out; i++) {
        if (to->call.out[i] == BP_NO_VALUE) continue;
        to->call.out[i] = s->value[to->call.out[i]];
        ir->value[to->call.out[i]].node = number;
        ir->value[to->call.out[i]].output = i;
    }
}

enum bp_status bp_ir_splice(struct bp_ir *ir, struct bp_graph *graph, uint32_t before,
                            const uint32_t *in, const uint32_t *out, const uint32_t *kill,
                            uint32_t n_kill)
{
    struct splice s = {ir, graph, malloc((graph->n_value + 1) * sizeof *s.value)};
    enum bp_status status = s.value ? edit_room(ir, graph->n_value, graph->n_node)
                                    : edit_no_memory();

    if (status == BP_OK) {
        ir->edited = true;
        splice_values(&s, in, out);
        for (uint32_t n = 0; n < graph->n_node; n++) splice_node(&s, n, before);
        for (uint32_t n = ir->n_node - graph->n_node; n < ir->n_node; n++)
            for (uint32_t k = 0; k < n_kill; k++) {
                bp_ir_add_sources(ir, n, kill[k]);
                if (ir->node[kill[k]].call.row->random)
                    ir->node[n].random_at = ir->node[kill[k]].random_at;
            }
        for (uint32_t o = 0; o < graph->n_output; o++)
            if (s.value[graph->output[o]] != out[o])
                bp_ir_forward(ir, out[o], s.value[graph->output[o]]);
        for (uint32_t k = 0; k < n_kill; k++) bp_ir_kill(ir, kill[k]);
    }
    free(s.value);
    return status;
}

enum bp_status bp_ir_replace(struct bp_ir *ir, const struct bp_node *call,
                             struct bp_prepared *prepared, const uint32_t *kill, uint32_t n_kill)
{
    struct bp_ir_node *to;
    uint32_t number;

    TRY(edit_room(ir, 0, 1));
    ir->edited = true;
    number = ir->n_node++;
    to = &ir->node[number];
    *to = (struct bp_ir_node){.call = *call, .made = true, .prepared = prepared};
    node_link_before(ir, number, kill[0]);
    ir->living++;
    for (uint32_t i = 0; i < call->n_in; i++) ir->value[call->in[i]].uses++;
    for (uint32_t i = 0; i < call->n_out; i++) {
        ir->value[call->out[i]].node = number;
        ir->value[call->out[i]].output = i;
    }
    for (uint32_t k = 0; k < n_kill; k++) {
        bp_ir_add_sources(ir, number, kill[k]);
        bp_ir_kill(ir, kill[k]);
    }
    return BP_OK;
}

enum bp_status bp_ir_take_graph(struct bp_ir *ir, struct bp_graph **out_graph)
{
    if (!ir->lent) return bp_graph_make(out_graph);
    *out_graph = ir->lent;
    ir->lent = NULL;
    return BP_OK;
}

void bp_ir_return_graph(struct bp_ir *ir, struct bp_graph *graph)
{
    if (!ir->lent && bp_graph_clear(graph)) ir->lent = graph;
    else bp_graph_release(graph);
}

/* Records the decomposition of a node. value: the graph's values for its outputs. */
static enum bp_status expansion_record(const struct bp_node *node, const struct bp_view *const *in,
                                       struct bp_graph *graph, uint32_t *value)
{
    TRY(bp_graph_trace_decomposed(graph, node->row, node->attrs, in, node->n_in,
                                  bp_wants_flat(node->row, node->want, node->n_out), value));
    for (uint32_t n = 0; n < graph->n_node; n++) {
        graph->node[n].name = strdup(node->name);
        if (!graph->node[n].name) return edit_no_memory();
    }
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE) TRY(bp_graph_add_result(graph, value[i]));
    return BP_OK;
}

enum bp_status bp_ir_expand(struct bp_ir *ir, uint32_t n, const struct bp_view *const *in,
                            bool *out_forwards)
{
    const struct bp_node *node = &ir->node[n].call;
    uint32_t value[BP_PORT_MAX], from[BP_FLAT_MAX], to[BP_FLAT_MAX], n_from = 0, n_to = 0;
    uint32_t first = ir->n_node;
    struct bp_graph *graph;
    enum bp_status status;

    TRY(bp_ir_take_graph(ir, &graph));
    status = expansion_record(node, in, graph, value);
    for (uint32_t i = 0; i < node->n_in; i++)
        if (node->in[i] != BP_NO_VALUE) from[n_from++] = node->in[i];
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE) to[n_to++] = node->out[i];
    if (status == BP_OK) status = bp_ir_splice(ir, graph, n, from, to, &n, 1);
    bp_ir_return_graph(ir, graph);
    if (status) return status;
    for (; first < ir->n_node; first++) bp_ir_find_roots_of(ir, first);
    *out_forwards = false;
    for (uint32_t i = 0; i < n_to; i++)
        *out_forwards |= ir->value[to[i]].same != to[i] || ir->value[to[i]].root != to[i];
    return BP_OK;
}
