/* SPDX-License-Identifier: Apache-2.0 */
/* proto.c: writes messages of protobuf: numbers in groups of seven bits, and fields of bytes. */
#include "ort.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_NUMBER = 0, WIRE_BYTES = 2, WIRE_FLOAT = 5 };

static void proto_put(struct ort_proto *p, const void *data, size_t size)
{
    size_t room = p->room;
    uint8_t *grown;

    if (p->failed) return;
    if (size > room - p->n) {
        room = 2 * (room + size) + 64;
        grown = realloc(p->at, room);
        if (!grown) {
            ort_proto_finish(p);
            p->failed = true;
            return;
        }
        p->at = grown;
        p->room = room;
    }
    if (size) memcpy(p->at + p->n, data, size);
    p->n += size;
}

static void proto_varint(struct ort_proto *p, uint64_t value)
{
    uint8_t text[10];
    size_t n = 0;

    for (; value >> 7; value >>= 7) text[n++] = (uint8_t)(value | 128);
    text[n++] = (uint8_t)value;
    proto_put(p, text, n);
}

static void proto_tag(struct ort_proto *p, uint32_t field, uint32_t wire)
{
    proto_varint(p, (uint64_t)field << 3 | wire);
}

void ort_proto_number(struct ort_proto *p, uint32_t field, int64_t value)
{
    proto_tag(p, field, WIRE_NUMBER);
    proto_varint(p, (uint64_t)value);
}

void ort_proto_float(struct ort_proto *p, uint32_t field, float value)
{
    proto_tag(p, field, WIRE_FLOAT);
    proto_put(p, &value, sizeof value); /* in little endian, as the machines that this runs on */
}

void ort_proto_bytes(struct ort_proto *p, uint32_t field, const void *data, size_t size)
{
    proto_tag(p, field, WIRE_BYTES);
    proto_varint(p, size);
    proto_put(p, data, size);
}

void ort_proto_text(struct ort_proto *p, uint32_t field, const char *text)
{
    ort_proto_bytes(p, field, text, strlen(text));
}

void ort_proto_message(struct ort_proto *p, uint32_t field, struct ort_proto *message)
{
    if (message->failed) {
        ort_proto_finish(p);
        p->failed = true;
    } else ort_proto_bytes(p, field, message->at, message->n);
    ort_proto_finish(message);
}

void ort_proto_finish(struct ort_proto *p)
{
    free(p->at);
    *p = (struct ort_proto){.failed = p->failed};
}
