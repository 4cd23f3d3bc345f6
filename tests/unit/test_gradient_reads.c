/* SPDX-License-Identifier: Apache-2.0 */
/* test_gradient_reads.c: tests which tensors the gradient of a call reads
 * (bp_call_gradient_reads): the others may have any contents. */
#include "fixture.h"

#include <math.h>

static const char *const operators[] = {"add", "sub", "mul", "div", "maximum", "matmul", "pow",
                                        "exp", "tanh", "relu", "sqrt", "neg", "softmax", "square",
                                        "gelu", "silu", "log_softmax"};
enum { OPERATORS = sizeof operators / sizeof *operators };

struct sample {
    struct fixture f;
    const struct bp_opinfo *op;
    struct bp_tensor *x[2], *y, *dy;
    struct bp_arg in[2];
    struct bp_call call;
    uint8_t n_in, reads[2], reads_out;
};

static struct bp_tensor *square_of(struct fixture *f, float first)
{
    float v[9];

    for (int i = 0; i < 9; i++) v[i] = first + 0.25f * (float)(i * 5 % 9);
    return tensor_of(f, BP_F32, 2, SHAPE(3, 3), v);
}

static void sample_init(struct sample *s, const char *op, const uint8_t *want)
{
    *s = (struct sample){.f = fixture_init(), .op = bp_opinfo_find(op)};
    cr_assert_not_null(s->op, "%s", op);
    s->x[0] = square_of(&s->f, 0.5f);
    s->x[1] = square_of(&s->f, 0.75f);
    s->dy = square_of(&s->f, -1);
    s->n_in = (uint8_t)s->op->n_in;
    for (int i = 0; i < 2; i++) s->in[i] = (struct bp_arg){&s->x[i], 1};
    s->call = (struct bp_call){.size = sizeof s->call, .op = op, .in = s->in, .n_in = s->n_in};
    OK(bp_call_run(s->f.scope, &s->call, &s->y, 1, NULL));
    OK(bp_call_gradient_reads(&s->call, want, s->reads, s->n_in, &s->reads_out, 1));
}

static void sample_finish(struct sample *s)
{
    bp_tensor_destroy(s->x[0]), bp_tensor_destroy(s->x[1]);
    bp_tensor_destroy(s->y), bp_tensor_destroy(s->dy);
    fixture_finish(&s->f);
}

static void reads_expect(const char *op, uint8_t want0, uint8_t want1, uint8_t x0, uint8_t x1,
                         uint8_t y)
{
    struct sample s;

    sample_init(&s, op, (const uint8_t[]){want0, want1});
    cr_assert_eq(s.reads[0], x0, "%s: input 0", op);
    if (s.n_in > 1) cr_assert_eq(s.reads[1], x1, "%s: input 1", op);
    cr_assert_eq(s.reads_out, y, "%s: output", op);
    sample_finish(&s);
}

Test(gradient_reads, depend_on_the_rule_and_on_wanted_gradients)
{
    reads_expect("add", 1, 1, 0, 0, 0);
    reads_expect("sub", 1, 1, 0, 0, 0);
    reads_expect("mul", 1, 1, 1, 1, 0);
    reads_expect("mul", 1, 0, 0, 1, 0);
    reads_expect("mul", 0, 1, 1, 0, 0);
    reads_expect("mul", 0, 0, 0, 0, 0);
    reads_expect("matmul", 0, 1, 1, 0, 0);
    reads_expect("neg", 1, 0, 0, 0, 0);
    reads_expect("square", 1, 0, 1, 0, 0);
    reads_expect("sum", 1, 0, 0, 0, 0); /* sum_grad reads the shape of x */
}

/* A tensor of this shape without memory for its elements: one NaN. */
static struct bp_tensor *sample_shape(struct sample *s, struct bp_buffer *one)
{
    const struct bp_tensor_options options = {.size = sizeof options, .dtype = BP_F32, .rank = 2,
                                              .shape = SHAPE(3, 3), .stride = SHAPE(0, 0)},
                                   scalar = {.size = sizeof scalar, .dtype = BP_F32};
    struct bp_tensor *t = NULL, *whole = NULL;

    OK(bp_tensor_create_over(one, 0, &scalar, &whole));
    OK(bp_tensor_write(s->f.stream, whole, &(float){NAN}, sizeof(float)));
    bp_tensor_destroy(whole);
    OK(bp_tensor_create_over(one, 0, &options, &t));
    return t;
}

/* The gradients are the same without the elements that are not read. */
static void sample_compare(struct sample *s, const uint8_t *want)
{
    struct bp_tensor *dx[2] = {NULL}, *again[2] = {NULL}, *x[2] = {s->x[0], s->x[1]}, *y, *none;
    struct bp_arg in[2] = {{&x[0], 1}, {&x[1], 1}};
    struct bp_call call = s->call;
    struct bp_buffer *one = NULL;
    float expected[9], got[9];

    OK(bp_buffer_create(s->f.device, NULL, BP_SPACE_DEVICE, sizeof(float), &one));
    none = sample_shape(s, one);
    y = s->reads_out ? s->y : none;
    for (int i = 0; i < s->n_in; i++)
        if (!s->reads[i]) x[i] = none;
    call.in = in;
    OK(bp_call_gradient(s->f.scope, &s->call, &s->y, &s->dy, 1, want, dx, s->n_in));
    OK(bp_call_gradient(s->f.scope, &call, &y, &s->dy, 1, want, again, s->n_in));
    for (int i = 0; i < s->n_in; i++) {
        if (!want[i]) continue;
        OK(bp_tensor_read(s->f.stream, dx[i], expected, sizeof expected));
        OK(bp_tensor_read(s->f.stream, again[i], got, sizeof got));
        cr_assert_arr_eq(got, expected, sizeof got, "%s: gradient %d", s->op->name, i);
        for (int k = 0; k < 9; k++) cr_assert(isfinite(got[k]), "%s: dx[%d]", s->op->name, i);
        bp_tensor_destroy(dx[i]), bp_tensor_destroy(again[i]);
    }
    bp_tensor_destroy(none);
    bp_buffer_destroy(one);
}

/* So the framework may pass a tensor without memory for the input of a sum. */
Test(gradient_reads, a_shape_is_enough)
{
    struct sample s;
    struct bp_buffer *one = NULL;
    struct bp_tensor *x, *dx[1] = {NULL}, *dy;
    struct bp_arg in[1] = {{&x, 1}};
    float got[9];

    sample_init(&s, "sum", (const uint8_t[]){1});
    OK(bp_buffer_create(s.f.device, NULL, BP_SPACE_DEVICE, sizeof(float), &one));
    x = sample_shape(&s, one);
    dy = tensor_of(&s.f, BP_F32, 0, NULL, F32(3));
    s.call.in = in;
    OK(bp_call_gradient(s.f.scope, &s.call, &s.y, &dy, 1, (const uint8_t[]){1}, dx, 1));
    OK(bp_tensor_read(s.f.stream, dx[0], got, sizeof got));
    for (int k = 0; k < 9; k++) cr_assert_float_eq(got[k], 3, 0, "dx[%d] is %g", k, (double)got[k]);
    bp_tensor_destroy(x), bp_tensor_destroy(dy), bp_tensor_destroy(dx[0]);
    bp_buffer_destroy(one);
    sample_finish(&s);
}

Test(gradient_reads, other_tensors_need_no_elements, .timeout = 60)
{
    static const uint8_t wants[3][2] = {{1, 1}, {1, 0}, {0, 1}};

    for (int o = 0; o < OPERATORS; o++)
        for (int w = 0; w < 3; w++) {
            struct sample s;
            if (bp_opinfo_find(operators[o])->n_in == 1 && w) continue;
            sample_init(&s, operators[o], wants[w]);
            sample_compare(&s, wants[w]);
            sample_finish(&s);
        }
}

Test(gradient_reads, are_found_for_values_of_graphs)
{
    struct fixture f = fixture_init();
    struct bp_tensor *x = NULL, *y = NULL;
    struct bp_arg in[2] = {{&x, 1}, {&y, 1}};
    struct bp_call call = {.size = sizeof call, .op = "mul", .in = in, .n_in = 2};
    struct bp_graph_info before = {.size = sizeof before}, after = {.size = sizeof after};
    struct bp_graph *graph;
    uint8_t reads[2] = {9, 9}, out = 9;

    OK(bp_graph_create(f.core, &graph));
    OK(bp_graph_input(graph, NULL, BP_F32, 1, SHAPE(4), &x));
    OK(bp_graph_input(graph, NULL, BP_F32, 1, SHAPE(1), &y));
    OK(bp_graph_get_info(graph, &before));
    OK(bp_call_gradient_reads(&call, (const uint8_t[]){1, 0}, reads, 2, &out, 1));
    OK(bp_graph_get_info(graph, &after));
    cr_assert(!reads[0] && reads[1] && !out);
    cr_assert_eq(before.nodes, after.nodes);
    cr_assert_eq(before.values, after.values);
    bp_tensor_destroy(x), bp_tensor_destroy(y);
    bp_graph_destroy(graph);
    fixture_finish(&f);
}

Test(gradient_reads, refuses)
{
    struct sample s;
    uint8_t all[3] = {1, 1, 1}, out[2] = {7, 7};

    sample_init(&s, "add", all);
    FAILS(BP_ERR_INVALID, "is NULL", bp_call_gradient_reads(&s.call, NULL, out, 2, out, 1));
    FAILS(BP_ERR_INVALID, "room for 3", bp_call_gradient_reads(&s.call, all, out, 3, out, 1));
    s.call.op = "floor_mod_of_nothing";
    FAILS(BP_ERR_NOT_FOUND, "floor_mod_of_nothing",
          bp_call_gradient_reads(&s.call, all, out, 2, out, 1));
    s.call.op = "add";
    s.call.n_in = 0;
    FAILS(BP_ERR_INVALID, "no tensor", bp_call_gradient_reads(&s.call, all, out, 2, out, 1));
    cr_assert(out[0] == 7 && out[1] == 7);
    sample_finish(&s);
}
