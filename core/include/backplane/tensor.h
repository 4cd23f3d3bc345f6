/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: creates, views, freezes and copies tensors, which are arrays of elements on a device.
 * Axis 0 is the outermost; strides count elements. */
#ifndef BP_TENSOR_H
#define BP_TENSOR_H

#include <backplane/api.h>
#include <backplane/buffer.h>
#include <backplane/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The maximum number of axes of a tensor. The plugin ABI has no such limit. */
#define BP_RANK_MAX 8

struct bp_tensor;

/* Creates a contiguous tensor in row-major order; its contents are undefined. A tensor of rank 0
 * (shape may be NULL) has one element; extents may be 0.
 *
 * BP_ERR_INVALID: rank, an extent, or the size in bytes is out of range; BP_ERR_UNSUPPORTED: the
 * device cannot hold dtype; BP_ERR_MEMORY. */
BP_API enum bp_status bp_tensor_create(struct bp_device *device, enum bp_dtype dtype, uint32_t rank,
                                       const int64_t *shape, struct bp_tensor **out_tensor);

/* The properties of a tensor that bp_tensor_create_with creates. */
struct bp_tensor_options { /* parameters: set size, zero the rest */
    size_t size;
    uint32_t dtype, rank;
    const int64_t *shape;     /* rank extents */
    const int64_t *stride;    /* rank strides, in elements; NULL: row-major. Each element must have
                                 its own address; the axes may be in any order, with gaps or
                                 without */
    uint32_t space;           /* enum bp_space */
    struct bp_stream *stream; /* the stream that will use the tensor most, a stream of the device:
                                 memory of BP_SPACE_DEVICE comes from its pool; NULL: none */
};

/* Creates a tensor with strides and in memory of the caller's choice; its contents are undefined.
 * The gaps between its elements are allocated too.
 *
 * BP_ERR_INVALID: as in bp_tensor_create, or strides are negative, or may give two elements the
 * same address (axes sorted by stride: each stride must step over all elements that the axes of
 * smaller stride span). BP_ERR_UNSUPPORTED: the device cannot hold dtype, or has no memory of that
 * space. BP_ERR_MEMORY. */
BP_API enum bp_status bp_tensor_create_with(struct bp_device *device,
                                            const struct bp_tensor_options *options,
                                            struct bp_tensor **out_tensor);

/* Creates a tensor whose first element is byte_offset bytes behind the first byte of a buffer: for
 * frameworks that allocate memory themselves (buffer.h). Nothing is copied, and the call does not
 * wait. The tensor keeps the memory: the app may destroy the buffer's handle before the tensor. The
 * stream that bp_buffer_create got may use the tensor at once; the app orders uses by other
 * streams, as for every tensor. Calls note the work that uses the tensor, so that the memory is
 * reused only after that work has ended.
 *
 * options: dtype, rank, shape and stride (NULL: row-major). Strides may be 0, or give several
 * elements one address, as those of a view: such a tensor can be read but not written. space: 0 or
 * the buffer's; stream: NULL. byte_offset: a multiple of the size of an element.
 *
 * BP_ERR_INVALID: the elements reach past the end of the buffer, byte_offset is no multiple,
 * strides are negative, or an option is out of range. BP_ERR_UNSUPPORTED: the device cannot hold
 * dtype. BP_ERR_MEMORY. */
BP_API enum bp_status bp_tensor_create_over(struct bp_buffer *buffer, uint64_t byte_offset,
                                            const struct bp_tensor_options *options,
                                            struct bp_tensor **out_tensor);

/* Makes a tensor refer to other memory: byte_offset bytes behind the first byte of a buffer of the
 * same device. dtype, shape and strides stay. Costs a few tens of nanoseconds, so that a framework
 * can keep one tensor for each type that it uses and set its memory before each call. tensor: one
 * that bp_tensor_create_over or bp_tensor_from_dlpack created, or a view.
 *
 * The tensor drops its previous memory as bp_tensor_destroy does: work that was submitted before
 * still uses that memory. Views of the tensor, and what was exported of it, keep the previous
 * memory. Whether the tensor is frozen depends on its memory: a tensor that is moved from a frozen
 * buffer to another one may be written again. Prepared calls accept the tensor, because they know
 * tensors by type only; but a call that was prepared for a frozen input, or for one that was not,
 * refuses the other kind, and a call whose plan has read a frozen input refuses other memory for
 * it. No other thread may use the tensor during the call.
 *
 * BP_ERR_BUSY: the tensor has another holder: it is a constant of a graph, which relies on its
 * memory, or the result of an update (bp_op_sgd) that is not destroyed yet. BP_ERR_INVALID: the
 * tensor was created together with its memory, as results of calls are; the buffer is of another
 * device; byte_offset as in bp_tensor_create_over. After a failure the tensor is as before. */
BP_API enum bp_status bp_tensor_rebind(struct bp_tensor *tensor, struct bp_buffer *buffer,
                                       uint64_t byte_offset);

/* Creates a view: a tensor that shares the memory of another tensor, its base, and has the base's
 * dtype. Creating a view copies nothing and does not wait. Views and their base may be destroyed in
 * any order.
 *
 * Element (i0, i1, ...) of the view is at base's first element plus offset + i0 * stride[0] + ...
 * Strides may be 0, but not negative; the view must lie inside base's allocation. */
BP_API enum bp_status bp_tensor_view(struct bp_tensor *base, int64_t offset, uint32_t rank,
                                     const int64_t *shape, const int64_t *stride,
                                     struct bp_tensor **out_tensor);

/* A view with the same elements in the same row-major order, in another shape. One extent may be
 * -1: it follows from the others, unless one of them is 0. rank 0 requires a base of one element.
 *
 * BP_ERR_UNSUPPORTED: the strides of base do not allow a view of this shape (for example, the two
 * axes of a transposed matrix cannot become one): copy base to a contiguous tensor first. */
BP_API enum bp_status bp_tensor_reshape(struct bp_tensor *base, uint32_t rank,
                                        const int64_t *shape, struct bp_tensor **out_tensor);

/* A view of the elements start, start + step, ... before stop of one axis, like Python's
 * base[start:stop:step]: negative start and stop count from the end, and an index outside the axis
 * is moved to the nearest end (0 and INT64_MAX select the whole axis). A negative axis counts from
 * the last axis. step is 1 or more. */
BP_API enum bp_status bp_tensor_slice(struct bp_tensor *base, int64_t axis, int64_t start,
                                      int64_t stop, int64_t step, struct bp_tensor **out_tensor);

/* A view with permuted axes: axis i of the view is axis perm[i] of base; perm contains each axis
 * once. NULL: the order of all axes is reversed. */
BP_API enum bp_status bp_tensor_transpose(struct bp_tensor *base, const int64_t *perm,
                                          struct bp_tensor **out_tensor);

/* A view that repeats elements along axes by stride 0, with the broadcasting rules of operators:
 * shapes are aligned at their last axes, an extent of 1 becomes any extent, and new axes are added
 * in front. -1 keeps an extent of base. An expanded view cannot be written. */
BP_API enum bp_status bp_tensor_expand(struct bp_tensor *base, uint32_t rank, const int64_t *shape,
                                       struct bp_tensor **out_tensor);

/* Promises that the contents of the tensor's memory will not change any more, so that kernels may
 * prepare them once. From now on, calls that would write this memory through this tensor, its views
 * or its base are refused, and exports are BP_DLPACK_READ_ONLY. Work that was submitted to streams
 * before is part of the contents: the call waits for the device. The app itself must keep the
 * promise if the memory can be reached by other means: an address (bp_tensor_map,
 * bp_buffer_get_info), a DLPack view that was exported before, even if this process imported it
 * again, or another process's mapping. Kernels see this tensor, and views made later, as
 * BP_VIEW_CONSTANT. Freezing cannot be undone. */
BP_API enum bp_status bp_tensor_freeze(struct bp_tensor *tensor);

/* A function of the tensor's owner that writes the contents of a frozen tensor again. */
struct bp_tensor_source { /* parameters: set size */
    size_t size;

    /* Writes all elements, dense in row-major order: the contents that the tensor had when it was
     * frozen. A failure is returned by the call that needs the contents, with the message of
     * bp_error_set. Called on any thread, also by several threads for several tensors, under locks:
     * it must call no other function of this API. */
    enum bp_status (*write)(void *ctx, void *data, uint64_t bytes);

    /* Called once, when `write` will not be called again; NULL: nothing. */
    void (*release)(void *ctx);
    void *ctx;
};

/* Allows the core to free the memory of a frozen tensor's contents while compiled programs read
 * only copies of them that their kernels have packed; `source` writes the contents again before
 * anything reads them. Programs for other shapes find the packed copies and need no contents.
 *
 * The tensor may be used as before, with one exception: bp_tensor_get_info returns no address.
 * bp_tensor_map, an export and a communicator make the contents stay for good, as bp_tensor_restore
 * does. bp_tensor_info reports whether the contents are freed.
 *
 * The call only permits: contents stay, and `release` is called at once, if the device cannot free
 * them, if they have less than 64 KiB, if the tensor has strides, or if views or a buffer's handle
 * share its memory. No other thread may use the tensor during the call.
 *
 * BP_ERR_INVALID: the tensor is not frozen, or write is NULL; `release` is then not called. */
BP_API enum bp_status bp_tensor_set_source(struct bp_tensor *tensor,
                                           const struct bp_tensor_source *source);

/* Writes freed contents again and keeps them from now on; the source is released. Does nothing for
 * a tensor without a source. Fails as the source's function does. */
BP_API enum bp_status bp_tensor_restore(struct bp_tensor *tensor);

/* Returns the address of the tensor's first element (NULL: the tensor has no elements), for the
 * host to use with the strides of bp_tensor_get_info. BLOCKS until all work on the tensor's device
 * has ended.
 *
 * The address is valid until the tensor is destroyed. The contents are valid until work that writes
 * the memory is submitted to a stream, and the host must finish its writes before work that reads
 * the memory is submitted. A frozen tensor is read only. There is no call to unmap.
 *
 * BP_ERR_UNSUPPORTED: the host cannot access this memory (use bp_tensor_read); the host can access
 * memory of a BP_DEVICE_HOST_VISIBLE device, and memory in BP_SPACE_PINNED and BP_SPACE_MANAGED. A
 * failure of the work for which the call waited is returned too. */
BP_API enum bp_status bp_tensor_map(struct bp_tensor *tensor, void **out_data);

/* Destroys the tensor. Its memory is freed when no tensor shares it and the work that uses it is
 * done. */
BP_API void bp_tensor_destroy(struct bp_tensor *tensor);

/* Describes a tensor; the pointers are valid as long as the tensor lives. Set out->size before the
 * call. */
struct bp_tensor_info { /* output struct */
    size_t size;
    struct bp_device *device;      /* no reference is taken */
    const int64_t *shape, *stride; /* rank entries each */
    int64_t count;                 /* number of elements */
    uint64_t bytes;                /* bytes of count elements without gaps */
    void *data;                    /* address of the first element; NULL unless the host may access
                                      it there, for tensors with a source, and while an engine
                                      keeps newer contents (bp_tensor_map gets them) */
    uint32_t dtype, rank;
    uint32_t contiguous;           /* 1: row-major without gaps */
    uint32_t space;                /* enum bp_space: the kind of memory */
    uint64_t offset;               /* bytes from the first byte of the tensor's buffer to its first
                                      element */
    uint64_t buffer;              /* identifies the buffer: a number that no other buffer in this
                                     process has */
    uint64_t version;              /* of the buffer: increases with each write by this API */
    uint32_t frozen;               /* 1: contents do not change any more */
    uint32_t dropped;              /* 1: the memory of the contents is freed at the moment
                                      (bp_tensor_set_source) */
    uint32_t restores;             /* how often the source has written the contents again */
};
BP_API enum bp_status bp_tensor_get_info(struct bp_tensor *tensor, struct bp_tensor_info *out);

/* Copy all elements between host memory, dense in row-major order, and the tensor, in stream order.
 * size: bytes of the host memory, equal to info.bytes. The host memory has been read, or written,
 * when the call returns. stream: a stream of the tensor's device.
 *
 * A read waits for the work that was submitted to the stream before. A write waits for that work
 * only if it has to, and the wait is then counted (BP_BLOCKS in observe.h): on a stream with a
 * queue, a write of up to 1 MiB is copied and queued, and a larger one waits until the queue is
 * empty.
 *
 * The tensor may have any strides; a tensor that is written must have a separate address for each
 * element. Bytes between its elements are unchanged, with one exception: on memory that the host
 * cannot access, and not on a stream with a queue, a write of more than 64 runs (elements that are
 * adjacent in both memories are one run) that are so short that the span from first to last element
 * has less than 16 KiB for each of them, reads that span and writes it back. Such a write also
 * waits for the stream (counted), and the caller must order it with writes to all tensors in the
 * same memory. */
BP_API enum bp_status bp_tensor_write(struct bp_stream *stream, struct bp_tensor *tensor,
                                      const void *host, uint64_t size);
BP_API enum bp_status bp_tensor_read(struct bp_stream *stream, struct bp_tensor *tensor, void *host,
                                     uint64_t size);

/* Copies the elements of src to dst, of equal dtype and shape, with any strides on both sides.
 * stream is a stream of dst's device. For the bytes between dst's elements the rule of
 * bp_tensor_write holds.
 *
 * src may lie on another device, of any kind. If both devices belong to one plugin that can copy
 * between them, the call does not wait: the copy runs after all work that src's device was given
 * before, and work that src's device is given later runs after the copy. Otherwise the call waits
 * for src's unfinished work, and the data passes through host memory; if dst's stream has a queue
 * and more than 1 MiB is copied, the call waits for that stream's work too. On one device the call
 * does not wait, except for tensors that the host cannot access and whose layouts have many short
 * runs in common (more than 64, of less than 16 KiB on average): these also pass through host
 * memory, unless the stream has a queue. Waits are counted (BP_BLOCKS).
 *
 * BP_ERR_INVALID: among other errors, dst and src share an element. A copy of a view to the same
 * view does nothing. */
BP_API enum bp_status bp_tensor_copy(struct bp_stream *stream, struct bp_tensor *dst,
                                     struct bp_tensor *src);

#ifdef __cplusplus
}
#endif

#endif
