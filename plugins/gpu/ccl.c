/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.c: implements collectives by NCCL, or by RCCL, which has the same functions. The library is
 * opened when the first communicator requests its version. Calls are passed to the library
 * unchanged; a call for which the library differs from ccl.h is unsupported, and the core executes
 * it. */
#include "nccl.h"
#include "vendor.h"
#include <time.h>

#ifndef GPU_CCL_NAME
#define GPU_CCL_NAME "NCCL"
#endif

#define KIT_LIST "gpu/nccl.def"
#define KIT_TABLE nccl
#define KIT_CALLS struct nccl_calls
#define KIT_MORE struct gpu_vendor_calls first;
#include <kit/table.h>
_Static_assert(sizeof(struct bp_ccl_id) == 128, "as ncclUniqueId, which is passed by value");

struct gpu_vendor gpu_nccl = {
    .name = GPU_CCL_NAME, .id = GPU_VENDOR_CCL, .calls = &nccl.first,
    .library = KIT_LIBRARY(nccl_symbols, nccl.function, NULL),
};

/* A communicator of the library. An abort destroys it. If calls of the communicator do not block,
 * the plugin polls after each call until the call is complete, which means that the work is in the
 * stream, not that the work has ended. */
struct gpu_comm {
    void *raw;
    struct gpu_device *device;
    bool waits;
    pthread_mutex_t lock; /* guards polls and the abort */
    atomic_bool aborted;
};

/* The calling thread's group, and the communicator that the group's calls use. */
static _Thread_local struct {
    int depth;
    struct gpu_comm *comm;
} group;

/* The pause between two polls, and the time limit of ncclCommFinalize: other ranks may not have
 * reached it yet. */
enum { PAUSE_NS = 10000, FINALIZE_NS = 2000000000 };

static enum bp_status ccl_check(const struct gpu *gpu, const char *function, int code)
{
    struct kit_call call = gpu_call_made(gpu, NULL, function, code);

    if (__builtin_expect(code == NCCL_SUCCESS, 1)) return BP_OK;
    return kit_call_fail(&call, BP_ERR_DEVICE, nccl.call.ncclGetErrorString(code), NULL);
}

#define CALL_NCCL(gpu, name, ...) ccl_check(gpu, #name, nccl.call.name(__VA_ARGS__))

enum bp_status gpu_ccl_version(void *self, uint32_t *out_version)
{
    struct gpu *gpu = self;
    int version;

    if (!gpu_vendor_open(&gpu_nccl))
        return bp_fail(gpu->host, BP_ERR_UNSUPPORTED, GPU_NAME ": %s", gpu_nccl.library.why);
    TRY(CALL_NCCL(gpu, ncclGetVersion, &version));
    gpu_vendor_report(gpu, &gpu_nccl, (uint64_t)version);
    *out_version = (uint32_t)version;
    return BP_OK;
}

enum bp_status gpu_ccl_unique_id(void *self, struct bp_ccl_id *out)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;

    TRY(gpu_device_use(self, 0, &caller, &device));
    return CALL_NCCL(device->gpu, ncclGetUniqueId, out);
}

static struct gpu_comm *new_comm(struct gpu_device *device, bool waits)
{
    const struct bp_host *host = device->gpu->host;
    struct gpu_comm *comm = host->allocate(host->ctx, sizeof *comm, _Alignof(struct gpu_comm));

    if (!comm) {
        bp_fail(host, BP_ERR_MEMORY, GPU_NAME ":%u: no memory for a communicator", device->index);
        return NULL;
    }
    *comm = (struct gpu_comm){.device = device, .waits = waits};
    pthread_mutex_init(&comm->lock, NULL);
    return comm;
}

static void drop_comm(struct gpu_comm *comm)
{
    const struct bp_host *host = comm->device->gpu->host;

    pthread_mutex_destroy(&comm->lock);
    host->release(host->ctx, comm, sizeof *comm);
}

enum bp_status gpu_ccl_comm_create(void *self, uint32_t index, const struct bp_ccl_id *id,
                                   uint32_t rank, uint32_t n_rank, void **out_comm)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    struct gpu_comm *comm;
    enum bp_status status;

    TRY(gpu_device_use(self, index, &caller, &device));
    comm = new_comm(device, true);
    if (!comm) return BP_ERR_MEMORY;
    status = CALL_NCCL(device->gpu, ncclCommInitRank, &comm->raw, (int)n_rank, *id, (int)rank);
    if (status == BP_OK) *out_comm = comm;
    else drop_comm(comm);
    return status;
}

/* Creates a communicator whose calls do not block either: a thread of the library executes them. */
enum bp_status gpu_ccl_comm_begin(void *self, uint32_t index, const struct bp_ccl_id *id,
                                  uint32_t rank, uint32_t n_rank, void **out_comm)
{
    struct nccl_config config = {sizeof config, NCCL_CONFIG_MAGIC, NCCL_CONFIG_VERSION, 0,
                                 NCCL_AS_USUAL};
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    struct gpu_comm *comm;
    int code;

    if (!nccl.call.ncclCommInitRankConfig || !nccl.call.ncclCommFinalize ||
        kit_setting_is_on(GPU_NAME, "CCL_WAITS"))
        return BP_ERR_UNSUPPORTED;
    TRY(gpu_device_use(self, index, &caller, &device));
    comm = new_comm(device, false);
    if (!comm) return BP_ERR_MEMORY;
    code = nccl.call.ncclCommInitRankConfig(&comm->raw, (int)n_rank, *id, (int)rank, &config);
    if (code == NCCL_SUCCESS || code == NCCL_IN_PROGRESS) {
        *out_comm = comm;
        return BP_OK;
    }
    drop_comm(comm);
    return ccl_check(self, "ncclCommInitRankConfig", code);
}

/* Queries the communicator's state in the library. NCCL_SUCCESS if the communicator has been
 * aborted. */
static int ccl_poll(struct gpu_comm *comm, int *out_code)
{
    int code = NCCL_SUCCESS;

    *out_code = NCCL_SUCCESS;
    pthread_mutex_lock(&comm->lock);
    if (!atomic_load(&comm->aborted)) code = nccl.call.ncclCommGetAsyncError(comm->raw, out_code);
    pthread_mutex_unlock(&comm->lock);
    return code;
}

enum bp_status gpu_ccl_comm_joined(void *self, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_comm *comm = p;
    int code;

    gpu_device_reuse(self, comm->device->index, &caller);
    TRY(ccl_check(self, "ncclCommGetAsyncError", ccl_poll(comm, &code)));
    return code == NCCL_IN_PROGRESS ? BP_ERR_TIMEOUT
                                    : ccl_check(self, "ncclCommInitRankConfig", code);
}

/* Waits until a call that returned `code` is complete, and returns its final code. ns: the time
 * limit; 0: none. */
static int ccl_settle(struct gpu_comm *comm, int code, uint64_t ns)
{
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    uint64_t began = kit_now_ns();
    int failed;

    while (code == NCCL_IN_PROGRESS && !atomic_load(&comm->aborted)) {
        nanosleep(&pause, NULL);
        failed = ccl_poll(comm, &code);
        if (failed) return failed;
        if (ns && kit_now_ns() - began > ns) break;
    }
    return code;
}

static void ccl_note(const struct gpu *gpu, const char *function, int code)
{
    struct kit_call call = gpu_call_made(gpu, NULL, function, code);

    if (code != NCCL_SUCCESS && code != NCCL_IN_PROGRESS)
        kit_call_warn(&call, nccl.call.ncclGetErrorString(code));
}

static void ccl_abort(const struct gpu *gpu, struct gpu_comm *comm)
{
    pthread_mutex_lock(&comm->lock);
    if (!atomic_exchange(&comm->aborted, true))
        ccl_note(gpu, "ncclCommAbort", nccl.call.ncclCommAbort(comm->raw));
    pthread_mutex_unlock(&comm->lock);
}

void gpu_ccl_comm_abort(void *self, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_comm *comm = p;

    gpu_device_reuse(self, comm->device->index, &caller);
    ccl_abort(self, comm);
}

/* Other ranks may not have reached this call. false: the caller must abort the communicator,
 * without them. */
static bool ccl_finalize(const struct gpu *gpu, struct gpu_comm *comm)
{
    int code;

    if (comm->waits) return true;
    code = ccl_settle(comm, nccl.call.ncclCommFinalize(comm->raw), FINALIZE_NS);
    ccl_note(gpu, "ncclCommFinalize", code);
    return code == NCCL_SUCCESS;
}

void gpu_ccl_comm_destroy(void *self, void *p)
{
    KIT_CONTEXT caller = {NULL};
    struct gpu_comm *comm = p;

    gpu_device_reuse(self, comm->device->index, &caller);
    if (!atomic_load(&comm->aborted)) {
        if (!ccl_finalize(self, comm)) ccl_abort(self, comm);
        else ccl_note(self, "ncclCommDestroy", nccl.call.ncclCommDestroy(comm->raw));
    }
    drop_comm(comm);
}

enum bp_status gpu_ccl_comm_error(void *self, void *p)
{
    int code;

    TRY(ccl_check(self, "ncclCommGetAsyncError", ccl_poll(p, &code)));
    return code == NCCL_IN_PROGRESS ? BP_OK : ccl_check(self, "a call under way", code);
}

/* The library's number of an element type; -1: it has no such type. */
static int ccl_type_of(uint32_t dtype)
{
    switch (dtype) {
    case BP_I8: return NCCL_I8;
    case BP_U8: return NCCL_U8;
    case BP_I32: return NCCL_I32;
    case BP_U32: return NCCL_U32;
    case BP_I64: return NCCL_I64;
    case BP_U64: return NCCL_U64;
    case BP_F16: return NCCL_F16;
    case BP_F32: return NCCL_F32;
    case BP_F64: return NCCL_F64;
    case BP_BF16: return NCCL_BF16;
    default: return -1;
    }
}

/* The library's number of a reduction; -1: it has none with the semantics of ccl.h. Its min and max
 * ignore NaN, so they are not used for floats; averages of integers are not used because their
 * rounding is not documented. */
static int reduction_of(const struct bp_ccl_call *call)
{
    bool floats = BP_MASK_FLOAT >> call->dtype & 1;

    switch (call->reduction) {
    case BP_REDUCE_SUM: return NCCL_SUM;
    case BP_REDUCE_PRODUCT: return NCCL_PRODUCT;
    case BP_REDUCE_MIN: return floats ? -1 : NCCL_MIN;
    case BP_REDUCE_MAX: return floats ? -1 : NCCL_MAX;
    case BP_REDUCE_AVERAGE: return floats ? NCCL_AVERAGE : -1;
    default: return -1;
    }
}

/* The parameters of every call. BP_ERR_UNSUPPORTED, without a message: the library cannot execute
 * the call. */
struct given {
    struct gpu_device *device;
    struct gpu_comm *of;
    void *comm, *stream;
    int type, reduction;
};

static enum bp_status ccl_give(void *p, void *stream, const struct bp_ccl_call *call, bool reduces,
                               struct kit_context *caller, struct given *out)
{
    struct gpu_comm *comm = p;

    *out = (struct given){.of = comm, .comm = comm->raw,
                          .stream = ((struct gpu_stream *)stream)->raw,
                          .type = ccl_type_of(call->dtype),
                          .reduction = reduces ? reduction_of(call) : 0};
    if (out->type < 0 || out->reduction < 0) return BP_ERR_UNSUPPORTED;
    return gpu_device_use(comm->device->gpu, comm->device->index, caller, &out->device);
}

/* Waits for the call, or in a group leaves that to the group's end. gpu_vendor_check reports a
 * failure of the driver first, because the library does not report that a device is lost. */
static enum bp_status ccl_finish(const struct given *g, const char *function, int code)
{
    if (group.depth) {
        group.comm = g->of;
        if (code == NCCL_IN_PROGRESS) code = NCCL_SUCCESS;
    } else {
        code = ccl_settle(g->of, code, 0);
    }
    return gpu_vendor_check(g->device, &gpu_nccl, function, code);
}

#define GIVE(name, ...) ccl_finish(&g, #name, nccl.call.name(__VA_ARGS__))

enum bp_status gpu_ccl_all_reduce(void *self, void *comm, void *stream,
                                  const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return GIVE(ncclAllReduce, call->src, call->dst, call->count, g.type, g.reduction, g.comm,
                g.stream);
}

enum bp_status gpu_ccl_reduce(void *self, void *comm, void *stream, const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return GIVE(ncclReduce, call->src, call->dst, call->count, g.type, g.reduction,
                (int)call->root, g.comm, g.stream);
}

enum bp_status gpu_ccl_broadcast(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    return GIVE(ncclBroadcast, call->src, call->dst, call->count, g.type, (int)call->root, g.comm,
                g.stream);
}

enum bp_status gpu_ccl_all_gather(void *self, void *comm, void *stream,
                                  const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    return GIVE(ncclAllGather, call->src, call->dst, call->count, g.type, g.comm, g.stream);
}

enum bp_status gpu_ccl_reduce_scatter(void *self, void *comm, void *stream,
                                      const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return GIVE(ncclReduceScatter, call->src, call->dst, call->count, g.type, g.reduction, g.comm,
                g.stream);
}

enum bp_status gpu_ccl_send(void *self, void *comm, void *stream, const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    return GIVE(ncclSend, call->src, call->count, g.type, (int)call->root, g.comm, g.stream);
}

enum bp_status gpu_ccl_recv(void *self, void *comm, void *stream, const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    return GIVE(ncclRecv, call->dst, call->count, g.type, (int)call->root, g.comm, g.stream);
}

enum bp_status gpu_ccl_group_begin(void *self)
{
    TRY(ccl_check(self, "ncclGroupStart", nccl.call.ncclGroupStart()));
    group.depth++;
    return BP_OK;
}

enum bp_status gpu_ccl_group_end(void *self)
{
    int code = nccl.call.ncclGroupEnd();
    struct gpu_comm *comm = group.comm;

    if (--group.depth == 0) group.comm = NULL;
    if (comm && !group.depth) code = ccl_settle(comm, code, 0);
    return ccl_check(self, "ncclGroupEnd", code);
}
