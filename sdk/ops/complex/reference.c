/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of operators between complex and real numbers. */
#include "../common/reference.h"
#include <math.h>
#include <string.h>

static uint32_t complex_of(const struct num_type *real)
{
    return real->dtype == BP_F64 ? BP_C128 : BP_C64;
}

static uint32_t real_of(const struct num_type *complex)
{
    return complex->dtype == BP_C128 ? BP_F64 : BP_F32;
}

void ref_complex(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = ref_broadcast(&in[0], &in[1], shape);

    (void)attrs;
    ref_array_init(out, complex_of(in->type), rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at))
        for (int p = 0; p < 2; p++) out->v[2 * i + p] = in[p].v[ref_index(&in[p], rank, at)];
}

static long double ref_complex_part(const char *op, long double re, long double im)
{
    if (!strcmp(op, "real")) return re;
    if (!strcmp(op, "imag")) return im;
    return !strcmp(op, "angle") ? atan2l(im, re) : hypotl(re, im);
}

void ref_family_complex(const char *op, const struct ref_array *in, const void *attrs,
                        struct ref_array *out)
{
    bool conj = !strcmp(op, "conj");

    (void)attrs;
    ref_array_init(out, conj ? in->type->dtype : real_of(in->type), in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++) {
        long double re = in->v[2 * i], im = in->v[2 * i + 1];
        if (!conj) {
            out->v[i] = ref_complex_part(op, re, im);
            continue;
        }
        out->v[2 * i] = re;
        out->v[2 * i + 1] = -im;
    }
}

void ref_as_real(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t shape[REF_RANK];

    (void)attrs;
    for (int i = 0; i < in->rank; i++) shape[i] = in->shape[i];
    shape[in->rank] = 2;
    ref_array_init(out, real_of(in->type), in->rank + 1, shape);
    for (int64_t i = 0; i < 2 * in->count; i++) out->v[i] = in->v[i];
}

void ref_as_complex(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_array_init(out, complex_of(in->type), in->rank - 1, in->shape);
    for (int64_t i = 0; i < in->count; i++) out->v[i] = in->v[i];
}
