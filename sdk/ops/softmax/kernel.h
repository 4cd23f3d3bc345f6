/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes softmax and its gradient. The lanes of a team share a line or, where many
 * lines are neighbours in memory, each lane computes one line. y may be x, and dx may be dy: a lane
 * writes only elements that no other lane reads. */
#ifndef BP_OPS_SOFTMAX_KERNEL_H
#define BP_OPS_SOFTMAX_KERNEL_H

#include "../../dialect/dialect.h"

/* Contiguous tensors with lines of `extent` elements, which are `inner` elements apart. */
struct softmax_args {
    i64 extent, inner;
};
struct softmax_columns_args {
    i64 extent, inner;
};
struct softmax_grad_args {
    i64 extent, inner;
};
struct softmax_grad_columns_args {
    i64 extent, inner;
};

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

/* The offset of a line's first element. */
KFN i64 softmax_line(i64 line, i64 extent, i64 inner)
{
    return line / inner * extent * inner + line % inner;
}

/* softmax_put returns e^(x - max) and stores it in y, except for half types, which would keep too
 * few bits for the division that follows. softmax_end writes the final y, once the sum of these is
 * known. x and y may be one element. */
KFN acc softmax_put(GLOBAL elem *y, elem x, acc max)
{
    acc e = acc_exp(elem_get(x) - max);

#ifndef ELEM_HALF
    *y = e;
#else
    (void)y;
#endif
    return e;
}
KFN void softmax_end(GLOBAL elem *y, elem x, acc max, acc part)
{
#ifdef ELEM_HALF
    *y = elem_put(acc_exp(elem_get(x) - max) * part);
#else
    (void)x;
    (void)max;
    *y *= part;
#endif
}

KFN void softmax_team(const struct softmax_args *a, i64 team, LOCAL acc *s, GLOBAL elem *y,
                      GLOBAL const elem *x)
{
    i64 step = a->inner, at = softmax_line(team, a->extent, step);
    acc max = -acc_infinity(), total = 0;

    SIMD_MAX(max)
    FOR_LANES(i, a->extent)
    {
        acc v = elem_get(x[at + i * step]);
        max = v > max ? v : max;
    }
    max = team_max(max, s);
    SIMD_SUM(total)
    FOR_LANES(i, a->extent) total += softmax_put(&y[at + i * step], x[at + i * step], max);
    total = 1 / team_sum(total, s);
    SIMD
    FOR_LANES(i, a->extent) softmax_end(&y[at + i * step], x[at + i * step], max, total);
}
ENTRY_TEAMS_2(softmax, elem, const elem)

/* Each lane computes one line. */
KFN void softmax_columns_span(const struct softmax_columns_args *a, i64 begin, i64 n,
                              GLOBAL elem *y, GLOBAL const elem *x)
{
    for (i64 line = begin; line < begin + n; line++) {
        i64 step = a->inner, at = softmax_line(line, a->extent, step);
        acc max = -acc_infinity(), total = 0;
        for (i64 i = 0; i < a->extent; i++) {
            acc v = elem_get(x[at + i * step]);
            max = v > max ? v : max;
        }
        for (i64 i = 0; i < a->extent; i++)
            total += softmax_put(&y[at + i * step], x[at + i * step], max);
        total = 1 / total;
        for (i64 i = 0; i < a->extent; i++)
            softmax_end(&y[at + i * step], x[at + i * step], max, total);
    }
}
ENTRY_SPANS_2(softmax_columns, elem, const elem)

/* dx = y (dy - the sum of y dy). */
KFN void softmax_grad_team(const struct softmax_grad_args *a, i64 team, LOCAL acc *s,
                           GLOBAL elem *dx, GLOBAL const elem *y, GLOBAL const elem *dy)
{
    i64 step = a->inner, at = softmax_line(team, a->extent, step);
    acc total = 0;

    SIMD_SUM(total)
    FOR_LANES(i, a->extent) total += elem_get(y[at + i * step]) * elem_get(dy[at + i * step]);
    total = team_sum(total, s);
    SIMD
    FOR_LANES(i, a->extent)
    dx[at + i * step] =
        elem_put(elem_get(y[at + i * step]) * (elem_get(dy[at + i * step]) - total));
}
ENTRY_TEAMS_3(softmax_grad, elem, const elem, const elem)

KFN void softmax_grad_columns_span(const struct softmax_grad_columns_args *a, i64 begin, i64 n,
                                   GLOBAL elem *dx, GLOBAL const elem *y, GLOBAL const elem *dy)
{
    for (i64 line = begin; line < begin + n; line++) {
        i64 step = a->inner, at = softmax_line(line, a->extent, step);
        acc total = 0;
        for (i64 i = 0; i < a->extent; i++)
            total += elem_get(y[at + i * step]) * elem_get(dy[at + i * step]);
        for (i64 i = 0; i < a->extent; i++)
            dx[at + i * step] =
                elem_put(elem_get(y[at + i * step]) * (elem_get(dy[at + i * step]) - total));
    }
}
ENTRY_SPANS_3(softmax_grad_columns, elem, const elem, const elem)
#endif

#endif
