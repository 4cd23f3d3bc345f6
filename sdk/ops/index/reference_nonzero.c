/* SPDX-License-Identifier: Apache-2.0 */
/* reference_nonzero.c: computes the reference results of nonzero: the indices of elements that are
 * not 0. */
#include "../common/reference.h"

static bool ref_nonzero_is_set(const struct ref_array *x, int64_t i)
{
    if (x->u) return x->u[i] != 0;
    for (int p = 0; p < x->type->parts; p++)
        if (x->v[i * x->type->parts + p] != 0) return true; /* NaN is not 0 */
    return false;
}

void ref_nonzero(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t at[REF_RANK] = {0}, found = 0, shape[2] = {0, in->rank};

    (void)attrs;
    for (int64_t i = 0; i < in->count; i++) shape[0] += ref_nonzero_is_set(in, i);
    ref_array_init(out, BP_I64, 2, shape);
    for (int64_t i = 0; i < in->count; i++, ref_next(in->rank, in->shape, at)) {
        if (!ref_nonzero_is_set(in, i)) continue;
        for (int k = 0; k < in->rank; k++) out->u[found * in->rank + k] = (uint64_t)at[k];
        found++;
    }
}
