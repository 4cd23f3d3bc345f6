/* SPDX-License-Identifier: Apache-2.0 */
/* chain.h: builds one ONNX node from several operator calls, one after the other.
 *
 *     struct onnx_chain k = onnx_chain_begin(c);
 *     onnx_chain_give(&k, 0, MAKE(&k, mul, NULL, x, MAKE(&k, cos, NULL, x)));
 *     return onnx_chain_end(&k);
 *
 * A chain owns the tensors that its calls create, and destroys those that are not outputs of the
 * node. After a failure the chain makes no more calls: each function returns NULL, and
 * onnx_chain_end returns the status. */
#ifndef BP_ONNX_CHAIN_H
#define BP_ONNX_CHAIN_H

#include "row.h"

enum { ONNX_CHAIN_ROOM = 128, ONNX_CHAIN_PORTS = 8 };

struct onnx_chain {
    struct onnx_call *call;
    enum bp_status status;
    struct bp_tensor *made[ONNX_CHAIN_ROOM];
    uint32_t n;
};

/* Calls an operator with the listed inputs (NULL: absent) and returns its first output, which must
 * be its only required one. attrs: a struct of the operator's attributes, or NULL. */
#define MAKE(k, op, attrs, ...) \
    onnx_chain_call(k, #op, attrs, (struct bp_tensor *[]){__VA_ARGS__}, \
                    sizeof((struct bp_tensor *[]){__VA_ARGS__}) / sizeof(struct bp_tensor *))

struct onnx_chain onnx_chain_begin(struct onnx_call *c);
struct bp_tensor *onnx_chain_call(struct onnx_chain *k, const char *op, const void *attrs,
                                  struct bp_tensor *const *in, size_t n_in);

/* Takes over the caller's reference to t, and returns t (NULL after a failure). */
struct bp_tensor *onnx_chain_take(struct onnx_chain *k, struct bp_tensor *t);

/* Gives the reference to t, which the chain created, to the caller; returns t. */
struct bp_tensor *onnx_chain_drop(struct onnx_chain *k, struct bp_tensor *t);

/* Sets output i of the node to t, if the node has this output. t was created by the chain, or is an
 * input of the node. The caller must not use t after the call. */
void onnx_chain_give(struct onnx_chain *k, uint32_t i, struct bp_tensor *t);
enum bp_status onnx_chain_end(struct onnx_chain *k);

/* Converts x to a dtype, and as the attributes of cast state; returns x itself if it has this
 * dtype. */
struct bp_tensor *onnx_chain_cast(struct onnx_chain *k, struct bp_tensor *x, uint32_t dtype);
struct bp_tensor *onnx_chain_cast_by(struct onnx_chain *k, struct bp_tensor *x,
                                     const struct bp_cast_attrs *attrs);
/* Computes factor x + bias, of floats. */
struct bp_tensor *onnx_chain_scale(struct onnx_chain *k, struct bp_tensor *x, double factor,
                                   double bias);
struct bp_tensor *onnx_chain_reshape(struct onnx_chain *k, struct bp_tensor *x, int64_t rank,
                                     const int64_t *shape);
/* Takes every step-th of the elements begin to end - 1 along one axis; -1 is the last axis. */
struct bp_tensor *onnx_chain_slice(struct onnx_chain *k, struct bp_tensor *x, int64_t axis,
                                   int64_t begin, int64_t end, int64_t step);
/* Creates a tensor of rank 0 with one value. */
struct bp_tensor *onnx_chain_number(struct onnx_chain *k, uint32_t dtype, double value);

#endif
