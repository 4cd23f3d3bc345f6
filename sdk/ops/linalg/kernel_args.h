/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h, which launches work out. */
#ifndef BP_KERNELS_SQUARE_ARGS_H
#define BP_KERNELS_SQUARE_ARGS_H

#include "../../dialect/dialect.h"

/* Matrices of n by n, one after the other. */
struct det_args {
    i64 n;
};

#endif
