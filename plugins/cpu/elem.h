/* SPDX-License-Identifier: Apache-2.0 */
/* elem.h: the element type that a file of a dtype family is compiled for. The build compiles
 * such a file once for each dtype, with -DELEM=f32 -DELEM_f32, and for each level of
 * instructions.
 *
 *   elem  as it lies in memory        acc  as it is computed with
 *
 * Signed and unsigned integers of one width are one elem: sums and products modulo 2^n have the
 * same bits. They are computed unsigned, in at least 32 bits, so that nothing overflows that
 * must not. */
#ifndef CPU_ELEM_H
#define CPU_ELEM_H

#include "half.h"
#include <stdint.h>

/* NAME(add) is cpu_add_f32, or cpu_add_f32_avx2 with -DISA=_avx2. */
#ifndef ISA
#define ISA
#endif
#define NAME_3(op, type, isa) cpu_##op##_##type##isa
#define NAME_2(op, type, isa) NAME_3(op, type, isa)
#define NAME(op) NAME_2(op, ELEM, ISA)

/* Bytes of the vectors that the compiler is offered. */
#if defined(__AVX512F__)
enum { VECTOR = 64 };
#elif defined(__AVX2__)
enum { VECTOR = 32 };
#else
enum { VECTOR = 16 };
#endif

#if defined(ELEM_c64) || defined(ELEM_c128)
#define ELEM_COMPLEX
#elif defined(ELEM_f16) || defined(ELEM_bf16)
#define ELEM_HALF
#endif

#if defined(ELEM_i8)
typedef uint8_t elem;
typedef uint32_t acc;
#elif defined(ELEM_i16)
typedef uint16_t elem;
typedef uint32_t acc;
#elif defined(ELEM_i32)
typedef uint32_t elem, acc;
#elif defined(ELEM_i64)
typedef uint64_t elem, acc;
#elif defined(ELEM_f32)
typedef float elem, acc;
#elif defined(ELEM_f64)
typedef double elem, acc;
#elif defined(ELEM_HALF)
typedef uint16_t elem;
typedef float acc;
#elif defined(ELEM_c64)
typedef struct {
    float re, im;
} elem, acc;
#elif defined(ELEM_c128)
typedef struct {
    double re, im;
} elem, acc;
#else
#error "compile with -DELEM=f32 -DELEM_f32, or another dtype of this file"
#endif

#if defined(ELEM_f16)
static inline acc elem_get(elem x)
{
    return f16_to_f32(x);
}
static inline elem elem_put(acc x)
{
    return f16_from_f32(x);
}
#elif defined(ELEM_bf16)
static inline acc elem_get(elem x)
{
    return bf16_to_f32(x);
}
static inline elem elem_put(acc x)
{
    return bf16_from_f32(x);
}
#elif defined(ELEM_COMPLEX)
static inline acc elem_get(elem x)
{
    return x;
}
static inline elem elem_put(acc x)
{
    return x;
}
#else
static inline acc elem_get(elem x)
{
    return (acc)x;
}
static inline elem elem_put(acc x)
{
    return (elem)x;
}
#endif

#ifdef ELEM_COMPLEX
static inline acc acc_zero(void)
{
    return (acc){0, 0};
}
static inline acc acc_add(acc a, acc b)
{
    return (acc){a.re + b.re, a.im + b.im};
}
static inline acc acc_sub(acc a, acc b)
{
    return (acc){a.re - b.re, a.im - b.im};
}
static inline acc acc_mul(acc a, acc b)
{
    return (acc){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* s + a b, by the four products, as the references have it: no recovery of infinities (C11 annex
 * G). */
static inline acc acc_mul_add(acc s, acc a, acc b)
{
    return (acc){s.re + (a.re * b.re - a.im * b.im), s.im + (a.re * b.im + a.im * b.re)};
}
#else
static inline acc acc_zero(void)
{
    return 0;
}
static inline acc acc_add(acc a, acc b)
{
    return a + b;
}
static inline acc acc_sub(acc a, acc b)
{
    return a - b;
}
static inline acc acc_mul(acc a, acc b)
{
    return a * b;
}
static inline acc acc_mul_add(acc s, acc a, acc b)
{
    return s + a * b;
}
#endif

#endif
