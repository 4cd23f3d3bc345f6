/* SPDX-License-Identifier: Apache-2.0 */
/* where.c: where, mask, which is where with zeros on one side, and masked_fill, which has another
 * order, for one size of elements (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "walk.h"
#include <kernels/formulas.h>
#include <kernels/where.h>
#include <stdbool.h>

struct where {
    struct walk walk; /* z, c, x, y */
    elem *z;
    const u8 *c;
    const elem *x, *y;
};

static const elem nothing; /* zero, in every dtype */

/* z may be x or y: then each element is read before it is written, in any order. */
static void where_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct where *w = ctx;
    int last = w->walk.rank - 1;
    int64_t sz = w->walk.stride[0][last], sc = w->walk.stride[1][last],
            sx = w->walk.stride[2][last], sy = w->walk.stride[3][last];
    elem *z = w->z + at[0];
    const u8 *c = w->c + at[1];
    const elem *x = w->x + at[2], *y = w->y + at[3], fixed_x = *x, fixed_y = *y;

    if (sz == 1 && sc == 1 && sx == 1 && sy == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = where_elem(c[i], x[i], y[i]);
    } else if (sz == 1 && sc == 1 && sx == 1 && sy == 0) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = where_elem(c[i], x[i], fixed_y);
    } else if (sz == 1 && sc == 1 && sx == 0 && sy == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = where_elem(c[i], fixed_x, y[i]);
    } else {
        for (int64_t i = 0; i < n; i++) z[i * sz] = where_elem(c[i * sc], x[i * sx], y[i * sy]);
    }
}

/* View number index of the walk is v; NULL: zeros. Answers where its elements lie. */
static const elem *side(struct walk *walk, int index, const struct bp_view *v)
{
    if (!v) return &nothing;
    walk_broadcast(walk, index, v->rank, v->shape, v->stride);
    return v->data;
}

/* Condition, values where it is true, values where it is false (NULL: zeros). */
static void order(const struct bp_launch *launch, int op, const struct bp_view **c,
                  const struct bp_view **x, const struct bp_view **y)
{
    const struct bp_view *const *in = launch->in;
    bool invert = op == WHERE_mask && attr_i64(launch, 1);

    *c = in[op != WHERE_where];
    *x = op == WHERE_where ? in[1] : op == WHERE_masked_fill ? in[2] : invert ? NULL : in[0];
    *y = op == WHERE_where ? in[2] : op == WHERE_masked_fill || invert ? in[0] : NULL;
}

cpu_typed NAME(where);
enum bp_status NAME(where)(const struct bp_launch *launch, int op)
{
    const struct bp_view *z = launch->out[0], *c, *x, *y;
    struct where w;

    order(launch, op, &c, &x, &y);
    w.z = z->data;
    w.c = c->data;
    walk_init(&w.walk, z->rank, z->shape);
    walk_broadcast(&w.walk, 0, z->rank, z->shape, z->stride);
    walk_broadcast(&w.walk, 1, c->rank, c->shape, c->stride);
    w.x = side(&w.walk, 2, x);
    w.y = side(&w.walk, 3, y);
    walk_sort(&w.walk, 0);
    walk_collapse(&w.walk);
    walk_run(&w.walk, launch, where_span, &w);
    return BP_OK;
}
