/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_scale.h: computes scale and sgd, which multiply by one number, for one float dtype
 * (elem.h). The result may be one of the inputs, with the same offset and strides. */
#ifndef BP_OPS_UNARY_KERNEL_SCALE_H
#define BP_OPS_UNARY_KERNEL_SCALE_H

#include "../../dialect/walk.h"

struct scale_args {
    struct walk_by_value walk;
    host_real factor, bias;
};

/* The types that a learning rate can have. */
enum { RATE_f16, RATE_bf16, RATE_f32, RATE_f64 };
struct sgd_args {
    struct walk_by_value walk;
    i64 rate;
};

#ifdef ELEM
#include "../../dialect/run.h"

KFN int scale_is_even(const struct scale_args *a, GLOBAL elem *y, GLOBAL const elem *x)
{
    return RUN_EVEN(&a->walk, 0, y) && RUN_EVEN(&a->walk, 1, x);
}
RUN_FN void scale_run(const struct scale_args *a, struct walk_run r, GLOBAL elem *y,
                      GLOBAL const elem *x)
{
    acc factor = number(a->factor), bias = number(a->bias);
    RUN_IN(elem, p, 1, x);
    RUN_OUT(elem, w, 0, y);

    RUN_EACH(w, elem_put(elem_get(RUN_AT(p)) * factor + bias))
    RUN_END(elem, w, 0, y);
}
ENTRY_RUNS_2(scale, elem, const elem)

/* Returns the one number of a tensor of any float type. */
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

/* Operands of the walk: the parameters twice (as output and as input), and their gradient. */
KFN int sgd_is_even(const struct sgd_args *a, GLOBAL elem *y, GLOBAL const elem *param,
                    GLOBAL const elem *grad, GLOBAL const void *rate)
{
    (void)rate;
    return RUN_EVEN(&a->walk, 0, y) && RUN_EVEN(&a->walk, 1, param) && RUN_EVEN(&a->walk, 2, grad);
}
RUN_FN void sgd_run(const struct sgd_args *a, struct walk_run r, GLOBAL elem *y,
                    GLOBAL const elem *param, GLOBAL const elem *grad, GLOBAL const void *rate)
{
    acc by = rate_of(a->rate, rate);
    RUN_IN(elem, p, 1, param);
    RUN_IN(elem, g, 2, grad);
    RUN_OUT(elem, w, 0, y);

    RUN_EACH(w, elem_put(elem_get(RUN_AT(p)) - by * elem_get(RUN_AT(g))))
    RUN_END(elem, w, 0, y);
}
ENTRY_RUNS_4(sgd, elem, const elem, const elem, const void)
#endif

#endif
