/* SPDX-License-Identifier: Apache-2.0 */
/* test_pass_attention.c: tests the pass `attention`, which replaces two products with a softmax
 * between by attention, and what it leaves. */
#include "pass_kit.h"

/* A score is a sum of at most 16 products of magnitude below 2.25; a result is a mean. */
static const double attention_terms = 4 * 16 * 2.25 * 8;

static const char *const attentions[] = {
    "tanh(matmul(softmax(mul(matmul(q[2,3,5,16], k[2,3,16,7]), 0.25); axis=-1), v[2,3,7,9]))",
    "tanh(matmul(softmax(mul(0.25, matmul(q[2,5,16], k[2,16,7])); axis=2), v[2,7,9]))",
    "tanh(matmul(softmax(div(matmul(q[2,3,5,16], k[2,3,16,7]), 4); axis=-1), v[2,3,7,9]))",
    "tanh(matmul(softmax(matmul(q[1,2,1,16], k[1,2,16,131]); axis=-1), v[1,2,131,8]))",
    "tanh(matmul(softmax(mul(matmul(q[2,3,5,16], k[2,3,16,7]), -0.5); axis=3), v[2,3,7,9]))",
    "tanh(matmul(softmax(mul(matmul(q[2,4,5,8], k[2,1,8,7]), 0.25); axis=-1), v[2,1,7,9]))",
    "tanh(matmul(softmax(div(matmul(q:f64[3,5,6], k:f64[3,6,7]), 2:f64); axis=-1), v:f64[3,7,9]))",
};

Test(attention, products_with_a_softmax_between_are_attention)
{
    for (size_t i = 0; i < sizeof attentions / sizeof *attentions; i++)
        pass_expect(attentions[i], bp_pass_attention, "transpose attention tanh", attention_terms);
}

/* The transposes before and after it are views. */
Test(attention, heads_are_split_by_views)
{
    struct text_graph g = text_begin();

    text_record(&g,
                "q = transpose(reshape(x[2,5,24]; shape=2_5_3_8); perm=0_2_1_3)\n"
                "k = transpose(reshape(y[2,7,24]; shape=2_7_3_8); perm=0_2_3_1)\n"
                "v = transpose(reshape(z[2,7,24]; shape=2_7_3_8); perm=0_2_1_3)\n"
                "p = softmax(mul(matmul(q, k), 0.25); axis=-1)\n"
                "return reshape(transpose(matmul(p, v); perm=0_2_1_3); shape=2_5_24)");
    pass_check_values(&g, attention_terms);
    text_finish(&g);
}

static const char *const attention_misses[] = {
    "matmul(softmax(mul(matmul(q[2,5,16], k[2,16,7]), 0); axis=-1), v[2,7,9])",
    "matmul(softmax(mul(matmul(q[2,5,16], k[2,16,7]), 0.25~); axis=-1), v[2,7,9])",
    "matmul(softmax(div(0.25, matmul(q[2,5,16], k[2,16,7])); axis=-1), v[2,7,9])",
    "matmul(softmax(div(matmul(q[2,5,16], k[2,16,7]), 0); axis=-1), v[2,7,9])",
    "matmul(softmax(mul(matmul(q[2,7,16], k[2,16,7]), 0.25); axis=1), v[2,7,9])",
    "matmul(softmax(add(mul(matmul(q[2,5,16], k[2,16,7]), 0.25), m[5,7]); axis=-1), v[2,7,9])",
    "matmul(softmax(mul(matmul(q[2,5,16], k[1,16,7]), 0.25); axis=-1), v[2,7,9])",
    "matmul(softmax(mul(matmul(q[2,5,16], k[16,7]), 0.25); axis=-1), v[2,7,9])",
    "matmul(softmax(mul(matmul(q[2,5,16], k[2,16,7]), 0.25); axis=-1), v[1,7,9])",
    "matmul(softmax(mul(matmul(q[1,5,16], k[1,16,7]), 0.25); axis=-1), v[2,7,9])",
    "matmul(softmax(mul(matmul(q[5,16], k[16,7]), 0.25); axis=-1), v[7,9])",
    "matmul(softmax(matmul(h[5,4], w[4]); axis=-1), h)",
    "matmul(softmax(matmul(h[3,5,4], w[4]); axis=-1), h)",
    "p = softmax(mul(matmul(q[2,5,16], k[2,16,7]), 0.25); axis=-1)\n"
    "return matmul(p, v[2,7,9]), tanh(p)",
    "s = matmul(q[2,5,16], k[2,16,7])\n"
    "return matmul(softmax(mul(s, 0.25); axis=-1), v[2,7,9]), s",
    "w = neg(v[2,7,9])\nz = matmul(softmax(matmul(q[2,5,16], k[2,16,7]); axis=-1), w)\n"
    "u = sgd(w, g[2,7,9], 0.25~)\nreturn z, u",
};

Test(attention, other_products_stay)
{
    for (size_t i = 0; i < sizeof attention_misses / sizeof *attention_misses; i++)
        pass_expect_unchanged(attention_misses[i], bp_pass_attention, attention_misses[i]);
}
