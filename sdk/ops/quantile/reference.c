/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of median, nanmedian, quantile, masked_scatter,
 * clip_by_norm and accuracy. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

/* The first attributes of median, nanmedian and quantile. */
struct middle {
    size_t size;
    int64_t axis, flatten, keep;
};

/* Lines of x: n values that are `step` elements apart. shape, rank: of a result with one value for
 * each line. */
struct lines {
    int64_t n, step, count, shape[REF_RANK];
    int rank;
};

static struct lines ref_quantile_lines_of(const struct ref_array *x, const struct middle *a)
{
    struct lines l = {x->count, 1, 1, {0}, 0};
    int axis = a->flatten ? 0 : ref_axis(a->axis, x->rank);

    for (int i = 0; i < x->rank; i++) {
        bool goes = a->flatten || i == axis;
        if (!goes || a->keep) l.shape[l.rank++] = goes ? 1 : x->shape[i];
        if (!goes) l.count *= x->shape[i];
        if (!a->flatten && i > axis) l.step *= x->shape[i];
    }
    if (!a->flatten) l.n = x->shape[axis];
    return l;
}

/* Compares for an ascending order with NaN last. */
static int ref_quantile_before(const void *a, const void *b)
{
    long double x = *(const long double *)a, y = *(const long double *)b;

    if (isnan(x) || isnan(y)) return isnan(x) - isnan(y);
    return (x > y) - (x < y);
}

static void ref_quantile_line(const struct ref_array *x, const struct lines *l, int64_t number,
                              long double *to)
{
    int64_t from = number / l->step * l->n * l->step + number % l->step;

    for (int64_t i = 0; i < l->n; i++) to[i] = x->v[from + i * l->step];
    qsort(to, (size_t)l->n, sizeof *to, ref_quantile_before);
}

static void ref_quantile_middles(const struct ref_array *in, const void *attrs, bool without,
                                 struct ref_array *out)
{
    const struct bp_median_attrs *a = attrs; /* nanmedian has this layout too */
    struct lines l = ref_quantile_lines_of(in, attrs);
    long double *v = malloc(((size_t)l.n + 1) * sizeof *v);

    if (!v) abort();
    ref_array_init(out, in->type->dtype, l.rank, l.shape);
    for (int64_t i = 0; i < l.count; i++) {
        int64_t n = l.n;
        ref_quantile_line(in, &l, i, v);
        while (without && n && isnan(v[n - 1])) n--;
        if (!n || isnan(v[n - 1])) out->v[i] = NAN;
        else if (n % 2 || a->lower) out->v[i] = v[(n - 1) / 2];
        else out->v[i] = (v[n / 2 - 1] + v[n / 2]) / 2;
    }
    free(v);
}

void ref_median(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_quantile_middles(in, attrs, false, out);
}

void ref_nanmedian(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_quantile_middles(in, attrs, true, out);
}

/* Roundings: the position q (n - 1), the difference of neighbours, and its product. */
void ref_quantile(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *q = &in[1];
    struct lines l = ref_quantile_lines_of(in, attrs);
    long double *v = malloc(((size_t)l.n + 1) * sizeof *v);
    int64_t shape[REF_RANK];

    if (!v) abort();
    if (q->rank) shape[0] = q->shape[0];
    for (int i = 0; i < l.rank; i++) shape[q->rank + i] = l.shape[i];
    ref_array_init(out, in->type->dtype, q->rank + l.rank, shape);
    for (int64_t i = 0; i < l.count; i++) {
        ref_quantile_line(in, &l, i, v);
        for (int64_t k = 0; k < q->count; k++) {
            long double part = q->v[k] < 0 ? 0 : q->v[k] > 1 ? 1 : q->v[k];
            long double p = part * (long double)(l.n - 1), low = floorl(p);
            long double x = v[(int64_t)low], y = v[(int64_t)ceill(p)];
            int64_t o = k * l.count + i;
            out->v[o] = isnan(v[l.n - 1]) ? NAN : x == y ? x : x + (p - low) * (y - x);
            if (isfinite(out->v[o])) out->bound[o] = fabsl(y - x) * (p + 2 * (p - low)) * (x != y);
        }
    }
    free(v);
}

void ref_masked_scatter(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *x = &in[0], *mask = &in[1];
    int64_t at[REF_RANK] = {0}, used = 0;

    (void)attrs;
    ref_array_init(out, x->type->dtype, x->rank, x->shape);
    for (int64_t i = 0; i < x->count; i++, ref_next(x->rank, x->shape, at))
        if (mask->u[ref_index(mask, x->rank, at)]) ref_array_copy(out, i, &in[2], used++);
        else ref_array_copy(out, i, x, i);
}

/* Error: that of norm, then 1 / norm and two products. */
void ref_clip_by_norm(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_clip_by_norm_attrs *a = attrs;
    long double squares = 0, norm;

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < in->count; i++) squares += in->v[i] * in->v[i];
    norm = sqrtl(squares);
    for (int64_t i = 0; i < in->count; i++) {
        out->v[i] = norm <= a->max_norm ? in->v[i] : in->v[i] * (a->max_norm / norm);
        if (!(norm <= a->max_norm) && isfinite(out->v[i]))
            out->bound[i] = fabsl(out->v[i]) * (ref_growth(in->count) / 2 + 3);
    }
}

void ref_accuracy(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t n = in->shape[0], k = in->shape[1], correct = 0;

    (void)attrs;
    ref_array_init(&out[0], BP_F32, 0, NULL);
    ref_array_init(&out[1], BP_I32, 0, NULL);
    ref_array_init(&out[2], BP_I32, 0, NULL);
    for (int64_t i = 0; i < n; i++) {
        bool hit = false;
        for (int64_t j = 0; j < k; j++) hit |= in[0].u[i * k + j] == in[1].u[i];
        correct += hit;
    }
    out[0].v[0] = (long double)correct / (long double)n;
    out[1].u[0] = (uint64_t)correct;
    out[2].u[0] = (uint64_t)n;
}
