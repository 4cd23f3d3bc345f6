/* SPDX-License-Identifier: Apache-2.0 */
/* move.c: implements the families of the stand-in for CANN that move or make elements. Views of
 * the inputs say which element goes where. */
#include "family.h"
#include <math.h>
#include <string.h>

/* A view of part of a tensor: from `first` of an axis on, n of them, `step` apart. */
static struct base_tensor view_part(struct base_tensor t, int axis, int64_t first, int64_t n,
                                    int64_t step)
{
    t.data = (char *)t.data + first * t.stride[axis] * (int64_t)base_dtype_size(t.dtype);
    t.shape[axis] = n;
    t.stride[axis] *= step;
    return t;
}

/* self, dims, out */
int cann_check_permute(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    struct cann_shape shape = {.rank = x->rank};
    unsigned seen = 0;
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    CANN_TRY(cann_want_n(call, 1, x->rank));
    for (int i = 0; i < x->rank; i++) {
        CANN_TRY(cann_want_axis(call, 1, call->arg[1].at[i], x->rank, &axis));
        if (seen >> axis & 1) return cann_refuse(call, 1, "has axis %d twice", axis);
        seen |= 1u << axis;
        shape.at[i] = x->dims[axis];
    }
    return cann_want_shape(call, 2, &shape);
}

int cann_run_permute(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    struct base_tensor view = *x;

    for (int i = 0; i < x->rank; i++) {
        int64_t axis = call->arg[1].at[i];
        axis = axis < 0 ? axis + x->rank : axis;
        view.shape[i] = x->shape[axis];
        view.stride[i] = x->stride[axis];
    }
    base_tensor_copy(&view, cann_host(call, 2));
    return 0;
}

/* tensors, dim, out */
int cann_check_cat(struct cann_call *call)
{
    const struct cann_tensor *t = cann_type(call, 0);
    struct cann_shape shape;
    int axis;

    if (!t) return cann_refuse(call, 0, "has no tensor");
    shape = cann_shape(t);
    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, t->rank, &axis));
    for (int i = 1; i < call->arg[0].n; i++) {
        const struct cann_tensor *next = cann_type_at(call, 0, i);
        if (next->dtype != t->dtype || next->rank != t->rank)
            return cann_refuse(call, 0, "has tensors of several dtypes or ranks");
        for (int k = 0; k < t->rank; k++)
            if (k != axis && next->dims[k] != t->dims[k])
                return cann_refuse(call, 0, "has tensors that do not fit at axis %d", k);
        shape.at[axis] += next->dims[axis];
    }
    return cann_want_shape(call, 2, &shape);
}

int cann_run_cat(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 2);
    int axis = (int)(call->arg[1].i < 0 ? call->arg[1].i + y->rank : call->arg[1].i);
    int64_t at = 0;

    for (int i = 0; i < call->arg[0].n; i++) {
        const struct base_tensor *x = &call->host[call->arg[0].first + i];
        struct base_tensor part = view_part(*y, axis, at, x->shape[axis], 1);
        if (base_tensor_count(x)) base_tensor_copy(x, &part);
        at += x->shape[axis];
    }
    return 0;
}

/* tensors, dim, out */
int cann_check_stack(struct cann_call *call)
{
    const struct cann_tensor *t = cann_type(call, 0);
    struct cann_shape shape = {0};
    int axis;

    if (!t) return cann_refuse(call, 0, "has no tensor");
    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    if (t->rank == CANN_RANK) return cann_refuse(call, 0, "has tensors of %d axes", t->rank);
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, t->rank + 1, &axis));
    for (int i = 1; i < call->arg[0].n; i++) {
        const struct cann_tensor *next = cann_type_at(call, 0, i);
        if (next->dtype != t->dtype || next->rank != t->rank ||
            memcmp(next->dims, t->dims, sizeof t->dims) != 0)
            return cann_refuse(call, 0, "has tensors of several types");
    }
    for (int i = 0; i <= t->rank; i++)
        shape.at[i] = i == axis ? call->arg[0].n : t->dims[i < axis ? i : i - 1];
    shape.rank = t->rank + 1;
    return cann_want_shape(call, 2, &shape);
}

/* A view without an axis, at a place of it. */
static struct base_tensor view_without(struct base_tensor t, int axis, int64_t at)
{
    t = view_part(t, axis, at, 1, 1);
    t.rank--;
    for (int i = axis; i < t.rank; i++) {
        t.shape[i] = t.shape[i + 1];
        t.stride[i] = t.stride[i + 1];
    }
    return t;
}

int cann_run_stack(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 2);
    int axis = (int)(call->arg[1].i < 0 ? call->arg[1].i + y->rank : call->arg[1].i);

    if (!base_tensor_count(y)) return 0;
    for (int i = 0; i < call->arg[0].n; i++) {
        struct base_tensor part = view_without(*y, axis, i);
        base_tensor_copy(&call->host[call->arg[0].first + i], &part);
    }
    return 0;
}

/* self, splitSize, dim, out: a list */
int cann_check_split(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    struct cann_shape shape = cann_shape(x);
    int64_t all = 0;
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, 2, call->arg[2].i, x->rank, &axis));
    CANN_TRY(cann_want_n(call, 1, call->arg[3].n));
    for (int i = 0; i < call->arg[3].n; i++) {
        const struct cann_tensor *part = cann_type_at(call, 3, i);
        shape.at[axis] = call->arg[1].at[i];
        all += shape.at[axis];
        if (part->dtype != x->dtype || part->rank != shape.rank ||
            memcmp(part->dims, shape.at, (size_t)shape.rank * sizeof *shape.at) != 0)
            return cann_refuse(call, 3, "has a part %d of another type", i);
    }
    if (all != x->dims[axis]) return cann_refuse(call, 1, "adds up to %lld", (long long)all);
    return 0;
}

int cann_run_split(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    int axis = (int)(call->arg[2].i < 0 ? call->arg[2].i + x->rank : call->arg[2].i);
    int64_t at = 0;

    for (int i = 0; i < call->arg[3].n; i++) {
        struct base_tensor part = view_part(*x, axis, at, call->arg[1].at[i], 1);
        if (base_tensor_count(&part)) base_tensor_copy(&part, &call->host[call->arg[3].first + i]);
        at += call->arg[1].at[i];
    }
    return 0;
}

/* One axis of a slice: its first element and how many. The end is exclusive; both are clipped. */
static int64_t slice_extent(int64_t *start, int64_t end, int64_t step, int64_t extent)
{
    if (*start < 0) *start += extent;
    if (end < 0) end += extent;
    *start = *start < 0 ? 0 : *start > extent ? extent : *start;
    end = end < 0 ? 0 : end > extent ? extent : end;
    return end > *start ? (end - *start + step - 1) / step : 0;
}

/* self, starts, ends, axes, steps, out */
int cann_check_slice(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));
    const struct cann_arg *a = call->arg;
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 5, 0));
    for (int i = 2; i < 5; i++) CANN_TRY(cann_want_n(call, i, a[1].n_at));
    for (int i = 0; i < a[1].n_at; i++) {
        int64_t start = a[1].at[i];
        CANN_TRY(cann_want_axis(call, 3, a[3].at[i], shape.rank, &axis));
        if (a[4].at[i] < 1) return cann_refuse(call, 4, "has %lld", (long long)a[4].at[i]);
        shape.at[axis] = slice_extent(&start, a[2].at[i], a[4].at[i], shape.at[axis]);
    }
    return cann_want_shape(call, 5, &shape);
}

int cann_run_slice(struct cann_call *call)
{
    struct base_tensor view = *cann_host(call, 0);
    const struct cann_arg *a = call->arg;

    if (!base_tensor_count(cann_host(call, 5))) return 0;
    for (int i = 0; i < a[1].n_at; i++) {
        int axis = (int)(a[3].at[i] < 0 ? a[3].at[i] + view.rank : a[3].at[i]);
        int64_t start = a[1].at[i];
        int64_t n = slice_extent(&start, a[2].at[i], a[4].at[i], view.shape[axis]);
        view = view_part(view, axis, start, n, a[4].at[i]);
    }
    base_tensor_copy(&view, cann_host(call, 5));
    return 0;
}

/* self, size, out */
int cann_check_expand(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    const struct cann_arg *a = &call->arg[1];
    struct cann_shape shape = {.rank = a->n_at}, own;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    if (a->n_at > CANN_RANK || a->n_at < x->rank)
        return cann_refuse(call, 1, "has %d extents", a->n_at);
    for (int i = 0; i < a->n_at; i++) {
        int k = i - (a->n_at - x->rank);
        shape.at[i] = a->at[i] == -1 && k >= 0 ? x->dims[k] : a->at[i];
        if (shape.at[i] < 0) return cann_refuse(call, 1, "has %lld", (long long)a->at[i]);
        if (k >= 0 && x->dims[k] != 1 && x->dims[k] != shape.at[i])
            return cann_refuse(call, 1, "does not fit axis %d", k);
    }
    own = shape;
    return cann_want_shape(call, 2, &own);
}

int cann_run_expand(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 2);
    struct base_tensor view = cann_expanded(cann_host(call, 0), y->rank, y->shape);

    base_tensor_copy(&view, y);
    return 0;
}

/* self, repeats, out */
int cann_check_repeat(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    const struct cann_arg *a = &call->arg[1];
    struct cann_shape shape = {.rank = a->n_at};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 2, 0));
    if (a->n_at > CANN_RANK || a->n_at < x->rank)
        return cann_refuse(call, 1, "has %d numbers", a->n_at);
    for (int i = 0; i < a->n_at; i++) {
        int k = i - (a->n_at - x->rank);
        if (a->at[i] < 0) return cann_refuse(call, 1, "has %lld", (long long)a->at[i]);
        shape.at[i] = a->at[i] * (k < 0 ? 1 : x->dims[k]);
    }
    return cann_want_shape(call, 2, &shape);
}

/* Copies into each repetition along axis k and those after it. */
static void repeat_fill(const struct base_tensor *x, struct base_tensor y, int k,
                        const int64_t *repeats)
{
    int axis = k - (y.rank - x->rank);
    int64_t extent = axis < 0 ? 1 : x->shape[axis];

    if (k == y.rank) {
        struct base_tensor from = cann_expanded(x, y.rank, y.shape);
        base_tensor_copy(&from, &y);
        return;
    }
    for (int64_t i = 0; i < repeats[k]; i++)
        repeat_fill(x, view_part(y, k, i * extent, extent, 1), k + 1, repeats);
}

int cann_run_repeat(struct cann_call *call)
{
    if (base_tensor_count(cann_host(call, 2)))
        repeat_fill(cann_host(call, 0), *cann_host(call, 2), 0, call->arg[1].at);
    return 0;
}

/* self, pad: from the last axis on, before and after, value, out */
int cann_check_pad(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));
    const struct cann_arg *a = &call->arg[1];

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 3, 0));
    if (a->n_at % 2 || a->n_at > 2 * shape.rank)
        return cann_refuse(call, 1, "has %d numbers", a->n_at);
    for (int i = 0; i < a->n_at / 2; i++) {
        int64_t *at = &shape.at[shape.rank - 1 - i];
        *at += a->at[2 * i] + a->at[2 * i + 1];
        if (*at < 0) return cann_refuse(call, 1, "leaves nothing");
    }
    return cann_want_shape(call, 3, &shape);
}

int cann_run_pad(struct cann_call *call)
{
    struct base_tensor from = *cann_host(call, 0), to = *cann_host(call, 3), value, all;
    const struct cann_arg *a = &call->arg[1];
    struct cann_temps temps = {.n = 0};

    value = cann_number(&temps, to.dtype, call->arg[2].d);
    all = cann_expanded(&value, to.rank, to.shape);
    cann_write(&temps, &all, &to);
    for (int i = 0; i < a->n_at / 2; i++) {
        int axis = to.rank - 1 - i;
        int64_t before = a->at[2 * i], after = a->at[2 * i + 1], n = from.shape[axis];
        int64_t skip = before < 0 ? -before : 0, end = after < 0 ? -after : 0;
        n = n - skip - end > 0 ? n - skip - end : 0;
        from = view_part(from, axis, skip, n, 1);
        to = view_part(to, axis, before > 0 ? before : 0, n, 1);
    }
    if (!temps.code && base_tensor_count(&from)) base_tensor_copy(&from, &to);
    cann_temps_free(&temps);
    return temps.code;
}

/* self, dims, out */
int cann_check_flip(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    unsigned seen = 0;
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    for (int i = 0; i < call->arg[1].n_at; i++) {
        CANN_TRY(cann_want_axis(call, 1, call->arg[1].at[i], x->rank, &axis));
        if (seen >> axis & 1) return cann_refuse(call, 1, "has axis %d twice", axis);
        seen |= 1u << axis;
    }
    return cann_want_like(call, 2, 0);
}

int cann_run_flip(struct cann_call *call)
{
    struct base_tensor view = *cann_host(call, 0);

    if (!base_tensor_count(&view)) return 0;
    for (int i = 0; i < call->arg[1].n_at; i++) {
        int64_t axis = call->arg[1].at[i];
        axis = axis < 0 ? axis + view.rank : axis;
        view = view_part(view, (int)axis, view.shape[axis] - 1, view.shape[axis], -1);
    }
    base_tensor_copy(&view, cann_host(call, 2));
    return 0;
}

/* x, shifts, dims, out; no dims: one shift of all elements */
int cann_check_roll(struct cann_call *call)
{
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_n(call, 1, call->arg[2].n_at ? call->arg[2].n_at : 1));
    for (int i = 0; i < call->arg[2].n_at; i++)
        CANN_TRY(cann_want_axis(call, 2, call->arg[2].at[i], cann_type(call, 0)->rank, &axis));
    return cann_want_like(call, 3, 0);
}

int cann_run_roll(struct cann_call *call)
{
    const struct cann_arg *shifts = &call->arg[1], *axes = &call->arg[2];
    struct bp_roll_attrs attrs = {
        .size = sizeof attrs, .shifts = {shifts->at, shifts->n_at}, .axes = {axes->at, axes->n_at}};
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, "roll", &attrs, cann_host(call, 0), NULL, NULL, cann_host(call, 3));
    return temps.code;
}

/* self, diagonal, out */
int cann_check_triangle(struct cann_call *call)
{
    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_rank(call, 0, 2, CANN_RANK));
    return cann_want_like(call, 2, 0);
}

int cann_run_triangle(struct cann_call *call)
{
    struct bp_tril_attrs attrs = {.size = sizeof attrs, .diagonal = call->arg[1].i};
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, call->op->bp, &attrs, cann_host(call, 0), NULL, NULL, cann_host(call, 2));
    return temps.code;
}

/* start, end, step, out */
int cann_check_arange(struct cann_call *call)
{
    const struct cann_arg *a = call->arg;
    struct cann_shape shape = {.rank = 1};

    CANN_TRY(cann_want_own(call, 3));
    if (a[2].d == 0 || (a[1].d - a[0].d) / a[2].d < 0)
        return cann_refuse(call, 2, "does not lead from start to end");
    shape.at[0] = (int64_t)ceil((a[1].d - a[0].d) / a[2].d);
    return cann_want_shape(call, 3, &shape);
}

int cann_run_arange(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 3);
    const struct cann_arg *a = call->arg;
    struct bp_arange_attrs attrs = {.size = sizeof attrs,
                                    .start = a[0].d,
                                    .end = a[1].d,
                                    .step = a[2].d,
                                    .num = y->shape[0],
                                    .dtype = y->dtype};
    struct base_call base = {.op = "arange",
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = 1,
                             .out = {y},
                             .type = {y->dtype, BASE_ABSENT, BASE_ABSENT, BASE_ABSENT}};

    return base_compute(&base);
}

/* n, m, out */
int cann_check_eye(struct cann_call *call)
{
    struct cann_shape shape = {.rank = 2, .at = {call->arg[0].i, call->arg[1].i}};

    CANN_TRY(cann_want_own(call, 2));
    return cann_want_shape(call, 2, &shape);
}

int cann_run_eye(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 2);
    struct bp_eye_attrs attrs = {
        .size = sizeof attrs, .rows = call->arg[0].i, .columns = call->arg[1].i, .dtype = y->dtype};
    struct base_call base = {.op = "eye",
                             .attrs = &attrs,
                             .n_in = 2,
                             .n_out = 1,
                             .out = {y},
                             .type = {y->dtype, BASE_ABSENT, BASE_ABSENT, BASE_ABSENT}};

    return base_compute(&base);
}
