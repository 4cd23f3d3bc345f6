/* SPDX-License-Identifier: Apache-2.0 */
/* reference_number.h: element types as the suite reads, writes and measures them. Written from the
 * definition of the formats, so that a mistake in the core's or a plugin's conversions is not
 * repeated here. */
#ifndef BP_OPS_COMMON_REFERENCE_NUMBER_H
#define BP_OPS_COMMON_REFERENCE_NUMBER_H

#include <backplane/types.h>
#include <stdbool.h>

enum num_class {
    NUM_BOOL,
    NUM_SIGNED,
    NUM_UNSIGNED,
    NUM_FLOAT,
    NUM_COMPLEX
};

struct num_type {
    const char *name;
    uint32_t dtype, size; /* bytes of one element */
    enum num_class class;
    int parts; /* numbers in an element: 2 for complex, else 1 */
    /* Floats, and the parts of complex ones; IEEE formats only. */
    int digits;     /* of the significand, the hidden one counted */
    int emin, emax; /* exponent of the smallest and the largest normal binade */
};

/* NULL for a number that is no dtype. */
const struct num_type *num_type(uint32_t dtype);

/* The type in which a kernel computes sums: f32 for half types, else the type (or part) itself. */
const struct num_type *num_accumulate(const struct num_type *type);

static inline bool num_is_int(const struct num_type *type)
{
    return type->class == NUM_BOOL || type->class == NUM_SIGNED || type->class == NUM_UNSIGNED;
}
static inline bool num_is_half(const struct num_type *type)
{
    return type->dtype == BP_F16 || type->dtype == BP_BF16;
}

/* Integers and bools as 64 bits, sign- or zero-extended. set keeps the low bits; a bool is value
 * != 0. */
uint64_t num_get_int(const struct num_type *type, const void *at);
void num_set_int(const struct num_type *type, void *at, uint64_t value);

/* One float: the element, or a part of a complex one. set rounds to nearest, ties to even. */
long double num_get_float(const struct num_type *type, const void *at);
void num_set_float(const struct num_type *type, void *at, long double value);

/* The distance of neighbours of the format in the binade of value; the smallest one around zero. */
long double num_ulp(const struct num_type *type, long double value);

/* Half the distance of 1 and its upper neighbour: the largest relative error of one rounding. */
long double num_unit(const struct num_type *type);

long double num_max(const struct num_type *type);        /* the largest finite value */
long double num_min_normal(const struct num_type *type); /* the smallest positive normal value */

#endif
