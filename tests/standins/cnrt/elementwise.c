/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: implements the elementwise operators of CNNL. */
#include "cnnl.h"
#include <math.h>
#include <string.h>

/* A result of the shape of input 0; the dtype of input 0, too, unless it is given. */
static void unary_result(struct cnnl_call *call, const void *desc, void *data, unsigned dtypes)
{
    cnnl_out(call, desc, data, dtypes ? dtypes : CNNL_MOVED);
    if (cnnl_failed(call)) return;
    cnnl_check(call, cnnl_same_shape(&call->work.in[0], &call->work.out[0]),
               "the result has another shape");
    cnnl_check(call, dtypes || call->work.in[0].dtype == call->work.out[0].dtype,
               "the result has another dtype");
}

static int unary_call(const char *name, void *handle, const char *op, unsigned dtypes,
                      const void *x_desc, const void *x, const void *y_desc, void *y)
{
    bool is_test = !strcmp(op, "isfinite") || !strcmp(op, "isnan");
    struct cnnl_call call;

    cnnl_begin(&call, name, handle);
    cnnl_in(&call, x_desc, x, dtypes);
    unary_result(&call, y_desc, y, is_test ? CNNL_M(CNNL_BOOL) : 0);
    cnnl_operator(&call, op, NULL, 0);
    return cnnl_submit(&call);
}

static int unary_assumed(const char *name, void *handle, int preference, const char *op,
                         const void *x_desc, const void *x, const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, name, handle, preference);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    unary_result(&call, y_desc, y, 0);
    cnnl_operator(&call, op, NULL, 0);
    return cnnl_submit(&call);
}

int cnnlAbs(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlAbs", handle, "abs", CNNL_NUMBERS, x_desc, x, y_desc, y);
}

int cnnlCeil(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlCeil", handle, "ceil", CNNL_FLOATS, x_desc, x, y_desc, y);
}

int cnnlFloor(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlFloor", handle, "floor", CNNL_FLOATS, x_desc, x, y_desc, y);
}

int cnnlRound(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlRound", handle, "round", CNNL_FLOATS, x_desc, x, y_desc, y);
}

int cnnlTrunc(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlTrunc", handle, "trunc", CNNL_FLOATS, x_desc, x, y_desc, y);
}

int cnnlSign(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlSign", handle, "sign", CNNL_NUMBERS, x_desc, x, y_desc, y);
}

int cnnlNegTensor(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlNegTensor", handle, "neg", CNNL_NUMBERS, x_desc, x, y_desc, y);
}

int cnnlReciprocal(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlReciprocal", handle, "reciprocal", CNNL_FLOATS, x_desc, x, y_desc, y);
}

int cnnlSquare(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlSquare", handle, "square", CNNL_NUMBERS, x_desc, x, y_desc, y);
}

int cnnlIsFinite(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlIsFinite", handle, "isfinite", CNNL_FLOATS, x_desc, x, y_desc, y);
}

int cnnlIsNan(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    return unary_call("cnnlIsNan", handle, "isnan", CNNL_FLOATS, x_desc, x, y_desc, y);
}

int cnnlExp_v2(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
               void *y)
{
    return unary_assumed("cnnlExp_v2", handle, preference, "exp", x_desc, x, y_desc, y);
}

int cnnlExpm1(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
              void *y)
{
    return unary_assumed("cnnlExpm1", handle, preference, "expm1", x_desc, x, y_desc, y);
}

int cnnlSqrt_v2(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
                void *y)
{
    return unary_assumed("cnnlSqrt_v2", handle, preference, "sqrt", x_desc, x, y_desc, y);
}

int cnnlRsqrt_v2(void *handle, int preference, const void *x_desc, const void *x,
                 const void *y_desc, void *y)
{
    return unary_assumed("cnnlRsqrt_v2", handle, preference, "rsqrt", x_desc, x, y_desc, y);
}

int cnnlSin_v2(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
               void *y)
{
    return unary_assumed("cnnlSin_v2", handle, preference, "sin", x_desc, x, y_desc, y);
}

int cnnlCos_v2(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
               void *y)
{
    return unary_assumed("cnnlCos_v2", handle, preference, "cos", x_desc, x, y_desc, y);
}

int cnnlErf_v2(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
               void *y)
{
    return unary_assumed("cnnlErf_v2", handle, preference, "erf", x_desc, x, y_desc, y);
}

int cnnlErfinv(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
               void *y)
{
    return unary_assumed("cnnlErfinv", handle, preference, "erfinv", x_desc, x, y_desc, y);
}

int cnnlLog1p(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
              void *y)
{
    return unary_assumed("cnnlLog1p", handle, preference, "log1p", x_desc, x, y_desc, y);
}

int cnnlLog_v2(void *handle, int preference, int base, const void *x_desc, const void *x,
               const void *y_desc, void *y)
{
    static const char *const ops[] = {"log", "log2", "log10"};
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlLog_v2", handle, preference);
    cnnl_check(&call, base >= CNNL_LOG_E && base <= CNNL_LOG_10, "no such base");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    unary_result(&call, y_desc, y, 0);
    if (!cnnl_failed(&call)) cnnl_operator(&call, ops[base], NULL, 0);
    return cnnl_submit(&call);
}

/* The size of a workspace of an operator that broadcasts. */
static size_t broadcast_size(const void *z_desc)
{
    return 64 + cnnl_size(z_desc);
}

/* Appends the result of operators that broadcast, and checks that all have one dtype. */
static void broadcast_result(struct cnnl_call *call, int first, const void *desc, void *data,
                             unsigned dtypes)
{
    const struct cnnl_work *work = &call->work;

    cnnl_out(call, desc, data, dtypes);
    cnnl_broadcasts(call, 0, work->n_in);
    for (int i = first + 1; i < work->n_in; i++)
        cnnl_check(call, work->in[i].dtype == work->in[first].dtype, "inputs differ in dtype");
}

/* (x - y)^2 in two steps, the first of which writes the result. */
static int squared_difference_run(struct cnnl_work *work)
{
    const struct base_tensor *z = &work->out[0], *in[2] = {&work->in[0], &work->in[1]};
    int code = cnnl_compute("sub", NULL, z->dtype, in, 2, &z, 1);

    return code ? code : cnnl_compute("square", NULL, z->dtype, &z, 1, &z, 1);
}

/* Two inputs that broadcast, and their result, once the call has begun. */
static int binary_call(struct cnnl_call *call, const char *op, unsigned dtypes, const void *x_desc,
                       const void *x, const void *y_desc, const void *y, const void *z_desc,
                       void *z, void *workspace, size_t size)
{
    cnnl_in(call, x_desc, x, dtypes);
    cnnl_in(call, y_desc, y, dtypes);
    broadcast_result(call, 0, z_desc, z, dtypes);
    if (!cnnl_failed(call))
        cnnl_check(call, call->work.in[0].dtype == call->work.out[0].dtype,
                   "the result has another dtype");
    cnnl_workspace(call, workspace, size, broadcast_size(z_desc));
    cnnl_operator(call, op, NULL, 0);
    return cnnl_submit(call);
}

/* The size of the workspace of an operator with the result z. */
static int binary_report_size(const char *name, void *handle, const void *z_desc, size_t *out)
{
    return cnnl_report_size(name, handle, broadcast_size(z_desc), out);
}

int cnnlGetMaximumWorkspaceSize(void *handle, const void *z_desc, size_t *out)
{
    return binary_report_size("cnnlGetMaximumWorkspaceSize", handle, z_desc, out);
}

int cnnlMaximum(void *handle, const void *x_desc, const void *x, const void *y_desc, const void *y,
                const void *z_desc, void *z, void *workspace, size_t size)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlMaximum", handle);
    return binary_call(&call, "maximum", CNNL_NUMBERS, x_desc, x, y_desc, y, z_desc, z, workspace,
                       size);
}

int cnnlGetMinimumWorkspaceSize(void *handle, const void *z_desc, size_t *out)
{
    return binary_report_size("cnnlGetMinimumWorkspaceSize", handle, z_desc, out);
}

int cnnlMinimum(void *handle, const void *x_desc, const void *x, const void *y_desc, const void *y,
                const void *z_desc, void *z, void *workspace, size_t size)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlMinimum", handle);
    return binary_call(&call, "minimum", CNNL_NUMBERS, x_desc, x, y_desc, y, z_desc, z, workspace,
                       size);
}

int cnnlGetFloorModWorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                                 const void *z_desc, size_t *out)
{
    (void)x_desc, (void)y_desc;
    return binary_report_size("cnnlGetFloorModWorkspaceSize", handle, z_desc, out);
}

int cnnlFloorMod(void *handle, const void *x_desc, const void *x, const void *y_desc, const void *y,
                 const void *z_desc, void *z, void *workspace, size_t size)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlFloorMod", handle);
    return binary_call(&call, "mod", CNNL_NUMBERS, x_desc, x, y_desc, y, z_desc, z, workspace,
                       size);
}

int cnnlGetFloorModTruncWorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                                      const void *z_desc, size_t *out)
{
    (void)x_desc, (void)y_desc;
    return binary_report_size("cnnlGetFloorModTruncWorkspaceSize", handle, z_desc, out);
}

int cnnlFloorModTrunc(void *handle, const void *x_desc, const void *x, const void *y_desc,
                      const void *y, const void *z_desc, void *z, void *workspace, size_t size)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlFloorModTrunc", handle);
    return binary_call(&call, "fmod", CNNL_FLOATS, x_desc, x, y_desc, y, z_desc, z, workspace,
                       size);
}

int cnnlGetSquaredDifferenceWorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                                          const void *z_desc, size_t *out)
{
    (void)x_desc, (void)y_desc;
    return binary_report_size("cnnlGetSquaredDifferenceWorkspaceSize", handle, z_desc, out);
}

int cnnlSquaredDifference(void *handle, const void *x_desc, const void *x, const void *y_desc,
                          const void *y, const void *z_desc, void *z, void *workspace, size_t size)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlSquaredDifference", handle);
    call.work.run = squared_difference_run;
    return binary_call(&call, "squared_difference", CNNL_NUMBERS, x_desc, x, y_desc, y, z_desc, z,
                       workspace, size);
}

int cnnlGetDivWorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                            const void *z_desc, size_t *out)
{
    (void)x_desc, (void)y_desc;
    return binary_report_size("cnnlGetDivWorkspaceSize", handle, z_desc, out);
}

int cnnlDiv_v2(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
               const void *y, void *workspace, size_t size, const void *z_desc, void *z)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlDiv_v2", handle, preference);
    return binary_call(&call, "div", CNNL_FLOATS, x_desc, x, y_desc, y, z_desc, z, workspace, size);
}

int cnnlGetPowWorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                            const void *z_desc, size_t *out)
{
    (void)x_desc, (void)y_desc;
    return binary_report_size("cnnlGetPowWorkspaceSize", handle, z_desc, out);
}

int cnnlPow(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
            const void *y, void *workspace, size_t size, const void *z_desc, void *z)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlPow", handle, preference);
    return binary_call(&call, "pow", CNNL_FLOATS, x_desc, x, y_desc, y, z_desc, z, workspace, size);
}

int cnnlGetAtan2WorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                              const void *z_desc, size_t *out)
{
    (void)x_desc, (void)y_desc;
    return binary_report_size("cnnlGetAtan2WorkspaceSize", handle, z_desc, out);
}

int cnnlAtan2(void *handle, int preference, const void *x_desc, const void *x, const void *y_desc,
              const void *y, void *workspace, size_t size, const void *z_desc, void *z)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlAtan2", handle, preference);
    return binary_call(&call, "atan2", CNNL_FLOATS, x_desc, x, y_desc, y, z_desc, z, workspace,
                       size);
}

int cnnlGetLogicOpWorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                                const void *z_desc, size_t *out)
{
    (void)x_desc, (void)y_desc;
    return binary_report_size("cnnlGetLogicOpWorkspaceSize", handle, z_desc, out);
}

int cnnlLogicOp(void *handle, int op, const void *x_desc, const void *x, const void *y_desc,
                const void *y, void *workspace, size_t size, const void *z_desc, void *z)
{
    static const char *const ops[] = {"equal",         "not_equal",  "greater_than",
                                      "greater_equal", "less_than",  "less_equal",
                                      "logical_and",   "logical_or", "logical_xor"};
    bool words = op >= CNNL_AND && op <= CNNL_XOR;
    unsigned dtypes = words ? CNNL_M(CNNL_BOOL) : CNNL_NUMBERS | CNNL_M(CNNL_BOOL);
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlLogicOp", handle, CNNL_FAST);
    cnnl_check(&call, op >= 0 && op < CNNL_LOGIC_OPS, "no such operation");
    cnnl_in(&call, x_desc, x, dtypes);
    cnnl_in(&call, y_desc, y, dtypes);
    broadcast_result(&call, 0, z_desc, z, CNNL_M(CNNL_BOOL));
    cnnl_workspace(&call, workspace, size, broadcast_size(z_desc));
    if (!cnnl_failed(&call)) cnnl_operator(&call, ops[op], NULL, 0);
    return cnnl_submit(&call);
}

int cnnlGetBitComputeWorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                                   const void *z_desc, size_t *out)
{
    (void)x_desc, (void)y_desc;
    return binary_report_size("cnnlGetBitComputeWorkspaceSize", handle, z_desc, out);
}

/* The callers pass int32, and for `not` no second input. */
int cnnlBitCompute_v2(void *handle, int op, const void *x_desc, const void *x, const void *y_desc,
                      const void *y, const void *z_desc, void *z, void *workspace, size_t size)
{
    static const char *const ops[] = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"};
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlBitCompute_v2", handle, CNNL_FAST);
    cnnl_check(&call, op >= CNNL_BIT_AND && op <= CNNL_BIT_NOT, "no such operation");
    cnnl_in(&call, x_desc, x, CNNL_M(CNNL_INT32));
    if (op == CNNL_BIT_NOT) cnnl_check(&call, !y_desc && !y, "a second input");
    else cnnl_in(&call, y_desc, y, CNNL_M(CNNL_INT32));
    broadcast_result(&call, 0, z_desc, z, CNNL_M(CNNL_INT32));
    cnnl_workspace(&call, workspace, size, broadcast_size(z_desc));
    if (!cnnl_failed(&call)) cnnl_operator(&call, ops[op - CNNL_BIT_AND], NULL, 0);
    return cnnl_submit(&call);
}

int cnnlPrelu(void *handle, const void *x_desc, const void *x, const void *w_desc, const void *w,
              const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlPrelu", handle);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, w_desc, w, CNNL_FLOATS);
    broadcast_result(&call, 0, y_desc, y, CNNL_FLOATS);
    if (!cnnl_failed(&call)) {
        cnnl_check(&call, call.work.in[0].dtype == call.work.out[0].dtype, "dtypes differ");
        cnnl_check(&call, cnnl_same_shape(&call.work.in[0], &call.work.out[0]), "shapes differ");
    }
    cnnl_operator(&call, "prelu", NULL, 0);
    return cnnl_submit(&call);
}

int cnnlGetAddcmulWorkspaceSize_v2(void *handle, const void *x_desc, const void *a_desc,
                                   const void *b_desc, const void *y_desc, size_t *out)
{
    (void)x_desc, (void)a_desc, (void)b_desc;
    return binary_report_size("cnnlGetAddcmulWorkspaceSize_v2", handle, y_desc, out);
}

int cnnlGetAddcdivWorkspaceSize_v2(void *handle, const void *x_desc, const void *a_desc,
                                   const void *b_desc, const void *y_desc, size_t *out)
{
    (void)x_desc, (void)a_desc, (void)b_desc;
    return binary_report_size("cnnlGetAddcdivWorkspaceSize_v2", handle, y_desc, out);
}

/* x + alpha a op b; alpha is a float of the host. */
static int addc_call(struct cnnl_call *call, const char *op, const void *alpha, const void *x_desc,
                     const void *x, const void *a_desc, const void *a, const void *b_desc,
                     const void *b, void *workspace, size_t size, const void *y_desc, void *y)
{
    struct bp_addcmul_attrs attrs = {.size = sizeof attrs};

    cnnl_check(call, alpha != NULL && base_find(alpha).place == BASE_HOST,
               "alpha is a number of the host");
    if (!cnnl_failed(call)) attrs.value = *(const float *)alpha;
    cnnl_in(call, x_desc, x, CNNL_FLOATS);
    cnnl_in(call, a_desc, a, CNNL_FLOATS);
    cnnl_in(call, b_desc, b, CNNL_FLOATS);
    broadcast_result(call, 0, y_desc, y, CNNL_FLOATS);
    if (!cnnl_failed(call))
        cnnl_check(call, call->work.in[0].dtype == call->work.out[0].dtype, "dtypes differ");
    cnnl_workspace(call, workspace, size, broadcast_size(y_desc));
    cnnl_operator(call, op, &attrs, sizeof attrs);
    return cnnl_submit(call);
}

int cnnlAddcmul(void *handle, const void *x_desc, const void *x, const void *alpha,
                const void *a_desc, const void *a, const void *b_desc, const void *b,
                void *workspace, size_t size, const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlAddcmul", handle);
    return addc_call(&call, "addcmul", alpha, x_desc, x, a_desc, a, b_desc, b, workspace, size,
                     y_desc, y);
}

int cnnlAddcdiv(void *handle, const void *x_desc, const void *x, const void *alpha,
                const void *a_desc, const void *a, const void *b_desc, const void *b,
                void *workspace, size_t size, const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlAddcdiv", handle);
    return addc_call(&call, "addcdiv", alpha, x_desc, x, a_desc, a, b_desc, b, workspace, size,
                     y_desc, y);
}

int cnnlGetLerpWorkspaceSize(void *handle, const void *x_desc, const void *end_desc,
                             const void *w_desc, const void *y_desc, size_t *out)
{
    (void)x_desc, (void)end_desc, (void)w_desc;
    return binary_report_size("cnnlGetLerpWorkspaceSize", handle, y_desc, out);
}

int cnnlLerp(void *handle, const void *x_desc, const void *x, const void *end_desc, const void *end,
             const void *w_desc, const void *w, void *workspace, size_t size, const void *y_desc,
             void *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlLerp", handle);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, end_desc, end, CNNL_FLOATS);
    cnnl_in(&call, w_desc, w, CNNL_FLOATS);
    broadcast_result(&call, 0, y_desc, y, CNNL_FLOATS);
    if (!cnnl_failed(&call))
        cnnl_check(&call, call.work.in[0].dtype == call.work.out[0].dtype, "dtypes differ");
    cnnl_workspace(&call, workspace, size, broadcast_size(y_desc));
    cnnl_operator(&call, "lerp", NULL, 0);
    return cnnl_submit(&call);
}

/* The workspace of a selection depends on its inputs only. */
static size_t select_size(const void *condition_desc, const void *then_desc, const void *else_desc)
{
    return 64 + cnnl_size(condition_desc) + cnnl_size(then_desc) + cnnl_size(else_desc);
}

int cnnlGetSelectV2WorkspaceSize(void *handle, const void *condition_desc, const void *then_desc,
                                 const void *else_desc, size_t *out)
{
    return cnnl_report_size("cnnlGetSelectV2WorkspaceSize", handle,
                            select_size(condition_desc, then_desc, else_desc), out);
}

int cnnlSelectV2(void *handle, const void *condition_desc, const void *condition,
                 const void *then_desc, const void *then, const void *else_desc,
                 const void *otherwise, void *workspace, size_t size, const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlSelectV2", handle);
    cnnl_in(&call, condition_desc, condition, CNNL_M(CNNL_BOOL));
    cnnl_in(&call, then_desc, then, CNNL_MOVED);
    cnnl_in(&call, else_desc, otherwise, CNNL_MOVED);
    broadcast_result(&call, 1, y_desc, y, CNNL_MOVED);
    if (!cnnl_failed(&call)) {
        cnnl_check(&call, call.work.in[1].dtype == call.work.out[0].dtype, "dtypes differ");
        call.work.type[0] = call.work.in[1].dtype;
        call.work.type[1] = BP_BOOL;
    }
    cnnl_workspace(&call, workspace, size, select_size(condition_desc, then_desc, else_desc));
    cnnl_operator(&call, "where", NULL, 0);
    return cnnl_submit(&call);
}

/* A number of the host of the dtype of input 0. */
static double scalar_read(struct cnnl_call *call, const void *at)
{
    if (cnnl_failed(call)) return 0;
    if (base_find(at).place != BASE_HOST) cnnl_check(call, false, "a number is not of the host");
    if (cnnl_failed(call)) return 0;
    return call->work.in[0].dtype == BP_I32 ? *(const int32_t *)at : *(const float *)at;
}

int cnnlClip_v2(void *handle, int mode, const void *x_desc, const void *x, const void *min,
                const void *max, const void *y_desc, void *y)
{
    struct bp_clip_attrs attrs = {sizeof attrs, -INFINITY, INFINITY};
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlClip_v2", handle);
    cnnl_check(&call, mode == CNNL_POINTER_HOST, "only numbers of the host are known");
    cnnl_check(&call, min || max, "both bounds are NULL");
    cnnl_in(&call, x_desc, x, CNNL_M(CNNL_FLOAT) | CNNL_M(CNNL_INT32));
    unary_result(&call, y_desc, y, 0);
    if (min) attrs.min = scalar_read(&call, min);
    if (max) attrs.max = scalar_read(&call, max);
    cnnl_operator(&call, "clip", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlTransform_v2(void *handle, int mode, const void *alpha, const void *x_desc, const void *x,
                     const void *beta, const void *y_desc, void *y)
{
    struct bp_scale_attrs attrs = {sizeof attrs, 1, 0};
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlTransform_v2", handle);
    cnnl_check(&call, mode == CNNL_POINTER_HOST, "only numbers of the host are known");
    cnnl_check(&call, alpha && beta, "NULL");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    unary_result(&call, y_desc, y, 0);
    attrs.factor = scalar_read(&call, alpha);
    attrs.bias = scalar_read(&call, beta);
    cnnl_operator(&call, "scale", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}
