/* SPDX-License-Identifier: Apache-2.0 */
/* rtc.c: describes NVRTC and hiprtc, and compiles source text by them. */
#include "rtc.h"
#include <stdlib.h>
#include <string.h>

enum {
    LOG_SHOWN = 400
};

enum rtc_call {
#define CALL(result, name, nvrtc, hiprtc, parameters) RTC_##name,
#include "rtc.def"
};

#ifdef GPU_NVRTC
#define CALL(result, name, nvrtc, hiprtc, parameters) {#nvrtc, true},
#define KIT_LIST "gpu/rtc.def"
#define KIT_TABLE nvrtc_found
#define KIT_CALLS struct rtc_calls
#include <kit/table.h>

struct gpu_vendor gpu_nvrtc = {
    .name = "NVRTC", .id = GPU_VENDOR_NVRTC,
    .library = KIT_LIBRARY(nvrtc_found_symbols, nvrtc_found.function, NULL),
};
static const struct rtc_library nvrtc = {&gpu_nvrtc, &nvrtc_found.call};
#endif

#ifdef GPU_HIPRTC
#define CALL(result, name, nvrtc, hiprtc, parameters) {#hiprtc, true},
#define CALL_OF_ONE(result, name, nvrtc, hiprtc, parameters) {NULL, false},
#define KIT_LIST "gpu/rtc.def"
#define KIT_TABLE hiprtc_found
#define KIT_CALLS struct rtc_calls
#include <kit/table.h>

struct gpu_vendor gpu_hiprtc = {
    .name = "hiprtc", .id = GPU_VENDOR_HIPRTC,
    .library = KIT_LIBRARY(hiprtc_found_symbols, hiprtc_found.function, NULL),
};
static const struct rtc_library hiprtc = {&gpu_hiprtc, &hiprtc_found.call};
#endif

const struct rtc_library *rtc_of(int number)
{
    static const struct rtc_library *const libraries[] = {
#ifdef GPU_NVRTC
        [0] = &nvrtc,
#endif
#ifdef GPU_HIPRTC
        [1] = &hiprtc,
#endif
    };

    return libraries[number];
}

/* Whether a call of the library succeeded; otherwise logs its code. */
static bool rtc_good(const struct rtc_library *library, const struct gpu_device *device,
                     enum rtc_call call, int code)
{
    const char *function = library->vendor->library.symbol[call].name;
    struct kit_call made = gpu_call_made(device->gpu, device, function, code);

    if (code) kit_call_warn(&made, library->call->text(code));
    return code == 0;
}

/* Chooses from the architectures of NVRTC, all of which it lists: the device's own, or the newest
 * older one, whose PTX the driver compiles. 0: none. */
static int arch_choose(const struct rtc_library *library, const struct gpu_device *device, int own)
{
    int n = 0, best = 0, *archs;

    if (!rtc_good(library, device, RTC_n_arch, library->call->n_arch(&n)) || n <= 0) return 0;
    archs = calloc((size_t)n, sizeof *archs);
    if (archs && rtc_good(library, device, RTC_archs, library->call->archs(archs)))
        for (int i = 0; i < n; i++)
            if (archs[i] <= own && archs[i] > best) best = archs[i];
    free(archs);
    return best;
}

enum bp_status rtc_choose(const struct rtc_library *library, const struct gpu_device *device,
                          struct rtc_options *out)
{
    const char *digits = strpbrk(device->arch, "0123456789");
    int major = 0, minor = 0, own = digits ? atoi(digits) : 0, arch;
    bool good = gpu_vendor_open(library->vendor);

    if (good) good = rtc_good(library, device, RTC_version, library->call->version(&major, &minor));
    gpu_vendor_report(device->gpu, library->vendor, (uint64_t)major * 1000 + (uint64_t)minor * 10);
    if (!good) return BP_ERR_UNSUPPORTED;
    *out = (struct rtc_options){.is_ptx = false};
    snprintf(out->version, sizeof out->version, "%d.%d", major, minor);
    if (!library->call->n_arch) {
        snprintf(out->arch, sizeof out->arch, "--offload-arch=%s", device->arch);
        return BP_OK;
    }
    arch = arch_choose(library, device, own);
    out->is_ptx = arch != own;
    snprintf(out->arch, sizeof out->arch, "--gpu-architecture=%s_%d",
             out->is_ptx ? "compute" : "sm", arch);
    if (arch) return BP_OK;
    bp_log(device->gpu->host, BP_LOG_WARN, GPU_NAME ":%u: %s %s does not compile for %s",
           device->index, library->vendor->name, out->version, device->arch);
    return BP_ERR_UNSUPPORTED;
}

/* Logs the first lines of what the compiler said. */
static void rtc_log(const struct rtc_library *library, const struct gpu_device *device,
                    void *program)
{
    size_t size = 0;
    char *text;

    if (library->call->log_size(program, &size) || !size) return;
    text = calloc(1, size + 1);
    if (text && !library->call->log(program, text))
        bp_log(device->gpu->host, BP_LOG_WARN, GPU_NAME ":%u: %s says: %.*s", device->index,
               library->vendor->name, LOG_SHOWN, text);
    free(text);
}

/* Copies the code of a compiled program to memory from malloc. NULL: failed, and logged. */
static unsigned char *rtc_code(const struct rtc_library *library, const struct gpu_device *device,
                               bool is_ptx, void *program, size_t *out_size)
{
    const struct rtc_calls *call = library->call;
    unsigned char *code;
    size_t size = 0;

    if (!rtc_good(library, device, is_ptx ? RTC_ptx_size : RTC_code_size,
                  is_ptx ? call->ptx_size(program, &size) : call->code_size(program, &size)) ||
        !size)
        return NULL;
    code = malloc(size);
    if (code &&
        rtc_good(library, device, is_ptx ? RTC_ptx : RTC_code,
                 is_ptx ? call->ptx(program, (char *)code) : call->code(program, (char *)code))) {
        *out_size = size;
        return code;
    }
    free(code);
    return NULL;
}

enum bp_status rtc_compile(const struct rtc_library *library, const struct gpu_device *device,
                           const struct rtc_options *options, const char *source,
                           unsigned char **out, size_t *out_size)
{
    /* C++17 has the hexadecimal numbers of the sources. */
    const char *const option[] = {options->arch, "-std=c++17"};
    unsigned char *code = NULL;
    void *program = NULL;

    if (!rtc_good(library, device, RTC_create,
                  library->call->create(&program, source, "fused.cu", 0, NULL, NULL)))
        return BP_ERR_UNSUPPORTED;
    if (rtc_good(library, device, RTC_compile, library->call->compile(program, 2, option)))
        code = rtc_code(library, device, options->is_ptx, program, out_size);
    else rtc_log(library, device, program);
    rtc_good(library, device, RTC_destroy, library->call->destroy(&program));
    *out = code;
    return code ? BP_OK : BP_ERR_UNSUPPORTED;
}
