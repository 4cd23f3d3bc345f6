/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_product.c: tests the pass `product`, which computes transposed convolutions whose
 * windows do not overlap as products of matrices, and which ones it leaves. */
#include "pass_kit.h"

#include <stdlib.h>

/* An element is a sum of at most 64 products of magnitude below 2.25, and a bias. */
static const double product_terms = 3 * 65 * 2.25;

static const char *const plain =
    "transpose reshape matmul reshape transpose reshape transpose tanh";
static const char *const biased =
    "transpose reshape matmul add reshape transpose reshape transpose tanh";

static const struct {
    const char *text, *const *ops;
} products[] = {
    {"tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], b![32]; stride=2_2_1))", &biased},
    {"tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], _; stride=2_2_1))", &plain},
    {"tanh(conv_transpose(x[5,16,12,10], w![16,24,2,3], b![24]; stride=2_3_1))", &biased},
    {"tanh(conv_transpose(x[1,64,16,16], w![64,1,8,8], b![1]; stride=8_8_1))", &biased},
    {"tanh(conv_transpose(x[1,64,32,16], w![64,32,1,1], b![32]; dilation=2_2_1))", &biased},
    {"tanh(conv_transpose(x[1,64,16,32], w![64,16,1,4], _; stride=1_4_1, dilation=2_1_1))", &plain},
    {"tanh(conv_transpose(x:f64[1,32,16,16], w!:f64[32,32,2,2], b!:f64[32]; stride=2_2_1))",
     &biased},
};

Test(product, windows_side_by_side_are_products)
{
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        pass_expect(products[i].text, bp_pass_product, *products[i].ops, product_terms);
}

Test(product, outputs_are_row_major)
{
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        struct text_graph g = text_begin();
        text_record(&g, products[i].text);
        pass_expect_dense(&g, products[i].text);
        text_finish(&g);
    }
}

/* The operators around it keep their layouts: the result is channels-last. */
Test(product, layouts_around_are_kept)
{
    static const char *const texts[] = {
        "y = transpose(x[1,16,16,32]; perm=0_3_1_2)\n"
        "z = conv_transpose(relu(y), w![32,32,2,2], b![32]; stride=2_2_1)\n"
        "return relu(z), add(z, z)",
        "z = conv_transpose(x[2,32,16,16], w![32,32,2,2], b![32]; stride=2_2_1)\n"
        "return concat(relu(z), y[2,8,32,32]; axis=1)",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct text_graph g = text_begin();
        text_record(&g, texts[i]);
        pass_check_values(&g, 2 * product_terms * 2.25 * 65);
        text_finish(&g);
    }
}

static const char *const misses[] = {
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,3,3], b![32]; stride=2_2_1))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], b![32]; stride=3_2_1))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], b![32]; stride=2_3_1))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], b![32]; stride=2_2_1, pad=1_0_0_0_0_0))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], b![32]; stride=2_2_1, pad=0_0_0_0_1_0))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], _; stride=2_2_1, output_padding=1_0_0))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], _; stride=2_2_1, output_padding=0_1_0))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], _; stride=2_2_1, dilation=2_1_1))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], _; stride=2_2_1, dilation=1_2_1))",
    "tanh(conv_transpose(x[1,64,16,16], w![64,32,2,2], b![64]; stride=2_2_1, groups=2))",
    "tanh(conv_transpose(x[1,32,16,16], w~[32,32,2,2], b![32]; stride=2_2_1))",
    "tanh(conv_transpose(x[1,32,16,16], w![32,32,2,2], b~[32]; stride=2_2_1))",
    "tanh(conv_transpose(x[1,4,5,5], w![4,6,2,2], b![6]; stride=2_2_1))",
    "tanh(conv_transpose(x[1,64,512], w![64,64,2], b![64]; stride=2_1_1))",
    "tanh(conv_transpose(x:f16[1,32,16,16], w!:f16[32,32,2,2], b!:f16[32]; stride=2_2_1))",
    "conv_transpose(x[1,32,16,16], w![32,32,2,2], b![32]; stride=2_2_1)",
    "z = conv_transpose(x[1,32,16,16], w![32,32,2,2], b![32]; stride=2_2_1)\n"
    "v = reshape(z; shape=1_32768)\nu = sgd(v, g[1,32768], 0.25~)\nreturn tanh(z), tanh(u)",
    "y = neg(x[1,32,16,16])\nz = conv_transpose(y, w![32,32,2,2], _; stride=2_2_1)\n"
    "u = sgd(y, g[1,32,16,16], 0.25~)\nreturn tanh(z), u",
    "z = conv_transpose(x[1,32,16,16], w![32,32,2,2], _; stride=2_2_1)\n"
    "u = sgd(x, g[1,32,16,16], 0.25~)\nreturn tanh(z), u",
};

Test(product, other_transposed_convolutions_stay)
{
    for (size_t i = 0; i < sizeof misses / sizeof *misses; i++)
        pass_expect_unchanged(misses[i], bp_pass_product, misses[i]);
}
