/* SPDX-License-Identifier: Apache-2.0 */
/* compare.h: compares a result with the reference, within the operator's tolerance.
 * docs/accuracy.md derives the tolerances. */
#ifndef BP_CONFORM_COMPARE_H
#define BP_CONFORM_COMPARE_H

#include <ops/common/cases.h>

struct comparison {
    int64_t wrong; /* elements outside the tolerance */
    int64_t at;    /* index of the element with the largest error */
    /* Its error divided by the allowed error. At most 1: within the tolerance. -1: the dtype is no
     * float dtype. */
    double worst;
    double ulp;     /* its error in units of the last place (ulp) of the result's dtype */
    double allowed; /* the allowed error of that element, in ulp too */
};

/* Compares data, which is dense and has the dtype of expected, with expected. */
struct comparison compare(const struct conform_op *op, const struct ref_array *expected,
                          const void *data);

/* The byte with which number i of an output is filled before the kernel runs (i counts elements,
 * and the real and the imaginary part of complex ones separately). For floats this makes a NaN or,
 * where NaN is the expected value, a finite number, so that an element that the kernel does not
 * write is wrong. For integers it makes a value that hardly occurs, for bool a byte that is no
 * valid value. */
int compare_poison(const struct ref_array *expected, int64_t i);

/* Counts the elements of a wrong result that the kernel never wrote: elements that still hold the
 * poison bytes where the expected value is another one. */
int64_t compare_unwritten(const struct comparison *c, const struct ref_array *expected,
                          const void *data);

/* Writes a text such as "worst at [3,17] (element 45 of 96): got 0.12, expected 0.124, 12.5 ulp
 * where 4.03 are allowed; 3 of 96 elements are wrong". */
void compare_describe(const struct comparison *c, const struct ref_array *expected,
                      const void *data, char *text, size_t size);

#endif
