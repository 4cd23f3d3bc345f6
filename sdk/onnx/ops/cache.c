/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c: runs TensorScatter: writes new keys or values to a cache, at a position of each
 * batch. */
#include "../ops.h"
#include "heads.h"

/* The position of each element of update along the axis. */
static struct bp_tensor *cache_index(struct onnx_chain *k, const struct bp_tensor_info *update,
                                     int64_t length, struct bp_tensor *at, int64_t axis,
                                     bool circular)
{
    int64_t line[ONNX_RANK_MAX], batch[ONNX_RANK_MAX];
    struct bp_expand_attrs expand = bp_expand_defaults();
    struct bp_tensor *index;

    for (uint32_t i = 0; i < update->rank; i++) line[i] = batch[i] = 1;
    line[axis] = update->shape[axis];
    batch[0] = update->shape[0];
    index = onnx_heads_numbers(k, line[axis], update->rank, line);
    if (at) index = MAKE(k, add, NULL, index, onnx_chain_reshape(k, at, update->rank, batch));
    if (circular) index = MAKE(k, mod, NULL, index, onnx_chain_number(k, BP_I64, (double)length));
    expand.shape = (struct bp_dims){update->shape, update->rank};
    return MAKE(k, expand, &expand, index);
}

struct bp_tensor *onnx_cache_write(struct onnx_chain *k, struct bp_tensor *cache,
                                   struct bp_tensor *update, struct bp_tensor *at, int64_t axis,
                                   bool circular)
{
    struct bp_put_along_axis_attrs put = bp_put_along_axis_defaults();
    struct bp_tensor_info info, to;
    struct bp_tensor *index;

    if (k->status) return NULL;
    info = onnx_info(update);
    to = onnx_info(cache);
    index = cache_index(k, &info, to.shape[axis], at, axis, circular);
    put.axis = axis;
    if (to.dtype == BP_BOOL) { /* put_along_axis has no booleans: they are put as bytes */
        cache = onnx_chain_cast(k, cache, BP_U8);
        update = onnx_chain_cast(k, update, BP_U8);
    }
    return onnx_chain_cast(k, MAKE(k, put_along_axis, &put, cache, index, update), to.dtype);
}

static enum bp_status cache_check(const struct bp_tensor_info *cache,
                                  const struct bp_tensor_info *update, int64_t *axis)
{
    bool good = cache->rank == update->rank && cache->rank <= ONNX_RANK_MAX;

    if (*axis < 0) *axis += cache->rank;
    if (*axis < 1 || *axis >= (int64_t)cache->rank)
        return onnx_error(BP_ERR_INVALID, "axis is %lld, expected 1 to %d", (long long)*axis,
                          (int)cache->rank - 1);
    for (uint32_t i = 0; i < cache->rank && good; i++)
        good = i == *axis ? update->shape[i] <= cache->shape[i]
                          : update->shape[i] == cache->shape[i];
    return good ? BP_OK
                : onnx_error(BP_ERR_INVALID, "update has to have the extents of past_cache, along "
                             "axis %lld at most", (long long)*axis);
}

enum bp_status onnx_tensor_scatter(struct onnx_call *c)
{
    struct bp_tensor *cache = onnx_in(c, 0), *update = onnx_in(c, 1), *at = onnx_in(c, 2);
    bool circular = onnx_attr_is(c, "mode", "circular", "linear");
    int64_t axis = onnx_attr_int(c, "axis", -2);
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor_info to, from;

    TRY(onnx_need(c, 2));
    to = onnx_info(cache);
    from = onnx_info(update);
    TRY(cache_check(&to, &from, &axis));
    if (at && (onnx_info(at).rank != 1 || onnx_info(at).shape[0] != to.shape[0]))
        return onnx_error(BP_ERR_INVALID, "write_indices: a list of %lld numbers is expected",
                          (long long)to.shape[0]);
    onnx_chain_give(&k, 0, onnx_cache_write(&k, cache, update, at, axis, circular));
    return onnx_chain_end(&k);
}
