/* SPDX-License-Identifier: Apache-2.0 */
/* test_conform_reference.c: tests the references of the conformance suite against independent
 * values: tables from Python's struct, decimal and fractions modules, and sums that can be computed
 * by hand. */
#include "reference_kit.h"

#include <criterion/criterion.h>
#include <math.h>
#include <ops/random/reference_philox.h>
#include <stdlib.h>

struct format_row {
    double value;
    uint16_t bits;
};

static const struct format_row f16_rows[] = {
    {0x0.0p+0, 0x0000},
    {-0x0.0p+0, 0x8000},
    {0x1.0000000000000p+0, 0x3c00},
    {-0x1.4000000000000p+1, 0xc100},
    {0x1.ffc0000000000p+15, 0x7bff},
    {0x1.ffdfff7ced917p+15, 0x7bff},
    {0x1.ffe0000000000p+15, 0x7c00},
    {-0x1.ffe0000000000p+15, 0xfc00},
    {0x1.93e5939a08ceap+99, 0x7c00},
    {0x1.0000000000000p-14, 0x0400},
    {0x1.0000000000000p-24, 0x0001},
    {0x1.0000000000000p-25, 0x0000},
    {0x1.00068db8bac71p-25, 0x0001},
    {0x1.8000000000000p-24, 0x0002},
    {0x1.8000000000000p-24, 0x0002},
    {0x1.4000000000000p-23, 0x0002},
    {0x1.0020000000000p+0, 0x3c00},
    {0x1.0060000000000p+0, 0x3c02},
    {0x1.0020000001000p+0, 0x3c01},
    {0x1.999999999999ap-4, 0x2e66},
    {0x1.5555555555555p-2, 0x3555},
    {-0x1.554c985f06f69p-2, 0xb555},
    {0x1.ffe0000000000p+9, 0x6400},
    {0x1.0020000000000p+11, 0x6800},
    {0x1.0060000000000p+11, 0x6802},
    {0x1.ffb480a5accd5p-15, 0x03ff},
    {INFINITY, 0x7c00},
};

static const struct format_row bf16_rows[] = {
    {0x0.0p+0, 0x0000},
    {-0x0.0p+0, 0x8000},
    {0x1.0000000000000p+0, 0x3f80},
    {-0x1.4000000000000p+1, 0xc020},
    {0x1.0100000000000p+0, 0x3f80},
    {0x1.0300000000000p+0, 0x3f82},
    {0x1.0100000001000p+0, 0x3f81},
    {0x1.fe00000000000p+127, 0x7f7f},
    {0x1.fef9296d37c06p+127, 0x7f7f},
    {0x1.ff00dd9432768p+127, 0x7f80},
    {0x1.78287f49c4a1dp+129, 0x7f80},
    {0x1.0000000000000p-126, 0x0080},
    {0x1.0000000000000p-133, 0x0001},
    {0x1.0000000000000p-134, 0x0000},
    {0x1.8000000000000p-133, 0x0002},
    {0x1.0000a7c5ac472p-134, 0x0001},
    {0x1.999999999999ap-4, 0x3dcd},
    {-0x1.5555555555555p-2, 0xbeab},
    {0x1.0100000000000p+8, 0x4380},
    {0x1.0300000000000p+8, 0x4382},
    {INFINITY, 0x7f80},
};

static void check_format(uint32_t dtype, const struct format_row *rows, size_t n)
{
    const struct num_type *type = num_type(dtype);

    for (size_t i = 0; i < n; i++) {
        uint16_t bits = 0;
        num_set_float(type, &bits, rows[i].value);
        cr_assert_eq(bits, rows[i].bits, "%s: %a is 0x%04x, expected 0x%04x", type->name,
                     rows[i].value, bits, rows[i].bits);
    }
}

Test(number, half_types_round_to_nearest_even)
{
    check_format(BP_F16, f16_rows, sizeof f16_rows / sizeof *f16_rows);
    check_format(BP_BF16, bf16_rows, sizeof bf16_rows / sizeof *bf16_rows);
}

Test(number, every_half_survives_decode_and_encode)
{
    for (uint32_t dtype = BP_F16; dtype <= BP_BF16; dtype++)
        for (uint32_t i = 0; i < 65536; i++) {
            uint16_t bits = (uint16_t)i, back = 0;
            long double value = num_get_float(num_type(dtype), &bits);
            num_set_float(num_type(dtype), &back, value);
            if (isnan(value)) cr_assert(isnan(num_get_float(num_type(dtype), &back)));
            else cr_assert_eq(bits, back, "0x%04x is 0x%04x", bits, back);
        }
}

Test(number, ulp_is_the_distance_of_neighbours)
{
    cr_assert_eq(num_ulp(num_type(BP_F32), 1), 0x1p-23L);
    cr_assert_eq(num_ulp(num_type(BP_F32), -1.99L), 0x1p-23L);
    cr_assert_eq(num_ulp(num_type(BP_F32), 0), 0x1p-149L);
    cr_assert_eq(num_ulp(num_type(BP_F16), 65504), 32);
    cr_assert_eq(num_ulp(num_type(BP_F16), 1e9L), 32);
    cr_assert_eq(num_ulp(num_type(BP_F16), 0x1p-20L), 0x1p-24L);
    cr_assert_eq(num_ulp(num_type(BP_F64), 1), 0x1p-52L);
    cr_assert_eq(num_ulp(num_type(BP_BF16), 3), 0x1p-6L);
    cr_assert_eq(num_max(num_type(BP_F16)), 65504);
    cr_assert_eq(num_unit(num_type(BP_F32)), 0x1p-24L);
}

/* An array of extents, and an array of numbers. */
#define SHAPE(...) \
    (const int64_t[]) \
    { \
        __VA_ARGS__ \
    }
static const struct {
    uint32_t dtype;
    long double value;
    uint8_t bits;
} f8_rows[] = {
    {BP_F8E4M3, 448, 0x7e},           {BP_F8E4M3, 480, 0x7f},      {BP_F8E4M3, -0.0L, 0x80},
    {BP_F8E5M2, 57344, 0x7b},         {BP_F8E5M2, 61440, 0x7c},    {BP_F8E5M2, -INFINITY, 0xfc},
    {BP_F8E4M3FNUZ, 240, 0x7f},       {BP_F8E4M3FNUZ, 247, 0x7f},  {BP_F8E4M3FNUZ, 248, 0x80},
    {BP_F8E4M3FNUZ, 0x1p-10L, 1},     {BP_F8E4M3FNUZ, -1, 0xc0},   {BP_F8E4M3FNUZ, -0.0L, 0},
    {BP_F8E4M3FNUZ, -0x1p-11L, 0},    {BP_F8E4M3FNUZ, NAN, 0x80},  {BP_F8E4M3FNUZ, 1.0625L, 0x40},
    {BP_F8E4M3FNUZ, -0x1.8p-10L, 0x82}, {BP_F8E4M3FNUZ, INFINITY, 0x80},
    {BP_F8E5M2FNUZ, 57344, 0x7f},     {BP_F8E5M2FNUZ, 61439, 0x7f}, {BP_F8E5M2FNUZ, 61440, 0x80},
    {BP_F8E5M2FNUZ, 0x1p-17L, 1},     {BP_F8E5M2FNUZ, -1, 0xc0},   {BP_F8E5M2FNUZ, 1.125L, 0x40},
    {BP_F8E8M0, 1, 127},              {BP_F8E8M0, 1.5L, 128},      {BP_F8E8M0, 1.49L, 127},
    {BP_F8E8M0, 0x1p-127L, 0},        {BP_F8E8M0, 0, 0},           {BP_F8E8M0, 0x1p127L, 254},
    {BP_F8E8M0, 0x1.8p127L, 255},     {BP_F8E8M0, -1, 255},        {BP_F8E8M0, NAN, 255},
    {BP_F8E8M0, INFINITY, 255},
};

Test(number, f8_types_are_encoded)
{
    for (size_t i = 0; i < sizeof f8_rows / sizeof *f8_rows; i++) {
        const struct num_type *type = num_type(f8_rows[i].dtype);
        uint8_t bits = 0;
        num_set_float(type, &bits, f8_rows[i].value);
        cr_assert_eq(bits, f8_rows[i].bits, "%s: %Lg is 0x%02x, expected 0x%02x", type->name,
                     f8_rows[i].value, bits, f8_rows[i].bits);
    }
}

Test(number, every_f8_survives_decode_and_encode)
{
    for (uint32_t dtype = 0; dtype < 64; dtype++)
        for (uint32_t i = 0; BP_MASK_F8 >> dtype & 1 && i < 256; i++) {
            uint8_t bits = (uint8_t)i, back = 0;
            long double value = num_get_float(num_type(dtype), &bits);
            num_set_float(num_type(dtype), &back, value);
            if (isnan(value)) cr_assert(isnan(num_get_float(num_type(dtype), &back)));
            else cr_assert_eq(bits, back, "%u: 0x%02x is 0x%02x", dtype, bits, back);
        }
}

#define VALUES(...) \
    (const double[]) \
    { \
        __VA_ARGS__ \
    }

static void check_values(const struct ref_array *a, int rank, const int64_t *shape,
                         const double *want)
{
    cr_assert_eq(a->rank, rank, "rank %d, expected %d", a->rank, rank);
    for (int i = 0; i < rank; i++)
        cr_assert_eq(a->shape[i], shape[i], "extent %d is %lld", i, (long long)a->shape[i]);
    for (int64_t i = 0; i < a->count; i++) {
        long double got = a->u ? (long double)(int64_t)a->u[i] : a->v[i];
        cr_assert(fabsl(got - (long double)want[i]) <= 1e-15L * fabsl(got),
                  "element %lld is %.20Lg, expected %.20g", (long long)i, got, want[i]);
    }
}

Test(reference, add_broadcasts_and_wraps)
{
    struct ref_array in[2] = {array_of(BP_F32, 2, SHAPE(2, 1), VALUES(1, 2)),
                              array_of(BP_F32, 1, SHAPE(3), VALUES(10, 20, 30))};
    struct ref_array out, bytes[2] = {array_of(BP_I8, 1, SHAPE(2), VALUES(127, -128)),
                                      array_of(BP_I8, 1, SHAPE(2), VALUES(1, -1))};
    int8_t wrapped[2];

    ref_add(in, NULL, &out);
    check_values(&out, 2, SHAPE(2, 3), VALUES(11, 21, 31, 12, 22, 32));
    ref_array_finish(&out);
    ref_add(bytes, NULL, &out);
    ref_array_encode(&out, wrapped);
    cr_assert_eq(wrapped[0], -128);
    cr_assert_eq(wrapped[1], 127);
    ref_array_finish(&out);
    for (int i = 0; i < 2; i++) ref_array_finish(&in[i]), ref_array_finish(&bytes[i]);
}

/* Casts one number; integers are returned as 64 bits, with the width of the target dtype. */
static struct ref_array cast_one(const struct ref_array *x, uint32_t to)
{
    struct bp_cast_attrs attrs = {sizeof attrs, to};
    struct ref_array out;

    ref_cast(x, &attrs, &out);
    return out;
}

Test(reference, cast_from_floats_saturates)
{
    static const struct {
        double value;
        uint32_t to;
        int64_t want;
    } rows[] = {{2.9, BP_I32, 2},
                {-2.9, BP_I32, -2},
                {1e10, BP_I32, INT32_MAX},
                {-1e10, BP_I32, INT32_MIN},
                {300, BP_U8, 255},
                {-1, BP_U8, 0},
                {-0.5, BP_U8, 0},
                {255.9, BP_U8, 255},
                {NAN, BP_I64, 0},
                {INFINITY, BP_I64, INT64_MAX},
                {-INFINITY, BP_I64, INT64_MIN},
                {0x1p63, BP_I64, INT64_MAX},
                {-128.9, BP_I8, -128},
                {-129, BP_I8, -128},
                {0x1p64, BP_U64, -1},
                {0x1p63, BP_U64, INT64_MIN},
                {0.1, BP_BOOL, 1},
                {0, BP_BOOL, 0},
                {NAN, BP_BOOL, 1},
                {32768, BP_I16, 32767},
                {65536, BP_U16, 65535}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct ref_array x = array_of(BP_F64, 0, NULL, &rows[i].value),
                         y = cast_one(&x, rows[i].to);
        cr_assert_eq((int64_t)y.u[0], rows[i].want, "%g to %s is %lld, expected %lld",
                     rows[i].value, y.type->name, (long long)y.u[0], (long long)rows[i].want);
        ref_array_finish(&x);
        ref_array_finish(&y);
    }
}

/* To f8e8m0: nearest, up and down, then the same without saturation. */
Test(reference, cast_to_powers_of_two)
{
    static const struct {
        double value, want[6];
    } rows[] = {{1.5, {2, 2, 1, 2, 2, 1}},
                {1.25, {1, 2, 1, 1, 2, 1}},
                {0.75, {1, 1, 0.5, 1, 1, 0.5}},
                {4, {4, 4, 4, 4, 4, 4}},
                {0, {0x1p-127, 0x1p-127, 0x1p-127, NAN, NAN, NAN}},
                {0x1.8p-128, {0x1p-127, 0x1p-127, 0x1p-127, NAN, NAN, NAN}},
                {0x1.01p127, {0x1p127, 0x1p127, 0x1p127, NAN, NAN, NAN}},
                {INFINITY, {0x1p127, 0x1p127, 0x1p127, NAN, NAN, NAN}},
                {-1, {NAN, NAN, NAN, NAN, NAN, NAN}},
                {NAN, {NAN, NAN, NAN, NAN, NAN, NAN}}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int how = 0; how < 6; how++) {
            struct bp_cast_attrs attrs = {sizeof attrs, BP_F8E8M0, how / 3, how % 3};
            struct ref_array x = array_of(BP_F64, 0, NULL, &rows[i].value), y;
            double want = rows[i].want[how];
            ref_cast(&x, &attrs, &y);
            cr_assert(isnan(want) ? isnan(y.v[0]) : y.v[0] == (long double)want,
                      "%g, way %d: %Lg, expected %g", rows[i].value, how, y.v[0], want);
            ref_array_finish(&x);
            ref_array_finish(&y);
        }
}

Test(reference, cast_between_integers_wraps)
{
    struct ref_array x = array_of(BP_I32, 1, SHAPE(3), VALUES(-1, 300, 128)),
                     y = cast_one(&x, BP_U8);
    uint8_t bytes[3];
    struct ref_array big = array_of(BP_I64, 0, NULL, VALUES(0)), wide;

    ref_array_encode(&y, bytes);
    cr_assert_eq(bytes[0], 255);
    cr_assert_eq(bytes[1], 44);
    cr_assert_eq(bytes[2], 128);
    big.u[0] =
        0x7fffffbfffffffff; /* just below the middle of two f32: rounds down; through f64, up */
    wide = cast_one(&big, BP_F32);
    float f;
    ref_array_encode(&wide, &f);
    cr_assert_eq(f, 0x1.fffffep62f, "%a", (double)f);
    ref_array_finish(&x);
    ref_array_finish(&y);
    ref_array_finish(&big);
    ref_array_finish(&wide);
}

static void check_sum(int64_t n, const int64_t *axes, bool keep, int rank, const int64_t *shape,
                      const double *want)
{
    struct ref_array x = array_of(BP_I64, 3, SHAPE(2, 3, 2),
                                  VALUES(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)),
                     y;
    struct bp_sum_attrs attrs = {sizeof attrs, {axes, n}, keep};

    ref_sum(&x, &attrs, &y);
    check_values(&y, rank, shape, want);
    ref_array_finish(&x);
    ref_array_finish(&y);
}

Test(reference, sum_takes_any_axes)
{
    check_sum(0, NULL, false, 0, NULL, VALUES(78));
    check_sum(0, NULL, true, 3, SHAPE(1, 1, 1), VALUES(78));
    check_sum(1, SHAPE(1), false, 2, SHAPE(2, 2), VALUES(9, 12, 27, 30));
    check_sum(1, SHAPE(-1), true, 3, SHAPE(2, 3, 1), VALUES(3, 7, 11, 15, 19, 23));
    check_sum(2, SHAPE(2, 0), false, 1, SHAPE(3), VALUES(18, 26, 34));
}

Test(reference, sum_of_nothing_is_zero)
{
    struct ref_array x = array_of(BP_F32, 2, SHAPE(3, 0), NULL), y;
    struct bp_sum_attrs attrs = {sizeof attrs, {SHAPE(1), 1}, 0};

    ref_sum(&x, &attrs, &y);
    check_values(&y, 1, SHAPE(3), VALUES(0, 0, 0));
    ref_array_finish(&x);
    ref_array_finish(&y);
}

Test(reference, sum_grad_repeats)
{
    struct ref_array in[2] = {array_of(BP_F32, 1, SHAPE(3), VALUES(1, 2, 3)),
                              array_of(BP_F32, 2, SHAPE(2, 3), VALUES(0, 0, 0, 0, 0, 0))},
                     y;
    struct bp_sum_grad_attrs attrs = {sizeof attrs, {SHAPE(0), 1}, 0};

    ref_sum_grad(in, &attrs, &y);
    check_values(&y, 2, SHAPE(2, 3), VALUES(1, 2, 3, 1, 2, 3));
    ref_array_finish(&in[0]);
    ref_array_finish(&in[1]);
    ref_array_finish(&y);
}

static void check_matmul(struct ref_array a, struct ref_array b, int ta, int tb, int rank,
                         const int64_t *shape, const double *want)
{
    struct bp_matmul_attrs attrs = {sizeof attrs, ta, tb};
    struct ref_array in[2] = {a, b}, y;

    ref_matmul(in, &attrs, &y);
    check_values(&y, rank, shape, want);
    ref_array_finish(&in[0]);
    ref_array_finish(&in[1]);
    ref_array_finish(&y);
}

Test(reference, matmul_by_hand)
{
    const double six[] = {1, 2, 3, 4, 5, 6}, ones[] = {1, 10, 100, 1000};

    check_matmul(array_of(BP_I32, 2, SHAPE(2, 3), six), array_of(BP_I32, 2, SHAPE(3, 1), ones), 0,
                 0, 2, SHAPE(2, 1), VALUES(321, 654));
    check_matmul(array_of(BP_I32, 2, SHAPE(3, 2), six), array_of(BP_I32, 2, SHAPE(3, 1), ones), 1,
                 0, 2, SHAPE(2, 1), VALUES(531, 642));
    check_matmul(array_of(BP_I32, 2, SHAPE(2, 3), six), array_of(BP_I32, 2, SHAPE(1, 3), ones), 0,
                 1, 2, SHAPE(2, 1), VALUES(321, 654));
    check_matmul(array_of(BP_I32, 1, SHAPE(2), six), array_of(BP_I32, 2, SHAPE(2, 2), ones), 0, 0,
                 1, SHAPE(2), VALUES(201, 2010));
    check_matmul(array_of(BP_I32, 1, SHAPE(2), six), array_of(BP_I32, 1, SHAPE(2), ones), 0, 0, 0,
                 NULL, VALUES(21));
    check_matmul(array_of(BP_I32, 3, SHAPE(2, 1, 3), six), array_of(BP_I32, 2, SHAPE(3, 1), ones),
                 0, 0, 3, SHAPE(2, 1, 1), VALUES(321, 654));
    check_matmul(array_of(BP_I32, 3, SHAPE(1, 1, 2), six),
                 array_of(BP_I32, 3, SHAPE(2, 2, 1), ones), 0, 0, 3, SHAPE(2, 1, 1),
                 VALUES(21, 2100));
    check_matmul(array_of(BP_F32, 2, SHAPE(2, 0), NULL), array_of(BP_F32, 2, SHAPE(0, 2), NULL), 0,
                 0, 2, SHAPE(2, 2), VALUES(0, 0, 0, 0));
}

Test(reference, matmul_of_complex)
{
    struct ref_array in[2], y;
    struct bp_matmul_attrs attrs = {sizeof attrs, 0, 0};
    const long double a[] = {1, 2, 3, -1}, b[] = {4, -3, 2, 5}; /* (1+2i)(4-3i) + (3-i)(2+5i) */

    for (int i = 0; i < 2; i++) ref_array_init(&in[i], BP_C64, 1, SHAPE(2));
    for (int i = 0; i < 4; i++) in[0].v[i] = a[i], in[1].v[i] = b[i];
    ref_matmul(in, &attrs, &y);
    cr_assert_eq(y.v[0], 21);
    cr_assert_eq(y.v[1], 18);
    for (int i = 0; i < 2; i++) ref_array_finish(&in[i]);
    ref_array_finish(&y);
}

static const double logits[] = {1, 2, 3, -1.5, 0.25}, dy[] = {0.5, -1, 2, 0.25, 1};
static const double probabilities[] = {0.08575013310108153718985, 0.23309302859661441972104,
                                       0.63361254397466156362346, 0.00703879955760141650545,
                                       0.04050549477004106296017};
static const double gradients[] = {-0.053102683914066377032023, -0.493987603620932709889113,
                                   0.5580401055171736493987829, -0.006118633625411825371159,
                                   -0.004831184356762737106486};

Test(reference, softmax_and_its_gradient)
{
    struct bp_softmax_attrs attrs = {sizeof attrs, 0};
    struct bp_softmax_grad_attrs grad = {sizeof grad, 0};
    struct ref_array x = array_of(BP_F64, 2, SHAPE(5, 1), logits), in[2], dx;

    ref_softmax(&x, &attrs, &in[0]);
    check_values(&in[0], 2, SHAPE(5, 1), probabilities);
    in[1] = array_of(BP_F64, 2, SHAPE(5, 1), dy);
    ref_softmax_grad(in, &grad, &dx);
    for (int i = 0; i < 5; i++)
        cr_assert(fabsl(dx.v[i] - (long double)gradients[i]) < 1e-16L, "%d: %.20Lg", i, dx.v[i]);
    ref_array_finish(&x);
    ref_array_finish(&in[0]);
    ref_array_finish(&in[1]);
    ref_array_finish(&dx);
}

/* 2 groups; strides 2 and 1; dilations 1 and 2; padding 1, 0 before and 0, 2 after. */
static const double conv_x[] = {
    0,  1,  4,  -4, 3,  -1, -4, -2, -3, 1,  3,  -1, 2,  4, -3, -1, -4, -1, 2,  0,  -2, 2,  -2, -3,
    -2, 3,  -2, -2, -4, -4, -1, -1, -2, -2, 0,  1,  -1, 4, -1, -2, -1, 2,  0,  -4, 1,  2,  -2, -2,
    0,  -3, 1,  0,  -4, 1,  -3, 0,  1,  0,  3,  1,  -2, 3, 3,  -2, -4, 0,  -4, 1,  2,  -4, 4,  2,
    1,  2,  -4, 3,  -4, -2, -1, -3, -1, 3,  1,  4,  1,  4, 0,  3,  -3, 1,  0,  -4, 2,  -3, -1, 1,
    4,  1,  -2, 1,  0,  4,  -3, 0,  1,  0,  -2, -3, -2, 0, 3,  -2, -4, -3, 4,  2,  -4, -1, 1,  0};
static const double conv_w[] = {3,  2, -2, -4, -4, 3,  1,  -1, -2, -2, 2, -3, -2, 2, 1,  -2,
                                -4, 2, 0,  -2, 3,  -2, 4,  3,  3,  1,  3, 0,  0,  3, 2,  -2,
                                -3, 2, 4,  -2, 3,  1,  -2, -3, 3,  0,  4, 4,  4,  1, -3, 1};
static const double conv_bias[] = {9, -8, 0, 2};
static const double conv_y[] = {7,   54,  15, 6,   -11, 17, -20, 11,  46, -8,  29,  28,
                                -12, 22,  -5, -26, -21, 6,  -7,  -16, 14, -16, -32, 3,
                                24,  5,   5,  7,   -9,  13, -1,  18,  10, -3,  -10, 5,
                                -27, -16, 27, -16, 18,  0,  5,   -15, 10, 21,  29,  37};
static const struct bp_conv_attrs conv_attrs = {
    sizeof conv_attrs, {2, 1, 1}, {1, 2, 1}, {1, 0, 0, 0, 2, 0}, 2};

Test(reference, conv_from_a_table)
{
    struct ref_array in[3] = {array_of(BP_F64, 4, SHAPE(1, 4, 5, 6), conv_x),
                              array_of(BP_F64, 4, SHAPE(4, 2, 3, 2), conv_w),
                              array_of(BP_F64, 1, SHAPE(4), conv_bias)},
                     y;

    ref_conv(in, &conv_attrs, &y);
    check_values(&y, 4, SHAPE(1, 4, 2, 6), conv_y);
    for (int i = 0; i < 3; i++) ref_array_finish(&in[i]);
    ref_array_finish(&y);
}

static long double conform_reference_dot(const struct ref_array *a, const struct ref_array *b)
{
    long double sum = 0;

    cr_assert_eq(a->count, b->count);
    for (int64_t i = 0; i < a->count; i++) sum += a->v[i] * b->v[i];
    return sum;
}

/* <conv(x, w), y> = <x, grad_input(y, w)> = <w, grad_weight(y, x)>: this holds for the gradients of
 * each bilinear map. */
Test(reference, conv_gradients_are_the_adjoints)
{
    struct ref_array x = array_of(BP_F64, 4, SHAPE(1, 4, 5, 6), conv_x),
                     w = array_of(BP_F64, 4, SHAPE(4, 2, 3, 2), conv_w);
    struct ref_array y = array_of(BP_F64, 4, SHAPE(1, 4, 2, 6), conv_y), forward, dx, dw;
    struct ref_array in[3] = {x, w, {0}}, for_input[3] = {y, w, x}, for_weight[3] = {y, x, w};

    ref_conv(in, &conv_attrs, &forward);
    ref_conv_grad_input(for_input, &conv_attrs, &dx);
    ref_conv_grad_weight(for_weight, &conv_attrs, &dw);
    cr_assert(conform_reference_dot(&forward, &y) > 1000);
    cr_assert_eq(conform_reference_dot(&forward, &y), conform_reference_dot(&x, &dx));
    cr_assert_eq(conform_reference_dot(&forward, &y), conform_reference_dot(&w, &dw));
    ref_array_finish(&x);
    ref_array_finish(&w);
    ref_array_finish(&y);
    ref_array_finish(&forward);
    ref_array_finish(&dx);
    ref_array_finish(&dw);
}

/* Test vectors for philox4x32_10, published by Random123. */
Test(reference, philox)
{
    static const uint32_t known[][10] = {
        {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
        {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
         0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
        {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
         0x94fdcceb, 0x5001e420, 0x24126ea1}};
    uint32_t out[4];

    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ref_philox(known[i], known[i] + 4, out);
        for (int w = 0; w < 4; w++) cr_assert_eq(out[w], known[i][6 + w], "vector %zu", i);
    }
}

/* The cosine of nearly three quarters of a turn; the expected number is computed with 40 digits. */
Test(reference, normal_near_zero_has_all_digits)
{
    const long double expected = -7.67267153637774390685511323323529e-5L;
    struct bp_normal_attrs attrs = {.size = sizeof attrs, .shape = {SHAPE(341), 1},
                                    .dtype = BP_F64, .std = 1};
    struct ref_array in[2] = {{0}}, out = {0};

    ref_array_init(&in[0], BP_U64, 1, SHAPE(2));
    in[0].u[0] = 128134; /* the seed */
    ref_normal(in, &attrs, &out);
    cr_assert(fabsl(out.v[340] - expected) < 0x1p-60L * fabsl(expected), "%.20Lg", out.v[340]);
    ref_array_finish(&in[0]);
    ref_array_finish(&out);
}

/* A row with an infinite element adds 0 to the sum of another column, without an error. */
Test(reference, rms_norm_grad_beside_an_infinity)
{
    static const long double x[] = {INFINITY, 1, 3, 4}, ones[] = {1, 1, 1, 1};
    struct bp_rms_norm_grad_attrs attrs = {.size = sizeof attrs, .axis = -1};
    struct ref_array in[4] = {{0}}, out[3] = {{0}};

    ref_array_init(&in[0], BP_F64, 2, SHAPE(2, 2));
    ref_array_init(&in[1], BP_F64, 1, SHAPE(2));
    ref_array_init(&in[2], BP_F64, 2, SHAPE(2, 2));
    memcpy(in[0].v, x, sizeof x);
    memcpy(in[1].v, ones, 2 * sizeof *ones);
    memcpy(in[2].v, ones, sizeof ones);
    ref_rms_norm_grad(in, &attrs, out);
    cr_assert(isnan(out[1].v[0]));
    cr_assert(fabsl(out[1].v[1] - 4 / sqrtl(12.5L)) < 0x1p-50L, "%Lg", out[1].v[1]);
    cr_assert(out[1].bound[1] > 0 && out[1].bound[1] < 20, "%Lg", out[1].bound[1]);
    for (int i = 0; i < 3; i++) ref_array_finish(&in[i]);
    for (int i = 0; i < 2; i++) ref_array_finish(&out[i]);
}
