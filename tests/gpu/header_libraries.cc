/* SPDX-License-Identifier: Apache-2.0 */
/* header_libraries.cc: compares plugins/gpu/blaslt.def, cudnn.def, rtc.def and cupti.def, and the
 * numbers and layouts that belong to them, with the libraries' own headers, where they exist. The
 * file is only compiled: -DLIBRARY_CUBLASLT, cuDNN's, NVRTC's, CUPTI's, NVTX's or NCCL's. rocBLAS has no package here: its prototypes are those of
 * its published sources. */
#include "alike.h"

#ifdef LIBRARY_CUBLASLT
#include "gpu/blaslt.h"
#include <cublasLt.h>

#define CALL(result, verb, parameters) \
    static_assert(decltype(of((blaslt_##verb *)nullptr))::like(&cublasLt##verb), #verb);
#include "gpu/blaslt.def"

constexpr blaslt_numbers number = {
#define NUMBER(name, cublaslt, hipblaslt) cublaslt,
#include "gpu/blaslt_numbers.def"
};

static_assert(number.algorithm_size == sizeof(cublasLtMatmulAlgo_t) &&
                  number.algorithm_size + sizeof(blaslt_rest) ==
                      sizeof(cublasLtMatmulHeuristicResult_t) &&
                  number.algorithm_size + offsetof(blaslt_rest, workspace) ==
                      offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
                  number.algorithm_size + offsetof(blaslt_rest, state) ==
                      offsetof(cublasLtMatmulHeuristicResult_t, state),
              "structures");
static_assert(BLASLT_F32 == (int)CUDA_R_32F && BLASLT_F64 == (int)CUDA_R_64F &&
                  BLASLT_F16 == (int)CUDA_R_16F && BLASLT_BF16 == (int)CUDA_R_16BF &&
                  number.sum_f32 == (int)CUBLAS_COMPUTE_32F &&
                  number.sum_f64 == (int)CUBLAS_COMPUTE_64F &&
                  number.sum_tf32 == (int)CUBLAS_COMPUTE_32F_FAST_TF32,
              "types");
static_assert(number.operation_trans_a == (int)CUBLASLT_MATMUL_DESC_TRANSA &&
                  number.operation_trans_a + 1 == (int)CUBLASLT_MATMUL_DESC_TRANSB &&
                  number.operation_epilogue == (int)CUBLASLT_MATMUL_DESC_EPILOGUE &&
                  number.operation_bias == (int)CUBLASLT_MATMUL_DESC_BIAS_POINTER &&
                  number.layout_batch == (int)CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
                  number.layout_step == (int)CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
              "attributes");
static_assert(BLASLT_PREFER_WORKSPACE == (int)CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
                  number.prefer_reduction == (int)CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK &&
                  number.prefer_alignment_a == (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
                  number.prefer_alignment_a + 3 ==
                      (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
              "preferences");
static_assert(number.transposed == (int)CUBLAS_OP_T && BLASLT_ADD_BIAS == (int)CUBLASLT_EPILOGUE_BIAS &&
                  BLASLT_REDUCE_NOTHING == (int)CUBLASLT_REDUCTION_SCHEME_NONE &&
                  BLASLT_REDUCE_IN_SUMS == (int)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE &&
                  number.not_supported == (int)CUBLAS_STATUS_NOT_SUPPORTED,
              "values");
#elif defined(LIBRARY_NVRTC)
#include <nvrtc.h>

#define CALL(result, name, nvrtc, hiprtc, parameters) \
    using rtc_##name = result parameters; \
    static_assert(decltype(of((rtc_##name *)nullptr))::like(&nvrtc), #nvrtc);
#include "gpu/rtc.def"
#elif defined(LIBRARY_CUPTI)
#include "gpu/cupti.h"
#include <cupti.h>

#define CALL(name, parameters) \
    static_assert(decltype(of((gpu_##name *)nullptr))::like(&name), #name);
#include "gpu/cupti.def"

#define SAME(type, own, theirs, field) \
    static_assert(offsetof(cupti_##type, own) == offsetof(theirs, field) && \
                      sizeof(cupti_##type::own) == sizeof(theirs::field), \
                  #theirs " " #field);
SAME(kernel, start, CUpti_ActivityKernel10, start)
SAME(kernel, end, CUpti_ActivityKernel10, end)
SAME(kernel, device, CUpti_ActivityKernel10, deviceId)
SAME(kernel, context, CUpti_ActivityKernel10, contextId)
SAME(kernel, stream, CUpti_ActivityKernel10, streamId)
SAME(kernel, correlation, CUpti_ActivityKernel10, correlationId)
SAME(kernel, name, CUpti_ActivityKernel10, name)
SAME(copy, bytes, CUpti_ActivityMemcpy6, bytes)
SAME(copy, start, CUpti_ActivityMemcpy6, start)
SAME(copy, end, CUpti_ActivityMemcpy6, end)
SAME(copy, device, CUpti_ActivityMemcpy6, deviceId)
SAME(copy, stream, CUpti_ActivityMemcpy6, streamId)
SAME(copy, correlation, CUpti_ActivityMemcpy6, correlationId)
SAME(copy_peer, bytes, CUpti_ActivityMemcpyPtoP4, bytes)
SAME(copy_peer, stream, CUpti_ActivityMemcpyPtoP4, streamId)
SAME(copy_peer, correlation, CUpti_ActivityMemcpyPtoP4, correlationId)
SAME(fill, bytes, CUpti_ActivityMemset4, bytes)
SAME(fill, start, CUpti_ActivityMemset4, start)
SAME(fill, device, CUpti_ActivityMemset4, deviceId)
SAME(fill, stream, CUpti_ActivityMemset4, streamId)
SAME(fill, correlation, CUpti_ActivityMemset4, correlationId)
SAME(memory, operation, CUpti_ActivityMemory4, memoryOperationType)
SAME(memory, bytes, CUpti_ActivityMemory4, bytes)
SAME(memory, time, CUpti_ActivityMemory4, timestamp)
SAME(memory, device, CUpti_ActivityMemory4, deviceId)
SAME(memory, context, CUpti_ActivityMemory4, contextId)
SAME(synchronization, type, CUpti_ActivitySynchronization2, type)
SAME(synchronization, start, CUpti_ActivitySynchronization2, start)
SAME(synchronization, end, CUpti_ActivitySynchronization2, end)
SAME(synchronization, context, CUpti_ActivitySynchronization2, contextId)
SAME(synchronization, stream, CUpti_ActivitySynchronization2, streamId)
SAME(external, external_kind, CUpti_ActivityExternalCorrelation, externalKind)
SAME(external, external, CUpti_ActivityExternalCorrelation, externalId)
SAME(external, correlation, CUpti_ActivityExternalCorrelation, correlationId)
static_assert(CUPTI_KERNEL == (int)CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
                  CUPTI_COPY == (int)CUPTI_ACTIVITY_KIND_MEMCPY &&
                  CUPTI_COPY_PEER == (int)CUPTI_ACTIVITY_KIND_MEMCPY2 &&
                  CUPTI_FILL == (int)CUPTI_ACTIVITY_KIND_MEMSET &&
                  CUPTI_MEMORY == (int)CUPTI_ACTIVITY_KIND_MEMORY2 &&
                  CUPTI_DRIVER == (int)CUPTI_ACTIVITY_KIND_DRIVER &&
                  CUPTI_RUNTIME == (int)CUPTI_ACTIVITY_KIND_RUNTIME &&
                  CUPTI_SYNCHRONIZATION == (int)CUPTI_ACTIVITY_KIND_SYNCHRONIZATION &&
                  CUPTI_EXTERNAL == (int)CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
              "kinds");
static_assert(CUPTI_CUSTOM == (int)CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0 &&
                  CUPTI_FORCED == (int)CUPTI_ACTIVITY_FLAG_FLUSH_FORCED &&
                  CUPTI_STREAM_WAIT ==
                      (int)CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT &&
                  CUPTI_ALLOCATION == (int)CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION &&
                  CUPTI_NO_STREAM == CUPTI_SYNCHRONIZATION_INVALID_VALUE &&
                  CUPTI_OK == (int)CUPTI_SUCCESS &&
                  CUPTI_NO_PRIVILEGES == (int)CUPTI_ERROR_INSUFFICIENT_PRIVILEGES &&
                  CUPTI_OTHER_SUBSCRIBER == (int)CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED,
              "values");
#elif defined(LIBRARY_NVTX)
#include "gpu/nvtx.h"
#include <nvtx3/nvToolsExt.h>

static_assert(NVTX_CALLBACKS == (int)NVTX_ETID_CALLBACKS &&
                  NVTX_CORE == (int)NVTX_CB_MODULE_CORE &&
                  NVTX_MARK == (int)NVTX_CBID_CORE_MarkA &&
                  NVTX_PUSH == (int)NVTX_CBID_CORE_RangePushA &&
                  NVTX_POP == (int)NVTX_CBID_CORE_RangePop &&
                  NVTX_FUNCTIONS == (int)NVTX_CBID_CORE_SIZE &&
                  sizeof(nvtx_callbacks) == sizeof(NvtxExportTableCallbacks),
              "numbers");
#elif defined(LIBRARY_NCCL)
#include "gpu/nccl.h"
#include <nccl.h>

#define CALL(result, name, parameters) \
    static_assert(decltype(of((nccl_##name *)nullptr))::like(&name), #name);
#include "gpu/nccl.def"

static_assert(NCCL_I8 == (int)ncclInt8 && NCCL_U8 == (int)ncclUint8 && NCCL_I32 == (int)ncclInt32 &&
                  NCCL_U32 == (int)ncclUint32 && NCCL_I64 == (int)ncclInt64 &&
                  NCCL_U64 == (int)ncclUint64 && NCCL_F16 == (int)ncclFloat16 &&
                  NCCL_F32 == (int)ncclFloat32 && NCCL_F64 == (int)ncclFloat64 &&
                  NCCL_BF16 == (int)ncclBfloat16,
              "types");
static_assert(NCCL_SUM == (int)ncclSum && NCCL_PRODUCT == (int)ncclProd && NCCL_MAX == (int)ncclMax &&
                  NCCL_MIN == (int)ncclMin && NCCL_AVERAGE == (int)ncclAvg &&
                  NCCL_SUCCESS == (int)ncclSuccess && NCCL_IN_PROGRESS == (int)ncclInProgress,
              "reductions, codes");
static_assert(sizeof(bp_ccl_id) == sizeof(ncclUniqueId) && sizeof(bp_ccl_id) == 128, "id");

constexpr ncclConfig_t as_usual = NCCL_CONFIG_INITIALIZER;
static_assert(offsetof(nccl_config, size) == offsetof(ncclConfig_t, size) &&
                  offsetof(nccl_config, magic) == offsetof(ncclConfig_t, magic) &&
                  offsetof(nccl_config, version) == offsetof(ncclConfig_t, version) &&
                  offsetof(nccl_config, blocking) == offsetof(ncclConfig_t, blocking) &&
                  sizeof(nccl_config) <= sizeof(ncclConfig_t) &&
                  as_usual.magic == NCCL_CONFIG_MAGIC && as_usual.blocking == NCCL_AS_USUAL &&
                  NCCL_CONFIG_VERSION <= NCCL_VERSION_CODE,
              "configuration");
#else
#include "gpu/cudnn.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <cudnn.h>

#define CALL(result, name, parameters) \
    static_assert(decltype(of((cudnn_##name *)nullptr))::like(&name), #name);
#include "gpu/cudnn.def"

template <class T> constexpr bool found_is()
{
    return sizeof(cudnn_found) == sizeof(T) &&
           offsetof(cudnn_found, algorithm) == offsetof(T, algo) &&
           offsetof(cudnn_found, state) == offsetof(T, status) &&
           offsetof(cudnn_found, workspace) == offsetof(T, memory) &&
           offsetof(cudnn_found, deterministic) == offsetof(T, determinism) &&
           offsetof(cudnn_found, math) == offsetof(T, mathType);
}
static_assert(found_is<cudnnConvolutionFwdAlgoPerf_t>() &&
                  found_is<cudnnConvolutionBwdDataAlgoPerf_t>() &&
                  found_is<cudnnConvolutionBwdFilterAlgoPerf_t>() && CUDNN_DETERMINISTIC == 1,
              "structures");
static_assert(CUDNN_F32 == (int)CUDNN_DATA_FLOAT && CUDNN_F64 == (int)CUDNN_DATA_DOUBLE &&
                  CUDNN_F16 == (int)CUDNN_DATA_HALF && CUDNN_BF16 == (int)CUDNN_DATA_BFLOAT16 &&
                  CUDNN_ROW_MAJOR == (int)CUDNN_TENSOR_NCHW &&
                  CUDNN_CHANNELS_LAST == (int)CUDNN_TENSOR_NHWC &&
                  CUDNN_CORRELATION == (int)CUDNN_CROSS_CORRELATION,
              "types");
static_assert(CUDNN_ANY_MATH == (int)CUDNN_DEFAULT_MATH &&
                  CUDNN_TENSOR_MATH == (int)CUDNN_TENSOR_OP_MATH &&
                  CUDNN_LOOSE_MATH == (int)CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION &&
                  CUDNN_EXACT_MATH == (int)CUDNN_FMA_MATH,
              "products");

/* The numbers of the graph interface. */
#define NUMBER(name, theirs, number) static_assert(name == (int)theirs, #theirs);
#if CUDNN_VERSION < 91300
#define LATER(name, theirs, number)
#endif
#include "gpu/cudnn_graph.def"

/* The masks contain the algorithms that are not transforms. */
constexpr int bit(int algorithm)
{
    return 1 << algorithm;
}
static_assert(CUDNN_PLAIN_FORWARD == (bit(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM) |
                                      bit(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM) |
                                      bit(CUDNN_CONVOLUTION_FWD_ALGO_GEMM) |
                                      bit(CUDNN_CONVOLUTION_FWD_ALGO_DIRECT)) &&
                  CUDNN_PLAIN_DATA == (bit(CUDNN_CONVOLUTION_BWD_DATA_ALGO_0) |
                                       bit(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1)) &&
                  CUDNN_PLAIN_FILTER == (bit(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0) |
                                         bit(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1) |
                                         bit(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3)) &&
                  CUDNN_ALGORITHMS >= (int)CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
              "algorithms");
static_assert(CUDNN_BIAS_FORWARD == (int)CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM &&
                  CUDNN_IDENTITY == (int)CUDNN_ACTIVATION_IDENTITY &&
                  CUDNN_KEEP_NAN == (int)CUDNN_PROPAGATE_NAN,
              "activations");
static_assert(CUDNN_STATUS_NOT_SUPPORTED / 1000 == 3 || CUDNN_STATUS_NOT_SUPPORTED == 9, "answer");
#endif
