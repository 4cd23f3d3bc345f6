/* SPDX-License-Identifier: Apache-2.0 */
/* cncl.c: implements the collectives of CNCL: checks them, and enqueues them alone, or all of a
 * group together at its end. */
#include "cncl.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    POLL_US = 20,
    GROUP = 256
};

const char *cnclGetErrorStr(int code)
{
    switch (code) {
    case CNCL_OK: return "no error";
    case CNCL_NULL: return "a pointer is NULL";
    case CNCL_ARGUMENTS: return "an argument is not valid";
    case CNCL_UNSUPPORTED: return "not supported";
    case CNCL_INIT: return "initialisation failed";
    case CNCL_IN_PROGRESS: return "work is in progress";
    case CNCL_ASYNC: return "an asynchronous error";
    default: return "a failure";
    }
}

/* Operations of one communicator that run together. */
struct cncl_work {
    struct cncl_comm *comm;
    uint64_t number; /* among the communicator's; 0: recorded in a capture */
    struct cncl_op *op;
    int n;
};

/* Waits until the communicator's earlier work has ended. */
static void work_begin(const struct cncl_work *work)
{
    struct cncl_comm *comm = work->comm;

    for (;;) {
        bool none = false;
        bool first = !work->number || atomic_load(&comm->done) + 1 == work->number;
        if (first && atomic_compare_exchange_strong(&comm->running, &none, true)) return;
        usleep(POLL_US);
    }
}

static int work_run(void *data, int code)
{
    const struct cncl_work *work = data;
    struct cncl_comm *comm = work->comm;
    int failed = CNCL_ASYNC;

    work_begin(work);
    if (!code && !atomic_load(&comm->aborted)) failed = cncl_exchange(comm, work->op, work->n);
    if (failed) atomic_store(&comm->error, CNCL_ASYNC);
    if (work->number) atomic_fetch_add(&comm->done, 1);
    atomic_store(&comm->running, false);
    return !code && failed == CNCL_RUNTIME ? CNRT_KERNEL_TRAP : code;
}

static void work_drop(void *data)
{
    struct cncl_work *work = data;

    free(work->op);
    cncl_comm_release(work->comm);
}

/* Under the lock. */
static int work_submit(struct cncl_comm *comm, void *queue, const struct cncl_op *op, int n)
{
    static const struct base_work kind = {.run = work_run, .drop = work_drop};
    struct cncl_work work = {.comm = comm, .n = n, .op = malloc((size_t)n * sizeof *op)};
    bool captured = base_capture_state(queue);

    if (!work.op) return CNCL_SYSTEM;
    memcpy(work.op, op, (size_t)n * sizeof *op);
    comm->refs++;
    if (!captured) work.number = atomic_fetch_add(&comm->given, 1) + 1;
    if (!base_submit(queue, &kind, &work, sizeof work)) return 0;
    if (!captured) atomic_fetch_sub(&comm->given, 1);
    return CNCL_RUNTIME;
}

/* The calling thread's group. */
static _Thread_local struct {
    int depth, n;
    struct {
        struct cncl_comm *comm;
        void *queue;
        struct cncl_op op;
        bool submitted;
    } call[GROUP];
} group;

static int group_add(struct cncl_comm *comm, void *queue, const struct cncl_op *op)
{
    if (group.n == GROUP) return CNCL_UNSUPPORTED;
    group.call[group.n].comm = comm;
    group.call[group.n].queue = queue;
    group.call[group.n].op = *op;
    group.call[group.n++].submitted = false;
    return 0;
}

int cnclGroupStart(void)
{
    int code = cnrt_enter("cnclGroupStart");

    if (!code) group.depth++;
    return base_leave(code);
}

/* Enqueues the operations of the group that have the communicator and the queue of call `at`. */
static int group_submit(int at)
{
    struct cncl_op op[GROUP];
    int n = 0;

    for (int i = at; i < group.n; i++) {
        if (group.call[i].comm != group.call[at].comm) continue;
        if (group.call[i].queue != group.call[at].queue) continue;
        op[n++] = group.call[i].op;
        group.call[i].submitted = true;
    }
    return work_submit(group.call[at].comm, group.call[at].queue, op, n);
}

int cnclGroupEnd(void)
{
    int code = cnrt_enter("cnclGroupEnd");

    if (code) return base_leave(code);
    if (!group.depth) return base_leave(base_misuse(CNCL_ARGUMENTS, "there is no group"));
    if (--group.depth) return base_leave(0);
    for (int i = 0; i < group.n && !code; i++)
        if (!group.call[i].submitted) code = group_submit(i);
    group.n = 0;
    return base_leave(code);
}

/* Whether a buffer of an operation is memory of the communicator's device. */
static int buffer_check(const struct cncl_comm *comm, const void *at, size_t size)
{
    if (!size) return 0;
    if (!at) return CNCL_NULL;
    if (base_find(at).device == comm->device && base_reach(comm->device, at, size)) return 0;
    return base_misuse(CNCL_ARGUMENTS, "%p has not %zu bytes of device %d", at, size,
                       comm->device->number);
}

static int op_check(const struct cncl_comm *comm, void *queue, const struct cncl_op *op)
{
    int code;

    if (!base_stream_is(queue)) return base_misuse(CNCL_ARGUMENTS, "%p is not a queue", queue);
    if (base_stream_device(queue) != comm->device)
        return base_misuse(CNCL_RUNTIME, "the queue is not of the communicator's device");
    if (!cncl_bytes(op->type)) return base_refuse(CNCL_ARGUMENTS, "no type 0x%x", op->type);
    if (op->reduction < CNCL_SUM || op->reduction > CNCL_MIN)
        return base_refuse(CNCL_ARGUMENTS, "no reduction %d", op->reduction);
    if (op->peer < 0 || op->peer >= comm->n)
        return base_refuse(CNCL_ARGUMENTS, "no rank %d", op->peer);
    if ((op->call == CNCL_SEND || op->call == CNCL_RECV) && op->peer == comm->rank)
        return base_refuse(CNCL_UNSUPPORTED, "a rank sends to itself");
    if (op->call == CNCL_ALL_TO_ALL && op->src == op->dst && op->count)
        return base_refuse(CNCL_ARGUMENTS, "all-to-all is not in place");
    code = buffer_check(comm, op->src, cncl_reads(comm, op));
    return code ? code : buffer_check(comm, op->dst, cncl_writes(comm, op));
}

static int cncl_call(const char *name, void *handle, void *queue, const struct cncl_op *op)
{
    struct base_device *device;
    int code = cnrt_enter_device(name, &device);
    struct cncl_comm *comm = cncl_comm(handle, &code);

    if (!comm) return base_leave(code < CNRT_INIT ? code : CNCL_RUNTIME);
    if (comm->device != device)
        code = base_misuse(CNCL_RUNTIME, "%s: the communicator is not of the thread's device",
                           name);
    if (!code) code = op_check(comm, queue, op);
    if (!code) code = group.depth ? group_add(comm, queue, op) : work_submit(comm, queue, op, 1);
    return base_leave(code);
}

int cnclBroadcast(const void *src, void *dst, size_t count, int type, int root, void *comm,
                  void *queue)
{
    struct cncl_op op = {CNCL_BROADCAST, src, dst, count, type, 0, root};

    return cncl_call("cnclBroadcast", comm, queue, &op);
}

int cnclBcast(void *data, size_t count, int type, int root, void *comm, void *queue)
{
    struct cncl_op op = {CNCL_BROADCAST, data, data, count, type, 0, root};

    return cncl_call("cnclBcast", comm, queue, &op);
}

int cnclAllGather(const void *src, void *dst, size_t count, int type, void *comm, void *queue)
{
    struct cncl_op op = {CNCL_ALL_GATHER, src, dst, count, type, 0, 0};

    return cncl_call("cnclAllGather", comm, queue, &op);
}

int cnclReduce(const void *src, void *dst, size_t count, int type, int reduction, int root,
               void *comm, void *queue)
{
    struct cncl_op op = {CNCL_REDUCE, src, dst, count, type, reduction, root};

    return cncl_call("cnclReduce", comm, queue, &op);
}

int cnclAllReduce(const void *src, void *dst, size_t count, int type, int reduction, void *comm,
                  void *queue)
{
    struct cncl_op op = {CNCL_ALL_REDUCE, src, dst, count, type, reduction, 0};

    return cncl_call("cnclAllReduce", comm, queue, &op);
}

int cnclReduceScatter(const void *src, void *dst, size_t count, int type, int reduction, void *comm,
                      void *queue)
{
    struct cncl_op op = {CNCL_REDUCE_SCATTER, src, dst, count, type, reduction, 0};

    return cncl_call("cnclReduceScatter", comm, queue, &op);
}

int cnclAlltoAll(const void *src, void *dst, size_t count, int type, void *comm, void *queue)
{
    struct cncl_op op = {CNCL_ALL_TO_ALL, src, dst, count, type, 0, 0};

    return cncl_call("cnclAlltoAll", comm, queue, &op);
}

int cnclSend(void *src, size_t count, int type, int peer, void *comm, void *queue)
{
    struct cncl_op op = {CNCL_SEND, src, NULL, count, type, 0, peer};

    return cncl_call("cnclSend", comm, queue, &op);
}

int cnclRecv(void *dst, size_t count, int type, int peer, void *comm, void *queue)
{
    struct cncl_op op = {CNCL_RECV, NULL, dst, count, type, 0, peer};

    return cncl_call("cnclRecv", comm, queue, &op);
}
