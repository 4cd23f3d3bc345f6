/* SPDX-License-Identifier: Apache-2.0 */
/* reference_number.c: computes reference results of arithmetic with one input. They are exact,
 * except squares of f64 and of complex numbers. */
#include "../common/reference_formula.h"
#include <math.h>
#include <string.h>

static long double ref_number_neg(long double x)
{
    return -x;
}

static long double ref_number_sign(long double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

static long double ref_number_square(long double x)
{
    return x * x;
}

/* The error of long double for the square of an f64 is u 2^-11 of the square. */
static long double square_bound(long double x, long double y, const struct ref_formula_of *of)
{
    (void)x;
    return of->type->digits > 24 ? fabsl(y) * 0x1p-11L : 0;
}

static long double ref_number_frac(long double x)
{
    return x - truncl(x);
}

static long double ref_number_clip(long double x, const struct ref_formula_of *of)
{
    x = x < of->a ? of->a : x;
    return x > of->b ? of->b : x;
}

static long double nan_to_num(long double x, const struct ref_formula_of *of)
{
    long double most = num_max(of->type), y = isnan(x) ? of->a : x > 0 ? of->b : of->c;

    if (isfinite(x)) return x;
    return isnan(x) ? y : y > most ? most : y < -most ? -most : y;
}

static const struct ref_formula formula[] = {
    {"abs", fabsl, NULL, NULL},
    {"neg", ref_number_neg, NULL, NULL},
    {"sign", ref_number_sign, NULL, NULL},
    {"square", ref_number_square, NULL, square_bound},
    {"ceil", ceill, NULL, NULL},
    {"floor", floorl, NULL, NULL},
    {"round", rintl, NULL, NULL}, /* to even: no code changes the rounding direction */
    {"trunc", truncl, NULL, NULL},
    {"frac", ref_number_frac, NULL, NULL},
    {"clip", NULL, ref_number_clip, NULL},
    {"hard_tanh", NULL, ref_number_clip, NULL},
    {"nan_to_num", NULL, nan_to_num, NULL},
};

/* Whether integer x is below bound; whether it is above. */
static bool is_below(const struct num_type *type, uint64_t x, double bound)
{
    return type->class == NUM_SIGNED ? (long double)(int64_t)x < (long double)bound
                                     : (long double)x < (long double)bound;
}
static bool is_above(const struct num_type *type, uint64_t x, double bound)
{
    return type->class == NUM_SIGNED ? (long double)(int64_t)x > (long double)bound
                                     : (long double)x > (long double)bound;
}

/* Rounds bound up or down to an integer of the type; a bound outside of the type becomes the end of
 * the type. */
static uint64_t as_integer(const struct num_type *type, double bound, bool up)
{
    unsigned bits = 8 * type->size;
    uint64_t lowest = type->class == NUM_SIGNED ? UINT64_MAX << (bits - 1) : 0;
    uint64_t highest = UINT64_MAX >> (64 - bits + (type->class == NUM_SIGNED));

    bound = up ? ceil(bound) : floor(bound);
    if (is_above(type, lowest, bound)) return lowest;
    if (is_below(type, highest, bound)) return highest;
    return bound < 0 ? (uint64_t)(int64_t)bound : (uint64_t)bound;
}

static uint64_t clip_integer(const struct num_type *type, uint64_t x, const struct bp_clip_attrs *a)
{
    if (is_below(type, x, a->min)) x = as_integer(type, a->min, true);
    return is_above(type, x, a->max) ? as_integer(type, a->max, false) : x;
}

static uint64_t of_integer(const struct num_type *type, const char *op, uint64_t x,
                           const void *attrs)
{
    bool negative = type->class == NUM_SIGNED && (int64_t)x < 0;

    if (!strcmp(op, "bitwise_not")) return type->class == NUM_BOOL ? !x : ~x;
    if (!strcmp(op, "clip")) return clip_integer(type, x, attrs);
    if (!strcmp(op, "square")) return x * x;
    if (!strcmp(op, "sign")) return negative ? UINT64_MAX : x != 0;
    return !strcmp(op, "neg") || negative ? 0 - x : x;
}

/* Complex neg and square: (a + b i)^2 = a a - b b + 2 a b i. */
static void of_complex(bool is_square, const long double *x, long double *y, long double *bound)
{
    y[0] = is_square ? x[0] * x[0] - x[1] * x[1] : -x[0];
    y[1] = is_square ? 2 * x[0] * x[1] : -x[1];
    if (!is_square) return;
    bound[0] = x[0] * x[0] + x[1] * x[1];
    bound[1] = fabsl(y[1]);
}

void ref_family_unary_number(const char *op, const struct ref_array *in, const void *attrs,
                             struct ref_array *out)
{
    const struct num_type *type = in->type;

    if (type->class == NUM_FLOAT) {
        ref_formula_run(formula, op, in, attrs, out);
        out->exact = type->digits <= 24;
        return;
    }
    ref_array_init(out, type->dtype, in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++)
        if (out->u) out->u[i] = of_integer(type, op, in->u[i], attrs);
        else of_complex(!strcmp(op, "square"), in->v + 2 * i, out->v + 2 * i, out->bound + 2 * i);
}

/* Operators with a bool result. */
void ref_family_predicate(const char *op, const struct ref_array *in, const void *attrs,
                          struct ref_array *out)
{
    int parts = in->type->parts;

    (void)attrs;
    ref_array_init(out, BP_BOOL, in->rank, in->shape);
    for (int64_t i = 0; i < out->count; i++) {
        const long double *v = in->v + i * parts;
        if (in->u) out->u[i] = in->u[i] == 0;
        else if (!strcmp(op, "isnan")) out->u[i] = isnan(v[0]) != 0;
        else if (!strcmp(op, "isinf")) out->u[i] = isinf(v[0]) != 0;
        else if (!strcmp(op, "isfinite")) out->u[i] = isfinite(v[0]) != 0;
        else out->u[i] = v[0] == 0 && (parts == 1 || v[1] == 0);
    }
}
