/* SPDX-License-Identifier: Apache-2.0 */
/* attention_host.h: attention on a host. Queries lie side by side in vectors, so that the sums over
 * keys that softmax needs are within a lane, and elements of k and v are broadcast from where they
 * lie. Scores and results of a block are tables of rows of ATTENTION_ROWS. */
#ifndef BP_KERNELS_ATTENTION_HOST_H
#define BP_KERNELS_ATTENTION_HOST_H

typedef acc attention_vec __attribute__((vector_size(VECTOR), may_alias));
enum {
    ATTENTION_LANES = VECTOR / (int)sizeof(acc),
    ATTENTION_TILE = VECTOR == 64 ? 12 : VECTOR == 32 ? 6 : 4, /* rows in registers */
    ATTENTION_KEYS = 96,   /* of a block, a multiple of tiles */
    ATTENTION_DEPTH = 128, /* of D, packed at a time */
};

/* c[i][.] += the sum over t of a(i, t) b[t][.] for TILE rows i, where a(i, t) is row[i][t * step],
 * and two vectors of queries. */
KFN void attention_tile(const elem *const *row, i64 step, const acc *b, i64 n, acc *c)
{
    attention_vec sum[ATTENTION_TILE][2];

    for (int i = 0; i < ATTENTION_TILE; i++) {
        sum[i][0] = ((attention_vec *)(c + i * ATTENTION_ROWS))[0];
        sum[i][1] = ((attention_vec *)(c + i * ATTENTION_ROWS))[1];
    }
    for (i64 t = 0; t < n; t++, b += ATTENTION_ROWS) {
        attention_vec b0 = ((const attention_vec *)b)[0], b1 = ((const attention_vec *)b)[1];
        for (int i = 0; i < ATTENTION_TILE; i++) {
            acc x = elem_get(row[i][t * step]);
            sum[i][0] += x * b0;
            sum[i][1] += x * b1;
        }
    }
    for (int i = 0; i < ATTENTION_TILE; i++) {
        ((attention_vec *)(c + i * ATTENTION_ROWS))[0] = sum[i][0];
        ((attention_vec *)(c + i * ATTENTION_ROWS))[1] = sum[i][1];
    }
}

/* c[i][.] += a b for m rows of a, `next` apart; rows that a tile has beyond them are the last one
 * again: c has room for them. */
KFN void attention_product(const elem *a, i64 m, i64 next, i64 step, const acc *b, i64 n, i64 rows,
                           acc *c)
{
    for (i64 i = 0; i < m; i += ATTENTION_TILE) {
        const elem *row[ATTENTION_TILE];
        for (i64 r = 0; r < ATTENTION_TILE; r++) row[r] = a + (i + r < m ? i + r : m - 1) * next;
        for (i64 lane = 0; lane < rows; lane += 2 * ATTENTION_LANES)
            attention_tile(row, step, b + lane, n, c + i * ATTENTION_ROWS + lane);
    }
}

/* Queries of depth begin to begin + n - 1, side by side, scaled. */
KFN void attention_pack(const struct attention_args *a, const elem *q, i64 rows, i64 begin, i64 n,
                        acc *to)
{
    for (i64 d = 0; d < n; d++)
        for (i64 r = 0; r < ATTENTION_ROWS; r++)
            to[d * ATTENTION_ROWS + r] =
                r < rows ? elem_get(q[r * a->q.length + (begin + d) * a->q.last]) *
                               number(a->scale)
                         : 0;
}

/* -infinity where a query may not see a key. */
KFN void attention_hide(const struct attention_args *a, const struct attention_place *at,
                        const void *mask, i64 begin, i64 n, acc *s)
{
    for (i64 r = 0; r < at->rows && (mask || a->causal); r++) {
        i64 seen = attention_seen(a, at->first + r) - begin;
        i64 from = at->mask + r * a->mask.length + begin * a->mask.last;
        for (i64 j = 0; mask && j < n; j++)
            s[j * ATTENTION_ROWS + r] =
                attention_masked(a, s[j * ATTENTION_ROWS + r], mask, from + j * a->mask.last);
        for (i64 j = seen < 0 ? 0 : seen; j < n; j++)
            s[j * ATTENTION_ROWS + r] = -acc_infinity();
    }
}

/* Scores become what exp makes of them; m and sum go along. scale: what came before is multiplied
 * by that. */
KFN void attention_exp(acc *s, i64 n, acc *m, acc *sum, acc *scale)
{
    acc shift[ATTENTION_ROWS];

    for (i64 r = 0; r < ATTENTION_ROWS; r++) {
        scale[r] = m[r];
        shift[r] = 0;
    }
    for (i64 j = 0; j < n; j++) {
        SIMD for (i64 r = 0; r < ATTENTION_ROWS; r++) {
            acc v = s[j * ATTENTION_ROWS + r];
            m[r] = v > m[r] ? v : m[r];
        }
    }
    SIMD for (i64 r = 0; r < ATTENTION_ROWS; r++) {
        shift[r] = attention_shift(m[r]);
        scale[r] = acc_exp(scale[r] - shift[r]);
        sum[r] *= scale[r];
    }
    for (i64 j = 0; j < n; j++) {
        SIMD for (i64 r = 0; r < ATTENTION_ROWS; r++) {
            acc e = acc_exp(s[j * ATTENTION_ROWS + r] - shift[r]);
            s[j * ATTENTION_ROWS + r] = e;
            sum[r] += e;
        }
    }
}

KFN void attention_scores(const struct attention_args *a, i64 rows, const elem *q, const elem *k,
                          i64 n, i64 packed, acc *pack, acc *s)
{
    for (i64 i = 0; i < ATTENTION_KEYS * ATTENTION_ROWS; i++) s[i] = 0;
    for (i64 d = 0; d < a->depth; d += ATTENTION_DEPTH) {
        i64 depth = a->depth - d < ATTENTION_DEPTH ? a->depth - d : ATTENTION_DEPTH;
        if (!packed) attention_pack(a, q, rows, d, depth, pack);
        attention_product(k + d * a->k.last, n, a->k.length, a->k.last, pack, depth, rows, s);
    }
}

KFN void attention_rows(const struct attention_args *a, const struct attention_place *at, elem *y,
                        const elem *q, const elem *k, const elem *v, const void *mask)
{
    _Alignas(64) acc pack[ATTENTION_DEPTH * ATTENTION_ROWS], s[ATTENTION_KEYS * ATTENTION_ROWS];
    _Alignas(64) acc o[(ATTENTION_WIDTH + ATTENTION_TILE) * ATTENTION_ROWS];
    _Alignas(64) acc m[ATTENTION_ROWS], sum[ATTENTION_ROWS], scale[ATTENTION_ROWS];
    i64 rows = at->rows, seen = attention_seen(a, at->first + rows - 1);
    i64 packed = a->depth <= ATTENTION_DEPTH;

    if (packed) attention_pack(a, q, rows, 0, a->depth, pack);
    for (i64 i = 0; i < (at->width + ATTENTION_TILE) * ATTENTION_ROWS; i++) o[i] = 0;
    for (i64 r = 0; r < ATTENTION_ROWS; r++) {
        m[r] = -acc_infinity();
        sum[r] = 0;
    }
    for (i64 begin = 0; begin < seen; begin += ATTENTION_KEYS) {
        i64 n = seen - begin < ATTENTION_KEYS ? seen - begin : ATTENTION_KEYS;
        attention_scores(a, rows, q, k + begin * a->k.length, n, packed, pack, s);
        attention_hide(a, at, mask, begin, n, s);
        attention_exp(s, n, m, sum, scale);
        for (i64 c = 0; c < at->width && begin; c++) {
            SIMD for (i64 r = 0; r < ATTENTION_ROWS; r++) o[c * ATTENTION_ROWS + r] *= scale[r];
        }
        attention_product(v + begin * a->v.length, at->width, a->v.last, a->v.length, s, n, rows,
                          o);
    }
    for (i64 r = 0; r < rows; r++) {
        acc part = a->keys ? 1 / sum[r] : 0; /* the sum of nothing is 0 */
        for (i64 c = 0; c < at->width; c++)
            y[r * a->y.length + c * a->y.last] = elem_put(o[c * ATTENTION_ROWS + r] * part);
    }
}

#endif
