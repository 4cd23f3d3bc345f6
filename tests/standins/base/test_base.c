/* SPDX-License-Identifier: Apache-2.0 */
/* test_base.c: tests the base of the stand-ins, as a stand-in uses it. TAP. */
#include "base.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ILLEGAL = 777
};
static struct base_vendor vendor = {.name = "test", .illegal = ILLEGAL};
static int number, failed;

static void test_base_report(bool good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failed += !good;
}

/* Work that appends a digit to a number, once a gate is open; and that counts its drops. */
struct addition {
    _Atomic int *to, *gate; /* gate NULL: at once */
    int what;
};
static _Atomic int dropped;

static int addition_run(void *data, int code)
{
    const struct addition *a = data;

    if (code) return code;
    while (a->gate && !*a->gate) usleep(100);
    *a->to = *a->to * 10 + a->what;
    return 0;
}

static void addition_drop(void *data)
{
    (void)data;
    dropped++;
}

static const struct base_work addition = {addition_run, addition_drop};

static int addition_add(struct base_stream *stream, _Atomic int *to, int what, _Atomic int *gate)
{
    struct addition a = {to, gate, what};

    return base_submit(stream, &addition, &a, sizeof a);
}

static struct base_stream *stream_new(int device)
{
    return base_stream_create(&vendor.device[device], &vendor);
}

static void test_streams_are_late(void)
{
    _Atomic int sum = 0, gate = 0;
    struct base_stream *s;
    bool good;

    base_lock();
    s = stream_new(0);
    good = !addition_add(s, &sum, 1, &gate) && !addition_add(s, &sum, 2, NULL) && sum == 0;
    good = good && base_stream_query(s) == BASE_PENDING;
    good = good && base_stream_wait(s, 1) == BASE_TIMEOUT;
    gate = 1;
    good = good && !base_stream_wait(s, -1) && sum == 12 && !base_stream_query(s);
    base_stream_destroy(s);
    good = good && !base_stream_is(s) && base_handle_was(s);
    base_unlock();
    test_base_report(good, "a stream runs its work in order, later than the call");
}

/* Work that notes how much work its device has at most; the first waits until its stream is full,
 * and then gives the test time to submit more than that. */
enum {
    DEPTH = 4
};
static size_t deepest;

static int depth_run(void *data, int code)
{
    const bool *waits = data;
    size_t n;

    do {
        usleep(100);
        base_lock();
        n = base_device_pending(&vendor.device[0]);
        base_unlock();
    } while (*waits && n < DEPTH);
    if (*waits) usleep(20000);
    base_lock();
    n = base_device_pending(&vendor.device[0]);
    if (n > deepest) deepest = n;
    base_unlock();
    return code;
}

static const struct base_work depth_work = {depth_run, addition_drop};

static void test_depth(void)
{
    _Atomic int sum = 0;
    struct base_stream *s;
    bool good = true;

    base_lock();
    vendor.depth = DEPTH;
    dropped = 0;
    s = stream_new(0);
    for (int i = 0; i < 3 * DEPTH && good; i++) {
        const bool waits = !i;
        good = !base_submit(s, &depth_work, &waits, sizeof waits);
    }
    good = good && !base_stream_wait(s, -1) && deepest == DEPTH && dropped == 3 * DEPTH;
    vendor.depth = 0;
    for (int i = 0; i < DEPTH + 1 && good; i++) good = !addition_add(s, &sum, 1, NULL);
    good = good && !base_stream_wait(s, -1) && sum == 11111;
    base_stream_destroy(s);
    base_unlock();
    test_base_report(good, "a stream that is full lets the caller wait");
}

static void test_events(void)
{
    _Atomic int sum = 0, gate = 0, later = 0;
    struct base_stream *a, *b;
    struct base_event *e, *f;
    float ms = -1;
    bool good;

    base_lock();
    a = stream_new(0);
    b = stream_new(0);
    e = base_event_create(&vendor.device[0], &vendor, 9);
    f = base_event_create(&vendor.device[0], &vendor, 9);
    good = !base_event_query(e) && !base_event_was_recorded(e);
    good = good && base_event_elapsed(e, f, &ms) == BASE_BAD;
    good = good && !base_event_record(e, a) && !base_event_wait(e, -1);
    good = good && !addition_add(a, &sum, 1, &gate) && !base_event_record(f, a);
    good = good && base_event_query(f) == BASE_PENDING;
    good = good && base_event_elapsed(e, f, &ms) == BASE_PENDING;
    good = good && !base_stream_wait_event(b, f);
    /* A later record does not move the wait that was made before. */
    good = good && !addition_add(a, &sum, 3, &later) && !base_event_record(f, a) &&
           !addition_add(b, &sum, 2, NULL);
    good = good && base_event_wait(f, 1) == BASE_TIMEOUT && sum == 0;
    usleep(5000);
    gate = 1;
    good = good && !base_stream_wait(b, -1) && sum == 12;
    later = 1;
    good = good && !base_event_wait(f, -1) && sum == 123;
    good = good && !base_event_elapsed(e, f, &ms) && ms >= 5 && base_event_flags(f) == 9;
    base_event_destroy(e);
    base_owner_end(&vendor); /* both streams, and f */
    good = good && !base_stream_is(a) && !base_stream_is(b) && !base_event_is(f);
    base_unlock();
    test_base_report(good && !base_live(), "events: records, waits, times, the end of an owner");
}

static void test_memory(void)
{
    size_t before = base_misuses();
    struct base_range range;
    unsigned char *host, *pinned;
    int local;
    void *at;
    bool good;

    base_lock();
    good = !base_allocate(&vendor.device[0], BASE_DEVICE, 100, 32, 64, &at);
    range = base_find((char *)at + 10);
    good = good && range.place == BASE_DEVICE && range.room == 90 && range.slack == 32;
    good = good && range.device == &vendor.device[0] && !range.is_start && range.host != at;
    good = good && (uintptr_t)at % 64 == 0;
    good = good && base_find(&local).place == BASE_HOST;
    good = good && base_reach(&vendor.device[0], at, 100) &&
           !base_reach(&vendor.device[0], at, 101);
    good = good && !base_reach(&vendor.device[1], at, 1) &&
           !base_reach(&vendor.device[0], &local, 1);
    vendor.device[1].peers |= 1;
    good = good && base_reach(&vendor.device[1], at, 1);
    vendor.device[1].peers = 2;
    good = good && vendor.device[0].used == 100;
    good = good && base_allocate(&vendor.device[0], BASE_DEVICE, vendor.device[0].total, 0, 64,
                                 &at) == BASE_NO_MEMORY;
    good = good && base_free(at, BASE_PINNED) == BASE_BAD;
    good = good && base_free((char *)at + 1, BASE_DEVICE) == BASE_BAD;
    host = base_find(at).host;
    good = good && !base_free(at, BASE_DEVICE) && host[99] == 0xdb;
    good = good && base_find(at).place == BASE_FREED && !base_reach(&vendor.device[0], at, 1);
    good = good && base_free(at, BASE_DEVICE) == BASE_BAD && vendor.device[0].used == 0;
    good = good && !base_allocate(&vendor.device[0], BASE_PINNED, 10, 0, 64, (void **)&pinned);
    good = good && base_find(pinned + 9).place == BASE_PINNED;
    good = good && base_reach(&vendor.device[1], pinned, 10) == pinned;
    good = good && !base_free(pinned, BASE_PINNED);
    good = good && !base_pin(&vendor.device[0], &local, sizeof local);
    good = good && base_find(&local).place == BASE_PINNED;
    good = good && base_pin(&vendor.device[0], &local, sizeof local) == BASE_BAD;
    good = good && !base_free(&local, BASE_PINNED);
    base_unlock();
    test_base_report(good && base_misuses() == before && !base_live(),
                     "memory: places, sizes, devices, freed memory");
}

/* The process writes outside of memory on purpose: inside of the guard zones. */
static void test_guards(void)
{
    size_t before = base_misuses();
    unsigned char *host;
    void *at;
    bool good;

    base_lock();
    good = !base_allocate(&vendor.device[0], BASE_DEVICE, 100, 32, 64, &at);
    host = base_find(at).host;
    good = good && base_guards_check() == 0;
    host[100 + 31]++;
    good = good && base_guards_check() == 1 && base_guards_check() == 0;
    host[-1]++;
    base_free(at, BASE_DEVICE);
    base_unlock();
    test_base_report(good && base_misuses() == before + 2, "a write into a guard is a misuse");
}

/* Two streams in a capture; the graph runs twice. */
static void test_capture(void)
{
    struct base_graph *graph = NULL;
    struct base_stream *a, *b;
    struct base_event *e, *f;
    _Atomic int sum = 0;
    int before;
    bool good;

    base_lock();
    a = stream_new(0);
    b = stream_new(0);
    e = base_event_create(&vendor.device[0], &vendor, 0);
    f = base_event_create(&vendor.device[0], &vendor, 0);
    before = dropped;
    good = base_capture_end(a, &graph) == BASE_NOT_CAPTURED;
    good = good && !base_capture_begin(a, BASE_RELAXED);
    good = good && base_capture_begin(a, BASE_RELAXED) == BASE_CAPTURED;
    good = good && !addition_add(a, &sum, 1, NULL) && !base_event_record(e, a);
    good = good && !base_stream_wait_event(b, e) && !addition_add(b, &sum, 2, NULL);
    good = good && base_capture_state(b) == BASE_CAPTURE_ACTIVE;
    good = good && !base_event_record(f, b) && !base_stream_wait_event(a, f);
    good = good && !addition_add(a, &sum, 3, NULL) && !base_capture_forbids();
    good = good && !base_capture_end(a, &graph) && sum == 0 && base_graph_size(graph) == 3;
    good = good && base_capture_state(b) == BASE_CAPTURE_NONE;
    good = good && !base_graph_launch(graph, b) && !base_graph_launch(graph, b);
    base_graph_destroy(graph);
    good = good && !base_stream_wait(b, -1) && sum == 123123 && dropped == before + 3;
    base_owner_end(&vendor);
    base_unlock();
    test_base_report(good && !base_live(), "a capture of two streams runs again and again");
}

static void test_bad_captures(void)
{
    struct base_graph *graph = NULL;
    struct base_stream *a, *b;
    struct base_event *e, *f;
    _Atomic int sum = 0, gate = 0;
    bool good;

    base_lock();
    a = stream_new(0);
    b = stream_new(0);
    e = base_event_create(&vendor.device[0], &vendor, 0);
    f = base_event_create(&vendor.device[0], &vendor, 0);
    good = !base_capture_begin(a, BASE_THREAD) && !base_event_record(e, a);
    good = good && !base_stream_wait_event(b, e) && !addition_add(b, &sum, 2, NULL);
    good = good && base_capture_end(b, &graph) == BASE_BAD; /* b did not begin it */
    good = good && base_capture_end(a, &graph) == BASE_INVALIDATED;
    good = good && !base_capture_begin(a, BASE_THREAD) && !base_event_record(e, a);
    good = good && !base_stream_wait_event(b, e) && !addition_add(b, &sum, 2, NULL);
    good = good && base_capture_end(a, &graph) == BASE_UNJOINED;
    good = good && !base_capture_begin(a, BASE_THREAD) && base_stream_wait(a, -1) == BASE_CAPTURED;
    good = good && addition_add(a, &sum, 1, NULL) == BASE_INVALIDATED;
    good = good && base_capture_end(a, &graph) == BASE_INVALIDATED;
    good = good && !base_capture_begin(a, BASE_THREAD) && base_capture_forbids();
    good = good && base_capture_end(a, &graph) == BASE_INVALIDATED;
    /* A wait for work before the capture. */
    good = good && !addition_add(b, &sum, 1, &gate) && !base_event_record(f, b);
    good = good && !base_capture_begin(a, BASE_GLOBAL);
    good = good && base_stream_wait_event(a, f) == BASE_ISOLATION;
    good = good && base_capture_end(a, &graph) == BASE_INVALIDATED;
    gate = 1;
    good = good && !base_stream_wait(b, -1) && sum == 1;
    base_owner_end(&vendor);
    base_unlock();
    test_base_report(good && !base_live(), "a capture that is broken ends without a graph");
}

static void test_faults(void)
{
    _Atomic int sum = 0;
    struct base_stream *s;
    bool good;

    good = base_control("NOTHING", "1") == -1;
    good = good && !base_control("FAIL", "first:2:31,second:1:+2000,work:2:507");
    good = good && base_leave(base_enter("first")) == 0 && base_leave(base_enter("first")) == 31;
    good = good && !strcmp(base_message(), "first: first fails on demand");
    good = good && !strcmp(base_message_take(), "first: first fails on demand") && !*base_message();
    good = good && base_leave(base_enter("first")) == 0 && base_leave(base_enter("second")) == 0;
    base_lock();
    s = stream_new(1);
    good = good && !addition_add(s, &sum, 1, NULL) && !addition_add(s, &sum, 2, NULL) &&
           !addition_add(s, &sum, 3, NULL);
    good = good && base_stream_wait(s, -1) == 507 && sum == 1; /* the rest does nothing */
    good = good && vendor.device[1].sticky == 507 && !vendor.device[0].sticky;
    base_stream_destroy(s);
    base_vendor_open(&vendor);
    good = good && !vendor.device[1].sticky;
    base_unlock();
    test_base_report(good && !base_control("FAIL", NULL), "faults on demand: calls and work");
}

int main(void)
{
    setenv("BP_STANDIN_DEVICES", "2", 1);
    setenv("BP_STANDIN_LOG", "/dev/null", 1);
    base_lock();
    base_vendor_open(&vendor);
    base_unlock();
    test_streams_are_late();
    test_depth();
    test_events();
    test_memory();
    test_guards();
    test_capture();
    test_bad_captures();
    test_faults();
    printf("1..%d\n", number);
    return failed != 0;
}
