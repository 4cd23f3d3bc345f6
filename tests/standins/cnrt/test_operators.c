/* SPDX-License-Identifier: Apache-2.0 */
/* test_operators.c: a list of the operators of the stand-in for CNNL. Each entry has one right call
 * with its result, and one wrong call, which is refused. All operators of cnnl.def are in the list.
 * The right result is written here by hand. TAP. */
#include "list.h"
#include <math.h>
#include <stdlib.h>

static void list_unary(void)
{
    void *h = handle, *d = floats_1(6), *five = floats_1(5), *b = desc_1(CNNL_BOOL, 6),
         *wide = desc_1(CNNL_DOUBLE, 6);
    void *rows = floats_2(2, 3);

    /* x is -1.5 2 -3 4 0.5 -6 */
    list_floats("cnnlAbs", cnnlAbs(h, d, x, d, result), 6, F(1.5f, 2, 3, 4, .5f, 6),
                cnnlAbs(h, d, x, five, result));
    list_floats("cnnlCeil", cnnlCeil(h, d, x, d, result), 6, F(-1, 2, -3, 4, 1, -6),
                cnnlCeil(h, wide, x, wide, result));
    list_floats("cnnlFloor", cnnlFloor(h, d, x, d, result), 6, F(-2, 2, -3, 4, 0, -6),
                cnnlFloor(h, d, x, rows, result));
    list_floats("cnnlRound", cnnlRound(h, d, x, d, result), 6, F(-2, 2, -3, 4, 0, -6),
                cnnlRound(h, d, NULL, d, result));
    list_floats("cnnlTrunc", cnnlTrunc(h, d, x, d, result), 6, F(-1, 2, -3, 4, 0, -6),
                cnnlTrunc(h, d, &need, d, result));
    list_floats("cnnlSign", cnnlSign(h, d, x, d, result), 6, F(-1, 1, -1, 1, 1, -1),
                cnnlSign(h, x, d, d, result));
    list_floats("cnnlNegTensor", cnnlNegTensor(h, d, x, d, result), 6, F(1.5f, -2, 3, -4, -.5f, 6),
                cnnlNegTensor(d, h, x, d, result));
    list_floats("cnnlReciprocal", cnnlReciprocal(h, d, x, d, result), 4,
                F(-1 / 1.5f, .5f, -1 / 3.f, .25f), cnnlReciprocal(h, d, x, b, result));
    list_floats("cnnlSquare", cnnlSquare(h, d, x, d, result), 6, F(2.25f, 4, 9, 16, .25f, 36),
                cnnlSquare(h, five, x, d, result));
    list_bools("cnnlIsFinite", cnnlIsFinite(h, d, nans, b, result), 6, "\1\0\0\0\1\1",
               cnnlIsFinite(h, d, nans, d, result));
    list_bools("cnnlIsNan", cnnlIsNan(h, d, nans, b, result), 6, "\0\1\0\0\0\0",
               cnnlIsNan(h, b, nans, b, result));
}

static void list_unary_assumed(void)
{
    void *h = handle, *d = floats_1(6), *five = floats_1(5), *b = desc_1(CNNL_BOOL, 6);
    int p = CNNL_HIGH_PRECISION;

    /* y is 1 2 4 0.25 0.5 8 */
    list_floats("cnnlExp_v2", cnnlExp_v2(h, p, d, y, d, result), 2, F(2.7182818f, 7.389056f),
                cnnlExp_v2(h, 3, d, y, d, result));
    list_floats("cnnlExpm1", cnnlExpm1(h, p, d, y, d, result), 2, F(1.7182818f, 6.389056f),
                cnnlExpm1(h, p, d, y, five, result));
    list_floats("cnnlSqrt_v2", cnnlSqrt_v2(h, p, d, y, d, result), 5,
                F(1, 1.4142135f, 2, .5f, .70710678f), cnnlSqrt_v2(h, p, b, y, b, result));
    list_floats("cnnlRsqrt_v2", cnnlRsqrt_v2(h, p, d, y, d, result), 4, F(1, .70710678f, .5f, 2),
                cnnlRsqrt_v2(h, p, d, y, b, result));
    list_floats("cnnlSin_v2", cnnlSin_v2(h, p, d, y, d, result), 2, F(.84147098f, .90929743f),
                cnnlSin_v2(h, -1, d, y, d, result));
    list_floats("cnnlCos_v2", cnnlCos_v2(h, p, d, y, d, result), 2, F(.54030231f, -.41614684f),
                cnnlCos_v2(h, p, y, d, d, result));
    list_floats("cnnlErf_v2", cnnlErf_v2(h, p, d, y, d, result), 2, F(.84270079f, .99532227f),
                cnnlErf_v2(h, p, five, y, d, result));
    list_floats("cnnlErfinv", cnnlErfinv(h, p, floats_1(2), (float *)y + 3, floats_1(2), result), 2,
                F(.2253121f, .4769363f), cnnlErfinv(h, p, d, NULL, d, result));
    list_floats("cnnlLog1p", cnnlLog1p(h, p, d, y, d, result), 2, F(.69314718f, 1.0986123f),
                cnnlLog1p(h, p, d, y, d, NULL));
    list_floats("cnnlLog_v2", cnnlLog_v2(h, p, CNNL_LOG_2, d, y, d, result), 6,
                F(0, 1, 2, -2, -1, 3), cnnlLog_v2(h, p, 3, d, y, d, result));
}

static void list_binary(void)
{
    void *h = handle, *d = floats_1(6), *rows = floats_2(2, 3), *row = floats_1(3),
         *i6 = desc_1(CNNL_INT32, 6);

    need = 0;
    list_size("cnnlGetMaximumWorkspaceSize", cnnlGetMaximumWorkspaceSize(h, d, &need),
              cnnlGetMaximumWorkspaceSize(h, d, NULL));
    list_floats("cnnlMaximum", cnnlMaximum(h, d, x, d, y, d, result, room, need), 6,
                F(1, 2, 4, 4, .5f, 8), cnnlMaximum(h, d, x, d, y, d, result, room, SMALL));
    list_size("cnnlGetMinimumWorkspaceSize", cnnlGetMinimumWorkspaceSize(h, d, &need),
              cnnlGetMinimumWorkspaceSize(h, d, NULL));
    list_floats("cnnlMinimum", cnnlMinimum(h, d, x, d, y, d, result, room, need), 6,
                F(-1.5f, 2, -3, .25f, .5f, -6), cnnlMinimum(h, d, x, d, y, d, result, &need, need));
    list_size("cnnlGetFloorModWorkspaceSize",
              cnnlGetFloorModWorkspaceSize(h, rows, row, rows, &need),
              cnnlGetFloorModWorkspaceSize(h, rows, row, rows, NULL));
    list_floats("cnnlFloorMod", cnnlFloorMod(h, rows, x, row, y, rows, result, room, need), 6,
                F(.5f, 0, 1, 0, .5f, 2),
                cnnlFloorMod(h, rows, x, floats_1(2), y, rows, result, room, need));
    list_size("cnnlGetFloorModTruncWorkspaceSize",
              cnnlGetFloorModTruncWorkspaceSize(h, d, d, d, &need),
              cnnlGetFloorModTruncWorkspaceSize(h, d, d, d, NULL));
    list_floats(
        "cnnlFloorModTrunc", cnnlFloorModTrunc(h, rows, x, row, y, rows, result, room, need), 6,
        F(-.5f, 0, -3, 0, .5f, -2), cnnlFloorModTrunc(h, rows, x, row, y, row, result, room, need));
    list_size("cnnlGetSquaredDifferenceWorkspaceSize",
              cnnlGetSquaredDifferenceWorkspaceSize(h, d, d, d, &need),
              cnnlGetSquaredDifferenceWorkspaceSize(h, d, d, d, NULL));
    list_floats("cnnlSquaredDifference",
                cnnlSquaredDifference(h, d, x, d, y, d, result, room, need), 3, F(6.25f, 0, 49),
                cnnlSquaredDifference(h, d, x, i6, ints, d, result, room, need));
    list_floats("cnnlPrelu", cnnlPrelu(h, rows, x, row, y, rows, result), 6,
                F(-1.5f, 2, -12, 4, .5f, -24), cnnlPrelu(h, row, y, rows, x, rows, result));
}

static void list_binary_assumed(void)
{
    void *h = handle, *d = floats_1(6), *b = desc_1(CNNL_BOOL, 6);
    int p = CNNL_FAST;

    list_size("cnnlGetDivWorkspaceSize", cnnlGetDivWorkspaceSize(h, d, d, d, &need),
              cnnlGetDivWorkspaceSize(h, d, d, d, NULL));
    list_floats("cnnlDiv_v2", cnnlDiv_v2(h, p, d, x, d, y, room, need, d, result), 6,
                F(-1.5f, 1, -.75f, 16, 1, -.75f),
                cnnlDiv_v2(h, p, d, x, d, y, room, SMALL, d, result));
    list_size("cnnlGetPowWorkspaceSize", cnnlGetPowWorkspaceSize(h, d, d, d, &need),
              cnnlGetPowWorkspaceSize(h, d, d, d, NULL));
    list_floats("cnnlPow", cnnlPow(h, p, d, y, d, w, room, need, d, result), 6,
                F(1, 4, 64, .0625f, .5f, 1), cnnlPow(h, p, d, y, d, w, d, need, room, result));
    list_size("cnnlGetAtan2WorkspaceSize", cnnlGetAtan2WorkspaceSize(h, d, d, d, &need),
              cnnlGetAtan2WorkspaceSize(h, d, d, d, NULL));
    list_floats("cnnlAtan2", cnnlAtan2(h, p, d, y, d, y, room, need, d, result), 2,
                F(.78539816f, .78539816f), cnnlAtan2(h, 7, d, y, d, y, room, need, d, result));
    list_size("cnnlGetLogicOpWorkspaceSize", cnnlGetLogicOpWorkspaceSize(h, d, d, b, &need),
              cnnlGetLogicOpWorkspaceSize(h, d, d, b, NULL));
    list_bools("cnnlLogicOp", cnnlLogicOp(h, CNNL_GT, d, x, d, y, room, need, b, result), 6,
               "\0\0\0\1\0\0", cnnlLogicOp(h, CNNL_GT, d, x, d, y, room, need, d, result));
}

static void list_several(void)
{
    void *h = handle, *d = floats_1(6), *b = desc_1(CNNL_BOOL, 6), *rows = floats_2(2, 3),
         *row = floats_1(3);
    float half = .5f, two = 2, low = -2, high = 2;

    /* w is 1 2 3 2 1 0 */
    list_size("cnnlGetAddcmulWorkspaceSize_v2",
              cnnlGetAddcmulWorkspaceSize_v2(h, d, d, d, d, &need),
              cnnlGetAddcmulWorkspaceSize_v2(h, d, d, d, d, NULL));
    list_floats("cnnlAddcmul", cnnlAddcmul(h, d, x, &half, d, y, d, w, room, need, d, result), 6,
                F(-1, 4, 3, 4.25f, .75f, -6),
                cnnlAddcmul(h, d, x, y, d, y, d, w, room, need, d, result));
    list_size("cnnlGetAddcdivWorkspaceSize_v2",
              cnnlGetAddcdivWorkspaceSize_v2(h, d, d, d, d, &need),
              cnnlGetAddcdivWorkspaceSize_v2(h, d, d, d, d, NULL));
    list_floats("cnnlAddcdiv", cnnlAddcdiv(h, d, x, &half, d, w, d, y, room, need, d, result), 6,
                F(-1, 2.5f, -2.625f, 8, 1.5f, -6),
                cnnlAddcdiv(h, d, x, &half, d, w, b, bools, room, need, d, result));
    list_size("cnnlGetLerpWorkspaceSize", cnnlGetLerpWorkspaceSize(h, d, d, d, d, &need),
              cnnlGetLerpWorkspaceSize(h, d, d, d, d, NULL));
    list_floats("cnnlLerp", cnnlLerp(h, d, x, d, y, d, w, room, need, d, result), 6,
                F(1, 2, 18, -3.5f, .5f, -6), cnnlLerp(h, d, x, d, y, d, w, room, SMALL, d, result));
    list_size("cnnlGetSelectV2WorkspaceSize", cnnlGetSelectV2WorkspaceSize(h, b, rows, row, &need),
              cnnlGetSelectV2WorkspaceSize(h, b, rows, row, NULL));
    list_floats(
        "cnnlSelectV2",
        cnnlSelectV2(h, desc_2(CNNL_BOOL, 2, 3), bools, rows, x, row, y, room, need, rows, result),
        6, F(-1.5f, 2, 4, 4, 2, 4),
        cnnlSelectV2(h, rows, x, desc_2(CNNL_BOOL, 2, 3), bools, row, y, room, need, rows, result));
    list_floats("cnnlClip_v2", cnnlClip_v2(h, CNNL_POINTER_HOST, d, x, &low, &high, d, result), 6,
                F(-1.5f, 2, -2, 2, .5f, -2),
                cnnlClip_v2(h, CNNL_POINTER_DEVICE, d, x, &low, &high, d, result));
    list_floats("cnnlTransform_v2",
                cnnlTransform_v2(h, CNNL_POINTER_HOST, &two, d, x, &half, d, result), 6,
                F(-2.5f, 4.5f, -5.5f, 8.5f, 1.5f, -11.5f),
                cnnlTransform_v2(h, CNNL_POINTER_HOST, y, d, x, &half, d, result));
}

static void list_move(void)
{
    void *h = handle, *d = floats_1(6), *rows = floats_2(2, 3), *columns = floats_2(3, 2),
         *row = floats_1(3), *t = NULL;
    float seven = 7;
    int pads[] = {0, 1, 1, 0}, zero[] = {0, 0}, ends[] = {2, 3}, steps[] = {1, 2};

    cnnlCreateTransposeDescriptor(&t);
    list_report("cnnlSetTransposeDescriptor", cnnlSetTransposeDescriptor(t, 2, (int[]){1, 0}), true,
                cnnlSetTransposeDescriptor(t, 2, (int[]){1, 1}));
    list_floats("cnnlFill_v3", cnnlFill_v3(h, CNNL_POINTER_HOST, &seven, d, result), 6,
                F(7, 7, 7, 7, 7, 7), cnnlFill_v3(h, CNNL_POINTER_DEVICE, &seven, d, result));
    list_floats("cnnlFill_v3", cnnlFill_v3(h, CNNL_POINTER_DEVICE, y, d, result), 6,
                F(1, 1, 1, 1, 1, 1), cnnlFill_v3(h, 2, y, d, result));
    list_floats("cnnlCopy", cnnlCopy(h, d, x, d, result), 6, F(-1.5f, 2, -3, 4, .5f, -6),
                cnnlCopy(h, d, x, rows, result));
    list_floats("cnnlExpand", cnnlExpand(h, row, x, rows, result), 6, F(-1.5f, 2, -3, -1.5f, 2, -3),
                cnnlExpand(h, rows, x, row, result));
    list_floats("cnnlTile", cnnlTile(h, floats_1(2), x, d, result), 6,
                F(-1.5f, 2, -1.5f, 2, -1.5f, 2), cnnlTile(h, floats_1(4), x, d, result));
    list_size("cnnlGetTransposeWorkspaceSize", cnnlGetTransposeWorkspaceSize(h, rows, t, &need),
              cnnlGetTransposeWorkspaceSize(h, rows, t, NULL));
    list_floats("cnnlTranspose_v2", cnnlTranspose_v2(h, t, rows, x, columns, result, room, need), 6,
                F(-1.5f, 4, 2, .5f, -3, -6),
                cnnlTranspose_v2(h, t, rows, x, rows, result, room, need));
    list_size("cnnlGetConcatWorkspaceSize", cnnlGetConcatWorkspaceSize(h, 2, &need),
              cnnlGetConcatWorkspaceSize(h, 2, NULL));
    list_floats("cnnlConcat",
                cnnlConcat(h, 2, 1, (const void *[]){floats_2(2, 1), floats_2(2, 2)},
                           (const void *[]){x, y}, room, need, rows, result),
                6, F(-1.5f, 1, 2, 2, 4, .25f),
                cnnlConcat(h, 2, 0, (const void *[]){floats_2(2, 1), floats_2(2, 2)},
                           (const void *[]){x, y}, room, need, rows, result));
    list_size("cnnlGetSplitWorkspaceSize", cnnlGetSplitWorkspaceSize(h, 2, &need),
              cnnlGetSplitWorkspaceSize(h, 2, NULL));
    list_floats(
        "cnnlSplit",
        cnnlSplit(h, 2, 1, rows, x, room, need, (const void *[]){floats_2(2, 1), floats_2(2, 2)},
                  (void *[]){second, result}),
        4, F(2, -3, .5f, -6),
        cnnlSplit(h, 2, 1, rows, x, room, need, (const void *[]){floats_2(2, 1), floats_2(2, 1)},
                  (void *[]){second, result}));
    list_floats("cnnlPad", cnnlPad(h, floats_2(1, 2), x, pads, &seven, floats_2(2, 3), result), 6,
                F(7, -1.5f, 2, 7, 7, 7),
                cnnlPad(h, floats_2(1, 2), x, pads, y, floats_2(2, 3), result));
    list_floats("cnnlFlip", cnnlFlip(h, (int[]){1}, 1, rows, x, rows, result), 6,
                F(-3, 2, -1.5f, -6, .5f, 4), cnnlFlip(h, (int[]){2}, 1, rows, x, rows, result));
    list_floats("cnnlStridedSlice",
                cnnlStridedSlice(h, rows, x, zero, ends, steps, floats_2(2, 2), result), 4,
                F(-1.5f, -3, 4, -6), cnnlStridedSlice(h, rows, x, zero, ends, steps, rows, result));
    list_floats("cnnlTri", cnnlTri(h, 0, true, rows, x, rows, result), 6,
                F(-1.5f, 2, -3, 0, .5f, -6), cnnlTri(h, 0, true, d, x, d, result));
    cnnlDestroyTransposeDescriptor(t);
}

static void list_index(void)
{
    void *h = handle, *d = floats_1(6), *rows = floats_2(2, 3), *columns = floats_2(3, 2),
         *i2 = desc_1(CNNL_INT32, 2);
    void *wide = desc_1(CNNL_INT64, 2);

    /* picks is 1 0 ..., so as pairs (1, 0) (0, 1) */
    list_floats(
        "cnnlIndexSelect", cnnlIndexSelect(h, 1, rows, x, i2, picks, floats_2(2, 2), result), 4,
        F(2, -1.5f, .5f, 4), cnnlIndexSelect(h, 1, rows, x, wide, picks, floats_2(2, 2), result));
    list_floats("cnnlIndexAdd", cnnlIndexAdd(h, 0, rows, x, i2, picks, rows, y, rows, result), 6,
                F(-1.25f, 2.5f, 5, 5, 2.5f, -2),
                cnnlIndexAdd(h, 0, rows, x, i2, picks, columns, y, rows, result));
    list_floats("cnnlGatherNd",
                cnnlGatherNd(h, rows, x, desc_2(CNNL_INT32, 2, 2), picks, floats_1(2), result), 2,
                F(4, 2),
                cnnlGatherNd(h, rows, x, desc_2(CNNL_INT32, 2, 3), picks, floats_1(2), result));
    list_floats("cnnlEmbeddingForward_v2",
                cnnlEmbeddingForward_v2(h, rows, x, i2, picks, -1, NULL, NULL, rows, result), 6,
                F(4, .5f, -6, -1.5f, 2, -3),
                cnnlEmbeddingForward_v2(h, i2, picks, rows, x, -1, NULL, NULL, rows, result));
    list_size("cnnlGetEmbeddingBackwardWorkspaceSize",
              cnnlGetEmbeddingBackwardWorkspaceSize(h, rows, rows, false, &need),
              cnnlGetEmbeddingBackwardWorkspaceSize(h, rows, rows, false, NULL));
    list_floats("cnnlEmbeddingBackward",
                cnnlEmbeddingBackward(h, -1, false, i2, picks, rows, x, room, need, rows, result),
                6, F(4, .5f, -6, -1.5f, 2, -3),
                cnnlEmbeddingBackward(h, -1, false, i2, picks, rows, x, room, SMALL, rows, result));
    list_size("cnnlGetTopKTensorWorkspaceSize",
              cnnlGetTopKTensorWorkspaceSize(h, d, 2, 0, true, floats_1(2), i2, &need),
              cnnlGetTopKTensorWorkspaceSize(h, d, 2, 0, true, floats_1(2), i2, NULL));
    list_floats("cnnlTopKTensor_v3",
                cnnlTopKTensor_v3(h, d, x, 2, 0, true, true, true, room, need, floats_1(2), result,
                                  i2, second),
                2, F(4, 2),
                cnnlTopKTensor_v3(h, d, x, 2, 0, true, true, true, room, need, floats_1(2), result,
                                  wide, second));
    kit_report(ints_are(second, 2, (int[]){3, 1}), "the indices of a top-k");
    list_ints("cnnlTopKTensor_v3",
              cnnlTopKTensor_v3(h, d, w, 3, -1, false, false, false, room, need, floats_1(3),
                                second, desc_1(CNNL_INT32, 3), result),
              3, (int[]){0, 4, 5},
              cnnlTopKTensor_v3(h, d, w, 7, 0, false, false, false, room, need, floats_1(3), second,
                                desc_1(CNNL_INT32, 3), result));
    list_size("cnnlGetCumsumWorkspaceSize", cnnlGetCumsumWorkspaceSize(h, d, 0, &need),
              cnnlGetCumsumWorkspaceSize(h, d, 0, NULL));
    list_floats("cnnlCumsum_v2",
                cnnlCumsum_v2(h, rows, w, 1, false, false, CNNL_NOT_PROPAGATE_NAN, rows, result,
                              room, need),
                6, F(1, 3, 6, 2, 3, 3),
                cnnlCumsum_v2(h, rows, w, 1, false, false, 2, rows, result, room, need));
    list_size("cnnlGetCumprodWorkspaceSize", cnnlGetCumprodWorkspaceSize(h, d, 0, &need),
              cnnlGetCumprodWorkspaceSize(h, d, 0, NULL));
    list_floats(
        "cnnlCumprod_v2", cnnlCumprod_v2(h, rows, w, 1, false, true, rows, result, room, need), 6,
        F(6, 6, 3, 0, 0, 0), cnnlCumprod_v2(h, rows, w, 2, false, false, rows, result, room, need));
}

static void list_norm(void)
{
    void *h = handle, *d = floats_2(2, 2), *two = floats_1(2), *n = floats_4(CNNL_NHWC, 1, 1, 2, 2),
         *g = floats_4(CNNL_NCHW, 2, 2, 1, 1);
    float e = 0, r = 1 / sqrtf(2.5f);

    /* Of the rows 1 2, 4 0.25 */
    list_size("cnnlGetLayerNormOpWorkspaceSize", cnnlGetLayerNormOpWorkspaceSize(h, 1, d, &need),
              cnnlGetLayerNormOpWorkspaceSize(h, 1, d, NULL));
    list_floats(
        "cnnlLayerNormForward",
        cnnlLayerNormForward(h, d, y, 1, two, y, w, e, room, need, d, result, two, second, third),
        4, F(0, 4, 2, 0),
        cnnlLayerNormForward(h, d, y, 1, d, y, w, e, room, need, d, result, two, second, third));
    kit_report(floats_are(second, 2, F(1.5f, 2.125f)) && floats_are(third, 2, F(2, 1 / 1.875f)),
               "the statistics of a layer norm");
    list_size("cnnlGetLayerNormBackwardWorkspaceSize",
              cnnlGetLayerNormBackwardWorkspaceSize(h, d, 1, &need),
              cnnlGetLayerNormBackwardWorkspaceSize(h, d, 1, NULL));
    list_floats("cnnlLayerNormBackward_v2",
                cnnlLayerNormBackward_v2(h, d, y, 1, d, w, two, ones, two, second, third, room,
                                         need, d, ints, nans, result),
                2, F(4, 4),
                cnnlLayerNormBackward_v2(h, d, y, 1, d, w, two, ones, two, second, third, room,
                                         SMALL, d, ints, nans, result));
    list_size("cnnlGetRmsNormOpWorkspaceSize", cnnlGetRmsNormOpWorkspaceSize(h, 1, d, &need),
              cnnlGetRmsNormOpWorkspaceSize(h, 1, d, NULL));
    list_floats("cnnlRmsNormForward",
                cnnlRmsNormForward(h, 1, d, y, two, w, NULL, e, room, need, d, result, two, second),
                2, F(r, 4 * r),
                cnnlRmsNormForward(h, 1, d, y, two, w, w, e, room, need, d, result, two, second));
    list_size("cnnlGetGroupNormForwardWorkspaceSize",
              cnnlGetGroupNormForwardWorkspaceSize(h, 1, g, &need),
              cnnlGetGroupNormForwardWorkspaceSize(h, 1, g, NULL));
    list_floats("cnnlGroupNormForward_v3",
                cnnlGroupNormForward_v3(h, e, 1, g, y, two, y, w, room, need, g, result,
                                        floats_2(2, 1), second, third),
                4, F(0, 4, 2, 0),
                cnnlGroupNormForward_v3(h, e, 1, n, y, two, y, w, room, need, n, result,
                                        floats_2(2, 1), second, third));
    list_floats(
        "cnnlBatchNormForwardInference",
        cnnlBatchNormForwardInference(h, NULL, NULL, n, y, two, w, ones, w, ones, e, n, result), 4,
        F(1, 1, 4, -2.5f),
        cnnlBatchNormForwardInference(h, NULL, NULL, g, y, two, w, ones, w, ones, e, g, result));
}

static void list_pool(void)
{
    void *h = handle, *d = floats_4(CNNL_NHWC, 1, 2, 3, 1), *to = floats_4(CNNL_NHWC, 1, 1, 2, 1),
         *p = NULL, *q = NULL;
    void *planar = floats_4(CNNL_NCHW, 1, 1, 2, 3);

    cnnlCreatePoolingDescriptor(&p);
    cnnlCreatePoolingDescriptor(&q);
    list_report("cnnlSetPooling2dDescriptor_v2",
                cnnlSetPooling2dDescriptor_v2(p, CNNL_MAX, 0, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1, false),
                true, cnnlSetPooling2dDescriptor_v2(p, 4, 0, 2, 2, 0, 0, 0, 0, 1, 1, 1, 1, false));
    list_size("cnnlGetPoolingWorkspaceSize", cnnlGetPoolingWorkspaceSize(h, CNNL_MAX, 2, 1, &need),
              cnnlGetPoolingWorkspaceSize(h, 5, 2, 1, &need));
    list_floats("cnnlPoolingForward",
                cnnlPoolingForward(h, p, NULL, d, x, NULL, to, result, room, need), 2, F(4, 2),
                cnnlPoolingForward(h, p, NULL, planar, x, NULL, to, result, room, need));
    cnnlSetPooling2dDescriptor_v2(q, CNNL_AVERAGE_WITH_PADDING, 0, 2, 2, 0, 0, 0, 1, 1, 2, 1, 1,
                                  false);
    list_size("cnnlGetPoolingWorkspaceSize_v2", cnnlGetPoolingWorkspaceSize_v2(h, q, d, to, &need),
              cnnlGetPoolingWorkspaceSize_v2(h, q, d, to, NULL));
    list_floats(
        "cnnlPoolingForward", cnnlPoolingForward(h, q, NULL, d, x, NULL, to, result, room, need), 2,
        F(1.25f, -2.25f), cnnlPoolingForward(h, q, NULL, d, x, NULL, to, result, room, SMALL));
    list_floats("cnnlPoolingBackward",
                cnnlPoolingBackward(h, q, NULL, to, result, to, w, d, x, NULL, d, second), 0, NULL,
                cnnlPoolingBackward(h, p, NULL, to, result, to, w, d, x, NULL, d, second));
    kit_report(floats_are(second, 6, F(.25f, .25f, .5f, .25f, .25f, .5f)),
               "the gradient of an average pool");
    list_size(
        "cnnlGetAdaptivePoolingForwardWorkspaceSize",
        cnnlGetAdaptivePoolingForwardWorkspaceSize(h, d, CNNL_AVERAGE_WITH_PADDING, to, &need),
        cnnlGetAdaptivePoolingForwardWorkspaceSize(h, d, CNNL_AVERAGE_WITH_PADDING, to, NULL));
    list_floats("cnnlAdaptivePoolingForward_v2",
                cnnlAdaptivePoolingForward_v2(h, d, x, CNNL_AVERAGE_WITH_PADDING, room, need,
                                              floats_4(CNNL_NHWC, 1, 2, 1, 1), result, NULL, NULL),
                2, F(-2.5f / 3, -.5f),
                cnnlAdaptivePoolingForward_v2(h, d, x, CNNL_MAX, room, need,
                                              floats_4(CNNL_NHWC, 1, 2, 1, 1), result, NULL, NULL));
    cnnlDestroyPoolingDescriptor(p);
    cnnlDestroyPoolingDescriptor(q);
}

static void list_described(void)
{
    void *h = handle, *d = floats_1(6),
         *line = desc_of(CNNL_ARRAY, CNNL_FLOAT, 3, (int[]){1, 2, 3}),
         *top = desc_of(CNNL_ARRAY, CNNL_FLOAT, 3, (int[]){1, 1, 3}), *op = NULL, *act = NULL,
         *sum = NULL;
    float one = 1, zero = 0;
    int axis = 1, p = CNNL_ACTIVATION_PRECISE;

    cnnlCreateOpTensorDescriptor(&op);
    cnnlCreateActivationDescriptor(&act);
    cnnlCreateReduceDescriptor(&sum);
    list_report("cnnlSetOpTensorDescriptor",
                cnnlSetOpTensorDescriptor(op, CNNL_SUB, CNNL_FLOAT, CNNL_PROPAGATE_NAN), true,
                cnnlSetOpTensorDescriptor(op, 1, CNNL_FLOAT, CNNL_PROPAGATE_NAN));
    list_size("cnnlGetOpTensorWorkspaceSize", cnnlGetOpTensorWorkspaceSize(h, d, d, d, &need),
              cnnlGetOpTensorWorkspaceSize(h, d, d, d, NULL));
    list_floats("cnnlOpTensor",
                cnnlOpTensor(h, op, &one, d, x, &one, d, y, room, need, &zero, d, result), 6,
                F(-2.5f, 0, -7, 3.75f, 0, -14),
                cnnlOpTensor(h, op, &one, d, x, &one, d, y, room, need, &one, d, result));
    list_report(
        "cnnlSetActivationDescriptor_v6",
        cnnlSetActivationDescriptor_v6(act, CNNL_GELU, p, CNNL_PROPAGATE_NAN, 1, -1, 1, 1, false,
                                       false),
        true,
        cnnlSetActivationDescriptor_v6(act, 99, p, CNNL_PROPAGATE_NAN, 1, -1, 1, 1, false, false));
    list_floats("cnnlActivationForward", cnnlActivationForward(h, act, NULL, d, y, NULL, d, result),
                2, F(.8413447f, 1.9544997f),
                cnnlActivationForward(h, op, NULL, d, y, NULL, d, result));
    list_report(
        "cnnlSetActivationDescriptor_v5",
        cnnlSetActivationDescriptor_v5(act, CNNL_RELU, p, CNNL_PROPAGATE_NAN, 1, -1, 1, 1, false),
        true,
        cnnlSetActivationDescriptor_v5(act, CNNL_RELU, 1, CNNL_PROPAGATE_NAN, 1, -1, 1, 1, false));
    list_floats("cnnlActivationBackward",
                cnnlActivationBackward(h, act, NULL, NULL, NULL, d, y, d, x, NULL, d, result), 6,
                F(0, 2, 0, .25f, .5f, 0),
                cnnlActivationBackward(h, act, NULL, d, x, d, y, NULL, NULL, NULL, d, result));
    list_floats("cnnlSoftmaxForward",
                cnnlSoftmaxForward(h, CNNL_ACCURATE, CNNL_MEDIUM_DIMENSION, NULL, line, w, NULL,
                                   line, result),
                6, F(.26894143f, .73105857f, .95257413f, .73105857f, .26894143f, .04742587f),
                cnnlSoftmaxForward(h, CNNL_MEDIUM_DIMENSION, CNNL_ACCURATE, NULL, line, w, NULL,
                                   line, result));
    list_floats("cnnlSoftmaxBackward",
                cnnlSoftmaxBackward(h, CNNL_ACCURATE, CNNL_MEDIUM_DIMENSION, NULL, line, ones, line,
                                    w, NULL, line, result),
                6, F(-2, -1, 0, -1, -2, -3),
                cnnlSoftmaxBackward(h, CNNL_ACCURATE, CNNL_MEDIUM_DIMENSION, NULL, d, ones, d, w,
                                    NULL, d, result));
    list_report("cnnlSetReduceDescriptor_v2",
                cnnlSetReduceDescriptor_v2(sum, &axis, 1, CNNL_REDUCE_ADD, CNNL_FLOAT,
                                           CNNL_PROPAGATE_NAN, CNNL_NO_INDICES, CNNL_32BIT, 0),
                true,
                cnnlSetReduceDescriptor_v2(sum, &axis, 1, CNNL_REDUCE_ADD, CNNL_FLOAT,
                                           CNNL_PROPAGATE_NAN, CNNL_32BIT, CNNL_NO_INDICES, 0));
    list_size("cnnlGetReduceOpWorkspaceSize",
              cnnlGetReduceOpWorkspaceSize(h, line, top, sum, &need),
              cnnlGetReduceOpWorkspaceSize(h, line, top, sum, NULL));
    list_floats("cnnlReduce",
                cnnlReduce(h, sum, room, need, NULL, line, x, 0, NULL, NULL, top, result), 3,
                F(2.5f, 2.5f, -9),
                cnnlReduce(h, sum, room, need, NULL, line, x, 0, NULL, NULL, line, result));
    list_ints("cnnlCastDataType",
              cnnlCastDataType(h, d, x, CNNL_CASTS + 2, desc_1(CNNL_INT32, 6), result), 6,
              (int[]){-1, 2, -3, 4, 0, -6},
              cnnlCastDataType(h, d, x, CNNL_CASTS + 3, desc_1(CNNL_INT32, 6), result));
    cnnlDestroyOpTensorDescriptor(op);
    cnnlDestroyActivationDescriptor(act);
    cnnlDestroyReduceDescriptor(sum);
}

/* x is a matrix of 2 by 3, y of 3 by 2. */
static void list_product(void)
{
    void *h = handle, *a = floats_2(2, 3), *b = floats_2(3, 2), *c = floats_2(2, 2), *desc = NULL,
         *algo = NULL, *found = NULL;
    void *a3 = desc_of(CNNL_ARRAY, CNNL_FLOAT, 3, (int[]){1, 2, 3}),
         *b3 = desc_of(CNNL_ARRAY, CNNL_FLOAT, 3, (int[]){1, 3, 2}),
         *c3 = desc_of(CNNL_ARRAY, CNNL_FLOAT, 3, (int[]){1, 2, 2}), *batches = NULL,
         *batch_algo = NULL;
    int type = CNNL_FLOAT, got = 0;
    float one = 1, zero = 0;

    cnnlMatMulDescCreate(&desc);
    cnnlMatMulAlgoCreate(&algo);
    cnnlBatchMatMulBCastDescCreate(&batches);
    cnnlBatchMatMulBCastAlgoCreate(&batch_algo);
    cnnlCreateMatMulHeuristicResult(&found);
    list_report("cnnlSetMatMulDescAttr",
                cnnlSetMatMulDescAttr(desc, CNNL_MATMUL_COMPUTE, &type, sizeof type), true,
                cnnlSetMatMulDescAttr(desc, CNNL_BMM_COMPUTE, &type, sizeof type));
    list_report("cnnlGetMatMulAlgoHeuristic",
                cnnlGetMatMulAlgoHeuristic(h, desc, a, b, c, c, NULL, 1, &found, &got), true,
                cnnlGetMatMulAlgoHeuristic(h, desc, a, b, c, c, NULL, 0, &found, &got));
    list_size("cnnlGetMatMulHeuristicResult", cnnlGetMatMulHeuristicResult(found, algo, &need),
              cnnlGetMatMulHeuristicResult(algo, found, &need));
    list_floats(
        "cnnlMatMul_v2",
        cnnlMatMul_v2(h, desc, algo, &one, a, x, b, y, &zero, c, result, room, need, c, result), 4,
        F(5, -26.5f, 3, -39.875f),
        cnnlMatMul_v2(h, desc, algo, &one, b, y, b, x, &zero, c, result, room, need, c, result));
    list_report("cnnlSetBatchMatMulBCastDescAttr",
                cnnlSetBatchMatMulBCastDescAttr(batches, CNNL_BMM_COMPUTE, &type, sizeof type),
                true,
                cnnlSetBatchMatMulBCastDescAttr(batches, CNNL_MATMUL_TF32, &type, sizeof type));
    list_report("cnnlGetBatchMatMulAlgoHeuristic",
                cnnlGetBatchMatMulAlgoHeuristic(h, batches, a3, b3, c3, NULL, 1, &found, &got),
                true, cnnlGetBatchMatMulAlgoHeuristic(h, desc, a3, b3, c3, NULL, 1, &found, &got));
    list_size("cnnlGetBatchMatMulHeuristicResult",
              cnnlGetBatchMatMulHeuristicResult(found, batch_algo, &need),
              cnnlGetBatchMatMulHeuristicResult(found, algo, &need));
    list_floats("cnnlBatchMatMulBCast_v2",
                cnnlBatchMatMulBCast_v2(h, batches, batch_algo, &one, a3, x, b3, y, &zero, c3,
                                        result, room, need),
                4, F(5, -26.5f, 3, -39.875f),
                cnnlBatchMatMulBCast_v2(h, batches, batch_algo, &one, a, x, b, y, &zero, c, result,
                                        room, need));
    cnnlMatMulDescDestroy(desc);
    cnnlMatMulAlgoDestroy(algo);
    cnnlBatchMatMulBCastDescDestroy(batches);
    cnnlBatchMatMulBCastAlgoDestroy(batch_algo);
    cnnlDestroyMatMulHeuristicResult(found);
}

/* An image of one channel and 2 by 3 places, and a filter of 1 by 2: w is 1 2. */
static void list_convolution(void)
{
    void *h = handle, *image = floats_4(CNNL_NHWC, 1, 2, 3, 1),
         *filter = floats_4(CNNL_NHWC, 1, 1, 2, 1), *to = floats_4(CNNL_NHWC, 1, 2, 2, 1),
         *plain = floats_4(CNNL_ARRAY, 1, 2, 2, 1), *q = NULL;
    int pad[4] = {0}, ones_2[2] = {1, 1}, algo = 0;

    cnnlCreateConvolutionDescriptor(&q);
    list_report("cnnlSetConvolutionDescriptor",
                cnnlSetConvolutionDescriptor(q, 4, pad, ones_2, ones_2, 1, CNNL_FLOAT), true,
                cnnlSetConvolutionDescriptor(q, 2, pad, ones_2, ones_2, 1, CNNL_FLOAT));
    list_report(
        "cnnlGetConvolutionForwardAlgorithm",
        cnnlGetConvolutionForwardAlgorithm(h, q, image, filter, to, CNNL_FORWARD_FASTEST, &algo),
        true, cnnlGetConvolutionForwardAlgorithm(h, q, image, filter, to, 0, &algo));
    list_size("cnnlGetConvolutionForwardWorkspaceSize",
              cnnlGetConvolutionForwardWorkspaceSize(h, image, filter, to, NULL, q, algo, &need),
              cnnlGetConvolutionForwardWorkspaceSize(h, image, filter, to, NULL, q, algo, NULL));
    list_floats("cnnlConvolutionForward",
                cnnlConvolutionForward(h, q, algo, NULL, image, x, filter, w, NULL, NULL, room,
                                       need, NULL, to, result),
                4, F(2.5f, -4, 5, -11.5f),
                cnnlConvolutionForward(h, q, algo, NULL, image, x, filter, w, NULL, NULL, room,
                                       need, NULL, plain, result));
    list_report("cnnlGetConvolutionBackwardDataAlgorithm",
                cnnlGetConvolutionBackwardDataAlgorithm(h, filter, to, q, image,
                                                        CNNL_BACKWARD_DATA_FASTEST, &algo),
                true,
                cnnlGetConvolutionBackwardDataAlgorithm(h, filter, to, q, image,
                                                        CNNL_FORWARD_FASTEST, &algo));
    list_size("cnnlGetConvolutionBackwardDataWorkspaceSize",
              cnnlGetConvolutionBackwardDataWorkspaceSize(h, filter, to, q, image, algo, &need),
              cnnlGetConvolutionBackwardDataWorkspaceSize(h, filter, to, q, image, algo, NULL));
    list_floats("cnnlConvolutionBackwardData",
                cnnlConvolutionBackwardData(h, NULL, filter, w, to, ones, q, algo, room, need, NULL,
                                            image, result),
                6, F(1, 3, 2, 1, 3, 2),
                cnnlConvolutionBackwardData(h, NULL, to, ones, filter, w, q, algo, room, need, NULL,
                                            image, result));
    list_report("cnnlGetConvolutionBackwardFilterAlgorithm",
                cnnlGetConvolutionBackwardFilterAlgorithm(h, q, image, to, filter,
                                                          CNNL_BACKWARD_FILTER_FASTEST, &algo),
                true,
                cnnlGetConvolutionBackwardFilterAlgorithm(h, q, image, to, filter,
                                                          CNNL_BACKWARD_DATA_FASTEST, &algo));
    list_size("cnnlGetConvolutionBackwardFilterWorkspaceSize",
              cnnlGetConvolutionBackwardFilterWorkspaceSize(h, image, to, filter, q, algo, &need),
              cnnlGetConvolutionBackwardFilterWorkspaceSize(h, image, to, filter, q, algo, NULL));
    list_floats("cnnlConvolutionBackwardFilter",
                cnnlConvolutionBackwardFilter(h, NULL, image, x, to, ones, q, algo, room, need,
                                              NULL, filter, result),
                2, F(5, -6.5f),
                cnnlConvolutionBackwardFilter(h, NULL, to, ones, image, x, q, algo, room, need,
                                              NULL, filter, result));
    cnnlDestroyConvolutionDescriptor(q);
}

int main(void)
{
    setenv("BP_STANDIN_LOG", "/dev/null", 1); /* the misuses of these tests */
    setenv("BP_STANDIN_CNNL_ASSUMED", "1", 1);
    list_start();
    list_unary();
    list_unary_assumed();
    list_binary();
    list_binary_assumed();
    list_several();
    list_move();
    list_index();
    list_norm();
    list_pool();
    list_described();
    list_product();
    list_convolution();
    list_waiting();
    list_check();
    list_end();
    return kit_end();
}
