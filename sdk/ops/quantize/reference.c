/* SPDX-License-Identifier: Apache-2.0 */
/* reference.c: computes reference results of quantisation, with a rounding wherever the operator's
 * definition has one. */
#include "../common/reference.h"
#include <math.h>
#include <stdlib.h>

static long double ref_quantize_as(const struct num_type *type, long double value)
{
    char at[16];

    num_set_float(type, at, value);
    return num_get_float(type, at);
}

/* Rounds to the nearest integer, ties to even. */
static long double ref_quantize_nearest(long double x)
{
    long double low = floorl(x), rest = x - low;

    if (isnan(x) || isinf(x)) return x;
    if (rest != 0.5L) return rest < 0.5L ? low : low + 1;
    return fmodl(low, 2) == 0 ? low : low + 1;
}

/* A quotient rounded as kernels do, in f32 or f64: a second rounding to the type could change the
 * result. */
static long double ref_quantize_divided(const struct num_type *type, long double a, long double b)
{
    const struct num_type *wide = num_accumulate(type);

    if (wide->dtype == BP_F64) return (double)a / (double)b;
    return (float)a / (float)b;
}

static int64_t ref_quantize_lowest(uint32_t dtype)
{
    return dtype == BP_I8 ? -128 : dtype == BP_I16 ? -32768 : 0;
}
static int64_t ref_quantize_highest(uint32_t dtype)
{
    return dtype == BP_I8 ? 127 : dtype == BP_U8 ? 255 : dtype == BP_I16 ? 32767 : 65535;
}

/* The index of the scale of element i of x. */
static int64_t scale_of(const struct ref_array *x, const struct ref_array *scale, int64_t axis,
                        int64_t i)
{
    int64_t inner = 1;

    if (scale->count == 1) return 0;
    for (int k = ref_axis(axis, x->rank) + 1; k < x->rank; k++) inner *= x->shape[k];
    return i / inner % scale->count;
}

static uint64_t ref_quantize_quantised(const struct num_type *of, long double x, long double scale,
                                       int64_t zero, uint32_t dtype)
{
    long double q = ref_quantize_nearest(ref_quantize_divided(of, x, scale));

    q = isnan(q) ? (long double)zero : q + (long double)zero;
    if (q < (long double)ref_quantize_lowest(dtype)) return (uint64_t)ref_quantize_lowest(dtype);
    if (q > (long double)ref_quantize_highest(dtype)) return (uint64_t)ref_quantize_highest(dtype);
    return (uint64_t)(int64_t)q;
}

void ref_quantize_linear(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_quantize_linear_attrs *a = attrs;
    const struct ref_array *x = &in[0], *zero = in[2].type ? &in[2] : NULL;
    uint32_t dtype = zero ? zero->type->dtype : (uint32_t)a->dtype;

    ref_array_init(out, dtype, x->rank, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t s = scale_of(x, &in[1], a->axis, i);
        out->u[i] = ref_quantize_quantised(x->type, x->v[i], in[1].v[s],
                                           zero ? (int64_t)zero->u[s] : 0, dtype);
    }
}

/* A difference with more digits than the type has is rounded before it is multiplied. */
void ref_dequantize_linear(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_dequantize_linear_attrs *a = attrs;
    const struct ref_array *x = &in[0], *scale = &in[1];
    long double exact = ldexpl(1, num_accumulate(scale->type)->digits);

    ref_array_init(out, scale->type->dtype, x->rank, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t s = scale_of(x, scale, a->axis, i);
        int64_t q = (int64_t)x->u[i] - (in[2].type ? (int64_t)in[2].u[s] : 0);
        out->v[i] = (long double)q * scale->v[s];
        if (isfinite(out->v[i]) && fabsl((long double)q) > exact) out->bound[i] = fabsl(out->v[i]);
    }
}

void ref_dynamic_quantize_linear(const struct ref_array *in, const void *attrs,
                                 struct ref_array *out)
{
    const struct num_type *type = in->type;
    long double a = 0, b = 0, all, scale;
    int64_t zero;

    (void)attrs;
    ref_array_init(&out[0], BP_U8, in->rank, in->shape);
    ref_array_init(&out[1], type->dtype, 0, NULL);
    ref_array_init(&out[2], BP_U8, 0, NULL);
    for (int64_t i = 0; i < in->count; i++) {
        a = in->v[i] < a ? in->v[i] : a;
        b = in->v[i] > b ? in->v[i] : b;
    }
    all = ref_quantize_as(type, b - a);
    scale = all == 0 ? 1 : ref_quantize_as(type, ref_quantize_divided(type, all, 255));
    zero = (int64_t)ref_quantize_nearest(
        ref_quantize_as(type, ref_quantize_divided(type, -a, scale)));
    zero = zero < 0 ? 0 : zero > 255 ? 255 : zero;
    out[1].v[0] = scale;
    out[2].u[0] = (uint64_t)zero;
    for (int64_t i = 0; i < in->count; i++)
        out[0].u[i] = ref_quantize_quantised(type, in->v[i], scale, zero, BP_U8);
}

/* The zero point of row (or column) `place` of matrix `batch`: one value for all, one value for
 * each row, or an element of a tensor with as many axes as the operand. */
static int64_t zero_at(const struct ref_array *zero, int64_t place, int64_t batch, int64_t places)
{
    if (!zero || !zero->type) return 0;
    if (zero->count == 1) return (int64_t)zero->u[0];
    if (zero->rank == 1) return (int64_t)zero->u[place];
    return (int64_t)zero->u[batch * places + place];
}

/* The index of a matrix of x, whose batch axes broadcast, for the coordinates `at` of the
 * result. */
static int64_t matrix_of(const struct ref_array *x, const struct ref_array *out, int lead,
                         const int64_t *at)
{
    int64_t number = 0;
    int own = x->rank > 2 ? x->rank - 2 : 0;

    (void)out;
    for (int i = 0; i < own; i++)
        number = number * x->shape[i] + (x->shape[i] == 1 ? 0 : at[lead - own + i]);
    return number;
}

/* Sums of products and the shape of c; axes before the last two broadcast. */
static void ref_quantize_product(const struct ref_array *a, const struct ref_array *b,
                                 const struct ref_array *a_zero, const struct ref_array *b_zero,
                                 uint32_t dtype, struct ref_array *out)
{
    int lead_a = a->rank > 2 ? a->rank - 2 : 0, lead_b = b->rank > 2 ? b->rank - 2 : 0;
    int lead = lead_a > lead_b ? lead_a : lead_b, rank = lead;
    int64_t m = a->rank > 1 ? a->shape[a->rank - 2] : 1, k = a->shape[a->rank - 1];
    int64_t n = b->rank > 1 ? b->shape[b->rank - 1] : 1, shape[REF_RANK], at[REF_RANK] = {0};

    for (int i = 0; i < lead; i++) {
        int64_t x = i >= lead - lead_a ? a->shape[i - lead + lead_a] : 1;
        int64_t y = i >= lead - lead_b ? b->shape[i - lead + lead_b] : 1;
        shape[i] = x == 1 ? y : x;
    }
    if (a->rank > 1) shape[rank++] = m;
    if (b->rank > 1) shape[rank++] = n;
    ref_array_init(out, dtype, rank, shape);
    for (int64_t o = 0; o < out->count; o++) {
        int64_t row = o / n % m, column = o % n, sum = 0, x, y;
        if (o && o % (m * n) == 0) ref_next(lead, shape, at);
        x = matrix_of(a, out, lead, at);
        y = matrix_of(b, out, lead, at);
        for (int64_t i = 0; i < k; i++)
            sum += ((int64_t)a->u[(x * m + row) * k + i] - zero_at(a_zero, row, x, m)) *
                   ((int64_t)b->u[(y * k + i) * n + column] - zero_at(b_zero, column, y, n));
        out->u[o] = (uint64_t)sum;
    }
}

void ref_matmul_integer(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    (void)attrs;
    ref_quantize_product(&in[0], &in[1], &in[2], &in[3], BP_I32, out);
}

static float scale_at(const struct ref_array *scale, int64_t place, int64_t batch, int64_t places)
{
    if (scale->count == 1) return (float)scale->v[0];
    return (float)(scale->rank == 1 ? scale->v[place] : scale->v[batch * places + place]);
}

/* Multiplies the sum by the product of two scales, with a rounding each, and quantises it. */
static uint64_t ref_quantize_requantised(int64_t sum, float one, float other,
                                         const struct ref_array *scale,
                                         const struct ref_array *zero)
{
    float factor = one * other, c = (float)(int32_t)sum;
    float scaled = c * factor;

    return ref_quantize_quantised(num_type(BP_F32), scaled, scale->v[0], (int64_t)zero->u[0],
                                  zero->type->dtype);
}

void ref_qlinear_matmul(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct ref_array *a = &in[0], *b = &in[3];
    int64_t m = a->rank > 1 ? a->shape[a->rank - 2] : 1;
    int64_t n = b->rank > 1 ? b->shape[b->rank - 1] : 1, at[REF_RANK] = {0};
    int lead = a->rank > b->rank ? a->rank - 2 : b->rank - 2;
    struct ref_array sum;

    (void)attrs;
    ref_quantize_product(a, b, &in[2], &in[5], BP_I64, &sum);
    ref_array_init(out, in[7].type->dtype, sum.rank, sum.shape);
    for (int64_t o = 0; o < sum.count; o++) {
        if (o && o % (m * n) == 0) ref_next(lead, sum.shape, at);
        out->u[o] = ref_quantize_requantised(
            (int64_t)sum.u[o], scale_at(&in[1], o / n % m, matrix_of(a, out, lead, at), m),
            scale_at(&in[4], o % n, matrix_of(b, out, lead, at), n), &in[6], &in[7]);
    }
    ref_array_finish(&sum);
}

/* The geometry of a convolution, by its definition: y, w and x all have three spatial axes. */
struct geometry {
    const struct bp_conv_attrs *a;
    int64_t x[3], w[3], y[3];
};

static struct geometry geometry_of(const struct ref_array *x, const struct ref_array *w,
                                   const void *attrs, int64_t *shape)
{
    struct geometry g = {attrs, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};

    shape[0] = x->shape[0];
    shape[1] = w->shape[0];
    for (int i = 0; i < x->rank - 2; i++) {
        int64_t covered;
        g.x[i] = x->shape[i + 2];
        g.w[i] = w->shape[i + 2];
        covered = g.a->dilation[i] * (g.w[i] - 1) + 1;
        g.y[i] = (g.x[i] + g.a->pad[i] + g.a->pad[i + 3] - covered) / g.a->stride[i] + 1;
        shape[i + 2] = g.y[i];
    }
    return g;
}

/* Returns one element of the result: batch n, filter f, position `at`. */
static int64_t ref_quantize_window(const struct geometry *g, const struct ref_array *x,
                                   const struct ref_array *w, int64_t n, int64_t f,
                                   const int64_t *at, int64_t x_zero, int64_t w_zero)
{
    int64_t depth = w->shape[1], group = f / (w->shape[0] / g->a->groups), sum = 0;

    for (int64_t i = 0; i < depth * g->w[0] * g->w[1] * g->w[2]; i++) {
        int64_t k[3] = {i / (g->w[1] * g->w[2]) % g->w[0], i / g->w[2] % g->w[1], i % g->w[2]};
        int64_t c = i / (g->w[0] * g->w[1] * g->w[2]), from = n * x->shape[1] + group * depth + c;
        bool inside = true;
        for (int d = 0; d < 3; d++) {
            int64_t p = at[d] * g->a->stride[d] + k[d] * g->a->dilation[d] - g->a->pad[d];
            inside &= p >= 0 && p < g->x[d];
            from = from * g->x[d] + p;
        }
        if (inside)
            sum += ((int64_t)x->u[from] - x_zero) *
                   ((int64_t)w->u[f * depth * g->w[0] * g->w[1] * g->w[2] + i] - w_zero);
    }
    return sum;
}

static void ref_quantize_convolution(const struct ref_array *x, const struct ref_array *w,
                                     const struct ref_array *x_zero, const struct ref_array *w_zero,
                                     const void *attrs, uint32_t dtype, struct ref_array *out)
{
    int64_t shape[REF_RANK];
    struct geometry g = geometry_of(x, w, attrs, shape);
    int64_t places = g.y[0] * g.y[1] * g.y[2];

    ref_array_init(out, dtype, x->rank, shape);
    for (int64_t o = 0; o < out->count; o++) {
        int64_t p = o % places, f = o / places % shape[1];
        int64_t at[3] = {p / (g.y[1] * g.y[2]), p / g.y[2] % g.y[1], p % g.y[2]};
        out->u[o] = (uint64_t)ref_quantize_window(&g, x, w, o / places / shape[1], f, at,
                                                  zero_at(x_zero, 0, 0, 1),
                                                  zero_at(w_zero, f, 0, 1));
    }
}

void ref_conv_integer(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    ref_quantize_convolution(&in[0], &in[1], &in[2], &in[3], attrs, BP_I32, out);
}

void ref_qlinear_conv(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    struct ref_array sum;
    int64_t places = 1;

    ref_quantize_convolution(&in[0], &in[3], &in[2], &in[5], attrs, BP_I64, &sum);
    ref_array_init(out, in[7].type->dtype, sum.rank, sum.shape);
    for (int i = 2; i < sum.rank; i++) places *= sum.shape[i];
    for (int64_t o = 0; o < sum.count; o++) {
        int64_t f = o / places % sum.shape[1], c = (int64_t)sum.u[o];
        if (in[8].type) c += (int64_t)in[8].u[f];
        out->u[o] = ref_quantize_requantised(c, scale_at(&in[1], 0, 0, 1),
                                             scale_at(&in[4], f, 0, 1), &in[6], &in[7]);
    }
    ref_array_finish(&sum);
}

void ref_fake_quantize(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_fake_quantize_attrs *a = attrs;
    const struct ref_array *x = &in[0];
    const struct num_type *wide = num_accumulate(x->type);

    ref_array_init(out, x->type->dtype, x->rank, x->shape);
    for (int64_t i = 0; i < x->count; i++) {
        int64_t s = scale_of(x, &in[1], a->axis, i);
        long double zero = in[2].type ? (long double)(int64_t)in[2].u[s] : 0;
        long double q = ref_quantize_nearest(ref_quantize_divided(x->type, x->v[i], in[1].v[s])) +
                        zero;
        q = q < (long double)a->low ? (long double)a->low : q;
        q = q > (long double)a->high ? (long double)a->high : q;
        out->v[i] = (q - zero) * in[1].v[s];
        if (isfinite(out->v[i]) && ref_quantize_as(wide, out->v[i]) != out->v[i])
            out->bound[i] = num_ulp(wide, out->v[i]) / 2 / num_unit(wide);
    }
}

void ref_fake_quantize_abs_max(const struct ref_array *in, const void *attrs, struct ref_array *out)
{
    const struct bp_fake_quantize_abs_max_attrs *a = attrs;
    const struct num_type *wide = num_accumulate(in->type);
    long double most = 0, steps = ldexpl(1, (int)a->bits - 1) - 1;

    ref_array_init(&out[0], in->type->dtype, in->rank, in->shape);
    ref_array_init(&out[1], in->type->dtype, 0, NULL);
    for (int64_t i = 0; i < in->count; i++) {
        long double size = fabsl(in->v[i]);
        most = isnan(size) || size > most ? size : most;
    }
    out[1].v[0] = most;
    for (int64_t i = 0; i < in->count; i++) {
        long double part = most == 0 ? 0 : ref_quantize_divided(in->type, in->v[i], most);
        out[0].v[i] = ref_quantize_as(in->type,
                                      ref_quantize_nearest(ref_quantize_as(wide, part * steps)));
    }
}
