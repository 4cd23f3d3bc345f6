/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of cross-entropy losses, whose targets are class
 * indices or probabilities, and of a gradient. */
#include "../common/reference_running.h"
#include <stdlib.h>

/* A line of n numbers along the axis of classes, and the values computed from it. */
struct line {
    const struct ref_array *x, *label, *weight; /* weight->type NULL: absent */
    int64_t n, step, first;
    bool logits;
    struct running smoothing, size; /* size: the logarithm of the sum of exp(x - most) */
    long double most;
    struct running *room; /* temporary array of n numbers */
};

static void ref_cross_entropy_begin(struct line *l, const struct ref_array *in, int weight,
                                    int64_t axis, bool logits, double smoothing)
{
    struct ref_around a = ref_around(&in[0], axis);

    *l = (struct line){.x = &in[0],
                       .label = &in[1],
                       .weight = &in[weight],
                       .n = a.n,
                       .step = a.inner,
                       .logits = logits,
                       .smoothing = run_rounded(smoothing)};

    l->room = calloc((size_t)a.n + 1, sizeof *l->room);
    if (!l->room) abort();
}

/* e^(x - most): the difference is rounded. */
static struct running ref_cross_entropy_power(const struct line *l, int64_t i)
{
    long double d = l->x->v[l->first + i * l->step] - l->most;

    return run_exp((struct running){d, fabsl(d)});
}

/* Moves l to line number i of those around the axis, and computes its most and size. */
static void ref_cross_entropy_take(struct line *l, int64_t line)
{
    l->first = line / l->step * l->n * l->step + line % l->step;
    l->most = l->logits ? -INFINITY : 0;
    l->size = run_of(0);
    if (!l->logits) return;
    for (int64_t i = 0; i < l->n; i++)
        if (!(l->x->v[l->first + i * l->step] <= l->most))
            l->most = l->x->v[l->first + i * l->step];
    for (int64_t i = 0; i < l->n; i++) l->room[i] = ref_cross_entropy_power(l, i);
    l->size = run_log(run_sum(l->room, l->n));
}

static struct running weight_of(const struct line *l, int64_t i)
{
    return run_of(l->weight->type ? l->weight->v[i] : 1);
}

/* weight (-log p). */
static struct running ref_cross_entropy_cost(const struct line *l, int64_t i)
{
    struct running far = run_sub(run_of(l->most), run_of(l->x->v[l->first + i * l->step]));
    struct running all = l->logits ? run_add(l->size, far) : run_neg(run_of(-far.v));

    return l->weight->type ? run_mul(weight_of(l, i), all) : all;
}

static struct running per_class(const struct line *l)
{
    struct running each = run_div(l->smoothing, run_of((long double)l->n));

    return l->smoothing.v == 0 ? run_of(0) : each;
}

static struct running rest_of_smoothing(const struct line *l)
{
    return l->smoothing.v == 0 ? run_of(1) : run_sub(run_of(1), l->smoothing);
}

static struct running loss_of(const struct line *l, int64_t k)
{
    struct running own = ref_cross_entropy_cost(l, k);

    if (l->smoothing.v == 0) return own;
    for (int64_t i = 0; i < l->n; i++) l->room[i] = ref_cross_entropy_cost(l, i);
    return run_add(run_mul(rest_of_smoothing(l), own),
                   run_mul(per_class(l), run_sum(l->room, l->n)));
}

/* Computes the losses of all lines and their factors; both arrays have label->count elements. */
static void ref_cross_entropy_losses(struct line *l, int64_t ignore, struct running *loss,
                                     struct running *factor)
{
    for (int64_t i = 0; i < l->label->count; i++) {
        int64_t k = (int64_t)l->label->u[i];
        loss[i] = factor[i] = run_of(0);
        if (k == ignore) continue;
        ref_cross_entropy_take(l, i);
        loss[i] = loss_of(l, k);
        factor[i] = weight_of(l, k);
    }
}

static struct running *ref_cross_entropy_numbers(int64_t n)
{
    struct running *at = calloc((size_t)n + 1, sizeof *at);

    if (!at) abort();
    return at;
}

static void label_loss(struct line *l, int64_t ignore, int reduction, struct ref_array *out,
                       struct ref_array *factors)
{
    int64_t n = l->label->count;
    struct running *loss = ref_cross_entropy_numbers(n), *factor = ref_cross_entropy_numbers(n),
                   total;

    ref_cross_entropy_losses(l, ignore, loss, factor);
    for (int64_t i = 0; !reduction && i < n; i++) run_put(out, i, loss[i]);
    for (int64_t i = 0; factors && i < n; i++) run_put(factors, i, factor[i]);
    if (reduction) {
        total = run_sum(loss, n);
        if (reduction == 1) total = run_div(total, run_sum(factor, n));
        run_put(out, 0, total);
    }
    free(loss);
    free(factor);
    free(l->room);
}

static uint32_t ref_cross_entropy_wide(const struct ref_array *x)
{
    return num_accumulate(x->type)->dtype;
}

void ref_label_loss(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_label_loss_attrs *a = attrs;
    struct line l;

    for (int i = 0; i < 2; i++)
        ref_array_init(&out[i], ref_cross_entropy_wide(in), in[1].rank, in[1].shape);
    ref_cross_entropy_begin(&l, in, 2, a->axis, a->logits != 0, a->label_smoothing);
    label_loss(&l, a->ignore_index, 0, &out[0], &out[1]);
}

/* Initializes the result of a loss with a reduction: the shape of label, or one value. */
static void ref_cross_entropy_start(const struct ref_array *in, int64_t reduction,
                                    struct ref_array *out)
{
    ref_array_init(out, in[0].type->dtype, reduction ? 0 : in[1].rank, in[1].shape);
}

void ref_softmax(const struct ref_array *in, const void *attrs, struct ref_array *out);

void ref_cross_entropy(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_cross_entropy_attrs *a = attrs;
    struct bp_softmax_attrs softmax = {.size = sizeof softmax, .axis = a->axis};
    struct line l;

    ref_cross_entropy_start(in, a->reduction, out);
    ref_cross_entropy_begin(&l, in, 2, a->axis, true, a->label_smoothing);
    label_loss(&l, a->ignore_index, (int)a->reduction, out, NULL);
    ref_softmax(in, &softmax, &out[1]);
    for (int64_t i = 0; i < out[1].count; i++) /* softmax's ulp is 4, this operator's 0.5 */
        if (isfinite(out[1].v[i])) out[1].bound[i] += 8 * fabsl(out[1].v[i]);
}

void ref_nll_loss(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_nll_loss_attrs *a = attrs;
    struct line l;

    ref_cross_entropy_start(in, a->reduction, out);
    ref_cross_entropy_begin(&l, in, 2, a->axis, false, 0);
    label_loss(&l, a->ignore_index, (int)a->reduction, out, NULL);
}

/* Returns the factor of p in a line of class k. */
static struct running share_of(struct line *l, int64_t k)
{
    struct running own = run_mul(rest_of_smoothing(l), weight_of(l, k)), total;

    if (!l->logits) return run_of(0);
    if (l->smoothing.v == 0) return weight_of(l, k);
    for (int64_t i = 0; i < l->n; i++) l->room[i] = weight_of(l, i);
    total = run_sum(l->room, l->n);
    return run_add(own, run_mul(per_class(l), total));
}

static void gradient_line(struct line *l, int64_t k, struct running dloss, struct ref_array *out)
{
    struct running share, total = run_of(1);

    share = share_of(l, k);
    for (int64_t i = 0; l->logits && i < l->n; i++) l->room[i] = ref_cross_entropy_power(l, i);
    if (l->logits) total = run_sum(l->room, l->n);
    for (int64_t i = 0; i < l->n; i++) {
        struct running d = run_neg(run_mul(per_class(l), weight_of(l, i)));
        if (i == k) d = run_sub(d, run_mul(rest_of_smoothing(l), weight_of(l, k)));
        if (l->logits)
            d = run_add(d, run_mul(share, run_div(ref_cross_entropy_power(l, i), total)));
        run_put(out, l->first + i * l->step, run_mul(dloss, d));
    }
}

void ref_label_loss_grad(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_label_loss_grad_attrs *a = attrs;
    struct line l;

    ref_array_init(out, in->type->dtype, in->rank, in->shape);
    out->flush = true;
    ref_cross_entropy_begin(&l, in, 3, a->axis, a->logits != 0, a->label_smoothing);
    for (int64_t i = 0; i < in[1].count; i++) {
        int64_t k = (int64_t)in[1].u[i];
        if (k == a->ignore_index) continue;
        ref_cross_entropy_take(&l, i);
        gradient_line(&l, k, run_of(in[2].v[i]), out);
    }
    free(l.room);
}

/* Returns the sum of weight t (-log p) over the classes of a line. */
static struct running soft_line(struct line *l, const struct ref_array *target)
{
    struct running *each = ref_cross_entropy_numbers(l->n), sum;

    for (int64_t i = 0; i < l->n; i++) {
        struct running t = run_of(target->v[l->first + i * l->step]);
        if (l->smoothing.v != 0) t = run_add(run_mul(rest_of_smoothing(l), t), per_class(l));
        /* log(sum(exp(x))) is rounded before x is subtracted from it. */
        struct running far = run_add(run_of(l->most), l->size);
        far = run_sub(far, run_of(l->x->v[l->first + i * l->step]));
        if (l->weight->type) t = run_mul(t, weight_of(l, i));
        each[i] = run_mul(t, far);
    }
    sum = run_sum(each, l->n);
    free(each);
    return sum;
}

void ref_soft_cross_entropy(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_soft_cross_entropy_attrs *a = attrs;
    struct ref_around v = ref_around(in, a->axis);
    int64_t n = v.outer * v.inner, shape[REF_RANK];
    struct running *loss = ref_cross_entropy_numbers(n), total;
    struct line l;

    for (int i = 0; i + 1 < in->rank; i++)
        shape[i] = in->shape[i + (i >= ref_axis(a->axis, in->rank))];
    ref_array_init(out, in->type->dtype, a->reduction ? 0 : in->rank - 1, shape);
    ref_cross_entropy_begin(&l, in, 2, a->axis, true, a->label_smoothing);
    for (int64_t i = 0; i < n; i++) {
        ref_cross_entropy_take(&l, i);
        loss[i] = soft_line(&l, &in[1]);
        if (!a->reduction) run_put(out, i, loss[i]);
    }
    total = run_sum(loss, n);
    if (a->reduction == 1) total = run_mul(total, run_rounded(1 / (long double)n));
    if (a->reduction) run_put(out, 0, total);
    free(loss);
    free(l.room);
}
