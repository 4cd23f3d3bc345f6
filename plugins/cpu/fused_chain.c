/* SPDX-License-Identifier: Apache-2.0 */
/* fused_chain.c: runs several cheap operators of which each reads the result before it, without
 * memory between them, for one float dtype (elem.h). A block of vectors stays in registers while
 * all operators of the chain run on it: the separate loops would store and load each result. */
#include "fused.h"
#include "stream_line.h"
#include <dialect/elem.h>
#include <string.h>

typedef elem vec __attribute__((vector_size(VECTOR), may_alias, aligned(sizeof(elem))));
#ifdef ELEM_f64
typedef i64 mask __attribute__((vector_size(VECTOR)));
#else
typedef i32 mask __attribute__((vector_size(VECTOR)));
#endif
enum { CHAIN_LANES = VECTOR / (int)sizeof(elem), CHAIN_MANY = VECTOR == 64 ? 16 : 8 };

static inline vec chain_select(mask m, vec yes, vec no)
{
    return (vec)((m & (mask)yes) | (~m & (mask)no));
}

/* A vector whose lanes are one number. */
static inline vec chain_all(elem number)
{
    return number - (vec){0}; /* a sum would lose the sign of -0 */
}

static inline vec chain_load(const void *w, int64_t i)
{
    return *(const vec *)((const elem *)w + i);
}

static inline vec chain_abs(vec v)
{
    return (vec)((mask)v & ~(mask)chain_all(-(elem)0));
}

/* As ord_max and ord_min of pairs.h. */
static inline vec chain_max(vec x, vec y)
{
    return chain_select((x > y) | (x != x), x, y);
}

static inline vec chain_min(vec x, vec y)
{
    return chain_select((x < y) | (x != x), x, y);
}

static inline vec chain_clip(vec v, vec least, vec most)
{
    v = chain_select(v < least, least, v);
    return chain_select(v > most, most, v);
}

/* Stores a block. Streaming stores fetch the lines of x that a later block reads. */
static inline __attribute__((always_inline)) void chain_store(elem *y, const elem *x, const vec *v,
                                                              int many, bool streams)
{
    if (!streams) {
        HOST_UNROLL
        for (int j = 0; j < many; j++) *(vec *)(y + j * CHAIN_LANES) = v[j];
        return;
    }
    HOST_UNROLL
    for (int j = 0; j < many; j++) {
        line_put(y + j * CHAIN_LANES, (const elem *)&v[j]);
        if (j * VECTOR % NT_LINE == 0)
            __builtin_prefetch((const char *)(x + j * CHAIN_LANES) + NT_AHEAD);
    }
}

/* Runs all links on blocks of `many` vectors from element i on, as long as whole blocks are left;
 * returns the next element. many is a constant wherever this is inlined. */
static inline __attribute__((always_inline)) int64_t chain_blocks(const struct fused_link *link,
                                                                  int n_link, int64_t i, int64_t n,
                                                                  elem *y, const elem *x, int many,
                                                                  bool streams)
{
    for (; i + many * CHAIN_LANES <= n; i += many * CHAIN_LANES) {
        vec v[CHAIN_MANY];
        HOST_UNROLL
        for (int j = 0; j < many; j++) v[j] = chain_load(x, i + j * CHAIN_LANES);
        for (const struct fused_link *l = link; l < link + n_link; l++) {
            switch (l->op) {
#define W chain_load(l->w, i + j * CHAIN_LANES)
#define LINK(op, formula) \
    case FUSED_##op: { \
        vec a = chain_all((elem)l->a); \
        (void)a; \
        HOST_UNROLL for (int j = 0; j < many; j++) v[j] = formula; \
        break; \
    }
                LINK(ADD, v[j] + W)
                LINK(SUB, v[j] - W)
                LINK(SUB_FROM, W - v[j])
                LINK(MUL, v[j] * W)
                LINK(MAX, chain_max(v[j], W))
                LINK(MAX_OF, chain_max(W, v[j]))
                LINK(AT_LEAST, chain_select(v[j] < a, a, v[j]))
                LINK(MAX_NUMBER, chain_max(v[j], a))
                LINK(MAX_OF_NUMBER, chain_max(a, v[j]))
                LINK(MIN, chain_min(v[j], W))
                LINK(MIN_OF, chain_min(W, v[j]))
                LINK(AT_MOST, chain_select(v[j] > a, a, v[j]))
                LINK(MIN_NUMBER, chain_min(v[j], a))
                LINK(MIN_OF_NUMBER, chain_min(a, v[j]))
                LINK(ADD_NUMBER, v[j] + a)
                LINK(SUB_NUMBER, v[j] - a)
                LINK(SUB_FROM_NUMBER, a - v[j])
                LINK(MUL_NUMBER, v[j] * a)
                LINK(ABS, chain_abs(v[j]))
                LINK(NEG, -v[j])
                LINK(SQUARE, v[j] * v[j])
                LINK(RELU, chain_select(v[j] < (vec){0}, (vec){0}, v[j]))
                LINK(CLIP, chain_clip(v[j], a, chain_all((elem)l->b)))
                LINK(SCALE, v[j] * a + chain_all((elem)l->b))
#undef LINK
#undef W
            }
        }
        chain_store(y + i, x + i, v, many, streams);
    }
    return i;
}

/* The last elements, which fill no vector, are computed in copies of them. */
static void chain_rest(const struct fused_link *link, int n_link, int64_t i, int64_t n, elem *y,
                       const elem *x)
{
    elem first[CHAIN_LANES] = {0}, last[CHAIN_LANES], other[BP_FUSED_STEPS][CHAIN_LANES];
    struct fused_link copy[BP_FUSED_STEPS];
    size_t bytes = (size_t)(n - i) * sizeof(elem);

    memcpy(first, x + i, bytes);
    for (int k = 0; k < n_link; k++) {
        copy[k] = link[k];
        if (!link[k].w) continue;
        memset(other[k], 0, sizeof other[k]);
        memcpy(other[k], (const elem *)link[k].w + i, bytes);
        copy[k].w = other[k];
    }
    chain_blocks(copy, n_link, 0, CHAIN_LANES, last, first, 1, false);
    memcpy(y + i, last, bytes);
}

cpu_chain NAME(fused_chain);
void NAME(fused_chain)(const struct fused_link *link, int n_link, int64_t n, void *y, const void *x,
                       bool streams)
{
    int64_t i = chain_blocks(link, n_link, 0, n, y, x, CHAIN_MANY, streams);

    i = chain_blocks(link, n_link, i, n, y, x, 1, false);
    if (i < n) chain_rest(link, n_link, i, n, y, x);
}
