/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes linear attention. The columns of a state (one for each element of a value) do
 * not depend on each other: each is computed by one lane, step by step. A host computes neighbours
 * together, with vectors along the columns. */
#ifndef BP_OPS_DECODER_KERNEL_H
#define BP_OPS_DECODER_KERNEL_H

#include "../../dialect/dialect.h"

enum { ATTENTION_TILE = 64 };

/* heads: of the states; group: heads of q that share one. decays: last extent of decay; betas:
 * heads of beta. wide: states are f32 and other operands a half type. done: work is the next
 * state. */
struct linear_attention_args {
    i64 steps, heads, group, keys, values, decays, betas, wide, done;
    host_real scale;
};

#ifdef ELEM
#include "../../dialect/entry.h"
#include "../../dialect/maths.h"

#ifdef ON_HOST
enum { ATTENTION_ROOM = ATTENTION_TILE };
#else
enum { ATTENTION_ROOM = 1 };
#endif

/* Adds number times the row s of a state to sum. */
KFN void attention_add(acc *sum, acc number, GLOBAL const acc *s, i64 n)
{
    SIMD
    for (i64 j = 0; j < n; j++) sum[j] += number * s[j];
}

/* Writes a step to columns s of the state of a head, which has `values` columns. at: the number of
 * the sequence and step, times the heads, plus the head. v: the values of these columns. */
KFN void attention_write(const struct linear_attention_args *a, i64 at, i64 n, GLOBAL acc *s,
                         GLOBAL const elem *k, GLOBAL const elem *v, GLOBAL const elem *decay,
                         GLOBAL const elem *beta)
{
    acc u[ATTENTION_ROOM], read[ATTENTION_ROOM];

    k += at * a->keys;
    for (i64 j = 0; j < n; j++) u[j] = elem_get(v[j]);
    for (i64 d = 0; decay && d < a->keys; d++) {
        acc by = acc_exp(elem_get(decay[at * a->decays + (a->decays > 1 ? d : 0)]));
        SIMD
        for (i64 j = 0; j < n; j++) s[d * a->values + j] *= by;
    }
    if (beta) {
        i64 head = at % a->heads;
        acc by = elem_get(beta[at / a->heads * a->betas + (a->betas > 1 ? head : 0)]);
        for (i64 j = 0; j < n; j++) read[j] = 0;
        for (i64 d = 0; d < a->keys; d++)
            attention_add(read, elem_get(k[d]), s + d * a->values, n);
        for (i64 j = 0; j < n; j++) u[j] = by * (u[j] - read[j]);
    }
    for (i64 d = 0; d < a->keys; d++) {
        acc by = elem_get(k[d]);
        SIMD
        for (i64 j = 0; j < n; j++) s[d * a->values + j] += by * u[j];
    }
}

/* Reads columns s of a state for each head of q that shares it. */
KFN void attention_read(const struct linear_attention_args *a, i64 at, i64 n,
                        GLOBAL const acc *s, GLOBAL elem *y, GLOBAL const elem *q)
{
    acc sum[ATTENTION_ROOM], scale = number(a->scale);

    for (i64 h = at * a->group; h < (at + 1) * a->group; h++) {
        for (i64 j = 0; j < n; j++) sum[j] = 0;
        for (i64 d = 0; d < a->keys; d++)
            attention_add(sum, elem_get(q[h * a->keys + d]), s + d * a->values, n);
        for (i64 j = 0; j < n; j++) y[h * a->values + j] = elem_put(scale * sum[j]);
    }
}

/* Reads or writes element i of a state. */
KFN acc attention_load(const struct linear_attention_args *a, GLOBAL const void *state, i64 i)
{
    if (a->wide) return (acc)((GLOBAL const f32 *)state)[i];
    return elem_get(((GLOBAL const elem *)state)[i]);
}
KFN void attention_store(const struct linear_attention_args *a, GLOBAL void *state, i64 i, acc x)
{
    if (a->wide) ((GLOBAL f32 *)state)[i] = (f32)x;
    else ((GLOBAL elem *)state)[i] = elem_put(x);
}

/* Computes columns of all states. */
KFN void linear_attention_span(const struct linear_attention_args *a, i64 begin, i64 n,
                               GLOBAL elem *y, GLOBAL void *next, GLOBAL acc *work,
                               GLOBAL const elem *q, GLOBAL const elem *k, GLOBAL const elem *v,
                               GLOBAL const void *state, GLOBAL const elem *decay,
                               GLOBAL const elem *beta)
{
    for (i64 e = begin, w; e < begin + n; e += w) {
        i64 head = e / a->values, column = e % a->values;
        i64 first = head * a->keys * a->values + column;
        i64 at = head / a->heads * a->steps * a->heads + head % a->heads;
        GLOBAL acc *s = work + first;
        w = a->values - column < begin + n - e ? a->values - column : begin + n - e;
        w = w < ATTENTION_ROOM ? w : ATTENTION_ROOM;
        for (i64 d = 0; d < a->keys; d++)
            for (i64 j = 0; j < w; j++)
                s[d * a->values + j] = attention_load(a, state, first + d * a->values + j);
        for (i64 t = 0; t < a->steps; t++, at += a->heads) {
            attention_write(a, at, w, s, k, v + at * a->values + column, decay, beta);
            attention_read(a, at, w, s, y + column, q);
        }
        for (i64 d = 0; !a->done && d < a->keys; d++)
            for (i64 j = 0; j < w; j++)
                attention_store(a, next, first + d * a->values + j, s[d * a->values + j]);
    }
}
ENTRY_SPANS_9(linear_attention, elem, void, acc, const elem, const elem, const elem, const void,
              const elem, const elem)
#endif

#endif
