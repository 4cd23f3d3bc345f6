/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.c: operators of sdk/kernels/ternary.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "walk.h"
#include <kernels/ternary.h>
#include <stdbool.h>

struct ternary {
    struct walk walk; /* w, x, y, z */
    elem *w;
    const elem *x, *y, *z;
    acc a; /* attribute */
    int op; /* TERNARY_lerp and so on */
};

/* op is known wherever this is inlined, so that the loops vectorise. w may be one of the others:
 * then each element is read before it is written, in any order. */
static inline __attribute__((always_inline)) void span(const struct ternary *t, int64_t n,
                                                       const int64_t *at, int op)
{
    int last = t->walk.rank - 1;
    int64_t sw = t->walk.stride[0][last], sx = t->walk.stride[1][last],
            sy = t->walk.stride[2][last], sz = t->walk.stride[3][last];
    elem *w = t->w + at[0];
    const elem *x = t->x + at[1], *y = t->y + at[2], *z = t->z + at[3];
    acc a = t->a;

    if (sw == 1 && sx == 1 && sy == 1 && sz == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) w[i] = ternary_elem(op, x[i], y[i], z[i], a);
    } else if (sw == 1 && sx == 1 && sy == 1 && sz == 0) {
        elem fixed = *z;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) w[i] = ternary_elem(op, x[i], y[i], fixed, a);
    } else {
        for (int64_t i = 0; i < n; i++)
            w[i * sw] = ternary_elem(op, x[i * sx], y[i * sy], z[i * sz], a);
    }
}

static void ternary_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct ternary *t = ctx;

    switch (t->op) {
#define TERNARY_FLOAT(op, formula) case TERNARY_##op: span(t, n, at, TERNARY_##op); break;
#include <kernels/ternary.def>
    }
}

cpu_typed NAME(ternary);
enum bp_status NAME(ternary)(const struct bp_launch *launch, int op)
{
    const struct bp_view *w = launch->out[0];
    bool flat = !(w->flags & BP_VIEW_STRIDED);
    struct ternary t;

    t.w = w->data;
    t.x = launch->in[0]->data;
    t.y = launch->in[1]->data;
    t.z = launch->in[2]->data;
    t.op = op;
    t.a = attr_number(launch, 1);
    for (int i = 0; i < 3; i++)
        flat &= !(launch->in[i]->flags & BP_VIEW_STRIDED) && launch->in[i]->count == w->count;
    if (flat) {
        walk_flat(&t.walk, w->count);
    } else {
        walk_init(&t.walk, w->rank, w->shape);
        walk_broadcast(&t.walk, 0, w->rank, w->shape, w->stride);
        for (int i = 0; i < 3; i++) {
            const struct bp_view *in = launch->in[i];
            walk_broadcast(&t.walk, i + 1, in->rank, in->shape, in->stride);
        }
        walk_sort(&t.walk, 0);
        walk_collapse(&t.walk);
    }
    walk_run(&t.walk, launch, ternary_span, &t);
    return BP_OK;
}
