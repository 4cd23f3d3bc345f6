/* SPDX-License-Identifier: Apache-2.0 */
/* net_p2p.c: parts that go from rank to rank, on this host or between hosts: begun, waited for, and
 * known to have come; and sends and receives, of which some go to other hosts: those between the
 * ranks of a host go by the board at the same time. A message is a head with what fits behind it,
 * and another one for what does not. */
#include "net_comm.h"

#include <inttypes.h>
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

struct bp_hosts_exchange {
    const struct bp_collective *c;
    struct bp_hosts_op *head, *bulk, *taken;
    uint64_t number, mark; /* mark: that it ends with; or 0 */
    bool done;
    struct bp_hosts_head own, said; /* heads: of this rank's, or that is wanted; that came */
};

static uint64_t net_p2p_bytes_of(const struct bp_collective *c)
{
    return c->count * c->width;
}

/* A large message is done when the other side says that it has come; a little one that ends with a
 * mark, when it says that of the mark before. */
static enum bp_status await_mark(struct bp_hosts *h, struct bp_hosts_exchange *x, bool bulk)
{
    struct bp_hosts_rank *to = &h->at[x->c->root];
    uint64_t mark = bulk ? x->mark : x->mark ? x->mark - 1 : 0;

    if (mark <= to->pair_mark) return BP_OK;
    to->pair_mark = mark;
    x->taken = bp_hosts_recv(h, x->c->root, bp_hosts_tag(BP_HOSTS_TAKEN, x->c->root, mark), NULL,
                             0);
    return x->taken ? BP_OK : BP_ERR_MEMORY;
}

static enum bp_status begin_send(struct bp_hosts *h, struct bp_hosts_exchange *x)
{
    const struct bp_collective *c = x->c;
    bool bulk = x->own.bytes > BP_HOSTS_LITTLE;

    x->head = bp_hosts_send_headed(h, c->root, bp_hosts_tag(BP_HOSTS_PAIR, h->rank, x->number),
                                   &x->own, bulk ? NULL : c->src, false);
    if (bulk && x->head)
        x->bulk = bp_hosts_send(h, c->root, bp_hosts_tag(BP_HOSTS_BULK, h->rank, x->number), c->src,
                                x->own.bytes, false);
    if (!x->head || (bulk && !x->bulk)) return BP_ERR_MEMORY;
    return await_mark(h, x, bulk);
}

static enum bp_status net_p2p_begin(struct bp_hosts *h, struct bp_hosts_exchange *x)
{
    const struct bp_collective *c = x->c;
    struct bp_hosts_rank *other = &h->at[c->root];
    bool sends = c->call == BP_COMM_SEND;
    struct bp_hosts_flow *flow = sends ? &other->pair_out : &other->pair_in;

    x->own = (struct bp_hosts_head){bp_what(BP_COMM_SEND, c->dtype, 0, 0), c->count,
                                    net_p2p_bytes_of(c)};
    x->number = sends ? other->sent++ : other->taken++;
    if (bp_hosts_count(flow, x->own.bytes)) x->mark = flow->marks;
    if (sends) return begin_send(h, x);
    x->head = bp_hosts_recv_headed(h, c->root, bp_hosts_tag(BP_HOSTS_PAIR, c->root, x->number),
                                   &x->said, &x->own, c->dst);
    return x->head ? BP_OK : BP_ERR_MEMORY;
}

static enum bp_status end_recv(struct bp_hosts *h, struct bp_hosts_exchange *x)
{
    static const char empty;

    x->done = true;
    if (!x->mark) return BP_OK;
    return bp_hosts_send(h, x->c->root, bp_hosts_tag(BP_HOSTS_TAKEN, h->rank, x->mark), &empty, 0,
                         true)
               ? BP_OK
               : BP_ERR_MEMORY;
}

/* A head has come. */
static enum bp_status net_p2p_take(struct bp_hosts *h, struct bp_hosts_exchange *x)
{
    const struct bp_collective *c = x->c;
    uint32_t dtype = x->said.what >> 8 & 0xff;

    if (dtype != c->dtype || x->said.count != c->count)
        return bp_comm_fail(&h->board->failure, BP_ERR_INVALID,
                            "rank %u sends %" PRIu64 " %s to rank %u, which expects %" PRIu64 " %s",
                            c->root, x->said.count, bp_dtype_name(dtype), h->rank, c->count,
                            bp_dtype_name(c->dtype));
    if (x->said.bytes != x->own.bytes)
        return bp_comm_fail(&h->board->failure, BP_ERR_INVALID,
                            "rank %u sends %" PRIu64 " bytes to rank %u, which expects %" PRIu64
                            ": ranks are of different versions",
                            c->root, x->said.bytes, h->rank, x->own.bytes);
    if (x->own.bytes <= BP_HOSTS_LITTLE) return end_recv(h, x);
    x->bulk = bp_hosts_recv(h, c->root, bp_hosts_tag(BP_HOSTS_BULK, c->root, x->number), c->dst,
                            x->own.bytes);
    return x->bulk ? BP_OK : BP_ERR_MEMORY;
}

static enum bp_status net_p2p_step(struct bp_hosts *h, struct bp_hosts_exchange *x, bool *out_moved)
{
    bool done;

    TRY(bp_hosts_check(h, x->bulk ? x->bulk : x->head, &done));
    if (done && x->taken) TRY(bp_hosts_check(h, x->taken, &done));
    if (!done) return BP_OK;
    *out_moved = true;
    if (x->c->call == BP_COMM_RECV) return x->bulk ? end_recv(h, x) : net_p2p_take(h, x);
    x->done = true;
    return BP_OK;
}

static enum bp_status step_all(struct bp_hosts *h, uint32_t *out_left, bool *out_moved)
{
    *out_left = 0;
    for (uint32_t i = 0; i < h->n_pair; i++) {
        struct bp_hosts_exchange *x = &h->pairs[i];
        if (!x->done) TRY(net_p2p_step(h, x, out_moved));
        if (x->done) continue;
        h->pair = x->c;
        ++*out_left;
    }
    if (*out_left && bp_hosts_progress(h)) *out_moved = true;
    return BP_OK;
}

enum bp_status bp_hosts_pairs_move(void *ctx, bool *out_moved)
{
    struct bp_hosts *h = ctx;
    uint32_t left;

    TRY(step_all(h, &left, out_moved));
    if (!left && bp_hosts_progress(h)) *out_moved = true;
    return BP_OK;
}

static enum bp_status run_far(struct bp_hosts *h)
{
    uint32_t left, round = 0;

    for (;;) {
        bool moved = false;
        TRY(step_all(h, &left, &moved));
        if (!left) return bp_hosts_settle(h);
        if (moved) round = 0;
        else TRY(bp_hosts_idle(h, &round));
    }
}

static const struct bp_collective *call_at(const struct bp_collective *first, size_t stride,
                                           uint32_t i)
{
    const void *at = (const char *)first + i * stride;

    return at;
}

/* Those of this host go by its board, while the others go on. */
static enum bp_status run_near(struct bp_hosts *h, const struct bp_collective *first, uint32_t n,
                               size_t stride)
{
    struct bp_collective *near = malloc((n - h->n_pair) * sizeof *near);
    enum bp_status status;
    uint32_t n_near = 0;

    if (!near)
        return bp_comm_fail(&h->board->failure, BP_ERR_MEMORY, "rank %u has no memory for a group",
                            h->rank);
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_collective *c = call_at(first, stride, i);
        if (!bp_hosts_is_here(h, c->root)) continue;
        near[n_near] = *c;
        near[n_near++].root = h->at[c->root].local;
    }
    status = bp_pairs_run(h->board, near, n_near, sizeof *near);
    free(near);
    return status;
}

static enum bp_status net_p2p_make_room(struct bp_hosts *h, uint32_t n)
{
    if (n <= h->pair_room) return BP_OK;
    free(h->pairs);
    h->pairs = malloc(n * sizeof *h->pairs);
    h->pair_room = h->pairs ? n : 0;
    if (h->pairs) return BP_OK;
    return bp_comm_fail(&h->board->failure, BP_ERR_MEMORY, "rank %u has no memory for a group",
                        h->rank);
}

/* Begins those of other hosts, and runs all. */
static enum bp_status net_p2p_run(struct bp_hosts *h, const struct bp_collective *first, uint32_t n,
                                  size_t stride)
{
    TRY(net_p2p_make_room(h, n));
    for (uint32_t i = 0; i < n; i++) {
        const struct bp_collective *c = call_at(first, stride, i);
        if (bp_hosts_is_here(h, c->root)) continue;
        h->pairs[h->n_pair] = (struct bp_hosts_exchange){.c = c};
        TRY(net_p2p_begin(h, &h->pairs[h->n_pair++]));
    }
    if (h->n_pair < n) TRY(run_near(h, first, n, stride));
    return run_far(h);
}

enum bp_status bp_hosts_pairs(struct bp_hosts *h, const struct bp_collective *first, uint32_t n,
                              size_t stride)
{
    enum bp_status status;

    h->announced = h->agreed = h->little = false;
    h->board->waiter.deadline = 0;
    h->board->waiter.timeout_ns = first->timeout_ns;
    status = net_p2p_run(h, first, n, stride);
    if (status) bp_hosts_abandon(h); /* before what it points to is used again */
    h->pair = NULL;
    h->n_pair = 0;
    return status;
}
