/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_training.c: tests compiled programs that train: random numbers, inputs that are read
 * for their shape only, gradients, and updates of parameters. */
#include "pass_kit.h"

#include <stdlib.h>

/* ---- random numbers ---- */

struct drawn {
    float value[2][256];
    uint64_t seed, offset; /* of the generator, afterwards */
};

static void keep_drawn(struct text_graph *g, struct bp_generator *generator,
                       struct bp_tensor **out, struct drawn *to)
{
    for (uint32_t o = 0; o < 2; o++) {
        OK(bp_tensor_read(g->f.stream, out[o], to->value[o], sizeof to->value[o]));
        bp_tensor_destroy(out[o]);
        out[o] = NULL;
    }
    OK(bp_generator_get(generator, &to->seed, &to->offset));
}

/* A program draws what bp_graph_run draws, other numbers in each run, also if the compiler removes
 * a random node before the others; and equal random nodes stay apart. */
Test(training, a_program_draws_the_numbers_of_a_run_node_by_node)
{
    struct text_graph g = text_begin();
    struct bp_tensor *out[2] = {NULL};
    struct drawn compiled[2], node_by_node[2];
    struct bp_program_info info = {.size = sizeof info};
    struct bp_generator *generator;
    struct bp_program *program;

    g.apart = true;
    text_record(&g, "a = dropout(x[16,16]; p=0.25, training=1)\n"
                    "b = dropout(x; p=0.5, training=1)\n"
                    "u = uniform(_; shape=3)\n"
                    "c = dropout(x; p=0.5, training=1)\n"
                    "return b, c");
    OK(bp_generator_create(7, &generator));
    OK(bp_generator_set(generator, 7, 11));
    OK(bp_stream_set_generator(g.f.stream, generator));
    OK(bp_program_create(g.graph, g.f.device, &program));
    for (int run = 0; run < 2; run++) {
        OK(bp_program_run(program, g.f.stream, g.in, g.n_in, out, 2));
        keep_drawn(&g, generator, out, &compiled[run]);
    }
    OK(bp_program_get_info(program, &info));
    cr_assert_eq(info.compiled, 1, "%s", info.not_compiled);
    cr_assert_eq(info.launches, 2, "%u launches", info.launches);
    OK(bp_generator_set(generator, 7, 11));
    for (int run = 0; run < 2; run++) {
        OK(bp_graph_run(g.graph, g.f.stream, g.in, g.n_in, out, 2));
        keep_drawn(&g, generator, out, &node_by_node[run]);
    }
    for (int run = 0; run < 2; run++)
        cr_assert(!memcmp(&compiled[run], &node_by_node[run], sizeof *compiled), "run %d", run);
    cr_assert(memcmp(compiled[0].value, compiled[1].value, sizeof compiled[0].value),
              "the second run draws the same");
    cr_assert(memcmp(compiled[0].value[0], compiled[0].value[1], sizeof compiled[0].value[0]),
              "two nodes draw the same");
    bp_program_destroy(program);
    OK(bp_stream_set_generator(g.f.stream, NULL));
    bp_generator_destroy(generator);
    text_finish(&g);
}

/* ---- inputs that are read for their shape only ---- */

/* Operators with such inputs: a program gives their kernels no elements of them. */
Test(training, kernels_need_no_elements_of_inputs_that_have_a_shape_only)
{
    static const char *const texts[] = {
        "conv_grad_input(dy[2,6,5,5], w[6,4,3,3], neg(x[2,4,7,7]))",
        "conv_grad_weight(dy[2,6,5,5], x[2,4,7,7], neg(w[6,4,3,3]))",
        "conv_grad_input(dy[2,6,5,5], w[6,2,3,3], neg(x[2,4,7,7]); groups=2)",
        "conv_grad_weight(dy[2,6,5,5], x[2,4,7,7], neg(w[6,2,3,3]); groups=2)",
        "max_pool_grad(dy[1,2,2,2], 0:i64[1,2,2,2], neg(x[1,2,4,4]); window=2_2_1, stride=2_2_1)",
        "avg_pool_grad(dy[1,2,2,2], neg(x[1,2,4,4]); window=2_2_1, stride=2_2_1)",
        "sum_grad(dy[4], neg(x[4,3]); axes=1)",
        "slice_grad(dy[2,3], neg(x[4,3]); starts=1, ends=3, axes=0)",
        "strided_slice_grad(dy[2,3], neg(x[4,3]); starts=1, ends=3, axes=0)",
        "gather_grad(dy[2,3], 1:i64[2], neg(x[4,3]))",
        "embedding_grad(dy[2,3], 1:i64[2], neg(x[4,3]))",
        "gather_nd_grad(dy[2,3], 1:i64[2,1], neg(x[4,3]))",
        "take_along_axis_grad(dy[2,3], 1:i64[2,3], neg(x[4,3]))",
        "full_like(neg(x); value=2)",
        "neg(expand_as(x[1,4], neg(y[4,4])))",
        "shape(neg(x))",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct text_graph g = text_begin();
        struct pass_run run;
        text_record(&g, texts[i]);
        pass_begin(&g, &run);
        cr_assert(strstr(run.text, " = shape\n"), "%s:\n%s", texts[i], run.text);
        pass_apply(&run, bp_pass_clean);
        cr_assert(strncmp(run.ops, "neg ", 4), "%s: %s", texts[i], run.ops);
        pass_finish(&run);
        pass_check_values(&g, 256);
        text_finish(&g);
    }
}

/* Records the gradients of a value in n other ones. */
static void record_gradients(struct text_graph *g, const char *y, const char *const *names,
                             size_t n, struct bp_tensor **dx)
{
    struct bp_tensor *x[TEXT_OUTPUTS], *of = text_find(g, y), *one = NULL;
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_ones_attrs attrs = bp_ones_defaults();

    OK(bp_tensor_get_info(of, &info));
    attrs.shape = (struct bp_dims){info.shape, info.rank};
    OK(bp_op_ones(g->f.scope, NULL, &attrs, &one));
    for (size_t i = 0; i < n; i++) x[i] = text_find(g, names[i]);
    OK(bp_graph_gradient(g->graph, &of, &one, 1, x, n, dx));
    bp_tensor_destroy(one);
}

static struct bp_program_info program_describe(const struct text_graph *g)
{
    struct bp_program_info info = {.size = sizeof info};
    struct bp_program *program;

    OK(bp_program_create(g->graph, g->f.device, &program));
    OK(bp_program_compile(program));
    OK(bp_program_get_info(program, &info));
    bp_program_destroy(program);
    return info;
}

/* The gradient of convolutions in the image reads shapes of the forward only: nothing of the
 * forward is computed, and the arena has room for one gradient, not for the activations. */
Test(training, a_gradient_that_reads_shapes_computes_no_forward)
{
    static const char *const x[] = {"x"};
    struct text_graph g = text_begin();
    struct bp_program_info info;
    struct bp_tensor *dx[1];

    text_record(&g, "a = conv(x[1,4,9,9], u![4,4,3,3], _; pad=1)\n"
                    "b = conv(a, v![4,4,3,3], _; pad=1)\n"
                    "c = conv(b, w![4,4,3,3], _; pad=1)\n"
                    "s = sum(c)\nreturn neg(x)");
    record_gradients(&g, "s", x, 1, dx);
    OK(bp_graph_output(g.graph, dx[0], "dx"));
    info = program_describe(&g);
    cr_assert_eq(info.launches, 5, "%u launches", info.launches); /* neg and sum_grad too */
    bp_tensor_destroy(dx[0]);
    text_finish(&g);
}

/* ---- a step of training ---- */

struct step_case {
    const char *text;              /* the forward; the value `loss` is a scalar */
    const char *param[TEXT_OUTPUTS]; /* constants that the optimizer changes; NULL ends the list */
    bool adam;
    double terms;
};

/* Records an update of a parameter by its gradient. */
static void record_sgd(struct text_graph *g, struct bp_tensor *w, struct bp_tensor *dw)
{
    struct bp_tensor *lr = tensor_of(&g->f, BP_F32, 0, NULL, F32(0.125F)), *out = NULL;

    OK(bp_op_sgd(g->scope, w, dw, lr, &out));
    bp_tensor_destroy(lr);
    bp_tensor_destroy(out);
}

static void record_adam(struct text_graph *g, struct bp_tensor *w, struct bp_tensor *dw)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_zeros_attrs zeros = bp_zeros_defaults();
    struct bp_tensor *in[7] = {w, dw}, *out[5] = {NULL};
    struct bp_arg arg[8] = {{NULL, 0}};
    struct bp_call call = {.size = sizeof call, .op = "adam", .in = arg, .n_in = 7};

    OK(bp_tensor_get_info(w, &info));
    zeros.shape = (struct bp_dims){info.shape, info.rank};
    in[2] = tensor_of(&g->f, BP_F32, 0, NULL, F32(0.0625F));
    for (int i = 3; i < 5; i++) OK(bp_op_zeros(g->f.scope, NULL, &zeros, &in[i]));
    in[5] = tensor_of(&g->f, BP_F32, 0, NULL, F32(0.9F));
    in[6] = tensor_of(&g->f, BP_F32, 0, NULL, F32(0.999F));
    for (int i = 0; i < 7; i++) arg[i] = (struct bp_arg){&in[i], 1};
    OK(bp_call_run(g->scope, &call, out, 5, NULL));
    for (int i = 0; i < 5; i++) bp_tensor_destroy(out[i]);
    for (int i = 2; i < 7; i++) bp_tensor_destroy(in[i]);
}

/* Records the forward, the gradients of its loss and the updates. */
static struct text_graph step_record(const struct step_case *step)
{
    struct text_graph g = text_begin();
    struct bp_tensor *dx[TEXT_OUTPUTS];
    size_t n = 0;

    text_record(&g, step->text);
    while (step->param[n]) n++;
    record_gradients(&g, "loss", step->param, n, dx);
    for (size_t i = 0; i < n; i++) {
        cr_assert_not_null(dx[i], "%s has no gradient", step->param[i]);
        if (step->adam) record_adam(&g, text_find(&g, step->param[i]), dx[i]);
        else record_sgd(&g, text_find(&g, step->param[i]), dx[i]);
        bp_tensor_destroy(dx[i]);
    }
    return g;
}

static float step_loss(struct text_graph *g, struct bp_program *program)
{
    struct bp_tensor *out[1] = {NULL};
    float loss;

    if (program) OK(bp_program_run(program, g->f.stream, g->in, g->n_in, out, 1));
    else OK(bp_graph_run(g->graph, g->f.stream, g->in, g->n_in, out, 1));
    OK(bp_tensor_read(g->f.stream, out[0], &loss, sizeof loss));
    bp_tensor_destroy(out[0]);
    return loss;
}

/* Five steps of a program and of runs node by node from the same parameters. */
static void expect_steps(const struct step_case *step)
{
    struct text_graph a = step_record(step), b = step_record(step);
    struct bp_program_info info = {.size = sizeof info};
    struct bp_program *program;
    float first = 0, compiled = 0, eager = 0;

    OK(bp_program_create(a.graph, a.f.device, &program));
    for (int i = 0; i < 5; i++) {
        compiled = step_loss(&a, program);
        eager = step_loss(&b, NULL);
        if (!i) first = eager;
        cr_assert_float_eq(compiled, eager, (float)step->terms * 0x1p-24F, "step %d: %.9g, %.9g",
                           i, (double)compiled, (double)eager);
    }
    OK(bp_program_get_info(program, &info));
    cr_assert_eq(info.compiled, 1, "not compiled: %s", info.not_compiled);
    cr_assert(compiled != first, "the loss does not change");
    bp_program_destroy(program);
    text_finish(&a);
    text_finish(&b);
}

static const struct step_case steps[] = {
    {"h = relu(add(matmul(x[8,6], u~[6,5]), b~[5]))\n"
     "e = sub(matmul(h, w~[5,3]), t[8,3])\n"
     "loss = mean(mul(e, e))\nreturn loss",
     {"u", "b", "w"}, false, 4096},
    {"c = conv(x[2,3,8,8], k~[4,3,3,3], _; pad=1_1_0_1_1_0)\n"
     "h = relu(batch_norm_train(c, s~[4], o~[4], m[4], v[4]))\n"
     "p = max_pool(h; window=2_2_1, stride=2_2_1)\n"
     "f = matmul(reshape(p; shape=2_64), w~[64,5])\n"
     "loss = cross_entropy(f, 1:i64[2])\nreturn loss",
     {"k", "s", "o", "w"}, true, 65536},
    {"q = matmul(x[2,4,8], wq~[8,8])\n"
     "k = matmul(x, wk~[8,8])\n"
     "v = matmul(x, wv~[8,8])\n"
     "p = softmax(mul(matmul(q, transpose(k; perm=0_2_1)), 0.25))\n"
     "h = layer_norm(add(matmul(p, v), x), g~[8], b~[8])\n"
     "z = add(matmul(gelu(matmul(h, w1~[8,16])), w2~[16,8]), h)\n"
     "loss = mean(mul(z, z))\nreturn loss",
     {"wq", "wk", "wv", "g", "b", "w1", "w2"}, true, 65536},
};

Test(training, a_step_is_one_compiled_program)
{
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) expect_steps(&steps[i]);
}

/* ---- computations that the forward and the gradient share ---- */

static uint32_t count_launches(const struct bp_schedule *s, const char *op)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_launch; i++)
        n += !strcmp(s->launch[i].step->row->info.name, op);
    return n;
}

static bool same_launch(const struct bp_scheduled_launch *a, const struct bp_scheduled_launch *b)
{
    const struct bp_step *x = a->step, *y = b->step;

    if (x->row != y->row || x->launch.n_in != y->launch.n_in || !x->launch.n_in) return false;
    for (uint32_t i = 0; i < x->launch.n_in; i++)
        if (a->value[i] != b->value[i]) return false;
    return bp_attrs_same(&x->row->info, x->attrs ? x->attrs : a->prepared->attrs,
                         y->attrs ? y->attrs : b->prepared->attrs);
}

/* No operator runs twice with the same inputs. */
static void expect_no_launch_twice(const struct bp_schedule *s)
{
    for (uint32_t i = 0; i < s->n_launch; i++)
        for (uint32_t k = 0; k < i; k++)
            cr_assert(!same_launch(&s->launch[i], &s->launch[k]), "%s runs twice",
                      s->launch[i].step->row->info.name);
}

/* Pools of other windows are not shared. */
Test(training, pools_of_other_windows_stay)
{
    pass_expect("p = max_pool(x[1,2,4,4]; window=2_2_1, stride=2_2_1)\n"
                "q = max_pool_with_index(x; window=3_3_1, stride=1_1_1)\n"
                "return add(p, q)",
                bp_pass_reuse, "max_pool max_pool_with_index add", 16);
    pass_expect("p = max_pool(x[1,2,4,4]; window=2_2_1, stride=2_2_1)\n"
                "q = max_pool_with_index(x; window=2_2_1, stride=2_2_1)\n"
                "return add(p, q)",
                bp_pass_reuse, "max_pool_with_index add", 16);
}

static const struct shared_case {
    struct step_case step;
    struct {
        const char *op;
        uint32_t n;
    } launches[4];
} shared[] = {
    {{"c = conv(x[2,3,8,8], k~[4,3,3,3], _; pad=1_1_0_1_1_0)\n"
      "h = relu(batch_norm_train(c, s~[4], o~[4], m[4], v[4]))\n"
      "p = max_pool(h; window=2_2_1, stride=2_2_1)\n"
      "f = matmul(reshape(p; shape=2_64), w~[64,5])\n"
      "loss = cross_entropy(f, 1:i64[2])\nreturn loss",
      {"k", "s", "o", "w"}, false, 65536},
     {{"max_pool", 0}, {"max_pool_with_index", 1}, {"label_loss", 1}, {"conv", 1}}},
    {{"q = matmul(x[2,2,4,8], wq~[8,8])\n"
      "k = matmul(x, wk~[8,8])\n"
      "v = matmul(x, wv~[8,8])\n"
      "a = attention(q, k, v, _)\n"
      "h = layer_norm(add(a, x), g~[8], b~[8])\n"
      "loss = mean(mul(h, h))\nreturn loss",
      {"wq", "wk", "wv", "g", "b"}, false, 65536},
     {{"attention", 0}, {"softmax", 1}, {"layer_norm", 1}, {NULL, 0}}},
};

/* Of each operator, the forward and the gradient need one launch together. */
Test(training, gradients_share_what_the_forward_computes)
{
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        struct text_graph g = step_record(&shared[i].step);
        struct bp_schedule *s;
        OK(bp_compile(g.graph, g.f.device, &s));
        expect_no_launch_twice(s);
        for (int k = 0; k < 4 && shared[i].launches[k].op; k++)
            cr_expect_eq(count_launches(s, shared[i].launches[k].op), shared[i].launches[k].n,
                         "case %zu: %u launches of %s", i,
                         count_launches(s, shared[i].launches[k].op), shared[i].launches[k].op);
        bp_schedule_destroy(s);
        text_finish(&g);
        expect_steps(&shared[i].step);
    }
}
