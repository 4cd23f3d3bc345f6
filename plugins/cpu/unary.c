/* SPDX-License-Identifier: Apache-2.0 */
/* unary.c: operators of sdk/kernels/unary.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "loop.h"
#include <kernels/unary.h>

struct unary {
    struct loop loop;
    acc a, b, c; /* attributes */
};

/* of is known where this is inlined, so that the loop vectorises. */
static inline __attribute__((always_inline)) void each(const struct unary *u, int64_t n, elem *y,
                                                       const elem *x,
                                                       elem (*of)(elem, acc, acc, acc))
{
    acc a = u->a, b = u->b, c = u->c;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = of(x[i], a, b, c);
}

static void unary_run(const struct loop *loop, int64_t n, void *y, const void *const *x)
{
    const struct unary *u = (const struct unary *)loop;

    switch (loop->op) {
#define UNARY_EACH(op) case UNARY_##op: each(u, n, y, x[0], unary_##op); break;
#include <kernels/unary_each.def>
    }
}

/* The formula of an operator that has several. */
static int unary_form(int op, const struct bp_launch *launch)
{
    if (op == UNARY_gelu && attr_i64(launch, 1)) /* approximate */
        return UNARY_gelu_tanh;
    return op;
}

cpu_typed NAME(unary);
enum bp_status NAME(unary)(const struct bp_launch *launch, int op)
{
    struct unary u;

    u.loop.run = unary_run;
    u.loop.op = unary_form(op, launch);
    u.a = unary_number(u.loop.op, 0, attr_f64(launch, 1));
    u.b = unary_number(u.loop.op, 1, attr_f64(launch, 2));
    u.c = unary_number(u.loop.op, 2, attr_f64(launch, 3));
    cpu_loop_run(&u.loop, launch, launch->out[0], launch->in, 1);
    return BP_OK;
}
