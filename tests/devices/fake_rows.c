/* SPDX-License-Identifier: Apache-2.0 */
/* fake_rows.c: defines the kernels of the fake device, in sets of which a script names one:
 *
 *   faulty    "faulty_add" of f32, which needs a plan and a workspace. It has a lower priority
 *             than "_never", which refuses in prepare, and a higher one than "_crooked" and
 *             "_vast", which need impossible workspaces. 73 kernels for cast; the last, "_best",
 *             has the highest priority.
 *   gated     add, and cast and softmax, which only copy, of f32. cast takes 0.3 s to prepare, and
 *             then prints "prepared".
 *   partial   those of a device with few operators: add, sub, mul, scale, sum of everything, sgd,
 *             and assign of any strides, of f32; cast between f32 and f16, here a fixed-point
 *             format; matmul of 2x2, which packs a constant right side. "partial_scale" reports a
 *             NaN in the first element as a fault of code 7; for an infinity it reports code 8,
 *             and fails. "partial_add_slow" has a lower priority than "partial_add";
 *             "partial_softmax" accepts no call.
 *   late      add of any strides, and gather by 32-bit indices, which finds bad indices when it
 *             runs; its plans are in the host's memory. For conformance.
 *   weak      add, where, relu, gather by 32-bit indices, and six operators that return such
 *             indices, for dense tensors only; none of them broadcasts, and there is no assign.
 *             With the word casts also assign of dense tensors, clip of i64, and cast between i64
 *             and i32, for 32-bit indices
 *   random, random_plain   add and uniform of f32. uniform counts from the seed and block of its
 *             launch; that of random has BP_KERNEL_RNG.
 *   good      four kernels of f32 whose names begin with the device's: "_add"; "_elsewhere", for
 *             another machine; "_newer" and "_future", which this core cannot use
 *   actor     add of f32; of i8 for another machine
 *   strange   neg, abs, which is prepared, and sqrt, whose accepts is called, of f32; and
 *             strange.neg. All of them negate.
 *   custom    acme.Repeat */
#include "fake_parts.h"

#include <backplane/attrs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct bp_host *host_of(void *self)
{
    return ((struct fake_instance *)self)->host;
}

static enum bp_status rows_negate(const struct bp_launch *l)
{
    for (int64_t i = 0; i < l->out[0]->count; i++)
        ((float *)l->out[0]->data)[i] = -((const float *)l->in[0]->data)[i];
    return BP_OK;
}

static enum bp_status rows_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    return fake_first(host_of(self), FAKE_prepare, 0);
}

static enum bp_status rows_accepts(void *self, const struct bp_prep *prep)
{
    return fake_first(host_of(self), FAKE_accepts, 0);
}

/* The offset of element i of shape z in a view v of that shape, or of one that broadcasts to it. */
static int64_t rows_place(const struct bp_view *v, const struct bp_view *z, int64_t i)
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

static float rows_term(char op, float x, float y)
{
    return op == 'a' ? x + y : op == 's' ? x - y : x * y;
}

/* add, sub and mul, for any strides. */
static enum bp_status rows_binary(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->in[1], *z = l->out[0];

    if (strstr(l->kernel->name, "_slow")) fake.slow++;
    for (int64_t i = 0; i < z->count; i++)
        ((float *)z->data)[rows_place(z, z, i)] = rows_term(
            *l->kernel->op, ((const float *)x->data)[rows_place(x, z, i)],
            ((const float *)y->data)[rows_place(y, z, i)]);
    return BP_OK;
}

static enum bp_status rows_scale(const struct bp_launch *l)
{
    const struct bp_scale_attrs *a = l->attrs;
    const float *x = l->in[0]->data;

    if (*x != *x) *l->fault = 7; /* a NaN */
    if (*x > 3e38f) return *l->fault = 8, BP_ERR_PLUGIN;
    for (int64_t i = 0; i < l->out[0]->count; i++)
        ((float *)l->out[0]->data)[i] = (float)a->factor * x[i] + (float)a->bias;
    return BP_OK;
}

static enum bp_status sum_all(const struct bp_launch *l)
{
    float sum = 0;

    for (int64_t i = 0; i < l->in[0]->count; i++) sum += ((const float *)l->in[0]->data)[i];
    *(float *)l->out[0]->data = sum;
    return BP_OK;
}

static enum bp_status only_all(void *self, const struct bp_prep *prep)
{
    return prep->out[0]->count == 1 ? BP_OK : BP_ERR_UNSUPPORTED;
}

static enum bp_status rows_assign(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];

    for (int64_t i = 0; i < y->count; i++)
        ((float *)y->data)[rows_place(y, y, i)] = ((const float *)x->data)[rows_place(x, y, i)];
    return BP_OK;
}

/* Here f16 is a fixed-point format: eighths in 16 bits. */
static enum bp_status cast_half(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];

    for (int64_t i = 0; i < y->count; i++) {
        if (y->dtype == BP_F16)
            ((int16_t *)y->data)[i] = (int16_t)(8 * ((const float *)x->data)[i]);
        else ((float *)y->data)[i] = (float)((const int16_t *)x->data)[i] / 8;
    }
    return BP_OK;
}

/* Reads and writes the output, which must be the view of the first input. */
static enum bp_status rows_sgd(const struct bp_launch *l)
{
    const struct bp_view *p = l->in[0], *out = l->out[0];
    bool same = p->data == out->data && p->memory == out->memory && p->dtype == out->dtype &&
                p->rank == out->rank && p->count == out->count && p->flags == out->flags &&
                !memcmp(p->shape, out->shape, p->rank * sizeof *p->shape) &&
                !memcmp(p->stride, out->stride, p->rank * sizeof *p->stride);

    fake.updates++;
    fake.apart += !same;
    for (int64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] -=
            *(const float *)l->in[2]->data * ((const float *)l->in[1]->data)[i];
    return BP_OK;
}

static enum bp_status rows_never(void *self, const struct bp_prep *prep)
{
    return BP_ERR_UNSUPPORTED;
}

static void *plan_create(struct fake_instance *f, size_t size, struct bp_plan *out)
{
    void *plan = calloc(1, size);

    if (!plan) abort();
    f->plans++, fake.plans++;
    BP_SET(out, plan, plan);
    BP_SET(out, bytes, size);
    return plan;
}

static void plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    struct fake_instance *f = self;

    if (fake_uses(NULL, 0, plan)) fake_break();
    f->plans--, fake.plans--;
    free(plan);
}

/* Prepares 2x2 products. If the right side is constant, the plan is a copy of it, followed by 1. */
static enum bp_status prepare_product(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_view *b = prep->in[1];
    float *plan;

    if (prep->in[0]->count != 4 || b->count != 4) return BP_ERR_UNSUPPORTED;
    plan = plan_create(self, 5 * sizeof *plan, out);
    if (!(b->flags & BP_VIEW_CONSTANT)) return BP_OK;
    memcpy(plan, b->data, 4 * sizeof *plan);
    plan[4] = 1;
    fake.packed++;
    return BP_OK;
}

static enum bp_status rows_product(const struct bp_launch *l)
{
    const float *plan = l->plan, *a = l->in[0]->data, *b = plan[4] != 0 ? plan : l->in[1]->data;
    float *c = l->out[0]->data;

    for (int i = 0; i < 4; i++) c[i] = a[i & 2] * b[i & 1] + a[i | 1] * b[2 + (i & 1)];
    return BP_OK;
}

/* The plan is a number that the launch checks. */
static enum bp_status prepare_sum(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    *(int *)plan_create(self, sizeof(int), out) = 77;
    BP_SET(out, workspace, 256);
    BP_SET(out, workspace_alignment, 4096);
    if (strstr(prep->kernel->name, "_crooked")) BP_SET(out, workspace_alignment, 48);
    if (strstr(prep->kernel->name, "_vast")) BP_SET(out, workspace, (UINT64_C(1) << 63) + 64);
    return BP_OK;
}

/* sub of "partial": the launch needs the number in the plan, which the end of the plan erases. */
static enum bp_status prepare_number(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    *(int *)plan_create(self, sizeof(int), out) = 77;
    return BP_OK;
}

static void number_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    *(volatile int *)plan = 0;
    plan_destroy(self, kernel, plan);
}

static enum bp_status rows_numbered(const struct bp_launch *l)
{
    return *(const int *)l->plan == 77 ? rows_binary(l) : BP_ERR_INTERNAL;
}

static enum bp_status prepare_never(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    return BP_ERR_UNSUPPORTED;
}

static enum bp_status sum_with_plan(const struct bp_launch *l)
{
    if (*(const int *)l->plan != 77 || l->workspace_size != 256 || !l->workspace ||
        (uintptr_t)l->workspace % 4096)
        return BP_ERR_INTERNAL;
    memset(l->workspace, 0xee, l->workspace_size);
    return rows_binary(l);
}

/* With the word declines, accepts small tensors only. */
static enum bp_status accepts_add(void *self, const struct bp_prep *prep)
{
    if (!fake_has("declines") || prep->out[0]->count < 300) return BP_OK;
    return bp_fail(host_of(self), BP_ERR_UNSUPPORTED, "too large");
}

/* Copies one element. The output's axes are the axes of x before `axis`, those of the indices, and
 * those of x behind `axis`. */
static bool rows_take(const struct bp_launch *l, int axis, int64_t e)
{
    const struct bp_view *x = l->in[0], *indices = l->in[1], *y = l->out[0];
    int64_t from = 0, to = 0, at = 0, n = x->shape[axis], which;

    for (int i = y->rank - 1; i >= 0; i--) {
        int64_t here = e % y->shape[i];
        int of_index = i - axis;
        e /= y->shape[i];
        to += here * y->stride[i];
        if (of_index < 0) from += here * x->stride[i];
        else if (of_index < indices->rank) at += here * indices->stride[of_index];
        else from += here * x->stride[i - indices->rank + 1];
    }
    which = ((const int32_t *)indices->data)[at];
    if (which < 0) which += n;
    if (which < 0 || which >= n) return false;
    ((float *)y->data)[to] = ((const float *)x->data)[from + which * x->stride[axis]];
    return true;
}

static enum bp_status rows_gather(const struct bp_launch *l)
{
    const struct bp_gather_attrs *a = l->attrs;
    int axis = (int)(a->axis < 0 ? a->axis + l->in[0]->rank : a->axis);
    bool good = true;

    for (int64_t e = 0; e < l->out[0]->count; e++) good &= rows_take(l, axis, e);
    return good ? BP_OK : BP_ERR_FAULT;
}

/* The launch does not use the plan's contents. */
static enum bp_status prepare_gather(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_host *host = host_of(self);
    void *plan = fake_has("plan-malloc") ? malloc(48) : host->allocate(host->ctx, 48, 16);

    if (!plan) return bp_fail(host, BP_ERR_MEMORY, "no memory for a plan");
    BP_SET(out, plan, plan);
    return BP_OK;
}

static void plan_release(void *self, const struct bp_kernel *kernel, void *plan)
{
    const struct bp_host *host = host_of(self);

    if (!fake_has("plan-leak") && !fake_has("plan-malloc")) host->release(host->ctx, plan, 48);
}

/* Element i is seed + 64 offset + i. */
static enum bp_status rows_uniform(const struct bp_launch *l)
{
    uint64_t seed = l->rng ? l->rng[0] : l->seed, offset = l->offset + (l->rng ? l->rng[1] : 0);

    for (int64_t i = 0; i < l->out[0]->count; i++)
        ((float *)l->out[0]->data)[i] = (float)(seed + 64 * offset + (uint64_t)i);
    return BP_OK;
}

/* Used by tests/exit. */
static enum bp_status prepare_slowly(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    usleep(300000);
    return write(1, "prepared\n", 9) < 0 ? BP_ERR_INTERNAL : BP_OK;
}

#define F32 {BP_M(F32), 0, 0, 0}
#define F32_F32 {BP_M(F32), BP_M(F32), 0, 0}
#define F32_F16 {BP_M(F32), BP_M(F16), 0, 0}
#define I8 {BP_M(I8), 0, 0, 0}
#define F32_BY_I32 {BP_M(F32), 0, BP_M(I32), 0}
#define I64 {BP_M(I64), 0, 0, 0}
#define INTEGERS {BP_M(I64) | BP_M(I32), BP_M(I64) | BP_M(I32), 0, 0}
#define F32_TO_I32 {BP_M(F32), 0, BP_M(I32), 0}
#define F32_TO_U_I32 {BP_M(F32), BP_M(I32), 0, 0}
#define F32_I64 {BP_M(F32) | BP_M(I64), 0, 0, 0}
#define SOME {BP_M(F32) | BP_M(F16) | BP_M(I64) | BP_M(I32) | BP_M(I8) | BP_M(BOOL), 0, 0, 0}
#define WHERE {BP_M(F32) | BP_M(F16) | BP_M(I64) | BP_M(BOOL), BP_M(BOOL), 0, 0}
#define ANY_BY_I32 {BP_M(F32) | BP_M(F16) | BP_M(I64) | BP_M(BOOL), 0, BP_M(I32), 0}
#define F16_F32 {BP_M(F16), BP_M(F32), 0, 0}
enum { LATE = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC };

/* A kernel of a set: operator, dtypes, suffix of its name, function, and further members. */
#define ROW(of, what, dtypes, suffix, kernel, ...) \
    {{BP_OPROW(what), .name = of "_" #what suffix, .types = dtypes, .launch = fake_launch, \
      __VA_ARGS__}, kernel, of}
#define SUM(suffix, rank, how) \
    ROW("faulty", add, F32, suffix, sum_with_plan, .priority = rank, .prepare = how, \
        .plan_destroy = plan_destroy)
#define CAST(number, rank) ROW("faulty", cast, F32_F32, "_" #number, rows_assign, .priority = rank)
#define CASTS(ten) \
    CAST(ten##0, 0), CAST(ten##1, 0), CAST(ten##2, 0), CAST(ten##3, 0), CAST(ten##4, 0), \
        CAST(ten##5, 0), CAST(ten##6, 0), CAST(ten##7, 0), CAST(ten##8, 0)
static struct fake_row rows[] = {
    SUM("_never", 10, prepare_never), SUM("", 0, prepare_sum), SUM("_crooked", -1, prepare_sum),
    SUM("_vast", -1, prepare_sum), CASTS(1), CASTS(2), CASTS(3), CASTS(4), CASTS(5), CASTS(6),
    CASTS(7), CASTS(8), CAST(best, 100),
    ROW("gated", cast, F32_F32, "", rows_assign, .prepare = prepare_slowly),
    ROW("gated", add, F32, "", rows_binary, .priority = 0),
    ROW("gated", softmax, F32, "", rows_assign, .priority = 0),
    ROW("partial", add, F32, "", rows_binary, .priority = 0),
    ROW("partial", add, F32, "_slow", rows_binary, .priority = -1),
    ROW("partial", sub, F32, "", rows_numbered, .prepare = prepare_number,
        .plan_destroy = number_destroy),
    ROW("partial", mul, F32, "", rows_binary, .priority = 0),
    ROW("partial", scale, F32, "", rows_scale, .priority = 0),
    ROW("partial", sum, F32, "", sum_all, .accepts = only_all),
    ROW("partial", assign, F32, "", rows_assign, .flags = BP_KERNEL_STRIDED),
    ROW("partial", cast, F32_F16, "", cast_half, .priority = 0),
    ROW("partial", cast, F16_F32, "_back", cast_half, .priority = 0),
    ROW("partial", matmul, F32, "", rows_product, .prepare = prepare_product,
        .plan_destroy = plan_destroy),
    ROW("partial", sgd, F32_F32, "", rows_sgd, .priority = 0),
    ROW("partial", softmax, F32, "", rows_assign, .accepts = rows_never),
    ROW("late", add, F32, "_f32", rows_binary, .flags = LATE | BP_KERNEL_IN_PLACE,
        .accepts = accepts_add),
    ROW("late", gather, F32_BY_I32, "_f32_i32", rows_gather, .flags = LATE,
        .prepare = prepare_gather,
        .plan_destroy = plan_release),
    ROW("weak", add, F32_I64, "", fake_weak_add,
        .flags = BP_KERNEL_SAME_SHAPE | BP_KERNEL_DETERMINISTIC),
    ROW("weak", where, WHERE, "", fake_weak_where,
        .flags = BP_KERNEL_SAME_SHAPE | BP_KERNEL_DETERMINISTIC),
    ROW("weak", relu, F32, "", fake_weak_relu, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", gather, ANY_BY_I32, "", fake_weak_gather, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", argsort, F32_TO_I32, "", fake_weak_argsort, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", topk, F32_TO_I32, "", fake_weak_topk, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", argmax, F32_TO_U_I32, "", fake_weak_argmax, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", max_pool_with_index, F32_TO_I32, "", fake_weak_pool,
        .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", nonzero, F32_TO_I32, "", fake_weak_nonzero, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", unique, F32_TO_I32, "", fake_weak_unique, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", assign, SOME, "_casts", fake_weak_assign, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", clip, I64, "_casts", fake_weak_clip, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("weak", cast, INTEGERS, "_casts", fake_weak_cast, .flags = BP_KERNEL_DETERMINISTIC),
    ROW("random", add, F32, "", rows_binary, .priority = 0),
    ROW("random", uniform, F32, "", rows_uniform, .flags = BP_KERNEL_RNG),
    ROW("random_plain", add, F32, "", rows_binary, .priority = 0),
    ROW("random_plain", uniform, F32, "", rows_uniform, .priority = 0),
    ROW("actor", add, F32, "_f32", rows_binary, .priority = 0),
    ROW("actor", add, I8, "_elsewhere", rows_binary, .priority = 1),
    {{BP_OPROW(add), .name = "_add", .types = F32, .launch = fake_launch}, rows_binary, "good"},
    {{BP_OPROW(add), .name = "_elsewhere", .types = F32, .flags = BP_KERNEL_STRIDED,
      .launch = fake_launch}, rows_binary, "good"},
    {{.op = "add", .name = "_newer", .types = F32, .in_known = 9, .out_known = 1,
      .launch = fake_launch}, rows_binary, "good"},
    {{.op = "op_of_the_future", .name = "_future", .types = F32, .launch = fake_launch},
     rows_binary, "good"},
    ROW("strange", neg, F32, "", rows_negate, .priority = 0),
    ROW("strange", abs, F32, "", rows_negate, .prepare = rows_prepare),
    ROW("strange", sqrt, F32, "", rows_negate, .accepts = rows_accepts),
    {{.op = "strange.neg", .name = "strange_own", .types = F32, .in_known = 1, .out_known = 1,
      .launch = fake_launch}, rows_negate, "strange"},
    {{.op = "acme.Repeat", .name = "acme_repeat_f32", .types = F32, .in_known = 1, .out_known = 1,
      .flags = BP_KERNEL_DETERMINISTIC, .attrs_size = sizeof(struct fake_repeat_attrs),
      .launch = fake_launch}, fake_repeat, "custom"},
};
#undef ROW
#undef SUM
#undef CAST
#undef CASTS
#undef F32
#undef F32_F32
#undef F32_F16
#undef F16_F32
#undef F32_BY_I32
#undef I8
#undef I64
#undef INTEGERS
#undef F32_TO_I32
#undef F32_TO_U_I32
#undef F32_I64
#undef SOME
#undef WHERE
#undef ANY_BY_I32

void fake_rows_find(struct bp_kernels *kernels)
{
    static char names[8][64];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!fake_is("rows", rows[i].set)) continue;
        if (rows[i].kernel.name[0] == '_')
            rows[i].kernel.name = strcat(strcat(names[kernels->count], fake_name),
                                         rows[i].kernel.name);
        if (!kernels->count++) kernels->first = &rows[i].kernel;
    }
}
