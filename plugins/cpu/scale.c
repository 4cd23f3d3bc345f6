/* SPDX-License-Identifier: Apache-2.0 */
/* scale.c: scale and sgd, which multiply by one number, for one float dtype (elem.h). */
#include "cpu.h"
#include <kernels/elem.h>
#include "kernels.h"
#include "walk.h"
#include <backplane/attrs.h>

struct scale {
    struct walk walk; /* y, x, and for sgd z */
    elem *y;
    const elem *x, *z;
    acc factor, bias;
};

static inline elem scale_one(elem x, acc factor, acc bias)
{
    return elem_put(elem_get(x) * factor + bias);
}

/* y may be x: each element is read before it is written. */
static void scale_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct scale *s = ctx;
    int last = s->walk.rank - 1;
    int64_t sy = s->walk.stride[0][last], sx = s->walk.stride[1][last];
    elem *y = s->y + at[0];
    const elem *x = s->x + at[1];
    acc factor = s->factor, bias = s->bias;

    if (sy == 1 && sx == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = scale_one(x[i], factor, bias);
    } else {
        for (int64_t i = 0; i < n; i++) y[i * sy] = scale_one(x[i * sx], factor, bias);
    }
}

static inline elem sgd_one(elem param, elem grad, acc rate)
{
    return elem_put(elem_get(param) - rate * elem_get(grad));
}

static void sgd_span(void *ctx, int64_t n, const int64_t *at)
{
    const struct scale *s = ctx;
    int last = s->walk.rank - 1;
    int64_t sy = s->walk.stride[0][last], sx = s->walk.stride[1][last],
            sz = s->walk.stride[2][last];
    elem *y = s->y + at[0];
    const elem *x = s->x + at[1], *z = s->z + at[2];
    acc rate = s->factor;

    if (sy == 1 && sx == 1 && sz == 1) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) y[i] = sgd_one(x[i], z[i], rate);
    } else {
        for (int64_t i = 0; i < n; i++) y[i * sy] = sgd_one(x[i * sx], z[i * sz], rate);
    }
}

static void run(const struct bp_launch *launch, struct scale *s,
                void (*span)(void *ctx, int64_t n, const int64_t *at))
{
    const struct bp_view *y = launch->out[0], *x = launch->in[0],
                         *z = launch->n_in > 1 ? launch->in[1] : x;

    s->y = y->data;
    s->x = x->data;
    s->z = z->data;
    if (!((x->flags | y->flags | z->flags) & BP_VIEW_STRIDED)) {
        walk_flat(&s->walk, y->count);
    } else {
        walk_init(&s->walk, y->rank, y->shape);
        walk_broadcast(&s->walk, 0, y->rank, y->shape, y->stride);
        walk_broadcast(&s->walk, 1, x->rank, x->shape, x->stride);
        walk_broadcast(&s->walk, 2, z->rank, z->shape, z->stride);
        walk_sort(&s->walk, 0);
        walk_collapse(&s->walk);
    }
    walk_run(&s->walk, launch, span, s);
}

enum bp_status NAME(scale)(const struct bp_launch *launch)
{
    const struct bp_scale_attrs *attrs = launch->attrs;
    struct scale s;

    s.factor = (acc)attrs->factor;
    s.bias = (acc)attrs->bias;
    run(launch, &s, scale_span);
    return BP_OK;
}

/* The one number of a tensor of any float dtype. */
static acc number_of(const struct bp_view *v)
{
    switch (v->dtype) {
    case BP_F16: return (acc)f16_to_f32(*(const uint16_t *)v->data);
    case BP_BF16: return (acc)bf16_to_f32(*(const uint16_t *)v->data);
    case BP_F32: return (acc)*(const float *)v->data;
    default: return (acc)*(const double *)v->data;
    }
}

/* The parameters are input and output; whether that is one memory makes no difference. */
enum bp_status NAME(sgd)(const struct bp_launch *launch)
{
    struct scale s;

    s.factor = number_of(launch->in[2]);
    s.bias = 0;
    run(launch, &s, sgd_span);
    return BP_OK;
}
