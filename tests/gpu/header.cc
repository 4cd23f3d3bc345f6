/* SPDX-License-Identifier: Apache-2.0 */
/* header.cc: plugins/gpu/calls.def against a driver's own header, where there is one: each function is
 * declared there, and takes as many parameters, of the same sizes and kinds. Compiled only:
 * -DDRIVER_CUDA, or HIP's. */
#include "alike.h"

#ifdef DRIVER_CUDA
#include <cuda.h>
#define SAID(cuda, hip) cuda
#define GPU_WHERE void *
#else
#define __HIP_PLATFORM_AMD__
#define __HIP_DISABLE_CPP_FUNCTIONS__
#define SAID(cuda, hip) hip
#define GPU_WHERE int
#include <hip/hip_runtime_api.h>
#endif

#define CALL(name, cuda, hip, parameters) \
    int ours_##name parameters; \
    static_assert(decltype(of(&ours_##name))::like(&SAID(cuda, hip)), #name);
#include "gpu/calls.def"

/* The texts of codes: gpu_target.text. */
#ifdef DRIVER_CUDA
int ours_put(int code, const char **out);
static_assert(decltype(of(&ours_put))::like(&cuGetErrorString), "text");
#else
const char *ours_give(int code);
static_assert(decltype(of(&ours_give))::like(&hipGetErrorString), "text");
#endif

/* Numbers that plugins/gpu and the targets have. */
#ifdef DRIVER_CUDA
#if CUDA_VERSION < 13000 /* names that older headers may lack */
#define CUDA_ERROR_JIT_COMPILATION_DISABLED 223
#define CUDA_ERROR_CONTAINED 226
#define CUDA_ERROR_TENSOR_MEMORY_LEAK 721
#define CUDA_ERROR_MPS_CLIENT_TERMINATED 810
#define CUDA_ERROR_EXTERNAL_DEVICE 911
#endif
#define ERROR(code, cuda, status, text) static_assert(code == cuda, text);
#include "gpu/errors.def"
static_assert(CU_STREAM_CAPTURE_MODE_RELAXED == 2, "mode");
static_assert(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT == 16, "attribute");
static_assert((CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP) == 3 &&
                  CU_MEM_ATTACH_GLOBAL == 1 && CU_STREAM_NON_BLOCKING == 1 &&
                  CU_EVENT_DISABLE_TIMING == 2,
              "flags");
#else
static_assert(hipErrorOutOfMemory == 2 && hipErrorNoDevice == 100 && hipErrorInvalidDevice == 101 &&
                  hipErrorInvalidImage == 200 && hipErrorNoBinaryForGpu == 209 &&
                  hipErrorNotReady == 600 && hipErrorIllegalAddress == 700 &&
                  hipErrorPeerAccessAlreadyEnabled == 704 &&
                  hipErrorLaunchFailure == 719,
              "codes");
static_assert(hipErrorStreamCaptureUnsupported == 900 &&
                  hipErrorStreamCaptureInvalidated == 901 && hipErrorStreamCaptureIsolation == 905 &&
                  hipErrorCapturedEvent == 907 && hipStreamCaptureModeRelaxed == 2,
              "captures");
static_assert(hipDeviceAttributeMultiprocessorCount == 63, "attribute");
static_assert((hipHostMallocPortable | hipHostMallocMapped) == 3 && hipMemAttachGlobal == 1 &&
                  hipStreamNonBlocking == 1 && hipEventDisableTiming == 2,
              "flags");
#endif
