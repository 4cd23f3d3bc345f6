/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_EXTREME_ARGS_H
#define BP_KERNELS_EXTREME_ARGS_H

#include "../common/kernel_reduce_args.h"

struct extreme_args {
    struct reduce_args r;
};
struct extreme_end_args {
    struct reduce_args r;
};
struct arg_extreme_args {
    struct reduce_args r;
};
struct arg_extreme_end_args {
    struct reduce_args r;
};

/* x is [lines / inner, n, inner]; wide: indices are i64, else i32. */
struct cumulative_args {
    i64 op, n, inner, wide;
};
enum { CUMULATIVE_LINES = 64 }; /* neighbours that a lane goes along together */

#endif
