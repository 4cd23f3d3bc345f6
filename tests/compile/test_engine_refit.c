/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine_refit.c: tests programs that are made like another program: groups that an engine
 * compiled for one are used by the other, or are made again with other weights. The device is the
 * one of ../plugins/engined/engined.h. */
#include "pass_kit.h"

#include "../plugins/engined/engined.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    N = 4
};
static const int64_t shape[2] = {N, N};

/* The weights of a network, and its only input. */
struct weights {
    struct bp_tensor *w, *v, *s;
};

static struct fixture f;
static struct engined *did;
static struct bp_tensor *x;

static void refit_begin(const char *words)
{
    void *library = dlopen(ENGINED, RTLD_NOW | RTLD_LOCAL);
    float number[N * N];

    setenv("BP_ENGINED", words, 1);
    did = library ? dlsym(library, "engined") : NULL;
    cr_assert_not_null(did);
    f = fixture_init();
    for (int i = 0; i < N * N; i++) number[i] = (float)i / 8 - 1;
    x = tensor_of(&f, BP_F32, 2, shape, number);
}

static void refit_end(void)
{
    bp_tensor_destroy(x);
    fixture_finish(&f);
    cr_assert_eq(atomic_load(&did->engines), 0, "an engine is left");
    cr_assert_eq(atomic_load(&did->contexts), 0, "a context is left");
}

/* Makes a frozen matrix, whose numbers depend on a number. */
static struct bp_tensor *matrix_of(int seed)
{
    struct bp_tensor *t;
    float number[N * N];

    for (int i = 0; i < N * N; i++) number[i] = (float)((i * 7 + seed * 5) % 11) / 11 - 0.4f;
    t = tensor_of(&f, BP_F32, 2, shape, number);
    OK(bp_tensor_freeze(t));
    return t;
}

static struct weights weights_of(int w, int v, int s)
{
    return (struct weights){matrix_of(w), matrix_of(v), matrix_of(s)};
}

static void weights_free(struct weights *n)
{
    bp_tensor_destroy(n->w);
    bp_tensor_destroy(n->v);
    bp_tensor_destroy(n->s);
}

/* Records tanh(x w + v s), or the sigmoid of it, or three blocks of that one after the other, with
 * transpositions between, which the engine does not know; the second one has v in place of w. The
 * product v s is folded. */
static struct bp_graph *network_record(const struct weights *n, bool sigmoid, int blocks)
{
    struct bp_tensor *in, *a, *b, *c, *y;
    struct bp_scope *scope;
    struct bp_graph *graph;

    OK(bp_graph_create(f.core, &graph));
    scope = bp_graph_scope(graph);
    OK(bp_graph_input(graph, "x", BP_F32, 2, shape, &in));
    for (int i = 0; i < blocks; i++) {
        a = b = c = y = NULL; /* recorded calls make their outputs */
        OK(bp_op_matmul(scope, in, i == 1 ? n->v : n->w, NULL, &a));
        OK(bp_op_mul(scope, n->v, n->s, &b));
        OK(bp_op_add(scope, a, b, &c));
        OK(sigmoid ? bp_op_sigmoid(scope, c, &y) : bp_op_tanh(scope, c, &y));
        bp_tensor_destroy(a);
        bp_tensor_destroy(b);
        bp_tensor_destroy(c);
        bp_tensor_destroy(in);
        in = y;
        if (i + 1 == blocks) continue;
        in = NULL;
        OK(bp_op_transpose(scope, y, NULL, &in));
        bp_tensor_destroy(y);
    }
    OK(bp_graph_output(graph, in, "y"));
    bp_tensor_destroy(in);
    return graph;
}

/* Makes and compiles a program of a graph, whose handle is destroyed. */
static struct bp_program *program_like(struct bp_graph *graph, struct bp_program *like,
                                       uint32_t flags)
{
    struct bp_program_options options = {.size = sizeof options, .like = like, .flags = flags};
    struct bp_program *p;

    OK(bp_program_create_with(graph, f.device, &options, &p));
    OK(bp_program_compile(p));
    bp_graph_destroy(graph);
    return p;
}

static struct bp_group_info group_at(struct bp_program *p, uint32_t index)
{
    struct bp_group_info group = {.size = sizeof group};

    OK(bp_program_group(p, index, &group));
    return group;
}

/* Asserts that a program computes what a network does with these weights, bit by bit. */
static void expect_values(struct bp_program *p, const struct weights *n, int blocks)
{
    struct bp_graph *graph = network_record(n, false, blocks);
    struct bp_tensor *got = NULL, *wanted = NULL;
    float a[N * N], b[N * N];

    OK(bp_program_run(p, f.stream, &x, 1, &got, 1));
    OK(bp_graph_run(graph, f.stream, &x, 1, &wanted, 1));
    OK(bp_tensor_read(f.stream, got, a, sizeof a));
    OK(bp_tensor_read(f.stream, wanted, b, sizeof b));
    for (int i = 0; i < N * N; i++)
        cr_assert_float_eq(a[i], b[i], 1e-5, "element %d: %g, expected %g", i, (double)a[i],
                           (double)b[i]);
    bp_tensor_destroy(got);
    bp_tensor_destroy(wanted);
    bp_graph_destroy(graph);
}

/* Compiles a network, then one like it with other weights, and asserts how often the engine does
 * what, and how the second group was made. */
static void expect_refit(const char *words, struct weights first, struct weights second,
                         int compiles, int refits, int changed, uint32_t origin)
{
    struct bp_program *a, *b;

    a = program_like(network_record(&first, false, 1), NULL, 0);
    cr_assert_eq(atomic_load(&did->compiles), 1);
    cr_assert_eq(group_at(a, 0).origin, BP_GROUP_COMPILED);
    b = program_like(network_record(&second, false, 1), a, 0);
    cr_assert_eq(atomic_load(&did->compiles), compiles, "%s", words);
    cr_assert_eq(atomic_load(&did->refits), refits, "%s", words);
    cr_assert_eq(atomic_load(&did->changed), changed, "%s: %d constants", words,
                 atomic_load(&did->changed));
    cr_assert(group_at(b, 0).compiled, "%s: %s", words, group_at(b, 0).text);
    cr_assert_eq(group_at(b, 0).origin, origin, "%s: %u", words, group_at(b, 0).origin);
    cr_assert_str_eq(group_at(b, 0).text, "interpreted");
    expect_values(b, &second, 1);
    expect_values(a, &first, 1);
    bp_program_destroy(a);
    expect_values(b, &second, 1);
    bp_program_destroy(b);
    weights_free(&first);
    weights_free(&second);
}

Test(engine_refit, an_engine_gets_new_weights)
{
    refit_begin("refits");
    expect_refit("refits", weights_of(1, 2, 3), weights_of(4, 5, 6), 1, 1, 2, BP_GROUP_REFITTED);
    refit_end();
}

Test(engine_refit, an_engine_with_contexts_gets_new_weights)
{
    refit_begin("refits contexts");
    expect_refit("refits", weights_of(1, 2, 3), weights_of(4, 5, 6), 1, 1, 2, BP_GROUP_REFITTED);
    refit_end();
}

/* The engine takes constants that are not listed as changed from the other group. The product of
 * equal tensors is one folded constant, which both programs share. */
Test(engine_refit, constants_that_did_not_change_are_not_listed)
{
    struct weights first, second;

    refit_begin("refits");
    first = weights_of(1, 2, 3);
    second = (struct weights){matrix_of(4), bp_tensor_retain(first.v), bp_tensor_retain(first.s)};
    expect_refit("w", first, second, 1, 1, 1, BP_GROUP_REFITTED);
    refit_end();
    refit_begin("refits");
    atomic_store(&did->compiles, 0);
    atomic_store(&did->refits, 0);
    atomic_store(&did->changed, 0);
    first = weights_of(1, 2, 3);
    second = (struct weights){bp_tensor_retain(first.w), matrix_of(4), bp_tensor_retain(first.s)};
    expect_refit("v", first, second, 1, 1, 1, BP_GROUP_REFITTED);
    refit_end();
}

/* With equal constants there is nothing to make, whether the engine has refit or not. */
Test(engine_refit, a_group_with_the_same_constants_is_shared)
{
    struct weights first, second;

    refit_begin("contexts");
    first = weights_of(1, 2, 3);
    second = (struct weights){bp_tensor_retain(first.w), bp_tensor_retain(first.v),
                              bp_tensor_retain(first.s)};
    expect_refit("", first, second, 1, 0, 0, BP_GROUP_SHARED);
    refit_end();
}

Test(engine_refit, without_refit_the_engine_compiles_again)
{
    refit_begin("");
    expect_refit("", weights_of(1, 2, 3), weights_of(4, 5, 6), 2, 0, 0, BP_GROUP_COMPILED);
    refit_end();
}

Test(engine_refit, an_engine_that_cannot_refit_compiles_again)
{
    static const char *const words[] = {"refit=stale", "refit=fails", "refit=types"};

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        refit_begin(words[i]);
        atomic_store(&did->compiles, 0);
        atomic_store(&did->refits, 0);
        atomic_store(&did->changed, 0);
        expect_refit(words[i], weights_of(1, 2, 3), weights_of(4, 5, 6), 2, 1, 2,
                     BP_GROUP_COMPILED);
        refit_end();
    }
}

/* Another graph, and other flags, share nothing. */
Test(engine_refit, groups_that_differ_are_compiled)
{
    struct bp_program *a, *b, *c;
    struct weights n;

    refit_begin("refits");
    n = weights_of(1, 2, 3);
    a = program_like(network_record(&n, false, 1), NULL, 0);
    b = program_like(network_record(&n, true, 1), a, 0);
    cr_assert_eq(group_at(b, 0).origin, BP_GROUP_COMPILED);
    c = program_like(network_record(&n, false, 1), a, BP_PROGRAM_FAST_MATH);
    cr_assert_eq(group_at(c, 0).origin, BP_GROUP_COMPILED);
    cr_assert_eq(atomic_load(&did->compiles), 3);
    cr_assert_eq(atomic_load(&did->refits), 0);
    bp_program_destroy(c);
    bp_program_destroy(b);
    bp_program_destroy(a);
    weights_free(&n);
    refit_end();
}

/* Of groups with equal nodes that with the fewest other constants is taken. */
Test(engine_refit, the_most_similar_group_is_taken)
{
    struct bp_program *a, *b;
    struct weights n;

    refit_begin("refits");
    n = weights_of(1, 2, 3);
    a = program_like(network_record(&n, false, 3), NULL, 0);
    cr_assert(group_at(a, 2).compiled, "three groups");
    b = program_like(network_record(&n, false, 3), a, 0);
    cr_assert_eq(group_at(b, 0).origin, BP_GROUP_SHARED);
    cr_assert_eq(group_at(b, 1).origin, BP_GROUP_SHARED);
    cr_assert_eq(group_at(b, 2).origin, BP_GROUP_SHARED);
    expect_values(b, &n, 3);
    bp_program_destroy(a);
    bp_program_destroy(b);
    weights_free(&n);
    refit_end();
}

/* The groups live as long as the new program needs them, also if it is not compiled yet. */
Test(engine_refit, the_first_program_may_be_destroyed_at_once)
{
    struct bp_program_options options = {.size = sizeof options};
    struct bp_program *a, *b, *c;
    struct weights n, m;
    struct bp_graph *graph;

    refit_begin("refits contexts");
    n = weights_of(1, 2, 3);
    m = weights_of(4, 5, 6);
    a = program_like(network_record(&n, false, 1), NULL, 0);
    expect_values(a, &n, 1);
    options.like = a;
    graph = network_record(&m, false, 1);
    OK(bp_program_create_with(graph, f.device, &options, &b));
    OK(bp_program_create_with(graph, f.device, &options, &c));
    bp_graph_destroy(graph);
    bp_program_destroy(a);
    weights_free(&n);
    cr_assert_eq(atomic_load(&did->engines), 1);
    bp_program_destroy(c); /* never compiled */
    expect_values(b, &m, 1);
    cr_assert_eq(atomic_load(&did->refits), 1);
    cr_assert_eq(atomic_load(&did->engines), 1, "the first group is not needed any more");
    bp_program_destroy(b);
    weights_free(&m);
    refit_end();
}

/* ---- runs in flight ---- */

struct runner {
    struct bp_program *p;
    const float *expected;
    int wrong;
    atomic_bool *stop;
};

static void *runner_main(void *arg)
{
    struct runner *r = arg;
    struct bp_stream *stream;
    float got[N * N];

    OK(bp_stream_create(f.device, &stream));
    while (!atomic_load(r->stop)) {
        struct bp_tensor *out = NULL;
        OK(bp_program_run(r->p, stream, &x, 1, &out, 1));
        OK(bp_tensor_read(stream, out, got, sizeof got));
        r->wrong += memcmp(got, r->expected, sizeof got) != 0;
        bp_tensor_destroy(out);
    }
    bp_stream_destroy(stream);
    return NULL;
}

/* Threads run the first program while others are made like it: their results stay the same. */
Test(engine_refit, runs_in_flight_keep_their_weights)
{
    atomic_bool stop = false;
    struct runner runner[3];
    struct bp_tensor *out = NULL;
    struct bp_program *a;
    struct weights n, m;
    pthread_t thread[3];
    float expected[N * N];

    refit_begin("refits contexts");
    n = weights_of(1, 2, 3);
    a = program_like(network_record(&n, false, 1), NULL, 0);
    OK(bp_program_run(a, f.stream, &x, 1, &out, 1));
    OK(bp_tensor_read(f.stream, out, expected, sizeof expected));
    bp_tensor_destroy(out);
    for (int i = 0; i < 3; i++) {
        runner[i] = (struct runner){a, expected, 0, &stop};
        cr_assert_eq(pthread_create(&thread[i], NULL, runner_main, &runner[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        struct bp_program *b;
        m = weights_of(4 + i, 5, 6);
        b = program_like(network_record(&m, false, 1), a, 0);
        cr_assert_eq(group_at(b, 0).origin, BP_GROUP_REFITTED);
        expect_values(b, &m, 1);
        bp_program_destroy(b);
        weights_free(&m);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(pthread_join(thread[i], NULL), 0);
        cr_assert_eq(runner[i].wrong, 0);
    }
    bp_program_destroy(a);
    weights_free(&n);
    refit_end();
}

/* An engine that does not listen keeps the group that it reads, after both programs. Kernels run
 * the nodes. */
Test(engine_refit, a_refit_that_hangs_is_left)
{
    struct bp_program *a, *b;
    struct weights n, m;

    refit_begin("refit=deaf");
    n = weights_of(1, 2, 3);
    m = weights_of(4, 5, 6);
    a = program_like(network_record(&n, false, 1), NULL, 0);
    setenv("BP_ENGINE_TIMEOUT", "0.1", 1);
    b = program_like(network_record(&m, false, 1), a, 0);
    cr_assert_eq(group_at(b, 0).compiled, 0);
    cr_assert_not_null(strstr(group_at(b, 0).text, "was not over after 0.1 s"), "%s",
                       group_at(b, 0).text);
    expect_values(b, &m, 1);
    bp_program_destroy(a);
    bp_program_destroy(b);
    cr_assert_eq(atomic_load(&did->engines), 1);
    atomic_store(&did->release, 1);
    for (int i = 0; i < 20000 && atomic_load(&did->destroyed) < 2; i++) usleep(1000);
    cr_assert_eq(atomic_load(&did->destroyed), 2);
    weights_free(&n);
    weights_free(&m);
    refit_end();
}

/* ---- mistakes ---- */

Test(engine_refit, programs_that_no_program_can_be_like)
{
    struct bp_program_options options = {.size = sizeof options};
    struct bp_program *a, *b = NULL;
    struct bp_device *other;
    struct bp_core *core;
    struct weights n;
    struct bp_graph *graph;

    refit_begin("");
    n = weights_of(1, 2, 3);
    graph = network_record(&n, false, 1);
    OK(bp_program_create(graph, f.device, &a));
    options.like = a;
    FAILS(BP_ERR_NOT_READY, "options->like is not compiled",
          bp_program_create_with(graph, f.device, &options, &b));
    options.size = offsetof(struct bp_program_options, like);
    OK(bp_program_create_with(graph, f.device, &options, &b)); /* an app of older headers */
    bp_program_destroy(b);
    options.size = sizeof options;
    options.like = (struct bp_program *)(void *)graph;
    FAILS(BP_ERR_INVALID, "program", bp_program_create_with(graph, f.device, &options, &b));
    bp_graph_destroy(graph);
    OK(bp_program_compile(a));
    OK(bp_core_create(NULL, &core));
    OK(bp_device_create(core, "cpu:0", &other));
    OK(bp_graph_create(core, &graph));
    options.like = a;
    FAILS(BP_ERR_INVALID, "options->like is a program of",
          bp_program_create_with(graph, other, &options, &b));
    bp_graph_destroy(graph);
    bp_device_destroy(other);
    bp_core_destroy(core);
    bp_program_destroy(a);
    weights_free(&n);
    refit_end();
}
