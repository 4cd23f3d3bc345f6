/* SPDX-License-Identifier: Apache-2.0 */
/* test_kit_guard.c: tests the guards of sdk/kit on a device whose stream runs when the test
 * runs it. */
#include "fixture.h"
#include <kit/guard.h>

enum {
    BYTES = KIT_FAULTS * sizeof(uint32_t),
    QUEUE = 32
};

static const struct kit_report report = {&kit_host, "dev", 3};
static const char gather[] = "gather", scatter[] = "scatter";

/* A piece of work of a stream: a fault of a launch, a copy of the words, or their clearing. */
struct work {
    enum {
        FAULT,
        READ,
        CLEAR
    } kind;
    uint32_t *to;
    int word;
};

/* A stream with a guard, and its device memory. fails: the call with this number fails, from 1. */
struct dev {
    struct kit_stream kit; /* must be first */
    struct kit_guard guard;
    struct kit_streams list;
    uint32_t memory[KIT_FAULTS];
    struct work work[QUEUE];
    int n, run, allocated, reads, clears, calls, fails;
};

static enum bp_status dev_call(struct dev *d)
{
    return ++d->calls == d->fails ? BP_ERR_DEVICE : BP_OK;
}

static enum bp_status dev_allocate(struct kit_stream *stream, size_t size, void **out)
{
    struct dev *d = (struct dev *)stream;

    CHECK(size == BYTES, "the size is %zu", size);
    if (dev_call(d)) return BP_ERR_MEMORY;
    memset(d->memory, 0xab, BYTES);
    *out = d->memory;
    d->allocated++;
    return BP_OK;
}

static void dev_release(struct kit_stream *stream, void *memory)
{
    struct dev *d = (struct dev *)stream;

    CHECK(memory == d->memory, "another memory");
    d->allocated--;
}

static enum bp_status dev_clear(struct kit_stream *stream, void *memory, size_t size)
{
    struct dev *d = (struct dev *)stream;

    CHECK(memory == d->memory && size == BYTES, "the arguments");
    if (dev_call(d)) return BP_ERR_DEVICE;
    d->clears++;
    d->work[d->n++] = (struct work){.kind = CLEAR};
    return BP_OK;
}

static enum bp_status dev_read(struct kit_stream *stream, uint32_t *to, void *memory, size_t size)
{
    struct dev *d = (struct dev *)stream;

    CHECK(memory == d->memory && size == BYTES, "the arguments");
    if (dev_call(d)) return BP_ERR_DEVICE;
    d->reads++;
    d->work[d->n++] = (struct work){.kind = READ, .to = to};
    return BP_OK;
}

static const struct kit_guard_calls calls = {dev_allocate, dev_release, dev_clear, dev_read};

static void dev_begin(struct dev *d)
{
    *d = (struct dev){.kit.lock = PTHREAD_MUTEX_INITIALIZER,
                      .list.lock = PTHREAD_MUTEX_INITIALIZER};
    kit_stream_add(&d->list, &d->kit);
    kit_guard_begin(&d->guard, &d->kit, &calls, &report);
}

static void dev_end(struct dev *d)
{
    kit_stream_remove(&d->list, &d->kit);
    kit_guard_end(&d->guard);
    CHECK(!d->allocated, "%d allocations are left", d->allocated);
}

/* Runs the work that is enqueued up to now. */
static void dev_run(struct dev *d)
{
    for (; d->run < d->n; d->run++) {
        struct work *w = &d->work[d->run];
        if (w->kind == FAULT) d->memory[w->word] = 1;
        else if (w->kind == READ) memcpy(w->to, d->memory, BYTES);
        else memset(d->memory, 0, BYTES);
    }
}

/* Launches a row. */
static void dev_launch(struct dev *d, const char *row, bool bad)
{
    int word = -1;

    CHECK(!kit_guard_take(&d->guard, row, &word), "no word");
    if (bad) d->work[d->n++] = (struct work){.kind = FAULT, .word = word};
}

/* Waits for the stream, and returns what it reports. */
static enum bp_status dev_wait(struct dev *d)
{
    uint32_t words[KIT_FAULTS];
    struct kit_guard_copy copy = {.words = words};
    enum bp_status read = kit_guard_read(&d->guard, &copy);

    dev_run(d);
    return kit_guard_waited(&d->guard, &copy, read);
}

static void kit_expect_fault(const char *row)
{
    char text[200];

    snprintf(text, sizeof text,
             "dev:3: kernel %s found bad values in its inputs (code 1); what it wrote is undefined",
             row);
    kit_expect(text);
}

static void a_wait_reports_a_fault_once(void)
{
    struct dev d;

    dev_begin(&d);
    CHECK(dev_wait(&d) == BP_OK && !d.allocated && !d.reads, "words without a launch");
    dev_launch(&d, gather, false);
    dev_launch(&d, scatter, true);
    CHECK(dev_wait(&d) == BP_ERR_FAULT, "no fault");
    kit_expect_fault("scatter");
    CHECK(dev_wait(&d) == BP_OK && d.reads == 1, "%d copies", d.reads);
    dev_launch(&d, scatter, false);
    CHECK(dev_wait(&d) == BP_OK, "the fault is still in the words");
    dev_launch(&d, scatter, true);
    CHECK(dev_wait(&d) == BP_ERR_FAULT, "the next fault is lost");
    dev_end(&d);
}

/* The second launch of the row is enqueued before the host knows of the fault of the first. */
static void later_launches_of_the_row_are_not_blamed(void)
{
    uint32_t words[2][KIT_FAULTS];
    struct kit_guard_copy copy[2] = {{.words = words[0]}, {.words = words[1]}};
    struct dev d;

    dev_begin(&d);
    for (int i = 0; i < 2; i++) {
        dev_launch(&d, gather, i == 0);
        CHECK(!kit_guard_read(&d.guard, &copy[i]), "no copy");
    }
    dev_run(&d);
    CHECK(kit_guard_reached(&d.list, &copy[0]) == BP_ERR_FAULT, "no fault");
    kit_expect_fault("gather");
    CHECK(kit_guard_reached(&d.list, &copy[1]) == BP_OK, "the fault is reported twice");
    CHECK(kit_guard_reached(&d.list, &copy[0]) == BP_OK, "a second query reports it again");
    CHECK(dev_wait(&d) == BP_OK && d.reads == 2, "%d copies", d.reads);
    dev_end(&d);
}

/* And the other way around: an event says nothing about launches behind it. */
static void an_event_covers_earlier_launches(void)
{
    uint32_t words[2][KIT_FAULTS];
    struct kit_guard_copy copy[2] = {{.words = words[0]}, {.words = words[1]}};
    struct dev d;

    dev_begin(&d);
    for (int i = 0; i < 2; i++) {
        dev_launch(&d, gather, i == 1);
        CHECK(!kit_guard_read(&d.guard, &copy[i]), "no copy");
    }
    dev_run(&d);
    CHECK(kit_guard_reached(&d.list, &copy[0]) == BP_OK, "a fault of a later launch");
    CHECK(kit_guard_reached(&d.list, &copy[1]) == BP_ERR_FAULT, "no fault");
    dev_end(&d);
}

/* A wait reports faults of which only the copy of an event has the words. */
static void a_wait_takes_the_copies_of_events(void)
{
    uint32_t words[KIT_FAULTS];
    struct kit_guard_copy copy = {.words = words}, later = {.words = NULL};
    struct dev d;

    dev_begin(&d);
    dev_launch(&d, gather, true);
    CHECK(!kit_guard_read(&d.guard, &copy), "no copy");
    CHECK(!kit_guard_has_news(&d.guard), "there is no launch behind the copy");
    CHECK(!kit_guard_read(&d.guard, &later) && later.mark.launched == 1, "the second event");
    CHECK(dev_wait(&d) == BP_ERR_FAULT && d.reads == 1, "no fault, or %d copies", d.reads);
    kit_expect_fault("gather");
    CHECK(kit_guard_reached(&d.list, &copy) == BP_OK, "the event reports it again");
    CHECK(kit_guard_reached(&d.list, &later) == BP_OK, "the second event reports it again");
    kit_guard_forget(&d.list, &copy);
    dev_end(&d);
}

/* An event with the only copy of the words is destroyed, or recorded again. */
static void forgotten_copies_leave_their_faults(void)
{
    uint32_t words[KIT_FAULTS];
    struct kit_guard_copy copy = {.words = words};
    struct dev d;

    dev_begin(&d);
    dev_launch(&d, gather, true);
    CHECK(!kit_guard_read(&d.guard, &copy), "no copy");
    dev_run(&d);
    kit_guard_forget(&d.list, &copy);
    CHECK(!copy.mark.launched && !d.guard.first, "the copy is in the list");
    memset(words, 0, sizeof words);
    CHECK(dev_wait(&d) == BP_ERR_FAULT, "the fault is lost");
    kit_expect_fault("gather");
    dev_end(&d);
}

static void events_outlive_streams(void)
{
    uint32_t words[KIT_FAULTS];
    struct kit_guard_copy copy = {.words = words};
    struct kit_streams list;
    struct dev d;

    dev_begin(&d);
    dev_launch(&d, gather, true);
    CHECK(!kit_guard_read(&d.guard, &copy), "no copy");
    dev_run(&d);
    dev_end(&d);
    list = d.list;
    memset(&d.kit, 0xcd, sizeof d.kit);
    CHECK(kit_guard_reached(&list, &copy) == BP_OK, "a fault of no stream");
    kit_guard_forget(&list, &copy);
    CHECK(!copy.mark.launched, "the mark");
}

/* A replay of a capture would copy into the words of an event. */
static void captures_have_no_copies(void)
{
    struct kit_guard_copy copy = {.words = NULL};
    struct dev d;

    dev_begin(&d);
    dev_launch(&d, gather, true);
    d.kit.captured = true;
    CHECK(!kit_guard_has_news(&d.guard), "a copy is needed");
    CHECK(!kit_guard_read(&d.guard, &copy) && !copy.mark.launched, "the mark");
    dev_launch(&d, scatter, false);
    d.kit.captured = false;
    CHECK(d.kit.faults_captured == 2 && !d.reads, "%d copies", d.reads);
    CHECK(dev_wait(&d) == BP_ERR_FAULT, "no fault");
    kit_expect_fault("gather");
    kit_fault_replay(&d.kit, d.kit.faults_captured);
    d.work[d.n++] = (struct work){.kind = FAULT, .word = 1};
    CHECK(dev_wait(&d) == BP_ERR_FAULT, "no fault of the replay");
    kit_expect_fault("scatter");
    dev_end(&d);
}

/* Fails each call in turn; the fault is reported by the next wait. */
static void failures_lose_no_fault(void)
{
    struct dev d;
    int word, fail = 1;

    for (; fail <= 2; fail++) {
        dev_begin(&d);
        d.fails = fail;
        CHECK(kit_guard_provide(&d.guard) == (fail == 1 ? BP_ERR_MEMORY : BP_ERR_DEVICE), "made");
        CHECK(!d.allocated && !kit_guard_take(&d.guard, gather, &word), "call %d", fail);
        CHECK(d.allocated == 1 && !kit_guard_provide(&d.guard) && d.allocated == 1, "made twice");
        dev_end(&d);
    }
    for (; fail <= 4; fail++) {
        dev_begin(&d);
        d.fails = fail;
        dev_launch(&d, gather, true);
        CHECK(dev_wait(&d) == BP_ERR_DEVICE && !d.guard.first, "call %d", fail);
        CHECK(dev_wait(&d) == BP_ERR_FAULT, "the fault is lost by call %d", fail);
        kit_expect_fault("gather");
        dev_end(&d);
    }
}

/* The wait fails: its copy, in memory of the caller, leaves the list, with its faults. */
static void failed_waits_leave_the_list(void)
{
    uint32_t words[KIT_FAULTS];
    struct kit_guard_copy copy = {.words = words};
    struct dev d;

    dev_begin(&d);
    dev_launch(&d, gather, true);
    CHECK(!kit_guard_read(&d.guard, &copy), "no copy");
    dev_run(&d);
    CHECK(kit_guard_waited(&d.guard, &copy, BP_ERR_DEVICE) == BP_ERR_DEVICE, "the outcome");
    CHECK(!d.guard.first, "the copy is in the list");
    CHECK(dev_wait(&d) == BP_ERR_FAULT, "the fault is lost");
    dev_end(&d);
}

int main(void)
{
    static const struct kit_test tests[] = {
#define X(name) {#name, name},
        X(a_wait_reports_a_fault_once) X(later_launches_of_the_row_are_not_blamed)
            X(an_event_covers_earlier_launches) X(a_wait_takes_the_copies_of_events)
                X(forgotten_copies_leave_their_faults) X(events_outlive_streams)
                    X(captures_have_no_copies) X(failures_lose_no_fault)
                        X(failed_waits_leave_the_list)
#undef X
    };

    return kit_run(tests, sizeof tests / sizeof *tests);
}
