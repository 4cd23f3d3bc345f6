/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of operators whose results are truth values. */
#include "../common/cases.h"
#include <string.h>

cases_fn cases_compare, cases_isclose, cases_allclose, cases_equal_all;

static const struct {
    const char *variant, *shapes;
    enum data data;
    bool quick;
} cases[] = {
    {"empty", "0x3+1x3", DATA_PLAIN, true},
    {"scalar", "scalar+scalar", DATA_PLAIN, false},
    {"one", "1+1", DATA_PLAIN, false},
    {"prime", "1031+1031", DATA_PLAIN, true},
    {"width", "15+15", DATA_EXACT, false},
    {"width", "17+17", DATA_EXACT, false},
    {"width", "65+65", DATA_EXACT, false},
    {"broadcast-left", "scalar+7x65", DATA_EXACT, false},
    {"broadcast-right", "7x65+7x1", DATA_EXACT, false},
    {"broadcast-both", "7x1x33+4x1", DATA_EXACT, false},
    {"rank5", "2x3x2x3x5+2x1x2x1x5", DATA_EXACT, false},
    {"rank8", "1x2x1x2x1x2x1x3+2x1x2x1x2x1x3x1", DATA_PLAIN, false},
    {"exact", "521+521", DATA_EXACT, true}, /* some pairs are equal */
    {"sparse", "521+521", DATA_SPARSE, false}, /* zeros and NaN */
    {"special", "521+521", DATA_SPECIAL, true},
    {"nonfinite", "259+259", DATA_NONFINITE, false},
};
enum { N_CASES = sizeof cases / sizeof *cases };

void cases_compare(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int i = 0; i < N_CASES; i++) {
        if (cases[i].data == DATA_NONFINITE && !case_is_float(builder)) continue;
        made = case_begin(builder, cases[i].shapes);
        case_data(made, cases[i].data);
        made->quick = cases[i].quick;
        case_end(builder, made, "%s", cases[i].variant);
    }
    if (!strcmp(builder->op->name, "equal")) {
        made = case_begin(builder, "70001+70001");
        case_data(made, DATA_EXACT);
        case_end(builder, made, "long");
    }
    made = case_begin(builder, "1+1");
    case_data(made, DATA_EXACT);
    case_extents(builder, made, "sweep");
    made = case_begin(builder, "5x6x7+5x6x7");
    case_data(made, DATA_EXACT);
    case_layouts(builder, made, "rank3", false);
}

/* Tolerances that about half of the pairs meet. None of them is a number of a half type, so that no
 * pair is exactly at the limit. */
static const struct {
    const char *variant;
    double rtol, atol;
    int64_t nans;
} tolerances[] = {{"default", 1e-5, 1e-8, 0},
                  {"absolute", 0, 1.1, 0},
                  {"relative", 0.7, 0, 1},
                  {"both", 0.3, 0.61, 1}};

void cases_isclose(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int t = 0; t < 4; t++)
        for (int i = 0; i < N_CASES; i++) {
            /* x - y overflows for the ends of a type */
            if (cases[i].data == DATA_SPECIAL) continue;
            if (t && i < 9) continue;
            made = case_begin(builder, cases[i].shapes);
            case_data(made, i < 9 ? DATA_PLAIN : cases[i].data);
            made->attrs.isclose.rtol = tolerances[t ? t : 3].rtol;
            made->attrs.isclose.atol = tolerances[t ? t : 3].atol;
            made->attrs.isclose.equal_nan = tolerances[t].nans;
            made->quick = cases[i].quick;
            case_end(builder, made, "%s.%s", cases[i].variant, tolerances[t ? t : 3].variant);
        }
    made = case_begin(builder, "521+521");
    case_data(made, DATA_EXACT);
    case_end(builder, made, "default");
    made = case_begin(builder, "5x6x7+5x6x7");
    made->attrs.isclose.atol = 1.1;
    case_layouts(builder, made, "rank3", false);
}

/* Pairs of lists: equal, different in the last element, and others. */
static const double base[] = {1, -2, 0.5, 3, -0.25, 7, 0, 2},
                    near[] = {1, -2, 0.5, 3, -0.25, 7, 0, 2.0625};
static const double truths[] = {1, 0, 1, 1, 0, 0, 0, 1}, other[] = {1, 0, 1, 1, 0, 0, 0, 0};

static const struct {
    const char *variant, *shapes;
    int kind; /* 0: equal, 1: the last of eight differs, 2: both inputs are DATA_NONFINITE */
    bool quick;
} alls[] = {
    {"empty", "0x3+0x3", 0, true},     {"scalar", "scalar+scalar", 0, false},
    {"same", "3x8+3x8", 0, true},      {"other", "3x8+3x8", 1, true},
    {"same", "1032+1032", 0, false},   {"other", "1032+1032", 1, false},
    {"plain", "5x7+5x7", 2, false},    {"one", "1+1", 0, false},
    {"rank5", "2x1x3x2x8+2x1x3x2x8", 1, false}, {"short", "7+7", 1, false},
};
enum { N_ALLS = sizeof alls / sizeof *alls, PLAIN = 4 };

static struct kernel_case *compare_cases_all(struct case_builder *builder, int i)
{
    struct kernel_case *made = case_begin(builder, alls[i].shapes);
    bool is_bool = builder->dtype[0] == BP_BOOL;

    if (alls[i].kind == 2) {
        case_data(made, DATA_NONFINITE);
    } else {
        case_list(made, 0, 8, is_bool ? truths : base);
        case_list(made, 1, 8, alls[i].kind ? (is_bool ? other : near) : is_bool ? truths : base);
    }
    made->quick = alls[i].quick;
    return made;
}

void cases_equal_all(struct case_builder *builder)
{
    for (int i = 0; i < N_ALLS; i++) {
        struct kernel_case *made = compare_cases_all(builder, i);
        if (i == PLAIN) case_layouts(builder, made, alls[i].variant, false);
        else case_end(builder, made, "%s", alls[i].variant);
    }
}

void cases_allclose(struct case_builder *builder)
{
    for (int i = 0; i < N_ALLS; i++)
        for (int wide = 0; wide < 2; wide++) {
            struct kernel_case *made = compare_cases_all(builder, i);
            if (wide) made->attrs.allclose.atol = 0.07; /* the last pair is within this tolerance */
            made->attrs.allclose.equal_nan = wide;
            if (i == PLAIN && wide) case_layouts(builder, made, "plain.wide", false);
            else case_end(builder, made, wide ? "%s.wide" : "%s", alls[i].variant);
        }
}
