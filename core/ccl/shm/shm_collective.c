/* SPDX-License-Identifier: Apache-2.0 */
/* shm_collective.c: runs a collective call in shared memory. Each rank describes its call in a call
 * slot, compares it with the other ranks' calls, and moves data in the call slots, through windows
 * (bounce buffers) piece by piece, or directly between buffers (zero_copy.c).
 *
 * Each rank packs a piece from src into its window. When all ranks have packed theirs, each rank
 * unpacks the data that it needs into dst. In calls whose src has a part for each rank, the window
 * is divided into one part per rank. */
#include "../collective.h"

#include <inttypes.h>

static bool is_parted(uint32_t call)
{
    return bp_call_traits_of[call].src_parts || bp_call_traits_of[call].ragged;
}

/* Whether only some ranks receive data, so that the other ranks do not wait. False for a part of a
 * call between hosts (signature set), in which all ranks of the host must meet first. */
static bool is_one_way(const struct bp_collective *c)
{
    const struct bp_call_traits *f = &bp_call_traits_of[c->call];

    return !c->signature && (f->src_at_root || f->dst_at_root);
}

/* Size of the part that rank `from` has for rank `to`. The counts of this rank's own parts come
 * from the checked arguments and are not read from the segment again, where other processes could
 * change them. */
static uint64_t part_bytes(const struct bp_shm_rank *b, const struct bp_collective *c,
                           uint32_t from, uint32_t to)
{
    if (c->call != BP_COMM_ALL_TO_ALL_RAGGED) return c->count * c->width;
    if (from == b->rank) return (uint64_t)c->src_counts[to] * c->width;
    if (to == b->rank) return (uint64_t)c->dst_counts[from] * c->width;
    return bp_shm_counts(b->segment, from, b->calls.sequence)[to] * c->width;
}

/* How many bytes of a part are in piece k. room: bytes of a piece. */
static uint64_t piece_bytes(uint64_t part, uint64_t room, uint64_t k)
{
    uint64_t at = k * room;

    return at >= part ? 0 : part - at < room ? part - at : room;
}

/* The address of piece k of a part that begins `begin` bytes into src or dst; NULL: this rank has
 * no buffer. */
static const char *src_piece(const struct bp_collective *c, uint32_t part, uint64_t begin,
                             uint64_t room, uint64_t k)
{
    if (c->staging) return bp_staging_src(c->staging, part, k);
    return c->src ? c->src + begin + k * room : NULL;
}

static char *dst_piece(const struct bp_collective *c, uint32_t part, uint64_t begin, uint64_t room,
                       uint64_t k)
{
    if (c->staging) return bp_staging_dst(c->staging, part, k);
    return c->dst ? c->dst + begin + k * room : NULL;
}

static void copy_bytes(char *to, const char *from, uint64_t bytes)
{
    if (to && from) bp_copy_bytes(to, from, bytes, false);
}

static enum bp_status shm_pack(struct bp_shm_rank *b, const struct bp_collective *c, char *window,
                               uint64_t room, uint64_t k)
{
    uint64_t begin = 0;

    if (c->staging) TRY(bp_staging_wait(c->staging, b, room, k));
    if (bp_call_traits_of[c->call].src_at_root && b->rank != c->root) return BP_OK;
    if (!is_parted(c->call)) {
        copy_bytes(window, src_piece(c, 0, 0, room, k), piece_bytes(c->count * c->width, room, k));
        return BP_OK;
    }
    for (uint32_t to = 0; to < b->n; to++) {
        uint64_t part = part_bytes(b, c, b->rank, to);
        copy_bytes(window + to * room, src_piece(c, to, begin, room, k),
                   piece_bytes(part, room, k));
        begin += part;
    }
    return BP_OK;
}

/* A piece that all ranks have packed. */
struct piece {
    struct bp_shm_rank *b;
    char *const *window;
    uint64_t room, k;
};

static enum bp_status shm_reduce(const struct piece *p, const struct bp_collective *c, size_t skip)
{
    struct bp_shm_rank *b = p->b;
    const void *src[BP_COMM_MAX_RANKS];
    uint64_t bytes = piece_bytes(c->count * c->width, p->room, p->k);
    char *const *window = p->window, *dst = dst_piece(c, 0, 0, p->room, p->k);

    for (uint32_t i = 0; i < b->n; i++) src[i] = window[i] + skip;
    if (dst) bp_ccl_reduce(c->dtype, c->reduction, dst, src, b->n, bytes / c->width);
    return BP_OK;
}

static enum bp_status reduce_windows(void *work, const struct bp_collective *c)
{
    return shm_reduce(work, c, 0);
}

static enum bp_status reduce_window_parts(void *work, const struct bp_collective *c)
{
    const struct piece *p = work;

    return shm_reduce(p, c, p->b->rank * p->room);
}

/* Copies each rank's piece, which begins `skip` bytes into its window, to that rank's part of
 * dst. */
static enum bp_status unpack_parts(const struct piece *p, const struct bp_collective *c,
                                   size_t skip)
{
    struct bp_shm_rank *b = p->b;
    char *const *window = p->window;
    uint64_t begin = 0, room = p->room;

    for (uint32_t i = 0; i < b->n; i++) {
        uint64_t part = part_bytes(b, c, i, b->rank);
        copy_bytes(dst_piece(c, i, begin, room, p->k), window[i] + skip,
                   piece_bytes(part, room, p->k));
        begin += part;
    }
    return BP_OK;
}

static enum bp_status shm_gather(void *work, const struct bp_collective *c)
{
    return unpack_parts(work, c, 0);
}

static enum bp_status all_to_all(void *work, const struct bp_collective *c)
{
    const struct piece *p = work;

    return unpack_parts(p, c, p->b->rank * p->room);
}

/* Copies a piece from the root's window to dst. */
static enum bp_status unpack_root(const struct piece *p, const struct bp_collective *c, size_t skip)
{
    uint64_t bytes = piece_bytes(c->count * c->width, p->room, p->k);

    copy_bytes(dst_piece(c, 0, 0, p->room, p->k), p->window[c->root] + skip, bytes);
    return BP_OK;
}

static enum bp_status shm_broadcast(void *work, const struct bp_collective *c)
{
    return unpack_root(work, c, 0);
}

static enum bp_status shm_scatter(void *work, const struct bp_collective *c)
{
    const struct piece *p = work;

    return unpack_root(p, c, p->b->rank * p->room);
}

/* Unpacks from the windows of all ranks into dst. */
static const struct bp_collective_table from_windows = {{
    [BP_COMM_ALL_REDUCE] = reduce_windows,
    [BP_COMM_REDUCE] = reduce_windows,
    [BP_COMM_BROADCAST] = shm_broadcast,
    [BP_COMM_ALL_GATHER] = shm_gather,
    [BP_COMM_REDUCE_SCATTER] = reduce_window_parts,
    [BP_COMM_ALL_TO_ALL] = all_to_all,
    [BP_COMM_ALL_TO_ALL_RAGGED] = all_to_all,
    [BP_COMM_GATHER] = shm_gather,
    [BP_COMM_SCATTER] = shm_scatter,
}};

static enum bp_status shm_unpack(struct bp_shm_rank *b, const struct bp_collective *c,
                                 char *const *window, uint64_t room, uint64_t k)
{
    struct piece p = {b, window, room, k};

    if (from_windows.run[c->call]) TRY(from_windows.run[c->call](&p, c));
    return c->staging ? bp_staging_flush(c->staging, b, k) : BP_OK;
}

/* Bytes of a window, or another buffer of that many bytes, for one part: a multiple of a cache line
 * if there are several parts. */
static uint64_t room_of(const struct bp_shm_rank *b, const struct bp_collective *c, uint64_t bytes)
{
    return is_parted(c->call) ? bytes / b->n & ~UINT64_C(63) : bytes;
}

/* The number of pieces, which all ranks compute alike: that of the largest part of any rank. */
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

/* A range of ranks. */
struct ranks {
    uint32_t first, end;
};

static struct ranks all_ranks(const struct bp_shm_rank *b)
{
    return (struct ranks){0, b->n};
}

/* The ranks from which this rank receives data. */
static struct ranks source_ranks(const struct bp_shm_rank *b, const struct bp_collective *c)
{
    bool gets = (b->rank == c->root) == bp_call_traits_of[c->call].dst_at_root;

    if (!is_one_way(c)) return all_ranks(b);
    if (!gets) return (struct ranks){0, 0};
    return b->rank == c->root ? all_ranks(b) : (struct ranks){c->root, c->root + 1};
}

/* Waits until the ranks have begun a call, and compares their call histories up to it with this
 * rank's. */
static enum bp_status check_histories(struct bp_shm_rank *b, struct ranks ranks, uint64_t sequence)
{
    uint64_t own = bp_shm_call_slot(b, b->rank, sequence)->history;

    for (uint32_t i = ranks.first; i < ranks.end; i++) {
        const struct bp_shm_call_slot *e = bp_shm_call_slot(b, i, sequence);
        TRY(bp_shm_word_wait(b, &e->sequence, sequence, i));
        if (__builtin_expect(e->history != own, 0)) return bp_shm_report_mismatch(b, i, sequence);
    }
    return BP_OK;
}

/* Waits until all ranks have ended a call. They have if they have begun the next one, which this
 * rank has begun too. */
static enum bp_status shm_wait_ended(struct bp_shm_rank *b, uint64_t sequence)
{
    enum bp_status status;

    if (sequence <= b->calls.ended) return BP_OK;
    b->calls.lag = b->calls.sequence - sequence - 1;
    status = check_histories(b, all_ranks(b), sequence + 1);
    b->calls.lag = 0;
    if (status == BP_OK) b->calls.ended = sequence;
    return status;
}

static enum bp_status shm_wait_entered(struct bp_shm_rank *b, struct ranks with)
{
    TRY(check_histories(b, with, b->calls.sequence));
    if (with.end - with.first == b->n) b->calls.ended = b->calls.sequence - 1;
    if (b->calls.sequence - b->calls.ended <= BP_SHM_MAX_AHEAD) return BP_OK;
    return shm_wait_ended(b, b->calls.sequence - BP_SHM_MAX_AHEAD / 2);
}

static enum bp_status shm_enter(struct bp_shm_rank *b, const struct bp_collective *c,
                                struct ranks with)
{
    struct bp_shm_call_slot *e = bp_shm_call_slot(b, b->rank, b->calls.sequence);
    uint64_t signature = c->signature ? c->signature
                                      : bp_call_signature(c->call, c->dtype, c->reduction, c->root);
    uint64_t count = c->signature ? c->signature_count : c->count;

    e->signature = signature;
    e->count = count;
    e->history = b->calls.history = bp_history_extend(b->calls.history, signature, count);
    bp_shm_word_publish(b, &e->sequence, b->calls.sequence);
    TRY(shm_wait_entered(b, with));
    /* Prefetches the slot that the next call writes. */
    bp_prefetch_for_write(bp_shm_call_slot(b, b->rank, b->calls.sequence + 1));
    return BP_OK;
}

static enum bp_status shm_run_inline(struct bp_shm_rank *b, const struct bp_collective *c)
{
    char *window[BP_COMM_MAX_RANKS];

    for (uint32_t i = 0; i < b->n; i++)
        window[i] = (char *)bp_shm_call_slot(b, i, b->calls.sequence)->data;
    TRY(shm_pack(b, c, window[b->rank], BP_SHM_INLINE_BYTES, 0));
    TRY(shm_enter(b, c, source_ranks(b, c)));
    return shm_unpack(b, c, window, BP_SHM_INLINE_BYTES, 0);
}

/* Runs a call of one piece in the eager buffer of the call slot, where the data may wait until the
 * other ranks arrive. */
static enum bp_status shm_run_eager(struct bp_shm_rank *b, const struct bp_collective *c,
                                    uint64_t room)
{
    char *window[BP_COMM_MAX_RANKS];

    for (uint32_t i = 0; i < b->n; i++)
        window[i] = bp_shm_eager_buffer(b->segment, i, b->calls.sequence);
    TRY(shm_pack(b, c, window[b->rank], room, 0));
    TRY(shm_enter(b, c, source_ranks(b, c)));
    return shm_unpack(b, c, window, room, 0);
}

/* Runs a call of one piece: packs before entering the call, so that one round of waiting
 * suffices. */
static enum bp_status shm_run_window(struct bp_shm_rank *b, const struct bp_collective *c,
                                     uint64_t room)
{
    char *window[BP_COMM_MAX_RANKS];
    uint64_t piece = ++b->calls.pieces;

    for (uint32_t i = 0; i < b->n; i++) window[i] = bp_shm_window(b->segment, i, piece);
    TRY(shm_pack(b, c, window[b->rank], room, 0));
    atomic_store_explicit(&b->me->step, piece, memory_order_relaxed);
    TRY(shm_enter(b, c, all_ranks(b)));
    return shm_unpack(b, c, window, room, 0);
}

static enum bp_status shm_run_pieces(struct bp_shm_rank *b, const struct bp_collective *c,
                                     uint64_t room)
{
    uint64_t n = count_pieces(b, c, room);
    char *window[BP_COMM_MAX_RANKS];

    for (uint64_t k = 0; k < n; k++) {
        uint64_t piece = ++b->calls.pieces;
        for (uint32_t i = 0; i < b->n; i++) window[i] = bp_shm_window(b->segment, i, piece);
        TRY(shm_pack(b, c, window[b->rank], room, k));
        bp_shm_word_publish(b, &b->me->step, piece);
        for (uint32_t i = 0; i < b->n; i++) TRY(bp_shm_word_wait(b, &b->ranks[i].step, piece, i));
        TRY(shm_unpack(b, c, window, room, k));
    }
    return BP_OK;
}

static bool has_src(const struct bp_shm_rank *b, const struct bp_collective *c)
{
    return !bp_call_traits_of[c->call].src_at_root || b->rank == c->root;
}

static bool has_dst(const struct bp_shm_rank *b, const struct bp_collective *c)
{
    return !bp_call_traits_of[c->call].dst_at_root || b->rank == c->root;
}

/* Writes only if the location has changed; otherwise the other ranks keep the cache line. */
static void location_store(struct bp_buffer_location *to, const struct bp_buffer_location *location)
{
    if (memcmp(to, location, sizeof *to)) *to = *location;
}

/* Publishes the locations of this rank's buffers for other ranks. */
static void publish_locations(struct bp_shm_rank *b, const struct bp_collective *c)
{
    struct bp_buffer_location src, dst;

    if (c->staging) {
        src = dst = (struct bp_buffer_location){.fd = -1, .staged = 1};
    } else {
        bp_buffer_location_fill(b, has_src(b, c) ? c->src : NULL, c->src_buffer, &src);
        bp_buffer_location_fill(b, has_dst(b, c) ? c->dst : NULL, c->dst_buffer, &dst);
    }
    location_store(&b->me->location[b->calls.sequence & 1].src, &src);
    location_store(&b->me->location[b->calls.sequence & 1].dst, &dst);
}

/* Chooses the access to buffers. All ranks read the same words, and so make the same choice. */
static uint32_t find_access(const struct bp_shm_rank *b)
{
    uint64_t parity = b->calls.sequence & 1;
    bool maps = b->peers.access_mask & BP_ACCESS_MAP;

    for (uint32_t i = 0; i < b->n; i++)
        if (b->ranks[i].location[parity].src.staged) return BP_ACCESS_STAGED;
    for (uint32_t i = 0; i < b->n && maps; i++)
        maps = bp_buffer_location_maps(b, &b->ranks[i].location[parity].src) &&
               bp_buffer_location_maps(b, &b->ranks[i].location[parity].dst);
    return maps                                  ? BP_ACCESS_MAP
           : b->peers.access_mask & BP_ACCESS_VM ? BP_ACCESS_VM
                                                 : BP_ACCESS_STAGED;
}

/* Returns when no rank uses another rank's buffers any more. */
static enum bp_status shm_wait_done(struct bp_shm_rank *b)
{
    bp_shm_word_publish(b, &b->me->done, b->calls.sequence);
    for (uint32_t i = 0; i < b->n; i++)
        TRY(bp_shm_word_wait(b, &b->ranks[i].done, b->calls.sequence, i));
    return BP_OK;
}

static enum bp_status shm_run_zero_copy(struct bp_shm_rank *b, const struct bp_collective *c)
{
    bool reaches = b->peers.access_mask != BP_ACCESS_STAGED;
    uint32_t access;

    if (reaches) publish_locations(b, c);
    TRY(shm_enter(b, c, all_ranks(b)));
    access = reaches ? find_access(b) : BP_ACCESS_STAGED;
    if (access == BP_ACCESS_STAGED) return shm_run_pieces(b, c, room_of(b, c, BP_SHM_WINDOW_BYTES));
    TRY(bp_zero_copy_collective(b, c, access));
    return shm_wait_done(b);
}

/* Each rank publishes how many elements it sends to each other rank, and checks the numbers that it
 * receives against dst_counts. */
static enum bp_status shm_run_ragged(struct bp_shm_rank *b, const struct bp_collective *c)
{
    uint64_t *counts = bp_shm_counts(b->segment, b->rank, b->calls.sequence);

    /* A rank may still read the counts of the call before the previous one, because other calls
     * between do not make all ranks wait. */
    if (b->calls.ended + 2 < b->calls.sequence) TRY(shm_wait_ended(b, b->calls.sequence - 2));
    for (uint32_t i = 0; i < b->n; i++) counts[i] = (uint64_t)c->src_counts[i];
    TRY(shm_enter(b, c, all_ranks(b)));
    for (uint32_t i = 0; i < b->n; i++) {
        uint64_t sent = bp_shm_counts(b->segment, i, b->calls.sequence)[b->rank];
        if (sent != (uint64_t)c->dst_counts[i])
            return bp_comm_fail(&b->failure, BP_ERR_INVALID,
                                "sequence %" PRIu64 ": in all_to_all_ragged rank %u sends %" PRIu64
                                " elements to rank %u, which expects %" PRId64,
                                b->calls.sequence, i, sent, b->rank, c->dst_counts[i]);
    }
    return shm_run_pieces(b, c, room_of(b, c, BP_SHM_WINDOW_BYTES));
}

/* Chooses the algorithm by the limits from the table, and runs the call. */
static enum bp_status shm_run_algorithm(struct bp_shm_rank *b, const struct bp_collective *c)
{
    uint64_t bytes = c->count * c->width, room;

    if (bytes < b->calls.inline_bytes[c->call]) return shm_run_inline(b, c);
    room = room_of(b, c, BP_SHM_EAGER_BYTES);
    if (is_one_way(c) && bytes < b->calls.window_bytes[c->call] && bytes <= room)
        return shm_run_eager(b, c, room);
    room = room_of(b, c, BP_SHM_WINDOW_BYTES);
    if (c->call == BP_COMM_ALL_TO_ALL_RAGGED) return shm_run_ragged(b, c);
    if (bytes >= b->calls.window_bytes[c->call]) return shm_run_zero_copy(b, c);
    if (bytes <= room) return shm_run_window(b, c, room);
    TRY(shm_enter(b, c, all_ranks(b)));
    return shm_run_pieces(b, c, room);
}

/* Spin time in staged calls. It is short because the device driver's threads may need the processor
 * to copy. */
static const uint64_t staged_spin_ns = 50000;

enum bp_status bp_shm_collective(void *self, const struct bp_collective *c)
{
    struct bp_shm_rank *b = self;
    uint64_t spin_ns = b->waiter.spin_ns;
    enum bp_status status;

    if (__builtin_expect(bp_comm_has_failed(&b->failure), 0))
        return bp_comm_failure_report(&b->failure);
    b->calls.sequence++;
    if (!c->signature) b->waiter.deadline = 0;
    b->waiter.timeout_ns = c->timeout_ns;
    if (c->staging && spin_ns > staged_spin_ns) b->waiter.spin_ns = staged_spin_ns;
    status = shm_run_algorithm(b, c);
    b->waiter.spin_ns = spin_ns;
    if (status == BP_OK)
        atomic_store_explicit(&b->me->done, b->calls.sequence, memory_order_release);
    return status;
}
