/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine_cancel.c: tests that the app cancels compilations, from another thread, while an
 * engine compiles. The device is the one of ../plugins/engined/engined.h. */
#include "pass_kit.h"

#include "../../core/compile/cancel.h"
#include "../plugins/engined/engined.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CHAIN "a = relu(x)\nb = tanh(a)\nc = sigmoid(b)\nd = mul(c, a)\nreturn d"

struct cancelled {
    struct text_graph g;
    struct bp_program *program;
    struct engined *did;
    enum bp_status status; /* of the call that compiles, and its message */
    char message[400];
};

static struct cancelled cancelled_begin(const char *words, const char *text)
{
    void *library = dlopen(ENGINED, RTLD_NOW | RTLD_LOCAL);
    struct cancelled c = {.did = library ? dlsym(library, "engined") : NULL};

    cr_assert_not_null(c.did);
    setenv("BP_ENGINED", words, 1);
    c.g = text_begin();
    text_record(&c.g, text);
    OK(bp_program_create(c.g.graph, c.g.f.device, &c.program));
    return c;
}

static void cancelled_end(struct cancelled *c)
{
    bp_program_destroy(c->program);
    text_finish(&c->g);
}

static void *compile_main(void *arg)
{
    struct cancelled *c = arg;

    c->status = bp_program_compile(c->program);
    snprintf(c->message, sizeof c->message, "%s", bp_error_message());
    return NULL;
}

static void *run_main(void *arg)
{
    struct cancelled *c = arg;
    struct bp_tensor *out = NULL;

    c->status = bp_program_run(c->program, c->g.f.stream, c->g.in, c->g.n_in, &out, 1);
    bp_tensor_destroy(out);
    return NULL;
}

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Cancels the program when its engine compiles for the n-th time, while another thread is in the
 * call. Returns the seconds until that call has returned. */
static double cancel_when(struct cancelled *c, int compiles, void *(*call)(void *))
{
    pthread_t thread;
    double begin;

    cr_assert_eq(pthread_create(&thread, NULL, call, c), 0);
    for (int i = 0; i < 20000 && atomic_load(&c->did->compiles) < compiles; i++) usleep(1000);
    cr_assert_eq(atomic_load(&c->did->compiles), compiles);
    begin = seconds_now();
    OK(bp_program_cancel(c->program));
    (void)bp_program_cancel(c->program); /* once more does no harm */
    cr_assert_eq(pthread_join(thread, NULL), 0);
    return seconds_now() - begin;
}

/* Asserts that runs go node by node, without another compilation. */
static void expect_nodes(struct cancelled *c)
{
    struct bp_program_info info = {.size = sizeof info};
    int compiles = atomic_load(&c->did->compiles);
    struct bp_tensor *out = NULL;

    OK(bp_program_run(c->program, c->g.f.stream, c->g.in, c->g.n_in, &out, 1));
    bp_tensor_destroy(out);
    OK(bp_program_get_info(c->program, &info));
    cr_assert_eq(info.compiled, 0);
    cr_assert_not_null(strstr(info.not_compiled, "the app has cancelled the compilation"), "%s",
                       info.not_compiled);
    cr_assert_eq(atomic_load(&c->did->compiles), compiles, "a run compiles again");
    FAILS(BP_ERR_NOT_FOUND, "is not being compiled", bp_program_cancel(c->program));
}

/* Asserts that the program can still be compiled. */
static void expect_compiled(struct cancelled *c)
{
    struct bp_group_info group = {.size = sizeof group};

    setenv("BP_ENGINED", "", 1);
    OK(bp_program_compile(c->program));
    OK(bp_program_group(c->program, 0, &group));
    cr_assert_eq(group.compiled, 1);
    pass_check_values(&c->g, 0);
}

Test(engine_cancel, an_engine_that_listens_ends)
{
    struct cancelled c = cancelled_begin("compile=waits", CHAIN);

    cancel_when(&c, 1, compile_main);
    cr_assert_eq(c.status, BP_ERR_CANCELLED, "%d", (int)c.status);
    cr_assert_not_null(strstr(c.message, "the app has cancelled the compilation"), "%s", c.message);
    expect_nodes(&c);
    for (int i = 0; i < 20000 && !atomic_load(&c.did->cancelled); i++) usleep(1000);
    cr_assert_eq(atomic_load(&c.did->cancelled), 1, "the engine was not asked to end");
    expect_compiled(&c);
    cancelled_end(&c);
    cr_assert_eq(atomic_load(&c.did->engines), 0);
}

/* The call does not wait for an engine that does not listen, whose result is destroyed later. */
Test(engine_cancel, an_engine_that_does_not_listen_is_left)
{
    struct cancelled c = cancelled_begin("compile=deaf", CHAIN);
    double seconds = cancel_when(&c, 1, compile_main);

    cr_assert_eq(c.status, BP_ERR_CANCELLED);
    cr_assert_lt(seconds, 60, "%g s", seconds);
    expect_nodes(&c);
    cancelled_end(&c);
    atomic_store(&c.did->release, 1);
    for (int i = 0; i < 20000 && !atomic_load(&c.did->destroyed); i++) usleep(1000);
    cr_assert_eq(atomic_load(&c.did->engines), 0);
}

/* The groups behind the one that was cancelled are not compiled: no thread calls the engine, which
 * would be late. */
Test(engine_cancel, no_other_group_is_compiled)
{
    struct cancelled c = cancelled_begin("claim=7 compile=waits", CHAIN);

    cancel_when(&c, 1, compile_main);
    cr_assert_eq(c.status, BP_ERR_CANCELLED);
    for (int i = 0; i < 1000 && atomic_load(&c.did->compiles) == 1; i++) usleep(1000);
    cr_assert_eq(atomic_load(&c.did->compiles), 1);
    expect_compiled(&c);
    cancelled_end(&c);
}

/* A run whose compilation was cancelled is no failure. */
Test(engine_cancel, a_run_goes_on_without)
{
    struct cancelled c = cancelled_begin("compile=waits", CHAIN);

    cancel_when(&c, 1, run_main);
    cr_assert_eq(c.status, BP_OK);
    expect_nodes(&c);
    expect_compiled(&c);
    cancelled_end(&c);
}

static char saved_path[] = "/tmp/bp-cancel-XXXXXX";

static void *load_main(void *arg)
{
    struct cancelled *c = arg;

    c->status = bp_program_load(c->program, saved_path);
    return NULL;
}

/* The engine compiles the group of a file again, as it saves nothing. */
Test(engine_cancel, a_load_is_cancelled)
{
    struct cancelled c = cancelled_begin("", CHAIN);
    int file = mkstemp(saved_path);

    cr_assert_geq(file, 0);
    close(file);
    OK(bp_program_compile(c.program));
    OK(bp_program_save(c.program, saved_path));
    bp_program_destroy(c.program);
    OK(bp_program_create(c.g.graph, c.g.f.device, &c.program));
    setenv("BP_ENGINED", "compile=waits", 1);
    cancel_when(&c, 2, load_main);
    cr_assert_eq(c.status, BP_ERR_CANCELLED);
    setenv("BP_ENGINED", "", 1);
    OK(bp_program_load(c.program, saved_path));
    cr_assert_eq(unlink(saved_path), 0);
    pass_check_values(&c.g, 0);
    cancelled_end(&c);
}

Test(engine_cancel, nothing_to_cancel)
{
    struct cancelled c = cancelled_begin("", CHAIN);

    FAILS(BP_ERR_NOT_FOUND, "is not being compiled", bp_program_cancel(c.program));
    FAILS(BP_ERR_INVALID, "program", bp_program_cancel(NULL));
    OK(bp_program_compile(c.program));
    FAILS(BP_ERR_NOT_FOUND, "is not being compiled", bp_program_cancel(c.program));
    expect_compiled(&c);
    cancelled_end(&c);
}

/* A cancelled compilation begins no pass, and prepares no node. */
Test(engine_cancel, passes_and_nodes_are_cancelled)
{
    struct cancelled c = cancelled_begin("claim=none", CHAIN);
    struct bp_cancel cancel = {BP_CANCEL_SET};
    struct bp_compile_options options = {.cancel = &cancel};
    struct bp_schedule *s;
    struct bp_ir *ir;

    FAILS(BP_ERR_CANCELLED, "the app has cancelled the compilation",
          bp_compile_with(c.g.graph, c.g.f.device, &options, &s));
    cr_assert_eq(atomic_load(&c.did->claims), 0);
    OK(bp_ir_create(c.g.graph, c.g.f.device, &ir));
    ir->cancel = &cancel;
    FAILS(BP_ERR_CANCELLED, "the app has cancelled the compilation",
          bp_schedule_create(ir, NULL, &s));
    cancelled_end(&c);
}
