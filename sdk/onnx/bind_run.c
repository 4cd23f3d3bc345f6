/* SPDX-License-Identifier: Apache-2.0 */
/* bind_run.c: runs a model whose caches are bound: brings the past to the buffers, runs the plan,
 * and returns the new caches as views of the buffers. */
#include "bind.h"
#include "row.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Whether two tensors have the same extents apart from one axis, and the same dtype. */
static bool bind_same_rows(const struct bp_tensor_info *a, const struct bp_tensor_info *b,
                           uint32_t axis)
{
    bool same = a->rank == b->rank && a->dtype == b->dtype;

    for (uint32_t i = 0; same && i < a->rank; i++) same = i == axis || a->shape[i] == b->shape[i];
    return same;
}

/* Whether a tensor is the first places of a buffer. */
static bool bind_is_view(const struct bp_tensor_info *t, const struct bp_tensor_info *buffer,
                         uint32_t axis)
{
    bool same = t->buffer == buffer->buffer && t->offset == buffer->offset &&
                bind_same_rows(t, buffer, axis) && t->shape[axis] <= buffer->shape[axis];

    for (uint32_t i = 0; same && i < t->rank; i++)
        same = t->shape[i] <= 1 || t->stride[i] == buffer->stride[i];
    return same;
}

/* Returns the length of the past, which has to be one for all pairs. */
static enum bp_status bind_past(const struct onnx_request *r, int64_t *out_past)
{
    const struct onnx_bind *bind = r->model->bind;

    for (uint32_t i = 0; i < bind->n; i++) {
        const struct onnx_bind_pair *pair = &bind->pair[i];
        const char *name = r->model->input[pair->input].name;
        struct bp_tensor_info info;
        if (r->in[pair->input].kind != BP_MODEL_TENSOR)
            return onnx_error(BP_ERR_INVALID, "input %.80s is bound, expected a tensor", name);
        info = onnx_info(r->in[pair->input].at[0]);
        if (pair->axis >= info.rank)
            return onnx_error(BP_ERR_INVALID, "input %.80s has %u axes, it is bound along axis %u",
                              name, info.rank, pair->axis);
        if (i && info.shape[pair->axis] != *out_past)
            return onnx_error(BP_ERR_INVALID,
                              "input %.80s has %" PRId64 " places, input %.80s has "
                              "%" PRId64 ": bound inputs have one length",
                              name, info.shape[pair->axis],
                              r->model->input[bind->pair[0].input].name, *out_past);
        *out_past = info.shape[pair->axis];
    }
    return BP_OK;
}

/* Whether all buffers exist and have the other extents of the inputs. */
static bool bind_has_buffers(const struct onnx_request *r)
{
    const struct onnx_bind *bind = r->model->bind;

    for (uint32_t i = 0; i < bind->n; i++) {
        const struct onnx_bind_pair *pair = &bind->pair[i];
        struct bp_tensor_info in = onnx_info(r->in[pair->input].at[0]), buffer;
        if (!pair->buffer) return false;
        buffer = onnx_info(pair->buffer);
        if (!bind_same_rows(&in, &buffer, pair->axis)) return false;
    }
    return true;
}

/* Copies a tensor of the app to the first places of a buffer. A tensor in the buffer itself is
 * copied to other memory first. */
static enum bp_status bind_bring(struct bp_stream *stream, const struct onnx_bind_pair *pair,
                                 struct bp_tensor *t, int64_t past)
{
    struct bp_tensor_info info = onnx_info(t), buffer = onnx_info(pair->buffer);
    struct bp_tensor *part = NULL, *own = NULL;
    enum bp_status status = bp_tensor_slice(pair->buffer, pair->axis, 0, past, 1, &part);

    if (status == BP_OK && info.buffer == buffer.buffer) {
        status = bp_tensor_create(info.device, info.dtype, info.rank, info.shape, &own);
        if (status == BP_OK) status = bp_tensor_copy(stream, own, t);
        t = own;
    }
    if (status == BP_OK) status = bp_tensor_copy(stream, part, t);
    bp_tensor_destroy(part);
    bp_tensor_destroy(own);
    return status;
}

/* Replaces tensors (of each pair, or NULL) that lie in a buffer of another pair by copies in own,
 * so that bringing one tensor does not change the next. */
static enum bp_status bind_apart(struct bp_stream *stream, const struct onnx_bind *bind,
                                 struct bp_tensor **t, struct bp_tensor **own)
{
    for (uint32_t i = 0; i < bind->n; i++) {
        struct bp_tensor_info info;
        bool lies = false;
        if (!t[i]) continue;
        info = onnx_info(t[i]);
        for (uint32_t p = 0; p < bind->n; p++)
            lies = lies || info.buffer == onnx_info(bind->pair[p].buffer).buffer;
        if (!lies) continue;
        TRY(bp_tensor_create(info.device, info.dtype, info.rank, info.shape, &own[i]));
        TRY(bp_tensor_copy(stream, own[i], t[i]));
        t[i] = own[i];
    }
    return BP_OK;
}

/* Copies the tensors of all pairs (NULL: none) to the first places of the buffers. */
static enum bp_status bind_bring_all(struct bp_stream *stream, const struct onnx_bind *bind,
                                     struct bp_tensor **t, int64_t length)
{
    struct bp_tensor **own = calloc(bind->n + 1, sizeof *own);
    enum bp_status status = own ? bind_apart(stream, bind, t, own) : onnx_no_memory();

    for (uint32_t i = 0; i < bind->n && status == BP_OK; i++)
        if (t[i]) status = bind_bring(stream, &bind->pair[i], t[i], length);
    for (uint32_t i = 0; own && i < bind->n; i++) bp_tensor_destroy(own[i]);
    free(own);
    return status;
}

/* Brings the past of all pairs to the buffers. */
static enum bp_status bind_import(const struct onnx_request *r, int64_t past)
{
    struct onnx_bind *bind = r->model->bind;
    struct bp_tensor **from;
    int64_t capacity = bind->capacity;
    enum bp_status status;

    while (capacity < past) capacity *= 2;
    if (!bind_has_buffers(r)) TRY(onnx_bind_resize(r->model, r->stream, r->in, capacity, 0));
    else if (capacity > bind->capacity) { /* the app's tensors are longer: none is the view */
        TRY(onnx_bind_resize(r->model, r->stream, r->in, capacity, 0));
        bind->grown++;
    }
    from = calloc(bind->n + 1, sizeof *from);
    if (!from) return onnx_no_memory();
    for (uint32_t i = 0; i < bind->n && past; i++) {
        const struct onnx_bind_pair *pair = &bind->pair[i];
        struct bp_tensor_info info = onnx_info(r->in[pair->input].at[0]);
        struct bp_tensor_info buffer = onnx_info(pair->buffer);
        if (bind_is_view(&info, &buffer, pair->axis)) continue;
        from[i] = r->in[pair->input].at[0];
        bind->copies++;
    }
    status = bind_bring_all(r->stream, bind, from, past);
    free(from);
    return status;
}

/* Finds the plan, and makes room for the places that the run adds. */
static enum bp_status bind_room(const struct onnx_request *r, const struct onnx_use *use,
                                int64_t past, struct onnx_bind_plan **out_plan)
{
    struct onnx_bind *bind = r->model->bind;
    int64_t capacity = bind->capacity;

    TRY(onnx_bind_plan(r, use, past, out_plan));
    while (capacity < past + (*out_plan)->added) capacity *= 2;
    if (capacity == bind->capacity) return BP_OK;
    TRY(onnx_bind_resize(r->model, r->stream, r->in, capacity, past));
    bind->grown++;
    return onnx_bind_plan(r, use, past, out_plan);
}

/* Copies an input whose extent grows to the tensor of the plan's graph. */
static enum bp_status bind_pad(struct bp_stream *stream, struct bp_tensor *room, uint32_t axis,
                               struct bp_tensor *t)
{
    struct bp_tensor *part = NULL;
    enum bp_status status = bp_tensor_slice(room, axis, 0, onnx_info(t).shape[axis], 1, &part);

    if (status == BP_OK) status = bp_tensor_copy(stream, part, t);
    bp_tensor_destroy(part);
    return status;
}

/* Runs the plan's graph, whose inputs are the length of the past and those that are not bound. */
static enum bp_status bind_run_graph(const struct onnx_request *r, struct onnx_bind_plan *plan,
                                     struct onnx_use *use, struct onnx_last *last, int64_t past)
{
    struct onnx_bind *bind = r->model->bind;
    struct bp_tensor **in = calloc(r->n_in + 2, sizeof *in);
    enum bp_status status;
    size_t n = 1;

    if (!in) return onnx_no_memory();
    in[0] = bind->position;
    status = bp_tensor_write(r->stream, bind->position, &past, sizeof past);
    for (uint32_t i = 0; i < r->n_in && status == BP_OK; i++) {
        if (onnx_bind_input(bind, i)) continue;
        in[n] = r->in[i].at[0];
        if (plan->room[i]) {
            status = bind_pad(r->stream, plan->room[i], plan->axis[i], in[n]);
            in[n] = plan->room[i];
        }
        n++;
    }
    if (status == BP_OK) status = onnx_run_graph(r, plan->plan, use, last, in, n);
    onnx_run_note(r->model, plan->plan, status, last);
    free(in);
    return status;
}

/* Copies the caches that a run has made to the buffers. Their length is *out_length. */
static enum bp_status bind_store(const struct onnx_request *r, int64_t *out_length)
{
    struct bp_model *model = r->model;
    int64_t length = -1, capacity = model->bind->capacity;
    struct bp_tensor **from;
    enum bp_status status;

    for (uint32_t i = 0; i < model->bind->n; i++) {
        const struct onnx_bind_pair *pair = &model->bind->pair[i];
        const struct bp_model_value *made = &r->made[pair->output];
        struct bp_tensor_info info, buffer = onnx_info(pair->buffer);
        const char *name = model->output[pair->output].name;
        if (made->kind != BP_MODEL_TENSOR)
            return onnx_error(BP_ERR_INVALID, "output %.80s is bound, and is no tensor", name);
        info = onnx_info(made->at[0]);
        if (!bind_same_rows(&info, &buffer, pair->axis) || (i && info.shape[pair->axis] != length))
            return onnx_error(BP_ERR_INVALID,
                              "output %.80s is bound, and has other extents than "
                              "its input with new places along axis %u",
                              name, pair->axis);
        length = info.shape[pair->axis];
    }
    while (capacity < length) capacity *= 2;
    if (capacity > model->bind->capacity) {
        TRY(onnx_bind_resize(model, r->stream, r->in, capacity, 0));
        model->bind->grown++;
    }
    from = calloc(model->bind->n + 1, sizeof *from);
    if (!from) return onnx_no_memory();
    for (uint32_t i = 0; i < model->bind->n; i++)
        from[i] = r->made[model->bind->pair[i].output].at[0];
    status = bind_bring_all(r->stream, model->bind, from, length);
    free(from);
    for (uint32_t i = 0; i < model->bind->n && status == BP_OK; i++)
        bp_model_value_finish(&r->made[model->bind->pair[i].output]);
    *out_length = length;
    return status;
}

/* Runs the model without its bindings, and copies the new caches to the buffers. */
static enum bp_status bind_run_copies(const struct onnx_request *r, struct onnx_use *use,
                                      struct onnx_last *last, int64_t *out_length)
{
    struct bp_model *model = r->model;
    struct onnx_request all = *r;
    struct bp_model_value *in = calloc(r->n_in + 1, sizeof *in);
    struct bp_tensor **past = calloc(r->n_in + 1, sizeof *past);
    enum bp_status status = in && past ? BP_OK : onnx_no_memory();

    for (uint32_t i = 0; i < r->n_in && status == BP_OK; i++) {
        const struct onnx_bind_pair *pair = onnx_bind_input(model->bind, i);
        in[i] = r->in[i];
        if (!pair) continue; /* the app's tensor may lie where the past was brought */
        status = bp_tensor_slice(pair->buffer, pair->axis, 0,
                                 onnx_info(r->in[i].at[0]).shape[pair->axis], 1, &past[i]);
        in[i].at = &past[i];
    }
    all.in = in;
    all.given = NULL;
    all.want = NULL;
    if (status == BP_OK) status = onnx_run_unbound(&all, use, last);
    for (uint32_t i = 0; past && i < r->n_in; i++) bp_tensor_destroy(past[i]);
    free(past);
    free(in);
    TRY(status);
    TRY(bind_store(r, out_length));
    for (uint32_t i = 0; i < model->body.n_output; i++) {
        struct bp_tensor *given = onnx_given(r, i);
        if (onnx_bind_output(model->bind, i)) continue;
        if (given && r->made[i].kind != BP_MODEL_TENSOR)
            return onnx_error(BP_ERR_INVALID,
                              "output %.80s is no tensor, and a tensor is given "
                              "for it",
                              model->output[i].name);
        if (given) TRY(onnx_check_given(r, i, r->made[i].at[0]));
        if (given) TRY(bp_tensor_copy(r->stream, given, r->made[i].at[0]));
        if (given || (r->want && !r->want[i])) bp_model_value_finish(&r->made[i]);
    }
    return BP_OK;
}

/* Returns the new caches. */
static enum bp_status bind_export(const struct onnx_request *r, int64_t length)
{
    for (uint32_t i = 0; i < r->model->bind->n; i++) {
        const struct onnx_bind_pair *pair = &r->model->bind->pair[i];
        struct bp_model_value *out = &r->made[pair->output];
        struct bp_tensor *view = NULL, *given = onnx_given(r, pair->output);
        enum bp_status status = BP_OK;
        if (r->want && !r->want[pair->output]) continue;
        TRY(bp_tensor_slice(pair->buffer, pair->axis, 0, length, 1, &view));
        if (given) status = onnx_check_given(r, pair->output, view);
        if (given && status == BP_OK) status = bp_tensor_copy(r->stream, given, view);
        if (given) bp_tensor_destroy(view);
        TRY(status);
        if (given) continue;
        out->at = calloc(2, sizeof *out->at);
        if (!out->at) bp_tensor_destroy(view);
        if (!out->at) return onnx_no_memory();
        out->at[0] = view;
        out->n = 1;
        out->kind = BP_MODEL_TENSOR;
    }
    return BP_OK;
}

/* Runs the request without the outputs that are bound, then adds these. */
static enum bp_status bind_run_locked(struct onnx_request *r, struct onnx_use *use,
                                      struct onnx_last *last)
{
    struct onnx_bind *bind = r->model->bind;
    uint32_t n_out = r->model->body.n_output;
    struct onnx_request rest = *r;
    struct onnx_bind_plan *plan = NULL;
    uint8_t *want;
    int64_t past = 0, length;
    bool in_place;
    enum bp_status status;

    TRY(bind_past(r, &past));
    TRY(bind_import(r, past));
    TRY(bind_room(r, use, past, &plan));
    want = malloc(n_out + 1);
    if (!want) return onnx_no_memory();
    for (uint32_t i = 0; i < n_out; i++)
        want[i] = (!r->want || r->want[i]) && !onnx_bind_output(bind, i);
    rest.want = want;
    rest.is_fixed = true; /* the plan owns values that no input affects */
    in_place = plan->plan->graph != NULL;
    length = past + plan->added;
    status = in_place ? bind_run_graph(&rest, plan, use, last, past)
                      : bind_run_copies(&rest, use, last, &length);
    free(want);
    TRY(status);
    bind->runs++;
    bind->in_place += in_place;
    bind->length = length;
    return bind_export(r, length);
}

enum bp_status onnx_bind_run(struct onnx_request *r, struct onnx_use *use, struct onnx_last *last)
{
    enum bp_status status;

    pthread_mutex_lock(&r->model->bind->lock);
    status = bind_run_locked(r, use, last);
    pthread_mutex_unlock(&r->model->bind->lock);
    return status;
}
