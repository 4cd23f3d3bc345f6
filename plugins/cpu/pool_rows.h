/* SPDX-License-Identifier: Apache-2.0 */
/* pool_rows.h: elements of windows, for one float dtype (elem.h): what lies side by side is made
 * together, in registers, while one goes through the window once. */
#ifndef CPU_POOL_ROWS_H
#define CPU_POOL_ROWS_H

#include <dialect/simd_reduce.h>
#include <math.h>

#define POOL_INLINE static inline __attribute__((always_inline))

/* Elements of a vector, and of those that go through a window together. Through large windows, in
 * whose order memory is read in long steps, as many go as there are registers for. */
enum {
    POOL_LANES = ACROSS,
    POOL_BLOCK = 4 * ACROSS,
    POOL_MANY = (VECTOR == 64 ? 16 : 8) * ACROSS,
    POOL_LARGE = 16, /* places */
};

/* What becomes of a window. */
enum { POOL_MAX, POOL_MEAN };

/* Where windows are: at from, n[0] x n[1] x n[2] places with these steps between them, the same for
 * elements that follow each other. */
struct pool_taps {
    const elem *from;
    int64_t n[3], step[3];
};

/* Where windows along a line are: n elements, step apart, from those of phase[0] on. odd 1: windows
 * move by two, and elements are parted into those of even and of odd places. */
struct pool_along {
    const acc *phase[2];
    int64_t n, step, odd;
};

/* Elements in the making. by, and count of each: what means are divided by. */
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

/* The larger one, or NaN where one of them is; or the sum. */
POOL_INLINE acc pool_join(int what, acc s, acc v)
{
    acc larger = v > s ? v : s;

    if (what == POOL_MEAN) return s + v;
    return v == v ? larger : v;
}

/* The place itself. gcc would go through several places of a window at once, and then vectorise no
 * more. */
POOL_INLINE const void *pool_place(const void *p)
{
    __asm__ volatile("" : "+r"(p));
    return p;
}

/* Joins to s of each of n elements, from that at j on, what its window has. */
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

/* What a piece of n elements from the one at j on is: sums of taps, results of taps, results of
 * windows along a line, those with a count each. */
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

/* n elements in pieces of known sizes. The last one may make anew some that are made already. */
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

/* One window along a line: n places from p on, step apart. */
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
            s = pool_join(what, s, lane[i]); /* perhaps one is NaN, which across_max may lose */
    }
    for (; t < n; t++) s = pool_join(what, s, p[t * step]);
    return s;
}

#endif
