/* SPDX-License-Identifier: Apache-2.0 */
/* gemm.c: computes simulated products of matrices; see gemm.h. */
#include "gemm.h"
#include <unistd.h>

bool sim_gemm_is_good(const struct sim_gemm *g)
{
    return g->m > 0 && g->n > 0 && g->k > 0 && g->batch > 0 && g->type < SIM_TYPES &&
           g->between[SIM_A] >= (g->transposed[0] ? g->k : g->m) &&
           g->between[SIM_B] >= (g->transposed[1] ? g->n : g->k) && g->between[SIM_C] >= g->m &&
           g->between[SIM_D] >= g->m;
}

/* The host memory of a matrix; NULL: the matrix is not completely in valid memory. */
static void *gemm_reach(const struct sim_gemm *g, int i)
{
    bool transposed = i <= SIM_B && g->transposed[i];
    int64_t rows = i == SIM_B ? g->k : g->m, columns = i == SIM_A ? g->k : g->n;
    int64_t last = g->step[i] * (g->batch - 1) +
                   g->between[i] * ((transposed ? rows : columns) - 1) +
                   (transposed ? columns : rows);

    return sim_reach(g->at[i], (size_t)last * sim_size(g->type));
}

static double gemm_factor(const struct sim_gemm *g, const void *from, int64_t at)
{
    double x = sim_get(g->type, from, at);

    return g->tf32 ? sim_tf32(x) : x;
}

static double gemm_product(const struct sim_gemm *g, void *const at[], int64_t step, int64_t i,
                           int64_t j)
{
    int64_t a = g->transposed[0] ? i * g->between[SIM_A] : i;
    int64_t b = g->transposed[1] ? j : j * g->between[SIM_B];
    int64_t next_a = g->transposed[0] ? 1 : g->between[SIM_A];
    int64_t next_b = g->transposed[1] ? g->between[SIM_B] : 1;
    double sum = 0;

    a += step * g->step[SIM_A];
    b += step * g->step[SIM_B];
    for (int64_t k = 0; k < g->k; k++, a += next_a, b += next_b)
        sum += gemm_factor(g, at[SIM_A], a) * gemm_factor(g, at[SIM_B], b);
    return sum;
}

static void gemm_compute(const struct sim_gemm *g, void *const at[], const void *bias, int64_t step)
{
    int64_t c = step * g->step[SIM_C], d = step * g->step[SIM_D];

    for (int64_t j = 0; j < g->n; j++)
        for (int64_t i = 0; i < g->m; i++) {
            double sum = g->alpha * gemm_product(g, at, step, i, j);
            if (g->beta != 0)
                sum += g->beta * sim_get(g->type, at[SIM_C], c + j * g->between[SIM_C] + i);
            if (bias && g->split) sum = sim_rounded(g->type, sum);
            if (bias) sum += sim_get(g->type, bias, i);
            sim_put(g->type, at[SIM_D], d + j * g->between[SIM_D] + i, sum);
        }
}

static int gemm_multiply(const struct sim_gemm *g, int code)
{
    void *at[SIM_MATRICES];
    void *bias = g->bias ? sim_reach(g->bias, (size_t)g->m * sim_size(g->type)) : NULL;

    if (!code) code = sim_doomed(SIM_CALL_work);
    for (int i = 0; i < SIM_MATRICES && !code; i++) {
        at[i] = gemm_reach(g, i);
        if (!at[i]) code = SIM_ILLEGAL_ADDRESS;
    }
    if (!code && g->bias && !bias) code = SIM_ILLEGAL_ADDRESS;
    if (code) return code;
    pthread_mutex_unlock(&sim.lock);
    if (g->pause) usleep(g->pause);
    for (int64_t step = 0; step < g->batch; step++) gemm_compute(g, at, bias, step);
    pthread_mutex_lock(&sim.lock);
    return SIM_SUCCESS;
}

static int gemm_run(void *p, int code)
{
    const struct sim_gemm *g = p;

    code = gemm_multiply(g, code);
    if (g->under_way) --*g->under_way;
    return code;
}

int sim_gemm_submit(void *stream, const struct sim_gemm *gemm)
{
    return sim_compute(stream, gemm_run, gemm, sizeof *gemm);
}
