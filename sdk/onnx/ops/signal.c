/* SPDX-License-Identifier: Apache-2.0 */
/* signal.c: runs operators that create window functions and mel filter banks, computed on the
 * host. */
#include "../chain.h"
#include "../ops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PI 3.14159265358979323846

enum {
    COUNT_MAX = 1 << 28,
    NUMBER_BYTES = 16 /* of a number: as f64, as f32, and in the tensor */
};

/* Makes n numbers output 0, in the dtype that the node requests. */
static enum bp_status give_numbers(struct onnx_call *c, uint32_t rank, const int64_t *shape,
                                   const double *at, int64_t n)
{
    struct onnx_chain k = onnx_chain_begin(c);
    uint32_t dtype;
    struct bp_tensor *t = NULL;
    float *single;

    TRY(onnx_attr_dtype(c, "output_datatype", BP_F32, &dtype));
    if (dtype == BP_F64) k.status = onnx_constant(c, BP_F64, rank, shape, at, &t);
    else if (!(single = malloc((size_t)n * sizeof *single + 4))) k.status = onnx_no_memory();
    else {
        for (int64_t i = 0; i < n; i++) single[i] = (float)at[i];
        k.status = onnx_constant(c, BP_F32, rank, shape, single, &t);
        free(single);
    }
    t = onnx_chain_take(&k, t);
    onnx_chain_give(&k, 0, onnx_chain_cast(&k, t, dtype));
    return onnx_chain_end(&k);
}

static enum bp_status read_count(struct onnx_call *c, uint32_t input, int64_t lowest, int64_t *out)
{
    struct onnx_ints given;

    TRY(onnx_in_ints(c, input, &given));
    if (given.n != 1 || given.at[0] < lowest || given.at[0] > COUNT_MAX)
        return onnx_error(BP_ERR_INVALID, "input %u is expected to be one number from %lld to %d",
                          input, (long long)lowest, COUNT_MAX);
    *out = given.at[0];
    return BP_OK;
}

/* Computes a - b cos(2 pi i / n) + d cos(4 pi i / n). n: the size of a periodic window, one less
 * for a symmetric one. */
static enum bp_status signal_window(struct onnx_call *c, double a, double b, double d)
{
    enum bp_status status;
    int64_t size, n;
    double *at;

    TRY(read_count(c, 0, 0, &size));
    TRY(onnx_check_host(c, (uint64_t)size, NUMBER_BYTES));
    n = onnx_attr_int(c, "periodic", 1) ? size : size - 1;
    at = malloc((size_t)size * sizeof *at + 8);
    if (!at) return onnx_no_memory();
    for (int64_t i = 0; i < size; i++)
        at[i] = n ? a - b * cos(2 * PI * (double)i / (double)n) +
                        d * cos(4 * PI * (double)i / (double)n)
                  : 1;
    status = give_numbers(c, 1, &size, at, size);
    free(at);
    return status;
}

enum bp_status onnx_blackman(struct onnx_call *c)
{
    return signal_window(c, 0.42, 0.5, 0.08);
}

enum bp_status onnx_hann(struct onnx_call *c)
{
    return signal_window(c, 0.5, 0.5, 0);
}

enum bp_status onnx_hamming(struct onnx_call *c)
{
    return signal_window(c, 25.0 / 46, 21.0 / 46, 0);
}

static double mel_of(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

static double hertz_of(double mel)
{
    return 700 * (pow(10, mel / 2595) - 1);
}

/* The bands of a mel filter bank. */
struct bands {
    int64_t n, length, rate, lines;
    double low, high;
};

/* The line of the spectrum at edge i of the bands. The edges have equal distances on the mel
 * scale. */
static int64_t signal_edge(const struct bands *b, int64_t i)
{
    double step = (mel_of(b->high) - mel_of(b->low)) / (double)(b->n + 2);
    double hertz = hertz_of(mel_of(b->low) + (double)i * step);

    return (int64_t)floor((double)(b->length + 1) * hertz / (double)b->rate);
}

static void signal_put(const struct bands *b, double *at, int64_t line, int64_t band, double weight)
{
    if (line >= 0 && line < b->lines) at[line * b->n + band] = weight;
}

/* Fills a triangle: it rises from one edge to the next, and falls to the one behind that. */
static void put_band(const struct bands *b, int64_t band, double *at)
{
    int64_t begin = signal_edge(b, band), top = signal_edge(b, band + 1),
            end = signal_edge(b, band + 2);

    for (int64_t i = begin; i < top && i < b->lines; i++)
        signal_put(b, at, i, band, (double)(i - begin) / (double)(top - begin));
    for (int64_t i = top; i < end && i < b->lines; i++)
        signal_put(b, at, i, band, (double)(end - i) / (double)(end - top));
    signal_put(b, at, top, band, 1);
}

enum bp_status onnx_mel_weights(struct onnx_call *c)
{
    struct bands b = {0};
    enum bp_status status;
    int64_t shape[2];
    double *at;

    TRY(read_count(c, 0, 0, &b.n));
    TRY(read_count(c, 1, 0, &b.length));
    TRY(read_count(c, 2, 1, &b.rate));
    TRY(onnx_in_float(c, 3, 0, &b.low));
    TRY(onnx_in_float(c, 4, 0, &b.high));
    b.lines = b.length / 2 + 1;
    if (b.n > COUNT_MAX / b.lines || !(b.low >= 0 && b.low <= b.high) ||
        b.high > 1e9)
        return onnx_error(BP_ERR_INVALID, "%lld bands of %lld lines, from %g to %g hertz",
                          (long long)b.n, (long long)b.lines, b.low, b.high);
    TRY(onnx_check_host(c, (uint64_t)(b.n * b.lines), NUMBER_BYTES));
    at = calloc((size_t)(b.n * b.lines) + 1, sizeof *at);
    if (!at) return onnx_no_memory();
    for (int64_t band = 0; band < b.n; band++) put_band(&b, band, at);
    shape[0] = b.lines;
    shape[1] = b.n;
    status = give_numbers(c, 2, shape, at, b.n * b.lines);
    free(at);
    return status;
}
