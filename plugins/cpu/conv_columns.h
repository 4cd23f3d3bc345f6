/* SPDX-License-Identifier: Apache-2.0 */
/* conv_columns.h: computes a tile of a convolution with few positions, for a dtype whose sums have
 * the same type. conv.c includes it. Each weight is used for few products, so packing the weights
 * takes longer than the products: rows of weights, which are contiguous, are read where they lie.
 * The windows of the image are gathered for blocks of channels. */
#ifndef CPU_CONV_COLUMNS_H
#define CPU_CONV_COLUMNS_H

#include "gemm.h"
#include <stdbool.h>

enum {
    COLUMNS_MOST = 8,     /* positions of a tile that is computed in this way */
    COLUMNS_DEPTH = 1024, /* elements of a window, with all channels, that are gathered at a time */
    COLUMNS_ROWS = 4,     /* rows that are multiplied together */
    COLUMN_LANES = VECTOR / (int)sizeof(acc),
};

typedef acc column_vec __attribute__((vector_size(VECTOR), aligned(sizeof(acc)), may_alias));

/* The elements of a window in one channel. */
static inline int64_t columns_window(const struct conv_image *image)
{
    return image->tap[1] * image->tap[2] * image->tap[3];
}

/* Whether the product has few columns, and rows of weights are contiguous. */
static bool conv_has_few_columns(const struct conv_product *p)
{
    int64_t dense = 1;

    if (p->taps_are_columns || p->n > COLUMNS_MOST || !p->k ||
        columns_window(&p->image) > COLUMNS_DEPTH)
        return false;
    for (int d = 3; d >= 0; d--) {
        if (p->a_k.extent[d] != p->image.tap[d]) return false;
        if (p->a_k.extent[d] > 1 && p->a_k.stride[d] != dense) return false;
        dense *= p->a_k.extent[d];
    }
    return true;
}

/* Gathers the window at position `column`, for `channels` channels: in each channel, all taps. */
static void columns_gather(const struct conv_image *image, const elem *data, int64_t column,
                           int64_t channels, acc *to)
{
    int64_t at[4], tap[4] = {0}, window = columns_window(image);

    grid_locate(image->position, column, at);
    data += at[0] * image->batch;
    for (int64_t w = 0; w < window; w++) {
        const elem *from = data;
        bool inside = true;
        for (int d = 0; d < 3; d++) {
            int64_t t = at[d + 1] * image->step[d] + image->origin[d] +
                        tap[d + 1] * image->tap_step[d];
            inside = inside && t >= 0 && t % image->every[d] == 0 &&
                     t / image->every[d] < image->extent[d];
            if (inside) from += t / image->every[d] * image->stride[d];
        }
        for (int64_t c = 0; c < channels; c++)
            to[c * window + w] = inside ? from[c * image->channel] : 0;
        grid_next(image->tap, tap);
    }
}

/* Adds the products of `rows` rows of a and n columns of b to `sum`. rows and n are constants
 * wherever this is inlined. */
static inline __attribute__((always_inline)) void columns_block(const int rows, const int n,
                                                                const elem *a, int64_t row,
                                                                const acc *b, int64_t depth,
                                                                acc *sum)
{
    column_vec part[COLUMNS_ROWS][2];
    int64_t k = 0;

    HOST_UNROLL
    for (int i = 0; i < rows; i++) HOST_UNROLL
    for (int j = 0; j < n; j++) part[i][j] = (column_vec){0};
    for (; k + COLUMN_LANES <= depth; k += COLUMN_LANES) HOST_UNROLL
    for (int i = 0; i < rows; i++) HOST_UNROLL
    for (int j = 0; j < n; j++)
        part[i][j] += *(const column_vec *)(a + i * row + k) *
                      *(const column_vec *)(b + j * COLUMNS_DEPTH + k);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < n; j++) {
            acc all = 0;
            for (int l = 0; l < COLUMN_LANES; l++) all += part[i][j][l];
            for (int64_t t = k; t < depth; t++) all += a[i * row + t] * b[j * COLUMNS_DEPTH + t];
            sum[i * TILE_N + j] += all;
        }
}

/* Adds the products of m rows. n: 1 or 2, a constant wherever this is inlined. */
static inline __attribute__((always_inline)) void columns_rows(int64_t m, const int n,
                                                               const elem *a, int64_t row,
                                                               const acc *b, int64_t depth,
                                                               acc *sum)
{
    int64_t i = 0;

    for (; i + COLUMNS_ROWS <= m; i += COLUMNS_ROWS)
        columns_block(COLUMNS_ROWS, n, a + i * row, row, b, depth, sum + i * TILE_N);
    for (; i < m; i++) columns_block(1, n, a + i * row, row, b, depth, sum + i * TILE_N);
}

/* The sums of a tile. */
static void conv_few_columns(const struct conv_product *p, const elem *a, const elem *data,
                             int64_t m, int64_t n, int64_t column, acc *sum)
{
    acc window[COLUMNS_MOST * COLUMNS_DEPTH];
    int64_t taps = columns_window(&p->image), channels = p->image.tap[0];
    int64_t most = COLUMNS_DEPTH / taps;

    for (int64_t i = 0; i < m * TILE_N; i++) sum[i] = 0;
    for (int64_t c = 0; c < channels; c += most) {
        int64_t some = channels - c < most ? channels - c : most, j = 0;
        for (int64_t i = 0; i < n; i++)
            columns_gather(&p->image, data + c * p->image.channel, column + i, some,
                           window + i * COLUMNS_DEPTH);
        for (; j + 2 <= n; j += 2)
            columns_rows(m, 2, a + c * taps, p->a_row, window + j * COLUMNS_DEPTH, some * taps,
                         sum + j);
        if (j < n)
            columns_rows(m, 1, a + c * taps, p->a_row, window + j * COLUMNS_DEPTH, some * taps,
                         sum + j);
    }
}

#endif
