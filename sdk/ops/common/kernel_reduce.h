/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reduce.h: where a team of a reduction finds its terms, for the families that reduce. Each
 * has its own accumulators, and the same two ways: along rows of terms, where a host has partial
 * results side by side and a GPU its lanes, or down columns, where the results themselves lie
 * so. */
#ifndef BP_KERNELS_REDUCE_H
#define BP_KERNELS_REDUCE_H

#include "../../dialect/entry.h"
#include "kernel_reduce_args.h"

/* A function whose op is a constant at each call. */
#ifdef ON_HOST
#define REDUCE_FN static inline __attribute__((always_inline))
#else
#define REDUCE_FN KFN
#endif

/* A team's work: terms begin to end - 1 of results out to out + n - 1, neighbours in y, whose first
 * terms lie from elements after that of x on, step elements apart. at: of its first partial result.
 * */
struct reduce_place {
    i64 begin, end, out, n, from, step, at;
};

KFN struct reduce_place reduce_place(const struct reduce_args *a, i64 team)
{
    struct reduce_place p;
    i64 part = team / a->teams, row = team % a->teams / a->blocks;
    i64 first = team % a->blocks * a->wide, last = a->kept_rank - 1;
    i64 length = a->kept_shape[last];

    p.begin = part * a->part;
    p.end = p.begin + a->part < a->terms ? p.begin + a->part : a->terms;
    p.out = row * length + first;
    p.n = length - first < a->wide ? length - first : a->wide;
    p.step = a->kept_stride[last];
    p.from = first * p.step;
    p.at = part * a->outputs + p.out;
    for (i64 i = last - 1; i >= 0; i--) {
        p.from += row % a->kept_shape[i] * a->kept_stride[i];
        row /= a->kept_shape[i];
    }
    return p;
}

/* How many results a team joins the parts of, and the first of them. */
KFN i64 reduce_end(const struct reduce_args *a, i64 team, i64 *first)
{
    *first = team * a->ends;
    return a->outputs - *first < a->ends ? a->outputs - *first : a->ends;
}

/* Elements from the first term to term t, and how many terms from t on are evenly apart. */
KFN i64 reduce_term(const struct reduce_args *a, i64 t, i64 *run)
{
    i64 last = a->term_rank - 1, at = t % a->term_shape[last];
    i64 from = at * a->term_stride[last];

    *run = a->term_shape[last] - at;
    t /= a->term_shape[last];
    for (i64 i = last - 1; i >= 0; i--) {
        from += t % a->term_shape[i] * a->term_stride[i];
        t /= a->term_shape[i];
    }
    return from;
}

#endif
