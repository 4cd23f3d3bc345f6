/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c: making tensors and views of them. */
#include "tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* On a device of handles the view's data is an offset, in a pointer's clothes. */
static void *address(const struct bp_storage *storage, uint64_t offset)
{
    return (void *)((uintptr_t)storage->memory.data + offset);
}

static void fill_view(struct bp_tensor *t, uint32_t dtype, uint32_t rank, int64_t count)
{
    bool contiguous = bp_is_contiguous(rank, t->shape, t->stride);

    t->view = (struct bp_view){
        .data = count ? address(t->storage, t->offset) : NULL,
        .memory = t->storage->memory.handle,
        .shape = t->shape,
        .stride = t->stride,
        .count = count,
        .dtype = (uint8_t)dtype,
        .rank = (uint8_t)rank,
        .flags = contiguous ? 0 : BP_VIEW_STRIDED,
        .space = BP_SPACE_DEVICE,
        .device = (uint16_t)t->device->index,
    };
}

static struct bp_tensor *make(struct bp_storage *storage, const int64_t *shape, uint32_t rank)
{
    struct bp_tensor *t = calloc(1, sizeof *t);

    if (!t) {
        bp_error_write("no host memory for a tensor");
        return NULL;
    }
    t->magic = bp_magic(BP_MAGIC_TENSOR);
    atomic_init(&t->refs, 1);
    t->storage = storage;
    t->device = storage->device;
    if (rank) memcpy(t->shape, shape, rank * sizeof *shape);
    return t;
}

enum bp_status bp_tensor_make(struct bp_device *device, struct bp_timeline *home,
                              const struct bp_type *type, struct bp_tensor **out_tensor)
{
    struct bp_storage *storage;
    struct bp_tensor *t;
    int64_t count;
    uint64_t bytes;

    TRY(bp_type_check("tensor", "", type, &count, &bytes));
    if (!(device->properties.dtypes >> type->dtype & 1))
        return bp_error(BP_ERR_UNSUPPORTED, "tensor: %s does not hold %s", device->name,
                        bp_dtype_name(type->dtype));
    TRY(bp_storage_create(device, home ? home : device->host, BP_SPACE_DEVICE, bytes, &storage));
    t = make(storage, type->shape, type->rank);
    if (!t) {
        bp_storage_release(storage);
        return BP_ERR_MEMORY;
    }
    bp_type_strides(type->rank, t->shape, t->stride);
    fill_view(t, type->dtype, type->rank, count);
    *out_tensor = t;
    return BP_OK;
}

enum bp_status bp_tensor_create(struct bp_device *device, uint32_t dtype, uint32_t rank,
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
    return bp_tensor_make(device, NULL, &type, out_tensor);
}

/* The index of a view's last element, in elements after its first; checked. */
static enum bp_status last_element(uint32_t rank, const int64_t *shape, const int64_t *stride,
                                   int64_t *out_last)
{
    int64_t last = 0, step;

    for (uint32_t i = 0; i < rank; i++) {
        if (stride[i] < 0)
            return bp_error(BP_ERR_INVALID,
                            "bp_tensor_view: stride %u is %" PRId64 ", expected 0 or more", i,
                            stride[i]);
        if (shape[i] > 0 && (__builtin_mul_overflow(shape[i] - 1, stride[i], &step) ||
                             __builtin_add_overflow(last, step, &last)))
            return bp_error(BP_ERR_INVALID, "bp_tensor_view: shape and strides reach past 63 bits");
    }
    *out_last = last;
    return BP_OK;
}

/* offset counts from the base's first element, which is itself inside the allocation. */
static enum bp_status check_inside(const struct bp_tensor *base, int64_t count, int64_t offset,
                                   int64_t last, uint64_t *out_offset)
{
    int64_t width = bp_dtype_bits(base->view.dtype) / 8;
    int64_t have = (int64_t)(base->storage->size - base->offset) / width;

    if (offset < 0)
        return bp_error(BP_ERR_INVALID, "bp_tensor_view: offset is %" PRId64 ", expected 0 or more",
                        offset);
    if (count == 0) {
        *out_offset = base->offset;
        return BP_OK;
    }
    if (offset >= have || last >= have - offset)
        return bp_error(BP_ERR_INVALID,
                        "bp_tensor_view: the last element is number %" PRId64 " + %" PRId64
                        ", but the base's memory ends after %" PRId64 " elements",
                        offset, last, have);
    *out_offset = base->offset + (uint64_t)offset * (uint64_t)width;
    return BP_OK;
}

enum bp_status bp_tensor_view(struct bp_tensor *base, int64_t offset, uint32_t rank,
                              const int64_t *shape, const int64_t *stride,
                              struct bp_tensor **out_tensor)
{
    struct bp_type type = {.rank = rank};
    struct bp_tensor *t;
    int64_t count, last;
    uint64_t bytes, first;

    if (!bp_tensor_is(base)) return bp_not_a("tensor");
    if (!out_tensor || (rank && (!shape || !stride)))
        return bp_error(BP_ERR_INVALID, "bp_tensor_view: shape, stride or out_tensor is NULL");
    if (rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "bp_tensor_view: rank is %u, expected at most %d", rank,
                        BP_RANK_MAX);
    type.dtype = base->view.dtype;
    if (rank) memcpy(type.shape, shape, rank * sizeof *shape);
    TRY(bp_type_check("bp_tensor_view", "", &type, &count, &bytes));
    TRY(last_element(rank, shape, stride, &last));
    TRY(check_inside(base, count, offset, last, &first));

    t = make(base->storage, shape, rank);
    if (!t) return BP_ERR_MEMORY;
    bp_storage_retain(base->storage);
    if (rank) memcpy(t->stride, stride, rank * sizeof *stride);
    t->offset = first;
    fill_view(t, type.dtype, rank, count);
    *out_tensor = t;
    return BP_OK;
}

void bp_tensor_destroy(struct bp_tensor *tensor)
{
    if (!bp_tensor_is(tensor)) return;
    if (atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) != 1) return;
    bp_storage_release(tensor->storage);
    tensor->magic = 0;
    free(tensor);
}

uint64_t bp_tensor_span(const struct bp_tensor *t)
{
    int64_t last = 0;

    if (t->view.count == 0) return 0;
    for (uint32_t i = 0; i < t->view.rank; i++) last += (t->shape[i] - 1) * t->stride[i];
    return (uint64_t)(last + 1) * (bp_dtype_bits(t->view.dtype) / 8);
}

enum bp_status bp_tensor_info(struct bp_tensor *tensor, struct bp_tensor_info *out)
{
    struct bp_tensor_info info = {.size = sizeof info};

    if (!bp_tensor_is(tensor)) return bp_not_a("tensor");
    info.device = tensor->device;
    info.shape = tensor->shape;
    info.stride = tensor->stride;
    info.count = tensor->view.count;
    info.bytes = (uint64_t)info.count * (bp_dtype_bits(tensor->view.dtype) / 8);
    info.data = tensor->device->host_visible ? tensor->view.data : NULL;
    info.dtype = tensor->view.dtype;
    info.rank = tensor->view.rank;
    info.contiguous = !(tensor->view.flags & BP_VIEW_STRIDED);
    return bp_answer(out, &info, sizeof info);
}
