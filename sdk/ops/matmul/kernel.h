/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: multiplies matrices of any strides. For a small product each lane computes one result;
 * for few results with a long sum each team computes one. For a large product the kernels first
 * pack both sides into panels, which have no strides, edges or conversions left, then compute tile
 * by tile, or block by block where the lanes of a team share memory. */
#ifndef BP_OPS_MATMUL_KERNEL_H
#define BP_OPS_MATMUL_KERNEL_H

#include "../../dialect/dialect.h"
#include "../../dialect/tile_size.h"

enum { MATMUL_AXES = 8 };
enum { MATMUL_C, MATMUL_A, MATMUL_B, MATMUL_OPERANDS };

/* c (m x n) = a (m x k) b (k x n), for each index of the batch axes. Strides in elements. */
struct matmul_args {
    i64 m, n, k;
    i64 row[MATMUL_OPERANDS], column[MATMUL_OPERANDS];
    i64 rank; /* number of batch axes */
    i64 shape[MATMUL_AXES], stride[MATMUL_OPERANDS][MATMUL_AXES];
};
struct matmul_lines_args {
    struct matmul_args of;
};

/* Packs one operand into panels of its computing type: a panel has `pieces` parts of `wide` lines
 * for one k after another. Lines after the last one, and k from of.k to depth, are zeros. */
struct matmul_pack_args {
    struct matmul_args of;
    i64 operand, wide, pieces, lines, panels, depth;
};

/* Multiplies packed panels. `many`: the operand has panels for each index of the batch; 0: all
 * indices share one set of panels. */
struct matmul_tiles_args {
    struct matmul_args of;
    i64 panels[MATMUL_OPERANDS], many[MATMUL_OPERANDS], depth;
};
#define matmul_blocks_args matmul_tiles_args

#ifdef ELEM
#include "../../dialect/block.h"
#include "../../dialect/entry.h"
#include "../../dialect/tile.h"

/* The offset at which a matrix of the batch begins. */
KFN i64 matmul_at(const struct matmul_args *a, int operand, i64 batch)
{
    i64 at = 0;

    for (i64 axis = a->rank - 1; axis >= 0; axis--) {
        at += batch % a->shape[axis] * a->stride[operand][axis];
        batch /= a->shape[axis];
    }
    return at;
}

/* The offsets of result `number` (counted row by row), of its row of a and of its column of b. */
struct matmul_place {
    i64 a, b, c;
};
KFN struct matmul_place matmul_place(const struct matmul_args *a, i64 number)
{
    i64 j = number % a->n, i = number / a->n % a->m, batch = number / a->n / a->m;
    struct matmul_place p;

    p.a = matmul_at(a, MATMUL_A, batch) + i * a->row[MATMUL_A];
    p.b = matmul_at(a, MATMUL_B, batch) + j * a->column[MATMUL_B];
    p.c = matmul_at(a, MATMUL_C, batch) + i * a->row[MATMUL_C] + j * a->column[MATMUL_C];
    return p;
}

KFN void matmul_span(const struct matmul_args *args, i64 begin, i64 n, GLOBAL elem *c,
                     GLOBAL const elem *a, GLOBAL const elem *b)
{
    i64 step_a = args->column[MATMUL_A], step_b = args->row[MATMUL_B];

    for (i64 number = begin; number < begin + n; number++) {
        struct matmul_place p = matmul_place(args, number);
        acc sum = acc_zero();
        for (i64 k = 0; k < args->k; k++)
            sum = acc_mul_add(sum, elem_get(a[p.a + k * step_a]), elem_get(b[p.b + k * step_b]));
        c[p.c] = elem_put(sum);
    }
}
ENTRY_SPANS_3(matmul, elem, const elem, const elem)

KFN void matmul_lines_team(const struct matmul_lines_args *args, i64 team, LOCAL acc *s,
                           GLOBAL elem *c, GLOBAL const elem *a, GLOBAL const elem *b)
{
    i64 step_a = args->of.column[MATMUL_A], step_b = args->of.row[MATMUL_B];
    struct matmul_place p = matmul_place(&args->of, team);
    acc sum = acc_zero();

    FOR_LANES(k, args->of.k)
    sum = acc_mul_add(sum, elem_get(a[p.a + k * step_a]), elem_get(b[p.b + k * step_b]));
    sum = team_sum(sum, s);
    if (LANE == 0) c[p.c] = elem_put(sum);
}
ENTRY_TEAMS_3(matmul_lines, elem, const elem, const elem)

/* Packs `wide` lines of one panel at one k, for each number of the span. */
KFN void matmul_pack_span(const struct matmul_pack_args *a, i64 begin, i64 n, GLOBAL acc *to,
                          GLOBAL const elem *from)
{
    i64 step = a->operand == MATMUL_A ? a->of.row[MATMUL_A] : a->of.column[MATMUL_B];
    i64 step_k = a->operand == MATMUL_A ? a->of.column[MATMUL_A] : a->of.row[MATMUL_B];

    for (i64 number = begin; number < begin + n; number++) {
        i64 k = number / a->pieces % a->depth, panel = number / a->pieces / a->depth;
        i64 first = (panel % a->panels * a->pieces + number % a->pieces) * a->wide;
        i64 lines = k < a->of.k && a->lines > first ? a->lines - first : 0;
        i64 at = matmul_at(&a->of, (int)a->operand, panel / a->panels) + k * step_k + first * step;
        if (lines > a->wide) lines = a->wide;
        for (i64 i = 0; i < lines; i++)
            to[number * a->wide + i] = elem_get(from[at + i * step]);
        for (i64 i = lines; i < a->wide; i++) to[number * a->wide + i] = acc_zero();
    }
}
ENTRY_SPANS_2(matmul_pack, acc, const elem)

#ifdef ELEM_FLOAT
/* Computes one tile of c from a panel of a and a panel of b. */
KFN void matmul_tiles_span(const struct matmul_tiles_args *args, i64 begin, i64 n, GLOBAL elem *c,
                           GLOBAL const acc *a, GLOBAL const acc *b)
{
    const struct matmul_args *of = &args->of;
    i64 panels_a = args->panels[MATMUL_A], panels_b = args->panels[MATMUL_B];

    for (i64 number = begin; number < begin + n; number++) {
        i64 i = number % panels_a, j = number / panels_a % panels_b;
        i64 batch = number / panels_a / panels_b;
        i64 from_a = (batch * args->many[MATMUL_A] * panels_a + i) * of->k * TILE_ROWS;
        i64 from_b = (batch * args->many[MATMUL_B] * panels_b + j) * of->k * TILE_COLUMNS;
        i64 rows = of->m - i * TILE_ROWS, columns = of->n - j * TILE_COLUMNS;
        i64 at = matmul_at(of, MATMUL_C, batch) + i * TILE_ROWS * of->row[MATMUL_C] +
                 j * TILE_COLUMNS * of->column[MATMUL_C];
        wide s[TILE_ROWS];
        tile_make(s, of->k, a + from_a, b + from_b);
        UNROLL
        for (int r = 0; r < TILE_ROWS; r++) {
            acc line[WIDE];
            wide_store(line, s[r]);
            UNROLL
            for (int q = 0; q < TILE_COLUMNS; q++)
                if (r < rows && q < columns)
                    c[at + r * of->row[MATMUL_C] + q * of->column[MATMUL_C]] = elem_put(line[q]);
        }
    }
}

/* The team computes one block of c from a panel of a and a panel of b. */
KFN void matmul_blocks_team(const struct matmul_blocks_args *args, i64 team, LOCAL acc *scratch,
                            GLOBAL elem *c, GLOBAL const acc *a, GLOBAL const acc *b)
{
    const struct matmul_args *of = &args->of;
    i64 panels_a = args->panels[MATMUL_A], panels_b = args->panels[MATMUL_B];
    i64 i = team % panels_a, j = team / panels_a % panels_b, batch = team / panels_a / panels_b;
    i64 rows = of->m - i * BLOCK, columns = of->n - j * BLOCK;
    i64 at = matmul_at(of, MATMUL_C, batch) + i * BLOCK * of->row[MATMUL_C] +
             j * BLOCK * of->column[MATMUL_C];

    a += (batch * args->many[MATMUL_A] * panels_a + i) * args->depth * BLOCK;
    b += (batch * args->many[MATMUL_B] * panels_b + j) * args->depth * BLOCK;
    EACH_BLOCK_LANE(lane)
    {
        acc s[BLOCK_EDGE * BLOCK_EDGE];
        block_make(s, lane, args->depth, a, b, scratch);
        UNROLL
        for (int n = 0; n < BLOCK_EDGE * BLOCK_EDGE; n++) {
            i64 row = block_at(block_row(lane), n / BLOCK_EDGE);
            i64 column = block_at(block_column(lane), n % BLOCK_EDGE);
            if (row < rows && column < columns)
                c[at + row * of->row[MATMUL_C] + column * of->column[MATMUL_C]] = elem_put(s[n]);
        }
    }
}
#undef TEAM_SCRATCH
#define TEAM_SCRATCH BLOCK_SCRATCH
#else
/* launch.c packs only float types, and a block of c128 would not fit into a team's memory: no
 * launch uses these two kernels with the other types. */
KFN void matmul_tiles_span(const struct matmul_tiles_args *args, i64 begin, i64 n, GLOBAL elem *c,
                           GLOBAL const acc *a, GLOBAL const acc *b)
{
    (void)args;
    (void)begin;
    (void)n;
    (void)c;
    (void)a;
    (void)b;
}

KFN void matmul_blocks_team(const struct matmul_blocks_args *args, i64 team, LOCAL acc *scratch,
                            GLOBAL elem *c, GLOBAL const acc *a, GLOBAL const acc *b)
{
    (void)scratch;
    matmul_tiles_span(args, team, 1, c, a, b);
}
#endif
ENTRY_SPANS_3(matmul_tiles, elem, const acc, const acc)
ENTRY_TEAMS_3(matmul_blocks, elem, const acc, const acc)
#endif

#endif
