/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of log_softmax, linear, label_smooth and glu. */
#include "../common/cases.h"
#include <stdio.h>

cases_fn cases_log_softmax, cases_log_softmax_grad, cases_linear, cases_label_smooth, cases_glu;

static const struct {
    const char *shape;
    int axis;
    enum data data;
    bool quick;
} lines[] = {
    {"0x5", 1, DATA_PLAIN, true},          {"5x0", 0, DATA_PLAIN, false},
    {"5x0", 1, DATA_PLAIN, false},         {"1", 0, DATA_PLAIN, true},
    {"17", 0, DATA_PLAIN, true},           {"7", -1, DATA_PLAIN, false},
    {"15", 0, DATA_WIDE, false},           {"16", 0, DATA_PLAIN, false},
    {"3x63", 1, DATA_PLAIN, false},        {"3x64", 1, DATA_WIDE, false},
    {"3x65", 1, DATA_PLAIN, true},         {"3x4", 0, DATA_PLAIN, true},
    {"3x4", 1, DATA_PLAIN, true},          {"65x3", 0, DATA_WIDE, false},
    {"7x1", 1, DATA_PLAIN, false},         {"3x4x5", 1, DATA_PLAIN, true},
    {"2x3x2x3x5", 2, DATA_PLAIN, false},   {"1x2x1x2x2x2x1x3", 3, DATA_PLAIN, false},
    {"1031x3", 0, DATA_PLAIN, false},      {"2x2500", 1, DATA_EXACT, true},
    {"33x129", 0, DATA_PLAIN, false},      {"9x67", 1, DATA_NONFINITE, true},
    {"67x9", 0, DATA_NONFINITE, false},    {"131x2", 1, DATA_PLAIN, false},
    {"67x3", 1, DATA_WIDE, false},
};

static void of_lines(struct case_builder *builder, bool grad)
{
    struct kernel_case *made;
    char shapes[64];

    for (int i = 0; i < COUNT(lines); i++) {
        snprintf(shapes, sizeof shapes, grad ? "%s+%s" : "%s", lines[i].shape, lines[i].shape);
        made = case_begin(builder, shapes);
        made->attrs.log_softmax.axis = lines[i].axis; /* log_softmax_grad has these too */
        made->in[0].data = lines[i].data;
        if (grad && lines[i].data == DATA_WIDE) made->in[0].data = DATA_PLAIN;
        case_smooth(made, 2);
        made->quick = lines[i].quick;
        case_end(builder, made, "axis%d", lines[i].axis & 7);
    }
    for (int axis = 0; axis < 3; axis++) {
        made = case_begin(builder, grad ? "5x6x7+5x6x7" : "5x6x7");
        made->attrs.log_softmax.axis = axis;
        case_layouts(builder, made, axis == 0 ? "first" : axis == 1 ? "middle" : "last", true);
    }
}

void cases_log_softmax(struct case_builder *builder)
{
    of_lines(builder, false);
}

void cases_log_softmax_grad(struct case_builder *builder)
{
    of_lines(builder, true);
}

void cases_linear(struct case_builder *builder)
{
    static const char *const shapes[] = {"3x4+5x4",        "2x3+2x3+2",  "3+2x3+2",
                                         "0x4+3x4+3",      "3x0+2x0+2",  "2x3x4+5x4+5",
                                         "17x31+15x31+15", "1x1+1x1+1",  "2x3x2x3x5+7x5",
                                         "5x131+3x131+3",  "31x2+7x2+7", "4+0x4"};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(shapes); i++)
        for (int data = 0; data < 3; data++) {
            made = case_begin(builder, shapes[i]);
            case_data(made, data == 0 ? DATA_PLAIN : data == 1 ? DATA_EXACT : DATA_POSITIVE);
            if (!data) case_smooth(made, 2);
            made->quick = i % 2;
            case_end(builder, made, data == 0 ? "plain" : data == 1 ? "exact" : "positive");
        }
    case_real(builder, case_begin(builder, "67x129+97x129+97"), 1, "real");
    case_real(builder, case_begin(builder, "2x31x65+66x65+66"), 1, "real.batches");
    case_layouts(builder, case_begin(builder, "5x6+7x6+7"), "layouts", false);
}

void cases_label_smooth(struct case_builder *builder)
{
    static const char *const shapes[] = {"3x4", "2x3+3", "2x3+1x3", "0x4", "3x0", "5", "17x31+31",
                                         "1031", "2x3x2x3x5+5", "131x17+131x1"};
    static const double epsilons[] = {0.1, 0, 1, 0.7};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(shapes); i++)
        for (int k = 0; k < COUNT(epsilons); k++) {
            made = case_begin(builder, shapes[i]);
            made->attrs.label_smooth.epsilon = epsilons[k];
            if (k == 3) case_data(made, DATA_POSITIVE);
            case_smooth(made, k ? 0 : 2);
            made->quick = i % 2;
            case_end(builder, made, "eps%g", epsilons[k]);
        }
    case_layouts(builder, case_begin(builder, "5x6x7+6x7"), "layouts", false);
}

void cases_glu(struct case_builder *builder)
{
    static const struct {
        const char *shape;
        int axis;
    } cases[] = {{"3x4", -1}, {"4x3", 0}, {"0x4", 1}, {"4x0", 0}, {"2", 0}, {"17x34", 1},
                 {"2x3x2x6x5", 3}, {"2062", 0}, {"3x64", -1}, {"3x66", 1}};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(cases); i++)
        for (int wide = 0; wide < 3; wide++) {
            made = case_begin(builder, cases[i].shape);
            made->attrs.glu.axis = cases[i].axis;
            case_data(made, wide == 0 ? DATA_PLAIN : wide == 1 ? DATA_WIDE : DATA_NONFINITE);
            if (!wide) case_smooth(made, 2);
            made->quick = i % 2;
            case_end(builder, made, "axis%d.%s", cases[i].axis & 7,
                     wide == 0   ? "plain"
                     : wide == 1 ? "wide"
                                 : "nonfinite");
        }
    made = case_begin(builder, "5x6x8");
    case_layouts(builder, made, "layouts", false);
}
