/* SPDX-License-Identifier: Apache-2.0 */
/* launch_shape.h: declares how a convolution or one of its gradients becomes a product of
 * matrices. */
#ifndef BP_OPS_CONV_LAUNCH_SHAPE_H
#define BP_OPS_CONV_LAUNCH_SHAPE_H

#include "kernel_product.h"
#include <backplane/attrs.h>
#include <backplane/kernel.h>

/* The numbers of kernel rows. CONV_TRANSPOSE is CONV_GRAD_INPUT with a bias and without x. */
enum conv_kind { CONV_FORWARD, CONV_GRAD_INPUT, CONV_GRAD_WEIGHT, CONV_TRANSPOSE };

/* The operands of a product; bias may be NULL. The residual of fused_conv, or NULL: its launch sets
 * it. */
struct conv_views {
    const struct bp_view *a, *image, *bias, *c, *residual;
};

/* Returns the attributes of any of the four operators as attributes of conv. */
struct bp_conv_attrs conv_attrs(enum conv_kind kind, const void *attrs);

/* Fills in the product and returns its operands. k is 0 where results have padding only, or no
 * terms. Inputs and outputs are in the order of the operator's ports. */
struct conv_views conv_product_init(struct conv_product *out, enum conv_kind kind,
                                    const struct bp_view *const *in, uint32_t n_in,
                                    const struct bp_view *const *outputs, const void *attrs);

/* The part of a CONV_GRAD_INPUT product whose positions are `first` modulo the stride. Only these
 * positions meet the same taps, so that the part's matrices have no zeros between elements of the
 * image: its image.every is 1. a and c: offsets of its first weight and element of the result. */
struct conv_phase {
    struct conv_product p;
    int64_t a, c;
};

/* Returns the number of parts: one for each combination of remainders. */
int64_t conv_phase_count(const struct conv_product *whole);

/* Fills in part number `number`. Its k is 0 where no tap meets an element of the image. */
void conv_phase_init(struct conv_phase *out, const struct conv_product *whole, int64_t number);

#endif
