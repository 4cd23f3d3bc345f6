/* SPDX-License-Identifier: Apache-2.0 */
/* reference_axes.c: computes the reference results of operators that change axes: each finds the
 * element of the input for each element of the result. */
#include "../common/reference.h"

static void ref_axes_make(const struct ref_array *x, int rank, const int64_t *shape,
                          struct ref_array *out)
{
    ref_array_init(out, x->type->dtype, rank, shape);
    out->exact = true;
}

/* The same elements in row-major order, with another shape. */
static void ref_axes_reshaped(const struct ref_array *x, int rank, const int64_t *shape,
                              struct ref_array *out)
{
    ref_axes_make(x, rank, shape, out);
    for (int64_t i = 0; i < out->count; i++) ref_array_copy(out, i, x, i);
}

static bool ref_axes_names(struct bp_dims axes, int rank, int axis)
{
    for (int64_t i = 0; i < axes.n; i++)
        if (ref_axis(axes.at[i], rank) == axis) return true;
    return false;
}

void ref_squeeze(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_squeeze_attrs *a = attrs;
    int64_t shape[REF_RANK];
    int rank = 0;

    for (int i = 0; i < in->rank; i++)
        if (in->shape[i] != 1 || (a->axes.n && !ref_axes_names(a->axes, in->rank, i)))
            shape[rank++] = in->shape[i];
    ref_axes_reshaped(in, rank, shape, out);
}

void ref_unsqueeze(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_unsqueeze_attrs *a = attrs;
    int64_t shape[REF_RANK];
    int rank = in->rank + (int)a->axes.n, at = 0;

    for (int i = 0; i < rank; i++)
        shape[i] = ref_axes_names(a->axes, rank, i) ? 1 : in->shape[at++];
    ref_axes_reshaped(in, rank, shape, out);
}

void ref_flatten(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_flatten_attrs *a = attrs;
    int64_t shape[REF_RANK] = {1};
    int rank = 0, start = ref_axis(a->start_axis, in->rank),
        stop = ref_axis(a->stop_axis, in->rank);

    for (int i = 0; i < in->rank; i++) {
        if (i > start && i <= stop) shape[rank - 1] *= in->shape[i];
        else shape[rank++] = in->shape[i];
    }
    ref_axes_reshaped(in, rank ? rank : 1, shape, out);
}

void ref_expand_as(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t at[REF_RANK] = {0};

    (void)attrs;
    ref_axes_make(in, in[1].rank, in[1].shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(out->rank, out->shape, at))
        ref_array_copy(out, i, in, ref_index(in, out->rank, at));
}

void ref_crop(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_crop_attrs *a = attrs;
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK], first[REF_RANK];

    for (int i = 0; i < in->rank; i++) {
        first[i] = a->offsets.n ? a->offsets.at[i] : 0;
        shape[i] = a->shape.at[i] == -1 ? in->shape[i] - first[i] : a->shape.at[i];
    }
    ref_axes_make(in, in->rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(out->rank, shape, at)) {
        for (int k = 0; k < in->rank; k++) from[k] = first[k] + at[k];
        ref_array_copy(out, i, in, ref_index(in, in->rank, from));
    }
}

/* Permutes the axes: axis i of the result is axis order[i] of x. */
static void ref_axes_transposed(const struct ref_array *x, const int *order, struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK];

    for (int i = 0; i < x->rank; i++) shape[i] = x->shape[order[i]];
    ref_axes_make(x, x->rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(x->rank, shape, at)) {
        for (int k = 0; k < x->rank; k++) from[order[k]] = at[k];
        ref_array_copy(out, i, x, ref_index(x, x->rank, from));
    }
}

void ref_swapaxes(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_swapaxes_attrs *a = attrs;
    int order[REF_RANK], p = ref_axis(a->axis0, in->rank), q = ref_axis(a->axis1, in->rank);

    for (int i = 0; i < in->rank; i++) order[i] = i == p ? q : i == q ? p : i;
    ref_axes_transposed(in, order, out);
}

/* Starts with the axes that stay, and inserts each moved axis at its destination, the lowest
 * destination first. */
void ref_moveaxis(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_moveaxis_attrs *a = attrs;
    int order[REF_RANK], n = 0;

    for (int i = 0; i < in->rank; i++)
        if (!ref_axes_names(a->source, in->rank, i)) order[n++] = i;
    for (int place = 0; place < in->rank; place++)
        for (int64_t k = 0; k < a->source.n; k++) {
            if (ref_axis(a->destination.at[k], in->rank) != place) continue;
            for (int i = n++; i > place; i--) order[i] = order[i - 1];
            order[place] = ref_axis(a->source.at[k], in->rank);
        }
    ref_axes_transposed(in, order, out);
}

void ref_diagonal(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_diagonal_attrs *a = attrs;
    int p = ref_axis(a->axis1, in->rank), q = ref_axis(a->axis2, in->rank), rank = 0;
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK], n = 0;

    for (int64_t i = 0; i < in->shape[p]; i++)
        n += i + a->offset >= 0 && i + a->offset < in->shape[q];
    for (int i = 0; i < in->rank; i++)
        if (i != p && i != q) shape[rank++] = in->shape[i];
    shape[rank++] = n;
    ref_axes_make(in, rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        for (int k = 0, next = 0; k < in->rank; k++)
            if (k != p && k != q) from[k] = at[next++];
        from[p] = at[rank - 1] + (a->offset < 0 ? -a->offset : 0);
        from[q] = from[p] + a->offset;
        ref_array_copy(out, i, in, ref_index(in, in->rank, from));
    }
}

void ref_unstack(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int axis = ref_axis(((const struct bp_unstack_attrs *)attrs)->axis, in->rank);
    int64_t shape[REF_RANK];

    for (int i = 0, at = 0; i < in->rank; i++)
        if (i != axis) shape[at++] = in->shape[i];
    for (int64_t n = 0; n < in->shape[axis]; n++) {
        int64_t at[REF_RANK] = {0}, from[REF_RANK];
        ref_axes_make(in, in->rank - 1, shape, &out[n]);
        for (int64_t i = 0; i < out[n].count; i++, ref_next(in->rank - 1, shape, at)) {
            for (int k = 0; k < in->rank; k++) from[k] = k == axis ? n : at[k - (k > axis)];
            ref_array_copy(&out[n], i, in, ref_index(in, in->rank, from));
        }
    }
}

void ref_stack(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int rank = in->rank + 1, axis = ref_axis(((const struct bp_stack_attrs *)attrs)->axis, rank);
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK], n = 0;

    while (in[n].type) n++;
    for (int i = 0; i < rank; i++) shape[i] = i == axis ? n : in->shape[i - (i > axis)];
    ref_axes_make(in, rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        for (int k = 0; k < rank; k++)
            if (k != axis) from[k - (k > axis)] = at[k];
        ref_array_copy(out, i, &in[at[axis]], ref_index(in, in->rank, from));
    }
}

void ref_atleast(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int least = (int)((const struct bp_atleast_attrs *)attrs)->rank, rank = in->rank;
    int64_t shape[REF_RANK] = {1, 1, 1};

    for (int i = 0; i < rank; i++) {
        if (rank >= least || (least == 3 && rank == 2)) shape[i] = in->shape[i];
        else if (least == 3) shape[1] = in->shape[0];
        else shape[i + least - rank] = in->shape[i];
    }
    ref_axes_reshaped(in, rank > least ? rank : least, shape, out);
}

void ref_broadcast_tensors(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t shape[REF_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
    int rank = 0;

    (void)attrs;
    for (int n = 0; in[n].type; n++) rank = in[n].rank > rank ? in[n].rank : rank;
    for (int n = 0; in[n].type; n++)
        for (int i = 0; i < in[n].rank; i++)
            if (in[n].shape[i] != 1) shape[rank - in[n].rank + i] = in[n].shape[i];
    for (int n = 0; in[n].type; n++) {
        int64_t at[REF_RANK] = {0};
        ref_axes_make(&in[n], rank, shape, &out[n]);
        for (int64_t i = 0; i < out[n].count; i++, ref_next(rank, shape, at))
            ref_array_copy(&out[n], i, &in[n], ref_index(&in[n], rank, at));
    }
}

void ref_meshgrid(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    bool xy = ((const struct bp_meshgrid_attrs *)attrs)->xy;
    int64_t shape[REF_RANK];
    int axis[REF_RANK], rank = 0;

    for (; in[rank].type; rank++) axis[rank] = rank;
    if (xy && rank > 1) {
        axis[0] = 1;
        axis[1] = 0;
    }
    for (int n = 0; n < rank; n++) shape[axis[n]] = in[n].count;
    for (int n = 0; n < rank; n++) {
        int64_t at[REF_RANK] = {0};
        ref_axes_make(&in[n], rank, shape, &out[n]);
        for (int64_t i = 0; i < out[n].count; i++, ref_next(rank, shape, at))
            ref_array_copy(&out[n], i, &in[n], at[axis[n]]);
    }
}
