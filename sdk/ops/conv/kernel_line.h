/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_line.h: computes adjacent results of a convolution together, without panels: those of one
 * line of the last spatial axis. A processor adds a tap's products to all of them in vectors. This
 * serves depthwise convolutions, which have one row of results for each group, and those of one
 * position, as in squeeze blocks. */
#ifndef BP_OPS_CONV_KERNEL_LINE_H
#define BP_OPS_CONV_KERNEL_LINE_H

#include "kernel_epilogue.h"
#include "kernel_product.h"

#ifdef ELEM
#include "../../dialect/entry.h"

enum { CONV_LINE = 64, CONV_PART = 8 /* results, and those that are added as vectors */ };

/* Whether lines of the product can be computed: adjacent columns meet elements of the image at a
 * constant distance. */
KFN int conv_has_lines(const struct conv_product *p)
{
    return !p->taps_are_columns && p->image.every[0] == 1 && p->image.every[1] == 1 &&
           p->image.every[2] == 1 && p->image.step[2] > 0;
}

/* Adds the products of one tap: s[q] += w x[q apart], from q on, below end. */
KFN void conv_line_add(acc *s, i64 q, i64 end, acc w, GLOBAL const elem *x, i64 apart)
{
    if (apart == 1)
        for (; q + CONV_PART <= end; q += CONV_PART) {
            HOST_UNROLL
            for (int i = 0; i < CONV_PART; i++) s[q + i] += w * elem_get(x[q + i]);
        }
    for (; q < end; q++) s[q] += w * elem_get(x[q * apart]);
}

/* Adds the products of the taps of one line of the window with n positions of a line of the image,
 * whose element 0 is x; t: the element at which the first position and tap meet. */
KFN void conv_line_taps(const struct conv_product *p, acc *s, i64 n, i64 t,
                        GLOBAL const elem *w, GLOBAL const elem *x)
{
    i64 step = p->image.step[2], stride = p->image.stride[2], extent = p->image.extent[2];

    for (i64 z = 0; z < p->a_k.extent[3]; z++, t += p->image.tap_step[2]) {
        i64 q = 0, end = n;
        if (t < 0) q = step == 1 ? -t : (step - 1 - t) / step;
        if (t + (n - 1) * step >= extent)
            end = t >= extent ? 0 : step == 1 ? extent - t : (extent - t - 1) / step + 1;
        if (q < end)
            conv_line_add(s, q, end, elem_get(w[z * p->a_k.stride[3]]), x + t * stride,
                          step * stride);
    }
}

/* Sets s to the sums of n adjacent columns from `column` on. a: the row; image: the group's. */
KFN void conv_line_sum(const struct conv_product *p, acc *s, i64 n, const i64 *column,
                       GLOBAL const elem *a, GLOBAL const elem *image)
{
    const struct conv_image *im = &p->image;
    i64 first = column[3] * im->step[2] + im->origin[2];

    for (i64 q = 0; q < n; q++) s[q] = 0;
    image += column[0] * im->batch;
    for (i64 c = 0; p->k && c < p->a_k.extent[0]; c++) {
        for (i64 y = 0; y < p->a_k.extent[1]; y++) {
            i64 ty = column[1] * im->step[0] + im->origin[0] + y * im->tap_step[0];
            if (ty < 0 || ty >= im->extent[0]) continue;
            for (i64 x = 0; x < p->a_k.extent[2]; x++) {
                i64 tx = column[2] * im->step[1] + im->origin[1] + x * im->tap_step[1];
                if (tx < 0 || tx >= im->extent[1]) continue;
                conv_line_taps(p, s, n, first,
                               a + c * p->a_k.stride[0] + y * p->a_k.stride[1] +
                                   x * p->a_k.stride[2],
                               image + c * im->channel + ty * im->stride[0] +
                                   tx * im->stride[1]);
            }
        }
    }
}

/* Whether the one column of the product is a product of two vectors in adjacent elements: that of
 * one position with a window of one element. */
KFN int conv_is_dot(const struct conv_product *p)
{
    return p->n == 1 && p->k == p->a_k.extent[0] && p->a_k.stride[0] == 1 &&
           p->image.channel == 1 && p->image.origin[0] == 0 && p->image.origin[1] == 0 &&
           p->image.origin[2] == 0;
}

KFN acc conv_dot(i64 n, GLOBAL const elem *a, GLOBAL const elem *x)
{
    acc part[2 * CONV_PART], sum = 0;
    i64 i = 0;

    for (int q = 0; q < 2 * CONV_PART; q++) part[q] = 0;
    for (; i + 2 * CONV_PART <= n; i += 2 * CONV_PART) {
        HOST_UNROLL
        for (int q = 0; q < 2 * CONV_PART; q++) part[q] += elem_get(a[i + q]) * elem_get(x[i + q]);
    }
    for (; i < n; i++) sum += elem_get(a[i]) * elem_get(x[i]);
    for (int q = 0; q < 2 * CONV_PART; q++) sum += part[q];
    return sum;
}

/* Writes a line of n sums, whose first result is in this column. end: NULL, or the epilogue. */
KFN void conv_line_put(const struct conv_product *p, const struct conv_epilogue *end, i64 group,
                       i64 row, const i64 *column, acc *s, i64 n, GLOBAL elem *c,
                       GLOBAL const elem *residual)
{
    if (end) {
        if (residual) {
            residual += group * end->group + row * end->row + grid_offset(end->column, column);
            for (i64 q = 0; q < n; q++) s[q] += elem_get(residual[q * end->column[3]]);
        }
        conv_activate(end, s, n);
    }
    c += group * p->c_group + row * p->c_row + grid_offset(p->c_column.stride, column);
    for (i64 q = 0; q < n; q++) c[q * p->c_column.stride[3]] = elem_put(s[q]);
}

/* Computes n results from number `begin` on, line by line. */
KFN void conv_lines(const struct conv_product *p, const struct conv_epilogue *end, i64 begin, i64 n,
                    GLOBAL elem *c, GLOBAL const elem *a, GLOBAL const elem *image,
                    GLOBAL const elem *bias, GLOBAL const elem *residual)
{
    int is_dot = conv_is_dot(p);
    acc s[CONV_LINE];

    for (i64 number = begin, count; number < begin + n; number += count) {
        i64 row = number / p->n, group = row / p->m, column[4];
        grid_locate(p->c_column.extent, number % p->n, column);
        row %= p->m;
        count = p->c_column.extent[3] - column[3];
        if (count > CONV_LINE) count = CONV_LINE;
        if (count > begin + n - number) count = begin + n - number;
        if (is_dot)
            s[0] = conv_dot(p->k, a + group * p->a_group + row * p->a_row,
                            image + group * p->image_group);
        else
            conv_line_sum(p, s, count, column, a + group * p->a_group + row * p->a_row,
                          image + group * p->image_group);
        if (bias) {
            acc more = elem_get(bias[(group * p->m + row) * p->bias_step]);
            for (i64 q = 0; q < count; q++) s[q] += more;
        }
        conv_line_put(p, end, group, row, column, s, count, c, residual);
    }
}
#endif

#endif
