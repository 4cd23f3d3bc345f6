/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: reduces by arithmetic: sums, products, sums of a function of each term, norms and the
 * gradient of norms. */
#ifndef BP_OPS_REDUCE_KERNEL_H
#define BP_OPS_REDUCE_KERNEL_H

#include "../common/kernel_reduce.h"

struct fold_args {
    struct reduce_args r;
};
struct fold_end_args {
    struct reduce_args r;
};

/* x and dx are contiguous; y and dy have stride 0 along axes where they repeat. */
struct norm_grad_args {
    i64 rank, shape[8], y_stride[8], dy_stride[8];
    host_real p;
};

#ifdef ELEM
#include "../../dialect/maths.h"

enum { FOLD_SIDE = 32 }; /* partial results of a row, which vectors hold */

#ifdef ELEM_FLOAT
KFN acc fold_infinity(void)
{
    return (acc)f32_from_bits(0x7f800000);
}
#endif

/* The result for no terms. */
REDUCE_FN acc fold_none(int op)
{
    if (op == FOLD_prod) return number(1);
#ifdef ELEM_FLOAT
    if (op == FOLD_smallest) return fold_infinity();
#endif
    return acc_zero();
}

/* The value that a term adds. shift: the largest term, for FOLD_exp. */
REDUCE_FN acc fold_term(int op, elem e, acc shift, acc p)
{
    acc x = elem_get(e);

#ifdef ELEM_FLOAT
    switch (op) {
    case FOLD_nansum: return x != x ? 0 : x;
    case FOLD_exp: return acc_exp(x - shift);
    case FOLD_count: return x != 0 ? (acc)1 : (acc)0;
    case FOLD_square: return x * x;
    case FOLD_power: return MATH(pow)(MATH(fabs)(x), p);
    case FOLD_abs:
    case FOLD_largest:
    case FOLD_smallest: return MATH(fabs)(x);
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
REDUCE_FN acc fold_join(int op, acc a, acc b)
{
    if (op == FOLD_prod) return acc_mul(a, b);
#ifdef ELEM_FLOAT
    if (op == FOLD_largest) return a > b || a != a ? a : b;
    if (op == FOLD_smallest) return a < b || a != a ? a : b;
#endif
    return acc_add(a, b);
}

REDUCE_FN elem fold_finish(int op, acc s, acc shift, acc p)
{
#ifdef ELEM_FLOAT
    if (op == FOLD_exp) s = MATH(log)(s) + shift;
    if (op == FOLD_square) s = MATH(sqrt)(s);
    if (op == FOLD_power) s = MATH(pow)(s, 1 / p);
#else
    (void)op;
#endif
    (void)shift;
    (void)p;
    return elem_put(s);
}

/* The shift of a result, for FOLD_exp; 0 if the largest term is not finite, so that infinities and
 * NaN keep their values. */
REDUCE_FN acc fold_shift(int op, GLOBAL const elem *shift, i64 out)
{
#ifdef ELEM_FLOAT
    if (op == FOLD_exp) {
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
REDUCE_FN acc fold_run(int op, acc s, GLOBAL const elem *x, i64 n, i64 step, acc shift, acc p)
{
    i64 i = 0;

#ifdef ON_HOST
    if (step == 1 && n >= 2 * FOLD_SIDE) {
        acc side[FOLD_SIDE];
        for (int j = 0; j < FOLD_SIDE; j++) side[j] = fold_none(op);
        for (; i + FOLD_SIDE <= n; i += FOLD_SIDE) {
            SIMD for (int j = 0; j < FOLD_SIDE; j++)
                side[j] = fold_join(op, side[j], fold_term(op, x[i + j], shift, p));
        }
        HOST_UNROLL
        for (int half = FOLD_SIDE / 2; half; half /= 2)
            HOST_UNROLL for (int j = 0; j < half; j++)
                side[j] = fold_join(op, side[j], side[j + half]);
        s = fold_join(op, s, side[0]);
    }
#endif
    for (; i < n; i++) s = fold_join(op, s, fold_term(op, x[i * step], shift, p));
    return s;
}

/* Each lane of a team passes a result; each lane receives the joined result. */
TEAM_JOIN(fold_team_join, acc, fold_join(op, a, b))

/* Computes one result, or a partial one. */
REDUCE_FN acc fold_row(int op, const struct reduce_args *a, const struct reduce_place *at,
                       LOCAL acc *scratch, GLOBAL const elem *x, acc shift)
{
    acc s = fold_none(op), p = number(a->p);

#ifdef ON_HOST
    for (i64 t = at->begin, run; t < at->end; t += run) {
        i64 from = reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        s = fold_run(op, s, x + from, run, a->term_stride[a->term_rank - 1], shift, p);
    }
#else
    if (a->term_rank == 1) { /* without the division, which takes longer than all else */
        i64 step = a->term_stride[0];
        FOR_LANES(i, at->end - at->begin)
        s = fold_join(op, s, fold_term(op, x[(at->begin + i) * step], shift, p));
    } else {
        FOR_LANES(i, at->end - at->begin)
        {
            i64 run, from = reduce_term(a, at->begin + i, &run);
            s = fold_join(op, s, fold_term(op, x[from], shift, p));
        }
    }
#endif
    return fold_team_join(op, s, scratch);
}

/* Writes a result, or a partial result. */
REDUCE_FN void fold_put(int op, const struct reduce_args *a, i64 out, i64 at, acc s, acc shift,
                        GLOBAL elem *y, GLOBAL acc *partial)
{
    if (a->parts > 1) partial[at] = s;
    else y[out] = fold_finish(op, s, shift, number(a->p));
}

#ifdef ON_HOST
/* Computes neighbouring results, with one term of each at a time. */
REDUCE_FN void fold_columns(int op, const struct reduce_args *a, const struct reduce_place *at,
                            elem *y, acc *partial, const elem *x, const elem *shift)
{
    acc s[REDUCE_COLUMNS], of[REDUCE_COLUMNS], p = number(a->p);
    i64 step = a->term_stride[a->term_rank - 1], n = at->n;

    for (i64 j = 0; j < n; j++) {
        s[j] = fold_none(op);
        of[j] = fold_shift(op, shift, at->out + j);
    }
    for (i64 t = at->begin, run; t < at->end; t += run) {
        const elem *from = x + reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        for (i64 i = 0; i < run; i++, from += step) {
            SIMD for (i64 j = 0; j < n; j++)
                s[j] = fold_join(op, s[j], fold_term(op, from[j], of[j], p));
        }
    }
    for (i64 j = 0; j < n; j++)
        fold_put(op, a, at->out + j, at->at + j, s[j], of[j], y, partial);
}
#else
/* Each lane computes one result. */
REDUCE_FN void fold_columns(int op, const struct reduce_args *a, const struct reduce_place *at,
                            GLOBAL elem *y, GLOBAL acc *partial, GLOBAL const elem *x,
                            GLOBAL const elem *shift)
{
    i64 step = a->term_stride[a->term_rank - 1];

    FOR_LANES(j, at->n)
    {
        acc s = fold_none(op), of = fold_shift(op, shift, at->out + j), p = number(a->p);
        for (i64 t = at->begin, run; t < at->end; t += run) {
            GLOBAL const elem *from = x + reduce_term(a, t, &run) + j;
            run = run < at->end - t ? run : at->end - t;
            for (i64 i = 0; i < run; i++, from += step)
                s = fold_join(op, s, fold_term(op, *from, of, p));
        }
        fold_put(op, a, at->out + j, at->at + j, s, of, y, partial);
    }
}
#endif

REDUCE_FN void fold_op(int op, const struct reduce_args *a, i64 team, LOCAL acc *scratch,
                       GLOBAL elem *y, GLOBAL acc *partial, GLOBAL const elem *x,
                       GLOBAL const elem *shift)
{
    struct reduce_place at = reduce_place(a, team);

    if (a->wide > 1) {
        fold_columns(op, a, &at, y, partial, x + at.from, shift);
    } else {
        acc of = fold_shift(op, shift, at.out);
        acc s = fold_row(op, a, &at, scratch, x + at.from, of);
        if (LANE == 0) fold_put(op, a, at.out, at.at, s, of, y, partial);
    }
}

KFN void fold_team(const struct fold_args *a, i64 team, LOCAL acc *scratch, GLOBAL elem *y,
                   GLOBAL acc *partial, GLOBAL const elem *x, GLOBAL const elem *shift)
{
    switch (a->r.op) {
#define CASE(op) case op: fold_op(op, &a->r, team, scratch, y, partial, x, shift); break;
    CASE(FOLD_sum)
#ifdef ELEM_FLOAT
    CASE(FOLD_nansum)
    CASE(FOLD_exp)
    CASE(FOLD_count)
    CASE(FOLD_abs)
    CASE(FOLD_square)
    CASE(FOLD_power)
    CASE(FOLD_largest)
    CASE(FOLD_smallest)
#endif
#undef CASE
    default: fold_op(FOLD_prod, &a->r, team, scratch, y, partial, x, shift);
    }
}
ENTRY_TEAMS_4(fold, elem, acc, const elem, const elem)

/* Joins the partial results first, first + by and so on of one result. */
KFN acc fold_parts(const struct reduce_args *a, GLOBAL const acc *of, i64 first, i64 by)
{
    int op = (int)a->op;
    acc s = fold_none(op);

    for (i64 part = first; part < a->parts; part += by)
        s = fold_join(op, s, of[part * a->outputs]);
    return s;
}

/* Joins the partial results of each result. */
KFN void fold_end_team(const struct fold_end_args *a, i64 team, LOCAL acc *scratch, GLOBAL elem *y,
                       GLOBAL const acc *partial, GLOBAL const elem *shift)
{
    int op = (int)a->r.op;
    i64 first, n = reduce_end(&a->r, team, &first);
    acc s, p = number(a->r.p);

    if (a->r.ends > 1) {
        FOR_LANES(j, n)
        {
            s = fold_parts(&a->r, partial + first + j, 0, 1);
            y[first + j] = fold_finish(op, s, fold_shift(op, shift, first + j), p);
        }
    } else {
        s = fold_team_join(op, fold_parts(&a->r, partial + first, LANE, LANES), scratch);
        if (LANE == 0) y[first] = fold_finish(op, s, fold_shift(op, shift, first), p);
    }
}
ENTRY_TEAMS_3(fold_end, elem, const acc, const elem)

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
