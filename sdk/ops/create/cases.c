/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of operators that create tensors from attributes. */
#include "../common/cases_listed.h"
#include <backplane/kernel.h>
#include <math.h>
#include <string.h>

cases_fn cases_full, cases_full_like, cases_eye, cases_arange, cases_linspace, cases_logspace,
    cases_triangle_indices;

static const char *const form_name[] = {"", ".host-i64", ".host-i32"};

static void host_form(struct kernel_case *made, int form)
{
    made->host = form == 1 ? BP_I64 : form == 2 ? BP_I32 : 0;
}

/* Extents: full, zeros, ones. */
static const struct listed_case shapes[] = {
    {"full", "scalar", "-", {{0}}, .real = {1.5}, .quick = true},
    {"full", "one", "-", {{1, {1}}}, .real = {-3}, .quick = true},
    {"full", "empty", "-", {{2, {3, 0}}}, .real = {1}, .quick = true},
    {"full", "15", "-", {{1, {15}}}, .real = {0.1}, .quick = true},
    {"full", "16", "-", {{1, {16}}}, .real = {300}},
    {"full", "17", "-", {{1, {17}}}, .real = {-0.75}},
    {"full", "prime", "-", {{1, {1031}}}, .real = {65520}, .quick = true},
    {"full", "nan", "-", {{1, {3}}}, .real = {NAN}, .quick = true},
    {"full", "infinite", "-", {{1, {3}}}, .real = {-INFINITY}},
    {"full", "huge", "-", {{1, {3}}}, .real = {1e300}},
    {"full", "huge", "-", {{1, {3}}}, .real = {-1e30}},
    {"full", "edge", "-", {{1, {3}}}, .real = {0x1p63}},
    {"full", "edge", "-", {{1, {3}}}, .real = {-0x1p31}},
    {"full", "tie", "-", {{1, {3}}}, .real = {1 + 0x1p-11}},
    {"full", "near-tie", "-", {{1, {3}}}, .real = {1 + 0x1p-11 + 0x1p-40}, .quick = true},
    {"full", "small", "-", {{1, {3}}}, .real = {1e-310}},
    {"full", "subnormal", "-", {{1, {3}}}, .real = {3e-8}},
    {"full", "zero", "-", {{1, {3}}}, .real = {-0.0}},
    {"full", "rank5", "-", {{5, {2, 3, 2, 3, 5}}}, .real = {2}},
    {"full", "rank8", "-", {{8, {1, 2, 1, 3, 1, 2, 1, 3}}}, .real = {2}},
    {"full", "rows", "-", {{2, {129, 257}}}, .real = {7}},
    {"full", "rank3", "-", {{3, {5, 3, 7}}}, .real = {7}, .layouts = true},
};

void cases_full(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(shapes); i++)
        for (int form = 0; form < 3; form++) {
            const struct listed_case *line = &shapes[i];
            struct kernel_case *made;
            if (form && (!line->quick || !line->list[0].n)) continue;
            made = listed_begin(builder, line);
            host_form(made, form);
            if (line->layouts) case_layouts(builder, made, line->variant, false);
            else case_end(builder, made, "%s%s", line->variant, form_name[form]);
        }
}

/* Cases of full_like and fill. */
void cases_full_like(struct case_builder *builder)
{
    static const struct {
        const char *shape;
        double value;
    } some[] = {{"scalar", 1}, {"0", 2},       {"3x0x2", 2},  {"1", -1.5}, {"15", 0.1},
                {"16", 7},     {"17", 300},    {"1031", 0},   {"7", NAN},  {"7", INFINITY},
                {"5x6x7", 3},  {"129x257", 5}, {"1x2x1x3x1x2x1x3", 5}};

    for (int i = 0; i < COUNT(some); i++) {
        struct kernel_case *made = case_begin(builder, some[i].shape);
        made->attrs.full_like.value = some[i].value; /* fill has it too */
        case_data(made, DATA_UNREAD);
        made->quick = i < 5;
        if (builder->gradients && i == 4) made->gradient = 2;
        if (i == 10) case_layouts(builder, made, "value", false);
        else case_end(builder, made, "value%g", some[i].value);
    }
}

static const struct listed_case eyes[] = {
    {"eye", "square", "-", .number = {4, -1, 0}, .quick = true},
    {"eye", "wide", "-", .number = {3, 5, 0}, .quick = true},
    {"eye", "tall", "-", .number = {5, 3, 0}, .quick = true},
    {"eye", "right", "-", .number = {3, 5, 2}, .quick = true},
    {"eye", "down", "-", .number = {5, 3, -4}},
    {"eye", "past", "-", .number = {3, 5, 5}},
    {"eye", "past-down", "-", .number = {3, 5, -3}},
    {"eye", "far", "-", .number = {3, 5, INT64_MIN}},
    {"eye", "one", "-", .number = {1, 1, 0}},
    {"eye", "empty", "-", .number = {0, -1, 0}, .quick = true},
    {"eye", "empty", "-", .number = {3, 0, 0}},
    {"eye", "long", "-", .number = {129, 257, 1}},
    {"eye", "matrix", "-", .number = {13, 17, 1}, .layouts = true},
};

void cases_eye(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(eyes); i++)
        for (int form = 0; form < 3; form++) {
            struct kernel_case *made;
            if (form && !eyes[i].quick) continue;
            made = listed_begin(builder, &eyes[i]);
            host_form(made, form);
            if (eyes[i].layouts) case_layouts(builder, made, eyes[i].variant, false);
            else case_end(builder, made, "%s%s", eyes[i].variant, form_name[form]);
        }
}

/* The values in `real` are start, end and step; in `number`, num. fraction: for floats only. */
static const struct {
    struct listed_case line;
    bool fraction;
} lines[] = {
    {{"arange", "five", "-", .number = {-1}, .real = {0, 5, 1}, .quick = true}, false},
    {{"arange", "step", "-", .number = {-1}, .real = {3, 20, 4}, .quick = true}, false},
    {{"arange", "down", "-", .number = {-1}, .real = {10, -6, -3}, .quick = true}, false},
    {{"arange", "none", "-", .number = {-1}, .real = {5, 5, 1}, .quick = true}, false},
    {{"arange", "backward", "-", .number = {-1}, .real = {5, 0, 1}}, false},
    {{"arange", "one", "-", .number = {-1}, .real = {5, 6, 9}}, false},
    {{"arange", "16", "-", .number = {-1}, .real = {0, 16, 1}}, false},
    {{"arange", "17", "-", .number = {-1}, .real = {-8, 9, 1}}, false},
    {{"arange", "counted", "-", .number = {7}, .real = {2, 0, 3}, .quick = true}, false},
    {{"arange", "still", "-", .number = {7}, .real = {2, 0, 0}}, false},
    {{"arange", "wraps", "-", .number = {300}, .real = {-5, 0, 7}}, false},
    {{"arange", "large", "-", .number = {9}, .real = {0x1p53, 0, -0x1p52}}, false},
    {{"arange", "end", "-", .number = {-1}, .real = {0, 4.5, 1}}, false},
    {{"arange", "tenths", "-", .number = {-1}, .real = {0, 1, 0.1}, .quick = true}, true},
    {{"arange", "thirds", "-", .number = {-1}, .real = {-2, 5, 1.0 / 3}}, true},
    {{"arange", "small", "-", .number = {20}, .real = {1, 0, 1e-9}}, true},
    {{"arange", "cancels", "-", .number = {31}, .real = {-1.5, 0, 0.1}}, true},
    {{"arange", "long", "-", .number = {-1}, .real = {0, 70001, 1}}, false},
};

void cases_arange(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(lines); i++)
        for (int form = 0; form < 3; form++) {
            const struct listed_case *line = &lines[i].line;
            struct kernel_case *made;
            if (form && line->number[0] != 7) continue;
            if (lines[i].fraction && !case_is_float(builder)) continue;
            made = listed_begin(builder, line);
            host_form(made, form);
            case_end(builder, made, "%s%s", line->variant, form_name[form]);
        }
}

/* The values in `real` are start and stop; in `number`, num. cases_spaced adds the base of
 * logspace. */
static const struct listed_case spans[] = {
    {"", "five", "-", .number = {5}, .real = {0, 1}, .quick = true},
    {"", "down", "-", .number = {7}, .real = {2, -1}, .quick = true},
    {"", "none", "-", .number = {0}, .real = {0, 1}, .quick = true},
    {"", "one", "-", .number = {1}, .real = {0.3, 1}, .quick = true},
    {"", "two", "-", .number = {2}, .real = {0.1, 0.3}},
    {"", "still", "-", .number = {5}, .real = {0.7, 0.7}},
    {"", "15", "-", .number = {15}, .real = {-1, 2}},
    {"", "16", "-", .number = {16}, .real = {-1, 2}},
    {"", "17", "-", .number = {17}, .real = {-3, 3}},
    {"", "far", "-", .number = {11}, .real = {1, 1.0001}},
    {"", "long", "-", .number = {70001}, .real = {-0.5, 2}},
};

static void cases_spaced(struct case_builder *builder, int base)
{
    static const double bases[] = {10, 2, 0.3, 1};

    for (int i = 0; i < COUNT(spans); i++)
        for (int form = 0; form < 3; form++) {
            struct kernel_case *made;
            if (form && !spans[i].quick) continue;
            made = listed_begin(builder, &spans[i]);
            if (base >= 0) made->attrs.logspace.base = bases[((int)i + base) % 4];
            host_form(made, form);
            case_end(builder, made, "%s%s", spans[i].variant, form_name[form]);
        }
}

void cases_linspace(struct case_builder *builder)
{
    cases_spaced(builder, -1);
}

void cases_logspace(struct case_builder *builder)
{
    cases_spaced(builder, 0);
}

void cases_triangle_indices(struct case_builder *builder)
{
    static const struct listed_case some[] = {
        {"", "square", "-", .number = {4, 4, 0}, .quick = true},
        {"", "wide", "-", .number = {3, 5, 0}, .quick = true},
        {"", "tall", "-", .number = {5, 3, 0}, .quick = true},
        {"", "right", "-", .number = {3, 5, 2}, .quick = true},
        {"", "down", "-", .number = {5, 3, -2}},
        {"", "all", "-", .number = {3, 5, 9}},
        {"", "none", "-", .number = {3, 5, -9}},
        {"", "corner", "-", .number = {3, 5, 4}},
        {"", "corner", "-", .number = {3, 5, -2}},
        {"", "far", "-", .number = {3, 5, INT64_MAX}},
        {"", "far", "-", .number = {3, 5, INT64_MIN}},
        {"", "one", "-", .number = {1, 1, 0}},
        {"", "empty", "-", .number = {0, 3, 0}},
        {"", "empty", "-", .number = {3, 0, 0}},
        {"", "long", "-", .number = {129, 257, -5}},
        {"", "long", "-", .number = {257, 129, 40}},
    };

    for (int i = 0; i < COUNT(some); i++)
        for (int form = 0; form < 3; form++) {
            struct kernel_case *made;
            if (form && !some[i].quick) continue;
            made = listed_begin(builder, &some[i]);
            host_form(made, form);
            case_end(builder, made, "%s%s", some[i].variant, form_name[form]);
        }
}
