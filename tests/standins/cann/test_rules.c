/* SPDX-License-Identifier: Apache-2.0 */
/* test_rules.c: tests the rules of descriptors and executors of the stand-in for CANN: those that
 * are the same for all operators.
 *
 *   test_rules FOLDER
 *
 * TAP. */
#include "base.h"
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number, failed;
static void *stream;

#define WS uint64_t *, void **
#define PHASE (void *, uint64_t, void *, void *)
#define FUNCTIONS(X) \
    X(int, aclInit, (const char *)) \
    X(int, aclrtSetDevice, (int32_t)) \
    X(int, aclrtResetDevice, (int32_t)) \
    X(int, aclFinalize, (void)) \
    X(int, aclrtCreateStream, (void **)) \
    X(int, aclrtDestroyStream, (void *)) \
    X(int, aclrtSynchronizeStream, (void *)) \
    X(int, aclrtMalloc, (void **, size_t, int)) \
    X(int, aclrtFree, (void *)) \
    X(int, aclrtMemcpy, (void *, size_t, const void *, size_t, int)) \
    X(int, aclrtLaunchHostFunc, (void *, void (*)(void *), void *)) X( \
        int, aclmdlRICaptureBegin, (void *, int)) X(int, aclmdlRICaptureEnd, (void *, void **)) \
        X(int, aclmdlRIExecuteAsync, (void *, void *)) X(int, aclmdlRIDestroy, (void *)) X( \
            void *, aclCreateTensor, \
            (const int64_t *, uint64_t, int, const int64_t *, int64_t, int, const int64_t *, \
             uint64_t, void *)) X(int, aclrtSetDeviceSatMode, (int)) \
            X(int, aclDestroyTensor, (const void *)) X(int, aclSetAclOpExecutorRepeatable, \
                                                       (void *)) X(int, aclDestroyAclOpExecutor, \
                                                                   (void *)) \
                X(int, aclSetInputTensorAddr, (void *, size_t, void *, void *)) X( \
                    int, aclSetOutputTensorAddr, (void *, size_t, void *, void *)) \
                    X(int, aclGetViewShape, (const void *, int64_t **, uint64_t *)) X( \
                        int, aclnnExpGetWorkspaceSize, \
                        (void *, void *, WS)) X(int, aclnnExp, PHASE) \
                        X(int, aclnnMulGetWorkspaceSize, \
                          (void *, void *, void *, WS)) X(int, aclnnMul, PHASE) \
                            X(int, aclnnMatmulGetWorkspaceSize, \
                              (void *, void *, void *, int8_t, WS)) X(int, aclnnMatmul, PHASE) \
                                X(int, aclnnTransMatmulWeightGetWorkspaceSize, \
                                  (void *, WS)) X(int, aclnnTransMatmulWeight, PHASE) \
                                    X(int, aclnnEmbeddingGetWorkspaceSize, \
                                      (void *, void *, void *, WS)) X(int, aclnnEmbedding, PHASE) \
                                        X(int, aclnnNonzeroGetWorkspaceSize, (void *, void *, WS)) \
                                            X(int, aclnnNonzero, PHASE) \
                                                X(const char *, aclGetRecentErrMsg, (void))
#define X(result, name, parameters) static result(*name) parameters;
FUNCTIONS(X)
#undef X

static void test_rules_report(bool good, const char *name)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, name);
    failed += !good;
}

static bool rules_functions_find(const char *folder)
{
    static const char *const names[] = {"libascendcl.so", "libnnopbase.so", "libopapi.so"};
    void *library[3], *found;
    char path[4096];
    bool all = true;

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        library[i] = dlopen(path, RTLD_NOW);
        if (!library[i]) printf("# %s\n", dlerror());
        if (!library[i]) return false;
    }
#define X(result, name, parameters) \
    found = NULL; \
    for (int i = 0; i < 3 && !found; i++) found = dlsym(library[i], #name); \
    *(void **)(void *)&name = found; \
    all = all && found;
    FUNCTIONS(X)
#undef X
    return all;
}

/* Device memory with these bytes. */
static void *memory_of(const void *data, size_t size)
{
    void *memory = NULL;

    if (aclrtMalloc(&memory, size, 0) || aclrtMemcpy(memory, size, data, size, 1)) return NULL;
    return memory;
}

/* A contiguous tensor. */
static void *tensor_of(void *memory, int dtype, int64_t m, int64_t n)
{
    int64_t dims[] = {m, n}, all = m * n;

    return aclCreateTensor(dims, 2, dtype, NULL, 0, 2, &all, 1, memory);
}

/* x y of 2 by 2, in f32, on the device. */
struct product {
    void *memory[4], *tensor[3], *executor, *workspace;
    uint64_t size;
    float out[4];
};

static bool product_init(struct product *p)
{
    static const float x[] = {1, 2, 3, 4}, y[] = {5, 6, 7, 8}, zeros[4] = {0};
    const float *data[] = {x, y, zeros, y};
    bool good = true;

    memset(p, 0, sizeof *p);
    for (int i = 0; i < 4; i++) good = (p->memory[i] = memory_of(data[i], sizeof x)) && good;
    for (int i = 0; i < 3; i++) good = (p->tensor[i] = tensor_of(p->memory[i], 0, 2, 2)) && good;
    good = good && !aclnnMulGetWorkspaceSize(p->tensor[0], p->tensor[1], p->tensor[2], &p->size,
                                             &p->executor);
    return good && (!p->size || !aclrtMalloc(&p->workspace, p->size, 0));
}

static bool product_read(struct product *p)
{
    return !aclrtSynchronizeStream(stream) &&
           !aclrtMemcpy(p->out, sizeof p->out, p->memory[2], sizeof p->out, 2);
}

static void product_finish(struct product *p)
{
    for (int i = 0; i < 3; i++) aclDestroyTensor(p->tensor[i]);
    for (int i = 0; i < 4; i++) aclrtFree(p->memory[i]);
    if (p->workspace) aclrtFree(p->workspace);
}

static void test_repeatable(void)
{
    struct product p;
    bool good = product_init(&p);

    good = good && aclSetInputTensorAddr(p.executor, 0, p.tensor[0], p.memory[3]) == 161002;
    good = good && !aclSetAclOpExecutorRepeatable(p.executor);
    for (int i = 0; i < 2; i++) {
        good = good && !aclnnMul(p.workspace, p.size, p.executor, stream) && product_read(&p);
        good = good && p.out[0] == 5 && p.out[3] == 32;
    }
    good = good && !aclSetInputTensorAddr(p.executor, 0, p.tensor[0], p.memory[3]);
    good = good && !aclnnMul(p.workspace, p.size, p.executor, stream) && product_read(&p);
    good = good && p.out[0] == 25 && p.out[3] == 64;
    good = good && aclSetInputTensorAddr(p.executor, 2, p.tensor[0], p.memory[3]) == 161002;
    good = good && !aclSetOutputTensorAddr(p.executor, 0, p.tensor[2], p.memory[0]);
    good = good && !aclDestroyAclOpExecutor(p.executor);
    good = good && aclDestroyAclOpExecutor(p.executor) == 361001;
    product_finish(&p);
    test_rules_report(good, "a repeatable executor serves often, with other addresses");
}

/* Each of these is a misuse that the vendor leaves undefined. */
static void test_misuses(void)
{
    size_t before = base_misuses();
    struct product p;
    float host[4] = {0};
    void *other;
    bool good = product_init(&p);

    aclDestroyTensor(p.tensor[1]); /* between the phases */
    good = good && aclnnMul(p.workspace, p.size, p.executor, stream) == 161002;
    good = good && !aclDestroyAclOpExecutor(p.executor);
    p.tensor[1] = tensor_of(host, 0, 2, 2); /* memory of the host */
    good = good &&
           !aclnnMulGetWorkspaceSize(p.tensor[0], p.tensor[1], p.tensor[2], &p.size, &p.executor);
    good = good && aclnnMul(p.workspace, p.size, p.executor, stream) == 161002;
    good = good && aclnnExp(p.workspace, p.size, p.executor, stream) == 361001; /* of another one */
    good = good && !aclDestroyAclOpExecutor(p.executor) && base_misuses() == before + 3;
    other = tensor_of(p.memory[0], 0, 2, 2);
    aclDestroyTensor(other);
    good = good && aclnnExpGetWorkspaceSize(other, p.tensor[2], &p.size, &p.executor) == 161002;
    good = good && aclDestroyTensor(other) == 161002 && base_misuses() == before + 5;
    product_finish(&p);
    test_rules_report(good, "tensors that are gone, memory of the host, another executor");
}

static void test_views(void)
{
    static const float x[] = {0, 1, 2, 3, 4, 5, 6, 7};
    int64_t dims[] = {2, 2}, strides[] = {1, 3}, eight = 8, negative[] = {1, -3};
    void *memory = memory_of(x, sizeof x), *to = memory_of(x, sizeof x), *in, *out, *executor;
    void *workspace = NULL;
    uint64_t size = 0;
    float y[4];
    bool good;

    out = tensor_of(to, 0, 2, 2);
    in = aclCreateTensor(dims, 2, 0, strides, 3, 2, &eight, 1, memory); /* elements 3, 6, 4, 7 */
    good = !aclnnMulGetWorkspaceSize(in, in, out, &size, &executor);
    good = good && (!size || !aclrtMalloc(&workspace, size, 0));
    good = good && !aclnnMul(workspace, size, executor, stream) && !aclrtSynchronizeStream(stream);
    good = good && !aclrtMemcpy(y, sizeof y, to, sizeof y, 2) && y[0] == 9 && y[1] == 36;
    good = good && y[2] == 16 && y[3] == 49 && !aclDestroyTensor(in);
    in = aclCreateTensor(dims, 2, 0, strides, 4, 2, &eight, 1, memory); /* past the storage */
    good = good && aclnnMulGetWorkspaceSize(in, in, out, &size, &executor) == 161002;
    good = good && !aclDestroyTensor(in);
    in = aclCreateTensor(dims, 2, 0, negative, 4, 2, &eight, 1, memory);
    good = good && aclnnMulGetWorkspaceSize(in, in, out, &size, &executor) == 161002;
    good = good && strstr(aclGetRecentErrMsg(), "stride") && !aclDestroyTensor(in);
    good = good && !aclCreateTensor(dims, 9, 0, NULL, 0, 2, &eight, 1, memory);
    good = good && aclnnMulGetWorkspaceSize(NULL, out, out, &size, &executor) == 161001;
    aclDestroyTensor(out);
    if (workspace) aclrtFree(workspace);
    aclrtFree(memory);
    aclrtFree(to);
    test_rules_report(good, "views by strides and offset, inside of their storage");
}

static atomic_int gate;

static void gate_wait(void *unused)
{
    (void)unused;
    while (!gate) base_sleep(100);
}

/* Work that runs after its memory was freed, and an index out of range: both lose the device. */
static void test_late(void)
{
    size_t before = base_misuses();
    int64_t index[] = {0, 9};
    struct product p;
    void *memory, *ids, *executor = NULL;
    uint64_t size = 0;
    bool good = product_init(&p);

    gate = 0;
    good = good && !aclrtLaunchHostFunc(stream, gate_wait, NULL);
    good = good && !aclnnMul(p.workspace, p.size, p.executor, stream);
    good = good && !aclrtFree(p.memory[1]);
    gate = 1;
    good = good && aclrtSynchronizeStream(stream) == 507015 && base_misuses() == before + 1;
    good = good && aclnnExpGetWorkspaceSize(p.tensor[0], p.tensor[2], &size, &executor) != 0;
    p.memory[1] = NULL;
    product_finish(&p);
    aclrtDestroyStream(stream);
    good = !aclrtResetDevice(0) && !aclrtSetDevice(0) && !aclrtCreateStream(&stream) && good;

    good = good && product_init(&p) && !aclDestroyAclOpExecutor(p.executor);
    memory = memory_of(index, sizeof index);
    ids = aclCreateTensor((int64_t[]){2}, 1, 9, NULL, 0, 2, (int64_t[]){2}, 1, memory);
    good = good && !aclnnEmbeddingGetWorkspaceSize(p.tensor[0], ids, p.tensor[2], &size, &executor);
    if (p.workspace) aclrtFree(p.workspace);
    p.workspace = NULL;
    if (size) aclrtMalloc(&p.workspace, size, 0);
    good = good && !aclnnEmbedding(p.workspace, size, executor, stream);
    good = good && aclrtSynchronizeStream(stream) == 507015;
    aclDestroyTensor(ids);
    aclrtFree(memory);
    product_finish(&p);
    aclrtDestroyStream(stream);
    good = !aclrtResetDevice(0) && !aclrtSetDevice(0) && !aclrtCreateStream(&stream) && good;
    test_rules_report(good, "freed memory and a bad index lose the device when the work runs");
}

/* The work of an operator writes into all of its workspace, and nothing behind it. */
static void test_workspace(void)
{
    unsigned char bytes[2048] = {0};
    void *executor, *inside, *memory = memory_of(bytes, sizeof bytes);
    struct product p;
    uint64_t size = 0;
    bool good = product_init(&p) && !aclDestroyAclOpExecutor(p.executor);

    good = good &&
           !aclnnMatmulGetWorkspaceSize(p.tensor[0], p.tensor[1], p.tensor[2], 0, &size, &executor);
    good = good && size > 0 && size < sizeof bytes && !aclnnMatmul(memory, size, executor, stream);
    good = good && product_read(&p) && p.out[0] == 19;
    good = good && !aclrtMemcpy(bytes, sizeof bytes, memory, sizeof bytes, 2);
    for (size_t i = 0; i < sizeof bytes; i++) good = good && (bytes[i] != 0) == (i < size);
    inside = tensor_of(memory, 0, 2, 2); /* where the workspace is */
    good = good &&
           !aclnnMatmulGetWorkspaceSize(p.tensor[0], p.tensor[1], inside, 0, &size, &executor);
    good = good && aclnnMatmul(memory, size, executor, stream) == 161002;
    good = good && !aclDestroyAclOpExecutor(executor) && !aclDestroyTensor(inside);
    aclrtFree(memory);
    product_finish(&p);
    test_rules_report(good, "a workspace is written, all of it");
}

static void test_capture(void)
{
    struct product p;
    void *model = NULL;
    bool good = product_init(&p) && !aclmdlRICaptureBegin(stream, 1);

    good = good && !aclnnMul(p.workspace, p.size, p.executor, stream);
    good = good && !aclmdlRICaptureEnd(stream, &model) && product_read(&p) && p.out[0] == 0;
    good = good && !aclmdlRIExecuteAsync(model, stream) && product_read(&p) && p.out[0] == 5;
    good = good && !aclrtMemcpy(p.memory[0], 16, p.memory[1], 16, 3);
    good = good && !aclmdlRIExecuteAsync(model, stream) && product_read(&p) && p.out[0] == 25;
    good = good && !aclmdlRIDestroy(model);
    product_finish(&p);
    test_rules_report(good, "an operator in a capture runs at each replay");
}

/* A factor of 17 by 33 in f16 that is changed to FRACTAL_NZ; ones by it are its sums of columns. */
static void test_nz(void)
{
    enum {
        M = 17,
        N = 33,
        ROOM = 3 * 2 * 16 * 16
    };
    static uint16_t w[ROOM], ones[M], y[N];
    int64_t dims[] = {M, N}, room = ROOM, few = M * N;
    void *memory, *left, *out, *weight, *a, *c, *executor, *workspace = NULL;
    uint64_t size = 0;
    bool good;

    for (int i = 0; i < M; i++) ones[i] = 0x3c00;                                         /* 1 */
    for (int i = 0; i < N; i++) w[(M - 1) * N + i] = (uint16_t)(i % 2 ? 0x4000 : 0x3c00); /* 2, 1 */
    memory = memory_of(w, sizeof w);
    left = memory_of(ones, sizeof ones);
    out = memory_of(y, sizeof y);
    a = tensor_of(left, 1, 1, M);
    c = tensor_of(out, 1, 1, N);
    weight = aclCreateTensor(dims, 2, 1, NULL, 0, 2, &few, 1, memory); /* no room for it */
    good = aclnnTransMatmulWeightGetWorkspaceSize(weight, &size, &executor) == 161002;
    aclDestroyTensor(weight);
    weight = aclCreateTensor(dims, 2, 1, NULL, 0, 2, &room, 1, memory);
    good = good && !aclnnTransMatmulWeightGetWorkspaceSize(weight, &size, &executor);
    if (size) aclrtMalloc(&workspace, size, 0);
    good = good && !aclnnTransMatmulWeight(workspace, size, executor, stream);
    good = good && !aclrtSynchronizeStream(stream) && !aclDestroyTensor(weight);
    if (workspace) aclrtFree(workspace);
    workspace = NULL;
    weight = aclCreateTensor(dims, 2, 1, NULL, 0, 29, (int64_t[]){3, 2, 16, 16}, 4, memory);
    good = good && aclnnMulGetWorkspaceSize(weight, weight, weight, &size, &executor) == 161002;
    good = good && !aclnnMatmulGetWorkspaceSize(a, weight, c, 0, &size, &executor);
    if (size) aclrtMalloc(&workspace, size, 0);
    good = good && !aclnnMatmul(workspace, size, executor, stream);
    good = good && !aclrtSynchronizeStream(stream) && !aclrtMemcpy(y, sizeof y, out, sizeof y, 2);
    good = good && y[0] == 0x3c00 && y[1] == 0x4000 && y[31] == 0x4000 && y[32] == 0x3c00;
    aclDestroyTensor(weight);
    weight = aclCreateTensor(dims, 2, 1, NULL, 0, 29, (int64_t[]){2, 3, 16, 16}, 4, memory);
    good = good && aclnnMatmulGetWorkspaceSize(a, weight, c, 0, &size, &executor) == 161002;
    aclDestroyTensor(weight);
    aclDestroyTensor(a);
    aclDestroyTensor(c);
    if (workspace) aclrtFree(workspace);
    aclrtFree(memory);
    aclrtFree(left);
    aclrtFree(out);
    test_rules_report(good, "FRACTAL_NZ: storage, conversion, products");
}

/* 300 by 300 in f16: an infinity, or on one product the largest number. */
static void test_saturation(void)
{
    static const uint16_t x = 0x5cb0, expected[] = {0x7c00, 0x7bff, 0x7c00};
    void *from = memory_of(&x, 2), *to = memory_of(&x, 2), *a, *c, *executor, *workspace = NULL;
    uint64_t size = 0;
    uint16_t y = 0;
    bool good = true;

    a = tensor_of(from, 1, 1, 1);
    c = tensor_of(to, 1, 1, 1);
    good = aclrtSetDeviceSatMode(0) == 207000;
    for (int i = 0; i < 3; i++) {
        if (i == 1) setenv("BP_CANN_SOC", "Ascend910A", 1);
        if (i == 2) good = good && !aclrtSetDeviceSatMode(1);
        good = good && !aclnnMulGetWorkspaceSize(a, a, c, &size, &executor);
        if (size && !workspace) aclrtMalloc(&workspace, size, 0);
        good = good && !aclnnMul(workspace, size, executor, stream);
        good = good && !aclrtSynchronizeStream(stream) && !aclrtMemcpy(&y, 2, to, 2, 2);
        good = good && y == expected[i];
    }
    good = good && !aclrtSetDeviceSatMode(0);
    unsetenv("BP_CANN_SOC");
    aclDestroyTensor(a);
    aclDestroyTensor(c);
    if (workspace) aclrtFree(workspace);
    aclrtFree(from);
    aclrtFree(to);
    test_rules_report(good, "the saturation of f16");
}

/* HF32 keeps 10 bits of the mantissa; some products have no bf16, or no exact products of f32. */
static void test_products(void)
{
    float x = 1 + 0x1p-12f, y = 0;
    void *from = memory_of(&x, 4), *to = memory_of(&y, 4), *a, *c, *b, *executor, *workspace = NULL;
    uint64_t size = 0;
    bool good = true;

    a = tensor_of(from, 0, 1, 1);
    c = tensor_of(to, 0, 1, 1);
    b = tensor_of(from, 27, 1, 1);
    for (int math = 0; math < 4; math += 3) {
        good = good && !aclnnMatmulGetWorkspaceSize(a, a, c, (int8_t)math, &size, &executor);
        if (size && !workspace) aclrtMalloc(&workspace, size, 0);
        good = good && !aclnnMatmul(workspace, size, executor, stream);
        good = good && !aclrtSynchronizeStream(stream) && !aclrtMemcpy(&y, 4, to, 4, 2);
        good = good && (math ? y == 1 : y > 1);
    }
    setenv("BP_CANN_SOC", "Ascend910A", 1);
    good = good && aclnnMatmulGetWorkspaceSize(a, a, c, 0, &size, &executor) == 161002;
    good = good && !aclnnMatmulGetWorkspaceSize(a, a, c, 1, &size, &executor);
    good = good && !aclDestroyAclOpExecutor(executor);
    setenv("BP_CANN_SOC", "Ascend310P3", 1);
    good = good && aclnnMulGetWorkspaceSize(b, b, b, &size, &executor) == 561003;
    unsetenv("BP_CANN_SOC");
    good = good && !aclnnMulGetWorkspaceSize(b, b, b, &size, &executor);
    good = good && !aclDestroyAclOpExecutor(executor);
    unsetenv("ASCEND_OPP_PATH");
    good = good && aclnnMulGetWorkspaceSize(b, b, b, &size, &executor) == 561107;
    setenv("ASCEND_OPP_PATH", "/nowhere", 1);
    aclDestroyTensor(a);
    aclDestroyTensor(b);
    aclDestroyTensor(c);
    if (workspace) aclrtFree(workspace);
    aclrtFree(from);
    aclrtFree(to);
    test_rules_report(good, "cubeMathType, products without bf16, ASCEND_OPP_PATH");
}

static void test_extents(void)
{
    static const float x[] = {1, 0, 2, 0};
    int64_t *dims = NULL, rows[8];
    void *from = memory_of(x, sizeof x), *to = memory_of(rows, sizeof rows), *a, *c, *executor;
    void *workspace = NULL;
    uint64_t size = 0, n = 0;
    bool good;

    a = tensor_of(from, 0, 2, 2);
    c = tensor_of(to, 9, 4, 2);
    good = !aclnnNonzeroGetWorkspaceSize(a, c, &size, &executor);
    if (size) aclrtMalloc(&workspace, size, 0);
    good = good && !aclnnNonzero(workspace, size, executor, stream);
    good = good && !aclrtSynchronizeStream(stream) && !aclGetViewShape(c, &dims, &n);
    good = good && n == 2 && dims[0] == 2 && dims[1] == 2;
    good = good && !aclrtMemcpy(rows, sizeof rows, to, sizeof rows, 2) && rows[2] == 1 && !rows[3];
    free(dims);
    aclDestroyTensor(a);
    aclDestroyTensor(c);
    if (workspace) aclrtFree(workspace);
    aclrtFree(from);
    aclrtFree(to);
    test_rules_report(good, "an extent that depends on data, after the wait");
}

static void test_failures(void)
{
    struct product p;
    bool good = !base_control("FAIL", "aclnnMulGetWorkspaceSize:1:561003,aclnnMul:1:361001");

    good = good && !product_init(&p) && aclGetRecentErrMsg();
    product_finish(&p);
    good = good && product_init(&p);
    good = good && aclnnMul(p.workspace, p.size, p.executor, stream) == 361001;
    good = good && !aclnnMul(p.workspace, p.size, p.executor, stream) && product_read(&p);
    product_finish(&p);
    test_rules_report(good && !base_control("FAIL", NULL), "both phases can fail on demand");
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    setenv("BP_STANDIN_LOG", "/dev/null", 1);
    setenv("ASCEND_OPP_PATH", "/nowhere", 1);
    test_rules_report(rules_functions_find(argv[1]), "the functions are there");
    if (failed) return 1;
    test_rules_report(!aclInit(NULL) && !aclrtSetDevice(0) && !aclrtCreateStream(&stream), "begin");
    test_repeatable();
    test_misuses();
    test_views();
    test_workspace();
    test_late();
    test_capture();
    test_nz();
    test_saturation();
    test_products();
    test_extents();
    test_failures();
    test_rules_report(!aclrtDestroyStream(stream) && !aclrtResetDevice(0) && !aclFinalize() &&
                          !base_live(),
                      "nothing is left");
    base_live_print();
    printf("1..%d\n", number);
    return failed != 0;
}
