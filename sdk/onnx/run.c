/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs a model: checks the arguments, finds or makes a plan, runs it, and returns the
 * outputs. */
#include "run.h"
#include "bind.h"
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

static enum bp_status check_run(const char *call, struct bp_model *model, struct bp_stream *stream,
                                const void *in, size_t n_in, const void *out, size_t n_out)
{
    TRY(onnx_check_model(call, model));
    if (bp_stream_device(stream) != model->device)
        return onnx_error(BP_ERR_INVALID, "%s: the stream is not of %s, where the model is", call,
                          bp_device_name(model->device));
    if (n_in != model->body.n_input || n_out != model->body.n_output)
        return onnx_error(BP_ERR_INVALID, "%s: %zu inputs and %zu outputs given, the model has %u "
                          "and %u", call, n_in, n_out, model->body.n_input,
                          model->body.n_output);
    if ((n_in && !in) || (n_out && !out))
        return onnx_error(BP_ERR_INVALID, "%s: %s is NULL", call, n_in && !in ? "in" : "out");
    return BP_OK;
}

struct bp_tensor *onnx_given(const struct onnx_request *r, uint32_t i)
{
    return r->given && (!r->want || r->want[i]) ? r->given[i] : NULL;
}

/* Writes a type as "f32 [2, 3]". */
static void type_words(const struct bp_tensor_info *info, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s [", bp_dtype_name(info->dtype));

    for (uint32_t i = 0; i < info->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? ", " : "",
                                 (long long)info->shape[i]);
    if (used < size) snprintf(text + used, size - used, "]");
}

enum bp_status onnx_check_given(const struct onnx_request *r, uint32_t i, struct bp_tensor *like)
{
    struct bp_tensor_info got = onnx_info(r->given[i]), expected = onnx_info(like);
    char has[160], needs[160];

    if (got.dtype == expected.dtype && got.rank == expected.rank &&
        !memcmp(got.shape, expected.shape, got.rank * sizeof *got.shape))
        return BP_OK;
    type_words(&got, has, sizeof has);
    type_words(&expected, needs, sizeof needs);
    return onnx_error(BP_ERR_INVALID, "output %.80s: the given tensor is %s, expected %s",
                      r->model->output[i].name, has, needs);
}

/* Copies the value of an output to the tensor that is given for it. */
static enum bp_status copy_to_given(const struct onnx_request *r, uint32_t i,
                                    const struct onnx_value *v)
{
    if (!v || v->kind != BP_MODEL_TENSOR)
        return onnx_error(BP_ERR_INVALID, "output %.80s is no tensor, and a tensor is given for it",
                          r->model->output[i].name);
    TRY(onnx_check_given(r, i, v->tensor));
    return bp_tensor_copy(r->stream, r->given[i], v->tensor);
}

static enum bp_status export_output(const struct onnx_request *r, struct onnx_use *use, uint32_t i,
                                    const struct onnx_value *v, struct bp_tensor ***made)
{
    const struct onnx_export e = {r->model, use, r->stream, r->is_fixed};
    enum bp_status status = onnx_export_value(&e, v, made, &r->made[i]);

    if (!status) return BP_OK;
    return onnx_error(status, "output %.80s: %s", r->model->output[i].name, bp_error_message());
}

static enum bp_status model_run_eager(const struct onnx_request *r, const struct onnx_plan *plan,
                                      struct onnx_use *use, struct onnx_last *last)
{
    struct bp_model *model = r->model;
    const struct onnx_body *body = &model->body;
    struct onnx_run run;
    enum bp_status status = onnx_run_init(&run, model, r->stream, use);

    run.skip = plan->skip;
    for (uint32_t i = 0; i < body->n_input && status == BP_OK; i++)
        status = onnx_import_value(&run, &model->input[i], &r->in[i], &run.slot[body->input[i]]);
    if (status == BP_OK) status = onnx_walk(&run, body);
    for (uint32_t i = 0; i < body->n_output && status == BP_OK; i++) {
        const struct onnx_value *v = run.slot[body->output[i]];
        if (r->want && !r->want[i]) continue;
        status = onnx_given(r, i) ? copy_to_given(r, i, v)
                                     : export_output(r, use, i, v, NULL);
    }
    last->host_nodes = run.n_host;
    if (run.n_host) last->host_node = run.host->name;
    snprintf(last->reason, sizeof last->reason,
             "it depends on data: its nodes are gone through for each run");
    onnx_run_finish(&run);
    return status;
}

/* Counts the tensors of a value that the graph makes. */
static size_t count_made(const struct onnx_value *v)
{
    size_t n = v && v->symbolic && v->tensor;

    for (size_t i = 0; v && i < v->n_item; i++) n += count_made(v->item[i]);
    return n;
}

/* Lays the given tensors where the graph looks for its outputs. */
static enum bp_status place_given(const struct onnx_request *r, const struct onnx_plan *plan,
                                  struct bp_tensor **made)
{
    for (uint32_t i = 0; i < r->model->body.n_output; i++) {
        const struct onnx_value *v = plan->output[i];
        if (onnx_given(r, i) && v && v->symbolic) {
            TRY(onnx_check_given(r, i, v->tensor));
            *made = r->given[i];
        }
        made += count_made(v);
    }
    return BP_OK;
}

/* Moves the outputs of the graph to those of the model. made: the graph's outputs; an entry becomes
 * NULL when another owner has it. */
static enum bp_status give_made(const struct onnx_request *r, const struct onnx_plan *plan,
                                struct onnx_use *use, struct bp_tensor **made)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < r->model->body.n_output; i++) {
        const struct onnx_value *v = plan->output[i];
        struct bp_tensor **next = made;
        made += count_made(v);
        if (r->want && !r->want[i]) continue;
        if (onnx_given(r, i) && v && v->symbolic) *next = NULL;
        else if (onnx_given(r, i) && status == BP_OK) status = copy_to_given(r, i, v);
        else if (status == BP_OK) status = export_output(r, use, i, v, &next);
    }
    return status;
}

enum bp_status onnx_run_graph(const struct onnx_request *r, struct onnx_plan *plan,
                              struct onnx_use *use, struct onnx_last *last,
                              struct bp_tensor *const *in, size_t n_in)
{
    struct bp_graph_info info = {.size = sizeof info};
    struct bp_tensor **made;
    enum bp_status status = bp_graph_get_info(plan->graph, &info);

    if (status) return status;
    made = calloc(info.outputs + 1, sizeof *made);
    if (!made) return onnx_no_memory();
    status = place_given(r, plan, made);
    if (status == BP_OK) {
        status = onnx_plan_run(r->model, plan, r->stream, in, n_in, made, info.outputs, last);
        if (status == BP_OK) {
            status = give_made(r, plan, use, made);
            for (uint32_t i = 0; i < info.outputs; i++) bp_tensor_destroy(made[i]);
        }
    }
    free(made);
    return status;
}

static enum bp_status model_run_planned(const struct onnx_request *r, struct onnx_plan *plan,
                                        struct onnx_use *use, struct onnx_last *last)
{
    struct bp_tensor **in = calloc(r->n_in + 1, sizeof *in);
    enum bp_status status;

    if (!in) return onnx_no_memory();
    for (size_t i = 0; i < r->n_in; i++) in[i] = r->in[i].at[0];
    status = onnx_run_graph(r, plan, use, last, in, r->n_in);
    free(in);
    return status;
}

void onnx_run_note(struct bp_model *model, struct onnx_plan *plan, enum bp_status status,
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

enum bp_status onnx_run_unbound(struct onnx_request *r, struct onnx_use *use,
                                struct onnx_last *last)
{
    struct bp_model *model = r->model;
    struct onnx_plan *plan = NULL;
    enum bp_status status = onnx_plan_find(model, use, r->stream, true, r->in, r->n_in, r->want,
                                           &plan);

    if (status == BP_OK) r->is_fixed = plan->graph && plan->fixed.inputs;
    if (status == BP_OK)
        status = plan->graph ? model_run_planned(r, plan, use, last)
                             : model_run_eager(r, plan, use, last);
    onnx_run_note(model, plan, status, last);
    onnx_plan_release(model, plan);
    return status;
}

/* Runs the model after its arguments have been checked. After a failure there are no outputs. */
static enum bp_status model_run_checked(struct onnx_request *r)
{
    struct bp_model *model = r->model;
    struct onnx_use use = onnx_use_begin(model);
    struct onnx_last last = {.host_node = ""};
    enum bp_status status;

    status = model->bind ? onnx_bind_run(r, &use, &last) : onnx_run_unbound(r, &use, &last);
    for (uint32_t i = 0; i < model->body.n_output && status; i++)
        bp_model_value_finish(&r->made[i]);
    return status;
}

static enum bp_status check_inputs(const struct bp_model *model, const struct bp_model_value *in,
                                   size_t n_in)
{
    for (size_t i = 0; i < n_in; i++) TRY(onnx_check_value(model, &model->input[i], &in[i]));
    return BP_OK;
}

enum bp_status bp_model_run_values(struct bp_model *model, struct bp_stream *stream,
                                   const struct bp_model_value *in, size_t n_in,
                                   struct bp_model_value *out, size_t n_out)
{
    struct onnx_request r = {.model = model, .stream = stream, .in = in, .n_in = n_in};
    enum bp_status status;

    TRY(check_run("bp_model_run_values", model, stream, in, n_in, out, n_out));
    TRY(check_inputs(model, in, n_in));
    r.made = calloc(n_out + 1, sizeof *r.made);
    if (!r.made) return onnx_no_memory();
    status = model_run_checked(&r);
    for (size_t i = 0; i < n_out && status == BP_OK; i++) out[i] = r.made[i];
    free(r.made);
    return status;
}

/* Moves the outputs that the run made to the caller. */
static enum bp_status request_take(struct onnx_request *r, struct bp_tensor **out)
{
    uint32_t n_out = r->model->body.n_output;

    for (uint32_t i = 0; i < n_out; i++)
        if (r->made[i].kind != BP_MODEL_TENSOR && !onnx_given(r, i) && (!r->want || r->want[i]))
            return onnx_error(BP_ERR_INVALID, "output %.80s is no tensor: bp_model_run_values "
                              "takes it", r->model->output[i].name);
    for (uint32_t i = 0; i < n_out; i++) {
        if (r->made[i].kind != BP_MODEL_TENSOR) continue;
        out[i] = r->made[i].at[0];
        r->made[i].n = 0;
    }
    return BP_OK;
}

/* Runs the model with tensors as inputs and outputs. */
static enum bp_status run_tensors(struct onnx_request *r, struct bp_tensor *const *in,
                                  struct bp_tensor **out)
{
    uint32_t n_out = r->model->body.n_output;
    struct bp_model_value *value = calloc(r->n_in + n_out + 1, sizeof *value);
    struct bp_tensor **at = calloc(r->n_in + 1, sizeof *at);
    enum bp_status status = value && at ? BP_OK : onnx_no_memory();

    for (size_t i = 0; i < r->n_in && status == BP_OK; i++) {
        at[i] = in[i];
        if (in[i]) value[i] = (struct bp_model_value){&at[i], 1, BP_MODEL_TENSOR, 0};
    }
    r->in = value;
    r->made = value + r->n_in;
    if (status == BP_OK) status = check_inputs(r->model, r->in, r->n_in);
    if (status == BP_OK) status = model_run_checked(r);
    if (status == BP_OK) {
        status = request_take(r, out);
        for (uint32_t i = 0; i < n_out; i++) bp_model_value_finish(&r->made[i]);
    }
    free(value);
    free(at);
    return status;
}

enum bp_status bp_model_run(struct bp_model *model, struct bp_stream *stream,
                            struct bp_tensor *const *in, size_t n_in, struct bp_tensor **out,
                            size_t n_out)
{
    struct onnx_request r = {.model = model, .stream = stream, .n_in = n_in};

    TRY(check_run("bp_model_run", model, stream, in, n_in, out, n_out));
    return run_tensors(&r, in, out);
}

/* Checks the tensors that are given for outputs, as far as they can be before the run. */
static enum bp_status check_outputs(const struct onnx_request *r)
{
    for (uint32_t i = 0; i < r->model->body.n_output; i++) {
        const struct bp_model_port *port = &r->model->output[i];
        struct bp_tensor_info info = {.size = sizeof info};
        if (!onnx_given(r, i)) continue;
        if (bp_tensor_get_info(r->given[i], &info))
            return onnx_error(BP_ERR_INVALID, "output %.80s: expected NULL or a tensor, got "
                              "another handle, or none", port->name);
        if (info.device != r->model->device)
            return onnx_error(BP_ERR_INVALID, "output %.80s: the given tensor is on %s, the model "
                              "is on %s", port->name,
                              info.device ? bp_device_name(info.device) : "no device",
                              bp_device_name(r->model->device));
    }
    return BP_OK;
}

/* Returns want, or NULL if it is set for all outputs, so that both have one plan. */
static const uint8_t *want_some(const struct bp_model *model, const uint8_t *want)
{
    for (uint32_t i = 0; want && i < model->body.n_output; i++)
        if (!want[i]) return want;
    return NULL;
}

enum bp_status bp_model_run_into(struct bp_model *model, struct bp_stream *stream,
                                 struct bp_tensor *const *in, size_t n_in, struct bp_tensor **out,
                                 const uint8_t *want, size_t n_out)
{
    struct onnx_request r = {.model = model, .stream = stream, .n_in = n_in, .given = out};
    uint8_t *flags = NULL;
    enum bp_status status;

    TRY(check_run("bp_model_run_into", model, stream, in, n_in, out, n_out));
    if (want_some(model, want)) {
        flags = malloc(n_out);
        if (!flags) return onnx_no_memory();
        for (size_t i = 0; i < n_out; i++) flags[i] = want[i] != 0; /* plans compare them */
        r.want = flags;
    }
    status = check_outputs(&r);
    if (status == BP_OK) status = run_tensors(&r, in, out);
    free(flags);
    return status;
}
