/* SPDX-License-Identifier: Apache-2.0 */
/* runtime_other.c: tests streams that wait for events of another device, cpu:0, in both
 * directions. */
#include "suites.h"
#include "async_fixture.h"

enum { BYTES = 4096 };

/* Work on the device under test, and work on cpu:0 with its own fixture. */
struct both {
    struct work here, there;
    struct fixture fixture;
    struct check check;
    bool two; /* cpu:0 is another device */
};

static bool runtime_other_begin(struct both *b, struct check *c, const int64_t *arg)
{
    *b = (struct both){.fixture = *c->fixture, .check = {&b->fixture, c->result, c->id}};
    work_init(&b->here, c);
    b->fixture.device = NULL;
    if (bp_device_create(c->fixture->core, "cpu:0", &b->fixture.device)) {
        check_skip(c, "there is no cpu:0 to wait for: %s", bp_error_message());
        return false;
    }
    work_init(&b->there, &b->check);
    if (b->fixture.device == c->fixture->device) {
        check_skip(c, "this is cpu:0 itself");
        return false;
    }
    b->two = true;
    return check_ok(c, bp_device_get_properties(b->fixture.device, &b->fixture.properties),
                    "bp_device_get_properties of cpu:0") &&
           work_stream(&b->here, 0, arg[0]) && work_stream(&b->there, 0, BP_STREAM_ASYNC) &&
           work_stream(&b->there, 1, BP_STREAM_INLINE) &&
           work_tensor(&b->here, 0, WORK_HOST, BYTES) &&
           work_tensor(&b->here, 1, WORK_HOST, BYTES) &&
           work_tensor(&b->there, 0, WORK_HOST, BYTES) && work_fill(&b->here, 0, 0, 1) &&
           work_sync(&b->here, 0);
}

static void runtime_other_finish(struct both *b)
{
    if (b->two) work_finish(&b->there);
    work_finish(&b->here);
    bp_device_destroy(b->fixture.device);
}

static bool wait_for(struct work *w, int stream, struct work *of)
{
    return check_ok(w->c, bp_stream_wait(w->stream[stream], of->event[0]),
                    "bp_stream_wait for an event of another device");
}

/* Work on the device under test waits for held work on cpu:0. */
static void runtime_other_theirs(struct check *c, const int64_t *arg)
{
    struct both b;

    if (runtime_other_begin(&b, c, arg) && work_shut(&b.there, 0) && work_fill(&b.there, 0, 0, 5) &&
        work_record(&b.there, 0, 0) && work_open_soon(&b.there, 1) &&
        wait_for(&b.here, 0, &b.there) && work_copy(&b.here, 0, 1, 0) && work_sync(&b.here, 0) &&
        work_was_opened(&b.there, "bp_stream_synchronize of a stream that waits for cpu:0") &&
        work_holds(&b.there, 0, 0, 5, "the work that was waited for"))
        work_holds(&b.here, 0, 1, 1, "the work that waited");
    runtime_other_finish(&b);
}

/* Work on cpu:0 waits for work on the device under test. */
static void runtime_other_ours(struct check *c, const int64_t *arg, int stream)
{
    struct both b;

    if (runtime_other_begin(&b, c, arg) && work_shut(&b.here, 0) && work_copy(&b.here, 0, 1, 0) &&
        work_record(&b.here, 0, 0) && work_open_soon(&b.here, 1) &&
        wait_for(&b.there, stream, &b.here) && work_fill(&b.there, stream, 0, 5) &&
        work_sync(&b.there, stream) &&
        check_ok(c, bp_event_query(b.here.event[0]),
                 "bp_event_query of what a stream of cpu:0 has waited for") &&
        work_was_opened(&b.here, "bp_stream_synchronize of a stream of cpu:0 that waits") &&
        work_holds(&b.there, stream, 0, 5, "the work that waited"))
        work_holds(&b.here, 0, 1, 1, "the work that was waited for");
    runtime_other_finish(&b);
}

static void ours_async(struct check *c, const int64_t *arg)
{
    runtime_other_ours(c, arg, 0);
}

static void ours_inline(struct check *c, const int64_t *arg)
{
    runtime_other_ours(c, arg, 1);
}

/* A copy to cpu:0 waits for the held work that writes its source. */
static void runtime_other_copied(struct check *c, const int64_t *arg)
{
    struct both b;

    if (runtime_other_begin(&b, c, arg) && work_shut(&b.here, 0) && work_copy(&b.here, 0, 1, 0) &&
        work_open_soon(&b.here, 1) &&
        check_ok(c, bp_tensor_copy(b.there.stream[1], b.there.tensor[0], b.here.tensor[1]),
                 "bp_tensor_copy to cpu:0") &&
        work_was_opened(&b.here, "bp_tensor_copy to cpu:0"))
        work_holds(&b.there, 1, 0, 1, "what was copied to cpu:0");
    runtime_other_finish(&b);
}

const struct check_kinds suite_runtime_other[] = {
    {"other/waits-for-host", runtime_other_theirs, 1},
    {"other/async-host-waits", ours_async, 1},
    {"other/inline-host-waits", ours_inline, 1},
    {"other/copied-to-host", runtime_other_copied, 1},
    {NULL, NULL, 0},
};
