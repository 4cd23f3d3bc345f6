/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the attention kernel of kernel.h. */
#include "kernel.h"
#include "../../dialect/portable.h"

#include <math.h>

/* The strides of k and v. The heads of q that share a head of k are one more axis, with stride
 * 0. */
static struct attention_strides attention_set_strides(const struct bp_view *view)
{
    struct attention_strides s = {.axes = {0}};
    int last = view->rank - 1, at = 0;

    for (int i = 0; i + 3 < view->rank; i++) s.axes[at++] = view->stride[i];
    s.axes[at] = view->stride[last - 2];
    s.length = view->stride[last - 1];
    s.last = view->stride[last];
    return s;
}

/* The strides of q and y: the heads that share a head of k are a separate axis. */
static struct attention_strides attention_own(const struct bp_view *view, i64 group)
{
    struct attention_strides s = attention_set_strides(view);
    int at = view->rank - 3;

    s.axes[at + 1] = s.axes[at];
    s.axes[at] *= group;
    return s;
}

/* The strides of the mask. A mask may lack leading axes, and an extent of 1 repeats: both have
 * stride 0. */
static struct attention_strides of_mask(const struct bp_view *mask, int rank, i64 group)
{
    struct attention_strides s = {.axes = {0}};
    i64 stride[8] = {0};

    for (int i = 0; mask && i < mask->rank; i++)
        stride[rank - mask->rank + i] = mask->shape[i] == 1 ? 0 : mask->stride[i];
    for (int i = 0; i + 2 < rank; i++) s.axes[i] = stride[i];
    s.axes[rank - 2] = s.axes[rank - 3];
    s.axes[rank - 3] *= group;
    s.length = stride[rank - 2];
    s.last = stride[rank - 1];
    return s;
}

enum bp_status portable_attention(const struct bp_launch *launch)
{
    const struct bp_attention_attrs *attrs = launch->attrs;
    const struct bp_view *q = launch->in[0], *k = launch->in[1], *v = launch->in[2],
                         *mask = launch->in[3], *length = launch->in[4], *y = launch->out[0];
    int last = q->rank - 1;
    i64 heads = k->shape[last - 2], group = heads ? q->shape[last - 2] / heads : 1, count = 1;
    struct attention_args args = {.rank = q->rank - 1,
                                  .queries = q->shape[last - 1], .keys = k->shape[last - 1],
                                  .depth = q->shape[last], .width = v->shape[last],
                                  .left = attrs->window.n ? attrs->window.at[0] : -1,
                                  .right = attrs->window.n ? attrs->window.at[1] : -1,
                                  .wide = length && length->dtype == BP_I64,
                                  .additive = mask && mask->dtype != BP_BOOL,
                                  .y = attention_own(y, group),
                                  .q = attention_own(q, group),
                                  .k = attention_set_strides(k),
                                  .v = attention_set_strides(v),
                                  .mask = of_mask(mask, q->rank, group),
                                  .scale = attrs->scale, .softcap = attrs->softcap};

    if (!y->count) return BP_OK;
    if (attrs->causal) args.right = 0;
    args.hides = mask || length || !args.keys || (args.right >= 0 && args.queries > args.keys);
    if (attrs->scale == 0) args.scale = args.depth ? 1 / sqrt((double)args.depth) : 1;
    for (int i = 0; i + 3 < q->rank; i++) {
        args.shape[i] = q->shape[i];
        if (length) args.length[i] = length->stride[i];
    }
    args.shape[last - 2] = heads;
    args.shape[last - 1] = group;
    for (int i = 0; i < last; i++) count *= args.shape[i];
    args.blocks = (args.queries + ATTENTION_ROWS - 1) / ATTENTION_ROWS;
    args.parts = (args.width + ATTENTION_WIDTH - 1) / ATTENTION_WIDTH;
    struct portable p = PORTABLE(attention, attention, portable_type(q->dtype), args,
                                 count * args.blocks * args.parts,
                                 (double)ATTENTION_ROWS * (double)args.keys *
                                         (double)(args.depth + args.width + 8) / 4 + 64);
    portable_view(&p, y);
    portable_view(&p, q);
    portable_view(&p, k);
    portable_view(&p, v);
    portable_view(&p, mask);
    portable_view(&p, length);
    return portable_run(launch, &p);
}
