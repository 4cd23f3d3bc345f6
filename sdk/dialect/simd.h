/* SPDX-License-Identifier: Apache-2.0 */
/* simd.h: defines `wide`, WIDE adjacent numbers of type acc as one value. In OpenCL it is a vector
 * type, because a device that is a processor needs an explicit one; otherwise it is an array, which
 * the compiler puts into registers. */
#ifndef BP_DIALECT_WIDE_H
#define BP_DIALECT_WIDE_H

#include "elem.h"

enum { WIDE = 16 };

#if defined(__OPENCL_C_VERSION__) && defined(ELEM_FLOAT)

#ifdef ELEM_f64
typedef double16 wide;
#else
typedef float16 wide;
#endif
KFN wide wide_zero(void)
{
    return (wide)0;
}
KFN wide wide_load(GLOBAL const acc *p)
{
    return vload16(0, p);
}
KFN void wide_store(acc *p, wide x)
{
    vstore16(x, 0, p);
}
/* Returns s + a b. */
KFN wide wide_mul_add(wide s, acc a, wide b)
{
    return s + a * b;
}

#else

typedef struct {
    acc at[WIDE];
} wide;
KFN wide wide_zero(void)
{
    wide x;

    UNROLL
    for (int i = 0; i < WIDE; i++) x.at[i] = acc_zero();
    return x;
}
KFN wide wide_load(GLOBAL const acc *p)
{
    wide x;

    UNROLL
    for (int i = 0; i < WIDE; i++) x.at[i] = p[i];
    return x;
}
KFN void wide_store(acc *p, wide x)
{
    UNROLL
    for (int i = 0; i < WIDE; i++) p[i] = x.at[i];
}
KFN wide wide_mul_add(wide s, acc a, wide b)
{
    UNROLL
    for (int i = 0; i < WIDE; i++) s.at[i] = acc_mul_add(s.at[i], a, b.at[i]);
    return s;
}

#endif

#endif
