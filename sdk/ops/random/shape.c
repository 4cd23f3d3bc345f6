/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of operators that draw random numbers, and decomposes some of them. A
 * decomposition draws only once, so that its numbers are those of the call. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

/* The first attributes of all operators that create tensors. */
struct made {
    size_t size;
    struct bp_dims shape;
    int64_t dtype;
};

static enum bp_status take_dtype(struct bp_invocation *inv, int64_t dtype)
{
    const struct bp_opinfo *op = &inv->row->info;

    if (dtype < 0 || dtype > 63 || !(op->types[BP_VAR_T] >> dtype & 1))
        return bp_error(BP_ERR_INVALID, "%s: attribute dtype is %s, which %s does not make",
                        op->name, bp_dtype_name((uint32_t)dtype), op->name);
    inv->out[0].dtype = (uint32_t)dtype;
    return BP_OK;
}

enum bp_status bp_infer_drawn(struct bp_invocation *inv)
{
    const struct made *a = inv->attrs;

    if (a->shape.n > BP_RANK_MAX)
        return bp_error(BP_ERR_INVALID,
                        "%s: attribute shape has %" PRId64 " entries, expected at most %d",
                        inv->row->info.name, a->shape.n, BP_RANK_MAX);
    inv->out[0].rank = (uint32_t)a->shape.n;
    for (int64_t i = 0; i < a->shape.n; i++) inv->out[0].shape[i] = a->shape.at[i];
    return take_dtype(inv, a->dtype);
}

static enum bp_status of_distribution(const char *op, double mean, double std)
{
    if (isfinite(mean) && isfinite(std) && std >= 0) return BP_OK;
    return bp_error(
        BP_ERR_INVALID,
        "%s: attribute mean is %g and std is %g: expected finite numbers, std 0 or more", op, mean,
        std);
}

enum bp_status bp_values_normal(const void *attrs)
{
    const struct bp_normal_attrs *a = attrs;

    return of_distribution("normal", a->mean, a->std);
}

enum bp_status bp_values_truncated_normal(const void *attrs)
{
    const struct bp_truncated_normal_attrs *a = attrs;

    TRY(of_distribution("truncated_normal", a->mean, a->std));
    if (isfinite(a->low) && isfinite(a->high) && a->low < a->high) return BP_OK;
    return bp_error(
        BP_ERR_INVALID,
        "truncated_normal: attribute low is %g and high is %g: expected finite numbers, "
        "low below high",
        a->low, a->high);
}

enum bp_status bp_values_exponential(const void *attrs)
{
    const struct bp_exponential_attrs *a = attrs;

    if (isfinite(a->rate) && a->rate > 0) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "exponential: attribute rate is %g, expected a finite number above 0", a->rate);
}

enum bp_status bp_values_randint(const void *attrs)
{
    const struct bp_randint_attrs *a = attrs;
    bool narrow = a->dtype == BP_I32;

    if (a->low < a->high && (!narrow || (a->low >= INT32_MIN && a->high - 1 <= INT32_MAX)))
        return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "randint: attribute low is %" PRId64 " and high is %" PRId64
                    ": expected low below high%s",
                    a->low, a->high, narrow ? ", and numbers of i32" : "");
}

enum bp_status bp_infer_randperm(struct bp_invocation *inv)
{
    const struct bp_randperm_attrs *a = inv->attrs;

    if (a->n < 0 || (a->dtype == BP_I32 && a->n > INT32_MAX))
        return bp_error(BP_ERR_INVALID,
                        "randperm: attribute n is %" PRId64 ", expected 0 or more%s", a->n,
                        a->dtype == BP_I32 ? ", and no more than i32 can count" : "");
    inv->out[0].rank = 1;
    inv->out[0].shape[0] = a->n;
    return take_dtype(inv, a->dtype);
}

enum bp_status bp_decompose_randperm(struct bp_decomposition *e)
{
    const struct bp_randperm_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_randint_attrs draw = {.size = sizeof draw,
                                    .shape = {&a->n, 1},
                                    .dtype = BP_I64,
                                    .low = -(INT64_C(1) << 62),
                                    .high = INT64_C(1) << 62};
    struct bp_argsort_attrs order = {.size = sizeof order, .axis = 0};
    struct bp_tensor *y = MAKE(&c, argsort, &order, MAKE(&c, randint, &draw, NULL));

    bp_compose_keep(&c, bp_compose_cast(&c, y, (uint32_t)a->dtype), &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_multinomial(struct bp_invocation *inv)
{
    const struct bp_multinomial_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    int64_t m = x->rank ? x->shape[x->rank - 1] : 0;

    if (x->rank != 1 && x->rank != 2)
        return bp_error(BP_ERR_INVALID, "multinomial: x has %u axes, expected one or two", x->rank);
    if (a->n < 0 || (a->replacement ? a->n && !m : a->n > m))
        return bp_error(BP_ERR_INVALID,
                        "multinomial: attribute n is %" PRId64 " for %" PRId64
                        " categories: expected 0 or more%s",
                        a->n, m,
                        a->replacement ? ", and a category to draw"
                                       : ", and without replacement no more than categories");
    bp_shape_copy(&inv->out[0], x);
    inv->out[0].shape[x->rank - 1] = a->n;
    inv->out[0].dtype = BP_I64;
    return BP_OK;
}

enum bp_status bp_values_dropout(const void *attrs)
{
    const struct bp_dropout_attrs *a = attrs;

    if (!(a->p >= 0 && a->p <= 1))
        return bp_error(BP_ERR_INVALID, "dropout: attribute p is %g, expected 0 to 1", a->p);
    if (a->mode == 0 || a->mode == 1) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "dropout: attribute mode is %" PRId64
                    ", expected 0 (scaled in training) or 1 (scaled without training)",
                    a->mode);
}

enum bp_status bp_infer_dropout(struct bp_invocation *inv)
{
    for (uint32_t i = 0; i < 2; i++) bp_shape_copy(&inv->out[i], bp_invocation_in(inv, 0));
    inv->out[1].dtype = BP_BOOL;
    return BP_OK;
}

enum bp_status bp_infer_dropout_grad(struct bp_invocation *inv)
{
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return bp_shape_expect(inv, 1, &inv->out[0]);
}

/* dropout and dropout_grad are both linear, and their attributes have one layout. */
static enum bp_status random_masked(struct bp_grad *g, struct bp_tensor *kept)
{
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[0] && g->dy[0])
        bp_compose_keep(&c, MAKE(&c, dropout_grad, g->attrs, g->dy[0], kept), &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_dropout(struct bp_grad *g)
{
    return random_masked(g, g->out[1]);
}

enum bp_status bp_grad_dropout_grad(struct bp_grad *g)
{
    return random_masked(g, g->in[1]);
}

enum bp_status bp_values_gumbel_softmax(const void *attrs)
{
    const struct bp_gumbel_softmax_attrs *a = attrs;

    if (isfinite(a->temperature) && a->temperature > 0) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "gumbel_softmax: attribute temperature is %g, expected a finite number above 0",
                    a->temperature);
}

enum bp_status bp_infer_gumbel_softmax(struct bp_invocation *inv)
{
    const struct bp_gumbel_softmax_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &axis));
    if (!x->shape[axis])
        return bp_error(BP_ERR_INVALID,
                        "gumbel_softmax: axis %u has extent 0, expected one or more", axis);
    for (uint32_t i = 0; i < 2; i++) bp_shape_copy(&inv->out[i], x);
    return BP_OK;
}

/* Returns a tensor of `dtype` with 1 at the largest element along axis, else 0. */
static struct bp_tensor *random_largest(struct bp_compose *c, struct bp_tensor *y, int64_t axis,
                                        uint32_t dtype)
{
    struct bp_argmax_attrs where = {.size = sizeof where, .axis = axis, .dtype = BP_I64};
    struct bp_one_hot_attrs hot = {.size = sizeof hot, .axis = axis, .dtype = dtype, .on = 1};

    if (c->status) return NULL;
    if (axis < 0) axis += y->view.rank;
    hot.depth = y->view.shape[axis];
    return MAKE(c, one_hot, &hot, MAKE(c, argmax, &where, y), NULL);
}

enum bp_status bp_decompose_gumbel_softmax(struct bp_decomposition *e)
{
    const struct bp_gumbel_softmax_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *u, *y;
    struct bp_uniform_attrs draw = {.size = sizeof draw, .high = 1};
    struct bp_softmax_attrs along = {.size = sizeof along, .axis = a->axis};
    uint32_t dtype = e->in[0]->view.dtype;

    if (c.status) return bp_compose_end(&c);
    draw.shape = (struct bp_dims){x->shape, x->view.rank};
    draw.dtype = x->view.dtype;
    u = MAKE(&c, log, NULL, MAKE(&c, uniform, &draw, NULL));
    u = MAKE(&c, log, NULL, bp_compose_scale(&c, u, -1, 0));
    y = bp_compose_scale(&c, MAKE(&c, sub, NULL, x, u), 1 / a->temperature, 0);
    y = MAKE(&c, softmax, &along, y);
    if (e->want & 1) bp_compose_keep(&c, bp_compose_cast(&c, y, dtype), &e->out[0]);
    if (e->want >> 1 & 1) bp_compose_keep(&c, random_largest(&c, y, a->axis, dtype), &e->out[1]);
    return bp_compose_end(&c);
}

/* Uses the result of the forward: computing the decomposition again would draw other numbers. */
enum bp_status bp_grad_gumbel_softmax(struct bp_grad *g)
{
    const struct bp_gumbel_softmax_attrs *a = g->attrs;
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_softmax_grad_attrs along = {.size = sizeof along, .axis = a->axis};
    struct bp_tensor *dy = g->dy[0], *hard = g->n_out > 1 ? g->dy[1] : NULL;

    if (dy && hard) dy = MAKE(&c, add, NULL, dy, hard);
    else if (hard) dy = hard;
    if (g->want[0] && dy) {
        struct bp_tensor *dx = MAKE(&c, softmax_grad, &along, g->out[0], dy);
        bp_compose_keep(&c, bp_compose_scale(&c, dx, 1 / a->temperature, 0), &g->dx[0]);
    }
    return bp_compose_end(&c);
}

/* Checks low, high and their distance after rounding to the type of the computation, f64 or f32. */
enum bp_status bp_values_uniform(const void *attrs)
{
    const struct bp_uniform_attrs *a = attrs;
    bool wide = a->dtype == BP_F64;
    double low = wide ? a->low : (float)a->low, high = wide ? a->high : (float)a->high;
    double width = wide ? high - low : (float)(high - low);

    if (isfinite(low) && isfinite(high) && isfinite(width) && a->low <= a->high) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "uniform: attribute low is %g and high is %g: expected finite %s with low not "
                    "above high, and a finite distance",
                    a->low, a->high, wide ? "f64 numbers" : "f32 numbers");
}
