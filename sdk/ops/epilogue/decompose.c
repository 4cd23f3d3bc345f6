/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: decomposes products with an epilogue into the product, additions and the
 * activation. */
#include <call/compose.h>

#include <backplane/attrs.h>
#include <string.h>

static struct bp_tensor *epilogue_gelu(struct bp_compose *c, struct bp_tensor *x, bool by_tanh)
{
    struct bp_gelu_attrs attrs = {.size = sizeof attrs, .approximate = by_tanh};

    return MAKE(c, gelu, &attrs, x);
}

/* Applies an activation that has numbers. */
static struct bp_tensor *epilogue_numbered(struct bp_compose *c, struct bp_tensor *x,
                                           enum bp_activation activation, double a, double b)
{
    struct bp_leaky_relu_attrs leaky = {.size = sizeof leaky, .slope = a};
    struct bp_clip_attrs clip = {.size = sizeof clip, .min = a, .max = b};
    struct bp_hard_sigmoid_attrs hard = {.size = sizeof hard, .slope = a, .offset = b};
    struct bp_elu_attrs elu = {.size = sizeof elu, .alpha = a};
    struct bp_softplus_attrs softplus = {.size = sizeof softplus, .beta = a, .threshold = b};

    switch (activation) {
    case BP_ACTIVATION_LEAKY_RELU: return MAKE(c, leaky_relu, &leaky, x);
    case BP_ACTIVATION_CLIP: return MAKE(c, clip, &clip, x);
    case BP_ACTIVATION_HARD_SIGMOID: return MAKE(c, hard_sigmoid, &hard, x);
    case BP_ACTIVATION_ELU: return MAKE(c, elu, &elu, x);
    default: return MAKE(c, softplus, &softplus, x);
    }
}

static struct bp_tensor *epilogue_activate(struct bp_compose *c, struct bp_tensor *x,
                                           int64_t activation, double a, double b)
{
    switch ((enum bp_activation)activation) {
    case BP_ACTIVATION_NONE: return x;
    case BP_ACTIVATION_RELU: return MAKE(c, relu, NULL, x);
    case BP_ACTIVATION_SIGMOID: return MAKE(c, sigmoid, NULL, x);
    case BP_ACTIVATION_TANH: return MAKE(c, tanh, NULL, x);
    case BP_ACTIVATION_HARD_SWISH: return MAKE(c, hard_swish, NULL, x);
    case BP_ACTIVATION_SILU: return MAKE(c, silu, NULL, x);
    case BP_ACTIVATION_GELU: return epilogue_gelu(c, x, false);
    case BP_ACTIVATION_GELU_TANH: return epilogue_gelu(c, x, true);
    case BP_ACTIVATION_MISH: return MAKE(c, mish, NULL, x);
    case BP_ACTIVATION_LEAKY_RELU:
    case BP_ACTIVATION_CLIP:
    case BP_ACTIVATION_HARD_SIGMOID:
    case BP_ACTIVATION_ELU:
    case BP_ACTIVATION_SOFTPLUS:
        return epilogue_numbered(c, x, (enum bp_activation)activation, a, b);
    }
    return NULL; /* bp_values_fused_... refused all other numbers */
}

enum bp_status bp_decompose_fused_conv(struct bp_decomposition *e)
{
    const struct bp_fused_conv_attrs *a = e->attrs;
    struct bp_conv_attrs of;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *y;

    memcpy(&of, a, sizeof of);
    of.size = sizeof of;
    y = MAKE(&c, conv, &of, e->in[0], e->in[1], e->in[2]);
    if (e->in[3]) y = MAKE(&c, add, NULL, y, e->in[3]);
    return bp_compose_give(e, &c, epilogue_activate(&c, y, a->activation, a->alpha, a->beta));
}

enum bp_status bp_decompose_fused_matmul(struct bp_decomposition *e)
{
    const struct bp_fused_matmul_attrs *a = e->attrs;
    struct bp_matmul_attrs of = {.size = sizeof of, .transpose_a = a->transpose_a,
                                 .transpose_b = a->transpose_b};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *y = MAKE(&c, matmul, &of, e->in[0], e->in[1]);

    if (e->in[2]) y = MAKE(&c, add, NULL, y, e->in[2]);
    if (e->in[3]) y = MAKE(&c, add, NULL, y, e->in[3]);
    return bp_compose_give(e, &c, epilogue_activate(&c, y, a->activation, a->alpha, a->beta));
}
