/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of products with an epilogue. The products themselves have
 * cases of their own; these are about biases, residuals and activations. */
#include "../common/cases.h"
#include <backplane/kernel.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_fused_conv, cases_fused_matmul;

static const struct activation {
    const char *name;
    enum bp_activation number;
    double alpha, beta;
} activations[] = {
    {"none", BP_ACTIVATION_NONE, 0, 0},
    {"relu", BP_ACTIVATION_RELU, 0, 0},
    {"leaky_relu", BP_ACTIVATION_LEAKY_RELU, 0.1, 0},
    {"clip", BP_ACTIVATION_CLIP, -0.5, 1.25},
    {"clip-up", BP_ACTIVATION_CLIP, 0, 6},
    {"sigmoid", BP_ACTIVATION_SIGMOID, 0, 0},
    {"tanh", BP_ACTIVATION_TANH, 0, 0},
    {"hard_sigmoid", BP_ACTIVATION_HARD_SIGMOID, 1.0 / 6, 0.5},
    {"hard_swish", BP_ACTIVATION_HARD_SWISH, 0, 0},
    {"silu", BP_ACTIVATION_SILU, 0, 0},
    {"gelu", BP_ACTIVATION_GELU, 0, 0},
    {"gelu_tanh", BP_ACTIVATION_GELU_TANH, 0, 0},
    {"mish", BP_ACTIVATION_MISH, 0, 0},
    {"elu", BP_ACTIVATION_ELU, 1.3, 0},
    {"softplus", BP_ACTIVATION_SOFTPLUS, 1.5, 20},
};

static struct kernel_case *conv_case(const struct case_builder *builder, const char *shapes,
                                     const struct activation *of)
{
    struct kernel_case *made = case_begin(builder, shapes);
    struct bp_fused_conv_attrs *a = &made->attrs.fused_conv;

    a->activation = of->number;
    a->alpha = of->alpha;
    a->beta = of->beta;
    return made;
}

static struct kernel_case *matmul_case(const struct case_builder *builder, const char *shapes,
                                       const struct activation *of)
{
    struct kernel_case *made = case_begin(builder, shapes);
    struct bp_fused_matmul_attrs *a = &made->attrs.fused_matmul;

    a->activation = of->number;
    a->alpha = of->alpha;
    a->beta = of->beta;
    return made;
}

typedef struct kernel_case *product_case(const struct case_builder *builder, const char *shapes,
                                         const struct activation *of);

/* Images and residuals with their channels innermost, as libraries need them. */
static struct kernel_case *channels_innermost(struct kernel_case *made)
{
    made->in[0].layout = made->out = LAYOUT_LAST;
    if (made->in[3].present) made->in[3].layout = LAYOUT_LAST;
    return made;
}

/* Adds cases with each activation. The residual has NaN and infinities, one for each element, so
 * that every activation receives all three; without a residual, x has them. */
static void with_activations(const struct case_builder *builder, product_case *product,
                             const char *what, const char *all, const char *no_residual)
{
    struct kernel_case *made;
    bool last = !strncmp(what, "last", 4);

    for (int i = 0; i < COUNT(activations); i++) {
        const struct activation *of = &activations[i];
        made = product(builder, all, of);
        if (last) channels_innermost(made);
        made->quick = true;
        case_end(builder, made, "%s.%s", what, of->name);
        made = product(builder, all, of);
        if (last) channels_innermost(made);
        made->in[3].data = DATA_NONFINITE;
        case_end(builder, made, "%s.nonfinite.%s", what, of->name);
        made = product(builder, no_residual, of);
        if (last) channels_innermost(made);
        made->in[0].data = DATA_NONFINITE;
        case_end(builder, made, "%s.nonfinite.%s", what, of->name);
    }
}

/* The cases of images with NaN and infinities whose channels are innermost, without the bias: a
 * library may compute the products alone by other kernels. */
static void fused_conv_without_bias(const struct case_builder *builder)
{
    for (int i = 0; i < 2; i++) {
        struct kernel_case *made =
            channels_innermost(conv_case(builder, "1x16x8x8+16x16x3x3+-+-", &activations[i]));
        made->in[0].data = DATA_NONFINITE;
        case_end(builder, made, "last.nonfinite.plain.%s", activations[i].name);
    }
}

/* Adds a case in which y is the residual's memory, if the row allows that. */
static void in_place(const struct case_builder *builder, struct kernel_case *made,
                     const char *variant)
{
    if (!(builder->row_flags & BP_KERNEL_IN_PLACE)) {
        free(made);
        return;
    }
    made->in_place = true;
    case_end(builder, made, "%s.inplace", variant);
}

static const struct activation *const none = &activations[0], *const relu = &activations[1],
                               *const silu = &activations[9], *const gelu = &activations[10];

static void fused_conv_geometries(const struct case_builder *builder)
{
    static const char *const parts[] = {"1x3x7x6+4x3x3x3+-+-", "1x3x7x6+4x3x3x3+4+-",
                                        "1x3x7x6+4x3x3x3+-+1x4x5x4", "2x3x9+4x3x3+4+2x4x7",
                                        "1x2x4x5x4+3x2x2x3x2+3+1x3x3x3x3",
                                        "1x32x41x1+24x32x5x1+24+1x24x37x1",
                                        "0x3x7x6+4x3x3x3+4+0x4x5x4"};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(parts); i++) case_end(builder, conv_case(builder, parts[i], relu),
                                                    "parts");
    made = conv_case(builder, "1x4x9x9+6x2x3x2+6+1x6x5x11", silu);
    made->attrs.fused_conv.groups = 2;
    made->attrs.fused_conv.stride[0] = 2;
    made->attrs.fused_conv.dilation[1] = 2;
    memcpy(made->attrs.fused_conv.pad, (int64_t[]){1, 2, 0, 1, 2, 0},
           sizeof made->attrs.fused_conv.pad);
    made->quick = true;
    case_end(builder, made, "geometry");
    made = channels_innermost(conv_case(builder, "1x64x14x14+64x1x3x3+64+-", relu));
    made->attrs.fused_conv.groups = 64;
    case_end(builder, made, "last.depthwise");
}

/* Products that are large enough for tiles, and do not fill the last ones; residuals whose layout
 * is not that of the result. */
static void fused_conv_residuals(const struct case_builder *builder)
{
    static const char *const shapes[] = {"1x16x8x8+12x16x3x3+12+1x12x6x6",
                                         "2x16x8x9+12x16x3x3+12+2x12x6x7"};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(shapes); i++)
        for (int last = 0; last < 4; last++) {
            made = conv_case(builder, shapes[i], silu);
            if (last & 1) made->in[3].layout = LAYOUT_LAST;
            if (last & 2) made->in[0].layout = made->out = LAYOUT_LAST;
            made->quick = last == 1;
            case_end(builder, made, "residual.%s.%s", last & 2 ? "last" : "dense",
                     last & 1 ? "last" : "dense");
        }
}

/* A depthwise convolution, padded by half a window; stride and window are those of the name. */
static struct kernel_case *depthwise_case(const struct case_builder *builder, const char *shapes,
                                          const struct activation *of, int64_t stride,
                                          int64_t pad)
{
    struct kernel_case *made = channels_innermost(conv_case(builder, shapes, of));
    struct bp_fused_conv_attrs *a = &made->attrs.fused_conv;

    a->groups = made->in[0].shape[1];
    a->stride[0] = a->stride[1] = stride;
    a->pad[0] = a->pad[1] = a->pad[3] = a->pad[4] = pad;
    return made;
}

/* Networks for phones: depthwise convolutions whose channels and lines do not fill vectors and
 * blocks, and squeeze blocks, which are convolutions of one point. */
static void fused_conv_of_phones(const struct case_builder *builder)
{
    static const struct {
        const char *variant, *shapes;
        int64_t stride, pad;
    } grids[] = {
        {"depthwise.3", "2x40x9x16+40x1x3x3+40+-", 1, 1},
        {"depthwise.3.step", "1x24x9x31+24x1x3x3+24+-", 2, 1},
        {"depthwise.5", "1x56x15x14+56x1x5x5+-+-", 1, 2},
        {"depthwise.5.step", "2x16x15x14+16x1x5x5+16+-", 2, 2},
        {"depthwise.small", "1x33x2x3+33x1x5x5+33+-", 1, 2},
        {"depthwise.no-pad", "1x48x5x17+48x1x3x3+48+-", 1, 0},
    };
    static const char *const point = "3x37x1x1+70x37x1x1+70+-";
    struct kernel_case *made;

    for (int i = 0; i < COUNT(activations); i++) {
        const struct activation *of = &activations[i];
        for (int bad = 0; bad < 2; bad++) {
            made = depthwise_case(builder, grids[0].shapes, of, 1, 1);
            if (bad) made->in[0].data = DATA_NONFINITE;
            case_end(builder, made, "depthwise%s.%s", bad ? ".nonfinite" : "", of->name);
            made = channels_innermost(conv_case(builder, point, of));
            if (bad) made->in[0].data = DATA_NONFINITE;
            case_end(builder, made, "points%s.%s", bad ? ".nonfinite" : "", of->name);
        }
    }
    for (int i = 0; i < COUNT(grids); i++) {
        made = depthwise_case(builder, grids[i].shapes, silu, grids[i].stride, grids[i].pad);
        made->quick = true;
        made->in[1].frozen = i % 2;
        case_end(builder, made, "%s", grids[i].variant);
    }
    case_real(builder, depthwise_case(builder, "1x96x28x28+96x1x5x5+96+-", silu, 1, 2), 1,
              "depthwise.real");
    case_real(builder, channels_innermost(conv_case(builder, "1x960x1x1+240x960x1x1+240+-", relu)),
              1, "points.real");
    case_end(builder, channels_innermost(conv_case(builder, "1x130x1+5x130x1+-+-", silu)),
             "points.1d");
}

void cases_fused_conv(struct case_builder *builder)
{
    static const char *const point = "1x24x14x14+16x24x1x1+16+1x16x14x14";
    static const char *const window = "1x16x8x8+16x16x3x3+16+1x16x6x6";
    struct kernel_case *made;

    case_gradient(builder, "1x2x3x2+2x2x2x2+2+1x2x2x1", DATA_PLAIN, 2);
    if (builder->gradients) {
        made = conv_case(builder, "1x1x3x3+2x1x2x2+-+1x2x2x2", silu);
        made->gradient = 2;
        case_end(builder, made, "silu");
        return;
    }
    with_activations(builder, conv_case, "small", "1x3x5x6+4x3x3x3+4+1x4x3x4",
                     "2x3x5x6+4x3x3x3+4+-");
    with_activations(builder, conv_case, "last", window, "1x16x8x8+16x16x3x3+16+-");
    fused_conv_without_bias(builder);
    fused_conv_geometries(builder);
    fused_conv_residuals(builder);
    fused_conv_of_phones(builder);
    in_place(builder, channels_innermost(conv_case(builder, window, relu)), "last");
    in_place(builder, channels_innermost(conv_case(builder, point, none)), "last.point");
    in_place(builder, conv_case(builder, "1x3x7+4x3x3+4+1x4x5", relu), "small");
    case_end(builder, channels_innermost(conv_case(builder, point, relu)), "last.point");
    case_real(builder, channels_innermost(conv_case(builder, "2x33x13x15+40x33x3x3+40+2x40x11x13",
                                                    relu)), 1, "last.real");
    case_layouts(builder, conv_case(builder, "2x3x9+4x3x3+4+2x4x7", relu), "1d.laid", false);
}

static void fused_matmul_shapes(const struct case_builder *builder)
{
    static const char *const parts[] = {"5x7+7x9+-+-", "5x7+7x9+9+-", "5x7+7x9+-+5x9",
                                        "2x3x4+4x5+5+2x3x5", "2x1x3x4+3x4x5+5+2x3x3x5",
                                        "7+7x9+9+9", "5x7+7+-+5", "7+7+-+scalar", "0x4+4x5+5+0x5",
                                        "3x0+0x5+5+3x5", "1x37+37x300+300+1x300"};
    static const char *const shared[] = {"1x640+3x48x640+48+-", "1x64+1024x1x64+1+-",
                                         "5x64+9x24x64+24+9x5x24"};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(parts); i++)
        for (int k = 0; k < 2; k++) {
            made = matmul_case(builder, parts[i], k ? gelu : none);
            if (k) case_data(made, DATA_POSITIVE);
            made->quick = i % 2;
            case_end(builder, made, "parts.%s", k ? "gelu" : "none");
        }
    made = matmul_case(builder, "7x5+9x7+9+5x9", relu);
    made->attrs.fused_matmul.transpose_a = made->attrs.fused_matmul.transpose_b = 1;
    case_end(builder, made, "transpose-ab");
    for (int i = 0; i < COUNT(shared); i++) { /* the batches of b are columns of one product */
        made = matmul_case(builder, shared[i], none);
        made->attrs.fused_matmul.transpose_b = 1;
        made->quick = true;
        case_end(builder, made, "shared.transpose-b");
    }
}

void cases_fused_matmul(struct case_builder *builder)
{
    struct kernel_case *made;

    case_gradient(builder, "2x3+3x2+2+2x2", DATA_PLAIN, 2);
    if (builder->gradients) {
        made = matmul_case(builder, "2x3+3x2+2+-", gelu);
        made->gradient = 2;
        case_end(builder, made, "gelu");
        return;
    }
    with_activations(builder, matmul_case, "small", "5x7+7x9+9+5x9", "5x7+7x9+9+-");
    with_activations(builder, matmul_case, "large", "31x33+33x37+37+31x37", "31x33+33x37+37+-");
    fused_matmul_shapes(builder);
    in_place(builder, matmul_case(builder, "31x33+33x37+37+31x37", gelu), "large");
    in_place(builder, matmul_case(builder, "5x7+7x9+-+5x9", relu), "small");
    case_real(builder, matmul_case(builder, "131x65+65x97+97+131x97", gelu), 1, "real");
    case_real(builder, matmul_case(builder, "2x31x65+65x66+66+2x31x66", none), 1, "real.batches");
    made = matmul_case(builder, "67x129+97x129+97+-", relu);
    made->attrs.fused_matmul.transpose_b = 1;
    case_real(builder, made, 1, "real.transpose-b");
    case_layouts(builder, matmul_case(builder, "5x6+6x7+7+5x7", relu), "layouts", false);
}
