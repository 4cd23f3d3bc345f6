/* SPDX-License-Identifier: Apache-2.0 */
/* step_args.h: numbers of the kernels of step.h. */
#ifndef BP_KERNELS_STEP_ARGS_H
#define BP_KERNELS_STEP_ARGS_H

#include "dialect.h"
#include "formulas.h"

enum {
    STEP_PART = 4096
}; /* elements of a partial norm */

/* An optimizer's numbers; rest[i]: 1 - beta i, made in f64. */
struct step_args {
    i64 op, nesterov;
    real beta[2], rest[2];
    real epsilon, decay, momentum, coefficient;
};

/* Sums of squares of two things in each of `parts` parts of n elements; and of those. */
struct step_norms_args {
    struct step_args s;
    i64 n, parts;
};
struct step_factor_args {
    struct step_norms_args n;
};
struct step_powers_args {
    real beta[2];
};
struct unscale_args {
    i64 begin; /* found becomes false, and that is all */
};
struct loss_scale_args {
    i64 grow_after, shrink_after;
    real grow, shrink;
};

#endif
