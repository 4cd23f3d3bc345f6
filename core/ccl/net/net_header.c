/* SPDX-License-Identifier: Apache-2.0 */
/* net_header.c: a collective call of ranks on several hosts: the ranks of each host meet, their
 * leaders say to each other which call it is, and data goes. */
#include "net_comm.h"

#include <inttypes.h>
#include <stdio.h>

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

/* Ranks of this host have all made the same call; so have those of the other. What it says may be
 * of a call in which this rank did not wait for it. */
static enum bp_status fail_odd(struct bp_hosts *h, const struct bp_hosts_head *head, uint32_t rank)
{
    uint64_t number = head->what >> 32;
    const struct bp_hosts_head *own = &h->past[number % BP_HOSTS_PAST];
    char mine[200], other[200];

    if (own->what >> 32 != number) own = &h->past[h->number % BP_HOSTS_PAST];
    return bp_board_fail(h->board, BP_ERR_INVALID,
                         "sequence %" PRIu64 ": rank %u calls %s, but rank %u calls %s, on another "
                         "host, its sequence %" PRIu64
                         ": all ranks make the same calls in the same order",
                         own->what >> 32, h->rank,
                         bp_what_text(own->what, own->count, mine, sizeof mine), rank,
                         bp_what_text(head->what, head->count, other, sizeof other), number);
}

enum bp_status bp_hosts_compare_head(struct bp_hosts *h, uint32_t rank,
                                     const struct bp_hosts_head *head)
{
    bool same = head->what == h->own.what && head->count == h->own.count;

    return same ? BP_OK : fail_odd(h, head, rank);
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
    struct bp_board *b = h->board;

    if (h->agreed || !h->announced) return BP_OK;
    if (bp_hosts_leads(h)) TRY(compare_heads(h));
    else TRY(bp_board_wait(b, &b->at[0].agreed, h->number, 0));
    h->agreed = true;
    if (bp_hosts_leads(h)) bp_board_set(b, &b->me->agreed, h->number);
    return BP_OK;
}

/* What all ranks say of the call, with its number. */
static uint64_t say(const struct bp_hosts *h, const struct bp_collective *c)
{
    return bp_what(c->call, c->dtype, c->reduction, c->root) | h->number << 32;
}

static enum bp_status run_collective(struct bp_hosts *h, const struct bp_collective *c)
{
    struct bp_board *b = h->board;

    h->number++;
    h->own = (struct bp_hosts_head){say(h, c), c->count, 0};
    h->past[h->number % BP_HOSTS_PAST] = h->own;
    h->announced = h->agreed = false;
    h->little = bp_hosts_is_little(h, c);
    b->deadline = 0;
    b->timeout_ns = c->timeout_ns;
    TRY(bp_hosts_data(h, c));
    TRY(bp_hosts_agree(h));
    return bp_hosts_settle(h);
}

enum bp_status bp_hosts_run(struct bp_hosts *h, const struct bp_collective *first, uint32_t n,
                            size_t stride)
{
    enum bp_status status;

    if (bp_board_failed(h->board)) return bp_board_answer(h->board);
    if (first->call == BP_COMM_SEND || first->call == BP_COMM_RECV)
        status = bp_hosts_pairs(h, first, n, stride);
    else
        status = run_collective(h, first);
    if (status) bp_hosts_abandon(h);
    return status ? bp_board_answer(h->board) : BP_OK;
}
