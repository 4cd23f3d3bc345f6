/* SPDX-License-Identifier: Apache-2.0 */
/* reference_made_value.h: declares how a value given as f64 becomes an element, as the operator
 * cast converts it, for operators with such a value. */
#ifndef BP_OPS_COMMON_REFERENCE_MADE_VALUE_H
#define BP_OPS_COMMON_REFERENCE_MADE_VALUE_H

#include "reference.h"

void ref_made_value(struct ref_array *out, int64_t i, double value);

#endif
