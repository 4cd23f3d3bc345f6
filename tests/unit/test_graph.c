/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph.c: tests calls that are recorded in a graph, and the results of running the graph. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct recorded {
    struct fixture f;
    struct bp_graph *graph;
    struct bp_scope *scope;
};

static struct recorded graph_begin(void)
{
    struct recorded r = {.f = fixture_init()};

    OK(bp_graph_create(r.f.core, &r.graph));
    r.scope = bp_graph_scope(r.graph);
    return r;
}

/* Uses the template device: it is asynchronous, and the host cannot access its memory. */
static struct recorded begin_apart(void)
{
    struct recorded r = graph_begin();
    uint32_t index;

    bp_stream_destroy(r.f.stream);
    bp_device_destroy(r.f.device);
    OK(bp_core_load_path(r.f.core, TEMPLATE, &index));
    OK(bp_device_create_at(r.f.core, index, 0, &r.f.device));
    OK(bp_stream_create(r.f.device, &r.f.stream));
    r.f.scope = bp_stream_scope(r.f.stream);
    return r;
}

static void graph_finish(struct recorded *r)
{
    bp_graph_destroy(r->graph);
    fixture_finish(&r->f);
}

Test(graph, the_same_calls_record_and_run)
{
    struct recorded r = graph_begin();
    struct bp_tensor *x, *y, *s = NULL, *z = NULL, *real[2], *out = NULL;
    struct bp_graph_info info = {.size = sizeof info};

    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(3), &x));
    OK(bp_graph_input(r.graph, "y", BP_F32, 2, SHAPE(2, 1), &y));
    OK(bp_op_add(r.scope, x, y, &s));
    OK(bp_op_mul(r.scope, s, s, &z));
    OK(bp_graph_output(r.graph, z, "squares"));
    OK(bp_graph_get_info(r.graph, &info));
    cr_assert_eq(info.inputs, 2);
    cr_assert_eq(info.outputs, 1);
    cr_assert_eq(info.nodes, 2);
    cr_assert_eq(info.values, 4);
    real[0] = tensor_of(&r.f, BP_F32, 1, SHAPE(3), F32(1, 2, 3));
    real[1] = tensor_of(&r.f, BP_F32, 2, SHAPE(2, 1), F32(0, 10));
    for (int i = 0; i < 2; i++) {
        out = NULL;
        OK(bp_graph_run(r.graph, r.f.stream, real, 2, &out, 1));
        expect_bytes(&r.f, out, F32(1, 4, 9, 121, 144, 169), 24);
        bp_tensor_destroy(out);
    }
    for (int i = 0; i < 2; i++) bp_tensor_destroy(real[i]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(s);
    bp_tensor_destroy(z);
    graph_finish(&r);
}

Test(graph, symbolic_tensors_have_a_type_and_no_memory)
{
    struct recorded r = graph_begin();
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *x, *t = NULL, *real = tensor_of(&r.f, BP_F32, 1, SHAPE(2), F32(1, 2)),
                         *z = NULL;
    struct bp_graph *other;
    float data[6] = {0};
    void *address;

    OK(bp_graph_input(r.graph, NULL, BP_F32, 2, SHAPE(2, 3), &x));
    OK(bp_op_transpose(r.scope, x, NULL, &t));
    OK(bp_tensor_get_info(t, &info));
    cr_assert_eq(info.rank, 2);
    cr_assert_eq(info.shape[0], 3);
    cr_assert_null(info.data);
    cr_assert_null(info.device);
    FAILS(BP_ERR_INVALID, "tensor", bp_tensor_read(r.f.stream, t, data, sizeof data));
    FAILS(BP_ERR_INVALID, "tensor", bp_tensor_map(t, &address));
    FAILS(BP_ERR_INVALID, "tensor", bp_tensor_copy(r.f.stream, t, t));
    FAILS(BP_ERR_INVALID, "tensor", bp_tensor_reshape(t, 1, SHAPE(6), &z));
    FAILS(BP_ERR_INVALID, "tensor", bp_tensor_freeze(t));
    FAILS(BP_ERR_INVALID, "value of a graph", bp_op_add(r.f.scope, t, real, &z));
    OK(bp_graph_create(r.f.core, &other));
    FAILS(BP_ERR_INVALID, "another graph", bp_op_add(bp_graph_scope(other), t, t, &z));
    FAILS(BP_ERR_INVALID, "no value of this graph", bp_graph_output(other, t, NULL));
    cr_assert_null(z);
    bp_graph_destroy(other);
    bp_tensor_destroy(real);
    bp_tensor_destroy(x);
    graph_finish(&r);
    bp_tensor_destroy(t); /* a value may outlive the handle of its graph */
}

Test(graph, mistakes_are_found_while_recording)
{
    struct recorded r = graph_begin();
    struct bp_tensor *x, *y, *z = NULL;

    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(3), &x));
    OK(bp_graph_input(r.graph, "y", BP_F32, 1, SHAPE(4), &y));
    FAILS(BP_ERR_INVALID, "does not broadcast", bp_op_add(r.scope, x, y, &z));
    FAILS(BP_ERR_INVALID, "is taken", bp_graph_input(r.graph, "x", BP_F32, 0, NULL, &z));
    FAILS(BP_ERR_INVALID, "no dtype", bp_graph_input(r.graph, "q", 99, 0, NULL, &z));
    FAILS(BP_ERR_INVALID, "is taken", bp_graph_name(r.graph, y, "x"));
    cr_assert_null(z);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    graph_finish(&r);
}

/* The device is the fake one, partial, which has no softmax. */
Test(graph, a_failure_names_the_node)
{
    struct bp_node_info node = {.size = sizeof node};
    struct bp_value_info value = {.size = sizeof value};
    struct bp_tensor *x, *z = NULL, *real, *out = NULL;
    struct recorded r;
    struct fixture p;
    uint32_t index;

    setenv("BP_FALLBACK", "deny", 1);
    r = graph_begin();
    p = r.f;
    OK(bp_core_load_path(p.core, HOSTILE_DIR "/bp_partial.so", &index));
    OK(bp_device_create_at(p.core, index, 0, &p.device));
    OK(bp_stream_create(p.device, &p.stream));
    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_softmax(r.scope, x, NULL, &z));
    OK(bp_graph_name(r.graph, z, "attention"));
    OK(bp_graph_output(r.graph, z, NULL));
    OK(bp_graph_node(r.graph, 0, &node));
    cr_assert_str_eq(node.name, "attention");
    cr_assert_str_eq(node.op, "softmax");
    OK(bp_graph_value(r.graph, node.out[0], &value));
    cr_assert_str_eq(value.name, "attention");
    real = tensor_of(&p, BP_F32, 1, SHAPE(2), F32(0, 0));
    FAILS(BP_ERR_NO_KERNEL, "node attention: softmax: no kernel of partial:0",
          bp_graph_run(r.graph, p.stream, &real, 1, &out, 1));
    FAILS(BP_ERR_INVALID, "0 inputs and 1 outputs given, the graph has 1 and 1",
          bp_graph_run(r.graph, p.stream, NULL, 0, &out, 1));
    FAILS(BP_ERR_INVALID, "input x: expected a tensor",
          bp_graph_run(r.graph, p.stream, &x, 1, &out, 1));
    cr_assert_null(out);
    bp_tensor_destroy(real);
    bp_tensor_destroy(x);
    bp_tensor_destroy(z);
    bp_stream_destroy(p.stream);
    bp_device_destroy(p.device);
    graph_finish(&r);
}

/* Enough names that the table of names grows and that places of names collide. A renamed value
 * gives its old name back; a generated name avoids those of the app. */
Test(graph, names_are_unique_and_free_after_a_change)
{
    enum { N = 500 };
    struct recorded r = graph_begin();
    struct bp_value_info info = {.size = sizeof info};
    struct bp_tensor *y[N + 1];
    char name[64];

    OK(bp_graph_input(r.graph, "relu_7", BP_F32, 1, SHAPE(3), &y[0]));
    for (int i = 0; i < N; i++) {
        y[i + 1] = NULL;
        OK(bp_op_relu(r.scope, y[i], &y[i + 1]));
    }
    OK(bp_graph_value(r.graph, 8, &info)); /* of node 7 */
    cr_assert_str_eq(info.name, "relu_8");
    OK(bp_graph_value(r.graph, 9, &info));
    cr_assert_str_eq(info.name, "relu_9");
    for (int i = 1; i <= N; i += 2) {
        snprintf(name, sizeof name, "a long name of a layer: /encoder/%d", i);
        OK(bp_graph_name(r.graph, y[i], name));
    }
    for (int i = 1; i <= N; i++) {
        OK(bp_graph_value(r.graph, (uint32_t)i, &info));
        snprintf(name, sizeof name, "%s", info.name);
        OK(bp_graph_name(r.graph, y[i], name)); /* its own name */
        if (i > 1) FAILS(BP_ERR_INVALID, "is taken", bp_graph_name(r.graph, y[1], name));
    }
    for (int i = 1; i <= N; i += 2) {
        snprintf(name, sizeof name, "relu_%d", i > 7 ? i : i - 1);
        OK(bp_graph_name(r.graph, y[i], name));
    }
    for (int i = 0; i <= N; i++) bp_tensor_destroy(y[i]);
    graph_finish(&r);
}

Test(graph, real_tensors_become_constants)
{
    struct recorded r = graph_begin();
    struct bp_tensor *x, *z = NULL, *w = tensor_of(&r.f, BP_F32, 1, SHAPE(2), F32(10, 20)), *real;
    struct bp_tensor *out = NULL;
    struct bp_value_info value = {.size = sizeof value};

    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_add(r.scope, x, w, &z));
    bp_tensor_destroy(z), z = NULL;
    OK(bp_op_mul(r.scope, x, w, &z));
    bp_tensor_destroy(w); /* the graph keeps the tensor */
    OK(bp_graph_output(r.graph, z, "z"));
    OK(bp_graph_value(r.graph, 1, &value));
    cr_assert_eq(value.kind, 1);
    real = tensor_of(&r.f, BP_F32, 1, SHAPE(2), F32(1, 2));
    OK(bp_graph_run(r.graph, r.f.stream, &real, 1, &out, 1));
    expect_bytes(&r.f, out, F32(10, 40), 8);
    bp_tensor_destroy(out);
    bp_tensor_destroy(real);
    bp_tensor_destroy(x);
    bp_tensor_destroy(z);
    graph_finish(&r);
}

/* Tests preallocated outputs, an output that is an input, and one value that is two outputs. */
Test(graph, outputs_are_given_or_made)
{
    struct recorded r = graph_begin();
    struct bp_tensor *x, *z = NULL, *real = tensor_of(&r.f, BP_F32, 1, SHAPE(2), F32(1, 2));
    struct bp_tensor *mine = tensor_of(&r.f, BP_F32, 1, SHAPE(2), NULL);
    struct bp_tensor *copy = tensor_of(&r.f, BP_F32, 1, SHAPE(2), NULL);
    struct bp_tensor *out[4] = {mine, NULL, NULL, copy};

    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_add(r.scope, x, x, &z));
    OK(bp_graph_output(r.graph, z, "z"));
    OK(bp_graph_output(r.graph, z, NULL));
    OK(bp_graph_output(r.graph, x, NULL));
    OK(bp_graph_output(r.graph, x, NULL));
    OK(bp_graph_run(r.graph, r.f.stream, &real, 1, out, 4));
    cr_assert_eq(out[0], mine);
    expect_bytes(&r.f, mine, F32(2, 4), 8);
    expect_bytes(&r.f, out[1], F32(2, 4), 8);
    expect_bytes(&r.f, out[2], F32(1, 2), 8);
    expect_bytes(&r.f, copy, F32(1, 2), 8);
    for (int i = 0; i < 4; i++) bp_tensor_destroy(out[i]);
    bp_tensor_destroy(real);
    bp_tensor_destroy(x);
    bp_tensor_destroy(z);
    graph_finish(&r);
}

/* The graph reads an input before it writes an output there, also if that output is a view. */
Test(graph, a_view_of_an_input_is_written_over_that_input)
{
    struct recorded r = graph_begin();
    struct bp_tensor *x, *y = NULL, *real, *out;

    OK(bp_graph_input(r.graph, "x", BP_F32, 2, SHAPE(2, 2), &x));
    OK(bp_op_transpose(r.scope, x, NULL, &y));
    OK(bp_graph_output(r.graph, y, NULL));
    real = out = tensor_of(&r.f, BP_F32, 2, SHAPE(2, 2), F32(1, 2, 3, 4));
    OK(bp_graph_run(r.graph, r.f.stream, &real, 1, &out, 1));
    cr_assert_eq(out, real);
    expect_bytes(&r.f, real, F32(1, 3, 2, 4), 16);
    bp_tensor_destroy(real);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    graph_finish(&r);
}

/* An update of a value reaches the reshape of that value, also if the app gives a strided tensor
 * for the value: y = -x, v = reshape(y), y -= x / 4. */
Test(graph, an_update_reaches_the_view_of_a_strided_output)
{
    struct recorded r = graph_begin();
    const int64_t shape[] = {2, 2}, stride[] = {1, 2};
    struct bp_tensor_options options = {
        .size = sizeof options, .dtype = BP_F32, .rank = 2, .shape = shape, .stride = stride};
    struct bp_reshape_attrs flat = {.size = sizeof flat, .shape = {SHAPE(4), 1}};
    struct bp_tensor *x, *y = NULL, *v = NULL, *updated = NULL, *rate, *out[2] = {NULL}, *in;

    rate = tensor_of(&r.f, BP_F32, 0, NULL, F32(0.25f));
    OK(bp_graph_input(r.graph, "x", BP_F32, 2, shape, &x));
    OK(bp_op_neg(r.scope, x, &y));
    OK(bp_op_reshape(r.scope, y, NULL, &flat, &v));
    OK(bp_op_sgd(r.scope, y, x, rate, &updated));
    OK(bp_graph_output(r.graph, v, NULL));
    OK(bp_graph_output(r.graph, y, NULL));
    in = tensor_of(&r.f, BP_F32, 2, shape, F32(4, 8, 12, 16));
    OK(bp_tensor_create_with(r.f.device, &options, &out[1]));
    OK(bp_graph_run(r.graph, r.f.stream, &in, 1, out, 2));
    expect_bytes(&r.f, out[0], F32(-5, -10, -15, -20), 16);
    expect_bytes(&r.f, out[1], F32(-5, -10, -15, -20), 16);
    bp_tensor_destroy(out[0]);
    bp_tensor_destroy(out[1]);
    bp_tensor_destroy(in);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(v);
    bp_tensor_destroy(updated);
    bp_tensor_destroy(rate);
    graph_finish(&r);
}

/* Gradient rules make the same calls, so they record too. */
Test(graph, gradients_are_recorded)
{
    struct recorded r = graph_begin();
    struct bp_tensor *x, *y, *z = NULL, *dz, *dx[2] = {NULL}, *real[3], *out[2] = {NULL};
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "mse_loss", .in = in, .n_in = 2};

    OK(bp_graph_input(r.graph, "x", BP_F64, 1, SHAPE(4), &x));
    OK(bp_graph_input(r.graph, "y", BP_F64, 1, SHAPE(4), &y));
    OK(bp_graph_input(r.graph, "dz", BP_F64, 0, NULL, &dz));
    OK(bp_op_mse_loss(r.scope, x, y, &z));
    OK(bp_call_gradient(r.scope, &call, &z, &dz, 1, (uint8_t[]){1, 1}, dx, 2));
    for (int i = 0; i < 2; i++) OK(bp_graph_output(r.graph, dx[i], NULL));
    real[0] = tensor_of(&r.f, BP_F64, 1, SHAPE(4), F64(1, 2, 3, 4));
    real[1] = tensor_of(&r.f, BP_F64, 1, SHAPE(4), F64(0, 1, 4, 8));
    real[2] = tensor_of(&r.f, BP_F64, 0, NULL, F64(2));
    OK(bp_graph_run(r.graph, r.f.stream, real, 3, out, 2));
    expect_bytes(&r.f, out[0], F64(1, 1, -1, -4), 32);
    expect_bytes(&r.f, out[1], F64(-1, -1, 1, 4), 32);
    for (int i = 0; i < 2; i++) bp_tensor_destroy(out[i]), bp_tensor_destroy(dx[i]);
    for (int i = 0; i < 3; i++) bp_tensor_destroy(real[i]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    bp_tensor_destroy(dz);
    graph_finish(&r);
}

/* Attributes given as tensors. */

static uint64_t host_values(struct recorded *r)
{
    return bp_device_blocked(r->f.device, BP_BLOCK_HOST_VALUE);
}

static void expect_shape(struct bp_tensor *t, uint32_t rank, const int64_t *shape)
{
    struct bp_tensor_info info = {.size = sizeof info};

    OK(bp_tensor_get_info(t, &info));
    cr_assert_eq(info.rank, rank);
    for (uint32_t i = 0; i < rank; i++) cr_assert_eq(info.shape[i], shape[i]);
}

/* The graph uses the values at the time of recording: the node's attributes contain them, and the
 * tensor is no input of the node. */
Test(graph, attributes_as_tensors_are_read_while_recording)
{
    struct recorded r = graph_begin();
    struct bp_tensor *real = tensor_of(&r.f, BP_F32, 1, SHAPE(6), F32(1, 2, 3, 4, 5, 6));
    struct bp_tensor *shape = tensor_of(&r.f, BP_I64, 1, SHAPE(2), SHAPE(2, -1));
    struct bp_tensor *x, *y = NULL, *z = NULL, *out = NULL;
    struct bp_tensor *starts = tensor_of(&r.f, BP_I32, 1, SHAPE(1), (const int32_t[]){1});
    struct bp_tensor *ends = tensor_of(&r.f, BP_I64, 0, NULL, SHAPE(3));
    struct bp_slice_attrs attrs = bp_slice_defaults();
    struct bp_node_info node = {.size = sizeof node};
    struct bp_graph_info info = {.size = sizeof info};

    attrs.axes = (struct bp_dims){SHAPE(1), 1};
    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(6), &x));
    OK(bp_op_reshape(r.scope, x, shape, NULL, &y));
    expect_shape(y, 2, SHAPE(2, 3));
    OK(bp_op_slice(r.scope, y, starts, ends, NULL, NULL, &attrs, &z));
    expect_shape(z, 2, SHAPE(2, 2));
    OK(bp_graph_output(r.graph, z, "z"));
    OK(bp_tensor_write(r.f.stream, shape, SHAPE(3, 2), 16));
    OK(bp_tensor_write(r.f.stream, starts, (const int32_t[]){0}, 4));
    bp_tensor_destroy(ends);
    OK(bp_graph_node(r.graph, 0, &node));
    cr_assert_eq(((const struct bp_reshape_attrs *)node.attrs)->shape.at[0], 2);
    cr_assert_eq(node.in[1], UINT32_MAX);
    OK(bp_graph_get_info(r.graph, &info));
    cr_assert_eq(info.values, 3);
    OK(bp_graph_run(r.graph, r.f.stream, &real, 1, &out, 1));
    expect_bytes(&r.f, out, F32(2, 3, 5, 6), 16);
    cr_assert_eq(host_values(&r), 0);
    bp_tensor_destroy(out);
    bp_tensor_destroy(real);
    bp_tensor_destroy(shape);
    bp_tensor_destroy(starts);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(z);
    graph_finish(&r);
}

/* The values are unknown before the graph runs, but recording needs them for the shape of the
 * result. */
Test(graph, attributes_as_symbolic_tensors_are_refused)
{
    struct recorded r = graph_begin();
    struct bp_graph_info info = {.size = sizeof info};
    struct bp_tensor *x, *shape, *real = tensor_of(&r.f, BP_F32, 1, SHAPE(6), NULL), *z = NULL;
    struct bp_tensor *wrong = tensor_of(&r.f, BP_F32, 1, SHAPE(1), F32(6));
    struct bp_arg in[2] = {{&x, 1}, {&shape, 1}};
    struct bp_call call = {.size = sizeof call, .op = "reshape", .in = in, .n_in = 2};
    struct bp_tensor *dx[2] = {NULL};

    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(6), &x));
    OK(bp_graph_input(r.graph, "shape", BP_I64, 1, SHAPE(2), &shape));
    FAILS(BP_ERR_UNSUPPORTED, "reshape: input shape is symbolic",
          bp_op_reshape(r.scope, x, shape, NULL, &z));
    FAILS(BP_ERR_UNSUPPORTED, "give a tensor that has it, or the attribute",
          bp_op_reshape(r.scope, real, shape, NULL, &z));
    FAILS(BP_ERR_UNSUPPORTED, "is symbolic",
          bp_call_gradient(r.scope, &call, &x, &x, 1, (uint8_t[]){1, 0}, dx, 2));
    FAILS(BP_ERR_INVALID, "expected a tensor", bp_op_reshape(r.f.scope, real, shape, NULL, &z));
    FAILS(BP_ERR_INVALID, "expected i32 or i64", bp_op_reshape(r.scope, x, wrong, NULL, &z));
    OK(bp_graph_get_info(r.graph, &info));
    cr_assert(info.nodes == 0 && !z && !dx[0]);
    bp_tensor_destroy(x);
    bp_tensor_destroy(shape);
    bp_tensor_destroy(real);
    bp_tensor_destroy(wrong);
    graph_finish(&r);
}

/* On an asynchronous device, each read of an attribute is a counted wait. */
Test(graph, reading_an_attribute_on_a_device_is_counted_and_can_be_denied)
{
    for (int deny = 0; deny < 2; deny++) {
        struct recorded r = (setenv("BP_BLOCK", deny ? "deny" : "allow", 1), begin_apart());
        struct bp_graph_info info = {.size = sizeof info};
        struct bp_tensor *x, *y = NULL, *shape = tensor_of(&r.f, BP_I64, 1, SHAPE(2), SHAPE(2, 3));
        struct bp_tensor *dy, *dx[2] = {NULL};
        struct bp_arg in[2] = {{&x, 1}, {&shape, 1}};
        struct bp_call call = {.size = sizeof call, .op = "reshape", .in = in, .n_in = 2};

        OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(6), &x));
        OK(bp_graph_input(r.graph, "dy", BP_F32, 2, SHAPE(2, 3), &dy));
        if (deny) {
            FAILS(BP_ERR_BLOCKED, "BP_BLOCK=deny", bp_op_reshape(r.scope, x, shape, NULL, &y));
            cr_assert_null(y);
        } else {
            OK(bp_op_reshape(r.scope, x, shape, NULL, &y));
            expect_shape(y, 2, SHAPE(2, 3));
            OK(bp_call_gradient(r.scope, &call, &y, &dy, 1, (uint8_t[]){1, 0}, dx, 2));
            expect_shape(dx[0], 1, SHAPE(6));
        }
        OK(bp_graph_get_info(r.graph, &info));
        cr_assert_eq(info.nodes, deny ? 0 : 2);
        cr_assert_eq(host_values(&r), deny ? 0 : 2);
        bp_tensor_destroy(dx[0]);
        bp_tensor_destroy(dy);
        bp_tensor_destroy(shape);
        bp_tensor_destroy(x);
        bp_tensor_destroy(y);
        graph_finish(&r);
    }
}

static void hold_up(void *ctx, enum bp_status status)
{
    (void)ctx, (void)status;
    usleep(50000);
}

/* A recording belongs to no stream: work that was submitted before on any stream of the device
 * counts as done. */
Test(graph, an_attribute_has_the_value_of_all_work_given_before)
{
    struct recorded r = graph_begin();
    struct bp_tensor *shape = tensor_of(&r.f, BP_I64, 1, SHAPE(2), SHAPE(2, 3)), *x, *y = NULL;
    struct bp_tensor *next = tensor_of(&r.f, BP_I64, 1, SHAPE(2), SHAPE(3, 2)), *out = shape;
    struct bp_arg in[1] = {{&next, 1}};
    struct bp_call call = {.size = sizeof call, .op = "assign", .in = in, .n_in = 1};
    struct bp_stream *late;

    OK(bp_stream_create_with(r.f.device, BP_STREAM_ASYNC, &late));
    OK(bp_stream_callback(late, hold_up, NULL));
    OK(bp_call_run(bp_stream_scope(late), &call, &out, 1, NULL));
    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(6), &x));
    OK(bp_op_reshape(r.scope, x, shape, NULL, &y));
    expect_shape(y, 2, SHAPE(3, 2));
    cr_assert_eq(host_values(&r), 1);
    bp_stream_destroy(late);
    bp_tensor_destroy(next);
    bp_tensor_destroy(shape);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    graph_finish(&r);
}

/* Makes each call that would change the graph, and checks the status. */
static void expect_changes(struct recorded *r, struct bp_tensor *x, struct bp_tensor *real,
                           enum bp_status expected)
{
    static const char *const call[] = {"bp_graph_input", "add", "add with a constant",
                                       "bp_graph_output", "bp_graph_name", "bp_graph_gradient",
                                       "bp_call_gradient"};
    struct bp_graph_info before = {.size = sizeof before}, after = {.size = sizeof after};
    struct bp_tensor *made = NULL, *dx = NULL, *grad[2] = {NULL};
    struct bp_arg arg[2] = {{&x, 1}, {&x, 1}};
    struct bp_call mul = {.size = sizeof mul, .op = "mul", .in = arg, .n_in = 2};

    OK(bp_graph_get_info(r->graph, &before));
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        enum bp_status got = i == 0 ? bp_graph_input(r->graph, NULL, BP_F32, 1, SHAPE(3), &made)
                             : i == 1 ? bp_op_add(r->scope, x, x, &made)
                             : i == 2 ? bp_op_add(r->scope, x, real, &made)
                             : i == 3 ? bp_graph_output(r->graph, x, NULL)
                             : i == 4 ? bp_graph_name(r->graph, x, expected ? "no" : "another")
                             : i == 5 ? bp_graph_gradient(r->graph, &x, &real, 1, &x, 1, &dx)
                                      : bp_call_gradient(r->scope, &mul, &x, &x, 1,
                                                         (const uint8_t[]){1, 0}, grad, 2);
        cr_expect_eq(got, expected, "%s: %s, %s", call[i], bp_status_name(got), bp_error_message());
        if (expected)
            cr_expect(strstr(bp_error_message(), "a program has been made of the graph"),
                      "%s: the message is %s", call[i], bp_error_message());
        bp_tensor_destroy(made), made = NULL;
    }
    bp_tensor_destroy(dx);
    bp_tensor_destroy(grad[0]);
    OK(bp_graph_get_info(r->graph, &after));
    if (expected) cr_expect_arr_eq(&before, &after, sizeof before);
    else cr_expect_gt(after.values, before.values);
}

Test(graph, stays_as_it_is_while_it_has_programs)
{
    struct recorded r = graph_begin();
    struct bp_tensor *x, *y = NULL, *real, *out = NULL;
    struct bp_program *first, *second;

    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(3), &x));
    OK(bp_op_add(r.scope, x, x, &y));
    OK(bp_graph_output(r.graph, y, NULL));
    real = tensor_of(&r.f, BP_F32, 1, SHAPE(3), F32(1, 2, 3));
    OK(bp_program_create(r.graph, r.f.device, &first));
    OK(bp_program_create(r.graph, r.f.device, &second));
    expect_changes(&r, x, real, BP_ERR_INVALID);
    bp_program_destroy(first);
    expect_changes(&r, x, real, BP_ERR_INVALID);
    for (int run = 0; run < 3; run++) {
        OK(bp_program_run(second, r.f.stream, &real, 1, &out, 1));
        expect_bytes(&r.f, out, F32(2, 4, 6), 12);
        bp_tensor_destroy(out), out = NULL;
    }
    bp_program_destroy(second);
    expect_changes(&r, x, real, BP_OK);
    bp_tensor_destroy(x);
    bp_tensor_destroy(y);
    bp_tensor_destroy(real);
    graph_finish(&r);
}
