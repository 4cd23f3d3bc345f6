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

static void scale_cases_scaled(struct case_maker *maker, const char *shape, double factor,
                               double bias, enum data data, const char *variant)
{
    struct kernel_case *made = case_begin(maker, shape);

    made->attrs.scale.factor = factor;
    made->attrs.scale.bias = bias;
    case_data(made, data);
    made->quick = true;
    case_end(maker, made, "%s", variant);
}

void cases_scale(struct case_maker *maker)
{
    struct kernel_case *made;
    char drawn[32];

    for (int i = 0; i < N_LINES; i++) {
        made = case_begin(maker, lines[i].shape);
        made->attrs.scale.factor = 0.7;
        made->attrs.scale.bias = i % 2 ? -0.3 : 0;
        case_smooth(made, 2);
        made->quick = lines[i].quick;
        case_end(maker, made, "%s", lines[i].variant);
    }
    scale_cases_scaled(maker, "65", 1, 0, DATA_PLAIN, "default");
    scale_cases_scaled(maker, "259", 1.3, -1.3, DATA_POSITIVE, "cancels");
    scale_cases_scaled(maker, "259", -3.25, 40, DATA_WIDE, "wide");
    scale_cases_scaled(maker, "257", 0.75, 0, DATA_SPECIAL, "special");
    scale_cases_scaled(maker, "259", 1.5, 0.5, DATA_NONFINITE, "nonfinite");
    scale_cases_scaled(maker, "67", -1.5, 0, DATA_ZERO, "zeros");
    scale_cases_scaled(maker, "1031", 0.75, 0, DATA_RANGE, "range");
    scale_cases_scaled(maker, case_drawn_shape(maker, drawn, sizeof drawn), 0.7, -0.3, DATA_PLAIN,
                       "drawn");
    made = case_begin(maker, "1");
    made->attrs.scale.factor = 0.7;
    case_extents(maker, made, "sweep");
    made = case_begin(maker, "257");
    made->attrs.scale.factor = 0.7;
    case_large(maker, made, "large");
    made = case_begin(maker, "5x6x7");
    made->attrs.scale.factor = 1.7;
    made->attrs.scale.bias = 0.1;
    case_layouts(maker, made, "rank3", true);
}

/* Begins a case with parameters, gradients and a rate, which has rank 0 or one axis of extent 1. */
static struct kernel_case *scale_cases_step(const struct case_maker *maker, const char *shape,
                                            const char *rate)
{
    struct kernel_case *made;
    char shapes[96];

    snprintf(shapes, sizeof shapes, "%s+%s+%s", shape, shape, rate);
    made = case_begin(maker, shapes);
    made->in[2].dtype = maker->dtype[1];
    return made;
}

void cases_sgd(struct case_maker *maker)
{
    static const char *const extents[] = {"97", "129", "333", "3x255"};
    static const enum data data[] = {DATA_ZERO, DATA_RANGE};
    struct kernel_case *made;
    char drawn[32];

    for (int i = 0; i < N_LINES; i++) {
        made = scale_cases_step(maker, lines[i].shape, i % 2 ? "1" : "scalar");
        made->quick = lines[i].quick && maker->dtype[0] == maker->dtype[1];
        case_end(maker, made, "%s", lines[i].variant);
    }
    made = scale_cases_step(maker, "259", "scalar");
    case_data(made, DATA_POSITIVE);
    case_end(maker, made, "cancels");
    made = scale_cases_step(maker, "259", "scalar");
    made->in[0].data = made->in[1].data = DATA_NONFINITE;
    case_end(maker, made, "nonfinite");
    for (int i = 0; i < COUNT(data); i++) {
        made = scale_cases_step(maker, "1031", "scalar");
        made->in[0].data = made->in[1].data = data[i];
        case_end(maker, made, i ? "range" : "zeros");
    }
    for (int i = 0; i < COUNT(extents); i++)
        case_end(maker, scale_cases_step(maker, extents[i], "scalar"), "odd");
    case_end(maker, scale_cases_step(maker, case_drawn_shape(maker, drawn, sizeof drawn), "1"),
             "drawn");
    made = scale_cases_step(maker, "5x6x7", "1");
    case_layouts(maker, made, "rank3", false);
}

static struct kernel_case *scale_cases_loss(const struct case_maker *maker, const char *shape)
{
    char shapes[96];

    snprintf(shapes, sizeof shapes, "%s+%s", shape, shape);
    return case_begin(maker, shapes);
}

void cases_mse_loss(struct case_maker *maker)
{
    static const enum data data[] = {DATA_PLAIN, DATA_EXACT, DATA_POSITIVE, DATA_NONFINITE};
    static const char *const name[] = {"plain", "exact", "positive", "nonfinite"};
    struct kernel_case *made;

    for (int i = 1; i < N_LINES; i++) {
        made = scale_cases_loss(maker, lines[i].shape);
        case_smooth(made, 2);
        made->quick = lines[i].quick;
        case_end(maker, made, "%s", lines[i].variant);
    }
    for (int i = 0; i < 64; i++) { /* few terms: nearest to the bound */
        static const char *const few[] = {"1", "2", "3", "5"};
        made = scale_cases_loss(maker, few[i % 4]);
        case_data(made, i / 4 % 2 ? DATA_POSITIVE : DATA_PLAIN);
        case_end(maker, made, "few%d", i / 4);
    }
    for (int i = 0; i < 4; i++) {
        made = scale_cases_loss(maker, "7x67");
        case_data(made, data[i]);
        made->quick = true;
        case_end(maker, made, "%s", name[i]);
    }
    made = scale_cases_loss(maker, "7x67");
    case_data(made, DATA_WIDE); /* the sum of squares exceeds f16 */
    made->quick = true;
    case_end(maker, made, "wide");
    made = scale_cases_loss(maker, "5x6x7");
    case_layouts(maker, made, "rank3", false);
}
