/* SPDX-License-Identifier: Apache-2.0 */
/* test_kit_stream.c: tests the streams, the fault words, the waits for events, the contexts, the
 * messages about calls and the caches of sdk/kit. */
#include "fixture.h"
#include <kit/cache.h>
#include <kit/call.h>
#include <kit/context.h>
#include <kit/stream.h>

static const struct kit_report direct = {&kit_host, "dev", 3};

/* ---- calls ---- */

static const char *kit_text_of(const void *of, int code)
{
    return code == 7 ? of : NULL;
}

static void codes_become_statuses(void)
{
    static const struct kit_error rows[] = {{1, BP_ERR_MEMORY, "one"}, {2, BP_ERR_ABSENT, "two"}};
    static const struct kit_errors errors = {rows, 2, kit_text_of};
    struct kit_error error = kit_error_find(&errors, "own", 2);

    CHECK(error.status == BP_ERR_ABSENT && !strcmp(error.text, "two"), "%s", error.text);
    error = kit_error_find(&errors, "own", 7);
    CHECK(error.status == BP_ERR_DEVICE && !strcmp(error.text, "own"), "%s", error.text);
    error = kit_error_find(&errors, "own", 8);
    CHECK(error.status == BP_ERR_DEVICE && !strcmp(error.text, "an error without a name"), "%s",
          error.text);
}

static void messages_name_the_call(void)
{
    struct kit_call call = {&kit_host, "dev", 0, "devInit", 2, NULL};

    CHECK(kit_call_fail(&call, BP_ERR_DEVICE, "two", NULL) == BP_ERR_DEVICE, "the status");
    kit_expect("dev:0: devInit answers 2: two");
    kit_call_warn(&call, "two");
    kit_expect("dev:0: devInit answers 2: two");
    CHECK(kit_level == BP_LOG_WARN, "the level is %u", kit_level);
    call.device = -1;
    call.about = "no device";
    kit_call_fail(&call, BP_ERR_ABSENT, "two", "buy one");
    kit_expect("dev: no device: devInit answers 2: two; buy one");
}

static enum bp_status driver_memory(void *self, uint32_t device, uint64_t *out_free,
                                    uint64_t *out_total)
{
    if (!self) return BP_ERR_DEVICE_LOST;
    *out_free = device;
    *out_total = UINT64_C(5000000000);
    return BP_OK;
}

static void messages_about_memory_have_its_sizes(void)
{
    int self;

    CHECK(kit_memory_fail(&direct, "devAlloc", UINT64_C(9000000000), driver_memory, &self) ==
              BP_ERR_MEMORY,
          "the status");
    kit_expect("dev:3: devAlloc: 9000000000 bytes were asked for, 3 of 5000000000 are free on the "
               "device");
    CHECK(kit_memory_fail(&direct, "devAlloc", 1, driver_memory, NULL) == BP_ERR_DEVICE_LOST,
          "the status of the call for sizes");
    kit_expect("");
}

static void calls_are_traced_if_the_setting_is_on(void)
{
    const struct kit_call call = {&kit_host, "dev", 1, "devCopy", 0, NULL};

    kit_trace_begin("dev");
    kit_call_trace(&call);
    kit_expect("");
    setenv("BP_DEV_TRACE", "1", 1);
    kit_trace_begin("dev");
    kit_call_trace(&call);
    kit_expect("dev:1: trace: devCopy answers 0");
    CHECK(kit_level == BP_LOG_INFO, "the level is %u", kit_level);
    unsetenv("BP_DEV_TRACE");
    kit_trace_begin("dev");
    CHECK(!kit_is_traced(), "calls are still traced");
}

/* ---- contexts ---- */

static struct {
    uintptr_t current;
    int get_code, set_code, warned;
    unsigned sets;
} driver;

static int driver_get(const void *self, uintptr_t *out)
{
    CHECK(self == &driver, "another self");
    *out = driver.current;
    return driver.get_code;
}

static int driver_set(const void *self, uintptr_t context)
{
    CHECK(self == &driver, "another self");
    driver.sets++;
    if (!driver.set_code) driver.current = context;
    return driver.set_code;
}

static void driver_warn(const void *self, int code)
{
    CHECK(self == &driver, "another self");
    driver.warned = code;
}

static const struct kit_contexts driver_contexts = {driver_get, driver_set, driver_warn};

/* Enters two contexts one after the other, as a copy between devices does. */
static void driver_enter(uintptr_t first, uintptr_t second)
{
    KIT_CONTEXT caller = {NULL};
    enum kit_context_call call;

    CHECK(!kit_context_enter(&caller, &driver_contexts, &driver, first, &call), "first");
    CHECK(!kit_context_enter(&caller, &driver_contexts, &driver, second, &call), "second");
    CHECK(driver.current == second, "it is not current");
}

static void contexts_are_restored(void)
{
    driver.current = 7;
    driver_enter(7, 7);
    CHECK(!driver.sets, "the current context is set");
    driver_enter(1, 2);
    CHECK(driver.current == 7 && driver.sets == 3, "%d, set %u times", (int)driver.current,
          driver.sets);
}

static void failures_of_contexts_name_the_call(void)
{
    struct kit_context caller = {NULL};
    enum kit_context_call call;

    driver.current = 7;
    driver.get_code = 3;
    CHECK(kit_context_enter(&caller, &driver_contexts, &driver, 1, &call) == 3, "the code");
    CHECK(call == KIT_CONTEXT_GET && !caller.calls, "the call");
    driver.get_code = 0;
    driver.set_code = 4;
    CHECK(kit_context_enter(&caller, &driver_contexts, &driver, 1, &call) == 4, "the code");
    CHECK(call == KIT_CONTEXT_SET && !caller.calls, "the call");
    driver.set_code = 0;
    CHECK(!kit_context_enter(&caller, &driver_contexts, &driver, 1, &call), "the code");
    driver.set_code = 5;
    kit_context_return(&caller);
    CHECK(driver.warned == 5 && !caller.calls, "the warning");
    driver.set_code = 0;
}

/* ---- streams and faults ---- */

static void streams_have_numbers(void)
{
    struct kit_streams list = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct kit_stream a = {.lock = PTHREAD_MUTEX_INITIALIZER}, b = a;

    kit_stream_add(&list, &a);
    kit_stream_add(&list, &b);
    CHECK(a.number == 1 && b.number == 2, "%d, %d", (int)a.number, (int)b.number);
    CHECK(list.first == &b && kit_stream_find(&list, 1) == &a, "the list");
    kit_stream_remove(&list, &a);
    CHECK(!kit_stream_find(&list, 1) && !kit_stream_find(&list, 0), "a is in the list");
    kit_stream_add(&list, &a);
    CHECK(a.number == 3 && kit_stream_find(&list, 2) == &b, "a number is used again");
}

static void faults_name_the_row_that_was_launched_first(void)
{
    struct kit_stream s = {.lock = PTHREAD_MUTEX_INITIALIZER, .number = 1};
    static const char gather[] = "gather", scatter[] = "scatter";
    uint32_t words[KIT_FAULTS] = {0};

    CHECK(kit_fault_take(&s, gather) == 0 && kit_fault_take(&s, scatter) == 1, "the words");
    CHECK(kit_fault_take(&s, gather) == 0, "a row has two words");
    words[0] = 5;
    words[1] = 6;
    CHECK(kit_fault_report(&direct, &s, words, 3) == BP_ERR_FAULT, "no fault");
    kit_expect("dev:3: kernel gather found bad values in its inputs (code 5); what it wrote is "
               "undefined");
    CHECK(!words[0] && !words[1], "the words are not cleared");
    CHECK(kit_fault_report(&direct, &s, words, 3) == BP_OK, "it is reported twice");
}

/* A wait covers launches up to its own; the word of a later launch is left alone. */
static void a_mark_covers_earlier_launches(void)
{
    struct kit_stream s = {.lock = PTHREAD_MUTEX_INITIALIZER, .number = 4};
    static const char gather[] = "gather", scatter[] = "scatter";
    uint32_t words[KIT_FAULTS] = {0};
    struct kit_mark mark;

    CHECK(!kit_mark_make(&s).launched && !kit_fault_is_possible(&s), "launches");
    kit_fault_take(&s, gather);
    mark = kit_mark_make(&s);
    CHECK(mark.stream == 4 && mark.launched == 1, "the mark");
    kit_fault_take(&s, gather);
    CHECK(kit_fault_report(&direct, &s, words, mark.launched) == BP_OK, "there is no fault");
    CHECK(kit_fault_is_possible(&s), "the second launch of the row is covered");
    kit_fault_take(&s, scatter);
    words[1] = 9;
    CHECK(kit_fault_report(&direct, &s, words, 2) == BP_OK, "a later fault");
    CHECK(kit_fault_is_possible(&s) && words[1] == 9, "the later fault is lost");
    CHECK(kit_fault_report(&direct, &s, words, 3) == BP_ERR_FAULT, "no fault");
    kit_expect("dev:3: kernel scatter found bad values in its inputs (code 9); what it wrote is "
               "undefined");
    CHECK(!kit_fault_is_possible(&s), "a fault is possible");
}

static void replays_report_the_faults_of_recorded_launches(void)
{
    struct kit_stream s = {.lock = PTHREAD_MUTEX_INITIALIZER, .number = 1, .captured = true};
    static const char gather[] = "gather";
    uint32_t words[KIT_FAULTS] = {0};

    kit_fault_take(&s, gather);
    s.captured = false;
    CHECK(s.faults_captured == 1 && !kit_fault_is_possible(&s), "it was launched");
    kit_fault_replay(&s, s.faults_captured);
    words[0] = 1;
    CHECK(kit_mark_make(&s).launched == 1, "the replay is not counted");
    CHECK(kit_fault_report(&direct, &s, words, 1) == BP_ERR_FAULT, "no fault");
}

static void more_rows_than_words_share_the_last(void)
{
    struct kit_stream s = {.lock = PTHREAD_MUTEX_INITIALIZER, .number = 1};
    static char name[KIT_FAULTS + 2][8];
    uint32_t words[KIT_FAULTS] = {0};

    for (int i = 0; i < KIT_FAULTS + 2; i++) {
        int word = kit_fault_take(&s, name[i]);
        CHECK(word == (i < KIT_FAULTS ? i : KIT_FAULTS - 1), "row %d has word %d", i, word);
    }
    words[KIT_FAULTS - 1] = 2;
    CHECK(kit_fault_report(&direct, &s, words, UINT64_MAX) == BP_ERR_FAULT, "no fault");
}

/* ---- events ---- */

static enum bp_status stream_query(void *self, uint32_t device, void *event)
{
    int *left = event;

    CHECK(!self && device == 3, "the arguments");
    if (*left == 0) return BP_OK;
    if (*left < 0) return BP_ERR_DEVICE_LOST;
    --*left;
    return BP_ERR_NOT_READY;
}

static void waits_end_at_the_event_or_in_time(void)
{
    int event = 5, never = 1 << 30, lost = -1;
    uint64_t start;

    CHECK(kit_event_wait(&direct, stream_query, NULL, &event, UINT64_MAX) == BP_OK, "the event");
    CHECK(kit_event_wait(&direct, stream_query, NULL, &lost, UINT64_MAX) == BP_ERR_DEVICE_LOST,
          "a failure");
    start = kit_now_ns();
    CHECK(kit_event_wait(&direct, stream_query, NULL, &never, 20000000) == BP_ERR_TIMEOUT, "late");
    CHECK(kit_now_ns() - start >= 20000000, "the wait was too short");
    kit_expect("dev:3: the event was not reached after 0.020 s");
    event = 1;
    CHECK(kit_event_wait(&direct, stream_query, NULL, &event, 0) == BP_ERR_TIMEOUT, "a poll");
}

/* ---- caches ---- */

static void objects_are_shared_by_key(void)
{
    struct kit_cached object[3] = {{0}};
    struct kit_cache cache = {0};

    CHECK(!kit_cache_take(&cache, "a", 1), "an empty cache has a");
    CHECK(kit_cache_add(&cache, &object[0], "a", 1) && kit_cache_add(&cache, &object[1], "ab", 2),
          "memory");
    CHECK(kit_cache_take(&cache, "a", 1) == &object[0] && object[0].users == 2, "a");
    CHECK(kit_cache_take(&cache, "ab", 2) == &object[1], "ab");
    CHECK(!kit_cache_take(&cache, "b", 1), "b");
    CHECK(kit_cache_add(&cache, &object[2], "", 0) && !kit_cache_take(&cache, "", 0), "no key");
    CHECK(!kit_cache_remove(&cache, 0), "an object with users is removed");
    for (int i = 0; i < 3; i++) CHECK(kit_cache_empty(&cache) != NULL, "%d are left", 3 - i);
    CHECK(!kit_cache_empty(&cache), "more than three");
}

static void the_oldest_unused_object_is_removed(void)
{
    struct kit_cached object[4] = {{0}};
    struct kit_cache cache = {0};
    static const char *const key[] = {"a", "b", "c", "d"};

    for (int i = 0; i < 4; i++) kit_cache_add(&cache, &object[i], key[i], 1);
    for (int i = 0; i < 3; i++) object[i].users = 0;
    kit_cache_take(&cache, "a", 1)->users = 0; /* the last in use; d has a user */
    CHECK(!kit_cache_remove(&cache, 3), "three may stay");
    CHECK(kit_cache_remove(&cache, 1) == &object[1], "b");
    CHECK(kit_cache_remove(&cache, 1) == &object[2], "c");
    CHECK(!kit_cache_remove(&cache, 1) && kit_cache_remove(&cache, 0) == &object[0], "a");
    CHECK(!kit_cache_remove(&cache, 0) && kit_cache_empty(&cache) == &object[3], "d");
}

int main(void)
{
    static const struct kit_test tests[] = {
        {"codes become statuses", codes_become_statuses},
        {"messages name the call", messages_name_the_call},
        {"messages about memory have its sizes", messages_about_memory_have_its_sizes},
        {"calls are traced if the setting is on", calls_are_traced_if_the_setting_is_on},
        {"contexts are restored", contexts_are_restored},
        {"failures of contexts name the call", failures_of_contexts_name_the_call},
        {"streams have numbers", streams_have_numbers},
        {"faults name the row that was launched first",
         faults_name_the_row_that_was_launched_first},
        {"a mark covers earlier launches", a_mark_covers_earlier_launches},
        {"replays report faults", replays_report_the_faults_of_recorded_launches},
        {"more rows than words share the last", more_rows_than_words_share_the_last},
        {"waits end at the event or in time", waits_end_at_the_event_or_in_time},
        {"objects are shared by key", objects_are_shared_by_key},
        {"the oldest unused object is removed", the_oldest_unused_object_is_removed},
    };

    return kit_run(tests, sizeof tests / sizeof *tests);
}
