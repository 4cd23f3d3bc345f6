/* SPDX-License-Identifier: Apache-2.0 */
/* row_types.h: whether the dtypes of a kernel row fit its operator. */
#ifndef BP_PLUGIN_ROW_TYPES_H
#define BP_PLUGIN_ROW_TYPES_H

#include <backplane/kernel.h>
#include <stdbool.h>

/* Whether a mask in types, one for each type variable, has a dtype that the operator does not have,
 * or is empty where the operator has the variable. Then text says which, beginning with
 * "types[". */
bool bp_row_types_find_misfit(const struct bp_opinfo *op, const uint64_t *types, char *text,
                              size_t size);

#endif
