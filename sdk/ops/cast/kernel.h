/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: converts one real dtype (elem.h; bool as u8) to any other one, and rounds each value
 * once. To floats: to nearest even. Floats to integers: toward zero; NaN becomes 0, and a value
 * beyond the type becomes the nearest end of the type. Integers to integers: modulo 2^n. */
#ifndef BP_OPS_CAST_KERNEL_H
#define BP_OPS_CAST_KERNEL_H

#include "../../dialect/walk.h"

/* The dtypes of results. */
enum {
    CAST_bool, CAST_i8, CAST_i16, CAST_i32, CAST_i64, CAST_u8, CAST_u16, CAST_u32, CAST_u64,
    CAST_f16, CAST_bf16, CAST_f32, CAST_f64
};

/* truth: x has bools, where any byte that is not 0 is true. */
struct cast_args {
    struct walk_by_value walk;
    i64 to, truth;
};

#ifdef ELEM
#include "../../dialect/run.h"
#undef RUN
#define RUN CAST_RUN_OF(sizeof(elem))

#ifdef ELEM_FLOAT
/* Compares with powers of two, since the largest wide integers are not exact as floats. */
KFN u64 cast_signed(elem e, int bits)
{
    u64 top = (u64)1 << (bits - 1);
    acc x = elem_get(e);

    if (x >= (acc)top) return top - 1;
    if (x <= -(acc)top) return 0 - top;
    return x != x ? 0 : (u64)(i64)x;
}
KFN u64 cast_unsigned(elem e, int bits)
{
    u64 top = (u64)1 << (bits - 1);
    acc x = elem_get(e);

    if (x >= 2 * (acc)top) return top - 1 + top;
    return x > 0 ? (u64)x : 0;
}

/* Returns a number that rounds to f16 and bf16 as e does. */
KFN f32 cast_odd(elem e)
{
#ifdef ELEM_f64
    return f32_from_f64_odd(e);
#else
    return elem_get(e);
#endif
}
#else
KFN u64 cast_signed(elem e, int bits)
{
    (void)bits;
    return (u64)(i64)elem_ord(e);
}
KFN u64 cast_unsigned(elem e, int bits)
{
    return cast_signed(e, bits);
}

/* Returns a number that rounds to f16 and bf16 as e does. Of more than 24 bits, the low ones decide
 * a tie only by not all being zero: they become one bit. At least 12 bits remain. */
KFN f32 cast_odd(elem e)
{
    u64 size = (u64)(i64)elem_ord(e), kept;
    int negative = 0, low = 0;

#ifdef ELEM_SIGNED
    negative = elem_ord(e) < 0;
    if (negative) size = 0 - size;
#endif
    while (size >> low >> 24) low += 12;
    kept = size >> low << low;
    if (kept != size) kept |= (u64)1 << low;
    return negative ? -(f32)kept : (f32)kept;
}
#endif

/* Returns e; for bools, 1 for any byte that is not 0. */
KFN elem cast_from(i64 truth, elem e)
{
#ifdef ELEM_u8
    if (truth) return e != 0;
#endif
    (void)truth;
    return e;
}

#define EACH(type, value) \
    { \
        RUN_OUT(type, w, 0, ((GLOBAL type *)y)); \
        RUN_EACH(w, (type)(value)) \
        RUN_END(type, w, 0, ((GLOBAL type *)y)); \
    } \
    break

/* The value to convert; for bools, 1 for any byte that is not 0. */
#define E cast_from(a->truth, RUN_AT(p))

RUN_FN void cast_run(const struct cast_args *a, struct walk_run r, GLOBAL void *y,
                     GLOBAL const elem *x)
{
    RUN_IN(elem, p, 1, x);

    switch (a->to) {
    case CAST_bool: EACH(u8, elem_get(E) != 0);
    case CAST_i8: EACH(u8, cast_signed(E, 8));
    case CAST_i16: EACH(u16, cast_signed(E, 16));
    case CAST_i32: EACH(u32, cast_signed(E, 32));
    case CAST_i64: EACH(u64, cast_signed(E, 64));
    case CAST_u8: EACH(u8, cast_unsigned(E, 8));
    case CAST_u16: EACH(u16, cast_unsigned(E, 16));
    case CAST_u32: EACH(u32, cast_unsigned(E, 32));
    case CAST_u64: EACH(u64, cast_unsigned(E, 64));
    case CAST_f16: EACH(u16, f16_from_f32(cast_odd(E)));
    case CAST_bf16: EACH(u16, bf16_from_f32(cast_odd(E)));
    case CAST_f32: EACH(f32, elem_ord(E));
#ifdef HAS_F64
    case CAST_f64: EACH(f64, elem_ord(E));
#endif
    default: break;
    }
}
#undef E
#undef EACH

KFN int cast_is_even(const struct cast_args *a, GLOBAL void *y, GLOBAL const elem *x)
{
    int bytes = 1;

    switch (a->to) {
    case CAST_i16: case CAST_u16: case CAST_f16: case CAST_bf16: bytes = 2; break;
    case CAST_i32: case CAST_u32: case CAST_f32: bytes = 4; break;
    case CAST_i64: case CAST_u64: case CAST_f64: bytes = 8; break;
    default: break;
    }
    return walk_is_even(&a->walk, 0, bytes, (u64)(uintptr_t)y, RUN) && RUN_EVEN(&a->walk, 1, x);
}
ENTRY_RUNS_2(cast, void, const elem)
#endif

#endif
