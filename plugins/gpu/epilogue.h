/* SPDX-License-Identifier: Apache-2.0 */
/* epilogue.h: declares the activation behind a product that a library computes. */
#ifndef GPU_EPILOGUE_H
#define GPU_EPILOGUE_H

#include "gpu.h"
#include <backplane/attrs.h>

/* The portable row of an activation, and its attributes. */
struct gpu_epilogue {
    const struct bp_kernel *row; /* NULL: there is no activation */
    union {
        struct bp_leaky_relu_attrs leaky_relu;
        struct bp_clip_attrs clip;
        struct bp_hard_sigmoid_attrs hard_sigmoid;
        struct bp_gelu_attrs gelu;
        struct bp_elu_attrs elu;
        struct bp_softplus_attrs softplus;
    } attrs;
};

/* Returns the portable row of an operator that computes in place, without a plan, or NULL. */
const struct bp_kernel *gpu_epilogue_row(const char *op, uint8_t dtype);
/* Returns the operator of an activation, and its attributes in the order of code of `fused`. */
const char *gpu_epilogue_code(enum bp_activation activation, double alpha, double beta,
                              double out_number[2]);

/* Finds the row of an activation for a dtype. false: there is none. */
bool gpu_epilogue_init(struct gpu_epilogue *out, enum bp_activation activation, double alpha,
                       double beta, uint8_t dtype);
/* Enqueues the activation of the launch's result, in place, behind the product. */
enum bp_status gpu_epilogue_run(const struct gpu_epilogue *epilogue,
                                const struct bp_launch *launch);

#endif
