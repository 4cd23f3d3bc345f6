/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules, gradients and decompositions of operators that copy elements to
 * other positions: slices with any step, tile, stack, roll, rot90 and others. */
#include <call/compose.h>
#include "shape_axes.h"

#include <backplane/attrs.h>
#include <inttypes.h>

static enum bp_status copy_keep(struct bp_grad *g, enum bp_row_number row, const void *attrs,
                                struct bp_tensor *a, struct bp_tensor *b)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0])
        bp_compose_keep(&c, bp_compose(&c, row, attrs, (struct bp_tensor *[]){a, b}, b ? 2 : 1),
                        &g->dx[0]);
    return bp_compose_end(&c);
}

/* Computes the shape of a slice. The attributes of strided_slice and of its gradient have one
 * layout. */
static enum bp_status copy_sliced(const struct bp_invocation *inv, const struct bp_view *x,
                                  struct bp_type *out)
{
    const struct bp_strided_slice_attrs *a = inv->attrs;
    struct bp_shape_slices slices = {a->starts, a->ends, a->axes, a->steps};
    uint32_t axis[BP_RANK_MAX];

    TRY(bp_shape_check_slices(inv, &slices, x->rank, axis));
    bp_shape_copy(out, x);
    for (int64_t i = 0; i < a->starts.n; i++) {
        int64_t step = a->steps.n ? a->steps.at[i] : 1, *extent = &out->shape[axis[i]];
        *extent = bp_shape_slice_extent(a->starts.at[i], a->ends.at[i], step, x->shape[axis[i]]);
    }
    return BP_OK;
}

enum bp_status bp_infer_strided_slice(struct bp_invocation *inv)
{
    return copy_sliced(inv, bp_invocation_in(inv, 0), &inv->out[0]);
}

enum bp_status bp_infer_strided_slice_grad(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 1);
    struct bp_type y;

    TRY(copy_sliced(inv, x, &y));
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 0, &y);
}

enum bp_status bp_grad_strided_slice(struct bp_grad *g)
{
    return copy_keep(g, BP_ROW_strided_slice_grad, g->attrs, g->dy[0], g->in[0]);
}

enum bp_status bp_grad_strided_slice_grad(struct bp_grad *g)
{
    return copy_keep(g, BP_ROW_strided_slice, g->attrs, g->dy[0], NULL);
}

enum bp_status bp_infer_tile(struct bp_invocation *inv)
{
    const struct bp_tile_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type *out = &inv->out[0];

    if (a->repeats.n > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID,
                        "tile: attribute repeats has %" PRId64 " entries, expected at most %d",
                        a->repeats.n, BP_RANK_MAX);
    out->rank = a->repeats.n > x->rank ? (uint32_t)a->repeats.n : x->rank;
    for (uint32_t back = 0; back < out->rank; back++) {
        int64_t at = a->repeats.n - 1 - back, repeat = at < 0 ? 1 : a->repeats.at[at];
        if (repeat < 0 || __builtin_mul_overflow(bp_shape_extent_back(x, back), repeat,
                                                 &out->shape[out->rank - 1 - back]))
            return bp_error(BP_ERR_INVALID,
                            "tile: repeats[%" PRId64 "] is %" PRId64
                            ", expected 0 or more, and a result below 2^63",
                            at, repeat);
    }
    return BP_OK;
}

/* Each axis is treated as two, the tiles and the elements of one tile, and dy is summed over the
 * tiles. Half types are rounded once. */
enum bp_status bp_grad_tile(struct bp_grad *g)
{
    struct bp_tensor *x = g->in[0], *d = g->dy[0];
    struct bp_compose c = bp_compose_begin(g->scope);
    int64_t before = 1, rank = d->view.rank, extra = rank - x->view.rank;
    static const int64_t tiles = 1;

    if (!g->want[0]) return BP_OK;
    d = bp_compose_widen(&c, d);
    for (int64_t i = 0; i < rank; i++) {
        int64_t n = i < extra ? 1 : x->shape[i - extra], all = g->dy[0]->shape[i], behind = n;
        for (int64_t k = i + 1; k < rank; k++) behind *= g->dy[0]->shape[k];
        if (n && all != n) {
            d = bp_compose_reshape(&c, d, 3, (int64_t[]){before, all / n, behind});
            d = bp_compose_sum(&c, d, &tiles, 1, false);
        }
        before *= n;
    }
    d = bp_compose_reshape(&c, d, x->view.rank, x->shape);
    bp_compose_keep(&c, bp_compose_cast(&c, d, x->view.dtype), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_flip(struct bp_invocation *inv)
{
    const struct bp_flip_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axes;

    bp_shape_copy(&inv->out[0], x);
    return bp_rule_axes(inv, a->axes, x->rank, &axes);
}

enum bp_status bp_grad_flip(struct bp_grad *g)
{
    return copy_keep(g, BP_ROW_flip, g->attrs, g->dy[0], NULL);
}

enum bp_status bp_infer_roll(struct bp_invocation *inv)
{
    const struct bp_roll_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    int64_t n = a->axes.n ? a->axes.n : 1;
    uint32_t axes;

    if (a->shifts.n != n)
        return bp_error(BP_ERR_INVALID,
                        "roll: shifts has %" PRId64 " entries, expected %" PRId64
                        ": one for each of axes, or one without axes",
                        a->shifts.n, n);
    bp_shape_copy(&inv->out[0], x);
    return bp_rule_axes(inv, a->axes, x->rank, &axes);
}

enum bp_status bp_grad_roll(struct bp_grad *g)
{
    const struct bp_roll_attrs *f = g->attrs;
    struct bp_roll_attrs a = {.size = sizeof a, .axes = f->axes};
    int64_t back[BP_RANK_MAX];

    for (int64_t i = 0; i < f->shifts.n; i++) { /* shifts count modulo the extent */
        int64_t n = f->axes.n
                        ? g->in[0]->shape[f->axes.at[i] < 0 ? f->axes.at[i] + g->in[0]->view.rank
                                                            : f->axes.at[i]]
                        : g->in[0]->view.count;
        back[i] = n ? -(f->shifts.at[i] % n) : 0;
    }
    a.shifts = (struct bp_dims){back, f->shifts.n};
    return copy_keep(g, BP_ROW_roll, &a, g->dy[0], NULL);
}

enum bp_status bp_infer_rot90(struct bp_invocation *inv)
{
    const struct bp_rot90_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type *out = &inv->out[0];
    uint32_t p, q;

    TRY(bp_shape_axis(inv, a->axis0, x->rank, &p));
    TRY(bp_shape_axis(inv, a->axis1, x->rank, &q));
    if (p == q)
        return bp_error(BP_ERR_INVALID, "rot90: axis0 and axis1 are both axis %u, expected two", p);
    bp_shape_copy(out, x);
    if (a->k % 2) {
        out->shape[p] = x->shape[q];
        out->shape[q] = x->shape[p];
    }
    return BP_OK;
}

/* An odd k swaps the axes first; then one axis is reversed. An even k reverses both axes, or
 * none. */
enum bp_status bp_decompose_rot90(struct bp_decomposition *e)
{
    const struct bp_rot90_attrs *a = e->attrs;
    struct bp_swapaxes_attrs swap = {.size = sizeof swap, .axis0 = a->axis0, .axis1 = a->axis1};
    const int64_t axes[] = {a->axis0, a->axis1}, k = (a->k % 4 + 4) % 4;
    struct bp_flip_attrs turn = {.size = sizeof turn};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0];

    turn.axes = (struct bp_dims){k == 3 ? &axes[1] : axes, k == 2 ? 2 : 1};
    if (k % 2) x = MAKE(&c, swapaxes, &swap, x);
    x = k ? MAKE(&c, flip, &turn, x) : MAKE(&c, assign, NULL, x);
    bp_compose_keep(&c, x, &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_stack(struct bp_invocation *inv)
{
    const struct bp_stack_attrs *a = inv->attrs;
    const struct bp_view *x = inv->n_in ? inv->in[0] : NULL;
    struct bp_type *out = &inv->out[0];
    char p[BP_TYPE_TEXT], q[BP_TYPE_TEXT];
    uint32_t axis;

    if (!x) return bp_error(BP_ERR_INVALID, "stack: xs has no tensors, expected one or more");
    if (x->rank == BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID, "stack: xs have %u axes, expected fewer", x->rank);
    TRY(bp_shape_axis(inv, a->axis, x->rank + 1u, &axis));
    for (uint32_t i = 1; i < inv->n_in; i++) {
        const struct bp_view *y = inv->in[i];
        if (y->rank == x->rank && !memcmp(y->shape, x->shape, x->rank * sizeof *x->shape)) continue;
        return bp_error(BP_ERR_INVALID, "stack: xs[0] is %s and xs[%u] is %s: expected one shape",
                        bp_type_text(x->dtype, x->rank, x->shape, p, sizeof p), i,
                        bp_type_text(y->dtype, y->rank, y->shape, q, sizeof q));
    }
    out->rank = x->rank + 1u;
    for (uint32_t i = 0; i < out->rank; i++)
        out->shape[i] = i < axis ? x->shape[i] : i == axis ? inv->n_in : x->shape[i - 1];
    return BP_OK;
}

enum bp_status bp_decompose_stack(struct bp_decomposition *e)
{
    const struct bp_stack_attrs *a = e->attrs;
    int64_t axis = a->axis < 0 ? a->axis + e->in[0]->view.rank + 1 : a->axis;
    struct bp_unsqueeze_attrs open = {.size = sizeof open, .axes = {&axis, 1}};
    struct bp_concat_attrs join = {.size = sizeof join, .axis = axis};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *part[BP_FLAT_MAX];
    uint32_t n = 0;

    for (; n < BP_FLAT_MAX && e->in[n]; n++) part[n] = MAKE(&c, unsqueeze, &open, e->in[n]);
    bp_compose_keep(&c, bp_compose_all(&c, BP_ROW_concat, &join, part, n), &e->out[0]);
    return bp_compose_end(&c);
}
