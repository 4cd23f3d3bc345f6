/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_fuse.c: tests the pass `fuse`, which merges elementwise nodes of one shape into calls
 * of `fused`. Each instruction rounds as a call of its own, so that results keep their bits. */
#include "pass_kit.h"

#include <stdio.h>

/* Results must be equal. */
static const double same_terms = 0;

/* A text, the operators after the pass, and what the graph's text contains then. */
struct fuse_case {
    const char *text, *ops, *contains;
};

/* Compares values too, except of graphs with updates: a second run starts from other numbers. */
static void expect_fuse(const struct fuse_case *c, char special)
{
    struct text_graph g = text_begin();
    struct pass_run run;

    g.special = special;
    text_record(&g, c->text);
    pass_begin(&g, &run);
    pass_apply(&run, bp_pass_fuse);
    cr_assert_str_eq(run.ops, c->ops, "%s:\n%s", c->text, run.text);
    cr_assert(!c->contains || strstr(run.text, c->contains), "%s: no '%s' in\n%s", c->text,
              c->contains, run.text);
    pass_finish(&run);
    if (!pass_has(c->ops, "sgd")) pass_check_values(&g, same_terms);
    text_finish(&g);
}

static void fuse_expect_all(const struct fuse_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        expect_fuse(&cases[i], 0);
        expect_fuse(&cases[i], 'x');
    }
}

Test(fuse, groups_become_one_call)
{
    static const struct fuse_case cases[] = {
        {"relu(add(x, y))", "fused", "code=\"r0 = add x0 x1; y0 = relu r0\""},
        {"relu(neg(abs(x)))", "fused", "\"r0 = abs x0; r0 = neg r0; y0 = relu r0\""},
        {"add(mul(x, a![4]), b![4])", "fused", "\"r0 = mul x0 x1; y0 = add r0 x2\""},
        {"mul(x, add(x, x))", "fused", "\"r0 = add x0 x0; y0 = mul x0 r0\""},
        {"a = square(x)\nmul(sigmoid(a), tanh(a))", "fused",
         "\"r0 = square x0; r1 = sigmoid r0; r0 = tanh r0; y0 = mul r1 r0\""},
        {"a = neg(x)\nb = abs(a)\nsgd(b, g[4,4,4], 0.25)\nreturn b", "fused sgd", NULL},
        {"clip(scale(x; factor=0.25, bias=-1); min=-0.5)", "fused",
         "\"r0 = scale x0 factor=0.25 bias=-1; y0 = clip r0 min=-0.5\""},
        {"gelu(leaky_relu(x; slope=0.3); approximate=1)", "fused",
         "\"r0 = leaky_relu x0 slope=0.3; y0 = gelu r0 approximate=1\""},
        {"lerp(neg(x), y, 0.25)", "fused", "\"r0 = neg x0; y0 = lerp r0 x1 x2\""},
        {"relu(add(x:f64, y:f64))", "fused", NULL},
        {"relu(add(x[4,1], y[1,6]))", "fused", NULL},
        {"neg(abs(x[]))", "fused", NULL},
        {"neg(abs(x[0,3]))", "fused", NULL},
    };

    fuse_expect_all(cases, sizeof cases / sizeof *cases);
}

/* Comparisons join the group that reads all of them; their truth values stay inside. */
Test(fuse, truth_values_stay_in_registers)
{
    static const struct fuse_case cases[] = {
        {"where(greater_than(x, y), x, y)", "fused",
         "\"r0 = greater_than x0 x1; y0 = where r0 x0 x1\""},
        {"a = mul(x, y)\nb = greater_than(a, 0.5)\nreturn where(b, z, 0.25)", "fused",
         "\"r0 = mul x0 x1; r1 = greater_than r0 x2; y0 = where r1 x3 x4\""},
        {"masked_fill(mul(x, y), logical_not(less_equal(x, y)), 0.5)", "fused",
         "\"r0 = mul x0 x1; r1 = less_equal x0 x1; r1 = logical_not r1; "
         "y0 = masked_fill r0 r1 x2\""},
        {"mul(x, mask(y, isnan(x); invert=1))", "fused",
         "\"r0 = isnan x0; r1 = mask x1 r0 invert=1; y0 = mul x0 r1\""},
        {"a = logical_and(less_than(x, y), isfinite(y))\nrelu(where(a, neg(x), y))", "fused", NULL},
        {"a = add(x, y)\nb = logical_or(equal(a, x), not_equal(a, y))\nreturn mask(a, b)", "fused",
         NULL},
        {"where(greater_equal(x:f64, y:f64), y, 0.5:f64)", "fused", NULL},
        {"a = mul(x, y)\nb = where(isnan(a), x, y)\nreturn a, b", "fused",
         "\"y0 = mul x0 x1; r0 = isnan y0; y1 = where r0 x0 x1\""},
    };

    fuse_expect_all(cases, sizeof cases / sizeof *cases);
}

Test(fuse, other_truth_values_stay)
{
    static const struct fuse_case cases[] = {
        {"greater_than(x, y)", "greater_than", NULL},
        {"logical_not(greater_than(x, y))", "greater_than logical_not", NULL},
        {"greater_than(mul(x, y), x)", "mul greater_than", NULL},
        {"where(isclose(x, y), neg(x), y)", "isclose neg where", NULL}, /* no operator of code */
        {"relu(where(isclose(x, y), neg(x), y))", "isclose neg where relu", NULL},
        {"where(logical_and(isclose(x, y), isnan(x)), x, y)", "isclose isnan logical_and where",
         NULL},
        {"a = greater_than(x, y)\nb = where(a, x, y)\nreturn a, b", "greater_than where", NULL},
        {"a = greater_than(x, y)\nb = relu(add(x, y))\nc = where(a, b, y)\nreturn a, c",
         "greater_than fused where", NULL},
        {"where(equal(x:i64, y:i64), a, b)", "equal where", NULL},
        {"where(less_than(x:f64, y:f64), a, b)", "less_than where", NULL},
        {"where(less_than(x, y), a:i64, b:i64)", "less_than where", NULL},
        {"where(isnan(c[4]), x, y)", "isnan where", NULL}, /* of a smaller shape */
        {"logical_and(x, y)", "logical_and", NULL},        /* of numbers */
        {"mask(x, logical_and(x, y))", "logical_and mask", NULL},
    };

    fuse_expect_all(cases, sizeof cases / sizeof *cases);
}

Test(fuse, values_that_others_read_are_outputs)
{
    static const struct fuse_case cases[] = {
        {"a = add(x, y)\nb = relu(a)\nreturn a, b", "fused", "\"y0 = add x0 x1; y1 = relu y0\""},
        {"a = add(x, y)\nb = relu(a)\nreturn b, a, a", "fused", NULL},
        {"a = add(x, y)\nb = relu(a)\nc = softmax(a)\nreturn b, c", "fused softmax",
         "\"y0 = add x0 x1; y1 = relu y0\""},
        {"a = add(x, y)\nb = relu(a)\nv = transpose(a; perm=0_2_1)\nreturn b, v", "fused transpose",
         NULL},
    };

    fuse_expect_all(cases, sizeof cases / sizeof *cases);
}

/* The operators before and after the pass. */
Test(fuse, other_nodes_stay)
{
    static const struct fuse_case cases[] = {
        {"relu(x)", "relu", NULL},
        {"softmax(relu(x))", "relu softmax", NULL},
        {"neg(add(x:i64, y:i64))", "add neg", NULL},          /* integers */
        {"mul(x, exp(c[4]))", "exp mul", NULL},               /* of a smaller shape */
        {"mul(x[1,4], exp(c[4]))", "exp mul", NULL},          /* of another rank */
        {"a = relu(x)\nb = softmax(a)\nreturn add(a, b)", "relu softmax add", NULL},
        {"relu(pow(x, y))", "pow relu", NULL},                /* no operator of code */
        {"relu(prelu(x, c[4]))", "prelu relu", NULL},
        {"relu(softmax(neg(x)))", "neg softmax relu", NULL},
        {"a = neg(x)\nsgd(x, g[4,4,4], 0.25)\nb = relu(a)\nreturn b", "neg sgd relu", NULL},
        {"a = neg(y)\nsgd(x, g[4,4,4], 0.25)\nreturn add(x, a)", "neg sgd add", NULL},
        {"a = neg(x)\nb = abs(a)\nsgd(a, g[4,4,4], 0.25)\nc = relu(a)\nreturn b, c",
         "neg abs sgd relu", NULL},
    };

    fuse_expect_all(cases, sizeof cases / sizeof *cases);
}

/* A call stands at its last node, behind other nodes of the list. */
Test(fuse, the_order_is_kept)
{
    static const struct fuse_case cases[] = {
        {"a = neg(x)\nb = softmax(y)\nc = add(a, b)\nreturn c", "softmax fused", NULL},
        {"a = neg(x)\nb = softmax(y)\nc = abs(a)\nd = softmax(c)\nreturn b, d",
         "softmax fused softmax", NULL},
        {"a = add(x, y)\nb = relu(a)\nc = softmax(b)\nd = add(c, a)\ne = relu(d)\nreturn e",
         "fused softmax fused", NULL},
        {"a = neg(x)\nb = relu(a)\nc = softmax(a)\nd = abs(b)\nreturn c, d", "fused softmax abs",
         NULL},
    };

    fuse_expect_all(cases, sizeof cases / sizeof *cases);
}

Test(fuse, pinned_kernels_stay)
{
    pass_expect_pin_kept("relu(add(x, y))", bp_pass_fuse, 2);
}

/* ---- norms ---- */

#define NORM(x) "batch_norm(" x ", g![6], h![6], m![6], v![6])"

static void expect_norm(const char *text, const char *ops)
{
    struct text_graph g = text_begin();
    struct pass_run run;

    text_record(&g, text);
    pass_begin(&g, &run);
    pass_apply(&run, bp_pass_norm);
    pass_apply(&run, bp_pass_fuse);
    cr_assert_str_eq(run.ops, ops, "%s:\n%s", text, run.text);
    pass_finish(&run);
    /* A difference, a product by a folded factor of two roundings, and a sum, each of magnitude
     * below 8 */
    pass_check_values(&g, 5 * 8);
    text_finish(&g);
}

Test(fuse, norms_are_elementwise)
{
    expect_norm("relu(" NORM("x[2,6,5,5]") ")", "fused");
    expect_norm("relu(" NORM("x[2,6]") ")", "fused");
    expect_norm("relu(" NORM("neg(x[2,6,5])") ")", "fused");
    expect_norm("relu(batch_norm(x[2,6,5,5], _, _, m![6], v![6]))", "fused");
    expect_norm("relu(batch_norm(x[2,6,5,5], g![6], _, m![6], v![6]; epsilon=0.25))", "fused");
    expect_norm("relu(batch_norm(x:f64[2,6,5,5], g!:f64[6], h!:f64[6], m!:f64[6], v!:f64[6]))",
                "fused");
    expect_norm(NORM("x[2,6,5,5]"), "fused");
    /* statistics that may change, and of another dtype */
    expect_norm("relu(batch_norm(x[2,6,5,5], g![6], h![6], m~[6], v![6]))", "batch_norm relu");
    expect_norm("relu(batch_norm(x[2,6,5,5], g~[6], h![6], m![6], v![6]))", "batch_norm relu");
}

/* ---- limits ---- */

/* Asserts that a long text becomes calls of `fused` and these further operators. */
static void expect_split(const char *text, const char *ops)
{
    expect_fuse(&(struct fuse_case){text, ops, NULL}, 0);
}

Test(fuse, of_many_nodes)
{
    char text[2048] = "";

    for (int i = 0; i < 64; i++) strcat(text, i % 2 ? "neg(" : "relu(");
    strcat(text, "x");
    for (int i = 0; i < 64; i++) strcat(text, ")");
    expect_split(text, "fused");
    memmove(text + 4, text, strlen(text) + 1);
    memcpy(text, "abs(", 4);
    strcat(text, ")");
    expect_split(text, "fused abs");
}

Test(fuse, of_many_inputs)
{
    char text[2048] = "", part[32];

    for (int i = 0; i < 16; i++) strcat(text, "add(");
    strcat(text, "x");
    for (int i = 0; i < 16; i++) {
        snprintf(part, sizeof part, ", y%d)", i);
        strcat(text, part);
    }
    expect_split(text, "fused add"); /* 16 inputs, and the 17th */
}

Test(fuse, of_many_outputs)
{
    char text[2048] = "a0 = relu(x)\n", part[64];

    for (int i = 1; i < 9; i++) {
        snprintf(part, sizeof part, "a%d = sigmoid(a%d)\n", i, i - 1);
        strcat(text, part);
    }
    strcat(text, "return a0, a1, a2, a3, a4, a5, a6, a7, a8");
    expect_split(text, "fused sigmoid");
}

/* Results of 13 nodes that all wait for a later node exceed the registers. */
Test(fuse, of_many_registers)
{
    static const char *const ops[] = {"neg", "abs", "relu", "sin", "cos", "tanh", "sigmoid", "erf",
                                      "atan", "square", "silu", "floor", "ceil", "softsign"};
    char text[2048] = "", part[64];

    for (int n = 12; n <= 14; n++) {
        *text = 0;
        for (int i = 0; i < n; i++) {
            snprintf(part, sizeof part, "a%d = %s(x)\n", i, ops[i]);
            strcat(text, part);
        }
        strcat(text, "b0 = add(a0, a1)\n");
        for (int i = 2; i < n; i++) {
            snprintf(part, sizeof part, "b%d = add(b%d, a%d)\n", i - 1, i - 2, i);
            strcat(text, part);
        }
        snprintf(part, sizeof part, "return b%d", n - 2);
        strcat(text, part);
        expect_split(text, n == 12 ? "fused" : n == 13 ? "ceil fused" : "ceil softsign fused");
    }
}
