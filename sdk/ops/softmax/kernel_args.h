/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_SOFTMAX_ARGS_H
#define BP_KERNELS_SOFTMAX_ARGS_H

#include "../../dialect/dialect.h"

/* Contiguous tensors of lines of `extent` elements, which lie `inner` apart. */
struct softmax_args {
    i64 extent, inner;
};
struct softmax_columns_args {
    i64 extent, inner;
};
struct softmax_grad_args {
    i64 extent, inner;
};
struct softmax_grad_columns_args {
    i64 extent, inner;
};

#endif
