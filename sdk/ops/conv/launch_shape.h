/* SPDX-License-Identifier: Apache-2.0 */
/* launch_shape.h: declares how a convolution or one of its gradients becomes a product of
 * matrices. */
#ifndef BP_OPS_CONV_LAUNCH_SHAPE_H
#define BP_OPS_CONV_LAUNCH_SHAPE_H

#include "kernel_product.h"
#include <backplane/attrs.h>
#include <backplane/kernel.h>

enum conv_kind { CONV_FORWARD, CONV_GRAD_INPUT, CONV_GRAD_WEIGHT };

/* The operands of a product; bias may be NULL. */
struct conv_views {
    const struct bp_view *a, *image, *bias, *c;
};

/* Returns the attributes of any of the three operators as attributes of conv. */
struct bp_conv_attrs conv_attrs(enum conv_kind kind, const void *attrs);

/* Fills in the product and returns its operands. k is 0 where results have padding only, or no
 * terms. Inputs and outputs are in the order of the operator's ports. */
struct conv_views conv_product_init(struct conv_product *out, enum conv_kind kind,
                                    const struct bp_view *const *in, uint32_t n_in,
                                    const struct bp_view *const *outputs, const void *attrs);

#endif
