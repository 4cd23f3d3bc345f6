/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h: declares the engine: groups of nodes that the vendor's compiler atc, a program,
 * compiles as a model of ONNX. */
#ifndef NPU_ENGINE_H
#define NPU_ENGINE_H

#include "npu.h"
#include "onnx.h"
#include <backplane/attrs.h>
#include <backplane/engine.h>

/* A node while it is checked (to is NULL) or written. */
struct npu_node {
    const struct bp_graph_data *graph;
    const struct bp_data_node *node;
    struct npu_onnx *to;    /* the message of the node */
    struct npu_onnx *model; /* the graph: for constants beside the node */
    uint32_t number;
    const char *type; /* ONNX's operator, which `write` may replace */
};

struct npu_engine_op {
    struct bp_engine_op known;
    const char *type;
    /* Writes the attributes, if n->to is not NULL. Returns why the node cannot be written, as
     * constant text; NULL: it can. */
    const char *(*write)(struct npu_node *n);
};

enum {
    NPU_ENGINE_OPS = 28,
    NPU_VALUE_NAME = 32
};
extern const struct npu_engine_op npu_engine_ops[NPU_ENGINE_OPS];

/* engine_ops.c: the row of an operator, or NULL; and why a node cannot be written, or NULL. */
const struct npu_engine_op *npu_engine_op_find(const char *op);
const char *npu_engine_refuses(const struct bp_graph_data *graph, const struct bp_data_node *node);
/* Writes the model of a group. The contents of constants come from the device. */
enum bp_status npu_engine_model(struct npu_device *device, const struct bp_graph_data *graph,
                                struct npu_onnx *out);

/* atc.c: compiles a model into the bytes of a .om file, which the caller frees. */
enum bp_status npu_atc_compile(struct npu *npu, const struct bp_engine_compile *compile,
                               const struct npu_onnx *model, void **out, size_t *out_size);

static inline const struct bp_data_value *npu_value(const struct bp_graph_data *graph, uint32_t i)
{
    return BP_ROW(struct bp_data_value, graph->value, graph->value_stride, i);
}

extern const struct bp_engines npu_engines;

#endif
