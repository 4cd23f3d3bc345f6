/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile_process.c: tests profiles of processes that are killed, fork, may write small files
 * only, are profiled by BP_PROFILE, or start and stop profilers while their threads work. */
#include "fixture.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char path[64];

static void path_make(void)
{
    snprintf(path, sizeof path, "/tmp/bp-profile-XXXXXX");
    close(mkstemp(path));
}
static void path_remove(void)
{
    unlink(path);
}

TestSuite(profile_process, .init = path_make, .fini = path_remove, .timeout = 60);

static struct bp_profiler *profiler_on(void)
{
    struct bp_profiler_options options = {.size = sizeof options, .path = path};
    struct bp_profiler *p;

    return bp_profiler_start(&options, &p) ? NULL : p;
}

static struct bp_profile_info profile_info(struct bp_profile *p)
{
    struct bp_profile_info info = {.size = sizeof info};

    OK(bp_profile_get_info(p, &info));
    return info;
}

/* Runs `work` in a child process. Returns the child's status. */
static int child_run(int (*work)(void))
{
    int status = -1;
    pid_t child = fork();

    cr_assert(child >= 0);
    if (!child) _exit(work());
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

static int record_and_die(void)
{
    if (!profiler_on()) return 1;
    for (int i = 0; i < 5000; i++) bp_mark("mark");
    kill(getpid(), SIGKILL);
    return 2;
}

Test(profile_process, a_killed_process_leaves_its_events)
{
    int status = child_run(record_and_die);
    struct bp_profile *p;

    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    OK(bp_profile_open(path, &p));
    cr_assert_eq(bp_profile_events(p), 5000);
    cr_assert(!profile_info(p).is_finished && profile_info(p).length_ns &&
              !profile_info(p).misdated);
    bp_profile_destroy(p);
}

/* The child's limit of file sizes stands for a full disk. Returns 0 if all is as it should be. */
static int record_with_limit(void)
{
    struct rlimit limit = {4 << 20, 4 << 20};
    struct bp_profiler_info info = {.size = sizeof info};
    struct bp_profiler *p;

    if (setrlimit(RLIMIT_FSIZE, &limit) || !(p = profiler_on())) return 1;
    for (int i = 0; i < 200000; i++) bp_mark("mark");
    if (bp_profiler_get_info(p, &info) || bp_profiler_stop(p)) return 2;
    if (!info.lost || info.events + info.lost != 200000) return 3;
    return strstr(info.why, "limit of sizes") ? 0 : 4;
}

Test(profile_process, a_file_that_cannot_grow_keeps_its_events)
{
    int status = child_run(record_with_limit);
    struct bp_profile *p;

    cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "the child's status is 0x%x", status);
    OK(bp_profile_open(path, &p));
    cr_assert(profile_info(p).is_finished);
    cr_assert_eq(bp_profile_events(p) + profile_info(p).lost, 200000);
    bp_profile_destroy(p);
}

static int mark_in_child(void)
{
    bp_range_begin("child");
    for (int i = 0; i < 1000; i++) bp_mark("child");
    bp_range_end();
    return 0;
}

Test(profile_process, a_forked_child_records_nothing)
{
    struct bp_profile_event e = {.size = sizeof e};
    struct bp_profiler *profiler = profiler_on();
    struct bp_profile *p;

    bp_mark("parent");
    cr_assert_eq(child_run(mark_in_child), 0);
    bp_mark("parent");
    bp_profiler_destroy(profiler);
    OK(bp_profile_open(path, &p));
    cr_assert_eq(bp_profile_events(p), 2);
    for (uint64_t i = 0; i < 2; i++) {
        OK(bp_profile_get_event(p, i, &e));
        cr_assert_str_eq(e.name, "parent");
    }
    cr_assert(profile_info(p).is_finished && profile_info(p).process == (uint32_t)getpid());
    bp_profile_destroy(p);
}

/* ---- BP_PROFILE ---- */

static char warning[512];

static void warning_take(void *ctx, uint32_t level, const char *text)
{
    (void)ctx;
    if (level == BP_LOG_WARN && strstr(text, "BP_PROFILE_FLAGS"))
        snprintf(warning, sizeof warning, "%s", text);
}

static int record_by_environment(void)
{
    struct bp_core_options options = {.size = sizeof options, .log = warning_take};
    struct bp_profiler *p;
    char pattern[80];
    struct bp_core *core;

    snprintf(pattern, sizeof pattern, "%s.%%p", path);
    setenv("BP_PROFILE", pattern, 1);
    setenv("BP_PROFILE_FLAGS", "shapes,memroy", 1);
    if (bp_core_create(&options, &core)) return 1;
    if (!strstr(warning, "'memroy'")) return 2;
    if (bp_profiler_start(NULL, &p) != BP_ERR_BUSY || !strstr(bp_error_message(), "BP_PROFILE"))
        return 3;
    bp_mark("mark");
    bp_core_destroy(core);
    exit(0);
}

Test(profile_process, the_environment_profiles_a_process)
{
    struct bp_profile *p;
    char name[96];
    int status;
    pid_t child = fork();

    if (!child) _exit(record_by_environment());
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && !WEXITSTATUS(status), "the child's status is 0x%x", status);
    snprintf(name, sizeof name, "%s.%d", path, (int)child);
    OK(bp_profile_open(name, &p));
    unlink(name);
    cr_assert_eq(bp_profile_events(p), 1);
    cr_assert(profile_info(p).is_finished && profile_info(p).process == (uint32_t)child);
    bp_profile_destroy(p);
}

/* ---- threads ---- */

static atomic_bool over;
static atomic_ullong marks;

static void *thread_call(void *unused)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(3), F32(1, 2, 3)), *y = NULL;

    (void)unused;
    while (!atomic_load(&over)) {
        bp_range_begin("range");
        OK(bp_op_add(f.scope, x, x, &y));
        bp_range_end();
        bp_mark("mark");
        atomic_fetch_add(&marks, 1);
    }
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    fixture_finish(&f);
    return NULL;
}

Test(profile_process, profilers_start_and_stop_while_threads_call)
{
    pthread_t thread[8];
    uint64_t events = 0;

    for (int i = 0; i < 8; i++) cr_assert(!pthread_create(&thread[i], NULL, thread_call, NULL));
    while (atomic_load(&marks) < 100) usleep(100);
    for (int i = 0; i < 200; i++) {
        struct bp_profiler_info info = {.size = sizeof info};
        struct bp_profiler *p;
        OK(bp_profiler_start(NULL, &p));
        usleep(200);
        OK(bp_profiler_stop(p));
        OK(bp_profiler_get_info(p, &info));
        cr_assert(!info.lost && !info.late);
        events += info.events;
        bp_profiler_destroy(p);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 8; i++) pthread_join(thread[i], NULL);
    cr_assert(events > 200, "%llu events", (unsigned long long)events);
}
