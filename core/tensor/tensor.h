/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: tensors and their types inside the core. */
#ifndef BP_TENSOR_PRIVATE_H
#define BP_TENSOR_PRIVATE_H

#include "../memory/memory.h"

/* A tensor: what kernels read stands in the first cache line. */
struct bp_tensor {
    struct bp_view view;
    uint64_t sig; /* see bp_tensor_signature; 0 once it is destroyed, and of symbolic ones */
    uint32_t magic;
    _Atomic uint32_t refs;
    struct bp_buffer *buffer; /* a reference */
    struct bp_device *device;   /* of the buffer */
    uint64_t offset;            /* bytes from the buffer's first byte */
    struct bp_graph *graph;     /* of a symbolic tensor, a reference: no buffer, no device */
    uint32_t value;             /* in the graph */
    int64_t shape[BP_RANK_MAX];
    int64_t stride[BP_RANK_MAX];
};

_Static_assert(offsetof(struct bp_tensor, magic) + sizeof(uint32_t) <= BP_HANDLE_BYTES, "magic");
static inline bool bp_tensor_is(const struct bp_tensor *tensor)
{
    return bp_magic_is(tensor ? tensor->magic : 0, BP_MAGIC_TENSOR);
}
/* One more reference, for who gives it back by bp_tensor_destroy. The tensor, for its taker. */
static inline struct bp_tensor *bp_tensor_retain(struct bp_tensor *tensor)
{
    atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
    return tensor;
}

/* A list of tensors is a list of views: each begins with its view, and NULL stays NULL. */
static inline const struct bp_view *const *bp_tensor_views(struct bp_tensor *const *list)
{
    _Static_assert(offsetof(struct bp_tensor, view) == 0, "a tensor begins with its view");
    return (const struct bp_view *const *)(const void *)list;
}

static inline bool bp_symbol_is(const struct bp_tensor *tensor)
{
    return bp_magic_is(tensor ? tensor->magic : 0, BP_MAGIC_SYMBOL);
}

/* After bp_tensor_is: what it is instead. A value of a graph is known as such. */
enum bp_status bp_not_a_tensor(const char *call, const struct bp_tensor *tensor);

/* What a constant is, for plans that have read it; id 0: it is none. */
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

/* The signature of a view's type: dtype, rank, flags, space, layout, shape, strides if they are not
 * row-major. Keyed by secret numbers of this process, so that nobody can make two types of one
 * signature on purpose. */
extern uint64_t bp_signature_key[2];
uint64_t bp_view_signature(const struct bp_view *view);

/* One more word: the product of both in 128 bits, folded (as in wyhash). */
static inline uint64_t bp_signature_mix(uint64_t h, uint64_t word)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(h ^ bp_signature_key[0]) * (word ^ bp_signature_key[1]);

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* A number that no other device of the process gets. */
uint64_t bp_signature_of_device(void);
/* The signature of a tensor: of its view and its device. A tensor whose signature is that of a
 * prepared call's port is a live handle, of the call's device and type. */
static inline uint64_t bp_tensor_signature(const struct bp_device *device,
                                           const struct bp_view *view)
{
    return bp_view_signature(view) ^ device->signature;
}

/* Where the elements of a tensor lie: element (i0, i1, ...) is offset + i0 * stride[0] + ...
 * elements after a point that the context names. */
struct bp_extents {
    uint32_t rank;
    int64_t offset;
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX];
};

/* stride.c. The views of tensor.h, on extents alone: from those of a tensor (offset 0, extents and
 * strides that a tensor can have) to those of the view, whose offset counts from the tensor's first
 * element. Nothing is known of bytes: who makes a tensor of the result asks bp_type_check. call
 * begins the message. out may be from. */
enum bp_status bp_extents_reshape(const char *call, const struct bp_extents *from, uint32_t rank,
                                  const int64_t *shape, struct bp_extents *out);
enum bp_status bp_extents_slice(const char *call, const struct bp_extents *from, int64_t axis,
                                int64_t start, int64_t stop, int64_t step, struct bp_extents *out);
enum bp_status bp_extents_transpose(const char *call, const struct bp_extents *from,
                                    const int64_t *perm, struct bp_extents *out);
enum bp_status bp_extents_expand(const char *call, const struct bp_extents *from, uint32_t rank,
                                 const int64_t *shape, struct bp_extents *out);

/* Whether two views, offsets from one point, have an element in common. Exact for views that a few
 * thousand steps settle, as all do that were cut from one tensor; else true. Offsets, and what the
 * views reach, are below 2^61, as in memory that exists. */
bool bp_extents_overlap(const struct bp_extents *a, const struct bp_extents *b);

/* A type: all of a tensor but its data. */
struct bp_type {
    uint32_t dtype, rank;
    int64_t shape[BP_RANK_MAX];
};

/* Whether a type can be: rank, dtype, extents, bytes within 63 bits. what, and the name of an
 * output or "", begin the message. */
enum bp_status bp_type_check(const char *what, const char *output, const struct bp_type *type,
                             int64_t *out_count, uint64_t *out_bytes);

/* Row-major strides of a shape; with an extent of 0 as if it were 1. */
static inline void bp_type_strides(uint32_t rank, const int64_t *shape, int64_t *out_stride)
{
    int64_t stride = 1;

    for (uint32_t i = rank; i-- > 0;) {
        out_stride[i] = stride;
        stride *= shape[i] ? shape[i] : 1;
    }
}

/* "f32 [2, 3]" in text. */
const char *bp_type_text(uint32_t dtype, uint32_t rank, const int64_t *shape, char *text,
                         size_t size);
enum { BP_TYPE_TEXT = 224 };

/* "[2, 3]" in text. */
const char *bp_shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size);
enum { BP_SHAPE_TEXT = 200 };

/* A new tensor of a checked type, its memory owned by a timeline (NULL: the host's). */
enum bp_status bp_tensor_create_typed(struct bp_device *device, struct bp_timeline *owner,
                                      const struct bp_type *type, struct bp_tensor **out_tensor);

/* A type with the view that stands for it in prepare: shape and stride lie beside it. */
struct bp_typed_view {
    struct bp_view view;
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX];
    uint64_t sig, bytes; /* set in prepared calls: signature; of a dense tensor of the type */
};

/* A new row-major tensor of a type that was checked and signed. */
enum bp_status bp_tensor_create_like(struct bp_device *device, struct bp_timeline *owner,
                                     const struct bp_typed_view *like,
                                     struct bp_tensor **out_tensor);
/* The same in a buffer of the type's bytes that nobody else knows yet, and that is the tensor's
 * now. sig: of the type. */
struct bp_tensor *bp_tensor_init_like(struct bp_buffer *buffer, const struct bp_typed_view *like,
                                      uint64_t sig);

/* A symbolic tensor: a value of a graph. It takes over a reference to the graph, unless it fails,
 * which release gives back when the tensor is destroyed. */
enum bp_status bp_tensor_create_symbol(struct bp_graph *graph, uint32_t value,
                                       const struct bp_view *type,
                                       void (*release)(struct bp_graph *graph),
                                       struct bp_tensor **out_tensor);

/* Makes an axis shorter, for extents that were found later: the handle views less. */
enum bp_status bp_tensor_narrow(struct bp_tensor *tensor, uint32_t axis, int64_t extent);

/* A tensor over a buffer, offset bytes from its first. Takes the reference to the buffer, on
 * success only. Shape and strides fit it: nothing is checked. */
enum bp_status bp_tensor_create_over(struct bp_buffer *buffer, uint32_t dtype,
                                     const struct bp_extents *extents, uint64_t offset,
                                     struct bp_tensor **out_tensor);

/* Where a tensor's elements lie, counted from its first. */
void bp_tensor_extents(const struct bp_tensor *tensor, struct bp_extents *out);

/* The index of the last element of a shape and strides, counted from the first; 0 if there is none.
 * Refuses negative strides and more than 63 bits. */
enum bp_status bp_strides_last_element(const char *call, uint32_t rank, const int64_t *shape,
                                       const int64_t *stride, int64_t *out_last);

/* Whether the host may touch the tensor's memory by its address, once work on it has ended. */
static inline bool bp_tensor_host_visible(const struct bp_tensor *tensor)
{
    return tensor->buffer->space == BP_SPACE_DEVICE
               ? tensor->device->host_visible
               : !(tensor->device->properties.flags & BP_DEVICE_HANDLES);
}

/* Before anything writes to a tensor: refuses one that is frozen, or whose memory was lent for
 * reading only. call, and the name of an output or "", begin the message. */
enum bp_status bp_tensor_check_write(const char *call, const char *output,
                                     const struct bp_tensor *tensor);

/* Something writes to the tensor's memory: a new version of it. */
static inline void bp_tensor_record_write(struct bp_tensor *tensor)
{
    bp_buffer_record_write(tensor->buffer);
}

/* Whether two tensors have an element in common. */
bool bp_tensors_overlap(const struct bp_tensor *a, const struct bp_tensor *b);

/* copy.c. size > 0 bytes between the host and a tensor's memory, or between those of two tensors of
 * the stream's device; at: bytes after the tensor's first element. */
enum bp_status bp_copy_in(struct bp_stream *stream, struct bp_tensor *tensor, uint64_t at,
                          const void *host, uint64_t size);
enum bp_status bp_copy_out(struct bp_stream *stream, struct bp_tensor *tensor, uint64_t at,
                           void *host, uint64_t size);
enum bp_status bp_copy_within(struct bp_stream *stream, struct bp_tensor *dst, uint64_t dst_at,
                              struct bp_tensor *src, uint64_t src_at, uint64_t size);

/* queued.c. A transfer on a stream with a queue: one task, or none where it is refused. dst or src
 * is NULL: host memory. copy: where both sides begin; its size is that of all elements. move: how
 * they go; nothing between them is touched. Host memory has been read, or written, when it returns:
 * up to BP_STAGED_MAX bytes to be read are set aside, else it waits, which is counted for a write
 * behind other work. */
struct bp_move;
enum bp_status bp_transfer_enqueue(struct bp_stream *stream, const struct bp_move *move,
                                   const struct bp_copy *copy, struct bp_tensor *dst,
                                   struct bp_tensor *src);
enum { BP_STAGED_MAX = 1 << 20 };

/* move.c. Elements that go from one layout to another of the same shape, as runs of bytes that are
 * adjacent on both sides. Strides are in bytes; axes are in the order of dst, widest first. */
struct bp_move {
    uint32_t rank;  /* 0: all is one run */
    uint64_t width; /* bytes of a run */
    int64_t shape[BP_RANK_MAX], dst[BP_RANK_MAX], src[BP_RANK_MAX];
};

/* Strides count elements of width bytes; those of dst do not overlap. No extent is 0. */
void bp_move_init(struct bp_move *move, uint32_t rank, const int64_t *shape,
                  const int64_t *dst_stride, const int64_t *src_stride, uint64_t width);

/* Moves all, where the host touches both sides. */
void bp_move_run(const struct bp_move *move, void *dst, const void *src);

/* How many runs there are. */
int64_t bp_move_count(const struct bp_move *move);

/* Run after run: begin with zeros. dst and src are the bytes from each side's first element. */
struct bp_move_cursor {
    int64_t index[BP_RANK_MAX];
    int64_t dst, src;
};
bool bp_move_next(const struct bp_move *move, struct bp_move_cursor *at);

/* Bytes from the first to one past the last element; 0 if there is none. */
uint64_t bp_view_span(const struct bp_view *view);
static inline uint64_t bp_tensor_span(const struct bp_tensor *tensor)
{
    return bp_view_span(&tensor->view);
}

/* Whether two indices of a view may be one element. Sorted
 * by stride, each axis steps over all that the finer ones span; an interleaving of axes counts as
 * one. */
bool bp_view_overlaps_itself(const struct bp_view *view);

/* Strides of a dense tensor of this shape whose axes lie in memory in the order of those of like,
 * of the same rank. false: like is row-major, or not dense, and nothing was done. */
bool bp_strides_like(uint32_t rank, const int64_t *shape, const struct bp_view *like,
                     int64_t *out_stride);

/* The contiguity of a shape and strides: extents of 1 do not count, an empty one is contiguous. */
bool bp_strides_are_contiguous(uint32_t rank, const int64_t *shape, const int64_t *stride);

/* peer.c: whether the plugin may copy between these devices, in the order of the stream; and the
 * copy, of all runs of a move. BP_ERR_UNSUPPORTED: it cannot, nothing has been done. */
bool bp_peer_can_copy(const struct bp_stream *stream, const struct bp_tensor *dst,
                      const struct bp_tensor *src);
enum bp_status bp_peer_copy(struct bp_stream *stream, struct bp_tensor *dst, struct bp_tensor *src,
                            const struct bp_move *move);

#endif
