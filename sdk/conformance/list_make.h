/* SPDX-License-Identifier: Apache-2.0 */
/* list_make.h: functions by which the files that make the list of cases add cases to it. */
#ifndef BP_CONFORM_LIST_MAKE_H
#define BP_CONFORM_LIST_MAKE_H

#include "list.h"

/* Adds a case of the current unit, without a kernel row and marked quick. */
struct listed *list_add(struct list *list, enum suite suite);

/* Begins a unit of that suite. The ids of all its cases begin with the suite and name (NULL: they
 * may have any name). Returns whether the unit is to be made; if it is not, the caller adds no
 * cases. */
bool list_unit_begin(struct list *list, enum suite suite, const char *name);

/* Makes ids unique: where a family gives the same name to several cases with drawn numbers, the
 * second kernel/sort/f32/up/3x4@cpu_sort becomes kernel/sort/f32/up/3x4#2@cpu_sort. Returns the
 * hash of the original id. */
uint64_t list_number_id(const struct list *list, char *id);

/* Makes the cases for each combination of dtypes of the type variables from `variable` on. A type
 * variable that the operator does not have gets the dtype of the first one. */
void list_add_dtypes(struct case_builder *builder, const struct bp_opinfo *op,
                     const uint64_t *types, int variable);

/* Sets the dtypes with which calls reach a kernel row. A row may have a dtype that its operator
 * does not have: i32 for returned indices, which the core converts. Calls have i64 then. */
void list_row_types(const struct bp_opinfo *op, const struct bp_kernel_info *info, uint64_t *types);

/* In list_program.c: add the cases of the suites pass and graph. */
void list_add_passes(struct list *list);
void list_add_networks(struct list *list);

/* In list_expand.c: adds cases that run an operator through its decomposition although the device
 * has kernel rows for it, for the dtypes of these rows. */
void list_add_defined(struct list *list, const struct bp_opinfo *op);

/* Adds units for the operators that have a decomposition. Where the device has several kernel rows
 * for a step, each of these rows must run as that step at real size, because constants, views and
 * temporary buffers reach a row there in another form than in its own cases. */
void list_add_inside(struct list *list);

#endif
