/* SPDX-License-Identifier: Apache-2.0 */
/* formula.h: what the families of formulas share, for one dtype (elem.h). They know no operator's
 * attributes by name, so that a new operator compiles only its own family anew. */
#ifndef CPU_FORMULA_H
#define CPU_FORMULA_H

#include <backplane/kernel.h>
#include <dialect/elem.h>
#include <ops/common/launch_formula_attrs.h>

/* Attribute number i as it is computed with. */
static inline acc attr_number(const struct bp_launch *launch, uint32_t i)
{
    return number(attr_f64(launch, i));
}

#endif
