/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_formula.h: has the portable kernels of operators that are one formula per element, for one
 * dtype (elem.h) and operands of any strides. Where the result has the dtype of an operand, it may
 * be exactly that operand's memory. An operator that does not exist for the dtype has no kernel
 * row; its code then computes a meaningless value. */
#ifndef BP_OPS_COMMON_KERNEL_FORMULA_H
#define BP_OPS_COMMON_KERNEL_FORMULA_H

#include "../../dialect/walk.h"

struct unary_args {
    struct walk_by_value walk;
    i64 op;
    host_real a, b, c;
};
struct binary_args {
    struct walk_by_value walk;
    i64 op;
    host_real a, b;
};
struct predicate_args {
    struct walk_by_value walk;
    i64 op;
};
struct compare_args {
    struct walk_by_value walk;
    i64 op, flag;
    host_real a, b;
};
struct ternary_args {
    struct walk_by_value walk;
    i64 op;
    host_real a;
};
struct where_args {
    struct walk_by_value walk;
};

/* Strides count elements of each operand's type: complex numbers, or their parts. */
struct complex_make_args {
    struct walk_by_value walk;
    i64 op;
};
struct complex_pair_args {
    struct walk_by_value walk;
    i64 op;
};
struct complex_part_args {
    struct walk_by_value walk;
    i64 op;
};

#ifdef ELEM
#include "../binary/kernel.h"
#include "../compare/kernel.h"
#include "../complex/kernel.h"
#include "../compare/kernel_predicate.h"
#include "../../dialect/run.h"
#include "../binary/kernel_ternary.h"
#include "../unary/kernel.h"
#include "../binary/kernel_where.h"

#define EVEN(k, p) RUN_EVEN(&a->walk, k, p)

KFN int unary_is_even(const struct unary_args *a, GLOBAL elem *y, GLOBAL const elem *x)
{
    return EVEN(0, y) && EVEN(1, x);
}
RUN_FN void unary_run(const struct unary_args *u, struct walk_run r, GLOBAL elem *y,
                      GLOBAL const elem *x)
{
    int op = (int)u->op;
    acc a = unary_number(op, 0, u->a), b = unary_number(op, 1, u->b),
        c = unary_number(op, 2, u->c);
    RUN_IN(elem, p, 1, x);
    RUN_OUT(elem, w, 0, y);

    switch (op) {
#define UNARY_EACH(number, of) \
    case number: \
        if (unary_is_short(number)) RUN_EACH(w, of(RUN_AT(p), a, b, c)) \
        else RUN_TURNS(w, of(RUN_AT(p), a, b, c), RUN_TURN(p)) \
        break;
#include "../unary/kernels_each.def"
    default: break;
    }
    RUN_END(elem, w, 0, y);
}
ENTRY_RUNS_2(unary, elem, const elem)

KFN int binary_is_even(const struct binary_args *a, GLOBAL elem *z, GLOBAL const elem *x,
                       GLOBAL const elem *y)
{
    return EVEN(0, z) && EVEN(1, x) && EVEN(2, y);
}
RUN_FN void binary_run(const struct binary_args *u, struct walk_run r, GLOBAL elem *z,
                       GLOBAL const elem *x, GLOBAL const elem *y)
{
    acc a = number(u->a), b = number(u->b);
    RUN_IN(elem, p, 1, x);
    RUN_IN(elem, q, 2, y);
    RUN_OUT(elem, w, 0, z);

    switch ((int)u->op) {
#define EACH(number) binary_elem(number, RUN_AT(p), RUN_AT(q), a, b)
#define BINARY_EACH(number) \
    case number: \
        if (binary_is_long(number)) RUN_TURNS(w, EACH(number), RUN_TURN(p) RUN_TURN(q)) \
        else RUN_EACH(w, EACH(number)) \
        break;
#include "../binary/kernels_each.def"
#undef EACH
    default: break;
    }
    RUN_END(elem, w, 0, z);
}
ENTRY_RUNS_3(binary, elem, const elem, const elem)

KFN int predicate_is_even(const struct predicate_args *a, GLOBAL u8 *y, GLOBAL const elem *x)
{
    return EVEN(0, y) && EVEN(1, x);
}
RUN_FN void predicate_run(const struct predicate_args *a, struct walk_run r, GLOBAL u8 *y,
                          GLOBAL const elem *x)
{
    RUN_IN(elem, p, 1, x);
    RUN_OUT(u8, w, 0, y);

    switch ((int)a->op) {
#define PREDICATE_EACH(number, of) \
    case number: RUN_EACH(w, of(RUN_AT(p))) break;
#define PREDICATE_ANY(op, formula) PREDICATE_EACH(PREDICATE_##op, predicate_##op)
#ifdef ELEM_FLOAT
#define PREDICATE_FLOAT(op, formula) PREDICATE_EACH(PREDICATE_##op, predicate_##op)
#endif
#include "../compare/kernels_predicate.def"
#undef PREDICATE_EACH
    default: RUN_EACH(w, 0) break;
    }
    RUN_END(u8, w, 0, y);
}
ENTRY_RUNS_2(predicate, u8, const elem)

KFN int compare_is_even(const struct compare_args *a, GLOBAL u8 *z, GLOBAL const elem *x,
                        GLOBAL const elem *y)
{
    return EVEN(0, z) && EVEN(1, x) && EVEN(2, y);
}
RUN_FN void compare_run(const struct compare_args *u, struct walk_run r, GLOBAL u8 *z,
                        GLOBAL const elem *x, GLOBAL const elem *y)
{
    acc a = number(u->a), b = number(u->b);
    int c = (int)u->flag;
    RUN_IN(elem, p, 1, x);
    RUN_IN(elem, q, 2, y);
    RUN_OUT(u8, w, 0, z);

    switch ((int)u->op) {
#define COMPARE_EACH(number) \
    case number: RUN_EACH(w, compare_elem(number, RUN_AT(p), RUN_AT(q), a, b, c)) break;
#define COMPARE_ANY(op, formula) COMPARE_EACH(COMPARE_##op)
#define COMPARE_TRUTH(op, formula) COMPARE_EACH(COMPARE_##op)
#ifndef ELEM_COMPLEX
#define COMPARE_REAL(op, formula) COMPARE_EACH(COMPARE_##op)
#endif
#ifdef ELEM_FLOAT
#define COMPARE_FLOAT(op, formula) COMPARE_EACH(COMPARE_##op)
#endif
#include "../compare/kernels.def"
#undef COMPARE_EACH
    default: RUN_EACH(w, 0) break;
    }
    RUN_END(u8, w, 0, z);
}
ENTRY_RUNS_3(compare, u8, const elem, const elem)

KFN int ternary_is_even(const struct ternary_args *a, GLOBAL elem *w, GLOBAL const elem *x,
                        GLOBAL const elem *y, GLOBAL const elem *z)
{
    return EVEN(0, w) && EVEN(1, x) && EVEN(2, y) && EVEN(3, z);
}
RUN_FN void ternary_run(const struct ternary_args *t, struct walk_run r, GLOBAL elem *out,
                        GLOBAL const elem *x, GLOBAL const elem *y, GLOBAL const elem *z)
{
    acc a = number(t->a);
    RUN_IN(elem, p, 1, x);
    RUN_IN(elem, q, 2, y);
    RUN_IN(elem, s, 3, z);
    RUN_OUT(elem, w, 0, out);

    switch ((int)t->op) {
#define TERNARY_FLOAT(op, formula) \
    case TERNARY_##op: \
        RUN_EACH(w, ternary_elem(TERNARY_##op, RUN_AT(p), RUN_AT(q), RUN_AT(s), a)) \
        break;
#include "../binary/kernels_ternary.def"
    default: break;
    }
    RUN_END(elem, w, 0, out);
}
ENTRY_RUNS_4(ternary, elem, const elem, const elem, const elem)

/* x or y may be NULL, which means zero. */
KFN int where_is_even(const struct where_args *a, GLOBAL elem *z, GLOBAL const u8 *c,
                      GLOBAL const elem *x, GLOBAL const elem *y)
{
    return EVEN(0, z) && EVEN(1, c) && EVEN(2, x) && EVEN(3, y);
}
RUN_FN void where_run(const struct where_args *a, struct walk_run r, GLOBAL elem *z,
                      GLOBAL const u8 *c, GLOBAL const elem *x, GLOBAL const elem *y)
{
    elem zero = elem_put(acc_zero());
    RUN_IN(u8, truth, 1, c);
    RUN_IN_OR(elem, p, 2, x, zero);
    RUN_IN_OR(elem, q, 3, y, zero);
    RUN_OUT(elem, w, 0, z);

    (void)a;
    RUN_EACH(w, where_elem(RUN_AT(truth), RUN_OR(p, zero), RUN_OR(q, zero)))
    RUN_END(elem, w, 0, z);
}
ENTRY_RUNS_4(where, elem, const u8, const elem, const elem)

/* A complex number whose parts have type elem. */
typedef struct {
    elem re, im;
} elem_pair;

KFN elem_pair pair_of(int op, elem re, elem im)
{
    elem_pair z;

    z.re = complex_pair(op, 0, re, im);
    z.im = complex_pair(op, 1, re, im);
    return z;
}

/* Makes one complex number of two real numbers. */
KFN int complex_make_is_even(const struct complex_make_args *a, GLOBAL elem_pair *z,
                             GLOBAL const elem *re, GLOBAL const elem *im)
{
    return EVEN(0, z) && EVEN(1, re) && EVEN(2, im);
}
RUN_FN void complex_make_run(const struct complex_make_args *a, struct walk_run r,
                             GLOBAL elem_pair *z, GLOBAL const elem *re, GLOBAL const elem *im)
{
    int op = (int)a->op;
    RUN_IN(elem, p, 1, re);
    RUN_IN(elem, q, 2, im);
    RUN_OUT(elem_pair, w, 0, z);

    RUN_EACH(w, pair_of(op, RUN_AT(p), RUN_AT(q)))
    RUN_END(elem_pair, w, 0, z);
}
ENTRY_RUNS_3(complex_make, elem_pair, const elem, const elem)

/* Makes one complex number of another. */
KFN int complex_pair_is_even(const struct complex_pair_args *a, GLOBAL elem_pair *y,
                             GLOBAL const elem_pair *x)
{
    return EVEN(0, y) && EVEN(1, x);
}
RUN_FN void complex_pair_run(const struct complex_pair_args *a, struct walk_run r,
                             GLOBAL elem_pair *y, GLOBAL const elem_pair *x)
{
    int op = (int)a->op;
    RUN_IN(elem_pair, p, 1, x);
    RUN_OUT(elem_pair, w, 0, y);

    RUN_EACH(w, pair_of(op, RUN_AT(p).re, RUN_AT(p).im))
    RUN_END(elem_pair, w, 0, y);
}
ENTRY_RUNS_2(complex_pair, elem_pair, const elem_pair)

/* Makes one real number of a complex number. */
KFN int complex_part_is_even(const struct complex_part_args *a, GLOBAL elem *y,
                             GLOBAL const elem_pair *x)
{
    return EVEN(0, y) && EVEN(1, x);
}
RUN_FN void complex_part_run(const struct complex_part_args *a, struct walk_run r, GLOBAL elem *y,
                             GLOBAL const elem_pair *x)
{
    int op = (int)a->op;
    RUN_IN(elem_pair, p, 1, x);
    RUN_OUT(elem, w, 0, y);

    RUN_TURNS(w, complex_part(op, RUN_AT(p).re, RUN_AT(p).im), RUN_TURN(p))
    RUN_END(elem, w, 0, y);
}
ENTRY_RUNS_2(complex_part, elem, const elem_pair)
#undef EVEN
#endif

#endif
