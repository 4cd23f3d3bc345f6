/* SPDX-License-Identifier: Apache-2.0 */
/* test_program_seen.c: tests how compiled programs are described and watched. */
#include "fixture.h"

#include <backplane/kernel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

struct seen {
    struct fixture f;
    struct bp_graph *graph;
    struct bp_program *program;
};

static void seen_finish(struct seen *s)
{
    bp_program_destroy(s->program);
    bp_graph_destroy(s->graph);
    fixture_finish(&s->f);
}

/* y = relu(conv(x, w) + x), x of [1, 16, 8, 8], w a frozen constant of [16, 16, 3, 3];
 * z = exp(y). */
static struct seen seen_begin(void)
{
    struct seen s = {.f = fixture_init()};
    struct bp_conv_attrs pad = bp_conv_defaults();
    static const float zeros[16 * 16 * 9];
    struct bp_tensor *w = tensor_of(&s.f, BP_F32, 4, SHAPE(16, 16, 3, 3), zeros);
    struct bp_tensor *x, *c = NULL, *sum = NULL, *y = NULL, *z = NULL;
    struct bp_scope *scope;

    for (int i = 0; i < 6; i++) pad.pad[i] = i % 3 < 2;
    OK(bp_tensor_freeze(w));
    OK(bp_graph_create(s.f.core, &s.graph));
    scope = bp_graph_scope(s.graph);
    OK(bp_graph_input(s.graph, "x", BP_F32, 4, SHAPE(1, 16, 8, 8), &x));
    OK(bp_op_conv(scope, x, w, NULL, &pad, &c));
    OK(bp_graph_name(s.graph, c, "c"));
    OK(bp_op_add(scope, c, x, &sum));
    OK(bp_graph_name(s.graph, sum, "sum"));
    OK(bp_op_relu(scope, sum, &y));
    OK(bp_graph_name(s.graph, y, "y"));
    OK(bp_op_exp(scope, y, &z));
    OK(bp_graph_output(s.graph, z, "z"));
    OK(bp_program_create(s.graph, s.f.device, &s.program));
    bp_tensor_destroy(w), bp_tensor_destroy(x), bp_tensor_destroy(c), bp_tensor_destroy(sum);
    bp_tensor_destroy(y), bp_tensor_destroy(z);
    return s;
}

static struct bp_launch_info launch_of(const struct seen *s, const char *op, uint32_t *out_number)
{
    struct bp_launch_info info = {.size = sizeof info};

    for (uint32_t i = 0; !bp_program_launch(s->program, i, &info); i++) {
        *out_number = i;
        if (!strcmp(info.op, op)) return info;
    }
    cr_assert_fail("no launch of %s", op);
    return info;
}

static bool has_source(const struct bp_launch_info *l, const char *name)
{
    for (uint32_t i = 0; i < l->sources; i++)
        if (!strcmp(l->source[i], name)) return true;
    return false;
}

Test(program_seen, passes_are_listed)
{
    struct bp_pass_info info = {.size = sizeof info};
    uint32_t n = 0;

    while (!bp_pass_get(n, &info)) {
        cr_assert(*info.name && *info.doc, "pass %u", n);
        n++;
    }
    cr_assert(n > 0);
    FAILS(BP_ERR_NOT_FOUND, "there is no pass", bp_pass_get(n, &info));
    FAILS(BP_ERR_NOT_FOUND, "there is no pass", bp_pass_get(UINT32_MAX, &info));
}

Test(program_seen, nothing_is_known_before_the_program_is_compiled)
{
    struct seen s = seen_begin();
    struct bp_pass_result pass = {.size = sizeof pass};
    struct bp_launch_info launch = {.size = sizeof launch};
    struct bp_operand_info operand = {.size = sizeof operand};

    FAILS(BP_ERR_NOT_READY, "bp_program_compile", bp_program_pass(s.program, 0, &pass));
    FAILS(BP_ERR_NOT_READY, "bp_program_compile", bp_program_launch(s.program, 0, &launch));
    FAILS(BP_ERR_NOT_READY, "bp_program_compile", bp_program_operand(s.program, 0, 0, &operand));
    OK(bp_program_compile(s.program));
    OK(bp_program_compile(s.program));
    OK(bp_program_launch(s.program, 0, &launch));
    FAILS(BP_ERR_NOT_FOUND, "operand", bp_program_operand(s.program, 0, 99, &operand));
    FAILS(BP_ERR_NOT_FOUND, "launch", bp_program_launch(s.program, 99, &launch));
    seen_finish(&s);
}

Test(program_seen, a_merged_node_names_all_nodes_that_it_replaces)
{
    struct seen s = seen_begin();
    struct bp_launch_info l;
    struct bp_pass_result pass = {.size = sizeof pass};
    struct bp_program_info info = {.size = sizeof info};
    uint32_t n, changes = 0;

    OK(bp_program_compile(s.program));
    l = launch_of(&s, "fused_conv", &n);
    cr_assert_eq(l.sources, 3, "%u sources of %s", l.sources, l.node);
    cr_assert(has_source(&l, "c") && has_source(&l, "sum") && has_source(&l, "y"));
    cr_assert_str_eq(l.node_op, "fused_conv");
    cr_assert_eq(l.flops, 2 * 1024 * 144);
    cr_assert_geq(l.read, (1024 + 2304) * sizeof(float));
    cr_assert_eq(l.written, 1024 * sizeof(float));
    l = launch_of(&s, "exp", &n);
    cr_assert_eq(l.sources, 1);
    cr_assert_eq(l.flops, 0);
    for (uint32_t i = 0; !bp_program_pass(s.program, i, &pass); i++) changes += pass.changes;
    cr_assert_gt(changes, 0);
    OK(bp_program_get_info(s.program, &info));
    cr_assert_eq(info.recorded_nodes, 4);
    cr_assert_eq(info.constants, 2304 * sizeof(float));
    cr_assert_eq(info.folded, 0);
    seen_finish(&s);
}

/* A node that two equal nodes became has both names. */
Test(program_seen, equal_nodes_are_sources_of_one)
{
    struct seen s;
    struct bp_tensor *x, *a = NULL, *b = NULL, *y = NULL;
    struct bp_launch_info l;
    struct bp_scope *scope;
    uint32_t n;

    setenv("BP_PASSES", "-fuse", 1); /* the reader stays a node of its own */
    s = (struct seen){.f = fixture_init()};
    OK(bp_graph_create(s.f.core, &s.graph));
    scope = bp_graph_scope(s.graph);
    OK(bp_graph_input(s.graph, "x", BP_F32, 1, SHAPE(8), &x));
    OK(bp_op_exp(scope, x, &a));
    OK(bp_op_exp(scope, x, &b));
    OK(bp_op_sub(scope, a, b, &y));
    OK(bp_graph_output(s.graph, y, "y"));
    OK(bp_program_create(s.graph, s.f.device, &s.program));
    OK(bp_program_compile(s.program));
    l = launch_of(&s, "exp", &n);
    cr_assert_eq(l.sources, 2, "%u sources", l.sources);
    bp_tensor_destroy(x), bp_tensor_destroy(a), bp_tensor_destroy(b), bp_tensor_destroy(y);
    seen_finish(&s);
}

Test(program_seen, operands_have_the_place_of_values)
{
    struct seen s = seen_begin();
    struct bp_operand_info o = {.size = sizeof o};
    struct bp_launch_info l;
    uint32_t n;

    OK(bp_program_compile(s.program));
    l = launch_of(&s, "exp", &n);
    OK(bp_program_operand(s.program, n, l.n_in, &o));
    cr_assert_eq(o.memory, BP_MEMORY_RESULT);
    cr_assert_eq(o.bytes, 1024 * sizeof(float));
    cr_assert(o.type && o.type->rank == 4 && o.type->shape[1] == 16 && o.type->dtype == BP_F32);
    l = launch_of(&s, "fused_conv", &n);
    OK(bp_program_operand(s.program, n, 1, &o));
    cr_assert_eq(o.memory, BP_MEMORY_CONSTANT);
    cr_assert(o.type->data && !o.folded);
    OK(bp_program_operand(s.program, n, 2, &o));
    cr_assert_null(o.type); /* there is no bias */
    seen_finish(&s);
}

/* The launches that a watcher saw. */
struct watched {
    uint32_t launches, next;
    bool is_wrong;
    char ops[256];
    float last; /* the first element of the last output */
};

static void watcher_see(void *ctx, const struct bp_watched_launch *launch)
{
    struct watched *w = ctx;
    struct bp_launch_info again = {.size = sizeof again};
    size_t used = strlen(w->ops);

    w->is_wrong |= launch->launch != w->next++ || launch->ns > UINT64_C(60000000000) ||
                   bp_program_launch(launch->program, launch->launch, &again) ||
                   strcmp(again.kernel, launch->info->kernel) || again.n_in != launch->info->n_in;
    snprintf(w->ops + used, sizeof w->ops - used, "%s ", launch->info->op);
    memcpy(&w->last, launch->out[0]->data, sizeof w->last);
    w->launches++;
}

static void run_once(struct seen *s)
{
    static const float zeros[1024];
    struct bp_tensor *x = tensor_of(&s->f, BP_F32, 4, SHAPE(1, 16, 8, 8), zeros), *z = NULL;

    OK(bp_program_run(s->program, s->f.stream, &x, 1, &z, 1));
    bp_tensor_destroy(x);
    bp_tensor_destroy(z);
}

Test(program_seen, a_watcher_sees_each_launch_in_order)
{
    struct seen s = seen_begin();
    struct watched w = {0};
    struct bp_program_info info = {.size = sizeof info};

    OK(bp_program_watch(s.program, watcher_see, &w));
    run_once(&s);
    OK(bp_program_get_info(s.program, &info));
    cr_assert_eq(info.compiled, 1, "%s", info.not_compiled);
    cr_assert_eq(w.launches, info.launches);
    cr_assert(!w.is_wrong);
    cr_assert(strstr(w.ops, "fused_conv ") && strstr(w.ops, "exp "), "%s", w.ops);
    cr_assert_float_eq(w.last, 1, 0); /* exp(relu(conv(0) + 0)) */
    OK(bp_program_watch(s.program, NULL, NULL));
    run_once(&s);
    cr_assert_eq(w.launches, info.launches, "a watcher that was removed was called");
    seen_finish(&s);
}

enum {
    THREADS = 4,
    RUNS = 50
};

/* Counts launches of runs on several threads. */
static void watcher_count(void *ctx, const struct bp_watched_launch *launch)
{
    atomic_fetch_add((_Atomic uint32_t *)ctx, launch->info->n_out ? 1 : 1000);
}

static void *thread_run(void *arg)
{
    struct seen *s = arg;
    struct bp_tensor *x = tensor_of(&s->f, BP_F32, 4, SHAPE(1, 16, 8, 8), NULL), *z = NULL;
    struct bp_stream *stream;

    OK(bp_stream_create(s->f.device, &stream));
    for (int i = 0; i < RUNS; i++) OK(bp_program_run(s->program, stream, &x, 1, &z, 1));
    OK(bp_stream_synchronize(stream));
    bp_tensor_destroy(x);
    bp_tensor_destroy(z);
    bp_stream_destroy(stream);
    return NULL;
}

Test(program_seen, a_watcher_sees_runs_of_several_threads)
{
    struct seen s = seen_begin();
    struct bp_program_info info = {.size = sizeof info};
    _Atomic uint32_t launches = 0;
    pthread_t thread[THREADS];

    OK(bp_program_compile(s.program));
    OK(bp_program_get_info(s.program, &info));
    OK(bp_program_watch(s.program, watcher_count, &launches));
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&thread[i], NULL, thread_run, &s), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    cr_assert_eq(launches, THREADS * RUNS * info.launches, "%u launches", launches);
    seen_finish(&s);
}

Test(program_seen, a_program_that_cannot_be_compiled_has_a_reason)
{
    struct seen s = {.f = fixture_init()};
    struct bp_tensor *x, *y = NULL;

    OK(bp_graph_create(s.f.core, &s.graph));
    OK(bp_graph_input(s.graph, "x", BP_F32, 1, SHAPE(8), &x));
    OK(bp_op_nonzero(bp_graph_scope(s.graph), x, &y));
    OK(bp_graph_output(s.graph, y, "y"));
    OK(bp_program_create(s.graph, s.f.device, &s.program));
    FAILS(BP_ERR_UNSUPPORTED, "depend on data", bp_program_compile(s.program));
    FAILS(BP_ERR_UNSUPPORTED, "depend on data", bp_program_compile(s.program));
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    seen_finish(&s);
}
