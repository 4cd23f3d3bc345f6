/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h: declares the heap of a pool: which blocks of the pool's spans are free. The state of a
 * block is stored apart from its memory, because the host may not be able to access the memory.
 *
 * Free blocks are in bins by size, 16 bins for each power of two. An allocation is cut off the
 * first block of a bin whose blocks are all large enough; a freed block merges with its free
 * neighbours. Both take a constant number of steps. If the last request had the size of the freed
 * block, the block is kept whole for the next request. */
#ifndef BP_HEAP_H
#define BP_HEAP_H

#include "../base/base.h"

struct bp_pool;
struct bp_span;
struct bp_buffer;

enum { BP_BINS = 14 * 64, BP_QUICK = 16 };

enum bp_heap_block_state {
    BP_HEAP_LIVE,     /* of a buffer, or lent to another pool; also the sentinel of a span */
    BP_HEAP_FREE,     /* in its bin: the owner may take it */
    BP_HEAP_QUICK,    /* free too, but kept whole outside the bins */
    BP_HEAP_PENDING,  /* freed, but may be used by work that the owner is not ordered after */
};

struct bp_link {
    struct bp_link *next, *prev;
};

/* The members that are read of neighbours are first, in one cache line. */
struct bp_heap_block {
    struct bp_heap_block *lo, *hi; /* neighbours by address; at both ends the span's sentinel */
    struct bp_link link;       /* in its bin, in the list of pending blocks, or of spare nodes */
    uint64_t n, at;            /* granules of the block, and before it in its span */
    uint64_t stamp;            /* the owner's work after all uses of the block: see pool.h */
    uint64_t state;            /* enum bp_heap_block_state */
    struct bp_span *span;
};

/* A freed block kept whole, because the last request mapped to this slot had its size. */
struct bp_quick {
    struct bp_heap_block *block; /* or NULL */
    uint64_t has, requested;     /* granules: of the block, or 0; of the last request */
};

struct bp_heap {
    struct bp_quick quick[BP_QUICK];
    uint64_t nonempty[BP_BINS / 64]; /* bit b of word w: bin 64 w + b is not empty */
    uint64_t nonempty_words;     /* bit w: word w is not 0 */
    struct bp_link bin[BP_BINS];
    struct bp_link *spare;       /* nodes without memory */
    void *slabs;                 /* linked by their first words */
    struct bp_pool *pool;        /* the pool of all blocks */
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

/* Inserts link directly after at. */
static inline void bp_link_insert(struct bp_link *link, struct bp_link *at)
{
    link->prev = at;
    link->next = at->next;
    at->next->prev = link;
    at->next = link;
}

void bp_heap_init(struct bp_heap *heap, struct bp_pool *pool);
void bp_heap_finish(struct bp_heap *heap); /* frees all blocks */

/* Makes sure that there are spare nodes. false: out of host memory. */
bool bp_heap_refill(struct bp_heap *heap);

/* Takes n granules as one LIVE block, with the stamp of the memory. NULL: none was found by this
 * quick look; after bp_heap_flush, bp_heap_search finds any. split: the rest of a larger block
 * stays free. */
struct bp_heap_block *bp_heap_alloc(struct bp_heap *heap, uint64_t n, bool split);

/* Takes the first free block of n granules or more for which fits returns true (NULL: any
 * block). */
struct bp_heap_block *bp_heap_search(struct bp_heap *heap, uint64_t n,
                                     bool (*fits)(const struct bp_heap_block *block, void *ctx),
                                     void *ctx);

/* Frees a LIVE block. bp_heap_free merges it with its free neighbours; bp_heap_free_quick may keep
 * it whole. */
void bp_heap_free(struct bp_heap *heap, struct bp_heap_block *block);
void bp_heap_free_quick(struct bp_heap *heap, struct bp_heap_block *block);
void bp_heap_flush(struct bp_heap *heap); /* merges the blocks kept whole */

/* Removes a free block from its bin. */
void bp_heap_remove(struct bp_heap *heap, struct bp_heap_block *block);

/* Takes a node without memory from the spare ones; NULL: out of host memory. */
struct bp_heap_block *bp_heap_node_alloc(struct bp_heap *heap);
void bp_heap_node_free(struct bp_heap *heap, struct bp_heap_block *block);

/* Returns the granules of the largest free block. */
uint64_t bp_heap_largest(const struct bp_heap *heap);

#endif
