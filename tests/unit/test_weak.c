/* SPDX-License-Identifier: Apache-2.0 */
/* test_weak.c: tests a device whose kernels take dense tensors of one shape only and 32-bit
 * indices, and that has no kernel for assign. Each result must be that of the cpu, without another
 * device: BP_FALLBACK=deny. */
#include "weak.h"

/* Views of a tensor of shape 4 6 5 2. X(NAME, a call on `base` that makes *out). */
#define LAYOUTS(X) \
    X(dense, bp_tensor_slice(base, 0, 0, INT64_MAX, 1, out)) \
    X(reversed, bp_tensor_transpose(base, NULL, out)) \
    X(channels_last, bp_tensor_transpose(base, SHAPE(0, 3, 1, 2), out)) \
    X(swapped, bp_tensor_transpose(base, SHAPE(0, 1, 3, 2), out)) \
    X(gaps, bp_tensor_slice(base, 2, 1, INT64_MAX, 2, out)) \
    X(inner_gaps, bp_tensor_slice(base, 3, 1, 2, 1, out)) \
    X(rows, bp_tensor_slice(base, 1, 2, 5, 1, out)) \
    X(repeated, bp_tensor_view(base, 3, 3, SHAPE(7, 3, 4), SHAPE(0, 1, 0), out)) \
    X(scalar, bp_tensor_view(base, 5, 0, NULL, NULL, out)) \
    X(repeated_scalar, bp_tensor_view(base, 5, 2, SHAPE(9, 5), SHAPE(0, 0), out)) \
    X(overlapping, bp_tensor_view(base, 0, 2, SHAPE(6, 4), SHAPE(2, 1), out)) \
    X(empty, bp_tensor_slice(base, 1, 3, 3, 1, out))

#define X(NAME, call) \
    static void layout_##NAME(struct bp_tensor *base, struct bp_tensor **out) \
    { \
        OK(call); \
    }
LAYOUTS(X)
#undef X
static const struct layout {
    const char *name;
    void (*make)(struct bp_tensor *base, struct bp_tensor **out);
} layouts[] = {
#define X(NAME, call) {#NAME, layout_##NAME},
    LAYOUTS(X)
#undef X
};
enum { LAYOUT_COUNT = sizeof layouts / sizeof *layouts };

static struct both view_of(struct pair *p, uint32_t dtype, const struct layout *layout)
{
    struct both base = both_of(p, dtype, 4, SHAPE(4, 6, 5, 2)), view;

    layout->make(base.weak, &view.weak);
    layout->make(base.cpu, &view.cpu);
    both_destroy(base);
    return view;
}

Test(weak, copies_any_layout)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F16, BP_I64, BP_BOOL};

    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        for (size_t i = 0; i < 4 * LAYOUT_COUNT; i++) {
            struct both x = view_of(&p, dtypes[i / LAYOUT_COUNT], &layouts[i % LAYOUT_COUNT]),
                        y = {NULL};
            OK(bp_op_assign(p.weak.scope, x.weak, &y.weak));
            OK(bp_op_assign(p.cpu.scope, x.cpu, &y.cpu));
            expect_same(&p, y, layouts[i % LAYOUT_COUNT].name);
            both_destroy(x);
        }
        weak_close(&p);
    }
}

Test(weak, runs_a_dense_kernel_on_any_layout)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        for (size_t i = 0; i < LAYOUT_COUNT; i++) {
            struct both x = view_of(&p, BP_F32, &layouts[i]), y = {NULL};
            OK(bp_op_relu(p.weak.scope, x.weak, &y.weak));
            OK(bp_op_relu(p.cpu.scope, x.cpu, &y.cpu));
            expect_same(&p, y, layouts[i].name);
            both_destroy(x);
        }
        weak_close(&p);
    }
}

/* The bytes between the elements of the output stay. */
Test(weak, writes_strided_outputs)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        for (size_t i = 0; i < LAYOUT_COUNT; i++) {
            struct both base = both_of(&p, BP_F32, 4, SHAPE(4, 6, 5, 2)), y;
            struct both x = view_of(&p, BP_F32, &layouts[i]);
            struct bp_arg weak = {&x.weak, 1}, cpu = {&x.cpu, 1};
            struct bp_call call = {.size = sizeof call, .op = "relu", .in = &weak, .n_in = 1};
            layouts[i].make(base.weak, &y.weak);
            layouts[i].make(base.cpu, &y.cpu);
            if (strstr("repeated repeated_scalar overlapping", layouts[i].name)) {
                both_destroy(y);
                y = (struct both){NULL, NULL};
            }
            OK(bp_call_run(p.weak.scope, &call, &y.weak, 1, NULL));
            call.in = &cpu;
            OK(bp_call_run(p.cpu.scope, &call, &y.cpu, 1, NULL));
            expect_same(&p, y, layouts[i].name);
            expect_same(&p, base, layouts[i].name);
            both_destroy(x);
        }
        weak_close(&p);
    }
}

/* Shapes that broadcast: a condition and two values. */
static const struct {
    int rank[3];
    int64_t shape[3][4];
} broadcasts[] = {
    {{2, 2, 2}, {{3, 5}, {3, 5}, {3, 5}}},  {{0, 2, 2}, {{0}, {3, 5}, {3, 5}}},
    {{2, 1, 2}, {{3, 5}, {5}, {3, 1}}},     {{1, 4, 3}, {{1}, {2, 3, 1, 5}, {1, 4, 1}}},
    {{4, 0, 3}, {{2, 3, 4, 5}, {0}, {3, 1, 1}}}, {{2, 1, 0}, {{0, 5}, {1}, {0}}},
    {{1, 1, 2}, {{5}, {5}, {2, 1}}},
};

Test(weak, broadcasts_inputs_for_kernels_that_do_not)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F16, BP_I64, BP_BOOL};

    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        for (size_t i = 0; i < 4 * sizeof broadcasts / sizeof *broadcasts; i++) {
            struct both in[3], z = {NULL};
            for (int k = 0; k < 3; k++)
                in[k] = both_of(&p, k ? dtypes[i % 4] : (uint32_t)BP_BOOL,
                                (uint32_t)broadcasts[i / 4].rank[k], broadcasts[i / 4].shape[k]);
            OK(bp_op_where(p.weak.scope, in[0].weak, in[1].weak, in[2].weak, &z.weak));
            OK(bp_op_where(p.cpu.scope, in[0].cpu, in[1].cpu, in[2].cpu, &z.cpu));
            expect_same(&p, z, "where");
            for (int k = 0; k < 3; k++) both_destroy(in[k]);
        }
        weak_close(&p);
    }
}

/* Both inputs are broadcast, and one of them is a transposed view; the output is strided. */
Test(weak, broadcasts_strided_inputs)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = both_of(&p, BP_F32, 3, SHAPE(1, 4, 6));
        struct both y = both_of(&p, BP_F32, 2, SHAPE(3, 1));
        struct both t, z = both_of(&p, BP_F32, 3, SHAPE(4, 3, 6)), out;
        struct bp_arg weak[2] = {{&t.weak, 1}, {&y.weak, 1}}, cpu[2] = {{&t.cpu, 1}, {&y.cpu, 1}};
        struct bp_call call = {.size = sizeof call, .op = "add", .in = weak, .n_in = 2};

        OK(bp_tensor_transpose(x.weak, SHAPE(2, 0, 1), &t.weak));
        OK(bp_tensor_transpose(x.cpu, SHAPE(2, 0, 1), &t.cpu));
        OK(bp_tensor_transpose(z.weak, SHAPE(2, 1, 0), &out.weak));
        OK(bp_tensor_transpose(z.cpu, SHAPE(2, 1, 0), &out.cpu));
        OK(bp_call_run(p.weak.scope, &call, &out.weak, 1, NULL));
        call.in = cpu;
        OK(bp_call_run(p.cpu.scope, &call, &out.cpu, 1, NULL));
        expect_same(&p, out, "add");
        expect_same(&p, z, "add");
        both_destroy(t);
        both_destroy(x);
        both_destroy(y);
        weak_close(&p);
    }
}

/* In place, the first input is written over by way of memory of its own. */
Test(weak, works_in_place)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = both_of(&p, BP_F32, 2, SHAPE(4, 6)), y = both_of(&p, BP_F32, 1, SHAPE(6));
        struct bp_arg weak[2] = {{&x.weak, 1}, {&y.weak, 1}}, cpu[2] = {{&x.cpu, 1}, {&y.cpu, 1}};
        struct bp_call call = {.size = sizeof call, .op = "add", .in = weak, .n_in = 2};
        struct both out = x;

        OK(bp_call_run(p.weak.scope, &call, &out.weak, 1, NULL));
        call.in = cpu;
        OK(bp_call_run(p.cpu.scope, &call, &out.cpu, 1, NULL));
        call = (struct bp_call){.size = sizeof call, .op = "assign", .in = weak, .n_in = 1};
        OK(bp_call_run(p.weak.scope, &call, &out.weak, 1, NULL));
        expect_same(&p, x, "add");
        both_destroy(y);
        weak_close(&p);
    }
}

/* 420,000 runs of one element go through host memory, except where the host may not wait. */
Test(weak, copies_many_short_runs)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = both_of(&p, BP_F32, 2, SHAPE(600, 700)), t, y = {NULL};
        uint64_t before = p.fake->copies;

        OK(bp_tensor_transpose(x.weak, NULL, &t.weak));
        OK(bp_tensor_transpose(x.cpu, NULL, &t.cpu));
        OK(bp_op_relu(p.weak.scope, t.weak, &y.weak));
        OK(bp_op_relu(p.cpu.scope, t.cpu, &y.cpu));
        expect_same(&p, y, "relu");
        if (!(places[place].flags & BP_STREAM_ASYNC)) cr_assert_eq(p.fake->copies, before);
        cr_assert_eq(bp_device_blocked(p.weak.device, BP_BLOCK_COPY),
                     places[place].flags == 0, "%s", p.name);
        both_destroy(t);
        both_destroy(x);
        weak_close(&p);
    }
}

/* A scalar becomes 2^20 + 3 elements by one copy, and 21 copies that double them. */
Test(weak, repeats_by_doubling)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = both_of(&p, BP_F32, 0, NULL);
        struct both y = both_of(&p, BP_F32, 1, SHAPE((1 << 20) + 3));
        struct bp_fallback_info info = {.size = sizeof info};
        uint64_t before = p.fake->copies;
        struct both z = {NULL};

        OK(bp_op_add(p.weak.scope, x.weak, y.weak, &z.weak));
        OK(bp_op_add(p.cpu.scope, x.cpu, y.cpu, &z.cpu));
        expect_same(&p, z, "add");
        cr_assert_eq(p.fake->copies, before + 22, "%s: %llu copies", p.name,
                     (unsigned long long)(p.fake->copies - before));
        cr_assert_eq(bp_device_blocked(p.weak.device, BP_BLOCK_COPY), 0);
        cr_assert_eq(weak_fallbacks(p.weak.device, "add", BP_FALLBACK_COPY, &info), 1);
        cr_assert_eq(info.bytes, 4 * ((1 << 20) + 3));
        cr_assert_gt(info.nanoseconds, 0);
        both_destroy(x);
        both_destroy(y);
        weak_close(&p);
    }
}

/* With BP_BLOCK=deny a copy by way of the host is refused before anything is done. */
Test(weak, refuses_copies_that_wait)
{
    struct pair p = pair_with(LATE, "BP_BLOCK", "deny");
    struct both x = both_of(&p, BP_F32, 2, SHAPE(600, 700)), t;
    struct both few = both_of(&p, BP_F32, 2, SHAPE(6, 7));
    struct bp_tensor *y = NULL, *dense = tensor_of(&p.weak, BP_F32, 2, SHAPE(700, 600), NULL);
    struct bp_arg in = {&dense, 1};
    struct bp_call call = {.size = sizeof call, .op = "relu", .in = &in, .n_in = 1};
    uint64_t before = p.fake->copies;

    OK(bp_tensor_transpose(x.weak, NULL, &t.weak));
    FAILS(BP_ERR_BLOCKED, "BP_BLOCK", bp_op_relu(p.weak.scope, t.weak, &y));
    cr_assert_eq(p.fake->copies, before);
    y = t.weak; /* the copy is behind the kernel, which must not run either */
    OK(bp_stream_synchronize(p.weak.stream));
    before = p.fake->ended();
    FAILS(BP_ERR_BLOCKED, "BP_BLOCK", bp_call_run(p.weak.scope, &call, &y, 1, NULL));
    OK(bp_stream_synchronize(p.weak.stream));
    cr_assert_eq(p.fake->ended(), before);
    before = p.fake->copies;
    bp_tensor_destroy(t.weak);
    OK(bp_tensor_transpose(few.weak, NULL, &t.weak));
    y = NULL;
    OK(bp_op_relu(p.weak.scope, t.weak, &y));
    cr_assert_eq(p.fake->copies, before + 42);
    bp_tensor_destroy(y);
    bp_tensor_destroy(dense);
    bp_tensor_destroy(t.weak);
    both_destroy(x);
    both_destroy(few);
    weak_close(&p);
}

Test(weak, takes_indices_of_64_bits)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x = both_of(&p, BP_F16, 3, SHAPE(3, 5, 2)), xt, every, index;
        struct both y = {NULL};
        struct bp_gather_attrs a = bp_gather_defaults();
        struct bp_fallback_info info = {.size = sizeof info};

        a.axis = 1;
        index = indices_of(&p, 6, (const int64_t[]){4, 99, -5, 99, 0, 99});
        OK(bp_tensor_slice(index.weak, 0, 0, INT64_MAX, 2, &every.weak));
        OK(bp_tensor_slice(index.cpu, 0, 0, INT64_MAX, 2, &every.cpu));
        OK(bp_tensor_transpose(x.weak, NULL, &xt.weak));
        OK(bp_tensor_transpose(x.cpu, NULL, &xt.cpu));
        OK(bp_op_gather(p.weak.scope, xt.weak, every.weak, &a, &y.weak));
        OK(bp_op_gather(p.cpu.scope, xt.cpu, every.cpu, &a, &y.cpu));
        expect_same(&p, y, "gather");
        cr_assert_eq(weak_fallbacks(p.weak.device, "gather", BP_FALLBACK_INDEX, &info),
                     place == CASTS ? 2 : 1);
        cr_assert_eq(info.bytes, place == CASTS ? 3 * 8 + 3 * 4 : 3 * 4);
        cr_assert_eq(bp_device_blocked(p.weak.device, BP_BLOCK_COPY),
                     places[place].flags != BP_STREAM_INLINE, "%s", p.name);
        both_destroy(every);
        both_destroy(index);
        both_destroy(xt);
        both_destroy(x);
        weak_close(&p);
    }
}

/* The low 32 bits of each value are a valid index. */
Test(weak, reports_indices_beyond_32_bits)
{
    static const int64_t bad[] = {(INT64_C(1) << 32) + 1, -(INT64_C(1) << 32) + 1, INT64_MIN,
                                  INT64_MAX - 0xfffffffe, INT64_C(1) << 31, 5, -6};

    for (int place = 0; place < PLACE_COUNT; place++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            struct pair p = pair_init(place);
            struct both x = both_of(&p, BP_F32, 1, SHAPE(5)), index = indices_of(&p, 1, &bad[i]);
            struct bp_tensor *y = NULL;
            enum bp_status status = bp_op_gather(p.weak.scope, x.weak, index.weak, NULL, &y);
            if (status == BP_OK) status = bp_stream_synchronize(p.weak.stream);
            cr_assert_eq(status, BP_ERR_FAULT, "%s, %lld: %s", p.name, (long long)bad[i],
                         bp_error_message());
            cr_assert(strstr(bp_error_message(), "gather"), "%s", bp_error_message());
            bp_tensor_destroy(y);
            both_destroy(index);
            both_destroy(x);
            weak_close(&p);
        }
}

/* A prepared call has the steps once, and runs them with other tensors of the same types. */
Test(weak, prepares_its_steps)
{
    for (int place = 0; place < PLACE_COUNT; place++) {
        struct pair p = pair_init(place);
        struct both x[2] = {both_of(&p, BP_F32, 2, SHAPE(4, 6)),
                            both_of(&p, BP_F32, 2, SHAPE(5, 6))};
        struct both y = both_of(&p, BP_F32, 1, SHAPE(4)), xt[2];
        struct bp_tensor *z = tensor_of(&p.weak, BP_F32, 2, SHAPE(6, 4), NULL);
        struct bp_arg in[2] = {{&xt[0].weak, 1}, {&y.weak, 1}};
        struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
        struct bp_prepared *prepared;

        for (int i = 0; i < 2; i++) {
            OK(bp_tensor_view(x[i].weak, 3 * i, 2, SHAPE(6, 4), SHAPE(1, 6), &xt[i].weak));
            OK(bp_tensor_view(x[i].cpu, 3 * i, 2, SHAPE(6, 4), SHAPE(1, 6), &xt[i].cpu));
        }
        OK(bp_prepared_create(p.weak.device, &call, NULL, 0, &prepared));
        cr_assert_eq(bp_prepared_steps(prepared), 3);
        cr_assert_str_eq(bp_prepared_step(prepared, 0), "(copy)");
        cr_assert_str_eq(bp_prepared_kernel(prepared), "weak_add");
        for (int i = 0; i < 2; i++) {
            struct bp_tensor *weak[2] = {xt[i].weak, y.weak};
            struct both out = {NULL};
            OK(bp_prepared_run(prepared, p.weak.stream, weak, 2, &z, 1, NULL));
            OK(bp_op_add(p.cpu.scope, xt[i].cpu, y.cpu, &out.cpu));
            OK(bp_op_assign(p.weak.scope, z, &out.weak));
            expect_same(&p, out, "add");
        }
        bp_prepared_destroy(prepared);
        bp_tensor_destroy(z);
        for (int i = 0; i < 2; i++) both_destroy(xt[i]), both_destroy(x[i]);
        both_destroy(y);
        weak_close(&p);
    }
}

/* relu of a transposed sum with a row that is broadcast. indexed: a slice of it by 64-bit
 * indices. */
static struct bp_graph *weak_graph(struct bp_core *core, bool indexed)
{
    struct bp_tensor *in[3] = {NULL}, *t = NULL, *sum = NULL, *y = NULL, *out = NULL;
    struct bp_graph *graph;

    OK(bp_graph_create(core, &graph));
    OK(bp_graph_input(graph, "x", BP_F32, 2, SHAPE(4, 6), &in[0]));
    OK(bp_graph_input(graph, "row", BP_F32, 1, SHAPE(4), &in[1]));
    if (indexed) OK(bp_graph_input(graph, "index", BP_I64, 1, SHAPE(3), &in[2]));
    OK(bp_op_transpose(bp_graph_scope(graph), in[0], NULL, &t));
    OK(bp_op_add(bp_graph_scope(graph), t, in[1], &sum));
    OK(bp_op_relu(bp_graph_scope(graph), sum, &y));
    if (indexed) OK(bp_op_gather(bp_graph_scope(graph), y, in[2], NULL, &out));
    OK(bp_graph_output(graph, indexed ? out : y, "y"));
    for (int i = 0; i < 3; i++) bp_tensor_destroy(in[i]);
    bp_tensor_destroy(t);
    bp_tensor_destroy(sum);
    bp_tensor_destroy(y);
    if (indexed) bp_tensor_destroy(out);
    return graph;
}

/* A program with indices in host memory is not recorded, and runs node by node. */
static void weak_expect_replays(struct pair *p, struct bp_program *program, bool recorded)
{
    struct bp_program_info info = {.size = sizeof info};

    OK(bp_program_get_info(program, &info));
    cr_assert_eq(info.runs, 4);
    cr_assert_eq(info.replays, recorded ? 3 : 0, "%s: %s", p->name, info.reason);
    if (strcmp(p->name, "CAPTURES")) return;
    if (!recorded) cr_assert(strstr(info.reason, "converts indices"), "%s", info.reason);
    /* two runs of the graph in each of four rounds, and three copies in each */
    else cr_assert_eq(weak_fallbacks(p->weak.device, "add", BP_FALLBACK_COPY, NULL), 16);
}

Test(weak, runs_graphs_and_programs)
{
    for (int i = 0; i < 2 * PLACE_COUNT; i++) {
        struct pair p = pair_init(i / 2);
        uint32_t n = i % 2 ? 3 : 2;
        struct bp_graph *graph = weak_graph(p.weak.core, i % 2);
        struct bp_program *program;

        OK(bp_program_create(graph, p.weak.device, &program));
        for (int run = 0; run < 4; run++) { /* each with other tensors */
            struct both in[3] = {both_of(&p, BP_F32, 2, SHAPE(4 + run, 6)),
                                 both_of(&p, BP_F32, 1, SHAPE(4)),
                                 indices_of(&p, 3, (const int64_t[]){5 - run, 0, -2})};
            struct bp_tensor *weak[3], *cpu[3];
            struct both y = {NULL, NULL}, z = {NULL, NULL}, part;
            OK(bp_tensor_slice(in[0].weak, 0, run, INT64_MAX, 1, &part.weak));
            OK(bp_tensor_slice(in[0].cpu, 0, run, INT64_MAX, 1, &part.cpu));
            both_destroy(in[0]);
            in[0] = part;
            for (int k = 0; k < 3; k++) weak[k] = in[k].weak, cpu[k] = in[k].cpu;
            OK(bp_program_run(program, p.weak.stream, weak, n, &y.weak, 1));
            OK(bp_graph_run(graph, p.weak.stream, weak, n, &z.weak, 1));
            OK(bp_graph_run(graph, p.cpu.stream, cpu, n, &y.cpu, 1));
            OK(bp_op_assign(p.cpu.scope, y.cpu, &z.cpu));
            expect_same(&p, y, "program");
            expect_same(&p, z, "graph");
            for (int k = 0; k < 3; k++) both_destroy(in[k]);
        }
        weak_expect_replays(&p, program, i / 2 == CAPTURES && i % 2 == 0);
        bp_program_destroy(program);
        bp_graph_destroy(graph);
        weak_close(&p);
    }
}

/* The warnings that a core has logged. */
struct warnings {
    int n;
    char text[2000];
};

static void weak_note(void *ctx, uint32_t level, const char *text)
{
    struct warnings *w = ctx;
    size_t used = strlen(w->text);

    if (level != BP_LOG_WARN) return;
    w->n++;
    snprintf(w->text + used, sizeof w->text - used, "%s\n", text);
}

/* BP_FALLBACK=warn reports the first copy and the first conversion of indices of an operator. */
Test(weak, warns_once)
{
    struct warnings w = {0, ""};
    struct bp_core_options options = {.size = sizeof options, .log = weak_note, .log_ctx = &w};
    struct bp_tensor *x, *t, *y = NULL, *index;
    struct bp_device *device;
    struct bp_core *core;
    struct fixture f;
    uint32_t i;

    setenv("BP_FALLBACK", "warn", 1);
    OK(bp_core_create(&options, &core));
    OK(bp_core_load_path(core, HOSTILE_DIR "/bp_weak.so", &i));
    OK(bp_device_create_at(core, i, 0, &device));
    f = weak_open(core, device, 0);
    w.n = 0, w.text[0] = 0;
    x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(1, -2, 3, -4, 5, 6));
    index = tensor_of(&f, BP_I64, 1, SHAPE(1), SHAPE(2));
    OK(bp_tensor_transpose(x, NULL, &t));
    for (int run = 0; run < 2; run++) {
        OK(bp_op_relu(f.scope, t, &y));
        expect_bytes(&f, y, F32(1, 0, 0, 5, 3, 6), 24);
        bp_tensor_destroy(y), y = NULL;
        OK(bp_op_gather(f.scope, t, index, NULL, &y));
        expect_bytes(&f, y, F32(3, 6), 8);
        bp_tensor_destroy(y), y = NULL;
    }
    cr_assert_eq(w.n, 3, "%s", w.text); /* relu copies; gather copies and converts */
    cr_assert(strstr(w.text, "relu: weak:0 has no kernel for the tensors as they are: the library "
                             "copies strided tensors"), "%s", w.text);
    cr_assert(strstr(w.text, "gather: weak:0 has no kernel for the tensors as they are: indices of "
                             "64 bits"), "%s", w.text);
    cr_assert(strstr(w.text, "(on weak:0, 24 bytes, "), "%s", w.text);
    cr_assert_null(strstr(w.text, "deny"), "%s", w.text);
    bp_tensor_destroy(x);
    bp_tensor_destroy(t);
    bp_tensor_destroy(index);
    fixture_finish(&f);
}
