/* SPDX-License-Identifier: Apache-2.0 */
/* types.c: finds the types of a model's outputs before a run, from its plan. */
#include "row.h"
#include "run.h"
#include <stdlib.h>
#include <string.h>

/* Fills in the type of an output; it stays unknown if the extents depend on data. */
static void types_fill(const struct onnx_value *v, struct bp_model_type *out)
{
    struct bp_tensor_info info;

    *out = (struct bp_model_type){0};
    if (!v || v->kind != BP_MODEL_TENSOR || !v->tensor || v->of_data) return;
    info = onnx_info(v->tensor);
    out->dtype = info.dtype;
    out->rank = info.rank;
    if (info.rank) memcpy(out->shape, info.shape, info.rank * sizeof *info.shape);
    out->is_known = 1;
}

static enum bp_status types_check(struct bp_model *model, struct bp_stream *stream,
                                  struct bp_tensor *const *in, size_t n_in,
                                  const struct bp_model_type *out, size_t n_out)
{
    static const char call[] = "bp_model_output_types";

    TRY(onnx_check_model(call, model));
    if (bp_stream_device(stream) != model->device)
        return onnx_error(BP_ERR_INVALID, "%s: the stream is not of %s, where the model is", call,
                          bp_device_name(model->device));
    if (n_in != model->body.n_input || n_out != model->body.n_output)
        return onnx_error(BP_ERR_INVALID, "%s: %zu inputs and %zu outputs given, the model has %u "
                          "and %u", call, n_in, n_out, model->body.n_input,
                          model->body.n_output);
    if ((n_in && !in) || !out)
        return onnx_error(BP_ERR_INVALID, "%s: %s is NULL", call, out ? "in" : "out");
    return BP_OK;
}

enum bp_status bp_model_output_types(struct bp_model *model, struct bp_stream *stream,
                                     struct bp_tensor *const *in, size_t n_in,
                                     struct bp_model_type *out, size_t n_out,
                                     uint32_t *out_by_values)
{
    struct bp_model_value *value;
    struct onnx_plan *plan = NULL;
    struct onnx_use use;
    enum bp_status status = BP_OK;

    TRY(types_check(model, stream, in, n_in, out, n_out));
    value = calloc(n_in + 1, sizeof *value);
    if (!value) return onnx_no_memory();
    for (size_t i = 0; i < n_in && status == BP_OK; i++) {
        if (in[i])
            value[i] = (struct bp_model_value){(struct bp_tensor **)&in[i], 1, BP_MODEL_TENSOR, 0};
        status = onnx_check_value(model, &model->input[i], &value[i]);
    }
    use = onnx_use_begin(model);
    if (status == BP_OK)
        status = onnx_plan_find(model, &use, stream, true, value, n_in, NULL, &plan);
    free(value);
    if (status) return status;
    for (size_t i = 0; i < n_out; i++) types_fill(plan->graph ? plan->output[i] : NULL, &out[i]);
    if (out_by_values) *out_by_values = !plan->graph || plan->fixed.inputs;
    onnx_plan_release(model, plan);
    return BP_OK;
}
