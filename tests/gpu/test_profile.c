/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile.c: tests the records that plugins/gpu makes by CUPTI and by roctracer, on their
 * stand-ins: which records arrive, with which tags and streams.
 *
 *   test_profile PLUGIN DRIVER CUPTI ROCTRACER ... */
#include "profile_kit.h"
#include <backplane/ccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *plugin_path, *driver_path;
static struct tracer tracers[2] = {{"cupti", "BP_SIM_CUPTI", "BP_SIM_ROCTRACER", NULL},
                                   {"roctracer", "BP_SIM_ROCTRACER", "BP_SIM_CUPTI", NULL}};
static struct taker taker, other;

static bool is_cupti(const struct tracer *tracer)
{
    return tracer == &tracers[0];
}

/* A world whose index is valid, and whose records are taken. */
static void records_begin(struct world *w, const struct tracer *tracer)
{
    static const int64_t index[ELEMENTS];

    profile_world(w, tracer, plugin_path);
    profile_ok(put(w, w->index, index, sizeof index), "put");
    profile_wait(w);
    profile_ok(profile_start(w, 0, &taker), "start");
}

static void records_end(struct world *w, const struct tracer *tracer)
{
    const char *depth = is_cupti(tracer) ? "bp_standin_cupti_depth" : "bp_standin_roctracer_depth";

    expect(!standin_number(tracer, depth), "external ids are left");
    expect(!is_cupti(tracer) || !standin_number(tracer, "bp_standin_cupti_enabled"),
           "kinds are left");
    expect(!*error_text, "messages: %s", error_text);
    profile_end(w, driver_path);
}

/* Two streams, whose tags are the same. */
static void work_has_its_tag(const void *arg)
{
    uint64_t before, after;
    struct world w;

    records_begin(&w, arg);
    profile_ok(w.plugin->profiler->clock(w.self, 0, &before), "clock");
    for (uint64_t tag = 1; tag <= 20; tag++) {
        tagged_launch(&w, tag);
        tagged_copy(&w, w.stream[1], tag);
    }
    profile_wait(&w);
    profile_ok(w.plugin->profiler->clock(w.self, 0, &after), "clock");
    profile_stop(&w, 0, &taker);
    taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], 20);
    taken_each(&taker, BP_RECORD_COPY, w.stream[1], 20);
    expect(taken_count(&taker, BP_RECORD_KERNEL, NULL, 0) == 20, "other kernels");
    expect(taken_count(&taker, BP_RECORD_COPY, NULL, 0) == 20, "other copies");
    for (size_t i = 0; i < taker.n; i++) {
        const struct bp_record *r = &taker.taken[i].record;
        expect(before <= r->begin_ns && r->begin_ns <= r->end_ns && r->end_ns <= after,
               "record %zu has other times", i);
        if (r->kind == BP_RECORD_KERNEL)
            expect(strstr(taker.taken[i].name, "bp_gather"), "%s", taker.taken[i].name);
        if (r->kind == BP_RECORD_COPY) expect(r->bytes == 64, "%d bytes", (int)r->bytes);
    }
    records_end(&w, arg);
}

/* The stand-ins report a call after its work. */
static void calls_may_come_late(const void *arg)
{
    setenv("BP_STANDIN_CUPTI_LATE", "1", 1);
    setenv("BP_STANDIN_ROCTRACER_LATE", "1", 1);
    work_has_its_tag(arg);
}

static void copies_both_ways(const void *arg)
{
    int32_t x[ELEMENTS] = {0};
    struct world w;

    records_begin(&w, arg);
    profile_tag(&w, 0, w.stream[0], 5);
    profile_ok(put(&w, w.x, x, 32), "put");
    profile_tag(&w, 0, w.stream[0], 6);
    profile_ok(get(&w, x, w.x, 16), "get");
    profile_tag(&w, 0, w.stream[0], 0);
    profile_stop(&w, 0, &taker);
    expect(taken_count(&taker, BP_RECORD_COPY, w.stream[0], 5) == 1, "to the device");
    expect(taken_count(&taker, BP_RECORD_COPY, w.stream[0], 6) == 1, "to the host");
    for (size_t i = 0; i < taker.n; i++) {
        const struct bp_record *r = &taker.taken[i].record;
        if (r->kind == BP_RECORD_COPY) expect(r->bytes == (r->tag == 5 ? 32 : 16), "bytes");
    }
    records_end(&w, arg);
}

/* The parts of a replay have its tag; recording makes no work. */
static void parts_of_a_replay(const void *arg)
{
    struct world w;

    records_begin(&w, arg);
    profile_ok(w.g->capture_begin(w.self, 0, w.stream[0]), "capture_begin");
    for (uint64_t tag = 1; tag <= 3; tag++) tagged_launch(&w, tag);
    profile_ok(w.g->capture_end(w.self, 0, w.stream[0], &w.recording), "capture_end");
    for (uint64_t tag = 7; tag <= 8; tag++) {
        profile_tag(&w, 0, w.stream[0], tag);
        profile_ok(w.g->replay(w.self, 0, w.recording, w.stream[0]), "replay");
        profile_tag(&w, 0, w.stream[0], 0);
    }
    profile_wait(&w);
    profile_stop(&w, 0, &taker);
    for (uint64_t tag = 7; tag <= 8; tag++)
        expect(taken_count(&taker, BP_RECORD_KERNEL, w.stream[0], tag) == 3, "parts of a replay");
    expect(taken_count(&taker, BP_RECORD_KERNEL, NULL, 0) == 6, "kernels of the recording");
    records_end(&w, arg);
}

static void collectives_are_known_by_name(const void *arg)
{
    const struct bp_ccl *ccl;
    struct bp_ccl_call call;
    struct bp_ccl_id id;
    uint32_t version;
    void *comm;
    struct world w;

    records_begin(&w, arg);
    ccl = w.plugin->ccl;
    call = (struct bp_ccl_call){
        .src = w.x.data, .dst = w.y.data, .count = 4, .dtype = BP_F32, .reduction = BP_REDUCE_SUM};
    profile_ok(ccl->version(w.self, &version), "version");
    profile_ok(ccl->unique_id(w.self, &id), "unique_id");
    profile_ok(ccl->comm_create(w.self, 0, &id, 0, 1, &comm), "comm_create");
    profile_tag(&w, 0, w.stream[0], 9);
    profile_ok(ccl->all_reduce(w.self, comm, w.stream[0], &call), "all_reduce");
    profile_tag(&w, 0, w.stream[0], 0);
    profile_wait(&w);
    ccl->comm_destroy(w.self, comm);
    profile_stop(&w, 0, &taker);
    expect(taken_count(&taker, BP_RECORD_COLLECTIVE, w.stream[0], 9) == 1, "no collective");
    records_end(&w, arg);
}

static void starts_are_repeated(const void *arg)
{
    struct world w;

    records_begin(&w, arg);
    for (uint64_t i = 1; i <= 5; i++) {
        for (uint64_t tag = 1; tag <= i; tag++) tagged_launch(&w, tag);
        profile_wait(&w);
        profile_stop(&w, 0, &taker);
        expect(taken_count(&taker, BP_RECORD_KERNEL, NULL, 0) == i, "round %d", (int)i);
        taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], i);
        profile_ok(launch_gather(&w), "a launch that is not recorded");
        profile_wait(&w);
        profile_ok(profile_start(&w, 0, &taker), "start");
    }
    profile_stop(&w, 0, &taker);
    expect(!taken_count(&taker, BP_RECORD_KERNEL, NULL, 0), "records of an earlier profile");
    records_end(&w, arg);
}

static void a_flush_hands_over(const void *arg)
{
    struct world w;

    records_begin(&w, arg);
    tagged_launch(&w, 1);
    profile_wait(&w);
    profile_ok(w.plugin->profiler->flush(w.self, 0), "flush");
    expect(taken_count(&taker, BP_RECORD_KERNEL, w.stream[0], 1) == 1, "no record after a flush");
    tagged_launch(&w, 2);
    profile_wait(&w);
    profile_stop(&w, 0, &taker);
    taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], 2);
    records_end(&w, arg);
}

/* CUPTI returns a buffer for a few records each. */
static void buffers_are_returned(const void *arg)
{
    struct world w;

    setenv("BP_STANDIN_CUPTI_USES", "1100", 1);
    records_begin(&w, arg);
    for (uint64_t tag = 1; tag <= 400; tag++) tagged_launch(&w, tag);
    profile_wait(&w);
    profile_stop(&w, 0, &taker);
    taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], 400);
    records_end(&w, arg);
}

/* A profile is stopped between the tag and its end. */
static void a_tag_outlives_its_profile(const void *arg)
{
    struct world w;

    records_begin(&w, arg);
    profile_tag(&w, 0, w.stream[0], 1);
    profile_ok(launch_gather(&w), "gather");
    profile_wait(&w);
    profile_stop(&w, 0, &taker);
    taken_each(&taker, BP_RECORD_KERNEL, w.stream[0], 1);
    profile_ok(profile_start(&w, 0, &taker), "start");
    tagged_launch(&w, 2);
    profile_ok(launch_gather(&w), "a launch without a tag");
    profile_wait(&w);
    profile_stop(&w, 0, &taker);
    expect(taken_count(&taker, BP_RECORD_KERNEL, w.stream[0], 2) == 1, "tag 2");
    expect(!taken_count(&taker, BP_RECORD_KERNEL, NULL, 1), "the tag of an earlier profile");
    expect(taken_count(&taker, BP_RECORD_KERNEL, NULL, 0) == 2, "the launch without a tag");
    records_end(&w, arg);
}

/* Records of a stream that is destroyed have its address. */
static void a_stream_is_destroyed(const void *arg)
{
    struct world w;
    void *stream;

    records_begin(&w, arg);
    stream = w.stream[1];
    tagged_copy(&w, stream, 1);
    profile_wait(&w);
    w.r->stream_destroy(w.self, 0, stream);
    w.stream[1] = NULL;
    expect(taken_count(&taker, BP_RECORD_COPY, stream, 1) == 1, "not delivered before");
    profile_stop(&w, 0, &taker);
    expect(taken_count(&taker, BP_RECORD_COPY, NULL, 0) == 1, "delivered twice");
    records_end(&w, arg);
}

static void each_device_has_its_records(const void *arg)
{
    struct bp_copy copy;
    struct world w;

    setenv("BP_SIM_DEVICES", "2", 1);
    records_begin(&w, arg);
    profile_ok(w.r->stream_create(w.self, 1, &w.other), "stream_create");
    profile_ok(w.r->memory_allocate(w.self, 1, BP_SPACE_DEVICE, 4096, &w.there), "allocate");
    profile_ok(profile_start(&w, 1, &other), "start of device 1");
    copy = (struct bp_copy){w.there.handle, (char *)w.there.data + 1024, w.there.handle,
                            w.there.data, 64};
    tagged_copy(&w, w.stream[0], 3);
    profile_tag(&w, 1, w.other, 3);
    profile_ok(w.r->copy_within(w.self, 1, w.other, &copy), "copy_within");
    profile_tag(&w, 1, w.other, 0);
    copy = (struct bp_copy){w.there.handle, w.there.data, w.x.handle, w.x.data, 128};
    profile_tag(&w, 0, w.stream[0], 4);
    profile_ok(w.r->copy_peer(w.self, 0, w.stream[0], 1, &copy), "copy_peer");
    profile_tag(&w, 0, w.stream[0], 0);
    profile_wait(&w);
    profile_ok(w.r->synchronize(w.self, 1, NULL), "synchronize");
    profile_stop(&w, 0, &taker);
    profile_tag(&w, 1, w.other, 5);
    profile_ok(w.r->copy_within(w.self, 1, w.other,
                                &(struct bp_copy){w.there.handle, (char *)w.there.data + 1024,
                                                  w.there.handle, w.there.data, 64}),
               "copy_within");
    profile_tag(&w, 1, w.other, 0);
    profile_ok(w.r->synchronize(w.self, 1, NULL), "synchronize");
    profile_stop(&w, 1, &other);
    expect(taken_count(&taker, BP_RECORD_COPY, w.stream[0], 0) == 2, "device 0");
    expect(taken_count(&taker, BP_RECORD_COPY, w.stream[0], 4) == 1, "between devices");
    expect(taken_count(&other, BP_RECORD_COPY, w.other, 0) == 2, "device 1");
    expect(taken_count(&other, BP_RECORD_COPY, w.other, 5) == 1, "after device 0 has stopped");
    records_end(&w, arg);
}

/* Work that has not ended has no record, or one without times. */
static void unfinished_work_is_counted(const void *arg)
{
    size_t n;
    struct world w;

    setenv("BP_SIM_DELAY", "3000", 1);
    records_begin(&w, arg);
    for (uint64_t tag = 1; tag <= 200; tag++) tagged_launch(&w, tag);
    profile_stop(&w, 0, &taker);
    n = taken_count(&taker, BP_RECORD_KERNEL, NULL, 0);
    expect(n < 200, "all work had ended");
    expect(!is_cupti(arg) || strstr(error_text, "records of CUPTI have no times"), "%s",
           error_text);
    expect_no_error();
    profile_wait(&w);
    profile_ok(profile_start(&w, 0, &taker), "start");
    profile_stop(&w, 0, &taker);
    expect(!taken_count(&taker, BP_RECORD_KERNEL, NULL, 0), "records of the profile before");
    records_end(&w, arg);
}

/* A record that comes between the last flush and the end of a profile belongs to no later one. */
static void a_late_record_is_dropped(const void *arg)
{
    struct world w;

    setenv("BP_STANDIN_ROCTRACER_KEEP", "1", 1);
    records_begin(&w, arg);
    for (uint64_t tag = 1; tag <= 5; tag++) tagged_launch(&w, tag);
    profile_wait(&w);
    profile_stop(&w, 0, &taker);
    expect(taken_count(&taker, BP_RECORD_KERNEL, NULL, 0) == (is_cupti(arg) ? 5 : 4), "5 launches");
    profile_ok(profile_start(&w, 0, &taker), "start");
    profile_stop(&w, 0, &taker);
    expect(!taken_count(&taker, BP_RECORD_KERNEL, NULL, 0), "records of the profile before");
    records_end(&w, arg);
}

static void waits_and_memory(const void *arg)
{
    struct bp_memory memory;
    struct world w;
    size_t n = 0;

    records_begin(&w, arg);
    profile_ok(w.r->event_create(w.self, 0, &w.event), "event_create");
    setenv("BP_SIM_DELAY", "1000", 1);
    tagged_copy(&w, w.stream[1], 1);
    for (int i = 0; i < 50; i++) tagged_launch(&w, 1 + (uint64_t)i);
    profile_ok(w.r->event_record(w.self, 0, w.stream[0], w.event), "event_record");
    profile_ok(w.r->stream_wait(w.self, 0, w.stream[1], w.event), "stream_wait");
    profile_ok(w.r->memory_allocate(w.self, 0, BP_SPACE_DEVICE, 12345, &memory), "allocate");
    w.r->memory_free(w.self, 0, BP_SPACE_DEVICE, &memory);
    profile_wait(&w);
    profile_stop(&w, 0, &taker);
    for (size_t i = 0; i < taker.n; i++)
        n += taker.taken[i].record.kind == BP_RECORD_MEMORY &&
             taker.taken[i].record.bytes == 12345 && !taker.taken[i].record.tag &&
             !strcmp(taker.taken[i].name, n ? "free" : "allocate");
    expect(n == 2, "%zu records of memory", n);
    expect(taken_count(&taker, BP_RECORD_WAIT, w.stream[1], 0) == 1 &&
               taken_count(&taker, BP_RECORD_WAIT, NULL, 0) == 1,
           "%zu waits", taken_count(&taker, BP_RECORD_WAIT, NULL, 0));
    records_end(&w, arg);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*body)(const void *arg);
        bool of_cupti;
    } cases[] = {
        {"20 launches and copies have their tags and streams", work_has_its_tag, false},
        {"records of calls come after those of work", calls_may_come_late, false},
        {"copies both ways have their bytes", copies_both_ways, false},
        {"the parts of a replay have its tag", parts_of_a_replay, false},
        {"a collective is known by its kernel's name", collectives_are_known_by_name, false},
        {"profiles are started and stopped repeatedly", starts_are_repeated, false},
        {"a flush hands over what has ended", a_flush_hands_over, false},
        {"full buffers are returned meanwhile", buffers_are_returned, false},
        {"a tag outlives its profile", a_tag_outlives_its_profile, false},
        {"a stream is destroyed while records are made", a_stream_is_destroyed, false},
        {"each device has its records", each_device_has_its_records, false},
        {"unfinished work is left out and counted", unfinished_work_is_counted, false},
        {"a record after the last flush is dropped", a_late_record_is_dropped, false},
        {"a stream's wait and allocations have records", waits_and_memory, true},
    };
    char name[160];

    if (argc < 5) return 2;
    plugin_path = argv[1];
    driver_path = argv[2];
    for (int t = 0; t < 2; t++) {
        tracers[t].path = argv[3 + t];
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            if (t && cases[i].of_cupti) continue;
            snprintf(name, sizeof name, "%s: %s", tracers[t].name, cases[i].name);
            run_case(name, cases[i].body, &tracers[t]);
        }
    }
    return cases_end();
}
