/* SPDX-License-Identifier: Apache-2.0 */
/* loss.c: implements the losses of CNNL. They compute in double: the portable kernels have no
 * losses. The numbers of reductions (cnnl.h) are invented. */
#include "cnnl.h"
#include <math.h>
#include <stdlib.h>

enum {
    LOSS_INPUTS = 4
};

static size_t loss_size(const void *x_desc)
{
    return 64 + cnnl_size(x_desc) / 2;
}

/* The inputs in float, and the result of each element or line. */
struct loss {
    const float *in[LOSS_INPUTS]; /* NULL: absent */
    const int32_t *label;
    int64_t n, classes, ignored;
    double beta;
};

/* The kinds of losses: number[0]. number[1]: the reduction; 0 none, 1 the mean, 2 the sum. */
enum loss_kind {
    LOSS_SQUARE,
    LOSS_SMOOTH,
    LOSS_LOGITS,
    LOSS_LABEL
};

/* log(1 / (1 + exp(-x))) */
static double loss_log_sigmoid(double x)
{
    return fmin(x, 0) - log1p(exp(-fabs(x)));
}

/* The loss of element i, and its weight in a mean. */
static double loss_of(const struct loss *l, int64_t kind, int64_t i, double *weight)
{
    double x = 0, y = 0, d;

    *weight = 1;
    if (kind == LOSS_LABEL) {
        *weight = l->label[i] == l->ignored ? 0 : l->in[2][l->label[i]];
        return l->label[i] == l->ignored ? 0 : -*weight * l->in[0][i * l->classes + l->label[i]];
    }
    x = l->in[0][i];
    y = l->in[1][i];
    d = fabs(x - y);
    if (kind == LOSS_SQUARE) return d * d;
    if (kind == LOSS_SMOOTH) return d < l->beta ? d * d / (2 * l->beta) : d - l->beta / 2;
    d = -((l->in[3] ? l->in[3][i] : 1) * y * loss_log_sigmoid(x) + (1 - y) * loss_log_sigmoid(-x));
    return l->in[2] ? d * l->in[2][i] : d;
}

/* Converts the floating-point inputs into memory; returns a code of base_compute. */
static int loss_convert(const struct cnnl_work *work, float *memory, struct loss *l)
{
    for (int i = 0; i < work->n_in; i++) {
        const struct base_tensor *x = &work->in[i];
        struct base_tensor wide;
        int code;
        if (x->rank < 0) continue;
        if (x->dtype == BP_I32) {
            l->label = x->data;
            continue;
        }
        wide = base_tensor_of(memory, BP_F32, x->rank, x->shape);
        code = cnnl_convert(x, &wide);
        if (code) return code;
        l->in[i] = memory;
        memory += base_tensor_count(x);
    }
    return 0;
}

/* Computes into floats: each loss, or one of all. */
static void loss_compute(const struct cnnl_work *work, const struct loss *l, float *out)
{
    double sum = 0, weights = 0, weight;

    for (int64_t i = 0; i < l->n; i++) {
        double each = loss_of(l, work->number[0], i, &weight);
        if (!work->number[1]) out[i] = (float)each;
        sum += each;
        weights += weight;
    }
    if (work->number[1]) *out = (float)(work->number[1] == 1 ? sum / weights : sum);
}

static int loss_run(struct cnnl_work *work)
{
    const struct base_tensor *y = &work->out[work->n_out - 1];
    struct loss l = {.n = base_tensor_count(&work->in[0]), .ignored = work->number[2]};
    struct base_tensor wide;
    float *memory, *out;
    int64_t many = base_tensor_count(y);
    int code;

    for (int i = 0; i < work->n_in; i++)
        if (work->in[i].rank >= 0) many += base_tensor_count(&work->in[i]);
    memory = calloc((size_t)many + 1, sizeof *memory);
    if (!memory) return BASE_NO_MEMORY;
    out = memory + many - base_tensor_count(y);
    l.beta = *(const float *)(const void *)work->value;
    code = loss_convert(work, memory, &l);
    if (work->number[0] == LOSS_LABEL) {
        l.n = base_tensor_count(&work->in[1]);
        l.classes = work->in[0].shape[1];
        for (int64_t i = 0; i < l.n && !code; i++)
            if (l.label[i] != l.ignored && (l.label[i] < 0 || l.label[i] >= l.classes))
                code = BASE_FAULT;
    }
    if (!code) {
        loss_compute(work, &l, out);
        wide = base_tensor_of(out, BP_F32, y->rank, y->shape);
        code = cnnl_convert(&wide, y);
    }
    free(memory);
    return code;
}

/* Checks inputs of one shape, and a result of that shape, or of one element after a reduction. */
static int loss_submit(struct cnnl_call *call, int kind, int reduction, const void *y_desc, void *y)
{
    struct cnnl_work *work = &call->work;
    const struct base_tensor *in = work->in;

    cnnl_out(call, y_desc, y, CNNL_FLOATS);
    for (int i = 1; i < work->n_in && !cnnl_failed(call); i++)
        cnnl_check(call,
                   in[i].rank < 0 || (cnnl_same_shape(&in[i], &in[0]) && in[i].dtype == in->dtype),
                   "inputs differ");
    if (!cnnl_failed(call)) {
        cnnl_check(call, base_tensor_count(in) > 0, "no elements");
        cnnl_check(call, work->out[0].dtype == in->dtype, "the result has another dtype");
        cnnl_check(call,
                   reduction ? base_tensor_count(&work->out[0]) == 1
                             : cnnl_same_shape(&work->out[0], in),
                   "the result has another shape");
    }
    work->number[0] = kind;
    work->number[1] = reduction;
    work->run = loss_run;
    return cnnl_submit(call);
}

int cnnlGetMSELossWorkspaceSize(void *handle, const void *x_desc, size_t *out)
{
    return cnnl_report_size("cnnlGetMSELossWorkspaceSize", handle, loss_size(x_desc), out);
}

int cnnlMSELoss_v2(void *handle, int reduction, const void *x_desc, const void *x,
                   const void *target_desc, const void *target, void *workspace, size_t size,
                   const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlMSELoss_v2", handle, CNNL_FAST);
    cnnl_check(&call, reduction == CNNL_MSE_NONE || reduction == CNNL_MSE_MEAN,
               "no such reduction");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, target_desc, target, CNNL_FLOATS);
    cnnl_workspace(&call, workspace, size, loss_size(x_desc));
    return loss_submit(&call, LOSS_SQUARE, reduction - CNNL_MSE_NONE, y_desc, y);
}

int cnnlGetSmoothL1LossForwardWorkspaceSize(void *handle, const void *x_desc, int algorithm,
                                            size_t *out)
{
    (void)algorithm;
    return cnnl_report_size("cnnlGetSmoothL1LossForwardWorkspaceSize", handle, loss_size(x_desc),
                            out);
}

int cnnlSmoothL1LossForward_v2(void *handle, const void *x_desc, const void *x,
                               const void *target_desc, const void *target, float beta,
                               int algorithm, void *workspace, size_t size, const void *y_desc,
                               void *y)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlSmoothL1LossForward_v2", handle, CNNL_FAST);
    cnnl_check(&call, algorithm >= CNNL_SMOOTH_L1_NONE && algorithm <= CNNL_SMOOTH_L1_SUM,
               "no such reduction");
    cnnl_check(&call, beta >= 0, "beta is below 0");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, target_desc, target, CNNL_FLOATS);
    cnnl_workspace(&call, workspace, size, loss_size(x_desc));
    *(float *)(void *)call.work.value = beta;
    return loss_submit(&call, LOSS_SMOOTH, algorithm - CNNL_SMOOTH_L1_NONE, y_desc, y);
}

int cnnlGetBceWithLogitsWorkspaceSize(void *handle, const void *x_desc, const void *weight_desc,
                                      const void *pos_weight_desc, size_t *out)
{
    (void)weight_desc, (void)pos_weight_desc;
    return cnnl_report_size("cnnlGetBceWithLogitsWorkspaceSize", handle, loss_size(x_desc), out);
}

int cnnlBceWithLogits_v2(void *handle, int preference, const void *x_desc, const void *x,
                         const void *target_desc, const void *target, const void *weight_desc,
                         const void *weight, const void *pos_weight_desc, const void *pos_weight,
                         int reduction, void *workspace, size_t size, const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlBceWithLogits_v2", handle, preference);
    cnnl_check(&call, reduction >= CNNL_BCE_NONE && reduction <= CNNL_BCE_SUM, "no such reduction");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, target_desc, target, CNNL_FLOATS);
    cnnl_in_maybe(&call, weight_desc, weight, CNNL_FLOATS);
    cnnl_in_maybe(&call, pos_weight_desc, pos_weight, CNNL_FLOATS);
    cnnl_workspace(&call, workspace, size, loss_size(x_desc));
    return loss_submit(&call, LOSS_LOGITS, reduction - CNNL_BCE_NONE, y_desc, y);
}

int cnnlGetNlllossWorkspaceSize(void *handle, const void *x_desc, size_t *out)
{
    return cnnl_report_size("cnnlGetNlllossWorkspaceSize", handle, loss_size(x_desc), out);
}

/* Lines and classes, a label for each line, and a weight for each class. A mean or a sum also has a
 * result for the sum of the weights, which is not written here. */
int cnnlNlllossForward_v2(void *handle, int reduction, const void *x_desc, const void *x,
                          const void *target_desc, const void *target, int ignore_index,
                          const void *weight_desc, const void *weight, void *workspace, size_t size,
                          const void *total_desc, void *total, const void *y_desc, void *y)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;
    const struct base_tensor *in = work->in;
    bool each = reduction == CNNL_NLL_NONE;

    cnnl_begin_assumed(&call, "cnnlNlllossForward_v2", handle, CNNL_FAST);
    cnnl_check(&call, reduction >= CNNL_NLL_NONE && reduction <= CNNL_NLL_SUM, "no such reduction");
    cnnl_check(&call, each ? !total_desc && !total : total_desc && total,
               "the sum of weights belongs to a reduction");
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, target_desc, target, CNNL_M(CNNL_INT32));
    cnnl_in(&call, weight_desc, weight, CNNL_FLOATS);
    cnnl_out_maybe(&call, total_desc, total, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    cnnl_workspace(&call, workspace, size, loss_size(x_desc));
    if (!cnnl_failed(&call)) {
        cnnl_check(&call, in[0].rank == 2 && in[1].rank == 1 && in[2].rank == 1, "another rank");
        cnnl_check(&call, in[1].shape[0] == in[0].shape[0] && in[2].shape[0] == in[0].shape[1],
                   "lines or classes differ");
        cnnl_check(&call, in[2].dtype == in[0].dtype && work->out[1].dtype == in[0].dtype,
                   "dtypes differ");
        cnnl_check(&call, base_tensor_count(&work->out[1]) == (each ? in[1].shape[0] : 1),
                   "the result has another shape");
    }
    work->number[0] = LOSS_LABEL;
    work->number[1] = reduction - CNNL_NLL_NONE;
    work->number[2] = ignore_index;
    work->run = loss_run;
    return cnnl_submit(&call);
}
