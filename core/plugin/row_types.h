/* SPDX-License-Identifier: Apache-2.0 */
/* row_types.h: checks whether the dtypes of a kernel row match its operator. */
#ifndef BP_PLUGIN_ROW_TYPES_H
#define BP_PLUGIN_ROW_TYPES_H

#include <backplane/kernel.h>
#include <stdbool.h>

/* Whether a mask of types, one for each type variable, has a dtype that the operator does not
 * support (except i32 alone for indices of i64 that the operator returns), or is empty although the
 * operator has the variable. If so, text names the variable and the dtypes, and begins with
 * "types[". */
bool bp_row_types_find_misfit(const struct bp_opinfo *op, const uint64_t *types, char *text,
                              size_t size);

#endif
