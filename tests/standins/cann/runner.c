/* SPDX-License-Identifier: Apache-2.0 */
/* runner.c: runs models for the stand-in for CANN by Backplane's ONNX runner, on a cpu device of a
 * core of its own. */
#include "runner.h"
#include <backplane/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUNNER_API __attribute__((visibility("default")))

static int runner_fail(char *text, const char *what)
{
    snprintf(text, RUNNER_TEXT, "%s: %s", what, bp_error_message());
    return -1;
}

/* Describes an input; extents that the app gave replace those of the model. */
static int runner_input(struct runner *r, uint32_t i, const struct runner *given, char *text)
{
    struct bp_model_port port = {.size = sizeof port};
    struct runner_port *own = &r->in[i];

    if (bp_model_input(r->model, i, &port)) return runner_fail(text, "input");
    if (port.kind != BP_MODEL_TENSOR || port.rank > RUNNER_RANK) {
        snprintf(text, RUNNER_TEXT, "input %s is no tensor of up to 8 axes", port.name);
        return -1;
    }
    *own = (struct runner_port){.rank = port.rank, .dtype = port.dtype};
    snprintf(own->name, sizeof own->name, "%s", port.name);
    for (uint32_t k = 0; k < port.rank; k++) own->dims[k] = port.shape[k];
    for (uint32_t g = 0; g < given->n_in; g++)
        if (!strcmp(given->in[g].name, own->name) && given->in[g].rank == own->rank)
            memcpy(own->dims, given->in[g].dims, sizeof own->dims);
    for (uint32_t k = 0; k < own->rank; k++)
        if (own->dims[k] < 0) {
            snprintf(text, RUNNER_TEXT, "input %s has an open extent: --input_shape", own->name);
            return -1;
        }
    return 0;
}

/* Makes the input tensors; with in NULL of zeros. */
static int runner_inputs(struct runner *r, void *const *in, struct bp_tensor **out, char *text)
{
    struct bp_tensor_info info = {.size = sizeof info};
    void *zeros = NULL;
    int code = 0;

    for (uint32_t i = 0; i < r->n_in && !code; i++) {
        const struct runner_port *port = &r->in[i];
        if (bp_tensor_create(r->device, port->dtype, port->rank, port->dims, &out[i]) ||
            bp_tensor_get_info(out[i], &info))
            return runner_fail(text, "input");
        r->in[i].bytes = info.bytes;
        zeros = in ? NULL : calloc(1, (size_t)info.bytes + 1);
        if (bp_tensor_write(r->stream, out[i], in ? in[i] : zeros, info.bytes))
            code = runner_fail(text, "input");
        free(zeros);
    }
    return code;
}

/* Runs; writes results to `to`, or describes the outputs if it is NULL. */
static int runner_once(struct runner *r, void *const *in, void *const *to, char *text)
{
    struct bp_tensor *x[RUNNER_PORTS] = {NULL}, *y[RUNNER_PORTS] = {NULL};
    int code = runner_inputs(r, in, x, text);

    if (!code && bp_model_run(r->model, r->stream, x, r->n_in, y, r->n_out))
        code = runner_fail(text, "run");
    for (uint32_t i = 0; i < r->n_out && !code; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        bp_tensor_get_info(y[i], &info);
        if (!to) {
            r->out[i].dtype = info.dtype;
            r->out[i].rank = info.rank;
            r->out[i].bytes = info.bytes;
            memcpy(r->out[i].dims, info.shape, info.rank * sizeof *info.shape);
        } else if (info.bytes != r->out[i].bytes) {
            snprintf(text, RUNNER_TEXT, "output %s has other extents than before", r->out[i].name);
            code = -1;
        } else if (bp_tensor_read(r->stream, y[i], to[i], info.bytes)) {
            code = runner_fail(text, "output");
        }
    }
    for (uint32_t i = 0; i < RUNNER_PORTS; i++) {
        if (x[i]) bp_tensor_destroy(x[i]);
        if (y[i]) bp_tensor_destroy(y[i]);
    }
    return code;
}

static int runner_open(struct runner *r, const void *onnx, size_t size, char *text)
{
    const struct bp_core_options options = {
        .size = sizeof options, .plugin_path = RUNNER_PLUGINS, .plugins = "cpu", .threads = 1};
    const struct bp_model_options loads = {.size = sizeof loads, .any_shape = 1};

    if (bp_core_create(&options, (struct bp_core **)&r->core)) return runner_fail(text, "core");
    if (bp_device_create(r->core, "cpu", (struct bp_device **)&r->device))
        return runner_fail(text, "device");
    if (bp_stream_create(r->device, (struct bp_stream **)&r->stream))
        return runner_fail(text, "stream");
    if (bp_model_load_memory(r->device, onnx, size, &loads, (struct bp_model **)&r->model))
        return runner_fail(text, "model");
    return 0;
}

RUNNER_API int cann_runner_load(struct runner *r, const void *onnx, size_t size, char *text)
{
    struct runner *given = malloc(sizeof *given);
    struct bp_model_port port = {.size = sizeof port};
    int code = given ? runner_open(r, onnx, size, text) : -1;

    if (given) *given = *r;
    if (!code) {
        r->n_in = bp_model_inputs(r->model);
        r->n_out = bp_model_outputs(r->model);
    }
    if (!code && (r->n_in > RUNNER_PORTS || r->n_out > RUNNER_PORTS)) {
        snprintf(text, RUNNER_TEXT, "the model has more than %d inputs or outputs", RUNNER_PORTS);
        code = -1;
    }
    for (uint32_t i = 0; !code && i < r->n_in; i++) code = runner_input(r, i, given, text);
    for (uint32_t i = 0; !code && i < r->n_out; i++) {
        if (bp_model_output(r->model, i, &port)) code = runner_fail(text, "output");
        else snprintf(r->out[i].name, RUNNER_NAME, "%s", port.name);
    }
    if (!code) code = runner_once(r, NULL, NULL, text);
    if (code) cann_runner_finish(r);
    free(given);
    return code;
}

RUNNER_API int cann_runner_run(struct runner *r, void *const *in, void *const *out, char *text)
{
    return runner_once(r, in, out, text);
}

RUNNER_API void cann_runner_finish(struct runner *r)
{
    if (r->model) bp_model_destroy(r->model);
    if (r->stream) bp_stream_destroy(r->stream);
    if (r->device) bp_device_destroy(r->device);
    if (r->core) bp_core_destroy(r->core);
    r->model = r->stream = r->device = r->core = NULL;
}
