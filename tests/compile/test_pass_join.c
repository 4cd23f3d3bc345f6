/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_join.c: tests which inputs of concat are computed in the memory of its result, and
 * which are copied there. */
#include "pass_kit.h"

#include <stdlib.h>

static const double join_terms = 4;

struct join_case {
    const char *text, *launches;
};

/* The tests are about launches of single operators. */
static void join_without_fusion(void)
{
    setenv("BP_PASSES", "-fuse", 1);
}

TestSuite(join, .init = join_without_fusion);

static void join_expect(const struct join_case *c, uint32_t dtype)
{
    struct text_graph g = text_begin();
    struct bp_schedule *s;
    char launches[512];

    g.dtype = dtype;
    text_record(&g, c->text);
    OK(bp_compile(g.graph, g.f.device, &s));
    pass_list_launches(s, launches, sizeof launches);
    cr_assert_str_eq(launches, c->launches, "%s, %s: %s", c->text, bp_dtype_name(dtype), launches);
    bp_schedule_destroy(s);
    pass_check_values(&g, join_terms);
    text_finish(&g);
}

static void join_expect_all(const struct join_case *cases, size_t n)
{
    static const uint32_t dtypes[] = {BP_F32, BP_F64, BP_BF16};

    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            join_expect(&cases[i], dtypes[d]);
}

/* No launch of concat: elementwise nodes write their slices. */
Test(join, elementwise_results_are_computed_in_place)
{
    static const struct join_case cases[] = {
        {"softmax(concat(neg(x), tanh(y)))", "neg tanh softmax"},
        {"softmax(concat(neg(x), tanh(y), exp(z); axis=-1))", "neg tanh exp softmax"},
        {"softmax(concat(neg(x), tanh(y[4,3,4]), exp(z[4,7,4]); axis=1))", "neg tanh exp softmax"},
        {"abs(concat(add(x, v[4]), tanh(y); axis=0))", "add tanh abs"},
    };

    join_expect_all(cases, sizeof cases / sizeof *cases);
}

/* Inputs of the graph, and results of nodes that may be slow for gaps, are copied. */
Test(join, other_inputs_are_copied)
{
    static const struct join_case cases[] = {
        {"abs(concat(x, neg(y); axis=2))", "neg assign abs"},
        {"abs(concat(softmax(x), neg(y), z; axis=1))", "softmax neg assign assign abs"},
        {"n = neg(y)\nreturn abs(concat(n, n; axis=1))", "neg assign abs"},
        {"n = neg(y)\na = concat(n, x)\nc = concat(z, n)\nreturn abs(a), abs(c)",
         "neg assign concat abs abs"},
        {"abs(concat(neg(c![4,4,4]), tanh(y); axis=1))", "tanh assign abs"},
    };

    join_expect_all(cases, sizeof cases / sizeof *cases);
}

/* Concats that each append to the one before share one memory, in which each input is written
 * once. Lists that begin alike are such concats too. */
Test(join, concats_that_append_share_memory)
{
    static const struct join_case cases[] = {
        {"a = concat(neg(x), tanh(y); axis=1)\nb = abs(a)\nc = concat(a, sigmoid(z); axis=1)\n"
         "d = abs(c)\ne = concat(c, exp(x); axis=1)\nreturn b, tanh(d), neg(e)",
         "neg tanh abs sigmoid abs exp tanh neg"},
        {"p = neg(x)\nq = tanh(y)\nr = exp(z)\na = concat(p, q; axis=2)\nb = abs(a)\n"
         "c = concat(p, q, r; axis=2)\nreturn b, abs(c)",
         "neg tanh exp abs abs"},
        {"a = concat(x, y; axis=1)\nb = abs(a)\nc = concat(a, softmax(z); axis=-2)\n"
         "return b, abs(c)",
         "assign assign abs softmax assign abs"},
    };

    join_expect_all(cases, sizeof cases / sizeof *cases);
}

/* Slices along the outermost axis have no gaps, so that a result could lie over one that nothing
 * reads again. */
Test(join, a_slice_is_not_overwritten_while_the_whole_is_read)
{
    static const struct join_case cases[] = {
        {"a = concat(neg(x), tanh(y); axis=0)\nc = concat(a, exp(z); axis=0)\nb = relu(a)\n"
         "return softmax(b), softmax(c)",
         "neg tanh exp relu softmax softmax"},
        {"n = neg(x)\na = concat(n, tanh(y); axis=0)\nb = exp(n)\nreturn softmax(b), softmax(a)",
         "neg tanh exp softmax softmax"},
    };

    join_expect_all(cases, sizeof cases / sizeof *cases);
}

Test(join, other_concats_stay)
{
    static const struct join_case cases[] = {
        {"concat(neg(x), tanh(y))", "neg tanh concat"},
        {"n = neg(y)\na = concat(x, n)\nreturn softmax(n), abs(a)", "neg concat softmax abs"},
        {"n = neg(y)\na = concat(x, n)\nreturn n, abs(a)", "neg concat abs"},
        {"abs(concat(x, y))", "concat abs"},
        {"a = concat(x, y; axis=0)\nc = concat(a, w[8,4,4]; axis=1)\nreturn abs(a), abs(c)",
         "concat concat abs abs"},
        {"a = concat(x, y)\nc = concat(a, z)\nreturn softmax(a), abs(c)",
         "concat concat softmax abs"},
        {"a = concat(x, y)\nc = concat(a, z)\nreturn a, abs(c)", "concat concat abs"},
        {"a = concat(x, y)\nc = concat(z, a)\nreturn abs(a), abs(c)", "concat concat abs abs"},
        {"a = concat(x, y)\nc = concat(a, z)\nreturn abs(a), c", "concat concat abs"},
        {"a = concat(neg(x), tanh(y))\nc = concat(a, exp(z))\nu = sgd(c, g[12,4,4], 0.25~)\n"
         "return abs(a), abs(u)",
         "neg tanh concat exp concat sgd abs abs"},
        {"n = neg(y)\na = concat(x, n)\nu = sgd(n, g[4,4,4], 0.25~)\nreturn abs(a), u",
         "neg concat sgd abs"},
    };

    join_expect_all(cases, sizeof cases / sizeof *cases);
}

/* The memory has the order of axes of the first input that is known. */
Test(join, channels_last_stays)
{
    static const char *const texts[] = {
        "y = relu(conv(x[1,32,16,16], v![32,32,3,3], b![32]; pad=1_1_0_1_1_0))\n"
        "a = concat(tanh(y), relu(y); axis=1)\n"
        "return conv(neg(a), w![32,64,3,3], b; pad=1_1_0_1_1_0)",
        "y = conv(x[1,32,16,16], v![32,32,3,3], b![32]; pad=1_1_0_1_1_0)\n"
        "a = concat(y, conv(tanh(y), v, b; pad=1_1_0_1_1_0); axis=1)\n"
        "c = concat(a, conv(relu(a), w![32,64,3,3], b; pad=1_1_0_1_1_0); axis=1)\n"
        "return conv(relu(c), u![32,96,1,1], b)",
    };

    setenv("BP_PASSES", "", 1);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct text_graph g = text_begin();
        struct bp_schedule *s;
        char launches[512];
        text_record(&g, texts[i]);
        OK(bp_compile(g.graph, g.f.device, &s));
        pass_list_launches(s, launches, sizeof launches);
        cr_assert(!pass_has(launches, "concat"), "%s: %s", texts[i], launches);
        bp_schedule_destroy(s);
        pass_expect_dense(&g, texts[i]);
        text_finish(&g);
    }
}
