/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: declares the operators of Backplane that the plugin's engine knows, as rows: which nodes a
 * row refuses, and the node of the shim that it becomes. */
#ifndef IPU_OPS_H
#define IPU_OPS_H

#include "ipu.h"

#include <stdbool.h>

struct ipu_model;

/* A node, while it is checked (model is NULL) or written. */
struct ipu_node {
    const struct bp_graph_data *graph;
    const struct bp_data_node *node;
    const void *attrs;
    const uint32_t *group; /* checked only: of each node, the group that has it so far */
    struct ipu_model *model;
};

struct ipu_op {
    struct bp_engine_op known;
    uint32_t op;     /* enum bp_ipu_op of the node that the row writes */
    uint64_t dtypes; /* mask for the inputs and outputs that are present */
    const char *(*refuses)(const struct ipu_node *n); /* why, as constant text; or NULL */
    /* Writes the numbers of the shim's node; NULL: it has none. */
    void (*numbers)(const struct ipu_node *n, struct bp_ipu_node *to);
};

extern const struct ipu_op ipu_ops[];
enum {
    IPU_OPS = 92
};

/* The row of an operator, or NULL. */
const struct ipu_op *ipu_op_find(const char *op);
/* claim.c: why a node cannot be claimed, or NULL. */
const char *ipu_refuses(const struct ipu_node *n);
/* Whether operand i of a node of the row may be i64: an index, or the input of a cast. */
bool ipu_op_takes_i64(const struct ipu_op *op, uint32_t i);

/* Whether a node with an empty input has a result that is not empty: a number in each place. */
bool ipu_op_of_nothing(const struct ipu_node *n, double *out_value);

static inline const struct bp_data_value *ipu_value(const struct bp_graph_data *graph,
                                                    uint32_t number)
{
    return BP_ROW(struct bp_data_value, graph->value, graph->value_stride, number);
}

static inline const struct bp_data_node *ipu_node_at(const struct bp_graph_data *graph, uint32_t i)
{
    return BP_ROW(struct bp_data_node, graph->node, graph->node_stride, i);
}

/* Input i of the flat list, or NULL. */
static inline const struct bp_data_value *ipu_in(const struct ipu_node *n, uint32_t i)
{
    return i < n->node->n_in && n->node->in[i] != BP_DATA_NONE ? ipu_value(n->graph, n->node->in[i])
                                                               : NULL;
}

static inline bool ipu_is_empty(const struct bp_data_value *v)
{
    for (uint32_t a = 0; a < v->rank; a++)
        if (!v->shape[a]) return true;
    return false;
}

/* Whether the node's result takes the place of input 0, in its memory. */
static inline bool ipu_updates(const struct ipu_node *n)
{
    return n->node->flags & BP_DATA_UPDATE;
}

/* The result; also of a node that updates input 0 and whose result nothing reads. */
static inline const struct bp_data_value *ipu_out(const struct ipu_node *n)
{
    bool absent = !n->node->n_out || n->node->out[0] == BP_DATA_NONE;

    return absent ? ipu_in(n, 0) : ipu_value(n->graph, n->node->out[0]);
}

/* Result i, or if it is absent the input that it updates, which has its type; NULL: there is
 * neither. */
const struct bp_data_value *ipu_result(const struct ipu_node *n, uint32_t i);
/* How many results the node of the shim has. */
uint32_t ipu_results(const struct ipu_node *n);

/* An axis that may be counted from the last one. */
static inline int64_t ipu_axis(int64_t axis, uint32_t rank)
{
    return axis < 0 ? axis + rank : axis;
}

/* The rows' functions: ops.c and ops_image.c. */
#define IPU_NUMBERS(X) \
    X(leaky_relu) \
    X(clip) \
    X(gelu) \
    X(silu) \
    X(swish) \
    X(hard_sigmoid) \
    X(elu) X(softplus) X(scale) X(transpose) X(slice) X(concat) X(gather) X(embedding) X(matmul) \
        X(softmax) X(layer_norm) X(rms_norm) X(reduce) X(conv) X(conv_transpose) X(max_pool) \
            X(avg_pool) X(global_pool) X(batch_norm) X(lrn) X(group_norm) X(pad) X(cache_write) \
                X(momentum) X(adam) X(adamw) X(split) X(lp_normalize)
#define X(name) void ipu_numbers_##name(const struct ipu_node *n, struct bp_ipu_node *to);
IPU_NUMBERS(X)
#undef X
#define IPU_REFUSALS(X) \
    X(cast) \
    X(slice) X(split) X(gather) X(matmul) X(layer_norm) X(conv) X(pool) X(norm) X(cache_write)
#define X(name) const char *ipu_refuses_##name(const struct ipu_node *n);
IPU_REFUSALS(X)
#undef X

#endif
