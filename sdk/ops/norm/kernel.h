/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: normalises groups of terms by their mean and standard deviation, or by given
 * statistics. See kernel_rows.h for rows on a GPU and kernel_grad.h for gradients. */
#ifndef BP_OPS_NORM_KERNEL_H
#define BP_OPS_NORM_KERNEL_H

#include "kernel_group.h"
#include "kernel_rows.h"

#ifdef ELEM
/* The operands of `normalise` besides x and y; an absent one is NULL. */
struct norm_more {
    GLOBAL const void *scale, *bias;
    GLOBAL acc *mean, *r;
    GLOBAL const acc *old_mean, *old_variance;
    GLOBAL acc *new_mean, *new_variance;
};

/* Writes the results that group number j of the team has once: statistics, and running
 * statistics. */
KFN void norm_put_stats(const struct norm_plan *p, const struct norm_base *b, i64 j,
                        struct norm_stats s, const struct norm_more *m)
{
    acc stays = number(p->momentum), n = (acc)p->terms;
    i64 group = b->first + j;

    if (!m->mean && !m->r && !m->new_mean) return;
    if (!p->terms) s.mean = s.variance;
    if (m->mean) m->mean[b->at[NORM_MEAN] + j * norm_next(p, NORM_MEAN)] = s.mean;
    if (m->r) m->r[b->at[NORM_R] + j * norm_next(p, NORM_R)] = s.r;
    if (m->new_mean)
        m->new_mean[group * p->kept[NORM_NEW_MEAN]] =
            stays * m->old_mean[group * p->kept[NORM_OLD_MEAN]] + (1 - stays) * s.mean;
    if (p->unbiased) s.variance *= n / (n - 1);
    if (m->new_variance)
        m->new_variance[group * p->kept[NORM_NEW_VARIANCE]] =
            stays * m->old_variance[group * p->kept[NORM_OLD_VARIANCE]] +
            (1 - stays) * s.variance;
}

#ifdef ON_HOST
/* Normalises n terms. Callers pass the steps as constants; a step of 0 means that one scale, or one
 * bias, applies to all n terms. */
KFN void norm_put_run(const struct norm_plan *p, elem *y, i64 sy, const elem *x, i64 sx,
                      const void *scale, i64 at_scale, i64 ss, const void *bias, i64 at_bias,
                      i64 sb, i64 n, struct norm_stats s)
{
    acc factor = ss ? 0 : norm_param(p, scale, at_scale, 1);
    acc shift = sb ? 0 : norm_param(p, bias, at_bias, 0);

    SIMD for (i64 i = 0; i < n; i++) {
        acc h = (elem_get(x[i * sx]) - s.mean) * s.r;
        h *= ss ? norm_param(p, scale, at_scale + i * ss, 1) : factor;
        h += sb ? norm_param(p, bias, at_bias + i * sb, 0) : shift;
        y[i * sy] = elem_put(h);
    }
}

/* Scale and bias have one element for each term, contiguous. */
KFN void norm_put_run_elem(elem *y, const elem *x, const elem *scale, const elem *bias, i64 n,
                           struct norm_stats s)
{
    if (bias) {
        SIMD for (i64 i = 0; i < n; i++)
            y[i] = elem_put((elem_get(x[i]) - s.mean) * s.r * elem_get(scale[i]) +
                            elem_get(bias[i]));
    } else {
        SIMD for (i64 i = 0; i < n; i++)
            y[i] = elem_put((elem_get(x[i]) - s.mean) * s.r * elem_get(scale[i]));
    }
}

KFN void norm_put_row(const struct norm_plan *p, const struct norm_base *b, elem *y, const elem *x,
                      const struct norm_more *m, struct norm_stats s)
{
    i64 run = norm_run(p), ss = norm_step(p, NORM_SCALE), sb = norm_step(p, NORM_BIAS);

    for (i64 line = 0; line * run < p->terms; line++) {
        i64 scale = b->at[NORM_SCALE] + norm_line(p, NORM_SCALE, line);
        i64 bias = b->at[NORM_BIAS] + norm_line(p, NORM_BIAS, line);
        elem *to = y + norm_line(p, NORM_Y, line);
        const elem *from = x + norm_line(p, NORM_X, line);
        if (ss == 1 && (sb == 1 || !m->bias) && !p->wide_params)
            norm_put_run_elem(to, from, (const elem *)m->scale + scale,
                              m->bias ? (const elem *)m->bias + bias : (const elem *)0, run, s);
        else if (!ss && !sb)
            norm_put_run(p, to, 1, from, 1, m->scale, scale, 0, m->bias, bias, 0, run, s);
        else norm_put_run(p, to, 1, from, 1, m->scale, scale, ss, m->bias, bias, sb, run, s);
    }
}

/* Normalises neighbouring groups, each of which has one scale and one bias. */
KFN void norm_put_columns(const struct norm_plan *p, const struct norm_base *b, elem *y,
                          const elem *x, const struct norm_more *m, const struct norm_stats *s)
{
    i64 run = norm_run(p), sy = norm_step(p, NORM_Y), sx = norm_step(p, NORM_X), n = b->n;
    acc mean[NORM_COLUMNS], factor[NORM_COLUMNS], shift[NORM_COLUMNS];

    for (i64 j = 0; j < n; j++) {
        mean[j] = s[j].mean;
        factor[j] = s[j].r * norm_param(p, m->scale, b->at[NORM_SCALE] +
                                        j * norm_next(p, NORM_SCALE), 1);
        shift[j] = norm_param(p, m->bias, b->at[NORM_BIAS] + j * norm_next(p, NORM_BIAS), 0);
    }
    for (i64 line = 0; line * run < p->terms; line++) {
        elem *to = y + norm_line(p, NORM_Y, line);
        const elem *from = x + norm_line(p, NORM_X, line);
        for (i64 i = 0; i < run; i++, to += sy, from += sx) {
            SIMD for (i64 j = 0; j < n; j++)
                to[j] = elem_put((elem_get(from[j]) - mean[j]) * factor[j] + shift[j]);
        }
    }
}

/* Normalises a row of `vectors` vectors and returns its statistics. The count is a constant where
 * this is inlined, so that the row stays in registers. */
KFN __attribute__((always_inline)) struct norm_stats
norm_vectors(const struct norm_plan *p, int vectors, elem *y, const elem *x, const elem *scale,
             const elem *bias)
{
    norm_vec v[NORM_SHORT], sum[4] = {{0}}, square[4] = {{0}};
    struct norm_stats s;
    acc mean = 0;

    HOST_UNROLL for (int k = 0; k < vectors; k++) v[k] = norm_load(x + k * NORM_LANES);
    if (p->centre) {
        HOST_UNROLL for (int k = 0; k < vectors; k++) sum[k & 3] += v[k];
        mean = norm_across((sum[0] + sum[1]) + (sum[2] + sum[3])) / (acc)(vectors * NORM_LANES);
    }
    HOST_UNROLL for (int k = 0; k < vectors; k++) square[k & 3] += (v[k] - mean) * (v[k] - mean);
    s = norm_stats(p, mean, norm_across((square[0] + square[1]) + (square[2] + square[3])));
    HOST_UNROLL for (int k = 0; k < vectors; k++) {
        norm_vec h = (v[k] - s.mean) * s.r;
        if (scale) h *= norm_load(scale + k * NORM_LANES);
        if (bias) h += norm_load(bias + k * NORM_LANES);
        norm_store(y + k * NORM_LANES, h);
    }
    return s;
}

/* Returns whether the row has one of these lengths and was normalised; *s: its statistics. */
KFN int norm_short(const struct norm_plan *p, elem *y, const elem *x, const elem *scale,
                   const elem *bias, struct norm_stats *s)
{
    switch (p->terms) {
    case NORM_LANES: *s = norm_vectors(p, 1, y, x, scale, bias); return 1;
    case 2 * NORM_LANES: *s = norm_vectors(p, 2, y, x, scale, bias); return 1;
    case 4 * NORM_LANES: *s = norm_vectors(p, 4, y, x, scale, bias); return 1;
    case 8 * NORM_LANES: *s = norm_vectors(p, 8, y, x, scale, bias); return 1;
    default: return 0;
    }
}

/* Normalises one row of a plan that is `plain` (norm_plan): most of these rows are short. Returns
 * its statistics. */
KFN struct norm_stats norm_plain(const struct norm_plan *p, i64 row, elem *y, const elem *x,
                                 const elem *scale, const elem *bias)
{
    i64 n = p->terms;
    struct norm_stats s;
    acc mean = 0, squares;

    x += row * p->stride[NORM_X][0];
    y += row * p->stride[NORM_Y][0];
    if (norm_short(p, y, x, scale, bias, &s)) return s;
    if (n <= NORM_BLOCK) {
        if (p->centre) mean = norm_sum_power(x, n, 0, 1) / (acc)n;
        squares = norm_sum_power(x, n, mean, 2);
    } else {
        if (p->centre) mean = (acc)(norm_sum_lines(p, x, 0, 1) / (double)n);
        squares = (acc)norm_sum_lines(p, x, mean, 2);
    }
    s = norm_stats(p, mean, squares);
    if (scale) {
        norm_put_run_elem(y, x, scale, bias, n, s);
    } else {
        SIMD for (i64 i = 0; i < n; i++) y[i] = elem_put((elem_get(x[i]) - s.mean) * s.r);
    }
    return s;
}

/* Handles groups whose terms are contiguous, or that are neighbours in memory. Returns whether it
 * did. */
KFN int norm_host(const struct norm_plan *p, const struct norm_base *b, elem *y, const elem *x,
                  const struct norm_more *m)
{
    struct norm_stats s[NORM_COLUMNS];

    if (norm_is_row(p, NORM_X) && norm_is_row(p, NORM_Y)) {
        s[0] = norm_measure_row(p, x);
        norm_put_stats(p, b, 0, s[0], m);
        norm_put_row(p, b, y, x, m, s[0]);
        return 1;
    }
    if (!norm_is_column(p, NORM_X) || !norm_is_column(p, NORM_Y)) return 0;
    for (i64 axis = p->outer; axis < p->outer + p->inner; axis++)
        if (p->stride[NORM_SCALE][axis] || p->stride[NORM_BIAS][axis]) return 0;
    norm_measure_columns(p, x, b->n, s);
    for (i64 j = 0; j < b->n; j++) norm_put_stats(p, b, j, s[j], m);
    norm_put_columns(p, b, y, x, m, s);
    return 1;
}
#endif

KFN void normalize_groups_team(const struct normalize_groups_args *a, i64 team, LOCAL acc *scratch,
                               GLOBAL elem *y, GLOBAL const elem *x, GLOBAL const void *scale,
                               GLOBAL const void *bias, GLOBAL acc *mean, GLOBAL acc *r,
                               GLOBAL const acc *old_mean, GLOBAL const acc *old_variance,
                               GLOBAL acc *new_mean, GLOBAL acc *new_variance)
{
    const struct norm_plan *p = &a->p;
    struct norm_base b;
    struct norm_more m;

#ifdef ON_HOST
    if (p->plain) {
        struct norm_stats s = norm_plain(p, team, y, x, (const elem *)scale, (const elem *)bias);
        if (mean) mean[team * p->stride[NORM_MEAN][0]] = s.mean;
        if (r) r[team * p->stride[NORM_R][0]] = s.r;
        return;
    }
#endif
    norm_find(p, team, &b);
    m.scale = scale;
    m.bias = bias;
    m.mean = mean;
    m.r = r;
    m.old_mean = old_mean;
    m.old_variance = old_variance;
    m.new_mean = new_mean;
    m.new_variance = new_variance;
#ifdef ON_HOST
    if (norm_host(p, &b, y + b.at[NORM_Y], x + b.at[NORM_X], &m)) return;
#endif
    NORM_ROUNDS(p, round, b.n)
    {
        struct norm_share own = norm_share(p, round, b.n);
        i64 j = own.j;
        GLOBAL const elem *from = x + b.at[NORM_X] + j * norm_next(p, NORM_X);
        GLOBAL elem *to = y + b.at[NORM_Y] + j * norm_next(p, NORM_Y);
        i64 at_scale = b.at[NORM_SCALE] + j * norm_next(p, NORM_SCALE);
        i64 at_bias = b.at[NORM_BIAS] + j * norm_next(p, NORM_BIAS);
        struct norm_stats s = norm_measure(p, own.terms, from, scratch);
        if (own.writes) norm_put_stats(p, &b, j, s, &m);
        NORM_TERMS(p, own.terms, w)
        {
            acc h = (elem_get(from[norm_term(p, NORM_X, &w)]) - s.mean) * s.r;
            h *= norm_param(p, scale, at_scale + norm_term(p, NORM_SCALE, &w), 1);
            h += norm_param(p, bias, at_bias + norm_term(p, NORM_BIAS, &w), 0);
            to[norm_term(p, NORM_Y, &w)] = elem_put(h);
        }
    }
}
ENTRY_TEAMS_10(normalize_groups, elem, const elem, const void, const void, acc, acc, const acc,
               const acc, acc, acc)

#ifdef ON_HOST
enum { GIVEN_RUN = 2048 };

/* Whether all lines have the same parameters, with one for each element of a line, contiguous. */
KFN int norm_lines_alike(const struct norm_plan *p)
{
    for (i64 axis = 0; axis < p->outer; axis++)
        if (p->stride[NORM_MEAN][axis] || p->stride[NORM_R][axis] ||
            p->stride[NORM_SCALE][axis] || p->stride[NORM_BIAS][axis])
            return 0;
    return norm_run(p) <= GIVEN_RUN && norm_step(p, NORM_X) == 1 && norm_step(p, NORM_Y) == 1 &&
           norm_step(p, NORM_MEAN) == 1;
}

/* Channels are the innermost axis: factors are computed once and used for all lines. */
KFN void norm_given_lines(const struct norm_plan *p, i64 begin, i64 n, elem *y, const elem *x,
                          const acc *scale, const acc *bias, const acc *mean,
                          const acc *variance)
{
    acc factor[GIVEN_RUN], shift[GIVEN_RUN], eps = number(p->epsilon);
    i64 run = norm_run(p);

    SIMD for (i64 i = 0; i < run; i++) {
        factor[i] = (scale ? scale[i * norm_step(p, NORM_SCALE)] : 1) /
                    MATH(sqrt)(variance[i * norm_step(p, NORM_R)] + eps);
        shift[i] = bias ? bias[i * norm_step(p, NORM_BIAS)] : 0;
    }
    for (i64 end = begin + n; begin < end;) {
        i64 first = begin % run, rest = run - first < end - begin ? run - first : end - begin;
        struct norm_base b;
        norm_find(p, begin / run, &b);
        const elem *from = x + b.at[NORM_X] + first;
        elem *to = y + b.at[NORM_Y] + first;
        SIMD for (i64 i = 0; i < rest; i++)
            to[i] = elem_put((elem_get(from[i]) - mean[first + i]) * factor[first + i] +
                             shift[first + i]);
        begin += rest;
    }
}
#endif

/* Normalises with a given mean and variance. Terms are lines along the last axis, which is the only
 * inner axis: the outer axes number the lines. */
KFN void normalize_given_span(const struct normalize_given_args *a, i64 begin, i64 n,
                              GLOBAL elem *y, GLOBAL const elem *x, GLOBAL const acc *scale,
                              GLOBAL const acc *bias, GLOBAL const acc *mean,
                              GLOBAL const acc *variance)
{
    const struct norm_plan *p = &a->p;
    i64 run = norm_run(p), same = !norm_step(p, NORM_MEAN) && !norm_step(p, NORM_R) &&
                                  !norm_step(p, NORM_SCALE) && !norm_step(p, NORM_BIAS);

#ifdef ON_HOST
    if (!same && norm_lines_alike(p)) {
        norm_given_lines(p, begin, n, y, x, scale, bias, mean, variance);
        return;
    }
#endif
    for (i64 end = begin + n; begin < end;) {
        struct norm_base b;
        i64 line = norm_divide(begin, run), first = begin - line * run;
        i64 rest = run - first < end - begin ? run - first : end - begin;
        norm_find(p, line, &b);
        i64 sx = norm_step(p, NORM_X), sy = norm_step(p, NORM_Y), sm = norm_step(p, NORM_MEAN),
            sv = norm_step(p, NORM_R), ss = norm_step(p, NORM_SCALE), sb = norm_step(p, NORM_BIAS);
        GLOBAL const elem *from = x + b.at[NORM_X] + first * sx;
        GLOBAL elem *to = y + b.at[NORM_Y] + first * sy;
        GLOBAL const acc *mu = mean + b.at[NORM_MEAN] + first * sm;
        GLOBAL const acc *var = variance + b.at[NORM_R] + first * sv;
        GLOBAL const acc *fac = scale ? scale + b.at[NORM_SCALE] + first * ss : scale;
        GLOBAL const acc *add = bias ? bias + b.at[NORM_BIAS] + first * sb : bias;
        if (same) {
            acc m = mu[0], c = add ? add[0] : 0, eps = number(p->epsilon);
            acc f = (fac ? fac[0] : 1) / MATH(sqrt)(var[0] + eps);
            if (sx == 1 && sy == 1) {
                SIMD for (i64 i = 0; i < rest; i++)
                    to[i] = elem_put((elem_get(from[i]) - m) * f + c);
            } else {
                for (i64 i = 0; i < rest; i++)
                    to[i * sy] = elem_put((elem_get(from[i * sx]) - m) * f + c);
            }
        } else {
            acc eps = number(p->epsilon);
            SIMD for (i64 i = 0; i < rest; i++) {
                acc f = (fac ? fac[i * ss] : 1) / MATH(sqrt)(var[i * sv] + eps);
                to[i * sy] = elem_put((elem_get(from[i * sx]) - mu[i * sm]) * f +
                                      (add ? add[i * sb] : 0));
            }
        }
        begin += rest;
    }
}
ENTRY_SPANS_6(normalize_given, elem, const elem, const acc, const acc, const acc, const acc)

#include "../softmax/kernel_log.h"
#include "kernel_grad.h"
ENTRY_TEAMS_6(normalize_grad, elem, const elem, const void, const elem, acc, acc)
ENTRY_TEAMS_6(normalize_params, void, void, const elem, const elem, const acc, const acc)
ENTRY_TEAMS_2(log_softmax, elem, const elem)
ENTRY_TEAMS_3(log_softmax_grad, elem, const elem, const elem)
#endif

#endif
