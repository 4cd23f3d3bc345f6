/* SPDX-License-Identifier: Apache-2.0 */
/* net_message.c: messages to and from other hosts: begun, waited for, given up; and the headers by
 * which the leaders of hosts say to each other which call they are in, sent and compared: the other
 * ranks of a host hear from their leader. */
#include "net_comm.h"

#include <stdlib.h>

enum { OPS = 64, MARK = 32 }; /* MARK: messages at most from one mark to the next */
/* As many, and a message, may be under way twice. What of it the system's buffers do not take the
 * sender waits for in its call, since most messages are done only then (net.h). */
static const uint64_t mark_bytes = 256 << 10;

static struct bp_hosts_op *make_op(struct bp_hosts *h, uint32_t rank, bool recv, bool lax)
{
    struct bp_hosts_op *op;

    if (h->n_op == h->room) {
        uint32_t room = h->room ? 2 * h->room : OPS;
        struct bp_hosts_op **more = realloc(h->ops, room * sizeof *more);
        if (more) h->ops = more;
        for (uint32_t i = h->room; more && i < room; i++) {
            more[i] = malloc(sizeof **more);
            if (more[i]) h->room = i + 1;
            else break;
        }
    }
    if (h->n_op == h->room) {
        bp_comm_fail(&h->board->failure, BP_ERR_MEMORY, "rank %u has no memory for a message",
                     h->rank);
        return NULL;
    }
    op = h->ops[h->n_op++];
    op->rank = rank;
    op->recv = recv;
    op->lax = lax;
    return op;
}

static struct bp_hosts_op *send_message(struct bp_hosts *h, uint32_t to, uint64_t tag,
                                        struct bp_net_message message, bool lax)
{
    struct bp_hosts_op *op = make_op(h, to, false, lax);

    if (!op) return NULL;
    op->message = message;
    h->net->send(h->at[to].peer, tag, &op->message, &op->net);
    return op;
}

struct bp_hosts_op *bp_hosts_send(struct bp_hosts *h, uint32_t to, uint64_t tag, const void *data,
                                  uint64_t bytes, bool lax)
{
    struct bp_net_message message = {.data = (void *)(uintptr_t)data, .bytes = bytes};
    struct bp_hosts_op *op = send_message(h, to, tag, message, lax);

    if (op && tag >> 56 == BP_HOSTS_DATA) h->at[to].gave += bytes;
    return op;
}

struct bp_hosts_op *bp_hosts_recv(struct bp_hosts *h, uint32_t from, uint64_t tag, void *data,
                                  uint64_t bytes)
{
    struct bp_hosts_op *op = make_op(h, from, true, false);

    if (!op) return NULL;
    h->net->recv(h->worker, tag, data, bytes, &op->net);
    if (tag >> 56 == BP_HOSTS_DATA) h->at[from].took += bytes;
    return op;
}

struct bp_hosts_op *bp_hosts_send_headed(struct bp_hosts *h, uint32_t to, uint64_t tag,
                                         struct bp_hosts_head *head, const void *data, bool lax)
{
    struct bp_net_message message = {.head = head, .head_bytes = sizeof *head,
                                     .data = (void *)(uintptr_t)data,
                                     .bytes = data ? head->bytes : 0};

    return send_message(h, to, tag, message, lax);
}

struct bp_hosts_op *bp_hosts_recv_headed(struct bp_hosts *h, uint32_t from, uint64_t tag,
                                         struct bp_hosts_head *head,
                                         const struct bp_hosts_head *want, void *data)
{
    struct bp_hosts_op *op = make_op(h, from, true, false);

    if (!op) return NULL;
    op->message = (struct bp_net_message){.head = head, .head_bytes = sizeof *head, .data = data,
                                          .bytes = data ? want->bytes : 0, .want = want};
    h->net->recv_headed(h->worker, tag, &op->message, &op->net);
    return op;
}

enum bp_status bp_hosts_idle(struct bp_hosts *h, uint32_t *round)
{
    enum bp_status status;

    if (bp_hosts_progress(h)) {
        *round = 0;
        return bp_comm_has_failed(&h->board->failure) ? bp_comm_answer(&h->board->failure) : BP_OK;
    }
    h->waits = true;
    status = bp_board_idle(h->board, h->board->rank, round);
    h->waits = false;
    return status;
}

enum bp_status bp_hosts_check(struct bp_hosts *h, const struct bp_hosts_op *op, bool *out_done)
{
    *out_done = op->net.done && (op->net.status == BP_OK || op->lax);
    if (*out_done) return BP_OK;
    if (op->net.done && op->net.status != BP_ERR_PEER)
        return bp_comm_fail(&h->board->failure, (enum bp_status)op->net.status,
                            "a message between rank %u and rank %u, on another host, has another "
                            "length than it should",
                            h->rank, op->rank);
    return op->net.done || h->net->peer_lost(h->at[op->rank].peer) ? bp_hosts_lost(h, op->rank)
                                                                  : BP_OK;
}

bool bp_hosts_count(struct bp_hosts_flow *flow, uint64_t bytes)
{
    flow->bytes += bytes;
    if (++flow->n < MARK && flow->bytes < mark_bytes && bytes <= BP_HOSTS_LITTLE) return false;
    flow->n = 0;
    flow->bytes = 0;
    flow->marks++;
    return true;
}

void bp_hosts_abandon(struct bp_hosts *h)
{
    h->net->abandon(h->worker, (struct bp_net_op *const *)(void *)h->ops, h->n_op);
    h->n_op = 0;
}

void *bp_hosts_scratch(struct bp_hosts *h, uint64_t bytes)
{
    if (bytes > h->scratch_bytes) {
        free(h->scratch);
        h->scratch = aligned_alloc(64, (bytes + 63) & ~UINT64_C(63));
        h->scratch_bytes = h->scratch ? bytes : 0;
    }
    if (!h->scratch)
        bp_comm_fail(&h->board->failure, BP_ERR_MEMORY, "rank %u has no memory for a call",
                     h->rank);
    return h->scratch;
}

enum { ROUNDS = 4 };

void *bp_hosts_extra(struct bp_hosts *h, uint32_t host)
{
    return h->extra + host * (size_t)BP_HOSTS_LITTLE;
}

enum bp_status bp_hosts_say(struct bp_hosts *h, uint32_t host, const void *data)
{
    uint32_t to = h->leaders[host];
    uint64_t tag = bp_hosts_tag(BP_HOSTS_HEAD, h->rank, h->at[to].heads_out++);

    return bp_hosts_send_headed(h, to, tag, &h->own, data, true) ? BP_OK : BP_ERR_MEMORY;
}

struct bp_hosts_op *bp_hosts_listen(struct bp_hosts *h, uint32_t host, void *data)
{
    uint32_t from = h->leaders[host];
    struct bp_hosts_rank *leader = &h->at[from];

    return bp_hosts_recv_headed(h, from, bp_hosts_tag(BP_HOSTS_HEAD, from, leader->heads_in++),
                                &leader->head, &h->own, data);
}

enum bp_status bp_hosts_announce(struct bp_hosts *h, uint64_t bytes)
{
    h->announced = true;
    h->own.bytes = bytes;
    if (!bp_hosts_leads(h)) return BP_OK;
    for (uint32_t i = 0; i < h->n_host; i++)
        if (i != h->host) TRY(bp_hosts_say(h, i, bp_hosts_extra(h, h->host)));
    h->first_head = h->n_op;
    for (uint32_t i = 0; i < h->n_host; i++)
        if (i != h->host && !bp_hosts_listen(h, i, bp_hosts_extra(h, i))) return BP_ERR_MEMORY;
    return BP_OK;
}

/* To some milliseconds: each call looks, and a better clock costs several times that. */
static uint64_t rough_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* A leader that came, and was cut off since, may have given the communicator up. */
enum bp_status bp_hosts_hear_of_lost(struct bp_hosts *h)
{
    uint64_t now = rough_ns();
    bool lost = false;

    if (now - h->looked < BP_MEET_LOOK_NS) return BP_OK;
    h->looked = now;
    for (int i = 0; i < ROUNDS; i++) bp_hosts_progress(h); /* it takes some to see that */
    for (uint32_t i = 0; i < h->n_host; i++)
        lost = lost || (i != h->host && h->net->peer_lost(h->at[h->leaders[i]].peer));
    if (!lost) return BP_OK;
    atomic_store(&h->watched, 0);
    return bp_hosts_hear(h);
}

enum bp_status bp_hosts_compare(struct bp_hosts *h, uint32_t host, const struct bp_hosts_op *op)
{
    struct bp_hosts_rank *leader = &h->at[h->leaders[host]];
    uint32_t round = 0;
    bool done;

    for (;;) {
        TRY(bp_hosts_check(h, op, &done));
        if (done) break;
        TRY(bp_hosts_idle(h, &round));
    }
    leader->said = leader->head;
    leader->said_number = leader->said.what >> 32;
    return bp_hosts_compare_head(h, h->leaders[host], &leader->said);
}

static enum bp_status compare_heads(struct bp_hosts *h)
{
    uint32_t op = h->first_head;

    for (uint32_t i = 0; i < h->n_host; i++)
        if (i != h->host) TRY(bp_hosts_compare(h, i, h->ops[op++]));
    return bp_hosts_hear_of_lost(h);
}

/* The others of this host are told by a word on the board. */
enum bp_status bp_hosts_agree(struct bp_hosts *h)
{
    struct bp_shm_rank *b = h->board;

    if (h->agreed || !h->announced) return BP_OK;
    if (bp_hosts_leads(h)) TRY(compare_heads(h));
    else TRY(bp_board_wait(b, &b->at[0].agreed, h->number, 0));
    h->agreed = true;
    if (bp_hosts_leads(h)) bp_board_set(b, &b->me->agreed, h->number);
    return BP_OK;
}
