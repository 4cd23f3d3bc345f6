/* SPDX-License-Identifier: Apache-2.0 */
/* test_refused.c: tests calls that resemble valid ones and must be refused: outputs that overlap
 * inputs, kernel names where no kernel runs, conversions that lead to each other, and an earlier
 * fault. */
#include "fixture.h"

#include <backplane/dlpack.h>
#include <backplane/graph.h>
#include <backplane/ops.h>
#include <stdlib.h>

enum { N = 16 };

static enum bp_status add_into(struct fixture *f, struct bp_tensor *x, struct bp_tensor *y,
                               struct bp_tensor *z)
{
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};

    return bp_call_run(f->scope, &call, &z, 1, NULL);
}

static struct bp_tensor *refused_slice(struct bp_tensor *t, int64_t axis, int64_t start,
                                       int64_t stop)
{
    struct bp_tensor *view;

    OK(bp_tensor_slice(t, axis, start, stop, 1, &view));
    return view;
}

/* Creates a tensor over the same memory, with another buffer. */
static struct bp_tensor *alias_of(struct fixture *f, struct bp_tensor *t)
{
    struct bp_dlpack_managed *lent;
    struct bp_tensor *alias;

    OK(bp_tensor_to_dlpack(t, &lent));
    OK(bp_tensor_from_dlpack(f->device, lent, &alias));
    return alias;
}

Test(refused, overlap_of_memory_of_two_buffers)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(N + 1), NULL), *a = alias_of(&f, t);
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(N), NULL);
    struct bp_tensor *low = refused_slice(t, 0, 0, N), *high = refused_slice(a, 0, 1, N + 1);

    FAILS(BP_ERR_INVALID, "overlaps input 0", add_into(&f, low, x, high));
    FAILS(BP_ERR_INVALID, "overlaps input 1", add_into(&f, x, low, high));
    bp_tensor_destroy(high);
    bp_tensor_destroy(low);
    bp_tensor_destroy(x);
    bp_tensor_destroy(a);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

/* The product of 2^40 and 2^40 is 0 in 64 bits. */
Test(refused, extents_of_kron_that_overflow)
{
    const int64_t wide = (int64_t)1 << 40;
    struct fixture f = fixture_init();
    struct bp_tensor *one = tensor_of(&f, BP_F32, 1, SHAPE(1), NULL), *x, *z = NULL;

    OK(bp_tensor_expand(one, 1, &wide, &x));
    FAILS(BP_ERR_INVALID, "kron: extents 1099511627776 and 1099511627776 of axis 0",
          bp_op_kron(f.scope, x, x, &z));
    cr_expect(!z);
    bp_tensor_destroy(x);
    bp_tensor_destroy(one);
    fixture_finish(&f);
}

/* A shape without axes may be NULL; then the core copies nothing from it. */
Test(refused, shape_without_axes)
{
    struct bp_scatter_nd_attrs attrs = bp_scatter_nd_defaults();
    struct fixture f = fixture_init();
    struct bp_tensor *index = tensor_of(&f, BP_I64, 2, SHAPE(1, 0), NULL), *z = NULL;
    struct bp_tensor *value = tensor_of(&f, BP_F32, 1, SHAPE(1), NULL);
    enum bp_status status = bp_op_scatter_nd(f.scope, index, value, NULL, &attrs, &z);

    cr_expect_eq(status == BP_OK, z != NULL);
    bp_tensor_destroy(z);
    bp_tensor_destroy(value);
    bp_tensor_destroy(index);
    fixture_finish(&f);
}

/* The fast path of a prepared call notices the overlap too. */
Test(refused, overlap_in_a_prepared_call)
{
    struct fixture f = fixture_init();
    struct bp_tensor *t = tensor_of(&f, BP_F32, 1, SHAPE(2 * N), NULL), *a = alias_of(&f, t);
    struct bp_tensor *y = tensor_of(&f, BP_F32, 1, SHAPE(N), NULL);
    struct bp_arg in[2] = {{&y, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "add", .in = in, .n_in = 2};
    struct bp_prepared *p;

    OK(bp_prepared_create(f.device, &call, NULL, 0, &p));
    for (int at = 0; at <= N; at++) { /* in t: x begins at `at`, the result at N / 2 */
        struct bp_tensor *x[2] = {refused_slice(t, 0, at, at + N), y},
                         *z = refused_slice(a, 0, N / 2, N / 2 + N);
        FAILS(BP_ERR_INVALID, "overlaps input 0",
              bp_prepared_run(p, f.stream, x, 2, &z, 1, NULL));
        bp_tensor_destroy(z);
        bp_tensor_destroy(x[0]);
    }
    {
        struct bp_tensor *x[2] = {refused_slice(t, 0, 0, N), y}, *z = refused_slice(a, 0, N, 2 * N);
        OK(bp_prepared_run(p, f.stream, x, 2, &z, 1, NULL));
        bp_tensor_destroy(z);
        bp_tensor_destroy(x[0]);
    }
    bp_prepared_destroy(p);
    bp_tensor_destroy(y);
    bp_tensor_destroy(a);
    bp_tensor_destroy(t);
    fixture_finish(&f);
}

Test(refused, columns_of_a_matrix_share_nothing)
{
    struct fixture f = fixture_init();
    struct bp_tensor *m = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), F32(1, 2, 0, 3, 4, 0));
    struct bp_tensor *column[3];

    for (int i = 0; i < 3; i++) column[i] = refused_slice(m, 1, i, i + 1);
    OK(add_into(&f, column[0], column[1], column[2]));
    expect_bytes(&f, m, F32(1, 2, 3, 3, 4, 7), 24);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(column[i]);
    bp_tensor_destroy(m);
    fixture_finish(&f);
}

/* If a kernel name were ignored, a test of the kernel would pass without running it. */
Test(refused, kernels_by_name_where_none_runs)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = tensor_of(&f, BP_F32, 2, SHAPE(2, 3), NULL), *y, *z = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&x, 1}};
    struct bp_call view = {.size = sizeof view, .op = "transpose", .in = in, .n_in = 1,
                           .kernel = "no_such_kernel"};
    struct bp_call add = {.size = sizeof add, .op = "add", .in = in, .n_in = 2,
                          .kernel = "no_such_kernel"};
    struct bp_prepared *p;
    struct bp_graph *graph;

    FAILS(BP_ERR_NOT_FOUND, "no_such_kernel", bp_call_run(f.scope, &view, &z, 1, NULL));
    FAILS(BP_ERR_NOT_FOUND, "no_such_kernel", bp_prepared_create(f.device, &view, NULL, 0, &p));
    FAILS(BP_ERR_NOT_FOUND, "no_such_kernel", bp_call_run(f.scope, &add, &z, 1, NULL));
    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, "y", BP_F32, 2, SHAPE(2, 3), &y));
    in[0] = (struct bp_arg){&y, 1};
    FAILS(BP_ERR_NOT_FOUND, "no_such_kernel",
          bp_call_run(bp_graph_scope(graph), &view, &z, 1, NULL));
    OK(bp_call_run(bp_graph_scope(graph), &add, &z, 1, NULL)); /* some device may have it */
    OK(bp_graph_output(graph, z, NULL));
    bp_tensor_destroy(z), z = NULL;
    FAILS(BP_ERR_NOT_FOUND, "node add_0: add: cpu:0 has no kernel row named no_such_kernel",
          bp_graph_run(graph, f.stream, &x, 1, &z, 1));
    cr_assert_null(z);
    bp_tensor_destroy(y);
    bp_graph_destroy(graph);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

static struct fixture open_plugin(const char *path, const char *policy)
{
    struct fixture f;
    uint32_t index;

    setenv("BP_FALLBACK", policy, 1);
    setenv("BP_LOG", "error", 1);
    OK(bp_core_create(NULL, &f.core));
    OK(bp_core_load_path(f.core, path, &index));
    OK(bp_device_create_at(f.core, index, 0, &f.device));
    OK(bp_stream_create(f.device, &f.stream));
    f.scope = bp_stream_scope(f.stream);
    return f;
}

/* A dense copy needs assign of f16, which needs a cast of a strided tensor, which needs the assign
 * again. */
Test(refused, conversions_do_not_lead_to_each_other)
{
    static const char *const path[] = {HOSTILE_DIR "/bp_partial.so", TEMPLATE};

    for (int i = 0; i < 2; i++) {
        struct fixture f = open_plugin(path[i], "allow");
        struct bp_tensor *x = tensor_of(&f, BP_F16, 2, SHAPE(2, 2), (uint16_t[4]){0}), *t,
                         *z = NULL;
        OK(bp_tensor_transpose(x, NULL, &t));
        OK(bp_op_add(f.scope, t, t, &z)); /* cpu runs it */
        expect_bytes(&f, z, (uint16_t[4]){0}, 8);
        bp_tensor_destroy(z);
        bp_tensor_destroy(t);
        bp_tensor_destroy(x);
        fixture_finish(&f);
    }
}

/* The template has no row of assign, which a reshape into a preallocated output needs: a fallback
 * runs it. */
Test(refused, inline_devices_fall_back_too)
{
    struct fixture f = open_plugin(TEMPLATE, "allow");
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(4), F32(1, 2, 3, 4)), *z = NULL;
    struct bp_tensor *given = tensor_of(&f, BP_F32, 2, SHAPE(2, 2), NULL);
    struct bp_arg in[1] = {{&x, 1}};
    int64_t shape[2] = {2, 2};
    struct bp_reshape_attrs to = bp_reshape_defaults();
    struct bp_call call = {.size = sizeof call, .op = "reshape", .in = in, .n_in = 1,
                           .attrs = &to};

    to.shape = (struct bp_dims){shape, 2};
    OK(bp_op_softmax(f.scope, x, NULL, &z));
    OK(bp_call_run(f.scope, &call, &given, 1, NULL));
    expect_bytes(&f, given, F32(1, 2, 3, 4), 16);
    bp_tensor_destroy(z);
    bp_tensor_destroy(given);
    bp_tensor_destroy(x);
    fixture_finish(&f);
}

/* Records y = x + x and z = y x, both as outputs. */
static struct bp_graph *graph_of(struct fixture *f)
{
    struct bp_tensor *x, *y = NULL, *z = NULL;
    struct bp_graph *graph;
    struct bp_scope *scope;

    OK(bp_graph_create(f->core, &graph));
    scope = bp_graph_scope(graph);
    OK(bp_graph_input(graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_add(scope, x, x, &y));
    OK(bp_op_mul(scope, y, x, &z));
    OK(bp_graph_output(graph, y, "y"));
    OK(bp_graph_output(graph, z, "z"));
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    return graph;
}

Test(refused, results_of_a_graph_over_its_inputs)
{
    struct fixture f = fixture_init();
    struct bp_graph *graph = graph_of(&f);
    struct bp_tensor *x = tensor_of(&f, BP_F32, 1, SHAPE(2), F32(3, 5));
    struct bp_tensor *z = tensor_of(&f, BP_F32, 1, SHAPE(2), NULL);
    struct bp_tensor *over_x[2] = {x, z}, *same[2] = {z, z};

    FAILS(BP_ERR_INVALID, "outputs 0 and 1 overlap", bp_graph_run(graph, f.stream, &x, 1, same, 2));
    OK(bp_graph_run(graph, f.stream, &x, 1, over_x, 2));
    expect_bytes(&f, x, F32(6, 10), 8);
    expect_bytes(&f, z, F32(18, 50), 8);
    bp_tensor_destroy(x);
    bp_tensor_destroy(z);
    bp_graph_destroy(graph);
    fixture_finish(&f);
}

Test(refused, inputs_of_a_graph_change_places)
{
    struct fixture f = fixture_init();
    struct bp_tensor *a, *b, *in[2], *out[2];
    struct bp_graph *graph;

    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, "a", BP_F32, 1, SHAPE(1), &a));
    OK(bp_graph_input(graph, "b", BP_F32, 1, SHAPE(1), &b));
    OK(bp_graph_output(graph, b, NULL));
    OK(bp_graph_output(graph, a, NULL));
    in[0] = out[0] = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(1));
    in[1] = out[1] = tensor_of(&f, BP_F32, 1, SHAPE(1), F32(2));
    OK(bp_graph_run(graph, f.stream, in, 2, out, 2));
    expect_bytes(&f, in[0], F32(2), 4);
    expect_bytes(&f, in[1], F32(1), 4);
    bp_tensor_destroy(a);
    bp_tensor_destroy(b);
    bp_tensor_destroy(in[0]);
    bp_tensor_destroy(in[1]);
    bp_graph_destroy(graph);
    fixture_finish(&f);
}
