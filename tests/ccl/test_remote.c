/* SPDX-License-Identifier: Apache-2.0 */
/* test_remote.c: tests cases that exist only between hosts. A root that does not wait has no unsent
 * data when its call has ended, and gives up at the deadline. A rank that dies between the header
 * and the data of a call is named. Each rank is a process. */
#include "failing.h"

#include <dirent.h>
#include <libgen.h>
#include <stdatomic.h>
#include <sys/mman.h>

/* Data that a root has sent must arrive although the root makes no further call, for any number and
 * size of calls, on a new connection with small packets. */
struct progress {
    struct ids ids;
    _Atomic int come; /* number of communicators that have ended */
};

static void check_progress(uint32_t rank, uint32_t size, void *ctx)
{
    static const int64_t bytes[] = {1000, 10000, 32 << 10};
    struct progress *shared = ctx;
    struct bp_comm *comm, *each;
    double begin;

    CHECK(!system("ip link set up0 gso_max_size 1500 gso_max_segs 1"), "ip");
    comm = join(&shared->ids.first, rank, size);
    for (int i = 0; i < 12; i++) {
        struct bp_tensor *x = make(BP_U8, bytes[i % 3]);
        int calls = i % 3 ? 2 + i : 10 + 10 * i;
        OK(bp_comm_split(comm, 0, 0, &each));
        OK(bp_comm_barrier(comm, stream));
        if (rank) usleep(20000);
        for (int k = 0; k < calls; k++) {
            fill(x, rank ? 0 : k + 1);
            OK(bp_comm_broadcast(each, stream, x, x, 0));
            CHECK(is_filled(x, k + 1), "broadcast %d", k);
        }
        if (rank) atomic_store(&shared->come, i + 1);
        begin = seconds();
        while (atomic_load(&shared->come) <= i && seconds() - begin < 5) usleep(1000);
        CHECK(atomic_load(&shared->come) > i, "all %d calls of %lld bytes have ended at the root, "
              "and not all has come", calls, (long long)bytes[i % 3]);
        OK(bp_comm_barrier(comm, stream));
        bp_comm_destroy(each);
        bp_tensor_destroy(x);
    }
    close_all(comm);
}

/* No rank receives the data that a root sends: at the deadline the root names the missing rank. */
static void send_in_vain(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    struct bp_comm *comm = join(&ids->first, rank, size);
    struct bp_tensor *x = make(BP_U8, 32 << 10);
    enum bp_status status = BP_OK;

    OK(bp_comm_set_timeout(comm, SECOND / 2));
    if (rank) usleep(2000000);
    for (int i = 0; i < 100 && !status; i++) status = bp_comm_broadcast(comm, stream, x, x, 0);
    expect_failure(comm, status, BP_ERR_TIMEOUT, "rank 1 (process", "did not come");
    bp_tensor_destroy(x);
    close_all(comm);
}

static void a_root_gives_up(void)
{
    run(2, send_in_vain, UINT32_MAX);
}

static void a_root_owes_nothing(void)
{
    struct progress *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    CHECK(shared != MAP_FAILED, "no memory");
    OK(bp_comm_id_create(&shared->ids.first));
    kit_processes(2, check_progress, shared, UINT32_MAX, NULL);
    munmap(shared, sizeof *shared);
}


static int count_files(void)
{
    DIR *files = opendir("/proc/self/fd");
    int n = 0;

    CHECK(files, "/proc/self/fd");
    while (readdir(files)) n++;
    closedir(files);
    return n;
}

/* The folder of this program. A rank in a chroot cannot query it, because the rank has its own
 * mounts, and the kernel then reports the program's path from the root of the mounts before. */
static char own[400];

/* Selects the network module that kills the process: dying_net.c. */
static void die_sending(const char *bytes, bool part)
{
    char path[2000];

    snprintf(path, sizeof path, "%s%s%s", own, getenv("BP_PLUGIN_PATH") ? ":" : "",
             getenv("BP_PLUGIN_PATH") ? getenv("BP_PLUGIN_PATH") : "");
    setenv("BP_PLUGIN_PATH", path, 1);
    setenv("KIT_BYTES", bytes, 1);
    if (part) setenv("KIT_PART", "", 1);
}

/* The call in which rank 1 dies in this round. */
static enum bp_status call_of_round(int round, struct bp_comm *comm, uint32_t rank,
                                    struct bp_tensor *x, struct bp_tensor *all)
{
    switch (round % 5) {
    case 0: return bp_comm_broadcast(comm, stream, x, x, 1);
    case 1: return bp_comm_all_gather(comm, stream, x, all);
    case 2: return bp_comm_all_reduce(comm, stream, x, x, BP_REDUCE_SUM);
    case 3: return bp_comm_gather(comm, stream, x, all, 0);
    default: return rank ? bp_comm_send(comm, stream, x, 0) : bp_comm_recv(comm, stream, x, 1);
    }
}

enum { ROUNDS = 10 };

static void die_between(uint32_t rank, uint32_t size, void *ctx)
{
    const struct ids *ids = ctx;
    int round = (int)ids->seed, files;
    struct bp_tensor *x, *all;
    struct bp_comm *comm;
    double begin;

    if (rank) die_sending("100000", round >= ROUNDS / 2);
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &device));
    OK(bp_stream_create(device, &stream));
    x = make(BP_F32, 500000);
    all = make(BP_F32, 1000000);
    bp_comm_destroy(join(&ids->second, rank, size)); /* libraries keep some files open */
    files = count_files();
    comm = join(&ids->first, rank, size);
    OK(bp_comm_barrier(comm, stream));
    begin = seconds();
    expect_failure(comm, call_of_round(round, comm, rank, x, all), BP_ERR_PEER, "rank 1 (process",
                   "has died, or cannot be reached");
    CHECK(seconds() - begin < 5, "%g s", seconds() - begin);
    bp_comm_destroy(comm);
    CHECK(rank || count_files() <= files, "%d files are open, %d were before", count_files(),
          files);
    bp_tensor_destroy(x);
    bp_tensor_destroy(all);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
}

static void death_after_the_header_is_named(void)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct ids ids = {.seed = i};
        OK(bp_comm_id_create(&ids.first));
        OK(bp_comm_id_create(&ids.second));
        kit_processes_for(20, 2, die_between, &ids, 1, NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct kit_case cases[] = {
        {"a_root_owes_nothing", a_root_owes_nothing},
        {"a_root_gives_up", a_root_gives_up},
        {"death_after_the_header_is_named", death_after_the_header_is_named},
    };

    CHECK(readlink("/proc/self/exe", own, sizeof own - 1) > 0, "/proc/self/exe");
    dirname(own);
    return KIT_CASES(cases, argc, argv);
}
