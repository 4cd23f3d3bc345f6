/* SPDX-License-Identifier: Apache-2.0 */
/* fused_functions.h: has the functions that printed kernels of `fused` call, for one float dtype
 * (elem.h): unary_exp, binary_elem(BINARY_add, ...), ternary_elem(TERNARY_lerp, ...) and so on.
 * Each result is rounded to elem, as the operator's own kernel rounds it. Only OpenCL's compiler
 * reads this file: embed.py. */
#ifndef XPU_FUSED_FUNCTIONS_H
#define XPU_FUSED_FUNCTIONS_H

#include "../../sdk/ops/binary/kernel.h"
#include "../../sdk/ops/binary/kernel_ternary.h"
#include "../../sdk/ops/unary/kernel.h"

KFN elem scale_elem(elem x, acc factor, acc bias)
{
    return elem_put(elem_get(x) * factor + bias);
}

/* Divides the number of an element, below count, by an extent. 64-bit divisions cost a GPU several
 * times as much. */
KFN i64 fused_divide(i64 at, i64 extent, i64 count)
{
    return count >> 31 ? at / extent : (i64)((u32)at / (u32)extent);
}

#endif
