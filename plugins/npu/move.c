/* SPDX-License-Identifier: Apache-2.0 */
/* move.c: builds the calls of operators that copy parts of tensors: parts are aliases, which
 * InplaceCopy reads and writes by their strides. */
#include "builds.h"
#include "parts.h"
#include <string.h>

/* A part of a contiguous tensor. */
struct move_part {
    uint32_t rank;
    int64_t shape[KIT_AXES_MAX], stride[KIT_AXES_MAX], offset; /* elements */
    int64_t reversed[KIT_AXES_MAX]; /* axes along which the part is read backwards */
    uint32_t n_reversed;
};

static struct move_part move_whole(const struct bp_view *v)
{
    struct move_part p = {.rank = v->rank};
    int64_t stride = 1;

    for (uint32_t a = v->rank; a-- > 0; stride *= v->shape[a]) {
        p.shape[a] = v->shape[a];
        p.stride[a] = stride;
    }
    return p;
}

static struct kit_arg move_alias(struct kit_build *b, struct kit_arg base,
                                 const struct move_part *p)
{
    const uint32_t dtype = part_dtype(b, base);

    return kit_alias(b, base, dtype, p->rank, p->shape, p->stride,
                     p->offset * (int64_t)part_item_size(dtype));
}

static void move_copy(struct kit_build *b, struct kit_arg to, struct kit_arg from)
{
    to.role = KIT_UPDATES;
    KIT_STEP(b, "InplaceCopy", to, from);
}

/* Fills any part by a copy of one element. */
static void move_fill(struct kit_build *b, struct kit_arg to, double value)
{
    struct kit_arg one = kit_temporary(b, part_dtype(b, to), 0, NULL);

    create_fill(b, one, value);
    move_copy(b, to, one);
}

/* The elements from `starts` on, by steps. `part` has the extents of the part. All operators that
 * slice have the attributes of strided_slice. */
static struct move_part move_slice(const struct kit_build *b, const struct bp_view *whole,
                                   const struct bp_view *part)
{
    const struct bp_strided_slice_attrs *attrs = b->attrs;
    struct move_part p = move_whole(whole);

    for (int64_t i = 0; i < attrs->starts.n; i++) {
        const int64_t named = attrs->axes.n ? attrs->axes.at[i] : i;
        const int64_t a = named < 0 ? named + whole->rank : named, n = whole->shape[a];
        const int64_t step = attrs->steps.n ? attrs->steps.at[i] : 1;
        const int64_t extent = part->shape[a];
        int64_t start = attrs->starts.at[i] + (attrs->starts.at[i] < 0 ? n : 0);

        if (start < 0) start = 0;
        if (start > n - (step < 0)) start = n - (step < 0);
        if (step < 0) {
            start += (extent - 1) * step;
            p.reversed[p.n_reversed++] = a;
        }
        if (extent) p.offset += start * p.stride[a];
        p.stride[a] *= step < 0 ? -step : step;
        p.shape[a] = extent;
    }
    return p;
}

static struct kit_arg move_reverse(struct kit_build *b, struct kit_arg x, const struct move_part *p)
{
    const struct bp_view *v = kit_arg_view(b, &x);
    struct kit_arg to;

    if (!v || !p->n_reversed) return x;
    to = kit_temporary_like(b, v);
    KIT_STEP(b, "Flip", x, kit_array(b, p->reversed, p->n_reversed), to);
    return to;
}

enum bp_status npu_strided_slice_build(struct kit_build *b)
{
    const struct move_part p = move_slice(b, b->in[0], b->out[0]);
    struct kit_arg part = move_alias(b, KIT_VALUE(KIT_IN(0)), &p);

    if (!p.n_reversed) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), part);
    return KIT_STEP(b, "Flip", part, kit_array(b, p.reversed, p.n_reversed), KIT_OUT(0));
}

/* Also of slice_grad. */
enum bp_status npu_strided_slice_grad_build(struct kit_build *b)
{
    const struct move_part p = move_slice(b, b->out[0], b->in[0]);

    create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
    if (!b->in[0]->count) return b->status;
    move_copy(b, move_alias(b, KIT_VALUE(KIT_OUT(0)), &p),
              move_reverse(b, KIT_VALUE(KIT_IN(0)), &p));
    return part_pack(b);
}

/* The extents of the slice that set_value replaces. */
static void move_extents(const struct kit_build *b, int64_t shape[KIT_AXES_MAX])
{
    const struct bp_strided_slice_attrs *attrs = b->attrs;
    const struct bp_view *x = b->in[0];

    memcpy(shape, x->shape, x->rank * sizeof *shape);
    for (int64_t i = 0; i < attrs->starts.n; i++) {
        const int64_t named = attrs->axes.n ? attrs->axes.at[i] : i;
        const int64_t a = named < 0 ? named + x->rank : named, n = x->shape[a];
        const int64_t step = attrs->steps.n ? attrs->steps.at[i] : 1;
        const int64_t least = step < 0 ? -1 : 0, most = step < 0 ? n - 1 : n;
        int64_t start = attrs->starts.at[i], end = attrs->ends.at[i], length;

        start += start < 0 ? n : 0;
        end += end < 0 ? n : 0;
        start = start < least ? least : start > most ? most : start;
        end = end < least ? least : end > most ? most : end;
        length = step < 0 ? start - end : end - start;
        shape[a] = length <= 0 ? 0 : (length - 1) / (step < 0 ? -step : step) + 1;
    }
}

enum bp_status npu_set_value_build(struct kit_build *b)
{
    int64_t shape[KIT_AXES_MAX];
    struct bp_view extents = {.shape = shape, .rank = b->in[0]->rank};
    struct move_part p;
    struct kit_arg part;

    KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), KIT_IN(0));
    move_extents(b, shape);
    for (uint32_t a = 0; a < extents.rank; a++)
        if (!shape[a]) return b->status;
    p = move_slice(b, b->in[0], &extents);
    part = move_alias(b, KIT_VALUE(KIT_OUT(0)), &p);
    if (!b->in[b->in_at[1]]) {
        move_fill(b, part, 0);
    } else if (p.n_reversed) { /* the value is reversed in the shape of the slice */
        struct kit_arg full = kit_temporary_like(b, kit_arg_view(b, &part));

        move_copy(b, full, KIT_VALUE(KIT_IN(1)));
        move_copy(b, part, move_reverse(b, full, &p));
    } else {
        move_copy(b, part, KIT_VALUE(KIT_IN(1)));
    }
    return part_pack(b);
}

enum bp_status npu_diag_embed_build(struct kit_build *b)
{
    const struct bp_diag_embed_attrs *attrs = b->attrs;
    const struct bp_view *x = b->in[0], *y = b->out[0];
    const int64_t rows = attrs->axis1 + (attrs->axis1 < 0 ? y->rank : 0);
    const int64_t columns = attrs->axis2 + (attrs->axis2 < 0 ? y->rank : 0);
    const struct move_part whole = move_whole(y);
    struct move_part p = {.rank = x->rank};
    uint32_t at = 0;

    create_fill(b, KIT_VALUE(KIT_OUT(0)), part_value(b, KIT_VALUE(KIT_SCALAR(diag_embed, value))));
    if (!x->count) return b->status;
    for (int64_t a = 0; a < y->rank; a++)
        if (a != rows && a != columns) p.stride[at++] = whole.stride[a];
    p.stride[at] = whole.stride[rows] + whole.stride[columns];
    memcpy(p.shape, x->shape, x->rank * sizeof *p.shape);
    p.offset = attrs->offset < 0 ? -attrs->offset * whole.stride[rows]
                                 : attrs->offset * whole.stride[columns];
    move_copy(b, move_alias(b, KIT_VALUE(KIT_OUT(0)), &p), KIT_VALUE(KIT_IN(0)));
    return b->status;
}

static int64_t diagonal_least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

/* With wrap the diagonal begins again in each block of as many rows as there are columns, and one
 * more. */
enum bp_status npu_fill_diagonal_build(struct kit_build *b)
{
    const struct bp_fill_diagonal_attrs *attrs = b->attrs;
    const double value = part_value(b, KIT_VALUE(KIT_SCALAR(fill_diagonal, value)));
    const struct bp_view *y = b->out[0];
    const struct move_part whole = move_whole(y);
    struct move_part p = {.rank = 1};
    const int64_t d = y->rank == 2 ? attrs->offset : 0, row = d < 0 ? -d : 0, rows = y->shape[0];
    const int64_t column = d > 0 ? d : 0, columns = y->shape[1];
    const int64_t block = attrs->wrap && y->rank == 2 ? columns + 1 : rows;

    KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), KIT_IN(0));
    for (uint32_t a = 0; a < y->rank; a++) p.stride[0] += whole.stride[a];
    for (int64_t top = 0; top < rows; top += block) {
        const int64_t there = diagonal_least(block, rows - top);

        p.offset = (top + row) * whole.stride[0] + column * whole.stride[1];
        p.shape[0] = diagonal_least(there - row, columns - column);
        if (p.shape[0] > 0) move_fill(b, move_alias(b, KIT_VALUE(KIT_OUT(0)), &p), value);
    }
    return part_pack(b);
}

enum bp_status npu_assign_build(struct kit_build *b)
{
    return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), KIT_IN(0));
}

/* Sees both tensors with the dtype of the input, which is as wide as that of the output. */
enum bp_status npu_bit_cast_build(struct kit_build *b)
{
    const struct bp_view *x = b->in[0];
    struct kit_arg to = kit_alias(b, KIT_VALUE(KIT_OUT(0)), x->dtype, x->rank, x->shape, NULL, 0);

    move_copy(b, to, KIT_VALUE(KIT_IN(0)));
    return b->status;
}

enum bp_status npu_flip_build(struct kit_build *b)
{
    if (!b->in[0]->rank) return npu_assign_build(b);
    return KIT_STEP(b, "Flip", KIT_IN(0), KIT_AXES(flip, axes, 0), KIT_OUT(0));
}

enum bp_status npu_roll_build(struct kit_build *b)
{
    const struct bp_roll_attrs *attrs = b->attrs;
    const struct bp_view *x = b->in[0];
    const int64_t first = 0;
    struct kit_arg shifts = KIT_DIMS(roll, shifts), axes = KIT_AXES(roll, axes, 0);

    if (!x->rank) return npu_assign_build(b);
    if (attrs->axes.n) return KIT_STEP(b, "Roll", KIT_IN(0), shifts, axes, KIT_OUT(0));
    return KIT_STEP(b, "Roll", kit_reshaped(b, KIT_VALUE(KIT_IN(0)), 1, &x->count), shifts,
                    kit_array(b, &first, 1), kit_reshaped(b, KIT_VALUE(KIT_OUT(0)), 1, &x->count));
}

enum bp_status npu_tile_build(struct kit_build *b)
{
    const struct bp_tile_attrs *attrs = b->attrs;
    const struct bp_view *x = b->in[0], *y = b->out[0];
    int64_t repeats[KIT_AXES_MAX];

    if (!y->rank) return npu_assign_build(b);
    for (uint32_t a = 0; a < y->rank; a++) repeats[a] = 1;
    for (int64_t i = 0; i < attrs->repeats.n; i++)
        repeats[y->rank - attrs->repeats.n + i] = attrs->repeats.at[i];
    if (!x->count) return kit_refuse(b);
    return KIT_STEP(b, "Repeat", KIT_IN(0), kit_array(b, repeats, y->rank), KIT_OUT(0));
}

enum {
    JOIN_MOST = 32
}; /* tensors of one call */

/* Joins tensors along an axis of the output, some in each call. `each`: the extent of one tensor
 * along that axis; 0: its own. */
static enum bp_status join_build(struct kit_build *b, const char *function, int64_t axis,
                                 int64_t each)
{
    struct move_part p = move_whole(b->out[0]);
    const int64_t stride = p.stride[axis];

    if (b->n_in <= JOIN_MOST)
        return KIT_STEP(b, function, KIT_INS(0), KIT_INT_IS(axis), KIT_OUT(0));
    for (uint32_t i = 0; i < b->n_in; i += JOIN_MOST) {
        const uint32_t n = b->n_in - i < JOIN_MOST ? b->n_in - i : JOIN_MOST;

        p.shape[axis] = each * n;
        for (uint32_t k = i; k < i + n && !each; k++) p.shape[axis] += b->in[k]->shape[axis];
        KIT_STEP(b, function,
                 KIT_ARG(.from = KIT_FROM_INS, .as = KIT_AS_TENSORS, .size = (uint16_t)n, .i = i),
                 KIT_INT_IS(axis), move_alias(b, KIT_VALUE(KIT_OUT(0)), &p));
        p.offset += p.shape[axis] * stride;
    }
    return b->status;
}

enum bp_status npu_concat_build(struct kit_build *b)
{
    const struct bp_concat_attrs *attrs = b->attrs;

    return join_build(b, "Cat", attrs->axis + (attrs->axis < 0 ? b->out[0]->rank : 0), 0);
}

enum bp_status npu_stack_build(struct kit_build *b)
{
    const struct bp_stack_attrs *attrs = b->attrs;

    return join_build(b, "Stack", attrs->axis + (attrs->axis < 0 ? b->out[0]->rank : 0), 1);
}

/* Elements are moved as integers where the vendor's function does not take their dtype. */
static enum bp_status triangle_build(struct kit_build *b, const char *function)
{
    const struct bp_view *x = b->in[0];
    uint32_t dtype = x->dtype == BP_C64 ? BP_I64 : create_bits(x->dtype);
    struct kit_arg in = KIT_IN(0), out = KIT_OUT(0);

    if (dtype != x->dtype) {
        in = kit_alias(b, in, dtype, x->rank, x->shape, x->stride, 0);
        out = kit_alias(b, out, dtype, x->rank, x->shape, b->out[0]->stride, 0);
    }
    return KIT_STEP(b, function, in, KIT_INT(tril, diagonal), out);
}

enum bp_status npu_tril_build(struct kit_build *b)
{
    return triangle_build(b, "Tril");
}

enum bp_status npu_triu_build(struct kit_build *b)
{
    return triangle_build(b, "Triu");
}

/* The tensor of number i of a group of inputs or outputs. */
static struct kit_arg move_one(enum kit_from from, uint32_t i)
{
    return KIT_VALUE({.from = (uint8_t)from, .size = 1, .i = i});
}

enum bp_status npu_broadcast_tensors_build(struct kit_build *b)
{
    for (uint32_t i = 0; i < b->n_out; i++)
        if (b->out[i]->count) move_copy(b, move_one(KIT_FROM_OUTS, i), move_one(KIT_FROM_INS, i));
    return b->status;
}

enum bp_status npu_meshgrid_build(struct kit_build *b)
{
    const struct bp_meshgrid_attrs *attrs = b->attrs;

    for (uint32_t i = 0; i < b->n_out; i++) {
        const uint32_t axis = attrs->xy && i < 2 && b->n_out > 1 ? 1 - i : i;
        int64_t shape[KIT_AXES_MAX];

        for (uint32_t a = 0; a < b->out[i]->rank && a < KIT_AXES_MAX; a++)
            shape[a] = a == axis ? b->in[i]->count : 1;
        move_copy(b, move_one(KIT_FROM_OUTS, i),
                  kit_reshaped(b, move_one(KIT_FROM_INS, i), b->out[i]->rank, shape));
    }
    return b->status;
}
