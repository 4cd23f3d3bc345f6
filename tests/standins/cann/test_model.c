/* SPDX-License-Identifier: Apache-2.0 */
/* test_model.c: tests models of the stand-in for CANN: test_model.py makes one, y = relu(x + w)
 * with x of 2 by 3 and w = {1, -2, 0}.
 *
 *   test_model FOLDER MODEL.om
 *
 * Exits with the number of the step that fails. */
#include "base.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X) \
    X(int, aclInit, (const char *)) \
    X(int, aclrtSetDevice, (int32_t)) \
    X(int, aclrtResetDevice, (int32_t)) \
    X(int, aclrtMalloc, (void **, size_t, int)) X(int, aclrtFree, (void *)) \
        X(int, aclrtMemcpy, (void *, size_t, const void *, size_t, int)) \
            X(int, aclrtCreateStream, (void **)) X(int, aclrtDestroyStream, (void *)) X( \
                int, aclrtSynchronizeStream, (void *)) X(int, aclmdlRICaptureBegin, (void *, int)) \
                X(int, aclmdlRICaptureEnd, (void *, void **)) X( \
                    int, aclmdlRIExecuteAsync, (void *, void *)) X(int, aclmdlRIDestroy, (void *)) \
                    X(int, aclmdlLoadFromMem, (const void *, size_t, uint32_t *)) X( \
                        int, aclmdlLoadFromFile, (const char *, uint32_t *)) X(int, aclmdlUnload, \
                                                                               (uint32_t)) \
                        X(void *, aclmdlCreateDesc, (void)) X(int, aclmdlDestroyDesc, (void *)) X( \
                            int, aclmdlGetDesc, \
                            (void *, uint32_t)) X(size_t, aclmdlGetNumInputs, (void *)) \
                            X(size_t, aclmdlGetNumOutputs, \
                              (void *)) X(size_t, aclmdlGetInputSizeByIndex, (void *, size_t)) \
                                X(size_t, aclmdlGetOutputSizeByIndex, (void *, size_t)) X( \
                                    int, aclmdlGetInputDataType, (const void *, size_t)) \
                                    X(const char *, aclmdlGetOutputNameByIndex, \
                                      (const void *, size_t)) X(int, aclmdlGetOutputDims, \
                                                                (const void *, size_t, void *)) \
                                        X(void *, aclmdlCreateDataset, \
                                          (void)) X(int, aclmdlDestroyDataset, (const void *)) \
                                            X(int, aclmdlAddDatasetBuffer, (void *, void *)) \
                                                X(void *, aclCreateDataBuffer, (void *, size_t)) \
                                                    X(int, aclDestroyDataBuffer, (const void *)) \
                                                        X(int, aclmdlExecute, \
                                                          (uint32_t, const void *, void *)) \
                                                            X(int, aclmdlExecuteAsync, \
                                                              (uint32_t, const void *, void *, \
                                                               void *)) \
                                                                X(const char *, \
                                                                  aclGetRecentErrMsg, (void))
#define X(result, name, parameters) static result(*name) parameters;
FUNCTIONS(X)
#undef X

static char om[1 << 16];
static size_t om_size;

static bool model_functions_find(const char *folder, const char *path)
{
    char library[4096];
    bool all = true;
    void *opened;
    FILE *file = fopen(path, "rb");

    om_size = file ? fread(om, 1, sizeof om, file) : 0;
    if (file) fclose(file);
    snprintf(library, sizeof library, "%s/libascendcl.so", folder);
    opened = dlopen(library, RTLD_NOW);
    if (!opened || !om_size) return false;
#define X(result, name, parameters) \
    *(void **)(void *)&name = dlsym(opened, #name); \
    all = all && name;
    FUNCTIONS(X)
#undef X
    return all;
}

static void *set_of(void *data, size_t size, void **buffer)
{
    void *set = aclmdlCreateDataset();

    *buffer = aclCreateDataBuffer(data, size);
    return aclmdlAddDatasetBuffer(set, *buffer) ? NULL : set;
}

static bool test_description(uint32_t id)
{
    struct {
        char name[128];
        size_t n;
        int64_t at[128];
    } dims;
    void *desc = aclmdlCreateDesc();
    bool good = !aclmdlGetDesc(desc, id) && aclmdlGetNumInputs(desc) == 1;

    good = good && aclmdlGetNumOutputs(desc) == 1 && aclmdlGetInputSizeByIndex(desc, 0) == 24;
    good = good && aclmdlGetOutputSizeByIndex(desc, 0) == 24 && !aclmdlGetInputSizeByIndex(desc, 1);
    good = good && aclmdlGetInputDataType(desc, 0) == 0;
    good = good && !strcmp(aclmdlGetOutputNameByIndex(desc, 0), "y");
    good = good && !aclmdlGetOutputDims(desc, 0, &dims) && dims.n == 2 && dims.at[0] == 2;
    good = good && dims.at[1] == 3 && !strcmp(dims.name, "y");
    return !aclmdlDestroyDesc(desc) && good;
}

/* Runs at once, on a stream, and in a capture; a buffer that is too small is refused. */
static bool test_runs(uint32_t id)
{
    static const float x[] = {0, 1, 2, -3, 4, 5}, expected[] = {1, 0, 2, 0, 2, 5};
    float y[6] = {9, 9, 9, 9, 9, 9};
    void *from = NULL, *to = NULL, *stream = NULL, *in, *out, *few, *buffer[3], *model = NULL;
    bool good = !aclrtMalloc(&from, 24, 0) && !aclrtMalloc(&to, 24, 0);

    good = good && !aclrtMemcpy(from, 24, x, 24, 1) && !aclrtCreateStream(&stream);
    in = set_of(from, 24, &buffer[0]);
    out = set_of(to, 24, &buffer[1]);
    few = set_of(to, 20, &buffer[2]);
    good = good && aclmdlExecute(id, in, few) == 100000 && !aclmdlExecute(id, in, out);
    good = good && !aclrtMemcpy(y, 24, to, 24, 2) && !memcmp(y, expected, 24);
    good = good && !aclrtMemcpy(to, 24, x, 24, 1) && !aclmdlExecuteAsync(id, in, out, stream);
    good = good && !aclrtSynchronizeStream(stream) && !aclrtMemcpy(y, 24, to, 24, 2);
    good = good && !memcmp(y, expected, 24) && !aclrtMemcpy(to, 24, x, 24, 1);
    good = good && !aclmdlRICaptureBegin(stream, 1) && !aclmdlExecuteAsync(id, in, out, stream);
    good = good && !aclmdlRICaptureEnd(stream, &model) && !aclmdlRIExecuteAsync(model, stream);
    good = good && !aclrtSynchronizeStream(stream) && !aclrtMemcpy(y, 24, to, 24, 2);
    good = good && !memcmp(y, expected, 24) && !aclmdlRIDestroy(model);
    aclmdlDestroyDataset(in);
    aclmdlDestroyDataset(out);
    aclmdlDestroyDataset(few);
    for (int i = 0; i < 3; i++) aclDestroyDataBuffer(buffer[i]);
    return !aclrtDestroyStream(stream) && !aclrtFree(from) && !aclrtFree(to) && good;
}

int main(int argc, char **argv)
{
    uint32_t id = 0, other = 0;

    if (argc != 3) return 100;
    if (!model_functions_find(argv[1], argv[2])) return 1;
    if (aclInit(NULL) || aclrtSetDevice(0)) return 2;
    if (aclmdlLoadFromMem(om, om_size - 1, &id) != 100000) return 3; /* a part of it */
    if (aclmdlLoadFromMem("nothing", 7, &id) != 100000) return 4;
    if (aclmdlLoadFromMem(om, om_size, &id) || aclmdlLoadFromFile(argv[2], &other)) {
        printf("# %s\n", aclGetRecentErrMsg());
        return 5;
    }
    if (id == other || !test_description(id)) return 6;
    if (!test_runs(id) || !test_runs(other)) return 7;
    if (aclmdlUnload(id) || aclmdlUnload(id) != 100000 || aclmdlUnload(other)) return 8;
    setenv("BP_CANN_SOC", "Ascend310P3", 1);
    if (aclmdlLoadFromMem(om, om_size, &id) != 100000) return 9; /* made for another product */
    if (aclrtResetDevice(0)) return 10;
    base_live_print();
    return base_live() ? 11 : 0;
}
