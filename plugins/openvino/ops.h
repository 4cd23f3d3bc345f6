/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: declares the operators of Backplane that OpenVINO can express, as rows: which nodes a row
 * refuses, and the layers that it writes. */
#ifndef OPENVINO_OPS_H
#define OPENVINO_OPS_H

#include "ir.h"
#include "openvino.h"

/* A node, while it is checked (ir and ref are NULL) or written. */
struct ov_node {
    const struct bp_graph_data *graph;
    const struct bp_data_node *node;
    const void *attrs;
    const uint32_t *group; /* checked only: of each node, the group that has it so far */
    struct ir *ir;
    struct ir_ref *ref;        /* of each value of the graph, once it is written */
    const struct ir_ref *wide; /* of each i64 input of a cast: its values as f32 */
    bool exact;                /* written only: the app does not allow fast math */
};

enum {
    OPENVINO_PARTS = 256
}; /* the most inputs of a concat */

struct ov_op {
    struct bp_engine_op known;
    const char *type; /* of the library's layer */
    uint32_t opset;
    bool lossy;      /* the layer of `write` differs from docs/ops.md for some numbers */
    uint64_t dtypes; /* mask for the inputs and outputs that are present */
    const char *(*refuses)(const struct ov_node *n); /* why, as constant text; NULL: it does not */
    struct ir_ref (*write)(const struct ov_node *n, const struct ov_op *op);
    struct ir_ref (*exact)(const struct ov_node *n, const struct ov_op *op); /* or NULL: ops.def */
};

enum {
    OPENVINO_OPS = 70
};
extern const struct ov_op openvino_ops[];

/* The row of an operator, or NULL. */
const struct ov_op *openvino_op_find(const char *op);
/* Why a node cannot be claimed, or NULL. */
const char *openvino_refuses(const struct ov_node *n);
/* Writes a node, whose inputs are written. */
void openvino_write(const struct ov_node *n);

static inline const struct bp_data_value *ov_value(const struct ov_node *n, uint32_t number)
{
    return BP_ROW(struct bp_data_value, n->graph->value, n->graph->value_stride, number);
}

/* Input i of the flat list, or NULL. */
static inline const struct bp_data_value *ov_in(const struct ov_node *n, uint32_t i)
{
    return i < n->node->n_in && n->node->in[i] != BP_DATA_NONE ? ov_value(n, n->node->in[i]) : NULL;
}

static inline const struct bp_data_value *ov_out(const struct ov_node *n)
{
    return ov_value(n, n->node->out[0]);
}

static inline struct ir_ref ov_ref(const struct ov_node *n, uint32_t i)
{
    return n->ref[n->node->in[i]];
}

/* An axis that may be counted from the last one. */
static inline int64_t ov_axis(int64_t axis, uint32_t rank)
{
    return axis < 0 ? axis + rank : axis;
}

static inline bool ov_is_half(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16;
}

/* Writes a layer with one input, which is x in f32 if the node's type is a half type: numbers of
 * attributes are then not rounded to it. ov_narrow converts a result back. */
struct ir_ref ov_wide(const struct ov_node *n, uint32_t i);
struct ir_ref ov_narrow(const struct ov_node *n, struct ir_ref x);

/* Layers of the node's attributes for another tensor than the node's input; that of ov_clip is of
 * f32. */
struct ir_ref ov_clip(const struct ov_node *n, const struct ov_op *op, struct ir_ref x);
struct ir_ref ov_reduce(const struct ov_node *n, const char *type, struct ir_ref x);
struct ir_ref ov_pool(const struct ov_node *n, const struct ov_op *op, struct ir_ref x);

/* The rows' functions: ops.c, ops_shape.c, ops_image.c and ops_exact.c. */
#define OPENVINO_WRITERS(X) \
    X(plain) \
    X(scale) \
    X(leaky_relu) X(clip) X(swish) X(gelu) X(hard_sigmoid) X(elu) X(matmul) X(softmax) \
        X(layer_norm) X(lp_normalize) X(reduce) X(cast) X(where) X(square) X(rsqrt) X(reciprocal) \
            X(reshape) X(transpose) X(same) X(concat) X(slice) X(expand) X(gather) X(conv) \
                X(conv_transpose) X(pool) X(global_pool) X(batch_norm) X(lrn) X(resize)
#define X(name) struct ir_ref ov_write_##name(const struct ov_node *n, const struct ov_op *op);
OPENVINO_WRITERS(X)
#undef X
#define OPENVINO_EXACT(X) \
    X(relu) \
    X(clip) X(hard_sigmoid) X(hard_swish) X(either) X(div) X(sigmoid) X(silu) X(swish) X(gelu) \
        X(softmax) X(extreme) X(max_pool)
#define X(name) struct ir_ref ov_exact_##name(const struct ov_node *n, const struct ov_op *op);
OPENVINO_EXACT(X)
#undef X
#define OPENVINO_REFUSALS(X) \
    X(layer_norm) \
    X(lp_normalize) X(cast) X(gather) X(slice) X(pool) X(lrn) X(resize) X(matmul)
#define X(name) const char *ov_refuses_##name(const struct ov_node *n);
OPENVINO_REFUSALS(X)
#undef X

#endif
