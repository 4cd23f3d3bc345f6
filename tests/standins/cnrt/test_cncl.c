/* SPDX-License-Identifier: Apache-2.0 */
/* test_cncl.c: tests the stand-in for Cambricon's library of collectives: with three ranks in one
 * process, with two processes, and the calls that it refuses. TAP. */
#include "cncl.h"
#include "kit.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    N = 3,
    LARGE = 50000
};

/* The ranks of this process: a device, a queue, and buffers of each. The last device has no
 * rank. */
static struct {
    void *comm, *queue;
    float *a, *b;
} at[N + 1];
static struct cncl_clique_id used;

static void ranks_start(void)
{
    int devices[N] = {0, 1, 2}, ranks[N] = {0, 1, 2};
    void *comms[N] = {NULL};

    kit_report(!cnclGetCliqueId(&used), "an id");
    kit_report(!cnclInitComms(comms, N, devices, ranks, N, &used), "three ranks in one process");
    for (int i = 0; i <= N; i++) {
        cnrtSetDevice(i);
        at[i].comm = i < N ? comms[i] : NULL;
        at[i].queue = kit_queue();
        at[i].a = kit_device_memory(NULL, LARGE * sizeof(float));
        at[i].b = kit_device_memory(NULL, LARGE * sizeof(float));
    }
}

/* Fills a of each rank with rank + 1, 2 (rank + 1), ...; b with zeros, after all earlier work. */
static void ranks_fill(void)
{
    static float x[LARGE];

    for (int i = 0; i < N; i++) {
        cnrtSetDevice(i);
        cnrtQueueSync(at[i].queue);
        for (int k = 0; k < LARGE; k++) x[k] = (float)((i + 1) * (k + 1));
        cnrtMemcpy(at[i].a, x, sizeof x, CNRT_HOST_TO_DEVICE);
        cnrtMemset(at[i].b, 0, sizeof x);
    }
}

/* Element k of b of a rank. */
static float ranks_at(int rank, int k)
{
    static float x[LARGE];

    cnrtSetDevice(rank);
    kit_read(at[rank].queue, x, at[rank].b, sizeof x);
    return x[k];
}

/* The call of one rank. */
static int ranks_call_one(int i, enum cncl_call call, size_t n, int reduction, int root)
{
    void *a = at[i].a, *b = at[i].b, *c = at[i].comm, *q = at[i].queue;

    switch (call) {
    case CNCL_ALL_REDUCE: return cnclAllReduce(a, b, n, CNCL_FLOAT, reduction, c, q);
    case CNCL_REDUCE: return cnclReduce(a, b, n, CNCL_FLOAT, reduction, root, c, q);
    case CNCL_BROADCAST: return cnclBroadcast(a, b, n, CNCL_FLOAT, root, c, q);
    case CNCL_ALL_GATHER: return cnclAllGather(a, b, n, CNCL_FLOAT, c, q);
    case CNCL_REDUCE_SCATTER: return cnclReduceScatter(a, b, n, CNCL_FLOAT, reduction, c, q);
    case CNCL_ALL_TO_ALL: return cnclAlltoAll(a, b, n, CNCL_FLOAT, c, q);
    default: return cnclBcast(a, n, CNCL_FLOAT, root, c, q); /* in place */
    }
}

/* Makes one call on all ranks, with new data. */
static bool ranks_call(enum cncl_call call, size_t n, int reduction, int root)
{
    bool good = true;

    ranks_fill();
    for (int i = 0; i < N; i++)
        good = !cnrtSetDevice(i) && !ranks_call_one(i, call, n, reduction, root) && good;
    return good;
}

static void test_collectives(void)
{
    float x[2] = {0};
    bool good = ranks_call(CNCL_ALL_REDUCE, LARGE, CNCL_SUM, 0);

    kit_report(good && ranks_at(0, 0) == 6 && ranks_at(2, LARGE - 1) == 6 * LARGE, "all-reduce");
    good = ranks_call(CNCL_ALL_REDUCE, 10, CNCL_MAX, 0);
    kit_report(good && ranks_at(1, 9) == 30 && ranks_at(1, 10) == 0, "all-reduce of maxima");
    good = ranks_call(CNCL_REDUCE, 10, CNCL_PROD, 1);
    kit_report(good && ranks_at(1, 1) == 48 && ranks_at(0, 1) == 0, "reduce");
    good = ranks_call(CNCL_BROADCAST, 10, 0, 2);
    kit_report(good && ranks_at(0, 9) == 30 && ranks_at(2, 9) == 30, "broadcast");
    good = ranks_call(CNCL_SEND, 2, 0, 1);
    cnrtSetDevice(0);
    kit_read(at[0].queue, x, at[0].a, sizeof x);
    kit_report(good && x[0] == 2 && x[1] == 4, "broadcast in place");
    good = ranks_call(CNCL_ALL_GATHER, 2, 0, 0);
    kit_report(good && ranks_at(0, 5) == 6 && ranks_at(1, 2) == 2, "all-gather");
    good = ranks_call(CNCL_REDUCE_SCATTER, 2, CNCL_MIN, 0);
    kit_report(good && ranks_at(0, 1) == 2 && ranks_at(2, 0) == 5, "reduce-scatter");
    good = ranks_call(CNCL_ALL_TO_ALL, 2, 0, 0);
    kit_report(good && ranks_at(1, 0) == 3 && ranks_at(1, 5) == 12, "all-to-all");
}

/* Each rank sends to the next one and receives from the one before, in a group. */
static void test_group(void)
{
    bool good = true;

    ranks_fill();
    for (int i = 0; i < N; i++) {
        good = !cnrtSetDevice(i) && !cnclGroupStart() && good;
        good = !cnclSend(at[i].a, LARGE, CNCL_FLOAT, (i + 1) % N, at[i].comm, at[i].queue) && good;
        good = !cnclRecv(at[i].b, LARGE, CNCL_FLOAT, (i + 2) % N, at[i].comm, at[i].queue) && good;
        good = !cnclGroupEnd() && good;
    }
    kit_report(good && ranks_at(0, 0) == 3 && ranks_at(1, LARGE - 1) == LARGE, "a group");
    kit_report(kit_misused(cnclGroupEnd(), CNCL_ARGUMENTS), "the end of no group is refused");
}

static void test_replay(void)
{
    void *topo[N] = {NULL}, *entity[N] = {NULL};
    bool good = true;

    ranks_fill();
    for (int i = 0; i < N; i++) {
        good = !cnrtSetDevice(i) && !cnrtQueueBeginCapture(at[i].queue, CNRT_CAPTURE_RELAXED) &&
               !cnclAllReduce(at[i].a, at[i].a, 4, CNCL_FLOAT, CNCL_SUM, at[i].comm, at[i].queue) &&
               !cnrtMemcpyAsync(at[i].b, at[i].a, 16, at[i].queue, CNRT_DEVICE_TO_DEVICE) &&
               !cnrtQueueEndCapture(at[i].queue, &topo[i]) &&
               !cnrtTaskTopoInstantiate(&entity[i], topo[i], NULL, NULL, 0) && good;
    }
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < N; i++)
            good = !cnrtSetDevice(i) && !cnrtTaskTopoEntityInvoke(entity[i], at[i].queue) && good;
    kit_report(good && ranks_at(0, 0) == 18 && ranks_at(2, 3) == 72, "a capture, replayed twice");
    for (int i = 0; i < N; i++) {
        cnrtSetDevice(i);
        cnrtTaskTopoEntityDestroy(entity[i]);
        cnrtTaskTopoDestroy(topo[i]);
    }
}

static void test_refusals(void)
{
    float *a = at[0].a, *b = at[0].b;
    void *c = at[0].comm, *q = at[0].queue;

    cnrtSetDevice(0);
    kit_report(cnclAllReduce(a, b, 4, 0x13, 0, c, q) == CNCL_ARGUMENTS, "there is no f64");
    kit_report(cnclAllReduce(a, b, 4, CNCL_FLOAT, 4, c, q) == CNCL_ARGUMENTS, "no such reduction");
    kit_report(cnclBroadcast(a, b, 4, CNCL_FLOAT, 3, c, q) == CNCL_ARGUMENTS, "no such root");
    kit_report(cnclAlltoAll(a, a, 4, CNCL_FLOAT, c, q) == CNCL_ARGUMENTS, "not in place");
    kit_report(cnclSend(a, 4, CNCL_FLOAT, 0, c, q) == CNCL_UNSUPPORTED, "a send to itself");
    kit_report(cnclAllReduce(NULL, b, 4, CNCL_FLOAT, 0, c, q) == CNCL_NULL, "NULL");
    kit_report(kit_misused(cnclAllReduce(&used, b, 4, CNCL_FLOAT, 0, c, q), CNCL_ARGUMENTS),
               "memory of the host");
    kit_report(kit_misused(cnclAllGather(a, b, LARGE / 2, CNCL_FLOAT, c, q), CNCL_ARGUMENTS),
               "a result that is too small");
    kit_report(kit_misused(cnclAllReduce(a, b, 4, CNCL_FLOAT, 0, q, c), CNCL_ARGUMENTS),
               "queue and communicator swapped");
    kit_report(kit_misused(cnclAllReduce(a, b, 4, CNCL_FLOAT, 0, at[1].comm, q), CNCL_RUNTIME),
               "a communicator of another device");
    kit_report(kit_misused(cnclAllReduce(a, b, 4, CNCL_FLOAT, 0, c, at[1].queue), CNCL_RUNTIME),
               "a queue of another device");
}

static void test_init_refusals(void)
{
    struct cncl_clique_id id, cut;
    void *comms[2];

    cnclGetCliqueId(&id);
    cut = id;
    cut.hash = 0;
    kit_report(
        kit_misused(cnclInitComms(comms, 1, (int[]){0}, (int[]){0}, 1, &used), CNCL_ARGUMENTS),
        "a process uses an id once");
    kit_report(cnclInitComms(comms, 1, (int[]){0}, (int[]){0}, 1, &cut) == CNCL_ARGUMENTS,
               "an id cut to 128 bytes");
    kit_report(cnclInitComms(comms, 2, (int[]){0, 1}, (int[]){1, 1}, 2, &id) == CNCL_ARGUMENTS &&
                   cnclInitComms(comms, 1, (int[]){9}, (int[]){0}, 1, &id) == CNCL_ARGUMENTS &&
                   cnclInitComms(comms, 1, (int[]){0}, (int[]){2}, 2, &id) == CNCL_ARGUMENTS &&
                   cnclInitComms(NULL, 1, (int[]){0}, (int[]){0}, 1, &id) == CNCL_NULL,
               "wrong ranks and devices");
    kit_report(!cnclInitComms(comms, 1, (int[]){0}, (int[]){0}, 1, &id) &&
                   !cnclAbortComm(comms[0]) &&
                   kit_misused(cnclGetCommAsyncError(comms[0]), CNCL_ARGUMENTS),
               "a clique of one rank, aborted");
}

/* Ranks that make different calls; a communicator that is freed alone. */
static void test_errors(void)
{
    struct cncl_clique_id id;
    void *comms[2];
    int code;

    cnclGetCliqueId(&id);
    kit_report(!cnclInitComms(comms, 2, (int[]){0, 1}, (int[]){0, 1}, 2, &id), "two ranks");
    cnrtSetDevice(0);
    code = cnclAllReduce(at[0].a, at[0].b, 4, CNCL_FLOAT, CNCL_SUM, comms[0], at[0].queue);
    kit_report(!code && cnclGetCommAsyncError(comms[0]) == CNCL_IN_PROGRESS, "in progress");
    cnrtSetDevice(1);
    code = cnclAllReduce(at[1].a, at[1].b, 4, CNCL_INT32, CNCL_SUM, comms[1], at[1].queue);
    kit_report(!code && !cnrtQueueSync(at[1].queue) &&
                   cnclGetCommAsyncError(comms[1]) == CNCL_ASYNC,
               "another type than the other rank's");
    cnrtSetDevice(0);
    kit_report(!cnrtQueueSync(at[0].queue) && cnclGetCommAsyncError(comms[0]) == CNCL_ASYNC,
               "the other rank is told");
    setenv("BP_STANDIN_CNCL_LIMIT", "50", 1);
    kit_report(kit_misused(cnclFreeComm(comms[0]), CNCL_RUNTIME), "a communicator freed alone");
    kit_report(!cnclFreeComm(comms[1]), "the other one");
    unsetenv("BP_STANDIN_CNCL_LIMIT");
}

/* A call that the other rank never makes ends when its communicator is aborted. */
static void test_abort(void)
{
    struct cncl_clique_id id;
    void *comms[2];

    cnclGetCliqueId(&id);
    cnclInitComms(comms, 2, (int[]){0, 1}, (int[]){0, 1}, 2, &id);
    cnrtSetDevice(0);
    cnclRecv(at[0].b, 4, CNCL_FLOAT, 1, comms[0], at[0].queue);
    usleep(2000);
    kit_report(cnrtQueueQuery(at[0].queue) == CNRT_NOT_READY && !cnclAbortComm(comms[0]) &&
                   !cnrtQueueSync(at[0].queue) && !cnclAbortComm(comms[1]),
               "an abort ends a call that waits");
}

/* A communicator on a device that is lost. */
static void test_lost(void)
{
    struct cncl_clique_id id;
    void *comm = NULL, *q = at[N].queue, *a = at[N].a;

    cnrtSetDevice(N);
    cnclGetCliqueId(&id);
    base_control("FAIL", "cnclAllReduce:1:7,work:1:100132");
    kit_report(!cnclInitComms(&comm, 1, (int[]){N}, (int[]){0}, 1, &id) &&
                   cnclAllReduce(a, a, 4, CNCL_FLOAT, 0, comm, q) == CNCL_ARGUMENTS &&
                   !cnclAllReduce(a, a, 4, CNCL_FLOAT, 0, comm, q) &&
                   cnrtQueueSync(q) == CNRT_KERNEL_TRAP &&
                   cnclAllReduce(a, a, 4, CNCL_FLOAT, 0, comm, q) == CNCL_RUNTIME &&
                   !cnclFreeComm(comm),
               "a device that is lost");
    base_control("FAIL", "");
}

/* Rank 1 of a clique of two processes. */
static int other_process(const struct cncl_clique_id *id)
{
    int32_t x[2] = {5, 6}, y[2] = {0};
    void *comm, *queue, *a;

    cnrtSetDevice(1);
    if (cnclInitComms(&comm, 1, (int[]){1}, (int[]){1}, 2, id)) return 2;
    queue = kit_queue();
    a = kit_device_memory(x, sizeof x);
    if (cnclAllReduce(a, a, 2, CNCL_INT32, CNCL_SUM, comm, queue)) return 3;
    kit_read(queue, y, a, sizeof y);
    if (cnclFreeComm(comm)) return 4;
    return y[0] == 6 && y[1] == 8 ? 0 : 5;
}

/* The processes begin before the library has threads. */
static void test_processes(const char *program)
{
    int32_t x[2] = {1, 2}, y[2] = {0};
    struct cncl_clique_id id;
    void *comm = NULL, *queue, *a;
    int status = 1;
    pid_t child;

    cnclGetCliqueId(&id);
    child = fork();
    if (child == 0) {
        char text[2 * sizeof id + 1];
        for (size_t i = 0; i < sizeof id; i++)
            snprintf(text + 2 * i, 3, "%02x", ((unsigned char *)&id)[i]);
        execl(program, program, text, (char *)NULL);
        _exit(9);
    }
    cnrtSetDevice(0);
    kit_report(child > 0 && !cnclInitComms(&comm, 1, (int[]){0}, (int[]){0}, 2, &id),
               "a clique of two processes");
    queue = kit_queue();
    a = kit_device_memory(x, sizeof x);
    kit_report(!cnclAllReduce(a, a, 2, CNCL_INT32, CNCL_SUM, comm, queue), "all-reduce");
    kit_read(queue, y, a, sizeof y);
    kit_report(y[0] == 6 && y[1] == 8 && !cnclFreeComm(comm) &&
                   waitpid(child, &status, 0) == child && status == 0,
               "the sum of both processes");
    cnrtQueueDestroy(queue);
    cnrtFree(a);
}

int main(int argc, char **argv)
{
    struct cncl_clique_id id;
    void *comms[N];

    setenv("BP_STANDIN_DEVICES", "4", 1);
    setenv("BP_STANDIN_LOG", "/dev/null", 1); /* the misuses of these tests */
    for (size_t i = 0; argc > 1 && i < sizeof id; i++) {
        char digits[3] = {argv[1][2 * i], argv[1][2 * i + 1], 0};
        ((unsigned char *)&id)[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    if (argc > 1) return other_process(&id);
    test_processes(argv[0]);
    ranks_start();
    test_collectives();
    test_group();
    test_replay();
    test_refusals();
    test_init_refusals();
    test_errors();
    test_abort();
    for (int i = 0; i < N; i++) comms[i] = at[i].comm;
    kit_report(!cnclDestroyComms(comms, N), "all ranks end together");
    test_lost();
    for (int i = 0; i <= N; i++) {
        cnrtSetDevice(i);
        cnrtQueueDestroy(at[i].queue);
        cnrtFree(at[i].a);
        cnrtFree(at[i].b);
    }
    return kit_end();
}
