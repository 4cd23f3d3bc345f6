/* SPDX-License-Identifier: Apache-2.0 */
/* reference_number.h: declares element types as the suite reads, writes and measures them. They are
 * written from the definition of the formats, so that a mistake in the conversions of the core or
 * of a plugin is not repeated here. */
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
    int parts; /* numbers in an element: 2 for complex, otherwise 1 */
    /* For floats and the parts of complex numbers. */
    int digits;     /* of the significand, including the hidden one */
    int emin, emax; /* exponents of the smallest and the largest normal binade */
};

/* Returns NULL for a number that is not a dtype. */
const struct num_type *num_type(uint32_t dtype);

/* The type in which a kernel computes sums: f32 for half and f8 types, otherwise the type
 * (or part) itself. */
const struct num_type *num_accumulate(const struct num_type *type);

static inline bool num_is_int(const struct num_type *type)
{
    return type->class == NUM_BOOL || type->class == NUM_SIGNED || type->class == NUM_UNSIGNED;
}
static inline bool num_is_f8(const struct num_type *type)
{
    return BP_MASK_F8 >> type->dtype & 1;
}
static inline bool num_is_half(const struct num_type *type)
{
    return type->dtype == BP_F16 || type->dtype == BP_BF16;
}

/* Integers and bools as 64 bits, sign- or zero-extended. num_set_int keeps the low bits; a bool
 * becomes value != 0. */
uint64_t num_get_int(const struct num_type *type, const void *at);
void num_set_int(const struct num_type *type, void *at, uint64_t value);

/* Whether a float type has numbers below 0. */
static inline bool num_has_sign(const struct num_type *type)
{
    return type->dtype != BP_F8E8M0;
}

/* One float: the element, or a part of a complex one. num_set_float rounds to nearest, ties to
 * even; a number that rounds beyond the type becomes an infinity, or NaN as an f8 type without
 * infinities. To f8e8m0, ties go up, the smallest number replaces zero and smaller ones, and
 * negative numbers become NaN. */
long double num_get_float(const struct num_type *type, const void *at);
void num_set_float(const struct num_type *type, void *at, long double value);

/* The distance between neighbouring numbers of the format in the binade of value; around zero, the
 * smallest such distance. */
long double num_ulp(const struct num_type *type, long double value);

/* Half the distance between 1 and its upper neighbour: the largest relative error of one
 * rounding. */
long double num_unit(const struct num_type *type);

long double num_max(const struct num_type *type);        /* the largest finite value */
long double num_min_normal(const struct num_type *type); /* the smallest positive normal value */

#endif
