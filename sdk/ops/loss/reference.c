/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of elementwise losses between predictions and
 * targets. */
#include "../common/reference_formula.h"
#include "../common/reference_running.h"
#include <stdlib.h>
#include <string.h>

/* One element: its inputs (absent ones are 1), and the attributes. */
struct element {
    struct running x, y, third, fourth;
    const void *attrs;
};

static struct running ref_loss_half(struct running a)
{
    return run_scaled(a, 0.5L);
}

static struct running ref_loss_square(struct running a)
{
    return run_mul(a, a);
}

/* Returns b - a for a number b. */
static struct running ref_loss_from(double b, struct running a)
{
    return run_sub(run_rounded(b), a);
}

static struct running ref_loss_l1(const struct element *e)
{
    return run_abs(run_sub(e->x, e->y));
}

static struct running square_error(const struct element *e)
{
    return ref_loss_square(run_sub(e->x, e->y));
}

/* d - d / 2 is exact. */
static struct running huber_of(const struct element *e, double most)
{
    struct running d = ref_loss_l1(e), m = run_rounded(most);

    if (!(d.v > most)) return run_mul(d, ref_loss_half(d));
    return run_mul(m, run_sub(d, ref_loss_half(m)));
}

static struct running ref_loss_huber(const struct element *e)
{
    return huber_of(e, ((const struct bp_huber_loss_attrs *)e->attrs)->delta);
}

static struct running smooth_l1(const struct element *e)
{
    double beta = ((const struct bp_smooth_l1_loss_attrs *)e->attrs)->beta;

    return beta == 0 ? ref_loss_l1(e) : run_mul(huber_of(e, beta), run_rounded(1 / beta));
}

/* -(y a + (1 - y) b) */
static struct running ref_loss_mixed(const struct element *e, struct running a, struct running b)
{
    return run_neg(run_add(run_mul(e->y, a), run_mul(ref_loss_from(1, e->y), b)));
}

static struct running log_loss(const struct element *e)
{
    double epsilon = ((const struct bp_log_loss_attrs *)e->attrs)->epsilon;

    return ref_loss_mixed(e, run_log(run_add(e->x, run_rounded(epsilon))),
                          run_log(ref_loss_from(1 + epsilon, e->x)));
}

static struct running ref_loss_hinge(const struct element *e)
{
    struct running sign = run_sub(run_scaled(e->y, 2), run_of(1));

    return run_relu(ref_loss_from(1, run_mul(sign, e->x)));
}

static struct running soft_margin(const struct element *e)
{
    return run_neg(run_log_sigmoid(run_mul(e->y, e->x)));
}

static struct running hinge_embedding(const struct element *e)
{
    double margin = ((const struct bp_hinge_embedding_loss_attrs *)e->attrs)->margin;

    return e->y.v > 0 ? e->x : run_relu(ref_loss_from(margin, e->x));
}

static struct running kl_div(const struct element *e)
{
    struct running log = e->y.v == 0 ? run_of(0) : run_mul(e->y, run_log(e->y));

    if (((const struct bp_kl_div_attrs *)e->attrs)->log_target)
        return run_mul(run_exp(e->y), run_sub(e->y, e->x));
    return run_sub(log, run_mul(e->y, e->x));
}

static const long double log_two_pi = 1.837877066409345483560659472811235279723L;

static struct running ref_loss_stirling(struct running y)
{
    struct running log = run_log(y),
                   rest = run_add(ref_loss_half(log), run_rounded(log_two_pi / 2));

    return run_add(run_sub(run_mul(y, log), y), rest);
}

static struct running ref_loss_poisson(const struct element *e)
{
    const struct bp_poisson_nll_loss_attrs *a = e->attrs;
    struct running t;

    if (a->log_input) t = run_sub(run_exp(e->x), run_mul(e->y, e->x));
    else t = run_sub(e->x, run_mul(e->y, run_log(run_add(e->x, run_rounded(a->epsilon)))));
    return a->full && e->y.v > 1 ? run_add(t, ref_loss_stirling(e->y)) : t;
}

static struct running ref_loss_bounded(struct running log)
{
    return log.v < -100 ? run_of(-100) : log;
}

static struct running ref_loss_bce(const struct element *e)
{
    return run_mul(ref_loss_mixed(e, ref_loss_bounded(run_log(e->x)),
                                  ref_loss_bounded(run_log(ref_loss_from(1, e->x)))),
                   e->third);
}

static struct running ref_loss_logits(const struct element *e)
{
    struct running is = run_log_sigmoid(e->x), is_not = run_log_sigmoid(run_neg(e->x));

    return run_mul(ref_loss_mixed(e, run_mul(is, e->fourth), is_not), e->third);
}

static struct running ref_loss_power(struct running a, double p)
{
    long double v = powl(a.v, p);

    if (p == 0) return run_of(1);
    if (p == 1) return a;
    if (p == 2) return ref_loss_square(a);
    return run_function(a, v, (long double)p * v / a.v, 3);
}

static struct running ref_loss_focal(const struct element *e)
{
    const struct bp_sigmoid_focal_loss_attrs *a = e->attrs;
    struct running cost = ref_loss_mixed(e, run_log_sigmoid(e->x), run_log_sigmoid(run_neg(e->x)));
    struct running miss = run_neg(ref_loss_mixed(e, run_sigmoid(run_neg(e->x)), run_sigmoid(e->x)));
    struct running factor = run_add(run_mul(run_rounded(2 * a->alpha - 1), e->y),
                                    run_rounded(1 - a->alpha));

    cost = run_mul(cost, ref_loss_power(miss, a->gamma));
    if (a->alpha >= 0) cost = run_mul(cost, factor);
    return run_div(cost, e->third);
}

static struct running ref_loss_gaussian(const struct element *e)
{
    const struct bp_gaussian_nll_loss_attrs *a = e->attrs;
    struct running v = e->third.v < a->epsilon ? run_rounded(a->epsilon) : e->third;
    struct running t = run_add(run_log(v), run_div(square_error(e), v));

    return a->full ? run_add(ref_loss_half(t), run_rounded(log_two_pi / 2)) : ref_loss_half(t);
}

static struct running margin_ranking(const struct element *e)
{
    double margin = ((const struct bp_margin_ranking_loss_attrs *)e->attrs)->margin;

    return run_relu(ref_loss_from(margin, run_mul(e->third, run_sub(e->x, e->y))));
}

static const struct {
    const char *op;
    struct running (*each)(const struct element *e);
} formulas[] = {
    {"l1_loss", ref_loss_l1},
    {"square_error_cost", square_error},
    {"huber_loss", ref_loss_huber},
    {"smooth_l1_loss", smooth_l1},
    {"log_loss", log_loss},
    {"hinge_loss", ref_loss_hinge},
    {"soft_margin_loss", soft_margin},
    {"hinge_embedding_loss", hinge_embedding},
    {"kl_div", kl_div},
    {"poisson_nll_loss", ref_loss_poisson},
    {"bce_loss", ref_loss_bce},
    {"bce_with_logits", ref_loss_logits},
    {"sigmoid_focal_loss", ref_loss_focal},
    {"gaussian_nll_loss", ref_loss_gaussian},
    {"margin_ranking_loss", margin_ranking},
};

/* Returns the number of inputs of an operator: elements of `in` after them must not be read. */
static int inputs_of(const char *op)
{
    if (!strcmp(op, "bce_with_logits")) return 4;
    return !strcmp(op, "bce_loss") || !strcmp(op, "sigmoid_focal_loss") ||
                   !strcmp(op, "gaussian_nll_loss") || !strcmp(op, "margin_ranking_loss")
               ? 3
               : 2;
}

static struct running ref_loss_input(const struct ref_array *in, int n, int i, int rank,
                                     const int64_t *at)
{
    if (i >= n || !in[i].type) return run_of(1);
    if (in[i].rank > rank) return run_of(in[i].v[0]); /* one value */
    return run_of(in[i].v[ref_index(&in[i], rank, at)]);
}

void ref_family_loss(const char *op, const struct ref_array *in, const void *attrs,
                     struct ref_array *out)
{
    int64_t reduction = ((const struct bp_l1_loss_attrs *)attrs)->reduction;
    int64_t at[REF_RANK] = {0}, n = in->count;
    struct running *loss = calloc((size_t)n + 1, sizeof *loss), total;
    size_t f = 0;

    if (!loss) abort();
    while (strcmp(formulas[f].op, op)) f++;
    ref_array_init(out, in->type->dtype, reduction ? 0 : in->rank, in->shape);
    for (int64_t i = 0; i < n; i++, ref_next(in->rank, in->shape, at)) {
        int inputs = inputs_of(op);
        struct element e = {run_of(in[0].v[i]), run_of(in[1].v[i]),
                            ref_loss_input(in, inputs, 2, in->rank, at),
                            ref_loss_input(in, inputs, 3, in->rank, at), attrs};
        loss[i] = formulas[f].each(&e);
        loss[i].e += ref_underflow(in->type) * (2 + (isfinite(e.x.v) ? fabsl(e.x.v) : 0));
        if (!reduction) run_put(out, i, loss[i]);
    }
    total = run_sum(loss, n);
    if (reduction == 1) total = run_mul(total, run_rounded(1 / (long double)n));
    if (reduction == 3)
        total = run_mul(total, run_rounded(1 / (long double)(in->rank ? in->shape[0] : 1)));
    if (reduction) run_put(out, 0, total);
    free(loss);
}
