/* SPDX-License-Identifier: Apache-2.0 */
/* library.c: opens the driver's library, loads its functions and translates its error codes. */
#include "gpu.h"
#include <kit/library.h>
#include <string.h>

/* The number of a function is its index in struct gpu_calls. */
_Static_assert(sizeof(struct gpu_calls) == GPU_CALLS * sizeof(void *), "functions alone");

static const enum {
    NEEDED,
    OF_CAPTURES,
    OPTIONAL
} use[GPU_CALLS] = {
#define CALL(name, cuda, hip, parameters) [GPU_CALL_##name] = NEEDED,
#define CALL_OR_NONE(name, cuda, hip, parameters) [GPU_CALL_##name] = OF_CAPTURES,
#define CALL_OPTIONAL(result, name, cuda, hip, parameters) [GPU_CALL_##name] = OPTIONAL,
#include "calls.def"
};

enum {
    OWN_CALLS = 32
}; /* the most further functions of a target */

/* Lists the functions to look up, and those of the target that replace some of them. Returns their
 * number. */
static int library_list(struct kit_symbol *symbol, void **function)
{
    const struct gpu_own *own = gpu_target.own;

    if (own) memcpy(function, &own->call, sizeof own->call);
    for (int i = 0; i < GPU_CALLS; i++)
        symbol[i] = (struct kit_symbol){function[i] ? NULL : gpu_target.symbol[i],
                                        use[i] == NEEDED};
    if (own) memcpy(&symbol[GPU_CALLS], own->symbol, (size_t)own->n * sizeof *symbol);
    return GPU_CALLS + (own ? own->n : 0);
}

/* Passes the further functions to the target, if the library is its own. */
static enum bp_status library_pass(const struct gpu *gpu, const struct kit_library *driver)
{
    const struct gpu_own *own = gpu_target.own;

    if (!own->fits(driver->path))
        return bp_fail(gpu->host, BP_ERR_ABSENT, GPU_NAME ": %s (%s: %s)", gpu_target.no_driver,
                       driver->path, own->unfit);
    memcpy(own->function, &driver->function[GPU_CALLS], (size_t)own->n * sizeof *own->function);
    return BP_OK;
}

/* The system's loader is first: it often does not know the folders of ROCm. A library whose name
 * belongs to another vendor too is searched for in folders only. */
enum bp_status gpu_library_open(struct gpu *gpu)
{
    static const enum kit_place usual[] = {KIT_LOADER, KIT_FOLDERS, KIT_PLACES},
                                shared[] = {KIT_PATH, KIT_FOLDERS, KIT_PLACES};
    const struct kit_wanted wanted = {GPU_NAME, "DRIVER", gpu_target.libraries,
                                      gpu_target.driver_folders, gpu_target.own ? shared : usual};
    void *function[GPU_CALLS + OWN_CALLS] = {NULL};
    struct kit_symbol symbol[GPU_CALLS + OWN_CALLS];
    struct kit_library driver = KIT_LIBRARY(symbol, function, ": a newer driver is needed");
    enum bp_status status;

    driver.n = library_list(symbol, function);
    status = kit_library_load(&driver, &wanted);
    if (status == BP_ERR_ABSENT)
        return bp_fail(gpu->host, status, GPU_NAME ": %s (%s)", gpu_target.no_driver, driver.why);
    if (status) return bp_fail(gpu->host, status, GPU_NAME ": the driver's %s", driver.why);
    if (gpu_target.own) TRY(library_pass(gpu, &driver));
    for (int i = 0; i < GPU_CALLS; i++)
        if (!function[i] && use[i] == OF_CAPTURES) gpu->lacks = gpu_target.symbol[i];
    memcpy(&gpu->call, function, sizeof gpu->call);
    return BP_OK;
}

static const struct kit_error known[] = {
#define ERROR(code, cuda, hip, status, text) {code, status, text},
#include "errors.def"
};

/* The driver's text for a code; NULL: the driver has none. */
static const char *library_text(const void *of, int code)
{
    const struct gpu *gpu = of;
    const char *text = NULL;

    if (!gpu->call.error_text) return NULL;
#ifdef GPU_RETURNS_TEXT
    text = gpu->call.error_text(code);
#else
    if (gpu->call.error_text(code, &text) != GPU_SUCCESS) text = NULL;
#endif
    return text;
}

static const struct kit_errors errors = {known, sizeof known / sizeof *known, library_text};

/* Whether the function waits for work of the device: its code then reports a failure of that
 * work. */
static bool is_wait(enum gpu_call call)
{
    return call == GPU_CALL_context_synchronize || call == GPU_CALL_stream_synchronize ||
           call == GPU_CALL_event_synchronize || call == GPU_CALL_event_query;
}

/* Advice for the codes of PTX that cannot be compiled; NULL: another code. */
static const char *help_with_ptx(int code)
{
    switch (code) {
    case GPU_INVALID_PTX:
    case GPU_NEWER_PTX: return "install a newer driver";
    case GPU_NO_PTX_COMPILER: return "install that library, which is a part of the driver";
    case GPU_PTX_DISABLED: return "do not set CUDA_DISABLE_PTX_JIT";
    default: return NULL;
    }
}

/* Writes advice, or an empty string. */
static void put_advice(char out[KIT_ADVICE_SIZE], const struct gpu *gpu,
                       const struct kit_error *error)
{
    const char *help = help_with_ptx(error->code);

    *out = 0;
    if (error->status == BP_ERR_DEVICE_LOST && gpu_target.lost)
        snprintf(out, KIT_ADVICE_SIZE, "%s", gpu_target.lost);
    if (help && gpu_target.ptx)
        snprintf(out, KIT_ADVICE_SIZE,
                 "the driver is %s %d.%d, the PTX is %s: %s, or build with -Dgpu_" GPU_NAME
                 "=NN for this device",
                 gpu_target.driver, gpu->version / gpu_target.major,
                 gpu->version % gpu_target.major / gpu_target.minor, gpu_target.ptx, help);
}

struct kit_call gpu_call_made(const struct gpu *gpu, const struct gpu_device *device,
                              const char *function, int code)
{
    struct kit_call call = {gpu->host, GPU_NAME, device ? (int64_t)device->index : -1,
                            function,  code,     NULL};

    kit_call_trace(&call);
    return call;
}

enum bp_status gpu_check(const struct gpu *gpu, const struct gpu_device *device, enum gpu_call call,
                         int code)
{
    return gpu_check_named(gpu, device, call, gpu_target.symbol[call], code);
}

enum bp_status gpu_check_named(const struct gpu *gpu, const struct gpu_device *device,
                               enum gpu_call call, const char *function, int code)
{
    struct kit_call made;
    char advice[KIT_ADVICE_SIZE];
    struct kit_error error;

    if (__builtin_expect(code == GPU_SUCCESS && !kit_is_traced(), 1)) return BP_OK;
    made = gpu_call_made(gpu, device, function, code);
    if (code == GPU_SUCCESS) return BP_OK;
    error = kit_error_find(&errors, gpu, code);
    if (error.status == BP_ERR_ABSENT && device) error.status = BP_ERR_DEVICE;
    if (code == GPU_UNKNOWN && is_wait(call)) error.status = BP_ERR_DEVICE_LOST;
    if (error.status == BP_ERR_ABSENT) made.about = gpu_target.no_device;
    if (device) put_advice(advice, gpu, &error);
    else kit_nodes_advice(GPU_NAME, gpu_target.nodes, advice);
    return kit_call_fail(&made, error.status, error.text, advice);
}

void gpu_note(const struct gpu_device *device, enum gpu_call call, int code)
{
    struct kit_call made;

    if (__builtin_expect(code == GPU_SUCCESS && !kit_is_traced(), 1)) return;
    made = gpu_call_made(device->gpu, device, gpu_target.symbol[call], code);
    if (code != GPU_SUCCESS && code != GPU_SHUT_DOWN)
        kit_call_warn(&made, kit_error_find(&errors, device->gpu, code).text);
}
