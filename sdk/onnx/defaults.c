/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.c: reads the default attributes of functions, which apply where a call does not set
 * them. They are field 11 of FunctionProto, since version 9 of the format. An older schema does not
 * have the field, and protobuf-c then keeps it among the unknown fields. */
#include "resolve.h"
#include "row.h"
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTE_PROTO = 11 };

/* The schema has the field: the function's message owns the attributes. */
static void known_field(const Onnx__FunctionProto *f, const ProtobufCFieldDescriptor *field,
                        struct onnx_function *out)
{
    memcpy(&out->n, (const char *)f + field->quantifier_offset, sizeof out->n);
    memcpy(&out->attr, (const char *)f + field->offset, sizeof out->attr);
}

/* Unpacks an unknown field: a length, then the bytes of an AttributeProto. */
static enum bp_status defaults_unpack(const ProtobufCMessageUnknownField *from,
                                      Onnx__AttributeProto **out_attr)
{
    const uint8_t *at = from->data, *end = at + from->len;

    while (at < end && *at & 128) at++;
    if (from->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || at == end)
        return onnx_error(BP_ERR_INVALID, "model: attribute_proto of a function is no message");
    at++;
    return onnx_unpack(&onnx__attribute_proto__descriptor, at, (size_t)(end - at),
                       "model: attribute_proto of a function", out_attr);
}

static enum bp_status unknown_fields(const Onnx__FunctionProto *f, struct onnx_function *out)
{
    out->attr = calloc(f->base.n_unknown_fields + 1, sizeof *out->attr);
    if (!out->attr) return onnx_no_memory();
    out->is_own = true;
    for (unsigned i = 0; i < f->base.n_unknown_fields; i++) {
        if (f->base.unknown_fields[i].tag != ATTRIBUTE_PROTO) continue;
        TRY(defaults_unpack(&f->base.unknown_fields[i], &out->attr[out->n]));
        out->n++;
    }
    return BP_OK;
}

enum bp_status onnx_defaults(struct bp_model *model)
{
    const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(
        &onnx__function_proto__descriptor, ATTRIBUTE_PROTO);
    size_t n = model->proto->n_functions;

    model->function = calloc(n + 1, sizeof *model->function);
    if (!model->function) return onnx_no_memory();
    for (size_t i = 0; i < n; i++) {
        const Onnx__FunctionProto *f = model->proto->functions[i];
        if (field) known_field(f, field, &model->function[i]);
        else TRY(unknown_fields(f, &model->function[i]));
    }
    return BP_OK;
}

void onnx_defaults_finish(struct bp_model *model)
{
    for (size_t i = 0; model->function && i < model->proto->n_functions; i++) {
        struct onnx_function *f = &model->function[i];
        for (size_t k = 0; f->is_own && k < f->n; k++)
            onnx__attribute_proto__free_unpacked(f->attr[k], NULL);
        if (f->is_own) free(f->attr);
    }
    free(model->function);
}

const struct onnx_function *onnx_function_of(const struct bp_model *model,
                                             const Onnx__FunctionProto *proto)
{
    for (size_t i = 0; i < model->proto->n_functions; i++)
        if (model->proto->functions[i] == proto) return &model->function[i];
    return NULL;
}
