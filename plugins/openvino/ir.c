/* SPDX-License-Identifier: Apache-2.0 */
/* ir.c: writes OpenVINO's intermediate representation; see ir.h. The library infers the types of
 * all outputs anew, so that ports state no extents. */
#include "ir.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNMENT = 64
}; /* of the contents of constants in the block */

/* The names of a dtype as element_type and as precision of a port. */
static const struct {
    const char *type, *precision;
} types[] = {
    [BP_BOOL] = {"boolean", "BOOL"}, [BP_I8] = {"i8", "I8"},       [BP_I16] = {"i16", "I16"},
    [BP_I32] = {"i32", "I32"},       [BP_I64] = {"i64", "I64"},    [BP_U8] = {"u8", "U8"},
    [BP_U16] = {"u16", "U16"},       [BP_U32] = {"u32", "U32"},    [BP_U64] = {"u64", "U64"},
    [BP_F16] = {"f16", "FP16"},      [BP_BF16] = {"bf16", "BF16"}, [BP_F32] = {"f32", "FP32"},
    [BP_F64] = {"f64", "FP64"},
};

const char *ir_type(uint32_t dtype)
{
    return dtype < sizeof types / sizeof *types ? types[dtype].type : NULL;
}

uint32_t ir_bits(uint32_t dtype)
{
    switch (dtype) {
#define X(NAME, name, number, bits, class) \
    case number: return bits;
        BP_DTYPES(X)
#undef X
    default: return 0;
    }
}

enum bp_status ir_begin(struct ir *ir, const struct bp_host *host)
{
    *ir = (struct ir){.host = host};
    ir->layers = open_memstream(&ir->layers_text, &ir->layers_size);
    ir->edges = open_memstream(&ir->edges_text, &ir->edges_size);
    ir->kept = open_memstream(&ir->kept_bytes, &ir->kept_size);
    if (!ir->layers || !ir->edges || !ir->kept) {
        ir_finish(ir);
        return bp_fail(host, BP_ERR_MEMORY, "openvino: no memory for the text of a model");
    }
    fputs("<?xml version=\"1.0\"?>\n<net name=\"backplane\" version=\"11\">\n<layers>\n",
          ir->layers);
    return BP_OK;
}

enum bp_status ir_end(struct ir *ir, const char **out_text, size_t *out_length)
{
    bool failed = ir->failed;

    failed |= fflush(ir->edges) || ferror(ir->edges) || fflush(ir->kept) || ferror(ir->kept);
    if (!failed) fprintf(ir->layers, "</layers>\n<edges>\n%s</edges>\n</net>\n", ir->edges_text);
    failed |= fflush(ir->layers) || ferror(ir->layers);
    if (failed)
        return bp_fail(ir->host, BP_ERR_MEMORY,
                       "openvino: no memory for the text of a model of %" PRIu32 " layers",
                       ir->n_layer);
    *out_text = ir->layers_text;
    *out_length = ir->layers_size;
    return BP_OK;
}

void ir_finish(struct ir *ir)
{
    FILE *const stream[] = {ir->layers, ir->edges, ir->kept};

    for (size_t i = 0; i < sizeof stream / sizeof *stream; i++)
        if (stream[i]) fclose(stream[i]);
    free(ir->layers_text);
    free(ir->edges_text);
    free(ir->kept_bytes);
    free(ir->piece);
}

const char *ir_list(char out[IR_LIST], const int64_t *at, int64_t n)
{
    size_t used = 0;

    *out = 0;
    for (int64_t i = 0; i < n && used < IR_LIST; i++)
        used += (size_t)snprintf(out + used, IR_LIST - used, "%s%" PRId64, i ? "," : "", at[i]);
    return out;
}

/* Replaces the decimal point of the locale, which may have several bytes. */
const char *ir_number(char out[IR_NUMBER], double number)
{
    static const char others[] = "0123456789+-e";
    char text[IR_NUMBER];
    size_t used = 0;

    snprintf(text, sizeof text, "%.9e", number);
    for (const char *c = text; *c;) {
        size_t plain = strspn(c, others);
        memcpy(out + used, c, plain);
        used += plain;
        c += plain;
        if (!*c) break;
        out[used++] = '.';
        c += strcspn(c, others);
    }
    out[used] = 0;
    return out;
}

/* The attributes' format comes from this file's callers, never from a graph. */
struct ir_ref ir_add(struct ir *ir, const char *type, uint32_t opset, uint32_t dtype,
                     const struct ir_ref *in, uint32_t n_in, const char *format, ...)
{
    uint32_t layer = ir->n_layer++;
    va_list args;

    fprintf(ir->layers,
            "<layer id=\"%" PRIu32 "\" name=\"l%" PRIu32 "\" type=\"%s\" version=\"opset%" PRIu32
            "\">",
            layer, layer, type, opset);
    if (format) {
        fputs("<data ", ir->layers);
        va_start(args, format);
        vfprintf(ir->layers, format, args);
        va_end(args);
        fputs("/>", ir->layers);
    }
    if (n_in) fputs("<input>", ir->layers);
    for (uint32_t i = 0; i < n_in; i++) {
        fprintf(ir->layers, "<port id=\"%" PRIu32 "\"/>", i);
        fprintf(ir->edges,
                "<edge from-layer=\"%" PRIu32 "\" from-port=\"%" PRIu32 "\" to-layer=\"%" PRIu32
                "\" to-port=\"%" PRIu32 "\"/>\n",
                in[i].layer, in[i].port, layer, i);
    }
    if (n_in) fputs("</input>", ir->layers);
    if (strcmp(type, "Result"))
        fprintf(ir->layers, "<output><port id=\"%" PRIu32 "\" precision=\"%s\"/></output>", n_in,
                types[dtype].precision);
    fputs("</layer>\n", ir->layers);
    return (struct ir_ref){layer, n_in};
}

struct ir_ref ir_parameter(struct ir *ir, uint32_t dtype, uint32_t rank, const int64_t *shape)
{
    char list[IR_LIST];

    return ir_add(ir, "Parameter", 1, dtype, NULL, 0, "shape=\"%s\" element_type=\"%s\"",
                  ir_list(list, shape, rank), ir_type(dtype));
}

void ir_result(struct ir *ir, struct ir_ref value)
{
    ir_add(ir, "Result", 1, 0, &value, 1, NULL);
}

/* Reserves the bytes of a constant in the block and writes its layer. */
static struct ir_ref add_constant(struct ir *ir, uint32_t dtype, uint32_t rank,
                                  const int64_t *shape, struct ir_piece piece)
{
    char list[IR_LIST];

    if (ir->n_piece == ir->room_piece) {
        uint32_t room = 2 * ir->room_piece + 64;
        struct ir_piece *more = realloc(ir->piece, room * sizeof *more);
        if (!more) {
            ir->failed = true;
            return (struct ir_ref){0, 0};
        }
        ir->piece = more;
        ir->room_piece = room;
    }
    piece.at = ir->block;
    ir->piece[ir->n_piece++] = piece;
    ir->block += (piece.bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return ir_add(ir, "Const", 1, dtype, NULL, 0,
                  "element_type=\"%s\" shape=\"%s\" offset=\"%" PRIu64 "\" size=\"%" PRIu64 "\"",
                  ir_type(dtype), ir_list(list, shape, rank), piece.at, piece.bytes);
}

struct ir_ref ir_constant(struct ir *ir, const struct bp_data_value *value)
{
    uint64_t count = 1;

    for (uint32_t a = 0; a < value->rank; a++) count *= (uint64_t)value->shape[a];
    return add_constant(
        ir, value->dtype, value->rank, value->shape,
        (struct ir_piece){.value = value, .bytes = count * ir_bits(value->dtype) / 8});
}

/* Keeps a copy of the bytes until the block is filled. */
static struct ir_ref keep_constant(struct ir *ir, uint32_t dtype, uint32_t rank,
                                   const int64_t *shape, const void *data, size_t bytes)
{
    long at = ftell(ir->kept);

    if (at < 0 || fwrite(data, 1, bytes, ir->kept) != bytes) ir->failed = true;
    return add_constant(ir, dtype, rank, shape,
                        (struct ir_piece){.bytes = bytes, .kept_at = (size_t)(at < 0 ? 0 : at)});
}

struct ir_ref ir_integers(struct ir *ir, const int64_t *at, int64_t n)
{
    return keep_constant(ir, BP_I64, 1, &n, at, (size_t)n * sizeof *at);
}

struct ir_ref ir_float(struct ir *ir, uint32_t dtype, double number)
{
    float value = (float)number;
    struct ir_ref constant = keep_constant(ir, BP_F32, 0, NULL, &value, sizeof value);

    return dtype == BP_F32 ? constant : ir_convert(ir, constant, dtype);
}

struct ir_ref ir_floats(struct ir *ir, int64_t n, float number)
{
    struct ir_ref one = ir_float(ir, BP_F32, number), in[] = {one, ir_integers(ir, &n, 1)};

    return ir_add(ir, "Broadcast", 3, BP_F32, in, 2, "mode=\"numpy\"");
}

/* Copies the elements of a strided constant in row-major order. */
static void fill_strided(const struct bp_data_value *v, uint64_t bytes, char *to)
{
    size_t size = ir_bits(v->dtype) / 8;

    for (uint64_t i = 0; i < bytes / size; i++) {
        uint64_t rest = i;
        int64_t offset = 0;
        for (uint32_t a = v->rank; a--; rest /= (uint64_t)v->shape[a])
            offset += (int64_t)(rest % (uint64_t)v->shape[a]) * v->stride[a];
        memcpy(to + i * size, (const char *)v->data + offset * (int64_t)size, size);
    }
}

void ir_fill(const struct ir *ir, void *block)
{
    for (uint32_t i = 0; i < ir->n_piece; i++) {
        const struct ir_piece *p = &ir->piece[i];
        char *to = (char *)block + p->at;
        if (!p->value) memcpy(to, ir->kept_bytes + p->kept_at, p->bytes);
        else if (p->value->stride) fill_strided(p->value, p->bytes, to);
        else memcpy(to, p->value->data, p->bytes);
    }
}

struct ir_ref ir_reshape(struct ir *ir, struct ir_ref x, uint32_t dtype, const int64_t *shape,
                         uint32_t rank)
{
    struct ir_ref in[] = {x, ir_integers(ir, shape, rank)};

    return ir_add(ir, "Reshape", 1, dtype, in, 2, "special_zero=\"false\"");
}

struct ir_ref ir_convert(struct ir *ir, struct ir_ref x, uint32_t dtype)
{
    return ir_add(ir, "Convert", 1, dtype, &x, 1, "destination_type=\"%s\"", ir_type(dtype));
}
