/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of pools of regions and builds their gradients. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

_Static_assert(sizeof(struct bp_roi_align_attrs) == sizeof(struct bp_roi_align_grad_attrs),
               "one layout");

_Static_assert(sizeof(struct bp_roi_pool_attrs) == sizeof(struct bp_roi_pool_grad_attrs),
               "one layout");

_Static_assert(sizeof(struct bp_psroi_pool_attrs) == sizeof(struct bp_psroi_pool_grad_attrs),
               "one layout");

/* Infers the type of height by width bins for each region of x. */
static enum bp_status roi_binned(const struct bp_invocation *inv, const struct bp_view *x,
                                 int64_t height, int64_t width, struct bp_type *out)
{
    const struct bp_view *rois = bp_invocation_in(inv, 1), *images = bp_invocation_in(inv, 2);
    const char *op = inv->row->info.name;

    if (x->rank != 4 || rois->rank != 2 || rois->shape[1] != 4 || images->rank != 1 ||
        images->shape[0] != rois->shape[0])
        return bp_error(BP_ERR_INVALID,
                        "%s: x has %u axes, rois %u, images %u, expected 4; 2, R and 4; 1, R", op,
                        x->rank, rois->rank, images->rank);
    if (height < 1 || width < 1)
        return bp_error(BP_ERR_INVALID,
                        "%s: height is %" PRId64 " and width %" PRId64 ", expected 1 or more", op,
                        height, width);
    if (x->shape[2] < 1 || x->shape[3] < 1 || (rois->shape[0] && !x->shape[0]))
        return bp_error(BP_ERR_INVALID, "%s: x is empty, expected images", op);
    out->rank = 4;
    out->shape[0] = rois->shape[0];
    out->shape[1] = x->shape[1];
    out->shape[2] = height;
    out->shape[3] = width;
    return BP_OK;
}

/* Infers the type of roi_align(x, rois, images). */
static enum bp_status roi_aligned(const struct bp_invocation *inv, const struct bp_view *x,
                                  struct bp_type *out)
{
    const struct bp_roi_align_attrs *a = inv->attrs;

    if (a->sampling < 0 || a->sampling > 4096)
        return bp_error(BP_ERR_INVALID, "%s: sampling is %" PRId64 ", expected 0 to 4096",
                        inv->row->info.name, a->sampling);
    return roi_binned(inv, x, a->height, a->width, out);
}

enum bp_status bp_infer_roi_align(struct bp_invocation *inv)
{
    return roi_aligned(inv, bp_invocation_in(inv, 0), &inv->out[0]);
}

enum bp_status bp_infer_roi_align_grad(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(roi_aligned(inv, bp_invocation_in(inv, 3), &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 3));
    return bp_shape_expect(inv, 0, &y);
}

enum bp_status bp_infer_roi_pool(struct bp_invocation *inv)
{
    const struct bp_roi_pool_attrs *a = inv->attrs;

    return roi_binned(inv, bp_invocation_in(inv, 0), a->height, a->width, &inv->out[0]);
}

enum bp_status bp_infer_roi_pool_grad(struct bp_invocation *inv)
{
    const struct bp_roi_pool_attrs *a = inv->attrs;
    struct bp_type y = {0};

    TRY(roi_binned(inv, bp_invocation_in(inv, 3), a->height, a->width, &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 3));
    return bp_shape_expect(inv, 0, &y);
}

/* Infers the type of psroi_pool(x, rois, images): each bin has channels of x. */
static enum bp_status roi_divided(const struct bp_invocation *inv, const struct bp_view *x,
                                  struct bp_type *out)
{
    const struct bp_psroi_pool_attrs *a = inv->attrs;

    TRY(roi_binned(inv, x, a->height, a->width, out));
    if (a->height > x->shape[1] || x->shape[1] % a->height ||
        x->shape[1] / a->height % a->width)
        return bp_error(BP_ERR_INVALID,
                        "%s: x has %" PRId64 " channels, expected a multiple of height %" PRId64
                        " times width %" PRId64,
                        inv->row->info.name, x->shape[1], a->height, a->width);
    out->shape[1] = x->shape[1] / a->height / a->width;
    return BP_OK;
}

enum bp_status bp_infer_psroi_pool(struct bp_invocation *inv)
{
    return roi_divided(inv, bp_invocation_in(inv, 0), &inv->out[0]);
}

enum bp_status bp_infer_psroi_pool_grad(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(roi_divided(inv, bp_invocation_in(inv, 3), &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 3));
    return bp_shape_expect(inv, 0, &y);
}

/* Builds the gradient in x by the operator `row`, which has the same attributes. */
static enum bp_status in_x(struct bp_grad *g, enum bp_row_number row)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *in[] = {g->dy[0], g->in[1], g->in[2], g->in[0]};

    if (g->want[0]) bp_compose_keep(&c, bp_compose(&c, row, g->attrs, in, 4), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_roi_align(struct bp_grad *g)
{
    return in_x(g, BP_ROW_roi_align_grad);
}

enum bp_status bp_grad_roi_pool(struct bp_grad *g)
{
    return in_x(g, BP_ROW_roi_pool_grad);
}

enum bp_status bp_grad_psroi_pool(struct bp_grad *g)
{
    return in_x(g, BP_ROW_psroi_pool_grad);
}

/* psroi_pool_grad is linear in dy, so its gradient in dy is psroi_pool. */
enum bp_status bp_grad_psroi_pool_grad(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *in[] = {g->dy[0], g->in[1], g->in[2]};

    if (g->want[0])
        bp_compose_keep(&c, bp_compose(&c, BP_ROW_psroi_pool, g->attrs, in, 3), &g->dx[0]);
    return bp_compose_end(&c);
}
