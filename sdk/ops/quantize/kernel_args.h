/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_QUANTISE_ARGS_H
#define BP_KERNELS_QUANTISE_ARGS_H

#include "../../dialect/dialect.h"

/* Types of the integers. */
enum {
    QUANT_i8,
    QUANT_u8,
    QUANT_i16,
    QUANT_u16,
    QUANT_i32
};

/* Runs of inner elements have one scale, number run % channels. */
struct quantize_args {
    i64 type, inner, channels;
};
struct dequantize_args {
    i64 type, inner, channels;
};

#endif
