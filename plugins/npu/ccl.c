/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.c: implements collectives by HCCL, which is opened when the first communicator requests its
 * version. HCCL has no groups in all releases: the sends and receives of a group are collected and
 * submitted as one batch. */
#include "npu.h"

#include <stdlib.h>
#include <string.h>

/* One send or receive of a batch, as HCCL takes it. */
struct npu_hccl_item {
    int32_t receives;
    void *memory;
    uint64_t count;
    int32_t type;
    uint32_t peer;
};
enum {
    HCCL_SEND = 0,
    HCCL_RECEIVE = 1,
    HCCL_U8 = 7
};

#define KIT_LIST "npu/hccl.def"
#define KIT_TABLE hccl
#include <kit/table.h>

struct npu_comm {
    void *raw;
    struct npu_device *device;
    uint32_t rank;
    atomic_bool ended; /* by an abort */
};

/* A send or receive of the calling thread's group. */
struct group_item {
    struct npu_hccl_item hccl;
    struct npu_comm *comm;
    void *stream;
    bool given; /* it has been submitted */
};
static _Thread_local struct {
    int depth;
    uint32_t n, room;
    struct group_item *item;
} group;

static const struct kit_error known[] = {
    {1, BP_ERR_INTERNAL, "a parameter is wrong"},
    {2, BP_ERR_INTERNAL, "a pointer is missing"},
    {3, BP_ERR_MEMORY, "no memory"},
    {5, BP_ERR_UNSUPPORTED, "not supported"},
    {9, BP_ERR_TIMEOUT, "another rank took too long"},
    {21, BP_ERR_PEER, "another rank has failed"},
    {22, BP_ERR_PEER, "the communicator is suspended"},
};
static const struct kit_errors errors = {known, sizeof known / sizeof *known, NULL};

static enum bp_status ccl_check(const struct npu *npu, int64_t device, const char *function,
                                int code)
{
    struct kit_call call = {npu->host, "npu", device, function, code, NULL};
    struct kit_error error;

    kit_call_trace(&call);
    if (!code) return BP_OK;
    error = kit_error_find(&errors, NULL, code);
    if (!error.text && hccl.call.HcclGetErrorString)
        error.text = hccl.call.HcclGetErrorString(code);
    return kit_call_fail(&call, error.status, error.text, NULL);
}

#define CCL_CALL(comm, name, ...) \
    ccl_check((comm)->device->npu, (comm)->device->index, #name, hccl.call.name(__VA_ARGS__))

/* HCCL has no version of its own that all releases report: it belongs to the runtime's. */
enum bp_status npu_ccl_version(void *self, uint32_t *out_version)
{
    static struct kit_library library = KIT_LIBRARY(hccl_symbols, hccl.function,
                                                    ": install CANN 7 or newer");
    struct npu *npu = self;

    if (npu_library_load(&library, "HCCL", "libhccl.so"))
        return bp_fail(npu->host, BP_ERR_UNSUPPORTED, "npu: %s", library.why);
    *out_version = (uint32_t)(npu->version[0] * 10000 + npu->version[1] * 100 + npu->version[2]);
    return BP_OK;
}

enum bp_status npu_ccl_unique_id_long(void *self, void *out)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;

    TRY(npu_device_use(self, 0, &caller, &device));
    return ccl_check(self, -1, "HcclGetRootInfo", hccl.call.HcclGetRootInfo(out));
}

enum bp_status npu_ccl_comm_create(void *self, uint32_t index, const struct bp_ccl_id *id,
                                   uint32_t rank, uint32_t n_rank, void **out_comm)
{
    const struct bp_host *host = ((struct npu *)self)->host;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    struct npu_comm *comm;
    enum bp_status status;

    TRY(npu_device_use(self, index, &caller, &device));
    comm = host->allocate(host->ctx, sizeof *comm, _Alignof(struct npu_comm));
    if (!comm) return bp_fail(host, BP_ERR_MEMORY, "npu:%u: no memory for a communicator", index);
    *comm = (struct npu_comm){.device = device, .rank = rank};
    status = CCL_CALL(comm, HcclCommInitRootInfo, n_rank, id, rank, &comm->raw);
    if (status) host->release(host->ctx, comm, sizeof *comm);
    else *out_comm = comm;
    return status;
}

/* HCCL has no abort: the end of the communicator ends its work. */
void npu_ccl_comm_abort(void *self, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_comm *comm = p;
    struct kit_call call;

    npu_device_reuse(self, comm->device->index, &caller);
    if (atomic_exchange(&comm->ended, true)) return;
    call = (struct kit_call){comm->device->npu->host,
                             "npu",
                             comm->device->index,
                             "HcclCommDestroy",
                             hccl.call.HcclCommDestroy(comm->raw),
                             NULL};
    kit_call_trace(&call);
    if (call.code) kit_call_warn(&call, kit_error_find(&errors, NULL, call.code).text);
}

void npu_ccl_comm_destroy(void *self, void *p)
{
    const struct bp_host *host = ((struct npu *)self)->host;

    npu_ccl_comm_abort(self, p);
    host->release(host->ctx, p, sizeof(struct npu_comm));
}

enum bp_status npu_ccl_comm_error(void *self, void *p)
{
    struct npu_comm *comm = p;
    int code = 0;

    if (atomic_load(&comm->ended)) return BP_OK;
    TRY(ccl_check(self, comm->device->index, "HcclGetCommAsyncError",
                  hccl.call.HcclGetCommAsyncError(comm->raw, &code)));
    return ccl_check(self, comm->device->index, "a call under way", code);
}

/* HcclDataType; -1: HCCL has no such type. */
static int ccl_type(uint32_t dtype)
{
    static const int8_t type[] = {
        [BP_BOOL] = -1,    [BP_I8] = 0,  [BP_I16] = 1, [BP_I32] = 2, [BP_I64] = 5,
        [BP_U8] = HCCL_U8, [BP_U16] = 8, [BP_U32] = 9, [BP_U64] = 6, [BP_F16] = 3,
        [BP_BF16] = 11,    [BP_F32] = 4, [BP_F64] = 10};

    return dtype < sizeof type ? type[dtype] : -1;
}

/* HcclReduceOp; -1: none with the semantics of ccl.h. Reductions take signed integers and floats of
 * at most 32 bits, and how min and max treat NaN is not documented. */
static int ccl_reduction(const struct bp_ccl_call *call)
{
    static const int8_t of[BP_REDUCTION_COUNT] = {[BP_REDUCE_SUM] = 0,
                                                  [BP_REDUCE_PRODUCT] = 1,
                                                  [BP_REDUCE_MAX] = 2,
                                                  [BP_REDUCE_MIN] = 3,
                                                  [BP_REDUCE_AVERAGE] = -1};
    uint64_t floats = BP_M(F32) | BP_M(F16) | BP_M(BF16), dtype = UINT64_C(1) << call->dtype;
    bool ordered = call->reduction == BP_REDUCE_MIN || call->reduction == BP_REDUCE_MAX;

    if (call->reduction >= BP_REDUCTION_COUNT) return -1;
    if (!(dtype & (BP_MASK_SIGNED | floats)) || (ordered && dtype & floats)) return -1;
    return of[call->reduction];
}

/* The parameters of a call. BP_ERR_UNSUPPORTED, without a message: HCCL cannot execute it. */
struct given {
    struct npu_comm *comm;
    void *raw, *stream;
    int type, reduction;
};

static enum bp_status ccl_give(void *p, void *stream, const struct bp_ccl_call *call, bool reduces,
                               struct kit_context *caller, struct given *out)
{
    struct npu_comm *comm = p;
    struct npu_device *device;

    *out = (struct given){comm, comm->raw, ((struct npu_stream *)stream)->raw,
                          ccl_type(call->dtype), reduces ? ccl_reduction(call) : 0};
    if (out->type < 0 || out->reduction < 0) return BP_ERR_UNSUPPORTED;
    if (atomic_load(&comm->ended))
        return bp_fail(comm->device->npu->host, BP_ERR_PEER,
                       "npu:%u: the communicator has been aborted", comm->device->index);
    return npu_device_use(comm->device->npu, comm->device->index, caller, &device);
}

enum bp_status npu_ccl_all_reduce(void *self, void *comm, void *stream,
                                  const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return CCL_CALL(g.comm, HcclAllReduce, (void *)call->src, call->dst, call->count, g.type,
                    g.reduction, g.raw, g.stream);
}

/* HCCL refuses a null pointer of ranks that get no result. */
enum bp_status npu_ccl_reduce(void *self, void *comm, void *stream, const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return CCL_CALL(g.comm, HcclReduce, (void *)call->src,
                    call->dst ? call->dst : (void *)call->src, call->count, g.type, g.reduction,
                    call->root, g.raw, g.stream);
}

/* HCCL broadcasts in place. */
enum bp_status npu_ccl_broadcast(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    if (g.comm->rank == call->root && call->src != call->dst && call->count)
        TRY(NPU_CALL(g.comm->device, aclrtMemcpyAsync, call->dst, call->count, call->src,
                     call->count, NPU_DEVICE_TO_DEVICE, g.stream));
    return CCL_CALL(g.comm, HcclBroadcast, call->dst, call->count, g.type, call->root, g.raw,
                    g.stream);
}

enum bp_status npu_ccl_all_gather(void *self, void *comm, void *stream,
                                  const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    return CCL_CALL(g.comm, HcclAllGather, (void *)call->src, call->dst, call->count, g.type, g.raw,
                    g.stream);
}

enum bp_status npu_ccl_reduce_scatter(void *self, void *comm, void *stream,
                                      const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return CCL_CALL(g.comm, HcclReduceScatter, (void *)call->src, call->dst, call->count, g.type,
                    g.reduction, g.raw, g.stream);
}

enum bp_status npu_ccl_all_to_all(void *self, void *comm, void *stream,
                                  const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    return CCL_CALL(g.comm, HcclAlltoAll, call->src, call->count, g.type, call->dst, call->count,
                    g.type, g.raw, g.stream);
}

/* Adds a send or receive to the thread's group. */
static enum bp_status group_collect(const struct given *g, bool receives,
                                    const struct bp_ccl_call *call)
{
    struct npu_hccl_item item = {receives ? HCCL_RECEIVE : HCCL_SEND,
                                 receives ? call->dst : (void *)call->src, call->count, g->type,
                                 call->root};

    if (group.n == group.room) {
        uint32_t room = group.room ? 2 * group.room : 16;
        struct group_item *more = realloc(group.item, room * sizeof *more);
        if (!more)
            return bp_fail(g->comm->device->npu->host, BP_ERR_MEMORY,
                           "npu: no memory for a group of %u sends and receives", room);
        group.item = more;
        group.room = room;
    }
    group.item[group.n++] = (struct group_item){item, g->comm, g->stream, false};
    return BP_OK;
}

enum bp_status npu_ccl_send(void *self, void *comm, void *stream, const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    if (group.depth) return group_collect(&g, false, call);
    return CCL_CALL(g.comm, HcclSend, (void *)call->src, call->count, g.type, call->root, g.raw,
                    g.stream);
}

enum bp_status npu_ccl_recv(void *self, void *comm, void *stream, const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    if (group.depth) return group_collect(&g, true, call);
    return CCL_CALL(g.comm, HcclRecv, call->dst, call->count, g.type, call->root, g.raw, g.stream);
}

enum bp_status npu_ccl_group_begin(void *self)
{
    (void)self;
    group.depth++;
    return BP_OK;
}

/* A rank that sends to itself copies: HCCL has peers only. The n-th send belongs to the n-th
 * receive. */
static enum bp_status group_copy_own(struct group_item *send)
{
    for (uint32_t i = 0; i < group.n; i++) {
        struct group_item *to = &group.item[i];
        if (to->given || !to->hccl.receives || to->comm != send->comm ||
            to->hccl.peer != to->comm->rank)
            continue;
        to->given = send->given = true;
        if (!to->hccl.count) return BP_OK;
        return NPU_CALL(to->comm->device, aclrtMemcpyAsync, to->hccl.memory, to->hccl.count,
                        send->hccl.memory, send->hccl.count, NPU_DEVICE_TO_DEVICE, to->stream);
    }
    return BP_OK;
}

/* Submits all items of the communicator and stream of this item as one batch. */
static enum bp_status group_submit(uint32_t first)
{
    struct npu_comm *comm = group.item[first].comm;
    void *stream = group.item[first].stream;
    struct npu_hccl_item *batch = malloc((group.n - first) * sizeof *batch);
    enum bp_status status;
    uint32_t n = 0;

    if (!batch)
        return bp_fail(comm->device->npu->host, BP_ERR_MEMORY, "npu: no memory for a group");
    for (uint32_t i = first; i < group.n; i++) {
        struct group_item *item = &group.item[i];
        if (item->given || item->comm != comm || item->stream != stream) continue;
        item->given = true;
        batch[n++] = item->hccl;
    }
    status = CCL_CALL(comm, HcclBatchSendRecv, batch, n, comm->raw, stream);
    free(batch);
    return status;
}

static enum bp_status group_submit_all(void)
{
    struct group_item *item;

    for (uint32_t i = 0; i < group.n; i++) {
        item = &group.item[i];
        if (!item->given && !item->hccl.receives && item->hccl.peer == item->comm->rank)
            TRY(group_copy_own(item));
    }
    for (uint32_t i = 0; i < group.n; i++)
        if (!group.item[i].given) TRY(group_submit(i));
    return BP_OK;
}

enum bp_status npu_ccl_group_end(void *self)
{
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    enum bp_status status = BP_OK;

    if (--group.depth) return BP_OK;
    if (group.n) {
        status = npu_device_use(self, group.item[0].comm->device->index, &caller, &device);
        if (!status) status = group_submit_all();
    }
    free(group.item);
    group.item = NULL;
    group.n = group.room = 0;
    return status;
}
