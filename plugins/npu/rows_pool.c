/* SPDX-License-Identifier: Apache-2.0 */
/* rows_pool.c: builds the rows of pools. The vendor's functions take images of two spatial axes and
 * the same padding at both ends; other pools are maps along one axis after the other. */
#include "map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The begin of the attributes of all pools. */
#define POOL_BEGINS(op) \
    _Static_assert(offsetof(struct bp_##op##_attrs, adaptive) == \
                       offsetof(struct bp_max_pool_attrs, adaptive), \
                   #op)
POOL_BEGINS(max_pool_with_index);
POOL_BEGINS(max_pool_grad);
POOL_BEGINS(avg_pool);
POOL_BEGINS(avg_pool_grad);
#undef POOL_BEGINS

enum {
    POOL_LARGEST = 255
}; /* extents of windows that go to the vendor's functions */

/* A pool along one axis. */
struct pool_axis {
    int64_t n, m; /* extents of x and of the result */
    int64_t window, stride, dilation, before, behind;
    bool adaptive;
};

static struct pool_axis pool_axis(const struct bp_max_pool_attrs *a, const struct bp_view *x,
                                  const struct bp_view *y, uint32_t i)
{
    return (struct pool_axis){x->shape[i + 2], y->shape[i + 2], a->window[i],  a->stride[i],
                              a->dilation[i],  a->pad[i],       a->pad[i + 3], a->adaptive != 0};
}

/* The first element of window o, the step to the next one, and how many there are. */
static void pool_window(const struct pool_axis *p, int64_t o, int64_t *out_first, int64_t *out_step,
                        int64_t *out_count)
{
    int64_t begin, first, last;

    if (p->adaptive) {
        *out_first = o * p->n / p->m;
        *out_step = 1;
        *out_count = ((o + 1) * p->n + p->m - 1) / p->m - *out_first;
        return;
    }
    begin = o * p->stride - p->before;
    first = begin < 0 ? (-begin + p->dilation - 1) / p->dilation : 0;
    last = begin > p->n - 1 ? -1 : (p->n - 1 - begin) / p->dilation;
    if (last > p->window - 1) last = p->window - 1;
    *out_first = begin + first * p->dilation;
    *out_step = p->dilation;
    *out_count = last < first ? 0 : last - first + 1;
}

/* How many elements of x and of its padding window o has. */
static int64_t pool_padded_count(const struct pool_axis *p, int64_t o)
{
    int64_t last = p->n + p->before + p->behind - 1 - o * p->stride;

    last = last < 0 ? 0 : last / p->dilation + 1;
    return last < p->window ? last : p->window;
}

/* The elements of each window; those that it has not repeat its first one, or are zeros. */
static bool pool_map(struct npu_map *map, const struct pool_axis *p, bool repeat)
{
    int64_t first, step, count, most = 1;

    for (int64_t o = 0; o < p->m; o++) {
        pool_window(p, o, &first, &step, &count);
        if (count > most) most = count;
        if (!count && repeat) return false;
    }
    if (!npu_map_init(map, p->n, p->m, most, false)) return false;
    for (int64_t o = 0; o < p->m; o++) {
        pool_window(p, o, &first, &step, &count);
        for (int64_t t = 0; t < most; t++)
            map->index[o * most + t] = t < count ? first + t * step : repeat ? first : p->n;
    }
    return true;
}

/* Whether the vendor's functions can have the pool; if so, the arguments that they share. Pools of
 * one axis are images of one line. */
struct pool_image {
    struct kit_arg window, stride, pad, dilation;
    int64_t x[4], y[4];
};

static bool pool_image(struct kit_build *b, const struct bp_max_pool_attrs *a,
                       const struct bp_view *x, const struct bp_view *y, struct pool_image *out)
{
    uint32_t axes = x->rank - 2u;
    int64_t window[2] = {1, 1}, stride[2] = {1, 1}, pad[2] = {0, 0}, dilation[2] = {1, 1};

    if (b->status || axes > 2 || a->adaptive) return false;
    *out = (struct pool_image){.x = {x->shape[0], x->shape[1], 1, 1},
                               .y = {y->shape[0], y->shape[1], 1, 1}};
    for (uint32_t i = 0; i < axes; i++) {
        uint32_t at = 2 - axes + i;
        window[at] = a->window[i], stride[at] = a->stride[i];
        pad[at] = a->pad[i], dilation[at] = a->dilation[i];
        out->x[2 + at] = x->shape[i + 2], out->y[2 + at] = y->shape[i + 2];
        if (a->pad[i] != a->pad[i + 3] || a->pad[i] > a->window[i] / 2 ||
            a->window[i] > POOL_LARGEST || a->stride[i] > POOL_LARGEST)
            return false;
    }
    out->window = kit_array(b, window, 2);
    out->stride = kit_array(b, stride, 2);
    out->pad = kit_array(b, pad, 2);
    out->dilation = kit_array(b, dilation, 2);
    return true;
}

static struct kit_arg pool_view(struct kit_build *b, struct kit_arg x, const int64_t shape[4])
{
    return npu_image(kit_reshaped(b, x, 4, shape));
}

enum bp_status npu_build_max_pool(struct kit_build *b)
{
    const struct bp_max_pool_attrs *a = b->attrs;
    struct pool_image p;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (!pool_image(b, a, npu_type(b, NPU_IN(0)), npu_type(b, NPU_OUT(0)), &p))
        return kit_refuse(b);
    return KIT_STEP(b, "MaxPool2dWithIndices", pool_view(b, NPU_IN(0), p.x), p.window, p.stride,
                    p.pad, p.dilation, KIT_INT_IS(a->ceil_mode), pool_view(b, NPU_OUT(0), p.y),
                    npu_image(kit_temporary(b, BP_I32, 4, p.y)));
}

/* The largest elements along one axis after the other. */
enum bp_status npu_build_max_pool_parts(struct kit_build *b)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *y = npu_type(b, NPU_OUT(0));
    struct kit_arg t = NPU_IN(0);

    for (uint32_t i = 0; i + 2 < x->rank && y->count; i++) {
        struct pool_axis p = pool_axis(b->attrs, x, y, i);
        struct npu_map map = {0};
        if (pool_map(&map, &p, true)) t = npu_map_apply(b, &map, t, i + 2, NPU_MAP_MOST_OF);
        else kit_refuse(b);
        npu_map_finish(&map);
    }
    if (y->count) npu_finish(b, t, NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_max_pool_with_index(struct kit_build *b)
{
    const struct bp_max_pool_with_index_attrs *a = b->attrs;
    struct pool_image p;
    struct kit_arg index;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (a->column_major || a->whole ||
        !pool_image(b, b->attrs, npu_type(b, NPU_IN(0)), npu_type(b, NPU_OUT(0)), &p))
        return kit_refuse(b);
    index = kit_temporary(b, BP_I32, 4, p.y);
    KIT_STEP(b, "MaxPool2dWithIndices", pool_view(b, NPU_IN(0), p.x), p.window, p.stride, p.pad,
             p.dilation, KIT_INT_IS(a->ceil_mode), pool_view(b, NPU_OUT(0), p.y), npu_image(index));
    npu_finish(b, index, NPU_OUT(1));
    return b->status;
}

/* The places of all windows of a channel: `from` in the channel as it lies in memory, `number` as
 * the attributes count them. */
struct pool_places {
    int64_t results, taps, plane, *from, *number;
};

/* Adds one window's places: those it has not repeat the last one. */
static void pool_place(struct pool_places *places, const struct pool_axis axis[3], uint32_t axes,
                       int64_t result, bool columns)
{
    int64_t first[3] = {0, 0, 0}, step[3] = {0, 0, 0}, count[3] = {1, 1, 1}, n[3] = {1, 1, 1};
    int64_t *from = places->from + result * places->taps;
    int64_t *number = places->number + result * places->taps, used = 0, rest = result;

    for (uint32_t i = axes; i-- > 0; rest /= axis[i].m) {
        pool_window(&axis[i], rest % axis[i].m, &first[i], &step[i], &count[i]);
        n[i] = axis[i].n;
    }
    for (int64_t t = 0; t < count[0] * count[1] * count[2]; t++) {
        int64_t x = first[0] + t / (count[1] * count[2]) * step[0];
        int64_t y = first[1] + t / count[2] % count[1] * step[1];
        int64_t z = first[2] + t % count[2] * step[2];
        from[used] = (x * n[1] + y) * n[2] + z;
        number[used] = columns ? x + n[0] * (y + n[1] * z) : from[used];
        used++;
    }
    for (; used && used < places->taps; used++) {
        from[used] = from[used - 1];
        number[used] = number[used - 1];
    }
}

/* Returns false if a window has no place, or if there are too many. */
static bool pool_places(struct pool_places *out, const struct bp_max_pool_attrs *a,
                        const struct bp_view *x, const struct bp_view *y, bool columns)
{
    struct pool_axis axis[3];
    uint32_t axes = x->rank - 2u;

    *out = (struct pool_places){1, 1, 1, NULL, NULL};
    for (uint32_t i = 0; i < axes; i++) {
        int64_t first, step, count, most = 0;
        axis[i] = pool_axis(a, x, y, i);
        for (int64_t o = 0; o < axis[i].m; o++) {
            pool_window(&axis[i], o, &first, &step, &count);
            if (!count) return false;
            if (count > most) most = count;
        }
        out->plane *= axis[i].n;
        out->results *= axis[i].m;
        out->taps *= most;
        if (out->results * out->taps > NPU_MAP_MOST) return false;
    }
    out->from = malloc((size_t)(out->results * out->taps) * sizeof *out->from);
    out->number = malloc((size_t)(out->results * out->taps) * sizeof *out->number);
    if (!out->from || !out->number) return false;
    for (int64_t i = 0; i < out->results; i++) pool_place(out, axis, axes, i, columns);
    return true;
}

static void pool_places_free(struct pool_places *places)
{
    free(places->from);
    free(places->number);
}

/* A constant of the numbers 0, step, 2 step, ... */
static struct kit_arg pool_steps(struct kit_build *b, int64_t count, int64_t step, uint32_t rank,
                                 const int64_t *shape)
{
    int64_t *number = malloc((size_t)count * sizeof *number);
    struct kit_arg out = NPU_NONE;

    for (int64_t i = 0; number && i < count; i++) number[i] = i * step;
    if (number) out = kit_constant(b, BP_I64, rank, shape, number);
    else kit_refuse(b);
    free(number);
    return out;
}

/* The number of the place that each window takes, from the number of the place in the window. */
static void pool_numbers(struct kit_build *b, const struct pool_places *places, struct kit_arg tap)
{
    const struct bp_max_pool_with_index_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0));
    int64_t lines = x->shape[0] * x->shape[1];
    const int64_t row[2] = {1, places->results}, column[2] = {lines, 1};
    const int64_t all = places->results * places->taps, count = lines * places->results;
    const int64_t shape[2] = {lines, places->results};
    struct kit_arg at, number;

    at = part_add(b, tap, pool_steps(b, places->results, places->taps, 2, row));
    number = kit_temporary(b, BP_I64, 1, &count);
    KIT_STEP(b, "IndexSelect", kit_constant(b, BP_I64, 1, &all, places->number), KIT_INT_IS(0),
             kit_reshaped(b, at, 1, &count), number);
    number = kit_reshaped(b, number, 2, shape);
    if (a->whole) number = part_add(b, number, pool_steps(b, lines, places->plane, 2, column));
    npu_finish(b, number, NPU_OUT(1));
}

/* Gathers the elements of each window, and finds the largest. */
enum bp_status npu_build_max_pool_with_index_parts(struct kit_build *b)
{
    const struct bp_max_pool_with_index_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *y = npu_type(b, NPU_OUT(0));
    struct pool_places places = {0};
    int64_t lines, all, flat[2], shape[3], kept[2];
    const int64_t axis[1] = {2};
    struct kit_arg gathered, tap;

    if (b->status || !y->count) return b->status;
    if (!pool_places(&places, b->attrs, x, y, a->column_major)) {
        pool_places_free(&places);
        return kit_refuse(b);
    }
    lines = x->shape[0] * x->shape[1];
    all = places.results * places.taps;
    flat[0] = shape[0] = kept[0] = lines;
    flat[1] = places.plane, shape[1] = kept[1] = places.results, shape[2] = places.taps;
    gathered = kit_temporary(b, x->dtype, 2, (const int64_t[]){lines, all});
    KIT_STEP(b, "IndexSelect", kit_reshaped(b, NPU_IN(0), 2, flat), KIT_INT_IS(1),
             kit_constant(b, BP_I64, 1, &all, places.from), gathered);
    gathered = kit_reshaped(b, gathered, 3, shape);
    KIT_STEP(b, "Amax", gathered, kit_array(b, axis, 1), KIT_INT_IS(0),
             kit_reshaped(b, NPU_OUT(0), 2, kept));
    tap = kit_temporary(b, BP_I64, 2, kept);
    KIT_STEP(b, "ArgMax", gathered, KIT_INT_IS(2), KIT_INT_IS(0), tap);
    pool_numbers(b, &places, tap);
    pool_places_free(&places);
    return b->status;
}

/* dx = the sum of dy of the windows that have the place of their index. */
enum bp_status npu_build_max_pool_grad(struct kit_build *b)
{
    const struct bp_view *x = npu_type(b, NPU_OUT(0)), *y = npu_type(b, NPU_IN(0));
    struct pool_places places = {0};
    struct kit_arg index, covered, within, missed, dy, dx;
    int64_t lines, flat[2], one[3], table[3], all[3];
    const int64_t axis[1] = {2};

    if (b->status || !x->count) return b->status;
    dx = part_is_half(x->dtype) ? npu_like(b, NPU_OUT(0), BP_F32) : NPU_OUT(0);
    npu_fill(b, dx, 0);
    if (y->count && !pool_places(&places, b->attrs, x, y, false)) kit_refuse(b);
    if (!y->count || b->status) {
        pool_places_free(&places);
        if (part_is_half(x->dtype)) npu_cast(b, dx, NPU_OUT(0));
        return b->status;
    }
    lines = x->shape[0] * x->shape[1];
    flat[0] = one[0] = all[0] = lines, flat[1] = one[1] = all[1] = table[1] = places.results;
    one[2] = table[0] = 1, table[2] = all[2] = places.taps;
    index = npu_like(b, kit_reshaped(b, NPU_IN(1), 2, flat), BP_I64);
    npu_cast(b, kit_reshaped(b, NPU_IN(1), 2, flat), index);
    covered = kit_temporary(b, BP_BOOL, 3, all);
    KIT_STEP(b, "EqTensor", kit_reshaped(b, index, 3, one),
             kit_constant(b, BP_I64, 3, table, places.number), covered);
    pool_places_free(&places);
    within = kit_temporary(b, BP_BOOL, 2, flat);
    KIT_STEP(b, "Any", covered, kit_array(b, axis, 1), KIT_INT_IS(0), within);
    missed = part_one(b, "LogicalNot", within);
    dy = kit_temporary(b, npu_type(b, dx)->dtype, 2, flat);
    npu_cast(b, kit_reshaped(b, NPU_IN(0), 2, flat), dy);
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_as(dy, KIT_UPDATES), missed, KIT_SCALAR_IS(0));
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_as(index, KIT_UPDATES), missed, KIT_SCALAR_IS(0));
    flat[1] = x->count / lines;
    dx = kit_reshaped(b, dx, 2, flat);
    KIT_STEP(b, "ScatterAdd", kit_as(dx, KIT_READS), KIT_INT_IS(1), index, dy,
             kit_as(dx, KIT_WRITES));
    if (part_is_half(x->dtype)) npu_finish(b, dx, NPU_OUT(0));
    return b->status;
}

/* How an average divides: by the elements of x in the window, by those of the padding too, or by a
 * number. */
struct pool_divided {
    bool padded;
    double divisor;
};

/* The number of elements of each window, as one constant for the result, in f32. */
static struct kit_arg pool_counts(struct kit_build *b, const struct bp_view *x,
                                  const struct bp_view *y, struct pool_divided how)
{
    int64_t shape[KIT_AXES_MAX] = {1, 1}, plane = 1, first, step, count;
    struct kit_arg out = NPU_NONE;
    float *number;

    for (uint32_t i = 2; i < y->rank; i++) plane *= shape[i] = y->shape[i];
    number = plane <= NPU_MAP_MOST ? malloc((size_t)plane * sizeof *number) : NULL;
    for (int64_t at = 0; number && at < plane; at++) {
        int64_t rest = at;
        double product = 1;
        for (uint32_t i = y->rank - 2u; i-- > 0; rest /= shape[i + 2]) {
            struct pool_axis p = pool_axis(b->attrs, x, y, i);
            pool_window(&p, rest % p.m, &first, &step, &count);
            if (how.padded && !p.adaptive) count = pool_padded_count(&p, rest % p.m);
            product *= (double)count;
        }
        number[at] = (float)(how.divisor != 0 ? how.divisor : product);
    }
    if (number) out = kit_constant(b, BP_F32, y->rank, shape, number);
    else kit_refuse(b);
    free(number);
    return out;
}

enum bp_status npu_build_avg_pool(struct kit_build *b)
{
    const struct bp_avg_pool_attrs *a = b->attrs;
    int64_t divisor = (int64_t)a->divisor;
    struct pool_image p;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (a->divisor != (double)divisor || divisor < 0 || divisor > POOL_LARGEST ||
        !pool_image(b, b->attrs, npu_type(b, NPU_IN(0)), npu_type(b, NPU_OUT(0)), &p) ||
        a->dilation[0] != 1 || a->dilation[1] != 1)
        return kit_refuse(b);
    return KIT_STEP(b, "AvgPool2d", pool_view(b, NPU_IN(0), p.x), p.window, p.stride, p.pad,
                    KIT_INT_IS(a->ceil_mode), KIT_INT_IS(a->include_pad), KIT_INT_IS(divisor),
                    NPU_CUBE, pool_view(b, NPU_OUT(0), p.y));
}

/* Sums along one axis after the other, divided at the end. */
enum bp_status npu_build_avg_pool_parts(struct kit_build *b)
{
    const struct bp_avg_pool_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *y = npu_type(b, NPU_OUT(0));
    struct kit_arg t;

    if (b->status || !y->count) return b->status;
    t = npu_wide(b, NPU_IN(0));
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        struct pool_axis p = pool_axis(b->attrs, x, y, i);
        struct npu_map map = {0};
        if (pool_map(&map, &p, false)) t = npu_map_apply(b, &map, t, i + 2, NPU_MAP_SUM);
        else kit_refuse(b);
        npu_map_finish(&map);
    }
    t = npu_div(b, t, pool_counts(b, x, y, (struct pool_divided){a->include_pad, a->divisor}));
    npu_finish(b, t, NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_avg_pool_grad(struct kit_build *b)
{
    const struct bp_avg_pool_grad_attrs *a = b->attrs;
    int64_t divisor = (int64_t)a->divisor;
    struct pool_image p;

    if (b->status || npu_is_empty(b, NPU_OUT(0))) return b->status;
    if (npu_is_empty(b, NPU_IN(0)) || a->divisor != (double)divisor || divisor < 0 ||
        divisor > POOL_LARGEST ||
        !pool_image(b, b->attrs, npu_type(b, NPU_OUT(0)), npu_type(b, NPU_IN(0)), &p) ||
        a->dilation[0] != 1 || a->dilation[1] != 1)
        return kit_refuse(b);
    return KIT_STEP(b, "AvgPool2dBackward", pool_view(b, NPU_IN(0), p.y),
                    kit_as(pool_view(b, NPU_OUT(0), p.x), KIT_READS), p.window, p.stride, p.pad,
                    KIT_INT_IS(a->ceil_mode), KIT_INT_IS(a->include_pad), KIT_INT_IS(divisor),
                    NPU_CUBE, pool_view(b, NPU_OUT(0), p.x));
}

enum bp_status npu_build_avg_pool_grad_parts(struct kit_build *b)
{
    const struct bp_avg_pool_grad_attrs *a = b->attrs;
    const struct bp_view *x = npu_type(b, NPU_OUT(0)), *y = npu_type(b, NPU_IN(0));
    struct kit_arg t;

    if (b->status || !x->count) return b->status;
    if (!y->count) {
        npu_fill(b, NPU_OUT(0), 0);
        return b->status;
    }
    t = npu_div(b, npu_wide(b, NPU_IN(0)),
                pool_counts(b, x, y, (struct pool_divided){a->include_pad, a->divisor}));
    for (uint32_t i = 0; i + 2 < x->rank; i++) {
        struct pool_axis p = pool_axis(b->attrs, x, y, i);
        struct npu_map map = {0}, back = {0};
        if (pool_map(&map, &p, false) && npu_map_transpose(&back, &map))
            t = npu_map_apply(b, &back, t, i + 2, NPU_MAP_SUM);
        else kit_refuse(b);
        npu_map_finish(&map);
        npu_map_finish(&back);
    }
    npu_finish(b, t, NPU_OUT(0));
    return b->status;
}

enum bp_status npu_build_adaptive_avg_pool(struct kit_build *b)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *y = npu_type(b, NPU_OUT(0));
    int64_t from[4] = {1, 1, 1, 1}, to[4] = {1, 1, 1, 1};

    if (b->status || !y->count) return b->status;
    if (x->rank > 4) return kit_refuse(b);
    for (uint32_t i = 0; i < 2; i++) from[i] = to[i] = x->shape[i];
    for (uint32_t i = 2; i < x->rank; i++) {
        from[i + 4 - x->rank] = x->shape[i];
        to[i + 4 - x->rank] = y->shape[i];
    }
    return KIT_STEP(b, "AdaptiveAvgPool2d", pool_view(b, NPU_IN(0), from), kit_array(b, to + 2, 2),
                    pool_view(b, NPU_OUT(0), to));
}

/* The means or maxima over all spatial axes. */
static enum bp_status pool_global(struct kit_build *b, const char *function, bool typed)
{
    const struct bp_view *x = npu_type(b, NPU_IN(0)), *y = npu_type(b, NPU_OUT(0));
    int64_t axis[KIT_AXES_MAX];
    struct kit_arg axes;

    if (b->status || !y->count) return b->status;
    for (uint32_t i = 2; i < x->rank; i++) axis[i - 2] = i;
    axes = kit_array(b, axis, x->rank - 2u);
    if (!typed)
        return KIT_STEP(b, function, NPU_IN(0), axes, KIT_INT_IS(y->rank == x->rank), NPU_OUT(0));
    return KIT_STEP(b, function, NPU_IN(0), axes, KIT_INT_IS(y->rank == x->rank), KIT_OUT_DTYPE(0),
                    NPU_OUT(0));
}

enum bp_status npu_build_global_avg_pool(struct kit_build *b)
{
    return pool_global(b, "Mean", true);
}

enum bp_status npu_build_global_max_pool(struct kit_build *b)
{
    return pool_global(b, "Amax", false);
}
