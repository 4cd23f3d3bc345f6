/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h: declares device memory inside the core: buffers, which tensors share as views, and
 * their allocation, copies, listeners and captures. */
#ifndef BP_MEMORY_PRIVATE_H
#define BP_MEMORY_PRIVATE_H

#include "../device/device.h"
#include "heap.h"

/* The changes that are still allowed to a buffer. */
enum bp_access {
    BP_ACCESS_WRITE = 0,
    BP_ACCESS_READ = 1,   /* imported as read-only; its owner may change it */
    BP_ACCESS_FROZEN = 2, /* bp_tensor_freeze: no thread may change it */
};

/* Bytes for a tensor inside its buffer, with room to align it to a cache line. They also make the
 * size of struct bp_buffer a multiple of a line. */
enum { BP_STORAGE_ROOM = 256 + 56 };

/* An address as kernels and copies receive it: the handle of the segment, and the address or offset
 * in the segment. {NULL, NULL}: the buffer has 0 bytes. */
struct bp_address {
    void *handle, *data;
};

/* The beginning of a source (source.h). destroy: called when the buffer has no references any
 * more. */
struct bp_buffer;
struct bp_writeback; /* writeback.h */
struct bp_buffer_source {
    void (*destroy)(struct bp_buffer *buffer);
};

/* One allocation, with the state of the memory block under it. A free block is a struct bp_buffer
 * too: it is created once, in a slab of its pool, and reused for later allocations. The members
 * that most allocations use are in the first three cache lines. */
struct bp_buffer {
    struct bp_heap_block block; /* first: a buffer is found by its block */
    struct bp_pool *pool;      /* the pool of the memory; NULL: imported memory, see deferred */
    struct bp_timeline *owner; /* work of the owner uses it without being recorded */
    uint64_t size;             /* requested bytes */
    _Atomic uint32_t refs;
    uint32_t magic;            /* BP_MAGIC_BUFFER */
    struct bp_address memory;  /* its first byte */
    _Atomic uint32_t access;   /* enum bp_access; it only increases */
    uint8_t space;             /* enum bp_space */
    bool used;                 /* deferred has or had users; guarded like deferred */
    _Atomic bool exposed;      /* writeback.h */
    uint64_t id;               /* unique in the process */
    _Atomic uint64_t version;  /* incremented at each write that is noticed */
    struct bp_deferred deferred; /* its users, under the pool's lock. Imported memory: release frees
                                    it, and the lock is the device's */
    struct bp_device *device;  /* live buffers of its pools keep it alive; imported memory: a
                                  reference */
    struct bp_buffer_source *source; /* of frozen memory whose contents may be freed (source.h), or
                                        NULL; it stays until the buffer has no references */
    _Atomic(struct bp_writeback *) writeback; /* writeback.h; NULL: no engine has ever kept its
                                                 contents */
    uint64_t room[BP_STORAGE_ROOM / 8]; /* for the tensor that is created with it, on whole cache
                                           lines */
};
_Static_assert(sizeof(struct bp_buffer) % 64 == 0, "buffers fill cache lines");

static inline bool bp_buffer_is(const struct bp_buffer *buffer)
{
    return bp_magic_is(buffer ? buffer->magic : 0, BP_MAGIC_BUFFER);
}

/* Records in a profile that a segment was taken or returned (bytes 0). */
void bp_memory_profile_segment(struct bp_device *device, uint64_t bytes, uint64_t began);

/* Allocates size bytes in a space for work of the owner (the device's host timeline if the caller
 * names no stream); 0 bytes: a buffer without memory. Memory that both the host and the device can
 * access (any space but BP_SPACE_DEVICE) is always owned by the host timeline. */
enum bp_status bp_buffer_allocate(struct bp_device *device, struct bp_timeline *owner,
                                  uint32_t space, uint64_t size, struct bp_buffer **out_buffer);

/* Creates a buffer over size bytes of memory that the caller owns and that the device can access
 * like memory of `space`. The memory is neither counted nor cached. release(ctx) is called once,
 * without locks, on a thread that entered the core, when no tensor shares the buffer any more and
 * the work that uses it has ended. If this call fails, release is never called. */
enum bp_status bp_buffer_import(struct bp_device *device, const struct bp_memory *memory,
                                uint64_t size, uint32_t space, void (*release)(void *ctx),
                                void *ctx, struct bp_buffer **out_buffer);

/* Returns the host address of the buffer's first byte; NULL: the host cannot access it, or it has
 * no memory. */
void *bp_buffer_host_address(const struct bp_buffer *buffer);

/* Destroys an imported buffer that has no users yet, without a call of its release. */
void bp_buffer_disown(struct bp_buffer *buffer);

/* Drops a reference. After the last one, the owner's later work may reuse the memory immediately;
 * other work may reuse it when all work that used it has ended. Never blocks; any thread may call
 * it. */
void bp_buffer_release(struct bp_buffer *buffer);
/* Frees the physical memory of size bytes at an offset, whose contents are then undefined; later
 * writes get memory again. No unfinished work uses the bytes. false: they keep their memory, as
 * those of devices without inline streams do. */
bool bp_buffer_discard(struct bp_buffer *buffer, uint64_t offset, uint64_t size);
static inline void bp_buffer_retain(struct bp_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
}

/* Records that work `number` of `timeline` uses the buffer. bp_buffer_record_use does it only where
 * needed: not for an inline timeline, whose work is done in the call, and not for the buffer's
 * owner. */
void bp_buffer_add_user(struct bp_buffer *buffer, struct bp_timeline *timeline, uint64_t number);
static inline void bp_buffer_record_use(struct bp_buffer *buffer, struct bp_timeline *timeline,
                                        uint64_t number)
{
    if (buffer->owner != timeline && !timeline->is_inline)
        bp_buffer_add_user(buffer, timeline, number);
}

/* Counts a write to the buffer. Several threads may write to different elements of it. */
static inline void bp_buffer_record_write(struct bp_buffer *buffer)
{
    atomic_fetch_add_explicit(&buffer->version, 1, memory_order_relaxed);
}

/* The same on the shortest path of calls, which has no atomic read-modify-write: one of two writes
 * at once may not be counted. Calls take other paths while an engine compares versions
 * (bp_device_has_writebacks). */
static inline void bp_buffer_record_write_short(struct bp_buffer *buffer)
{
    uint64_t version = atomic_load_explicit(&buffer->version, memory_order_relaxed);

    atomic_store_explicit(&buffer->version, version + 1, memory_order_relaxed);
}

/* Whether the app, or another process, has an address of the memory: bp_buffer_expose. */
static inline bool bp_buffer_is_exposed(const struct bp_buffer *buffer)
{
    return !buffer->pool || atomic_load_explicit(&buffer->exposed, memory_order_seq_cst);
}

/* Reserves n buffer numbers that were never used, and returns the first one. */
uint64_t bp_buffer_reserve_ids(uint64_t n);

/* Copies on a stream without a queue: between ranges of buffer a and the host, or between a and b
 * (b NULL: there is no second buffer). When the call returns, host memory has been read or written:
 * a copy out therefore waits. */
enum bp_direction { BP_COPY_IN, BP_COPY_OUT, BP_COPY_WITHIN };
enum bp_status bp_memory_copy(struct bp_stream *stream, enum bp_direction direction,
                              const struct bp_copy *copy, struct bp_buffer *a,
                              struct bp_buffer *b);
/* Submits one copy to the plugin, on the thread that does the work of the timeline. */
enum bp_status bp_memory_submit_copy(struct bp_timeline *timeline, enum bp_direction direction,
                                     const struct bp_copy *copy);
const char *bp_direction_name(enum bp_direction direction);

/* Initializes a device's memory. bp_memory_finish frees it at the end, when all work has ended or
 * never will. */
enum bp_status bp_memory_init(struct bp_device *device);
void bp_memory_finish(struct bp_device *device);

/* Whether buffers of the device's pools are live: these keep the device alive without a
 * reference. */
bool bp_memory_is_live(struct bp_device *device);

/* Frees memory and objects whose work is known to have ended. Neither waits nor queries a
 * device. */
void bp_memory_collect(struct bp_device *device);

/* Waits for the stream's work, and returns its failure if any of it failed. */
enum bp_status bp_stream_drain(struct bp_stream *stream);

/* With BP_SYNC=launch: waits like bp_stream_drain after a launch or copy. In a function of
 * bp_stream_callback that submits work to its own stream the call returns immediately, because that
 * function must not wait. */
enum bp_status bp_stream_drain_if_sync(struct bp_stream *stream);

/* Counts bytes that a plan of a call keeps in addition, as reported by its plugin, against
 * BP_MEM_LIMIT. BP_ERR_MEMORY: the limit leaves no room, also after the caches have freed memory.
 * Called without locks. */
enum bp_status bp_memory_plan_reserve(struct bp_device *device, uint64_t bytes);
void bp_memory_plan_release(struct bp_device *device, uint64_t bytes);

void bp_shrinker_register(struct bp_device *device, struct bp_shrinker *shrinker);
/* When it returns, the shrinker's function is not running and will not be called. Must not be
 * called by a shrinker. */
void bp_shrinker_unregister(struct bp_device *device, struct bp_shrinker *shrinker);
/* Calls all shrinkers; returns whether any of them freed something. */
bool bp_device_shrink(struct bp_device *device);

/* Receives each segment of a device's memory once after it was reserved, before any thread has
 * memory of it, and once before it is released. The functions are called without locks, on any
 * thread. They may allocate memory; if that creates segments, they are called for these too, in
 * nested calls. */
struct bp_segment_listener {
    void (*reserved)(void *ctx, const struct bp_memory *memory, uint64_t bytes, uint32_t space);
    void (*released)(void *ctx, const struct bp_memory *memory, uint64_t bytes, uint32_t space);
    void *ctx;
    struct bp_segment_listener *next;
};
/* When it returns, the listener has been called for all existing segments; none is released
 * meanwhile. A listener must not call this function or the next one. */
void bp_segment_listener_add(struct bp_device *device, struct bp_segment_listener *listener);
/* When it returns, the listener is not being called and will not be. */
void bp_segment_listener_remove(struct bp_device *device, struct bp_segment_listener *listener);

/* Memory for captured work, which runs later, possibly many times. While a capture is open, all
 * device memory that is allocated with the owner's timeline belongs to the capture, on whichever
 * thread: the callers of one stream order their calls. Other memory that captured work uses must be
 * kept by the caller. Memory freed during a capture may be reused within that capture only, and
 * only in recorded stream order: immediately if only the owner used it, otherwise after the
 * recorded waits. While a capture is open the allocator neither queries nor waits for work of the
 * owner; this also holds for allocations by other threads. An allocation fails if free memory of
 * the device and a new segment do not suffice: trim, or empty caches, before the capture. */
struct bp_pool;
/* owner: the timeline of a stream that lives until the capture has ended and has no open capture
 * (BP_ERR_INVALID). The caller keeps the device alive. */
enum bp_status bp_capture_pool_begin(struct bp_timeline *owner, struct bp_pool **out_capture);
/* Ends the capture: its memory stays reserved for the captured work, and memory freed from now on
 * is not reused. */
void bp_capture_pool_end(struct bp_pool *capture);
/* Releases the memory of a capture that has ended and will not run again. Its last run was work
 * `number` of `timeline` (NULL: it never ran). The memory is freed when that work has ended; live
 * buffers keep theirs until they are destroyed. */
void bp_capture_pool_destroy(struct bp_pool *capture, struct bp_timeline *timeline,
                             uint64_t number);

#endif
