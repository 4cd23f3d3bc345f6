/* SPDX-License-Identifier: Apache-2.0 */
/* test_engine_state.c: tests engines that keep updated values from run to run: each way to read or
 * write the tensor, failures, programs and tensors that are destroyed, threads and streams. */
#include "engine_kit.h"

#include <backplane/ops.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 64 }; /* elements of w */

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

/* The graph as a program whose engine keeps w and v, and the same graph for kernels. */
struct trained {
    struct compiled c;
    struct text_graph reference;
};

static struct bp_tensor *weights_of(const struct text_graph *g)
{
    return text_find(g, "w");
}

static void trained_run(struct trained *t, int n)
{
    for (int i = 0; i < n; i++) {
        struct bp_tensor *out = NULL, *expected = NULL;
        OK(bp_program_run(t->c.program, t->c.g.f.stream, t->c.g.in, t->c.g.n_in, &out, 1));
        OK(bp_graph_run(t->reference.graph, t->reference.f.stream, t->reference.in,
                        t->reference.n_in, &expected, 1));
        bp_tensor_destroy(out);
        bp_tensor_destroy(expected);
    }
}

static struct trained trained_begin(const char *words)
{
    struct trained t = {.c = compiled_of(words, TRAINING)};

    cr_assert_str_eq(t.c.launches, "engine");
    cr_assert_not_null(strstr(group_of(&t.c, 0).text, "keeps 384 bytes of 2 tensors"));
    t.reference = text_begin();
    text_record(&t.reference, TRAINING);
    return t;
}

static void trained_finish(struct trained *t)
{
    text_finish(&t->reference);
    compiled_finish(&t->c);
}

static void reference_read(const struct trained *t, const char *name, float *to)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *w = text_find(&t->reference, name);

    OK(bp_tensor_get_info(w, &info));
    OK(bp_tensor_read(t->reference.f.stream, w, to, info.bytes));
}

static void floats_compare(const float *got, const float *expected, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        cr_assert(fabsf(got[i] - expected[i]) <= 1e-5f * (1 + fabsf(expected[i])),
                  "%s: element %zu is %g, expected %g", what, i, (double)got[i],
                  (double)expected[i]);
}

/* Compares w and v, which are read, with those of the reference. */
static void trained_compare(const struct trained *t, const char *what)
{
    float got[COUNT], expected[COUNT];

    OK(bp_tensor_read(t->c.g.f.stream, weights_of(&t->c.g), got, sizeof got));
    reference_read(t, "w", expected);
    floats_compare(got, expected, COUNT, what);
    OK(bp_tensor_read(t->c.g.f.stream, text_find(&t->c.g, "v"), got, 32 * sizeof *got));
    reference_read(t, "v", expected);
    floats_compare(got, expected, 32, what);
}

/* The calls of `state` since the last call of this function. */
static int state_given(const struct trained *t)
{
    static int before;
    int now = atomic_load(&t->c.did->given), given = now - before;

    before = now;
    return given;
}

static int state_forgotten(const struct trained *t)
{
    static int before;
    int now = atomic_load(&t->c.did->forgotten), forgotten = now - before;

    before = now;
    return forgotten;
}

/* ---- readers ---- */

static void read_by_read(struct trained *t, float *to)
{
    OK(bp_tensor_read(t->c.g.f.stream, weights_of(&t->c.g), to, COUNT * sizeof *to));
}

static void read_negated(struct trained *t, struct bp_tensor *y, float *to)
{
    OK(bp_tensor_read(t->c.g.f.stream, y, to, COUNT * sizeof *to));
    for (int i = 0; i < COUNT; i++) to[i] = -to[i];
    bp_tensor_destroy(y);
}

static void read_by_call(struct trained *t, float *to)
{
    struct bp_tensor *y = NULL;

    OK(bp_op_neg(t->c.g.f.scope, weights_of(&t->c.g), &y));
    read_negated(t, y, to);
}

/* The call is known to the stream's table before. */
static struct bp_prepared *prepared;
static void prepare_call(struct trained *t)
{
    struct bp_tensor *w = weights_of(&t->c.g);
    const struct bp_arg in = {&w, 1};
    const struct bp_call call = {.size = sizeof call, .op = "neg", .in = &in, .n_in = 1};

    OK(bp_prepared_create(t->c.g.f.device, &call, NULL, 0, &prepared));
}

static void read_by_prepared(struct trained *t, float *to)
{
    struct bp_tensor *w = weights_of(&t->c.g), *y = NULL;

    OK(bp_tensor_create(t->c.g.f.device, BP_F32, 2, SHAPE(4, 16), &y));
    OK(bp_prepared_run(prepared, t->c.g.f.stream, &w, 1, &y, 1, NULL));
    read_negated(t, y, to);
}

/* Another graph that reads w: as a constant, or as an input. */
static struct bp_graph *other_graph;
static struct bp_program *other;
static void prepare_other(struct trained *t, bool constant)
{
    struct bp_tensor *w = weights_of(&t->c.g), *x = w, *y = NULL;

    setenv("BP_ENGINED", "claim=none", 1);
    OK(bp_graph_create(t->c.g.f.core, &other_graph));
    if (!constant) OK(bp_graph_input(other_graph, "x", BP_F32, 2, SHAPE(4, 16), &x));
    OK(bp_op_neg(bp_graph_scope(other_graph), x, &y));
    OK(bp_graph_output(other_graph, y, NULL));
    bp_tensor_destroy(y);
    if (!constant) bp_tensor_destroy(x);
    OK(bp_program_create(other_graph, t->c.g.f.device, &other));
    for (int i = 0; i < 4; i++) { /* it may be recorded before, and replayed later */
        y = NULL;
        OK(bp_program_run(other, t->c.g.f.stream, &w, constant ? 0 : 1, &y, 1));
        bp_tensor_destroy(y);
    }
}

static void prepare_constant(struct trained *t)
{
    prepare_other(t, true);
}

static void prepare_input(struct trained *t)
{
    prepare_other(t, false);
}

static void read_by_constant(struct trained *t, float *to)
{
    struct bp_tensor *y = NULL;

    OK(bp_program_run(other, t->c.g.f.stream, NULL, 0, &y, 1));
    read_negated(t, y, to);
}

static void read_by_input(struct trained *t, float *to)
{
    struct bp_tensor *w = weights_of(&t->c.g), *y = NULL;

    OK(bp_program_run(other, t->c.g.f.stream, &w, 1, &y, 1));
    read_negated(t, y, to);
}

static void read_by_graph(struct trained *t, float *to)
{
    struct bp_tensor *y = NULL;

    OK(bp_graph_run(other_graph, t->c.g.f.stream, NULL, 0, &y, 1));
    read_negated(t, y, to);
}

static void finish_other(void)
{
    if (prepared) bp_prepared_destroy(prepared);
    bp_program_destroy(other);
    bp_graph_destroy(other_graph);
    prepared = NULL;
    other = NULL;
    other_graph = NULL;
}

static void read_by_copy(struct trained *t, float *to)
{
    struct bp_tensor *y;

    OK(bp_tensor_create(t->c.g.f.device, BP_F32, 2, SHAPE(4, 16), &y));
    OK(bp_tensor_copy(t->c.g.f.stream, y, weights_of(&t->c.g)));
    OK(bp_tensor_read(t->c.g.f.stream, y, to, COUNT * sizeof *to));
    bp_tensor_destroy(y);
}

static void read_by_view(struct trained *t, float *to)
{
    struct bp_tensor *flat;

    OK(bp_tensor_reshape(weights_of(&t->c.g), 1, SHAPE(64), &flat));
    OK(bp_tensor_read(t->c.g.f.stream, flat, to, COUNT * sizeof *to));
    bp_tensor_destroy(flat);
}

static void read_by_other_stream(struct trained *t, float *to)
{
    struct bp_stream *stream;

    OK(bp_stream_create(t->c.g.f.device, &stream));
    OK(bp_tensor_read(stream, weights_of(&t->c.g), to, COUNT * sizeof *to));
    bp_stream_destroy(stream);
}

/* Communicators of one rank. */
static void read_by_collective(struct trained *t, float *to)
{
    struct bp_comm_id id;
    struct bp_comm *comm;
    struct bp_tensor *y;

    OK(bp_comm_id_create(&id));
    OK(bp_comm_create(t->c.g.f.device, &id, 0, 1, &comm));
    OK(bp_tensor_create(t->c.g.f.device, BP_F32, 2, SHAPE(4, 16), &y));
    OK(bp_comm_all_gather(comm, t->c.g.f.stream, weights_of(&t->c.g), y));
    OK(bp_tensor_read(t->c.g.f.stream, y, to, COUNT * sizeof *to));
    bp_tensor_destroy(y);
    bp_comm_destroy(comm);
}

static const struct reader {
    const char *name;
    void (*prepare)(struct trained *t);
    void (*read)(struct trained *t, float *to);
} readers[] = {
    {"a read", NULL, read_by_read},
    {"a call", NULL, read_by_call},
    {"a prepared call", prepare_call, read_by_prepared},
    {"a constant of another program", prepare_constant, read_by_constant},
    {"an input of another program", prepare_input, read_by_input},
    {"another graph", prepare_constant, read_by_graph},
    {"a copy", NULL, read_by_copy},
    {"a view", NULL, read_by_view},
    {"another stream", NULL, read_by_other_stream},
    {"a collective call", NULL, read_by_collective},
};

/* The training loop of an app: many runs, no copy to the tensors between them, and values that are
 * those of kernels when something reads them. */
Test(engine_state, each_reader_gets_the_values)
{
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        const struct reader *r = &readers[i];
        struct trained t = trained_begin("updates keeps");
        float got[COUNT], expected[COUNT];
        if (r->prepare) r->prepare(&t);
        for (int round = 0; round < 3; round++) {
            state_given(&t);
            trained_run(&t, 5);
            cr_assert_eq(state_given(&t), 0, "%s: a copy between runs", r->name);
            r->read(&t, got);
            cr_assert_eq(state_given(&t), 1, "%s", r->name);
            reference_read(&t, "w", expected);
            floats_compare(got, expected, COUNT, r->name);
            r->read(&t, got);
            cr_assert_eq(state_given(&t), 0, "%s: a second copy", r->name);
            floats_compare(got, expected, COUNT, r->name);
        }
        trained_compare(&t, r->name);
        finish_other();
        trained_finish(&t);
    }
}

/* The engine does not copy to the device what others have only read. */
Test(engine_state, reads_do_not_end_the_copies_of_the_engine)
{
    struct trained t = trained_begin("updates keeps");
    float got[COUNT];
    int copied;

    trained_run(&t, 3);
    copied = atomic_load(&t.c.did->copied);
    for (int i = 0; i < 4; i++) {
        read_by_read(&t, got);
        trained_run(&t, 2);
    }
    cr_assert_eq(atomic_load(&t.c.did->copied), copied);
    trained_compare(&t, "reads between runs");
    trained_finish(&t);
}

/* After this the app has an address, and each run writes the tensor. */
static void expose_by_map(struct trained *t, float **out)
{
    OK(bp_tensor_map(weights_of(&t->c.g), (void **)out));
}

static struct bp_dlpack_managed *exported;
static void expose_by_dlpack(struct trained *t, float **out)
{
    OK(bp_tensor_to_dlpack(weights_of(&t->c.g), &exported));
    *out = exported->tensor.data;
}

static void expose_by_info(struct trained *t, float **out)
{
    struct bp_buffer_info info = {.size = sizeof info};

    OK(bp_buffer_get_info(weights_of(&t->c.g)->buffer, &info));
    cr_assert_not_null(info.data);
    *out = info.host;
}

/* Maps the memory as another process would. */
static void expose_by_export(struct trained *t, float **out)
{
    uint64_t at;
    int32_t fd;

    OK(bp_buffer_export(weights_of(&t->c.g)->buffer, &fd, &at));
    *out = mmap(NULL, at + COUNT * sizeof **out, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq((void *)*out, MAP_FAILED);
    *out += at / sizeof **out;
}

static void expect_exposed(void (*expose)(struct trained *t, float **out), const char *what)
{
    struct trained t = trained_begin("updates keeps");
    float expected[COUNT], *w = NULL;

    if (t.c.g.f.device->host_visible) {
        trained_run(&t, 4);
        state_given(&t);
        expose(&t, &w);
        cr_assert_eq(state_given(&t), 1, "%s", what);
        reference_read(&t, "w", expected);
        floats_compare(w, expected, COUNT, what);
        for (int i = 0; i < 3; i++) {
            float *r = NULL;
            trained_run(&t, 2);
            cr_assert_eq(state_given(&t), 2, "%s: each run writes the tensor", what);
            OK(bp_device_synchronize(t.c.g.f.device));
            reference_read(&t, "w", expected);
            floats_compare(w, expected, COUNT, what);
            OK(bp_tensor_map(weights_of(&t.reference), (void **)&r));
            w[i] = r[i] = 0.25f; /* no call knows of it */
        }
        trained_run(&t, 2);
        trained_compare(&t, what);
    }
    if (exported) exported->deleter(exported);
    exported = NULL;
    trained_finish(&t);
}

Test(engine_state, tensors_with_an_address)
{
    expect_exposed(expose_by_map, "a mapped tensor");
    expect_exposed(expose_by_dlpack, "a tensor of DLPack");
    expect_exposed(expose_by_info, "a buffer's address");
    expect_exposed(expose_by_export, "memory of another process");
}

Test(engine_state, information_has_no_address_while_an_engine_keeps_the_value)
{
    struct trained t = trained_begin("updates keeps");
    struct bp_tensor_info info = {.size = sizeof info};
    float got[COUNT];

    trained_run(&t, 1);
    OK(bp_tensor_get_info(weights_of(&t.c.g), &info));
    cr_assert_null(info.data);
    read_by_read(&t, got);
    OK(bp_tensor_get_info(weights_of(&t.c.g), &info));
    cr_assert_eq(info.data != NULL, t.c.g.f.device->host_visible);
    trained_finish(&t);
}

Test(engine_state, a_tensor_that_is_frozen)
{
    struct trained t = trained_begin("updates keeps");

    trained_run(&t, 3);
    OK(bp_tensor_freeze(weights_of(&t.c.g)));
    trained_compare(&t, "a frozen tensor");
    trained_finish(&t);
}

/* ---- writers ---- */

static void each_weights(struct trained *t, void (*write)(struct text_graph *g))
{
    write(&t->c.g);
    write(&t->reference);
}

static void write_all(struct text_graph *g)
{
    float data[COUNT];

    for (int i = 0; i < COUNT; i++) data[i] = (float)(i % 5) / 8;
    OK(bp_tensor_write(g->f.stream, weights_of(g), data, sizeof data));
}

static void write_part(struct text_graph *g)
{
    struct bp_tensor *row;

    OK(bp_tensor_slice(weights_of(g), 0, 1, 2, 1, &row));
    OK(bp_tensor_write(g->f.stream, row, (const float[16]){1, 2, 3}, 16 * sizeof(float)));
    bp_tensor_destroy(row);
}

static void write_copy(struct text_graph *g)
{
    float data[COUNT] = {0.5f, 0.25f, -1};
    struct bp_tensor *from = tensor_of(&g->f, BP_F32, 2, SHAPE(4, 16), data);

    OK(bp_tensor_copy(g->f.stream, weights_of(g), from));
    bp_tensor_destroy(from);
}

/* A call whose result is w. */
static void write_result(struct text_graph *g)
{
    float data[COUNT] = {0.5f, 0.25f, -1};
    struct bp_tensor *from = tensor_of(&g->f, BP_F32, 2, SHAPE(4, 16), data), *w = weights_of(g);
    const struct bp_arg in = {&from, 1};
    const struct bp_call call = {.size = sizeof call, .op = "neg", .in = &in, .n_in = 1};

    OK(bp_call_run(g->f.scope, &call, &w, 1, NULL));
    bp_tensor_destroy(from);
}

static void write_update(struct text_graph *g)
{
    struct bp_tensor *w = weights_of(g), *y = NULL, *gradient, *rate;
    float data[COUNT] = {1, 2, 3};

    gradient = tensor_of(&g->f, BP_F32, 2, SHAPE(4, 16), data);
    rate = tensor_of(&g->f, BP_F32, 0, NULL, F32(0.125f));
    OK(bp_op_sgd(g->f.scope, w, gradient, rate, &y));
    bp_tensor_destroy(y);
    bp_tensor_destroy(rate);
    bp_tensor_destroy(gradient);
}

Test(engine_state, each_writer_is_noticed)
{
    static const struct {
        const char *name;
        void (*write)(struct text_graph *g);
        int given, forgotten;
    } writers[] = {
        {"a write", write_all, 0, 1},      {"a write to a part", write_part, 1, 0},
        {"a copy", write_copy, 0, 1},      {"a result", write_result, 0, 1},
        {"an update", write_update, 1, 0},
    };

    for (size_t i = 0; i < sizeof writers / sizeof *writers; i++) {
        struct trained t = trained_begin("updates keeps");
        for (int round = 0; round < 2; round++) {
            trained_run(&t, 3);
            state_given(&t);
            state_forgotten(&t);
            each_weights(&t, writers[i].write);
            cr_assert_eq(state_given(&t), writers[i].given, "%s", writers[i].name);
            cr_assert_eq(state_forgotten(&t), writers[i].forgotten, "%s", writers[i].name);
            if (round) trained_run(&t, 3);
            trained_compare(&t, writers[i].name);
        }
        trained_finish(&t);
    }
}

/* ---- other programs ---- */

/* Two programs of one graph update the same tensors in turns: each takes the contents from the
 * other one. */
Test(engine_state, two_programs_that_update_the_same_tensors)
{
    struct trained t = trained_begin("updates keeps");
    struct bp_program *first = t.c.program, *second;

    OK(bp_program_create(t.c.g.graph, t.c.g.f.device, &second));
    OK(bp_program_compile(second));
    for (int i = 0; i < 8; i++) {
        t.c.program = i % 3 ? first : second;
        trained_run(&t, 1);
    }
    trained_compare(&t, "two programs");
    t.c.program = second;
    trained_run(&t, 2);
    t.c.program = first;
    bp_program_destroy(second);
    trained_compare(&t, "one of two programs");
    trained_run(&t, 2);
    trained_compare(&t, "the other program");
    trained_finish(&t);
}

/* A program like another one with other weights has values of its own. */
Test(engine_state, a_program_like_another_one)
{
    struct trained t = trained_begin("updates keeps");
    const struct bp_program_options options = {.size = sizeof options, .like = t.c.program};
    struct bp_program *like, *first = t.c.program;
    int engines = atomic_load(&t.c.did->engines);

    OK(bp_program_create_with(t.c.g.graph, t.c.g.f.device, &options, &like));
    OK(bp_program_compile(like));
    cr_assert_eq(atomic_load(&t.c.did->engines), engines + 1, "they share what one keeps");
    for (int i = 0; i < 4; i++) {
        t.c.program = i % 2 ? first : like;
        trained_run(&t, 1);
    }
    t.c.program = first;
    trained_compare(&t, "a program like it");
    bp_program_destroy(like);
    trained_finish(&t);
}

/* ---- failures ---- */

Test(engine_state, values_that_are_lost)
{
    struct trained t = trained_begin("updates keeps state=fails");
    struct bp_tensor *w = weights_of(&t.c.g), *y = NULL, *out = NULL;
    struct bp_buffer_info info = {.size = sizeof info};
    struct bp_stream *stream = t.c.g.f.stream;
    void *address = NULL;
    float got[COUNT];

    trained_run(&t, 2);
    for (int i = 0; i < 2; i++)
        FAILS(BP_ERR_DEVICE, "the value is lost", bp_tensor_read(stream, w, got, sizeof got));
    FAILS(BP_ERR_DEVICE, "contents of the tensor are lost", bp_op_neg(t.c.g.f.scope, w, &y));
    cr_assert_neq(bp_tensor_map(w, &address), BP_OK);
    FAILS(BP_ERR_DEVICE, "contents of the tensor are lost", bp_buffer_get_info(w->buffer, &info));
    cr_assert_neq(bp_program_run(t.c.program, stream, t.c.g.in, t.c.g.n_in, &out, 1), BP_OK);
    cr_assert_neq(bp_tensor_freeze(w), BP_OK);
    setenv("BP_ENGINED", "updates keeps", 1);
    FAILS(BP_ERR_DEVICE, "contents of the tensor are lost",
          bp_tensor_read(stream, w, got, sizeof got));
    each_weights(&t, write_all);
    OK(bp_tensor_read(stream, w, got, sizeof got));
    trained_run(&t, 3);
    trained_compare(&t, "written anew");
    trained_finish(&t);
}

/* A failed run leaves no value that anything could read by mistake. */
Test(engine_state, a_run_that_fails)
{
    struct trained t = trained_begin("updates keeps");
    struct bp_stream *stream = t.c.g.f.stream;
    struct bp_tensor *out = NULL;

    trained_run(&t, 2);
    setenv("BP_ENGINED", "updates keeps state=spoils", 1);
    cr_assert_neq(bp_program_run(t.c.program, stream, t.c.g.in, t.c.g.n_in, &out, 1), BP_OK);
    setenv("BP_ENGINED", "updates keeps", 1);
    if (t.c.g.f.device->is_inline) {
        float got[COUNT];
        FAILS(BP_ERR_DEVICE, "the value is lost",
              bp_tensor_read(stream, weights_of(&t.c.g), got, sizeof got));
    }
    bp_tensor_destroy(out);
    trained_finish(&t);
}

Test(engine_state, results_of_compile_that_make_no_sense)
{
    static const char *const words[][2] = {
        {"updates compile=keeps", "expected 0, or 1 of an input that the group updates"},
        {"updates compile=keepsmore", "expected 0, or 1 of an input that the group updates"},
        {"updates keeps state=absent", "the table has no callback state"},
    };

    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        struct compiled c = compiled_of(words[i][0], TRAINING);
        struct bp_group_info group = group_of(&c, 0);
        cr_assert_eq(group.compiled, 0, "%s", words[i][0]);
        cr_assert_not_null(strstr(group.text, words[i][1]), "%s: %s", words[i][0], group.text);
        compiled_finish(&c);
    }
}

/* ---- lives ---- */

Test(engine_state, a_program_that_is_destroyed)
{
    struct trained t = trained_begin("updates keeps");

    trained_run(&t, 4);
    state_given(&t);
    bp_program_destroy(t.c.program);
    cr_assert_eq(state_given(&t), 2, "w and v");
    t.c.program = NULL;
    trained_compare(&t, "after the program");
    cr_assert_eq(state_given(&t), 0);
    trained_finish(&t);
}

/* The graph keeps the tensor. */
Test(engine_state, tensors_that_are_destroyed_first)
{
    struct compiled c = compiled_of("updates keeps", TRAINING);
    struct bp_tensor *out = NULL;

    OK(bp_program_run(c.program, c.g.f.stream, c.g.in, c.g.n_in, &out, 1));
    bp_tensor_destroy(out);
    for (uint32_t i = 0; i < c.g.n_made; i++) bp_tensor_destroy(c.g.made[i]);
    c.g.n_made = 0;
    out = NULL;
    OK(bp_program_run(c.program, c.g.f.stream, c.g.in, c.g.n_in, &out, 1));
    bp_tensor_destroy(out);
    compiled_finish(&c);
}

/* The device is closed by the app before the tensors and the program. */
Test(engine_state, a_device_that_is_closed)
{
    struct trained t = trained_begin("updates keeps");
    float expected[COUNT], got[COUNT];

    trained_run(&t, 3);
    reference_read(&t, "w", expected);
    bp_device_retain(t.c.g.f.device);
    bp_device_destroy(t.c.g.f.device);
    read_by_read(&t, got);
    floats_compare(got, expected, COUNT, "a closed device");
    trained_finish(&t);
}

/* A forked child has no device; the parent goes on. */
Test(engine_state, a_fork)
{
    struct trained t = trained_begin("updates keeps");
    float got[COUNT];
    int status = -1;
    pid_t child;

    trained_run(&t, 3);
    child = fork();
    if (!child) {
        bool good = bp_tensor_read(t.c.g.f.stream, weights_of(&t.c.g), got, sizeof got) != BP_OK;
        bp_program_destroy(t.c.program);
        _exit(good ? 0 : 1);
    }
    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child read old contents");
    trained_run(&t, 1);
    trained_compare(&t, "after a fork");
    trained_finish(&t);
}

/* ---- streams and threads ---- */

/* Runs alternate between streams that wait for each other. */
Test(engine_state, two_streams)
{
    struct trained t = trained_begin("updates keeps");
    struct bp_stream *stream[2], *own = t.c.g.f.stream;
    struct bp_event *event;
    float got[COUNT], expected[COUNT];

    OK(bp_event_create(t.c.g.f.device, &event));
    for (int i = 0; i < 2; i++) OK(bp_stream_create(t.c.g.f.device, &stream[i]));
    for (int i = 0; i < 12; i++) {
        t.c.g.f.stream = stream[i % 2];
        trained_run(&t, 1);
        OK(bp_event_record(event, stream[i % 2]));
        OK(bp_stream_wait(stream[(i + 1) % 2], event));
        if (i % 5 != 4) continue;
        OK(bp_tensor_read(stream[(i + 1) % 2], weights_of(&t.c.g), got, sizeof got));
        reference_read(&t, "w", expected);
        floats_compare(got, expected, COUNT, "the other stream");
    }
    OK(bp_device_synchronize(t.c.g.f.device));
    t.c.g.f.stream = own;
    for (int i = 0; i < 2; i++) bp_stream_destroy(stream[i]);
    trained_compare(&t, "two streams");
    bp_event_destroy(event);
    trained_finish(&t);
}

/* Threads run the program, read and write the tensors at once: which values they see is open, but
 * nothing crashes, hangs or stays behind. */
struct hammer {
    struct trained *t;
    int number;
};

static void *hammer_main(void *arg)
{
    const struct hammer *h = arg;
    struct text_graph *g = &h->t->c.g;
    struct bp_stream *stream;
    float got[COUNT];

    OK(bp_stream_create_with(
        g->f.device, g->f.device->is_inline && h->number % 2 ? BP_STREAM_INLINE : 0, &stream));
    for (int i = 0; i < 60; i++) {
        struct bp_tensor *out = NULL;
        OK(bp_program_run(h->t->c.program, stream, g->in, g->n_in, &out, 1));
        bp_tensor_destroy(out);
        if (i % 4 == h->number) OK(bp_tensor_read(stream, weights_of(g), got, sizeof got));
        if (i % 16 == h->number)
            OK(bp_tensor_write(stream, weights_of(g), (const float[COUNT]){0}, sizeof got));
    }
    OK(bp_stream_synchronize(stream));
    bp_stream_destroy(stream);
    return NULL;
}

static void run_on_threads(const char *words)
{
    struct trained t = trained_begin(words);
    struct hammer hammer[4];
    pthread_t thread[4];
    float got[COUNT];

    for (int i = 0; i < 4; i++) {
        hammer[i] = (struct hammer){&t, i};
        cr_assert_eq(pthread_create(&thread[i], NULL, hammer_main, &hammer[i]), 0);
    }
    for (int i = 0; i < 4; i++) cr_assert_eq(pthread_join(thread[i], NULL), 0);
    OK(bp_tensor_read(t.c.g.f.stream, weights_of(&t.c.g), got, sizeof got));
    trained_finish(&t);
}

Test(engine_state, threads, .timeout = 60)
{
    run_on_threads("updates keeps");
    run_on_threads("updates keeps contexts");
}

/* A watcher may read the tensors between two launches. */
static void watch_reads(void *ctx, const struct bp_watched_launch *launch)
{
    struct trained *t = ctx;
    float got[COUNT];

    (void)launch;
    OK(bp_tensor_read(t->c.g.f.stream, weights_of(&t->c.g), got, sizeof got));
}

Test(engine_state, a_watcher_that_reads, .timeout = 30)
{
    struct trained t = trained_begin("updates keeps");

    trained_run(&t, 1);
    OK(bp_program_watch(t.c.program, watch_reads, &t));
    state_given(&t);
    trained_run(&t, 4);
    cr_assert_geq(state_given(&t), 3);
    OK(bp_program_watch(t.c.program, NULL, NULL));
    trained_compare(&t, "a watched program");
    trained_finish(&t);
}
