/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c: implements captures of the stand-in for CANN, and functions of the host in streams. */
#include "cann.h"

int aclmdlRICaptureBegin(void *stream, int mode);
int aclmdlRICaptureEnd(void *stream, void **out);
int aclmdlRICaptureGetInfo(void *stream, int *state, void **model);
int aclmdlRIExecuteAsync(void *model, void *stream);
int aclmdlRIDestroy(void *model);
int aclrtSubscribeReport(uint64_t thread, void *stream);
int aclrtUnSubscribeReport(uint64_t thread, void *stream);
int aclrtLaunchCallback(void (*function)(void *), void *data, int block, void *stream);
int aclrtProcessReport(int32_t ms);
int aclrtLaunchHostFunc(void *stream, void (*function)(void *), void *data);

CANN_API int aclmdlRICaptureBegin(void *handle, int mode)
{
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclmdlRICaptureBegin", &context);

    if (!code && (mode < 0 || mode > 2)) code = base_refuse(RT_PARAM, "mode %d", mode);
    if (!code && !handle)
        code = base_refuse(RT_CAPTURE_IMPLICIT, "the default stream cannot be captured");
    if (!code) code = cann_stream(context, handle, &stream);
    if (!code) code = cann_code(base_capture_begin(stream, (enum base_mode)mode));
    return cann_leave(code);
}

CANN_API int aclmdlRICaptureEnd(void *handle, void **out)
{
    struct base_graph *graph = NULL;
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclmdlRICaptureEnd", &context);

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code) code = cann_stream(context, handle, &stream);
    if (!code) code = base_capture_end(stream, &graph);
    if (code == BASE_BAD) code = RT_CAPTURE_UNMATCHED;
    if (!code) *out = graph;
    return cann_leave(cann_code(code));
}

/* 0: none, 1: active, 2: invalidated. */
CANN_API int aclmdlRICaptureGetInfo(void *handle, int *state, void **model)
{
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclmdlRICaptureGetInfo", &context);

    if (!code && !state) code = ACL_INVALID_PARAM;
    if (!code) code = cann_stream(context, handle, &stream);
    if (code) return cann_leave(code);
    *state = (int)base_capture_state(stream);
    if (model) *model = NULL;
    return cann_leave(0);
}

static int graph_check(void *model)
{
    if (!model) return base_refuse(ACL_INVALID_PARAM, "the model is NULL");
    if (base_graph_is(model)) return 0;
    return base_handle_was(model) ? base_misuse(RT_HANDLE, "the model was destroyed before")
                                  : base_refuse(RT_HANDLE, "%p is not a model", model);
}

CANN_API int aclmdlRIExecuteAsync(void *model, void *handle)
{
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclmdlRIExecuteAsync", &context);

    if (!code) code = graph_check(model);
    if (!code) code = cann_stream(context, handle, &stream);
    if (!code && base_capture_state(stream) != BASE_CAPTURE_NONE)
        code = base_refuse(cann_code(base_stream_query(stream)), "a model in a captured stream");
    if (!code) code = cann_code(base_graph_launch(model, stream));
    return cann_leave(code);
}

CANN_API int aclmdlRIDestroy(void *model)
{
    struct cann_context *context;
    int code = cann_enter_release("aclmdlRIDestroy", &context);

    if (!code) code = graph_check(model);
    if (!code) base_graph_destroy(model);
    return cann_leave(code);
}

/* A function that waits for its thread, or runs on the stream's. */
struct callback {
    struct callback *next;
    void (*function)(void *);
    void *data;
    uint64_t thread; /* 0: that of the stream */
    bool done;
};
static struct callback *callbacks; /* oldest first */

enum {
    SUBSCRIPTIONS = 64
};
static struct {
    uint64_t thread;
    void *stream;
} subscription[SUBSCRIPTIONS];

static int subscription_set(const char *name, uint64_t thread, void *handle, bool on)
{
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context(name, &context);

    if (!code) code = cann_stream(context, handle, &stream);
    for (int i = 0; !code; i++) {
        if (i == SUBSCRIPTIONS) code = on ? RT_MEMORY : RT_PARAM;
        else if (on ? !subscription[i].stream : subscription[i].stream == stream) {
            subscription[i].stream = on ? stream : NULL;
            subscription[i].thread = thread;
            break;
        }
    }
    return cann_leave(code);
}

CANN_API int aclrtSubscribeReport(uint64_t thread, void *handle)
{
    return subscription_set("aclrtSubscribeReport", thread, handle, true);
}

CANN_API int aclrtUnSubscribeReport(uint64_t thread, void *handle)
{
    return subscription_set("aclrtUnSubscribeReport", thread, handle, false);
}

struct callback_work {
    void (*function)(void *);
    void *data;
    uint64_t thread;
};

/* Queues the function for its thread; waits until it has run, if later work must wait. */
static int callback_run(void *data, int code)
{
    const struct callback_work *work = data;
    struct callback own = {NULL, work->function, work->data, work->thread, false}, **at;

    if (code) return code;
    if (!work->thread) {
        work->function(work->data);
        return 0;
    }
    base_lock();
    for (at = &callbacks; *at;) at = &(*at)->next;
    *at = &own;
    base_unlock();
    for (bool done = false; !done;) { /* also without BLOCK: the next work is late at most */
        base_sleep(100);
        base_lock();
        done = own.done;
        base_unlock();
    }
    return 0;
}

static const struct base_work callback_work = {callback_run, NULL};

CANN_API int aclrtLaunchCallback(void (*function)(void *), void *data, int block, void *handle)
{
    struct callback_work work = {function, data, 0};
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclrtLaunchCallback", &context);

    if (!code && (!function || block < 0 || block > 1)) code = ACL_INVALID_PARAM;
    if (!code) code = cann_stream(context, handle, &stream);
    if (code) return cann_leave(code);
    for (int i = 0; i < SUBSCRIPTIONS; i++)
        if (subscription[i].stream == stream) work.thread = subscription[i].thread;
    if (!work.thread)
        return cann_leave(
            base_refuse(RT_PARAM, "no thread has subscribed to the stream's reports"));
    return cann_leave(cann_code(base_submit(stream, &callback_work, &work, sizeof work)));
}

/* Runs one function that waits for this thread. */
CANN_API int aclrtProcessReport(int32_t ms)
{
    uint64_t self = (uint64_t)pthread_self();
    struct callback *found, **at;
    int code = cann_enter("aclrtProcessReport");

    if (!code && ms < -1) code = ACL_INVALID_PARAM;
    for (long us = 0; !code; us += 100) {
        for (at = &callbacks; *at && (*at)->thread != self;) at = &(*at)->next;
        if (*at || (ms >= 0 && us >= (long)ms * 1000)) break;
        base_unlock();
        base_sleep(100);
        base_lock();
    }
    if (code) return cann_leave(code);
    found = *at;
    if (!found) return cann_leave(RT_WAIT_TIMEOUT);
    *at = found->next;
    base_unlock();
    found->function(found->data);
    base_lock();
    found->done = true;
    return cann_leave(0);
}

CANN_API int aclrtLaunchHostFunc(void *handle, void (*function)(void *), void *data)
{
    struct callback_work work = {function, data, 0};
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclrtLaunchHostFunc", &context);

    if (!code && !function) code = ACL_INVALID_PARAM;
    if (!code) code = cann_stream(context, handle, &stream);
    if (!code) code = cann_code(base_submit(stream, &callback_work, &work, sizeof work));
    return cann_leave(code);
}
