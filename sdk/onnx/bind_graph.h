/* SPDX-License-Identifier: Apache-2.0 */
/* bind_graph.h: declares how a recorded graph becomes a graph that writes caches in place. Files
 * bind_graph.c, bind_node.c and bind_grow.c share it. */
#ifndef BP_ONNX_BIND_GRAPH_H
#define BP_ONNX_BIND_GRAPH_H

#include "bind.h"

enum {
    BUILD_NONE = UINT32_MAX,
    BUILD_RECORDINGS = 4,
    BUILD_PAST = 5 /* the length of the past of the first recording for all lengths */
};

/* A value of the recorded graph. */
struct build_value {
    struct bp_tensor *t; /* in the new graph; NULL: it has none, or none yet */
    uint32_t axis;    /* that grows with the past: t has `capacity` places there; or BUILD_NONE */
    uint32_t past;    /* the pair whose input it is, or BUILD_NONE */
    uint32_t written; /* the pair whose cache it is, with the new places, or BUILD_NONE */
    bool scores;      /* products of queries and keys: only an attention may use them */
};

/* The graph that is made from one recording, or, if it is to serve every length of the past, from
 * recordings with three lengths. Members up to added are given. */
struct build {
    struct bp_model *model;
    struct bp_stream *stream; /* reads constants */
    struct bp_graph *from[BUILD_RECORDINGS];
    bool any;            /* all recordings are given */
    int64_t past, added; /* of from[0] */
    int64_t step[BUILD_RECORDINGS]; /* lengths of the past beyond that of the first: 0, 1, then the
                                       shortest and the longest past that the graph serves */
    struct bp_graph *to;
    struct build_value *value;
    uint32_t n_value, n_node;
    struct bp_tensor *position; /* the input of the new graph that is the length of the past */
    struct bp_tensor **written; /* of each pair: the buffer with the new places */
    struct bp_tensor **kept;    /* n_kept tensors, which the end destroys */
    size_t n_kept;
};

/* bind_graph.c: makes the graph and its program. The outputs that are bound are not among its
 * outputs: out_plan->output has NULL for them. recorded: the plans of the recordings. axis: of each
 * input of the model, as in onnx_bind_plan. BP_ERR_UNSUPPORTED: the graph cannot be made; the
 * message states why. */
enum bp_status onnx_build(struct build *b, struct onnx_plan *const *recorded, const uint32_t *axis,
                          struct onnx_plan **out_plan);
/* Keeps a tensor until the end; returns it. NULL: no memory, the tensor is destroyed. */
struct bp_tensor *onnx_build_keep(struct build *b, struct bp_tensor *t);
/* Calls an operator with the listed inputs (NULL: absent), and returns its first output. */
enum bp_status onnx_build_call(struct build *b, const char *op, const void *attrs, size_t n,
                               struct bp_tensor *const *in, struct bp_tensor **out);
/* Makes a scalar constant. */
enum bp_status onnx_build_number(struct build *b, int64_t number, struct bp_tensor **out);
struct bp_value_info onnx_build_value(const struct build *b, int recording, uint32_t v);
struct bp_node_info onnx_build_node(const struct build *b, int recording, uint32_t n);

/* bind_node.c: adds node number n to the new graph. */
enum bp_status onnx_build_add(struct build *b, uint32_t n);

/* bind_grow.c. onnx_grow_value finds the axis of a value that grows, and adds a constant.
 * onnx_grow_node checks that all recordings have the same node; *out_same: with the same
 * attributes. */
enum bp_status onnx_grow_value(struct build *b, uint32_t v);
enum bp_status onnx_grow_node(const struct build *b, uint32_t n, bool *out_same);

#endif
