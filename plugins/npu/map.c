/* SPDX-License-Identifier: Apache-2.0 */
/* map.c: adds the steps of maps along one axis: the elements are gathered by a table, multiplied by
 * weights and reduced. */
#include "map.h"

#include <stdlib.h>
#include <string.h>

bool npu_map_init(struct npu_map *map, int64_t n, int64_t results, int64_t taps, bool weighted)
{
    size_t count = (size_t)(results * taps);

    *map = (struct npu_map){.n = n, .results = results, .taps = taps};
    if (results > NPU_MAP_MOST || taps > NPU_MAP_MOST || results * taps > NPU_MAP_MOST)
        return false;
    map->index = malloc((count + 1) * sizeof *map->index);
    if (weighted) map->weight = malloc((count + 1) * sizeof *map->weight);
    return map->index && (map->weight || !weighted);
}

void npu_map_finish(struct npu_map *map)
{
    free(map->index);
    free(map->weight);
    map->index = NULL;
    map->weight = NULL;
}

bool npu_map_transpose(struct npu_map *out, const struct npu_map *map)
{
    int64_t *used = calloc((size_t)map->n + 1, sizeof *used), taps = 0,
            count = map->results * map->taps;
    bool ok = used != NULL;

    for (int64_t i = 0; ok && i < count; i++)
        if (map->index[i] < map->n && ++used[map->index[i]] > taps) taps = used[map->index[i]];
    ok = ok && npu_map_init(out, map->results, map->n, taps ? taps : 1, map->weight != NULL);
    for (int64_t i = 0; ok && i < out->results * out->taps; i++) {
        out->index[i] = out->n;
        if (out->weight) out->weight[i] = 0;
    }
    if (ok) memset(used, 0, ((size_t)map->n + 1) * sizeof *used);
    for (int64_t i = 0; ok && i < count; i++) {
        int64_t at = map->index[i], to;
        if (at >= map->n) continue;
        to = at * out->taps + used[at]++;
        out->index[to] = i / map->taps;
        if (out->weight) out->weight[to] = map->weight[i];
    }
    free(used);
    return ok;
}

/* x, of three axes, with a zero behind the middle one if the table names it. */
static struct kit_arg map_ended(struct kit_build *b, const struct npu_map *map, struct kit_arg x)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[3] = {type->shape[0], map->n + 1, type->shape[2]};
    const int64_t pad[6] = {0, 0, 0, 1, 0, 0};
    struct kit_arg ended;
    bool needed = false;

    for (int64_t i = 0; i < map->results * map->taps; i++) needed |= map->index[i] == map->n;
    if (!needed) return x;
    ended = kit_temporary(b, type->dtype, 3, shape);
    KIT_STEP(b, "ConstantPadNd", x, kit_array(b, pad, 6), KIT_NUMBER_IS(map->behind), ended);
    return ended;
}

static struct kit_arg map_reduced(struct kit_build *b, const struct npu_map *map, struct kit_arg x,
                                  enum npu_map_of of)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t shape[4] = {type->shape[0], map->results, 1, type->shape[3]};
    const int64_t taps[1] = {2}, weights[4] = {1, map->results, map->taps, 1};
    struct kit_arg to;

    if (map->weight) x = npu_mul(b, x, kit_constant(b, BP_F32, 4, weights, map->weight));
    if (map->taps == 1) return x;
    if (of == NPU_MAP_SUM) return npu_sum(b, x, 4);
    to = kit_temporary(b, type->dtype, 4, shape);
    KIT_STEP(b, "Amax", x, kit_array(b, taps, 1), KIT_INT_IS(1), to);
    return to;
}

struct kit_arg npu_map_apply(struct kit_build *b, const struct npu_map *map, struct kit_arg x,
                             uint32_t axis, enum npu_map_of of)
{
    const struct bp_view *type = npu_type(b, x);
    int64_t flat[3] = {1, map->n, 1}, apart[4], shape[KIT_AXES_MAX], count;
    uint32_t rank = type->rank;
    struct kit_arg table, gathered;

    if (b->status) return x;
    for (uint32_t i = 0; i < type->rank; i++) {
        shape[i] = i == axis ? map->results : type->shape[i];
        if (i != axis) flat[i < axis ? 0 : 2] *= type->shape[i];
    }
    count = map->results * map->taps;
    table = kit_constant(b, BP_I64, 1, &count, map->index);
    x = map_ended(b, map, kit_reshaped(b, x, 3, flat));
    apart[0] = flat[0], apart[1] = map->results, apart[2] = map->taps, apart[3] = flat[2];
    flat[1] = count;
    gathered = kit_temporary(b, npu_type(b, x)->dtype, 3, flat);
    KIT_STEP(b, "IndexSelect", x, KIT_INT_IS(1), table, gathered);
    x = map_reduced(b, map, kit_reshaped(b, gathered, 4, apart), of);
    return kit_reshaped(b, x, rank, shape);
}
