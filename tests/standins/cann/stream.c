/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: implements streams and events of the stand-in for CANN. */
#include "cann.h"

int aclrtCreateStream(void **out);
int aclrtCreateStreamWithConfig(void **out, uint32_t priority, uint32_t flag);
int aclrtDestroyStream(void *stream);
int aclrtDestroyStreamForce(void *stream);
int aclrtSynchronizeStream(void *stream);
int aclrtSynchronizeStreamWithTimeout(void *stream, int32_t ms);
int aclrtStreamQuery(void *stream, int *out);
int aclrtStreamWaitEvent(void *stream, void *event);
int aclrtCreateEvent(void **out);
int aclrtCreateEventWithFlag(void **out, uint32_t flag);
int aclrtCreateEventExWithFlag(void **out, uint32_t flag);
int aclrtDestroyEvent(void *event);
int aclrtRecordEvent(void *event, void *stream);
int aclrtQueryEvent(void *event, int *out);
int aclrtQueryEventStatus(void *event, int *out);
int aclrtSynchronizeEvent(void *event);
int aclrtSynchronizeEventWithTimeout(void *event, int32_t ms);
int aclrtEventElapsedTime(float *out, void *from, void *to);

static int stream_make(int code, struct cann_context *context, void **out)
{
    if (!code && !out) code = ACL_INVALID_PARAM;
    if (code) return cann_leave(code);
    *out = base_stream_create(context->device, context);
    return cann_leave(*out ? 0 : RT_MEMORY);
}

CANN_API int aclrtCreateStream(void **out)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtCreateStream", &context);

    return stream_make(code, context, out);
}

CANN_API int aclrtCreateStreamWithConfig(void **out, uint32_t priority, uint32_t flag)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtCreateStreamWithConfig", &context);

    if (!code && (priority > 7 || flag > 3))
        code = base_refuse(RT_PARAM, "priority %u, flag %u", priority, flag);
    return stream_make(code, context, out);
}

static int stream_end(const char *name, void *handle)
{
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_release(name, &context);

    if (!code && !handle) code = ACL_INVALID_PARAM;
    if (!code) code = cann_stream(context, handle, &stream);
    if (code) return cann_leave(code);
    base_stream_destroy(stream);
    return cann_leave(0);
}

CANN_API int aclrtDestroyStream(void *handle)
{
    return stream_end("aclrtDestroyStream", handle);
}

CANN_API int aclrtDestroyStreamForce(void *handle)
{
    return stream_end("aclrtDestroyStreamForce", handle);
}

static int stream_sync(int code, struct cann_context *context, void *handle, int ms)
{
    struct base_stream *stream;

    if (!code) code = cann_stream(context, handle, &stream);
    if (!code) code = cann_code(base_stream_wait(stream, ms));
    return cann_leave(code);
}

CANN_API int aclrtSynchronizeStream(void *handle)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtSynchronizeStream", &context);

    return stream_sync(code, context, handle, -1);
}

CANN_API int aclrtSynchronizeStreamWithTimeout(void *handle, int32_t ms)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtSynchronizeStreamWithTimeout", &context);

    if (!code && ms < -1) code = ACL_INVALID_PARAM;
    return stream_sync(code, context, handle, ms);
}

/* 0: complete, 1: not ready. */
CANN_API int aclrtStreamQuery(void *handle, int *out)
{
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclrtStreamQuery", &context);

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code) code = cann_stream(context, handle, &stream);
    if (code) return cann_leave(code);
    code = base_stream_query(stream);
    if (code && code != BASE_PENDING) return cann_leave(cann_code(code));
    *out = code == BASE_PENDING;
    return cann_leave(0);
}

static int event_create(int code, struct cann_context *context, uint32_t flags, void **out)
{
    uint32_t known = EVENT_SYNC | EVENT_CAPTURE | EVENT_TIME | EVENT_EX | EVENT_PLAIN;

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code && (flags & ~known || !(flags & 15)))
        code = base_refuse(RT_PARAM, "flags %u", flags & 0xffff);
    if (code) return cann_leave(code);
    *out = base_event_create(context->device, context, flags);
    return cann_leave(*out ? 0 : RT_MEMORY);
}

/* Can be waited for, and has times. */
CANN_API int aclrtCreateEvent(void **out)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtCreateEvent", &context);

    return event_create(code, context, EVENT_SYNC | EVENT_TIME | EVENT_PLAIN, out);
}

CANN_API int aclrtCreateEventWithFlag(void **out, uint32_t flag)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtCreateEventWithFlag", &context);

    return event_create(code, context, flag | EVENT_PLAIN, out);
}

CANN_API int aclrtCreateEventExWithFlag(void **out, uint32_t flag)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtCreateEventExWithFlag", &context);

    return event_create(code, context, flag | EVENT_EX, out);
}

/* Checks an event: 0, or a code. */
static int event_check(void *event, struct cann_context *context)
{
    if (!event) return base_refuse(ACL_INVALID_PARAM, "the event is NULL");
    if (!base_event_is(event))
        return base_handle_was(event) ? base_misuse(RT_HANDLE, "the event was destroyed before")
                                      : base_refuse(RT_HANDLE, "%p is not an event", event);
    if (context && base_event_owner(event) != context)
        return base_refuse(RT_STREAM_CONTEXT, "the event belongs to another context");
    return 0;
}

CANN_API int aclrtDestroyEvent(void *event)
{
    struct cann_context *context;
    int code = cann_enter_release("aclrtDestroyEvent", &context);

    if (!code) code = event_check(event, NULL);
    if (!code) base_event_destroy(event);
    return cann_leave(code);
}

CANN_API int aclrtRecordEvent(void *event, void *handle)
{
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclrtRecordEvent", &context);

    if (!code) code = event_check(event, context);
    if (!code) code = cann_stream(context, handle, &stream);
    if (!code) code = cann_code(base_event_record(event, stream));
    return cann_leave(code);
}

CANN_API int aclrtStreamWaitEvent(void *handle, void *event)
{
    struct cann_context *context;
    struct base_stream *stream;
    int code = cann_enter_context("aclrtStreamWaitEvent", &context);

    if (!code) code = event_check(event, NULL); /* of any context, and of another device */
    if (!code && !(base_event_flags(event) & EVENT_SYNC))
        code = base_refuse(RT_PARAM, "the event was not made with ACL_EVENT_SYNC");
    if (!code) code = cann_stream(context, handle, &stream);
    if (!code) code = cann_code(base_stream_wait_event(stream, event));
    return cann_leave(code);
}

/* 0, BASE_PENDING or a code. An event that was never recorded is complete, except a plain one. */
static int event_state(int code, void *event)
{
    if (!code) code = event_check(event, NULL);
    if (code) return code;
    if (base_event_flags(event) & EVENT_PLAIN && !base_event_was_recorded(event))
        return BASE_PENDING;
    return base_event_query(event);
}

/* 0: complete, 1: not ready. */
CANN_API int aclrtQueryEvent(void *event, int *out)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtQueryEvent", &context);

    if (!code && !out) code = ACL_INVALID_PARAM;
    code = event_state(code, event);
    if (code && code != BASE_PENDING) return cann_leave(cann_code(code));
    *out = code == BASE_PENDING;
    return cann_leave(0);
}

/* 0: not ready, 1: complete. */
CANN_API int aclrtQueryEventStatus(void *event, int *out)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtQueryEventStatus", &context);

    if (!code && !out) code = ACL_INVALID_PARAM;
    code = event_state(code, event);
    if (code && code != BASE_PENDING) return cann_leave(cann_code(code));
    *out = code != BASE_PENDING;
    return cann_leave(0);
}

static int event_sync(int code, void *event, int ms)
{
    if (!code) code = event_check(event, NULL);
    if (!code) code = base_event_wait(event, ms);
    return cann_leave(code == BASE_TIMEOUT ? RT_EVENT_TIMEOUT : cann_code(code));
}

CANN_API int aclrtSynchronizeEvent(void *event)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtSynchronizeEvent", &context);

    return event_sync(code, event, -1);
}

CANN_API int aclrtSynchronizeEventWithTimeout(void *event, int32_t ms)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtSynchronizeEventWithTimeout", &context);

    if (!code && ms < -1) code = ACL_INVALID_PARAM;
    return event_sync(code, event, ms);
}

CANN_API int aclrtEventElapsedTime(float *out, void *from, void *to)
{
    struct cann_context *context;
    int code = cann_enter_context("aclrtEventElapsedTime", &context);

    if (!code && !out) code = ACL_INVALID_PARAM;
    if (!code) code = event_check(from, NULL);
    if (!code) code = event_check(to, NULL);
    if (!code && !(base_event_flags(from) & base_event_flags(to) & EVENT_TIME))
        code = base_refuse(RT_NO_TIMESTAMP, "an event was not made with ACL_EVENT_TIME_LINE");
    if (!code && base_event_elapsed(from, to, out))
        code = base_refuse(RT_NOT_RECORDED, "an event is not complete");
    return cann_leave(code);
}
