/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt_trial.c: measures a library's algorithms by the host's clock, on a separate stream and in
 * separate memory. The memory is not initialized: the values do not change the time of a
 * product. */
#include "blaslt_plan.h"
#include <time.h>

/* Only one trial at a time: trials in parallel would disturb each other, and the device's handle of
 * hipBLASLt must be used for one stream at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { RUNS = 50, ROUNDS = 3, ROUND_NS = 1000000 }; /* a round: at most RUNS runs, about 1 ms */

struct trial {
    const struct blaslt_plan *plan;
    void *at[GEMM_OPERANDS], *bias, *workspace, *stream, *memory;
};

static uint64_t blaslt_trial_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The number of elements from the first to the last of an operand. before: the number of elements
 * before the operand's address, if batch steps are negative. */
static uint64_t blaslt_trial_extent_of(const struct gpu_gemm *g, int operand, uint64_t *before)
{
    bool transposed = operand <= GEMM_SECOND && g->transposed[operand];
    int64_t rows = operand == GEMM_SECOND ? g->k : g->m;
    int64_t columns = operand == GEMM_FIRST ? g->k : g->n;
    int64_t batch = g->step[operand] * (g->batch - 1);
    int64_t one = g->between[operand] * ((transposed ? rows : columns) - 1) +
                  (transposed ? columns : rows);

    *before = batch < 0 ? (uint64_t)-batch : 0;
    return (uint64_t)(batch < 0 ? -batch : batch) + (uint64_t)one;
}

/* The next span of the memory; NULL while only the total size is computed. */
static void *blaslt_trial_part(struct trial *t, uint64_t *used, uint64_t bytes)
{
    char *at = t->memory ? (char *)t->memory + *used : NULL;

    *used += gpu_gemm_aligned(bytes, BLASLT_WORKSPACE_ALIGNMENT);
    return at;
}

static uint64_t lay_out(struct trial *t, uint64_t workspace)
{
    const struct gpu_gemm *g = &t->plan->gemm;
    uint64_t size = gpu_gemm_size(g->dtype), used = 0, before, all;

    for (int i = 0; i < GEMM_OPERANDS; i++) {
        if (i == GEMM_ADDED && !gpu_gemm_adds_matrix(g)) {
            t->at[i] = t->at[GEMM_RESULT];
            continue;
        }
        all = blaslt_trial_extent_of(g, i, &before);
        before = gpu_gemm_aligned(before * size, BLASLT_ALIGNED);
        t->at[i] = blaslt_trial_part(t, &used, before + all * size);
        if (t->memory) t->at[i] = (char *)t->at[i] + before;
    }
    t->bias = blaslt_trial_part(t, &used, (uint64_t)g->m * size);
    t->workspace = blaslt_trial_part(t, &used, workspace);
    return used;
}

/* Runs products one after the other. Returns nanoseconds for one product; UINT64_MAX: the algorithm
 * failed. */
static uint64_t blaslt_trial_measure(const struct trial *t, const struct blaslt_found *found,
                                     uint64_t runs)
{
    struct gpu_device *device = t->plan->device;
    uint64_t began = blaslt_trial_now();

    for (uint64_t i = 0; i < runs; i++)
        if (!gpu_vendor_good(device, t->plan->library->vendor, BLASLT_NAME(t->plan, Matmul),
                             blaslt_multiply(t->plan, t->plan->handle, found, t->at, t->workspace,
                                             t->stream)))
            return UINT64_MAX;
    if (device->gpu->call.stream_synchronize(t->stream)) return UINT64_MAX;
    return (blaslt_trial_now() - began) / runs;
}

/* The first run only determines the length of a round. */
static uint64_t time_of(const struct trial *t, const struct blaslt_found *found)
{
    uint64_t one = blaslt_trial_measure(t, found, 1), runs, least = UINT64_MAX;

    if (one == UINT64_MAX) return one;
    runs = ROUND_NS / (one + 1);
    runs = runs < 1 ? 1 : runs > RUNS ? RUNS : runs;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t ns = blaslt_trial_measure(t, found, runs);
        if (ns < least) least = ns;
    }
    return least;
}

static int blaslt_trial_fastest(const struct trial *t, const struct blaslt_found *found, int n)
{
    uint64_t least = UINT64_MAX, ns;
    int best = 0;

    for (int i = 0; i < n; i++) {
        ns = time_of(t, &found[i]);
        if (ns >= least) continue;
        least = ns;
        best = i;
    }
    return best;
}

static bool blaslt_trial_begin(struct trial *t, uint64_t workspace)
{
    struct gpu_device *device = t->plan->device;
    const struct gpu_calls *call = &device->gpu->call;

    if (call->memory_allocate(&t->memory, lay_out(t, workspace))) return false;
    lay_out(t, workspace);
    if (call->stream_create(&t->stream, GPU_STREAM_ALONE)) return false;
    return t->plan->gemm.bias < 0 ||
           BLASLT_GOOD(t->plan, MatmulDescSetAttribute, t->plan->operation,
                       t->plan->library->number.operation_bias, &t->bias, sizeof t->bias);
}

int blaslt_try(const struct blaslt_plan *plan, const struct blaslt_found *found, int n)
{
    struct trial t = {.plan = plan};
    uint64_t workspace = 0;
    int best = 0;

    for (int i = 0; i < n; i++)
        if (found[i].workspace > workspace) workspace = found[i].workspace;
    pthread_mutex_lock(&lock);
    if (blaslt_trial_begin(&t, workspace)) best = blaslt_trial_fastest(&t, found, n);
    if (t.stream) GPU_NOTE(plan->device, stream_destroy, t.stream);
    if (t.memory) GPU_NOTE(plan->device, memory_free, t.memory);
    pthread_mutex_unlock(&lock);
    return best;
}
