/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: device memory inside the core: buffers, shared by the tensors that view them. */
#ifndef BP_MEMORY_PRIVATE_H
#define BP_MEMORY_PRIVATE_H

#include "../device/device.h"
#include "heap.h"

/* What may still be done to a buffer. */
enum bp_access {
    BP_ACCESS_WRITE = 0,
    BP_ACCESS_READ = 1,   /* imported for reading only; its owner may change it */
    BP_ACCESS_FROZEN = 2, /* bp_tensor_freeze: nobody changes it */
};

enum { BP_STORAGE_ROOM = 256 + 64 + 8 }; /* a tensor, to begin on a line; buffers fill lines */

/* As kernels and copies name a byte: the segment's handle, and the address or offset in it. {NULL,
 * NULL}: of 0 bytes. */
struct bp_address {
    void *handle, *data;
};

/* One allocation, and what is known of the block of memory under it: a free block is one too. It
 * is made once, in a slab of its pool's, and serves again and again. What most requests touch
 * stands in its first three cache lines. */
struct bp_buffer {
    struct bp_heap_block block; /* first: a buffer is found by its block */
    struct bp_pool *pool;      /* whose memory it is; NULL: somebody else's, see deferred */
    struct bp_timeline *owner; /* whose work may use it without being noted; NULL: nobody's */
    uint64_t size;             /* bytes asked for */
    _Atomic uint32_t refs;
    uint32_t magic;            /* BP_MAGIC_BUFFER */
    struct bp_address memory;  /* its first byte */
    _Atomic uint32_t access;   /* enum bp_access; it only rises */
    uint8_t space;             /* enum bp_space */
    bool used;                 /* deferred has users, or had: under its lock */
    uint64_t id;               /* unique in the process */
    _Atomic uint64_t version;  /* counts what was written to it */
    struct bp_deferred deferred; /* users, under the pool's lock; foreign memory: its end is
                                    release, and the lock the device's */
    struct bp_device *device;  /* kept by what lives in its pools; foreign: a reference */
    uint64_t room[BP_STORAGE_ROOM / 8]; /* for the tensor that is made with it, on whole lines */
};
_Static_assert(sizeof(struct bp_buffer) % 64 == 0, "storages fill lines");

/* size bytes in space for work of the owner (the device's host timeline where no stream asks); 0
 * bytes is an allocation without memory. Memory that the host and the device both reach (other
 * spaces than BP_SPACE_DEVICE) is owned by the host's timeline, whoever asks. */
enum bp_status bp_buffer_allocate(struct bp_device *device, struct bp_timeline *owner,
                                  uint32_t space, uint64_t size, struct bp_buffer **out_storage);

/* A buffer over size bytes of memory that somebody else owns, which the device reaches as memory
 * of space. It is neither counted nor cached. release(ctx) is called once, without locks, on a
 * thread that entered the core, when no tensor shares the buffer and the work that uses it has
 * ended; never if this call fails. */
enum bp_status bp_buffer_import(struct bp_device *device, const struct bp_memory *memory,
                                uint64_t size, uint32_t space, void (*release)(void *ctx),
                                void *ctx, struct bp_buffer **out_storage);

/* The host's address of its first byte; NULL: the host does not reach it, or there is none. */
void *bp_buffer_host_address(const struct bp_buffer *buffer);

/* Ends an imported buffer that nobody uses yet: its release is not called. */
void bp_buffer_disown(struct bp_buffer *buffer);

/* Gives a reference back. The memory may be used by the owner's later work at once, by other work
 * when all that used it has ended. Never blocks; any thread may call it. */
void bp_buffer_release(struct bp_buffer *buffer);
static inline void bp_buffer_retain(struct bp_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
}

/* Work number of timeline uses the buffer. Nothing to note where work is done at once, or by
 * the owner. */
void bp_buffer_add_user(struct bp_buffer *buffer, struct bp_timeline *timeline, uint64_t number);
static inline void bp_buffer_record_use(struct bp_buffer *buffer, struct bp_timeline *timeline,
                                        uint64_t number)
{
    if (buffer->owner != timeline && !timeline->is_inline)
        bp_buffer_add_user(buffer, timeline, number);
}

/* It was written to. */
static inline void bp_buffer_record_write(struct bp_buffer *buffer)
{
    uint64_t version = atomic_load_explicit(&buffer->version, memory_order_relaxed);

    atomic_store_explicit(&buffer->version, version + 1, memory_order_relaxed);
}

/* The first of n numbers that no buffer has had. */
uint64_t bp_buffer_reserve_ids(uint64_t n);

/* Copies on a stream without a queue, between ranges of one buffer and the host, or of two (b
 * NULL: none). Host memory has been read, or written, when it returns. A copy out waits. */
enum bp_direction { BP_COPY_IN, BP_COPY_OUT, BP_COPY_WITHIN };
enum bp_status bp_memory_copy(struct bp_stream *stream, enum bp_direction direction,
                              const struct bp_copy *copy, struct bp_buffer *a,
                              struct bp_buffer *b);
/* Hands one copy to the plugin, on whichever thread the timeline's work is done. */
enum bp_status bp_memory_submit_copy(struct bp_timeline *timeline, enum bp_direction direction,
                                     const struct bp_copy *copy);
const char *bp_direction_name(enum bp_direction direction);

/* Makes a device's memory ready, and ends it: all work has ended, or never will. */
enum bp_status bp_memory_init(struct bp_device *device);
void bp_memory_finish(struct bp_device *device);

/* Whether buffers of the device's pools live: the device then lives too, without references. */
bool bp_memory_is_live(struct bp_device *device);

/* Finds what is known to have ended: waits for nothing, asks nothing. */
void bp_memory_collect(struct bp_device *device);

/* Waits for the stream's work and says whether any has failed. */
enum bp_status bp_stream_drain(struct bp_stream *stream);

/* BP_SYNC=launch: the same, after a launch or copy. A function of bp_stream_callback that gives
 * work to its own stream goes on: it must not wait. */
enum bp_status bp_stream_drain_if_sync(struct bp_stream *stream);

/* Bytes that a plan of a call keeps besides, as its plugin says: they count against BP_MEM_LIMIT.
 * BP_ERR_MEMORY: it leaves no room, also once caches have given up what they had. Without locks. */
enum bp_status bp_memory_plan_reserve(struct bp_device *device, uint64_t bytes);
void bp_memory_plan_release(struct bp_device *device, uint64_t bytes);

void bp_shrinker_register(struct bp_device *device, struct bp_shrinker *shrinker);
/* When it returns give_up does not run and will not; not to be called by a give_up. */
void bp_shrinker_unregister(struct bp_device *device, struct bp_shrinker *shrinker);
/* Calls all of them; whether any gave something up. */
bool bp_device_shrink(struct bp_device *device);

/* Hears of the segments that a device's memory lies in, each once: when it has been reserved,
 * before anybody has memory of it, and before it is released. Called without locks, on any thread;
 * it may take memory, of which segments it then hears too, in between. */
struct bp_segment_listener {
    void (*reserved)(void *ctx, const struct bp_memory *memory, uint64_t bytes, uint32_t space);
    void (*released)(void *ctx, const struct bp_memory *memory, uint64_t bytes, uint32_t space);
    void *ctx;
    struct bp_segment_listener *next;
};
/* When it returns the listener has heard of all segments that there are; none is released
 * meanwhile. Neither this nor the next is to be called by a listener. */
void bp_segment_listener_add(struct bp_device *device, struct bp_segment_listener *listener);
/* When it returns the listener is not called and will not be. */
void bp_segment_listener_remove(struct bp_device *device, struct bp_segment_listener *listener);

/* Memory of work that is recorded, to be run later and perhaps again. While a capture is open, all
 * device memory that is taken with the owner's timeline is the capture's: whoever takes it, since
 * calls on one stream are ordered by their caller. What recorded work uses beside, the caller
 * keeps. What is given back serves again inside, by recorded order only: at once where the owner
 * alone used it, behind waits where others did. Nothing is asked and nothing waited for, by other
 * threads neither as far as the owner goes. Exhaustion is an error after free memory of the device
 * and a new segment: trim, or let caches go, before. */
struct bp_pool;
/* owner: of a stream that lives until the capture has ended, and has none open (BP_ERR_INVALID).
 * The caller keeps the device. */
enum bp_status bp_capture_pool_begin(struct bp_timeline *owner, struct bp_pool **out_capture);
/* From now on all that it has stays as it is: what is given back is not used again. */
void bp_capture_pool_end(struct bp_pool *capture);
/* It has ended, and is not run any more; the last run was work number of timeline (NULL: it was
 * never run). Its memory goes back when that has ended: buffers that live keep theirs until they
 * go. */
void bp_capture_pool_destroy(struct bp_pool *capture, struct bp_timeline *timeline,
                             uint64_t number);

#endif
