/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_args.h: numbers of the kernels of kernel.h. */
#ifndef BP_KERNELS_NORMALISE_ARGS_H
#define BP_KERNELS_NORMALISE_ARGS_H

#include "../../dialect/dialect.h"

enum {
    NORM_AXES = 10,    /* eight, one of which may be cut in two, and one that stands for none */
    NORM_COLUMNS = 64, /* groups that a team makes side by side */
};

/* Operands by their strides. Those of one column may share it: no kernel has both. */
enum {
    NORM_X,
    NORM_Y,     /* or dx */
    NORM_SCALE, /* or dscale, of normalise_params */
    NORM_BIAS,  /* or dbias */
    NORM_MEAN,
    NORM_R, /* 1 / sqrt(variance + epsilon) */
    NORM_DY,
    NORM_SLOTS
};

/* Statistics of all calls, of batch_norm_train: a number for each group, which is a channel. */
enum { NORM_OLD_MEAN, NORM_OLD_VARIANCE, NORM_NEW_MEAN, NORM_NEW_VARIANCE, NORM_KEPT };

/* Groups of terms: outer axes tell groups apart, inner ones, which follow them, the terms of each.
 * An operand that does not have an axis has stride 0 there. Teams make `wide` neighbouring groups
 * of the last outer axis, or one. */
struct norm_plan {
    i64 outer, inner; /* axes, at least one of each */
    i64 shape[NORM_AXES], stride[NORM_SLOTS][NORM_AXES];
    i64 kept[NORM_KEPT]; /* strides */
    i64 groups, terms;
    i64 wide, blocks, teams; /* blocks: teams along the last outer axis */
    i64 centre;              /* the mean is subtracted */
    i64 wide_params;         /* scale and bias are of type acc, not elem */
    i64 unbiased;
    i64 plain; /* one axis of each, terms side by side in all operands, scale wherever there is
                  bias, and no others */
    i64 slots; /* operands: those from here on are not there, or have one element */
    host_real epsilon, momentum;
};

struct normalise_args {
    struct norm_plan p;
};
struct normalise_grad_args {
    struct norm_plan p;
};
struct normalise_params_args {
    struct norm_plan p;
};
struct normalise_given_args {
    struct norm_plan p;
};
struct log_softmax_args {
    struct norm_plan p;
};
struct log_softmax_grad_args {
    struct norm_plan p;
};

#endif
