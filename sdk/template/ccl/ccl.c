/* SPDX-License-Identifier: Apache-2.0 */
/* ccl.c: implements collectives between ranks that share memory. Read next: segment.c.
 *
 * A real plugin passes each call to the vendor's library, which submits the call to the stream and
 * returns at once. Here the calling thread plays the device: it waits for the earlier work and for
 * the other ranks, so a call has done its work when it returns. */
#include "ccl.h"
#include <string.h>

/* BP_ERR_UNSUPPORTED, without a message, makes the core reduce in host memory. A real plugin has a
 * table of its library's dtypes and reductions. */
static bool ccl_can_reduce(const struct bp_ccl_call *call)
{
    return call->dtype == BP_F32 && call->reduction == BP_REDUCE_SUM;
}

/* The calls other than reductions have bytes (BP_U8). */
static uint64_t ccl_element(const struct bp_ccl_call *call)
{
    return call->dtype == BP_F32 ? 4 : 1;
}

/* A call in progress: its buffers, and the number of bytes of one rank's part. */
struct ccl_work {
    struct template_comm *comm;
    const unsigned char *src;
    unsigned char *dst;
    uint64_t bytes, parts; /* parts that this rank shows: 1, or one for each rank */
    uint32_t root;         /* that receives the result; UINT32_MAX: all ranks do */
};

/* Adds the ranks' numbers in the order of ranks, so that all ranks have the same bits. */
static void ccl_sum(const struct ccl_work *w, uint64_t window_at, uint64_t at, uint64_t bytes)
{
    float *out = (void *)(w->dst + at);

    for (uint64_t i = 0; i < bytes / sizeof(float); i++) {
        float sum = 0;
        for (uint32_t r = 0; r < w->comm->n_rank; r++)
            sum += ((const float *)(const void *)(w->comm->segment->window[r] + window_at))[i];
        out[i] = sum;
    }
}

static void ccl_gather(const struct ccl_work *w, uint64_t window_at, uint64_t at, uint64_t bytes)
{
    for (uint32_t r = 0; r < w->comm->n_rank; r++)
        memcpy(w->dst + r * w->bytes + at, w->comm->segment->window[r] + window_at, bytes);
}

/* Copies what the root shows. */
static void ccl_take(const struct ccl_work *w, uint64_t window_at, uint64_t at, uint64_t bytes)
{
    memcpy(w->dst + at, w->comm->segment->window[w->root] + window_at, bytes);
}

/* Piece by piece, each rank that has data shows them in its window; all ranks meet; the receivers
 * read the windows; all ranks meet, before the windows change. */
static enum bp_status ccl_run(const struct ccl_work *w, bool shows, bool receives,
                              void (*receive)(const struct ccl_work *w, uint64_t window_at,
                                              uint64_t at, uint64_t bytes))
{
    struct template_comm *comm = w->comm;
    uint64_t most = CCL_WINDOW / w->parts / 64 * 64;

    for (uint64_t at = 0; at < w->bytes; at += most) {
        uint64_t bytes = w->bytes - at < most ? w->bytes - at : most;
        uint64_t own = w->parts > 1 ? comm->rank * most : 0;
        enum bp_status status;
        for (uint64_t part = 0; shows && part < w->parts; part++)
            memcpy(comm->segment->window[comm->rank] + part * most, w->src + part * w->bytes + at,
                   bytes);
        status = ccl_meet(comm);
        if (status) return status;
        if (receives) receive(w, own, at, bytes);
        status = ccl_meet(comm);
        if (status) return status;
    }
    return BP_OK;
}

/* Waits for the earlier work of the stream, and finds the buffers. */
static enum bp_status ccl_prepare(void *comm, void *stream, const struct bp_ccl_call *call,
                                  struct ccl_work *out)
{
    struct template_comm *c = comm;

    *out = (struct ccl_work){.comm = c,
                             .parts = 1,
                             .root = UINT32_MAX,
                             .src = template_reach(call->src_memory, call->src),
                             .dst = template_reach(call->dst_memory, call->dst),
                             .bytes = call->count * ccl_element(call)};
    return template_synchronize(c->self, c->device, stream);
}

static enum bp_status ccl_all_reduce(void *self, void *comm, void *stream,
                                     const struct bp_ccl_call *call)
{
    struct ccl_work w;
    enum bp_status status;

    if (!ccl_can_reduce(call)) return BP_ERR_UNSUPPORTED;
    status = ccl_prepare(comm, stream, call, &w);
    return status ? status : ccl_run(&w, true, true, ccl_sum);
}

static enum bp_status ccl_reduce(void *self, void *comm, void *stream,
                                 const struct bp_ccl_call *call)
{
    struct ccl_work w;
    enum bp_status status;

    if (!ccl_can_reduce(call)) return BP_ERR_UNSUPPORTED;
    status = ccl_prepare(comm, stream, call, &w);
    return status ? status : ccl_run(&w, true, w.comm->rank == call->root, ccl_sum);
}

static enum bp_status ccl_broadcast(void *self, void *comm, void *stream,
                                    const struct bp_ccl_call *call)
{
    struct ccl_work w;
    enum bp_status status = ccl_prepare(comm, stream, call, &w);

    w.root = call->root;
    return status ? status : ccl_run(&w, w.comm->rank == call->root, true, ccl_take);
}

static enum bp_status ccl_all_gather(void *self, void *comm, void *stream,
                                     const struct bp_ccl_call *call)
{
    struct ccl_work w;
    enum bp_status status = ccl_prepare(comm, stream, call, &w);

    return status ? status : ccl_run(&w, true, true, ccl_gather);
}

static enum bp_status ccl_reduce_scatter(void *self, void *comm, void *stream,
                                         const struct bp_ccl_call *call)
{
    struct ccl_work w;
    enum bp_status status;

    if (!ccl_can_reduce(call)) return BP_ERR_UNSUPPORTED;
    status = ccl_prepare(comm, stream, call, &w);
    w.parts = w.comm->n_rank;
    return status ? status : ccl_run(&w, true, true, ccl_sum);
}

/* ---- sends and receives ---- */

/* Those of one thread between group_begin and group_end make progress together. */
static _Thread_local struct ccl_group {
    unsigned depth, n;
    struct ccl_transfer {
        struct template_comm *comm;
        unsigned char *at; /* the next byte */
        uint64_t left;
        uint32_t peer;
        bool sends;
    } transfer[256];
} group;

/* Moves a piece, if the mail between the two ranks has room or has come. */
static bool transfer_step(struct ccl_transfer *t)
{
    struct ccl_segment *s = t->comm->segment;
    uint32_t from = t->sends ? t->comm->rank : t->peer, to = t->sends ? t->peer : t->comm->rank;
    struct ccl_mail *mail = &s->mail[from][to];
    bool full = atomic_load(&mail->written) != atomic_load(&mail->read);
    uint64_t bytes = t->left < CCL_MAIL ? t->left : CCL_MAIL;

    if (full == t->sends) return false;
    if (t->sends) memcpy(mail->bytes, t->at, bytes);
    else memcpy(t->at, mail->bytes, bytes);
    atomic_fetch_add(t->sends ? &mail->written : &mail->read, 1);
    t->at += bytes;
    t->left -= bytes;
    return true;
}

/* Transfers in one direction between two ranks keep their order. */
static bool transfer_is_first(const struct ccl_transfer *t)
{
    for (const struct ccl_transfer *e = group.transfer; e < t; e++)
        if (e->left && e->comm == t->comm && e->peer == t->peer && e->sends == t->sends)
            return false;
    return true;
}

static enum bp_status group_run(void)
{
    unsigned looks = 0;

    for (bool some = true; some;) {
        bool moved = some = false;
        for (struct ccl_transfer *t = group.transfer; t < group.transfer + group.n; t++) {
            if (!t->left) continue;
            if (atomic_load(&t->comm->aborted)) return template_ccl_error(t->comm->self, t->comm);
            if (transfer_is_first(t)) moved |= transfer_step(t);
            some |= t->left > 0;
        }
        if (moved) looks = 0;
        else ccl_pause(&looks);
    }
    return BP_OK;
}

static enum bp_status ccl_group_begin(void *self)
{
    group.depth++;
    return BP_OK;
}

static enum bp_status ccl_group_end(void *self)
{
    enum bp_status status;

    if (--group.depth) return BP_OK;
    status = group_run();
    group.n = 0;
    return status;
}

static enum bp_status transfer_add(struct template_comm *comm, void *stream, bool sends,
                                   const struct bp_ccl_call *call)
{
    enum bp_status status = template_synchronize(comm->self, comm->device, stream);
    void *at = sends ? template_reach(call->src_memory, call->src)
                     : template_reach(call->dst_memory, call->dst);

    if (status) return status;
    if (group.n == sizeof group.transfer / sizeof *group.transfer)
        return bp_fail(comm->self->host, BP_ERR_UNSUPPORTED,
                       "template:%u: a group of more than %u sends and receives", comm->device,
                       group.n);
    ccl_group_begin(comm->self);
    group.transfer[group.n++] = (struct ccl_transfer){comm, at, call->count * ccl_element(call),
                                                      call->root, sends};
    return ccl_group_end(comm->self);
}

static enum bp_status ccl_send(void *self, void *comm, void *stream, const struct bp_ccl_call *call)
{
    return transfer_add(comm, stream, true, call);
}

static enum bp_status ccl_recv(void *self, void *comm, void *stream, const struct bp_ccl_call *call)
{
    return transfer_add(comm, stream, false, call);
}

const struct bp_ccl template_ccl = {
    .size = sizeof template_ccl,
    .unique_id = template_ccl_unique_id,
    .comm_create = template_ccl_create,
    .comm_destroy = template_ccl_destroy,
    .comm_abort = template_ccl_abort,
    .comm_error = template_ccl_error,
    .all_reduce = ccl_all_reduce,
    .reduce = ccl_reduce,
    .broadcast = ccl_broadcast,
    .all_gather = ccl_all_gather,
    .reduce_scatter = ccl_reduce_scatter,
    .send = ccl_send,
    .recv = ccl_recv,
    .group_begin = ccl_group_begin,
    .group_end = ccl_group_end,
    .comm_begin = template_ccl_begin,
    .comm_joined = template_ccl_joined,
};
