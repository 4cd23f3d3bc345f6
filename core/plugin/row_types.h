/* SPDX-License-Identifier: Apache-2.0 */
/* row_types.h: whether a kernel row states dtypes that its operator is defined for. Cases are made
 * of these alone: a reference has no function for others. */
#ifndef BP_CONFORM_ROW_TYPES_H
#define BP_CONFORM_ROW_TYPES_H

#include <backplane/op.h>
#include <stdbool.h>

/* The dtypes of a type variable that kernels of the operator see: not those of a tensor that only
 * gives an attribute. 0: the operator has no such variable. */
uint64_t row_types_of(const struct bp_opinfo *op, int var);

/* Whether a row's masks have a dtype that the operator is not defined for, or none for one of its
 * type variables; then text says which. */
bool row_types_misfit(const struct bp_opinfo *op, const char *row, const uint64_t *types,
                      char *text, size_t size);

#endif
