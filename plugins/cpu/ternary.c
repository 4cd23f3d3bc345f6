/* SPDX-License-Identifier: Apache-2.0 */
/* ternary.c: runs the operators of sdk/ops/binary/kernels_ternary.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "loop.h"
#include <ops/binary/kernel_ternary.h>

struct ternary {
    struct loop loop;
    acc a; /* attribute */
};

/* op is a constant wherever this is inlined, so that the loop vectorises. */
static inline __attribute__((always_inline)) void ternary_each(const struct ternary *t, int64_t n,
                                                               elem *w, const void *const *in,
                                                               int op)
{
    const elem *x = in[0], *y = in[1], *z = in[2];
    acc a = t->a;

#pragma omp simd
    for (int64_t i = 0; i < n; i++) w[i] = ternary_elem(op, x[i], y[i], z[i], a);
}

static __attribute__((noinline)) void ternary_run(const struct loop *loop, int64_t n, void *w,
                                                  const void *const *in)
{
    const struct ternary *t = (const struct ternary *)loop;

    switch (loop->op) {
#define TERNARY_FLOAT(op, formula) \
    case TERNARY_##op: ternary_each(t, n, w, in, TERNARY_##op); break;
#include <ops/binary/kernels_ternary.def>
    }
}

cpu_span NAME(ternary_span);
void NAME(ternary_span)(int formula, int64_t n, void *w, const void *const *x, const double *v)
{
    struct ternary t;

    t.loop.op = formula;
    t.a = number(v[0]);
    ternary_run(&t.loop, n, w, x);
}

cpu_typed NAME(ternary);
enum bp_status NAME(ternary)(const struct bp_launch *launch, int op)
{
    struct ternary t;

    t.loop.run = ternary_run;
    t.loop.lines = false;
    t.loop.op = op;
    t.a = attr_number(launch, 1);
    cpu_loop_run(&t.loop, launch, launch->out[0], launch->in, 3);
    return BP_OK;
}
