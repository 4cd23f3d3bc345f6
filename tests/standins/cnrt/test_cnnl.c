/* SPDX-License-Identifier: Apache-2.0 */
/* test_cnnl.c: tests the parts that all operators of the stand-in for CNNL share: handles,
 * descriptors, places of memory, workspaces, dtypes, captures, and failures of work. TAP. */
#include "cnnl.h"
#include "kit.h"
#include <stdlib.h>
#include <string.h>

static void *handle, *queue, *x, *y, *z, *room;

static void *desc_new(int layout, int dtype, int n, const int *dims)
{
    void *desc = NULL;

    if (cnnlCreateTensorDescriptor(&desc)) abort();
    if (n >= 0 && cnnlSetTensorDescriptor(desc, layout, dtype, n, dims)) abort();
    return desc;
}

static void *desc_line(int dtype, int n)
{
    return desc_new(CNNL_ARRAY, dtype, 1, &n);
}

static void test_handles(void)
{
    void *other = NULL, *far = NULL, *d = desc_line(CNNL_FLOAT, 6);

    kit_report(!cnnlCreate(&other) && kit_misused(cnnlAbs(other, d, x, d, y), CNNL_BAD_PARAM),
               "a handle without a queue");
    kit_report(kit_misused(cnnlSetQueue(other, d), CNNL_BAD_PARAM), "a queue that is none");
    cnrtSetDevice(1);
    cnrtQueueCreate(&far);
    kit_report(kit_misused(cnnlSetQueue(other, far), CNNL_BAD_PARAM), "a queue of another device");
    kit_report(kit_misused(cnnlAbs(handle, d, x, d, y), CNNL_BAD_PARAM),
               "a thread with another device");
    cnrtQueueDestroy(far);
    cnrtSetDevice(0);
    cnrtQueueCreate(&far);
    kit_report(!cnnlSetQueue(other, far) && !cnrtQueueDestroy(far) &&
                   kit_misused(cnnlAbs(other, d, x, d, y), CNNL_BAD_PARAM),
               "a queue that was destroyed");
    kit_report(!cnnlDestroy(other) && kit_misused(cnnlDestroy(other), CNNL_BAD_PARAM) &&
                   kit_misused(cnnlAbs(other, d, x, d, y), CNNL_BAD_PARAM),
               "a handle that was destroyed");
    kit_report(cnnlGetErrorString(CNNL_BAD_PARAM)[0] == 'C', "texts");
    cnnlDestroyTensorDescriptor(d);
}

static void test_descriptors(void)
{
    void *d = desc_new(0, 0, -1, NULL), *e = desc_line(CNNL_FLOAT, 6);
    int dims[9] = {2, 3, 1, 1, 1, 1, 1, 1, 1}, strides[2] = {1, 2};
    int64_t wide[2] = {2, 3}, wide_strides[2] = {3, 1};

    kit_report(kit_misused(cnnlAbs(handle, d, x, d, y), CNNL_BAD_PARAM), "one that is not set");
    kit_report(cnnlSetTensorDescriptor(d, CNNL_LAYOUTS, CNNL_FLOAT, 2, dims) == CNNL_BAD_PARAM &&
                   cnnlSetTensorDescriptor(d, CNNL_ARRAY, 10, 2, dims) == CNNL_BAD_PARAM &&
                   cnnlSetTensorDescriptor(d, CNNL_ARRAY, 0, 2, dims) == CNNL_BAD_PARAM &&
                   cnnlSetTensorDescriptor(d, CNNL_ARRAY, CNNL_FLOAT, 9, dims) == CNNL_BAD_PARAM &&
                   cnnlSetTensorDescriptor(d, CNNL_NHWC, CNNL_FLOAT, 2, dims) == CNNL_BAD_PARAM &&
                   cnnlSetTensorDescriptor(d, CNNL_ARRAY, CNNL_FLOAT, 2, NULL) == CNNL_BAD_PARAM,
               "wrong layouts, dtypes and ranks");
    kit_report(!cnnlSetTensorDescriptor_v2(d, CNNL_ARRAY, CNNL_FLOAT, 2, wide) &&
                   kit_misused(cnnlSetTensorDescriptor(d, CNNL_ARRAY, CNNL_FLOAT, 2, dims),
                               CNNL_BAD_PARAM),
               "one that is set twice");
    kit_report(!cnnlResetTensorDescriptor(d) &&
                   !cnnlSetTensorDescriptorEx(d, CNNL_ARRAY, CNNL_FLOAT, 2, dims, strides) &&
                   cnnlAbs(handle, d, x, d, y) == CNNL_BAD_PARAM,
               "strides are refused");
    kit_report(
        !cnnlResetTensorDescriptor(d) &&
            !cnnlSetTensorDescriptorEx_v2(d, CNNL_ARRAY, CNNL_FLOAT, 2, wide, wide_strides) &&
            !cnnlAbs(handle, d, x, d, y) && !cnnlSetTensorDescriptorOnchipDataType(d, CNNL_FLOAT) &&
            cnnlSetTensorDescriptorOnchipDataType(d, 10) == CNNL_BAD_PARAM,
        "strides of a contiguous tensor");
    kit_report(!cnnlSetTensorDescriptorPointerMode(e, CNNL_POINTER_DEVICE) &&
                   cnnlAbs(handle, e, x, e, y) == CNNL_NOT_SUPPORTED &&
                   cnnlSetTensorDescriptorPointerMode(e, 2) == CNNL_BAD_PARAM,
               "pointer modes");
    kit_report(!cnnlDestroyTensorDescriptor(d) && !cnnlDestroyTensorDescriptor(e) &&
                   kit_misused(cnnlAbs(handle, d, x, d, y), CNNL_BAD_PARAM),
               "one that was destroyed");
}

static void test_places(void)
{
    void *d = desc_line(CNNL_FLOAT, 6), *large = desc_line(CNNL_FLOAT, 600), *far = NULL;
    void *pinned = NULL;
    float host[6] = {0};
    size_t need = 0;

    cnrtSetDevice(1);
    cnrtMalloc(&far, 24);
    cnrtSetDevice(0);
    cnrtHostMalloc(&pinned, 24);
    kit_report(kit_misused(cnnlAbs(handle, d, host, d, y), CNNL_BAD_PARAM), "memory of the host");
    kit_report(kit_misused(cnnlAbs(handle, d, pinned, d, y), CNNL_BAD_PARAM), "pinned memory");
    kit_report(kit_misused(cnnlAbs(handle, d, x, d, far), CNNL_BAD_PARAM), "another device");
    kit_report(kit_misused(cnnlAbs(handle, large, x, large, y), CNNL_BAD_PARAM), "too small");
    kit_report(kit_misused(cnnlAbs(handle, d, x, d, (char *)x + 4), CNNL_BAD_PARAM), "an overlap");
    kit_report(!cnnlAbs(handle, d, y, d, y), "in place");
    kit_report(!cnnlGetMaximumWorkspaceSize(handle, d, &need) && need > 0 &&
                   !cnnlMaximum(handle, d, x, d, y, d, z, room, need) &&
                   cnnlMaximum(handle, d, x, d, y, d, z, room, need - 1) == CNNL_BAD_PARAM &&
                   cnnlMaximum(handle, d, x, d, y, d, z, NULL, need) == CNNL_BAD_PARAM,
               "a workspace");
    kit_report(kit_misused(cnnlMaximum(handle, d, x, d, y, d, z, host, need), CNNL_BAD_PARAM),
               "a workspace of the host");
    kit_report(kit_misused(cnnlMaximum(handle, d, x, d, y, d, room, room, need), CNNL_BAD_PARAM),
               "a workspace over the result");
    cnrtFreeHost(pinned);
    cnnlDestroyTensorDescriptor(d);
    cnnlDestroyTensorDescriptor(large);
    cnrtSetDevice(1);
    cnrtFree(far);
    cnrtSetDevice(0);
}

/* All dtypes that an operator accepts can be computed. Numbers have four dtypes, floats three, what
 * is only moved has eight. */
static void test_dtypes(void)
{
    static int (*const unary[])(void *, const void *, const void *, const void *, void *) = {
        cnnlAbs,   cnnlSign,  cnnlNegTensor,  cnnlSquare, cnnlCeil,   cnnlFloor,
        cnnlRound, cnnlTrunc, cnnlReciprocal, cnnlCopy,   cnnlExpand, cnnlTile};
    static int (*const binary[])(void *, const void *, const void *, const void *, const void *,
                                 const void *, void *, void *, size_t) = {
        cnnlMaximum, cnnlMinimum, cnnlFloorMod, cnnlSquaredDifference, cnnlFloorModTrunc};
    int accepted = 0, expected = 4 * 4 + 5 * 3 + 3 * 8 + 4 * 4 + 3, n = 4;

    cnrtQueueSync(queue);
    cnrtMemset(x, 0, 64);
    cnrtMemset(y, 1, 64);
    for (int dtype = 1; dtype < CNNL_DTYPES; dtype++) {
        void *d = desc_new(0, 0, -1, NULL);
        cnnlSetTensorDescriptor(d, CNNL_ARRAY, dtype, 1, &n);
        for (size_t i = 0; dtype != 10 && i < sizeof unary / sizeof *unary; i++)
            accepted += !unary[i](handle, d, x, d, z);
        for (size_t i = 0; dtype != 10 && i < sizeof binary / sizeof *binary; i++)
            accepted += !binary[i](handle, d, x, d, y, d, z, room, 1024);
        cnnlDestroyTensorDescriptor(d);
    }
    kit_report(!cnrtQueueSync(queue) && accepted == expected, "%d dtypes of operators of %d",
               accepted, expected);
    kit_forget();
}

/* Descriptors for all calls of dtype_call. */
static void *i4, *i41, *i2, *b4, *f2, *f1, *pool, *spare;

/* Call number n with tensors of 4 elements: d has one axis, s two, p four. Returns the code of the
 * call; -1: there is no such call. The calls of eight dtypes stand first, then those of four. */
static int dtype_call(int n, const void *d, const void *s, const void *p)
{
    static const int pads[4] = {0}, zero[2] = {0}, ends[2] = {2, 2}, steps[2] = {1, 1}, axis = 1;
    const float one[4] = {1, 1, 1, 1};
    void *h = handle;

    switch (n) {
    case 0: return cnnlFill_v3(h, CNNL_POINTER_HOST, one, d, z);
    case 1: return cnnlPad(h, s, x, pads, one, s, z);
    case 2: return cnnlFlip(h, &axis, 1, s, x, s, z);
    case 3: return cnnlStridedSlice(h, s, x, zero, ends, steps, s, z);
    case 4: return cnnlTri(h, 0, false, s, x, s, z);
    case 5: return cnnlConcat(h, 1, 0, &d, (const void *[]){x}, room, 64, d, z);
    case 6: return cnnlIndexSelect(h, 0, d, x, i4, y, d, z);
    case 7: return cnnlGatherNd(h, d, x, i41, y, d, z);
    case 8: return cnnlEmbeddingForward_v2(h, s, x, i2, y, -1, NULL, NULL, s, z);
    case 9: return cnnlSelectV2(h, b4, y, d, x, d, x, room, 1024, d, z);
    case 10: return cnnlIndexAdd(h, 0, d, x, i4, y, d, x, d, z);
    case 11: return cnnlTopKTensor_v3(h, d, x, 4, 0, true, true, true, room, 1024, d, z, i4, spare);
    case 12: return cnnlCumsum_v2(h, d, x, 0, true, true, 0, d, z, room, 1024);
    case 13: return cnnlCumprod_v2(h, d, x, 0, false, false, d, z, room, 1024);
    case 14: return cnnlIsNan(h, d, x, b4, z);
    case 15: return cnnlPrelu(h, d, x, d, x, d, z);
    case 16: return cnnlAddcmul(h, d, x, one, d, x, d, x, room, 1024, d, z);
    case 17: return cnnlAddcdiv(h, d, x, one, d, x, d, x, room, 1024, d, z);
    case 18: return cnnlLerp(h, d, x, d, x, d, x, room, 1024, d, z);
    case 19: return cnnlTransform_v2(h, CNNL_POINTER_HOST, one, d, x, one, d, z);
    case 20: return cnnlEmbeddingBackward(h, -1, false, i2, y, s, x, room, 1024, s, z);
    case 21: return cnnlRmsNormForward(h, 1, s, x, s, NULL, NULL, 1, room, 1024, s, z, s, NULL);
    case 22:
        return cnnlLayerNormForward(h, s, x, 1, s, NULL, NULL, 1, room, 1024, s, z, f2, spare,
                                    (float *)spare + 2);
    case 23: return cnnlPoolingForward(h, pool, NULL, p, x, NULL, p, z, room, 1024);
    case 24: return cnnlPoolingBackward(h, pool, NULL, p, NULL, p, x, p, x, NULL, p, z);
    case 25: return cnnlBatchNormForwardInference(h, NULL, NULL, p, x, f1, y, y, y, y, 1, p, z);
    default: return -1;
    }
}

/* The same for calls of several shapes. */
static void test_dtypes_of_shapes(void)
{
    int accepted = 0, expected = 10 * 8 + 4 * 4 + 12 * 3, four[4] = {1, 2, 2, 1};
    void *made[6];

    i4 = made[0] = desc_line(CNNL_INT32, 4);
    i41 = made[1] = desc_new(CNNL_ARRAY, CNNL_INT32, 2, (int[]){4, 1});
    i2 = made[2] = desc_line(CNNL_INT32, 2);
    b4 = made[3] = desc_line(CNNL_BOOL, 4);
    f2 = made[4] = desc_line(CNNL_FLOAT, 2);
    f1 = made[5] = desc_line(CNNL_FLOAT, 1);
    cnnlCreatePoolingDescriptor(&pool);
    cnnlSetPooling2dDescriptor_v2(pool, CNNL_AVERAGE, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, false);
    spare = kit_device_memory(NULL, 64);
    cnrtMemset(x, 0, 64);
    cnrtMemset(y, 0, 64); /* indices, conditions, and the statistics of batch norm */
    for (int dtype = 1; dtype < CNNL_DTYPES; dtype++) {
        if (dtype == 10) continue; /* no number of a dtype */
        void *d = desc_line(dtype, 4), *s = desc_new(CNNL_ARRAY, dtype, 2, (int[]){2, 2});
        void *p = desc_new(CNNL_NHWC, dtype, 4, four);
        for (int n = 0, code = 0; code >= 0; n++) {
            code = dtype_call(n, d, s, p);
            accepted += !code;
        }
        cnnlDestroyTensorDescriptor(d);
        cnnlDestroyTensorDescriptor(s);
        cnnlDestroyTensorDescriptor(p);
    }
    kit_report(!cnrtQueueSync(queue) && accepted == expected, "%d dtypes of operators of %d",
               accepted, expected);
    kit_forget();
    for (int i = 0; i < 6; i++) cnnlDestroyTensorDescriptor(made[i]);
    cnnlDestroyPoolingDescriptor(pool);
    cnrtFree(spare);
}

static void test_half(void)
{
    uint16_t bits[2] = {0xc000, 0x3e00}, got[2] = {0}; /* -2 and 1.5 */
    void *d = desc_line(CNNL_HALF, 2), *b = desc_line(CNNL_BFLOAT16, 2);

    kit_write(queue, x, bits, sizeof bits);
    kit_report(!cnnlSquare(handle, d, x, d, y), "half");
    kit_read(queue, got, y, sizeof got);
    kit_report(got[0] == 0x4400 && got[1] == 0x4080, "4 and 2.25");
    setenv("BP_STANDIN_MLU", "MLU370", 1);
    kit_report(cnnlSquare(handle, b, x, b, y) == CNNL_ARCH_MISMATCH, "a device without bfloat16");
    unsetenv("BP_STANDIN_MLU");
    kit_report(!cnnlSquare(handle, b, x, b, y), "a device with bfloat16");
    kit_report(cnnlExp_v2(handle, CNNL_FAST, d, x, d, y) == CNNL_NOT_SUPPORTED &&
                   cnnlLogicOp(handle, CNNL_EQ, d, x, d, x, room, 1024, d, y) == CNNL_NOT_SUPPORTED,
               "numbers that are assumed");
    cnnlDestroyTensorDescriptor(d);
    cnnlDestroyTensorDescriptor(b);
}

static void test_replay(void)
{
    float values[2] = {-2, 3}, got[2] = {0};
    void *d = desc_line(CNNL_FLOAT, 2), *one = desc_line(CNNL_FLOAT, 1), *topo = NULL;
    void *entity = NULL;
    size_t need = 0;
    bool good;

    kit_write(queue, x, values, sizeof values);
    cnnlGetConcatWorkspaceSize(handle, 2, &need);
    good = !cnrtQueueBeginCapture(queue, CNRT_CAPTURE_GLOBAL) && !cnnlSquare(handle, d, x, d, x) &&
           !cnnlConcat(handle, 2, 0, (const void *[]){one, one},
                       (const void *[]){(float *)x + 1, x}, room, need, d, y) &&
           !cnrtQueueEndCapture(queue, &topo);
    cnnlDestroyTensorDescriptor(d); /* work does not need its descriptors */
    cnnlDestroyTensorDescriptor(one);
    good = good && !cnrtTaskTopoInstantiate(&entity, topo, NULL, NULL, 0) &&
           !cnrtTaskTopoEntityInvoke(entity, queue) && !cnrtTaskTopoEntityInvoke(entity, queue);
    kit_read(queue, got, y, sizeof got);
    kit_report(good && got[0] == 81 && got[1] == 16, "a capture, replayed twice");
    cnrtTaskTopoEntityDestroy(entity);
    cnrtTaskTopoDestroy(topo);
}

/* Work that fails; the device remains lost, so this test is the last one. */
static void test_bad_index(void)
{
    int32_t picks[2] = {0, -1};
    void *d = desc_line(CNNL_FLOAT, 6), *i = desc_line(CNNL_INT32, 2),
         *to = desc_line(CNNL_FLOAT, 2);

    base_control("FAIL", "cnnlAbs:1:5");
    kit_report(cnnlAbs(handle, d, x, d, y) == CNNL_ARCH_MISMATCH, "a call fails on demand");
    base_control("FAIL", "");
    kit_write(queue, y, picks, sizeof picks);
    kit_report(!cnnlIndexSelect(handle, 0, d, x, i, y, to, z) &&
                   kit_misused(cnrtQueueSync(queue), CNRT_KERNEL_TRAP) &&
                   cnnlAbs(handle, d, x, d, y) == CNNL_EXECUTION_FAILED,
               "an index that is out of range");
    cnnlDestroyTensorDescriptor(d);
    cnnlDestroyTensorDescriptor(i);
    cnnlDestroyTensorDescriptor(to);
}

int main(void)
{
    setenv("BP_STANDIN_DEVICES", "2", 1);
    setenv("BP_STANDIN_LOG", "/dev/null", 1); /* the misuses of these tests */
    unsetenv("BP_STANDIN_CNNL_ASSUMED");
    cnrtSetDevice(0);
    queue = kit_queue();
    if (cnnlCreate(&handle) || cnnlSetQueue(handle, queue)) return 1;
    x = kit_device_memory(NULL, 64);
    y = kit_device_memory(NULL, 64);
    z = kit_device_memory(NULL, 64);
    room = kit_device_memory(NULL, 1024);
    test_handles();
    test_descriptors();
    test_places();
    test_dtypes();
    test_dtypes_of_shapes();
    test_half();
    test_replay();
    test_bad_index();
    cnrtFree(x);
    cnrtFree(y);
    cnrtFree(z);
    cnrtFree(room);
    cnnlDestroy(handle);
    cnrtQueueDestroy(queue);
    return kit_end();
}
