/* SPDX-License-Identifier: Apache-2.0 */
/* ops_image.c: writes the numbers of nodes on images: convolutions, pools and norms of channels. */
#include "ops.h"

#include <backplane/attrs.h>

static uint32_t field_axes(const struct ipu_node *n)
{
    return ipu_in(n, 0)->rank - 2;
}

/* A filter of an axis that is larger than the padded field has no place. */
const char *ipu_refuses_conv(const struct ipu_node *n)
{
    return ipu_in(n, 0)->rank > 5 ? "more than 3 spatial axes" : NULL;
}

void ipu_numbers_conv(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_conv_attrs *a = n->attrs;

    to->number[0] = a->groups;
    to->number[1] = field_axes(n);
    for (uint32_t k = 0; k < field_axes(n); k++) {
        int64_t *number = to->number + 2 + 4 * k;
        number[0] = a->stride[k];
        number[1] = a->dilation[k];
        number[2] = a->pad[k];
        number[3] = a->pad[k + 3];
    }
}

void ipu_numbers_conv_transpose(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_conv_transpose_attrs *a = n->attrs;
    uint32_t axes = field_axes(n);

    to->number[0] = a->groups;
    to->number[1] = axes;
    for (uint32_t k = 0; k < axes; k++) {
        int64_t *number = to->number + 2 + 4 * k;
        number[0] = a->stride[k];
        number[1] = a->dilation[k];
        number[2] = a->pad[k];
        number[3] = a->pad[k + 3];
        to->number[2 + 4 * axes + k] = a->output_padding[k];
    }
}

/* The padding behind an axis with which the last window is a whole one; below 0: the last places
 * of the field are in no window. The attributes of max_pool are the first ones of avg_pool. */
static int64_t whole_end(const struct ipu_node *n, uint32_t axis)
{
    const struct bp_max_pool_attrs *a = n->attrs;

    return (ipu_out(n)->shape[axis + 2] - 1) * a->stride[axis] +
           (a->window[axis] - 1) * a->dilation[axis] + 1 - ipu_in(n, 0)->shape[axis + 2] -
           a->pad[axis];
}

const char *ipu_refuses_pool(const struct ipu_node *n)
{
    return ipu_in(n, 0)->rank > 5 ? "more than 3 spatial axes" : NULL;
}

/* Whether windows are so large that an axis with padding is far larger than the field. */
static bool is_far(const struct ipu_node *n, uint32_t axis)
{
    const struct bp_max_pool_attrs *a = n->attrs;
    int64_t extent = ipu_in(n, 0)->shape[axis + 2];

    return a->window[axis] > 4 * extent + 64 || a->pad[axis] > 4 * extent + 64 ||
           whole_end(n, axis) > 4 * extent + 64;
}

/* Modes of the shim: PopLibs' own pool, windows of different extents, place by place of a window,
 * or window by window. */
static void pool_numbers(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_max_pool_attrs *a = n->attrs;

    to->number[0] = field_axes(n);
    to->number[19] = a->adaptive ? 1 : 0;
    for (uint32_t k = 0; k < field_axes(n); k++) {
        int64_t *number = to->number + 1 + 6 * k, end = a->adaptive ? 0 : whole_end(n, k);
        number[0] = a->window[k];
        number[1] = a->stride[k];
        number[2] = a->dilation[k];
        number[3] = a->pad[k];
        number[4] = end;
        number[5] = a->pad[k + 3];
        if (a->dilation[k] != 1 && !a->adaptive) to->number[19] = 2;
    }
    for (uint32_t k = 0; k < field_axes(n) && !a->adaptive; k++)
        if (is_far(n, k)) to->number[19] = 3;
}

void ipu_numbers_max_pool(const struct ipu_node *n, struct bp_ipu_node *to)
{
    pool_numbers(n, to);
}

void ipu_numbers_avg_pool(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_avg_pool_attrs *a = n->attrs;

    pool_numbers(n, to);
    to->real[0] = a->divisor;
    if (a->adaptive) return;
    to->number[20] = a->include_pad;
    if (to->number[19] == 0 && (a->divisor != 0 || a->include_pad)) to->number[19] = 2;
}

/* The mean over the spatial axes; the shape of the result says whether they stay. */
void ipu_numbers_global_pool(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->number[0] = field_axes(n);
    for (uint32_t k = 0; k < field_axes(n); k++) to->number[k + 1] = k + 2;
}

const char *ipu_refuses_norm(const struct ipu_node *n)
{
    for (uint32_t i = 1; i < n->node->n_out; i++)
        if (n->node->out[i] != BP_DATA_NONE) return "the statistics are results too";
    return ipu_in(n, 0)->rank < 2 ? "a tensor without channels" : NULL;
}

void ipu_numbers_batch_norm(const struct ipu_node *n, struct bp_ipu_node *to)
{
    to->real[0] = ((const struct bp_batch_norm_attrs *)n->attrs)->epsilon;
}

void ipu_numbers_group_norm(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_group_norm_attrs *a = n->attrs;

    to->number[0] = a->groups;
    to->real[0] = a->epsilon;
}

void ipu_numbers_lrn(const struct ipu_node *n, struct bp_ipu_node *to)
{
    const struct bp_lrn_attrs *a = n->attrs;

    to->number[0] = a->window;
    to->real[0] = a->alpha;
    to->real[1] = a->beta;
    to->real[2] = a->bias;
}
