/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: builds the calls of reductions over axes and of scans along an axis. All reductions
 * have the attributes of sum first: axes and keep. */
#include "builds.h"
#include "parts.h"
#include <math.h>
#include <string.h>

#define REDUCE_AXES KIT_VALUE(KIT_AXES(sum, axes, 0))
#define REDUCE_KEEP KIT_VALUE(KIT_INT(sum, keep))
#define REDUCE_KEPT KIT_VALUE(KIT_INT_IS(1))

/* A reduction of nothing: the result has a number everywhere. */
static bool reduce_is_empty(struct kit_build *b, double number)
{
    if (b->in[0]->count || !b->out[0]->count) return false;
    KIT_STEP(b, "InplaceFillScalar", KIT_UPDATED(0), KIT_NUMBER_IS(number));
    return true;
}

static enum bp_status reduce_typed(struct kit_build *b, const char *function, double nothing)
{
    if (reduce_is_empty(b, nothing)) return b->status;
    return KIT_STEP(b, function, KIT_IN(0), REDUCE_AXES, REDUCE_KEEP, KIT_OUT_DTYPE(0), KIT_OUT(0));
}

static enum bp_status reduce_plain(struct kit_build *b, const char *function, double nothing)
{
    if (reduce_is_empty(b, nothing)) return b->status;
    return KIT_STEP(b, function, KIT_IN(0), REDUCE_AXES, REDUCE_KEEP, KIT_OUT(0));
}

enum bp_status npu_sum_build(struct kit_build *b)
{
    return reduce_typed(b, "ReduceSum", 0);
}

enum bp_status npu_mean_build(struct kit_build *b)
{
    return reduce_typed(b, "Mean", NAN);
}

enum bp_status npu_max_build(struct kit_build *b)
{
    return reduce_plain(b, "Amax", -INFINITY);
}

enum bp_status npu_min_build(struct kit_build *b)
{
    return reduce_plain(b, "Amin", INFINITY);
}

enum bp_status npu_any_build(struct kit_build *b)
{
    return reduce_plain(b, "Any", 0);
}

enum bp_status npu_all_build(struct kit_build *b)
{
    return reduce_plain(b, "All", 1);
}

/* The shape of the result with all axes kept. */
static void reduce_kept(const struct kit_build *b, int64_t shape[KIT_AXES_MAX])
{
    const struct bp_view *x = b->in[0];
    int64_t axes[KIT_INTS_MAX];
    uint32_t n = kit_arg_ints(b, &REDUCE_AXES, axes);

    memcpy(shape, x->shape, x->rank * sizeof *shape);
    for (uint32_t i = 0; i < n && x->rank; i++) shape[axes[i]] = 1;
}

/* Reduces a value to a temporary that keeps all axes. */
static struct kit_arg reduce_part(struct kit_build *b, const char *function, struct kit_arg x)
{
    const uint32_t dtype = part_dtype(b, x);
    const bool typed = !strcmp(function, "ReduceSum") || !strcmp(function, "Mean");
    int64_t shape[KIT_AXES_MAX];
    struct kit_arg to;

    reduce_kept(b, shape);
    to = kit_temporary(b, dtype, b->in[0]->rank, shape);
    if (typed) KIT_STEP(b, function, x, REDUCE_AXES, REDUCE_KEPT, KIT_DTYPE_IS(dtype), to);
    else KIT_STEP(b, function, x, REDUCE_AXES, REDUCE_KEPT, to);
    return to;
}

/* Writes a value that keeps all axes to the result. */
static enum bp_status reduce_end(struct kit_build *b, struct kit_arg value)
{
    return part_end(b, kit_reshaped(b, value, b->out[0]->rank, b->out[0]->shape));
}

static bool reduce_is_f64(const struct kit_build *b)
{
    return b->in[0]->dtype == BP_F64;
}

/* CANN's function does not take f64: there m + log(sum(e^(x - m))), m the largest x, or 0 where
 * that is not finite. */
enum bp_status npu_logsumexp_build(struct kit_build *b)
{
    struct kit_arg m, x = KIT_IN(0), finite, e;

    if (!reduce_is_f64(b) || !b->in[0]->count) return reduce_plain(b, "LogSumExp", -INFINITY);
    m = reduce_part(b, "Amax", x);
    finite = part_compare(b, "LtTensor", part_one(b, "Abs", m), KIT_VALUE(KIT_NUMBER_IS(INFINITY)));
    m = part_where_else(b, finite, m, KIT_VALUE(KIT_NUMBER_IS(0)));
    e = reduce_part(b, "ReduceSum", part_one(b, "Exp", part_sub(b, x, m)));
    return reduce_end(b, part_add(b, m, part_one(b, "Log", e)));
}

/* The mean of squared distances from the mean, for f64, which CANN's functions do not take. */
static struct kit_arg var_part(struct kit_build *b, bool unbiased)
{
    struct kit_arg x = KIT_IN(0), d = part_sub(b, x, reduce_part(b, "Mean", x)), sum;
    int64_t shape[KIT_AXES_MAX];
    double n = (double)b->in[0]->count;

    reduce_kept(b, shape);
    for (uint32_t a = 0; a < b->in[0]->rank; a++) n /= (double)shape[a];
    sum = reduce_part(b, "ReduceSum", part_two(b, "Mul", d, d));
    n -= unbiased;
    return part_times(b, sum, KIT_VALUE(KIT_NUMBER_IS(n > 0 ? 1 / n : INFINITY)));
}

enum bp_status npu_var_build(struct kit_build *b)
{
    const struct bp_var_attrs *attrs = b->attrs;

    if (reduce_is_empty(b, NAN)) return b->status;
    if (reduce_is_f64(b)) return reduce_end(b, var_part(b, attrs->unbiased));
    return KIT_STEP(b, "Var", KIT_IN(0), REDUCE_AXES, KIT_INT(var, unbiased), REDUCE_KEEP,
                    KIT_OUT(0));
}

enum bp_status npu_std_build(struct kit_build *b)
{
    const struct bp_std_attrs *attrs = b->attrs;

    if (reduce_is_empty(b, NAN)) return b->status;
    if (reduce_is_f64(b)) return reduce_end(b, part_one(b, "Sqrt", var_part(b, attrs->unbiased)));
    return KIT_STEP(b, "Std", KIT_IN(0), REDUCE_AXES, KIT_INT(std, unbiased), REDUCE_KEEP,
                    KIT_OUT(0));
}

static struct kit_arg nonzero_part(struct kit_build *b, struct kit_arg x, uint32_t dtype)
{
    return part_cast(b, part_compare(b, "NeTensor", x, KIT_VALUE(KIT_SCALAR_IS(0))), dtype);
}

enum bp_status npu_count_nonzero_build(struct kit_build *b)
{
    if (reduce_is_empty(b, 0)) return b->status;
    return reduce_end(b,
                      reduce_part(b, "ReduceSum", nonzero_part(b, KIT_VALUE(KIT_IN(0)), BP_I64)));
}

enum bp_status npu_nansum_build(struct kit_build *b)
{
    struct kit_arg x = KIT_IN(0);

    if (reduce_is_empty(b, 0)) return b->status;
    x = part_where_else(b, part_test(b, "EqTensor", x, x), x, KIT_VALUE(KIT_NUMBER_IS(0)));
    return reduce_end(b, reduce_part(b, "ReduceSum", x));
}

/* A power with a constant exponent. */
static struct kit_arg power_part(struct kit_build *b, struct kit_arg x, double exponent)
{
    struct kit_arg e = part_number(b, part_dtype(b, x), KIT_VALUE(KIT_NUMBER_IS(exponent)));

    return part_two(b, "PowTensorTensor", x, e);
}

/* The norm of f64, which CANN's function does not take. */
static struct kit_arg norm_part(struct kit_build *b, double p)
{
    struct kit_arg x = KIT_IN(0), size;

    if (p == 2) return part_one(b, "Sqrt", reduce_part(b, "ReduceSum", part_two(b, "Mul", x, x)));
    if (p == 0) return reduce_part(b, "ReduceSum", nonzero_part(b, x, BP_F64));
    size = part_one(b, "Abs", x);
    if (isinf(p)) return reduce_part(b, p > 0 ? "Amax" : "Amin", size);
    if (p == 1) return reduce_part(b, "ReduceSum", size);
    return power_part(b, reduce_part(b, "ReduceSum", power_part(b, size, p)), 1 / p);
}

enum bp_status npu_norm_build(struct kit_build *b)
{
    const struct bp_norm_attrs *attrs = b->attrs;

    if (reduce_is_empty(b, attrs->p < 0 ? INFINITY : 0)) return b->status;
    if (reduce_is_f64(b)) return reduce_end(b, norm_part(b, attrs->p));
    return KIT_STEP(b, "LinalgVectorNorm", KIT_IN(0), KIT_SCALAR(norm, p), REDUCE_AXES, REDUCE_KEEP,
                    KIT_OUT_DTYPE(0), KIT_OUT(0));
}

enum bp_status npu_norm_grad_build(struct kit_build *b)
{
    const struct bp_norm_grad_attrs *attrs = b->attrs;
    struct kit_arg x = part_in(b, 0), y = part_in(b, 1), dy = part_in(b, 2), size, dx, none;

    if (attrs->p == 0) return KIT_STEP(b, "InplaceFillScalar", KIT_UPDATED(0), KIT_NUMBER_IS(0));
    size = part_one(b, "Abs", x);
    dx = part_two(b, "Mul", part_one(b, "Sign", x), dy);
    if (isinf(attrs->p))
        return part_end(b, part_where_else(b, part_test(b, "EqTensor", size, y), dx,
                                           KIT_VALUE(KIT_NUMBER_IS(0))));
    if (attrs->p != 1) {
        struct kit_arg part = part_two(b, "Div", size, y);

        if (attrs->p != 2) part = power_part(b, part, attrs->p - 1);
        dx = part_two(b, "Mul", dx, part);
    }
    none = part_test(b, "LogicalOr", part_compare(b, "EqTensor", y, KIT_VALUE(KIT_NUMBER_IS(0))),
                     part_compare(b, "EqTensor", x, KIT_VALUE(KIT_NUMBER_IS(0))));
    return part_end(b, part_where_number(b, none, KIT_VALUE(KIT_NUMBER_IS(0)), dx));
}

/* CANN multiplies along one axis at a time. Half types stay in f32 between the axes. */
enum bp_status npu_prod_build(struct kit_build *b)
{
    int64_t axes[KIT_INTS_MAX], shape[KIT_AXES_MAX];
    const uint32_t n = kit_arg_ints(b, &REDUCE_AXES, axes), rank = b->in[0]->rank;
    struct kit_arg x = n > 1 ? part_in(b, 0) : KIT_VALUE(KIT_IN(0));

    if (reduce_is_empty(b, 1)) return b->status;
    if (!rank) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), x);
    memcpy(shape, b->in[0]->shape, rank * sizeof *shape);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t dtype = part_dtype(b, x);
        struct kit_arg to;

        shape[axes[i]] = 1;
        to = kit_temporary(b, dtype, rank, shape);
        KIT_STEP(b, "ProdDim", x, KIT_INT_IS(axes[i]), REDUCE_KEPT, KIT_DTYPE_IS(dtype), to);
        x = to;
    }
    return reduce_end(b, x);
}

enum bp_status npu_sum_grad_build(struct kit_build *b)
{
    const struct bp_view *out = b->out[0];
    int64_t axes[KIT_INTS_MAX], shape[KIT_AXES_MAX] = {0};
    const uint32_t n = kit_arg_ints(b, &KIT_VALUE(KIT_AXES(sum_grad, axes, 1)), axes);
    struct kit_arg dy;

    memcpy(shape, out->shape, out->rank * sizeof *shape);
    for (uint32_t i = 0; i < n && out->rank; i++) shape[axes[i]] = 1;
    dy = kit_reshaped(b, KIT_VALUE(KIT_IN(0)), out->rank, shape);
    return KIT_STEP(b, "Expand", dy, kit_array(b, out->shape, out->rank), KIT_OUT(0));
}

static enum bp_status arg_build(struct kit_build *b, const char *function)
{
    const struct bp_argmax_attrs *attrs = b->attrs; /* those of argmin are the same */
    struct kit_arg x = KIT_VALUE(KIT_IN(0)), out = KIT_VALUE(KIT_OUT(0));

    if (!b->in[0]->count) return kit_refuse(b);
    if (attrs->flatten || !b->in[0]->rank) {
        x = kit_reshaped(b, x, 1, &b->in[0]->count);
        out = kit_reshaped(b, out, 0, NULL);
        return KIT_STEP(b, function, x, KIT_INT_IS(0), KIT_INT_IS(0), out);
    }
    return KIT_STEP(b, function, x, KIT_AXIS(argmax, axis, 0), KIT_INT(argmax, keep), out);
}

enum bp_status npu_argmax_build(struct kit_build *b)
{
    return arg_build(b, "ArgMax");
}

enum bp_status npu_argmin_build(struct kit_build *b)
{
    return arg_build(b, "ArgMin");
}
