/* SPDX-License-Identifier: Apache-2.0 */
/* fake_weak.c: defines the kernels of rows=weak, which take dense tensors of one shape only, and
 * indices of 32 bits. A launch with other tensors fails with BP_ERR_INTERNAL. */
#include "fake_parts.h"

#include <backplane/attrs.h>
#include <string.h>

/* Whether a view is dense and has the shape of the output. */
static bool weak_fits(const struct bp_view *v, const struct bp_view *z)
{
    int64_t step = 1;

    if (v->flags & BP_VIEW_STRIDED || v->rank != z->rank) return false;
    for (int a = v->rank - 1; a >= 0; a--) {
        if (v->shape[a] != z->shape[a] || (v->shape[a] > 1 && v->count && v->stride[a] != step))
            return false;
        step *= v->shape[a];
    }
    return true;
}

static bool weak_all_fit(const struct bp_launch *l)
{
    bool fit = weak_fits(l->out[0], l->out[0]);

    for (uint32_t i = 0; i < l->n_in; i++) fit &= weak_fits(l->in[i], l->out[0]);
    return fit;
}

static size_t weak_width(const struct bp_view *v)
{
    switch (v->dtype) {
    case BP_BOOL:
    case BP_I8: return 1;
    case BP_F16: return 2;
    case BP_I64: return 8;
    default: return 4;
    }
}

enum bp_status fake_weak_add(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->in[1], *z = l->out[0];

    if (!weak_all_fit(l)) return BP_ERR_INTERNAL;
    for (int64_t i = 0; i < z->count; i++)
        if (z->dtype == BP_F32)
            ((float *)z->data)[i] = ((const float *)x->data)[i] + ((const float *)y->data)[i];
        else
            ((int64_t *)z->data)[i] =
                ((const int64_t *)x->data)[i] + ((const int64_t *)y->data)[i];
    return BP_OK;
}

enum bp_status fake_weak_where(const struct bp_launch *l)
{
    const struct bp_view *z = l->out[0];
    size_t width = weak_width(z);

    if (!weak_all_fit(l)) return BP_ERR_INTERNAL;
    for (int64_t i = 0; i < z->count; i++) {
        const struct bp_view *from = l->in[((const char *)l->in[0]->data)[i] ? 1 : 2];
        memcpy((char *)z->data + (size_t)i * width,
               (const char *)from->data + (size_t)i * width, width);
    }
    return BP_OK;
}

enum bp_status fake_weak_relu(const struct bp_launch *l)
{
    const float *x = l->in[0]->data;

    if (!weak_all_fit(l)) return BP_ERR_INTERNAL;
    for (int64_t i = 0; i < l->out[0]->count; i++)
        ((float *)l->out[0]->data)[i] = x[i] < 0 ? 0 : x[i];
    return BP_OK;
}

enum bp_status fake_weak_assign(const struct bp_launch *l)
{
    if (!weak_all_fit(l)) return BP_ERR_INTERNAL;
    if (l->out[0]->count)
        memcpy(l->out[0]->data, l->in[0]->data, (size_t)l->out[0]->count * weak_width(l->out[0]));
    return BP_OK;
}

/* Wraps, as the operator does. */
enum bp_status fake_weak_cast(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];

    if (!weak_all_fit(l)) return BP_ERR_INTERNAL;
    for (int64_t i = 0; i < y->count; i++) {
        int64_t v = x->dtype == BP_I64 ? ((const int64_t *)x->data)[i]
                                       : ((const int32_t *)x->data)[i];
        if (y->dtype == BP_I64) ((int64_t *)y->data)[i] = v;
        else ((uint32_t *)y->data)[i] = (uint32_t)v;
    }
    return BP_OK;
}

enum bp_status fake_weak_clip(const struct bp_launch *l)
{
    const struct bp_clip_attrs *a = l->attrs;
    int64_t low = (int64_t)a->min, high = (int64_t)a->max;

    if (!weak_all_fit(l)) return BP_ERR_INTERNAL;
    for (int64_t i = 0; i < l->out[0]->count; i++) {
        int64_t x = ((const int64_t *)l->in[0]->data)[i];
        ((int64_t *)l->out[0]->data)[i] = x < low ? low : x > high ? high : x;
    }
    return BP_OK;
}

/* Copies slices of x along an axis. The first bad index ends the launch. */
enum bp_status fake_weak_gather(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *index = l->in[1], *y = l->out[0];
    int64_t axis = ((const struct bp_gather_attrs *)l->attrs)->axis, outer = 1, inner = 1;
    size_t slice;

    if (axis < 0) axis += x->rank;
    for (int64_t a = 0; a < x->rank; a++)
        if (a != axis) *(a < axis ? &outer : &inner) *= x->shape[a];
    slice = (size_t)inner * weak_width(x);
    if (!weak_fits(x, x) || !weak_fits(index, index) || !weak_fits(y, y)) return BP_ERR_INTERNAL;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < index->count; i++) {
            int64_t at = ((const int32_t *)index->data)[i], n = x->shape[axis];
            if (at < 0) at += n;
            if (at < 0 || at >= n) return l->fault ? (void)(*l->fault = 1), BP_OK : BP_ERR_FAULT;
            memcpy((char *)y->data + (size_t)(o * index->count + i) * slice,
                   (const char *)x->data + (size_t)(o * n + at) * slice, slice);
        }
    return BP_OK;
}
