/* SPDX-License-Identifier: Apache-2.0 */
/* test_deadline.c: tests waits for a device that end with BP_WAIT_TIMEOUT: their messages, the
 * state they leave unchanged, and that the same call may be made again. */
#include "stream_kit.h"

#include <dirent.h>

#define SECOND UINT64_C(1000000000)

/* The streams whose work can be held: by the queue's latch, or by the plugin's gate. */
static const enum place held_places[] = {QUEUE, GATED, PLAIN, SINGLE};
enum { HELD = sizeof held_places / sizeof *held_places };

static struct latch latch;

struct held {
    struct spot s;
    struct bp_tensor *x, *y;
    bool open;
};

/* Repeats a call until it does not time out; the time limit of the test ends an endless loop. */
#define IN_THE_END(call) \
    do { \
        enum bp_status end_; \
        while ((end_ = (call)) == BP_ERR_TIMEOUT) {} \
        cr_assert_eq(end_, BP_OK, "%s: %s", #call, bp_error_message()); \
    } while (0)

/* x is 1 2 3 4, y is zeros; then a copy of x to y is held. */
static struct held hold_at(enum place place)
{
    struct held h = {.s = spot_at(place, "BP_WAIT_TIMEOUT", "0.05")};
    const float values[4] = {1, 2, 3, 4}, zero[4] = {0};

    h.x = floats_at(h.s.device, 4);
    h.y = floats_at(h.s.device, 4);
    OK(bp_tensor_write(h.s.stream, h.x, values, sizeof values));
    OK(bp_tensor_write(h.s.stream, h.y, zero, sizeof zero));
    IN_THE_END(bp_stream_synchronize(h.s.stream));
    if (h.s.gate) h.s.gate->hold(1);
    else hold_queue(h.s.stream, &latch);
    OK(bp_tensor_copy(h.s.stream, h.y, h.x));
    return h;
}

static void open_held(struct held *h)
{
    h->open = true;
    if (!h->s.gate) {
        sem_post(&latch.end);
        return;
    }
    h->s.gate->hold(0);
    h->s.gate->open();
}

static void held_finish(struct held *h)
{
    if (!h->open) open_held(h);
    IN_THE_END(bp_device_synchronize(h->s.device));
    bp_tensor_destroy(h->x);
    bp_tensor_destroy(h->y);
    spot_finish(&h->s);
}

static void check_copied(struct held *h)
{
    float got[4] = {0};

    IN_THE_END(bp_tensor_read(h->s.stream, h->y, got, sizeof got));
    for (int i = 0; i < 4; i++) cr_assert_eq(got[i], (float)(i + 1));
}

Test(deadline, each_wait_ends_and_may_be_made_again, .timeout = 60)
{
    for (int i = 0; i < HELD; i++) {
        struct held h = hold_at(held_places[i]);
        struct bp_event *event = event_at(h.s.device);
        OK(bp_event_record(event, h.s.stream));
        FAILS(BP_ERR_TIMEOUT, "BP_WAIT_TIMEOUT", bp_stream_synchronize(h.s.stream));
        cr_assert(strstr(bp_error_message(), bp_device_name(h.s.device)));
        cr_assert(strstr(bp_error_message(), "copy_within"), "%s", bp_error_message());
        cr_assert(strstr(bp_error_message(), "stream 1, launch"), "%s", bp_error_message());
        cr_assert(strstr(bp_error_message(), "0.05 s"), "%s", bp_error_message());
        FAILS(BP_ERR_TIMEOUT, "copy_within", bp_device_synchronize(h.s.device));
        FAILS(BP_ERR_TIMEOUT, "copy_within", bp_event_wait(event, UINT64_MAX));
        FAILS(BP_ERR_TIMEOUT, "0.001 s:", bp_event_wait(event, 1000000));
        FAILS(BP_ERR_TIMEOUT, "BP_WAIT_TIMEOUT", bp_stream_synchronize(h.s.stream));
        OK(bp_tensor_copy(h.s.stream, h.y, h.x)); /* the stream has not failed */
        open_held(&h);
        IN_THE_END(bp_event_wait(event, UINT64_MAX));
        IN_THE_END(bp_stream_synchronize(h.s.stream));
        IN_THE_END(bp_device_synchronize(h.s.device));
        check_copied(&h);
        bp_event_destroy(event);
        held_finish(&h);
    }
}

Test(deadline, a_read_leaves_the_memory_of_the_app_alone, .timeout = 60)
{
    for (int i = 0; i < HELD; i++) {
        struct held h = hold_at(held_places[i]);
        float got[4] = {-1, -1, -1, -1};
        FAILS(BP_ERR_TIMEOUT, "copy_within", bp_tensor_read(h.s.stream, h.y, got, sizeof got));
        open_held(&h);
        IN_THE_END(bp_stream_synchronize(h.s.stream));
        for (int k = 0; k < 4; k++) cr_assert_eq(got[k], -1.0f);
        check_copied(&h);
        held_finish(&h);
    }
}

/* The write is too large to be copied into the queue, so the queue would read the app's memory when
 * it executes the write. After the timeout it must not execute the write. */
Test(deadline, a_large_write_to_a_queue_is_not_done_later, .timeout = 60)
{
    enum { N = 1 << 20 };
    struct held h = hold_at(QUEUE);
    struct bp_tensor *large = floats_at(h.s.device, N);
    float *host = calloc(N, sizeof *host), *got = calloc(N, sizeof *got);

    open_held(&h);
    IN_THE_END(bp_tensor_write(h.s.stream, large, host, N * sizeof *host));
    IN_THE_END(bp_stream_synchronize(h.s.stream));
    hold_queue(h.s.stream, &latch);
    host[N - 1] = 5;
    FAILS(BP_ERR_TIMEOUT, "copy_in", bp_tensor_write(h.s.stream, large, host, N * sizeof *host));
    free(host);
    open_held(&h);
    IN_THE_END(bp_tensor_read(h.s.stream, large, got, N * sizeof *got));
    cr_assert_eq(got[N - 1], 0.0f);
    free(got);
    bp_tensor_destroy(large);
    held_finish(&h);
}

Test(deadline, extents_that_come_late_have_a_place, .timeout = 60)
{
    struct held h = hold_at(QUEUE);
    struct bp_tensor *found = NULL;
    struct bp_tensor_info info = {.size = sizeof info};

    FAILS(BP_ERR_TIMEOUT, "nonzero", bp_op_nonzero(bp_stream_scope(h.s.stream), h.x, &found));
    cr_assert_null(found);
    open_held(&h);
    IN_THE_END(bp_stream_synchronize(h.s.stream));
    IN_THE_END(bp_op_nonzero(bp_stream_scope(h.s.stream), h.x, &found));
    OK(bp_tensor_get_info(found, &info));
    cr_assert(info.shape[0] == 4 || info.shape[1] == 4);
    bp_tensor_destroy(found);
    held_finish(&h);
}

/* The host waits for the other stream, because an inline stream cannot. */
Test(deadline, a_wait_of_a_stream_for_another_ends, .timeout = 60)
{
    for (int i = 0; i < HELD; i++) {
        struct held h = hold_at(held_places[i]);
        struct bp_device *cpu;
        struct bp_stream *stream;
        struct bp_event *event = event_at(h.s.device);
        OK(bp_device_create(h.s.core, "cpu:0", &cpu));
        OK(bp_stream_create_with(cpu, BP_STREAM_INLINE, &stream));
        OK(bp_event_record(event, h.s.stream));
        FAILS(BP_ERR_TIMEOUT, "copy_within", bp_stream_wait(stream, event));
        open_held(&h);
        IN_THE_END(bp_stream_wait(stream, event));
        bp_event_destroy(event);
        bp_stream_destroy(stream);
        bp_device_destroy(cpu);
        held_finish(&h);
    }
}

Test(deadline, a_full_queue_refuses_in_time, .timeout = 60)
{
    struct held h = hold_at(QUEUE);
    struct bp_tensor *sum = NULL;

    for (int i = 1; i < 4096; i++) OK(bp_tensor_copy(h.s.stream, h.y, h.x));
    FAILS(BP_ERR_TIMEOUT, "stream 1", bp_tensor_copy(h.s.stream, h.y, h.x));
    FAILS(BP_ERR_TIMEOUT, "stream 1",
          bp_op_add(bp_stream_scope(h.s.stream), h.x, h.x, &sum));
    cr_assert_null(sum);
    open_held(&h);
    check_copied(&h);
    held_finish(&h);
}

Test(deadline, memory_that_is_in_use_is_not_waited_for_longer, .timeout = 60)
{
    for (int i = 1; i < HELD; i++) {
        struct held h;
        struct bp_tensor *t, *u;
        struct bp_buffer *buffer = NULL;
        setenv("BP_MEM_LIMIT", "3M", 1);
        h = hold_at(held_places[i]);
        unsetenv("BP_MEM_LIMIT");
        t = floats_at(h.s.device, 250000);
        u = floats_at(h.s.device, 250000);
        OK(bp_tensor_copy(h.s.stream, t, u));
        bp_tensor_destroy(t);
        bp_tensor_destroy(u);
        FAILS(BP_ERR_TIMEOUT, "memory for 2000000 bytes",
              bp_buffer_create(h.s.device, NULL, BP_SPACE_DEVICE, 2000000, &buffer));
        cr_assert(strstr(bp_error_message(), "copy_within"), "%s", bp_error_message());
        cr_assert_null(buffer);
        open_held(&h);
        IN_THE_END(bp_buffer_create(h.s.device, NULL, BP_SPACE_DEVICE, 2000000, &buffer));
        bp_buffer_destroy(buffer);
        held_finish(&h);
    }
}

static uint32_t count_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    uint32_t n = 0;

    while (readdir(tasks)) n++;
    closedir(tasks);
    return n;
}

/* If the plugin can only block, a thread of the core waits in it; the next wait uses the same
 * thread. */
Test(deadline, waits_that_ended_early_are_no_heap_of_threads, .timeout = 60)
{
    for (int i = 0; i < HELD; i++) {
        struct held h = hold_at(held_places[i]);
        uint32_t before = count_threads();
        for (int k = 0; k < 5; k++) {
            FAILS(BP_ERR_TIMEOUT, "not over", bp_stream_synchronize(h.s.stream));
            FAILS(BP_ERR_TIMEOUT, "not over", bp_device_synchronize(h.s.device));
        }
        cr_assert_leq(count_threads(), before + 2);
        held_finish(&h);
    }
}

static void *deadline_synchronize(void *stream)
{
    IN_THE_END(bp_stream_synchronize(stream));
    return NULL;
}

/* A monitoring thread can read which device, stream and launches a thread waits for. */
Test(deadline, a_wait_is_noted_while_it_lasts, .timeout = 60)
{
    for (int i = 0; i < HELD; i++) {
        struct held h = hold_at(held_places[i]);
        struct bp_activity a = {.size = sizeof a};
        char where[64];
        pthread_t waiter;
        snprintf(where, sizeof where, "%s, stream 1, launch", bp_device_name(h.s.device));
        pthread_create(&waiter, NULL, deadline_synchronize, h.s.stream);
        while (!bp_activity_find(0, &a) || a.step != BP_ACTIVITY_WAIT) usleep(1000);
        cr_assert(strstr(a.what, where) == a.what && strstr(a.what, "copy_within"), "%s", a.what);
        open_held(&h);
        pthread_join(waiter, NULL);
        while (bp_activity_find(0, &a)) usleep(1000); /* a thread may still be in the plugin */
        held_finish(&h);
    }
}

static void *deadline_cast(void *spot)
{
    struct spot *s = spot;
    struct bp_tensor *x = floats_at(s->device, 4), *y = NULL;
    const struct bp_cast_attrs to = {.size = sizeof to, .to = BP_F32};

    OK(bp_op_cast(bp_stream_scope(s->stream), x, &to, &y));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    return NULL;
}

/* The kernel row of the gated plugin takes a long time to prepare. */
Test(deadline, a_preparation_is_noted_too, .timeout = 60)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_activity a = {.size = sizeof a};
    pthread_t caster;

    pthread_create(&caster, NULL, deadline_cast, &s);
    while (!bp_activity_find(0, &a) || a.step != BP_ACTIVITY_PREPARE) usleep(1000);
    cr_assert_str_eq(a.plugin, "gated");
    cr_assert_str_eq(a.what, "gated_cast");
    pthread_join(caster, NULL);
    spot_finish(&s);
}

static char warning[2048];

static void keep_warning(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    if (level == BP_LOG_WARN) snprintf(warning, sizeof warning, "%s", text);
}

/* The plugin aborts if a stream with work is destroyed; sanitizers detect memory that is freed too
 * early. */
static void destroy_at(enum place place)
{
    const struct bp_core_options options = {.size = sizeof options, .log = keep_warning,
                                            .wait_timeout_ns = SECOND / 20};
    struct held h = {.s = {.core = NULL}};
    uint64_t before;

    *warning = 0;
    OK(bp_core_create(&options, &h.s.core));
    h.s.device = open_place(h.s.core, place);
    h.s.stream = stream_at(h.s.device, place);
    h.s.gate = control_of(place);
    h.x = floats_at(h.s.device, 4);
    h.y = floats_at(h.s.device, 4);
    if (h.s.gate) h.s.gate->hold(1);
    else hold_queue(h.s.stream, &latch);
    OK(bp_tensor_copy(h.s.stream, h.y, h.x));
    before = h.s.gate ? h.s.gate->ended() : 0;
    bp_tensor_destroy(h.x);
    bp_tensor_destroy(h.y);
    spot_finish(&h.s);
    cr_assert(strstr(warning, "wait_timeout_ns") && strstr(warning, "copy_within") &&
                  strstr(warning, "closed when"),
              "'%s'", warning);
    if (h.s.gate) cr_assert_eq(h.s.gate->ended(), before);
    open_held(&h);
    OK(bp_shutdown(40 * SECOND)); /* waits for devices that are being closed */
}

Test(deadline, a_device_that_works_is_closed_later_queue, .timeout = 60)
{
    destroy_at(QUEUE);
}

Test(deadline, a_busy_gated_device_is_closed_later, .timeout = 60)
{
    destroy_at(GATED);
}

Test(deadline, a_device_that_works_is_closed_later_plain, .timeout = 60)
{
    destroy_at(PLAIN);
}

Test(deadline, a_device_that_works_is_closed_later_single, .timeout = 60)
{
    destroy_at(SINGLE);
}

/* Also if the plugin can only block. */
Test(deadline, a_shutdown_ends_in_time, .timeout = 60)
{
    struct spot s = spot_at(SINGLE, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 4), *y = floats_at(s.device, 4);

    s.gate->hold(1);
    OK(bp_tensor_copy(s.stream, y, x));
    FAILS(BP_ERR_TIMEOUT, "copy_within", bp_shutdown(50000000));
    s.gate->open();
    IN_THE_END(bp_shutdown(SECOND));
}

Test(deadline, the_setting_is_read_with_care, .timeout = 60)
{
    static const char *const wrong[] = {"0", "-1", "soon", "1 s", "1e300", "nan"};
    struct bp_core_options options = {.size = sizeof options, .log = keep_warning};
    struct bp_core *core;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        *warning = 0;
        setenv("BP_WAIT_TIMEOUT", wrong[i], 1);
        OK(bp_core_create(&options, &core));
        cr_assert(strstr(warning, "BP_WAIT_TIMEOUT"), "%s: '%s'", wrong[i], warning);
        bp_core_destroy(core);
    }
    *warning = 0;
    setenv("BP_WAIT_TIMEOUT", "0.001", 1);
    options.wait_timeout_ns = UINT64_MAX;
    OK(bp_core_create(&options, &core));
    struct spot s = {.core = core, .device = open_place(core, GATED)};
    s.stream = stream_at(s.device, GATED);
    s.gate = control_of(GATED);
    OK(bp_stream_synchronize(s.stream)); /* a wait without a deadline */
    spot_finish(&s);
    cr_assert_str_empty(warning);
    unsetenv("BP_WAIT_TIMEOUT");
}
