/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernel of kernel.h. */
#ifndef BP_KERNELS_CAST_ARGS_H
#define BP_KERNELS_CAST_ARGS_H

#include "../../dialect/walk.h"

/* The dtypes of results. */
enum {
    CAST_bool, CAST_i8, CAST_i16, CAST_i32, CAST_i64, CAST_u8, CAST_u16, CAST_u32, CAST_u64,
    CAST_f16, CAST_bf16, CAST_f32, CAST_f64
};

/* truth: x is of bools, any of which is true that is not 0. */
struct cast_args {
    struct walk_by_value walk;
    i64 to, truth;
};

#endif
