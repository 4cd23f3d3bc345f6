/* SPDX-License-Identifier: Apache-2.0 */
/* borrow.c: unpacks a model without a copy of its large weights. protobuf-c copies all bytes of a
 * message, and the weights are nearly all of a model. So the model is unpacked from a copy of its
 * bytes that leaves out the data of large initialisers; these then point to the model's own
 * bytes. */
#include "wire.h"
#include "onnx.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    BORROW_MIN = 4096,   /* smaller data is copied */
    WRITE_MAX = 16 << 20 /* bytes of a mapped file that are in memory at a time */
};
/* Numbers of fields, from onnx.proto. */
enum {
    MODEL_GRAPH = 7,
    GRAPH_INITIALIZER = 5,
    TENSOR_RAW_DATA = 9,
    BYTES = 2
};

/* A field of bytes: where its length is written, and its contents. */
struct field {
    const uint8_t *length_at, *at, *end;
};

/* An initialiser; data.at is NULL if nothing is left out. */
struct piece {
    struct field tensor, data;
};

struct borrow {
    struct field model, graph;
    struct piece *piece; /* of each initialiser, in order */
    size_t n, room;
    uint8_t *out; /* the next byte of the copy */
};

/* Reads the next field. Returns its number, or 0 at the end. The bytes have been checked. */
static uint64_t borrow_next(struct wire *w, struct field *out)
{
    uint64_t tag, length;

    if (w->at >= w->end || !wire_take_number(w, &tag)) return 0;
    out->length_at = w->at;
    if (!wire_take_length(w, (uint32_t)(tag & 7), &length)) return 0;
    out->at = w->at;
    out->end = w->at += length;
    return (tag & 7) == BYTES ? tag >> 3 : UINT64_MAX;
}

static struct wire wire_in(const struct field *f)
{
    return (struct wire){.begin = f->at, .at = f->at, .end = f->end};
}

/* Finds the data of an initialiser that may be left out: one field of many bytes. */
static struct field borrow_data(const struct field *tensor)
{
    struct wire w = wire_in(tensor);
    struct field next, found = {0};
    uint64_t number;
    int n = 0;

    while ((number = borrow_next(&w, &next)))
        if (number == TENSOR_RAW_DATA && ++n) found = next;
    return n == 1 && found.end - found.at >= BORROW_MIN ? found : (struct field){0};
}

static enum bp_status borrow_add(struct borrow *b, const struct field *tensor)
{
    if (b->n == b->room) {
        size_t room = 2 * b->room + 64;
        struct piece *more = realloc(b->piece, room * sizeof *more);
        if (!more) return onnx_no_memory();
        b->piece = more;
        b->room = room;
    }
    b->piece[b->n++] = (struct piece){*tensor, borrow_data(tensor)};
    return BP_OK;
}

/* Finds the initialisers. A model whose graph is in several fields has none here. */
static enum bp_status borrow_find(struct borrow *b)
{
    struct wire w = wire_in(&b->model);
    struct field next;
    uint64_t number;
    int graphs = 0;

    while ((number = borrow_next(&w, &next)))
        if (number == MODEL_GRAPH && ++graphs) b->graph = next;
    if (graphs != 1) return BP_OK;
    w = wire_in(&b->graph);
    while ((number = borrow_next(&w, &next)))
        if (number == GRAPH_INITIALIZER) TRY(borrow_add(b, &next));
    return BP_OK;
}

static size_t number_size(uint64_t n)
{
    size_t size = 1;

    for (; n >> 7; n >>= 7) size++;
    return size;
}

static void borrow_put_number(struct borrow *b, uint64_t n)
{
    for (; n >> 7; n >>= 7) *b->out++ = (uint8_t)(n | 128);
    *b->out++ = (uint8_t)n;
}

static void borrow_put(struct borrow *b, const uint8_t *from, const uint8_t *to)
{
    memcpy(b->out, from, (size_t)(to - from));
    b->out += to - from;
}

/* The size of a tensor without its data, whose field then has a length of 0. */
static size_t tensor_size(const struct piece *p)
{
    size_t data = (size_t)(p->data.end - p->data.length_at);

    return (size_t)(p->tensor.end - p->tensor.at) - data + 1;
}

static size_t graph_size(const struct borrow *b)
{
    size_t size = (size_t)(b->graph.end - b->graph.at);

    for (size_t i = 0; i < b->n; i++) {
        const struct piece *p = &b->piece[i];
        if (!p->data.at) continue;
        size -= (size_t)(p->tensor.end - p->tensor.length_at);
        size += number_size(tensor_size(p)) + tensor_size(p);
    }
    return size;
}

/* Writes the model without the data of large initialisers. */
static void borrow_copy(struct borrow *b)
{
    const uint8_t *from = b->graph.at;

    borrow_put(b, b->model.at, b->graph.length_at);
    borrow_put_number(b, graph_size(b));
    for (size_t i = 0; i < b->n; i++) {
        const struct piece *p = &b->piece[i];
        if (!p->data.at) continue;
        borrow_put(b, from, p->tensor.length_at);
        borrow_put_number(b, tensor_size(p));
        borrow_put(b, p->tensor.at, p->data.length_at);
        borrow_put_number(b, 0);
        borrow_put(b, p->data.end, p->tensor.end);
        from = p->tensor.end;
    }
    borrow_put(b, from, b->model.end);
}

static bool borrow_any(const struct borrow *b)
{
    for (size_t i = 0; i < b->n; i++)
        if (b->piece[i].data.at) return true;
    return false;
}

/* Unpacks the model from its copy, and lets its initialisers point to the data. */
static enum bp_status borrow_unpack(struct borrow *b, Onnx__ModelProto **out_proto)
{
    size_t room = (size_t)(b->model.end - b->model.at) - (size_t)(b->graph.end - b->graph.at) +
                  graph_size(b);
    uint8_t *copy = malloc(room); /* the graph's length needs no more bytes than before */
    enum bp_status status;

    if (!copy) return onnx_no_memory();
    b->out = copy;
    borrow_copy(b);
    status = onnx_unpack(&onnx__model_proto__descriptor, copy, (size_t)(b->out - copy), "model",
                         out_proto);
    free(copy);
    for (size_t i = 0; i < b->n && status == BP_OK; i++) {
        Onnx__TensorProto *t = (*out_proto)->graph->initializer[i];
        const struct field *data = &b->piece[i].data;
        if (data->at) /* only read; onnx_return_data takes it back */
            t->raw_data = (ProtobufCBinaryData){(size_t)(data->end - data->at),
                                                (uint8_t *)data->at};
    }
    return status;
}

enum bp_status onnx_unpack_model(const void *data, size_t size, Onnx__ModelProto **out_proto)
{
    const uint8_t *at = data;
    struct borrow b = {.model = {at, at, at + size}};
    enum bp_status status;

    TRY(onnx_wire_check(&onnx__model_proto__descriptor, data, size, "model"));
    status = borrow_find(&b);
    if (status == BP_OK)
        status = borrow_any(&b)
                     ? borrow_unpack(&b, out_proto)
                     : onnx_unpack(&onnx__model_proto__descriptor, data, size, "model", out_proto);
    free(b.piece);
    return status;
}

bool onnx_is_borrowed(const struct bp_model *model, const void *at)
{
    uintptr_t begin = (uintptr_t)model->bytes;

    return (uintptr_t)at >= begin && (uintptr_t)at < begin + model->n_bytes;
}

/* Frees the memory of the whole pages of these bytes, which are not read again. */
static void borrow_drop(const struct bp_model *model, const uint8_t *at, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = ((uintptr_t)at + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)at + size) / page * page;

    if (model->is_mapped && onnx_is_borrowed(model, at) && end > begin)
        (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}

enum bp_status onnx_write_data(struct bp_model *model, struct bp_stream *stream,
                               const uint8_t *data, struct bp_tensor *out)
{
    struct bp_tensor_info info = {.size = sizeof info};
    int64_t width, step, one = 1;

    TRY(bp_tensor_get_info(out, &info));
    if (info.bytes <= WRITE_MAX) return bp_tensor_write(stream, out, data, info.bytes);
    width = (int64_t)info.bytes / info.count;
    step = WRITE_MAX / width;
    for (int64_t i = 0; i < info.count; i += step) {
        int64_t n = info.count - i < step ? info.count - i : step;
        uint64_t bytes = (uint64_t)(n * width);
        struct bp_tensor *part;
        enum bp_status status;
        TRY(bp_tensor_view(out, i, 1, &n, &one, &part));
        status = bp_tensor_write(stream, part, data + i * width, bytes);
        bp_tensor_destroy(part);
        if (status) return status;
        borrow_drop(model, data + i * width, bytes);
    }
    return BP_OK;
}

void onnx_return_data(struct bp_model *model, Onnx__TensorProto *t)
{
    if (onnx_is_borrowed(model, t->raw_data.data))
        borrow_drop(model, t->raw_data.data, t->raw_data.len);
    else free(t->raw_data.data); /* as protobuf-c's default allocator frees it */
    t->raw_data = (ProtobufCBinaryData){0, NULL};
}

void onnx_return_all(struct bp_model *model)
{
    const Onnx__GraphProto *graph = model->proto ? model->proto->graph : NULL;

    for (size_t i = 0; graph && i < graph->n_initializer; i++)
        if (onnx_is_borrowed(model, graph->initializer[i]->raw_data.data))
            onnx_return_data(model, graph->initializer[i]);
    model->bytes = NULL;
    model->n_bytes = 0;
}
