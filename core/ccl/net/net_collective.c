/* SPDX-License-Identifier: Apache-2.0 */
/* net_collective.c: collective calls of ranks on several hosts. The ranks of each host meet, their
 * leaders say to each other which call it is, and data goes: each byte to each host once, where
 * that is enough, and on there by the board. Calls that reduce are in net_reduce.c. */
#include "net_comm.h"

#include <inttypes.h>
#include <stdlib.h>

/* The ranks of this host meet, and leaders tell the others. */
static enum bp_status meet(struct bp_hosts *h, const struct bp_collective *c)
{
    TRY(bp_hosts_local(h, c, BP_COMM_BARRIER, 0, NULL, NULL));
    return bp_hosts_announce(h, 0);
}

static void copy_own(const struct bp_hosts *h, const struct bp_collective *c, bool src_parts,
                     bool dst_parts)
{
    uint64_t part = c->count * c->width;
    const char *src = c->src + (src_parts ? h->rank * part : 0);
    char *dst = c->dst + (dst_parts ? h->rank * part : 0);

    if (part && src != dst) memcpy(dst, src, part);
}

/* To the rank of each other host that hands it on there. */
static enum bp_status broadcast(void *work, const struct bp_collective *c)
{
    struct bp_hosts_moves *m = work;
    struct bp_hosts *h = m->h;
    uint64_t part = c->count * c->width;
    bool here = bp_hosts_is_here(h, c->root);

    if (h->rank == c->root)
        for (uint32_t i = 0; i < h->n_host; i++)
            if (i != h->host) bp_hosts_give(m, h->leaders[i], c->src, part);
    if (!here && bp_hosts_leads(h)) {
        bp_hosts_take(m, c->root, c->dst, part);
        TRY(m->status);
        TRY(bp_hosts_await(h, 0, h->n_op));
    }
    TRY(m->status);
    TRY(bp_hosts_agree(h));
    return bp_hosts_local(h, c, BP_COMM_BROADCAST, here ? h->at[c->root].local : 0,
                          here ? c->src : c->dst, c->dst);
}

/* The rank of a host that gets a rank's part from it. */
static uint32_t receiver(const struct bp_hosts *h, uint32_t host, uint32_t rank)
{
    uint32_t n = 0, want, seen = 0;

    for (uint32_t i = 0; i < h->size; i++) n += h->at[i].host == host;
    want = h->at[rank].local % n;
    for (uint32_t i = 0; i < h->size; i++)
        if (h->at[i].host == host && seen++ == want) return i;
    return h->leaders[host];
}

/* Each part goes to one rank of each other host, and from there to the others. */
static enum bp_status all_gather(void *work, const struct bp_collective *c)
{
    struct bp_hosts_moves *m = work;
    struct bp_hosts *h = m->h;
    uint64_t part = c->count * c->width;

    if (!part) return BP_OK;
    for (uint32_t i = 0; i < h->n_host; i++)
        if (i != h->host) bp_hosts_give(m, receiver(h, i, h->rank), c->src, part);
    TRY(bp_hosts_agree(h));
    copy_own(h, c, false, true);
    for (uint32_t j = 0; j < h->size; j++) {
        bool here = bp_hosts_is_here(h, j);
        if (here) bp_hosts_give(m, j, c->src, part);
        if (here || receiver(h, h->host, j) == h->rank)
            bp_hosts_take(m, j, c->dst + j * part, part);
    }
    TRY(bp_hosts_moves_run(m));
    if (h->board->n == 1) return BP_OK;
    TRY(bp_hosts_await(h, 0, h->n_op));
    for (uint32_t j = 0; j < h->size; j++) {
        uint32_t holder = receiver(h, h->host, j);
        if (bp_hosts_is_here(h, j)) continue;
        if (holder != h->rank) bp_hosts_take(m, holder, c->dst + j * part, part);
        for (uint32_t i = 0; i < h->board->n && holder == h->rank; i++)
            bp_hosts_give(m, h->board->numbers[i], c->dst + j * part, part);
    }
    return bp_hosts_moves_run(m);
}

static enum bp_status gather(void *work, const struct bp_collective *c)
{
    struct bp_hosts_moves *m = work;
    struct bp_hosts *h = m->h;
    uint64_t part = c->count * c->width;

    bp_hosts_give(m, c->root, c->src, part);
    TRY(bp_hosts_agree(h));
    if (h->rank == c->root) {
        copy_own(h, c, false, true);
        for (uint32_t i = 0; i < h->size; i++) bp_hosts_take(m, i, c->dst + i * part, part);
    }
    return bp_hosts_moves_run(m);
}

static enum bp_status scatter(void *work, const struct bp_collective *c)
{
    struct bp_hosts_moves *m = work;
    struct bp_hosts *h = m->h;
    uint64_t part = c->count * c->width;

    for (uint32_t i = 0; i < h->size && h->rank == c->root; i++)
        bp_hosts_give(m, i, c->src + i * part, part);
    TRY(bp_hosts_agree(h));
    if (h->rank == c->root) copy_own(h, c, true, false);
    bp_hosts_take(m, c->root, c->dst, part);
    return bp_hosts_moves_run(m);
}

/* Ranks begin with their neighbour, so that not all send to one. */
static enum bp_status all_to_all(void *work, const struct bp_collective *c)
{
    struct bp_hosts_moves *m = work;
    struct bp_hosts *h = m->h;
    uint64_t part = c->count * c->width;

    if (!part) return BP_OK;
    for (uint32_t k = 1; k < h->size; k++) {
        uint32_t to = (h->rank + k) % h->size;
        bp_hosts_give(m, to, c->src + to * part, part);
    }
    TRY(bp_hosts_agree(h));
    copy_own(h, c, true, true);
    for (uint32_t k = 1; k < h->size; k++) {
        uint32_t from = (h->rank + h->size - k) % h->size;
        bp_hosts_take(m, from, c->dst + from * part, part);
    }
    return bp_hosts_moves_run(m);
}

/* What each sends is what the other expects. */
static enum bp_status compare_counts(struct bp_hosts *h, const struct bp_collective *c,
                                     struct bp_hosts_moves *m)
{
    int64_t come[BP_BOARD_RANKS];

    for (uint32_t i = 0; i < h->size; i++)
        bp_hosts_give(m, i, &c->src_counts[i], sizeof c->src_counts[i]);
    for (uint32_t i = 0; i < h->size; i++) bp_hosts_take(m, i, &come[i], sizeof come[i]);
    come[h->rank] = c->src_counts[h->rank];
    TRY(bp_hosts_moves_run(m));
    TRY(bp_hosts_await(h, 0, h->n_op));
    for (uint32_t i = 0; i < h->size; i++)
        if (come[i] != c->dst_counts[i])
            return bp_comm_fail(&h->board->failure, BP_ERR_INVALID,
                                "sequence %" PRIu64 ": in all_to_all_ragged rank %u sends %" PRId64
                                " elements to rank %u, which expects %" PRId64,
                                h->number, i, come[i], h->rank, c->dst_counts[i]);
    return BP_OK;
}

static enum bp_status ragged(void *work, const struct bp_collective *c)
{
    struct bp_hosts_moves *m = work;
    struct bp_hosts *h = m->h;
    uint64_t at_src = 0, at_dst = 0;

    TRY(compare_counts(h, c, m));
    for (uint32_t i = 0; i < h->size; i++) {
        uint64_t out = (uint64_t)c->src_counts[i] * c->width;
        uint64_t in = (uint64_t)c->dst_counts[i] * c->width;
        bp_hosts_take(m, i, c->dst + at_dst, in);
        bp_hosts_give(m, i, c->src + at_src, out);
        if (i == h->rank && in) memcpy(c->dst + at_dst, c->src + at_src, in);
        at_dst += in;
        at_src += out;
    }
    return bp_hosts_moves_run(m);
}

/* Calls that reduce meet the other ranks by themselves: their data may go at the same time. */
static const struct bp_movers between_hosts = {{
    [BP_COMM_ALL_REDUCE] = bp_hosts_all_reduce,
    [BP_COMM_REDUCE] = bp_hosts_reduce,
    [BP_COMM_BROADCAST] = broadcast,
    [BP_COMM_ALL_GATHER] = all_gather,
    [BP_COMM_REDUCE_SCATTER] = bp_hosts_reduce_scatter,
    [BP_COMM_ALL_TO_ALL] = all_to_all,
    [BP_COMM_ALL_TO_ALL_RAGGED] = ragged,
    [BP_COMM_GATHER] = gather,
    [BP_COMM_SCATTER] = scatter,
}};

static enum bp_status move_data(struct bp_hosts *h, const struct bp_collective *c)
{
    struct bp_hosts_moves m = {.h = h, .call = c};
    enum bp_status status = BP_OK;

    if (h->little) return bp_hosts_little(h, c);
    if (!bp_call_reduces(c->call)) TRY(meet(h, c));
    if (between_hosts.move[c->call]) status = between_hosts.move[c->call](&m, c);
    bp_hosts_moves_finish(&m);
    return status;
}

/* What all ranks say of the call, with its number. */
static uint64_t say(const struct bp_hosts *h, const struct bp_collective *c)
{
    return bp_what(c->call, c->dtype, c->reduction, c->root) | h->number << 32;
}

static enum bp_status run_collective(struct bp_hosts *h, const struct bp_collective *c)
{
    struct bp_shm_rank *b = h->board;

    h->number++;
    h->own = (struct bp_hosts_head){say(h, c), c->count, 0};
    h->past[h->number % BP_HOSTS_PAST] = h->own;
    h->announced = h->agreed = false;
    h->little = bp_hosts_is_little(h, c);
    b->waiter.deadline = 0;
    b->waiter.timeout_ns = c->timeout_ns;
    TRY(move_data(h, c));
    TRY(bp_hosts_agree(h));
    return bp_hosts_settle(h);
}

/* After a failure nothing is under way any more. */
static enum bp_status end(struct bp_hosts *h, enum bp_status status)
{
    if (status == BP_OK) return BP_OK;
    bp_hosts_abandon(h);
    return bp_comm_answer(&h->board->failure);
}

enum bp_status bp_hosts_collective(struct bp_hosts *h, const struct bp_collective *c)
{
    if (bp_comm_has_failed(&h->board->failure)) return bp_comm_answer(&h->board->failure);
    return end(h, run_collective(h, c));
}

enum bp_status bp_hosts_p2p(struct bp_hosts *h, const struct bp_collective *first, uint32_t n,
                            size_t stride)
{
    if (bp_comm_has_failed(&h->board->failure)) return bp_comm_answer(&h->board->failure);
    return end(h, bp_hosts_pairs(h, first, n, stride));
}
