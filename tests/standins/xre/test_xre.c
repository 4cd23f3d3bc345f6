/* SPDX-License-Identifier: Apache-2.0 */
/* test_xre.c: tests the stand-in for Kunlun's libraries: the right calls of a short run, and the
 * wrong call of each function in wrong.def. Two devices: BP_SIM_DEVICES=2. TAP. */
#include "xre.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The prototypes, as in the headers of CUDA that XRE follows. */
const char *cudaGetErrorString(int code);
int cudaGetDeviceCount(int *out), cudaGetDevice(int *out), cudaSetDevice(int device);
int cudaDriverGetVersion(int *out), cudaSetDeviceFlags(unsigned flags), cudaDeviceSynchronize(void);
int cudaDeviceGetAttribute(int *out, int attribute, int device);
int cudaDeviceGetPCIBusId(char *out, int size, int device);
int cudaDeviceCanAccessPeer(int *out, int device, int peer);
int cudaDeviceEnablePeerAccess(int peer, unsigned flags);
int cudaMemGetInfo(size_t *out_free, size_t *out_total);
int cudaMalloc(void **out, size_t size), cudaFree(void *memory);
int cudaHostAlloc(void **out, size_t size, unsigned flags);
int cudaMallocHost(void **out, size_t size), cudaFreeHost(void *memory);
int cudaMallocManaged(void **out, size_t size, unsigned flags);
int cudaMemcpyAsync(void *dst, const void *src, size_t size, int kind, void *stream);
int cudaMemsetAsync(void *memory, int value, size_t size, void *stream);
int cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t size, void *stream);
int cudaStreamCreateWithFlags(void **out, unsigned flags), cudaStreamDestroy(void *stream);
int cudaStreamSynchronize(void *stream);
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags);
int cudaEventCreateWithFlags(void **out, unsigned flags), cudaEventDestroy(void *event);
int cudaEventRecord(void *event, void *stream), cudaEventQuery(void *event);
int cudaEventSynchronize(void *event);
int cudaStreamBeginCapture(void *stream, int mode), cudaStreamEndCapture(void *stream, void **out);
int cudaGraphInstantiateWithFlags(void **out, void *graph, unsigned long long flags);
int cudaGraphDestroy(void *graph), cudaGraphLaunch(void *program, void *stream);
int cudaGraphExecDestroy(void *program);
int cublasCreate_v2(void **out), cublasDestroy_v2(void *handle);
int cublasSetStream_v2(void *handle, void *stream);
int cublasGemmEx(void *handle, int trans_a, int trans_b, int m, int n, int k, const void *alpha,
                 const void *a, int type_a, int between_a, const void *b, int type_b, int between_b,
                 const void *beta, void *c, int type_c, int between_c, int compute_type,
                 int algorithm);
int cublasGemmStridedBatchedEx(void *handle, int trans_a, int trans_b, int m, int n, int k,
                               const void *alpha, const void *a, int type_a, int between_a,
                               long long step_a, const void *b, int type_b, int between_b,
                               long long step_b, const void *beta, void *c, int type_c,
                               int between_c, long long step_c, int batch, int compute_type,
                               int algorithm);

enum {
    FLOATS = 64
};
static int tests;
static bool failed;
static void *idle, *captured, *event, *memory, *other, *pinned, *graph, *program, *handle, *made;
static float host[FLOATS];
static const float one = 1, zero = 0;
static size_t size;
static int number;
static char text[32];

static void xre_report(bool good, const char *title)
{
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, title);
    failed |= !good;
}

/* Products of matrices of 2 x 2, column by column, and each result behind the factors. */
#define PRODUCT(between, type, sums) \
    (handle, 0, 0, 2, 2, 2, &one, memory, type, between, memory, type, 2, &zero, \
     (float *)memory + 16, type, 2, sums, -1)
#define PRODUCTS(between, type, batch) \
    (handle, 0, 0, 2, 2, 2, &one, memory, type, between, 4, memory, type, 2, 4, &zero, \
     (float *)memory + 16, type, 2, 4, batch, 68, -1)

static bool devices_are_right(void)
{
    int version = 0, units = 0, can = 0;

    return !cudaGetDeviceCount(&number) && number == 2 && !cudaSetDevice(1) &&
           !cudaGetDevice(&number) && number == 1 && !cudaMalloc(&other, sizeof host) &&
           !cudaSetDevice(0) && !cudaDriverGetVersion(&version) && version == 1000 &&
           !cudaDeviceGetAttribute(&units, 16, 1) && units == 2 &&
           !cudaDeviceGetPCIBusId(text, sizeof text, 1) && !strcmp(text, "0000:1B:00.0") &&
           !cudaDeviceCanAccessPeer(&can, 0, 1) && can && !cudaDeviceEnablePeerAccess(1, 0) &&
           !cudaSetDeviceFlags(4) && !cudaMemGetInfo(&size, &size) && size == 1 << 30;
}

static bool memory_is_right(void)
{
    void *managed = NULL, *second = NULL;

    return !cudaMalloc(&memory, sizeof host) && !cudaHostAlloc(&pinned, sizeof host, 3) &&
           !cudaMallocHost(&second, 64) && !cudaFreeHost(second) &&
           !cudaMallocManaged(&managed, 64, 1) && !cudaFree(managed) &&
           !cudaStreamCreateWithFlags(&idle, 1) && !cudaStreamCreateWithFlags(&captured, 1) &&
           !cudaEventCreateWithFlags(&event, 2);
}

/* The numbers 0, 1, 2, ... go to the device, to the other device, and back. */
static bool copies_are_right(void)
{
    for (int i = 0; i < FLOATS; i++) ((float *)pinned)[i] = (float)i;
    if (cudaMemcpyAsync(memory, pinned, sizeof host, 1, idle) || cudaEventRecord(event, idle) ||
        cudaStreamWaitEvent(captured, event, 0) ||
        cudaMemcpyPeerAsync(other, 1, memory, 0, sizeof host, captured) ||
        cudaMemcpyAsync(host, other, sizeof host, 2, captured) || cudaStreamSynchronize(captured) ||
        cudaEventSynchronize(event) || cudaEventQuery(event) || cudaDeviceSynchronize())
        return false;
    for (int i = 0; i < FLOATS; i++)
        if (host[i] != (float)i) return false;
    return true;
}

/* Columns 0 1, 2 3 times themselves are 2 3, 6 11; as in the second product of the batch, whose
 * factors 4 5, 6 7 give 46 55, 66 79. */
static bool products_are_right(void)
{
    static const float single[4] = {2, 3, 6, 11}, batch[8] = {2, 3, 6, 11, 46, 55, 66, 79};

    if (cublasCreate_v2(&handle) || cublasSetStream_v2(handle, idle) ||
        cublasGemmEx PRODUCT(2, 0, 68) ||
        cudaMemcpyAsync(host, (float *)memory + 16, sizeof single, 2, idle) ||
        cudaStreamSynchronize(idle) || memcmp(host, single, sizeof single) != 0)
        return false;
    return !cublasGemmStridedBatchedEx PRODUCTS(2, 0, 2) &&
           !cudaMemcpyAsync(host, (float *)memory + 16, sizeof batch, 2, idle) &&
           !cudaStreamSynchronize(idle) && !memcmp(host, batch, sizeof batch);
}

/* A graph fills memory when it is launched. */
static bool captures_are_right(void)
{
    if (cudaStreamBeginCapture(captured, 2) || cudaMemsetAsync(memory, 0, sizeof host, captured) ||
        cudaStreamEndCapture(captured, &graph) ||
        cudaGraphInstantiateWithFlags(&program, graph, 0) ||
        cudaMemcpyAsync(host, memory, sizeof host, 2, idle) || cudaStreamSynchronize(idle) ||
        host[1] != 1 || cudaGraphLaunch(program, idle) ||
        cudaMemcpyAsync(host, memory, sizeof host, 2, idle) || cudaStreamSynchronize(idle))
        return false;
    return host[1] == 0;
}

static void test_wrong(void)
{
    char title[128];
    int got;

    xre_report(!cudaStreamBeginCapture(captured, 2), "a stream is captured");
#define WRONG(function, code, arguments) \
    got = function arguments; \
    snprintf(title, sizeof title, #function ": expected %d, got %d", code, got); \
    xre_report(got == (code), title);
#include "wrong.def"
    xre_report(cudaStreamEndCapture(captured, &made) == 901 && !made,
               "a wait for the device has invalidated the capture");
    xre_report(!strcmp(cudaGetErrorString(31337), "unrecognized error code"), "cudaGetErrorString");
}

static bool end_is_right(void)
{
    return !cublasDestroy_v2(handle) && !cudaGraphExecDestroy(program) &&
           !cudaGraphDestroy(graph) && !cudaEventDestroy(event) && !cudaStreamDestroy(captured) &&
           !cudaStreamDestroy(idle) && !cudaFree(memory) && !cudaFreeHost(pinned) &&
           !cudaSetDevice(1) && !cudaFree(other);
}

int main(void)
{
    xre_report(devices_are_right(), "devices");
    xre_report(memory_is_right(), "memory, streams and an event");
    xre_report(copies_are_right(), "copies to a device, between devices and back");
    xre_report(products_are_right(), "products");
    xre_report(captures_are_right(), "a captured fill");
    test_wrong();
    xre_report(end_is_right(), "the end of all objects, and no failure is left");
    printf("1..%d\n", tests);
    return failed;
}
