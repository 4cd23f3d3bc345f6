/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of all operators of this folder and decomposes layer_norm, rms_norm,
 * group_norm, instance_norm, batch_norm and gradients. decompose.c decomposes lp_normalize,
 * mean_variance_normalization and lrn. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

/* x reshaped to four axes, A G C S. Parameters repeat along A and S. Statistics are taken over C
 * and S or, if by_batch, over A and S (G is 1 then):
 *
 *     layer, rms     the axes before, 1, the normalised axes, 1
 *     group          N, groups, channels of a group, further axes
 *     batch          N, 1, channels, further axes */
struct folded {
    int64_t shape[4];
    bool by_batch, centre;
    double epsilon;
};

static int64_t norm_product(const int64_t *shape, uint32_t begin, uint32_t end)
{
    int64_t n = 1;

    for (uint32_t i = begin; i < end; i++) n *= shape[i];
    return n;
}

static struct folded fold_rows(uint32_t rank, const int64_t *shape, int64_t axis, double epsilon)
{
    uint32_t begin = (uint32_t)(axis < 0 ? axis + rank : axis);

    return (struct folded){
        .shape = {norm_product(shape, 0, begin), 1, norm_product(shape, begin, rank), 1},
        .centre = true,
        .epsilon = epsilon};
}

static struct folded fold_groups(uint32_t rank, const int64_t *shape, int64_t groups,
                                 double epsilon)
{
    return (struct folded){
        .shape = {shape[0], groups, shape[1] / groups, norm_product(shape, 2, rank)},
        .centre = true, .epsilon = epsilon};
}

static struct folded fold_batch(uint32_t rank, const int64_t *shape, double epsilon)
{
    return (struct folded){.shape = {shape[0], 1, shape[1], norm_product(shape, 2, rank)},
                           .by_batch = true, .centre = true, .epsilon = epsilon};
}

/* Checks of inputs and attributes. */
static uint32_t norm_statistic(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16 ? (uint32_t)BP_F32 : dtype;
}

static enum bp_status check_epsilon(const struct bp_invocation *inv, double epsilon)
{
    if (epsilon >= 0) return BP_OK; /* false for NaN */
    return bp_error(BP_ERR_INVALID, "%s: attribute epsilon is %g, expected 0 or more",
                    inv->row->info.name, epsilon);
}

/* Checks that each input from first to last is absent or has this type. */
static enum bp_status expect_all(const struct bp_invocation *inv, uint32_t first, uint32_t last,
                                 const struct bp_type *type)
{
    for (uint32_t i = first; i <= last; i++)
        if (bp_invocation_in(inv, i)) TRY(bp_shape_expect(inv, i, type));
    return BP_OK;
}

/* Checks the saved statistics of a gradient, inputs from 3 on: all are absent, or each has this
 * shape and the dtype that the operator computes in. */
static enum bp_status norm_saved(const struct bp_invocation *inv, const struct bp_type *shape)
{
    const struct bp_opinfo *op = &inv->row->info;
    uint32_t dtype = norm_statistic(bp_invocation_in(inv, 0)->dtype);

    for (uint32_t i = 3; i < op->n_in; i++) {
        const struct bp_view *saved = bp_invocation_in(inv, i);
        if (!saved != !bp_invocation_in(inv, 3))
            return bp_error(BP_ERR_INVALID, "%s: of inputs %s and %s, one is absent: pass both or "
                                            "neither", op->name, op->in[3].name, op->in[4].name);
        if (!saved) continue;
        TRY(bp_shape_expect(inv, i, shape));
        if (saved->dtype != dtype)
            return bp_error(BP_ERR_INVALID, "%s: input %s is %s, expected %s with x of %s",
                            op->name, op->in[i].name, bp_dtype_name(saved->dtype),
                            bp_dtype_name(dtype), bp_dtype_name(bp_invocation_in(inv, 0)->dtype));
    }
    return BP_OK;
}

/* Sets `out` to the shape of the axes begin to end - 1 of x. */
static void norm_part_of(const struct bp_view *x, uint32_t begin, uint32_t end, struct bp_type *out)
{
    out->rank = end - begin;
    for (uint32_t i = begin; i < end; i++) out->shape[i - begin] = x->shape[i];
}

/* The result y has the type of x. Checks that the parameters, inputs 1 to last_param, have the axes
 * from `at` on; the statistics, outputs from 1 on, get the axes before. */
static enum bp_status norm_rows(struct bp_invocation *inv, int64_t at, double epsilon,
                                uint32_t last_param)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type params = {0};
    uint32_t axis;

    TRY(bp_shape_axis(inv, at, x->rank, &axis));
    TRY(check_epsilon(inv, epsilon));
    norm_part_of(x, axis, x->rank, &params);
    TRY(expect_all(inv, 1, last_param, &params));
    bp_shape_copy(&inv->out[0], x);
    for (uint32_t i = 1; i < inv->n_out; i++) {
        norm_part_of(x, 0, axis, &inv->out[i]);
        inv->out[i].dtype = norm_statistic(x->dtype);
    }
    return BP_OK;
}

enum bp_status bp_infer_layer_norm(struct bp_invocation *inv)
{
    const struct bp_layer_norm_attrs *a = inv->attrs;

    return norm_rows(inv, a->axis, a->epsilon, 2);
}

enum bp_status bp_infer_rms_norm(struct bp_invocation *inv)
{
    const struct bp_rms_norm_attrs *a = inv->attrs;

    return norm_rows(inv, a->axis, a->epsilon, 1);
}

/* Input 2 is dy, with the type of x; the outputs are dx and, from 1 on, gradients of parameters. */
static enum bp_status rows_grad(struct bp_invocation *inv, int64_t at, double epsilon)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type saved = {0};
    uint32_t axis;

    TRY(norm_rows(inv, at, epsilon, 1));
    TRY(bp_shape_axis(inv, at, x->rank, &axis));
    TRY(bp_shape_expect(inv, 2, &inv->out[0]));
    norm_part_of(x, 0, axis, &saved);
    TRY(norm_saved(inv, &saved));
    for (uint32_t i = 1; i < inv->n_out; i++) {
        norm_part_of(x, axis, x->rank, &inv->out[i]);
        inv->out[i].dtype = x->dtype;
    }
    return BP_OK;
}

enum bp_status bp_infer_layer_norm_grad(struct bp_invocation *inv)
{
    const struct bp_layer_norm_grad_attrs *a = inv->attrs;

    return rows_grad(inv, a->axis, a->epsilon);
}

enum bp_status bp_infer_rms_norm_grad(struct bp_invocation *inv)
{
    const struct bp_rms_norm_grad_attrs *a = inv->attrs;

    return rows_grad(inv, a->axis, a->epsilon);
}

/* Checks that x has channels, and sets `params` to the type with one number for each channel. */
static enum bp_status norm_channels(struct bp_invocation *inv, double epsilon,
                                    struct bp_type *params)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    TRY(check_epsilon(inv, epsilon));
    if (x->rank < 2)
        return bp_error(BP_ERR_INVALID, "%s: input x has %u axes, expected N, C and any others",
                        inv->row->info.name, x->rank);
    norm_part_of(x, 1, 2, params);
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}

static enum bp_status norm_groups(struct bp_invocation *inv, int64_t n, double epsilon)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type params = {0};

    TRY(norm_channels(inv, epsilon, &params));
    if (n < 1 || x->shape[1] % n)
        return bp_error(BP_ERR_INVALID,
                        "%s: attribute groups is %" PRId64
                        ", expected 1 or more that divide the %" PRId64 " channels",
                        inv->row->info.name, n, x->shape[1]);
    return expect_all(inv, 1, 1, &params);
}

enum bp_status bp_infer_group_norm(struct bp_invocation *inv)
{
    const struct bp_group_norm_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type params = {0};

    TRY(norm_groups(inv, a->groups, a->epsilon));
    norm_part_of(x, 1, 2, &params);
    TRY(expect_all(inv, 2, 2, &params));
    for (uint32_t i = 1; i < 3; i++)
        inv->out[i] = (struct bp_type){.dtype = norm_statistic(x->dtype), .rank = 2,
                                        .shape = {x->shape[0], a->groups}};
    return BP_OK;
}

enum bp_status bp_infer_group_norm_grad(struct bp_invocation *inv)
{
    const struct bp_group_norm_grad_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);

    TRY(norm_groups(inv, a->groups, a->epsilon));
    TRY(norm_saved(inv, &(struct bp_type){.rank = 2, .shape = {x->shape[0], a->groups}}));
    for (uint32_t i = 1; i < 3; i++) norm_part_of(x, 1, 2, &inv->out[i]);
    return bp_shape_expect(inv, 2, &inv->out[0]);
}

enum bp_status bp_infer_instance_norm(struct bp_invocation *inv)
{
    const struct bp_instance_norm_attrs *a = inv->attrs;
    struct bp_type params = {0};

    TRY(norm_channels(inv, a->epsilon, &params));
    return expect_all(inv, 1, 2, &params);
}

/* The parameters and statistics of batch_norm have the dtype that the operator computes in. */
static enum bp_status norm_batch(struct bp_invocation *inv, double epsilon, uint32_t last_param)
{
    const struct bp_opinfo *op = &inv->row->info;
    uint32_t dtype = norm_statistic(bp_invocation_in(inv, 0)->dtype);
    struct bp_type params = {0};

    TRY(norm_channels(inv, epsilon, &params));
    TRY(expect_all(inv, 1, last_param, &params));
    for (uint32_t i = 1; i <= last_param; i++)
        if (bp_invocation_in(inv, i) && bp_invocation_in(inv, i)->dtype != dtype)
            return bp_error(BP_ERR_INVALID, "%s: input %s is %s, expected %s with x of %s",
                            op->name, op->in[i].name,
                            bp_dtype_name(bp_invocation_in(inv, i)->dtype), bp_dtype_name(dtype),
                            bp_dtype_name(bp_invocation_in(inv, 0)->dtype));
    for (uint32_t i = 1; i < inv->n_out; i++) {
        inv->out[i] = params;
        inv->out[i].dtype = dtype;
    }
    return BP_OK;
}

enum bp_status bp_infer_batch_norm(struct bp_invocation *inv)
{
    return norm_batch(inv, ((const struct bp_batch_norm_attrs *)inv->attrs)->epsilon, 4);
}

enum bp_status bp_infer_batch_norm_train(struct bp_invocation *inv)
{
    return norm_batch(inv, ((const struct bp_batch_norm_train_attrs *)inv->attrs)->epsilon, 4);
}

enum bp_status bp_infer_batch_norm_grad(struct bp_invocation *inv)
{
    TRY(norm_batch(inv, ((const struct bp_batch_norm_grad_attrs *)inv->attrs)->epsilon, 1));
    TRY(norm_saved(inv, &inv->out[1])); /* as parameters: one number for each channel */
    return bp_shape_expect(inv, 2, &inv->out[0]);
}

/* Decompositions. mean_of averages over the axes of the statistics, norm_sum_of sums over the axes
 * along which parameters repeat. */
static struct bp_tensor *mean_of(struct bp_compose *c, const struct folded *f, struct bp_tensor *t)
{
    static const int64_t rows[] = {2, 3}, norm_batch[] = {0, 3};
    int64_t n = (f->by_batch ? f->shape[0] : f->shape[2]) * f->shape[3];

    t = bp_compose_sum(c, t, f->by_batch ? norm_batch : rows, 2, true);
    return bp_compose_scale(c, t, 1 / (double)n, 0);
}

static struct bp_tensor *norm_sum_of(struct bp_compose *c, struct bp_tensor *t)
{
    static const int64_t repeated[] = {0, 3};

    return bp_compose_sum(c, t, repeated, 2, true);
}

static struct bp_tensor *as_folded(struct bp_compose *c, const struct folded *f,
                                   struct bp_tensor *t)
{
    return bp_compose_reshape(c, bp_compose_widen(c, t), 4, f->shape);
}

/* Returns a parameter, which may be absent, with four axes. */
static struct bp_tensor *as_parameter(struct bp_compose *c, const struct folded *f,
                                      struct bp_tensor *t)
{
    int64_t shape[4] = {1, f->shape[1], f->shape[2], 1};

    return t ? bp_compose_reshape(c, bp_compose_widen(c, t), 4, shape) : NULL;
}

struct normalised {
    struct bp_tensor *mean, *variance, *r, *h; /* h = (x - mean) r; mean NULL: is not subtracted */
};

static struct normalised norm_normalize(struct bp_compose *c, const struct folded *f,
                                        struct bp_tensor *x)
{
    struct normalised n = {0};

    n.h = as_folded(c, f, x);
    if (f->centre) {
        n.mean = mean_of(c, f, n.h);
        n.h = MAKE(c, sub, NULL, n.h, n.mean);
    }
    n.variance = mean_of(c, f, MAKE(c, mul, NULL, n.h, n.h));
    n.r = MAKE(c, rsqrt, NULL, bp_compose_scale(c, n.variance, 1, f->epsilon));
    n.h = MAKE(c, mul, NULL, n.h, n.r);
    return n;
}

/* As norm_normalize, with statistics that a forward saved. */
static struct normalised norm_with_saved(struct bp_compose *c, const struct folded *f,
                                         struct bp_tensor *x, struct bp_tensor *mean,
                                         struct bp_tensor *r)
{
    int64_t rows[4] = {f->shape[0], f->shape[1], 1, 1}, batch[4] = {1, 1, f->shape[2], 1};
    const int64_t *shape = f->by_batch ? batch : rows;
    struct normalised n = {0};

    n.h = as_folded(c, f, x);
    if (f->centre) {
        n.mean = bp_compose_reshape(c, mean, 4, shape);
        n.h = MAKE(c, sub, NULL, n.h, n.mean);
    }
    n.r = bp_compose_reshape(c, r, 4, shape);
    n.h = MAKE(c, mul, NULL, n.h, n.r);
    return n;
}

/* Returns h scale + bias; scale and bias may be absent. */
static struct bp_tensor *norm_scaled(struct bp_compose *c, const struct folded *f,
                                     struct bp_tensor *h, struct bp_tensor *scale,
                                     struct bp_tensor *bias)
{
    if (scale) h = MAKE(c, mul, NULL, h, as_parameter(c, f, scale));
    if (bias) h = MAKE(c, add, NULL, h, as_parameter(c, f, bias));
    return h;
}

/* Sets output i to t, with this shape and dtype, if the output is wanted. */
static void norm_give(struct bp_decomposition *e, struct bp_compose *c, uint32_t i,
                      struct bp_tensor *t, uint32_t rank, const int64_t *shape, uint32_t dtype)
{
    if (!(e->want >> i & 1)) return;
    t = bp_compose_cast(c, t, dtype);
    bp_compose_keep(c, bp_compose_reshape(c, t, rank, shape), &e->out[i]);
}

/* As norm_give, with the shape and dtype of `like`. */
static void give_as(struct bp_decomposition *e, struct bp_compose *c, uint32_t i,
                    struct bp_tensor *t, const struct bp_tensor *like)
{
    norm_give(e, c, i, t, like->view.rank, like->shape, like->view.dtype);
}

/* Sets y, and the statistics, outputs from 1 on: the mean if it is subtracted, then r. */
static enum bp_status norm_expand(struct bp_decomposition *e, const struct folded *f,
                                  struct bp_tensor *scale, struct bp_tensor *bias, uint32_t rank,
                                  const int64_t *shape)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0];
    struct normalised n = norm_normalize(&c, f, x);
    uint32_t dtype = norm_statistic(x->view.dtype);

    give_as(e, &c, 0, norm_scaled(&c, f, n.h, scale, bias), x);
    if (f->centre) norm_give(e, &c, 1, n.mean, rank, shape, dtype);
    norm_give(e, &c, f->centre ? 2 : 1, n.r, rank, shape, dtype);
    return bp_compose_end(&c);
}

static uint32_t axes_before(const struct bp_tensor *x, int64_t axis)
{
    return (uint32_t)(axis < 0 ? axis + x->view.rank : axis);
}

enum bp_status bp_decompose_layer_norm(struct bp_decomposition *e)
{
    const struct bp_layer_norm_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0];
    struct folded f = fold_rows(x->view.rank, x->shape, a->axis, a->epsilon);

    return norm_expand(e, &f, e->in[1], e->in[2], axes_before(x, a->axis), x->shape);
}

enum bp_status bp_decompose_rms_norm(struct bp_decomposition *e)
{
    const struct bp_rms_norm_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0];
    struct folded f = fold_rows(x->view.rank, x->shape, a->axis, a->epsilon);

    f.centre = false;
    return norm_expand(e, &f, e->in[1], NULL, axes_before(x, a->axis), x->shape);
}

enum bp_status bp_decompose_group_norm(struct bp_decomposition *e)
{
    const struct bp_group_norm_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0];
    struct folded f = fold_groups(x->view.rank, x->shape, a->groups, a->epsilon);

    return norm_expand(e, &f, e->in[1], e->in[2], 2, f.shape);
}

enum bp_status bp_decompose_instance_norm(struct bp_decomposition *e)
{
    const struct bp_instance_norm_attrs *a = e->attrs;
    struct bp_group_norm_attrs group = {.size = sizeof group, .epsilon = a->epsilon,
                                        .groups = e->in[0]->shape[1] ? e->in[0]->shape[1] : 1};
    struct bp_compose c = bp_compose_begin(e->scope);

    bp_compose_keep(&c, MAKE(&c, group_norm, &group, e->in[0], e->in[1], e->in[2]), &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_decompose_batch_norm(struct bp_decomposition *e)
{
    const struct bp_batch_norm_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *h;
    struct folded f = fold_batch(x->view.rank, x->shape, a->epsilon);

    h = MAKE(&c, sub, NULL, as_folded(&c, &f, x), as_parameter(&c, &f, e->in[3]));
    h = MAKE(&c, mul, NULL, h,
             MAKE(&c, rsqrt, NULL,
                  bp_compose_scale(&c, as_parameter(&c, &f, e->in[4]), 1, a->epsilon)));
    give_as(e, &c, 0, norm_scaled(&c, &f, h, e->in[1], e->in[2]), x);
    return bp_compose_end(&c);
}

/* Returns m old + (1 - m) factor now. */
static struct bp_tensor *norm_moved(struct bp_compose *c, struct bp_tensor *old,
                                    struct bp_tensor *now, double m, double factor)
{
    if (c->status) return NULL;
    now = bp_compose_scale(c, bp_compose_reshape(c, now, 1, old->shape), (1 - m) * factor, 0);
    return MAKE(c, add, NULL, bp_compose_scale(c, old, m, 0), now);
}

enum bp_status bp_decompose_batch_norm_train(struct bp_decomposition *e)
{
    const struct bp_batch_norm_train_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *old = e->in[3];
    struct folded f = fold_batch(x->view.rank, x->shape, a->epsilon);
    struct normalised n = norm_normalize(&c, &f, x);
    double terms = (double)(f.shape[0] * f.shape[3]);
    double factor = a->unbiased ? terms / (terms - 1) : 1;

    give_as(e, &c, 0, norm_scaled(&c, &f, n.h, e->in[1], e->in[2]), x);
    give_as(e, &c, 1, norm_moved(&c, old, n.mean, a->momentum, 1), old);
    give_as(e, &c, 2, norm_moved(&c, e->in[4], n.variance, a->momentum, factor), old);
    give_as(e, &c, 3, n.mean, old);
    give_as(e, &c, 4, n.r, old);
    return bp_compose_end(&c);
}

/* Sets dx = r (g - mean(g) - h mean(g h)), and the gradients of parameters with this shape and
 * dtype. Saved statistics are inputs from 3 on: the mean if it is subtracted, then r. */
static enum bp_status expand_grad(struct bp_decomposition *e, const struct folded *f, uint32_t rank,
                                  const int64_t *shape, uint32_t dtype)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = e->in[0], *dy = as_folded(&c, f, e->in[2]), *g, *dx;
    struct normalised n = e->in[3] ? norm_with_saved(&c, f, x, e->in[3], e->in[f->centre ? 4 : 3])
                                   : norm_normalize(&c, f, x);

    g = norm_scaled(&c, f, dy, e->in[1], NULL);
    dx = MAKE(&c, mul, NULL, n.h, mean_of(&c, f, MAKE(&c, mul, NULL, g, n.h)));
    if (f->centre) dx = MAKE(&c, add, NULL, mean_of(&c, f, g), dx);
    dx = MAKE(&c, mul, NULL, n.r, MAKE(&c, sub, NULL, g, dx));
    give_as(e, &c, 0, dx, x);
    if (e->want & 2)
        norm_give(e, &c, 1, norm_sum_of(&c, MAKE(&c, mul, NULL, dy, n.h)), rank, shape, dtype);
    if (e->want & 4) norm_give(e, &c, 2, norm_sum_of(&c, dy), rank, shape, dtype);
    return bp_compose_end(&c);
}

enum bp_status bp_decompose_layer_norm_grad(struct bp_decomposition *e)
{
    const struct bp_layer_norm_grad_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0];
    struct folded f = fold_rows(x->view.rank, x->shape, a->axis, a->epsilon);
    uint32_t before = axes_before(x, a->axis);

    return expand_grad(e, &f, x->view.rank - before, x->shape + before, x->view.dtype);
}

enum bp_status bp_decompose_rms_norm_grad(struct bp_decomposition *e)
{
    const struct bp_rms_norm_grad_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0];
    struct folded f = fold_rows(x->view.rank, x->shape, a->axis, a->epsilon);
    uint32_t before = axes_before(x, a->axis);

    f.centre = false;
    return expand_grad(e, &f, x->view.rank - before, x->shape + before, x->view.dtype);
}

enum bp_status bp_decompose_group_norm_grad(struct bp_decomposition *e)
{
    const struct bp_group_norm_grad_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0];
    struct folded f = fold_groups(x->view.rank, x->shape, a->groups, a->epsilon);

    return expand_grad(e, &f, 1, x->shape + 1, x->view.dtype);
}

enum bp_status bp_decompose_batch_norm_grad(struct bp_decomposition *e)
{
    const struct bp_batch_norm_grad_attrs *a = e->attrs;
    struct bp_tensor *x = e->in[0];
    struct folded f = fold_batch(x->view.rank, x->shape, a->epsilon);

    return expand_grad(e, &f, 1, x->shape + 1, norm_statistic(x->view.dtype));
}

/* Builds gradients: operator `row` (x, scale, dy, statistics) returns those of x, scale and bias.
 * The n statistics are outputs from `first` on: they are saved if the forward call has all. */
static enum bp_status by_row(struct bp_grad *g, enum bp_row_number row, const void *attrs,
                             uint32_t first, uint32_t n)
{
    struct bp_compose c = bp_compose_begin(g->scope);
    struct bp_tensor *in[5] = {g->in[0], g->in[1], g->dy[0]}, *out[3] = {NULL};
    uint32_t want = 1, n_in = 3;

    if (!g->dy[0]) return bp_compose_end(&c);
    for (uint32_t i = 1; i < 3 && i < g->n_in; i++) want |= (uint32_t)g->want[i] << i;
    while (n_in < 3 + n && g->out[first + n_in - 3]) {
        in[n_in] = g->out[first + n_in - 3];
        n_in++;
    }
    bp_compose_outputs(&c, row, attrs, in, n_in == 3 + n ? n_in : 3, want, out);
    for (uint32_t i = 0; i < 3 && i < g->n_in; i++)
        if (g->want[i]) bp_compose_keep(&c, out[i], &g->dx[i]);
    return bp_compose_end(&c);
}

_Static_assert(sizeof(struct bp_layer_norm_attrs) == sizeof(struct bp_layer_norm_grad_attrs) &&
                   sizeof(struct bp_rms_norm_attrs) == sizeof(struct bp_rms_norm_grad_attrs) &&
                   sizeof(struct bp_group_norm_attrs) == sizeof(struct bp_group_norm_grad_attrs),
               "those of a forward and its gradient are one layout");

enum bp_status bp_grad_layer_norm(struct bp_grad *g)
{
    return by_row(g, BP_ROW_layer_norm_grad, g->attrs, 1, 2);
}

enum bp_status bp_grad_rms_norm(struct bp_grad *g)
{
    return by_row(g, BP_ROW_rms_norm_grad, g->attrs, 1, 1);
}

enum bp_status bp_grad_group_norm(struct bp_grad *g)
{
    return by_row(g, BP_ROW_group_norm_grad, g->attrs, 1, 2);
}

enum bp_status bp_grad_batch_norm_train(struct bp_grad *g)
{
    const struct bp_batch_norm_train_attrs *f = g->attrs;
    struct bp_batch_norm_grad_attrs a = {.size = sizeof a, .epsilon = f->epsilon};

    return by_row(g, BP_ROW_batch_norm_grad, &a, 3, 2);
}

/* The gradient of a gradient. Saved statistics depend on x, and the forward's rule takes them for
 * constants: so the statistics are computed from x again, and differentiated here. */
enum bp_status bp_grad_normalize_grad(struct bp_grad *g)
{
    struct bp_grad without = *g;

    without.n_in = 3;
    return g->expanded(&without);
}

static enum bp_status check_number(const struct bp_invocation *inv, const char *name, double value,
                                   double least)
{
    if (value >= least && !isnan(value)) return BP_OK;
    return bp_error(BP_ERR_INVALID, "%s: attribute %s is %g, expected %g or more",
                    inv->row->info.name, name, value, least);
}

enum bp_status bp_infer_lp_normalize(struct bp_invocation *inv)
{
    const struct bp_lp_normalize_attrs *a = inv->attrs;
    uint32_t axis;

    TRY(bp_shape_axis(inv, a->axis, bp_invocation_in(inv, 0)->rank, &axis));
    TRY(check_number(inv, "p", a->p, 1));
    TRY(check_number(inv, "epsilon", a->epsilon, 0));
    bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 0));
    return BP_OK;
}

enum bp_status bp_infer_mean_variance(struct bp_invocation *inv)
{
    const struct bp_mean_variance_normalization_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type statistics;

    TRY(bp_shape_reduce(inv, x, a->axes, true, &statistics)); /* checks the axes */
    TRY(check_number(inv, "epsilon", a->epsilon, 0));
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}

enum bp_status bp_infer_lrn(struct bp_invocation *inv)
{
    const struct bp_lrn_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);

    if (x->rank < 2)
        return bp_error(BP_ERR_INVALID, "lrn: input x has %u axes, expected N, C and any others",
                        x->rank);
    if (a->window < 1)
        return bp_error(BP_ERR_INVALID, "lrn: attribute window is %" PRId64 ", expected 1 or more",
                        a->window);
    if (!isfinite(a->alpha) || !isfinite(a->beta) || !isfinite(a->bias))
        return bp_error(BP_ERR_INVALID, "lrn: alpha, beta and bias are %g, %g, %g: expected "
                                        "numbers", a->alpha, a->beta, a->bias);
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}
