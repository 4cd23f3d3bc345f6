/* SPDX-License-Identifier: Apache-2.0 */
/* decompose.c: infers shapes of pools that have no kernels and decomposes them into other
 * operators. */
#include "shape.h"

#include <call/compose.h>

#include <inttypes.h>

/* Returns a tensor of rank 0 that holds 0, in the dtype of x: the sum of no elements. */
static struct bp_tensor *zero_of(struct bp_compose *c, struct bp_tensor *x)
{
    static const int64_t first = 0;
    struct bp_slice_attrs none = {.size = sizeof none, .starts = {&first, 1}, .ends = {&first, 1}};
    struct bp_sum_attrs all = {.size = sizeof all};
    int64_t line = x->view.count;

    return MAKE(c, sum, &all, MAKE(c, slice, &none, bp_compose_reshape(c, x, 1, &line)));
}

enum bp_status bp_values_lp_pool(const void *attrs)
{
    const struct bp_lp_pool_attrs *a = attrs;

    if (a->p > 0 && a->p <= 1e6) return BP_OK;
    return bp_error(BP_ERR_INVALID, "lp_pool: attribute p is %g, expected above 0, at most 1e6",
                    a->p);
}

static struct bp_tensor *to_power(struct bp_compose *c, struct bp_tensor *x, double p)
{
    if (p == 1) return x;
    if (p == 2) return MAKE(c, mul, NULL, x, x);
    if (p == 0.5) return MAKE(c, sqrt, NULL, x);
    return MAKE(c, pow, NULL, x, bp_compose_scale(c, zero_of(c, x), 1, p));
}

enum bp_status bp_decompose_lp_pool(struct bp_decomposition *e)
{
    const struct bp_lp_pool_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]);
    struct bp_avg_pool_attrs sum = {.ceil_mode = a->ceil_mode, .adaptive = a->adaptive,
                                    .divisor = 1};

    memcpy(sum.window, a->window, sizeof sum.window);
    memcpy(sum.stride, a->stride, sizeof sum.stride);
    memcpy(sum.dilation, a->dilation, sizeof sum.dilation);
    memcpy(sum.pad, a->pad, sizeof sum.pad);
    sum.size = sizeof sum;
    if (a->p != 2) x = MAKE(&c, abs, NULL, x);
    x = MAKE(&c, avg_pool, &sum, to_power(&c, x, a->p));
    return bp_compose_give(e, &c, to_power(&c, x, 1 / a->p));
}

/* size: extents of the result's spatial axes. */
static enum bp_status of_size(const struct bp_invocation *inv, const int64_t *size,
                              struct bp_type *out)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t n = x->rank - 2u;

    TRY(bp_pool_rank(inv, x));
    TRY(bp_pool_unused(inv, "extents", size, n, 1));
    out->rank = x->rank;
    memcpy(out->shape, x->shape, 2 * sizeof *x->shape);
    for (uint32_t i = 0; i < n; i++) {
        if (size[i] < 1 || x->shape[i + 2] < 1)
            return bp_error(BP_ERR_INVALID,
                            "%s: extents[%u] is %" PRId64 " and the extent of x there %" PRId64
                            ", expected 1 or more",
                            inv->row->info.name, i, size[i], x->shape[i + 2]);
        out->shape[i + 2] = size[i];
    }
    return BP_OK;
}

enum bp_status bp_infer_adaptive_pool(struct bp_invocation *inv)
{
    const struct bp_adaptive_avg_pool_attrs *a = inv->attrs;

    return of_size(inv, a->extents, &inv->out[0]);
}

enum bp_status bp_infer_adaptive_max_pool(struct bp_invocation *inv)
{
    const struct bp_adaptive_max_pool_attrs *a = inv->attrs;

    TRY(of_size(inv, a->extents, &inv->out[0]));
    inv->out[1].rank = inv->out[0].rank;
    memcpy(inv->out[1].shape, inv->out[0].shape, sizeof inv->out[0].shape);
    return bp_pool_index(inv, a->dtype, &inv->out[1]);
}

static const int64_t spatial[] = {2, 3, 4};

#define ADAPTIVE \
    .adaptive = 1, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, \
    .window = {a->extents[0], a->extents[1], a->extents[2]}

enum bp_status bp_decompose_adaptive_avg_pool(struct bp_decomposition *e)
{
    const struct bp_adaptive_avg_pool_attrs *a = e->attrs;
    struct bp_avg_pool_attrs pool = {.size = sizeof pool, ADAPTIVE};
    struct bp_mean_attrs all = {.size = sizeof all, .axes = {spatial, e->in[0]->view.rank - 2},
                                .keep = 1};
    struct bp_compose c = bp_compose_begin(e->scope);

    if (a->extents[0] * a->extents[1] * a->extents[2] == 1)
        return bp_compose_give(e, &c, MAKE(&c, mean, &all, e->in[0]));
    return bp_compose_give(e, &c, MAKE(&c, avg_pool, &pool, e->in[0]));
}

enum bp_status bp_decompose_adaptive_max_pool(struct bp_decomposition *e)
{
    const struct bp_adaptive_max_pool_attrs *a = e->attrs;
    struct bp_max_pool_attrs pool = {.size = sizeof pool, ADAPTIVE};
    struct bp_max_pool_with_index_attrs both = {.size = sizeof both, ADAPTIVE, .dtype = a->dtype};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *out[2] = {NULL};

    if (!(e->want & 2)) return bp_compose_give(e, &c, MAKE(&c, max_pool, &pool, e->in[0]));
    bp_compose_outputs(&c, BP_ROW_max_pool_with_index, &both, e->in, 1, 3, out);
    if (e->want & 1) bp_compose_keep(&c, out[0], &e->out[0]);
    bp_compose_keep(&c, out[1], &e->out[1]);
    return bp_compose_end(&c);
}

/* `flat` is the first attribute of all global pools. */
enum bp_status bp_infer_global_pool(struct bp_invocation *inv)
{
    const struct bp_global_avg_pool_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);

    TRY(bp_pool_rank(inv, x));
    for (uint32_t i = 2; i < x->rank; i++)
        if (x->shape[i] < 1)
            return bp_error(BP_ERR_INVALID, "%s: spatial axis %u of x has extent 0",
                            inv->row->info.name, i - 2);
    inv->out[0].rank = a->flat ? 2 : x->rank;
    memcpy(inv->out[0].shape, x->shape, 2 * sizeof *x->shape);
    for (uint32_t i = 2; i < inv->out[0].rank; i++) inv->out[0].shape[i] = 1;
    return BP_OK;
}

#define GLOBAL .axes = {spatial, e->in[0]->view.rank - 2}, .keep = !a->flat

enum bp_status bp_decompose_global_avg_pool(struct bp_decomposition *e)
{
    const struct bp_global_avg_pool_attrs *a = e->attrs;
    struct bp_mean_attrs all = {.size = sizeof all, GLOBAL};
    struct bp_compose c = bp_compose_begin(e->scope);

    return bp_compose_give(e, &c, MAKE(&c, mean, &all, e->in[0]));
}

enum bp_status bp_decompose_global_max_pool(struct bp_decomposition *e)
{
    const struct bp_global_max_pool_attrs *a = e->attrs;
    struct bp_max_attrs all = {.size = sizeof all, GLOBAL};
    struct bp_compose c = bp_compose_begin(e->scope);

    return bp_compose_give(e, &c, MAKE(&c, max, &all, e->in[0]));
}

enum bp_status bp_decompose_global_lp_pool(struct bp_decomposition *e)
{
    const struct bp_global_lp_pool_attrs *a = e->attrs;
    struct bp_norm_attrs all = {.size = sizeof all, GLOBAL, .p = a->p};
    struct bp_compose c = bp_compose_begin(e->scope);

    return bp_compose_give(e, &c, MAKE(&c, norm, &all, e->in[0]));
}

enum bp_status bp_infer_max_unpool(struct bp_invocation *inv)
{
    const struct bp_max_unpool_attrs *a = inv->attrs;
    struct bp_type like = {0};

    TRY(of_size(inv, a->extents, &inv->out[0]));
    bp_shape_copy(&like, bp_invocation_in(inv, 0));
    return bp_shape_expect(inv, 1, &like);
}

/* Reorders elements whose spatial axes were stored first axis innermost (column-major) to row-major
 * order. */
static struct bp_tensor *from_columns(struct bp_compose *c, struct bp_tensor *y, uint32_t rank,
                                      const int64_t *shape)
{
    int64_t transposed[BP_RANK_MAX], perm[BP_RANK_MAX];
    struct bp_transpose_attrs back = {.size = sizeof back, .perm = {perm, rank}};

    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = i < 2 ? i : rank + 1 - i;
        transposed[i] = shape[perm[i]];
    }
    y = MAKE(c, transpose, &back, bp_compose_reshape(c, y, rank, transposed));
    return MAKE(c, assign, NULL, y);
}

enum bp_status bp_decompose_max_unpool(struct bp_decomposition *e)
{
    const struct bp_max_unpool_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0], *index = e->in[1], *y;
    struct bp_compose c = bp_compose_begin(e->scope);
    uint32_t rank = x->view.rank, axes = a->whole ? 1 : 3;
    int64_t shape[BP_RANK_MAX] = {x->shape[0], x->shape[1]}, places = 1, taken = 1;
    int64_t to[] = {x->shape[0], x->shape[1], 1}, from[] = {x->shape[0], x->shape[1], 1};
    struct bp_expand_attrs room = {.size = sizeof room, .shape = {to, axes}};
    struct bp_put_along_axis_attrs put = {.size = sizeof put, .axis = axes - 1};

    for (uint32_t i = 2; i < rank; i++) {
        places *= shape[i] = a->extents[i - 2];
        taken *= x->shape[i];
    }
    to[2] = places;
    from[2] = taken;
    if (a->whole) {
        to[0] *= to[1] * places;
        from[0] = x->view.count;
    }
    y = MAKE(&c, assign, NULL, MAKE(&c, expand, &room, zero_of(&c, x)));
    y = MAKE(&c, put_along_axis, &put, y, bp_compose_reshape(&c, index, axes, from),
             bp_compose_reshape(&c, x, axes, from));
    y = a->column_major ? from_columns(&c, y, rank, shape) : bp_compose_reshape(&c, y, rank, shape);
    return bp_compose_give(e, &c, y);
}

enum bp_status bp_infer_maxout(struct bp_invocation *inv)
{
    const struct bp_maxout_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    if (a->groups < 1 || x->shape[axis] % a->groups || x->rank == BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID,
                        "maxout: groups is %" PRId64 ", expected a divisor of the extent of axis "
                        "%u, %" PRId64 ", and at most %d axes",
                        a->groups, axis, x->shape[axis], BP_RANK_MAX - 1);
    bp_shape_copy(&inv->out[0], x);
    inv->out[0].shape[axis] /= a->groups;
    return BP_OK;
}

enum bp_status bp_decompose_maxout(struct bp_decomposition *e)
{
    const struct bp_maxout_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0];
    uint32_t rank = x->view.rank, at = 0;
    int64_t shape[BP_RANK_MAX], axis = (a->axis < 0 ? a->axis + rank : a->axis) + 1;
    struct bp_max_attrs best = {.size = sizeof best, .axes = {&axis, 1}};

    for (uint32_t i = 0; i < rank; i++) {
        shape[at++] = i + 1 == axis ? x->shape[i] / a->groups : x->shape[i];
        if (i + 1 == axis) shape[at++] = a->groups;
    }
    return bp_compose_give(e, &c, MAKE(&c, max, &best, bp_compose_reshape(&c, x, rank + 1, shape)));
}
