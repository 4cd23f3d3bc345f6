/* SPDX-License-Identifier: Apache-2.0 */
/* list_waiting.c: the part of the list of operators (list.h) with those that take numbers which no
 * public source confirms, and which callers of CNNL use in training. */
#include "list.h"
#include <math.h>

/* An image of two places and two channels: channel 0 is 1 4, channel 1 is 2 0.25. */
static void list_batch_norm(void)
{
    void *h = handle, *n = floats_4(CNNL_NHWC, 1, 1, 2, 2), *two = floats_1(2), *act = NULL,
         *relu = NULL;
    int p = CNNL_ACTIVATION_PRECISE, s = CNNL_SPATIAL, b = CNNL_OPS_BN;
    float e = 0;

    cnnlCreateActivationDescriptor(&act);
    cnnlCreateActivationDescriptor(&relu);
    cnnlSetActivationDescriptor_v5(act, CNNL_IDENTITY, p, CNNL_PROPAGATE_NAN, 1, -1, 1, 1, false);
    cnnlSetActivationDescriptor_v5(relu, CNNL_RELU, p, CNNL_PROPAGATE_NAN, 1, -1, 1, 1, false);
    list_size("cnnlGetBatchNormForwardWorkspaceSize",
              cnnlGetBatchNormForwardWorkspaceSize(h, n, &need),
              cnnlGetBatchNormForwardWorkspaceSize(h, n, NULL));
    kit_write(queue, second, F(0, 0, 0, 0), 16);
    list_floats("cnnlBatchNormForwardTraining_v2",
                cnnlBatchNormForwardTraining_v2(h, act, s, b, NULL, NULL, n, y, NULL, NULL, two, w,
                                                ones, second, (char *)second + 8, e, .5f, n, result,
                                                third, (char *)third + 8, room, need, NULL, 0),
                4, F(0, 3, 2, -1),
                cnnlBatchNormForwardTraining_v2(h, relu, s, b, NULL, NULL, n, y, NULL, NULL, two, w,
                                                ones, second, (char *)second + 8, e, .5f, n, result,
                                                third, (char *)third + 8, room, need, NULL, 0));
    kit_report(floats_are(third, 4, F(2.5f, 1.125f, 2 / 3.f, 1 / .875f)) &&
                   floats_are(second, 4, F(1.25f, .5625f, 2.25f, .765625f)),
               "the statistics of a batch norm: saved, and moved");
    list_size("cnnlGetBatchNormBackwardWorkspaceSize",
              cnnlGetBatchNormBackwardWorkspaceSize(h, n, &need),
              cnnlGetBatchNormBackwardWorkspaceSize(h, n, NULL));
    list_floats(
        "cnnlBatchNormBackward_v2",
        cnnlBatchNormBackward_v2(h, act, s, b, NULL, NULL, NULL, NULL, n, y, NULL, NULL, n, w, two,
                                 ones, NULL, third, (char *)third + 8, e, NULL, NULL, n, second,
                                 (char *)result + 8, result, room, need, NULL, 0),
        4, F(4, 4, 2, 0),
        cnnlBatchNormBackward_v2(h, act, s, b, NULL, NULL, NULL, NULL, n, y, NULL, NULL, n, w, two,
                                 ones, ones, third, (char *)third + 8, e, NULL, NULL, n, second,
                                 (char *)result + 8, result, room, need, NULL, 0));
    cnnlDestroyActivationDescriptor(act);
    cnnlDestroyActivationDescriptor(relu);
}

/* picks is 1 0 0 1 ..., x and y are matrices of two rows. */
static void list_scatter(void)
{
    void *h = handle, *rows = floats_2(2, 3), *index = desc_2(CNNL_INT32, 2, 2),
         *d = floats_2(2, 2), *wide = desc_2(CNNL_INT64, 2, 2), *two = floats_1(2);

    list_size("cnnlGetGatherWorkspaceSize", cnnlGetGatherWorkspaceSize(h, rows, index, d, 1, &need),
              cnnlGetGatherWorkspaceSize(h, rows, index, d, 1, NULL));
    list_floats("cnnlGather_v2", cnnlGather_v2(h, 1, rows, x, index, picks, room, need, d, result),
                4, F(2, -1.5f, 4, .5f),
                cnnlGather_v2(h, 1, rows, x, index, picks, room, need, rows, result));
    list_size("cnnlGetScatterWorkspaceSize", cnnlGetScatterWorkspaceSize(h, index, &need),
              cnnlGetScatterWorkspaceSize(h, index, NULL));
    list_floats("cnnlScatter_v2",
                cnnlScatter_v2(h, 1, rows, x, index, picks, d, y, room, need, rows, result,
                               CNNL_SCATTER_ADD),
                6, F(.5f, 3, -3, 8, .75f, -6),
                cnnlScatter_v2(h, 1, rows, x, index, picks, d, y, room, need, rows, result,
                               CNNL_SCATTERND_ADD));
    list_floats(
        "cnnlScatter_v2",
        cnnlScatter_v2(h, 1, rows, x, index, picks, d, y, room, need, rows, result, CNNL_SCATTER),
        6, F(2, 1, -3, 4, .25f, -6),
        cnnlScatter_v2(h, 1, rows, x, wide, picks, d, y, room, need, rows, result, CNNL_SCATTER));
    list_floats(
        "cnnlScatterNd_v2",
        cnnlScatterNd_v2(h, CNNL_SCATTERND_ADD, index, picks, two, y, rows, x, rows, result), 6,
        F(-1.5f, 4, -3, 5, .5f, -6),
        cnnlScatterNd_v2(h, CNNL_SCATTER_ADD, index, picks, two, y, rows, x, rows, result));
    list_floats(
        "cnnlScatterNd_v2",
        cnnlScatterNd_v2(h, CNNL_SCATTERND_UPDATE, index, picks, two, y, rows, x, rows, result), 6,
        F(-1.5f, 2, -3, 1, .5f, -6),
        cnnlScatterNd_v2(h, CNNL_SCATTERND_UPDATE, index, picks, rows, x, two, y, rows, result));
}

static void list_bits(void)
{
    void *h = handle, *i3 = desc_1(CNNL_INT32, 3), *d = floats_1(2), *trigon = NULL;
    int *more = (int *)second + 3;

    kit_write(queue, second, (int[]){1, 2, 3, 4, 5, 6}, 24);
    list_size("cnnlGetBitComputeWorkspaceSize",
              cnnlGetBitComputeWorkspaceSize(h, i3, i3, i3, &need),
              cnnlGetBitComputeWorkspaceSize(h, i3, i3, i3, NULL));
    list_ints("cnnlBitCompute_v2",
              cnnlBitCompute_v2(h, CNNL_BIT_XOR, i3, second, i3, more, i3, result, room, need), 3,
              (int[]){5, 7, 5},
              cnnlBitCompute_v2(h, CNNL_AND, i3, second, i3, more, i3, result, room, need));
    list_ints("cnnlBitCompute_v2",
              cnnlBitCompute_v2(h, CNNL_BIT_NOT, i3, second, NULL, NULL, i3, result, room, need), 3,
              (int[]){-2, -3, -4},
              cnnlBitCompute_v2(h, CNNL_BIT_NOT, i3, second, i3, second, i3, result, room, need));
    cnnlCreateTrigonDescriptor(&trigon);
    list_report("cnnlSetTrigonDescriptor_v2",
                cnnlSetTrigonDescriptor_v2(trigon, CNNL_TRIGON_ATAN, CNNL_HIGH_PRECISION), true,
                cnnlSetTrigonDescriptor_v2(trigon, CNNL_HIGH_PRECISION, CNNL_TRIGON_ATAN));
    list_floats("cnnlTrigonForward", cnnlTrigonForward(h, trigon, d, y, d, result), 2,
                F(.78539816f, 1.1071487f), cnnlTrigonForward(h, d, trigon, y, d, result));
    cnnlDestroyTrigonDescriptor(trigon);
}

/* Of y, which is 1 2 4 0.25, and w, which is 1 2 3 2. */
static void list_loss(void)
{
    void *h = handle, *d = floats_1(4), *one = floats_1(1), *lines = floats_2(2, 2),
         *two = floats_1(2), *label = desc_1(CNNL_INT32, 2);

    list_size("cnnlGetMSELossWorkspaceSize", cnnlGetMSELossWorkspaceSize(h, d, &need),
              cnnlGetMSELossWorkspaceSize(h, d, NULL));
    list_floats("cnnlMSELoss_v2",
                cnnlMSELoss_v2(h, CNNL_MSE_MEAN, d, y, d, w, room, need, one, result), 1,
                F(1.015625f), cnnlMSELoss_v2(h, CNNL_MSE_MEAN, d, y, d, w, room, need, d, result));
    list_size("cnnlGetSmoothL1LossForwardWorkspaceSize",
              cnnlGetSmoothL1LossForwardWorkspaceSize(h, d, CNNL_SMOOTH_L1_NONE, &need),
              cnnlGetSmoothL1LossForwardWorkspaceSize(h, d, CNNL_SMOOTH_L1_NONE, NULL));
    list_floats(
        "cnnlSmoothL1LossForward_v2",
        cnnlSmoothL1LossForward_v2(h, d, y, d, w, 1.5f, CNNL_SMOOTH_L1_NONE, room, need, d, result),
        4, F(0, 0, 1 / 3.f, 1),
        cnnlSmoothL1LossForward_v2(h, d, y, d, w, 1.5f, CNNL_MSE_NONE, room, need, d, result));
    list_size("cnnlGetBceWithLogitsWorkspaceSize",
              cnnlGetBceWithLogitsWorkspaceSize(h, d, NULL, NULL, &need),
              cnnlGetBceWithLogitsWorkspaceSize(h, d, NULL, NULL, NULL));
    list_floats("cnnlBceWithLogits_v2",
                cnnlBceWithLogits_v2(h, CNNL_HIGH_PRECISION, two, y, two, ones, two, w, NULL, NULL,
                                     CNNL_BCE_SUM, room, need, one, result),
                1, F(.31326169f + 2 * .12692801f),
                cnnlBceWithLogits_v2(h, CNNL_BCE_SUM, two, y, two, ones, two, w, NULL, NULL,
                                     CNNL_HIGH_PRECISION, room, need, one, result));
    list_size("cnnlGetNlllossWorkspaceSize", cnnlGetNlllossWorkspaceSize(h, lines, &need),
              cnnlGetNlllossWorkspaceSize(h, lines, NULL));
    /* the labels 1 0, of which the classes weigh 1 and 2 */
    list_floats("cnnlNlllossForward_v2",
                cnnlNlllossForward_v2(h, CNNL_NLL_MEAN, lines, y, label, picks, -100, two, w, room,
                                      need, one, second, one, result),
                1, F(-8 / 3.f),
                cnnlNlllossForward_v2(h, CNNL_NLL_NONE, lines, y, label, picks, -100, two, w, room,
                                      need, one, second, two, result));
    list_floats("cnnlNlllossForward_v2",
                cnnlNlllossForward_v2(h, CNNL_NLL_NONE, lines, y, label, picks, 0, two, w, room,
                                      need, NULL, NULL, two, result),
                2, F(-4, 0),
                cnnlNlllossForward_v2(h, CNNL_NLL_NONE, label, picks, lines, y, 0, two, w, room,
                                      need, NULL, NULL, two, result));
}

void list_waiting(void)
{
    list_bits();
    list_loss();
    list_batch_norm();
    list_scatter();
}
