/* SPDX-License-Identifier: Apache-2.0 */
/* header.cc: compares plugins/gpu/calls.def with a driver's own header, where there is one. Each
 * function must be declared there, with the same number of parameters of the same sizes and kinds.
 * The file is only compiled: -DDRIVER_CUDA, or otherwise for HIP. */
#include "alike.h"

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* cuDeviceGetProperties: not called */

#ifdef DRIVER_CUDA
#include <cuda.h>
#define DECLARED(cuda, hip) cuda
#define GPU_WHERE void *
#else
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__
#define DECLARED(cuda, hip) hip
#define GPU_WHERE int
#define GPU_RETURNS_TEXT
#include <hip/hip_runtime_api.h>
#endif

#if defined(DRIVER_CUDA) && CUDA_VERSION < 12010 /* in headers of newer drivers only */
extern "C" CUresult cuCtxSetFlags(unsigned);
#endif

#define CALL(name, cuda, hip, parameters) \
    int ours_##name parameters; \
    static_assert(decltype(of(&ours_##name))::like(&DECLARED(cuda, hip)), #name);
#define CALL_OPTIONAL(result, name, cuda, hip, parameters) \
    result ours_##name parameters; \
    static_assert(decltype(of(&ours_##name))::like(&DECLARED(cuda, hip)), #name);
#include "gpu/calls.def"

/* Checks the marks between the parameters of a launch; the last mark comes from the target. C++ has
 * no constants that are addresses made of numbers, so the number is read from the header's text, as
 * "((void*)0x01)". */
#define TEXT_OF(...) #__VA_ARGS__
#define TEXT(...) TEXT_OF(__VA_ARGS__)
constexpr bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}
constexpr int number_in(const char *text)
{
    while (*text && *text != '*') text++;
    while (*text && !is_digit(*text)) text++;
    if (!*text) return -1;
    if (text[0] == '0' && text[1] == 'x') text += 2;
    while (*text == '0' && is_digit(text[1])) text++;
    return is_digit(text[1]) ? -1 : *text - '0';
}
static_assert(number_in(TEXT(DECLARED(CU_LAUNCH_PARAM_BUFFER_POINTER,
                                  HIP_LAUNCH_PARAM_BUFFER_POINTER))) == 1, "mark");
static_assert(number_in(TEXT(DECLARED(CU_LAUNCH_PARAM_BUFFER_SIZE, HIP_LAUNCH_PARAM_BUFFER_SIZE))) == 2,
              "mark");
static_assert(number_in(TEXT(DECLARED(CU_LAUNCH_PARAM_END, HIP_LAUNCH_PARAM_END))) == DECLARED(0, 3),
              "mark");

/* Checks the numbers that plugins/gpu and the targets use. */
#ifdef DRIVER_CUDA
#if CUDA_VERSION < 13000 /* names that older headers may lack */
#define CUDA_ERROR_JIT_COMPILATION_DISABLED 223
#define CUDA_ERROR_CONTAINED 226
#define CUDA_ERROR_TENSOR_MEMORY_LEAK 721
#define CUDA_ERROR_MPS_CLIENT_TERMINATED 810
#define CUDA_ERROR_EXTERNAL_DEVICE 911
#endif
#define ERROR(code, cuda, hip, status, text) static_assert(code == cuda, text);
#include "gpu/errors.def"
static_assert(CU_STREAM_CAPTURE_MODE_RELAXED == 2, "mode");
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16 &&
                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR == 75 &&
                  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR == 76 &&
                  CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY == 83 &&
                  CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS == 89,
              "attributes");
static_assert((CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) == 3 &&
                  CU_MEM_ATTACH_GLOBAL == 1 && CU_STREAM_NON_BLOCKING == 1 &&
                  CU_EVENT_DISABLE_TIMING == 2 && CU_EVENT_BLOCKING_SYNC == 1 &&
                  CU_CTX_SCHED_BLOCKING_SYNC == 4,
              "flags");
#else
#define ERROR(code, cuda, hip, status, text) static_assert((hip) == 0 || code == (hip), text);
#include "gpu/errors.def"
static_assert(hipStreamCaptureModeRelaxed == 2, "mode");
static_assert(hipDeviceAttributeMultiprocessorCount == 63 &&
                  hipDeviceAttributeManagedMemory == 24 &&
                  hipDeviceAttributeConcurrentManagedAccess == 9,
              "attributes");
static_assert(sizeof(hipDeviceProp_t) < 16384, "a description");
static_assert((hipHostMallocPortable | hipHostMallocMapped) == 3 && hipMemAttachGlobal == 1 &&
                  hipStreamNonBlocking == 1 && hipEventDisableTiming == 2 &&
                  hipEventBlockingSync == 1 && hipDeviceScheduleBlockingSync == 4,
              "flags");
#endif
