/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.h: how a rank waits for words of others on its machine. */
#ifndef BP_WAITER_PRIVATE_H
#define BP_WAITER_PRIVATE_H

#include "shm_segment.h"

struct bp_shm_rank; /* shm_rank.h */

/* What goes on besides, while a rank waits: where there are other hosts. */
struct bp_progress {
    void *ctx;
    /* Moves what goes to and from other hosts; *out_moved is set if something has. */
    enum bp_status (*progress)(void *ctx, bool *out_moved);
    /* Now and then: BP_OK, or the failure of the communicator. */
    enum bp_status (*poll)(void *ctx);
    /* Time is up, so long ago, for a word of rank `of`. BP_OK: others are given a moment more. */
    enum bp_status (*time_up)(void *ctx, uint32_t of, uint64_t late_ns);
};

struct bp_waiter {
    const struct bp_progress *progress; /* or NULL */
    _Atomic uint32_t *sleepers; /* of the segment: ranks that sleep */
    uint64_t spin_ns;       /* before it sleeps; 0: ranks share processors, and it yields instead */
    bool asymmetric_fence;  /* who sleeps makes the others' stores seen: see waiter.c */
    uint64_t timeout_ns, deadline; /* of the call that is under way; deadline 0: not looked yet */
    uint64_t checked_ns;    /* when ranks were last seen to live */
};

/* Whether this process, going to sleep, can make those of others that are ready for it see that;
 * makes this one ready. */
bool bp_waiter_register_fence(void);

/* Fetches a line that is about to be written, so that others have let go of it by then. The
 * compiler's own prefetch for writing is one for reading, unless it is told of a processor. */
static inline void bp_prefetch_for_write(const void *at)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)at));
#else
    __builtin_prefetch(at, 1);
#endif
}

static inline void bp_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Waits until a word of a rank is at least value. */
enum bp_status bp_shm_word_wait_slow(struct bp_shm_rank *b, const _Atomic uint64_t *word,
                                     uint64_t value, uint32_t of);
static inline enum bp_status bp_shm_word_wait(struct bp_shm_rank *b, const _Atomic uint64_t *word,
                                              uint64_t value, uint32_t of)
{
    if (atomic_load_explicit(word, memory_order_acquire) >= value) return BP_OK;
    return bp_shm_word_wait_slow(b, word, value, of);
}

/* One round of a wait for several words, one of them of rank `of`: *round counts the rounds in
 * which nothing happened. Once it sleeps it does so for a short while only. */
enum bp_status bp_waiter_backoff(struct bp_shm_rank *b, uint32_t of, uint32_t *round);

/* BP_OK, or the failure of all; looks for ranks that have died. */
enum bp_status bp_shm_rank_check(struct bp_shm_rank *b);
/* Whether a rank's process has died, or does within timeout_ms: one that is being killed loses its
 * files and memory first. */
bool bp_shm_rank_is_dead(const struct bp_shm_rank *b, uint32_t rank, int timeout_ms);

#endif
