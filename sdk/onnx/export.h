/* SPDX-License-Identifier: Apache-2.0 */
/* export.h: declares the state and the helpers of writing a graph as an ONNX model. After a
 * failure, which is kept in `status`, the helpers do nothing more. */
#ifndef BP_ONNX_EXPORT_H
#define BP_ONNX_EXPORT_H

#include "row.h"

struct export {
    struct bp_graph *graph;
    struct bp_stream *stream;
    const uint32_t *output;
    uint32_t n_output;
    Onnx__GraphProto proto;
    void **kept; /* all memory that the model uses; freed at the end */
    size_t n_kept;
    enum bp_status status;
};

/* The value of an attribute: a float, an integer, or a list of integers. */
struct export_value {
    Onnx__AttributeProto__AttributeType type;
    double real;
    int64_t number;
    const int64_t *list;
    size_t n;
};

/* Allocates zeroed memory that lives until the export ends; NULL after a failure. */
void *export_room(struct export *e, size_t size);
char *export_text(struct export *e, const char *text);
const char *export_name(struct export *e, uint32_t value);

/* Adds a node with the outputs of from, without inputs and attributes; NULL after a failure. */
Onnx__NodeProto *export_node(struct export *e, const char *op, const struct bp_node_info *from);
void export_input(struct export *e, Onnx__NodeProto *node, const char *name);
void export_attribute(struct export *e, Onnx__NodeProto *node, const char *name,
                      const struct export_value *value);

/* Adds an initialiser; the caller fills in its data. */
Onnx__TensorProto *export_tensor(struct export *e, const char *name, uint32_t dtype, uint32_t rank,
                                 const int64_t *shape, uint64_t bytes);

/* export_ops.c: writes a node of the graph as one of ONNX. */
void export_operator(struct export *e, const struct bp_node_info *node);

#endif
