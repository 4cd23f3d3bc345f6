/* SPDX-License-Identifier: Apache-2.0 */
/* shm_p2p.c: runs sends and receives within one machine. Messages of one direction between two
 * ranks are numbered, and a limited number of them is in the segment at a time. A message has data,
 * a piece of larger data, or the location of a buffer, which the receiver reads. The transfers of a
 * group run concurrently, in steps that do not wait. */
#include "../collective.h"

#include <inttypes.h>
#include <stdlib.h>

struct exchange {
    const struct bp_collective *c;
    struct bp_shm_channel *channel;
    uint32_t access; /* bp_peer_access; 0: the data is in messages */
    uint64_t at;     /* bytes transferred so far */
    bool done;
    /* The word and value that the transfer waits for, if it cannot continue. */
    const _Atomic uint64_t *word;
    uint64_t value;
};

static bool is_send(const struct exchange *x)
{
    return x->c->call == BP_COMM_SEND;
}

static uint64_t shm_p2p_bytes_of(const struct bp_collective *c)
{
    return c->count * c->width;
}

/* false: the transfer has to wait for that word. */
static bool is_word_at_least(struct exchange *x, const _Atomic uint64_t *word, uint64_t value)
{
    x->word = word;
    x->value = value;
    return atomic_load_explicit(word, memory_order_acquire) >= value;
}

static uint32_t choose_access(const struct bp_shm_rank *b, const struct bp_collective *c,
                              const struct bp_buffer_location *location)
{
    bool same_process = b->peers.pid[c->root] == b->peers.pid[b->rank];

    if (shm_p2p_bytes_of(c) <= BP_SHM_MESSAGE_BYTES || c->staging) return 0;
    if (b->peers.access_mask & BP_ACCESS_MAP && (same_process || location->fd >= 0))
        return BP_ACCESS_MAP;
    return b->peers.access_mask & BP_ACCESS_VM;
}

static struct bp_shm_message *message_of(const struct exchange *x, uint64_t number)
{
    return &x->channel->message[number % BP_SHM_CELLS];
}

/* Bytes of the next message: all that are left, if they fit. */
static uint64_t piece_of(const struct exchange *x)
{
    uint64_t left = shm_p2p_bytes_of(x->c) - x->at;

    return left < BP_SHM_MESSAGE_BYTES ? left : BP_SHM_MESSAGE_BYTES;
}

/* Cells that a piece occupies; at least one, even if its data is in the message itself. */
static uint64_t cells_of(uint64_t piece)
{
    return piece > BP_SHM_CELL_BYTES ? (piece + BP_SHM_CELL_BYTES - 1) / BP_SHM_CELL_BYTES : 1;
}

/* Copies a piece from src to the segment, or from there to dst. A small piece is in the message, a
 * larger one in cells; after the last cell the first one follows. */
static void copy_piece(const struct bp_shm_rank *b, const struct exchange *x, uint64_t number,
                       const char *src, char *dst, uint64_t size)
{
    uint32_t from = is_send(x) ? b->rank : x->c->root, to = is_send(x) ? x->c->root : b->rank;
    uint64_t part = (BP_SHM_CELLS - number % BP_SHM_CELLS) * BP_SHM_CELL_BYTES;
    char *here = size <= BP_SHM_INLINE_BYTES ? (char *)message_of(x, number)->data
                                             : bp_shm_cell(b->segment, from, to, number);

    for (uint64_t at = 0; at < size; at += part, part = size - at) {
        if (part > size - at) part = size - at;
        bp_copy_bytes(dst ? dst + at : here, src ? src + at : here, part, false);
        here = bp_shm_cell(b->segment, from, to, 0);
    }
}

/* Writes the next message: dtype and count, and its data or the buffer's location. */
static enum bp_status write_message(struct bp_shm_rank *b, struct exchange *x, uint64_t number)
{
    const struct bp_collective *c = x->c;
    struct bp_shm_message *m = message_of(x, number);
    uint64_t size = piece_of(x), k = x->at / BP_SHM_MESSAGE_BYTES;
    const char *src;

    if (c->staging) TRY(bp_staging_wait(c->staging, b, BP_SHM_MESSAGE_BYTES, k));
    m->dtype = c->dtype;
    m->count = c->count;
    if (!x->at && shm_p2p_bytes_of(c) > BP_SHM_MESSAGE_BYTES) {
        bp_buffer_location_fill(b, c->src, c->src_buffer, &m->location);
        x->access = choose_access(b, c, &m->location);
    }
    m->access = x->access;
    src = c->staging ? bp_staging_src(c->staging, 0, k) : c->src + x->at;
    if (!x->access) copy_piece(b, x, number, src, NULL, size);
    b->p2p.sent[c->root] = number - 1 + (x->access ? 1 : cells_of(size));
    x->at = x->access ? shm_p2p_bytes_of(c) : x->at + size;
    bp_shm_word_publish(b, &m->number, number);
    bp_prefetch_for_write(message_of(x, b->p2p.sent[c->root] + 1));
    return BP_OK;
}

/* Whether the cells for the next piece are free. If they are not, the transfer waits until about
 * half of all cells are free. */
static bool has_room(struct bp_shm_rank *b, struct exchange *x, uint64_t cells)
{
    uint64_t *acked = &b->p2p.acked[x->c->root], end = b->p2p.sent[x->c->root] + cells;

    if (end <= *acked + BP_SHM_CELLS) return true;
    *acked = atomic_load_explicit(&x->channel->consumed, memory_order_acquire);
    x->word = &x->channel->consumed;
    x->value = end - cells - BP_SHM_CELLS / 2;
    return end <= *acked + BP_SHM_CELLS;
}

/* Sends until the transfer is done, or has to wait. */
static enum bp_status step_send(struct bp_shm_rank *b, struct exchange *x, bool *out_moved)
{
    uint64_t *sent = &b->p2p.sent[x->c->root];

    while (!x->done && !x->access) {
        if (!has_room(b, x, cells_of(piece_of(x)))) return BP_OK;
        TRY(write_message(b, x, *sent + 1));
        *out_moved = true;
        x->done = !x->access && x->at == shm_p2p_bytes_of(x->c);
    }
    /* The receiver reads the buffer. */
    if (!x->done && is_word_at_least(x, &x->channel->consumed, *sent)) x->done = *out_moved = true;
    return BP_OK;
}

static enum bp_status check_message(struct bp_shm_rank *b, const struct exchange *x,
                                    const struct bp_shm_message *m)
{
    const struct bp_collective *c = x->c;

    if (m->dtype == c->dtype && m->count == c->count) return BP_OK;
    return bp_comm_fail(&b->failure, BP_ERR_INVALID,
                        "rank %u sends %" PRIu64 " %s to rank %u, which expects %" PRIu64 " %s",
                        bp_shm_global_rank(b, c->root), m->count, bp_dtype_name(m->dtype),
                        bp_shm_global_rank(b, b->rank), c->count, bp_dtype_name(c->dtype));
}

/* Copies the data of one message to dst, or (from) the whole buffer of the sender. */
static enum bp_status read_pieces(struct bp_shm_rank *b, struct exchange *x, uint64_t number,
                                  const struct bp_peer_buffer *from)
{
    const struct bp_collective *c = x->c;
    uint64_t end = shm_p2p_bytes_of(c), k = x->at / BP_SHM_MESSAGE_BYTES;

    do {
        uint64_t size = piece_of(x);
        char *to = c->dst + x->at;
        if (c->staging) {
            TRY(bp_staging_wait(c->staging, b, BP_SHM_MESSAGE_BYTES, k));
            to = bp_staging_dst(c->staging, 0, k);
        }
        if (from) TRY(bp_peer_buffer_read(b, from, x->at, to, size, false));
        else copy_piece(b, x, number, NULL, to, size);
        x->at += size;
        if (c->staging) TRY(bp_staging_flush(c->staging, b, k++));
    } while (from && x->at < end);
    return BP_OK;
}

static enum bp_status read_message(struct bp_shm_rank *b, struct exchange *x, uint64_t number)
{
    const struct bp_collective *c = x->c;
    const struct bp_shm_message *m = message_of(x, number);
    /* Read once, because the other process can still write there. */
    const struct bp_buffer_location location = m->location;
    const uint32_t access = m->access;
    uint64_t cells = access ? 1 : cells_of(piece_of(x));
    struct bp_peer_buffer from;

    TRY(check_message(b, x, m));
    if (access) TRY(bp_peer_buffer_open(b, c->root, &location, shm_p2p_bytes_of(c), access, &from));
    if (access && !c->staging) {
        x->at = shm_p2p_bytes_of(c);
        TRY(bp_peer_buffer_read(b, &from, 0, c->dst, x->at, x->at >= 4 << 20));
    } else {
        TRY(read_pieces(b, x, number, access ? &from : NULL));
    }
    b->p2p.consumed[c->root] += cells;
    bp_shm_word_publish(b, &x->channel->consumed, b->p2p.consumed[c->root]);
    x->done = x->at == shm_p2p_bytes_of(c);
    return BP_OK;
}

static enum bp_status shm_p2p_step(struct bp_shm_rank *b, struct exchange *x, bool *out_moved)
{
    const uint64_t *consumed = &b->p2p.consumed[x->c->root];

    if (is_send(x)) return step_send(b, x, out_moved);
    while (!x->done && is_word_at_least(x, &message_of(x, *consumed + 1)->number, *consumed + 1)) {
        TRY(read_message(b, x, *consumed + 1));
        *out_moved = true;
    }
    return BP_OK;
}

/* Whether no earlier transfer of the same direction and rank is in progress. The messages of one
 * direction must keep their order. */
static bool is_its_turn(const struct exchange *list, uint32_t i)
{
    for (uint32_t j = 0; j < i; j++)
        if (!list[j].done && list[j].c->call == list[i].c->call &&
            list[j].c->root == list[i].c->root)
            return false;
    return true;
}

/* Runs one step of each transfer. out_left: the number that are not done; out_last: one of those
 * that wait. */
static enum bp_status progress_all(struct bp_shm_rank *b, struct exchange *list, uint32_t n,
                                   uint32_t *out_left, struct exchange **out_last, bool *out_moved)
{
    *out_left = 0;
    *out_moved = false;
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].done || !is_its_turn(list, i)) {
            *out_left += !list[i].done;
            continue;
        }
        TRY(shm_p2p_step(b, &list[i], out_moved));
        if (list[i].done) continue;
        ++*out_left;
        *out_last = &list[i];
    }
    return BP_OK;
}

static enum bp_status shm_p2p_run_all(struct bp_shm_rank *b, struct exchange *list, uint32_t n)
{
    struct exchange *last = NULL;
    uint32_t left, idle = 0;
    bool moved;

    for (;;) {
        TRY(progress_all(b, list, n, &left, &last, &moved));
        if (!left) return BP_OK;
        if (moved) {
            idle = 0;
            continue;
        }
        if (!last->c->signature) b->p2p.waiting = last->c;
        if (b->waiter.progress) TRY(b->waiter.progress->progress(b->waiter.progress->ctx, &moved));
        if (moved) continue;
        if (left == 1 && !b->waiter.progress)
            TRY(bp_shm_word_wait(b, last->word, last->value, last->c->root));
        else
            TRY(bp_waiter_backoff(b, last->c->root, &idle));
    }
}

enum bp_status bp_shm_p2p_run(void *self, const struct bp_collective *first, uint32_t n,
                              size_t stride)
{
    struct bp_shm_rank *b = self;
    struct exchange few[8], *x = few;
    enum bp_status status;

    if (bp_comm_has_failed(&b->failure)) return bp_comm_failure_report(&b->failure);
    if (n > sizeof few / sizeof *few) x = malloc(n * sizeof *x);
    if (!x)
        return bp_comm_fail(&b->failure, BP_ERR_MEMORY, "rank %u has no memory for a group",
                            bp_shm_global_rank(b, b->rank));
    if (!first->signature) b->waiter.deadline = 0;
    bp_peer_map_refresh(b);
    for (uint32_t i = 0; i < n; i++) {
        const void *at = (const char *)first + i * stride;
        const struct bp_collective *c = at;
        bool send = c->call == BP_COMM_SEND;
        x[i] = (struct exchange){.c = c};
        x[i].channel = send ? bp_shm_channel(b->segment, b->rank, c->root)
                            : bp_shm_channel(b->segment, c->root, b->rank);
        b->waiter.timeout_ns = c->timeout_ns;
    }
    status = shm_p2p_run_all(b, x, n);
    b->p2p.waiting = NULL;
    if (x != few) free(x);
    return status;
}
