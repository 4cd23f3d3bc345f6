/* SPDX-License-Identifier: Apache-2.0 */
/* test_over.c: tests tensors over buffers of the app, and tensors that are moved to other memory.
 * BP_TEST_DEVICE selects the device; default: cpu:0. */
#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    BYTES = 4096
};

struct over {
    struct fixture f;
    struct bp_buffer *buffer; /* BYTES bytes, for the stream */
    struct bp_tensor *bytes;  /* u8, all of the buffer */
};

/* The place of a dense f32 tensor [2, 3]. */
static const struct bp_tensor_options matrix = {
    .size = sizeof matrix, .dtype = BP_F32, .rank = 2, .shape = (const int64_t[]){2, 3}};

static struct bp_buffer *buffer_of(struct fixture *f, uint64_t size)
{
    struct bp_buffer *buffer = NULL;

    OK(bp_buffer_create(f->device, f->stream, BP_SPACE_DEVICE, size, &buffer));
    return buffer;
}

static struct bp_tensor *tensor_over(struct bp_buffer *buffer, uint64_t offset,
                                     const struct bp_tensor_options *options)
{
    struct bp_tensor *t = NULL;

    OK(bp_tensor_create_over(buffer, offset, options, &t));
    return t;
}

static struct over over_init(void)
{
    const char *name = getenv("BP_TEST_DEVICE");
    const struct bp_tensor_options all = {
        .size = sizeof all, .dtype = BP_U8, .rank = 1, .shape = SHAPE(BYTES)};
    struct over o;
    static const unsigned char zeros[BYTES];

    OK(bp_core_create(NULL, &o.f.core));
    OK(bp_device_create(o.f.core, name ? name : "cpu:0", &o.f.device));
    OK(bp_stream_create(o.f.device, &o.f.stream));
    o.f.scope = bp_stream_scope(o.f.stream);
    o.buffer = buffer_of(&o.f, BYTES);
    o.bytes = tensor_over(o.buffer, 0, &all);
    OK(bp_tensor_write(o.f.stream, o.bytes, zeros, BYTES));
    return o;
}

static void over_finish(struct over *o)
{
    bp_tensor_destroy(o->bytes);
    bp_buffer_destroy(o->buffer);
    fixture_finish(&o->f);
}

static struct bp_tensor_info over_info(struct bp_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    return info;
}

/* Asserts that the buffer holds six floats at an offset. */
static void over_expect(struct over *o, uint64_t offset, const float *six)
{
    unsigned char got[BYTES];

    OK(bp_tensor_read(o->f.stream, o->bytes, got, BYTES));
    cr_assert_arr_eq(got + offset, six, 6 * sizeof *six, "at %llu", (unsigned long long)offset);
}

static struct bp_tensor *sum_into(struct over *o, struct bp_tensor *x, struct bp_tensor *y,
                                  struct bp_tensor *z)
{
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    OK(bp_call_run(o->f.scope, &call, &z, 1, NULL));
    return z;
}

Test(over, reads_and_writes_at_its_offset)
{
    struct over o = over_init();
    struct bp_tensor *x = tensor_over(o.buffer, 260, &matrix),
                     *y = tensor_over(o.buffer, 512, &matrix),
                     *z = tensor_over(o.buffer, BYTES - 24, &matrix);

    OK(bp_tensor_write(o.f.stream, x, F32(1, 2, 3, 4, 5, 6), 24));
    OK(bp_tensor_write(o.f.stream, y, F32(10, 20, 30, 40, 50, 60), 24));
    cr_assert_eq(sum_into(&o, x, y, z), z);
    over_expect(&o, 260, F32(1, 2, 3, 4, 5, 6));
    over_expect(&o, 512, F32(10, 20, 30, 40, 50, 60));
    over_expect(&o, BYTES - 24, F32(11, 22, 33, 44, 55, 66));
    over_expect(&o, 284, F32(0, 0, 0, 0, 0, 0)); /* beside x */
    cr_assert_eq(over_info(x).offset, 260);
    cr_assert_eq(over_info(x).buffer, over_info(z).buffer);
    cr_assert_eq(over_info(x).contiguous, 1);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(z);
    over_finish(&o);
}

Test(over, takes_strides)
{
    struct over o = over_init();
    struct bp_tensor_options turned = matrix, repeated = matrix;
    struct bp_tensor *x = tensor_over(o.buffer, 8, &matrix), *t, *r, *sum = NULL;

    turned.stride = SHAPE(1, 2);
    repeated.stride = SHAPE(0, 1);
    t = tensor_over(o.buffer, 8, &turned);
    r = tensor_over(o.buffer, 8, &repeated);
    OK(bp_tensor_write(o.f.stream, x, F32(1, 2, 3, 4, 5, 6), 24));
    expect_bytes(&o.f, t, F32(1, 3, 5, 2, 4, 6), 24);
    expect_bytes(&o.f, r, F32(1, 2, 3, 1, 2, 3), 24);
    OK(bp_op_add(o.f.scope, t, r, &sum));
    expect_bytes(&o.f, sum, F32(2, 5, 8, 3, 6, 9), 24);
    FAILS(BP_ERR_INVALID, "overlap itself",
          bp_tensor_write(o.f.stream, r, F32(1, 2, 3, 4, 5, 6), 24));
    OK(bp_tensor_write(o.f.stream, t, F32(1, 3, 5, 2, 4, 7), 24));
    over_expect(&o, 8, F32(1, 2, 3, 4, 5, 7));
    bp_tensor_destroy(x), bp_tensor_destroy(t), bp_tensor_destroy(r), bp_tensor_destroy(sum);
    over_finish(&o);
}

static uint64_t over_allocated(struct over *o)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(o->f.device, &stats));
    return stats.allocated;
}

Test(over, keeps_the_memory)
{
    struct over o = over_init();
    uint64_t before = over_allocated(&o);
    struct bp_buffer *own = buffer_of(&o.f, 1 << 20);
    struct bp_tensor *x = tensor_over(own, 512, &matrix), *view;

    bp_buffer_destroy(own);
    OK(bp_tensor_write(o.f.stream, x, F32(1, 2, 3, 4, 5, 6), 24));
    OK(bp_tensor_slice(x, 0, 1, 2, 1, &view));
    bp_tensor_destroy(x);
    expect_bytes(&o.f, view, F32(4, 5, 6), 12);
    cr_assert_eq(over_allocated(&o), before + (1 << 20));
    bp_tensor_destroy(view);
    cr_assert_eq(over_allocated(&o), before);
    over_finish(&o);
}

Test(over, may_be_empty)
{
    struct over o = over_init();
    const struct bp_tensor_options none = {
        .size = sizeof none, .dtype = BP_F64, .rank = 2, .shape = SHAPE(0, 5)};
    struct bp_buffer *nothing = buffer_of(&o.f, 0);
    struct bp_tensor *a = tensor_over(o.buffer, BYTES, &none), *b = tensor_over(nothing, 0, &none),
                     *sum = NULL;

    OK(bp_op_add(o.f.scope, a, b, &sum));
    cr_assert_eq(over_info(sum).count, 0);
    OK(bp_tensor_rebind(a, nothing, 0));
    OK(bp_tensor_rebind(b, o.buffer, BYTES));
    FAILS(BP_ERR_INVALID, "has 4096 bytes", bp_tensor_rebind(b, o.buffer, BYTES + 8));
    bp_tensor_destroy(a), bp_tensor_destroy(b), bp_tensor_destroy(sum);
    bp_buffer_destroy(nothing);
    over_finish(&o);
}

static void over_refuse(struct over *o, const char *word, uint64_t offset,
                        struct bp_tensor_options opt)
{
    struct bp_tensor *t = o->bytes;

    FAILS(BP_ERR_INVALID, word, bp_tensor_create_over(o->buffer, offset, &opt, &t));
    cr_assert_eq(t, o->bytes, "a failed call wrote its result");
}

Test(over, refuses_what_does_not_fit)
{
    struct over o = over_init();
    struct bp_tensor_options opt = matrix;

    over_refuse(&o, "span 24 bytes", BYTES - 20, opt);
    over_refuse(&o, "has 4096 bytes", BYTES + 4, opt);
    over_refuse(&o, "has 4096 bytes", UINT64_MAX - 3, opt);
    over_refuse(&o, "multiple of 4, the size of f32", 6, opt);
    opt.stride = SHAPE(1, 600);
    over_refuse(&o, "span 4808 bytes", 0, opt);
    opt.stride = SHAPE(-3, 1);
    over_refuse(&o, "stride 0 is -3", 64, opt);
    opt.stride = NULL;
    opt.space = BP_SPACE_MANAGED;
    over_refuse(&o, "set it to 0", 0, opt);
    opt.space = 0;
    opt.stream = o.f.stream;
    over_refuse(&o, "options->stream", 0, opt);
    opt.stream = NULL;
    opt.dtype = 99;
    over_refuse(&o, "99 is no dtype", 0, opt);
    opt.dtype = BP_C128;
    over_refuse(&o, "multiple of 16", 8, opt);
    over_finish(&o);
}

Test(rebind, moves_a_tensor)
{
    struct over o = over_init();
    struct bp_buffer *other = buffer_of(&o.f, 64 << 20); /* in a segment of its own */
    struct bp_tensor *x = tensor_over(o.buffer, 256, &matrix),
                     *same = tensor_over(other, 1000, &matrix), *view, *twice = NULL;

    OK(bp_tensor_write(o.f.stream, x, F32(1, 2, 3, 4, 5, 6), 24));
    OK(bp_tensor_slice(x, 1, 0, 1, 1, &view));
    OK(bp_tensor_rebind(x, other, 1000));
    OK(bp_tensor_write(o.f.stream, x, F32(7, 8, 9, 7, 8, 9), 24));
    expect_bytes(&o.f, same, F32(7, 8, 9, 7, 8, 9), 24);
    cr_assert_eq(over_info(x).offset, 1000);
    cr_assert_neq(over_info(x).buffer, over_info(view).buffer);
    OK(bp_op_add(o.f.scope, x, x, &twice)); /* a kernel reads the new memory */
    expect_bytes(&o.f, twice, F32(14, 16, 18, 14, 16, 18), 24);
    bp_tensor_destroy(twice);
    expect_bytes(&o.f, view, F32(1, 4), 8); /* views keep the previous memory */
    over_expect(&o, 256, F32(1, 2, 3, 4, 5, 6));
    OK(bp_tensor_rebind(x, o.buffer, 256));
    expect_bytes(&o.f, x, F32(1, 2, 3, 4, 5, 6), 24);
    OK(bp_tensor_rebind(x, o.buffer, 260));
    expect_bytes(&o.f, x, F32(2, 3, 4, 5, 6, 0), 24);
    OK(bp_tensor_rebind(view, other, 1000)); /* a view is moved like any other tensor */
    expect_bytes(&o.f, view, F32(7, 7), 8);
    bp_buffer_destroy(other);
    expect_bytes(&o.f, view, F32(7, 7), 8);
    bp_tensor_destroy(x), bp_tensor_destroy(same), bp_tensor_destroy(view);
    over_finish(&o);
}

Test(rebind, serves_prepared_and_other_calls)
{
    struct over o = over_init();
    struct bp_tensor *t[3], *z = NULL;
    struct bp_arg in[2] = {{&t[0], 1}, {&t[1], 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_prepared *p;
    float all[64 * 6];

    for (int i = 0; i < 64 * 6; i++) all[i] = (float)i;
    for (int i = 0; i < 3; i++) t[i] = tensor_over(o.buffer, 0, &matrix);
    OK(bp_tensor_rebind(t[2], o.buffer, 2048));
    OK(bp_prepared_create(o.f.device, &call, NULL, 0, &p));
    for (uint64_t i = 0; i < 8; i++) {
        const float *x = all + 6 * i, *y = all + 6 * (i + 8);
        OK(bp_tensor_rebind(t[0], o.buffer, 24 * i));
        OK(bp_tensor_rebind(t[1], o.buffer, 24 * (i + 8)));
        OK(bp_tensor_rebind(t[2], o.buffer, 2048 + 24 * i));
        OK(bp_tensor_write(o.f.stream, t[0], x, 24));
        OK(bp_tensor_write(o.f.stream, t[1], y, 24));
        OK(bp_prepared_run(p, o.f.stream, t, 2, &t[2], 1, NULL));
        over_expect(
            &o, 2048 + 24 * i,
            F32(x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4], x[5] + y[5]));
        OK(bp_op_mul(o.f.scope, t[0], t[1], &z));
        expect_bytes(
            &o.f, z,
            F32(x[0] * y[0], x[1] * y[1], x[2] * y[2], x[3] * y[3], x[4] * y[4], x[5] * y[5]), 24);
        bp_tensor_destroy(z), z = NULL;
    }
    OK(bp_tensor_rebind(t[2], o.buffer, 24 * 7 + 4)); /* inside input 0 */
    FAILS(BP_ERR_INVALID, "overlaps input 0", bp_prepared_run(p, o.f.stream, t, 2, &t[2], 1, NULL));
    bp_prepared_destroy(p);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(t[i]);
    over_finish(&o);
}

/* Runs w + x by a call that was prepared for tensors that are not frozen. */
static enum bp_status run_thawed(struct over *o, struct bp_tensor *w, struct bp_tensor *x)
{
    struct bp_tensor *t[2] = {o->bytes, o->bytes}, *z = NULL;
    struct bp_arg in[2] = {{&t[0], 1}, {&t[1], 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_prepared *p = NULL;
    enum bp_status status;

    t[0] = tensor_over(o->buffer, 2048, &matrix);
    t[1] = tensor_over(o->buffer, 2048, &matrix);
    z = tensor_over(o->buffer, 3072, &matrix);
    OK(bp_prepared_create(o->f.device, &call, NULL, 0, &p));
    status = bp_prepared_run(p, o->f.stream, (struct bp_tensor *[]){w, x}, 2, &z, 1, NULL);
    bp_prepared_destroy(p);
    bp_tensor_destroy(t[0]), bp_tensor_destroy(t[1]), bp_tensor_destroy(z);
    return status;
}

/* Frozen is a property of memory: the tensor has it while it is there. */
Test(rebind, follows_frozen_memory)
{
    struct over o = over_init();
    struct bp_buffer *weights = buffer_of(&o.f, 64);
    struct bp_tensor *w = tensor_over(weights, 0, &matrix), *x = tensor_over(o.buffer, 0, &matrix),
                     *y = NULL;

    OK(bp_tensor_write(o.f.stream, w, F32(1, 2, 3, 4, 5, 6), 24));
    OK(bp_tensor_write(o.f.stream, x, F32(1, 1, 1, 1, 1, 1), 24));
    OK(bp_tensor_freeze(w));
    OK(bp_op_add(o.f.scope, w, x, &y));
    bp_tensor_destroy(y), y = NULL;
    FAILS(BP_ERR_INVALID, "frozen", run_thawed(&o, w, x));
    OK(bp_tensor_rebind(w, o.buffer, 64));
    OK(run_thawed(&o, w, x));
    cr_assert_eq(over_info(w).frozen, 0);
    OK(bp_tensor_write(o.f.stream, w, F32(7, 7, 7, 7, 7, 7), 24));
    OK(bp_op_add(o.f.scope, w, x, &y));
    expect_bytes(&o.f, y, F32(8, 8, 8, 8, 8, 8), 24);
    bp_tensor_destroy(y), y = NULL;
    OK(bp_tensor_rebind(x, weights, 0));
    cr_assert_eq(over_info(x).frozen, 1);
    FAILS(BP_ERR_INVALID, "frozen", run_thawed(&o, w, x));
    FAILS(BP_ERR_INVALID, "frozen", bp_tensor_write(o.f.stream, x, F32(0, 0, 0, 0, 0, 0), 24));
    OK(bp_op_add(o.f.scope, w, x, &y));
    expect_bytes(&o.f, y, F32(8, 9, 10, 11, 12, 13), 24);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(w);
    bp_buffer_destroy(weights);
    over_finish(&o);
}

/* A plan of a product that has packed the frozen weight must not be used for other memory. */
Test(rebind, does_not_reuse_plans_of_frozen_memory)
{
    enum {
        N = 64,
        SIZE = N * N * 4
    };
    const struct bp_tensor_options square = {
        .size = sizeof square, .dtype = BP_F32, .rank = 2, .shape = SHAPE(N, N)};
    struct over o = over_init();
    struct bp_buffer *memory = buffer_of(&o.f, 3 * SIZE);
    struct bp_tensor *x = tensor_over(memory, 0, &square), *w = tensor_over(memory, SIZE, &square),
                     *y = NULL;
    static float one[N * N], got[N * N];

    for (int i = 0; i < N; i++) one[i * N + i] = 1;
    OK(bp_tensor_write(o.f.stream, x, one, SIZE));
    for (int k = 1; k <= 2; k++) {
        OK(bp_tensor_rebind(w, memory, (uint64_t)k * SIZE));
        for (int i = 0; i < N * N; i++) got[i] = (float)(k * 1000 + i % 7);
        OK(bp_tensor_write(o.f.stream, w, got, SIZE));
    }
    OK(bp_tensor_freeze(w));
    for (int k = 1; k <= 2; k++) {
        OK(bp_tensor_rebind(w, memory, (uint64_t)k * SIZE));
        OK(bp_op_matmul(o.f.scope, x, w, NULL, &y));
        OK(bp_tensor_read(o.f.stream, y, got, SIZE));
        for (int i = 0; i < N * N; i++) cr_assert_eq(got[i], (float)(k * 1000 + i % 7), "%d", i);
        bp_tensor_destroy(y), y = NULL;
    }
    bp_tensor_destroy(x), bp_tensor_destroy(w);
    bp_buffer_destroy(memory);
    over_finish(&o);
}

/* A graph relies on the memory of its constants. */
Test(rebind, refuses_constants_of_graphs)
{
    struct over o = over_init();
    struct bp_tensor *w = tensor_over(o.buffer, 0, &matrix), *x = NULL, *y = NULL;
    struct bp_graph *graph;

    OK(bp_graph_create(o.f.core, &graph));
    OK(bp_graph_input(graph, NULL, BP_F32, 2, SHAPE(2, 3), &x));
    OK(bp_op_add(bp_graph_scope(graph), x, w, &y));
    FAILS(BP_ERR_BUSY, "constant", bp_tensor_rebind(w, o.buffer, 256));
    cr_assert_eq(over_info(w).offset, 0);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    bp_graph_destroy(graph);
    OK(bp_tensor_rebind(w, o.buffer, 256));
    bp_tensor_destroy(w);
    over_finish(&o);
}

/* A graph keeps no reference to the inputs of its runs: they may move between two runs. */
Test(rebind, moves_inputs_of_graphs_and_programs)
{
    struct over o = over_init();
    struct bp_tensor *in = tensor_over(o.buffer, 0, &matrix),
                     *out = tensor_over(o.buffer, 2048, &matrix), *x = NULL, *y = NULL;
    struct bp_graph *graph;
    struct bp_program *program;

    OK(bp_graph_create(o.f.core, &graph));
    OK(bp_graph_input(graph, NULL, BP_F32, 2, SHAPE(2, 3), &x));
    OK(bp_op_add(bp_graph_scope(graph), x, x, &y));
    OK(bp_graph_output(graph, y, NULL));
    OK(bp_program_create(graph, o.f.device, &program));
    for (int i = 0; i < 5; i++) {
        float n = (float)i;
        OK(bp_tensor_rebind(in, o.buffer, 24 * (uint64_t)i));
        OK(bp_tensor_rebind(out, o.buffer, 2048 + 24 * (uint64_t)i));
        OK(bp_tensor_write(o.f.stream, in, F32(n, n, n, n, n, n), 24));
        OK(bp_program_run(program, o.f.stream, &in, 1, &out, 1));
        over_expect(&o, 2048 + 24 * (uint64_t)i, F32(2 * n, 2 * n, 2 * n, 2 * n, 2 * n, 2 * n));
        OK(bp_graph_run(graph, o.f.stream, &in, 1, &out, 1));
    }
    bp_program_destroy(program);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(in), bp_tensor_destroy(out);
    bp_graph_destroy(graph);
    over_finish(&o);
}

Test(rebind, refuses)
{
    struct over o = over_init();
    struct bp_tensor *t = tensor_of(&o.f, BP_F32, 2, SHAPE(2, 3), NULL),
                     *x = tensor_over(o.buffer, 64, &matrix), *view;
    struct fixture other = fixture_init(); /* of another core */

    FAILS(BP_ERR_INVALID, "created together with its memory", bp_tensor_rebind(t, o.buffer, 0));
    OK(bp_tensor_slice(t, 0, 0, 1, 1, &view));
    OK(bp_tensor_rebind(view, o.buffer, 0));
    FAILS(BP_ERR_INVALID, "span 24 bytes", bp_tensor_rebind(x, o.buffer, BYTES - 20));
    FAILS(BP_ERR_INVALID, "has 4096 bytes", bp_tensor_rebind(x, o.buffer, UINT64_MAX - 3));
    FAILS(BP_ERR_INVALID, "multiple of 4", bp_tensor_rebind(x, o.buffer, 2));
    cr_assert_eq(over_info(x).offset, 64);
    {
        struct bp_buffer *far = buffer_of(&other, 256);
        FAILS(BP_ERR_INVALID, "the tensor is of", bp_tensor_rebind(x, far, 0));
        bp_buffer_destroy(far);
    }
    bp_tensor_destroy(t), bp_tensor_destroy(x), bp_tensor_destroy(view);
    fixture_finish(&other);
    over_finish(&o);
}

/* Work in a queue uses the memory that the tensors had when it was submitted, even if that memory
 * has no owner any more and is wanted by another stream. */
Test(rebind, leaves_submitted_work_alone)
{
    enum {
        N = 1 << 16,
        ROUNDS = 50
    };
    const struct bp_tensor_options line = {
        .size = sizeof line, .dtype = BP_F32, .rank = 1, .shape = SHAPE(N)};
    struct over o = over_init();
    struct bp_stream *queue;
    struct bp_buffer *memory;
    struct bp_tensor *x, *sum = NULL;
    static float ones[N], got[N];

    for (int i = 0; i < N; i++) ones[i] = 1;
    OK(bp_stream_create_with(o.f.device, BP_STREAM_ASYNC, &queue));
    memory = buffer_of(&o.f, N * 4);
    x = tensor_over(memory, 0, &line);
    OK(bp_tensor_write(o.f.stream, x, ones, N * 4));
    OK(bp_stream_synchronize(o.f.stream));
    OK(bp_op_neg(bp_stream_scope(queue), x, &sum));
    for (int i = 0; i < ROUNDS; i++) {
        struct bp_tensor *more = NULL;
        struct bp_buffer *next = NULL;
        OK(bp_op_sub(bp_stream_scope(queue), sum, x, &more));
        bp_tensor_destroy(sum);
        sum = more;
        bp_buffer_destroy(memory);
        OK(bp_buffer_create(o.f.device, queue, BP_SPACE_DEVICE, N * 4, &next));
        OK(bp_tensor_rebind(x, next, 0)); /* frees the previous memory */
        for (int k = 0; k < N; k++) ones[k] = (float)(i + 2);
        OK(bp_tensor_write(queue, x, ones, N * 4));
        memory = next;
    }
    OK(bp_tensor_read(queue, sum, got, N * 4));
    for (int i = 0; i < N; i++)
        cr_assert_eq(got[i], (float)-(1 + ROUNDS * (ROUNDS + 1) / 2), "element %d", i);
    bp_tensor_destroy(x), bp_tensor_destroy(sum);
    bp_buffer_destroy(memory);
    bp_stream_destroy(queue);
    over_finish(&o);
}

struct mover {
    struct bp_tensor *tensor;
    struct bp_buffer *const *buffer; /* two */
};

static void *move_often(void *arg)
{
    struct mover *m = arg;

    for (uint64_t i = 0; i < 20000; i++)
        OK(bp_tensor_rebind(m->tensor, m->buffer[i % 2], i % 10 * 4));
    return NULL;
}

/* Threads move their own tensors within common buffers. */
Test(rebind, threads_share_buffers)
{
    enum {
        THREADS = 4
    };
    struct over o = over_init();
    uint64_t before = over_allocated(&o);
    struct bp_buffer *buffer[2] = {buffer_of(&o.f, 1024), buffer_of(&o.f, 1024)};
    struct mover mover[THREADS];
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++) {
        mover[i] = (struct mover){tensor_over(buffer[1], 0, &matrix), buffer};
        cr_assert_eq(pthread_create(&thread[i], NULL, move_often, &mover[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    bp_buffer_destroy(buffer[0]);
    bp_buffer_destroy(buffer[1]);
    cr_assert_gt(over_allocated(&o), before); /* the tensors keep the memory */
    for (int i = 0; i < THREADS; i++) bp_tensor_destroy(mover[i].tensor);
    cr_assert_eq(over_allocated(&o), before);
    over_finish(&o);
}

static void count_release(void *ctx)
{
    ++*(int *)ctx;
}

/* The caller's memory is used in place, and is returned after its last user. */
Test(lent, memory_is_used_and_returned)
{
    struct over o = over_init();
    _Alignas(64) float mine[18] = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};
    struct bp_buffer_info info = {.size = sizeof info};
    struct bp_buffer *lent = NULL;
    struct bp_tensor *x, *y, *z;
    enum bp_status status;
    int n = 0;

    status = bp_buffer_create_over(o.f.device, mine, sizeof mine, count_release, &n, &lent);
    if (status == BP_ERR_UNSUPPORTED) {
        cr_assert_neq(strcmp(bp_device_name(o.f.device), "cpu:0"), 0, "%s", bp_error_message());
        over_finish(&o);
        return;
    }
    OK(status);
    OK(bp_buffer_get_info(lent, &info));
    cr_assert(info.host == mine && info.bytes == sizeof mine);
    x = tensor_over(lent, 0, &matrix);
    y = tensor_over(lent, 24, &matrix);
    z = tensor_over(o.buffer, 0, &matrix);
    OK(bp_tensor_rebind(z, lent, 48));
    cr_assert_eq(sum_into(&o, x, y, z), z);
    for (int i = 0; i < 6; i++) cr_assert_eq(mine[12 + i], mine[i] + mine[6 + i]);
    bp_buffer_destroy(lent);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    cr_assert_eq(n, 0);
    bp_tensor_destroy(z);
    OK(bp_device_synchronize(o.f.device));
    cr_assert_eq(n, 1);
    over_finish(&o);
}

/* One buffer over all addresses serves tensors at any of them. */
Test(lent, all_host_memory_is_one_buffer)
{
    struct over o = over_init();
    static float in[6] = {1, 2, 3, 4, 5, 6}, sum[6];
    char *const first = (char *)4096;
    struct bp_buffer *all = NULL;
    struct bp_tensor *x, *z;

    if (!bp_buffer_create_over(o.f.device, first, INT64_MAX - 4096, NULL, NULL, &all)) {
        x = tensor_over(all, (uint64_t)((char *)in - first), &matrix);
        z = tensor_over(all, (uint64_t)((char *)sum - first), &matrix);
        sum_into(&o, x, x, z);
        for (int i = 0; i < 6; i++) cr_assert_eq(sum[i], 2 * in[i]);
        bp_tensor_destroy(x), bp_tensor_destroy(z);
        bp_buffer_destroy(all);
    }
    over_finish(&o);
}
