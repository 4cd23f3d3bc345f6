/* SPDX-License-Identifier: Apache-2.0 */
/* test_devices.c: tests communicators of devices whose memory the host cannot access, and of
 * several kinds of devices: their data is staged through host memory.
 *
 *     test_devices DEVICE... : a name ("cpu:0"), or the path of a plugin
 *
 * Rank i has device i modulo their number. Ranks are threads, or, on several hosts, processes. */
#include "rank.h"
#include "repeated.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* PoCL's threads set their own alternate signal stacks. AddressSanitizer takes these for the stacks
 * that it set itself, and fails when it cannot free them. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "use_sigaltstack=0";
}
#endif

static char **names;
static uint32_t n_name;

/* Values repeat with a period, and so do their sums. */
enum { PERIOD = 7, BLOCK = 200 * PERIOD };

static float value_of(uint32_t rank, int64_t i)
{
    return (float)((rank * 5 + (uint64_t)i) % PERIOD);
}

static struct bp_tensor *create_filled(struct rank *r, int64_t n, uint32_t rank)
{
    float *data = malloc((size_t)n * sizeof *data);

    for (int64_t i = 0; i < n && i < BLOCK; i++) data[i] = value_of(rank, i);
    if (n > BLOCK)
        repeated_write(data + BLOCK, (size_t)(n - BLOCK) * sizeof *data, data,
                       BLOCK * sizeof *data);
    return rank_write(r, n, data);
}

/* Element i of one rank, or (UINT32_MAX) the sum over all ranks. */
static float expected_value(struct rank *r, uint32_t of, int64_t i)
{
    float sum = 0;

    if (of != UINT32_MAX) return value_of(of, i);
    for (uint32_t j = 0; j < r->size; j++) sum += value_of(j, i);
    return sum;
}

/* Checks that the elements of t are those of a rank, from its element `at` on. */
static void expect_from(struct rank *r, const char *what, struct bp_tensor *t, int64_t n,
                        uint32_t of, int64_t at)
{
    float *data = rank_read(r, t, n), block[BLOCK];
    size_t same;

    for (int64_t i = 0; i < n && i < BLOCK; i++) block[i] = expected_value(r, of, at + i);
    same = repeated_compare(data, (size_t)n * sizeof *data, block, sizeof block);
    for (int64_t i = (int64_t)(same / sizeof *data); i < n; i++) {
        float want = expected_value(r, of, at + i);
        CHECK(data[i] == want, "%s on %s, element %lld: %g, expected %g", what,
              bp_device_name(r->device), (long long)i, (double)data[i], (double)want);
    }
    free(data);
}

static void expect_elements(struct rank *r, const char *what, struct bp_tensor *t, int64_t n,
                            uint32_t of)
{
    expect_from(r, what, t, n, of, 0);
}

/* Checks that part j of t has the elements of rank j, from its element `at` on. */
static void expect_parts(struct rank *r, const char *what, struct bp_tensor *t, int64_t n,
                         int64_t at)
{
    for (uint32_t j = 0; j < r->size; j++) {
        struct bp_tensor *part = rank_view(t, j * n, n);
        expect_from(r, what, part, n, j, at);
        bp_tensor_destroy(part);
    }
}

static void some_calls(struct rank *r, int64_t n)
{
    uint32_t next = (r->rank + 1) % r->size, before = (r->rank + r->size - 1) % r->size;
    struct bp_tensor *x = create_filled(r, n, r->rank), *y = create_filled(r, n, 6),
                     *all = create_filled(r, n * r->size, 6);

    OK(bp_comm_all_reduce(r->comm, r->stream, x, y, BP_REDUCE_SUM));
    expect_elements(r, "all_reduce", y, n, UINT32_MAX);
    OK(bp_comm_broadcast(r->comm, r->stream, r->rank == 1 ? x : NULL, y, 1));
    expect_elements(r, "broadcast", y, n, 1);
    OK(bp_comm_all_gather(r->comm, r->stream, x, all));
    expect_parts(r, "all_gather", all, n, 0);
    OK(bp_comm_group_begin(r->comm, r->stream));
    OK(bp_comm_send(r->comm, r->stream, x, next));
    OK(bp_comm_recv(r->comm, r->stream, y, before));
    OK(bp_comm_group_end(r->comm));
    expect_elements(r, "recv", y, n, before);
    OK(bp_comm_all_reduce(r->comm, r->stream, x, x, BP_REDUCE_SUM));
    expect_elements(r, "all_reduce in place", x, n, UINT32_MAX);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(all);
}

/* Makes calls whose tensors have a part for each rank, in place where that is possible. */
static void parted_calls(struct rank *r, int64_t n)
{
    int64_t of_all = n * r->size, mine = r->rank * n, last = r->size - 1;
    struct bp_tensor *x = create_filled(r, of_all, r->rank), *all = create_filled(r, of_all, 6),
                     *y = create_filled(r, n, 6);
    struct bp_tensor *part;

    OK(bp_comm_reduce_scatter(r->comm, r->stream, x, y, BP_REDUCE_SUM));
    expect_from(r, "reduce_scatter", y, n, UINT32_MAX, mine);
    OK(bp_comm_all_to_all(r->comm, r->stream, x, all));
    expect_parts(r, "all_to_all", all, n, mine);
    OK(bp_comm_scatter(r->comm, r->stream, r->rank == last ? x : NULL, y, (uint32_t)last));
    expect_from(r, "scatter", y, n, (uint32_t)last, mine);
    part = rank_view(x, mine, n);
    OK(bp_comm_gather(r->comm, r->stream, part, r->rank ? NULL : all, 0));
    for (uint32_t j = 0; !r->rank && j < r->size; j++) {
        struct bp_tensor *of = rank_view(all, j * n, n);
        expect_from(r, "gather", of, n, j, j * n);
        bp_tensor_destroy(of);
    }
    OK(bp_comm_reduce_scatter(r->comm, r->stream, x, part, BP_REDUCE_SUM));
    OK(bp_comm_all_gather(r->comm, r->stream, part, x));
    expect_elements(r, "reduce_scatter and all_gather in place", x, of_all, UINT32_MAX);
    bp_tensor_destroy(part);
    bp_tensor_destroy(x);
    bp_tensor_destroy(all);
    bp_tensor_destroy(y);
}

/* Rank i sends (i + 2 j) n elements to rank j. */
static void ragged_call(struct rank *r, int64_t n)
{
    int64_t to[64], from[64], sent = 0, taken = 0;
    struct bp_tensor *x, *y;

    for (uint32_t j = 0; j < r->size; j++) {
        sent += to[j] = (r->rank + 2 * j) * n;
        taken += from[j] = (j + 2 * r->rank) * n;
    }
    x = create_filled(r, sent, r->rank);
    y = create_filled(r, taken, 6);
    OK(bp_comm_all_to_all_ragged(r->comm, r->stream, x, to, y, from));
    taken = 0;
    for (uint32_t j = 0; j < r->size; j++) {
        struct bp_tensor *part = rank_view(y, taken, from[j]);
        int64_t at = 0;
        for (uint32_t i = 0; i < r->rank; i++) at += (j + 2 * i) * n;
        expect_from(r, "all_to_all_ragged", part, from[j], j, at);
        taken += from[j];
        bp_tensor_destroy(part);
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

/* A call uses a bounded amount of pinned memory, however large it is. */
static void expect_bounded(struct rank *r)
{
    struct bp_pool_stats stats = {.size = sizeof stats};

    for (uint32_t i = 0; i < bp_device_pools(r->device); i++) {
        OK(bp_device_pool(r->device, i, &stats));
        CHECK(stats.space != BP_SPACE_PINNED || stats.peak <= 4 << 20,
              "%llu bytes of pinned memory", (unsigned long long)stats.peak);
    }
}

/* The tests set BP_CCL_NATIVE only to 0. */
static bool is_native(void)
{
    return n_name == 1 && !strcmp(*names, "sim:0") && !getenv("BP_CCL_NATIVE");
}

static void call_all(uint32_t rank, uint32_t size, void *id)
{
#ifdef __SANITIZE_THREAD__ /* slow to compare; still several chunks */
    static const int64_t counts[] = {0, 1, 1000, 70001, 300007};
#else
    static const int64_t counts[] = {0, 1, 1000, 70001, 1000003};
#endif
    struct rank r = rank_join(names[rank % n_name], rank, size, id);
    const char *way = bp_comm_algorithm(r.comm, BP_COMM_ALL_REDUCE, 4);

    CHECK(!strcmp(way, "native") == is_native(), "%s", way);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        some_calls(&r, counts[i]);
        parted_calls(&r, counts[i]);
        ragged_call(&r, counts[i]);
    }
    expect_bounded(&r);
    OK(bp_comm_barrier(r.comm, r.stream));
    rank_close(&r);
}

static void run_ranks(uint32_t size, void (*fn)(uint32_t, uint32_t, void *))
{
    struct bp_comm_id id;

    OK(bp_comm_id_create(&id));
    if (getenv("KIT_HOSTS")) kit_processes(size, fn, &id, UINT32_MAX, NULL);
    else kit_threads(size, fn, &id);
}

static void calls_by_the_host(void)
{
    run_ranks(2, call_all);
    run_ranks(3, call_all);
    if (getenv("KIT_HOSTS")) run_ranks(4, call_all);
}

/* How many ranks have ended their first call, in memory that all of them share. A rank still in its
 * first call when rank 1 fails would report the failure there. */
static _Atomic uint32_t *ranks_past_first;

/* Rank 1's device fails while its tensor is copied to the host: all ranks must report that, and no
 * rank's result may be written. */
static void fail_to_read(uint32_t rank, uint32_t size, void *id)
{
    struct bp_tensor *x, *y;
    struct rank r;

    if (rank == 1) setenv("BP_SIM_FAIL", "copy_out:2:1", 1);
    r = rank_join(names[0], rank, size, id);
    OK(bp_comm_set_timeout(r.comm, 20ull * SECOND));
    x = create_filled(&r, 1000, rank);
    y = create_filled(&r, 1000, 6);
    OK(bp_comm_all_reduce(r.comm, r.stream, x, x, BP_REDUCE_SUM));
    atomic_fetch_add(ranks_past_first, 1);
    if (rank == 1) {
        while (atomic_load(ranks_past_first) < size) usleep(1000);
        FAILS(BP_ERR_DEVICE, "copy_out answers 1",
              bp_comm_all_reduce(r.comm, r.stream, x, y, BP_REDUCE_SUM));
    } else {
        FAILS(BP_ERR_PEER, "rank 1 has no data of sim:0 for all_reduce",
              bp_comm_all_reduce(r.comm, r.stream, x, y, BP_REDUCE_SUM));
        expect_elements(&r, "what was there", y, 1000, 6);
    }
    FAILS(BP_ERR_PEER, "rank 1 has no data of sim:0 for all_reduce", bp_comm_error(r.comm));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    rank_close(&r);
}

static void failing_copies_are_reported(void)
{
    ranks_past_first = mmap(NULL, sizeof *ranks_past_first, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ranks_past_first != MAP_FAILED, "no memory that ranks share");
    run_ranks(3, fail_to_read);
    munmap(ranks_past_first, sizeof *ranks_past_first);
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"calls_by_the_host", calls_by_the_host},
        /* needs the simulator in processes */
        {"failing_copies_are_reported", failing_copies_are_reported},
    };

    CHECK(argc > 1, "which devices?");
    names = argv + 1;
    n_name = (uint32_t)(argc - 1);
    return kit_run(cases, getenv("KIT_HOSTS") && !strcmp(*names, "sim:0") && !is_native() ? 2 : 1,
                   NULL);
}
