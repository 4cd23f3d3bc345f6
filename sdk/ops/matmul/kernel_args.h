/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_MATMUL_ARGS_H
#define BP_KERNELS_MATMUL_ARGS_H

#include "../../dialect/dialect.h"
#include "../../dialect/tile_size.h"

enum { MATMUL_AXES = 8 };
enum { MATMUL_C, MATMUL_A, MATMUL_B, MATMUL_OPERANDS };

/* c (m x n) = a (m x k) b (k x n), for each index of the batch axes. Strides in elements. */
struct matmul_args {
    i64 m, n, k;
    i64 row[MATMUL_OPERANDS], column[MATMUL_OPERANDS];
    i64 rank; /* of the batch */
    i64 shape[MATMUL_AXES], stride[MATMUL_OPERANDS][MATMUL_AXES];
};
struct matmul_lines_args {
    struct matmul_args of;
};

/* One operand as panels of its computing type: `pieces` of `wide` lines, k after k; zeros behind
 * the last, and from k to depth. */
struct matmul_pack_args {
    struct matmul_args of;
    i64 operand, wide, pieces, lines, panels, depth;
};

/* Of panels; `many`: operands have some for each index of the batch, else all share them. */
struct matmul_tiles_args {
    struct matmul_args of;
    i64 panels[MATMUL_OPERANDS], many[MATMUL_OPERANDS], depth;
};
#define matmul_blocks_args matmul_tiles_args

#endif
