/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for reductions. */
#include "kernel.h"
#include "../common/launch_reduce.h"

#include <math.h>

/* Reduces x to y; partial results are at the beginning of the workspace. shift may be absent. */
static enum bp_status reduce_launch(const struct bp_launch *launch, const struct reduce_args *r,
                                    struct portable_operand shift)
{
    enum portable_type type = portable_type(launch->in[0]->dtype);
    struct reduce_terms_args args = {*r};
    struct reduce_partials_args end_args = {*r};
    double cost = r->op == REDUCE_power ? 32 : r->op == REDUCE_exp ? 8 : 1;
    struct portable p = PORTABLE(reduce, reduce_terms, type, args, r->teams * r->parts,
                                 cost * reduce_work(r));
    struct portable end = PORTABLE(reduce, reduce_partials, type, end_args, reduce_ends(r),
                                   reduce_ends_work(r));
    enum bp_status status;

    portable_view(&p, launch->out[0]);
    reduce_partials(&p, launch, r, 0);
    portable_view(&p, launch->in[0]);
    p.operand[p.n_operand++] = shift;
    status = portable_run(launch, &p);
    if (status || r->parts == 1) return status;
    portable_view(&end, launch->out[0]);
    portable_workspace(&end, launch, 0);
    end.operand[end.n_operand++] = shift;
    return portable_run(launch, &end);
}

enum bp_status portable_reduce_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    (void)self;
    return reduce_prepare(prep, out);
}

enum bp_status portable_reduce(const struct bp_launch *launch)
{
    struct reduce_args r = reduce_of(launch, portable_number(launch->kernel));

    return reduce_launch(launch, &r, (struct portable_operand){NULL, NULL});
}

/* Offset of the largest terms in the workspace: after the partial results. */
static size_t largest_at(const struct reduce_args *r)
{
    return (size_t)reduce_partial(r);
}

enum bp_status portable_logsumexp_prepare(void *self, const struct bp_prep *prep,
                                          struct bp_plan *out)
{
    const struct bp_view *x = prep->in[0];
    struct reduce_args r = reduce_plan(x, reduce_goes(prep->attrs, x->rank), REDUCE_exp);

    (void)self;
    return portable_needs(out, (int64_t)largest_at(&r) + r.outputs * 8 + 8);
}

enum bp_status portable_logsumexp(const struct bp_launch *launch)
{
    struct reduce_args r = reduce_of(launch, REDUCE_exp), largest = r;
    struct portable_operand shift = {(char *)launch->workspace + largest_at(&r),
                                     launch->workspace_memory};
    enum bp_status status;

    largest.op = MINMAX_max;
    status = reduce_minmax(launch, &largest, 0, shift);
    return status ? status : reduce_launch(launch, &r, shift);
}

static int64_t op_of_norm(double p)
{
    if (p == 0) return REDUCE_count;
    if (p == 1) return REDUCE_abs;
    if (p == 2) return REDUCE_square;
    if (isinf(p)) return p > 0 ? REDUCE_largest : REDUCE_smallest;
    return REDUCE_power;
}

enum bp_status portable_norm_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    (void)self;
    return reduce_prepare(prep, out);
}

enum bp_status portable_norm(const struct bp_launch *launch)
{
    const struct bp_norm_attrs *attrs = launch->attrs;
    struct reduce_args r = reduce_of(launch, op_of_norm(attrs->p));

    r.p = attrs->p;
    return reduce_launch(launch, &r, (struct portable_operand){NULL, NULL});
}

static void reduce_repeat(const struct bp_view *of, const struct bp_view *x, i64 *stride)
{
    i64 next = 1;

    for (int i = x->rank - 1, from = of->rank - 1; i >= 0; i--, from--) {
        i64 extent = from >= 0 ? of->shape[from] : 1;
        stride[i] = extent == 1 ? 0 : next;
        next *= extent;
    }
}

enum bp_status portable_norm_grad(const struct bp_launch *launch)
{
    const struct bp_norm_grad_attrs *attrs = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct norm_grad_args args = {.rank = x->rank ? x->rank : 1, .shape = {1}, .p = attrs->p};
    struct portable p = PORTABLE(reduce, norm_grad, portable_type(x->dtype), args, x->count,
                                 attrs->p == 1 || attrs->p == 2 ? 2 : 32);

    for (int i = 0; i < x->rank; i++) args.shape[i] = x->shape[i];
    reduce_repeat(launch->in[1], x, args.y_stride);
    reduce_repeat(launch->in[2], x, args.dy_stride);
    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    portable_view(&p, launch->in[1]);
    portable_view(&p, launch->in[2]);
    return portable_run(launch, &p);
}
