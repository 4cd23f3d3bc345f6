/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_reduce.h: computes where a team of a reduction finds its terms, for the families that
 * reduce. Each family has its own accumulators and the same two algorithms: along rows of terms,
 * where a host keeps partial results side by side in vectors and a GPU in lanes; or down columns,
 * where the results themselves are side by side in memory. */
#ifndef BP_OPS_COMMON_KERNEL_REDUCE_H
#define BP_OPS_COMMON_KERNEL_REDUCE_H

#include "../../dialect/dialect.h"
#include "kernel_formulas.h"

enum {
    REDUCE_AXES = 4,     /* kept and reduced axes each: of eight axes, neighbours of one kind are
                            joined */
    REDUCE_COLUMNS = 64, /* results that a team computes side by side */
};

/* A reduction of a contiguous x, of which some axes are kept and some are reduced; y is contiguous.
 * A team computes `wide` neighbouring results, at most REDUCE_COLUMNS, or one result along a row.
 * The terms of each result are cut into parts, so that a few results still have many teams: team t
 * computes part t / teams of results t % teams. Other teams then join the parts: of `ends`
 * neighbouring results, one lane per result; or of one result, by all lanes. */
struct reduce_args {
    i64 op;
    i64 outputs, terms;     /* number of results, and of terms of each */
    i64 parts, part, teams; /* terms in a part; teams of one part */
    i64 wide, blocks;       /* results of a team; teams along the innermost kept axis */
    i64 ends;               /* results whose parts one team joins */
    i64 kept_rank, term_rank;
    i64 kept_shape[REDUCE_AXES], kept_stride[REDUCE_AXES];
    i64 term_shape[REDUCE_AXES], term_stride[REDUCE_AXES];
    i64 index_wide; /* results are i64, otherwise i32 or u8 */
    host_real p;    /* exponent of a norm */
};

#ifdef ELEM
#include "../../dialect/entry.h"

/* A function whose op is a constant at each call, so that a host inlines it. */
#ifdef ON_HOST
#define REDUCE_FN static inline __attribute__((always_inline))
#else
#define REDUCE_FN KFN
#endif

/* The work of a team: terms begin to end - 1 of results out to out + n - 1, which are neighbours in
 * y. Their first terms are in x from element `from` on, `step` elements apart. at: index of the
 * team's first partial result. */
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

/* Returns the number of results whose parts a team joins, and sets *first to the first of them. */
KFN i64 reduce_end(const struct reduce_args *a, i64 team, i64 *first)
{
    *first = team * a->ends;
    return a->outputs - *first < a->ends ? a->outputs - *first : a->ends;
}

/* Returns the distance in elements from the first term to term t, and sets *run to the number of
 * terms from t on that are evenly spaced. */
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
