/* SPDX-License-Identifier: Apache-2.0 */
/* ops_exact.c: writes operators by more layers than the library's one, so that NaN, infinities and
 * denormal numbers are kept, for programs that do not allow fast math.
 *
 * The library's maxima lose NaN, its Exp is wrong near the largest number and 0 where the result is
 * denormal. A comparison with NaN is false, so that x != x finds NaN and Select keeps it. */
#include "ops.h"

#include <backplane/attrs.h>
#include <math.h>

/* ---- layers of f32 ---- */

static struct ir_ref unary_layer(const struct ov_node *n, const char *type, struct ir_ref x)
{
    return ir_add(n->ir, type, 1, BP_F32, &x, 1, NULL);
}

static struct ir_ref binary_layer(const struct ov_node *n, const char *type, struct ir_ref x,
                                  struct ir_ref y)
{
    struct ir_ref in[] = {x, y};

    return ir_add(n->ir, type, 1, BP_F32, in, 2, NULL);
}

static struct ir_ref by_number(const struct ov_node *n, const char *type, struct ir_ref x,
                               double number)
{
    return binary_layer(n, type, x, ir_float(n->ir, BP_F32, number));
}

static struct ir_ref truth_layer(const struct ov_node *n, const char *type, struct ir_ref x,
                                 struct ir_ref y)
{
    struct ir_ref in[] = {x, y};

    return ir_add(n->ir, type, 1, BP_BOOL, in, 2, NULL);
}

static struct ir_ref select_of(const struct ov_node *n, struct ir_ref condition, struct ir_ref x,
                               struct ir_ref y)
{
    struct ir_ref in[] = {condition, x, y};

    return ir_add(n->ir, "Select", 1, BP_F32, in, 3, NULL);
}

/* y, or NaN where x is NaN. */
static struct ir_ref keep_nan(const struct ov_node *n, struct ir_ref x, struct ir_ref y)
{
    return select_of(n, truth_layer(n, "NotEqual", x, x), x, y);
}

/* e^x. Exp is less accurate far from 0, infinite near the largest number, and 0 where the result is
 * denormal. So it gets another number there, which is x and a constant, without a rounding, and a
 * factor makes up for this: the factors are numbers of f32 to 2e-10 of themselves. NaN becomes a
 * number. */
static struct ir_ref exp_of(const struct ov_node *n, struct ir_ref x)
{
    const double far = 56.05881881713867, factor = 2.2183786368793286e+24,
                 inverse = 4.5077967453896115e-25;
    struct ir_ref high = truth_layer(n, "Greater", x, ir_float(n->ir, BP_F32, 28));
    struct ir_ref low = truth_layer(n, "Less", x, ir_float(n->ir, BP_F32, -28));
    struct ir_ref zero = ir_float(n->ir, BP_F32, 0), one = ir_float(n->ir, BP_F32, 1);
    struct ir_ref more = select_of(n, low, ir_float(n->ir, BP_F32, far), zero);
    struct ir_ref by = select_of(n, low, ir_float(n->ir, BP_F32, inverse), one);

    more = select_of(n, high, ir_float(n->ir, BP_F32, -far), more);
    by = select_of(n, high, ir_float(n->ir, BP_F32, factor), by);
    return binary_layer(n, "Multiply", unary_layer(n, "Exp", binary_layer(n, "Add", x, more)), by);
}

/* 1 / (1 + e^-x), from e^-|x|, which does not overflow. NaN becomes a number. */
static struct ir_ref sigmoid_of(const struct ov_node *n, struct ir_ref x)
{
    struct ir_ref one = ir_float(n->ir, BP_F32, 1), zero = ir_float(n->ir, BP_F32, 0);
    struct ir_ref t = exp_of(n, unary_layer(n, "Negative", unary_layer(n, "Abs", x)));
    struct ir_ref top = select_of(n, truth_layer(n, "Less", x, zero), t, one);

    return binary_layer(n, "Divide", top, binary_layer(n, "Add", t, one));
}

/* ---- operators ---- */

/* The library's layer, with NaN of the input. */
static struct ir_ref write_kept(const struct ov_node *n, struct ir_ref y)
{
    return ov_narrow(n, keep_nan(n, ov_wide(n, 0), y));
}

struct ir_ref ov_exact_relu(const struct ov_node *n, const struct ov_op *op)
{
    (void)op;
    return write_kept(n, unary_layer(n, "Relu", ov_wide(n, 0)));
}

struct ir_ref ov_exact_clip(const struct ov_node *n, const struct ov_op *op)
{
    return write_kept(n, ov_clip(n, op, ov_wide(n, 0)));
}

struct ir_ref ov_exact_hard_sigmoid(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_hard_sigmoid_attrs *a = n->attrs;
    struct ir_ref in[] = {ov_wide(n, 0), ir_float(n->ir, BP_F32, a->slope),
                          ir_float(n->ir, BP_F32, a->offset)};

    return write_kept(n, ir_add(n->ir, op->type, op->opset, BP_F32, in, 3, NULL));
}

/* The rounding error of the sum of x and a constant. */
static struct ir_ref error_of(const struct ov_node *n, struct ir_ref sum, struct ir_ref x,
                              struct ir_ref constant)
{
    struct ir_ref of_constant = binary_layer(n, "Subtract", sum, x);
    struct ir_ref of_x = binary_layer(n, "Subtract", sum, of_constant);

    return binary_layer(n, "Add", binary_layer(n, "Subtract", constant, of_constant),
                        binary_layer(n, "Subtract", x, of_x));
}

/* 0 x up to -3, x from 3 on, between them x (x + 3) / 6, in which the sum's error is added again:
 * the library multiplies by 1/6, and four roundings are more than are allowed. */
struct ir_ref ov_exact_hard_swish(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref x = ov_wide(n, 0), y, more, low;
    struct ir_ref three = ir_float(n->ir, BP_F32, 3), minus = ir_float(n->ir, BP_F32, -3);
    struct ir_ref sum = binary_layer(n, "Add", x, three);

    (void)op;
    more = binary_layer(n, "Multiply", x, error_of(n, sum, x, three));
    y = binary_layer(n, "Add",
                     by_number(n, "Multiply", binary_layer(n, "Multiply", x, sum), 1 / 6.0),
                     by_number(n, "Multiply", more, 1 / 6.0));
    y = select_of(n, truth_layer(n, "Greater", x, three), x, y);
    low = binary_layer(n, "Multiply", x, ir_float(n->ir, BP_F32, 0));
    return write_kept(n, select_of(n, truth_layer(n, "Less", x, minus), low, y));
}

/* maximum and minimum: NaN of either input. */
struct ir_ref ov_exact_either(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref x = ov_wide(n, 0), y = ov_wide(n, 1);

    return ov_narrow(n, keep_nan(n, x, keep_nan(n, y, binary_layer(n, op->type, x, y))));
}

/* Whether x is a contiguous constant of f32 whose elements all have reciprocals that are neither
 * infinite nor denormal. */
static bool has_reciprocals(const struct bp_data_value *x)
{
    const float *at = x->data;

    if (!(x->flags & BP_DATA_FROZEN) || x->stride || x->dtype != BP_F32) return false;
    for (uint64_t i = 0; i < x->bytes / sizeof *at; i++)
        if (!(fabsf(at[i]) > 0x1p-125f && fabsf(at[i]) < 0x1p125f)) return false;
    return true;
}

/* The library multiplies by reciprocals, which are infinite for denormal divisors: both sides are
 * made larger first. */
struct ir_ref ov_exact_div(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref x = ov_wide(n, 0), y = ov_wide(n, 1), tiny, by;

    if (!has_reciprocals(ov_in(n, 1))) {
        tiny = truth_layer(n, "Less", unary_layer(n, "Abs", y), ir_float(n->ir, BP_F32, 0x1p-100));
        by = select_of(n, tiny, ir_float(n->ir, BP_F32, 0x1p100), ir_float(n->ir, BP_F32, 1));
        x = binary_layer(n, "Multiply", x, by);
        y = binary_layer(n, "Multiply", y, by);
    }
    return ov_narrow(n, binary_layer(n, op->type, x, y));
}

struct ir_ref ov_exact_sigmoid(const struct ov_node *n, const struct ov_op *op)
{
    (void)op;
    return write_kept(n, sigmoid_of(n, ov_wide(n, 0)));
}

/* x sigmoid(beta x). */
static struct ir_ref write_swish(const struct ov_node *n, double beta)
{
    struct ir_ref x = ov_wide(n, 0), v = beta == 1 ? x : by_number(n, "Multiply", x, beta);

    return write_kept(n, binary_layer(n, "Multiply", x, sigmoid_of(n, v)));
}

struct ir_ref ov_exact_silu(const struct ov_node *n, const struct ov_op *op)
{
    (void)op;
    return write_swish(n, 1);
}

struct ir_ref ov_exact_swish(const struct ov_node *n, const struct ov_op *op)
{
    (void)op;
    return write_swish(n, ((const struct bp_swish_attrs *)n->attrs)->beta);
}

/* Of a >= 0: P(-a), the probability of a standard normal number below -a. With d = p a / (1
 * + p a), P(-a) e^(a a / 2) is 1/2 and a polynomial of d, fitted to 3e-9 near 0, where P is large,
 * by least squares whose weights follow the error. The library's Erf has errors of 1e-7. */
static struct ir_ref normal_tail(const struct ov_node *n, struct ir_ref a)
{
    static const double by[] = {0.13047509, -0.32827029, -0.050803017, 1.3348906,
                                -2.6009631, 2.6780040,   -1.6622593,   0.5};
    struct ir_ref part = by_number(n, "Multiply", a, 0.24);
    struct ir_ref d = binary_layer(n, "Divide", part, by_number(n, "Add", part, 1));
    struct ir_ref sum = ir_float(n->ir, BP_F32, by[0]), power;

    for (size_t i = 1; i < sizeof by / sizeof *by; i++)
        sum = by_number(n, "Add", binary_layer(n, "Multiply", sum, d), by[i]);
    power = by_number(n, "Multiply", binary_layer(n, "Multiply", a, a), -0.5);
    return binary_layer(n, "Multiply", unary_layer(n, "Exp", power), sum);
}

/* x P(x), which is x - x P(-x) above 0, where P(-x) is 0 from 16 on, and x P(x) below, which is NaN
 * for -infinity. */
static struct ir_ref write_gelu(const struct ov_node *n, struct ir_ref x)
{
    struct ir_ref zero = ir_float(n->ir, BP_F32, 0);
    struct ir_ref a = by_number(n, "Minimum", unary_layer(n, "Abs", x), 16);
    struct ir_ref above = truth_layer(n, "Greater", x, zero), part;

    part = select_of(n, above, unary_layer(n, "Negative", a), x);
    part = binary_layer(n, "Multiply", part, normal_tail(n, a));
    return write_kept(n, binary_layer(n, "Add", select_of(n, above, x, zero), part));
}

/* The version with tanh is x sigmoid(2 v), v = sqrt(2 / pi) (x + 0.044715 x^3). */
struct ir_ref ov_exact_gelu(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_gelu_attrs *a = n->attrs;
    struct ir_ref x = ov_wide(n, 0), v;

    (void)op;
    if (!a->approximate) return write_gelu(n, x);
    v = by_number(n, "Multiply", binary_layer(n, "Multiply", x, x), 0.044715);
    v = by_number(n, "Multiply", by_number(n, "Add", v, 1), 1.5957691216057308);
    v = binary_layer(n, "Multiply", x, v);
    return write_kept(n, binary_layer(n, "Multiply", x, sigmoid_of(n, v)));
}

/* A reduction that keeps the axis. */
static struct ir_ref reduce_axis(const struct ov_node *n, const char *type, struct ir_ref x,
                                 struct ir_ref axis)
{
    struct ir_ref in[] = {x, axis};

    return ir_add(n->ir, type, 1, BP_F32, in, 2, "keep_dims=\"true\"");
}

/* A NaN of a row makes the row's sum NaN, and so the whole row. */
struct ir_ref ov_exact_softmax(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_softmax_attrs *a = n->attrs;
    int64_t number = ov_axis(a->axis, ov_out(n)->rank);
    struct ir_ref x = ov_wide(n, 0), axis = ir_integers(n->ir, &number, 1);
    struct ir_ref below = binary_layer(n, "Subtract", x, reduce_axis(n, "ReduceMax", x, axis));
    struct ir_ref y = keep_nan(n, below, exp_of(n, below)),
                  sum = reduce_axis(n, "ReduceSum", y, axis);

    if (op->known.op[0] == 's') return ov_narrow(n, binary_layer(n, "Divide", y, sum));
    return ov_narrow(n, binary_layer(n, "Subtract", below, unary_layer(n, "Log", sum)));
}

/* 1 where x is NaN, else 0. */
static struct ir_ref is_nan(const struct ov_node *n, struct ir_ref x)
{
    return select_of(n, truth_layer(n, "NotEqual", x, x), ir_float(n->ir, BP_F32, 1),
                     ir_float(n->ir, BP_F32, 0));
}

/* y, or NaN where the same reduction of is_nan(x) has a 1. */
static struct ir_ref keep_any_nan(const struct ov_node *n, struct ir_ref any, struct ir_ref y)
{
    struct ir_ref half = ir_float(n->ir, BP_F32, 0.5), nan = ir_float(n->ir, BP_F32, NAN);

    return ov_narrow(n, select_of(n, truth_layer(n, "Greater", any, half), nan, y));
}

struct ir_ref ov_exact_extreme(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref x = ov_wide(n, 0);

    if (!ov_in(n, 0)->rank) return ov_narrow(n, x);
    return keep_any_nan(n, ov_reduce(n, "ReduceMax", is_nan(n, x)), ov_reduce(n, op->type, x));
}

struct ir_ref ov_exact_max_pool(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref x = ov_wide(n, 0);

    return keep_any_nan(n, ov_pool(n, op, is_nan(n, x)), ov_pool(n, op, x));
}
