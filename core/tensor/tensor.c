/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c: creates and destroys tensors, returns their properties, and checks whether a tensor may
 * be written; view.c has the views. */
#include "tensor.h"
#include "../memory/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* On a device with handles the view's data is an offset, stored as a pointer. */
static void *tensor_address(const struct bp_buffer *buffer, uint64_t offset)
{
    return (void *)((uintptr_t)buffer->memory.data + offset);
}

static int64_t tensor_count_of(const struct bp_extents *extents)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < extents->rank; i++)
        if (extents->shape[i] == 0) return 0;
    for (uint32_t i = 0; i < extents->rank; i++) count *= extents->shape[i];
    return count;
}

static bool is_frozen(const struct bp_buffer *buffer)
{
    return atomic_load_explicit(&buffer->access, memory_order_acquire) == BP_ACCESS_FROZEN;
}

static void fill_view(struct bp_tensor *t, uint32_t dtype, const struct bp_extents *extents)
{
    bool contiguous = bp_strides_are_contiguous(extents->rank, t->shape, t->stride);
    int64_t count = tensor_count_of(extents);

    t->view = (struct bp_view){
        .data = count ? tensor_address(t->buffer, t->offset) : NULL,
        .memory = t->buffer->memory.handle,
        .shape = t->shape,
        .stride = t->stride,
        .count = count,
        .dtype = (uint8_t)dtype,
        .rank = (uint8_t)extents->rank,
        .flags = (uint8_t)((contiguous ? 0 : BP_VIEW_STRIDED) |
                           (is_frozen(t->buffer) ? BP_VIEW_CONSTANT : 0)),
        .space = (uint8_t)t->buffer->space,
        .device = (uint16_t)t->device->index,
    };
    t->sig = bp_tensor_full_signature(t);
}

void bp_tensor_set_place(struct bp_tensor *t, struct bp_buffer *buffer, uint64_t offset)
{
    uint32_t frozen = is_frozen(buffer) ? BP_VIEW_CONSTANT : 0;
    struct bp_buffer *before = t->buffer;

    if (buffer != before) bp_buffer_retain(buffer);
    t->buffer = buffer;
    t->offset = offset;
    t->view.data = t->view.count ? tensor_address(buffer, offset) : NULL;
    t->view.memory = buffer->memory.handle;
    if ((t->view.flags & BP_VIEW_CONSTANT) != frozen || t->view.space != buffer->space) {
        t->view.flags = (uint8_t)((t->view.flags & ~(uint32_t)BP_VIEW_CONSTANT) | frozen);
        t->view.space = buffer->space;
        t->sig = bp_tensor_full_signature(t);
    }
    if (buffer != before) bp_buffer_release(before);
}

enum { LINE = 64 };
_Static_assert(sizeof(struct bp_tensor) + LINE <= BP_STORAGE_ROOM, "a tensor fits");

/* A tensor that is created together with its buffer is stored in the buffer: it needs no
 * allocation. */
static struct bp_tensor *tensor_in_buffer(struct bp_buffer *buffer)
{
    uintptr_t room = ((uintptr_t)buffer->room + LINE - 1) & ~(uintptr_t)(LINE - 1);

    return (struct bp_tensor *)room;
}

bool bp_tensor_is_in_buffer(const struct bp_tensor *tensor)
{
    return tensor == tensor_in_buffer(tensor->buffer);
}

static void tensor_init(struct bp_tensor *t, struct bp_buffer *buffer, uint64_t offset)
{
    t->magic = bp_magic(BP_MAGIC_TENSOR);
    atomic_init(&t->refs, 1);
    t->buffer = buffer;
    t->device = buffer->device;
    t->offset = offset;
    t->graph = NULL;
}

static void tensor_init_view(struct bp_tensor *t, struct bp_buffer *buffer, uint32_t dtype,
                             const struct bp_extents *extents, uint64_t offset)
{
    tensor_init(t, buffer, offset);
    memcpy(t->shape, extents->shape, extents->rank * sizeof *t->shape);
    memcpy(t->stride, extents->stride, extents->rank * sizeof *t->stride);
    fill_view(t, dtype, extents);
}

enum bp_status bp_tensor_create_inside(struct bp_buffer *buffer, uint32_t dtype,
                                       const struct bp_extents *extents, uint64_t offset,
                                       struct bp_tensor **out_tensor)
{
    struct bp_tensor *t = calloc(1, sizeof *t);

    if (!t) return bp_error(BP_ERR_MEMORY, "no host memory for a tensor");
    tensor_init_view(t, buffer, dtype, extents, offset);
    *out_tensor = t;
    return BP_OK;
}

enum bp_status bp_not_a_tensor(const char *call, const struct bp_tensor *tensor)
{
    if (!bp_handle_was_stale() && bp_symbol_is(tensor))
        return bp_error(BP_ERR_INVALID,
                        "%s: expected a tensor, got a value of a graph, which has no memory: give "
                        "an output of a run of the graph (bp_graph_run)",
                        call);
    return bp_not_a_for(call, "tensor");
}

/* Creates a tensor together with its buffer. */
static enum bp_status tensor_create_alone(struct bp_device *device, struct bp_timeline *owner,
                                          uint32_t dtype, const struct bp_extents *extents,
                                          uint64_t bytes, uint32_t space,
                                          struct bp_tensor **out_tensor)
{
    struct bp_buffer *buffer;
    struct bp_tensor *t;

    if (!(device->properties.dtypes >> dtype & 1))
        return bp_error(BP_ERR_UNSUPPORTED, "tensor: %s does not hold %s", device->name,
                        bp_dtype_name(dtype));
    TRY(bp_buffer_allocate(device, owner ? owner : device->host, space, bytes, &buffer));
    t = tensor_in_buffer(buffer);
    tensor_init_view(t, buffer, dtype, extents, 0);
    *out_tensor = t;
    return BP_OK;
}

enum bp_status bp_tensor_create_typed(struct bp_device *device, struct bp_timeline *owner,
                                      const struct bp_type *type, struct bp_tensor **out_tensor)
{
    struct bp_extents extents = {.rank = type->rank};
    int64_t count;
    uint64_t bytes;

    TRY(bp_type_check("tensor", "", type, &count, &bytes));
    memcpy(extents.shape, type->shape, type->rank * sizeof *type->shape);
    bp_type_strides(type->rank, extents.shape, extents.stride);
    return tensor_create_alone(device, owner, type->dtype, &extents, bytes, BP_SPACE_DEVICE,
                               out_tensor);
}

/* The type was checked and signed when the call was prepared. If the type was not used for a long
 * time, only one cache line of it is read. */
struct bp_tensor *bp_tensor_init_like(struct bp_buffer *buffer, const struct bp_typed_view *like,
                                      uint64_t sig)
{
    struct bp_tensor *t = tensor_in_buffer(buffer);

    tensor_init(t, buffer, 0);
    t->view = like->view;
    t->view.data = buffer->memory.data;
    t->view.memory = buffer->memory.handle;
    t->view.shape = t->shape;
    t->view.stride = t->stride;
    t->sig = sig;
    for (uint32_t i = 0; i < like->view.rank; i++) t->shape[i] = like->shape[i];
    /* Row-major strides are faster to compute than to read. */
    if (like->view.flags & BP_VIEW_STRIDED)
        memcpy(t->stride, like->stride, like->view.rank * sizeof *t->stride);
    else bp_type_strides(like->view.rank, t->shape, t->stride);
    return t;
}

enum bp_status bp_tensor_create_like(struct bp_device *device, struct bp_timeline *owner,
                                     const struct bp_typed_view *like,
                                     struct bp_tensor **out_tensor)
{
    struct bp_buffer *buffer;

    TRY(bp_buffer_allocate(device, owner ? owner : device->host, BP_SPACE_DEVICE, like->bytes,
                           &buffer));
    *out_tensor = bp_tensor_init_like(buffer, like, like->sig);
    return BP_OK;
}

struct symbol {
    struct bp_tensor tensor; /* first */
    void (*release)(struct bp_graph *graph);
};

enum bp_status bp_tensor_create_symbol(struct bp_graph *graph, uint32_t value,
                                       const struct bp_view *type,
                                       void (*release)(struct bp_graph *graph),
                                       struct bp_tensor **out_tensor)
{
    struct symbol *symbol = calloc(1, sizeof *symbol);
    struct bp_tensor *t;

    if (!symbol) return bp_error(BP_ERR_MEMORY, "no host memory for a tensor");
    symbol->release = release;
    t = &symbol->tensor;
    t->view = *type;
    t->view.shape = t->shape;
    t->view.stride = t->stride;
    memcpy(t->shape, type->shape, type->rank * sizeof *t->shape);
    memcpy(t->stride, type->stride, type->rank * sizeof *t->stride);
    t->magic = bp_magic(BP_MAGIC_SYMBOL);
    atomic_init(&t->refs, 1);
    t->graph = graph;
    t->value = value;
    *out_tensor = t;
    return BP_OK;
}

enum bp_status bp_tensor_narrow(struct bp_tensor *t, uint32_t axis, int64_t extent)
{
    uint32_t dtype = t->view.dtype;
    struct bp_extents extents = {.rank = t->view.rank};

    if (axis >= extents.rank || extent < 0 || extent > t->shape[axis])
        return bp_error(BP_ERR_PLUGIN,
                        "a kernel answered that axis %u has %" PRId64 " elements: expected 0 to "
                        "%" PRId64,
                        axis, extent, axis < extents.rank ? t->shape[axis] : 0);
    t->shape[axis] = extent;
    memcpy(extents.shape, t->shape, sizeof extents.shape);
    fill_view(t, dtype, &extents);
    return BP_OK;
}

enum bp_status bp_tensor_create(struct bp_device *device, enum bp_dtype dtype, uint32_t rank,
                                const int64_t *shape, struct bp_tensor **out_tensor)
{
    struct bp_type type = {.dtype = dtype, .rank = rank};

    if (!bp_device_is(device)) return bp_not_a("device");
    if (!out_tensor || (rank && !shape))
        return bp_error(BP_ERR_INVALID, "bp_tensor_create: shape or out_tensor is NULL");
    if (rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "bp_tensor_create: rank is %u, expected at most %d", rank,
                        BP_RANK_MAX);
    if (rank) memcpy(type.shape, shape, rank * sizeof *shape);
    return bp_tensor_create_typed(device, NULL, &type, out_tensor);
}

enum bp_status bp_strides_last_element(const char *call, uint32_t rank, const int64_t *shape,
                                       const int64_t *stride, int64_t *out_last)
{
    int64_t last = 0, step;

    for (uint32_t i = 0; i < rank; i++) {
        if (stride[i] < 0)
            return bp_error(BP_ERR_INVALID, "%s: stride %u is %" PRId64 ", expected 0 or more",
                            call, i, stride[i]);
        if (shape[i] > 0 && (__builtin_mul_overflow(shape[i] - 1, stride[i], &step) ||
                             __builtin_add_overflow(last, step, &last)))
            return bp_error(BP_ERR_INVALID, "%s: shape and strides reach past 63 bits", call);
    }
    *out_last = last;
    return BP_OK;
}

/* Reads strides of the caller. */
static enum bp_status layout_read_strides(const char *call, const int64_t *stride,
                                          struct bp_tensor_layout *l)
{
    int64_t last, width = bp_dtype_bits(l->type.dtype) / 8, bytes;

    memcpy(l->extents.stride, stride, l->type.rank * sizeof *stride);
    TRY(bp_strides_last_element(call, l->type.rank, l->extents.shape, l->extents.stride, &last));
    if (last == INT64_MAX || __builtin_mul_overflow(last + 1, width, &bytes))
        return bp_error(BP_ERR_INVALID, "%s: shape and strides reach past 63 bits", call);
    l->bytes = l->count ? (uint64_t)bytes : 0;
    return BP_OK;
}

enum bp_status bp_layout_read(const char *call, const struct bp_tensor_options *o,
                              struct bp_tensor_layout *l)
{
    if (o->size < offsetof(struct bp_tensor_options, stride) || o->size > 4096)
        return bp_error(BP_ERR_INVALID,
                        "%s: options->size is %zu: set it to sizeof(struct bp_tensor_options)",
                        call, o->size);
    if (o->rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "%s: rank is %u, expected at most %d", call, o->rank,
                        BP_RANK_MAX);
    if (o->rank && !o->shape) return bp_error(BP_ERR_INVALID, "%s: shape is NULL", call);
    if (BP_HAS(o, space) && o->space > BP_SPACE_MANAGED)
        return bp_error(BP_ERR_INVALID, "%s: %u is no memory space (enum bp_space)", call,
                        o->space);
    *l = (struct bp_tensor_layout){.type = {.dtype = o->dtype, .rank = o->rank},
                            .extents = {.rank = o->rank}};
    if (o->rank) memcpy(l->type.shape, o->shape, o->rank * sizeof *o->shape);
    memcpy(l->extents.shape, l->type.shape, sizeof l->type.shape);
    TRY(bp_type_check(call, "", &l->type, &l->count, &l->bytes));
    if (o->rank && BP_HAS(o, stride) && o->stride) return layout_read_strides(call, o->stride, l);
    bp_type_strides(o->rank, l->extents.shape, l->extents.stride);
    return BP_OK;
}

/* Checks that no two elements share memory. */
static enum bp_status layout_check_apart(const char *call, const struct bp_tensor_layout *l)
{
    struct bp_view view = {.shape = l->extents.shape, .stride = l->extents.stride,
                           .rank = (uint8_t)l->type.rank, .count = l->count};

    if (!bp_view_overlaps_itself(&view)) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "%s: the strides may give one place to two elements: expected those of a dense "
                    "tensor, its axes in any order, with gaps or without",
                    call);
}

static enum bp_status tensor_check_stream(const char *call, const struct bp_device *device,
                                          const struct bp_tensor_options *o)
{
    if (!BP_HAS(o, stream) || !o->stream) return BP_OK;
    if (!bp_stream_is(o->stream)) return bp_not_a_for(call, "stream");
    if (o->stream->device != device)
        return bp_error(BP_ERR_INVALID, "%s: the stream is of %s%s, the device is %s", call,
                        o->stream->device->name, bp_device_qualifier(o->stream->device, device),
                        device->name);
    return BP_OK;
}

enum bp_status bp_tensor_create_with(struct bp_device *device,
                                     const struct bp_tensor_options *options,
                                     struct bp_tensor **out_tensor)
{
    static const char call[] = "bp_tensor_create_with";
    struct bp_timeline *owner = NULL;
    struct bp_tensor_layout l;

    if (!bp_device_is(device)) return bp_not_a_for(call, "device");
    if (!options || !out_tensor)
        return bp_error(BP_ERR_INVALID, "%s: options or out_tensor is NULL", call);
    TRY(bp_layout_read(call, options, &l));
    TRY(layout_check_apart(call, &l));
    TRY(tensor_check_stream(call, device, options));
    if (BP_HAS(options, stream) && options->stream) owner = options->stream->timeline;
    return tensor_create_alone(device, owner, l.type.dtype, &l.extents, l.bytes,
                               BP_HAS(options, space) ? options->space : BP_SPACE_DEVICE,
                               out_tensor);
}

enum bp_status bp_tensor_freeze(struct bp_tensor *tensor)
{
    if (!bp_tensor_is(tensor)) return bp_not_a_tensor(__func__, tensor);
    if (atomic_load_explicit(&tensor->buffer->access, memory_order_acquire) != BP_ACCESS_FROZEN)
        TRY(bp_device_synchronize(tensor->device)); /* plans may read the contents from now on */
    TRY(bp_buffer_settle(tensor->buffer));
    bp_tensor_set_frozen(tensor);
    return BP_OK;
}

void bp_tensor_set_frozen(struct bp_tensor *tensor)
{
    atomic_store_explicit(&tensor->buffer->access, BP_ACCESS_FROZEN, memory_order_release);
    if (tensor->view.flags & BP_VIEW_CONSTANT) return; /* other threads may use the tensor */
    tensor->view.flags |= BP_VIEW_CONSTANT;
    tensor->sig = bp_tensor_signature(tensor->device, &tensor->view);
}

enum bp_status bp_tensor_check_write(const char *call, const char *output,
                                     const struct bp_tensor *tensor)
{
    uint32_t access = atomic_load_explicit(&tensor->buffer->access, memory_order_acquire);
    const char *what = *output ? ": output " : "";

    if (access == BP_ACCESS_WRITE) return BP_OK;
    if (access == BP_ACCESS_FROZEN)
        return bp_error(BP_ERR_INVALID,
                        "%s%s%s: the tensor's memory is frozen (bp_tensor_freeze): its contents do "
                        "not change; write to another tensor",
                        call, what, output);
    return bp_error(BP_ERR_INVALID,
                    "%s%s%s: the tensor's memory was imported for reading only; copy it to a "
                    "tensor of its own first (bp_tensor_copy)",
                    call, what, output);
}

/* On a device with handles, pinned and managed memory has a host address in addition to the handle
 * that kernels use. No copy of the core uses this address. */
static bool is_mapped(const struct bp_tensor *t)
{
    bool handles = t->device->properties.flags & BP_DEVICE_HANDLES;

    return handles ? t->buffer->space != BP_SPACE_DEVICE : bp_tensor_host_visible(t);
}

static void *host_data(const struct bp_tensor *t)
{
    char *first = bp_buffer_host_address(t->buffer);

    return first && t->view.count ? first + t->offset : NULL;
}

/* Later writes of the host through the address cannot be observed, so the map itself counts as a
 * write. */
enum bp_status bp_tensor_map(struct bp_tensor *tensor, void **out_data)
{
    if (!bp_tensor_is(tensor)) return bp_not_a_tensor(__func__, tensor);
    if (!out_data) return bp_error(BP_ERR_INVALID, "bp_tensor_map: out_data is NULL");
    if (!is_mapped(tensor))
        return bp_error(BP_ERR_UNSUPPORTED,
                        "bp_tensor_map: the host cannot touch this memory of %s; bp_tensor_read "
                        "copies it, BP_SPACE_PINNED memory can be mapped where the device has it",
                        tensor->device->name);
    TRY(bp_buffer_keep_contents(tensor->buffer));
    TRY(bp_buffer_expose(tensor->buffer));
    TRY(bp_device_synchronize(tensor->device));
    if (atomic_load(&tensor->buffer->access) == BP_ACCESS_WRITE) bp_tensor_record_write(tensor);
    *out_data = host_data(tensor);
    return BP_OK;
}

void bp_tensor_destroy(struct bp_tensor *tensor)
{
    if (!bp_tensor_is(tensor) && !bp_symbol_is(tensor)) return;
    if (atomic_load_explicit(&tensor->refs, memory_order_acquire) != 1 &&
        atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) != 1)
        return; /* a sole owner needs no read-modify-write */
    tensor->magic = 0;
    tensor->sig = 0;
    if (tensor->graph) {
        ((struct symbol *)tensor)->release(tensor->graph);
        free(tensor);
    } else {
        struct bp_buffer *buffer = tensor->buffer;
        if (!bp_tensor_is_in_buffer(tensor)) free(tensor);
        bp_buffer_release(buffer);
    }
}

uint64_t bp_view_span(const struct bp_view *view)
{
    int64_t last = 0;

    if (view->count == 0) return 0;
    for (uint32_t i = 0; i < view->rank; i++) last += (view->shape[i] - 1) * view->stride[i];
    return (uint64_t)(last + 1) * (bp_dtype_bits(view->dtype) / 8);
}

static void describe_source(const struct bp_tensor *t, struct bp_tensor_info *info)
{
    bool dropped, kept;

    bp_source_describe(t->buffer, &kept, &dropped, &info->restores);
    info->dropped = dropped;
    if (!kept) info->data = NULL;
}

enum bp_status bp_tensor_get_info(struct bp_tensor *tensor, struct bp_tensor_info *out)
{
    struct bp_tensor_info info = {.size = sizeof info};

    if (!bp_symbol_is(tensor) && !bp_tensor_is(tensor)) return bp_not_a("tensor");
    info.device = tensor->device;
    info.shape = tensor->shape;
    info.stride = tensor->stride;
    info.count = tensor->view.count;
    info.bytes = (uint64_t)info.count * (bp_dtype_bits(tensor->view.dtype) / 8);
    info.dtype = tensor->view.dtype;
    info.rank = tensor->view.rank;
    info.contiguous = !(tensor->view.flags & BP_VIEW_STRIDED);
    if (tensor->graph) return bp_info_fill(out, &info, sizeof info);
    info.data = is_mapped(tensor) ? host_data(tensor) : NULL;
    if (tensor->buffer->source) describe_source(tensor, &info);
    if (bp_device_has_writebacks(tensor->device) && bp_writeback_is_pending(tensor->buffer))
        info.data = NULL;
    info.space = tensor->buffer->space;
    info.offset = tensor->offset;
    info.buffer = tensor->buffer->id;
    info.version = atomic_load(&tensor->buffer->version);
    info.frozen = is_frozen(tensor->buffer);
    return bp_info_fill(out, &info, sizeof info);
}
