/* SPDX-License-Identifier: Apache-2.0 */
/* constants.c: takes tensors of the app in place of initialisers, so that weights that the app
 * already holds on the device, or in memory that the device reads, are not copied. */
#include "onnx.h"
#include "resolve.h"
#include <string.h>

static bool constants_fit(const Onnx__TensorProto *proto, const struct bp_tensor_info *info)
{
    return info->dtype == onnx_dtype(proto->data_type) && info->rank == proto->n_dims &&
           (!info->rank || !memcmp(info->shape, proto->dims, info->rank * sizeof *info->shape));
}

static enum bp_status constants_take(const struct bp_model *model, const Onnx__TensorProto *proto,
                                     struct bp_tensor *given, struct bp_tensor **out_tensor)
{
    struct bp_tensor_info info = {.size = sizeof info};

    if (bp_tensor_get_info(given, &info))
        return onnx_error(BP_ERR_INVALID, "constant %.80s: expected a tensor, got another handle, "
                          "or none", proto->name);
    if (info.device != model->device)
        return onnx_error(BP_ERR_INVALID, "constant %.80s: the tensor is on %s, the model is on %s",
                          proto->name, info.device ? bp_device_name(info.device) : "no device",
                          bp_device_name(model->device));
    if (!constants_fit(proto, &info))
        return onnx_error(BP_ERR_INVALID, "constant %.80s: the tensor has another dtype or shape "
                          "than the model's initialiser", proto->name);
    return bp_tensor_view(given, 0, info.rank, info.shape, info.stride, out_tensor);
}

enum bp_status onnx_constant_find(const struct bp_model *model, const Onnx__TensorProto *proto,
                                  struct bp_tensor **out_tensor)
{
    const char *name = onnx_text(proto->name);

    *out_tensor = NULL;
    for (size_t i = 0; i < model->options.n_constant; i++)
        if (model->options.constant[i].name && !strcmp(model->options.constant[i].name, name))
            return constants_take(model, proto, model->options.constant[i].tensor, out_tensor);
    return BP_OK;
}
