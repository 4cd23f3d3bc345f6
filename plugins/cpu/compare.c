/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: operators of sdk/kernels/compare.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "walk.h"
#include <kernels/compare.h>

struct compare {
    struct walk walk; /* z, x, y */
    u8 *z;
    const elem *x, *y;
    acc a, b; /* attributes */
    int flag;
    int op; /* COMPARE_equal and so on */
};

/* op is known wherever this is inlined, so that the loops vectorise. */
static inline __attribute__((always_inline)) void span(const struct compare *c, int64_t n,
                                                       const int64_t *at, int op)
{
    int last = c->walk.rank - 1, flag = c->flag;
    int64_t sz = c->walk.stride[0][last], sx = c->walk.stride[1][last],
            sy = c->walk.stride[2][last];
    u8 *restrict z = c->z + at[0];
    const elem *x = c->x + at[1], *y = c->y + at[2];
    acc a = c->a, b = c->b;

    if (sz == 1 && sx == 1 && sy == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = compare_elem(op, x[i], y[i], a, b, flag);
    } else if (sz == 1 && sx == 1 && sy == 0) {
        elem fixed = *y;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = compare_elem(op, x[i], fixed, a, b, flag);
    } else if (sz == 1 && sx == 0 && sy == 1) {
        elem fixed = *x;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = compare_elem(op, fixed, y[i], a, b, flag);
    } else {
        for (int64_t i = 0; i < n; i++)
            z[i * sz] = compare_elem(op, x[i * sx], y[i * sy], a, b, flag);
    }
}

static void compare_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct compare *c = ctx;

    switch (c->op) {
#define CASE(op) case COMPARE_##op: span(c, n, at, COMPARE_##op); break;
#define COMPARE_ANY(op, formula) CASE(op)
#define COMPARE_TRUTH(op, formula) CASE(op)
#ifndef ELEM_COMPLEX
#define COMPARE_REAL(op, formula) CASE(op)
#endif
#ifdef ELEM_FLOAT
#define COMPARE_FLOAT(op, formula) CASE(op)
#endif
#include <kernels/compare.def>
    }
}

cpu_typed NAME(compare);
enum bp_status NAME(compare)(const struct bp_launch *launch, int op)
{
    const struct bp_view *x = launch->in[0], *y = launch->in[1], *z = launch->out[0];
    struct compare c;

    c.z = z->data;
    c.x = x->data;
    c.y = y->data;
    c.op = op;
    c.a = attr_number(launch, 1);
    c.b = attr_number(launch, 2);
    c.flag = attr_i64(launch, 3) != 0;
    if (!((x->flags | y->flags | z->flags) & BP_VIEW_STRIDED) && x->count == z->count &&
        y->count == z->count) {
        walk_flat(&c.walk, z->count);
    } else {
        walk_init(&c.walk, z->rank, z->shape);
        walk_broadcast(&c.walk, 0, z->rank, z->shape, z->stride);
        walk_broadcast(&c.walk, 1, x->rank, x->shape, x->stride);
        walk_broadcast(&c.walk, 2, y->rank, y->shape, y->stride);
        walk_sort(&c.walk, 0);
        walk_collapse(&c.walk);
    }
    walk_run(&c.walk, launch, compare_span, &c);
    return BP_OK;
}
