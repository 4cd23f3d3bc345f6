/* SPDX-License-Identifier: Apache-2.0 */
/* body.h: declares the functions that find and run graphs that are attributes of a node (branches,
 * loop bodies). */
#ifndef BP_ONNX_BODY_H
#define BP_ONNX_BODY_H

#include "list.h"

/* The graph that is the value of a node's attribute. */
struct onnx_inner {
    const struct onnx_body *body;
    const Onnx__GraphProto *proto;
};
enum bp_status onnx_inner_find(const struct onnx_call *c, const char *name,
                               struct onnx_inner *out);

/* Runs the nodes of the graph once. in: its inputs, which stay the caller's. out: references to its
 * outputs; after a failure there are none. */
enum bp_status onnx_inner_run(struct onnx_call *c, const struct onnx_inner *inner,
                              struct onnx_value *const *in, struct onnx_value **out);

/* Creates the result for output i of a loop that ran no iteration: a tensor of the declared type
 * with a new axis of extent 0. Extents that are not declared are 0 too. */
enum bp_status onnx_inner_none(struct onnx_call *c, const struct onnx_inner *inner, uint32_t i,
                               int64_t axis, struct onnx_value **out);

/* BP_ERR_UNSUPPORTED: a loop is being recorded and has too many iterations. The model is then run
 * node by node. */
enum bp_status onnx_check_unrolled(const struct onnx_call *c, int64_t rounds);

#endif
