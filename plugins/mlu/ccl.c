/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.c: implements collectives by CNCL, which is opened when the first communicator requests its
 * version. A call for which CNCL differs from ccl.h is unsupported, and the core executes it.
 *
 * BP_MLU_CNCL names the file of the library instead ("off": none). */
#include "ccl.h"
#include "folders.h"
#include <string.h>

#define KIT_LIST "mlu/cncl.def"
#define KIT_TABLE cncl
#define KIT_CALLS struct cncl_calls
#include <kit/table.h>

const struct cncl_calls *const mlu_cncl = &cncl.call;

static struct kit_library library = KIT_LIBRARY(cncl_symbols, cncl.function,
                                                ": install CNCL 1.x, of a CNToolkit 3");

/* CNCL's numbers of types and reductions. */
enum {
    TYPE_F16 = 0x10,
    TYPE_BF16 = 0x11,
    TYPE_F32 = 0x12,
    TYPE_I8 = 0x20,
    TYPE_I16 = 0x21,
    TYPE_I32 = 0x22,
    TYPE_I64 = 0x23,
    TYPE_U8 = 0x30,
    TYPE_U16 = 0x31,
    TYPE_U32 = 0x32,
    TYPE_U64 = 0x33
};
enum {
    CNCL_SUM = 0,
    CNCL_PRODUCT = 1,
    CNCL_MAX = 2,
    CNCL_MIN = 3
};

/* A send or a receive of a rank with itself, which CNCL does not have: the second of the two makes
 * a copy. */
struct ccl_own {
    struct mlu_comm *comm;
    bool sends;
    struct bp_ccl_call call;
};
enum {
    CCL_OWN = 16
};

/* The calling thread's group: its depth, the device of its calls, and the transfers of a rank with
 * itself that have no other half yet. */
static _Thread_local struct {
    int depth;
    struct mlu_device *device;
    struct ccl_own own[CCL_OWN];
    int n_own;
} group;

/* A code of CNCL that its runtime's failure causes does not name that failure. */
enum bp_status mlu_ccl_check(const struct mlu *self, const struct mlu_device *device,
                             const char *function, int code)
{
    struct kit_call call = {self->host, "mlu", device ? (int64_t)device->number : -1,
                            function,   code,  NULL};
    size_t free_bytes, total;

    if (__builtin_expect(code == CNCL_SUCCESS && !kit_is_traced(), 1)) return BP_OK;
    kit_call_trace(&call);
    if (code == CNCL_SUCCESS) return BP_OK;
    if (device) TRY(MLU_WAIT(device, cnrtMemGetInfo, &free_bytes, &total));
    return kit_call_fail(&call, BP_ERR_DEVICE, mlu_cncl->cnclGetErrorStr(code), NULL);
}

static enum bp_status mlu_ccl_version(void *p, uint32_t *out_version)
{
    static const char *const names[] = {"libcncl.so", "libcncl.so.*", NULL};
    static const struct kit_wanted wanted = {"mlu", "CNCL", names, MLU_FOLDERS, mlu_places};
    struct mlu *self = p;
    int v[3] = {0};

    if (kit_library_load(&library, &wanted))
        return bp_fail(self->host, BP_ERR_UNSUPPORTED, "mlu: %s", library.why);
    TRY(mlu_ccl_check(self, NULL, "cnclGetLibVersion",
                      mlu_cncl->cnclGetLibVersion(&v[0], &v[1], &v[2])));
    *out_version = (uint32_t)(v[0] * 1000000 + v[1] * 1000 + v[2]);
    return BP_OK;
}

static enum bp_status mlu_ccl_unique_id_long(void *p, void *out_id)
{
    KIT_CONTEXT caller = {NULL};
    struct mlu *self = p;
    struct mlu_device *d;
    struct mlu_id id = {.port = 0};

    TRY(mlu_device_use(self, 0, &caller, &d));
    TRY(mlu_ccl_check(self, d, "cnclGetCliqueId", mlu_cncl->cnclGetCliqueId(&id.clique)));
    TRY(mlu_meeting_open(self, &id));
    *(struct mlu_id *)out_id = id;
    return BP_OK;
}

static enum bp_status mlu_ccl_comm_create(void *p, uint32_t device, const struct bp_ccl_id *id,
                                          uint32_t rank, uint32_t n_rank, void **out_comm)
{
    struct mlu *self = p;
    const struct mlu_id *long_id = (const void *)id;
    KIT_CONTEXT caller = {NULL};
    struct mlu_comm *comm;
    struct mlu_device *d;
    enum bp_status status;
    uint32_t here;

    TRY(mlu_device_use(self, device, &caller, &d));
    TRY(mlu_meeting_attend(self, long_id, rank, n_rank, &here));
    comm = self->host->allocate(self->host->ctx, sizeof *comm, _Alignof(struct mlu_comm));
    if (!comm)
        return bp_fail(self->host, BP_ERR_MEMORY, "mlu:%u: no memory for a communicator", device);
    status = mlu_clique_join(d, long_id, rank, n_rank, here, comm);
    if (status == BP_OK) *out_comm = comm;
    else self->host->release(self->host->ctx, comm, sizeof *comm);
    return status;
}

static void mlu_ccl_comm_destroy(void *p, void *q)
{
    struct mlu *self = p;
    struct mlu_comm *comm = q;
    KIT_CONTEXT caller = {NULL};

    mlu_device_reuse(self, comm->device->number, &caller);
    mlu_clique_leave(comm);
    self->host->release(self->host->ctx, comm, sizeof *comm);
}

static void mlu_ccl_comm_abort(void *self, void *comm)
{
    (void)self;
    mlu_clique_abort(comm);
}

static enum bp_status mlu_ccl_comm_error(void *self, void *p)
{
    struct mlu_comm *comm = p;
    KIT_CONTEXT caller = {NULL};
    struct mlu_device *d;
    int code;

    TRY(mlu_device_use(self, comm->device->number, &caller, &d));
    if (mlu_clique_is_aborted(comm))
        return bp_fail(d->self->host, BP_ERR_DEVICE, "mlu:%u: the communicator was aborted",
                       d->number);
    code = mlu_clique_error(comm);
    return code == CNCL_IN_PROGRESS ? BP_OK : mlu_ccl_check(self, d, "a call under way", code);
}

/* CNCL's number of an element type; -1: it has none. */
static int ccl_type(uint32_t dtype)
{
    switch (dtype) {
    case BP_I8: return TYPE_I8;
    case BP_I16: return TYPE_I16;
    case BP_I32: return TYPE_I32;
    case BP_I64: return TYPE_I64;
    case BP_U8: return TYPE_U8;
    case BP_U16: return TYPE_U16;
    case BP_U32: return TYPE_U32;
    case BP_U64: return TYPE_U64;
    case BP_F16: return TYPE_F16;
    case BP_BF16: return TYPE_BF16;
    case BP_F32: return TYPE_F32;
    default: return -1;
    }
}

/* CNCL's number of a reduction; -1: it has none with the rules of ccl.h. Its min and max are not
 * used for floats, because their results for NaN are not known. */
static int ccl_reduction(const struct bp_ccl_call *call)
{
    bool floats = BP_MASK_FLOAT >> call->dtype & 1;

    switch (call->reduction) {
    case BP_REDUCE_SUM: return CNCL_SUM;
    case BP_REDUCE_PRODUCT: return CNCL_PRODUCT;
    case BP_REDUCE_MIN: return floats ? -1 : CNCL_MIN;
    case BP_REDUCE_MAX: return floats ? -1 : CNCL_MAX;
    default: return -1;
    }
}

/* The parameters of every call. BP_ERR_UNSUPPORTED, without a message: CNCL cannot execute it. */
struct ccl_given {
    struct mlu_device *device;
    void *comm, *queue;
    int type, reduction;
};

static enum bp_status ccl_give(void *p, void *stream, const struct bp_ccl_call *call, bool reduces,
                               struct kit_context *caller, struct ccl_given *out)
{
    struct mlu_comm *comm = p;

    *out = (struct ccl_given){.comm = comm->raw,
                              .queue = ((struct mlu_stream *)stream)->raw,
                              .type = ccl_type(call->dtype),
                              .reduction = reduces ? ccl_reduction(call) : 0};
    if (out->type < 0 || out->reduction < 0) return BP_ERR_UNSUPPORTED;
    TRY(mlu_device_use(comm->device->self, comm->device->number, caller, &out->device));
    if (group.depth) group.device = out->device;
    if (!mlu_clique_is_aborted(comm)) return BP_OK;
    return bp_fail(out->device->self->host, BP_ERR_DEVICE, "mlu:%u: the communicator was aborted",
                   out->device->number);
}

#define CCL_CALL(g, name, ...) \
    mlu_ccl_check((g)->device->self, (g)->device, #name, mlu_cncl->name(__VA_ARGS__))

static enum bp_status mlu_ccl_all_reduce(void *self, void *comm, void *stream,
                                         const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct ccl_given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return CCL_CALL(&g, cnclAllReduce, call->src, call->dst, call->count, g.type, g.reduction,
                    g.comm, g.queue);
}

static enum bp_status mlu_ccl_reduce(void *self, void *comm, void *stream,
                                     const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct ccl_given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return CCL_CALL(&g, cnclReduce, call->src, call->dst, call->count, g.type, g.reduction,
                    (int)call->root, g.comm, g.queue);
}

static enum bp_status mlu_ccl_broadcast(void *self, void *comm, void *stream,
                                        const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct ccl_given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    return CCL_CALL(&g, cnclBroadcast, call->src, call->dst, call->count, g.type, (int)call->root,
                    g.comm, g.queue);
}

static enum bp_status mlu_ccl_all_gather(void *self, void *comm, void *stream,
                                         const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct ccl_given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    return CCL_CALL(&g, cnclAllGather, call->src, call->dst, call->count, g.type, g.comm, g.queue);
}

static enum bp_status mlu_ccl_reduce_scatter(void *self, void *comm, void *stream,
                                             const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct ccl_given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, true, &caller, &g));
    return CCL_CALL(&g, cnclReduceScatter, call->src, call->dst, call->count, g.type, g.reduction,
                    g.comm, g.queue);
}

/* The halves of such transfers belong together in their order. All calls but reductions have
 * bytes. */
static enum bp_status ccl_transfer_own(struct mlu_comm *comm, void *stream, bool sends,
                                       const struct bp_ccl_call *call)
{
    struct mlu_device *d = comm->device;
    const struct bp_ccl_call *from = call, *to = call;
    struct bp_copy copy;
    struct ccl_own other;
    int i = 0;

    while (i < group.n_own && (group.own[i].comm != comm || group.own[i].sends == sends)) i++;
    if (i == group.n_own) {
        if (!group.depth || i == CCL_OWN)
            return bp_fail(d->self->host, BP_ERR_UNSUPPORTED,
                           "mlu:%u: %d transfers of a rank with itself, without their other halves "
                           "in the same group",
                           d->number, i + 1);
        group.own[group.n_own++] = (struct ccl_own){comm, sends, *call};
        return BP_OK;
    }
    other = group.own[i];
    group.n_own--;
    memmove(group.own + i, group.own + i + 1, (size_t)(group.n_own - i) * sizeof *group.own);
    if (sends) to = &other.call;
    else from = &other.call;
    copy = (struct bp_copy){to->dst_memory, to->dst, from->src_memory, from->src, call->count};
    if (copy.dst == copy.src || !copy.size) return BP_OK;
    return mlu_copy_within(d->self, d->number, stream, &copy);
}

static bool ccl_is_own(const struct mlu_comm *comm, const struct bp_ccl_call *call)
{
    return call->root == comm->rank;
}

static enum bp_status mlu_ccl_send(void *self, void *comm, void *stream,
                                   const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct ccl_given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    if (ccl_is_own(comm, call)) return ccl_transfer_own(comm, stream, true, call);
    return CCL_CALL(&g, cnclSend, (void *)(uintptr_t)call->src, call->count, g.type,
                    (int)call->root, g.comm, g.queue);
}

static enum bp_status mlu_ccl_recv(void *self, void *comm, void *stream,
                                   const struct bp_ccl_call *call)
{
    KIT_CONTEXT caller = {NULL};
    struct ccl_given g;

    (void)self;
    TRY(ccl_give(comm, stream, call, false, &caller, &g));
    if (ccl_is_own(comm, call)) return ccl_transfer_own(comm, stream, false, call);
    return CCL_CALL(&g, cnclRecv, call->dst, call->count, g.type, (int)call->root, g.comm, g.queue);
}

static enum bp_status mlu_ccl_group_begin(void *self)
{
    TRY(mlu_ccl_check(self, NULL, "cnclGroupStart", mlu_cncl->cnclGroupStart()));
    group.depth++;
    return BP_OK;
}

/* The calls of the group are enqueued now: their device must be current. */
static enum bp_status mlu_ccl_group_end(void *self)
{
    struct mlu_device *device = group.device;
    KIT_CONTEXT caller = {NULL};

    if (device) mlu_device_reuse(self, device->number, &caller);
    if (--group.depth == 0) {
        group.device = NULL;
        group.n_own = 0;
    }
    return mlu_ccl_check(self, device, "cnclGroupEnd", mlu_cncl->cnclGroupEnd());
}

const struct bp_ccl mlu_ccl = {
    .size = sizeof mlu_ccl,
    .comm_create = mlu_ccl_comm_create,
    .comm_destroy = mlu_ccl_comm_destroy,
    .comm_abort = mlu_ccl_comm_abort,
    .comm_error = mlu_ccl_comm_error,
    .all_reduce = mlu_ccl_all_reduce,
    .reduce = mlu_ccl_reduce,
    .broadcast = mlu_ccl_broadcast,
    .all_gather = mlu_ccl_all_gather,
    .reduce_scatter = mlu_ccl_reduce_scatter,
    .send = mlu_ccl_send,
    .recv = mlu_ccl_recv,
    .group_begin = mlu_ccl_group_begin,
    .group_end = mlu_ccl_group_end,
    .version = mlu_ccl_version,
    .id_size = sizeof(struct mlu_id),
    .unique_id_long = mlu_ccl_unique_id_long,
};
