/* SPDX-License-Identifier: Apache-2.0 */
/* peer_map.h: how a rank reaches buffers of the others. */
#ifndef BP_PEER_MAP_PRIVATE_H
#define BP_PEER_MAP_PRIVATE_H

#include "shm_segment.h"

struct bp_buffer;
struct bp_peer_mapping;  /* peer_map.c: a file of another rank, mapped */
struct bp_shm_rank; /* shm_rank.h */

enum bp_peer_process { BP_PROCESS_OWN = -1, BP_PROCESS_GONE = -2 }; /* of this process; not there */
enum { BP_PEER_FILES = 8, BP_PEER_SCRATCH_BYTES = 32 << 10 };

/* What a rank knows of the others' processes and memory. */
struct bp_peer_map {
    int32_t *pid;        /* of all ranks: kept, for others can write what is in the shared memory */
    int *pidfd;          /* or enum bp_peer_process */
    uint32_t access_mask; /* that all ranks have to each other */
    bool one_process;    /* all ranks are threads of this one, and may use that */
    struct bp_peer_mapping *mappings;
    uint32_t released; /* by all others, when mappings were last let go */
    struct bp_process_file files[BP_PEER_FILES]; /* of this process's memory, seen of late */
    uint32_t n_file, files_as_of; /* me->released then */
    char *scratch;    /* BP_PEER_SCRATCH_BYTES for each rank, and one more; made by the first use */
};

/* What BP_CCL_WAYS allows ("map,vm,staged", any of them; default: all): enum bp_peer_access. */
uint32_t bp_access_allowed(void);
/* Which ways there are not to another process, which has the file open, and the number there. */
uint32_t bp_access_missing(const struct bp_process_file *file, uint64_t address, uint64_t number);

/* Where a buffer of this process lies. buffer: of its memory; NULL: not known. */
void bp_buffer_location_fill(struct bp_shm_rank *b, const void *address, struct bp_buffer *buffer,
                             struct bp_buffer_location *out);

/* A buffer of a rank, as this process reaches it. */
struct bp_peer_buffer {
    char *mapped;     /* NULL: not by address */
    uint64_t address; /* in the other process */
    int pid;
};
/* Of bytes there. access: MAP or VM. A failure is that of the communicator: also if the rank names
 * a place that does not have so many. */
enum bp_status bp_peer_buffer_open(struct bp_shm_rank *b, uint32_t rank,
                                   const struct bp_buffer_location *location, uint64_t bytes,
                                   uint32_t access, struct bp_peer_buffer *out);
/* Whether a rank's buffer can be mapped by all: it is a file, or of this process. */
bool bp_buffer_location_maps(const struct bp_shm_rank *b,
                             const struct bp_buffer_location *location);

/* size bytes from offset on: where they are, or a copy of them in room. NULL: a failure. */
const void *bp_peer_buffer_fetch(struct bp_shm_rank *b, const struct bp_peer_buffer *from,
                                 uint64_t offset, uint64_t size, void *room);
/* Copies between a buffer of a rank and host memory. streaming: too much for caches. */
enum bp_status bp_peer_buffer_read(struct bp_shm_rank *b, const struct bp_peer_buffer *from,
                                   uint64_t offset, void *to, uint64_t size, bool streaming);
enum bp_status bp_peer_buffer_write(struct bp_shm_rank *b, const struct bp_peer_buffer *to,
                                    uint64_t offset, const void *from, uint64_t size,
                                    bool streaming);

/* A copy that does not keep in caches what it writes, if streaming. */
void bp_copy_bytes(void *to, const void *from, uint64_t size, bool streaming);
/* The same in parts: others see them in order after the end only. */
void bp_copy_streaming(void *to, const void *from, uint64_t size);
void bp_copy_fence(void);

/* Lets all mappings go; or, before a call, if others have given memory back: a file that is mapped
 * keeps its memory. */
void bp_peer_map_clear(struct bp_shm_rank *b);
void bp_peer_map_refresh(struct bp_shm_rank *b);

/* Scratch memory for rank's data: BP_PEER_SCRATCH_BYTES; n + 1 of them. NULL: no memory, which is
 * then the failure. */
char *bp_peer_scratch(struct bp_shm_rank *b, uint32_t index);

#endif
