/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of elementwise operators of two inputs that are a formula
 * (kernels.def). */
#include "../common/cases.h"
#include <math.h>
#include <string.h>

cases_fn cases_pair, cases_prelu, cases_squared_difference;

static const struct case_line pairs[] = {
    {"empty", "0x3+1x3", DATA_PLAIN, true},
    {"scalar", "scalar+scalar", DATA_PLAIN, false},
    {"one", "1+1", DATA_PLAIN, false},
    {"prime", "1031+1031", DATA_PLAIN, true},
    {"width", "15+15", DATA_PLAIN, false},
    {"width", "17+17", DATA_PLAIN, false},
    {"width", "65+65", DATA_PLAIN, false},
    {"broadcast-left", "scalar+7x65", DATA_PLAIN, false},
    {"broadcast-right", "7x65+7x1", DATA_PLAIN, false},
    {"broadcast-both", "7x1x33+4x1", DATA_PLAIN, false},
    {"rank5", "2x3x2x3x5+2x1x2x1x5", DATA_PLAIN, false},
    {"rank8", "1x2x1x2x1x2x1x3+2x1x2x1x2x1x3x1", DATA_PLAIN, false},
    {"exact", "521+521", DATA_EXACT, true}, /* ties, zeros, negative numbers */
    {"wide", "521+521", DATA_WIDE, false},
    {"special", "521+521", DATA_SPECIAL, true},
    {"nonfinite", "259+259", DATA_NONFINITE, false},
    {"positive", "2053+2053", DATA_POSITIVE, false},
};

/* Numbers without a kink of any of these operators between them: no ties, no whole quotients. */
static const double left[] = {0.7, -1.3, 1.9, 0.4, -0.6, 1.1},
                    right[] = {1.5, 0.8, -1.2, 0.9, 1.7, -0.5};

/* Values that random numbers rarely combine: zeros, NaN and infinities, in all pairs. */
static const double zeros[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN},
                    marks[] = {NAN, 0, INFINITY, -INFINITY, -0.0, 2, -2, 3};

/* Adds small cases for the suite `gradient`: powers and logarithms have positive numbers only. */
static void binary_cases_smooth(struct case_builder *builder)
{
    static const char *const shapes[] = {"2x3+2x3", "3x4+4", "1x2+3x1"};
    bool positive = case_is(builder, "pow") || case_is(builder, "xlogy");

    if (!case_is_float(builder)) return;
    for (int i = 0; i < 3; i++) {
        struct kernel_case *made = case_begin(builder, shapes[i]);
        if (positive) {
            case_data(made, DATA_POSITIVE);
        } else {
            case_list(made, 0, 6, left);
            case_list(made, 1, 6, right);
        }
        made->gradient = 2;
        case_end(builder, made, "smooth");
    }
}

/* Adds powers whose exponents are one number: devices may compute some of them by products. */
static void binary_cases_powers(struct case_builder *builder)
{
    static const double exponents[] = {-2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4};

    for (size_t i = 0; i < COUNT(exponents); i++) {
        struct kernel_case *made = case_begin(builder, "2053+1");
        made->in[0].data = i % 2 ? DATA_WIDE : DATA_POSITIVE;
        case_list(made, 1, 1, exponents + i);
        case_end(builder, made, "uniform%zu", i);
        made = case_begin(builder, "3x7+scalar");
        case_list(made, 0, 7, zeros);
        case_list(made, 1, 1, exponents + i);
        made->quick = true;
        case_end(builder, made, "uniform-marks%zu", i);
    }
}

/* Adds cases that only some of the operators need. */
static void binary_cases_particular(struct case_builder *builder)
{
    static const double small[] = {1.1e-6, 3e-7, -2.3e-6, 7.7e-7, 5e-6};
    static const double least[] = {1.1e-15, 3e-16, -2.3e-15, 7.7e-16, 5e-15};
    static const double far_f32[] = {3e30, -7e30, 2e-30, 9e-30, 1e37, 3e-37};
    static const double far_f64[] = {3e250, -7e250, 2e-250, 9e-250, 1e307, 3e-307};
    struct kernel_case *made;

    if (case_is(builder, "maximum")) {
        made = case_begin(builder, "70001+70001");
        case_end(builder, made, "long");
    }
    if (!case_is_float(builder)) return;
    made = case_begin(builder, "56+56");
    case_list(made, 0, 7, zeros);
    case_list(made, 1, 8, marks);
    made->quick = true;
    case_end(builder, made, "marks");
    if (case_is(builder, "pow")) {
        made = case_begin(builder, "2053+2053");
        made->in[0].data = DATA_POSITIVE;
        made->in[1].data = DATA_WIDE;
        case_end(builder, made, "powers");
        made = case_begin(builder, "2053+2053");
        made->in[0].data = DATA_WIDE;
        made->in[1].data = DATA_EXACT;
        case_end(builder, made, "whole-powers");
        binary_cases_powers(builder);
    }
    if (case_is(builder, "hypot") &&
        (builder->dtype[0] == BP_F32 || builder->dtype[0] == BP_F64)) { /* squares out of range */
        bool is_wide = builder->dtype[0] == BP_F64;
        made = case_begin(builder, "5x6+6");
        case_list(made, 0, 5, is_wide ? far_f64 : far_f32);
        case_list(made, 1, 6, is_wide ? far_f64 : far_f32);
        made->quick = true;
        case_end(builder, made, "far");
    }
    if (case_is(builder, "floor_divide")) { /* quotients of more digits than the type has */
        made = case_begin(builder, "1031x5+5");
        made->in[0].data = DATA_WIDE;
        case_list(made, 1, 5, builder->dtype[0] == BP_F64 ? least : small);
        case_end(builder, made, "huge");
    }
}

void cases_pair(struct case_builder *builder)
{
    struct kernel_case *made;

    case_lines(builder, pairs, COUNT(pairs));
    made = case_begin(builder, "5x6x7+5x6x7");
    case_layouts(builder, made, "rank3", true);
    binary_cases_particular(builder);
    binary_cases_smooth(builder);
}

static const struct case_line prelus[] = {
    {"empty", "0x3+3", DATA_PLAIN, true},      {"scalar", "scalar+scalar", DATA_PLAIN, false},
    {"all", "7x65+1", DATA_PLAIN, true},       {"channel", "2x5x3x3+5x1x1", DATA_PLAIN, true},
    {"element", "7x65+7x65", DATA_PLAIN, false}, {"last", "1031x3+3", DATA_PLAIN, false},
    {"rank8", "1x2x1x2x1x2x1x3+2x1x3", DATA_PLAIN, false},
    {"special", "521+521", DATA_SPECIAL, true}, {"nonfinite", "259+259", DATA_NONFINITE, false},
};

void cases_prelu(struct case_builder *builder)
{
    struct kernel_case *made;

    case_lines(builder, prelus, COUNT(prelus));
    made = case_begin(builder, "5x6x7+6x1");
    case_layouts(builder, made, "rank3", true);
    made = case_begin(builder, "2x3x2+3x1");
    case_list(made, 0, 6, left);
    case_list(made, 1, 6, right);
    made->gradient = 2;
    case_end(builder, made, "smooth");
}

void cases_squared_difference(struct case_builder *builder)
{
    static const char *const shapes[] = {"0x3+3",     "scalar+scalar", "1031+1031",
                                         "7x65+7x1",  "1x5+7x5",       "2x3x2x3x5+2x1x2x1x5"};
    static const enum data data[] = {DATA_EXACT, DATA_WIDE, DATA_NONFINITE};

    for (int i = 0; i < 10; i++) {
        struct kernel_case *made =
            case_begin(builder, i < 6 ? shapes[i] : i < 9 ? "521+521" : "3x4+4");
        if (i >= 6) case_data(made, i < 9 ? data[i - 6] : DATA_PLAIN);
        made->quick = i == 2;
        made->gradient = i == 9 ? 2 : 0;
        if (i == 3) case_layouts(builder, made, "plain3", false);
        else case_end(builder, made, "%s%d", i < 6 ? "plain" : i < 9 ? "data" : "smooth", i);
    }
}
