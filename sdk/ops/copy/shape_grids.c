/* SPDX-License-Identifier: Apache-2.0 */
/* shape_grids.c: has the rules of operators that give all their tensors one common shape:
 * broadcast_tensors, meshgrid. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

static enum bp_status no_tensors(const struct bp_invocation *inv)
{
    return bp_error(BP_ERR_INVALID, "%s: xs has no tensors, expected one or more",
                    inv->row->info.name);
}

static enum bp_status grids_apart(const struct bp_invocation *inv, uint32_t i,
                                  const struct bp_type *all)
{
    const struct bp_view *x = inv->in[i];
    char a[BP_TYPE_TEXT], b[BP_TYPE_TEXT];

    return bp_error(BP_ERR_INVALID,
                    "broadcast_tensors: xs[%u] is %s, which does not broadcast with those before "
                    "it, %s",
                    i, bp_type_text(x->dtype, x->rank, x->shape, a, sizeof a),
                    bp_type_text(x->dtype, all->rank, all->shape, b, sizeof b));
}

/* Gives every output this shape. */
static enum bp_status give_all(struct bp_invocation *inv, const struct bp_type *all)
{
    TRY(bp_invocation_count(inv, inv->n_in));
    for (uint32_t i = 0; i < inv->n_in; i++) {
        inv->out[i].rank = all->rank;
        memcpy(inv->out[i].shape, all->shape, sizeof all->shape);
    }
    return BP_OK;
}

enum bp_status bp_infer_broadcast_tensors(struct bp_invocation *inv)
{
    struct bp_type all = {.rank = 0};

    if (!inv->n_in) return no_tensors(inv);
    for (uint32_t i = 0; i < inv->n_in; i++)
        if (!bp_shape_join(&all, inv->in[i])) return grids_apart(inv, i, &all);
    return give_all(inv, &all);
}

enum bp_status bp_grad_broadcast_tensors(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    for (uint32_t i = 0; i < g->n_in; i++) {
        struct bp_tensor *d;
        if (!g->want[i] || !g->dy[i]) continue;
        d = bp_compose_sum_to(&c, g->dy[i], g->in[i]);
        if (c.status == BP_OK) g->dx[i] = bp_tensor_retain(d);
    }
    return bp_compose_end(&c);
}

/* Returns the axis of the grid that belongs to tensor i. */
static uint32_t axis_of(const struct bp_meshgrid_attrs *a, uint32_t i, uint32_t n)
{
    return a->xy && n > 1 && i < 2 ? 1 - i : i;
}

enum bp_status bp_infer_meshgrid(struct bp_invocation *inv)
{
    const struct bp_meshgrid_attrs *a = inv->attrs;
    struct bp_type all = {.rank = inv->n_in};

    if (!inv->n_in) return no_tensors(inv);
    if (inv->n_in > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "meshgrid: xs has %u tensors, expected at most %d",
                        inv->n_in, BP_RANK_MAX);
    for (uint32_t i = 0; i < inv->n_in; i++) {
        const struct bp_view *x = inv->in[i];
        if (x->rank > 1)
            return bp_error(BP_ERR_INVALID, "meshgrid: xs[%u] has %u axes, expected at most one", i,
                            x->rank);
        all.shape[axis_of(a, i, inv->n_in)] = x->count;
    }
    return give_all(inv, &all);
}

/* The gradient of each tensor is dy, summed over the other axes. */
enum bp_status bp_grad_meshgrid(struct bp_grad *g)
{
    const struct bp_meshgrid_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);

    for (uint32_t i = 0; i < g->n_in; i++) {
        int64_t others[BP_RANK_MAX], n = 0;
        struct bp_tensor *d = g->dy[i], *x = g->in[i];
        if (!g->want[i] || !d) continue;
        for (uint32_t k = 0; k < g->n_in; k++)
            if (k != axis_of(a, i, g->n_in)) others[n++] = k;
        d = bp_compose_sum(&c, d, others, n, false);
        d = bp_compose_reshape(&c, d, x->view.rank, x->shape);
        if (c.status == BP_OK) g->dx[i] = bp_tensor_retain(d);
    }
    return bp_compose_end(&c);
}
