/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for quantize_linear and dequantize_linear. */
#include "../../dialect/portable.h"
#include "kernel.h"

static int64_t quantize_type_of(const struct bp_view *v)
{
    switch (v->dtype) {
    case BP_I8: return QUANT_i8;
    case BP_U8: return QUANT_u8;
    case BP_I16: return QUANT_i16;
    case BP_U16: return QUANT_u16;
    default: return QUANT_i32;
    }
}

/* With one scale, all of x is one run. */
static void runs_of(const struct bp_view *x, const struct bp_view *scale, int64_t axis,
                    int64_t *inner, int64_t *channels)
{
    *channels = scale->count;
    *inner = scale->count == 1 ? x->count : portable_split(x, portable_axis(axis, x->rank)).inner;
}

/* Launches p with y, x, scale and zero_point as operands. */
static enum bp_status quantize_launch(const struct bp_launch *launch, struct portable *p)
{
    portable_view(p, launch->out[0]);
    for (int i = 0; i < 3; i++) portable_view(p, launch->in[i]);
    return portable_run(launch, p);
}

enum bp_status portable_quantize(const struct bp_launch *launch)
{
    const struct bp_quantize_linear_attrs *attrs = launch->attrs;
    const struct bp_view *x = launch->in[0], *scale = launch->in[1], *y = launch->out[0];
    struct quantize_args args = {.type = quantize_type_of(y)};
    struct portable p = PORTABLE(quantize, quantize, portable_type(x->dtype), args, x->count, 2);

    runs_of(x, scale, attrs->axis, &args.inner, &args.channels);
    return quantize_launch(launch, &p);
}

enum bp_status portable_dequantize(const struct bp_launch *launch)
{
    const struct bp_dequantize_linear_attrs *attrs = launch->attrs;
    const struct bp_view *x = launch->in[0], *scale = launch->in[1], *y = launch->out[0];
    struct dequantize_args args = {.type = quantize_type_of(x)};
    struct portable p = PORTABLE(quantize, dequantize, portable_type(y->dtype), args, x->count, 1);

    runs_of(x, scale, attrs->axis, &args.inner, &args.channels);
    return quantize_launch(launch, &p);
}
