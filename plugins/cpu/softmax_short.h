/* SPDX-License-Identifier: Apache-2.0 */
/* softmax_short.h: softmax of rows of a few vectors: each element of x is read once, and each of y
 * written once; what is between stays near. For one float dtype (elem.h). */
#ifndef CPU_SOFTMAX_SHORT_H
#define CPU_SOFTMAX_SHORT_H

#include <dialect/simd_reduce.h>
#include <dialect/maths.h>

enum { SHORT = 8 }; /* vectors */

/* n elements, of which the last of the vectors may lack some. Both are known where this is inlined,
 * but for rows that are no whole vectors. */
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

/* w rows of n elements; sy and sx lead from one to the next. Result: whether they are short. */
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
