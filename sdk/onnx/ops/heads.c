/* SPDX-License-Identifier: Apache-2.0 */
/* heads.c: moves, slices and joins tensors with attention heads. */
#include "heads.h"

static struct bp_tensor *heads_transpose(struct onnx_chain *k, struct bp_tensor *x)
{
    static const int64_t middle_transposed[] = {0, 2, 1, 3};
    struct bp_transpose_attrs attrs = bp_transpose_defaults();

    attrs.perm = (struct bp_dims){middle_transposed, 4};
    return MAKE(k, transpose, &attrs, x);
}

struct bp_tensor *onnx_heads_split(struct onnx_chain *k, struct bp_tensor *x, int64_t heads)
{
    struct bp_tensor_info info;

    if (k->status) return NULL;
    info = onnx_info(x);
    int64_t shape[] = {info.shape[0], info.shape[1], heads, info.shape[2] / heads};
    return heads_transpose(k, onnx_chain_reshape(k, x, 4, shape));
}

struct bp_tensor *onnx_heads_join(struct onnx_chain *k, struct bp_tensor *x)
{
    struct bp_tensor_info info;

    if (k->status) return NULL;
    info = onnx_info(x);
    int64_t shape[] = {info.shape[0], info.shape[2], info.shape[1] * info.shape[3]};
    return onnx_chain_reshape(k, heads_transpose(k, x), 3, shape);
}

struct bp_tensor *onnx_heads_concat(struct onnx_chain *k, struct bp_tensor *const *x, size_t n,
                                    int64_t axis)
{
    struct bp_concat_attrs attrs = bp_concat_defaults();
    struct bp_tensor *y = NULL;

    if (k->status) return NULL;
    attrs.axis = axis;
    k->status = bp_op_concat(k->call->scope, x, n, &attrs, &y);
    return onnx_chain_take(k, y);
}

struct bp_tensor *onnx_heads_numbers(struct onnx_chain *k, int64_t n, int64_t rank,
                                     const int64_t *shape)
{
    struct bp_arange_attrs attrs = bp_arange_defaults();

    attrs.dtype = BP_I64;
    attrs.num = n;
    return onnx_chain_reshape(k, onnx_chain_call(k, "arange", &attrs, NULL, 0), rank, shape);
}

uint32_t onnx_heads_wide(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16 ? BP_F32 : dtype;
}
