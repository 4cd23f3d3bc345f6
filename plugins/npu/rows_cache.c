/* SPDX-License-Identifier: Apache-2.0 */
/* rows_cache.c: builds the rows that write rows into others: caches of keys and values, and the
 * gradient of embeddings. */
#include "compose.h"

/* Where elements are written along an axis: for each place of the update's axis `axis`, and of its
 * first axis if `at` has a number for each of these. Without `at` the first places. */
struct cache_places {
    uint32_t axis, rank;
    int64_t room, count; /* extents of the axis in the cache and in the update */
    bool circular;
};

/* The numbers of the places, with all axes of extent 1 but those two. *out_bad: where `at` is bad;
 * the places are those of another number then. */
static struct kit_arg cache_numbers(struct kit_build *b, const struct cache_places *p,
                                    struct kit_arg at, struct kit_arg *out_bad)
{
    const struct bp_view *given = npu_type(b, at);
    int64_t each[KIT_AXES_MAX], along[KIT_AXES_MAX], flat[1] = {p->count};
    struct kit_arg steps = kit_temporary(b, BP_I64, 1, flat), safe, number;

    for (uint32_t i = 0; i < p->rank; i++) each[i] = along[i] = 1;
    if (given->rank) each[0] = given->shape[0];
    along[p->axis] = p->count;
    KIT_STEP(b, "Arange", KIT_SCALAR_IS(0), KIT_SCALAR_IS(p->count), KIT_SCALAR_IS(1), steps);
    at = part_cast(b, kit_reshaped(b, at, p->rank, each), BP_I64);
    /* Of a circular cache only negative numbers are bad. */
    safe = npu_guard(b, at, p->circular ? (int64_t)1 << 62 : p->room - p->count + 1, false);
    *out_bad = npu_like(b, at, BP_BOOL);
    KIT_STEP(b, "NeTensor", at, safe, *out_bad);
    number = part_add(b, safe, kit_reshaped(b, steps, p->rank, along));
    if (!p->circular) return number;
    return part_two(b, "RemainderTensorTensor", number,
                    npu_filled(b, BP_I64, 0, NULL, (double)p->room));
}

/* Writes the update into `cache`, which has the contents of the cache already. */
static void cache_write(struct kit_build *b, const struct cache_places *p, struct kit_arg at,
                        struct kit_arg update, struct kit_arg cache)
{
    const struct bp_view *type = npu_type(b, update);
    struct kit_arg index, number, bad, old, values;

    if (b->status || !type->count) return;
    if (!npu_is_given(b, at)) {
        KIT_STEP(b, "InplaceCopy", npu_part(b, cache, p->axis, 0, p->count, 1), update);
        return;
    }
    number = cache_numbers(b, p, at, &bad);
    index = npu_like(b, update, BP_I64);
    KIT_STEP(b, "Expand", number, kit_array(b, type->shape, type->rank), index);
    old = npu_like(b, update, type->dtype); /* a part that fails is not written */
    KIT_STEP(b, "Gather", kit_as(cache, KIT_READS), KIT_INT_IS(p->axis), index, old);
    values = npu_like(b, update, type->dtype);
    KIT_STEP(b, "SWhere", bad, old, update, values);
    KIT_STEP(b, "Scatter", kit_as(cache, KIT_READS), KIT_INT_IS(p->axis), index, values,
             KIT_INT_IS(0), kit_as(cache, KIT_WRITES));
}

enum bp_status npu_build_cache_write(struct kit_build *b)
{
    const struct bp_cache_write_attrs *a = b->attrs;
    const struct bp_view *cache = npu_type(b, NPU_IN(0)), *update = npu_type(b, NPU_IN(1));
    struct cache_places p = {npu_axis(a->axis, cache->rank), cache->rank, 0, 0, a->circular};

    if (b->status || !cache->count) return b->status;
    p.room = cache->shape[p.axis];
    p.count = update->shape[p.axis];
    cache_write(b, &p, NPU_IN(2), NPU_IN(1), NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_tensor_scatter(struct kit_build *b)
{
    const struct bp_tensor_scatter_attrs *a = b->attrs;
    const struct bp_view *cache = npu_type(b, NPU_IN(0)), *update = npu_type(b, NPU_IN(1));
    struct cache_places p = {npu_axis(a->axis, cache->rank), cache->rank, 0, 0, a->circular};

    if (b->status || !cache->count) return b->status;
    p.room = cache->shape[p.axis];
    p.count = update->shape[p.axis];
    KIT_STEP(b, "InplaceCopy", NPU_OUT(0), NPU_IN(0));
    cache_write(b, &p, NPU_IN(2), NPU_IN(1), NPU_OUT(0));
    return b->status;
}

/* The sums of the rows of dy by id. An id that is padding adds nothing. Ids below 0 are bad, so
 * that -1 names no padding. */
enum bp_status npu_build_embedding_grad(struct kit_build *b)
{
    const struct bp_embedding_grad_attrs *a = b->attrs;
    const struct bp_view *ids = npu_type(b, NPU_IN(1)), *w = npu_type(b, NPU_OUT(0));
    int64_t flat[2], count[1], rows[2];
    struct kit_arg dy, safe, out = NPU_OUT(0);

    if (b->status || !w->count) return b->status;
    if (!ids->count) {
        npu_fill(b, out, 0);
        return b->status;
    }
    flat[0] = count[0] = ids->count;
    flat[1] = w->count / w->shape[0];
    rows[0] = w->shape[0], rows[1] = flat[1];
    safe = npu_guard(b, kit_reshaped(b, NPU_IN(1), 1, count), w->shape[0], false);
    dy = npu_wide(b, kit_reshaped(b, NPU_IN(0), 2, flat));
    if (part_is_half(w->dtype)) out = npu_like(b, out, BP_F32);
    KIT_STEP(b, "EmbeddingDenseBackward", dy, safe, KIT_INT_IS(w->shape[0]),
             KIT_INT_IS(a->padding_idx), KIT_INT_IS(0), kit_reshaped(b, out, 2, rows));
    if (part_is_half(w->dtype)) npu_cast(b, out, NPU_OUT(0));
    return b->status;
}
