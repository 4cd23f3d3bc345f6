/* SPDX-License-Identifier: Apache-2.0 */
/* view.c: creates tensors that share the memory of another tensor, and detects overlaps. */
#include "tensor.h"

#include <inttypes.h>
#include <string.h>

/* Checks that a view stays inside the buffer. offset counts from the first element of the base,
 * which is inside the buffer. */
static enum bp_status check_inside(const struct bp_tensor *base, int64_t count, int64_t offset,
                                   int64_t last)
{
    int64_t width = bp_dtype_bits(base->view.dtype) / 8;
    int64_t have = (int64_t)(base->buffer->size - base->offset) / width;

    if (offset < 0)
        return bp_error(BP_ERR_INVALID, "bp_tensor_view: offset is %" PRId64 ", expected 0 or more",
                        offset);
    if (count && (offset >= have || last >= have - offset))
        return bp_error(BP_ERR_INVALID,
                        "bp_tensor_view: the last element is number %" PRId64 " + %" PRId64
                        ", but the base's memory ends after %" PRId64 " elements",
                        offset, last, have);
    return BP_OK;
}

static enum bp_status check_type(const char *call, const struct bp_tensor *base,
                                 const struct bp_extents *e, int64_t *out_count)
{
    struct bp_type type = {.dtype = base->view.dtype, .rank = e->rank};
    uint64_t bytes;

    memcpy(type.shape, e->shape, sizeof type.shape);
    return bp_type_check(call, "", &type, out_count, &bytes);
}

/* Creates a tensor in the memory of the base. An empty tensor begins at the first element of the
 * base. */
static enum bp_status view_share(struct bp_tensor *base, const struct bp_extents *e, int64_t count,
                                 struct bp_tensor **out_tensor)
{
    uint64_t width = bp_dtype_bits(base->view.dtype) / 8;
    uint64_t offset = base->offset + (count ? (uint64_t)e->offset * width : 0);
    enum bp_status status;

    bp_buffer_retain(base->buffer);
    status = bp_tensor_create_inside(base->buffer, base->view.dtype, e, offset, out_tensor);
    if (status) bp_buffer_release(base->buffer);
    return status;
}

enum bp_status bp_tensor_view(struct bp_tensor *base, int64_t offset, uint32_t rank,
                              const int64_t *shape, const int64_t *stride,
                              struct bp_tensor **out_tensor)
{
    struct bp_extents e = {.rank = rank, .offset = offset};
    int64_t count, last;

    if (!bp_tensor_is(base)) return bp_not_a_tensor(__func__, base);
    if (!out_tensor || (rank && (!shape || !stride)))
        return bp_error(BP_ERR_INVALID, "bp_tensor_view: shape, stride or out_tensor is NULL");
    if (rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "bp_tensor_view: rank is %u, expected at most %d", rank,
                        BP_RANK_MAX);
    if (rank) memcpy(e.shape, shape, rank * sizeof *shape);
    if (rank) memcpy(e.stride, stride, rank * sizeof *stride);
    TRY(check_type("bp_tensor_view", base, &e, &count));
    TRY(bp_strides_last_element("bp_tensor_view", rank, shape, stride, &last));
    TRY(check_inside(base, count, offset, last));
    return view_share(base, &e, count, out_tensor);
}

void bp_tensor_extents(const struct bp_tensor *tensor, struct bp_extents *out)
{
    *out = (struct bp_extents){.rank = tensor->view.rank};
    memcpy(out->shape, tensor->shape, out->rank * sizeof *out->shape);
    memcpy(out->stride, tensor->stride, out->rank * sizeof *out->stride);
}

/* The common beginning of the four functions below. */
static enum bp_status view_begin(const char *call, const struct bp_tensor *base, uint32_t rank,
                                 const int64_t *shape, struct bp_tensor *const *out_tensor,
                                 struct bp_extents *out)
{
    if (!bp_tensor_is(base)) return bp_not_a_tensor(call, base);
    if (!out_tensor || (rank && !shape))
        return bp_error(BP_ERR_INVALID, "%s: %s is NULL", call,
                        out_tensor ? "shape" : "out_tensor");
    bp_tensor_extents(base, out);
    return BP_OK;
}

/* The common end of the four functions below. Their views are inside the base; only the shape can
 * be too large. */
static enum bp_status view_end(const char *call, struct bp_tensor *base, const struct bp_extents *e,
                               struct bp_tensor **out_tensor)
{
    int64_t count;

    TRY(check_type(call, base, e, &count));
    return view_share(base, e, count, out_tensor);
}

enum bp_status bp_tensor_reshape(struct bp_tensor *base, uint32_t rank, const int64_t *shape,
                                 struct bp_tensor **out_tensor)
{
    struct bp_extents e;

    TRY(view_begin(__func__, base, rank, shape, out_tensor, &e));
    TRY(bp_extents_reshape(__func__, &e, rank, shape, &e));
    return view_end(__func__, base, &e, out_tensor);
}

enum bp_status bp_tensor_slice(struct bp_tensor *base, int64_t axis, int64_t start, int64_t stop,
                               int64_t step, struct bp_tensor **out_tensor)
{
    struct bp_extents e;

    TRY(view_begin(__func__, base, 0, NULL, out_tensor, &e));
    TRY(bp_extents_slice(__func__, &e, axis, start, stop, step, &e));
    return view_end(__func__, base, &e, out_tensor);
}

enum bp_status bp_tensor_transpose(struct bp_tensor *base, const int64_t *perm,
                                   struct bp_tensor **out_tensor)
{
    struct bp_extents e;

    TRY(view_begin(__func__, base, 0, NULL, out_tensor, &e));
    TRY(bp_extents_transpose(__func__, &e, perm, &e));
    return view_end(__func__, base, &e, out_tensor);
}

enum bp_status bp_tensor_expand(struct bp_tensor *base, uint32_t rank, const int64_t *shape,
                                struct bp_tensor **out_tensor)
{
    struct bp_extents e;

    TRY(view_begin(__func__, base, rank, shape, out_tensor, &e));
    TRY(bp_extents_expand(__func__, &e, rank, shape, &e));
    return view_end(__func__, base, &e, out_tensor);
}

/* Whether two tensors are in separate memory, judged by the first and last byte. Otherwise returns
 * the distance of their first elements in bytes. On a device with handles, addresses are offsets in
 * one buffer. */
static bool view_is_apart(const struct bp_tensor *a, const struct bp_tensor *b,
                          int64_t *out_distance)
{
    bool handles = a->device->properties.flags & BP_DEVICE_HANDLES;

    if (!a->view.count || !b->view.count || a->device != b->device) return true;
    if (handles && a->buffer != b->buffer) return true;
    *out_distance = (int64_t)((uintptr_t)b->view.data - (uintptr_t)a->view.data);
    return *out_distance >= (int64_t)bp_tensor_span(a) ||
           -*out_distance >= (int64_t)bp_tensor_span(b);
}

bool bp_tensors_overlap(const struct bp_tensor *a, const struct bp_tensor *b)
{
    int64_t width = bp_dtype_bits(a->view.dtype) / 8, distance = 0;
    struct bp_extents x, y;

    if (view_is_apart(a, b, &distance)) return false;
    if (a->view.dtype != b->view.dtype || distance % width) return true;
    bp_tensor_extents(a, &x);
    bp_tensor_extents(b, &y);
    y.offset = distance / width;
    return bp_extents_overlap(&x, &y);
}
