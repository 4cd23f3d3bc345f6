/* SPDX-License-Identifier: Apache-2.0 */
/* net_message.c: sends, receives, awaits and cancels messages between hosts. Also exchanges and
 * compares the headers that tie the hosts' calls together: leaders of hosts receive them, and
 * publish the result to the other ranks of their host. */
#include "net_comm.h"

#include <stdlib.h>

/* ACK_MESSAGES: messages from one ack to the next at most. */
enum { REQUESTS = 64, ACK_MESSAGES = 32 };
/* The bytes from one ack to the next, plus one message at most; two acks' worth may be in flight.
 * The sender waits in its call for data that the system's buffers do not take, since most messages
 * are not done before (net.h). */
static const uint64_t ack_bytes = 256 << 10;

static struct bp_net_request *request_create(struct bp_net_comm *h, uint32_t rank, bool recv,
                                             bool lax)
{
    struct bp_net_request *request;

    if (h->n_request == h->room) {
        uint32_t room = h->room ? 2 * h->room : REQUESTS;
        struct bp_net_request **more = realloc(h->requests, room * sizeof *more);
        if (more) h->requests = more;
        for (uint32_t i = h->room; more && i < room; i++) {
            more[i] = malloc(sizeof **more);
            if (more[i]) h->room = i + 1;
            else break;
        }
    }
    if (h->n_request == h->room) {
        bp_comm_fail(&h->shm->failure, BP_ERR_MEMORY, "rank %u has no memory for a message",
                     h->rank);
        return NULL;
    }
    request = h->requests[h->n_request++];
    request->rank = rank;
    request->recv = recv;
    request->lax = lax;
    return request;
}

static struct bp_net_request *send_message(struct bp_net_comm *h, uint32_t to, uint64_t tag,
                                           struct bp_net_message message, bool lax)
{
    struct bp_net_request *request = request_create(h, to, false, lax);

    if (!request) return NULL;
    request->message = message;
    h->net->send(h->ranks[to].peer, tag, &request->message, &request->net);
    return request;
}

struct bp_net_request *bp_net_send(struct bp_net_comm *h, uint32_t to, uint64_t tag,
                                   const void *data, uint64_t bytes, bool lax)
{
    struct bp_net_message message = {.data = (void *)(uintptr_t)data, .bytes = bytes};
    struct bp_net_request *request = send_message(h, to, tag, message, lax);

    if (request && tag >> 56 == BP_NET_KIND_DATA) h->ranks[to].sent_bytes += bytes;
    return request;
}

struct bp_net_request *bp_net_recv(struct bp_net_comm *h, uint32_t from, uint64_t tag, void *data,
                                   uint64_t bytes)
{
    struct bp_net_request *request = request_create(h, from, true, false);

    if (!request) return NULL;
    h->net->recv(h->worker, tag, data, bytes, &request->net);
    if (tag >> 56 == BP_NET_KIND_DATA) h->ranks[from].received_bytes += bytes;
    return request;
}

struct bp_net_request *bp_net_send_headed(struct bp_net_comm *h, uint32_t to, uint64_t tag,
                                          struct bp_net_header *header, const void *data, bool lax)
{
    struct bp_net_message message = {.header = header, .header_bytes = sizeof *header,
                                     .data = (void *)(uintptr_t)data,
                                     .bytes = data ? header->bytes : 0};

    return send_message(h, to, tag, message, lax);
}

struct bp_net_request *bp_net_recv_headed(struct bp_net_comm *h, uint32_t from, uint64_t tag,
                                          struct bp_net_header *header,
                                          const struct bp_net_header *want, void *data)
{
    struct bp_net_request *request = request_create(h, from, true, false);

    if (!request) return NULL;
    request->message = (struct bp_net_message){.header = header,
                                               .header_bytes = sizeof *header,
                                               .data = data,
                                               .bytes = data ? want->bytes : 0,
                                               .want = want};
    h->net->recv_headed(h->worker, tag, &request->message, &request->net);
    return request;
}

enum bp_status bp_net_backoff(struct bp_net_comm *h, uint32_t *round)
{
    enum bp_status status;

    if (bp_net_progress(h)) {
        *round = 0;
        return bp_comm_has_failed(&h->shm->failure) ? bp_comm_failure_report(&h->shm->failure)
                                                    : BP_OK;
    }
    h->waits_remote = true;
    status = bp_waiter_backoff(h->shm, h->shm->rank, round);
    h->waits_remote = false;
    return status;
}

enum bp_status bp_net_request_check(struct bp_net_comm *h, const struct bp_net_request *request,
                                    bool *out_done)
{
    *out_done = request->net.done && (request->net.status == BP_OK || request->lax);
    if (*out_done) return BP_OK;
    if (request->net.done && request->net.status != BP_ERR_PEER)
        return bp_comm_fail(&h->shm->failure, (enum bp_status)request->net.status,
                            "a message between rank %u and rank %u, on another host, has another "
                            "length than it should",
                            h->rank, request->rank);
    return request->net.done || h->net->peer_lost(h->ranks[request->rank].peer)
               ? bp_net_report_lost(h, request->rank)
               : BP_OK;
}

bool bp_net_flow_count(struct bp_net_flow *flow, uint64_t bytes)
{
    flow->bytes += bytes;
    if (++flow->n < ACK_MESSAGES && flow->bytes < ack_bytes && bytes <= BP_NET_EAGER_BYTES)
        return false;
    flow->n = 0;
    flow->bytes = 0;
    flow->acks++;
    return true;
}

void bp_net_requests_abandon(struct bp_net_comm *h)
{
    h->net->abandon(h->worker, (struct bp_net_op *const *)(void *)h->requests, h->n_request);
    h->n_request = 0;
}

void *bp_net_scratch(struct bp_net_comm *h, uint64_t bytes)
{
    if (bytes > h->scratch_bytes) {
        free(h->scratch);
        h->scratch = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
        h->scratch_bytes = h->scratch ? bytes : 0;
    }
    if (!h->scratch)
        bp_comm_fail(&h->shm->failure, BP_ERR_MEMORY, "rank %u has no memory for a call", h->rank);
    return h->scratch;
}

enum { ROUNDS = 4 };

void *bp_net_eager_buffer(struct bp_net_comm *h, uint32_t host)
{
    return h->eager_buffers + host * (size_t)BP_NET_EAGER_BYTES;
}

enum bp_status bp_net_header_send(struct bp_net_comm *h, uint32_t host, const void *data)
{
    uint32_t to = h->leaders[host];
    uint64_t tag = bp_net_tag(BP_NET_KIND_HEADER, h->rank, h->ranks[to].headers_out++);

    return bp_net_send_headed(h, to, tag, &h->own, data, true) ? BP_OK : BP_ERR_MEMORY;
}

struct bp_net_request *bp_net_header_recv(struct bp_net_comm *h, uint32_t host, void *data)
{
    uint32_t from = h->leaders[host];
    struct bp_net_rank *leader = &h->ranks[from];

    return bp_net_recv_headed(h, from, bp_net_tag(BP_NET_KIND_HEADER, from, leader->headers_in++),
                              &leader->header, &h->own, data);
}

enum bp_status bp_net_agree_begin(struct bp_net_comm *h, uint64_t bytes)
{
    h->announced = true;
    h->own.bytes = bytes;
    if (!bp_net_is_leader(h)) return BP_OK;
    for (uint32_t i = 0; i < h->n_host; i++)
        if (i != h->host) TRY(bp_net_header_send(h, i, bp_net_eager_buffer(h, h->host)));
    h->first_header = h->n_request;
    for (uint32_t i = 0; i < h->n_host; i++)
        if (i != h->host && !bp_net_header_recv(h, i, bp_net_eager_buffer(h, i)))
            return BP_ERR_MEMORY;
    return BP_OK;
}

/* A clock of some milliseconds' resolution. Each call reads it, and an exact clock would cost
 * several times as much. */
static uint64_t coarse_clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Looks for leaders whose connection was lost after their header had arrived: they may have aborted
 * the communicator. */
enum bp_status bp_net_lost_poll(struct bp_net_comm *h)
{
    uint64_t now = coarse_clock_ns();
    bool lost = false;

    if (now - h->checked_ns < BP_FAILURE_POLL_NS) return BP_OK;
    h->checked_ns = now;
    for (int i = 0; i < ROUNDS; i++) bp_net_progress(h); /* this takes several rounds */
    for (uint32_t i = 0; i < h->n_host; i++)
        lost = lost || (i != h->host && h->net->peer_lost(h->ranks[h->leaders[i]].peer));
    if (!lost) return BP_OK;
    atomic_store(&h->polled_ns, 0);
    return bp_net_failure_poll(h);
}

enum bp_status bp_net_header_wait(struct bp_net_comm *h, uint32_t host,
                                  const struct bp_net_request *request)
{
    struct bp_net_rank *leader = &h->ranks[h->leaders[host]];
    uint32_t round = 0;
    bool done;

    for (;;) {
        TRY(bp_net_request_check(h, request, &done));
        if (done) break;
        TRY(bp_net_backoff(h, &round));
    }
    leader->last_header = leader->header;
    leader->last_number = leader->last_header.signature >> 32;
    return bp_net_header_check(h, h->leaders[host], &leader->last_header);
}

static enum bp_status wait_headers(struct bp_net_comm *h)
{
    uint32_t request = h->first_header;

    for (uint32_t i = 0; i < h->n_host; i++)
        if (i != h->host) TRY(bp_net_header_wait(h, i, h->requests[request++]));
    return bp_net_lost_poll(h);
}

/* The ranks of this host that are not the leader learn the result from a word in shared memory. */
enum bp_status bp_net_agree_wait(struct bp_net_comm *h)
{
    struct bp_shm_rank *b = h->shm;

    if (h->agreed || !h->announced) return BP_OK;
    if (bp_net_is_leader(h)) TRY(wait_headers(h));
    else TRY(bp_shm_word_wait(b, &b->ranks[0].agreed, h->number, 0));
    h->agreed = true;
    if (bp_net_is_leader(h)) bp_shm_word_publish(b, &b->me->agreed, h->number);
    return BP_OK;
}
