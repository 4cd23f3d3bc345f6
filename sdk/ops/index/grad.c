/* SPDX-License-Identifier: Apache-2.0 */
/* grad.c: has the gradients and decompositions of operators that read and write elements by
 * indices. Reading by indices is the adjoint of adding by indices, so most rules are one call. */
#include <call/compose.h>

#include <backplane/attrs.h>

static enum bp_status keep_one(struct bp_grad *g, enum bp_row_number row, const void *attrs,
                               struct bp_tensor *const *in, size_t n_in, uint32_t into)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[into]) bp_compose_keep(&c, bp_compose(&c, row, attrs, in, n_in), &g->dx[into]);
    return bp_compose_end(&c);
}

/* The gradient of <op>(x, index) is <op>_grad(dy, index, x). The attributes of both have one
 * layout. */
static enum bp_status index_taken(struct bp_grad *g, enum bp_row_number row, const void *attrs)
{
    return keep_one(g, row, attrs, (struct bp_tensor *[]){g->dy[0], g->in[1], g->in[0]}, 3, 0);
}

/* The gradient of <op>_grad(dy, index, ..) with respect to dy is <op> itself, applied to its
 * gradient. */
static enum bp_status given_back(struct bp_grad *g, enum bp_row_number row)
{
    return keep_one(g, row, g->attrs, (struct bp_tensor *[]){g->dy[0], g->in[1]}, 2, 0);
}

enum bp_status bp_grad_gather(struct bp_grad *g)
{
    return index_taken(g, BP_ROW_gather_grad, g->attrs);
}

enum bp_status bp_grad_gather_grad(struct bp_grad *g)
{
    return given_back(g, BP_ROW_gather);
}

enum bp_status bp_grad_gather_nd(struct bp_grad *g)
{
    return index_taken(g, BP_ROW_gather_nd_grad, g->attrs);
}

enum bp_status bp_grad_gather_nd_grad(struct bp_grad *g)
{
    return given_back(g, BP_ROW_gather_nd);
}

enum bp_status bp_grad_take_along_axis(struct bp_grad *g)
{
    return index_taken(g, BP_ROW_take_along_axis_grad, g->attrs);
}

enum bp_status bp_grad_take_along_axis_grad(struct bp_grad *g)
{
    return given_back(g, BP_ROW_take_along_axis);
}

enum bp_status bp_grad_index_sample(struct bp_grad *g)
{
    struct bp_take_along_axis_grad_attrs a = {.size = sizeof a, .axis = 1};

    return index_taken(g, BP_ROW_take_along_axis_grad, &a);
}

enum bp_status bp_grad_embedding(struct bp_grad *g)
{
    return index_taken(g, BP_ROW_embedding_grad, g->attrs);
}

/* embedding(weight, ids): the gradient takes the place of weight. */
enum bp_status bp_grad_embedding_grad(struct bp_grad *g)
{
    return given_back(g, BP_ROW_embedding);
}

/* y = x plus added updates: dx = dy, and the gradient of updates is dy, read at their indices. */
static enum bp_status index_added(struct bp_grad *g, enum bp_row_number taking, const void *attrs)
{
    if (g->want[0]) g->dx[0] = bp_tensor_retain(g->dy[0]);
    return keep_one(g, taking, attrs, (struct bp_tensor *[]){g->dy[0], g->in[1]}, 2, 2);
}

/* y = x with replaced elements: dx = dy with zeros there. Operator put(x, index, updates) writes
 * them. */
static enum bp_status index_replaced(struct bp_grad *g, enum bp_row_number put,
                                     const void *put_attrs, enum bp_row_number taking,
                                     const void *take_attrs, struct bp_tensor *index)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *dy = g->dy[0];

    if (g->want[0]) {
        struct bp_tensor *in[] = {dy, g->in[1], MAKE(&c, full_like, NULL, g->in[2])};
        bp_compose_keep(&c, bp_compose(&c, put, put_attrs, in, 3), &g->dx[0]);
    }
    if (g->want[2])
        bp_compose_keep(&c,
                        bp_compose(&c, taking, take_attrs, (struct bp_tensor *[]){dy, index}, 2),
                        &g->dx[2]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_index_add(struct bp_grad *g)
{
    const struct bp_index_add_attrs *f = g->attrs;
    struct bp_gather_attrs a = {.size = sizeof a, .axis = f->axis};

    return index_added(g, BP_ROW_gather, &a);
}

enum bp_status bp_grad_scatter_nd_add(struct bp_grad *g)
{
    return index_added(g, BP_ROW_gather_nd, NULL);
}

enum bp_status bp_grad_scatter_nd_update(struct bp_grad *g)
{
    return index_replaced(g, BP_ROW_scatter_nd_update, NULL, BP_ROW_gather_nd, NULL, g->in[1]);
}

enum bp_status bp_grad_scatter_nd(struct bp_grad *g)
{
    return keep_one(g, BP_ROW_gather_nd, NULL, (struct bp_tensor *[]){g->dy[0], g->in[0]}, 2, 1);
}

/* An index of shape N 1 is used as one of shape N. */
enum bp_status bp_grad_scatter(struct bp_grad *g)
{
    struct bp_scatter_attrs put = {.size = sizeof put, .overwrite = 1};
    struct bp_gather_attrs take = {.size = sizeof take, .axis = 0};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *line = bp_compose_reshape(&c, g->in[1], 1, g->in[1]->shape);
    enum bp_status status = c.status;

    if (status == BP_OK)
        status = index_replaced(g, BP_ROW_scatter, &put, BP_ROW_gather, &take, line);
    c.status = status;
    return bp_compose_end(&c);
}

/* y = x u: dx = dy times the factors, which are ones with the updates written into them. */
static enum bp_status index_multiplied(struct bp_grad *g, const struct bp_put_along_axis_attrs *put,
                                       const struct bp_take_along_axis_attrs *take)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *index = g->in[1], *dy = g->dy[0];

    if (g->want[0]) {
        struct bp_full_like_attrs one = {.size = sizeof one, .value = 1};
        struct bp_tensor *ones = MAKE(&c, full_like, &one, x);
        struct bp_tensor *by = MAKE(&c, put_along_axis, put, ones, index, g->in[2]);
        bp_compose_keep(&c, MAKE(&c, mul, NULL, dy, by), &g->dx[0]);
    }
    if (g->want[2])
        bp_compose_keep(&c,
                        MAKE(&c, take_along_axis, take, MAKE(&c, mul, NULL, dy, x), index),
                        &g->dx[2]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_put_along_axis(struct bp_grad *g)
{
    const struct bp_put_along_axis_attrs *put = g->attrs;
    struct bp_take_along_axis_attrs take = {.size = sizeof take, .axis = put->axis};

    if (put->reduce == 2) return index_multiplied(g, put, &take);
    if (put->reduce == 1) return index_added(g, BP_ROW_take_along_axis, &take);
    return index_replaced(g, BP_ROW_put_along_axis, put, BP_ROW_take_along_axis, &take, g->in[1]);
}

enum bp_status bp_grad_multiplex(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *index = g->in[0];

    for (uint32_t i = 1; i < g->n_in; i++) {
        struct bp_multiplex_grad_attrs a = {.size = sizeof a, .which = i - 1};
        if (!g->want[i] || c.status) continue;
        struct bp_tensor *d = MAKE(&c, multiplex_grad, &a, g->dy[0], index);
        if (!c.status) g->dx[i] = bp_tensor_retain(d); /* else the caller releases dx */
    }
    return bp_compose_end(&c);
}

enum bp_status bp_grad_multiplex_grad(struct bp_grad *g)
{
    return given_back(g, BP_ROW_multiplex_grad);
}

enum bp_status bp_grad_masked_select(struct bp_grad *g)
{
    return given_back(g, BP_ROW_masked_select_grad);
}

enum bp_status bp_grad_masked_select_grad(struct bp_grad *g)
{
    return given_back(g, BP_ROW_masked_select);
}

/* Returns the part of dy that set_value replaced: a view, or a copy if a step is negative. */
static struct bp_tensor *index_replaced_part(struct bp_compose *c,
                                             const struct bp_set_value_attrs *f,
                                             struct bp_tensor *dy)
{
    struct bp_slice_attrs part = {.size = sizeof part, .starts = f->starts, .ends = f->ends,
                                  .axes = f->axes, .steps = f->steps};
    struct bp_strided_slice_attrs any = {.size = sizeof any, .starts = f->starts, .ends = f->ends,
                                         .axes = f->axes, .steps = f->steps};

    for (int64_t i = 0; i < f->steps.n; i++)
        if (f->steps.at[i] < 0) return MAKE(c, strided_slice, &any, dy);
    return MAKE(c, slice, &part, dy);
}

enum bp_status bp_grad_set_value(struct bp_grad *g)
{
    const struct bp_set_value_attrs *f = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0]) bp_compose_keep(&c, MAKE(&c, set_value, f, g->dy[0]), &g->dx[0]);
    if (g->want[1])
        bp_compose_keep(&c, bp_compose_sum_to(&c, index_replaced_part(&c, f, g->dy[0]), g->in[1]),
                        &g->dx[1]);
    return bp_compose_end(&c);
}

/* Views x as outer, extent, 1, inner, and repeats the third axis. */
enum bp_status bp_decompose_repeat_interleave(struct bp_decomposition *e)
{
    const struct bp_repeat_interleave_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0];
    int64_t rank = x->view.rank, axis = a->axis < 0 ? a->axis + rank : a->axis;
    int64_t shape[4] = {1, x->shape[axis], 1, 1}, result[BP_RANK_MAX];
    struct bp_expand_attrs repeat = {.size = sizeof repeat, .shape = {shape, 4}};
    struct bp_compose c = bp_compose_begin(e->scope);

    for (int64_t i = 0; i < rank; i++) {
        if (i != axis) shape[i < axis ? 0 : 3] *= x->shape[i];
        result[i] = x->shape[i] * (i == axis ? a->repeats : 1);
    }
    x = bp_compose_reshape(&c, x, 4, shape);
    shape[2] = a->repeats;
    x = MAKE(&c, assign, NULL, MAKE(&c, expand, &repeat, x));
    bp_compose_keep(&c, bp_compose_reshape(&c, x, (uint32_t)rank, result), &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_segment_pool(struct bp_grad *g)
{
    return keep_one(g, BP_ROW_segment_pool_grad, g->attrs,
                    (struct bp_tensor *[]){g->in[0], g->in[1], g->out[0], g->dy[0]}, 4, 0);
}

/* The operator is linear in dy. For max and min, d is multiplied by the gradient that a dy of ones
 * gets, which selects elements, and then summed. */
enum bp_status bp_grad_segment_pool_grad(struct bp_grad *g)
{
    struct bp_segment_pool_attrs sum = *(const struct bp_segment_pool_attrs *)g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *ids = g->in[1], *y = g->in[2], *d = g->dy[0];

    if (g->want[3]) {
        if (sum.mode >= 2) {
            struct bp_full_like_attrs one = {.size = sizeof one, .value = 1};
            struct bp_tensor *ones = MAKE(&c, full_like, &one, y);
            d = MAKE(&c, mul, NULL, d, MAKE(&c, segment_pool_grad, &sum, x, ids, y, ones));
            sum.mode = 0;
        }
        bp_compose_keep(&c, MAKE(&c, segment_pool, &sum, d, ids), &g->dx[3]);
    }
    return bp_compose_end(&c);
}

/* Reversing again restores the order. */
enum bp_status bp_grad_reverse_sequence(struct bp_grad *g)
{
    return given_back(g, BP_ROW_reverse_sequence);
}

enum bp_status bp_decompose_hardmax(struct bp_decomposition *e)
{
    const struct bp_hardmax_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0], *y;
    int64_t axis = a->axis < 0 ? a->axis + x->view.rank : a->axis;
    struct bp_argmax_attrs where = {.size = sizeof where, .axis = axis, .dtype = BP_I64};
    struct bp_one_hot_attrs hot = {.size = sizeof hot, .depth = x->shape[axis], .axis = axis,
                                   .dtype = x->view.dtype, .on = 1};
    struct bp_compose c = bp_compose_begin(e->scope);

    if (!x->view.count) y = MAKE(&c, assign, NULL, x);
    else y = MAKE(&c, one_hot, &hot, MAKE(&c, argmax, &where, x));
    bp_compose_keep(&c, y, &e->out[0]);
    return bp_compose_end(&c);
}
