/* SPDX-License-Identifier: Apache-2.0 */
/* write.h: declares the parts of the writer of models. */
#ifndef ORT_WRITE_H
#define ORT_WRITE_H

#include "ort.h"

/* Numbers of fields, by message. */
enum {
    MODEL_IR = 1,
    MODEL_GRAPH = 7,
    MODEL_OPSET = 8,
    OPSET_DOMAIN = 1,
    OPSET_VERSION = 2,
    GRAPH_NODE = 1,
    GRAPH_NAME = 2,
    GRAPH_INITIALIZER = 5,
    GRAPH_INPUT = 11,
    GRAPH_OUTPUT = 12,
    GRAPH_VALUE = 13,
    VALUE_NAME = 1,
    VALUE_TYPE = 2,
    TYPE_TENSOR = 1,
    TENSOR_TYPE_ELEMENT = 1,
    TENSOR_TYPE_SHAPE = 2,
    SHAPE_DIM = 1,
    DIM_VALUE = 1,
    TENSOR_DIM = 1,
    TENSOR_TYPE = 2,
    TENSOR_NAME = 8,
    TENSOR_RAW = 9,
};

enum {
    ATTR_NAME = 1,
    ATTR_FLOAT = 2,
    ATTR_INT = 3,
    ATTR_STRING = 4,
    ATTR_TENSOR = 5,
    ATTR_GRAPH = 6,
    ATTR_FLOATS = 7,
    ATTR_INTS = 8,
    ATTR_STRINGS = 9,
    ATTR_TYPE = 20,
    ATTR_TYPE_GRAPH = 5, /* numbers of AttributeProto.AttributeType */
    ATTR_TYPE_INT = 2,
    NODE_ATTR = 5,
};

/* Writes the name and the type of a value; a value that is no tensor gets no type. */
struct ort_status *ort_write_value(struct ort_proto *graph, uint32_t field,
                                   const struct ort_value_info *info);
/* Describes a tensor in host memory. */
struct ort_status *ort_read_value(const struct ort_value *value, struct ort_weight *out);
void ort_write_tensor(struct ort_proto *out, const char *name, const struct ort_weight *t,
                      bool has_data);
/* Writes an attribute; a graph is none here. */
struct ort_status *ort_write_attr(struct ort_proto *node, const struct ort_attr *attr);

#endif
