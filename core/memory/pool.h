/* SPDX-License-Identifier: Apache-2.0 */
/* pool.h: the memory of one home: a timeline, or the host, in one space.
 *
 * A free block may be used by home's later work at once. Its stamp says when it is everybody's:
 * when home's work of that number has ended. Of users that are not home each has ended, or home
 * comes after it by a wait that was made before work `stamp`; that may be work which is not there
 * yet. Blocks whose users are neither are pending.
 *
 * The host's pool is the device's common list: its free blocks are everybody's. Regions of the
 * other pools are blocks of it, its own are chunks from the plugin. */
#ifndef BP_POOL_H
#define BP_POOL_H

#include "memory.h"

/* A range of memory in which blocks lie. */
struct bp_region {
    struct bp_piece edge;       /* before the first block and behind the last */
    struct bp_region *next, **at; /* of its pool */
    struct bp_piece *parent;    /* in the host's pool; NULL: a chunk */
    struct bp_region *chunk;    /* this, or the parent's */
    struct bp_memory memory;    /* its first byte */
    uint64_t size;              /* bytes in blocks */
    struct bp_memory raw;       /* a chunk: as the plugin gave it, */
    uint64_t raw_size;          /* with what alignment lost */
    struct bp_region *older;    /* a chunk of the device's, of any space */
    uint32_t space;
};

/* Bytes but for counts. What the pool has is reserved = asked + (taken - asked) + lost + pending +
 * free. */
struct bp_pool_counts {
    uint64_t reserved, asked, taken, lost, pending, free;
    uint64_t peak;        /* of asked */
    uint64_t allocations; /* ever */
    uint64_t live;        /* storages */
};

/* Whose memory a pool has: anybody's who asks on its home, or a capture's: capture.c. */
enum bp_capture_state {
    BP_CAPTURE_NONE,
    BP_CAPTURE_OPEN,   /* for recorded work, whose order alone says what may be used again */
    BP_CAPTURE_CLOSED, /* that work may run at any time: nothing is given out, nothing returns */
    BP_CAPTURE_OVER,   /* it goes back as other memory does, behind the last run */
};

struct bp_pool {
    pthread_mutex_t lock; /* all below but what is constant, and the storages' users */
    bool locked;          /* the lock is held as such */
    uint32_t shift;       /* constant, as the four below: of a granule */
    uint32_t space;
    bool poison;          /* for AddressSanitizer: the host reaches the memory */
    bool captures;        /* constant: a capture's */
    uint32_t capture;     /* enum bp_capture_state */
    struct bp_timeline *home;
    struct bp_device *device;
    struct bp_pool_counts counts;
    uint64_t id, ids;     /* numbers for storages: the next, and one past the last */
    struct bp_link pending; /* oldest last */
    struct bp_region *regions;
    struct bp_user ran;   /* a capture's last run; timeline NULL: none */
    struct bp_pool *next; /* captures of the device; constant once linked */
    struct bp_heap heap;
};

/* A pool that is nobody's yet; NULL: no host memory. */
struct bp_pool *bp_pool_create(struct bp_timeline *home, uint32_t space);

/* A storage begins with its block. */
static inline struct bp_storage *bp_storage_of(struct bp_piece *block)
{
    return (struct bp_storage *)block;
}

/* The pool of a home in a space, made at first use; NULL: no host memory, with a message. */
struct bp_pool *bp_pool_make(struct bp_timeline *home, uint32_t space);
static inline struct bp_pool *bp_pool_at(struct bp_timeline *home, uint32_t space)
{
    return atomic_load_explicit(&home->pool[space], memory_order_acquire);
}
/* At the device's end: its regions have been given back. */
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

/* Under the lock: a storage of size bytes with one reference; NULL: not so easily, unlock and call
 * bp_storage_create. */
struct bp_storage *bp_pool_take(struct bp_pool *pool, uint64_t size);
/* Under the lock: takes back a storage of the pool, of which nobody has a reference any more. The
 * caller has a reference of the device. */
void bp_pool_give(struct bp_pool *pool, struct bp_storage *storage);

/* The same after a search of all that is free: what has ended is found, what was kept whole merges.
 */
struct bp_storage *bp_pool_take_slowly(struct bp_pool *pool, uint64_t size);

/* Under the lock: makes a storage of size bytes out of a block of the pool's that was taken, or of
 * a spare one for 0 bytes. */
struct bp_storage *bp_pool_begin(struct bp_pool *pool, struct bp_piece *block, uint64_t size);

/* Under the lock: pending blocks whose users are known to have ended become free. */
void bp_pool_settle(struct bp_pool *pool);
/* Without it: asks the devices how far the users of what is pending have got. */
void bp_pool_ask(struct bp_pool *pool);
/* And how far home has, with what it waits for. */
void bp_pool_ask_home(struct bp_pool *pool);

/* Under the lock: whether a free block of the pool is everybody's. Asks nothing. */
bool bp_pool_is_common(const struct bp_pool *pool, const struct bp_piece *block);

static inline uint64_t bp_pool_granules(const struct bp_pool *pool, uint64_t size)
{
    return (size + (UINT64_C(1) << pool->shift) - 1) >> pool->shift;
}

/* segment.c: regions come and go. Without locks. */

/* A new chunk in the host's pool, all of it lent: of the usual size for a pool that has reserved
 * bytes, or exact. BP_ERR_MEMORY, with the reason as message: the limit, or the plugin, has no
 * more. */
enum bp_status bp_chunk_create(struct bp_pool *common, uint64_t reserved, uint64_t n, bool exact,
                               struct bp_piece **out_block);
/* A block of n granules, or more, out of the host's free ones; NULL. */
struct bp_piece *bp_chunk_lend(struct bp_pool *common, uint64_t reserved, uint64_t n);
/* Makes a lent block a region of pool's; the host's own just keeps it. */
enum bp_status bp_region_create(struct bp_pool *pool, struct bp_pool *common,
                                struct bp_piece *block);
/* What of the pool is free as a whole and everybody's goes back to the host's. */
void bp_pool_return(struct bp_pool *pool);
/* Whole free chunks go to the plugin; how many. */
uint32_t bp_chunk_release(struct bp_pool *common);
/* All of a pool's, at the device's end. */
void bp_pool_drop(struct bp_pool *pool);

/* segment_events.c: a new chunk, which nobody has memory of yet, is made known. */
void bp_chunk_tell(struct bp_device *device, struct bp_region *chunk);
/* Chunks may be released until the end; false: not now, a new listener is told of them. */
bool bp_release_begin(struct bp_device *device);
void bp_release_tell(struct bp_device *device, struct bp_region *chunk); /* before it is */
void bp_release_end(struct bp_device *device);

/* alloc_slow.c: a storage where the home's pool has nothing at hand. */
enum bp_status bp_memory_find(struct bp_pool *pool, uint64_t size,
                              struct bp_storage **out_storage);

/* stats.c */
enum bp_memory_path {
    BP_PATH_COMMON, BP_PATH_OTHERS, BP_PATH_CHUNK, BP_PATH_POLL, BP_PATH_RELEASE, BP_PATH_PRESSURE,
    BP_PATH_STOLEN, BP_PATH_WAIT, BP_PATH_COUNT,
};

struct bp_memory_state {
    /* Held while figures are added up, and while regions go back to the host's pool, or whole
     * chunks out of it: so nothing is counted twice, and what is counted is reserved. The other way
     * needs no lock: sums come to the host's pool last. Before any lock of a pool. */
    pthread_mutex_t moving;
    pthread_mutex_t lock; /* all below but the counts of paths */
    uint64_t reserved, peak_reserved; /* bytes of chunks, those under way too */
    uint64_t chunks, chunks_ever;
    uint64_t plans; /* bytes that plans of calls keep */
    uint32_t pressing;                /* threads that run callbacks of pressure */
    pthread_cond_t pressed;
    struct bp_pressure *pressure;
    struct bp_region *newest;         /* chunks that listeners know; it loses none while hearing */
    struct bp_listener *listeners;
    uint32_t telling, releasing, hearing; /* threads that tell of a new chunk, release chunks,
                                             tell a new listener */
    pthread_cond_t told;
    _Atomic(struct bp_pool *) captures; /* newest first; the list only grows */
    _Atomic uint64_t paths[BP_PATH_COUNT], failures;
};

/* One pool's figures, read under its lock. */
struct bp_pool_stats;
void bp_pool_stats(struct bp_pool *pool, struct bp_pool_stats *out_stats);

/* Whether work of a timeline is being recorded: then nobody asks how far it has got, and nobody
 * waits for it. */
static inline bool bp_is_capturing(const struct bp_timeline *timeline)
{
    return atomic_load(&timeline->aside) != NULL;
}

/* Calls visit for each pool of the device that there is, those of captures too, in one space or in
 * all (BP_SPACES). */
void bp_pools_visit(struct bp_device *device, uint32_t space,
                    void (*visit)(struct bp_pool *pool, void *ctx), void *ctx);

#endif
