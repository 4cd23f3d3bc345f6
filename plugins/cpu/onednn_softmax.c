/* SPDX-License-Identifier: Apache-2.0 */
/* onednn_softmax.c: softmax by oneDNN. */
#include "axes.h"
#include "onednn.h"
#include "kernels.h"

enum { COUNT_MIN = 4096 }; /* own kernels have answered by the time oneDNN has begun */

enum bp_status cpu_softmax_dnnl_prepare(void *p, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_softmax_attrs *attrs = prep->attrs;
    const struct bp_view *x = prep->in[0], *y = prep->out[0];
    const struct onednn *dnnl = x->count < COUNT_MIN ? NULL : onednn_open(p);
    dnnl_memory_desc_t desc, result;
    dnnl_softmax_desc_t op;

    /* It takes one description for both. */
    if (!dnnl || !onednn_desc_init(dnnl, &desc, x) || !onednn_desc_init(dnnl, &result, y) ||
        !dnnl->dnnl_memory_desc_equal(&desc, &result))
        return BP_ERR_UNSUPPORTED;
    if (dnnl->dnnl_softmax_forward_desc_init(&op, dnnl_forward_inference, &desc, axis_index(attrs->axis, x->rank)))
        return BP_ERR_UNSUPPORTED;
    return onednn_plan_create(p, prep,
                            &(struct onednn_recipe){.op = &op, .slots = 2, .packed = -1,
                                                  .slot = {{.arg = DNNL_ARG_SRC, .desc = desc},
                                                           {.arg = DNNL_ARG_DST, .desc = desc}}},
                            out);
}

enum bp_status cpu_softmax_f32_dnnl(const struct bp_launch *launch)
{
    return onednn_plan_run(launch);
}
