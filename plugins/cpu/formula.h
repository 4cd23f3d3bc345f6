/* SPDX-License-Identifier: Apache-2.0 */
/* formula.h: what the families of formulas share, for one dtype (elem.h). They know no operator's
 * attributes by name, so that a new operator compiles only its own family anew. */
#ifndef CPU_FORMULA_H
#define CPU_FORMULA_H

#include <backplane/kernel.h>
#include <kernels/elem.h>

/* Attribute number i of a formula, from 1: they are F64 and follow the size of the struct. 0 where
 * the operator has no such. */
static inline double attr_f64(const struct bp_launch *launch, uint32_t i)
{
    int has = launch->kernel->attrs_size >= 8 * (i + 1);

    return has ? ((const double *)launch->attrs)[i] : 0;
}

/* The same of one that is an integer or a flag. */
static inline int64_t attr_i64(const struct bp_launch *launch, uint32_t i)
{
    int has = launch->kernel->attrs_size >= 8 * (i + 1);

    return has ? ((const int64_t *)launch->attrs)[i] : 0;
}

/* The same as it is computed with. */
static inline acc attr_number(const struct bp_launch *launch, uint32_t i)
{
    return number(attr_f64(launch, i));
}

#endif
