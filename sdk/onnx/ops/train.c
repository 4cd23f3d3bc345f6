/* SPDX-License-Identifier: Apache-2.0 */
/* train.c: runs optimizer steps (domain ai.onnx.preview.training). A node has a rate and a step
 * count, then all parameters, all their gradients, and all states of each kind. */
#include "../chain.h"
#include "../ops.h"
#include <math.h>

/* The step of one parameter of a node. */
struct step {
    struct onnx_chain k;
    struct bp_tensor *rate, *count; /* in the parameter's dtype */
    struct bp_tensor *param, *grad, *state[2];
    uint32_t dtype, i, groups;
};

/* The tensor of a kind for parameter i: kind 0 is the parameter, 1 the gradient, 2 and more the
 * states. */
static struct bp_tensor *in_of(const struct onnx_call *c, const struct step *s, uint32_t kind)
{
    return onnx_in(c, 2 + kind * s->groups + s->i);
}

/* Reads the operands, and adds norm_coefficient times the parameter to grad. */
static enum bp_status step_begin(struct onnx_call *c, uint32_t kinds, struct step *s)
{
    double share = onnx_attr_float(c, "norm_coefficient", 0);

    s->k = onnx_chain_begin(c);
    s->param = in_of(c, s, 0);
    s->grad = in_of(c, s, 1);
    for (uint32_t kind = 2; kind < kinds; kind++) s->state[kind - 2] = in_of(c, s, kind);
    if (!onnx_in(c, 0) || !onnx_in(c, 1) || !s->param)
        return onnx_error(BP_ERR_INVALID, "a rate, a count and parameters are expected");
    s->dtype = onnx_info(s->param).dtype;
    s->rate = onnx_chain_cast(&s->k, onnx_in(c, 0), s->dtype);
    s->count = onnx_chain_cast(&s->k, onnx_in(c, 1), s->dtype);
    if (share != 0)
        s->grad = MAKE(&s->k, add, NULL, onnx_chain_scale(&s->k, s->param, share, 0), s->grad);
    return BP_OK;
}

/* Sets an output of the node. kind: 0 the parameter, then the states. */
static void step_give(struct step *s, uint32_t kind, struct bp_tensor *t)
{
    onnx_chain_give(&s->k, kind * s->groups + s->i, t);
}

/* Runs the step for all parameters, each of which has `kinds` inputs. */
static enum bp_status all_steps(struct onnx_call *c, uint32_t kinds, void (*make)(struct step *s))
{
    struct step s = {.groups = (c->node->n_in - 2) / kinds};

    if (c->node->n_in < 2 + kinds || (c->node->n_in - 2) % kinds)
        return onnx_error(BP_ERR_INVALID, "2 inputs and %u for each parameter are expected", kinds);
    for (; s.i < s.groups; s.i++) {
        TRY(step_begin(c, kinds, &s));
        make(&s);
        TRY(onnx_chain_end(&s.k));
    }
    return BP_OK;
}

static struct bp_tensor *is_past_first(struct step *s)
{
    return MAKE(&s->k, greater_than, NULL, s->count, onnx_chain_number(&s->k, s->dtype, 0));
}

/* h = h + g^2; x = x - rate / (1 + count decay) g / (sqrt(h) + epsilon). */
static void train_adagrad(struct step *s)
{
    double decay = onnx_attr_float(s->k.call, "decay_factor", 0);
    double epsilon = onnx_attr_float(s->k.call, "epsilon", 1e-6f);
    struct bp_tensor *rate = s->rate, *h, *root, *move;

    if (decay != 0)
        rate = MAKE(&s->k, div, NULL, rate, onnx_chain_scale(&s->k, s->count, decay, 1));
    h = MAKE(&s->k, add, NULL, s->state[0], MAKE(&s->k, mul, NULL, s->grad, s->grad));
    root = onnx_chain_scale(&s->k, MAKE(&s->k, sqrt, NULL, h), 1, epsilon);
    move = MAKE(&s->k, div, NULL, MAKE(&s->k, mul, NULL, rate, s->grad), root);
    step_give(s, 0, MAKE(&s->k, sub, NULL, s->param, move));
    step_give(s, 1, h);
}

/* Computes 1 - base^count without subtracting two almost equal numbers. */
static struct bp_tensor *one_less_power(struct step *s, double base)
{
    struct bp_tensor *power = onnx_chain_scale(&s->k, s->count, log(base), 0);

    return MAKE(&s->k, neg, NULL, MAKE(&s->k, expm1, NULL, power));
}

/* Computes share a + (1 - share) b. */
static struct bp_tensor *train_mixed(struct step *s, double share, struct bp_tensor *a,
                                     struct bp_tensor *b)
{
    return MAKE(&s->k, add, NULL, onnx_chain_scale(&s->k, a, share, 0),
                onnx_chain_scale(&s->k, b, 1 - share, 0));
}

/* v and h are running means of g and g^2. From the second step on, the rate is corrected by sqrt(1
 * - beta^count) / (1 - alpha^count). */
static void train_adam(struct step *s)
{
    double alpha = onnx_attr_float(s->k.call, "alpha", 0.9f);
    double beta = onnx_attr_float(s->k.call, "beta", 0.999f);
    double epsilon = onnx_attr_float(s->k.call, "epsilon", 1e-6f);
    double shrink = onnx_attr_float(s->k.call, "norm_coefficient_post", 0);
    struct bp_tensor *v = train_mixed(s, alpha, s->state[0], s->grad);
    struct bp_tensor *h = train_mixed(s, beta, s->state[1],
                                      MAKE(&s->k, mul, NULL, s->grad, s->grad));
    struct bp_tensor *root = onnx_chain_scale(&s->k, MAKE(&s->k, sqrt, NULL, h), 1, epsilon);
    struct bp_tensor *rate, *x;

    rate = MAKE(&s->k, mul, NULL, s->rate, MAKE(&s->k, sqrt, NULL, one_less_power(s, beta)));
    rate = MAKE(&s->k, div, NULL, rate, one_less_power(s, alpha));
    rate = MAKE(&s->k, where, NULL, is_past_first(s), rate, s->rate);
    x = MAKE(&s->k, sub, NULL, s->param,
             MAKE(&s->k, div, NULL, MAKE(&s->k, mul, NULL, rate, v), root));
    if (shrink != 0) x = onnx_chain_scale(&s->k, x, 1 - shrink, 0);
    step_give(s, 0, x);
    step_give(s, 1, v);
    step_give(s, 2, h);
}

/* v = alpha v + beta g, with beta 1 in the first step; x = x - rate v, or in mode nesterov x = x -
 * rate (g + alpha v). */
static void train_momentum(struct step *s)
{
    double alpha = onnx_attr_float(s->k.call, "alpha", 0);
    double beta = onnx_attr_float(s->k.call, "beta", 1);
    struct bp_tensor *share, *v, *move;

    share = MAKE(&s->k, where, NULL, is_past_first(s), onnx_chain_number(&s->k, s->dtype, beta),
                 onnx_chain_number(&s->k, s->dtype, 1));
    v = MAKE(&s->k, add, NULL, onnx_chain_scale(&s->k, s->state[0], alpha, 0),
             MAKE(&s->k, mul, NULL, share, s->grad));
    move = v;
    if (onnx_attr_is(s->k.call, "mode", "nesterov", "standard"))
        move = MAKE(&s->k, add, NULL, s->grad, onnx_chain_scale(&s->k, v, alpha, 0));
    step_give(s, 0, MAKE(&s->k, sub, NULL, s->param, MAKE(&s->k, mul, NULL, s->rate, move)));
    step_give(s, 1, v);
}

enum bp_status onnx_adagrad(struct onnx_call *c)
{
    return all_steps(c, 3, train_adagrad);
}

enum bp_status onnx_adam(struct onnx_call *c)
{
    return all_steps(c, 4, train_adam);
}

enum bp_status onnx_momentum(struct onnx_call *c)
{
    return all_steps(c, 3, train_momentum);
}
