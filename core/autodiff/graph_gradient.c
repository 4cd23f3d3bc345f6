/* SPDX-License-Identifier: Apache-2.0 */
/* graph_gradient.c: computes gradients of a recorded graph, by adding nodes to it (reverse
 * accumulation with the operators' gradient rules). */
#include "../graph/graph.h"

#include <backplane/ops.h>
#include <stdlib.h>
#include <string.h>

/* The state of one bp_graph_gradient. */
struct work {
    struct bp_sweep sweep;
    uint32_t n_node, n_value; /* before nodes and values are added */
    uint32_t *root;           /* of each value: the value whose memory it views, or itself */
    bool *lost;               /* of each root: a node has overwritten its memory */
    struct bp_node_call call;
};

/* Finds values whose memory an update overwrites: when the gradient runs, the memory no longer has
 * the old value. */
static void find_lost(struct work *w)
{
    const struct bp_graph *g = w->sweep.graph;

    for (uint32_t v = 0; v < w->n_value; v++) w->root[v] = v;
    for (uint32_t n = 0; n < w->n_node; n++) {
        const struct bp_node *node = &g->node[n];
        for (uint32_t i = 0; i < node->n_out; i++) {
            const struct bp_port *port =
                &node->row->info.out[bp_out_port(node->row, node->out_at, i)];
            uint32_t from = port->share < 0 ? BP_NO_VALUE : node->in[node->in_at[port->share]];
            if (from == BP_NO_VALUE) continue;
            if (port->kind == BP_PORT_UPDATE) w->lost[w->root[from]] = true;
            else if (node->row->is_view && node->out[i] != BP_NO_VALUE)
                w->root[node->out[i]] = w->root[from];
        }
    }
}

/* Sets the symbolic tensor of a value that existed before the sweep. */
static enum bp_status take_value(struct work *w, uint32_t value)
{
    struct bp_graph *g = w->sweep.graph;

    if (w->lost[w->root[value]])
        return bp_error(BP_ERR_INVALID,
                        "bp_graph_gradient: value %s is written over by an operator that updates "
                        "it, and is needed: ask for the gradient before that is recorded",
                        g->value[value].name);
    if (w->sweep.value[value]) return BP_OK;
    return bp_graph_symbol(g, value, &w->sweep.value[value]);
}

/* Marks the values that depend on a value whose gradient is requested. */
static void spread_wants(struct work *w)
{
    for (uint32_t n = 0; n < w->n_node; n++) {
        const struct bp_node *node = &w->sweep.graph->node[n];
        bool any = false;
        for (uint32_t i = 0; i < node->n_in; i++)
            any |= node->in[i] != BP_NO_VALUE && w->sweep.wanted[node->in[i]];
        for (uint32_t i = 0; any && i < node->n_out; i++)
            if (node->out[i] != BP_NO_VALUE && bp_value_is_smooth(w->sweep.graph, node->out[i]))
                w->sweep.wanted[node->out[i]] = true;
    }
}

static enum bp_status take_node(struct work *w, const struct bp_node *node)
{
    bool any_dy = false, any_want = false;

    for (uint32_t i = 0; i < node->n_out; i++)
        any_dy |= node->out[i] != BP_NO_VALUE && w->sweep.d[node->out[i]];
    for (uint32_t i = 0; i < node->n_in; i++)
        any_want |= node->in[i] != BP_NO_VALUE && w->sweep.wanted[node->in[i]];
    if (!any_dy || !any_want) return BP_OK;
    if (!node->row->grad && !node->row->decompose)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: it has no gradient", node->row->info.name);
    for (uint32_t i = 0; i < node->n_in + node->n_out; i++) /* outputs follow inputs */
        if (node->in[i] != BP_NO_VALUE) TRY(take_value(w, node->in[i]));
    return bp_sweep_node(&w->sweep, node, &w->call);
}

/* Visits the nodes backwards. The list of nodes moves in memory while gradients are recorded, so
 * each node is copied first. */
static enum bp_status sweep_back(struct work *w)
{
    for (uint32_t n = w->n_node; n-- > 0;) {
        struct bp_node node = w->sweep.graph->node[n];
        enum bp_status status = take_node(w, &node);
        if (status)
            return bp_error(status, "bp_graph_gradient: node %s: %s", node.name,
                            bp_error_message());
    }
    return BP_OK;
}

/* Returns the value of the graph that an argument represents. A real tensor represents one if it is
 * a constant of the graph. */
static enum bp_status find_value(const struct bp_graph *graph, const char *what, size_t i,
                                 const struct bp_tensor *t, uint32_t *out_value)
{
    if (bp_symbol_is(t)) {
        if (t->graph != graph)
            return bp_error(BP_ERR_INVALID,
                            "bp_graph_gradient: %s[%zu] is a value of another graph", what, i);
        *out_value = t->value;
        return BP_OK;
    }
    if (!bp_tensor_is(t))
        return bp_handle_was_stale()
                   ? bp_not_a_for("bp_graph_gradient", "tensor")
                   : bp_error(BP_ERR_INVALID,
                              "bp_graph_gradient: %s[%zu]: expected a value of the graph, got NULL "
                              "or something else",
                              what, i);
    for (uint32_t v = 0; v < graph->n_value; v++)
        if (graph->value[v].constant == t) {
            *out_value = v;
            return BP_OK;
        }
    return bp_error(BP_ERR_INVALID,
                    "bp_graph_gradient: %s[%zu] is a tensor that no call of this graph was given",
                    what, i);
}

/* Checks that a gradient has the type of its value. */
static enum bp_status check_dy(const struct bp_graph *graph, size_t i, uint32_t value,
                               const struct bp_tensor *dy)
{
    const struct bp_typed_view *y = graph->value[value].type;
    char got[BP_TYPE_TEXT], expected[BP_TYPE_TEXT];

    if (!bp_symbol_is(dy) && !bp_tensor_is(dy))
        return bp_handle_was_stale()
                   ? bp_not_a_for("bp_graph_gradient", "tensor")
                   : bp_error(BP_ERR_INVALID,
                              "bp_graph_gradient: dy[%zu]: expected a tensor or NULL", i);
    if (dy->graph && dy->graph != graph)
        return bp_error(BP_ERR_INVALID, "bp_graph_gradient: dy[%zu] is a value of another graph",
                        i);
    if (dy->view.dtype == y->view.dtype && dy->view.rank == y->view.rank &&
        !memcmp(dy->shape, y->shape, y->view.rank * sizeof *y->shape))
        return BP_OK;
    return bp_error(BP_ERR_INVALID, "bp_graph_gradient: dy[%zu] is %s, expected %s", i,
                    bp_type_text(dy->view.dtype, dy->view.rank, dy->shape, got, sizeof got),
                    bp_type_text(y->view.dtype, y->view.rank, y->shape, expected, sizeof expected));
}

/* Numbers of the values of y, dy and x, in one block. */
struct request {
    uint32_t *y, *dy, *x;
};

static enum bp_status check_request(const struct bp_graph *graph, struct bp_tensor *const *y,
                                    struct bp_tensor *const *dy, size_t n_y,
                                    struct bp_tensor *const *x, size_t n_x, struct request *request)
{
    for (size_t i = 0; i < n_y; i++) {
        TRY(find_value(graph, "y", i, y[i], &request->y[i]));
        if (dy[i]) TRY(check_dy(graph, i, request->y[i], dy[i]));
    }
    for (size_t i = 0; i < n_x; i++) TRY(find_value(graph, "x", i, x[i], &request->x[i]));
    return BP_OK;
}

static enum bp_status graph_seed(struct work *w, uint32_t value, uint32_t dy)
{
    if (!bp_value_is_smooth(w->sweep.graph, value)) return BP_OK;
    TRY(take_value(w, dy));
    return bp_sweep_add(&w->sweep, value, bp_tensor_retain(w->sweep.value[dy]));
}

static enum bp_status graph_differentiate(struct work *w, const struct request *request, size_t n_y,
                                          size_t n_x, struct bp_tensor **out_dx)
{
    struct bp_sweep *s = &w->sweep;

    w->root = malloc((w->n_value + 1) * sizeof *w->root);
    w->lost = calloc(w->n_value + 1, sizeof *w->lost);
    if (!w->root || !w->lost) return bp_error(BP_ERR_MEMORY, "no memory for a gradient");
    find_lost(w);
    for (size_t i = 0; i < n_x; i++)
        s->wanted[request->x[i]] = bp_value_is_smooth(s->graph, request->x[i]);
    spread_wants(w);
    for (size_t i = 0; i < n_y; i++)
        if (request->dy[i] != BP_NO_VALUE) TRY(graph_seed(w, request->y[i], request->dy[i]));
    TRY(sweep_back(w));
    for (size_t i = 0; i < n_x; i++) {
        struct bp_tensor *d = s->d[request->x[i]];
        out_dx[i] = d ? bp_tensor_retain(d) : NULL;
    }
    return BP_OK;
}

enum { MARK_WANTED = 1, MARK_READ = 2 }; /* depends on an x; a y depends on it */

static bool node_has_mark(const uint32_t *value, uint32_t n, const uint8_t *mark, uint8_t bit)
{
    for (uint32_t i = 0; i < n; i++)
        if (value[i] != BP_NO_VALUE && mark[value[i]] & bit) return true;
    return false;
}

static void node_set_mark(const uint32_t *value, uint32_t n, uint8_t *mark, uint8_t bit)
{
    for (uint32_t i = 0; i < n; i++)
        if (value[i] != BP_NO_VALUE) mark[value[i]] |= bit;
}

/* Lets the nodes between x and y return the optional outputs that their gradient rules read, such
 * as statistics, so that the gradient does not compute them again. A node with a chosen kernel does
 * not change: the kernel may not have these outputs. */
static enum bp_status graph_save_outputs(struct bp_graph *g, const struct request *request,
                                         size_t n_y, size_t n_x)
{
    uint8_t *mark = calloc(g->n_value + 1, 1);
    enum bp_status status = BP_OK;

    if (!mark) return bp_error(BP_ERR_MEMORY, "no memory for a gradient");
    for (size_t i = 0; i < n_x; i++) mark[request->x[i]] |= MARK_WANTED;
    for (size_t i = 0; i < n_y; i++) mark[request->y[i]] |= MARK_READ;
    for (uint32_t n = 0; n < g->n_node; n++)
        if (node_has_mark(g->node[n].in, g->node[n].n_in, mark, MARK_WANTED))
            node_set_mark(g->node[n].out, g->node[n].n_out, mark, MARK_WANTED);
    for (uint32_t n = g->n_node; n-- > 0 && status == BP_OK;) {
        const struct bp_node *node = &g->node[n];
        uint32_t saves = node->kernel ? 0 : node->row->saves;
        if (!node_has_mark(node->in, node->n_in, mark, MARK_WANTED) ||
            !node_has_mark(node->out, node->n_out, mark, MARK_READ))
            continue;
        node_set_mark(node->in, node->n_in, mark, MARK_READ);
        for (uint32_t i = 0; i < node->n_out && status == BP_OK; i++)
            if (saves >> i & 1 && node->out[i] == BP_NO_VALUE)
                status = bp_graph_add_output(g, n, i);
    }
    free(mark);
    return status;
}

/* Records the gradients; all arguments are valid. The given dy become values of the graph first. */
static enum bp_status graph_record_gradients(struct bp_graph *graph, struct bp_tensor *const *dy,
                                             size_t n_y, size_t n_x, struct request *request,
                                             struct bp_tensor **out_dx)
{
    struct work *w;
    enum bp_status status;

    for (size_t i = 0; i < n_y; i++) {
        request->dy[i] = BP_NO_VALUE;
        if (dy[i]) TRY(bp_graph_value_of(graph, dy[i], &request->dy[i]));
    }
    TRY(graph_save_outputs(graph, request, n_y, n_x));
    w = calloc(1, sizeof *w);
    if (!w) return bp_error(BP_ERR_MEMORY, "no memory for a gradient");
    w->n_node = graph->n_node;
    w->n_value = graph->n_value;
    status = bp_sweep_init(&w->sweep, &graph->scope, graph);
    if (status == BP_OK) status = graph_differentiate(w, request, n_y, n_x, out_dx);
    bp_sweep_finish(&w->sweep, w->n_value);
    free(w->root);
    free(w->lost);
    free(w);
    return status;
}

enum bp_status bp_graph_gradient(struct bp_graph *graph, struct bp_tensor *const *y,
                                 struct bp_tensor *const *dy, size_t n_y,
                                 struct bp_tensor *const *x, size_t n_x, struct bp_tensor **out_dx)
{
    struct request request;
    uint32_t *numbers;
    enum bp_status status;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    TRY(bp_graph_check_open("bp_graph_gradient", graph));
    if (n_y > graph->n_value || n_x > graph->n_value)
        return bp_error(BP_ERR_INVALID,
                        "bp_graph_gradient: n_y is %zu and n_x is %zu, the graph has %u values",
                        n_y, n_x, graph->n_value);
    if ((n_y && (!y || !dy)) || (n_x && (!x || !out_dx)))
        return bp_error(BP_ERR_INVALID, "bp_graph_gradient: y, dy, x or out_dx is NULL");
    numbers = calloc(2 * n_y + n_x + 1, sizeof *numbers);
    if (!numbers) return bp_error(BP_ERR_MEMORY, "no memory for a gradient");
    request = (struct request){numbers, numbers + n_y, numbers + 2 * n_y};
    status = check_request(graph, y, dy, n_y, x, n_x, &request);
    if (status == BP_OK) status = graph_record_gradients(graph, dy, n_y, n_x, &request, out_dx);
    free(numbers);
    return status;
}
