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

/* Numbers that plugins/gpu and the targets have. */
#ifdef DRIVER_CUDA
static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_STUB_LIBRARY == 34 &&
                  CUDA_ERROR_NO_DEVICE == 100 && CUDA_ERROR_INVALID_IMAGE == 200 &&
                  CUDA_ERROR_NO_BINARY_FOR_GPU == 209 && CUDA_ERROR_NOT_READY == 600 &&
                  CUDA_ERROR_ILLEGAL_ADDRESS == 700 &&
                  CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED == 704 && CUDA_ERROR_LAUNCH_FAILED == 719,
              "codes");
static_assert(CUDA_ERROR_ILLEGAL_STATE == 401 && CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED == 900 &&
                  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED == 901 &&
                  CUDA_ERROR_STREAM_CAPTURE_UNJOINED == 904 &&
                  CUDA_ERROR_STREAM_CAPTURE_ISOLATION == 905 && CUDA_ERROR_CAPTURED_EVENT == 907,
              "codes of captures");
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
