/* SPDX-License-Identifier: Apache-2.0 */
/* test_ahead.c: tests calls in which a rank receives no data and so does not wait. It tests how
 * many calls such a rank may be ahead, that its data arrives in order, and that a rank that makes
 * another call, dies or is missing is still named. Each rank is a process. */
#include "failing.h"

/* FEW calls may be made before the other ranks come; MANY may not. */
enum { FEW = 20, MANY = 60 };

static void set_elements(struct bp_tensor *t, int64_t n, float value)
{
    float *data;

    OK(bp_tensor_map(t, (void **)&data));
    for (int64_t i = 0; i < n; i++) data[i] = value;
}

static void expect_elements(const char *what, int round, struct bp_tensor *t, int64_t from,
                            int64_t n, float want)
{
    float *data;

    OK(bp_tensor_map(t, (void **)&data));
    for (int64_t i = from; i < from + n; i++)
        CHECK(data[i] == want, "%s %d, element %d: %g, expected %g", what, round, (int)i,
              (double)data[i], (double)want);
}

/* A root does not wait for a rank that sleeps, unless it is many calls ahead, and its data arrives
 * in order. It notices later that a rank makes another call. */
static void run_ahead(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 4), *y = make(BP_F32, 4);
    double begin = seconds();
    enum bp_status status = BP_OK;

    OK(bp_comm_set_timeout(comm, 5ull * SECOND));
    if (rank == 1) usleep(500000);
    for (int i = 0; i < 300; i++) {
        fill(x, i % 100);
        OK(bp_comm_broadcast(comm, stream, x, y, 0));
        CHECK(is_filled(y, i % 100), "broadcast %d", i);
        if (i == FEW) CHECK(rank == 1 || seconds() - begin < 0.3, "%g s", seconds() - begin);
    }
    CHECK(seconds() - begin > 0.45, "%g s: all before the other has begun", seconds() - begin);
    for (int i = 0; i < 300 && !status; i++)
        status = rank == 1 && i == 5 ? bp_comm_gather(comm, stream, x, NULL, 0)
                                     : bp_comm_broadcast(comm, stream, x, y, 0);
    expect_failure(comm, status, BP_ERR_INVALID, "rank 1 calls gather of 4 f32 with root 0",
                   "sequence 306:");
    CHECK(seconds() - begin < 3, "%g s", seconds() - begin);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    close_all(comm);
}

static void a_root_is_ahead(void)
{
    run(2, run_ahead, UINT32_MAX);
    if (!getenv("KIT_HOSTS")) run(4, run_ahead, UINT32_MAX);
}

/* Makes calls of one kind while rank 1 sleeps. Rank 1 is the root of calls whose data goes to one
 * rank. */
static void call_each(struct bp_comm *comm, uint32_t rank, uint32_t size, int call, int64_t n)
{
    struct bp_tensor *one = make(BP_F32, n), *all = make(BP_F32, n * size);
    struct bp_tensor *to_one = make(BP_F32, n), *to_all = make(BP_F32, n * size);
    uint32_t root = call == 3 || call == 6;
    double begin;

    OK(bp_comm_barrier(comm, stream));
    begin = seconds();
    if (rank == 1) usleep(300000);
    for (int i = 0; i < FEW; i++) {
        set_elements(one, n, (float)(i + 10 * (int)rank));
        set_elements(all, n * size, (float)i);
        OK(call_number(comm, call, one, all, to_one, to_all, root));
        if (call == 1) expect_elements("broadcast", i, to_one, 0, n, (float)i);
        if (call == 7) expect_elements("scatter", i, to_one, 0, n, (float)i);
        if (rank != root) continue;
        if (call == 3)
            expect_elements("reduce", i, to_one, 0, n, (float)(i + 10 * (int)(size - 1)));
        for (uint32_t j = 0; call == 6 && j < size; j++)
            expect_elements("gather", i, to_all, j * n, n, (float)(i + 10 * (int)j));
    }
    CHECK(rank == 1 || seconds() - begin < 0.2, "call %d of %d: rank %u waited", call, (int)n,
          rank);
    bp_tensor_destroy(one), bp_tensor_destroy(all);
    bp_tensor_destroy(to_one), bp_tensor_destroy(to_all);
}

static void each_call(uint32_t rank, uint32_t size, void *ctx)
{
    static const int calls[] = {1, 3, 6, 7};
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);

    for (int i = 0; i < 4; i++) call_each(comm, rank, size, calls[i], 1);
    for (int i = 0; i < 4; i++) call_each(comm, rank, size, calls[i], 500);
    close_all(comm);
}

static void ranks_without_data_do_not_wait(void)
{
    run(3, each_call, UINT32_MAX);
}

/* The data of a root that has exited can still be read; the root is missing in calls that it did
 * not make. */
static void leave_data(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 500);

    OK(bp_comm_barrier(comm, stream));
    if (rank) usleep(200000 * rank);
    for (int i = 0; i < FEW; i++) {
        if (!rank) set_elements(x, 500, (float)i);
        OK(bp_comm_broadcast(comm, stream, x, x, 0));
        expect_elements("broadcast", i, x, 0, 500, (float)i);
    }
    if (!rank) _exit(0);
    if (rank == 2) OK(bp_comm_send(comm, stream, x, 1));
    if (rank == 1) OK(bp_comm_recv(comm, stream, x, 2)); /* the wait also looks for dead ranks */
    expect_failure(comm, bp_comm_barrier(comm, stream), BP_ERR_PEER, "rank 0 (process", "has died");
    bp_tensor_destroy(x);
    close_all(comm);
}

static void data_of_an_early_rank_can_be_read(void)
{
    run(3, leave_data, UINT32_MAX);
}

/* Broadcasts until a call fails. */
static enum bp_status broadcast_on(struct bp_comm *comm, struct bp_tensor *x)
{
    enum bp_status status = BP_OK;

    for (int i = 0; i < 1000 && !status; i++) status = bp_comm_broadcast(comm, stream, x, x, 0);
    return status;
}

static void die_after_root(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 4);
    double begin = seconds();

    OK(bp_comm_barrier(comm, stream));
    if (rank == 1) kill(getpid(), SIGKILL);
    expect_failure(comm, broadcast_on(comm, x), BP_ERR_PEER, "rank 1 (process", "has died");
    CHECK(seconds() - begin < 3, "%g s", seconds() - begin);
    bp_tensor_destroy(x);
    close_all(comm);
}

static void the_dead_are_named(void)
{
    run(3, die_after_root, 1);
}

/* Rank 2 is behind as well, but not so far that another rank waits for it. */
static void come_late(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 4);

    OK(bp_comm_barrier(comm, stream));
    OK(bp_comm_set_timeout(comm, SECOND / 2));
    for (int i = 0; rank == 2 && i < MANY - 10; i++) OK(bp_comm_broadcast(comm, stream, x, x, 0));
    if (rank) await_failure(comm);
    expect_failure(comm, broadcast_on(comm, x), BP_ERR_TIMEOUT, "with root 0, sequence ",
                   ": rank 1 (process");
    CHECK(strstr(bp_error_message(), "last call was barrier, sequence 1 did not come"), "'%s'",
          bp_error_message());
    bp_tensor_destroy(x);
    close_all(comm);
}

static void absent_ranks_are_named(void)
{
    run(3, come_late, UINT32_MAX);
}

/* Rank 1 waits for rank 0, in a call that rank 0 has not begun, because rank 0 waits for rank 2. */
static void wait_in_chain(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 4), *y = make(BP_F32, 4);
    enum bp_status status;

    OK(bp_comm_set_timeout(comm, (rank ? 1ull : 4ull) * SECOND));
    if (rank == 2) await_failure(comm);
    status = bp_comm_reduce(comm, stream, x, y, BP_REDUCE_SUM, 0);
    if (!status) status = bp_comm_broadcast(comm, stream, x, x, 0);
    expect_failure(comm, status, BP_ERR_TIMEOUT, "rank 1 waited 1 s in broadcast of 4 f32",
                   ": rank 2 (process");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    close_all(comm);
}

static void the_end_of_a_chain_is_named(void)
{
    run(3, wait_in_chain, UINT32_MAX);
}

/* No rank waits for another in the calls that differ; the first of them must be named. */
static void differ_in_past(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 4), *y = make(BP_F32, 4);

    OK(bp_comm_barrier(comm, stream));
    for (int i = 0; i < 3; i++) {
        if (rank) OK(bp_comm_reduce(comm, stream, x, NULL, BP_REDUCE_SUM, 0));
        else OK(bp_comm_broadcast(comm, stream, x, y, 0));
    }
    expect_failure(comm, bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM), BP_ERR_INVALID,
                   "sequence 2: rank 1 calls reduce sum of 4 f32 with root 0",
                   "but rank 0 calls broadcast of 4 f32 with root 0");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    close_all(comm);
}

static void calls_of_the_past_are_compared(void)
{
    run(2, differ_in_past, UINT32_MAX);
}

/* Each rank is the root of its own broadcasts, and would never wait for the other. */
static void use_two_roots(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 4);
    enum bp_status status = BP_OK;

    OK(bp_comm_barrier(comm, stream));
    for (int i = 0; i < MANY && !status; i++)
        status = bp_comm_broadcast(comm, stream, x, x, rank);
    expect_failure(comm, status, BP_ERR_INVALID,
                   "sequence 2: rank 1 calls broadcast of 4 f32 with root 1",
                   "but rank 0 calls broadcast of 4 f32 with root 0");
    bp_tensor_destroy(x);
    close_all(comm);
}

static void two_roots_are_compared(void)
{
    run(2, use_two_roots, UINT32_MAX);
}

/* Makes one of many calls, and checks its results. The calls use the same random numbers on all
 * ranks. */
static void one_of_many(struct bp_comm *comm, uint32_t rank, uint32_t size, int i, unsigned *seed)
{
    static const int64_t counts[] = {1, 10, 11, 500, 3000, 40000};
    int call = (int)(rand_r(seed) / 16 % 2 ? 1 + (unsigned)rand_r(seed) / 16 % 2 * 6
                                           : (unsigned)rand_r(seed) / 16 % CALLS);
    int64_t n = counts[rand_r(seed) / 16 % 6];
    uint32_t root = (uint32_t)rand_r(seed) / 16 % size;
    struct bp_tensor *one = make(BP_F32, n), *all = make(BP_F32, n * size);
    struct bp_tensor *to_one = make(BP_F32, n), *to_all = make(BP_F32, n * size);
    float base = (float)(i % 50), sum = 0;

    for (uint32_t j = 0; j < size; j++) sum += base + (float)j;
    set_elements(one, n, base + (float)rank);
    set_elements(all, n * size, base + (float)rank);
    OK(call_number(comm, call, one, all, to_one, to_all, root));
    if (call == 0 || call == 5) expect_elements("sum", i, to_one, 0, n, sum);
    if (call == 1 || call == 7)
        expect_elements("from the root", i, to_one, 0, n, base + (float)root);
    if (call == 3 && rank == root)
        expect_elements("max", i, to_one, 0, n, base + (float)(size - 1));
    for (uint32_t j = 0; j < size; j++)
        if (call == 2 || call == 4 || (call == 6 && rank == root))
            expect_elements("of each", i, to_all, j * n, n, base + (float)j);
    bp_tensor_destroy(one), bp_tensor_destroy(all);
    bp_tensor_destroy(to_one), bp_tensor_destroy(to_all);
}

static void mix_calls(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    unsigned seed = ids->seed, own = ids->seed + rank + 1;

    for (int i = 0; i < 1500; i++) {
        if (rand_r(&own) / 16 % 100 == 0) usleep(3000); /* the other ranks continue */
        one_of_many(comm, rank, size, i, &seed);
    }
    close_all(comm);
}

static void calls_in_any_order(void)
{
    for (uint32_t size = 2; size < 7; size += 2) {
        struct ids ids = {.seed = (unsigned)time(NULL) + size};
        printf("# seed %u\n", ids.seed);
        OK(bp_comm_id_create(&ids.first));
        kit_processes(size, mix_calls, &ids, UINT32_MAX, NULL);
    }
}

/* The counts of a ragged call must remain in shared memory until all ranks have read them, also if
 * some ranks have since made a call in which they did not wait. */
static void keep_counts(uint32_t rank, uint32_t size, void *ctx)
{
    enum { PART = 6000 };
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, PART * size), *y = make(BP_F32, PART * size);
    struct bp_tensor *few = make(BP_F32, size), *got = make(BP_F32, size);
    struct bp_tensor *little = make(BP_F32, 1);
    int64_t many[8], one[8];

    for (uint32_t i = 0; i < size; i++) many[i] = PART, one[i] = 1;
    for (int i = 0; i < 300; i++) {
        set_elements(x, PART * size, (float)(i + (int)rank));
        OK(bp_comm_all_to_all_ragged(comm, stream, x, many, y, many));
        for (uint32_t j = 0; j < size; j++)
            expect_elements("ragged", i, y, j * PART, PART, (float)(i + (int)j));
        OK(bp_comm_broadcast(comm, stream, little, little, (uint32_t)i % size));
        OK(bp_comm_all_to_all_ragged(comm, stream, few, one, got, one));
        OK(bp_comm_broadcast(comm, stream, little, little, (uint32_t)i % size));
    }
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    bp_tensor_destroy(few), bp_tensor_destroy(got), bp_tensor_destroy(little);
    close_all(comm);
}

static void counts_stand_until_they_are_read(void)
{
    run(6, keep_counts, UINT32_MAX);
}

/* Sends do not wait for a rank that sleeps. A send that differs from the receive is named when the
 * receiver comes. */
static void send_ahead(uint32_t rank, uint32_t size, void *ctx)
{
    static const int64_t counts[] = {1, 500};
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x, *y = make(BP_F32, 3);
    enum bp_status status = BP_OK;

    for (int k = 0; k < 2; k++) {
        double begin;
        OK(bp_comm_barrier(comm, stream));
        begin = seconds();
        if (rank) usleep(300000);
        x = make(BP_F32, counts[k]);
        for (int i = 0; i < FEW; i++) {
            if (!rank) set_elements(x, counts[k], (float)i);
            if (rank) OK(bp_comm_recv(comm, stream, x, 0));
            else OK(bp_comm_send(comm, stream, x, 1));
            expect_elements("message", i, x, 0, counts[k], (float)i);
        }
        CHECK(rank || seconds() - begin < 0.2, "%d numbers: %g s", (int)counts[k],
              seconds() - begin);
        bp_tensor_destroy(x);
    }
    x = make(BP_F32, 2);
    OK(bp_comm_barrier(comm, stream));
    for (int i = 0; i < 100 && !status; i++)
        status = rank ? bp_comm_recv(comm, stream, i == 10 ? y : x, 0)
                      : bp_comm_send(comm, stream, x, 1);
    expect_failure(comm, status, BP_ERR_INVALID, "rank 0 sends 2 f32 to rank 1", "expects 3 f32");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    close_all(comm);
}

static void sends_do_not_wait(void)
{
    run(2, send_ahead, UINT32_MAX);
}

/* Messages of all sizes, in both directions, alone and in groups. */
static void many_sends(uint32_t rank, uint32_t size, void *ctx)
{
    static const int64_t counts[] = {0, 1, 10, 11, 511, 512, 513, 3000, 8191, 8192, 8193, 30000};
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    unsigned seed = ids->seed, own = ids->seed + rank + 1;
    uint32_t next = (rank + 1) % size, before = (rank + size - 1) % size;

    for (int i = 0; i < 3000; i++) {
        int64_t n = counts[rand_r(&seed) / 16 % 12];
        uint32_t sender = (uint32_t)rand_r(&seed) / 16 % size;
        bool all = rand_r(&seed) / 16 % 8 == 0;
        struct bp_tensor *x = make(BP_F32, n), *y = make(BP_F32, n);
        float base = (float)(i % 50);
        if (rand_r(&own) / 16 % 200 == 0) usleep(2000);
        if (n) set_elements(x, n, base + (float)rank);
        OK(bp_comm_group_begin(comm, stream));
        if (all || rank == sender) OK(bp_comm_send(comm, stream, x, next));
        if (all || before == sender) OK(bp_comm_recv(comm, stream, y, before));
        OK(bp_comm_group_end(comm));
        if (n && (all || before == sender))
            expect_elements("sent", i, y, 0, n, base + (float)before);
        bp_tensor_destroy(x), bp_tensor_destroy(y);
    }
    close_all(comm);
}

static void messages_of_all_sizes(void)
{
    for (uint32_t size = 2; size < 5; size++) {
        struct ids ids = {.seed = (unsigned)time(NULL) + size};
        printf("# seed %u\n", ids.seed);
        OK(bp_comm_id_create(&ids.first));
        kit_processes(size, many_sends, &ids, UINT32_MAX, NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"a_root_is_ahead", a_root_is_ahead},
        {"ranks_without_data_do_not_wait", ranks_without_data_do_not_wait},
        {"data_of_an_early_rank_can_be_read", data_of_an_early_rank_can_be_read},
        {"the_dead_are_named", the_dead_are_named},
        {"absent_ranks_are_named", absent_ranks_are_named},
        {"the_end_of_a_chain_is_named", the_end_of_a_chain_is_named},
        {"calls_of_the_past_are_compared", calls_of_the_past_are_compared},
        {"two_roots_are_compared", two_roots_are_compared},
        {"calls_in_any_order", calls_in_any_order},
        {"sends_do_not_wait", sends_do_not_wait},
        {"messages_of_all_sizes", messages_of_all_sizes},
        {"counts_stand_until_they_are_read", counts_stand_until_they_are_read},
    };

    return KIT_CASES(cases, argc, argv);
}
