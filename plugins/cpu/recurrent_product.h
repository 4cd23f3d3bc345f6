/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent_product.h: multiplies a few rows by one panel of packed weights (recurrent.h), for one
 * float dtype (elem.h). */
#ifndef CPU_RECURRENT_PRODUCT_H
#define CPU_RECURRENT_PRODUCT_H

#include <dialect/elem.h>

typedef acc lane_vec __attribute__((vector_size(VECTOR), may_alias));

enum {
    UNITS = VECTOR / (int)sizeof(acc), /* units of a panel */
    ROWS_MOST = VECTOR == 64 ? 4 : 2,  /* rows that are multiplied at a time: sums in registers */
    CHAINS = 8,                        /* sums that hide the latency of an addition */
};

/* Adds the products to `to`: `rows` rows of n vectors, `to_row` elements apart. a: rows of k
 * elements, a_row apart. b: the panel. Each product is summed before it is added: fewer roundings
 * have the size of the whole. The sums of a single row are divided into `ways` sums. rows, n and
 * ways are constants wherever this is inlined. */
static inline __attribute__((always_inline)) void product_block(const int rows, const int n,
                                                                const int ways, const acc *a,
                                                                int64_t a_row, int64_t k,
                                                                const acc *b, acc *to,
                                                                int64_t to_row)
{
    lane_vec sum[CHAINS > ROWS_MOST ? CHAINS : ROWS_MOST][4];
    int64_t i = 0;

    HOST_UNROLL
    for (int r = 0; r < rows * ways; r++) HOST_UNROLL
    for (int j = 0; j < n; j++) sum[r][j] = (lane_vec){0};
    for (; i + ways <= k; i += ways) HOST_UNROLL
    for (int w = 0; w < ways; w++, b += n * UNITS) HOST_UNROLL
    for (int r = 0; r < rows; r++) HOST_UNROLL
    for (int j = 0; j < n; j++)
        sum[w * rows + r][j] += a[r * a_row + i + w] * ((const lane_vec *)b)[j];
    for (; i < k; i++, b += n * UNITS) HOST_UNROLL
    for (int r = 0; r < rows; r++) HOST_UNROLL
    for (int j = 0; j < n; j++) sum[r][j] += a[r * a_row + i] * ((const lane_vec *)b)[j];
    HOST_UNROLL
    for (int w = 1; w < ways; w++) HOST_UNROLL
    for (int j = 0; j < n; j++) sum[0][j] += sum[w][j];
    HOST_UNROLL
    for (int r = 0; r < rows; r++) HOST_UNROLL
    for (int j = 0; j < n; j++) ((lane_vec *)(to + r * to_row))[j] += sum[r][j];
}

/* The same for any number of rows. n is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void product_rows(int64_t rows, const int n,
                                                               const acc *a, int64_t a_row,
                                                               int64_t k, const acc *b, acc *to,
                                                               int64_t to_row)
{
    for (; rows >= ROWS_MOST; rows -= ROWS_MOST, a += ROWS_MOST * a_row, to += ROWS_MOST * to_row)
        product_block(ROWS_MOST, n, 1, a, a_row, k, b, to, to_row);
    for (; rows > 0; rows--, a += a_row, to += to_row)
        product_block(1, n, n > 2 ? 2 : CHAINS / n, a, a_row, k, b, to, to_row);
}

/* The same for 1 to 4 vectors. */
static void product_panel(int64_t rows, int n, const acc *a, int64_t a_row, int64_t k, const acc *b,
                          acc *to, int64_t to_row)
{
    switch (n) {
    case 1: product_rows(rows, 1, a, a_row, k, b, to, to_row); break;
    case 2: product_rows(rows, 2, a, a_row, k, b, to, to_row); break;
    case 3: product_rows(rows, 3, a, a_row, k, b, to, to_row); break;
    default: product_rows(rows, 4, a, a_row, k, b, to, to_row); break;
    }
}

#ifndef ELEM_HALF
typedef acc plain_vec __attribute__((vector_size(VECTOR), aligned(sizeof(acc)), may_alias));

enum {
    PLAIN_MOST = 4
}; /* rows of weights that are multiplied together */

/* Adds the products of `many` rows of w, `step` elements apart, and the k elements of a to `to`.
 * many is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void product_plain_block(const int many, const elem *w,
                                                                      int64_t step, const acc *a,
                                                                      int64_t k, acc *to)
{
    plain_vec sum[PLAIN_MOST];
    int64_t i = 0;

    HOST_UNROLL
    for (int r = 0; r < many; r++) sum[r] = (plain_vec){0};
    for (; i + UNITS <= k; i += UNITS) HOST_UNROLL
    for (int r = 0; r < many; r++)
        sum[r] += *(const plain_vec *)(w + r * step + i) * *(const plain_vec *)(a + i);
    for (int r = 0; r < many; r++) {
        acc lane[UNITS];
        for (int j = 0; j < UNITS; j++) lane[j] = sum[r][j];
        for (int64_t j = i; j < k; j++) lane[j - i] += w[r * step + j] * a[j];
        for (int half = UNITS / 2; half; half /= 2)
            for (int j = 0; j < half; j++) lane[j] += lane[j + half];
        to[r] += lane[0];
    }
}

/* Adds the products of m rows of weights that are not packed. */
static void product_plain(int64_t m, const elem *w, int64_t step, const acc *a, int64_t k, acc *to)
{
    int64_t r = 0;

    for (; r + PLAIN_MOST <= m; r += PLAIN_MOST)
        product_plain_block(PLAIN_MOST, w + r * step, step, a, k, to + r);
    for (; r < m; r++) product_plain_block(1, w + r * step, step, a, k, to + r);
}
#endif

#endif
