/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h: whether a result is what the reference says, within the operator's tolerance. How the
 * tolerance comes about is derived in docs/accuracy.md. */
#ifndef BP_CONFORM_COMPARE_H
#define BP_CONFORM_COMPARE_H

#include <ops/common/cases.h>

struct comparison {
    int64_t wrong; /* elements outside the tolerance */
    int64_t at;    /* the worst element */
    double worst;  /* its error, as a part of what is allowed; 1 and below is good; -1: no floats */
    double ulp;    /* its error in units of the last place of the result's dtype */
    double allowed; /* what is allowed there, in the same units */
};

/* Compares data, dense and of the dtype of expected, with expected. */
struct comparison compare(const struct conform_op *op, const struct ref_array *expected,
                          const void *data);

/* The byte of which number i of an output (element i; parts of complex ones count) is made before
 * the kernel runs: a NaN for floats, or, where a NaN is expected, a finite number, so that what is
 * not written is wrong; one that hardly occurs for integers, no value at all for bool. */
int compare_poison(const struct ref_array *expected, int64_t i);

/* How many elements of a result that is wrong were never written: they still hold their poison,
 * and that is not what they should be. */
int64_t compare_unwritten(const struct comparison *c, const struct ref_array *expected,
                          const void *data);

/* "worst at [3,17] (element 45 of 96): got 0.12, expected 0.124, 12.5 ulp where 4.03 are
 * allowed; 3 of 96 elements are wrong". */
void compare_describe(const struct comparison *c, const struct ref_array *expected,
                      const void *data, char *text, size_t size);

#endif
