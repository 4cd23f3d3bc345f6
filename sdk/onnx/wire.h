/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h: declares how the fields of a serialised message are read one by one. */
#ifndef BP_ONNX_WIRE_H
#define BP_ONNX_WIRE_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes of a message: all from `begin` to `end`; `at` is the next one. */
struct wire {
    const uint8_t *begin, *at, *end;
    const char *what; /* for the whole file: its name in messages */
};

/* Reads a base-128 number of at most 10 bytes. */
bool wire_take_number(struct wire *w, uint64_t *out);

/* Reads the length of a field's contents, and moves *w to where the contents begin. type: the wire
 * type. */
bool wire_take_length(struct wire *w, uint32_t type, uint64_t *out);

#endif
