/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c: builds cases of roi_align, roi_pool, psroi_pool and their gradients. */
#include "../common/cases.h"
#include <stdio.h>
#include <string.h>

cases_fn cases_roi_align, cases_roi_align_grad, cases_roi_pool, cases_roi_pool_grad,
    cases_psroi_pool, cases_psroi_pool_grad;

/* Some regions reach beyond the border, one has length 0, and one has its corners exchanged. */
static const double regions[] = {0.3,  0.4, 2.7, 3.1, 1.2, 0.1, 4.9, 2.3, -2.6, -1.3, 3.2, 1.8,
                                 2.25, 1.5, 2.25, 1.5, 3.1, 2.2, 1.4, 0.6, -9.5, -8.1, 14.2, 12.9};
struct roi_case {
    const char *variant, *x, *rois, *images, *y;
    int64_t out[2], sampling;
    double scale;
    bool whole, small;
};
static const struct roi_case rois[] = {
    {"small", "1x1x3x4", "2x4", "2", "2x1x1x2", {1, 2}, 2, 1, false, true},
    {"small.whole", "2x1x2x3", "2x4", "2", "2x1x2x1", {2, 1}, 1, 0.5, true, true},
    {"fixed", "2x3x5x6", "6x4", "6", "6x3x2x3", {2, 3}, 2, 1, false, false},
    {"adaptive", "2x3x5x6", "6x4", "6", "6x3x3x2", {3, 2}, 0, 1, false, false},
    {"whole", "2x2x7x5", "6x4", "6", "6x2x2x2", {2, 2}, 0, 0.75, true, false},
    {"larger", "1x2x9x8", "5x4", "5", "5x2x7x7", {7, 7}, 3, 1.5, false, false},
    {"one", "1x1x1x1", "3x4", "3", "3x1x1x1", {1, 1}, 1, 1, false, false},
    {"none", "2x3x4x4", "0x4", "0", "0x3x2x2", {2, 2}, 2, 1, false, false},
    {"channels", "1x67x3x3", "3x4", "3", "3x67x1x1", {1, 1}, 2, 1, false, false},
    {"no-channels", "1x0x3x3", "3x4", "3", "3x0x1x1", {1, 1}, 2, 1, false, false},
    {"more-channels", "1x131x5x4", "6x4", "6", "6x131x2x3", {2, 3}, 0, 1, false, false},
};

/* Begins a case, without attributes. */
static struct kernel_case *roi_cases_begin(const struct case_builder *builder,
                                           const struct roi_case *r, bool quick, bool grad)
{
    char shapes[96];
    struct kernel_case *made;

    if (grad) snprintf(shapes, sizeof shapes, "%s+%s+%s+%s", r->y, r->rois, r->images, r->x);
    else snprintf(shapes, sizeof shapes, "%s+%s+%s", r->x, r->rois, r->images);
    made = case_begin(builder, shapes);
    made->in[1].dtype = builder->dtype[1];
    case_list(made, 1, (int)COUNT(regions), regions);
    case_index(made, 2, builder->dtype[2], 0, r->x[0] - '0');
    made->quick = quick;
    if (!grad && r->small) {
        made->in[0].data = DATA_APART;
        made->gradient = 1;
    }
    return made;
}

static void roi_cases_roi(const struct case_builder *builder, size_t i, bool max, bool grad)
{
    struct kernel_case *made = roi_cases_begin(builder, &rois[i], i < 4, grad);
    struct bp_roi_align_attrs *a = &made->attrs.roi_align; /* one layout */

    a->height = rois[i].out[0];
    a->width = rois[i].out[1];
    a->scale = rois[i].scale;
    a->sampling = rois[i].sampling;
    a->max = max;
    a->whole = rois[i].whole;
    if (grad && !max) made->in[3].data = DATA_UNREAD;
    if (i == 3) case_layouts(builder, made, max ? "adaptive.max" : "adaptive", false);
    else case_end(builder, made, "%s%s", rois[i].variant, max ? ".max" : "");
}

void cases_roi_align(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(rois); i++)
        for (int max = 0; max < 2; max++) roi_cases_roi(builder, i, max, false);
}

void cases_roi_align_grad(struct case_builder *builder)
{
    for (int i = 0; i < COUNT(rois); i++)
        for (int max = 0; max < 2; max++) roi_cases_roi(builder, i, max, true);
}

/* Uses scales that make halves, and empty bins. */
static void roi_cases_pool(const struct case_builder *builder, size_t i, bool grad)
{
    struct kernel_case *made = roi_cases_begin(builder, &rois[i], i < 4, grad);
    struct bp_roi_pool_attrs *a = &made->attrs.roi_pool; /* one layout */

    a->height = rois[i].out[0];
    a->width = rois[i].out[1];
    a->scale = 2 * rois[i].scale;
    if (!made->gradient && i % 2) made->in[grad ? 3 : 0].data = i % 3 ? DATA_SPARSE : DATA_EXACT;
    if (i == 3) case_layouts(builder, made, rois[i].variant, false);
    else case_end(builder, made, "%s", rois[i].variant);
}

void cases_roi_pool(struct case_builder *builder)
{
    for (size_t i = 0; i < COUNT(rois); i++) roi_cases_pool(builder, i, false);
}

void cases_roi_pool_grad(struct case_builder *builder)
{
    for (size_t i = 0; i < COUNT(rois); i++) roi_cases_pool(builder, i, true);
}

/* x has the channels of y once for each bin. The regions are those of roi_pool; some are before x
 * or after it. */
static const struct roi_case parts[] = {
    {"small", "1x2x3x4", "2x4", "2", "2x1x1x2", {1, 2}, 0, 1, false, true},
    {"small.scaled", "1x4x3x2", "2x4", "2", "2x1x2x2", {2, 2}, 0, 0.5, false, true},
    {"halves", "2x18x5x6", "6x4", "6", "6x3x2x3", {2, 3}, 0, 0.5, false, false},
    {"layout", "2x12x5x6", "6x4", "6", "6x2x3x2", {3, 2}, 0, 1, false, false},
    {"larger", "1x98x9x8", "5x4", "5", "5x2x7x7", {7, 7}, 0, 1.5, false, false},
    {"narrow", "2x4x7x5", "6x4", "6", "6x2x1x2", {1, 2}, 0, 0.001, false, false},
    {"turned", "2x4x7x5", "6x4", "6", "6x1x2x2", {2, 2}, 0, -1, false, false},
    {"far", "1x2x3x5", "6x4", "6", "6x1x1x2", {1, 2}, 0, 1e300, false, false},
    {"one", "1x1x1x1", "3x4", "3", "3x1x1x1", {1, 1}, 0, 1, false, false},
    {"none", "2x12x4x4", "0x4", "0", "0x3x2x2", {2, 2}, 0, 1, false, false},
    {"channels", "1x67x3x3", "3x4", "3", "3x67x1x1", {1, 1}, 0, 1, false, false},
};

static void roi_cases_psroi(const struct case_builder *builder, size_t i, bool grad)
{
    struct kernel_case *made = roi_cases_begin(builder, &parts[i], i < 4, grad);
    struct bp_psroi_pool_attrs *a = &made->attrs.psroi_pool; /* one layout */

    a->height = parts[i].out[0];
    a->width = parts[i].out[1];
    a->scale = parts[i].scale;
    if (parts[i].small) made->gradient = 2;
    if (grad) made->in[3].data = DATA_UNREAD;
    if (i == 3) case_layouts(builder, made, parts[i].variant, false);
    else case_end(builder, made, "%s", parts[i].variant);
}

void cases_psroi_pool(struct case_builder *builder)
{
    for (size_t i = 0; i < COUNT(parts); i++) roi_cases_psroi(builder, i, false);
}

void cases_psroi_pool_grad(struct case_builder *builder)
{
    for (size_t i = 0; i < COUNT(parts); i++) roi_cases_psroi(builder, i, true);
}
