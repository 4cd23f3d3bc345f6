/* SPDX-License-Identifier: Apache-2.0 */
/* heads.h: declares parts of nodes with attention heads: splitting and joining heads, rotary
 * embeddings, caches of keys and values, and attention itself. Each function returns NULL after a
 * failure of the chain. */
#ifndef BP_ONNX_HEADS_H
#define BP_ONNX_HEADS_H

#include "../chain.h"

/* heads.c: B L (heads D) to B heads L D, and back. The caller has checked that heads divide the
 * last extent. */
struct bp_tensor *onnx_heads_split(struct onnx_chain *k, struct bp_tensor *x, int64_t heads);
struct bp_tensor *onnx_heads_join(struct onnx_chain *k, struct bp_tensor *x);

/* heads.c: joins tensors along an axis. */
struct bp_tensor *onnx_heads_concat(struct onnx_chain *k, struct bp_tensor *const *x, size_t n,
                                    int64_t axis);
/* heads.c: the numbers 0 to n - 1, i64, of a shape with n elements. */
struct bp_tensor *onnx_heads_numbers(struct onnx_chain *k, int64_t n, int64_t rank,
                                     const int64_t *shape);
/* heads.c: the dtype of a computation: f32 for half types, otherwise the dtype itself. */
uint32_t onnx_heads_wide(uint32_t dtype);

/* rotary.c: rotates pairs of the first 2 H elements of each head, where H is the last extent of cos
 * and sin: elements i and i + H, or if interleaved 2 i and 2 i + 1. x: B heads L D. cos, sin: B or
 * 1, L, H; with positions (B or 1, L) rows of H elements. */
struct bp_tensor *onnx_rotate(struct onnx_chain *k, struct bp_tensor *x, struct bp_tensor *cos,
                              struct bp_tensor *sin, struct bp_tensor *positions,
                              bool interleaved);

/* cache.c: writes update to cache along an axis, in each batch from at[batch] on (B elements, i64;
 * NULL: 0). circular: positions continue at the start of the cache. */
struct bp_tensor *onnx_cache_write(struct onnx_chain *k, struct bp_tensor *cache,
                                   struct bp_tensor *update, struct bp_tensor *at, int64_t axis,
                                   bool circular);

/* The keys that a query may see. Query i has the position p = offset + i, and sees keys p - left to
 * p + right; -1: no bound. */
struct onnx_window {
    int64_t left, right, offset;
    struct bp_tensor *ends; /* each batch has only this many keys, B of i64, and its last query the
                               position of the last of them, in place of offset; or NULL */
};

/* One call of attention. */
struct onnx_attention {
    struct bp_tensor *q, *key, *v; /* B heads L D; the heads of key divide those of q */
    struct bp_tensor *mask;        /* which keys are seen (bool), or a summand; or NULL */
    struct onnx_window window;
    double scale, softcap;         /* 0: 1 / sqrt(D); 0: none */
    bool want_product;             /* products of queries and keys are a result */
    int64_t mode;                  /* their state: 0 raw, 1 capped, 2 masked, 3 probabilities */
};

/* attend.c: a b, or a b^T, where the heads of b divide those of a. */
struct bp_tensor *onnx_attend_product(struct onnx_chain *k, struct bp_tensor *a,
                                      struct bp_tensor *b, bool transposed);
/* attend.c: checks the extents that a product would broadcast. */
bool onnx_attend_check(struct onnx_chain *k, const struct onnx_attention *a);
/* attend.c: computes attention; out_product may be NULL unless want_product. */
struct bp_tensor *onnx_attend(struct onnx_chain *k, const struct onnx_attention *a,
                              struct bp_tensor **out_product);

#endif
