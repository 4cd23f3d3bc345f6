/* SPDX-License-Identifier: Apache-2.0 */
/* unary.c: runs the operators of sdk/ops/unary/kernels.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "stream_line.h"
#include <ops/unary/kernel.h>

struct unary {
    struct loop loop;
    acc a, b, c; /* attributes */
};

/* `of` is a constant wherever this is inlined, so that the loop vectorises. */
static inline __attribute__((always_inline)) void unary_each(const struct unary *u, int64_t n,
                                                             elem *y, const elem *x,
                                                             elem (*of)(elem, acc, acc, acc))
{
    acc a = u->a, b = u->b, c = u->c;
    int64_t nt = lines_count(&u->loop, y, n);
    elem line[LINE];

    for (int64_t i = 0; i < nt; i += LINE) {
#pragma omp simd
        for (int j = 0; j < LINE; j++) line[j] = of(x[i + j], a, b, c);
        line_put(y + i, line);
    }
#pragma omp simd
    for (int64_t i = nt; i < n; i++) y[i] = of(x[i], a, b, c);
}

static __attribute__((noinline)) void unary_run(const struct loop *loop, int64_t n, void *y,
                                                const void *const *x)
{
    const struct unary *u = (const struct unary *)loop;

    switch (loop->op) {
#define UNARY_EACH(number, of) case number: unary_each(u, n, y, x[0], of); break;
#include <ops/unary/kernels_each.def>
    }
}

cpu_span NAME(unary_span);
void NAME(unary_span)(int formula, int64_t n, void *y, const void *const *x, const double *v)
{
    struct unary u;

    u.loop.nt = false;
    u.loop.op = formula;
    u.a = unary_number(formula, 0, v[0]);
    u.b = unary_number(formula, 1, v[1]);
    u.c = unary_number(formula, 2, v[2]);
    unary_run(&u.loop, n, y, x);
}

cpu_typed NAME(unary);
enum bp_status NAME(unary)(const struct bp_launch *launch, int op)
{
    struct unary u;

    u.loop.run = unary_run;
    u.loop.lines = true;
    u.loop.op = unary_form(op, launch);
    u.a = unary_number(u.loop.op, 0, attr_f64(launch, 1));
    u.b = unary_number(u.loop.op, 1, attr_f64(launch, 2));
    u.c = unary_number(u.loop.op, 2, attr_f64(launch, 3));
    cpu_loop_run(&u.loop, launch, launch->out[0], launch->in, 1);
    return BP_OK;
}
