/* SPDX-License-Identifier: Apache-2.0 */
/* reference_formula.h: references of operators that are one formula an element. */
#ifndef BP_OPS_COMMON_REFERENCE_FORMULA_H
#define BP_OPS_COMMON_REFERENCE_FORMULA_H

#include "reference.h"

/* What a formula may need besides x: the operator's attributes (the first three, rounded to the
 * type that is computed in), and the type of x. */
struct ref_formula_of {
    long double a, b, c;
    const struct num_type *type;
};

/* One operator. plain or with gives y; bound, if given, what a sound computation may miss it by, as
 * in struct ref_array. */
struct ref_formula {
    const char *op;
    long double (*plain)(long double x);
    long double (*with)(long double x, const struct ref_formula_of *of);
    long double (*bound)(long double x, long double y, const struct ref_formula_of *of);
};

/* The attributes of a call. */
struct ref_formula_of ref_formula_of(const struct ref_array *in, const void *attrs);

/* Floats, by the formula of that name, which the list has. */
void ref_formula_run(const struct ref_formula *list, const char *op, const struct ref_array *in,
                     const void *attrs, struct ref_array *out);

/* v rounded to the type that type is computed in. */
long double ref_rounded(const struct num_type *type, long double v);

/* What the rounding of a subnormal number of that type moves it by at most, in unit roundoffs: an
 * exponential that underflows is off by that much, and so is what it is multiplied with. */
long double ref_underflow(const struct num_type *type);

long double ref_logistic(long double x);
long double ref_normal_below(long double x);   /* probability of a standard normal number below x */
long double ref_normal_density(long double x); /* its derivative */

#endif
