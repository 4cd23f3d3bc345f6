/* SPDX-License-Identifier: Apache-2.0 */
/* compare.c: compares results with the reference and describes the worst error. */
#include "compare.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Operators that select one of two equal values, so that the sign of a zero is open; and
 * fake_quantize_abs_max, whose intermediate numbers are integers. */
#define OPEN_ZEROS \
    "max", "min", "amax", "amin", "maximum", "minimum", "fmax", "fmin", "cummax", "cummin", \
        "max_pool", "global_max_pool", "maxout", "fake_quantize_abs_max"

/* The type of one number of an element: of one part for complex dtypes. */
static const struct num_type *part_type(const struct num_type *type)
{
    if (type->dtype == BP_C64) return num_type(BP_F32);
    return type->dtype == BP_C128 ? num_type(BP_F64) : type;
}

/* One comparison: the operator, the reference, and the facts that are equal for all numbers. */
struct measure {
    const struct conform_op *op;
    const struct ref_array *expected;
    const struct num_type *type, *sum; /* of a number, and of the sums in which it is computed */
    long double unit, min_normal;      /* of sum */
    long double max, overflow;         /* of type; from overflow on infinity is the result */
    bool half, signed_zeros;
};

/* The largest allowed error of number i: docs/accuracy.md, "The rule". */
static long double compare_allowance(const struct measure *m, int64_t i)
{
    const struct conform_op *op = m->op;
    long double value = m->expected->v[i], allowed;

    if (!op->terms) return op->ulp * num_ulp(m->type, value) + m->unit * m->expected->bound[i];
    allowed = op->ulp * num_ulp(m->sum, value) + m->unit * m->expected->bound[i];
    if (m->half) allowed += num_ulp(m->type, value) / 2;
    if (m->expected->flush && fabsl(value) < m->min_normal) allowed += fabsl(value);
    return allowed;
}

/* Round to nearest even: an exact tie must give the neighbour whose significand is even, that is,
 * which is a multiple of two ulps. */
static bool tie_is_even(const struct num_type *type, long double got)
{
    return fmodl(got, 2 * num_ulp(type, got)) == 0;
}

/* Values from half an ulp beyond the largest value on are rounded to infinity. */
static bool compare_overflows(const struct measure *m, long double value)
{
    return value > m->max && value >= m->overflow;
}

/* Whether the sign of a zero is part of the result. It is for operators that are correctly rounded
 * or copy. It is not for sums of several terms, for parts of complex numbers, nor for operators
 * that select one of two equal values, because +0 and -0 are equal. */
static bool has_signed_zeros(const struct conform_op *op, const struct num_type *type)
{
    static const char *const open[] = {OPEN_ZEROS};

    if (op->terms || op->ulp > 0.5 || type->parts > 1) return false;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (!strcmp(op->name, open[i])) return false;
    return true;
}

static struct measure measure_of(const struct conform_op *op, const struct ref_array *expected)
{
    const struct num_type *type = part_type(expected->type), *sum = num_accumulate(expected->type);
    long double max = num_max(type);

    return (struct measure){.op = op,
                            .expected = expected,
                            .type = type,
                            .sum = sum,
                            .unit = num_unit(sum),
                            .min_normal = num_min_normal(sum),
                            .max = max,
                            .overflow = max + num_ulp(type, max) / 2,
                            .half = num_is_half(type),
                            .signed_zeros = has_signed_zeros(op, expected->type)};
}

/* The error of got, divided by the allowed error. */
static long double error_part(const struct measure *m, int64_t i, long double got,
                              long double *out_allowed)
{
    long double value = m->expected->v[i], allowed, error;
    bool terms = m->op->terms;

    *out_allowed = 0;
    if (isnan(value)) return isnan(got) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (got == value && value == 0 && !signbit(got) != !signbit(value) && m->signed_zeros)
        return INFINITY;
    if (got == value) return 0;
    if (isinf(value)) return INFINITY;
    *out_allowed = allowed = compare_allowance(m, i);
    if (isinf(got))
        return (got > 0) == (value > 0) && compare_overflows(m, fabsl(value) + allowed * terms)
                   ? 0
                   : INFINITY;
    error = fabsl(got - value);
    if (!terms && compare_overflows(m, fabsl(value))) return INFINITY;
    if (m->expected->exact && allowed > 0 && error == num_ulp(m->type, value) / 2 &&
        !tie_is_even(m->type, got))
        return INFINITY;
    return allowed > 0 ? error / allowed : INFINITY;
}

static void compare_floats(const struct conform_op *op, const struct ref_array *expected,
                           const char *data, struct comparison *c)
{
    struct measure m = measure_of(op, expected);
    uint32_t parts = (uint32_t)expected->type->parts, size = expected->type->size / parts;
    long double worst = -1;

    for (int64_t i = 0; i < expected->count * parts; i++) {
        long double got = num_get_float(m.type, data + i * size), allowed;
        long double part = error_part(&m, i, got, &allowed);
        c->wrong += part > 1;
        if (part <= worst) continue;
        worst = part;
        c->at = i / parts;
        c->ulp = (double)(fabsl(got - expected->v[i]) / num_ulp(m.type, expected->v[i]));
        c->allowed = (double)(allowed / num_ulp(m.type, expected->v[i]));
    }
    c->worst = (double)worst;
}

struct comparison compare(const struct conform_op *op, const struct ref_array *expected,
                          const void *data)
{
    struct comparison c = {.worst = -1};
    const struct num_type *type = expected->type;
    const char *at = data;
    char want[8];

    if (expected->v) {
        compare_floats(op, expected, data, &c);
        return c;
    }
    for (int64_t i = expected->count - 1; i >= 0; i--) {
        num_set_int(type, want, expected->u[i]);
        if (!memcmp(want, at + i * type->size, type->size)) continue;
        c.wrong++;
        c.at = i;
    }
    return c;
}

int compare_poison(const struct ref_array *expected, int64_t i)
{
    return expected->v && !isnan(expected->v[i]) ? 0xff : 0xa5;
}

/* Whether element i of data still has the bytes that it had before the kernel ran. */
static bool is_poison(const struct ref_array *expected, int64_t i, const char *data)
{
    uint32_t parts = (uint32_t)expected->type->parts, size = expected->type->size / parts;
    char poison[16];

    for (uint32_t p = 0; p < parts; p++)
        memset(poison + p * size, compare_poison(expected, i * parts + p), size);
    return !memcmp(poison, data + i * expected->type->size, expected->type->size);
}

int64_t compare_unwritten(const struct comparison *c, const struct ref_array *expected,
                          const void *data)
{
    const struct num_type *type = expected->type;
    const char *at = data;
    char want[8];
    int64_t n = 0;

    for (int64_t i = 0; i < expected->count; i++) {
        if (expected->u) num_set_int(type, want, expected->u[i]);
        n += is_poison(expected, i, data) &&
             !(expected->u && !memcmp(want, at + i * type->size, type->size));
    }
    /* A wrong one-byte value may equal the poison by chance. Only if all wrong bytes do, they count
     * as unwritten. */
    return type->size == 1 && n < c->wrong ? 0 : n;
}

static void print_number(const struct num_type *type, const char *at, char *text, size_t size)
{
    uint32_t part = type->size / (uint32_t)type->parts;

    if (type->parts == 2)
        snprintf(text, size, "%.17Lg%+.17Lgi", num_get_float(type, at),
                 num_get_float(type, at + part));
    else if (type->class == NUM_FLOAT)
        snprintf(text, size, "%.*Lg", type->digits > 24 ? 17 : 9, num_get_float(type, at));
    else if (type->class == NUM_SIGNED)
        snprintf(text, size, "%lld", (long long)num_get_int(type, at));
    else snprintf(text, size, "%llu", (unsigned long long)num_get_int(type, at));
}

static void print_index(const struct ref_array *array, int64_t element, char *text, size_t size)
{
    int64_t at[REF_RANK];
    size_t used = 1;

    for (int i = array->rank - 1; i >= 0; i--) {
        at[i] = element % array->shape[i];
        element /= array->shape[i];
    }
    snprintf(text, size, "[");
    for (int i = 0; i < array->rank; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                                 (long long)at[i]);
    snprintf(text + used, size - used, "]");
}

void compare_describe(const struct comparison *c, const struct ref_array *expected,
                      const void *data, char *text, size_t size)
{
    const struct num_type *type = expected->type;
    char got[96], want[96], index[160], measure[96] = "";

    if (!expected->count) {
        snprintf(text, size, "there are no elements");
        return;
    }
    print_number(type, (const char *)data + c->at * type->size, got, sizeof got);
    if (expected->u) {
        char bytes[8];
        num_set_int(type, bytes, expected->u[c->at]);
        print_number(type, bytes, want, sizeof want);
    } else if (type->parts == 2) {
        snprintf(want, sizeof want, "%.17Lg%+.17Lgi", expected->v[2 * c->at],
                 expected->v[2 * c->at + 1]);
    } else {
        snprintf(want, sizeof want, "%.*Lg", type->digits > 24 ? 19 : 11, expected->v[c->at]);
    }
    if (expected->v && isfinite(c->ulp))
        snprintf(measure, sizeof measure, ", %.4g ulp where %.4g are allowed", c->ulp, c->allowed);
    print_index(expected, c->at, index, sizeof index);
    snprintf(text, size,
             "worst at %s (element %lld of %lld): got %s, expected %s%s; %lld of %lld elements are "
             "wrong",
             index, (long long)c->at, (long long)expected->count, got, want, measure,
             (long long)c->wrong, (long long)expected->count * type->parts);
}
