/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_STEP_ARGS_H
#define BP_KERNELS_STEP_ARGS_H

#include "../../dialect/dialect.h"
#include "../common/kernel_formulas.h"

enum {
    STEP_PART = 4096
}; /* elements of a partial norm */

/* An optimizer's numbers; rest: 1 - beta, made in f64. */
struct step_args {
    i64 op, nesterov;
    host_real beta1, beta2, rest1, rest2;
    host_real epsilon, decay, momentum, coefficient;
};
#define optimizer_step_args step_args

/* Sums of squares of two things in each of `parts` parts of n elements; and of those. */
struct step_norms_args {
    struct step_args s;
    i64 n, parts;
};
struct step_factor_args {
    struct step_norms_args n;
};
struct step_powers_args {
    host_real beta1, beta2;
};
struct unscale_args {
    i64 begin; /* found becomes false, and that is all */
};
struct loss_scale_args {
    i64 grow_after, shrink_after;
    host_real grow, shrink;
};

#endif
