/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_stream.c: tables of wrong calls of stream.h, event.h and random.h. */
#include "mistakes.h"

static uint64_t stream_create(const union value *a)
{
    return bp_stream_create(a[0].p, a[1].p);
}

static uint64_t stream_create_with(const union value *a)
{
    return bp_stream_create_with(a[0].p, (uint32_t)a[1].u, a[2].p);
}

static uint64_t stream_flags(const union value *a)
{
    return bp_stream_get_flags(a[0].p);
}

static uint64_t stream_destroy(const union value *a)
{
    bp_stream_destroy(a[0].p);
    return 0;
}

static uint64_t stream_synchronize(const union value *a)
{
    return bp_stream_synchronize(a[0].p);
}

static uint64_t stream_synchronize_for(const union value *a)
{
    return bp_stream_synchronize_for(a[0].p, a[1].u);
}

static uint64_t stream_cancel(const union value *a)
{
    uint64_t status = bp_stream_cancel(a[0].p);

    return status ? status : bp_stream_resume(a[0].p);
}

static uint64_t stream_resume(const union value *a)
{
    return bp_stream_resume(a[0].p);
}

static uint64_t stream_check_calls(const union value *a)
{
    return bp_stream_check_calls(a[0].p);
}

static uint64_t stream_last(const union value *a)
{
    return bp_stream_last(a[0].p);
}

static uint64_t stream_number(const union value *a)
{
    return bp_stream_number(a[0].p);
}

static void stream_called(void *ctx, enum bp_status status)
{
    (void)ctx;
    (void)status;
}

static uint64_t stream_callback(const union value *a)
{
    return bp_stream_callback(a[0].p, a[1].cp ? stream_called : NULL, a[2].p);
}

static uint64_t stream_scope(const union value *a)
{
    return (uintptr_t)bp_stream_scope(a[0].p);
}

static uint64_t stream_device(const union value *a)
{
    return (uintptr_t)bp_stream_device(a[0].p);
}

static uint64_t stream_calls(const union value *a)
{
    return bp_stream_calls(a[0].p, a[1].p);
}

static void stream_watcher(void *ctx, const struct bp_watched *call)
{
    (void)ctx;
    (void)call;
}

static uint64_t stream_watch(const union value *a)
{
    bp_stream_watch(a[0].p, stream_watcher, a[1].p);
    return bp_stream_watch(a[0].p, NULL, NULL);
}

static uint64_t event_create(const union value *a)
{
    return bp_event_create(a[0].p, a[1].p);
}

static uint64_t event_destroy(const union value *a)
{
    bp_event_destroy(a[0].p);
    return 0;
}

static uint64_t event_record(const union value *a)
{
    return bp_event_record(a[0].p, a[1].p);
}

static uint64_t event_query(const union value *a)
{
    return bp_event_query(a[0].p);
}

static uint64_t event_wait(const union value *a)
{
    return bp_event_wait(a[0].p, a[1].u);
}

static uint64_t stream_wait(const union value *a)
{
    return bp_stream_wait(a[0].p, a[1].p);
}

static uint64_t generator_create(const union value *a)
{
    return bp_generator_create(a[0].u, a[1].p);
}

static uint64_t generator_destroy(const union value *a)
{
    bp_generator_destroy(a[0].p);
    return 0;
}

static uint64_t generator_set(const union value *a)
{
    return bp_generator_set(a[0].p, a[1].u, a[2].u);
}

static uint64_t generator_get(const union value *a)
{
    return bp_generator_get(a[0].p, a[1].p, a[2].p);
}

static uint64_t stream_set_generator(const union value *a)
{
    return bp_stream_set_generator(a[0].p, a[1].p);
}

static const struct function functions[] = {
    {"bp_stream_create", stream_create, {HANDLE(T_DEVICE), OUT_OF(T_STREAM)}},
    {"bp_stream_create_with", stream_create_with,
     {HANDLE(T_DEVICE), NUMBER(BP_STREAM_ASYNC), OUT_OF(T_STREAM)}, .called = "bp_stream_create"},
    {"bp_stream_get_flags", stream_flags, {HANDLE(T_STREAM)}, RETURNS_ZERO},
    {"bp_stream_destroy", stream_destroy, {HANDLE(T_STREAM)}, RETURNS_NOTHING},
    {"bp_stream_synchronize", stream_synchronize, {HANDLE(T_STREAM)}},
    {"bp_stream_synchronize_for", stream_synchronize_for, {HANDLE(T_STREAM), NUMBER(1000000000)}},
    {"bp_stream_cancel", stream_cancel, {HANDLE(T_STREAM)}},
    {"bp_stream_resume", stream_resume, {HANDLE(T_STREAM)}},
    {"bp_stream_check_calls", stream_check_calls, {HANDLE(T_STREAM)}},
    {"bp_stream_number", stream_number, {HANDLE(T_STREAM)}, RETURNS_ZERO},
    {"bp_stream_callback", stream_callback, {HANDLE(T_STREAM), POINTER("a function")}},
    {"bp_stream_last", stream_last, {HANDLE(T_STREAM)}, RETURNS_ZERO},
    {"bp_stream_scope", stream_scope, {HANDLE(T_STREAM)}, RETURNS_ZERO},
    {"bp_stream_device", stream_device, {HANDLE(T_STREAM)}, RETURNS_ZERO},
    {"bp_stream_calls", stream_calls, {HANDLE(T_STREAM), INFO(struct bp_call_stats)}},
    {"bp_stream_watch", stream_watch, {HANDLE(T_STREAM), OPTIONAL("anything")}},
    {"bp_event_create", event_create, {HANDLE(T_DEVICE), OUT_OF(T_EVENT)}},
    {"bp_event_destroy", event_destroy, {HANDLE(T_EVENT)}, RETURNS_NOTHING},
    {"bp_event_record", event_record, {HANDLE(T_EVENT), HANDLE(T_STREAM)}},
    {"bp_event_query", event_query, {HANDLE(T_EVENT)}},
    {"bp_event_wait", event_wait, {HANDLE(T_EVENT), NUMBER(UINT64_MAX)}},
    {"bp_stream_wait", stream_wait, {HANDLE(T_STREAM), HANDLE(T_EVENT)}},
    {"bp_generator_create", generator_create, {NUMBER(7), OUT_OF(T_GENERATOR)}},
    {"bp_generator_destroy", generator_destroy, {HANDLE(T_GENERATOR)}, RETURNS_NOTHING},
    {"bp_generator_set", generator_set, {HANDLE(T_GENERATOR), NUMBER(7), NUMBER(0)}},
    {"bp_generator_get", generator_get, {HANDLE(T_GENERATOR), OUT_OF(T_NONE), OUT_OF(T_NONE)}},
    {"bp_stream_set_generator", stream_set_generator,
     {HANDLE(T_STREAM), {.kind = ARG_HANDLE_OPT, .thing = T_GENERATOR}}},
};

static const struct mistake mistakes[] = {
    {"bp_stream_create_with", "both kinds", BP_ERR_INVALID, "not both", {SET(2, 3)}},
    {"bp_stream_create_with", "a flag that is none", BP_ERR_INVALID, "flags are 0x4", {SET(2, 4)}},
    {"bp_stream_create_with", "all bits", BP_ERR_INVALID, "flags are 0xffffffff",
     {SET(2, UINT32_MAX)}},
    {"bp_stream_create_with", "inline where there is none", BP_ERR_UNSUPPORTED, "no inline stream",
     {USE(1, T_OTHER_DEVICE), SET(2, BP_STREAM_INLINE)}},
    {"bp_event_record", "an event of another device", BP_ERR_INVALID, "the event is of template:0",
     {USE(1, T_OTHER_EVENT)}},
    {"bp_event_record", "a stream of another device", BP_ERR_INVALID, "the stream of template:0",
     {USE(2, T_OTHER_STREAM)}},
    {"bp_event_query", "never recorded", BP_ERR_INVALID, "never recorded", {USE(1, T_NEW_EVENT)}},
    {"bp_event_wait", "never recorded", BP_ERR_INVALID, "never recorded", {USE(1, T_NEW_EVENT)}},
    {"bp_event_wait", "never recorded, no time", BP_ERR_INVALID, "never recorded",
     {USE(1, T_NEW_EVENT), SET(2, 0)}},
    {"bp_stream_wait", "never recorded", BP_ERR_INVALID, "never recorded", {USE(2, T_NEW_EVENT)}},
};

const struct table mistakes_stream = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
};
