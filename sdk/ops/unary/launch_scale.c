/* SPDX-License-Identifier: Apache-2.0 */
/* launch_scale.c: launches the kernels of kernel_scale.h for scale and sgd. */
#include "kernel_scale.h"
#include "../../dialect/portable.h"
#include "../../dialect/run_size.h"
#include "../../dialect/walk_plan.h"

enum bp_status portable_scale(const struct bp_launch *launch)
{
    const struct bp_scale_attrs *attrs = launch->attrs;
    const struct bp_view *y = launch->out[0], *const *x = launch->in;
    struct scale_args args = {walk_of(y, x, 1), (real)attrs->factor, (real)attrs->bias};
    struct portable p = PORTABLE(scale, scale, portable_type(y->dtype), args, y->count, 2);

    portable_view(&p, y);
    portable_view(&p, x[0]);
    walk_divide(&args.walk, 2, RUN_OF(portable_type_bytes(p.type)), &p);
    return portable_run(launch, &p);
}

enum bp_status portable_sgd(const struct bp_launch *launch)
{
    static const uint8_t rate[] = {
        [BP_F16] = RATE_f16, [BP_BF16] = RATE_bf16, [BP_F32] = RATE_f32, [BP_F64] = RATE_f64};
    const struct bp_view *y = launch->out[0], *const *in = launch->in;
    struct sgd_args args = {walk_of(y, in, 2), rate[in[2]->dtype]};
    struct portable p = PORTABLE(scale, sgd, portable_type(y->dtype), args, y->count, 3);

    portable_view(&p, y);
    for (int i = 0; i < 3; i++) portable_view(&p, in[i]);
    walk_divide(&args.walk, 3, RUN_OF(portable_type_bytes(p.type)), &p);
    return portable_run(launch, &p);
}
