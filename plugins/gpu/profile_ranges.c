/* SPDX-License-Identifier: Apache-2.0 */
/* profile_ranges.c: passes the app's ranges and marks to the vendor's tools by NVTX or roctx. Tools
 * on NVIDIA devices name a library in NVTX_INJECTION64_PATH; programs that include NVTX 3 load that
 * library, and so does the plugin. Without it the plugin uses the library of NVTX 2 if the process
 * has loaded it: on its own that library does nothing. */
#include "nvtx.h"
#include "profile.h"
#include <dlfcn.h>
#include <stdlib.h>

struct range_calls {
#define CALL(name, nvtx, roctx, result, parameters) result(*name) parameters;
#include "ranges.def"
};

/* The functions of the tool. Written once. */
static struct {
    pthread_mutex_t lock;
    atomic_bool tried;
    struct range_calls call;
} ranges = {.lock = PTHREAD_MUTEX_INITIALIZER};

#ifdef GPU_NVTX
static const struct kit_symbol nvtx_symbols[] = {
#define CALL(name, nvtx, roctx, result, parameters) {#nvtx, true},
#include "ranges.def"
};
static union {
    void *function[sizeof nvtx_symbols / sizeof *nvtx_symbols];
    struct range_calls call;
} nvtx_found;
static struct kit_library nvtx = KIT_LIBRARY(nvtx_symbols, nvtx_found.function, NULL);

/* The places where the tool writes its functions. */
static void (*injected[NVTX_FUNCTIONS])(void);

static int nvtx_functions(int module, void (****out)(void), unsigned *out_size)
{
    static void (**table[NVTX_FUNCTIONS + 1])(void);

    if (module != NVTX_CORE) return 0;
    for (int i = 1; i < NVTX_FUNCTIONS; i++) table[i] = &injected[i];
    *out = table;
    *out_size = NVTX_FUNCTIONS;
    return 1;
}

static const void *nvtx_tables(uint32_t table)
{
    static const struct nvtx_callbacks callbacks = {sizeof callbacks, nvtx_functions};

    return table == NVTX_CALLBACKS ? &callbacks : NULL;
}

/* Lets the tool's library take the calls. false: there is no tool. */
static bool nvtx_inject(const struct bp_host *host)
{
    const char *path = secure_getenv("NVTX_INJECTION64_PATH");
    void *library = path && *path ? dlopen(path, RTLD_LAZY) : NULL;
    nvtx_initialize *begin = NULL;

    if (!path || !*path) return false;
    if (library) *(void **)&begin = dlsym(library, NVTX_INITIALIZE);
    if (begin && begin(nvtx_tables)) {
        ranges.call.push = (__typeof__(ranges.call.push))injected[NVTX_PUSH];
        ranges.call.pop = (__typeof__(ranges.call.pop))injected[NVTX_POP];
        ranges.call.mark = (__typeof__(ranges.call.mark))injected[NVTX_MARK];
        return true;
    }
    bp_log(host, BP_LOG_WARN, GPU_NAME ": NVTX_INJECTION64_PATH: %s: %s: its tool sees no ranges",
           path,
           !library ? "it cannot be opened"
           : begin  ? NVTX_INITIALIZE " answers 0"
                    : "it has no function " NVTX_INITIALIZE);
    return false;
}

static bool nvtx_begin(const struct bp_host *host)
{
    static const enum kit_place place[] = {KIT_LOADED, KIT_PLACES};
    const struct kit_wanted wanted = {GPU_NAME, "NVTX", gpu_target.vendor[GPU_VENDOR_NVTX],
                                      gpu_target.folders, place};

    if (nvtx_inject(host)) return true;
    if (kit_library_load(&nvtx, &wanted)) return false;
    ranges.call = nvtx_found.call;
    return true;
}
#endif

#ifdef GPU_ROCTX
static const struct kit_symbol roctx_symbols[] = {
#define CALL(name, nvtx, roctx, result, parameters) {#roctx, true},
#include "ranges.def"
};
static union {
    void *function[sizeof roctx_symbols / sizeof *roctx_symbols];
    struct range_calls call;
} roctx_found;
static struct gpu_vendor roctx = {
    .name = "roctx",
    .id = GPU_VENDOR_ROCTX,
    .library = KIT_LIBRARY(roctx_symbols, roctx_found.function, NULL),
};

static bool roctx_begin(const struct bp_host *host)
{
    (void)host;
    if (!gpu_vendor_open(&roctx)) return false;
    ranges.call = roctx_found.call;
    return true;
}
#endif

static void ranges_find(const struct gpu *gpu)
{
    bool found = false;

    pthread_mutex_lock(&ranges.lock);
    if (!ranges.tried) {
#ifdef GPU_NVTX
        found = nvtx_begin(gpu->host);
#endif
#ifdef GPU_ROCTX
        if (!found) roctx_begin(gpu->host);
#endif
        (void)found;
        atomic_store_explicit(&ranges.tried, true, memory_order_release);
    }
    pthread_mutex_unlock(&ranges.lock);
}

void gpu_range_begin(void *self, const char *name)
{
    if (!atomic_load_explicit(&ranges.tried, memory_order_acquire)) ranges_find(self);
    if (ranges.call.push) ranges.call.push(name);
}

/* A range that began before the plugin could pass it on ends without the tool. */
void gpu_range_end(void *self)
{
    (void)self;
    if (atomic_load_explicit(&ranges.tried, memory_order_acquire) && ranges.call.pop)
        ranges.call.pop();
}

void gpu_mark(void *self, const char *name)
{
    if (!atomic_load_explicit(&ranges.tried, memory_order_acquire)) ranges_find(self);
    if (ranges.call.mark) ranges.call.mark(name);
}
