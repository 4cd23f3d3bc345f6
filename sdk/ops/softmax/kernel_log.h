/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_log.h: computes log_softmax and its gradient; a group (norm/kernel_group.h) is a line
 * along the axis. norm/kernel.h has the entries. */
#ifndef BP_OPS_SOFTMAX_KERNEL_LOG_H
#define BP_OPS_SOFTMAX_KERNEL_LOG_H

#include "../norm/kernel_group.h"

#ifdef ON_HOST
/* The largest of n contiguous terms. NaN is ignored here and shows in the sum. */
KFN acc log_max_row(const elem *x, i64 n)
{
    acc m = -acc_infinity();
    i64 i = 0;

    if (n >= NORM_SIDE) {
        acc side[NORM_SIDE];
        for (int j = 0; j < NORM_SIDE; j++) side[j] = m;
        for (; i + NORM_SIDE <= n; i += NORM_SIDE) {
            SIMD for (int j = 0; j < NORM_SIDE; j++) {
                acc v = elem_get(x[i + j]);
                side[j] = v > side[j] ? v : side[j];
            }
        }
        for (int j = 0; j < NORM_SIDE; j++) m = side[j] > m ? side[j] : m;
    }
    for (; i < n; i++) {
        acc v = elem_get(x[i]);
        m = v > m ? v : m;
    }
    return m;
}

KFN double log_sum_row(const elem *x, i64 n, acc m)
{
    double total = 0;

    for (i64 first = 0; first < n; first += NORM_BLOCK) {
        i64 end = n - first < NORM_BLOCK ? n : first + NORM_BLOCK;
        acc s = 0;
        SIMD_SUM(s) for (i64 i = first; i < end; i++) s += acc_exp(elem_get(x[i]) - m);
        total += (double)s;
    }
    return total;
}

KFN void log_softmax_columns(const struct norm_plan *p, elem *y, const elem *x, i64 n)
{
    i64 sx = norm_step(p, NORM_X), sy = norm_step(p, NORM_Y);
    acc m[NORM_COLUMNS], s[NORM_COLUMNS] = {0};
    double total[NORM_COLUMNS] = {0};

    for (i64 j = 0; j < n; j++) m[j] = -acc_infinity();
    for (i64 i = 0; i < p->terms; i++) {
        SIMD for (i64 j = 0; j < n; j++) {
            acc v = elem_get(x[i * sx + j]);
            m[j] = v > m[j] ? v : m[j];
        }
    }
    for (i64 i = 0; i < p->terms; i++) {
        SIMD for (i64 j = 0; j < n; j++) s[j] += acc_exp(elem_get(x[i * sx + j]) - m[j]);
        if ((i + 1) % NORM_LINES == 0) norm_flush(s, total, n);
    }
    norm_flush(s, total, n);
    for (i64 j = 0; j < n; j++) s[j] = FUNC(log)((acc)total[j]);
    for (i64 i = 0; i < p->terms; i++) {
        SIMD for (i64 j = 0; j < n; j++)
            y[i * sy + j] = elem_put((elem_get(x[i * sx + j]) - m[j]) - s[j]);
    }
}

KFN int log_softmax_host(const struct norm_plan *p, i64 n, elem *y, const elem *x)
{
    if (norm_is_column(p, NORM_X) && norm_is_column(p, NORM_Y)) {
        log_softmax_columns(p, y, x, n);
        return 1;
    }
    if (norm_is_row(p, NORM_X) && norm_is_row(p, NORM_Y)) {
        acc m = log_max_row(x, p->terms), s;
        s = FUNC(log)((acc)log_sum_row(x, p->terms, m));
        SIMD for (i64 i = 0; i < p->terms; i++) y[i] = elem_put((elem_get(x[i]) - m) - s);
        return 1;
    }
    return 0;
}
#endif

KFN void log_softmax_team(const struct log_softmax_args *a, i64 team, LOCAL acc *scratch,
                          GLOBAL elem *y, GLOBAL const elem *x)
{
    const struct norm_plan *p = &a->p;
    struct norm_base b;
    i64 sx = norm_step(p, NORM_X), sy = norm_step(p, NORM_Y);

    norm_find(p, team, &b);
#ifdef ON_HOST
    if (log_softmax_host(p, b.n, y + b.at[NORM_Y], x + b.at[NORM_X])) return;
#endif
    NORM_ROUNDS(p, round, b.n)
    {
        struct norm_share own = norm_share(p, round, b.n);
        i64 j = own.j;
        GLOBAL const elem *from = x + b.at[NORM_X] + j * norm_next(p, NORM_X);
        GLOBAL elem *to = y + b.at[NORM_Y] + j * norm_next(p, NORM_Y);
        acc m = -acc_infinity(), s = 0;
        NORM_LINE_TERMS(p, own.terms, i)
        {
            acc v = elem_get(from[i * sx]);
            m = v > m ? v : m;
        }
        if (p->wide == 1) m = team_max(m, scratch);
        NORM_LINE_TERMS(p, own.terms, i) s += acc_exp(elem_get(from[i * sx]) - m);
        s = FUNC(log)(norm_join(p, s, scratch));
        NORM_LINE_TERMS(p, own.terms, i) to[i * sy] = elem_put((elem_get(from[i * sx]) - m) - s);
    }
}

#ifdef ON_HOST
/* Handles contiguous lines, or lines that are neighbours in memory. Returns whether it did. */
KFN int log_softmax_grad_host(const struct norm_plan *p, i64 n, elem *dx, const elem *y,
                              const elem *dy)
{
    i64 sx = norm_step(p, NORM_X), sy = norm_step(p, NORM_Y), sd = norm_step(p, NORM_DY);
    acc part[NORM_COLUMNS] = {0};
    double total[NORM_COLUMNS] = {0};

    if (norm_is_row(p, NORM_X) && norm_is_row(p, NORM_Y) && norm_is_row(p, NORM_DY)) {
        for (i64 i = 0; i < p->terms; i += NORM_BLOCK)
            total[0] += (double)norm_sum_power(
                dy + i, p->terms - i < NORM_BLOCK ? p->terms - i : NORM_BLOCK, 0, 1);
        part[0] = (acc)total[0];
        SIMD for (i64 i = 0; i < p->terms; i++)
            dx[i] = elem_put(elem_get(dy[i]) - acc_exp(elem_get(y[i])) * part[0]);
        return 1;
    }
    if (!norm_is_column(p, NORM_X) || !norm_is_column(p, NORM_Y) || !norm_is_column(p, NORM_DY))
        return 0;
    for (i64 i = 0; i < p->terms; i++) {
        SIMD for (i64 j = 0; j < n; j++) part[j] += elem_get(dy[i * sd + j]);
        if ((i + 1) % NORM_LINES == 0) norm_flush(part, total, n);
    }
    norm_flush(part, total, n);
    for (i64 j = 0; j < n; j++) part[j] = (acc)total[j];
    for (i64 i = 0; i < p->terms; i++) {
        SIMD for (i64 j = 0; j < n; j++)
            dx[i * sy + j] = elem_put(elem_get(dy[i * sd + j]) -
                                      acc_exp(elem_get(y[i * sx + j])) * part[j]);
    }
    return 1;
}
#endif

/* y has slot NORM_X here, dx has NORM_Y. */
KFN void log_softmax_grad_team(const struct log_softmax_grad_args *a, i64 team,
                               LOCAL acc *scratch, GLOBAL elem *dx, GLOBAL const elem *y,
                               GLOBAL const elem *dy)
{
    const struct norm_plan *p = &a->p;
    struct norm_base b;
    i64 sx = norm_step(p, NORM_X), sy = norm_step(p, NORM_Y), sd = norm_step(p, NORM_DY);

    norm_find(p, team, &b);
#ifdef ON_HOST
    if (log_softmax_grad_host(p, b.n, dx + b.at[NORM_Y], y + b.at[NORM_X], dy + b.at[NORM_DY]))
        return;
#endif
    NORM_ROUNDS(p, round, b.n)
    {
        struct norm_share own = norm_share(p, round, b.n);
        i64 j = own.j;
        GLOBAL const elem *from = y + b.at[NORM_X] + j * norm_next(p, NORM_X);
        GLOBAL const elem *d = dy + b.at[NORM_DY] + j * norm_next(p, NORM_DY);
        GLOBAL elem *to = dx + b.at[NORM_Y] + j * norm_next(p, NORM_Y);
        acc s = 0;
        NORM_LINE_TERMS(p, own.terms, i) s += elem_get(d[i * sd]);
        s = norm_join(p, s, scratch);
        NORM_LINE_TERMS(p, own.terms, i)
        to[i * sy] = elem_put(elem_get(d[i * sd]) - acc_exp(elem_get(from[i * sx])) * s);
    }
}

#endif
