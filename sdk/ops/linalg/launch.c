/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the determinant kernel of kernel.h. */
#include "../../dialect/portable.h"
#include "kernel.h"

/* Requests workspace for a copy of the matrices in the computing type. */
enum bp_status portable_det_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_view *x = prep->in[0];

    (void)self;
    return portable_needs(out, x->count * (x->dtype == BP_F64 ? 8 : 4));
}

enum bp_status portable_det(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct det_args args = {x->shape[x->rank - 1]};
    double n = (double)args.n;
    struct portable p = PORTABLE(linalg, det, portable_type(x->dtype), args, y->count, n * n * n);

    portable_view(&p, y);
    portable_view(&p, x);
    portable_workspace(&p, launch, 0);
    return portable_run(launch, &p);
}
