/* SPDX-License-Identifier: Apache-2.0 */
/* mistakes_profile.c: the table of wrong calls of profile.h. */
#include "mistakes.h"

#include <stdlib.h>
#include <unistd.h>

static char path[] = "/tmp/bp_mistakes_XXXXXX";

static uint64_t kind_name(const union value *a)
{
    return (uintptr_t)bp_profile_kind_name((uint32_t)a[0].u);
}

static uint64_t profiler_start(const union value *a)
{
    return bp_profiler_start(a[0].cp, a[1].p);
}

static uint64_t profiler_step(const union value *a)
{
    return bp_profiler_step(a[0].p);
}

static uint64_t profiler_stop(const union value *a)
{
    return bp_profiler_stop(a[0].p);
}

static uint64_t profiler_info(const union value *a)
{
    return bp_profiler_get_info(a[0].p, a[1].p);
}

static uint64_t profiler_save(const union value *a)
{
    return bp_profiler_save(a[0].p, a[1].cp);
}

static uint64_t profiler_destroy(const union value *a)
{
    bp_profiler_destroy(a[0].p);
    return 0;
}

static uint64_t range_begin(const union value *a)
{
    bp_range_begin(a[0].cp);
    return 0;
}

static uint64_t range_end(const union value *a)
{
    (void)a;
    bp_range_end();
    return 0;
}

static uint64_t put_mark(const union value *a)
{
    bp_mark(a[0].cp);
    return 0;
}

static uint64_t profile_open(const union value *a)
{
    return bp_profile_open(a[0].cp, a[1].p);
}

static uint64_t profile_events(const union value *a)
{
    return bp_profile_events(a[0].p);
}

static uint64_t profile_event(const union value *a)
{
    return bp_profile_get_event(a[0].p, a[1].u, a[2].p);
}

static uint64_t profile_info(const union value *a)
{
    return bp_profile_get_info(a[0].p, a[1].p);
}

static uint64_t thread_name(const union value *a)
{
    return (uintptr_t)bp_profile_thread_name(a[0].p, (uint32_t)a[1].u);
}

static uint64_t profile_destroy(const union value *a)
{
    bp_profile_destroy(a[0].p);
    return 0;
}

static const struct function functions[] = {
    {"bp_profile_kind_name", kind_name, {NUMBER(BP_RECORD_KERNEL)}, RETURNS_TEXT},
    {"bp_profiler_start", profiler_start, {OPTIONAL(NULL), OUT_OF(T_PROFILER)}},
    {"bp_profiler_step", profiler_step, {HANDLE(T_PROFILER)}},
    {"bp_profiler_stop", profiler_stop, {HANDLE(T_PROFILER)}},
    {"bp_profiler_get_info", profiler_info, {HANDLE(T_PROFILER), INFO(struct bp_profiler_info)}},
    {"bp_profiler_save", profiler_save, {HANDLE(T_PROFILER), POINTER(path)}},
    {"bp_profiler_destroy", profiler_destroy, {HANDLE(T_PROFILER)}, RETURNS_NOTHING},
    {"bp_range_begin", range_begin, {OPTIONAL("a range")}, RETURNS_NOTHING},
    {"bp_range_end", range_end, {{0}}, RETURNS_NOTHING},
    {"bp_mark", put_mark, {OPTIONAL("a mark")}, RETURNS_NOTHING},
    {"bp_profile_open", profile_open, {POINTER(path), OUT_OF(T_PROFILE)}},
    {"bp_profile_events", profile_events, {HANDLE(T_PROFILE)}, RETURNS_ZERO},
    {"bp_profile_get_event", profile_event,
     {HANDLE(T_PROFILE), NUMBER(0), INFO(struct bp_profile_event)}},
    {"bp_profile_get_info", profile_info, {HANDLE(T_PROFILE), INFO(struct bp_profile_info)}},
    {"bp_profile_thread_name", thread_name, {HANDLE(T_PROFILE), NUMBER(1)}, RETURNS_EMPTY},
    {"bp_profile_destroy", profile_destroy, {HANDLE(T_PROFILE)}, RETURNS_NOTHING},
};

static const struct bp_profiler_options
    no_path = {.size = sizeof no_path, .path = ""},
    no_flag = {.size = sizeof no_flag, .flags = 4},
    no_record = {.size = sizeof no_record, .skip = 1},
    no_directory = {.size = sizeof no_directory, .path = "/no/such/file"},
    later = {.size = 4096};

static const struct mistake mistakes[] = {
    {"bp_profile_kind_name", "no kind", 0, "other", {SET(1, 12345)}},
    {"bp_profiler_start", "an empty path", BP_ERR_INVALID, "path is \"\"", {PUT(1, &no_path)}},
    {"bp_profiler_start", "a flag that is none", BP_ERR_INVALID, "flags 0x4", {PUT(1, &no_flag)}},
    {"bp_profiler_start", "no steps to record", BP_ERR_INVALID, "needs record",
     {PUT(1, &no_record)}},
    {"bp_profiler_start", "no such directory", BP_ERR_INVALID, "/no/such/file",
     {PUT(1, &no_directory)}},
    {"bp_profiler_start", "options of a later version", BP_ERR_INVALID, "later version",
     {PUT(1, &later)}},
    {"bp_profiler_save", "an empty path", BP_ERR_INVALID, "path is NULL or empty", {PUT(2, "")}},
    {"bp_profiler_save", "no such directory", BP_ERR_INVALID, "/no/such/file",
     {PUT(2, "/no/such/file")}},
    {"bp_range_begin", "no name", 0, NULL, {PUT(1, NULL)}},
    {"bp_mark", "no name", 0, NULL, {PUT(1, NULL)}},
    {"bp_profile_open", "no such file", BP_ERR_NOT_FOUND, "/no/such/file",
     {PUT(1, "/no/such/file")}},
    {"bp_profile_open", "another kind of file", BP_ERR_INVALID, "/proc/self/exe",
     {PUT(1, "/proc/self/exe")}},
    {"bp_profile_get_event", "no such event", BP_ERR_INVALID, "99999", {SET(2, 99999)}},
    {"bp_profile_get_event", "the largest index", BP_ERR_INVALID, "18446744073709551615",
     {SET(2, UINT64_MAX)}},
};

static void profile_prepare(struct world *w)
{
    int fd = mkstemp(path);

    cr_assert(fd >= 0);
    close(fd);
    OK(bp_profiler_save(w->thing[T_PROFILER].p, path));
}

static void profile_finish(struct world *w)
{
    (void)w;
    unlink(path);
}

const struct table mistakes_profile = {
    .function = functions,
    .n_function = COUNT(functions),
    .mistake = mistakes,
    .n_mistake = COUNT(mistakes),
    .prepare = profile_prepare,
    .finish = profile_finish,
};
