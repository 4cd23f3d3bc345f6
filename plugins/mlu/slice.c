/* SPDX-License-Identifier: Apache-2.0 */
/* slice.c: builds the plans of rows that cut axes, turn them round, and add borders. */
#include "rows.h"
#include <limits.h>
#include <string.h>

static int slice_call_flip(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlFlip(r->handle, s->ints, (int)s->i[0], mlu_desc(s, 0),
                                  mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1));
}

/* Turns the n axes of x in `axes` round. */
static void slice_flip(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y, uint32_t n,
                       const int *axes)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlFlip, slice_call_flip, MLU_TENSORS(x, y));

    if (!s) return;
    s->i[0] = n;
    memcpy(s->ints, axes, n * sizeof *axes);
}

void mlu_build_flip(struct mlu_build *b)
{
    const struct bp_flip_attrs *attrs = b->prep->attrs;
    const struct bp_view *x = b->prep->in[0];
    uint32_t n = attrs->axes.n ? (uint32_t)attrs->axes.n : x->rank;
    int axes[8];

    for (uint32_t i = 0; i < n; i++)
        axes[i] = (int)(attrs->axes.n ? mlu_axis(attrs->axes.at[i], x->rank) : i);
    if (n) slice_flip(b, mlu_in(b, 0), mlu_out(b, 0), n, axes);
    else mlu_step_unary(b, FN_cnnlCopy, mlu_flat(mlu_in(b, 0)), mlu_flat(mlu_out(b, 0)));
}

static int64_t slice_clamp(int64_t value, int64_t n, int64_t most)
{
    if (value < 0) value += n;
    return value < 0 ? 0 : value > most ? most : value;
}

/* Where a step is below 0, the axis is flipped first, and its elements are counted from its
 * end. */
void mlu_build_strided_slice(struct mlu_build *b)
{
    const struct bp_strided_slice_attrs *attrs = b->prep->attrs;
    struct mlu_tensor x = mlu_in(b, 0), y = mlu_out(b, 0);
    uint32_t flipped = 0;
    struct mlu_cut cut[8];
    int axes[8];

    for (uint32_t i = 0; i < x.rank; i++) cut[i] = (struct mlu_cut){0, x.shape[i], 1};
    for (int64_t i = 0; i < attrs->starts.n; i++) {
        int64_t axis = attrs->axes.n ? mlu_axis(attrs->axes.at[i], x.rank) : i;
        int64_t step = attrs->steps.n ? attrs->steps.at[i] : 1, n = x.shape[axis], first;
        first = slice_clamp(attrs->starts.at[i], n, step < 0 ? n - 1 : n);
        if (step < 0) {
            axes[flipped++] = (int)axis;
            first = n - 1 - first;
            step = step < -n ? n : -step;
        }
        cut[axis] = (struct mlu_cut){first, y.shape[axis], step > n ? n : step};
    }
    if (flipped) {
        struct mlu_tensor other = mlu_temporary(b, x.dtype, x.rank, x.shape);
        slice_flip(b, x, other, flipped, axes);
        x = other;
    }
    mlu_step_cut(b, x, y, cut);
}

/* y = x with zeros in front of axes and behind them. */
static int slice_call_zeros(const struct mlu_run *r, const struct mlu_step *s)
{
    static const unsigned char zero[8];

    return mlu_cnnl.call.cnnlPad(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), s->ints, zero,
                                 mlu_desc(s, 1), mlu_address(r, s, 1));
}

static void slice_zeros(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                        const int *borders)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlPad, slice_call_zeros, MLU_TENSORS(x, y));

    if (s) memcpy(s->ints, borders, 2 * x.rank * sizeof *borders);
}

/* dy with zeros in front and behind. Where a step is above 1, each element first becomes the first
 * of `step` of a further axis. */
void mlu_build_slice_grad(struct mlu_build *b)
{
    const struct bp_slice_grad_attrs *attrs = b->prep->attrs;
    struct mlu_tensor dy = mlu_in(b, 0), dx = mlu_out(b, 0);
    int64_t first[8] = {0}, step[8];
    int borders[16] = {0};

    for (uint32_t i = 0; i < dx.rank; i++) step[i] = 1;
    for (int64_t i = 0; i < attrs->starts.n; i++) {
        int64_t axis = attrs->axes.n ? mlu_axis(attrs->axes.at[i], dx.rank) : i;
        first[axis] = slice_clamp(attrs->starts.at[i], dx.shape[axis], dx.shape[axis]);
        step[axis] = attrs->steps.n ? attrs->steps.at[i] : 1;
    }
    if (!mlu_count(&dy)) {
        mlu_step_fill(b, 0, mlu_flat(dx));
        return;
    }
    for (uint32_t i = 0; i < dx.rank; i++) {
        int64_t shape[8], outer = 1, inner = 1, wide;
        struct mlu_tensor y;
        if (step[i] <= 1 || dy.shape[i] <= 1) continue;
        memcpy(shape, dy.shape, sizeof shape);
        for (uint32_t k = 0; k < i; k++) outer *= dy.shape[k];
        for (uint32_t k = i + 1; k < dy.rank; k++) inner *= dy.shape[k];
        if (step[i] > dx.shape[i] || step[i] > INT_MAX) mlu_refuse(b);
        wide = dy.shape[i] * step[i];
        shape[i] = wide;
        y = mlu_temporary(b, dy.dtype, dy.rank, shape);
        slice_zeros(b, mlu_shaped(dy, 3, (int64_t[]){outer * dy.shape[i], 1, inner}),
                    mlu_shaped(y, 3, (int64_t[]){outer * dy.shape[i], step[i], inner}),
                    (int[]){0, 0, 0, (int)step[i] - 1, 0, 0});
        shape[i] = wide - step[i] + 1;
        dy = mlu_temporary(b, dy.dtype, dy.rank, shape);
        mlu_step_cut(b, mlu_shaped(y, 3, (int64_t[]){outer, wide, inner}),
                     mlu_shaped(dy, 3, (int64_t[]){outer, shape[i], inner}),
                     (const struct mlu_cut[]){{0, outer, 1}, {0, shape[i], 1}, {0, inner, 1}});
    }
    for (uint32_t i = 0; i < dx.rank; i++) {
        int64_t behind = dx.shape[i] - first[i] - dy.shape[i];
        if (first[i] > INT_MAX || behind > INT_MAX) mlu_refuse(b);
        borders[2 * i] = (int)first[i];
        borders[2 * i + 1] = (int)behind;
    }
    slice_zeros(b, dy, dx, borders);
}

static int slice_call_pad(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct bp_pad_attrs *attrs = r->launch->attrs;
    unsigned char value[8];

    mlu_value(value, s->t[0].dtype, attrs->value);
    return mlu_cnnl.call.cnnlPad(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), s->ints, value,
                                 mlu_desc(s, 1), mlu_address(r, s, 1));
}

/* The borders of an axis. */
static int64_t slice_border(const struct bp_dims *borders, uint32_t axis)
{
    return axis < borders->n ? borders->at[axis] : 0;
}

static void slice_pad_value(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y)
{
    const struct bp_pad_attrs *attrs = b->prep->attrs;
    struct mlu_step *s;

    if (!mlu_count(&x)) {
        mlu_step_full(b, offsetof(struct bp_pad_attrs, value), y);
        return;
    }
    s = mlu_step(b, FN_cnnlPad, slice_call_pad, MLU_TENSORS(x, y));
    for (uint32_t i = 0; i < x.rank && s; i++) {
        int64_t before = slice_border(&attrs->before, i), after = slice_border(&attrs->after, i);
        if (before > INT_MAX || after > INT_MAX) mlu_refuse(b);
        s->ints[2 * i] = before < 0 ? 0 : (int)before;
        s->ints[2 * i + 1] = after < 0 ? 0 : (int)after;
    }
}

/* n elements of the middle axis of x as a border of that axis: reflected, repeated, or taken from
 * the other end. */
static struct mlu_tensor slice_border_of(struct mlu_build *b, struct mlu_tensor x, int64_t mode,
                                         int64_t n, bool in_front)
{
    static const int middle = 1;
    const int64_t shape[] = {x.shape[0], n, x.shape[2]}, all = x.shape[1];
    struct mlu_tensor part, border = mlu_temporary(b, x.dtype, 3, shape);
    struct mlu_cut cut[3] = {{0, shape[0], 1}, {0, n, 1}, {0, shape[2], 1}};

    switch (mode) {
    case BP_PAD_MODE_REFLECT:
        part = mlu_temporary(b, x.dtype, 3, shape);
        cut[1].first = in_front ? 1 : all - 1 - n;
        mlu_step_cut(b, x, part, cut);
        slice_flip(b, part, border, 1, &middle);
        break;
    case BP_PAD_MODE_REPLICATE:
        part = mlu_temporary(b, x.dtype, 3, (int64_t[]){shape[0], 1, shape[2]});
        cut[1] = (struct mlu_cut){in_front ? 0 : all - 1, 1, 1};
        mlu_step_cut(b, x, part, cut);
        mlu_step_unary(b, FN_cnnlExpand, part, border);
        break;
    default: cut[1].first = in_front ? all - n : 0; mlu_step_cut(b, x, border, cut);
    }
    return border;
}

/* Adds the borders of one axis, if it has any. */
static struct mlu_tensor slice_pad_axis(struct mlu_build *b, struct mlu_tensor x, uint32_t axis,
                                        int64_t before, int64_t after)
{
    const struct bp_pad_attrs *attrs = b->prep->attrs;
    int64_t shape[3] = {1, x.shape[axis], 1}, result[8];
    struct mlu_tensor part[3], y;
    uint32_t n = 0;

    if (before <= 0 && after <= 0) return x;
    memcpy(result, x.shape, sizeof result);
    result[axis] += (before > 0 ? before : 0) + (after > 0 ? after : 0);
    for (uint32_t i = 0; i < x.rank; i++) {
        if (i < axis) shape[0] *= x.shape[i];
        if (i > axis) shape[2] *= x.shape[i];
    }
    y = mlu_temporary(b, x.dtype, x.rank, result);
    x = mlu_shaped(x, 3, shape);
    if (before > 0) part[n++] = slice_border_of(b, x, attrs->mode, before, true);
    part[n++] = x;
    if (after > 0) part[n++] = slice_border_of(b, x, attrs->mode, after, false);
    shape[1] = result[axis];
    mlu_step_concat(b, n, part, mlu_shaped(y, 3, shape));
    return y;
}

/* x with the borders that are above 0. */
static struct mlu_tensor slice_widen(struct mlu_build *b, struct mlu_tensor x)
{
    const struct bp_pad_attrs *attrs = b->prep->attrs;
    struct mlu_tensor y;
    int64_t shape[8];

    if (attrs->mode == BP_PAD_MODE_VALUE) {
        for (uint32_t i = 0; i < x.rank; i++) {
            int64_t before = slice_border(&attrs->before, i),
                    after = slice_border(&attrs->after, i);
            shape[i] = x.shape[i] + (before > 0 ? before : 0) + (after > 0 ? after : 0);
        }
        y = mlu_temporary(b, x.dtype, x.rank, shape);
        slice_pad_value(b, x, y);
        return y;
    }
    for (uint32_t i = 0; i < x.rank; i++)
        x = slice_pad_axis(b, x, i, slice_border(&attrs->before, i),
                           slice_border(&attrs->after, i));
    return x;
}

/* Borders below 0 take elements away, after others have added some: so a mirror image has the
 * elements that are taken away, too. */
void mlu_build_pad(struct mlu_build *b)
{
    const struct bp_pad_attrs *attrs = b->prep->attrs;
    struct mlu_tensor x = mlu_in(b, 0), y = mlu_out(b, 0);
    struct mlu_cut cut[8];
    bool cuts = false;

    for (uint32_t i = 0; i < x.rank; i++) {
        int64_t before = slice_border(&attrs->before, i), after = slice_border(&attrs->after, i);
        cut[i] = (struct mlu_cut){before < 0 ? -before : 0, y.shape[i], 1};
        cuts |= before < 0 || after < 0;
    }
    if (!cuts && attrs->mode == BP_PAD_MODE_VALUE) {
        slice_pad_value(b, x, y);
        return;
    }
    x = slice_widen(b, x);
    if (cuts) mlu_step_cut(b, x, y, cut);
    else mlu_step_unary(b, FN_cnnlCopy, mlu_flat(x), mlu_flat(y));
}

/* Shifts the middle one of three axes. */
static void slice_roll(struct mlu_build *b, struct mlu_tensor x, int64_t shift, struct mlu_tensor y)
{
    int64_t n = x.shape[1], extent[2] = {shift, n - shift};
    struct mlu_tensor part[2];

    for (int i = 0; i < 2; i++) {
        struct mlu_cut cut[3] = {
            {0, x.shape[0], 1}, {i ? 0 : n - shift, extent[i], 1}, {0, x.shape[2], 1}};
        part[i] = mlu_temporary(b, x.dtype, 3, (int64_t[]){x.shape[0], extent[i], x.shape[2]});
        mlu_step_cut(b, x, part[i], cut);
    }
    mlu_step_concat(b, 2, part, y);
}

void mlu_build_roll(struct mlu_build *b)
{
    const struct bp_roll_attrs *attrs = b->prep->attrs;
    struct mlu_tensor x = mlu_in(b, 0), to = x;

    for (int64_t i = 0; i < attrs->shifts.n; i++) {
        int64_t axis = attrs->axes.n ? mlu_axis(attrs->axes.at[i], x.rank) : 0, shift;
        int64_t shape[3] = {1, attrs->axes.n ? 1 : mlu_count(&x), 1};
        struct mlu_tensor from = to;
        for (int64_t a = 0; attrs->axes.n && a < x.rank; a++)
            shape[a < axis ? 0 : a > axis ? 2 : 1] *= x.shape[a];
        shift = attrs->shifts.at[i] % shape[1];
        if (shift < 0) shift += shape[1];
        if (!shift) continue;
        to = mlu_temporary(b, x.dtype, x.rank, x.shape);
        slice_roll(b, mlu_shaped(from, 3, shape), shift, mlu_shaped(to, 3, shape));
    }
    mlu_step_unary(b, FN_cnnlCopy, mlu_flat(to), mlu_flat(mlu_out(b, 0)));
}
