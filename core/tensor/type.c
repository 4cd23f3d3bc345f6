/* SPDX-License-Identifier: Apache-2.0 */
/* type.c: writes dtypes and shapes as text, checks types, and computes signatures and properties of
 * strides. */
#include "tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *bp_shape_text(uint32_t rank, const int64_t *shape, char *text, size_t size)
{
    int n = snprintf(text, size, "[");

    for (uint32_t i = 0; i < rank && n > 0 && (size_t)n < size; i++)
        n += snprintf(text + n, size - (size_t)n, "%s%" PRId64, i ? ", " : "", shape[i]);
    if (n > 0 && (size_t)n < size) snprintf(text + n, size - (size_t)n, "]");
    return text;
}

const char *bp_type_text(uint32_t dtype, uint32_t rank, const int64_t *shape, char *text,
                         size_t size)
{
    int n = snprintf(text, size, "%s ", bp_dtype_name(dtype));

    if (n > 0 && (size_t)n < size) bp_shape_text(rank, shape, text + n, size - (size_t)n);
    return text;
}

/* In the product of extents 0 counts as 1, because the strides of an empty tensor must fit too. */
enum bp_status bp_type_check(const char *what, const char *output, const struct bp_type *type,
                             int64_t *out_count, uint64_t *out_bytes)
{
    const char *comma = *output ? ", output " : "";
    int64_t cover = 1, bytes;
    bool empty = false;

    if (!bp_dtype_bits(type->dtype))
        return bp_error(BP_ERR_INVALID, "%s%s%s: %u is no dtype (enum bp_dtype)", what, comma,
                        output, type->dtype);
    if (type->rank > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "%s%s%s: rank is %u, expected at most %d", what, comma,
                        output, type->rank, BP_RANK_MAX);
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->shape[i] < 0)
            return bp_error(BP_ERR_INVALID, "%s%s%s: extent %u is %" PRId64 ", expected 0 or more",
                            what, comma, output, i, type->shape[i]);
        empty |= type->shape[i] == 0;
        if (type->shape[i] && __builtin_mul_overflow(cover, type->shape[i], &cover))
            cover = INT64_MAX;
    }
    if (__builtin_mul_overflow(cover, (int64_t)bp_dtype_bits(type->dtype) / 8, &bytes) ||
        cover == INT64_MAX) {
        char text[BP_TYPE_TEXT];
        return bp_error(BP_ERR_INVALID, "%s%s%s: %s has more bytes than 63 bits count", what, comma,
                        output,
                        bp_type_text(type->dtype, type->rank, type->shape, text, sizeof text));
    }
    *out_count = empty ? 0 : cover;
    *out_bytes = empty ? 0 : (uint64_t)bytes;
    return BP_OK;
}

uint64_t bp_signature_key[2];

uint64_t bp_signature_of_device(void)
{
    static _Atomic uint64_t next = 1;

    return bp_signature_mix(bp_signature_key[0] + bp_signature_key[1], atomic_fetch_add(&next, 1));
}

uint64_t bp_view_signature(const struct bp_view *view)
{
    uint64_t h = bp_signature_mix(bp_signature_key[1],
                                  (uint64_t)view->dtype << 48 | (uint64_t)view->rank << 40 |
                                      (uint64_t)view->flags << 32 | (uint64_t)view->space << 16 |
                                      view->layout);

    for (uint32_t i = 0; i < view->rank; i++) h = bp_signature_mix(h, (uint64_t)view->shape[i]);
    if (view->flags & BP_VIEW_STRIDED)
        for (uint32_t i = 0; i < view->rank; i++)
            h = bp_signature_mix(h, (uint64_t)view->stride[i]);
    return h;
}

bool bp_strides_are_contiguous(uint32_t rank, const int64_t *shape, const int64_t *stride)
{
    int64_t expected = 1;

    for (uint32_t i = 0; i < rank; i++)
        if (shape[i] == 0) return true;
    for (uint32_t i = rank; i-- > 0;) {
        if (shape[i] != 1 && stride[i] != expected) return false;
        expected *= shape[i];
    }
    return true;
}

/* Sorts the axes by stride, smallest first; axes with extent 1 do not count. */
bool bp_view_overlaps_itself(const struct bp_view *view)
{
    uint32_t axis[BP_RANK_MAX], n = 0;
    int64_t last = 0;  /* index of the last element that the inner axes reach */

    if (view->count == 0) return false;
    for (uint32_t i = 0; i < view->rank; i++) {
        uint32_t at = n;
        if (view->shape[i] == 1) continue;
        for (; at > 0 && view->stride[axis[at - 1]] > view->stride[i]; at--)
            axis[at] = axis[at - 1];
        axis[at] = i;
        n++;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (view->stride[axis[i]] <= last) return true;
        last += (view->shape[axis[i]] - 1) * view->stride[axis[i]];
    }
    return false;
}

/* Whether the axes of more than one element are in row-major order. axis: sorted by stride. */
static bool axes_ascend(uint32_t rank, const uint32_t *axis, const int64_t *shape)
{
    uint32_t last = 0;

    for (uint32_t i = 0; i < rank; i++) {
        if (shape[axis[i]] == 1) continue;
        if (axis[i] < last) return false;
        last = axis[i];
    }
    return true;
}

bool bp_strides_like(uint32_t rank, const int64_t *shape, const struct bp_view *like,
                     int64_t *out_stride)
{
    uint32_t axis[BP_RANK_MAX]; /* outermost first */
    int64_t inner = 1, step = 1;

    if (like->rank != rank || !(like->flags & BP_VIEW_STRIDED)) return false;
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t at = i;
        for (; at > 0 && like->stride[axis[at - 1]] < like->stride[i]; at--)
            axis[at] = axis[at - 1];
        axis[at] = i;
    }
    for (uint32_t i = rank; i-- > 0;) {
        if (like->shape[axis[i]] == 1) continue;
        if (like->stride[axis[i]] < inner) return false; /* reversed, or repeated */
        inner = like->stride[axis[i]] * like->shape[axis[i]];
    }
    if (axes_ascend(rank, axis, like->shape)) return false;
    for (uint32_t i = rank; i-- > 0;) {
        out_stride[axis[i]] = step;
        step *= shape[axis[i]];
    }
    return true;
}
