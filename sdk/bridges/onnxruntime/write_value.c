/* SPDX-License-Identifier: Apache-2.0 */
/* write_value.c: writes types, tensors and attributes of ONNX Runtime in ONNX's format. */
#include "write.h"

#include <stdlib.h>
#include <string.h>

/* Reads the element type and the shape of a tensor's type; out_rank is SIZE_MAX if there are more
 * axes than tensors may have. */
static struct ort_status *read_shape(const struct ort_tensor_type *type, int32_t *out_element,
                                     size_t *out_rank, int64_t *out_shape)
{
    TRY(ort.tensor_type_element(type, out_element));
    TRY(ort.tensor_type_rank(type, out_rank));
    if (*out_rank <= BP_RANK_MAX) return ort.tensor_type_shape(type, out_shape, *out_rank);
    *out_rank = SIZE_MAX;
    return NULL;
}

/* Writes the name and the type of a value; a value that is no tensor gets no type. */
struct ort_status *ort_write_value(struct ort_proto *graph, uint32_t field,
                                      const struct ort_value_info *info)
{
    struct ort_proto value = {0}, type = {0}, tensor = {0}, shape = {0};
    const struct ort_tensor_type *of = NULL;
    const struct ort_type *any = NULL;
    int64_t extent[BP_RANK_MAX];
    int32_t element = 0, kind = 0;
    const char *name;
    size_t rank = 0;

    TRY(ort.value_info_name(info, &name));
    TRY(ort.value_info_type(info, &any));
    if (any) TRY(ort.type_kind(any, &kind));
    if (kind == ORT_TYPE_TENSOR) {
        TRY(ort.type_tensor(any, &of));
        TRY(read_shape(of, &element, &rank, extent));
        ort_proto_number(&tensor, TENSOR_TYPE_ELEMENT, element);
        for (size_t i = 0; i < rank && rank != SIZE_MAX; i++) {
            struct ort_proto dim = {0};
            if (extent[i] >= 0) ort_proto_number(&dim, DIM_VALUE, extent[i]);
            ort_proto_message(&shape, SHAPE_DIM, &dim);
        }
        /* A rank of 0 is also what ONNX Runtime reports where it does not know the shape. */
        if (rank && rank != SIZE_MAX) ort_proto_message(&tensor, TENSOR_TYPE_SHAPE, &shape);
        ort_proto_finish(&shape);
        ort_proto_message(&type, TYPE_TENSOR, &tensor);
    }
    ort_proto_text(&value, VALUE_NAME, name);
    if (kind == ORT_TYPE_TENSOR) ort_proto_message(&value, VALUE_TYPE, &type);
    ort_proto_message(graph, field, &value);
    return NULL;
}

void ort_write_tensor(struct ort_proto *out, const char *name, const struct ort_weight *t,
                         bool has_data)
{
    for (uint32_t i = 0; i < t->rank; i++) ort_proto_number(out, TENSOR_DIM, t->shape[i]);
    ort_proto_number(out, TENSOR_TYPE, bridge_dtype_to_onnx(t->dtype));
    if (*name) ort_proto_text(out, TENSOR_NAME, name);
    if (has_data) ort_proto_bytes(out, TENSOR_RAW, t->data, t->bytes);
}

/* Describes a tensor in host memory. */
struct ort_status *ort_read_value(const struct ort_value *value, struct ort_weight *out)
{
    struct ort_tensor_type *type;
    struct ort_status *status;
    int32_t element = 0;
    size_t rank = 0, bytes = 0;

    TRY(ort.value_tensor_type(value, &type));
    status = read_shape(type, &element, &rank, out->shape);
    ort.tensor_type_release(type);
    TRY(status);
    out->dtype = bridge_dtype_of_onnx(element);
    if (rank == SIZE_MAX || out->dtype == UINT32_MAX)
        return ort_error(ORT_NOT_IMPLEMENTED, "Backplane: a constant of element type %d and rank "
                         "%zd is not supported", element, (ptrdiff_t)rank);
    TRY(ort.value_bytes(value, &bytes));
    TRY(ort.tensor_data(value, &out->data));
    out->value = value;
    out->rank = (uint32_t)rank;
    out->bytes = bytes;
    return NULL;
}

/* --- attributes --- */

/* Numbers of AttributeProto.AttributeType, by kind. */
static const uint8_t attr_type[] = {
    [ORT_ATTR_INT] = 2,  [ORT_ATTR_INTS] = 7,    [ORT_ATTR_FLOAT] = 1, [ORT_ATTR_FLOATS] = 6,
    [ORT_ATTR_STRING] = 3, [ORT_ATTR_STRINGS] = 8, [ORT_ATTR_GRAPH] = 5, [ORT_ATTR_TENSOR] = 4,
};

/* Reads the value of an attribute as bytes, with a zero byte behind them. */
static struct ort_status *attr_bytes(const struct ort_attr *attr, int32_t kind, char **out,
                                     size_t *out_size)
{
    struct ort_status *status;
    size_t size = 0;

    ort_forget(ort.attr_read(attr, kind, NULL, 0, &size)); /* fails, and reports the size */
    *out = calloc(1, size + 1);
    if (!*out) return ort_no_memory();
    status = size ? ort.attr_read(attr, kind, *out, size, &size) : NULL;
    if (status) free(*out);
    else *out_size = size;
    return status;
}

static void attr_numbers(struct ort_proto *out, int32_t kind, const char *data, size_t size)
{
    float real;
    int64_t whole;

    switch (kind) {
    case ORT_ATTR_INT:
    case ORT_ATTR_INTS:
        for (; size >= sizeof whole; size -= sizeof whole, data += sizeof whole) {
            memcpy(&whole, data, sizeof whole);
            ort_proto_number(out, kind == ORT_ATTR_INT ? ATTR_INT : ATTR_INTS, whole);
        }
        return;
    default:
        for (; size >= sizeof real; size -= sizeof real, data += sizeof real) {
            memcpy(&real, data, sizeof real);
            ort_proto_float(out, kind == ORT_ATTR_FLOAT ? ATTR_FLOAT : ATTR_FLOATS, real);
        }
    }
}

/* Texts are one after the other, each with a zero byte behind it. */
static void attr_texts(struct ort_proto *out, int32_t kind, const char *data, size_t size)
{
    const char *end = data + size;

    if (kind == ORT_ATTR_STRING) {
        ort_proto_bytes(out, ATTR_STRING, data, size && !data[size - 1] ? size - 1 : size);
        return;
    }
    for (; data < end; data += strlen(data) + 1) ort_proto_text(out, ATTR_STRINGS, data);
}

static struct ort_status *attr_tensor(struct ort_proto *out, const struct ort_attr *attr)
{
    struct ort_weight t = {.name = NULL};
    struct ort_proto tensor = {0};
    struct ort_value *value;
    struct ort_status *status;

    TRY(ort.attr_tensor(attr, &value));
    status = ort_read_value(value, &t);
    if (!status) ort_write_tensor(&tensor, "", &t, true);
    ort.value_release(value);
    TRY(status);
    ort_proto_message(out, ATTR_TENSOR, &tensor);
    return NULL;
}

struct ort_status *ort_write_attr(struct ort_proto *node, const struct ort_attr *attr)
{
    struct ort_proto out = {0};
    struct ort_status *status = NULL;
    int32_t kind = 0;
    const char *name;
    char *data;
    size_t size = 0;

    TRY(ort.attr_name(attr, &name));
    TRY(ort.attr_kind(attr, &kind));
    if (kind == ORT_ATTR_GRAPH) return NULL; /* written as a sub-graph of the node */
    if (kind < ORT_ATTR_INT || kind > ORT_ATTR_TENSOR)
        return ort_error(ORT_NOT_IMPLEMENTED, "Backplane: attribute %.80s is of kind %d", name,
                         kind);
    ort_proto_text(&out, ATTR_NAME, name);
    ort_proto_number(&out, ATTR_TYPE, attr_type[kind]);
    if (kind == ORT_ATTR_TENSOR) status = attr_tensor(&out, attr);
    else {
        status = attr_bytes(attr, kind, &data, &size);
        if (!status) {
            if (kind == ORT_ATTR_STRING || kind == ORT_ATTR_STRINGS)
                attr_texts(&out, kind, data, size);
            else attr_numbers(&out, kind, data, size);
            free(data);
        }
    }
    if (status) ort_proto_finish(&out);
    else ort_proto_message(node, NODE_ATTR, &out);
    return status;
}
