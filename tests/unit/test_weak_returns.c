/* SPDX-License-Identifier: Apache-2.0 */
/* test_weak_returns.c: tests operators that return indices of 64 bits on a device whose kernels
 * return 32 bits. Each result must be that of the cpu, without another device: BP_FALLBACK=deny. */
#include "weak.h"

#include <math.h>

enum { OUT_MAX = 4 };

/* Calls that return indices. */
static const struct bp_topk_attrs topk3 = {sizeof topk3, .k = 3, .axis = 1};
static const struct bp_argsort_attrs descending = {sizeof descending, .axis = 0, .descending = 1};
static const struct bp_argmax_attrs flatten = {sizeof flatten, .axis = -1, .flatten = 1,
                                               .dtype = BP_I64};
static const struct bp_max_pool_with_index_attrs pool = {
    sizeof pool, .window = {2, 3, 1}, .stride = {2, 1, 1}, .dilation = {1, 1, 1},
    .pad = {1, 0, 0, 0, 2, 0}, .whole = 1, .dtype = BP_I64};
static const struct returns {
    const char *op;
    const void *attrs;
    uint32_t n_out, first; /* first: the first output of indices */
    uint64_t bytes;        /* of the indices, for the shape 2 3 4 5 */
} returns[] = {
    {"topk", &topk3, 2, 1, 8 * 2 * 3 * 4 * 5},
    {"argsort", &descending, 1, 0, 8 * 120},
    {"argmax", NULL, 1, 0, 8 * 24},
    {"argmax", &flatten, 1, 0, 8},
    {"max_pool_with_index", &pool, 2, 1, 8 * 2 * 3 * 2 * 5},
    {"nonzero", NULL, 1, 0, 8 * 120 * 4},
    {"unique", NULL, 4, 1, 8 * 120 * 3},
};
enum { RETURNS = sizeof returns / sizeof *returns };

/* Few values, often the same; with NaN, infinities and zeros. */
static struct both returns_input(struct pair *p, uint32_t rank, const int64_t *shape)
{
    static const float of[] = {3, 0, -1, NAN, 2, 0, 7, -INFINITY, 3, INFINITY, 0, 5, -1};
    struct both b = both_of(p, BP_F32, rank, shape);
    uint64_t n = weak_bytes(b.weak) / 4;
    float *data = malloc(4 * n + 1);

    for (uint64_t i = 0; i < n; i++) data[i] = of[(i * i + i / 7) % 13];
    OK(bp_tensor_write(p->weak.stream, b.weak, data, 4 * n));
    OK(bp_tensor_write(p->cpu.stream, b.cpu, data, 4 * n));
    free(data);
    return b;
}

/* Runs a call with one input on both devices. want, given: NULL, or one for each output. */
static void returns_run(struct pair *p, const struct returns *r, struct both x,
                        const uint8_t *want, struct both *y)
{
    struct bp_tensor *weak[OUT_MAX] = {NULL}, *cpu[OUT_MAX] = {NULL};
    struct bp_arg in = {&x.weak, 1};
    struct bp_call call = {.size = sizeof call, .op = r->op, .in = &in, .n_in = 1,
                           .attrs = r->attrs};

    for (uint32_t i = 0; i < r->n_out; i++) weak[i] = y[i].weak, cpu[i] = y[i].cpu;
    OK(bp_call_run(p->weak.scope, &call, weak, r->n_out, want));
    in.at = &x.cpu;
    OK(bp_call_run(p->cpu.scope, &call, cpu, r->n_out, want));
    for (uint32_t i = 0; i < r->n_out; i++) y[i] = (struct both){weak[i], cpu[i]};
}

static void returns_expect(struct pair *p, const struct returns *r, struct both *y)
{
    for (uint32_t i = 0; i < r->n_out; i++)
        if (y[i].cpu) expect_same(p, y[i], r->op);
        else cr_assert_null(y[i].weak);
}

/* Each output of indices is converted once: by the kernel of cast if there is one, else on the
 * host, which waits. */
Test(weak_returns, converts_each_output)
{
    for (int i = 0; i < PLACE_COUNT * RETURNS; i++) {
        const struct returns *r = &returns[i % RETURNS];
        struct pair p = pair_init(i / RETURNS);
        struct both x = returns_input(&p, 4, SHAPE(2, 3, 4, 5)), y[OUT_MAX] = {{NULL}};
        struct bp_fallback_info info = {.size = sizeof info};
        bool waits = places[i / RETURNS].flags != BP_STREAM_INLINE;

        returns_run(&p, r, x, NULL, y);
        returns_expect(&p, r, y);
        cr_assert_eq(weak_fallbacks(p.weak.device, r->op, BP_FALLBACK_INDEX, &info),
                     r->n_out - r->first, "%s, %s", p.name, r->op);
        cr_assert_eq(info.bytes, r->bytes, "%s, %s: %llu bytes", p.name, r->op,
                     (unsigned long long)info.bytes);
        cr_assert_eq(bp_device_blocked(p.weak.device, BP_BLOCK_COPY),
                     waits ? r->n_out - r->first : 0, "%s, %s", p.name, r->op);
        both_destroy(x);
        weak_close(&p);
    }
}

/* The input is strided, so it is copied first. */
Test(weak_returns, takes_strided_inputs)
{
    for (int i = 0; i < PLACE_COUNT * RETURNS; i++) {
        const struct returns *r = &returns[i % RETURNS];
        struct pair p = pair_init(i / RETURNS);
        struct both x = returns_input(&p, 4, SHAPE(5, 4, 3, 2)), xt, y[OUT_MAX] = {{NULL}};

        OK(bp_tensor_transpose(x.weak, NULL, &xt.weak));
        OK(bp_tensor_transpose(x.cpu, NULL, &xt.cpu));
        returns_run(&p, r, xt, NULL, y);
        returns_expect(&p, r, y);
        both_destroy(xt);
        both_destroy(x);
        weak_close(&p);
    }
}

/* The given outputs are every second element of larger tensors, whose other elements stay. */
Test(weak_returns, writes_given_strided_outputs)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = returns_input(&p, 2, SHAPE(4, 9));
        struct both base[2] = {both_of(&p, BP_F32, 2, SHAPE(4, 6)),
                               both_of(&p, BP_I64, 2, SHAPE(4, 6))}, y[2];

        for (int i = 0; i < 2; i++) {
            OK(bp_tensor_slice(base[i].weak, 1, 0, INT64_MAX, 2, &y[i].weak));
            OK(bp_tensor_slice(base[i].cpu, 1, 0, INT64_MAX, 2, &y[i].cpu));
        }
        returns_run(&p, &returns[0], x, NULL, y);
        returns_expect(&p, &returns[0], y);
        for (int i = 0; i < 2; i++) expect_same(&p, base[i], "topk, between");
        cr_assert_eq(weak_fallbacks(p.weak.device, "topk", BP_FALLBACK_INDEX, NULL), 1);
        both_destroy(x);
        weak_close(&p);
    }
}

/* Only wanted outputs are converted; a call without any of them is not converted at all. */
Test(weak_returns, leaves_out_unwanted_outputs)
{
    static const uint8_t wants[][OUT_MAX] = {{1, 0, 0, 0}, {1, 0, 1, 0}, {1, 1, 0, 1}};

    for (int i = 0; i < PLACE_COUNT * 3; i++) {
        struct pair p = pair_init(i / 3);
        struct both x = returns_input(&p, 1, SHAPE(40)), y[OUT_MAX] = {{NULL}};

        returns_run(&p, &returns[RETURNS - 1], x, wants[i % 3], y);
        returns_expect(&p, &returns[RETURNS - 1], y);
        cr_assert_eq(weak_fallbacks(p.weak.device, "unique", BP_FALLBACK_INDEX, NULL),
                     (uint64_t)(i % 3), "%s", p.name);
        both_destroy(x);
        weak_close(&p);
    }
}

/* Nothing is found, or there are no elements. */
Test(weak_returns, returns_nothing)
{
    static const struct returns nonzero = {"nonzero", NULL, 1, 0, 0}, unique = {"unique", NULL, 4};

    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = {tensor_of(&p.weak, BP_F32, 2, SHAPE(2, 2), F32(0, -0.f, 0, 0)),
                         tensor_of(&p.cpu, BP_F32, 2, SHAPE(2, 2), F32(0, -0.f, 0, 0))};
        struct both empty = both_of(&p, BP_F32, 2, SHAPE(3, 0)), y[OUT_MAX] = {{NULL}};

        returns_run(&p, &nonzero, x, NULL, y);
        returns_expect(&p, &nonzero, y);
        for (int i = 0; i < OUT_MAX; i++) y[i] = (struct both){NULL, NULL};
        returns_run(&p, &nonzero, empty, NULL, y);
        returns_expect(&p, &nonzero, y);
        for (int i = 0; i < OUT_MAX; i++) y[i] = (struct both){NULL, NULL};
        returns_run(&p, &unique, empty, NULL, y);
        returns_expect(&p, &unique, y);
        both_destroy(empty);
        both_destroy(x);
        weak_close(&p);
    }
}

/* An index could be past 32 bits: the device has no path, though each extent fits. */
Test(weak_returns, converts_no_index_that_could_overflow)
{
    for (int i = 0; i < 2; i++) { /* 2^31 elements, and one less in each row */
        struct pair p = pair_init(INLINE);
        struct bp_tensor *x, *base = tensor_of(&p.weak, BP_F32, 1, SHAPE(2), F32(1, 2));
        struct bp_arg in = {&x, 1};
        struct bp_call call = {.size = sizeof call, .op = "argmax", .in = &in, .n_in = 1,
                               .attrs = &flatten};
        struct bp_prepared *prepared = NULL;

        OK(bp_tensor_view(base, 0, 2, SHAPE(1 << 16, (1 << 15) - i), SHAPE(0, 0), &x));
        if (i) OK(bp_prepared_create(p.weak.device, &call, NULL, 0, &prepared));
        else FAILS(BP_ERR_NO_KERNEL, "argmax", bp_prepared_create(p.weak.device, &call, NULL, 0,
                                                                  &prepared));
        if (prepared) bp_prepared_destroy(prepared);
        bp_tensor_destroy(x);
        bp_tensor_destroy(base);
        weak_close(&p);
    }
}

/* A call that names its kernel converts the indices only if the operator has no i32. */
Test(weak_returns, runs_named_kernels)
{
    struct pair p = pair_init(INLINE);
    struct both x = returns_input(&p, 2, SHAPE(4, 9)), y[2] = {{NULL}};
    struct bp_argmax_attrs narrow = bp_argmax_defaults();
    struct bp_tensor *t, *weak[2] = {NULL};
    struct bp_arg in = {&x.weak, 1};
    struct bp_call call = {.size = sizeof call, .op = "topk", .in = &in, .n_in = 1,
                           .attrs = &topk3, .kernel = "weak_topk"};

    OK(bp_call_run(p.weak.scope, &call, weak, 2, NULL));
    returns_run(&p, &returns[0], x, NULL, y);
    for (int i = 0; i < 2; i++) {
        bp_tensor_destroy(y[i].weak);
        y[i].weak = weak[i];
    }
    returns_expect(&p, &returns[0], y);
    OK(bp_tensor_transpose(x.weak, NULL, &t));
    in.at = &t;
    weak[0] = weak[1] = NULL;
    FAILS(BP_ERR_NO_KERNEL, "contiguous", bp_call_run(p.weak.scope, &call, weak, 2, NULL));
    in.at = &x.weak;
    call = (struct bp_call){.size = sizeof call, .op = "argmax", .in = &in, .n_in = 1,
                            .kernel = "weak_argmax"};
    FAILS(BP_ERR_NO_KERNEL, "dtypes", bp_call_run(p.weak.scope, &call, weak, 1, NULL));
    narrow.dtype = BP_I32;
    call.attrs = &narrow;
    OK(bp_call_run(p.weak.scope, &call, weak, 1, NULL));
    bp_tensor_destroy(weak[0]);
    bp_tensor_destroy(t);
    both_destroy(x);
    weak_close(&p);
}

/* A prepared call has the steps once, and the attribute that names the dtype of its kernel. */
Test(weak_returns, prepares_its_steps)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x[2] = {returns_input(&p, 2, SHAPE(4, 9)), both_of(&p, BP_F32, 2, SHAPE(4, 9))};
        struct bp_tensor *y = tensor_of(&p.weak, BP_I64, 1, SHAPE(4), NULL);
        struct bp_arg in = {&x[0].weak, 1};
        struct bp_call call = {.size = sizeof call, .op = "argmax", .in = &in, .n_in = 1};
        struct bp_prepared *prepared;

        OK(bp_prepared_create(p.weak.device, &call, NULL, 0, &prepared));
        cr_assert_eq(bp_prepared_steps(prepared), 2);
        cr_assert_str_eq(bp_prepared_step(prepared, 0), "weak_argmax");
        cr_assert_str_eq(bp_prepared_step(prepared, 1),
                         place == CASTS ? "weak_cast_casts" : "(indices)");
        for (int i = 0; i < 2; i++) {
            struct both out = {NULL};
            OK(bp_prepared_run(prepared, p.weak.stream, &x[i].weak, 1, &y, 1, NULL));
            OK(bp_op_argmax(p.cpu.scope, x[i].cpu, NULL, &out.cpu));
            OK(bp_op_assign(p.weak.scope, y, &out.weak));
            expect_same(&p, out, "argmax");
        }
        bp_prepared_destroy(prepared);
        bp_tensor_destroy(y);
        for (int i = 0; i < 2; i++) both_destroy(x[i]);
        weak_close(&p);
    }
}

/* The rows of x in the order of a column: its indices are returned, and then taken. */
static struct bp_graph *sorted_rows(struct bp_core *core)
{
    struct bp_tensor *x = NULL, *key = NULL, *order = NULL, *y = NULL;
    struct bp_graph *graph;

    OK(bp_graph_create(core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(6, 3), &x));
    OK(bp_graph_input(graph, "key", BP_F32, 1, SHAPE(6), &key));
    OK(bp_op_argsort(bp_graph_scope(graph), key, NULL, &order));
    OK(bp_op_gather(bp_graph_scope(graph), x, order, NULL, &y));
    OK(bp_graph_output(graph, y, "y"));
    bp_tensor_destroy(x);
    bp_tensor_destroy(key);
    bp_tensor_destroy(order);
    bp_tensor_destroy(y);
    return graph;
}

/* A conversion on the host is not recorded: the program runs node by node. */
Test(weak_returns, runs_graphs_and_programs)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct bp_graph *graph = sorted_rows(p.weak.core);
        struct bp_program_info info = {.size = sizeof info};
        struct bp_program *program;

        OK(bp_program_create(graph, p.weak.device, &program));
        for (int run = 0; run < 4; run++) {
            struct both x = both_of(&p, BP_F32, 2, SHAPE(6, 3)), key = {NULL}, y = {NULL};
            float keys[6] = {3, -1, (float)run, 7, 2, 5};
            key = (struct both){tensor_of(&p.weak, BP_F32, 1, SHAPE(6), keys),
                                tensor_of(&p.cpu, BP_F32, 1, SHAPE(6), keys)};
            OK(bp_program_run(program, p.weak.stream,
                              ((struct bp_tensor *[]){x.weak, key.weak}), 2, &y.weak, 1));
            OK(bp_graph_run(graph, p.cpu.stream, ((struct bp_tensor *[]){x.cpu, key.cpu}), 2,
                            &y.cpu, 1));
            expect_same(&p, y, "program");
            both_destroy(x);
            both_destroy(key);
        }
        OK(bp_program_get_info(program, &info));
        cr_assert_eq(info.replays, 0, "%s", p.name);
        if (place == CAPTURES)
            cr_assert(strstr(info.reason, "converts indices"), "%s", info.reason);
        cr_assert_eq(weak_fallbacks(p.weak.device, "argsort", BP_FALLBACK_INDEX, NULL), 4);
        bp_program_destroy(program);
        bp_graph_destroy(graph);
        weak_close(&p);
    }
}
