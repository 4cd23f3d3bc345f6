/* SPDX-License-Identifier: Apache-2.0 */
/* onnx_compare.c: compares the outputs of a model with the expected ones. */
#include "onnx_cases.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static float from_half(uint16_t h)
{
    int exponent = h >> 10 & 31, mantissa = h & 1023;
    double value = exponent == 31  ? (mantissa ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(mantissa, -24)
                                   : ldexp(mantissa + 1024, exponent - 25);

    return (float)(h >> 15 ? -value : value);
}

static float from_bf16(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool is_float(uint32_t dtype)
{
    return (BP_MASK_FLOAT | BP_MASK_COMPLEX) >> dtype & 1;
}

/* Number i of data; a complex element has two numbers. */
static double real_at(const void *data, uint32_t dtype, int64_t i)
{
    switch (dtype) {
    case BP_F16: return (double)from_half(((const uint16_t *)data)[i]);
    case BP_BF16: return (double)from_bf16(((const uint16_t *)data)[i]);
    case BP_F64:
    case BP_C128: return ((const double *)data)[i];
    default: return (double)((const float *)data)[i];
    }
}

/* Allows a difference of two units in the last place for half types, whatever rtol is: one because
 * the writers of test data truncate where this library rounds, and one because they round between
 * the steps of an operator that this library computes in f32. A unit is at most 2^-10 of a number
 * of f16, and 2^-7 of one of bf16, but never less than the smallest number above 0. */
static struct onnx_tolerance compare_widen(uint32_t dtype, const struct onnx_tolerance *t)
{
    struct onnx_tolerance wide = *t;
    double unit = dtype == BP_BF16 ? 0x1p-7 : dtype == BP_F16 ? 0x1p-10 : 0;
    double least = dtype == BP_F16 ? 0x1p-24 : 0; /* for bf16 it is far below atol */

    if (wide.rtol < 2 * unit) wide.rtol = 2 * unit;
    if (wide.atol < 2 * least) wide.atol = 2 * least;
    return wide;
}

static bool is_close(double got, double expected, const struct onnx_tolerance *t)
{
    if (isnan(got) || isnan(expected)) return isnan(got) && isnan(expected);
    if (isinf(got) || isinf(expected)) return got == expected;
    return fabs(got - expected) <= t->atol + t->rtol * fabs(expected);
}

static bool compare_reals(struct check *c, const void *got, const void *expected, uint32_t dtype,
                          int64_t n, const struct onnx_tolerance *given, const char *what)
{
    const struct onnx_tolerance wide = compare_widen(dtype, given), *t = &wide;
    int64_t parts = BP_MASK_COMPLEX >> dtype & 1 ? 2 * n : n, wrong = 0, first = -1;

    for (int64_t i = 0; i < parts; i++) {
        if (is_close(real_at(got, dtype, i), real_at(expected, dtype, i), t)) continue;
        if (!wrong++) first = i;
    }
    if (!wrong) return true;
    return check_that(c, false, "%s: %lld of %lld numbers are wrong; the first, %lld, is %.9g, "
                      "expected %.9g", what, (long long)wrong, (long long)parts, (long long)first,
                      real_at(got, dtype, first), real_at(expected, dtype, first));
}

static bool compare_bytes(struct check *c, const char *got, const char *expected, uint32_t dtype,
                          int64_t n, const char *what)
{
    size_t width = bp_dtype_bits(dtype) / 8;
    int64_t wrong = 0, first = -1, a = 0, b = 0;

    for (int64_t i = 0; i < n; i++) {
        if (!memcmp(got + (size_t)i * width, expected + (size_t)i * width, width)) continue;
        if (!wrong++) first = i;
    }
    if (!wrong) return true;
    memcpy(&a, got + (size_t)first * width, width);
    memcpy(&b, expected + (size_t)first * width, width);
    return check_that(c, false, "%s: %lld of %lld values are wrong; the first, %lld, is 0x%llx, "
                      "expected 0x%llx", what, (long long)wrong, (long long)n, (long long)first,
                      (unsigned long long)a, (unsigned long long)b);
}

static bool same_shape(const struct bp_tensor_info *a, const struct bp_tensor_info *b)
{
    return a->rank == b->rank && !memcmp(a->shape, b->shape, a->rank * sizeof *a->shape);
}

static void shape_text(const struct bp_tensor_info *info, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s[", bp_dtype_name(info->dtype));

    for (uint32_t i = 0; i < info->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                                 (long long)info->shape[i]);
    if (used < size) snprintf(text + used, size - used, "]");
}

bool onnx_compare(struct check *c, struct bp_stream *stream, struct bp_tensor *got,
                  struct bp_tensor *expected, const struct onnx_tolerance *tolerance,
                  const char *what)
{
    struct bp_tensor_info a = {.size = sizeof a}, b = {.size = sizeof b};
    char got_text[160], expected_text[160], *data;
    bool ok = check_ok(c, bp_tensor_get_info(got, &a), "bp_tensor_get_info") &&
              check_ok(c, bp_tensor_get_info(expected, &b), "bp_tensor_get_info");

    if (!ok) return false;
    shape_text(&a, got_text, sizeof got_text);
    shape_text(&b, expected_text, sizeof expected_text);
    if (!check_that(c, a.dtype == b.dtype && same_shape(&a, &b), "%s is %s, expected %s", what,
                    got_text, expected_text))
        return false;
    if (tolerance->shapes_only || !a.bytes) return true;
    data = malloc(2 * a.bytes);
    if (!data) abort();
    ok = check_ok(c, bp_tensor_read(stream, got, data, a.bytes), "bp_tensor_read") &&
         check_ok(c, bp_tensor_read(stream, expected, data + a.bytes, a.bytes), "bp_tensor_read");
    if (ok && is_float(a.dtype))
        ok = compare_reals(c, data, data + a.bytes, a.dtype, a.count, tolerance, what);
    else if (ok) ok = compare_bytes(c, data, data + a.bytes, a.dtype, a.count, what);
    free(data);
    return ok;
}
