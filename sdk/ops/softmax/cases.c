/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of softmax and its gradient. */
#include "../common/cases.h"
#include <stdio.h>

cases_fn cases_softmax, cases_softmax_grad;

static const struct {
    const char *shape;
    int axis;
    bool quick;
} lines[] = {
    {"0x5", 1, true},        {"5x0", 0, false},
    {"5x0", 1, false},       {"1", 0, true},
    {"17", 0, true},         {"7", -1, false},
    {"15", 0, false},        {"16", 0, false},
    {"31", 0, false},        {"33", 0, false},
    {"3x63", 1, false},      {"3x64", 1, false},
    {"3x65", 1, true},       {"5x7", 0, true},
    {"5x7", 1, true},        {"5x7", -2, false},
    {"65x3", 0, false},      {"1x7", 0, false},
    {"7x1", 1, false},       {"3x4x5", 0, true},
    {"3x4x5", 1, true},      {"3x4x5", 2, false},
    {"2x3x2x3x5", 2, true},  {"2x3x2x3x5", 4, false},
    {"2x3x2x3x5", 0, false}, {"1x2x1x2x2x2x1x3", 3, false},
    {"1031x3", 0, false},    {"1x4096", 1, true},
    {"257x129", 1, false},   {"129x257", 0, false},
};
enum {
    N_LINES = sizeof lines / sizeof *lines
};

/* Names an axis: "axis1", or "axisn2" for -2. */
static const char *axis_name(int axis, char *text, size_t size)
{
    snprintf(text, size, "axis%s%d", axis < 0 ? "n" : "", axis < 0 ? -axis : axis);
    return text;
}

static void softmax_data(const struct case_builder *builder, const char *shapes, enum data data,
                         int axis, const char *what)
{
    struct kernel_case *made = case_begin(builder, shapes);

    made->attrs.softmax.axis = axis;
    case_data(made, data);
    made->quick = true;
    case_end(builder, made, "axis%d.%s", axis, what);
}

/* exp of these numbers overflows; exp of their differences does not. */
static void softmax_large(const struct case_builder *builder, const char *shape, int axis)
{
    static const double list[] = {1000, 999, 990.5, -1000, 1001, 0, 995};
    struct kernel_case *made = case_begin(builder, shape);

    made->attrs.softmax.axis = axis;
    case_list(made, 0, sizeof list / sizeof *list, list);
    case_end(builder, made, "axis%d.large", axis);
}

/* Results near the smallest normal numbers, beside one result of 1. */
static void softmax_small(const struct case_builder *builder, const char *shape, int axis)
{
    static const double list[] = {-87.25, 0, -87.0625, -87.125, -86, -50, -88};
    struct kernel_case *made = case_begin(builder, shape);

    made->attrs.softmax.axis = axis;
    case_list(made, 0, sizeof list / sizeof *list, list);
    made->quick = true;
    case_end(builder, made, "axis%d.small", axis);
}

void cases_softmax(struct case_builder *builder)
{
    char name[32];

    for (int i = 0; i < N_LINES; i++) {
        struct kernel_case *made = case_begin(builder, lines[i].shape);
        made->attrs.softmax.axis = lines[i].axis;
        case_smooth(made, 2);
        made->quick = lines[i].quick;
        case_end(builder, made, "%s", axis_name(lines[i].axis, name, sizeof name));
    }
    {
        struct kernel_case *made = case_begin(builder, "3x1");
        made->attrs.softmax.axis = 1;
        case_extents(builder, made, "sweep");
    }
    for (int axis = 0; axis < 3; axis++) {
        struct kernel_case *made = case_begin(builder, "5x6x7");
        made->attrs.softmax.axis = axis;
        case_layouts(builder, made, axis_name(axis, name, sizeof name), true);
    }
    softmax_data(builder, case_drawn_shape(builder, name, sizeof name), DATA_PLAIN, 1, "drawn");
    softmax_data(builder, name, DATA_PLAIN, 0, "drawn");
    softmax_data(builder, "9x67", DATA_ZERO, 1, "zeros");
    softmax_data(builder, "9x67", DATA_RANGE, 1, "range");
    softmax_data(builder, "67x9", DATA_RANGE, 0, "range");
    softmax_data(builder, "5x33", DATA_WIDE, 1, "wide");
    softmax_data(builder, "33x5", DATA_WIDE, 0, "wide");
    softmax_large(builder, "5x33", 1);
    softmax_large(builder, "33x5", 0);
    softmax_large(builder, "5x16", 1);
    softmax_large(builder, "5x64", 1);
    softmax_small(builder, "1x7", 1);
    softmax_small(builder, "7x1", 0);
    softmax_data(builder, "5x67", DATA_EXACT, 1, "ties");
    softmax_data(builder, "9x67", DATA_NONFINITE, 1, "nonfinite");
    softmax_data(builder, "67x9", DATA_NONFINITE, 0, "nonfinite");
}

void cases_softmax_grad(struct case_builder *builder)
{
    char name[32], shapes[64];

    for (int i = 0; i < N_LINES; i++) {
        struct kernel_case *made;
        snprintf(shapes, sizeof shapes, "%s+%s", lines[i].shape, lines[i].shape);
        made = case_begin(builder, shapes);
        made->attrs.softmax_grad.axis = lines[i].axis;
        made->in[0].data = DATA_LOGIT;
        case_smooth(made, 2);
        made->quick = lines[i].quick;
        case_end(builder, made, "%s", axis_name(lines[i].axis, name, sizeof name));
    }
    for (int axis = 0; axis < 3; axis++) {
        struct kernel_case *made = case_begin(builder, "5x6x7+5x6x7");
        made->attrs.softmax_grad.axis = axis;
        made->in[0].data = DATA_LOGIT;
        case_layouts(builder, made, axis_name(axis, name, sizeof name), true);
    }
    {
        struct kernel_case *made = case_begin(builder, "3x1+3x1");
        made->attrs.softmax_grad.axis = 1;
        made->in[0].data = DATA_LOGIT;
        case_extents(builder, made, "sweep");
    }
    case_drawn_shape(builder, name, sizeof name);
    snprintf(shapes, sizeof shapes, "%s+%s", name, name);
    softmax_data(builder, shapes, DATA_UNIT, 1, "drawn");
    softmax_data(builder, "9x67+9x67", DATA_ZERO, 1, "zeros");
    softmax_data(builder, "7x65+7x65", DATA_EXACT, 1, "exact");
    softmax_data(builder, "9x67+9x67", DATA_NONFINITE, 1, "nonfinite");
}
