/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_epilogue.c: tests the pass `epilogue`, which merges additions and activations into the
 * convolution or product before them. */
#include "pass_kit.h"

/* An element is a sum of at most 40 products of magnitude below 2.25; an activation's slope is at
 * most 3. */
static const double epilogue_terms = 3 * 41 * 2.25;

#define CONV "conv(x[2,4,5,5], w[6,4,3,3], c[6])"
#define PLAIN "conv(x[2,4,5,5], w[6,4,3,3], _)"
#define PRODUCT "matmul(x[3,5], w[5,4])"
#define LINEAR "linear(x[3,5], w[4,5], c[4])"
#define LARGE_PRODUCT "add(matmul(x[32,40], w[40,32]), r[32,32])"
#define LARGE_CONV "add(conv(x[2,4,16,16], w[8,4,3,3], c[8]), r[2,8,14,14])"

/* A text, and what the graph's text contains after the pass. */
struct epilogue_case {
    const char *text, *ops, *contains;
};

static void expect_epilogue(const struct epilogue_case *c, char special)
{
    struct text_graph g = text_begin();
    struct pass_run run;

    g.special = special;
    text_record(&g, c->text);
    pass_begin(&g, &run);
    pass_apply(&run, bp_pass_epilogue);
    cr_assert_str_eq(run.ops, c->ops, "%s:\n%s", c->text, run.text);
    cr_assert(!c->contains || strstr(run.text, c->contains), "%s: no '%s' in\n%s", c->text,
              c->contains, run.text);
    pass_finish(&run);
    pass_check_values(&g, epilogue_terms);
    text_finish(&g);
}

static void expect_all(const struct epilogue_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        expect_epilogue(&cases[i], 0);
        expect_epilogue(&cases[i], 'x');
        expect_epilogue(&cases[i], 'r');
    }
}

static const struct {
    const char *text, *contains;
} activations[] = {
    {"relu(%s)", " activation=1 "},
    {"leaky_relu(%s; slope=0.25)", " activation=2 alpha=0.25 "},
    {"clip(%s; min=-0.5, max=0.75)", " activation=3 alpha=-0.5 beta=0.75 "},
    {"sigmoid(%s)", " activation=4 "},
    {"tanh(%s)", " activation=5 "},
    {"hard_sigmoid(%s; slope=0.25, offset=0.375)", " activation=6 alpha=0.25 beta=0.375 "},
    {"hard_swish(%s)", " activation=7 "},
    {"swish(%s)", " activation=8 "},
    {"gelu(%s)", " activation=9 "},
    {"gelu(%s; approximate=1)", " activation=10 "},
    {"mish(%s)", " activation=11 "},
    {"elu(%s; alpha=0.75)", " activation=12 alpha=0.75 "},
    {"softplus(%s; beta=1.5, threshold=4)", " activation=13 alpha=1.5 beta=4 "},
};

/* Small products, which no library computes, and large ones. Special numbers of x meet in all sums,
 * those of the residual r reach the activation one by one. */
Test(epilogue, activations_are_merged)
{
    static const char *const products[] = {CONV, PLAIN, PRODUCT, LINEAR, LARGE_PRODUCT, LARGE_CONV};
    static const char *const fused[] = {"fused_conv",   "fused_conv",   "fused_matmul",
                                        "fused_matmul", "fused_matmul", "fused_conv"};

    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        for (int p = 0; p < 6; p++) {
            char text[256];
            snprintf(text, sizeof text, activations[i].text, products[p]);
            expect_epilogue(&(struct epilogue_case){text, fused[p], activations[i].contains}, 0);
            expect_epilogue(&(struct epilogue_case){text, fused[p], activations[i].contains}, 'x');
            expect_epilogue(&(struct epilogue_case){text, fused[p], activations[i].contains}, 'r');
        }
}

Test(epilogue, biases_and_residuals_are_merged)
{
    static const struct epilogue_case cases[] = {
        {"add(" PLAIN ", b![6,1,1])", "reshape fused_conv", NULL},
        {"add(b![1,6,1,1], " PLAIN ")", "reshape fused_conv", NULL},
        {"add(" PRODUCT ", b![4])", "fused_matmul", NULL},
        {"add(b![1,4], " PRODUCT ")", "reshape fused_matmul", NULL},
        {"add(" PLAIN ", r[2,6,3,3])", "fused_conv", NULL},
        {"add(r[2,6,3,3], " CONV ")", "fused_conv", NULL},
        {"add(" PRODUCT ", r[3,4])", "fused_matmul", NULL},
        {"add(r[3,4], " LINEAR ")", "fused_matmul", " transpose_b=1 "},
        {"relu(add(add(" PRODUCT ", b![4]), r[3,4]))", "fused_matmul", " activation=1 "},
        {"relu(add(r[2,6,3,3], add(" PLAIN ", b![6,1,1])))", "reshape fused_conv", NULL},
        {"tanh(add(add(" PRODUCT ", r[3,4]), b![4]))", "fused_matmul", NULL},
        {"relu(conv(x[2,4,7,7], w[6,2,3,3], c[6]; groups=2, pad=1_2_0_1_0_0, stride=2_1_1, "
         "dilation=1_2_1))",
         "fused_conv", " stride=2,1,1 dilation=1,2,1 pad=1,2,0,1,0,0 groups=2 "},
        {"relu(matmul(x[2,5,3], w[2,4,5]; transpose_a=1, transpose_b=1))", "fused_matmul",
         " transpose_a=1 transpose_b=1 "},
        {"relu(matmul(x[2,3,5], w[5,4]))", "fused_matmul", NULL},
        {"relu(conv(x[2,4,9], w[6,4,3], c[6]))", "fused_conv", NULL},
        {"relu(conv(x[1,4,3,3,3], w[6,4,2,2,2], _))", "fused_conv", NULL},
    };

    expect_all(cases, sizeof cases / sizeof *cases);
}

/* Of two products that are added, the later one takes the other one's result. */
Test(epilogue, the_later_of_two_products_is_merged)
{
    static const struct epilogue_case cases[] = {
        {"a = " PRODUCT "\nb = matmul(y[3,5], w)\nadd(a, b)", "matmul fused_matmul",
         "matmul_1+add_2"},
        {"a = " PRODUCT "\nb = matmul(y[3,5], w)\nadd(b, a)", "matmul fused_matmul",
         "matmul_1+add_2"},
        {"a = " PLAIN "\nb = conv(y[2,4,5,5], w, _)\nrelu(add(a, b))", "conv fused_conv", NULL},
    };

    expect_all(cases, sizeof cases / sizeof *cases);
}

Test(epilogue, only_the_first_of_two_activations_is_merged)
{
    static const struct epilogue_case cases[] = {
        {"tanh(relu(" CONV "))", "fused_conv tanh", " activation=1 "},
        {"relu(sigmoid(" PRODUCT "))", "fused_matmul relu", " activation=4 "},
        {"add(relu(" PRODUCT "), r[3,4])", "fused_matmul add", " activation=1 "},
        {"add(relu(" PRODUCT "), b![4])", "fused_matmul add", " activation=1 "},
        {"add(add(" PRODUCT ", r[3,4]), s[3,4])", "fused_matmul add", NULL},
    };

    expect_all(cases, sizeof cases / sizeof *cases);
}

/* ---- near misses ---- */

static const struct epilogue_case misses[] = {
    {"add(" PRODUCT ", r[4])", "matmul add", "a bias that is an input"},
    {"add(" PRODUCT ", b~[4])", "matmul add", "a bias that is not frozen"},
    {"add(" PRODUCT ", r[3,1])", "matmul add", "a residual that is broadcast"},
    {"add(" PRODUCT ", b![3,1])", "matmul add", "a constant of each row"},
    {"add(" PRODUCT ", 0.5)", "matmul add", "a number"},
    {"add(" PRODUCT ", r[2,3,4])", "matmul add", "a sum of a higher rank"},
    {"add(matmul(x[1,5], w[5,4]), r[3,4])", "matmul add", "a sum of more rows"},
    {"add(conv(x[2,4,8,8], w[6,4,3,3], _), b![6])", "conv add", "a bias of the last axis"},
    {"add(" PLAIN ", b![6,3,1])", "conv add", "a bias of two axes"},
    {"y = " PRODUCT "\nadd(y, y)", "matmul add", "a product that is its own residual"},
    {"y = " PRODUCT "\nreturn relu(y), y", "matmul relu", "a product that is an output"},
    {"y = " PRODUCT "\nz = neg(y)\nreturn relu(y), z", "matmul neg relu", "a second reader"},
    {"y = " CONV "\nreturn add(y, r[2,6,3,3]), y", "conv add", "a convolution that is an output"},
    {"swish(" PRODUCT "; beta=2)", "matmul swish", "a swish with another beta"},
    {"relu(conv_transpose(x[2,4,3,3], w[4,6,3,3], _))", "conv_transpose relu",
     "a transposed convolution"},
    {"matmul(relu(x[3,5]), w[5,4])", "relu matmul", "an activation before"},
    {"sub(" PRODUCT ", r[3,4])", "matmul sub", "a difference"},
    {"y = " PRODUCT "\nu = neg(x)\nsgd(x, u, 0.25~)\nrelu(y)", "matmul neg sgd relu",
     "an input that is updated in between"},
    {"y = " PRODUCT "\nsgd(r[3,4], y, 0.25~)\nadd(y, r)", "matmul sgd add",
     "a residual that is updated by the product"},
    {"y = " PRODUCT "\nz = add(y, r[3,4])\nu = neg(r)\nsgd(r, u, 0.25~)\nreturn z",
     "matmul add neg sgd", "a residual that is updated later"},
};

Test(epilogue, near_misses_are_not_merged)
{
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++) {
        struct text_graph g = text_begin();
        struct pass_run run;
        text_record(&g, misses[i].text);
        pass_begin(&g, &run);
        pass_apply(&run, bp_pass_epilogue);
        cr_assert_str_eq(run.ops, misses[i].ops, "%s:\n%s", misses[i].contains, run.text);
        pass_expect_same(&run, misses[i].contains);
        pass_finish(&run);
        if (!strstr(misses[i].text, "sgd")) pass_check_values(&g, epilogue_terms);
        text_finish(&g);
    }
}

/* A product with a vector has no axis for a bias, but a residual of its shape. */
Test(epilogue, a_vector_has_no_bias)
{
    static const struct epilogue_case cases[] = {
        {"add(matmul(x[4,5], w[5]), b![4])", "fused_matmul", NULL},
        {"relu(matmul(x[5], w[5,4]))", "fused_matmul", NULL},
        {"relu(matmul(x[5], w[5]))", "fused_matmul", NULL},
        {"add(matmul(x[5], w[5,4]), b![4])", "fused_matmul", NULL},
    };

    expect_all(cases, sizeof cases / sizeof *cases);
}

Test(epilogue, pinned_kernels_are_not_merged)
{
    pass_expect_pin_kept("relu(" PRODUCT ")", bp_pass_epilogue, 2);
}
