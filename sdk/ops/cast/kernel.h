/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: converts one real dtype (elem.h; bool and the f8 types as u8) to any other one, and
 * rounds each value once. To floats: to nearest even (f8e8m0: see float8.h). Floats to integers:
 * toward zero; NaN becomes 0, and a value beyond the type becomes the nearest end of the type.
 * Integers to integers: modulo 2^n. */
#ifndef BP_OPS_CAST_KERNEL_H
#define BP_OPS_CAST_KERNEL_H

#include "../../dialect/walk.h"

/* The dtypes of results. */
enum {
    CAST_bool, CAST_i8, CAST_i16, CAST_i32, CAST_i64, CAST_u8, CAST_u16, CAST_u32, CAST_u64,
    CAST_f16, CAST_bf16, CAST_f32, CAST_f64, CAST_f8e4m3, CAST_f8e5m2, CAST_f8e8m0,
    CAST_f8e4m3fnuz, CAST_f8e5m2fnuz
};

/* The kinds of elements of x. A byte of a bool that is not 0 is true. */
enum {
    CAST_OF_ELEM, CAST_OF_BOOL, CAST_OF_E4M3, CAST_OF_E5M2, CAST_OF_E8M0, CAST_OF_E4M3FNUZ,
    CAST_OF_E5M2FNUZ
};

/* of: what the elements of x are. saturate: for results of f8 types. round: for f8e8m0. */
struct cast_args {
    struct walk_by_value walk;
    i64 to, of, saturate, round;
};

#ifdef ELEM
#include "../../dialect/float8.h"
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

/* Returns a number that rounds to half types and f8 types as e does. */
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

/* Returns a number that rounds to half types and f8 types as e does. Of more than 24 bits, the low
 * ones decide a tie only by not all being zero: they become one bit. At least 12 bits remain. */
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
KFN elem cast_from(i64 of, elem e)
{
#ifdef ELEM_u8
    if (of == CAST_OF_BOOL) return e != 0;
#endif
    (void)of;
    return e;
}

#ifdef ELEM_u8
KFN f32 cast_f8(i64 of, elem e)
{
    switch (of) {
    case CAST_OF_E4M3: return f8e4m3_to_f32(e);
    case CAST_OF_E5M2: return f8e5m2_to_f32(e);
    case CAST_OF_E8M0: return f8e8m0_to_f32(e);
    case CAST_OF_E4M3FNUZ: return f8e4m3fnuz_to_f32(e);
    default: return f8e5m2fnuz_to_f32(e);
    }
}

/* Converts an f8 number to an integer. */
KFN u64 cast_f8_signed(i64 of, elem e, int bits)
{
    u64 top = (u64)1 << (bits - 1);
    f32 x = cast_f8(of, e);

    if (x >= (f32)top) return top - 1;
    if (x <= -(f32)top) return 0 - top;
    return x != x ? 0 : (u64)(i64)x;
}
KFN u64 cast_f8_unsigned(i64 of, elem e, int bits)
{
    u64 top = (u64)1 << (bits - 1);
    f32 x = cast_f8(of, e);

    if (x >= 2 * (f32)top) return top - 1 + top;
    return x > 0 ? (u64)x : 0;
}
#endif

#define EACH(type, value) \
    { \
        RUN_OUT(type, w, 0, ((GLOBAL type *)y)); \
        RUN_EACH(w, (type)(value)) \
        RUN_END(type, w, 0, ((GLOBAL type *)y)); \
    } \
    break

/* The value to convert; for bools, 1 for any byte that is not 0. */
#define E cast_from(a->of, RUN_AT(p))

#ifdef ELEM_u8
#define F RUN_AT(p)
RUN_FN void cast_f8_run(const struct cast_args *a, struct walk_run r, GLOBAL void *y,
                        GLOBAL const elem *x)
{
    RUN_IN(elem, p, 1, x);

    switch (a->to) {
    case CAST_bool: EACH(u8, cast_f8(a->of, F) != 0);
    case CAST_i8: EACH(u8, cast_f8_signed(a->of, F, 8));
    case CAST_i16: EACH(u16, cast_f8_signed(a->of, F, 16));
    case CAST_i32: EACH(u32, cast_f8_signed(a->of, F, 32));
    case CAST_i64: EACH(u64, cast_f8_signed(a->of, F, 64));
    case CAST_u8: EACH(u8, cast_f8_unsigned(a->of, F, 8));
    case CAST_u16: EACH(u16, cast_f8_unsigned(a->of, F, 16));
    case CAST_u32: EACH(u32, cast_f8_unsigned(a->of, F, 32));
    case CAST_u64: EACH(u64, cast_f8_unsigned(a->of, F, 64));
    case CAST_f16: EACH(u16, f16_from_f32(cast_f8(a->of, F)));
    case CAST_bf16: EACH(u16, bf16_from_f32(cast_f8(a->of, F)));
    case CAST_f8e4m3: EACH(u8, f8e4m3_from_f32(cast_f8(a->of, F), (int)a->saturate));
    case CAST_f8e5m2: EACH(u8, f8e5m2_from_f32(cast_f8(a->of, F), (int)a->saturate));
    case CAST_f8e8m0:
        EACH(u8, f8e8m0_from_f32(cast_f8(a->of, F), (int)a->saturate, (int)a->round));
    case CAST_f8e4m3fnuz: EACH(u8, f8e4m3fnuz_from_f32(cast_f8(a->of, F), (int)a->saturate));
    case CAST_f8e5m2fnuz: EACH(u8, f8e5m2fnuz_from_f32(cast_f8(a->of, F), (int)a->saturate));
    case CAST_f32: EACH(f32, cast_f8(a->of, F));
#ifdef HAS_F64
    case CAST_f64: EACH(f64, cast_f8(a->of, F));
#endif
    default: break;
    }
}
#undef F
#endif

RUN_FN void cast_run(const struct cast_args *a, struct walk_run r, GLOBAL void *y,
                     GLOBAL const elem *x)
{
    RUN_IN(elem, p, 1, x);

#ifdef ELEM_u8
    if (a->of >= CAST_OF_E4M3) {
        cast_f8_run(a, r, y, x);
        return;
    }
#endif
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
    case CAST_f8e4m3: EACH(u8, f8e4m3_from_f32(cast_odd(E), (int)a->saturate));
    case CAST_f8e5m2: EACH(u8, f8e5m2_from_f32(cast_odd(E), (int)a->saturate));
    case CAST_f8e8m0: EACH(u8, f8e8m0_from_f32(cast_odd(E), (int)a->saturate, (int)a->round));
    case CAST_f8e4m3fnuz: EACH(u8, f8e4m3fnuz_from_f32(cast_odd(E), (int)a->saturate));
    case CAST_f8e5m2fnuz: EACH(u8, f8e5m2fnuz_from_f32(cast_odd(E), (int)a->saturate));
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
