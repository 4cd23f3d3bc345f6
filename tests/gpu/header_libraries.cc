/* SPDX-License-Identifier: Apache-2.0 */
/* header_libraries.cc: compares plugins/gpu/blaslt.def, cudnn.def and rtc.def, and the numbers that
 * belong to them, with the libraries' own headers, where they exist. The file is only compiled:
 * -DLIBRARY_CUBLASLT, cuDNN's, NVRTC's or NCCL's. rocBLAS has no package here: its prototypes are those of
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
