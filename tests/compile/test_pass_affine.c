/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_affine.c: tests the pass `affine`, which merges factors and shifts of channels into
 * convolutions behind and in front of them and into batch_norm: each operator, kind of convolution
 * and operand, and what must not be merged. */
#include "pass_kit.h"

#include <stdlib.h>

/* An element of these convolutions is a sum of at most 108 products of magnitude below 2.25 and is
 * multiplied by a factor below 1 / sqrt(0.5) * 1.5; each product is rounded a few times. */
static const double conv_terms = 3 * 108 * 2.25 * 2.2;

struct affine_case {
    const char *name, *text;
};

static void expect_merged(const struct affine_case *c, const char *ops)
{
    struct text_graph g = text_begin();

    pass_expect(c->text, bp_pass_affine, ops, conv_terms);
    g.special = 'x'; /* NaN and infinities of x, and numbers of 10,000 */
    text_record(&g, c->text);
    pass_check_values(&g, 1e4 * conv_terms);
    text_finish(&g);
}

#define CONV "conv(x[2,4,5,5], w![6,4,3,3], c![6])"
#define PLAIN "conv(x[2,4,5,5], w![6,4,3,3], _)"

static const struct affine_case merged[] = {
    {"norm", "batch_norm(" CONV ", s![6], b![6], m![6], v![6])"},
    {"norm, no bias of the convolution", "batch_norm(" PLAIN ", s![6], b![6], m![6], v![6])"},
    {"norm without scale", "batch_norm(" CONV ", _, b![6], m![6], v![6])"},
    {"norm without bias", "batch_norm(" CONV ", s![6], _, m![6], v![6])"},
    {"norm without scale and bias", "batch_norm(" PLAIN ", _, _, m![6], v![6])"},
    {"norm with another epsilon", "batch_norm(" CONV ", s![6], b![6], m![6], v![6]; epsilon=0.25)"},
    {"factor of channels", "mul(" CONV ", a![6,1,1])"},
    {"factor of channels, first operand", "mul(a![6,1,1], " CONV ")"},
    {"factor of channels, rank 4", "mul(" PLAIN ", a![1,6,1,1])"},
    {"factor of all", "mul(" CONV ", 0.75)"},
    {"factor of all, rank 4", "mul(" PLAIN ", 0.75[1,1,1,1])"},
    {"quotient of channels", "div(" CONV ", v![6,1,1])"},
    {"quotient of all", "div(" PLAIN ", 4)"},
    {"shift of channels", "add(" CONV ", a![6,1,1])"},
    {"shift of channels, first operand", "add(a![1,6,1,1], " PLAIN ")"},
    {"shift of all", "add(" PLAIN ", 0.5)"},
    {"shift of all, with a bias", "add(" CONV ", 0.5[1])"},
    {"difference of channels", "sub(" CONV ", a![6,1,1])"},
    {"difference of all", "sub(" PLAIN ", 0.5)"},
    {"scale", "scale(" CONV "; factor=0.75, bias=0.5)"},
    {"scale without a bias of the convolution", "scale(" PLAIN "; factor=-0.75, bias=0.5)"},
    {"scale without a shift", "scale(" CONV "; factor=1.5)"},
    {"scale that shifts only", "scale(" PLAIN "; bias=-0.5)"},
    {"scale, f64", "scale(conv(x:f64[2,4,5,5], w!:f64[6,4,3,3], _); factor=0.3, bias=0.1)"},
    {"groups",
     "batch_norm(conv(x[2,4,5,5], w![6,2,3,3], c![6]; groups=2), s![6], b![6], m![6], v![6])"},
    {"depthwise", "batch_norm(conv(x[2,6,5,5], w![6,1,3,3], _; groups=6, pad=1_1_0_1_1_0), "
                  "s![6], b![6], m![6], v![6])"},
    {"padding, steps and dilation", "batch_norm(conv(x[2,4,7,7], w![6,4,3,3], c![6]; "
                                    "pad=2_1_0_0_1_0, stride=2_1_1, dilation=2_1_1), "
                                    "s![6], b![6], m![6], v![6])"},
    {"one axis", "batch_norm(conv(x[2,4,9], w![6,4,3], c![6]), s![6], b![6], m![6], v![6])"},
    {"one axis, factor", "mul(conv(x[2,4,9], w![6,4,3], _), a![6,1])"},
    {"three axes",
     "batch_norm(conv(x[1,4,3,3,3], w![6,4,2,2,2], c![6]), s![6], b![6], m![6], v![6])"},
    {"three axes, shift", "sub(conv(x[1,4,3,3,3], w![6,4,2,2,2], _), a![6,1,1,1])"},
    {"f64", "mul(conv(x:f64[2,4,5,5], w!:f64[6,4,3,3], c!:f64[6]), a!:f64[6,1,1])"},
    {"one channel", "mul(conv(x[2,4,5,5], w![1,4,3,3], _), a![1,1,1])"},
};

Test(affine, each_operator_is_merged_into_conv)
{
    for (size_t i = 0; i < sizeof merged / sizeof *merged; i++) expect_merged(&merged[i], "conv");
}

static const struct affine_case transposed[] = {
    {"norm",
     "batch_norm(conv_transpose(x[2,4,3,3], w![4,6,3,3], c![6]), s![6], b![6], m![6], v![6])"},
    {"groups", "batch_norm(conv_transpose(x[2,4,3,3], w![4,3,3,3], c![6]; groups=2), "
               "s![6], b![6], m![6], v![6])"},
    {"depthwise",
     "mul(conv_transpose(x[2,6,3,3], w![6,1,3,3], _; groups=6, stride=2_2_1), a![6,1,1])"},
    {"one axis", "div(conv_transpose(x[2,4,5], w![4,3,3], c![6]; groups=2), v![6,1])"},
    {"three axes", "add(conv_transpose(x[1,4,2,2,2], w![4,6,2,2,2], _), a![6,1,1,1])"},
    {"factor of all", "mul(conv_transpose(x[2,4,3,3], w![4,6,3,3], c![6]), 0.75)"},
    {"scale", "scale(conv_transpose(x[2,4,3,3], w![4,6,3,3], _); factor=0.75, bias=0.5)"},
};

Test(affine, each_operator_is_merged_into_conv_transpose)
{
    for (size_t i = 0; i < sizeof transposed / sizeof *transposed; i++)
        expect_merged(&transposed[i], "conv_transpose");
}

static const struct affine_case chains[] = {
    {"three", "add(mul(batch_norm(" CONV ", s![6], b![6], m![6], v![6]), a![6,1,1]), d![6,1,1])"},
    {"two norms",
     "batch_norm(batch_norm(" PLAIN ", s![6], b![6], m![6], v![6]), _, d![6], n![6], v2![6])"},
    {"quotient, difference, factor", "mul(sub(div(" PLAIN ", 2), a![6,1,1]), 0.5)"},
};

Test(affine, chains_are_merged)
{
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) expect_merged(&chains[i], "conv");
}

#define NORM(y) "batch_norm(" y ", s![6], b![6], m![6], v![6])"

static const struct affine_case normed[] = {
    {"factor of channels", "mul(" NORM("x[2,6,5,5]") ", a![6,1,1])"},
    {"factor, first operand", "mul(a![1,6,1,1], " NORM("x[2,6,5,5]") ")"},
    {"factor and shift", "add(mul(" NORM("x[2,6,5,5]") ", a![6,1,1]), d![6,1,1])"},
    {"shift and factor", "mul(sub(" NORM("x[2,6,5,5]") ", d![6,1,1]), 0.75)"},
    {"quotient", "div(" NORM("x[2,6,5,5]") ", v2![6,1,1])"},
    {"scale", "scale(" NORM("x[2,6,5,5]") "; factor=0.75, bias=0.5)"},
    {"without scale and bias",
     "add(mul(batch_norm(x[2,6,5,5], _, _, m![6], v![6]), a![6,1,1]), 0.5)"},
    {"without bias", "mul(batch_norm(x[2,6,5,5], s![6], _, m![6], v![6]), a![6,1,1])"},
    {"without scale", "add(batch_norm(x[2,6,5,5], _, b![6], m![6], v![6]), a![6,1,1])"},
    {"another norm",
     "batch_norm(batch_norm(x[2,6,5,5], s![6], b![6], m![6], v![6]; epsilon=0.25), a![6], d![6], "
     "n![6], v2![6])"},
    {"two axes", "mul(" NORM("x[5,6]") ", a![6])"},
    {"f64", "mul(batch_norm(x:f64[2,6,5], s!:f64[6], _, m!:f64[6], v!:f64[6]), a!:f64[6,1])"},
};

Test(affine, each_operator_is_merged_into_batch_norm)
{
    for (size_t i = 0; i < sizeof normed / sizeof *normed; i++)
        expect_merged(&normed[i], "batch_norm");
}

#define BEFORE(y) "conv(" y ", w![6,4,1,1], c![6])"
#define NORM_4 "batch_norm(x[2,4,5,5], s![4], b![4], m![4], v![4])"

static const struct affine_case before[] = {
    {"norm", BEFORE(NORM_4)},
    {"norm without scale and bias", BEFORE("batch_norm(x[2,4,5,5], _, _, m![4], v![4])")},
    {"norm, no bias of the convolution", "conv(" NORM_4 ", w![6,4,1,1], _)"},
    {"factor", BEFORE("mul(x[2,4,5,5], a![4,1,1])")},
    {"factor, first operand", BEFORE("mul(a![1,4,1,1], x[2,4,5,5])")},
    {"factor of all", BEFORE("mul(x[2,4,5,5], 0.75)")},
    {"quotient", BEFORE("div(x[2,4,5,5], v![4,1,1])")},
    {"shift", BEFORE("add(a![4,1,1], x[2,4,5,5])")},
    {"shift of all", "conv(sub(x[2,4,5,5], 0.75), w![6,4,1,1], _)"},
    {"scale", BEFORE("scale(x[2,4,5,5]; factor=0.75, bias=0.5)")},
    {"factor and shift", BEFORE("add(mul(x[2,4,5,5], a![4,1,1]), d![4,1,1])")},
    {"steps", "conv(" NORM_4 ", w![6,4,1,1], c![6]; stride=2_2_1)"},
    {"a window", "conv(" NORM_4 ", w![6,4,3,2], c![6]; dilation=2_1_1)"},
    {"groups", "conv(" NORM_4 ", w![6,2,1,1], c![6]; groups=2)"},
    {"groups, a window", "conv(" NORM_4 ", w![6,2,3,3], _; groups=2)"},
    {"depthwise", "conv(" NORM_4 ", w![8,1,3,3], c![8]; groups=4)"},
    {"a factor and padding",
     "conv(mul(x[2,4,5,5], a![4,1,1]), w![6,4,3,3], c![6]; pad=1_1_0_1_1_0)"},
    {"scale without a shift, and padding",
     "conv(scale(x[2,4,5,5]; factor=0.75), w![4,1,3,3], _; groups=4, pad=1_1_0_1_1_0)"},
    {"one axis", "conv(batch_norm(x[2,4,9], s![4], b![4], m![4], v![4]), w![6,4,3], c![6])"},
    {"three axes",
     "conv(batch_norm(x[1,4,3,3,3], s![4], b![4], m![4], v![4]), w![6,2,2,2,2], c![6]; groups=2)"},
    {"f64", "conv(mul(x:f64[2,4,5,5], a!:f64[4,1,1]), w!:f64[6,4,1,1], c!:f64[6])"},
    {"on both sides", "mul(" BEFORE(NORM_4) ", e![6,1,1])"},
};

Test(affine, each_operator_is_merged_into_the_convolution_behind)
{
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) expect_merged(&before[i], "conv");
}

static const struct affine_case misses[] = {
    {"filters that are not frozen", NORM("conv(x[2,4,5,5], w~[6,4,3,3], c![6])")},
    {"filters that are computed", NORM("conv(x[2,4,5,5], abs(w[6,4,3,3]), c![6])")},
    {"a bias that is not frozen", NORM("conv(x[2,4,5,5], w![6,4,3,3], c~[6])")},
    {"a factor that is not frozen", "mul(" CONV ", a~[6,1,1])"},
    {"a factor that is an input", "mul(" CONV ", a[6,1,1])"},
    {"a shift that is not frozen", "add(" CONV ", 0.5~)"},
    {"a scale that is not frozen", "batch_norm(" CONV ", s~[6], b![6], m![6], v![6])"},
    {"a norm's bias that is not frozen", "batch_norm(" CONV ", s![6], b~[6], m![6], v![6])"},
    {"a mean that is not frozen", "batch_norm(" CONV ", s![6], b![6], m~[6], v![6])"},
    {"a variance that is not frozen", "batch_norm(" CONV ", s![6], b![6], m![6], v~[6])"},
    {"a second reader", "y = " CONV "\nz = mul(y, a![6,1,1])\nreturn add(z, y)"},
    {"a result that is an output", "y = " CONV "\nreturn " NORM("y") ", y"},
    {"a factor of the last axis", "mul(conv(x[2,4,8,8], w![6,4,3,3], c![6]), a![6])"},
    {"a factor of the axis before the last", "mul(conv(x[2,4,8,8], w![6,4,3,3], c![6]), a![6,1])"},
    {"a factor of the batch", "mul(conv(x[6,4,5,5], w![6,4,3,3], c![6]), a![6,1,1,1])"},
    {"a factor of several axes", "mul(conv(x[2,4,5,5], w![6,4,3,3], c![6]), a![6,3,1])"},
    {"a product that makes more channels", "mul(conv(x[2,4,5,5], w![1,4,3,3], c![1]), a![6,1,1])"},
    {"a product that makes a larger batch",
     "mul(conv(x[1,4,5,5], w![6,4,3,3], c![6]), 2[3,1,1,1])"},
    {"a product of a higher rank", "mul(" CONV ", 2[1,1,1,1,1])"},
    {"a divided number", "div(2, " CONV ")"},
    {"a number from which is subtracted", "sub(2, " CONV ")"},
    {"an infinite factor", "mul(" CONV ", inf)"},
    {"a factor that is no number", "mul(" CONV ", nan)"},
    {"a huge factor", "mul(" CONV ", 1e20)"},
    {"a quotient by 0", "div(" CONV ", 0)"},
    {"a quotient by a tiny number", "div(" CONV ", 1e-20)"},
    {"a variance of 0 without epsilon",
     "batch_norm(" CONV ", s![6], b![6], m![6], 0[6]; epsilon=0)"},
    {"a negative variance", "batch_norm(" CONV ", s![6], b![6], m![6], -1[6])"},
    {"an infinite scale", "batch_norm(" CONV ", inf[6], b![6], m![6], v![6])"},
    {"f16", "mul(conv(x:f16[2,4,5,5], w!:f16[6,4,3,3], c!:f16[6]), a!:f16[6,1,1])"},
    {"an input that is updated", "y = " CONV "\nu = neg(x)\nsgd(x, u, 0.25~)\nreturn " NORM("y")},
    {"a norm before padding", "conv(" NORM_4 ", w![6,4,3,3], _; pad=1_1_0_1_1_0)"},
    {"a norm before padding of one side", "conv(" NORM_4 ", w![6,4,1,1], _; pad=0_0_0_0_1_0)"},
    {"a scale before padding",
     "conv(scale(x[2,4,5,5]; factor=2, bias=0.5), w![6,4,3,3], _; pad=1_1_0_1_1_0)"},
    {"a norm before with a second reader",
     "y = " NORM_4 "\nz = conv(y, w![6,4,1,1], _)\nreturn z, tanh(y)"},
    {"a norm before that is an output", "y = " NORM_4 "\nz = conv(y, w![6,4,1,1], _)\nreturn z, y"},
    {"a factor of the last axis before", BEFORE("mul(x[2,4,5,4], a![4])")},
    {"a factor of the batch before", BEFORE("mul(x[4,4,5,5], a![4,1,1,1])")},
    {"a factor before that makes more channels", BEFORE("mul(x[2,1,5,5], a![4,1,1])")},
    {"a factor before that is an input", BEFORE("mul(x[2,4,5,5], a[4,1,1])")},
    {"a shift before that is not frozen", BEFORE("add(x[2,4,5,5], a~[4,1,1])")},
    {"filters behind that are not frozen", "conv(" NORM_4 ", w~[6,4,1,1], _)"},
    {"a bias behind that is not frozen", "conv(" NORM_4 ", w![6,4,1,1], c~[6])"},
    {"a number that is divided, before", BEFORE("div(2, x[2,4,5,5])")},
    {"a number that is reduced, before", BEFORE("sub(2, x[2,4,5,5])")},
    {"an infinite factor before", BEFORE("mul(x[2,4,5,5], inf)")},
    {"a huge factor before", BEFORE("mul(x[2,4,5,5], 1e20)")},
    {"a shift before that is no number", BEFORE("add(x[2,4,5,5], nan)")},
    {"an infinite shift before", BEFORE("scale(x[2,4,5,5]; bias=inf)")},
    {"a quotient by 0 before", BEFORE("div(x[2,4,5,5], 0)")},
    {"a negative variance before", BEFORE("batch_norm(x[2,4,5,5], s![4], b![4], m![4], -1[4])")},
    {"filters that would be infinite", "conv(mul(x[2,4,5,5], 1e10), 1e35[6,4,1,1], _)"},
    {"a shift that is much larger than the factor",
     "conv(add(x[2,4,5,5], 1e4), w![6,4,1,1], _)"},
    {"a bias that would be infinite", "conv(add(x[2,4,5,5], 500), 1e36[6,4,1,1], _)"},
    {"a transposed convolution behind", "conv_transpose(" NORM_4 ", w![4,6,1,1], _)"},
    {"f16 before", "conv(mul(x:f16[2,4,5,5], a!:f16[4,1,1]), w!:f16[6,4,1,1], _)"},
    {"an input before that is updated", "y = neg(x[2,4,5,5])\nn = mul(y, a![4,1,1])\n"
                                        "u = sgd(y, g[2,4,5,5], 0.25~)\nreturn " BEFORE("n") ", u"},
    {"a factor behind a norm that is not frozen", "mul(" NORM("x[2,6,5,5]") ", a~[6,1,1])"},
    {"a norm that is not frozen", "mul(batch_norm(x[2,6,5,5], s~[6], b![6], m![6], v![6]), 2)"},
    {"a norm with a second reader",
     "y = " NORM("x[2,6,5,5]") "\nz = mul(y, a![6,1,1])\nreturn add(z, y)"},
    {"a norm's scale that would be infinite",
     "mul(batch_norm(x[2,6,5,5], 1e35[6], b![6], m![6], v![6]), 1e10)"},
    {"a norm's bias that would be infinite",
     "mul(batch_norm(x[2,6,5,5], s![6], 1e35[6], m![6], v![6]), 1e10)"},
    {"an infinite shift behind a norm", "add(" NORM("x[2,6,5,5]") ", inf)"},
    {"a huge scale", "scale(" CONV "; factor=1e20)"},
    {"a scale of f16", "scale(conv(x:f16[2,4,5,5], w!:f16[6,4,3,3], _); factor=0.75)"},
    {"an activation between", "mul(relu(" CONV "), a![6,1,1])"},
};

Test(affine, near_misses_are_not_merged)
{
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++)
        pass_expect_unchanged(misses[i].text, bp_pass_affine, misses[i].name);
}

Test(affine, pinned_kernels_are_not_merged)
{
    pass_expect_pin_kept(merged[0].text, bp_pass_affine, 2);
}

/* A factor that is too large for some channels leaves the node as it was: values, infinities and
 * NaN are those of a run node by node. */
Test(affine, values_that_are_not_finite_stay)
{
    static const char *const texts[] = {
        "mul(" CONV ", inf)",
        "div(" CONV ", 0)",
        "add(" CONV ", inf)",
        "add(" PLAIN ", nan)",
        "batch_norm(" CONV ", s![6], b![6], m![6], 0[6]; epsilon=0)",
        "batch_norm(" CONV ", s![6], b![6], inf[6], v![6])",
        "batch_norm(" CONV ", 0[6], b![6], m![6], v![6])",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct text_graph g = text_begin();
        text_record(&g, texts[i]);
        pass_check_values(&g, conv_terms);
        text_finish(&g);
    }
}
