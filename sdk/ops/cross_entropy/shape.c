/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: has the shape rules, gradients and decompositions of cross-entropy losses, whose targets
 * are class indices or probabilities. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>

static bool cross_entropy_is_half(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16;
}

/* Returns the type in which a loss is computed. */
static uint32_t cross_entropy_wide(uint32_t dtype)
{
    return cross_entropy_is_half(dtype) ? BP_F32 : dtype;
}

static enum bp_status check_values(const char *op, int64_t reduction, double smoothing)
{
    if (reduction < 0 || reduction > 2)
        return bp_error(BP_ERR_INVALID,
                        "%s: attribute reduction is %" PRId64
                        ", expected 0 (none), 1 (mean) or 2 (sum)",
                        op, reduction);
    if (!(smoothing >= 0 && smoothing <= 1))
        return bp_error(BP_ERR_INVALID, "%s: attribute label_smoothing is %g, expected 0 to 1", op,
                        smoothing);
    return BP_OK;
}

enum bp_status bp_values_cross_entropy(const void *attrs)
{
    const struct bp_cross_entropy_attrs *a = attrs;

    return check_values("cross_entropy", a->reduction, a->label_smoothing);
}

enum bp_status bp_values_nll_loss(const void *attrs)
{
    const struct bp_nll_loss_attrs *a = attrs;

    return check_values("nll_loss", a->reduction, 0);
}

enum bp_status bp_values_soft_cross_entropy(const void *attrs)
{
    const struct bp_soft_cross_entropy_attrs *a = attrs;

    return check_values("soft_cross_entropy", a->reduction, a->label_smoothing);
}

/* Checks the values of label_loss and of label_loss_grad: their attributes have one layout. */
enum bp_status bp_values_label_loss(const void *attrs)
{
    const struct bp_label_loss_attrs *a = attrs;

    return check_values("label_loss", 0, a->label_smoothing);
}

/* Sets the shape of type to the shape of x without axis. */
static void cross_entropy_without(const struct bp_view *x, uint32_t axis, struct bp_type *type)
{
    type->rank = x->rank - 1u;
    for (uint32_t i = 0; i < type->rank; i++) type->shape[i] = x->shape[i + (i >= axis)];
}

/* Checks that input 1 has a label for each line of x, and that there is a weight for each class. */
static enum bp_status check_lines(const struct bp_invocation *inv, int64_t axis,
                                  uint32_t weight_port)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *label = bp_invocation_in(inv, 1);
    const struct bp_view *weight = bp_invocation_in(inv, weight_port);
    struct bp_type kept, cut, classes = {.rank = 1};
    uint32_t at;

    TRY(bp_shape_axis(inv, axis, x->rank, &at));
    classes.shape[0] = x->shape[at];
    if (weight) TRY(bp_shape_expect(inv, weight_port, &classes));
    bp_shape_copy(&kept, x);
    kept.shape[at] = 1;
    cross_entropy_without(x, at, &cut);
    return bp_shape_expect(inv, 1, label->rank == x->rank ? &kept : &cut);
}

enum bp_status bp_infer_label_loss(struct bp_invocation *inv)
{
    const struct bp_label_loss_attrs *a = inv->attrs;

    TRY(check_lines(inv, a->axis, 2));
    for (uint32_t i = 0; i < 2; i++) {
        bp_shape_copy(&inv->out[i], bp_invocation_in(inv, 1));
        inv->out[i].dtype = cross_entropy_wide(bp_invocation_in(inv, 0)->dtype);
    }
    return BP_OK;
}

enum bp_status bp_infer_label_loss_grad(struct bp_invocation *inv)
{
    const struct bp_label_loss_grad_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0), *dloss = bp_invocation_in(inv, 2);
    struct bp_type loss;

    TRY(check_lines(inv, a->axis, 3));
    if (dloss->dtype != cross_entropy_wide(x->dtype))
        return bp_error(BP_ERR_INVALID,
                        "label_loss_grad: input dloss is %s, expected %s where x is %s",
                        bp_dtype_name(dloss->dtype), bp_dtype_name(cross_entropy_wide(x->dtype)),
                        bp_dtype_name(x->dtype));
    bp_shape_copy(&loss, bp_invocation_in(inv, 1));
    bp_shape_copy(&inv->out[0], x);
    return bp_shape_expect(inv, 2, &loss);
}

enum bp_status bp_infer_cross_entropy(struct bp_invocation *inv)
{
    const struct bp_cross_entropy_attrs *a = inv->attrs;

    TRY(check_lines(inv, a->axis, 2));
    if (!a->reduction) bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 1));
    else inv->out[0].rank = 0;
    bp_shape_copy(&inv->out[1], bp_invocation_in(inv, 0));
    return BP_OK;
}

enum bp_status bp_infer_nll_loss(struct bp_invocation *inv)
{
    const struct bp_nll_loss_attrs *a = inv->attrs;

    TRY(check_lines(inv, a->axis, 2));
    if (!a->reduction) bp_shape_copy(&inv->out[0], bp_invocation_in(inv, 1));
    else inv->out[0].rank = 0;
    return BP_OK;
}

enum bp_status bp_infer_soft_cross_entropy(struct bp_invocation *inv)
{
    const struct bp_soft_cross_entropy_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);
    struct bp_type same, classes = {.rank = 1};
    uint32_t at;

    TRY(bp_shape_axis(inv, a->axis, x->rank, &at));
    bp_shape_copy(&same, x);
    TRY(bp_shape_expect(inv, 1, &same));
    classes.shape[0] = x->shape[at];
    if (bp_invocation_in(inv, 2)) TRY(bp_shape_expect(inv, 2, &classes));
    cross_entropy_without(x, at, &inv->out[0]);
    if (a->reduction) inv->out[0].rank = 0;
    return BP_OK;
}

static struct bp_tensor *sum_all(struct bp_compose *c, struct bp_tensor *x)
{
    struct bp_sum_attrs a = {.size = sizeof a};

    return MAKE(c, sum, &a, x);
}

/* Computes the losses of all lines and reduces them. */
static void cross_entropy_reduce(struct bp_decomposition *e, struct bp_compose *c,
                                 const struct bp_label_loss_attrs *a, int64_t reduction)
{
    struct bp_tensor *out[2] = {NULL}, *in[3] = {e->in[0], e->in[1], e->in[2]}, *loss;

    bp_compose_outputs(c, BP_ROW_label_loss, a, in, 3, reduction == 1 ? 3 : 1, out);
    loss = reduction ? sum_all(c, out[0]) : out[0];
    if (reduction == 1) loss = MAKE(c, div, NULL, loss, sum_all(c, out[1]));
    bp_compose_keep(c, bp_compose_cast(c, loss, e->in[0]->view.dtype), &e->out[0]);
}

enum bp_status bp_decompose_cross_entropy(struct bp_decomposition *e)
{
    const struct bp_cross_entropy_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_label_loss_attrs lines = {.size = sizeof lines,
                                        .axis = a->axis,
                                        .ignore_index = a->ignore_index,
                                        .label_smoothing = a->label_smoothing,
                                        .logits = 1};
    struct bp_softmax_attrs softmax = {.size = sizeof softmax, .axis = a->axis};

    if (e->want & 1) cross_entropy_reduce(e, &c, &lines, a->reduction);
    if (e->want & 2) bp_compose_keep(&c, MAKE(&c, softmax, &softmax, e->in[0]), &e->out[1]);
    return bp_compose_end(&c);
}

enum bp_status bp_decompose_nll_loss(struct bp_decomposition *e)
{
    const struct bp_nll_loss_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_label_loss_attrs lines = {
        .size = sizeof lines, .axis = a->axis, .ignore_index = a->ignore_index, .logits = 0};

    cross_entropy_reduce(e, &c, &lines, a->reduction);
    return bp_compose_end(&c);
}

/* The state that the decompositions of label_loss and its gradient share. Shapes are those of x,
 * with extent 1 along axis. */
struct lines {
    struct bp_compose *c;
    const struct bp_label_loss_attrs *a;
    struct bp_tensor *x, *weight;            /* widened; weight NULL: absent */
    struct bp_tensor *hot, *counts, *factor; /* hot: the class, one-hot; whether a line counts; its
                                                weight */
    int64_t axis, n, kept[BP_RANK_MAX];
    uint32_t rank;
};

static struct bp_tensor *sum_classes(const struct lines *l, struct bp_tensor *x)
{
    return bp_compose_sum(l->c, x, &l->axis, 1, true);
}

static struct bp_tensor *as_kept(const struct lines *l, struct bp_tensor *t)
{
    return bp_compose_reshape(l->c, t, l->rank, l->kept);
}

static struct bp_tensor *cross_entropy_masked(const struct lines *l, struct bp_tensor *x,
                                              struct bp_tensor *condition)
{
    struct bp_mask_attrs a = {.size = sizeof a};

    return MAKE(l->c, mask, &a, x, condition);
}

/* Replaces the labels of lines that do not count by 0, so that one_hot accepts them. */
static void mark_classes(struct lines *l, struct bp_tensor *label)
{
    double ignore = (double)l->a->ignore_index;
    struct bp_clip_attrs all = {.size = sizeof all, .min = ignore, .max = ignore};
    struct bp_one_hot_attrs hot = {
        .size = sizeof hot, .depth = l->n, .axis = l->axis, .dtype = BP_BOOL, .on = 1};
    int64_t cut[BP_RANK_MAX];

    for (uint32_t i = 0; i + 1 < l->rank; i++) cut[i] = l->kept[i + (i >= l->axis)];
    label = bp_compose_reshape(l->c, label, l->rank - 1, cut);
    l->counts = MAKE(l->c, not_equal, NULL, label, MAKE(l->c, clip, &all, label));
    l->hot = MAKE(l->c, one_hot, &hot, cross_entropy_masked(l, label, l->counts));
    l->counts = as_kept(l, l->counts);
}

static void begin_lines(struct lines *l, struct bp_compose *c, const struct bp_label_loss_attrs *a,
                        struct bp_tensor *x, struct bp_tensor *label, struct bp_tensor *weight)
{
    int64_t along[BP_RANK_MAX];

    *l = (struct lines){.c = c, .a = a, .x = bp_compose_widen(c, x), .rank = x->view.rank};
    l->axis = a->axis < 0 ? a->axis + l->rank : a->axis;
    l->n = x->shape[l->axis];
    for (uint32_t i = 0; i < l->rank; i++) {
        l->kept[i] = i == l->axis ? 1 : x->shape[i];
        along[i] = i == l->axis ? l->n : 1;
    }
    mark_classes(l, label);
    if (weight) {
        l->weight = bp_compose_reshape(c, bp_compose_widen(c, weight), l->rank, along);
        l->factor = cross_entropy_masked(
            l, sum_classes(l, cross_entropy_masked(l, l->weight, l->hot)), l->counts);
    } else {
        l->factor = bp_compose_cast(c, l->counts, cross_entropy_wide(x->view.dtype));
    }
}

enum bp_status bp_decompose_label_loss(struct bp_decomposition *e)
{
    const struct bp_label_loss_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *p, *loss, *rest, *label = e->in[1];
    struct lines l;

    begin_lines(&l, &c, a, e->in[0], label, e->in[2]);
    p = l.x;
    if (a->logits) {
        struct bp_logsumexp_attrs sum = {.size = sizeof sum, .axes = {&l.axis, 1}, .keep = 1};
        p = MAKE(&c, sub, NULL, p, MAKE(&c, logsumexp, &sum, p));
    }
    loss = MAKE(&c, mul, NULL, l.factor, sum_classes(&l, cross_entropy_masked(&l, p, l.hot)));
    loss = bp_compose_scale(&c, loss, a->label_smoothing - 1, 0);
    if (a->label_smoothing != 0) {
        rest = sum_classes(&l, l.weight ? MAKE(&c, mul, NULL, p, l.weight) : p);
        rest = bp_compose_scale(&c, rest, -a->label_smoothing / (double)l.n, 0);
        loss = MAKE(&c, add, NULL, loss, rest);
    }
    loss = cross_entropy_masked(&l, loss, l.counts);
    if (e->want & 1)
        bp_compose_keep(&c, bp_compose_reshape(&c, loss, label->view.rank, label->shape),
                        &e->out[0]);
    if (e->want & 2)
        bp_compose_keep(&c, bp_compose_reshape(&c, l.factor, label->view.rank, label->shape),
                        &e->out[1]);
    return bp_compose_end(&c);
}

/* Returns the factor of p, for each line. */
static struct bp_tensor *share_of(const struct lines *l, struct bp_tensor *own)
{
    double e = l->a->label_smoothing;
    struct bp_tensor *each;

    if (e == 0) return own;
    if (!l->weight) return bp_compose_scale(l->c, own, 1, e);
    each = bp_compose_scale(l->c, sum_classes(l, l->weight), e / (double)l->n, 0);
    return MAKE(l->c, add, NULL, own, each);
}

enum bp_status bp_decompose_label_loss_grad(struct bp_decomposition *e)
{
    const struct bp_label_loss_attrs *a = e->attrs; /* the attributes have one layout */
    double each = a->label_smoothing /
                  (double)e->in[0]->shape[a->axis < 0 ? a->axis + e->in[0]->view.rank : a->axis];
    struct bp_softmax_attrs softmax = {.size = sizeof softmax, .axis = a->axis};
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *own, *target, *d;
    struct lines l;

    begin_lines(&l, &c, a, e->in[0], e->in[1], e->in[3]);
    own = bp_compose_scale(&c, l.factor, 1 - a->label_smoothing, 0);
    target = cross_entropy_masked(&l, own, l.hot);
    if (each != 0 && l.weight)
        target = MAKE(&c, add, NULL, target, bp_compose_scale(&c, l.weight, each, 0));
    else if (each != 0) target = bp_compose_scale(&c, target, 1, each);
    if (a->logits)
        d = MAKE(&c, sub, NULL,
                 MAKE(&c, mul, NULL, MAKE(&c, softmax, &softmax, l.x), share_of(&l, own)), target);
    else d = MAKE(&c, neg, NULL, target);
    d = cross_entropy_masked(&l, MAKE(&c, mul, NULL, d, as_kept(&l, e->in[2])), l.counts);
    bp_compose_keep(&c, bp_compose_cast(&c, d, e->in[0]->view.dtype), &e->out[0]);
    return bp_compose_end(&c);
}

/* The gradient of weights, which are rarely trained, uses the decomposition. */
enum bp_status bp_grad_label_loss(struct bp_grad *g)
{
    const struct bp_label_loss_attrs *f = g->attrs;
    struct bp_label_loss_grad_attrs a = {.size = sizeof a,
                                         .axis = f->axis,
                                         .ignore_index = f->ignore_index,
                                         .label_smoothing = f->label_smoothing,
                                         .logits = f->logits};
    struct bp_compose c = bp_compose_begin(g->scope);

    if (g->want[2]) return g->expanded(g);
    if (!g->want[0] || !g->dy[0]) return BP_OK;
    bp_compose_keep(&c, MAKE(&c, label_loss_grad, &a, g->in[0], g->in[1], g->dy[0], g->in[2]),
                    &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_decompose_soft_cross_entropy(struct bp_decomposition *e)
{
    const struct bp_soft_cross_entropy_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *t = bp_compose_widen(&c, e->in[1]), *d;
    uint32_t rank = e->in[0]->view.rank;
    int64_t axis = a->axis < 0 ? a->axis + rank : a->axis, along[BP_RANK_MAX];
    int64_t n = e->in[0]->shape[axis], lines = 1;
    struct bp_logsumexp_attrs sum = {.size = sizeof sum, .axes = {&axis, 1}, .keep = 1};

    for (uint32_t i = 0; i < rank; i++) {
        along[i] = i == axis ? n : 1;
        lines *= i == axis ? 1 : e->in[0]->shape[i];
    }
    if (a->label_smoothing != 0)
        t = bp_compose_scale(&c, t, 1 - a->label_smoothing, a->label_smoothing / (double)n);
    if (e->in[2])
        t = MAKE(&c, mul, NULL, t,
                 bp_compose_reshape(&c, bp_compose_widen(&c, e->in[2]), rank, along));
    d = MAKE(&c, mul, NULL, t, MAKE(&c, sub, NULL, MAKE(&c, logsumexp, &sum, x), x));
    d = a->reduction ? sum_all(&c, d) : bp_compose_sum(&c, d, &axis, 1, false);
    if (a->reduction == 1) d = bp_compose_scale(&c, d, 1 / (double)lines, 0);
    bp_compose_keep(&c, bp_compose_cast(&c, d, e->in[0]->view.dtype), &e->out[0]);
    return bp_compose_end(&c);
}
