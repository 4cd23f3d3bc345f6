/* SPDX-License-Identifier: Apache-2.0 */
/* fused.c: plans and launches `fused`, as one kernel that is compiled for its code. */
#include "fused.h"
#include <backplane/attrs.h>
#include <stdlib.h>
#include <string.h>

struct fused_plan {
    struct xpu_fused *kernel; /* NULL: there are no elements */
    int n_operand;
    int64_t count;
    double work; /* of an element, in additions */
    size_t args_size;
    int64_t args[FUSED_ARGS];
};

/* Compiles the kernel. Declines code that the device cannot run, and more arguments than its driver
 * takes. */
static enum bp_status plan_compile(struct xpu_device *d, const struct bp_prep *prep,
                                   const struct fused_walk *walk, struct fused_plan *p)
{
    struct bp_dims code = ((const struct bp_fused_attrs *)prep->attrs)->code;
    enum portable_type type = portable_type(prep->out[0]->dtype);
    size_t bytes = p->args_size + 2 * sizeof(int64_t) +
                   (size_t)p->n_operand * (sizeof(cl_mem) + sizeof(cl_ulong));
    const struct fused_device on = {d->is_processor, d->has_f64, true};
    enum bp_status status;
    char *text;

    if (bytes > d->parameters) return BP_ERR_UNSUPPORTED;
    text = portable_fused_print(code, type, &on, walk, &p->work);
    if (!text) return BP_ERR_UNSUPPORTED;
    status = xpu_fused_get(d, type, text, &p->kernel);
    free(text);
    return status;
}

enum bp_status xpu_fused_prepare(void *p, const struct bp_prep *prep, struct bp_plan *out)
{
    struct xpu *self = p;
    struct xpu_device *d = &self->device[prep->device];
    struct fused_plan *plan = calloc(1, sizeof *plan);
    struct fused_walk walk;
    enum bp_status status = BP_OK;

    if (!plan)
        return bp_fail(self->host, BP_ERR_MEMORY, "xpu:%u: no memory for a plan of fused",
                       d->number);
    portable_fused_walk(prep, &walk);
    plan->n_operand = walk.n;
    plan->count = walk.count;
    plan->args_size = portable_fused_args(&walk, plan->args);
    if (walk.count) status = plan_compile(d, prep, &walk, plan);
    if (status) {
        free(plan);
        return status;
    }
    out->plan = plan;
    out->bytes = sizeof *plan;
    return BP_OK;
}

void xpu_fused_destroy(void *p, const struct bp_kernel *row, void *made)
{
    struct fused_plan *plan = made;
    struct xpu_fused *f = plan->kernel;

    (void)p;
    (void)row;
    if (f) xpu_fused_put(f->device, f);
    free(plan);
}

/* Sets the arguments. Under the kernel's lock. count: the end of the launch's elements. */
static cl_int fused_set_args(const struct xpu_device *d, const struct bp_launch *launch,
                             int64_t count, int64_t run)
{
    const struct fused_plan *p = launch->plan;
    const struct xpu_calls *call = d->self->call;
    cl_kernel kernel = p->kernel->kernel.kernel;
    cl_int code = CL_SUCCESS;
    cl_uint n = 0;

    if (p->args_size) code |= call->clSetKernelArg(kernel, n++, p->args_size, p->args);
    code |= call->clSetKernelArg(kernel, n++, sizeof count, &count);
    code |= call->clSetKernelArg(kernel, n++, sizeof run, &run);
    for (uint32_t k = 0; k < launch->n_out + launch->n_in; k++) {
        const struct bp_view *v = k < launch->n_out ? launch->out[k]
                                                    : launch->in[k - launch->n_out];
        cl_mem memory = v->memory;
        cl_ulong at = (cl_ulong)(uintptr_t)v->data;
        code |= call->clSetKernelArg(kernel, n++, sizeof memory, &memory);
        code |= call->clSetKernelArg(kernel, n++, sizeof at, &at);
    }
    return code;
}

/* How elements are divided into groups: a lane computes `run` elements, and loops if there are more
 * groups than a launch has. A launch of at most `part` elements ends in time. */
struct fused_division {
    int64_t run, each, part;
};

static struct fused_division fused_divide(const struct xpu_device *d, const struct fused_plan *p)
{
    static const double run_work = 32768;
    struct fused_division by = {.run = 1, .part = p->count};
    double most = d->launch_work / p->work;

    if (d->is_processor) by.run = (int64_t)(run_work / p->work) + 1;
    by.each = by.run * (int64_t)p->kernel->kernel.lanes;
    if (d->launch_work && most < (double)p->count) {
        int64_t groups = (int64_t)(most / (double)by.each), least = 4 * (int64_t)d->units;
        by.part = (groups > least ? groups : least) * by.each;
    }
    return by;
}

/* Launches the elements from `first` on, at most by->part. */
static cl_int fused_enqueue(struct xpu_stream *s, const struct bp_launch *launch,
                            const struct fused_division *by, int64_t first)
{
    static const size_t most = 1 << 22; /* groups */
    const struct fused_plan *p = launch->plan;
    struct xpu_device *d = s->device;
    struct xpu_kernel *k = &p->kernel->kernel;
    int64_t end = p->count - first > by->part ? first + by->part : p->count;
    size_t groups = (size_t)((end - first - 1) / by->each + 1), global, offset;
    cl_event event;
    cl_int code;

    if (groups > most && by->part >= p->count) groups = most; /* its lanes loop */
    global = groups * k->lanes;
    offset = (size_t)(first / by->run);
    pthread_mutex_lock(&k->lock);
    code = fused_set_args(d, launch, end, by->run);
    if (code == CL_SUCCESS)
        code = d->self->call->clEnqueueNDRangeKernel(s->queue, k->kernel, 1, first ? &offset : NULL,
                                                     &global, &k->lanes, 0, NULL,
                                                     xpu_profile_event(s, &event));
    pthread_mutex_unlock(&k->lock);
    if (code == CL_SUCCESS && event)
        xpu_profile_add(s, event, BP_RECORD_KERNEL, launch->kernel->name, 0);
    if (code == CL_SUCCESS) xpu_stream_start(s, by->part < p->count);
    return code;
}

enum bp_status xpu_fused_launch(const struct bp_launch *launch)
{
    struct xpu *self = launch->self;
    const struct fused_plan *p = launch->plan;
    struct xpu_stream *s = xpu_stream_of(self, launch->device, launch->stream);
    struct fused_division by;
    cl_int code = CL_SUCCESS;

    if (!p->count) return BP_OK;
    by = fused_divide(s->device, p);
    for (int64_t first = 0; first < p->count && code == CL_SUCCESS; first += by.part)
        code = fused_enqueue(s, launch, &by, first);
    if (code == CL_SUCCESS) return BP_OK;
    return bp_fail(self->host, xpu_opencl_status(code), "xpu:%u: %s: launch answered %s",
                   launch->device, launch->kernel->name, xpu_opencl_name(code));
}
