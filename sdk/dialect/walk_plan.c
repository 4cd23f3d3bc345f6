/* SPDX-License-Identifier: Apache-2.0 */
/* walk_plan.c: builds walks on the host: sets strides, joins axes, and chooses how many elements a
 * lane computes together. */
#include "walk_plan.h"

#include <stdbool.h>

struct walk_by_value walk_shape(int rank, const int64_t *shape)
{
    struct walk_by_value walk = {.count = 1, .rank = rank};

    for (int a = 0; a < rank; a++) {
        walk.shape[a] = shape[a];
        walk.count *= shape[a];
    }
    return walk;
}

void walk_strides(struct walk_by_value *walk, int k, int rank, const int64_t *shape,
                  const int64_t *stride)
{
    int64_t missing = walk->rank - rank;

    for (int a = 0; a < rank; a++) walk->stride[k][missing + a] = shape[a] == 1 ? 0 : stride[a];
}

static void axes_swap(struct walk_by_value *walk, int64_t a, int64_t b)
{
    i64 extent = walk->shape[a];

    walk->shape[a] = walk->shape[b];
    walk->shape[b] = extent;
    for (int k = 0; k < BY_VALUE_OPERANDS; k++) {
        i64 stride = walk->stride[k][a];
        walk->stride[k][a] = walk->stride[k][b];
        walk->stride[k][b] = stride;
    }
}

/* Returns whether in all operands the step from the end of axis inner to the next index of axis
 * outer equals the stride of inner. */
static bool axes_join(const struct walk_by_value *walk, int64_t outer, int64_t inner)
{
    for (int k = 0; k < BY_VALUE_OPERANDS; k++)
        if (walk->stride[k][outer] != walk->stride[k][inner] * walk->shape[inner]) return false;
    return true;
}

void walk_join(struct walk_by_value *walk, int n)
{
    int64_t kept = 0;
    bool flat = true;

    for (int64_t a = 1; a < walk->rank; a++)
        for (int64_t to = a; to && walk->stride[0][to - 1] < walk->stride[0][to]; to--)
            axes_swap(walk, to - 1, to);
    for (int64_t a = 0; a < walk->rank && walk->count; a++) {
        if (walk->shape[a] == 1) continue;
        axes_swap(walk, kept, a); /* the axes in between have extent 1, or are joined */
        if (kept && axes_join(walk, kept - 1, kept)) {
            walk->shape[kept] *= walk->shape[kept - 1];
            axes_swap(walk, kept - 1, kept);
        } else {
            kept++;
        }
    }
    walk->rank = kept;
    for (int k = 0; k < n; k++) flat &= !kept || walk->stride[k][0] == 1;
    if (kept == 1 && flat) walk->rank = 0;
}

struct walk_by_value walk_of(const struct bp_view *y, const struct bp_view *const *x, int n)
{
    bool flat = !(y->flags & BP_VIEW_STRIDED);
    struct walk_by_value walk;

    for (int k = 0; k < n; k++)
        flat &= !x[k] || (!(x[k]->flags & BP_VIEW_STRIDED) && x[k]->count == y->count);
    if (flat) return (struct walk_by_value){.count = y->count};
    walk = walk_shape(y->rank, y->shape);
    walk_strides(&walk, 0, y->rank, y->shape, y->stride);
    for (int k = 0; k < n; k++) {
        const struct bp_view *of = x[k] ? x[k] : y;
        walk_strides(&walk, k + 1, of->rank, of->shape, of->stride);
    }
    walk_join(&walk, n + 1);
    return walk;
}

void walk_divide(const struct walk_by_value *walk, int n, int together, struct portable *p)
{
    p->together = together;
    for (int k = 0; k < n; k++)
        if (!walk_is_even(walk, k, p->bytes[k], (u64)(uintptr_t)p->operand[k].data, together))
            p->together = 0;
}
