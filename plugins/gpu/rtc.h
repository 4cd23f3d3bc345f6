/* SPDX-License-Identifier: Apache-2.0 */
/* rtc.h: declares how the plugins compile kernels of `fused` at run time, by NVRTC or hiprtc, and
 * keep these kernels. */
#ifndef GPU_RTC_H
#define GPU_RTC_H

#include "vendor.h"
#include <dialect/program_cache.h>

/* The functions of a library; those that the library lacks are NULL. */
struct rtc_calls {
#define CALL(result, name, nvrtc, hiprtc, parameters) result(*name) parameters;
#include "rtc.def"
};

struct rtc_library {
    struct gpu_vendor *vendor;
    const struct rtc_calls *call;
};

/* rtc.c: returns the library of a row's number. */
const struct rtc_library *rtc_of(int number);

/* How a library compiles for a device: code for its architecture, or PTX for an older one. */
struct rtc_options {
    char arch[GPU_ARCH + 24];
    bool is_ptx;
    char version[24]; /* of the library */
};

/* Finds the options for a device. BP_ERR_UNSUPPORTED: the library is missing, or does not compile
 * for the device; the reason has been logged. */
enum bp_status rtc_choose(const struct rtc_library *library, const struct gpu_device *device,
                          struct rtc_options *out);
/* Compiles source text; *out is from malloc. BP_ERR_UNSUPPORTED: the library failed, and what it
 * said has been logged. */
enum bp_status rtc_compile(const struct rtc_library *library, const struct gpu_device *device,
                           const struct rtc_options *options, const char *source,
                           unsigned char **out, size_t *out_size);

/* A compiled kernel. Kernels exist until the device is closed, because recorded launches may
 * outlive the plan that made the kernel. */
struct rtc_kernel {
    struct rtc_kernel *next;
    const struct rtc_library *library;
    enum portable_type type;
    void *module, *function; /* NULL: the kernel cannot be compiled or loaded */
    char *text;
};

/* rtc_kernel.c: returns the kernel of this text, which is compiled or read from the cache if the
 * device does not have it. BP_ERR_UNSUPPORTED: another row must compute the call; the reason has
 * been logged. The device's context is current. */
enum bp_status rtc_get(const struct rtc_library *library, struct gpu_device *device,
                       enum portable_type type, const char *text, const struct rtc_kernel **out);
/* rtc_source.c: returns the source of a kernel: the text behind the functions that it calls, for
 * compilers that have no headers. In memory from malloc; NULL: out of memory. */
char *rtc_source(enum portable_type type, const char *text);

#endif
