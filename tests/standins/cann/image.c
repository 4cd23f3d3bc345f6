/* SPDX-License-Identifier: Apache-2.0 */
/* image.c: implements resizing, sampling and regions of the stand-in for CANN. */
#include "family.h"
#include <string.h>

/* self, outputSize, then out, or alignCorners, scalesH, scalesW, out */
int cann_check_upsample(struct cann_call *call)
{
    int out = (int)strlen(call->op->letters) - 1;
    struct cann_shape shape = cann_shape(cann_type(call, 0));

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_rank(call, 0, 4, 4));
    CANN_TRY(cann_want_n(call, 1, 2));
    CANN_TRY(cann_want_same(call, out, 0));
    for (int i = 0; i < 2; i++) {
        if (call->arg[1].at[i] < 1) return cann_refuse(call, 1, "is below 1");
        shape.at[2 + i] = call->arg[1].at[i];
    }
    return cann_want_shape(call, out, &shape);
}

int cann_run_upsample(struct cann_call *call)
{
    const struct base_tensor *x = cann_host(call, 0);
    bool is_linear = strlen(call->op->letters) > 3;
    const struct base_tensor *y = cann_host(call, is_linear ? 5 : 2);
    struct bp_resize_axis_attrs attrs = {.size = sizeof attrs,
                                         .axis = 2,
                                         .extent = y->shape[2],
                                         .mode = is_linear,
                                         .coordinates = is_linear ? 0 : 4,
                                         .nearest = 2,
                                         .cubic_a = -0.75,
                                         .end = 1};
    int64_t shape[] = {x->shape[0], x->shape[1], y->shape[2], x->shape[3]};
    struct cann_temps temps = {.n = 0};
    struct base_tensor in = cann_in_dtype(&temps, x, BP_F32);
    struct base_tensor half = cann_temp(&temps, BP_F32, 4, shape);
    struct base_tensor made = cann_temp(&temps, BP_F32, 4, y->shape);

    if (is_linear && call->arg[2].i) attrs.coordinates = 3;
    if (is_linear && call->arg[3].d > 0) attrs.scale = call->arg[3].d;
    cann_apply(&temps, "resize_axis", &attrs, &in, NULL, NULL, &half);
    attrs.axis = 3;
    attrs.extent = y->shape[3];
    attrs.scale = is_linear && call->arg[4].d > 0 ? call->arg[4].d : 0;
    cann_apply(&temps, "resize_axis", &attrs, &half, NULL, NULL, &made);
    cann_write(&temps, &made, y);
    cann_temps_free(&temps);
    return temps.code;
}

/* input, grid, interpolationMode, paddingMode, alignCorners, out */
int cann_check_grid_sample(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0), *grid = cann_type(call, 1);
    struct cann_shape shape = {4, {0}};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_want_rank(call, 0, 4, 4));
    CANN_TRY(cann_want_rank(call, 1, 4, 4));
    CANN_TRY(cann_want_between(call, 2, 0, 2));
    CANN_TRY(cann_want_between(call, 3, 0, 2));
    if (grid->dims[3] != 2 || grid->dims[0] != x->dims[0])
        return cann_refuse(call, 1, "does not fit input");
    memcpy(shape.at, (int64_t[]){x->dims[0], x->dims[1], grid->dims[1], grid->dims[2]},
           4 * sizeof *shape.at);
    CANN_TRY(cann_want_same(call, 5, 0));
    return cann_want_shape(call, 5, &shape);
}

int cann_run_grid_sample(struct cann_call *call)
{
    struct bp_grid_sample_attrs attrs = {.size = sizeof attrs,
                                         .mode = call->arg[2].i,
                                         .padding = call->arg[3].i,
                                         .align_corners = call->arg[4].i};
    struct cann_temps temps = {.n = 0};

    cann_apply(&temps, "grid_sample", &attrs, cann_host(call, 0), cann_host(call, 1), NULL,
               cann_host(call, 5));
    return temps.code;
}

/* self, rois, batchIndices, mode, outputHeight, outputWidth, samplingRatio, spatialScale, out. Not
 * known: whether places begin half a place before; here they do not. */
int cann_check_roi_align(struct cann_call *call)
{
    const struct cann_tensor *x = cann_type(call, 0), *rois = cann_type(call, 1);
    struct cann_shape shape = {4, {0}}, images = {1, {0}};

    CANN_TRY(cann_want_own(call, 0));
    CANN_TRY(cann_want_same(call, 1, 0));
    CANN_TRY(cann_want(call, 2, CANN_INDEX));
    CANN_TRY(cann_want_rank(call, 0, 4, 4));
    CANN_TRY(cann_want_rank(call, 1, 2, 2));
    if (rois->dims[1] != 4)
        return cann_refuse(call, 1, "has rows of %lld", (long long)rois->dims[1]);
    if (strcmp(call->arg[3].text, "avg") != 0 && strcmp(call->arg[3].text, "max") != 0)
        return cann_refuse(call, 3, "is \"%s\", expected avg or max", call->arg[3].text);
    for (int i = 4; i < 6; i++) CANN_TRY(cann_want_between(call, i, 1, 4096));
    CANN_TRY(cann_want_between(call, 6, 0, 4096));
    images.at[0] = rois->dims[0];
    CANN_TRY(cann_want_shape(call, 2, &images));
    memcpy(shape.at, (int64_t[]){rois->dims[0], x->dims[1], call->arg[4].i, call->arg[5].i},
           4 * sizeof *shape.at);
    CANN_TRY(cann_want_same(call, 8, 0));
    return cann_want_shape(call, 8, &shape);
}

int cann_run_roi_align(struct cann_call *call)
{
    const struct cann_arg *a = call->arg;
    struct bp_roi_align_attrs attrs = {.size = sizeof attrs,
                                       .height = a[4].i,
                                       .width = a[5].i,
                                       .sampling = a[6].i,
                                       .scale = a[7].d,
                                       .max = !strcmp(a[3].text, "max"),
                                       .whole = 1};
    struct cann_temps temps = {.n = 0};
    struct base_tensor rois = cann_in_dtype(&temps, cann_host(call, 1), BP_F32);
    struct base_call base = {
        .op = "roi_align",
        .attrs = &attrs,
        .n_in = 3,
        .n_out = 1,
        .in = {cann_host(call, 0), &rois, cann_host(call, 2)},
        .out = {cann_host(call, 8)},
        .type = {cann_host(call, 0)->dtype, BP_F32, cann_host(call, 2)->dtype, BASE_ABSENT}};

    cann_call_base(&temps, &base);
    cann_temps_free(&temps);
    return temps.code;
}
