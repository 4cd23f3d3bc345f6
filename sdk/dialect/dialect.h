/* SPDX-License-Identifier: Apache-2.0 */
/* dialect.h: defines the language of portable kernels: the common part of C99, OpenCL C 1.2, CUDA
 * C++ and HIP, and the names below. A kernel is written once, for a team of lanes: a team is one
 * lane on a host, and one block (or work-group) on a GPU.
 *
 *   KFN                    declares a function of a kernel
 *   KERNEL(name)           declares an entry point on a GPU; hosts have none and call the functions
 *   GLOBAL, LOCAL          address space of a pointer: device memory, memory of the team
 *   MAX_LANES              lanes of a team on a GPU; a plugin launches exactly this number: 256,
 *                          or, for an OpenCL device that cannot run so many, 128 or 64, as the
 *                          build defines (FEW_LANES is defined then)
 *   MAX_LOCAL              the most bytes of a team's memory
 *   TEAM, TEAMS            number of this team, number of teams
 *   LANE, LANES            number of this lane in the team, number of lanes: a power of two
 *   FOR_LANES(i, n)        loops over this lane's share of 0 to n - 1
 *   FOR_ALL(i, n)          loops over this lane's share of 0 to n - 1, which all teams share
 *   BARRIER()              waits until all lanes of the team are here; each lane then sees the
 *                          writes of the others
 *   SIMD, SIMD_SUM(s), SIMD_MAX(s), SIMD_MIN(s)
 *                          stand before a FOR loop: a host may execute its iterations in any order
 *                          and in vectors; s is the variable (or several) to which all iterations
 *                          add, or their maximum or minimum
 *   UNROLL                 before a loop with a constant number of iterations: a GPU unrolls it, so
 *                          that an array that the loop indexes stays in registers
 *   HOST_UNROLL            the same on a host: before a loop of at most 16 iterations
 *   ROLLED                 before a loop that rarely runs: the compiler must not unroll it
 *   ENTRY_SPANS_n, ENTRY_TEAMS_n     define an entry for GPUs and one for hosts: entry.h
 *   ON_HOST                defined for hosts, where a team is one lane: the compiler vectorises
 *   ON_PROCESSOR           defined by the build for an OpenCL device that is a processor: a team is
 *                          one lane there too, and a lane computes runs of independent elements
 *   INLINE_ALL             defined by the build if OpenCL's compiler must inline every function
 *   NO_F64                 defined by the build for an OpenCL device without f64: double does not
 *                          compile
 *
 *   i8 .. i64, u8 .. u64, f32, f64
 *                          number types; HAS_F64 is defined if f64 arithmetic is available
 *   real                   f64, or f32 if the device has no f64
 *   host_real              a real that the host passes in a struct of parameters: it occupies the
 *                          bytes of an f64 on every device; not for arrays
 *   f32_bits, f32_from_bits, f64_bits, f64_from_bits: the same bits as the other type
 *
 * Kernels use no libc except the functions of math.h, allocate no memory, and check nothing,
 * because the core has checked the arguments. Indices are i64. A half type is a u16 in memory and
 * is computed as f32 (half.h). A file that is compiled as HIP has included HIP's runtime header
 * before. */
#ifndef BP_DIALECT_DIALECT_H
#define BP_DIALECT_DIALECT_H

#ifdef MAX_LANES
#define FEW_LANES
#else
enum { MAX_LANES = 256 };
#endif
enum { MAX_LOCAL = 32 << 10 /* every OpenCL device has as much; CUDA allows 48 KiB */ };

#if defined(__OPENCL_C_VERSION__)

#ifdef INLINE_ALL
#define KFN static inline __attribute__((always_inline))
#else
#define KFN static inline
#endif
#define GLOBAL __global
#define LOCAL __local
#define TEAMS ((i64)get_num_groups(0))
/* A launch may be split into parts, each of which begins at the offset where the previous part
 * ended. The number of a work-group does not include that offset, so TEAM is computed from the
 * global id. */
#ifdef ON_PROCESSOR
#define TEAM ((i64)get_global_id(0))
#define KERNEL(name) __kernel void name
#define LANE ((i64)0)
#define LANES ((i64)1)
#define BARRIER() ((void)0)
#else
#define TEAM ((i64)(get_global_id(0) / MAX_LANES))
#define KERNEL(name) __kernel __attribute__((reqd_work_group_size(MAX_LANES, 1, 1))) void name
#define LANE ((i64)get_local_id(0))
#define LANES ((i64)get_local_size(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#endif
#define TEAM_LOCAL __local

typedef char i8;
typedef short i16;
typedef int i32;
typedef long i64;
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef float f32;
#ifdef NO_F64
#define double this_device_has_no_double
#elif defined(cl_khr_fp64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define HAS_F64
typedef double f64;
#endif

KFN u32 f32_bits(f32 x)
{
    return as_uint(x);
}
KFN f32 f32_from_bits(u32 bits)
{
    return as_float(bits);
}
#ifdef HAS_F64
KFN u64 f64_bits(f64 x)
{
    return as_ulong(x);
}
KFN f64 f64_from_bits(u64 bits)
{
    return as_double(bits);
}
#endif

#else /* C and C++ */

#if defined(__CUDACC__) || defined(__HIP__)
#define KFN static __device__ inline
#ifdef __HIP__
#define KERNEL(name) \
    extern "C" __global__ __attribute__((amdgpu_flat_work_group_size(1, MAX_LANES))) void name
#else
#define KERNEL(name) extern "C" __global__ void __launch_bounds__(MAX_LANES) name
#endif
#define TEAM ((i64)blockIdx.x)
#define TEAMS ((i64)gridDim.x)
#define LANE ((i64)threadIdx.x)
#define LANES ((i64)blockDim.x)
#define BARRIER() __syncthreads()
#define TEAM_LOCAL __shared__
#else
#define ON_HOST
#define KFN static inline
#define TEAM ((i64)0)
#define TEAMS ((i64)1)
#define LANE ((i64)0)
#define LANES ((i64)1)
#define BARRIER() ((void)0)
#endif
#define GLOBAL
#define LOCAL

#include <math.h>
#include <stdint.h>

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef float f32;
typedef double f64;
#define HAS_F64

KFN u32 f32_bits(f32 x)
{
    u32 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
KFN f32 f32_from_bits(u32 bits)
{
    f32 x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}
KFN u64 f64_bits(f64 x)
{
    u64 bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
KFN f64 f64_from_bits(u64 bits)
{
    f64 x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

#endif

#ifdef ON_HOST
#define SIMD _Pragma("omp simd")
#define SIMD_SUM(...) PRAGMA_OF(omp simd reduction(+ : __VA_ARGS__))
#define SIMD_MAX(s) PRAGMA_OF(omp simd reduction(max : s))
#define SIMD_MIN(s) PRAGMA_OF(omp simd reduction(min : s))
#define PRAGMA_OF(...) _Pragma(#__VA_ARGS__)
#define UNROLL
#if defined(__GNUC__) && !defined(__clang__)
#define HOST_UNROLL _Pragma("GCC unroll 16")
#else
#define HOST_UNROLL
#endif
#else
#define UNROLL _Pragma("unroll")
#define HOST_UNROLL
#define SIMD
#define SIMD_SUM(...)
#define SIMD_MAX(s)
#define SIMD_MIN(s)
#endif

#if defined(__CUDACC__) || defined(__HIP__)
/* Lanes exchange registers: word_xor returns the word of the lane whose number differs by MASK (by
 * exclusive or), word_first that of the first lane, within each group of 32 lanes, all of which
 * execute the call together. AMD's swizzle works on groups of 32 in waves of 64 too. */
#define LANES_EXCHANGE
#ifdef __HIP__
template <int MASK> KFN u32 word_xor(u32 word)
{
    return (u32)__builtin_amdgcn_ds_swizzle((int)word, MASK << 10 | 0x1f);
}
KFN u32 word_first(u32 word)
{
    return (u32)__builtin_amdgcn_ds_swizzle((int)word, 0);
}
#else
template <int MASK> KFN u32 word_xor(u32 word)
{
    return __shfl_xor_sync(0xffffffffu, word, MASK);
}
KFN u32 word_first(u32 word)
{
    return __shfl_sync(0xffffffffu, word, 0);
}
#endif
template <int MASK, typename T> KFN T lane_xor(T x)
{
    u32 word[(sizeof x + 3) / 4] = {0};

    __builtin_memcpy(word, &x, sizeof x);
    UNROLL for (unsigned i = 0; i < (sizeof x + 3) / 4; i++) word[i] = word_xor<MASK>(word[i]);
    __builtin_memcpy(&x, word, sizeof x);
    return x;
}
template <typename T> KFN T lane_first(T x)
{
    u32 word[(sizeof x + 3) / 4] = {0};

    __builtin_memcpy(word, &x, sizeof x);
    UNROLL for (unsigned i = 0; i < (sizeof x + 3) / 4; i++) word[i] = word_first(word[i]);
    __builtin_memcpy(&x, word, sizeof x);
    return x;
}
#define ROLLED _Pragma("unroll 1")
#else
#define ROLLED
#endif

#ifdef HAS_F64
typedef f64 real, host_real;
#else
typedef f32 real;
typedef f32 host_real __attribute__((aligned(8)));
#endif

#define FOR_LANES(i, n) for (i64 i = LANE; i < (n); i += LANES)
#define FOR_ALL(i, n) for (i64 i = TEAM * LANES + LANE; i < (n); i += TEAMS * LANES)

#endif
