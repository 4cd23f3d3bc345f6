/* SPDX-License-Identifier: Apache-2.0 */
/* order.c: orders the nodes of a graph or a function such that each value is made before it is
 * read. ONNX requires this order of a file, but some converters append nodes at the end. */
#include "resolve.h"
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CYCLE_NAMES = 8 }; /* nodes that a message about a cycle names */

/* The node that sets a name. */
struct producer {
    const char *name;
    size_t node;
};

/* The names that sub-graphs set, from the innermost one outward. */
struct inner {
    void *names; /* a tree of tsearch */
    const struct inner *outer;
};

/* Node i reads values of the nodes dep[first[i]] to dep[first[i + 1] - 1]. */
struct order {
    const struct scope *scope;
    struct producer *producer; /* sorted by name, then by node */
    size_t n_producer, n_node, n_dep, room;
    size_t *first, *dep;
    bool failed;               /* the host had no memory */
};

static int order_by_name(const void *a, const void *b)
{
    const struct producer *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->node > y->node) - (x->node < y->node);
}

static int order_by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void order_keep(void *name)
{
    (void)name; /* the model's message owns it */
}

/* Lists the names that the nodes set. */
static enum bp_status order_producers(struct order *o, Onnx__NodeProto *const *node)
{
    size_t n = 0;

    for (size_t i = 0; i < o->n_node; i++) n += node[i]->n_output;
    o->producer = malloc((n + 1) * sizeof *o->producer);
    if (!o->producer) return onnx_no_memory();
    for (size_t i = 0; i < o->n_node; i++)
        for (size_t k = 0; k < node[i]->n_output; k++)
            if (*onnx_text(node[i]->output[k]))
                o->producer[o->n_producer++] = (struct producer){node[i]->output[k], i};
    qsort(o->producer, o->n_producer, sizeof *o->producer, order_by_name);
    return BP_OK;
}

/* Returns the first node that sets a name; SIZE_MAX: none. */
static size_t order_producer(const struct order *o, const char *name)
{
    size_t low = 0, high = o->n_producer;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(o->producer[middle].name, name) < 0) low = middle + 1;
        else high = middle;
    }
    return low < o->n_producer && !strcmp(o->producer[low].name, name) ? o->producer[low].node
                                                                       : SIZE_MAX;
}

/* Notes that the current node reads a name. Names of weights, inputs and outer graphs are known
 * before all nodes. */
static void order_read(struct order *o, const struct inner *inner, const char *name)
{
    size_t from, *grown;
    uint32_t slot;

    if (!*onnx_text(name)) return;
    for (; inner; inner = inner->outer)
        if (tfind(name, &inner->names, order_by_text)) return;
    from = order_producer(o, name);
    if (from == SIZE_MAX || onnx_scope_find(o->scope, name, &slot)) return;
    if (o->n_dep == o->room) {
        o->room = o->room ? 2 * o->room : 64;
        grown = realloc(o->dep, o->room * sizeof *grown);
        if (!grown) {
            o->failed = true;
            o->room = o->n_dep;
            return;
        }
        o->dep = grown;
    }
    o->dep[o->n_dep++] = from;
}

static void order_set(struct order *o, struct inner *inner, char *name)
{
    if (*onnx_text(name) && !tsearch(name, &inner->names, order_by_text)) o->failed = true;
}

static void order_reads(struct order *o, const struct inner *inner, const Onnx__NodeProto *node);

/* Notes the names of outer graphs that a sub-graph reads. */
static void order_graph(struct order *o, const struct inner *outer, const Onnx__GraphProto *graph)
{
    struct inner inner = {.outer = outer};

    for (size_t i = 0; i < graph->n_input; i++) order_set(o, &inner, graph->input[i]->name);
    for (size_t i = 0; i < graph->n_initializer; i++)
        order_set(o, &inner, graph->initializer[i]->name);
    for (size_t i = 0; i < graph->n_sparse_initializer; i++)
        if (graph->sparse_initializer[i]->values)
            order_set(o, &inner, graph->sparse_initializer[i]->values->name);
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_output; k++)
            order_set(o, &inner, graph->node[i]->output[k]);
    for (size_t i = 0; i < graph->n_node; i++) order_reads(o, &inner, graph->node[i]);
    for (size_t i = 0; i < graph->n_output; i++) order_read(o, &inner, graph->output[i]->name);
    tdestroy(inner.names, order_keep);
}

static void order_reads(struct order *o, const struct inner *inner, const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < node->n_input; i++) order_read(o, inner, node->input[i]);
    for (size_t i = 0; i < node->n_attribute; i++)
        if (node->attribute[i]->g) order_graph(o, inner, node->attribute[i]->g);
}

/* Lists what each node reads. out_sorted: each node reads values of nodes before it only. */
static enum bp_status order_dependencies(struct order *o, Onnx__NodeProto *const *node,
                                         bool *out_sorted)
{
    *out_sorted = true;
    o->first = malloc((o->n_node + 1) * sizeof *o->first);
    if (!o->first) return onnx_no_memory();
    for (size_t i = 0; i < o->n_node; i++) {
        o->first[i] = o->n_dep;
        order_reads(o, NULL, node[i]);
        for (size_t k = o->first[i]; k < o->n_dep; k++) *out_sorted &= o->dep[k] < i;
    }
    o->first[o->n_node] = o->n_dep;
    return o->failed ? onnx_no_memory() : BP_OK;
}

/* Reports the cycle at the end of a stack of nodes, each of which reads the next one; the last one
 * reads the node `again`. */
static enum bp_status order_cycle(Onnx__NodeProto *const *node, const size_t *stack, size_t n,
                                  size_t again)
{
    size_t begin = n, used = 0;
    char text[CYCLE_NAMES * 64 + 16] = "";

    while (begin && stack[begin - 1] != again) begin--;
    begin -= begin > 0;
    for (size_t i = begin; i < n && i < begin + CYCLE_NAMES; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%.60s", i > begin ? ", " : "",
                                 onnx_node_name(node[stack[i]]));
    return onnx_error(BP_ERR_INVALID, "model: nodes form a cycle: %s%s; each reads a result of the "
                      "next, and the last one of the first", text,
                      n - begin > CYCLE_NAMES ? ", ..." : "");
}

/* Visits the nodes depth first: in their order, but those that a node reads go before it. */
static enum bp_status order_visit(const struct order *o, Onnx__NodeProto *const *node,
                                  size_t *out_order)
{
    enum { NEW, OPEN, DONE };
    size_t *stack = malloc((o->n_node + 1) * sizeof *stack), *next, n = 0, depth = 0;
    uint8_t *state = calloc(o->n_node + 1, 1);
    enum bp_status status = BP_OK;

    next = malloc((o->n_node + 1) * sizeof *next); /* the next dependency of each node */
    if (!stack || !state || !next) status = onnx_no_memory();
    else memcpy(next, o->first, (o->n_node + 1) * sizeof *next);
    for (size_t i = 0; i < o->n_node && status == BP_OK; i++) {
        if (state[i] == NEW) stack[depth++] = i;
        while (depth && status == BP_OK) {
            size_t at = stack[depth - 1], from;
            state[at] = OPEN;
            if (next[at] == o->first[at + 1]) {
                state[at] = DONE;
                out_order[n++] = at;
                depth--;
                continue;
            }
            from = o->dep[next[at]++];
            if (state[from] == NEW) stack[depth++] = from;
            else if (state[from] == OPEN) status = order_cycle(node, stack, depth, from);
        }
    }
    free(stack);
    free(state);
    free(next);
    return status;
}

enum bp_status onnx_order(const struct resolver *r, Onnx__NodeProto *const *node, size_t n,
                          size_t **out_order)
{
    struct order o = {.scope = r->scope, .n_node = n};
    size_t *order = NULL;
    bool sorted = true;
    enum bp_status status = order_producers(&o, node);

    if (status == BP_OK) status = order_dependencies(&o, node, &sorted);
    if (status == BP_OK && !sorted) {
        order = malloc(n * sizeof *order);
        status = order ? order_visit(&o, node, order) : onnx_no_memory();
    }
    free(o.producer);
    free(o.first);
    free(o.dep);
    if (status) free(order);
    else *out_order = order;
    return status;
}
