/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_attention.c: computes attention for the stand-in for cuDNN, one query after the other, in
 * double precision. The weights are not rounded to the half type, as the library's are. */
#include "cudnn.h"
#include <math.h>
#include <stdlib.h>

enum { BATCH = 0, HEAD = 1, LENGTH = 3, LAST = 4 };

bool cudnn_attention_fits(const struct thing part[4])
{
    const struct thing *q = &part[0], *k = &part[1], *v = &part[2], *y = &part[3];
    const int64_t *depth = &q->shape[LAST], *width = &v->shape[LAST];
    bool good = (q->type == SIM_F16 || q->type == SIM_BF16) && k->shape[HEAD] > 0 &&
                q->shape[HEAD] % k->shape[HEAD] == 0 && k->shape[HEAD] == v->shape[HEAD] &&
                k->shape[LENGTH] == v->shape[LENGTH] && k->shape[LAST] == *depth &&
                y->shape[HEAD] == q->shape[HEAD] && y->shape[LENGTH] == q->shape[LENGTH] &&
                y->shape[LAST] == *width && *depth % 8 == 0 && *width % 8 == 0 && *depth <= 256 &&
                *width <= 256;

    for (int i = 0; i < 4; i++)
        good = good && part[i].type == q->type && part[i].shape[BATCH] == q->shape[BATCH] &&
               part[i].shape[2] == 1 && part[i].stride[LAST] == 1;
    return good;
}

static int64_t attention_place(const struct thing *t, int64_t batch, int64_t head, int64_t length)
{
    return batch * t->stride[BATCH] + head * t->stride[HEAD] + length * t->stride[LENGTH];
}

/* Computes the weights of a query, whose sum is 1. */
static void attention_weights(const struct attention *a, void *const at[4], int64_t q, int64_t k,
                              double *weight)
{
    const struct thing *t = a->part;
    double most = -INFINITY, sum = 0;

    for (int64_t j = 0; j < t[1].shape[LENGTH]; j++) {
        weight[j] = 0;
        for (int64_t d = 0; d < t[0].shape[LAST]; d++)
            weight[j] += sim_get(t[0].type, at[0], q + d) *
                         sim_get(t[1].type, at[1], k + j * t[1].stride[LENGTH] + d);
        weight[j] *= (double)a->scale;
        most = weight[j] > most || isnan(weight[j]) ? weight[j] : most;
    }
    for (int64_t j = 0; j < t[1].shape[LENGTH]; j++) sum += weight[j] = exp(weight[j] - most);
    for (int64_t j = 0; j < t[1].shape[LENGTH]; j++) weight[j] /= sum;
}

static void attention_compute(const struct attention *a, void *const at[4], double *weight)
{
    const struct thing *t = a->part;
    int64_t heads = t[0].shape[HEAD], lengths = t[0].shape[LENGTH];
    int64_t group = heads / t[1].shape[HEAD];

    for (int64_t i = 0; i < t[0].shape[BATCH] * heads * lengths; i++) {
        int64_t batch = i / lengths / heads, head = i / lengths % heads, l = i % lengths;
        int64_t y = attention_place(&t[3], batch, head, l);
        int64_t v = attention_place(&t[2], batch, head / group, 0);
        attention_weights(a, at, attention_place(&t[0], batch, head, l),
                          attention_place(&t[1], batch, head / group, 0), weight);
        for (int64_t c = 0; c < t[2].shape[LAST]; c++) {
            double sum = 0;
            for (int64_t j = 0; j < t[1].shape[LENGTH]; j++)
                sum += weight[j] * sim_get(t[2].type, at[2], v + j * t[2].stride[LENGTH] + c);
            sim_put(t[3].type, at[3], y + c, sum);
        }
    }
}

int cudnn_run_attention(void *p, int code)
{
    const struct attention *a = p;
    void *at[4];
    double *weight;

    code = cudnn_reach(a->part, a->at, 4, 4, at, code);
    if (code) return code;
    weight = calloc((size_t)a->part[1].shape[LENGTH], sizeof *weight);
    if (!weight) return SIM_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim.lock);
    attention_compute(a, at, weight);
    free(weight);
    pthread_mutex_lock(&sim.lock);
    return SIM_SUCCESS;
}
