/* SPDX-License-Identifier: Apache-2.0 */
/* boxes.c: rules of regions of images. */
#include "../compose.h"
#include "../rules.h"

#include <backplane/attrs.h>
#include <inttypes.h>

_Static_assert(sizeof(struct bp_roi_align_attrs) == sizeof(struct bp_roi_align_grad_attrs),
               "one layout");

/* The type of roi_align(x, rois, images). */
static enum bp_status forward(const struct bp_site *site, const struct bp_view *x,
                              const struct bp_view *rois, const struct bp_view *images,
                              struct bp_type *out)
{
    const struct bp_roi_align_attrs *a = site->attrs;
    const char *op = site->row->info.name;

    if (x->rank != 4 || rois->rank != 2 || rois->shape[1] != 4 || images->rank != 1 ||
        images->shape[0] != rois->shape[0])
        return bp_error(BP_ERR_INVALID,
                        "%s: x has %u axes, rois %u, images %u, expected 4; 2, R and 4; 1, R", op,
                        x->rank, rois->rank, images->rank);
    if (a->height < 1 || a->width < 1 || a->sampling < 0 || a->sampling > 4096)
        return bp_error(BP_ERR_INVALID,
                        "%s: height is %" PRId64 ", width %" PRId64 " and sampling %" PRId64
                        ", expected 1 or more, and 0 to 4096",
                        op, a->height, a->width, a->sampling);
    if (x->shape[2] < 1 || x->shape[3] < 1 || (rois->shape[0] && !x->shape[0]))
        return bp_error(BP_ERR_INVALID, "%s: x is empty, expected images", op);
    out->rank = 4;
    out->shape[0] = rois->shape[0];
    out->shape[1] = x->shape[1];
    out->shape[2] = a->height;
    out->shape[3] = a->width;
    return BP_OK;
}

enum bp_status bp_infer_roi_align(struct bp_site *site)
{
    return forward(site, bp_site_in(site, 0), bp_site_in(site, 1), bp_site_in(site, 2),
                   &site->out[0]);
}

enum bp_status bp_infer_roi_align_grad(struct bp_site *site)
{
    struct bp_type y = {0};

    TRY(forward(site, bp_site_in(site, 3), bp_site_in(site, 1), bp_site_in(site, 2), &y));
    bp_rule_shape(&site->out[0], bp_site_in(site, 3));
    return bp_rule_expect(site, 0, &y);
}

enum bp_status bp_grad_roi_align(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0])
        bp_compose_keep(
            &c, MAKE(&c, roi_align_grad, g->attrs, g->dy[0], g->in[1], g->in[2], g->in[0]),
            &g->dx[0]);
    return bp_compose_end(&c);
}
