/* SPDX-License-Identifier: Apache-2.0 */
/* complex.c: operators of sdk/kernels/complex.def, for parts of one type (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "walk.h"
#include <kernels/complex.h>

struct parts {
    struct walk walk; /* out, in, in */
    elem *out;
    const elem *in[2];
    int op; /* COMPLEX_real and so on */
};

/* Step of a view along the innermost axis, in its own elements. */
static inline int64_t step(const struct parts *p, int view)
{
    return p->walk.stride[view][p->walk.rank - 1];
}

static inline __attribute__((always_inline)) void make(const struct parts *p, int64_t n,
                                                       const int64_t *at, int op)
{
    int64_t sz = 2 * step(p, 0), sr = step(p, 1), si = step(p, 2);
    elem *restrict z = p->out + 2 * at[0];
    const elem *re = p->in[0] + at[1], *im = p->in[1] + at[2];

    for (int64_t i = 0; i < n; i++) {
        z[i * sz] = complex_pair(op, 0, re[i * sr], im[i * si]);
        z[i * sz + 1] = complex_pair(op, 1, re[i * sr], im[i * si]);
    }
}

/* y may be x. */
static inline __attribute__((always_inline)) void pair(const struct parts *p, int64_t n,
                                                       const int64_t *at, int op)
{
    int64_t sy = 2 * step(p, 0), sx = 2 * step(p, 1);
    elem *y = p->out + 2 * at[0];
    const elem *x = p->in[0] + 2 * at[1];

    for (int64_t i = 0; i < n; i++) {
        elem re = x[i * sx], im = x[i * sx + 1];
        y[i * sy] = complex_pair(op, 0, re, im);
        y[i * sy + 1] = complex_pair(op, 1, re, im);
    }
}

static inline __attribute__((always_inline)) void part(const struct parts *p, int64_t n,
                                                       const int64_t *at, int op)
{
    int64_t sy = step(p, 0), sx = 2 * step(p, 1);
    elem *restrict y = p->out + at[0];
    const elem *x = p->in[0] + 2 * at[1];

    for (int64_t i = 0; i < n; i++) y[i * sy] = complex_part(op, x[i * sx], x[i * sx + 1]);
}

static void complex_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct parts *p = ctx;

    switch (p->op) {
#define COMPLEX_MAKE(op, first, second) case COMPLEX_##op: make(p, n, at, COMPLEX_##op); break;
#define COMPLEX_PAIR(op, first, second) case COMPLEX_##op: pair(p, n, at, COMPLEX_##op); break;
#define COMPLEX_PART(op, formula) case COMPLEX_##op: part(p, n, at, COMPLEX_##op); break;
#include <kernels/complex.def>
    }
}

cpu_typed NAME(complex);
enum bp_status NAME(complex)(const struct bp_launch *launch, int op)
{
    const struct bp_view *out = launch->out[0];
    struct parts p;

    p.out = out->data;
    p.op = op;
    walk_init(&p.walk, out->rank, out->shape);
    walk_broadcast(&p.walk, 0, out->rank, out->shape, out->stride);
    for (uint32_t i = 0; i < launch->n_in && i < 2; i++) {
        const struct bp_view *in = launch->in[i];
        p.in[i] = in->data;
        walk_broadcast(&p.walk, (int)i + 1, in->rank, in->shape, in->stride);
    }
    walk_sort(&p.walk, 0);
    walk_collapse(&p.walk);
    walk_run(&p.walk, launch, complex_span, &p);
    return BP_OK;
}
