/* SPDX-License-Identifier: Apache-2.0 */
/* reference_formula.c: runs references that are one formula per element; see
 * reference_formula.h. */
#include "reference_formula.h"
#include <math.h>
#include <string.h>

struct ref_formula_of ref_formula_of(const struct ref_array *in, const void *attrs)
{
    return (struct ref_formula_of){ref_number(in->type, attrs, 1), ref_number(in->type, attrs, 2),
                                   ref_number(in->type, attrs, 3), in->type};
}

void ref_formula_run(const struct ref_formula *list, const char *op, const struct ref_array *in,
                     const void *attrs, struct ref_array *out)
{
    struct ref_formula_of of = ref_formula_of(in, attrs);

    while (strcmp(list->op, op)) list++;
    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++) {
        long double x = in->v[i], y = list->plain ? list->plain(x) : list->with(x, &of);
        out->v[i] = y;
        if (list->bound && isfinite(x) && isfinite(y))
            out->bound[i] = list->bound(x, y, &of);
    }
}

long double ref_rounded(const struct num_type *type, long double v)
{
    return num_accumulate(type)->digits < 53 ? (long double)(float)v : (long double)(double)v;
}

long double ref_underflow(const struct num_type *type)
{
    const struct num_type *sum = num_accumulate(type);

    return num_ulp(sum, 0) / num_unit(sum);
}

long double ref_logistic(long double x)
{
    return 1 / (1 + expl(-x));
}

long double ref_normal_below(long double x)
{
    return erfcl(-x / sqrtl(2)) / 2;
}

long double ref_normal_density(long double x)
{
    return expl(-x * x / 2) / sqrtl(2 * acosl(-1));
}
