/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: softmax and its gradient. A line is shared by the lanes of a team, or, where many
 * lines lie side by side, each lane has one. y may be x, dx may be dy: a lane writes
 * what it alone reads. */
#ifndef BP_OPS_SOFTMAX_KERNEL_H
#define BP_OPS_SOFTMAX_KERNEL_H

#include "../../dialect/dialect.h"

/* Contiguous tensors of lines of `extent` elements, which lie `inner` apart. */
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

/* Elements before a line. */
KFN i64 softmax_line(i64 line, i64 extent, i64 inner)
{
    return line / inner * extent * inner + line % inner;
}

/* e^(x - max), which y keeps where it can; and y, once the sum of these is known. A half type would
 * keep too few bits of what is divided later. x and y may be one. */
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

/* Lines by a lane each. */
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
