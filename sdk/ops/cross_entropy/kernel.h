/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes the cross entropy of lines, each with a class index as its label, and its
 * gradient. A line is the n elements of x along the axis of classes. Where lines are rows in
 * memory, a team computes a line. Where lines are columns, neighbouring lines are computed
 * together, one element of each at a time, which hosts vectorise. */
#ifndef BP_OPS_CROSS_ENTROPY_KERNEL_H
#define BP_OPS_CROSS_ENTROPY_KERNEL_H

#include "../../dialect/dialect.h"

/* x is [lines / inner, n, inner]. wide: labels are i64, otherwise i32. logits: x has logits,
 * otherwise logarithms of probabilities. */
struct label_row_args {
    i64 n, inner, wide, ignore, logits;
    host_real smoothing;
};
#define label_columns_args label_row_args
#define label_row_grad_args label_row_args
#define label_columns_grad_args label_row_args

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

#ifdef ON_HOST
enum { LABEL_LINES = 64 };
#else
enum { LABEL_LINES = 1 };
#endif

/* Returns the class of a line; -1: the line does not count, since it is ignored or its label is a
 * fault. */
KFN i64 label_of(const struct label_row_args *a, GLOBAL const void *label, i64 line,
                 GLOBAL u32 *fault)
{
    i64 k = index_at(label, a->wide, line);

    if (k == a->ignore) return -1;
    if (k >= 0 && k < a->n) return k;
    fault_set(fault, 1);
    return -1;
}

KFN acc label_weight(GLOBAL const elem *weight, i64 k)
{
    if (k < 0) return 0;
    return weight ? elem_get(weight[k]) : 1;
}

/* label_row_max returns the largest element of a row, label_row_sum the sum of e^(x - largest). */
KFN acc label_row_max(GLOBAL const elem *x, i64 n, LOCAL acc *s)
{
    acc most = -acc_infinity();

    SIMD_MAX(most)
    FOR_LANES(i, n)
    {
        acc v = elem_get(x[i]);
        most = v > most ? v : most;
    }
    return team_max(most, s);
}

KFN acc label_row_sum(GLOBAL const elem *x, i64 n, acc most, LOCAL acc *s)
{
    acc total = 0;

    SIMD_SUM(total)
    FOR_LANES(i, n) total += acc_exp(elem_get(x[i]) - most);
    return team_sum(total, s);
}

/* Returns the sum of weight times -log p over all classes, where -log p = size + (most - x). */
KFN acc label_row_rest(GLOBAL const elem *x, GLOBAL const elem *weight, i64 n, acc most, acc size,
                       LOCAL acc *s)
{
    acc total = 0;

    if (weight) {
        SIMD_SUM(total)
        FOR_LANES(i, n) total += elem_get(weight[i]) * (size + (most - elem_get(x[i])));
    } else {
        SIMD_SUM(total)
        FOR_LANES(i, n) total += size + (most - elem_get(x[i]));
    }
    return team_sum(total, s);
}

KFN void label_row_team(const struct label_row_args *a, i64 line, LOCAL acc *s, GLOBAL acc *loss,
                        GLOBAL acc *factor, GLOBAL const elem *x, GLOBAL const void *label,
                        GLOBAL const elem *weight, GLOBAL u32 *fault)
{
    i64 k = label_of(a, label, line, fault), n = a->n;
    acc w = label_weight(weight, k), e = (acc)a->smoothing, most = 0, size = 0, y = 0;

    x += line * n;
    if (k >= 0) {
        if (a->logits) {
            most = label_row_max(x, n, s);
            size = FUNC(log)(label_row_sum(x, n, most, s));
        }
        y = w * (size + (most - elem_get(x[k])));
        if (e != 0)
            y = (1 - e) * y + e / (acc)n * label_row_rest(x, weight, n, most, size, s);
    }
    if (LANE == 0) loss[line] = y;
    if (LANE == 0 && factor) factor[line] = w;
}
ENTRY_TEAMS_6(label_row, acc, acc, const elem, const void, const elem, u32)

/* Computes the largest element of each of w columns, and the sums of e^(x - largest). */
KFN void label_columns_sums(const struct label_row_args *a, GLOBAL const elem *x, i64 w, acc *most,
                            acc *total)
{
    i64 n = a->n, inner = a->inner;

    for (i64 j = 0; j < w; j++) {
        most[j] = a->logits ? -acc_infinity() : 0;
        total[j] = a->logits ? 0 : 1;
    }
    if (!a->logits) return;
    for (i64 i = 0; i < n; i++) {
        SIMD for (i64 j = 0; j < w; j++)
        {
            acc v = elem_get(x[i * inner + j]);
            most[j] = v > most[j] ? v : most[j];
        }
    }
    for (i64 i = 0; i < n; i++) {
        SIMD for (i64 j = 0; j < w; j++) total[j] += acc_exp(elem_get(x[i * inner + j]) - most[j]);
    }
}

/* label_width returns how many lines from number `at` on are adjacent in memory and computed
 * together; label_first returns the index of the first element of line `at`. */
KFN i64 label_width(const struct label_row_args *a, i64 at, i64 end)
{
    i64 w = a->inner - at % a->inner;

    w = w < end - at ? w : end - at;
    return w < LABEL_LINES ? w : LABEL_LINES;
}
KFN i64 label_first(const struct label_row_args *a, i64 at)
{
    return at / a->inner * a->n * a->inner + at % a->inner;
}

KFN void label_columns_span(const struct label_columns_args *a, i64 begin, i64 count,
                            GLOBAL acc *loss, GLOBAL acc *factor, GLOBAL const elem *x,
                            GLOBAL const void *label, GLOBAL const elem *weight, GLOBAL u32 *fault)
{
    acc most[LABEL_LINES], size[LABEL_LINES], rest[LABEL_LINES], e = (acc)a->smoothing;
    i64 n = a->n, inner = a->inner;

    for (i64 at = begin, w; at < begin + count; at += w) {
        GLOBAL const elem *from = x + label_first(a, at);
        w = label_width(a, at, begin + count);
        label_columns_sums(a, from, w, most, size);
        for (i64 j = 0; j < w; j++) {
            size[j] = FUNC(log)(size[j]);
            rest[j] = 0;
        }
        for (i64 i = 0; e != 0 && i < n; i++) {
            acc each = weight ? elem_get(weight[i]) : 1;
            SIMD for (i64 j = 0; j < w; j++)
                rest[j] += each * (size[j] + (most[j] - elem_get(from[i * inner + j])));
        }
        for (i64 j = 0; j < w; j++) {
            i64 k = label_of(a, label, at + j, fault);
            acc f = label_weight(weight, k), y = 0;
            if (k >= 0) y = f * (size[j] + (most[j] - elem_get(from[k * inner + j])));
            if (k >= 0 && e != 0) y = (1 - e) * y + e / (acc)n * rest[j];
            loss[at + j] = y;
            if (factor) factor[at + j] = f;
        }
    }
}
ENTRY_SPANS_6(label_columns, acc, acc, const elem, const void, const elem, u32)

/* dx of class i is g (share p - own [i is the label] - e / n weight). This returns `share`, the
 * factor of p from all terms. For a line that does not count, g is not read and dx is 0. */
KFN acc label_share(const struct label_row_args *a, acc own, acc weights)
{
    return a->logits ? own + (acc)a->smoothing / (acc)a->n * weights : 0;
}

/* Returns the sum of the weights, or 0 if the sum is not needed. */
KFN acc label_weights(const struct label_row_args *a, GLOBAL const elem *weight)
{
    acc total = 0;

    if (a->smoothing == 0) return 0;
    if (!weight) return (acc)a->n;
    for (i64 i = 0; i < a->n; i++) total += elem_get(weight[i]);
    return total;
}

KFN void label_row_grad_team(const struct label_row_grad_args *a, i64 line, LOCAL acc *s,
                             GLOBAL elem *dx, GLOBAL const elem *x, GLOBAL const void *label,
                             GLOBAL const acc *dloss, GLOBAL const elem *weight, GLOBAL u32 *fault)
{
    i64 k = label_of(a, label, line, fault), n = a->n;
    acc e = (acc)a->smoothing, each = e / (acc)n, own, share, most = 0, total = 1, g;

    x += line * n;
    dx += line * n;
    if (k < 0) {
        FOR_LANES(i, n) dx[i] = elem_put(0);
        return;
    }
    if (a->logits) {
        most = label_row_max(x, n, s);
        total = label_row_sum(x, n, most, s);
    }
    own = (1 - e) * label_weight(weight, k);
    share = label_share(a, own, label_weights(a, weight)) / total;
    g = dloss[line];
    FOR_LANES(i, n)
    {
        acc d = -(i == k ? own : 0);
        if (e != 0) d -= each * label_weight(weight, i);
        if (a->logits) d += share * acc_exp(elem_get(x[i]) - most);
        dx[i] = elem_put(g * d);
    }
}
ENTRY_TEAMS_6(label_row_grad, elem, const elem, const void, const acc, const elem, u32)

KFN void label_columns_grad_span(const struct label_columns_grad_args *a, i64 begin, i64 count,
                                 GLOBAL elem *dx, GLOBAL const elem *x, GLOBAL const void *label,
                                 GLOBAL const acc *dloss, GLOBAL const elem *weight,
                                 GLOBAL u32 *fault)
{
    acc most[LABEL_LINES], share[LABEL_LINES], own[LABEL_LINES], g[LABEL_LINES];
    i64 label_at[LABEL_LINES], n = a->n, inner = a->inner;
    acc e = (acc)a->smoothing, weights = label_weights(a, weight);

    for (i64 at = begin, w; at < begin + count; at += w) {
        i64 first = label_first(a, at);
        w = label_width(a, at, begin + count);
        label_columns_sums(a, x + first, w, most, share);
        for (i64 j = 0; j < w; j++) {
            label_at[j] = label_of(a, label, at + j, fault);
            own[j] = (1 - e) * label_weight(weight, label_at[j]);
            share[j] = label_share(a, own[j], weights) / share[j];
            g[j] = dloss[at + j];
        }
        for (i64 i = 0; i < n; i++) {
            acc each = e != 0 ? e / (acc)n * label_weight(weight, i) : 0;
            SIMD for (i64 j = 0; j < w; j++)
            {
                i64 place = first + i * inner + j;
                acc d = -(i == label_at[j] ? own[j] : 0) - each;
                if (a->logits) d += share[j] * acc_exp(elem_get(x[place]) - most[j]);
                dx[place] = elem_put(label_at[j] < 0 ? 0 : g[j] * d);
            }
        }
    }
}
ENTRY_SPANS_6(label_columns_grad, elem, const elem, const void, const acc, const elem, u32)
#endif

#endif
