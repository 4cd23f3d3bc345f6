/* SPDX-License-Identifier: Apache-2.0 */
/* blocked_rows.c: defines layouts in blocks of 8, and kernels that compute in them. They write the
 * padding only where a tensor is converted. */
#include "blocked.h"

#include <backplane/attrs.h>

#include <math.h>
#include <string.h>
#include <time.h>

/* Callbacks have parameters that not all of them need. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

enum {
    BLOCK = 8,
    LEAST_CHANNELS = 4 /* of images in c8 */
};

static int64_t count_blocks(int64_t n)
{
    return (n + BLOCK - 1) / BLOCK;
}

/* ---- layouts ---- */

static enum bp_status c8_bytes(void *self, uint32_t device, const struct bp_view *v,
                               uint64_t *out_bytes)
{
    uint64_t size = v->dtype == BP_F64 ? sizeof(double) : sizeof(float);
    int64_t channels = count_blocks(v->shape[1]) * BLOCK;

    if (v->dtype != BP_F32 && !(v->dtype == BP_F64 && blocked_is("f64"))) return BP_ERR_UNSUPPORTED;
    if (v->rank != 4 || v->shape[1] < LEAST_CHANNELS) return BP_ERR_UNSUPPORTED;
    if (blocked_is("small")) channels = v->shape[1];
    *out_bytes = (uint64_t)(v->shape[0] * channels * v->shape[2] * v->shape[3]) * size;
    return BP_OK;
}

static enum bp_status n8_bytes(void *self, uint32_t device, const struct bp_view *v,
                               uint64_t *out_bytes)
{
    if (v->dtype != BP_F32 || v->rank != 2) return BP_ERR_UNSUPPORTED;
    *out_bytes = (uint64_t)(v->shape[0] * count_blocks(v->shape[1]) * BLOCK) * sizeof(float);
    return BP_OK;
}

const struct bp_layout blocked_layout[BLOCKED_LAYOUTS] = {{"c8", c8_bytes}, {"n8", n8_bytes}};

/* The place of an element of an image in c8. */
static int64_t c8_at(const struct bp_view *v, int64_t n, int64_t c, int64_t h, int64_t w)
{
    int64_t block = (n * count_blocks(v->shape[1]) + c / BLOCK) * v->shape[2] + h;

    return (block * v->shape[3] + w) * BLOCK + c % BLOCK;
}

static int64_t n8_at(const struct bp_view *v, int64_t k, int64_t n)
{
    return (n / BLOCK * v->shape[0] + k) * BLOCK + n % BLOCK;
}

static int64_t strided_at(const struct bp_view *v, const int64_t *index)
{
    int64_t at = 0;

    for (int a = 0; a < v->rank; a++) at += index[a] * v->stride[a];
    return at;
}

/* ---- conversions ---- */

static bool next_index(const struct bp_view *v, int64_t *index)
{
    for (int a = v->rank; a-- > 0;) {
        if (++index[a] < v->shape[a]) return true;
        index[a] = 0;
    }
    return false;
}

static int64_t element_place(const struct bp_view *v, const int64_t *i)
{
    if (v->layout == BLOCKED_C8) return c8_at(v, i[0], i[1], i[2], i[3]);
    return v->layout == BLOCKED_N8 ? n8_at(v, i[0], i[1]) : strided_at(v, i);
}

/* A conversion that is wrong as BP_BLOCKED says. */
struct spoilt {
    bool tail, order, dense, zero, sign;
};

static int64_t spoilt_place(const struct spoilt *s, const struct bp_view *v, const int64_t *index)
{
    int64_t mirrored[8], dense = 0;

    if (s->order && v->layout == BLOCKED_C8) {
        int64_t first = index[1] / BLOCK * BLOCK, last = first + BLOCK - 1;
        memcpy(mirrored, index, sizeof mirrored);
        if (last >= v->shape[1]) last = v->shape[1] - 1;
        mirrored[1] = last - (index[1] - first);
        return element_place(v, mirrored);
    }
    if (!s->dense || v->layout) return element_place(v, index);
    for (int a = 0; a < v->rank; a++) dense = dense * v->shape[a] + index[a];
    return dense;
}

static bool convert_forgets(const struct spoilt *s, const struct bp_view *y, const int64_t *index)
{
    int64_t blocks = count_blocks(y->shape[1]);

    return s->tail && y->layout && blocks > 1 && index[1] / BLOCK == blocks - 1;
}

static enum bp_status rows_convert(const struct bp_launch *l)
{
    const struct spoilt s = {blocked_is("tail"), blocked_is("order"), blocked_is("dense"),
                             blocked_is("zero"), blocked_is("sign")};
    const struct bp_view *x = l->in[0], *y = l->out[0];
    int64_t index[8] = {0};
    uint64_t bytes;

    if (y->layout && !blocked_is("padding")) {
        blocked_layout[y->layout - 1].bytes(l->self, l->device, y, &bytes);
        memset(y->data, 0, bytes);
    }
    do {
        float number = ((const float *)x->data)[spoilt_place(&s, x, index)];
        if (convert_forgets(&s, y, index)) continue;
        if (s.zero) number += 0.0f;
        if (s.sign && y->layout && isnan(number)) number = -number;
        ((float *)y->data)[spoilt_place(&s, y, index)] = number;
    } while (next_index(x, index));
    return BP_OK;
}

static enum bp_status convert_accepts(void *self, const struct bp_prep *prep)
{
    return blocked_is("unconverted") ? BP_ERR_UNSUPPORTED : BP_OK;
}

/* ---- images ---- */

static float image_element(const struct bp_view *v, int64_t n, int64_t c, int64_t h, int64_t w)
{
    if (h < 0 || w < 0 || h >= v->shape[2] || w >= v->shape[3]) return 0;
    return ((const float *)v->data)[element_place(v, (const int64_t[]){n, c, h, w})];
}

/* One element of a convolution's result, at index i. */
static float conv_element(const struct bp_launch *l, const int64_t *i)
{
    const struct bp_view *x = l->in[0], *w = l->in[1], *bias = l->in[2];
    const struct bp_conv_attrs *a = l->attrs;
    int64_t first = i[1] / (w->shape[0] / a->groups) * w->shape[1];
    float sum = bias ? ((const float *)bias->data)[i[1] * bias->stride[0]] : 0;

    for (int64_t c = 0; c < w->shape[1]; c++)
        for (int64_t h = 0; h < w->shape[2]; h++)
            for (int64_t k = 0; k < w->shape[3]; k++)
                sum += ((const float *)w->data)[strided_at(w, (const int64_t[]){i[1], c, h, k})] *
                       image_element(x, i[0], first + c,
                                     i[2] * a->stride[0] - a->pad[0] + h * a->dilation[0],
                                     i[3] * a->stride[1] - a->pad[1] + k * a->dilation[1]);
    return sum;
}

/* Adds the padding of the image's last block, as products of whole blocks do, with weights of 0. */
static float conv_padding(const struct bp_view *x)
{
    int64_t last = count_blocks(x->shape[1]) * BLOCK - 1;

    return 0 * ((const float *)x->data)[c8_at(x, 0, last, 0, 0)];
}

static enum bp_status rows_conv(const struct bp_launch *l)
{
    const struct bp_view *x = l->in[0], *y = l->out[0];
    bool whole = blocked_is("padding") && x->layout && x->shape[1] % BLOCK;
    int64_t index[8] = {0};

    do {
        float sum = conv_element(l, index);
        ((float *)y->data)[element_place(y, index)] = whole ? sum + conv_padding(x) : sum;
    } while (next_index(y, index));
    return BP_OK;
}

/* blocked_conv_first: an image with few channels is not in the layout. */
static enum bp_status first_accepts(void *self, const struct bp_prep *prep)
{
    return prep->in[0]->rank == 4 && prep->in[0]->shape[1] < LEAST_CHANNELS ? BP_OK
                                                                            : BP_ERR_UNSUPPORTED;
}

/* ---- elementwise: whole blocks, with their padding ---- */

static int64_t c8_count(const struct bp_view *v)
{
    int64_t channels = blocked_is("channels") ? v->shape[1] : count_blocks(v->shape[1]) * BLOCK;

    return v->shape[0] * channels * v->shape[2] * v->shape[3];
}

/* The word "shared": all calls write one piece of memory first, for a millisecond. */
static float shared[1 << 16];

static enum bp_status rows_relu(const struct bp_launch *l)
{
    const struct timespec pause = {0, 1000000};
    const float *x = l->in[0]->data;
    float *y = l->out[0]->data;

    int64_t n = c8_count(l->out[0]);
    bool nan = !blocked_is("nan");

    for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : nan ? x[i] : x[i] > 0 ? x[i] : 0;
    if (!blocked_is("shared") || n > (int64_t)(sizeof shared / sizeof *shared)) return BP_OK;
    memcpy(shared, y, (size_t)n * sizeof *y);
    nanosleep(&pause, NULL);
    memcpy(y, shared, (size_t)n * sizeof *y);
    return BP_OK;
}

/* The operator acme.Twice. */
static enum bp_status rows_twice(const struct bp_launch *l)
{
    const float *x = l->in[0]->data;
    float *y = l->out[0]->data;
    int64_t n = c8_count(l->out[0]);

    for (int64_t i = 0; i < n; i++) y[i] = (blocked_is("twice") ? 3 : 2) * x[i];
    return BP_OK;
}

static enum bp_status rows_add(const struct bp_launch *l)
{
    const float *a = l->in[0]->data, *b = l->in[1]->data;
    float *y = l->out[0]->data;

    int64_t n = c8_count(l->out[0]);

    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
    return BP_OK;
}

/* mul by a factor for each channel, which is in strides. */
static enum bp_status rows_factor(const struct bp_launch *l)
{
    const struct bp_view *y = l->out[0], *f = l->in[1];
    int64_t index[8] = {0};

    do {
        int64_t at = element_place(y, index);
        ((float *)y->data)[at] = ((const float *)l->in[0]->data)[at] *
                                 ((const float *)f->data)[index[1] * f->stride[f->rank - 3]];
    } while (next_index(y, index));
    return BP_OK;
}

static enum bp_status factor_accepts(void *self, const struct bp_prep *prep)
{
    const struct bp_view *x = prep->in[0], *f = prep->in[1];

    if (f->rank < 3 || f->rank > 4 || x->rank != 4 || f->shape[f->rank - 3] != x->shape[1] ||
        f->count != x->shape[1])
        return BP_ERR_UNSUPPORTED;
    return BP_OK;
}

/* ---- products ---- */

static enum bp_status rows_matmul(const struct bp_launch *l)
{
    const struct bp_view *a = l->in[0], *b = l->in[1], *y = l->out[0];

    for (int64_t m = 0; m < y->shape[0]; m++)
        for (int64_t n = 0; n < y->shape[1]; n++) {
            float sum = 0;
            for (int64_t k = 0; k < a->shape[1]; k++)
                sum += ((const float *)a->data)[m * a->stride[0] + k * a->stride[1]] *
                       ((const float *)b->data)[n8_at(b, k, n)];
            ((float *)y->data)[m * y->stride[0] + n * y->stride[1]] = sum;
        }
    return BP_OK;
}

static enum bp_status matmul_accepts(void *self, const struct bp_prep *prep)
{
    const struct bp_matmul_attrs *a = prep->attrs;

    return prep->in[0]->rank == 2 && prep->in[1]->rank == 2 && !a->transpose_a && !a->transpose_b
               ? BP_OK
               : BP_ERR_UNSUPPORTED;
}

/* ---- rows ---- */

static const uint16_t strides[3] = {0}, c8[3] = {BLOCKED_C8, 0, 0},
                      c8_c8[2] = {BLOCKED_C8, BLOCKED_C8}, n8[1] = {BLOCKED_N8},
                      right_n8[2] = {0, BLOCKED_N8}, wrong[3] = {7, 0, 0};

#define ROW(operator, row_name, level, more, from, to, function, check) \
    { \
        BP_OPROW(operator), .name = row_name, .types = {1u << BP_F32}, \
                            .flags = BP_KERNEL_STRIDED | (more), .priority = level, \
                            .launch = function, .accepts = check, .in_layout = from, \
                            .out_layout = to \
    }

const struct bp_kernel blocked_row[] = {
    ROW(assign, "blocked_to_c8", 0, 0, strides, c8, rows_convert, convert_accepts),
    ROW(assign, "blocked_from_c8", 0, 0, c8, strides, rows_convert, NULL),
    ROW(assign, "blocked_to_n8", 0, 0, strides, n8, rows_convert, NULL),
    ROW(assign, "blocked_from_n8", 0, 0, n8, NULL, rows_convert, NULL),
    ROW(assign, "blocked_cross", 0, 0, c8, n8, rows_convert, NULL),
    ROW(reshape, "blocked_reshape", 0, 0, c8, c8, rows_convert, NULL),
    ROW(conv, "blocked_conv", 300, 0, c8, c8, rows_conv, NULL),
    ROW(conv, "blocked_conv_first", 290, 0, NULL, c8, rows_conv, first_accepts),
    ROW(relu, "blocked_relu", 0, BP_KERNEL_IN_PLACE, c8, c8, rows_relu, NULL),
    ROW(add, "blocked_add", 0, BP_KERNEL_SAME_SHAPE | BP_KERNEL_IN_PLACE, c8_c8, c8, rows_add,
        NULL),
    ROW(mul, "blocked_factor", 0, BP_KERNEL_IN_PLACE, c8, c8, rows_factor, factor_accepts),
    ROW(matmul, "blocked_matmul", 300, 0, right_n8, NULL, rows_matmul, matmul_accepts),
    {.op = "acme.Twice", .name = "blocked_twice",
     .types = {UINT64_C(1) << BP_F32}, .flags = BP_KERNEL_STRIDED, .launch = rows_twice,
     .in_layout = c8, .out_layout = c8, .in_known = 1, .out_known = 1},
};
const size_t blocked_row_count = sizeof blocked_row / sizeof *blocked_row;

bool blocked_row_is_wanted(struct bp_kernel *row)
{
    if (!strcmp(row->name, "blocked_cross")) return blocked_is("cross");
    if (!strcmp(row->name, "blocked_reshape")) return blocked_is("narrow");
    if (!strcmp(row->name, "blocked_relu") && blocked_is("number")) row->in_layout = wrong;
    if (blocked_is("f64")) row->types[0] |= UINT64_C(1) << BP_F64;
    return true;
}
