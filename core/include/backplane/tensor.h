/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: an array on a device. Axis 0 is the outermost; strides count elements. */
#ifndef BP_TENSOR_H
#define BP_TENSOR_H

#include <backplane/api.h>
#include <backplane/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The most axes of a tensor. The plugin ABI has no such limit. */
#define BP_RANK_MAX 8

struct bp_tensor;

/* A contiguous tensor in row-major order, contents undefined. rank 0 (shape may be NULL) is one
 * element; extents may be 0.
 *
 * BP_ERR_INVALID: rank, an extent, or the size in bytes is out of range; BP_ERR_UNSUPPORTED: the
 * device does not hold dtype; BP_ERR_MEMORY. */
BP_API enum bp_status bp_tensor_create(struct bp_device *device, enum bp_dtype dtype, uint32_t rank,
                                       const int64_t *shape, struct bp_tensor **out_tensor);

/* How a tensor is to be made. */
struct bp_tensor_options { /* parameters: set size, zero the rest */
    size_t size;
    uint32_t dtype, rank;
    const int64_t *shape;     /* rank extents */
    const int64_t *stride;    /* rank of them, in elements; NULL: row-major. Each element has a
                                 place of its own; axes are in any order, gaps may be between */
    uint32_t space;           /* enum bp_space */
    struct bp_stream *stream; /* where the memory is at home: the stream that will use it most, one
                                 of the device; NULL: none. A hint that nothing follows yet */
};

/* A tensor with strides and in memory of the caller's choice, contents undefined. What lies between
 * its elements is allocated too.
 *
 * BP_ERR_INVALID: as bp_tensor_create, or strides are negative, or may give two elements one place
 * (axes are taken by stride: each must step over all that the finer ones span). BP_ERR_UNSUPPORTED:
 * the device does not hold dtype, or has no memory of that space. BP_ERR_MEMORY. */
BP_API enum bp_status bp_tensor_create_with(struct bp_device *device,
                                            const struct bp_tensor_options *options,
                                            struct bp_tensor **out_tensor);

/* A view is a tensor that shares the memory of another, its base, and has the base's dtype. Making
 * one copies nothing and waits for nothing. Views and their base may be destroyed in any order.
 *
 * Element (i0, i1, ...) of this one is at base's first element plus offset + i0 * stride[0] + ...
 * Strides may be 0, not negative; the view lies inside base's allocation. */
BP_API enum bp_status bp_tensor_view(struct bp_tensor *base, int64_t offset, uint32_t rank,
                                     const int64_t *shape, const int64_t *stride,
                                     struct bp_tensor **out_tensor);

/* The same elements in the same row-major order in another shape. One extent may be -1: it follows
 * from the others, unless one of them is 0. rank 0 is for one element.
 *
 * BP_ERR_UNSUPPORTED: the strides of base do not let a view have this shape (as when the axes of a
 * transposed matrix are to become one): copy it to a contiguous tensor first. */
BP_API enum bp_status bp_tensor_reshape(struct bp_tensor *base, uint32_t rank,
                                        const int64_t *shape, struct bp_tensor **out_tensor);

/* The elements start, start + step, ... before stop of one axis, as Python's base[start:stop:step]:
 * negative start and stop count from the end, and what lies outside is moved to the nearest end (0
 * and INT64_MAX are all of it). A negative axis counts from the last. step is 1 or more. */
BP_API enum bp_status bp_tensor_slice(struct bp_tensor *base, int64_t axis, int64_t start,
                                      int64_t stop, int64_t step, struct bp_tensor **out_tensor);

/* Axis i of the view is axis perm[i] of base; perm has each axis once. NULL: the order of all axes
 * is reversed. */
BP_API enum bp_status bp_tensor_transpose(struct bp_tensor *base, const int64_t *perm,
                                          struct bp_tensor **out_tensor);

/* Repeats elements along axes by stride 0, as operators broadcast: shapes are aligned at their last
 * axes, an extent of 1 becomes any, new axes come in front. -1 keeps an extent of base. What is
 * expanded cannot be written. */
BP_API enum bp_status bp_tensor_expand(struct bp_tensor *base, uint32_t rank, const int64_t *shape,
                                       struct bp_tensor **out_tensor);

/* Promises that the contents of the tensor's memory will not change any more: kernels may prepare
 * them once. Calls that would write there through this tensor, its views or what it is a view of
 * are refused from now on, and exports made from now on are BP_DLPACK_READ_ONLY. Work given to
 * streams before is part of the contents: the call waits for the device. To keep the promise is the
 * app's business where the memory is known by other means: an address (bp_tensor_map,
 * bp_buffer_get_info), a DLPack view lent before, also where this process imported it again,
 * another process's mapping. This tensor, and views made later, are BP_VIEW_CONSTANT to kernels.
 * There is no way back. */
BP_API enum bp_status bp_tensor_freeze(struct bp_tensor *tensor);

/* The address of the tensor's first element (NULL: it has none), for the host to use with the
 * strides of bp_tensor_get_info. BLOCKS until all work on the tensor's device has ended.
 *
 * The address is good until the tensor is destroyed; contents, until work that writes the memory is
 * given to a stream, and writes of the host must end before work that reads it is given. What is
 * frozen is read only. Nothing has to be given back.
 *
 * BP_ERR_UNSUPPORTED: the host cannot touch this memory (use bp_tensor_read); it can where the
 * device is BP_DEVICE_HOST_VISIBLE, and in BP_SPACE_PINNED and BP_SPACE_MANAGED. A failure of the
 * work that was waited for is returned too. */
BP_API enum bp_status bp_tensor_map(struct bp_tensor *tensor, void **out_data);

/* Memory goes back when no tensor shares it and the work that uses it is done. */
BP_API void bp_tensor_destroy(struct bp_tensor *tensor);

/* What the tensor is; pointers live as long as it. Set out->size before the call. */
struct bp_tensor_info { /* answer */
    size_t size;
    struct bp_device *device;      /* no reference is taken */
    const int64_t *shape, *stride; /* rank each */
    int64_t count;                 /* elements */
    uint64_t bytes;                /* count elements, dense */
    void *data;                    /* first element; NULL unless the host may touch it there */
    uint32_t dtype, rank;
    uint32_t contiguous;           /* 1: row-major without gaps */
    uint32_t space;                /* enum bp_space: where its memory lies */
    uint64_t offset;               /* bytes from the first byte of its memory */
    uint64_t buffer;              /* of its memory: a number that no other in this process has */
    uint64_t version;              /* of its memory: rises with each write by this API */
    uint32_t frozen;               /* 1: contents do not change any more */
};
BP_API enum bp_status bp_tensor_get_info(struct bp_tensor *tensor, struct bp_tensor_info *out);

/* Copies all elements between host memory, dense in row-major order, and the tensor, in stream
 * order. size: bytes of the host memory, equal to info.bytes. The host memory has been read, or
 * written, when the call returns. stream: one of the tensor's device.
 *
 * A read waits for the work that the stream was given before. A write waits for it only where it
 * has to, and is counted then (BP_BLOCKS in device.h): on a stream with a queue a write of up to
 * 1 MiB is set aside, a larger one waits for what the queue holds.
 *
 * The tensor may have any strides; one that is written has a place for each element. Bytes between
 * its elements are left alone, with one exception: on memory that the host cannot touch, and not on
 * a stream with a queue, a write of more than 64 pieces (elements that are adjacent in both
 * memories are one piece) which are so short that the span from first to last element has less than
 * 16 KiB for each of them, reads that span and writes it back. Such a write, which also waits for
 * the stream (counted), has to be ordered with writes to all tensors in the same memory. */
BP_API enum bp_status bp_tensor_write(struct bp_stream *stream, struct bp_tensor *tensor,
                                      const void *host, uint64_t size);
BP_API enum bp_status bp_tensor_read(struct bp_stream *stream, struct bp_tensor *tensor, void *host,
                                     uint64_t size);

/* Copies the elements of src to dst, of equal dtype and shape, any strides on both sides. stream is
 * one of dst's device. Of the bytes between dst's elements the same holds as for bp_tensor_write.
 *
 * src may lie on another device, of any kind. Where both are of one plugin, which copies between
 * them, the call does not wait: the copy comes behind all that src's device was given before, and
 * what that device is given later comes behind the copy. Else src's pending work is waited for, and
 * host memory is between; if dst's stream has a queue and more than 1 MiB is copied, that stream's
 * work too.
 * On one device the call does not wait, but for tensors that the host cannot touch and whose
 * layouts have many short pieces in common (more than 64, of less than 16 KiB on average): these go
 * through host memory as well, unless the stream has a queue. Waits are counted (BP_BLOCKS).
 *
 * BP_ERR_INVALID: among others, dst and src share an element. The same view twice is nothing to do.
 */
BP_API enum bp_status bp_tensor_copy(struct bp_stream *stream, struct bp_tensor *dst,
                                     struct bp_tensor *src);

#ifdef __cplusplus
}
#endif

#endif
