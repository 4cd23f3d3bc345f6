/* SPDX-License-Identifier: Apache-2.0 */
/* collective.h: describes one call of a communicator on host memory, and declares the functions
 * that move its data between the ranks of one machine. */
#ifndef BP_COLLECTIVE_PRIVATE_H
#define BP_COLLECTIVE_PRIVATE_H

#include "shm/shm_rank.h"
#include "shm/reduce.h"

struct bp_staging; /* staging.c: a call on memory that the host cannot address */

/* A call whose arguments have been checked. src and dst are addresses in host memory. They are NULL
 * where this rank has no buffer, where the buffer is empty, and where the data travels through
 * staging. */
struct bp_collective {
    uint32_t call, dtype, reduction, root; /* of a send or recv, root is the other rank */
    uint32_t width;                        /* size of one element */
    uint64_t count;                        /* elements in one rank's part */
    const char *src;
    char *dst;
    struct bp_buffer *src_buffer, *dst_buffer; /* buffers that own src and dst; NULL: unknown */
    const int64_t *src_counts, *dst_counts;      /* of all_to_all_ragged: one count per rank */
    struct bp_staging *staging;                  /* NULL: the data is at src and dst */
    uint64_t timeout_ns;
    /* Not 0 if this call is a local part of a call between hosts: the signature and count of that
     * call. */
    uint64_t signature, signature_count;
};

/* How the kinds of calls differ. */
struct bp_call_traits {
    const char *call;
    bool src_parts, dst_parts;     /* the buffer has one part per rank */
    bool src_at_root, dst_at_root; /* only the root's buffer is used */
    bool reduces;
    /* src and dst may share memory: the smaller one is then this rank's part of the larger one, or
     * both are equal */
    bool in_place;
    bool ragged; /* src and dst have one part per rank, each with its own size */
};
/* collective.c. Indexed by enum bp_comm_call. */
extern const struct bp_call_traits bp_call_traits_of[BP_COMM_CALL_COUNT];

/* The functions of one transport or algorithm that move a call's data, indexed by enum
 * bp_comm_call. NULL: that call moves no data. work: the state of the call in progress, of a type
 * that the transport defines. */
struct bp_collective_table {
    enum bp_status (*run[BP_COMM_CALL_COUNT])(void *work, const struct bp_collective *c);
};

/* The algorithms for a call within one machine. */
enum bp_algorithm {
    BP_ALGORITHM_INLINE, /* data travels in the call slots */
    BP_ALGORITHM_WINDOW, /* through the windows (bounce buffers), piece by piece */
    /* Between the ranks' buffers; each rank computes a share. If one of the buffers cannot be
     * reached, through the windows. */
    BP_ALGORITHM_ZERO_COPY,
};

/* Formats the call: "all_reduce sum of 1024 f32". Returns text. */
const char *bp_signature_text(uint64_t signature, uint64_t count, char *text, size_t size);
/* Formats a send or receive: "recv of 1024 f32 from rank 3". Returns text. */
const char *bp_p2p_text(const struct bp_collective *c, uint32_t other, char *text, size_t size);
const char *bp_comm_call_name(uint32_t call);

/* Looks the algorithm up in the table. bytes: the size of one rank's part. */
enum bp_algorithm bp_algorithm_find(uint32_t call, uint32_t n, uint64_t bytes);
/* Sets a rank's inline_bytes and window_bytes, the size limits below which calls use call slots or
 * windows, so that no call needs to search the table. */
void bp_algorithm_fill_limits(struct bp_shm_rank *b);

/* Runs one collective call. self: a struct bp_shm_rank (see bp_transport). A failure becomes the
 * failure of the communicator. */
enum bp_status bp_shm_collective(void *self, const struct bp_collective *c);
/* zero_copy.c: moves the data directly between the ranks' buffers, once all ranks have entered the
 * call; the buffers' locations are those that the ranks published. access: enum bp_peer_access. */
enum bp_status bp_zero_copy_collective(struct bp_shm_rank *b, const struct bp_collective *c,
                                       uint32_t access);
/* shm_p2p.c: runs n sends and receives concurrently; each struct is stride bytes after the one
 * before. */
enum bp_status bp_shm_p2p_run(void *self, const struct bp_collective *first, uint32_t n,
                              size_t stride);

/* staging.c. To be called before the call touches piece k, which has room bytes of each part: waits
 * until the piece of src is in host memory and the host buffer of the piece of dst may be
 * overwritten. */
enum bp_status bp_staging_wait(struct bp_staging *staging, struct bp_shm_rank *b, uint64_t room,
                               uint64_t k);
/* The address of piece k of a part in host memory; NULL: this rank has none. */
const char *bp_staging_src(const struct bp_staging *staging, uint32_t part, uint64_t k);
char *bp_staging_dst(const struct bp_staging *staging, uint32_t part, uint64_t k);
/* To be called when piece k of dst is complete in all parts: queues its copy to the device. */
enum bp_status bp_staging_flush(struct bp_staging *staging, struct bp_shm_rank *b, uint64_t k);

/* The first byte of rank i's share if n ranks share `bytes` in cache lines of 64. The share ends
 * where the share of rank i + 1 begins. */
static inline uint64_t bp_share_begin(uint64_t bytes, uint32_t i, uint32_t n)
{
    uint64_t lines = (bytes + 63) / 64, at = lines / n * i + (lines % n * i) / n;

    return i == n || at * 64 > bytes ? bytes : at * 64;
}

#endif
