/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_count_args.h: numbers of the kernels of kernel_count.h. */
#ifndef BP_KERNELS_COUNT_ARGS_H
#define BP_KERNELS_COUNT_ARGS_H

#include "../common/kernel_reduce_args.h"

struct count_args {
    struct reduce_args r;
};
struct count_end_args {
    struct reduce_args r;
};

#endif
