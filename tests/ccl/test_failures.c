/* SPDX-License-Identifier: Apache-2.0 */
/* test_failures.c: tests ranks that do not come, die, or send other data than expected. All other
 * ranks must name the rank at fault within a time limit, and can continue with a new communicator.
 *
 *     test_failures [WORD] [SEED KILLS]
 *
 * Each rank is a process. Kills at random points print their seed. There are more kills with
 * LARGE_TESTS in the environment, and fewer between hosts. */
#include "failing.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

static void differ_in_counts(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 4), *y = make(BP_F32, 4);
    const int64_t out[] = {2, 2}, in[] = {rank ? 1 : 2, rank ? 3 : 2};

    OK(bp_comm_set_timeout(comm, 2ull * SECOND));
    expect_failure(comm, bp_comm_all_to_all_ragged(comm, stream, x, out, y, in), BP_ERR_INVALID,
                   "expects", "all_to_all_ragged");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    close_all(comm);
}

static void ragged_counts_are_compared(void)
{
    run(2, differ_in_counts, UINT32_MAX);
}

static void come_late(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 1000000);
    double begin;

    OK(bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM));
    OK(bp_comm_set_timeout(comm, SECOND / 2));
    if (rank == 2) await_failure(comm);
    begin = seconds();
    expect_failure(comm, bp_comm_broadcast(comm, stream, x, x, 1), BP_ERR_TIMEOUT,
                   "rank 2 (process", "last call was all_reduce sum of 1000000 f32, sequence 1");
    CHECK(seconds() - begin < 3, "%g s", seconds() - begin);
    bp_tensor_destroy(x);
    close_all(comm);
}

static void absent_ranks_are_named(void)
{
    run(4, come_late, UINT32_MAX);
}

static double processor_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* A wait of two seconds may use at most 2 % of a processor. */
static void wait_asleep(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 10);
    double used;

    for (int i = 0; i < 2; i++) {
        OK(bp_comm_barrier(comm, stream));
        used = processor_seconds();
        if (rank == 1) usleep(2000000);
        if (i == 0) OK(bp_comm_barrier(comm, stream));
        else if (rank == 0) { /* two at once: another wait function */
            OK(bp_comm_group_begin(comm, stream));
            OK(bp_comm_recv(comm, stream, x, 1));
            OK(bp_comm_recv(comm, stream, x, 1));
            OK(bp_comm_group_end(comm));
        } else if (rank == 1) {
            OK(bp_comm_send(comm, stream, x, 0));
            OK(bp_comm_send(comm, stream, x, 0));
        }
        used = processor_seconds() - used;
        CHECK(used < 0.04, "rank %u of %u used %g s of a processor in 2 s", rank, size, used);
    }
    bp_tensor_destroy(x);
    close_all(comm);
}

static void waiting_ranks_sleep(void)
{
    run(2, wait_asleep, UINT32_MAX);
    run(5, wait_asleep, UINT32_MAX);
}

/* Rank 0 waits for rank 1, which waits for rank 2, which does something else. */
static void wait_in_chain(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 10);

    OK(bp_comm_set_timeout(comm, (rank ? 3ull : 1ull) * SECOND));
    if (rank == 2) await_failure(comm);
    expect_failure(comm,
                   rank < 2 ? bp_comm_recv(comm, stream, x, rank + 1)
                            : bp_comm_send(comm, stream, x, 1),
                   BP_ERR_TIMEOUT, "recv of 10 f32 from rank 1", ": rank 2 (process");
    bp_tensor_destroy(x);
    close_all(comm);
}

static void the_end_of_a_chain_is_named(void)
{
    run(3, wait_in_chain, UINT32_MAX);
}

static void mixed_pair(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 50000), *y = make(BP_F32, 50001);

    OK(bp_comm_set_timeout(comm, 5ull * SECOND));
    expect_failure(comm,
                   rank ? bp_comm_recv(comm, stream, y, 0) : bp_comm_send(comm, stream, x, 1),
                   BP_ERR_INVALID, "rank 0 sends 50000 f32 to rank 1", "expects 50001 f32");
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    close_all(comm);
}

static void pairs_are_compared(void)
{
    run(2, mixed_pair, UINT32_MAX);
}

/* Rank 1 dies; the others create a new communicator without it. */
static void die_in_call(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size), *next;
    struct bp_tensor *x = make(BP_F32, 3000000);
    double begin = seconds();
    float *data;

    OK(bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM));
    if (rank == 1) kill(getpid(), SIGKILL);
    expect_failure(comm, bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM), BP_ERR_PEER,
                   "rank 1 (process", "has died");
    CHECK(seconds() - begin < 5, "%g s", seconds() - begin);
    bp_comm_destroy(comm);
    next = join(&ids->second, rank - (rank > 1), size - 1);
    OK(bp_tensor_map(x, (void **)&data));
    data[2999999] = 1;
    OK(bp_comm_all_reduce(next, stream, x, x, BP_REDUCE_SUM));
    CHECK(data[2999999] == (float)(size - 1), "%g", (double)data[2999999]);
    bp_tensor_destroy(x);
    close_all(next);
}

static void the_dead_are_named_and_others_go_on(void)
{
    run(3, die_in_call, 1);
}

/* A rank that has ended all its calls may exit, with or without destroying its communicator. */
static void leave_early(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 10);

    OK(bp_comm_broadcast(comm, stream, x, x, 0));
    if (rank == 0) _exit(0);
    if (rank == 1) usleep(400000);
    if (rank == 1) OK(bp_comm_send(comm, stream, x, 2));
    if (rank == 2) OK(bp_comm_recv(comm, stream, x, 1)); /* the wait also looks for dead ranks */
    bp_tensor_destroy(x);
    close_all(comm);
}

static void finished_ranks_may_go(void)
{
    run(3, leave_early, UINT32_MAX);
}

static void *abort_later(void *arg)
{
    usleep(300000);
    OK(bp_comm_abort(arg));
    return NULL;
}

static void wait_for_abort(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    pthread_t thread;

    if (rank == 0) CHECK(!pthread_create(&thread, NULL, abort_later, comm), "no thread");
    if (rank == 2) await_failure(comm);
    expect_failure(comm, bp_comm_barrier(comm, stream), BP_ERR_PEER, "rank 0 gave the communicator",
                   "bp_comm_abort");
    if (rank == 0) pthread_join(thread, NULL);
    close_all(comm);
}

static void an_abort_ends_all_waits(void)
{
    run(3, wait_for_abort, UINT32_MAX);
}

/* A call in a queue is dropped because work before it failed. */
static void drop_call(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size), *other;
    struct bp_tensor *x = make(BP_F32, 10);
    struct bp_stream *later;
    enum bp_status status;

    OK(bp_comm_split(comm, 0, 0, &other));
    OK(bp_stream_create_with(device, BP_STREAM_ASYNC, &later));
    OK(bp_comm_set_timeout(comm, SECOND / 2));
    OK(bp_comm_set_timeout(other, 20ull * SECOND));
    if (rank == 0) { /* rank 1 never makes this call, so the stream fails */
        OK(bp_comm_barrier(comm, later));
        OK(bp_comm_all_reduce(other, later, x, x, BP_REDUCE_SUM));
        FAILS(BP_ERR_TIMEOUT, "rank 1", bp_stream_synchronize(later));
    } else {
        status = bp_comm_all_reduce(other, stream, x, x, BP_REDUCE_SUM);
        expect_failure(other, status, BP_ERR_PEER, "rank 0 did not begin all_reduce", "failed");
    }
    bp_stream_destroy(later);
    bp_comm_destroy(other);
    bp_tensor_destroy(x);
    close_all(comm);
}

static void dropped_calls_are_reported(void)
{
    run(2, drop_call, UINT32_MAX);
}

/* The cable between the hosts of two ranks is cut: both sides must fail within a time limit. */
static void cut_cable(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_F32, 100000);
    enum bp_status status = BP_OK;
    double begin = seconds();

    OK(bp_comm_set_timeout(comm, 1ull * SECOND));
    for (int i = 0; status == BP_OK; i++) {
        if (rank == 0 && i == 20) CHECK(!system("ip link set up0 down"), "ip");
        begin = seconds();
        status = bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM);
    }
    CHECK(seconds() - begin < 6, "%g s", seconds() - begin);
    CHECK(status == BP_ERR_TIMEOUT || status == BP_ERR_PEER, "%s", bp_status_name(status));
    CHECK(strstr(bp_error_message(), "on another host"), "'%s'", bp_error_message());
    bp_tensor_destroy(x);
    close_all(comm);
}

static void a_cut_cable_is_noticed(void)
{
    if (getenv("KIT_HOSTS")) run(4, cut_cable, UINT32_MAX);
}

/* Hides UCX's library in rank 1's process only. */
static void without_library(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = NULL;
    double begin;

    if (rank == 1) {
        const char *library = getenv("KIT_LIBRARY");
        CHECK(library && !mount("/dev/null", library, NULL, MS_BIND, NULL), "%s", library);
    }
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &device));
    begin = seconds();
    FAILS(BP_ERR_NOT_FOUND, "ranks on several hosts need UCX: Debian's libucx0",
          bp_comm_create(device, &ids->first, rank, size, &comm));
    CHECK(strstr(bp_error_message(), "libucp") && strstr(bp_error_message(), "said by rank 1"),
          "'%s'", bp_error_message());
    CHECK(!comm && seconds() - begin < 3, "%g s", seconds() - begin);
    bp_device_destroy(device);
    bp_core_destroy(core);
}

static void hosts_without_ucx_are_reported(void)
{
    if (getenv("KIT_HOSTS")) run(3, without_library, UINT32_MAX);
}

static void miss_rank(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm;

    setenv("BP_CCL_TIMEOUT", "0.5", 1);
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &device));
    if (rank != 1)
        FAILS(BP_ERR_TIMEOUT, "ranks 1, 4 of 5 did not come",
              bp_comm_create(device, &ids->first, rank, size + 1, &comm));
    if (rank < 2) /* two ranks 0; the first one waits in vain */
        CHECK(bp_comm_create(device, &ids->second, 0, 2, &comm), "made by one rank");
    bp_device_destroy(device);
    bp_core_destroy(core);
}

static void missing_ranks_are_named(void)
{
    run(4, miss_rank, UINT32_MAX);
}

static void check_wrong_numbers(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm;

    setenv("BP_CCL_TIMEOUT", "30", 1);
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &device));
    FAILS(BP_ERR_INVALID, "says", bp_comm_create(device, &ids->first, rank, size + rank, &comm));
    if (rank) usleep(300000);
    FAILS(BP_ERR_INVALID, "rank 0 is there twice",
          bp_comm_create(device, &ids->second, 0, size, &comm));
    bp_device_destroy(device);
    bp_core_destroy(core);
}

static void wrong_sizes_and_numbers(void)
{
    run(2, check_wrong_numbers, UINT32_MAX);
}

static void a_token_that_is_wrong(void)
{
    struct bp_comm_id id;
    struct bp_comm *comm = NULL;
    char *token;

    OK(bp_comm_id_create(&id));
    token = strchr(id.text, '/') + 1;
    *token = *token == 'a' ? 'b' : 'a';
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &device));
    FAILS(BP_ERR_INVALID, "refused the token", bp_comm_create(device, &id, 0, 2, &comm));
    CHECK(!comm, "made all the same");
    bp_device_destroy(device);
    bp_core_destroy(core);
    core = NULL;
}

/* A process that serves a store until it is killed. */
static pid_t store_fork(struct bp_comm_id *out_id)
{
    int ends[2];
    pid_t pid;

    CHECK(!pipe(ends), "no pipe");
    fflush(stdout);
    pid = fork();
    CHECK(pid >= 0, "no process");
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        OK(bp_comm_id_create(out_id));
        CHECK(write(ends[1], out_id, sizeof *out_id) == sizeof *out_id, "no id");
        alarm(60);
        for (;;) pause();
    }
    CHECK(read(ends[0], out_id, sizeof *out_id) == sizeof *out_id, "no id");
    close(ends[0]);
    close(ends[1]);
    return pid;
}

/* Without the store, ranks that have met can continue, but not split; no further rank can join. */
static void without_store(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size), *other = NULL;
    struct bp_tensor *x = make(BP_F32, 100000);

    OK(bp_comm_barrier(comm, stream));
    if (rank == 0) kill((pid_t)ids->victim, SIGKILL);
    while (!kill((pid_t)ids->victim, 0)) usleep(1000); /* until its parent has reaped it */
    OK(bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM));
    FAILS(BP_ERR_PEER, "is gone", bp_comm_split(comm, 0, 0, &other));
    OK(bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM));
    setenv("BP_CCL_TIMEOUT", "0.3", 1);
    FAILS(BP_ERR_TIMEOUT, "nobody answers",
          bp_comm_create(device, &ids->second, rank, size, &other));
    CHECK(!other, "made all the same");
    bp_tensor_destroy(x);
    close_all(comm);
}

static void reap_process(pid_t *pid, uint32_t size, void *ctx)
{
    struct ids *ids = ctx;

    (void)pid;
    (void)size;
    waitpid((pid_t)ids->victim, NULL, 0);
}

static void a_store_that_is_gone(void)
{
    struct ids ids;

    ids.victim = (uint32_t)store_fork(&ids.first);
    ids.second = ids.first;
    ids.second.text[strlen(ids.second.text) - 1] ^= 1; /* another name in the same store */
    kit_processes(2, without_store, &ids, UINT32_MAX, reap_process);
}

/* Makes a call of any kind. t: the tensors of call_number. */
static enum bp_status some_call(struct bp_comm *comm, struct bp_tensor *const *t, unsigned kind)
{
    uint32_t rank = bp_comm_rank(comm), size = bp_comm_size(comm);
    struct bp_tensor *x = t[0], *y = t[2];

    switch (kind % (CALLS + 2)) {
    case 0: return bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM);
    default: return call_number(comm, kind % (CALLS + 2), t[0], t[1], t[2], t[3], kind / 16 % size);
    case CALLS: return bp_comm_all_to_all(comm, stream, x, y);
    case CALLS + 1:
        if (bp_comm_group_begin(comm, stream)) return bp_comm_error(comm);
        if (bp_comm_send(comm, stream, x, (rank + 1) % size) ||
            bp_comm_recv(comm, stream, y, (rank + size - 1) % size))
            return BP_ERR_INTERNAL;
        return bp_comm_group_end(comm);
    }
}

/* Bit mask of ranks that UCX 1.13 terminated by an assertion when another rank died
 * (docs/decisions/0016-hosts.md); messages may name them too. In memory that all ranks share. */
static _Atomic uint32_t *lost;
static uint32_t own_rank;

/* Handles SIGABRT. The abort is a failure of the test unless a frame of UCX's libraries caused it;
 * a sanitizer's abort always is. */
static void on_abort(int number)
{
    static const char expected[] = "# an assertion in UCX ended a rank\n";
    void *frame[64];
    bool by_ucx = false;

    for (int n = backtrace(frame, 64); n--;) {
        Dl_info at;
        if (!dladdr(frame[n], &at) || !at.dli_fname) continue;
        if (strstr(at.dli_fname, "libuct") || strstr(at.dli_fname, "libucp")) by_ucx = true;
        if (strstr(at.dli_fname, "san.so")) by_ucx = false, n = 0;
    }
    signal(number, SIG_DFL);
    if (!by_ucx) return;
    atomic_fetch_or(lost, 1u << own_rank);
    if (write(STDOUT_FILENO, expected, sizeof expected - 1) < 0) return;
    _exit(0);
}

/* Whether the last message names the rank that was killed, or one that UCX terminated. */
static bool names_one_that_died(uint32_t victim)
{
    uint32_t died = atomic_load(lost) | 1u << victim;
    char word[16];

    for (uint32_t i = 0; died >> i; i++) {
        snprintf(word, sizeof word, "rank %u", i);
        if (died >> i & 1 && strstr(bp_error_message(), word)) return true;
    }
    return false;
}

static void work_until_killed(uint32_t rank, uint32_t size, void *ctx)
{
    static const int64_t counts[] = {12, 4080, 60000, 600000};
    const struct ids *ids = ctx;
    unsigned seed = ids->seed;
    struct bp_tensor *t[4][4];
    struct bp_comm *comm;
    enum bp_status status = BP_OK;
    double begin = seconds();

    setenv("BP_CCL_TIMEOUT", "3", 1);
    own_rank = rank;
    if (getenv("KIT_HOSTS") && backtrace(&(void *){NULL}, 1)) /* this loads a library */
        signal(SIGABRT, on_abort);
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &device));
    OK(bp_stream_create(device, &stream));
    status = bp_comm_create(device, &ids->first, rank, size, &comm);
    for (int i = 0; i < 16; i++)
        t[i / 4][i % 4] = make(BP_F32, counts[i / 4] * (i % 2 ? size : 1));
    while (status == BP_OK) {
        int i = rand_r(&seed) % 4;
        status = some_call(comm, t[i], (unsigned)rand_r(&seed));
    }
    CHECK(status == BP_ERR_PEER || status == BP_ERR_TIMEOUT, "seed %u: %s: %s", ids->seed,
          bp_status_name(status), bp_error_message());
    CHECK(names_one_that_died(ids->victim), "seed %u: '%s' does not name rank %u", ids->seed,
          bp_error_message(), ids->victim);
    CHECK(seconds() - begin < 8, "seed %u: %g s", ids->seed, seconds() - begin);
}

/* Kills a rank; in about half of the runs the ranks are still meeting then. */
static void kill_one(pid_t *pid, uint32_t size, void *ctx)
{
    struct ids *ids = ctx;
    unsigned seed = ids->seed + 1;

    (void)size;
    usleep((useconds_t)(rand_r(&seed) % 60000));
    kill(pid[ids->victim], SIGKILL);
}

static unsigned kill_seed, kills;

/* Runs the kills `first`, `first` + `step`, and so on. */
static void kill_some(unsigned first, unsigned step)
{
    lost = mmap(NULL, sizeof *lost, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(lost != MAP_FAILED, "no memory");
    for (unsigned i = first; i < kills; i += step) {
        struct ids ids = {.seed = kill_seed + i};
        unsigned seed = ids.seed;
        uint32_t size = 2 + (uint32_t)rand_r(&seed) % 3;
        ids.victim = (uint32_t)rand_r(&seed) % size;
        atomic_store(lost, 0);
        OK(bp_comm_id_create(&ids.first));
        kit_processes(size, work_until_killed, &ids, ids.victim, kill_one);
    }
}

/* The ranks wait most of the time, so that several of many kills can run in parallel. */
static void kills_at_random(void)
{
    unsigned step = kills > 200 ? 4 : 1;
    int status;

    printf("# seed %u, %u kills\n", kill_seed, kills);
    fflush(stdout);
    for (unsigned i = 0; i < step; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "no process");
        if (pid) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        kill_some(i, step);
        _exit(0);
    }
    for (unsigned i = 0; i < step; i++)
        CHECK(wait(&status) > 0 && WIFEXITED(status) && !WEXITSTATUS(status), "seed %u: %#x",
              kill_seed, (unsigned)status);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"ragged_counts_are_compared", ragged_counts_are_compared},
        {"absent_ranks_are_named", absent_ranks_are_named},
        {"waiting_ranks_sleep", waiting_ranks_sleep},
        {"the_end_of_a_chain_is_named", the_end_of_a_chain_is_named},
        {"pairs_are_compared", pairs_are_compared},
        {"the_dead_are_named_and_others_go_on", the_dead_are_named_and_others_go_on},
        {"finished_ranks_may_go", finished_ranks_may_go},
        {"an_abort_ends_all_waits", an_abort_ends_all_waits},
        {"dropped_calls_are_reported", dropped_calls_are_reported},
        {"a_cut_cable_is_noticed", a_cut_cable_is_noticed},
        {"hosts_without_ucx_are_reported", hosts_without_ucx_are_reported},
        {"missing_ranks_are_named", missing_ranks_are_named},
        {"wrong_sizes_and_numbers", wrong_sizes_and_numbers},
        {"a_token_that_is_wrong", a_token_that_is_wrong},
        {"a_store_that_is_gone", a_store_that_is_gone},
        {"kills_at_random", kills_at_random},
    };

    kill_seed = argc > 2 && *argv[2] ? (unsigned)atoi(argv[2]) : (unsigned)time(NULL);
    if (argc > 3) kills = (unsigned)atoi(argv[3]);
    else if (getenv("KIT_HOSTS")) kills = getenv("LARGE_TESTS") ? 60 : 7;
    else kills = getenv("LARGE_TESTS") ? 1000 : 50;
    return KIT_CASES(cases, argc > 1 && *argv[1] ? 2 : 1, argv);
}
