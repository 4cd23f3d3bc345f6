/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: has the gradients of assign, of views along axes, of slice_grad and of concat. */
#include <call/compose.h>

#include <backplane/ops.h>

enum bp_status bp_grad_assign(struct bp_grad *g)
{
    if (g->want[0]) g->dx[0] = bp_tensor_retain(g->dy[0]);
    return BP_OK;
}

enum bp_status bp_grad_reshape(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0];

    if (g->want[0])
        bp_compose_keep(&c, bp_compose_reshape(&c, g->dy[0], x->view.rank, x->shape), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_transpose(struct bp_grad *g)
{
    const struct bp_transpose_attrs *f = g->attrs;
    struct bp_transpose_attrs a = bp_transpose_defaults();
    int64_t inverse[BP_RANK_MAX], rank = g->in[0]->view.rank;

    for (int64_t i = 0; i < f->perm.n; i++)
        inverse[f->perm.at[i] < 0 ? f->perm.at[i] + rank : f->perm.at[i]] = i;
    a.perm = (struct bp_dims){inverse, f->perm.n};
    return g->want[0] ? bp_op_transpose(g->scope, g->dy[0], &a, &g->dx[0]) : BP_OK;
}

enum bp_status bp_grad_slice(struct bp_grad *g)
{
    const struct bp_slice_attrs *f = g->attrs;
    struct bp_slice_grad_attrs a = {sizeof a, f->starts, f->ends, f->axes, f->steps};

    return g->want[0] ? bp_op_slice_grad(g->scope, g->dy[0], g->in[0], &a, &g->dx[0]) : BP_OK;
}

enum bp_status bp_grad_slice_grad(struct bp_grad *g)
{
    const struct bp_slice_grad_attrs *f = g->attrs;
    struct bp_slice_attrs a = {sizeof a, f->starts, f->ends, f->axes, f->steps};

    if (!g->want[0]) return BP_OK;
    return bp_op_slice(g->scope, g->dy[0], NULL, NULL, NULL, NULL, &a, &g->dx[0]);
}

enum bp_status bp_grad_expand(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, bp_compose_sum_to(&c, g->dy[0], g->in[0]), &g->dx[0]);
    return bp_compose_end(&c);
}

/* The gradient of each tensor is its part of dy. */
enum bp_status bp_grad_concat(struct bp_grad *g)
{
    const struct bp_concat_attrs *f = g->attrs;
    int64_t rank = g->in[0]->view.rank, axis = f->axis < 0 ? f->axis + rank : f->axis, at = 0;

    for (uint32_t i = 0; i < g->n_in; i++) {
        struct bp_slice_attrs a = bp_slice_defaults();
        int64_t end = at + g->in[i]->shape[axis];
        a.axes = (struct bp_dims){&axis, 1};
        a.starts = (struct bp_dims){&at, 1};
        a.ends = (struct bp_dims){&end, 1};
        if (g->want[i])
            TRY(bp_op_slice(g->scope, g->dy[0], NULL, NULL, NULL, NULL, &a, &g->dx[i]));
        at = end;
    }
    return BP_OK;
}

/* Adds the gradient of part i to the gradient of x, at the position of the part in x: from `at`
 * on. */
static enum bp_status add_part(struct bp_grad *g, uint32_t i, int64_t axis, int64_t at)
{
    struct bp_slice_grad_attrs a = bp_slice_grad_defaults();
    int64_t end = at + g->out[i]->shape[axis];
    struct bp_tensor *part = NULL, *sum = NULL;
    enum bp_status status;

    a.axes = (struct bp_dims){&axis, 1};
    a.starts = (struct bp_dims){&at, 1};
    a.ends = (struct bp_dims){&end, 1};
    TRY(bp_op_slice_grad(g->scope, g->dy[i], g->in[0], &a, &part));
    if (!g->dx[0]) {
        g->dx[0] = part;
        return BP_OK;
    }
    status = bp_op_add(g->scope, g->dx[0], part, &sum);
    bp_tensor_destroy(part);
    TRY(status);
    bp_tensor_destroy(g->dx[0]);
    g->dx[0] = sum;
    return BP_OK;
}

/* Joins the gradients of the parts; if some are absent, which means zero, adds each other one at
 * its position. */
enum bp_status bp_grad_split(struct bp_grad *g)
{
    const struct bp_split_attrs *f = g->attrs;
    struct bp_concat_attrs join = bp_concat_defaults();
    int64_t axis = f->axis < 0 ? f->axis + g->in[0]->view.rank : f->axis, at = 0;
    bool all = true;

    if (!g->want[0]) return BP_OK;
    for (uint32_t i = 0; i < g->n_out; i++) all &= g->dy[i] != NULL;
    join.axis = axis;
    if (all) return bp_op_concat(g->scope, g->dy, g->n_out, &join, &g->dx[0]);
    for (uint32_t i = 0; i < g->n_out; i++) {
        if (g->dy[i]) TRY(add_part(g, i, axis, at));
        at += g->out[i]->shape[axis];
    }
    return BP_OK;
}
