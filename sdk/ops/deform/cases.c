/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds the cases of deform_conv, deform_unfold and the gradients of deform_unfold, from
 * one list of geometries. */
#include "../common/cases.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_deform_conv, cases_deform_unfold, cases_deform_unfold_offset;

struct geometry {
    const char *variant;
    int64_t x[4], filters, kernel[2], stride[2], dilation[2], pad[4], groups, offset_groups;
    enum data offsets;
    bool masked, quick, small;
};
static const struct geometry geometries[] = {
    {"small", {1, 2, 3, 2}, 2, {1, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, 1, DATA_LIST, true, true,
     true},
    {"small.groups", {1, 2, 2, 3}, 2, {1, 1}, {1, 2}, {1, 1}, {0, 0, 0, 0}, 2, 2, DATA_LIST, false,
     true, true},
    {"single", {1, 1, 40, 67}, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, 1, DATA_PLAIN, false,
     false, false},
    {"plain", {2, 3, 7, 6}, 4, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, 1, DATA_PLAIN, false, true,
     false},
    {"pad", {1, 4, 6, 9}, 5, {3, 2}, {1, 1}, {1, 1}, {1, 2, 0, 1}, 1, 2, DATA_PLAIN, true, true,
     false},
    {"stride", {2, 4, 11, 9}, 2, {3, 3}, {2, 3}, {1, 1}, {1, 1, 1, 1}, 2, 1, DATA_PLAIN, true,
     false, false},
    {"dilation", {1, 6, 12, 11}, 6, {2, 3}, {1, 2}, {3, 2}, {2, 0, 1, 3}, 3, 2, DATA_PLAIN, false,
     false, false},
    {"all", {2, 6, 9, 10}, 4, {3, 2}, {2, 1}, {1, 2}, {1, 2, 0, 1}, 2, 3, DATA_PLAIN, true, true,
     false},
    {"whole", {1, 2, 5, 5}, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, 1, DATA_EXACT, true, false,
     false},
    {"far", {1, 2, 5, 7}, 2, {2, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, 2, DATA_WIDE, true, false,
     false},
    {"range", {1, 2, 5, 7}, 2, {2, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, 2, DATA_RANGE, false,
     false, false},
    {"one", {1, 1, 1, 1}, 1, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, 1, DATA_PLAIN, true, false,
     false},
    {"width", {1, 3, 4, 150}, 2, {1, 3}, {1, 1}, {1, 1}, {0, 1, 0, 1}, 1, 3, DATA_PLAIN, true,
     false, false},
    {"channels", {1, 67, 4, 3}, 5, {2, 2}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 1, 1, DATA_PLAIN, true,
     false, false},
    {"depthwise", {1, 7, 6, 5}, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 7, 7, DATA_PLAIN, true,
     false, false},
    {"empty", {0, 2, 4, 4}, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, 1, DATA_PLAIN, true, false,
     false},
    {"no-channels", {1, 0, 4, 4}, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, 1, DATA_PLAIN, true,
     false, false},
};
static const struct geometry of_real = {
    "real", {1, 32, 14, 14}, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, 2, DATA_PLAIN, true,
    false, false};

/* Offsets away from whole numbers, at which slopes jump. */
static const double apart[] = {0.31, -0.45, 1.27, -1.62, 0.58, 0.73, -0.21, 0.44, -0.87, 0.12};

/* Writes the shapes of all arrays of a geometry as text. */
struct shapes {
    char x[48], w[48], offset[64], mask[64], y[64];
};

static struct shapes shapes_of(const struct geometry *g)
{
    int64_t out[2], taps = g->kernel[0] * g->kernel[1];
    struct shapes s;

    for (int i = 0; i < 2; i++)
        out[i] = (g->x[2 + i] + g->pad[i] + g->pad[2 + i] - g->dilation[i] * (g->kernel[i] - 1) -
                  1) / g->stride[i] +
                 1;
    snprintf(s.x, sizeof s.x, "%dx%dx%dx%d", (int)g->x[0], (int)g->x[1], (int)g->x[2],
             (int)g->x[3]);
    snprintf(s.w, sizeof s.w, "%dx%dx%dx%d", (int)g->filters, (int)(g->x[1] / g->groups),
             (int)g->kernel[0], (int)g->kernel[1]);
    snprintf(s.offset, sizeof s.offset, "%dx%dx%dx%d", (int)g->x[0],
             (int)(2 * g->offset_groups * taps), (int)out[0], (int)out[1]);
    snprintf(s.mask, sizeof s.mask, "%dx%dx%dx%d", (int)g->x[0], (int)(g->offset_groups * taps),
             (int)out[0], (int)out[1]);
    snprintf(s.y, sizeof s.y, "%dx%dx%d", (int)g->x[0], (int)(g->x[1] * taps),
             (int)(out[0] * out[1]));
    if (!g->masked) strcpy(s.mask, "-");
    return s;
}

/* Sets the data of the offsets, which are input number `at`. */
static void deform_cases_offsets(struct kernel_case *made, const struct geometry *g, int at)
{
    if (g->offsets == DATA_LIST) case_list(made, at, COUNT(apart), apart);
    else made->in[at].data = g->offsets;
}

static struct kernel_case *conv_of(const struct case_builder *builder, const struct geometry *g,
                                   bool bias)
{
    struct shapes s = shapes_of(g);
    char text[320], filters[16] = "-";
    struct kernel_case *made;
    struct bp_deform_conv_attrs *a;

    if (bias) snprintf(filters, sizeof filters, "%d", (int)g->filters);
    snprintf(text, sizeof text, "%s+%s+%s+%s+%s", s.x, s.w, s.offset, filters, s.mask);
    made = case_begin(builder, text);
    a = &made->attrs.deform_conv;
    memcpy(a->stride, g->stride, sizeof a->stride);
    memcpy(a->dilation, g->dilation, sizeof a->dilation);
    memcpy(a->pad, g->pad, sizeof a->pad);
    a->groups = g->groups;
    a->offset_groups = g->offset_groups;
    deform_cases_offsets(made, g, 2);
    made->quick = g->quick;
    if (g->small) made->gradient = 1;
    return made;
}

void cases_deform_conv(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(geometries); i++) {
        const struct geometry *g = &geometries[i];
        if (!strcmp(g->variant, "all")) case_layouts(builder, conv_of(builder, g, true), "all", 0);
        else case_end(builder, conv_of(builder, g, true), "%s", g->variant);
        case_end(builder, conv_of(builder, g, false), "%s.no-bias", g->variant);
    }
    case_real(builder, conv_of(builder, &of_real, true), 1, "real");
}

/* A case of deform_unfold, or of a gradient, whose first input is dy. */
static struct kernel_case *unfold_of(const struct case_builder *builder, const struct geometry *g)
{
    bool grad = !case_is(builder, "deform_unfold");
    struct shapes s = shapes_of(g);
    char text[320];
    struct kernel_case *made;
    struct bp_deform_unfold_attrs *a;

    if (grad) snprintf(text, sizeof text, "%s+%s+%s+%s", s.y, s.x, s.offset, s.mask);
    else snprintf(text, sizeof text, "%s+%s+%s", s.x, s.offset, s.mask);
    made = case_begin(builder, text);
    a = &made->attrs.deform_unfold; /* one layout */
    memcpy(a->kernel, g->kernel, sizeof a->kernel);
    memcpy(a->stride, g->stride, sizeof a->stride);
    memcpy(a->dilation, g->dilation, sizeof a->dilation);
    memcpy(a->pad, g->pad, sizeof a->pad);
    a->offset_groups = g->offset_groups;
    deform_cases_offsets(made, g, grad ? 2 : 1);
    made->quick = g->quick;
    return made;
}

/* Adds the cases of deform_unfold and of its gradient in x. */
void cases_deform_unfold(struct case_builder *builder)
{
    bool grad = !case_is(builder, "deform_unfold");

    for (int i = 0; i <= COUNT(geometries); i++) {
        const struct geometry *g = i < COUNT(geometries) ? &geometries[i] : &of_real;
        struct kernel_case *made = unfold_of(builder, g);
        if (grad && !builder->gradients) made->in[1].data = DATA_UNREAD;
        if (g->small) made->gradient = 1;
        if (!strcmp(g->variant, "all")) case_layouts(builder, made, g->variant, false);
        else if (g == &of_real) case_real(builder, made, 0, g->variant);
        else case_end(builder, made, "%s", g->variant);
    }
    if (grad) return;
    for (int i = 2; i < 4; i++) {
        struct kernel_case *made = unfold_of(builder, &geometries[i]);
        made->in[i % 2].data = DATA_NONFINITE;
        case_end(builder, made, "%s.nonfinite", geometries[i].variant);
    }
}

void cases_deform_unfold_offset(struct case_builder *builder)
{
    for (int i = 0; i <= COUNT(geometries); i++) {
        const struct geometry *g = i < COUNT(geometries) ? &geometries[i] : &of_real;
        struct kernel_case *made = unfold_of(builder, g);
        if (!strcmp(g->variant, "all")) case_part_layouts(builder, made, 2, g->variant);
        else if (g == &of_real) case_real(builder, made, 0, g->variant);
        else case_parts(builder, made, 2, g->variant);
    }
}
