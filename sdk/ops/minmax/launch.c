/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for max, min, argmax, argmin, cummax and cummin. */
#include "kernel.h"
#include "../common/launch_reduce.h"

enum bp_status reduce_minmax(const struct bp_launch *launch, const struct reduce_args *a,
                             size_t partial, struct portable_operand y)
{
    enum portable_type type = portable_type(launch->in[0]->dtype);
    struct minmax_args args = {*a};
    struct minmax_end_args end_args = {*a};
    struct portable p = PORTABLE(minmax, minmax, type, args, a->teams * a->parts, reduce_work(a));
    struct portable end = PORTABLE(minmax, minmax_end, type, end_args, reduce_ends(a),
                                   reduce_ends_work(a));
    enum bp_status status;

    p.operand[p.n_operand++] = y;
    reduce_partials(&p, launch, a, partial);
    portable_view(&p, launch->in[0]);
    status = portable_run(launch, &p);
    if (status || a->parts == 1) return status;
    end.operand[end.n_operand++] = y;
    portable_workspace(&end, launch, partial);
    return portable_run(launch, &end);
}

enum bp_status portable_minmax_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    (void)self;
    return reduce_prepare(prep, out);
}

enum bp_status portable_minmax(const struct bp_launch *launch)
{
    struct reduce_args a = reduce_of(launch, portable_number(launch->kernel));

    return reduce_minmax(launch, &a, 0,
                         (struct portable_operand){launch->out[0]->data, launch->out[0]->memory});
}

/* argmax and argmin share one layout of attributes. */
static struct reduce_args arg_plan(const struct bp_argmax_attrs *attrs, const struct bp_view *x,
                                   int64_t op)
{
    uint64_t goes = attrs->flatten ? ~UINT64_C(0)
                                   : UINT64_C(1) << portable_axis(attrs->axis, x->rank);
    struct reduce_args a = reduce_plan(x, goes, op);

    a.index_wide = attrs->dtype == BP_I64;
    return a;
}

enum bp_status portable_arg_minmax_prepare(void *self, const struct bp_prep *prep,
                                           struct bp_plan *out)
{
    struct reduce_args a = arg_plan(prep->attrs, prep->in[0], 0);

    (void)self;
    return portable_needs(out, reduce_partial(&a));
}

/* The partial results are two arrays in the workspace: keys in the first half, indices in the
 * second. */
enum bp_status portable_arg_minmax(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0];
    struct reduce_args a = arg_plan(launch->attrs, x, portable_number(launch->kernel));
    struct arg_minmax_args args = {a};
    struct arg_minmax_end_args end_args = {a};
    size_t places = (size_t)reduce_partial(&a) / 2;
    struct portable p = PORTABLE(minmax, arg_minmax, portable_type(x->dtype), args,
                                 a.teams * a.parts, 2 * reduce_work(&a));
    struct portable end = PORTABLE(minmax, arg_minmax_end, portable_type(x->dtype), end_args,
                                   reduce_ends(&a), reduce_ends_work(&a));
    enum bp_status status;

    portable_view(&p, launch->out[0]);
    reduce_partials(&p, launch, &a, 0);
    reduce_partials(&p, launch, &a, places);
    portable_view(&p, x);
    status = portable_run(launch, &p);
    if (status || a.parts == 1) return status;
    portable_view(&end, launch->out[0]);
    portable_workspace(&end, launch, 0);
    portable_workspace(&end, launch, places);
    return portable_run(launch, &end);
}

enum bp_status portable_cumulative(const struct bp_launch *launch)
{
    const struct bp_cummax_attrs *attrs = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct portable_split s = portable_split(x, portable_axis(attrs->axis, x->rank));
    struct cumulative_args args = {portable_number(launch->kernel), s.extent, s.inner,
                                   attrs->dtype == BP_I64};
    struct portable p = PORTABLE(minmax, cumulative, portable_type(x->dtype), args,
                                 s.extent ? s.outer * s.inner : 0,
                                 reduce_line_work(4 * (double)s.extent, s.inner));

    portable_view(&p, launch->out[0]);
    portable_view(&p, launch->out[1]);
    portable_view(&p, x);
    return portable_run(launch, &p);
}
