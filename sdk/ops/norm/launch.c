/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: plans and launches the kernels of kernel.h for normalisation and log_softmax. */
#include "kernel.h"
#include "launch_rows.h"
#include "../../dialect/portable.h"

#include <stdbool.h>

/* The kind of an operator: the number of its kernel row. */
enum norm_kind { KIND_layer, KIND_rms, KIND_group, KIND_batch, KIND_line };

/* An axis of x, and the strides of the operands along it. The axis of channels may be split in
 * two. */
struct axis {
    i64 extent, stride[NORM_SLOTS];
    bool inner; /* the terms of a group are along this axis */
    bool param; /* scale and bias have this axis */
};

struct axes {
    int n;
    struct axis at[NORM_AXES];
};

/* The kind of normalisation, and how it divides the axes. */
struct cut {
    enum norm_kind kind;
    int begin;  /* first normalised axis of rows; the axis of a line */
    i64 groups; /* number of groups of channels */
};

static struct cut cut_of(int number, const void *attrs, int rank)
{
    struct cut cut = {.kind = (enum norm_kind)number, .groups = 1};

    if (cut.kind == KIND_layer)
        cut.begin = portable_axis(((const struct bp_layer_norm_attrs *)attrs)->axis, rank);
    if (cut.kind == KIND_rms)
        cut.begin = portable_axis(((const struct bp_rms_norm_attrs *)attrs)->axis, rank);
    if (cut.kind == KIND_group) cut.groups = ((const struct bp_group_norm_attrs *)attrs)->groups;
    return cut;
}

/* Returns the axes of x. */
static struct axes axes_of(const struct bp_view *x, const struct cut *cut)
{
    bool rows = cut->kind == KIND_layer || cut->kind == KIND_rms, batch = cut->kind == KIND_batch;
    struct axes axes = {0};

    for (int i = 0; i < x->rank; i++) {
        struct axis *a = &axes.at[axes.n++];
        *a = (struct axis){.extent = x->shape[i], .stride = {x->stride[i]}};
        a->inner = rows ? i >= cut->begin : batch ? i != 1 : i > 1;
        if (cut->kind == KIND_line) a->inner = i == cut->begin;
        a->param = rows ? i >= cut->begin : i == 1;
        if (i != 1 || cut->kind != KIND_group) continue;
        axes.at[axes.n] = *a; /* the channels within a group */
        axes.at[axes.n].inner = true;
        axes.at[axes.n++].extent = x->shape[i] / cut->groups;
        a->extent = cut->groups;
        a->stride[NORM_X] *= x->shape[i] / cut->groups;
    }
    return axes;
}

/* Sets the strides of an operand that has the axes of x. */
static void like_x(struct axes *axes, int slot, const struct bp_view *view, const struct cut *cut)
{
    for (int i = 0, at = 0; view && i < view->rank; i++, at++) {
        axes->at[at].stride[slot] = view->stride[i];
        if (i != 1 || cut->kind != KIND_group) continue;
        axes->at[at].stride[slot] *= view->shape[i] / cut->groups;
        axes->at[++at].stride[slot] = view->stride[i];
    }
}

/* Sets the strides of an operand that has the axes of parameters: those of rows, or channels, which
 * may be split in two. */
static void like_params(struct axes *axes, int slot, const struct bp_view *view)
{
    for (int i = 0, at = 0; view && i < axes->n; i++) {
        if (!axes->at[i].param) continue;
        if (axes->at[i + 1].param && view->rank == 1 && i == 1) {
            axes->at[i].stride[slot] = view->stride[0] * axes->at[i + 1].extent;
            axes->at[i + 1].stride[slot] = view->stride[0];
            return;
        }
        axes->at[i].stride[slot] = view->stride[at++];
    }
}

/* Sets the strides of an operand with one number for each group. */
static void like_stats(struct axes *axes, int slot, const struct bp_view *view)
{
    for (int i = 0, at = 0; view && i < axes->n; i++)
        if (!axes->at[i].inner) axes->at[i].stride[slot] = view->stride[at++];
}

/* The stride of an operand with one number for each channel. */
static i64 step_of(const struct bp_view *view)
{
    return view ? view->stride[0] : 0;
}

/* As like_stats, for a contiguous operand. */
static void like_dense(struct axes *axes, int slot)
{
    i64 next = 1;

    for (int i = axes->n - 1; i >= 0; i--) {
        if (axes->at[i].inner) continue;
        axes->at[i].stride[slot] = next;
        next *= axes->at[i].extent;
    }
}

/* Appends the inner or the outer axes to a plan: those with the longest strides of `slot` first,
 * without axes of extent 1, neighbours joined where the strides of every operand allow it. Returns
 * the number of axes that it appended. */
static i64 norm_append(struct norm_plan *p, i64 first, const struct axes *axes, bool inner,
                       int slot)
{
    i64 n = first;
    bool taken[NORM_AXES] = {false};

    for (;;) {
        int best = -1;
        bool joins = n > first;
        for (int i = 0; i < axes->n; i++) {
            const struct axis *a = &axes->at[i];
            if (taken[i] || a->inner != inner || a->extent == 1) continue;
            if (best < 0 || a->stride[slot] > axes->at[best].stride[slot]) best = i;
        }
        if (best < 0) break;
        taken[best] = true;
        for (int s = 0; s < NORM_SLOTS && joins; s++)
            joins = p->stride[s][n - 1] == axes->at[best].stride[s] * axes->at[best].extent;
        if (joins) p->shape[n - 1] *= axes->at[best].extent;
        else p->shape[n++] = axes->at[best].extent;
        for (int s = 0; s < NORM_SLOTS; s++) p->stride[s][n - 1] = axes->at[best].stride[s];
    }
    if (n == first) p->shape[n++] = 1; /* a dummy axis, with strides 0 */
    return n - first;
}

static struct norm_plan plan_of(const struct axes *axes, double epsilon)
{
    struct norm_plan p = {.groups = 1, .terms = 1, .wide = 1, .centre = 1, .epsilon = epsilon};
    i64 length;

    while (p.slots < NORM_SLOTS) { /* counts up to the last operand with a stride other than 0 */
        bool any = false;
        for (int s = (int)p.slots; s < NORM_SLOTS; s++)
            for (int i = 0; i < axes->n; i++) any |= axes->at[i].stride[s] != 0;
        if (!any) break;
        p.slots++;
    }
    p.outer = norm_append(&p, 0, axes, false, NORM_X);
    p.inner = norm_append(&p, p.outer, axes, true, NORM_X);
    for (i64 i = 0; i < p.outer; i++) p.groups *= p.shape[i];
    for (i64 i = p.outer; i < p.outer + p.inner; i++) p.terms *= p.shape[i];
    length = p.shape[p.outer - 1];
    if (p.stride[NORM_X][p.outer - 1] == 1 && length > 1)
        p.wide = length < NORM_COLUMNS ? length : NORM_COLUMNS;
    p.blocks = (length + p.wide - 1) / p.wide;
    p.teams = length ? p.groups / length * p.blocks : 0;
    return p;
}

static double team_work(const struct norm_plan *p)
{
    return 4.0 * (double)p->terms * (double)p->wide + 16;
}

static double epsilon_of(enum norm_kind kind, const void *attrs)
{
    if (kind == KIND_layer) return ((const struct bp_layer_norm_attrs *)attrs)->epsilon;
    if (kind == KIND_rms) return ((const struct bp_rms_norm_attrs *)attrs)->epsilon;
    if (kind == KIND_group) return ((const struct bp_group_norm_attrs *)attrs)->epsilon;
    return ((const struct bp_batch_norm_train_attrs *)attrs)->epsilon;
}

/* Whether a plan is plain (norm_plan). */
static bool is_plain(const struct norm_plan *p, const struct bp_view *scale,
                     const struct bp_view *bias)
{
    return p->outer == 1 && p->inner == 1 && p->wide == 1 && !p->wide_params &&
           p->stride[NORM_X][1] == 1 && p->stride[NORM_Y][1] == 1 && (scale || !bias) &&
           (!scale || (p->stride[NORM_SCALE][1] == 1 && !p->stride[NORM_SCALE][0])) &&
           (!bias || (p->stride[NORM_BIAS][1] == 1 && !p->stride[NORM_BIAS][0]));
}

/* Inputs and outputs of a forward operator by name; NULL: absent. */
struct ports {
    const struct bp_view *x, *scale, *bias, *old_mean, *old_variance;
    const struct bp_view *y, *new_mean, *new_variance, *mean, *r;
};

static struct ports ports_of(const struct bp_launch *l, enum norm_kind kind)
{
    struct ports p = {.x = l->in[0], .scale = l->in[1], .y = l->out[0]};

    if (kind != KIND_rms) p.bias = l->in[2];
    if (kind == KIND_rms) p.r = l->out[1];
    if (kind == KIND_layer || kind == KIND_group) {
        p.mean = l->out[1];
        p.r = l->out[2];
    }
    if (kind != KIND_batch) return p;
    p.old_mean = l->in[3];
    p.old_variance = l->in[4];
    p.new_mean = l->out[1];
    p.new_variance = l->out[2];
    p.mean = l->out[3];
    p.r = l->out[4];
    return p;
}

static enum bp_status run_rows(const struct bp_launch *launch, const struct ports *v,
                               const struct normalize_rows_args *args, i64 groups)
{
    struct portable p = PORTABLE(norm, normalize_rows, portable_type(v->x->dtype), *args, groups,
                                 4.0 * (double)args->terms + 16);

    portable_view(&p, v->y);
    portable_view(&p, v->x);
    portable_view(&p, v->scale);
    portable_view(&p, v->bias);
    portable_view(&p, v->mean);
    portable_view(&p, v->r);
    return portable_run(launch, &p);
}

enum bp_status portable_normalize_groups(const struct bp_launch *launch)
{
    struct cut cut = cut_of(portable_number(launch->kernel), launch->attrs, launch->in[0]->rank);
    struct ports v = ports_of(launch, cut.kind);
    struct axes axes = axes_of(v.x, &cut);
    struct normalize_groups_args args;
    struct normalize_rows_args rows;

    like_x(&axes, NORM_Y, v.y, &cut);
    like_params(&axes, NORM_SCALE, v.scale);
    like_params(&axes, NORM_BIAS, v.bias);
    like_stats(&axes, NORM_MEAN, v.mean);
    like_stats(&axes, NORM_R, v.r);
    args.p = plan_of(&axes, epsilon_of(cut.kind, launch->attrs));
    args.p.centre = cut.kind != KIND_rms;
    args.p.wide_params = cut.kind == KIND_batch;
    args.p.plain = is_plain(&args.p, v.scale, v.bias);
    if (cut.kind != KIND_batch && portable_has_blocks(launch->self, launch->device) &&
        norm_rows(&args.p, v.scale, v.bias, portable_bytes(v.x->dtype), &rows))
        return run_rows(launch, &v, &rows, args.p.groups);
    if (cut.kind == KIND_batch) {
        const struct bp_batch_norm_train_attrs *a = launch->attrs;
        args.p.momentum = a->momentum;
        args.p.unbiased = a->unbiased;
        args.p.kept[NORM_OLD_MEAN] = step_of(v.old_mean);
        args.p.kept[NORM_OLD_VARIANCE] = step_of(v.old_variance);
        args.p.kept[NORM_NEW_MEAN] = step_of(v.new_mean);
        args.p.kept[NORM_NEW_VARIANCE] = step_of(v.new_variance);
    }
    struct portable p = PORTABLE(norm, normalize_groups, portable_type(v.x->dtype), args,
                                 args.p.teams, team_work(&args.p));
    portable_view(&p, v.y);
    portable_view(&p, v.x);
    portable_view(&p, v.scale);
    portable_view(&p, v.bias);
    portable_view(&p, v.mean);
    portable_view(&p, v.r);
    portable_view(&p, v.old_mean);
    portable_view(&p, v.old_variance);
    portable_view(&p, v.new_mean);
    portable_view(&p, v.new_variance);
    return portable_run(launch, &p);
}

/* Normalises with given statistics: lines along the axis where y is contiguous, numbered by all
 * other axes. */
enum bp_status portable_normalize_given(const struct bp_launch *launch)
{
    const struct bp_batch_norm_attrs *attrs = launch->attrs;
    const struct bp_view *const *in = launch->in, *y = launch->out[0];
    struct cut cut = {.kind = KIND_batch, .groups = 1};
    struct axes axes = axes_of(in[0], &cut);
    struct normalize_given_args args = {
        .p = {.wide = 1, .slots = NORM_SLOTS, .epsilon = attrs->epsilon}};
    struct norm_plan *p = &args.p;

    for (int i = 0; i < axes.n; i++) axes.at[i].inner = true;
    like_x(&axes, NORM_Y, y, &cut);
    like_params(&axes, NORM_SCALE, in[1]);
    like_params(&axes, NORM_BIAS, in[2]);
    like_params(&axes, NORM_MEAN, in[3]);
    like_params(&axes, NORM_R, in[4]);
    p->outer = norm_append(p, 0, &axes, true, NORM_Y) - 1;
    p->inner = 1;
    if (!p->outer) { /* y is one line */
        p->shape[1] = p->shape[0];
        p->shape[0] = 1;
        for (int s = 0; s < NORM_SLOTS; s++) {
            p->stride[s][1] = p->stride[s][0];
            p->stride[s][0] = 0;
        }
        p->outer = 1;
    }
    p->blocks = p->shape[p->outer - 1];
    struct portable run = PORTABLE(norm, normalize_given, portable_type(y->dtype), args, y->count,
                                   2);
    portable_view(&run, y);
    for (int i = 0; i < 5; i++) portable_view(&run, in[i]);
    return portable_run(launch, &run);
}

/* The number of groups: where gradients of parameters are wanted, the workspace has mean and r for
 * each group. */
static i64 groups_of(const struct axes *axes)
{
    i64 n = 1;

    for (int i = 0; i < axes->n; i++)
        if (!axes->at[i].inner) n *= axes->at[i].extent;
    return n;
}

/* Whether a call has the statistics that the forward saved; in cores of ABI 0.7 no gradient has
 * inputs for them. */
static bool grad_has_stats(uint32_t n_in, const struct bp_view *const *in)
{
    return n_in > 3 && in[3];
}

enum bp_status portable_normalize_grad_prepare(void *self, const struct bp_prep *prep,
                                               struct bp_plan *out)
{
    int number = portable_number(prep->kernel);
    struct cut cut = cut_of(number, prep->attrs, prep->in[0]->rank);
    struct axes axes = axes_of(prep->in[0], &cut);
    bool any = false;

    (void)self;
    for (uint32_t i = 1; i < prep->n_out; i++) any |= prep->out[i] != NULL;
    any &= !grad_has_stats(prep->n_in, prep->in);
    return portable_needs(out, any ? 16 * groups_of(&axes) : 0);
}

/* Adds the operands mean and r of each group: saved ones, which are inputs from 3 on, or, where the
 * gradients of parameters are wanted, the workspace. */
static void grad_stats(struct portable *p, const struct bp_launch *launch, bool any, i64 groups)
{
    bool saved = grad_has_stats(launch->n_in, launch->in);
    bool centred = launch->n_in > 4; /* else it is rms_norm */

    if (saved || !any) {
        portable_view(p, saved && centred ? launch->in[3] : NULL);
        portable_view(p, saved ? launch->in[centred ? 4 : 3] : NULL);
    } else {
        portable_workspace(p, launch, 0);
        portable_workspace(p, launch, 8 * (size_t)groups);
    }
}

/* Computes gradients of parameters: the elements that share a parameter are a group. */
static enum bp_status params_grad(const struct bp_launch *launch, struct axes *axes,
                                  bool wide_params)
{
    const struct bp_view *dscale = launch->out[1],
                         *dbias = launch->n_out > 2 ? launch->out[2] : NULL;
    enum portable_type type = portable_type(launch->in[0]->dtype);
    i64 groups = groups_of(axes);
    struct normalize_params_args args;

    for (int i = 0; i < axes->n; i++)
        axes->at[i].stride[NORM_SCALE] = axes->at[i].stride[NORM_BIAS] = 0;
    like_params(axes, NORM_SCALE, dscale);
    like_params(axes, NORM_BIAS, dbias);
    for (int i = 0; i < axes->n; i++) axes->at[i].inner = !axes->at[i].param;
    args.p = plan_of(axes, 0);
    args.p.wide_params = wide_params;
    struct portable p = PORTABLE(norm, normalize_params, type, args, args.p.teams,
                                 team_work(&args.p));
    portable_view(&p, dscale);
    portable_view(&p, dbias);
    portable_view(&p, launch->in[0]);
    portable_view(&p, launch->in[2]);
    grad_stats(&p, launch, true, groups);
    return portable_run(launch, &p);
}

enum bp_status portable_normalize_grad(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *scale = launch->in[1], *dy = launch->in[2];
    struct cut cut = cut_of(portable_number(launch->kernel), launch->attrs, x->rank);
    bool any = launch->out[1] || (launch->n_out > 2 && launch->out[2]);
    struct axes axes = axes_of(x, &cut);
    struct normalize_grad_args args;
    enum bp_status status;

    like_x(&axes, NORM_Y, launch->out[0], &cut);
    like_x(&axes, NORM_DY, dy, &cut);
    like_params(&axes, NORM_SCALE, scale);
    if (grad_has_stats(launch->n_in, launch->in)) {
        like_stats(&axes, NORM_MEAN, cut.kind == KIND_rms ? NULL : launch->in[3]);
        like_stats(&axes, NORM_R, launch->in[cut.kind == KIND_rms ? 3 : 4]);
    } else {
        like_dense(&axes, NORM_MEAN);
        like_dense(&axes, NORM_R);
    }
    args.p = plan_of(&axes, cut.kind == KIND_batch
                                ? ((const struct bp_batch_norm_grad_attrs *)launch->attrs)->epsilon
                                : epsilon_of(cut.kind, launch->attrs));
    args.p.centre = cut.kind != KIND_rms;
    args.p.wide_params = cut.kind == KIND_batch;
    args.p.saved = grad_has_stats(launch->n_in, launch->in);
    struct portable p = PORTABLE(norm, normalize_grad, portable_type(x->dtype), args, args.p.teams,
                                 2 * team_work(&args.p));
    portable_view(&p, launch->out[0]);
    portable_view(&p, x);
    portable_view(&p, scale);
    portable_view(&p, dy);
    grad_stats(&p, launch, any, groups_of(&axes));
    status = portable_run(launch, &p);
    return status || !any ? status : params_grad(launch, &axes, cut.kind == KIND_batch);
}

/* Plans log_softmax: a line along its axis is a group. */
static struct norm_plan norm_lines(const struct bp_launch *launch, const struct bp_view *dy)
{
    const struct bp_log_softmax_attrs *a = launch->attrs; /* log_softmax_grad has this layout too */
    const struct bp_view *x = launch->in[0];
    struct cut cut = {.kind = KIND_line, .begin = portable_axis(a->axis, x->rank), .groups = 1};
    struct axes axes = axes_of(x, &cut);

    like_x(&axes, NORM_Y, launch->out[0], &cut);
    like_x(&axes, NORM_DY, dy, &cut);
    return plan_of(&axes, 0);
}

enum bp_status portable_log_softmax(const struct bp_launch *launch)
{
    struct log_softmax_args args = {norm_lines(launch, NULL)};
    struct portable p = PORTABLE(norm, log_softmax, portable_type(launch->in[0]->dtype), args,
                                 args.p.teams, 2 * team_work(&args.p));

    portable_view(&p, launch->out[0]);
    portable_view(&p, launch->in[0]);
    return portable_run(launch, &p);
}

enum bp_status portable_log_softmax_grad(const struct bp_launch *launch)
{
    struct log_softmax_grad_args args = {norm_lines(launch, launch->in[1])};
    struct portable p = PORTABLE(norm, log_softmax_grad, portable_type(launch->in[0]->dtype), args,
                                 args.p.teams, 2 * team_work(&args.p));

    portable_view(&p, launch->out[0]);
    portable_view(&p, launch->in[0]);
    portable_view(&p, launch->in[1]);
    return portable_run(launch, &p);
}
