/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_CREATE_ARGS_H
#define BP_KERNELS_CREATE_ARGS_H

#include "../../dialect/dialect.h"

enum { CREATE_NUMBERS = 8 };

/* Numbers start + i step for i below middle, last - (n - 1 - i) step from there on, computed as
 * real; of integers first + i by. */
struct create_line_args {
    host_real start, last, step;
    i64 n, middle, first, by;
};

/* Each step elements behind the one before. */
struct create_numbers_args {
    i64 step;
    i64 number[CREATE_NUMBERS];
};

/* The indices of a triangle: row i of the lower one has i + offset + 1 elements from row first on,
 * and columns from row full on; the upper one has the others. n: how many there are. */
struct create_triangle_args {
    i64 n, rows, columns, first, full, offset, upper;
};

#endif
