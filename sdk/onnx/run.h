/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: values in and out of a walk. */
#ifndef BP_ONNX_RUN_H
#define BP_ONNX_RUN_H

#include "onnx.h"

/* A walk that knows what the model knows. finish, also where init has failed. */
enum bp_status onnx_run_init(struct onnx_run *run, struct bp_model *model,
                             struct bp_stream *stream);
void onnx_run_finish(struct onnx_run *run);

#endif
