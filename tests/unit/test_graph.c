/* SPDX-License-Identifier: Apache-2.0 */
/* test_graph.c: calls that are recorded, and what they give when they run. */
#include "fixture.h"

struct recorded {
    struct fixture f;
    struct bp_graph *graph;
    struct bp_scope *scope;
};

static struct recorded begin(void)
{
    struct recorded r = {.f = fixture_init()};

    OK(bp_graph_create(r.f.core, &r.graph));
    r.scope = bp_graph_scope(r.graph);
    return r;
}

static void finish(struct recorded *r)
{
    bp_graph_destroy(r->graph);
    fixture_finish(&r->f);
}

Test(graph, the_same_calls_record_and_run)
{
    struct recorded r = begin();
    struct bp_tensor *x, *y, *s, *z, *real[2], *out = NULL;
    struct bp_graph_info info = {.size = sizeof info};

    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(3), &x));
    OK(bp_graph_input(r.graph, "y", BP_F32, 2, SHAPE(2, 1), &y));
    OK(bp_op_add(r.scope, x, y, &s));
    OK(bp_op_mul(r.scope, s, s, &z));
    OK(bp_graph_output(r.graph, z, "squares"));
    OK(bp_graph_info(r.graph, &info));
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
    finish(&r);
}

Test(graph, symbolic_tensors_have_a_type_and_no_memory)
{
    struct recorded r = begin();
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *x, *t, *real = tensor_of(&r.f, BP_F32, 1, SHAPE(2), F32(1, 2)), *z = NULL;
    struct bp_graph *other;
    float data[6] = {0};
    void *address;

    OK(bp_graph_input(r.graph, NULL, BP_F32, 2, SHAPE(2, 3), &x));
    OK(bp_op_transpose(r.scope, x, NULL, &t));
    OK(bp_tensor_info(t, &info));
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
    finish(&r);
    bp_tensor_destroy(t); /* outlives its graph's handle */
}

Test(graph, mistakes_are_found_while_recording)
{
    struct recorded r = begin();
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
    finish(&r);
}

/* On a device that has no softmax: tests/plugins/partial.c. */
Test(graph, a_failure_names_the_node)
{
    struct bp_node_info node = {.size = sizeof node};
    struct bp_value_info value = {.size = sizeof value};
    struct bp_tensor *x, *z, *real, *out = NULL;
    struct recorded r;
    struct fixture p;
    uint32_t index;

    setenv("BP_FALLBACK", "deny", 1);
    r = begin();
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
    FAILS(BP_ERR_UNSUPPORTED, "node attention: softmax: no kernel of partial:0",
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
    finish(&r);
}

Test(graph, real_tensors_become_constants)
{
    struct recorded r = begin();
    struct bp_tensor *x, *z, *w = tensor_of(&r.f, BP_F32, 1, SHAPE(2), F32(10, 20)), *real;
    struct bp_tensor *out = NULL;
    struct bp_value_info value = {.size = sizeof value};

    OK(bp_graph_input(r.graph, "x", BP_F32, 1, SHAPE(2), &x));
    OK(bp_op_add(r.scope, x, w, &z));
    bp_tensor_destroy(z);
    OK(bp_op_mul(r.scope, x, w, &z));
    bp_tensor_destroy(w); /* the graph keeps it */
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
    finish(&r);
}

/* Outputs that the app gives, an output that is an input, one value that is two outputs. */
Test(graph, outputs_are_given_or_made)
{
    struct recorded r = begin();
    struct bp_tensor *x, *z, *real = tensor_of(&r.f, BP_F32, 1, SHAPE(2), F32(1, 2));
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
    finish(&r);
}

/* Gradient rules are the same calls: they record too. */
Test(graph, gradients_are_recorded)
{
    struct recorded r = begin();
    struct bp_tensor *x, *y, *z, *dz, *dx[2] = {NULL}, *real[3], *out[2] = {NULL};
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
    finish(&r);
}
