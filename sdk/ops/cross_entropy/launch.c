/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the cross-entropy kernels of kernel.h. */
#include "kernel.h"
#include "../../dialect/portable.h"

/* The attributes of both operators have one layout. */
static struct label_row_args label_args(const struct bp_launch *launch)
{
    const struct bp_label_loss_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0];
    struct portable_split s = portable_split(x, portable_axis(a->axis, x->rank));

    return (struct label_row_args){s.extent,        s.inner,   launch->in[1]->dtype == BP_I64,
                                   a->ignore_index, a->logits, (real)a->label_smoothing};
}

/* Runs a kernel on the first `outputs` outputs and `inputs` inputs of the call. */
static enum bp_status cross_entropy_run(const struct bp_launch *launch, struct portable *p,
                                        int outputs, int inputs)
{
    for (int i = 0; i < outputs; i++) portable_view(p, launch->out[i]);
    for (int i = 0; i < inputs; i++) portable_view(p, launch->in[i]);
    portable_fault(p, launch);
    return portable_run(launch, p);
}

enum bp_status portable_label_loss(const struct bp_launch *launch)
{
    struct label_row_args args = label_args(launch);
    enum portable_type type = portable_type(launch->in[0]->dtype);
    int64_t lines = launch->in[1]->count;
    double work = (args.logits ? 12 : 1) * (double)args.n + 16;
    struct portable row = PORTABLE(cross_entropy, label_row, type, args, lines, work);
    struct portable columns = PORTABLE(cross_entropy, label_columns, type, args, lines, work);

    return cross_entropy_run(launch, args.inner == 1 ? &row : &columns, 2, 3);
}

enum bp_status portable_label_loss_grad(const struct bp_launch *launch)
{
    struct label_row_args args = label_args(launch);
    enum portable_type type = portable_type(launch->in[0]->dtype);
    int64_t lines = launch->in[1]->count;
    double work = (args.logits ? 24 : 1) * (double)args.n + 16;
    struct portable row = PORTABLE(cross_entropy, label_row_grad, type, args, lines, work);
    struct portable columns = PORTABLE(cross_entropy, label_columns_grad, type, args, lines, work);

    return cross_entropy_run(launch, args.inner == 1 ? &row : &columns, 1, 4);
}
