/* SPDX-License-Identifier: Apache-2.0 */
/* fourier.c: runs Fourier transforms as products with a matrix of cosines and sines. A complex
 * number is two numbers in the last axis, so one real product computes the whole transform. */
#include "../chain.h"
#include "../ops.h"
#include <math.h>
#include <stdlib.h>

#define PI 3.14159265358979323846

enum { MATRIX_MAX = 1 << 28 };

/* parts: 1 for real numbers, 2 for complex ones. given: how many numbers the input has; the numbers
 * from there to length are 0. lines: how many numbers of made_parts are computed. is_half: the
 * input is the first half of a symmetric spectrum, and the result is real. */
struct transform {
    int64_t parts, given, length, lines, made_parts;
    bool inverse, is_half;
};

static enum bp_status check_transform(const struct transform *t)
{
    if (t->length < 1 || t->parts < 1 || t->parts > 2)
        return onnx_error(BP_ERR_INVALID, "a transform of %lld numbers of %lld parts",
                          (long long)t->length, (long long)t->parts);
    if (t->length > MATRIX_MAX || t->given * t->parts > MATRIX_MAX / (2 * t->lines))
        return onnx_error(BP_ERR_UNSUPPORTED, "a transform of %lld numbers is too long",
                          (long long)t->length);
    return BP_OK;
}

static void fourier_put(void *at, uint32_t dtype, int64_t i, double value)
{
    if (dtype == BP_F64) ((double *)at)[i] = value;
    else ((float *)at)[i] = (float)value;
}

/* Fills the matrix of the inverse transform of half a spectrum. Each number but the first and, if
 * length is even, the last stands for itself and for its conjugate in the other half. */
static void fourier_fill_half(const struct transform *t, uint32_t dtype, void *at)
{
    for (int64_t k = 0; k < t->given; k++) {
        bool is_single = k == 0 || 2 * k == t->length;
        double scale = (is_single ? 1.0 : 2.0) / (double)t->length;
        for (int64_t j = 0; j < t->lines; j++) {
            double angle = 2 * PI * (double)(j * k % t->length) / (double)t->length;
            int64_t i = 2 * k * t->lines + j;
            fourier_put(at, dtype, i, scale * cos(angle));
            fourier_put(at, dtype, i + t->lines, is_single ? 0 : -scale * sin(angle));
        }
    }
}

/* Fills the matrix: number k contributes to line j with the factor exp(-2 pi i j k / length), in
 * the inverse transform exp(2 pi i j k / length) / length. */
static void fourier_fill(const struct transform *t, uint32_t dtype, void *at)
{
    double scale = t->inverse ? 1.0 / (double)t->length : 1;
    int64_t row = 2 * t->lines;

    for (int64_t k = 0; k < t->given; k++)
        for (int64_t j = 0; j < t->lines; j++) {
            double angle = 2 * PI * (double)(j * k % t->length) / (double)t->length;
            double c = scale * cos(angle), s = scale * sin(t->inverse ? angle : -angle);
            int64_t i = k * t->parts * row + 2 * j;
            fourier_put(at, dtype, i, c);
            fourier_put(at, dtype, i + 1, s);
            if (t->parts == 1) continue;
            fourier_put(at, dtype, i + row, -s);
            fourier_put(at, dtype, i + row + 1, c);
        }
}

/* Multiplies x by the matrix. x: rows of `given` numbers of `parts` each, f32 or f64. */
static struct bp_tensor *fourier_product(struct onnx_chain *k, struct bp_tensor *x, uint32_t dtype,
                                         const struct transform *t)
{
    const int64_t shape[2] = {t->given * t->parts, t->made_parts * t->lines};
    struct bp_tensor *matrix = NULL;
    void *at;

    if (k->status == BP_OK)
        k->status = onnx_check_host(k->call, (uint64_t)(shape[0] * shape[1]),
                                    2 * bp_dtype_bits(dtype) / 8);
    if (k->status) return NULL;
    at = malloc((size_t)(shape[0] * shape[1]) * bp_dtype_bits(dtype) / 8 + 8);
    if (!at) {
        k->status = onnx_no_memory();
        return NULL;
    }
    if (t->is_half) fourier_fill_half(t, dtype, at);
    else fourier_fill(t, dtype, at);
    k->status = onnx_constant(k->call, dtype, 2, shape, at, &matrix);
    free(at);
    return MAKE(k, matmul, NULL, x, onnx_chain_take(k, matrix));
}

static uint32_t inner_dtype(uint32_t dtype)
{
    return dtype == BP_F64 ? BP_F64 : BP_F32;
}

/* Reads the axis: an attribute, from opset 20 on an input. */
static enum bp_status read_axis(struct onnx_call *c, uint32_t rank, int64_t *out)
{
    struct onnx_ints given;

    *out = onnx_attr_int(c, "axis", 1);
    if (c->node->opset >= 20) {
        TRY(onnx_in_ints(c, 2, &given));
        *out = given.n == 1 ? given.at[0] : -2;
    }
    if (*out < 0) *out += rank;
    if (*out < 0 || *out >= (int64_t)rank - 1)
        return onnx_error(BP_ERR_INVALID, "axis is %lld, x has %u and one of parts",
                          (long long)*out, rank - 1);
    return BP_OK;
}

static enum bp_status read_transform(struct onnx_call *c, struct bp_tensor_info info, int64_t axis,
                                     struct transform *t)
{
    bool onesided = onnx_attr_int(c, "onesided", 0) != 0;
    struct onnx_ints length;
    int64_t used;

    TRY(onnx_in_ints(c, 1, &length));
    t->inverse = onnx_attr_int(c, "inverse", 0) != 0;
    t->is_half = onesided && t->inverse;
    t->parts = info.shape[info.rank - 1];
    t->made_parts = t->is_half ? 1 : 2;
    t->length = length.n == 1 ? length.at[0]
                : t->is_half  ? 2 * (info.shape[axis] - 1)
                              : info.shape[axis];
    used = t->is_half ? t->length / 2 + 1 : t->length;
    t->given = info.shape[axis] < used ? info.shape[axis] : used;
    t->lines = onesided && !t->inverse ? t->length / 2 + 1 : t->length;
    if (onesided && t->parts != (t->inverse ? 2 : 1))
        return onnx_error(BP_ERR_INVALID, "the one-sided transform is of %s numbers, x has %lld "
                          "parts", t->inverse ? "complex" : "real", (long long)t->parts);
    return check_transform(t);
}

/* Computes the permutation that makes `axis` the last but one of x, and its inverse. */
static void fourier_turns(uint32_t rank, int64_t axis, int64_t *there, int64_t *back)
{
    int64_t n = 0;

    for (int64_t i = 0; i < (int64_t)rank - 1; i++)
        if (i != axis) there[n++] = i;
    there[n++] = axis;
    there[n] = rank - 1;
    for (uint32_t i = 0; i < rank; i++) back[there[i]] = i;
}

enum bp_status onnx_dft(struct onnx_call *c)
{
    int64_t there[ONNX_RANK_MAX], back[ONNX_RANK_MAX], shape[ONNX_RANK_MAX], axis;
    struct bp_transpose_attrs turn = bp_transpose_defaults();
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor *x = onnx_in(c, 0);
    struct bp_tensor_info info;
    struct transform t = {0};
    uint32_t dtype;

    if (!x || (info = onnx_info(x)).rank < 2 || info.rank > ONNX_RANK_MAX)
        return onnx_error(BP_ERR_INVALID, "a tensor of 2 to %d axes is expected", ONNX_RANK_MAX);
    TRY(read_axis(c, info.rank, &axis));
    TRY(read_transform(c, info, axis, &t));
    dtype = inner_dtype(info.dtype);
    fourier_turns(info.rank, axis, there, back);
    turn.perm = (struct bp_dims){there, info.rank};
    x = onnx_chain_slice(&k, onnx_chain_cast(&k, x, dtype), axis, 0, t.given, 1);
    x = MAKE(&k, transpose, &turn, x);
    for (uint32_t i = 0; i < info.rank; i++) shape[i] = info.shape[there[i]];
    shape[info.rank - 2] = t.given * t.parts;
    x = fourier_product(&k, onnx_chain_reshape(&k, x, info.rank - 1, shape), dtype, &t);
    shape[info.rank - 2] = t.lines;
    shape[info.rank - 1] = t.made_parts;
    turn.perm.at = back;
    x = MAKE(&k, transpose, &turn, onnx_chain_reshape(&k, x, info.rank, shape));
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, info.dtype));
    return onnx_chain_end(&k);
}

/* The frames of a signal. */
struct frames {
    int64_t batch, length, step, n;
};

static enum bp_status read_frames(struct onnx_call *c, struct bp_tensor_info info,
                                  struct transform *t, struct frames *f)
{
    struct bp_tensor *window = onnx_in(c, 2);
    struct onnx_ints step, length;
    bool onesided;

    TRY(onnx_in_ints(c, 1, &step));
    TRY(onnx_in_ints(c, 3, &length));
    if (info.rank < 2 || info.rank > 3 || step.n != 1 || step.at[0] < 1 ||
        (length.n != 1 && !window))
        return onnx_error(BP_ERR_INVALID, "signals, a step and a window or the length of a frame "
                          "are expected");
    *f = (struct frames){info.shape[0], info.shape[1], step.at[0], 0};
    t->parts = info.rank == 3 ? info.shape[2] : 1;
    t->given = t->length = length.n == 1 ? length.at[0] : onnx_info(window).count;
    if (t->length > 0 && t->length <= f->length) f->n = (f->length - t->length) / f->step + 1;
    onesided = t->parts == 1 && onnx_attr_int(c, "onesided", 1) != 0;
    t->lines = onesided ? t->length / 2 + 1 : t->length;
    t->inverse = t->is_half = false;
    t->made_parts = 2;
    return check_transform(t);
}

/* Gathers the frames of x, one after the other: batch, frames, numbers, parts. */
static struct bp_tensor *cut_frames(struct onnx_chain *k, struct bp_tensor *x,
                                    const struct transform *t, const struct frames *f)
{
    const int64_t shape[2] = {f->n, t->length}, signal[3] = {f->batch, f->length, t->parts};
    struct bp_gather_attrs attrs = bp_gather_defaults();
    struct bp_tensor *index = NULL;
    int64_t *at = NULL;

    if (k->status == BP_OK)
        k->status = onnx_check_host(k->call, (uint64_t)(f->n * t->length), 2 * sizeof *at);
    if (k->status) return NULL;
    at = malloc((size_t)(f->n * t->length) * sizeof *at + 8);
    if (!at) k->status = onnx_no_memory();
    for (int64_t i = 0; at && i < f->n * t->length; i++)
        at[i] = i / t->length * f->step + i % t->length;
    if (k->status == BP_OK) k->status = onnx_constant_ints(k->call, 2, shape, at, &index);
    free(at);
    attrs.axis = 1;
    return MAKE(k, gather, &attrs, onnx_chain_reshape(k, x, 3, signal),
                onnx_chain_take(k, index));
}

enum bp_status onnx_stft(struct onnx_call *c)
{
    struct bp_tensor *x = onnx_in(c, 0), *window = onnx_in(c, 2);
    struct onnx_chain k = onnx_chain_begin(c);
    struct bp_tensor_info info;
    struct transform t = {0};
    struct frames f = {0};
    uint32_t dtype;

    if (!x) return onnx_error(BP_ERR_INVALID, "a signal is expected");
    info = onnx_info(x);
    TRY(read_frames(c, info, &t, &f));
    dtype = inner_dtype(info.dtype);
    x = cut_frames(&k, onnx_chain_cast(&k, x, dtype), &t, &f);
    if (window) {
        window = onnx_chain_cast(&k, window, dtype);
        window = onnx_chain_reshape(&k, window, 2, (const int64_t[]){t.length, 1});
        x = MAKE(&k, mul, NULL, x, window);
    }
    x = onnx_chain_reshape(&k, x, 3, (const int64_t[]){f.batch, f.n, t.length * t.parts});
    x = fourier_product(&k, x, dtype, &t);
    x = onnx_chain_reshape(&k, x, 4, (const int64_t[]){f.batch, f.n, t.lines, 2});
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, x, info.dtype));
    return onnx_chain_end(&k);
}
