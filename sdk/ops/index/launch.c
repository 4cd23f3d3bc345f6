/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for gather, embedding, multiplex, masked_select,
 * set_value and others. */
#include "kernel.h"
#include "launch.h"

enum { MASK_PART = 4096 };

struct index_rows index_rows_along(const struct bp_view *x, const struct bp_view *index, int axis)
{
    struct portable_split s = portable_split(x, axis);

    return (struct index_rows){.rows = s.extent, .inner = s.inner, .n = index->count, .k = 1,
                               .wide = index->dtype == BP_I64, .wrap = 1, .pad = -1,
                               .dim = {s.extent}};
}

struct index_rows index_rows_nd(const struct bp_view *x, const struct bp_view *index, int batch)
{
    struct index_rows r = {.rows = 1, .inner = 1, .n = 1, .wide = index->dtype == BP_I64,
                           .wrap = 1, .pad = -1};

    r.k = index->shape[index->rank - 1];
    for (int i = batch; i < index->rank - 1; i++) r.n *= index->shape[i];
    for (int i = batch; i < x->rank; i++) {
        if (i - batch < r.k) r.rows *= r.dim[i - batch] = x->shape[i];
        else r.inner *= x->shape[i];
    }
    r.step = r.n * r.k;
    return r;
}

static enum bp_status index_gather(const struct bp_launch *launch, struct index_rows rows)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct gather_args args = {rows};
    struct portable p = PORTABLE(index, gather, portable_move_type(x->dtype), args, y->count, 1);

    portable_view(&p, y);
    portable_view(&p, x);
    portable_view(&p, launch->in[1]);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

/* Launches gather and index_select, which have the same attributes. */
enum bp_status portable_gather(const struct bp_launch *launch)
{
    const struct bp_gather_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0];

    return index_gather(launch,
                        index_rows_along(x, launch->in[1], portable_axis(a->axis, x->rank)));
}

enum bp_status portable_embedding(const struct bp_launch *launch)
{
    const struct bp_embedding_attrs *a = launch->attrs;
    struct index_rows rows = index_rows_along(launch->in[0], launch->in[1], 0);

    rows.wrap = 0;
    rows.pad = a->padding_idx;
    return index_gather(launch, rows);
}

enum bp_status portable_gather_nd(const struct bp_launch *launch)
{
    const struct bp_gather_nd_attrs *a = launch->attrs;

    return index_gather(launch, index_rows_nd(launch->in[0], launch->in[1], (int)a->batch_dims));
}

/* Number 1: index_sample. */
enum bp_status portable_take_along_axis(const struct bp_launch *launch)
{
    const struct bp_take_along_axis_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *index = launch->in[1], *y = launch->out[0];
    int axis = portable_number(launch->kernel) ? 1 : portable_axis(a->axis, x->rank);
    struct take_args args = {.extent = x->shape[axis], .x_step = x->stride[axis],
                             .wide = index->dtype == BP_I64, .rank = x->rank};
    struct portable p = PORTABLE(index, take, portable_move_type(x->dtype), args, y->count, 4);

    for (int i = 0; i < x->rank; i++) {
        args.shape[i] = index->shape[i];
        args.stride[i] = i == axis ? 0 : x->stride[i];
    }
    portable_view(&p, y);
    portable_view(&p, x);
    portable_view(&p, index);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

/* Runs one launch for each candidate: it writes the rows that come from that candidate. */
enum bp_status portable_multiplex(const struct bp_launch *launch)
{
    uint32_t n = launch->n_in - 1;
    const struct bp_view *index = launch->in[0], *y = launch->out[0];
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < n && status == BP_OK; i++) {
        struct multiplex_args args = {.inner = portable_split(y, 0).inner,
                                      .wide = index->dtype == BP_I64, .which = i, .count = n};
        struct portable p =
            PORTABLE(index, multiplex, portable_move_type(y->dtype), args, y->count, 1);
        portable_view(&p, y);
        portable_view(&p, launch->in[1 + i]);
        portable_view(&p, index);
        portable_fault(&p, launch);
        status = portable_run(launch, &p);
    }
    return status;
}

enum bp_status portable_multiplex_grad(const struct bp_launch *launch)
{
    const struct bp_multiplex_grad_attrs *a = launch->attrs;
    const struct bp_view *dy = launch->in[0], *index = launch->in[1], *dx = launch->out[0];
    struct multiplex_args args = {.inner = portable_split(dy, 0).inner,
                                  .wide = index->dtype == BP_I64, .which = a->which,
                                  .count = INT64_MAX, .fill = 1};
    struct portable p = PORTABLE(index, multiplex, portable_move_type(dy->dtype), args, dy->count,
                                 1);

    portable_view(&p, dx);
    portable_view(&p, dy);
    portable_view(&p, index);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

static struct masked_args index_masked(const struct bp_view *mask, const struct bp_view *values)
{
    return (struct masked_args){.n = mask->count, .part = MASK_PART,
                                .parts = (mask->count + MASK_PART - 1) / MASK_PART,
                                .m = values->count};
}

/* Fills the workspace: for each part the number of set elements, then their number before the part.
 * result receives the total. */
static enum bp_status count_mask(const struct bp_launch *launch, const struct masked_args *args,
                                 const struct bp_view *mask, int64_t *result)
{
    struct portable count = PORTABLE(index, masked_count, TYPE_i8, *args, args->parts, MASK_PART);
    struct portable scan = PORTABLE(index, masked_scan, TYPE_i8, *args, 1, 1);
    enum bp_status status;

    portable_workspace(&count, launch, 0);
    portable_view(&count, mask);
    portable_workspace(&scan, launch, 0);
    portable_result(&scan, result);
    status = portable_run(launch, &count);
    return status ? status : portable_run(launch, &scan);
}

enum bp_status portable_masked_select_prepare(void *self, const struct bp_prep *prep,
                                              struct bp_plan *out)
{
    (void)self;
    return portable_needs(out, 8 * (index_masked(prep->in[1], prep->in[1]).parts + 1));
}

enum bp_status portable_masked_select(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *mask = launch->in[1];
    struct masked_args args = index_masked(mask, x);
    struct portable p =
        PORTABLE(index, masked_take, portable_move_type(x->dtype), args, args.parts, MASK_PART);
    enum bp_status status = count_mask(launch, &args, mask, launch->result);

    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    portable_view(&p, mask);
    portable_workspace(&p, launch, 0);
    return status ? status : portable_run(launch, &p);
}

enum bp_status portable_masked_select_grad_prepare(void *self, const struct bp_prep *prep,
                                                   struct bp_plan *out)
{
    return portable_masked_select_prepare(self, prep, out);
}

enum bp_status portable_masked_select_grad(const struct bp_launch *launch)
{
    const struct bp_view *dy = launch->in[0], *mask = launch->in[1];
    struct masked_args args = index_masked(mask, dy);
    struct portable p =
        PORTABLE(index, masked_put, portable_move_type(dy->dtype), args, args.parts, MASK_PART);
    enum bp_status status = count_mask(launch, &args, mask, NULL);

    portable_view(&p, launch->out[0]);
    portable_view(&p, dy);
    portable_view(&p, mask);
    portable_workspace(&p, launch, 0);
    portable_fault(&p, launch);
    return status ? status : portable_run(launch, &p);
}

/* Clamps the start or end of a slice as the shape rule does: negative counts from the end. */
static int64_t index_inside(int64_t i, int64_t step, int64_t extent)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? extent - 1 : extent;

    if (i < 0) i += extent;
    return i < low ? low : i > high ? high : i;
}

/* Returns the number of indices from start, inclusive, to end, exclusive. */
static int64_t index_steps(int64_t start, int64_t end, int64_t step)
{
    if (step > 0) return start < end ? (end - start - 1) / step + 1 : 0;
    return start > end ? (start - end - 1) / -(step + (step == INT64_MIN)) + 1 : 0;
}

/* Returns the part of y that the attributes name, and how value repeats over it. */
static struct place_args index_part_of(const struct bp_set_value_attrs *a, const struct bp_view *y,
                                       const struct bp_view *value)
{
    struct place_args p = {.rank = y->rank ? y->rank : 1, .shape = {1}};

    for (int i = 0; i < y->rank; i++) {
        p.shape[i] = y->shape[i];
        p.y_stride[i] = y->stride[i];
    }
    for (int64_t i = 0; i < a->starts.n; i++) {
        int axis = portable_axis(a->axes.n ? a->axes.at[i] : i, y->rank);
        int64_t extent = y->shape[axis], step = a->steps.n ? a->steps.at[i] : 1;
        int64_t start = index_inside(a->starts.at[i], step, extent);
        p.shape[axis] = index_steps(start, index_inside(a->ends.at[i], step, extent), step);
        p.first += p.shape[axis] ? start * y->stride[axis] : 0;
        if (p.shape[axis] > 1) p.y_stride[axis] *= step;
    }
    for (int i = 0; value && i < value->rank; i++)
        if (value->shape[i] > 1) p.value_stride[y->rank - value->rank + i] = value->stride[i];
    return p;
}

enum bp_status portable_set_value(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *value = launch->in[1], *y = launch->out[0];
    enum portable_type type = portable_move_type(x->dtype);
    struct copy_args none = {0};
    struct place_args args = index_part_of(launch->attrs, y, value);
    struct portable copy = PORTABLE(index, copy, type, none, y->count, 1);
    struct portable place = PORTABLE(index, place, type, args, 1, 1);
    enum bp_status status = BP_OK;

    for (int i = 0; i < (int)args.rank; i++) place.count *= args.shape[i];
    portable_view(&copy, y);
    portable_view(&copy, x);
    portable_view(&place, y);
    portable_view(&place, value);
    if (y->data != x->data || y->memory != x->memory) status = portable_run(launch, &copy);
    return status ? status : portable_run(launch, &place);
}

enum bp_status portable_gather_tree(const struct bp_launch *launch)
{
    const struct bp_view *ids = launch->in[0];
    struct gather_tree_args args = {ids->shape[0], ids->shape[1], ids->shape[2]};
    int64_t columns = ids->count ? args.batch * args.beams : 0;
    struct portable p = PORTABLE(index, gather_tree, portable_move_type(ids->dtype), args, columns,
                                 8.0 * (double)args.steps);

    portable_view(&p, launch->out[0]);
    portable_view(&p, ids);
    portable_view(&p, launch->in[1]);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

enum bp_status portable_reverse_sequence(const struct bp_launch *launch)
{
    const struct bp_reverse_sequence_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *lengths = launch->in[1];
    struct portable_split t = portable_split(x, portable_axis(a->time_axis, x->rank));
    struct portable_split b = portable_split(x, portable_axis(a->batch_axis, x->rank));
    struct reverse_args args = {t.extent, t.inner, b.extent, b.inner,
                                t.inner < b.inner ? t.inner : b.inner, lengths->dtype == BP_I64};
    struct portable p = PORTABLE(index, reverse, portable_move_type(x->dtype), args, x->count, 2);

    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    portable_view(&p, lengths);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}
