/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for random numbers of distributions. */
#include "kernel.h"
#include "launch.h"

#include <math.h>

/* All attribute structs begin with shape and dtype; up to four numbers follow. */
static struct draw_args random_drawn(const struct bp_launch *launch)
{
    struct draw_args a = {.from = random_source(launch),
                          .n = launch->out[0]->count,
                          .op = portable_number(launch->kernel)};

    if (a.op == DRAW_normal) {
        const struct bp_normal_attrs *attrs = launch->attrs;
        a.a = (real)attrs->mean;
        a.b = (real)attrs->std;
    } else if (a.op == DRAW_exponential) {
        const struct bp_exponential_attrs *attrs = launch->attrs;
        a.a = (real)attrs->rate;
    } else {
        const struct bp_truncated_normal_attrs *attrs = launch->attrs;
        double base = erf(attrs->low / sqrt(2)), end = erf(attrs->high / sqrt(2));
        a.a = (real)attrs->mean;
        a.b = (real)attrs->std;
        a.c = (real)attrs->low;
        a.d = (real)attrs->high;
        a.base = (real)base;
        a.width = (real)(end - base);
    }
    return a;
}

enum bp_status portable_draw(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0];
    struct draw_args args = random_drawn(launch);
    struct portable p = PORTABLE(random, draw, portable_type(y->dtype), args, random_blocks(y), 64);

    portable_view(&p, y);
    random_operand(&p, launch);
    return portable_run(launch, &p);
}

enum bp_status portable_bernoulli(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0];
    struct bernoulli_args args = {random_source(launch), y->count};
    struct portable p = PORTABLE(random, bernoulli, portable_type(y->dtype), args, random_blocks(y),
                                 24);

    portable_view(&p, y);
    portable_view(&p, launch->in[0]);
    random_operand(&p, launch);
    return portable_run(launch, &p);
}

/* The factor for elements that are kept. The attributes of dropout and of its gradient have one
 * layout. */
static double dropout_factor(const struct bp_dropout_attrs *a)
{
    if (a->training) return a->mode ? 1 : a->p < 1 ? 1 / (1 - a->p) : 0;
    return a->mode ? 1 - a->p : 1;
}

enum bp_status portable_dropout(const struct bp_launch *launch)
{
    const struct bp_dropout_attrs *attrs = launch->attrs;
    const struct bp_view *y = launch->out[0];
    struct dropout_args args = {random_source(launch), y->count,
                                attrs->training ? (int64_t)ceil(attrs->p * 0x1p24) : 0,
                                (real)dropout_factor(attrs)};
    struct portable p = PORTABLE(random, dropout, portable_type(y->dtype), args, random_blocks(y),
                                 28);

    portable_view(&p, y);
    portable_view(&p, launch->out[1]);
    portable_view(&p, launch->in[0]);
    random_operand(&p, launch);
    return portable_run(launch, &p);
}

enum bp_status portable_dropout_grad(const struct bp_launch *launch)
{
    const struct bp_view *dx = launch->out[0];
    struct dropout_grad_args args = {(real)dropout_factor(launch->attrs)};
    struct portable p = PORTABLE(random, dropout_grad, portable_type(dx->dtype), args, dx->count,
                                 1);

    portable_view(&p, dx);
    portable_view(&p, launch->in[0]);
    portable_view(&p, launch->in[1]);
    return portable_run(launch, &p);
}

enum bp_status portable_poisson(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0];
    struct poisson_args args = {random_source(launch)};
    struct portable p = PORTABLE(random, poisson, portable_type(y->dtype), args, y->count, 200);

    portable_view(&p, y);
    portable_view(&p, launch->in[0]);
    random_operand(&p, launch);
    return portable_run(launch, &p);
}

/* The workspace has the weights, in the type of the computation. */
enum bp_status portable_multinomial_prepare(void *self, const struct bp_prep *prep,
                                            struct bp_plan *out)
{
    const struct bp_view *x = prep->in[0];

    (void)self;
    return portable_needs(out, x->count * (x->dtype == BP_F64 ? 8 : 4));
}

enum bp_status portable_multinomial(const struct bp_launch *launch)
{
    const struct bp_multinomial_attrs *attrs = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct portable_split s = portable_split(x, x->rank - 1);
    struct multinomial_args args = {random_source(launch), attrs->n, s.extent, attrs->replacement};
    struct portable p = PORTABLE(random, multinomial, portable_type(x->dtype), args, s.outer,
                                 (double)s.extent *
                                     (attrs->replacement ? 3 : 2 * (double)attrs->n));

    portable_view(&p, launch->out[0]);
    portable_workspace(&p, launch, 0);
    portable_view(&p, x);
    portable_fault(&p, launch);
    random_operand(&p, launch);
    return portable_run(launch, &p);
}
