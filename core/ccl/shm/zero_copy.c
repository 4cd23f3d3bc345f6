/* SPDX-License-Identifier: Apache-2.0 */
/* zero_copy.c: runs collective calls directly between the ranks' buffers. Each rank does its share
 * of the work, so that each byte is read and written once. One rank computes a share for all ranks;
 * therefore all ranks get identical results, and a buffer may be both source and destination. */
#include "../collective.h"

enum { CACHED_PIECE = 8 << 10 };
static const uint64_t cached_bytes = 128 << 10;  /* a part up to this size is in caches */
static const uint64_t streaming_bytes = 4 << 20; /* more uses streaming */

struct zero_copy {
    struct bp_shm_rank *b;
    const struct bp_collective *c;
    uint32_t access;
    uint64_t part; /* bytes of one rank's part */
    bool cached, streaming;
    struct bp_peer_buffer src[BP_COMM_MAX_RANKS], dst[BP_COMM_MAX_RANKS];
};

/* Opens a rank's source. This rank knows the addresses of its own buffers; those of other ranks are
 * at their published locations. */
static enum bp_status open_src(struct zero_copy *d, uint32_t rank)
{
    bool parted = bp_call_traits_of[d->c->call].src_parts;
    struct bp_buffer_location location = d->b->ranks[rank].location[d->b->calls.sequence & 1].src;

    if (rank == d->b->rank) location.address = (uintptr_t)d->c->src;
    return bp_peer_buffer_open(d->b, rank, &location, d->part * (parted ? d->b->n : 1), d->access,
                               &d->src[rank]);
}

static enum bp_status open_dst(struct zero_copy *d, uint32_t rank)
{
    bool parts = bp_call_traits_of[d->c->call].dst_parts;
    struct bp_buffer_location location = d->b->ranks[rank].location[d->b->calls.sequence & 1].dst;

    if (rank == d->b->rank) location.address = (uintptr_t)d->c->dst;
    return bp_peer_buffer_open(d->b, rank, &location, d->part * (parts ? d->b->n : 1), d->access,
                               &d->dst[rank]);
}

/* Reduces mapped sources in short pieces, so that streaming stores of one piece and loads of the
 * next one overlap. */
static void reduce_streaming(struct zero_copy *d, uint64_t skip, uint64_t from, uint64_t to,
                             uint32_t only)
{
    enum { PIECE = 512 };
    struct bp_shm_rank *b = d->b;
    const void *src[BP_COMM_MAX_RANKS];
    _Alignas(64) char out[PIECE];

    for (uint64_t at = from, size; at < to; at += size) {
        size = to - at < PIECE ? to - at : PIECE;
        for (uint32_t i = 0; i < b->n; i++) src[i] = d->src[i].mapped + skip + at;
        bp_ccl_reduce(d->c->dtype, d->c->reduction, out, src, b->n, size / d->c->width);
        for (uint32_t i = 0; i < b->n; i++)
            if (only == BP_RANK_ANY || i == only)
                bp_copy_streaming(d->dst[i].mapped + at, out, size);
    }
    bp_copy_fence();
}

/* Returns a destination in which the result can be computed directly, or NULL. It must belong to
 * one of the first two ranks, because bp_ccl_reduce reads their sources before it writes. It must
 * not be a source as well, because that is slow. Used for small (cached) data only: cache lines
 * that must be fetched first are better written by copies of large pieces. */
static char *result_buffer(const struct zero_copy *d, uint64_t skip, uint32_t only)
{
    for (uint32_t i = 0; i < 2 && i < d->b->n && d->cached; i++)
        if ((only == BP_RANK_ANY || i == only) && d->dst[i].mapped != d->src[i].mapped + skip)
            return d->dst[i].mapped;
    return NULL;
}

/* Reduces bytes `from` to `to` of all sources, and writes the result to the destination of rank
 * `only`, or of all ranks (BP_RANK_ANY). skip: offset of byte 0 in the sources. */
static enum bp_status reduce_range(struct zero_copy *d, uint64_t skip, uint64_t from, uint64_t to,
                                   uint32_t only)
{
    struct bp_shm_rank *b = d->b;
    const void *src[BP_COMM_MAX_RANKS];
    char *scratch = bp_peer_scratch(b, b->n), *result = result_buffer(d, skip, only);
    uint64_t piece = d->cached ? CACHED_PIECE : BP_PEER_SCRATCH_BYTES;

    if (d->access == BP_ACCESS_MAP && d->streaming) {
        reduce_streaming(d, skip, from, to, only);
        return BP_OK;
    }
    if (!scratch) return BP_ERR_MEMORY;
    for (uint64_t at = from, size; at < to; at += size) {
        char *out = result ? result + at : scratch;
        size = to - at < piece ? to - at : piece;
        for (uint32_t i = 0; i < b->n; i++) {
            src[i] = bp_peer_buffer_fetch(b, &d->src[i], skip + at, size, bp_peer_scratch(b, i));
            if (!src[i]) return bp_comm_failure_report(&b->failure);
        }
        bp_ccl_reduce(d->c->dtype, d->c->reduction, out, src, b->n, size / d->c->width);
        for (uint32_t i = 0; i < b->n; i++)
            if (only == BP_RANK_ANY || i == only)
                TRY(bp_peer_buffer_write(b, &d->dst[i], at, out, size, d->streaming));
    }
    return BP_OK;
}

static enum bp_status reduce_all(void *work, const struct bp_collective *c)
{
    struct zero_copy *d = work;
    struct bp_shm_rank *b = d->b;
    uint64_t part = d->part;

    (void)c;
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(open_src(d, i));
        TRY(open_dst(d, i));
    }
    return reduce_range(d, 0, bp_share_begin(part, b->rank, b->n),
                        bp_share_begin(part, b->rank + 1, b->n), BP_RANK_ANY);
}

static enum bp_status reduce_root(void *work, const struct bp_collective *c)
{
    struct zero_copy *d = work;
    struct bp_shm_rank *b = d->b;
    uint64_t part = d->part;

    for (uint32_t i = 0; i < b->n; i++) TRY(open_src(d, i));
    TRY(open_dst(d, c->root));
    return reduce_range(d, 0, bp_share_begin(part, b->rank, b->n),
                        bp_share_begin(part, b->rank + 1, b->n), c->root);
}

static enum bp_status reduce_scatter(void *work, const struct bp_collective *c)
{
    struct zero_copy *d = work;
    struct bp_shm_rank *b = d->b;
    uint64_t part = d->part;

    (void)c;
    for (uint32_t i = 0; i < b->n; i++) TRY(open_src(d, i));
    TRY(open_dst(d, b->rank));
    return reduce_range(d, b->rank * part, 0, part, b->rank);
}

/* Copies bytes of a rank's source into this rank's destination. */
static enum bp_status zero_copy_pull(struct zero_copy *d, uint32_t from, uint64_t src_at,
                                     uint64_t dst_at, uint64_t size)
{
    if (!size) return BP_OK;
    TRY(open_src(d, from));
    return bp_peer_buffer_read(d->b, &d->src[from], src_at, d->c->dst + dst_at, size, d->streaming);
}

/* The root writes the last share of the data into the other ranks' buffers, and the other ranks
 * read the rest. Otherwise the root would have less to do than they. */
static enum bp_status zero_copy_broadcast(void *work, const struct bp_collective *c)
{
    struct zero_copy *d = work;
    struct bp_shm_rank *b = d->b;
    uint64_t part = d->part;
    uint64_t cut = bp_share_begin(part, b->n - 1, b->n);

    if (b->rank != c->root) return zero_copy_pull(d, c->root, 0, 0, cut);
    for (uint32_t i = 0; i < b->n; i++) {
        TRY(open_dst(d, i));
        if (i == b->rank) TRY(bp_peer_buffer_write(b, &d->dst[i], 0, c->src, part, d->streaming));
        else
            TRY(bp_peer_buffer_write(b, &d->dst[i], cut, c->src + cut, part - cut, d->streaming));
    }
    return BP_OK;
}

/* Copies every rank's part. Each rank begins with its own data and then its neighbour's, so that
 * not all read from one rank at the same time. at: offset in the sources. */
static enum bp_status pull_all(struct zero_copy *d, uint64_t at)
{
    struct bp_shm_rank *b = d->b;

    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t from = (b->rank + i) % b->n;
        TRY(zero_copy_pull(d, from, at, from * d->part, d->part));
    }
    return BP_OK;
}

static enum bp_status all_gather(void *work, const struct bp_collective *c)
{
    (void)c;
    return pull_all(work, 0);
}

static enum bp_status all_to_all(void *work, const struct bp_collective *c)
{
    struct zero_copy *d = work;

    (void)c;
    return pull_all(d, d->b->rank * d->part);
}

static enum bp_status zero_copy_gather(void *work, const struct bp_collective *c)
{
    struct zero_copy *d = work;
    uint64_t part = d->part;

    TRY(open_dst(d, c->root));
    return bp_peer_buffer_write(d->b, &d->dst[c->root], d->b->rank * part, c->src, part,
                                d->streaming);
}

static enum bp_status zero_copy_scatter(void *work, const struct bp_collective *c)
{
    struct zero_copy *d = work;

    return zero_copy_pull(d, c->root, d->b->rank * d->part, 0, d->part);
}

static const struct bp_collective_table between_buffers = {{
    [BP_COMM_ALL_REDUCE] = reduce_all,
    [BP_COMM_REDUCE] = reduce_root,
    [BP_COMM_BROADCAST] = zero_copy_broadcast,
    [BP_COMM_ALL_GATHER] = all_gather,
    [BP_COMM_REDUCE_SCATTER] = reduce_scatter,
    [BP_COMM_ALL_TO_ALL] = all_to_all,
    [BP_COMM_GATHER] = zero_copy_gather,
    [BP_COMM_SCATTER] = zero_copy_scatter,
}};

enum bp_status bp_zero_copy_collective(struct bp_shm_rank *b, const struct bp_collective *c,
                                       uint32_t access)
{
    uint64_t part = c->count * c->width;
    struct zero_copy d = {.b = b, .c = c, .access = access, .part = part};

    bp_peer_map_refresh(b);
    d.cached = access == BP_ACCESS_MAP && part <= cached_bytes;
    d.streaming =
        part * (c->call == BP_COMM_ALL_GATHER || c->call == BP_COMM_ALL_TO_ALL ? b->n : 1) >=
        streaming_bytes;
    return between_buffers.run[c->call] ? between_buffers.run[c->call](&d, c) : BP_OK;
}
