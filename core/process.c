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

bool bp_process_begin_leaving(void)
{
    return atomic_exchange(&leaving, true);
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

bool bp_preparing_elsewhere(void)
{
    return atomic_load(&preparing) != own;
}

void bp_process_forked(void)
{
    uint32_t generation = atomic_load(&bp_generation) & ~(uint32_t)BP_STOPPED;

    atomic_store(&bp_generation, generation + BP_FORKED);
    atomic_store(&leaving, false);
    atomic_store(&preparing, own);
    pthread_mutex_init(&lock, NULL);
    cores = NULL;
}

/* The child has one thread, and none of the work, locks and cores of its parent. */
static void in_child(void)
{
    bp_process_forked();
    bp_activity_forked();
    bp_queue_forked();
    bp_library_forked();
    bp_manifest_forked();
}

/* Threads launch and copy without a fence: here is one for all of them. Where the kernel has none,
 * a store has long left a processor after a millisecond. */
void bp_process_stop(void)
{
    atomic_fetch_or(&bp_generation, BP_STOPPED);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) ||
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
        usleep(1000);
}

bool bp_process_visit(bool wait, bool (*visit)(struct bp_core *core, void *ctx), void *ctx)
{
    bool found = false;

    if (wait) pthread_mutex_lock(&lock);
    else if (pthread_mutex_trylock(&lock)) return false;
    for (struct bp_core *core = cores; core && !found; core = core->next) found = visit(core, ctx);
    pthread_mutex_unlock(&lock);
    return found;
}

/* A look at open devices, until it answers true. Locks are held for that only. */
struct look {
    bool (*at)(struct bp_device *device, void *ctx);
    void *ctx;
    bool wait; /* for locks that somebody has; else what they protect is passed by */
};

static bool look_in_core(struct bp_core *core, void *ctx)
{
    const struct look *look = ctx;
    bool found = false;

    if (look->wait) pthread_mutex_lock(&core->lock);
    else if (pthread_mutex_trylock(&core->lock)) return false;
    for (struct bp_device *d = core->devices; d && !found; d = d->next)
        found = look->at(d, look->ctx);
    pthread_mutex_unlock(&core->lock);
    return found;
}

static bool look_at_devices(struct look look)
{
    return bp_process_visit(look.wait, look_in_core, &look);
}

/* Text on what a device does. */
struct text {
    char *text;
    size_t size;
};

static bool is_device_busy(struct bp_device *device, void *ctx)
{
    const struct text *what = ctx;

    return bp_device_busy(device, what->text, what->size);
}

/* Whether the host still runs something; what says what. */
static bool is_busy(char *what, size_t size)
{
    struct text text = {what, size};

    if (bp_preparing_elsewhere()) {
        snprintf(what, size, "a plan is being built, or a plugin or device opened or closed");
        return true;
    }
    return look_at_devices((struct look){is_device_busy, &text, true});
}

static bool is_given_work(struct bp_device *device, void *ctx)
{
    struct bp_activity *out = ctx;

    if (!bp_device_gives(device, out->what, sizeof out->what)) return false;
    snprintf(out->plugin, sizeof out->plugin, "%s", device->entry->plugin.name);
    return true;
}

/* Locks that somebody has are passed by: it may be the thread that a signal handler interrupts. */
static bool find_launch(struct bp_activity *out)
{
    return look_at_devices((struct look){is_given_work, out, false});
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

static bool wait_for_host(const struct bp_deadline *until, char *what, size_t size)
{
    struct timespec pause = {0, 20000};

    while (is_busy(what, size)) {
        if (!bp_deadline_left(until)) return false;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
    }
    return true;
}

/* Devices, each with a reference. */
struct device_list {
    struct bp_device **at;
    size_t n, room;
};

/* Whether there is no memory for one more. */
static bool is_list_full(struct bp_device *device, void *ctx)
{
    struct device_list *list = ctx;

    if (list->n == list->room) {
        struct bp_device **more = realloc(list->at, (list->room + 16) * sizeof *more);
        if (!more) return true;
        list->at = more;
        list->room += 16;
    }
    bp_device_retain(device);
    list->at[list->n++] = device;
    return false;
}

/* What devices do behind the host's back. */
static enum bp_status wait_for_devices(const struct bp_deadline *until)
{
    struct device_list list = {0};
    enum bp_status status = BP_OK;

    if (look_at_devices((struct look){is_list_full, &list, true}))
        status = bp_error(BP_ERR_MEMORY, "bp_shutdown: no memory to list the devices");
    for (size_t i = 0; i < list.n; i++) {
        if (status == BP_OK) status = bp_device_settle(list.at[i], until);
        bp_device_release(list.at[i]);
    }
    free(list.at);
    return status;
}

enum bp_status bp_shutdown(uint64_t timeout_ns)
{
    struct bp_deadline until = bp_deadline_in(timeout_ns);
    char what[512] = "";

    if (bp_on_worker())
        return bp_error(BP_ERR_INVALID, "bp_shutdown: called by a function of bp_stream_callback, "
                                        "for whose end it would wait; call it elsewhere");
    bp_process_stop();
    if (!wait_for_host(&until, what, sizeof what))
        return bp_error(BP_ERR_TIMEOUT, "bp_shutdown: not over after %llu ms: %s",
                        (unsigned long long)(timeout_ns / 1000000), what);
    return wait_for_devices(&until);
}

static bool wake_device(struct bp_device *device, void *ctx)
{
    (void)ctx;
    bp_device_wake(device);
    return false;
}

/* Registered several times, of which the first call counts. Streams are told, so that their threads
 * begin nothing more. */
static void at_exit(void)
{
    struct bp_deadline until;
    char what[512];

    if (bp_process_begin_leaving()) return;
    bp_process_stop();
    look_at_devices((struct look){wake_device, NULL, true});
    until = bp_deadline_in(EXIT_SECONDS * UINT64_C(1000000000));
    wait_for_host(&until, what, sizeof what);
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
