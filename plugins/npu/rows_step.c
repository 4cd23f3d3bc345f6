/* SPDX-License-Identifier: Apache-2.0 */
/* rows_step.c: builds the rows of optimizer steps. States are f32, and so is the computation.
 * Attributes may change between launches: the number and the size of temporaries do not depend on
 * them, because the workspace was measured with other values. */
#include "compose.h"

/* The inputs that all steps have, in the dtype of the computation. */
struct step {
    struct kit_arg param, grad, rate;
    bool empty;
};

/* One value, without axes. */
static struct kit_arg step_value(struct kit_build *b, struct kit_arg x)
{
    return npu_wide(b, kit_reshaped(b, x, 0, NULL));
}

static struct step step_begin(struct kit_build *b)
{
    struct step s = {.empty = npu_is_empty(b, NPU_IN(0))};

    if (b->status || s.empty) return s;
    s.param = npu_wide(b, NPU_IN(0));
    s.grad = npu_wide(b, NPU_IN(1));
    s.rate = step_value(b, NPU_IN(2));
    return s;
}

/* The new value of a state, which steps behind the one that wrote it read. */
static struct kit_arg step_state(uint32_t port)
{
    return kit_as(NPU_OUT(port), KIT_READS);
}

/* x + factor y to an output or a temporary. */
static struct kit_arg step_add(struct kit_build *b, struct kit_arg x, struct kit_arg y,
                               double factor, struct kit_arg out)
{
    KIT_STEP(b, "Add", x, y, KIT_NUMBER_IS(factor), out);
    return out;
}

/* Writes keep state + (1 - keep) y to the state's output, and returns it. */
static struct kit_arg step_mean(struct kit_build *b, uint32_t in, uint32_t out, double keep,
                                struct kit_arg y)
{
    step_add(b, npu_times(b, NPU_IN(in), keep), y, 1 - keep, NPU_OUT(out));
    return step_state(out);
}

/* param - change: the parameters' new value. */
static enum bp_status step_end(struct kit_build *b, struct kit_arg param, struct kit_arg change)
{
    const struct bp_view *out = npu_type(b, NPU_OUT(0));

    if (part_is_half(out->dtype)) npu_cast(b, part_sub(b, param, change), NPU_OUT(0));
    else KIT_STEP(b, "Sub", param, change, KIT_SCALAR_IS(1), NPU_OUT(0));
    return b->status;
}

/* 1 - power, of one value; and the power of the next step. */
static struct kit_arg step_rest(struct kit_build *b, uint32_t in)
{
    return npu_plus(b, npu_times(b, step_value(b, NPU_IN(in)), -1), 1);
}

static void step_power(struct kit_build *b, uint32_t in, uint32_t out, double beta)
{
    KIT_STEP(b, "Muls", NPU_IN(in), KIT_NUMBER_IS(beta), NPU_OUT(out));
}

enum bp_status npu_build_sgd(struct kit_build *b)
{
    struct step s = step_begin(b);

    return s.empty ? b->status : step_end(b, s.param, npu_mul(b, s.grad, s.rate));
}

enum bp_status npu_build_momentum(struct kit_build *b)
{
    const struct bp_momentum_attrs *a = b->attrs;
    struct step s = step_begin(b);
    struct kit_arg g, ahead;

    if (b->status || s.empty) return b->status;
    g = step_add(b, s.grad, s.param, a->l2, npu_like(b, s.grad, BP_F32));
    step_add(b, npu_times(b, NPU_IN(3), a->momentum), g, 1, NPU_OUT(1));
    ahead = npu_like(b, s.grad, BP_F32);
    if (a->nesterov) step_add(b, g, step_state(1), a->momentum, ahead);
    else KIT_STEP(b, "Muls", step_state(1), KIT_SCALAR_IS(1), ahead);
    return step_end(b, s.param, npu_mul(b, ahead, s.rate));
}

/* m / (sqrt(v) + epsilon), of moments over the rests of their powers. */
static struct kit_arg step_ratio(struct kit_build *b, struct kit_arg m, struct kit_arg v,
                                 const struct kit_arg rest[2], double epsilon)
{
    struct kit_arg root = part_one(b, "Sqrt", npu_div(b, v, rest[1]));

    return npu_div(b, npu_div(b, m, rest[0]), npu_plus(b, root, epsilon));
}

/* The larger of the second moment and the largest so far; the moment where one is NaN. */
static struct kit_arg step_largest(struct kit_build *b, struct kit_arg v)
{
    struct kit_arg larger = npu_like(b, v, BP_BOOL);

    KIT_STEP(b, "GtTensor", NPU_IN(7), v, larger);
    KIT_STEP(b, "SWhere", larger, NPU_IN(7), v, NPU_OUT(5));
    return step_state(5);
}

/* adam, and with `apart` adamw, whose attributes have the same layout. */
static enum bp_status step_adam(struct kit_build *b, bool apart)
{
    const struct bp_adam_attrs *a = b->attrs;
    struct step s = step_begin(b);
    struct kit_arg m, v, rest[2], kept;

    if (!b->status && !s.empty) {
        rest[0] = step_rest(b, 5);
        rest[1] = step_rest(b, 6);
        if (apart) {
            kept = npu_plus(b, npu_times(b, s.rate, -a->decay), 1);
            s.param = npu_mul(b, s.param, kept);
        } else s.grad = step_add(b, s.grad, s.param, a->decay, npu_like(b, s.grad, BP_F32));
        m = step_mean(b, 3, 1, a->beta1, s.grad);
        v = step_mean(b, 4, 2, a->beta2, npu_mul(b, s.grad, s.grad));
        if (npu_is_given(b, NPU_IN(7))) v = step_largest(b, v);
        step_end(b, s.param, npu_mul(b, step_ratio(b, m, v, rest, a->epsilon), s.rate));
    }
    step_power(b, 5, 3, a->beta1);
    step_power(b, 6, 4, a->beta2);
    return b->status;
}

enum bp_status npu_build_adam(struct kit_build *b)
{
    return step_adam(b, false);
}

enum bp_status npu_build_adamw(struct kit_build *b)
{
    _Static_assert(offsetof(struct bp_adamw_attrs, decay) == offsetof(struct bp_adam_attrs, decay),
                   "adamw");
    return step_adam(b, true);
}

enum bp_status npu_build_adamax(struct kit_build *b)
{
    const struct bp_adamax_attrs *a = b->attrs;
    struct step s = step_begin(b);
    struct kit_arg m, size, kept, smaller, rate;

    if (!b->status && !s.empty) {
        rate = npu_div(b, s.rate, step_rest(b, 5));
        m = step_mean(b, 3, 1, a->beta1, s.grad);
        size = part_one(b, "Abs", s.grad);
        kept = npu_plus(b, npu_times(b, NPU_IN(4), a->beta2), a->epsilon);
        smaller = npu_like(b, size, BP_BOOL);
        KIT_STEP(b, "GtTensor", kept, size, smaller);
        KIT_STEP(b, "SWhere", smaller, kept, size, NPU_OUT(2));
        step_end(b, s.param, npu_mul(b, npu_div(b, m, step_state(2)), rate));
    }
    step_power(b, 5, 3, a->beta1);
    return b->status;
}

enum bp_status npu_build_adagrad(struct kit_build *b)
{
    const struct bp_adagrad_attrs *a = b->attrs;
    struct step s = step_begin(b);
    struct kit_arg root;

    if (b->status || s.empty) return b->status;
    step_add(b, NPU_IN(3), npu_mul(b, s.grad, s.grad), 1, NPU_OUT(1));
    root = npu_plus(b, part_one(b, "Sqrt", step_state(1)), a->epsilon);
    return step_end(b, s.param, npu_div(b, npu_mul(b, s.grad, s.rate), root));
}

enum bp_status npu_build_adadelta(struct kit_build *b)
{
    const struct bp_adadelta_attrs *a = b->attrs;
    struct step s = step_begin(b);
    struct kit_arg above, below, d;

    if (b->status || s.empty) return b->status;
    below = step_mean(b, 3, 1, a->rho, npu_mul(b, s.grad, s.grad));
    above = npu_plus(b, NPU_IN(4), a->epsilon);
    d = npu_div(b, above, npu_plus(b, below, a->epsilon));
    d = npu_mul(b, part_one(b, "Sqrt", d), s.grad);
    step_mean(b, 4, 2, a->rho, npu_mul(b, d, d));
    return step_end(b, s.param, npu_mul(b, d, s.rate));
}

enum bp_status npu_build_rmsprop(struct kit_build *b)
{
    const struct bp_rmsprop_attrs *a = b->attrs;
    struct step s = step_begin(b);
    struct kit_arg q, mean, d;

    if (b->status || s.empty) return b->status;
    q = step_mean(b, 3, 1, a->rho, npu_mul(b, s.grad, s.grad));
    if (npu_is_given(b, NPU_IN(5))) {
        mean = step_mean(b, 5, 3, a->rho, s.grad);
        q = part_sub(b, q, npu_mul(b, mean, mean));
    }
    q = part_one(b, "Sqrt", npu_plus(b, q, a->epsilon));
    d = npu_div(b, npu_mul(b, s.grad, s.rate), q);
    step_add(b, d, NPU_IN(4), a->momentum, NPU_OUT(2));
    return step_end(b, s.param, step_state(2));
}

/* The norm of all elements, with as many axes as x. */
static struct kit_arg step_norm(struct kit_build *b, struct kit_arg x)
{
    uint32_t all = (1u << npu_type(b, x)->rank) - 1;

    return part_one(b, "Sqrt", npu_sum(b, npu_mul(b, x, x), all));
}

/* x if both norms are above 0, else y, of one value. */
static struct kit_arg step_if_above(struct kit_build *b, struct kit_arg p, struct kit_arg q,
                                    struct kit_arg x, struct kit_arg y)
{
    struct kit_arg zero = npu_filled(b, BP_F32, 0, NULL, 0), above = npu_like(b, p, BP_BOOL), out;

    KIT_STEP(b, "GtTensor", part_two(b, "Minimum", p, q), zero, above);
    out = npu_like(b, x, BP_F32);
    KIT_STEP(b, "SWhere", above, x, y, out);
    return out;
}

enum bp_status npu_build_lamb(struct kit_build *b)
{
    const struct bp_lamb_attrs *a = b->attrs;
    struct step s = step_begin(b);
    struct kit_arg m, v, rest[2], r, p, q, t;

    if (!b->status && !s.empty) {
        rest[0] = step_rest(b, 5);
        rest[1] = step_rest(b, 6);
        m = step_mean(b, 3, 1, a->beta1, s.grad);
        v = step_mean(b, 4, 2, a->beta2, npu_mul(b, s.grad, s.grad));
        r = step_ratio(b, m, v, rest, a->epsilon);
        r = step_add(b, r, s.param, a->decay, npu_like(b, r, BP_F32));
        p = step_norm(b, s.param);
        q = step_norm(b, r);
        t = step_if_above(b, p, q, npu_div(b, p, q), npu_filled(b, BP_F32, 0, NULL, 1));
        step_end(b, s.param, npu_mul(b, r, npu_mul(b, t, s.rate)));
    }
    step_power(b, 5, 3, a->beta1);
    step_power(b, 6, 4, a->beta2);
    return b->status;
}

enum bp_status npu_build_lars_momentum(struct kit_build *b)
{
    const struct bp_lars_momentum_attrs *a = b->attrs;
    struct step s = step_begin(b);
    struct kit_arg p, q, below, local, rate, g;

    if (b->status || s.empty) return b->status;
    p = step_norm(b, s.param);
    q = step_norm(b, s.grad);
    below = npu_plus(b, step_add(b, q, p, a->decay, npu_like(b, q, BP_F32)), a->epsilon);
    local = npu_div(b, npu_mul(b, npu_times(b, s.rate, a->coefficient), p), below);
    local = step_if_above(b, p, q, local, s.rate);
    rate = a->decay > 0 ? local : s.rate;
    g = step_add(b, s.grad, s.param, a->decay, npu_like(b, s.grad, BP_F32));
    step_add(b, npu_mul(b, g, rate), NPU_IN(3), a->momentum, NPU_OUT(1));
    return step_end(b, s.param, step_state(1));
}

/* ys = xs / scale. found: whether an element of ys, in its dtype, is not finite. */
enum bp_status npu_unscale_build(struct kit_build *b)
{
    const uint32_t first = b->in_at[1], count = b->n_in - first;
    const struct kit_arg axes = kit_array(b, (const int64_t[]){0}, 1);
    struct kit_arg scale = kit_reshaped(b, NPU_IN(0), 0, NULL), good, all, each, y, one, factor;

    one = part_number(b, npu_type(b, scale)->dtype, KIT_VALUE(KIT_NUMBER_IS(1)));
    factor = part_two(b, "Div", one, scale);
    good = npu_filled(b, BP_BOOL, 0, NULL, 1);
    for (uint32_t i = 0; i < count; i++) {
        const struct bp_view *x = b->in[first + i];
        struct kit_arg in = {.from = KIT_FROM_INS, .at = 1, .size = 1, .i = i};
        struct kit_arg out = {.from = KIT_FROM_OUTS, .at = 1, .size = 1, .i = i};

        if (!x->count) continue;
        in = kit_reshaped(b, in, 1, &x->count), out = kit_reshaped(b, out, 1, &x->count);
        y = part_two(b, "Mul", npu_wide(b, in), factor);
        npu_finish(b, y, out);
        each = kit_temporary(b, BP_BOOL, 1, &x->count), all = kit_temporary(b, BP_BOOL, 0, NULL);
        KIT_STEP(b, "IsFinite", kit_as(out, KIT_READS), each);
        KIT_STEP(b, "All", each, axes, KIT_INT_IS(0), all);
        good = part_test(b, "LogicalAnd", good, all);
    }
    KIT_STEP(b, "LogicalNot", good, kit_reshaped(b, NPU_OUT(0), 0, NULL));
    return part_pack(b);
}
