/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h: which pieces of some ranges of memory are free. What is known of a piece lies apart
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
struct bp_region;
struct bp_storage;

enum { BP_BINS = 14 * 64, BP_QUICK = 16 };

enum bp_piece_state {
    BP_PIECE_LIVE,    /* a storage's, or lent to another pool; and the edge of a region */
    BP_PIECE_FREE,    /* in its bin: home may take it */
    BP_PIECE_QUICK,   /* the same, kept whole */
    BP_PIECE_PENDING, /* given back, but work that home does not come after may use it */
};

struct bp_link {
    struct bp_link *next, *prev;
};

/* All that neighbours look at comes first, in one cache line. */
struct bp_piece {
    struct bp_piece *lo, *hi;  /* neighbours by address; a region's edge at both ends */
    struct bp_link link;       /* in its bin, or among the pending, or the spare ones */
    uint64_t n, at;            /* granules, and those before it in its region */
    uint64_t stamp;            /* work of home that comes after all uses: see pool.h */
    uint64_t state;            /* enum bp_piece_state */
    struct bp_region *region;
};

/* A block kept whole, where the last request that came by was of its size. */
struct bp_quick {
    struct bp_piece *block; /* or NULL */
    uint64_t has, asked;    /* granules: of the block, or 0; of the last request */
};

struct bp_heap {
    struct bp_quick quick[BP_QUICK];
    uint64_t some[BP_BINS / 64]; /* bit b of word w: bin 64 w + b is not empty */
    uint64_t some_words;         /* bit w: word w is not 0 */
    struct bp_link bin[BP_BINS];
    struct bp_link *spare;       /* blocks that are none */
    void *slabs;                 /* linked by their first words */
    struct bp_pool *pool;        /* of which all blocks are */
};

static inline struct bp_piece *bp_piece_of(struct bp_link *link)
{
    return (struct bp_piece *)((char *)link - offsetof(struct bp_piece, link));
}

static inline void bp_link_cut(struct bp_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
}

/* Behind at. */
static inline void bp_link_put(struct bp_link *link, struct bp_link *at)
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
struct bp_piece *bp_heap_take(struct bp_heap *heap, uint64_t n, bool split);

/* The first free block of n granules or more that fits says yes to (NULL: any), taken. */
struct bp_piece *bp_heap_search(struct bp_heap *heap, uint64_t n,
                                bool (*fits)(const struct bp_piece *block, void *ctx), void *ctx);

/* Gives a LIVE block back, which merges with its neighbours; or may be kept whole (quick). */
void bp_heap_give(struct bp_heap *heap, struct bp_piece *block);
void bp_heap_give_quick(struct bp_heap *heap, struct bp_piece *block);
void bp_heap_flush(struct bp_heap *heap); /* what was kept whole merges */

/* Takes a free block out of its bin. */
void bp_heap_out(struct bp_heap *heap, struct bp_piece *block);

/* A block that is none, out of the spare ones; NULL: no host memory. */
struct bp_piece *bp_heap_node(struct bp_heap *heap);
void bp_heap_node_give(struct bp_heap *heap, struct bp_piece *block);

/* Granules of the largest free block. */
uint64_t bp_heap_largest(const struct bp_heap *heap);

#endif
