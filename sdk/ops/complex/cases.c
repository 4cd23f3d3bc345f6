/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of operators between complex and real numbers. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_complex, cases_complex_part, cases_as_real, cases_as_complex;

/* Adds a case of the suite `gradient`. */
static void complex_cases_smooth(struct case_builder *builder, const char *shapes)
{
    struct kernel_case *made = case_begin(builder, shapes);

    case_data(made, DATA_POSITIVE);
    made->gradient = 2;
    case_end(builder, made, "smooth");
}

/* c64 belongs to f32 and c128 to f64: the dtype masks of kernel rows also allow pairs that do not
 * exist. */
static bool complex_cases_fits(const struct case_builder *builder)
{
    const struct num_type *a = num_type(builder->dtype[0]), *b = num_type(builder->dtype[1]);

    return a == b || a->size * (uint32_t)b->parts == b->size * (uint32_t)a->parts;
}

static const struct case_line pairs[] = {
    {"empty", "0x3+3", DATA_PLAIN, true},       {"scalar", "scalar+scalar", DATA_PLAIN, false},
    {"one", "1+1", DATA_PLAIN, false},          {"prime", "1031+1031", DATA_PLAIN, true},
    {"broadcast-left", "scalar+7x65", DATA_PLAIN, false},
    {"broadcast-right", "7x65+7x1", DATA_PLAIN, true},
    {"broadcast-both", "7x1x33+4x1", DATA_PLAIN, false},
    {"rank5", "2x3x2x3x5+2x1x2x1x5", DATA_PLAIN, false},
    {"special", "257+257", DATA_SPECIAL, true}, {"nonfinite", "259+259", DATA_NONFINITE, false},
    {"long", "70001+70001", DATA_PLAIN, false},
};

void cases_complex(struct case_builder *builder)
{
    struct kernel_case *made;

    if (!complex_cases_fits(builder)) return;
    case_lines(builder, pairs, COUNT(pairs));
    made = case_begin(builder, "5x6x7+5x6x7");
    case_layouts(builder, made, "rank3", false);
    complex_cases_smooth(builder, "2x3+3");
}

static const struct case_line singles[] = {
    {"empty", "0x3", DATA_PLAIN, true},   {"scalar", "scalar", DATA_PLAIN, false},
    {"one", "1", DATA_PLAIN, false},      {"prime", "1031", DATA_PLAIN, true},
    {"width", "17", DATA_PLAIN, false},   {"rank5", "2x3x2x3x5", DATA_PLAIN, false},
    {"wide", "1031", DATA_WIDE, false},   {"exact", "521", DATA_EXACT, true},
    {"special", "331", DATA_SPECIAL, true}, {"nonfinite", "259", DATA_NONFINITE, false},
    {"long", "70001", DATA_PLAIN, false}, {"positive", "2053", DATA_POSITIVE, false},
};

void cases_complex_part(struct case_builder *builder)
{
    struct kernel_case *made;

    if (!complex_cases_fits(builder)) return;
    case_lines(builder, singles, COUNT(singles));
    made = case_begin(builder, "5x6x7");
    case_layouts(builder, made, "rank3", true);
    complex_cases_smooth(builder, "2x3");
}

/* Adds cases whose shapes end in `last`, the axis of the parts, if the input has that axis. */
static void complex_cases_parts(struct case_builder *builder, const char *last)
{
    struct kernel_case *made;
    char shape[64];

    if (!complex_cases_fits(builder)) return;
    for (int i = 0; i < COUNT(singles); i++) {
        snprintf(shape, sizeof shape, "%s%s", singles[i].shapes, last);
        if (!strcmp(singles[i].shapes, "scalar") && *last) snprintf(shape, sizeof shape, "2");
        made = case_begin(builder, shape);
        case_data(made, singles[i].data);
        made->quick = singles[i].quick;
        case_end(builder, made, "%s", singles[i].variant);
    }
    snprintf(shape, sizeof shape, "5x6x7%s", last);
    made = case_begin(builder, shape);
    case_layouts(builder, made, "rank4", false);
    complex_cases_smooth(builder, *last ? "3x2" : "3");
}

void cases_as_real(struct case_builder *builder)
{
    complex_cases_parts(builder, "");
}

void cases_as_complex(struct case_builder *builder)
{
    complex_cases_parts(builder, "x2");
}
