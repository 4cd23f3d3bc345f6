/* SPDX-License-Identifier: Apache-2.0 */
/* ccl_failure.c: cases with a rank that makes another call, comes late, gives up, dies or never
 * comes. The failure of the other ranks names this rank in time, their outputs are untouched, and
 * they go on with a new communicator. The failing rank is rank 1; the late and the absent one is
 * the last rank. */
#include "ccl.h"
#include <ops/common/cases_random.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* NAMED_S: time in seconds within which a deadline of 0.2 s must be reported on a busy machine. The
 * late rank stays away for up to 10 s if no deadline ends the other ranks' wait. */
enum { ODD = 1, N = 700, POISON = 0x5a, NAMED_S = 5 };

static double ccl_failure_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Checks a failed call: its status, the words in its message, and that later calls on the
 * communicator fail immediately. */
static bool check_culprit(struct ccl_rank *r, enum bp_status got, enum bp_status want,
                          const char *culprit, const char *what)
{
    struct check *c = &r->check;
    double begin = ccl_failure_seconds();
    char text[600];
    bool ok = check_fails(c, got, want, "the call");

    snprintf(text, sizeof text, "%.599s", got ? bp_error_message() : "");
    return ok &&
           check_that(c, strstr(text, culprit) && strstr(text, what),
                      "the message does not say '%s' and '%s': %s", culprit, what, text) &&
           check_fails(c, bp_comm_error(r->comm), want, "bp_comm_error after it") &&
           check_that(c, ccl_done(r, bp_comm_barrier(r->comm, r->stream)) != BP_OK,
                      "a later call did not fail") &&
           check_that(c, ccl_failure_seconds() - begin < 1, "a later call took %.1f s",
                      ccl_failure_seconds() - begin);
}

/* Lets the remaining ranks create a new communicator, under new numbers, and make a call on it. */
static bool go_on(struct ccl_rank *r, uint32_t rank, uint32_t size)
{
    struct ccl_case k = {.call = BP_COMM_ALL_REDUCE, .dtype = BP_F32, .ranks = size, .n = N};
    enum outcome outcome = r->result.outcome;

    bp_comm_destroy(r->comm);
    bp_stream_destroy(r->stream);
    r->comm = NULL;
    r->stream = NULL;
    return outcome != OUTCOME_FAIL && ccl_join(r, 1, rank, size) && ccl_check_call(r, &k);
}

static bool ccl_failure_make(struct ccl_rank *r, uint32_t dtype, int64_t n, struct bp_tensor **out)
{
    uint64_t bytes = (uint64_t)n * num_type(dtype)->size;
    void *data = malloc(bytes + 1);
    bool ok;

    if (!data) abort();
    memset(data, POISON, bytes);
    ok = check_ok(&r->check, bp_tensor_create(r->device, dtype, 1, &n, out), "bp_tensor_create") &&
         check_ok(&r->check, bp_tensor_write(r->stream, *out, data, bytes), "bp_tensor_write") &&
         check_ok(&r->check, bp_stream_synchronize(r->stream), "bp_stream_synchronize");
    free(data);
    return ok;
}

/* Reads on a new stream, because the rank's own stream may have failed. */
static bool check_untouched(struct ccl_rank *r, struct bp_tensor *t, uint64_t bytes)
{
    unsigned char *data = malloc(bytes);
    struct bp_stream *stream = NULL;
    bool ok = check_ok(&r->check, bp_stream_create(r->device, &stream), "bp_stream_create");

    if (!data) abort();
    ok = ok && check_ok(&r->check, bp_tensor_read(stream, t, data, bytes), "bp_tensor_read");
    for (uint64_t i = 0; ok && i < bytes; i++)
        ok = check_that(&r->check, data[i] == POISON, "rank %u: byte %llu of dst was written by "
                        "a call that failed", r->rank, (unsigned long long)i);
    bp_stream_destroy(stream);
    free(data);
    return ok;
}

/* The call that the odd rank makes instead; text: the words by which the message names it. */
static const struct mismatch {
    const char *text;
    uint32_t call, dtype, reduction, root, less; /* less: the difference of its number of
                                                    elements */
} mismatches[] = {
    {"rank 1 calls all_gather", BP_COMM_ALL_GATHER, BP_F32, 0, 0, 0},
    {"rank 1 calls all_reduce sum of 700 i32", BP_COMM_ALL_REDUCE, BP_I32, 0, 0, 0},
    {"rank 1 calls all_reduce sum of 699 f32", BP_COMM_ALL_REDUCE, BP_F32, 0, 0, 1},
    {"rank 1 calls all_reduce max", BP_COMM_ALL_REDUCE, BP_F32, BP_REDUCE_MAX, 0, 0},
    {"rank 1 calls broadcast of 700 f32 with root 2", BP_COMM_BROADCAST, BP_F32, 0, 2, 0},
    {"rank 1 calls barrier", BP_COMM_BARRIER, BP_F32, 0, 0, 0},
    {"rank 1 calls broadcast of 700 f32 with root 1", BP_COMM_BROADCAST, BP_F32, 0, 1, 0},
};

void ccl_program_mismatch(struct ccl_rank *r)
{
    const struct mismatch *m = &mismatches[r->k.n];
    bool odd = r->rank == ODD;
    uint32_t rank = r->rank, size = r->size;
    struct ccl_case usual = {.call = m->call == BP_COMM_BROADCAST ? m->call : BP_COMM_ALL_REDUCE,
                             .dtype = BP_F32};
    struct ccl_case other = {.call = m->call, .dtype = m->dtype, .reduction = m->reduction,
                             .root = m->root};
    struct bp_tensor *src = NULL, *dst = NULL;
    int64_t n = odd ? N - m->less : N;
    int64_t n_dst = odd && m->call == BP_COMM_ALL_GATHER ? n * size : n;
    uint32_t dtype = odd ? m->dtype : (uint32_t)BP_F32;
    enum bp_status status;
    double begin;

    if (!ccl_join(r, 0, rank, size) || !ccl_failure_make(r, dtype, n, &src) ||
        !ccl_failure_make(r, dtype, n_dst, &dst))
        goto done;
    bp_comm_set_timeout(r->comm, UINT64_C(10000000000));
    begin = ccl_failure_seconds();
    status = ccl_done(r, ccl_call(r, odd ? &other : &usual, src, dst));
    /* A root receives no data and does not wait; two ranks that both call as the root notice the
     * mismatch at this barrier. */
    if (!status && (odd ? &other : &usual)->root == rank && m->call == BP_COMM_BROADCAST)
        status = ccl_done(r, bp_comm_barrier(r->comm, r->stream));
    if (check_culprit(r, status, BP_ERR_INVALID, m->text, "all ranks make the same calls") &&
        check_that(&r->check, ccl_failure_seconds() - begin < 5, "named after %.1f s",
                   ccl_failure_seconds() - begin) &&
        check_untouched(r, dst, (uint64_t)n_dst * num_type(dtype)->size))
        go_on(r, rank, size);
done:
    bp_tensor_destroy(src);
    bp_tensor_destroy(dst);
}

/* Stays away from a call until it has failed on the other ranks. */
static void stay_away(struct ccl_rank *r)
{
    double begin = ccl_failure_seconds();

    while (!bp_comm_error(r->comm) && ccl_failure_seconds() - begin < 10) usleep(10000);
}

/* The last rank makes the call after the other ranks have stopped waiting. */
void ccl_program_late(struct ccl_rank *r)
{
    uint32_t rank = r->rank, size = r->size;
    struct bp_tensor *x = NULL, *y = NULL;
    char culprit[24];
    double begin;

    snprintf(culprit, sizeof culprit, "rank %u", size - 1);
    if (!ccl_join(r, 0, rank, size) || !ccl_failure_make(r, BP_F32, N, &x) ||
        !ccl_failure_make(r, BP_F32, N, &y))
        goto done;
    if (!check_ok(&r->check, ccl_done(r, bp_comm_barrier(r->comm, r->stream)), "bp_comm_barrier"))
        goto done;
    bp_comm_set_timeout(r->comm, 200000000);
    if (rank == size - 1) stay_away(r);
    begin = ccl_failure_seconds();
    if (check_culprit(r, ccl_done(r, bp_comm_all_reduce(r->comm, r->stream, x, y, BP_REDUCE_SUM)),
                      BP_ERR_TIMEOUT, culprit, "last call was barrier") &&
        check_that(&r->check, ccl_failure_seconds() - begin < NAMED_S, "named after %.1f s",
                   ccl_failure_seconds() - begin) &&
        check_untouched(r, y, N * sizeof(float)))
        go_on(r, rank, size);
done:
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

static void *ccl_failure_give_up(void *arg)
{
    usleep(100000);
    bp_comm_abort(arg);
    return NULL;
}

/* Rank 1 aborts the communicator on another thread while it waits with the others for the last
 * rank. */
void ccl_program_abort(struct ccl_rank *r)
{
    uint32_t rank = r->rank, size = r->size;
    pthread_t thread;
    bool begun = false;

    if (!ccl_join(r, 0, rank, size)) return;
    if (rank == ODD)
        begun = check_that(&r->check, !pthread_create(&thread, NULL, ccl_failure_give_up, r->comm),
                           "a thread could not be started");
    if (rank == size - 1) stay_away(r);
    check_culprit(r, ccl_done(r, bp_comm_barrier(r->comm, r->stream)), BP_ERR_PEER, "rank 1",
                  "gave the communicator up");
    if (begun) pthread_join(thread, NULL);
    go_on(r, rank, size);
}

/* The moment at which a rank dies: the variant of the case. */
enum death { BEFORE, WAITING, DATA };

static void *ccl_failure_die(void *arg)
{
    usleep(*(const unsigned *)arg);
    kill(getpid(), SIGKILL);
    return NULL;
}

/* Dies at a random moment: while it waits for the other ranks, which come later, or while data are
 * transferred. */
static void be_victim(struct ccl_rank *r, struct bp_tensor *x)
{
    struct random random = random_of(r->check.id, r->check.fixture->seed);
    unsigned after = r->k.n == WAITING ? 60000 : 2000 + (unsigned)random_below(&random, 30000);
    enum bp_status status = BP_OK;
    pthread_t thread;

    if (r->k.n == BEFORE) raise(SIGKILL);
    if (pthread_create(&thread, NULL, ccl_failure_die, &after)) return;
    while (!status)
        status = ccl_done(r, bp_comm_all_reduce(r->comm, r->stream, x, x, BP_REDUCE_MAX));
    pthread_join(thread, NULL);
}

void ccl_program_death(struct ccl_rank *r)
{
    uint32_t rank = r->rank, size = r->size;
    struct bp_tensor *x = NULL;
    enum bp_status status = BP_OK;
    double begin;

    if (!ccl_join(r, 0, rank, size) ||
        !ccl_failure_make(r, BP_F32, r->k.n == DATA ? 1 << 20 : N, &x))
        goto done;
    if (!check_ok(&r->check, ccl_done(r, bp_comm_all_reduce(r->comm, r->stream, x, x,
                                                            BP_REDUCE_MAX)), "a first call"))
        goto done;
    bp_comm_set_timeout(r->comm, UINT64_C(15000000000));
    if (rank == ODD) be_victim(r, x);
    if (rank == ODD) goto done;
    if (r->k.n == WAITING) usleep(250000);
    begin = ccl_failure_seconds();
    while (!status && ccl_failure_seconds() - begin < 10)
        status = ccl_done(r, bp_comm_all_reduce(r->comm, r->stream, x, x, BP_REDUCE_MAX));
    if (check_culprit(r, status, BP_ERR_PEER, "rank 1", "has died") &&
        check_that(&r->check, ccl_failure_seconds() - begin < 8, "named after %.1f s",
                   ccl_failure_seconds() - begin))
        go_on(r, rank - (rank > ODD), size - 1);
done:
    bp_tensor_destroy(x);
}

/* The last rank is never started. */
void ccl_program_absent(struct ccl_rank *r)
{
    char culprit[32];

    snprintf(culprit, sizeof culprit, "rank %u of %u", r->size - 1, r->size);
    if (check_fails(&r->check, bp_comm_create(r->device, &r->id[0], r->rank, r->size, &r->comm),
                    BP_ERR_TIMEOUT, "bp_comm_create"))
        check_that(&r->check, strstr(bp_error_message(), culprit) != NULL,
                   "the message does not say '%s': %s", culprit, bp_error_message());
}
