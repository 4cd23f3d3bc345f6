/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_norm.c: computes layer_norm and rms_norm for the stand-in for cuDNN, row by row, in double
 * precision. */
#include "cudnn.h"
#include <math.h>

/* Whether the operands have the axes rows and terms, and are contiguous. scale, bias and statistics
 * that are absent have no kind. */
bool cudnn_norm_fits(const struct norm *n)
{
    const struct thing *x = &n->part[NORM_X];
    bool good = (x->type == SIM_F16 || x->type == SIM_BF16) && n->part[NORM_SCALE].kind;

    for (int i = 0; i < NORM_PARTS; i++) {
        const struct thing *t = &n->part[i];
        bool tall = i == NORM_X || i == NORM_Y || i == NORM_MEAN || i == NORM_R;
        bool wide = i <= NORM_BIAS;
        if (!t->kind) continue;
        good = good && t->shape[0] == (tall ? x->shape[0] : 1) &&
               t->shape[1] == (wide ? x->shape[1] : 1) && t->shape[2] == 1 && t->shape[3] == 1 &&
               t->shape[4] == 1 && t->type == (wide ? x->type : SIM_F32) &&
               (!wide || t->stride[1] == 1) && (!tall || t->stride[0] == t->shape[1]);
    }
    return good;
}

static void norm_row(const struct norm *n, void *const at[NORM_PARTS], int64_t row)
{
    const struct thing *t = n->part;
    const int64_t terms = t[NORM_X].shape[1], first = row * terms;
    double mean = 0, squares = 0, r;

    for (int64_t i = 0; n->centres && i < terms; i++)
        mean += sim_get(t[NORM_X].type, at[NORM_X], first + i) / (double)terms;
    for (int64_t i = 0; i < terms; i++) {
        double d = sim_get(t[NORM_X].type, at[NORM_X], first + i) - mean;
        squares += d * d / (double)terms;
    }
    r = 1 / sqrt(squares + (double)n->epsilon);
    for (int64_t i = 0; i < terms; i++) {
        double y = (sim_get(t[NORM_X].type, at[NORM_X], first + i) - mean) * r *
                   sim_get(t[NORM_SCALE].type, at[NORM_SCALE], i);
        if (at[NORM_BIAS]) y += sim_get(t[NORM_BIAS].type, at[NORM_BIAS], i);
        sim_put(t[NORM_Y].type, at[NORM_Y], first + i, y);
    }
    if (at[NORM_MEAN]) sim_put(SIM_F32, at[NORM_MEAN], row, mean);
    if (at[NORM_R]) sim_put(SIM_F32, at[NORM_R], row, r);
}

int cudnn_run_norm(void *p, int code)
{
    const struct norm *n = p;
    void *at[NORM_PARTS];

    code = cudnn_reach(n->part, n->at, NORM_PARTS, 0, at, code);
    if (code) return code;
    pthread_mutex_unlock(&sim.lock);
    for (int64_t row = 0; row < n->part[NORM_X].shape[0]; row++) norm_row(n, at, row);
    pthread_mutex_lock(&sim.lock);
    return SIM_SUCCESS;
}
