/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: finds the rows of operators, and writes operators that work element by element, products
 * and norms. Read ops.h first.
 *
 * OpenVINO's devices compute i64 and u32 in 32 bits and f64 in f32, so that such values are claimed
 * only as indices and as inputs of casts. */
#include "ops.h"

#include <backplane/attrs.h>
#include <math.h>
#include <string.h>

/* clang-format off */
const struct ov_op openvino_ops[] = {
#define ALL(op, type, opset, dtypes, lossy, refuses, write, exact) \
    {{BP_OPROW(op), .types = {dtypes}}, \
     type, opset, lossy, dtypes, refuses, ov_write_##write, exact},
#define ROW(op, type, opset, dtypes, refuses, write) \
    ALL(op, type, opset, dtypes, false, refuses, write, NULL)
#define LOSSY(op, type, opset, refuses, write) \
    ALL(op, type, opset, FLOATS, true, refuses, write, NULL)
#define KEPT(op, type, opset, refuses, write, exact) \
    ALL(op, type, opset, FLOATS, true, refuses, write, ov_exact_##exact)
#include "ops.def"
#undef ALL
};
/* clang-format on */
_Static_assert(sizeof openvino_ops / sizeof *openvino_ops == OPENVINO_OPS, "their number");

const struct ov_op *openvino_op_find(const char *op)
{
    for (uint32_t i = 0; i < OPENVINO_OPS; i++)
        if (!strcmp(openvino_ops[i].known.op, op)) return &openvino_ops[i];
    return NULL;
}

void openvino_write(const struct ov_node *n)
{
    const struct ov_op *op = openvino_op_find(n->node->op);

    n->ref[n->node->out[0]] = n->exact && op->exact ? op->exact(n, op) : op->write(n, op);
}

struct ir_ref ov_wide(const struct ov_node *n, uint32_t i)
{
    return ov_is_half(ov_in(n, i)->dtype) ? ir_convert(n->ir, ov_ref(n, i), BP_F32) : ov_ref(n, i);
}

struct ir_ref ov_narrow(const struct ov_node *n, struct ir_ref x)
{
    uint32_t dtype = ov_out(n)->dtype;

    return ov_is_half(dtype) ? ir_convert(n->ir, x, dtype) : x;
}

/* A layer of the row's type with the node's inputs and no attributes. */
struct ir_ref ov_write_plain(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref in[] = {ov_ref(n, 0), n->node->n_in > 1 ? ov_ref(n, 1) : ov_ref(n, 0)};

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, n->node->n_in, NULL);
}

struct ir_ref ov_write_square(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref in[] = {ov_ref(n, 0), ov_ref(n, 0)};

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 2, NULL);
}

struct ir_ref ov_write_rsqrt(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref in[] = {ov_ref(n, 0), ir_float(n->ir, ov_out(n)->dtype, -0.5)};

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 2, NULL);
}

struct ir_ref ov_write_reciprocal(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref in[] = {ir_float(n->ir, ov_out(n)->dtype, 1), ov_ref(n, 0)};

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 2, NULL);
}

struct ir_ref ov_write_where(const struct ov_node *n, const struct ov_op *op)
{
    struct ir_ref in[] = {ov_ref(n, 0), ov_ref(n, 1), ov_ref(n, 2)};

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 3, NULL);
}

struct ir_ref ov_write_scale(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_scale_attrs *a = n->attrs;
    struct ir_ref in[] = {ov_wide(n, 0), {0, 0}};

    (void)op;
    if (a->factor != 1) {
        in[1] = ir_float(n->ir, BP_F32, a->factor);
        in[0] = ir_add(n->ir, "Multiply", 1, BP_F32, in, 2, NULL);
    }
    if (a->bias != 0) {
        in[1] = ir_float(n->ir, BP_F32, a->bias);
        in[0] = ir_add(n->ir, "Add", 1, BP_F32, in, 2, NULL);
    }
    return ov_narrow(n, in[0]);
}

/* A layer with x and numbers as inputs, in f32. */
static struct ir_ref write_numbers(const struct ov_node *n, const struct ov_op *op, uint32_t count,
                                   const double *number)
{
    struct ir_ref in[3] = {ov_wide(n, 0)};

    for (uint32_t i = 0; i < count; i++) in[i + 1] = ir_float(n->ir, BP_F32, number[i]);
    return ov_narrow(n, ir_add(n->ir, op->type, op->opset, BP_F32, in, count + 1, NULL));
}

/* The slope has one axis. */
struct ir_ref ov_write_leaky_relu(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_leaky_relu_attrs *a = n->attrs;
    struct ir_ref in[] = {ov_wide(n, 0), ir_floats(n->ir, 1, (float)a->slope)};

    return ov_narrow(n, ir_add(n->ir, op->type, op->opset, BP_F32, in, 2, NULL));
}

struct ir_ref ov_write_swish(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_swish_attrs *a = n->attrs;

    return write_numbers(n, op, 1, &a->beta);
}

struct ir_ref ov_write_hard_sigmoid(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_hard_sigmoid_attrs *a = n->attrs;
    const double number[] = {a->slope, a->offset};

    return write_numbers(n, op, 2, number);
}

struct ir_ref ov_write_elu(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_elu_attrs *a = n->attrs;
    struct ir_ref x = ov_ref(n, 0);
    char alpha[IR_NUMBER];

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, &x, 1, "alpha=\"%s\"",
                  ir_number(alpha, a->alpha));
}

struct ir_ref ov_write_gelu(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_gelu_attrs *a = n->attrs;
    struct ir_ref x = ov_ref(n, 0);

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, &x, 1, "approximation_mode=\"%s\"",
                  a->approximate ? "TANH" : "ERF");
}

/* The library's layer takes finite bounds that are not crossed only. */
struct ir_ref ov_clip(const struct ov_node *n, const struct ov_op *op, struct ir_ref x)
{
    const struct bp_clip_attrs *a = n->attrs;
    struct ir_ref in[] = {x, {0, 0}};
    char min[IR_NUMBER], max[IR_NUMBER];

    if (isfinite(a->min) && isfinite(a->max) && a->min <= a->max)
        return ir_add(n->ir, op->type, op->opset, BP_F32, in, 1, "min=\"%s\" max=\"%s\"",
                      ir_number(min, a->min), ir_number(max, a->max));
    in[1] = ir_float(n->ir, BP_F32, a->min);
    in[0] = ir_add(n->ir, "Maximum", 1, BP_F32, in, 2, NULL);
    in[1] = ir_float(n->ir, BP_F32, a->max);
    return ir_add(n->ir, "Minimum", 1, BP_F32, in, 2, NULL);
}

struct ir_ref ov_write_clip(const struct ov_node *n, const struct ov_op *op)
{
    return ov_narrow(n, ov_clip(n, op, ov_wide(n, 0)));
}

/* Whether a value comes from outside of all groups, so that a run sees its contents. */
static bool is_outside(const struct ov_node *n, uint32_t i)
{
    const struct bp_data_value *x = ov_in(n, i);

    return x->node == BP_DATA_NONE || !n->group || !n->group[x->node];
}

const char *ov_refuses_cast(const struct ov_node *n)
{
    uint32_t from = ov_in(n, 0)->dtype, to = ov_out(n)->dtype;

    if (from == BP_I64 &&
        (to != BP_F32 || !is_outside(n, 0) || ov_in(n, 0)->flags & BP_DATA_FROZEN))
        return "i64 is converted to f32 only, and only if no claimed node computes it";
    if (!(BP_M(F32) & UINT64_C(1) << to) && !ov_is_half(to))
        return "a conversion to a type that is no float rounds by other rules";
    return NULL;
}

/* Integers of 64 bits are converted before a run: see engine.c. */
struct ir_ref ov_write_cast(const struct ov_node *n, const struct ov_op *op)
{
    (void)op;
    return ov_in(n, 0)->dtype == BP_I64 ? n->wide[n->node->in[0]]
                                        : ir_convert(n->ir, ov_ref(n, 0), ov_out(n)->dtype);
}

const char *ov_refuses_gather(const struct ov_node *n)
{
    if (ov_in(n, 0)->dtype == BP_I64) return "i64 is computed in 32 bits";
    return is_outside(n, 1) ? NULL : "indices that a claimed node computes cannot be checked";
}

/* A side of rank 1 is a row or a column, which nothing transposes. */
const char *ov_refuses_matmul(const struct ov_node *n)
{
    return ov_in(n, 0)->rank && ov_in(n, 1)->rank ? NULL : "a side of rank 0";
}

struct ir_ref ov_write_matmul(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_matmul_attrs *a = n->attrs;
    struct ir_ref in[] = {ov_ref(n, 0), ov_ref(n, 1)};
    bool turns[] = {a->transpose_a && ov_in(n, 0)->rank > 1,
                    a->transpose_b && ov_in(n, 1)->rank > 1};

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, in, 2,
                  "transpose_a=\"%s\" transpose_b=\"%s\"", turns[0] ? "true" : "false",
                  turns[1] ? "true" : "false");
}

/* Attributes of softmax and log_softmax are alike. */
struct ir_ref ov_write_softmax(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_softmax_attrs *a = n->attrs;
    struct ir_ref x = ov_ref(n, 0);

    return ir_add(n->ir, op->type, op->opset, ov_out(n)->dtype, &x, 1, "axis=\"%d\"",
                  (int)ov_axis(a->axis, ov_out(n)->rank));
}

const char *ov_refuses_layer_norm(const struct ov_node *n)
{
    for (uint32_t i = 1; i < n->node->n_out; i++)
        if (n->node->out[i] != BP_DATA_NONE) return "the statistics are results too";
    return NULL;
}

struct ir_ref ov_write_layer_norm(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_layer_norm_attrs *a = n->attrs;
    uint32_t rank = ov_out(n)->rank;
    int64_t axes[OPENVINO_RANK], first = ov_axis(a->axis, rank);
    struct ir_ref in[] = {ov_wide(n, 0), {0, 0}};
    char epsilon[IR_NUMBER];

    for (int64_t i = first; i < rank; i++) axes[i - first] = i;
    in[1] = ir_integers(n->ir, axes, rank - first);
    in[0] = ir_add(n->ir, op->type, op->opset, BP_F32, in, 2,
                   "normalize_variance=\"true\" eps=\"%s\" eps_mode=\"INSIDE_SQRT\"",
                   ir_number(epsilon, a->epsilon));
    for (uint32_t i = 1; i < 3; i++) {
        if (!ov_in(n, i)) continue;
        in[1] = ov_wide(n, i);
        in[0] = ir_add(n->ir, i == 1 ? "Multiply" : "Add", 1, BP_F32, in, 2, NULL);
    }
    return ov_narrow(n, in[0]);
}

/* The library's layer divides by the square root of max(sum of squares, eps). */
const char *ov_refuses_lp_normalize(const struct ov_node *n)
{
    const struct bp_lp_normalize_attrs *a = n->attrs;

    if (a->p != 2) return "a norm of another order than 2";
    return a->epsilon != 0 && a->epsilon < 1e-18 ? "an epsilon whose square f32 does not have"
                                                 : NULL;
}

/* Without an epsilon: divides by the largest magnitude first, so that squares neither underflow nor
 * overflow. A vector that is not zero then has a norm of 1 at least; one of zeros stays. */
static struct ir_ref write_unit_vector(const struct ov_node *n, struct ir_ref x, struct ir_ref axes)
{
    struct ir_ref in[] = {ir_add(n->ir, "Abs", 1, BP_F32, &x, 1, NULL), axes}, y[2] = {x};

    in[0] = ir_add(n->ir, "ReduceMax", 1, BP_F32, in, 2, "keep_dims=\"true\"");
    in[1] = ir_float(n->ir, BP_F32, 1e-37);
    y[1] = ir_add(n->ir, "Maximum", 1, BP_F32, in, 2, NULL);
    y[0] = y[1] = ir_add(n->ir, "Divide", 1, BP_F32, y, 2, NULL);
    in[0] = ir_add(n->ir, "Multiply", 1, BP_F32, y, 2, NULL);
    in[1] = axes;
    in[0] = ir_add(n->ir, "ReduceSum", 1, BP_F32, in, 2, "keep_dims=\"true\"");
    in[0] = ir_add(n->ir, "Sqrt", 1, BP_F32, in, 1, NULL);
    in[1] = ir_float(n->ir, BP_F32, 1);
    y[1] = ir_add(n->ir, "Maximum", 1, BP_F32, in, 2, NULL);
    return ir_add(n->ir, "Divide", 1, BP_F32, y, 2, NULL);
}

struct ir_ref ov_write_lp_normalize(const struct ov_node *n, const struct ov_op *op)
{
    const struct bp_lp_normalize_attrs *a = n->attrs;
    int64_t axis = ov_axis(a->axis, ov_out(n)->rank);
    struct ir_ref in[] = {ov_wide(n, 0), ir_integers(n->ir, &axis, 1)};
    char epsilon[IR_NUMBER];

    if (a->epsilon == 0) return ov_narrow(n, write_unit_vector(n, in[0], in[1]));
    return ov_narrow(n, ir_add(n->ir, op->type, op->opset, BP_F32, in, 2,
                               "eps=\"%s\" eps_mode=\"max\"",
                               ir_number(epsilon, a->epsilon * a->epsilon)));
}

/* Attributes of sum, mean, max and min are alike. */
struct ir_ref ov_reduce(const struct ov_node *n, const char *type, struct ir_ref x)
{
    const struct bp_sum_attrs *a = n->attrs;
    uint32_t rank = ov_in(n, 0)->rank;
    int64_t axes[OPENVINO_RANK], count = a->axes.n ? a->axes.n : rank;
    struct ir_ref in[] = {x, {0, 0}};

    for (int64_t i = 0; i < count; i++) axes[i] = a->axes.n ? ov_axis(a->axes.at[i], rank) : i;
    in[1] = ir_integers(n->ir, axes, count);
    return ir_add(n->ir, type, 1, ov_out(n)->dtype, in, 2, "keep_dims=\"%s\"",
                  a->keep ? "true" : "false");
}

struct ir_ref ov_write_reduce(const struct ov_node *n, const struct ov_op *op)
{
    return ov_in(n, 0)->rank ? ov_reduce(n, op->type, ov_ref(n, 0)) : ov_ref(n, 0);
}
