/* SPDX-License-Identifier: Apache-2.0 */
/* index.c: builds the calls of operators that read or write the places that indices name. npu_guard
 * checks the indices, and makes negative ones count from the front. */
#include "builds.h"
#include "call.h"
#include "rounds.h"
#include <string.h>

static int64_t index_axis(const struct kit_build *b)
{
    const struct bp_gather_attrs *attrs = b->attrs; /* axis is the first attribute of all */

    return attrs->axis + (attrs->axis < 0 ? b->in[0]->rank : 0);
}

static int64_t index_product(const int64_t *shape, uint32_t from, uint32_t to)
{
    int64_t n = 1;

    while (from < to) n *= shape[from++];
    return n;
}

/* An index as a tensor of one axis. */
static struct kit_arg index_line(struct kit_build *b, struct kit_arg index)
{
    const struct bp_view *v = kit_arg_view(b, &index);

    return v ? kit_reshaped(b, index, 1, &v->count) : KIT_VALUE(KIT_NONE);
}

/* GatherV2, for indices of any rank; an index without axes becomes one with one. */
enum bp_status npu_gather_build(struct kit_build *b)
{
    const struct bp_view *x = b->in[0], *index = b->in[1], *y = b->out[0];
    const int64_t axis = index_axis(b);
    struct kit_arg at = npu_guard(b, KIT_VALUE(KIT_IN(1)), x->shape[axis], true), out = KIT_OUT(0);
    int64_t shape[KIT_AXES_MAX];

    if (!index->rank) {
        at = index_line(b, at);
        memcpy(shape, x->shape, x->rank * sizeof *shape);
        shape[axis] = 1;
        out = kit_reshaped(b, out, x->rank, shape);
    }
    (void)y;
    return KIT_STEP(b, "GatherV2", KIT_IN(0), KIT_INT_IS(axis), at, out);
}

enum bp_status npu_index_select_build(struct kit_build *b)
{
    const int64_t axis = index_axis(b);
    struct kit_arg at = npu_guard(b, KIT_VALUE(KIT_IN(1)), b->in[0]->shape[axis], true);

    return KIT_STEP(b, "IndexSelect", KIT_IN(0), KIT_INT_IS(axis), at, KIT_OUT(0));
}

enum bp_status npu_take_along_axis_build(struct kit_build *b)
{
    const int64_t axis = index_axis(b);
    struct kit_arg at = npu_guard(b, KIT_VALUE(KIT_IN(1)), b->in[0]->shape[axis], true);

    return KIT_STEP(b, "Gather", KIT_IN(0), KIT_INT_IS(axis), at, KIT_OUT(0));
}

enum bp_status npu_index_sample_build(struct kit_build *b)
{
    struct kit_arg at = npu_guard(b, KIT_VALUE(KIT_IN(1)), b->in[0]->shape[1], true);

    return KIT_STEP(b, "Gather", KIT_IN(0), KIT_INT_IS(1), at, KIT_OUT(0));
}

/* 1 for each axis of a row: a mask of the rows that broadcasts to them. */
static struct kit_arg index_mask(struct kit_build *b, struct kit_arg mask, uint32_t rank)
{
    const struct bp_view *v = kit_arg_view(b, &mask);
    int64_t shape[KIT_AXES_MAX];

    if (!v) return KIT_VALUE(KIT_NONE);
    for (uint32_t a = 0; a < rank; a++) shape[a] = a < v->rank ? v->shape[a] : 1;
    return kit_reshaped(b, mask, rank, shape);
}

/* The function Embedding takes tables of two axes. */
static void index_rows(struct kit_build *b, struct kit_arg at, struct kit_arg to)
{
    if (b->in[0]->rank == 2) KIT_STEP(b, "Embedding", KIT_IN(0), at, to);
    else KIT_STEP(b, "GatherV2", KIT_IN(0), KIT_INT_IS(0), at, to);
}

enum bp_status npu_embedding_build(struct kit_build *b)
{
    const struct bp_embedding_attrs *attrs = b->attrs;
    const struct bp_view *y = b->out[0], *ids = b->in[1];
    struct kit_arg id = KIT_IN(1), out = KIT_OUT(0),
                   at = npu_guard(b, id, b->in[0]->shape[0], false);
    int64_t shape[KIT_AXES_MAX + 1] = {1};
    uint32_t rank = y->rank;

    if (!ids->rank) { /* with an axis of one id */
        memcpy(shape + 1, y->shape, y->rank * sizeof *shape);
        if (++rank > KIT_AXES_MAX) return kit_refuse(b);
        at = index_line(b, at);
        id = index_line(b, id);
        out = kit_reshaped(b, out, rank, shape);
    }
    if (attrs->padding_idx < 0) {
        index_rows(b, at, out);
    } else {
        struct kit_arg rows = kit_temporary_like(b, kit_arg_view(b, &out)), zero, mask;

        index_rows(b, at, rows);
        mask = part_compare(b, "EqTensor", id, KIT_VALUE(KIT_SCALAR_IS(attrs->padding_idx)));
        zero = kit_temporary(b, y->dtype, 0, NULL);
        create_fill(b, zero, 0);
        KIT_STEP(b, "SWhere", index_mask(b, mask, rank), zero, rows, out);
    }
    return part_pack(b);
}

/* Rows of indices as indices of one axis: of the slices of a tensor past its first `batch` axes and
 * those that a row names. */
struct index_rows {
    int64_t n, slices, size; /* how many rows; slices of the tensor, and elements of a slice */
    struct kit_arg at;
};

/* A line of constants of i32 or i64. */
static struct kit_arg index_constants(struct kit_build *b, uint32_t dtype, const int64_t *value,
                                      int64_t n)
{
    int32_t narrow[KIT_AXES_MAX];

    for (int64_t i = 0; i < n; i++) narrow[i] = (int32_t)value[i];
    return dtype == BP_I64 ? kit_constant(b, dtype, 1, &n, value)
                           : kit_constant(b, dtype, 1, &n, narrow);
}

/* Checks rows of k indices, of which each column has its extent, and adds up what the columns
 * contribute: the places of the slices in `n` rows and one column. */
static struct kit_arg index_columns(struct kit_build *b, struct kit_arg index, int64_t n, int64_t k,
                                    const int64_t *extent)
{
    const uint32_t dtype = part_dtype(b, index);
    const int64_t shape[2] = {n, k}, all[2] = {0, 1}, sums[2] = {n, 1};
    int64_t step[KIT_AXES_MAX] = {1};
    struct kit_arg most, least, at, bad, any, to;

    for (int64_t i = k - 1, s = 1; i >= 0; s *= extent[i--]) step[i] = s;
    index = kit_reshaped(b, index, 2, shape);
    most = index_constants(b, dtype, extent, k);
    least = part_one(b, "Neg", most);
    at = part_two(b, "Maximum", index, least);
    at = part_two(b, "Minimum", at, part_plus(b, most, KIT_VALUE(KIT_SCALAR_IS(-1))));
    bad = part_test(b, "NeTensor", index, at);
    any = kit_temporary(b, BP_BOOL, 0, NULL);
    KIT_STEP(b, "Any", bad, kit_array(b, all, 2), KIT_INT_IS(0), any);
    KIT_STEP(b, "InplaceMaskedFillScalar", kit_word(b), any, KIT_SCALAR_IS(1));
    at = part_two(b, "RemainderTensorTensor", at, most);
    at = part_two(b, "Mul", at, index_constants(b, dtype, step, k));
    to = kit_temporary(b, dtype, 2, sums);
    KIT_STEP(b, "ReduceSum", at, kit_array(b, &all[1], 1), KIT_INT_IS(1), KIT_DTYPE_IS(dtype), to);
    return to;
}

/* Rows of no index name the only slice. */
static struct kit_arg index_zeros(struct kit_build *b, uint32_t dtype, int64_t n)
{
    const int64_t shape[2] = {n, 1};
    struct kit_arg to = kit_temporary(b, dtype, 2, shape);

    create_fill(b, to, 0);
    return to;
}

static struct index_rows index_flat(struct kit_build *b, struct kit_arg index,
                                    const struct bp_view *x, uint32_t batch)
{
    const struct bp_view *v = kit_arg_view(b, &index);
    const int64_t k = v->shape[v->rank - 1], batches = index_product(v->shape, 0, batch);
    const int64_t slices = index_product(x->shape, batch, batch + (uint32_t)k);
    const int64_t rows = index_product(v->shape, batch, v->rank - 1U);
    struct index_rows r = {.n = batches * rows, .slices = batches * slices};

    if (v->dtype == BP_I32 && r.slices > INT32_MAX) kit_refuse(b);
    r.size = index_product(x->shape, batch + (uint32_t)k, x->rank);
    if (k > 1 && slices) r.at = index_columns(b, index, r.n, k, x->shape + batch);
    else if (k) r.at = npu_guard(b, index, slices, true);
    else r.at = index_zeros(b, v->dtype, r.n);
    if (batch) { /* each batch begins behind the one before */
        const int64_t first_shape[2] = {batches, 1}, shape[2] = {batches, rows};
        struct kit_arg first = kit_temporary(b, v->dtype, 1, &batches);

        KIT_STEP(b, "Arange", KIT_SCALAR_IS(0), KIT_SCALAR_IS(slices * batches),
                 KIT_SCALAR_IS(slices), first);
        r.at = part_add(b, kit_reshaped(b, r.at, 2, shape), kit_reshaped(b, first, 2, first_shape));
    }
    r.at = kit_reshaped(b, r.at, 1, &r.n);
    return r;
}

/* The tensor as slices, and rows of them. */
static struct kit_arg index_slices(struct kit_build *b, struct kit_arg x, int64_t n, int64_t size)
{
    const int64_t shape[2] = {n, size};

    return kit_reshaped(b, x, 2, shape);
}

enum bp_status npu_gather_nd_build(struct kit_build *b)
{
    const struct bp_gather_nd_attrs *attrs = b->attrs;
    struct index_rows r;

    r = index_flat(b, KIT_VALUE(KIT_IN(1)), b->in[0], (uint32_t)attrs->batch_dims);
    KIT_STEP(b, "GatherV2", index_slices(b, KIT_VALUE(KIT_IN(0)), r.slices, r.size), KIT_INT_IS(0),
             r.at, index_slices(b, KIT_VALUE(KIT_OUT(0)), r.n, r.size));
    return part_pack(b);
}

/* A contiguous tensor of f32 for half types, which are added in f32, else of the dtype. */
static struct kit_arg index_sums(struct kit_build *b, struct kit_arg like, bool zero)
{
    const struct bp_view *v = kit_arg_view(b, &like);
    const bool half = v->dtype == BP_F16 || v->dtype == BP_BF16;
    struct kit_arg to;

    if (!zero) return half ? part_cast(b, like, BP_F32) : like;
    to = kit_temporary(b, half ? BP_F32 : v->dtype, v->rank, v->shape);
    create_fill(b, to, 0);
    return to;
}

/* y = x, or zeros, with slices of updates added where a line of indices says. */
static enum bp_status index_add(struct kit_build *b, struct kit_arg x, int64_t axis,
                                struct kit_arg at, struct kit_arg updates)
{
    const struct bp_view *v = kit_arg_view(b, &x);
    struct kit_arg to;

    if (!v) return kit_refuse(b);
    to = kit_temporary_like(b, v);
    KIT_STEP(b, "IndexAdd", x, KIT_INT_IS(axis), at, updates, KIT_SCALAR_IS(1), to);
    return part_end(b, kit_reshaped(b, to, b->out[0]->rank, b->out[0]->shape));
}

enum bp_status npu_index_add_build(struct kit_build *b)
{
    const int64_t axis = index_axis(b);
    struct kit_arg at = npu_guard(b, KIT_VALUE(KIT_IN(1)), b->in[0]->shape[axis], true);

    return index_add(b, part_in(b, 0), axis, at, part_in(b, 2));
}

/* dy has the axes of the index in place of one axis: they become one. */
enum bp_status npu_gather_grad_build(struct kit_build *b)
{
    const struct bp_gather_grad_attrs *attrs = b->attrs;
    const struct bp_view *x = b->out[0], *dy = b->in[0], *index = b->in[1];
    const int64_t axis = attrs->axis + (attrs->axis < 0 ? x->rank : 0);
    struct kit_arg at = index_line(b, npu_guard(b, KIT_VALUE(KIT_IN(1)), x->shape[axis], true));
    int64_t shape[KIT_AXES_MAX];

    memcpy(shape, x->shape, x->rank * sizeof *shape);
    shape[axis] = index->count;
    if (!dy->count) return create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
    return index_add(b, index_sums(b, KIT_VALUE(KIT_OUT(0)), true), axis, at,
                     kit_reshaped(b, part_in(b, 0), x->rank, shape));
}

enum bp_status npu_embedding_grad_build(struct kit_build *b)
{
    const struct bp_embedding_grad_attrs *attrs = b->attrs;
    const struct bp_view *x = b->out[0];
    const int64_t n = b->in[1]->count, rows = x->shape[0], size = rows ? x->count / rows : 0;
    const int64_t column[2] = {n, 1};
    struct kit_arg at, dy, padding;

    if (!b->in[0]->count) return create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
    at = index_line(b, npu_guard(b, KIT_VALUE(KIT_IN(1)), rows, false));
    dy = index_slices(b, part_in(b, 0), n, size);
    if (attrs->padding_idx >= 0) {
        padding = part_compare(b, "EqTensor", kit_reshaped(b, at, 2, column),
                               KIT_VALUE(KIT_SCALAR_IS(attrs->padding_idx)));
        dy = part_where_number(b, padding, KIT_VALUE(KIT_SCALAR_IS(0)), dy);
    }
    return index_add(b, index_slices(b, index_sums(b, KIT_VALUE(KIT_OUT(0)), true), rows, size), 0,
                     at, dy);
}

static enum bp_status index_nd_add(struct kit_build *b, struct kit_arg x, uint32_t index,
                                   uint32_t updates, uint32_t batch)
{
    const struct bp_view *v = b->out[0];
    struct index_rows r;

    r = index_flat(b, KIT_VALUE(KIT_IN(index)), v, batch);
    return index_add(b, index_slices(b, x, r.slices, r.size), 0, r.at,
                     index_slices(b, part_in(b, updates), r.n, r.size));
}

enum bp_status npu_gather_nd_grad_build(struct kit_build *b)
{
    const struct bp_gather_nd_grad_attrs *attrs = b->attrs;

    if (!b->in[0]->count) return create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
    return index_nd_add(b, index_sums(b, KIT_VALUE(KIT_OUT(0)), true), 1, 0,
                        (uint32_t)attrs->batch_dims);
}

enum bp_status npu_scatter_nd_build(struct kit_build *b)
{
    if (!b->in[1]->count) return create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
    return index_nd_add(b, index_sums(b, KIT_VALUE(KIT_OUT(0)), true), 0, 1, 0);
}

enum bp_status npu_scatter_nd_add_build(struct kit_build *b)
{
    if (!b->in[2]->count) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), KIT_IN(0));
    return index_nd_add(b, index_sums(b, KIT_VALUE(KIT_IN(0)), false), 1, 2, 0);
}

/* Slices are put by Scatter, whose index has an entry for each element. */
static struct kit_arg index_each(struct kit_build *b, struct kit_arg at, int64_t n, int64_t size)
{
    const int64_t line[2] = {n, 1}, shape[2] = {n, size};
    struct kit_arg to = kit_temporary(b, part_dtype(b, at), 2, shape);

    KIT_STEP(b, "Expand", kit_reshaped(b, at, 2, line), kit_array(b, shape, 2), to);
    return to;
}

enum {
    SCATTER_REPLACE,
    SCATTER_ADD,
    SCATTER_MULTIPLY
};

enum bp_status npu_scatter_nd_update_build(struct kit_build *b)
{
    struct index_rows r;

    if (!b->in[2]->count) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), KIT_IN(0));
    r = index_flat(b, KIT_VALUE(KIT_IN(1)), b->in[0], 0);
    KIT_STEP(b, "Scatter", index_slices(b, KIT_VALUE(KIT_IN(0)), r.slices, r.size), KIT_INT_IS(0),
             index_each(b, r.at, r.n, r.size), index_slices(b, KIT_VALUE(KIT_IN(2)), r.n, r.size),
             KIT_INT_IS(SCATTER_REPLACE), index_slices(b, KIT_VALUE(KIT_OUT(0)), r.slices, r.size));
    return part_pack(b);
}

/* With overwrite 0 the named slices become zero first, and then the sums of their updates. */
enum bp_status npu_scatter_build(struct kit_build *b)
{
    const struct bp_scatter_attrs *attrs = b->attrs;
    const struct bp_view *x = b->in[0], *updates = b->in[2];
    const int64_t n = b->in[1]->count, slices = x->shape[0], size = slices ? x->count / slices : 0;
    const int64_t shape[2] = {n, size};
    struct kit_arg at, each, to, zeros;

    if (!updates->count) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), KIT_IN(0));
    at = index_line(b, npu_guard(b, KIT_VALUE(KIT_IN(1)), slices, true));
    each = index_each(b, at, n, size);
    if (attrs->overwrite) {
        KIT_STEP(b, "Scatter", index_slices(b, KIT_VALUE(KIT_IN(0)), slices, size), KIT_INT_IS(0),
                 each, index_slices(b, KIT_VALUE(KIT_IN(2)), n, size), KIT_INT_IS(SCATTER_REPLACE),
                 index_slices(b, KIT_VALUE(KIT_OUT(0)), slices, size));
        return part_pack(b);
    }
    to = index_slices(b, part_in(b, 0), slices, size);
    zeros = kit_temporary(b, part_dtype(b, to), 2, shape);
    create_fill(b, zeros, 0);
    if (kit_arg_view(b, &to)) {
        struct kit_arg empty = kit_temporary_like(b, kit_arg_view(b, &to));

        KIT_STEP(b, "Scatter", to, KIT_INT_IS(0), each, zeros, KIT_INT_IS(SCATTER_REPLACE), empty);
        to = empty;
    }
    return index_add(b, to, 0, at, index_slices(b, part_in(b, 2), n, size));
}

enum bp_status npu_put_along_axis_build(struct kit_build *b)
{
    const struct bp_put_along_axis_attrs *attrs = b->attrs;
    const int64_t axis = index_axis(b);
    struct kit_arg at, x = KIT_IN(0), updates = KIT_IN(2), to;

    if (!b->in[2]->count) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), x);
    at = npu_guard(b, KIT_VALUE(KIT_IN(1)), b->in[0]->shape[axis], true);
    if (attrs->reduce != BP_PUT_MODE_REPLACE) {
        x = part_in(b, 0);
        updates = part_in(b, 2);
    }
    to = part_like(b, x);
    KIT_STEP(b, "Scatter", x, KIT_INT_IS(axis), at, updates, KIT_INT_IS(attrs->reduce), to);
    return part_end(b, to);
}

enum bp_status npu_take_along_axis_grad_build(struct kit_build *b)
{
    const struct bp_take_along_axis_grad_attrs *attrs = b->attrs;
    const struct bp_view *x = b->out[0];
    const int64_t axis = attrs->axis + (attrs->axis < 0 ? x->rank : 0);
    struct kit_arg at, sums, to;

    if (!b->in[0]->count) return create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
    at = npu_guard(b, KIT_VALUE(KIT_IN(1)), x->shape[axis], true);
    sums = index_sums(b, KIT_VALUE(KIT_OUT(0)), true);
    to = kit_temporary(b, part_dtype(b, sums), x->rank, x->shape);
    KIT_STEP(b, "ScatterAdd", sums, KIT_INT_IS(axis), at, part_in(b, 0), to);
    return part_end(b, to);
}

/* Compares the positions with 0, 1, ... along the new axis. */
enum bp_status npu_one_hot_build(struct kit_build *b)
{
    const struct bp_one_hot_attrs *attrs = b->attrs;
    const struct bp_view *index = b->in[0], *y = b->out[0];
    const uint32_t axis = (uint32_t)(attrs->axis + (attrs->axis < 0 ? y->rank : 0));
    const int64_t depth = y->shape[axis];
    int64_t shape[KIT_AXES_MAX], line[KIT_AXES_MAX];
    struct kit_arg at = KIT_IN(0), places = kit_temporary(b, index->dtype, 1, &depth), on, off;

    if (attrs->allow_out_of_range) {
        struct kit_arg n = part_number(b, index->dtype, KIT_VALUE(KIT_SCALAR_IS(depth)));
        struct kit_arg back = part_add(b, at, n);

        at = part_where(b, part_compare(b, "LtTensor", at, KIT_VALUE(KIT_SCALAR_IS(0))), back, at);
    } else {
        at = npu_guard(b, at, depth, true);
    }
    for (uint32_t a = 0; a < y->rank; a++) {
        line[a] = a == axis ? depth : 1;
        shape[a] = a == axis ? 1 : y->shape[a];
    }
    KIT_STEP(b, "Arange", KIT_SCALAR_IS(0), KIT_SCALAR_IS(depth), KIT_SCALAR_IS(1), places);
    at = part_test(b, "EqTensor", kit_reshaped(b, at, y->rank, shape),
                   kit_reshaped(b, places, y->rank, line));
    on = kit_temporary(b, y->dtype, 0, NULL);
    off = kit_temporary(b, y->dtype, 0, NULL);
    create_fill(b, on, attrs->on);
    create_fill(b, off, attrs->off);
    return part_end(b, part_where(b, at, on, off));
}

enum bp_status npu_shard_index_build(struct kit_build *b)
{
    const struct bp_shard_index_attrs *attrs = b->attrs;
    const uint32_t dtype = b->in[0]->dtype;
    const int64_t size = (attrs->index_num + attrs->nshards - 1) / attrs->nshards;
    struct kit_arg x = npu_guard(b, KIT_VALUE(KIT_IN(0)), attrs->index_num, false);
    struct kit_arg n = part_number(b, dtype, KIT_VALUE(KIT_SCALAR_IS(size)));
    struct kit_arg mine = part_compare(b, "EqTensor", part_two(b, "FloorDivide", x, n),
                                       KIT_VALUE(KIT_SCALAR_IS(attrs->shard_id)));

    return part_end(b, part_where_else(b, mine, part_two(b, "RemainderTensorTensor", x, n),
                                       KIT_VALUE(KIT_SCALAR_IS(attrs->ignore_value))));
}

/* Place t of a sequence comes from place length - 1 - t where t is below the length. */
enum bp_status npu_reverse_sequence_build(struct kit_build *b)
{
    const struct bp_reverse_sequence_attrs *attrs = b->attrs;
    const struct bp_view *x = b->in[0];
    const uint32_t dtype = b->in[1]->dtype;
    const int64_t batch = attrs->batch_axis + (attrs->batch_axis < 0 ? x->rank : 0);
    const int64_t time = attrs->time_axis + (attrs->time_axis < 0 ? x->rank : 0);
    const int64_t n = x->shape[time];
    int64_t lengths[KIT_AXES_MAX], line[KIT_AXES_MAX];
    struct kit_arg t = kit_temporary(b, dtype, 1, &n), length, from, each;

    for (uint32_t a = 0; a < x->rank; a++) {
        lengths[a] = a == batch ? x->shape[a] : 1;
        line[a] = a == time ? n : 1;
    }
    length = kit_reshaped(b, npu_guard(b, KIT_VALUE(KIT_IN(1)), n + 1, false), x->rank, lengths);
    KIT_STEP(b, "Arange", KIT_SCALAR_IS(0), KIT_SCALAR_IS(n), KIT_SCALAR_IS(1), t);
    t = kit_reshaped(b, t, x->rank, line);
    from = part_sub(b, part_sub(b, length, t), part_number(b, dtype, KIT_VALUE(KIT_SCALAR_IS(1))));
    from = part_where(b, part_test(b, "LtTensor", t, length), from, t);
    each = kit_temporary(b, dtype, x->rank, x->shape);
    KIT_STEP(b, "Expand", from, kit_array(b, x->shape, x->rank), each);
    KIT_STEP(b, "Gather", KIT_IN(0), KIT_INT_IS(time), each, KIT_OUT(0));
    return part_pack(b);
}

/* y[i] = xs[index[i]][i]: row index[i] N + i of all candidates, one behind the other. */
enum bp_status npu_multiplex_build(struct kit_build *b)
{
    const struct bp_view *y = b->out[0];
    const int64_t count = b->n_in - b->in_at[1], n = y->rank ? y->shape[0] : 1;
    const int64_t all[2] = {count * n, n ? y->count / n : 0}, line[1] = {n};
    const struct kit_arg rows = KIT_SCALAR_IS(n);
    struct kit_arg from, to, at;

    if (!y->count) return b->status;
    from = kit_temporary(b, y->dtype, 2, all);
    for (int64_t i = 0; i < count; i++) {
        struct kit_arg one = {.from = KIT_FROM_INS, .at = 1, .size = 1, .i = i};
        to = npu_part(b, from, 0, i * n, n, 1);
        KIT_STEP(b, "InplaceCopy", kit_as(to, KIT_UPDATES),
                 kit_reshaped(b, one, 2, (const int64_t[]){n, all[1]}));
    }
    at = npu_guard(b, kit_reshaped(b, KIT_VALUE(KIT_IN(0)), 1, line), count, false);
    at = part_cast(b, at, BP_I64);
    at = part_two(b, "Mul", at, part_number(b, BP_I64, rows));
    at = part_add(b, at, npu_places(b, n, 1, 0));
    to = kit_reshaped(b, KIT_VALUE(KIT_OUT(0)), 2, (const int64_t[]){n, all[1]});
    KIT_STEP(b, "IndexSelect", from, KIT_INT_IS(0), at, to);
    return part_pack(b);
}

enum bp_status npu_multiplex_grad_build(struct kit_build *b)
{
    const struct bp_multiplex_grad_attrs *a = b->attrs;
    const struct bp_view *dy = b->in[0];
    const struct kit_arg which = KIT_SCALAR_IS(a->which);
    int64_t shape[KIT_AXES_MAX] = {1};
    struct kit_arg chosen;

    if (!dy->count) return b->status;
    for (uint32_t i = 0; i < dy->rank; i++) shape[i] = i ? 1 : dy->shape[0];
    chosen = kit_reshaped(b, KIT_VALUE(KIT_IN(1)), dy->rank, shape);
    chosen = part_compare(b, "EqTensor", chosen, which);
    return part_end(b,
                    part_where_else(b, chosen, KIT_VALUE(KIT_IN(0)), KIT_VALUE(KIT_SCALAR_IS(0))));
}
