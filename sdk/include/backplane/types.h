/* SPDX-License-Identifier: Apache-2.0 */
/* types.h: defines element types, memory spaces, and the two macros that let structs grow. */
#ifndef BP_TYPES_H
#define BP_TYPES_H

#include <stddef.h>
#include <stdint.h>

/* The element types. X(NAME, name, number, bits, class). Numbers are part of the ABI.
 *
 * f16 is IEEE binary16, bf16 the upper half of a binary32. c64 is two f32, c128 two f64. f8e4m3 and
 * f8e5m2 are the OCP formats (e4m3 has no infinity). f8e4m3fnuz and f8e5m2fnuz have no infinity and
 * no negative zero, one NaN (0x80), and an exponent whose bias is larger by one: 8 and 16. f8e8m0
 * has powers of two only: code b is 2^(b - 127), and 255 is NaN; it has no zero and no sign. A bool
 * is one byte, 0 or 1. Reserved: i4 17, u4 18, f4e2m1 19, string 23; 128 and above belong to
 * plugins. Types with numbers of 64 and above fit in no mask. */
#define BP_DTYPES(X) \
    X(BOOL, bool, 0, 8, BOOL) \
    X(I8, i8, 1, 8, SIGNED) \
    X(I16, i16, 2, 16, SIGNED) \
    X(I32, i32, 3, 32, SIGNED) \
    X(I64, i64, 4, 64, SIGNED) \
    X(U8, u8, 5, 8, UNSIGNED) \
    X(U16, u16, 6, 16, UNSIGNED) \
    X(U32, u32, 7, 32, UNSIGNED) \
    X(U64, u64, 8, 64, UNSIGNED) \
    X(F16, f16, 9, 16, FLOAT) \
    X(BF16, bf16, 10, 16, FLOAT) \
    X(F32, f32, 11, 32, FLOAT) \
    X(F64, f64, 12, 64, FLOAT) \
    X(C64, c64, 13, 64, COMPLEX) \
    X(C128, c128, 14, 128, COMPLEX) \
    X(F8E4M3, f8e4m3, 15, 8, FLOAT) \
    X(F8E5M2, f8e5m2, 16, 8, FLOAT) \
    X(F8E8M0, f8e8m0, 20, 8, FLOAT) \
    X(F8E4M3FNUZ, f8e4m3fnuz, 21, 8, FLOAT) \
    X(F8E5M2FNUZ, f8e5m2fnuz, 22, 8, FLOAT)

enum bp_dtype {
#define X(NAME, name, number, bits, class) BP_##NAME = number,
    BP_DTYPES(X)
#undef X
};

/* Sets of dtypes: bit n is set if dtype n belongs to the set. */
#define BP_M(NAME) (UINT64_C(1) << BP_##NAME)
#define BP_MASK_SIGNED (BP_M(I8) | BP_M(I16) | BP_M(I32) | BP_M(I64))
#define BP_MASK_UNSIGNED (BP_M(U8) | BP_M(U16) | BP_M(U32) | BP_M(U64))
#define BP_MASK_INT (BP_MASK_SIGNED | BP_MASK_UNSIGNED)
#define BP_MASK_FLOAT (BP_M(F16) | BP_M(BF16) | BP_M(F32) | BP_M(F64))
#define BP_MASK_F8 \
    (BP_M(F8E4M3) | BP_M(F8E5M2) | BP_M(F8E8M0) | BP_M(F8E4M3FNUZ) | BP_M(F8E5M2FNUZ))
#define BP_MASK_REAL (BP_MASK_INT | BP_MASK_FLOAT)
#define BP_MASK_COMPLEX (BP_M(C64) | BP_M(C128))
#define BP_MASK_NUMBER (BP_MASK_REAL | BP_MASK_COMPLEX)
#define BP_MASK_ANY (BP_MASK_NUMBER | BP_M(BOOL))

/* The kinds of memory, as the host sees them. */
enum bp_space {
    BP_SPACE_DEVICE =
        0, /* the device's own; the host cannot access it, unless BP_DEVICE_HOST_VISIBLE */
    BP_SPACE_PINNED = 1,  /* host memory that the device can access */
    BP_SPACE_MANAGED = 2, /* the driver moves it between host and device */
};

/* How structs grow. A struct that begins with size has the length that its writer knew. A reader
 * calls BP_HAS before it reads a field that was added after version 0.1; a function that fills an
 * output struct for a reader that may be older writes with BP_SET, which does nothing for a field
 * beyond the reader's size. */
#define BP_HAS(p, field) \
    ((size_t)((const char *)&(p)->field - (const char *)(p)) + sizeof((p)->field) <= (p)->size)
#define BP_SET(p, field, value) \
    do { \
        if (BP_HAS(p, field)) (p)->field = (value); \
    } while (0)

#endif
