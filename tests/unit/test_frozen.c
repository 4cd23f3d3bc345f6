/* SPDX-License-Identifier: Apache-2.0 */
/* test_frozen.c: tests frozen weights in operators that run as their decomposition: the results
 * equal those with weights that are not frozen, and plans keep one packed copy of each weight. */
#include "fixture.h"
#include <math.h>
#include <stdlib.h>

enum { STEPS = 3, BATCH = 16, IN = 40, UNITS = 64, PORTS = 9 };

/* An input: its axes, outermost first, and whether it is a weight. The letter b means the batch. */
struct weight {
    const char *axes;
    bool frozen;
};

/* products: the bytes of f32 weights that a product reads unchanged, so that plans can keep packed
 * copies of them. */
struct composed {
    const char *op;
    struct weight in[PORTS];
    size_t n_out, products;
    const void *attrs;
};

/* Here the products read three parts of one weight. */
static const struct bp_gru_cell_attrs reset_before = {.size = sizeof reset_before};

enum { CELL = 64 * 40 + 64 * 64 };
static const struct composed composed[] = {
    {"linear", {{"bi"}, {"hi", true}, {"h", true}}, 1, 64 * 40},
    {"addmm", {{"bh"}, {"bi"}, {"ih", true}}, 1, 40 * 64},
    {"lstm_cell", {{"bi"}, {"bh"}, {"bh"}, {"4i", true}, {"4h", true}}, 2, 4 * CELL},
    {"gru_cell", {{"bi"}, {"bh"}, {"3i", true}, {"3h", true}}, 1, 3 * CELL},
    {"gru_cell", {{"bi"}, {"bh"}, {"3i", true}, {"3h", true}}, 1, 3 * CELL, &reset_before},
    {"rnn_cell", {{"bi"}, {"bh"}, {"hi", true}, {"hh", true}}, 1, CELL},
    {"lstm_layer", {{"tbi"}, {"4i", true}, {"4h", true}}, 3, 4 * CELL},
    {"gru_layer", {{"tbi"}, {"3i", true}, {"3h", true}}, 2, 3 * CELL},
    {"rnn_layer", {{"tbi"}, {"hi", true}, {"hh", true}}, 2, CELL},
};
enum { COMPOSED = sizeof composed / sizeof *composed };

static int64_t frozen_extent(char axis, int64_t batch)
{
    switch (axis) {
    case 'b': return batch;
    case 't': return STEPS;
    case 'i': return IN;
    case 'h': return UNITS;
    default: return (axis - '0') * UNITS;
    }
}

static struct bp_tensor *frozen_numbers(struct fixture *f, uint32_t dtype, const char *axes,
                                        int64_t batch, int seed)
{
    uint32_t rank = (uint32_t)strlen(axes);
    struct bp_cast_attrs to = bp_cast_defaults();
    struct bp_tensor *t, *result = NULL;
    int64_t shape[3], count = 1;
    float *data;

    for (uint32_t i = 0; i < rank; i++) count *= shape[i] = frozen_extent(axes[i], batch);
    data = malloc((size_t)count * sizeof *data);
    for (int64_t i = 0; i < count; i++)
        data[i] = (float)(((i + seed) * 37 + i / 101) % 101 - 50) / 256;
    t = tensor_of(f, BP_F32, rank, shape, data);
    free(data);
    to.to = dtype;
    OK(bp_op_cast(f->scope, t, &to, &result));
    bp_tensor_destroy(t);
    return result;
}

/* A call of one of the operators, with its tensors. */
struct made {
    const struct composed *of;
    struct bp_tensor *in[PORTS];
    struct bp_arg arg[PORTS];
    struct bp_call call;
};

static void frozen_make(struct made *m, struct fixture *f, const struct composed *of,
                        uint32_t dtype, int64_t batch, const struct made *weights_of)
{
    *m = (struct made){.of = of, .call = {.size = sizeof m->call, .op = of->op, .in = m->arg,
                                        .attrs = of->attrs}};
    for (int i = 0; i < PORTS && of->in[i].axes; i++, m->call.n_in++) {
        if (weights_of && of->in[i].frozen) m->in[i] = weights_of->in[i];
        else m->in[i] = frozen_numbers(f, dtype, of->in[i].axes, batch, i);
        m->arg[i] = (struct bp_arg){&m->in[i], 1};
    }
}

static void frozen_freeze(struct made *m)
{
    for (size_t i = 0; i < m->call.n_in; i++)
        if (m->of->in[i].frozen) OK(bp_tensor_freeze(m->in[i]));
}

/* weights_of: the call that still uses the weights, or NULL. */
static void frozen_end(struct made *m, const struct made *weights_of)
{
    for (size_t i = 0; i < m->call.n_in; i++)
        if (!weights_of || !m->of->in[i].frozen) bp_tensor_destroy(m->in[i]);
}

static float *frozen_read_all(struct fixture *f, struct bp_tensor *t, uint64_t *out_count)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_cast_attrs to = bp_cast_defaults();
    struct bp_tensor *wide = NULL;
    float *data;

    to.to = BP_F32;
    OK(bp_op_cast(f->scope, t, &to, &wide));
    OK(bp_tensor_get_info(wide, &info));
    data = malloc(info.bytes);
    OK(bp_tensor_read(f->stream, wide, data, info.bytes));
    bp_tensor_destroy(wide);
    *out_count = info.bytes / sizeof *data;
    return data;
}

/* The results are equal up to the rounding of products that add in another order: values are below
 * 2, so two units of a half type. Destroys got. */
static void frozen_compare(struct fixture *f, const char *op, const char *way, uint32_t dtype,
                           size_t n_out, struct bp_tensor **got, struct bp_tensor *const *expected)
{
    float most = dtype == BP_F32 ? 1e-5f : dtype == BP_F16 ? 0x1p-9f : 0x1p-6f;

    for (size_t o = 0; o < n_out; o++) {
        uint64_t n, same;
        float *a = frozen_read_all(f, got[o], &n), *b = frozen_read_all(f, expected[o], &same);
        cr_assert_eq(n, same);
        for (uint64_t i = 0; i < n; i++)
            cr_assert(fabsf(a[i] - b[i]) <= most, "%s %s %s: output %zu [%llu] is %g, expected %g",
                      op, bp_dtype_name(dtype), way, o, (unsigned long long)i, (double)a[i],
                      (double)b[i]);
        free(a);
        free(b);
        bp_tensor_destroy(got[o]);
        got[o] = NULL;
    }
}

static void frozen_run_prepared(struct fixture *f, struct made *m, struct bp_tensor **out)
{
    struct bp_prepared *p;

    OK(bp_prepared_create(f->device, &m->call, NULL, 0, &p));
    for (uint32_t o = 0; o < m->of->n_out; o++) {
        struct bp_tensor_info info = {.size = sizeof info};
        OK(bp_prepared_output(p, o, &info));
        OK(bp_tensor_create(f->device, info.dtype, info.rank, info.shape, &out[o]));
    }
    for (int run = 0; run < 2; run++)
        OK(bp_prepared_run(p, f->stream, m->in, bp_opinfo_find(m->of->op)->n_in, out, m->of->n_out,
                           NULL));
    bp_prepared_destroy(p);
}

/* The weights are constants of the graph, and the other inputs are its inputs. */
static void frozen_run_program(struct fixture *f, struct made *m, struct bp_tensor **out)
{
    struct bp_tensor *value[PORTS], *made[3] = {NULL}, *given[PORTS];
    struct bp_arg arg[PORTS];
    struct bp_call call = m->call;
    struct bp_program *program;
    struct bp_graph *graph;
    size_t n_given = 0;

    OK(bp_graph_create(f->core, &graph));
    for (size_t i = 0; i < call.n_in; i++) {
        struct bp_tensor_info info = {.size = sizeof info};
        OK(bp_tensor_get_info(m->in[i], &info));
        value[i] = m->in[i];
        arg[i] = (struct bp_arg){&value[i], 1};
        if (m->of->in[i].frozen) continue;
        given[n_given++] = m->in[i];
        OK(bp_graph_input(graph, NULL, info.dtype, info.rank, info.shape, &value[i]));
    }
    call.in = arg;
    OK(bp_call_run(bp_graph_scope(graph), &call, made, m->of->n_out, NULL));
    for (size_t o = 0; o < m->of->n_out; o++) {
        OK(bp_graph_output(graph, made[o], NULL));
        bp_tensor_destroy(made[o]);
    }
    for (size_t i = 0; i < call.n_in; i++)
        if (value[i] != m->in[i]) bp_tensor_destroy(value[i]);
    OK(bp_program_create(graph, f->device, &program));
    for (int run = 0; run < 3; run++) {
        for (size_t o = 0; o < m->of->n_out; o++) bp_tensor_destroy(out[o]), out[o] = NULL;
        OK(bp_program_run(program, f->stream, given, n_given, out, m->of->n_out));
    }
    bp_program_destroy(program);
    bp_graph_destroy(graph);
}

static void try_all_ways(struct fixture *f, const struct composed *of, uint32_t dtype)
{
    struct bp_tensor *expected[3] = {NULL}, *got[3] = {NULL};
    struct made m;

    frozen_make(&m, f, of, dtype, BATCH, NULL);
    OK(bp_call_run(f->scope, &m.call, expected, of->n_out, NULL));
    frozen_freeze(&m);
    for (int run = 0; run < 2; run++) {
        OK(bp_call_run(f->scope, &m.call, got, of->n_out, NULL));
        frozen_compare(f, of->op, "eager", dtype, of->n_out, got, expected);
    }
    frozen_run_prepared(f, &m, got);
    frozen_compare(f, of->op, "prepared", dtype, of->n_out, got, expected);
    frozen_run_program(f, &m, got);
    frozen_compare(f, of->op, "in a program", dtype, of->n_out, got, expected);
    for (size_t o = 0; o < of->n_out; o++) bp_tensor_destroy(expected[o]);
    frozen_end(&m, NULL);
}

Test(frozen, results_are_those_of_weights_that_are_not)
{
    static const uint32_t dtype[] = {BP_F32, BP_F16, BP_BF16};
    struct fixture f = fixture_init();

    for (int d = 0; d < 3; d++)
        for (int i = 0; i < COMPOSED; i++) try_all_ways(&f, &composed[i], dtype[d]);
    fixture_finish(&f);
}

static uint64_t plans_of(struct fixture *f)
{
    struct bp_memory_stats stats = {.size = sizeof stats};

    OK(bp_device_memory(f->device, &stats));
    return stats.plans;
}

static void run_once(struct fixture *f, struct made *m)
{
    struct bp_tensor *out[3] = {NULL};

    OK(bp_call_run(f->scope, &m->call, out, m->of->n_out, NULL));
    for (size_t o = 0; o < m->of->n_out; o++) bp_tensor_destroy(out[o]);
}

/* Checks the bytes that plans of two batch sizes, a prepared call and many steps keep of a
 * weight. */
static void expect_one_pack(struct fixture *f, const struct composed *of)
{
    uint64_t bytes = of->products * sizeof(float), once;
    struct bp_prepared *p;
    struct made m, larger;

    frozen_make(&m, f, of, BP_F32, BATCH, NULL);
    frozen_freeze(&m);
    run_once(f, &m);
    once = plans_of(f);
    cr_expect(once >= bytes && once < bytes + bytes / 2,
              "%s: plans keep %llu bytes, the weights have %llu", of->op, (unsigned long long)once,
              (unsigned long long)bytes);
    for (int run = 0; run < 3; run++) run_once(f, &m);
    OK(bp_prepared_create(f->device, &m.call, NULL, 0, &p));
    frozen_make(&larger, f, of, BP_F32, 2 * BATCH, &m);
    run_once(f, &larger);
    cr_expect_eq(plans_of(f), once, "%s: plans of the same weights keep %llu bytes, first %llu",
                 of->op, (unsigned long long)plans_of(f), (unsigned long long)once);
    frozen_end(&larger, &m);
    frozen_end(&m, NULL);
    bp_prepared_destroy(p);
    cr_expect_eq(plans_of(f), 0, "%s: %llu bytes are kept without weights", of->op,
                 (unsigned long long)plans_of(f));
}

Test(frozen, plans_keep_each_weight_once)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = frozen_numbers(&f, BP_F32, "bi", 16, 0),
                     *w = frozen_numbers(&f, BP_F32, "ih", 16, 1), *y = NULL;
    bool packs;

    OK(bp_tensor_freeze(w));
    OK(bp_op_matmul(f.scope, x, w, NULL, &y));
    packs = plans_of(&f) > 0;
    bp_tensor_destroy(x), bp_tensor_destroy(w), bp_tensor_destroy(y);
    if (!packs) cr_skip("no row packs weights here: oneDNN is not installed, or off");
    for (int i = 0; i < COMPOSED; i++) expect_one_pack(&f, &composed[i]);
    fixture_finish(&f);
}

/* A prepared call whose weights are destroyed accepts no other weights; new weights in the same
 * memory are packed again. */
Test(frozen, a_prepared_call_is_for_its_own_weights)
{
    const struct composed *of = &composed[0];
    struct fixture f = fixture_init();
    struct bp_tensor *out[1] = {NULL}, *expected[1] = {NULL};
    struct bp_prepared *p;
    struct made m, other;

    frozen_make(&m, &f, of, BP_F32, BATCH, NULL);
    frozen_freeze(&m);
    OK(bp_prepared_create(f.device, &m.call, NULL, 0, &p));
    frozen_end(&m, NULL);

    frozen_make(&other, &f, of, BP_F32, BATCH, NULL);
    OK(bp_call_run(f.scope, &other.call, expected, 1, NULL));
    frozen_freeze(&other);
    OK(bp_tensor_create(f.device, BP_F32, 2, SHAPE(BATCH, UNITS), &out[0]));
    if (plans_of(&f))
        FAILS(BP_ERR_INVALID, "another constant",
              bp_prepared_run(p, f.stream, other.in, 3, out, 1, NULL));
    bp_tensor_destroy(out[0]);
    out[0] = NULL;
    OK(bp_call_run(f.scope, &other.call, out, 1, NULL));
    frozen_compare(&f, of->op, "with new weights", BP_F32, 1, out, expected);
    bp_tensor_destroy(expected[0]);
    bp_prepared_destroy(p);
    frozen_end(&other, NULL);
    fixture_finish(&f);
}
