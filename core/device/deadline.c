/* SPDX-License-Identifier: Apache-2.0 */
/* deadline.c: implements the deadlines of waits and their messages, and runs a call that has no
 * timeout on a separate thread. */
#include "deadline.h"

#include "../base/activity.h"
#include "../base/clock.h"
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

const struct bp_deadline bp_deadline_none = {UINT64_MAX, UINT64_MAX, NULL};

struct bp_deadline bp_deadline_after(uint64_t timeout_ns)
{
    uint64_t now;

    if (timeout_ns > (uint64_t)INT64_MAX / 2) return bp_deadline_none;
    now = bp_clock_ns();
    return (struct bp_deadline){now + timeout_ns, timeout_ns, NULL};
}

struct bp_deadline bp_deadline_of(const struct bp_device *device)
{
    struct bp_deadline until = bp_deadline_none;

    if (!device->core->wait_source) return until;
    until = bp_deadline_after(device->core->wait_ns);
    until.source = device->core->wait_source;
    return until;
}

uint64_t bp_deadline_remaining(const struct bp_deadline *until)
{
    uint64_t now;

    if (!bp_deadline_is_set(until)) return UINT64_MAX;
    now = bp_clock_ns();
    return until->end > now ? until->end - now : 0;
}

bool bp_deadline_wait(pthread_cond_t *cond, pthread_mutex_t *lock, const struct bp_deadline *until)
{
    struct timespec end = {(time_t)(until->end / 1000000000), (long)(until->end % 1000000000)};

    if (bp_deadline_is_set(until)) return pthread_cond_timedwait(cond, lock, &end) != ETIMEDOUT;
    pthread_cond_wait(cond, lock);
    return true;
}

/* Writes "stream 1, launches 3 to 4: add, softmax", for every stream that has unfinished launches;
 * "" if no launch is known. */
static void deadline_write_work(struct bp_device *device, const struct bp_timeline *only,
                                uint64_t number, char *text, size_t size)
{
    const struct bp_timeline *t = only ? only : atomic_load(&device->timelines);
    size_t used = 0;

    *text = 0;
    for (; t && used + 32 < size; t = only ? NULL : t->next) {
        char names[640];
        if (t->is_inline ||
            !bp_timeline_describe(t, only ? number : UINT64_MAX, names, sizeof names))
            continue;
        used += (size_t)snprintf(text + used, size - used, "%sstream %u, %s", used ? "; " : "",
                                 t->id, names);
    }
}

void bp_deadline_describe(struct bp_device *device, const struct bp_timeline *timeline,
                          uint64_t number, const struct bp_deadline *until, char *text, size_t size)
{
    char work[1024], source[64] = "";

    deadline_write_work(device, timeline, number, work, sizeof work);
    if (!*work)
        deadline_write_work(device, NULL, 0, work, sizeof work); /* other streams may delay it */
    if (until->source) snprintf(source, sizeof source, " (%s)", until->source);
    snprintf(text, size, "%s: not over after %.6g s%s: %s", device->name,
             (double)until->timeout_ns * 1e-9, source, *work ? work : "its work");
}

enum bp_status bp_deadline_error(struct bp_device *device, const struct bp_timeline *timeline,
                                 uint64_t number, const struct bp_deadline *until)
{
    char text[1280];

    bp_deadline_describe(device, timeline, number, until, text, sizeof text);
    return bp_error(BP_ERR_TIMEOUT,
                    "%s; nothing has failed: wait again, for longer if need be. If that never ends "
                    "the device or its plugin hangs: `bp doctor %s` tries it",
                    text, device->entry->plugin.kind);
}

uint32_t bp_wait_activity_begin(struct bp_device *device, const struct bp_timeline *timeline,
                                uint64_t number)
{
    char work[96], what[192];

    deadline_write_work(device, timeline, number, work, sizeof work);
    snprintf(what, sizeof what, "%s%s%s", device->name, *work ? ", " : "", work);
    return bp_activity_begin(BP_ACTIVITY_WAIT, device->entry->plugin.name, what);
}

enum { LOOK_NS = 10000000 }; /* between two questions whether to stop */

/* One run of a function on its own thread. The caller or the thread, the second one to finish,
 * frees it. */
struct thread_run {
    pthread_mutex_t lock;
    pthread_cond_t over;
    enum bp_status (*fn)(void *ctx);
    void *ctx;
    bool ended, detached;
    enum bp_status status;
    char *why;
};

static void thread_run_free(struct thread_run *a)
{
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->over);
    free(a->why);
    free(a);
}

static void *thread_run_main(void *arg)
{
    struct thread_run *a = arg;
    enum bp_status status = a->fn(a->ctx);
    bool detached;

    pthread_mutex_lock(&a->lock);
    a->status = status;
    a->why = status ? strdup(bp_error_message()) : NULL;
    a->ended = true;
    detached = a->detached;
    pthread_cond_signal(&a->over);
    pthread_mutex_unlock(&a->lock);
    if (detached) thread_run_free(a);
    return NULL;
}

/* Waits for the end until the deadline, or until stop returns true. */
static void thread_run_wait(struct thread_run *a, const struct bp_deadline *until,
                            bool (*stop)(void *ctx))
{
    struct bp_deadline look = *until;
    bool in_time = true;

    while (!a->ended && in_time && !(stop && stop(a->ctx))) {
        if (stop) look = bp_deadline_after(LOOK_NS);
        if (look.end > until->end) look.end = until->end;
        in_time = bp_deadline_wait(&a->over, &a->lock, &look) || look.end < until->end;
    }
}

enum bp_status bp_thread_run_until(enum bp_status (*fn)(void *ctx), void *ctx,
                                   const struct bp_deadline *until, bool *out_begun, bool *out_late)
{
    return bp_thread_run_unless(fn, ctx, until, NULL, out_begun, out_late);
}

enum bp_status bp_thread_run_unless(enum bp_status (*fn)(void *ctx), void *ctx,
                                    const struct bp_deadline *until, bool (*stop)(void *ctx),
                                    bool *out_begun, bool *out_late)
{
    struct thread_run *a = calloc(1, sizeof *a);
    enum bp_status status;

    *out_begun = false;
    if (!a) return bp_error(BP_ERR_MEMORY, "no memory for a wait with a deadline");
    a->fn = fn;
    a->ctx = ctx;
    pthread_mutex_init(&a->lock, NULL);
    bp_cond_init(&a->over);
    if (!bp_thread_create_detached(thread_run_main, a)) {
        thread_run_free(a);
        return bp_error(BP_ERR_MEMORY, "no thread for a wait with a deadline");
    }
    *out_begun = true;
    pthread_mutex_lock(&a->lock);
    thread_run_wait(a, until, stop);
    a->detached = true;
    *out_late = !a->ended;
    status = a->ended ? a->status : BP_ERR_TIMEOUT;
    if (a->ended && a->why) bp_error_write("%s", a->why);
    pthread_mutex_unlock(&a->lock);
    if (!*out_late) thread_run_free(a);
    return status;
}
