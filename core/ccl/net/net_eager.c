/* SPDX-License-Identifier: Apache-2.0 */
/* net_eager.c: calls of little data, where each host has one rank: data goes behind the heads,
 * in one message from rank to rank. Who gets nothing in a call waits for nobody, and is a bounded
 * number of calls ahead of those that it sends to: a root that broadcasts, for one. */
#include "net_comm.h"

bool bp_hosts_is_little(const struct bp_hosts *h, const struct bp_collective *c)
{
    uint64_t most = c->call == BP_COMM_ALL_REDUCE && h->size > 2 ? BP_HOSTS_EAGER : BP_HOSTS_LITTLE;

    return h->n_host == h->size && c->call != BP_COMM_ALL_TO_ALL_RAGGED &&
           c->count * c->width <= most;
}

/* Whether a rank says something to another in this call. */
static bool is_said(const struct bp_collective *c, uint32_t from, uint32_t to)
{
    const struct bp_call_form *f = &bp_call_forms[c->call];

    if (f->src_at_root) return from == c->root;
    return !f->dst_at_root || to == c->root;
}

/* Whether only some do. */
static bool is_rooted(const struct bp_collective *c)
{
    return bp_call_forms[c->call].src_at_root || bp_call_forms[c->call].dst_at_root;
}

/* Of src, what is for a rank. */
static const char *src_for(const struct bp_collective *c, uint32_t rank)
{
    return c->src + (bp_call_forms[c->call].src_parts ? rank * c->count * c->width : 0);
}

static char *dst_of(const struct bp_collective *c, uint32_t rank)
{
    return c->dst + (bp_call_forms[c->call].dst_parts ? rank * c->count * c->width : 0);
}

/* Before a message that ends with a mark goes, the mark before is there: no more than what belongs
 * to two of them is under way. */
static enum bp_status hold_back(struct bp_hosts *h, uint32_t to, uint64_t bytes)
{
    struct bp_hosts_flow *flow = &h->at[to].out;
    uint32_t op = h->n_op;

    if (!bp_hosts_count(flow, bytes) || flow->marks < 2) return BP_OK;
    if (!bp_hosts_recv(h, to, bp_hosts_tag(BP_HOSTS_HAD, to, flow->marks - 1), NULL, 0))
        return BP_ERR_MEMORY;
    return bp_hosts_await(h, op, h->n_op);
}

static enum bp_status send_all(struct bp_hosts *h, const struct bp_collective *c)
{
    for (uint32_t k = 1; k < h->size; k++) {
        uint32_t to = (h->rank + k) % h->size;
        if (!is_said(c, h->rank, to)) continue;
        if (is_rooted(c)) TRY(hold_back(h, to, h->own.bytes));
        TRY(bp_hosts_say(h, h->at[to].host, src_for(c, to)));
    }
    return BP_OK;
}

/* dst is not written before all are known to make this call. What one other rank only says comes to
 * it at once, if that one does. */
static char *place_of(struct bp_hosts *h, const struct bp_collective *c, uint32_t rank)
{
    bool one = bp_call_forms[c->call].src_at_root || h->size == 2;

    return one && !bp_call_reduces(c->call) ? dst_of(c, rank)
                                            : bp_hosts_extra(h, h->at[rank].host);
}

static enum bp_status hear_all(struct bp_hosts *h, const struct bp_collective *c)
{
    const struct bp_hosts_op *op[BP_BOARD_RANKS];

    for (uint32_t i = 0; i < h->size; i++) {
        if (i == h->rank || !is_said(c, i, h->rank)) continue;
        op[i] = bp_hosts_listen(h, h->at[i].host, place_of(h, c, i));
        if (!op[i]) return BP_ERR_MEMORY;
    }
    for (uint32_t i = 0; i < h->size; i++)
        if (i != h->rank && is_said(c, i, h->rank))
            TRY(bp_hosts_compare(h, h->at[i].host, op[i]));
    return bp_hosts_hear_of_lost(h);
}

/* What is this rank's own, and what has come, to dst. A sum may overwrite src: that has gone
 * before. */
static enum bp_status take_all(struct bp_hosts *h, const struct bp_collective *c)
{
    uint64_t part = h->own.bytes;
    const void *src[BP_BOARD_RANKS];
    void *tmp;

    if (!part) return BP_OK;
    for (uint32_t i = 0; i < h->size; i++) {
        src[i] = i == h->rank ? src_for(c, i) : place_of(h, c, i);
        if (bp_call_reduces(c->call) || !is_said(c, i, h->rank)) continue;
        if (dst_of(c, i) != src[i]) memcpy(dst_of(c, i), src[i], part);
    }
    if (!bp_call_reduces(c->call) || !is_said(c, h->rank, h->rank)) return BP_OK;
    tmp = bp_hosts_scratch(h, part);
    if (!tmp) return BP_ERR_MEMORY;
    TRY(bp_hosts_await(h, 0, h->n_op));
    bp_hosts_combine(h, c, c->dst, src, h->size, part, tmp);
    return BP_OK;
}

/* Those that wait for nobody are told now and then how far this rank is. */
static enum bp_status answer_all(struct bp_hosts *h, const struct bp_collective *c)
{
    static const char empty;

    for (uint32_t i = 0; i < h->size; i++) {
        struct bp_hosts_flow *flow = &h->at[i].in;
        if (i == h->rank || !is_said(c, i, h->rank)) continue;
        if (bp_hosts_count(flow, h->own.bytes) &&
            !bp_hosts_send(h, i, bp_hosts_tag(BP_HOSTS_HAD, h->rank, flow->marks), &empty, 0, true))
            return BP_ERR_MEMORY;
    }
    return BP_OK;
}

enum bp_status bp_hosts_little(struct bp_hosts *h, const struct bp_collective *c)
{
    h->own.bytes = c->count * c->width;
    TRY(send_all(h, c));
    TRY(hear_all(h, c));
    TRY(take_all(h, c));
    return is_rooted(c) ? answer_all(h, c) : BP_OK;
}
