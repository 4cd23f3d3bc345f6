/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile.c: tests that the profile of each rank has the rank's collective calls: native ones
 * on a plugin that makes records of its device's work, and those that the core runs.
 *
 *     test_profile PLUGIN BP native|core
 *
 * PLUGIN is that of tests/plugins/profiled.c; BP shows the profiles. Ranks are processes, each with
 * a profiler of its own. */
#include "native_rank.h"

#include "../plugins/profiled.h"
#include <dlfcn.h>

enum {
    CALLS = 3 /* of each rank */
};

static const char *plugin, *bp;
static bool is_native;

/* The calls in their order, and the bytes that each reads of the rank. */
static const struct {
    const char *name;
    uint64_t bytes;
} calls[CALLS] = {{"all_reduce", 4 * N}, {"broadcast", 2 * N}, {"all_gather", 2 * N}};

static void rank_call(struct rank *r)
{
    struct bp_tensor *x = filled(r, N, 1), *y = filled(r, N, 0), *half = rank_view(y, 0, N / 2);

    OK(bp_stream_synchronize(r->stream));
    bp_mark("before");
    OK(bp_comm_all_reduce(r->comm, r->stream, x, y, BP_REDUCE_SUM));
    OK(bp_comm_broadcast(r->comm, r->stream, half, half, 0));
    OK(bp_comm_all_gather(r->comm, r->stream, half, x));
    bp_mark("after");
    OK(bp_stream_synchronize(r->stream));
    expect(r, "all_gather", x, N, (float)r->size);
    bp_tensor_destroy(half);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
}

static struct bp_profile_event profile_event(struct bp_profile *p, uint64_t i)
{
    struct bp_profile_event e = {.size = sizeof e};

    OK(bp_profile_get_event(p, i, &e));
    return e;
}

/* Returns the only event of the kind and the name. */
static struct bp_profile_event profile_find(struct bp_profile *p, uint32_t kind, const char *name)
{
    struct bp_profile_event e, found = {0};
    uint32_t n = 0;

    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        e = profile_event(p, i);
        if (e.kind != kind || strcmp(e.name, name)) continue;
        found = e;
        n++;
    }
    CHECK(n == 1, "%u events of kind %s are named %s", n, bp_profile_kind_name(kind), name);
    return found;
}

/* Counts the device's records of collective calls with this tag, and checks their times. */
static uint32_t profile_records(struct bp_profile *p, uint64_t tag, uint64_t length)
{
    uint32_t found = 0;

    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = profile_event(p, i);
        if (e.thread || e.kind != BP_RECORD_COLLECTIVE || e.tag != tag) continue;
        CHECK(e.on_device && e.begin_ns <= e.end_ns && e.end_ns <= length, "the times of a record");
        CHECK(e.stream && !strcmp(e.device, "profiled:0") && !strcmp(e.kernel, "work"),
              "stream %u of %s: %s", e.stream, e.device, e.kernel);
        found++;
    }
    return found;
}

/* The thread's events have one clock: the calls lie between the marks, one behind the other. */
static void profile_check(struct bp_profile *p, struct rank *r)
{
    struct bp_profile_info info = {.size = sizeof info};
    uint32_t kind = is_native ? BP_PROFILE_SUBMIT : BP_RECORD_COLLECTIVE, stream;
    struct bp_profile_event mark = profile_find(p, BP_PROFILE_MARK, "before");
    uint64_t last = mark.end_ns;

    OK(bp_profile_get_info(p, &info));
    CHECK(info.is_finished && !info.lost && !info.late && !info.misdated, "records are missing");
    stream = bp_stream_number(r->stream);
    for (int i = 0; i < CALLS; i++) {
        struct bp_profile_event e = profile_find(p, kind, calls[i].name);
        CHECK(e.bytes == calls[i].bytes && e.stream == stream && e.thread == mark.thread,
              "%s: %llu bytes on stream %u", e.name, (unsigned long long)e.bytes, e.stream);
        CHECK(last <= e.begin_ns && e.begin_ns <= e.end_ns, "the times of %s", e.name);
        CHECK(!strcmp(e.device, "profiled:0"), "%s is work of %s", e.name, e.device);
        last = e.end_ns;
        if (is_native)
            CHECK(profile_records(p, e.tag, info.length_ns) == 1, "records of %s", e.name);
    }
    mark = profile_find(p, BP_PROFILE_MARK, "after");
    CHECK(last <= mark.begin_ns, "the second mark lies before the end of the calls");
}

/* The trace has a track of its own for the device's communication. */
static void profile_check_track(const char *path)
{
    char out[64], command[1400], line[4096];
    bool found = false;
    FILE *f;

    snprintf(out, sizeof out, "%s.json", path);
    snprintf(command, sizeof command, "'%s' trace '%s' --output '%s' >/dev/null", bp, path, out);
    CHECK(!system(command), "%s", command);
    f = fopen(out, "r");
    CHECK(f != NULL, "%s", out);
    while (fgets(line, sizeof line, f)) found |= strstr(line, "profiled:0 communication") != NULL;
    fclose(f);
    unlink(out);
    CHECK(found, "no track of communication");
}

static void profile_rank(uint32_t rank, uint32_t size, void *id)
{
    char path[] = "/tmp/bp-ccl-profile-XXXXXX";
    struct bp_profiler_options options = {.size = sizeof options, .path = path};
    struct rank r = rank_join(plugin, rank, size, id);
    struct profiled *profiled = dlsym(dlopen(plugin, RTLD_NOW | RTLD_LOCAL), "profiled");
    struct bp_profiler *profiler;
    struct bp_profile *p;

    CHECK(profiled != NULL, "%s", plugin);
    CHECK(is_native == !strcmp(algorithm_of(&r), "native"), "%s", algorithm_of(&r));
    if (is_native) atomic_store(&profiled->kind, BP_RECORD_COLLECTIVE);
    close(mkstemp(path));
    OK(bp_profiler_start(&options, &profiler));
    rank_call(&r);
    OK(bp_profiler_stop(profiler));
    bp_profiler_destroy(profiler);
    OK(bp_profile_open(path, &p));
    profile_check(p, &r);
    bp_profile_destroy(p);
    profile_check_track(path);
    CHECK(!atomic_load(&profiled->faults), "tags do not rise, or are not reset");
    unlink(path);
    rank_close(&r);
}

static void calls_are_in_each_ranks_profile(void)
{
    run(2, profile_rank, NO_RANK);
}

static const struct kit_case cases[] = {
    {"calls_are_in_each_ranks_profile", calls_are_in_each_ranks_profile, NULL},
};

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    plugin = argv[1];
    bp = argv[2];
    is_native = !strcmp(argv[3], "native");
    forks = true;
    return kit_run(cases, sizeof cases / sizeof *cases, NULL);
}
