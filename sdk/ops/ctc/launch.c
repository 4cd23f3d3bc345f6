/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the CTC kernels of kernel.h. */
#include "kernel.h"
#include "../../dialect/portable.h"

static struct ctc_lines_args ctc_args(const struct bp_view *const *in, const void *attrs, int grad)
{
    const struct bp_ctc_lines_attrs *a = attrs; /* the gradient's have one layout */
    const struct bp_view *x = in[0], *label = in[1];
    struct ctc_lines_args args = {x->shape[0],
                                  x->shape[1],
                                  x->shape[2],
                                  label->shape[1],
                                  label->dtype == BP_I64,
                                  a->blank,
                                  0};
    int64_t states = 2 * args.labels + 1;

    args.room = grad ? (args.steps + 2) * states + args.classes : 2 * states;
    return args;
}

static int64_t ctc_bytes(const struct ctc_lines_args *a, const struct bp_view *x)
{
    return a->lines * a->room * (x->dtype == BP_F64 ? 8 : 4);
}

enum bp_status portable_ctc_lines_prepare(void *self, const struct bp_prep *prep,
                                          struct bp_plan *out)
{
    struct ctc_lines_args args = ctc_args(prep->in, prep->attrs, 0);

    (void)self;
    return portable_needs(out, ctc_bytes(&args, prep->in[0]));
}

enum bp_status portable_ctc_lines_grad_prepare(void *self, const struct bp_prep *prep,
                                               struct bp_plan *out)
{
    struct ctc_lines_args args = ctc_args(prep->in, prep->attrs, 1);

    (void)self;
    return portable_needs(out, ctc_bytes(&args, prep->in[0]));
}

enum bp_status portable_ctc_lines(const struct bp_launch *launch)
{
    struct ctc_lines_args args = ctc_args(launch->in, launch->attrs, 0);
    struct portable p = PORTABLE(ctc, ctc_lines, portable_type(launch->in[0]->dtype), args,
                                 args.lines, 50.0 * (double)(args.steps * (2 * args.labels + 1)));

    portable_view(&p, launch->out[0]);
    for (int i = 0; i < 4; i++) portable_view(&p, launch->in[i]);
    portable_workspace(&p, launch, 0);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}

enum bp_status portable_ctc_lines_grad(const struct bp_launch *launch)
{
    struct ctc_lines_args args = ctc_args(launch->in, launch->attrs, 1);
    double step = 100.0 * (double)(2 * args.labels + 1) + (double)args.classes;
    struct portable p = PORTABLE(ctc, ctc_lines_grad, portable_type(launch->in[0]->dtype), args,
                                 args.lines, step * (double)args.steps);

    portable_view(&p, launch->out[0]);
    for (int i = 0; i < 5; i++) portable_view(&p, launch->in[i]);
    portable_workspace(&p, launch, 0);
    portable_fault(&p, launch);
    return portable_run(launch, &p);
}
