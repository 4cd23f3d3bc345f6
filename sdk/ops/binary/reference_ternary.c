/* SPDX-License-Identifier: Apache-2.0 */
/* reference_ternary.c: computes the reference results of elementwise operators of three inputs, and
 * of where, mask and masked_fill. */
#include "../common/reference.h"
#include <math.h>
#include <string.h>

/* Computes the shape to which three inputs broadcast; returns its rank. */
static int shape_of(const struct ref_array *in, int64_t *shape)
{
    struct ref_array two = {.rank = 0};

    two.rank = ref_broadcast(&in[0], &in[1], two.shape);
    return ref_broadcast(&two, &in[2], shape);
}

void ref_where(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = shape_of(in, shape);

    (void)attrs;
    ref_array_init(out, in[1].type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        const struct ref_array *from = in[0].u[ref_index(&in[0], rank, at)] ? &in[1] : &in[2];
        ref_array_copy(out, i, from, ref_index(from, rank, at));
    }
}

void ref_masked_fill(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct ref_array transposed[3] = {in[1], in[2], in[0]};

    ref_where(transposed, attrs, out);
}

void ref_mask(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_mask_attrs *a = attrs;
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = ref_broadcast(&in[0], &in[1], shape);

    ref_array_init(out, in[0].type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at))
        if (in[1].u[ref_index(&in[1], rank, at)] != (uint64_t)a->invert)
            ref_array_copy(out, i, &in[0], ref_index(&in[0], rank, at));
}

/* Products, quotients and differences are rounded before they are added to x. A device's quotient
 * may be off by five units. */
static void of_one(const char *op, long double x, long double y, long double z, long double a,
                   struct ref_array *out, int64_t i)
{
    bool lerp = !strcmp(op, "lerp"), product = !strcmp(op, "addcmul");
    long double term = lerp ? z * (y - x) : product ? a * (y * z) : a * (y / z);

    out->v[i] = x + term;
    if (isfinite(out->v[i])) out->bound[i] = fabsl(term) * (lerp || product ? 2 : 6);
}

void ref_family_ternary(const char *op, const struct ref_array *in, const void *attrs,
                        struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = shape_of(in, shape);
    long double a = ref_number(in->type, attrs, 1);

    ref_array_init(out, in->type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at))
        of_one(op, in[0].v[ref_index(&in[0], rank, at)], in[1].v[ref_index(&in[1], rank, at)],
               in[2].v[ref_index(&in[2], rank, at)], a, out, i);
}
