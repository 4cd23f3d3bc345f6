/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_product.h: describes a convolution and its two gradients as products of matrices that are
 * never stored.
 *
 * There are always three spatial axes here: missing ones are the first, with extent 1. A position
 * is an index of the result, where the window is applied (batch, o0, o1, o2). A tap is one weight
 * of the window (channel, w0, w1, w2). The image at a position and a tap is a matrix; so, for each
 * group,
 *
 *   conv              y[filter][position] = sum of  w[filter][tap] image x[tap][position]
 *   conv_grad_input  dx[channel][place]   = sum of  w[channel][tap'] image dy[tap'][place]
 *   conv_grad_weight dw[filter][tap]      = sum of dy[filter][position] image x[position][tap]
 *
 * where a place is an index of x, and tap' has filters where a tap has channels. */
#ifndef BP_OPS_CONV_KERNEL_PRODUCT_H
#define BP_OPS_CONV_KERNEL_PRODUCT_H

#include "../../dialect/dialect.h"

/* Four nested axes, the last one innermost: extents of positions or taps, and their strides. */
struct conv_grid {
    i64 extent[4], stride[4];
};

/* The elements that a window reads. Along spatial axis d a position and a tap meet at t = position
 * * step[d] + origin[d] + tap * tap_step[d]. The value is element t / every[d] of the image, or
 * zero if t is not a multiple of every[d] or is outside. */
struct conv_image {
    i64 batch, channel, stride[3]; /* in elements */
    i64 extent[3], every[3];
    i64 step[3], origin[3], tap_step[3];
    i64 position[4], tap[4]; /* extents */
};

struct conv_product {
    i64 m, n, k, groups;
    i64 a_group, image_group, c_group; /* elements from one group to the next */
    i64 a_row;                         /* row i, then k by its grid */
    struct conv_grid a_k;
    struct conv_image image;
    i64 taps_are_columns; /* the image's columns are taps, and k counts positions */
    i64 c_row;
    struct conv_grid c_column;
    i64 bias_step; /* elements between the bias of two rows; each group has m */
};

/* grid_locate turns a number into an index along four axes, grid_next moves to the next index. */
KFN void grid_locate(const i64 *extent, i64 number, i64 *index)
{
    for (int d = 3; d > 0; d--) {
        index[d] = number % extent[d];
        number /= extent[d];
    }
    index[0] = number;
}

KFN void grid_next(const i64 *extent, i64 *index)
{
    for (int d = 3; d > 0; d--) {
        if (++index[d] < extent[d]) return;
        index[d] = 0;
    }
    index[0]++;
}

KFN i64 grid_offset(const i64 *stride, const i64 *index)
{
    return index[0] * stride[0] + index[1] * stride[1] + index[2] * stride[2] +
           index[3] * stride[3];
}

#endif
