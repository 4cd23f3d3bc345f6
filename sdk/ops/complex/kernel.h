/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: complex numbers from real ones and back, element by element, for f32 (c64) and f64
 * (c128): elem is a part, and a complex number two of them, side by side. Formulas are in
 * kernels.def. Strides count elements of each operand's own kind. */
#ifndef BP_OPS_COMPLEX_KERNEL_H
#define BP_OPS_COMPLEX_KERNEL_H

#include "../../dialect/elem.h"
#include "../common/kernel_formulas.h"
#include "../../dialect/pairs.h"

#if defined(ELEM_f32) || defined(ELEM_f64)
#define COMPLEX_PARTS
#endif

/* op is a constant where these are inlined, or the same for all lanes. Of other types the first
 * part. */
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

/* Part number i of a complex result. */
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
