/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c: creates and destroys graphs, and returns their values and nodes to the app. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

enum bp_status bp_graph_make(struct bp_graph **out_graph)
{
    struct bp_graph *graph = bp_handle_alloc(sizeof *graph);

    if (!graph) return bp_error(BP_ERR_MEMORY, "no memory for a graph");
    graph->scope.magic = bp_magic(BP_MAGIC_GRAPH);
    atomic_init(&graph->refs, 1);
    *out_graph = graph;
    return BP_OK;
}

enum bp_status bp_graph_create(struct bp_core *core, struct bp_graph **out_graph)
{
    struct bp_graph *graph;

    if (!bp_core_is(core)) return bp_not_a("core");
    if (!out_graph) return bp_error(BP_ERR_INVALID, "bp_graph_create: out_graph is NULL");
    TRY(bp_graph_make(&graph));
    graph->core = core;
    bp_core_retain(core);
    *out_graph = graph;
    return BP_OK;
}

enum bp_status bp_graph_check_open(const char *what, const struct bp_graph *graph)
{
    if (!atomic_load(&graph->programs)) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: a program has been made of the graph, which stays as it is as long as the "
                    "program is there: expected what is recorded before bp_program_create; destroy "
                    "the program first, or record in another graph",
                    what);
}

void bp_graph_retain(struct bp_graph *graph)
{
    atomic_fetch_add_explicit(&graph->refs, 1, memory_order_relaxed);
}

static void value_free(const struct bp_graph *graph, uint32_t v)
{
    const struct bp_value *value = &graph->value[v];

    bp_tensor_destroy(value->constant);
    if (graph->lender) {
        if (value->type != graph->lender->value[v].type) free(value->type);
        return;
    }
    free(value->type);
    free(value->name);
}

static void node_free(const struct bp_graph *graph, uint32_t n)
{
    const struct bp_node *node = &graph->node[n];

    if (graph->lender) {
        if (node->attrs != graph->lender->node[n].attrs) free(node->attrs);
        return;
    }
    free(node->attrs);
    free(node->name);
    free(node->kernel);
    free(node->in);
}

/* Frees what the values and nodes own. */
static void graph_free_parts(struct bp_graph *graph)
{
    for (uint32_t i = 0; i < graph->n_value; i++) value_free(graph, i);
    for (uint32_t i = 0; i < graph->n_node; i++) node_free(graph, i);
}

void bp_graph_release(struct bp_graph *graph)
{
    struct bp_graph *lender = graph->lender;

    if (atomic_fetch_sub_explicit(&graph->refs, 1, memory_order_acq_rel) != 1) return;
    bp_graph_forget_names(graph);
    bp_graph_forget_constants(graph);
    graph_free_parts(graph);
    free(graph->value);
    free(graph->node);
    free(graph->input);
    free(graph->output);
    graph->scope.magic = 0;
    if (graph->core) bp_core_release(graph->core);
    free(graph);
    if (lender) bp_graph_release(lender);
}

/* Copies an array of a graph; NULL: there is no memory. */
static void *array_copy(const void *from, size_t n, size_t size)
{
    void *to = malloc((n + 1) * size);

    if (to && n) memcpy(to, from, n * size);
    return to;
}

enum bp_status bp_graph_borrow(struct bp_graph *lender, struct bp_graph **out_graph)
{
    struct bp_graph *graph;

    TRY(bp_graph_make(&graph));
    graph->value = array_copy(lender->value, lender->n_value, sizeof *lender->value);
    graph->node = array_copy(lender->node, lender->n_node, sizeof *lender->node);
    graph->input = array_copy(lender->input, lender->n_input, sizeof *lender->input);
    graph->output = array_copy(lender->output, lender->n_output, sizeof *lender->output);
    if (!graph->value || !graph->node || !graph->input || !graph->output) {
        bp_graph_release(graph);
        return bp_error(BP_ERR_MEMORY, "no memory for a graph");
    }
    graph->core = lender->core;
    if (graph->core) bp_core_retain(graph->core);
    graph->lender = lender;
    bp_graph_retain(lender);
    graph->n_value = lender->n_value;
    graph->n_node = lender->n_node;
    graph->n_input = lender->n_input;
    graph->n_output = lender->n_output;
    for (uint32_t v = 0; v < graph->n_value; v++)
        if (graph->value[v].constant) bp_tensor_retain(graph->value[v].constant);
    atomic_store(&graph->programs, 1); /* it has no names to record with */
    *out_graph = graph;
    return BP_OK;
}

bool bp_graph_clear(struct bp_graph *graph)
{
    if (atomic_load_explicit(&graph->refs, memory_order_acquire) != 1) return false;
    bp_graph_forget_constants(graph);
    graph_free_parts(graph);
    graph->n_value = graph->n_node = graph->n_input = graph->n_output = 0;
    return true;
}

enum bp_status bp_graph_symbol(struct bp_graph *graph, uint32_t value,
                               struct bp_tensor **out_tensor)
{
    TRY(bp_tensor_create_symbol(graph, value, &graph->value[value].type->view, bp_graph_release,
                                out_tensor));
    bp_graph_retain(graph);
    return BP_OK;
}

void bp_graph_destroy(struct bp_graph *graph)
{
    if (bp_graph_is(graph)) bp_graph_release(graph);
}

struct bp_scope *bp_graph_scope(struct bp_graph *graph)
{
    return bp_graph_is(graph) ? &graph->scope : NULL;
}

enum bp_status bp_graph_get_info(struct bp_graph *graph, struct bp_graph_info *out)
{
    struct bp_graph_info info = {.size = sizeof info};

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    info.values = graph->n_value;
    info.nodes = graph->n_node;
    info.inputs = graph->n_input;
    info.outputs = graph->n_output;
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_graph_value(struct bp_graph *graph, uint32_t index, struct bp_value_info *out)
{
    struct bp_value_info info = {.size = sizeof info};
    const struct bp_value *v;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (index >= graph->n_value)
        return bp_error(BP_ERR_INVALID, "bp_graph_value: there is no value %u, only %u", index,
                        graph->n_value);
    v = &graph->value[index];
    info.name = v->name;
    info.kind = v->kind;
    info.dtype = v->type->view.dtype;
    info.rank = v->type->view.rank;
    info.shape = v->type->shape;
    info.node = v->kind == BP_VALUE_RESULT ? v->node : BP_NO_VALUE;
    info.constant = v->constant;
    info.output = BP_NO_VALUE;
    for (uint32_t i = graph->n_output; i > 0; i--)
        if (graph->output[i - 1] == index) info.output = i - 1;
    return bp_info_fill(out, &info, sizeof info);
}

enum bp_status bp_graph_output_symbol(struct bp_graph *graph, uint32_t index,
                                      struct bp_tensor **out_tensor)
{
    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (!out_tensor)
        return bp_error(BP_ERR_INVALID, "bp_graph_output_symbol: out_tensor is NULL");
    if (index >= graph->n_output)
        return bp_error(BP_ERR_INVALID, "bp_graph_output_symbol: there is no output %u, only %u",
                        index, graph->n_output);
    return bp_graph_symbol(graph, graph->output[index], out_tensor);
}

enum bp_status bp_graph_node(struct bp_graph *graph, uint32_t index, struct bp_node_info *out)
{
    struct bp_node_info info = {.size = sizeof info};
    const struct bp_node *n;

    if (!bp_graph_is(graph)) return bp_not_a("graph");
    if (index >= graph->n_node)
        return bp_error(BP_ERR_INVALID, "bp_graph_node: there is no node %u, only %u", index,
                        graph->n_node);
    n = &graph->node[index];
    info.name = n->name;
    info.op = n->row->info.name;
    info.attrs = n->attrs;
    info.in = n->in;
    info.out = n->out;
    info.n_in = n->n_in;
    info.n_out = n->n_out;
    info.kernel = n->kernel;
    return bp_info_fill(out, &info, sizeof info);
}
