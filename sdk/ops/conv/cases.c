/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the conformance cases of convolutions and their two gradients, from one list of
 * geometries. */
#include "../common/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_conv, cases_conv_grad_input, cases_conv_grad_weight;

struct geometry {
    const char *variant, *x, *w;
    int64_t stride[3], dilation[3], pad[6], groups;
    bool quick;
};
#define ONES \
    { \
        1, 1, 1 \
    }
#define NO_PAD \
    { \
        0, 0, 0, 0, 0, 0 \
    }
static const struct geometry geometries[] = {
    {"1d.small", "1x4x5", "2x2x2", {2, 1, 1}, {2, 1, 1}, {1, 0, 0, 1, 0, 0}, 2, false},
    {"2d.small", "1x2x3x3", "2x1x2x2", {1, 2, 1}, ONES, {0, 1, 0, 1, 0, 0}, 2, false},
    {"1d", "2x3x17", "4x3x3", ONES, ONES, NO_PAD, 1, true},
    {"1d.pad", "2x3x16", "4x3x5", ONES, ONES, {2, 0, 0, 1, 0, 0}, 1, false},
    {"1d.stride", "1x3x31", "5x3x4", {3, 1, 1}, ONES, NO_PAD, 1, false},
    {"1d.dilation", "2x2x19", "3x2x3", ONES, {4, 1, 1}, {1, 0, 0, 1, 0, 0}, 1, false},
    {"1d.groups", "2x6x9", "4x3x3", ONES, ONES, {1, 0, 0, 1, 0, 0}, 2, false},
    {"2d.one", "1x1x1x1", "1x1x1x1", ONES, ONES, NO_PAD, 1, true},
    {"2d.empty", "0x3x5x5", "4x3x3x3", ONES, ONES, NO_PAD, 1, true},
    {"2d", "2x3x9x8", "4x3x3x3", ONES, ONES, NO_PAD, 1, true},
    {"2d.pointwise", "2x7x5x6", "5x7x1x1", ONES, ONES, NO_PAD, 1, true},
    {"2d.whole", "2x3x5x4", "3x3x5x4", ONES, ONES, NO_PAD, 1, false},
    {"2d.pad", "2x3x7x9", "5x3x3x3", ONES, ONES, {1, 1, 0, 1, 1, 0}, 1, true},
    {"2d.pad-uneven", "1x3x7x6", "2x3x3x4", ONES, ONES, {2, 0, 0, 1, 3, 0}, 1, true},
    {"2d.stride", "2x3x11x13", "4x3x3x3", {2, 3, 1}, ONES, {1, 1, 0, 1, 1, 0}, 1, true},
    {"2d.stride-gaps", "1x2x9x9", "3x2x1x1", {3, 2, 1}, ONES, NO_PAD, 1, false},
    {"2d.dilation", "1x3x12x11", "4x3x3x3", ONES, {2, 3, 1}, {2, 1, 0, 2, 1, 0}, 1, true},
    {"2d.groups", "2x6x8x7", "4x3x3x3", ONES, ONES, {1, 1, 0, 1, 1, 0}, 2, true},
    {"2d.groups-prime", "1x15x5x6", "10x3x3x2", {2, 1, 1}, ONES, {1, 0, 0, 0, 1, 0}, 5, false},
    {"2d.depthwise", "2x7x9x9", "7x1x3x3", ONES, ONES, {1, 1, 0, 1, 1, 0}, 7, true},
    {"2d.depthwise-twice", "1x4x9x9", "8x1x3x3", {2, 2, 1}, ONES, {1, 1, 0, 1, 1, 0}, 4, false},
    {"2d.all", "2x4x13x12", "6x2x3x2", {2, 1, 1}, {1, 2, 1}, {1, 2, 0, 0, 1, 0}, 2, true},
    {"2d.prime", "3x13x11x7", "17x13x3x3", ONES, ONES, {1, 1, 0, 1, 1, 0}, 1, false},
    {"2d.width", "1x16x15x17", "16x16x3x3", ONES, ONES, {1, 1, 0, 1, 1, 0}, 1, false},
    {"2d.width", "1x33x8x8", "31x33x1x1", ONES, ONES, NO_PAD, 1, false},
    {"2d.large", "1x8x33x31", "16x8x7x7", {2, 2, 1}, ONES, {3, 3, 0, 3, 3, 0}, 1, false},
    {"2d.blocks", "2x6x7x9", "280x3x3x3", ONES, ONES, {1, 1, 0, 1, 1, 0}, 2, true},
    {"2d.blocks", "1x66x9x10", "70x66x2x2", {1, 2, 1}, ONES, {1, 1, 0, 0, 1, 0}, 1, true},
    /* Lines of more positions than kernels compute together; windows that lie beside the image. */
    {"2d.lines", "2x3x4x150", "3x1x2x3", ONES, {1, 3, 1}, {1, 7, 0, 0, 9, 0}, 3, true},
    {"2d.lines-step", "1x2x3x157", "2x1x1x4", {1, 2, 1}, ONES, {0, 5, 0, 0, 6, 0}, 2, true},
    {"2d.lines-beside", "1x2x3x5", "2x1x1x4", {1, 2, 1}, {1, 5, 1}, {0, 10, 0, 0, 8, 0}, 2, false},
    {"2d.point-gaps", "1x20x2x2", "5x20x1x1", {3, 3, 1}, ONES, NO_PAD, 1, false},
    /* Large enough for libraries. */
    {"2d.wide-pointwise", "2x64x9x8", "48x64x1x1", ONES, ONES, NO_PAD, 1, true},
    {"2d.wide-gaps", "2x64x10x10", "48x64x1x1", {2, 2, 1}, ONES, NO_PAD, 1, true},
    {"2d.wide-groups", "1x48x12x11", "32x3x3x3", ONES, ONES, {1, 1, 0, 1, 1, 0}, 16, true},
    {"2d.wide-depthwise", "3x40x17x16", "40x1x3x3", {2, 2, 1}, ONES, {1, 1, 0, 1, 1, 0}, 40, true},
    /* Images of one axis, written with more; one meets padding only. */
    {"2d.wide-line", "2x32x41x1", "24x32x5x1", ONES, {2, 1, 1}, {2, 0, 0, 1, 0, 0}, 1, true},
    {"2d.wide-line-beside", "1x32x41x1", "24x32x3x1", {1, 3, 1}, ONES, {0, 1, 0, 0, 1, 0}, 1, true},
    {"3d.wide-line", "1x64x40x1x1", "24x32x3x1x1", {2, 1, 1}, ONES, {1, 0, 0, 1, 0, 0}, 2, true},
    {"3d", "1x2x5x6x7", "3x2x3x2x3", ONES, ONES, NO_PAD, 1, true},
    {"3d.all", "2x4x7x8x9", "6x2x2x3x3", {1, 2, 3}, {2, 1, 1}, {1, 0, 2, 0, 1, 1}, 2, true},
    {"3d.depthwise", "1x3x6x5x5", "3x1x3x3x3", {2, 1, 1}, ONES, {1, 1, 1, 1, 1, 1}, 3, false},
};
enum {
    N_GEOMETRIES = sizeof geometries / sizeof *geometries
};

static void conv_cases_parse(const char *text, int64_t *at)
{
    for (; *text; at++) {
        *at = strtoll(text, (char **)&text, 10);
        if (*text == 'x') text++;
    }
}

/* Writes the shape of the result as text; returns text. */
static const char *result_of(const struct geometry *g, char *text, size_t size)
{
    int64_t x[8] = {0}, w[8] = {0};
    int rank = 1, used;

    for (const char *c = g->x; *c; c++) rank += *c == 'x';
    conv_cases_parse(g->x, x);
    conv_cases_parse(g->w, w);
    used = snprintf(text, size, "%lldx%lld", (long long)x[0], (long long)w[0]);
    for (int i = 2; i < rank; i++) {
        int64_t covered = g->dilation[i - 2] * (w[i] - 1) + 1;
        int64_t extent = (x[i] + g->pad[i - 2] + g->pad[i + 1] - covered) / g->stride[i - 2] + 1;
        used += snprintf(text + used, size - (size_t)used, "x%lld", (long long)extent);
    }
    return text;
}

static struct kernel_case *conv_begin(const struct case_builder *builder, const struct geometry *g,
                                      const char *shapes)
{
    struct kernel_case *made = case_begin(builder, shapes);

    memcpy(made->attrs.conv.stride, g->stride, sizeof g->stride);
    memcpy(made->attrs.conv.dilation, g->dilation, sizeof g->dilation);
    memcpy(made->attrs.conv.pad, g->pad, sizeof g->pad);
    made->attrs.conv.groups = g->groups;
    case_smooth(made, 2);
    made->quick = g->quick;
    return made;
}

static const struct geometry *conv_cases_find(const char *variant)
{
    for (int i = 0; i < N_GEOMETRIES; i++)
        if (!strcmp(geometries[i].variant, variant)) return &geometries[i];
    abort(); /* a name in this file is misspelt */
}

/* Adds cases with images and filters in all orders of axes, large enough that rows switch to
 * libraries: at least 65536 products. */
static void conv_cases_orders(const struct case_builder *builder, const char *shapes, bool unread)
{
    struct kernel_case *made = conv_begin(builder, conv_cases_find("2d"), shapes);

    if (unread) made->in[2].data = DATA_UNREAD;
    if (builder->dtype[0] == BP_F32)
        for (int i = 0; i < 2; i++) case_orders(builder, made, i, i ? "2d.second" : "2d.first");
    free(made);
}

/* Adds depthwise convolutions whose channels are innermost, and convolutions of one point, which
 * have kernels of their own. */
static void conv_cases_of_phones(const struct case_builder *builder)
{
    struct kernel_case *made;

    for (int frozen = 0; frozen < 2; frozen++) {
        made = conv_begin(builder, conv_cases_find("2d.depthwise"), "2x40x9x16+40x1x3x3+40");
        made->attrs.conv.groups = 40;
        made->in[0].layout = made->out = LAYOUT_LAST;
        made->in[1].frozen = frozen;
        case_end(builder, made, "2d.depthwise.last%s", frozen ? ".frozen" : "");
        made = case_begin(builder, "3x37x1x1+70x37x1x1+70");
        made->in[1].frozen = frozen;
        case_end(builder, made, "2d.points%s", frozen ? ".frozen" : "");
    }
    case_real(builder, case_begin(builder, "1x240x1x1+120x240x1x1+120"), 1, "2d.points.real");
}

void cases_conv(struct case_builder *builder)
{
    static const char *const laid_out[] = {"1d", "2d", "2d.all", "3d"};
    char shapes[128];
    struct kernel_case *made;

    for (int i = 0; i < N_GEOMETRIES; i++) {
        const struct geometry *g = &geometries[i];
        snprintf(shapes, sizeof shapes, "%s+%s+-", g->x, g->w);
        case_end(builder, conv_begin(builder, g, shapes), "%s", g->variant);
        snprintf(shapes, sizeof shapes, "%s+%s+%d", g->x, g->w, atoi(g->w));
        case_end(builder, conv_begin(builder, g, shapes), "%s.bias", g->variant);
    }
    for (size_t i = 0; i < sizeof laid_out / sizeof *laid_out; i++) {
        const struct geometry *g = conv_cases_find(laid_out[i]);
        char name[64];
        snprintf(shapes, sizeof shapes, "%s+%s+%d", g->x, g->w, atoi(g->w));
        snprintf(name, sizeof name, "%s.laid", g->variant);
        case_layouts(builder, conv_begin(builder, g, shapes), name, false);
    }
    conv_cases_of_phones(builder);
    /* Large enough for libraries, which have different kernels for these layouts. */
    for (int last = 0; last < 2; last++) {
        made = conv_begin(builder, conv_cases_find("2d"), "1x16x13x13+24x16x3x3+24");
        made->in[0].layout = last ? LAYOUT_LAST : LAYOUT_DENSE;
        made->out = made->in[0].layout;
        case_end(builder, made, "2d.large%s", last ? ".last" : "");
        made = conv_begin(builder, conv_cases_find("2d"), "1x16x13x13+24x16x3x3+24");
        made->in[0].layout = last ? LAYOUT_LAST : LAYOUT_DENSE;
        made->in[1].frozen = true;
        case_end(builder, made, "2d.large%s.frozen", last ? ".last" : "");
    }
    case_real(builder, conv_begin(builder, conv_cases_find("2d"), "2x33x15x17+40x33x3x3+40"), 1,
              "2d.real");
    case_real(builder, conv_begin(builder, conv_cases_find("1d"), "2x33x131+40x33x3+40"), 1,
              "1d.real");
    /* Few positions, and windows of more than 1024 elements. */
    case_real(builder, conv_begin(builder, conv_cases_find("1d"), "1x600x5+43x600x3+43"), 1,
              "1d.columns");
    conv_cases_orders(builder, "2x17x9x8+18x17x3x3+-", false);
    case_end(builder, case_begin(builder, "1x16x14x15+24x16x1x1+24"), "2d.large.point");
    made = conv_begin(builder, conv_cases_find("2d"), "1x64x9x9+5x64x3x3+5");
    case_data(made, DATA_EXACT);
    case_end(builder, made, "2d.exact");
    made = conv_begin(builder, conv_cases_find("2d"), "1x64x9x9+5x64x3x3+5");
    case_data(made, DATA_POSITIVE);
    case_end(builder, made, "2d.positive");
    made = conv_begin(builder, conv_cases_find("2d"), "2x3x9x8+4x3x3x3+-");
    made->in[0].data = DATA_NONFINITE;
    case_end(builder, made, "2d.nonfinite");
}

void cases_conv_grad_input(struct case_builder *builder)
{
    char shapes[128], result[64];
    struct kernel_case *made;

    for (int i = 0; i < N_GEOMETRIES; i++) {
        const struct geometry *g = &geometries[i];
        snprintf(shapes, sizeof shapes, "%s+%s+%s", result_of(g, result, sizeof result), g->w,
                 g->x);
        made = conv_begin(builder, g, shapes);
        made->in[2].data = DATA_UNREAD;
        if (!strcmp(g->variant, "2d.all")) case_layouts(builder, made, g->variant, false);
        else case_end(builder, made, "%s", g->variant);
    }
    conv_cases_orders(builder, "2x18x7x6+18x17x3x3+2x17x9x8", true);
    made = conv_begin(builder, conv_cases_find("2d"), "1x5x7x7+5x64x3x3+1x64x9x9");
    case_data(made, DATA_EXACT);
    case_end(builder, made, "2d.exact");
}

void cases_conv_grad_weight(struct case_builder *builder)
{
    char shapes[128], result[64];
    struct kernel_case *made;

    for (int i = 0; i < N_GEOMETRIES; i++) {
        const struct geometry *g = &geometries[i];
        snprintf(shapes, sizeof shapes, "%s+%s+%s", result_of(g, result, sizeof result), g->x,
                 g->w);
        made = conv_begin(builder, g, shapes);
        made->in[2].data = DATA_UNREAD;
        if (!strcmp(g->variant, "2d.all")) case_layouts(builder, made, g->variant, false);
        else case_end(builder, made, "%s", g->variant);
    }
    conv_cases_orders(builder, "2x18x7x6+2x17x9x8+18x17x3x3", true);
    made = conv_begin(builder, conv_cases_find("2d"), "4x5x7x7+4x6x9x9+5x6x3x3");
    case_data(made, DATA_EXACT);
    case_end(builder, made, "2d.exact");
}
