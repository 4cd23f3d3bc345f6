/* SPDX-License-Identifier: Apache-2.0 */
/* test_openvino_ops.c: tests that OpenVINO computes the values of our kernels, for each operator
 * that the plugin's engine claims. Runs with OpenVINO itself. */
#include "engine_kit.h"

/* Elementwise functions: a few roundings. Sums of up to 100 terms below 2. Half types are compared
 * as such: a kernel and the library each round a result once. */
static const double few = 8, sums = 400;

static void check_text(struct kit_plugin *k, const char *text, double terms)
{
    struct text_graph g = text_begin();

    text_record(&g, text);
    fprintf(stderr, "# %s%s\n", text, k->flags & BP_ENGINE_FAST_MATH ? "" : " (exact)");
    kit_check(k, &g, terms);
    text_finish(&g);
}

static void check_texts(const char *const *text, size_t n, double terms, uint32_t flags)
{
    struct kit_plugin k;

    kit_open(&k);
    k.flags = flags;
    for (size_t i = 0; i < n; i++) check_text(&k, text[i], terms);
    kit_close(&k);
}

#define CHECK(terms, ...) \
    do { \
        static const char *const text_[] = {__VA_ARGS__}; \
        check_texts(text_, sizeof text_ / sizeof *text_, terms, BP_ENGINE_FAST_MATH); \
    } while (0)
#define CHECK_EXACT(terms, ...) \
    do { \
        static const char *const text_[] = {__VA_ARGS__}; \
        check_texts(text_, sizeof text_ / sizeof *text_, terms, BP_ENGINE_DETERMINISTIC); \
    } while (0)

Test(openvino_ops, arithmetic)
{
    CHECK(few, "add(x, y)", "sub(x, y[4])", "mul(x[1,4], y[4,1])", "div(x, vy)", "maximum(x, y)",
          "minimum(x, y)", "pow(vx, y)", "neg(x)", "abs(x)", "square(x)", "floor(x)", "ceil(x)",
          "add(x, 0.5)", "mul(b![4], add(x, x))");
}

Test(openvino_ops, functions)
{
    CHECK(few, "relu(x)", "sigmoid(x)", "tanh(x)", "exp(x)", "log(vx)", "sqrt(vx)", "rsqrt(vx)",
          "reciprocal(vx)", "mish(x)", "erf(x)", "elu(x; alpha=1.25)", "silu(x)", "hard_swish(x)",
          "gelu(x)", "gelu(x; approximate=1)", "swish(x; beta=1.5)",
          "hard_sigmoid(x; slope=0.3, offset=0.4)", "leaky_relu(x; slope=0.25)",
          "clip(x; min=-0.5, max=0.75)", "clip(x; min=0.25)", "scale(x; factor=3, bias=-1)",
          "scale(x; bias=2)", "scale(x; factor=0.3)");
}

Test(openvino_ops, exact_functions)
{
    CHECK_EXACT(few, "relu(x)", "clip(x; min=-0.5, max=0.75)", "clip(x; min=0.25)",
                "clip(x; max=1)", "clip(x; min=1, max=0)", "maximum(x, y[4])",
                "minimum(x[1,4], y[4,1])", "div(x, vy)", "div(x, v![4])", "div(x, 8)", "sigmoid(x)",
                "silu(x)", "swish(x; beta=1.5)", "hard_swish(scale(x; factor=5))",
                "gelu(scale(x; factor=4))", "gelu(scale(x; factor=4); approximate=1)",
                "hard_sigmoid(x; slope=0.3, offset=0.4)", "relu(x:f16)", "swish(x:f16; beta=1.1)",
                "softmax(x:f16)", "max(x:f16; axes=1)", "max_pool(x:f16[1,2,9,9]; window=2_2)");
}

Test(openvino_ops, exact_rows)
{
    CHECK_EXACT(sums, "softmax(x)", "softmax(x; axis=1)", "log_softmax(x; axis=0)",
                "max(x; axes=2)", "max(x)", "min(x; axes=-3, keep=1)",
                "max_pool(x[1,3,9,9]; window=3_3, stride=2_2, pad=1_1_0_1_1)",
                "max_pool(x[1,2,9]; window=3, stride=2, pad=1, ceil_mode=1)");
}

Test(openvino_ops, half_types)
{
    CHECK(few, "add(x:f16, y:f16)", "relu(x:f16)", "scale(x:f16; factor=0.3, bias=0.1)",
          "swish(x:f16; beta=1.1)", "softmax(x:f16)", "hard_sigmoid(x:f16)",
          "layer_norm(x:f16, s!:f16, b!:f16)", "cast(x:f16; to=11)", "cast(x; to=9)");
}

Test(openvino_ops, comparisons)
{
    CHECK(few, "equal(x, x)", "not_equal(x, y)", "less_than(x, y)", "less_equal(x, y)",
          "greater_than(x, y[4])", "greater_equal(x, y)",
          "logical_and(less_than(x, y), less_than(y, z))",
          "logical_or(less_than(x, y), logical_not(less_than(y, z)))",
          "logical_xor(less_than(x, y), less_than(y, z))", "where(less_than(x, y), x, z[4])");
}

Test(openvino_ops, products)
{
    CHECK(sums, "matmul(x, y)", "matmul(x[4], y[4,5])", "matmul(x[5,4], y[4])",
          "matmul(x[4], y[4])", "matmul(x[4,5], y[4,6]; transpose_a=1)",
          "matmul(x[2,3,4,5], y[3,6,5]; transpose_b=1)", "matmul(x[4], y[5,4]; transpose_b=1)",
          "matmul(x[3,4], w![4,70])");
}

Test(openvino_ops, norms)
{
    CHECK(sums, "softmax(x)", "softmax(x; axis=1)", "log_softmax(x; axis=0)",
          "layer_norm(x, s!, b!)", "layer_norm(x, s![4,4], b![4,4]; axis=1, epsilon=0.001)",
          "layer_norm(x, s!, _)", "layer_norm(x, _, b!)", "layer_norm(x, _, _)", "lp_normalize(x)",
          "lp_normalize(x; epsilon=0, axis=1)", "lp_normalize(mul(x, 0); epsilon=0)",
          "lp_normalize(x; epsilon=2)", "batch_norm(x[2,4,3,3], s!, b!, m!, v!)",
          "batch_norm(x[2,4], _, b!, m!, v!)", "batch_norm(x[2,4,5], s!, _, m!, v!; epsilon=0.01)",
          "lrn(x[1,8,3,3]; window=5, alpha=0.5, beta=0.75, bias=1.5)", "lrn(x[2,3,4]; window=3)");
}

Test(openvino_ops, reductions)
{
    CHECK(sums, "sum(x)", "sum(x; axes=1)", "mean(x; axes=0_-1, keep=1)", "max(x; axes=2)",
          "min(x; axes=-3, keep=1)", "global_avg_pool(x[2,3,4,5])",
          "global_avg_pool(x[2,3,7]; flat=1)");
}

Test(openvino_ops, shapes)
{
    CHECK(few, "relu(reshape(x; shape=2_-1))", "relu(squeeze(x[1,4,1]; axes=0))",
          "relu(unsqueeze(x; axes=0_-1))", "relu(flatten(x; start_axis=1))", "relu(transpose(x))",
          "relu(transpose(x[2,3,4]; perm=1_2_0))",
          "return assign(x), relu(x), reshape(x; shape=-1)", "return scale(x), scale(y), relu(x)",
          "return transpose(x), transpose(y[1,1,4]; perm=0_1_2)",
          "transpose(x[1,4,1,1]; perm=3_0_2_1)", "slice(x[5,6]; starts=0, ends=6, axes=1)",
          "expand(x[4,1]; shape=4_1)", "concat(x; axis=0)", "sum(x[1,4]; axes=0)",
          "sum(x[4,1]; axes=1, keep=1)",
          "y = relu(x)\nreturn y, assign(y), reshape(y; shape=-1), flatten(y)",
          "concat(x, y[2,4,4], x; axis=0)", "concat(x, relu(y); axis=-1)",
          "relu(slice(x[5,6]; starts=1_-4, ends=100_-1, axes=0_1, steps=2_1))",
          "relu(slice(x[5,6]; starts=2, ends=4))", "relu(expand(x[4,1]; shape=3_4_5))",
          "y = relu(x)\nreturn y, transpose(y), reshape(y; shape=-1)");
}

Test(openvino_ops, indices)
{
    CHECK(few, "gather(x, i:i64[3])", "gather(x, i:i64[2,2]; axis=1)",
          "gather(w![3,7], i:i64[2]; axis=0)", "gather(x, 2:i64; axis=-1)", "gather(x, i!:i64[5])",
          "mul(cast(i:i64[4]; to=11), x)", "mul(cast(i:i64[4]; to=11), gather(x, i))");
}

Test(openvino_ops, convolutions)
{
    CHECK(sums, "conv(x[1,3,8,8], w![5,3,3,3], b![5])",
          "conv(x[2,3,8,8], w![5,3,3,3], _; pad=1_2_0_0_1)",
          "conv(x[1,4,9,8], w![6,2,3,2], b![6]; stride=2_3, groups=2)",
          "conv(x[1,4,9,9], w![4,1,3,3], _; groups=4, dilation=2_2, pad=2_2_0_2_2)",
          "conv(x[1,3,10], w![5,3,3], b![5]; stride=2)", "conv(x[1,2,5,5,5], w![3,2,2,2,2], b![3])",
          "conv(x[1,3,6,6], w[5,3,3,3], b[5])", "relu(conv(x[1,3,8,8], w![5,3,1,1], b![5]))");
}

Test(openvino_ops, transposed_convolutions)
{
    CHECK(sums, "conv_transpose(x[1,3,5,5], w![3,4,2,2], b![4]; stride=2_2)",
          "conv_transpose(x[1,4,5,6], w![4,3,3,3], _; stride=2_1, pad=1_0_0_0_1, "
          "output_padding=1_0, groups=2)",
          "conv_transpose(x[1,3,7], w![3,2,3], b![2]; stride=3, dilation=2)");
}

Test(openvino_ops, pools)
{
    CHECK(sums, "max_pool(x[1,3,8,8]; window=2_2, stride=2_2)",
          "max_pool(x[1,3,9,9]; window=3_3, stride=2_2, pad=1_1_0_1_1)",
          "max_pool(x[1,3,8,7]; window=3_2, stride=2_2, ceil_mode=1)",
          "max_pool(x[1,2,9]; window=3, stride=2, pad=1, ceil_mode=1)",
          "avg_pool(x[1,3,8,8]; window=2_2, stride=2_2)",
          "avg_pool(x[1,3,9,9]; window=3_3, stride=2_2, pad=1_1_0_1_1)",
          "avg_pool(x[1,3,9,9]; window=3_3, stride=2_2, pad=1_1_0_1_1, include_pad=1)",
          "avg_pool(x[1,3,8,8]; window=3_3, stride=2_2, ceil_mode=1)",
          "avg_pool(x[1,2,4,5,6]; window=2_2_2)");
}

Test(openvino_ops, resizes)
{
    CHECK(sums, "resize(x[1,3,4,4]; sizes=8_8)",
          "resize(x[1,3,4,4]; sizes=8_12, coordinates=4, nearest=2)",
          "resize(x[1,3,4,4]; sizes=7_9, mode=1)",
          "resize(x[1,3,5,5]; sizes=8_3, mode=1, coordinates=3)",
          "resize(x[1,3,4,4]; sizes=8_8, mode=1, coordinates=4, scale0=2, scale1=2)",
          "resize(x[1,3,4,4]; sizes=9_9, mode=2, coordinates=2)",
          "resize(x[1,2,6]; sizes=9, mode=1)", "resize(x[1,3,5,5]; sizes=8_8, nearest=3)",
          "resize(x[1,3,5,5]; sizes=8_8, nearest=1)",
          "resize(x[1,3,4,6]; axes=3, sizes=9, mode=1)");
}

Test(openvino_ops, networks)
{
    CHECK(
        4 * sums,
        "a = relu(conv(x[1,3,8,8], w![8,3,3,3], b![8]; pad=1_1_0_1_1))\n"
        "c = conv(a, u![8,1,3,3], _; groups=8, pad=1_1_0_1_1)\n"
        "e = mul(a, hard_sigmoid(conv(global_avg_pool(a), p![8,8,1,1], q![8])))\n"
        "d = concat(hard_swish(c), e; axis=1)\n"
        "softmax(matmul(reshape(max_pool(d; window=2_2, stride=2_2); shape=1_-1), r![256,10]))",
        "h = gather(t![3,8], i:i64[1,6])\n"
        "q = transpose(reshape(matmul(h, w![8,8]); shape=1_6_2_4); perm=0_2_1_3)\n"
        "k = transpose(reshape(matmul(h, v![8,8]); shape=1_6_2_4); perm=0_2_3_1)\n"
        "s = softmax(add(div(matmul(q, k), 2), mul(sub(cast(m:i64[1,1,1,6]; to=11), 1), 10000)))\n"
        "o = reshape(transpose(matmul(s, q); perm=0_2_1_3); shape=1_6_8)\n"
        "layer_norm(add(o, gelu(h)), g![8], b![8])");
}
