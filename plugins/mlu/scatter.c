/* SPDX-License-Identifier: Apache-2.0 */
/* scatter.c: builds the plans of rows that take an index for each element, or rows of indices of
 * several axes. All indices are checked in front of the call (guard.c). */
#include "rows.h"
#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 1 << 22 /* the most rows whose batches a plan lists */
};

static int scatter_call_take(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlGather_v2(
        r->handle, (int)s->i[0], mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
        mlu_address(r, s, 1), mlu_work(r, s), s->work, mlu_desc(s, 2), mlu_address(r, s, 2));
}

/* The index of a call, checked against an axis of x. */
static struct mlu_tensor scatter_index(struct mlu_build *b, struct mlu_tensor x, int64_t axis)
{
    struct mlu_tensor index = mlu_in(b, 1);

    return mlu_shaped(mlu_guard(b, index, x.shape[axis], true), index.rank, index.shape);
}

static void scatter_take(struct mlu_build *b, int64_t axis, struct mlu_tensor x,
                         struct mlu_tensor index, struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlGather_v2, scatter_call_take, MLU_TENSORS(x, index, y));
    size_t size = 0;
    int code;

    if (!s) return;
    s->i[0] = axis;
    code = mlu_cnnl.call.cnnlGetGatherWorkspaceSize(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                    mlu_desc(s, 2), (int)axis, &size);
    mlu_step_reserve(b, s, FN_cnnlGetGatherWorkspaceSize, code, size);
}

static void scatter_take_all(struct mlu_build *b, int64_t axis)
{
    struct mlu_tensor x = mlu_in(b, 0);

    scatter_take(b, axis, x, scatter_index(b, x, axis), mlu_out(b, 0));
}

void mlu_build_take_along_axis(struct mlu_build *b)
{
    const struct bp_take_along_axis_attrs *attrs = b->prep->attrs;

    scatter_take_all(b, mlu_axis(attrs->axis, b->prep->in[0]->rank));
}

void mlu_build_index_sample(struct mlu_build *b)
{
    scatter_take_all(b, 1);
}

static int scatter_call_put(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlScatter_v2(
        r->handle, (int)s->i[0], mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
        mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2), mlu_work(r, s), s->work,
        mlu_desc(s, 3), mlu_address(r, s, 3), (int)s->i[1]);
}

/* y = x, with updates put where index says, or added. */
static void scatter_put(struct mlu_build *b, int64_t axis, enum mlu_number mode,
                        struct mlu_tensor x, struct mlu_tensor index, struct mlu_tensor updates,
                        struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlScatter_v2, scatter_call_put,
                                  MLU_TENSORS(x, index, updates, y));
    size_t size = 0;
    int code;

    if (!s) return;
    s->i[0] = axis;
    s->i[1] = mlu_number(mode);
    code = mlu_cnnl.call.cnnlGetScatterWorkspaceSize(b->handle, mlu_desc(s, 1), &size);
    mlu_step_reserve(b, s, FN_cnnlGetScatterWorkspaceSize, code, size);
}

/* Place j of an axis. */
static struct mlu_tensor scatter_place(struct mlu_build *b, struct mlu_tensor x, int64_t axis,
                                       int64_t j)
{
    struct mlu_cut cut[8];
    struct mlu_tensor y;
    int64_t shape[8];

    memcpy(shape, x.shape, sizeof shape);
    shape[axis] = 1;
    for (uint32_t a = 0; a < x.rank; a++) cut[a] = (struct mlu_cut){0, shape[a], 1};
    cut[axis].first = j;
    y = mlu_temporary(b, x.dtype, x.rank, shape);
    mlu_step_cut(b, x, y, cut);
    return y;
}

/* y = x, multiplied by updates where index says. CNNL scatters no products: the places of the axis
 * follow each other, for each names a place of y once at most. */
static void scatter_multiply(struct mlu_build *b, int64_t axis, struct mlu_tensor x,
                             struct mlu_tensor index, struct mlu_tensor updates,
                             struct mlu_tensor y)
{
    if (index.shape[axis] > MLU_PARTS) mlu_refuse(b);
    for (int64_t j = 0; j < index.shape[axis] && b->status == BP_OK; j++) {
        struct mlu_tensor at = scatter_place(b, index, axis, j);
        struct mlu_tensor taken = mlu_temporary(b, x.dtype, at.rank, at.shape);
        struct mlu_tensor product = mlu_temporary(b, x.dtype, at.rank, at.shape);
        scatter_take(b, axis, x, at, taken);
        mlu_step_op_tensor(b, NUM_CNNL_OP_TENSOR_MUL, taken, scatter_place(b, updates, axis, j),
                           product);
        scatter_put(b, axis, NUM_CNNL_SCATTER, x, at, product, y);
        x = y;
    }
}

void mlu_build_put_along_axis(struct mlu_build *b)
{
    const struct bp_put_along_axis_attrs *attrs = b->prep->attrs;
    struct mlu_tensor x = mlu_in(b, 0), y = mlu_out(b, 0), index;
    int64_t axis = mlu_axis(attrs->axis, b->prep->in[0]->rank);

    if (!b->prep->in[1]->count) {
        mlu_step_unary(b, FN_cnnlCopy, mlu_flat(x), mlu_flat(y));
        return;
    }
    index = scatter_index(b, x, axis);
    if (attrs->reduce == BP_PUT_MODE_MULTIPLY) scatter_multiply(b, axis, x, index, mlu_in(b, 2), y);
    else
        scatter_put(b, axis,
                    attrs->reduce == BP_PUT_MODE_ADD ? NUM_CNNL_SCATTER_ADD : NUM_CNNL_SCATTER, x,
                    index, mlu_in(b, 2), y);
}

/* Elements of dy are added to zeros. */
void mlu_build_take_along_axis_grad(struct mlu_build *b)
{
    const struct bp_take_along_axis_grad_attrs *attrs = b->prep->attrs;
    struct mlu_tensor dx = mlu_out(b, 0), zeros = mlu_temporary(b, dx.dtype, dx.rank, dx.shape);
    int64_t axis = mlu_axis(attrs->axis, b->prep->out[0]->rank);

    mlu_step_fill(b, 0, mlu_flat(b->prep->in[1]->count ? zeros : dx));
    if (b->prep->in[1]->count)
        scatter_put(b, axis, NUM_CNNL_SCATTER_ADD, zeros, scatter_index(b, zeros, axis),
                    mlu_in(b, 0), dx);
}

/* Rows of k indices of the first k axes of a tensor. */
struct scatter_rows {
    struct mlu_tensor index; /* checked; rows and k */
    int64_t rows, k, inner;
    int64_t whole[8]; /* the first k axes, and the others as one */
};

/* A column with the number of the batch of each row. */
static struct mlu_tensor scatter_batch(struct mlu_build *b, const struct scatter_rows *rows)
{
    const int64_t line[] = {rows->rows, 1};
    int32_t *number = rows->rows > PLACES ? NULL : malloc((size_t)rows->rows * sizeof *number + 1);
    struct mlu_tensor column = {0};

    if (!number) {
        mlu_refuse(b);
        return column;
    }
    for (int64_t i = 0; i < rows->rows; i++)
        number[i] = (int32_t)(i / (rows->rows / rows->whole[0]));
    column = mlu_constant(b, BP_I32, 2, line, number);
    free(number);
    return column;
}

/* Checks each column of an index by the extent of its axis, and joins them: CNNL has one call for
 * all. In front of them is one for batches, if x has batches. */
static void scatter_guard(struct mlu_build *b, struct mlu_tensor index, bool batches,
                          struct scatter_rows *rows)
{
    const int64_t n = rows->rows, k = rows->k, line[] = {n, 1}, joined[] = {n, k, 1};
    struct mlu_cut cut[2] = {{0, n, 1}, {0, 1, 1}};
    struct mlu_tensor part[8];

    for (int64_t a = 0; a < k && b->status == BP_OK; a++) {
        struct mlu_tensor column = index;
        if (batches && !a) {
            part[a] = mlu_shaped(scatter_batch(b, rows), 3, (int64_t[]){n, 1, 1});
            continue;
        }
        if (index.shape[1] > 1) {
            column = mlu_temporary(b, BP_I32, 2, line);
            cut[1].first = a - batches;
            mlu_step_cut(b, index, column, cut);
        }
        part[a] = mlu_shaped(mlu_guard(b, column, rows->whole[a], true), 3, (int64_t[]){n, 1, 1});
    }
    rows->index = k > 1 ? mlu_temporary(b, BP_I32, 2, joined) : mlu_shaped(part[0], 2, line);
    if (k > 1 && b->status == BP_OK)
        mlu_step_concat(b, (uint32_t)k, part, mlu_shaped(rows->index, 3, joined));
}

/* Reads an index whose last axis has k indices of axes of `whole` behind its first `batch` axes.
 * Returns false after a refusal. */
static bool scatter_read(struct mlu_build *b, const struct bp_view *whole, struct mlu_tensor index,
                         int64_t batch, int64_t k, struct scatter_rows *out)
{
    int64_t first = batch > 0;

    if (k < 1 || k + first > 7 || index.dtype != BP_I32) mlu_refuse(b);
    if (b->status) return false;
    *out = (struct scatter_rows){.rows = mlu_count(&index) / k, .k = k + first, .inner = 1};
    if (batch) out->whole[0] = 1;
    for (int64_t a = 0; a < whole->rank; a++) {
        if (a < batch) out->whole[0] *= whole->shape[a];
        else if (a < batch + k) out->whole[a - batch + first] = whole->shape[a];
        else out->inner *= whole->shape[a];
    }
    out->whole[out->k] = out->inner;
    scatter_guard(b, mlu_shaped(index, 2, (int64_t[]){out->rows, k}), batch > 0, out);
    return b->status == BP_OK;
}

static struct mlu_tensor scatter_whole(struct mlu_tensor t, const struct scatter_rows *rows)
{
    return mlu_shaped(t, (uint32_t)rows->k + 1, rows->whole);
}

static struct mlu_tensor scatter_slices(struct mlu_tensor t, const struct scatter_rows *rows)
{
    return mlu_shaped(t, 2, (int64_t[]){rows->rows, rows->inner});
}

static int scatter_call_gather(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlGatherNd(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0),
                                      mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
                                      mlu_address(r, s, 2));
}

/* How many indices a row of the index has. */
static int64_t scatter_width(const struct bp_view *index)
{
    return index->rank ? index->shape[index->rank - 1] : 0;
}

/* Rows without an index name all of x, or all of its batch. */
static void scatter_repeat(struct mlu_build *b, int64_t batch)
{
    struct mlu_tensor x = mlu_in(b, 0), y = mlu_out(b, 0);
    int64_t one[3] = {1, 1, 1}, all[3];

    for (int64_t a = 0; a < b->prep->in[0]->rank; a++) one[a < batch ? 0 : 2] *= x.shape[a];
    memcpy(all, one, sizeof all);
    all[1] = mlu_count(&y) / (one[0] * one[2]);
    mlu_step_unary(b, FN_cnnlExpand, mlu_shaped(x, 3, one), mlu_shaped(y, 3, all));
}

void mlu_build_gather_nd(struct mlu_build *b)
{
    const struct bp_gather_nd_attrs *attrs = b->prep->attrs;
    struct scatter_rows rows;

    if (!scatter_width(b->prep->in[1])) {
        scatter_repeat(b, attrs->batch_dims);
        return;
    }
    if (!scatter_read(b, b->prep->in[0], mlu_in(b, 1), attrs->batch_dims,
                      scatter_width(b->prep->in[1]), &rows))
        return;
    mlu_step(b, FN_cnnlGatherNd, scatter_call_gather,
             MLU_TENSORS(scatter_whole(mlu_in(b, 0), &rows), rows.index,
                         scatter_slices(mlu_out(b, 0), &rows)));
}

static int scatter_call_nd(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlScatterNd_v2(
        r->handle, (int)s->i[0], mlu_desc(s, 0), mlu_address(r, s, 0), mlu_desc(s, 1),
        mlu_address(r, s, 1), mlu_desc(s, 2), mlu_address(r, s, 2), mlu_desc(s, 3),
        mlu_address(r, s, 3));
}

/* y = x, whose slices that the rows name become those of updates, or have them added. */
static void scatter_nd(struct mlu_build *b, enum mlu_number mode, const struct scatter_rows *rows,
                       struct mlu_tensor updates, struct mlu_tensor x, struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlScatterNd_v2, scatter_call_nd,
                                  MLU_TENSORS(rows->index, scatter_slices(updates, rows),
                                              scatter_whole(x, rows), scatter_whole(y, rows)));

    if (s) s->i[0] = mlu_number(mode);
}

/* Rows without an index name all of y, or all of its batch: y = x and the sum of updates, or the
 * last of updates. */
static void scatter_all(struct mlu_build *b, bool adds, int64_t batch, struct mlu_tensor updates,
                        struct mlu_tensor x, struct mlu_tensor y)
{
    int64_t whole[3] = {1, 1, 1}, all[3];
    int32_t *zeros;

    for (int64_t a = 0; a < b->prep->out[0]->rank; a++) whole[a < batch ? 0 : 2] *= y.shape[a];
    memcpy(all, whole, sizeof all);
    all[1] = mlu_count(&updates) / (whole[0] * whole[2]);
    if (!adds) {
        updates.offset += (uint64_t)((all[1] - 1) * whole[2]) * mlu_bytes(updates.dtype);
        mlu_step_unary(b, FN_cnnlCopy, mlu_shaped(updates, 1, whole + 2), mlu_flat(y));
        return;
    }
    zeros = all[1] > PLACES ? NULL : calloc((size_t)all[1] + 1, sizeof *zeros);
    if (!zeros) mlu_refuse(b);
    else
        mlu_step_index_add(b, mlu_shaped(x, 3, whole), mlu_constant(b, BP_I32, 1, all + 1, zeros),
                           mlu_shaped(updates, 3, all), mlu_shaped(y, 3, whole));
    free(zeros);
}

/* Into a copy of x: input 0, index and updates are inputs 1 and 2. */
static void scatter_into_x(struct mlu_build *b, enum mlu_number mode)
{
    struct mlu_tensor x = mlu_in(b, 0), y = mlu_out(b, 0);
    struct scatter_rows rows;

    if (!b->prep->in[2]->count) mlu_step_unary(b, FN_cnnlCopy, mlu_flat(x), mlu_flat(y));
    else if (!scatter_width(b->prep->in[1]))
        scatter_all(b, mode == NUM_CNNL_SCATTERND_ADD, 0, mlu_in(b, 2), x, y);
    else if (scatter_read(b, b->prep->out[0], mlu_in(b, 1), 0, scatter_width(b->prep->in[1]),
                          &rows))
        scatter_nd(b, mode, &rows, mlu_in(b, 2), x, y);
}

void mlu_build_scatter_nd_add(struct mlu_build *b)
{
    scatter_into_x(b, NUM_CNNL_SCATTERND_ADD);
}

void mlu_build_scatter_nd_update(struct mlu_build *b)
{
    scatter_into_x(b, NUM_CNNL_SCATTERND_UPDATE);
}

/* Into zeros of the shape of the result. */
static void scatter_into_zeros(struct mlu_build *b, uint32_t index, uint32_t updates, int64_t batch)
{
    struct mlu_tensor y = mlu_out(b, 0), zeros = mlu_temporary(b, y.dtype, y.rank, y.shape);
    const struct bp_view *at = b->prep->in[index];
    struct scatter_rows rows;

    if (!b->prep->in[updates]->count) {
        mlu_step_fill(b, 0, mlu_flat(y));
    } else if (!scatter_width(at)) {
        mlu_step_fill(b, 0, mlu_flat(zeros));
        scatter_all(b, true, batch, mlu_in(b, updates), zeros, y);
    } else if (scatter_read(b, b->prep->out[0], mlu_in(b, index), batch, scatter_width(at),
                            &rows)) {
        mlu_step_fill(b, 0, mlu_flat(zeros));
        scatter_nd(b, NUM_CNNL_SCATTERND_ADD, &rows, mlu_in(b, updates), zeros, y);
    }
}

void mlu_build_scatter_nd(struct mlu_build *b)
{
    scatter_into_zeros(b, 0, 1, 0);
}

void mlu_build_gather_nd_grad(struct mlu_build *b)
{
    const struct bp_gather_nd_grad_attrs *attrs = b->prep->attrs;

    scatter_into_zeros(b, 1, 0, attrs->batch_dims);
}

/* Along the first axis. Sums replace the slices of x: these become zeros first. */
void mlu_build_scatter(struct mlu_build *b)
{
    const struct bp_scatter_attrs *attrs = b->prep->attrs;
    struct mlu_tensor x = mlu_in(b, 0), y = mlu_out(b, 0), updates = mlu_in(b, 2), zeros, cleared;
    struct scatter_rows rows;

    if (!b->prep->in[2]->count) {
        mlu_step_unary(b, FN_cnnlCopy, mlu_flat(x), mlu_flat(y));
        return;
    }
    if (!scatter_read(b, b->prep->out[0], mlu_in(b, 1), 0, 1, &rows)) return;
    if (attrs->overwrite) {
        scatter_nd(b, NUM_CNNL_SCATTERND_UPDATE, &rows, updates, x, y);
        return;
    }
    zeros = mlu_temporary(b, updates.dtype, updates.rank, updates.shape);
    cleared = mlu_temporary(b, y.dtype, y.rank, y.shape);
    mlu_step_fill(b, 0, mlu_flat(zeros));
    scatter_nd(b, NUM_CNNL_SCATTERND_UPDATE, &rows, zeros, x, cleared);
    scatter_nd(b, NUM_CNNL_SCATTERND_ADD, &rows, updates, cleared, y);
}
