/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: scans along an axis, each element after the one before. A lane scans neighbouring lines
 * together, one element of each at a time, which hosts vectorise. On devices, kernel_team.h divides
 * long lines into parts. */
#ifndef BP_OPS_SCAN_KERNEL_H
#define BP_OPS_SCAN_KERNEL_H

#include "kernel_state.h"
#include "kernel_team.h"

struct linear_scan_args {
    i64 n, inner, reverse, shift;
};

#ifdef ELEM
/* Scans w neighbouring lines. y may be x. */
SCAN_FN void scan_along(int op, const struct scan_args *a, struct scan_lines l, GLOBAL elem *y,
                        GLOBAL const elem *x)
{
    acc s[SCAN_LINES];
    i64 exclusive = a->exclusive, w = l.w;

    for (i64 j = 0; j < w; j++) s[j] = op == SCAN_prod ? number(1) : acc_zero();
    for (i64 i = 0, at = l.from; i < a->n; i++, at += l.step) {
        SIMD for (i64 j = 0; j < w; j++)
        {
            acc next = scan_two(op, s[j], elem_get(x[at + j]));
            y[at + j] = elem_put(exclusive ? s[j] : next);
            s[j] = next;
        }
    }
}

#ifdef ELEM_FLOAT
/* Computes log(s) + m, where s is the sum of exp(x - m) and m the largest element so far. */
KFN void scan_exp(const struct scan_args *a, i64 from, i64 step, GLOBAL elem *y,
                  GLOBAL const elem *x)
{
    acc s = 0, m = (acc)-f32_from_bits(0x7f800000);

    for (i64 i = 0, at = from; i < a->n; i++, at += step) {
        acc v = elem_get(x[at]), before = MATH(log)(s) + m;
        if (v > m) {
            s = s * acc_exp(m - v) + 1;
            m = v;
        } else {
            s += v == m ? 1 : acc_exp(v - m);
        }
        y[at] = elem_put(a->exclusive ? before : MATH(log)(s) + m);
    }
}
#endif

KFN void scan_span(const struct scan_args *a, i64 begin, i64 n, GLOBAL elem *y,
                   GLOBAL const elem *x)
{
    for (i64 end = begin + n; begin < end;) {
        struct scan_lines l = scan_lines(a->n, a->inner, a->reverse, begin, end);
        if (a->op == SCAN_sum) scan_along(SCAN_sum, a, l, y, x);
        if (a->op == SCAN_prod) scan_along(SCAN_prod, a, l, y, x);
#ifdef ELEM_FLOAT
        if (a->op == SCAN_exp)
            for (i64 j = 0; j < l.w; j++) scan_exp(a, l.from + j, l.step, y, x);
#endif
        begin += l.w;
    }
}
ENTRY_SPANS_2(scan, elem, const elem)

/* r = factor r + b, from the second element on. */
KFN void linear_scan_span(const struct linear_scan_args *a, i64 begin, i64 n, GLOBAL elem *r,
                          GLOBAL const elem *factor, GLOBAL const elem *b)
{
    for (i64 end = begin + n; begin < end;) {
        struct scan_lines l = scan_lines(a->n, a->inner, a->reverse, begin, end);
        i64 before = a->shift ? l.step : 0;
        acc s[SCAN_LINES];
        for (i64 j = 0; j < l.w; j++) s[j] = acc_zero();
        for (i64 i = 0, at = l.from; i < a->n; i++, at += l.step) {
            SIMD for (i64 j = 0; j < l.w; j++)
            {
                acc term = elem_get(b[at + j]);
                s[j] = i ? acc_mul_add(term, elem_get(factor[at + j - before]), s[j]) : term;
                r[at + j] = elem_put(s[j]);
            }
        }
        begin += l.w;
    }
}
ENTRY_SPANS_3(linear_scan, elem, const elem, const elem)
#endif

#endif
