/* SPDX-License-Identifier: Apache-2.0 */
/* test_activity.c: tests the notes of the plugin call that each thread is in, read from a signal
 * handler and from other threads. */
#include "plugin_kit.h"
#include "../../core/base/activity.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static char seen[16][200];
static int n_launches;

static void on_signal(int number)
{
    struct bp_activity a = {.size = sizeof a};

    (void)number;
    errno = 77;
    if (!bp_activity_find((uint32_t)gettid(), &a)) strcpy(seen[n_launches++ % 16], "nothing");
    else snprintf(seen[n_launches++ % 16], sizeof seen[0], "%s of %s", a.word, a.plugin);
    cr_assert(errno == 77 && !a.what[0] == (a.step != BP_ACTIVITY_DEVICE));
    cr_assert(a.thread == (uint32_t)gettid() && *a.text);
}

Test(activity, steps_of_loading_are_named_in_a_signal_handler)
{
    static const char *const expected[] = {
        "open of h_rogue", "entry of h_rogue", "create of h_rogue",
        "devices of h_rogue", "device of h_rogue", "destroy of h_rogue"};
    char *directory = kit_create();
    struct bp_activity none = {.size = sizeof none};
    struct kit_log log;
    struct bp_device *device;
    struct bp_core *core;

    kit_plugin(directory, "h_rogue");
    signal(SIGUSR1, on_signal);
    setenv("BP_FAKE", "every=raise", 1);
    core = kit_core(&log, directory, "h_rogue");
    cr_assert_eq(n_launches, 0);
    OK(bp_device_create(core, "h_rogue", &device));
    bp_device_destroy(device);
    bp_core_destroy(core);
    for (int i = 0; i < 6; i++) cr_assert_str_eq(seen[i], expected[i]);
    cr_assert_eq(n_launches, 6);
    cr_assert(!bp_activity_find(0, &none) && !none.word);
    unsetenv("BP_FAKE");
    kit_destroy(directory);
}

Test(activity, the_oldest_of_all_threads_is_found_and_its_innermost_call)
{
    struct bp_activity a = {.size = sizeof a};
    uint32_t outer = bp_activity_begin(BP_ACTIVITY_LAUNCH, "outer", "row\nof a name");
    uint32_t inner = bp_activity_begin(BP_ACTIVITY_WAIT, "inner", NULL);

    cr_assert(bp_activity_find(0, &a));
    cr_assert_str_eq(a.plugin, "inner");
    cr_assert_str_eq(a.word, "wait");
    bp_activity_end(inner);
    cr_assert(bp_activity_find(0, &a));
    cr_assert_str_eq(a.plugin, "outer");
    cr_assert_str_eq(a.what, "row?of a name");
    cr_assert(!bp_activity_find((uint32_t)getpid() + 1, &a));
    bp_activity_end(outer);
    cr_assert(!bp_activity_find(0, &a));
}

static int n_launch;
static struct bp_activity last_launch;

static void on_launch(int number)
{
    (void)number;
    last_launch.size = sizeof last_launch;
    n_launch += bp_activity_launch(&last_launch);
}

/* The plugin raises the signal in its kernel, where the core writes no notes. */
Test(activity, a_launch_that_goes_on_is_found_in_a_signal_handler)
{
    const float two[2] = {1, 2};
    const int64_t shape[1] = {2};
    char *directory = kit_create();
    struct kit_log log;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct bp_tensor *x, *sum = NULL;

    kit_plugin(directory, "h_rogue");
    setenv("BP_FAKE", "launch=raise", 1);
    core = kit_core(&log, directory, "h_rogue");
    OK(bp_device_create(core, "h_rogue", &device));
    OK(bp_stream_create_with(device, BP_STREAM_INLINE, &stream));
    OK(bp_tensor_create(device, BP_F32, 1, shape, &x));
    OK(bp_tensor_write(stream, x, two, sizeof two));
    cr_assert(!bp_activity_launch(&last_launch));
    signal(SIGUSR1, on_launch);
    OK(bp_op_add(bp_stream_scope(stream), x, x, &sum));
    unsetenv("BP_FAKE");
    cr_assert_eq(n_launch, 1);
    cr_assert_str_eq(last_launch.plugin, "h_rogue");
    cr_assert_str_eq(last_launch.what, "h_rogue:0, stream 1, launch 2");
    cr_assert_eq(last_launch.step, BP_ACTIVITY_LAUNCH);
    cr_assert(!bp_activity_launch(&last_launch));
    bp_tensor_destroy(x);
    bp_tensor_destroy(sum);
    bp_stream_destroy(stream);
    bp_device_destroy(device);
    bp_core_destroy(core);
    kit_destroy(directory);
}

Test(activity, a_forked_child_has_none_of_its_parents_calls)
{
    struct bp_core *core;
    uint32_t note;
    int status;

    OK(bp_core_create(NULL, &core)); /* registers the fork handler */
    note = bp_activity_begin(BP_ACTIVITY_WAIT, "parent", NULL);
    pid_t child = fork();
    if (!child) {
        struct bp_activity a = {.size = sizeof a};
        _exit(bp_activity_find(0, &a));
    }
    cr_assert(waitpid(child, &status, 0) == child && status == 0);
    bp_activity_end(note);
    bp_core_destroy(core);
}

/* Several threads make more calls than there are notes, while one thread reads: each note that it
 * reads is complete. */
static _Atomic int stop;

static void *enter_and_leave(void *arg)
{
    char name[64];

    memset(name, 'a' + (int)(intptr_t)arg, sizeof name - 1);
    name[sizeof name - 1] = 0;
    for (int round = 0; round < 20000; round++) {
        uint32_t notes[40];
        for (int i = 0; i < round % 40; i++)
            notes[i] = bp_activity_begin(BP_ACTIVITY_COPY, name, name);
        for (int i = 0; i < round % 40; i++) bp_activity_end(notes[i]);
        if (round % 40 == 0 && atomic_load(&stop)) break;
    }
    return NULL;
}

Test(activity, notes_that_are_read_are_whole)
{
    pthread_t thread[4];
    struct bp_activity a = {.size = sizeof a};
    int read = 0;

    for (intptr_t i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, enter_and_leave, (void *)i), 0);
    for (int i = 0; i < 3000 || (!read && i < 1000000); i++) {
        a.size = sizeof a;
        if (!bp_activity_find(0, &a)) continue;
        read++;
        cr_assert_eq(strlen(a.plugin), 63);
        cr_assert_str_eq(a.plugin, a.what);
        for (int c = 0; c < 63; c++) cr_assert_eq(a.plugin[c], a.plugin[0]);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    cr_assert_gt(read, 0);
    cr_assert(!bp_activity_find(0, &a));
}
