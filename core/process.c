/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: forks, bp_shutdown, exit. */
#include "activity.h"
#include "device/device.h"

#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_SECONDS = 5, ROWS = 1024 };

_Atomic uint32_t bp_generation;

struct abandoned {
    struct abandoned *next;
    const void *object;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* cores, and the last reference of each */
static struct bp_core *cores;                            /* linked by next */
static struct abandoned *abandoned;                      /* under the lock */
static _Atomic uint32_t preparing;                       /* on all threads */
static _Thread_local uint32_t own;                       /* on this one */
static _Thread_local bool stale, last_stale;
static _Atomic bool leaving;

bool bp_is_not(uint32_t magic, uint32_t kind)
{
    uint32_t apart = magic - kind;

    stale = !(apart & 0xff) && apart < 1 << 24;
    if (magic) last_stale = stale;
    return false;
}

bool bp_was_stale(void)
{
    return stale;
}

bool bp_was_last_stale(void)
{
    return last_stale;
}

enum bp_status bp_stopped(void)
{
    return bp_error(BP_ERR_SHUTDOWN, "the library has been shut down (bp_shutdown, or exit)");
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

bool bp_leaving(void)
{
    return atomic_load(&leaving);
}

enum bp_status bp_prepare_enter(void)
{
    atomic_fetch_add(&preparing, 1);
    own++;
    if (!(atomic_load(&bp_generation) & BP_STOPPED)) return BP_OK;
    bp_prepare_leave();
    return bp_stopped();
}

void bp_prepare_leave(void)
{
    own--;
    atomic_fetch_sub(&preparing, 1);
}

/* The child has one thread, and none of the work, locks and cores of its parent. */
static void in_child(void)
{
    uint32_t generation = atomic_load(&bp_generation) & ~(uint32_t)BP_STOPPED;

    atomic_store(&bp_generation, generation + BP_FORKED);
    atomic_store(&leaving, false);
    atomic_store(&preparing, own);
    pthread_mutex_init(&lock, NULL);
    cores = NULL;
    bp_activity_forked();
    bp_queue_forked();
    bp_library_forked();
    bp_manifest_forked();
}

/* Threads launch and copy without a fence: here is one for all of them. Where the kernel has none,
 * a store has long left a processor after a millisecond. */
static void stop(void)
{
    atomic_fetch_or(&bp_generation, BP_STOPPED);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
        usleep(1000);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Whether the host still runs something; what says what. Locks are held for the look only. */
static bool is_busy(char *what, size_t size)
{
    bool busy = atomic_load(&preparing) != own;

    if (busy) snprintf(what, size, "a plan is being built, or a plugin or device opened or closed");
    pthread_mutex_lock(&lock);
    for (struct bp_core *core = cores; core && !busy; core = core->next) {
        pthread_mutex_lock(&core->lock);
        for (struct bp_device *d = core->devices; d && !busy; d = d->next)
            busy = bp_device_busy(d, what, size);
        pthread_mutex_unlock(&core->lock);
    }
    pthread_mutex_unlock(&lock);
    return busy;
}

/* Locks that somebody has are passed by: it may be the thread that a signal handler interrupts. */
static bool find_launch(struct bp_activity *out)
{
    bool found = false;

    if (pthread_mutex_trylock(&lock)) return false;
    for (struct bp_core *core = cores; core && !found; core = core->next) {
        if (pthread_mutex_trylock(&core->lock)) continue;
        for (struct bp_device *d = core->devices; d && !found; d = d->next) {
            found = bp_device_gives(d, out->what, sizeof out->what);
            if (found) snprintf(out->plugin, sizeof out->plugin, "%s", d->entry->plugin.name);
        }
        pthread_mutex_unlock(&core->lock);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

bool bp_activity_launch(struct bp_activity *out)
{
    struct bp_activity full = {.step = BP_ACTIVITY_LAUNCH, .word = "launch",
                               .text = "it has been given a launch or a copy, and has not come "
                                       "back"};

    if (!out || out->size < sizeof out->size || !find_launch(&full)) return false;
    full.size = out->size < sizeof full ? out->size : sizeof full;
    memcpy(out, &full, full.size);
    return true;
}

static bool wait_for_host(uint64_t end, char *what, size_t size)
{
    struct timespec pause = {0, 20000};

    while (is_busy(what, size)) {
        if (now_ns() >= end) return false;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
    }
    return true;
}

/* All open devices, each with a reference. */
static enum bp_status list_devices(struct bp_device ***out_list, size_t *out_n)
{
    struct bp_device **list = NULL;
    size_t n = 0, room = 0;
    bool full = false;

    pthread_mutex_lock(&lock);
    for (struct bp_core *core = cores; core && !full; core = core->next) {
        pthread_mutex_lock(&core->lock);
        for (struct bp_device *d = core->devices; d && !full; d = d->next) {
            if (n == room) {
                struct bp_device **more = realloc(list, (room += 16) * sizeof *more);
                full = !more;
                if (more) list = more;
            }
            if (full) break;
            bp_device_retain(d);
            list[n++] = d;
        }
        pthread_mutex_unlock(&core->lock);
    }
    pthread_mutex_unlock(&lock);
    *out_list = list;
    *out_n = n;
    return full ? bp_error(BP_ERR_MEMORY, "bp_shutdown: no memory to list the devices") : BP_OK;
}

/* What devices do behind the host's back. */
static enum bp_status wait_for_devices(const struct bp_deadline *until)
{
    struct bp_device **list;
    size_t n;
    enum bp_status status = list_devices(&list, &n);

    for (size_t i = 0; i < n; i++) {
        if (status == BP_OK) status = bp_device_settle(list[i], until);
        bp_device_release(list[i]);
    }
    free(list);
    return status;
}

enum bp_status bp_shutdown(uint64_t timeout_ns)
{
    struct bp_deadline until = bp_deadline_in(timeout_ns);
    char what[512] = "";

    if (bp_on_worker())
        return bp_error(BP_ERR_INVALID, "bp_shutdown: called by a function of bp_stream_callback, "
                                        "for whose end it would wait; call it elsewhere");
    stop();
    if (!wait_for_host(until.end, what, sizeof what))
        return bp_error(BP_ERR_TIMEOUT, "bp_shutdown: not over after %llu ms: %s",
                        (unsigned long long)(timeout_ns / 1000000), what);
    return wait_for_devices(&until);
}

/* Registered several times, of which the first call counts. Streams are told, so that their threads
 * begin nothing more. */
static void at_exit(void)
{
    char what[512];

    if (atomic_exchange(&leaving, true)) return;
    stop();
    pthread_mutex_lock(&lock);
    for (struct bp_core *core = cores; core; core = core->next) {
        pthread_mutex_lock(&core->lock);
        for (struct bp_device *d = core->devices; d; d = d->next) bp_device_wake(d);
        pthread_mutex_unlock(&core->lock);
    }
    pthread_mutex_unlock(&lock);
    wait_for_host(now_ns() + EXIT_SECONDS * UINT64_C(1000000000), what, sizeof what);
}

/* The first uses of a row, and then ever fewer: libraries make more of their statics as they meet
 * more cases, and the list of handlers is not to grow without end. */
static bool is_news(uint32_t use)
{
    return use <= 64 || !(use & (use - 1));
}

void bp_exit_rearm(const void *row)
{
    static _Atomic(const void *) rows[ROWS];
    static _Atomic uint32_t uses[ROWS];
    size_t at = (size_t)((uintptr_t)row / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 54);

    for (size_t i = 0; i < ROWS; i++, at = (at + 1) % ROWS) {
        const void *there = atomic_load_explicit(&rows[at], memory_order_relaxed);
        if (!there && atomic_compare_exchange_strong(&rows[at], &there, row)) there = row;
        if (there != row) continue;
        if (is_news(atomic_fetch_add_explicit(&uses[at], 1, memory_order_relaxed) + 1))
            atexit(at_exit);
        return;
    }
}

static void prepare_process(void)
{
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
}

enum bp_status bp_process_enter(struct bp_core *core)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    bool stopped;

    pthread_once(&once, prepare_process);
    pthread_mutex_lock(&lock);
    stopped = bp_stopping();
    if (!stopped) {
        core->next = cores;
        cores = core;
    }
    pthread_mutex_unlock(&lock);
    return stopped ? bp_stopped() : BP_OK;
}

bool bp_process_leave(struct bp_core *core)
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

bool bp_process_detach(void *(*fn)(void *), void *arg)
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

void bp_core_drop(struct bp_core *core)
{
    bool stopped = bp_prepare_enter() != BP_OK;

    if (stopped) atomic_fetch_sub(&core->refs, 1);
    else if (bp_process_leave(core)) core->end(core);
    if (!stopped) bp_prepare_leave();
}
