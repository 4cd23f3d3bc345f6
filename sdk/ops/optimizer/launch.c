/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for optimizer steps. An updated tensor is passed once,
 * as the input that it updates. */
#include "../../dialect/portable.h"
#include "kernel.h"

#include <stdbool.h>

/* Input numbers of the states and of the powers of a step; 0: absent. */
struct optimizer_ports {
    int kept[3], power[2];
};

static struct optimizer_args of_adam(const struct bp_adam_attrs *a, int64_t op)
{
    return (struct optimizer_args){.op = op,
                              .beta1 = (real)a->beta1, .beta2 = (real)a->beta2,
                              .rest1 = (real)(1 - a->beta1), .rest2 = (real)(1 - a->beta2),
                              .epsilon = (real)a->epsilon,
                              .decay = (real)a->decay};
}

static struct optimizer_args of_rho(double rho, double epsilon, double momentum, int64_t op)
{
    return (struct optimizer_args){.op = op,
                              .beta1 = (real)rho,
                              .rest1 = (real)(1 - rho),
                              .epsilon = (real)epsilon,
                              .momentum = (real)momentum};
}

/* adam, adamw and lamb have the same layout of attributes. */
static struct optimizer_args numbers_of(const struct bp_launch *launch, int64_t op)
{
    const struct bp_momentum_attrs *momentum = launch->attrs;
    const struct bp_adamax_attrs *adamax = launch->attrs;
    const struct bp_adadelta_attrs *adadelta = launch->attrs;
    const struct bp_rmsprop_attrs *rmsprop = launch->attrs;
    const struct bp_lars_momentum_attrs *lars = launch->attrs;
    const struct bp_adagrad_attrs *adagrad = launch->attrs;

    switch (op) {
    case OPTIMIZER_momentum:
        return (struct optimizer_args){.op = op,
                                  .nesterov = momentum->nesterov,
                                  .decay = (real)momentum->l2,
                                  .momentum = (real)momentum->momentum};
    case OPTIMIZER_adamax:
        return (struct optimizer_args){.op = op,
                                  .beta1 = (real)adamax->beta1, .beta2 = (real)adamax->beta2,
                                  .rest1 = (real)(1 - adamax->beta1),
                                  .epsilon = (real)adamax->epsilon};
    case OPTIMIZER_adagrad:
        return (struct optimizer_args){.op = op, .epsilon = (real)adagrad->epsilon};
    case OPTIMIZER_adadelta: return of_rho(adadelta->rho, adadelta->epsilon, 0, op);
    case OPTIMIZER_rmsprop: return of_rho(rmsprop->rho, rmsprop->epsilon, rmsprop->momentum, op);
    case OPTIMIZER_lars:
        return (struct optimizer_args){.op = op,
                                  .epsilon = (real)lars->epsilon,
                                  .decay = (real)lars->decay,
                                  .momentum = (real)lars->momentum,
                                  .coefficient = (real)lars->coefficient};
    default: return of_adam(launch->attrs, op);
    }
}

static struct optimizer_ports ports_of(int64_t op)
{
    switch (op) {
    case OPTIMIZER_adam:
    case OPTIMIZER_adamw: return (struct optimizer_ports){{3, 4, 7}, {5, 6}};
    case OPTIMIZER_lamb:
    case OPTIMIZER_moments: return (struct optimizer_ports){{3, 4}, {5, 6}};
    case OPTIMIZER_adamax: return (struct optimizer_ports){{3, 4}, {5}};
    case OPTIMIZER_adadelta: return (struct optimizer_ports){{3, 4}, {0}};
    case OPTIMIZER_rmsprop: return (struct optimizer_ports){{3, 4, 5}, {0}};
    default: return (struct optimizer_ports){{3}, {0}};
    }
}

static void optimizer_operand(struct portable *p, const struct bp_launch *launch, int at)
{
    portable_view(p, at ? launch->in[at] : NULL);
}

/* norm: the workspace begins with a factor for the learning rate. */
static enum bp_status run_optimizer(const struct bp_launch *launch, int64_t op, bool norm)
{
    const struct bp_view *param = launch->in[0];
    struct optimizer_args args = numbers_of(launch, op);
    struct optimizer_ports at = ports_of(op);
    struct portable p =
        PORTABLE(optimizer, optimizer_step, portable_type(param->dtype), args, param->count, 4);

    portable_view(&p, param);
    portable_view(&p, launch->in[1]);
    for (int i = 0; i < 3; i++) optimizer_operand(&p, launch, at.kept[i]);
    portable_view(&p, launch->in[2]);
    for (int i = 0; i < 2; i++) optimizer_operand(&p, launch, at.power[i]);
    if (norm) portable_workspace(&p, launch, 0);
    else portable_view(&p, NULL);
    return portable_run(launch, &p);
}

/* Updates the powers, after all kernels of this step have read them. */
static enum bp_status run_powers(const struct bp_launch *launch, int64_t op)
{
    struct optimizer_args s = numbers_of(launch, op);
    struct optimizer_ports at = ports_of(op);
    struct optimizer_powers_args args = {s.beta1, s.beta2};
    struct portable p = PORTABLE(optimizer, optimizer_powers, portable_type(launch->in[0]->dtype),
                                 args, 1, 1);

    if (!at.power[0]) return BP_OK;
    for (int i = 0; i < 2; i++) optimizer_operand(&p, launch, at.power[i]);
    return portable_run(launch, &p);
}

enum bp_status portable_optimizer(const struct bp_launch *launch)
{
    int op = portable_number(launch->kernel);
    enum bp_status status = run_optimizer(launch, op, false);

    return status ? status : run_powers(launch, op);
}

static int64_t optimizer_parts_of(const struct bp_view *param)
{
    return (param->count + OPTIMIZER_PART - 1) / OPTIMIZER_PART;
}

/* Offset of the partial sums in the workspace: the factor is before them, in room for two
 * numbers. */
enum {
    FACTOR = 16
};

enum bp_status portable_optimizer_norms_prepare(void *self, const struct bp_prep *prep,
                                                struct bp_plan *out)
{
    (void)self;
    return portable_needs(out, FACTOR + 2 * 8 * optimizer_parts_of(prep->in[0]));
}

static enum bp_status run_norms(const struct bp_launch *launch, int64_t op)
{
    const struct bp_view *param = launch->in[0];
    struct optimizer_norms_args args = {numbers_of(launch, op), param->count,
                                        optimizer_parts_of(param)};
    struct optimizer_ports at = ports_of(op);
    struct portable sums = PORTABLE(optimizer, optimizer_norms, portable_type(param->dtype), args,
                                    args.parts, 4 * OPTIMIZER_PART);
    struct optimizer_factor_args factor_args = {args};
    struct portable factor = PORTABLE(optimizer, optimizer_factor, portable_type(param->dtype),
                                      factor_args, 1, 1);
    enum bp_status status;

    portable_workspace(&sums, launch, FACTOR);
    portable_view(&sums, param);
    portable_view(&sums, launch->in[1]);
    for (int i = 0; i < 2; i++) optimizer_operand(&sums, launch, at.kept[i]);
    portable_view(&sums, launch->in[2]);
    for (int i = 0; i < 2; i++) optimizer_operand(&sums, launch, at.power[i]);
    status = portable_run(launch, &sums);
    portable_workspace(&factor, launch, 0);
    portable_workspace(&factor, launch, FACTOR);
    return status ? status : portable_run(launch, &factor);
}

/* lamb updates its moments first, because it needs the norm of the update that they define. */
enum bp_status portable_optimizer_norms(const struct bp_launch *launch)
{
    int op = portable_number(launch->kernel);
    enum bp_status status = op == OPTIMIZER_lamb ? run_optimizer(launch, OPTIMIZER_moments, false)
                                                 : BP_OK;

    if (status == BP_OK) status = run_norms(launch, op);
    if (status == BP_OK) status = run_optimizer(launch, op, true);
    return status ? status : run_powers(launch, op);
}

static enum bp_status optimizer_unscale(const struct bp_launch *launch, struct unscale_args args,
                                        uint32_t i)
{
    const struct bp_view *x = launch->in[1 + i];
    struct portable p = PORTABLE(optimizer, unscale, portable_type(x->dtype), args,
                                 args.begin ? 1 : x->count, 2);

    portable_view(&p, launch->out[0]);
    portable_view(&p, launch->out[1 + i]);
    portable_view(&p, x);
    portable_view(&p, launch->in[0]);
    return portable_run(launch, &p);
}

enum bp_status portable_unscale(const struct bp_launch *launch)
{
    enum bp_status status = optimizer_unscale(launch, (struct unscale_args){1}, 0);

    for (uint32_t i = 0; i + 1 < launch->n_in && status == BP_OK; i++)
        status = optimizer_unscale(launch, (struct unscale_args){0}, i);
    return status;
}

enum bp_status portable_loss_scale(const struct bp_launch *launch)
{
    const struct bp_update_loss_scaling_attrs *a = launch->attrs;
    struct loss_scale_args args = {a->grow_after, a->shrink_after, (real)a->grow, (real)a->shrink};
    struct portable p = PORTABLE(optimizer, loss_scale, portable_type(launch->in[0]->dtype), args,
                                 1, 1);

    portable_view(&p, launch->in[0]);
    portable_view(&p, launch->in[2]);
    portable_view(&p, launch->in[3]);
    portable_view(&p, launch->in[1]);
    return portable_run(launch, &p);
}
