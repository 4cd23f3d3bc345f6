/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: makes plans, which are lists of calls of CNNL, and launches them; see cnnl.h. */
#include "plan.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 128, /* of intermediate results and workspaces */
    OWN_MOST = 8     /* constants */
};

struct mlu_plan {
    struct mlu_device *device;
    struct mlu_step *first;
    bool guarded; /* a step uses the fault word */
    uint32_t n_own;
    void *own[OWN_MOST]; /* constants, in device memory */
    uint64_t bytes;
};

int mlu_dtype(uint32_t dtype)
{
    switch (dtype) {
    case BP_F16: return MLU_CNNL_DTYPE_HALF;
    case BP_F32: return MLU_CNNL_DTYPE_FLOAT;
    case BP_BF16: return MLU_CNNL_DTYPE_BFLOAT16;
    case BP_I8: return MLU_CNNL_DTYPE_INT8;
    case BP_I16: return MLU_CNNL_DTYPE_INT16;
    case BP_I32: return MLU_CNNL_DTYPE_INT32;
    case BP_U8: return MLU_CNNL_DTYPE_UINT8;
    case BP_BOOL: return MLU_CNNL_DTYPE_BOOL;
    default: return MLU_OPEN;
    }
}

uint32_t mlu_bytes(uint32_t dtype)
{
    static const uint8_t bits[] = {
#define X(NAME, name, number, bits, class) [number] = bits,
        BP_DTYPES(X)
#undef X
    };

    return bits[dtype] / 8;
}

static struct mlu_tensor plan_tensor(enum mlu_from from, uint32_t at, const struct bp_view *view)
{
    struct mlu_tensor t = {.from = MLU_ABSENT};

    if (!view) return t;
    t = (struct mlu_tensor){
        .from = (uint8_t)from, .dtype = view->dtype, .rank = view->rank, .at = (uint16_t)at};
    memcpy(t.shape, view->shape, view->rank * sizeof *view->shape);
    return mlu_ranked(t, 1);
}

struct mlu_tensor mlu_in(const struct mlu_build *b, uint32_t i)
{
    return plan_tensor(MLU_IN, i, i < b->prep->n_in ? b->prep->in[i] : NULL);
}

struct mlu_tensor mlu_out(const struct mlu_build *b, uint32_t i)
{
    return plan_tensor(MLU_OUT, i, mlu_has_out(b, i) ? b->prep->out[i] : NULL);
}

bool mlu_has_out(const struct mlu_build *b, uint32_t i)
{
    return i < b->prep->n_out && b->prep->out[i];
}

/* Reserves bytes of the launch's workspace. */
static uint64_t plan_reserve(struct mlu_build *b, uint64_t bytes)
{
    uint64_t at = (b->work + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

    b->work = at + bytes;
    return at;
}

struct mlu_tensor mlu_temporary(struct mlu_build *b, uint32_t dtype, uint32_t rank,
                                const int64_t *shape)
{
    struct mlu_tensor t = {.from = MLU_WORK, .dtype = (uint8_t)dtype, .rank = (uint8_t)rank};

    memcpy(t.shape, shape, rank * sizeof *shape);
    t.offset = plan_reserve(b, (uint64_t)mlu_count(&t) * mlu_bytes(dtype));
    return mlu_ranked(t, 1);
}

struct mlu_tensor mlu_word(struct mlu_build *b)
{
    if (b->plan) b->plan->guarded = true;
    return (struct mlu_tensor){.from = MLU_WORD, .dtype = BP_I32, .rank = 1, .shape = {1}};
}

struct mlu_tensor mlu_shaped(struct mlu_tensor t, uint32_t rank, const int64_t *shape)
{
    t.rank = (uint8_t)rank;
    memcpy(t.shape, shape, rank * sizeof *shape);
    return t;
}

struct mlu_tensor mlu_ranked(struct mlu_tensor t, uint32_t rank)
{
    uint32_t more = rank > t.rank ? rank - t.rank : 0;

    if (t.from == MLU_ABSENT || !more) return t;
    memmove(t.shape + more, t.shape, t.rank * sizeof *t.shape);
    for (uint32_t i = 0; i < more; i++) t.shape[i] = 1;
    t.rank = (uint8_t)rank;
    return t;
}

int64_t mlu_count(const struct mlu_tensor *t)
{
    int64_t n = 1;

    for (uint32_t i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

struct mlu_tensor mlu_flat(struct mlu_tensor t)
{
    int64_t n = mlu_count(&t);

    return t.from == MLU_ABSENT ? t : mlu_shaped(t, 1, &n);
}

static void plan_fail(struct mlu_build *b, enum bp_status status)
{
    if (b->status == BP_OK) b->status = status;
}

void mlu_refuse(struct mlu_build *b)
{
    plan_fail(b, BP_ERR_UNSUPPORTED);
}

bool mlu_build_check(struct mlu_build *b, enum mlu_fn fn, int status)
{
    if (b->status == BP_OK) plan_fail(b, mlu_cnnl_check(b->device, mlu_cnnl_name(fn), status));
    return b->status == BP_OK;
}

/* The caller has the device's queue for plans. */
struct mlu_tensor mlu_constant(struct mlu_build *b, uint32_t dtype, uint32_t rank,
                               const int64_t *shape, const void *values)
{
    struct mlu_tensor t = {.from = MLU_OWN, .dtype = (uint8_t)dtype, .rank = (uint8_t)rank};
    struct mlu_device *d = b->device;
    uint64_t bytes;
    void *memory = NULL;

    memcpy(t.shape, shape, rank * sizeof *shape);
    bytes = (uint64_t)mlu_count(&t) * mlu_bytes(dtype);
    if (b->plan->n_own == OWN_MOST) mlu_refuse(b);
    if (b->status == BP_OK) plan_fail(b, MLU_CALL(d, cnrtMalloc, &memory, (size_t)bytes));
    if (b->status) return t;
    t.at = (uint16_t)b->plan->n_own;
    b->plan->own[b->plan->n_own++] = memory;
    b->plan->bytes += bytes;
    plan_fail(b, mlu_copy_constant(d, d->plan_queue, memory, values, bytes));
    return t;
}

/* Makes the descriptor of a tensor. Extents are 32-bit integers in the older function. */
static void plan_describe(struct mlu_build *b, struct mlu_tensor *t, int layout)
{
    int dtype = mlu_dtype(t->dtype), dims[8];

    t->desc = NULL;
    if (t->from == MLU_ABSENT || b->status) return;
    if (dtype == MLU_OPEN || (t->dtype == BP_BF16 && !b->device->has_bf16)) mlu_refuse(b);
    if (b->status || !mlu_build_check(b, FN_cnnlCreateTensorDescriptor,
                                      mlu_cnnl.call.cnnlCreateTensorDescriptor(&t->desc)))
        return;
    if (mlu_cnnl.call.cnnlSetTensorDescriptor_v2) {
        mlu_build_check(
            b, FN_cnnlSetTensorDescriptor_v2,
            mlu_cnnl.call.cnnlSetTensorDescriptor_v2(t->desc, layout, dtype, t->rank, t->shape));
        return;
    }
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] > INT_MAX) mlu_refuse(b);
        dims[i] = (int)t->shape[i];
    }
    if (b->status) return;
    mlu_build_check(b, FN_cnnlSetTensorDescriptor,
                    mlu_cnnl.call.cnnlSetTensorDescriptor(t->desc, layout, dtype, t->rank, dims));
}

struct mlu_step *mlu_step_images(struct mlu_build *b, enum mlu_fn fn,
                                 int (*call)(const struct mlu_run *, const struct mlu_step *),
                                 uint32_t n, const struct mlu_tensor *t, int layout)
{
    const struct bp_host *host = b->device->self->host;
    uint32_t image = layout == MLU_CNNL_LAYOUT_NDHWC ? 5 : 4;
    struct mlu_step *step, **at;

    if (b->status) return NULL;
    step = calloc(1, sizeof *step + n * sizeof *t);
    if (!step) {
        plan_fail(b, bp_fail(host, BP_ERR_MEMORY, "mlu:%u: no memory for a plan of %s",
                             b->device->number, b->prep->kernel->name));
        return NULL;
    }
    step->fn = fn;
    step->call = call;
    step->n = n;
    memcpy(step->t, t, n * sizeof *t);
    for (at = &b->plan->first; *at;) at = &(*at)->next;
    *at = step;
    for (uint32_t i = 0; i < n; i++) step->t[i].desc = NULL;
    for (uint32_t i = 0; i < n; i++)
        plan_describe(b, &step->t[i], t[i].rank == image ? layout : MLU_CNNL_LAYOUT_ARRAY);
    return b->status ? NULL : step;
}

struct mlu_step *mlu_step(struct mlu_build *b, enum mlu_fn fn,
                          int (*call)(const struct mlu_run *, const struct mlu_step *), uint32_t n,
                          const struct mlu_tensor *t)
{
    return mlu_step_images(b, fn, call, n, t, MLU_CNNL_LAYOUT_ARRAY);
}

void mlu_step_reserve(struct mlu_build *b, struct mlu_step *step, enum mlu_fn fn, int status,
                      size_t size)
{
    if (!step || !mlu_build_check(b, fn, status)) return;
    step->work = size;
    step->work_at = plan_reserve(b, size);
}

const void *mlu_desc(const struct mlu_step *step, uint32_t i)
{
    return step->t[i].desc;
}

void *mlu_address(const struct mlu_run *run, const struct mlu_step *step, uint32_t i)
{
    const struct mlu_tensor *t = &step->t[i];
    const struct bp_launch *l = run->launch;
    char *base = NULL;

    switch (t->from) {
    case MLU_IN: base = l->in[t->at]->data; break;
    case MLU_OUT: base = l->out[t->at]->data; break;
    case MLU_WORK: base = l->workspace; break;
    case MLU_WORD: base = (char *)run->word; break;
    case MLU_OWN: base = run->own[t->at]; break;
    default: return NULL;
    }
    return base + t->offset;
}

void *mlu_work(const struct mlu_run *run, const struct mlu_step *step)
{
    return step->work ? (char *)run->launch->workspace + step->work_at : NULL;
}

static void plan_end_desc(void *desc, enum mlu_fn fn)
{
    int (*destroy)(void *desc);

    if (!desc) return;
    memcpy(&destroy, &mlu_cnnl.function[fn], sizeof destroy);
    destroy(desc);
}

static void plan_free(struct mlu_plan *plan)
{
    struct mlu_step *next;

    for (struct mlu_step *step = plan->first; step; step = next) {
        next = step->next;
        for (uint32_t i = 0; i < step->n; i++)
            if (step->t[i].desc) mlu_cnnl.call.cnnlDestroyTensorDescriptor(step->t[i].desc);
        plan_end_desc(step->second, step->second_destroy);
        plan_end_desc(step->desc, step->desc_destroy);
        free(step);
    }
    for (uint32_t i = 0; i < plan->n_own; i++) MLU_NOTE(plan->device, cnrtFree, plan->own[i]);
    free(plan);
}

void mlu_plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    KIT_CONTEXT caller = {NULL};

    (void)kernel;
    mlu_device_reuse(self, ((struct mlu_plan *)plan)->device->number, &caller);
    plan_free(plan);
}

/* Whether all outputs that are wanted are empty: nothing is to be done. */
static bool plan_is_empty(const struct bp_prep *prep)
{
    for (uint32_t i = 0; i < prep->n_out; i++)
        if (prep->out[i] && prep->out[i]->count) return false;
    return true;
}

static void plan_build(struct mlu_build *b)
{
    if (plan_is_empty(b->prep)) return;
    plan_fail(b, mlu_cnnl_plan_begin(b->device, &b->handle));
    if (b->status == BP_OK) b->row->build(b);
    mlu_cnnl_plan_end(b->device);
}

enum bp_status mlu_plan_prepare(struct mlu *self, const struct bp_prep *prep,
                                const struct mlu_row *row, struct bp_plan *out)
{
    struct mlu_build b = {.prep = prep, .row = row};
    KIT_CONTEXT caller = {NULL};

    TRY(mlu_device_use(self, prep->device, &caller, &b.device));
    b.plan = calloc(1, sizeof *b.plan);
    if (!b.plan)
        return bp_fail(self->host, BP_ERR_MEMORY, "mlu:%u: no memory for a plan", prep->device);
    b.plan->device = b.device;
    plan_build(&b);
    if (b.status) {
        plan_free(b.plan);
        return b.status;
    }
    BP_SET(out, plan, b.plan);
    BP_SET(out, bytes, b.plan->bytes);
    BP_SET(out, workspace, b.work);
    BP_SET(out, workspace_alignment, ALIGNMENT);
    return BP_OK;
}

enum bp_status mlu_plan_launch(const struct bp_launch *l)
{
    const struct mlu_plan *plan = l->plan;
    struct mlu_stream *s = l->stream;
    struct mlu_run run = {.launch = l};
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;

    if (!plan->first) return BP_OK;
    TRY(mlu_device_use(l->self, l->device, &caller, &d));
    TRY(mlu_cnnl_provide(s));
    run.handle = s->handle;
    run.own = plan->own;
    if (plan->guarded) TRY(mlu_fault_take(s, l->kernel, &run.word));
    for (const struct mlu_step *step = plan->first; step; step = step->next)
        TRY(mlu_cnnl_check(d, mlu_cnnl_name(step->fn), step->call(&run, step)));
    return BP_OK;
}
