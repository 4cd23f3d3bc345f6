/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_SCATTER_ARGS_H
#define BP_KERNELS_SCATTER_ARGS_H

#include "../index/kernel_args.h"

/* What happens to the element that is there. */
enum { PUT_REPLACE, PUT_ADD, PUT_MULTIPLY };

struct scatter_start_args {
    i64 unused;
};
struct scatter_finish_args {
    i64 unused;
};

/* Updates are [outer, n, inner], the result [outer, rows, inner]. put: what of the above. */
struct scatter_args {
    struct index_rows by;
    i64 put;
};

/* Columns, which are the axes of index but that which is indexed: at least one. n, extent: along
 * that of index, of the result; x_step, step: along it in the result, in index and updates. */
struct along_args {
    i64 n, extent, x_step, step, wide, put, axes;
    i64 shape[INDEX_AXES - 1], x_stride[INDEX_AXES - 1], stride[INDEX_AXES - 1];
};

/* y is [outer, depth, inner], index [outer, inner]. */
struct one_hot_args {
    i64 depth, inner, wide, lenient;
    host_real on, off;
};

/* x is [n, inner], y [segments, inner]. */
struct segment_args {
    i64 n, segments, inner, wide, mode;
};
#define segment_check_args segment_args
#define segment_pool_args segment_args
#define segment_grad_args segment_args

/* n numbers in parts of `part`; the sums of each part lie in bins places of their own. */
struct bincount_args {
    i64 n, part, parts, bins, wide;
};
#define bincount_add_args bincount_args

#endif
