/* SPDX-License-Identifier: Apache-2.0 */
/* kernel.h: computes elementwise operators of two inputs, z = f(x, y), for one dtype (elem.h). The
 * formulas are in kernels.def. */
#ifndef BP_OPS_BINARY_KERNEL_H
#define BP_OPS_BINARY_KERNEL_H

#include "../../dialect/elem.h"
#include "../common/kernel_formulas.h"
#include "../../dialect/pairs.h"

/* op is a constant where these functions are inlined, otherwise it is equal for all lanes. */
#ifndef ELEM_COMPLEX
KFN ord binary_ord(int op, ord x, ord y)
{
    switch (op) {
#define BINARY_REAL(op, formula) case BINARY_##op: return formula;
#ifndef ELEM_FLOAT
#define BINARY_INT(op, formula) case BINARY_##op: return formula;
#define BINARY_BITS(op, formula) case BINARY_##op: return formula;
#endif
#include "kernels.def"
    default: return x;
    }
}
#endif

KFN acc binary_acc(int op, acc x, acc y, acc a, acc b)
{
    (void)a;
    (void)b;
    switch (op) {
#define BINARY_NUMBER(op, formula) case BINARY_##op: return formula;
#if defined(ELEM_FLOAT) || defined(ELEM_COMPLEX)
#define BINARY_FIELD(op, formula) case BINARY_##op: return formula;
#endif
#ifdef ELEM_FLOAT
#define BINARY_FLOAT(op, formula) case BINARY_##op: return formula;
#endif
#include "kernels.def"
    default: return x;
    }
}

KFN elem binary_elem(int op, elem x, elem y, acc a, acc b)
{
    switch (op) {
#ifndef ELEM_COMPLEX
#define BINARY_REAL(op, formula) case BINARY_##op:
#define BINARY_INT(op, formula) case BINARY_##op:
#define BINARY_BITS(op, formula) case BINARY_##op:
#include "kernels.def"
        return elem_of_ord(binary_ord(op, elem_ord(x), elem_ord(y)));
#endif
    default: return elem_put(binary_acc(op, elem_get(x), elem_get(y), a, b));
    }
}

/* Whether a formula is many instructions, so that a GPU computes one element after the other. op is
 * a constant where this function is inlined. */
KFN int binary_is_long(int op)
{
    switch (op) {
    case BINARY_atan2: case BINARY_hypot: case BINARY_xlogy: case BINARY_mod: case BINARY_fmod:
    case BINARY_floor_divide: case BINARY_pow: case BINARY_gcd: case BINARY_lcm:
    case BINARY_elu_grad: case BINARY_softplus_grad: case BINARY_gelu_grad:
    case BINARY_gelu_tanh_grad: return 1;
    default: return 0;
    }
}

#endif
