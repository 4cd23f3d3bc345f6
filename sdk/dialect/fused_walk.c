/* SPDX-License-Identifier: Apache-2.0 */
/* fused_walk.c: finds in which order a kernel of `fused` visits elements, and how each operand lies
 * in memory in this order. */
#include "fused_walk.h"

#include <string.h>

static void walk_add(struct fused_walk *w, int k, const struct bp_view *order,
                     const struct bp_view *v)
{
    int missing = order->rank - v->rank;

    for (int a = 0; a < v->rank; a++)
        w->stride[k][missing + a] = v->shape[a] == 1 ? 0 : v->stride[a];
}

static void walk_swap(struct fused_walk *w, int a, int b)
{
    int64_t extent = w->shape[a];

    w->shape[a] = w->shape[b];
    w->shape[b] = extent;
    for (int k = 0; k < w->n; k++) {
        int64_t stride = w->stride[k][a];
        w->stride[k][a] = w->stride[k][b];
        w->stride[k][b] = stride;
    }
}

/* Whether, in all operands, the end of axis inner is followed by the next index of axis outer. */
static bool walk_joins(const struct fused_walk *w, int outer, int inner)
{
    for (int k = 0; k < w->n; k++)
        if (w->stride[k][outer] != w->stride[k][inner] * w->shape[inner]) return false;
    return true;
}

/* Sorts the axes by the strides of the first result, and joins those that are one axis. */
static void walk_reduce(struct fused_walk *w)
{
    int kept = 0;

    for (int a = 1; a < w->rank; a++)
        for (int to = a; to && w->stride[0][to - 1] < w->stride[0][to]; to--)
            walk_swap(w, to - 1, to);
    for (int a = 0; a < w->rank; a++) {
        if (w->shape[a] == 1) continue;
        walk_swap(w, kept, a); /* the axes in between have extent 1, or are joined */
        if (kept && walk_joins(w, kept - 1, kept)) {
            w->shape[kept] *= w->shape[kept - 1];
            walk_swap(w, kept - 1, kept);
            w->shape[kept] = 1;
        } else {
            kept++;
        }
    }
    w->rank = kept;
}

static enum fused_kind operand_kind(const struct fused_walk *w, int k)
{
    int64_t step = 1, inner = w->rank ? w->stride[k][w->rank - 1] : 1;
    bool dense = true, scalar = w->rank > 0;

    for (int a = w->rank - 1; a >= 0; step *= w->shape[a--]) {
        dense &= w->stride[k][a] == step;
        scalar &= w->stride[k][a] == 0;
    }
    if (dense) return FUSED_DENSE;
    if (scalar) return FUSED_SCALAR;
    return inner == 1 ? FUSED_ROW : inner == 0 ? FUSED_HELD : FUSED_STRIDED;
}

void portable_fused_walk(const struct bp_prep *prep, struct fused_walk *out)
{
    const struct bp_view *order = prep->out[0];
    bool strides = false;

    *out = (struct fused_walk){.n_out = (int)prep->n_out,
                               .n = (int)(prep->n_out + prep->n_in),
                               .rank = order->rank,
                               .count = order->count};
    memcpy(out->shape, order->shape, (size_t)order->rank * sizeof *out->shape);
    for (int k = 0; k < out->n; k++)
        walk_add(out, k, order, k < out->n_out ? prep->out[k] : prep->in[k - out->n_out]);
    walk_reduce(out);
    for (int k = 0; k < out->n; k++) {
        out->kind[k] = operand_kind(out, k);
        strides |= fused_has_strides(out, k);
    }
    if (!strides) out->rank = 0; /* the number of the element is its offset */
}

size_t portable_fused_args(const struct fused_walk *w, int64_t out[FUSED_ARGS])
{
    size_t rank = (size_t)w->rank, n = 0;

    if (!rank) return 0;
    memcpy(out, w->shape, rank * sizeof *out);
    for (int k = 0; k < w->n; k++) memcpy(out + (n += rank), w->stride[k], rank * sizeof *out);
    return (n + rank) * sizeof *out;
}
