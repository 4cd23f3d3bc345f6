/* SPDX-License-Identifier: Apache-2.0 */
/* test_runtime.c: tests the runtime of the stand-in for CANN, opened by its name as a plugin opens
 * it: the rules of contexts, memory, copies, streams, events and captures.
 *
 *   test_runtime FOLDER      with v7, v8 and v9
 *
 * TAP. */
#include "base.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number, failed;
static void *library;

static void test_runtime_report(bool good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failed += !good;
}

/* The functions, with types of our own. */
#define FUNCTIONS(X) \
    X(aclrtSynchronizeStreamWithTimeout, (void *, int32_t), (NULL, 0)) \
    X(aclrtGetMemInfo, (int, size_t *, size_t *), (0, NULL, NULL)) \
    X(aclInit, (const char *), (NULL)) \
    X(aclFinalize, (void), ()) \
    X(aclrtSetDevice, (int32_t), (0)) \
    X(aclrtResetDevice, (int32_t), (0)) \
    X(aclrtGetDeviceCount, (uint32_t *), (NULL)) \
    X(aclrtCreateContext, (void **, int32_t), (NULL, 0)) \
    X(aclrtDestroyContext, (void *), (NULL)) \
    X(aclrtSetCurrentContext, (void *), (NULL)) \
    X(aclrtGetCurrentContext, (void **), (NULL)) \
    X(aclrtMalloc, (void **, size_t, int), (NULL, 0, 0)) \
    X(aclrtFree, (void *), (NULL)) \
    X(aclrtMallocHost, (void **, size_t), (NULL, 0)) \
    X(aclrtFreeHost, (void *), (NULL)) \
    X(aclrtMemcpy, (void *, size_t, const void *, size_t, int), (NULL, 0, NULL, 0, 0)) \
    X(aclrtMemcpyAsync, (void *, size_t, const void *, size_t, int, void *), \
      (NULL, 0, NULL, 0, 0, NULL)) \
    X(aclrtMemset, (void *, size_t, int32_t, size_t), (NULL, 0, 0, 0)) \
    X(aclrtCreateStream, (void **), (NULL)) \
    X(aclrtDestroyStream, (void *), (NULL)) \
    X(aclrtSynchronizeStream, (void *), (NULL)) \
    X(aclrtStreamQuery, (void *, int *), (NULL, NULL)) \
    X(aclrtStreamWaitEvent, (void *, void *), (NULL, NULL)) \
    X(aclrtCreateEventWithFlag, (void **, uint32_t), (NULL, 0)) \
    X(aclrtDestroyEvent, (void *), (NULL)) \
    X(aclrtRecordEvent, (void *, void *), (NULL, NULL)) \
    X(aclrtQueryEvent, (void *, int *), (NULL, NULL)) \
    X(aclrtQueryEventStatus, (void *, int *), (NULL, NULL)) \
    X(aclrtSynchronizeEvent, (void *), (NULL)) \
    X(aclrtEventElapsedTime, (float *, void *, void *), (NULL, NULL, NULL)) \
    X(aclrtSynchronizeDevice, (void), ()) \
    X(aclrtLaunchCallback, (void (*)(void *), void *, int, void *), (NULL, NULL, 0, NULL)) \
    X(aclrtSubscribeReport, (uint64_t, void *), (0, NULL)) \
    X(aclrtProcessReport, (int32_t), (0))
#define LATER(X) \
    X(aclrtCreateEventExWithFlag, (void **, uint32_t), (NULL, 0)) \
    X(aclmdlRICaptureBegin, (void *, int), (NULL, 0)) \
    X(aclmdlRICaptureEnd, (void *, void **), (NULL, NULL)) \
    X(aclmdlRIExecuteAsync, (void *, void *), (NULL, NULL)) \
    X(aclmdlRICaptureGetInfo, (void *, int *, void **), (NULL, NULL, NULL)) \
    X(aclmdlRIDestroy, (void *), (NULL)) \
    X(aclrtResetDeviceForce, (int32_t), (0)) \
    X(aclrtLaunchHostFunc, (void *, void (*)(void *), void *), (NULL, NULL, NULL))
#define X(name, parameters, arguments) static int(*name) parameters;
FUNCTIONS(X)
LATER(X)
#undef X
static const char *(*aclGetRecentErrMsg)(void);

/* Opens the library of a folder; returns how many functions it lacks. */
static int functions_find(const char *folder, const char *version)
{
    char path[4096];
    int missing = 0;

    snprintf(path, sizeof path, "%s/%s/libascendcl.so", folder, version);
    library = dlopen(path, RTLD_NOW);
    if (!library) printf("# %s\n", dlerror());
    if (!library) return 1000;
#define X(name, parameters, arguments) \
    *(void **)(void *)&name = dlsym(library, #name); \
    missing += !name;
    FUNCTIONS(X)
    LATER(X)
#undef X
    *(void **)(void *)&aclGetRecentErrMsg = dlsym(library, "aclGetRecentErrMsg");
    return missing;
}

static void *other_thread(void *out)
{
    void *memory, *stream = *(void **)out;
    int *codes = out;

    codes[0] = aclrtMalloc(&memory, 1, 0);
    codes[1] = aclrtSetDevice(1);
    codes[2] = aclrtSynchronizeStream(stream);
    codes[3] = aclrtResetDevice(1);
    return NULL;
}

static void test_contexts(void)
{
    void *mine = NULL, *context = NULL, *stream = NULL, *now = NULL;
    union {
        void *stream;
        int codes[4];
    } there;
    pthread_t thread;
    uint32_t n = 0;
    bool good;

    good = aclrtGetDeviceCount(&n) == 100001; /* before aclInit */
    good = good && !aclInit(NULL) && aclInit(NULL) == 100002 && !aclrtGetDeviceCount(&n) && n == 2;
    good = good && aclrtCreateStream(&stream) == 107002 && strstr(aclGetRecentErrMsg(), "context");
    good = good && !aclGetRecentErrMsg() && aclrtSetDevice(2) == 107001 && !aclrtSetDevice(0);
    good = good && !aclrtGetCurrentContext(&mine) && !aclrtCreateStream(&stream);
    there.stream = stream;
    pthread_create(&thread, NULL, other_thread, &there);
    pthread_join(thread, NULL);
    good = good && there.codes[0] == 107002 && !there.codes[1] && there.codes[2] == 107003;
    good = good && !there.codes[3] && !aclrtCreateContext(&context, 0);
    good = good && !aclrtGetCurrentContext(&now) && now == context && context != mine;
    good = good && aclrtSynchronizeStream(stream) == 107003 && !aclrtDestroyContext(context);
    good = good && aclrtSynchronizeStream(stream) == 107002 && !aclrtSetCurrentContext(mine);
    good = good && !aclrtSynchronizeStream(stream) && !aclrtDestroyStream(stream);
    test_runtime_report(good, "contexts: one for each thread; streams belong to one");
}

static void test_memory(void)
{
    size_t before = base_misuses(), most = 0, total = 0;
    void *memory = NULL, *other = NULL, *pinned = NULL;
    char text[64] = "text", back[64] = "";
    bool good;

    good = aclrtMalloc(&memory, 0, 0) == 100000 && aclrtMalloc(&memory, 1, 9) == 107018;
    good = good && aclrtMalloc(&memory, (size_t)1 << 40, 0) == 207001;
    good = good && !aclrtMalloc(&memory, 100, 0) && (uintptr_t)memory % 64 == 0;
    good = good && !aclrtGetMemInfo(1, &most, &total) && total - most == 100;
    good = good && aclrtMemcpy(memory, 3, text, 4, 1) == 100000; /* destMax */
    good = good && !aclrtMemcpy(memory, 100, text, 64, 1);
    good = good && !aclrtMalloc(&other, 64, 2) && !aclrtMemcpy(other, 64, memory, 64, 3);
    good = good && !aclrtMemcpy(back, 64, other, 64, 2) && !strcmp(back, "text");
    good = good && base_misuses() == before;
    good = good && aclrtMemcpy(memory, 200, text, 64, 2) == 107000; /* the other way round */
    good = good && aclrtMemcpy(memory, 200, text, 101, 1) == 107000;
    good = good && !aclrtMallocHost(&pinned, 64) && aclrtFree(pinned) == 107000;
    good = good && !aclrtFreeHost(pinned) && !aclrtFree(memory) && aclrtFree(memory) == 107000;
    good = good && aclrtMemcpy(back, 64, memory, 4, 2) == 107000; /* freed */
    test_runtime_report(good && base_misuses() == before + 5 && !aclrtFree(other),
                        "memory: sizes, places, directions; a wrong place is a misuse");
}

/* Each call fails on demand with the code of the setting, before it looks at its arguments. */
static void test_each_fails(void)
{
    bool good = true;
    char fault[128];

#define X(name, parameters, arguments) \
    snprintf(fault, sizeof fault, "%s:1:%d", #name, 123456); \
    base_control("FAIL", fault); \
    if (name arguments != 123456) { \
        printf("# %s does not fail\n", #name); \
        good = false; \
    }
    FUNCTIONS(X)
    LATER(X)
#undef X
    test_runtime_report(good && !base_control("FAIL", NULL), "each call can fail on demand");
}

static atomic_int gate;

static void gate_wait(void *unused)
{
    (void)unused;
    while (!gate) base_sleep(100);
}

static void test_copies(void)
{
    char *pinned = NULL, text[] = "pageable";
    void *stream = NULL, *memory = NULL;
    int state = -1;
    bool good;

    gate = 0;
    good = !aclrtCreateStream(&stream) && !aclrtMalloc(&memory, 16, 0);
    good = good && !aclrtMallocHost((void **)&pinned, 16);
    if (good) strcpy(pinned, "pinned");
    good = good && aclrtMemcpyAsync(pinned, 16, pinned + 8, 8, 0, stream) == 207000;
    good = good && !aclrtLaunchHostFunc(stream, gate_wait, NULL);
    good = good && !aclrtMemcpyAsync(memory, 16, pinned, 16, 1, stream);
    good = good && !aclrtStreamQuery(stream, &state) && state == 1;
    good = good && aclrtSynchronizeStreamWithTimeout(stream, 1) == 507046;
    gate = 1;
    /* A copy of pageable memory has ended when the call returns. */
    good = good && !aclrtMemcpyAsync(memory, 16, text, sizeof text, 1, stream);
    good = good && !aclrtStreamQuery(stream, &state) && state == 0;
    good = good && !aclrtMemcpyAsync(pinned, 16, memory, 16, 2, stream);
    good = good && !aclrtSynchronizeStream(stream) && !strcmp(pinned, "pageable");
    good = good && !aclrtFree(memory) && !aclrtFreeHost(pinned) && !aclrtDestroyStream(stream);
    test_runtime_report(good, "copies: late with pinned memory, not with pageable memory");
}

static void test_events(void)
{
    void *stream = NULL, *other = NULL, *ex = NULL, *plain = NULL, *only = NULL;
    int old = -1, new = -1;
    float ms = -1;
    bool good;

    gate = 0;
    good = !aclrtCreateStream(&stream) && !aclrtCreateStream(&other);
    good = good && aclrtCreateEventExWithFlag(&ex, 0) == 107000;
    good = good && !aclrtCreateEventExWithFlag(&ex, 1) && !aclrtCreateEventExWithFlag(&only, 8);
    good = good && !aclrtCreateEventWithFlag(&plain, 9);
    good = good && !aclrtQueryEventStatus(ex, &new) && new == 1; /* never recorded */
    good = good && !aclrtQueryEventStatus(plain, &new) && new == 0;
    good = good && !aclrtLaunchHostFunc(stream, gate_wait, NULL) && !aclrtRecordEvent(ex, stream);
    good = good && !aclrtQueryEvent(ex, &old) && old == 1; /* the two numberings */
    good = good && !aclrtQueryEventStatus(ex, &new) && new == 0;
    good = good && aclrtStreamWaitEvent(other, only) == 107000;
    good = good && !aclrtStreamWaitEvent(other, ex) && !aclrtStreamQuery(other, &old) && old == 1;
    gate = 1;
    good = good && !aclrtSynchronizeStream(other) && !aclrtQueryEvent(ex, &old) && old == 0;
    good = good && !aclrtQueryEventStatus(ex, &new) && new == 1;
    good = good && aclrtEventElapsedTime(&ms, ex, plain) == 107007;
    good = good && aclrtEventElapsedTime(&ms, only, plain) == 107006;
    good = good && !aclrtRecordEvent(only, stream) && !aclrtRecordEvent(plain, stream);
    good = good && !aclrtSynchronizeEvent(plain) && !aclrtEventElapsedTime(&ms, only, plain);
    good = good && ms >= 0 && !aclrtDestroyEvent(ex) && !aclrtDestroyEvent(plain);
    good = good && aclrtDestroyEvent(plain) == 107017 && !aclrtDestroyEvent(only);
    good = good && !aclrtDestroyStream(stream) && !aclrtDestroyStream(other);
    test_runtime_report(good, "events: flags, both numberings, waits, times");
}

static void test_capture(void)
{
    void *stream = NULL, *memory = NULL, *model = NULL;
    char *pinned = NULL, text[8] = "x";
    int state = -1;
    bool good;

    good = !aclrtCreateStream(&stream) && !aclrtMalloc(&memory, 8, 0);
    good = good && !aclrtMallocHost((void **)&pinned, 8) && aclmdlRICaptureBegin(NULL, 2) == 107031;
    if (good) strcpy(pinned, "one");
    good = good && !aclmdlRICaptureBegin(stream, 1);
    good = good && !aclrtMemcpyAsync(memory, 8, pinned, 8, 1, stream);
    good = good && !aclmdlRICaptureGetInfo(stream, &state, &model) && state == 1;
    good = good && !aclmdlRICaptureEnd(stream, &model);
    if (good) strcpy(pinned, "two");
    good = good && !aclmdlRIExecuteAsync(model, stream) && !aclrtSynchronizeStream(stream);
    good = good && !aclrtMemcpy(text, 8, memory, 8, 2) && !strcmp(text, "two");
    good = good && !aclmdlRIDestroy(model);
    /* Each of these makes the capture invalid. */
    good = good && !aclmdlRICaptureBegin(stream, 1) && aclrtSynchronizeStream(stream) == 107027;
    good = good && aclmdlRICaptureEnd(stream, &model) == 507903;
    good = good && !aclmdlRICaptureBegin(stream, 1);
    good = good && aclrtMemcpy(text, 8, memory, 8, 2) == 107030;
    good = good && aclmdlRICaptureEnd(stream, &model) == 507903;
    good = good && !aclmdlRICaptureBegin(stream, 2) && !aclrtMemcpy(text, 8, memory, 8, 2);
    good = good && aclrtMemcpyAsync(memory, 8, text, 8, 1, stream) == 107030;
    good = good && aclmdlRICaptureEnd(stream, &model) == 507903;
    good = good && !aclrtFree(memory) && !aclrtFreeHost(pinned) && !aclrtDestroyStream(stream);
    test_runtime_report(good, "captures: replay, and calls that make a capture invalid");
}

static void test_loss(void)
{
    char *pinned = NULL, text[8] = "x";
    void *stream = NULL, *memory = NULL;
    bool good;

    good = !aclrtCreateStream(&stream) && !aclrtMalloc(&memory, 8, 0);
    good = good && !aclrtMallocHost((void **)&pinned, 8);
    good = good && !base_control("FAIL", "work:1:507010,aclrtMalloc:1:207001");
    good = good && aclrtMalloc((void **)&text, 8, 0) == 207001;
    good = good && !aclrtMemcpyAsync(memory, 8, pinned, 8, 1, stream);
    good = good && aclrtSynchronizeStream(stream) == 507010 && aclrtSynchronizeDevice() == 507010;
    good = good && aclrtMemcpy(text, 8, memory, 8, 2) == 507010;
    good = good && !aclrtFree(memory) && !aclrtFreeHost(pinned) && !aclrtDestroyStream(stream);
    good = good && !aclrtSetDevice(0) && !aclrtResetDevice(0); /* it was set twice */
    good = good && aclrtSynchronizeDevice() == 507010 && !aclrtResetDeviceForce(0);
    good = good && aclrtSynchronizeDevice() == 107002 && !aclrtSetDevice(0);
    good = good && !aclrtSynchronizeDevice();
    test_runtime_report(good && !base_control("FAIL", NULL), "a lost device, until its reset");
}

static void *reports_process(void *stop)
{
    while (!*(atomic_int *)stop) aclrtProcessReport(10);
    return NULL;
}

static void count_up(void *n)
{
    ++*(atomic_int *)n;
}

static void test_callbacks(void)
{
    atomic_int stop = 0, n = 0;
    void *stream = NULL;
    pthread_t thread;
    bool good;

    pthread_create(&thread, NULL, reports_process, &stop);
    good = !aclrtCreateStream(&stream) && aclrtLaunchCallback(count_up, &n, 1, stream) == 107000;
    good = good && !aclrtSubscribeReport((uint64_t)thread, stream);
    for (int i = 0; i < 10; i++) good = good && !aclrtLaunchCallback(count_up, &n, 1, stream);
    good = good && !aclrtSynchronizeStream(stream) && n == 10;
    stop = 1;
    pthread_join(thread, NULL);
    test_runtime_report(good && !aclrtDestroyStream(stream), "functions of the host");
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    setenv("BP_STANDIN_DEVICES", "2", 1);
    setenv("BP_STANDIN_LOG", "/dev/null", 1);
    test_runtime_report(functions_find(argv[1], "v7") == 8, "version 7 lacks eight functions");
    test_runtime_report(functions_find(argv[1], "v8") == 1, "version 8.1 lacks one");
    test_runtime_report(functions_find(argv[1], "v9") == 0, "version 9 has all");
    test_each_fails();
    test_contexts();
    test_memory();
    test_copies();
    test_events();
    test_capture();
    test_loss();
    test_callbacks();
    test_runtime_report(!aclrtResetDevice(0) && !aclFinalize() && !base_live(), "nothing is left");
    base_live_print();
    printf("1..%d\n", number);
    return failed != 0;
}
