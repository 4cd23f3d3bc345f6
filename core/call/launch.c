/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: runs a prepared call: allocates workspace and temporaries, launches step by step, and
 * records until when buffers are used. */
#include "fallback.h"
#include "prepared.h"
#include "profile_launch.h"
#include "../base/clock.h"
#include "../exec/capture.h"

#include <stdlib.h>

/* A plan that needs a larger alignment than the device's gets a larger block (not on devices with
 * handles). */
static uint64_t workspace_bytes(const struct bp_step *step, const struct bp_device *device)
{
    uint64_t alignment = step->plan.workspace_alignment;

    return step->plan.workspace + (alignment > device->alignment ? alignment : 0);
}

static void *launch_align(void *data, uint64_t alignment)
{
    return (void *)(alignment > 1 ? ((uintptr_t)data + alignment - 1) & ~(uintptr_t)(alignment - 1)
                                  : (uintptr_t)data);
}

/* Records that the launch uses the call's tensors and plan until it has ended. Memory that was
 * allocated for this run belongs to this stream and is not recorded: later work of the stream may
 * reuse it. */
static void launch_note(struct bp_prepared *p, struct bp_timeline *timeline, uint64_t number,
                        struct bp_tensor *const *in, struct bp_tensor *const *out)
{
    bool noted;

    for (uint32_t i = 0; i < p->n_in; i++)
        if (in[i]) bp_buffer_record_use(in[i]->buffer, timeline, number);
    for (uint32_t i = 0; i < p->n_out; i++)
        if (out[i]) bp_buffer_record_use(out[i]->buffer, timeline, number);
    pthread_mutex_lock(&p->device->lock);
    noted = bp_users_add(&p->pending.users, timeline, number);
    pthread_mutex_unlock(&p->device->lock);
    if (!noted) bp_timeline_wait(timeline, number, &bp_deadline_none);
}

/* Passes one launch to the kernel, or a copy of the launch to the stream's queue. */
static enum bp_status launch_submit(const struct bp_prepared *p, const struct bp_step *step,
                                    struct bp_timeline *timeline, struct bp_launch *l)
{
    enum bp_status status;
    uint64_t began;

    l->stream = timeline->stream;
    l->fault = p->device->is_inline ? &timeline->fault : NULL;
    if (__builtin_expect(timeline->queue != NULL, 0))
        return bp_launch_enqueue(timeline, l, step->kernel, step->row, p->device);
    if (__builtin_expect(bp_process_is_stopping(), 0)) return bp_error_stopped();
    began = bp_work_profile_begin(timeline, l->tag);
    status = step->kernel->launch(l);
    if (__builtin_expect(began != 0, 0)) bp_profile_launch(timeline, l, step->row, NULL, began);
    if (__builtin_expect(status != BP_OK, 0)) {
        timeline->fault = 0; /* the status is more specific */
        status = bp_kernel_leave(p->device, status, step->kernel);
        bp_error_set_kernel(step->kernel->name);
        return status;
    }
    return __builtin_expect(timeline->fault != 0, 0) ? bp_fault_report(timeline, step->kernel)
                                                     : BP_OK;
}

/* Launches one kernel with the values of this run. */
static enum bp_status launch_kernel(const struct bp_prepared *p, const struct bp_step *step,
                                    struct bp_stream *stream, const struct bp_view *const *in,
                                    const struct bp_view *const *out, const struct bp_run *run,
                                    uint64_t *out_number)
{
    struct bp_timeline *timeline = stream->timeline;
    struct bp_buffer *workspace = NULL;
    struct bp_launch l = step->launch;
    enum bp_status status;
    uint64_t number;

    l.in = in;
    l.out = out;
    if (!step->attrs && step->row == p->row) l.attrs = run->attrs;
    l.result = run->result;
    l.seed = run->seed;
    l.offset = run->offset;
    l.rng = step->row->random ? run->rng : NULL;
    if (__builtin_expect(step->plan.workspace != 0, 0)) {
        TRY(bp_buffer_allocate(p->device, timeline, BP_SPACE_DEVICE,
                               workspace_bytes(step, p->device), &workspace));
        l.workspace = launch_align(workspace->memory.data, step->plan.workspace_alignment);
        l.workspace_memory = workspace->memory.handle;
    }
    number = l.tag = bp_work_begin(timeline, step->row->info.name);
    status = launch_submit(p, step, timeline, &l);
    if (__builtin_expect(status != BP_OK && timeline->queue, 0)) {
        bp_work_cancel(timeline, number);
    } else {
        bp_work_end(timeline, number);
        *out_number = number;
    }
    if (workspace) bp_buffer_release(workspace);
    return status;
}

static enum bp_status launch_single(struct bp_prepared *p, struct bp_stream *stream,
                                    struct bp_tensor *const *in, struct bp_tensor *const *out,
                                    const struct bp_run *run)
{
    uint64_t number = 0;
    enum bp_status status = launch_kernel(p, p->step, stream, bp_tensor_views(in),
                                          bp_tensor_views(out), run, &number);

    if (!stream->timeline->is_inline && number) launch_note(p, stream->timeline, number, in, out);
    return status;
}

/* The temporaries of a run of several steps: their views and memory. */
struct places {
    struct bp_view *view;
    struct bp_buffer **buffer;
    struct bp_tensor *const *in, *const *out;
};

static const struct bp_view *launch_resolve(const struct places *at, struct bp_operand o)
{
    switch (o.kind) {
    case BP_OPERAND_IN: return &at->in[o.index]->view;
    case BP_OPERAND_OUT: return &at->out[o.index]->view;
    case BP_OPERAND_TEMP: return &at->view[o.index];
    default: return NULL;
    }
}

static const struct bp_view *in_of(const struct places *at, const struct bp_step *step, uint32_t i)
{
    if (step->in) return launch_resolve(at, step->in[i]);
    return at->in[i] ? &at->in[i]->view : NULL;
}

static const struct bp_view *out_of(const struct places *at, const struct bp_step *step, uint32_t i)
{
    if (step->in) return launch_resolve(at, step->out[i]);
    return at->out[i] ? &at->out[i]->view : NULL;
}

/* A temporary that is a view may come before or after the temporary that it views. */
static void launch_find_temp(const struct bp_prepared *p, struct places *at, uint32_t i)
{
    struct bp_operand o = p->temp[i]->of;
    uint64_t offset = p->temp[i]->offset;
    const struct bp_view *of;

    while (o.kind == BP_OPERAND_TEMP && p->temp[o.index]->of.kind != BP_OPERAND_NONE) {
        offset += p->temp[o.index]->offset;
        o = p->temp[o.index]->of;
    }
    of = launch_resolve(at, o);
    if (!of) return;
    at->view[i].memory = of->memory;
    at->view[i].space = of->space;
    at->view[i].data = (void *)((uintptr_t)of->data + offset);
}

static enum bp_status launch_allocate_temps(const struct bp_prepared *p, struct bp_timeline *owner,
                                            struct places *at)
{
    for (uint32_t i = 0; i < p->n_temp; i++) {
        at->view[i] = p->temp[i]->type.view;
        if (!p->temp[i]->bytes) continue;
        TRY(bp_buffer_allocate(p->device, owner, BP_SPACE_DEVICE, p->temp[i]->bytes,
                               &at->buffer[i]));
        at->view[i].data = at->buffer[i]->memory.data;
        at->view[i].memory = at->buffer[i]->memory.handle;
    }
    for (uint32_t i = 0; i < p->n_temp; i++) launch_find_temp(p, at, i);
    return BP_OK;
}

/* Counts a fallback step, with the bytes that it writes. A captured step is counted when it is
 * replayed. */
static void launch_count(const struct bp_prepared *p, const struct bp_step *step,
                         const struct places *at, struct bp_capture *recording, uint64_t began)
{
    uint64_t bytes = 0;

    if (step->kind == BP_FALLBACK_NONE) return;
    for (uint32_t i = 0; i < step->out_at[step->row->info.n_out]; i++) {
        const struct bp_view *v = out_of(at, step, i);
        if (v) bytes += (uint64_t)v->count * (bp_dtype_bits(v->dtype) / 8);
    }
    if (recording) bp_capture_count_fallback(recording, p->row, step->kind, bytes);
    else bp_fallback_count(p->device, p->row, step->kind, bytes, bp_clock_ns() - began);
}

/* The tensors of a step on another device: copies of the inputs, and room for the outputs. */
struct there {
    struct bp_stream *stream;
    struct bp_tensor *in[BP_FLAT_MAX], *out[BP_FLAT_MAX];
};

static enum bp_status launch_bring_inputs(const struct bp_prepared *p, struct there *t,
                                          struct bp_tensor *const *in)
{
    for (uint32_t i = 0; i < p->n_in; i++) {
        if (!in[i]) continue;
        TRY(bp_tensor_create_like(p->device, NULL, &p->type[i], &t->in[i]));
        TRY(bp_tensor_copy(t->stream, t->in[i], in[i]));
    }
    for (uint32_t i = 0; i < p->n_out; i++) {
        const struct bp_port *port = &p->row->info.out[bp_out_port(p->row, p->out_at, i)];
        const struct bp_typed_view *type = &p->type[p->n_in + i];
        if (port->kind == BP_PORT_UPDATE) /* an update writes over the input copy */
            t->out[i] = bp_tensor_retain(t->in[p->in_at[port->share]]);
        else if (type->view.rank != BP_ABSENT)
            TRY(bp_tensor_create_like(p->device, NULL, type, &t->out[i]));
    }
    return BP_OK;
}

static void launch_end_on_fallback(const struct bp_prepared *p, struct there *t)
{
    for (uint32_t i = 0; i < p->n_in; i++) bp_tensor_destroy(t->in[i]);
    for (uint32_t i = 0; i < p->n_out; i++) bp_tensor_destroy(t->out[i]);
    bp_stream_destroy(t->stream);
    free(t);
}

/* Runs a step on the device of `step->elsewhere`, by copies of its tensors. */
static enum bp_status launch_on_fallback(const struct bp_step *step, struct bp_stream *stream,
                                         struct bp_tensor *const *in, struct bp_tensor *const *out,
                                         const struct bp_run *run)
{
    struct bp_prepared *p = step->fallback;
    struct there *t = calloc(1, sizeof *t);
    enum bp_status status;

    if (!t) return bp_error(BP_ERR_MEMORY, "%s: no memory to run it elsewhere", p->row->info.name);
    status = bp_stream_create_with(p->device, BP_STREAM_INLINE, &t->stream);
    if (status == BP_OK) status = launch_bring_inputs(p, t, in);
    if (status == BP_OK) status = bp_prepared_launch(p, t->stream, t->in, t->out, run);
    for (uint32_t i = 0; i < p->n_out && status == BP_OK; i++)
        if (out[i]) status = bp_tensor_copy(stream, out[i], t->out[i]);
    launch_end_on_fallback(p, t);
    return status;
}

/* Returns an operand as a tensor. For a temporary it is made in *room: its view, in the buffer of
 * the operand that it views in the end. */
static struct bp_tensor *launch_tensor(const struct bp_prepared *p, const struct places *at,
                                       struct bp_operand o, struct bp_tensor *room)
{
    const struct bp_view *v = launch_resolve(at, o);

    if (o.kind == BP_OPERAND_IN) return at->in[o.index];
    if (o.kind == BP_OPERAND_OUT) return at->out[o.index];
    *room = (struct bp_tensor){.view = *v, .device = p->device};
    memcpy(room->shape, v->shape, v->rank * sizeof *v->shape);
    memcpy(room->stride, v->stride, v->rank * sizeof *v->stride);
    while (o.kind == BP_OPERAND_TEMP && p->temp[o.index]->of.kind != BP_OPERAND_NONE)
        o = p->temp[o.index]->of;
    room->buffer = o.kind == BP_OPERAND_IN    ? at->in[o.index]->buffer
                   : o.kind == BP_OPERAND_OUT ? at->out[o.index]->buffer
                                              : at->buffer[o.index];
    return room;
}

/* Runs a step of the core itself, which has one input and one output. */
static enum bp_status launch_transform(const struct bp_prepared *p, const struct bp_step *step,
                                       struct bp_stream *stream, const struct places *at)
{
    const struct bp_operand in = {BP_OPERAND_IN, 0}, out = {BP_OPERAND_OUT, 0};
    struct bp_tensor room[2];
    struct bp_tensor *src = launch_tensor(p, at, step->in ? step->in[0] : in, &room[0]);
    struct bp_tensor *dst = launch_tensor(p, at, step->in ? step->out[0] : out, &room[1]);

    if (!dst->view.count || (dst->view.data == src->view.data &&
                             dst->view.memory == src->view.memory))
        return BP_OK; /* nothing changes, as in an assign in place */
    return step->transform->indices
               ? bp_transfer_indices(stream, dst, src)
               : bp_transfer_within(stream, &step->transform->move, dst, src);
}

static enum bp_status launch_step(struct bp_prepared *p, const struct bp_step *step,
                                  struct bp_stream *stream, const struct places *at,
                                  const struct bp_run *run)
{
    const struct bp_view *in_view[BP_FLAT_MAX], *out_view[BP_FLAT_MAX];
    uint64_t number = 0, began = bp_clock_ns();
    enum bp_status status = BP_OK;

    if (step->kind) status = bp_fallback_check(p->device, p->row, step->kind);
    if (status) return status;
    if (step->fallback) {
        status = launch_on_fallback(step, stream, at->in, at->out, run);
    } else if (step->transform) {
        status = launch_transform(p, step, stream, at);
    } else {
        for (uint32_t i = 0; i < step->launch.n_in; i++) in_view[i] = in_of(at, step, i);
        for (uint32_t i = 0; i < step->launch.n_out; i++) out_view[i] = out_of(at, step, i);
        status = launch_kernel(p, step, stream, in_view, out_view, run, &number);
        if (!stream->timeline->is_inline && number)
            launch_note(p, stream->timeline, number, at->in, at->out);
    }
    if (status == BP_OK) launch_count(p, step, at, stream->timeline->recording, began);
    return status;
}

static enum bp_status launch_steps(struct bp_prepared *p, struct bp_stream *stream,
                                   struct bp_tensor *const *in, struct bp_tensor *const *out,
                                   const struct bp_run *run)
{
    struct places at = {calloc(p->n_temp + 1, sizeof *at.view),
                        calloc(p->n_temp + 1, sizeof *at.buffer), in, out};
    enum bp_status status = BP_OK;

    if (!at.view || !at.buffer)
        status = bp_error(BP_ERR_MEMORY, "%s: no host memory to run it", p->row->info.name);
    if (status == BP_OK) status = launch_allocate_temps(p, stream->timeline, &at);
    for (uint32_t i = 0; i < p->n_step && status == BP_OK; i++)
        status = i && bp_stream_is_cancelled(stream)
                     ? bp_timeline_error_cancelled(stream->timeline)
                     : launch_step(p, &p->step[i], stream, &at, run);
    for (uint32_t i = 0; at.buffer && i < p->n_temp; i++)
        if (at.buffer[i]) bp_buffer_release(at.buffer[i]);
    free(at.view);
    free(at.buffer);
    return status;
}

static inline enum bp_status launch_now(struct bp_prepared *p, struct bp_stream *stream,
                                        struct bp_tensor *const *in, struct bp_tensor *const *out,
                                        const struct bp_run *run)
{
    enum bp_status status = p->simple ? launch_single(p, stream, in, out, run)
                                      : launch_steps(p, stream, in, out, run);

    for (uint32_t i = 0; i < p->n_out; i++)
        if (out[i]) bp_buffer_record_write(out[i]->buffer);
    if (__builtin_expect(stream->synchronous && status == BP_OK, 0))
        return bp_stream_drain_if_sync(stream);
    return status;
}

static bool launch_updates(const struct bp_prepared *p, uint32_t o)
{
    return p->row->info.out[bp_out_port(p->row, p->out_at, o)].kind == BP_PORT_UPDATE;
}

/* Launches after engines have written the values that they keep of the tensors. */
static __attribute__((noinline)) enum bp_status
launch_settled(struct bp_prepared *p, struct bp_stream *stream, struct bp_tensor *const *in,
               struct bp_tensor *const *out, const struct bp_run *run)
{
    bool began[BP_FLAT_MAX] = {false};
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < p->n_in && status == BP_OK; i++)
        if (in[i]) status = bp_buffer_settle(in[i]->buffer);
    for (uint32_t o = 0; o < p->n_out && status == BP_OK; o++)
        if (out[o] && !launch_updates(p, o)) status = bp_tensor_overwrite(out[o], &began[o]);
    if (status == BP_OK) status = launch_now(p, stream, in, out, run);
    for (uint32_t o = 0; o < p->n_out; o++)
        if (out[o]) bp_tensor_end_overwrite(out[o], began[o], status);
    return status;
}

enum bp_status bp_prepared_launch(struct bp_prepared *p, struct bp_stream *stream,
                                  struct bp_tensor *const *in, struct bp_tensor *const *out,
                                  const struct bp_run *run)
{
    return bp_device_has_writebacks(p->device) ? launch_settled(p, stream, in, out, run)
                                          : launch_now(p, stream, in, out, run);
}
