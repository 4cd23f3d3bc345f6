/* SPDX-License-Identifier: Apache-2.0 */
/* cases_listed.h: declares cases as lines of a table: each line lists the values of the operator's
 * attributes, in the order in which the operator definition declares them. */
#ifndef BP_OPS_COMMON_CASES_LISTED_H
#define BP_OPS_COMMON_CASES_LISTED_H

#include "cases.h"

enum {
    LISTED_NUMBERS = 12
};

struct listed_case {
    const char *op, *variant, *shapes;
    struct {
        int n;
        int64_t at[REF_RANK];
    } list[4];                      /* for DIMS */
    int64_t number[LISTED_NUMBERS]; /* for I64, FLAG and INTS; a DTYPE attribute is the dtype of the
                                       case */
    double real[3];                 /* for F64 */
    bool quick, layouts;
};

/* Returns a new case with the attributes of a line set; it is not yet in the list. */
struct kernel_case *listed_begin(const struct case_builder *builder,
                                 const struct listed_case *line);

/* Whether the line has an attribute that could be passed as a tensor; a list must not be empty. */
bool listed_has_host(const struct listed_case *line);

/* Whether another dtype of the same element size covers this line. For operators that only move
 * elements, one dtype of each size gets all lines; other dtypes get the quick lines and those with
 * layouts. */
bool listed_repeats(const struct case_builder *builder, const struct listed_case *line);

/* Whether the name of the line says that its result has too many elements to differentiate. */
bool listed_is_wide(const struct listed_case *line);

#endif
