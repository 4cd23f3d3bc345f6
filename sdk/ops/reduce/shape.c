/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of reductions over axes, decomposes mean, var, std and others, and builds
 * gradients. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <math.h>

/* The first attributes of all reductions. */
struct axes {
    size_t size;
    struct bp_dims axes;
    int64_t keep;
};
#define BEGINS(op) \
    _Static_assert(offsetof(struct bp_##op##_attrs, axes) == offsetof(struct axes, axes) && \
                       offsetof(struct bp_##op##_attrs, keep) == offsetof(struct axes, keep), #op)
BEGINS(mean);
BEGINS(max);
BEGINS(min);
BEGINS(amax);
BEGINS(amin);
BEGINS(prod);
BEGINS(any);
BEGINS(all);
BEGINS(count_nonzero);
BEGINS(nansum);
BEGINS(nanmean);
BEGINS(logsumexp);
BEGINS(var);
BEGINS(std);
BEGINS(norm);
BEGINS(frobenius_norm);
#undef BEGINS

enum bp_status bp_infer_reduce(struct bp_invocation *inv)
{
    const struct axes *a = inv->attrs;

    return bp_shape_reduce(inv, bp_invocation_in(inv, 0), a->axes, a->keep, &inv->out[0]);
}

enum bp_status bp_infer_reduce_bool(struct bp_invocation *inv)
{
    inv->out[0].dtype = BP_BOOL;
    return bp_infer_reduce(inv);
}

enum bp_status bp_infer_reduce_count(struct bp_invocation *inv)
{
    inv->out[0].dtype = BP_I64;
    return bp_infer_reduce(inv);
}

static int64_t reduce_count_of(uint32_t rank, const int64_t *shape)
{
    int64_t count = 1;

    for (uint32_t i = 0; i < rank; i++) count *= shape[i];
    return count;
}

static enum bp_status reduce_nothing(const struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    char text[BP_TYPE_TEXT];

    return bp_error(BP_ERR_INVALID,
                    "%s: x is %s: there is no element to take, expected one or more",
                    inv->row->info.name,
                    bp_type_text(x->dtype, x->rank, x->shape, text, sizeof text));
}

enum bp_status bp_infer_minmax(struct bp_invocation *inv)
{
    TRY(bp_infer_reduce(inv));
    if (!bp_invocation_in(inv, 0)->count && reduce_count_of(inv->out[0].rank, inv->out[0].shape))
        return reduce_nothing(inv);
    return BP_OK;
}

/* argmax and argmin share one layout of attributes. */
enum bp_status bp_infer_arg_minmax(struct bp_invocation *inv)
{
    const struct bp_argmax_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis = 0;

    if (a->dtype != BP_I64 && a->dtype != BP_I32)
        return bp_error(BP_ERR_INVALID, "%s: attribute dtype is %s, expected i32 or i64",
                        inv->row->info.name, bp_dtype_name((uint32_t)a->dtype));
    if (!a->flatten) TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    TRY(bp_shape_reduce(inv, x, (struct bp_dims){&(int64_t){axis}, !a->flatten}, a->keep,
                        &inv->out[0]));
    inv->out[0].dtype = (uint32_t)a->dtype;
    if (!x->count && reduce_count_of(inv->out[0].rank, inv->out[0].shape))
        return reduce_nothing(inv);
    return BP_OK;
}

/* Lists the axes of x that are reduced, in ascending order; all axes if the attribute names none.
 * Returns their number. */
static int64_t axes_of(const struct axes *a, const struct bp_tensor *x, int64_t *out_axes)
{
    int64_t rank = x->view.rank, n = 0;
    uint32_t goes = 0;

    for (int64_t i = 0; i < a->axes.n; i++)
        goes |= 1u << (a->axes.at[i] < 0 ? a->axes.at[i] + rank : a->axes.at[i]);
    for (int64_t i = 0; i < rank; i++)
        if (!a->axes.n || goes >> i & 1) out_axes[n++] = i;
    return n;
}

/* Returns t, which has the shape of a result, with extent 1 in place of the reduced axes. */
static struct bp_tensor *as_kept(struct bp_compose *c, const struct axes *a, struct bp_tensor *t,
                                 const struct bp_tensor *x)
{
    int64_t axes[BP_RANK_MAX], shape[BP_RANK_MAX], n;

    if (c->status || a->keep) return t;
    n = axes_of(a, x, axes);
    for (uint32_t i = 0; i < x->view.rank; i++) shape[i] = x->shape[i];
    for (int64_t i = 0; i < n; i++) shape[axes[i]] = 1;
    return bp_compose_reshape(c, t, x->view.rank, shape);
}

/* The number of elements of x that are reduced to one element. */
static int64_t terms_of(const struct axes *a, const struct bp_tensor *x)
{
    int64_t axes[BP_RANK_MAX], n = axes_of(a, x, axes), terms = 1;

    for (int64_t i = 0; i < n; i++) terms *= x->shape[axes[i]];
    return terms;
}

static struct bp_tensor *reduce_sum_of(struct bp_compose *c, const struct axes *a,
                                       struct bp_tensor *x, bool keep)
{
    struct bp_sum_attrs sum = {.size = sizeof sum, .axes = a->axes, .keep = keep};

    return MAKE(c, sum, &sum, x);
}

/* 1 where t is not NaN, else 0. */
static struct bp_tensor *is_number(struct bp_compose *c, struct bp_tensor *t)
{
    uint32_t dtype = c->status ? 0 : t->view.dtype;

    return bp_compose_cast(c, MAKE(c, logical_not, NULL, MAKE(c, isnan, NULL, t)), dtype);
}

/* The mean of no terms is 0 / 0. */
static struct bp_tensor *mean_of(struct bp_compose *c, const struct axes *a, struct bp_tensor *x,
                                 bool keep)
{
    if (c->status) return NULL;
    return bp_compose_scale(c, reduce_sum_of(c, a, x, keep), 1 / (double)terms_of(a, x), 0);
}

enum bp_status bp_decompose_mean(struct bp_decomposition *e)
{
    const struct axes *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);

    return bp_compose_give(e, &c, mean_of(&c, a, bp_compose_widen(&c, e->in[0]), a->keep));
}

enum bp_status bp_decompose_nanmean(struct bp_decomposition *e)
{
    const struct axes *a = e->attrs;
    struct bp_nansum_attrs sum = {.size = sizeof sum, .axes = a->axes, .keep = a->keep};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]);

    return bp_compose_give(e, &c, MAKE(&c, div, NULL, MAKE(&c, nansum, &sum, x),
                            reduce_sum_of(&c, a, is_number(&c, x), a->keep)));
}

/* Returns the deviations from the mean, and sets the divisor of their squares. */
static struct bp_tensor *reduce_deviations(struct bp_compose *c, struct bp_decomposition *e,
                                           double *out_n)
{
    const struct bp_var_attrs *a = e->attrs;
    struct bp_tensor *x = bp_compose_widen(c, e->in[0]);

    *out_n = (double)terms_of(e->attrs, e->in[0]) - (a->unbiased ? 1 : 0);
    return MAKE(c, sub, NULL, x, mean_of(c, e->attrs, x, true));
}

enum bp_status bp_decompose_var(struct bp_decomposition *e)
{
    const struct axes *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    double n;
    struct bp_tensor *d = reduce_deviations(&c, e, &n);

    d = reduce_sum_of(&c, a, MAKE(&c, mul, NULL, d, d), a->keep);
    return bp_compose_give(e, &c, bp_compose_scale(&c, d, 1 / (n > 0 ? n : 0), 0));
}

static struct bp_tensor *reduce_norm_of(struct bp_compose *c, const struct axes *a,
                                        struct bp_tensor *x)
{
    struct bp_norm_attrs norm = {.size = sizeof norm, .axes = a->axes, .keep = a->keep, .p = 2};

    return MAKE(c, norm, &norm, x);
}

enum bp_status bp_decompose_std(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    double n;
    struct bp_tensor *d = reduce_norm_of(&c, e->attrs, reduce_deviations(&c, e, &n));

    return bp_compose_give(e, &c, bp_compose_scale(&c, d, 1 / sqrt(n > 0 ? n : 0), 0));
}

enum bp_status bp_decompose_frobenius_norm(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);

    return bp_compose_give(e, &c, reduce_norm_of(&c, e->attrs, e->in[0]));
}

/* Gradients of operators with one input; dx is the result of the composition. */
/* 1 where x equals its maximum (or minimum), else 0. */
static struct bp_tensor *reduce_holders(struct bp_compose *c, struct bp_grad *g)
{
    struct bp_tensor *y = as_kept(c, g->attrs, g->out[0], g->in[0]);

    return bp_compose_cast(c, MAKE(c, equal, NULL, g->in[0], y), g->in[0]->view.dtype);
}

enum bp_status bp_grad_reduce_minmax(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (!g->want[0]) return BP_OK;
    return bp_compose_dx(
        g, &c,
        MAKE(&c, mul, NULL, reduce_holders(&c, g), as_kept(&c, g->attrs, g->dy[0], g->in[0])));
}

enum bp_status bp_grad_shared_minmax(struct bp_grad *g)
{
    const struct axes *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *held, *dy;

    if (!g->want[0]) return BP_OK;
    held = reduce_holders(&c, g);
    dy = bp_compose_widen(&c, as_kept(&c, a, g->dy[0], g->in[0]));
    dy = MAKE(&c, div, NULL, dy, reduce_sum_of(&c, a, bp_compose_widen(&c, held), true));
    dy = bp_compose_cast(&c, dy, g->in[0]->view.dtype);
    return bp_compose_dx(g, &c, MAKE(&c, mul, NULL, held, dy));
}

/* Moves the reduced axes of t to the end, or back to their positions. */
static struct bp_tensor *reduce_permuted(struct bp_compose *c, const struct axes *a,
                                         struct bp_tensor *t, const struct bp_tensor *x, bool back)
{
    int64_t goes[BP_RANK_MAX], perm[BP_RANK_MAX], inverse[BP_RANK_MAX], rank = x->view.rank, at = 0;
    int64_t n = axes_of(a, x, goes);
    struct bp_transpose_attrs attrs = {.size = sizeof attrs, .perm = {back ? inverse : perm, rank}};

    for (int64_t i = 0, next = 0; i < rank; i++) {
        if (next < n && goes[next] == i) next++;
        else perm[at++] = i;
    }
    for (int64_t i = 0; i < n; i++) perm[at++] = goes[i];
    for (int64_t i = 0; i < rank; i++) inverse[perm[i]] = i;
    return rank > 1 ? MAKE(c, transpose, &attrs, t) : t;
}

/* For each x, the product of all others: the product of those before it times the product of those
 * after it. This is right where an x is 0, too. */
static struct bp_tensor *products_of_others(struct bp_compose *c, struct bp_tensor *x)
{
    struct bp_cumprod_attrs before = {.size = sizeof before, .axis = -1, .exclusive = 1},
                            behind = {.size = sizeof behind, .axis = -1, .exclusive = 1,
                                      .reverse = 1};

    return MAKE(c, mul, NULL, MAKE(c, cumprod, &before, x), MAKE(c, cumprod, &behind, x));
}

enum bp_status bp_grad_prod(struct bp_grad *g)
{
    const struct axes *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *x = g->in[0], *t, *flat;
    int64_t shape[2] = {0, terms_of(a, x)};

    if (!g->want[0]) return BP_OK;
    shape[0] = g->out[0]->view.count;
    t = reduce_permuted(&c, a, bp_compose_widen(&c, x), x, false);
    flat = products_of_others(&c, bp_compose_reshape(&c, t, 2, shape));
    if (!c.status) t = bp_compose_reshape(&c, flat, t->view.rank, t->shape);
    t = bp_compose_cast(&c, reduce_permuted(&c, a, t, x, true), x->view.dtype);
    return bp_compose_dx(g, &c, MAKE(&c, mul, NULL, t, as_kept(&c, a, g->dy[0], x)));
}

enum bp_status bp_grad_nansum(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (!g->want[0]) return BP_OK;
    return bp_compose_dx(g, &c, MAKE(&c, mul, NULL, is_number(&c, g->in[0]),
                                     as_kept(&c, g->attrs, g->dy[0], g->in[0])));
}

/* dx = dy exp(x - y). */
enum bp_status bp_grad_logsumexp(struct bp_grad *g)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *y;

    if (!g->want[0]) return BP_OK;
    y = as_kept(&c, g->attrs, g->out[0], g->in[0]);
    return bp_compose_dx(g, &c, MAKE(&c, mul, NULL,
                                     MAKE(&c, exp, NULL, MAKE(&c, sub, NULL, g->in[0], y)),
                                     as_kept(&c, g->attrs, g->dy[0], g->in[0])));
}

enum bp_status bp_infer_sum(struct bp_invocation *inv)
{
    const struct bp_sum_attrs *a = inv->attrs;

    return bp_shape_reduce(inv, bp_invocation_in(inv, 0), a->axes, a->keep, &inv->out[0]);
}

enum bp_status bp_infer_sum_grad(struct bp_invocation *inv)
{
    const struct bp_sum_grad_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 1);
    struct bp_type sum;

    TRY(bp_shape_reduce(inv, x, a->axes, a->keep, &sum));
    TRY(bp_shape_expect(inv, 0, &sum));
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}
