/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.h: writes a model in ONNX's format for the compiler atc: protobuf, by hand, because the few
 * messages need no library. The numbers of fields and types are those of onnx.proto. */
#ifndef NPU_ONNX_H
#define NPU_ONNX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A message that is being written. Zero at first. */
struct npu_onnx {
    char *at;
    size_t n, room;
    bool failed; /* no memory, or too large for a message */
};

void npu_onnx_free(struct npu_onnx *message);
/* Add a field: an integer, bytes, text, another message (which is freed). */
void npu_onnx_int(struct npu_onnx *to, uint32_t field, int64_t value);
void npu_onnx_bytes(struct npu_onnx *to, uint32_t field, const void *at, size_t n);
void npu_onnx_text(struct npu_onnx *to, uint32_t field, const char *text);
void npu_onnx_message(struct npu_onnx *to, uint32_t field, struct npu_onnx *message);
/* Add an attribute to a node. */
void npu_onnx_attr_int(struct npu_onnx *node, const char *name, int64_t value);
void npu_onnx_attr_float(struct npu_onnx *node, const char *name, double value);
void npu_onnx_attr_ints(struct npu_onnx *node, const char *name, const int64_t *at, size_t n);
/* TensorProto.DataType of a dtype; 0: the plugin writes none. */
int npu_onnx_type(uint32_t dtype);

#endif
