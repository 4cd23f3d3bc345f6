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
BP_API enum bp_status bp_tensor_create(struct bp_device *device, uint32_t dtype, uint32_t rank,
                                       const int64_t *shape, struct bp_tensor **out_tensor);

/* Another view of base's memory, with its dtype: element (i0, i1, ...) is at base's first element
 * plus offset + i0 * stride[0] + ... Strides may be 0, not negative; the view lies inside base's
 * allocation. */
BP_API enum bp_status bp_tensor_view(struct bp_tensor *base, int64_t offset, uint32_t rank,
                                     const int64_t *shape, const int64_t *stride,
                                     struct bp_tensor **out_tensor);

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
};
BP_API enum bp_status bp_tensor_info(struct bp_tensor *tensor, struct bp_tensor_info *out);

/* Copies all elements between host memory, dense in row-major order, and the tensor, in stream
 * order. size: bytes of the host memory, equal to info.bytes. The host memory has been read, or
 * written, when the call returns. stream: one of the tensor's device. */
BP_API enum bp_status bp_tensor_write(struct bp_stream *stream, struct bp_tensor *tensor,
                                      const void *host, uint64_t size);
BP_API enum bp_status bp_tensor_read(struct bp_stream *stream, struct bp_tensor *tensor, void *host,
                                     uint64_t size);

/* Copies src to dst, of equal dtype and shape, contiguous both. stream is one of dst's device; src
 * may lie on another, of any kind: then its pending work is waited for, and host memory is between.
 */
BP_API enum bp_status bp_tensor_copy(struct bp_stream *stream, struct bp_tensor *dst,
                                     struct bp_tensor *src);

#ifdef __cplusplus
}
#endif

#endif
