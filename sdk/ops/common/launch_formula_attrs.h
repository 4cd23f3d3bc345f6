/* SPDX-License-Identifier: Apache-2.0 */
/* launch_formula_attrs.h: reads attributes of operators that are one formula per element, for their
 * launches. It knows no operator's attributes by name, so that a new operator recompiles its own
 * family only. */
#ifndef BP_OPS_COMMON_LAUNCH_FORMULA_ATTRS_H
#define BP_OPS_COMMON_LAUNCH_FORMULA_ATTRS_H

#include "kernel_formulas.h"
#include <backplane/kernel.h>

/* Returns attribute number i of a formula, from 1: attributes are F64 and follow the size of the
 * struct. 0 if the operator has no such attribute. */
static inline double attr_f64(const struct bp_launch *launch, uint32_t i)
{
    int has = launch->kernel->attrs_size >= 8 * (i + 1);

    return has ? ((const double *)launch->attrs)[i] : 0;
}

/* As attr_f64, for an attribute that is an integer or a flag. */
static inline int64_t attr_i64(const struct bp_launch *launch, uint32_t i)
{
    int has = launch->kernel->attrs_size >= 8 * (i + 1);

    return has ? ((const int64_t *)launch->attrs)[i] : 0;
}

/* Returns the number of the formula, for an operator that has several formulas. */
static inline int unary_form(int op, const struct bp_launch *launch)
{
    if (op == UNARY_gelu && attr_i64(launch, 1)) /* attribute `approximate` */
        return UNARY_gelu_tanh;
    return op;
}

#endif
