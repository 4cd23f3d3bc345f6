/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h: the memory of one owner: a timeline, or the host, in one space.
 *
 * A free block may be used by the owner's later work at once. Its stamp says when it is
 * everybody's: when the owner's work of that number has ended. Of users that are not the owner each
 * has ended, or the owner comes after it by a wait that was made before work `stamp`; that may be
 * work which is not there yet. Blocks whose users are neither are pending.
 *
 * The host's pool is the device's common list: its free blocks are everybody's. Regions of the
 * other pools are blocks of it, its own are segments from the plugin. */
#ifndef BP_POOL_H
#define BP_POOL_H

#include "memory.h"

/* A range of memory in which blocks lie. */
struct bp_span {
    struct bp_heap_block sentinel; /* before the first block and behind the last */
    struct bp_span *next, **at;   /* of its pool */
    struct bp_heap_block *parent; /* in the host's pool; NULL: a segment */
    struct bp_span *segment;    /* this, or the parent's */
    struct bp_memory memory;    /* its first byte */
    uint64_t size;              /* bytes in blocks */
    struct bp_memory raw;       /* a segment: as the plugin gave it, */
    uint64_t raw_size;          /* with what alignment lost */
    struct bp_span *older_segment; /* a segment of the device's, of any space */
    uint32_t space;
};

/* Bytes but for counts. What the pool has is reserved = requested + (taken - requested) + lost +
 * pending + free. */
struct bp_pool_counts {
    uint64_t reserved, requested, taken, lost, pending, free;
    uint64_t peak;        /* of requested */
    uint64_t allocations; /* ever */
    uint64_t live;        /* buffers */
};

/* Whose memory a pool has: anybody's who asks on its owner, or a capture's: capture.c. */
enum bp_capture_state {
    BP_CAPTURE_NONE,
    BP_CAPTURE_OPEN,   /* for recorded work, whose order alone says what may be used again */
    BP_CAPTURE_CLOSED, /* that work may run at any time: nothing is given out, nothing returns */
    BP_CAPTURE_OVER,   /* it goes back as other memory does, behind the last run */
};

struct bp_pool {
    pthread_mutex_t lock; /* all below but what is constant, and the buffers' users */
    bool locked;          /* the lock is held as such */
    uint32_t shift;       /* constant, as the four below: of a granule */
    uint32_t space;
    bool poison;          /* for AddressSanitizer: the host reaches the memory */
    bool is_capture;      /* constant: a capture's */
    uint32_t capture;     /* enum bp_capture_state */
    struct bp_timeline *owner;
    struct bp_device *device;
    struct bp_pool_counts counts;
    uint64_t id, ids;     /* numbers for buffers: the next, and one past the last */
    struct bp_link pending; /* oldest last */
    struct bp_span *spans;
    struct bp_user last_run; /* a capture's last run; timeline NULL: none */
    struct bp_pool *next; /* captures of the device; constant once linked */
    struct bp_heap heap;
};

/* A pool that is nobody's yet; NULL: no host memory. */
struct bp_pool *bp_pool_create(struct bp_timeline *owner, uint32_t space);

/* A buffer begins with its block. */
static inline struct bp_buffer *bp_buffer_of(struct bp_heap_block *block)
{
    return (struct bp_buffer *)block;
}

/* The pool of an owner in a space, made at first use; NULL: no host memory, with a message. */
struct bp_pool *bp_pool_get(struct bp_timeline *owner, uint32_t space);
static inline struct bp_pool *bp_pool_find(struct bp_timeline *owner, uint32_t space)
{
    return atomic_load_explicit(&owner->pool[space], memory_order_acquire);
}
/* At the device's end: its spans have been given back. */
void bp_pool_destroy(struct bp_pool *pool);

/* The way of most requests. An eager call that wants several things takes the lock once. A process
 * with one thread needs none, and makes no other while it holds one. */
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

/* Under the lock: a buffer of size bytes with one reference; NULL: not so easily, unlock and call
 * bp_buffer_allocate. */
struct bp_buffer *bp_pool_alloc(struct bp_pool *pool, uint64_t size);
/* Under the lock: takes back a buffer of the pool, of which nobody has a reference any more. The
 * caller has a reference of the device. */
void bp_pool_free(struct bp_pool *pool, struct bp_buffer *buffer);

/* The same after a search of all that is free: what has ended is found, what was kept whole merges.
 */
struct bp_buffer *bp_pool_alloc_collected(struct bp_pool *pool, uint64_t size);

/* Under the lock: makes a buffer of size bytes out of a block of the pool's that was taken, or of
 * a spare one for 0 bytes. */
struct bp_buffer *bp_pool_init_storage(struct bp_pool *pool, struct bp_heap_block *block,
                                       uint64_t size);

/* Under the lock: pending blocks whose users are known to have ended become free. */
void bp_pool_collect(struct bp_pool *pool);
/* Without it: asks the devices how far the users of what is pending have got. */
void bp_pool_poll(struct bp_pool *pool);
/* And how far the owner has, with what it waits for. */
void bp_pool_poll_owner(struct bp_pool *pool);

/* Under the lock: whether a free block of the pool is everybody's. Asks nothing. */
bool bp_pool_is_common(const struct bp_pool *pool, const struct bp_heap_block *block);

static inline uint64_t bp_pool_granules(const struct bp_pool *pool, uint64_t size)
{
    return (size + (UINT64_C(1) << pool->shift) - 1) >> pool->shift;
}

/* segment.c: spans come and go. Without locks. */

/* A new segment in the host's pool, all of it lent: of the usual size for a pool that has reserved
 * bytes, or exact. BP_ERR_MEMORY, with the reason as message: the limit, or the plugin, has no
 * more. */
enum bp_status bp_segment_create(struct bp_pool *common, uint64_t reserved, uint64_t n, bool exact,
                                 struct bp_heap_block **out_block);
/* A block of n granules, or more, out of the host's free ones; NULL. */
struct bp_heap_block *bp_segment_lend(struct bp_pool *common, uint64_t reserved, uint64_t n);
/* Makes a lent block a span of pool's; the host's own just keeps it. */
enum bp_status bp_span_create(struct bp_pool *pool, struct bp_pool *common,
                              struct bp_heap_block *block);
/* What of the pool is free as a whole and everybody's goes back to the host's. */
void bp_pool_trim(struct bp_pool *pool);
/* Whole free segments go to the plugin; how many. */
uint32_t bp_segment_release(struct bp_pool *common);
/* All of a pool's, at the device's end. */
void bp_pool_release_spans(struct bp_pool *pool);

/* segment_events.c: a new segment, which nobody has memory of yet, is made known. */
void bp_segment_report_new(struct bp_device *device, struct bp_span *segment);
/* Segments may be released until the end; false: not now, a new listener is told of them. */
bool bp_segment_release_begin(struct bp_device *device);
void bp_segment_report_release(struct bp_device *device, struct bp_span *segment); /* before */
void bp_segment_release_end(struct bp_device *device);

/* alloc_slow.c: a buffer where the owner's pool has nothing at hand. */
enum bp_status bp_memory_alloc_slow(struct bp_pool *pool, uint64_t size,
                                    struct bp_buffer **out_storage);

/* stats.c */
enum bp_memory_path {
    BP_PATH_COMMON, BP_PATH_OTHERS, BP_PATH_SEGMENT, BP_PATH_POLL, BP_PATH_RELEASE, BP_PATH_SHRINK,
    BP_PATH_STOLEN, BP_PATH_WAIT, BP_PATH_COUNT,
};

struct bp_memory_state {
    /* Held while figures are added up, and while spans go back to the host's pool, or whole
     * segments out of it: so nothing is counted twice, and what is counted is reserved. The other
     * way needs no lock: sums come to the host's pool last. Before any lock of a pool. */
    pthread_mutex_t stats_lock;
    pthread_mutex_t lock; /* all below but the counts of paths */
    uint64_t reserved, peak_reserved; /* bytes of segments, those under way too */
    uint64_t chunks, chunks_ever;
    uint64_t plans; /* bytes that plans of calls keep */
    uint32_t shrinking;                /* threads that run callbacks of shrinkers */
    pthread_cond_t shrunk;
    struct bp_shrinker *shrinkers;
    struct bp_span *newest_segment;   /* that listeners know; the list loses none while replaying */
    struct bp_segment_listener *listeners;
    uint32_t reporting, releasing, replaying; /* threads that report a new segment, release
                                                 segments, report to a new listener */
    pthread_cond_t reported;
    _Atomic(struct bp_pool *) captures; /* newest first; the list only grows */
    _Atomic uint64_t paths[BP_PATH_COUNT], failures;
};

/* One pool's figures, read under its lock. */
struct bp_pool_stats;
void bp_pool_stats(struct bp_pool *pool, struct bp_pool_stats *out_stats);

/* Whether work of a timeline is being recorded: then nobody asks how far it has got, and nobody
 * waits for it. */
static inline bool bp_timeline_is_capturing(const struct bp_timeline *timeline)
{
    return atomic_load(&timeline->saved_pool) != NULL;
}

/* Calls visit for each pool of the device that there is, those of captures too, in one space or in
 * all (BP_SPACES). */
void bp_pools_visit(struct bp_device *device, uint32_t space,
                    void (*visit)(struct bp_pool *pool, void *ctx), void *ctx);

#endif
