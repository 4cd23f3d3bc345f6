/* SPDX-License-Identifier: Apache-2.0 */
/* net_transfer.c: parts that go from rank to rank, on this host or between hosts: begun, waited
 * for, and known to have come. */
#include "net_comm.h"

#include <stdlib.h>

static void add_local(struct bp_hosts_moves *m, uint32_t call, uint32_t rank, const void *src,
                      void *dst, uint64_t bytes)
{
    if (m->n_local == m->room) {
        uint32_t room = m->room ? 2 * m->room : 16;
        struct bp_collective *more = realloc(m->local, room * sizeof *more);
        if (!more) {
            m->status = bp_comm_fail(&m->h->board->failure, BP_ERR_MEMORY,
                                     "rank %u has no memory for a call", m->h->rank);
            return;
        }
        m->local = more;
        m->room = room;
    }
    m->local[m->n_local++] =
        (struct bp_collective){.call = call, .dtype = BP_U8, .root = m->h->at[rank].local,
                               .width = 1, .count = bytes, .src = src, .dst = dst,
                               .timeout_ns = m->call->timeout_ns, .what = m->h->own.what};
}

void bp_hosts_give(struct bp_hosts_moves *m, uint32_t to, const void *data, uint64_t bytes)
{
    struct bp_hosts *h = m->h;

    if (m->status || !bytes || to == h->rank) return;
    if (bp_hosts_is_here(h, to)) add_local(m, BP_COMM_SEND, to, data, NULL, bytes);
    else if (!bp_hosts_send(h, to, bp_hosts_tag(BP_HOSTS_DATA, h->rank, h->number), data, bytes,
                            false))
        m->status = BP_ERR_MEMORY;
}

void bp_hosts_take(struct bp_hosts_moves *m, uint32_t from, void *data, uint64_t bytes)
{
    struct bp_hosts *h = m->h;

    if (m->status || !bytes || from == h->rank) return;
    if (bp_hosts_is_here(h, from)) {
        add_local(m, BP_COMM_RECV, from, NULL, data, bytes);
        return;
    }
    m->status = bp_hosts_agree(h);
    if (m->status == BP_OK &&
        !bp_hosts_recv(h, from, bp_hosts_tag(BP_HOSTS_DATA, from, h->number), data, bytes))
        m->status = BP_ERR_MEMORY;
}

enum bp_status bp_hosts_moves_run(struct bp_hosts_moves *m)
{
    if (m->status == BP_OK) m->status = bp_hosts_agree(m->h);
    if (m->status == BP_OK && m->n_local)
        m->status = bp_pairs_run(m->h->board, m->local, m->n_local, sizeof *m->local);
    m->n_local = 0;
    return m->status;
}

void bp_hosts_moves_finish(struct bp_hosts_moves *m)
{
    free(m->local);
}

enum bp_status bp_hosts_await(struct bp_hosts *h, uint32_t from, uint32_t to)
{
    uint32_t round = 0;
    bool done;

    TRY(bp_hosts_agree(h));
    for (uint32_t i = from; i < to;) {
        TRY(bp_hosts_check(h, h->ops[i], &done));
        if (done) i++;
        else TRY(bp_hosts_idle(h, &round));
    }
    return BP_OK;
}

/* Both sides know how much has gone. */
static enum bp_status settle_with(struct bp_hosts *h, uint32_t rank)
{
    static const char empty;
    struct bp_hosts_rank *r = &h->at[rank];
    bool gave = r->gave > BP_HOSTS_UNSAID, took = r->took > BP_HOSTS_UNSAID;

    r->gave = r->took = 0;
    if (gave && !bp_hosts_recv(h, rank, bp_hosts_tag(BP_HOSTS_SAID, rank, h->number), NULL, 0))
        return BP_ERR_MEMORY;
    if (took && !bp_hosts_send(h, rank, bp_hosts_tag(BP_HOSTS_SAID, h->rank, h->number), &empty, 0,
                               true))
        return BP_ERR_MEMORY;
    return BP_OK;
}

enum bp_status bp_hosts_settle(struct bp_hosts *h)
{
    TRY(bp_hosts_await(h, 0, h->n_op));
    h->n_op = 0;
    for (uint32_t i = 0; i < h->size; i++) TRY(settle_with(h, i));
    if (h->n_op) TRY(bp_hosts_await(h, 0, h->n_op));
    h->n_op = 0;
    return BP_OK;
}

enum bp_status bp_hosts_local(struct bp_hosts *h, const struct bp_collective *c, uint32_t call,
                              uint32_t root, const void *src, void *dst)
{
    struct bp_collective part = *c;

    part.call = call;
    part.root = root;
    part.src = src;
    part.dst = dst;
    part.what = h->own.what;
    part.said = h->own.count;
    part.src_storage = src == c->src ? c->src_storage : src == c->dst ? c->dst_storage : NULL;
    if (dst != c->dst) part.dst_storage = NULL;
    if (part.reduction == BP_REDUCE_AVERAGE) part.reduction = BP_REDUCE_SUM;
    if (call == BP_COMM_BARRIER) part.count = 0;
    return bp_collective_run(h->board, &part);
}
