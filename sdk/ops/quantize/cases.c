/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of quantisation, dequantisation and products of quantised tensors. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_quantize_linear, cases_dequantize_linear, cases_dynamic_quantize_linear,
    cases_matmul_integer, cases_conv_integer, cases_qlinear_matmul, cases_qlinear_conv,
    cases_fake_quantize, cases_fake_quantize_abs_max;

static const double scales[] = {0.0625, 0.03, 0.5, 0.017, 1, 0.25, 0.011};
static const double zeros[] = {0, 3, 7, 1, 0, 11, 120};
static const double signed_zeros[] = {0, -3, 7, -128, 0, 11, 127};

static bool is_signed(uint32_t dtype)
{
    return num_type(dtype)->class == NUM_SIGNED;
}

static void zero_points(struct kernel_case *made, int in, uint32_t dtype)
{
    made->in[in].dtype = dtype;
    if (is_signed(dtype)) case_list(made, in, COUNT(signed_zeros), signed_zeros);
    else case_list(made, in, COUNT(zeros), zeros);
}

/* x, and its axis for scales. */
static const struct {
    const char *variant, *shape;
    int64_t axis, extent;
    bool quick;
} lines[] = {
    {"empty", "2x0", 1, 0, true},        {"scalar", "scalar", 0, 1, true},
    {"one", "1", 0, 1, false},           {"width", "15", 0, 15, false},
    {"width", "16", 0, 16, false},       {"width", "17", -1, 17, true},
    {"prime", "257", 0, 1, true},        {"channels", "2x3x5x7", 1, 3, true},
    {"first", "4x33", 0, 4, false},      {"last", "4x33", -1, 33, true},
    {"rank5", "2x3x2x5x3", 3, 5, false}, {"rank8", "1x2x1x3x1x2x1x3", 3, 3, false},
};

/* One scale for all of x, without an axis (WHOLE) or with an axis (ONE); or a scale along an axis
 * (ALONG). */
enum {
    WHOLE,
    ONE,
    ALONG
};

static struct kernel_case *quantize_cases_line(const struct case_builder *builder, size_t i,
                                               int form, bool zero)
{
    char text[160], scale[24] = "scalar";

    if (form) snprintf(scale, sizeof scale, "%lld", form == ONE ? 1 : (long long)lines[i].extent);
    snprintf(text, sizeof text, "%s+%s+%s", lines[i].shape, scale, zero ? scale : "-");
    return case_begin(builder, text);
}

static bool quantize_cases_has(size_t i, int form)
{
    return form != ALONG || (lines[i].extent > 1);
}

void cases_quantize_linear(struct case_builder *builder)
{
    static const enum data data[] = {DATA_PLAIN, DATA_WIDE, DATA_SPECIAL, DATA_NONFINITE};
    static const double ties[] = {0.5, 1.5, 2.5, -0.5, -1.5, 3.25, -2.5, 100.5, -100.5, 1e9, -1e9};
    static const double one = 1;
    struct kernel_case *made;

    for (int i = 0; i < COUNT(lines); i++)
        for (int form = 0; form < 3; form++) {
            bool zero = (i + (size_t)form) % 2;
            if (!quantize_cases_has(i, form) || (!lines[i].quick && builder->dtype[1] != BP_I8))
                continue;
            made = quantize_cases_line(builder, i, form, zero);
            made->attrs.quantize_linear.axis = lines[i].axis;
            made->attrs.quantize_linear.dtype = builder->dtype[1];
            made->in[0].data = data[(i + (size_t)form) % 4];
            case_list(made, 1, COUNT(scales), scales);
            if (zero) zero_points(made, 2, builder->dtype[1]);
            made->quick = lines[i].quick;
            case_end(builder, made, "%s.form%d", lines[i].variant, form);
        }
    for (int s = 0; s < 3; s++) { /* quotients at ties, or one rounding away from a tie */
        static double halves[3][101];
        static const double odd[] = {0.03, 0.017, 0.7};
        for (int i = 0; i < 101; i++) halves[s][i] = (i - 50.5) * odd[s];
        made = case_begin(builder, "101+1");
        made->attrs.quantize_linear.dtype = builder->dtype[1];
        case_list(made, 0, 101, halves[s]);
        case_list(made, 1, 1, &odd[s]);
        made->quick = s == 0;
        case_end(builder, made, "halves%d", s);
    }
    for (int zero = 0; zero < 2; zero++) {
        made = case_begin(builder, zero ? "7x11+1+1" : "7x11+1");
        made->attrs.quantize_linear.dtype = builder->dtype[1];
        case_list(made, 0, COUNT(ties), ties);
        case_list(made, 1, 1, &one);
        if (zero) zero_points(made, 2, builder->dtype[1]);
        case_end(builder, made, "ties%d", zero);
    }
    made = case_begin(builder, "3x5x7+5");
    made->attrs.quantize_linear.dtype = builder->dtype[1];
    case_list(made, 1, COUNT(scales), scales);
    case_layouts(builder, made, "rank3", false);
}

void cases_dequantize_linear(struct case_builder *builder)
{
    struct kernel_case *made;

    for (int i = 0; i < COUNT(lines); i++)
        for (int form = 0; form < 3; form++) {
            bool zero = (i + (size_t)form) % 2;
            if (!quantize_cases_has(i, form) || (!lines[i].quick && builder->dtype[1] != BP_I8))
                continue;
            made = quantize_cases_line(builder, i, form, zero);
            made->attrs.dequantize_linear.axis = lines[i].axis;
            made->in[0].dtype = builder->dtype[1];
            made->in[0].data = i % 3 ? DATA_PLAIN : DATA_SPECIAL;
            case_list(made, 1, COUNT(scales), scales);
            if (zero) zero_points(made, 2, builder->dtype[1]);
            made->quick = lines[i].quick;
            case_end(builder, made, "%s.form%d", lines[i].variant, form);
        }
    made = case_begin(builder, "3x5x7+5");
    made->in[0].dtype = builder->dtype[1];
    case_layouts(builder, made, "rank3", false);
}

void cases_dynamic_quantize_linear(struct case_builder *builder)
{
    static const char *const shapes[] = {"scalar", "1", "17", "257", "3x5x7", "2x3x2x5x3"};
    static const enum data data[] = {DATA_PLAIN, DATA_POSITIVE, DATA_WIDE, DATA_ZERO};
    struct kernel_case *made;
    char name[32];

    for (int i = 0; i < COUNT(shapes); i++)
        for (int d = 0; d < COUNT(data); d++) {
            made = case_begin(builder, shapes[i]);
            made->in[0].data = data[d];
            made->quick = i == 2;
            snprintf(name, sizeof name, "data%d", d);
            if (i == 4 && !d) case_part_layouts(builder, made, 3, name);
            else case_parts(builder, made, 3, name);
        }
}

/* a, b, and their zero points. */
static const struct {
    const char *variant, *a, *b, *a_zero, *b_zero;
    bool quick;
} products[] = {
    {"one", "1x1", "1x1", "-", "-", true},
    {"plain", "5x7", "7x3", "-", "-", true},
    {"whole", "5x17", "17x9", "scalar", "1", true},
    {"left", "15x16", "16x17", "15", "-", false},
    {"right", "5x31", "31x9", "-", "9", true},
    {"both", "5x33", "33x9", "5", "9", true},
    {"column", "5x7", "7x3", "5x1", "1x3", false},
    {"vector", "17", "17x3", "1", "3", false},
    {"vectors", "17", "17", "-", "scalar", false},
    {"batch", "2x3x4", "4x5", "3", "5", true},
    {"batches", "2x1x3x4", "3x4x5", "2x1x3x1", "3x1x5", true},
    {"empty", "0x4", "4x3", "-", "3", false},
    {"nothing", "2x0", "0x3", "-", "-", false},
    {"long", "3x1031", "1031x2", "3", "1", false},
    {"real", "67x129", "129x97", "scalar", "97", false},
};
enum { BATCHES = 10, REAL_PRODUCT = 14 }; /* cases for layouts; with sizes of libraries */

/* Cases of layouts and with sizes of libraries behave alike for all pairs of types; models use this
 * pair. */
static bool is_usual(const struct case_builder *builder)
{
    return builder->dtype[0] == BP_U8 && builder->dtype[1] == BP_I8;
}

static void integer_data(struct kernel_case *made, int in, uint32_t dtype, size_t i)
{
    made->in[in].dtype = dtype;
    made->in[in].data = i % 2 ? DATA_PLAIN : DATA_SPECIAL;
}

void cases_matmul_integer(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(products); i++) {
        char text[96];
        struct kernel_case *made;
        if (i == REAL_PRODUCT && !is_usual(builder)) continue;
        snprintf(text, sizeof text, "%s+%s+%s+%s", products[i].a, products[i].b, products[i].a_zero,
                 products[i].b_zero);
        made = case_begin(builder, text);
        integer_data(made, 0, builder->dtype[0], i);
        integer_data(made, 1, builder->dtype[1], i + 1);
        zero_points(made, 2, builder->dtype[0]);
        zero_points(made, 3, builder->dtype[1]);
        made->quick = products[i].quick;
        if (i == REAL_PRODUCT) case_real_of_any(builder, made, 1, products[i].variant);
        else if (i == BATCHES) case_layouts(builder, made, products[i].variant, false);
        else case_end(builder, made, "%s", products[i].variant);
    }
}

void cases_qlinear_matmul(struct case_builder *builder)
{
    static const double out_scales[] = {3.7, 40, 0.5};

    for (int i = 0; i < COUNT(products); i++) {
        const char *a_zero = products[i].a_zero, *b_zero = products[i].b_zero;
        char text[160];
        struct kernel_case *made;
        if (builder->dtype[3] != BP_F32 && i % 3) continue;
        if (i == REAL_PRODUCT && (!is_usual(builder) || builder->dtype[3] != BP_F32)) continue;
        a_zero = *a_zero == '-' ? "1" : a_zero;
        b_zero = *b_zero == '-' ? "scalar" : b_zero;
        snprintf(text, sizeof text, "%s+%s+%s+%s+%s+%s+1+scalar", products[i].a, a_zero, a_zero,
                 products[i].b, b_zero, b_zero);
        made = case_begin(builder, text);
        integer_data(made, 0, builder->dtype[0], i);
        integer_data(made, 3, builder->dtype[1], i + 1);
        zero_points(made, 2, builder->dtype[0]);
        zero_points(made, 5, builder->dtype[1]);
        zero_points(made, 7, builder->dtype[2]);
        made->in[1].dtype = made->in[4].dtype = made->in[6].dtype = builder->dtype[3];
        case_list(made, 1, COUNT(scales), scales);
        case_list(made, 4, COUNT(scales), scales + 1);
        made->in[4].n_list--;
        case_list(made, 6, 1, &out_scales[i % 3]);
        made->quick = products[i].quick && i % 3 == 0;
        if (i == REAL_PRODUCT) case_real_of_any(builder, made, 1, products[i].variant);
        else if (i == BATCHES) case_layouts(builder, made, products[i].variant, false);
        else case_end(builder, made, "%s", products[i].variant);
    }
}

static const struct {
    const char *variant, *x, *w;
    int64_t stride[3], dilation[3], pad[6], groups, filters;
    bool quick;
} windows[] = {
    {"1d", "2x3x17", "4x3x3", {1, 1, 1}, {1, 1, 1}, {0}, 1, 4, true},
    {"1d.all", "2x6x9", "4x3x3", {2, 1, 1}, {2, 1, 1}, {1, 0, 0, 2, 0, 0}, 2, 4, false},
    {"2d.one", "1x1x1x1", "1x1x1x1", {1, 1, 1}, {1, 1, 1}, {0}, 1, 1, true},
    {"2d.empty", "0x3x5x5", "4x3x3x3", {1, 1, 1}, {1, 1, 1}, {0}, 1, 4, false},
    {"2d.pad", "2x3x7x6", "5x3x3x3", {1, 1, 1}, {1, 1, 1}, {1, 1, 0, 1, 1, 0}, 1, 5, true},
    {"2d.all", "1x4x9x8", "6x2x3x2", {2, 1, 1}, {1, 2, 1}, {1, 2, 0, 0, 1, 0}, 2, 6, true},
    {"2d.depthwise", "1x5x7x7", "5x1x3x3", {1, 1, 1}, {1, 1, 1}, {1, 1, 0, 1, 1, 0}, 5, 5, false},
    {"2d.deep", "1x67x4x3", "3x67x3x3", {1, 1, 1}, {1, 1, 1}, {1, 1, 0, 1, 1, 0}, 1, 3, false},
    {"3d", "1x2x4x5x3", "3x2x2x3x2", {1, 2, 1}, {1, 1, 1}, {0, 1, 0, 1, 0, 1}, 1, 3, true},
    {"2d.real", "2x17x9x8", "18x17x3x3", {1, 1, 1}, {1, 1, 1}, {1, 1, 0, 1, 1, 0}, 1, 18, false},
};
enum { PADDED = 4, REAL_WINDOW = 9 }; /* cases for layouts; with sizes of libraries */

static void set_window(struct kernel_case *made, size_t i)
{
    struct bp_conv_integer_attrs *a = &made->attrs.conv_integer; /* one layout for both operators */

    memcpy(a->stride, windows[i].stride, sizeof a->stride);
    memcpy(a->dilation, windows[i].dilation, sizeof a->dilation);
    memcpy(a->pad, windows[i].pad, sizeof a->pad);
    a->groups = windows[i].groups;
    made->quick = windows[i].quick;
}

void cases_conv_integer(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(windows); i++)
        for (int form = 0; form < 3; form++) {
            char text[96], filters[24];
            struct kernel_case *made;
            if (i == REAL_WINDOW && !is_usual(builder)) continue;
            snprintf(filters, sizeof filters, "%lld", (long long)windows[i].filters);
            snprintf(text, sizeof text, "%s+%s+%s+%s", windows[i].x, windows[i].w, form ? "1" : "-",
                     form == 2 ? filters
                     : form    ? "scalar"
                               : "-");
            made = case_begin(builder, text);
            integer_data(made, 0, builder->dtype[0], i);
            integer_data(made, 1, builder->dtype[1], i + 1);
            zero_points(made, 2, builder->dtype[0]);
            zero_points(made, 3, builder->dtype[1]);
            set_window(made, i);
            snprintf(text, sizeof text, "%s.form%d", windows[i].variant, form);
            if (i == PADDED && form == 2 && is_usual(builder)) case_orders(builder, made, 0, text);
            if (i == REAL_WINDOW) case_real_of_any(builder, made, 1, text);
            else if (i == PADDED && form) case_layouts(builder, made, text, false);
            else case_end(builder, made, "%s", text);
        }
}

void cases_qlinear_conv(struct case_builder *builder)
{
    static const double out_scales[] = {3.7, 40, 0.5};

    for (int i = 0; i < COUNT(windows); i++)
        for (int form = 0; form < 2; form++) {
            char text[160], filters[24];
            struct kernel_case *made;
            if (builder->dtype[3] != BP_F32 && i % 3) continue;
            if (i == REAL_WINDOW && (!is_usual(builder) || builder->dtype[3] != BP_F32)) continue;
            snprintf(filters, sizeof filters, "%lld", (long long)windows[i].filters);
            snprintf(text, sizeof text, "%s+1+scalar+%s+%s+%s+1+1+%s", windows[i].x, windows[i].w,
                     form ? filters : "scalar", form ? filters : "1", form ? filters : "-");
            made = case_begin(builder, text);
            integer_data(made, 0, builder->dtype[0], i);
            integer_data(made, 3, builder->dtype[1], i + 1);
            zero_points(made, 2, builder->dtype[0]);
            zero_points(made, 5, builder->dtype[1]);
            zero_points(made, 7, builder->dtype[0]);
            if (form) case_index(made, 8, BP_I32, -10000, 10000);
            made->in[8].dtype = BP_I32;
            made->in[1].dtype = made->in[4].dtype = made->in[6].dtype = builder->dtype[3];
            case_list(made, 1, COUNT(scales), scales);
            case_list(made, 4, COUNT(scales) - 1, scales + 1);
            case_list(made, 6, 1, &out_scales[i % 3]);
            set_window(made, i);
            made->quick &= form;
            snprintf(text, sizeof text, "%s.form%d", windows[i].variant, form);
            if (i == PADDED && form && is_usual(builder)) case_orders(builder, made, 0, text);
            if (i == REAL_WINDOW) case_real_of_any(builder, made, 1, text);
            else if (i == PADDED && form) case_layouts(builder, made, text, false);
            else case_end(builder, made, "%s", text);
        }
}

void cases_fake_quantize(struct case_builder *builder)
{
    static const enum data data[] = {DATA_PLAIN, DATA_WIDE, DATA_NONFINITE};
    static const double fine = 0x1p-9, far[] = {0.1, -0.07, 3, -2, 0.11, -0.3, 0.013, 1.25};
    struct kernel_case *made;

    for (int i = 0; i < COUNT(lines); i++)
        for (int form = 0; form < 3; form++) {
            bool zero = (i + (size_t)form) % 2;
            if (!quantize_cases_has(i, form)) continue;
            made = quantize_cases_line(builder, i, form, zero);
            made->attrs.fake_quantize.axis = lines[i].axis;
            if (i % 3 == 0) made->attrs.fake_quantize.low = 0, made->attrs.fake_quantize.high = 15;
            made->in[0].data = data[(i + (size_t)form) % 3];
            made->in[1].dtype = builder->dtype[1];
            case_list(made, 1, COUNT(scales), scales);
            if (zero) zero_points(made, 2, BP_I32);
            made->quick = lines[i].quick;
            if (form == ALONG && !strcmp(lines[i].variant, "channels"))
                case_layouts(builder, made, "channels.form2", false);
            else case_end(builder, made, "%s.form%d", lines[i].variant, form);
        }
    if (!builder->gradients) return;
    /* The steps of finite differences are multiples of this scale, so that the rounded results are
     * on a straight line; some numbers are far outside the range. */
    made = case_begin(builder, "2x7+1");
    case_list(made, 0, COUNT(far), far);
    made->in[1].dtype = builder->dtype[1];
    case_list(made, 1, 1, &fine);
    made->gradient = 2;
    case_end(builder, made, "straight");
}

void cases_fake_quantize_abs_max(struct case_builder *builder)
{
    static const char *const shapes[] = {"scalar", "1", "17", "257", "3x5x7", "2x3x2x5x3"};
    static const enum data data[] = {DATA_PLAIN, DATA_WIDE, DATA_ZERO, DATA_NONFINITE};
    struct kernel_case *made;
    char name[32];

    for (int i = 0; i < COUNT(shapes); i++)
        for (int d = 0; d < COUNT(data); d++) {
            made = case_begin(builder, shapes[i]);
            made->in[0].data = data[d];
            made->attrs.fake_quantize_abs_max.bits = d == 1 ? 4 : d == 3 ? 12 : 8;
            made->quick = i == 2;
            snprintf(name, sizeof name, "data%d", d);
            if (i == 4 && !d) case_part_layouts(builder, made, 2, name);
            else case_parts(builder, made, 2, name);
        }
}
