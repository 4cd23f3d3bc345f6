/* SPDX-License-Identifier: Apache-2.0 */
/* elementwise.c: add, sub, mul, div, cast. */
#include "reference.h"
#include <math.h>

/* The shape to which a and b broadcast. */
static int broadcast(const struct ref_array *a, const struct ref_array *b, int64_t *shape)
{
    int rank = a->rank > b->rank ? a->rank : b->rank;

    for (int i = 0; i < rank; i++) {
        int in_a = i - (rank - a->rank), in_b = i - (rank - b->rank);
        int64_t extent_a = in_a < 0 ? 1 : a->shape[in_a], extent_b = in_b < 0 ? 1 : b->shape[in_b];
        shape[i] = extent_a == 1 ? extent_b : extent_a;
    }
    return rank;
}

enum binary { ADD, SUB, MUL, DIV };

static uint64_t of_ints(enum binary op, uint64_t x, uint64_t y)
{
    return op == ADD ? x + y : op == SUB ? x - y : x * y;
}

/* What long double misses of the product or quotient of two f64 is u 2^-11 of it. */
static void of_reals(enum binary op, long double x, long double y, bool wide, struct ref_array *out,
                     int64_t i)
{
    out->v[i] = op == ADD ? x + y : op == SUB ? x - y : op == MUL ? x * y : x / y;
    if ((op == MUL || op == DIV) && wide && isfinite(out->v[i]))
        out->bound[i] = fabsl(out->v[i]) * 0x1p-11L;
}

/* Each part is the difference or sum of two products, which are rounded before. */
static void complex_product(const long double *x, const long double *y, struct ref_array *out,
                            int64_t i)
{
    out->v[i] = x[0] * y[0] - x[1] * y[1];
    out->v[i + 1] = x[0] * y[1] + x[1] * y[0];
    out->bound[i] = fabsl(x[0] * y[0]) + fabsl(x[1] * y[1]);
    out->bound[i + 1] = fabsl(x[0] * y[1]) + fabsl(x[1] * y[0]);
}

static void binary(const struct ref_array *in, enum binary op, struct ref_array *out)
{
    int64_t shape[REF_RANK], at[REF_RANK] = {0};
    int rank = broadcast(&in[0], &in[1], shape), parts = in[0].type->parts;

    ref_array_init(out, in[0].type->dtype, rank, shape);
    /* quotients have no end; sums and products of f64 may need more digits than there are */
    out->exact = in[0].type->digits <= 24 && op != DIV && (op != MUL || parts == 1);
    for (int64_t i = 0; i < out->count; i++, ref_next(rank, shape, at)) {
        int64_t x = ref_index(&in[0], rank, at), y = ref_index(&in[1], rank, at);
        if (out->u) out->u[i] = of_ints(op, in[0].u[x], in[1].u[y]);
        else if (op == MUL && parts == 2)
            complex_product(in[0].v + 2 * x, in[1].v + 2 * y, out, 2 * i);
        else
            for (int p = 0; p < parts; p++)
                of_reals(op, in[0].v[x * parts + p], in[1].v[y * parts + p],
                         in[0].type->digits > 24, out, i * parts + p);
    }
}

void ref_add(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    binary(in, ADD, out);
}

void ref_sub(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    binary(in, SUB, out);
}

void ref_mul(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    binary(in, MUL, out);
}

void ref_div(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    binary(in, DIV, out);
}

/* Toward zero, the ends of the type where the value lies beyond them, 0 for NaN. */
static uint64_t float_to_int(const struct num_type *to, long double x)
{
    int bits = 8 * (int)to->size;
    long double low = to->class == NUM_SIGNED ? -ldexpl(1, bits - 1) : 0;
    long double high = ldexpl(1, to->class == NUM_SIGNED ? bits - 1
                                                         : bits); /* the first one too large */

    if (isnan(x)) return 0;
    x = truncl(x);
    if (x <= low) return to->class == NUM_SIGNED ? UINT64_MAX << (bits - 1) : 0;
    if (x >= high) return UINT64_MAX >> (64 - bits + (to->class == NUM_SIGNED));
    return x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x;
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
    }
}
