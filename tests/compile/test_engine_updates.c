/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine_updates.c: tests engines that update memory, such as weights and caches: which nodes
 * may be in a group, values after runs, and rows of bp_content. The words of the engine's device:
 * ../plugins/engined/engined.h. */
#include "engine_kit.h"

#include <backplane/ops.h>
#include <math.h>
#include <stdlib.h>

enum {
    MOST = 256
};

/* A step of training: two layers, a squared error, and plain gradient descent. */
#define TRAINING \
    "a = tanh(matmul(x[8,4], w~[4,16]))\n" \
    "d = sub(matmul(a, v~[16,2]), t[8,2])\n" \
    "gv = matmul(a, d; transpose_a=1)\n" \
    "ga = matmul(d, v~; transpose_b=1)\n" \
    "gw = matmul(x, mul(ga, sub(1, mul(a, a))); transpose_a=1)\n" \
    "sgd(w~, gw, 0.05)\n" \
    "sgd(v~, gv, 0.05)\n" \
    "return d"

static const char *why_left(const struct compiled *c, const char *op)
{
    struct bp_left_info left = {.size = sizeof left};

    for (uint32_t i = 0;; i++) {
        OK(bp_program_left(c->program, i, &left));
        if (!left.node) return "it is in a group";
        if (!strcmp(left.op, op)) return left.why;
    }
}

static size_t count_of(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    cr_assert(info.count <= MOST);
    return (size_t)info.count;
}

static void read_floats(const struct compiled *c, struct bp_tensor *t, float *to)
{
    OK(bp_tensor_read(c->g.f.stream, t, to, count_of(t) * sizeof *to));
}

/* Runs the program once, or the graph node by node. */
static void graph_run_once(const struct compiled *c, bool node_by_node)
{
    struct bp_tensor *out[4] = {NULL};
    uint32_t n_out = c->g.n_output;

    if (node_by_node) OK(bp_graph_run(c->g.graph, c->g.f.stream, c->g.in, c->g.n_in, out, n_out));
    else OK(bp_program_run(c->program, c->g.f.stream, c->g.in, c->g.n_in, out, n_out));
    for (uint32_t o = 0; o < n_out; o++) bp_tensor_destroy(out[o]);
}

static void expect_near(const float *got, const float *expected, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        cr_assert(fabsf(got[i] - expected[i]) <= 1e-5f * (1 + fabsf(expected[i])),
                  "%s: element %zu is %g, expected %g", what, i, (double)got[i],
                  (double)expected[i]);
}

/* The same graph twice: one has run as a program, the other one node by node. */
struct pair {
    struct compiled c, reference;
};

static struct pair pair_of(const char *words, const char *text)
{
    struct pair p = {.c = compiled_of(words, text)};

    p.reference.g = text_begin();
    text_record(&p.reference.g, text);
    return p;
}

static void pair_run(struct pair *p, int n)
{
    for (int i = 0; i < n; i++) graph_run_once(&p->c, false);
    for (int i = 0; i < n; i++) graph_run_once(&p->reference, true);
}

static void pair_compare_tensors(struct pair *p, struct bp_tensor *t, struct bp_tensor *of)
{
    float got[MOST], expected[MOST];

    read_floats(&p->c, t, got);
    read_floats(&p->reference, of, expected);
    expect_near(got, expected, count_of(t), "a tensor");
}

static void pair_compare(struct pair *p, const char *name)
{
    pair_compare_tensors(p, text_find(&p->c.g, name), text_find(&p->reference.g, name));
}

static void pair_destroy(struct pair *p)
{
    text_finish(&p->reference.g);
    compiled_finish(&p->c);
}

/* ---- which nodes may be in a group ---- */

Test(engine_updates, a_step_of_training_is_one_launch)
{
    struct pair p = pair_of("updates", TRAINING);
    struct bp_tensor_info info = {.size = sizeof info};
    float before[MOST], after[MOST];
    uint64_t version;
    int runs = atomic_load(&p.c.did->runs);

    cr_assert_str_eq(p.c.launches, "engine", "%s: %s", p.c.launches, why_left(&p.c, "sgd"));
    read_floats(&p.c, text_find(&p.c.g, "w"), before);
    OK(bp_tensor_get_info(text_find(&p.c.g, "w"), &info));
    version = info.version;
    pair_run(&p, 5);
    OK(bp_tensor_get_info(text_find(&p.c.g, "w"), &info));
    cr_assert_geq(info.version, version + 5, "each run counts as a write");
    read_floats(&p.c, text_find(&p.c.g, "w"), after);
    cr_assert(memcmp(before, after, 64 * sizeof *after), "the weights have not changed");
    pair_compare(&p, "w");
    pair_compare(&p, "v");
    cr_assert_eq(atomic_load(&p.c.did->runs) - runs, 5);
    pair_destroy(&p);
}

Test(engine_updates, other_engines_get_no_updates)
{
    struct pair p = pair_of("", TRAINING);

    cr_assert_str_eq(why_left(&p.c, "sgd"), "it updates an input");
    cr_assert_str_eq(why_left(&p.c, "matmul"), "it uses memory that the graph updates");
    pair_run(&p, 2);
    pair_compare(&p, "w");
    pair_destroy(&p);
}

/* A group whose nodes have no results for others. */
Test(engine_updates, a_group_that_only_updates)
{
    struct pair p = pair_of("updates only=sgd", "sgd(p~[4], g[4], 0.5)\nreturn relu(x)");

    cr_assert_str_eq(p.c.launches, "engine relu");
    pair_run(&p, 3);
    pair_compare(&p, "p");
    pair_destroy(&p);
}

/* Nodes read the memory before, between and after updates, and results of updates. */
Test(engine_updates, order_of_reads_and_updates)
{
    struct pair p = pair_of("updates", "a = tanh(p~[4])\n"
                                       "q = sgd(p~, g[4], 0.5)\n"
                                       "b = tanh(q)\n"
                                       "c = relu(p~)\n"
                                       "sgd(p~, b, 0.25)\n"
                                       "e = neg(p~)\n"
                                       "return a, b, c, e");
    struct bp_tensor *got[4] = {NULL}, *expected[4] = {NULL};
    float x[MOST], y[MOST];

    cr_assert_str_eq(p.c.launches, "engine", "%s: %s", p.c.launches, why_left(&p.c, "sgd"));
    for (int run = 0; run < 3; run++) {
        OK(bp_program_run(p.c.program, p.c.g.f.stream, p.c.g.in, p.c.g.n_in, got, 4));
        OK(bp_graph_run(p.reference.g.graph, p.reference.g.f.stream, p.reference.g.in,
                        p.reference.g.n_in, expected, 4));
        for (int o = 0; o < 4; o++) {
            read_floats(&p.c, got[o], x);
            read_floats(&p.reference, expected[o], y);
            expect_near(x, y, 4, "an output");
            bp_tensor_destroy(got[o]);
            bp_tensor_destroy(expected[o]);
            got[o] = expected[o] = NULL;
        }
        pair_compare(&p, "p");
    }
    pair_destroy(&p);
}

/* Asserts that the updates of a text are in no group, for this reason, and that values are
 * right. */
static void expect_kernels(const char *words, const char *text, const char *why)
{
    struct pair p = pair_of(words, text);

    cr_assert_not_null(strstr(why_left(&p.c, "sgd"), why), "%s: '%s' does not say '%s'", text,
                       why_left(&p.c, "sgd"), why);
    pair_run(&p, 3);
    if (strstr(text, "p~")) pair_compare(&p, "p");
    else pair_compare_tensors(&p, text_input(&p.c.g, "g"), text_input(&p.reference.g, "g"));
    pair_destroy(&p);
}

Test(engine_updates, updates_that_are_in_no_group)
{
    expect_kernels("updates", "q = sgd(p~[4], g[4], 0.5)\nreturn q, relu(g)",
                   "an output lies in the memory that the graph updates");
    expect_kernels("updates",
                   "q = reshape(p~[4]; shape=2_2)\nsgd(p~, g[4], 0.5)\nreturn q, relu(g)",
                   "an output lies in the memory that the graph updates");
    expect_kernels("updates", "y = relu(g[4])\nsgd(g, y, 0.5)\nreturn y",
                   "an input or a result that the graph updates");
    expect_kernels("updates refuse=tanh", "y = tanh(p~[4])\nsgd(p~, g[4], 0.5)\nreturn y",
                   "as nodes outside its group do");
    expect_kernels("updates", "v = reshape(p~[4]; shape=2_2)\nsgd(p~, g[4], 0.5)\nreturn relu(v)",
                   "a view of memory is read after the memory was updated");
    expect_kernels("updates", "q = sgd(p~[4], g[4], 0.5)\nsgd(p~, g, 0.5)\nreturn relu(q)",
                   "a view of memory is read after the memory was updated");
    expect_kernels("updates", "v = reshape(p~[4]; shape=2_2)\nsgd(v, g[2,2], 0.5)\nreturn relu(g)",
                   "a view of the memory is updated");
}

/* Groups whose parts depend on each other are divided, and then not all users of the memory are in
 * one. */
Test(engine_updates, groups_that_are_divided)
{
    static const char text[] = "a = tanh(p~[4])\n"
                               "b = neg(a)\n"
                               "sgd(p~, relu(b), 0.5)\n"
                               "return sigmoid(p~), a";

    for (int claim = 1; claim < 7; claim++) {
        char words[64];
        struct pair p;
        snprintf(words, sizeof words, "updates claim=%d", claim);
        p = pair_of(words, text);
        pair_run(&p, 3);
        pair_compare(&p, "p");
        pair_destroy(&p);
        snprintf(words, sizeof words, "updates claim=%d refuse=neg", claim);
        p = pair_of(words, text);
        cr_assert_not_null(strstr(why_left(&p.c, "sgd"), "as nodes outside its group do"));
        pair_run(&p, 3);
        pair_compare(&p, "p");
        pair_destroy(&p);
    }
}

/* A view of the memory that is not read after an update may be in the group. */
Test(engine_updates, views_before_updates)
{
    struct pair p = pair_of("updates", "v = reshape(p~[4]; shape=2_2)\ny = tanh(v)\n"
                                       "sgd(p~, g[4], 0.5)\nreturn y");

    cr_assert_str_eq(p.c.launches, "engine", "%s: %s", p.c.launches, why_left(&p.c, "sgd"));
    pair_run(&p, 3);
    pair_compare(&p, "p");
    pair_destroy(&p);
}

/* The engine's own order of an input that it updates would be a copy. */
Test(engine_updates, other_layouts_of_updated_inputs)
{
    struct pair p = pair_of("updates last", "sgd(p~[1,3,4,4], g[1,3,4,4], 0.5)\nreturn relu(x)");
    struct bp_group_info group = group_of(&p.c, 0);

    cr_assert_eq(group.compiled, 0);
    cr_assert_not_null(strstr(group.text, "which the group updates, channels-last"), "%s",
                       group.text);
    pair_run(&p, 2);
    pair_compare(&p, "p");
    pair_destroy(&p);
}

/* ---- contents ---- */

/* The copies that the engine made since the last call of this function. */
static int copies_made(const struct pair *p)
{
    static int before;
    int now = atomic_load(&p->c.did->copied), made = now - before;

    before = now;
    return made;
}

/* The changes between two runs, in the program's graph and in the other one. */
static void change_write(struct compiled *c)
{
    float data[MOST];
    struct bp_tensor *w = text_find(&c->g, "w");

    for (int i = 0; i < 64; i++) data[i] = (float)(i % 7) / 8 - 0.25f;
    OK(bp_tensor_write(c->g.f.stream, w, data, 64 * sizeof *data));
}

static void change_copy(struct compiled *c)
{
    struct bp_tensor *w = text_find(&c->g, "w"), *other = NULL;

    OK(bp_op_neg(c->g.f.scope, w, &other));
    OK(bp_tensor_copy(c->g.f.stream, w, other));
    bp_tensor_destroy(other);
}

static void change_by_kernel(struct compiled *c)
{
    struct bp_tensor *w = text_find(&c->g, "w"), *g = NULL, *rate, *out = NULL;

    OK(bp_op_mul(c->g.f.scope, w, w, &g));
    rate = tensor_of(&c->g.f, BP_F32, 0, NULL, F32(0.125f));
    OK(bp_op_sgd(c->g.f.scope, w, g, rate, &out));
    bp_tensor_destroy(out);
    bp_tensor_destroy(rate);
    bp_tensor_destroy(g);
}

static void change_part(struct compiled *c)
{
    struct bp_tensor *w = text_find(&c->g, "w"), *row;

    OK(bp_tensor_slice(w, 0, 1, 2, 1, &row));
    OK(bp_tensor_write(c->g.f.stream, row, (const float[16]){1, 2, 3}, 16 * sizeof(float)));
    bp_tensor_destroy(row);
}

static void change_input(struct compiled *c)
{
    float data[MOST] = {0.5f, 0.25f};

    OK(bp_tensor_write(c->g.f.stream, text_input(&c->g, "t"), data, 16 * sizeof *data));
}

/* An engine with copies of all inputs makes those again whose contents have changed. */
Test(engine_updates, contents_that_have_changed)
{
    static const struct {
        const char *name;
        void (*change)(struct compiled *c);
    } changes[] = {{"a write", change_write},
                   {"a copy", change_copy},
                   {"a kernel", change_by_kernel},
                   {"a write to a part", change_part},
                   {"a write to an input", change_input}};
    struct pair p = pair_of("updates copies", TRAINING);

    cr_assert_str_eq(p.c.launches, "engine");
    copies_made(&p);
    pair_run(&p, 1);
    cr_assert_eq(copies_made(&p), 4, "the first run copies all");
    pair_run(&p, 1); /* a device that records tries it now, which counts as a write */
    copies_made(&p);
    pair_run(&p, 5);
    cr_assert_eq(copies_made(&p), 0, "nobody has written");
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        changes[i].change(&p.c);
        changes[i].change(&p.reference);
        pair_run(&p, 1);
        cr_assert_eq(copies_made(&p), 1, "%s", changes[i].name);
        pair_run(&p, 3);
        cr_assert_eq(copies_made(&p), 0, "after %s", changes[i].name);
        pair_compare(&p, "w");
        pair_compare(&p, "v");
    }
    pair_destroy(&p);
}

/* Another tensor in the place of an input has other contents, also with the address and as many
 * writes as the tensor before it. */
Test(engine_updates, another_tensor_has_other_contents)
{
    struct pair p = pair_of("updates copies", TRAINING);
    struct compiled *both[2] = {&p.c, &p.reference};

    pair_run(&p, 2);
    for (int round = 0; round < 4; round++) {
        for (int k = 0; k < 2; k++) {
            float data[32];
            struct text_graph *g = &both[k]->g;
            uint32_t i = 0;
            while (g->in[i] != text_input(g, "x")) i++;
            for (int j = 0; j < 32; j++) data[j] = (float)(j + round) / 32;
            bp_tensor_destroy(g->in[i]);
            g->in[i] = tensor_of(&g->f, BP_F32, 2, SHAPE(8, 4), data);
        }
        copies_made(&p);
        pair_run(&p, 1);
        cr_assert_eq(copies_made(&p), 1);
        pair_compare(&p, "w");
    }
    pair_destroy(&p);
}

/* The host may write mapped memory without a call. */
Test(engine_updates, memory_with_an_address_is_unknown)
{
    struct pair p = pair_of("updates copies", TRAINING);
    float *w = NULL, *of = NULL;

    if (!p.c.g.f.device->host_visible) {
        pair_destroy(&p);
        cr_skip_test("the host cannot access the memory");
    }
    pair_run(&p, 2);
    OK(bp_tensor_map(text_find(&p.c.g, "w"), (void **)&w));
    OK(bp_tensor_map(text_find(&p.reference.g, "w"), (void **)&of));
    for (int round = 0; round < 4; round++) {
        copies_made(&p);
        w[round] = of[round] = (float)round - 2;
        pair_run(&p, 1);
        cr_assert_eq(copies_made(&p), 1);
        pair_compare(&p, "w");
    }
    pair_destroy(&p);
}

/* Two weights in one buffer: each run updates both. */
Test(engine_updates, weights_in_one_buffer)
{
    struct compiled c;
    struct bp_buffer *buffer;
    struct bp_tensor *w[2], *out = NULL, *g, *y[2], *rate;
    struct bp_stream *stream;
    const struct bp_tensor_options options = {
        .size = sizeof options, .dtype = BP_F32, .rank = 1, .shape = SHAPE(4)};
    float got[4];

    setenv("BP_ENGINED", "updates copies", 1);
    c = (struct compiled){.g = text_begin(), .did = engined_of()};
    stream = c.g.f.stream;
    OK(bp_buffer_create(c.g.f.device, stream, BP_SPACE_DEVICE, 256, &buffer));
    for (int i = 0; i < 2; i++) {
        OK(bp_tensor_create_over(buffer, (uint64_t)i * 128, &options, &w[i]));
        OK(bp_tensor_write(stream, w[i], F32(1, 2, 3, 4), 16));
    }
    rate = tensor_of(&c.g.f, BP_F32, 0, NULL, F32(0.5f));
    OK(bp_graph_input(c.g.graph, "g", BP_F32, 1, SHAPE(4), &g));
    for (int i = 0; i < 2; i++) OK(bp_op_sgd(c.g.scope, w[i], g, rate, &y[i]));
    OK(bp_op_neg(c.g.scope, g, &out));
    OK(bp_graph_output(c.g.graph, out, NULL));
    OK(bp_program_create(c.g.graph, c.g.f.device, &c.program));
    c.g.in[c.g.n_in++] = tensor_of(&c.g.f, BP_F32, 1, SHAPE(4), F32(1, 1, 1, 1));
    for (int i = 0; i < 2; i++) bp_tensor_destroy(y[i]);
    bp_tensor_destroy(out);
    bp_tensor_destroy(g);
    for (int i = 0; i < 4; i++) {
        int before = atomic_load(&c.did->copied);
        out = NULL;
        OK(bp_program_run(c.program, stream, c.g.in, 1, &out, 1));
        bp_tensor_destroy(out);
        cr_assert(i <= 1 || atomic_load(&c.did->copied) == before, "run %d", i);
    }
    for (int i = 0; i < 2; i++) {
        OK(bp_tensor_read(stream, w[i], got, sizeof got));
        cr_assert_arr_eq(got, F32(-1, 0, 1, 2), sizeof got);
        bp_tensor_destroy(w[i]);
    }
    bp_buffer_destroy(buffer);
    bp_tensor_destroy(rate);
    compiled_finish(&c);
}

/* A queue runs work later than the app calls: the contents are those at the call. */
Test(engine_updates, contents_in_a_queue)
{
    struct pair p = pair_of("updates copies", TRAINING);
    struct bp_stream *stream;

    OK(bp_stream_create(p.c.g.f.device, &stream));
    OK(bp_stream_synchronize(p.c.g.f.stream));
    for (int i = 0; i < 20; i++) {
        float data[64];
        struct bp_tensor *out = NULL;
        for (int k = 0; k < 64; k++) data[k] = (float)((k + i) % 9) / 16;
        OK(bp_tensor_write(stream, text_find(&p.c.g, "w"), data, sizeof data));
        OK(bp_tensor_write(p.reference.g.f.stream, text_find(&p.reference.g, "w"), data,
                           sizeof data));
        OK(bp_program_run(p.c.program, stream, p.c.g.in, p.c.g.n_in, &out, 1));
        bp_tensor_destroy(out);
        graph_run_once(&p.reference, true);
    }
    OK(bp_stream_synchronize(stream));
    pair_compare(&p, "w");
    pair_compare(&p, "v");
    bp_stream_destroy(stream);
    pair_destroy(&p);
}
