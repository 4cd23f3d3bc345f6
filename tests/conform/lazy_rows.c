/* SPDX-License-Identifier: Apache-2.0 */
/* lazy_rows.c: kernels of lazy.c: add, and gather by 32-bit indices, which finds bad ones when it
 * runs, long after its call has returned. */
#include "lazy.h"

#include <backplane/attrs.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS = 3, AXES = 8 };

/* Two inputs and the output, with shapes and strides of their own. */
struct lazy_launch {
    const struct bp_host *host;
    enum bp_status (*run)(const struct lazy_launch *l);
    struct bp_view view[OPERANDS];
    int64_t shape[OPERANDS][AXES], stride[OPERANDS][AXES];
    int64_t axis;
};

/* Of LAZY_BREAK=one-block: the only block of arguments, and the stream whose launch it is. */
static struct lazy_launch only_block;
static void *block_of;

bool lazy_breaks(const char *how)
{
    const char *wanted = getenv("LAZY_BREAK");

    return wanted && !strcmp(wanted, how);
}

enum bp_status lazy_launch_run(struct lazy_launch *launch)
{
    return launch->run(launch);
}

void lazy_launch_destroy(struct lazy_launch *launch)
{
    size_t size = sizeof *launch;

    if (lazy_breaks("host-leak") || launch == &only_block) return;
    if (lazy_breaks("wrong-size")) size -= 8;
    launch->host->release(launch->host->ctx, launch, size);
}

/* A block of arguments for a launch. The only one is free when the stream that had it has done its
 * work: what other streams have to do is forgotten. */
static struct lazy_launch *take_block(const struct bp_launch *l, const struct bp_host *host)
{
    if (!lazy_breaks("one-block"))
        return host->allocate(host->ctx, sizeof only_block, _Alignof(struct lazy_launch));
    if (block_of == l->stream) lazy_catch_up(l);
    block_of = l->stream;
    return &only_block;
}

static enum bp_status give(const struct bp_launch *l, int64_t axis,
                           enum bp_status (*run)(const struct lazy_launch *l))
{
    const struct bp_host *host = lazy_host(l->self);
    struct lazy_launch *copy = take_block(l, host);

    if (!copy) return bp_fail(host, BP_ERR_MEMORY, "late: no memory for a launch");
    copy->host = host;
    copy->run = run;
    copy->axis = axis;
    for (int i = 0; i < OPERANDS; i++) {
        const struct bp_view *v = i < 2 ? l->in[i] : l->out[0];
        copy->view[i] = *v;
        memcpy(copy->shape[i], v->shape, v->rank * sizeof *v->shape);
        memcpy(copy->stride[i], v->stride, v->rank * sizeof *v->stride);
    }
    return lazy_give(l, copy);
}

/* Where element number e of the output has its term in an input that broadcasts. */
static int64_t term(const struct lazy_launch *l, int of, int64_t e)
{
    int ahead = l->view[2].rank - l->view[of].rank;
    int64_t at = 0;

    for (int i = l->view[2].rank - 1; i >= 0; i--) {
        int axis = i - ahead;
        if (axis >= 0 && l->shape[of][axis] != 1) at += e % l->shape[2][i] * l->stride[of][axis];
        e /= l->shape[2][i];
    }
    return at;
}

static enum bp_status add_now(const struct lazy_launch *l)
{
    const float *x = l->view[0].data, *y = l->view[1].data;
    float *z = l->view[2].data;

    if (lazy_breaks("add-fails") && l->view[2].count == 924) return BP_ERR_DEVICE;
    if (lazy_breaks("add-loses") && l->view[2].count == 924) return BP_ERR_DEVICE_LOST;
    for (int64_t e = 0; e < l->view[2].count; e++)
        z[term(l, 2, e)] = x[term(l, 0, e)] + y[term(l, 1, e)];
    return BP_OK;
}

/* With LAZY_BREAK=declines small tensors only, which is sound. */
static enum bp_status accepts_add(void *self, const struct bp_prep *prep)
{
    if (!lazy_breaks("declines") || prep->out[0]->count < 300) return BP_OK;
    return bp_fail(lazy_host(self), BP_ERR_UNSUPPORTED, "late: too large");
}

static enum bp_status add(const struct bp_launch *l)
{
    return give(l, 0, add_now);
}

/* One element: the output's axes are those of x before axis, of the indices, of x behind axis. */
static bool take(const struct lazy_launch *l, int64_t e)
{
    const int32_t *index = l->view[1].data;
    int64_t from = 0, to = 0, at = 0, n = l->shape[0][l->axis], which;

    for (int i = l->view[2].rank - 1; i >= 0; i--) {
        int64_t here = e % l->shape[2][i], of_index = i - l->axis;
        e /= l->shape[2][i];
        to += here * l->stride[2][i];
        if (of_index < 0) from += here * l->stride[0][i];
        else if (of_index < l->view[1].rank) at += here * l->stride[1][of_index];
        else from += here * l->stride[0][i - l->view[1].rank + 1];
    }
    which = index[at] < 0 ? index[at] + n : index[at];
    if (which < 0 || which >= n) return false;
    ((float *)l->view[2].data)[to] =
        ((const float *)l->view[0].data)[from + which * l->stride[0][l->axis]];
    return true;
}

static enum bp_status gather_now(const struct lazy_launch *l)
{
    bool good = true;

    for (int64_t e = 0; e < l->view[2].count; e++) good &= take(l, e);
    return good ? BP_OK : BP_ERR_FAULT;
}

static enum bp_status gather(const struct bp_launch *l)
{
    const struct bp_gather_attrs *a = l->attrs;

    return give(l, a->axis < 0 ? a->axis + l->in[0]->rank : a->axis, gather_now);
}

/* The plan holds nothing that is needed. */
static enum bp_status prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_host *host = lazy_host(self);
    bool own = lazy_breaks("plan-malloc");
    void *plan = own ? malloc(48) : host->allocate(host->ctx, 48, 16);

    (void)prep;
    if (!plan) return bp_fail(host, BP_ERR_MEMORY, "late: no memory for a plan");
    BP_SET(out, plan, plan);
    return BP_OK;
}

static void plan_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    const struct bp_host *host = lazy_host(self);

    (void)kernel;
    if (lazy_breaks("plan-leak") || lazy_breaks("plan-malloc")) return;
    host->release(host->ctx, plan, 48);
}

enum { FLAGS = BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC };
static const struct bp_kernel rows[] = {
    {BP_OPROW(add), .name = "late_add_f32", .types = {BP_M(F32)},
     .flags = FLAGS | BP_KERNEL_IN_PLACE, .launch = add, .accepts = accepts_add},
    {BP_OPROW(gather), .name = "late_gather_f32_i32", .types = {BP_M(F32), 0, BP_M(I32)},
     .flags = FLAGS, .launch = gather, .prepare = prepare, .plan_destroy = plan_destroy},
};
const struct bp_kernels lazy_kernels = {
    .size = sizeof lazy_kernels, .first = rows, .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows};
