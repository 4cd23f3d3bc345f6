/* SPDX-License-Identifier: Apache-2.0 */
/* run_values.c: checks the inputs of a run, and converts inputs and outputs between values of the
 * API and those of a walk. */
#include "row.h"
#include "run.h"
#include <stdlib.h>

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

enum bp_status onnx_import_value(struct onnx_run *run, const struct bp_model_port *port,
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

/* Returns t, or a copy of it in row-major order if t has another layout or `copies` is set. Takes
 * over the caller's reference to t. A view of a few bytes can have a copy of terabytes. */
static enum bp_status in_order(const struct onnx_export *e, struct bp_tensor *t, bool copies,
                               struct bp_tensor **out)
{
    struct bp_tensor_info info = onnx_info(t);
    struct bp_tensor *dense = NULL;
    enum bp_status status;

    *out = t;
    if (info.contiguous && !copies) return BP_OK;
    status = onnx_check_copy(e->model, e->use, info.bytes);
    if (status == BP_OK)
        status = bp_tensor_create(info.device, info.dtype, info.rank, info.shape, &dense);
    if (status == BP_OK) status = bp_tensor_copy(e->stream, dense, t);
    bp_tensor_destroy(t);
    if (status) bp_tensor_destroy(dense);
    *out = status ? NULL : dense;
    return status;
}

/* Returns a handle of an output tensor. made: the graph's outputs, which replace symbolic tensors
 * in order; each use advances the pointer. */
static enum bp_status export_tensor(const struct onnx_export *e, const struct onnx_value *v,
                                    struct bp_tensor ***made, struct bp_tensor **out)
{
    struct bp_tensor *t;

    if (!v || !v->tensor) return onnx_error(BP_ERR_UNSUPPORTED, "it is not of tensors");
    if (!v->symbolic) TRY(same_tensor(v->tensor, &t));
    else {
        t = **made;
        *(*made)++ = NULL;
    }
    return in_order(e, t, e->copies && !v->symbolic, out);
}

enum bp_status onnx_export_value(const struct onnx_export *e, const struct onnx_value *v,
                                 struct bp_tensor ***made, struct bp_model_value *out)
{
    if (v && v->kind == BP_MODEL_OPTIONAL) {
        if (!v->n_item) return BP_OK;
        v = v->item[0];
    }
    if (!v) return onnx_error(BP_ERR_INVALID, "it has no value");
    out->at = calloc(v->n_item + 1, sizeof *out->at);
    if (!out->at) return onnx_no_memory();
    out->kind = v->kind;
    if (v->kind == BP_MODEL_TENSOR) {
        TRY(export_tensor(e, v, made, &out->at[0]));
        out->n = 1;
    }
    for (size_t i = 0; i < v->n_item; i++, out->n++)
        TRY(export_tensor(e, v->item[i], made, &out->at[i]));
    return BP_OK;
}

void bp_model_value_finish(struct bp_model_value *value)
{
    if (!value) return;
    for (size_t i = 0; i < value->n; i++) bp_tensor_destroy(value->at[i]);
    free(value->at);
    *value = (struct bp_model_value){0};
}
