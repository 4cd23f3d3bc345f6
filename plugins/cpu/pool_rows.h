/* SPDX-License-Identifier: Apache-2.0 */
/* pool_rows.h: computes elements of pooling results, for one float dtype (elem.h): contiguous
 * elements are computed together in registers, in one pass through their windows. */
#ifndef CPU_POOL_ROWS_H
#define CPU_POOL_ROWS_H

#include <dialect/simd_reduce.h>
#include <math.h>

#define POOL_INLINE static inline __attribute__((always_inline))

/* The elements of a vector, and the elements that are computed in one pass through their windows.
 * For large windows, whose order reads memory in long steps, POOL_MANY elements use all
 * registers. */
enum {
    POOL_LANES = ACROSS,
    POOL_BLOCK = 4 * ACROSS,
    POOL_MANY = (VECTOR == 64 ? 16 : 8) * ACROSS,
    POOL_LARGE = 16, /* a window is large from so many taps on */
};

/* The operation on a window. */
enum { POOL_MAX, POOL_MEAN };

/* The taps of a window: n[0] x n[1] x n[2] taps from `from`, with these steps. The windows of
 * contiguous elements begin at contiguous addresses. */
struct pool_taps {
    const elem *from;
    int64_t n[3], step[3];
};

/* The taps of windows along a line: n taps, `step` apart, where the windows begin at contiguous
 * elements of phase[0]. odd 1: windows move by two elements, and the line is split into its even
 * elements (phase[0]) and odd elements (phase[1]). */
struct pool_along {
    const acc *phase[2];
    int64_t n, step, odd;
};

/* The elements being computed. Means are divided by `by`, and by `count` of each element if they
 * have counts. */
struct pool_made {
    const struct pool_taps *taps;
    const struct pool_along *along;
    acc *sum;
    elem *y;
    acc by;
    const acc *count;
};

POOL_INLINE acc pool_start(int what)
{
    return what == POOL_MAX ? (acc)-INFINITY : 0;
}

/* The larger value, or NaN if one of the values is NaN; or the sum. */
POOL_INLINE acc pool_join(int what, acc s, acc v)
{
    acc larger = v > s ? v : s;

    if (what == POOL_MEAN) return s + v;
    return v == v ? larger : v;
}

/* Returns p. The asm hides p from the compiler: otherwise gcc would process several taps of a
 * window together, and would no longer vectorise. */
POOL_INLINE const void *pool_place(const void *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

/* Adds the windows of n elements, from element j on, to the elements of s (or takes the
 * maximum). */
POOL_INLINE void pool_through(int what, int n, acc *s, const struct pool_taps *taps, int64_t j)
{
    for (int64_t a = 0; a < taps->n[0]; a++)
        for (int64_t b = 0; b < taps->n[1]; b++) {
            const elem *row = taps->from + a * taps->step[0] + b * taps->step[1] + j;
            int64_t c = 0;
            for (; c < taps->n[2]; c++, row += taps->step[2]) {
                const elem *p = pool_place(row);
#pragma omp simd
                for (int i = 0; i < n; i++) s[i] = pool_join(what, s[i], elem_get(p[i]));
            }
        }
}

POOL_INLINE void pool_through_line(int what, int n, acc *s, const struct pool_along *along,
                                   int64_t j)
{
    for (int64_t t = 0; t < along->n; t++) {
        int64_t at = t * along->step;
        const acc *p = pool_place(along->phase[at & along->odd] + (at >> along->odd));
#pragma omp simd
        for (int i = 0; i < n; i++) s[i] = pool_join(what, s[i], p[j + i]);
    }
}

/* The kind of a block of n elements from element j on: sums of taps, results of taps, results of
 * windows along a line, and the same with a count for each element. */
enum { POOL_SUMS, POOL_RESULTS, POOL_ALONG, POOL_COUNTED };

POOL_INLINE void pool_piece(int kind, int what, int n, const struct pool_made *m, int64_t j)
{
    acc s[POOL_MANY];

    for (int i = 0; i < n; i++) s[i] = pool_start(what);
    if (kind == POOL_ALONG || kind == POOL_COUNTED) pool_through_line(what, n, s, m->along, j);
    else pool_through(what, n, s, m->taps, j);
    if (kind == POOL_SUMS) {
#pragma omp simd
        for (int i = 0; i < n; i++) m->sum[j + i] = s[i];
    } else if (what == POOL_MAX) {
#pragma omp simd
        for (int i = 0; i < n; i++) m->y[j + i] = elem_put(s[i]);
    } else {
#pragma omp simd
        for (int i = 0; i < n; i++)
            m->y[j + i] = elem_put(s[i] / (kind == POOL_COUNTED ? m->by * m->count[j + i] : m->by));
    }
}

/* Computes n elements in blocks of constant sizes. The last block may compute some elements
 * again. */
POOL_INLINE void pool_make(int kind, int what, const struct pool_made *m, int64_t n)
{
    enum { HALF = POOL_LANES / 2, FOURTH = POOL_LANES > 4 ? POOL_LANES / 4 : 1 };
    const int64_t *w = kind == POOL_RESULTS ? m->taps->n : NULL;
    int64_t j = 0;

    for (; w && w[0] * w[1] * w[2] >= POOL_LARGE && j + POOL_MANY <= n; j += POOL_MANY)
        pool_piece(kind, what, POOL_MANY, m, j);
    for (; j + POOL_BLOCK <= n; j += POOL_BLOCK) pool_piece(kind, what, POOL_BLOCK, m, j);
    for (; j + POOL_LANES <= n; j += POOL_LANES) pool_piece(kind, what, POOL_LANES, m, j);
    if (j == n) return;
    if (n >= POOL_LANES) {
        pool_piece(kind, what, POOL_LANES, m, n - POOL_LANES);
    } else if (n >= HALF) {
        pool_piece(kind, what, HALF, m, 0);
        pool_piece(kind, what, HALF, m, n - HALF);
    } else if (n >= FOURTH) {
        pool_piece(kind, what, FOURTH, m, 0);
        for (j = FOURTH; j < n; j++) pool_piece(kind, what, 1, m, j);
    } else {
        for (; j < n; j++) pool_piece(kind, what, 1, m, j);
    }
}

/* Computes one window along a line: n taps from p on, `step` apart. */
POOL_INLINE acc pool_window(int what, const acc *p, int64_t n, int64_t step)
{
    acc s = pool_start(what), lane[POOL_LANES], all;
    int64_t t = 0;

    if (step == 1 && n >= POOL_LANES) {
        for (int i = 0; i < POOL_LANES; i++) lane[i] = s;
        for (; t + POOL_LANES <= n; t += POOL_LANES) {
#pragma omp simd
            for (int i = 0; i < POOL_LANES; i++) lane[i] = pool_join(what, lane[i], p[t + i]);
        }
        all = across_sum(lane);
        s = what == POOL_MEAN ? all : across_max(lane);
        for (int i = 0; what == POOL_MAX && all != all && i < POOL_LANES; i++)
            s = pool_join(what, s, lane[i]); /* one may be NaN, which across_max may lose */
    }
    for (; t < n; t++) s = pool_join(what, s, p[t * step]);
    return s;
}

#endif
