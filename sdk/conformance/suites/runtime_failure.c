/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_failure.c: tests that a failure of work is reported, with the kernel's name, and that it
 * affects only its stream. The failure is a bad index that a kernel finds in its input. */
#include "suites.h"
#include "async_fixture.h"
#include <string.h>

enum {
    N = 64
};
static const uint64_t ten_seconds = UINT64_C(10000000000);

/* Stream 0, of the kind that the case states, gets work that fails; stream 1, of the default kind,
 * does not. */
struct failure {
    struct work w;
    struct work_fault fault;
    struct bp_tensor *x, *y, *z;
    enum bp_status of_call; /* status of the call that submits the failing work */
};

static bool failure_begin(struct failure *f, struct check *c, const int64_t *arg)
{
    struct work *w = &f->w;

    memset(f, 0, sizeof *f);
    work_init(w, c);
    return work_adds(c) && work_stream(w, 0, arg[0]) && work_stream(w, 1, 0) &&
           work_fault_init(w, 1, &f->fault) && work_floats(w, WORK_HOST, N, &f->x) &&
           work_put(w, 1, f->x, 1, 0) && work_fault_put(w, 1, &f->fault, true) && work_sync(w, 1);
}

static void failure_finish(struct failure *f)
{
    bp_tensor_destroy(f->x);
    work_fault_finish(&f->fault);
    bp_tensor_destroy(f->y);
    bp_tensor_destroy(f->z);
    work_finish(&f->w);
}

/* On an inline stream the call itself returns the failure. */
static bool failure_fail(struct failure *f)
{
    f->of_call = work_fault_call(&f->fault, bp_stream_scope(f->w.stream[0]), f->fault.x,
                                 f->fault.index, &f->y);
    if (kernel_is_refused(f->of_call)) {
        check_unsupported(f->w.c, "%s", bp_error_message());
        return false;
    }
    return check_that(f->w.c, f->of_call == BP_OK || f->of_call == BP_ERR_FAULT,
                      "a call of %s with an index that is too large answered %s: %s", f->fault.op,
                      bp_status_name(f->of_call), bp_error_message());
}

static bool is_reported(struct failure *f, enum bp_status status, const char *what)
{
    return work_fault_is(f->w.c, &f->fault, status, what);
}

/* The failure is reported to the first caller that waits, and to each later one. */
static void failure_stays(struct check *c, const int64_t *arg)
{
    struct failure f;
    bool ok = failure_begin(&f, c, arg) && work_shut(&f.w, 0) && failure_fail(&f);

    if (ok && f.of_call) is_reported(&f, f.of_call, "the call");
    if (ok && !f.of_call && work_record(&f.w, 0, 0)) {
        struct bp_stream *stream = f.w.stream[0];
        work_open(&f.w, 0);
        if (is_reported(&f, bp_event_wait(f.w.event[0], ten_seconds), "bp_event_wait") &&
            is_reported(&f, bp_stream_synchronize(stream), "bp_stream_synchronize") &&
            is_reported(&f, bp_stream_synchronize(stream), "a second bp_stream_synchronize"))
            is_reported(&f, bp_event_query(f.w.event[0]), "bp_event_query");
    }
    failure_finish(&f);
}

struct callback {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool called;
    enum bp_status status;
    char message[256];
};

static void failure_take(void *ctx, enum bp_status status)
{
    struct callback *h = ctx;

    pthread_mutex_lock(&h->lock);
    h->status = status;
    strncpy(h->message, bp_error_message(), sizeof h->message - 1);
    h->called = true;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void failure_callback(struct check *c, const int64_t *arg)
{
    static struct callback
        h; /* static, because it must exist as long as a late callback may come */
    struct failure f;

    h = (struct callback){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    if (failure_begin(&f, c, arg) && failure_fail(&f) && !f.of_call &&
        check_ok(c, bp_stream_callback(f.w.stream[0], failure_take, &h), "bp_stream_callback")) {
        pthread_mutex_lock(&h.lock);
        while (!h.called) pthread_cond_wait(&h.changed, &h.lock);
        pthread_mutex_unlock(&h.lock);
        check_that(c, h.status == BP_ERR_FAULT && strstr(h.message, f.fault.op),
                   "a callback behind work with a bad index was given %s: %s",
                   bp_status_name(h.status), h.message);
    }
    failure_finish(&f);
}

/* Streams of a device with a single order of work fail together. */
static bool fails_alone(const struct check *c)
{
    return !(bp_device_emulated(c->fixture->device) & BP_EMULATED_STREAMS) ||
           c->fixture->properties.flags & BP_DEVICE_INLINE;
}

static bool sums_on(struct failure *f, int stream, const char *what)
{
    bp_tensor_destroy(f->z);
    f->z = NULL;
    return work_launch(&f->w, stream, f->x, f->x, &f->z) && work_sync(&f->w, stream) &&
           work_has(&f->w, stream, f->z, 2, 0, what);
}

static bool fail_and_report(struct failure *f)
{
    return failure_fail(f) && (f->of_call || is_reported(f, bp_stream_synchronize(f->w.stream[0]),
                                                         "bp_stream_synchronize"));
}

/* Other streams, existing and new ones, still work. */
static void failure_others(struct check *c, const int64_t *arg)
{
    struct failure f;

    if (failure_begin(&f, c, arg) && fail_and_report(&f) && fails_alone(c) &&
        sums_on(&f, 1, "a sum on another stream") && work_stream(&f.w, 2, arg[0]))
        sums_on(&f, 2, "a sum on a new stream");
    failure_finish(&f);
}

/* After the failure was reported and its stream was destroyed, the device works as before. An event
 * behind the failed work still reports the failure. */
static void failure_gone(struct check *c, const int64_t *arg)
{
    struct failure f;
    bool ok = failure_begin(&f, c, arg) && work_record(&f.w, 0, 0) && work_shut(&f.w, 0) &&
              failure_fail(&f);
    bool behind = ok && !bp_event_record(f.w.event[0], f.w.stream[0]) && !f.of_call;

    work_open(&f.w, 0);
    if (ok && fails_alone(c) &&
        (f.of_call ||
         is_reported(&f, bp_stream_synchronize(f.w.stream[0]), "bp_stream_synchronize"))) {
        work_leave(&f.w, 0);
        if (check_ok(c, bp_device_synchronize(f.w.device),
                     "bp_device_synchronize when a failure has been told and its stream is gone") &&
            (!behind || is_reported(&f, bp_event_query(f.w.event[0]),
                                    "bp_event_query when the stream is gone")) &&
            work_stream(&f.w, 0, arg[0]))
            sums_on(&f, 0, "a sum on a new stream");
    }
    failure_finish(&f);
}

/* Work that ended well before the failure still counts as successful. */
static void failure_before(struct check *c, const int64_t *arg)
{
    struct failure f;

    if (failure_begin(&f, c, arg) && work_launch(&f.w, 0, f.x, f.x, &f.z) &&
        work_record(&f.w, 0, 0) &&
        check_ok(c, bp_event_wait(f.w.event[0], ten_seconds), "bp_event_wait") &&
        failure_fail(&f)) {
        if (!f.of_call)
            is_reported(&f, bp_stream_synchronize(f.w.stream[0]), "bp_stream_synchronize");
        if (c->result->outcome == OUTCOME_PASS &&
            check_ok(c, bp_event_query(f.w.event[0]), "bp_event_query of work before a failure"))
            work_has(&f.w, 1, f.z, 2, 0, "what was made before the failure");
    }
    failure_finish(&f);
}

/* A read behind the failed work reports the failure instead of returning data that the work never
 * wrote. */
static void read_behind(struct check *c, const int64_t *arg)
{
    struct failure f;
    float v[N];
    bool ok = failure_begin(&f, c, arg) && work_shut(&f.w, 0) && failure_fail(&f) && !f.of_call;

    work_open(&f.w, 0);
    if (ok && is_reported(&f, bp_tensor_read(f.w.stream[0], f.x, v, sizeof v), "bp_tensor_read"))
        is_reported(&f, bp_stream_synchronize(f.w.stream[0]), "bp_stream_synchronize after that");
    failure_finish(&f);
}

/* Waiting for the device reports the failure of a stream, but the failure stays one of that stream
 * only. */
static void by_device(struct check *c, const int64_t *arg)
{
    struct failure f;
    bool ok = failure_begin(&f, c, arg) && work_record(&f.w, 0, 0) && work_shut(&f.w, 0) &&
              failure_fail(&f) && !f.of_call &&
              check_ok(c, bp_event_record(f.w.event[0], f.w.stream[0]), "bp_event_record");

    work_open(&f.w, 0);
    if (ok && is_reported(&f, bp_device_synchronize(f.w.device), "bp_device_synchronize") &&
        is_reported(&f, bp_event_query(f.w.event[0]), "bp_event_query after that") &&
        is_reported(&f, bp_stream_synchronize(f.w.stream[0]), "bp_stream_synchronize after that") &&
        fails_alone(c))
        sums_on(&f, 1, "a sum on another stream");
    failure_finish(&f);
}

const struct check_kinds suite_runtime_failure[] = {
    {"failure/stays", failure_stays, 1},   {"failure/callback", failure_callback, 1},
    {"failure/others", failure_others, 1}, {"failure/gone", failure_gone, 1},
    {"failure/before", failure_before, 1}, {"failure/read", read_behind, 1},
    {"failure/device", by_device, 1}, {NULL, NULL, 0},
};
