/* SPDX-License-Identifier: Apache-2.0 */
/* attend.c: computes attention over heads, by the operator attention. A call whose products of
 * queries and keys are a result is composed of products and a softmax, half types in f32. The
 * operator has no such output: it is meant for the inspection of models, and kernels of the
 * operator never hold all products at once. */
#include "heads.h"
#include <math.h>
#include <stdlib.h>

/* A mask that is the same for all batches, made by the host. */
static struct bp_tensor *attend_visible(struct onnx_chain *k, int64_t rows, int64_t columns,
                                        const struct onnx_window *w)
{
    const int64_t shape[] = {rows, columns};
    struct bp_tensor *visible = NULL;
    uint8_t *data;
    size_t count;

    if (__builtin_mul_overflow((size_t)rows, (size_t)columns, &count)) count = SIZE_MAX / 4;
    if (k->status == BP_OK) k->status = onnx_check_host(k->call, count, 2);
    if (k->status) return NULL;
    data = malloc(count + 1); /* NULL for SIZE_MAX / 4 */
    if (!data) {
        k->status = onnx_no_memory();
        return NULL;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            int64_t after = j - (w->offset + i);
            data[i * columns + j] =
                (w->left < 0 || -after <= w->left) && (w->right < 0 || after <= w->right);
        }
    k->status = onnx_constant(k->call, BP_BOOL, 2, shape, data, &visible);
    free(data);
    return onnx_chain_take(k, visible);
}

/* A mask for each batch, computed on the device: B 1 rows columns. */
static struct bp_tensor *attend_batches(struct onnx_chain *k, int64_t rows, int64_t columns,
                                        const struct onnx_window *w)
{
    struct bp_tensor *j = onnx_heads_numbers(k, columns, 1, &columns), *ends, *p, *bound, *visible;
    const int64_t shape[] = {k->status ? 0 : onnx_info(w->ends).count, 1, 1, 1};

    ends = onnx_chain_reshape(k, w->ends, 4, shape);
    visible = MAKE(k, less_than, NULL, j, ends);
    if (w->left < 0 && w->right < 0) return visible;
    p = onnx_heads_numbers(k, rows, 2, (const int64_t[]){rows, 1}); /* the positions of queries */
    p = MAKE(k, add, NULL, p,
             MAKE(k, sub, NULL, ends, onnx_chain_number(k, BP_I64, (double)rows)));
    if (w->right >= 0) {
        bound = MAKE(k, add, NULL, p, onnx_chain_number(k, BP_I64, (double)w->right));
        visible = MAKE(k, logical_and, NULL, visible, MAKE(k, less_equal, NULL, j, bound));
    }
    if (w->left >= 0) {
        bound = MAKE(k, sub, NULL, p, onnx_chain_number(k, BP_I64, (double)w->left));
        visible = MAKE(k, logical_and, NULL, visible, MAKE(k, greater_equal, NULL, j, bound));
    }
    return visible;
}

/* Returns the mask of a call, restricted to its window. */
static struct bp_tensor *attend_mask(struct onnx_chain *k, const struct onnx_attention *a)
{
    const struct onnx_window *w = &a->window;
    struct bp_tensor *visible, *mask = a->mask;
    int64_t rows, columns;

    if (k->status || (w->left < 0 && w->right < 0 && !w->ends)) return mask;
    rows = onnx_info(a->q).shape[2];
    columns = onnx_info(a->key).shape[2];
    visible = w->ends ? attend_batches(k, rows, columns, w) : attend_visible(k, rows, columns, w);
    if (!mask || k->status) return visible;
    if (onnx_info(mask).dtype == BP_BOOL) return MAKE(k, logical_and, NULL, mask, visible);
    /* the summand is kept for keys that the query sees */
    return MAKE(k, where, NULL, visible, mask,
                onnx_chain_number(k, onnx_info(mask).dtype, -INFINITY));
}

/* The axis of heads as groups of `each` heads that share keys. */
static struct bp_tensor *attend_group(struct onnx_chain *k, struct bp_tensor *x, int64_t each)
{
    struct bp_tensor_info info;

    if (k->status) return NULL;
    info = onnx_info(x);
    int64_t shape[] = {info.shape[0], info.shape[1] / each, each, info.shape[2], info.shape[3]};
    return onnx_chain_reshape(k, x, 5, shape);
}

struct bp_tensor *onnx_attend_product(struct onnx_chain *k, struct bp_tensor *a,
                                      struct bp_tensor *b, bool transposed)
{
    struct bp_matmul_attrs attrs = bp_matmul_defaults();
    struct bp_tensor_info p, q;
    int64_t each;

    if (k->status) return NULL;
    p = onnx_info(a);
    q = onnx_info(b);
    attrs.transpose_b = transposed;
    each = q.shape[1] ? p.shape[1] / q.shape[1] : 0;
    if (each == 1) return MAKE(k, matmul, &attrs, a, b);
    if (!each || p.shape[1] % q.shape[1]) {
        k->status = onnx_error(BP_ERR_INVALID, "%lld heads of queries, %lld of keys",
                               (long long)p.shape[1], (long long)q.shape[1]);
        return NULL;
    }
    int64_t shape[] = {p.shape[0], p.shape[1], p.shape[2], q.shape[transposed ? 2 : 3]};
    a = MAKE(k, matmul, &attrs, attend_group(k, a, each), attend_group(k, b, 1));
    return onnx_chain_reshape(k, a, 4, shape);
}

/* Adds the mask to products for a result. */
static struct bp_tensor *attend_masked(struct onnx_chain *k, struct bp_tensor *s,
                                       struct bp_tensor *mask, uint32_t dtype)
{
    if (!mask || k->status) return s;
    if (onnx_info(mask).dtype != BP_BOOL) return MAKE(k, add, NULL, s, mask);
    return MAKE(k, where, NULL, mask, s, onnx_chain_number(k, dtype, -INFINITY));
}

bool onnx_attend_check(struct onnx_chain *k, const struct onnx_attention *a)
{
    struct bp_tensor_info q = onnx_info(a->q), key = onnx_info(a->key), v = onnx_info(a->v);

    if (q.shape[0] == key.shape[0] && q.shape[0] == v.shape[0] && key.shape[1] == v.shape[1])
        return true;
    k->status = onnx_error(BP_ERR_INVALID, "queries have %lld batches, keys %lld of %lld heads, "
                           "values %lld of %lld heads", (long long)q.shape[0],
                           (long long)key.shape[0], (long long)key.shape[1],
                           (long long)v.shape[0], (long long)v.shape[1]);
    return false;
}

static struct bp_tensor *attend_compose(struct onnx_chain *k, const struct onnx_attention *a,
                                        struct bp_tensor **out_product)
{
    struct bp_tensor_info q = onnx_info(a->q);
    uint32_t wide = onnx_heads_wide(q.dtype);
    double scale = a->scale != 0 ? a->scale : 1 / sqrt((double)q.shape[3]);
    struct bp_tensor *s, *product, *mask = attend_mask(k, a), *p;

    if (mask && onnx_info(mask).dtype != BP_BOOL) mask = onnx_chain_cast(k, mask, wide);
    s = onnx_attend_product(k, onnx_chain_cast(k, a->q, wide), onnx_chain_cast(k, a->key, wide),
                            true);
    product = s = onnx_chain_scale(k, s, scale, 0);
    if (a->softcap != 0) {
        s = MAKE(k, tanh, NULL, onnx_chain_scale(k, s, 1 / a->softcap, 0));
        s = onnx_chain_scale(k, s, a->softcap, 0);
    }
    p = mask ? MAKE(k, masked_softmax, NULL, s, mask) : MAKE(k, softmax, NULL, s);
    if (a->mode == 1) product = s;
    else if (a->mode == 2) product = attend_masked(k, s, mask, wide);
    else if (a->mode == 3) product = p;
    *out_product = onnx_chain_cast(k, product, q.dtype);
    p = onnx_attend_product(k, p, onnx_chain_cast(k, a->v, wide), false);
    return onnx_chain_cast(k, p, q.dtype);
}

/* Finds the lengths that give the queries their positions in the operator, where the last query has
 * the position of the last key of its batch. Returns false if no length does: the keys that it
 * would cut off are seen. */
static bool attend_lengths(struct onnx_chain *k, const struct onnx_attention *a,
                           struct bp_tensor **out_length)
{
    struct bp_tensor_info q = onnx_info(a->q), key = onnx_info(a->key);
    const struct onnx_window *w = &a->window;
    struct bp_full_attrs all = bp_full_defaults();
    int64_t end = w->offset + q.shape[2];

    *out_length = w->ends;
    if (w->ends || (w->left < 0 && w->right < 0) || end == key.shape[2]) return true;
    if (end < key.shape[2] && w->right != 0) return false;
    all.shape = (struct bp_dims){q.shape, 1};
    all.value = (double)end;
    all.dtype = BP_I64;
    *out_length = onnx_chain_call(k, "full", &all, NULL, 0);
    return true;
}

static struct bp_tensor *attend_call(struct onnx_chain *k, const struct onnx_attention *a)
{
    const int64_t window[] = {a->window.left, a->window.right};
    struct bp_attention_attrs attrs = bp_attention_defaults();
    struct bp_tensor *mask = a->mask, *length = NULL;

    attrs.scale = a->scale;
    attrs.softcap = fabs(a->softcap); /* tanh is odd, so the sign has no effect */
    if (!attend_lengths(k, a, &length)) mask = attend_mask(k, a);
    else if (window[0] < 0 && window[1] == 0) attrs.causal = 1;
    else if (window[0] >= 0 || window[1] >= 0) attrs.window = (struct bp_dims){window, 2};
    if (k->status) return NULL;
    if (mask && onnx_info(mask).dtype != BP_BOOL) /* it may have another dtype */
        mask = onnx_chain_cast(k, mask, onnx_info(a->q).dtype);
    return MAKE(k, attention, &attrs, a->q, a->key, a->v, mask, length);
}

struct bp_tensor *onnx_attend(struct onnx_chain *k, const struct onnx_attention *a,
                              struct bp_tensor **out_product)
{
    if (k->status) return NULL;
    if (!a->want_product) return attend_call(k, a);
    return onnx_attend_check(k, a) ? attend_compose(k, a, out_product) : NULL;
}
