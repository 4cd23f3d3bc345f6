/* SPDX-License-Identifier: Apache-2.0 */
/* conv.h: a convolution and its two gradients as products of matrices that are never made.
 *
 * Spatial axes are always three here: missing ones come first, with extent 1. A position is a
 * place where the window may stand (batch, o0, o1, o2); a tap is one weight of the window
 * (channel, w0, w1, w2). The image at a position and a tap is a matrix; so, for each group,
 *
 *   conv              y[filter][position] = sum of  w[filter][tap] image x[tap][position]
 *   conv_grad_input  dx[channel][place]   = sum of  w[channel][tap'] image dy[tap'][place]
 *   conv_grad_weight dw[filter][tap]      = sum of dy[filter][position] image x[position][tap]
 *
 * where a place is one of x and tap' counts filters in the place of channels. */
#ifndef CPU_CONV_H
#define CPU_CONV_H

#include <backplane/kernel.h>
#include <stdbool.h>

enum conv_kind { CONV_FORWARD, CONV_GRAD_INPUT, CONV_GRAD_WEIGHT };

/* Four nested axes, the last the innermost: numbers of positions or taps, and where they lie. */
struct conv_grid {
    int64_t extent[4], stride[4];
};

/* What a window sees. Along spatial axis d a position and a tap meet at t = position * step[d] +
 * origin[d] + tap * tap_step[d]: element t / every[d] of the image, and zero where t is no
 * multiple of that or lies outside. */
struct conv_image {
    const void *data;
    int64_t batch, channel, stride[3]; /* in elements */
    int64_t extent[3], every[3];
    int64_t step[3], origin[3], tap_step[3];
    int64_t position[4], tap[4]; /* extents */
};

struct conv_product {
    int64_t m, n, k, groups;
    int64_t a_group, image_group, c_group; /* elements from one group to the next */
    const void *a;                         /* row i, then k by its grid */
    int64_t a_row;
    struct conv_grid a_k;
    struct conv_image image;
    bool taps_are_columns; /* of the image: k counts positions */
    void *c;
    int64_t c_row;
    struct conv_grid c_column;
    const void *bias; /* m for each group, or NULL */
    int64_t bias_step;
};

/* conv_shape.c */
void conv_product_init(struct conv_product *out, enum conv_kind kind,
                       const struct bp_launch *launch);

/* Number to index along four axes, and on to the next. */
static inline void grid_locate(const int64_t extent[4], int64_t number, int64_t index[4])
{
    for (int d = 3; d > 0; d--) {
        index[d] = number % extent[d];
        number /= extent[d];
    }
    index[0] = number;
}

static inline void grid_next(const int64_t extent[4], int64_t index[4])
{
    for (int d = 3; d > 0; d--) {
        if (++index[d] < extent[d]) return;
        index[d] = 0;
    }
    index[0]++;
}

static inline int64_t grid_offset(const int64_t stride[4], const int64_t index[4])
{
    return index[0] * stride[0] + index[1] * stride[1] + index[2] * stride[2] +
           index[3] * stride[3];
}

#endif
