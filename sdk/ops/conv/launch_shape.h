/* SPDX-License-Identifier: Apache-2.0 */
/* launch_shape.h: which product a convolution or one of its gradients is. */
#ifndef BP_OPS_CONV_LAUNCH_SHAPE_H
#define BP_OPS_CONV_LAUNCH_SHAPE_H

#include "kernel_product.h"
#include <backplane/attrs.h>
#include <backplane/kernel.h>

enum conv_kind { CONV_FORWARD, CONV_GRAD_INPUT, CONV_GRAD_WEIGHT };

/* Its operands; bias may be NULL. */
struct conv_views {
    const struct bp_view *a, *image, *bias, *c;
};

/* The attributes of one of the three operators, as those of conv. */
struct bp_conv_attrs conv_attrs(enum conv_kind kind, const void *attrs);

/* k is 0 where there is padding only, or nothing. Inputs and outputs in the order of the
 * operator's ports. */
struct conv_views conv_product_init(struct conv_product *out, enum conv_kind kind,
                                    const struct bp_view *const *in, uint32_t n_in,
                                    const struct bp_view *const *outputs, const void *attrs);

#endif
