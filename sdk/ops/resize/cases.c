/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of resize and of resize_axis and its gradient. */
#include "../common/cases.h"
#include <backplane/kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cases_fn cases_resize, cases_resize_axis;

enum { HALF, SYMMETRIC, PYTORCH, CORNERS, ASYMMETRIC, CROP };

/* mode: 0 to 2. scale 0: follows from the extents. */
static const struct how {
    const char *variant;
    int mode, coordinates, nearest, antialias, exclude;
    double scale, start, end, a;
    bool few; /* runs with few of the shapes */
} hows[] = {
    {"nearest", 0, HALF, 0, 0, 0, 0, 0, 1, -0.75, false},
    {"nearest.up", 0, HALF, 1, 0, 0, 0, 0, 1, -0.75, true},
    {"nearest.floor", 0, ASYMMETRIC, 2, 0, 0, 0, 0, 1, -0.75, false},
    {"nearest.ceil", 0, CORNERS, 3, 0, 0, 0, 0, 1, -0.75, true},
    {"nearest.crop", 0, CROP, 0, 0, 0, 0, -0.25, 0.875, -0.75, true},
    {"linear", 1, HALF, 0, 0, 0, 0, 0, 1, -0.75, false},
    {"linear.pytorch", 1, PYTORCH, 0, 0, 0, 0, 0, 1, -0.75, true},
    {"linear.symmetric", 1, SYMMETRIC, 0, 0, 0, 1.75, 0, 1, -0.75, true},
    {"linear.corners", 1, CORNERS, 0, 0, 0, 0, 0, 1, -0.75, false},
    {"linear.asymmetric", 1, ASYMMETRIC, 0, 0, 0, 0.625, 0, 1, -0.75, true},
    {"linear.crop", 1, CROP, 0, 0, 0, 0, 0.25, 1.25, -0.75, true},
    {"linear.turned", 1, CROP, 0, 0, 0, 0, 0.875, 0.125, -0.75, true},
    {"linear.antialias", 1, HALF, 0, 1, 0, 0, 0, 1, -0.75, false},
    {"linear.exclude", 1, HALF, 0, 0, 1, 0, 0, 1, -0.75, true},
    {"cubic", 2, HALF, 0, 0, 0, 0, 0, 1, -0.75, false},
    {"cubic.a", 2, CORNERS, 0, 0, 0, 0, 0, 1, -0.5, true},
    {"cubic.exclude", 2, HALF, 0, 0, 1, 0, 0, 1, -0.5, true},
    {"cubic.antialias", 2, HALF, 0, 1, 1, 0, 0, 1, -0.5, true},
};
static const struct {
    const char *x, *y;
    int64_t axis;
    bool small, layouts;
} shapes[] = {
    {"2x3", "2x7", 1, true, false},         {"5x2", "3x2", 0, true, false},
    {"2x3x5", "2x3x9", -1, false, true},    {"2x9x3", "2x4x3", 1, false, true},
    {"1", "1", 0, false, false},            {"3x1", "3x4", 1, false, false},
    {"4x6", "4x1", 1, false, false},        {"0x3", "0x5", 1, false, false},
    {"17x15", "17x33", 1, false, false},    {"131x2", "67x2", 0, false, false},
    {"2x5x65", "2x7x65", 1, false, false},  {"3x2x3x4x5", "3x2x5x4x5", 2, false, false},
    {"3x129", "3x66", 1, false, false},     {"3x151", "3x301", 1, false, false},
};

static struct kernel_case *resize_cases_begin(const struct case_builder *builder, size_t s,
                                              const struct how *h)
{
    bool grad = !strcmp(builder->op->name, "resize_axis_grad");
    char text[64];
    struct kernel_case *made;
    struct bp_resize_axis_attrs *a;
    int64_t at = shapes[s].axis, axes = 1;
    const char *y = shapes[s].y;

    if (grad) snprintf(text, sizeof text, "%s+%s", y, shapes[s].x);
    else snprintf(text, sizeof text, "%s", shapes[s].x);
    made = case_begin(builder, text);
    a = &made->attrs.resize_axis; /* one layout for the operator and its gradient */
    for (const char *c = y; *c; c++) axes += *c == 'x';
    for (at = at < 0 ? at + axes : at; at > 0; at--) y = strchr(y, 'x') + 1;
    a->axis = shapes[s].axis;
    a->extent = strtoll(y, NULL, 10);
    a->mode = h->mode;
    a->coordinates = h->coordinates;
    a->nearest = h->nearest;
    a->antialias = h->antialias;
    a->exclude_outside = h->exclude;
    a->scale = h->scale;
    a->start = h->start;
    a->end = h->end;
    a->cubic_a = h->a;
    a->extrapolation = 3;
    if (grad && !builder->gradients) made->in[1].data = DATA_UNREAD;
    made->quick = s < 4;
    return made;
}

/* With these extents no weight is 0: whether a kernel adds 0 times infinity is not defined. */
static void resize_cases_nonfinite(const struct case_builder *builder, const char *x,
                                   int64_t extent)
{
    bool grad = !strcmp(builder->op->name, "resize_axis_grad");

    for (int mode = 0; mode < 3 && case_is_float(builder) && !grad; mode++) {
        struct kernel_case *made = case_begin(builder, x);
        made->attrs.resize_axis.axis = 1;
        made->attrs.resize_axis.extent = extent;
        made->attrs.resize_axis.mode = mode;
        made->in[0].data = DATA_NONFINITE;
        case_end(builder, made, "nonfinite.mode%d", mode);
    }
}

/* Cases of resize_axis and its gradient. */
void cases_resize_axis(struct case_builder *builder)
{
    for (int h = 0; h < COUNT(hows); h++)
        for (int s = 0; s < COUNT(shapes); s++) {
            struct kernel_case *made;
            if (hows[h].mode && !case_is_float(builder)) continue;
            if (!shapes[s].small && (hows[h].few ? s % 6 != h % 6 : s % 2 && s % 5 != h % 5))
                continue;
            made = resize_cases_begin(builder, s, &hows[h]);
            if (s % 5 == 4) case_data(made, DATA_POSITIVE);
            if (shapes[s].small) made->gradient = 2;
            if (shapes[s].layouts && h % 5 == 0)
                case_layouts(builder, made, hows[h].variant, false);
            else case_end(builder, made, "%s", hows[h].variant);
        }
    resize_cases_nonfinite(builder, "9x8", 12);
    resize_cases_nonfinite(builder, "5x6x7", 4);
}

static const struct {
    const char *variant, *x;
    int64_t n, sizes[3], axes[3];
    double scale[3];
    int n_axes, mode, coordinates, antialias, small;
    uint32_t host;
    int exclude;
} images[] = {
    {"nearest", "1x2x3x4", 2, {6, 8}, {0}, {0}, 0, 0, ASYMMETRIC, 0, 1, 0},
    {"linear", "1x2x2x3", 2, {4, 5}, {0}, {0}, 0, 1, HALF, 0, 1, 0},
    {"cubic", "1x1x3x4", 2, {2, 6}, {2, 3}, {0}, 2, 2, HALF, 0, 1, 0},
    {"linear.3d", "1x1x2x3x2", 3, {3, 2, 4}, {0}, {0}, 0, 1, CORNERS, 0, 1, 0},
    {"linear.scales", "2x3x7x5", 2, {9, 8}, {-2, -1}, {1.3125, 1.75}, 2, 1, HALF, 0, 0, 0},
    {"linear.last", "2x5x6x3", 2, {9, 4}, {1, 2}, {0}, 2, 1, HALF, 0, 0, 0},
    {"linear.crop", "1x3x8x7", 2, {5, 9}, {0}, {0}, 0, 1, CROP, 0, 0, 0},
    {"cubic.antialias", "1x3x17x15", 2, {5, 6}, {0}, {0}, 0, 2, HALF, 1, 0, 0},
    {"linear.antialias", "1x3x16x33", 2, {7, 40}, {0}, {0}, 0, 1, HALF, 1, 0, 0},
    {"linear.line", "2x3x31", 1, {17}, {0}, {0}, 0, 1, HALF, 0, 0, 0},
    {"same", "2x3x4", 1, {4}, {0}, {0}, 0, 1, HALF, 0, 0, 0},
    {"empty", "0x3x4x4", 2, {2, 8}, {0}, {0}, 0, 1, HALF, 0, 0, 0},
    {"nearest.half-kept", "2x3x5x4", 2, {5, 7}, {0}, {0}, 0, 0, HALF, 0, 0, BP_I64},
    {"linear.host", "2x3x5x4", 2, {3, 7}, {0}, {0}, 0, 1, HALF, 0, 0, BP_I32},
    {"nearest.rank8", "1x2x1x2x1x2x3x2", 3, {3, 2, 5}, {3, 5, 6}, {0}, 3, 0, HALF, 0, 0, 0},
    /* Rows that resample all axes together distinguish extents below and above a vector's, which of
     * two axes they resample first, and whether few or many elements lie below the axes. */
    {"nearest.twice-line", "3x19", 1, {38}, {0}, {0}, 0, 0, ASYMMETRIC, 0, 0, 0},
    {"nearest.twice-odd", "2x3x21", 2, {6, 41}, {0}, {2, 2}, 0, 0, ASYMMETRIC, 0, 0, 0},
    {"nearest.grow", "2x4x23", 2, {7, 50}, {0}, {0}, 0, 0, HALF, 0, 0, 0},
    {"nearest.shrink", "2x9x70", 2, {4, 19}, {0}, {0}, 0, 0, HALF, 0, 0, 0},
    {"nearest.3d", "2x3x4x5", 3, {4, 6, 9}, {0}, {0}, 0, 0, HALF, 0, 0, 0},
    {"nearest.last-many", "1x3x4x18", 2, {6, 7}, {1, 2}, {0}, 2, 0, HALF, 0, 0, 0},
    {"nearest.last-few", "1x3x4x3", 2, {5, 7}, {1, 2}, {0}, 2, 0, HALF, 0, 0, 0},
    {"linear.grow", "2x9x21", 2, {17, 40}, {0}, {0}, 0, 1, HALF, 0, 0, 0},
    {"linear.shrink", "2x25x97", 2, {11, 31}, {0}, {0}, 0, 1, HALF, 0, 0, 0},
    {"linear.shrink-more", "3x11x97", 2, {5, 11}, {0}, {0}, 0, 1, HALF, 0, 0, 0},
    {"linear.rows", "2x7x33", 1, {4}, {1}, {0}, 1, 1, HALF, 0, 0, 0},
    {"linear.to-one", "2x6x7", 2, {1, 9}, {0}, {0}, 0, 1, CORNERS, 0, 0, 0},
    {"cubic.grow", "2x5x9", 2, {8, 35}, {0}, {0}, 0, 2, HALF, 0, 0, 0},
    {"cubic.exclude", "1x6x9", 2, {9, 5}, {0}, {0}, 0, 2, HALF, 0, 0, 0, 1},
    {"cubic.last-many", "1x4x5x18", 2, {3, 7}, {1, 2}, {0}, 2, 2, HALF, 0, 0, 0},
};

void cases_resize(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(images); i++) {
        struct kernel_case *made;
        struct bp_resize_attrs *a;
        if (images[i].mode && !case_is_float(builder)) continue;
        if (images[i].host && images[i].n_axes) abort(); /* axes would have to be a tensor, too */
        made = case_begin(builder, images[i].x);
        a = &made->attrs.resize;
        a->sizes = case_dims(made, 0, images[i].n, images[i].sizes);
        a->axes = case_dims(made, 1, images[i].n_axes, images[i].axes);
        a->mode = images[i].mode;
        a->coordinates = images[i].coordinates;
        a->antialias = images[i].antialias;
        a->exclude_outside = images[i].exclude;
        a->scale0 = images[i].scale[0];
        a->scale1 = images[i].scale[1];
        a->scale2 = images[i].scale[2];
        if (images[i].coordinates == CROP) {
            a->start0 = 0.25;
            a->start1 = -0.125;
            a->end0 = 1.25;
            a->end1 = 0.75;
            a->extrapolation = 2.5;
        }
        made->host = images[i].host;
        made->quick = i < 4;
        if (images[i].small) made->gradient = 2;
        if (i == 1 || i == 5) case_layouts(builder, made, images[i].variant, false);
        else case_end(builder, made, "%s", images[i].variant);
    }
}
