/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes the reference results of operators that create tensors from attributes, and
 * of those that return the shape or size of a tensor. */
#include "../common/reference_made_value.h"
#include "../common/reference.h"
#include <math.h>

/* The fraction is cut off, and the value is clamped to the range of the type. */
static uint64_t ref_create_integer(const struct num_type *type, double value)
{
    bool is_signed = type->class == NUM_SIGNED;
    int bits = (int)type->size * 8 - is_signed;
    long double most = ldexpl(1, bits) - 1, least = is_signed ? -ldexpl(1, bits) : 0;
    long double v = truncl(value);

    if (isnan(value)) return 0;
    v = v > most ? most : v < least ? least : v;
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

void ref_made_value(struct ref_array *out, int64_t i, double value)
{
    if (out->v) out->v[i * out->type->parts] = value;
    else if (out->type->class == NUM_BOOL) out->u[i] = value != 0;
    else out->u[i] = ref_create_integer(out->type, value);
}

static void ref_create_full(uint32_t dtype, int rank, const int64_t *shape, double value,
                            struct ref_array *out)
{
    ref_array_init(out, dtype, rank, shape);
    out->exact = true;
    for (int64_t i = 0; i < out->count; i++) ref_made_value(out, i, value);
}

void ref_full(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_full_attrs *a = attrs;

    (void)in;
    ref_create_full((uint32_t)a->dtype, (int)a->shape.n, a->shape.at, a->value, out);
}

void ref_zeros(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_zeros_attrs *a = attrs;

    (void)in;
    ref_create_full((uint32_t)a->dtype, (int)a->shape.n, a->shape.at, 0, out);
}

void ref_ones(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_ones_attrs *a = attrs;

    (void)in;
    ref_create_full((uint32_t)a->dtype, (int)a->shape.n, a->shape.at, 1, out);
}

void ref_full_like(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_full_like_attrs *a = attrs;

    ref_create_full(in->type->dtype, in->rank, in->shape, a->value, out);
}

void ref_fill(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_fill_attrs *a = attrs;

    ref_create_full(in->type->dtype, in->rank, in->shape, a->value, out);
}

void ref_eye(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_eye_attrs *a = attrs;
    int64_t columns = a->columns < 0 ? a->rows : a->columns;

    (void)in;
    ref_create_full((uint32_t)a->dtype, 2, (int64_t[]){a->rows, columns}, 0, out);
    for (int64_t i = 0; i < out->count; i++)
        if (i % columns - i / columns == a->diagonal) ref_made_value(out, i, 1);
}

/* Start and step may be rounded to the computing type, and the product is rounded; the operator's
 * ulp covers the rounding of the sum. */
void ref_arange(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_arange_attrs *a = attrs;
    double n = ceil((a->end - a->start) / a->step);
    int64_t count = a->num >= 0 ? a->num : n > 0 ? (int64_t)n : 0;

    (void)in;
    ref_array_init(out, (uint32_t)a->dtype, 1, &count);
    for (int64_t i = 0; i < count; i++) {
        if (out->u) {
            out->u[i] = (uint64_t)(int64_t)a->start + (uint64_t)i * (uint64_t)(int64_t)a->step;
            continue;
        }
        out->v[i] = a->start + (long double)i * a->step;
        out->bound[i] = fabsl(a->start) + 2 * fabsl((long double)i * a->step);
    }
}

/* Returns number i of a line, and sets *bound to its error before the last rounding, in roundings:
 * of both ends, their difference, the quotient, and the product with the number of steps from the
 * nearer end. */
static long double ref_create_spaced(double start, double stop, int64_t num, int64_t i,
                                     long double *bound)
{
    long double step = num > 1 ? ((long double)stop - start) / (num - 1) : 0;
    int64_t steps = i < (num + 1) / 2 ? i : num - 1 - i;
    long double end = i < (num + 1) / 2 ? start : stop;
    long double ends = fabsl(start) + fabsl(stop);

    *bound = fabsl(end) + (num > 1 ? steps * (3 * fabsl(step) + ends / (num - 1)) : 0);
    if (i == 0) return start;
    return i == num - 1 ? stop : start + i * step;
}

void ref_linspace(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_linspace_attrs *a = attrs;

    (void)in;
    ref_array_init(out, (uint32_t)a->dtype, 1, &a->num);
    for (int64_t i = 0; i < a->num; i++)
        out->v[i] = ref_create_spaced(a->start, a->stop, a->num, i, &out->bound[i]);
}

/* An exponent that is off by d gives a power that is off by log(base) d of itself. A base that is
 * rounded by u gives t u. */
void ref_logspace(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_logspace_attrs *a = attrs;
    long double log_base = logl(a->base);

    (void)in;
    ref_array_init(out, (uint32_t)a->dtype, 1, &a->num);
    for (int64_t i = 0; i < a->num; i++) {
        long double off, t = ref_create_spaced(a->start, a->stop, a->num, i, &off);
        out->v[i] = powl(a->base, t);
        out->bound[i] = out->v[i] * (fabsl(log_base) * (off + fabsl(t)) + fabsl(t));
    }
}

static void ref_create_indices(int64_t rows, int64_t columns, int64_t offset, bool upper,
                               int64_t dtype, struct ref_array *out)
{
    int64_t n = 0, at = 0;

    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) n += upper ? j - i >= offset : j - i <= offset;
    ref_array_init(out, (uint32_t)dtype, 2, (int64_t[]){2, n});
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            if (upper ? j - i < offset : j - i > offset) continue;
            out->u[at] = (uint64_t)i;
            out->u[n + at++] = (uint64_t)j;
        }
}

void ref_tril_indices(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_tril_indices_attrs *a = attrs;

    (void)in;
    ref_create_indices(a->rows, a->columns, a->offset, false, a->dtype, out);
}

void ref_triu_indices(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_triu_indices_attrs *a = attrs;

    (void)in;
    ref_create_indices(a->rows, a->columns, a->offset, true, a->dtype, out);
}

void ref_shape(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    int64_t rank = in->rank;

    (void)attrs;
    ref_array_init(out, BP_I64, 1, &rank);
    for (int i = 0; i < in->rank; i++) out->u[i] = (uint64_t)in->shape[i];
}

void ref_numel(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_array_init(out, BP_I64, 0, NULL);
    out->u[0] = (uint64_t)in->count;
}

void ref_is_empty(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_array_init(out, BP_BOOL, 0, NULL);
    out->u[0] = in->count == 0;
}
