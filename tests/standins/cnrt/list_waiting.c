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

void list_waiting(void)
{
    list_batch_norm();
}
