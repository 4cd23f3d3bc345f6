/* SPDX-License-Identifier: Apache-2.0 */
/* net_transfer.c: parts that go from rank to rank, on this host or between hosts. */
#include "net_comm.h"

#include <stdlib.h>

static void add_local(struct bp_hosts_moves *m, uint32_t call, uint32_t rank, const void *src,
                      void *dst, uint64_t bytes)
{
    if (m->n_local == m->room) {
        uint32_t room = m->room ? 2 * m->room : 16;
        struct bp_collective *more = realloc(m->local, room * sizeof *more);
        if (!more) {
            m->status = bp_board_fail(m->h->board, BP_ERR_MEMORY,
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
