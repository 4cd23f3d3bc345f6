/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_epilogue.h: computes the end of fused_conv: a residual is added to sums that a convolution
 * has computed, then an activation is applied. */
#ifndef BP_OPS_CONV_KERNEL_EPILOGUE_H
#define BP_OPS_CONV_KERNEL_EPILOGUE_H

#include "../../dialect/dialect.h"

/* The activations, numbered as enum bp_activation. */
enum conv_activation {
    CONV_NONE,
    CONV_RELU,
    CONV_LEAKY_RELU,
    CONV_CLIP,
    CONV_SIGMOID,
    CONV_TANH,
    CONV_HARD_SIGMOID,
    CONV_HARD_SWISH,
    CONV_SILU,
    CONV_GELU,
    CONV_GELU_TANH,
    CONV_MISH,
    CONV_ELU,
    CONV_SOFTPLUS
};

struct conv_epilogue {
    i64 activation;
    host_real alpha, beta;
    i64 group, row, column[4]; /* strides of the residual, as of c in struct conv_product */
};

#ifdef ELEM
#include "../../dialect/maths.h"

/* Applies the activation to n sums. Each has a loop of its own, which compilers vectorise. */
KFN void conv_activate(const struct conv_epilogue *end, acc *s, i64 n)
{
    acc a = number(end->alpha), b = number(end->beta);

#define CONV_EACH(activation, formula) \
    case activation: \
        for (i64 q = 0; q < n; q++) { \
            acc x = s[q]; \
            s[q] = formula; \
        } \
        break
    switch (end->activation) {
        CONV_EACH(CONV_RELU, acc_relu(x));
        CONV_EACH(CONV_LEAKY_RELU, x > 0 ? x : a * x);
        CONV_EACH(CONV_CLIP, acc_clip(x, a, b));
        CONV_EACH(CONV_SIGMOID, acc_sigmoid(x));
        CONV_EACH(CONV_TANH, FUNC(tanh)(x));
        CONV_EACH(CONV_HARD_SIGMOID, acc_clip(a * x + b, 0, 1));
        CONV_EACH(CONV_HARD_SWISH, x * (acc_clip(x + 3, 0, 6) / 6));
        CONV_EACH(CONV_SILU, x * acc_sigmoid(x));
        CONV_EACH(CONV_GELU, acc_gelu(x));
        CONV_EACH(CONV_GELU_TANH, acc_gelu_tanh(x));
        CONV_EACH(CONV_MISH, acc_mish(x));
        CONV_EACH(CONV_ELU, acc_elu(x, a));
        CONV_EACH(CONV_SOFTPLUS, acc_softplus_scaled(x, a, b));
    default: break;
    }
#undef CONV_EACH
}
#endif

#endif
