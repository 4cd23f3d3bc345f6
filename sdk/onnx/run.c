/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs a model: checks the inputs, finds or makes a plan, runs it, and returns the
 * outputs. */
#include "run.h"
#include "row.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum bp_status onnx_run_init(struct onnx_run *run, struct bp_model *model,
                             struct bp_stream *stream, struct onnx_use *use)
{
    *run = (struct onnx_run){.model = model, .stream = stream, .use = use};
    run->slot = calloc(model->n_slot + 1, sizeof *run->slot);
    if (!run->slot) return onnx_no_memory();
    for (uint32_t i = 0; i < model->n_slot; i++)
        run->slot[i] = onnx_value_retain(model->constant[i]);
    return BP_OK;
}

void onnx_run_finish(struct onnx_run *run)
{
    for (uint32_t i = 0; run->slot && i < run->model->n_slot; i++)
        onnx_value_release(run->slot[i]);
    free(run->slot);
    run->slot = NULL;
}

static enum bp_status run_check_tensor(const struct bp_model *model,
                                       const struct bp_model_port *port, struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};
    bool fits = true;

    TRY(bp_tensor_get_info(t, &info));
    if (info.device != model->device)
        return onnx_error(BP_ERR_INVALID, "input %.80s is on %s, the model is on %s", port->name,
                          info.device ? bp_device_name(info.device) : "no device",
                          bp_device_name(model->device));
    if (port->dtype != ONNX_NO_DTYPE && info.dtype != port->dtype)
        return onnx_error(BP_ERR_INVALID, "input %.80s is %s, expected %s", port->name,
                          bp_dtype_name(info.dtype), bp_dtype_name(port->dtype));
    if (port->rank == UINT32_MAX || model->options.any_shape) return BP_OK;
    if (port->rank != info.rank)
        return onnx_error(BP_ERR_INVALID, "input %.80s has %u axes, expected %u", port->name,
                          info.rank, port->rank);
    for (uint32_t i = 0; i < info.rank; i++) {
        fits = port->shape[i] < 0 || port->shape[i] == info.shape[i];
        if (!fits)
            return onnx_error(BP_ERR_INVALID, "input %.80s: axis %u has extent %lld, expected %lld",
                              port->name, i, (long long)info.shape[i], (long long)port->shape[i]);
    }
    return BP_OK;
}

enum bp_status onnx_check_value(const struct bp_model *model, const struct bp_model_port *port,
                                const struct bp_model_value *in)
{
    bool optional = port->kind == BP_MODEL_OPTIONAL;

    if (in->kind == BP_MODEL_NONE && optional) return BP_OK;
    if (in->kind != BP_MODEL_TENSOR && in->kind != BP_MODEL_SEQUENCE)
        return onnx_error(BP_ERR_INVALID, "input %.80s has no value", port->name);
    if (in->kind != port->kind && !optional)
        return onnx_error(BP_ERR_INVALID, "input %.80s is a %s, expected a %s", port->name,
                          in->kind == BP_MODEL_TENSOR ? "tensor" : "sequence",
                          port->kind == BP_MODEL_TENSOR ? "tensor" : "sequence");
    if (in->n && !in->at) return onnx_error(BP_ERR_INVALID, "input %.80s: at is NULL", port->name);
    if (in->kind == BP_MODEL_TENSOR && in->n != 1)
        return onnx_error(BP_ERR_INVALID, "input %.80s is a tensor, with n %zu", port->name, in->n);
    for (size_t i = 0; i < in->n; i++) TRY(run_check_tensor(model, port, in->at[i]));
    return BP_OK;
}

static enum bp_status check_run(struct bp_model *model, struct bp_stream *stream, const void *in,
                                size_t n_in, const void *out, size_t n_out)
{
    TRY(onnx_check_model("bp_model_run", model));
    if (bp_stream_device(stream) != model->device)
        return onnx_error(BP_ERR_INVALID, "bp_model_run: the stream is not of %s, where the model "
                          "is", bp_device_name(model->device));
    if (n_in != model->body.n_input || n_out != model->body.n_output)
        return onnx_error(BP_ERR_INVALID, "bp_model_run: %zu inputs and %zu outputs given, the "
                          "model has %u and %u", n_in, n_out, model->body.n_input,
                          model->body.n_output);
    if ((n_in && !in) || (n_out && !out))
        return onnx_error(BP_ERR_INVALID, "bp_model_run: %s is NULL", n_in && !in ? "in" : "out");
    return BP_OK;
}

/* Creates another handle of the same tensor. */
static enum bp_status same_tensor(struct bp_tensor *t, struct bp_tensor **out)
{
    struct bp_tensor_info info = {.size = sizeof info};

    TRY(bp_tensor_get_info(t, &info));
    return bp_tensor_view(t, 0, info.rank, info.shape, info.stride, out);
}

static enum bp_status import_tensor(struct onnx_run *run, struct bp_tensor *t,
                                    struct onnx_value **out)
{
    struct bp_tensor *own;

    TRY(same_tensor(t, &own));
    return onnx_value_tensor(run, own, false, out);
}

static enum bp_status import_value(struct onnx_run *run, const struct bp_model_port *port,
                                   const struct bp_model_value *in, struct onnx_value **out)
{
    struct onnx_value *v, *optional;
    enum bp_status status = BP_OK;

    if (in->kind == BP_MODEL_TENSOR) TRY(import_tensor(run, in->at[0], &v));
    else if (in->kind == BP_MODEL_NONE) return onnx_value_list(BP_MODEL_OPTIONAL, 0, out);
    else {
        TRY(onnx_value_list(BP_MODEL_SEQUENCE, in->n, &v));
        for (size_t i = 0; i < in->n && status == BP_OK; i++)
            status = import_tensor(run, in->at[i], &v->item[i]);
    }
    *out = v;
    if (port->kind != BP_MODEL_OPTIONAL || status) return status;
    TRY(onnx_value_list(BP_MODEL_OPTIONAL, 1, &optional));
    optional->item[0] = v;
    *out = optional;
    return BP_OK;
}

/* Returns t, or a copy of it in row-major order if t has another layout. Takes over the caller's
 * reference to t. */
static enum bp_status in_order(struct bp_stream *stream, struct bp_tensor *t,
                               struct bp_tensor **out)
{
    struct bp_tensor_info info = onnx_info(t);
    struct bp_tensor *dense = NULL;
    enum bp_status status;

    *out = t;
    if (info.contiguous) return BP_OK;
    status = bp_tensor_create(info.device, info.dtype, info.rank, info.shape, &dense);
    if (status == BP_OK) status = bp_tensor_copy(stream, dense, t);
    bp_tensor_destroy(t);
    if (status) bp_tensor_destroy(dense);
    *out = status ? NULL : dense;
    return status;
}

/* Returns a handle of an output tensor. made: the graph's outputs, which replace symbolic tensors
 * in order; each use advances the pointer. */
static enum bp_status export_tensor(const struct onnx_value *v, struct bp_stream *stream,
                                    struct bp_tensor ***made, struct bp_tensor **out)
{
    struct bp_tensor *t;

    if (!v || !v->tensor) return onnx_error(BP_ERR_UNSUPPORTED, "an output is not of tensors");
    if (!v->symbolic) TRY(same_tensor(v->tensor, &t));
    else {
        t = **made;
        *(*made)++ = NULL;
    }
    return in_order(stream, t, out);
}

static enum bp_status export_value(const struct onnx_value *v, struct bp_stream *stream,
                                   struct bp_tensor ***made, struct bp_model_value *out)
{
    if (v && v->kind == BP_MODEL_OPTIONAL) {
        if (!v->n_item) return BP_OK;
        v = v->item[0];
    }
    if (!v) return onnx_error(BP_ERR_INVALID, "an output has no value");
    out->at = calloc(v->n_item + 1, sizeof *out->at);
    if (!out->at) return onnx_no_memory();
    out->kind = v->kind;
    if (v->kind == BP_MODEL_TENSOR) {
        TRY(export_tensor(v, stream, made, &out->at[0]));
        out->n = 1;
    }
    for (size_t i = 0; i < v->n_item; i++, out->n++)
        TRY(export_tensor(v->item[i], stream, made, &out->at[i]));
    return BP_OK;
}

static enum bp_status model_run_eager(struct bp_model *model, struct onnx_use *use,
                                      struct bp_stream *stream, const struct bp_model_value *in,
                                      struct bp_model_value *out, struct onnx_last *last)
{
    const struct onnx_body *body = &model->body;
    struct onnx_run run;
    enum bp_status status = onnx_run_init(&run, model, stream, use);

    for (uint32_t i = 0; i < body->n_input && status == BP_OK; i++)
        status = import_value(&run, &model->input[i], &in[i], &run.slot[body->input[i]]);
    if (status == BP_OK) status = onnx_walk(&run, body);
    for (uint32_t i = 0; i < body->n_output && status == BP_OK; i++)
        status = export_value(run.slot[body->output[i]], stream, NULL, &out[i]);
    last->host_nodes = run.n_host;
    if (run.n_host) last->host_node = run.host->name;
    snprintf(last->reason, sizeof last->reason,
             "it depends on data: its nodes are gone through for each run");
    onnx_run_finish(&run);
    return status;
}

static enum bp_status model_run_planned(struct bp_model *model, struct onnx_plan *plan,
                                        struct bp_stream *stream, const struct bp_model_value *in,
                                        struct bp_model_value *out, struct onnx_last *last)
{
    struct bp_graph_info info = {.size = sizeof info};
    struct bp_tensor **given, **made, **next;
    uint32_t n_in = model->body.n_input;
    enum bp_status status = bp_graph_get_info(plan->graph, &info);

    if (status) return status;
    given = calloc(n_in + info.outputs + 2, sizeof *given);
    if (!given) return onnx_no_memory();
    next = made = given + n_in + 1;
    for (uint32_t i = 0; i < n_in; i++) given[i] = in[i].at[0];
    status = onnx_plan_run(model, plan, stream, given, n_in, made, info.outputs, last);
    for (uint32_t i = 0; i < model->body.n_output && status == BP_OK; i++)
        status = export_value(plan->output[i], stream, &next, &out[i]);
    for (uint32_t i = 0; i < info.outputs; i++) bp_tensor_destroy(made[i]);
    free(given);
    return status;
}

void bp_model_value_finish(struct bp_model_value *value)
{
    if (!value) return;
    for (size_t i = 0; i < value->n; i++) bp_tensor_destroy(value->at[i]);
    free(value->at);
    *value = (struct bp_model_value){0};
}

/* Stores the facts of a run that has ended. */
static void run_note(struct bp_model *model, struct onnx_plan *plan, enum bp_status status,
                     struct onnx_last *last)
{
    if (status) snprintf(last->reason, sizeof last->reason, "it failed");
    pthread_mutex_lock(&model->lock);
    if (plan) {
        plan->runs += status == BP_OK;
        last->runs = plan->runs;
        last->replays = plan->replays;
    }
    model->last = *last;
    pthread_mutex_unlock(&model->lock);
}

static enum bp_status run_by_plan(struct bp_model *model, struct onnx_use *use,
                                  struct onnx_plan *plan, struct bp_stream *stream,
                                  const struct bp_model_value *in, struct bp_model_value *made,
                                  struct onnx_last *last)
{
    if (plan->graph) return model_run_planned(model, plan, stream, in, made, last);
    return model_run_eager(model, use, stream, in, made, last);
}

/* Runs the model after its arguments have been checked. A call that fails leaves out untouched. */
static enum bp_status model_run_checked(struct bp_model *model, struct bp_stream *stream,
                                        const struct bp_model_value *in, size_t n_in,
                                        struct bp_model_value *out, size_t n_out)
{
    struct bp_model_value *made = calloc(n_out + 1, sizeof *made);
    struct onnx_use use = onnx_use_begin(model);
    struct onnx_last last = {.host_node = ""};
    struct onnx_plan *plan = NULL;
    enum bp_status status;

    if (!made) return onnx_no_memory();
    status = onnx_plan_find(model, &use, in, n_in, &plan);
    if (status == BP_OK) status = run_by_plan(model, &use, plan, stream, in, made, &last);
    for (size_t i = 0; i < n_out; i++) {
        if (status == BP_OK) out[i] = made[i];
        else bp_model_value_finish(&made[i]);
    }
    free(made);
    run_note(model, plan, status, &last);
    onnx_plan_release(model, plan);
    return status;
}

enum bp_status bp_model_run_values(struct bp_model *model, struct bp_stream *stream,
                                   const struct bp_model_value *in, size_t n_in,
                                   struct bp_model_value *out, size_t n_out)
{
    enum bp_status status = check_run(model, stream, in, n_in, out, n_out);

    for (size_t i = 0; i < n_in && status == BP_OK; i++)
        status = onnx_check_value(model, &model->input[i], &in[i]);
    if (status == BP_OK) status = model_run_checked(model, stream, in, n_in, out, n_out);
    return status;
}

static enum bp_status tensors_of(struct bp_model *model, struct bp_model_value *value,
                                 struct bp_tensor **out, size_t n_out)
{
    for (size_t i = 0; i < n_out; i++)
        if (value[i].kind != BP_MODEL_TENSOR)
            return onnx_error(BP_ERR_INVALID, "output %.80s is no tensor: bp_model_run_values "
                              "takes it", model->output[i].name);
    for (size_t i = 0; i < n_out; i++) {
        out[i] = value[i].at[0];
        value[i].n = 0;
    }
    return BP_OK;
}

enum bp_status bp_model_run(struct bp_model *model, struct bp_stream *stream,
                            struct bp_tensor *const *in, size_t n_in, struct bp_tensor **out,
                            size_t n_out)
{
    struct bp_model_value *value, *made;
    struct bp_tensor **at;
    enum bp_status status;

    TRY(check_run(model, stream, in, n_in, out, n_out)); /* before n_in and n_out are used */
    value = calloc(n_in + n_out + 1, sizeof *value);
    at = calloc(n_in + 1, sizeof *at);
    status = value && at ? BP_OK : onnx_no_memory();
    made = value + n_in;
    for (size_t i = 0; i < n_in && status == BP_OK; i++) {
        at[i] = in[i];
        if (in[i]) value[i] = (struct bp_model_value){&at[i], 1, BP_MODEL_TENSOR, 0};
    }
    if (status == BP_OK) status = bp_model_run_values(model, stream, value, n_in, made, n_out);
    if (status == BP_OK) {
        status = tensors_of(model, made, out, n_out);
        for (size_t i = 0; i < n_out; i++) bp_model_value_finish(&made[i]);
    }
    free(value);
    free(at);
    return status;
}
