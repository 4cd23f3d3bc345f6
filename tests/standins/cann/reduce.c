/* SPDX-License-Identifier: Apache-2.0 */
/* reduce.c: implements reductions, searches for extremes and scans of the stand-in for CANN. */
#include "family.h"
#include <string.h>

/* The axes of an argument, sorted out: bit i for axis i; no numbers: all axes. */
static int reduce_axes(struct cann_call *call, int arg, int rank, unsigned *out)
{
    const struct cann_arg *a = &call->arg[arg];
    int axis;

    *out = 0;
    for (int i = 0; i < a->n_at; i++) {
        CANN_TRY(cann_want_axis(call, arg, a->at[i], rank, &axis));
        if (*out >> axis & 1) return cann_refuse(call, arg, "has axis %d twice", axis);
        *out |= 1u << axis;
    }
    if (!a->n_at) *out = (1u << rank) - 1;
    return 0;
}

static struct cann_shape reduce_shape(const struct cann_tensor *x, unsigned axes, bool keep)
{
    struct cann_shape s = {0};

    for (int i = 0; i < x->rank; i++) {
        if (!(axes >> i & 1)) s.at[s.rank++] = x->dims[i];
        else if (keep) s.at[s.rank++] = 1;
    }
    return s;
}

/* Checks input 0, axes and keep, and the shape of out. */
static int reduce_check(struct cann_call *call, int axes_arg, int keep_arg, int out)
{
    bool sums = !strcmp(call->op->name, "aclnnReduceSum"); /* also true values */
    struct cann_shape shape;
    unsigned axes;

    CANN_TRY(cann_want(call, 0, call->op->dtypes | (sums ? BP_M(BOOL) : 0)));
    CANN_TRY(reduce_axes(call, axes_arg, cann_type(call, 0)->rank, &axes));
    shape = reduce_shape(cann_type(call, 0), axes, call->arg[keep_arg].i != 0);
    return cann_want_shape(call, out, &shape);
}

/* The attributes of reductions begin alike. */
static struct bp_dims axes_of(const struct cann_arg *a)
{
    return (struct bp_dims){.at = a->at, .n = a->n_at};
}

static void reduce_apply(struct cann_temps *temps, const char *op, const struct base_tensor *x,
                         struct bp_dims axes, int64_t keep, const struct base_tensor *y)
{
    struct bp_sum_attrs attrs = {.size = sizeof attrs, .axes = axes, .keep = keep};

    if (x->rank) cann_apply(temps, op, &attrs, x, NULL, NULL, y);
    else cann_write(temps, x, y);
}

/* The number of elements that become one. */
static double reduce_count(const struct base_tensor *x, const struct base_tensor *y)
{
    int64_t n = base_tensor_count(y);

    return n ? (double)(base_tensor_count(x) / n) : 0;
}

/* self, dims, keepDims, dtype, out */
int cann_check_reduce_typed(struct cann_call *call)
{
    CANN_TRY(cann_want_own(call, 4));
    if (call->arg[3].i != cann_type(call, 4)->dtype)
        return cann_refuse(call, 3, "is %s, out is %s", cann_dtype_name((int)call->arg[3].i),
                           cann_dtype_name(cann_type(call, 4)->dtype));
    return reduce_check(call, 1, 2, 4);
}

/* Halves are summed in f32. */
static void reduce_sum(struct cann_temps *temps, const struct cann_call *call, double factor,
                       const struct base_tensor *y)
{
    const struct base_tensor *x = cann_host(call, 0);
    bool is_half = y->dtype == BP_F16 || y->dtype == BP_BF16;
    uint32_t wide = is_half ? BP_F32 : y->dtype;
    struct base_tensor in = cann_in_dtype(temps, x, wide), sum, by;

    sum = cann_temp(temps, wide, y->rank, y->shape);
    reduce_apply(temps, "sum", &in, axes_of(&call->arg[1]), call->arg[2].i, &sum);
    if (factor != 1) {
        by = cann_number(temps, wide, factor);
        cann_apply(temps, "mul", NULL, &sum, &by, NULL, &sum);
    }
    cann_write(temps, &sum, y);
}

int cann_run_reduce_typed(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 4);
    bool is_mean = !strcmp(call->op->bp, "mean");
    struct cann_temps temps = {.n = 0};

    reduce_sum(&temps, call, is_mean ? 1 / reduce_count(cann_host(call, 0), y) : 1, y);
    cann_temps_free(&temps);
    return temps.code;
}

/* self, dim, keepDim, out of the same dtype */
int cann_check_reduce(struct cann_call *call)
{
    CANN_TRY(reduce_check(call, 1, 2, 3));
    return cann_want_same(call, 3, 0);
}

int cann_run_reduce(struct cann_call *call)
{
    struct cann_temps temps = {.n = 0};

    reduce_apply(&temps, call->op->bp, cann_host(call, 0), axes_of(&call->arg[1]), call->arg[2].i,
                 cann_host(call, 3));
    return temps.code;
}

/* self, dim, keepdim, out: bool, or u8 for u8 */
int cann_check_reduce_bool(struct cann_call *call)
{
    CANN_TRY(reduce_check(call, 1, 2, 3));
    return cann_want(call, 3, BP_M(BOOL));
}

int cann_run_reduce_bool(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    struct bp_any_attrs attrs = {
        .size = sizeof attrs, .axes = axes_of(&call->arg[1]), .keep = call->arg[2].i};
    struct base_call base = {.op = call->op->bp,
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = 1,
                             .in = {x},
                             .out = {cann_host(call, 3)},
                             .type = {x->dtype, BP_BOOL, BASE_ABSENT, BASE_ABSENT}};

    return base_compute(&base);
}

/* self, ord, dims, keepDims, dtype, out */
int cann_check_norm(struct cann_call *call)
{
    CANN_TRY(reduce_check(call, 2, 3, 5));
    if (call->arg[4].i != cann_type(call, 5)->dtype)
        return cann_refuse(call, 4, "is not the dtype of out");
    return cann_want_same(call, 5, 0);
}

int cann_run_norm(struct cann_call *call)
{
    struct bp_norm_attrs attrs = {.size = sizeof attrs,
                                  .axes = axes_of(&call->arg[2]),
                                  .keep = call->arg[3].i,
                                  .p = call->arg[1].d};
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, "norm", &attrs, cann_host(call, 0), NULL, NULL, cann_host(call, 5));
    return temps.code;
}

/* Checks one axis: the argument's integer. */
static int axis_check(struct cann_call *call, int arg, int keep_arg, int out)
{
    struct cann_shape shape;
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_axis(call, arg, call->arg[arg].i, cann_type(call, 0)->rank, &axis));
    shape = reduce_shape(cann_type(call, 0), 1u << axis, call->arg[keep_arg].i != 0);
    return cann_want_shape(call, out, &shape);
}

/* self, dim, keepDim, dtype, out */
int cann_check_prod(struct cann_call *call)
{
    CANN_TRY(axis_check(call, 1, 2, 4));
    if (call->arg[3].i != cann_type(call, 4)->dtype)
        return cann_refuse(call, 3, "is not the dtype of out");
    return cann_want_own(call, 4);
}

int cann_run_prod(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 4);
    struct bp_dims axes = {.at = &call->arg[1].i, .n = 1};
    struct cann_temps temps = {.n = 0};
    struct base_tensor x = cann_in_dtype(&temps, cann_host(call, 0), y->dtype);

    reduce_apply(&temps, "prod", &x, axes, call->arg[2].i, y);
    cann_temps_free(&temps);
    return temps.code;
}

/* Var: self, dim, unbiased, keepdim, out; Std: self, dim, correction, keepdim, out */
int cann_check_var(struct cann_call *call)
{
    CANN_TRY(reduce_check(call, 1, 3, 4));
    return cann_want_same(call, 4, 0);
}

/* The mean of squares of distances from the mean, in f32. */
int cann_run_var(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 4), *x = cann_host(call, 0);
    struct bp_dims axes = axes_of(&call->arg[1]);
    double n = reduce_count(x, y), left = n - (double)call->arg[2].i;
    struct cann_temps temps = {.n = 0};
    struct base_tensor in = cann_in_dtype(&temps, x, BP_F32), mean, away, sum, by;
    int64_t kept[CANN_RANK];

    for (int i = 0; i < x->rank; i++) kept[i] = axes.n ? x->shape[i] : 1;
    for (int i = 0; i < axes.n; i++) kept[axes.at[i] < 0 ? axes.at[i] + x->rank : axes.at[i]] = 1;
    mean = cann_temp(&temps, BP_F32, x->rank, kept);
    away = cann_temp(&temps, BP_F32, x->rank, x->shape);
    sum = cann_temp(&temps, BP_F32, y->rank, y->shape);
    by = cann_number(&temps, BP_F32, n);
    reduce_apply(&temps, "sum", &in, axes, 1, &mean);
    cann_apply(&temps, "div", NULL, &mean, &by, NULL, &mean);
    cann_apply(&temps, "sub", NULL, &in, &mean, NULL, &away);
    cann_apply(&temps, "mul", NULL, &away, &away, NULL, &away);
    reduce_apply(&temps, "sum", &away, axes, call->arg[3].i, &sum);
    by = cann_number(&temps, BP_F32, left > 0 ? left : 0);
    cann_apply(&temps, "div", NULL, &sum, &by, NULL, &sum);
    if (!strcmp(call->op->name, "aclnnStd"))
        cann_apply(&temps, "sqrt", NULL, &sum, NULL, NULL, &sum);
    cann_write(&temps, &sum, y);
    cann_temps_free(&temps);
    return temps.code;
}

/* self, dim, keepdim, out: i32 or i64 */
int cann_check_arg(struct cann_call *call)
{
    CANN_TRY(cann_want(call, 3, CANN_INDEX));
    return axis_check(call, 1, 2, 3);
}

int cann_run_arg(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *y = cann_host(call, 3);
    struct bp_argmax_attrs attrs = {
        .size = sizeof attrs, .axis = call->arg[1].i, .keep = call->arg[2].i, .dtype = y->dtype};
    struct base_call base = {.op = call->op->bp,
                             .attrs = &attrs,
                             .n_in = 1,
                             .n_out = 1,
                             .in = {x},
                             .out = {y},
                             .type = {x->dtype, y->dtype, BASE_ABSENT, BASE_ABSENT}};

    return base_compute(&base);
}

/* self, dim, dtype, out */
static int scan_check(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));
    int axis;

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_own(call, 3));
    CANN_TRY(cann_want_axis(call, 1, call->arg[1].i, shape.rank, &axis));
    if (call->arg[2].i != cann_type(call, 3)->dtype)
        return cann_refuse(call, 2, "is not the dtype of out");
    return cann_want_shape(call, 3, &shape);
}

static int scan_run(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 3);
    struct bp_cumsum_attrs attrs = {.size = sizeof attrs, .axis = call->arg[1].i};
    struct cann_temps temps = {.n = 0};
    struct base_tensor x = cann_in_dtype(&temps, cann_host(call, 0), y->dtype);

    if (y->rank) cann_apply(&temps, call->op->bp, &attrs, &x, NULL, NULL, y);
    else cann_write(&temps, &x, y);
    cann_temps_free(&temps);
    return temps.code;
}

int cann_check_cumsum(struct cann_call *call)
{
    return scan_check(call);
}

int cann_run_cumsum(struct cann_call *call)
{
    return scan_run(call);
}

/* Its axis is a scalar. */
int cann_check_cumprod(struct cann_call *call)
{
    return scan_check(call);
}

int cann_run_cumprod(struct cann_call *call)
{
    return scan_run(call);
}
