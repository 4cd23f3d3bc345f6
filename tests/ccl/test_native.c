/* SPDX-License-Identifier: Apache-2.0 */
/* test_native.c: tests native collectives, on the simulator's stand-in for NCCL. Calls do not wait
 * and keep the order of streams. The rank at fault for a call that cannot end is named within a
 * time limit.
 *
 *     test_native threads|processes [WORD] */
#include "native_rank.h"

#include <dirent.h>
#include <math.h>
#include <stdatomic.h>
#include <sys/mman.h>

static uint64_t count_blocked(struct rank *r)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < BP_BLOCK_COUNT; i++) n += bp_device_blocked(r->device, i);
    return n;
}

/* Rank 0 makes calls long before the others do. */
static void too_far_ahead(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *y = filled(&r, N, 0);
    uint64_t before;
    double begin;

    OK(bp_stream_synchronize(r.stream));
    OK(bp_comm_barrier(r.comm, r.stream));
    before = count_blocked(&r);
    begin = seconds();
    if (rank) usleep(400000);
    for (int i = 0; i < 20; i++) OK(bp_comm_all_reduce(r.comm, r.stream, x, y, BP_REDUCE_SUM));
    OK(bp_comm_broadcast(r.comm, r.stream, y, x, 0));
    CHECK(rank || seconds() - begin < 0.3, "calls waited for %g s", seconds() - begin);
    CHECK(count_blocked(&r) == before, "a call counts as a wait");
    expect(&r, "broadcast", x, N, (float)size);
    CHECK(seconds() - begin > 0.3, "nobody waited for the others");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    rank_close(&r);
}

static void calls_do_not_wait(void)
{
    run(2, too_far_ahead, NO_RANK);
}

/* More calls than the log in shared memory holds: a rank that is ahead waits for the others. */
static void run_many(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *y = filled(&r, N, 0);

    for (int i = 0; i < 500; i++) {
        if (rank && i == 100) usleep(100000);
        OK(bp_comm_all_reduce(r.comm, r.stream, x, y, BP_REDUCE_SUM));
    }
    expect(&r, "all_reduce", y, N, (float)size);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    rank_close(&r);
}

static void many_calls_in_flight(void)
{
    run(3, run_many, NO_RANK);
}

/* Calls between operators of the stream, and on two streams of which one waits for the other. */
static void in_order(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *y = NULL, *z = filled(&r, N, 0);
    struct bp_scope *scope = bp_stream_scope(r.stream);
    struct bp_stream *other;
    struct bp_event *event;
    float want = 1;

    OK(bp_stream_create(r.device, &other));
    OK(bp_event_create(r.device, &event));
    for (int i = 0; i < 10; i++) {
        OK(bp_op_add(scope, x, x, &y));
        OK(bp_comm_all_reduce(r.comm, r.stream, y, z, BP_REDUCE_AVERAGE));
        OK(bp_event_record(event, r.stream));
        OK(bp_stream_wait(other, event));
        OK(bp_comm_broadcast(r.comm, other, z, z, size - 1));
        OK(bp_event_record(event, other));
        OK(bp_stream_wait(r.stream, event));
        OK(bp_tensor_copy(r.stream, x, z));
        bp_tensor_destroy(y);
        y = NULL;
        want *= 2;
    }
    expect(&r, "the last", x, N, want);
    OK(bp_stream_synchronize(other));
    bp_tensor_destroy(x);
    bp_tensor_destroy(z);
    bp_event_destroy(event);
    bp_stream_destroy(other);
    rank_close(&r);
}

static void order_of_streams(void)
{
    run(2, in_order, NO_RANK);
}

/* Calls on two independent streams run in the order of the calls. */
static void alternate_streams(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x[2] = {filled(&r, N, 1), filled(&r, N, 2)}, *y[2];
    struct bp_stream *stream[2] = {r.stream};

    OK(bp_stream_create(r.device, &stream[1]));
    for (int i = 0; i < 2; i++) y[i] = filled(&r, N, 0);
    OK(bp_stream_synchronize(r.stream));
    for (int i = 0; i < 100; i++)
        OK(bp_comm_all_reduce(r.comm, stream[i % 2], x[i % 2], y[i % 2], BP_REDUCE_SUM));
    OK(bp_stream_synchronize(stream[1]));
    expect(&r, "the first", y[0], N, (float)size);
    expect(&r, "the second", y[1], N, 2 * (float)size);
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(x[i]);
        bp_tensor_destroy(y[i]);
    }
    bp_stream_destroy(stream[1]);
    rank_close(&r);
}

static void order_of_calls(void)
{
    run(2, alternate_streams, NO_RANK);
}

/* Calls that the library does not support go through the host: reductions of booleans, and the
 * minimum of floats, one of which is NaN. */
static void mixed_ways(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, rank ? NAN : 1), *y = filled(&r, N, 0), *b, *sum;
    unsigned char bits[N] = {0}, got[N];
    float least[N];
    int64_t n = N;

    bits[rank] = 1;
    OK(bp_comm_set_timeout(r.comm, UINT64_C(3) * SECOND));
    OK(bp_tensor_create(r.device, BP_BOOL, 1, &n, &b));
    OK(bp_tensor_write(r.stream, b, bits, sizeof bits));
    for (int i = 0; i < 3; i++) {
        OK(bp_comm_all_reduce(r.comm, r.stream, b, b, BP_REDUCE_SUM));
        OK(bp_comm_all_reduce(r.comm, r.stream, x, y, BP_REDUCE_MIN));
        OK(bp_tensor_read(r.stream, y, least, sizeof least));
        CHECK(isnan(least[N - 1]), "the least is %g", (double)least[N - 1]);
        sum = filled(&r, N, 2);
        OK(bp_comm_all_reduce(r.comm, r.stream, sum, sum, BP_REDUCE_SUM));
        expect(&r, "sum", sum, N, 2 * (float)size);
        bp_tensor_destroy(sum);
    }
    OK(bp_tensor_read(r.stream, b, got, sizeof got));
    for (uint32_t i = 0; i < N; i++) CHECK(got[i] == (i < size), "element %u", i);
    OK(bp_comm_barrier(r.comm, r.stream));
    usleep(3300000); /* no call is left that could time out */
    OK(bp_comm_error(r.comm));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(b);
    rank_close(&r);
}

static void missing_calls_are_staged(void)
{
    run(2, mixed_ways, NO_RANK);
}

static void parts_of_it(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id), s = r;
    struct bp_tensor *x = filled(&r, N, 1);

    OK(bp_comm_split(r.comm, rank % 2, 0, &s.comm));
    CHECK(!strcmp(algorithm_of(&s), "native"), "%s", algorithm_of(&s));
    OK(bp_comm_all_reduce(s.comm, r.stream, x, x, BP_REDUCE_SUM));
    expect(&r, "half", x, N, 2);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    expect(&r, "all", x, N, 8);
    bp_comm_destroy(s.comm);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void a_split_is_native(void)
{
    run(4, parts_of_it, NO_RANK);
}

static void differ_in_calls(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *half;
    int64_t n = N / 2, one = 1;
    enum bp_status status;

    OK(bp_tensor_view(x, 0, 1, &n, &one, &half));
    status = bp_comm_all_reduce(r.comm, r.stream, rank == 1 ? half : x, rank == 1 ? half : x,
                                BP_REDUCE_SUM);
    CHECK(!status || status == BP_ERR_INVALID, "%s", bp_error_message());
    (void)bp_stream_synchronize(r.stream);
    FAILS(BP_ERR_INVALID, "all_reduce sum of 500 f32", bp_comm_error(r.comm));
    FAILS(BP_ERR_INVALID, "rank 1 calls", bp_comm_all_reduce(r.comm, r.stream, x, x, 0));
    bp_tensor_destroy(half);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void other_calls_are_named(void)
{
    run(ranks(3), differ_in_calls, NO_RANK);
}

/* Rank 0 makes another call, while it is more calls ahead than the log in shared memory holds. */
static void differ_late(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);
    enum bp_status status = BP_OK;

    if (rank) usleep(200000);
    for (int i = 1; i <= 100 && !status; i++)
        status = !rank && i == 11 ? bp_comm_broadcast(r.comm, r.stream, x, x, 0)
                                  : bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM);
    await_failure(&r);
    FAILS(BP_ERR_INVALID, "sequence 11: ", bp_comm_error(r.comm));
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void a_late_difference_is_named(void)
{
    run(2, differ_late, NO_RANK);
}

/* Rank 1 makes no further call, but stays alive long enough. */
static void stay_away(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);

    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    OK(bp_stream_synchronize(r.stream));
    OK(bp_comm_set_timeout(r.comm, SECOND / 2));
    if (rank != 1) {
        OK(bp_comm_broadcast(r.comm, r.stream, x, x, 0));
        expect_failure(&r, BP_ERR_TIMEOUT, "rank 1 ", 2);
        FAILS(BP_ERR_TIMEOUT, "all_reduce sum of 1000 f32, sequence 1 did not come",
              bp_comm_error(r.comm));
    } else {
        while (bp_comm_error(r.comm) == BP_OK) usleep(10000);
    }
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void absent_ranks_are_named(void)
{
    run(ranks(3), stay_away, NO_RANK);
}

static void wait_in_vain(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);

    OK(bp_comm_set_timeout(r.comm, SECOND / 2));
    if (!rank) {
        OK(bp_comm_recv(r.comm, r.stream, x, 1));
        expect_failure(&r, BP_ERR_TIMEOUT, "recv of 1000 f32", 2);
        FAILS(BP_ERR_TIMEOUT, "rank 1 ", bp_comm_error(r.comm));
    } else {
        while (bp_comm_error(r.comm) == BP_OK) usleep(10000);
    }
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void a_receive_without_its_send_ends(void)
{
    run(2, wait_in_vain, NO_RANK);
}

/* The read waits for the call before it, and must fail with it instead of returning wrong data. */
static void read_in_vain(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);
    float got[N];

    OK(bp_comm_set_timeout(r.comm, SECOND / 2));
    if (!rank) {
        OK(bp_comm_recv(r.comm, r.stream, x, 1));
        FAILS(BP_ERR_TIMEOUT, "recv of 1000 f32",
              bp_tensor_read(r.stream, x, got, sizeof got));
    } else {
        while (bp_comm_error(r.comm) == BP_OK) usleep(10000);
    }
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void a_read_fails_with_the_call_before_it(void)
{
    run(2, read_in_vain, NO_RANK);
}

/* Rank 2 does not send: rank 2 must be named, and not rank 1, which sends. */
static void wait_for_two(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1), *y = filled(&r, N, 0);

    OK(bp_comm_set_timeout(r.comm, SECOND / 2));
    if (!rank) {
        usleep(300000); /* until rank 1 has logged its side */
        OK(bp_comm_group_begin(r.comm, r.stream));
        OK(bp_comm_recv(r.comm, r.stream, x, 1));
        OK(bp_comm_recv(r.comm, r.stream, y, 2));
        OK(bp_comm_group_end(r.comm));
        expect_failure(&r, BP_ERR_TIMEOUT, ": rank 2 (process", 2);
    } else {
        OK(bp_comm_set_timeout(r.comm, UINT64_C(60) * SECOND));
        if (rank == 1) OK(bp_comm_send(r.comm, r.stream, x, 0));
        while (bp_comm_error(r.comm) == BP_OK) usleep(10000);
    }
    FAILS(BP_ERR_TIMEOUT, "which has made no call did not", bp_comm_error(r.comm));
    CHECK(!strstr(bp_error_message(), "rank 1 "), "'%s'", bp_error_message());
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    rank_close(&r);
}

static void ranks_that_do_not_send_are_named(void)
{
    run(3, wait_for_two, NO_RANK);
}

static void abort_it(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);

    if (rank != 1) {
        OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
        expect_failure(&r, BP_ERR_PEER, "rank 1 gave the communicator up", 5);
    } else {
        usleep(100000);
        OK(bp_comm_abort(r.comm));
    }
    FAILS(BP_ERR_PEER, "rank 1 gave the communicator up",
          bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    bp_tensor_destroy(x);
    rank_close(&r);
    r = join_native(rank, size, (struct bp_comm_id *)id + 1); /* the ranks can continue */
    x = filled(&r, N, 1);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    expect(&r, "all_reduce", x, N, (float)size);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void an_abort_ends_all_waits(void)
{
    run(ranks(2), abort_it, NO_RANK);
}

/* A call whose end all ranks have seen. */
static void sum_well(struct rank *r, struct bp_tensor *x)
{
    OK(bp_comm_all_reduce(r->comm, r->stream, x, x, BP_REDUCE_SUM));
    OK(bp_stream_synchronize(r->stream));
    OK(bp_comm_barrier(r->comm, r->stream));
}

/* Rank 1 is stopped; it learns of the failure when it continues. */
static void stop_rank(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);

    sum_well(&r, x);
    if (rank != 1) {
        usleep(300000); /* until rank 1 has stopped */
        OK(bp_comm_set_timeout(r.comm, SECOND / 2));
        OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
        expect_failure(&r, BP_ERR_TIMEOUT, "rank 1 ", 3);
        FAILS(BP_ERR_TIMEOUT, " did not come", bp_comm_error(r.comm));
        usleep(1500000);
    } else {
        if (!fork()) { /* a process that continues this one */
            usleep(2000000);
            kill(getppid(), SIGCONT);
            _exit(0);
        }
        raise(SIGSTOP);
        await_failure(&r);
        FAILS(BP_ERR_TIMEOUT, "did not come", bp_comm_error(r.comm));
    }
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void the_stopped_are_named(void)
{
    run(ranks(3), stop_rank, NO_RANK);
}

static void die_in_call(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);

    sum_well(&r, x);
    if (rank == 1) kill(getpid(), SIGKILL);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    expect_failure(&r, BP_ERR_PEER, "rank 1 ", 5);
    FAILS(BP_ERR_PEER, "has died", bp_comm_error(r.comm));
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void the_dead_are_named(void)
{
    run(ranks(3), die_in_call, 1);
}

/* Rank 0 serves the store, and dies. The ranks of its host notice its death, the other ranks notice
 * that the store is gone. */
static void die_with_store(uint32_t rank, uint32_t size, void *ctx)
{
    struct {
        _Atomic int made;
        struct bp_comm_id id;
    } *shared = ctx;
    struct bp_tensor *x;
    struct rank r;

    if (!rank) {
        OK(bp_comm_id_create(&shared->id));
        atomic_store(&shared->made, 1);
    }
    while (!atomic_load(&shared->made)) usleep(1000);
    r = join_native(rank, size, &shared->id);
    x = filled(&r, N, 1);
    sum_well(&r, x);
    if (!rank) kill(getpid(), SIGKILL);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    expect_failure(&r, BP_ERR_PEER, rank == 1 && !getenv("KIT_HOSTS") ? "rank 0 (process" : "", 5);
    CHECK(strstr(bp_error_message(), "rank 0 (process") ||
              strstr(bp_error_message(), "the store by which hosts hear of each other is gone"),
          "'%s'", bp_error_message());
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void the_store_may_die(void)
{
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(shared != MAP_FAILED, "no memory");
    kit_processes(3, die_with_store, shared, 0, NULL);
    munmap(shared, 4096);
}

/* Rank 2 has ended all its calls, and exits without destroying its communicator, which must not
 * affect the others. Then rank 1 dies, for which rank 0 waits. */
static void die_in_send(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);

    OK(bp_stream_synchronize(r.stream));
    OK(bp_comm_barrier(r.comm, r.stream));
    if (rank == 2) _exit(0);
    if (rank == 1) usleep(600000);
    if (rank) OK(bp_comm_send(r.comm, r.stream, x, 0));
    else OK(bp_comm_recv(r.comm, r.stream, x, 1));
    OK(bp_stream_synchronize(r.stream));
    if (rank) usleep(300000);
    if (rank) kill(getpid(), SIGKILL);
    OK(bp_comm_recv(r.comm, r.stream, x, 1));
    expect_failure(&r, BP_ERR_PEER, "rank 1 (process", 5);
    FAILS(BP_ERR_PEER, "has died", bp_comm_error(r.comm));
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void only_needed_ranks_may_not_die(void)
{
    run(3, die_in_send, 1);
}

/* The memory of tensors that are destroyed while their call is in progress must not be reused
 * before the call ends. */
static void destroy_in_call(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_stream *other;
    struct bp_tensor *x, *z, *kept[8];

    OK(bp_stream_create(r.device, &other));
    x = filled(&r, N, 1);
    z = filled(&r, N, 0);
    OK(bp_stream_synchronize(r.stream));
    if (rank) usleep(200000);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, z, BP_REDUCE_SUM));
    bp_tensor_destroy(x);
    for (int i = 0; i < 8; i++) {
        struct rank on_other = r;
        on_other.stream = other;
        kept[i] = filled(&on_other, N, 77);
    }
    expect(&r, "all_reduce", z, N, (float)size);
    for (int i = 0; i < 8; i++) bp_tensor_destroy(kept[i]);
    bp_tensor_destroy(z);
    bp_stream_destroy(other);
    rank_close(&r);
}

static void memory_of_calls_under_way_is_kept(void)
{
    run(2, destroy_in_call, NO_RANK);
}

/* A communicator is destroyed while its calls are in progress. */
static void leave_early(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);

    if (rank) usleep(200000);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    bp_comm_destroy(r.comm);
    r.comm = NULL;
    expect(&r, "all_reduce", x, N, (float)size);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void given_back_while_calls_are_under_way(void)
{
    run(2, leave_early, NO_RANK);
}

/* The function that fails on rank 1; call_named makes a call that uses it. */
static const char *doomed;

static enum bp_status call_named(struct rank *r, struct bp_tensor *x, struct bp_tensor *all,
                                 struct bp_tensor *y)
{
    if (strstr(doomed, "AllReduce"))
        return bp_comm_all_reduce(r->comm, r->stream, x, x, BP_REDUCE_SUM);
    if (strstr(doomed, "ReduceScatter"))
        return bp_comm_reduce_scatter(r->comm, r->stream, all, x, BP_REDUCE_SUM);
    if (strstr(doomed, "Reduce"))
        return bp_comm_reduce(r->comm, r->stream, x, x, BP_REDUCE_SUM, 0);
    if (strstr(doomed, "Broadcast")) return bp_comm_broadcast(r->comm, r->stream, x, x, 0);
    if (strstr(doomed, "AllGather")) return bp_comm_all_gather(r->comm, r->stream, x, all);
    return bp_comm_all_to_all(r->comm, r->stream, all, y);
}

static void fail_in_call(uint32_t rank, uint32_t size, void *id)
{
    struct bp_tensor *x, *all, *y;
    struct rank r;
    enum bp_status status;

    if (rank == 1) setenv("BP_SIM_FAIL", doomed, 1);
    if (strstr(doomed, "Async")) setenv("BP_SIM_CCL_WAITS", "1", 1); /* otherwise joining uses it */
    r = join_native(rank, size, id);
    x = filled(&r, N, 1);
    y = filled(&r, size * N, 1);
    all = filled(&r, size * N, 1);
    if (!rank) usleep(100000); /* keeps the other rank's call pending for a while */
    status = call_named(&r, x, all, y);
    if (rank == 1 && !strstr(doomed, "Async") && !strstr(doomed, "work")) {
        CHECK(status == BP_ERR_DEVICE && strstr(bp_error_message(), "answers 5"), "%s: %s",
              bp_status_name(status), bp_error_message());
        FAILS(BP_ERR_PEER, "rank 1 could not begin", bp_comm_error(r.comm));
    } else if (rank == 1 && strstr(doomed, "work")) {
        CHECK(bp_stream_synchronize(r.stream) != BP_OK, "the stream's work did not fail");
        while (bp_comm_error(r.comm) == BP_OK) usleep(1000);
        FAILS(BP_ERR_PEER, status ? "rank 1 could not begin" : "work of rank 1 failed",
              bp_comm_error(r.comm)); /* it may have failed while the call was being submitted */
    } else {
        if (status == BP_OK) status = bp_stream_synchronize(r.stream);
        CHECK(status == BP_ERR_PEER, "%s: %s", bp_status_name(status), bp_error_message());
        FAILS(BP_ERR_PEER, "rank 1", bp_comm_error(r.comm));
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(all);
    rank_close(&r);
}

static void each_call_fails_once(void)
{
    static const char *const list[] = {
        "ncclAllReduce:1:5", "ncclReduce:1:5", "ncclBroadcast:1:5", "ncclAllGather:1:5",
        "ncclReduceScatter:1:5", "ncclSend:1:5", "ncclSend:2:5", "ncclRecv:1:5",
        "ncclGroupStart:1:5", "ncclGroupEnd:1:5", "ncclCommGetAsyncError:1:5",
        "work:4:700", /* after three that fill tensors */
    };

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        doomed = list[i];
        run(2, fail_in_call, NO_RANK);
    }
}

/* If the library cannot join one rank, all ranks are staged instead. */
static void fail_to_join(uint32_t rank, uint32_t size, void *id)
{
    struct bp_tensor *x;
    const char *word;
    struct rank r;

    if (rank == (strstr(doomed, "Id") ? 0 : 1)) {
        setenv("BP_SIM_FAIL", doomed, 1);
        if (!strcmp(doomed, "off")) setenv("BP_SIM_NCCL", "off", 1);
    }
    if (strstr(doomed, "Rank:")) setenv("BP_SIM_CCL_WAITS", "1", 1);
    r = rank_join("sim:0", rank, size, id);
    word = !strcmp(doomed, "off") ? (rank ? "BP_SIM_NCCL is off" : "no library")
           : strstr(doomed, "Version") && !rank ? "no library" : "answers ";
    CHECK(strcmp(algorithm_of(&r), "native") && strstr(algorithm_of(&r), word), "%s: %s", doomed,
          algorithm_of(&r));
    x = filled(&r, N, 1);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    expect(&r, "all_reduce", x, N, (float)size);
    bp_tensor_destroy(x);
    rank_close(&r);
}

static void without_the_library(void)
{
    static const char *const list[] = {
        "ncclGetUniqueId:1:5", "ncclCommInitRank:1:5", "ncclCommInitRankConfig:1:5",
        "ncclCommGetAsyncError:1:5", "ncclGetVersion:1:5", "off"};

    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        doomed = list[i];
        run(2, fail_to_join, NO_RANK);
    }
}

static bool waits_in_the_library; /* as before NCCL 2.14 */

/* Number of threads of this process. */
static int count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    int n = 0;

    while (folder && readdir(folder)) n++;
    if (folder) closedir(folder);
    return n;
}

/* Rank 1 stops, dies or hangs while the library joins the ranks. The other ranks must not remain in
 * the library, nor any of their threads; only a blocking call is left behind with the thread that
 * made it. */
static void join_in_vain(uint32_t rank, uint32_t size, void *id)
{
    bool dies = !strcmp(doomed, "die"), hangs = !strcmp(doomed, "hang");
    struct rank r;
    double begin;
    int threads;

    setenv("BP_CCL_TIMEOUT", "2", 1);
    if (rank == 1) setenv("BP_SIM_JOIN", doomed, 1);
    if (waits_in_the_library) setenv("BP_SIM_CCL_WAITS", "1", 1);
    r = rank_open("sim:0", rank, size);
    threads = count_threads();
    begin = seconds();
    FAILS(dies ? BP_ERR_PEER : BP_ERR_TIMEOUT,
          hangs ? "all ranks are there, but the library" : "rank 1 (process",
          bp_comm_create(r.device, id, rank, size, &r.comm));
    CHECK(strstr(bp_error_message(), "bp_comm_create") && !r.comm, "%s", bp_error_message());
    CHECK(seconds() - begin < (dies ? 1.8 : 4), "%g s", seconds() - begin);
    CHECK(dies || seconds() - begin > 1.9, "%g s", seconds() - begin);
    CHECK(waits_in_the_library || count_threads() <= threads, "%d threads, %d before",
          count_threads(), threads);
    rank_close(&r);
}

/* Kills a stopped rank, which does not receive its alarm. */
static void kill_stopped(pid_t *pid, uint32_t size, void *id)
{
    siginfo_t info;

    (void)size;
    (void)id;
    waitid(P_PID, (id_t)pid[0], &info, WEXITED | WNOWAIT);
    if (!strcmp(doomed, "stop")) kill(pid[1], SIGKILL);
}

static void no_rank_stays_in_the_library(void)
{
    static const char *const list[] = {"stop", "die", "hang"};

    for (size_t i = 0; i < 2 * (sizeof list / sizeof *list); i++) {
        struct bp_comm_id id;
        doomed = list[i / 2];
        waits_in_the_library = i % 2;
        OK(bp_comm_id_create(&id));
        kit_processes(3, join_in_vain, &id, strcmp(doomed, "hang") ? 1 : NO_RANK, kill_stopped);
    }
}

/* The remote host is cut off. A rank that makes a call must fail at the timeout, and name the ranks
 * that it waits for; so must a rank of the remote host that makes a call later. */
static void cut_off(uint32_t rank, uint32_t size, void *id)
{
    struct rank r = join_native(rank, size, id);
    struct bp_tensor *x = filled(&r, N, 1);
    bool far = is_remote(rank);
    char word[20];
    double begin;

    sum_well(&r, x);
    OK(bp_comm_set_timeout(r.comm, SECOND));
    if (far) CHECK(!system("ip link set up0 down"), "ip");
    usleep(far ? 3000000 : 200000);
    for (uint32_t i = 0; i < size; i++)
        if (is_remote(i)) snprintf(word, sizeof word, "rank %u ", i);
    begin = seconds();
    if (bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM) == BP_OK)
        (void)bp_stream_synchronize(r.stream);
    if (!far) FAILS(BP_ERR_TIMEOUT, word, bp_comm_error(r.comm));
    CHECK(bp_comm_error(r.comm) == BP_ERR_TIMEOUT || bp_comm_error(r.comm) == BP_ERR_PEER, "%s",
          bp_status_name(bp_comm_error(r.comm)));
    CHECK(seconds() - begin < 5, "told after %g s", seconds() - begin);
    bp_tensor_destroy(x);
    rank_close(&r);
}

/* Runs last, because afterwards the cable is cut. */
static void a_cut_cable_is_noticed(void)
{
    if (getenv("KIT_HOSTS")) run(ranks(3), cut_off, NO_RANK);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"calls_do_not_wait", calls_do_not_wait},
        {"many_calls_in_flight", many_calls_in_flight},
        {"order_of_streams", order_of_streams},
        {"order_of_calls", order_of_calls},
        {"missing_calls_are_staged", missing_calls_are_staged},
        {"a_split_is_native", a_split_is_native},
        {"other_calls_are_named", other_calls_are_named},
        {"a_late_difference_is_named", a_late_difference_is_named},
        {"absent_ranks_are_named", absent_ranks_are_named},
        {"a_receive_without_its_send_ends", a_receive_without_its_send_ends},
        {"a_read_fails_with_the_call_before_it", a_read_fails_with_the_call_before_it},
        {"ranks_that_do_not_send_are_named", ranks_that_do_not_send_are_named},
        {"an_abort_ends_all_waits", an_abort_ends_all_waits},
        {"given_back_while_calls_are_under_way", given_back_while_calls_are_under_way},
        {"memory_of_calls_under_way_is_kept", memory_of_calls_under_way_is_kept},
        /* for processes only */
        {"the_stopped_are_named", the_stopped_are_named},
        {"the_dead_are_named", the_dead_are_named},
        {"the_store_may_die", the_store_may_die},
        {"only_needed_ranks_may_not_die", only_needed_ranks_may_not_die},
        {"each_call_fails_once", each_call_fails_once},
        {"without_the_library", without_the_library},
        {"no_rank_stays_in_the_library", no_rank_stays_in_the_library},
        {"a_cut_cable_is_noticed", a_cut_cable_is_noticed},
    };
    size_t n = sizeof cases / sizeof *cases;

    CHECK(argc > 1, "threads or processes?");
    forks = !strcmp(argv[1], "processes");
    return kit_run(cases, forks ? n : n - 8, argc > 2 ? argv[2] : NULL);
}
