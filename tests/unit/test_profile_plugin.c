/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile_plugin.c: tests what a profile has of a plugin's records: of each way of submitting
 * work, by clocks with other offsets and rates, and of a plugin that hands over wrong, late or very
 * many records, or whose callbacks fail. */
#include "profiled_kit.h"

TestSuite(profile_plugin, .init = kit_init, .fini = kit_finish, .timeout = 60);

/* ---- work ---- */

enum {
    ROUNDS = 10
};

struct calls {
    struct fixture f;
    struct bp_tensor *x, *y;
    struct bp_prepared *prepared;
    struct bp_graph *graph;
    struct bp_program *program;
};

static struct calls calls_begin(void)
{
    struct calls c = {.f = kit_open()};
    struct bp_tensor *x, *y = NULL;

    c.x = tensor_of(&c.f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 3, 4, 5, 6));
    OK(bp_op_add(c.f.scope, c.x, c.x, &c.y));
    struct bp_tensor *in[2] = {c.x, c.x};
    struct bp_arg arg[2] = {{&in[0], 1}, {&in[1], 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = arg, .n_in = 2};
    OK(bp_prepared_create(c.f.device, &call, NULL, 0, &c.prepared));
    OK(bp_graph_create(c.f.core, &c.graph));
    OK(bp_graph_input(c.graph, "x", BP_F32, 2, SHAPE(2, 3), &x));
    OK(bp_op_add(bp_graph_scope(c.graph), x, x, &y));
    OK(bp_graph_output(c.graph, y, "y"));
    OK(bp_program_create(c.graph, c.f.device, &c.program));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    OK(bp_stream_synchronize(c.f.stream));
    return c;
}

static void calls_finish(struct calls *c)
{
    OK(bp_stream_synchronize(c->f.stream));
    bp_program_destroy(c->program);
    bp_graph_destroy(c->graph);
    bp_prepared_destroy(c->prepared);
    bp_tensor_destroy(c->x);
    bp_tensor_destroy(c->y);
    fixture_finish(&c->f);
}

/* One call of each way: a copy, an eager, a prepared and a graph's call, and a program's run. */
static void calls_run(struct calls *c)
{
    struct bp_tensor *in[2] = {c->x, c->x};

    OK(bp_tensor_write(c->f.stream, c->x, F32(1, 2, 3, 4, 5, 6), 24));
    OK(bp_op_add(c->f.scope, c->x, c->x, &c->y));
    OK(bp_prepared_run(c->prepared, c->f.stream, in, 2, &c->y, 1, NULL));
    OK(bp_graph_run(c->graph, c->f.stream, &c->x, 1, &c->y, 1));
    OK(bp_program_run(c->program, c->f.stream, &c->x, 1, &c->y, 1));
}

/* Asserts that `record` is the plugin's record of the submission. The record encloses it, because
 * the plugin reads its clock when it gets the tag and when the tag is reset. */
static void expect_record(const struct bp_profile_event *submit,
                          const struct bp_profile_event *record)
{
    cr_assert_str_eq(record->name, "work"); /* the word of the plugin's kind */
    cr_assert_str_eq(record->kernel, "work");
    cr_assert_str_eq(record->device, "profiled:0");
    cr_assert(record->kind == BP_RECORD_OTHER && record->on_device && !record->thread);
    cr_assert_eq(record->stream, submit->stream);
    cr_assert_eq(record->bytes, submit->tag);
    cr_assert(record->begin_ns <= submit->begin_ns + MS && record->end_ns + MS >= submit->end_ns,
              "%s: the record is from %llu to %llu, the call from %llu to %llu", submit->name,
              (unsigned long long)record->begin_ns, (unsigned long long)record->end_ns,
              (unsigned long long)submit->begin_ns, (unsigned long long)submit->end_ns);
}

/* Asserts that each submission has one record, and each record a submission; and that records do
 * not overlap, which times that are shifted by a millisecond would. Returns their number. */
static uint64_t expect_records(struct bp_profile *p)
{
    uint64_t submits = 0, records = 0, n = bp_profile_events(p);
    struct bp_profile_event *event = calloc(n, sizeof *event), *last = NULL;

    for (uint64_t i = 0; i < n; i++) {
        event[i] = kit_event(p, i);
        if (event[i].kind != BP_RECORD_OTHER) continue;
        cr_assert(!last || last->end_ns <= event[i].begin_ns + MS);
        last = &event[i];
        records++;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t found = 0;
        if (event[i].kind != BP_PROFILE_SUBMIT) continue;
        cr_assert(event[i].tag && event[i].stream && event[i].thread);
        for (uint64_t k = 0; k < n; k++) {
            if (event[k].kind != BP_RECORD_OTHER || event[k].tag != event[i].tag) continue;
            expect_record(&event[i], &event[k]);
            found++;
        }
        cr_assert_eq(found, 1, "%s: work %llu has %llu records", event[i].name,
                     (unsigned long long)event[i].tag, (unsigned long long)found);
        submits++;
    }
    cr_assert_eq(submits, records);
    free(event);
    return records;
}

static uint64_t submits_named(struct bp_profile *p, const char *name)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = kit_event(p, i);
        n += e.kind == BP_PROFILE_SUBMIT && !strcmp(e.name, name);
    }
    return n;
}

Test(profile_plugin, work_of_each_way_of_calling_has_its_record)
{
    struct calls c = calls_begin();
    struct bp_profiler *profiler = kit_start();

    for (int i = 0; i < ROUNDS; i++) calls_run(&c);
    OK(bp_stream_synchronize(c.f.stream));
    struct bp_profile *p = kit_stop(profiler);
    cr_assert_eq(expect_records(p), atomic_load(&profiled->tags));
    cr_assert_eq(submits_named(p, "copy_in"), ROUNDS);
    /* The second run of the program is recorded, which submits its launch once more. */
    cr_assert_eq(submits_named(p, "add"), 3 * ROUNDS + 2);
    cr_assert_eq(submits_named(p, "replay"), ROUNDS - 1);
    cr_assert(!kit_info(p).misdated && !kit_info(p).late && !kit_info(p).lost);
    cr_assert(!atomic_load(&profiled->faults) && atomic_load(&profiled->starts) == 1 &&
              atomic_load(&profiled->stops) == 1);
    bp_profile_destroy(p);
    calls_run(&c); /* not tagged any more */
    cr_assert(!atomic_load(&profiled->faults));
    calls_finish(&c);
}

Test(profile_plugin, two_streams_have_tags_of_their_own)
{
    struct fixture f = kit_open();
    struct bp_stream *other;
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(1, 2)), *y = NULL, *z = NULL;

    OK(bp_stream_create(f.device, &other));
    struct bp_profiler *profiler = kit_start();
    for (int i = 0; i < ROUNDS; i++) {
        OK(bp_op_add(f.scope, x, x, &y));
        if (i % 2) OK(bp_op_mul(bp_stream_scope(other), x, x, &z));
    }
    OK(bp_device_synchronize(f.device));
    struct bp_profile *p = kit_stop(profiler);
    uint32_t first = bp_stream_number(f.stream), second = bp_stream_number(other);
    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = kit_event(p, i);
        if (e.kind == BP_PROFILE_SUBMIT && !strcmp(e.name, "mul")) cr_assert_eq(e.stream, second);
        if (e.kind == BP_PROFILE_SUBMIT && !strcmp(e.name, "add")) cr_assert_eq(e.stream, first);
    }
    cr_assert(submits_named(p, "add") == ROUNDS && submits_named(p, "mul") == ROUNDS / 2);
    cr_assert(!atomic_load(&profiled->faults) && first != second);
    bp_profile_destroy(p);
    bp_stream_destroy(other);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    fixture_finish(&f);
}

/* ---- clocks ---- */

/* Runs calls for 0.2 s, so that a clock with another rate moves far from the host's. */
static void expect_clock(uint64_t offset_ns, double rate)
{
    struct calls c = calls_begin();

    profiled->offset_ns = offset_ns;
    profiled->rate = rate;
    struct bp_profiler *profiler = kit_start();
    for (int i = 0; i < 4; i++) {
        calls_run(&c);
        usleep(50000);
    }
    calls_run(&c);
    OK(bp_stream_synchronize(c.f.stream));
    struct bp_profile *p = kit_stop(profiler);
    cr_assert(expect_records(p) >= 25 && !kit_info(p).misdated);
    bp_profile_destroy(p);
    calls_finish(&c);
}

Test(profile_plugin, a_clock_that_began_long_ago_and_runs_fast_is_converted)
{
    expect_clock(UINT64_C(1) << 60, 1.5);
}
Test(profile_plugin, a_clock_that_begins_at_0_and_runs_slowly_is_converted)
{
    expect_clock(0, 0.25);
}

/* Without readings between the beginning and the end, times in the middle would be off by about 5
 * ms. */
static void expect_drift(bool steps)
{
    struct calls c = calls_begin();
    struct bp_profiler *profiler = kit_start();

    for (int i = 0; i < 50; i++) {
        if (i == 25) profiled->set_rate(1.02);
        calls_run(&c);
        if (steps) OK(bp_profiler_step(profiler));
        else OK(bp_stream_synchronize(c.f.stream));
        usleep(20000);
    }
    uint64_t flushes = atomic_load(&profiled->flushes), readings = atomic_load(&profiled->readings);
    struct bp_profile *p = kit_stop(profiler);
    cr_assert(expect_records(p) >= 250 && !kit_info(p).misdated);
    cr_assert(flushes >= 4 && flushes <= 50 && readings >= flushes && readings <= 20 * flushes,
              "%llu flushes, %llu readings", (unsigned long long)flushes,
              (unsigned long long)readings);
    bp_profile_destroy(p);
    calls_finish(&c);
}

Test(profile_plugin, a_clock_that_drifts_is_followed_at_steps)
{
    expect_drift(true);
}
Test(profile_plugin, a_clock_that_drifts_is_followed_at_waits)
{
    expect_drift(false);
}

/* ---- records that the test hands over ---- */

static struct bp_record record_of(uint64_t begin, uint64_t end, uint32_t kind, const char *name)
{
    return (struct bp_record){.begin_ns = begin,
                              .end_ns = end,
                              .kind = kind,
                              .name = name,
                              .tag = 7,
                              .bytes = 9,
                              .queue = 3};
}

Test(profile_plugin, kinds_and_names_of_records_are_kept)
{
    static const uint32_t unknown[] = {0, 9, 16, 63, PROFILED_WORK + 1, 1000, UINT32_MAX};
    struct fixture f = kit_open();
    struct bp_profiler *profiler = kit_start();
    struct bp_record record[17];
    uint64_t now = profiled->now();
    char name[16] = "first";
    size_t n = 0;

    for (uint32_t kind = BP_RECORD_KERNEL; kind <= BP_RECORD_OTHER; kind++, n++)
        record[n] = record_of(now + n, now + n, kind, NULL);
    for (size_t i = 0; i < 7; i++, n++) record[n] = record_of(now + n, now + n, unknown[i], "");
    record[n] = record_of(now + n, now + n, BP_RECORD_OWN, name), n++;
    profiled->put(record, n, sizeof *record);
    strcpy(name, "second"); /* at the same address */
    record[n] = record_of(now + n, now + n, PROFILED_WORK, name), n++;
    profiled->put(&record[n - 1], 1, sizeof *record);
    struct bp_profile *p = kit_stop(profiler);
    cr_assert_eq(bp_profile_events(p), 17);
    for (uint32_t i = 0; i < 17; i++) {
        struct bp_profile_event e = kit_event(p, i);
        cr_assert_eq(e.kind, i < 8 ? BP_RECORD_KERNEL + i : BP_RECORD_OTHER, "%u: %u", i, e.kind);
        cr_assert_str_eq(e.kernel, i < 15 ? "" : i == 15 ? "first" : "second");
        cr_assert_str_eq(e.name, i < 15 ? "" : i == 15 ? "rest" : "work");
        cr_assert(e.tag == 7 && e.bytes == 9 && e.queue == 3 && !e.stream && e.on_device);
    }
    bp_profile_destroy(p);
    fixture_finish(&f);
}

Test(profile_plugin, records_in_any_order_become_ordered_events)
{
    struct fixture f = kit_open();
    struct bp_profiler *profiler = kit_start();
    uint64_t first = profiled->now();
    struct bp_record record[1000];

    for (uint64_t i = 0; i < 1000; i++) {
        record[i] = record_of(first + i * 7 % 1000 * 100, first + i * 7 % 1000 * 100 + 50,
                              BP_RECORD_KERNEL, NULL);
        record[i].tag = i * 7 % 1000 + 1;
    }
    while (profiled->now() < first + 100050) continue;
    profiled->put(record, 1000, sizeof *record);
    struct bp_profile *p = kit_stop(profiler);
    cr_assert(bp_profile_events(p) == 1000 && !kit_info(p).misdated);
    for (uint64_t i = 0; i < 1000; i++) cr_assert_eq(kit_event(p, i).tag, i + 1);
    bp_profile_destroy(p);
    fixture_finish(&f);
}

Test(profile_plugin, records_with_impossible_times_are_counted_only)
{
    const uint64_t second = 1000 * (uint64_t)MS, day = 86400 * second;
    struct fixture f = kit_open();

    profiled->offset_ns = 100 * day;
    uint64_t before = profiled->now();
    usleep(5000);
    struct bp_profiler *profiler = kit_start();
    uint64_t now = profiled->now();
    struct bp_record wrong[] = {
        record_of(now, now - 1, BP_RECORD_KERNEL, NULL),               /* ends before it begins */
        record_of(now + second, now + second, BP_RECORD_KERNEL, NULL), /* after the end */
        record_of(now + 50 * day, now + 51 * day, BP_RECORD_KERNEL, NULL),
        record_of(UINT64_MAX, UINT64_MAX, BP_RECORD_KERNEL, NULL),
        record_of(0, 0, BP_RECORD_KERNEL, NULL),
        record_of(before, before, BP_RECORD_KERNEL, NULL),
        record_of(0, UINT64_MAX, BP_RECORD_KERNEL, NULL),
    };
    struct bp_record good = record_of(now, now, BP_RECORD_KERNEL, NULL);
    profiled->put(wrong, sizeof wrong / sizeof *wrong, sizeof *wrong);
    profiled->put(&good, 1, sizeof good);
    struct bp_profile *p = kit_stop(profiler);
    cr_assert_eq(bp_profile_events(p), 1, "%llu", (unsigned long long)bp_profile_events(p));
    cr_assert_eq(kit_info(p).misdated, sizeof wrong / sizeof *wrong);
    bp_profile_destroy(p);
    fixture_finish(&f);
}

/* Plugins with headers of another version have shorter or longer records. */
Test(profile_plugin, records_of_other_sizes_are_taken)
{
    struct wide {
        struct bp_record record;
        uint64_t more[3];
    } wide[100];
    struct {
        uint64_t begin, end, tag;
    } narrow[100];
    struct fixture f = kit_open();
    struct bp_profiler *profiler = kit_start();
    uint64_t now = profiled->now();

    memset(wide, 0xff, sizeof wide);
    for (uint64_t i = 0; i < 100; i++) {
        wide[i].record = record_of(now + i, now + i, BP_RECORD_COPY, "wide");
        narrow[i].begin = narrow[i].end = now + 100 + i;
        narrow[i].tag = i;
    }
    profiled->put(&wide->record, 100, sizeof *wide);
    profiled->put((const void *)narrow, 100, sizeof *narrow);
    profiled->put((const void *)narrow, 100, 4);
    profiled->put(NULL, 100, sizeof *wide);
    profiled->put(&wide->record, 0, sizeof *wide);
    struct bp_profile *p = kit_stop(profiler);
    cr_assert_eq(bp_profile_events(p), 200);
    for (uint64_t i = 0; i < 200; i++) {
        struct bp_profile_event e = kit_event(p, i);
        cr_assert_eq(e.kind, i < 100 ? BP_RECORD_COPY : BP_RECORD_OTHER);
        cr_assert_str_eq(e.kernel, i < 100 ? "wide" : "");
        cr_assert(e.tag == (i < 100 ? 7 : i - 100) && e.bytes == (i < 100 ? 9 : 0));
    }
    bp_profile_destroy(p);
    fixture_finish(&f);
}

Test(profile_plugin, records_after_stop_are_counted_as_late)
{
    struct fixture f = kit_open();
    struct bp_profiler *profiler = kit_start(), *next;
    uint64_t now = profiled->now();
    struct bp_record record = record_of(now, now, BP_RECORD_COPY, NULL);

    profiled->put(&record, 1, sizeof record);
    OK(bp_profiler_stop(profiler));
    for (int i = 0; i < 5; i++) profiled->put(&record, 1, sizeof record);
    cr_assert(kit_profiler_info(profiler).late == 5 && kit_profiler_info(profiler).events == 1,
              "%llu late", (unsigned long long)kit_profiler_info(profiler).late);
    OK(bp_profiler_start(NULL, &next));
    cr_assert_eq(kit_profiler_info(next).late, 0);
    profiled->put(&record, 1, sizeof record); /* from before the start */
    cr_assert_eq(kit_profiler_info(profiler).late, 5);
    OK(bp_profiler_stop(next));
    profiled->put(&record, 1, sizeof record);
    cr_assert(kit_profiler_info(profiler).late == 5 && kit_profiler_info(next).late == 1);
    struct bp_profile *p = kit_stop(profiler);
    cr_assert(bp_profile_events(p) == 1 && kit_info(p).late == 5);
    bp_profile_destroy(p);
    OK(bp_profiler_save(next, profile_path));
    bp_profiler_destroy(next);
    OK(bp_profile_open(profile_path, &p));
    cr_assert(kit_info(p).misdated == 1 && !bp_profile_events(p) && kit_info(p).late == 1);
    bp_profile_destroy(p);
    fixture_finish(&f);
}

/* 2 million records in one call: all of them find room, or the rest is counted. */
static void expect_flood(uint64_t max_bytes)
{
    const size_t flood = 2000000;
    struct bp_profiler_options options = {.size = sizeof options, .max_bytes = max_bytes};
    struct bp_record *record = malloc(flood * sizeof *record);
    struct fixture f = kit_open();
    struct bp_profiler *profiler;

    OK(bp_profiler_start(&options, &profiler));
    uint64_t now = profiled->now();
    for (size_t i = 0; i < flood; i++) record[i] = record_of(now, now, BP_RECORD_KERNEL, "flood");
    profiled->put(record, flood, sizeof *record);
    struct bp_profiler_info info = kit_profiler_info(profiler);
    cr_assert_eq(info.events + info.lost, flood);
    if (max_bytes) cr_assert(info.lost && info.bytes <= max_bytes && info.events > 50000);
    else cr_assert(!info.lost);
    bp_profiler_destroy(profiler);
    free(record);
    fixture_finish(&f);
}

Test(profile_plugin, a_flood_of_records_is_not_lost)
{
    expect_flood(0);
}
Test(profile_plugin, a_flood_beyond_the_largest_size_is_counted)
{
    expect_flood(8 << 20);
}

/* ---- callbacks ---- */

Test(profile_plugin, a_start_that_fails_leaves_the_times_of_the_host)
{
    static const char *const reason[] = {"the counters are in use", NULL};
    struct calls c = calls_begin();

    for (int i = 0; i < 2; i++) {
        profiled->start_status = BP_ERR_UNSUPPORTED;
        profiled->start_reason = reason[i];
        *warning = 0;
        struct bp_profiler *profiler = kit_start();
        cr_assert(strstr(warning, "profiled:0: a profile has no times of the device") &&
                      strstr(warning, reason[i] ? reason[i] : "start failed and gave no reason"),
                  "%s", warning);
        calls_run(&c);
        struct bp_profile *p = kit_stop(profiler);
        cr_assert(submits_named(p, "add") + submits_named(p, "replay") >= 4);
        for (uint64_t k = 0; k < bp_profile_events(p); k++) cr_assert(!kit_event(p, k).on_device);
        bp_profile_destroy(p);
    }
    cr_assert(!atomic_load(&profiled->stops) && !atomic_load(&profiled->tags) &&
              !atomic_load(&profiled->readings));
    profiled->start_status = BP_OK;
    struct bp_profiler *profiler = kit_start();
    calls_run(&c);
    struct bp_profile *p = kit_stop(profiler);
    cr_assert(expect_records(p) && atomic_load(&profiled->stops) == 1);
    bp_profile_destroy(p);
    calls_finish(&c);
}

/* Without points the times of records cannot be converted. */
Test(profile_plugin, a_clock_that_fails_is_reported)
{
    struct calls c = calls_begin();

    profiled->clock_status = BP_ERR_DEVICE;
    struct bp_profiler *profiler = kit_start();
    cr_assert(strstr(warning, "profiled:0: the times of records of the device may be wrong") &&
                  strstr(warning, "clock failed"),
              "%s", warning);
    calls_run(&c);
    struct bp_profile *p = kit_stop(profiler);
    cr_assert(kit_info(p).misdated == atomic_load(&profiled->tags) && kit_info(p).misdated >= 5);
    bp_profile_destroy(p);
    calls_finish(&c);
}

Test(profile_plugin, ranges_reach_the_plugin_at_all_times)
{
    struct fixture f = kit_open();

    bp_range_begin("outer");
    cr_assert_str_eq(profiled->range, "outer");
    struct bp_profiler *profiler = kit_start();
    bp_range_begin("inner");
    cr_assert_str_eq(profiled->range, "inner");
    bp_range_begin(NULL);
    cr_assert_str_eq(profiled->range, "");
    bp_range_end();
    bp_range_end();
    bp_profiler_destroy(profiler);
    cr_assert(atomic_load(&profiled->begun) == 3 && atomic_load(&profiled->ended) == 2);
    bp_range_end();
    bp_range_end(); /* of no range */
    cr_assert(atomic_load(&profiled->begun) == 3 && atomic_load(&profiled->ended) == 3);
    fixture_finish(&f);
    bp_range_begin("without a device");
    bp_range_end();
    cr_assert(atomic_load(&profiled->begun) == 3 && atomic_load(&profiled->ended) == 3);
}

Test(profile_plugin, marks_reach_the_plugin_at_all_times)
{
    struct fixture f = kit_open();

    bp_mark("before");
    cr_assert_str_eq(profiled->mark, "before");
    struct bp_profiler *profiler = kit_start();
    bp_mark("meanwhile");
    cr_assert_str_eq(profiled->mark, "meanwhile");
    bp_mark(NULL);
    cr_assert_str_eq(profiled->mark, "");
    struct bp_profile *p = kit_stop(profiler);
    bp_profile_destroy(p);
    cr_assert(atomic_load(&profiled->marks) == 3 && !atomic_load(&profiled->begun));
    fixture_finish(&f);
    bp_mark("without a device");
    cr_assert(atomic_load(&profiled->marks) == 3);
}

/* The plugin's table ends before the member, whose memory is not the core's to read. */
Test(profile_plugin, marks_do_not_reach_a_plugin_that_was_built_without_them)
{
    char plugin[512];

    snprintf(plugin, sizeof plugin, "%.*s_old.so", (int)strlen(PROFILED_PLUGIN) - 3,
             PROFILED_PLUGIN);
    struct fixture f = kit_open_plugin(plugin);
    bp_range_begin("range");
    bp_mark("mark");
    bp_range_end();
    cr_assert(atomic_load(&profiled->begun) == 1 && atomic_load(&profiled->ended) == 1);
    cr_assert(!atomic_load(&profiled->marks));
    fixture_finish(&f);
}

Test(profile_plugin, a_device_may_come_and_go_while_a_profiler_records)
{
    struct bp_profiler *profiler = kit_start();

    for (uint64_t i = 1; i <= 2; i++) {
        struct calls c = calls_begin();
        cr_assert(atomic_load(&profiled->starts) == i);
        calls_run(&c);
        calls_finish(&c);
        cr_assert(atomic_load(&profiled->stops) == i);
    }
    struct bp_profile *p = kit_stop(profiler);
    cr_assert(!kit_info(p).misdated && !kit_info(p).late && !atomic_load(&profiled->faults));
    bp_profile_destroy(p);
}

Test(profile_plugin, incomplete_profilers_are_refused)
{
    static const char *const lacks[] = {"start", "stop", "range_end"};
    char plugin[512], word[64];
    struct bp_core *core;
    uint32_t index;

    OK(bp_core_create(NULL, &core));
    for (int i = 0; i < 3; i++) {
        snprintf(plugin, sizeof plugin, "%.*s_no_%s.so", (int)strlen(PROFILED_PLUGIN) - 3,
                 PROFILED_PLUGIN, lacks[i]);
        snprintf(word, sizeof word, "expected %s, got NULL", lacks[i]);
        if (i == 2) snprintf(word, sizeof word, "range_end");
        FAILS(BP_ERR_PLUGIN, word, bp_core_load_path(core, plugin, &index));
    }
    bp_core_destroy(core);
}
