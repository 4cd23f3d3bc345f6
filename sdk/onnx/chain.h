/* SPDX-License-Identifier: Apache-2.0 */
/* chain.h: a node that is several calls, one after the other.
 *
 *     struct onnx_chain k = onnx_chain_begin(c);
 *     onnx_chain_give(&k, 0, MAKE(&k, mul, NULL, x, MAKE(&k, cos, NULL, x)));
 *     return onnx_chain_end(&k);
 *
 * A chain owns the tensors that it makes and destroys those that it does not give. After a failure
 * nothing more is made: every call answers NULL, and the end returns the status. */
#ifndef BP_ONNX_CHAIN_H
#define BP_ONNX_CHAIN_H

#include "row.h"

enum { ONNX_CHAIN_ROOM = 40, ONNX_CHAIN_PORTS = 8 };

struct onnx_chain {
    struct onnx_call *call;
    enum bp_status status;
    struct bp_tensor *made[ONNX_CHAIN_ROOM];
    uint32_t n;
};

/* A call of as many inputs as are listed (NULL: absent): its first output, the only one that it
 * must have. attrs: of the operator's struct, or NULL. */
#define MAKE(k, op, attrs, ...) \
    onnx_chain_call(k, #op, attrs, (struct bp_tensor *[]){__VA_ARGS__}, \
                    sizeof((struct bp_tensor *[]){__VA_ARGS__}) / sizeof(struct bp_tensor *))

struct onnx_chain onnx_chain_begin(struct onnx_call *c);
struct bp_tensor *onnx_chain_call(struct onnx_chain *k, const char *op, const void *attrs,
                                  struct bp_tensor *const *in, size_t n_in);

/* The chain takes the caller's reference to t, and answers t (NULL after a failure). */
struct bp_tensor *onnx_chain_take(struct onnx_chain *k, struct bp_tensor *t);

/* Output i of the node, where it is wanted, becomes t: made by the chain, or an input of the node.
 * t is not to be used after it. */
void onnx_chain_give(struct onnx_chain *k, uint32_t i, struct bp_tensor *t);
enum bp_status onnx_chain_end(struct onnx_chain *k);

/* x itself if it has this dtype. */
struct bp_tensor *onnx_chain_cast(struct onnx_chain *k, struct bp_tensor *x, uint32_t dtype);
/* factor x + bias, of floats. */
struct bp_tensor *onnx_chain_scale(struct onnx_chain *k, struct bp_tensor *x, double factor,
                                   double bias);
struct bp_tensor *onnx_chain_reshape(struct onnx_chain *k, struct bp_tensor *x, int64_t rank,
                                     const int64_t *shape);
/* One value, of no axes. */
struct bp_tensor *onnx_chain_number(struct onnx_chain *k, uint32_t dtype, double value);

#endif
