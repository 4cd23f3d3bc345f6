/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_other.c: programs of ranks that do not fail: one call, all calls, hundreds of calls on one
 * communicator, split communicators, several communicators, several streams. */
#include "ccl.h"
#include <ops/common/cases_random.h>
#include <stdlib.h>

/* The calls that ccl_check_call can make. */
static const uint32_t calls[] = {
    BP_COMM_BARRIER,    BP_COMM_ALL_REDUCE,        BP_COMM_REDUCE, BP_COMM_BROADCAST,
    BP_COMM_ALL_GATHER, BP_COMM_REDUCE_SCATTER,    BP_COMM_GATHER, BP_COMM_SCATTER,
    BP_COMM_ALL_TO_ALL, BP_COMM_ALL_TO_ALL_RAGGED, BP_COMM_SEND,
};
enum { CALLS = sizeof calls / sizeof *calls };

void ccl_program_call(struct ccl_rank *r)
{
    if (ccl_join(r, 0, r->rank, r->size)) ccl_check_call(r, &r->k);
}

static bool call_each(struct ccl_rank *r, int64_t n)
{
    struct ccl_case k = {.dtype = BP_F32, .ranks = r->size, .root = r->size - 1, .n = n};
    bool ok = true;

    for (size_t i = 0; ok && i < CALLS; i++) {
        k.call = calls[i];
        ok = ccl_check_call(r, &k);
    }
    return ok;
}

/* Makes each call, at sizes for which the core uses different algorithms. */
void ccl_program_all(struct ccl_rank *r)
{
    static const int64_t counts[] = {0, 1, 11, 1025, 4099, 20011};
    bool ok = ccl_join(r, 0, r->rank, r->size);

    for (size_t i = 0; ok && i < sizeof counts / sizeof *counts; i++)
        ok = call_each(r, counts[i]);
}

/* One communicator, and calls of all kinds in a random order that is the same on all ranks. */
void ccl_program_reuse(struct ccl_rank *r)
{
    enum { TIMES = 100 }; /* ccl_check_call makes three calls each time */
    static const int64_t counts[] = {0, 1, 10, 11, 513, 1025, 4097, 9001};
    struct random random = random_of(r->check.id, r->check.fixture->seed);
    bool ok = ccl_join(r, 0, r->rank, r->size);

    for (int i = 0; ok && i < TIMES; i++) {
        struct ccl_case k = {.dtype = random_below(&random, 2) ? BP_F32 : BP_I32,
                             .ranks = r->size};
        k.call = calls[random_below(&random, CALLS)];
        k.reduction = (uint32_t)random_below(&random, BP_REDUCTION_COUNT);
        k.root = (uint32_t)random_below(&random, r->size);
        k.n = counts[random_below(&random, sizeof counts / sizeof *counts)];
        ok = ccl_check_call(r, &k);
    }
}

/* Makes one call of each kind of collective as rank `rank` of a communicator of `size` ranks. */
static bool call_as(struct ccl_rank *r, struct bp_comm *comm, uint32_t rank, uint32_t size)
{
    struct ccl_rank as = *r;
    bool ok;

    as.comm = comm;
    as.rank = rank;
    as.size = size;
    as.check.result = &r->result;
    ok = call_each(&as, 300);
    return ok;
}

/* Splits odd and even ranks, in reverse order; the halves and the whole communicator are used
 * alternately. */
void ccl_program_split(struct ccl_rank *r)
{
    uint32_t size = (r->size + 1 - r->rank % 2) / 2, rank = size - 1 - r->rank / 2;
    struct bp_comm *half = NULL, *none = NULL;
    bool ok = ccl_join(r, 0, r->rank, r->size) &&
              check_ok(&r->check, bp_comm_split(r->comm, r->rank % 2, -(int64_t)r->rank, &half),
                       "bp_comm_split") &&
              check_that(&r->check, bp_comm_rank(half) == rank && bp_comm_size(half) == size,
                         "rank %u became rank %u of %u, expected %u of %u", r->rank,
                         bp_comm_rank(half), bp_comm_size(half), rank, size);

    for (int i = 0; ok && i < 2; i++) ok = call_as(r, half, rank, size) && call_each(r, 300);
    ok = ok &&
         check_ok(&r->check, bp_comm_split(half, rank ? -1 : 0, 0, &none), "a second split") &&
         check_that(&r->check, rank ? !none : bp_comm_size(none) == 1,
                    "rank %u of a half: expected %s", rank,
                    rank ? "no communicator" : "a communicator of one");
    if (!ok && half) bp_comm_abort(half);
    bp_comm_destroy(none);
    bp_comm_destroy(half);
}

/* Three communicators of the same ranks with three different numberings, none of which waits for
 * another. */
void ccl_program_several(struct ccl_rank *r)
{
    struct bp_comm *more[2] = {NULL, NULL};
    bool ok = ccl_join(r, 0, r->rank, r->size);
    uint32_t next = (r->rank + 1) % r->size;

    ok = ok && check_ok(&r->check, bp_comm_split(r->comm, 0, -(int64_t)r->rank, &more[0]),
                        "bp_comm_split") &&
         check_ok(&r->check, bp_comm_create(r->device, &r->id[1], next, r->size, &more[1]),
                  "a second bp_comm_create");
    for (int i = 0; ok && i < 3; i++)
        ok = call_as(r, more[0], r->size - 1 - r->rank, r->size) && call_each(r, 40 * i) &&
             call_as(r, more[1], next, r->size);
    for (int i = 0; i < 2; i++) {
        if (!ok && more[i]) bp_comm_abort(more[i]);
        bp_comm_destroy(more[i]);
    }
}

/* Many calls with a tensor each, alternately on two streams, which are synchronized only at the
 * end. */
void ccl_program_streams(struct ccl_rank *r)
{
    enum { TIMES = 40 };
    struct bp_tensor *x[TIMES] = {NULL};
    struct bp_stream *second = NULL;
    bool ok = ccl_join(r, 0, r->rank, r->size) &&
              check_ok(&r->check, bp_stream_create_with(r->device, BP_STREAM_ASYNC, &second),
                       "bp_stream_create_with");

    for (int i = 0; ok && i < TIMES; i++) {
        int64_t n = 1 + 997 * i;
        float *data = malloc((size_t)n * sizeof *data);
        if (!data) abort();
        for (int64_t j = 0; j < n; j++) data[j] = (float)(r->rank + 1) * (float)(i + j % 5);
        ok = check_ok(&r->check, bp_tensor_create(r->device, BP_F32, 1, &n, &x[i]),
                      "bp_tensor_create") &&
             check_ok(&r->check, bp_tensor_write(r->stream, x[i], data,
                                                 (uint64_t)n * sizeof *data), "bp_tensor_write");
        free(data);
    }
    ok = ok && check_ok(&r->check, bp_stream_synchronize(r->stream), "bp_stream_synchronize");
    for (int i = 0; ok && i < TIMES; i++)
        ok = check_ok(&r->check, bp_comm_all_reduce(r->comm, i & 1 ? second : r->stream, x[i], x[i],
                                                    BP_REDUCE_SUM), "bp_comm_all_reduce");
    ok = ok && check_ok(&r->check, bp_stream_synchronize(r->stream), "bp_stream_synchronize") &&
         check_ok(&r->check, bp_stream_synchronize(second), "bp_stream_synchronize of the second");
    for (int i = 0; ok && i < TIMES; i++) {
        int64_t n = 1 + 997 * i;
        float *data = malloc((size_t)n * sizeof *data), sum = (float)(r->size * (r->size + 1) / 2);
        if (!data) abort();
        ok = check_ok(&r->check, bp_tensor_read(r->stream, x[i], data,
                                                (uint64_t)n * sizeof *data), "bp_tensor_read");
        for (int64_t j = 0; ok && j < n; j++)
            ok = check_that(&r->check, data[j] == sum * (float)(i + j % 5), "call %d, element "
                            "%lld: got %g, expected %g", i, (long long)j, (double)data[j],
                            (double)(sum * (float)(i + j % 5)));
        free(data);
    }
    if (!ok && r->comm) bp_comm_abort(r->comm);
    if (second) bp_stream_synchronize(second);
    for (int i = 0; i < TIMES; i++) bp_tensor_destroy(x[i]);
    bp_stream_destroy(second);
}

static bool ccl_other_put(struct ccl_rank *r, struct bp_tensor *t, float *data, int64_t n,
                          float value)
{
    for (int64_t i = 0; i < n; i++) data[i] = value;
    return check_ok(&r->check, bp_tensor_write(r->stream, t, data, (uint64_t)n * sizeof *data),
                    "bp_tensor_write");
}

/* The root overwrites its source as soon as the scatter allows it. */
void ccl_program_overwritten(struct ccl_rank *r)
{
    enum { TURNS = 20 };
    int64_t n = 70001, all = n * r->size;
    float *data = malloc((size_t)all * sizeof *data);
    struct bp_tensor *src = NULL, *dst = NULL;
    bool ok = ccl_join(r, 0, r->rank, r->size) &&
              check_ok(&r->check, bp_tensor_create(r->device, BP_F32, 1, &all, &src),
                       "bp_tensor_create") &&
              check_ok(&r->check, bp_tensor_create(r->device, BP_F32, 1, &n, &dst),
                       "bp_tensor_create");

    if (!data) abort();
    for (int turn = 1; ok && turn <= TURNS; turn++) {
        ok = ccl_other_put(r, src, data, all, (float)turn) &&
             check_ok(&r->check, bp_comm_scatter(r->comm, r->stream, src, dst, 0), "scatter") &&
             ccl_other_put(r, src, data, all, -1) &&
             check_ok(&r->check, bp_tensor_read(r->stream, dst, data, (uint64_t)n * sizeof *data),
                      "bp_tensor_read");
        for (int64_t i = 0; ok && i < n; i++)
            ok = check_that(&r->check, data[i] == (float)turn, "rank %u of %u, element %lld: got "
                            "%g, expected %d: the root's numbers after the call", r->rank, r->size,
                            (long long)i, (double)data[i], turn);
    }
    bp_tensor_destroy(src);
    bp_tensor_destroy(dst);
    free(data);
}
