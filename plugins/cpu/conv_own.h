/* SPDX-License-Identifier: Apache-2.0 */
/* conv_own.h: declares the plan of the plugin's own convolutions of f32 with packed filters.
 *
 * They have the shapes at which oneDNN loses time: windows of one point on images of one point, and
 * depthwise windows of 3 x 3 and 5 x 5 on images whose channels are innermost. The bias and the
 * activation are applied while a block of results is in the first cache. */
#ifndef CPU_CONV_OWN_H
#define CPU_CONV_OWN_H

#include "cpu.h"
#include <stdbool.h>

enum {
    CONV_OWN_BLOCK = 7,   /* results of a line that one block of a depthwise convolution computes */
    CONV_OWN_PANEL = 4,   /* vectors of filters in one panel of a convolution of points */
    CONV_OWN_IMAGES = 8,  /* a convolution of points of more images is a product of matrices */
    CONV_OWN_FEW = 65536, /* filters of points that change are packed if they are not more */
    CONV_OWN_ACTIVE = 2048, /* results of a line are activated when there are so many */
    CONV_OWN_WINDOW = 5,
    CONV_OWN_LINE = 2 * CONV_OWN_BLOCK + CONV_OWN_WINDOW /* columns that a block reads, at most */
};

struct conv_own {
    bool depthwise;
    cpu_span *span; /* of the activation; NULL: there is none */
    int formula;
    double number[3];
    int64_t images, channels, filters;
    int64_t x_image, y_image; /* distances in elements */
    /* Depthwise: an image has rows x columns points, a result lines x places. */
    int64_t rows, columns, lines, places, x_row, x_column, y_row, y_column;
    int window, step, before[2];
    int lanes;           /* elements of a vector */
    int64_t w_stride[4]; /* of the filters, in elements */
    /* The filters in order. Depthwise: [window][window][channels]. Points:
     * panels of filters, each [channels][vectors of the panel], the last one filled with zeros. Of
     * constant filters; otherwise NULL: each launch packs the filters into its workspace. */
    float *packed;
    uint64_t bytes; /* of the packed filters */
};

/* The data of a launch. bias NULL: there is none. */
struct conv_own_run {
    const struct conv_own *plan;
    const float *x, *packed, *bias;
    float *y;
};

/* conv_point.c, conv_depthwise.c: compute a task: a panel of filters for all images, or one line of
 * results of one image. */
typedef void conv_own_task(void *run, int64_t task);

/* conv_own.c: the functions of the rows, which a build without instruction levels does not have. */
enum bp_status cpu_conv_own_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out);
void cpu_conv_own_destroy(void *self, const struct bp_kernel *kernel, void *plan);
enum bp_status cpu_conv_own(const struct bp_launch *launch);

static inline void conv_own_activate(const struct conv_own *plan, int64_t n, float *y)
{
    if (plan->span) plan->span(plan->formula, n, y, (const void *[]){y}, plan->number);
}

/* fused_plan.c: finds the span of an operator for f32. false: the plugin has none. */
bool cpu_span_find(const char *op, int level, const double *number, cpu_span **out_span,
                   int *out_formula);

#endif
