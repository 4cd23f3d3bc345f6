/* SPDX-License-Identifier: Apache-2.0 */
/* test_hccl.c: tests the collectives of the stand-in for CANN, with ranks that are threads of one
 * process, each with a device, and with ranks that are processes.
 *
 *   test_hccl FOLDER
 *
 * TAP. */
#include "base.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    RANKS = 3,
    N = 6,
    ROOT_INFO = 4108
};
static int number, failed;

#define FUNCTIONS(X) \
    X(aclInit, (const char *)) \
    X(aclrtSetDevice, (int32_t)) \
    X(aclrtResetDevice, (int32_t)) \
    X(aclrtMalloc, (void **, size_t, int)) \
    X(aclrtFree, (void *)) \
    X(aclrtMemcpy, (void *, size_t, const void *, size_t, int)) \
    X(aclrtCreateStream, (void **)) X(aclrtDestroyStream, (void *)) \
        X(aclrtSynchronizeStream, (void *)) X(HcclGetRootInfo, (void *)) \
            X(HcclCommInitRootInfo, \
              (uint32_t, const void *, uint32_t, void **)) X(HcclCommDestroy, (void *)) \
                X(HcclAllReduce, (void *, void *, uint64_t, int, int, void *, void *)) X( \
                    HcclReduce, (void *, void *, uint64_t, int, int, uint32_t, void *, void *)) \
                    X(HcclBroadcast, (void *, uint64_t, int, uint32_t, void *, void *)) X( \
                        HcclAllGather, (void *, void *, uint64_t, int, void *, void *)) \
                        X(HcclReduceScatter, (void *, void *, uint64_t, int, int, void *, void *)) \
                            X(HcclAlltoAll, \
                              (void *, uint64_t, int, void *, uint64_t, int, void *, void *)) \
                                X(HcclSend, (void *, uint64_t, int, uint32_t, void *, void *)) \
                                    X(HcclRecv, (void *, uint64_t, int, uint32_t, void *, void *)) \
                                        X(HcclBatchSendRecv, (void *, uint32_t, void *, void *)) \
                                            X(HcclGetCommAsyncError, (void *, int *)) \
                                                X(HcclGroupStart, (void)) X(HcclGroupEnd, (void))
#define X(name, parameters) static int(*name) parameters;
FUNCTIONS(X)
#undef X

static void test_hccl_report(bool good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failed += !good;
}

static bool functions_find(const char *folder)
{
    static const char *const names[] = {"libascendcl.so", "libhccl.so"};
    void *library[2], *found;
    char path[4096];
    bool all = true;

    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        library[i] = dlopen(path, RTLD_NOW);
        if (!library[i]) printf("# %s\n", dlerror());
        if (!library[i]) return false;
    }
#define X(name, parameters) \
    found = dlsym(library[0], #name); \
    if (!found) found = dlsym(library[1], #name); \
    *(void **)(void *)&name = found; \
    all = all && found;
    FUNCTIONS(X)
#undef X
    return all;
}

/* A rank, with its stream and memory. */
struct rank {
    const unsigned char *info;
    int rank;
    bool good;
    void *comm, *stream, *memory;
    int32_t host[2 * N * RANKS];
};

/* Puts 10 rank + i at the first places, for i to n - 1, and zeros behind. */
static bool rank_fill(struct rank *r, int n)
{
    memset(r->host, 0, sizeof r->host);
    for (int i = 0; i < n; i++) r->host[i] = 10 * (r->rank + 1) + i;
    return !aclrtMemcpy(r->memory, sizeof r->host, r->host, sizeof r->host, 1);
}

static bool rank_read(struct rank *r)
{
    return !aclrtSynchronizeStream(r->stream) &&
           !aclrtMemcpy(r->host, sizeof r->host, r->memory, sizeof r->host, 2);
}

/* The other half of the memory. */
static void *rank_half(const struct rank *r)
{
    return (char *)r->memory + sizeof r->host / 2;
}

static bool rank_reduces(struct rank *r)
{
    void *m = r->memory, *half = rank_half(r);
    int32_t *out = r->host + N * RANKS;
    bool good = rank_fill(r, N);

    good = good && !HcclAllReduce(m, half, N, 2, 0, r->comm, r->stream) && rank_read(r);
    good = good && out[0] == 60 && out[5] == 75;
    good = good && rank_fill(r, N) && !HcclAllReduce(m, m, N, 2, 2, r->comm, r->stream);
    good = good && rank_read(r) && r->host[0] == 30 && r->host[5] == 35;
    good = good && rank_fill(r, N) && !HcclReduce(m, half, 2, 2, 1, 1, r->comm, r->stream);
    good = good && rank_read(r) && out[0] == (r->rank == 1 ? 6000 : 0);
    good = good && rank_fill(r, N) && !HcclReduceScatter(m, half, 2, 2, 3, r->comm, r->stream);
    good = good && rank_read(r) && out[0] == 10 + 2 * r->rank && out[1] == 11 + 2 * r->rank;
    return good;
}

static bool rank_moves(struct rank *r)
{
    void *m = r->memory, *half = rank_half(r);
    int32_t *out = r->host + N * RANKS;
    bool good = rank_fill(r, N);

    good = good && !HcclBroadcast(m, N, 2, 2, r->comm, r->stream) && rank_read(r);
    good = good && r->host[0] == 30 && r->host[5] == 35;
    good = good && rank_fill(r, N) && !HcclAllGather(m, half, 2, 2, r->comm, r->stream);
    good = good && rank_read(r) && out[0] == 10 && out[1] == 11 && out[2] == 20 && out[5] == 31;
    good = good && rank_fill(r, N) && !HcclAlltoAll(m, 2, 2, half, 2, 2, r->comm, r->stream);
    good = good && rank_read(r);
    for (int i = 0; i < RANKS; i++) good = good && out[2 * i] == 10 * (i + 1) + 2 * r->rank;
    return good;
}

/* Each rank sends to the next and receives from the one before: as one batch, and as a group. */
static bool rank_sends(struct rank *r)
{
    struct {
        int type;
        void *buffer;
        uint64_t count;
        int dtype;
        uint32_t remote;
    } items[] = {{0, r->memory, 2, 2, (uint32_t)(r->rank + 1) % RANKS},
                 {1, rank_half(r), 2, 2, (uint32_t)(r->rank + RANKS - 1) % RANKS}};
    int32_t *out = r->host + N * RANKS;
    int before = 10 * ((r->rank + RANKS - 1) % RANKS + 1);
    bool good = rank_fill(r, N) && !HcclBatchSendRecv(items, 2, r->comm, r->stream);

    good = good && rank_read(r) && out[0] == before && out[1] == before + 1;
    good = good && rank_fill(r, N) && !HcclGroupStart();
    good = good && !HcclRecv(items[1].buffer, 3, 2, items[1].remote, r->comm, r->stream);
    good = good && !HcclSend(r->memory, 3, 2, items[0].remote, r->comm, r->stream);
    good = good && !HcclGroupEnd() && rank_read(r) && out[2] == before + 2;
    return good;
}

/* Calls that are refused, without the other ranks. */
static bool rank_is_refused(struct rank *r)
{
    void *m = r->memory;

    return HcclAllReduce(m, m, N, 10, 0, r->comm, r->stream) == 5 && /* f64 */
           HcclAllReduce(m, m, N, 2, 4, r->comm, r->stream) == 1 &&  /* average */
           HcclAllReduce(NULL, m, N, 2, 0, r->comm, r->stream) == 2 &&
           HcclAllReduce(m, m, N, 2, 0, r->comm, NULL) == 2 &&
           HcclAllReduce(r->host, m, N, 2, 0, r->comm, r->stream) == 1 &&
           HcclAllReduce(m, (char *)m + 4, N, 2, 0, r->comm, r->stream) == 1 &&
           HcclBroadcast(m, N, 2, RANKS, r->comm, r->stream) == 1 &&
           HcclSend(m, 1, 2, (uint32_t)r->rank, r->comm, r->stream) == 1 &&
           HcclAllReduce(m, m, 1000, 2, 0, r->comm, r->stream) == 1;
}

static void *rank_run(void *p)
{
    struct rank *r = p;

    r->good = !aclrtSetDevice(r->rank) && !aclrtCreateStream(&r->stream);
    r->good = r->good && !aclrtMalloc(&r->memory, sizeof r->host, 0);
    r->good = r->good && !HcclCommInitRootInfo(RANKS, r->info, (uint32_t)r->rank, &r->comm);
    r->good = r->good && rank_reduces(r) && rank_moves(r) && rank_sends(r) && rank_is_refused(r);
    r->good = r->good && !HcclCommDestroy(r->comm) && HcclCommDestroy(r->comm) == 1;
    r->good = r->good && !aclrtFree(r->memory) && !aclrtDestroyStream(r->stream);
    r->good = !aclrtResetDevice(r->rank) && r->good;
    return NULL;
}

static void test_threads(void)
{
    unsigned char info[ROOT_INFO];
    struct rank rank[RANKS];
    pthread_t thread[RANKS];
    bool good = !aclrtSetDevice(0) && !HcclGetRootInfo(info) && !aclrtResetDevice(0);

    for (int i = 0; i < RANKS; i++) {
        rank[i] = (struct rank){.info = info, .rank = i};
        pthread_create(&thread[i], NULL, rank_run, &rank[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(thread[i], NULL);
        if (!rank[i].good) printf("# rank %d\n", i);
        good = good && rank[i].good;
    }
    test_hccl_report(good && !base_live(), "ranks that are threads");
}

/* Ranks that are processes: the first makes the root info, in memory that all share. */
static void test_processes(void)
{
    unsigned char *shared = mmap(NULL, ROOT_INFO + 1, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool good = shared != MAP_FAILED;
    pid_t child[RANKS];
    int status;

    fflush(stdout);
    for (int i = 0; i < RANKS && good; i++) {
        child[i] = fork();
        if (child[i]) continue;
        struct rank r = {.info = shared, .rank = i};
        aclInit(NULL);
        if (i == 0) {
            aclrtSetDevice(0);
            HcclGetRootInfo(shared);
            __atomic_store_n(&shared[ROOT_INFO], 1, __ATOMIC_RELEASE);
        }
        while (!__atomic_load_n(&shared[ROOT_INFO], __ATOMIC_ACQUIRE)) usleep(1000);
        rank_run(&r);
        _exit(!r.good);
    }
    for (int i = 0; i < RANKS && good; i++)
        good = waitpid(child[i], &status, 0) == child[i] && WIFEXITED(status) &&
               !WEXITSTATUS(status);
    test_hccl_report(good, "ranks that are processes");
}

/* A rank that makes another call than the rest. */
static void *rank_differs(void *p)
{
    struct rank *r = p;
    int error = 0;

    r->good = !aclrtSetDevice(r->rank) && !aclrtCreateStream(&r->stream);
    r->good = r->good && !aclrtMalloc(&r->memory, sizeof r->host, 0);
    r->good = r->good && !HcclCommInitRootInfo(2, r->info, (uint32_t)r->rank, &r->comm);
    r->good = r->good &&
              !HcclAllReduce(r->memory, r->memory, 1 + (uint64_t)r->rank, 2, 0, r->comm, r->stream);
    while (r->good && !error) r->good = !HcclGetCommAsyncError(r->comm, &error);
    r->good = r->good && error == 4 && !HcclCommDestroy(r->comm);
    r->good = r->good && !aclrtSynchronizeStream(r->stream) && !aclrtFree(r->memory);
    r->good = !aclrtResetDevice(r->rank) && r->good;
    return NULL;
}

static void test_mismatch(void)
{
    unsigned char info[ROOT_INFO];
    struct rank rank[2];
    pthread_t thread[2];
    void *comm;
    bool good = !aclrtSetDevice(0) && !HcclGetRootInfo(info);

    setenv("HCCL_CONNECT_TIMEOUT", "0", 1);
    good = good && HcclCommInitRootInfo(2, info, 2, &comm) == 1;
    good = good && HcclCommInitRootInfo(2, info, 0, &comm) == 9; /* no other rank joins */
    unsetenv("HCCL_CONNECT_TIMEOUT");
    good = good && !HcclGetRootInfo(info) && !aclrtResetDevice(0);
    info[ROOT_INFO - 1000] ^= 1;
    good = good && !aclrtSetDevice(0) && HcclCommInitRootInfo(1, info, 0, &comm) == 1;
    info[ROOT_INFO - 1000] ^= 1;
    for (int i = 0; i < 2; i++) {
        rank[i] = (struct rank){.info = info, .rank = i};
        pthread_create(&thread[i], NULL, rank_differs, &rank[i]);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(thread[i], NULL);
        good = good && rank[i].good;
    }
    test_hccl_report(!aclrtResetDevice(0) && good, "ranks that differ, ranks that do not come");
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    setenv("BP_STANDIN_DEVICES", "3", 1);
    setenv("BP_STANDIN_LOG", "/dev/null", 1);
    test_hccl_report(functions_find(argv[1]), "the functions are there");
    if (failed) return 1;
    test_processes(); /* before this process has threads */
    test_hccl_report(!aclInit(NULL), "begin");
    test_threads();
    test_mismatch();
    base_live_print();
    printf("1..%d\n", number);
    return failed != 0;
}
