/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c: plans kernels that support only some calls (topk.c, nms.c, roi_align.c): refuses the
 * other calls, which the portable kernels then compute, and requests workspace. */
#include "cpu.h"
#include "kernels.h"
#include "nms.h"
#include "roi_align.h"
#include "topk.h"
#include <backplane/attrs.h>
#include <dialect/portable.h>

/* Positions along a line are in 32 bits. */
static const int64_t longest = INT64_C(1) << 31;

enum bp_status cpu_topk_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_topk_attrs *a = prep->attrs;
    const struct bp_view *x = prep->in[0];
    int axis = portable_axis(a->axis, x->rank);

    (void)self;
    (void)out;
    if (!x->rank || a->k < 1 || a->k > TOPK_MOST || x->shape[axis] >= longest)
        return BP_ERR_UNSUPPORTED;
    return BP_OK;
}

enum bp_status cpu_non_max_suppression_prepare(void *self, const struct bp_prep *prep,
                                               struct bp_plan *out)
{
    const struct bp_non_max_suppression_attrs *a = prep->attrs;
    const struct bp_view *scores = prep->in[1];
    int64_t n = scores->shape[2], lines = scores->shape[0] * scores->shape[1];

    (void)self;
    if (n >= longest) return BP_ERR_UNSUPPORTED;
    return portable_needs(
        out, nms_room(lines, n, a->max_boxes < n ? a->max_boxes : n, prep->width).bytes);
}

enum bp_status cpu_roi_align_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const struct bp_roi_align_attrs *a = prep->attrs;
    const struct bp_view *x = prep->in[0];

    (void)self;
    if (a->max || x->shape[2] >= longest || x->shape[3] >= longest) return BP_ERR_UNSUPPORTED;
    return portable_needs(
        out, roi_room_of(x->shape + 2, a->height, a->width, prep->in[1]->shape[0], prep->width)
                 .bytes);
}
