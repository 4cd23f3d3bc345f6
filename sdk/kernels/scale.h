/* SPDX-License-Identifier: Apache-2.0 */
/* scale.h: scale and sgd, which multiply by one number, for one float dtype (elem.h). A result may
 * be an input, exactly. */
#ifndef BP_KERNELS_SCALE_H
#define BP_KERNELS_SCALE_H

#include "entry.h"
#include "scale_args.h"

KFN void scale_span(const struct scale_args *a, i64 begin, i64 n, GLOBAL elem *y,
                    GLOBAL const elem *x)
{
    acc factor = number(a->factor), bias = number(a->bias);

    FOR_RUNS(r, &a->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++)
            y[r.at[0] + i * r.step[0]] =
                elem_put(elem_get(x[r.at[1] + i * r.step[1]]) * factor + bias);
    }
}
ENTRY_SPANS_2(scale, elem, const elem)

/* The one number of a tensor of any float type. */
KFN acc rate_of(i64 type, GLOBAL const void *p)
{
    switch (type) {
    case RATE_f16: return (acc)f16_to_f32(*(GLOBAL const u16 *)p);
    case RATE_bf16: return (acc)bf16_to_f32(*(GLOBAL const u16 *)p);
#ifdef HAS_F64
    case RATE_f64: return (acc)*(GLOBAL const f64 *)p;
#endif
    default: return (acc)*(GLOBAL const f32 *)p;
    }
}

/* Operands of the walk: what is changed, twice, and its gradient. */
KFN void sgd_span(const struct sgd_args *a, i64 begin, i64 n, GLOBAL elem *y,
                  GLOBAL const elem *param, GLOBAL const elem *grad, GLOBAL const void *rate)
{
    acc by = rate_of(a->rate, rate);

    FOR_RUNS(r, &a->walk, begin, n)
    {
        for (i64 i = 0; i < r.n; i++)
            y[r.at[0] + i * r.step[0]] =
                elem_put(elem_get(param[r.at[1] + i * r.step[1]]) -
                         by * elem_get(grad[r.at[2] + i * r.step[2]]));
    }
}
ENTRY_SPANS_4(sgd, elem, const elem, const elem, const void)

#endif
