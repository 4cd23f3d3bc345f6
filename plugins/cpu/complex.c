/* SPDX-License-Identifier: Apache-2.0 */
/* complex.c: runs the operators of sdk/ops/complex/kernels.def, for real and imaginary parts of one
 * type (elem.h). A complex number is two contiguous parts. */
#include "cpu.h"
#include "formula.h"
#include "loop.h"
#include <ops/complex/kernel.h>

static inline __attribute__((always_inline)) void complex_run_make(int64_t n, elem *restrict z,
                                                                   const elem *re, const elem *im,
                                                                   int op)
{
    for (int64_t i = 0; i < n; i++) {
        z[2 * i] = complex_pair(op, 0, re[i], im[i]);
        z[2 * i + 1] = complex_pair(op, 1, re[i], im[i]);
    }
}

/* y may be x. */
static inline __attribute__((always_inline)) void complex_run_pair(int64_t n, elem *y,
                                                                   const elem *x, int op)
{
    for (int64_t i = 0; i < n; i++) {
        elem re = x[2 * i], im = x[2 * i + 1];
        y[2 * i] = complex_pair(op, 0, re, im);
        y[2 * i + 1] = complex_pair(op, 1, re, im);
    }
}

static inline __attribute__((always_inline)) void complex_run_part(int64_t n, elem *restrict y,
                                                                   const elem *x, int op)
{
    for (int64_t i = 0; i < n; i++) y[i] = complex_part(op, x[2 * i], x[2 * i + 1]);
}

static void complex_run(const struct loop *loop, int64_t n, void *y, const void *const *x)
{
    switch (loop->op) {
#define COMPLEX_MAKE(op, first, second) \
    case COMPLEX_##op: complex_run_make(n, y, x[0], x[1], COMPLEX_##op); break;
#define COMPLEX_PAIR(op, first, second) \
    case COMPLEX_##op: complex_run_pair(n, y, x[0], COMPLEX_##op); break;
#define COMPLEX_PART(op, formula) \
    case COMPLEX_##op: complex_run_part(n, y, x[0], COMPLEX_##op); break;
#include <ops/complex/kernels.def>
    }
}

cpu_typed NAME(complex);
enum bp_status NAME(complex)(const struct bp_launch *launch, int op)
{
    struct loop loop = {.run = complex_run, .op = op};

    cpu_loop_run(&loop, launch, launch->out[0], launch->in, (int)launch->n_in);
    return BP_OK;
}
