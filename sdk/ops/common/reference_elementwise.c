/* SPDX-License-Identifier: Apache-2.0 */
/* reference_elementwise.c: computes the reference results of add, sub, mul, div, cast and
 * bit_cast. */
#include "reference.h"
#include <math.h>
#include <stdlib.h>

enum ref_elementwise_binary { ADD, SUB, MUL, DIV };

static uint64_t of_ints(enum ref_elementwise_binary op, uint64_t x, uint64_t y)
{
    return op == ADD ? x + y : op == SUB ? x - y : x * y;
}

/* The product or quotient of two f64 is off by u 2^-11 of itself in long double. */
static void of_reals(enum ref_elementwise_binary op, long double x, long double y, bool wide,
                     struct ref_array *out, int64_t i)
{
    out->v[i] = op == ADD ? x + y : op == SUB ? x - y : op == MUL ? x * y : x / y;
    if ((op == MUL || op == DIV) && wide && isfinite(out->v[i]))
        out->bound[i] = fabsl(out->v[i]) * 0x1p-11L;
}

/* Each part is the difference or sum of two products, which are rounded first. */
static void complex_product(const long double *x, const long double *y, struct ref_array *out,
                            int64_t i)
{
    out->v[i] = x[0] * y[0] - x[1] * y[1];
    out->v[i + 1] = x[0] * y[1] + x[1] * y[0];
    out->bound[i] = fabsl(x[0] * y[0]) + fabsl(x[1] * y[1]);
    out->bound[i + 1] = fabsl(x[0] * y[1]) + fabsl(x[1] * y[0]);
}

/* Finite numbers are computed by the definition: their squares fit in long double. Counted
 * roundings: the ratio of the parts of y, its product, the sum of the numerator, and two for the
 * sum of the denominator, whose terms have one sign; each acts on a product over |y|^2. Other
 * numbers follow the text of the operator definition: by that ratio. */
static void complex_quotient(const long double *x, const long double *y, struct ref_array *out,
                             int64_t i)
{
    long double a = x[0], b = x[1], c = y[0], d = y[1], square = c * c + d * d;
    bool real_first = fabsl(c) >= fabsl(d);

    if (isfinite(a) && isfinite(b) && isfinite(square)) {
        out->v[i] = (a * c + b * d) / square;
        out->v[i + 1] = (b * c - a * d) / square;
        if (!isfinite(out->v[i]) || !isfinite(out->v[i + 1])) return;
        out->bound[i] = 5 * (fabsl(a * c) + fabsl(b * d)) / square;
        out->bound[i + 1] = 5 * (fabsl(b * c) + fabsl(a * d)) / square;
        return;
    }
    long double r = real_first ? d / c : c / d, below = real_first ? c + d * r : d + c * r;
    out->v[i] = (real_first ? a + b * r : b + a * r) / below;
    out->v[i + 1] = (real_first ? b - a * r : b * r - a) / below;
}

static void ref_elementwise_binary(const struct ref_array *in, enum ref_elementwise_binary op,
                                   struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = ref_broadcast(&in[0], &in[1], shape), parts = in[0].type->parts;

    ref_array_init(out, in[0].type->dtype, rank, shape);
    /* quotients have no finite expansion; sums and products of f64 may need more digits than long
     * double has */
    out->exact = in[0].type->digits <= 24 && op != DIV && (op != MUL || parts == 1);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t x = ref_index(&in[0], rank, at), y = ref_index(&in[1], rank, at);
        if (out->u) out->u[i] = of_ints(op, in[0].u[x], in[1].u[y]);
        else if (op == MUL && parts == 2)
            complex_product(in[0].v + 2 * x, in[1].v + 2 * y, out, 2 * i);
        else if (op == DIV && parts == 2)
            complex_quotient(in[0].v + 2 * x, in[1].v + 2 * y, out, 2 * i);
        else
            for (int p = 0; p < parts; p++)
                of_reals(op, in[0].v[x * parts + p], in[1].v[y * parts + p],
                         in[0].type->digits > 24, out, i * parts + p);
    }
}

void ref_add(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_elementwise_binary(in, ADD, out);
}

void ref_sub(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_elementwise_binary(in, SUB, out);
}

void ref_mul(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_elementwise_binary(in, MUL, out);
}

void ref_div(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_elementwise_binary(in, DIV, out);
}

/* Rounds toward zero; a value beyond the type becomes the nearest end of the type, NaN becomes
 * 0. */
static uint64_t float_to_int(const struct num_type *to, long double x)
{
    int bits = 8 * (int)to->size;
    long double low = to->class == NUM_SIGNED ? -ldexpl(1, bits - 1) : 0;
    long double high = ldexpl(1, to->class == NUM_SIGNED ? bits - 1
                                                         : bits); /* first value too large */

    if (isnan(x)) return 0;
    x = truncl(x);
    if (x <= low) return to->class == NUM_SIGNED ? UINT64_MAX << (bits - 1) : 0;
    if (x >= high) return UINT64_MAX >> (64 - bits + (to->class == NUM_SIGNED));
    return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
}

/* Rounds to a power of two: f8e8m0 has no other numbers, and no zero. */
static long double to_power(const struct num_type *to, long double x, bool saturate, int64_t round)
{
    long double least = num_min_normal(to), most = num_max(to), low;
    int exponent;

    if (isnan(x) || x < 0) return NAN;
    if (x < least || x > most) return !saturate ? (long double)NAN : x < least ? least : most;
    low = frexpl(x, &exponent) == 0.5L ? x : ldexpl(1, exponent - 1);
    if (x == low || round == BP_CAST_ROUND_DOWN) return low;
    return round == BP_CAST_ROUND_UP || x - low >= low / 2 ? 2 * low : low;
}

/* Replaces a number that rounds beyond an f8 type, and one that rounds to its largest number. A tie
 * between the largest number and its neighbour beyond goes to the even one: 448 as f8e4m3, and the
 * neighbour in other types. The fnuz types have no negative zero. */
static long double within_f8(const struct num_type *to, long double x, bool saturate)
{
    bool e4m3 = to->dtype == BP_F8E4M3, e5m2 = to->dtype == BP_F8E5M2;
    long double max = num_max(to), tie = max + num_ulp(to, max) / 2, size = fabsl(x);

    if (x == 0 && !e4m3 && !e5m2) return 0;
    if (!(size > max)) return x;
    if (saturate || size < tie || (size == tie && e4m3)) return copysignl(max, x);
    return e5m2 ? copysignl(INFINITY, x) : (long double)NAN;
}

void ref_cast(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_cast_attrs *cast = attrs;
    const struct num_type *from = in->type;

    ref_array_init(out, (uint32_t)cast->to, in->rank, in->shape);
    out->exact = true;
    for (int64_t i = 0; i < out->count; i++) {
        if (out->type->class == NUM_BOOL) out->u[i] = in->u ? in->u[i] != 0 : in->v[i] != 0;
        else if (out->u) out->u[i] = in->u ? in->u[i] : float_to_int(out->type, in->v[i]);
        else if (in->v) out->v[i] = in->v[i];
        else if (from->class == NUM_SIGNED) out->v[i] = (long double)(int64_t)in->u[i];
        else out->v[i] = (long double)in->u[i];
        if (out->type->dtype == BP_F8E8M0)
            out->v[i] = to_power(out->type, out->v[i], !cast->overflow, cast->round);
        else if (num_is_f8(out->type))
            out->v[i] = within_f8(out->type, out->v[i], !cast->overflow);
    }
}

void ref_bit_cast(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_bit_cast_attrs *cast = attrs;
    void *bytes = calloc((size_t)in->count + 1, in->type->size);

    if (!bytes) abort();
    ref_array_init(out, (uint32_t)cast->to, in->rank, in->shape);
    ref_array_encode(in, bytes);
    ref_array_decode(out, bytes);
    free(bytes);
}
