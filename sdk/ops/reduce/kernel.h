/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: reduces by arithmetic: sums, products, sums of a function of each term, norms and the
 * gradient of norms. */
#ifndef BP_OPS_REDUCE_KERNEL_H
#define BP_OPS_REDUCE_KERNEL_H

#include "../common/kernel_reduce.h"

struct reduce_terms_args {
    struct reduce_args r;
};
struct reduce_partials_args {
    struct reduce_args r;
};

/* x and dx are contiguous; y and dy have stride 0 along axes where they repeat. */
struct norm_grad_args {
    i64 rank, shape[8], y_stride[8], dy_stride[8];
    host_real p;
};

#ifdef ELEM
#include "../../dialect/maths.h"

enum { REDUCE_SIDE = 32 }; /* partial results of a row, which vectors hold */

#ifdef ELEM_FLOAT
KFN acc reduce_infinity(void)
{
    return (acc)f32_from_bits(0x7f800000);
}
#endif

/* The result for no terms. */
REDUCE_FN acc reduce_none(int op)
{
    if (op == REDUCE_prod) return number(1);
#ifdef ELEM_FLOAT
    if (op == REDUCE_smallest) return reduce_infinity();
#endif
    return acc_zero();
}

/* The value that a term adds. shift: the largest term, for REDUCE_exp. */
REDUCE_FN acc reduce_term_of(int op, elem e, acc shift, acc p)
{
    acc x = elem_get(e);

#ifdef ELEM_FLOAT
    switch (op) {
    case REDUCE_nansum: return x != x ? 0 : x;
    case REDUCE_exp: return acc_exp(x - shift);
    case REDUCE_count: return x != 0 ? (acc)1 : (acc)0;
    case REDUCE_square: return x * x;
    case REDUCE_power: return MATH(pow)(MATH(fabs)(x), p);
    case REDUCE_abs:
    case REDUCE_largest:
    case REDUCE_smallest: return MATH(fabs)(x);
    default: break;
    }
#else
    (void)op;
#endif
    (void)shift;
    (void)p;
    return x;
}

/* Joins two results into one. NaN stays NaN. */
REDUCE_FN acc reduce_join(int op, acc a, acc b)
{
    if (op == REDUCE_prod) return acc_mul(a, b);
#ifdef ELEM_FLOAT
    if (op == REDUCE_largest) return a > b || a != a ? a : b;
    if (op == REDUCE_smallest) return a < b || a != a ? a : b;
#endif
    return acc_add(a, b);
}

REDUCE_FN elem reduce_finish(int op, acc s, acc shift, acc p)
{
#ifdef ELEM_FLOAT
    if (op == REDUCE_exp) s = MATH(log)(s) + shift;
    if (op == REDUCE_square) s = MATH(sqrt)(s);
    if (op == REDUCE_power) s = MATH(pow)(s, 1 / p);
#else
    (void)op;
#endif
    (void)shift;
    (void)p;
    return elem_put(s);
}

/* The shift of a result, for REDUCE_exp; 0 if the largest term is not finite, so that infinities
 * and NaN keep their values. */
REDUCE_FN acc reduce_shift(int op, GLOBAL const elem *shift, i64 out)
{
#ifdef ELEM_FLOAT
    if (op == REDUCE_exp) {
        acc x = elem_get(shift[out]);
        return x - x == 0 ? x : 0;
    }
#endif
    (void)op;
    (void)shift;
    (void)out;
    return acc_zero();
}

/* Joins s with the n terms that begin at x. */
REDUCE_FN acc reduce_run(int op, acc s, GLOBAL const elem *x, i64 n, i64 step, acc shift, acc p)
{
    i64 i = 0;

#ifdef ON_HOST
    if (step == 1 && n >= 2 * REDUCE_SIDE) {
        acc side[REDUCE_SIDE];
        for (int j = 0; j < REDUCE_SIDE; j++) side[j] = reduce_none(op);
        for (; i + REDUCE_SIDE <= n; i += REDUCE_SIDE) {
            SIMD for (int j = 0; j < REDUCE_SIDE; j++)
                side[j] = reduce_join(op, side[j], reduce_term_of(op, x[i + j], shift, p));
        }
        HOST_UNROLL
        for (int half = REDUCE_SIDE / 2; half; half /= 2)
            HOST_UNROLL for (int j = 0; j < half; j++)
                side[j] = reduce_join(op, side[j], side[j + half]);
        s = reduce_join(op, s, side[0]);
    }
#endif
    for (; i < n; i++) s = reduce_join(op, s, reduce_term_of(op, x[i * step], shift, p));
    return s;
}

/* Each lane of a team passes a result; each lane receives the joined result. */
TEAM_JOIN(reduce_team_join, acc, reduce_join(op, a, b))

/* Computes one result, or a partial one. */
REDUCE_FN acc reduce_row(int op, const struct reduce_args *a, const struct reduce_place *at,
                         LOCAL acc *scratch, GLOBAL const elem *x, acc shift)
{
    acc s = reduce_none(op), p = number(a->p);

#ifdef ON_HOST
    for (i64 t = at->begin, run; t < at->end; t += run) {
        i64 from = reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        s = reduce_run(op, s, x + from, run, a->term_stride[a->term_rank - 1], shift, p);
    }
#else
    if (a->term_rank == 1) { /* without the division, which takes longer than all else */
        i64 step = a->term_stride[0];
        FOR_LANES(i, at->end - at->begin)
        s = reduce_join(op, s, reduce_term_of(op, x[(at->begin + i) * step], shift, p));
    } else {
        FOR_LANES(i, at->end - at->begin)
        {
            i64 run, from = reduce_term(a, at->begin + i, &run);
            s = reduce_join(op, s, reduce_term_of(op, x[from], shift, p));
        }
    }
#endif
    return reduce_team_join(op, s, scratch);
}

/* Writes a result, or a partial result. */
REDUCE_FN void reduce_put(int op, const struct reduce_args *a, i64 out, i64 at, acc s, acc shift,
                          GLOBAL elem *y, GLOBAL acc *partial)
{
    if (a->parts > 1) partial[at] = s;
    else y[out] = reduce_finish(op, s, shift, number(a->p));
}

#ifdef ON_HOST
/* Computes neighbouring results, with one term of each at a time. */
REDUCE_FN void reduce_columns(int op, const struct reduce_args *a, const struct reduce_place *at,
                              elem *y, acc *partial, const elem *x, const elem *shift)
{
    acc s[REDUCE_COLUMNS], of[REDUCE_COLUMNS], p = number(a->p);
    i64 step = a->term_stride[a->term_rank - 1], n = at->n;

    for (i64 j = 0; j < n; j++) {
        s[j] = reduce_none(op);
        of[j] = reduce_shift(op, shift, at->out + j);
    }
    for (i64 t = at->begin, run; t < at->end; t += run) {
        const elem *from = x + reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        for (i64 i = 0; i < run; i++, from += step) {
            SIMD for (i64 j = 0; j < n; j++)
                s[j] = reduce_join(op, s[j], reduce_term_of(op, from[j], of[j], p));
        }
    }
    for (i64 j = 0; j < n; j++)
        reduce_put(op, a, at->out + j, at->at + j, s[j], of[j], y, partial);
}
#else
/* Each lane computes one result. */
REDUCE_FN void reduce_columns(int op, const struct reduce_args *a, const struct reduce_place *at,
                              GLOBAL elem *y, GLOBAL acc *partial, GLOBAL const elem *x,
                              GLOBAL const elem *shift)
{
    i64 step = a->term_stride[a->term_rank - 1];

    FOR_LANES(j, at->n)
    {
        acc s = reduce_none(op), of = reduce_shift(op, shift, at->out + j), p = number(a->p);
        for (i64 t = at->begin, run; t < at->end; t += run) {
            GLOBAL const elem *from = x + reduce_term(a, t, &run) + j;
            run = run < at->end - t ? run : at->end - t;
            for (i64 i = 0; i < run; i++, from += step)
                s = reduce_join(op, s, reduce_term_of(op, *from, of, p));
        }
        reduce_put(op, a, at->out + j, at->at + j, s, of, y, partial);
    }
}
#endif

REDUCE_FN void reduce_op(int op, const struct reduce_args *a, i64 team, LOCAL acc *scratch,
                         GLOBAL elem *y, GLOBAL acc *partial, GLOBAL const elem *x,
                         GLOBAL const elem *shift)
{
    struct reduce_place at = reduce_place(a, team);

    if (a->wide > 1) {
        reduce_columns(op, a, &at, y, partial, x + at.from, shift);
    } else {
        acc of = reduce_shift(op, shift, at.out);
        acc s = reduce_row(op, a, &at, scratch, x + at.from, of);
        if (LANE == 0) reduce_put(op, a, at.out, at.at, s, of, y, partial);
    }
}

KFN void reduce_terms_team(const struct reduce_terms_args *a, i64 team, LOCAL acc *scratch,
                           GLOBAL elem *y, GLOBAL acc *partial, GLOBAL const elem *x,
                           GLOBAL const elem *shift)
{
    switch (a->r.op) {
#define CASE(op) case op: reduce_op(op, &a->r, team, scratch, y, partial, x, shift); break;
    CASE(REDUCE_sum)
#ifdef ELEM_FLOAT
    CASE(REDUCE_nansum)
    CASE(REDUCE_exp)
    CASE(REDUCE_count)
    CASE(REDUCE_abs)
    CASE(REDUCE_square)
    CASE(REDUCE_power)
    CASE(REDUCE_largest)
    CASE(REDUCE_smallest)
#endif
#undef CASE
    default: reduce_op(REDUCE_prod, &a->r, team, scratch, y, partial, x, shift);
    }
}
ENTRY_TEAMS_4(reduce_terms, elem, acc, const elem, const elem)

/* Joins the partial results first, first + by and so on of one result. */
KFN acc reduce_parts(const struct reduce_args *a, GLOBAL const acc *of, i64 first, i64 by)
{
    int op = (int)a->op;
    acc s = reduce_none(op);

    for (i64 part = first; part < a->parts; part += by)
        s = reduce_join(op, s, of[part * a->outputs]);
    return s;
}

/* Joins the partial results of each result. */
KFN void reduce_partials_team(const struct reduce_partials_args *a, i64 team, LOCAL acc *scratch,
                              GLOBAL elem *y, GLOBAL const acc *partial, GLOBAL const elem *shift)
{
    int op = (int)a->r.op;
    i64 first, n = reduce_end(&a->r, team, &first);
    acc s, p = number(a->r.p);

    if (a->r.ends > 1) {
        FOR_LANES(j, n)
        {
            s = reduce_parts(&a->r, partial + first + j, 0, 1);
            y[first + j] = reduce_finish(op, s, reduce_shift(op, shift, first + j), p);
        }
    } else {
        s = reduce_team_join(op, reduce_parts(&a->r, partial + first, LANE, LANES), scratch);
        if (LANE == 0) y[first] = reduce_finish(op, s, reduce_shift(op, shift, first), p);
    }
}
ENTRY_TEAMS_3(reduce_partials, elem, const acc, const elem)

#ifdef ELEM_FLOAT
/* dx = dy sign(x) (abs(x) / y)^(p - 1). */
KFN acc norm_grad_of(acc x, acc y, acc dy, acc p)
{
    acc sign = x > 0 ? dy : -dy, size = MATH(fabs)(x);

    if (x == 0 || y == 0 || p == 0) return 0;
    if (p == 1) return x == x ? sign : x;
    if (p == 2) return dy * (x / y);
    if (p - p != 0) return size == y ? sign : x == x ? 0 : x; /* p is infinite */
    return sign * MATH(pow)(size / y, p - 1);
}
#endif

KFN void norm_grad_span(const struct norm_grad_args *a, i64 begin, i64 n, GLOBAL elem *dx,
                        GLOBAL const elem *x, GLOBAL const elem *y, GLOBAL const elem *dy)
{
#ifdef ELEM_FLOAT
    i64 last = a->rank - 1, end = begin + n;

    while (begin < end) {
        i64 rest = begin / a->shape[last], at = begin % a->shape[last];
        i64 run = a->shape[last] - at < end - begin ? a->shape[last] - at : end - begin;
        i64 sy = a->y_stride[last], sdy = a->dy_stride[last], of_y = at * sy, of_dy = at * sdy;
        for (i64 i = last - 1; i >= 0; i--) {
            of_y += rest % a->shape[i] * a->y_stride[i];
            of_dy += rest % a->shape[i] * a->dy_stride[i];
            rest /= a->shape[i];
        }
        for (i64 i = 0; i < run; i++)
            dx[begin + i] = elem_put(
                norm_grad_of(elem_get(x[begin + i]), elem_get(y[of_y + i * sy]),
                             elem_get(dy[of_dy + i * sdy]), number(a->p)));
        begin += run;
    }
#else
    (void)a;
    (void)begin;
    (void)n;
    (void)dx;
    (void)x;
    (void)y;
    (void)dy;
#endif
}
ENTRY_SPANS_4(norm_grad, elem, const elem, const elem, const elem)
#endif

#endif
