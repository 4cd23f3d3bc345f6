/* SPDX-License-Identifier: Apache-2.0 */
/* test_status.c: tests plugins with a callback that returns an invalid status: the app's call
 * returns BP_ERR_DEVICE, and the message names the callback and the number. */
#include "../devices/fake.h"
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* The names of the callbacks in messages: kernels have the names of their rows. */
static const char *const name[] = {
#define X(callback) [FAKE_##callback] = #callback,
    FAKE_CALLBACKS(X)
#undef X
};

static const char *name_of(enum fake_callback callback)
{
    return callback == FAKE_launch    ? "strange_neg"
           : callback == FAKE_prepare ? "strange_abs"
           : callback == FAKE_accepts ? "strange_sqrt"
                                      : name[callback];
}

struct work {
    struct fixture f;
    struct bp_stream *other;
    struct bp_event *event;
    struct bp_buffer *buffer;
    struct bp_tensor *x, *y;
};

static enum bp_status status_run(struct work *w, const char *op)
{
    struct bp_arg in = {&w->x, 1};
    struct bp_call call = {.size = sizeof call, .op = op, .in = &in, .n_in = 1};

    bp_tensor_destroy(w->y), w->y = NULL;
    return bp_call_run(w->f.scope, &call, &w->y, 1, NULL);
}

/* Makes calls until one fails. Together they use each callback. */
static enum bp_status status_all(struct work *w)
{
    struct bp_memory_stats stats = {.size = sizeof stats};
    float data[4] = {1, 2, 3, 4};
    int32_t fd;
    uint64_t offset;
    enum bp_status status;

#define TRY(call) \
    if ((status = (call))) return status
    TRY(bp_stream_create(w->f.device, &w->f.stream));
    w->f.scope = bp_stream_scope(w->f.stream);
    TRY(bp_stream_create(w->f.device, &w->other));
    TRY(bp_tensor_create(w->f.device, BP_F32, 1, SHAPE(4), &w->x));
    TRY(bp_tensor_write(w->f.stream, w->x, data, sizeof data));
    TRY(status_run(w, "neg"));
    TRY(bp_tensor_copy(w->f.stream, w->y, w->x));
    TRY(status_run(w, "abs"));
    TRY(status_run(w, "sqrt"));
    TRY(status_run(w, "strange.neg"));
    TRY(bp_event_create(w->f.device, &w->event));
    TRY(bp_event_record(w->event, w->f.stream));
    if ((status = bp_event_query(w->event)) != BP_ERR_NOT_READY) return status;
    TRY(bp_stream_wait(w->other, w->event));
    TRY(bp_event_wait(w->event, UINT64_MAX));
    TRY(status_run(w, "neg"));
    TRY(bp_stream_synchronize(w->f.stream));
    TRY(bp_tensor_read(w->f.stream, w->y, data, sizeof data));
    TRY(bp_device_memory(w->f.device, &stats));
    TRY(bp_buffer_create(w->f.device, NULL, BP_SPACE_DEVICE, 64, &w->buffer));
    return bp_buffer_export(w->buffer, &fd, &offset);
#undef TRY
}

/* Returns the status of the work when one callback returns `answer`. message: a buffer for the
 * message. */
static enum bp_status work_with(enum fake_callback one, uint32_t result, const char *reason,
                                char *message, size_t size)
{
    static const char library[] = HOSTILE_DIR "/bp_strange.so";
    struct work w = {.y = NULL};
    enum bp_status status;
    struct fake *fake;
    uint32_t index;

    OK(bp_core_create(NULL, &w.f.core));
    OK(bp_core_load_path(w.f.core, library, &index));
    fake = fake_of(library);
    cr_assert_not_null(fake);
    fake->result(one, result, reason);
    status = bp_device_create_at(w.f.core, index, 0, &w.f.device);
    if (status == BP_OK) status = status_all(&w);
    snprintf(message, size, "%s", bp_error_message());
    fake->result(one, BP_OK, NULL);
    bp_tensor_destroy(w.x), bp_tensor_destroy(w.y);
    bp_event_destroy(w.event);
    bp_buffer_destroy(w.buffer);
    bp_stream_destroy(w.other);
    fixture_finish(&w.f);
    return status;
}

Test(status, a_plugin_without_a_status_has_failed)
{
    char why[2048], start[200];

    setenv("BP_FALLBACK", "deny", 1);
    cr_assert_eq(work_with(FAKE_launch, BP_OK, NULL, why, sizeof why), BP_OK, "%s", why);
    for (int i = 0; i < FAKE_COUNT; i++)
        for (int reason = 0; reason < 2; reason++) {
            const char *of = name_of((enum fake_callback)i);
            enum bp_status status;
            if (i == FAKE_copy_peer) continue; /* needs two devices */
            status = work_with((enum fake_callback)i, 4711, reason ? "the moon is full" : NULL,
                               why, sizeof why);
            snprintf(start, sizeof start, "%s answered 4711", of);
            cr_expect_eq(status, BP_ERR_DEVICE, "%s: %d, %s", of, (int)status, why);
            cr_expect(strstr(why, start), "%s: the message is %s", of, why);
            if (reason) cr_expect(strstr(why, "the moon is full"), "%s: %s", of, why);
        }
}
