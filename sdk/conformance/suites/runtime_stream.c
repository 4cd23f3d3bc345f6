/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_stream.c: tests that streams run their work in the order in which it was submitted. */
#include "suites.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 4096,
    CHAIN = 16
};

/* A dtype of one byte, if the device can hold u8 or i8; else f32. */
static uint32_t byte_type(struct check *c)
{
    uint64_t dtypes = c->fixture->properties.dtypes;

    return dtypes >> BP_U8 & 1 ? BP_U8 : dtypes >> BP_I8 & 1 ? BP_I8 : BP_F32;
}

static int64_t stream_elements(struct check *c)
{
    return byte_type(c) == BP_F32 ? N / 4 : N;
}

static bool tensor_create(struct check *c, struct bp_tensor **out)
{
    int64_t n = stream_elements(c);

    return check_ok(c, bp_tensor_create(c->fixture->device, byte_type(c), 1, &n, out),
                    "bp_tensor_create");
}

static bool stream_create(struct check *c, struct bp_stream **out)
{
    return check_ok(c, bp_stream_create(c->fixture->device, out), "bp_stream_create");
}

static void create_destroy(struct check *c, const int64_t *arg)
{
    struct bp_stream *stream;

    (void)arg;
    for (int i = 0; i < 200; i++) {
        if (!stream_create(c, &stream)) return;
        bp_stream_destroy(stream);
    }
    bp_stream_destroy(NULL);
}

static void stream_many(struct check *c, const int64_t *arg)
{
    struct bp_stream *streams[64] = {0};

    (void)arg;
    for (int i = 0; i < 64 && stream_create(c, &streams[i]); i++)
        for (int k = 0; k < i; k++)
            check_that(c, streams[k] != streams[i], "streams %d and %d are one handle", k, i);
    for (int i = 0; i < 64 && streams[i]; i++)
        check_ok(c, bp_stream_synchronize(streams[i]), "bp_stream_synchronize");
    for (int i = 0; i < 64; i += 2) bp_stream_destroy(streams[i]);
    for (int i = 1; i < 64; i += 2) bp_stream_destroy(streams[i]);
}

static void stream_reports(struct check *c, const int64_t *arg)
{
    struct bp_stream *stream;

    (void)arg;
    if (!stream_create(c, &stream)) return;
    check_that(c, bp_stream_device(stream) == c->fixture->device,
               "bp_stream_device is another device");
    check_that(c, bp_stream_scope(stream) != NULL, "bp_stream_scope is NULL");
    check_that(c, bp_stream_last(stream) == 0, "a new stream's last number is %llu, expected 0",
               (unsigned long long)bp_stream_last(stream));
    check_ok(c, bp_stream_synchronize(stream), "bp_stream_synchronize of an empty stream");
    check_ok(c, bp_stream_synchronize(stream), "bp_stream_synchronize, again");
    bp_stream_destroy(stream);
}

static void stream_null(struct check *c, const int64_t *arg)
{
    struct bp_stream *stream = NULL;

    (void)arg;
    check_fails(c, bp_stream_create(NULL, &stream), BP_ERR_INVALID,
                "bp_stream_create without a device");
    check_fails(c, bp_stream_create(c->fixture->device, NULL), BP_ERR_INVALID,
                "bp_stream_create without out");
    check_fails(c, bp_stream_create((struct bp_device *)c->fixture->stream, &stream),
                BP_ERR_INVALID, "bp_stream_create on a stream");
    check_fails(c, bp_stream_synchronize(NULL), BP_ERR_INVALID, "bp_stream_synchronize of NULL");
    check_that(c, !stream, "a failed bp_stream_create wrote its out parameter");
    check_that(c, !bp_stream_scope(NULL) && !bp_stream_device(NULL) && !bp_stream_last(NULL),
               "NULL has a scope");
}

static void stream_pattern(unsigned char *bytes, int seed)
{
    for (int i = 0; i < N; i++) bytes[i] = (unsigned char)(i * 7 + seed * 31 + (i >> 8));
}

static bool is_pattern(struct check *c, struct bp_stream *stream, struct bp_tensor *tensor,
                       int seed, const char *when)
{
    unsigned char got[N], want[N];

    memset(got, 0, sizeof got);
    if (!check_ok(c, bp_tensor_read(stream, tensor, got, N), "bp_tensor_read")) return false;
    stream_pattern(want, seed);
    for (int i = 0; i < N; i++)
        if (got[i] != want[i])
            return check_that(c, false, "%s: byte %d is 0x%02x, expected 0x%02x", when, i, got[i],
                              want[i]);
    return true;
}

static bool write_pattern(struct check *c, struct bp_stream *stream, struct bp_tensor *tensor,
                          int seed)
{
    unsigned char bytes[N];
    bool ok;

    stream_pattern(bytes, seed);
    ok = check_ok(c, bp_tensor_write(stream, tensor, bytes, N), "bp_tensor_write");
    memset(bytes, 0xee, sizeof bytes); /* the caller may reuse the host memory when the call
                                          returns */
    return ok;
}

static void order_write_read(struct check *c, const int64_t *arg)
{
    struct bp_stream *stream = NULL;
    struct bp_tensor *tensor = NULL;

    (void)arg;
    if (stream_create(c, &stream) && tensor_create(c, &tensor))
        for (int i = 0; i < 100; i++)
            if (!write_pattern(c, stream, tensor, i) ||
                !is_pattern(c, stream, tensor, i, "read after write"))
                break;
    bp_tensor_destroy(tensor);
    bp_stream_destroy(stream);
}

static void order_chain(struct check *c, const int64_t *arg)
{
    struct bp_stream *stream = NULL;
    struct bp_tensor *tensor[CHAIN] = {0};
    bool ok = stream_create(c, &stream);

    (void)arg;
    for (int i = 0; ok && i < CHAIN; i++) ok = tensor_create(c, &tensor[i]);
    for (int round = 0; ok && round < 20; round++) {
        ok = write_pattern(c, stream, tensor[0], round);
        for (int i = 1; ok && i < CHAIN; i++)
            ok = check_ok(c, bp_tensor_copy(stream, tensor[i], tensor[i - 1]), "bp_tensor_copy");
        /* The first tensor is overwritten while copies of it may still be running. */
        ok = ok && write_pattern(c, stream, tensor[0], round + 1000) &&
             is_pattern(c, stream, tensor[CHAIN - 1], round, "the end of a chain of copies");
    }
    for (int i = 0; i < CHAIN; i++) bp_tensor_destroy(tensor[i]);
    bp_stream_destroy(stream);
}

static void stream_counts(struct check *c, const int64_t *arg)
{
    struct bp_stream *stream = NULL;
    struct bp_tensor *tensor = NULL;
    uint64_t last = 0;

    (void)arg;
    if (stream_create(c, &stream) && tensor_create(c, &tensor))
        for (int i = 0; i < 10 && write_pattern(c, stream, tensor, i); i++) {
            check_that(c, bp_stream_last(stream) > last,
                       "the stream's number was %llu and is %llu after a write",
                       (unsigned long long)last, (unsigned long long)bp_stream_last(stream));
            last = bp_stream_last(stream);
        }
    bp_tensor_destroy(tensor);
    bp_stream_destroy(stream);
}

static void stream_two(struct check *c, const int64_t *arg)
{
    struct bp_stream *stream[2] = {0};
    struct bp_tensor *tensor[2] = {0};
    bool ok = stream_create(c, &stream[0]) && stream_create(c, &stream[1]) &&
              tensor_create(c, &tensor[0]) && tensor_create(c, &tensor[1]);

    (void)arg;
    for (int i = 0; ok && i < 100; i++)
        ok = write_pattern(c, stream[0], tensor[0], i) &&
             write_pattern(c, stream[1], tensor[1], i + 500) &&
             is_pattern(c, stream[1], tensor[1], i + 500, "on the second stream") &&
             is_pattern(c, stream[0], tensor[0], i, "on the first stream");
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(tensor[i]);
        bp_stream_destroy(stream[i]);
    }
}

/* A thread with its own stream, and with its own result, because checks are not thread-safe. */
struct worker {
    struct check check;
    struct result result;
    pthread_t thread;
};

static void *stream_work(void *arg)
{
    struct worker *w = arg;

    for (int i = 0; i < 5; i++) order_write_read(&w->check, NULL);
    return NULL;
}

static void stream_threads(struct check *c, const int64_t *arg)
{
    struct worker worker[4];
    int started = 0;

    (void)arg;
    for (; started < 4; started++) {
        worker[started] = (struct worker){.check = *c};
        worker[started].check.result = &worker[started].result;
        if (pthread_create(&worker[started].thread, NULL, stream_work, &worker[started])) break;
    }
    check_that(c, started == 4, "threads could not be started");
    for (int i = 0; i < started; i++) {
        pthread_join(worker[i].thread, NULL);
        check_that(c, worker[i].result.outcome == OUTCOME_PASS, "thread %d of 4: %s", i,
                   worker[i].result.message);
    }
}

/* Work submitted to a stream before it is destroyed is still done. */
static void destroy_at_work(struct check *c, const int64_t *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        struct bp_stream *stream = NULL;
        struct bp_tensor *a = NULL, *b = NULL;
        bool ok = stream_create(c, &stream) && tensor_create(c, &a) && tensor_create(c, &b) &&
                  write_pattern(c, stream, a, i) &&
                  check_ok(c, bp_tensor_copy(stream, b, a), "bp_tensor_copy");
        bp_tensor_destroy(a);
        if (i & 1) bp_stream_destroy(stream);
        if (ok && i & 1)
            ok = check_ok(c, bp_device_synchronize(c->fixture->device), "bp_device_synchronize");
        if (ok)
            is_pattern(c, i & 1 ? c->fixture->stream : stream, b, i,
                       "after its source was destroyed");
        bp_tensor_destroy(b);
        if (!(i & 1)) bp_stream_destroy(stream);
    }
}

const struct check_case suite_runtime_stream[] = {
    {"stream/create-destroy", create_destroy},
    {"stream/many", stream_many},
    {"stream/answers", stream_reports},
    {"stream/null", stream_null},
    {"stream/order-write-read", order_write_read},
    {"stream/order-copies", order_chain},
    {"stream/counts", stream_counts},
    {"stream/two", stream_two},
    {"stream/threads", stream_threads},
    {"stream/destroy-at-work", destroy_at_work},
    {NULL, NULL},
};
