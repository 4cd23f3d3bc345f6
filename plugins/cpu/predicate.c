/* SPDX-License-Identifier: Apache-2.0 */
/* predicate.c: runs the operators of sdk/ops/compare/kernels_predicate.def, for one dtype
 * (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "loop.h"
#include <ops/compare/kernel_predicate.h>

/* `of` is a constant wherever this is inlined, so that the loop vectorises. */
static inline __attribute__((always_inline)) void predicate_each(int64_t n, u8 *y, const elem *x,
                                                                 u8 (*of)(elem))
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] = of(x[i]);
}

static void predicate_run(const struct loop *loop, int64_t n, void *y, const void *const *x)
{
    switch (loop->op) {
#define PREDICATE_ANY(op, formula) \
    case PREDICATE_##op: predicate_each(n, y, x[0], predicate_##op); break;
#ifdef ELEM_FLOAT
#define PREDICATE_FLOAT(op, formula) PREDICATE_ANY(op, formula)
#endif
#include <ops/compare/kernels_predicate.def>
    }
}

cpu_span NAME(predicate_span);
void NAME(predicate_span)(int formula, int64_t n, void *y, const void *const *x, const double *v)
{
    struct loop loop = {.op = formula};

    (void)v;
    predicate_run(&loop, n, y, x);
}

cpu_typed NAME(predicate);
enum bp_status NAME(predicate)(const struct bp_launch *launch, int op)
{
    struct loop loop = {.run = predicate_run, .op = op};

    cpu_loop_run(&loop, launch, launch->out[0], launch->in, 1);
    return BP_OK;
}
