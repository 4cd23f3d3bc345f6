/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: declares tensors and their types inside the core, views as arithmetic on extents, and
 * transfers between tensors and the host. */
#ifndef BP_TENSOR_PRIVATE_H
#define BP_TENSOR_PRIVATE_H

#include "../memory/writeback.h"
#include "../memory/memory.h"

/* A tensor. The members that kernels read are in the first cache line. */
struct bp_tensor {
    struct bp_view view;
    uint64_t sig; /* see bp_tensor_signature; 0 for a destroyed or symbolic tensor */
    uint32_t magic;
    _Atomic uint32_t refs;
    struct bp_buffer *buffer; /* a reference */
    struct bp_device *device;   /* of the buffer */
    uint64_t offset;            /* bytes from the buffer's first byte */
    struct bp_graph *graph;     /* of a symbolic tensor: a reference; it has no buffer or device */
    uint32_t value;             /* number of the value in the graph */
    int64_t shape[BP_RANK_MAX];
    int64_t stride[BP_RANK_MAX];
};

_Static_assert(offsetof(struct bp_tensor, magic) + sizeof(uint32_t) <= BP_HANDLE_BYTES, "magic");
static inline bool bp_tensor_is(const struct bp_tensor *tensor)
{
    return bp_magic_is(tensor ? tensor->magic : 0, BP_MAGIC_TENSOR);
}
/* Adds a reference, which its owner drops by bp_tensor_destroy. Returns the tensor. */
static inline struct bp_tensor *bp_tensor_retain(struct bp_tensor *tensor)
{
    atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
    return tensor;
}

/* A list of tensors is also a list of views, because a tensor begins with its view. NULL stays
 * NULL. */
static inline const struct bp_view *const *bp_tensor_views(struct bp_tensor *const *list)
{
    _Static_assert(offsetof(struct bp_tensor, view) == 0, "a tensor begins with its view");
    return (const struct bp_view *const *)(const void *)list;
}

static inline bool bp_symbol_is(const struct bp_tensor *tensor)
{
    return bp_magic_is(tensor ? tensor->magic : 0, BP_MAGIC_SYMBOL);
}

/* To be called if bp_tensor_is returned false: returns an error that names the real kind of the
 * handle. A value of a graph is recognized. */
enum bp_status bp_not_a_tensor(const char *call, const struct bp_tensor *tensor);

/* The identity of a constant tensor, for plans that have read its contents; id 0: not constant. */
struct bp_constant {
    uint64_t id, offset;
};
static inline struct bp_constant bp_tensor_constant(const struct bp_tensor *t)
{
    return t->view.flags & BP_VIEW_CONSTANT && t->buffer
               ? (struct bp_constant){t->buffer->id, t->offset}
               : (struct bp_constant){0, 0};
}
static inline bool bp_constant_same(struct bp_constant a, struct bp_constant b)
{
    return a.id == b.id && a.offset == b.offset;
}

/* Returns the signature of a view's type: dtype, rank, flags, space, layout and shape, also strides
 * if they are not row-major. It is keyed by secret numbers of this process, so that an attacker
 * cannot construct two types with one signature. */
extern uint64_t bp_signature_key[2];
uint64_t bp_view_signature(const struct bp_view *view);

/* Mixes one more word into a hash: the 128-bit product, folded to 64 bits (as in wyhash). */
static inline uint64_t bp_signature_mix(uint64_t h, uint64_t word)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(h ^ bp_signature_key[0]) * (word ^ bp_signature_key[1]);

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Returns a number that no other device of the process has. */
uint64_t bp_signature_of_device(void);
/* Returns the signature of a tensor, made of its view and its device. If it equals the signature of
 * a port of a prepared call, then the tensor is a live handle of the call's device and type. */
static inline uint64_t bp_tensor_signature(const struct bp_device *device,
                                           const struct bp_view *view)
{
    return bp_view_signature(view) ^ device->signature;
}

/* The signature of a tensor, which no prepared call has if its contents may be freed (source.h). */
static inline uint64_t bp_tensor_full_signature(const struct bp_tensor *t)
{
    return bp_tensor_signature(t->device, &t->view) ^ (t->buffer->source != NULL);
}

/* restore.c: keeps the contents of the tensors of a call in memory while it runs. Handles that are
 * no tensors are passed over. bp_holds_add holds nothing if it fails. */
enum { BP_HOLDS_MAX = 256 }; /* BP_FLAT_MAX: the most inputs of a call */
struct bp_holds {
    struct bp_buffer *buffer[BP_HOLDS_MAX];
    uint32_t n;
};
enum bp_status bp_holds_add(struct bp_holds *holds, struct bp_tensor *const *tensor, size_t n);
void bp_holds_end(struct bp_holds *holds);

/* The position of a tensor's elements: element (i0, i1, ...) is offset + i0 * stride[0] + ...
 * elements after a point that the context names. */
struct bp_extents {
    uint32_t rank;
    int64_t offset;
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX];
};

/* stride.c. The view functions of tensor.h on extents alone. `from`: extents and strides that a
 * tensor can have, with offset 0. `out`: those of the view, whose offset counts from the tensor's
 * first element; it may be `from`. These functions do not know sizes in bytes: a caller that makes
 * a tensor of the result calls bp_type_check. `call` begins the error message. */
enum bp_status bp_extents_reshape(const char *call, const struct bp_extents *from, uint32_t rank,
                                  const int64_t *shape, struct bp_extents *out);
enum bp_status bp_extents_slice(const char *call, const struct bp_extents *from, int64_t axis,
                                int64_t start, int64_t stop, int64_t step, struct bp_extents *out);
enum bp_status bp_extents_transpose(const char *call, const struct bp_extents *from,
                                    const int64_t *perm, struct bp_extents *out);
enum bp_status bp_extents_expand(const char *call, const struct bp_extents *from, uint32_t rank,
                                 const int64_t *shape, struct bp_extents *out);

/* Whether two views have a common element; their offsets count from one point. The result is exact
 * if a few thousand search steps decide it, as for all views that were cut from one tensor;
 * otherwise it is true. Offsets, and the range of the views, must be below 2^61, as in memory that
 * exists. */
bool bp_extents_overlap(const struct bp_extents *a, const struct bp_extents *b);

/* A type: the properties of a tensor without its data. */
struct bp_type {
    uint32_t dtype, rank;
    int64_t shape[BP_RANK_MAX];
};

/* Checks that a type is valid: rank, dtype, extents, and bytes below 2^63. The error message begins
 * with `what` and the name of an output, or "". */
enum bp_status bp_type_check(const char *what, const char *output, const struct bp_type *type,
                             int64_t *out_count, uint64_t *out_bytes);

/* Computes the row-major strides of a shape; an extent of 0 counts as 1. */
static inline void bp_type_strides(uint32_t rank, const int64_t *shape, int64_t *out_stride)
{
    int64_t stride = 1;

    for (uint32_t i = rank; i-- > 0;) {
        out_stride[i] = stride;
        stride *= shape[i] ? shape[i] : 1;
    }
}

/* Writes a type as text: "f32 [2, 3]". */
const char *bp_type_text(uint32_t dtype, uint32_t rank, const int64_t *shape, char *text,
                         size_t size);
enum { BP_TYPE_TEXT = 224 };

/* Writes a shape as text: "[2, 3]". */
const char *bp_shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size);
enum { BP_SHAPE_TEXT = 200 };

/* Creates a tensor of a type after checking the type. A timeline owns its memory (NULL: the
 * host's). */
enum bp_status bp_tensor_create_typed(struct bp_device *device, struct bp_timeline *owner,
                                      const struct bp_type *type, struct bp_tensor **out_tensor);

/* A type, with the view that represents it in a kernel's prepare; the view's shape and stride are
 * stored beside it. */
struct bp_typed_view {
    struct bp_view view;
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX];
    uint64_t sig, bytes; /* set in prepared calls: signature; bytes of a dense tensor */
};

/* Creates a tensor of a type that was checked and signed before; its layout is that of the type. */
enum bp_status bp_tensor_create_like(struct bp_device *device, struct bp_timeline *owner,
                                     const struct bp_typed_view *like,
                                     struct bp_tensor **out_tensor);
/* Creates such a tensor in a buffer of the type's size that no other thread knows yet; the tensor
 * takes over the buffer. sig: the signature of the type. */
struct bp_tensor *bp_tensor_init_like(struct bp_buffer *buffer, const struct bp_typed_view *like,
                                      uint64_t sig);

/* Creates a symbolic tensor, a value of a graph. On success it takes over a reference to the graph,
 * and calls release to drop it when the tensor is destroyed. */
enum bp_status bp_tensor_create_symbol(struct bp_graph *graph, uint32_t value,
                                       const struct bp_view *type,
                                       void (*release)(struct bp_graph *graph),
                                       struct bp_tensor **out_tensor);

/* Shortens an axis of the tensor in place, for an extent that is known only after the launch. */
enum bp_status bp_tensor_narrow(struct bp_tensor *tensor, uint32_t axis, int64_t extent);

/* Creates a tensor over a buffer, offset bytes from its first byte. Takes over the reference to the
 * buffer on success only. Shape and strides must fit the buffer: they are not checked. */
enum bp_status bp_tensor_create_inside(struct bp_buffer *buffer, uint32_t dtype,
                                       const struct bp_extents *extents, uint64_t offset,
                                       struct bp_tensor **out_tensor);

/* A tensor that bp_tensor_options describes. */
struct bp_tensor_layout {
    struct bp_type type;
    struct bp_extents extents;
    int64_t count;  /* number of elements */
    uint64_t bytes; /* from the first element to the end of the last */
};
/* Checks the options of a function named `call`, except for the stream. The elements of *out may
 * overlap. */
enum bp_status bp_layout_read(const char *call, const struct bp_tensor_options *options,
                              struct bp_tensor_layout *out);

/* Whether the tensor is stored in its buffer, so that it ends with the buffer. */
bool bp_tensor_is_in_buffer(const struct bp_tensor *tensor);

/* Freezes a tensor whose contents are written and complete. */
void bp_tensor_set_frozen(struct bp_tensor *tensor);

/* Makes a tensor that is not stored in its buffer refer to other memory of the same device, and
 * drops its reference to the previous memory. */
void bp_tensor_set_place(struct bp_tensor *tensor, struct bp_buffer *buffer, uint64_t offset);

/* Returns a tensor's extents, counted from its first element. */
void bp_tensor_extents(const struct bp_tensor *tensor, struct bp_extents *out);

/* Returns the index of the last element of a shape and strides, counted from the first element; 0
 * if there is none. BP_ERR_INVALID: a stride is negative, or the index needs more than 63 bits. */
enum bp_status bp_strides_last_element(const char *call, uint32_t rank, const int64_t *shape,
                                       const int64_t *stride, int64_t *out_last);

/* Whether the host may access the tensor's memory by its address, once the work that uses it has
 * ended. */
static inline bool bp_tensor_host_visible(const struct bp_tensor *tensor)
{
    return tensor->buffer->space == BP_SPACE_DEVICE
               ? tensor->device->host_visible
               : !(tensor->device->properties.flags & BP_DEVICE_HANDLES);
}

/* To be called before a write to a tensor. BP_ERR_INVALID: the tensor is frozen, or its memory was
 * imported as read-only. The error message begins with `call` and the name of an output, or "". */
enum bp_status bp_tensor_check_write(const char *call, const char *output,
                                     const struct bp_tensor *tensor);

/* Counts a write to the tensor's memory: its version increases. */
static inline void bp_tensor_record_write(struct bp_tensor *tensor)
{
    bp_buffer_record_write(tensor->buffer);
}

/* Whether two tensors have a common element. */
bool bp_tensors_overlap(const struct bp_tensor *a, const struct bp_tensor *b);

/* copy.c. Copies size > 0 bytes between the host and a tensor, or between two tensors of the
 * stream's device. at: bytes after the tensor's first element. */
enum bp_status bp_copy_in(struct bp_stream *stream, struct bp_tensor *tensor, uint64_t at,
                          const void *host, uint64_t size);
enum bp_status bp_copy_out(struct bp_stream *stream, struct bp_tensor *tensor, uint64_t at,
                           void *host, uint64_t size);
enum bp_status bp_copy_within(struct bp_stream *stream, struct bp_tensor *dst, uint64_t dst_at,
                              struct bp_tensor *src, uint64_t src_at, uint64_t size);

/* queued.c. Transfers on a stream with a queue, as one task, or as none if it is refused. dst or
 * src NULL: that side is host memory. copy: the first byte of both sides, and the size of all
 * elements. move: the layouts; bytes between the elements are not touched. When the call returns,
 * host memory has been read or written. To read host memory, up to BP_STAGED_MAX bytes are copied
 * into the task; otherwise the call waits. Waiting to write a tensor behind other work is
 * counted. */
struct bp_move;
enum bp_status bp_transfer_enqueue(struct bp_stream *stream, const struct bp_move *move,
                                   const struct bp_copy *copy, struct bp_tensor *dst,
                                   struct bp_tensor *src);
enum { BP_STAGED_MAX = 1 << 20 };

/* transfer.c. Copies the elements of src to dst, two tensors of the stream's device that do not
 * overlap. move: their layouts. */
enum bp_status bp_transfer_within(struct bp_stream *stream, const struct bp_move *move,
                                  struct bp_tensor *dst, struct bp_tensor *src);
/* Whether that copy goes through host memory, which waits, on a device that runs its streams itself
 * and asynchronously. */
bool bp_transfer_within_waits(const struct bp_move *move);

/* narrow.c. Converts indices on the host: from i64 to i32, or from i32 to i64 if dst is of i64. A
 * value that i32 does not hold becomes its nearest end, which is no valid index either. The call
 * waits, unless the stream is inline; the wait is counted. */
enum bp_status bp_transfer_indices(struct bp_stream *stream, struct bp_tensor *dst,
                                   struct bp_tensor *src);
/* Reads or writes all elements, in order of the stream. host: dense. */
enum bp_status bp_transfer_read(struct bp_stream *stream, struct bp_tensor *tensor, void *host);
enum bp_status bp_transfer_write(struct bp_stream *stream, struct bp_tensor *tensor,
                                 const void *host);
/* A path through host memory begins with a read, which waits unless the stream is inline: counts
 * that wait. */
enum bp_status bp_transfer_record_wait(struct bp_stream *stream);

/* move.c. A transfer of elements from one layout to another of the same shape, as runs of bytes
 * that are adjacent on both sides. Strides are in bytes; axes are in the order of dst, largest
 * stride first. */
struct bp_move {
    uint32_t rank;  /* 0: a single run */
    uint64_t width; /* bytes per run */
    int64_t shape[BP_RANK_MAX], dst[BP_RANK_MAX], src[BP_RANK_MAX];
};

/* Strides count elements of width bytes; the elements of dst do not overlap. No extent is 0. */
void bp_move_init(struct bp_move *move, uint32_t rank, const int64_t *shape,
                  const int64_t *dst_stride, const int64_t *src_stride, uint64_t width);

/* Moves all runs, when the host can access both sides. */
void bp_move_run(const struct bp_move *move, void *dst, const void *src);

/* Returns the number of runs. */
int64_t bp_move_count(const struct bp_move *move);

/* Removes the outermost axis if src repeats along it and dst is dense: then the rest of the move
 * writes the first *out_block bytes of dst, and all of dst consists of *out_times such blocks.
 * false: the move has no such axis, and nothing is changed. */
bool bp_move_split_repeats(struct bp_move *move, uint64_t *out_block, uint64_t *out_times);

/* Iterates over the runs; initialize it with zeros. dst and src are offsets in bytes from the first
 * element of each side. bp_move_next returns false after the last run. */
struct bp_move_cursor {
    int64_t index[BP_RANK_MAX];
    int64_t dst, src;
};
bool bp_move_next(const struct bp_move *move, struct bp_move_cursor *at);

/* Returns the bytes from the first element to the end of the last; 0 if there is none. */
uint64_t bp_view_span(const struct bp_view *view);
static inline uint64_t bp_tensor_span(const struct bp_tensor *tensor)
{
    return bp_view_span(&tensor->view);
}

/* Whether two indices of a view may be the same element. The result is exact unless axes
 * interleave: sorted by stride, each axis must step over all that the axes with smaller strides
 * span; otherwise the result is true. */
bool bp_view_overlaps_itself(const struct bp_view *view);

/* Computes the strides of a dense tensor of this shape, with the axis order of `like`, which has
 * the same rank and may be a part of a wider tensor. false: the axes of `like` are in row-major
 * order, reversed, or repeat elements; out_stride is unchanged. */
bool bp_strides_like(uint32_t rank, const int64_t *shape, const struct bp_view *like,
                     int64_t *out_stride);

/* Whether a shape and strides are contiguous. Extents of 1 do not count; an empty shape is
 * contiguous. */
bool bp_strides_are_contiguous(uint32_t rank, const int64_t *shape, const int64_t *stride);

/* peer.c. bp_peer_can_copy: whether the plugin may copy between the devices of two tensors in the
 * order of the stream. bp_peer_copy: copies all runs of a move. BP_ERR_UNSUPPORTED: the plugin
 * cannot, and nothing has been copied. */
bool bp_peer_can_copy(const struct bp_stream *stream, const struct bp_tensor *dst,
                      const struct bp_tensor *src);
enum bp_status bp_peer_copy(struct bp_stream *stream, struct bp_tensor *dst, struct bp_tensor *src,
                            const struct bp_move *move);

/* To be called before all elements of a tensor are written, and when they were. */
static inline enum bp_status bp_tensor_overwrite(struct bp_tensor *tensor, bool *out_began)
{
    *out_began = false;
    if (!bp_device_has_writebacks(tensor->device)) return BP_OK;
    return bp_writeback_overwrite(tensor->buffer, tensor->offset,
                             tensor->view.flags & BP_VIEW_STRIDED ? 0 : bp_tensor_span(tensor),
                             out_began);
}
static inline void bp_tensor_end_overwrite(struct bp_tensor *tensor, bool began,
                                           enum bp_status status)
{
    if (__builtin_expect(began, 0)) bp_writeback_end_overwrite(tensor->buffer, status == BP_OK);
}

#endif
