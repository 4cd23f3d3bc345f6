/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: implements generations of handles, the list of the process's cores, and the stop of
 * the intake. */
#include "base.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ROWS = 1024 };

_Atomic uint32_t bp_generation;

struct abandoned {
    struct abandoned *next;
    const void *object;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards cores, and dropping their last
                                                            references */
static struct bp_core *cores;                            /* linked by next */
static struct abandoned *abandoned;                      /* guarded by the lock */
static _Atomic uint32_t busy_calls;                      /* on all threads */
static _Thread_local uint32_t own_busy_calls;            /* on this one */
static _Thread_local bool stale, last_stale;
static _Atomic bool exiting;
static void (*exit_handler)(void); /* constant once a core exists */

bool bp_magic_is_not(uint32_t magic, uint32_t kind)
{
    uint32_t difference = magic - kind;

    stale = !(difference & 0xff) && difference < 1 << 24;
    if (magic) last_stale = stale;
    return false;
}

bool bp_handle_was_stale(void)
{
    return stale;
}

bool bp_handle_was_last_stale(void)
{
    return last_stale;
}

enum bp_status bp_error_stopped(void)
{
    return bp_error(BP_ERR_SHUTDOWN, "the library has been shut down (bp_shutdown, or exit)");
}

enum bp_status bp_error_stale(const char *call, const char *what)
{
    if (bp_process_is_stopping())
        return bp_error(BP_ERR_SHUTDOWN,
                        "%s: the library has been shut down (bp_shutdown, or exit)", call);
    return bp_error(BP_ERR_SHUTDOWN,
                    "%s: the %s was made before a fork: make a new core in the child, and all "
                    "else from that",
                    call, what);
}

enum bp_status bp_not_a_for(const char *call, const char *what)
{
    if (bp_handle_was_stale()) return bp_error_stale(call, what);
    return bp_error(BP_ERR_INVALID, "%s: expected %s %s, got NULL or something else", call,
                    *what == 'e' ? "an" : "a", what);
}

void bp_process_abandon(const void *object)
{
    struct abandoned *a = malloc(sizeof *a);

    if (!a) return;
    a->object = object;
    pthread_mutex_lock(&lock);
    a->next = abandoned;
    abandoned = a;
    pthread_mutex_unlock(&lock);
}

bool bp_process_is_exiting(void)
{
    return atomic_load(&exiting);
}

bool bp_process_begin_exit(void)
{
    return atomic_exchange(&exiting, true);
}

enum bp_status bp_process_busy_begin(void)
{
    atomic_fetch_add(&busy_calls, 1);
    own_busy_calls++;
    if (!(atomic_load(&bp_generation) & BP_STOPPED)) return BP_OK;
    bp_process_busy_end();
    return bp_error_stopped();
}

void bp_process_busy_end(void)
{
    own_busy_calls--;
    atomic_fetch_sub(&busy_calls, 1);
}

bool bp_process_is_busy(void)
{
    return atomic_load(&busy_calls) != own_busy_calls;
}

void bp_process_after_fork(void)
{
    uint32_t generation = atomic_load(&bp_generation) & ~(uint32_t)BP_STOPPED;

    atomic_store(&bp_generation, generation + BP_FORKED);
    atomic_store(&exiting, false);
    atomic_store(&busy_calls, own_busy_calls);
    pthread_mutex_init(&lock, NULL);
    cores = NULL;
}

/* Launches and copies read the generation without a fence, so the process-wide barrier of the
 * kernel runs here once for all threads. If the kernel has none, a pause of one millisecond is long
 * enough for every store to become visible. */
void bp_process_barrier(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
        usleep(1000);
}

void bp_process_stop(void)
{
    atomic_fetch_or(&bp_generation, BP_STOPPED);
    bp_process_barrier();
}

bool bp_process_visit_cores(bool wait, bool (*visit)(struct bp_core *core, void *ctx), void *ctx)
{
    bool found = false;

    if (wait) pthread_mutex_lock(&lock);
    else if (pthread_mutex_trylock(&lock)) return false;
    for (struct bp_core *core = cores; core && !found; core = core->next) found = visit(core, ctx);
    pthread_mutex_unlock(&lock);
    return found;
}

/* True for the first uses of a row, then ever more rarely. Libraries register handlers for more of
 * their static objects as they meet more cases, but the list of handlers must not grow without
 * limit. */
static bool process_is_due(uint32_t use)
{
    return use <= 64 || !(use & (use - 1));
}

void bp_exit_register(void (*handler)(void))
{
    exit_handler = handler;
    atexit(handler);
}

void bp_exit_reregister(const void *row)
{
    static _Atomic(const void *) rows[ROWS];
    static _Atomic uint32_t uses[ROWS];
    size_t at = (size_t)((uintptr_t)row / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 54);

    for (size_t i = 0; i < ROWS; i++, at = (at + 1) % ROWS) {
        const void *present = atomic_load_explicit(&rows[at], memory_order_relaxed);
        if (!present && atomic_compare_exchange_strong(&rows[at], &present, row)) present = row;
        if (present != row) continue;
        if (process_is_due(atomic_fetch_add_explicit(&uses[at], 1, memory_order_relaxed) + 1))
            atexit(exit_handler);
        return;
    }
}

enum bp_status bp_process_add_core(struct bp_core *core)
{
    bool stopped;

    pthread_mutex_lock(&lock);
    stopped = bp_process_is_stopping();
    if (!stopped) {
        core->next = cores;
        cores = core;
    }
    pthread_mutex_unlock(&lock);
    return stopped ? bp_error_stopped() : BP_OK;
}

bool bp_process_release_core(struct bp_core *core)
{
    struct bp_core **at = &cores;
    uint32_t refs = atomic_load_explicit(&core->refs, memory_order_relaxed);
    bool last;

    while (refs > 1)
        if (atomic_compare_exchange_weak_explicit(&core->refs, &refs, refs - 1,
                                                  memory_order_release, memory_order_relaxed))
            return false;
    pthread_mutex_lock(&lock);
    last = atomic_fetch_sub_explicit(&core->refs, 1, memory_order_acq_rel) == 1;
    if (last) {
        while (*at && *at != core) at = &(*at)->next;
        if (*at) *at = core->next;
    }
    pthread_mutex_unlock(&lock);
    return last;
}

bool bp_thread_create_detached(void *(*fn)(void *), void *arg)
{
    pthread_attr_t detached;
    pthread_t thread;
    bool good;

    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    good = !pthread_create(&thread, &detached, fn, arg);
    pthread_attr_destroy(&detached);
    return good;
}

void bp_core_retain(struct bp_core *core)
{
    atomic_fetch_add_explicit(&core->refs, 1, memory_order_relaxed);
}

void bp_core_release(struct bp_core *core)
{
    bool stopped = bp_process_busy_begin() != BP_OK;

    if (stopped) atomic_fetch_sub(&core->refs, 1);
    else if (bp_process_release_core(core)) core->end(core);
    if (!stopped) bp_process_busy_end();
}
