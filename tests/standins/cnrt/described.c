/* SPDX-License-Identifier: Apache-2.0 */
/* described.c: implements the operators of CNNL that take numbers which no public source confirms:
 * arithmetic, activations, softmax, reductions and conversions. Orders of arguments are those of
 * public callers (README.md says how many); the numbers (cnnl.h) are invented, so that a caller
 * who guesses one fails. */
#include "cnnl.h"
#include <stdlib.h>
#include <string.h>

static const char op_kind[] = "arithmetic descriptor", activation_kind[] = "activation descriptor";
static const char reduction_kind[] = "reduction descriptor", trigon_kind[] = "trigon descriptor";

/* The values of a descriptor of any of these kinds. */
struct described {
    bool set;
    int number, dtype, n, axis[BASE_RANK];
    float coefficient, gamma, scale;
    bool approximate;
};

/* Sets a descriptor of this kind, if the numbers are good. */
static int described_set(const char *name, void *desc, const char *kind, bool good,
                         const struct described *new)
{
    int code = cnrt_enter(name);

    if (!code && !cnnl_is_assumed())
        code = base_refuse(CNNL_NOT_SUPPORTED, "%s: its numbers are not confirmed", name);
    if (!code && !base_handle_is(desc, kind))
        code = base_misuse(CNNL_BAD_PARAM, "%s: %p is no %s", name, desc, kind);
    if (!code && !good) code = base_refuse(CNNL_BAD_PARAM, "%s: no such number", name);
    if (!code) {
        *(struct described *)desc = *new;
        ((struct described *)desc)->set = true;
    }
    return base_leave(code);
}

/* The descriptor of a call, if it is set. */
static const struct described *described_of(struct cnnl_call *call, const void *desc,
                                            const char *kind)
{
    const struct described *d = desc;
    bool good = base_handle_is(desc, kind) && d->set;

    cnnl_check(call, good, "a descriptor that is not set");
    return good ? d : NULL;
}

int cnnlCreateOpTensorDescriptor(void **out)
{
    return cnnl_desc_create("cnnlCreateOpTensorDescriptor", out, op_kind, sizeof(struct described));
}

int cnnlDestroyOpTensorDescriptor(void *desc)
{
    return cnnl_desc_destroy("cnnlDestroyOpTensorDescriptor", desc, op_kind);
}

int cnnlSetOpTensorDescriptor(void *desc, int op, int dtype, int nan)
{
    struct described new = {.number = op, .dtype = dtype};

    return described_set("cnnlSetOpTensorDescriptor", desc, op_kind,
                         op >= CNNL_ADD && op <= CNNL_MUL && cnnl_bytes(dtype) &&
                             (nan == CNNL_PROPAGATE_NAN || nan == CNNL_NOT_PROPAGATE_NAN),
                         &new);
}

static size_t arithmetic_size(const void *y_desc)
{
    return 64 + cnnl_size(y_desc);
}

int cnnlGetOpTensorWorkspaceSize(void *handle, const void *a_desc, const void *b_desc,
                                 const void *y_desc, size_t *out)
{
    (void)a_desc, (void)b_desc;
    return cnnl_report_size("cnnlGetOpTensorWorkspaceSize", handle, arithmetic_size(y_desc), out);
}

/* Factors are numbers of the host: int32 if the operator computes in int32, else float. */
static double factor_read(struct cnnl_call *call, const void *at, int dtype)
{
    cnnl_check(call, at && base_find(at).place == BASE_HOST, "a factor is a number of the host");
    if (cnnl_failed(call)) return 0;
    return dtype == CNNL_INT32 ? *(const int32_t *)at : *(const float *)at;
}

int cnnlOpTensor(void *handle, const void *desc, const void *alpha1, const void *a_desc,
                 const void *a, const void *alpha2, const void *b_desc, const void *b,
                 void *workspace, size_t size, const void *beta, const void *y_desc, void *y)
{
    static const char *const ops[] = {"add", "sub", "mul"};
    const struct described *d;
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlOpTensor", handle, CNNL_FAST);
    d = described_of(&call, desc, op_kind);
    cnnl_in(&call, a_desc, a, CNNL_NUMBERS);
    cnnl_in(&call, b_desc, b, CNNL_NUMBERS);
    cnnl_out(&call, y_desc, y, CNNL_NUMBERS);
    cnnl_broadcasts(&call, 0, 2);
    if (!cnnl_failed(&call)) {
        uint32_t dtype = call.work.in[0].dtype;
        cnnl_check(&call, call.work.in[1].dtype == dtype && call.work.out[0].dtype == dtype,
                   "dtypes differ");
        cnnl_check(&call, cnnl_dtype(d->dtype) == dtype, "the descriptor has another dtype");
        cnnl_check(&call,
                   factor_read(&call, alpha1, d->dtype) == 1 &&
                       factor_read(&call, alpha2, d->dtype) == 1 &&
                       factor_read(&call, beta, d->dtype) == 0,
                   "factors other than 1, 1 and 0");
    }
    cnnl_workspace(&call, workspace, size, arithmetic_size(y_desc));
    if (!cnnl_failed(&call)) cnnl_operator(&call, ops[d->number - CNNL_ADD], NULL, 0);
    return cnnl_submit(&call);
}

int cnnlCreateActivationDescriptor(void **out)
{
    return cnnl_desc_create("cnnlCreateActivationDescriptor", out, activation_kind,
                            sizeof(struct described));
}

int cnnlDestroyActivationDescriptor(void *desc)
{
    return cnnl_desc_destroy("cnnlDestroyActivationDescriptor", desc, activation_kind);
}

static int activation_set(const char *name, void *desc, int mode, int preference, int nan,
                          struct described new)
{
    new.number = mode;
    return described_set(name, desc, activation_kind,
                         mode >= CNNL_RELU && mode < CNNL_ACTIVATIONS_END &&
                             preference == CNNL_ACTIVATION_PRECISE &&
                             (nan == CNNL_PROPAGATE_NAN || nan == CNNL_NOT_PROPAGATE_NAN),
                         &new);
}

int cnnlSetActivationDescriptor_v5(void *desc, int mode, int preference, int nan, float coefficient,
                                   int sliced_dim, float gamma, float scale, bool is_result)
{
    struct described new = {.coefficient = coefficient, .gamma = gamma, .scale = scale};

    (void)sliced_dim, (void)is_result;
    return activation_set("cnnlSetActivationDescriptor_v5", desc, mode, preference, nan, new);
}

int cnnlSetActivationDescriptor_v6(void *desc, int mode, int preference, int nan, float coefficient,
                                   int sliced_dim, float gamma, float scale, bool is_result,
                                   bool approximate)
{
    struct described new = {
        .coefficient = coefficient, .gamma = gamma, .scale = scale, .approximate = approximate};

    (void)sliced_dim, (void)is_result;
    return activation_set("cnnlSetActivationDescriptor_v6", desc, mode, preference, nan, new);
}

bool cnnl_activation_is(const void *desc, int mode)
{
    const struct described *d = desc;

    return base_handle_is(desc, activation_kind) && d->set && d->number == mode;
}

/* Sets the operator of an activation, or of its gradient. */
static void activation_operator(struct cnnl_call *call, const struct described *d, bool backward)
{
    static const struct {
        const char *forward, *backward;
    } ops[CNNL_ACTIVATIONS_END - CNNL_RELU] = {
        {"relu", "relu_grad"}, {"relu6", NULL},
        {"sigmoid", NULL},     {"tanh", NULL},
        {"elu", "elu_grad"},   {"leaky_relu", "leaky_relu_grad"},
        {"selu", NULL},        {"hard_swish", "hard_swish_grad"},
        {"gelu", "gelu_grad"}, {"log_sigmoid", NULL},
        {"silu", NULL},        {NULL, NULL},
    };
    struct bp_leaky_relu_attrs slope = {.size = sizeof slope};
    struct bp_selu_attrs selu = {.size = sizeof selu};
    struct bp_elu_grad_attrs elu_grad = {.size = sizeof elu_grad, .rate = 1};
    struct bp_gelu_attrs gelu = {.size = sizeof gelu};
    const char *op;

    if (cnnl_failed(call)) return;
    op = backward ? ops[d->number - CNNL_RELU].backward : ops[d->number - CNNL_RELU].forward;
    cnnl_check(call, op != NULL, "an activation or a gradient that is not known");
    slope.slope = elu_grad.alpha = d->coefficient;
    selu.scale = d->scale;
    selu.alpha = d->gamma;
    gelu.approximate = d->approximate;
    if (cnnl_failed(call)) return;
    if (d->number == CNNL_ELU && backward) cnnl_operator(call, op, &elu_grad, sizeof elu_grad);
    else if (d->number == CNNL_ELU || d->number == CNNL_LEAKY_RELU) /* attributes are alike */
        cnnl_operator(call, op, &slope, sizeof slope);
    else if (d->number == CNNL_SELU) cnnl_operator(call, op, &selu, sizeof selu);
    else if (d->number == CNNL_GELU && backward)
        cnnl_operator(call, d->approximate ? "gelu_tanh_grad" : op, NULL, 0);
    else if (d->number == CNNL_GELU) cnnl_operator(call, op, &gelu, sizeof gelu);
    else cnnl_operator(call, op, NULL, 0);
}

/* Checks that inputs and the result have one dtype and shape. */
static void described_alike(struct cnnl_call *call)
{
    const struct cnnl_work *work = &call->work;

    for (int i = 0; i < work->n_in && !cnnl_failed(call); i++)
        cnnl_check(call,
                   work->in[i].dtype == work->out[0].dtype &&
                       cnnl_same_shape(&work->in[i], &work->out[0]),
                   "a tensor has another dtype or shape");
}

int cnnlActivationForward(void *handle, const void *desc, const void *alpha, const void *x_desc,
                          const void *x, const void *beta, const void *y_desc, void *y)
{
    const struct described *d;
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlActivationForward", handle, CNNL_FAST);
    d = described_of(&call, desc, activation_kind);
    cnnl_factors(&call, alpha, beta);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    described_alike(&call);
    activation_operator(&call, d, false);
    return cnnl_submit(&call);
}

/* The gradients that are here take the input, and no result. */
int cnnlActivationBackward(void *handle, const void *desc, const void *alpha, const void *y_desc,
                           const void *y, const void *dy_desc, const void *dy, const void *x_desc,
                           const void *x, const void *beta, const void *dx_desc, void *dx)
{
    const struct described *d;
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlActivationBackward", handle, CNNL_FAST);
    d = described_of(&call, desc, activation_kind);
    cnnl_factors(&call, alpha, beta);
    cnnl_check(&call, !y_desc && !y, "these gradients do not take the result");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, dy_desc, dy, CNNL_FLOATS);
    cnnl_out(&call, dx_desc, dx, CNNL_FLOATS);
    described_alike(&call);
    activation_operator(&call, d, true);
    return cnnl_submit(&call);
}

/* Checks the numbers of a softmax; the axis is the middle one of three. */
static void softmax_check(struct cnnl_call *call, int algorithm, int mode)
{
    cnnl_check(call, algorithm == CNNL_ACCURATE || algorithm == CNNL_LOG, "no such algorithm");
    cnnl_check(call, mode == CNNL_MEDIUM_DIMENSION, "no such mode");
    if (!cnnl_failed(call))
        cnnl_check(call, call->work.out[0].rank == 3, "this mode takes three axes");
    described_alike(call);
}

int cnnlSoftmaxForward(void *handle, int algorithm, int mode, const void *alpha, const void *x_desc,
                       const void *x, const void *beta, const void *y_desc, void *y)
{
    struct bp_softmax_attrs attrs = {sizeof attrs, 1};
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlSoftmaxForward", handle, CNNL_FAST);
    cnnl_factors(&call, alpha, beta);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    softmax_check(&call, algorithm, mode);
    cnnl_operator(&call, algorithm == CNNL_LOG ? "log_softmax" : "softmax", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlSoftmaxBackward(void *handle, int algorithm, int mode, const void *alpha,
                        const void *y_desc, const void *y, const void *dy_desc, const void *dy,
                        const void *beta, const void *dx_desc, void *dx)
{
    struct bp_softmax_grad_attrs attrs = {sizeof attrs, 1};
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlSoftmaxBackward", handle, CNNL_FAST);
    cnnl_factors(&call, alpha, beta);
    cnnl_in(&call, y_desc, y, CNNL_FLOATS);
    cnnl_in(&call, dy_desc, dy, CNNL_FLOATS);
    cnnl_out(&call, dx_desc, dx, CNNL_FLOATS);
    softmax_check(&call, algorithm, mode);
    cnnl_operator(&call, algorithm == CNNL_LOG ? "log_softmax_grad" : "softmax_grad", &attrs,
                  sizeof attrs);
    return cnnl_submit(&call);
}

int cnnlCreateReduceDescriptor(void **out)
{
    return cnnl_desc_create("cnnlCreateReduceDescriptor", out, reduction_kind,
                            sizeof(struct described));
}

int cnnlDestroyReduceDescriptor(void *desc)
{
    return cnnl_desc_destroy("cnnlDestroyReduceDescriptor", desc, reduction_kind);
}

int cnnlSetReduceDescriptor_v2(void *desc, int *axes, int n, int op, int dtype, int nan,
                               int indices, int index_type, float p)
{
    struct described new = {.number = op, .dtype = dtype, .n = n};
    bool good = axes && n > 0 && n <= BASE_RANK && op >= CNNL_REDUCE_ADD && op <= CNNL_REDUCE_MUL &&
                cnnl_bytes(dtype) && indices == CNNL_NO_INDICES && index_type == CNNL_32BIT &&
                (nan == CNNL_PROPAGATE_NAN || nan == CNNL_NOT_PROPAGATE_NAN);

    (void)p;
    for (int i = 0; good && i < n; i++) new.axis[i] = axes[i];
    return described_set("cnnlSetReduceDescriptor_v2", desc, reduction_kind, good, &new);
}

static size_t reduction_size(const void *x_desc)
{
    return 128 + cnnl_size(x_desc);
}

int cnnlGetReduceOpWorkspaceSize(void *handle, const void *x_desc, const void *y_desc,
                                 const void *desc, size_t *out)
{
    (void)y_desc, (void)desc;
    return cnnl_report_size("cnnlGetReduceOpWorkspaceSize", handle, reduction_size(x_desc), out);
}

static int reduction_convert(const struct bp_cast_attrs *attrs, const struct base_tensor *from,
                             const struct base_tensor *to)
{
    struct base_call call = {.op = "cast",
                             .attrs = attrs,
                             .type = {from->dtype, to->dtype, BASE_ABSENT, BASE_ABSENT},
                             .n_in = 1,
                             .n_out = 1,
                             .in = {from},
                             .out = {to}};

    return from->dtype == to->dtype ? cnnl_assign(from, to) : base_compute(&call);
}

/* A mean: the sum in float, divided, and then rounded to the dtype. */
static int reduction_mean(const struct bp_sum_attrs *sum, const struct base_tensor *x,
                          const struct base_tensor *y)
{
    int64_t n = base_tensor_count(x), m = base_tensor_count(y);
    float *memory = malloc((size_t)(n + m) * sizeof *memory);
    struct bp_cast_attrs widen = {.size = sizeof widen, .to = BP_F32};
    struct bp_cast_attrs narrow = {.size = sizeof narrow, .to = y->dtype};
    struct bp_scale_attrs scale = {sizeof scale, (double)m / (double)n, 0};
    struct base_tensor wide = base_tensor_of(memory, BP_F32, x->rank, x->shape), total;
    const struct base_tensor *w = &wide, *t = &total;
    int code;

    if (!memory) return BASE_NO_MEMORY;
    total = base_tensor_of(memory + n, BP_F32, y->rank, y->shape);
    code = reduction_convert(&widen, x, w);
    if (!code) code = cnnl_compute("sum", sum, BP_F32, &w, 1, &t, 1);
    if (!code) code = cnnl_compute("scale", &scale, BP_F32, &t, 1, &t, 1);
    if (!code) code = reduction_convert(&narrow, t, y);
    free(memory);
    return code;
}

static int reduction_run(struct cnnl_work *work)
{
    static const char *const ops[] = {"sum", NULL, "max", "min", "prod"};
    struct bp_sum_attrs attrs = {.size = sizeof attrs, .keep = 1};
    const struct base_tensor *x = &work->in[0], *y = &work->out[0];

    attrs.axes = (struct bp_dims){work->number + 2, work->number[1]};
    if (work->number[0] == 1) return reduction_mean(&attrs, x, y);
    return cnnl_compute(ops[work->number[0]], &attrs, x->dtype, &x, 1, &y, 1);
}

int cnnlReduce(void *handle, const void *desc, void *workspace, size_t size, const void *alpha,
               const void *x_desc, const void *x, size_t index_bytes, void *index, const void *beta,
               const void *y_desc, void *y)
{
    const struct described *d;
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;
    unsigned reduced = 0;

    cnnl_begin_assumed(&call, "cnnlReduce", handle, CNNL_FAST);
    d = described_of(&call, desc, reduction_kind);
    cnnl_factors(&call, alpha, beta);
    cnnl_check(&call, !index_bytes && !index, "no indices are asked for");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    if (!cnnl_failed(&call)) {
        work->number[0] = d->number - CNNL_REDUCE_ADD;
        work->number[1] = d->n;
        cnnl_check(&call,
                   cnnl_dtype(d->dtype) == work->in[0].dtype &&
                       work->in[0].rank == work->out[0].rank &&
                       work->in[0].dtype == work->out[0].dtype,
                   "dtypes or ranks differ");
        cnnl_check(&call, base_tensor_count(&work->in[0]) > 0, "no elements");
        for (int i = 0; i < d->n; i++) {
            work->number[2 + i] = cnnl_axis(&call, d->axis[i], work->in[0].rank);
            reduced |= 1u << work->number[2 + i];
        }
        for (int a = 0; a < work->in[0].rank && !cnnl_failed(&call); a++)
            cnnl_check(&call,
                       work->out[0].shape[a] == (reduced >> a & 1 ? 1 : work->in[0].shape[a]),
                       "the result has another shape");
    }
    cnnl_workspace(&call, workspace, size, reduction_size(x_desc));
    work->run = reduction_run;
    return cnnl_submit(&call);
}

/* The conversions that are known by name: from and to float. */
int cnnlCastDataType(void *handle, const void *x_desc, const void *x, int cast, const void *y_desc,
                     void *y)
{
    static const int pairs[][2] = {
        {CNNL_FLOAT, CNNL_HALF},  {CNNL_FLOAT, CNNL_BFLOAT16}, {CNNL_FLOAT, CNNL_INT32},
        {CNNL_FLOAT, CNNL_INT16}, {CNNL_FLOAT, CNNL_INT8},     {CNNL_FLOAT, CNNL_UINT8},
        {CNNL_FLOAT, CNNL_BOOL},  {CNNL_HALF, CNNL_FLOAT},     {CNNL_BFLOAT16, CNNL_FLOAT},
        {CNNL_INT32, CNNL_FLOAT}, {CNNL_INT16, CNNL_FLOAT},    {CNNL_INT8, CNNL_FLOAT},
        {CNNL_UINT8, CNNL_FLOAT}, {CNNL_BOOL, CNNL_FLOAT}};
    const int n = (int)(sizeof pairs / sizeof *pairs);
    struct bp_cast_attrs attrs = {.size = sizeof attrs};
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlCastDataType", handle, CNNL_FAST);
    cnnl_check(&call, cast >= CNNL_CASTS && cast < CNNL_CASTS + n, "no such conversion");
    if (!cnnl_failed(&call)) {
        cnnl_in(&call, x_desc, x, CNNL_M(pairs[cast - CNNL_CASTS][0]));
        cnnl_out(&call, y_desc, y, CNNL_M(pairs[cast - CNNL_CASTS][1]));
    }
    if (!cnnl_failed(&call)) {
        cnnl_check(&call, cnnl_same_shape(&call.work.in[0], &call.work.out[0]), "shapes differ");
        attrs.to = call.work.out[0].dtype;
        call.work.type[1] = call.work.out[0].dtype;
    }
    cnnl_operator(&call, "cast", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}

int cnnl_convert(const struct base_tensor *from, const struct base_tensor *to)
{
    struct bp_cast_attrs attrs = {.size = sizeof attrs, .to = to->dtype};

    return reduction_convert(&attrs, from, to);
}

int cnnlCreateTrigonDescriptor(void **out)
{
    return cnnl_desc_create("cnnlCreateTrigonDescriptor", out, trigon_kind,
                            sizeof(struct described));
}

int cnnlDestroyTrigonDescriptor(void *desc)
{
    return cnnl_desc_destroy("cnnlDestroyTrigonDescriptor", desc, trigon_kind);
}

int cnnlSetTrigonDescriptor_v2(void *desc, int mode, int preference)
{
    struct described new = {.number = mode};

    return described_set("cnnlSetTrigonDescriptor_v2", desc, trigon_kind,
                         mode >= CNNL_TRIGON_TAN && mode < CNNL_TRIGON_END &&
                             preference >= CNNL_FAST && preference <= CNNL_ULTRAHIGH,
                         &new);
}

int cnnlTrigonForward(void *handle, const void *desc, const void *x_desc, const void *x,
                      const void *y_desc, void *y)
{
    static const char *const ops[CNNL_TRIGON_END - CNNL_TRIGON_TAN] = {
        "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"};
    const struct described *d;
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlTrigonForward", handle, CNNL_FAST);
    d = described_of(&call, desc, trigon_kind);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    described_alike(&call);
    if (!cnnl_failed(&call)) cnnl_operator(&call, ops[d->number - CNNL_TRIGON_TAN], NULL, 0);
    return cnnl_submit(&call);
}
