/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: finds the largest and the smallest elements and their indices (max, argmax, cummax).
 *
 * Numbers are compared as keys: integers of the same order, in which both zeros are equal and NaN
 * is the largest. For a minimum the kernel takes the largest key of the reversed order, so that NaN
 * wins there too. */
#ifndef BP_OPS_MINMAX_KERNEL_H
#define BP_OPS_MINMAX_KERNEL_H

#include "../common/kernel_reduce.h"

struct minmax_args {
    struct reduce_args r;
};
struct minmax_end_args {
    struct reduce_args r;
};
struct arg_minmax_args {
    struct reduce_args r;
};
struct arg_minmax_end_args {
    struct reduce_args r;
};

/* x is [lines / inner, n, inner]. wide: indices are i64, else i32. */
struct cumulative_args {
    i64 op, n, inner, wide;
};
enum { CUMULATIVE_LINES = 64 }; /* neighbouring lines that a lane scans together */

#ifdef ELEM
#if defined(ELEM_f64) || defined(ELEM_i64) || defined(ELEM_u64)
typedef i64 key;
typedef u64 key_bits;
#else
typedef i32 key;
typedef u32 key_bits;
#endif

KFN key key_highest(void)
{
    return (key)(~(key_bits)0 >> 1);
}
KFN key key_lowest(void)
{
    return -key_highest() - 1;
}

#ifdef ELEM_FLOAT
/* number_bits returns the bits of a number; SIGN is the sign bit, INFINITE the bits of infinity. */
#if defined(ELEM_f32) || defined(ELEM_f64)
KFN key_bits number_bits(elem x)
{
#ifdef ELEM_f32
    return f32_bits(x);
#else
    return f64_bits(x);
#endif
}
KFN elem number_from_bits(key_bits bits)
{
#ifdef ELEM_f32
    return f32_from_bits(bits);
#else
    return f64_from_bits(bits);
#endif
}
#else
KFN key_bits number_bits(elem x)
{
    return x;
}
KFN elem number_from_bits(key_bits bits)
{
    return (elem)bits;
}
#endif
#if defined(ELEM_f32)
#define SIGN ((key_bits)0x80000000)
#define INFINITE ((key_bits)0x7f800000)
#elif defined(ELEM_f64)
#define SIGN ((key_bits)1 << 63)
#define INFINITE ((key_bits)0x7ff << 52)
#elif defined(ELEM_f16)
#define SIGN ((key_bits)0x8000)
#define INFINITE ((key_bits)0x7c00)
#else
#define SIGN ((key_bits)0x8000)
#define INFINITE ((key_bits)0x7f80)
#endif

REDUCE_FN key key_of(int op, elem x)
{
    key_bits bits = number_bits(x), size = bits & (SIGN - 1);
    int below = (bits & SIGN) != 0;
    key k = (below != (op == MINMAX_min)) ? -(key)size : (key)size;

    return size > INFINITE ? key_highest() : k;
}

KFN elem key_number(int op, key k)
{
    key_bits size = k < 0 ? 0 - (key_bits)k : (key_bits)k;
    int below = (k < 0) != (op == MINMAX_min);

    if (k == key_highest()) return number_from_bits(SIGN - 1); /* the key of NaN */
    return number_from_bits(below && size ? size | SIGN : size);
}
#undef SIGN
#undef INFINITE
#else
/* The value to xor unsigned integers of the key's width with, so that 0 becomes the lowest key. */
KFN key_bits key_moved(void)
{
#if defined(ELEM_u32) || defined(ELEM_u64)
    return (key_bits)key_lowest();
#else
    return 0;
#endif
}

REDUCE_FN key key_of(int op, elem x)
{
    key k = (key)((key_bits)elem_ord(x) ^ key_moved());

    return op == MINMAX_min ? ~k : k;
}

KFN elem key_number(int op, key k)
{
    return elem_of_ord((ord)((key_bits)(op == MINMAX_min ? ~k : k) ^ key_moved()));
}
#endif

/* Each lane passes its key k, and each lane receives the highest key of the team. */
TEAM_JOIN(team_highest_of, key, b > a ? b : a)
KFN key team_highest(key k, LOCAL acc *scratch)
{
    return team_highest_of(0, k, scratch);
}

/* Intel's OpenCL compiler for processors (2026.2) miscompiles a loop over elements of i64 that
 * computes the highest complement, as for a minimum, by `k > best ? k : best`: the result is the
 * complement of the largest element. Loops with the function max are right. */
KFN key key_max(key a, key b)
{
#ifdef __OPENCL_C_VERSION__
    return max(a, b);
#else
    return b > a ? b : a;
#endif
}

REDUCE_FN key highest(int op, key best, GLOBAL const elem *x, i64 n, i64 step)
{
    if (step == 1) {
        SIMD_MAX(best) for (i64 i = 0; i < n; i++) best = key_max(best, key_of(op, x[i]));
        return best;
    }
    for (i64 i = 0; i < n; i++) best = key_max(best, key_of(op, x[i * step]));
    return best;
}

REDUCE_FN void minmax_put(int op, const struct reduce_args *a, i64 out, i64 at, key best,
                          GLOBAL elem *y, GLOBAL key *partial)
{
    if (a->parts > 1) partial[at] = best;
    else y[out] = key_number(op, best);
}

REDUCE_FN void minmax_row(int op, const struct reduce_args *a, const struct reduce_place *at,
                          LOCAL acc *scratch, GLOBAL elem *y, GLOBAL key *partial,
                          GLOBAL const elem *x)
{
    key best = key_lowest();

#ifdef ON_HOST
    for (i64 t = at->begin, run; t < at->end; t += run) {
        i64 from = reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        best = highest(op, best, x + from, run, a->term_stride[a->term_rank - 1]);
    }
#else
    FOR_LANES(i, at->end - at->begin)
    {
        i64 run, from = reduce_term(a, at->begin + i, &run);
        best = highest(op, best, x + from, 1, 1);
    }
#endif
    best = team_highest(best, scratch);
    if (LANE == 0) minmax_put(op, a, at->out, at->at, best, y, partial);
}

REDUCE_FN void minmax_columns(int op, const struct reduce_args *a, const struct reduce_place *at,
                              GLOBAL elem *y, GLOBAL key *partial, GLOBAL const elem *x)
{
#ifdef ON_HOST
    key best[REDUCE_COLUMNS];
    i64 step = a->term_stride[a->term_rank - 1], n = at->n;

    for (i64 j = 0; j < n; j++) best[j] = key_lowest();
    for (i64 t = at->begin, run; t < at->end; t += run) {
        const elem *from = x + reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        for (i64 i = 0; i < run; i++, from += step) {
            SIMD for (i64 j = 0; j < n; j++)
            {
                key k = key_of(op, from[j]);
                best[j] = k > best[j] ? k : best[j];
            }
        }
    }
    for (i64 j = 0; j < n; j++) minmax_put(op, a, at->out + j, at->at + j, best[j], y, partial);
#else
    FOR_LANES(j, at->n)
    {
        key best = key_lowest();
        for (i64 t = at->begin, run; t < at->end; t++)
            best = highest(op, best, x + reduce_term(a, t, &run) + j, 1, 1);
        minmax_put(op, a, at->out + j, at->at + j, best, y, partial);
    }
#endif
}

REDUCE_FN void minmax_op(int op, const struct reduce_args *a, i64 team, LOCAL acc *scratch,
                         GLOBAL elem *y, GLOBAL key *partial, GLOBAL const elem *x)
{
    struct reduce_place at = reduce_place(a, team);

    if (a->wide > 1) minmax_columns(op, a, &at, y, partial, x + at.from);
    else minmax_row(op, a, &at, scratch, y, partial, x + at.from);
}

KFN void minmax_team(const struct minmax_args *a, i64 team, LOCAL acc *scratch, GLOBAL elem *y,
                     GLOBAL key *partial, GLOBAL const elem *x)
{
    if (a->r.op == MINMAX_max) minmax_op(MINMAX_max, &a->r, team, scratch, y, partial, x);
    else minmax_op(MINMAX_min, &a->r, team, scratch, y, partial, x);
}
ENTRY_TEAMS_3(minmax, elem, key, const elem)

/* The highest of the partial results first, first + by, first + 2 by and so on of one result. */
KFN key minmax_parts(const struct reduce_args *a, GLOBAL const key *of, i64 first, i64 by)
{
    key best = key_lowest();

    for (i64 part = first; part < a->parts; part += by) {
        key k = of[part * a->outputs];
        best = k > best ? k : best;
    }
    return best;
}

KFN void minmax_end_team(const struct minmax_end_args *a, i64 team, LOCAL acc *scratch,
                         GLOBAL elem *y, GLOBAL const key *partial)
{
    i64 first, n = reduce_end(&a->r, team, &first);
    key best;

    if (a->r.ends > 1) {
        FOR_LANES(j, n)
        {
            best = minmax_parts(&a->r, partial + first + j, 0, 1);
            y[first + j] = key_number((int)a->r.op, best);
        }
    } else {
        best = team_highest(minmax_parts(&a->r, partial + first, LANE, LANES), scratch);
        if (LANE == 0) y[first] = key_number((int)a->r.op, best);
    }
}
ENTRY_TEAMS_2(minmax_end, elem, const key)

/* The highest key and the index of its first occurrence. */
struct found {
    key best;
    i64 at;
};

KFN void arg_put(const struct reduce_args *a, i64 out, i64 at, const struct found *found,
                 GLOBAL void *index, GLOBAL key *partial, GLOBAL i64 *place)
{
    if (a->parts > 1) {
        partial[at] = found->best;
        place[at] = found->at;
    } else {
        index_put(index, a->index_wide, out, found->at);
    }
}

/* Updates `found` with n terms, of which the first has index t. */
REDUCE_FN void arg_run(int op, struct found *found, GLOBAL const elem *x, i64 t, i64 n, i64 step)
{
    enum { BLOCK = 512 };

    for (i64 begin = 0; begin < n; begin += BLOCK) {
        i64 size = n - begin < BLOCK ? n - begin : BLOCK, i = 0;
        GLOBAL const elem *from = x + begin * step;
        key best = highest(op, found->best, from, size, step);
        if (best == found->best && found->at >= 0) continue;
        while (key_of(op, from[i * step]) != best) i++;
        found->best = best;
        found->at = t + begin + i;
    }
}

#ifndef ON_HOST
TEAM_JOIN(team_nearest, u32, b < a ? b : a)
#endif

/* Joins the lanes: the highest key of all lanes, and the first index that has this key; lanes
 * compare indices as distances to begin. */
KFN void arg_team_join(struct found *found, i64 begin, LOCAL acc *scratch)
{
#ifdef ON_HOST
    (void)found;
    (void)begin;
    (void)scratch;
#else
    key best = team_highest(found->best, scratch);
    int mine = found->best == best && found->at >= 0;

    found->best = best;
    found->at = begin + team_nearest(0, mine ? (u32)(found->at - begin) : 0xffffffff, scratch);
#endif
}

REDUCE_FN void arg_row(int op, const struct reduce_args *a, const struct reduce_place *at,
                       LOCAL acc *scratch, GLOBAL void *index, GLOBAL key *partial,
                       GLOBAL i64 *place, GLOBAL const elem *x)
{
    struct found found = {key_lowest(), -1};

#ifdef ON_HOST
    for (i64 t = at->begin, run; t < at->end; t += run) {
        i64 from = reduce_term(a, t, &run);
        run = run < at->end - t ? run : at->end - t;
        arg_run(op, &found, x + from, t, run, a->term_stride[a->term_rank - 1]);
    }
#else
    FOR_LANES(i, at->end - at->begin)
    {
        i64 run, from = reduce_term(a, at->begin + i, &run);
        arg_run(op, &found, x + from, at->begin + i, 1, 1);
    }
#endif
    arg_team_join(&found, at->begin, scratch);
    if (LANE == 0) arg_put(a, at->out, at->at, &found, index, partial, place);
}

REDUCE_FN void arg_columns(int op, const struct reduce_args *a, const struct reduce_place *at,
                           GLOBAL void *index, GLOBAL key *partial, GLOBAL i64 *place,
                           GLOBAL const elem *x)
{
#ifdef ON_HOST
    struct found found;
    key best[REDUCE_COLUMNS];
    i64 where[REDUCE_COLUMNS], n = at->n;

    for (i64 j = 0; j < n; j++) where[j] = -1;
    for (i64 t = at->begin, run; t < at->end; t++) {
        const elem *from = x + reduce_term(a, t, &run);
        SIMD for (i64 j = 0; j < n; j++)
        {
            key k = key_of(op, from[j]);
            int better = t == at->begin || k > best[j];
            best[j] = better ? k : best[j];
            where[j] = better ? t : where[j];
        }
    }
    for (i64 j = 0; j < n; j++) {
        found.best = best[j];
        found.at = where[j];
        arg_put(a, at->out + j, at->at + j, &found, index, partial, place);
    }
#else
    FOR_LANES(j, at->n)
    {
        struct found found = {key_lowest(), -1};
        for (i64 t = at->begin, run; t < at->end; t++)
            arg_run(op, &found, x + reduce_term(a, t, &run) + j, t, 1, 1);
        arg_put(a, at->out + j, at->at + j, &found, index, partial, place);
    }
#endif
}

REDUCE_FN void arg_op(int op, const struct reduce_args *a, i64 team, LOCAL acc *scratch,
                      GLOBAL void *index, GLOBAL key *partial, GLOBAL i64 *place,
                      GLOBAL const elem *x)
{
    struct reduce_place at = reduce_place(a, team);

    if (a->wide > 1) arg_columns(op, a, &at, index, partial, place, x + at.from);
    else arg_row(op, a, &at, scratch, index, partial, place, x + at.from);
}

KFN void arg_minmax_team(const struct arg_minmax_args *a, i64 team, LOCAL acc *scratch,
                         GLOBAL void *index, GLOBAL key *partial, GLOBAL i64 *place,
                         GLOBAL const elem *x)
{
    if (a->r.op == MINMAX_max)
        arg_op(MINMAX_max, &a->r, team, scratch, index, partial, place, x);
    else arg_op(MINMAX_min, &a->r, team, scratch, index, partial, place, x);
}
ENTRY_TEAMS_4(arg_minmax, void, key, i64, const elem)

/* The highest of the partial results first, first + by and so on of one result. Partial results are
 * in the order of their terms, so the first of equal ones is kept. `at` is the number of the
 * partial result. */
KFN struct found arg_parts(const struct reduce_args *a, GLOBAL const key *of, i64 first, i64 by)
{
    struct found found = {key_lowest(), -1};

    for (i64 part = first; part < a->parts; part += by) {
        key k = of[part * a->outputs];
        if (found.at >= 0 && k <= found.best) continue;
        found.best = k;
        found.at = part;
    }
    return found;
}

KFN void arg_minmax_end_team(const struct arg_minmax_end_args *a, i64 team, LOCAL acc *scratch,
                             GLOBAL void *index, GLOBAL const key *partial, GLOBAL const i64 *place)
{
    i64 first, n = reduce_end(&a->r, team, &first);
    struct found found;

    if (a->r.ends > 1) {
        FOR_LANES(j, n)
        {
            found = arg_parts(&a->r, partial + first + j, 0, 1);
            index_put(index, a->r.index_wide, first + j,
                      place[found.at * a->r.outputs + first + j]);
        }
    } else {
        found = arg_parts(&a->r, partial + first, LANE, LANES);
        arg_team_join(&found, 0, scratch);
        if (LANE == 0)
            index_put(index, a->r.index_wide, first, place[found.at * a->r.outputs + first]);
    }
}
ENTRY_TEAMS_3(arg_minmax_end, void, const key, const i64)

/* The highest element so far along each of w neighbouring lines that begin at element `from`; of
 * equal elements the index is that of the last. */
REDUCE_FN void cumulative_lines(int op, const struct cumulative_args *a, i64 from, i64 w,
                                GLOBAL elem *y, GLOBAL void *index, GLOBAL const elem *x)
{
    key best[CUMULATIVE_LINES];
    i64 where[CUMULATIVE_LINES];

    for (i64 j = 0; j < w; j++) {
        best[j] = key_lowest();
        where[j] = 0;
    }
    for (i64 i = 0, at = from; i < a->n; i++, at += a->inner) {
        SIMD for (i64 j = 0; j < w; j++)
        {
            key k = key_of(op, x[at + j]);
            where[j] = k >= best[j] ? i : where[j];
            best[j] = k >= best[j] ? k : best[j];
            y[at + j] = key_number(op, best[j]);
        }
        for (i64 j = 0; j < w; j++) index_put(index, a->wide, at + j, where[j]);
    }
}

KFN void cumulative_span(const struct cumulative_args *a, i64 begin, i64 n, GLOBAL elem *y,
                         GLOBAL void *index, GLOBAL const elem *x)
{
    for (i64 end = begin + n; begin < end;) {
        i64 at = begin % a->inner, w = a->inner - at < end - begin ? a->inner - at : end - begin;
        i64 from = begin / a->inner * a->n * a->inner + at;
        w = w < CUMULATIVE_LINES ? w : CUMULATIVE_LINES;
        if (a->op == MINMAX_max) cumulative_lines(MINMAX_max, a, from, w, y, index, x);
        else cumulative_lines(MINMAX_min, a, from, w, y, index, x);
        begin += w;
    }
}
ENTRY_SPANS_3(cumulative, elem, void, const elem)
#endif

#endif
