/* SPDX-License-Identifier: Apache-2.0 */
/* test_queue.c: tests work that is submitted to a queue: completely or not at all, with exactly its
 * elements, with a wait only where waits are counted; and tests the queue's threads. */
#include "stream_kit.h"

#include <dirent.h>
#include <math.h>

enum { ROWS = 1000, LARGE = 1 << 19 }; /* floats; LARGE is more than a queue copies */

static struct bp_tensor *matrix_at(struct bp_device *device, int64_t rows, int64_t columns)
{
    struct bp_tensor *t;

    OK(bp_tensor_create(device, BP_F32, 2, SHAPE(rows, columns), &t));
    return t;
}

static struct bp_tensor *column_of(struct bp_tensor *matrix, int64_t column)
{
    struct bp_tensor *t;

    OK(bp_tensor_slice(matrix, 1, column, column + 1, 1, &t));
    return t;
}

static const float *queue_filled(float *data, size_t n, float value)
{
    for (size_t i = 0; i < n; i++) data[i] = value;
    return data;
}

static uint64_t queue_blocked(struct bp_device *device)
{
    uint64_t sum = 0;

    for (uint32_t r = 0; r < BP_BLOCK_COUNT; r++) sum += bp_device_blocked(device, r);
    return sum;
}

/* Returns a queue of the core, in front of a device whose memory the host does not access. */
static struct spot partial_spot(const char *variable, const char *value)
{
    struct spot s = {.core = core_with(variable, value)};
    uint32_t index;

    OK(bp_core_load_path(s.core, HOSTILE_DIR "/bp_partial.so", &index));
    OK(bp_device_create_at(s.core, index, 0, &s.device));
    OK(bp_stream_create_with(s.device, BP_STREAM_ASYNC, &s.stream));
    return s;
}

struct inside {
    struct bp_stream *stream;
    struct bp_tensor *small, *large, *matrix, *transposed;
    float got[4], *data;
    enum bp_status read, write, find, copy;
    uint64_t given; /* work that refused calls have submitted */
    bool has_queue;
    atomic_int over;
};

static void call_inside(void *ctx, enum bp_status status)
{
    struct inside *in = ctx;
    struct bp_tensor *none = NULL;
    uint64_t last = bp_stream_last(in->stream);

    (void)status;
    in->read = bp_tensor_read(in->stream, in->small, in->got, sizeof in->got);
    if (in->has_queue) {
        in->write = bp_tensor_write(in->stream, in->large, in->data, LARGE * sizeof(float));
        in->find = bp_op_nonzero(bp_stream_scope(in->stream), in->small, &none);
        in->given = bp_stream_last(in->stream) - last;
        in->copy = bp_tensor_copy(in->stream, in->matrix, in->transposed);
    }
    queue_filled(in->got, 4, 9); /* the call was refused: the app owns the memory */
    if (in->data) queue_filled(in->data, LARGE, 9);
    atomic_store(&in->over, 1);
}

/* A refused call has submitted nothing to the stream; otherwise the stream would use memory of the
 * app later. */
Test(queue, a_call_that_a_callback_is_refused_leaves_nothing, .timeout = 30)
{
    struct spot s = spot_at(QUEUE, NULL, NULL);
    struct inside in = {.stream = s.stream, .small = floats_at(s.device, 4), .has_queue = true,
                        .large = floats_at(s.device, LARGE), .matrix = matrix_at(s.device, 20, 30)};
    float *data = calloc(LARGE, sizeof *data), *zeros = calloc(LARGE, sizeof *data);
    struct bp_tensor *m = matrix_at(s.device, 30, 20);

    in.data = data;
    OK(bp_tensor_transpose(m, NULL, &in.transposed));
    OK(bp_tensor_write(s.stream, in.small, F32(1, 0, 3, 4), 16));
    OK(bp_tensor_write(s.stream, in.large, zeros, LARGE * sizeof *zeros));
    OK(bp_stream_callback(s.stream, call_inside, &in));
    while (!in.over) usleep(1000);
    OK(bp_stream_synchronize(s.stream));
    cr_assert_eq(in.read, BP_ERR_INVALID);
    cr_assert_eq(in.write, BP_ERR_INVALID);
    cr_assert_eq(in.find, BP_ERR_INVALID);
    cr_assert_eq(in.copy, BP_OK, "a copy on one device waits for nothing");
    cr_assert_eq(in.given, 0);
    cr_assert(in.got[0] == 9 && in.got[3] == 9, "%g %g", (double)in.got[0], (double)in.got[3]);
    OK(bp_tensor_read(s.stream, in.large, data, LARGE * sizeof *data));
    cr_assert(!memcmp(data, zeros, LARGE * sizeof *data));
    bp_tensor_destroy(in.small);
    bp_tensor_destroy(in.large);
    bp_tensor_destroy(in.matrix);
    bp_tensor_destroy(in.transposed);
    bp_tensor_destroy(m);
    free(data);
    free(zeros);
    spot_finish(&s);
}

Test(queue, callbacks_of_native_streams_do_not_read_either, .timeout = 30)
{
    static const enum place at[] = {GATED, PLAIN};

    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        struct spot s = spot_at(at[i], NULL, NULL);
        struct inside in = {.stream = s.stream, .small = floats_at(s.device, 4)};
        OK(bp_tensor_write(s.stream, in.small, F32(1, 2, 3, 4), 16));
        OK(bp_stream_callback(s.stream, call_inside, &in));
        while (!in.over) usleep(1000);
        cr_assert_eq(in.read, BP_ERR_INVALID, "%s", places[at[i]].name);
        bp_tensor_destroy(in.small);
        spot_finish(&s);
    }
}

/* Two queues write columns of one matrix; one of them is held while the other one works. */
static void write_two_columns(struct spot *s)
{
    static float one[ROWS], two[ROWS], got[ROWS * 2];
    struct bp_tensor *m = matrix_at(s->device, ROWS, 2), *column[2];
    struct bp_stream *other;
    struct latch latch;
    uint64_t last;

    OK(bp_stream_create_with(s->device, BP_STREAM_ASYNC, &other));
    for (int i = 0; i < 2; i++) column[i] = column_of(m, i);
    queue_filled(two, ROWS, 2);
    hold_queue(s->stream, &latch);
    last = bp_stream_last(s->stream);
    OK(bp_tensor_write(s->stream, column[0], queue_filled(one, ROWS, 1), sizeof one));
    queue_filled(one, ROWS, 9); /* the write has copied it */
    cr_assert_eq(bp_stream_last(s->stream), last + 1, "one piece of work");
    OK(bp_tensor_write(other, column[1], two, sizeof two));
    OK(bp_stream_synchronize(other));
    sem_post(&latch.end);
    OK(bp_stream_synchronize(s->stream));
    OK(bp_tensor_read(s->stream, m, got, sizeof got));
    for (int i = 0; i < ROWS; i++)
        cr_assert(got[2 * i] == 1 && got[2 * i + 1] == 2, "row %d: %g %g", i, (double)got[2 * i],
                  (double)got[2 * i + 1]);
    OK(bp_tensor_read(other, column[1], got, sizeof two));
    cr_assert(!memcmp(got, two, sizeof two));
    cr_assert_eq(queue_blocked(s->device), 0);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(column[i]);
    bp_tensor_destroy(m);
    bp_stream_destroy(other);
}

Test(queue, a_strided_write_keeps_the_gaps, .timeout = 30)
{
    struct spot s = spot_at(QUEUE, NULL, NULL), p = partial_spot(NULL, NULL);

    write_two_columns(&s);
    write_two_columns(&p);
    spot_finish(&s);
    spot_finish(&p);
}

static void copy_transposed(struct spot *s)
{
    static float data[60 * 70], got[60 * 70];
    struct bp_tensor *m = matrix_at(s->device, 60, 70), *t, *d = matrix_at(s->device, 70, 60);
    struct bp_tensor_info before = {.size = sizeof before}, after = before;
    struct bp_stream *other;
    struct latch latch;

    for (int i = 0; i < 60 * 70; i++) data[i] = (float)i;
    OK(bp_tensor_transpose(m, NULL, &t));
    OK(bp_tensor_get_info(d, &before));
    OK(bp_stream_create_with(s->device, BP_STREAM_ASYNC, &other));
    OK(bp_tensor_write(s->stream, m, data, sizeof data));
    OK(bp_stream_synchronize(s->stream));
    hold_queue(s->stream, &latch);
    OK(bp_tensor_copy(s->stream, d, t)); /* returns while the queue is still held */
    bp_tensor_destroy(t);
    bp_tensor_destroy(m); /* the copy still uses the memory: it is not reused */
    m = matrix_at(s->device, 60, 70);
    OK(bp_tensor_write(other, m, queue_filled(got, 60 * 70, -1), sizeof got));
    OK(bp_stream_synchronize(other));
    sem_post(&latch.end);
    OK(bp_tensor_read(s->stream, d, got, sizeof got));
    for (int i = 0; i < 70; i++)
        for (int k = 0; k < 60; k++) cr_assert_eq(got[i * 60 + k], data[k * 70 + i]);
    OK(bp_tensor_get_info(d, &after));
    cr_assert_eq(after.version, before.version + 1);
    cr_assert_eq(queue_blocked(s->device), 0);
    bp_stream_destroy(other);
    bp_tensor_destroy(m);
    bp_tensor_destroy(d);
}

Test(queue, a_copy_of_any_layout_does_not_wait, .timeout = 30)
{
    struct spot s = spot_at(QUEUE, NULL, NULL), p = partial_spot(NULL, NULL);

    copy_transposed(&s);
    copy_transposed(&p);
    spot_finish(&s);
    spot_finish(&p);
}

/* Releases a queue when a wait for the device has been counted. */
struct release {
    struct latch *latch;
    struct bp_device *device;
    uint64_t before;
    pthread_t thread;
};

static void *let_go_counted(void *release)
{
    struct release *r = release;

    for (int i = 0; i < 5000 && queue_blocked(r->device) == r->before; i++) usleep(1000);
    sem_post(&r->latch->end);
    return NULL;
}

static void release_counted(struct release *r, struct latch *latch, struct bp_device *device)
{
    *r = (struct release){.latch = latch, .device = device, .before = queue_blocked(device)};
    cr_assert_eq(pthread_create(&r->thread, NULL, let_go_counted, r), 0);
}

/* A large write waits for earlier work. Without earlier work it takes only its own time, and is not
 * counted. */
Test(queue, a_large_write_is_counted_or_refused, .timeout = 30)
{
    for (int deny = 0; deny < 2; deny++) {
        struct spot s = spot_at(QUEUE, "BP_BLOCK", deny ? "deny" : "allow");
        struct bp_tensor *t = floats_at(s.device, LARGE);
        float *data = calloc(LARGE, sizeof *data), *got = calloc(LARGE, sizeof *data);
        struct release release;
        struct latch latch;
        uint64_t last;
        OK(bp_tensor_write(s.stream, t, queue_filled(data, LARGE, 1), LARGE * sizeof *data));
        cr_assert_eq(queue_blocked(s.device), 0);
        hold_queue(s.stream, &latch);
        last = bp_stream_last(s.stream);
        queue_filled(data, LARGE, 2);
        if (deny) {
            FAILS(BP_ERR_BLOCKED, "sets aside",
                  bp_tensor_write(s.stream, t, data, LARGE * sizeof *data));
            cr_assert_eq(bp_stream_last(s.stream), last);
            sem_post(&latch.end);
        } else {
            release_counted(&release, &latch, s.device);
            OK(bp_tensor_write(s.stream, t, data, LARGE * sizeof *data));
            pthread_join(release.thread, NULL);
            cr_assert_eq(bp_device_blocked(s.device, BP_BLOCK_WRITE), 1);
        }
        OK(bp_tensor_read(s.stream, t, got, LARGE * sizeof *got));
        cr_assert(got[0] == (deny ? 1 : 2) && got[LARGE - 1] == got[0]);
        cr_assert_eq(queue_blocked(s.device), !deny);
        bp_tensor_destroy(t);
        free(data);
        free(got);
        spot_finish(&s);
    }
}

/* Copies from a to b, one of which has work in progress. */
static void copy_between(struct spot *a, struct spot *b, int64_t n, bool hold_a, bool waits,
                         bool deny)
{
    struct bp_tensor *src = floats_at(a->device, n), *dst = floats_at(b->device, n);
    float *data = calloc((size_t)n, sizeof *data), *got = calloc((size_t)n, sizeof *data);
    uint64_t before[2] = {queue_blocked(a->device), queue_blocked(b->device)};
    uint64_t size = (uint64_t)n * sizeof *data, last;
    struct release release;
    struct latch latch;

    OK(bp_tensor_write(a->stream, src, queue_filled(data, (size_t)n, 1), size));
    OK(bp_tensor_write(b->stream, dst, queue_filled(data, (size_t)n, 2), size));
    OK(bp_stream_synchronize(a->stream));
    OK(bp_stream_synchronize(b->stream));
    hold_queue(hold_a ? a->stream : b->stream, &latch);
    last = bp_stream_last(b->stream);
    if (waits && !deny) release_counted(&release, &latch, hold_a ? a->device : b->device);
    if (waits && deny) {
        FAILS(BP_ERR_BLOCKED, "by way of the host", bp_tensor_copy(b->stream, dst, src));
        cr_assert_eq(bp_stream_last(b->stream), last);
    } else OK(bp_tensor_copy(b->stream, dst, src));
    if (!waits || deny) sem_post(&latch.end);
    else pthread_join(release.thread, NULL);
    cr_assert_eq(queue_blocked(a->device) - before[0], waits && !deny && hold_a);
    cr_assert_eq(queue_blocked(b->device) - before[1], waits && !deny && !hold_a);
    OK(bp_stream_synchronize(a->stream));
    OK(bp_tensor_read(b->stream, dst, got, size));
    cr_assert_eq(got[n - 1], waits && deny ? 2 : 1);
    bp_tensor_destroy(src);
    bp_tensor_destroy(dst);
    free(data);
    free(got);
}

Test(queue, a_copy_between_queues_is_counted_or_refused, .timeout = 30)
{
    for (int deny = 0; deny < 2; deny++) {
        struct spot a = spot_at(QUEUE, "BP_BLOCK", deny ? "deny" : "allow"),
                    b = spot_at(QUEUE, "BP_BLOCK", deny ? "deny" : "allow");
        copy_between(&a, &b, 8, true, true, deny);
        copy_between(&a, &b, 8, false, false, deny); /* small: the queue copies the data */
        copy_between(&a, &b, LARGE, true, true, deny);
        copy_between(&a, &b, LARGE, false, true, deny);
        spot_finish(&a);
        spot_finish(&b);
    }
}

/* On a native stream, a write or copy of many short runs is staged through host memory, and
 * waits. */
Test(queue, ways_through_host_memory_are_counted_or_refused)
{
    static float data[ROWS * 2], got[ROWS * 2];

    for (int deny = 0; deny < 2; deny++) {
        struct spot s = spot_at(TEMPLATE, "BP_BLOCK", deny ? "deny" : "allow");
        struct bp_tensor *m = matrix_at(s.device, ROWS, 2), *a = column_of(m, 0),
                         *b = column_of(m, 1);
        for (int i = 0; i < 2 * ROWS; i++) data[i] = (float)(i % 2);
        OK(bp_tensor_write(s.stream, m, data, sizeof data));
        cr_assert_eq(queue_blocked(s.device), 0);
        if (deny) {
            FAILS(BP_ERR_BLOCKED, "short pieces",
                  bp_tensor_write(s.stream, a, data, sizeof data / 2));
            FAILS(BP_ERR_BLOCKED, "short pieces", bp_tensor_copy(s.stream, a, b));
        } else {
            OK(bp_tensor_copy(s.stream, a, b));
            cr_assert_geq(bp_device_blocked(s.device, BP_BLOCK_COPY), 1);
        }
        OK(bp_tensor_read(s.stream, m, got, sizeof got));
        cr_assert(got[2 * ROWS - 2] == (deny ? 0 : 1) && got[2 * ROWS - 1] == 1);
        bp_tensor_destroy(a);
        bp_tensor_destroy(b);
        bp_tensor_destroy(m);
        spot_finish(&s);
    }
}

/* Holds the queue, filled up to `room` more pieces of work. */
static void fill_queue(struct spot *s, struct bp_tensor *x, struct latch *latch, int room)
{
    hold_queue(s->stream, latch);
    for (int i = 0; i < 4096 - room; i++) OK(bp_tensor_write(s->stream, x, F32(1, 2), 8));
}

Test(queue, a_call_of_several_steps_is_given_whole_or_not, .timeout = 30)
{
    struct spot s = partial_spot("BP_BLOCK", "deny");
    struct bp_tensor *x = floats_at(s.device, 2), *z = NULL;
    struct bp_scope *scope = bp_stream_scope(s.stream);
    struct latch latch;
    uint64_t last;

    OK(bp_tensor_write(s.stream, x, F32(1, 2), 8));
    OK(bp_op_mse_loss(scope, x, x, &z)); /* four pieces of work */
    bp_tensor_destroy(z), z = NULL;
    OK(bp_stream_synchronize(s.stream));
    fill_queue(&s, x, &latch, 4);
    OK(bp_op_mse_loss(scope, x, x, &z));
    bp_tensor_destroy(z), z = NULL;
    sem_post(&latch.end);
    OK(bp_stream_synchronize(s.stream));
    fill_queue(&s, x, &latch, 3);
    last = bp_stream_last(s.stream);
    z = NULL;
    FAILS(BP_ERR_BLOCKED, "queue", bp_op_mse_loss(scope, x, x, &z));
    cr_assert_null(z);
    cr_assert_eq(bp_stream_last(s.stream), last);
    sem_post(&latch.end);
    OK(bp_stream_synchronize(s.stream));
    bp_tensor_destroy(x);
    spot_finish(&s);
}

Test(queue, a_strided_write_needs_room_for_one, .timeout = 30)
{
    struct spot s = spot_at(QUEUE, "BP_BLOCK", "deny");
    struct bp_tensor *x = floats_at(s.device, 2), *m = matrix_at(s.device, 40, 2),
                     *c = column_of(m, 0);
    float data[40], got[40];
    struct latch latch;

    fill_queue(&s, x, &latch, 1);
    OK(bp_tensor_write(s.stream, c, queue_filled(data, 40, 1), sizeof data));
    FAILS(BP_ERR_BLOCKED, "queue",
          bp_tensor_write(s.stream, c, queue_filled(data, 40, 2), sizeof data));
    sem_post(&latch.end);
    OK(bp_stream_synchronize(s.stream));
    OK(bp_tensor_read(s.stream, c, got, sizeof got));
    for (int i = 0; i < 40; i++) cr_assert_eq(got[i], 1);
    bp_tensor_destroy(c);
    bp_tensor_destroy(m);
    bp_tensor_destroy(x);
    spot_finish(&s);
}

Test(queue, a_refused_call_draws_no_numbers, .timeout = 30)
{
    struct spot s = spot_at(QUEUE, "BP_BLOCK", "deny");
    struct bp_tensor *x = floats_at(s.device, 2), *y = NULL;
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_generator *g;
    struct latch latch;
    uint64_t seed, offset;

    attrs.shape.at = SHAPE(4);
    attrs.shape.n = 1;
    OK(bp_generator_create(1, &g));
    OK(bp_stream_set_generator(s.stream, g));
    fill_queue(&s, x, &latch, 1);
    OK(bp_op_uniform(bp_stream_scope(s.stream), NULL, &attrs, &y));
    bp_tensor_destroy(y), y = NULL;
    FAILS(BP_ERR_BLOCKED, "queue", bp_op_uniform(bp_stream_scope(s.stream), NULL, &attrs, &y));
    OK(bp_generator_get(g, &seed, &offset));
    cr_assert_eq(offset, 1);
    sem_post(&latch.end);
    OK(bp_stream_synchronize(s.stream));
    bp_generator_destroy(g);
    bp_tensor_destroy(x);
    spot_finish(&s);
}

static void *queue_let_go(void *latch)
{
    usleep(20000);
    sem_post(&((struct latch *)latch)->end);
    return NULL;
}

/* The result of another device returns by a copy, which would have to wait for the queue. */
Test(queue, a_call_that_another_device_runs_is_refused_first, .timeout = 30)
{
    struct spot s = partial_spot("BP_BLOCK", "deny");
    struct bp_uniform_attrs attrs = bp_uniform_defaults();
    struct bp_tensor *y = NULL;
    struct bp_generator *g;
    struct latch latch;
    uint64_t seed, offset;

    attrs.shape.at = SHAPE(LARGE);
    attrs.shape.n = 1;
    OK(bp_generator_create(1, &g));
    OK(bp_stream_set_generator(s.stream, g));
    hold_queue(s.stream, &latch);
    FAILS(BP_ERR_BLOCKED, "by way of the host",
          bp_op_uniform(bp_stream_scope(s.stream), NULL, &attrs, &y));
    cr_assert_null(y);
    OK(bp_generator_get(g, &seed, &offset));
    cr_assert_eq(offset, 0);
    sem_post(&latch.end);
    OK(bp_stream_synchronize(s.stream));
    OK(bp_op_uniform(bp_stream_scope(s.stream), NULL, &attrs, &y));
    bp_tensor_destroy(y);
    bp_generator_destroy(g);
    spot_finish(&s);
}

static void note_over(void *over, enum bp_status status)
{
    (void)status;
    atomic_store((atomic_int *)over, 1);
}

/* With BP_SYNC=launch, a call that submits work behind a callback returns after the callback. */
static void give_and_wait(struct spot *s, struct bp_tensor *x, struct bp_tensor *y, int how)
{
    struct bp_tensor *z = NULL;
    struct latch latch;
    atomic_int over = 0;
    pthread_t thread;

    hold_queue(s->stream, &latch);
    OK(bp_stream_callback(s->stream, note_over, &over));
    pthread_create(&thread, NULL, queue_let_go, &latch);
    if (how == 0) OK(bp_tensor_write(s->stream, x, F32(1, 2), 8));
    if (how == 1) OK(bp_tensor_copy(s->stream, y, x));
    if (how == 2) {
        OK(bp_op_add(bp_stream_scope(s->stream), x, x, &z));
        bp_tensor_destroy(z);
    }
    cr_assert_eq(over, 1, "way %d came back before the work in front of it was over", how);
    pthread_join(thread, NULL);
}

struct giver {
    struct bp_stream *stream;
    struct bp_tensor *x;
    enum bp_status write, add;
};

static void give_inside(void *ctx, enum bp_status status)
{
    struct giver *g = ctx;
    struct bp_tensor *z = NULL;

    (void)status;
    g->write = bp_tensor_write(g->stream, g->x, F32(3, 4), 8);
    g->add = bp_op_add(bp_stream_scope(g->stream), g->x, g->x, &z);
    bp_tensor_destroy(z);
}

Test(queue, each_copy_is_waited_for_when_launches_are, .timeout = 30)
{
    struct spot s = spot_at(QUEUE, "BP_SYNC", "launch");
    struct bp_tensor *x = floats_at(s.device, 2), *y = floats_at(s.device, 2);
    struct giver giver = {.stream = s.stream, .x = x, .write = BP_ERR_BUSY, .add = BP_ERR_BUSY};
    float got[2];

    for (int how = 0; how < 3; how++) give_and_wait(&s, x, y, how);
    OK(bp_stream_callback(s.stream, give_inside, &giver)); /* calls in a callback do not wait */
    OK(bp_stream_synchronize(s.stream));
    OK(bp_stream_synchronize(s.stream));
    cr_assert(giver.write == BP_OK && giver.add == BP_OK);
    OK(bp_tensor_read(s.stream, x, got, sizeof got));
    cr_assert_eq(got[0], 3);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    spot_finish(&s);
}

/* The failure occurs after the graph is destroyed, and names the node as on an inline stream. */
Test(queue, a_node_that_fails_later_is_named, .timeout = 30)
{
    struct spot s = partial_spot(NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2), *p, *q = NULL, *out = NULL;
    struct bp_stream *now;
    struct bp_graph *graph;
    struct latch latch;

    OK(bp_stream_create_with(s.device, BP_STREAM_INLINE, &now));
    OK(bp_tensor_write(now, x, F32(NAN, 2), 8)); /* scale of partial fails on NaN */
    OK(bp_graph_create(s.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(2), &p));
    OK(bp_op_scale(bp_graph_scope(graph), p, NULL, &q));
    OK(bp_graph_name(graph, q, "doubling"));
    OK(bp_graph_output(graph, q, NULL));
    FAILS(BP_ERR_FAULT, "node doubling: scale: kernel", bp_graph_run(graph, now, &x, 1, &out, 1));
    hold_queue(s.stream, &latch);
    OK(bp_graph_run(graph, s.stream, &x, 1, &out, 1));
    bp_tensor_destroy(p);
    bp_tensor_destroy(q);
    bp_graph_destroy(graph);
    sem_post(&latch.end);
    FAILS(BP_ERR_FAULT, "launch 2, scale, node doubling: scale: kernel",
          bp_stream_synchronize(s.stream));
    bp_tensor_destroy(out);
    bp_tensor_destroy(x);
    bp_stream_destroy(now);
    spot_finish(&s);
}

static int queue_threads(void)
{
    DIR *directory = opendir("/proc/self/task");
    int n = -2;

    cr_assert_not_null(directory);
    while (readdir(directory)) n++;
    closedir(directory);
    return n;
}

static void expect_threads(int n)
{
    for (int i = 0; i < 5000 && queue_threads() != n; i++) usleep(1000);
    cr_assert_eq(queue_threads(), n);
}

/* A queue's thread ends with its stream, and not earlier; a later stream starts a new one. */
Test(queue, threads_end_with_their_streams, .timeout = 60)
{
    struct spot s = spot_at(QUEUE, NULL, NULL);
    struct bp_tensor *x = floats_at(s.device, 2);
    struct bp_stream *stream[8];
    int before = queue_threads();
    float got[2];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 8; i++) {
            stream[i] = stream_at(s.device, QUEUE);
            OK(bp_tensor_write(stream[i], x, F32(5, 6), 8));
            OK(bp_tensor_read(stream[i], x, got, sizeof got));
            cr_assert_eq(got[1], 6);
        }
        if (round) usleep(500000); /* threads of live streams stay */
        cr_assert_eq(queue_threads(), before + 8);
        for (int i = 0; i < 8; i++) bp_stream_destroy(stream[i]);
        expect_threads(before);
    }
    bp_tensor_destroy(x);
    spot_finish(&s);
}

/* Callbacks of native streams have a thread too. */
Test(queue, threads_that_call_back_end_too, .timeout = 60)
{
    struct spot s = spot_at(GATED, NULL, NULL);
    struct bp_stream *stream = stream_at(s.device, GATED);
    struct giver giver = {.stream = stream, .x = floats_at(s.device, 2)};
    int before = queue_threads();

    for (int round = 0; round < 2; round++) {
        giver.write = BP_ERR_BUSY;
        OK(bp_stream_callback(stream, give_inside, &giver));
        OK(bp_stream_synchronize(stream));
        cr_assert_eq(giver.write, BP_OK);
        cr_assert_eq(queue_threads(), before + 1);
        bp_stream_destroy(stream);
        expect_threads(before);
        giver.stream = stream = stream_at(s.device, GATED);
    }
    bp_stream_destroy(stream);
    bp_tensor_destroy(giver.x);
    spot_finish(&s);
}

/* Plans may read a tensor as soon as it is frozen. */
Test(queue, freezing_waits_for_queued_work)
{
    struct spot s = spot_at(QUEUE, NULL, NULL);
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *x = floats_at(s.device, 2);
    struct latch latch;
    pthread_t thread;

    hold_queue(s.stream, &latch);
    OK(bp_tensor_write(s.stream, x, F32(1, 2), 8));
    pthread_create(&thread, NULL, queue_let_go, &latch);
    OK(bp_tensor_freeze(x));
    OK(bp_tensor_get_info(x, &info));
    cr_assert_eq(memcmp(info.data, F32(1, 2), 8), 0, "what was written before is missing");
    pthread_join(thread, NULL);
    bp_tensor_destroy(x);
    spot_finish(&s);
}
