/* SPDX-License-Identifier: Apache-2.0 */
/* body.h: graphs inside nodes. */
#ifndef BP_ONNX_BODY_H
#define BP_ONNX_BODY_H

#include "list.h"

/* The graph that an attribute of a node is. */
struct onnx_inner {
    const struct onnx_body *body;
    const Onnx__GraphProto *proto;
};
enum bp_status onnx_inner_find(const struct onnx_call *c, const char *name,
                               struct onnx_inner *out);

/* Its nodes once. in: its inputs, which stay the caller's. out: references to its outputs, after a
 * failure none. */
enum bp_status onnx_inner_run(struct onnx_call *c, const struct onnx_inner *inner,
                              struct onnx_value *const *in, struct onnx_value **out);

/* What output i is where it was made no time: a tensor of its declared type whose axis is a new
 * one, of extent 0; so are extents that are not declared. */
enum bp_status onnx_inner_none(struct onnx_call *c, const struct onnx_inner *inner, uint32_t i,
                               int64_t axis, struct onnx_value **out);

/* BP_ERR_UNSUPPORTED: a loop that is recorded has gone round too often; the model is run node by
 * node then. */
enum bp_status onnx_check_unrolled(const struct onnx_call *c, int64_t rounds);

#endif
