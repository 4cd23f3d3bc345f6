/* SPDX-License-Identifier: Apache-2.0 */
/* shm_collective.c: a collective call: what it is stands on the board, what the others say is
 * compared, and data goes: in the entries, through windows piece by piece, or directly
 * (zero_copy.c).
 *
 * A piece is packed from src into the rank's window, and when all have packed theirs, each takes
 * what it needs into dst. Calls whose src has a part for each rank cut the window into as many. */
#include "../collective.h"

#include <inttypes.h>

static bool is_parted(uint32_t call)
{
    return bp_call_forms[call].src_parts || bp_call_forms[call].ragged;
}

/* Some get nothing in it, and wait for nobody. Where there are other hosts all meet here first. */
static bool is_one_way(const struct bp_collective *c)
{
    const struct bp_call_form *f = &bp_call_forms[c->call];

    return !c->what && (f->src_at_root || f->dst_at_root);
}

/* Of a part that rank from has for rank to. Those of this rank are checked, and not read from the
 * board again. */
static uint64_t part_bytes(const struct bp_shm_rank *b, const struct bp_collective *c,
                           uint32_t from, uint32_t to)
{
    if (c->call != BP_COMM_ALL_TO_ALL_RAGGED) return c->count * c->width;
    if (from == b->rank) return (uint64_t)c->src_counts[to] * c->width;
    if (to == b->rank) return (uint64_t)c->dst_counts[from] * c->width;
    return bp_board_counts(b->segment, from, b->calls.sequence)[to] * c->width;
}

/* What of a part of so many bytes is in piece k. */
static uint64_t piece_bytes(uint64_t part, uint64_t room, uint64_t k)
{
    uint64_t at = k * room;

    return at >= part ? 0 : part - at < room ? part - at : room;
}

/* Piece k of a part that begins so many bytes into src, or dst; NULL: the rank has none. */
static const char *src_piece(const struct bp_collective *c, uint32_t part, uint64_t begin,
                             uint64_t room, uint64_t k)
{
    if (c->stage) return bp_stage_src(c->stage, part, k);
    return c->src ? c->src + begin + k * room : NULL;
}

static char *dst_piece(const struct bp_collective *c, uint32_t part, uint64_t begin, uint64_t room,
                       uint64_t k)
{
    if (c->stage) return bp_stage_dst(c->stage, part, k);
    return c->dst ? c->dst + begin + k * room : NULL;
}

static void shm_put(char *to, const char *from, uint64_t bytes)
{
    if (to && from) bp_copy_bytes(to, from, bytes, false);
}

static enum bp_status shm_pack(struct bp_shm_rank *b, const struct bp_collective *c, char *window,
                               uint64_t room, uint64_t k)
{
    uint64_t begin = 0;

    if (c->stage) TRY(bp_stage_await(c->stage, b, room, k));
    if (bp_call_forms[c->call].src_at_root && b->rank != c->root) return BP_OK;
    if (!is_parted(c->call)) {
        shm_put(window, src_piece(c, 0, 0, room, k), piece_bytes(c->count * c->width, room, k));
        return BP_OK;
    }
    for (uint32_t to = 0; to < b->n; to++) {
        uint64_t part = part_bytes(b, c, b->rank, to);
        shm_put(window + to * room, src_piece(c, to, begin, room, k), piece_bytes(part, room, k));
        begin += part;
    }
    return BP_OK;
}

/* A piece of a call, which all have packed. */
struct piece {
    struct bp_shm_rank *b;
    char *const *window;
    uint64_t room, k;
};

static enum bp_status shm_reduce(const struct piece *p, const struct bp_collective *c, size_t skip)
{
    struct bp_shm_rank *b = p->b;
    const void *src[BP_BOARD_RANKS];
    uint64_t bytes = piece_bytes(c->count * c->width, p->room, p->k);
    char *const *window = p->window, *dst = dst_piece(c, 0, 0, p->room, p->k);

    for (uint32_t i = 0; i < b->n; i++) src[i] = window[i] + skip;
    if (dst) bp_ccl_reduce(c->dtype, c->reduction, dst, src, b->n, bytes / c->width);
    return BP_OK;
}

static enum bp_status take_reduced(void *work, const struct bp_collective *c)
{
    return shm_reduce(work, c, 0);
}

static enum bp_status take_reduced_part(void *work, const struct bp_collective *c)
{
    const struct piece *p = work;

    return shm_reduce(p, c, p->b->rank * p->room);
}

/* Each rank's piece, from skip on in its window, into its part of dst. */
static enum bp_status take_parts(const struct piece *p, const struct bp_collective *c, size_t skip)
{
    struct bp_shm_rank *b = p->b;
    char *const *window = p->window;
    uint64_t begin = 0, room = p->room;

    for (uint32_t i = 0; i < b->n; i++) {
        uint64_t part = part_bytes(b, c, i, b->rank);
        shm_put(dst_piece(c, i, begin, room, p->k), window[i] + skip,
                piece_bytes(part, room, p->k));
        begin += part;
    }
    return BP_OK;
}

static enum bp_status shm_gather(void *work, const struct bp_collective *c)
{
    return take_parts(work, c, 0);
}

static enum bp_status all_to_all(void *work, const struct bp_collective *c)
{
    const struct piece *p = work;

    return take_parts(p, c, p->b->rank * p->room);
}

/* From the root's window. */
static enum bp_status take_one(const struct piece *p, const struct bp_collective *c, size_t skip)
{
    uint64_t bytes = piece_bytes(c->count * c->width, p->room, p->k);

    shm_put(dst_piece(c, 0, 0, p->room, p->k), p->window[c->root] + skip, bytes);
    return BP_OK;
}

static enum bp_status shm_broadcast(void *work, const struct bp_collective *c)
{
    return take_one(work, c, 0);
}

static enum bp_status shm_scatter(void *work, const struct bp_collective *c)
{
    const struct piece *p = work;

    return take_one(p, c, p->b->rank * p->room);
}

/* From all ranks' windows to dst. */
static const struct bp_movers from_windows = {{
    [BP_COMM_ALL_REDUCE] = take_reduced,
    [BP_COMM_REDUCE] = take_reduced,
    [BP_COMM_BROADCAST] = shm_broadcast,
    [BP_COMM_ALL_GATHER] = shm_gather,
    [BP_COMM_REDUCE_SCATTER] = take_reduced_part,
    [BP_COMM_ALL_TO_ALL] = all_to_all,
    [BP_COMM_ALL_TO_ALL_RAGGED] = all_to_all,
    [BP_COMM_GATHER] = shm_gather,
    [BP_COMM_SCATTER] = shm_scatter,
}};

static enum bp_status shm_unpack(struct bp_shm_rank *b, const struct bp_collective *c,
                                 char *const *window, uint64_t room, uint64_t k)
{
    struct piece p = {b, window, room, k};

    if (from_windows.move[c->call]) TRY(from_windows.move[c->call](&p, c));
    return c->stage ? bp_stage_done(c->stage, b, k) : BP_OK;
}

/* Bytes for one part, of a window or so: whole elements, and whole lines where parts follow. */
static uint64_t room_of(const struct bp_shm_rank *b, const struct bp_collective *c, uint64_t bytes)
{
    return is_parted(c->call) ? bytes / b->n & ~UINT64_C(63) : bytes;
}

/* The same on all ranks: of the largest part there is. */
static uint64_t count_pieces(const struct bp_shm_rank *b, const struct bp_collective *c,
                             uint64_t room)
{
    uint64_t most = c->count * c->width;

    if (c->call == BP_COMM_ALL_TO_ALL_RAGGED)
        for (uint32_t i = 0; i < b->n; i++)
            for (uint32_t j = 0; j < b->n; j++) {
                uint64_t part = part_bytes(b, c, i, j);
                most = part > most ? part : most;
            }
    return (most + room - 1) / room;
}

/* Some of the ranks. */
struct ranks {
    uint32_t first, end;
};

static struct ranks all_ranks(const struct bp_shm_rank *b)
{
    return (struct ranks){0, b->n};
}

/* Those that this rank gets something from. */
static struct ranks shm_sources(const struct bp_shm_rank *b, const struct bp_collective *c)
{
    bool gets = (b->rank == c->root) == bp_call_forms[c->call].dst_at_root;

    if (!is_one_way(c)) return all_ranks(b);
    if (!gets) return (struct ranks){0, 0};
    return b->rank == c->root ? all_ranks(b) : (struct ranks){c->root, c->root + 1};
}

/* Waits until they have begun a call, and compares that and all before it with what this rank has
 * done. */
static enum bp_status shm_compare(struct bp_shm_rank *b, struct ranks ranks, uint64_t sequence)
{
    uint64_t own = bp_board_entry(b, b->rank, sequence)->history;

    for (uint32_t i = ranks.first; i < ranks.end; i++) {
        const struct bp_board_entry *e = bp_board_entry(b, i, sequence);
        TRY(bp_board_wait(b, &e->sequence, sequence, i));
        if (__builtin_expect(e->history != own, 0)) return bp_board_mismatch(b, i, sequence);
    }
    return BP_OK;
}

/* Waits until all have ended a call, for they have begun the next, which this one has too. */
static enum bp_status await_ended(struct bp_shm_rank *b, uint64_t sequence)
{
    enum bp_status status;

    if (sequence <= b->calls.ended) return BP_OK;
    b->calls.lag = b->calls.sequence - sequence - 1;
    status = shm_compare(b, all_ranks(b), sequence + 1);
    b->calls.lag = 0;
    if (status == BP_OK) b->calls.ended = sequence;
    return status;
}

static enum bp_status shm_meet(struct bp_shm_rank *b, struct ranks with)
{
    TRY(shm_compare(b, with, b->calls.sequence));
    if (with.end - with.first == b->n) b->calls.ended = b->calls.sequence - 1;
    if (b->calls.sequence - b->calls.ended <= BP_BOARD_AHEAD) return BP_OK;
    return await_ended(b, b->calls.sequence - BP_BOARD_AHEAD / 2);
}

static enum bp_status shm_enter(struct bp_shm_rank *b, const struct bp_collective *c,
                                struct ranks with)
{
    struct bp_board_entry *e = bp_board_entry(b, b->rank, b->calls.sequence);
    uint64_t what = c->what ? c->what : bp_what(c->call, c->dtype, c->reduction, c->root);
    uint64_t count = c->what ? c->said : c->count;

    e->what = what;
    e->count = count;
    e->history = b->calls.history = bp_history(b->calls.history, what, count);
    bp_board_set(b, &e->sequence, b->calls.sequence);
    TRY(shm_meet(b, with));
    bp_fetch_to_write(bp_board_entry(b, b->rank, b->calls.sequence + 1)); /* written by the next */
    return BP_OK;
}

static enum bp_status run_inline(struct bp_shm_rank *b, const struct bp_collective *c)
{
    char *window[BP_BOARD_RANKS];

    for (uint32_t i = 0; i < b->n; i++)
        window[i] = (char *)bp_board_entry(b, i, b->calls.sequence)->data;
    TRY(shm_pack(b, c, window[b->rank], BP_BOARD_INLINE, 0));
    TRY(shm_enter(b, c, shm_sources(b, c)));
    return shm_unpack(b, c, window, BP_BOARD_INLINE, 0);
}

/* One piece, that goes with the entry, and so may wait there until others come. */
static enum bp_status run_little(struct bp_shm_rank *b, const struct bp_collective *c,
                                 uint64_t room)
{
    char *window[BP_BOARD_RANKS];

    for (uint32_t i = 0; i < b->n; i++)
        window[i] = bp_board_little(b->segment, i, b->calls.sequence);
    TRY(shm_pack(b, c, window[b->rank], room, 0));
    TRY(shm_enter(b, c, shm_sources(b, c)));
    return shm_unpack(b, c, window, room, 0);
}

/* One piece: packed before the entry, so that one round of waiting does. */
static enum bp_status run_window(struct bp_shm_rank *b, const struct bp_collective *c,
                                 uint64_t room)
{
    char *window[BP_BOARD_RANKS];
    uint64_t piece = ++b->calls.pieces;

    for (uint32_t i = 0; i < b->n; i++) window[i] = bp_board_window(b->segment, i, piece);
    TRY(shm_pack(b, c, window[b->rank], room, 0));
    atomic_store_explicit(&b->me->step, piece, memory_order_relaxed);
    TRY(shm_enter(b, c, all_ranks(b)));
    return shm_unpack(b, c, window, room, 0);
}

static enum bp_status run_pieces(struct bp_shm_rank *b, const struct bp_collective *c,
                                 uint64_t room)
{
    uint64_t n = count_pieces(b, c, room);
    char *window[BP_BOARD_RANKS];

    for (uint64_t k = 0; k < n; k++) {
        uint64_t piece = ++b->calls.pieces;
        for (uint32_t i = 0; i < b->n; i++) window[i] = bp_board_window(b->segment, i, piece);
        TRY(shm_pack(b, c, window[b->rank], room, k));
        bp_board_set(b, &b->me->step, piece);
        for (uint32_t i = 0; i < b->n; i++) TRY(bp_board_wait(b, &b->at[i].step, piece, i));
        TRY(shm_unpack(b, c, window, room, k));
    }
    return BP_OK;
}

static bool has_src(const struct bp_shm_rank *b, const struct bp_collective *c)
{
    return !bp_call_forms[c->call].src_at_root || b->rank == c->root;
}

static bool has_dst(const struct bp_shm_rank *b, const struct bp_collective *c)
{
    return !bp_call_forms[c->call].dst_at_root || b->rank == c->root;
}

/* What stands there already need not be fetched by the others again. */
static void put_where(struct bp_where *to, const struct bp_where *where)
{
    if (memcmp(to, where, sizeof *to)) *to = *where;
}

/* For others to reach. */
static void say_where(struct bp_shm_rank *b, const struct bp_collective *c)
{
    struct bp_where src, dst;

    if (c->stage) {
        src = dst = (struct bp_where){.fd = -1, .staged = 1};
    } else {
        bp_where_fill(b, has_src(b, c) ? c->src : NULL, c->src_storage, &src);
        bp_where_fill(b, has_dst(b, c) ? c->dst : NULL, c->dst_storage, &dst);
    }
    put_where(&b->me->where[b->calls.sequence & 1].src, &src);
    put_where(&b->me->where[b->calls.sequence & 1].dst, &dst);
}

/* The same on all ranks, for all read the same words. */
static uint32_t find_way(const struct bp_shm_rank *b)
{
    uint64_t parity = b->calls.sequence & 1;
    bool maps = b->peers.ways & BP_WAY_MAP;

    for (uint32_t i = 0; i < b->n; i++)
        if (b->at[i].where[parity].src.staged) return BP_WAY_STAGED;
    for (uint32_t i = 0; i < b->n && maps; i++)
        maps = bp_where_maps(b, &b->at[i].where[parity].src) &&
               bp_where_maps(b, &b->at[i].where[parity].dst);
    return maps ? BP_WAY_MAP : b->peers.ways & BP_WAY_VM ? BP_WAY_VM : BP_WAY_STAGED;
}

/* Nobody leaves before the others have ended with its buffers. */
static enum bp_status await_all(struct bp_shm_rank *b)
{
    bp_board_set(b, &b->me->done, b->calls.sequence);
    for (uint32_t i = 0; i < b->n; i++)
        TRY(bp_board_wait(b, &b->at[i].done, b->calls.sequence, i));
    return BP_OK;
}

static enum bp_status run_direct(struct bp_shm_rank *b, const struct bp_collective *c)
{
    bool reaches = b->peers.ways != BP_WAY_STAGED;
    uint32_t way;

    if (reaches) say_where(b, c);
    TRY(shm_enter(b, c, all_ranks(b)));
    way = reaches ? find_way(b) : BP_WAY_STAGED;
    if (way == BP_WAY_STAGED) return run_pieces(b, c, room_of(b, c, BP_BOARD_WINDOW));
    TRY(bp_collective_direct(b, c, way));
    return await_all(b);
}

/* What each rank sends to each stands on the board; it is what the other expects. */
static enum bp_status run_ragged(struct bp_shm_rank *b, const struct bp_collective *c)
{
    uint64_t *counts = bp_board_counts(b->segment, b->rank, b->calls.sequence);

    /* Others may have calls between, and still read what was there. */
    if (b->calls.ended + 2 < b->calls.sequence) TRY(await_ended(b, b->calls.sequence - 2));
    for (uint32_t i = 0; i < b->n; i++) counts[i] = (uint64_t)c->src_counts[i];
    TRY(shm_enter(b, c, all_ranks(b)));
    for (uint32_t i = 0; i < b->n; i++) {
        uint64_t sent = bp_board_counts(b->segment, i, b->calls.sequence)[b->rank];
        if (sent != (uint64_t)c->dst_counts[i])
            return bp_comm_fail(&b->failure, BP_ERR_INVALID,
                                "sequence %" PRIu64 ": in all_to_all_ragged rank %u sends %" PRIu64
                                " elements to rank %u, which expects %" PRId64,
                                b->calls.sequence, i, sent, b->rank, c->dst_counts[i]);
    }
    return run_pieces(b, c, room_of(b, c, BP_BOARD_WINDOW));
}

/* By the way that is the table's. */
static enum bp_status run_call(struct bp_shm_rank *b, const struct bp_collective *c)
{
    uint64_t bytes = c->count * c->width, room;

    if (bytes < b->calls.inline_bytes[c->call]) return run_inline(b, c);
    room = room_of(b, c, BP_BOARD_LITTLE);
    if (is_one_way(c) && bytes < b->calls.window_bytes[c->call] && bytes <= room)
        return run_little(b, c, room);
    room = room_of(b, c, BP_BOARD_WINDOW);
    if (c->call == BP_COMM_ALL_TO_ALL_RAGGED) return run_ragged(b, c);
    if (bytes >= b->calls.window_bytes[c->call]) return run_direct(b, c);
    if (bytes <= room) return run_window(b, c, room);
    TRY(shm_enter(b, c, all_ranks(b)));
    return run_pieces(b, c, room);
}

/* While a device copies, its driver's threads may need the processor that a wait would spin on. */
static const uint64_t staged_spin_ns = 50000;

enum bp_status bp_collective_run(void *self, const struct bp_collective *c)
{
    struct bp_shm_rank *b = self;
    uint64_t spin_ns = b->waiter.spin_ns;
    enum bp_status status;

    if (__builtin_expect(bp_comm_has_failed(&b->failure), 0)) return bp_comm_answer(&b->failure);
    b->calls.sequence++;
    if (!c->what) b->waiter.deadline = 0;
    b->waiter.timeout_ns = c->timeout_ns;
    if (c->stage && spin_ns > staged_spin_ns) b->waiter.spin_ns = staged_spin_ns;
    status = run_call(b, c);
    b->waiter.spin_ns = spin_ns;
    if (status == BP_OK)
        atomic_store_explicit(&b->me->done, b->calls.sequence, memory_order_release);
    return status;
}
