/* SPDX-License-Identifier: Apache-2.0 */
/* cases_ternary.c: builds the conformance cases of elementwise operators of three inputs, and of
 * where, mask and masked_fill. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_ternary, cases_where, cases_mask, cases_masked_fill;

static const struct {
    const char *variant, *shapes;
    bool quick;
} cases[] = {
    {"empty", "0x3+3+0x3", true},
    {"scalar", "scalar+scalar+scalar", false},
    {"one", "1+1+1", false},
    {"prime", "1031+1031+1031", true},
    {"width", "15+15+15", false},
    {"width", "17+17+17", false},
    {"width", "65+65+65", false},
    {"broadcast-first", "scalar+7x65+7x65", false},
    {"broadcast-first", "7x1+7x65+65", true},
    {"broadcast-second", "7x65+1+7x65", false},
    {"broadcast-third", "7x65+7x65+scalar", true},
    {"broadcast-third", "7x65+7x65+7x1", false},
    {"broadcast-all", "7x1x1+3x1+1x5", true},
    {"rank5", "2x3x2x3x5+2x1x2x1x5+3x2x1x5", false},
    {"rank8", "1x2x1x2x1x2x1x3+2x1x2x1x2x1x3x1+3", false},
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Begins a case with n inputs of one shape. */
static struct kernel_case *of_shape(const struct case_builder *builder, const char *shape, int n)
{
    char shapes[96];

    snprintf(shapes, sizeof shapes, "%s+%s%s%s", shape, shape, n > 2 ? "+" : "",
             n > 2 ? shape : "");
    return case_begin(builder, shapes);
}

/* Adds extents that no table has: drawn ones, all extents of a range, and more than 2^24 elements
 * (there lerp represents the other two operators). boolean: the number of the input that is a mask;
 * -1: none. */
static void more_extents(struct case_builder *builder, int inputs, int boolean)
{
    static const char *const variant[] = {"drawn", "sweep", "large"};
    char drawn[32];

    case_drawn_shape(builder, drawn, sizeof drawn);
    for (int i = 0; i < COUNT(variant); i++) {
        struct kernel_case *made;
        if (i == 2 && (case_is(builder, "addcmul") || case_is(builder, "addcdiv"))) continue;
        made = of_shape(builder, i == 0 ? drawn : i == 1 ? "1" : "257", inputs);
        if (boolean >= 0) made->in[boolean].dtype = BP_BOOL;
        if (i == 0) case_end(builder, made, "%s", variant[i]);
        if (i == 1) case_extents(builder, made, variant[i]);
        if (i == 2) case_large(builder, made, variant[i]);
    }
}

void cases_ternary(struct case_builder *builder)
{
    static const enum data data[] = {DATA_EXACT,    DATA_WIDE, DATA_NONFINITE,
                                     DATA_POSITIVE, DATA_ZERO, DATA_RANGE};
    static const char *const name[] = {"exact", "wide", "nonfinite", "positive", "zeros", "range"};
    struct kernel_case *made;

    for (int i = 0; i < N_CASES; i++) {
        made = case_begin(builder, cases[i].shapes);
        made->quick = cases[i].quick;
        case_end(builder, made, "%s", cases[i].variant);
    }
    for (int i = 0; i < COUNT(data); i++) {
        /* A product or quotient may overflow although the result does not. */
        if (data[i] == DATA_RANGE && !case_is(builder, "lerp")) continue;
        made = case_begin(builder, "521+521+521");
        case_data(made, data[i]);
        if (strcmp(builder->op->name, "lerp")) made->attrs.addcmul.value = -0.7; /* addcdiv's too */
        case_end(builder, made, "%s", name[i]);
    }
    more_extents(builder, 3, -1);
    if (!strcmp(builder->op->name, "lerp")) {
        made = case_begin(builder, "70001+70001+70001");
        case_end(builder, made, "long");
    }
    made = case_begin(builder, "5x6x7+5x6x7+5x6x7");
    case_layouts(builder, made, "rank3", true);
    for (int i = 0; i < 2; i++) {
        made = case_begin(builder, i ? "2x3+3+2x1" : "2x3+2x3+2x3");
        case_data(made, DATA_POSITIVE);
        made->gradient = 2;
        case_end(builder, made, "smooth");
    }
}

static struct kernel_case *ternary_cases_selected(struct case_builder *builder, const char *shapes,
                                                  int condition)
{
    struct kernel_case *made = case_begin(builder, shapes);

    made->in[condition].dtype = BP_BOOL;
    return made;
}

void cases_where(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int i = 0; i < N_CASES; i++) {
        made = ternary_cases_selected(builder, cases[i].shapes, 0);
        made->quick = cases[i].quick;
        case_end(builder, made, "%s", cases[i].variant);
    }
    made = ternary_cases_selected(builder, "259+259+259", 0);
    made->in[1].data = made->in[2].data = DATA_SPECIAL;
    made->quick = true;
    case_end(builder, made, "special");
    made = ternary_cases_selected(builder, "70001+70001+70001", 0);
    case_end(builder, made, "long");
    more_extents(builder, 3, 0);
    made = ternary_cases_selected(builder, "5x6x7+5x6x7+5x6x7", 0);
    case_layouts(builder, made, "rank3", false);
    if (!case_is_float(builder) || case_is_complex(builder)) return;
    for (int i = 0; i < 2; i++) {
        made = ternary_cases_selected(builder, i ? "2x3+3+2x1" : "2x3+2x3+2x3", 0);
        made->gradient = 2;
        case_end(builder, made, "smooth");
    }
}

static const struct {
    const char *variant, *shapes;
    bool quick;
} masks[] = {
    {"empty", "0x3+1x3", true},         {"scalar", "scalar+scalar", false},
    {"prime", "1031+1031", true},       {"width", "15+15", false},
    {"width", "17+17", false},          {"broadcast-left", "scalar+7x65", false},
    {"broadcast-right", "7x65+65", true}, {"broadcast-right", "7x65+7x1", false},
    {"broadcast-both", "7x1x33+4x1", false}, {"rank5", "2x3x2x3x5+2x1x2x1x5", false},
    {"rank8", "1x2x1x2x1x2x1x3+2x1x2x1x2x1x3x1", false},
};

void cases_mask(struct case_builder *builder)
{
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        made = ternary_cases_selected(builder, masks[i].shapes, 1);
        made->attrs.mask.invert = i % 2;
        made->quick = masks[i].quick;
        case_end(builder, made, "%s", masks[i].variant);
    }
    more_extents(builder, 2, 1);
    for (int invert = 0; invert < 2; invert++) {
        made = ternary_cases_selected(builder, "259+259", 1);
        made->in[0].data = DATA_SPECIAL; /* no NaN and no infinity may remain */
        made->attrs.mask.invert = invert;
        made->quick = true;
        case_end(builder, made, "special%d", invert);
        made = ternary_cases_selected(builder, "5x6x7+5x6x7", 1);
        made->attrs.mask.invert = invert;
        case_layouts(builder, made, invert ? "inverted" : "rank3", true);
        if (!case_is_float(builder) || case_is_complex(builder)) continue;
        made = ternary_cases_selected(builder, "2x3+3", 1);
        made->attrs.mask.invert = invert;
        made->gradient = 2;
        case_end(builder, made, "smooth%d", invert);
    }
}

void cases_masked_fill(struct case_builder *builder)
{
    static const char *const shapes[] = {"0x3+3+scalar",     "scalar+scalar+scalar",
                                         "1031+1031+scalar", "7x65+65+scalar",
                                         "7x65+7x65+1",      "7x5+7x1+7x5",
                                         "2x3x2x3x5+2x1x2x1x5+5"};
    struct kernel_case *made = ternary_cases_selected(builder, "5x6x7+6x7+5x6x7", 1);

    case_layouts(builder, made, "rank3", false);
    for (int i = 0; i < 8; i++) {
        made = ternary_cases_selected(builder, i < 7 ? shapes[i] : "3x4+4+scalar", 1);
        made->quick = i == 2;
        if (i == 7 && case_is_float(builder) && !case_is_complex(builder)) made->gradient = 2;
        case_end(builder, made, "plain%d", i);
    }
}
