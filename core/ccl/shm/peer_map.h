/* SPDX-License-Identifier: Apache-2.0 */
/* peer_map.h: declares how a rank accesses buffers of the other ranks on its machine. */
#ifndef BP_PEER_MAP_PRIVATE_H
#define BP_PEER_MAP_PRIVATE_H

#include "shm_segment.h"

struct bp_buffer;
struct bp_peer_mapping; /* peer_map.c: a mapped file of another rank */
struct bp_shm_rank;     /* shm_rank.h */

/* In place of a pidfd: the rank is in this process; the process no longer exists. */
enum bp_peer_process { BP_PROCESS_OWN = -1, BP_PROCESS_GONE = -2 };
enum { BP_PEER_FILES = 8, BP_PEER_SCRATCH_BYTES = 32 << 10 };

/* The state of one rank about the other ranks' processes and memory. */
struct bp_peer_map {
    /* Of all ranks; a private copy, because other processes can write the shared memory. */
    int32_t *pid;
    int *pidfd;           /* of all ranks; or enum bp_peer_process */
    uint32_t access_mask; /* the access that every rank has to every other */
    bool one_process;     /* ranks are threads of one process, with MAP access */
    struct bp_peer_mapping *mappings;
    uint32_t released; /* sum of the ranks' `released` when mappings were last dropped */
    struct bp_process_file files[BP_PEER_FILES]; /* recently used files of this process's memory */
    uint32_t n_file, files_as_of;                /* me->released at the time of `files` */
    char *scratch; /* n + 1 blocks of BP_PEER_SCRATCH_BYTES; allocated by the first use */
};

/* Reads the text of BP_CCL_WAYS, "map,vm,staged" or any subset, as a mask of enum bp_peer_access.
 * Staged access is always in the mask. false: it has other words, which are ignored. */
bool bp_access_read(const char *text, uint32_t *out_mask);
/* The kinds of access that BP_CCL_WAYS allows; default: all. */
uint32_t bp_access_allowed(void);
/* The kinds of access to another process that do not work, as a mask. The other process has the
 * file open, and has stored the number at the address, for this test. */
uint32_t bp_access_missing(const struct bp_process_file *file, uint64_t address, uint64_t number);

/* Describes the location of a buffer of this process for other ranks. buffer: the buffer that owns
 * the memory; NULL: unknown. */
void bp_buffer_location_fill(struct bp_shm_rank *b, const void *address, struct bp_buffer *buffer,
                             struct bp_buffer_location *out);

/* A buffer of a rank, as this process can access it. */
struct bp_peer_buffer {
    char *mapped;     /* NULL: not mapped, accessible through the kernel only */
    uint64_t address; /* in the other process */
    int pid;
};
/* Makes `bytes` bytes at a rank's location accessible. access: BP_ACCESS_MAP or BP_ACCESS_VM. A
 * failure becomes the failure of the communicator; a location whose file has fewer bytes is one. */
enum bp_status bp_peer_buffer_open(struct bp_shm_rank *b, uint32_t rank,
                                   const struct bp_buffer_location *location, uint64_t bytes,
                                   uint32_t access, struct bp_peer_buffer *out);
/* Whether all ranks can map a rank's buffer: its memory is a file, or all ranks are in one
 * process. */
bool bp_buffer_location_maps(const struct bp_shm_rank *b,
                             const struct bp_buffer_location *location);

/* Returns the address of size bytes of the buffer from offset on: the mapped bytes, or a copy of
 * them in room. NULL: failed. */
const void *bp_peer_buffer_fetch(struct bp_shm_rank *b, const struct bp_peer_buffer *from,
                                 uint64_t offset, uint64_t size, void *room);
/* Copies between a buffer of a rank and host memory. streaming: the data is too large for the
 * caches, so it is written with streaming (non-temporal) stores. */
enum bp_status bp_peer_buffer_read(struct bp_shm_rank *b, const struct bp_peer_buffer *from,
                                   uint64_t offset, void *to, uint64_t size, bool streaming);
enum bp_status bp_peer_buffer_write(struct bp_shm_rank *b, const struct bp_peer_buffer *to,
                                    uint64_t offset, const void *from, uint64_t size,
                                    bool streaming);

/* Copies bytes; with streaming, by stores that bypass the caches. */
void bp_copy_bytes(void *to, const void *from, uint64_t size, bool streaming);
/* The streaming copy in steps: after any number of bp_copy_streaming, bp_copy_fence orders their
 * stores before later ones. */
void bp_copy_streaming(void *to, const void *from, uint64_t size);
void bp_copy_fence(void);

/* bp_peer_map_clear unmaps all files of other ranks. bp_peer_map_refresh, to be called before a
 * call, does so if a rank has freed memory since the last time, because a mapped file keeps its
 * memory. */
void bp_peer_map_clear(struct bp_shm_rank *b);
void bp_peer_map_refresh(struct bp_shm_rank *b);

/* The scratch block number index of n + 1; each has BP_PEER_SCRATCH_BYTES. NULL: out of memory,
 * which is then the communicator's failure. */
char *bp_peer_scratch(struct bp_shm_rank *b, uint32_t index);

#endif
