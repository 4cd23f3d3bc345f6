/* SPDX-License-Identifier: Apache-2.0 */
/* activation.h: names the operators of the activations that fused products and convolutions
 * apply. */
#ifndef KIT_ACTIVATION_H
#define KIT_ACTIVATION_H

#include <backplane/attrs.h>
#include <stddef.h>

/* Returns the operator of a bp_activation. NULL: none, or an activation that is newer than this
 * list. */
static inline const char *kit_activation_op(int64_t activation)
{
    static const char *const operators[] = {
        [BP_ACTIVATION_RELU] = "relu",
        [BP_ACTIVATION_LEAKY_RELU] = "leaky_relu",
        [BP_ACTIVATION_CLIP] = "clip",
        [BP_ACTIVATION_SIGMOID] = "sigmoid",
        [BP_ACTIVATION_TANH] = "tanh",
        [BP_ACTIVATION_HARD_SIGMOID] = "hard_sigmoid",
        [BP_ACTIVATION_HARD_SWISH] = "hard_swish",
        [BP_ACTIVATION_SILU] = "silu",
        [BP_ACTIVATION_GELU] = "gelu",
        [BP_ACTIVATION_GELU_TANH] = "gelu",
        [BP_ACTIVATION_MISH] = "mish",
        [BP_ACTIVATION_ELU] = "elu",
        [BP_ACTIVATION_SOFTPLUS] = "softplus",
    };

    if (activation < 0 || activation >= (int64_t)(sizeof operators / sizeof *operators))
        return NULL;
    return operators[activation];
}

#endif
