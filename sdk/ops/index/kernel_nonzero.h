/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_nonzero.h: finds the indices of elements that are not 0, by size of elements (elem.h).
 * Each team counts the elements of its part, then writes their indices after those of the parts
 * before. The order is therefore the order of the elements, and results are equal at any vector
 * width. */
#ifndef BP_OPS_INDEX_KERNEL_NONZERO_H
#define BP_OPS_INDEX_KERNEL_NONZERO_H

#include "../../dialect/dialect.h"

enum { NONZERO_RANK = 8 };

/* n elements, of `words` elem each; a team has `part` of them. An element of x is not 0 if any bit
 * of mask is set in it. */
struct nonzero_parts {
    i64 n, part, words;
    u64 mask;
};

struct nonzero_count_args {
    struct nonzero_parts x;
};
struct nonzero_write_args {
    struct nonzero_parts x;
    i64 parts, rank;
    i64 shape[NONZERO_RANK];
};

#ifdef ELEM
#include "../../dialect/entry.h"

KFN int nonzero_is(const struct nonzero_parts *a, GLOBAL const elem *x, i64 i)
{
    elem bits = x[i * a->words];

    if (a->words > 1) bits = (bits & (elem)a->mask) | x[i * a->words + 1];
    return (bits & (elem)a->mask) != 0;
}

KFN i64 nonzero_end(const struct nonzero_parts *a, i64 team)
{
    i64 end = (team + 1) * a->part;

    return end < a->n ? end : a->n;
}

KFN void nonzero_count_team(const struct nonzero_count_args *a, i64 team, LOCAL acc *s,
                            GLOBAL i64 *found, GLOBAL const elem *x)
{
    i64 begin = team * a->x.part, end = nonzero_end(&a->x, team);
    acc count = 0;

    FOR_LANES(i, end - begin) count += (acc)nonzero_is(&a->x, x, begin + i);
    count = team_sum(count, s);
    if (LANE == 0) found[team] = (i64)count;
}
ENTRY_TEAMS_2(nonzero_count, i64, const elem)

/* Returns the sum of v in the lanes before this one. */
KFN acc nonzero_before(acc v, LOCAL acc *s)
{
#ifdef ON_HOST
    (void)v;
    (void)s;
    return 0;
#else
    acc sum = v;

    for (i64 step = 1; step < LANES; step *= 2) {
        s[LANE] = sum;
        BARRIER();
        if (LANE >= step) sum += s[LANE - step];
        BARRIER();
    }
    return sum - v;
#endif
}

/* Writes the row of indices of element i. */
KFN void nonzero_put(const struct nonzero_write_args *a, GLOBAL i64 *row, i64 i)
{
    for (i64 axis = a->rank - 1; axis >= 0; axis--) {
        row[axis] = i % a->shape[axis];
        i /= a->shape[axis];
    }
}

/* Each lane has adjacent elements of the part. The last lane of the last team writes the total. */
KFN void nonzero_write_team(const struct nonzero_write_args *a, i64 team, LOCAL acc *s,
                            GLOBAL i64 *index, GLOBAL i64 *total, GLOBAL const i64 *found,
                            GLOBAL const elem *x)
{
    i64 begin = team * a->x.part, end = nonzero_end(&a->x, team);
    i64 share = (end - begin + LANES - 1) / LANES, row = 0;
    i64 from = begin + LANE * share, to = from + share < end ? from + share : end;
    acc count = 0;

    for (i64 i = 0; i < team; i++) row += found[i];
    for (i64 i = from; i < to; i++) count += (acc)nonzero_is(&a->x, x, i);
    row += (i64)nonzero_before(count, s);
    for (i64 i = from; i < to; i++)
        if (nonzero_is(&a->x, x, i)) nonzero_put(a, index + a->rank * row++, i);
    if (team == a->parts - 1 && LANE == LANES - 1) *total = row;
}
ENTRY_TEAMS_4(nonzero_write, i64, i64, const i64, const elem)
#endif

#endif
