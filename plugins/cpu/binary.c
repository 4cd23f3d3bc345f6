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

static void binary_run(const struct loop *loop, int64_t n, void *z, const void *const *x)
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

cpu_typed NAME(binary);
enum bp_status NAME(binary)(const struct bp_launch *launch, int op)
{
    struct binary b;

    b.loop.run = binary_run;
    b.loop.lines = true;
    b.loop.op = op;
    b.a = attr_number(launch, 1);
    b.b = attr_number(launch, 2);
    cpu_loop_run(&b.loop, launch, launch->out[0], launch->in, 2);
    return BP_OK;
}
