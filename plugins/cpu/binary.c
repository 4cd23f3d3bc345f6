/* SPDX-License-Identifier: Apache-2.0 */
/* binary.c: operators of sdk/kernels/binary.def, for one dtype (elem.h). */
#include "cpu.h"
#include "formula.h"
#include "past.h"
#include "walk.h"
#include <kernels/binary.h>

struct binary {
    struct walk walk; /* z, x, y */
    elem *z;
    const elem *x, *y;
    acc a, b2; /* attributes */
    int op; /* BINARY_add and so on */
    int past; /* the result is stored past the caches */
};

/* op is known wherever this is inlined, so that the loops vectorise. z may be x: then each element
 * is read before it is written, in any order. sx and sy are 0 or 1. */
static inline __attribute__((always_inline)) void dense(const struct binary *b, int64_t n, elem *z,
                                                        const elem *x, int64_t sx, const elem *y,
                                                        int64_t sy, int op)
{
    acc a = b->a, b2 = b->b2;

    if (sx && sy) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = binary_elem(op, x[i], y[i], a, b2);
    } else if (sx) {
        elem fixed = *y;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = binary_elem(op, x[i], fixed, a, b2);
    } else {
        elem fixed = *x;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = binary_elem(op, fixed, y[i * sy], a, b2);
    }
}

enum { PART = PAST_PART / sizeof(elem) };

static inline __attribute__((always_inline)) void span(const struct binary *b, int64_t n,
                                                       const int64_t *at, int op)
{
    int last = b->walk.rank - 1;
    int64_t sz = b->walk.stride[0][last], sx = b->walk.stride[1][last],
            sy = b->walk.stride[2][last];
    elem *z = b->z + at[0];
    const elem *x = b->x + at[1], *y = b->y + at[2];
    int plain = sz == 1 && sx >= 0 && sx <= 1 && sy >= 0 && sy <= 1;
    int64_t direct = b->past ? past_head(z, n, sizeof *z) : n;
    _Alignas(PAST_LINE) elem block[PART];

    if (!plain) {
        for (int64_t i = 0; i < n; i++)
            z[i * sz] = binary_elem(op, x[i * sx], y[i * sy], b->a, b->b2);
        return;
    }
    for (int64_t i = 0, some; i < n; i += some) {
        some = i < direct ? direct : n - i < PART ? n - i : PART;
        dense(b, some, i < direct ? z : block, x + i * sx, sx, y + i * sy, sy, op);
        if (i >= direct) past_put(z + i, block, (size_t)some * sizeof *z);
    }
}

static void binary_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct binary *b = ctx;

    switch (b->op) {
#define CASE(op) case BINARY_##op: span(b, n, at, BINARY_##op); break;
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
#include <kernels/binary.def>
    }
}

cpu_typed NAME(binary);
enum bp_status NAME(binary)(const struct bp_launch *launch, int op)
{
    const struct bp_view *x = launch->in[0], *y = launch->in[1], *z = launch->out[0];
    struct binary b;

    b.z = z->data;
    b.x = x->data;
    b.y = y->data;
    b.op = op;
    b.a = attr_number(launch, 1);
    b.b2 = attr_number(launch, 2);
    b.past = z->data != x->data && z->data != y->data && past_pays(z->count * (int64_t)sizeof *b.z);
    if (!((x->flags | y->flags | z->flags) & BP_VIEW_STRIDED) && x->count == z->count &&
        y->count == z->count) {
        walk_flat(&b.walk, z->count);
        walk_run(&b.walk, launch, binary_span, &b);
        return BP_OK;
    }
    walk_init(&b.walk, z->rank, z->shape);
    walk_broadcast(&b.walk, 0, z->rank, z->shape, z->stride);
    walk_broadcast(&b.walk, 1, x->rank, x->shape, x->stride);
    walk_broadcast(&b.walk, 2, y->rank, y->shape, y->stride);
    walk_sort(&b.walk, 0);
    walk_collapse(&b.walk);
    walk_run(&b.walk, launch, binary_span, &b);
    return BP_OK;
}
