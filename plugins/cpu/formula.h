/* SPDX-License-Identifier: Apache-2.0 */
/* formula.h: declares helpers that the families of formulas share, for one dtype (elem.h). The
 * families do not know an operator's attributes by name, so a new operator recompiles only its own
 * family. */
#ifndef CPU_FORMULA_H
#define CPU_FORMULA_H

#include <backplane/kernel.h>
#include <dialect/elem.h>
#include <ops/common/launch_formula_attrs.h>

/* Attribute number i, in the type of the computation. */
static inline acc attr_number(const struct bp_launch *launch, uint32_t i)
{
    return number(attr_f64(launch, i));
}

#endif
