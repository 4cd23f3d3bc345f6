/* SPDX-License-Identifier: Apache-2.0 */
/* test_packs.c: tests the packed copies of frozen weights in plans: one copy for all batch sizes,
 * kept as long as the weights exist, and within BP_MEM_LIMIT. */
#include "fixture.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>

enum { IN = 32, OUT = 48, SIDE = 8 };

static float packs_number(int i)
{
    return (float)(i * 37 % 101 - 50) / 64;
}

static struct bp_tensor *packs_numbers(struct fixture *f, const int64_t *shape)
{
    size_t n = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    float *data = malloc(n * sizeof *data);
    struct bp_tensor *t;

    for (size_t i = 0; i < n; i++) data[i] = packs_number((int)i);
    t = tensor_of(f, BP_F32, 4, shape, data);
    free(data);
    return t;
}

static uint64_t plans_of(struct fixture *f)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(f->device, &stats));
    return stats.plans;
}

/* Returns the largest difference between the convolutions of a batch with the two weights. */
static float packs_difference(struct fixture *f, int64_t batch, struct bp_tensor *w,
                              struct bp_tensor *same)
{
    enum { IMAGE = OUT * (SIDE - 2) * (SIDE - 2) };
    struct bp_tensor *x = packs_numbers(f, SHAPE(batch, IN, SIDE, SIDE)), *y[2] = {NULL};
    float *got = malloc((size_t)batch * 2 * IMAGE * sizeof *got), most = 0;
    size_t n = (size_t)batch * IMAGE;

    OK(bp_op_conv(f->scope, x, w, NULL, NULL, &y[0]));
    OK(bp_op_conv(f->scope, x, same, NULL, NULL, &y[1]));
    for (int i = 0; i < 2; i++) {
        struct bp_tensor *dense;
        OK(bp_tensor_create(f->device, BP_F32, 4, SHAPE(batch, OUT, SIDE - 2, SIDE - 2), &dense));
        OK(bp_tensor_copy(f->stream, dense, y[i]));
        OK(bp_tensor_read(f->stream, dense, got + (size_t)i * n, n * sizeof *got));
        bp_tensor_destroy(dense);
        bp_tensor_destroy(y[i]);
    }
    for (size_t i = 0; i < n; i++) {
        float d = fabsf(got[i] - got[n + i]);
        cr_assert(isfinite(d));
        if (d > most) most = d;
    }
    free(got);
    bp_tensor_destroy(x);
    return most;
}

Test(packs, one_for_all_batches_and_none_without_weights)
{
    struct fixture f = fixture_init();
    struct bp_tensor *w = packs_numbers(&f, SHAPE(OUT, IN, 3, 3)),
                     *same = packs_numbers(&f, SHAPE(OUT, IN, 3, 3));
    uint64_t once = 0;

    OK(bp_tensor_freeze(w));
    for (int64_t batch = 1; batch <= 6; batch++) {
        cr_expect_lt(packs_difference(&f, batch, w, same), 1e-3f);
        if (batch == 1) once = plans_of(&f);
        cr_expect_eq(plans_of(&f), once, "batch %d: %llu bytes, one keeps %llu", (int)batch,
                     (unsigned long long)plans_of(&f), (unsigned long long)once);
    }
    if (!once) cr_skip("no row packs weights here: oneDNN is not installed, or off");
    cr_expect_geq(once, OUT * IN * 9 * sizeof(float));
    bp_tensor_destroy(w);
    cr_expect_eq(plans_of(&f), 0, "%llu bytes", (unsigned long long)plans_of(&f));
    w = packs_numbers(&f, SHAPE(OUT, IN, 3, 3)); /* at the old address: no old pack is used */
    OK(bp_tensor_freeze(w));
    cr_expect_lt(packs_difference(&f, 2, w, same), 1e-3f);
    cr_expect_eq(plans_of(&f), once);
    bp_tensor_destroy(w);
    bp_tensor_destroy(same);
    fixture_finish(&f);
}

Test(packs, the_limit_counts_them)
{
    enum { WIDE = 512 };
    struct bp_tensor *x, *w, *y = NULL;
    struct fixture f;

    setenv("BP_MEM_LIMIT", "32M", 1);
    f = fixture_init();
    x = packs_numbers(&f, SHAPE(1, WIDE, 4, 4));
    w = packs_numbers(&f, SHAPE(WIDE, WIDE, 3, 3)); /* 9 MiB; the same again when packed */
    OK(bp_tensor_freeze(w));
    OK(bp_op_conv(f.scope, x, w, NULL, NULL, &y));
    if (!plans_of(&f)) cr_skip("no row packs weights here: oneDNN is not installed, or off");
    bp_tensor_destroy(y), y = NULL;
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    fixture_finish(&f);

    setenv("BP_MEM_LIMIT", "14M", 1);
    f = fixture_init();
    x = packs_numbers(&f, SHAPE(1, WIDE, 4, 4));
    w = packs_numbers(&f, SHAPE(WIDE, WIDE, 3, 3));
    OK(bp_tensor_freeze(w));
    FAILS(BP_ERR_MEMORY, "BP_MEM_LIMIT", bp_op_conv(f.scope, x, w, NULL, NULL, &y));
    cr_expect_eq(plans_of(&f), 0);
    bp_tensor_destroy(x);
    bp_tensor_destroy(w);
    fixture_finish(&f);
}

/* ---- folded filters ---- */

enum { WIDE_FILTERS = 128, WIDE_BYTES = WIDE_FILTERS * WIDE_FILTERS * 9 * (int)sizeof(float) };

/* Programs that read the folded product m = w s, and their graphs. */
struct refolded {
    struct fixture f;
    struct bp_tensor *w, *s, *product;
};

static struct refolded refolded_init(void)
{
    struct refolded r = {.f = fixture_init()};

    r.w = packs_numbers(&r.f, SHAPE(WIDE_FILTERS, WIDE_FILTERS, 3, 3));
    r.s = packs_numbers(&r.f, SHAPE(WIDE_FILTERS, 1, 1, 1));
    OK(bp_op_mul(r.f.scope, r.w, r.s, &r.product));
    OK(bp_tensor_freeze(r.w));
    OK(bp_tensor_freeze(r.s));
    return r;
}

static void refolded_finish(struct refolded *r)
{
    bp_tensor_destroy(r->w);
    bp_tensor_destroy(r->s);
    bp_tensor_destroy(r->product);
    fixture_finish(&r->f);
}

/* Compiles y = conv(x, m), or y = x + m if there is no batch. */
static struct bp_program *refolded_compile(struct refolded *r, int64_t batch, int64_t side)
{
    const int64_t filters[] = {WIDE_FILTERS, WIDE_FILTERS, 3, 3};
    const int64_t images[] = {batch, WIDE_FILTERS, side, side};
    struct bp_tensor *x, *m = NULL, *y = NULL;
    struct bp_program *program;
    struct bp_graph *graph;

    OK(bp_graph_create(r->f.core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 4, batch ? images : filters, &x));
    OK(bp_op_mul(bp_graph_scope(graph), r->w, r->s, &m));
    if (batch) OK(bp_op_conv(bp_graph_scope(graph), x, m, NULL, NULL, &y));
    else OK(bp_op_add(bp_graph_scope(graph), x, m, &y));
    OK(bp_graph_output(graph, y, "y"));
    OK(bp_program_create(graph, r->f.device, &program));
    bp_tensor_destroy(x), bp_tensor_destroy(m), bp_tensor_destroy(y);
    bp_graph_destroy(graph);
    return program;
}

/* Runs the program and compares its output with the same call on the unfolded product. A sum
 * has 1152 terms below 0.5 in magnitude; the tolerance is below the bound on its rounding, 0.04. */
static void refolded_check(struct refolded *r, struct bp_program *program, int64_t batch,
                           int64_t side)
{
    struct bp_tensor *x = batch ? packs_numbers(&r->f, SHAPE(batch, WIDE_FILTERS, side, side))
                                : packs_numbers(&r->f, SHAPE(WIDE_FILTERS, WIDE_FILTERS, 3, 3));
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *y[2] = {NULL}, *dense;
    float *number[2];

    OK(bp_program_run(program, r->f.stream, &x, 1, &y[0], 1));
    if (batch) OK(bp_op_conv(r->f.scope, x, r->product, NULL, NULL, &y[1]));
    else OK(bp_op_add(r->f.scope, x, r->product, &y[1]));
    OK(bp_tensor_get_info(y[0], &info));
    for (int i = 0; i < 2; i++) {
        number[i] = malloc(info.bytes);
        OK(bp_tensor_create(r->f.device, BP_F32, 4, info.shape, &dense));
        OK(bp_tensor_copy(r->f.stream, dense, y[i]));
        OK(bp_tensor_read(r->f.stream, dense, number[i], info.bytes));
        bp_tensor_destroy(dense), bp_tensor_destroy(y[i]);
    }
    for (int64_t i = 0; i < info.count; i++)
        cr_assert_float_eq(number[0][i], number[1][i], batch ? 1e-2f : 0, "element %d of %d",
                           (int)i, (int)batch);
    free(number[0]), free(number[1]);
    bp_tensor_destroy(x);
}

/* Whether the contents of the folded constant that is input 1 of the program's call of `op` are
 * there: pages that were freed are zero. Numbers of packs_number are not zero side by side. */
static bool refolded_has_contents(struct bp_program *program, const char *op, int middle)
{
    struct bp_operand_info o = {.size = sizeof o};
    struct bp_launch_info launch = {.size = sizeof launch};
    const float *number;

    for (uint32_t n = 0; !bp_program_launch(program, n, &launch); n++) {
        if (!strstr(launch.op, op)) continue;
        OK(bp_program_operand(program, n, 1, &o));
        cr_assert(o.folded);
        number = (const float *)o.type->data + middle;
        for (int i = 0; i < 8; i++)
            if (number[i] != 0) return true;
        return false;
    }
    cr_assert_fail("no call of %s", op);
    return false;
}

static bool refolded_has_filters(struct bp_program *program)
{
    return refolded_has_contents(program, "conv", WIDE_BYTES / (int)sizeof(float) / 2);
}

Test(packs, folded_filters_are_freed_and_computed_again)
{
    struct refolded r = refolded_init();
    struct bp_program *conv = refolded_compile(&r, 1, 16), *add, *larger;

    refolded_check(&r, conv, 1, 16);
    if (!plans_of(&r.f)) cr_skip("no row packs weights here: oneDNN is not installed, or off");
    cr_expect(!refolded_has_filters(conv), "the packed filters are in memory twice");
    larger = refolded_compile(&r, 3, 30); /* another shape: prepared anew */
    refolded_check(&r, larger, 3, 30);
    cr_expect(!refolded_has_filters(conv));
    add = refolded_compile(&r, 0, 0); /* its launches read the contents */
    refolded_check(&r, add, 0, 0);
    cr_expect(refolded_has_filters(conv));
    refolded_check(&r, conv, 1, 16);
    bp_program_destroy(conv);
    conv = refolded_compile(&r, 2, 7); /* does not free contents that `add` reads */
    refolded_check(&r, conv, 2, 7);
    refolded_check(&r, add, 0, 0);
    bp_program_destroy(add);
    bp_program_destroy(larger);
    refolded_check(&r, conv, 2, 7);
    bp_program_destroy(conv);
    refolded_finish(&r);
}

/* y = gru_layer(x, m, r), where m is the product of w and s that the program folds: m has UNITS * 3
 * rows. */
enum { UNITS = 64, GATES = 3 * UNITS, INPUTS = 128, STEPS = 5 };

static struct bp_program *refolded_gru(struct fixture *f, struct bp_tensor *w, struct bp_tensor *s,
                                       struct bp_tensor *r)
{
    struct bp_tensor *x, *m = NULL, *y = NULL, *h = NULL;
    struct bp_program *program;
    struct bp_graph *graph;

    OK(bp_graph_create(f->core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 3, SHAPE(STEPS, 2, INPUTS), &x));
    OK(bp_op_mul(bp_graph_scope(graph), w, s, &m));
    OK(bp_op_gru_layer(bp_graph_scope(graph), x, m, r, NULL, NULL, NULL, NULL, NULL, &y, &h));
    OK(bp_graph_output(graph, y, "y"));
    OK(bp_program_create(graph, f->device, &program));
    bp_tensor_destroy(x), bp_tensor_destroy(m), bp_tensor_destroy(y), bp_tensor_destroy(h);
    bp_graph_destroy(graph);
    return program;
}

static struct bp_tensor *packs_matrix(struct fixture *f, uint32_t rank, const int64_t *shape)
{
    static float number[GATES * INPUTS];

    for (int i = 0; i < GATES * INPUTS; i++) number[i] = packs_number(i) / 8;
    return tensor_of(f, BP_F32, rank, shape, number);
}

Test(packs, folded_weights_of_recurrent_layers_are_freed)
{
    enum { OUTPUTS = STEPS * 2 * UNITS };
    struct fixture f = fixture_init();
    struct bp_tensor *w = packs_matrix(&f, 2, SHAPE(GATES, INPUTS)),
                     *s = packs_matrix(&f, 2, SHAPE(GATES, 1)),
                     *r = packs_matrix(&f, 2, SHAPE(GATES, UNITS)),
                     *x = packs_matrix(&f, 3, SHAPE(STEPS, 2, INPUTS)), *m = NULL, *h = NULL;
    struct bp_tensor *y[2] = {NULL};
    struct bp_program *program;
    static float number[2][OUTPUTS];

    OK(bp_op_mul(f.scope, w, s, &m));
    OK(bp_tensor_freeze(w));
    OK(bp_tensor_freeze(s));
    OK(bp_tensor_freeze(r));
    for (int times = 0; times < 2; times++) {
        program = refolded_gru(&f, w, s, r);
        OK(bp_program_run(program, f.stream, &x, 1, &y[0], 1));
        OK(bp_op_gru_layer(f.scope, x, m, r, NULL, NULL, NULL, NULL, NULL, &y[1], &h));
        for (int i = 0; i < 2; i++) {
            OK(bp_tensor_read(f.stream, y[i], number[i], sizeof number[i]));
            bp_tensor_destroy(y[i]), y[i] = NULL;
        }
        for (int i = 0; i < OUTPUTS; i++)
            cr_assert_float_eq(number[0][i], number[1][i], 1e-5f, "element %d", i);
        cr_expect(!refolded_has_contents(program, "gru_layer", GATES * INPUTS / 2),
                  "the packed weights are in memory twice");
        bp_tensor_destroy(h), h = NULL;
        bp_program_destroy(program);
    }
    bp_tensor_destroy(w), bp_tensor_destroy(s), bp_tensor_destroy(r);
    bp_tensor_destroy(x), bp_tensor_destroy(m);
    fixture_finish(&f);
}

static void refolded_wait(void *ctx, enum bp_status status)
{
    const atomic_bool *goes_on = ctx;

    cr_expect_eq(status, BP_OK);
    while (!atomic_load(goes_on)) thrd_sleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* A task of a queue reads contents after its program was destroyed. */
Test(packs, contents_that_a_queue_will_read_are_not_freed)
{
    struct refolded r = refolded_init();
    struct bp_program *add = refolded_compile(&r, 0, 0), *conv = refolded_compile(&r, 1, 8), *other;
    struct bp_tensor *x = packs_numbers(&r.f, SHAPE(WIDE_FILTERS, WIDE_FILTERS, 3, 3));
    struct bp_tensor *y = NULL, *expected = NULL;
    float *number = malloc(2 * (size_t)WIDE_BYTES);
    struct bp_stream *queue;
    atomic_bool goes_on = false;

    OK(bp_op_add(r.f.scope, x, r.product, &expected));
    OK(bp_stream_create_with(r.f.device, BP_STREAM_ASYNC, &queue));
    OK(bp_program_compile(add));
    OK(bp_program_compile(conv));
    OK(bp_stream_callback(queue, refolded_wait, &goes_on));
    OK(bp_program_run(add, queue, &x, 1, &y, 1));
    bp_program_destroy(add);
    other = refolded_compile(&r, 1, 12);
    OK(bp_program_compile(other));
    atomic_store(&goes_on, true);
    OK(bp_tensor_read(queue, y, number, WIDE_BYTES));
    OK(bp_tensor_read(r.f.stream, expected, number + WIDE_BYTES / 4, WIDE_BYTES));
    cr_expect_arr_eq(number, number + WIDE_BYTES / 4, WIDE_BYTES);
    free(number);
    bp_tensor_destroy(x), bp_tensor_destroy(y), bp_tensor_destroy(expected);
    bp_program_destroy(conv), bp_program_destroy(other);
    bp_stream_destroy(queue);
    refolded_finish(&r);
}
