/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c: implements queues, notifiers and captures (task topologies) of CNRT. */
#include "cnrt.h"

struct base_stream *cnrt_queue(void *queue, const struct base_device *device, int *code)
{
    if (!base_stream_is(queue)) {
        *code = base_misuse(CNRT_HANDLE, "%p is not a queue", queue);
        return NULL;
    }
    if (base_stream_device(queue) == device) return queue;
    *code = base_misuse(CNRT_OTHER_DEVICE, "the queue is of device %d, the thread's is %d",
                        base_stream_device(queue)->number, device->number);
    return NULL;
}

static struct base_event *notifier_of(void *notifier, const struct base_device *device, int *code)
{
    if (*code) return NULL;
    if (!base_event_is(notifier)) {
        *code = base_misuse(CNRT_HANDLE, "%p is not a notifier", notifier);
        return NULL;
    }
    if (base_event_device(notifier) == device) return notifier;
    *code = base_misuse(CNRT_OTHER_DEVICE, "the notifier is of device %d, the thread's is %d",
                        base_event_device(notifier)->number, device->number);
    return NULL;
}

static int queue_create(const char *name, void **out)
{
    struct base_device *device;
    int code = cnrt_enter_device(name, &device);

    if (!code && !out) code = base_refuse(CNRT_ARGS, "NULL");
    if (code) return cnrt_leave(code);
    *out = base_stream_create(device, device);
    return cnrt_leave(*out ? 0 : CNRT_SYS_NO_MEMORY);
}

int cnrtQueueCreate(void **out)
{
    return queue_create("cnrtQueueCreate", out);
}

int cnrtQueueCreateWithPriority(void **out, int flags, int priority)
{
    (void)flags;
    (void)priority;
    return queue_create("cnrtQueueCreateWithPriority", out);
}

int cnrtQueueDestroy(void *queue)
{
    struct base_device *device;
    int code = cnrt_enter_release("cnrtQueueDestroy", &device);

    if (!code) cnrt_queue(queue, device, &code);
    if (!code) base_stream_destroy(queue);
    return cnrt_leave(code);
}

int cnrtQueueSync(void *queue)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtQueueSync", &device);

    if (!code) cnrt_queue(queue, device, &code);
    if (!code) code = base_stream_wait(queue, -1);
    return cnrt_leave(code);
}

int cnrtQueueQuery(void *queue)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtQueueQuery", &device);

    if (!code) cnrt_queue(queue, device, &code);
    if (!code) code = base_stream_query(queue);
    return cnrt_leave(code);
}

/* Refuses a notifier that was never placed: the real library's result is not known. */
static int notifier_is_placed(struct base_event *notifier)
{
    return base_event_was_recorded(notifier)
               ? 0
               : base_refuse(CNRT_ARGS, "the notifier was never placed in a queue");
}

int cnrtQueueWaitNotifier(void *notifier, void *queue, unsigned flag)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtQueueWaitNotifier", &device);

    if (!code && base_stream_is(notifier))
        code = base_misuse(CNRT_HANDLE, "cnrtQueueWaitNotifier takes the notifier first");
    if (!code && flag) code = base_refuse(CNRT_ARGS, "flag %u is not known", flag);
    notifier_of(notifier, device, &code);
    if (!code) cnrt_queue(queue, device, &code);
    if (!code) code = notifier_is_placed(notifier);
    if (!code) code = base_stream_wait_event(queue, notifier);
    return cnrt_leave(code);
}

struct host_call {
    void (*function)(void *);
    void *arg;
};

static int host_call_run(void *data, int code)
{
    const struct host_call *call = data;

    if (!code) call->function(call->arg);
    return code;
}

int cnrtInvokeHostFunc(void *queue, void (*function)(void *), void *arg)
{
    static const struct base_work work = {.run = host_call_run};
    struct host_call call = {function, arg};
    struct base_device *device;
    int code = cnrt_enter_device("cnrtInvokeHostFunc", &device);

    if (!code && !function) code = base_refuse(CNRT_ARGS, "NULL");
    if (!code) cnrt_queue(queue, device, &code);
    if (!code) code = base_submit(queue, &work, &call, sizeof call);
    return cnrt_leave(code);
}

static int notifier_create(const char *name, void **out, unsigned flags)
{
    struct base_device *device;
    int code = cnrt_enter_device(name, &device);
    unsigned known = CNRT_NOTIFIER_NO_SOFTWARE_TIME | CNRT_NOTIFIER_NO_TIME |
                     CNRT_NOTIFIER_INTERPROCESS;

    if (!code && !out) code = base_refuse(CNRT_ARGS, "NULL");
    if (!code && flags & ~known) code = base_refuse(CNRT_ARGS, "flags %u", flags);
    if (code) return cnrt_leave(code);
    *out = base_event_create(device, device, flags);
    return cnrt_leave(*out ? 0 : CNRT_SYS_NO_MEMORY);
}

int cnrtNotifierCreate(void **out)
{
    return notifier_create("cnrtNotifierCreate", out, CNRT_NOTIFIER_DEFAULT);
}

int cnrtNotifierCreateWithFlags(void **out, unsigned flags)
{
    return notifier_create("cnrtNotifierCreateWithFlags", out, flags);
}

int cnrtNotifierDestroy(void *notifier)
{
    struct base_device *device;
    int code = cnrt_enter_release("cnrtNotifierDestroy", &device);

    notifier_of(notifier, device, &code);
    if (!code) base_event_destroy(notifier);
    return cnrt_leave(code);
}

int cnrtPlaceNotifier(void *notifier, void *queue)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtPlaceNotifier", &device);

    notifier_of(notifier, device, &code);
    if (!code) cnrt_queue(queue, device, &code);
    if (!code) code = base_event_record(notifier, queue);
    return cnrt_leave(code);
}

int cnrtQueryNotifier(void *notifier)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtQueryNotifier", &device);

    notifier_of(notifier, device, &code);
    if (!code) code = notifier_is_placed(notifier);
    if (!code) code = base_event_query(notifier);
    return cnrt_leave(code);
}

int cnrtWaitNotifier(void *notifier)
{
    struct base_device *device;
    int code = cnrt_enter_device("cnrtWaitNotifier", &device);

    notifier_of(notifier, device, &code);
    if (!code) code = notifier_is_placed(notifier);
    if (!code) code = base_event_wait(notifier, -1);
    return cnrt_leave(code);
}

static int notifier_elapsed(const char *name, void *start, void *end, float *out, float factor)
{
    unsigned timeless = CNRT_NOTIFIER_NO_SOFTWARE_TIME | CNRT_NOTIFIER_NO_TIME;
    struct base_device *device;
    int code = cnrt_enter_device(name, &device);

    if (!code && !out) code = base_refuse(CNRT_ARGS, "NULL");
    notifier_of(start, device, &code);
    notifier_of(end, device, &code);
    if (!code && (base_event_flags(start) | base_event_flags(end)) & timeless)
        code = base_refuse(CNRT_ARGS, "%s: a notifier without times", name);
    if (!code) code = base_event_elapsed(start, end, out);
    if (!code) *out *= factor;
    return cnrt_leave(code);
}

int cnrtNotifierElapsedTime(void *start, void *end, float *out_ms)
{
    return notifier_elapsed("cnrtNotifierElapsedTime", start, end, out_ms, 1);
}

int cnrtNotifierDuration(void *start, void *end, float *out_us)
{
    return notifier_elapsed("cnrtNotifierDuration", start, end, out_us, 1000);
}
