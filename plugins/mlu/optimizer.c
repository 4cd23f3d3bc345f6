/* SPDX-License-Identifier: Apache-2.0 */
/* optimizer.c: builds the plans of optimizers, in f32, from calls whose numbers are confirmed.
 * Where CNNL's own functions (cnnlApplyAdam and others) add epsilon is not known.
 * Attributes may change with each launch: a step has the offset of the one that it reads. */
#include "rows.h"
#include <stddef.h>
#include <string.h>

/* A number of a call, computed at each launch: factor * attribute + more. */
struct optimizer_number {
    size_t offset; /* 0: no attribute; the size of the struct is there */
    double factor, more;
};

static float optimizer_read(const struct mlu_run *r, int64_t offset, double factor, double more)
{
    double value = 0;

    if (offset) memcpy(&value, (const char *)r->launch->attrs + offset, sizeof value);
    return (float)(factor * value + more);
}

/* x + number a b, which broadcast. */
static int optimizer_call_add(const struct mlu_run *r, const struct mlu_step *s)
{
    float number = optimizer_read(r, s->i[0], s->f[0], s->f[1]);

    return mlu_cnnl.call.cnnlAddcmul(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0), &number,
                                     mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
                                     mlu_address(r, s, 2), mlu_work(r, s), s->work, mlu_desc(s, 3),
                                     mlu_address(r, s, 3));
}

static struct mlu_step *optimizer_add(struct mlu_build *b, struct mlu_tensor x,
                                      struct optimizer_number number, struct mlu_tensor a,
                                      struct mlu_tensor by, struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlAddcmul, optimizer_call_add, MLU_TENSORS(x, a, by, y));
    size_t size = 0;
    int code;

    if (!s) return NULL;
    s->i[0] = (int64_t)number.offset;
    s->f[0] = number.factor;
    s->f[1] = number.more;
    code = mlu_cnnl.call.cnnlGetAddcmulWorkspaceSize_v2(b->handle, mlu_desc(s, 0), mlu_desc(s, 1),
                                                        mlu_desc(s, 2), mlu_desc(s, 3), &size);
    mlu_step_reserve(b, s, FN_cnnlGetAddcmulWorkspaceSize_v2, code, size);
    return b->status ? NULL : s;
}

/* y = factor x + more */
static int optimizer_call_scale(const struct mlu_run *r, const struct mlu_step *s)
{
    float factor = optimizer_read(r, s->i[0], s->f[0], s->f[1]), more;
    double bias = 0;

    memcpy(&bias, s->value, sizeof bias);
    more = optimizer_read(r, s->i[1], 1, bias);
    return mlu_cnnl.call.cnnlTransform_v2(r->handle, MLU_CNNL_POINTER_MODE_HOST, &factor,
                                          mlu_desc(s, 0), mlu_address(r, s, 0), &more,
                                          mlu_desc(s, 1), mlu_address(r, s, 1));
}

/* `more` has the factor 1. */
static void optimizer_scale(struct mlu_build *b, struct mlu_tensor x,
                            struct optimizer_number factor, struct optimizer_number more,
                            struct mlu_tensor y)
{
    struct mlu_step *s = mlu_step(b, FN_cnnlTransform_v2, optimizer_call_scale, MLU_TENSORS(x, y));

    if (!s) return;
    s->i[0] = (int64_t)factor.offset;
    s->f[0] = factor.factor;
    s->f[1] = factor.more;
    s->i[1] = (int64_t)more.offset;
    memcpy(s->value, &more.more, sizeof more.more);
}

static int optimizer_call_root(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlSqrt_v2(r->handle, MLU_CNNL_COMPUTATION_HIGH_PRECISION, mlu_desc(s, 0),
                                     mlu_address(r, s, 0), mlu_desc(s, 1), mlu_address(r, s, 1));
}

static void optimizer_root(struct mlu_build *b, struct mlu_tensor x)
{
    mlu_step(b, FN_cnnlSqrt_v2, optimizer_call_root, MLU_TENSORS(x, x));
}

static int optimizer_call_larger(const struct mlu_run *r, const struct mlu_step *s)
{
    return mlu_cnnl.call.cnnlMaximum(r->handle, mlu_desc(s, 0), mlu_address(r, s, 0),
                                     mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 2),
                                     mlu_address(r, s, 2), mlu_work(r, s), s->work);
}

/* z = the larger of x and y; y where one is NaN. */
static void optimizer_larger(struct mlu_build *b, struct mlu_tensor x, struct mlu_tensor y,
                             struct mlu_tensor z)
{
    struct mlu_tensor larger = mlu_temporary(b, BP_F32, 1, x.shape);
    struct mlu_tensor is_nan = mlu_temporary(b, BP_BOOL, 1, x.shape);
    struct mlu_step *s = mlu_step(b, FN_cnnlMaximum, optimizer_call_larger,
                                  MLU_TENSORS(x, y, larger));
    size_t size = 0;
    int code;

    if (!s) return;
    code = mlu_cnnl.call.cnnlGetMaximumWorkspaceSize(b->handle, mlu_desc(s, 2), &size);
    mlu_step_reserve(b, s, FN_cnnlGetMaximumWorkspaceSize, code, size);
    mlu_step_unary(b, FN_cnnlIsNan, larger, is_nan);
    mlu_step_where(b, is_nan, y, larger, z);
}

#define AT(op, name) offsetof(struct bp_##op##_attrs, name)

static struct optimizer_number optimizer_value(size_t offset)
{
    return (struct optimizer_number){offset, 1, 0};
}

/* 1 - the attribute. */
static struct optimizer_number optimizer_rest(size_t offset)
{
    return (struct optimizer_number){offset, -1, 1};
}

static const struct optimizer_number zero = {0, 0, 0}, one = {0, 0, 1}, minus_one = {0, 0, -1};

static struct mlu_tensor optimizer_in(const struct mlu_build *b, uint32_t i)
{
    return mlu_flat(mlu_in(b, i));
}

static struct mlu_tensor optimizer_out(const struct mlu_build *b, uint32_t i)
{
    return mlu_flat(mlu_out(b, i));
}

static struct mlu_tensor optimizer_like(struct mlu_build *b, struct mlu_tensor x)
{
    return mlu_temporary(b, BP_F32, 1, x.shape);
}

/* A tensor with a 1, which broadcasts. */
static struct mlu_tensor optimizer_one(struct mlu_build *b)
{
    const int64_t n = 1;
    const float value = 1;

    return mlu_constant(b, BP_F32, 1, &n, &value);
}

/* param_out = param - lr step; lr is input 2. */
static void optimizer_end(struct mlu_build *b, struct mlu_tensor param, struct mlu_tensor step)
{
    optimizer_add(b, param, minus_one, step, optimizer_in(b, 2), optimizer_out(b, 0));
}

/* y = part x + (1 - part) a c */
static void optimizer_mean(struct mlu_build *b, struct mlu_tensor x, struct optimizer_number part,
                           struct optimizer_number rest, struct mlu_tensor a, struct mlu_tensor c,
                           struct mlu_tensor y)
{
    struct mlu_tensor kept = optimizer_like(b, x);

    optimizer_scale(b, x, part, zero, kept);
    optimizer_add(b, kept, rest, a, c, y);
}

void mlu_build_sgd(struct mlu_build *b)
{
    optimizer_end(b, optimizer_in(b, 0), optimizer_in(b, 1));
}

/* The step of momentum: that of nesterov, or the velocity. */
static int optimizer_call_ahead(const struct mlu_run *r, const struct mlu_step *s)
{
    const struct bp_momentum_attrs *attrs = r->launch->attrs;

    if (attrs->nesterov) return optimizer_call_add(r, s);
    return mlu_cnnl.call.cnnlCopy(r->handle, mlu_desc(s, 1), mlu_address(r, s, 1), mlu_desc(s, 3),
                                  mlu_address(r, s, 3));
}

void mlu_build_momentum(struct mlu_build *b)
{
    const struct optimizer_number momentum = optimizer_value(AT(momentum, momentum));
    struct mlu_tensor param = optimizer_in(b, 0), ones = optimizer_one(b);
    struct mlu_tensor grad = optimizer_like(b, param), step = optimizer_like(b, param);
    struct mlu_tensor velocity = optimizer_out(b, 1);
    struct mlu_step *s;

    optimizer_add(b, optimizer_in(b, 1), optimizer_value(AT(momentum, l2)), param, ones, grad);
    optimizer_add(b, grad, momentum, optimizer_in(b, 3), ones, velocity);
    s = optimizer_add(b, grad, momentum, velocity, ones, step);
    if (!s) return;
    s->call = optimizer_call_ahead;
    optimizer_end(b, param, step);
}

/* y = x / (1 - power), where x has one element or several. */
static struct mlu_tensor optimizer_correct(struct mlu_build *b, struct mlu_tensor x,
                                           struct mlu_tensor power)
{
    struct mlu_tensor rest = optimizer_like(b, power), y = optimizer_like(b, x);

    optimizer_scale(b, power, minus_one, one, rest);
    mlu_step_divide(b, x, rest, y);
    return y;
}

/* The rest of adam and adamw, once the gradient is known. */
static void optimizer_adam(struct mlu_build *b, struct mlu_tensor param, struct mlu_tensor grad,
                           struct mlu_tensor ones)
{
    const size_t beta1 = AT(adam, beta1), beta2 = AT(adam, beta2);
    struct mlu_tensor power1 = optimizer_in(b, 5), power2 = optimizer_in(b, 6), mean, root;
    struct mlu_tensor squares = optimizer_out(b, 2);

    optimizer_mean(b, optimizer_in(b, 3), optimizer_value(beta1), optimizer_rest(beta1), grad, ones,
                   optimizer_out(b, 1));
    optimizer_mean(b, optimizer_in(b, 4), optimizer_value(beta2), optimizer_rest(beta2), grad, grad,
                   squares);
    if (mlu_has_out(b, 5)) {
        optimizer_larger(b, optimizer_in(b, 7), squares, optimizer_out(b, 5));
        squares = optimizer_out(b, 5);
    }
    mean = optimizer_correct(b, optimizer_out(b, 1), power1);
    root = optimizer_correct(b, squares, power2);
    optimizer_root(b, root);
    optimizer_scale(b, root, one, optimizer_value(AT(adam, epsilon)), root);
    mlu_step_divide(b, mean, root, root);
    optimizer_end(b, param, root);
    optimizer_scale(b, power1, optimizer_value(beta1), zero, optimizer_out(b, 3));
    optimizer_scale(b, power2, optimizer_value(beta2), zero, optimizer_out(b, 4));
}

void mlu_build_adam(struct mlu_build *b)
{
    struct mlu_tensor param = optimizer_in(b, 0), ones = optimizer_one(b);
    struct mlu_tensor grad = optimizer_like(b, param);

    optimizer_add(b, optimizer_in(b, 1), optimizer_value(AT(adam, decay)), param, ones, grad);
    optimizer_adam(b, param, grad, ones);
}

/* The attributes are those of adam. param (1 - lr decay) keeps an infinity, where param - lr decay
 * param would not. */
void mlu_build_adamw(struct mlu_build *b)
{
    const struct optimizer_number shrink = {AT(adam, decay), -1, 0};
    struct mlu_tensor param = optimizer_in(b, 0), less = optimizer_like(b, param);
    struct mlu_tensor lr = optimizer_in(b, 2), part = optimizer_like(b, lr);

    optimizer_scale(b, lr, shrink, one, part);
    mlu_step_fill(b, 0, less);
    optimizer_add(b, less, one, param, part, less);
    optimizer_adam(b, less, optimizer_in(b, 1), optimizer_one(b));
}

void mlu_build_adamax(struct mlu_build *b)
{
    const size_t beta1 = AT(adamax, beta1), beta2 = AT(adamax, beta2);
    struct mlu_tensor param = optimizer_in(b, 0), grad = optimizer_in(b, 1),
                      ones = optimizer_one(b);
    struct mlu_tensor norm = optimizer_like(b, param), size = optimizer_like(b, param), lr;

    optimizer_mean(b, optimizer_in(b, 3), optimizer_value(beta1), optimizer_rest(beta1), grad, ones,
                   optimizer_out(b, 1));
    optimizer_scale(b, optimizer_in(b, 4), optimizer_value(beta2),
                    optimizer_value(AT(adamax, epsilon)), norm);
    mlu_step_unary(b, FN_cnnlAbs, grad, size);
    optimizer_larger(b, norm, size, optimizer_out(b, 2));
    lr = optimizer_correct(b, optimizer_in(b, 2), optimizer_in(b, 5));
    mlu_step_divide(b, optimizer_out(b, 1), optimizer_out(b, 2), size);
    optimizer_add(b, param, minus_one, size, lr, optimizer_out(b, 0));
    optimizer_scale(b, optimizer_in(b, 5), optimizer_value(beta1), zero, optimizer_out(b, 3));
}

void mlu_build_adagrad(struct mlu_build *b)
{
    struct mlu_tensor param = optimizer_in(b, 0), grad = optimizer_in(b, 1);
    struct mlu_tensor moment = optimizer_out(b, 1), root = optimizer_like(b, param);

    optimizer_add(b, optimizer_in(b, 3), one, grad, grad, moment);
    mlu_step(b, FN_cnnlSqrt_v2, optimizer_call_root, MLU_TENSORS(moment, root));
    optimizer_scale(b, root, one, optimizer_value(AT(adagrad, epsilon)), root);
    mlu_step_divide(b, grad, root, root);
    optimizer_end(b, param, root);
}

void mlu_build_rmsprop(struct mlu_build *b)
{
    const size_t rho = AT(rmsprop, rho);
    struct mlu_tensor param = optimizer_in(b, 0), grad = optimizer_in(b, 1),
                      ones = optimizer_one(b);
    struct mlu_tensor root = optimizer_like(b, param), step = optimizer_like(b, param);
    struct mlu_tensor squares = optimizer_out(b, 1);

    optimizer_mean(b, optimizer_in(b, 3), optimizer_value(rho), optimizer_rest(rho), grad, grad,
                   squares);
    if (mlu_has_out(b, 3)) {
        struct mlu_tensor mean = optimizer_out(b, 3);
        optimizer_mean(b, optimizer_in(b, 5), optimizer_value(rho), optimizer_rest(rho), grad, ones,
                       mean);
        optimizer_add(b, squares, minus_one, mean, mean, root);
        squares = root;
    }
    optimizer_scale(b, squares, one, optimizer_value(AT(rmsprop, epsilon)), root);
    optimizer_root(b, root);
    mlu_step_divide(b, grad, root, root);
    optimizer_scale(b, optimizer_in(b, 4), optimizer_value(AT(rmsprop, momentum)), zero, step);
    optimizer_add(b, step, one, root, optimizer_in(b, 2), optimizer_out(b, 2));
    optimizer_add(b, param, minus_one, optimizer_out(b, 2), ones, optimizer_out(b, 0));
}
