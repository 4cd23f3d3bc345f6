/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h: which blocks of some ranges of memory are free. What is known of a block lies apart
 * from it, since the host may not reach the memory.
 *
 * Free blocks stand in bins by size, 16 for each power of two. A block is cut off the first one
 * that is surely large enough, and merges with free neighbours when it comes back: a fixed number
 * of steps each. Where the last request was of the size that comes back, the block is kept whole
 * for the next one. */
#ifndef BP_HEAP_H
#define BP_HEAP_H

#include "../base/base.h"

struct bp_pool;
struct bp_span;
struct bp_buffer;

enum { BP_BINS = 14 * 64, BP_QUICK = 16 };

enum bp_heap_block_state {
    BP_HEAP_LIVE,     /* a buffer's, or lent to another pool; and the sentinel of a span */
    BP_HEAP_FREE,     /* in its bin: the owner may take it */
    BP_HEAP_QUICK,    /* the same, kept whole */
    BP_HEAP_PENDING,  /* given back, but work that the owner does not come after may use it */
};

struct bp_link {
    struct bp_link *next, *prev;
};

/* All that neighbours look at comes first, in one cache line. */
struct bp_heap_block {
    struct bp_heap_block *lo, *hi; /* neighbours by address; a span's sentinel at both ends */
    struct bp_link link;       /* in its bin, or among the pending, or the spare ones */
    uint64_t n, at;            /* granules, and those before it in its span */
    uint64_t stamp;            /* work of the owner that comes after all uses: see pool.h */
    uint64_t state;            /* enum bp_heap_block_state */
    struct bp_span *span;
};

/* A block kept whole, where the last request that came by was of its size. */
struct bp_quick {
    struct bp_heap_block *block; /* or NULL */
    uint64_t has, requested;     /* granules: of the block, or 0; of the last request */
};

struct bp_heap {
    struct bp_quick quick[BP_QUICK];
    uint64_t nonempty[BP_BINS / 64]; /* bit b of word w: bin 64 w + b is not empty */
    uint64_t nonempty_words;     /* bit w: word w is not 0 */
    struct bp_link bin[BP_BINS];
    struct bp_link *spare;       /* blocks that are none */
    void *slabs;                 /* linked by their first words */
    struct bp_pool *pool;        /* of which all blocks are */
};

static inline struct bp_heap_block *bp_heap_block_of(struct bp_link *link)
{
    return (struct bp_heap_block *)((char *)link - offsetof(struct bp_heap_block, link));
}

static inline void bp_link_remove(struct bp_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

/* Behind at. */
static inline void bp_link_insert(struct bp_link *link, struct bp_link *at)
{
    link->prev = at;
    link->next = at->next;
    at->next->prev = link;
    at->next = link;
}

void bp_heap_init(struct bp_heap *heap, struct bp_pool *pool);
void bp_heap_finish(struct bp_heap *heap); /* frees all blocks */

/* Makes sure that there are spare blocks. false: no host memory. */
bool bp_heap_refill(struct bp_heap *heap);

/* n granules, LIVE, with the stamp that they had; NULL if there are none, or too little is known of
 * it: after bp_heap_flush, bp_heap_search knows all. Cuts off what is left over if split is set. */
struct bp_heap_block *bp_heap_alloc(struct bp_heap *heap, uint64_t n, bool split);

/* The first free block of n granules or more that fits says yes to (NULL: any), taken. */
struct bp_heap_block *bp_heap_search(struct bp_heap *heap, uint64_t n,
                                     bool (*fits)(const struct bp_heap_block *block, void *ctx),
                                     void *ctx);

/* Gives a LIVE block back, which merges with its neighbours; or may be kept whole (quick). */
void bp_heap_free(struct bp_heap *heap, struct bp_heap_block *block);
void bp_heap_free_quick(struct bp_heap *heap, struct bp_heap_block *block);
void bp_heap_flush(struct bp_heap *heap); /* what was kept whole merges */

/* Takes a free block out of its bin. */
void bp_heap_remove(struct bp_heap *heap, struct bp_heap_block *block);

/* A block that is none, out of the spare ones; NULL: no host memory. */
struct bp_heap_block *bp_heap_node_alloc(struct bp_heap *heap);
void bp_heap_node_free(struct bp_heap *heap, struct bp_heap_block *block);

/* Granules of the largest free block. */
uint64_t bp_heap_largest(const struct bp_heap *heap);

#endif
