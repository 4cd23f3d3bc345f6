/* SPDX-License-Identifier: Apache-2.0 */
/* partial.c: a device that can do little, so that everything else must fall back: add, sub, mul,
 * scale, sum, sgd and assign of f32, most of them for dense tensors only; cast between f32 and f16
 * bits (f16 as a fixed point of its own: only this plugin reads it). Its memory is the host's, but
 * it does not say so: the core may not touch it, and no other device falls back to this one.
 *
 * "partial_scale" reports a NaN that comes first as a fault of code 7; at an infinity it does the
 * same with code 8, and fails. The row "partial_matmul" wants a plan, packs a constant right side
 * prepare, and counts plans in the symbol partial_plans. "partial_sgd" counts its launches in
 * partial_updates, and in partial_apart those whose output is not the very view that it updates; it
 * reads and writes that output only.
 * "partial_+_slow" adds as "partial_+" does, which comes first, and counts its launches in
 * partial_slow. "partial_never" takes nothing. */
#include "plain_memory.h"
#include <backplane/attrs.h>
#include <backplane/kernel.h>
#include <backplane/plugin.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int partial_plans, partial_packed, partial_updates,
    partial_apart, partial_slow;

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    (void)self, (void)device;
    strcpy(out->name, "a device that can do little");
    out->memory = 64 << 20;
    out->dtypes = BP_MASK_ANY;
    out->alignment = 64;
    out->flags = BP_DEVICE_INLINE;
    return BP_OK;
}

/* Where element i of a shape lies in a view of that shape, or one that broadcasts to it. */
static int64_t place(const struct bp_view *v, const struct bp_view *z, int64_t i)
{
    int64_t at = 0;

    for (int a = z->rank - 1; a >= 0; a--) {
        int64_t index = i % z->shape[a];
        int mine = a - (z->rank - v->rank);
        i /= z->shape[a];
        if (mine >= 0 && v->shape[mine] != 1) at += index * v->stride[mine];
    }
    return at;
}

static float term(char op, float x, float y)
{
    return op == '+' ? x + y : op == '-' ? x - y : x * y;
}

static enum bp_status binary(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->in[1], *z = l->out[0];
    char op = l->kernel->name[8];

    for (int64_t i = 0; i < z->count; i++)
        ((float *)z->data)[i] = term(op, ((float *)x->data)[place(x, z, i)],
                                     ((float *)y->data)[place(y, z, i)]);
    return BP_OK;
}

static enum bp_status binary_slow(const struct bp_launch *l)
{
    partial_slow++;
    return binary(l);
}

static enum bp_status scale(const struct bp_launch *l)
{
    const struct bp_scale_attrs *a = l->attrs;

    if (*(float *)l->in[0]->data != *(float *)l->in[0]->data) *l->fault = 7; /* a NaN */
    if (*(float *)l->in[0]->data > 3e38f) return *l->fault = 8, BP_ERR_PLUGIN;
    for (int64_t i = 0; i < l->out[0]->count; i++)
        ((float *)l->out[0]->data)[i] =
            (float)a->factor * ((float *)l->in[0]->data)[i] + (float)a->bias;
    return BP_OK;
}

/* Over everything, or one axis, dense. */
static enum bp_status sum_all(const struct bp_launch *l)
{
    float sum = 0;

    for (int64_t i = 0; i < l->in[0]->count; i++) sum += ((float *)l->in[0]->data)[i];
    *(float *)l->out[0]->data = sum;
    return BP_OK;
}

static enum bp_status only_all(void *self, const struct bp_prep *prep)
{
    (void)self;
    return prep->out[0]->count == 1 ? BP_OK : BP_ERR_UNSUPPORTED;
}

static enum bp_status assign(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];

    for (int64_t i = 0; i < y->count; i++)
        ((float *)y->data)[place(y, y, i)] = ((float *)x->data)[place(x, y, i)];
    return BP_OK;
}

/* f16 here: eighths in 16 bits. */
static enum bp_status cast(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];

    for (int64_t i = 0; i < y->count; i++) {
        if (y->dtype == BP_F16)
            ((int16_t *)y->data)[i] = (int16_t)(8 * ((float *)x->data)[i]);
        else ((float *)y->data)[i] = (float)((int16_t *)x->data)[i] / 8;
    }
    return BP_OK;
}

static enum bp_status sgd(const struct bp_launch *l)
{
    const struct bp_view *p = l->in[0], *out = l->out[0];
    bool same = p->data == out->data && p->memory == out->memory && p->dtype == out->dtype &&
                p->rank == out->rank && p->count == out->count && p->flags == out->flags;

    for (int i = 0; same && i < p->rank; i++)
        same = p->shape[i] == out->shape[i] && p->stride[i] == out->stride[i];
    partial_updates++;
    partial_apart += !same;
    for (int64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] -= *(float *)l->in[2]->data * ((float *)l->in[1]->data)[i];
    return BP_OK;
}

static enum bp_status never(void *self, const struct bp_prep *prep)
{
    (void)self, (void)prep;
    return BP_ERR_UNSUPPORTED;
}

/* 2x2 products with a right side that is constant: the plan is its copy. */
static enum bp_status prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_view *b = prep->in[1];
    float *plan;

    (void)self;
    if (prep->in[0]->count != 4 || b->count != 4) return BP_ERR_UNSUPPORTED;
    plan = calloc(5, sizeof *plan);
    if (b->flags & BP_VIEW_CONSTANT) {
        memcpy(plan, b->data, 4 * sizeof *plan);
        plan[4] = 1;
        partial_packed++;
    }
    partial_plans++;
    BP_SET(out, plan, plan);
    BP_SET(out, bytes, 5 * sizeof *plan);
    return BP_OK;
}

static void plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    (void)self, (void)kernel;
    partial_plans--;
    free(plan);
}

static enum bp_status product(const struct bp_launch *l)
{
    const float *plan = l->plan, *a = l->in[0]->data, *b = plan[4] != 0 ? plan : l->in[1]->data;
    float *c = l->out[0]->data;

    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) c[2 * i + j] = a[2 * i] * b[j] + a[2 * i + 1] * b[2 + j];
    return BP_OK;
}

#define F32 {BP_M(F32), 0, 0, 0}
static const struct bp_kernel rows[] = {
    {BP_OPROW(add), .name = "partial_+", .types = F32, .launch = binary},
    {BP_OPROW(add), .name = "partial_+_slow", .types = F32, .priority = -1, .launch = binary_slow},
    {BP_OPROW(sub), .name = "partial_-", .types = F32, .launch = binary},
    {BP_OPROW(mul), .name = "partial_*", .types = F32, .launch = binary},
    {BP_OPROW(scale), .name = "partial_scale", .types = F32, .launch = scale},
    {BP_OPROW(sum), .name = "partial_sum", .types = F32, .launch = sum_all, .accepts = only_all},
    {BP_OPROW(assign), .name = "partial_assign", .types = F32, .flags = BP_KERNEL_STRIDED,
     .launch = assign},
    {BP_OPROW(cast), .name = "partial_cast", .types = {BP_M(F32), BP_M(F16), 0, 0}, .launch = cast},
    {BP_OPROW(cast), .name = "partial_cast_back", .types = {BP_M(F16), BP_M(F32), 0, 0},
     .launch = cast},
    {BP_OPROW(matmul), .name = "partial_matmul", .types = F32, .launch = product,
     .prepare = prepare, .plan_destroy = plan_destroy},
    {BP_OPROW(sgd), .name = "partial_sgd", .types = {BP_M(F32), BP_M(F32), 0, 0}, .launch = sgd},
    {BP_OPROW(softmax), .name = "partial_never", .types = F32, .launch = scale, .accepts = never},
};

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .copy_in = copy,
    .copy_out = copy,
    .copy_within = copy,
    .synchronize = synchronize,
};

static const struct bp_kernels kernels = {
    .size = sizeof kernels,
    .first = rows,
    .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
};

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    *out_self = (void *)(uintptr_t)host;
    return BP_OK;
}

static void destroy(void *self)
{
    (void)self;
}

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = "partial",
    .version = "1.0",
    .kind = "partial",
    .create = create,
    .destroy = destroy,
    .runtime = &runtime,
    .kernels = &kernels,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
