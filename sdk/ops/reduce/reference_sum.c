/* SPDX-License-Identifier: Apache-2.0 */
/* reference_sum.c: computes reference results of sum over axes and of its gradient. */
#include "../common/reference.h"
#include <math.h>

/* Sets which axes are summed. */
static void ref_sum_summed(const struct bp_dims *axes, int rank, bool *is)
{
    for (int i = 0; i < rank; i++) is[i] = axes->n == 0;
    for (int64_t i = 0; i < axes->n; i++) is[ref_axis(axes->at[i], rank)] = true;
}

/* The index, in a result without the summed axes, to which the input at coordinates `at` is
 * added. */
static int64_t ref_sum_target(int rank, const int64_t *shape, const bool *is, const int64_t *at)
{
    int64_t index = 0;

    for (int i = 0; i < rank; i++)
        if (!is[i]) index = index * shape[i] + at[i];
    return index;
}

void ref_sum(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_sum_attrs *sum = attrs;
    int64_t shape[REF_RANK], at[REF_RANK] = {0}, terms = 1;
    bool is[REF_RANK];
    int rank = 0, parts = in->type->parts;
    bool whole = true;

    ref_sum_summed(&sum->axes, in->rank, is);
    for (int i = 0; i < in->rank; i++) {
        if (is[i]) terms *= in->shape[i];
        if (!is[i] || sum->keep) shape[rank++] = is[i] ? 1 : in->shape[i];
    }
    ref_array_init(out, in->type->dtype, rank, shape);
    for (int64_t i = 0; i < in->count; i++, ref_next(in->rank, in->shape, at)) {
        int64_t to = ref_sum_target(in->rank, in->shape, is, at);
        if (out->u) out->u[to] += in->u[i];
        else
            for (int p = 0; p < parts; p++) {
                out->v[to * parts + p] += in->v[i * parts + p];
                out->bound[to * parts + p] += fabsl(in->v[i * parts + p]);
                whole = whole && in->v[i * parts + p] == truncl(in->v[i * parts + p]);
            }
    }
    /* n terms need n - 1 additions; TOL counts the last one, in ulp. */
    if (out->v) ref_bound_whole(out, whole, ref_growth(terms - 2));
}

void ref_sum_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_sum_grad_attrs *sum = attrs;
    const struct ref_array *dy = &in[0], *x = &in[1];
    int64_t at[REF_RANK] = {0};
    bool is[REF_RANK];
    int parts = x->type->parts;

    ref_sum_summed(&sum->axes, x->rank, is);
    ref_array_init(out, x->type->dtype, x->rank, x->shape);
    out->exact = true;
    for (int64_t i = 0; i < out->count; i++, ref_next(x->rank, x->shape, at)) {
        int64_t from = ref_sum_target(x->rank, x->shape, is, at);
        if (out->u) out->u[i] = dy->u[from];
        else
            for (int p = 0; p < parts; p++) out->v[i * parts + p] = dy->v[from * parts + p];
    }
}
