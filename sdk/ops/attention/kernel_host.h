/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_host.h: computes attention on a host, one block of keys at a time. The scores of a block
 * are a table with a row for each key and the queries side by side in vectors, so that softmax
 * works within a vector lane: k is read in place and broadcast, and queries are packed once. The
 * product with v has a row for each query: weights are broadcast, and rows of v are loaded as
 * vectors. Elements of half types, or with a last stride other than 1, are first copied to a table
 * of the computing type. A single query, as in the decoding of text token by token, has no
 * neighbours: its scores are dot products of rows, and lie side by side. */
#ifndef BP_OPS_ATTENTION_KERNEL_HOST_H
#define BP_OPS_ATTENTION_KERNEL_HOST_H

typedef acc attention_vec __attribute__((vector_size(VECTOR), aligned(sizeof(acc)), may_alias));
typedef acc attention_four __attribute__((vector_size(16), aligned(sizeof(acc)), may_alias));
enum {
    ATTENTION_LANES = VECTOR / (int)sizeof(acc),
    ATTENTION_TILE = VECTOR == 16 ? 4 : 6, /* rows, and vectors of each row, in registers */
    ATTENTION_SIDE = VECTOR == 64 ? 4 : 2,
    ATTENTION_KEYS = 96,    /* keys of a block, a multiple of ATTENTION_TILE */
    ATTENTION_DEPTH = 128,  /* elements of D that are packed at a time */
    ATTENTION_COLUMNS = 64, /* columns of v at a time */
    ATTENTION_SQUARE = 16 / (int)sizeof(acc),
};
/* Indices that interleave two rows of a square: their first halves, their second halves. */
#ifdef ELEM_f64
#define ATTENTION_FIRST 0, 2
#define ATTENTION_SECOND 1, 3
#else
#define ATTENTION_FIRST 0, 4, 1, 5
#define ATTENTION_SECOND 2, 6, 3, 7
#endif
#define ATTENTION_FN static inline __attribute__((always_inline))

/* A matrix product c = a b. a(i, t) is a[i * a_row + t * a_step]; the rows of b and c are
 * contiguous vectors. */
struct attention_product {
    const acc *a, *b;
    acc *c;
    i64 a_row, a_step, b_row, c_row;
    i64 m, n;         /* rows of c, terms of a sum */
    const acc *scale; /* a factor by which each old row of c is multiplied first; NULL: c counts as
                         0 */
};

/* Computes one tile. rows and side must be constants, so that the loops unroll. */
ATTENTION_FN void attention_tile(const struct attention_product *p, int rows, int side, i64 row,
                                 i64 column)
{
    const acc *a = p->a + row * p->a_row, *b = p->b + column;
    acc *c = p->c + row * p->c_row + column;
    attention_vec sum[ATTENTION_TILE][ATTENTION_SIDE];

    HOST_UNROLL for (int i = 0; i < rows; i++) {
        acc part = p->scale ? p->scale[row + i] : 0;
        HOST_UNROLL for (int v = 0; v < side; v++) {
            if (p->scale) sum[i][v] = ((attention_vec *)(c + i * p->c_row))[v] * part;
            else sum[i][v] = (attention_vec){0};
        }
    }
    for (i64 t = 0; t < p->n; t++, a += p->a_step, b += p->b_row) {
        attention_vec x[ATTENTION_SIDE]; /* volatile: each vector is read once, not again for each
                                            row */
        HOST_UNROLL for (int v = 0; v < side; v++) x[v] = ((const volatile attention_vec *)b)[v];
        HOST_UNROLL for (int i = 0; i < rows; i++) {
            acc w = a[i * p->a_row];
            HOST_UNROLL for (int v = 0; v < side; v++) sum[i][v] += w * x[v];
        }
    }
    HOST_UNROLL for (int i = 0; i < rows; i++)
        HOST_UNROLL
        for (int v = 0; v < side; v++) ((attention_vec *)(c + i * p->c_row))[v] = sum[i][v];
}

ATTENTION_FN void attention_column(const struct attention_product *p, int side, i64 column)
{
    i64 i = 0;

    for (; i + ATTENTION_TILE <= p->m; i += ATTENTION_TILE)
        attention_tile(p, ATTENTION_TILE, side, i, column);
    if (ATTENTION_TILE > 4 && i + 4 <= p->m) {
        attention_tile(p, 4, side, i, column);
        i += 4;
    }
    if (i + 2 <= p->m) {
        attention_tile(p, 2, side, i, column);
        i += 2;
    }
    if (i < p->m) attention_tile(p, 1, side, i, column);
}

/* Computes the product. width must be a multiple of ATTENTION_LANES. */
ATTENTION_FN void attention_product(const struct attention_product *p, i64 width)
{
    i64 j = 0;

    for (; j + ATTENTION_SIDE * ATTENTION_LANES <= width; j += ATTENTION_SIDE * ATTENTION_LANES)
        attention_column(p, ATTENTION_SIDE, j);
    if (ATTENTION_SIDE > 2 && j + 2 * ATTENTION_LANES <= width) {
        attention_column(p, 2, j);
        j += 2 * ATTENTION_LANES;
    }
    for (; j < width; j += ATTENTION_LANES) attention_column(p, 1, j);
}

/* Rounds n queries or columns up to whole vectors. */
KFN i64 attention_lanes(i64 n)
{
    return (n + ATTENTION_LANES - 1) / ATTENTION_LANES * ATTENTION_LANES;
}

/* Copies rows of n elements, `last` elements apart, to rows of the computing type, padded with
 * zeros to whole vectors. */
KFN void attention_bring(acc *to, const elem *from, i64 row, i64 last, i64 rows, i64 n)
{
    i64 width = attention_lanes(n);

    for (i64 r = 0; r < rows; r++, to += width, from += row) {
        if (last == 1)
            for (i64 i = 0; i < n; i++) to[i] = elem_get(from[i]);
        else
            for (i64 i = 0; i < n; i++) to[i] = elem_get(from[i * last]);
        for (i64 i = n; i < width; i++) to[i] = 0;
    }
}

/* Transposes a square of 16 bytes a side and multiplies it by scale, in rounds: each round moves
 * one bit from the number of a row to the number of a column. */
ATTENTION_FN void attention_square(acc *to, i64 to_row, const acc *from, i64 from_row, acc scale)
{
    attention_four a[ATTENTION_SQUARE], b[ATTENTION_SQUARE];

    HOST_UNROLL for (int i = 0; i < ATTENTION_SQUARE; i++)
        a[i] = *(const attention_four *)(from + i * from_row) * scale;
    for (int n = 1; n < ATTENTION_SQUARE; n *= 2) {
        HOST_UNROLL for (int i = 0; i < ATTENTION_SQUARE / 2; i++) {
            b[2 * i] = __builtin_shufflevector(a[i], a[i + ATTENTION_SQUARE / 2], ATTENTION_FIRST);
            b[2 * i + 1] =
                __builtin_shufflevector(a[i], a[i + ATTENTION_SQUARE / 2], ATTENTION_SECOND);
        }
        HOST_UNROLL for (int i = 0; i < ATTENTION_SQUARE; i++) a[i] = b[i];
    }
    HOST_UNROLL
    for (int i = 0; i < ATTENTION_SQUARE; i++) *(attention_four *)(to + i * to_row) = a[i];
}

/* Packs n elements of each row of q, scaled, so that the queries are side by side; padded with
 * zeros to whole vectors. */
KFN void attention_pack(const acc *q, i64 q_row, i64 rows, i64 n, acc scale, acc *to)
{
    i64 r = 0, whole = n / ATTENTION_SQUARE * ATTENTION_SQUARE;

    for (; r + ATTENTION_SQUARE <= rows; r += ATTENTION_SQUARE) {
        for (i64 d = 0; d < whole; d += ATTENTION_SQUARE)
            attention_square(to + d * ATTENTION_ROWS + r, ATTENTION_ROWS, q + r * q_row + d, q_row,
                             scale);
        for (i64 d = whole; d < n; d++)
            for (i64 i = r; i < r + ATTENTION_SQUARE; i++)
                to[d * ATTENTION_ROWS + i] = q[i * q_row + d] * scale;
    }
    for (; r < attention_lanes(rows); r++)
        for (i64 d = 0; d < n; d++)
            to[d * ATTENTION_ROWS + r] = r < rows ? q[r * q_row + d] * scale : 0;
}

/* Limits the scores of a block. lanes is a constant. */
ATTENTION_FN void attention_cap(const struct attention_args *a, i64 n, int lanes, acc *s)
{
    acc cap = number(a->softcap);

    for (i64 j = 0; j < n; j++) {
        SIMD for (int r = 0; r < lanes; r++)
            s[j * ATTENTION_ROWS + r] = cap * FUNC(tanh)(s[j * ATTENTION_ROWS + r] / cap);
    }
}

/* Applies the mask, and sets scores to -infinity where a query may not see a key. step: elements
 * from the scores of a key to those of the next. */
KFN void attention_hide(const struct attention_args *a, const struct attention_place *at,
                        const void *mask, i64 begin, i64 n, acc *s, i64 step)
{
    for (i64 r = 0; r < at->rows && (mask || a->left >= 0 || a->right >= 0); r++) {
        i64 first = attention_begin(a, at, at->first + r) - begin;
        i64 end = attention_end(a, at, at->first + r) - begin;
        i64 from = at->mask + r * a->mask.length + begin * a->mask.last;
        for (i64 j = 0; mask && j < n; j++)
            s[j * step + r] =
                attention_masked(a, s[j * step + r], mask, from + j * a->mask.last);
        for (i64 j = 0; j < first && j < n; j++) s[j * step + r] = -acc_infinity();
        for (i64 j = end < 0 ? 0 : end; j < n; j++) s[j * step + r] = -acc_infinity();
    }
}

/* Replaces the scores of `lanes` queries (a constant) by their exp, and updates m and sum. Sets
 * scale to the factor for the sums of earlier blocks. */
ATTENTION_FN void attention_exp(acc *s, i64 n, int lanes, acc *m, acc *sum, acc *scale)
{
    acc top[ATTENTION_ROWS], shift[ATTENTION_ROWS], total[ATTENTION_ROWS];

    for (int r = 0; r < lanes; r++) top[r] = m[r];
    for (i64 j = 0; j < n; j++) {
        SIMD for (int r = 0; r < lanes; r++) {
            acc v = s[j * ATTENTION_ROWS + r];
            top[r] = v > top[r] ? v : top[r];
        }
    }
    SIMD for (int r = 0; r < lanes; r++) {
        shift[r] = attention_shift(top[r]);
        scale[r] = acc_exp_below(m[r] - shift[r]);
        total[r] = sum[r] * scale[r];
        m[r] = top[r];
    }
    for (i64 j = 0; j < n; j++) {
        SIMD for (int r = 0; r < lanes; r++) {
            acc e = acc_exp_below(s[j * ATTENTION_ROWS + r] - shift[r]);
            s[j * ATTENTION_ROWS + r] = e;
            total[r] += e;
        }
    }
    for (int r = 0; r < lanes; r++) sum[r] = total[r];
}

/* The same for one query, whose scores lie side by side. */
KFN void attention_exp_one(acc *s, i64 n, acc *m, acc *sum, acc *scale)
{
    acc top = *m, total = 0, shift;

    for (i64 j = 0; j < n; j++) top = s[j] > top ? s[j] : top;
    shift = attention_shift(top);
    SIMD for (i64 j = 0; j < n; j++) s[j] = acc_exp_below(s[j] - shift);
    for (i64 j = 0; j < n; j++) total += s[j];
    *scale = acc_exp_below(*m - shift);
    *sum = *sum * *scale + total;
    *m = top;
}

/* The memory of a team: packed queries; the scores of a block; the sums; the block's part of k or v
 * where it must be copied; for each query its largest score, its sum of weights and its scale. */
struct attention_work {
    _Alignas(64) acc pack[ATTENTION_DEPTH * ATTENTION_ROWS];
    _Alignas(64) acc s[ATTENTION_KEYS * ATTENTION_ROWS];
    _Alignas(64) acc o[ATTENTION_ROWS * ATTENTION_WIDTH];
    _Alignas(64) acc table[ATTENTION_KEYS * ATTENTION_DEPTH];
    _Alignas(64) acc m[ATTENTION_ROWS], sum[ATTENTION_ROWS], scale[ATTENTION_ROWS];
    i64 lanes, o_row;
    i64 step; /* elements from the scores of a key to those of the next */
};

/* Returns rows of n elements as rows of the computing type: the elements themselves if will_do and
 * their type and stride fit, otherwise a copy in the table. */
KFN const acc *attention_rows_of(const elem *from, i64 *row, i64 last, i64 rows, i64 n,
                                 i64 will_do, struct attention_work *w)
{
    if (will_do && sizeof(elem) == sizeof(acc) && last == 1) return (const acc *)(const void *)from;
    attention_bring(w->table, from, *row, last, rows, n);
    *row = attention_lanes(n);
    return w->table;
}

/* The dot product of n elements. */
KFN acc attention_dot(const acc *x, const acc *y, i64 n)
{
    attention_vec sum[2] = {{0}, {0}};
    const attention_four *part = (const attention_four *)sum;
    attention_four four = {0};
    acc total = 0;
    i64 i = 0;

    for (; i + 2 * ATTENTION_LANES <= n; i += 2 * ATTENTION_LANES)
        for (int v = 0; v < 2; v++) {
            i64 at = i + v * ATTENTION_LANES;
            sum[v] += *(const attention_vec *)(x + at) * *(const attention_vec *)(y + at);
        }
    for (int v = 0; v < 2 * VECTOR / 16; v++) four += part[v];
    for (int v = 0; v < ATTENTION_SQUARE; v++) total += four[v];
    for (; i < n; i++) total += x[i] * y[i];
    return total;
}

/* The scores of one query for n keys. */
KFN void attention_scores_one(const struct attention_args *a, const elem *q, const elem *k, i64 n,
                              struct attention_work *w)
{
    for (i64 d = 0; d < a->depth || !d; d += ATTENTION_DEPTH) {
        i64 depth = a->depth - d < ATTENTION_DEPTH ? a->depth - d : ATTENTION_DEPTH;
        i64 row = a->k.length;
        const acc *keys;
        attention_bring(w->pack, q + d * a->q.last, 0, a->q.last, 1, depth);
        for (i64 i = 0; i < depth; i++) w->pack[i] *= number(a->scale);
        keys = attention_rows_of(k + d * a->k.last, &row, a->k.last, n, depth, 1, w);
        for (i64 j = 0; j < n; j++)
            w->s[j] = (d ? w->s[j] : 0) + attention_dot(w->pack, keys + j * row, depth);
    }
}

/* Packs the queries for the depths begin to begin + n - 1. */
KFN void attention_queries(const struct attention_args *a, i64 rows, const elem *q, i64 begin,
                           i64 n, struct attention_work *w)
{
    i64 row = a->q.length;
    const acc *from = attention_rows_of(q + begin * a->q.last, &row, a->q.last, rows, n, 1, w);

    attention_pack(from, row, rows, n, number(a->scale), w->pack);
}

KFN void attention_scores(const struct attention_args *a, i64 rows, const elem *q, const elem *k,
                          i64 n, struct attention_work *w)
{
    acc one[ATTENTION_KEYS];

    for (i64 d = 0; d < a->depth || !d; d += ATTENTION_DEPTH) {
        i64 depth = a->depth - d < ATTENTION_DEPTH ? a->depth - d : ATTENTION_DEPTH;
        struct attention_product p = {.a_row = a->k.length, .a_step = 1, .b = w->pack,
                                      .b_row = ATTENTION_ROWS, .c = w->s, .c_row = ATTENTION_ROWS,
                                      .m = n, .n = depth};
        if (a->depth > ATTENTION_DEPTH) attention_queries(a, rows, q, d, depth, w);
        p.a = attention_rows_of(k + d * a->k.last, &p.a_row, a->k.last, n, depth, 1, w);
        for (i64 j = 0; j < n && d; j++) one[j] = 1;
        if (d) p.scale = one;
        attention_product(&p, w->lanes);
    }
}

/* Adds the product of the weights and a block of v to the sums. */
KFN void attention_values(const struct attention_args *a, const struct attention_place *at,
                          const elem *v, i64 n, struct attention_work *w)
{
    for (i64 c = 0; c < at->width; c += ATTENTION_COLUMNS) {
        i64 columns = at->width - c < ATTENTION_COLUMNS ? at->width - c : ATTENTION_COLUMNS;
        struct attention_product p = {.a = w->s, .a_row = 1, .a_step = w->step,
                                      .b_row = a->v.length, .c = w->o + c, .c_row = w->o_row,
                                      .m = at->rows, .n = n, .scale = w->scale};
        p.b = attention_rows_of(v + c * a->v.last, &p.b_row, a->v.last, n, columns,
                                columns % ATTENTION_LANES == 0, w);
        attention_product(&p, attention_lanes(columns));
    }
}

/* Computes the weights of n keys from `begin` on. */
KFN void attention_weights(const struct attention_args *a, const struct attention_place *at,
                           const elem *q, const elem *k, const void *mask, i64 begin, i64 n,
                           struct attention_work *w)
{
    i64 rows = at->rows;

    if (rows == 1) {
        attention_scores_one(a, q, k, n, w);
        if (a->softcap != 0) attention_cap(a, 1, (int)n, w->s);
        attention_hide(a, at, mask, begin, n, w->s, 1);
        attention_exp_one(w->s, n, w->m, w->sum, w->scale);
        return;
    }
    attention_scores(a, rows, q, k, n, w);
    if (a->softcap != 0 && rows <= ATTENTION_LANES) attention_cap(a, n, ATTENTION_LANES, w->s);
    else if (a->softcap != 0) attention_cap(a, n, ATTENTION_ROWS, w->s);
    attention_hide(a, at, mask, begin, n, w->s, ATTENTION_ROWS);
    if (rows <= ATTENTION_LANES) attention_exp(w->s, n, ATTENTION_LANES, w->m, w->sum, w->scale);
    else attention_exp(w->s, n, ATTENTION_ROWS, w->m, w->sum, w->scale);
}

KFN void attention_rows(const struct attention_args *a, const struct attention_place *at, elem *y,
                        const elem *q, const elem *k, const elem *v, const void *mask)
{
    struct attention_work w;
    i64 rows = at->rows, end = attention_end(a, at, at->first + rows - 1);

    w.lanes = attention_lanes(rows);
    w.o_row = attention_lanes(at->width);
    w.step = rows == 1 ? 1 : ATTENTION_ROWS;
    if (a->depth <= ATTENTION_DEPTH && rows > 1) attention_queries(a, rows, q, 0, a->depth, &w);
    for (i64 i = 0; i < rows * w.o_row; i++) w.o[i] = 0;
    for (i64 r = 0; r < ATTENTION_ROWS; r++) {
        w.m[r] = -acc_infinity();
        w.sum[r] = 0;
    }
    for (i64 begin = attention_begin(a, at, at->first); begin < end; begin += ATTENTION_KEYS) {
        i64 n = end - begin < ATTENTION_KEYS ? end - begin : ATTENTION_KEYS;
        attention_weights(a, at, q, k + begin * a->k.length, mask, begin, n, &w);
        attention_values(a, at, v + begin * a->v.length, n, &w);
    }
    for (i64 r = 0; r < rows; r++) {
        acc part = attention_hidden(a, w.sum[r]) ? 0 : 1 / w.sum[r];
        for (i64 c = 0; c < at->width; c++)
            y[r * a->y.length + c * a->y.last] = elem_put(w.o[r * w.o_row + c] * part);
    }
}

#endif
