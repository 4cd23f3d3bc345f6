/* SPDX-License-Identifier: Apache-2.0 */
/* shutdown.c: implements the end of the process (bp_shutdown and exit), and resets the state of a
 * forked child. */
#include "../base/activity.h"
#include "../profile/profile.h"
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { EXIT_SECONDS = 5 };

/* The child has one thread, and none of the parent's work, locks and cores. */
static void shutdown_after_fork(void)
{
    bp_process_after_fork();
    bp_activity_after_fork();
    bp_profile_after_fork();
    bp_queue_after_fork();
    bp_library_after_fork();
    bp_manifest_after_fork();
}

/* A visit of open devices, until `at` returns true. Locks are held only during the visit. */
struct visit {
    bool (*at)(struct bp_device *device, void *ctx);
    void *ctx;
    bool wait; /* wait for locks; false: skip objects whose lock another thread holds */
};

static bool visit_in_core(struct bp_core *core, void *ctx)
{
    const struct visit *visit = ctx;
    bool found = false;

    if (visit->wait) pthread_mutex_lock(&core->lock);
    else if (pthread_mutex_trylock(&core->lock)) return false;
    for (struct bp_device *d = core->devices; d && !found; d = d->next)
        found = visit->at(d, visit->ctx);
    pthread_mutex_unlock(&core->lock);
    return found;
}

static bool visit_devices(struct visit visit)
{
    return bp_process_visit_cores(visit.wait, visit_in_core, &visit);
}

/* A buffer for a text about the activity of a device. */
struct text {
    char *text;
    size_t size;
};

static bool is_device_busy(struct bp_device *device, void *ctx)
{
    const struct text *what = ctx;

    return bp_device_is_busy(device, what->text, what->size);
}

/* Whether the host still runs work of the library; the text in `what` describes it. */
static bool shutdown_is_busy(char *what, size_t size)
{
    struct text text = {what, size};

    if (bp_process_is_busy()) {
        snprintf(what, size, "a plan is being built, or a plugin or device opened or closed");
        return true;
    }
    return visit_devices((struct visit){is_device_busy, &text, true});
}

static bool device_find_launch(struct bp_device *device, void *ctx)
{
    struct bp_activity *out = ctx;

    if (!bp_device_is_submitting(device, out->what, sizeof out->what)) return false;
    snprintf(out->plugin, sizeof out->plugin, "%s", device->entry->plugin.name);
    return true;
}

/* Skips objects whose lock is held: the holder may be the thread that a signal handler
 * interrupts. */
static bool find_launch(struct bp_activity *out)
{
    return visit_devices((struct visit){device_find_launch, out, false});
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

static bool shutdown_wait_host(const struct bp_deadline *until, char *what, size_t size)
{
    struct timespec pause = {0, 20000};

    while (shutdown_is_busy(what, size)) {
        if (!bp_deadline_remaining(until)) return false;
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 1000000) pause.tv_nsec *= 2;
    }
    return true;
}

/* A list of devices, with a reference to each. */
struct device_list {
    struct bp_device **at;
    size_t n, room;
};

/* Adds a device. Returns true if there is no memory for it. */
static bool device_list_add(struct bp_device *device, void *ctx)
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

/* Waits for work that devices run asynchronously. */
static enum bp_status shutdown_wait_devices(const struct bp_deadline *until)
{
    struct device_list list = {0};
    enum bp_status status = BP_OK;

    if (visit_devices((struct visit){device_list_add, &list, true}))
        status = bp_error(BP_ERR_MEMORY, "bp_shutdown: no memory to list the devices");
    for (size_t i = 0; i < list.n; i++) {
        if (status == BP_OK) status = bp_device_wait_submitted(list.at[i], until);
        bp_device_release(list.at[i]);
    }
    free(list.at);
    return status;
}

enum bp_status bp_shutdown(uint64_t timeout_ns)
{
    struct bp_deadline until = bp_deadline_after(timeout_ns);
    char what[512] = "";

    if (bp_queue_on_worker())
        return bp_error(BP_ERR_INVALID, "bp_shutdown: called by a function of bp_stream_callback, "
                                        "for whose end it would wait; call it elsewhere");
    bp_process_stop();
    if (!shutdown_wait_host(&until, what, sizeof what))
        return bp_error(BP_ERR_TIMEOUT, "bp_shutdown: not over after %llu ms: %s",
                        (unsigned long long)(timeout_ns / 1000000), what);
    return shutdown_wait_devices(&until);
}

static bool wake_device(struct bp_device *device, void *ctx)
{
    (void)ctx;
    bp_device_wake(device);
    return false;
}

/* The handler for exit(). It is registered several times, and only its first call has an effect. It
 * wakes the streams' queues, so that their threads start no further task. */
static void shutdown_at_exit(void)
{
    struct bp_deadline until;
    char what[512];

    if (bp_process_begin_exit()) return;
    bp_process_stop();
    visit_devices((struct visit){wake_device, NULL, true});
    until = bp_deadline_after(EXIT_SECONDS * UINT64_C(1000000000));
    shutdown_wait_host(&until, what, sizeof what);
    bp_profile_finish_at_exit();
}

static void shutdown_prepare(void)
{
    pthread_atfork(NULL, NULL, shutdown_after_fork);
    bp_exit_register(shutdown_at_exit);
}

void bp_runtime_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, shutdown_prepare);
}
