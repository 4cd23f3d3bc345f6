/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_count.h: counts elements that are not 0, and checks whether any or all are (count_nonzero,
 * any, all). */
#ifndef BP_OPS_REDUCE_KERNEL_COUNT_H
#define BP_OPS_REDUCE_KERNEL_COUNT_H

#include "../common/kernel_reduce.h"

struct count_args {
    struct reduce_args r;
};
struct count_end_args {
    struct reduce_args r;
};

#ifdef ELEM
/* 1 if x is not 0, else 0. Zeros of both signs are 0; NaN is not. */
KFN i64 count_one(elem x)
{
#if defined(ELEM_COMPLEX)
    return x.re != 0 || x.im != 0;
#elif defined(ELEM_HALF)
    return (x & 0x7fff) != 0;
#else
    return x != 0;
#endif
}

/* Counts n contiguous elements. */
KFN i64 count_run(GLOBAL const elem *x, i64 n)
{
    i64 count = 0;

    SIMD_SUM(count) for (i64 i = 0; i < n; i++) count += count_one(x[i]);
    return count;
}

/* Writes the result for a->terms terms, of which `count` are not 0. */
KFN void count_finish(const struct reduce_args *a, i64 out, i64 count, GLOBAL void *y)
{
    if (a->op == COUNT_nonzero) ((GLOBAL i64 *)y)[out] = count;
    else ((GLOBAL u8 *)y)[out] = a->op == COUNT_any ? count > 0 : count == a->terms;
}

KFN void count_put(const struct reduce_args *a, i64 out, i64 at, i64 count, GLOBAL void *y,
                   GLOBAL i64 *partial)
{
    if (a->parts > 1) partial[at] = count;
    else count_finish(a, out, count, y);
}

/* Each lane passes its count; each lane receives the sum. A part has fewer than 2^32 terms. */
TEAM_JOIN(count_team_word, u32, a + b)
KFN i64 count_team_sum(i64 count, LOCAL acc *scratch)
{
#ifdef ON_HOST
    (void)scratch;
    return count;
#else
    return count_team_word(0, (u32)count, scratch);
#endif
}

KFN void count_row(const struct reduce_args *a, const struct reduce_place *at, LOCAL acc *scratch,
                   GLOBAL void *y, GLOBAL i64 *partial, GLOBAL const elem *x)
{
    i64 count = 0;

#ifdef ON_HOST
    i64 step = a->term_stride[a->term_rank - 1];

    for (i64 t = at->begin, run; t < at->end; t += run) {
        const elem *from = x + reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        if (step == 1) count += count_run(from, run);
        else
            for (i64 i = 0; i < run; i++) count += count_one(from[i * step]);
    }
#else
    FOR_LANES(i, at->end - at->begin)
    {
        i64 run;
        count += count_one(x[reduce_term(a, at->begin + i, &run)]);
    }
#endif
    count = count_team_sum(count, scratch);
    if (LANE == 0) count_put(a, at->out, at->at, count, y, partial);
}

KFN void count_columns(const struct reduce_args *a, const struct reduce_place *at, GLOBAL void *y,
                       GLOBAL i64 *partial, GLOBAL const elem *x)
{
#ifdef ON_HOST
    i64 count[REDUCE_COLUMNS], step = a->term_stride[a->term_rank - 1], n = at->n;

    for (i64 j = 0; j < n; j++) count[j] = 0;
    for (i64 t = at->begin, run; t < at->end; t += run) {
        const elem *from = x + reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        for (i64 i = 0; i < run; i++, from += step) {
            SIMD for (i64 j = 0; j < n; j++) count[j] += count_one(from[j]);
        }
    }
    for (i64 j = 0; j < n; j++) count_put(a, at->out + j, at->at + j, count[j], y, partial);
#else
    FOR_LANES(j, at->n)
    {
        i64 count = 0;
        for (i64 t = at->begin, run; t < at->end; t++)
            count += count_one(x[reduce_term(a, t, &run) + j]);
        count_put(a, at->out + j, at->at + j, count, y, partial);
    }
#endif
}

KFN void count_team(const struct count_args *a, i64 team, LOCAL acc *scratch, GLOBAL void *y,
                    GLOBAL i64 *partial, GLOBAL const elem *x)
{
    struct reduce_place at = reduce_place(&a->r, team);

    if (a->r.wide > 1) count_columns(&a->r, &at, y, partial, x + at.from);
    else count_row(&a->r, &at, scratch, y, partial, x + at.from);
}
ENTRY_TEAMS_3(count, void, i64, const elem)

/* Adds up the partial counts first, first + by and so on of one result. */
KFN i64 count_parts(const struct reduce_args *a, GLOBAL const i64 *of, i64 first, i64 by)
{
    i64 count = 0;

    for (i64 part = first; part < a->parts; part += by) count += of[part * a->outputs];
    return count;
}

/* Adds up the lanes' counts, which may exceed 32 bits. */
KFN i64 count_join(i64 count, LOCAL acc *scratch)
{
    u64 low = (u64)count_team_sum(count & 0xffff, scratch);
    u64 middle = (u64)count_team_sum(count >> 16 & 0xffff, scratch);
    u64 high = (u64)count_team_sum(count >> 32, scratch);

    return (i64)(low + (middle << 16) + (high << 32));
}

KFN void count_end_team(const struct count_end_args *a, i64 team, LOCAL acc *scratch,
                        GLOBAL void *y, GLOBAL const i64 *partial)
{
    i64 first, n = reduce_end(&a->r, team, &first), count;

    if (a->r.ends > 1) {
        FOR_LANES(j, n)
        count_finish(&a->r, first + j, count_parts(&a->r, partial + first + j, 0, 1), y);
    } else {
        count = count_join(count_parts(&a->r, partial + first, LANE, LANES), scratch);
        if (LANE == 0) count_finish(&a->r, first, count, y);
    }
}
ENTRY_TEAMS_2(count_end, void, const i64)
#endif

#endif
