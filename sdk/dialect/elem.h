/* SPDX-License-Identifier: Apache-2.0 */
/* elem.h: defines the element type for which a kernel file of a dtype family is compiled. The build
 * compiles each of these files once for each dtype, with -DELEM=f32 -DELEM_f32, and for each
 * instruction set level.
 *
 *   elem  type in memory        acc  type for arithmetic        ord  type for comparisons
 *
 * Integers are computed as unsigned, in at least 32 bits, so that signed overflow cannot occur:
 * sums and products modulo 2^n have the same bits for signed and unsigned integers, and files that
 * compute only these are compiled for i8 to i64 and serve both. Files that compare or divide are
 * compiled for u8 to u64 too. Files that only move elements are compiled for i8, i16, i32, i64 and
 * c128, one type for each size. */
#ifndef BP_DIALECT_ELEM_H
#define BP_DIALECT_ELEM_H

#include "half.h"

/* NAME(add) is bp_add_f32, or with -DISA=_avx2 and -DPREFIX=cpu_ cpu_add_f32_avx2. */
#ifndef PREFIX
#define PREFIX bp_
#endif
#ifndef ISA
#define ISA
#endif
#define NAME_3(prefix, op, type, isa) prefix##op##_##type##isa
#define NAME_2(prefix, op, type, isa) NAME_3(prefix, op, type, isa)
#define NAME(op) NAME_2(PREFIX, op, ELEM, ISA)

/* Bytes of the vector registers that the compiler may use. */
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
#if defined(ELEM_f32) || defined(ELEM_f64) || defined(ELEM_HALF)
#define ELEM_FLOAT
#elif defined(ELEM_i8) || defined(ELEM_i16) || defined(ELEM_i32) || defined(ELEM_i64)
#define ELEM_SIGNED
#endif

#if defined(ELEM_i8)
typedef u8 elem;
typedef u32 acc;
typedef i32 ord;
#elif defined(ELEM_u8)
typedef u8 elem;
typedef u32 acc, ord;
#elif defined(ELEM_i16)
typedef u16 elem;
typedef u32 acc;
typedef i32 ord;
#elif defined(ELEM_u16)
typedef u16 elem;
typedef u32 acc, ord;
#elif defined(ELEM_i32)
typedef u32 elem, acc;
typedef i32 ord;
#elif defined(ELEM_u32)
typedef u32 elem, acc, ord;
#elif defined(ELEM_i64)
typedef u64 elem, acc;
typedef i64 ord;
#elif defined(ELEM_u64)
typedef u64 elem, acc, ord;
#elif defined(ELEM_f32)
typedef f32 elem, acc, ord;
#elif defined(ELEM_f64)
typedef f64 elem, acc, ord;
#elif defined(ELEM_HALF)
typedef u16 elem;
typedef f32 acc, ord;
#elif defined(ELEM_c64)
typedef struct {
    f32 re, im;
} elem, acc;
#elif defined(ELEM_c128)
typedef struct {
    f64 re, im;
} elem, acc;
#else
#error "compile with -DELEM=f32 -DELEM_f32, or another dtype of this file"
#endif

#if defined(ELEM_f16)
KFN acc elem_get(elem x)
{
    return f16_to_f32(x);
}
KFN elem elem_put(acc x)
{
    return f16_from_f32(x);
}
#elif defined(ELEM_bf16)
KFN acc elem_get(elem x)
{
    return bf16_to_f32(x);
}
KFN elem elem_put(acc x)
{
    return bf16_from_f32(x);
}
#elif defined(ELEM_COMPLEX)
KFN acc elem_get(elem x)
{
    return x;
}
KFN elem elem_put(acc x)
{
    return x;
}
#else
KFN acc elem_get(elem x)
{
    return (acc)x;
}
KFN elem elem_put(acc x)
{
    return (elem)x;
}
#endif

/* elem_ord converts an element to the type in which it is compared, elem_of_ord converts it
 * back. */
#if defined(ELEM_i8)
KFN ord elem_ord(elem x)
{
    return (i8)x;
}
#elif defined(ELEM_i16)
KFN ord elem_ord(elem x)
{
    return (i16)x;
}
#elif !defined(ELEM_COMPLEX)
KFN ord elem_ord(elem x)
{
    return (ord)elem_get(x);
}
#endif
#ifndef ELEM_COMPLEX
KFN elem elem_of_ord(ord x)
{
    return elem_put((acc)x);
}
KFN int ord_nan(ord x)
{
#ifdef ELEM_FLOAT
    return x != x;
#else
    (void)x;
    return 0;
#endif
}
#endif

/* Converts an attribute to the type for arithmetic. */
#ifdef ELEM_COMPLEX
KFN acc number(real x)
{
    acc z = {0, 0};

#ifdef ELEM_c64
    z.re = (f32)x;
#else
    z.re = x;
#endif
    return z;
}
#else
KFN acc number(real x)
{
    return (acc)x;
}
#endif

#ifdef ELEM_COMPLEX
KFN acc acc_zero(void)
{
    return (acc){0, 0};
}
KFN acc acc_add(acc a, acc b)
{
    return (acc){a.re + b.re, a.im + b.im};
}
KFN acc acc_sub(acc a, acc b)
{
    return (acc){a.re - b.re, a.im - b.im};
}
KFN acc acc_mul(acc a, acc b)
{
    return (acc){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
/* Returns s + a b by the four products, as the reference computes it: infinities are not recovered
 * (C11 annex G). */
KFN acc acc_mul_add(acc s, acc a, acc b)
{
    return (acc){s.re + (a.re * b.re - a.im * b.im), s.im + (a.re * b.im + a.im * b.re)};
}
#else
KFN acc acc_zero(void)
{
    return 0;
}
KFN acc acc_add(acc a, acc b)
{
    return a + b;
}
KFN acc acc_sub(acc a, acc b)
{
    return a - b;
}
KFN acc acc_mul(acc a, acc b)
{
    return a * b;
}
KFN acc acc_mul_add(acc s, acc a, acc b)
{
    return s + a * b;
}
#endif

#endif
