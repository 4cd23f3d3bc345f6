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

/* A run: its arguments, and the outputs until it has succeeded. */
struct onnx_request {
    struct bp_model *model;
    struct bp_stream *stream;
    const struct bp_model_value *in;
    size_t n_in;
    struct bp_tensor *const *given; /* for each output the tensor to write, or NULL; NULL: none */
    const uint8_t *want;            /* as in onnx_plan_find */
    bool is_fixed;                  /* the plan fixes inputs, so that it has values of its own */
    struct bp_model_value *made;    /* of each output; nothing if it is given or not wanted */
};

/* run.c. onnx_run_graph runs the graph of a plan on the tensors `in`, and returns those outputs of
 * the request that are wanted. onnx_run_unbound runs the request without the model's bindings. */
enum bp_status onnx_run_graph(const struct onnx_request *r, struct onnx_plan *plan,
                              struct onnx_use *use, struct onnx_last *last,
                              struct bp_tensor *const *in, size_t n_in);
enum bp_status onnx_run_unbound(struct onnx_request *r, struct onnx_use *use,
                                struct onnx_last *last);
/* Stores the facts of a run that has ended. */
void onnx_run_note(struct bp_model *model, struct onnx_plan *plan, enum bp_status status,
                   struct onnx_last *last);
/* Checks that the tensor given for output i has the type of the tensor `like`. */
enum bp_status onnx_check_given(const struct onnx_request *r, uint32_t i, struct bp_tensor *like);
/* Returns the tensor that is given for a wanted output, or NULL. */
struct bp_tensor *onnx_given(const struct onnx_request *r, uint32_t i);

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
