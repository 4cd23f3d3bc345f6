/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: declares the functions of the rows of table.def that are more than a change of names. */
#ifndef BP_ONNX_OPS_H
#define BP_ONNX_OPS_H

#include "row.h"

#define MAP(name, since, op, map)
#define ROW(name, since, op, emit) onnx_emit onnx_##emit;
#include "table.def"
#undef MAP
#undef ROW

#endif
