/* SPDX-License-Identifier: Apache-2.0 */
/* runtime.h: declares the parts of the HIP and CUDA headers that the dialect needs, so that clang
 * alone can compile portable kernels for GPUs of AMD and NVIDIA. The result cannot run. */
#ifndef BP_TEST_RUNTIME_H
#define BP_TEST_RUNTIME_H

#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))

struct bp_test_dim {
    unsigned x;
};
extern __device__ const struct bp_test_dim threadIdx, blockIdx, blockDim, gridDim;
extern "C" __device__ void __syncthreads(void);
#ifdef __CUDACC__
extern "C" __device__ unsigned __shfl_xor_sync(unsigned lanes, unsigned word, int mask);
extern "C" __device__ unsigned __shfl_sync(unsigned lanes, unsigned word, int lane);
#endif

/* The device's functions of math.h. */
#define ONE(name) \
    extern "C" __device__ float name##f(float); \
    extern "C" __device__ double name(double);
#define TWO(name) \
    extern "C" __device__ float name##f(float, float); \
    extern "C" __device__ double name(double, double);
ONE(acos)
ONE(acosh) ONE(asin) ONE(asinh) ONE(atan) ONE(atanh) ONE(cbrt) ONE(ceil) ONE(cos) ONE(cosh) ONE(erf)
    ONE(erfc) ONE(exp) ONE(exp2) ONE(expm1) ONE(fabs) ONE(floor) ONE(lgamma) ONE(log) ONE(log10)
        ONE(log1p) ONE(log2) ONE(rint) ONE(round) ONE(sin) ONE(sinh) ONE(sqrt) ONE(tan) ONE(tanh)
            ONE(tgamma) ONE(trunc) TWO(atan2) TWO(copysign) TWO(fmax) TWO(fmin) TWO(fmod) TWO(hypot)
                TWO(pow) TWO(remainder) extern "C" __device__ float fmaf(float, float, float);
extern "C" __device__ double fma(double, double, double);
#undef ONE
#undef TWO

#endif
