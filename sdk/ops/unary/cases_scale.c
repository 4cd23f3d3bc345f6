/* SPDX-License-Identifier: Apache-2.0 */
/* cases_scale.c: builds cases of scale, sgd and mse_loss. */
#include "../common/cases.h"
#include <stdio.h>

cases_fn cases_scale, cases_sgd, cases_mse_loss;

static const struct {
    const char *variant, *shape;
    bool quick;
} lines[] = {
    {"empty", "0x3", true},   {"scalar", "scalar", true}, {"one", "1", false},
    {"prime", "1031", true},  {"width", "15", false},     {"width", "16", false},
    {"width", "17", false},   {"width", "31", false},     {"width", "33", false},
    {"width", "63", false},   {"width", "64", false},     {"width", "65", true},
    {"rank5", "2x3x2x3x5", true}, {"rank8", "1x2x1x2x1x2x1x3", false},
    {"rows", "129x257", false},   {"long", "70001", false},
};
enum { N_LINES = sizeof lines / sizeof *lines };

static void scale_cases_scaled(struct case_builder *builder, const char *shape, double factor,
                               double bias, enum data data, const char *variant)
{
    struct kernel_case *made = case_begin(builder, shape);

    made->attrs.scale.factor = factor;
    made->attrs.scale.bias = bias;
    case_data(made, data);
    made->quick = true;
    case_end(builder, made, "%s", variant);
}

void cases_scale(struct case_builder *builder)
{
    struct kernel_case *made;
    char drawn[32];

    for (int i = 0; i < N_LINES; i++) {
        made = case_begin(builder, lines[i].shape);
        made->attrs.scale.factor = 0.7;
        made->attrs.scale.bias = i % 2 ? -0.3 : 0;
        case_smooth(made, 2);
        made->quick = lines[i].quick;
        case_end(builder, made, "%s", lines[i].variant);
    }
    scale_cases_scaled(builder, "65", 1, 0, DATA_PLAIN, "default");
    scale_cases_scaled(builder, "259", 1.3, -1.3, DATA_POSITIVE, "cancels");
    scale_cases_scaled(builder, "259", -3.25, 40, DATA_WIDE, "wide");
    scale_cases_scaled(builder, "257", 0.75, 0, DATA_SPECIAL, "special");
    scale_cases_scaled(builder, "259", 1.5, 0.5, DATA_NONFINITE, "nonfinite");
    scale_cases_scaled(builder, "67", -1.5, 0, DATA_ZERO, "zeros");
    scale_cases_scaled(builder, "1031", 0.75, 0, DATA_RANGE, "range");
    scale_cases_scaled(builder, case_drawn_shape(builder, drawn, sizeof drawn), 0.7, -0.3,
                       DATA_PLAIN, "drawn");
    made = case_begin(builder, "1");
    made->attrs.scale.factor = 0.7;
    case_extents(builder, made, "sweep");
    made = case_begin(builder, "257");
    made->attrs.scale.factor = 0.7;
    case_large(builder, made, "large");
    made = case_begin(builder, "5x6x7");
    made->attrs.scale.factor = 1.7;
    made->attrs.scale.bias = 0.1;
    case_layouts(builder, made, "rank3", true);
}

/* Begins a case with parameters, gradients and a rate, which has rank 0 or one axis of extent 1. */
static struct kernel_case *scale_cases_step(const struct case_builder *builder, const char *shape,
                                            const char *rate)
{
    struct kernel_case *made;
    char shapes[96];

    snprintf(shapes, sizeof shapes, "%s+%s+%s", shape, shape, rate);
    made = case_begin(builder, shapes);
    made->in[2].dtype = builder->dtype[1];
    return made;
}

void cases_sgd(struct case_builder *builder)
{
    static const char *const extents[] = {"97", "129", "333", "3x255"};
    static const enum data data[] = {DATA_ZERO, DATA_RANGE};
    struct kernel_case *made;
    char drawn[32];

    for (int i = 0; i < N_LINES; i++) {
        made = scale_cases_step(builder, lines[i].shape, i % 2 ? "1" : "scalar");
        made->quick = lines[i].quick && builder->dtype[0] == builder->dtype[1];
        case_end(builder, made, "%s", lines[i].variant);
    }
    made = scale_cases_step(builder, "259", "scalar");
    case_data(made, DATA_POSITIVE);
    case_end(builder, made, "cancels");
    made = scale_cases_step(builder, "259", "scalar");
    made->in[0].data = made->in[1].data = DATA_NONFINITE;
    case_end(builder, made, "nonfinite");
    for (int i = 0; i < COUNT(data); i++) {
        made = scale_cases_step(builder, "1031", "scalar");
        made->in[0].data = made->in[1].data = data[i];
        case_end(builder, made, i ? "range" : "zeros");
    }
    for (int i = 0; i < COUNT(extents); i++)
        case_end(builder, scale_cases_step(builder, extents[i], "scalar"), "odd");
    case_end(builder,
             scale_cases_step(builder, case_drawn_shape(builder, drawn, sizeof drawn), "1"),
             "drawn");
    made = scale_cases_step(builder, "5x6x7", "1");
    case_layouts(builder, made, "rank3", false);
}

static struct kernel_case *scale_cases_loss(const struct case_builder *builder, const char *shape)
{
    char shapes[96];

    snprintf(shapes, sizeof shapes, "%s+%s", shape, shape);
    return case_begin(builder, shapes);
}

void cases_mse_loss(struct case_builder *builder)
{
    static const enum data data[] = {DATA_PLAIN, DATA_EXACT, DATA_POSITIVE, DATA_NONFINITE};
    static const char *const name[] = {"plain", "exact", "positive", "nonfinite"};
    struct kernel_case *made;

    for (int i = 1; i < N_LINES; i++) {
        made = scale_cases_loss(builder, lines[i].shape);
        case_smooth(made, 2);
        made->quick = lines[i].quick;
        case_end(builder, made, "%s", lines[i].variant);
    }
    for (int i = 0; i < 64; i++) { /* few terms: nearest to the bound */
        static const char *const few[] = {"1", "2", "3", "5"};
        made = scale_cases_loss(builder, few[i % 4]);
        case_data(made, i / 4 % 2 ? DATA_POSITIVE : DATA_PLAIN);
        case_end(builder, made, "few%d", i / 4);
    }
    for (int i = 0; i < 4; i++) {
        made = scale_cases_loss(builder, "7x67");
        case_data(made, data[i]);
        made->quick = true;
        case_end(builder, made, "%s", name[i]);
    }
    made = scale_cases_loss(builder, "7x67");
    case_data(made, DATA_WIDE); /* the sum of squares exceeds f16 */
    made->quick = true;
    case_end(builder, made, "wide");
    made = scale_cases_loss(builder, "5x6x7");
    case_layouts(builder, made, "rank3", false);
}
