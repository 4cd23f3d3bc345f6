/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes complex numbers from real ones and back, element by element, for f32 (c64) and
 * f64 (c128). elem is a part; a complex number is two adjacent parts. The formulas are in
 * kernels.def. Strides count elements of each operand's type. */
#ifndef BP_OPS_COMPLEX_KERNEL_H
#define BP_OPS_COMPLEX_KERNEL_H

#include "../../dialect/elem.h"
#include "../common/kernel_formulas.h"
#include "../../dialect/pairs.h"

#if defined(ELEM_f32) || defined(ELEM_f64)
#define COMPLEX_PARTS
#endif

/* op is a constant where these functions are inlined, otherwise it is equal for all lanes. For
 * other types they return the first part. */
KFN elem complex_part(int op, elem re, elem im)
{
    (void)im;
    switch (op) {
#ifdef COMPLEX_PARTS
#define COMPLEX_PART(op, formula) case COMPLEX_##op: return formula;
#include "kernels.def"
#endif
    default: return re;
    }
}

/* Returns part number i of a complex result. */
KFN elem complex_pair(int op, int i, elem re, elem im)
{
    (void)i;
    (void)im;
    switch (op) {
#ifdef COMPLEX_PARTS
#define COMPLEX_MAKE(op, first, second) case COMPLEX_##op: return i ? second : first;
#define COMPLEX_PAIR(op, first, second) case COMPLEX_##op: return i ? second : first;
#include "kernels.def"
#endif
    default: return re;
    }
}

#endif
