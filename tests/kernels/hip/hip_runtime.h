/* SPDX-License-Identifier: Apache-2.0 */
/* hip_runtime.h: of HIP's own header as much as the dialect needs, so that clang alone compiles
 * portable kernels for a GPU of AMD's. Not for running them. */
#ifndef BP_TEST_HIP_RUNTIME_H
#define BP_TEST_HIP_RUNTIME_H

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))

struct bp_test_dim {
    unsigned x;
};
extern __device__ const struct bp_test_dim threadIdx, blockIdx, blockDim, gridDim;
extern "C" __device__ void __syncthreads(void);

#endif
