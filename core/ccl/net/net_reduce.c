/* SPDX-License-Identifier: Apache-2.0 */
/* net_reduce.c: runs calls that reduce, between hosts. Each host first reduces the data of its
 * ranks in shared memory, and the results travel between hosts; where that would round twice, each
 * rank's own data travels. Each element is reduced by one rank, in the order of hosts or ranks. */
#include "net_comm.h"

enum { WINDOW = 4 }; /* pieces in flight between two ranks; there are five slots */

/* The ranks whose buffers are reduced: all ranks, or one of each host. */
struct group {
    struct bp_net_comm *h;
    const struct bp_collective *c;
    struct bp_net_transfer m;
    uint32_t rank[BP_COMM_MAX_RANKS], n;
    uint32_t me;    /* index of this rank in `rank`; n: not in the group */
    uint64_t piece; /* bytes that are reduced at a time */
    char *slots;    /* two pieces for each rank of the group, and a spare one */
};

bool bp_net_has_partial(const struct bp_net_comm *h, const struct bp_collective *c)
{
    bool narrow = (BP_M(F16) | BP_M(BF16) | BP_MASK_F8) >> c->dtype & 1;

    return !narrow || h->n_host == h->size || c->reduction == BP_REDUCE_MIN ||
           c->reduction == BP_REDUCE_MAX;
}

void bp_net_combine(const struct bp_net_comm *h, const struct bp_collective *c, void *dst,
                    const void *const *src, uint32_t n, uint64_t bytes, void *tmp)
{
    void *out = dst;

    for (uint32_t i = 2; i < n; i++)
        if (src[i] == dst) out = tmp; /* dst would be overwritten before that source is read */
    bp_ccl_reduce_of(c->dtype, c->reduction, out, src, n, bytes / c->width, h->size);
    if (out != dst) memcpy(dst, out, bytes);
}

static enum bp_status make_group(struct bp_net_comm *h, const struct bp_collective *c, bool all,
                                 uint32_t root, struct group *out)
{
    struct group *g = out;
    uint64_t most = 1 << 20;

    *g = (struct group){.h = h, .c = c, .m = {.h = h, .call = c}};
    g->n = all ? h->size : h->n_host;
    g->me = g->n;
    for (uint32_t i = 0; i < g->n; i++) {
        g->rank[i] = all ? i : h->leaders[i];
        if (!all && root < h->size && h->ranks[root].host == i) g->rank[i] = root;
        if (g->rank[i] == h->rank) g->me = i;
    }
    g->piece = most / (g->n - 1) & ~UINT64_C(4095);
    if (g->piece < 4096) g->piece = 4096;
    if (g->piece > BP_NET_REDUCE_BYTES) g->piece = BP_NET_REDUCE_BYTES;
    g->slots = bp_net_scratch(h, g->piece * (2 * g->n + 1));
    return g->slots ? BP_OK : BP_ERR_MEMORY;
}

static char *slot_of(const struct group *g, uint64_t k, uint32_t i)
{
    return g->slots + ((k & 1) * g->n + i) * g->piece;
}

static char *spare_slot(const struct group *g)
{
    return g->slots + 2 * g->n * g->piece;
}

/* Piece k of the share of group member i, in bytes. */
struct range {
    uint64_t at, bytes;
};

static struct range range_of(const struct group *g, uint64_t part, uint32_t i, uint64_t k)
{
    uint64_t begin = bp_share_begin(part, i, g->n) + k * g->piece,
             end = bp_share_begin(part, i + 1, g->n);

    if (begin >= end) return (struct range){end, 0};
    return (struct range){begin, end - begin < g->piece ? end - begin : g->piece};
}

/* Sends to each member piece k of its share of this rank's data, and receives the members' data of
 * this rank's own share. */
static enum bp_status send_shares(struct group *g, const char *src, uint64_t part, uint64_t k)
{
    struct range own = range_of(g, part, g->me, k);

    for (uint32_t i = 1; i < g->n; i++) {
        uint32_t to = (g->me + i) % g->n, from = (g->me + g->n - i) % g->n;
        struct range r = range_of(g, part, to, k);
        bp_net_transfer_send(&g->m, g->rank[to], src + r.at, r.bytes);
        bp_net_transfer_recv(&g->m, g->rank[from], slot_of(g, k, from), own.bytes);
    }
    return bp_net_transfer_run(&g->m);
}

/* Reduces piece k of this rank's share, and sends the result to all members. */
static enum bp_status send_results(struct group *g, const char *src, char *dst, uint64_t part,
                                   uint64_t k)
{
    struct range own = range_of(g, part, g->me, k);
    const void *from[BP_COMM_MAX_RANKS];

    for (uint32_t i = 0; i < g->n; i++)
        from[i] = i == g->me ? src + own.at : slot_of(g, k, i);
    bp_net_combine(g->h, g->c, dst + own.at, from, g->n, own.bytes, spare_slot(g));
    for (uint32_t i = 1; i < g->n; i++) {
        uint32_t to = (g->me + i) % g->n, other = (g->me + g->n - i) % g->n;
        struct range r = range_of(g, part, other, k);
        bp_net_transfer_recv(&g->m, g->rank[other], dst + r.at, r.bytes);
        bp_net_transfer_send(&g->m, g->rank[to], dst + own.at, own.bytes);
    }
    return bp_net_transfer_run(&g->m);
}

/* Reduces among the members of the group. Where dst is src, a part of src is overwritten only by
 * the result that it was read for. */
static enum bp_status all_reduce_shares(struct group *g, const char *src, char *dst, uint64_t part)
{
    uint64_t most = 0, pieces, begin[2] = {0, 0}, end[2] = {0, 0};

    for (uint32_t i = 0; i < g->n; i++) {
        uint64_t share = bp_share_begin(part, i + 1, g->n) - bp_share_begin(part, i, g->n);
        most = share > most ? share : most;
    }
    pieces = (most + g->piece - 1) / g->piece;
    for (uint64_t k = 0; k <= pieces; k++) {
        begin[k & 1] = g->h->n_request;
        if (k < pieces) TRY(send_shares(g, src, part, k));
        end[k & 1] = g->h->n_request;
        if (!k) continue;
        TRY(bp_net_requests_wait(g->h, (uint32_t)begin[~k & 1], (uint32_t)end[~k & 1]));
        TRY(send_results(g, src, dst, part, k - 1));
    }
    return BP_OK;
}

static uint64_t piece_at(const struct group *g, uint64_t part, uint64_t at)
{
    return part - at < g->piece ? part - at : g->piece;
}

/* Reduces between two hosts' members: each sends all its data, and reduces everything. That is as
 * many bytes as shares and results together, in one step instead of two; both members sum in the
 * same order. */
static enum bp_status all_reduce_both(struct group *g, const char *src, char *dst, uint64_t part)
{
    uint64_t pieces = (part + g->piece - 1) / g->piece;
    uint32_t begin[WINDOW], end[WINDOW], other = !g->me;

    for (uint64_t k = 0; k < pieces + WINDOW; k++) {
        uint32_t w = (uint32_t)(k % WINDOW);
        char *slot = g->slots + w * g->piece;
        if (k >= WINDOW && k - WINDOW < pieces) {
            uint64_t at = (k - WINDOW) * g->piece;
            const void *from[2];
            TRY(bp_net_requests_wait(g->h, begin[w], end[w]));
            from[g->me] = src + at;
            from[other] = slot;
            bp_net_combine(g->h, g->c, dst + at, from, 2, piece_at(g, part, at), NULL);
        }
        if (k >= pieces) continue;
        begin[w] = g->h->n_request;
        bp_net_transfer_send(&g->m, g->rank[other], src + k * g->piece,
                             piece_at(g, part, k * g->piece));
        bp_net_transfer_recv(&g->m, g->rank[other], slot, piece_at(g, part, k * g->piece));
        end[w] = g->h->n_request;
        TRY(g->m.status);
    }
    return BP_OK;
}

/* Reduces data that fits behind the headers. */
static enum bp_status all_reduce_small(struct bp_net_comm *h, const struct bp_collective *c)
{
    uint64_t part = c->count * c->width;
    char *own = bp_net_eager_buffer(h, h->host);
    const void *src[BP_COMM_MAX_RANKS];

    TRY(bp_net_local_run(h, c, BP_COMM_REDUCE, 0, c->src, bp_net_is_leader(h) ? own : NULL));
    TRY(bp_net_agree_begin(h, part));
    TRY(bp_net_agree_wait(h));
    if (bp_net_is_leader(h)) {
        for (uint32_t i = 0; i < h->n_host; i++)
            src[i] = i == h->host ? own : bp_net_eager_buffer(h, i);
        bp_ccl_reduce_of(c->dtype, c->reduction, c->dst, src, h->n_host, c->count, h->size);
    }
    if (h->shm->n == 1) return BP_OK;
    return bp_net_local_run(h, c, BP_COMM_BROADCAST, 0, c->dst, c->dst);
}

enum bp_status bp_net_all_reduce(void *work, const struct bp_collective *c)
{
    const struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    bool partial = bp_net_has_partial(h, c), alone = h->shm->n == 1 || !partial;
    uint64_t part = c->count * c->width;
    enum bp_status status;
    struct group g;

    if (partial && part <= BP_NET_EAGER_ALL_BYTES) return all_reduce_small(h, c);
    TRY(bp_net_local_run(h, c, BP_COMM_BARRIER, 0, NULL, NULL));
    TRY(bp_net_agree_begin(h, 0));
    if (!alone) {
        TRY(bp_net_agree_wait(h));
        TRY(bp_net_local_run(h, c, BP_COMM_REDUCE, 0, c->src, c->dst));
    }
    TRY(make_group(h, c, !partial, h->size, &g));
    if (g.me == g.n) status = BP_OK;
    else if (g.n == 2 && h->n_host == 2 && partial)
        status = all_reduce_both(&g, alone ? c->src : c->dst, c->dst, part);
    else
        status = all_reduce_shares(&g, alone ? c->src : c->dst, c->dst, part);
    bp_net_transfer_finish(&g.m);
    TRY(status);
    if (alone) return BP_OK;
    TRY(bp_net_requests_wait(h, 0, h->n_request));
    return bp_net_local_run(h, c, BP_COMM_BROADCAST, 0, c->dst, c->dst);
}

/* Sends one piece of each member to member `to`, which reduces the pieces to dst. */
static enum bp_status reduce_piece(struct group *g, uint32_t to, const char *src, char *dst,
                                   uint64_t bytes)
{
    const void *from[BP_COMM_MAX_RANKS];

    if (g->me == g->n) return BP_OK;
    if (g->me != to) {
        bp_net_transfer_send(&g->m, g->rank[to], src, bytes);
        return bp_net_transfer_run(&g->m);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        from[i] = i == g->me ? src : slot_of(g, 0, i);
        bp_net_transfer_recv(&g->m, g->rank[i], slot_of(g, 0, i), bytes);
    }
    TRY(bp_net_transfer_run(&g->m));
    TRY(bp_net_requests_wait(g->h, 0, g->h->n_request));
    bp_net_combine(g->h, g->c, dst, from, g->n, bytes, spare_slot(g));
    return BP_OK;
}

static enum bp_status reduce_pieces(struct group *g, bool partial)
{
    struct bp_net_comm *h = g->h;
    const struct bp_collective *c = g->c;
    uint64_t part = c->count * c->width, bytes;
    uint32_t to = partial ? h->ranks[c->root].host : c->root;

    for (uint64_t at = 0; at < part; at += bytes) {
        const char *src = c->src + at;
        char *dst = h->rank == c->root ? c->dst + at : NULL;
        bytes = part - at < g->piece ? part - at : g->piece;
        if (partial && h->shm->n > 1) {
            struct bp_collective piece = *c;
            bool here = bp_net_is_local(h, c->root);
            char *own = g->me < g->n ? slot_of(g, 1, g->me) : NULL;
            piece.count = bytes / c->width;
            piece.src_buffer = piece.dst_buffer = NULL;
            TRY(bp_net_local_run(h, &piece, BP_COMM_REDUCE, here ? h->ranks[c->root].local : 0, src,
                                 own));
            src = own;
        }
        TRY(reduce_piece(g, to, src, dst, bytes));
        TRY(bp_net_requests_wait(h, 0, h->n_request)); /* the next piece reuses the buffers */
    }
    return BP_OK;
}

static enum bp_status scatter_pieces(struct group *g)
{
    struct bp_net_comm *h = g->h;
    uint64_t part = g->c->count * g->c->width, bytes;

    for (uint64_t at = 0; at < part; at += bytes) {
        const void *from[BP_COMM_MAX_RANKS];
        bytes = part - at < g->piece ? part - at : g->piece;
        for (uint32_t k = 1; k < g->n; k++) {
            uint32_t to = (g->me + k) % g->n, other = (g->me + g->n - k) % g->n;
            bp_net_transfer_send(&g->m, to, g->c->src + to * part + at, bytes);
            bp_net_transfer_recv(&g->m, other, slot_of(g, 0, other), bytes);
        }
        TRY(bp_net_transfer_run(&g->m));
        TRY(bp_net_requests_wait(h, 0, h->n_request));
        for (uint32_t i = 0; i < g->n; i++)
            from[i] = i == g->me ? g->c->src + i * part + at : slot_of(g, 0, i);
        bp_net_combine(h, g->c, g->c->dst + at, from, g->n, bytes, spare_slot(g));
    }
    return BP_OK;
}

enum bp_status bp_net_reduce(void *work, const struct bp_collective *c)
{
    const struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    bool partial = bp_net_has_partial(h, c);
    enum bp_status status;
    struct group g;

    TRY(bp_net_local_run(h, c, BP_COMM_BARRIER, 0, NULL, NULL));
    TRY(bp_net_agree_begin(h, 0));
    TRY(make_group(h, c, !partial, c->root, &g));
    status = reduce_pieces(&g, partial);
    bp_net_transfer_finish(&g.m);
    return status;
}

enum bp_status bp_net_reduce_scatter(void *work, const struct bp_collective *c)
{
    const struct bp_net_transfer *m = work;
    struct bp_net_comm *h = m->h;
    enum bp_status status;
    struct group g;

    TRY(bp_net_local_run(h, c, BP_COMM_BARRIER, 0, NULL, NULL));
    TRY(bp_net_agree_begin(h, 0));
    TRY(make_group(h, c, true, c->root, &g));
    status = scatter_pieces(&g);
    bp_net_transfer_finish(&g.m);
    return status;
}
