/* SPDX-License-Identifier: Apache-2.0 */
/* value_file.c: reads values from files in the format of ONNX's test data. */
#include "onnx.h"
#include "onnx/onnx-data.pb-c.h"
#include <stdlib.h>
#include <string.h>

/* Corrects a tensor of bf16. numpy has no bf16, so files of the ONNX test suite store its bits as
 * u16, some of them with one axis only. */
static void mend_bf16(const struct bp_model_port *port, Onnx__TensorProto *t)
{
    int64_t count = 1, declared = 1;

    if (port->dtype != BP_BF16 || onnx_dtype(t->data_type) != BP_U16) return;
    t->data_type = onnx_elem_type(BP_BF16);
    if (t->n_dims != 1 || port->rank > ONNX_RANK_MAX || !port->rank) return;
    count = t->dims[0];
    for (uint32_t i = 0; i < port->rank; i++) declared *= port->shape[i] > 0 ? port->shape[i] : 0;
    if (count != declared) return;
    int64_t *dims = realloc(t->dims, port->rank * sizeof *dims); /* protobuf-c used malloc */
    if (!dims) return;
    memcpy(dims, port->shape, port->rank * sizeof *dims);
    t->dims = dims;
    t->n_dims = port->rank;
}

static enum bp_status take_tensor(struct bp_model *model, const struct bp_model_port *port,
                                  Onnx__TensorProto *proto, struct bp_model_value *out)
{
    mend_bf16(port, proto);
    out->at = calloc(1, sizeof *out->at);
    if (!out->at) return onnx_no_memory();
    TRY(onnx_tensor(model, model->stream, proto, out->at));
    out->n = 1;
    out->kind = BP_MODEL_TENSOR;
    return BP_OK;
}

static enum bp_status take_sequence(struct bp_model *model, const Onnx__SequenceProto *proto,
                                    struct bp_model_value *out)
{
    size_t n = proto->n_tensor_values;

    if (proto->n_sparse_tensor_values || proto->n_sequence_values || proto->n_map_values ||
        proto->n_optional_values)
        return onnx_error(BP_ERR_UNSUPPORTED, "a sequence of anything but tensors");
    out->at = calloc(n + 1, sizeof *out->at);
    if (!out->at) return onnx_no_memory();
    out->kind = BP_MODEL_SEQUENCE;
    for (; out->n < n; out->n++)
        TRY(onnx_tensor(model, model->stream, proto->tensor_values[out->n], &out->at[out->n]));
    return BP_OK;
}

static enum bp_status value_read_tensor(struct bp_model *model, const struct bp_model_port *port,
                                        const void *data, size_t size, struct bp_model_value *out)
{
    Onnx__TensorProto *t;
    enum bp_status status;

    TRY(onnx_unpack(&onnx__tensor_proto__descriptor, data, size, "tensor", &t));
    status = take_tensor(model, port, t, out);
    onnx__tensor_proto__free_unpacked(t, NULL);
    return status;
}

static enum bp_status read_sequence(struct bp_model *model, const struct bp_model_port *port,
                                    const void *data, size_t size, struct bp_model_value *out)
{
    Onnx__SequenceProto *s;
    enum bp_status status;

    (void)port; /* the elements need no declared type */
    TRY(onnx_unpack(&onnx__sequence_proto__descriptor, data, size, "sequence", &s));
    status = take_sequence(model, s, out);
    onnx__sequence_proto__free_unpacked(s, NULL);
    return status;
}

static enum bp_status read_optional(struct bp_model *model, const struct bp_model_port *port,
                                    const void *data, size_t size, struct bp_model_value *out)
{
    Onnx__OptionalProto *o;
    enum bp_status status = BP_OK;

    TRY(onnx_unpack(&onnx__optional_proto__descriptor, data, size, "optional", &o));
    if (o->tensor_value) status = take_tensor(model, port, o->tensor_value, out);
    else if (o->sequence_value) status = take_sequence(model, o->sequence_value, out);
    onnx__optional_proto__free_unpacked(o, NULL);
    return status;
}

static const struct {
    const ProtobufCMessageDescriptor *message;
    enum bp_status (*read)(struct bp_model *model, const struct bp_model_port *port,
                           const void *data, size_t size, struct bp_model_value *out);
} kind_of_file[] = {
    [BP_MODEL_TENSOR] = {&onnx__tensor_proto__descriptor, value_read_tensor},
    [BP_MODEL_SEQUENCE] = {&onnx__sequence_proto__descriptor, read_sequence},
    [BP_MODEL_OPTIONAL] = {&onnx__optional_proto__descriptor, read_optional},
};

enum bp_status bp_model_value_load(struct bp_model *model, const struct bp_model_port *port,
                                   const char *path, struct bp_model_value *out_value)
{
    struct bp_model_value value = {0};
    enum bp_status status;
    size_t size;
    void *data;

    TRY(onnx_check_model("bp_model_value_load", model));
    if (!port || !path || !out_value)
        return onnx_error(BP_ERR_INVALID, "bp_model_value_load: %s is NULL",
                          !port ? "port" : path ? "out_value" : "path");
    if (port->kind < BP_MODEL_TENSOR || port->kind > BP_MODEL_OPTIONAL)
        return onnx_error(BP_ERR_INVALID, "bp_model_value_load: port->kind is %u", port->kind);
    TRY(onnx_file_map(path, &data, &size, NULL));
    pthread_mutex_lock(&model->planning); /* of the model's stream */
    status = kind_of_file[port->kind].read(model, port, data, size, &value);
    if (status == BP_OK) status = bp_stream_synchronize(model->stream);
    pthread_mutex_unlock(&model->planning);
    onnx_file_unmap(data, size);
    if (status == BP_OK) *out_value = value;
    else bp_model_value_finish(&value);
    return status;
}
