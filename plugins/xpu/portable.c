/* SPDX-License-Identifier: Apache-2.0 */
/* portable.c: launches an entry of a portable kernel in a stream. */
#include "sources.h"
#include "xpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { ARGS_MAX = 4096 }; /* maximum size of an entry's arguments in bytes */

/* Replaces the operand by the stream's buffer for true extents. After the kernel they are copied
 * from there to the launch's results on the host. */
static enum bp_status take_results(struct xpu_stream *s, const struct bp_launch *launch,
                                   struct portable_operand *operand)
{
    struct xpu *self = s->device->self;
    size_t at = (size_t)((int64_t *)operand->data - launch->result);
    cl_int code = CL_SUCCESS;

    pthread_mutex_lock(&s->kit.lock);
    if (!s->results)
        s->results = self->call->clCreateBuffer(s->device->context, CL_MEM_READ_WRITE,
                                                XPU_RESULTS * sizeof(int64_t), NULL, &code);
    pthread_mutex_unlock(&s->kit.lock);
    if (!s->results) return xpu_fail(s->device, "clCreateBuffer", code);
    *operand = (struct portable_operand){(void *)(at * sizeof(int64_t)), s->results};
    return BP_OK;
}

static enum bp_status give_results(struct xpu_stream *s, const struct portable *p,
                                   const struct portable_operand *operand)
{
    for (int i = 0; i < p->n_operand; i++) {
        if (!(p->results >> i & 1) || !p->operand[i].data) continue;
        TRY(XPU_CALL(s->device, clEnqueueReadBuffer, s->queue, operand[i].memory, CL_FALSE,
                     (size_t)operand[i].data, sizeof(int64_t), p->operand[i].data, 0, NULL, NULL));
    }
    return BP_OK;
}

/* Determines the operands' buffers and offsets on the device. */
static enum bp_status portable_place(struct xpu_stream *s, const struct bp_launch *launch,
                                     const struct portable *p, struct portable_operand *out)
{
    enum bp_status status = BP_OK;

    for (int i = 0; i < p->n_operand && status == BP_OK; i++) {
        out[i] = p->operand[i];
        if (p->faults >> i & 1) status = xpu_fault_take(s, launch->kernel, &out[i]);
        else if (p->results >> i & 1 && out[i].data) status = take_results(s, launch, &out[i]);
    }
    return status;
}

/* The division of a launch into groups. If there are more elements or teams than a launch may have,
 * each lane or group loops over several. If there are more groups than `part`, several launches
 * follow each other. */
struct division {
    size_t groups, lanes;
    size_t part;  /* maximum groups of one launch */
    int64_t each; /* elements or teams of a group */
    int64_t run;  /* elements that a lane computes together; 0: the entry has no such argument */
};

/* The number of groups, of n, for one launch: few enough that the launch ends in time, and enough
 * that no unit of the device is idle. Elementwise entries that compute less than 64 additions for
 * an element are limited by memory, so they are not divided. Neither are entries whose lanes
 * compute several elements together: elements that are not contiguous are computed one by one, and
 * then a part would not begin where the previous part ended. */
static size_t portable_part_of(const struct xpu_device *d, const struct portable *p, int64_t each,
                               int64_t n)
{
    static const double little = 64;
    bool is_team = portable_entry_is_team(p->family, p->entry);
    double group = p->work * (double)each, least = 4 * (double)d->units, part;

    if (!d->launch_work || (!is_team && (p->work < little || p->together > 1)) ||
        group * (double)n <= d->launch_work)
        return (size_t)n;
    part = d->launch_work / group > least ? d->launch_work / group : least;
    if (part < 1) part = 1;
    return part < (double)n ? (size_t)part : (size_t)n;
}

static struct division portable_divide(const struct xpu_device *d, const struct xpu_kernel *kernel,
                                       const struct portable *p)
{
    static const int64_t most = 1 << 22;
    static const double run_work = 32768; /* enough to make the cost of distribution small */
    struct division by = {.lanes = kernel->lanes};
    int64_t each = 1, n;

    if (!portable_entry_is_team(p->family, p->entry)) {
        if (d->is_processor) by.run = (int64_t)(run_work / (p->work > 1 ? p->work : 1)) + 1;
        each = d->is_processor ? by.run : (int64_t)kernel->lanes * (p->together ? p->together : 1);
    }
    n = (p->count - 1) / each + 1;
    by.each = each;
    by.part = portable_part_of(d, p, each, n);
    if (by.part == (size_t)n) by.part = n = n < most ? n : most;
    by.groups = (size_t)n;
    return by;
}

/* Writes an entry's arguments with the numbers of type host_real as f32, for a device without
 * f64. */
static void portable_narrow(const struct portable *p, unsigned char *out)
{
    const struct xpu_given *given = &xpu_given[portable_entry_number(p->family, p->entry)];

    memcpy(out, p->args, p->args_size);
    for (int i = 0; i < given->n; i++) {
        double number;
        memcpy(&number, out + given->at[i], sizeof number);
        memset(out + given->at[i], 0, sizeof number);
        memcpy(out + given->at[i], &(float){(float)number}, sizeof(float));
    }
}

/* Sets the entry's arguments if they have changed; their size is constant for each entry. Without
 * memory to remember them they are set for each launch. */
static cl_int set_numbers(const struct xpu_device *d, struct xpu_kernel *k,
                          const struct portable *p)
{
    struct xpu_setting *set = &k->set;
    unsigned char narrowed[ARGS_MAX];
    const void *args = p->args;

    if (!d->has_f64) {
        portable_narrow(p, narrowed);
        args = narrowed;
    }
    if (set->is_whole && set->args && !memcmp(set->args, args, p->args_size)) return CL_SUCCESS;
    if (!set->args) set->args = malloc(p->args_size);
    if (set->args) memcpy(set->args, args, p->args_size);
    return d->self->call->clSetKernelArg(k->kernel, 0, p->args_size, args);
}

static cl_int set_operands(const struct xpu *self, struct xpu_kernel *k, cl_uint n, bool again,
                           int n_operand, const struct portable_operand *operand)
{
    const struct xpu_calls *call = self->call;
    struct xpu_setting *set = &k->set;
    cl_int code = CL_SUCCESS;

    for (int i = 0; i < n_operand; i++, n += 2) {
        cl_mem memory = operand[i].memory;
        cl_ulong at = (cl_ulong)(uintptr_t)operand[i].data;
        if (again || set->memory[i] != memory)
            code |= call->clSetKernelArg(k->kernel, n, sizeof memory, memory ? &memory : NULL);
        if (again || set->at[i] != at)
            code |= call->clSetKernelArg(k->kernel, n + 1, sizeof at, &at);
        set->memory[i] = memory;
        set->at[i] = at;
    }
    return code;
}

/* Sets the arguments that differ from those that are set. Under the kernel's lock. count: the end
 * of the launch's elements or teams. */
static cl_int set_args(const struct xpu_device *d, struct xpu_kernel *k, const struct portable *p,
                       int64_t count, const struct division *by,
                       const struct portable_operand *operand)
{
    struct xpu *self = d->self;
    struct xpu_setting *set = &k->set;
    uint64_t released = atomic_load(&self->released);
    bool again = !set->is_whole || set->released != released;
    cl_uint n = 1;
    cl_int code = set_numbers(d, k, p);

    if (again || set->count != count)
        code |= self->call->clSetKernelArg(k->kernel, n, sizeof count, &count);
    n++;
    if (by->run && (again || set->run != by->run))
        code |= self->call->clSetKernelArg(k->kernel, n, sizeof by->run, &by->run);
    n += by->run != 0;
    code |= set_operands(self, k, n, again, p->n_operand, operand);
    set->count = count;
    set->run = by->run;
    set->released = released;
    set->is_whole = code == CL_SUCCESS;
    return code;
}

/* Checks the size of all arguments that set_args sets. Beyond their limit, drivers fail with
 * various errors. */
static enum bp_status check_size(const struct xpu_device *d, const struct bp_launch *launch,
                                 const struct portable *p)
{
    size_t bytes = p->args_size + sizeof p->count + sizeof(int64_t) +
                   (size_t)p->n_operand * (sizeof(cl_mem) + sizeof(cl_ulong));

    if (bytes <= d->parameters) return BP_OK;
    return bp_fail(d->self->host, BP_ERR_UNSUPPORTED,
                   "xpu:%u: %s: %s has arguments of %zu bytes, the driver takes %zu", d->number,
                   launch->kernel->name, portable_entry_name(p->family, p->entry), bytes,
                   d->parameters);
}

int portable_has_blocks(void *self, uint32_t device)
{
    return ((struct xpu *)self)->device[device].has_blocks;
}

/* Launches the groups from `first` on, at most by->part. The driver could merge launches that it
 * gathers, so each part is started alone. */
static cl_int portable_enqueue(struct xpu_stream *s, const char *name, struct xpu_kernel *kernel,
                               const struct portable *p, const struct division *by, size_t first,
                               const struct portable_operand *operand)
{
    const struct xpu_calls *call = s->device->self->call;
    bool is_last = by->groups - first <= by->part;
    size_t n = is_last ? by->groups - first : by->part;
    size_t global = n * by->lanes, offset = first * by->lanes;
    int64_t count = is_last ? p->count : (int64_t)(first + n) * by->each;
    cl_event event;
    cl_int code;

    pthread_mutex_lock(&kernel->lock);
    code = set_args(s->device, kernel, p, count, by, operand);
    if (code == CL_SUCCESS)
        code = call->clEnqueueNDRangeKernel(s->queue, kernel->kernel, 1, first ? &offset : NULL,
                                            &global, &by->lanes, 0, NULL,
                                            xpu_profile_event(s, &event));
    pthread_mutex_unlock(&kernel->lock);
    if (code == CL_SUCCESS && event) xpu_profile_add(s, event, BP_RECORD_KERNEL, name, 0);
    if (code == CL_SUCCESS) xpu_stream_start(s, by->part < by->groups);
    return code;
}

enum bp_status portable_run(const struct bp_launch *launch, const struct portable *p)
{
    struct xpu *self = launch->self;
    struct xpu_device *d = &self->device[launch->device];
    struct xpu_stream *s = xpu_stream_of(self, launch->device, launch->stream);
    struct portable_operand operand[PORTABLE_OPERANDS];
    struct xpu_kernel *kernel;
    enum bp_status status;
    struct division by;
    cl_int code = CL_SUCCESS;

    if (p->count <= 0) return BP_OK;
    status = check_size(d, launch, p);
    if (status == BP_OK) status = xpu_kernel_get(d, p->family, p->type, p->entry, &kernel);
    if (status == BP_OK) status = portable_place(s, launch, p, operand);
    if (status) return status;
    by = portable_divide(d, kernel, p);
    for (size_t first = 0; first < by.groups && code == CL_SUCCESS; first += by.part)
        code = portable_enqueue(s, launch->kernel->name, kernel, p, &by, first, operand);
    if (code != CL_SUCCESS)
        return bp_fail(self->host, xpu_opencl_status(code), "xpu:%u: %s: launch of %s answered %s",
                       d->number, launch->kernel->name, portable_entry_name(p->family, p->entry),
                       xpu_opencl_name(code));
    return p->results ? give_results(s, p, operand) : BP_OK;
}
