/* SPDX-License-Identifier: Apache-2.0 */
/* test_cnrt.c: tests the stand-in for Cambricon's runtime: each right call once, and the calls that
 * it refuses. Two devices: BP_STANDIN_DEVICES=2. TAP. */
#include "kit.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_before_a_device(void)
{
    void *memory = NULL;
    unsigned n = 0;

    kit_report(!cnrtGetDeviceCount(&n) && n == 2, "two devices");
    kit_report(kit_misused(cnrtMalloc(&memory, 16), CNRT_DEVICE_INVALID) && !memory,
               "a thread that has set no device is refused");
    kit_report(cnrtPeekAtLastError() == CNRT_DEVICE_INVALID &&
                   cnrtGetLastError() == CNRT_DEVICE_INVALID && !cnrtGetLastError(),
               "the last error is kept until it is read");
    kit_report(cnrtSetDevice(2) == CNRT_DEVICE_INVALID && !cnrtSetDevice(0), "cnrtSetDevice");
}

static void *thread_without_device(void *arg)
{
    int device = -1;

    kit_report(!cnrtGetDevice(&device) && device == 0,
               "a thread that has not chosen a device is told device 0");
    *(int *)arg = cnrtSyncDevice();
    return NULL;
}

static void test_devices(void)
{
    char properties[CNRT_PROPERTIES];
    int a = 0, b = 0, c = 0, other = 0;
    unsigned can = 0;
    size_t left = 0, total = 0;
    pthread_t thread;

    kit_report(!cnrtGetLibVersion(&a, &b, &c) && a == 6 && b == 14 && c == 1, "version");
    kit_report(!cnrtDeviceGetAttribute(&a, CNRT_TOTAL_MEMORY, 1) && a == 1024 &&
                   !cnrtDeviceGetAttribute(&b, CNRT_BF16, 0) && b == 1 &&
                   cnrtDeviceGetAttribute(&c, 0x777, 0) == CNRT_ARGS && c == 1 &&
                   cnrtDeviceGetAttribute(&c, CNRT_MAJOR, 2) == CNRT_DEVICE_INVALID,
               "attributes");
    kit_report(!cnrtGetDeviceProperties_V3(properties, 0) && !strcmp(properties, "MLU590"),
               "the name of a device");
    kit_report(!cnrtGetPeerAccessibility(&can, 0, 1) && can == 1 &&
                   cnrtGetPeerAccessibility(&can, 0, 5) == CNRT_ARGS,
               "peers");
    kit_report(!cnrtMemGetInfo(&left, &total) && total == 1 << 30 && left == total, "memory");
    kit_report(!cnrtGetDevice(&a) && a == 0 &&
                   !pthread_create(&thread, NULL, thread_without_device, &other) &&
                   !pthread_join(thread, NULL) && kit_misused(other, CNRT_DEVICE_INVALID),
               "each thread has its own current device");
    kit_report(!strcmp(cnrtGetErrorName(CNRT_NO_MEMORY), "cnrtErrorNoMem") &&
                   cnrtGetErrorStr(CNRT_ARGS)[0] != 0,
               "texts of errors");
}

static void test_memory(void)
{
    void *a = NULL, *pinned = NULL, *huge = NULL;
    int x[4] = {1, 2, 3, 4}, y[4] = {0};

    kit_report(!cnrtMalloc(&a, sizeof x) && a && !cnrtHostMalloc(&pinned, sizeof x) &&
                   cnrtMalloc(&huge, (size_t)1 << 40) == CNRT_NO_MEMORY && !huge,
               "memory");
    kit_report(!cnrtMemcpy(a, x, sizeof x, CNRT_HOST_TO_DEVICE) &&
                   !cnrtMemcpy(pinned, a, sizeof x, CNRT_DEVICE_TO_HOST) &&
                   !cnrtMemcpy(y, pinned, sizeof x, CNRT_HOST_TO_HOST) && !memcmp(x, y, sizeof x),
               "copies");
    kit_report(cnrtMemcpy(a, x, sizeof x, CNRT_DEVICE_TO_HOST) == CNRT_DIRECTION &&
                   cnrtMemcpy(x, a, sizeof x, CNRT_HOST_TO_DEVICE) == CNRT_DIRECTION &&
                   cnrtMemcpy(a, x, sizeof x, 6) == CNRT_ARGS &&
                   cnrtMemcpy(a, NULL, sizeof x, CNRT_HOST_TO_DEVICE) == CNRT_ARGS,
               "a wrong direction is refused");
    kit_report(!cnrtMemcpy(a, x, sizeof x, CNRT_NO_DIRECTION), "the direction by the addresses");
    kit_report(kit_misused(cnrtMemcpy(a, y, sizeof x + 4, CNRT_HOST_TO_DEVICE), CNRT_ARGS),
               "a copy beyond the end is a misuse");
    kit_report(!cnrtMemset(a, 7, sizeof x) && !cnrtMemcpy(y, a, sizeof x, CNRT_DEVICE_TO_HOST) &&
                   y[3] == 0x07070707,
               "cnrtMemset");
    kit_report(kit_misused(cnrtFreeHost(a), CNRT_ARGS) && kit_misused(cnrtFree(pinned), CNRT_ARGS),
               "memory of the wrong kind is not freed");
    kit_report(!cnrtFree(a) && !cnrtFree(NULL) && !cnrtFreeHost(pinned) &&
                   kit_misused(cnrtFree(a), CNRT_ARGS) &&
                   kit_misused(cnrtMemcpy(y, a, 4, CNRT_DEVICE_TO_HOST), CNRT_ARGS),
               "freed memory is refused");
}

/* A function of the host that waits for a gate. */
static _Atomic int gate;

static void gate_wait(void *arg)
{
    while (!gate) usleep(100);
    ++*(_Atomic int *)arg;
}

static void test_queues(void)
{
    void *queue = kit_queue(), *other = NULL, *a = kit_device_memory(NULL, 16);
    int x[4] = {1, 2, 3, 4}, y[4] = {0};
    _Atomic int calls = 0;
    bool good;

    gate = 0;
    good = !cnrtInvokeHostFunc(queue, gate_wait, &calls) &&
           !cnrtMemcpyAsync(a, x, 16, queue, CNRT_HOST_TO_DEVICE) &&
           !cnrtMemcpyAsync_V3(y, a, 8, queue, CNRT_DEVICE_TO_HOST) &&
           !cnrtMemsetAsync(a, 0, 4, queue) &&
           !cnrtMemcpyAsync_V2(y + 2, a, 8, queue, CNRT_DEVICE_TO_HOST);
    kit_report(good && cnrtQueueQuery(queue) == CNRT_NOT_READY && !calls && !y[0],
               "a queue works later");
    gate = 1;
    kit_report(!cnrtQueueSync(queue) && calls == 1 && y[0] == 1 && y[1] == 2 && y[2] == 0 &&
                   y[3] == 2 && !cnrtQueueQuery(queue),
               "a queue works in order");
    kit_report(kit_misused(cnrtMemcpyAsync(a, x, 16, NULL, 0), CNRT_HANDLE) &&
                   kit_misused(cnrtQueueSync(x), CNRT_HANDLE),
               "a handle that is no queue is refused");
    kit_report(!cnrtSetDevice(1) && kit_misused(cnrtQueueSync(queue), CNRT_OTHER_DEVICE) &&
                   !cnrtQueueCreateWithPriority(&other, 0, 1) &&
                   cnrtMemsetAsync(a, 0, 4, other) == CNRT_OTHER_DEVICE &&
                   !cnrtQueueDestroy(other) && !cnrtSetDevice(0),
               "a queue or memory of another device is refused");
    kit_report(!cnrtSyncDevice() && !cnrtQueueDestroy(queue) && !cnrtFree(a) &&
                   kit_misused(cnrtQueueSync(queue), CNRT_HANDLE),
               "a destroyed queue is refused");
}

static void test_peers(void)
{
    int x[4] = {5, 6, 7, 8}, y[4] = {0};
    void *queue = kit_queue(), *a = kit_device_memory(x, 16), *b = NULL;

    kit_report(!cnrtSetDevice(1) && !cnrtMalloc(&b, 16) && !cnrtSetDevice(0) &&
                   !cnrtMemcpyPeerAsync(b, 1, a, 0, 16, queue) && !cnrtQueueSync(queue) &&
                   cnrtMemcpyPeerAsync(b, 0, a, 0, 16, queue) == CNRT_OTHER_DEVICE &&
                   cnrtMemcpyPeerAsync(b, 3, a, 0, 16, queue) == CNRT_DEVICE_INVALID &&
                   cnrtMemcpyAsync(b, a, 16, queue, CNRT_DEVICE_TO_DEVICE) == CNRT_OTHER_DEVICE &&
                   !cnrtSetDevice(1) && !cnrtMemcpy(y, b, 16, CNRT_DEVICE_TO_HOST) &&
                   !memcmp(x, y, 16) && !cnrtFree(b) && !cnrtSetDevice(0),
               "copies between devices");
    kit_report(!cnrtMallocAsync(&b, 16, queue) && !cnrtMemsetAsync(b, 1, 16, queue) &&
                   !cnrtFreeAsync(b, queue) && kit_misused(cnrtFreeAsync(x, queue), CNRT_ARGS) &&
                   !cnrtQueueSync(queue) && kit_misused(cnrtFree(b), CNRT_ARGS),
               "memory in the order of a queue");
    cnrtFree(a);
    cnrtQueueDestroy(queue);
}

static void test_notifiers(void)
{
    void *queue = kit_queue(), *second = kit_queue(), *a = NULL, *b = NULL, *timeless = NULL;
    _Atomic int calls = 0;
    float ms = -1, us = -1;
    bool good;

    good = !cnrtNotifierCreate(&a) && !cnrtNotifierCreateWithFlags(&b, CNRT_NOTIFIER_DEFAULT) &&
           !cnrtNotifierCreateWithFlags(&timeless, CNRT_NOTIFIER_NO_TIME) &&
           cnrtNotifierCreateWithFlags(&timeless, 1) == CNRT_ARGS;
    kit_report(good && cnrtQueryNotifier(a) == CNRT_ARGS && cnrtWaitNotifier(a) == CNRT_ARGS &&
                   cnrtQueueWaitNotifier(a, queue, 0) == CNRT_ARGS,
               "a notifier that was not placed is refused");
    gate = 0;
    good = !cnrtPlaceNotifier(a, queue) && !cnrtInvokeHostFunc(queue, gate_wait, &calls) &&
           !cnrtPlaceNotifier(b, queue) && !cnrtQueueWaitNotifier(b, second, 0) &&
           !cnrtInvokeHostFunc(second, gate_wait, &calls) && !cnrtWaitNotifier(a);
    kit_report(good && cnrtQueryNotifier(b) == CNRT_NOT_READY &&
                   cnrtNotifierElapsedTime(a, b, &ms) == CNRT_NOT_READY && ms == -1 &&
                   cnrtQueueQuery(second) == CNRT_NOT_READY,
               "a queue waits for a notifier of another queue");
    usleep(3000);
    gate = 1;
    kit_report(!cnrtQueueSync(second) && calls == 2 && !cnrtQueryNotifier(b) &&
                   !cnrtNotifierElapsedTime(a, b, &ms) && ms >= 3 &&
                   !cnrtNotifierDuration(a, b, &us) && us == ms * 1000,
               "times in milliseconds and in microseconds");
    kit_report(!cnrtPlaceNotifier(timeless, queue) && !cnrtWaitNotifier(timeless) &&
                   cnrtNotifierElapsedTime(a, timeless, &ms) == CNRT_ARGS,
               "a notifier without times has none");
    kit_report(kit_misused(cnrtQueueWaitNotifier(second, a, 0), CNRT_HANDLE) &&
                   cnrtQueueWaitNotifier(a, second, 1) == CNRT_ARGS &&
                   kit_misused(cnrtPlaceNotifier(queue, a), CNRT_HANDLE),
               "swapped handles are refused");
    kit_report(!cnrtSetDevice(1) && kit_misused(cnrtWaitNotifier(a), CNRT_OTHER_DEVICE) &&
                   !cnrtSetDevice(0),
               "a notifier of another device is refused");
    kit_report(!cnrtNotifierDestroy(a) && !cnrtNotifierDestroy(b) &&
                   !cnrtNotifierDestroy(timeless) && kit_misused(cnrtQueryNotifier(a), CNRT_HANDLE),
               "a destroyed notifier is refused");
    cnrtQueueDestroy(queue);
    cnrtQueueDestroy(second);
}

static void test_captures(void)
{
    int x[2] = {1, 2}, y[2] = {0};
    void *queue = kit_queue(), *second = kit_queue(), *a = kit_device_memory(x, 8), *topo = NULL;
    void *entity = NULL, *notifier = NULL, *memory = NULL;
    bool good;

    cnrtNotifierCreate(&notifier);
    good = cnrtQueueBeginCapture(queue, 3) == CNRT_ARGS &&
           cnrtQueueEndCapture(queue, &topo) == CNRT_CAPTURE_UNMATCHED &&
           !cnrtQueueBeginCapture(queue, CNRT_CAPTURE_GLOBAL) &&
           cnrtQueueBeginCapture(queue, CNRT_CAPTURE_GLOBAL) == CNRT_STATE &&
           !cnrtMemsetAsync(a, 1, 4, queue) && !cnrtPlaceNotifier(notifier, queue) &&
           !cnrtQueueWaitNotifier(notifier, second, 0) && !cnrtMemsetAsync(a, 2, 2, second) &&
           !cnrtPlaceNotifier(notifier, second) && !cnrtQueueWaitNotifier(notifier, queue, 0) &&
           !cnrtQueueEndCapture(queue, &topo) && !cnrtMemcpy(y, a, 8, CNRT_DEVICE_TO_HOST);
    kit_report(good && y[0] == 1, "a capture records the work of queues, and does not run it");
    good = cnrtTaskTopoInstantiate(&entity, topo, NULL, NULL, 5) == CNRT_ARGS &&
           !cnrtTaskTopoInstantiate(&entity, topo, NULL, NULL, 0) && !cnrtTaskTopoDestroy(topo) &&
           !cnrtTaskTopoEntityInvoke(entity, queue) && !cnrtTaskTopoEntityInvoke(entity, queue);
    kit_read(queue, y, a, 8);
    kit_report(good && y[0] == 0x01010202 && y[1] == 2, "an instance runs after its topology");
    kit_report(kit_misused(cnrtTaskTopoEntityInvoke(topo, queue), CNRT_HANDLE) &&
                   kit_misused(cnrtTaskTopoDestroy(entity), CNRT_HANDLE) &&
                   !cnrtTaskTopoEntityDestroy(entity),
               "handles of captures are not mixed up");
    kit_report(!cnrtQueueBeginCapture(queue, CNRT_CAPTURE_GLOBAL) &&
                   cnrtMemcpy(y, a, 8, CNRT_DEVICE_TO_HOST) == CNRT_CAPTURE_UNSUPPORTED &&
                   cnrtQueueEndCapture(queue, &topo) == CNRT_CAPTURE_INVALIDATED,
               "a synchronous copy ends a capture");
    kit_report(!cnrtQueueBeginCapture(queue, CNRT_CAPTURE_RELAXED) && !cnrtMalloc(&memory, 8) &&
                   !cnrtFree(memory) && cnrtQueueSync(queue) == CNRT_CAPTURE_UNSUPPORTED &&
                   cnrtQueueEndCapture(queue, &topo) == CNRT_CAPTURE_INVALIDATED,
               "a relaxed capture allows memory, and no wait for the queue");
    kit_report(!cnrtQueueBeginCapture(queue, CNRT_CAPTURE_RELAXED) &&
                   !cnrtPlaceNotifier(notifier, queue) &&
                   !cnrtQueueWaitNotifier(notifier, second, 0) &&
                   !cnrtMemsetAsync(a, 2, 2, second) &&
                   cnrtQueueEndCapture(queue, &topo) == CNRT_CAPTURE_UNJOINED,
               "a queue that has not joined again ends a capture");
    cnrtNotifierDestroy(notifier);
    cnrtQueueDestroy(queue);
    cnrtQueueDestroy(second);
    cnrtFree(a);
}

static void test_faults(void)
{
    void *queue = kit_queue(), *a = kit_device_memory(NULL, 8), *b = NULL;

    base_control("FAIL", "cnrtMalloc:2:100100,work:1:100132");
    kit_report(!cnrtMalloc(&b, 8) && !cnrtFree(b) && cnrtMalloc(&b, 8) == CNRT_NO_MEMORY,
               "a call fails on demand");
    kit_report(!cnrtMemsetAsync(a, 1, 8, queue) && cnrtQueueSync(queue) == CNRT_KERNEL_TRAP &&
                   cnrtMemsetAsync(a, 1, 8, queue) == CNRT_KERNEL_TRAP &&
                   cnrtMemGetInfo(&(size_t){0}, &(size_t){0}) == CNRT_KERNEL_TRAP,
               "work fails on demand, and the device remains lost");
    kit_report(!cnrtFree(a) && !cnrtQueueDestroy(queue), "a lost device releases its objects");
    base_control("FAIL", "");
}

int main(void)
{
    setenv("BP_STANDIN_DEVICES", "2", 1);
    setenv("BP_STANDIN_LOG", "/dev/null", 1); /* the misuses of these tests */
    test_before_a_device();
    test_devices();
    test_memory();
    test_queues();
    test_peers();
    test_notifiers();
    test_captures();
    test_faults();
    return kit_end();
}
