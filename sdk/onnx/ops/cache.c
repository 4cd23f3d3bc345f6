/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c: runs TensorScatter: writes new keys or values to a cache, at a position of each
 * batch. */
#include "../ops.h"
#include "heads.h"

/* tensor_scatter has no booleans: they are written as bytes. */
struct bp_tensor *onnx_cache_write(struct onnx_chain *k, struct bp_tensor *cache,
                                   struct bp_tensor *update, struct bp_tensor *at, int64_t axis,
                                   bool circular)
{
    struct bp_tensor_scatter_attrs attrs = bp_tensor_scatter_defaults();
    uint32_t dtype;

    if (k->status) return NULL;
    dtype = onnx_info(cache).dtype;
    attrs.axis = axis;
    attrs.circular = circular;
    if (dtype == BP_BOOL) {
        cache = onnx_chain_cast(k, cache, BP_U8);
        update = onnx_chain_cast(k, update, BP_U8);
    }
    return onnx_chain_cast(k, MAKE(k, tensor_scatter, &attrs, cache, update, at), dtype);
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
