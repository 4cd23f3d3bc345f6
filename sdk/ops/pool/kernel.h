/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes pooling over up to three spatial axes, and its gradients, for any order of
 * axes in memory. Neighbouring elements are computed together, as a tile, one position of the
 * window after the other. Neighbours along the channels share their windows. Neighbours along a
 * spatial axis have windows one stride apart, and only some of these windows may be inside x at a
 * position. */
#ifndef BP_OPS_POOL_KERNEL_H
#define BP_OPS_POOL_KERNEL_H

#include "kernel_window.h"

#define max_pool_args pool_args
#define max_pool_index_args pool_args
#define avg_pool_args pool_args
#define max_pool_grad_args pool_args
#define avg_pool_grad_args pool_args

#ifdef ELEM
#include "../../dialect/entry.h"

#ifdef ON_HOST
#define POOL_FN static inline __attribute__((always_inline))
#else
#define POOL_FN KFN
#endif
#if defined(ON_HOST) || defined(ON_PROCESSOR)
enum { POOL_ROOM = POOL_TILE };
#else
enum { POOL_ROOM = 1 }; /* a lane computes one element at a time */
#endif

/* A tile: w elements. spatial: its coordinates along the three spatial axes. made: its offset in
 * the output. x, y, index, number: offsets without the spatial axes. */
struct pool_tile {
    i64 w, spatial[3], made, x, y, index, number;
};

/* Steps through the output's elements in the order of a->place (memory order): coordinates by
 * place, and number of elements left. */
struct pool_walk {
    i64 at[POOL_AXES], left;
};

POOL_FN struct pool_walk pool_walk_from(const struct pool_args *a, i64 i, i64 n)
{
    struct pool_walk w;

    for (i64 k = a->rank - 1; k >= 0; k--) {
        w.at[k] = i % a->place[k].extent;
        i /= a->place[k].extent;
    }
    w.left = n;
    return w;
}

/* Advances by n elements, which must not cross the end of the innermost axis. */
POOL_FN void pool_walk_on(const struct pool_args *a, struct pool_walk *w, i64 n)
{
    i64 k = a->rank - 1;

    w->left -= n;
    w->at[k] += n;
    for (; k > 0 && w->at[k] == a->place[k].extent; k--) {
        w->at[k] = 0;
        w->at[k - 1]++;
    }
}

/* Returns the next tile. grad: the output is the gradient of x; else it is the pool's result. */
POOL_FN struct pool_tile pool_tile_at(const struct pool_args *a, i64 grad,
                                      const struct pool_walk *walk)
{
    struct pool_tile t;
    i64 last = a->rank - 1;

    for (int s = 0; s < 3; s++) t.spatial[s] = 0;
    t.made = t.x = t.y = t.index = t.number = 0;
    t.w = 1;
    for (i64 k = last; k >= 0; k--) {
        struct pool_place p = a->place[k];
        i64 at = walk->at[k];
        t.made += at * (grad ? p.x : p.y);
        if (k == last) t.w = p.extent - at;
        if (p.spatial >= 0) {
            t.spatial[p.spatial] = at;
        } else {
            t.x += at * p.x;
            t.y += at * p.y;
            t.number += at * p.number;
        }
        if (p.spatial < 0 || !grad) t.index += at * p.index;
    }
    t.w = t.w < a->tile ? t.w : a->tile;
    t.w = t.w < walk->left ? t.w : walk->left;
    return t;
}

/* The elements j of a tile of n for which position p + j step is within 0 to in - 1. */
KFN struct pool_range pool_inside(i64 p, i64 step, i64 in, i64 n)
{
    struct pool_range r;

    r.begin = p < 0 ? pool_up(-p, step) : 0;
    r.end = n;
    if (p + (n - 1) * step >= in) r.end = p < in ? (in - 1 - p) / step + 1 : 0;
    return r;
}

/* The divisor of the window at o0, o1, o2. */
KFN acc pool_divisor(const struct pool_args *a, i64 o0, i64 o1, i64 o2)
{
    if (a->divisor != 0) return number(a->divisor);
    return (acc)pool_count(a, 0, o0) * (acc)pool_count(a, 1, o1) * (acc)pool_count(a, 2, o2);
}

KFN ord pool_lowest(void)
{
#if defined(ELEM_f64)
    return -f64_from_bits((u64)0x7ff << 52);
#elif defined(ELEM_FLOAT)
    return -f32_from_bits(0x7f800000);
#elif defined(ELEM_SIGNED)
    return (ord)(-((i64)1 << (8 * sizeof(elem) - 1)));
#else
    return 0;
#endif
}

/* Updates best with elements x, x + step and so on; a NaN is the largest. */
POOL_FN void pool_max_row(ord *best, GLOBAL const elem *x, i64 step, i64 begin, i64 end)
{
    SIMD
    for (i64 j = begin; j < end; j++) {
        ord v = elem_ord(x[j * step]);
        best[j] = (v > best[j]) | ord_nan(v) ? v : best[j];
    }
}

POOL_FN void pool_sum_row(acc *sum, GLOBAL const elem *x, i64 step, i64 begin, i64 end)
{
    SIMD
    for (i64 j = begin; j < end; j++) sum[j] = acc_add(sum[j], elem_get(x[j * step]));
}

/* As pool_max_row, with indices. Of equal elements, or of several NaN, the first is kept: positions
 * are visited in row-major order. */
POOL_FN void pool_index_row(ord *best, i64 *at, GLOBAL const elem *x, i64 step, i64 number,
                            i64 number_step, i64 begin, i64 end)
{
    for (i64 j = begin; j < end; j++) {
        ord v = elem_ord(x[j * step]);
        if (at[j] < 0 || v > best[j] || (ord_nan(v) && !ord_nan(best[j]))) {
            best[j] = v;
            at[j] = number + j * number_step;
        }
    }
}

enum { POOL_MAX, POOL_INDEX, POOL_SUM };

/* Visits the window of a tile of the result. `what` is one of the constants above. */
POOL_FN void pool_window(int what, const struct pool_args *a, const struct pool_tile *t, ord *best,
                         i64 *at, acc *sum, GLOBAL const elem *x)
{
    struct pool_range r[3], in;
    i64 run = a->run, last = a->rank - 1;
    i64 step = run < 0 ? a->place[last].x : a->axis[run].stride * a->axis[run].x;
    i64 number = run < 0 ? a->place[last].number : a->axis[run].stride * a->axis[run].number;

    for (int s = 0; s < 3; s++) r[s] = pool_taps(a, s, t->spatial[s], t->w);
    for (i64 t0 = r[0].begin; t0 < r[0].end; t0++)
        for (i64 t1 = r[1].begin; t1 < r[1].end; t1++)
            for (i64 t2 = r[2].begin; t2 < r[2].end; t2++) {
                i64 p0 = pool_at(a, 0, t->spatial[0], t0), p1 = pool_at(a, 1, t->spatial[1], t1);
                i64 p2 = pool_at(a, 2, t->spatial[2], t2), from, n;
                from = t->x + p0 * a->axis[0].x + p1 * a->axis[1].x + p2 * a->axis[2].x;
                n = t->number + p0 * a->axis[0].number + p1 * a->axis[1].number +
                    p2 * a->axis[2].number;
                in.begin = 0;
                in.end = t->w;
                if (run >= 0)
                    in = pool_inside(run == 0 ? p0 : run == 1 ? p1 : p2, a->axis[run].stride,
                                     a->axis[run].in, t->w);
                if (what == POOL_INDEX)
                    pool_index_row(best, at, x + from, step, n, number, in.begin, in.end);
                else if (what == POOL_MAX && step == 1)
                    pool_max_row(best, x + from, 1, in.begin, in.end);
                else if (what == POOL_MAX && step == 2)
                    pool_max_row(best, x + from, 2, in.begin, in.end);
                else if (what == POOL_MAX)
                    pool_max_row(best, x + from, step, in.begin, in.end);
                else if (step == 1)
                    pool_sum_row(sum, x + from, 1, in.begin, in.end);
                else if (step == 2)
                    pool_sum_row(sum, x + from, 2, in.begin, in.end);
                else
                    pool_sum_row(sum, x + from, step, in.begin, in.end);
            }
}

POOL_FN void pool_put_best(GLOBAL elem *y, i64 step, const ord *best, i64 n)
{
    SIMD
    for (i64 j = 0; j < n; j++) y[j * step] = elem_of_ord(best[j]);
}

POOL_FN void pool_put_mean(GLOBAL elem *y, i64 step, const acc *sum, acc by, i64 n)
{
    SIMD
    for (i64 j = 0; j < n; j++) y[j * step] = elem_put(sum[j] / by);
}

KFN void max_pool_span(const struct pool_args *a, i64 begin, i64 n, GLOBAL elem *y,
                       GLOBAL const elem *x)
{
    ord best[POOL_ROOM];

    for (struct pool_walk walk = pool_walk_from(a, begin, n); walk.left;) {
        struct pool_tile t = pool_tile_at(a, 0, &walk);
        i64 step = a->place[a->rank - 1].y;
        for (i64 j = 0; j < t.w; j++) best[j] = pool_lowest();
        pool_window(POOL_MAX, a, &t, best, (i64 *)0, (acc *)0, x);
        if (step == 1) pool_put_best(y + t.made, 1, best, t.w);
        else pool_put_best(y + t.made, step, best, t.w);
        pool_walk_on(a, &walk, t.w);
    }
}
ENTRY_SPANS_2(max_pool, elem, const elem)

/* y or index may be NULL. */
KFN void max_pool_index_span(const struct pool_args *a, i64 begin, i64 n, GLOBAL elem *y,
                             GLOBAL void *index, GLOBAL const elem *x)
{
    ord best[POOL_ROOM];
    i64 at[POOL_ROOM];

    for (struct pool_walk walk = pool_walk_from(a, begin, n); walk.left;) {
        struct pool_tile t = pool_tile_at(a, 0, &walk);
        struct pool_place last = a->place[a->rank - 1];
        for (i64 j = 0; j < t.w; j++) {
            best[j] = pool_lowest();
            at[j] = -1;
        }
        pool_window(POOL_INDEX, a, &t, best, at, (acc *)0, x);
        for (i64 j = 0; j < t.w && y; j++) y[t.made + j * last.y] = elem_of_ord(best[j]);
        for (i64 j = 0; j < t.w && index; j++)
            index_put(index, a->wide, t.index + j * last.index, at[j]);
        pool_walk_on(a, &walk, t.w);
    }
}
ENTRY_SPANS_3(max_pool_index, elem, void, const elem)

KFN void avg_pool_span(const struct pool_args *a, i64 begin, i64 n, GLOBAL elem *y,
                       GLOBAL const elem *x)
{
    acc sum[POOL_ROOM];

    for (struct pool_walk walk = pool_walk_from(a, begin, n); walk.left;) {
        struct pool_tile t = pool_tile_at(a, 0, &walk);
        i64 step = a->place[a->rank - 1].y, same = a->run < 0 || a->whole || a->divisor != 0;
        acc by = pool_divisor(a, t.spatial[0], t.spatial[1], t.spatial[2]);
        for (i64 j = 0; j < t.w; j++) sum[j] = acc_zero();
        pool_window(POOL_SUM, a, &t, (ord *)0, (i64 *)0, sum, x);
        if (same && step == 1) pool_put_mean(y + t.made, 1, sum, by, t.w);
        else if (same) pool_put_mean(y + t.made, step, sum, by, t.w);
        for (i64 j = 0; j < t.w && !same; j++) {
            by = pool_divisor(a, t.spatial[0] + (a->run == 0 ? j : 0),
                              t.spatial[1] + (a->run == 1 ? j : 0),
                              t.spatial[2] + (a->run == 2 ? j : 0));
            pool_put_mean(y + t.made + j * step, 1, sum + j, by, 1);
        }
        pool_walk_on(a, &walk, t.w);
    }
}
ENTRY_SPANS_2(avg_pool, elem, const elem)

/* For gradients: the windows that cover position p of axis s; some of them may skip it if dilation
 * is above 1. Along the run: the windows that cover any of w positions. */
KFN struct pool_range pool_over(const struct pool_args *a, i64 s, i64 p, i64 w)
{
    struct pool_axis x = a->axis[s];
    struct pool_range r;

    if (a->adaptive) {
        r.begin = p * x.out / x.in;
        r.end = ((p + 1) * x.out - 1) / x.in + 1;
        return r;
    }
    r.begin = pool_up(p + x.before - (x.window - 1) * x.dilation, x.stride);
    r.end = p + (s == a->run ? w - 1 : 0) + x.before;
    r.end = r.end / x.stride + 1;
    r.begin = r.begin < 0 ? 0 : r.begin;
    r.end = r.end < x.out ? r.end : x.out;
    return r;
}

/* Whether the window at o has an element at position p. */
KFN i64 pool_has(const struct pool_args *a, i64 s, i64 o, i64 p)
{
    struct pool_axis x = a->axis[s];

    return a->adaptive || x.dilation == 1 || (p + x.before - o * x.stride) % x.dilation == 0;
}

/* The gradient that windows pass to positions of x. number: index of the tile's first position. */
struct pool_given {
    i64 from, index, number;
    acc by;
};

/* Adds the gradient of window o along the run to the positions of the tile that it has, which are
 * dilation apart. */
POOL_FN void pool_give_run(int what, const struct pool_args *a, const struct pool_tile *t,
                           struct pool_given g, i64 o, acc *sum, GLOBAL const elem *dy,
                           GLOBAL const void *index)
{
    struct pool_axis x = a->axis[a->run];
    i64 first = o * x.stride - x.before - t->spatial[a->run], end = t->w;
    i64 stop = first + (x.window - 1) * x.dilation + 1;
    acc v = elem_get(dy[g.from + o * x.y]);

    if (first < 0) first += pool_up(-first, x.dilation) * x.dilation;
    end = end < stop ? end : stop;
    if (what == POOL_INDEX) {
        i64 j = index_at(index, a->wide, g.index + o * x.index) - g.number;
        j = x.number == 1 ? j : j % x.number == 0 ? j / x.number : -1;
        if (j >= first && j < end && (j - first) % x.dilation == 0) sum[j] = acc_add(sum[j], v);
        return;
    }
    v = v / g.by;
    for (i64 j = first; j < end; j += x.dilation) sum[j] = acc_add(sum[j], v);
}

/* Adds the gradient of one window to all channels of a tile. */
POOL_FN void pool_give_all(int what, const struct pool_args *a, const struct pool_tile *t,
                           struct pool_given g, acc *sum, GLOBAL const elem *dy,
                           GLOBAL const void *index)
{
    struct pool_place last = a->place[a->rank - 1];
    i64 y = last.spatial < 0 ? last.y : 0, at = last.spatial < 0 ? last.index : 0;

    if (what == POOL_INDEX) {
        for (i64 j = 0; j < t->w; j++)
            if (index_at(index, a->wide, g.index + j * at) == g.number)
                sum[j] = acc_add(sum[j], elem_get(dy[g.from + j * y]));
        return;
    }
    SIMD
    for (i64 j = 0; j < t->w; j++) sum[j] = acc_add(sum[j], elem_get(dy[g.from + j * y]) / g.by);
}

/* Adds the gradients of all windows over a tile. `what` is POOL_INDEX or POOL_SUM. */
POOL_FN void pool_windows(int what, const struct pool_args *a, const struct pool_tile *t, acc *sum,
                          GLOBAL const elem *dy, GLOBAL const void *index)
{
    const struct pool_axis *x = a->axis;
    struct pool_range r[3];
    i64 p0 = t->spatial[0], p1 = t->spatial[1], p2 = t->spatial[2], run = a->run;
    struct pool_given g;

    g.number = p0 * x[0].number + p1 * x[1].number + p2 * x[2].number;
    for (int s = 0; s < 3; s++) r[s] = pool_over(a, s, t->spatial[s], t->w);
    for (i64 o0 = r[0].begin; o0 < r[0].end; o0++)
        for (i64 o1 = r[1].begin; o1 < r[1].end; o1++)
            for (i64 o2 = r[2].begin; o2 < r[2].end; o2++) {
                if ((run != 0 && !pool_has(a, 0, o0, p0)) ||
                    (run != 1 && !pool_has(a, 1, o1, p1)) ||
                    (run != 2 && !pool_has(a, 2, o2, p2)))
                    continue;
                g.from = t->y + (run == 0 ? 0 : o0 * x[0].y) + (run == 1 ? 0 : o1 * x[1].y) +
                         (run == 2 ? 0 : o2 * x[2].y);
                g.index = t->index + (run == 0 ? 0 : o0 * x[0].index) +
                          (run == 1 ? 0 : o1 * x[1].index) + (run == 2 ? 0 : o2 * x[2].index);
                g.by = what == POOL_SUM ? pool_divisor(a, o0, o1, o2) : acc_zero();
                if (run < 0) pool_give_all(what, a, t, g, sum, dy, index);
                else
                    pool_give_run(what, a, t, g, run == 0 ? o0 : run == 1 ? o1 : o2, sum, dy,
                                  index);
            }
}

KFN void max_pool_grad_span(const struct pool_args *a, i64 begin, i64 n, GLOBAL elem *dx,
                            GLOBAL const elem *dy, GLOBAL const void *index)
{
    acc sum[POOL_ROOM];

    for (struct pool_walk walk = pool_walk_from(a, begin, n); walk.left;) {
        struct pool_tile t = pool_tile_at(a, 1, &walk);
        i64 step = a->place[a->rank - 1].x;
        for (i64 j = 0; j < t.w; j++) sum[j] = acc_zero();
        pool_windows(POOL_INDEX, a, &t, sum, dy, index);
        for (i64 j = 0; j < t.w; j++) dx[t.made + j * step] = elem_put(sum[j]);
        pool_walk_on(a, &walk, t.w);
    }
}
ENTRY_SPANS_3(max_pool_grad, elem, const elem, const void)

KFN void avg_pool_grad_span(const struct pool_args *a, i64 begin, i64 n, GLOBAL elem *dx,
                            GLOBAL const elem *dy)
{
    acc sum[POOL_ROOM];

    for (struct pool_walk walk = pool_walk_from(a, begin, n); walk.left;) {
        struct pool_tile t = pool_tile_at(a, 1, &walk);
        i64 step = a->place[a->rank - 1].x;
        for (i64 j = 0; j < t.w; j++) sum[j] = acc_zero();
        pool_windows(POOL_SUM, a, &t, sum, dy, (GLOBAL const void *)0);
        for (i64 j = 0; j < t.w; j++) dx[t.made + j * step] = elem_put(sum[j]);
        pool_walk_on(a, &walk, t.w);
    }
}
ENTRY_SPANS_2(avg_pool_grad, elem, const elem)
#endif

#endif
