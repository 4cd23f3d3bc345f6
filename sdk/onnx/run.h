/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: declares the start and the end of a walk over a model's nodes, and the
 * conversion of its inputs and outputs. */
#ifndef BP_ONNX_RUN_H
#define BP_ONNX_RUN_H

#include "onnx.h"

/* Initialises a walk whose slots hold the constants of the model. The caller calls finish, also
 * after init has failed. */
enum bp_status onnx_run_init(struct onnx_run *run, struct bp_model *model,
                             struct bp_stream *stream, struct onnx_use *use);
void onnx_run_finish(struct onnx_run *run);

/* The run whose outputs are returned: the copies of outputs are counted in use. */
struct onnx_export {
    const struct bp_model *model;
    struct onnx_use *use;
    struct bp_stream *stream;
    bool copies; /* a tensor that is known before the run is copied: it belongs to the plan */
};

/* run_values.c. onnx_import_value returns an input as a value of the walk. onnx_export_value
 * returns a value as an output; made: the graph's outputs, which replace symbolic tensors in order:
 * each use sets an entry to NULL and advances the pointer. Tensors are in row-major order. */
enum bp_status onnx_import_value(struct onnx_run *run, const struct bp_model_port *port,
                                 const struct bp_model_value *in, struct onnx_value **out);
enum bp_status onnx_export_value(const struct onnx_export *e, const struct onnx_value *v,
                                 struct bp_tensor ***made, struct bp_model_value *out);

#endif
