/* SPDX-License-Identifier: Apache-2.0 */
/* epilogue.c: computes the activation behind a product by the portable kernel of its operator.
 * Libraries have activations of their own, but may lose a NaN in them, and have gelu by tanh alone,
 * with another result for -infinity. */
#include "epilogue.h"
#include <kit/activation.h>
#include <string.h>

/* Portable rows of elementwise operators have no plan, and compute in place. */
const struct bp_kernel *gpu_epilogue_row(const char *op, uint8_t dtype)
{
    const uint32_t needed = BP_KERNEL_STRIDED | BP_KERNEL_IN_PLACE;

    for (size_t i = 0; i < portable_rows.count; i++) {
        const struct bp_kernel *row = (const struct bp_kernel *)portable_rows.first + i;
        if (!row->priority && !row->prepare && !strcmp(row->op, op) &&
            (row->types[0] >> dtype & 1) && (row->flags & needed) == needed)
            return row;
    }
    return NULL;
}

const char *gpu_epilogue_code(enum bp_activation activation, double alpha, double beta,
                              double out_number[2])
{
    bool is_gelu = activation == BP_ACTIVATION_GELU || activation == BP_ACTIVATION_GELU_TANH;

    out_number[0] = is_gelu ? activation == BP_ACTIVATION_GELU_TANH : alpha;
    out_number[1] = is_gelu ? 0 : beta;
    return kit_activation_op(activation);
}

static void epilogue_attrs(struct gpu_epilogue *e, enum bp_activation activation, double a,
                           double b)
{
    switch (activation) {
    case BP_ACTIVATION_LEAKY_RELU:
        e->attrs.leaky_relu = (struct bp_leaky_relu_attrs){sizeof e->attrs.leaky_relu, .slope = a};
        break;
    case BP_ACTIVATION_CLIP:
        e->attrs.clip = (struct bp_clip_attrs){sizeof e->attrs.clip, .min = a, .max = b};
        break;
    case BP_ACTIVATION_HARD_SIGMOID:
        e->attrs.hard_sigmoid = (struct bp_hard_sigmoid_attrs){sizeof e->attrs.hard_sigmoid,
                                                               .slope = a, .offset = b};
        break;
    case BP_ACTIVATION_GELU:
    case BP_ACTIVATION_GELU_TANH:
        e->attrs.gelu = (struct bp_gelu_attrs){
            sizeof e->attrs.gelu, .approximate = activation == BP_ACTIVATION_GELU_TANH};
        break;
    case BP_ACTIVATION_ELU:
        e->attrs.elu = (struct bp_elu_attrs){sizeof e->attrs.elu, .alpha = a};
        break;
    case BP_ACTIVATION_SOFTPLUS:
        e->attrs.softplus = (struct bp_softplus_attrs){sizeof e->attrs.softplus, .beta = a,
                                                       .threshold = b};
        break;
    default: break;
    }
}

bool gpu_epilogue_init(struct gpu_epilogue *out, enum bp_activation activation, double alpha,
                       double beta, uint8_t dtype)
{
    memset(out, 0, sizeof *out);
    if (activation == BP_ACTIVATION_NONE) return true;
    out->row = gpu_epilogue_row(kit_activation_op(activation), dtype);
    epilogue_attrs(out, activation, alpha, beta);
    return out->row != NULL;
}

enum bp_status gpu_epilogue_run(const struct gpu_epilogue *e, const struct bp_launch *launch)
{
    struct bp_launch behind = *launch;

    if (!e->row) return BP_OK;
    behind.kernel = e->row;
    behind.plan = NULL;
    behind.attrs = &e->attrs;
    behind.in = launch->out;
    behind.in_at = launch->out_at;
    behind.n_in = 1;
    return e->row->launch(&behind);
}
