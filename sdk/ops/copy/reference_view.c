/* SPDX-License-Identifier: Apache-2.0 */
/* reference_view.c: computes the reference results of views, and of copies that belong to them:
 * each finds, for an element of one side, the element of the other side. */
#include "../common/reference.h"

static void ref_view_copy(const struct ref_array *from, int64_t i, struct ref_array *to, int64_t k)
{
    int parts = to->type->parts;

    if (to->u) to->u[k] = from->u[i];
    else
        for (int p = 0; p < parts; p++) to->v[k * parts + p] = from->v[i * parts + p];
}

static void ref_view_make(const struct ref_array *x, int rank, const int64_t *shape,
                          struct ref_array *out)
{
    ref_array_init(out, x->type->dtype, rank, shape);
    out->exact = true;
}

/* Returns the row-major number of an element. */
static int64_t ref_view_number(const struct ref_array *x, const int64_t *at)
{
    int64_t n = 0;

    for (int i = 0; i < x->rank; i++) n = n * x->shape[i] + at[i];
    return n;
}

void ref_assign(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_view_make(in, in->rank, in->shape, out);
    for (int64_t i = 0; i < out->count; i++) ref_view_copy(in, i, out, i);
}

void ref_reshape(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_reshape_attrs *a = attrs;
    int64_t shape[REF_RANK], rest = in->count, open = -1;

    for (int64_t i = 0; i < a->shape.n; i++) {
        shape[i] = a->shape.at[i];
        if (shape[i] < 0) open = i;
        else if (shape[i]) rest /= shape[i];
    }
    if (open >= 0) shape[open] = rest;
    ref_view_make(in, (int)a->shape.n, shape, out);
    for (int64_t i = 0; i < out->count; i++) ref_view_copy(in, i, out, i);
}

void ref_transpose(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_transpose_attrs *a = attrs;
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, from[REF_RANK];
    int perm[REF_RANK];

    for (int i = 0; i < in->rank; i++) {
        perm[i] = a->perm.n ? (int)a->perm.at[i] : in->rank - 1 - i;
        shape[i] = in->shape[perm[i]];
    }
    ref_view_make(in, in->rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(out->rank, shape, at)) {
        for (int k = 0; k < in->rank; k++) from[perm[k]] = at[k];
        ref_view_copy(in, ref_view_number(in, from), out, i);
    }
}

/* The first index, the step and the number of indices along each axis. */
struct selection {
    int64_t first[REF_RANK], step[REF_RANK], count[REF_RANK];
};

static int64_t ref_view_clamp(int64_t i, int64_t extent)
{
    if (i < 0) i += extent;
    return i < 0 ? 0 : i > extent ? extent : i;
}

static struct selection select_of(const struct ref_array *x, const struct bp_slice_attrs *a)
{
    struct selection s;

    for (int i = 0; i < x->rank; i++) {
        s.first[i] = 0;
        s.step[i] = 1;
        s.count[i] = x->shape[i];
    }
    for (int64_t i = 0; i < a->starts.n; i++) {
        int axis = a->axes.n ? ref_axis(a->axes.at[i], x->rank) : (int)i;
        int64_t extent = x->shape[axis], end = ref_view_clamp(a->ends.at[i], extent), n = 0;
        s.first[axis] = ref_view_clamp(a->starts.at[i], extent);
        s.step[axis] = a->steps.n ? a->steps.at[i] : 1;
        for (int64_t k = s.first[axis]; k < end; k += s.step[axis]) n++;
        s.count[axis] = n;
    }
    return s;
}

static int64_t ref_view_selected(const struct ref_array *x, const struct selection *s,
                                 const int64_t *at)
{
    int64_t from[REF_RANK];

    for (int k = 0; k < x->rank; k++) from[k] = s->first[k] + at[k] * s->step[k];
    return ref_view_number(x, from);
}

void ref_slice(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct selection s = select_of(in, attrs);
    int64_t at[REF_RANK] = {0};

    ref_view_make(in, in->rank, s.count, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(out->rank, s.count, at))
        ref_view_copy(in, ref_view_selected(in, &s, at), out, i);
}

void ref_slice_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_slice_grad_attrs *g = attrs;
    struct bp_slice_attrs a = {sizeof a, g->starts, g->ends, g->axes, g->steps};
    const struct ref_array *dy = &in[0], *x = &in[1];
    struct selection s = select_of(x, &a);
    int64_t at[REF_RANK] = {0};

    ref_view_make(x, x->rank, x->shape, out);
    for (int64_t i = 0; i < dy->count; i++, ref_next(dy->rank, s.count, at))
        ref_view_copy(dy, i, out, ref_view_selected(x, &s, at));
}

void ref_expand(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_expand_attrs *a = attrs;
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = (int)a->shape.n;

    for (int i = 0; i < rank; i++)
        shape[i] = a->shape.at[i] < 0 ? in->shape[i - (rank - in->rank)] : a->shape.at[i];
    ref_view_make(in, rank, shape, out);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at))
        ref_view_copy(in, ref_index(in, rank, at), out, i);
}

void ref_split(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_split_attrs *a = attrs;
    int64_t shape[REF_RANK], before = 0, n = a->sections ? a->sections : a->sizes.n, known = 0;
    int axis = ref_axis(a->axis, in->rank);

    for (int64_t i = 0; i < a->sizes.n; i++) known += a->sizes.at[i] < 0 ? 0 : a->sizes.at[i];
    for (int i = 0; i < in->rank; i++) shape[i] = in->shape[i];
    for (int64_t k = 0; k < n; k++) {
        int64_t at[REF_RANK] = {0}, from[REF_RANK];
        shape[axis] = a->sections ? in->shape[axis] / n : a->sizes.at[k];
        if (shape[axis] < 0) shape[axis] = in->shape[axis] - known;
        ref_view_make(in, in->rank, shape, &out[k]);
        for (int64_t i = 0; i < out[k].count; i++, ref_next(in->rank, shape, at)) {
            for (int j = 0; j < in->rank; j++) from[j] = at[j] + (j == axis ? before : 0);
            ref_view_copy(in, ref_view_number(in, from), &out[k], i);
        }
        before += shape[axis];
    }
}

void ref_concat(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int axis = ref_axis(((const struct bp_concat_attrs *)attrs)->axis, in->rank);
    int64_t shape[REF_RANK], before = 0;

    for (int i = 0; i < in->rank; i++) shape[i] = in->shape[i];
    for (int n = 1; in[n].type; n++) shape[axis] += in[n].shape[axis];
    ref_view_make(in, in->rank, shape, out);
    for (int n = 0; in[n].type; n++) {
        int64_t at[REF_RANK] = {0}, to[REF_RANK];
        for (int64_t i = 0; i < in[n].count; i++, ref_next(in[n].rank, in[n].shape, at)) {
            for (int k = 0; k < in->rank; k++) to[k] = at[k] + (k == axis ? before : 0);
            ref_view_copy(&in[n], i, out, ref_view_number(out, to));
        }
        before += in[n].shape[axis];
    }
}
