/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of elementwise operators of two inputs that are one
 * formula. Floats are computed in long double (a, b: the first two attributes), integers in 128
 * bits. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Holds every integer of 64 bits, signed or not, and products of two of them except for the
 * sign. */
__extension__ typedef __int128 wide;

static long double relu_grad(long double x, long double dy, long double a, long double b)
{
    (void)a;
    (void)b;
    return x > 0 ? dy : 0;
}

static long double leaky_relu_grad(long double x, long double dy, long double a, long double b)
{
    (void)b;
    return x > 0 ? dy : a * dy;
}

static long double ref_binary_prelu(long double x, long double y)
{
    return x > 0 ? x : y * x;
}

static long double ref_binary_maximum(long double x, long double y)
{
    if (isnan(x) || isnan(y)) return NAN;
    return x < y ? y : x;
}

static long double ref_binary_minimum(long double x, long double y)
{
    if (isnan(x) || isnan(y)) return NAN;
    return x < y ? x : y;
}

/* x - y floor(x / y): the remainder of C, moved to the sign of y. */
static long double ref_binary_mod(long double x, long double y)
{
    long double r = fmodl(x, y);

    if (r == 0 || isnan(r)) return r;
    return signbit(r) == signbit(y) ? r : r + y;
}

/* x without the remainder is a multiple of y, so their quotient is a whole number. */
static long double floor_divide(long double x, long double y)
{
    if (isnan(x) || isnan(y) || isinf(x) || y == 0) return x / y;
    if (isinf(y)) return x == 0 || signbit(x) == signbit(y) ? 0 : -1;
    long double r = fmodl(x, y), q = rintl((x - r) / y);
    return r != 0 && signbit(r) != signbit(y) ? q - 1 : q;
}

static long double ref_binary_xlogy(long double x, long double y)
{
    return x == 0 && !isnan(y) ? 0 : x * logl(y);
}

static long double ref_binary_heaviside(long double x, long double y)
{
    if (isnan(x)) return x;
    return x < 0 ? 0 : x > 0 ? 1 : y;
}

static wide int_maximum(wide x, wide y, int bits)
{
    (void)bits;
    return x > y ? x : y;
}

static wide int_minimum(wide x, wide y, int bits)
{
    (void)bits;
    return x < y ? x : y;
}

static wide int_floor_divide(wide x, wide y, int bits)
{
    (void)bits;
    if (!y) return 0;
    return x / y - (x % y && (x < 0) != (y < 0));
}

static wide int_mod(wide x, wide y, int bits)
{
    return y ? x - y * int_floor_divide(x, y, bits) : 0;
}

static wide int_fmod(wide x, wide y, int bits)
{
    (void)bits;
    return y ? x - y * (x / y) : 0;
}

/* x^n modulo 2^64, by halving n. */
static uint64_t ref_binary_power(uint64_t x, uint64_t n)
{
    uint64_t half;

    if (!n) return 1;
    half = ref_binary_power(x, n / 2);
    return half * half * (n % 2 ? x : 1);
}

static wide int_pow(wide x, wide y, int bits)
{
    (void)bits;
    if (y >= 0) return (wide)ref_binary_power((uint64_t)x, (uint64_t)y);
    if (x != 1 && x != -1) return 0;
    return x == 1 || y % 2 == 0 ? 1 : -1;
}

static wide int_heaviside(wide x, wide y, int bits)
{
    (void)bits;
    return x < 0 ? 0 : x > 0 ? 1 : y;
}

/* By subtraction of odd numbers (Stein 1967). */
static wide int_gcd(wide x, wide y, int bits)
{
    int twos = 0;

    (void)bits;
    x = x < 0 ? -x : x;
    y = y < 0 ? -y : y;
    if (!x || !y) return x + y;
    for (; x % 2 == 0 && y % 2 == 0; twos++) x /= 2, y /= 2;
    while (x) {
        while (x % 2 == 0) x /= 2;
        while (y % 2 == 0) y /= 2;
        if (x >= y) x -= y;
        else y -= x;
    }
    return y << twos;
}

static wide int_lcm(wide x, wide y, int bits)
{
    wide g = int_gcd(x, y, bits);

    x = x < 0 ? -x : x;
    y = y < 0 ? -y : y;
    return g ? (wide)((uint64_t)(x / g) * (uint64_t)y) : 0;
}

static wide int_and(wide x, wide y, int bits)
{
    (void)bits;
    return x & y;
}

static wide int_or(wide x, wide y, int bits)
{
    (void)bits;
    return x | y;
}

static wide int_xor(wide x, wide y, int bits)
{
    (void)bits;
    return x ^ y;
}

static wide int_left(wide x, wide n, int bits)
{
    return n < 0 || n >= bits ? 0 : (wide)((uint64_t)x << n);
}

/* The quotient by 2^n, rounded down. */
static wide int_right(wide x, wide n, int bits)
{
    if (n < 0 || n >= bits) return x < 0 ? -1 : 0;
    return int_floor_divide(x, (wide)1 << n, bits);
}

static const struct {
    const char *op;
    long double (*plain)(long double x, long double y);
    wide (*ints)(wide x, wide y, int bits);
    long double (*with)(long double x, long double y, long double a, long double b);
} formula[] = {
    {"relu_grad", NULL, NULL, relu_grad},
    {"leaky_relu_grad", NULL, NULL, leaky_relu_grad},
    {"prelu", ref_binary_prelu, NULL, NULL},
    {"maximum", ref_binary_maximum, int_maximum, NULL},
    {"minimum", ref_binary_minimum, int_minimum, NULL},
    {"fmax", fmaxl, int_maximum, NULL},
    {"fmin", fminl, int_minimum, NULL},
    {"mod", ref_binary_mod, int_mod, NULL},
    {"fmod", fmodl, int_fmod, NULL},
    {"floor_divide", floor_divide, int_floor_divide, NULL},
    {"pow", powl, int_pow, NULL},
    {"atan2", atan2l, NULL, NULL},
    {"hypot", hypotl, NULL, NULL},
    {"xlogy", ref_binary_xlogy, NULL, NULL},
    {"heaviside", ref_binary_heaviside, int_heaviside, NULL},
    {"copysign", copysignl, NULL, NULL},
    {"gcd", NULL, int_gcd, NULL},
    {"lcm", NULL, int_lcm, NULL},
    {"bitwise_and", NULL, int_and, NULL},
    {"bitwise_or", NULL, int_or, NULL},
    {"bitwise_xor", NULL, int_xor, NULL},
    {"left_shift", NULL, int_left, NULL},
    {"right_shift", NULL, int_right, NULL},
};

static wide ref_binary_widened(const struct num_type *type, uint64_t bits)
{
    return type->class == NUM_SIGNED ? (wide)(int64_t)bits : (wide)bits;
}

/* Returns the index of op in the table; ends the process if the table lacks op. */
static size_t ref_binary_find(const char *op)
{
    size_t f = 0;

    while (f < sizeof formula / sizeof *formula && strcmp(formula[f].op, op)) f++;
    if (f == sizeof formula / sizeof *formula) abort();
    return f;
}

void ref_family_binary(const char *op, const struct ref_array *in, const void *attrs,
                       struct ref_array *out)
{
    const struct num_type *type = in->type;
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = ref_broadcast(&in[0], &in[1], shape);
    size_t f = ref_binary_find(op);

    ref_array_init(out, type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t x = ref_index(&in[0], rank, at), y = ref_index(&in[1], rank, at);
        if (out->u) {
            out->u[i] = (uint64_t)formula[f].ints(ref_binary_widened(type, in[0].u[x]),
                                                  ref_binary_widened(type, in[1].u[y]),
                                                  8 * (int)type->size);
            continue;
        }
        out->v[i] = formula[f].plain
                        ? formula[f].plain(in[0].v[x], in[1].v[y])
                        : formula[f].with(in[0].v[x], in[1].v[y], ref_number(type, attrs, 1),
                                          ref_number(type, attrs, 2));
        /* the error of long double for a result of f64 */
        if (type->digits > 24 && isfinite(out->v[i])) out->bound[i] = fabsl(out->v[i]) * 0x1p-11L;
    }
}

/* The difference is rounded; its error counts twice in the square. */
void ref_squared_difference(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = ref_broadcast(&in[0], &in[1], shape);

    (void)attrs;
    ref_array_init(out, in->type->dtype, rank, shape);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t x = ref_index(&in[0], rank, at), y = ref_index(&in[1], rank, at);
        if (out->u) {
            uint64_t d = in[0].u[x] - in[1].u[y];
            out->u[i] = d * d;
        } else {
            long double d = in[0].v[x] - in[1].v[y];
            out->v[i] = d * d;
        }
    }
}
