/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes attention without a matrix of scores. Keys are processed block by block, and
 * the sum so far is scaled whenever a larger score is found (M. Milakov and N. Gimelshein, Online
 * normalizer calculation for softmax, 2018).
 *
 * A team has up to ATTENTION_ROWS queries of one head. On a GPU the lanes of a team share the keys
 * of one query, one query after the other. A host keeps queries side by side in vectors, so that it
 * packs neither k nor v: kernel_host.h. */
#ifndef BP_OPS_ATTENTION_KERNEL_H
#define BP_OPS_ATTENTION_KERNEL_H

#include "../../dialect/dialect.h"

enum {
    ATTENTION_AXES = 7,   /* before the lengths; the axis of heads counts twice (k's heads,
                             group) */
    ATTENTION_ROWS = 64,  /* queries of a team */
    ATTENTION_WIDTH = 256, /* columns of v of a team */
};

/* The strides of an operand: along the axes before the lengths, along a length, and along the last
 * axis. The mask has the strides of scores: length is queries, last is keys. */
struct attention_strides {
    i64 axes[ATTENTION_AXES], length, last;
};

struct attention_args {
    i64 rank, shape[ATTENTION_AXES];
    i64 queries, keys, depth, width; /* L, S, D and the last extent of v */
    i64 blocks, parts;               /* teams along queries, along width */
    i64 left, right;                 /* how many keys before and after its position a query
                                        sees; -1: all */
    i64 additive;                    /* the mask has the type of q, otherwise it is bool */
    i64 wide;                        /* lengths are i64, otherwise i32 */
    i64 hides;                       /* a query may see no key: then its result is 0 */
    struct attention_strides y, q, k, v, mask;
    i64 length[ATTENTION_AXES];      /* strides of the lengths */
    host_real scale, softcap;        /* softcap 0: none */
};

/* A length beyond this number counts as this number, so that no sum of positions overflows. */
#define ATTENTION_LONGEST ((i64)1 << 60)

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

/* The first element of a team in each operand. */
struct attention_place {
    i64 y, q, k, v, mask;
    i64 first, rows;  /* queries */
    i64 column, width; /* columns of v */
    i64 keys;          /* that exist; fewer than all if the length says so */
    i64 before;        /* position of query 0, may be negative */
};

KFN struct attention_place attention_place(const struct attention_args *a, i64 team,
                                           GLOBAL const void *lengths)
{
    struct attention_place at;
    i64 rest = team / a->parts, length = 0;

    at.column = team % a->parts * ATTENTION_WIDTH;
    at.width = a->width - at.column < ATTENTION_WIDTH ? a->width - at.column : ATTENTION_WIDTH;
    at.first = rest % a->blocks * ATTENTION_ROWS;
    at.rows = a->queries - at.first < ATTENTION_ROWS ? a->queries - at.first : ATTENTION_ROWS;
    rest /= a->blocks;
    at.y = at.first * a->y.length + at.column * a->y.last;
    at.q = at.first * a->q.length;
    at.k = 0;
    at.v = at.column * a->v.last;
    at.mask = at.first * a->mask.length;
    for (i64 axis = a->rank - 1; axis >= 0; axis--) {
        i64 i = rest % a->shape[axis];
        rest /= a->shape[axis];
        at.y += i * a->y.axes[axis];
        at.q += i * a->q.axes[axis];
        at.k += i * a->k.axes[axis];
        at.v += i * a->v.axes[axis];
        at.mask += i * a->mask.axes[axis];
        length += i * a->length[axis];
    }
    length = lengths ? index_at(lengths, a->wide, length) : a->keys;
    length = length < 0 ? 0 : length < ATTENTION_LONGEST ? length : ATTENTION_LONGEST;
    at.keys = length < a->keys ? length : a->keys;
    at.before = length - a->queries;
    return at;
}

/* Returns the first key that a query may see by its position. */
KFN i64 attention_begin(const struct attention_args *a, const struct attention_place *at, i64 query)
{
    i64 begin = query + at->before - a->left;

    return a->left < 0 || begin < 0 ? 0 : begin;
}

/* Returns the number of the key after the last that a query may see by its position; not below
 * that of attention_begin if the query sees a key. */
KFN i64 attention_end(const struct attention_args *a, const struct attention_place *at, i64 query)
{
    i64 end = query + at->before + a->right + 1;

    if (a->right < 0 || end > at->keys) return at->keys;
    return end < 0 ? 0 : end;
}

/* Returns a score with its magnitude limited to softcap. */
KFN acc attention_capped(const struct attention_args *a, acc score)
{
    acc cap = number(a->softcap);

    return cap == 0 ? score : cap * FUNC(tanh)(score / cap);
}

/* Returns a score after the mask, whose element is at `at`; mask may be NULL. */
KFN acc attention_masked(const struct attention_args *a, acc score, GLOBAL const void *mask, i64 at)
{
    if (!mask) return score;
    if (a->additive) return score + elem_get(((GLOBAL const elem *)mask)[at]);
    return ((GLOBAL const u8 *)mask)[at] ? score : -acc_infinity();
}

/* Returns the value that is subtracted from scores before exp: the largest score m, or 0 if all
 * scores are -infinity. */
KFN acc attention_shift(acc m)
{
    return m == -acc_infinity() ? 0 : m;
}

/* Whether a query with this sum of weights sees no key: if a query sees a key, the largest score
 * has the weight 1. */
KFN i64 attention_hidden(const struct attention_args *a, acc sum)
{
    return a->hides && sum == 0;
}

#ifdef ON_HOST
#include "kernel_host.h"
#else
enum { ATTENTION_OWN = 8 }; /* columns that a lane computes at a time */

/* The score of one query and one key. */
KFN acc attention_score(const struct attention_args *a, GLOBAL const elem *q,
                        GLOBAL const elem *k)
{
    acc s = 0;

    for (i64 d = 0; d < a->depth; d++)
        s += elem_get(q[d * a->q.last]) * elem_get(k[d * a->k.last]);
    return attention_capped(a, s * number(a->scale));
}

/* Computes one query, for columns from `first` on. */
KFN void attention_row(const struct attention_args *a, i64 row, const struct attention_place *at,
                       i64 first, LOCAL acc *scratch, GLOBAL elem *y, GLOBAL const elem *q,
                       GLOBAL const elem *k, GLOBAL const elem *v, GLOBAL const void *mask)
{
    i64 end = attention_end(a, at, at->first + row);
    acc m = -acc_infinity(), sum = 0, own[ATTENTION_OWN];

    for (int c = 0; c < ATTENTION_OWN; c++) own[c] = 0;
    for (i64 begin = attention_begin(a, at, at->first + row); begin < end; begin += LANES) {
        i64 n = end - begin < LANES ? end - begin : LANES, j = begin + LANE;
        acc s = -acc_infinity(), before = m, scale, p;
        if (LANE < n) {
            s = attention_score(a, q + at->q + row * a->q.length, k + at->k + j * a->k.length);
            s = attention_masked(a, s, mask, at->mask + row * a->mask.length + j * a->mask.last);
        }
        p = team_max(s, scratch);
        m = p > m ? p : m;
        scale = acc_exp(before - attention_shift(m));
        p = LANE < n ? acc_exp(s - attention_shift(m)) : 0;
        sum = sum * scale + team_sum(p, scratch);
        scratch[LANE] = p;
        BARRIER();
        for (int c = 0; c < ATTENTION_OWN; c++) {
            i64 column = first + c * LANES + LANE;
            acc o = own[c] * scale;
            for (i64 i = 0; i < n && column < at->width; i++)
                o += scratch[i] *
                     elem_get(v[at->v + (begin + i) * a->v.length + column * a->v.last]);
            own[c] = o;
        }
        BARRIER();
    }
    for (int c = 0; c < ATTENTION_OWN; c++) {
        i64 column = first + c * LANES + LANE;
        if (column < at->width)
            y[at->y + row * a->y.length + column * a->y.last] =
                elem_put(attention_hidden(a, sum) ? 0 : own[c] / sum);
    }
}
#endif

KFN void attention_team(const struct attention_args *a, i64 team, LOCAL acc *scratch,
                        GLOBAL elem *y, GLOBAL const elem *q, GLOBAL const elem *k,
                        GLOBAL const elem *v, GLOBAL const void *mask,
                        GLOBAL const void *lengths)
{
    struct attention_place at = attention_place(a, team, lengths);

#ifdef ON_HOST
    (void)scratch;
    attention_rows(a, &at, y + at.y, q + at.q, k + at.k, v + at.v, mask);
#else
    for (i64 row = 0; row < at.rows; row++)
        for (i64 first = 0; first < at.width; first += ATTENTION_OWN * LANES)
            attention_row(a, row, &at, first, scratch, y, q, k, v, mask);
#endif
}
ENTRY_TEAMS_6(attention, elem, const elem, const elem, const elem, const void, const void)
#endif

#endif
