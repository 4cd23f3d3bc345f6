/* SPDX-License-Identifier: Apache-2.0 */
/* cases_listed.h: cases as lines of a table: what an operator's attributes are, in the order in
 * which its row declares them. */
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
    } list[4];                      /* of DIMS */
    int64_t number[LISTED_NUMBERS]; /* of I64, FLAG and INTS; a DTYPE is that of the case */
    double real[3];                 /* of F64 */
    bool quick, layouts;
};

/* A case, with its attributes set, not yet in the list. */
struct kernel_case *listed_begin(const struct case_maker *maker, const struct listed_case *line);

/* Whether an attribute that could be a tensor is not empty. */
bool listed_has_host(const struct listed_case *line);

/* Whether the case is of an element size that has been had: for what only moves elements, all lines
 * for one dtype of each size and the quick ones for the others will do. */
bool listed_repeats(const struct case_maker *maker, const struct listed_case *line);

/* Whether the line says by its name that its result has too many elements to differentiate. */
bool listed_is_wide(const struct listed_case *line);

#endif
