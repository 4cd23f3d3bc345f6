/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of cumulative operators (cumsum, cumprod, cummax), of linear_scan and of
 * diff. */
#include "../common/cases.h"
#include <string.h>

cases_fn cases_scan, cases_cumulative, cases_linear_scan, cases_diff;

static const struct {
    const char *shape;
    int64_t axis;
    bool quick;
} shapes[] = {
    {"0", 0, true},         {"3x0", 0, false},      {"3x0", 1, false},     {"1", 0, true},
    {"17", -1, true},       {"65", 0, false},       {"5x7", 0, true},      {"5x7", 1, true},
    {"3x4x5", 1, true},     {"3x9x67", -2, false},  {"4x130", 0, false},   {"2x3x2x3x5", 2, false},
    {"1x2x1x2x1x2x1x3", 3, false}, {"3x521", 1, false},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static bool is_prod(const struct case_builder *builder)
{
    return !strcmp(builder->op->name, "cumprod");
}

static struct kernel_case *scan_cases_scan(const struct case_builder *builder, const char *shape,
                                           int64_t axis, bool exclusive, bool reverse)
{
    static const double even[] = {1.5, 0.625, -1, 1.0625, 1.00390625}, odd[] = {3, -5, 7, 11, -1};
    struct kernel_case *made = case_begin(builder, shape);

    made->attrs.cumsum.axis = axis;
    made->attrs.cumsum.exclusive = exclusive;
    made->attrs.cumsum.reverse = reverse;
    if (is_prod(builder) && !case_is_complex(builder))
        case_list(made, 0, 5, case_is_float(builder) ? even : odd);
    return made;
}

static void of_data(const struct case_builder *builder, const char *shape, int64_t axis,
                    enum data data, const char *what)
{
    struct kernel_case *made = scan_cases_scan(builder, shape, axis, false, false);

    case_data(made, data);
    case_end(builder, made, "axis%lld.%s", (long long)axis, what);
}

/* As scan_cases_scan, with numbers whose sums and products are exact for lines of any length. */
static struct kernel_case *long_scan(const struct case_builder *builder, const char *shape,
                                     int64_t axis, bool exclusive, bool reverse)
{
    static const double powers[] = {2, -0.5, 0.5, -2, -1};
    struct kernel_case *made = scan_cases_scan(builder, shape, axis, exclusive, reverse);

    if (is_prod(builder) && case_is_float(builder)) case_list(made, 0, COUNT(powers), powers);
    if (!strcmp(builder->op->name, "cumsum")) case_data(made, DATA_EXACT);
    return made;
}

/* Lines that the teams of a device scan in several tiles or parts, by lanes or by teams, with line
 * ends inside and at the ends of these; many lines, few lines, and one line. */
static void long_lines(const struct case_builder *builder)
{
    static const struct {
        const char *shape;
        int64_t axis;
    } at[] = {
        {"70001", 0},   {"3x5000", 1},    {"257x1025", 1}, {"2048", 0},    {"2049", 0},
        {"4096", 0},    {"6145x3", 0},    {"2x4099x5", 1}, {"700x40", 0},  {"2x129x33", 1},
        {"1030x33", 1}, {"1026x257", 1},
    };
    static const char *const way[] = {"", ".exclusive", ".reverse", ".exclusive.reverse"};
    struct kernel_case *made;

    if (is_prod(builder) && case_is_complex(builder)) return; /* the products grow */
    for (int i = 0; i < COUNT(at); i++)
        for (int w = 0; w < 4; w++) {
            if (i > 1 && w != i % 4) continue;
            made = long_scan(builder, at[i].shape, at[i].axis, w % 2, w / 2);
            case_end(builder, made, "long.axis%lld%s", (long long)at[i].axis, way[w]);
        }
    made = long_scan(builder, "6x5x350", 2, true, true);
    case_layouts(builder, made, "long.axis2", true);
}

void cases_scan(struct case_builder *builder)
{
    static const char *const way[] = {"", ".exclusive", ".reverse", ".exclusive.reverse"};
    bool is_float = case_is_float(builder), is_complex = case_is_complex(builder);
    struct kernel_case *made;

    for (int i = 0; i < N_SHAPES; i++) {
        if (is_prod(builder) && is_complex && i == N_SHAPES - 1) continue; /* the products grow */
        made = scan_cases_scan(builder, shapes[i].shape, shapes[i].axis, i % 2, i / 2 % 2);
        made->quick = shapes[i].quick;
        case_end(builder, made, "axis%lld%s", (long long)shapes[i].axis, way[i % 4]);
    }
    for (int i = 0; i < 4; i++) {
        made = scan_cases_scan(builder, "3x7x5", 1, i % 2, i / 2);
        made->quick = true;
        case_end(builder, made, "axis1%s", way[i]);
        made = scan_cases_scan(builder, "3x4", 1, i % 2, i / 2);
        case_data(made, DATA_POSITIVE);
        made->gradient = is_float && !is_complex ? 2 : 0;
        if (!strcmp(builder->op->name, "logcumsumexp") && i % 2) made->gradient = 0; /* -infinity */
        case_end(builder, made, "gradient%s", way[i]);
    }
    if (!is_prod(builder)) {
        of_data(builder, "3x257", 1, DATA_EXACT, "exact");
        of_data(builder, "3x257", 1, DATA_POSITIVE, "positive");
    }
    of_data(builder, "9x5", 0, DATA_EXACT, "exact");
    of_data(builder, "131x2", 1, DATA_PLAIN, "few");
    of_data(builder, "131x3", 1, DATA_POSITIVE, "few");
    if (is_float) {
        of_data(builder, "7x67", 1, is_prod(builder) ? DATA_SPARSE : DATA_NONFINITE, "nonfinite");
        of_data(builder, "7x67", 0, DATA_NONFINITE, "nonfinite");
        if (!is_prod(builder)) of_data(builder, "5x64", 1, DATA_WIDE, "wide");
    } else {
        of_data(builder, "7x67", 1, DATA_SPECIAL, "special");
    }
    long_lines(builder);
    for (int64_t axis = 0; axis < 3; axis++) {
        made = scan_cases_scan(builder, "5x6x7", axis, axis == 1, axis == 2);
        case_layouts(builder, made, axis == 0 ? "axis0" : axis == 1 ? "axis1" : "axis2", true);
    }
}

static void both_parts(const struct case_builder *builder, const char *shape, int64_t axis,
                       enum data data, const char *variant)
{
    struct kernel_case *made = case_begin(builder, shape);

    made->attrs.cummax.axis = axis;
    made->attrs.cummax.dtype = builder->dtype[1];
    case_data(made, data);
    if (case_is_float(builder) && !strcmp(variant, "gradient")) made->gradient = 1;
    made->quick = !strcmp(variant, "ties");
    if (!strcmp(variant, "layouts")) case_part_layouts(builder, made, 2, variant);
    else case_parts(builder, made, 2, variant);
}

void cases_cumulative(struct case_builder *builder)
{
    static const char *const name[] = {"axis0", "axis1", "axis2", "axis3"};

    for (int i = 0; i < N_SHAPES; i++)
        both_parts(builder, shapes[i].shape, shapes[i].axis, DATA_PLAIN,
                   shapes[i].axis < 0 ? "last" : name[shapes[i].axis]);
    both_parts(builder, "5x67", 1, DATA_EXACT, "ties");
    both_parts(builder, "67x5", 0, DATA_EXACT, "ties");
    both_parts(builder, "5x67", 1, DATA_NONFINITE, "nonfinite");
    both_parts(builder, "3x131", 1, DATA_SPECIAL, "special");
    both_parts(builder, "4x9", 1, DATA_ZERO, "zeros");
    both_parts(builder, "3x4", 1, DATA_PLAIN, "gradient");
    both_parts(builder, "5x6x7", 1, DATA_EXACT, "layouts");
}

void cases_linear_scan(struct case_builder *builder)
{
    static const char *const way[] = {"", ".reverse", ".shift", ".reverse.shift"};
    char text[64];
    struct kernel_case *made;

    for (int i = 0; i < N_SHAPES + 4; i++) {
        const char *shape = i < N_SHAPES ? shapes[i].shape : "3x4";
        memset(text, 0, sizeof text);
        strncat(strncat(strncat(text, shape, 24), "+", 2), shape, 24);
        made = case_begin(builder, text);
        made->attrs.linear_scan.axis = i < N_SHAPES ? shapes[i].axis : 1;
        made->attrs.linear_scan.reverse = i % 2;
        made->attrs.linear_scan.shift = i / 2 % 2;
        made->quick = i < N_SHAPES && shapes[i].quick;
        made->in[0].data = DATA_POSITIVE;
        if (i >= N_SHAPES) made->gradient = 2;
        case_end(builder, made, "%s%lld%s", i < N_SHAPES ? "axis" : "gradient",
                 (long long)made->attrs.linear_scan.axis, way[i % 4]);
    }
    made = case_begin(builder, "7x31+7x31");
    made->attrs.linear_scan.axis = 1;
    made->in[1].data = DATA_NONFINITE;
    case_end(builder, made, "nonfinite");
    made = case_begin(builder, "131x2+131x2");
    case_end(builder, made, "few");
    made = case_begin(builder, "5x6x7+5x6x7");
    made->attrs.linear_scan.axis = 1;
    case_layouts(builder, made, "axis1", false);
}

void cases_diff(struct case_builder *builder)
{
    static const struct {
        const char *shapes;
        int64_t n, axis;
    } cases[] = {
        {"0", 1, 0},           {"1", 1, 0},            {"17", 1, -1},       {"5x7", 1, 0},
        {"5x7", 2, 1},         {"5x7", 0, 1},          {"5x7", 9, 0},       {"0x5", 2, 1},
        {"3x4x5", 1, 1},       {"2x3x2x3x5", 1, -2},   {"5x7+5x2", 1, 1},   {"5x7+-+1x7", 2, 0},
        {"3x4x5+3x1x5+3x2x5", 1, 1}, {"1031", 1, 0},
    };
    struct kernel_case *made;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made = case_begin(builder, cases[i].shapes);
        made->attrs.diff.n = cases[i].n;
        made->attrs.diff.axis = cases[i].axis;
        made->quick = i % 3 == 0;
        case_end(builder, made, "n%lld", (long long)cases[i].n);
    }
    made = case_begin(builder, "3x4+3x1");
    made->gradient = case_is_float(builder) && !case_is_complex(builder) ? 2 : 0;
    case_end(builder, made, "gradient");
    made = case_begin(builder, "3x5x4");
    made->attrs.diff.axis = 1;
    case_layouts(builder, made, "axis1", false);
}
