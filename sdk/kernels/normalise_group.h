/* SPDX-License-Identifier: Apache-2.0 */
/* normalise_group.h: where the terms of groups lie, and sums over them.
 *
 * A team has one group, whose terms its lanes share, or several neighbouring ones, of which each
 * lane makes some alone. A host, whose team is one lane, has ways of its own where terms, or
 * groups, lie side by side: its sums are made in double there. */
#ifndef BP_KERNELS_NORMALISE_GROUP_H
#define BP_KERNELS_NORMALISE_GROUP_H

#include "maths.h"
#include "entry.h"
#include "normalise_args.h"
#ifdef ON_HOST
#include "across.h"
#endif

/* Where a team's groups begin in each operand, and how many there are. */
struct norm_base {
    i64 at[NORM_SLOTS], n;
    i64 first; /* along the last outer axis */
};

KFN void norm_find(const struct norm_plan *p, i64 team, struct norm_base *base)
{
    i64 last = p->outer - 1, rest = last ? team / p->blocks : 0; /* a division takes long */
    i64 first = (team - rest * p->blocks) * p->wide;

    base->first = first;
    base->n = p->shape[last] - first < p->wide ? p->shape[last] - first : p->wide;
    for (i64 slot = 0; slot < p->slots; slot++) base->at[slot] = first * p->stride[slot][last];
    for (i64 axis = last - 1; axis >= 0; axis--) {
        i64 at = rest % p->shape[axis];
        rest /= p->shape[axis];
        for (i64 slot = 0; slot < p->slots; slot++)
            base->at[slot] += at * p->stride[slot][axis];
    }
    for (i64 slot = p->slots; slot < NORM_SLOTS; slot++) base->at[slot] = 0;
}

/* Terms come in lines along the last inner axis. */
KFN i64 norm_run(const struct norm_plan *p)
{
    return p->shape[p->outer + p->inner - 1];
}
KFN i64 norm_step(const struct norm_plan *p, i64 slot)
{
    return p->stride[slot][p->outer + p->inner - 1];
}
KFN i64 norm_next(const struct norm_plan *p, i64 slot)
{
    return p->stride[slot][p->outer - 1];
}

/* Where line number i begins. */
KFN i64 norm_line(const struct norm_plan *p, i64 slot, i64 line)
{
    i64 at = 0;

    for (i64 axis = p->outer + p->inner - 2; axis >= p->outer; axis--) {
        at += line % p->shape[axis] * p->stride[slot][axis];
        line /= p->shape[axis];
    }
    return at;
}

/* Where term number i is. */
KFN i64 norm_term(const struct norm_plan *p, i64 slot, i64 i)
{
    i64 run = norm_run(p);

    return norm_line(p, slot, i / run) + i % run * norm_step(p, slot);
}

/* An element of scale or bias, or what stands for one that is absent. */
KFN acc norm_param(const struct norm_plan *p, GLOBAL const void *param, i64 at, acc none)
{
    if (!param) return none;
    return p->wide_params ? ((GLOBAL const acc *)param)[at]
                          : elem_get(((GLOBAL const elem *)param)[at]);
}

/* A lane's share of groups, and of the terms of one. */
#define NORM_GROUPS(p, j, n) \
    for (i64 j = (p)->wide > 1 ? LANE : 0; j < (n); j += (p)->wide > 1 ? LANES : 1)
#define NORM_TERMS(p, i) \
    for (i64 i = (p)->wide > 1 ? 0 : LANE; i < (p)->terms; i += (p)->wide > 1 ? 1 : LANES)

/* The sum of the lanes' shares, where they have some of one group. */
KFN acc norm_join(const struct norm_plan *p, acc s, LOCAL acc *scratch)
{
    return p->wide > 1 ? s : team_sum(s, scratch);
}

/* Whether this lane writes what there is once a group. */
KFN i64 norm_writes(const struct norm_plan *p)
{
    return p->wide > 1 || LANE == 0;
}

struct norm_stats {
    acc mean, variance, r;
};

KFN struct norm_stats norm_stats(const struct norm_plan *p, acc mean, acc squares)
{
    struct norm_stats s;

    s.mean = mean;
    s.variance = squares / (acc)p->terms;
    s.r = 1 / MATH(sqrt)(s.variance + number(p->epsilon));
    return s;
}

/* Of the group that begins at x. */
KFN struct norm_stats norm_measure(const struct norm_plan *p, GLOBAL const elem *x,
                                   LOCAL acc *scratch)
{
    acc mean = 0, squares = 0;

    if (p->centre) {
        NORM_TERMS(p, i) mean += elem_get(x[norm_term(p, NORM_X, i)]);
        mean = norm_join(p, mean, scratch) / (acc)p->terms;
    }
    NORM_TERMS(p, i)
    {
        acc d = elem_get(x[norm_term(p, NORM_X, i)]) - mean;
        squares += d * d;
    }
    return norm_stats(p, mean, norm_join(p, squares, scratch));
}

#ifdef ON_HOST
enum {
    NORM_LANES = ACROSS,
    NORM_SHORT = 8, /* vectors of a row that stays in registers */
    NORM_SIDE = 64,    /* places at which the largest of a row is looked for */
    NORM_BLOCK = 1024, /* terms before they go to a double */
    NORM_LINES = 32,   /* the same, of a column */
};
typedef acc norm_vec __attribute__((vector_size(VECTOR), aligned(sizeof(acc)), may_alias));

KFN norm_vec norm_load(const elem *x)
{
#ifdef ELEM_HALF
    norm_vec v;
    acc lane[NORM_LANES];

    SIMD for (int j = 0; j < NORM_LANES; j++) lane[j] = elem_get(x[j]);
    __builtin_memcpy(&v, lane, sizeof v);
    return v;
#else
    return *(const norm_vec *)x;
#endif
}

KFN void norm_store(elem *y, norm_vec v)
{
#ifdef ELEM_HALF
    acc lane[NORM_LANES];

    __builtin_memcpy(lane, &v, sizeof v);
    SIMD for (int j = 0; j < NORM_LANES; j++) y[j] = elem_put(lane[j]);
#else
    *(norm_vec *)y = v;
#endif
}

KFN acc norm_across(norm_vec v)
{
    acc lane[NORM_LANES];

    __builtin_memcpy(lane, &v, sizeof v);
    return across_sum(lane);
}

KFN norm_vec norm_power(const elem *x, acc mean, int power)
{
    norm_vec d = norm_load(x) - mean;

    if (power == 2) d *= d;
    return d;
}

/* The sum of (x - mean)^power, of n terms side by side: four sums at a time, so that additions
 * need not wait for each other. */
KFN acc norm_sum_power(const elem *x, i64 n, acc mean, int power)
{
    norm_vec a = {0}, b = {0}, c = {0}, d = {0};
    acc rest = 0;
    i64 i = 0;

    for (; i + 4 * NORM_LANES <= n; i += 4 * NORM_LANES) {
        a += norm_power(x + i, mean, power);
        b += norm_power(x + i + NORM_LANES, mean, power);
        c += norm_power(x + i + 2 * NORM_LANES, mean, power);
        d += norm_power(x + i + 3 * NORM_LANES, mean, power);
    }
    for (; i + NORM_LANES <= n; i += NORM_LANES) a += norm_power(x + i, mean, power);
    for (; i < n; i++) {
        acc one = elem_get(x[i]) - mean;
        rest += power == 2 ? one * one : one;
    }
    return norm_across((a + b) + (c + d)) + rest;
}

KFN double norm_sum_lines(const struct norm_plan *p, const elem *x, acc mean, int power)
{
    i64 run = norm_run(p);
    double total = 0;

    for (i64 line = 0; line * run < p->terms; line++) {
        const elem *from = x + norm_line(p, NORM_X, line);
        for (i64 i = 0; i < run; i += NORM_BLOCK)
            total += (double)norm_sum_power(from + i, run - i < NORM_BLOCK ? run - i : NORM_BLOCK,
                                            mean, power);
    }
    return total;
}

/* Terms side by side. */
KFN struct norm_stats norm_measure_row(const struct norm_plan *p, const elem *x)
{
    acc mean = 0;

    if (p->centre) mean = (acc)(norm_sum_lines(p, x, 0, 1) / (double)p->terms);
    return norm_stats(p, mean, (acc)norm_sum_lines(p, x, mean, 2));
}

/* Sums to doubles. */
KFN void norm_flush(acc *part, double *total, i64 n)
{
    for (i64 j = 0; j < n; j++) {
        total[j] += (double)part[j];
        part[j] = 0;
    }
}

KFN void norm_sum_columns(const struct norm_plan *p, const elem *x, i64 n, const acc *mean,
                          int power, double *total)
{
    i64 run = norm_run(p), step = norm_step(p, NORM_X), lines = 0;
    acc part[NORM_COLUMNS] = {0};

    for (i64 j = 0; j < n; j++) total[j] = 0;
    for (i64 line = 0; line * run < p->terms; line++) {
        const elem *from = x + norm_line(p, NORM_X, line);
        for (i64 i = 0; i < run; i++, from += step) {
            SIMD for (i64 j = 0; j < n; j++) {
                acc d = elem_get(from[j]) - mean[j];
                part[j] += power == 2 ? d * d : d;
            }
            if (++lines % NORM_LINES == 0) norm_flush(part, total, n);
        }
    }
    norm_flush(part, total, n);
}

/* n groups side by side. */
KFN void norm_measure_columns(const struct norm_plan *p, const elem *x, i64 n,
                              struct norm_stats *s)
{
    acc mean[NORM_COLUMNS] = {0};
    double total[NORM_COLUMNS];

    if (p->centre) {
        norm_sum_columns(p, x, n, mean, 1, total);
        for (i64 j = 0; j < n; j++) mean[j] = (acc)(total[j] / (double)p->terms);
    }
    norm_sum_columns(p, x, n, mean, 2, total);
    for (i64 j = 0; j < n; j++) s[j] = norm_stats(p, mean[j], (acc)total[j]);
}

/* Whether operand number slot has terms side by side; or groups. */
KFN i64 norm_is_row(const struct norm_plan *p, i64 slot)
{
    return p->wide == 1 && norm_step(p, slot) == 1;
}
KFN i64 norm_is_column(const struct norm_plan *p, i64 slot)
{
    return p->wide > 1 && norm_next(p, slot) == 1;
}
#endif

#endif
