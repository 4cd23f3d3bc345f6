/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of operators that read elements by indices: each
 * finds the element of x for each element of the result. Those that write elements are in
 * scatter/reference.c. */
#include "../common/reference.h"
#include <math.h>
#include <string.h>

/* Returns an index into extent; negative indices count from the end. */
static int64_t ref_index_within(const struct ref_array *index, int64_t i, int64_t extent)
{
    int64_t k = (int64_t)index->u[i];

    return k < 0 ? k + extent : k;
}

static void ref_index_gather(const struct ref_array *x, const struct ref_array *index, int axis,
                             struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = 0;

    for (int i = 0; i < axis; i++) shape[rank++] = x->shape[i];
    for (int i = 0; i < index->rank; i++) shape[rank++] = index->shape[i];
    for (int i = axis + 1; i < x->rank; i++) shape[rank++] = x->shape[i];
    ref_array_init(out, x->type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t from[REF_RANK], where = ref_index(index, index->rank, at + axis);
        for (int k = 0; k < axis; k++) from[k] = at[k];
        from[axis] = ref_index_within(index, where, x->shape[axis]);
        for (int k = axis + 1; k < x->rank; k++) from[k] = at[index->rank - 1 + k];
        ref_array_copy(out, i, x, ref_index(x, x->rank, from));
    }
}

void ref_gather(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_gather_attrs *a = attrs;

    ref_index_gather(&in[0], &in[1], ref_axis(a->axis, in[0].rank), out);
}

void ref_index_select(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_index_select_attrs *a = attrs;

    ref_index_gather(&in[0], &in[1], ref_axis(a->axis, in[0].rank), out);
}

/* The slice of id padding_idx is zeros. */
void ref_embedding(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_embedding_attrs *a = attrs;
    int64_t inner;

    ref_index_gather(&in[0], &in[1], 0, out);
    inner = in[1].count ? out->count / in[1].count * out->type->parts : 0;
    for (int64_t i = 0; i < in[1].count; i++) {
        if ((int64_t)in[1].u[i] != a->padding_idx) continue;
        for (int64_t k = i * inner; k < (i + 1) * inner; k++)
            if (out->u) out->u[k] = 0;
            else out->v[k] = 0;
    }
}

static void ref_index_take(const struct ref_array *x, const struct ref_array *index, int axis,
                           struct ref_array *out)
{
    int64_t at[REF_RANK] = {0};

    ref_array_init(out, x->type->dtype, index->rank, index->shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(index->rank, index->shape, at)) {
        int64_t from = 0;
        for (int k = 0; k < x->rank; k++)
            from = from * x->shape[k] +
                   (k == axis ? ref_index_within(index, i, x->shape[axis]) : at[k]);
        ref_array_copy(out, i, x, from);
    }
}

void ref_take_along_axis(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_take_along_axis_attrs *a = attrs;

    ref_index_take(&in[0], &in[1], ref_axis(a->axis, in[0].rank), out);
}

void ref_index_sample(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_index_take(&in[0], &in[1], 1, out);
}

void ref_gather_nd(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_gather_nd_attrs *a = attrs;
    const struct ref_array *x = &in[0], *index = &in[1];
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int batch = (int)a->batch_dims, rank = 0, k = (int)index->shape[index->rank - 1];
    int lead = index->rank - 1;

    for (int i = 0; i < lead; i++) shape[rank++] = index->shape[i];
    for (int i = batch + k; i < x->rank; i++) shape[rank++] = x->shape[i];
    ref_array_init(out, x->type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t row = 0, from = 0;
        for (int d = 0; d < lead; d++) row = row * index->shape[d] + at[d];
        for (int d = 0; d < x->rank; d++)
            from = from * x->shape[d] +
                   (d < batch       ? at[d]
                    : d < batch + k ? ref_index_within(index, row * k + d - batch, x->shape[d])
                                    : at[lead + d - batch - k]);
        ref_array_copy(out, i, x, from);
    }
}

void ref_multiplex(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *index = &in[0], *xs = &in[1];
    int64_t inner;

    (void)attrs;
    ref_array_init(out, xs->type->dtype, xs->rank, xs->shape);
    inner = index->count ? out->count / index->count : 0;
    for (int64_t i = 0; i < out->count; i++)
        ref_array_copy(out, i, &xs[index->u[i / inner]], i);
}

void ref_multiplex_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_multiplex_grad_attrs *a = attrs;

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++)
        if ((int64_t)in[1].u[i / (out->count / in[1].count)] == a->which)
            ref_array_copy(out, i, in, i);
}

void ref_masked_select(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t n = 0;

    (void)attrs;
    for (int64_t i = 0; i < in[1].count; i++) n += in[1].u[i] != 0;
    ref_array_init(out, in->type->dtype, 1, &n);
    n = 0;
    for (int64_t i = 0; i < in[1].count; i++)
        if (in[1].u[i]) ref_array_copy(out, n++, in, i);
}

void ref_masked_select_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t n = 0;

    (void)attrs;
    ref_array_init(out, in->type->dtype, in[1].rank, in[1].shape);
    for (int64_t i = 0; i < in[1].count; i++)
        if (in[1].u[i]) ref_array_copy(out, i, in, n++);
}

static void set_number(struct ref_array *out, int64_t i, double number)
{
    if (out->u) out->u[i] = out->type->class == NUM_BOOL ? number != 0 : (uint64_t)(int64_t)number;
    else out->v[i * out->type->parts] = (long double)number;
}

void ref_one_hot(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_one_hot_attrs *a = attrs;
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = in->rank + 1, axis = ref_axis(a->axis, rank);

    for (int i = 0; i < rank; i++)
        shape[i] = i < axis ? in->shape[i] : i == axis ? a->depth : in->shape[i - 1];
    ref_array_init(out, (uint32_t)a->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t from = 0;
        for (int k = 0; k < rank; k++)
            if (k != axis) from = from * shape[k] + at[k];
        set_number(out, i, ref_index_within(in, from, a->depth) == at[axis] ? a->on : a->off);
    }
}

void ref_shard_index(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_shard_index_attrs *a = attrs;
    int64_t size = (a->index_num + a->nshards - 1) / a->nshards;

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++) {
        int64_t x = (int64_t)in->u[i], first = a->shard_id * size;
        out->u[i] = (uint64_t)(x >= first && x < first + size ? x - first : a->ignore_value);
    }
}

void ref_gather_tree(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t steps = in->shape[0], batch = in->shape[1], beams = in->shape[2];

    (void)attrs;
    ref_array_init(out, in->type->dtype, 3, in->shape);
    if (!out->count) return;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t w = 0; w < beams; w++) {
            int64_t beam = w;
            for (int64_t t = steps - 1; t >= 0; t--) {
                int64_t line = (t * batch + b) * beams;
                out->u[line + w] = in[0].u[line + beam];
                beam = (int64_t)in[1].u[line + beam];
            }
        }
}

void ref_repeat_interleave(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_repeat_interleave_attrs *a = attrs;
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int axis = ref_axis(a->axis, in->rank);

    for (int i = 0; i < in->rank; i++) shape[i] = in->shape[i] * (i == axis ? a->repeats : 1);
    ref_array_init(out, in->type->dtype, in->rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(in->rank, shape, at)) {
        int64_t from = 0;
        for (int k = 0; k < in->rank; k++)
            from = from * in->shape[k] + (k == axis ? at[k] / a->repeats : at[k]);
        ref_array_copy(out, i, in, from);
    }
}

static int64_t ref_index_clamp(int64_t i, int64_t low, int64_t high, int64_t extent)
{
    if (i < 0) i += extent;
    return i < low ? low : i > high ? high : i;
}

/* Returns which position of the slice an index along an axis has; -1: it is not in the slice. */
static int64_t ref_index_place_of(const struct bp_set_value_attrs *a, int rank, int axis, int64_t i,
                                  int64_t extent)
{
    for (int64_t n = 0; n < a->starts.n; n++) {
        int64_t step = a->steps.n ? a->steps.at[n] : 1, low = step < 0 ? -1 : 0,
                high = step < 0 ? extent - 1 : extent,
                start = ref_index_clamp(a->starts.at[n], low, high, extent),
                end = ref_index_clamp(a->ends.at[n], low, high, extent);
        bool within = step < 0 ? i <= start && i > end : i >= start && i < end;
        if ((a->axes.n ? ref_axis(a->axes.at[n], rank) : (int)n) != axis) continue;
        return !within || (i - start) % step ? -1 : (i - start) / step;
    }
    return i;
}

/* Replaces each element of x that is in the slice by an element of value. */
void ref_set_value(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *x = &in[0], *value = in[1].type ? &in[1] : NULL;
    int64_t at[REF_RANK] = {0};

    ref_array_init(out, x->type->dtype, x->rank, x->shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(x->rank, x->shape, at)) {
        int64_t place[REF_RANK];
        bool replaced = true;
        for (int k = 0; k < x->rank; k++) {
            place[k] = ref_index_place_of(attrs, x->rank, k, at[k], x->shape[k]);
            replaced &= place[k] >= 0;
        }
        if (!replaced) ref_array_copy(out, i, x, i);
        else if (value) ref_array_copy(out, i, value, ref_index(value, x->rank, place));
    }
}

void ref_reverse_sequence(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_reverse_sequence_attrs *a = attrs;
    const struct ref_array *x = &in[0];
    int batch = ref_axis(a->batch_axis, x->rank), time = ref_axis(a->time_axis, x->rank);
    int64_t at[REF_RANK] = {0};

    ref_array_init(out, x->type->dtype, x->rank, x->shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(x->rank, x->shape, at)) {
        int64_t from[REF_RANK], length = (int64_t)in[1].u[at[batch]];
        memcpy(from, at, sizeof from);
        if (at[time] < length) from[time] = length - 1 - at[time];
        ref_array_copy(out, i, x, ref_index(x, x->rank, from));
    }
}

static long double number_at(const struct ref_array *x, int64_t i)
{
    if (x->v) return x->v[i];
    return x->type->class == NUM_SIGNED ? (long double)(int64_t)x->u[i] : (long double)x->u[i];
}

/* An element is 1 if it is the first largest of its line: above all elements before it, and not
 * below any after it; NaN counts as the largest. Element k of the line differs in its index along
 * axis only. */
void ref_hardmax(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_hardmax_attrs *a = attrs;
    int axis = ref_axis(a->axis, in->rank);
    int64_t step = 1, n = in->shape[axis];

    for (int i = axis + 1; i < in->rank; i++) step *= in->shape[i];
    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++) {
        long double mine = number_at(in, i);
        int64_t place = i / step % n;
        bool largest = true;
        for (int64_t k = 0; k < n; k++) {
            long double other = number_at(in, i + (k - place) * step);
            if (isnan(mine)) largest &= k >= place || !isnan(other);
            else largest &= k < place ? other < mine : other <= mine;
        }
        if (out->v) out->v[i] = largest;
        else out->u[i] = largest;
    }
}
