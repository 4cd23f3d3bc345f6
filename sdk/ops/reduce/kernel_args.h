/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_FOLD_ARGS_H
#define BP_KERNELS_FOLD_ARGS_H

#include "../common/kernel_reduce_args.h"

struct fold_args {
    struct reduce_args r;
};
struct fold_end_args {
    struct reduce_args r;
};

/* x and dx lie side by side; y and dy repeat along axes of stride 0. */
struct norm_grad_args {
    i64 rank, shape[8], y_stride[8], dy_stride[8];
    host_real p;
};

#endif
