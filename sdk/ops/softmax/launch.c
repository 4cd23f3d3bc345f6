/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for softmax and its gradient. */
#include "kernel.h"
#include "../../dialect/portable.h"

enum { BESIDE = 16 }; /* from this many neighbouring lines on, each lane computes a line */

/* The lines of x; *count: their number. */
static struct softmax_args softmax_lines(const struct bp_view *x, int64_t axis, int64_t *count)
{
    struct portable_split s = {1, 1, 1};

    if (x->rank) s = portable_split(x, portable_axis(axis, x->rank));
    *count = s.extent ? s.outer * s.inner : 0;
    return (struct softmax_args){s.extent, s.inner};
}

enum bp_status portable_softmax(const struct bp_launch *launch)
{
    const struct bp_softmax_attrs *attrs = launch->attrs;
    enum portable_type type = portable_type(launch->in[0]->dtype);
    int64_t count;
    struct softmax_args args = softmax_lines(launch->in[0], attrs->axis, &count);
    struct softmax_columns_args columns = {args.extent, args.inner};
    double work = 8 * (double)args.extent;
    struct portable p = PORTABLE(softmax, softmax, type, args, count, work);

    if (args.inner >= BESIDE)
        p = (struct portable)PORTABLE(softmax, softmax_columns, type, columns, count, work);
    portable_view(&p, launch->out[0]);
    portable_view(&p, launch->in[0]);
    return portable_run(launch, &p);
}

enum bp_status portable_softmax_grad(const struct bp_launch *launch)
{
    const struct bp_softmax_grad_attrs *attrs = launch->attrs;
    enum portable_type type = portable_type(launch->in[0]->dtype);
    int64_t count;
    struct softmax_args a = softmax_lines(launch->in[0], attrs->axis, &count);
    struct softmax_grad_args args = {a.extent, a.inner};
    struct softmax_grad_columns_args columns = {a.extent, a.inner};
    double work = 3 * (double)a.extent;
    struct portable p = PORTABLE(softmax, softmax_grad, type, args, count, work);

    if (a.inner >= BESIDE)
        p = (struct portable)PORTABLE(softmax, softmax_grad_columns, type, columns, count, work);
    portable_view(&p, launch->out[0]);
    portable_view(&p, launch->in[0]);
    portable_view(&p, launch->in[1]);
    return portable_run(launch, &p);
}
