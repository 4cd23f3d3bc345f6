/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.h: computes one tile of a matrix product, c = a b, for one dtype (elem.h). matmul.c and
 * conv.c include it.
 *
 * The function never reads the two sides as matrices: the includer copies blocks of them into
 * panels, in the type of the computation, and thereby handles strides, transposition and padding. A
 * panel of a holds MR rows, a panel of b holds NR columns, both ordered by k:
 *
 *   a(i, k) at  to[i / MR * MR * depth + k * MR + i % MR]
 *   b(k, j) at  to[j / NR * NR * depth + k * NR + j % NR]
 *
 * All buffers are on the stack, at most 350 KiB. The order of additions depends only on the
 * depth. */
#ifndef CPU_GEMM_H
#define CPU_GEMM_H

#include <dialect/elem.h>
#include <string.h>

/* MR x NR results are held in registers: two vectors for each row, and as many rows as leave some
 * registers free. */
#ifdef ELEM_COMPLEX
enum { MR = 4, NR = 4 };
#else
typedef acc vec __attribute__((vector_size(VECTOR), may_alias));
enum { MR = VECTOR == 64 ? 12 : VECTOR == 32 ? 6 : 4, NR = 2 * VECTOR / (int)sizeof(acc) };
#endif

/* The largest tile, a multiple of MR and of NR, and the depth that is packed in one step. */
enum { TILE_M = 72, TILE_N = 64, TILE_K = 128 };

struct gemm {
    const void *ctx;
    int64_t m, n, k; /* of the tile; m and n at most TILE_M and TILE_N */
    /* Copy the elements with k from begin to begin + depth - 1. */
    void (*pack_a)(const void *ctx, int64_t begin, int64_t depth, acc *to);
    void (*pack_b)(const void *ctx, int64_t begin, int64_t depth, acc *to);
};

/* The address of row i of a, or of column j of b, in the panels; the next k is MR or NR elements
 * further. */
static inline acc *panel_row(acc *to, int64_t i, int64_t depth)
{
    return to + i / MR * MR * depth + i % MR;
}
static inline acc *panel_column(acc *to, int64_t j, int64_t depth)
{
    return to + j / NR * NR * depth + j % NR;
}

#ifdef ELEM_COMPLEX
static void gemm_block(const acc *a, const acc *b, int64_t depth, acc *c)
{
    for (int64_t k = 0; k < depth; k++, a += MR, b += NR)
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < NR; j++)
                c[i * TILE_N + j] = acc_mul_add(c[i * TILE_N + j], a[i], b[j]);
}
#else
/* c += a b for one panel of each; c has rows of TILE_N. */
static void gemm_block(const acc *a, const acc *b, int64_t depth, acc *c)
{
    vec sum[MR][2];

    for (int i = 0; i < MR; i++) {
        sum[i][0] = ((vec *)(c + i * TILE_N))[0];
        sum[i][1] = ((vec *)(c + i * TILE_N))[1];
    }
    for (int64_t k = 0; k < depth; k++, a += MR, b += NR) {
        vec b0 = ((const vec *)b)[0], b1 = ((const vec *)b)[1];
        for (int i = 0; i < MR; i++) {
            sum[i][0] += a[i] * b0;
            sum[i][1] += a[i] * b1;
        }
    }
    for (int i = 0; i < MR; i++) {
        ((vec *)(c + i * TILE_N))[0] = sum[i][0];
        ((vec *)(c + i * TILE_N))[1] = sum[i][1];
    }
}
#endif

/* Writes the tile to c: TILE_M rows of TILE_N elements, aligned to VECTOR. Elements outside of m
 * and n are undefined. */
static void gemm_tile(const struct gemm *g, acc *c)
{
    _Alignas(64) acc a[TILE_M * TILE_K], b[TILE_N * TILE_K];
    int64_t m = (g->m + MR - 1) / MR * MR, n = (g->n + NR - 1) / NR * NR;

    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) c[i * TILE_N + j] = acc_zero();
    for (int64_t begin = 0; begin < g->k; begin += TILE_K) {
        int64_t depth = g->k - begin < TILE_K ? g->k - begin : TILE_K;

        /* A panel that is not full has zeros after its elements. */
        if (m > g->m) memset(a + (m - MR) * depth, 0, sizeof *a * (size_t)(MR * depth));
        if (n > g->n) memset(b + (n - NR) * depth, 0, sizeof *b * (size_t)(NR * depth));
        g->pack_a(g->ctx, begin, depth, a);
        g->pack_b(g->ctx, begin, depth, b);
        for (int64_t j = 0; j < n; j += NR)
            for (int64_t i = 0; i < m; i += MR)
                gemm_block(a + i * depth, b + j * depth, depth, c + i * TILE_N + j);
    }
}

#endif
