/* SPDX-License-Identifier: Apache-2.0 */
/* shape_distance.c: has the rules of distances between vectors and of cosine_similarity, by
 * norms. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>

static const uint32_t both[] = {0, 1};

/* Computes the norm along an axis, or of all elements if axis is NULL. */
static struct bp_tensor *distance_norm(struct bp_compose *c, struct bp_tensor *x, double p,
                                       const int64_t *axis, bool keep)
{
    struct bp_norm_attrs a = {.size = sizeof a, .axes = {axis, !!axis}, .keep = keep, .p = p};

    return MAKE(c, norm, &a, x);
}

static struct bp_tensor *distance_difference(struct bp_compose *c, struct bp_decomposition *e)
{
    return MAKE(c, sub, NULL, bp_compose_widen(c, e->in[0]), bp_compose_widen(c, e->in[1]));
}

enum bp_status bp_infer_dist(struct bp_invocation *inv)
{
    TRY(bp_shape_broadcast(inv, both, 2, 0, &inv->out[0]));
    inv->out[0].rank = 0;
    return BP_OK;
}

enum bp_status bp_decompose_dist(struct bp_decomposition *e)
{
    const struct bp_dist_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);

    return bp_compose_give(e, &c, distance_norm(&c, distance_difference(&c, e), a->p, NULL, false));
}

enum bp_status bp_infer_pairwise_distance(struct bp_invocation *inv)
{
    const struct bp_pairwise_distance_attrs *a = inv->attrs;
    struct bp_type *out = &inv->out[0];

    TRY(bp_shape_broadcast(inv, both, 2, 0, out));
    if (!out->rank)
        return bp_error(BP_ERR_INVALID, "pairwise_distance: x and y have no axes, expected one or "
                                        "more");
    if (a->keep) out->shape[out->rank - 1] = 1;
    else out->rank--;
    return BP_OK;
}

enum bp_status bp_decompose_pairwise_distance(struct bp_decomposition *e)
{
    const struct bp_pairwise_distance_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *d = bp_compose_scale(&c, distance_difference(&c, e), 1, a->epsilon);
    int64_t last = -1;

    return bp_compose_give(e, &c, distance_norm(&c, d, a->p, &last, a->keep));
}

enum bp_status bp_infer_cosine_similarity(struct bp_invocation *inv)
{
    const struct bp_cosine_similarity_attrs *a = inv->attrs;
    struct bp_type *out = &inv->out[0];
    uint32_t axis;

    TRY(bp_shape_broadcast(inv, both, 2, 0, out));
    TRY(bp_shape_axis(inv, a->axis, out->rank, &axis));
    for (uint32_t i = axis; i + 1 < out->rank; i++) out->shape[i] = out->shape[i + 1];
    out->rank--;
    return BP_OK;
}

/* Returns the larger of t and least: relu(t - least) + least. NaN remains NaN. */
static struct bp_tensor *at_least(struct bp_compose *c, struct bp_tensor *t, double least)
{
    t = MAKE(c, relu, NULL, bp_compose_scale(c, t, 1, -least));
    return bp_compose_scale(c, t, 1, least);
}

/* Computes the norm of one side. axis is an axis of the broadcast shape, counted from the last; a
 * side may lack it. */
static struct bp_tensor *side_norm(struct bp_compose *c, struct bp_tensor *t, struct bp_tensor *xy,
                                   int64_t axis, double least)
{
    int64_t shape[BP_RANK_MAX];
    uint32_t rank;

    if (c->status) return NULL;
    rank = xy->view.rank;
    for (uint32_t i = 0; i < rank; i++) shape[i] = bp_shape_extent_back(&t->view, rank - 1 - i);
    t = bp_compose_reshape(c, t, rank, shape);
    shape[axis] = xy->shape[axis];
    if (!c->status && t->shape[axis] != shape[axis]) { /* its only entry counts for each */
        struct bp_expand_attrs a = {.size = sizeof a, .shape = {shape, rank}};
        t = MAKE(c, expand, &a, t);
    }
    return at_least(c, distance_norm(c, t, 2, &axis, false), least);
}

enum bp_status bp_decompose_cosine_similarity(struct bp_decomposition *e)
{
    const struct bp_cosine_similarity_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *y = bp_compose_widen(&c, e->in[1]);
    struct bp_tensor *xy = MAKE(&c, mul, NULL, x, y), *norms;
    int64_t axis = a->axis;

    if (axis < 0 && !c.status) axis += xy->view.rank;
    norms = MAKE(&c, mul, NULL, side_norm(&c, x, xy, axis, a->epsilon),
                 side_norm(&c, y, xy, axis, a->epsilon));
    return bp_compose_give(e, &c,
                           MAKE(&c, div, NULL, bp_compose_sum(&c, xy, &axis, 1, false), norms));
}
