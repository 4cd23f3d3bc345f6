/* SPDX-License-Identifier: Apache-2.0 */
/* onnx.c: writes messages of protobuf; see onnx.h. */
#include "onnx.h"

#include <backplane/types.h>
#include <stdlib.h>
#include <string.h>

/* The largest message that readers of protobuf take. */
static const size_t onnx_most = (size_t)INT32_MAX - 4096;
enum {
    VARINT = 0,
    LENGTH = 2,
    FIXED32 = 5
};
enum {
    NODE_ATTRIBUTE = 5,
    ATTR_NAME = 1,
    ATTR_F = 2,
    ATTR_I = 3,
    ATTR_INTS = 8,
    ATTR_TYPE = 20
};

static void onnx_put(struct npu_onnx *to, const void *at, size_t n)
{
    if (to->failed || n > onnx_most - to->n) {
        to->failed = true;
        return;
    }
    if (to->n + n > to->room) {
        size_t room = to->room + to->room / 2 + n + 64;
        char *more = realloc(to->at, room);
        if (!more) {
            to->failed = true;
            return;
        }
        to->at = more;
        to->room = room;
    }
    if (n) memcpy(to->at + to->n, at, n);
    to->n += n;
}

static void onnx_varint(struct npu_onnx *to, uint64_t value)
{
    unsigned char byte;

    for (; value > 127; value >>= 7) {
        byte = (unsigned char)(value | 128);
        onnx_put(to, &byte, 1);
    }
    byte = (unsigned char)value;
    onnx_put(to, &byte, 1);
}

void npu_onnx_free(struct npu_onnx *message)
{
    free(message->at);
    *message = (struct npu_onnx){NULL, 0, 0, false};
}

void npu_onnx_int(struct npu_onnx *to, uint32_t field, int64_t value)
{
    onnx_varint(to, field << 3 | VARINT);
    onnx_varint(to, (uint64_t)value);
}

void npu_onnx_bytes(struct npu_onnx *to, uint32_t field, const void *at, size_t n)
{
    onnx_varint(to, field << 3 | LENGTH);
    onnx_varint(to, n);
    onnx_put(to, at, n);
}

void npu_onnx_text(struct npu_onnx *to, uint32_t field, const char *text)
{
    npu_onnx_bytes(to, field, text, strlen(text));
}

void npu_onnx_message(struct npu_onnx *to, uint32_t field, struct npu_onnx *message)
{
    to->failed |= message->failed;
    npu_onnx_bytes(to, field, message->at, message->n);
    npu_onnx_free(message);
}

void npu_onnx_attr_int(struct npu_onnx *node, const char *name, int64_t value)
{
    struct npu_onnx attr = {.n = 0};

    npu_onnx_text(&attr, ATTR_NAME, name);
    npu_onnx_int(&attr, ATTR_I, value);
    npu_onnx_int(&attr, ATTR_TYPE, 2);
    npu_onnx_message(node, NODE_ATTRIBUTE, &attr);
}

void npu_onnx_attr_float(struct npu_onnx *node, const char *name, double value)
{
    struct npu_onnx attr = {.n = 0};
    float number = (float)value;

    npu_onnx_text(&attr, ATTR_NAME, name);
    onnx_varint(&attr, ATTR_F << 3 | FIXED32);
    onnx_put(&attr, &number, sizeof number);
    npu_onnx_int(&attr, ATTR_TYPE, 1);
    npu_onnx_message(node, NODE_ATTRIBUTE, &attr);
}

void npu_onnx_attr_ints(struct npu_onnx *node, const char *name, const int64_t *at, size_t n)
{
    struct npu_onnx attr = {.n = 0};

    npu_onnx_text(&attr, ATTR_NAME, name);
    for (size_t i = 0; i < n; i++) npu_onnx_int(&attr, ATTR_INTS, at[i]);
    npu_onnx_int(&attr, ATTR_TYPE, 7);
    npu_onnx_message(node, NODE_ATTRIBUTE, &attr);
}

int npu_onnx_type(uint32_t dtype)
{
    static const uint8_t type[] = {[BP_BOOL] = 9, [BP_I8] = 3,   [BP_I32] = 6, [BP_I64] = 7,
                                   [BP_U8] = 2,   [BP_F16] = 10, [BP_F32] = 1};

    return dtype < sizeof type ? type[dtype] : 0;
}
