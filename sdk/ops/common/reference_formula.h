/* SPDX-License-Identifier: Apache-2.0 */
/* reference_formula.h: declares references of operators that are one formula per element. */
#ifndef BP_OPS_COMMON_REFERENCE_FORMULA_H
#define BP_OPS_COMMON_REFERENCE_FORMULA_H

#include "reference.h"

/* The values that a formula may need besides x: the operator's first three attributes, rounded to
 * the computing type, and the type of x. */
struct ref_formula_of {
    long double a, b, c;
    const struct num_type *type;
};

/* The formula of one operator. `plain` or `with` computes y; `bound`, if set, returns the error
 * that a correct computation may have, as in struct ref_array. */
struct ref_formula {
    const char *op;
    long double (*plain)(long double x);
    long double (*with)(long double x, const struct ref_formula_of *of);
    long double (*bound)(long double x, long double y, const struct ref_formula_of *of);
};

/* Returns the attributes of a call. */
struct ref_formula_of ref_formula_of(const struct ref_array *in, const void *attrs);

/* Computes a float result by the formula of that name, which the list must have. */
void ref_formula_run(const struct ref_formula *list, const char *op, const struct ref_array *in,
                     const void *attrs, struct ref_array *out);

/* Returns v rounded to the type in which `type` is computed. */
long double ref_rounded(const struct num_type *type, long double v);

/* Returns by how much the rounding of a subnormal number of that type moves it at most, in unit
 * roundoffs. An exponential that underflows is off by that much, and so is a product with it. */
long double ref_underflow(const struct num_type *type);

long double ref_logistic(long double x);
long double ref_normal_below(long double x);   /* probability that a standard normal number is below
                                                  x */
long double ref_normal_density(long double x); /* its derivative */

#endif
