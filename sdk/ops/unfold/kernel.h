/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: copies windows of images to columns of matrices (unfold), and adds columns to images
 * (fold). */
#ifndef BP_OPS_UNFOLD_KERNEL_H
#define BP_OPS_UNFOLD_KERNEL_H

#include "../../dialect/dialect.h"

/* Images of height x width with oh x ow windows of kh x kw elements. Element i of window p is in
 * image row p sh + i dh - top. */
struct unfold_take_args {
    i64 height, width, kh, kw, oh, ow, sh, sw, dh, dw, top, left;
};
#define unfold_add_args unfold_take_args

#ifdef ELEM
#include "../../dialect/entry.h"

/* Counts the columns below `end` among n columns that begin at `first` and are sw apart. */
KFN i64 unfold_before(const struct unfold_take_args *a, i64 first, i64 end, i64 n)
{
    i64 before = first < end ? (end - first - 1) / a->sw + 1 : 0;

    return before < n ? before : n;
}

/* Copies n elements, from window q on, of a row of windows; x: the row of the image, or NULL
 * outside of the image. The elements before the image, in it, and after it are three runs. */
KFN void unfold_row(const struct unfold_take_args *a, i64 j, i64 q, i64 n, GLOBAL elem *y,
                    GLOBAL const elem *x)
{
    i64 column = q * a->sw + j * a->dw - a->left;
    i64 low = x ? unfold_before(a, column, 0, n) : n;
    i64 high = x ? unfold_before(a, column, a->width, n) : n;

    for (i64 i = 0; i < low; i++) y[i] = elem_put(acc_zero());
    if (a->sw == 1) {
        SIMD for (i64 i = low; i < high; i++) y[i] = x[column + i];
    } else {
        for (i64 i = low; i < high; i++) y[i] = x[column + i * a->sw];
    }
    for (i64 i = high; i < n; i++) y[i] = elem_put(acc_zero());
}

/* Computes elements of y: image and channel c, window element (i, j), window (p, q), in row-major
 * order. */
KFN void unfold_take_span(const struct unfold_take_args *a, i64 begin, i64 count, GLOBAL elem *y,
                          GLOBAL const elem *x)
{
    i64 q = begin % a->ow, rest = begin / a->ow, p = rest % a->oh, end = begin + count;
    i64 j, i, c;

    rest /= a->oh;
    j = rest % a->kw;
    i = rest / a->kw % a->kh;
    c = rest / a->kw / a->kh;
    for (i64 at = begin; at < end; q = 0) {
        i64 row = p * a->sh + i * a->dh - a->top, n = a->ow - q;
        n = n < end - at ? n : end - at;
        unfold_row(a, j, q, n, y + at,
                   row >= 0 && row < a->height ? x + (c * a->height + row) * a->width
                                               : (GLOBAL const elem *)0);
        at += n;
        if (++p < a->oh) continue;
        p = 0;
        if (++j < a->kw) continue;
        j = 0;
        if (++i < a->kh) continue;
        i = 0;
        c++;
    }
}
ENTRY_SPANS_2(unfold_take, elem, const elem)

/* Sums the elements of all windows that cover the image element at row, column. */
KFN acc unfold_sum(const struct unfold_add_args *a, i64 row, i64 column, GLOBAL const elem *x)
{
    acc sum = acc_zero();

    for (i64 i = 0; i < a->kh; i++) {
        i64 down = row + a->top - i * a->dh, p = down / a->sh;
        if (down < 0) break;
        if (down % a->sh || p >= a->oh) continue;
        for (i64 j = 0; j < a->kw; j++) {
            i64 right = column + a->left - j * a->dw, q = right / a->sw;
            if (right < 0) break;
            if (right % a->sw || q >= a->ow) continue;
            sum = acc_add(sum, elem_get(x[((i * a->kw + j) * a->oh + p) * a->ow + q]));
        }
    }
    return sum;
}

KFN void unfold_add_span(const struct unfold_add_args *a, i64 begin, i64 count, GLOBAL elem *y,
                         GLOBAL const elem *x)
{
    i64 column = begin % a->width, row = begin / a->width % a->height;
    i64 c = begin / a->width / a->height, each = a->kh * a->kw * a->oh * a->ow;

    for (i64 at = begin; at < begin + count; at++) {
        y[at] = elem_put(unfold_sum(a, row, column, x + c * each));
        if (++column < a->width) continue;
        column = 0;
        if (++row < a->height) continue;
        row = 0;
        c++;
    }
}
ENTRY_SPANS_2(unfold_add, elem, const elem)
#endif

#endif
