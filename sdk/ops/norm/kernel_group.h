/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_group.h: finds the terms of groups in memory and sums them, for normalisation and softmax.
 *
 * A team has one group, whose terms its lanes share, or several neighbouring groups, each of which
 * one lane computes alone. On a host a team is one lane; there, contiguous terms and neighbouring
 * groups have faster paths, which sum in double. */
#ifndef BP_OPS_NORM_KERNEL_GROUP_H
#define BP_OPS_NORM_KERNEL_GROUP_H

#include "../../dialect/dialect.h"

enum {
    NORM_AXES = 10,    /* eight, one of which may be split in two, and a dummy axis */
    NORM_COLUMNS = 64, /* neighbouring groups of a team */
};

/* The operands that have strides. Two operands may share a slot if no kernel has both. */
enum {
    NORM_X,
    NORM_Y,     /* or dx */
    NORM_SCALE, /* or dscale, of normalize_params */
    NORM_BIAS,  /* or dbias */
    NORM_MEAN,
    NORM_R, /* 1 / sqrt(variance + epsilon) */
    NORM_DY,
    NORM_SLOTS
};

/* Running statistics of batch_norm_train: one number for each group, which is a channel. */
enum { NORM_OLD_MEAN, NORM_OLD_VARIANCE, NORM_NEW_MEAN, NORM_NEW_VARIANCE, NORM_KEPT };

/* Groups of terms. The outer axes number the groups; the inner axes, which follow the outer ones,
 * number the terms of a group. An operand without an axis has stride 0 there. A team computes
 * `wide` neighbouring groups along the last outer axis, or one group. */
struct norm_plan {
    i64 outer, inner; /* number of axes, at least one of each */
    i64 shape[NORM_AXES], stride[NORM_SLOTS][NORM_AXES];
    i64 kept[NORM_KEPT]; /* strides */
    i64 groups, terms;
    i64 wide, blocks, teams; /* blocks: teams along the last outer axis */
    i64 centre;              /* the mean is subtracted */
    i64 wide_params;         /* scale and bias are of type acc, not elem */
    i64 unbiased;
    i64 plain; /* one outer and one inner axis, contiguous terms in all operands, a scale if there
                  is a bias, and no other operands but mean and r */
    i64 saved; /* a gradient reads mean and r, which the forward saved; the mean may be absent */
    i64 slots; /* operands in use: later ones are absent, or have one element */
    host_real epsilon, momentum;
};

struct normalize_groups_args {
    struct norm_plan p;
};
struct normalize_grad_args {
    struct norm_plan p;
};
struct normalize_params_args {
    struct norm_plan p;
};
struct normalize_given_args {
    struct norm_plan p;
};
struct log_softmax_args {
    struct norm_plan p;
};
struct log_softmax_grad_args {
    struct norm_plan p;
};

#ifdef ELEM
#include "../../dialect/maths.h"
#include "../../dialect/entry.h"
#ifdef ON_HOST
#include "../../dialect/simd_reduce.h"
#endif

/* The offset of a team's first group in each operand, and the number of groups. */
struct norm_base {
    i64 at[NORM_SLOTS], n;
    i64 first; /* index of the first group along the last outer axis */
};

/* a / b for a, b >= 0: a division of 64 bits costs a GPU several times as much as one of 32
 * bits. */
KFN i64 norm_divide(i64 a, i64 b)
{
    return (a | b) >> 32 ? a / b : (i64)((u32)a / (u32)b);
}

KFN void norm_find(const struct norm_plan *p, i64 team, struct norm_base *base)
{
    i64 last = p->outer - 1, rest = last ? norm_divide(team, p->blocks) : 0;
    i64 first = (team - rest * p->blocks) * p->wide;

    base->first = first;
    base->n = p->shape[last] - first < p->wide ? p->shape[last] - first : p->wide;
    for (i64 slot = 0; slot < p->slots; slot++) base->at[slot] = first * p->stride[slot][last];
    ROLLED
    for (i64 axis = last - 1; axis >= 0; axis--) {
        i64 above = axis ? norm_divide(rest, p->shape[axis]) : 0;
        i64 at = rest - above * p->shape[axis];
        rest = above;
        for (i64 slot = 0; slot < p->slots; slot++)
            base->at[slot] += at * p->stride[slot][axis];
    }
    for (i64 slot = p->slots; slot < NORM_SLOTS; slot++) base->at[slot] = 0;
}

/* Terms are stored in lines along the last inner axis. */
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

/* The offset of a line. The outermost axis that is not along lines needs no division. */
KFN i64 norm_line(const struct norm_plan *p, i64 slot, i64 line)
{
    i64 at = 0;

    ROLLED
    for (i64 axis = p->outer + p->inner - 2; axis > p->outer; axis--) {
        i64 above = norm_divide(line, p->shape[axis]);
        at += (line - above * p->shape[axis]) * p->stride[slot][axis];
        line = above;
    }
    return p->inner > 1 ? at + line * p->stride[slot][p->outer] : at;
}

/* The work of a lane in one round: group number j of the team, the number of its terms, and whether
 * the lane writes the results that each group has once. */
struct norm_share {
    i64 j, terms, writes;
};

KFN struct norm_share norm_share(const struct norm_plan *p, i64 first, i64 n)
{
    struct norm_share s = {first, p->terms, LANE == 0};

    if (p->wide == 1) return s;
    s.writes = first + LANE < n;
    if (s.writes) s.j += LANE;
    else s.terms = 0;
    return s;
}

/* Loops over a team's groups in rounds: each round has one group that all lanes share, or one group
 * for each lane. Rounds have barriers, so every lane runs through all rounds, with a group or
 * without. */
#define NORM_ROUNDS(p, first, n) \
    for (i64 first = 0; first < (n); first += (p)->wide > 1 ? LANES : 1)

/* A position in the terms of a group: term i, which is in this column of this line. */
struct norm_walk {
    i64 i, line, column;
    i64 by, lines, columns; /* the lane's step to its next term: in terms, lines and columns */
};

#if defined(ON_HOST) || defined(ON_PROCESSOR)
/* Loops over all terms of a group, line after line. */
#define NORM_TERMS(p, n, w) \
    for (struct norm_walk w = {0, 0, 0, 0, 0, 0}; w.i < (n); w.line++) \
        for (w.column = 0; w.column < norm_run(p); w.column++, w.i++)
#else
/* Loops over the lane's terms of a group, or over all terms where each lane has a group. Steps are
 * added, because a division for each term is slow on a GPU. */
KFN struct norm_walk norm_walk(const struct norm_plan *p)
{
    i64 first = p->wide > 1 ? 0 : LANE, by = p->wide > 1 ? 1 : LANES, run = norm_run(p);
    struct norm_walk w = {first, 0, first, by, 0, by};

    if (run > by || p->inner == 1 || !run) return w;
    w.line = (i64)((u32)first / (u32)run);
    w.lines = (i64)((u32)by / (u32)run);
    w.column -= w.line * run;
    w.columns -= w.lines * run;
    return w;
}

KFN void norm_next_term(const struct norm_plan *p, struct norm_walk *w)
{
    w->i += w->by;
    w->line += w->lines;
    w->column += w->columns;
    if (p->inner > 1 && w->column >= norm_run(p)) {
        w->column -= norm_run(p);
        w->line++;
    }
}
#define NORM_TERMS(p, n, w) \
    for (struct norm_walk w = norm_walk(p); w.i < (n); norm_next_term(p, &w))
#endif

/* As NORM_TERMS, for a group that is one line. */
#define NORM_LINE_TERMS(p, n, i) \
    for (i64 i = (p)->wide > 1 ? 0 : LANE; i < (n); i += (p)->wide > 1 ? 1 : LANES)

/* The offset of a term. */
KFN i64 norm_term(const struct norm_plan *p, i64 slot, const struct norm_walk *w)
{
    return norm_line(p, slot, w->line) + w->column * norm_step(p, slot);
}

/* An element of scale or bias, or `none` where the parameter is absent. */
KFN acc norm_param(const struct norm_plan *p, GLOBAL const void *param, i64 at, acc none)
{
    if (!param) return none;
    return p->wide_params ? ((GLOBAL const acc *)param)[at]
                          : elem_get(((GLOBAL const elem *)param)[at]);
}

/* Returns the sum over the lanes where they share a group, else the lane's own sum. */
KFN acc norm_join(const struct norm_plan *p, acc s, LOCAL acc *scratch)
{
    return p->wide > 1 ? s : team_sum(s, scratch);
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

/* Computes the statistics of the group that begins at x; `terms` is the lane's number of terms. */
KFN struct norm_stats norm_measure(const struct norm_plan *p, i64 terms, GLOBAL const elem *x,
                                   LOCAL acc *scratch)
{
    acc mean = 0, squares = 0;

    if (p->centre) {
        NORM_TERMS(p, terms, w) mean += elem_get(x[norm_term(p, NORM_X, &w)]);
        mean = norm_join(p, mean, scratch) / (acc)p->terms;
    }
    NORM_TERMS(p, terms, w)
    {
        acc d = elem_get(x[norm_term(p, NORM_X, &w)]) - mean;
        squares += d * d;
    }
    return norm_stats(p, mean, norm_join(p, squares, scratch));
}

#ifdef ON_HOST
enum {
    NORM_LANES = ACROSS,
    NORM_SHORT = 8, /* vectors of a row that stays in registers */
    NORM_SIDE = 64,    /* partial maxima of a row, which vectors hold */
    NORM_BLOCK = 1024, /* terms that are summed before the sum is added to a double */
    NORM_LINES = 32,   /* the same for a column */
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

/* Returns the sum of (x - mean)^power over n contiguous terms. It adds up four sums, so that an
 * addition does not wait for the one before. */
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

/* Statistics of one group with contiguous terms. */
KFN struct norm_stats norm_measure_row(const struct norm_plan *p, const elem *x)
{
    acc mean = 0;

    if (p->centre) mean = (acc)(norm_sum_lines(p, x, 0, 1) / (double)p->terms);
    return norm_stats(p, mean, (acc)norm_sum_lines(p, x, mean, 2));
}

/* Adds n partial sums to doubles and clears the partial sums. */
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

/* Statistics of n neighbouring groups. */
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

/* norm_is_row: the terms of a group are contiguous in operand `slot`; norm_is_column: the groups
 * are. */
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

#endif
