/* SPDX-License-Identifier: Apache-2.0 */
/* formula.h: operators that are one formula an element, for one dtype (elem.h) and operands of any
 * strides. Where the result is of their dtype it may be one of them, exactly. An operator that a
 * dtype lacks is no row, and makes nothing of use. */
#ifndef BP_KERNELS_FORMULA_H
#define BP_KERNELS_FORMULA_H

#include "binary.h"
#include "compare.h"
#include "complex.h"
#include "entry.h"
#include "formula_args.h"
#include "predicate.h"
#include "ternary.h"
#include "unary.h"
#include "where.h"

/* Element i of run r in operand k. */
#define OF(k, operand) operand[r.at[k] + i * r.step[k]]

KFN void unary_run(const struct unary_args *u, struct walk_run r, GLOBAL elem *y,
                   GLOBAL const elem *x)
{
    int op = (int)u->op;
    acc a = unary_number(op, 0, u->a), b = unary_number(op, 1, u->b),
        c = unary_number(op, 2, u->c);

    switch (op) {
#define UNARY_EACH(number, of) \
    case number: \
        for (i64 i = 0; i < r.n; i++) OF(0, y) = of(OF(1, x), a, b, c); \
        break;
#include "unary_each.def"
    default: break;
    }
}

KFN void unary_span(const struct unary_args *a, i64 begin, i64 n, GLOBAL elem *y,
                    GLOBAL const elem *x)
{
    FOR_RUNS(r, &a->walk, begin, n) unary_run(a, r, y, x);
}
ENTRY_SPANS_2(unary, elem, const elem)

KFN void binary_span(const struct binary_args *b, i64 begin, i64 n, GLOBAL elem *z,
                     GLOBAL const elem *x, GLOBAL const elem *y)
{
    acc first = number(b->a), second = number(b->b);

    FOR_RUNS(r, &b->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++)
            OF(0, z) = binary_elem((int)b->op, OF(1, x), OF(2, y), first, second);
    }
}
ENTRY_SPANS_3(binary, elem, const elem, const elem)

KFN u8 predicate_elem(int op, elem e)
{
    switch (op) {
#define PREDICATE_ANY(op, formula) case PREDICATE_##op: return predicate_##op(e);
#ifdef ELEM_FLOAT
#define PREDICATE_FLOAT(op, formula) case PREDICATE_##op: return predicate_##op(e);
#endif
#include "predicate.def"
    default: return 0;
    }
}

KFN void predicate_span(const struct predicate_args *a, i64 begin, i64 n, GLOBAL u8 *y,
                        GLOBAL const elem *x)
{
    FOR_RUNS(r, &a->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++) OF(0, y) = predicate_elem((int)a->op, OF(1, x));
    }
}
ENTRY_SPANS_2(predicate, u8, const elem)

KFN void compare_span(const struct compare_args *c, i64 begin, i64 n, GLOBAL u8 *z,
                      GLOBAL const elem *x, GLOBAL const elem *y)
{
    acc a = number(c->a), b = number(c->b);

    FOR_RUNS(r, &c->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++)
            OF(0, z) = compare_elem((int)c->op, OF(1, x), OF(2, y), a, b, (int)c->flag);
    }
}
ENTRY_SPANS_3(compare, u8, const elem, const elem)

KFN void ternary_span(const struct ternary_args *t, i64 begin, i64 n, GLOBAL elem *w,
                      GLOBAL const elem *x, GLOBAL const elem *y, GLOBAL const elem *z)
{
    acc a = number(t->a);

    FOR_RUNS(r, &t->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++)
            OF(0, w) = ternary_elem((int)t->op, OF(1, x), OF(2, y), OF(3, z), a);
    }
}
ENTRY_SPANS_4(ternary, elem, const elem, const elem, const elem)

/* x or y may be NULL: zero. */
KFN void where_span(const struct where_args *a, i64 begin, i64 n, GLOBAL elem *z,
                    GLOBAL const u8 *c, GLOBAL const elem *x, GLOBAL const elem *y)
{
    elem zero = elem_put(acc_zero());

    FOR_RUNS(r, &a->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++)
            OF(0, z) = where_elem(OF(1, c), x ? OF(2, x) : zero, y ? OF(3, y) : zero);
    }
}
ENTRY_SPANS_4(where, elem, const u8, const elem, const elem)

/* Of two real numbers a complex one. */
KFN void complex_make_span(const struct complex_make_args *a, i64 begin, i64 n, GLOBAL elem *z,
                           GLOBAL const elem *re, GLOBAL const elem *im)
{
    int op = (int)a->op;

    FOR_RUNS(r, &a->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++) {
            i64 to = 2 * (r.at[0] + i * r.step[0]);
            elem x = re[r.at[1] + i * r.step[1]], y = im[r.at[2] + i * r.step[2]];
            z[to] = complex_pair(op, 0, x, y);
            z[to + 1] = complex_pair(op, 1, x, y);
        }
    }
}
ENTRY_SPANS_3(complex_make, elem, const elem, const elem)

/* Of one complex number another. */
KFN void complex_pair_span(const struct complex_pair_args *a, i64 begin, i64 n, GLOBAL elem *y,
                           GLOBAL const elem *x)
{
    int op = (int)a->op;

    FOR_RUNS(r, &a->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++) {
            i64 to = 2 * (r.at[0] + i * r.step[0]), at = 2 * (r.at[1] + i * r.step[1]);
            elem re = x[at], im = x[at + 1];
            y[to] = complex_pair(op, 0, re, im);
            y[to + 1] = complex_pair(op, 1, re, im);
        }
    }
}
ENTRY_SPANS_2(complex_pair, elem, const elem)

/* Of one complex number a real one. */
KFN void complex_part_span(const struct complex_part_args *a, i64 begin, i64 n, GLOBAL elem *y,
                           GLOBAL const elem *x)
{
    FOR_RUNS(r, &a->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++) {
            i64 at = 2 * (r.at[1] + i * r.step[1]);
            y[r.at[0] + i * r.step[0]] = complex_part((int)a->op, x[at], x[at + 1]);
        }
    }
}
ENTRY_SPANS_2(complex_part, elem, const elem)
#undef OF

#endif
