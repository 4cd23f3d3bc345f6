/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c: infers shapes of quantisation and decomposes it. Products of integers are computed in
 * i32; convolutions, which have no integer kernels, in f64, where all of their sums are exact. */
#include <call/compose.h>
#include <call/shape.h>

#include <backplane/attrs.h>
#include <inttypes.h>
#include <math.h>

static const char *text_of(const struct bp_view *v, char *text)
{
    return bp_type_text(v->dtype, v->rank, v->shape, text, BP_TYPE_TEXT);
}

/* Checks that an input is absent, or has one value or, if n is not 0, one axis of n values. */
static enum bp_status quantize_some(const struct bp_invocation *inv, uint32_t port, int64_t n)
{
    const struct bp_view *v = bp_invocation_in(inv, port);
    char text[BP_TYPE_TEXT];

    if (!v || (v->count == 1 && v->rank <= 1) || (n && v->rank == 1 && v->shape[0] == n))
        return BP_OK;
    if (n)
        return bp_error(BP_ERR_INVALID, "%s: %s is %s, expected one value, or one axis of %" PRId64,
                        inv->row->info.name, inv->row->info.in[port].name, text_of(v, text), n);
    return bp_error(BP_ERR_INVALID, "%s: %s is %s, expected one value", inv->row->info.name,
                    inv->row->info.in[port].name, text_of(v, text));
}

/* Checks scale and zero point (inputs 1 and 2) of x along axis. */
static enum bp_status quantize_scaled(struct bp_invocation *inv, int64_t axis)
{
    const struct bp_view *x = bp_invocation_in(inv, 0), *scale = bp_invocation_in(inv, 1),
                         *zero = bp_invocation_in(inv, 2);
    int64_t n = 0;

    if (scale->count != 1 || scale->rank > 1) {
        uint32_t at;
        TRY(bp_shape_axis(inv, axis, x->rank, &at));
        n = x->shape[at];
    }
    TRY(quantize_some(inv, 1, n));
    TRY(quantize_some(inv, 2, n));
    if (zero && zero->count != scale->count)
        return bp_error(BP_ERR_INVALID,
                        "%s: zero_point has %" PRId64 " elements, expected %" PRId64 " as scale",
                        inv->row->info.name, zero->count, scale->count);
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}

enum bp_status bp_infer_quantize_linear(struct bp_invocation *inv)
{
    const struct bp_quantize_linear_attrs *a = inv->attrs;
    const struct bp_view *zero = bp_invocation_in(inv, 2);
    const struct bp_opinfo *op = &inv->row->info;

    if (!zero && (a->dtype < 0 || a->dtype > 63 || !(op->types[BP_VAR_U] >> a->dtype & 1)))
        return bp_error(BP_ERR_INVALID,
                        "quantize_linear: attribute dtype is %s, expected i8, u8, i16 or u16",
                        bp_dtype_name((uint32_t)a->dtype));
    TRY(quantize_scaled(inv, a->axis));
    inv->out[0].dtype = zero ? zero->dtype : (uint32_t)a->dtype;
    return BP_OK;
}

enum bp_status bp_infer_dequantize_linear(struct bp_invocation *inv)
{
    const struct bp_dequantize_linear_attrs *a = inv->attrs;

    return quantize_scaled(inv, a->axis);
}

enum bp_status bp_infer_dynamic_quantize(struct bp_invocation *inv)
{
    const struct bp_view *x = bp_invocation_in(inv, 0);

    if (!x->count)
        return bp_error(BP_ERR_INVALID,
                        "dynamic_quantize_linear: x has no elements, expected one or more");
    bp_shape_copy(&inv->out[0], x);
    inv->out[0].dtype = inv->out[2].dtype = BP_U8;
    return BP_OK;
}

enum bp_status bp_decompose_dynamic_quantize(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_clip_attrs above = {.size = sizeof above, .min = 0, .max = INFINITY},
                         below = {.size = sizeof below, .min = -INFINITY, .max = 0};
    struct bp_tensor *x = e->in[0];
    struct bp_tensor *b = MAKE(&c, clip, &above, MAKE(&c, amax, NULL, x));
    struct bp_tensor *a = MAKE(&c, clip, &below, MAKE(&c, amin, NULL, x));
    struct bp_tensor *all = MAKE(&c, sub, NULL, b, a), *zeros = bp_compose_scale(&c, all, 0, 0);
    struct bp_tensor *scale = MAKE(&c, div, NULL, all, bp_compose_scale(&c, zeros, 0, 255)), *zero;

    scale = MAKE(&c, where, NULL, MAKE(&c, equal, NULL, all, zeros),
                 bp_compose_scale(&c, zeros, 0, 1), scale);
    zero = MAKE(&c, neg, NULL, MAKE(&c, div, NULL, a, scale));
    zero = bp_compose_cast(&c, MAKE(&c, round, NULL, zero), BP_U8);
    if (e->want & 1)
        bp_compose_keep(&c, MAKE(&c, quantize_linear, NULL, x, scale, zero), &e->out[0]);
    if (e->want >> 1 & 1) bp_compose_keep(&c, scale, &e->out[1]);
    if (e->want >> 2 & 1) bp_compose_keep(&c, zero, &e->out[2]);
    return bp_compose_end(&c);
}

/* Infers the shape of the product of inputs a and b, without transposing. */
static enum bp_status quantize_product(struct bp_invocation *inv, uint32_t a, uint32_t b)
{
    const struct bp_view *x = bp_invocation_in(inv, a), *y = bp_invocation_in(inv, b);
    const uint32_t both[] = {a, b};
    const char *op = inv->row->info.name;
    struct bp_type *out = &inv->out[0];
    uint32_t rank = x->rank > y->rank ? x->rank : y->rank, at = rank > 2 ? rank - 2 : 0;
    char p[BP_TYPE_TEXT], q[BP_TYPE_TEXT];

    if (!x->rank || !y->rank)
        return bp_error(BP_ERR_INVALID, "%s: a and b need at least one axis", op);
    if (x->shape[x->rank - 1] != bp_shape_extent_back(y, y->rank > 1))
        return bp_error(BP_ERR_INVALID,
                        "%s: a is %s and b is %s: expected as many columns of a as rows of b", op,
                        text_of(x, p), text_of(y, q));
    TRY(bp_shape_broadcast(inv, both, 2, 2, out));
    if (x->rank > 1) out->shape[at++] = x->shape[x->rank - 2];
    if (y->rank > 1) out->shape[at++] = y->shape[y->rank - 1];
    out->rank = at;
    return BP_OK;
}

/* Checks that an input has one value, one axis as long as axis `place` of x (counted from the
 * last), or the axes of x with extent 1 at axis `other`. */
static enum bp_status quantize_beside(const struct bp_invocation *inv, uint32_t port, uint32_t of,
                                      uint32_t place, uint32_t other)
{
    const struct bp_view *x = bp_invocation_in(inv, of), *v = bp_invocation_in(inv, port);
    bool whole = v && v->rank == x->rank && x->rank > 1;

    for (uint32_t i = 0; whole && i < x->rank; i++)
        whole = bp_shape_extent_back(v, i) == (i == other ? 1 : bp_shape_extent_back(x, i));
    return whole ? BP_OK
                 : quantize_some(inv, port, x->rank > 1 ? bp_shape_extent_back(x, place) : 0);
}

enum bp_status bp_infer_matmul_integer(struct bp_invocation *inv)
{
    TRY(quantize_product(inv, 0, 1));
    TRY(quantize_beside(inv, 2, 0, 1, 0));
    inv->out[0].dtype = BP_I32;
    return quantize_beside(inv, 3, 1, 0, 1);
}

enum bp_status bp_infer_qlinear_matmul(struct bp_invocation *inv)
{
    TRY(quantize_product(inv, 0, 3));
    for (uint32_t i = 1; i <= 2; i++) TRY(quantize_beside(inv, i, 0, 1, 0));
    for (uint32_t i = 4; i <= 5; i++) TRY(quantize_beside(inv, i, 3, 0, 1));
    for (uint32_t i = 6; i <= 7; i++) TRY(quantize_some(inv, i, 0));
    inv->out[0].dtype = bp_invocation_in(inv, 7)->dtype;
    return BP_OK;
}

/* Returns several values of one axis as a column if `down`; a single value without axes; others
 * unchanged. */
static struct bp_tensor *quantize_column(struct bp_compose *c, struct bp_tensor *v, bool down)
{
    int64_t shape[2];

    if (c->status) return NULL;
    if (v->view.rank > 1) return v;
    if (v->view.count == 1) return bp_compose_reshape(c, v, 0, NULL);
    shape[0] = v->view.count;
    shape[1] = 1;
    return down ? bp_compose_reshape(c, v, 2, shape) : v;
}

/* Returns x in dtype, minus its zero point. */
static struct bp_tensor *quantize_centred(struct bp_compose *c, struct bp_tensor *x,
                                          struct bp_tensor *zero, uint32_t dtype)
{
    x = bp_compose_cast(c, x, dtype);
    return zero ? MAKE(c, sub, NULL, x, bp_compose_cast(c, zero, dtype)) : x;
}

static struct bp_tensor *integer_product(struct bp_compose *c, struct bp_tensor *a,
                                         struct bp_tensor *b, struct bp_tensor *a_zero,
                                         struct bp_tensor *b_zero)
{
    a = quantize_centred(c, a, a_zero ? quantize_column(c, a_zero, true) : NULL, BP_I32);
    b = quantize_centred(c, b, b_zero ? quantize_column(c, b_zero, false) : NULL, BP_I32);
    return MAKE(c, matmul, NULL, a, b);
}

enum bp_status bp_decompose_matmul_integer(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);

    bp_compose_keep(&c, integer_product(&c, e->in[0], e->in[1], e->in[2], e->in[3]), &e->out[0]);
    return bp_compose_end(&c);
}

/* Returns c times the product of two scales, in f32, quantised. */
static struct bp_tensor *quantize_requantised(struct bp_compose *c, struct bp_tensor *sum,
                                              struct bp_tensor *one, struct bp_tensor *other,
                                              struct bp_tensor *scale, struct bp_tensor *zero)
{
    struct bp_tensor *factor;

    factor = MAKE(c, mul, NULL, bp_compose_cast(c, one, BP_F32), bp_compose_cast(c, other, BP_F32));
    sum = MAKE(c, mul, NULL, bp_compose_cast(c, sum, BP_F32), factor);
    return MAKE(c, quantize_linear, NULL, sum, bp_compose_cast(c, scale, BP_F32), zero);
}

enum bp_status bp_decompose_qlinear_matmul(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *const *in = e->in;
    struct bp_tensor *sum = integer_product(&c, in[0], in[3], in[2], in[5]);

    bp_compose_keep(&c,
                    quantize_requantised(&c, sum, quantize_column(&c, in[1], true),
                                         quantize_column(&c, in[4], false), in[6], in[7]),
                    &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_conv_integer(struct bp_invocation *inv)
{
    const struct bp_view *w = bp_invocation_in(inv, 1);

    TRY(bp_shape_conv(inv->row->info.name, bp_invocation_in(inv, 0), w, inv->attrs, &inv->out[0]));
    TRY(quantize_some(inv, 2, 0));
    inv->out[0].dtype = BP_I32;
    return quantize_some(inv, 3, w->shape[0]);
}

enum bp_status bp_infer_qlinear_conv(struct bp_invocation *inv)
{
    const struct bp_view *w = bp_invocation_in(inv, 3), *bias = bp_invocation_in(inv, 8);
    char text[BP_TYPE_TEXT];

    TRY(bp_shape_conv(inv->row->info.name, bp_invocation_in(inv, 0), w, inv->attrs, &inv->out[0]));
    for (uint32_t i = 1; i <= 7; i++)
        if (i != 3) TRY(quantize_some(inv, i, i == 4 || i == 5 ? w->shape[0] : 0));
    if (!bias || (bias->rank == 1 && bias->shape[0] == w->shape[0])) return BP_OK;
    return bp_error(BP_ERR_INVALID,
                    "qlinear_conv: bias is %s, expected one axis of %" PRId64 " as w has filters",
                    text_of(bias, text), w->shape[0]);
}

/* Returns values of one axis along axis `at` of `rank` axes; a single value becomes rank 0. */
static struct bp_tensor *quantize_along(struct bp_compose *c, struct bp_tensor *v, uint32_t rank,
                                        uint32_t at)
{
    int64_t shape[BP_RANK_MAX];

    if (c->status || !v) return NULL;
    if (v->view.count == 1) return bp_compose_reshape(c, v, 0, NULL);
    for (uint32_t i = 0; i < BP_RANK_MAX; i++) shape[i] = 1;
    shape[at] = v->view.count;
    return bp_compose_reshape(c, v, rank, shape);
}

/* `attrs` begin as those of conv. */
static struct bp_tensor *integer_conv(struct bp_compose *c, const void *attrs, struct bp_tensor *x,
                                      struct bp_tensor *w, struct bp_tensor *x_zero,
                                      struct bp_tensor *w_zero)
{
    struct bp_conv_attrs conv;
    struct bp_tensor *y;

    memcpy(&conv, attrs, sizeof conv);
    x = quantize_centred(c, x, quantize_along(c, x_zero, 0, 0), BP_F64);
    w = quantize_centred(c, w, quantize_along(c, w_zero, w->view.rank, 0), BP_F64);
    y = MAKE(c, conv, &conv, x, w, NULL);
    return bp_compose_cast(c, bp_compose_cast(c, y, BP_I64), BP_I32);
}

enum bp_status bp_decompose_conv_integer(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);

    bp_compose_keep(&c, integer_conv(&c, e->attrs, e->in[0], e->in[1], e->in[2], e->in[3]),
                    &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_decompose_qlinear_conv(struct bp_decomposition *e)
{
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *const *in = e->in;
    uint32_t rank = in[0]->view.rank;
    struct bp_tensor *sum = integer_conv(&c, e->attrs, in[0], in[3], in[2], in[5]);

    if (in[8]) sum = MAKE(&c, add, NULL, sum, quantize_along(&c, in[8], rank, 1));
    bp_compose_keep(&c,
                    quantize_requantised(&c, sum, quantize_along(&c, in[1], 0, 0),
                                         quantize_along(&c, in[4], rank, 1), in[6], in[7]),
                    &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_fake_quantize(struct bp_invocation *inv)
{
    const struct bp_fake_quantize_attrs *a = inv->attrs;

    if (a->low >= a->high || a->low < -(1 << 23) || a->high > 1 << 23)
        return bp_error(BP_ERR_INVALID,
                        "fake_quantize: attribute low is %" PRId64 " and high is %" PRId64
                        ": expected low below high, and no more than 2^23 of either sign",
                        a->low, a->high);
    return quantize_scaled(inv, a->axis);
}

/* Scale and zero point in the dtype of the computation; whole: the rounded numbers before they are
 * clipped. */
struct fake {
    struct bp_tensor *scale, *zero, *whole;
};

static struct fake fake_of(struct bp_compose *c, struct bp_tensor *const *in, int64_t axis)
{
    struct bp_tensor *x = bp_compose_widen(c, in[0]);
    struct fake f = {NULL, NULL, NULL};
    uint32_t at;

    if (c->status) return f;
    at = (uint32_t)(axis < 0 ? axis + x->view.rank : axis);
    f.scale = bp_compose_cast(c, quantize_along(c, in[1], x->view.rank, at), x->view.dtype);
    f.whole = MAKE(c, round, NULL, MAKE(c, div, NULL, x, f.scale));
    if (!in[2]) return f;
    f.zero = bp_compose_cast(c, quantize_along(c, in[2], x->view.rank, at), x->view.dtype);
    f.whole = MAKE(c, add, NULL, f.whole, f.zero);
    return f;
}

enum bp_status bp_decompose_fake_quantize(struct bp_decomposition *e)
{
    const struct bp_fake_quantize_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct fake f = fake_of(&c, e->in, a->axis);
    struct bp_clip_attrs ends = {
        .size = sizeof ends, .min = (double)a->low, .max = (double)a->high};
    struct bp_tensor *y = MAKE(&c, clip, &ends, f.whole);

    if (f.zero) y = MAKE(&c, sub, NULL, y, f.zero);
    y = bp_compose_cast(&c, MAKE(&c, mul, NULL, y, f.scale), e->in[0]->view.dtype);
    bp_compose_keep(&c, y, &e->out[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_grad_fake_quantize(struct bp_grad *g)
{
    const struct bp_fake_quantize_attrs *a = g->attrs;
    struct bp_clip_attrs ends = {
        .size = sizeof ends, .min = (double)a->low, .max = (double)a->high};
    struct bp_compose c = bp_compose_begin(g->scope);
    struct fake f;

    if (!g->want[0] || !g->dy[0]) return BP_OK;
    f = fake_of(&c, g->in, a->axis);
    bp_compose_keep(&c,
                    MAKE(&c, mask, NULL, g->dy[0],
                         MAKE(&c, equal, NULL, f.whole, MAKE(&c, clip, &ends, f.whole))),
                    &g->dx[0]);
    return bp_compose_end(&c);
}

enum bp_status bp_infer_fake_abs_max(struct bp_invocation *inv)
{
    const struct bp_fake_quantize_abs_max_attrs *a = inv->attrs;
    const struct bp_view *x = bp_invocation_in(inv, 0);

    if (a->bits < 2 || a->bits > 16)
        return bp_error(BP_ERR_INVALID,
                        "fake_quantize_abs_max: attribute bits is %" PRId64 ", expected 2 to 16",
                        a->bits);
    if (!x->count)
        return bp_error(BP_ERR_INVALID,
                        "fake_quantize_abs_max: x has no elements, expected one or more");
    bp_shape_copy(&inv->out[0], x);
    return BP_OK;
}

enum bp_status bp_decompose_fake_abs_max(struct bp_decomposition *e)
{
    const struct bp_fake_quantize_abs_max_attrs *a = e->attrs;
    struct bp_compose c = bp_compose_begin(e->scope);
    struct bp_tensor *x = bp_compose_widen(&c, e->in[0]), *y, *zeros;
    struct bp_tensor *scale = MAKE(&c, amax, NULL, MAKE(&c, abs, NULL, x));
    uint32_t dtype = e->in[0]->view.dtype;

    zeros = bp_compose_scale(&c, scale, 0, 0);
    y = MAKE(&c, where, NULL, MAKE(&c, equal, NULL, scale, zeros),
             bp_compose_scale(&c, zeros, 0, 1), scale);
    y = bp_compose_scale(&c, MAKE(&c, div, NULL, x, y), (double)((1 << (a->bits - 1)) - 1), 0);
    if (e->want & 1)
        bp_compose_keep(&c, bp_compose_cast(&c, MAKE(&c, round, NULL, y), dtype), &e->out[0]);
    if (e->want >> 1 & 1) bp_compose_keep(&c, bp_compose_cast(&c, scale, dtype), &e->out[1]);
    return bp_compose_end(&c);
}
