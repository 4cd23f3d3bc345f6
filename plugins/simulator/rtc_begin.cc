/* SPDX-License-Identifier: Apache-2.0 */
/* rtc_begin.cc: stands before a source that the stand-in for NVRTC or hiprtc compiles (rtc.c): the
 * words of CUDA C++ and HIP that printed kernels use. Lanes run one after another. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#ifdef SIM_HIPRTC
#define __HIP__ 1
static inline int __builtin_amdgcn_ds_swizzle(int word, int)
{
    return word;
}
#define __asm__(...)
#else
#define __CUDACC__ 1
#define __launch_bounds__(lanes)
static inline float __fadd_rn(float x, float y)
{
    return x + y;
}
static inline double __dadd_rn(double x, double y)
{
    return x + y;
}
static inline float __int_as_float(int bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
static inline unsigned __shfl_xor_sync(unsigned, unsigned word, int)
{
    return word;
}
static inline unsigned __shfl_sync(unsigned, unsigned word, int)
{
    return word;
}
#undef INFINITY /* NVRTC has no math.h */
#endif

#define __global__
#define __device__
struct sim_dim {
    unsigned x;
};
static __thread sim_dim blockIdx, threadIdx, blockDim, gridDim;
