/* SPDX-License-Identifier: Apache-2.0 */
/* net_header.c: the headers by which the leaders of hosts say to each other which call they are in,
 * sent and compared; the other ranks of a host hear from their leader. */
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
