/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_event.c: tests events, and streams that wait for them. */
#include "suites.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    N = 65536
};

/* Two streams, an event, two tensors of N bytes. */
struct setting {
    struct bp_stream *stream[2];
    struct bp_event *event;
    struct bp_tensor *tensor[2];
    int64_t n;
    unsigned char *bytes;
};

static bool event_set_up(struct check *c, struct setting *s)
{
    uint32_t dtype = c->fixture->properties.dtypes >> BP_U8 & 1 ? BP_U8 : BP_F32;

    *s = (struct setting){.n = dtype == BP_U8 ? N : N / 4, .bytes = malloc(N)};
    if (!s->bytes) abort();
    for (int i = 0; i < 2; i++)
        if (!check_ok(c, bp_stream_create(c->fixture->device, &s->stream[i]), "bp_stream_create") ||
            !check_ok(c, bp_tensor_create(c->fixture->device, dtype, 1, &s->n, &s->tensor[i]),
                      "bp_tensor_create"))
            return false;
    return check_ok(c, bp_event_create(c->fixture->device, &s->event), "bp_event_create");
}

static void tear_down(struct setting *s)
{
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(s->tensor[i]);
        bp_stream_destroy(s->stream[i]);
    }
    bp_event_destroy(s->event);
    free(s->bytes);
}

static bool event_fill(struct check *c, struct setting *s, int stream, int tensor, int value)
{
    memset(s->bytes, value, N);
    return check_ok(c, bp_tensor_write(s->stream[stream], s->tensor[tensor], s->bytes, N),
                    "bp_tensor_write");
}

static bool event_holds(struct check *c, struct setting *s, int stream, int tensor, int value)
{
    memset(s->bytes, ~value, N);
    if (!check_ok(c, bp_tensor_read(s->stream[stream], s->tensor[tensor], s->bytes, N),
                  "bp_tensor_read"))
        return false;
    for (int i = 0; i < N; i++)
        if (s->bytes[i] != value)
            return check_that(c, false, "byte %d is 0x%02x, expected 0x%02x", i, s->bytes[i],
                              value);
    return true;
}

static bool event_copy(struct check *c, struct setting *s, int stream, int to, int from)
{
    return check_ok(c, bp_tensor_copy(s->stream[stream], s->tensor[to], s->tensor[from]),
                    "bp_tensor_copy");
}

static bool event_record(struct check *c, struct setting *s, int stream)
{
    return check_ok(c, bp_event_record(s->event, s->stream[stream]), "bp_event_record");
}

static void create_destroy(struct check *c, const int64_t *arg)
{
    struct bp_event *event[64] = {0};

    (void)arg;
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 64; i++)
            if (!check_ok(c, bp_event_create(c->fixture->device, &event[i]), "bp_event_create"))
                break;
        for (int i = 0; i < 64; i++) bp_event_destroy(event[i]);
        memset(event, 0, sizeof event);
    }
    bp_event_destroy(NULL);
}

static void never_recorded(struct check *c, const int64_t *arg)
{
    struct setting s;

    (void)arg;
    if (event_set_up(c, &s)) {
        check_fails(c, bp_event_query(s.event), BP_ERR_INVALID,
                    "bp_event_query of an event never recorded");
        check_fails(c, bp_event_wait(s.event, 1000), BP_ERR_INVALID,
                    "bp_event_wait for an event never recorded");
        check_fails(c, bp_stream_wait(s.stream[0], s.event), BP_ERR_INVALID,
                    "bp_stream_wait for an event never recorded");
    }
    tear_down(&s);
}

static void event_null(struct check *c, const int64_t *arg)
{
    struct setting s;
    struct bp_event *event = NULL;

    (void)arg;
    if (event_set_up(c, &s)) {
        check_fails(c, bp_event_create(NULL, &event), BP_ERR_INVALID,
                    "bp_event_create without a device");
        check_fails(c, bp_event_create(c->fixture->device, NULL), BP_ERR_INVALID,
                    "bp_event_create without out");
        check_fails(c, bp_event_record(NULL, s.stream[0]), BP_ERR_INVALID,
                    "bp_event_record without an event");
        check_fails(c, bp_event_record(s.event, NULL), BP_ERR_INVALID,
                    "bp_event_record without a stream");
        check_fails(c, bp_event_record((struct bp_event *)s.stream[0], s.stream[0]), BP_ERR_INVALID,
                    "bp_event_record of a stream");
        check_fails(c, bp_event_query(NULL), BP_ERR_INVALID, "bp_event_query of NULL");
        check_fails(c, bp_event_wait(NULL, 0), BP_ERR_INVALID, "bp_event_wait for NULL");
        check_fails(c, bp_stream_wait(s.stream[0], NULL), BP_ERR_INVALID,
                    "bp_stream_wait for NULL");
        check_fails(c, bp_stream_wait(NULL, s.event), BP_ERR_INVALID, "bp_stream_wait of NULL");
        check_that(c, !event, "a failed bp_event_create wrote its out parameter");
    }
    tear_down(&s);
}

static void wait_makes_done(struct check *c, const int64_t *arg)
{
    struct setting s;
    bool ok = event_set_up(c, &s);

    (void)arg;
    for (int i = 0; ok && i < 50; i++) {
        ok = event_fill(c, &s, 0, 0, i) && event_copy(c, &s, 0, 1, 0) && event_record(c, &s, 0) &&
             check_ok(c, bp_event_wait(s.event, UINT64_MAX), "bp_event_wait") &&
             check_ok(c, bp_event_query(s.event), "bp_event_query after the wait") &&
             check_ok(c, bp_event_wait(s.event, 0),
                      "bp_event_wait without time, for what is done") &&
             event_holds(c, &s, 0, 1, i);
    }
    tear_down(&s);
}

static void empty_stream(struct check *c, const int64_t *arg)
{
    struct setting s;

    (void)arg;
    if (event_set_up(c, &s) && event_record(c, &s, 0)) {
        check_ok(c, bp_event_wait(s.event, UINT64_C(10000000000)),
                 "bp_event_wait for an empty stream, 10 s");
        check_ok(c, bp_event_query(s.event), "bp_event_query of an empty stream");
    }
    tear_down(&s);
}

static time_t seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static void query_ends(struct check *c, const int64_t *arg)
{
    struct setting s;
    enum bp_status status = BP_ERR_NOT_READY;
    struct timespec pause = {0, 100000};

    (void)arg;
    if (event_set_up(c, &s) && event_fill(c, &s, 0, 0, 1) && event_copy(c, &s, 0, 1, 0) &&
        event_record(c, &s, 0)) {
        for (time_t end = seconds_now() + 10; status == BP_ERR_NOT_READY && seconds_now() < end;) {
            status = bp_event_query(s.event);
            if (status) nanosleep(&pause, NULL);
        }
        check_ok(c, status, "bp_event_query, asked for 10 s");
    }
    tear_down(&s);
}

static void short_wait(struct check *c, const int64_t *arg)
{
    struct setting s;
    bool ok = event_set_up(c, &s) && event_fill(c, &s, 0, 0, 3);

    (void)arg;
    for (int i = 0; ok && i < 100; i++) {
        enum bp_status status;
        ok = event_copy(c, &s, 0, 1, 0) && event_record(c, &s, 0);
        status = ok ? bp_event_wait(s.event, 1) : BP_OK;
        check_that(c, status == BP_OK || status == BP_ERR_TIMEOUT,
                   "bp_event_wait for 1 ns: expected BP_OK or BP_ERR_TIMEOUT, got %s: %s",
                   bp_status_name(status), bp_error_message());
    }
    if (ok) check_ok(c, bp_event_wait(s.event, UINT64_MAX), "bp_event_wait after short waits");
    tear_down(&s);
}

static void recorded_again(struct check *c, const int64_t *arg)
{
    struct setting s;
    bool ok = event_set_up(c, &s);

    (void)arg;
    for (int i = 0; ok && i < 50; i++) {
        ok = event_record(c, &s, i & 1) && event_fill(c, &s, 0, 0, i) &&
             event_copy(c, &s, 0, 1, 0) && event_record(c, &s, 0) &&
             check_ok(c, bp_event_wait(s.event, UINT64_MAX), "bp_event_wait") &&
             event_holds(c, &s, 1, 1, i);
    }
    tear_down(&s);
}

static void event_across(struct check *c, const int64_t *arg)
{
    struct setting s;
    bool ok = event_set_up(c, &s);

    (void)arg;
    for (int i = 0; ok && i < 100; i++) {
        /* Stream 0 writes; stream 1 copies the data; only then may stream 0 write again. */
        ok = event_fill(c, &s, 0, 0, i) && event_record(c, &s, 0) &&
             check_ok(c, bp_stream_wait(s.stream[1], s.event), "bp_stream_wait") &&
             event_copy(c, &s, 1, 1, 0) && event_record(c, &s, 1) &&
             check_ok(c, bp_stream_wait(s.stream[0], s.event), "bp_stream_wait back") &&
             event_fill(c, &s, 0, 0, 255 - i) && event_holds(c, &s, 1, 1, i);
    }
    tear_down(&s);
}

static void event_itself(struct check *c, const int64_t *arg)
{
    struct setting s;

    (void)arg;
    if (event_set_up(c, &s) && event_fill(c, &s, 0, 0, 9) && event_record(c, &s, 0) &&
        check_ok(c, bp_stream_wait(s.stream[0], s.event),
                 "bp_stream_wait for an event of the stream itself"))
        event_holds(c, &s, 0, 0, 9);
    tear_down(&s);
}

/* A recorded event keeps its position in the stream while later work is submitted, and outlives its
 * stream. */
static void outlives_stream(struct check *c, const int64_t *arg)
{
    struct setting s;

    (void)arg;
    if (event_set_up(c, &s) && event_fill(c, &s, 0, 0, 5) && event_record(c, &s, 0)) {
        bp_stream_destroy(s.stream[0]);
        s.stream[0] = NULL;
        check_ok(c, bp_event_wait(s.event, UINT64_MAX),
                 "bp_event_wait after its stream was destroyed");
        check_ok(c, bp_stream_wait(s.stream[1], s.event),
                 "bp_stream_wait after its stream was destroyed");
        event_holds(c, &s, 1, 0, 5);
    }
    tear_down(&s);
}

const struct check_case suite_runtime_event[] = {
    {"event/create-destroy", create_destroy},
    {"event/never-recorded", never_recorded},
    {"event/null", event_null},
    {"event/wait", wait_makes_done},
    {"event/empty-stream", empty_stream},
    {"event/query", query_ends},
    {"event/short-wait", short_wait},
    {"event/recorded-again", recorded_again},
    {"event/across-streams", event_across},
    {"event/own-stream", event_itself},
    {"event/outlives-stream", outlives_stream},
    {NULL, NULL},
};
