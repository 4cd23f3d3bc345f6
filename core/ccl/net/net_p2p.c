/* SPDX-License-Identifier: Apache-2.0 */
/* net_p2p.c: transfers parts between ranks of a call, on this host or between hosts, and runs sends
 * and receives. Transfers between ranks of this host use shared memory at the same time. A send
 * between hosts is a header with the data that fits behind it, and a second message for larger
 * data. */
#include "net_comm.h"

#include <inttypes.h>
#include <stdlib.h>

static void add_local(struct bp_net_transfer *m, uint32_t call, uint32_t rank, const void *src,
                      void *dst, uint64_t bytes)
{
    if (m->n_local == m->room) {
        uint32_t room = m->room ? 2 * m->room : 16;
        struct bp_collective *more = realloc(m->local, room * sizeof *more);
        if (!more) {
            m->status = bp_comm_fail(&m->h->shm->failure, BP_ERR_MEMORY,
                                     "rank %u has no memory for a call", m->h->rank);
            return;
        }
        m->local = more;
        m->room = room;
    }
    m->local[m->n_local++] =
        (struct bp_collective){.call = call, .dtype = BP_U8, .root = m->h->ranks[rank].local,
                               .width = 1, .count = bytes, .src = src, .dst = dst,
                               .timeout_ns = m->call->timeout_ns, .signature = m->h->own.signature};
}

void bp_net_transfer_send(struct bp_net_transfer *m, uint32_t to, const void *data, uint64_t bytes)
{
    struct bp_net_comm *h = m->h;

    if (m->status || !bytes || to == h->rank) return;
    if (bp_net_is_local(h, to)) add_local(m, BP_COMM_SEND, to, data, NULL, bytes);
    else if (!bp_net_send(h, to, bp_net_tag(BP_NET_KIND_DATA, h->rank, h->number), data, bytes,
                          false))
        m->status = BP_ERR_MEMORY;
}

void bp_net_transfer_recv(struct bp_net_transfer *m, uint32_t from, void *data, uint64_t bytes)
{
    struct bp_net_comm *h = m->h;

    if (m->status || !bytes || from == h->rank) return;
    if (bp_net_is_local(h, from)) {
        add_local(m, BP_COMM_RECV, from, NULL, data, bytes);
        return;
    }
    m->status = bp_net_agree_wait(h);
    if (m->status == BP_OK &&
        !bp_net_recv(h, from, bp_net_tag(BP_NET_KIND_DATA, from, h->number), data, bytes))
        m->status = BP_ERR_MEMORY;
}

enum bp_status bp_net_transfer_run(struct bp_net_transfer *m)
{
    if (m->status == BP_OK) m->status = bp_net_agree_wait(m->h);
    if (m->status == BP_OK && m->n_local)
        m->status = bp_shm_p2p_run(m->h->shm, m->local, m->n_local, sizeof *m->local);
    m->n_local = 0;
    return m->status;
}

void bp_net_transfer_finish(struct bp_net_transfer *m)
{
    free(m->local);
}

enum bp_status bp_net_requests_wait(struct bp_net_comm *h, uint32_t from, uint32_t to)
{
    uint32_t round = 0;
    bool done;

    TRY(bp_net_agree_wait(h));
    for (uint32_t i = from; i < to;) {
        TRY(bp_net_request_check(h, h->requests[i], &done));
        if (done) i++;
        else TRY(bp_net_backoff(h, &round));
    }
    return BP_OK;
}

/* Requests or sends an ack if much data was transferred in this call; both sides have the same
 * counts. */
static enum bp_status flush_rank(struct bp_net_comm *h, uint32_t rank)
{
    static const char empty;
    struct bp_net_rank *r = &h->ranks[rank];
    bool sent = r->sent_bytes > BP_NET_UNACKED_BYTES,
         received = r->received_bytes > BP_NET_UNACKED_BYTES;

    r->sent_bytes = r->received_bytes = 0;
    if (sent && !bp_net_recv(h, rank, bp_net_tag(BP_NET_KIND_CALL_ACK, rank, h->number), NULL, 0))
        return BP_ERR_MEMORY;
    if (received && !bp_net_send(h, rank, bp_net_tag(BP_NET_KIND_CALL_ACK, h->rank, h->number),
                                 &empty, 0, true))
        return BP_ERR_MEMORY;
    return BP_OK;
}

enum bp_status bp_net_requests_flush(struct bp_net_comm *h)
{
    TRY(bp_net_requests_wait(h, 0, h->n_request));
    h->n_request = 0;
    for (uint32_t i = 0; i < h->size; i++) TRY(flush_rank(h, i));
    if (h->n_request) TRY(bp_net_requests_wait(h, 0, h->n_request));
    h->n_request = 0;
    return BP_OK;
}

enum bp_status bp_net_local_run(struct bp_net_comm *h, const struct bp_collective *c, uint32_t call,
                                uint32_t root, const void *src, void *dst)
{
    struct bp_collective part = *c;

    part.call = call;
    part.root = root;
    part.src = src;
    part.dst = dst;
    part.signature = h->own.signature;
    part.signature_count = h->own.count;
    part.src_buffer = src == c->src ? c->src_buffer : src == c->dst ? c->dst_buffer : NULL;
    if (dst != c->dst) part.dst_buffer = NULL;
    if (part.reduction == BP_REDUCE_AVERAGE) part.reduction = BP_REDUCE_SUM;
    if (call == BP_COMM_BARRIER) part.count = 0;
    return bp_shm_collective(h->shm, &part);
}

struct bp_net_exchange {
    const struct bp_collective *c;
    struct bp_net_request *request, *bulk, *ack;
    uint64_t number, ack_number; /* ack_number: of the ack that the message ends with; or 0 */
    bool done;
    struct bp_net_header own, received_header; /* of this rank's call; as received */
};

static uint64_t net_p2p_bytes_of(const struct bp_collective *c)
{
    return c->count * c->width;
}

/* Awaits the ack that a send needs to be done: a large message its own ack, an eager message that
 * ends with an ack the ack before that. */
static enum bp_status await_ack(struct bp_net_comm *h, struct bp_net_exchange *x, bool bulk)
{
    struct bp_net_rank *to = &h->ranks[x->c->root];
    uint64_t ack_number = bulk ? x->ack_number : x->ack_number ? x->ack_number - 1 : 0;

    if (ack_number <= to->p2p_ack) return BP_OK;
    to->p2p_ack = ack_number;
    x->ack = bp_net_recv(h, x->c->root, bp_net_tag(BP_NET_KIND_SEND_ACK, x->c->root, ack_number),
                         NULL, 0);
    return x->ack ? BP_OK : BP_ERR_MEMORY;
}

static enum bp_status begin_send(struct bp_net_comm *h, struct bp_net_exchange *x)
{
    const struct bp_collective *c = x->c;
    bool bulk = x->own.bytes > BP_NET_EAGER_BYTES;

    x->request = bp_net_send_headed(h, c->root, bp_net_tag(BP_NET_KIND_SEND, h->rank, x->number),
                                    &x->own, bulk ? NULL : c->src, false);
    if (bulk && x->request)
        x->bulk = bp_net_send(h, c->root, bp_net_tag(BP_NET_KIND_BULK, h->rank, x->number), c->src,
                              x->own.bytes, false);
    if (!x->request || (bulk && !x->bulk)) return BP_ERR_MEMORY;
    return await_ack(h, x, bulk);
}

static enum bp_status begin_exchange(struct bp_net_comm *h, struct bp_net_exchange *x)
{
    const struct bp_collective *c = x->c;
    struct bp_net_rank *other = &h->ranks[c->root];
    bool sends = c->call == BP_COMM_SEND;
    struct bp_net_flow *flow = sends ? &other->p2p_out : &other->p2p_in;

    x->own = (struct bp_net_header){bp_call_signature(BP_COMM_SEND, c->dtype, 0, 0), c->count,
                                    net_p2p_bytes_of(c)};
    x->number = sends ? other->sent++ : other->received++;
    if (bp_net_flow_count(flow, x->own.bytes)) x->ack_number = flow->acks;
    if (sends) return begin_send(h, x);
    x->request = bp_net_recv_headed(h, c->root, bp_net_tag(BP_NET_KIND_SEND, c->root, x->number),
                                    &x->received_header, &x->own, c->dst);
    return x->request ? BP_OK : BP_ERR_MEMORY;
}

static enum bp_status end_recv(struct bp_net_comm *h, struct bp_net_exchange *x)
{
    static const char empty;

    x->done = true;
    if (!x->ack_number) return BP_OK;
    return bp_net_send(h, x->c->root, bp_net_tag(BP_NET_KIND_SEND_ACK, h->rank, x->ack_number),
                       &empty, 0, true)
               ? BP_OK
               : BP_ERR_MEMORY;
}

/* A header has arrived: compares it with this rank's call, and receives the data. */
static enum bp_status accept_message(struct bp_net_comm *h, struct bp_net_exchange *x)
{
    const struct bp_collective *c = x->c;
    uint32_t dtype = x->received_header.signature >> 8 & 0xff;

    if (dtype != c->dtype || x->received_header.count != c->count)
        return bp_comm_fail(&h->shm->failure, BP_ERR_INVALID,
                            "rank %u sends %" PRIu64 " %s to rank %u, which expects %" PRIu64 " %s",
                            c->root, x->received_header.count, bp_dtype_name(dtype), h->rank,
                            c->count, bp_dtype_name(c->dtype));
    if (x->received_header.bytes != x->own.bytes)
        return bp_comm_fail(&h->shm->failure, BP_ERR_INVALID,
                            "rank %u sends %" PRIu64 " bytes to rank %u, which expects %" PRIu64
                            ": ranks are of different versions",
                            c->root, x->received_header.bytes, h->rank, x->own.bytes);
    if (x->own.bytes <= BP_NET_EAGER_BYTES) return end_recv(h, x);
    x->bulk = bp_net_recv(h, c->root, bp_net_tag(BP_NET_KIND_BULK, c->root, x->number), c->dst,
                          x->own.bytes);
    return x->bulk ? BP_OK : BP_ERR_MEMORY;
}

static enum bp_status step_exchange(struct bp_net_comm *h, struct bp_net_exchange *x,
                                    bool *out_moved)
{
    bool done;

    TRY(bp_net_request_check(h, x->bulk ? x->bulk : x->request, &done));
    if (done && x->ack) TRY(bp_net_request_check(h, x->ack, &done));
    if (!done) return BP_OK;
    *out_moved = true;
    if (x->c->call == BP_COMM_RECV) return x->bulk ? end_recv(h, x) : accept_message(h, x);
    x->done = true;
    return BP_OK;
}

static enum bp_status step_all(struct bp_net_comm *h, uint32_t *out_left, bool *out_moved)
{
    *out_left = 0;
    for (uint32_t i = 0; i < h->n_exchange; i++) {
        struct bp_net_exchange *x = &h->exchanges[i];
        if (!x->done) TRY(step_exchange(h, x, out_moved));
        if (x->done) continue;
        h->waiting = x->c;
        ++*out_left;
    }
    if (*out_left && bp_net_progress(h)) *out_moved = true;
    return BP_OK;
}

enum bp_status bp_net_p2p_progress(void *ctx, bool *out_moved)
{
    struct bp_net_comm *h = ctx;
    uint32_t left;

    TRY(step_all(h, &left, out_moved));
    if (!left && bp_net_progress(h)) *out_moved = true;
    return BP_OK;
}

static enum bp_status run_remote(struct bp_net_comm *h)
{
    uint32_t left, round = 0;

    for (;;) {
        bool moved = false;
        TRY(step_all(h, &left, &moved));
        if (!left) return bp_net_requests_flush(h);
        if (moved) round = 0;
        else TRY(bp_net_backoff(h, &round));
    }
}

static const struct bp_collective *call_at(const struct bp_collective *first, size_t stride,
                                           uint32_t i)
{
    const void *at = (const char *)first + i * stride;

    return at;
}

/* Runs the transfers of this host in shared memory, while those to other hosts continue. */
static enum bp_status run_local(struct bp_net_comm *h, const struct bp_collective *first,
                                uint32_t n, size_t stride)
{
    struct bp_collective *local = malloc((n - h->n_exchange) * sizeof *local);
    enum bp_status status;
    uint32_t n_local = 0;

    if (!local)
        return bp_comm_fail(&h->shm->failure, BP_ERR_MEMORY, "rank %u has no memory for a group",
                            h->rank);
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_collective *c = call_at(first, stride, i);
        if (!bp_net_is_local(h, c->root)) continue;
        local[n_local] = *c;
        local[n_local++].root = h->ranks[c->root].local;
    }
    status = bp_shm_p2p_run(h->shm, local, n_local, sizeof *local);
    free(local);
    return status;
}

static enum bp_status reserve_exchanges(struct bp_net_comm *h, uint32_t n)
{
    if (n <= h->exchange_room) return BP_OK;
    free(h->exchanges);
    h->exchanges = malloc(n * sizeof *h->exchanges);
    h->exchange_room = h->exchanges ? n : 0;
    if (h->exchanges) return BP_OK;
    return bp_comm_fail(&h->shm->failure, BP_ERR_MEMORY, "rank %u has no memory for a group",
                        h->rank);
}

/* Starts the transfers with other hosts, and completes all. */
static enum bp_status run_exchanges(struct bp_net_comm *h, const struct bp_collective *first,
                                    uint32_t n, size_t stride)
{
    TRY(reserve_exchanges(h, n));
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_collective *c = call_at(first, stride, i);
        if (bp_net_is_local(h, c->root)) continue;
        h->exchanges[h->n_exchange] = (struct bp_net_exchange){.c = c};
        TRY(begin_exchange(h, &h->exchanges[h->n_exchange++]));
    }
    if (h->n_exchange < n) TRY(run_local(h, first, n, stride));
    return run_remote(h);
}

enum bp_status bp_net_p2p_run(struct bp_net_comm *h, const struct bp_collective *first, uint32_t n,
                              size_t stride)
{
    enum bp_status status;

    h->announced = h->agreed = h->eager = false;
    h->shm->waiter.deadline = 0;
    h->shm->waiter.timeout_ns = first->timeout_ns;
    status = run_exchanges(h, first, n, stride);
    if (status) bp_net_requests_abandon(h); /* before the memory that requests point to is reused */
    h->waiting = NULL;
    h->n_exchange = 0;
    return status;
}
