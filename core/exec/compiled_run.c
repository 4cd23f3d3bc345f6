/* SPDX-License-Identifier: Apache-2.0 */
/* compiled_run.c: runs a schedule with the app's tensors: checks that it fits them, creates the
 * results, and returns the outputs. */
#include "program.h"

#include "../compile/engine.h"

#include <stdlib.h>

/* ---- whether the schedule fits ---- */

/* The contents of an input that has a source may be freed: calls of nodes hold them. */
static bool input_fits(const struct bp_schedule *s, const struct bp_tensor *t)
{
    return t->device == s->device && !(t->view.flags & BP_VIEW_STRIDED) &&
           t->view.space == BP_SPACE_DEVICE &&
           !(t->view.flags & BP_VIEW_CONSTANT && t->buffer->source);
}

static bool may_write(const struct bp_tensor *t)
{
    return atomic_load_explicit(&t->buffer->access, memory_order_relaxed) == BP_ACCESS_WRITE;
}

/* Whether a tensor overlaps an input or a constant, apart from value `except`. */
static bool meets_read(const struct bp_schedule *s, struct bp_tensor *const *in, uint32_t except,
                       const struct bp_tensor *t)
{
    for (uint32_t i = 0; i < s->ir->n_input; i++)
        if (s->input[i] != except && in[i]->buffer == t->buffer && bp_tensors_overlap(in[i], t))
            return true;
    for (uint32_t i = 0; i < s->n_constant; i++) {
        const struct bp_tensor *constant = s->ir->value[s->value[s->constant[i]]->index].constant;
        if (s->constant[i] != except && constant->buffer == t->buffer &&
            bp_tensors_overlap(constant, t))
            return true;
    }
    return false;
}

/* Whether a tensor can be output o. A run node by node reports what is wrong with it. */
static bool output_fits(const struct bp_schedule *s, struct bp_tensor *const *in, uint32_t o,
                        const struct bp_tensor *t)
{
    const struct bp_view *type = &s->value[s->output[o]]->type.view;

    return t->device == s->device && t->view.dtype == type->dtype && t->view.rank == type->rank &&
           bp_same_extents(type->rank, t->shape, type->shape) && may_write(t) &&
           !(t->view.flags & BP_VIEW_STRIDED && bp_view_overlaps_itself(&t->view)) &&
           !meets_read(s, in, BP_NO_VALUE, t);
}

static struct bp_tensor *updated_tensor(const struct bp_schedule *s, struct bp_tensor *const *in,
                                        uint32_t i)
{
    const struct bp_scheduled_value *root = s->value[s->update[i]];

    return root->source == BP_SOURCE_INPUT ? in[root->index]
                                           : s->ir->value[root->index].constant;
}

/* A run node by node checks each update itself, and reports what is wrong. */
static bool updates_fit(const struct bp_schedule *s, struct bp_tensor *const *in)
{
    for (uint32_t i = 0; i < s->n_update; i++) {
        struct bp_tensor *t = updated_tensor(s, in, i);
        if (!may_write(t) || meets_read(s, in, s->update[i], t)) return false;
    }
    return true;
}

bool bp_schedule_fits(const struct bp_schedule *s, const struct bp_stream *stream,
                      struct bp_tensor *const *in, struct bp_tensor *const *out)
{
    if (stream->watcher || bp_stream_refuses_calls(stream)) return false;
    for (uint32_t i = 0; i < s->ir->n_input; i++)
        if (!input_fits(s, in[i])) return false;
    for (uint32_t o = 0; o < s->ir->n_output; o++)
        if (out[o] && !output_fits(s, in, o, out[o])) return false;
    return updates_fit(s, in);
}

/* ---- results ---- */

/* Returns the app's tensor for a result, if there is one of its type. The tensor given for a view
 * of another output is not used: that output would lie in it too. */
static struct bp_tensor *given_result(const struct bp_schedule *s, uint32_t root,
                                      struct bp_tensor *const *out)
{
    for (uint32_t o = 0; o < s->ir->n_output; o++) {
        const struct bp_scheduled_value *value = s->value[s->output[o]];
        bool is_view = s->ir->value[s->ir->output[o]].root != s->ir->output[o];
        if (out[o] && !is_view && value->root == root && !value->offset &&
            bp_same_type(&out[o]->view, &value->type.view) && value->bytes == s->value[root]->bytes)
            return out[o];
    }
    return NULL;
}

static void drop_results(const struct bp_schedule *s, struct bp_schedule_context *c)
{
    for (uint32_t i = 0; i < s->n_result; i++) {
        bp_tensor_destroy(c->result[i]);
        c->result[i] = NULL;
    }
}

static enum bp_status make_results(const struct bp_schedule *s, struct bp_schedule_context *c,
                                   struct bp_timeline *owner, struct bp_tensor *const *out)
{
    for (uint32_t i = 0; i < s->n_result; i++) {
        struct bp_tensor *given = given_result(s, s->result[i], out);
        if (given) c->result[i] = bp_tensor_retain(given);
        else
            TRY(bp_tensor_create_like(s->device, owner, &s->value[s->result[i]]->type,
                                      &c->result[i]));
    }
    return BP_OK;
}

/* Records that the stream's work up to now uses the tensors of the app. */
static void note_use(struct bp_schedule *s, const struct bp_schedule_context *c,
                     struct bp_timeline *timeline, struct bp_tensor *const *in)
{
    uint64_t number = atomic_load(&timeline->last);

    if (timeline->is_inline) return;
    for (uint32_t i = 0; i < s->ir->n_input; i++)
        bp_buffer_record_use(in[i]->buffer, timeline, number);
    for (uint32_t i = 0; i < s->n_result; i++)
        bp_buffer_record_use(c->result[i]->buffer, timeline, number);
    bp_schedule_add_user(s, timeline, number);
}

static void record_writes(const struct bp_schedule *s, const struct bp_schedule_context *c,
                          struct bp_tensor *const *in)
{
    for (uint32_t i = 0; i < s->n_result; i++) bp_tensor_record_write(c->result[i]);
    for (uint32_t i = 0; i < s->n_update; i++) bp_tensor_record_write(updated_tensor(s, in, i));
}

/* ---- outputs ---- */

/* Returns a new reference to the tensor of a value: that of its root, or a view of it. */
static enum bp_status value_tensor(const struct bp_schedule *s,
                                   const struct bp_schedule_context *c,
                                   struct bp_tensor *const *in, uint32_t v,
                                   struct bp_tensor **out_tensor)
{
    const struct bp_scheduled_value *value = s->value[v], *root = s->value[value->root];
    struct bp_extents extents = {.rank = value->type.view.rank};
    struct bp_tensor *base;
    enum bp_status status;

    if (root->source == BP_SOURCE_INPUT) base = in[root->index];
    else if (root->source == BP_SOURCE_CONSTANT) base = s->ir->value[root->index].constant;
    else base = c->result[root->index];
    if (!value->offset && bp_same_type(&value->type.view, &base->view)) {
        *out_tensor = bp_tensor_retain(base);
        return BP_OK;
    }
    for (uint32_t i = 0; i < extents.rank; i++) {
        extents.shape[i] = value->type.shape[i];
        extents.stride[i] = value->type.stride[i];
    }
    bp_buffer_retain(base->buffer);
    status = bp_tensor_create_inside(base->buffer, value->type.view.dtype, &extents,
                                     base->offset + value->offset, out_tensor);
    if (status) bp_buffer_release(base->buffer);
    return status;
}

/* Sets own[o] to the tensor of output o, or copies it to the app's tensor. */
static enum bp_status give_output(const struct bp_schedule *s, const struct bp_schedule_context *c,
                                  struct bp_stream *stream, struct bp_tensor *const *in,
                                  uint32_t o, struct bp_tensor **own)
{
    struct bp_tensor *t;
    enum bp_status status;

    TRY(value_tensor(s, c, in, s->output[o], &t));
    if (!own[o]) {
        own[o] = t;
        return BP_OK;
    }
    status = t == own[o] ? BP_OK : bp_program_move(stream, t, &own[o]);
    bp_tensor_destroy(t);
    return status;
}

static enum bp_status give_outputs(const struct bp_schedule *s, const struct bp_schedule_context *c,
                                   struct bp_stream *stream, struct bp_tensor *const *in,
                                   struct bp_tensor **out)
{
    struct bp_tensor **own = malloc((s->ir->n_output + 1) * sizeof *own);
    enum bp_status status = BP_OK;

    if (!own) return bp_error(BP_ERR_MEMORY, "no host memory for the outputs of a program");
    for (uint32_t o = 0; o < s->ir->n_output; o++) own[o] = out[o];
    for (uint32_t o = 0; o < s->ir->n_output && status == BP_OK; o++)
        status = give_output(s, c, stream, in, o, own);
    for (uint32_t o = 0; o < s->ir->n_output; o++) {
        if (status == BP_OK) out[o] = own[o];
        else if (!out[o]) bp_tensor_destroy(own[o]);
    }
    free(own);
    return status;
}

enum bp_status bp_schedule_run(struct bp_schedule *s, const struct bp_schedule_watch *watch,
                               struct bp_stream *stream, struct bp_tensor *const *in,
                               struct bp_tensor **out, bool *out_began)
{
    struct bp_schedule_context *c;
    struct bp_state_run run;
    enum bp_status status;

    *out_began = false;
    if (__builtin_expect(s->n_kept != 0, 0) || bp_device_has_writebacks(s->device))
        TRY(bp_state_enter(s, in, out));
    TRY(bp_context_take(s, stream->timeline, &c));
    status = make_results(s, c, stream->timeline, out);
    if (status == BP_OK) {
        *out_began = true;
        if (s->n_kept) bp_state_begin(s, watch->watcher && stream->timeline->queue, &run);
        bp_context_bind(s, c, stream->timeline, in);
        status = bp_schedule_launch(s, c, stream, watch);
        note_use(s, c, stream->timeline, in);
        record_writes(s, c, in);
        if (s->n_kept) bp_state_end(&run, stream->timeline);
    }
    bp_context_leave_arena(c, stream->timeline);
    if (status == BP_OK) status = bp_stream_drain_if_sync(stream);
    if (status == BP_OK) status = give_outputs(s, c, stream, in, out);
    drop_results(s, c);
    bp_context_put(s, c);
    return status;
}
