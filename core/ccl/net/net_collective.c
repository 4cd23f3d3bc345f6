/* SPDX-License-Identifier: Apache-2.0 */
/* net_collective.c: runs collective calls of ranks on several hosts. The ranks of each host meet,
 * their leaders exchange headers with the call, and data is sent, each byte to each host once if
 * possible; within the host it travels through shared memory. Calls that reduce are in
 * net_reduce.c. */
#include "net_comm.h"

#include <inttypes.h>

/* Whether the call is eager: it has few bytes and each host has one rank, so data travels behind
 * the headers, in one message from rank to rank. A rank that receives no data does not wait, and
 * can be a bounded number of calls ahead of the ranks that it sends to; for example the root of a
 * broadcast. */
static bool is_eager(const struct bp_net_comm *h, const struct bp_collective *c)
{
    uint64_t most = c->call == BP_COMM_ALL_REDUCE && h->size > 2 ? BP_NET_EAGER_ALL_BYTES
                                                                 : BP_NET_EAGER_BYTES;

    return h->n_host == h->size && c->call != BP_COMM_ALL_TO_ALL_RAGGED &&
           c->count * c->width <= most;
}

/* Whether a rank sends data to another rank in this call. */
static bool has_message(const struct bp_collective *c, uint32_t from, uint32_t to)
{
    const struct bp_call_traits *f = &bp_call_traits_of[c->call];

    if (f->src_at_root) return from == c->root;
    return !f->dst_at_root || to == c->root;
}

/* Whether data goes only from the root, or only to the root. */
static bool is_rooted(const struct bp_collective *c)
{
    return bp_call_traits_of[c->call].src_at_root || bp_call_traits_of[c->call].dst_at_root;
}

/* The part of src that is for a rank. */
static const char *src_for(const struct bp_collective *c, uint32_t rank)
{
    return c->src + (bp_call_traits_of[c->call].src_parts ? rank * c->count * c->width : 0);
}

static char *dst_of(const struct bp_collective *c, uint32_t rank)
{
    return c->dst + (bp_call_traits_of[c->call].dst_parts ? rank * c->count * c->width : 0);
}

/* Before a message that ends with an ack is sent, the ack before it must have arrived. So at most
 * the messages of two acks are in flight. */
static enum bp_status wait_for_ack(struct bp_net_comm *h, uint32_t to, uint64_t bytes)
{
    struct bp_net_flow *flow = &h->ranks[to].out;
    uint32_t request = h->n_request;

    if (!bp_net_flow_count(flow, bytes) || flow->acks < 2) return BP_OK;
    if (!bp_net_recv(h, to, bp_net_tag(BP_NET_KIND_HEADER_ACK, to, flow->acks - 1), NULL, 0))
        return BP_ERR_MEMORY;
    return bp_net_requests_wait(h, request, h->n_request);
}

static enum bp_status send_all(struct bp_net_comm *h, const struct bp_collective *c)
{
    for (uint32_t k = 1; k < h->size; k++) {
        uint32_t to = (h->rank + k) % h->size;
        if (!has_message(c, h->rank, to)) continue;
        if (is_rooted(c)) TRY(wait_for_ack(h, to, h->own.bytes));
        TRY(bp_net_header_send(h, h->ranks[to].host, src_for(c, to)));
    }
    return BP_OK;
}

/* The buffer for the data of a rank. dst must not be written before all ranks are known to make
 * this call. If only one other rank sends data, that rank's header is enough, and its data can be
 * received in dst directly. */
static char *recv_buffer(struct bp_net_comm *h, const struct bp_collective *c, uint32_t rank)
{
    bool one = bp_call_traits_of[c->call].src_at_root || h->size == 2;

    return one && !bp_call_reduces(c->call) ? dst_of(c, rank)
                                            : bp_net_eager_buffer(h, h->ranks[rank].host);
}

static enum bp_status recv_all(struct bp_net_comm *h, const struct bp_collective *c)
{
    const struct bp_net_request *request[BP_COMM_MAX_RANKS];

    for (uint32_t i = 0; i < h->size; i++) {
        if (i == h->rank || !has_message(c, i, h->rank)) continue;
        request[i] = bp_net_header_recv(h, h->ranks[i].host, recv_buffer(h, c, i));
        if (!request[i]) return BP_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < h->size; i++)
        if (i != h->rank && has_message(c, i, h->rank))
            TRY(bp_net_header_wait(h, h->ranks[i].host, request[i]));
    return bp_net_lost_poll(h);
}

/* Copies or reduces this rank's own data and the received data to dst. The result may overwrite
 * src, so the function first waits until src has been sent. */
static enum bp_status unpack_all(struct bp_net_comm *h, const struct bp_collective *c)
{
    uint64_t part = h->own.bytes;
    const void *src[BP_COMM_MAX_RANKS];
    void *tmp;

    if (!part) return BP_OK;
    for (uint32_t i = 0; i < h->size; i++) {
        src[i] = i == h->rank ? src_for(c, i) : recv_buffer(h, c, i);
        if (bp_call_reduces(c->call) || !has_message(c, i, h->rank)) continue;
        if (dst_of(c, i) != src[i]) memcpy(dst_of(c, i), src[i], part);
    }
    if (!bp_call_reduces(c->call) || !has_message(c, h->rank, h->rank)) return BP_OK;
    tmp = bp_net_scratch(h, part);
    if (!tmp) return BP_ERR_MEMORY;
    TRY(bp_net_requests_wait(h, 0, h->n_request));
    bp_net_combine(h, c, c->dst, src, h->size, part, tmp);
    return BP_OK;
}

/* Acknowledges from time to time the messages of ranks that do not wait for this one. */
static enum bp_status ack_all(struct bp_net_comm *h, const struct bp_collective *c)
{
    static const char empty;

    for (uint32_t i = 0; i < h->size; i++) {
        struct bp_net_flow *flow = &h->ranks[i].in;
        if (i == h->rank || !has_message(c, i, h->rank)) continue;
        if (bp_net_flow_count(flow, h->own.bytes) &&
            !bp_net_send(h, i, bp_net_tag(BP_NET_KIND_HEADER_ACK, h->rank, flow->acks), &empty, 0,
                         true))
            return BP_ERR_MEMORY;
    }
    return BP_OK;
}

static enum bp_status run_eager(struct bp_net_comm *h, const struct bp_collective *c)
{
    h->own.bytes = c->count * c->width;
    TRY(send_all(h, c));
    TRY(recv_all(h, c));
    TRY(unpack_all(h, c));
    return is_rooted(c) ? ack_all(h, c) : BP_OK;
}

/* The ranks of this host meet; then leaders start to exchange headers. */
static enum bp_status net_barrier(struct bp_net_comm *h, const struct bp_collective *c)
{
    TRY(bp_net_local_run(h, c, BP_COMM_BARRIER, 0, NULL, NULL));
    return bp_net_agree_begin(h, 0);
}

static void copy_own(const struct bp_net_comm *h, const struct bp_collective *c, bool src_parts,
                     bool dst_parts)
{
    uint64_t part = c->count * c->width;
    const char *src = c->src + (src_parts ? h->rank * part : 0);
    char *dst = c->dst + (dst_parts ? h->rank * part : 0);

    if (part && src != dst) memcpy(dst, src, part);
}

/* The root sends to the leader of each other host, which passes the data on within its host. */
static enum bp_status net_broadcast(void *work, const struct bp_collective *c)
{
    struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    uint64_t part = c->count * c->width;
    bool here = bp_net_is_local(h, c->root);

    if (h->rank == c->root)
        for (uint32_t i = 0; i < h->n_host; i++)
            if (i != h->host) bp_net_transfer_send(m, h->leaders[i], c->src, part);
    if (!here && bp_net_is_leader(h)) {
        bp_net_transfer_recv(m, c->root, c->dst, part);
        TRY(m->status);
        TRY(bp_net_requests_wait(h, 0, h->n_request));
    }
    TRY(m->status);
    TRY(bp_net_agree_wait(h));
    return bp_net_local_run(h, c, BP_COMM_BROADCAST, here ? h->ranks[c->root].local : 0,
                            here ? c->src : c->dst, c->dst);
}

/* The rank of `host` that receives the part of a rank of another host, and passes it on within its
 * host. */
static uint32_t forwarding_rank(const struct bp_net_comm *h, uint32_t host, uint32_t rank)
{
    uint32_t n = 0, want, seen = 0;

    for (uint32_t i = 0; i < h->size; i++) n += h->ranks[i].host == host;
    want = h->ranks[rank].local % n;
    for (uint32_t i = 0; i < h->size; i++)
        if (h->ranks[i].host == host && seen++ == want) return i;
    return h->leaders[host];
}

/* Sends each part to one rank of each other host, which passes it on to the others there. */
static enum bp_status all_gather(void *work, const struct bp_collective *c)
{
    struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    uint64_t part = c->count * c->width;

    if (!part) return BP_OK;
    for (uint32_t i = 0; i < h->n_host; i++)
        if (i != h->host) bp_net_transfer_send(m, forwarding_rank(h, i, h->rank), c->src, part);
    TRY(bp_net_agree_wait(h));
    copy_own(h, c, false, true);
    for (uint32_t j = 0; j < h->size; j++) {
        bool here = bp_net_is_local(h, j);
        if (here) bp_net_transfer_send(m, j, c->src, part);
        if (here || forwarding_rank(h, h->host, j) == h->rank)
            bp_net_transfer_recv(m, j, c->dst + j * part, part);
    }
    TRY(bp_net_transfer_run(m));
    if (h->shm->n == 1) return BP_OK;
    TRY(bp_net_requests_wait(h, 0, h->n_request));
    for (uint32_t j = 0; j < h->size; j++) {
        uint32_t holder = forwarding_rank(h, h->host, j);
        if (bp_net_is_local(h, j)) continue;
        if (holder != h->rank) bp_net_transfer_recv(m, holder, c->dst + j * part, part);
        for (uint32_t i = 0; i < h->shm->n && holder == h->rank; i++)
            bp_net_transfer_send(m, h->shm->global_ranks[i], c->dst + j * part, part);
    }
    return bp_net_transfer_run(m);
}

static enum bp_status net_gather(void *work, const struct bp_collective *c)
{
    struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    uint64_t part = c->count * c->width;

    bp_net_transfer_send(m, c->root, c->src, part);
    TRY(bp_net_agree_wait(h));
    if (h->rank == c->root) {
        copy_own(h, c, false, true);
        for (uint32_t i = 0; i < h->size; i++) bp_net_transfer_recv(m, i, c->dst + i * part, part);
    }
    return bp_net_transfer_run(m);
}

static enum bp_status net_scatter(void *work, const struct bp_collective *c)
{
    struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    uint64_t part = c->count * c->width;

    for (uint32_t i = 0; i < h->size && h->rank == c->root; i++)
        bp_net_transfer_send(m, i, c->src + i * part, part);
    TRY(bp_net_agree_wait(h));
    if (h->rank == c->root) copy_own(h, c, true, false);
    bp_net_transfer_recv(m, c->root, c->dst, part);
    return bp_net_transfer_run(m);
}

/* Each rank sends to its neighbour first, so that not all ranks send to the same one. */
static enum bp_status all_to_all(void *work, const struct bp_collective *c)
{
    struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    uint64_t part = c->count * c->width;

    if (!part) return BP_OK;
    for (uint32_t k = 1; k < h->size; k++) {
        uint32_t to = (h->rank + k) % h->size;
        bp_net_transfer_send(m, to, c->src + to * part, part);
    }
    TRY(bp_net_agree_wait(h));
    copy_own(h, c, true, true);
    for (uint32_t k = 1; k < h->size; k++) {
        uint32_t from = (h->rank + h->size - k) % h->size;
        bp_net_transfer_recv(m, from, c->dst + from * part, part);
    }
    return bp_net_transfer_run(m);
}

/* Checks that each rank sends as many elements as the receiver expects. */
static enum bp_status compare_counts(struct bp_net_comm *h, const struct bp_collective *c,
                                     struct bp_net_transfer *m)
{
    int64_t come[BP_COMM_MAX_RANKS];

    for (uint32_t i = 0; i < h->size; i++)
        bp_net_transfer_send(m, i, &c->src_counts[i], sizeof c->src_counts[i]);
    for (uint32_t i = 0; i < h->size; i++) bp_net_transfer_recv(m, i, &come[i], sizeof come[i]);
    come[h->rank] = c->src_counts[h->rank];
    TRY(bp_net_transfer_run(m));
    TRY(bp_net_requests_wait(h, 0, h->n_request));
    for (uint32_t i = 0; i < h->size; i++)
        if (come[i] != c->dst_counts[i])
            return bp_comm_fail(&h->shm->failure, BP_ERR_INVALID,
                                "sequence %" PRIu64 ": in all_to_all_ragged rank %u sends %" PRId64
                                " elements to rank %u, which expects %" PRId64,
                                h->number, i, come[i], h->rank, c->dst_counts[i]);
    return BP_OK;
}

static enum bp_status net_ragged(void *work, const struct bp_collective *c)
{
    struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    uint64_t at_src = 0, at_dst = 0;

    TRY(compare_counts(h, c, m));
    for (uint32_t i = 0; i < h->size; i++) {
        uint64_t out = (uint64_t)c->src_counts[i] * c->width;
        uint64_t in = (uint64_t)c->dst_counts[i] * c->width;
        bp_net_transfer_recv(m, i, c->dst + at_dst, in);
        bp_net_transfer_send(m, i, c->src + at_src, out);
        if (i == h->rank && in) memcpy(c->dst + at_dst, c->src + at_src, in);
        at_dst += in;
        at_src += out;
    }
    return bp_net_transfer_run(m);
}

/* Calls that reduce are not preceded by net_barrier: they meet the other ranks themselves, and can
 * send data at the same time. */
static const struct bp_collective_table between_hosts = {{
    [BP_COMM_ALL_REDUCE] = bp_net_all_reduce,
    [BP_COMM_REDUCE] = bp_net_reduce,
    [BP_COMM_BROADCAST] = net_broadcast,
    [BP_COMM_ALL_GATHER] = all_gather,
    [BP_COMM_REDUCE_SCATTER] = bp_net_reduce_scatter,
    [BP_COMM_ALL_TO_ALL] = all_to_all,
    [BP_COMM_ALL_TO_ALL_RAGGED] = net_ragged,
    [BP_COMM_GATHER] = net_gather,
    [BP_COMM_SCATTER] = net_scatter,
}};

static enum bp_status move_data(struct bp_net_comm *h, const struct bp_collective *c)
{
    struct bp_net_transfer m = {.h = h, .call = c};
    enum bp_status status = BP_OK;

    if (h->eager) return run_eager(h, c);
    if (!bp_call_reduces(c->call)) TRY(net_barrier(h, c));
    if (between_hosts.run[c->call]) status = between_hosts.run[c->call](&m, c);
    bp_net_transfer_finish(&m);
    return status;
}

/* The signature of the call, equal on all ranks, with the call's number. */
static uint64_t signature_of(const struct bp_net_comm *h, const struct bp_collective *c)
{
    return bp_call_signature(c->call, c->dtype, c->reduction, c->root) | h->number << 32;
}

static enum bp_status run_collective(struct bp_net_comm *h, const struct bp_collective *c)
{
    struct bp_shm_rank *b = h->shm;

    h->number++;
    h->own = (struct bp_net_header){signature_of(h, c), c->count, 0};
    h->history[h->number % BP_NET_HISTORY] = h->own;
    h->announced = h->agreed = false;
    h->eager = is_eager(h, c);
    b->waiter.deadline = 0;
    b->waiter.timeout_ns = c->timeout_ns;
    TRY(move_data(h, c));
    TRY(bp_net_agree_wait(h));
    return bp_net_requests_flush(h);
}

/* After a failure cancels all messages, and returns the communicator's failure. */
static enum bp_status report_result(struct bp_net_comm *h, enum bp_status status)
{
    if (status == BP_OK) return BP_OK;
    bp_net_requests_abandon(h);
    return bp_comm_failure_report(&h->shm->failure);
}

enum bp_status bp_net_collective(void *self, const struct bp_collective *c)
{
    struct bp_net_comm *h = self;

    if (bp_comm_has_failed(&h->shm->failure)) return bp_comm_failure_report(&h->shm->failure);
    return report_result(h, run_collective(h, c));
}

enum bp_status bp_net_p2p(void *self, const struct bp_collective *first, uint32_t n, size_t stride)
{
    struct bp_net_comm *h = self;

    if (bp_comm_has_failed(&h->shm->failure)) return bp_comm_failure_report(&h->shm->failure);
    return report_result(h, bp_net_p2p_run(h, first, n, stride));
}
