/* SPDX-License-Identifier: Apache-2.0 */
/* test_profile.c: eight threads compute, allocate, and enter ranges while other threads start and
 * stop profilers; then eight threads record BP_TEST_RECORDS marks (a million without it; with
 * ThreadSanitizer 200,000), of which none may be lost. The amount of work is given, so that the
 * speed of the machine does not decide what is tested. Silent on success. */
#include <backplane/backplane.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    THREADS = 8,
    STARTERS = 2,
    ROUNDS = 3,  /* of each starter */
    STEPS = 100, /* of all workers together, which a starter waits for at a time */
};

#ifdef __SANITIZE_THREAD__
static const uint64_t usual_records = 200000; /* a million take 4 s of a processor */
#else
static const uint64_t usual_records = 1000000;
#endif
static struct bp_device *device;
static atomic_bool stop;
static sem_t wanted, done; /* steps */
static uint64_t marks;     /* of each thread */

static void profile_need(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    _exit(1);
}

static void semaphore_take(sem_t *semaphore)
{
    while (sem_wait(semaphore)) profile_need(errno == EINTR, "sem_wait");
}

static void semaphore_give(sem_t *semaphore, int n)
{
    while (n--) sem_post(semaphore);
}

static void profile_steps_end(int n)
{
    while (n--) semaphore_take(&done);
}

static void *profile_compute(void *unused)
{
    const float one[4] = {1, 1, 1, 1};
    const int64_t n = 4;
    struct bp_stream *stream;
    struct bp_tensor *x;

    (void)unused;
    profile_need(!bp_stream_create(device, &stream), "bp_stream_create");
    profile_need(!bp_tensor_create(device, BP_F32, 1, &n, &x), "bp_tensor_create");
    profile_need(!bp_tensor_write(stream, x, one, sizeof one), "bp_tensor_write");
    for (;;) {
        struct bp_tensor *y = NULL;
        semaphore_take(&wanted);
        if (atomic_load(&stop)) break;
        bp_range_begin("step");
        profile_need(!bp_op_add(bp_stream_scope(stream), x, x, &y), "bp_op_add");
        bp_mark("added");
        bp_tensor_destroy(y);
        bp_range_end();
        sem_post(&done);
    }
    bp_tensor_destroy(x);
    bp_stream_destroy(stream);
    return NULL;
}

static void profile_check(const char *path)
{
    struct bp_profile_info info = {.size = sizeof info};
    struct bp_profile *p;

    profile_need(!bp_profile_open(path, &p), "bp_profile_open");
    profile_need(!bp_profile_get_info(p, &info), "bp_profile_get_info");
    profile_need(info.is_finished && !info.lost && !info.misdated, "events are lost or misdated");
    for (uint64_t i = 0; i < bp_profile_events(p); i++) {
        struct bp_profile_event e = {.size = sizeof e};
        profile_need(!bp_profile_get_event(p, i, &e), "bp_profile_get_event");
        profile_need(e.begin_ns <= e.end_ns && e.end_ns <= info.length_ns && e.thread && *e.name,
                     "an event is damaged");
    }
    bp_profile_destroy(p);
}

/* Profiles a round: threads compute while the profiler starts, and while it stops. Returns false if
 * the other starter records. */
static bool profile_round(const char *path)
{
    struct bp_profiler_options options = {
        .size = sizeof options, .path = path, .flags = BP_PROFILER_SHAPES | BP_PROFILER_MEMORY};
    struct bp_profiler *profiler;
    enum bp_status status;

    semaphore_give(&wanted, STEPS);
    status = bp_profiler_start(&options, &profiler);
    if (status) {
        profile_need(status == BP_ERR_BUSY, "bp_profiler_start");
        profile_steps_end(STEPS);
        return false;
    }
    semaphore_give(&wanted, 2 * STEPS);
    profile_steps_end(2 * STEPS);
    profile_need(!bp_profiler_step(profiler), "bp_profiler_step");
    profile_need(!bp_profiler_stop(profiler), "bp_profiler_stop");
    bp_profiler_destroy(profiler);
    profile_check(path);
    profile_steps_end(STEPS);
    return true;
}

/* One of the starters at a time records; the other one is refused. */
static void *start_and_stop(void *unused)
{
    char path[] = "/tmp/bp-profile-XXXXXX";

    (void)unused;
    close(mkstemp(path));
    for (int n = 0; n < ROUNDS;) n += profile_round(path);
    unlink(path);
    return NULL;
}

static void *profile_mark(void *unused)
{
    (void)unused;
    for (uint64_t i = 0; i < marks; i++) bp_mark("mark");
    return NULL;
}

static void threads_begin(pthread_t *thread, int n, void *(*run)(void *ctx))
{
    for (int i = 0; i < n; i++)
        profile_need(!pthread_create(&thread[i], NULL, run, NULL), "pthread_create");
}

static void threads_join(pthread_t *thread, int n)
{
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
}

static void lose_none(void)
{
    const char *given = getenv("BP_TEST_RECORDS");
    struct bp_profiler_info info = {.size = sizeof info};
    char path[] = "/tmp/bp-profile-XXXXXX";
    struct bp_profiler_options options = {.size = sizeof options, .path = path};
    struct bp_profiler *profiler;
    pthread_t thread[THREADS];

    close(mkstemp(path));
    marks = (given ? strtoull(given, NULL, 10) : usual_records) / THREADS;
    profile_need(!bp_profiler_start(&options, &profiler), "bp_profiler_start");
    threads_begin(thread, THREADS, profile_mark);
    threads_join(thread, THREADS);
    profile_need(!bp_profiler_get_info(profiler, &info), "bp_profiler_get_info");
    if (info.lost || info.events != marks * THREADS) {
        fprintf(stderr, "%llu events, %llu lost %s\n", (unsigned long long)info.events,
                (unsigned long long)info.lost, info.why);
        _exit(1);
    }
    bp_profiler_destroy(profiler);
    profile_check(path);
    unlink(path);
}

int main(void)
{
    pthread_t worker[THREADS], starter[STARTERS];
    struct bp_core *core;

    profile_need(!bp_core_create(NULL, &core), "bp_core_create");
    profile_need(!bp_device_create(core, "cpu", &device), "bp_device_create");
    sem_init(&wanted, 0, 0);
    sem_init(&done, 0, 0);
    threads_begin(worker, THREADS, profile_compute);
    threads_begin(starter, STARTERS, start_and_stop);
    threads_join(starter, STARTERS);
    atomic_store(&stop, true);
    semaphore_give(&wanted, THREADS);
    threads_join(worker, THREADS);
    bp_device_destroy(device);
    bp_core_destroy(core);
    lose_none();
    return 0;
}
