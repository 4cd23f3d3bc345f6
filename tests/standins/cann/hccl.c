/* SPDX-License-Identifier: Apache-2.0 */
/* hccl.c: implements the collectives of the stand-in for CANN (libhccl.so): ranks are threads and
 * processes of this machine. A root info has 4,108 bytes. Reductions are sum, product, maximum and
 * minimum, of f32, f16, bf16 and signed integers; broadcast is in place. There is no abort: only
 * HcclCommDestroy ends a call that other ranks do not make. */
#include "cann.h"
#include "exchange.h"
#include "rows.h"
#include <stdlib.h>
#include <string.h>

enum {
    ROOT_INFO = 4108,
    WAIT_MS = 120000,
    GROUP = 256
};
enum {
    E_PARA = 1,
    E_PTR = 2,
    E_MEMORY = 3,
    E_INTERNAL = 4,
    E_NOT_SUPPORT = 5,
    E_TIMEOUT = 9,
    E_REMOTE = 21
};
enum {
    TYPES = 13
};

struct hccl_item {
    int type; /* 0: send, 1: receive */
    void *buffer;
    uint64_t count;
    int dtype;
    uint32_t remote;
};

int HcclGetRootInfo(void *out);
int HcclCommInitRootInfo(uint32_t n, const void *info, uint32_t rank, void **out);
int HcclCommDestroy(void *comm);
int HcclGetRankSize(void *comm, uint32_t *out);
int HcclGetRankId(void *comm, uint32_t *out);
int HcclAllReduce(void *src, void *dst, uint64_t count, int dtype, int op, void *comm,
                  void *stream);
int HcclReduce(void *src, void *dst, uint64_t count, int dtype, int op, uint32_t root, void *comm,
               void *stream);
int HcclBroadcast(void *buffer, uint64_t count, int dtype, uint32_t root, void *comm, void *stream);
int HcclAllGather(void *src, void *dst, uint64_t count, int dtype, void *comm, void *stream);
int HcclReduceScatter(void *src, void *dst, uint64_t count, int dtype, int op, void *comm,
                      void *stream);
int HcclAlltoAll(const void *src, uint64_t src_count, int src_dtype, const void *dst,
                 uint64_t dst_count, int dst_dtype, void *comm, void *stream);
int HcclBarrier(void *comm, void *stream);
int HcclSend(void *src, uint64_t count, int dtype, uint32_t peer, void *comm, void *stream);
int HcclRecv(void *dst, uint64_t count, int dtype, uint32_t peer, void *comm, void *stream);
int HcclBatchSendRecv(struct hccl_item *items, uint32_t n, void *comm, void *stream);
int HcclGetCommAsyncError(void *comm, int *out);
const char *HcclGetErrorString(int code);
int HcclSetConfig(int config, int32_t value);
int HcclGroupStart(void);
int HcclGroupEnd(void);

/* By the numbers of HcclDataType: sizes, and the dtypes that reductions have. */
static const unsigned char widths[TYPES] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16};
static const int reduced[TYPES] = {BP_I8, BP_I16, BP_I32, BP_F16, BP_F32,  BP_I64, -1,
                                   -1,    -1,     -1,     -1,     BP_BF16, -1};

static void hccl_combine(void *to, const void *from, uint64_t n, int type, int reduction)
{
    static const char *const ops[] = {"add", "mul", "maximum", "minimum"};
    int64_t count = (int64_t)n;
    uint32_t dtype = (uint32_t)reduced[type];
    struct base_tensor a = base_tensor_of(to, dtype, 1, &count);
    struct base_tensor b = base_tensor_of((void *)(uintptr_t)from, dtype, 1, &count);
    struct base_call call = {.op = ops[reduction],
                             .n_in = 2,
                             .n_out = 1,
                             .in = {&a, &b},
                             .out = {&a},
                             .type = {dtype, BASE_ABSENT, BASE_ABSENT, BASE_ABSENT}};

    base_compute(&call);
}

/* The code of a call that begins with a code of the runtime. */
static int hccl_leave(int code)
{
    return cann_leave(code == RT_CONTEXT_NULL || code > RT_NOT_SUPPORTED ? E_INTERNAL : code);
}

CANN_API int HcclGetRootInfo(void *out)
{
    struct cann_context *context;
    int code = cann_enter_context("HcclGetRootInfo", &context);
    unsigned char id[RANKS_ID_SIZE];

    if (!code && !out) code = base_refuse(E_PTR, "rootInfo is NULL");
    if (!code && base_exchange_id(id)) code = E_INTERNAL;
    if (code) return hccl_leave(code);
    memset(out, 0xc3, ROOT_INFO); /* the last bytes count, too */
    memcpy((char *)out + ROOT_INFO - RANKS_ID_SIZE, id, RANKS_ID_SIZE);
    return hccl_leave(0);
}

/* Each byte of a root info has to arrive. */
static bool info_is_whole(const unsigned char *info)
{
    for (int i = 0; i < ROOT_INFO - RANKS_ID_SIZE; i++)
        if (info[i] != 0xc3) return false;
    return true;
}

CANN_API int HcclCommInitRootInfo(uint32_t n, const void *info, uint32_t rank, void **out)
{
    const char *wait = secure_getenv("HCCL_CONNECT_TIMEOUT"); /* seconds */
    struct cann_context *context;
    int code = cann_enter_context("HcclCommInitRootInfo", &context);
    struct base_comm *comm = NULL;

    if (!code && (!info || !out)) code = base_refuse(E_PTR, "rootInfo or comm is NULL");
    if (!code && (!n || rank >= n)) code = base_refuse(E_PARA, "rank %u of %u", rank, n);
    if (!code && !info_is_whole(info)) code = base_refuse(E_PARA, "this is no root info");
    if (code) return hccl_leave(code);
    code = base_comm_join((const char *)info + ROOT_INFO - RANKS_ID_SIZE, (int)n, (int)rank,
                          wait ? atoi(wait) * 1000 : WAIT_MS, context->device, hccl_combine, &comm);
    if (code == BASE_TIMEOUT) code = base_refuse(E_TIMEOUT, "a rank has not joined in time");
    else if (code) code = base_refuse(code == BASE_NO_MEMORY ? E_MEMORY : E_PARA, "cannot join");
    if (!code) *out = comm;
    return hccl_leave(code);
}

static int comm_check(int code, void *comm)
{
    if (code) return code;
    if (!comm) return base_refuse(E_PTR, "the communicator is NULL");
    if (base_handle_is(comm, base_comm_kind)) return 0;
    return base_misuse(E_PARA, "%p is no communicator%s", comm,
                       base_handle_was(comm) ? ": it was destroyed before" : "");
}

CANN_API int HcclCommDestroy(void *comm)
{
    int code = comm_check(cann_enter("HcclCommDestroy"), comm);

    if (!code) base_comm_destroy(comm);
    return hccl_leave(code);
}

CANN_API int HcclGetRankSize(void *comm, uint32_t *out)
{
    int code = comm_check(cann_enter("HcclGetRankSize"), comm);

    if (!code && !out) code = E_PTR;
    if (!code) *out = (uint32_t)base_comm_ranks(comm);
    return hccl_leave(code);
}

CANN_API int HcclGetRankId(void *comm, uint32_t *out)
{
    int code = comm_check(cann_enter("HcclGetRankId"), comm);

    if (!code && !out) code = E_PTR;
    if (!code) *out = (uint32_t)base_comm_rank(comm);
    return hccl_leave(code);
}

/* Whether `parts` times count elements at an address are memory of the device. */
static int buffer_check(const struct cann_context *context, const void *at,
                        const struct ranks_op *op, uint64_t parts, const char *what)
{
    size_t bytes = (size_t)(op->count * parts) * op->width;

    if (!at) return base_refuse(E_PTR, "%s is NULL", what);
    if (base_find(at).place == BASE_DEVICE && base_reach(context->device, at, bytes)) return 0;
    return base_misuse(E_PARA, "%s of %zu bytes is not memory of the device", what, bytes);
}

/* Source and destination may be the same place, but must not overlap otherwise. */
static int overlap_check(const struct ranks_op *op, uint64_t src_parts, uint64_t dst_parts,
                         int rank)
{
    uintptr_t src = (uintptr_t)op->src, dst = (uintptr_t)op->dst, own = dst;
    uint64_t bytes = op->count * op->width;

    if (op->call == RANKS_ALL_GATHER) own = dst + (uint64_t)rank * bytes;
    if (op->call == RANKS_REDUCE_SCATTER && src + (uint64_t)rank * bytes == dst) return 0;
    if (op->call != RANKS_ALL_TO_ALL && src == own) return 0;
    if (src >= dst + bytes * dst_parts || dst >= src + bytes * src_parts) return 0;
    return base_misuse(E_PARA, "the source overlaps the destination");
}

/* The parts of source and destination on this rank. */
static void parts_of(const struct ranks_op *op, int ranks, uint64_t *src, uint64_t *dst)
{
    uint64_t all = (uint64_t)ranks;

    *src = op->call == RANKS_REDUCE_SCATTER || op->call == RANKS_ALL_TO_ALL
               ? all
               : op->call != RANKS_RECV;
    *dst = op->call == RANKS_ALL_GATHER || op->call == RANKS_ALL_TO_ALL ? all
                                                                        : op->call != RANKS_SEND;
}

static int op_check(struct cann_context *context, struct base_comm *comm, struct ranks_op *op)
{
    bool reduces = op->call == RANKS_ALL_REDUCE || op->call == RANKS_REDUCE ||
                   op->call == RANKS_REDUCE_SCATTER;
    uint64_t src, dst;
    int code = 0;

    if (op->call == RANKS_BARRIER) return 0;
    if (op->type < 0 || op->type >= TYPES) return base_refuse(E_PARA, "data type %d", op->type);
    op->width = widths[op->type];
    if (reduces && (op->reduction < 0 || op->reduction > 3))
        return base_refuse(E_PARA, "reduction %d", op->reduction);
    if (reduces && reduced[op->type] < 0)
        return base_refuse(E_NOT_SUPPORT, "a reduction of data type %d", op->type);
    if (op->peer < 0 || op->peer >= base_comm_ranks(comm))
        return base_refuse(E_PARA, "rank %d of %d", op->peer, base_comm_ranks(comm));
    if (op->call >= RANKS_SEND && op->peer == base_comm_rank(comm))
        return base_refuse(E_PARA, "a rank that sends to itself");
    parts_of(op, base_comm_ranks(comm), &src, &dst);
    if (src) code = buffer_check(context, op->src, op, src, "the source");
    if (!code && dst) code = buffer_check(context, op->dst, op, dst, "the destination");
    if (!code && src && dst && op->call != RANKS_BROADCAST)
        code = overlap_check(op, src, dst, base_comm_rank(comm));
    return code;
}

/* The calling thread's group: sends and receives that wait for its end. */
static _Thread_local struct {
    int depth, n;
    struct base_comm *comm;
    struct base_stream *stream;
    struct ranks_op op[GROUP];
} group;

/* Checks and submits operations. The communicator belongs to the device of its thread then. */
static int hccl_submit(int code, struct cann_context *context, void *comm, void *handle,
                       struct ranks_op *op, int n)
{
    struct base_stream *stream;

    code = comm_check(code, comm);
    if (!code && !handle) code = base_refuse(E_PTR, "the stream is NULL");
    if (!code && cann_stream(context, handle, &stream)) code = E_PARA;
    if (!code && base_comm_device(comm) != context->device)
        code = base_misuse(E_PARA, "the communicator belongs to another device");
    for (int i = 0; i < n && !code; i++) code = op_check(context, comm, &op[i]);
    if (!code && group.depth && op->call >= RANKS_SEND) {
        if (group.n + n > GROUP || (group.n && (group.comm != comm || group.stream != stream)))
            return hccl_leave(base_refuse(E_PARA, "a group of several communicators or streams"));
        memcpy(group.op + group.n, op, (size_t)n * sizeof *op);
        group.n += n;
        group.comm = comm;
        group.stream = stream;
        return hccl_leave(0);
    }
    if (!code && base_comm_submit(comm, stream, op, n)) code = E_INTERNAL;
    return hccl_leave(code);
}

CANN_API int HcclAllReduce(void *src, void *dst, uint64_t count, int dtype, int op, void *comm,
                           void *stream)
{
    struct ranks_op call = {RANKS_ALL_REDUCE, src, dst, count, 0, dtype, op, 0};
    struct cann_context *context;
    int code = cann_enter_context("HcclAllReduce", &context);

    return hccl_submit(code, context, comm, stream, &call, 1);
}

CANN_API int HcclReduce(void *src, void *dst, uint64_t count, int dtype, int op, uint32_t root,
                        void *comm, void *stream)
{
    struct ranks_op call = {RANKS_REDUCE, src, dst, count, 0, dtype, op, (int)root};
    struct cann_context *context;
    int code = cann_enter_context("HcclReduce", &context);

    return hccl_submit(code, context, comm, stream, &call, 1);
}

CANN_API int HcclBroadcast(void *buffer, uint64_t count, int dtype, uint32_t root, void *comm,
                           void *stream)
{
    struct ranks_op call = {RANKS_BROADCAST, buffer, buffer, count, 0, dtype, 0, (int)root};
    struct cann_context *context;
    int code = cann_enter_context("HcclBroadcast", &context);

    return hccl_submit(code, context, comm, stream, &call, 1);
}

CANN_API int HcclAllGather(void *src, void *dst, uint64_t count, int dtype, void *comm,
                           void *stream)
{
    struct ranks_op call = {RANKS_ALL_GATHER, src, dst, count, 0, dtype, 0, 0};
    struct cann_context *context;
    int code = cann_enter_context("HcclAllGather", &context);

    return hccl_submit(code, context, comm, stream, &call, 1);
}

CANN_API int HcclReduceScatter(void *src, void *dst, uint64_t count, int dtype, int op, void *comm,
                               void *stream)
{
    struct ranks_op call = {RANKS_REDUCE_SCATTER, src, dst, count, 0, dtype, op, 0};
    struct cann_context *context;
    int code = cann_enter_context("HcclReduceScatter", &context);

    return hccl_submit(code, context, comm, stream, &call, 1);
}

/* Counts are those of each pair of ranks; both sides must be alike. */
CANN_API int HcclAlltoAll(const void *src, uint64_t src_count, int src_dtype, const void *dst,
                          uint64_t dst_count, int dst_dtype, void *comm, void *stream)
{
    struct ranks_op call = {
        RANKS_ALL_TO_ALL, src, (void *)(uintptr_t)dst, src_count, 0, src_dtype, 0, 0};
    struct cann_context *context;
    int code = cann_enter_context("HcclAlltoAll", &context);

    if (!code && (src_count != dst_count || src_dtype != dst_dtype))
        code = base_refuse(E_PARA, "what is sent is not what is received");
    return hccl_submit(code, context, comm, stream, &call, 1);
}

CANN_API int HcclBarrier(void *comm, void *stream)
{
    struct ranks_op call = {.call = RANKS_BARRIER};
    struct cann_context *context;
    int code = cann_enter_context("HcclBarrier", &context);

    return hccl_submit(code, context, comm, stream, &call, 1);
}

CANN_API int HcclSend(void *src, uint64_t count, int dtype, uint32_t peer, void *comm, void *stream)
{
    struct ranks_op call = {RANKS_SEND, src, NULL, count, 0, dtype, 0, (int)peer};
    struct cann_context *context;
    int code = cann_enter_context("HcclSend", &context);

    return hccl_submit(code, context, comm, stream, &call, 1);
}

CANN_API int HcclRecv(void *dst, uint64_t count, int dtype, uint32_t peer, void *comm, void *stream)
{
    struct ranks_op call = {RANKS_RECV, NULL, dst, count, 0, dtype, 0, (int)peer};
    struct cann_context *context;
    int code = cann_enter_context("HcclRecv", &context);

    return hccl_submit(code, context, comm, stream, &call, 1);
}

CANN_API int HcclBatchSendRecv(struct hccl_item *items, uint32_t n, void *comm, void *stream)
{
    struct ranks_op op[GROUP];
    struct cann_context *context;
    int code = cann_enter_context("HcclBatchSendRecv", &context);

    if (!code && !items) code = base_refuse(E_PTR, "the items are NULL");
    if (!code && (!n || n > GROUP)) code = base_refuse(E_PARA, "%u items", n);
    for (uint32_t i = 0; i < n && !code; i++) {
        if (items[i].type < 0 || items[i].type > 1) code = base_refuse(E_PARA, "item %u", i);
        op[i] = (struct ranks_op){items[i].type ? RANKS_RECV : RANKS_SEND,
                                  items[i].buffer,
                                  items[i].buffer,
                                  items[i].count,
                                  0,
                                  items[i].dtype,
                                  0,
                                  (int)items[i].remote};
    }
    return hccl_submit(code, context, comm, stream, op, code ? 0 : (int)n);
}

CANN_API int HcclGetCommAsyncError(void *comm, int *out)
{
    int code = comm_check(cann_enter("HcclGetCommAsyncError"), comm);

    if (!code && !out) code = E_PTR;
    if (code) return hccl_leave(code);
    code = base_comm_error(comm);
    *out = !code ? 0 : code == BASE_ILLEGAL ? E_REMOTE : E_INTERNAL;
    return hccl_leave(0);
}

CANN_API const char *HcclGetErrorString(int code)
{
    static const char *const texts[] = {"no error",     "parameter error", "empty pointer",
                                        "memory error", "internal error",  "not support feature"};

    return code >= 0 && code <= E_NOT_SUPPORT ? texts[code]
           : code == E_TIMEOUT                ? "timeout"
           : code == E_REMOTE                 ? "error of a remote rank"
                                              : "unknown error";
}

/* Configuration 0: whether reductions are deterministic, as they are. The value is a union of one
 * integer. */
CANN_API int HcclSetConfig(int config, int32_t value)
{
    int code = cann_enter("HcclSetConfig");

    if (!code && (config || (value != 0 && value != 1)))
        code = base_refuse(E_PARA, "configuration %d, value %d", config, value);
    return hccl_leave(code);
}

CANN_API int HcclGroupStart(void)
{
    int code = cann_enter("HcclGroupStart");

    if (!code) group.depth++;
    return hccl_leave(code);
}

CANN_API int HcclGroupEnd(void)
{
    int code = cann_enter("HcclGroupEnd");

    if (!group.depth) return hccl_leave(code ? code : E_PARA);
    if (--group.depth) return hccl_leave(code);
    if (!code && group.n && base_comm_submit(group.comm, group.stream, group.op, group.n))
        code = E_INTERNAL;
    group.n = 0;
    return hccl_leave(code);
}
