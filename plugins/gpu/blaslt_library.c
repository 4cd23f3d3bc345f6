/* SPDX-License-Identifier: Apache-2.0 */
/* blaslt_library.c: describes cuBLASLt and hipBLASLt to the other blaslt files, and defines the
 * prepare functions of their kernel rows. */
#include "blaslt_plan.h"

#ifdef GPU_CUBLASLT
#define CALL(result, verb, parameters) {"cublasLt" #verb, true},
#define CALL_OR_NONE(result, verb, parameters) {"cublasLt" #verb, false},
#define KIT_LIST "gpu/blaslt.def"
#define KIT_TABLE cublaslt_found
#define KIT_CALLS struct blaslt_calls
#define KIT_MORE struct gpu_vendor_calls first;
#include <kit/table.h>

static size_t cublaslt_version(void)
{
    return cublaslt_found.call.GetVersion ? cublaslt_found.call.GetVersion() : 0;
}

struct gpu_vendor gpu_cublaslt = {
    .name = "cuBLASLt", .id = GPU_VENDOR_CUBLASLT, .calls = &cublaslt_found.first,
    .library = KIT_LIBRARY(cublaslt_found_symbols, cublaslt_found.function, NULL),
    .version = cublaslt_version, .forget = blaslt_forget,
};

static const struct blaslt_library cublaslt = {
    .vendor = &gpu_cublaslt,
    .call = &cublaslt_found.call,
    .number = {
#define NUMBER(name, cublaslt, hipblaslt) .name = cublaslt,
#include "blaslt_numbers.def"
    },
};

enum bp_status gpu_cublaslt_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    return blaslt_prepare(&cublaslt, self, prep, out);
}
#endif

#ifdef GPU_HIPBLASLT
#define CALL(result, verb, parameters) {"hipblasLt" #verb, true},
#define CALL_OF_ONE(result, verb, parameters) {NULL, false},
#define KIT_LIST "gpu/blaslt.def"
#define KIT_TABLE hipblaslt_found
#define KIT_CALLS struct blaslt_calls
#define KIT_MORE struct gpu_vendor_calls first;
#include <kit/table.h>

static const char *hipblaslt_text(int code)
{
    static const char *const text[] = {
        "success", "it is not initialised", "an allocation failed", "a wrong value",
        "memory cannot be reached", "the device failed", "an internal error", "not supported",
        "the device is of another architecture", "no handle", "a wrong constant",
        "a failure that it has no name for"};

    return code >= 0 && (size_t)code < sizeof text / sizeof *text ? text[code] : "a failure";
}

static union hipblaslt_found hipblaslt_found = {.first = {.text = hipblaslt_text}};

/* Each stream has its own handle: a handle owns device memory by which the parts of a product
 * synchronize. */
struct gpu_vendor gpu_hipblaslt = {
    .name = "hipBLASLt", .id = GPU_VENDOR_HIPBLASLT, .calls = &hipblaslt_found.first,
    .library = KIT_LIBRARY(hipblaslt_found_symbols, hipblaslt_found.function, NULL),
    .for_streams = true, .forget = blaslt_forget,
};

static const struct blaslt_library hipblaslt = {
    .vendor = &gpu_hipblaslt,
    .call = &hipblaslt_found.call,
    .number = {
#define NUMBER(name, cublaslt, hipblaslt) .name = hipblaslt,
#include "blaslt_numbers.def"
    },
    .narrow = true,
    .writes = true,
};

enum bp_status gpu_hipblaslt_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    return blaslt_prepare(&hipblaslt, self, prep, out);
}
#endif
