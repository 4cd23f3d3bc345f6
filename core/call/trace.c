/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c: records calls in a graph: adds values, nodes, inputs, constants and outputs. */
#include "../graph/graph.h"

#include <stdlib.h>
#include <string.h>

static enum bp_status no_memory(void)
{
    return bp_error(BP_ERR_MEMORY, "no memory for a graph");
}

/* Makes room for one more element in a list that grows by doubling. */
static enum bp_status trace_make_room(void *list, uint32_t n, uint32_t *room, size_t size)
{
    uint32_t more = *room ? 2 * *room : 16;
    void *grown;

    if (n < *room) return BP_OK;
    grown = realloc(*(void **)list, more * size);
    if (!grown) return no_memory();
    *(void **)list = grown;
    *room = more;
    return BP_OK;
}

static enum bp_status check_name(const struct bp_graph *graph, const char *name)
{
    if (!*name) return bp_error(BP_ERR_INVALID, "graph: a name is empty");
    if (bp_graph_has_name(graph, name))
        return bp_error(BP_ERR_INVALID, "graph: the name '%.80s' is taken", name);
    return BP_OK;
}

/* Adds a value of a type as the last one of the list. It has no name yet. */
static enum bp_status add_value(struct bp_graph *graph, const struct bp_type *type, uint32_t kind)
{
    struct bp_value *v;

    TRY(trace_make_room(&graph->value, graph->n_value, &graph->room_value, sizeof *graph->value));
    v = &graph->value[graph->n_value];
    *v = (struct bp_value){.kind = kind, .type = malloc(sizeof *v->type)};
    if (!v->type) return no_memory();
    bp_typed_view_dense(v->type, type);
    v->type->sig = v->type->bytes = 0;
    graph->n_value++;
    return BP_OK;
}

static void drop_value(struct bp_graph *graph)
{
    struct bp_value *v = &graph->value[--graph->n_value];

    if (v->constant) bp_graph_drop_constant(graph, v->constant);
    bp_tensor_destroy(v->constant);
    free(v->type);
    bp_graph_drop_name(graph, v);
}

/* Gives a value the name of the app or, if this is NULL, a generated one: that of `what` and a
 * number. Values of a graph without a core stay without a name. */
static enum bp_status trace_name(struct bp_graph *graph, struct bp_value *v, const char *name,
                                 const char *what, uint32_t number)
{
    char own[BP_GRAPH_NAME];

    if (!graph->core) return BP_OK;
    if (!name) bp_graph_own_name(graph, what, number, own);
    return bp_graph_give_name(graph, v, name ? name : own);
}

enum bp_status bp_graph_add_input(struct bp_graph *graph, const char *name,
                                  const struct bp_type *type, struct bp_tensor **out_tensor)
{
    struct bp_value *v;
    enum bp_status status;

    if (name) TRY(check_name(graph, name));
    TRY(trace_make_room(&graph->input, graph->n_input, &graph->room_input, sizeof *graph->input));
    TRY(add_value(graph, type, BP_VALUE_INPUT));
    v = &graph->value[graph->n_value - 1];
    status = trace_name(graph, v, name, "input", graph->n_input);
    if (status == BP_OK) status = bp_graph_symbol(graph, graph->n_value - 1, out_tensor);
    if (status) drop_value(graph);
    else graph->input[graph->n_input++] = graph->n_value - 1;
    return status;
}

enum bp_status bp_graph_input(struct bp_graph *graph, const char *name, enum bp_dtype dtype,
                              uint32_t rank, const int64_t *shape, struct bp_tensor **out_tensor)
{
    struct bp_type type = {.dtype = dtype, .rank = rank};
    int64_t count;
    uint64_t bytes;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (!out_tensor || (rank && !shape))
        return bp_error(BP_ERR_INVALID, "bp_graph_input: shape or out_tensor is NULL");
    if (rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "bp_graph_input: rank is %u, expected at most %d", rank,
                        BP_RANK_MAX);
    if (rank) memcpy(type.shape, shape, rank * sizeof *shape);
    TRY(bp_type_check("bp_graph_input", "", &type, &count, &bytes));
    TRY(bp_graph_check_open("bp_graph_input", graph));
    return bp_graph_add_input(graph, name, &type, out_tensor);
}

/* Adds a real tensor as a constant; a tensor that was added before is found again. */
static enum bp_status constant_of(struct bp_graph *graph, struct bp_tensor *tensor,
                                  uint32_t *out_value)
{
    struct bp_type type = {.dtype = tensor->view.dtype, .rank = tensor->view.rank};
    struct bp_value *v;

    if (bp_graph_find_constant(graph, tensor, out_value)) return BP_OK;
    memcpy(type.shape, tensor->shape, sizeof type.shape);
    TRY(add_value(graph, &type, BP_VALUE_CONSTANT));
    v = &graph->value[graph->n_value - 1];
    if (trace_name(graph, v, NULL, "constant", graph->n_value - 1)) {
        drop_value(graph);
        return BP_ERR_MEMORY;
    }
    v->constant = bp_tensor_retain(tensor);
    if (bp_graph_note_constant(graph, graph->n_value - 1)) {
        drop_value(graph);
        return BP_ERR_MEMORY;
    }
    *out_value = graph->n_value - 1;
    return BP_OK;
}

enum bp_status bp_graph_value_of(struct bp_graph *graph, struct bp_tensor *tensor,
                                 uint32_t *out_value)
{
    if (bp_tensor_is(tensor)) return constant_of(graph, tensor, out_value);
    if (!bp_symbol_is(tensor)) return bp_not_a_for("graph", "tensor");
    if (tensor->graph != graph)
        return bp_error(BP_ERR_INVALID, "graph: the tensor is a value of another graph");
    *out_value = tensor->value;
    return BP_OK;
}

static void take_invocation(struct bp_node *node, const struct bp_invocation *inv)
{
    node->row = inv->row;
    node->n_in = inv->n_in;
    node->n_out = inv->n_out;
    node->want = inv->want;
    node->bound = inv->bound;
    memcpy(node->dtype, inv->dtype, sizeof node->dtype);
    memcpy(node->in_at, inv->in_at, sizeof node->in_at);
    memcpy(node->out_at, inv->out_at, sizeof node->out_at);
}

/* Adds the values of the results, and creates their tensors. */
static enum bp_status add_results(struct bp_graph *graph, const struct bp_invocation *inv,
                                  struct bp_node *node, struct bp_tensor **out)
{
    for (uint32_t i = 0; i < inv->n_out; i++) {
        struct bp_value *v;
        node->out[i] = BP_NO_VALUE;
        if (!bp_invocation_wants(inv, i)) continue;
        TRY(add_value(graph, &inv->out[i], BP_VALUE_RESULT));
        v = &graph->value[graph->n_value - 1];
        v->node = graph->n_node;
        v->output = i;
        node->out[i] = graph->n_value - 1;
        TRY(trace_name(graph, v, i ? NULL : node->name, node->name, i));
        TRY(bp_graph_symbol(graph, node->out[i], &out[i]));
    }
    return BP_OK;
}

enum bp_status bp_graph_add_output(struct bp_graph *graph, uint32_t node, uint32_t i)
{
    struct bp_node *to = &graph->node[node];
    struct bp_invocation inv = {0};
    struct bp_value *v;
    enum bp_status status;

    bp_node_invocation(graph, to, NULL, &inv);
    for (uint32_t k = 0; k < to->n_in; k++)
        if (to->in[k] != BP_NO_VALUE) inv.in[k] = &graph->value[to->in[k]].type->view;
    TRY(to->row->infer(&inv));
    TRY(add_value(graph, &inv.out[i], BP_VALUE_RESULT));
    v = &graph->value[graph->n_value - 1];
    v->node = node;
    v->output = i;
    status = trace_name(graph, v, NULL, to->name, i);
    if (status) {
        drop_value(graph);
        return status;
    }
    to->out[i] = graph->n_value - 1;
    to->want |= 1u << bp_out_port(to->row, to->out_at, i);
    return BP_OK;
}

static enum bp_status add_node(struct bp_graph *graph, struct bp_invocation *inv,
                               struct bp_tensor *const *in, struct bp_tensor **out)
{
    struct bp_node node = {0};
    uint32_t values = graph->n_value;
    enum bp_status status = BP_OK;
    char name[BP_GRAPH_NAME];

    TRY(trace_make_room(&graph->node, graph->n_node, &graph->room_node, sizeof *graph->node));
    take_invocation(&node, inv);
    if (graph->core) {
        bp_graph_own_name(graph, inv->row->info.name, graph->n_node, name);
        node.name = strdup(name);
    }
    node.in = malloc((node.n_in + node.n_out + 1) * sizeof *node.in);
    if (inv->kernel) node.kernel = strdup(inv->kernel);
    if ((graph->core && !node.name) || !node.in || (inv->kernel && !node.kernel))
        status = no_memory();
    node.out = node.in ? node.in + node.n_in : NULL;
    for (uint32_t i = 0; i < node.n_in && status == BP_OK; i++) {
        node.in[i] = BP_NO_VALUE;
        if (in[i]) status = bp_graph_value_of(graph, in[i], &node.in[i]);
    }
    if (status == BP_OK) status = add_results(graph, inv, &node, out);
    if (status) {
        for (uint32_t i = 0; i < inv->n_out; i++) bp_tensor_destroy(out[i]), out[i] = NULL;
        while (graph->n_value > values) drop_value(graph);
        free(node.name);
        free(node.kernel);
        free(node.in);
        return status;
    }
    node.attrs = inv->attrs;
    inv->attrs = NULL;
    graph->node[graph->n_node++] = node;
    return BP_OK;
}

enum bp_status bp_graph_trace(struct bp_graph *graph, const struct bp_opdef *row,
                              const struct bp_call *call, struct bp_tensor **out, size_t n_out,
                              const uint8_t *want)
{
    struct bp_tensor *flat[BP_FLAT_MAX];
    struct bp_call filled = {.size = sizeof filled, .op = call->op, .in = call->in,
                             .n_in = call->n_in, .attrs = call->attrs};
    struct bp_invocation inv;
    void *attrs = NULL;
    enum bp_status status = BP_OK;

    TRY(bp_graph_check_open(call->op, graph));
    if (row->has_host)
        TRY(bp_host_values(NULL, row, call->in, call->n_in, call->attrs, &attrs));
    if (attrs) filled.attrs = attrs;
    if (BP_HAS(call, kernel)) filled.kernel = call->kernel;
    status = bp_invocation_init_row(&inv, row, NULL, graph, &filled, want, n_out);
    if (status == BP_OK) {
        bp_invocation_flatten(&inv, call, flat);
        status = add_node(graph, &inv, flat, out);
        bp_invocation_finish(&inv);
    }
    free(attrs);
    return status;
}

enum bp_status bp_graph_trace_decomposed(struct bp_graph *graph, const struct bp_opdef *row,
                                         const void *attrs, const struct bp_view *const *in,
                                         uint32_t n_in, uint32_t want, uint32_t *out_value)
{
    struct bp_tensor *symbol[BP_FLAT_MAX] = {NULL}, *out[BP_PORT_MAX] = {NULL};
    struct bp_decomposition e = {&graph->scope, row, attrs, symbol, want, out, n_in};
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < n_in && status == BP_OK; i++) {
        struct bp_type type;
        if (!in[i]) continue;
        type = (struct bp_type){.dtype = in[i]->dtype, .rank = in[i]->rank};
        memcpy(type.shape, in[i]->shape, type.rank * sizeof *type.shape);
        status = bp_graph_add_input(graph, NULL, &type, &symbol[i]);
    }
    if (status == BP_OK) status = row->decompose(&e);
    for (uint32_t i = 0; i < BP_PORT_MAX && status == BP_OK; i++)
        if (want >> i & 1) status = bp_graph_value_of(graph, out[i], &out_value[i]);
    for (uint32_t i = 0; i < n_in; i++) bp_tensor_destroy(symbol[i]);
    for (uint32_t i = 0; i < BP_PORT_MAX; i++) bp_tensor_destroy(out[i]);
    return status;
}

enum bp_status bp_graph_add_result(struct bp_graph *graph, uint32_t value)
{
    TRY(trace_make_room(&graph->output, graph->n_output, &graph->room_output,
                        sizeof *graph->output));
    graph->output[graph->n_output++] = value;
    return BP_OK;
}

enum bp_status bp_graph_output(struct bp_graph *graph, struct bp_tensor *tensor, const char *name)
{
    uint32_t value;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (!bp_symbol_is(tensor)) return bp_not_a("symbolic tensor");
    if (tensor->graph != graph)
        return bp_error(BP_ERR_INVALID, "bp_graph_output: the tensor is no value of this graph");
    TRY(bp_graph_check_open("bp_graph_output", graph));
    TRY(bp_graph_value_of(graph, tensor, &value));
    if (name && strcmp(graph->value[value].name, name)) TRY(bp_graph_name(graph, tensor, name));
    return bp_graph_add_result(graph, value);
}

enum bp_status bp_graph_name(struct bp_graph *graph, struct bp_tensor *tensor, const char *name)
{
    struct bp_value *v;
    uint32_t value;
    bool is_named;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (!bp_symbol_is(tensor)) return bp_not_a("symbolic tensor");
    if (!name) return bp_error(BP_ERR_INVALID, "bp_graph_name: name is NULL");
    if (tensor->graph != graph)
        return bp_error(BP_ERR_INVALID, "bp_graph_name: the tensor is no value of this graph");
    TRY(bp_graph_check_open("bp_graph_name", graph));
    TRY(bp_graph_value_of(graph, tensor, &value));
    v = &graph->value[value];
    is_named = !strcmp(v->name, name);
    if (!is_named) TRY(check_name(graph, name));
    if (v->kind == BP_VALUE_RESULT && strcmp(graph->node[v->node].name, name)) {
        char *own = strdup(name);
        if (!own) return no_memory();
        free(graph->node[v->node].name);
        graph->node[v->node].name = own;
    }
    return is_named ? BP_OK : bp_graph_give_name(graph, v, name);
}

void bp_invocation_of_node(const struct bp_node *node, struct bp_device *device,
                           struct bp_invocation *inv)
{
    inv->row = node->row;
    inv->device = device;
    inv->graph = NULL;
    inv->attrs = node->attrs;
    inv->kernel = inv->prefer = NULL;
    inv->allow = 0;
    inv->decompose = inv->whole = inv->in_place = inv->view_copies = false;
    inv->n_in = node->n_in;
    inv->n_out = node->n_out;
    inv->want = node->want;
    inv->bound = node->bound;
    memcpy(inv->dtype, node->dtype, sizeof inv->dtype);
    memcpy(inv->in_at, node->in_at, sizeof inv->in_at);
    memcpy(inv->out_at, node->out_at, sizeof inv->out_at);
    for (uint32_t i = 0; i < node->n_in; i++) {
        inv->in[i] = NULL;
        inv->constant[i] = (struct bp_constant){0};
    }
    for (uint32_t i = 0; i < node->n_out; i++) {
        inv->given[i] = NULL;
        inv->out[i] = (struct bp_type){0};
    }
}

void bp_invocation_set_type(struct bp_invocation *inv, uint32_t i,
                            const struct bp_typed_view *type)
{
    inv->out[i] = (struct bp_type){.dtype = type->view.dtype, .rank = type->view.rank};
    memcpy(inv->out[i].shape, type->shape, sizeof inv->out[i].shape);
}

void bp_node_invocation(const struct bp_graph *graph, const struct bp_node *node,
                        struct bp_device *device, struct bp_invocation *inv)
{
    bp_invocation_of_node(node, device, inv);
    for (uint32_t i = 0; i < node->n_out; i++)
        if (node->out[i] != BP_NO_VALUE)
            bp_invocation_set_type(inv, i, graph->value[node->out[i]].type);
}
