/* SPDX-License-Identifier: Apache-2.0 */
/* predicate.c: operators of sdk/kernels/predicate.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "walk.h"
#include <kernels/predicate.h>

struct predicate {
    struct walk walk; /* y, x */
    u8 *y;
    const elem *x;
    int op; /* PREDICATE_isnan and so on */
};

/* of is known where this is inlined, so that the loop vectorises. */
static inline __attribute__((always_inline)) void span(const struct predicate *p, int64_t n,
                                                       const int64_t *at, u8 (*of)(elem))
{
    int last = p->walk.rank - 1;
    int64_t sy = p->walk.stride[0][last], sx = p->walk.stride[1][last];
    u8 *y = p->y + at[0];
    const elem *x = p->x + at[1];

    if (sy == 1 && sx == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = of(x[i]);
    } else {
        for (int64_t i = 0; i < n; i++) y[i * sy] = of(x[i * sx]);
    }
}

static void predicate_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct predicate *p = ctx;

    switch (p->op) {
#define PREDICATE_ANY(op, formula) case PREDICATE_##op: span(p, n, at, predicate_##op); break;
#ifdef ELEM_FLOAT
#define PREDICATE_FLOAT(op, formula) PREDICATE_ANY(op, formula)
#endif
#include <kernels/predicate.def>
    }
}

cpu_typed NAME(predicate);
enum bp_status NAME(predicate)(const struct bp_launch *launch, int op)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct predicate p = {.y = y->data, .x = x->data, .op = op};

    if (!((x->flags | y->flags) & BP_VIEW_STRIDED)) {
        walk_flat(&p.walk, y->count);
    } else {
        walk_init(&p.walk, y->rank, y->shape);
        walk_broadcast(&p.walk, 0, y->rank, y->shape, y->stride);
        walk_broadcast(&p.walk, 1, x->rank, x->shape, x->stride);
        walk_sort(&p.walk, 0);
        walk_collapse(&p.walk);
    }
    walk_run(&p.walk, launch, predicate_span, &p);
    return BP_OK;
}
