/* SPDX-License-Identifier: Apache-2.0 */
/* parts.h: what a device must have for a case that no kernel row of its operator runs: rows of the
 * operators that the case decomposes into, as the core lists them. */
#ifndef BP_CONFORM_PARTS_H
#define BP_CONFORM_PARTS_H

#include "check.h"
#include <ops/common/cases.h>

/* The device's rows, and what was found for the cases of a place so far: it stands for all cases of
 * the same operator, attributes, dtypes and ranks (with or without elements; of real size: of the
 * same extents). One thread at a time. */
struct parts;

/* NULL is fine. */
void parts_destroy(struct parts *parts);

/* Whether the place's device has no usable row for an operator that the case decomposes into, nor
 * for all that this one is defined in; or for the copy of a view. Then text says which (NULL: it is
 * not asked for). false for a case with a row of its own. */
bool parts_lack(struct place *place, const struct kernel_case *made, char *text, size_t size);

/* Whether the case decomposes into op on one of the dtypes of a mask (of its variable T), where the
 * device has a row for that. */
bool parts_have(struct place *place, const struct kernel_case *made, const char *op,
                uint64_t dtypes);

#endif
