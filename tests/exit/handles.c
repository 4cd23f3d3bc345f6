/* SPDX-License-Identifier: Apache-2.0 */
/* handles.c: tests handles of all kinds in a forked child, and after bp_shutdown. Each test runs in
 * its own process. TAP.
 *
 *   handles PLUGINS   the directory of bp_gated.so and bp_gated_plain.so@tests/exit/run.py */
#include "../devices/fake.h"

#include <backplane/backplane.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum place { INLINE, QUEUE, GATED, PLAIN };
enum { GOOD = 42, SECONDS = 60 };

static const char *plugins;
static int failed;
static const float some[2] = {1, 2};
static const int64_t two[1] = {2};

static void handles_need(int good, int line, const char *what)
{
    if (good) return;
    printf("# line %d: %s: %s\n", line, what, bp_error_message());
    fflush(stdout);
    _exit(1);
}

#define TRUE(condition) handles_need((condition) ? 1 : 0, __LINE__, #condition)
#define OK(call) handles_need((call) == BP_OK, __LINE__, #call)

/* The call must return status with a message that contains word. */
#define FAILS(status, word, call) \
    handles_need((call) == (status) && strstr(bp_error_message(), word), __LINE__, #call)

/* A core, a device and a stream for a test. */
struct spot {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct fake *gate; /* or NULL */
};

static struct spot spot_at(enum place place)
{
    struct spot s = {.gate = NULL};
    char path[4096];
    uint32_t index;

    OK(bp_core_create(NULL, &s.core));
    if (place < GATED) {
        OK(bp_device_create(s.core, "cpu:0", &s.device));
        OK(bp_stream_create_with(s.device, place == INLINE ? BP_STREAM_INLINE : BP_STREAM_ASYNC,
                                 &s.stream));
        return s;
    }
    snprintf(path, sizeof path, "%s/bp_gated%s.so", plugins, place == PLAIN ? "_plain" : "");
    OK(bp_core_load_path(s.core, path, &index));
    OK(bp_device_create_at(s.core, index, 0, &s.device));
    OK(bp_stream_create(s.device, &s.stream));
    s.gate = fake_of(path);
    return s;
}

static void hold_until(void *semaphore, enum bp_status status)
{
    (void)status;
    sem_wait(semaphore);
}

/* One handle of each kind. */
struct handles {
    struct spot s;
    struct bp_event *event;
    struct bp_tensor *x;
    struct bp_prepared *prepared;
};

static struct handles make_handles(enum place place)
{
    struct handles h = {.s = spot_at(place)};
    struct bp_arg in[2];
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    OK(bp_event_create(h.s.device, &h.event));
    OK(bp_tensor_create(h.s.device, BP_F32, 1, two, &h.x));
    in[0] = in[1] = (struct bp_arg){&h.x, 1};
    OK(bp_tensor_write(h.s.stream, h.x, some, sizeof some));
    OK(bp_event_record(h.event, h.s.stream));
    OK(bp_prepared_create(h.s.device, &call, NULL, 0, &h.prepared));
    return h;
}

static void handles_nothing(void *ctx, enum bp_status status)
{
    (void)ctx;
    (void)status;
    abort();
}

/* Every call with a handle must fail with a message that contains word, and leave its out
 * parameters unchanged. */
static void expect_refused(struct handles *h, const char *word)
{
    struct bp_tensor *const in[2] = {h->x, h->x};
    struct bp_arg arg[2] = {{&h->x, 1}, {&h->x, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = arg, .n_in = 2};
    struct bp_device_properties properties = {.size = sizeof properties};
    struct bp_plugin_info plugin = {.size = sizeof plugin};
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_memory_stats stats = {.size = sizeof stats};
    void *none = NULL;
    float got[2];

    FAILS(BP_ERR_SHUTDOWN, word, bp_core_plugin(h->s.core, 0, &plugin));
    FAILS(BP_ERR_SHUTDOWN, word, bp_core_load(h->s.core, 0));
    FAILS(BP_ERR_SHUTDOWN, word, bp_device_create(h->s.core, "cpu", (struct bp_device **)&none));
    FAILS(BP_ERR_SHUTDOWN, word, bp_device_get_properties(h->s.device, &properties));
    FAILS(BP_ERR_SHUTDOWN, word, bp_device_synchronize(h->s.device));
    FAILS(BP_ERR_SHUTDOWN, word, bp_device_memory(h->s.device, &stats));
    FAILS(BP_ERR_SHUTDOWN, word, bp_stream_create(h->s.device, (struct bp_stream **)&none));
    FAILS(BP_ERR_SHUTDOWN, word, bp_stream_synchronize(h->s.stream));
    FAILS(BP_ERR_SHUTDOWN, word, bp_stream_callback(h->s.stream, handles_nothing, NULL));
    FAILS(BP_ERR_SHUTDOWN, word, bp_event_create(h->s.device, (struct bp_event **)&none));
    FAILS(BP_ERR_SHUTDOWN, word, bp_event_record(h->event, h->s.stream));
    FAILS(BP_ERR_SHUTDOWN, word, bp_event_query(h->event));
    FAILS(BP_ERR_SHUTDOWN, word, bp_event_wait(h->event, 0));
    FAILS(BP_ERR_SHUTDOWN, word, bp_stream_wait(h->s.stream, h->event));
    FAILS(BP_ERR_SHUTDOWN, word,
          bp_tensor_create(h->s.device, BP_F32, 1, two, (struct bp_tensor **)&none));
    FAILS(BP_ERR_SHUTDOWN, word, bp_tensor_get_info(h->x, &info));
    FAILS(BP_ERR_SHUTDOWN, word, bp_tensor_write(h->s.stream, h->x, some, sizeof some));
    FAILS(BP_ERR_SHUTDOWN, word, bp_tensor_read(h->s.stream, h->x, got, sizeof got));
    FAILS(BP_ERR_SHUTDOWN, word, bp_tensor_copy(h->s.stream, h->x, h->x));
    FAILS(BP_ERR_SHUTDOWN, word,
          bp_prepared_create(h->s.device, &call, NULL, 0, (struct bp_prepared **)&none));
    FAILS(BP_ERR_SHUTDOWN, word, bp_prepared_output(h->prepared, 0, &info));
    FAILS(BP_ERR_SHUTDOWN, word, bp_prepared_run(h->prepared, h->s.stream, in, 2, &h->x, 1, NULL));
    FAILS(BP_ERR_SHUTDOWN, word,
          bp_op_add((struct bp_scope *)h->s.stream, h->x, h->x, (struct bp_tensor **)&none));
    FAILS(BP_ERR_SHUTDOWN, word,
          bp_op_add(bp_stream_scope(h->s.stream), h->x, h->x, (struct bp_tensor **)&none));
    FAILS(BP_ERR_SHUTDOWN, word, bp_call_run(bp_stream_scope(h->s.stream), &call,
                                             (struct bp_tensor **)&none, 1, NULL));
    TRUE(!none && !bp_stream_scope(h->s.stream) && !*bp_device_name(h->s.device));
    FAILS(BP_ERR_INVALID, "expected a stream", bp_stream_synchronize(NULL));
    FAILS(BP_ERR_INVALID, "expected a device", bp_device_synchronize((void *)&properties));
}

static void destroy_handles(struct handles *h)
{
    bp_prepared_destroy(h->prepared);
    bp_tensor_destroy(h->x);
    bp_event_destroy(h->event);
    bp_stream_destroy(h->s.stream);
    bp_device_destroy(h->s.device);
    bp_core_destroy(h->s.core);
}

/* Runs body in a forked child, which must exit with GOOD. */
static void in_child(void (*body)(struct handles *h), struct handles *h)
{
    int status;
    pid_t pid = fork();

    if (!pid) {
        alarm(20);
        body(h);
        _exit(GOOD);
    }
    TRUE(waitpid(pid, &status, 0) == pid);
    TRUE(WIFEXITED(status) && WEXITSTATUS(status) == GOOD);
}

static void old_handles(struct handles *h)
{
    struct bp_tensor *sum = NULL;
    struct handles new;
    float got[2];

    expect_refused(h, "before a fork");
    destroy_handles(h); /* has no effect */
    expect_refused(h, "before a fork");
    new = make_handles(QUEUE);
    FAILS(BP_ERR_SHUTDOWN, "before a fork",
          bp_op_add(bp_stream_scope(new.s.stream), h->x, new.x, &sum));
    FAILS(BP_ERR_INVALID, "expected a device", bp_device_synchronize((void *)(uintptr_t)some));
    FAILS(BP_ERR_INVALID, "expected a scope", bp_op_add(NULL, new.x, new.x, &sum));
    OK(bp_op_add(bp_stream_scope(new.s.stream), new.x, new.x, &sum));
    OK(bp_tensor_read(new.s.stream, sum, got, sizeof got));
    TRUE(got[0] == 2 && got[1] == 4);
    bp_tensor_destroy(sum);
    destroy_handles(&new);
    expect_refused(h, "before a fork");
}

static void fork_again(struct handles *h)
{
    struct handles mine = make_handles(INLINE);

    in_child(old_handles, &mine);
    in_child(old_handles, h);
    destroy_handles(&mine);
}

static void a_child_refuses_handles_of_its_parent(void)
{
    setenv("BP_THREADS", "1", 1); /* libraries' threads do not exist in the child */
    for (enum place place = INLINE; place <= GATED; place++) {
        struct handles h = make_handles(place);
        in_child(old_handles, &h);
        in_child(fork_again, &h);
        OK(bp_stream_synchronize(h.s.stream)); /* the parent still works */
        destroy_handles(&h);
    }
}

/* Memory exported and imported by DLPack; the tensor made from imported memory is exported
 * again. */
struct loans {
    struct handles h;
    struct bp_dlpack_managed *own, *again;
    struct bp_dlpack_legacy *old;
    struct bp_dlpack_managed foreign;
    _Atomic int given_back;
};

static void take_back(struct bp_dlpack_managed *managed)
{
    ((struct loans *)managed->manager_ctx)->given_back++;
}

static void handles_lend(struct loans *l, enum place place)
{
    static int64_t extent = 2;
    static float memory[2] = {3, 4};
    struct bp_tensor *borrowed;

    l->h = make_handles(place);
    l->foreign = (struct bp_dlpack_managed){
        .version = {BP_DLPACK_MAJOR, BP_DLPACK_MINOR},
        .manager_ctx = l,
        .deleter = take_back,
        .tensor = {memory, {1, 0}, 1, {BP_DLPACK_FLOAT, 32, 1}, &extent, NULL, 0},
    };
    OK(bp_tensor_to_dlpack(l->h.x, &l->own));
    OK(bp_tensor_to_dlpack_legacy(l->h.x, &l->old));
    OK(bp_tensor_from_dlpack(l->h.s.device, &l->foreign, &borrowed));
    OK(bp_tensor_to_dlpack(borrowed, &l->again));
    bp_tensor_destroy(borrowed);
    OK(bp_stream_synchronize(l->h.s.stream));
}

static void call_deleters(struct loans *l)
{
    l->own->deleter(l->own);
    l->old->deleter(l->old);
    l->again->deleter(l->again);
}

static void deleters_do_nothing(struct handles *h)
{
    struct loans *l = (struct loans *)h;

    call_deleters(l);
    TRUE(l->given_back == 0);
    TRUE(((float *)l->own->tensor.data)[1] == some[1] && l->again->tensor.shape[0] == 2);
}

/* The parent's handles still exist, or have been destroyed, so that the last deleter would close
 * the device. */
static void a_child_may_call_deleters_of_its_parent(void)
{
    static struct loans l; /* static, so that the children's copies are not leaks */

    for (enum place place = INLINE; place <= QUEUE; place++)
        for (int gone = 0; gone < 2; gone++) {
            l.given_back = 0;
            handles_lend(&l, place);
            if (gone) destroy_handles(&l.h);
            in_child(deleters_do_nothing, &l.h);
            call_deleters(&l);
            TRUE(l.given_back == 1);
            if (!gone) destroy_handles(&l.h);
        }
}

static void end_well(void)
{
    _exit(GOOD);
}

/* The child returns from the callback: its only thread is the copy of the stream's thread. */
static void fork_here(void *child, enum bp_status status)
{
    (void)status;
    *(pid_t *)child = fork();
    if (*(pid_t *)child) return;
    alarm(20);
    atexit(end_well);
}

static void a_callback_may_fork(void)
{
    static const enum place at[] = {QUEUE, GATED};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i]);
        pid_t child = 0;
        int status;
        OK(bp_stream_callback(s.stream, fork_here, &child));
        OK(bp_stream_synchronize(s.stream));
        TRUE(child > 0 && waitpid(child, &status, 0) == child);
        TRUE(WIFEXITED(status) && WEXITSTATUS(status) == GOOD);
        bp_stream_destroy(s.stream);
        bp_device_destroy(s.device);
        bp_core_destroy(s.core);
    }
}

/* Another thread creates and destroys handles all the time; a forked child must find no lock
 * held. */
static atomic_int enough;

static void *keep_making(void *arg)
{
    (void)arg;
    while (!enough) {
        struct handles h = make_handles(QUEUE);
        destroy_handles(&h);
    }
    return NULL;
}

static void a_child_of_a_busy_parent_works(void)
{
    struct handles h;
    pthread_t thread;

    setenv("BP_THREADS", "1", 1);
    h = make_handles(INLINE);
    pthread_create(&thread, NULL, keep_making, NULL);
    for (int i = 0; i < 20; i++) in_child(old_handles, &h);
    enough = 1;
    pthread_join(thread, NULL);
    destroy_handles(&h);
}

static void shutdown_runs_queued_work_and_refuses_the_rest(void)
{
    static struct handles a, b, c; /* never freed; static, so not leaks */
    uint64_t before;
    struct bp_core *core = NULL;
    sem_t semaphore;

    a = make_handles(QUEUE);
    b = make_handles(GATED);
    c = make_handles(PLAIN);
    before = b.s.gate->ended();
    sem_init(&semaphore, 0, 0);
    OK(bp_stream_synchronize(a.s.stream)); /* so that the first work's delay does not count below */
    OK(bp_stream_callback(a.s.stream, hold_until, &semaphore));
    OK(bp_tensor_write(a.s.stream, a.x, some, sizeof some));
    FAILS(BP_ERR_TIMEOUT, "cpu:0: launch 2: a callback", bp_shutdown(10000000));
    expect_refused(&a, "shut down");
    FAILS(BP_ERR_SHUTDOWN, "shut down", bp_core_create(NULL, &core));
    TRUE(!core);
    sem_post(&semaphore);
    OK(bp_shutdown(UINT64_MAX));
    OK(bp_shutdown(0));
    expect_refused(&b, "shut down");
    expect_refused(&c, "shut down");
    TRUE(b.s.gate->ended() >= before);
    destroy_handles(&a); /* has no effect */
    expect_refused(&a, "shut down");
}

static void shutdown_names_the_device_that_works_on(void)
{
    static struct handles h;
    uint64_t before;

    h = make_handles(GATED);
    OK(bp_stream_synchronize(h.s.stream));
    before = h.s.gate->ended();
    h.s.gate->hold(1);
    OK(bp_tensor_write(h.s.stream, h.x, some, sizeof some));
    FAILS(BP_ERR_TIMEOUT, "gated:0: launch 2: copy_in", bp_shutdown(10000000));
    h.s.gate->open();
    OK(bp_shutdown(UINT64_MAX));
    TRUE(h.s.gate->ended() == before + 1);
}

static enum bp_status inside;

static void shut_down(void *ctx, enum bp_status status)
{
    (void)status;
    inside = bp_shutdown(UINT64_MAX);
    sem_post(ctx);
}

static void shutdown_does_not_wait_for_its_own_callback(void)
{
    struct spot s = spot_at(QUEUE);
    sem_t semaphore;

    sem_init(&semaphore, 0, 0);
    OK(bp_stream_callback(s.stream, shut_down, &semaphore));
    sem_wait(&semaphore);
    TRUE(inside == BP_ERR_INVALID);
    OK(bp_stream_synchronize(s.stream)); /* the refused shutdown stopped nothing */
}

static void handles_run(int number, const char *name, void (*body)(void))
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (!pid) {
        alarm(SECONDS);
        body();
        _exit(GOOD);
    }
    waitpid(pid, &status, 0);
    status = WIFEXITED(status) && WEXITSTATUS(status) == GOOD;
    printf("%s %d - %s\n", status ? "ok" : "not ok", number, name);
    if (!status) failed = 1;
}

#define TESTS(X) \
    X(a_child_refuses_handles_of_its_parent) \
    X(a_child_may_call_deleters_of_its_parent) \
    X(a_callback_may_fork) \
    X(a_child_of_a_busy_parent_works) \
    X(shutdown_runs_queued_work_and_refuses_the_rest) \
    X(shutdown_names_the_device_that_works_on) \
    X(shutdown_does_not_wait_for_its_own_callback)

int main(int argc, char **argv)
{
    int number = 0;

    if (argc != 2) return 2;
    plugins = argv[1];
#define X(name) number++;
    TESTS(X)
#undef X
    printf("1..%d\n", number);
    number = 0;
#define X(name) handles_run(++number, #name, name);
    TESTS(X)
#undef X
    return failed;
}
