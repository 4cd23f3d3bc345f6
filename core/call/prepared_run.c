/* SPDX-License-Identifier: Apache-2.0 */
/* prepared_run.c: runs prepared calls, after checking the tensors against the prepared types. */
#include "../base/generator.h"
#include "../exec/capture.h"

#include <stdlib.h>

static enum bp_status wrong_type(const struct bp_prepared *p, const char *what, size_t i,
                                 const struct bp_tensor *t, const struct bp_view *expected)
{
    char got[BP_TYPE_TEXT], want[BP_TYPE_TEXT];

    if (t->view.space != expected->space)
        return bp_error(BP_ERR_INVALID, "%s: %s %zu is in memory space %u, prepared for %u",
                        p->row->info.name, what, i, t->view.space, expected->space);
    return bp_error(
        BP_ERR_INVALID, "%s: %s %zu is %s%s%s, prepared for %s%s%s", p->row->info.name, what, i,
        bp_type_text(t->view.dtype, t->view.rank, t->shape, got, sizeof got),
        t->view.flags & BP_VIEW_STRIDED ? " strided" : "",
        t->view.flags & BP_VIEW_CONSTANT ? " frozen" : "",
        bp_type_text(expected->dtype, expected->rank, expected->shape, want, sizeof want),
        expected->flags & BP_VIEW_STRIDED ? " strided" : "",
        expected->flags & BP_VIEW_CONSTANT ? " frozen" : "");
}

/* Checks tensors against the prepared types. */
static enum bp_status check_types(const struct bp_prepared *p, const char *what,
                                  const struct bp_typed_view *type, struct bp_tensor *const *tensor,
                                  size_t n)
{
    const char *op = p->row->info.name;

    for (size_t i = 0; i < n; i++) {
        const struct bp_view *expected = &type[i].view;
        struct bp_tensor *t = tensor[i];
        if (!t && expected->rank == BP_ABSENT) continue;
        if (t && !bp_tensor_is(t) && bp_handle_was_stale()) return bp_not_a_for(op, "tensor");
        if (!bp_tensor_is(t) || expected->rank == BP_ABSENT)
            return bp_error(BP_ERR_INVALID, "%s: %s %zu: expected %s", op, what, i,
                            expected->rank == BP_ABSENT ? "NULL, as it was prepared"
                                                        : "a tensor");
        if (t->device != p->device)
            return bp_error(BP_ERR_INVALID, "%s: %s %zu is on %s, prepared for %s", op, what, i,
                            t->device ? t->device->name : "no device", p->device->name);
        if (!bp_same_type(&t->view, expected)) return wrong_type(p, what, i, t, expected);
    }
    return BP_OK;
}

static bool same_place(const struct bp_tensor *a, const struct bp_tensor *b)
{
    return a->buffer == b->buffer && a->offset == b->offset && bp_same_type(&a->view, &b->view);
}

/* Whether an output may share memory with an input. An output may be exactly the input that the
 * operator allows it to share, or one of several such inputs, if the only kernel supports this or
 * the steps were prepared for it; otherwise outputs have separate memory. */
static bool may_share(const struct bp_prepared *p, const struct bp_tensor *in,
                      const struct bp_tensor *out, uint32_t i, uint32_t o)
{
    const struct bp_port *port = bp_prepared_port(p, o);

    if (port->share < 0 || i < p->in_at[port->share] || i >= p->in_at[port->share + 1] ||
        !same_place(in, out))
        return false;
    return port->kind == BP_PORT_UPDATE ||
           (p->simple && p->step[0].kernel->flags & BP_KERNEL_IN_PLACE) ||
           (!p->simple && p->in_place);
}

enum bp_status bp_prepared_check_output(const struct bp_prepared *p, struct bp_tensor *const *in,
                                        struct bp_tensor *const *out, uint32_t o)
{
    const struct bp_opinfo *op = &p->row->info;
    const struct bp_port *port = bp_prepared_port(p, o);

    if (port->kind == BP_PORT_UPDATE &&
        (!in[p->in_at[port->share]] || !same_place(in[p->in_at[port->share]], out[o])))
        return bp_error(BP_ERR_INVALID, "%s: output %s must be input %s itself, which it updates",
                        op->name, port->name, op->in[port->share].name);
    TRY(bp_tensor_check_write(op->name, port->name, out[o]));
    if (out[o]->view.flags & BP_VIEW_STRIDED && bp_view_overlaps_itself(&out[o]->view))
        return bp_error(BP_ERR_INVALID,
                        "%s: output %s may overlap itself: its strides repeat or interleave",
                        op->name, port->name);
    for (uint32_t i = 0; i < p->n_in; i++) {
        if (!in[i] || !bp_tensors_overlap(in[i], out[o]) || may_share(p, in[i], out[o], i, o))
            continue;
        return bp_error(BP_ERR_INVALID, "%s: output %s overlaps input %u in memory%s", op->name,
                        port->name, i,
                        port->share >= 0
                            ? "; it may only be the same view as the input that it may share"
                            : "");
    }
    for (uint32_t i = 0; i < o; i++)
        if (out[i] && bp_tensors_overlap(out[i], out[o]))
            return bp_error(BP_ERR_INVALID, "%s: outputs %s and %s overlap in memory", op->name,
                            bp_prepared_port(p, i)->name, port->name);
    return BP_OK;
}

static enum bp_status check_constants(const struct bp_prepared *p, struct bp_tensor *const *in)
{
    for (uint32_t i = 0; p->bound && i < p->n_in; i++)
        if (in[i] && !bp_constant_same(p->constant[i], bp_tensor_constant(in[i])))
            return bp_error(BP_ERR_INVALID,
                            "%s: input %u is another constant than the one it was prepared with",
                            p->row->info.name, i);
    return BP_OK;
}

static enum bp_status prepared_check_run(struct bp_prepared *p, struct bp_stream *stream,
                                         struct bp_tensor *const *in, size_t n_in,
                                         struct bp_tensor *const *out, size_t n_out)
{
    if (!bp_prepared_is(p)) return bp_not_a_for("bp_prepared_run", "prepared call");
    if (!bp_stream_is(stream)) return bp_not_a_for("bp_prepared_run", "stream");
    if (stream->device != p->device)
        return bp_error(BP_ERR_INVALID, "%s: prepared for %s, the stream is of %s",
                        p->row->info.name, p->device->name, stream->device->name);
    if (n_in != p->n_in || n_out != p->n_out)
        return bp_error(BP_ERR_INVALID, "%s: %zu inputs and %zu outputs given, %u and %u prepared",
                        p->row->info.name, n_in, n_out, p->n_in, p->n_out);
    if ((n_in && !in) || (n_out && !out))
        return bp_error(BP_ERR_INVALID, "%s: %s is NULL", p->row->info.name,
                        n_in && !in ? "in" : "out");
    return bp_stream_refuses_calls(stream) ? bp_stream_check_calls(stream) : BP_OK;
}

/* Returns an error if a step without a kernel waits, and may not. A step on another device waits
 * for its copies. A copy on a stream with a queue is one task, however many pieces it has. */
static enum bp_status check_step_wait(const struct bp_prepared *p, struct bp_stream *stream,
                                      uint32_t i)
{
    const struct bp_transform *transform = p->step[i].transform;
    struct bp_timeline *timeline = stream->timeline;

    if (transform && !(transform->waits && (transform->indices || !timeline->queue))) return BP_OK;
    TRY(bp_timeline_check_deadlock(timeline));
    if (p->device->core->deny_blocking &&
        (i || (timeline->queue && !bp_queue_is_idle(timeline->queue))))
        return bp_block_record(stream->device, BP_BLOCK_COPY);
    return BP_OK;
}

/* Checks everything that would refuse the call, or a part of it, before any of it runs. */
static enum bp_status check_room(const struct bp_prepared *p, struct bp_stream *stream)
{
    struct bp_timeline *timeline = stream->timeline;

    if (timeline->is_inline) return BP_OK;
    for (uint32_t i = 0; i < p->n_step; i++)
        if (!p->step[i].kernel) TRY(check_step_wait(p, stream, i));
    if (p->row->bound) {
        TRY(bp_timeline_check_deadlock(timeline));
        TRY(bp_block_record(stream->device, BP_BLOCK_EXTENTS));
    }
    return timeline->queue ? bp_queue_check_room(timeline->queue, p->n_step) : BP_OK;
}

/* The data-dependent extents of a call's outputs, which its launches write. */
struct extents {
    struct bp_deferred pending;
    int64_t result[BP_PORT_MAX];
};

static void extents_free(struct bp_deferred *pending)
{
    free(pending);
}

/* Launches that have not ended will still write the extents, so they are freed later: after a wait
 * that failed, or if the call was cancelled between two steps. If there is no memory to record the
 * use, the extents leak. */
static void extents_release(struct bp_stream *stream, struct extents *e, enum bp_status status)
{
    struct bp_timeline *timeline = stream->timeline;

    e->pending.release = extents_free;
    if (status == BP_OK || (!bp_status_is_of_wait(status) && status != BP_ERR_CANCELLED)) free(e);
    else if (bp_users_add(&e->pending.users, timeline, atomic_load(&timeline->last)))
        bp_deferred_release(stream->device, &e->pending);
}

/* Runs a prepared call whose output shapes depend on data. The extents of the outputs are known
 * only when the work has ended, so the call waits for it. */
static enum bp_status prepared_run_dynamic(struct bp_prepared *p, struct bp_stream *stream,
                                           struct bp_tensor *const *in,
                                           struct bp_tensor *const *out, struct bp_run *run)
{
    struct extents *e = calloc(1, sizeof *e);
    enum bp_status status;

    if (!e) return bp_error(BP_ERR_MEMORY, "%s: no memory for a call", p->row->info.name);
    run->result = e->result;
    for (uint32_t i = 0; i < p->n_out; i++) e->result[i] = -1;
    status = bp_prepared_launch(p, stream, in, out, run);
    if (status == BP_OK) status = bp_stream_drain(stream);
    for (uint32_t i = 0; i < p->n_out && status == BP_OK; i++)
        if (out[i]) status = bp_tensor_narrow(out[i], p->row->info.bound_axis, e->result[i]);
    extents_release(stream, e, status);
    return status;
}

/* Draws the random numbers of a run. Each replay of a captured call draws others. */
static void prepared_draw(const struct bp_prepared *p, struct bp_stream *stream,
                          struct bp_tensor *const *out, struct bp_run *run)
{
    struct bp_capture *recording = stream->timeline->recording;
    uint64_t count = 0;

    for (uint32_t i = 0; i < p->n_out; i++)
        if (out[i] && (uint64_t)out[i]->view.count > count) count = (uint64_t)out[i]->view.count;
    if (recording) {
        run->offset = bp_capture_draw(recording, (count + 3) / 4);
        run->rng = bp_capture_rng(recording);
        return;
    }
    bp_generator_reserve(stream->generator ? stream->generator : p->device->core->generator,
                         (count + 3) / 4, &run->seed, &run->offset);
}

enum bp_status bp_prepared_execute(struct bp_prepared *p, struct bp_stream *stream,
                                   struct bp_tensor *const *in, struct bp_tensor *const *out,
                                   struct bp_run *run)
{
    if (stream->timeline->recording) TRY(bp_capture_add_call(stream->timeline->recording, p));
    TRY(check_room(p, stream));
    if (p->row->random) prepared_draw(p, stream, out, run);
    return p->row->bound ? prepared_run_dynamic(p, stream, in, out, run)
                         : bp_prepared_launch(p, stream, in, out, run);
}

/* Runs with the attributes of this run, if any: a copy in full length. */
static enum bp_status run_with(struct bp_prepared *p, struct bp_stream *stream,
                               struct bp_tensor *const *in, struct bp_tensor *const *out,
                               const void *attrs)
{
    struct bp_run run = {.attrs = p->attrs};
    void *current = NULL;
    enum bp_status status = BP_OK;

    if (attrs) {
        TRY(bp_attrs_copy(&p->row->info, attrs, &current));
        status = bp_attrs_check_run(&p->row->info, p->attrs, current);
        run.attrs = current;
    }
    if (status == BP_OK) status = bp_prepared_execute(p, stream, in, out, &run);
    free(current);
    return status;
}

/* Completes the outputs: an update output that the caller does not pass is the input that it
 * updates. */
static enum bp_status prepared_add_unasked(const struct bp_prepared *p, struct bp_tensor *const *in,
                                           struct bp_tensor *const *out, struct bp_tensor **all)
{
    for (uint32_t i = 0; i < p->n_out; i++) {
        all[i] = out[i];
        if (!(p->unasked >> i & 1)) continue;
        if (out[i])
            return bp_error(BP_ERR_INVALID, "%s: output %u: expected NULL, as it was prepared",
                            p->row->info.name, i);
        all[i] = in[p->in_at[bp_prepared_port(p, i)->share]];
    }
    return BP_OK;
}

/* Whether the contents of an input may be freed. */
static bool has_source(struct bp_tensor *const *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (in[i] && in[i]->view.flags & BP_VIEW_CONSTANT && in[i]->buffer->source) return true;
    return false;
}

/* Runs while the contents of the inputs are held in memory. */
static __attribute__((noinline)) enum bp_status
run_holding(struct bp_prepared *p, struct bp_stream *stream, struct bp_tensor *const *in,
            struct bp_tensor *const *out, const void *attrs)
{
    struct bp_holds holds = {.n = 0};
    enum bp_status status;

    TRY(bp_holds_add(&holds, in, p->n_in));
    status = run_with(p, stream, in, out, attrs);
    bp_holds_end(&holds);
    return status;
}

enum bp_status bp_prepared_run_slow(struct bp_prepared *p, struct bp_stream *stream,
                                    struct bp_tensor *const *in, size_t n_in,
                                    struct bp_tensor *const *out, size_t n_out, const void *attrs)
{
    struct bp_tensor *all[BP_PORT_MAX]; /* an operator with updates has no variadic output */

    TRY(prepared_check_run(p, stream, in, n_in, out, n_out));
    TRY(check_types(p, "input", p->type, in, n_in));
    if (p->unasked) {
        TRY(prepared_add_unasked(p, in, out, all));
        out = all;
    }
    TRY(check_types(p, "output", p->type + n_in, out, n_out));
    for (uint32_t i = 0; i < n_out; i++)
        if (out[i]) TRY(bp_prepared_check_output(p, in, out, i));
    TRY(check_constants(p, in));
    if (__builtin_expect(has_source(in, n_in), 0))
        return run_holding(p, stream, in, out, attrs);
    return run_with(p, stream, in, out, attrs);
}
