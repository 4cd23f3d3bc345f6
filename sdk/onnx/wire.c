/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c: checks the bytes of a serialised model and unpacks them. protobuf-c recurses without a
 * limit for nested messages, so a small file could overflow the stack, and it reports errors
 * without their place. This check bounds the depth and names the place. Wire format: the Protocol
 * Buffers encoding guide. */
#include "wire.h"
#include "onnx.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NESTING_MAX = 128 };

bool wire_take_number(struct wire *w, uint64_t *out)
{
    uint64_t value = 0;

    for (int shift = 0; shift < 70 && w->at < w->end; shift += 7) {
        uint8_t byte = *w->at++;
        value |= shift < 64 ? (uint64_t)(byte & 127) << shift : 0;
        if (byte & 128) continue;
        *out = value;
        return true;
    }
    return false;
}

static bool begins_with(const struct wire *file, const char *bytes)
{
    size_t n = strlen(bytes);

    return (size_t)(file->end - file->begin) >= n && !memcmp(file->begin, bytes, n);
}

static bool is_text(const struct wire *file)
{
    const uint8_t *at = file->begin;

    for (; at < file->end && at < file->begin + 64; at++)
        if (*at > '~' || (*at < ' ' && !strchr("\t\r\n", *at)) || !*at) return false;
    return true;
}

/* Returns a hint if the first bytes are those of another format, otherwise "". */
static const char *wire_guess(const struct wire *file)
{
    static const struct {
        const char *first, *guess;
    } formats[] = {
        {"version https://git-lfs", "; it is a pointer of Git LFS: `git lfs pull` gets the file"},
        {"<", "; it looks like a web page, not a model: download the file itself"},
        {"PK\3\4", "; it is a zip archive: unpack it first"},
        {"\x1f\x8b", "; it is compressed by gzip: unpack it first"},
        {"\x7f" "ELF", "; it is a program or a library, no model"},
    };

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (begins_with(file, formats[i].first)) return formats[i].guess;
    return is_text(file) ? "; it is text, and ONNX models are binary files" : "";
}

static enum bp_status wire_broken(const struct wire *w, const struct wire *file,
                                  const ProtobufCMessageDescriptor *message, const char *what)
{
    const char *guess = wire_guess(file);

    return onnx_error(BP_ERR_INVALID, "%.200s: byte %zu, in %s: %s%s", file->what,
                      (size_t)(w->at - file->begin), message->short_name, what,
                      *guess ? guess : "; the file is damaged, or no ONNX file");
}

/* The field at w->at has `length` bytes, more than the message that holds it. */
static enum bp_status wire_too_long(const struct wire *w, const struct wire *file,
                                    const ProtobufCMessageDescriptor *message, uint64_t length)
{
    uint64_t left = (uint64_t)(file->end - w->at);

    if (length <= left || *wire_guess(file))
        return wire_broken(w, file, message, "a field is longer than what holds it");
    return onnx_error(BP_ERR_INVALID,
                      "%.200s: byte %zu, in %s: a field is longer than what holds it: it has "
                      "%" PRIu64 " bytes, but %" PRIu64 " follow; the file is incomplete, or no "
                      "ONNX file",
                      file->what, (size_t)(w->at - file->begin), message->short_name, length, left);
}

static uint32_t wire_type_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return 5;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return 1;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return 2;
    default: return 0;
    }
}

bool wire_take_length(struct wire *w, uint32_t type, uint64_t *out)
{
    struct wire number = *w;

    switch (type) {
    case 0:
        if (!wire_take_number(&number, out)) return false;
        *out = (uint64_t)(number.at - w->at);
        return true;
    case 1: *out = 8; break;
    case 2:
        if (!wire_take_number(w, out)) return false;
        break;
    case 5: *out = 4; break;
    default: return false;
    }
    return *out <= (uint64_t)(w->end - w->at);
}

static bool is_repeated_number(const ProtobufCFieldDescriptor *field, uint32_t expected)
{
    return field->label == PROTOBUF_C_LABEL_REPEATED && expected != 2;
}

static enum bp_status check_message(struct wire w, const struct wire *file,
                                    const ProtobufCMessageDescriptor *message, int depth);

static enum bp_status check_field(struct wire *w, const struct wire *file,
                                  const ProtobufCMessageDescriptor *message, int depth)
{
    const ProtobufCFieldDescriptor *field;
    uint64_t tag, length = 0;
    uint32_t type, expected;

    if (!wire_take_number(w, &tag) || !(tag >> 3) || tag >> 32)
        return wire_broken(w, file, message, "no field begins here");
    type = (uint32_t)(tag & 7);
    if (!wire_take_length(w, type, &length)) return wire_too_long(w, file, message, length);
    field = protobuf_c_message_descriptor_get_field(message, (unsigned)(tag >> 3));
    if (!field) {
        w->at += length; /* an unknown field of a newer writer is skipped */
        return BP_OK;
    }
    expected = wire_type_of(field);
    if (type != expected && !(type == 2 && is_repeated_number(field, expected)))
        return onnx_error(BP_ERR_INVALID,
                          "%.200s: byte %zu: field %s of %s has wire type %u, expected %u%s",
                          file->what, (size_t)(w->at - file->begin), field->name,
                          message->short_name, type, expected, wire_guess(file));
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        TRY(check_message((struct wire){w->at, w->at, w->at + length, file->what}, file,
                          field->descriptor, depth + 1));
    w->at += length;
    return BP_OK;
}

static enum bp_status check_message(struct wire w, const struct wire *file,
                                    const ProtobufCMessageDescriptor *message, int depth)
{
    if (depth > NESTING_MAX)
        return wire_broken(&w, file, message, "messages are nested more than 128 deep");
    while (w.at < w.end) TRY(check_field(&w, file, message, depth));
    return BP_OK;
}

enum bp_status onnx_wire_check(const ProtobufCMessageDescriptor *message, const void *data,
                               size_t size, const char *what)
{
    struct wire file = {data, data, (const uint8_t *)data + size, what};

    if (!size) return onnx_error(BP_ERR_INVALID, "%.200s: it is empty", what);
    return check_message(file, &file, message, 0);
}

/* Notes if an allocation fails: protobuf-c returns NULL both for bad bytes and for lack of
 * memory. */
static void *unpack_alloc(void *failed, size_t size)
{
    void *at = malloc(size);

    if (!at) *(bool *)failed = true;
    return at;
}

static void unpack_free(void *failed, void *at)
{
    (void)failed;
    free(at);
}

enum bp_status onnx_unpack(const ProtobufCMessageDescriptor *message, const void *data, size_t size,
                           const char *what, void *out_message)
{
    bool failed = false;
    ProtobufCAllocator allocator = {unpack_alloc, unpack_free, &failed};
    ProtobufCMessage *made;

    TRY(onnx_wire_check(message, data, size, what));
    made = protobuf_c_message_unpack(message, &allocator, size, data);
    if (made) {
        memcpy(out_message, &made, sizeof made);
        return BP_OK;
    }
    if (failed)
        return onnx_error(BP_ERR_MEMORY, "%.200s: no memory on the host to unpack its %zu bytes",
                          what, size);
    return onnx_error(BP_ERR_INVALID, "%.200s: it can't be unpacked", what);
}
