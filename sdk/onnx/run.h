/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: declares the start and the end of a walk over a model's nodes. */
#ifndef BP_ONNX_RUN_H
#define BP_ONNX_RUN_H

#include "onnx.h"

/* Initialises a walk whose slots hold the constants of the model. The caller calls finish, also
 * after init has failed. */
enum bp_status onnx_run_init(struct onnx_run *run, struct bp_model *model,
                             struct bp_stream *stream, struct onnx_use *use);
void onnx_run_finish(struct onnx_run *run);

#endif
