/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.c: runs the collectives of the stand-in for NCCL in the order of their stream, by
 * ranks.h, and combines elements as NCCL does. */
#include "nccl.h"
#include "number.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t sim_nccl_width(int type)
{
    static const unsigned char widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

    return widths[type];
}

/* Like NCCL, maximum and minimum ignore NaN. */
static double combine_numbers(double a, double b, int reduction)
{
    switch (reduction) {
    case NCCL_PRODUCT: return a * b;
    case NCCL_MAX: return fmax(a, b);
    case NCCL_MIN: return fmin(a, b);
    default: return a + b;
    }
}

static enum sim_type float_of(int type)
{
    return type == NCCL_F32 ? SIM_F32 : type == NCCL_F64 ? SIM_F64
           : type == NCCL_F16 ? SIM_F16 : SIM_BF16;
}

static void combine_floats(int type, void *to, const void *from, size_t n, int reduction)
{
    enum sim_type t = float_of(type);

    for (size_t i = 0; i < n; i++)
        sim_put(
            t, to, (int64_t)i,
            combine_numbers(sim_get(t, to, (int64_t)i), sim_get(t, from, (int64_t)i), reduction));
}

static void divide_floats(int type, void *to, size_t n, int by)
{
    enum sim_type t = float_of(type);

    for (size_t i = 0; i < n; i++) sim_put(t, to, (int64_t)i, sim_get(t, to, (int64_t)i) / by);
}

/* Loads an integer of any width, sign-extended if it is signed; sums and products wrap. */
static uint64_t exchange_load(int type, const char *at)
{
    switch (type) {
    case NCCL_I8: return (uint64_t)(int64_t)*(const int8_t *)at;
    case NCCL_U8: return *(const uint8_t *)at;
    case NCCL_I32: return (uint64_t)(int64_t)*(const int32_t *)(const void *)at;
    case NCCL_U32: return *(const uint32_t *)(const void *)at;
    default: return *(const uint64_t *)(const void *)at;
    }
}

static void combine_integers(int type, char *to, const char *from, size_t n, int reduction)
{
    bool is_signed = type == NCCL_I8 || type == NCCL_I32 || type == NCCL_I64;
    size_t width = sim_nccl_width(type);

    for (size_t i = 0; i < n * width; i += width) {
        uint64_t a = exchange_load(type, to + i), b = exchange_load(type, from + i), c = a + b;
        bool less = is_signed ? (int64_t)a < (int64_t)b : a < b;
        if (reduction == NCCL_PRODUCT) c = a * b;
        if (reduction == NCCL_MIN) c = less ? a : b;
        if (reduction == NCCL_MAX) c = less ? b : a;
        memcpy(to + i, &c, width);
    }
}

static void exchange_combine(void *to, const void *from, uint64_t n, int type, int reduction)
{
    if (type < NCCL_F16) combine_integers(type, to, from, (size_t)n, reduction);
    else combine_floats(type, to, from, (size_t)n, reduction);
}

static void exchange_finish(void *to, uint64_t n, int type, int reduction, int ranks)
{
    if (reduction == NCCL_AVERAGE) divide_floats(type, to, (size_t)n, ranks);
}

/* NCCL does not compare the arguments of ranks. */
const struct ranks_rules sim_nccl_rules = {
    .combine = exchange_combine,
    .finish = exchange_finish,
    .unreadable = SIM_NCCL_REMOTE,
};

static void *exchange_reach(const void *self, const void *buffer, size_t bytes)
{
    (void)self;
    return sim_reach(buffer, bytes);
}

static int exchange_run(struct sim_nccl_work *work)
{
    struct sim_nccl *comm = work->comm;
    int code = sim_doomed(SIM_CALL_work);

    for (int i = 0; i < work->n && !code; i++)
        if (!ranks_reach(&comm->ranks, &work->op[i], exchange_reach, NULL))
            code = SIM_ILLEGAL_ADDRESS;
    while (!code && comm->done + 1 != work->number && !atomic_load(&comm->ranks.aborted))
        sim_wait();
    if (code || atomic_load(&comm->ranks.aborted)) return code;
    pthread_mutex_unlock(&sim.lock);
    ranks_run(&comm->ranks, work->op, work->n);
    pthread_mutex_lock(&sim.lock);
    return 0;
}

int sim_nccl_run(void *p, int code)
{
    struct sim_nccl_work *work = p;

    if (!code) code = exchange_run(work);
    if (work->comm->done < work->number) work->comm->done = work->number;
    sim_nccl_drop(work->comm);
    free(work->op);
    sim_wake();
    return code;
}
