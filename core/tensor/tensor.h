/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.h: tensors and their types inside the core. */
#ifndef BP_TENSOR_PRIVATE_H
#define BP_TENSOR_PRIVATE_H

#include "../memory/memory.h"

/* A tensor: what kernels read stands in the first cache line. */
struct bp_tensor {
    struct bp_view view;
    uint64_t spare; /* for the hash of its type */
    uint32_t magic;
    _Atomic uint32_t refs;
    struct bp_storage *storage; /* a reference */
    struct bp_device *device;   /* of the storage */
    uint64_t offset;            /* bytes from the storage's first byte */
    int64_t shape[BP_RANK_MAX];
    int64_t stride[BP_RANK_MAX];
};

static inline bool bp_tensor_is(const struct bp_tensor *tensor)
{
    return bp_is(tensor ? tensor->magic : 0, BP_MAGIC_TENSOR);
}

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
void bp_type_strides(uint32_t rank, const int64_t *shape, int64_t *out_stride);

/* "f32 [2, 3]" in text. */
const char *bp_type_text(uint32_t dtype, uint32_t rank, const int64_t *shape, char *text,
                         size_t size);
enum { BP_TYPE_TEXT = 224 };

/* A new tensor of a checked type, its memory at home on a timeline (NULL: the host's). */
enum bp_status bp_tensor_make(struct bp_device *device, struct bp_timeline *home,
                              const struct bp_type *type, struct bp_tensor **out_tensor);

/* Bytes from the first to one past the last element; 0 if there is none. */
uint64_t bp_tensor_span(const struct bp_tensor *tensor);

/* Whether two indices of a view may be one element. Sorted
 * by stride, each axis steps over all that the finer ones span; an interleaving of axes counts as
 * one. */
bool bp_view_overlaps_itself(const struct bp_view *view);

/* The contiguity of a shape and strides: extents of 1 do not count, an empty one is contiguous. */
bool bp_is_contiguous(uint32_t rank, const int64_t *shape, const int64_t *stride);

#endif
