/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: runs the operators of sdk/ops/compare/kernels.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "loop.h"
#include <ops/compare/kernel.h>

struct compare {
    struct loop loop;
    acc a, b; /* attributes */
    int flag;
};

/* op is a constant wherever this is inlined, so that the loop vectorises. */
static inline __attribute__((always_inline)) void compare_each(const struct compare *c, int64_t n,
                                                               u8 *restrict z, const elem *x,
                                                               const elem *y, int op)
{
    acc a = c->a, b = c->b;
    int flag = c->flag;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) z[i] = compare_elem(op, x[i], y[i], a, b, flag);
}

static void compare_run(const struct loop *loop, int64_t n, void *z, const void *const *x)
{
    const struct compare *c = (const struct compare *)loop;

    switch (loop->op) {
#define CASE(op) case COMPARE_##op: compare_each(c, n, z, x[0], x[1], COMPARE_##op); break;
#define COMPARE_ANY(op, formula) CASE(op)
#define COMPARE_TRUTH(op, formula) CASE(op)
#ifndef ELEM_COMPLEX
#define COMPARE_REAL(op, formula) CASE(op)
#endif
#ifdef ELEM_FLOAT
#define COMPARE_FLOAT(op, formula) CASE(op)
#endif
#include <ops/compare/kernels.def>
    }
}

/* z is no operand: truth values of `fused` have buffers of their own. */
cpu_span NAME(compare_span);
void NAME(compare_span)(int formula, int64_t n, void *z, const void *const *x, const double *v)
{
    struct compare c = {.loop = {.op = formula}};

    (void)v;
    compare_run(&c.loop, n, z, x);
}

cpu_typed NAME(compare);
enum bp_status NAME(compare)(const struct bp_launch *launch, int op)
{
    struct compare c;

    c.loop.run = compare_run;
    c.loop.lines = false;
    c.loop.op = op;
    c.a = attr_number(launch, 1);
    c.b = attr_number(launch, 2);
    c.flag = attr_i64(launch, 3) != 0;
    cpu_loop_run(&c.loop, launch, launch->out[0], launch->in, 2);
    return BP_OK;
}
