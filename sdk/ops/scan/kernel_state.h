/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_state.h: defines the arguments of scans, the position of their lines in memory, and the
 * state that terms are reduced to. */
#ifndef BP_OPS_SCAN_KERNEL_STATE_H
#define BP_OPS_SCAN_KERNEL_STATE_H

#include "../../dialect/dialect.h"
#include "../common/kernel_formulas.h"

/* A scan of tensors [lines / inner, n, inner]. Each line is scanned from its first or its last
 * element, in parts of `part` elements (n: in one part). Part number i is part i / lines of line i
 * % lines, so that parts with successive numbers belong to neighbouring lines. */
struct scan_args {
    i64 op, n, inner, exclusive, reverse, lines, part;
};

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

/* Neighbouring lines that a lane scans together. */
#if defined(ON_HOST) || defined(ON_PROCESSOR)
enum { SCAN_LINES = 64 };
#else
enum { SCAN_LINES = 1 };
#endif

/* Marks a function in which `op` is a constant at each call. */
#ifdef ON_HOST
#define SCAN_FN static inline __attribute__((always_inline))
#else
#define SCAN_FN KFN
#endif

/* Lines begin to begin + w - 1: offset of the first element of the first line, and step from
 * element to element. */
struct scan_lines {
    i64 from, step, w;
};

KFN struct scan_lines scan_lines(i64 n, i64 inner, i64 reverse, i64 begin, i64 end)
{
    struct scan_lines l;
    i64 at = begin % inner;

    l.step = reverse ? -inner : inner;
    l.from = begin / inner * n * inner + at + (reverse ? (n - 1) * inner : 0);
    l.w = inner - at < end - begin ? inner - at : end - begin;
    l.w = l.w < SCAN_LINES ? l.w : SCAN_LINES;
    return l;
}

/* The state of some terms: their sum or product s; for logarithms it is log(s) + m, where s is the
 * sum of exp(x - m) and m the largest term. */
struct scan_state {
    acc s;
#ifdef ELEM_FLOAT
    acc m;
#endif
};

SCAN_FN acc scan_two(int op, acc s, acc x)
{
    return op == SCAN_prod ? acc_mul(s, x) : acc_add(s, x);
}

SCAN_FN struct scan_state scan_none(int op)
{
    struct scan_state s;

    s.s = op == SCAN_prod ? number(1) : acc_zero();
#ifdef ELEM_FLOAT
    s.m = (acc)-f32_from_bits(0x7f800000);
#endif
    return s;
}

/* The state of one term. */
SCAN_FN struct scan_state scan_term(int op, acc x)
{
    struct scan_state s;

    s.s = x;
#ifdef ELEM_FLOAT
    s.m = x;
    if (op == SCAN_exp) s.s = 1;
#endif
    (void)op;
    return s;
}

/* The state of the terms of a, followed by those of b. */
SCAN_FN struct scan_state scan_join(int op, struct scan_state a, struct scan_state b)
{
#ifdef ELEM_FLOAT
    if (op == SCAN_exp) {
        if (b.m > a.m) {
            a.s = a.s * acc_exp(a.m - b.m) + b.s;
            a.m = b.m;
        } else {
            a.s += b.m == a.m ? b.s : b.s * acc_exp(b.m - a.m);
        }
        return a;
    }
#endif
    a.s = scan_two(op, a.s, b.s);
    return a;
}

SCAN_FN acc scan_value(int op, struct scan_state s)
{
#ifdef ELEM_FLOAT
    if (op == SCAN_exp) return MATH(log)(s.s) + s.m;
#endif
    (void)op;
    return s.s;
}
#endif

#endif
