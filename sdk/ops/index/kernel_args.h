/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h and scatter/kernel.h, which launches work
 * out. */
#ifndef BP_KERNELS_INDEX_ARGS_H
#define BP_KERNELS_INDEX_ARGS_H

#include "../../dialect/dialect.h"

enum { INDEX_AXES = 8 };

/* How rows of a tensor [outer, rows, inner] are named: each by k indices, which lie one after the
 * other, one for each of k axes of extents dim, whose product is rows. There are n for each outer:
 * those of the next lie `step` indices further (0: the same serve all). wide: they are i64, else
 * i32. wrap: negative ones count from the end. pad: a row that is taken as zeros and gets nothing
 * (-1: none). */
struct index_rows {
    i64 rows, inner, n, k, step, wide, wrap, pad;
    i64 dim[INDEX_AXES];
};

struct gather_args {
    struct index_rows by;
};

/* y[c] = x[c with index[c] in place of the coordinate along axis], for coordinates c of index.
 * extent and x_step: of x along axis; shape: of index; stride: of x, 0 along axis. */
struct take_args {
    i64 extent, x_step, wide, rank;
    i64 shape[INDEX_AXES], stride[INDEX_AXES];
};

/* x and y are [n, inner]; of candidate number `which` of `count`. fill: rows of others become 0. */
struct multiplex_args {
    i64 inner, wide, which, count, fill;
};

/* Elements in parts of `part`; n of them, and there are m values to put, or room for them. */
struct masked_args {
    i64 n, part, parts, m;
};
#define masked_count_args masked_args
#define masked_scan_args masked_args
#define masked_take_args masked_args
#define masked_put_args masked_args

/* A tensor of this shape, whose element at coordinates c is first + the sum of c y_stride in the
 * result, and the sum of c value_stride in value. */
struct place_args {
    i64 first, rank;
    i64 shape[INDEX_AXES], y_stride[INDEX_AXES], value_stride[INDEX_AXES];
};

struct copy_args {
    i64 unused;
};

/* Elements t_step apart are steps of a sequence, elements b_step apart lie in others; inner: the
 * smaller of both. */
struct reverse_args {
    i64 steps, t_step, batch, b_step, inner, wide;
};

struct gather_tree_args {
    i64 steps, batch, beams;
};

#endif
