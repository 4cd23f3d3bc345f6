/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c: implements losses, the optimizer and random numbers of the stand-in for CANN, number by
 * number in f64. Reductions are 0: none, 1: mean, 2: sum. */
#include "family.h"
#include <math.h>
#include <string.h>

/* Checks the result of a loss: like self, or one number. */
static int loss_check(struct cann_call *call, int reduction, int out)
{
    struct cann_shape one = {0};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_like(call, 1, 0));
    CANN_TRY(cann_want_between(call, reduction, 0, 2));
    CANN_TRY(cann_want_same(call, out, 0));
    if (!call->arg[reduction].i) return cann_want_like(call, out, 0);
    return cann_want_shape(call, out, &one);
}

/* Writes value i, or adds it to the sum. */
static void loss_add(const struct base_tensor *y, int64_t reduction, int64_t i, double value,
                     double *sum)
{
    if (!reduction) cann_put(y, i, value);
    *sum += value;
}

static void loss_finish(const struct base_tensor *y, int64_t reduction, double sum, double n)
{
    if (reduction) cann_put(y, 0, reduction == 1 ? sum / n : sum);
}

/* self, target, reduction, out */
int cann_check_mse_loss(struct cann_call *call)
{
    return loss_check(call, 2, 3);
}

int cann_run_mse_loss(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *t = cann_host(call, 1);
    int64_t n = base_tensor_count(x);
    double sum = 0, d;

    for (int64_t i = 0; i < n; i++) {
        d = cann_get(x, i) - cann_get(t, i);
        loss_add(cann_host(call, 3), call->arg[2].i, i, d * d, &sum);
    }
    loss_finish(cann_host(call, 3), call->arg[2].i, sum, (double)n);
    return 0;
}

/* self, target, reduction, beta, result */
int cann_check_smooth_l1(struct cann_call *call)
{
    if (call->arg[3].d < 0) return cann_refuse(call, 3, "is below 0");
    return loss_check(call, 2, 4);
}

int cann_run_smooth_l1(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *t = cann_host(call, 1);
    int64_t n = base_tensor_count(x);
    double sum = 0, d, beta = call->arg[3].d;

    for (int64_t i = 0; i < n; i++) {
        d = fabs(cann_get(x, i) - cann_get(t, i));
        d = d < beta ? d * d / 2 / beta : d - beta / 2;
        loss_add(cann_host(call, 4), call->arg[2].i, i, d, &sum);
    }
    loss_finish(cann_host(call, 4), call->arg[2].i, sum, (double)n);
    return 0;
}

/* self, target, weight, posWeight, reduction, out */
int cann_check_bce_logits(struct cann_call *call)
{
    struct cann_shape shape = cann_shape(cann_type(call, 0));

    for (int i = 2; i < 4; i++) {
        CANN_TRY(cann_want_same(call, i, 0));
        CANN_TRY(cann_broadcast(call, i, &shape));
    }
    CANN_TRY(cann_want_shape(call, 0, &shape));
    return loss_check(call, 4, 5);
}

/* Element i of a tensor that broadcasts to x; 1 if it is absent. */
static double loss_weight(const struct base_tensor *w, const struct base_tensor *x, int64_t i)
{
    struct base_tensor all;

    if (!w) return 1;
    all = cann_expanded(w, x->rank, x->shape);
    return cann_get(&all, i);
}

int cann_run_bce_logits(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    int64_t n = base_tensor_count(x);
    double sum = 0;

    for (int64_t i = 0; i < n; i++) {
        double v = cann_get(x, i), t = cann_get(cann_host(call, 1), i);
        double w = loss_weight(cann_host(call, 2), x, i), p = loss_weight(cann_host(call, 3), x, i);
        double soft = log1p(exp(-fabs(v))) + (v < 0 ? -v : 0); /* -log(sigmoid(v)) */
        loss_add(cann_host(call, 5), call->arg[4].i, i, w * (p * t * soft + (1 - t) * (soft + v)),
                 &sum);
    }
    loss_finish(cann_host(call, 5), call->arg[4].i, sum, (double)n);
    return 0;
}

/* self: N C, or C; target: N, or one number; weight, reduction, ignoreIndex, out, totalWeightOut */
int cann_check_nll_loss(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0);
    struct cann_shape classes = {1, {0}}, rows = {0}, one = {0};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_rank(call, 0, 1, 2));
    CANN_TRY(cann_want(call, 1, CANN_INDEX | BP_M(U8)));
    CANN_TRY(cann_want_between(call, 3, 0, 2));
    classes.at[0] = x->dims[x->rank - 1];
    if (x->rank == 2) rows = (struct cann_shape){1, {x->dims[0]}};
    if (x->rank == 2 || cann_type(call, 1)->rank) {
        if (x->rank == 1) rows = (struct cann_shape){1, {1}};
        CANN_TRY(cann_want_shape(call, 1, &rows));
    }
    CANN_TRY(cann_want_same(call, 2, 0));
    CANN_TRY(cann_want_shape(call, 2, &classes));
    CANN_TRY(cann_want_same(call, 5, 0));
    CANN_TRY(cann_want_same(call, 6, 0));
    if (cann_tensor_count(cann_type(call, 6)) != 1)
        return cann_refuse(call, 6, "is not one number");
    if (call->arg[3].i || x->rank == 1) rows = one;
    return cann_want_shape(call, 5, &rows);
}

int cann_run_nll_loss(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0), *y = cann_host(call, 5);
    int64_t c = x->shape[x->rank - 1], n = base_tensor_count(cann_host(call, 1)), k;
    double sum = 0, total = 0, w;

    for (int64_t i = 0; i < n; i++) {
        k = (int64_t)cann_get(cann_host(call, 1), i);
        if (k != call->arg[4].i && (k < 0 || k >= c)) return BASE_FAULT;
        w = k == call->arg[4].i ? 0 : cann_get(cann_host(call, 2), k);
        loss_add(y, call->arg[3].i, i, w ? -w * cann_get(x, i * c + k) : 0, &sum);
        total += w;
    }
    loss_finish(y, call->arg[3].i, sum, total);
    cann_put(cann_host(call, 6), 0, total);
    return 0;
}

/* selfRef, from, to, seed, offset */
int cann_check_uniform(struct cann_call *call)
{
    CANN_TRY(cann_want_own(call, 0));
    if (call->arg[1].d > call->arg[2].d) return cann_refuse(call, 1, "is above to");
    return 0;
}

/* Numbers of a generator of our own: the vendor's are not known. */
int cann_run_uniform(struct cann_call *call)
{
    const struct base_tensor *y = cann_host(call, 0);
    double from = call->arg[1].d, to = call->arg[2].d;

    for (int64_t i = 0; i < base_tensor_count(y); i++) {
        uint64_t v = (uint64_t)call->arg[3].i +
                     ((uint64_t)call->arg[4].i + (uint64_t)i) * UINT64_C(0x9e3779b97f4a7c15);
        v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
        v ^= v >> 31;
        cann_put(y, i, from + (to - from) * (double)(v >> 41) / (double)(1 << 23));
    }
    return 0;
}

/* varRef, mRef, vRef, maxGradNormOptionalRef, grad, step, lr, beta1, beta2, weightDecay, eps,
 * amsgrad, maximize */
int cann_check_adamw(struct cann_call *call)
{
    CANN_TRY(cann_want_own(call, 0));
    for (int i = 1; i < 5; i++) CANN_TRY(cann_want_like(call, i, 0));
    CANN_TRY(cann_want(call, 5, BP_M(F32) | BP_M(I64)));
    if (cann_tensor_count(cann_type(call, 5)) != 1)
        return cann_refuse(call, 5, "is not one number");
    if (call->arg[11].i && !cann_type(call, 3))
        return cann_refuse(call, 3, "is NULL, amsgrad is true");
    return 0;
}

int cann_run_adamw(struct cann_call *call)
{
    const struct base_tensor *p = cann_host(call, 0), *m = cann_host(call, 1);
    const struct base_tensor *v = cann_host(call, 2), *most = cann_host(call, 3);
    double lr = call->arg[6].d, b1 = call->arg[7].d, b2 = call->arg[8].d;
    double step = cann_get(cann_host(call, 5), 0), c1 = 1 - pow(b1, step), c2 = 1 - pow(b2, step);

    for (int64_t i = 0; i < base_tensor_count(p); i++) {
        double g = cann_get(cann_host(call, 4), i) * (call->arg[12].i ? -1 : 1), root;
        double mi = b1 * cann_get(m, i) + (1 - b1) * g, vi = b2 * cann_get(v, i) + (1 - b2) * g * g;
        root = vi;
        if (call->arg[11].i) {
            root = fmax(cann_get(most, i), vi);
            cann_put(most, i, root);
        }
        cann_put(m, i, mi);
        cann_put(v, i, vi);
        cann_put(p, i,
                 cann_get(p, i) * (1 - lr * call->arg[9].d) -
                     lr * mi / c1 / (sqrt(root / c2) + call->arg[10].d));
    }
    return 0;
}
