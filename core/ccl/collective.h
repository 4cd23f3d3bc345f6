/* SPDX-License-Identifier: Apache-2.0 */
/* collective.h: a call of a communicator on host memory; what goes between ranks on one machine. */
#ifndef BP_COLLECTIVE_PRIVATE_H
#define BP_COLLECTIVE_PRIVATE_H

#include "shm/shm_rank.h"
#include "shm/reduce.h"

struct bp_staging; /* staging.c: a call on memory that the host does not reach */

/* A call, checked. Buffers are where the host reaches them; NULL where the rank has none, or they
 * are empty, or they come by staging. */
struct bp_collective {
    uint32_t call, dtype, reduction, root; /* root: or the other rank of a send or recv */
    uint32_t width;  /* bytes of an element */
    uint64_t count;  /* elements of the part of one rank */
    const char *src;
    char *dst;
    struct bp_buffer *src_storage, *dst_storage; /* of the buffers; NULL: not known */
    const int64_t *src_counts, *dst_counts;       /* of all_to_all_ragged: n each */
    struct bp_staging *staging;                   /* NULL: buffers are where src and dst say */
    uint64_t timeout_ns;
    uint64_t signature, signature_count; /* of the call across hosts that this is a part of; or 0 */
};

/* What calls differ in. */
struct bp_call_traits {
    const char *call;
    bool src_parts, dst_parts;     /* the buffer has a part for each rank */
    bool src_at_root, dst_at_root; /* only the root's is used */
    bool reduces;
    /* src and dst may share memory: where they do, each is the other's part or all */
    bool in_place;
    bool ragged; /* both have parts, of sizes of their own */
};
/* collective.c. By enum bp_comm_call. */
extern const struct bp_call_traits bp_call_traits_of[BP_COMM_CALL_COUNT];

/* How the data of a call moves by one way: a function for each of enum bp_comm_call; NULL: nothing
 * moves. work: what that way knows of the call that is under way. */
struct bp_collective_table {
    enum bp_status (*run[BP_COMM_CALL_COUNT])(void *work, const struct bp_collective *c);
};

/* How a call may be done. */
enum bp_algorithm {
    BP_ALGORITHM_INLINE, /* in the call slots */
    BP_ALGORITHM_WINDOW, /* through the windows, piece by piece */
    BP_ALGORITHM_DIRECT, /* between the buffers, each rank a part; by windows where one cannot be
                            reached */
};

/* "all_reduce sum of 1024 f32". Returns text. */
const char *bp_signature_text(uint64_t signature, uint64_t count, char *text, size_t size);
/* "recv of 1024 f32 from rank 3", of a send or receive. Returns text. */
const char *bp_p2p_text(const struct bp_collective *c, uint32_t other, char *text, size_t size);
const char *bp_comm_call_name(uint32_t call);

/* From the table; bytes: of the part of one rank. */
enum bp_algorithm bp_algorithm_find(uint32_t call, uint32_t n, uint64_t bytes);
/* Sets a rank's inline_bytes and window_bytes, so that the table need not be looked up. */
void bp_algorithm_fill_limits(struct bp_shm_rank *b);

/* Runs a collective call; self: a struct bp_shm_rank (bp_transport). A failure is that of the
 * communicator. */
enum bp_status bp_shm_collective(void *self, const struct bp_collective *c);
/* zero_copy.c: the part between all ranks' entries. src, dst: of all ranks, as they said. */
enum bp_status bp_zero_copy_collective(struct bp_shm_rank *b, const struct bp_collective *c,
                                       uint32_t access);
/* shm_p2p.c: n sends and receives, all at once; each stride bytes after the one before. */
enum bp_status bp_shm_p2p_run(void *self, const struct bp_collective *first, uint32_t n,
                              size_t stride);

/* staging.c. Before anything is done with piece k, of room bytes of each part: waits until that of
 * src is in host memory, and that of dst may be written. */
enum bp_status bp_staging_wait(struct bp_staging *staging, struct bp_shm_rank *b, uint64_t room,
                               uint64_t k);
/* Where piece k of a part is; NULL: there is none. */
const char *bp_staging_src(const struct bp_staging *staging, uint32_t part, uint64_t k);
char *bp_staging_dst(const struct bp_staging *staging, uint32_t part, uint64_t k);
/* Piece k of dst is there, in all parts: it goes to the device. */
enum bp_status bp_staging_flush(struct bp_staging *staging, struct bp_shm_rank *b, uint64_t k);

/* The part of rank i of n things that are shared out in lines of 64: from *out_from to the next
 * one's. */
static inline uint64_t bp_share_begin(uint64_t bytes, uint32_t i, uint32_t n)
{
    uint64_t lines = (bytes + 63) / 64, at = lines / n * i + (lines % n * i) / n;

    return i == n || at * 64 > bytes ? bytes : at * 64;
}

#endif
