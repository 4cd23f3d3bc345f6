/* SPDX-License-Identifier: Apache-2.0 */
/* launch_count.c: launches the kernels of kernel_count.h for any, all and count_nonzero. */
#include "kernel_count.h"
#include "../common/launch_reduce.h"

enum bp_status portable_count_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    (void)self;
    return reduce_prepare(prep, out);
}

enum bp_status portable_count(const struct bp_launch *launch)
{
    enum portable_type type = portable_type(launch->in[0]->dtype);
    struct reduce_args r = reduce_of(launch, portable_number(launch->kernel));
    struct count_args args = {r};
    struct count_end_args end_args = {r};
    struct portable p = PORTABLE(count, count, type, args, r.teams * r.parts, reduce_work(&r));
    struct portable end = PORTABLE(count, count_end, type, end_args, reduce_ends(&r),
                                   reduce_ends_work(&r));
    enum bp_status status;

    portable_view(&p, launch->out[0]);
    reduce_partials(&p, launch, &r, 0);
    portable_view(&p, launch->in[0]);
    status = portable_run(launch, &p);
    if (status || r.parts == 1) return status;
    portable_view(&end, launch->out[0]);
    portable_workspace(&end, launch, 0);
    return portable_run(launch, &end);
}
