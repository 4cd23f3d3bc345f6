/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: add, for one dtype (elem.h). */
#include "cpu.h"
#include "elem.h"
#include "kernels.h"
#include "walk.h"

struct add {
    struct walk walk; /* z, x, y */
    elem *z;
    const elem *x, *y;
};

static inline elem add_one(elem x, elem y)
{
    return elem_put(acc_add(elem_get(x), elem_get(y)));
}

/* z may be x: then each element is read before it is written, in any order. */
static void add_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct add *add = ctx;
    int last = add->walk.rank - 1;
    int64_t sz = add->walk.stride[0][last], sx = add->walk.stride[1][last],
            sy = add->walk.stride[2][last];
    elem *z = add->z + at[0];
    const elem *x = add->x + at[1], *y = add->y + at[2];

    if (sz == 1 && sx == 1 && sy == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = add_one(x[i], y[i]);
    } else if (sz == 1 && sx == 1 && sy == 0) {
        elem fixed = *y;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = add_one(x[i], fixed);
    } else if (sz == 1 && sx == 0 && sy == 1) {
        elem fixed = *x;
#pragma omp simd
        for (int64_t i = 0; i < n; i++) z[i] = add_one(fixed, y[i]);
    } else {
        for (int64_t i = 0; i < n; i++) z[i * sz] = add_one(x[i * sx], y[i * sy]);
    }
}

enum bp_status NAME(add)(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->in[1], *z = launch->out[0];
    struct add add;

    add.z = z->data;
    add.x = x->data;
    add.y = y->data;
    if (!((x->flags | y->flags | z->flags) & BP_VIEW_STRIDED) && x->count == z->count &&
        y->count == z->count) {
        walk_flat(&add.walk, z->count);
        walk_run(&add.walk, launch, add_span, &add);
        return BP_OK;
    }
    walk_init(&add.walk, z->rank, z->shape);
    walk_broadcast(&add.walk, 0, z->rank, z->shape, z->stride);
    walk_broadcast(&add.walk, 1, x->rank, x->shape, x->stride);
    walk_broadcast(&add.walk, 2, y->rank, y->shape, y->stride);
    walk_sort(&add.walk, 0);
    walk_collapse(&add.walk);
    walk_run(&add.walk, launch, add_span, &add);
    return BP_OK;
}
