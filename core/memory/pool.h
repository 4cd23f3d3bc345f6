/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h: declares the memory pool of one owner (a stream's timeline, or the host) in one memory
 * space, and its parts: spans, segments and free blocks.
 *
 * The owner's later work may use a free block immediately. `stamp` is a position on the owner's
 * timeline: once the owner has passed it, work of any stream may use the block, because each use by
 * another stream has either ended or is ordered before work `stamp` by a wait. Work `stamp` may not
 * be submitted yet. A block with a user for which neither holds is pending: its free is deferred.
 *
 * The host's pool is the common pool of the device: work of any stream may use its free blocks. The
 * spans of the other pools are blocks of the host's pool; its own spans are segments from the
 * plugin. */
#ifndef BP_POOL_H
#define BP_POOL_H

#include "memory.h"

/* A range of memory that is divided into blocks. */
struct bp_span {
    struct bp_heap_block sentinel; /* before the first block and behind the last */
    struct bp_span *next, **at;   /* links in the list of its pool */
    struct bp_heap_block *parent; /* the block of the host's pool that it was made of; NULL: the
                                     span is a segment */
    struct bp_span *segment;    /* this span, or the segment of parent */
    struct bp_memory memory;    /* its first byte */
    uint64_t size;              /* total bytes of the blocks */
    struct bp_memory raw;       /* a segment: the memory as the plugin allocated it */
    uint64_t raw_size;          /* its bytes, with those lost to alignment */
    struct bp_span *older_segment; /* next in the list of the device's segments of all spaces */
    uint32_t space;
};

/* In bytes, except the numbers of buffers. Always reserved = requested + (taken - requested) + lost
 * + pending + free. */
struct bp_pool_counts {
    uint64_t reserved, requested, taken, lost, pending, free;
    uint64_t peak;        /* maximum of requested */
    uint64_t allocations; /* number of all allocations so far */
    uint64_t live;        /* number of live buffers */
};

/* The use of a pool: for all allocations of its owner, or for one capture (capture_pool.c). */
enum bp_capture_state {
    BP_CAPTURE_NONE,
    BP_CAPTURE_OPEN,   /* for work that is being captured: only the recorded order allows reuse */
    BP_CAPTURE_CLOSED, /* the captured work may run at any time: no allocation, no reuse */
    BP_CAPTURE_OVER,   /* memory is freed as in other pools, after the last run has ended */
};

struct bp_pool {
    pthread_mutex_t lock; /* guards the buffers' users, and all below except constants */
    bool locked;          /* the mutex is really held */
    uint32_t shift;       /* constant, as the four below: log2 of a granule's bytes */
    uint32_t space;
    bool poison;          /* for AddressSanitizer: the host can access the memory */
    bool is_capture;      /* constant: the pool of a capture */
    bool is_recorded;     /* allocations and frees are recorded in a profile */
    uint32_t capture;     /* enum bp_capture_state */
    struct bp_timeline *owner;
    struct bp_device *device;
    struct bp_pool_counts counts;
    uint64_t id, ids;     /* for buffers: the next number, and the end of the reserved ones */
    struct bp_link pending; /* oldest last */
    struct bp_span *spans;
    struct bp_user last_run; /* of a capture that is over; timeline NULL: none */
    struct bp_pool *next; /* next capture pool of the device; constant once linked */
    struct bp_heap heap;
};

/* Creates a pool that no thread can find yet; NULL: out of host memory. */
struct bp_pool *bp_pool_create(struct bp_timeline *owner, uint32_t space);

/* A block is the first member of its buffer. */
static inline struct bp_buffer *bp_buffer_of(struct bp_heap_block *block)
{
    return (struct bp_buffer *)block;
}

/* Returns the pool of an owner in a space, created at first use; NULL: out of host memory, with a
 * message. bp_pool_find returns NULL if there is no pool yet. */
struct bp_pool *bp_pool_get(struct bp_timeline *owner, uint32_t space);
static inline struct bp_pool *bp_pool_find(struct bp_timeline *owner, uint32_t space)
{
    return atomic_load_explicit(&owner->pool[space], memory_order_acquire);
}
/* Begins or ends to record allocations and frees of a locked or new pool. */
void bp_pool_record(struct bp_pool *pool, bool on);
/* At the end of the device, after bp_pool_release_spans: frees the pool. */
void bp_pool_destroy(struct bp_pool *pool);

/* The lock of the fast path. An eager call that allocates several buffers takes the lock once. In a
 * process with one thread the mutex is not locked; the process starts no thread while it holds the
 * lock. */
static inline void bp_pool_lock(struct bp_pool *pool)
{
    bool alone = BP_SINGLE_THREADED;

    if (!alone) pthread_mutex_lock(&pool->lock);
    pool->locked = !alone;
}
static inline void bp_pool_unlock(struct bp_pool *pool)
{
    if (pool->locked) pthread_mutex_unlock(&pool->lock);
}

/* Called with the pool locked. Returns a buffer of size bytes with one reference; NULL: the fast
 * path found no block, so unlock and call bp_buffer_allocate. */
struct bp_buffer *bp_pool_alloc(struct bp_pool *pool, uint64_t size);
/* Called with the pool locked. Frees a buffer of the pool whose last reference was dropped. The
 * caller has a reference to the device. */
void bp_pool_free(struct bp_pool *pool, struct bp_buffer *buffer);

/* Like bp_pool_alloc, after a full search: pending blocks whose users have ended become free, and
 * blocks kept whole merge with their neighbours. */
struct bp_buffer *bp_pool_alloc_collected(struct bp_pool *pool, uint64_t size);

/* Called with the pool locked. Makes a buffer of size bytes of a block that was taken from the
 * pool, or of a spare node for 0 bytes. */
struct bp_buffer *bp_pool_init_buffer(struct bp_pool *pool, struct bp_heap_block *block,
                                      uint64_t size);

/* Called with the pool locked. Pending blocks whose users are known to have ended become free. */
void bp_pool_collect(struct bp_pool *pool);
/* Called without the lock. Queries the devices for the progress of the users of pending blocks. */
void bp_pool_poll(struct bp_pool *pool);
/* Like bp_pool_poll; also queries the progress of the owner, and of the work that the owner waits
 * for. */
void bp_pool_poll_owner(struct bp_pool *pool);

/* Called with the pool locked. Whether work of any stream may use a free block of the pool. Queries
 * no device. */
bool bp_pool_is_common(const struct bp_pool *pool, const struct bp_heap_block *block);

static inline uint64_t bp_pool_granules(const struct bp_pool *pool, uint64_t size)
{
    return (size + (UINT64_C(1) << pool->shift) - 1) >> pool->shift;
}

/* segment.c: creates and releases segments and spans. All are called without locks. */

/* Creates a segment in the host's pool and lends all of it to the caller as one block. Its size is
 * the usual one for a pool with `reserved` bytes, or just enough for n granules (exact).
 * BP_ERR_MEMORY: the limit or the plugin allows no more, or there is no host memory; the message
 * has the reason. */
enum bp_status bp_segment_create(struct bp_pool *common, uint64_t reserved, uint64_t n, bool exact,
                                 struct bp_heap_block **out_block);
/* Lends a block of n granules or more from the free blocks of the host's pool; NULL: there is
 * none. */
struct bp_heap_block *bp_segment_lend(struct bp_pool *common, uint64_t reserved, uint64_t n);
/* Makes a span of `pool` out of a lent block. If pool is the host's pool itself, the block is
 * returned to it. */
enum bp_status bp_span_create(struct bp_pool *pool, struct bp_pool *common,
                              struct bp_heap_block *block);
/* Returns the spans of the pool to the host's pool that are one free block which work of any stream
 * may use. */
void bp_pool_trim(struct bp_pool *pool);
/* Returns segments that are entirely free to the plugin. The result is their number. */
uint32_t bp_segment_release(struct bp_pool *common);
/* At the end of the device: returns all spans and segments of a pool. */
void bp_pool_release_spans(struct bp_pool *pool);

/* segment_events.c: reports a new segment to the listeners, before any thread has memory of it. */
void bp_segment_report_new(struct bp_device *device, struct bp_span *segment);
/* Begins the release of segments, until bp_segment_release_end. false: a new listener is being
 * informed of the existing segments, and none may be released now. */
bool bp_segment_release_begin(struct bp_device *device);
/* Reports a segment to the listeners before it is released. */
void bp_segment_report_release(struct bp_device *device, struct bp_span *segment);
void bp_segment_release_end(struct bp_device *device);

/* alloc_slow.c: allocates a buffer if the fast path found no block in the owner's pool. */
enum bp_status bp_memory_alloc_slow(struct bp_pool *pool, uint64_t size,
                                    struct bp_buffer **out_buffer);

/* stats.c */
enum bp_memory_path {
    BP_PATH_COMMON, BP_PATH_OTHERS, BP_PATH_SEGMENT, BP_PATH_POLL, BP_PATH_RELEASE, BP_PATH_SHRINK,
    BP_PATH_STOLEN, BP_PATH_WAIT, BP_PATH_COUNT,
};

struct bp_memory_state {
    /* Held while statistics are added up, and while spans move back to the host's pool, or whole
     * segments leave it. So no byte is counted twice, and each counted byte is reserved. Moves in
     * the other direction need no lock, because the sum reads the host's pool last. Taken before
     * the lock of any pool. */
    pthread_mutex_t stats_lock;
    pthread_mutex_t lock; /* guards all below except `paths`, `failures`, `captures` */
    uint64_t reserved, peak_reserved; /* bytes of segments, also those being allocated */
    uint64_t segments, segments_ever;
    uint64_t plans; /* bytes that plans of calls keep */
    uint32_t shrinking;                /* threads that run shrinkers */
    pthread_cond_t shrunk;
    struct bp_shrinker *shrinkers;
    struct bp_span *newest_segment;   /* newest segment known to listeners; the list loses none
                                         while replaying */
    struct bp_segment_listener *listeners;
    uint32_t reporting, releasing, replaying; /* threads that report a new segment, release
                                                 segments, inform a new listener */
    pthread_cond_t reported;
    _Atomic(struct bp_pool *) captures; /* newest first; the list only grows */
    _Atomic uint64_t paths[BP_PATH_COUNT], failures;
    _Atomic bool is_recorded;  /* of pools that are found from now on; changed under device->lock */
    _Atomic uint64_t recorded; /* requested bytes of all pools, while they are recorded */
};

/* Reads the statistics of one pool, under its lock. */
struct bp_pool_stats;
void bp_pool_stats(struct bp_pool *pool, struct bp_pool_stats *out_stats);

/* Whether work of a timeline is being captured. Then no thread may query the timeline's progress or
 * wait for it. */
static inline bool bp_timeline_is_capturing(const struct bp_timeline *timeline)
{
    return atomic_load(&timeline->saved_pool) != NULL;
}

/* Calls visit for each existing pool of the device, including those of captures, in one space or in
 * all (BP_SPACES). */
void bp_pools_visit(struct bp_device *device, uint32_t space,
                    void (*visit)(struct bp_pool *pool, void *ctx), void *ctx);

#endif
