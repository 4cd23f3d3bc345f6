/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules and gradients of grid_sample, affine_grid and their gradients. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

_Static_assert(sizeof(struct bp_grid_sample_attrs) ==
                   sizeof(struct bp_grid_sample_grad_input_attrs),
               "one layout");
_Static_assert(sizeof(struct bp_grid_sample_attrs) == sizeof(struct bp_grid_sample_grad_grid_attrs),
               "one layout");

enum bp_status bp_values_grid_sample(const void *attrs)
{
    const struct bp_grid_sample_attrs *a = attrs;

    if (a->mode >= 0 && a->mode <= 2 && a->padding >= 0 && a->padding <= 2) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "grid_sample: mode is %" PRId64 " and padding %" PRId64
                    ", expected 0 to 2 for both",
                    a->mode, a->padding);
}

/* Computes the type of grid_sample(x, grid). */
static enum bp_status grid_sample_forward(const struct bp_invocation *inv, const struct bp_view *x,
                                          const struct bp_view *grid, struct bp_type *out)
{
    const char *op = inv->row->info.name;

    if (x->rank < 4 || x->rank > 5 || grid->rank != x->rank ||
        grid->shape[grid->rank - 1] != x->rank - 2 || grid->shape[0] != x->shape[0])
        return bp_error(BP_ERR_INVALID,
                        "%s: x has %u axes and %" PRId64 " images, grid %u axes, %" PRId64
                        " images and %" PRId64
                        " coordinates, expected 4 or 5 axes for both, as many images, and a "
                        "coordinate for each spatial axis",
                        op, x->rank, x->shape[0], grid->rank, grid->rank ? grid->shape[0] : 0,
                        grid->rank ? grid->shape[grid->rank - 1] : 0);
    out->rank = x->rank;
    out->shape[0] = x->shape[0];
    out->shape[1] = x->shape[1];
    for (uint32_t i = 2; i < x->rank; i++) {
        if (x->shape[i] < 1 || x->shape[i] > 1 << 30)
            return bp_error(BP_ERR_INVALID,
                            "%s: spatial axis %u of x has extent %" PRId64 ", expected 1 to 2^30",
                            op, i - 2, x->shape[i]);
        out->shape[i] = grid->shape[i - 1];
    }
    return BP_OK;
}

enum bp_status bp_infer_grid_sample(struct bp_invocation *inv)
{
    return grid_sample_forward(inv, bp_invocation_in(inv, 0), bp_invocation_in(inv, 1),
                               &inv->out[0]);
}

enum bp_status bp_infer_sample_grad_input(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(grid_sample_forward(inv, bp_invocation_in(inv, 2), bp_invocation_in(inv, 1), &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 2));
    return bp_shape_expect(inv, 0, &y);
}

enum bp_status bp_infer_sample_grad_grid(struct bp_invocation *inv)
{
    struct bp_type y = {0};

    TRY(grid_sample_forward(inv, bp_invocation_in(inv, 1), bp_invocation_in(inv, 2), &y));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 2));
    return bp_shape_expect(inv, 0, &y);
}

enum bp_status bp_grad_grid_sample(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *grid = g->in[1], *dy = g->dy[0];

    if (g->want[0])
        bp_compose_keep(&c, MAKE(&c, grid_sample_grad_input, g->attrs, dy, grid, x), &g->dx[0]);
    if (g->want[1])
        bp_compose_keep(&c, MAKE(&c, grid_sample_grad_grid, g->attrs, dy, x, grid), &g->dx[1]);
    return bp_compose_end(&c);
}

/* This operator is linear in dy and is the adjoint of grid_sample. Its derivative by grid is that
 * of grid_sample applied to d. */
enum bp_status bp_grad_sample_grad_input(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *dy = g->in[0], *grid = g->in[1], *d = g->dy[0];

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, grid_sample, g->attrs, d, grid), &g->dx[0]);
    if (g->want[1])
        bp_compose_keep(&c, MAKE(&c, grid_sample_grad_grid, g->attrs, dy, d, grid), &g->dx[1]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_affine_grid(struct bp_invocation *inv)
{
    const struct bp_affine_grid_attrs *a = inv->attrs;
    const struct bp_view *theta = bp_invocation_in(inv, 0);
    int64_t axes = a->sizes.n - 2;

    if (axes < 2 || axes > 3 || theta->rank != 3 || theta->shape[0] != a->sizes.at[0] ||
        theta->shape[1] != axes || theta->shape[2] != axes + 1)
        return bp_error(BP_ERR_INVALID,
                        "affine_grid: sizes has %" PRId64
                        " entries, expected 4 or 5: N C and the spatial extents; theta has %u "
                        "axes, expected N, and 2 3 or 3 4",
                        a->sizes.n, theta->rank);
    inv->out[0].rank = (uint32_t)axes + 2;
    inv->out[0].shape[0] = a->sizes.at[0];
    inv->out[0].shape[axes + 1] = axes;
    for (int64_t i = 0; i < axes; i++) {
        if (a->sizes.at[i + 2] < 0 || a->sizes.at[i + 2] > 1 << 30)
            return bp_error(BP_ERR_INVALID,
                            "affine_grid: sizes[%" PRId64 "] is %" PRId64 ", expected 0 to 2^30",
                            i + 2, a->sizes.at[i + 2]);
        inv->out[0].shape[i + 1] = a->sizes.at[i + 2];
    }
    return BP_OK;
}

enum bp_status bp_infer_affine_grid_grad(struct bp_invocation *inv)
{
    const struct bp_view *d = bp_invocation_in(inv, 0);

    if (d->rank < 4 || d->rank > 5 || d->shape[d->rank - 1] != d->rank - 2)
        return bp_error(BP_ERR_INVALID,
                        "affine_grid_grad: dgrid has %u axes, expected 4 or 5: N, spatial axes, "
                        "and a coordinate for each of them",
                        d->rank);
    inv->out[0].rank = 3;
    inv->out[0].shape[0] = d->shape[0];
    inv->out[0].shape[1] = d->rank - 2;
    inv->out[0].shape[2] = d->rank - 1;
    return BP_OK;
}

enum bp_status bp_grad_affine_grid(struct bp_grad *g)
{
    const struct bp_affine_grid_attrs *f = g->attrs;
    struct bp_affine_grid_grad_attrs a = {.size = sizeof a, .align_corners = f->align_corners};
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, affine_grid_grad, &a, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_affine_grid_grad(struct bp_grad *g)
{
    const struct bp_affine_grid_grad_attrs *f = g->attrs;
    struct bp_tensor *d = g->in[0];
    int64_t sizes[] = {d->shape[0], 1, d->shape[1], d->shape[2], d->shape[3]};
    struct bp_affine_grid_attrs a = {.size = sizeof a, .sizes = {sizes, d->view.rank},
                                     .align_corners = f->align_corners};
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, affine_grid, &a, g->dy[0]), &g->dx[0]);
    return bp_compose_end(&c);
}
