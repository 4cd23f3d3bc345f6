/* SPDX-License-Identifier: Apache-2.0 */
/* list_make.h: how the files that make the list add to it. */
#ifndef BP_CONFORM_LIST_MAKE_H
#define BP_CONFORM_LIST_MAKE_H

#include "list.h"

/* An entry, of the current unit, without a row and quick. */
struct listed *list_add(struct list *list, enum suite suite);

/* The cases that come now are a unit, of that suite; the ids of all begin with the suite and name
 * (NULL: may be any). Whether they are to be made. */
bool list_unit_begin(struct list *list, enum suite suite, const char *name);

/* Cases that a family calls by one name, of numbers that it chose, get numbers: the second one of
 * kernel/sort/f32/up/3x4@cpu_sort is kernel/sort/f32/up/3x4#2@cpu_sort. Answers the hash. */
uint64_t list_number_id(const struct list *list, char *id);

/* All dtypes of the first type variable with all others of each further one; one that the operator
 * does not have is as the first. */
void list_add_dtypes(struct case_maker *maker, const struct bp_opinfo *op, const uint64_t *types,
                     int variable);

/* list_expand.c: an operator that the device has rows for, as what it is defined in, for the dtypes
 * of these. */
void list_add_defined(struct list *list, const struct bp_opinfo *op);

/* Units of the operators that are made of those of rows: each row of which there are others is to
 * run in each at real size, where constants, views and temporaries come to it by other ways. */
void list_add_inside(struct list *list);

#endif
