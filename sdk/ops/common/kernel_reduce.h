/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reduce.h: where a team of a reduction finds its terms, for the families that reduce. Each
 * has its own accumulators, and the same two ways: along rows of terms, where a host has partial
 * results side by side and a GPU its lanes, or down columns, where the results themselves lie
 * so. */
#ifndef BP_OPS_COMMON_KERNEL_REDUCE_H
#define BP_OPS_COMMON_KERNEL_REDUCE_H

#include "../../dialect/dialect.h"
#include "kernel_formulas.h"

enum {
    REDUCE_AXES = 4,     /* of eight axes that stay and go in turn, joined with like neighbours */
    REDUCE_COLUMNS = 64, /* results that a team makes side by side */
};

/* A contiguous x of which some axes stay and some go; y is contiguous. Results are made in teams of
 * `wide` neighbours, with REDUCE_COLUMNS at most, or by rows, one a team. The terms of each are cut
 * into parts, so that a few results have many teams: team t makes part t / teams of results t %
 * teams. Other teams join the parts of `ends` neighbouring results, a lane each result; or of one,
 * by all lanes. */
struct reduce_args {
    i64 op;
    i64 outputs, terms;     /* results, terms of each */
    i64 parts, part, teams; /* terms in a part; teams of one part */
    i64 wide, blocks;       /* results of a team; teams in a run of the innermost axis that stays */
    i64 ends;               /* results that a team joins the parts of */
    i64 kept_rank, term_rank;
    i64 kept_shape[REDUCE_AXES], kept_stride[REDUCE_AXES];
    i64 term_shape[REDUCE_AXES], term_stride[REDUCE_AXES];
    i64 index_wide; /* results are i64, else i32 or u8 */
    host_real p;    /* of a norm */
};

#ifdef ELEM
#include "../../dialect/entry.h"

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

#endif
