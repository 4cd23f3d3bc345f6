/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.h: declares how a rank waits for words that other ranks of its machine write in the shared
 * memory. */
#ifndef BP_WAITER_PRIVATE_H
#define BP_WAITER_PRIVATE_H

#include "shm_segment.h"

struct bp_shm_rank; /* shm_rank.h */

/* Callbacks of a waiting rank where the communicator spans several hosts. */
struct bp_progress {
    void *ctx;
    /* Moves messages to and from other hosts. Sets *out_moved if any message moved. */
    enum bp_status (*progress)(void *ctx, bool *out_moved);
    /* Called from time to time during a wait. Returns BP_OK or the failure of the communicator. */
    enum bp_status (*poll)(void *ctx);
    /* Called once the timeout has passed, late_ns ago, in a wait for a word of rank `of`. BP_OK:
     * keep waiting, so that other ranks have time to report the cause. */
    enum bp_status (*time_up)(void *ctx, uint32_t of, uint64_t late_ns);
};

struct bp_waiter {
    const struct bp_progress *progress; /* NULL: a single host */
    _Atomic uint32_t *sleepers;         /* in the segment: number of ranks that sleep */
    /* How long a rank spins before it sleeps. 0: ranks share processors, so a waiting rank yields
     * instead of spinning. */
    uint64_t spin_ns;
    /* A rank that goes to sleep makes the other ranks' stores visible to itself (waiter.c). */
    bool asymmetric_fence;
    uint64_t timeout_ns, deadline; /* of the current call; deadline 0: not yet computed */
    uint64_t checked_ns;           /* when dead ranks were last looked for */
};

/* Registers this process, so that a rank that goes to sleep can issue a memory barrier on its
 * processors. Returns whether the system supports that. */
bool bp_waiter_register_fence(void);

/* Fetches a cache line that this rank is about to write, so that other processors have released the
 * line by then. __builtin_prefetch for writing compiles to a prefetch for reading unless the
 * compiler targets a particular processor, hence the assembly. */
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

/* Waits until a word that rank `of` writes is at least value. */
enum bp_status bp_shm_word_wait_slow(struct bp_shm_rank *b, const _Atomic uint64_t *word,
                                     uint64_t value, uint32_t of);
static inline enum bp_status bp_shm_word_wait(struct bp_shm_rank *b, const _Atomic uint64_t *word,
                                              uint64_t value, uint32_t of)
{
    if (atomic_load_explicit(word, memory_order_acquire) >= value) return BP_OK;
    return bp_shm_word_wait_slow(b, word, value, of);
}

/* One round of a wait for several words, one of which rank `of` writes. *round counts the rounds
 * without progress; the caller resets it. Spins or yields at first, and later sleeps for a short
 * time only, because no rank wakes this one. */
enum bp_status bp_waiter_backoff(struct bp_shm_rank *b, uint32_t of, uint32_t *round);

/* Looks for dead ranks. Returns BP_OK or the failure of the communicator. */
enum bp_status bp_shm_rank_check(struct bp_shm_rank *b);
/* Whether a rank's process has died, or dies within timeout_ms. The wait matters because the kernel
 * closes the files and memory of a process that is being killed before the process is dead. */
bool bp_shm_rank_is_dead(const struct bp_shm_rank *b, uint32_t rank, int timeout_ms);

#endif
