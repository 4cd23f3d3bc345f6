/* SPDX-License-Identifier: Apache-2.0 */
/* binary.c: runs the operators of sdk/ops/binary/kernels.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "stream_line.h"
#include <ops/binary/kernel.h>

struct binary {
    struct loop loop;
    acc a, b; /* attributes */
};

/* op is a constant wherever this is inlined, so that the loop vectorises. */
static inline __attribute__((always_inline)) void binary_each(const struct binary *b, int64_t n,
                                                              elem *z, const elem *x, const elem *y,
                                                              int op)
{
    acc first = b->a, second = b->b;
    int64_t nt = lines_count(&b->loop, z, n);
    elem line[LINE];

    for (int64_t i = 0; i < nt; i += LINE) {
#pragma omp simd
        for (int j = 0; j < LINE; j++) line[j] = binary_elem(op, x[i + j], y[i + j], first, second);
        line_put(z + i, line);
    }
#pragma omp simd
    for (int64_t i = nt; i < n; i++) z[i] = binary_elem(op, x[i], y[i], first, second);
}

static __attribute__((noinline)) void binary_run(const struct loop *loop, int64_t n, void *z,
                                                 const void *const *x)
{
    const struct binary *b = (const struct binary *)loop;

    switch (loop->op) {
#define CASE(op) case BINARY_##op: binary_each(b, n, z, x[0], x[1], BINARY_##op); break;
#define BINARY_NUMBER(op, formula) CASE(op)
#ifndef ELEM_COMPLEX
#define BINARY_REAL(op, formula) CASE(op)
#endif
#if defined(ELEM_FLOAT) || defined(ELEM_COMPLEX)
#define BINARY_FIELD(op, formula) CASE(op)
#endif
#if defined(ELEM_FLOAT)
#define BINARY_FLOAT(op, formula) CASE(op)
#elif !defined(ELEM_COMPLEX)
#define BINARY_INT(op, formula) CASE(op)
#define BINARY_BITS(op, formula) CASE(op)
#endif
#include <ops/binary/kernels.def>
    }
}

cpu_span NAME(binary_span);
void NAME(binary_span)(int formula, int64_t n, void *z, const void *const *x, const double *v)
{
    struct binary b;

    b.loop.nt = false;
    b.loop.op = formula;
    b.a = number(v[0]);
    b.b = number(v[1]);
    binary_run(&b.loop, n, z, x);
}

#ifdef ELEM_FLOAT
/* Exponents whose power is computed without pow(). A power of 0.5 differs from a root: that of -0
 * is 0, and that of minus infinity is infinity. */
enum power { POWER_ROOT_INVERSE, POWER_INVERSE, POWER_ZERO, POWER_ROOT, POWER_SQUARE, POWER_CUBE };
static const double power_exponent[] = {-0.5, -1, 0, 0.5, 2, 3};

/* Where two operations would round twice, they are in the type in which pow() is computed. */
static inline __attribute__((always_inline)) acc power_elem(enum power power, acc x)
{
    acc root = x == -(acc)INFINITY ? (acc)INFINITY : x + 0;

    switch (power) {
    case POWER_ROOT_INVERSE: return (acc)(1 / sqrt((inner)root));
    case POWER_INVERSE: return 1 / x;
    case POWER_ZERO: return 1;
    case POWER_ROOT: return MATH(sqrt)(root);
    case POWER_SQUARE: return x * x;
    case POWER_CUBE: return (acc)((inner)x * (inner)x * (inner)x);
    }
    return x;
}

/* power is a constant wherever this is inlined, so that the loop vectorises. */
static inline __attribute__((always_inline)) void power_each(int64_t n, elem *z, const elem *x,
                                                             enum power power)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) z[i] = elem_put(power_elem(power, elem_get(x[i])));
}

static void power_run(const struct loop *loop, int64_t n, void *z, const void *const *x)
{
    switch ((enum power)loop->op) {
    case POWER_ROOT_INVERSE: power_each(n, z, x[0], POWER_ROOT_INVERSE); break;
    case POWER_INVERSE: power_each(n, z, x[0], POWER_INVERSE); break;
    case POWER_ZERO: power_each(n, z, x[0], POWER_ZERO); break;
    case POWER_ROOT: power_each(n, z, x[0], POWER_ROOT); break;
    case POWER_SQUARE: power_each(n, z, x[0], POWER_SQUARE); break;
    case POWER_CUBE: power_each(n, z, x[0], POWER_CUBE); break;
    }
}

/* Whether all exponents are one number of power_exponent; then computes the powers. */
static bool power_uniform(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->in[1];
    struct loop loop = {.run = power_run};
    double exponent;

    if (y->count != 1) return false;
    exponent = (double)elem_get(*(const elem *)y->data);
    for (size_t i = 0; i < sizeof power_exponent / sizeof *power_exponent; i++) {
        if (exponent != power_exponent[i]) continue;
        loop.op = (int)i;
        cpu_loop_run(&loop, launch, launch->out[0], launch->in, 1);
        return true;
    }
    return false;
}
#else
static bool power_uniform(const struct bp_launch *launch)
{
    (void)launch;
    return false;
}
#endif

cpu_typed NAME(binary);
enum bp_status NAME(binary)(const struct bp_launch *launch, int op)
{
    struct binary b;

    if (op == BINARY_pow && power_uniform(launch)) return BP_OK;

    b.loop.run = binary_run;
    b.loop.lines = true;
    b.loop.op = op;
    b.a = attr_number(launch, 1);
    b.b = attr_number(launch, 2);
    cpu_loop_run(&b.loop, launch, launch->out[0], launch->in, 2);
    return BP_OK;
}
