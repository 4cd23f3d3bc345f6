/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.c: computes products of matrices with any strides, for one dtype (elem.h), tile by tile
 * (gemm.h). */
#include "cpu.h"
#include "gemm.h"
#if !defined ELEM_HALF && !defined ELEM_COMPLEX
#include "gemv.h"
#endif
#include "kernels.h"
#include "matmul.h"

struct product {
    struct matmul shape;
    const elem *a, *b;
    elem *c;
    int64_t tiles_m, tiles_n;
};

/* One side of one tile: its first element, the stride to the next row or column, and the stride
 * along k. */
struct side {
    const elem *at;
    int64_t n, step, k_step;
};
struct sides {
    struct side a, b;
};

static void side_pack(const struct side *side, int64_t begin, int64_t depth, acc *to,
                      acc *(*panel)(acc *to, int64_t i, int64_t depth), int64_t width)
{
    for (int64_t i = 0; i < side->n; i++) {
        const elem *from = side->at + i * side->step + begin * side->k_step;
        acc *line = panel(to, i, depth);

        if (side->k_step == 1)
            for (int64_t k = 0; k < depth; k++) line[k * width] = elem_get(from[k]);
        else
            for (int64_t k = 0; k < depth; k++) line[k * width] = elem_get(from[k * side->k_step]);
    }
}

/* The same if neighbouring rows or columns are contiguous and strides along k are long: copies n of
 * them at a time. */
static void side_pack_across(const struct side *side, int64_t begin, int64_t depth, acc *to,
                             int64_t width)
{
    for (int64_t first = 0; first < side->n; first += width, to += width * depth) {
        int64_t n = side->n - first < width ? side->n - first : width;
        const elem *from = side->at + first + begin * side->k_step;

        for (int64_t k = 0; k < depth; k++, from += side->k_step)
            for (int64_t i = 0; i < n; i++) to[k * width + i] = elem_get(from[i]);
    }
}

static void pack_a(const void *ctx, int64_t begin, int64_t depth, acc *to)
{
    const struct side *side = &((const struct sides *)ctx)->a;

    if (side->step == 1 && side->k_step != 1) side_pack_across(side, begin, depth, to, MR);
    else side_pack(side, begin, depth, to, panel_row, MR);
}

static void pack_b(const void *ctx, int64_t begin, int64_t depth, acc *to)
{
    const struct side *side = &((const struct sides *)ctx)->b;

    if (side->step == 1) side_pack_across(side, begin, depth, to, NR);
    else side_pack(side, begin, depth, to, panel_column, NR);
}

static void product_tile(void *arg, int64_t task)
{
    const struct product *p = arg;
    const struct matmul *s = &p->shape;
    int64_t j = task % p->tiles_n * TILE_N, i = task / p->tiles_n % p->tiles_m * TILE_M,
            at[WALK_VIEWS];
    int64_t m = s->m - i < TILE_M ? s->m - i : TILE_M, n = s->n - j < TILE_N ? s->n - j : TILE_N;
    _Alignas(64) acc tile[TILE_M * TILE_N];

    walk_offset(&s->batch, task / p->tiles_n / p->tiles_m, at);
    struct sides sides = {
        .a = {s->k ? p->a + at[1] + i * s->a_row : NULL, m, s->a_row, s->a_column},
        .b = {s->k ? p->b + at[2] + j * s->b_column : NULL, n, s->b_column, s->b_row},
    };
    gemm_tile(&(struct gemm){&sides, m, n, s->k, pack_a, pack_b}, tile);
    elem *c = p->c + at[0] + i * s->c_row + j * s->c_column;
    for (int64_t r = 0; r < m; r++)
        for (int64_t q = 0; q < n; q++)
            c[r * s->c_row + q * s->c_column] = elem_put(tile[r * TILE_N + q]);
}

enum bp_status NAME(matmul)(const struct bp_launch *launch)
{
    struct product p = {
        .a = launch->in[0]->data, .b = launch->in[1]->data, .c = launch->out[0]->data};

    if (!launch->out[0]->count) return BP_OK;
    matmul_init(&p.shape, launch->in[0], launch->in[1], launch->out[0], launch->attrs);
#if !defined ELEM_HALF && !defined ELEM_COMPLEX
    if (gemv_run(launch, &p.shape)) return BP_OK;
#endif
    p.tiles_m = (p.shape.m + TILE_M - 1) / TILE_M;
    p.tiles_n = (p.shape.n + TILE_N - 1) / TILE_N;
    cpu_team_run(product_tile, &p, p.shape.batch.count * p.tiles_m * p.tiles_n,
                 cpu_team_width(launch, (double)launch->out[0]->count * (double)p.shape.k));
    return BP_OK;
}
