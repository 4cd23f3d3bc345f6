/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.h: defines the part of HIP's runtime header that the dialect of portable kernels needs,
 * by clang's builtins. So AMD's toolkit is not needed to compile kernels; the functions of math.h
 * come from clang and AMD's device libraries. */
#ifndef HIP_RUNTIME_H
#define HIP_RUNTIME_H

#include <__clang_hip_runtime_wrapper.h>

struct hip_dim {
    unsigned x;
};
static inline __device__ hip_dim hip_block()
{
    return {__builtin_amdgcn_workgroup_id_x()};
}
static inline __device__ hip_dim hip_lane()
{
    return {__builtin_amdgcn_workitem_id_x()};
}
static inline __device__ hip_dim hip_lanes()
{
    return {__builtin_amdgcn_workgroup_size_x()};
}
static inline __device__ hip_dim hip_blocks()
{
    return {__builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x()};
}
#define blockIdx hip_block()
#define threadIdx hip_lane()
#define blockDim hip_lanes()
#define gridDim hip_blocks()

static inline __device__ void __syncthreads()
{
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#endif
