/* SPDX-License-Identifier: Apache-2.0 */
/* test_load.c: tests that dlopen finds the stand-ins for Cambricon's libraries under the names of
 * the real ones, and in them the functions of their lists. Arguments: the paths of the libraries:
 * libcnrt.so, libcncl.so, libcnnl.so, libcnrt.so with few functions, and an old one. */
#include "cncl.h"
#include "cnnl.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int number, failed;

static void load_report(bool good, const char *what)
{
    printf("%s %d - %s\n", good ? "ok" : "not ok", ++number, what);
    failed += !good;
}

static const char *const runtime[] = {
#define CALL(result, name, parameters) #name,
#include "cnrt.def"
};
static const char *const collectives[] = {
#define CALL(result, name, parameters) #name,
#include "cncl.def"
};
static const char *const operators[] = {
#define CALL(result, name, parameters) #name,
#include "cnnl.def"
};

/* Whether a library has all functions of a list, under a file name that it was built with. */
static bool library_has(const char *path, const char *file, const char *const *names, size_t n)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *base = strrchr(path, '/');
    bool good = library && base && !strcmp(base + 1, file);

    if (!library) printf("# %s\n", dlerror());
    for (size_t i = 0; i < n && good; i++) {
        good = dlsym(library, names[i]) != NULL;
        if (!good) printf("# %s has no %s\n", path, names[i]);
    }
    if (library) dlclose(library);
    return good;
}

/* Whether a library can be opened and lacks all of these functions. */
static bool library_lacks(const char *path, const char *const *names, size_t n)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    bool good = library;

    for (size_t i = 0; i < n && good; i++) good = !dlsym(library, names[i]);
    if (library) dlclose(library);
    return good;
}

int main(int argc, char **argv)
{
    static const char *const absent[] = {"cnrtMemcpyAsync", "cnrtMallocAsync", "cnrtQueueQuery",
                                         "cnrtQueueBeginCapture", "cnrtTaskTopoDestroy"};
    static const char *const present[] = {"cnrtMemcpyAsync_V3", "cnrtQueueCreate", "cnrtFree"};
    static const char *const new[] = {"cnrtGetLibVersion", "cnrtQueueCreate", "cnrtNotifierCreate",
                                      "cnrtQueueSync"};
    static const char *const unknown[] = {"cnnlSoftplusForward", "cnnlArange_v2", "cnnlOneHot",
                                          "cnnlNumTrue",         "cnnlWhere_v2",  "cnnlRoll",
                                          "cnnlClip_v3"};

    if (argc != 6) return 2;
    /* Each library is closed again: the others would use a runtime that is loaded already, an old
     * one too. */
    load_report(library_lacks(argv[5], new, 4), "an old runtime has other names");
    load_report(library_lacks(argv[4], absent, 5) && library_has(argv[4], "libcnrt.so", present, 3),
                "a runtime with fewer functions");
    load_report(library_has(argv[1], "libcnrt.so", runtime, sizeof runtime / sizeof *runtime),
                "the runtime");
    load_report(
        library_has(argv[2], "libcncl.so", collectives, sizeof collectives / sizeof *collectives),
        "collectives");
    load_report(library_has(argv[3], "libcnnl.so", operators, sizeof operators / sizeof *operators),
                "operators");
    load_report(library_lacks(argv[3], unknown, sizeof unknown / sizeof *unknown),
                "operators with unknown arguments are absent");
    printf("1..%d\n", number);
    return failed != 0;
}
