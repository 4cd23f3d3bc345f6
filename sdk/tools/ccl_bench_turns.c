/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_bench_turns.c: measures one call of one size: turns of our call and of Open MPI's alternate,
 * so that other work of the machine affects both; then turns of the copies that set the limit.
 *
 * The limit: each rank must read and write some bytes, whatever the algorithm, if the work is
 * distributed evenly. All ranks at the same time copy as many bytes between buffers of their own,
 * with normal or with streaming stores, whichever is faster; no rank waits for another. If ranks
 * share a processor, it makes their copies one after the other. */
#include "ccl_bench.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

enum { WARM = 2 }; /* turns that are not counted */

const struct ccl_call ccl_calls[] = {
    {"barrier", BP_COMM_BARRIER, CCL_NONE, CCL_NONE},
    {"all_reduce", BP_COMM_ALL_REDUCE, CCL_PART, CCL_PART},
    {"all_gather", BP_COMM_ALL_GATHER, CCL_PART, CCL_ALL},
    {"reduce_scatter", BP_COMM_REDUCE_SCATTER, CCL_ALL, CCL_PART},
    {"broadcast", BP_COMM_BROADCAST, CCL_PART, CCL_NONE},
    {"all_to_all", BP_COMM_ALL_TO_ALL, CCL_ALL, CCL_ALL},
    {"reduce", BP_COMM_REDUCE, CCL_PART, CCL_PART},
    {"gather", BP_COMM_GATHER, CCL_PART, CCL_ALL},
    {"scatter", BP_COMM_SCATTER, CCL_ALL, CCL_PART},
    {"send", BP_COMM_SEND, CCL_PART, CCL_PART}, /* from rank 0 to rank 1 */
};
const size_t n_ccl_calls = sizeof ccl_calls / sizeof *ccl_calls;

static bool ccl_bench_turns_failed(void)
{
    bp_complain("ccl-bench", "%s", bp_error_message());
    return false;
}

/* --- buffers ---------------------------------------------------------------------------------- */

static int64_t ccl_bench_turns_elements(const struct ccl_bench *b, enum ccl_extent extent,
                                        int64_t count)
{
    return extent == CCL_ALL ? count * b->size : extent == CCL_PART ? count : 0;
}

static bool ccl_bench_turns_make(const struct ccl_bench *b, int64_t n, struct bp_tensor **out,
                                 void **out_data)
{
    if (bp_tensor_create(b->device, BP_F32, 1, &n, out)) return ccl_bench_turns_failed();
    if (bp_tensor_map(*out, out_data)) *out_data = NULL;
    return true;
}

/* Bytes that each rank must at least read and write. 0: the ranks do not do the same work, or they
 * do not share the host's memory, where a barrier would not be inline. */
static uint64_t bytes_moved(const struct ccl_bench *b, const struct ccl_call *call, int64_t count)
{
    uint64_t part = (uint64_t)count * sizeof(float);

    if (strcmp(bp_comm_algorithm(b->comm, BP_COMM_BARRIER, 0), "inline")) return 0;
    switch (call->id) {
    case BP_COMM_ALL_REDUCE: return part;
    case BP_COMM_BROADCAST: return part * (b->size - 1) / b->size;
    case BP_COMM_ALL_GATHER:
    case BP_COMM_ALL_TO_ALL: return part * b->size;
    default: return 0;
    }
}

static void buffers_finish(struct ccl_buffers *m)
{
    bp_tensor_destroy(m->src);
    if (m->dst != m->src) bp_tensor_destroy(m->dst);
    bp_tensor_destroy(m->from);
    bp_tensor_destroy(m->to);
}

static bool buffers_init(const struct ccl_bench *b, const struct ccl_call *call, uint64_t bytes,
                         struct ccl_buffers *out)
{
    int64_t n = (int64_t)(bytes / sizeof(float));
    struct ccl_buffers m = {.count = ccl_has_parts(call) ? (n + b->size - 1) / b->size : n};
    bool good = true;

    m.n_src = ccl_bench_turns_elements(b, call->src, m.count);
    m.n_dst = call->dst ? ccl_bench_turns_elements(b, call->dst, m.count) : m.n_src;
    m.moved = bytes_moved(b, call, m.count);
    if (m.n_src) good = ccl_bench_turns_make(b, m.n_src, &m.src, &m.src_data);
    if (call->dst) good = good && ccl_bench_turns_make(b, m.n_dst, &m.dst, &m.dst_data);
    else m.dst = m.src, m.dst_data = m.src_data;
    if (m.moved) {
        n = (int64_t)((m.moved + sizeof(float) - 1) / sizeof(float));
        good = good && ccl_bench_turns_make(b, n, &m.from, &m.from_data) &&
               ccl_bench_turns_make(b, n, &m.to, &m.to_data);
    }
    if (good) *out = m;
    else buffers_finish(&m);
    return good;
}

/* Fills buffers with small integers, whose sums are exact in any order. */
static bool ccl_bench_turns_fill(const struct ccl_bench *b, const struct ccl_buffers *m)
{
    int64_t n = m->n_src > m->n_dst ? m->n_src : m->n_dst;
    float *values = calloc((size_t)n + 1, sizeof *values);
    bool good = values;

    if (good && m->dst && m->dst != m->src)
        good = !bp_tensor_write(b->stream, m->dst, values, (uint64_t)m->n_dst * sizeof *values);
    for (int64_t i = 0; good && i < m->n_src; i++)
        values[i] = (float)(b->rank + 1 + (uint32_t)i % 7);
    if (good && m->src)
        good = !bp_tensor_write(b->stream, m->src, values, (uint64_t)m->n_src * sizeof *values);
    free(values);
    return good || ccl_bench_turns_failed();
}

/* --- one turn --------------------------------------------------------------------------------- */

static enum bp_status ccl_bench_turns_ours(const struct ccl_bench *b, const struct ccl_call *call,
                                           const struct ccl_buffers *m)
{
    switch (call->id) {
    case BP_COMM_ALL_REDUCE:
        return bp_comm_all_reduce(b->comm, b->stream, m->src, m->dst, BP_REDUCE_SUM);
    case BP_COMM_ALL_GATHER: return bp_comm_all_gather(b->comm, b->stream, m->src, m->dst);
    case BP_COMM_REDUCE_SCATTER:
        return bp_comm_reduce_scatter(b->comm, b->stream, m->src, m->dst, BP_REDUCE_SUM);
    case BP_COMM_BROADCAST: return bp_comm_broadcast(b->comm, b->stream, m->src, m->dst, 0);
    case BP_COMM_ALL_TO_ALL: return bp_comm_all_to_all(b->comm, b->stream, m->src, m->dst);
    case BP_COMM_REDUCE:
        return bp_comm_reduce(b->comm, b->stream, m->src, m->dst, BP_REDUCE_SUM, 0);
    case BP_COMM_GATHER: return bp_comm_gather(b->comm, b->stream, m->src, m->dst, 0);
    case BP_COMM_SCATTER: return bp_comm_scatter(b->comm, b->stream, m->src, m->dst, 0);
    case BP_COMM_SEND:
        if (b->rank > 1) return BP_OK;
        return b->rank ? bp_comm_recv(b->comm, b->stream, m->dst, 0)
                       : bp_comm_send(b->comm, b->stream, m->src, 1);
    default: return bp_comm_barrier(b->comm, b->stream);
    }
}

static void copy_nt_buffers(const struct ccl_buffers *m)
{
#ifdef __SSE2__
    const float *from = m->from_data;
    float *to = m->to_data;

    for (uint64_t n = m->moved / 64; n; n--, from += 16, to += 16)
        for (int i = 0; i < 16; i += 4)
            _mm_stream_ps(to + i, _mm_loadu_ps(from + i)); /* tensors begin at cache lines */
    _mm_sfence();
#else
    memcpy(m->to_data, m->from_data, m->moved);
#endif
}

static enum bp_status do_way(const struct ccl_bench *b, enum ccl_way way,
                             const struct ccl_call *call, const struct ccl_buffers *m)
{
    switch (way) {
    case CCL_MPI: ccl_mpi_call(b->mpi, call, m); return BP_OK;
    case CCL_COPY: memcpy(m->to_data, m->from_data, m->moved); return BP_OK;
    case CCL_COPY_NT: copy_nt_buffers(m); return BP_OK;
    default: return ccl_bench_turns_ours(b, call, m);
    }
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Runs `times` calls behind a barrier, which is the same one for all variants. */
static bool take_turn(const struct ccl_bench *b, enum ccl_way way, const struct ccl_call *call,
                      const struct ccl_buffers *m, int times, double *out_us)
{
    enum bp_status status = BP_OK;
    double begin;

    if (b->mpi) ccl_mpi_barrier(b->mpi);
    else status = bp_comm_barrier(b->comm, b->stream);
    if (!status) status = bp_stream_synchronize(b->stream);
    begin = now_us();
    for (int i = 0; i < times && !status; i++) status = do_way(b, way, call, m);
    if (!status && way == CCL_OURS) status = bp_stream_synchronize(b->stream);
    *out_us = (now_us() - begin) / times;
    return !status || ccl_bench_turns_failed();
}

/* --- all turns -------------------------------------------------------------------------------- */

/* Runs turns of two variants alternately; CCL_WAYS as the second means none. us: receives the time
 * of each variant and turn. */
static bool take_turns(const struct ccl_bench *b, enum ccl_way one, enum ccl_way other,
                       const struct ccl_call *call, const struct ccl_buffers *m, int times,
                       double *us)
{
    const enum ccl_way ways[] = {one, other};

    for (int i = -WARM; i < b->turns; i++)
        for (int j = 0; j < 2; j++) {
            double own;
            if (ways[j] == CCL_WAYS) continue;
            if (!take_turn(b, ways[j], call, m, times, &own)) return false;
            if (i >= 0) us[ways[j] * b->turns + i] = own;
        }
    return true;
}

/* Replaces each turn's time by that of the slowest rank, on all ranks. */
static bool ccl_bench_turns_slowest(const struct ccl_bench *b, double *us)
{
    int64_t n = (int64_t)CCL_WAYS * b->turns;
    uint64_t bytes = (uint64_t)n * sizeof *us;
    struct bp_tensor *t = NULL;
    bool good = !bp_tensor_create(b->device, BP_F64, 1, &n, &t) &&
                !bp_tensor_write(b->stream, t, us, bytes) &&
                !bp_comm_all_reduce(b->comm, b->stream, t, t, BP_REDUCE_MAX) &&
                !bp_tensor_read(b->stream, t, us, bytes);

    bp_tensor_destroy(t);
    return good || ccl_bench_turns_failed();
}

static int ccl_bench_turns_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double ccl_bench_turns_median(double *us, int n)
{
    qsort(us, (size_t)n, sizeof *us, ccl_bench_turns_compare);
    return us[n / 2];
}

/* Checks that Open MPI's call gives the same result. */
static bool check_results(const struct ccl_bench *b, const struct ccl_call *call,
                          const struct ccl_buffers *m)
{
    size_t bytes = (size_t)m->n_dst * sizeof(float);
    char *result = malloc(bytes + 1);
    bool good = result && ccl_bench_turns_fill(b, m);

    if (good)
        good = (!ccl_bench_turns_ours(b, call, m) && !bp_stream_synchronize(b->stream)) ||
               ccl_bench_turns_failed();
    if (good && bytes) memcpy(result, m->dst_data, bytes);
    good = good && ccl_bench_turns_fill(b, m);
    if (good) ccl_mpi_call(b->mpi, call, m);
    if (good && bytes && memcmp(result, m->dst_data, bytes)) {
        bp_complain("ccl-bench", "rank %u: the answer to %s of %llu bytes is not Open MPI's",
                    b->rank, call->name, (unsigned long long)bytes);
        good = false;
    }
    free(result);
    return good;
}

static bool ccl_bench_turns_measure(const struct ccl_bench *b, const struct ccl_call *call,
                                    const struct ccl_buffers *m, double *us, struct ccl_times *out)
{
    bool mpi = b->beside && m->count <= INT_MAX;
    int64_t bytes = (m->n_src > m->n_dst ? m->n_src : m->n_dst) * (int64_t)sizeof(float);
    int times = bytes <= 4096 ? 20 : bytes <= 65536 ? 5 : 1, n = b->turns;
    uint32_t processors = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);

    if (!(mpi ? check_results(b, call, m) : ccl_bench_turns_fill(b, m)) ||
        !take_turns(b, CCL_OURS, mpi ? CCL_MPI : CCL_WAYS, call, m, times, us) ||
        (m->moved && !take_turns(b, CCL_COPY, CCL_COPY_NT, call, m, times, us)) ||
        !ccl_bench_turns_slowest(b, us))
        return false;
    *out = (struct ccl_times){ccl_bench_turns_median(us + CCL_OURS * n, n), NAN, NAN};
    if (mpi) out->mpi = ccl_bench_turns_median(us + CCL_MPI * n, n);
    if (m->moved)
        out->limit = fmin(ccl_bench_turns_median(us + CCL_COPY * n, n),
                          ccl_bench_turns_median(us + CCL_COPY_NT * n, n)) *
                     ((b->size + processors - 1) / processors);
    return true;
}

bool ccl_measure(const struct ccl_bench *b, const struct ccl_call *call, uint64_t bytes,
                 struct ccl_times *out)
{
    double *us = calloc((size_t)CCL_WAYS * (size_t)b->turns, sizeof *us);
    struct ccl_buffers m;
    bool good = us && buffers_init(b, call, bytes, &m);

    if (good) {
        good = ccl_bench_turns_measure(b, call, &m, us, out);
        buffers_finish(&m);
    }
    free(us);
    return good;
}
