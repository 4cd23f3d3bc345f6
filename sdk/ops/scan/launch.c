/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches of the kernels of kernel.h. */
#include "../common/launch_reduce.h"
#include "kernel.h"

/* The attributes of all three are one layout. */
enum bp_status portable_scan(const struct bp_launch *launch)
{
    const struct bp_cumsum_attrs *attrs = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct portable_split s = portable_split(x, portable_axis(attrs->axis, x->rank));
    struct scan_args args = {portable_number(launch->kernel), s.extent, s.inner, attrs->exclusive,
                             attrs->reverse};
    double cost = args.op == SCAN_exp ? 32 : 2;
    struct portable p = PORTABLE(scan, scan, portable_type(x->dtype), args,
                                 s.extent ? s.outer * s.inner : 0,
                                 reduce_line_work(cost * (double)s.extent, s.inner));

    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_linear_scan(const struct bp_launch *launch)
{
    const struct bp_linear_scan_attrs *attrs = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct portable_split s = portable_split(x, portable_axis(attrs->axis, x->rank));
    struct linear_scan_args args = {s.extent, s.inner, attrs->reverse, attrs->shift};
    struct portable p = PORTABLE(scan, linear_scan, portable_type(x->dtype), args,
                                 s.extent ? s.outer * s.inner : 0,
                                 reduce_line_work(2 * (double)s.extent, s.inner));

    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    portable_view(&p, launch->in[1]);
    return portable_run(launch, &p);
}
