/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_short.h: computes the softmax of rows of a few vectors, for one float dtype (elem.h).
 * Each element of x is read once, each element of y is written once, and intermediate values stay
 * in registers or the L1 cache. */
#ifndef CPU_SOFTMAX_SHORT_H
#define CPU_SOFTMAX_SHORT_H

#include <dialect/simd_reduce.h>
#include <dialect/maths.h>

enum { SHORT = 8 }; /* the maximum number of vectors of a short row */

/* Computes a row of n elements; the last vector may be incomplete. n and vectors are constants
 * wherever this is inlined, except for rows with an incomplete vector. */
static inline __attribute__((always_inline)) void short_row(elem *y, const elem *x, int n,
                                                            int vectors)
{
    _Alignas(VECTOR) acc e[SHORT * ACROSS], lane[ACROSS];
    int all = vectors * ACROSS;

#pragma omp simd
    for (int j = 0; j < n; j++) e[j] = elem_get(x[j]);
    for (int j = n; j < all; j++) e[j] = (acc)-INFINITY;
#pragma omp simd
    for (int j = 0; j < ACROSS; j++) lane[j] = e[j];
    for (int k = ACROSS; k < all; k += ACROSS) {
#pragma omp simd
        for (int j = 0; j < ACROSS; j++) lane[j] = e[k + j] > lane[j] ? e[k + j] : lane[j];
    }
    acc max = across_max(lane);
#pragma omp simd
    for (int j = 0; j < all; j++) e[j] = acc_exp_below(e[j] - max);
#pragma omp simd
    for (int j = 0; j < ACROSS; j++) lane[j] = e[j];
    for (int k = ACROSS; k < all; k += ACROSS) {
#pragma omp simd
        for (int j = 0; j < ACROSS; j++) lane[j] += e[k + j];
    }
    acc part = 1 / across_sum(lane);
#pragma omp simd
    for (int j = 0; j < n; j++) y[j] = elem_put(e[j] * part);
}

static inline __attribute__((always_inline)) void whole_rows(elem *y, int64_t sy, const elem *x,
                                                             int64_t sx, int64_t w, int vectors)
{
    for (int64_t i = 0; i < w; i++)
        short_row(y + i * sy, x + i * sx, vectors * ACROSS, vectors);
}

/* Computes w rows of n elements; sy and sx are the distances of rows. Returns whether the rows are
 * short; if not, nothing was done. */
static inline int short_rows(elem *y, int64_t sy, const elem *x, int64_t sx, int64_t n, int64_t w)
{
    int vectors = (int)((n + ACROSS - 1) / ACROSS);

    if (n > SHORT * ACROSS) return 0;
    switch (n) {
    case ACROSS: whole_rows(y, sy, x, sx, w, 1); break;
    case 2 * ACROSS: whole_rows(y, sy, x, sx, w, 2); break;
    case 4 * ACROSS: whole_rows(y, sy, x, sx, w, 4); break;
    case 8 * ACROSS: whole_rows(y, sy, x, sx, w, 8); break;
    default:
        for (int64_t i = 0; i < w; i++) short_row(y + i * sy, x + i * sx, (int)n, vectors);
    }
    return 1;
}

#endif
