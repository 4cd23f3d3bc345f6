/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c: implements the heap of a pool: bins of free blocks and their bitmap. Sizes arrive in no
 * predictable order, so each branch would cost time: sentinels and list heads make the cases at the
 * ends need no branch. */
#include "pool.h"

#include <stdlib.h>
#include <string.h>

enum { SLAB = 63, LINE = 64 }; /* buffers in a slab; bytes of a cache line */

/* A buffer is aligned to a cache line, so that a search reads one line of it. */
struct slab {
    _Alignas(LINE) void *next;
    struct {
        _Alignas(LINE) struct bp_buffer buffer;
    } at[SLAB];
};

void bp_heap_init(struct bp_heap *heap, struct bp_pool *pool)
{
    memset(heap, 0, sizeof *heap);
    heap->pool = pool;
    for (uint32_t i = 0; i < BP_BINS; i++)
        heap->bin[i].next = heap->bin[i].prev = &heap->bin[i];
}

void bp_heap_finish(struct bp_heap *heap)
{
    struct slab *next;

    for (struct slab *slab = heap->slabs; slab; slab = next) {
        next = slab->next;
        free(slab);
    }
}

bool bp_heap_refill(struct bp_heap *heap)
{
    struct slab *slab;

    if (heap->spare && heap->spare->next) return true;
    slab = aligned_alloc(LINE, sizeof *slab);
    if (!slab) return false;
    memset(slab, 0, sizeof *slab);
    slab->next = heap->slabs;
    heap->slabs = slab;
    for (uint32_t i = 0; i < SLAB; i++) {
        slab->at[i].buffer.pool = heap->pool;
        slab->at[i].buffer.device = heap->pool->device;
        slab->at[i].buffer.space = (uint8_t)heap->pool->space;
        bp_heap_node_free(heap, &slab->at[i].buffer.block);
    }
    return true;
}

static inline struct bp_heap_block *heap_pop_node(struct bp_heap *heap)
{
    struct bp_link *link = heap->spare;

    heap->spare = link->next;
    return bp_heap_block_of(link);
}

struct bp_heap_block *bp_heap_node_alloc(struct bp_heap *heap)
{
    return heap->spare || bp_heap_refill(heap) ? heap_pop_node(heap) : NULL;
}

static inline void heap_push_node(struct bp_heap *heap, struct bp_heap_block *block)
{
    block->link.next = heap->spare;
    heap->spare = &block->link;
}

void bp_heap_node_free(struct bp_heap *heap, struct bp_heap_block *block)
{
    heap_push_node(heap, block);
}

/* Sizes 1 to 15 have one bin each, then each power of two has 16. There is no branch, because it
 * would be mispredicted for changing sizes. */
static inline uint32_t scale_of(uint64_t n)
{
    return (63 ^ (uint32_t)__builtin_clzll(n | 16)) - 4;
}

static inline uint32_t bin_of(uint64_t n)
{
    return scale_of(n) * 16 + (uint32_t)(n >> scale_of(n));
}

static inline void heap_insert(struct bp_heap *heap, struct bp_heap_block *block)
{
    uint32_t bin = bin_of(block->n);

    block->state = BP_HEAP_FREE;
    bp_link_insert(&block->link, &heap->bin[bin]);
    heap->nonempty[bin / 64] |= UINT64_C(1) << bin % 64;
    heap->nonempty_words |= UINT64_C(1) << bin / 64;
}

static inline void heap_remove(struct bp_heap *heap, struct bp_heap_block *block)
{
    uint32_t bin = bin_of(block->n);
    const struct bp_link *head = &heap->bin[bin];

    bp_link_remove(&block->link);
    heap->nonempty[bin / 64] &= ~((uint64_t)(head->next == head) << bin % 64);
    heap->nonempty_words &= ~((uint64_t)!heap->nonempty[bin / 64] << bin / 64);
}

void bp_heap_remove(struct bp_heap *heap, struct bp_heap_block *block)
{
    heap_remove(heap, block);
}

/* Returns the first block in the bins from `bin` on; NULL: they are empty. */
static inline struct bp_heap_block *heap_first_from(struct bp_heap *heap, uint32_t bin)
{
    uint32_t word = bin / 64;
    uint64_t bits = heap->nonempty[word] & ~UINT64_C(0) << bin % 64, words;

    if (!bits) {
        words = heap->nonempty_words & ~UINT64_C(1) << word;
        if (!words) return NULL;
        word = (uint32_t)__builtin_ctzll(words);
        bits = heap->nonempty[word];
    }
    return bp_heap_block_of(heap->bin[word * 64 + (uint32_t)__builtin_ctzll(bits)].next);
}

/* Finds a block of exactly n granules, or one in a bin whose blocks are all large enough. */
static inline struct bp_heap_block *heap_find(struct bp_heap *heap, uint64_t n)
{
    static struct bp_heap_block none; /* replaces an empty bin, to avoid a branch */
    struct bp_link *head = &heap->bin[bin_of(n)], *first = head->next;
    struct bp_heap_block *block = bp_heap_block_of(first == head ? &none.link : first);

    if (block->n == n) return block;
    return heap_first_from(heap, bin_of(n + (UINT64_C(1) << scale_of(n)) - 1));
}

/* Takes n granules from the front of a free block. A small rest stays part of the block. */
static inline struct bp_heap_block *heap_split(struct bp_heap *heap, struct bp_heap_block *block,
                                               uint64_t n)
{
    uint64_t rest = block->n - n;
    struct bp_heap_block *b;

    heap_remove(heap, block);
    block->state = BP_HEAP_LIVE;
    if (rest <= n / 64 || !(heap->spare || bp_heap_refill(heap))) return block;
    b = heap_pop_node(heap);
    b->n = rest;
    b->at = block->at + n;
    b->stamp = block->stamp;
    b->span = block->span;
    b->lo = block;
    b->hi = block->hi;
    b->hi->lo = b;
    block->hi = b;
    block->n = n;
    heap_insert(heap, b);
    return block;
}

static inline struct bp_quick *quick_of(struct bp_heap *heap, uint64_t n)
{
    return &heap->quick[(n ^ n >> 6) % BP_QUICK];
}

struct bp_heap_block *bp_heap_alloc(struct bp_heap *heap, uint64_t n, bool split)
{
    struct bp_quick *quick = quick_of(heap, n);
    struct bp_heap_block *block;

    quick->requested = n;
    if (quick->has == n) {
        block = quick->block;
        quick->block = NULL;
        quick->has = 0;
        block->state = BP_HEAP_LIVE;
        return block;
    }
    block = heap_find(heap, n);
    return block ? heap_split(heap, block, split ? n : block->n) : NULL;
}

struct bp_heap_block *bp_heap_search(struct bp_heap *heap, uint64_t n,
                                     bool (*fits)(const struct bp_heap_block *block, void *ctx),
                                     void *ctx)
{
    for (uint32_t bin = bin_of(n); bin < BP_BINS; bin++)
        for (struct bp_link *l = heap->bin[bin].next; l != &heap->bin[bin]; l = l->next) {
            struct bp_heap_block *block = bp_heap_block_of(l);
            if (block->n >= n && (!fits || fits(block, ctx))) return heap_split(heap, block, n);
        }
    return NULL;
}

/* Merges b, the neighbour above, into a. */
static inline void heap_merge(struct bp_heap *heap, struct bp_heap_block *a,
                              struct bp_heap_block *b)
{
    a->n += b->n;
    a->hi = b->hi;
    b->hi->lo = a;
    if (a->stamp < b->stamp) a->stamp = b->stamp;
    heap_push_node(heap, b);
}

static inline void heap_free(struct bp_heap *heap, struct bp_heap_block *block)
{
    struct bp_heap_block *lo = block->lo, *hi = block->hi;

    if (lo->state == BP_HEAP_FREE) {
        heap_remove(heap, lo);
        heap_merge(heap, lo, block);
        block = lo;
    }
    if (hi->state == BP_HEAP_FREE) {
        heap_remove(heap, hi);
        heap_merge(heap, block, hi);
    }
    heap_insert(heap, block);
}

void bp_heap_free(struct bp_heap *heap, struct bp_heap_block *block)
{
    heap_free(heap, block);
}

void bp_heap_free_quick(struct bp_heap *heap, struct bp_heap_block *block)
{
    struct bp_quick *quick = quick_of(heap, block->n);
    struct bp_heap_block *previous;

    if (quick->requested == block->n) {
        previous = quick->block;
        quick->block = block;
        quick->has = block->n;
        block->state = BP_HEAP_QUICK;
        block = previous;
    }
    if (block) heap_free(heap, block);
}

void bp_heap_flush(struct bp_heap *heap)
{
    for (uint32_t i = 0; i < BP_QUICK; i++) {
        if (heap->quick[i].block) heap_free(heap, heap->quick[i].block);
        heap->quick[i].block = NULL;
        heap->quick[i].has = 0;
    }
}

uint64_t bp_heap_largest(const struct bp_heap *heap)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < BP_QUICK; i++)
        if (heap->quick[i].has > most) most = heap->quick[i].has;
    for (uint32_t bin = BP_BINS; bin-- > 0;) {
        const struct bp_link *head = &heap->bin[bin];
        for (struct bp_link *l = head->next; l != head; l = l->next)
            if (bp_heap_block_of(l)->n > most) most = bp_heap_block_of(l)->n;
        if (head->next != head) break;
    }
    return most;
}
