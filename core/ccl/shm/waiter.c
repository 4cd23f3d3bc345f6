/* SPDX-License-Identifier: Apache-2.0 */
/* waiter.c: waits for words that other ranks write. A waiting rank spins, then yields the
 * processor, then sleeps. The rank that it waits for wakes it; from time to time it also wakes by
 * itself and looks for dead ranks and the timeout. */
#include "shm_rank.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { YIELDS = 300, SPINS = 64, ROUNDS = 10000, NAPS = 100 };
static const uint64_t nap_ns = 50000000;    /* longest sleep between two checks */
static const uint64_t idle_nap_ns = 200000; /* if no rank wakes this one */
static const uint64_t late_nap_ns = 1000000;

static bool is_reached(const _Atomic uint64_t *word, uint64_t value)
{
    return atomic_load_explicit(word, memory_order_acquire) >= value;
}

/* With this fence, a rank that sets a word can look for sleepers before its store is visible to
 * all. The rank that goes to sleep instead makes the system issue a memory barrier on all
 * processors that run registered processes. */
bool bp_waiter_register_fence(void)
{
    return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
}

static void futex_sleep_until(struct bp_shm_rank *b, const _Atomic uint64_t *word, uint64_t value,
                              uint64_t ns)
{
    struct bp_shm_rank_state *me = b->me;
    struct timespec t = bp_timespec(ns);
    uint32_t value_before = atomic_load(&me->futex);

    atomic_store(&me->asleep, 1);
    atomic_fetch_add(&b->failure.header->sleepers, 1);
    if (b->waiter.asymmetric_fence && word)
        syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
    if ((!word || !is_reached(word, value)) && !bp_comm_has_failed(&b->failure))
        syscall(SYS_futex, &me->futex, FUTEX_WAIT, value_before, &t, NULL, 0);
    atomic_fetch_sub(&b->failure.header->sleepers, 1);
    atomic_store(&me->asleep, 0);
}

bool bp_shm_rank_is_dead(const struct bp_shm_rank *b, uint32_t rank, int timeout_ms)
{
    struct pollfd p = {b->peers.pidfd[rank], POLLIN, 0};

    if (atomic_load(&b->ranks[rank].left)) return false;
    return p.fd == BP_PROCESS_GONE || (p.fd >= 0 && poll(&p, 1, timeout_ms) == 1);
}

/* The word of rank `of` that is waited for; NULL: one of several. */
struct wait {
    const _Atomic uint64_t *word;
    uint64_t value;
    uint32_t of;
};

/* Whether this rank still needs another rank. A rank that has ended all calls that others are in
 * may exit. The rank whose word is waited for is needed whatever it has ended. */
static bool is_needed(const struct bp_shm_rank *b, uint32_t rank, const struct wait *w)
{
    if (rank == w->of) return !w->word || !is_reached(w->word, w->value);
    return !b->calls.sequence || atomic_load(&b->ranks[rank].done) < b->calls.sequence;
}

/* A rank may complete its last call just before it exits. Whether it is needed is therefore checked
 * again after it was found dead. */
static enum bp_status check_dead(struct bp_shm_rank *b, const struct wait *w)
{
    for (uint32_t i = 0; i < b->n; i++)
        if (is_needed(b, i, w) && bp_shm_rank_is_dead(b, i, 0) && is_needed(b, i, w))
            return bp_shm_report_death(b, i);
    return BP_OK;
}

/* Looks for a failure, dead ranks and the timeout. Called from time to time during a wait. */
static enum bp_status waiter_poll(struct bp_shm_rank *b, const struct wait *w)
{
    uint64_t now;

    if (bp_comm_has_failed(&b->failure)) return bp_comm_failure_report(&b->failure);
    now = bp_clock_ns();
    if (!b->waiter.deadline) {
        b->waiter.deadline = b->waiter.timeout_ns > UINT64_MAX - now ? UINT64_MAX
                                                                     : now + b->waiter.timeout_ns;
        b->waiter.checked_ns = now;
    }
    if (now - b->waiter.checked_ns > nap_ns / 2) {
        b->waiter.checked_ns = now;
        TRY(check_dead(b, w));
        if (b->waiter.progress) TRY(b->waiter.progress->poll(b->waiter.progress->ctx));
    }
    if (now < b->waiter.deadline) return BP_OK;
    if (!b->waiter.progress) return bp_shm_report_timeout(b, w->of);
    return b->waiter.progress->time_up(b->waiter.progress->ctx, w->of, now - b->waiter.deadline);
}

static uint64_t limit_nap(const struct bp_shm_rank *b, uint64_t ns)
{
    uint64_t left = bp_time_left(b->waiter.deadline);

    if (!left && b->waiter.progress) left = late_nap_ns;
    return left < ns ? left : ns;
}

/* Sleeps until the word has the value. Publishes in `waits_for` which rank this one waits for. */
static enum bp_status waiter_sleep(struct bp_shm_rank *b, const _Atomic uint64_t *word,
                                   uint64_t value, uint32_t of)
{
    const struct wait w = {word, value, of};
    enum bp_status status = BP_OK;

    atomic_store(&b->me->waits_for, of + 1);
    while (!is_reached(word, value)) {
        status = waiter_poll(b, &w);
        if (status) break;
        futex_sleep_until(b, word, value, limit_nap(b, nap_ns));
    }
    atomic_store(&b->me->waits_for, 0);
    return is_reached(word, value) ? BP_OK : status;
}

/* Spins or yields; returns whether the word has the value. Where ranks share processors, the
 * waiting rank yields to let the others run. */
static bool waiter_spin(struct bp_shm_rank *b, const _Atomic uint64_t *word, uint64_t value)
{
    uint64_t begin = 0;

    for (uint32_t i = 0;
         i < (b->waiter.spin_ns ? UINT32_MAX : YIELDS) && !bp_comm_has_failed(&b->failure); i++) {
        if (!b->waiter.spin_ns) sched_yield();
        for (uint32_t j = 0; j < (b->waiter.spin_ns ? SPINS : 1); j++) {
            if (is_reached(word, value)) return true;
            bp_cpu_relax();
        }
        if (!b->waiter.spin_ns) continue;
        if (!begin) begin = bp_clock_ns();
        else if (bp_clock_ns() - begin > b->waiter.spin_ns) break;
    }
    return is_reached(word, value);
}

/* Waits while messages to and from other hosts make progress, because a rank there may wait for
 * them. */
static enum bp_status waiter_progress(struct bp_shm_rank *b, const _Atomic uint64_t *word,
                                      uint64_t value, uint32_t of)
{
    enum bp_status status = BP_OK;
    uint32_t round = 0;

    atomic_store(&b->me->waits_for, of + 1);
    while (!is_reached(word, value) && status == BP_OK) {
        bool moved = false;
        status = b->waiter.progress->progress(b->waiter.progress->ctx, &moved);
        if (moved) round = 0;
        if (status == BP_OK) status = bp_waiter_backoff(b, of, &round);
    }
    atomic_store(&b->me->waits_for, 0);
    return is_reached(word, value) ? BP_OK : status;
}

enum bp_status bp_shm_word_wait_slow(struct bp_shm_rank *b, const _Atomic uint64_t *word,
                                     uint64_t value, uint32_t of)
{
    if (b->waiter.progress) return waiter_progress(b, word, value, of);
    return waiter_spin(b, word, value) ? BP_OK : waiter_sleep(b, word, value, of);
}

enum bp_status bp_waiter_backoff(struct bp_shm_rank *b, uint32_t of, uint32_t *round)
{
    uint32_t n = (*round)++, awake = b->waiter.spin_ns ? ROUNDS : YIELDS;

    if (n < awake) {
        if (b->waiter.spin_ns) bp_cpu_relax();
        else sched_yield();
        return bp_comm_has_failed(&b->failure) ? bp_comm_failure_report(&b->failure) : BP_OK;
    }
    TRY(waiter_poll(b, &(const struct wait){NULL, 0, of}));
    futex_sleep_until(b, NULL, 0, limit_nap(b, n < awake + NAPS ? idle_nap_ns : 25 * idle_nap_ns));
    return BP_OK;
}

/* A rank that has died without leaving will be missing in later calls, so it is a failure even if
 * no call is in progress. */
enum bp_status bp_shm_rank_check(struct bp_shm_rank *b)
{
    if (bp_comm_has_failed(&b->failure)) return bp_comm_failure_report(&b->failure);
    for (uint32_t i = 0; i < b->n; i++)
        if (bp_shm_rank_is_dead(b, i, 0)) return bp_shm_report_death(b, i);
    return BP_OK;
}
