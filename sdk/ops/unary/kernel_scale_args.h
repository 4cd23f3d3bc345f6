/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scale_args.h: numbers of the kernels of kernel_scale.h. */
#ifndef BP_KERNELS_SCALE_ARGS_H
#define BP_KERNELS_SCALE_ARGS_H

#include "../../dialect/walk.h"

struct scale_args {
    struct walk_by_value walk;
    host_real factor, bias;
};

/* The types that a learning rate is of. */
enum { RATE_f16, RATE_bf16, RATE_f32, RATE_f64 };
struct sgd_args {
    struct walk_by_value walk;
    i64 rate;
};

#endif
