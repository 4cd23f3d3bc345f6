/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_ternary.h: computes elementwise operators of three inputs, w = f(x, y, z), for one float
 * dtype (elem.h; for other dtypes w is x). The formulas are in kernels_ternary.def. */
#ifndef BP_OPS_BINARY_KERNEL_TERNARY_H
#define BP_OPS_BINARY_KERNEL_TERNARY_H

#include "../../dialect/elem.h"
#include "../common/kernel_formulas.h"

/* op is a constant where this function is inlined, otherwise it is equal for all lanes. */
KFN elem ternary_elem(int op, elem p, elem q, elem r, acc a)
{
    acc x = elem_get(p), y = elem_get(q), z = elem_get(r);

    (void)x;
    (void)y;
    (void)z;
    (void)a;
    switch (op) {
#ifdef ELEM_FLOAT
#define TERNARY_FLOAT(op, formula) case TERNARY_##op: return elem_put(formula);
#include "kernels_ternary.def"
#endif
    default: return p;
    }
}

#endif
