/* SPDX-License-Identifier: Apache-2.0 */
/* create.c: builds the calls of operators that make tensors from numbers. */
#include "builds.h"
#include "parts.h"
#include <math.h>
#include <stdlib.h>

enum {
    CREATE_INDICES = 1 << 22
};

/* The dtype by which the vendor's functions see elements that they only fill or move: unsigned
 * integers as signed ones. */
uint32_t create_bits(uint32_t dtype)
{
    switch (dtype) {
    case BP_U16: return BP_I16;
    case BP_U32: return BP_I32;
    case BP_U64: return BP_I64;
    default: return dtype;
    }
}

/* A whole number of a range whose ends are exact in f64. */
static int64_t create_integer(double v, double least, double most)
{
    return isnan(v) ? 0 : v <= least ? (int64_t)least : v >= most ? (int64_t)most : (int64_t)v;
}

static uint64_t create_unsigned(double v)
{
    return v >= 0x1p64 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
}

static int64_t create_whole(uint32_t dtype, double v)
{
    switch (dtype) {
    case BP_BOOL: return v != 0;
    case BP_I8: return create_integer(v, -128, 127);
    case BP_U8: return create_integer(v, 0, 255);
    case BP_I16: return create_integer(v, -32768, 32767);
    case BP_U16: return (int16_t)create_integer(v, 0, 65535);
    case BP_I32: return create_integer(v, -0x1p31, 0x1p31 - 1);
    case BP_U32: return (int32_t)create_integer(v, 0, 0x1p32 - 1);
    case BP_U64: return (int64_t)create_unsigned(v);
    default: return v >= 0x1p63 ? INT64_MAX : isnan(v) ? 0 : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
    }
}

struct kit_arg create_number(uint32_t dtype, double value)
{
    struct kit_arg whole = KIT_SCALAR_IS(0), number = KIT_NUMBER_IS(value);

    if (((BP_MASK_FLOAT | BP_MASK_COMPLEX) >> dtype) & 1) return number;
    whole.i = create_whole(dtype, value);
    return whole;
}

/* Fills a tensor, which must be contiguous if it is complex: that is filled as pairs. */
enum bp_status create_fill(struct kit_build *b, struct kit_arg to, double value)
{
    const struct bp_view *v = kit_arg_view(b, &to);
    const uint32_t dtype = v ? v->dtype : BP_F32;
    int64_t count = v ? v->count : 0, twice = 2 * count, two = 2;
    struct kit_arg part;

    if (!v || !count) return b->status;
    if (dtype != BP_C64 && dtype != BP_C128) {
        part = create_bits(dtype) == dtype
                   ? to
                   : kit_alias(b, to, create_bits(dtype), v->rank, v->shape, v->stride, 0);
        part.role = KIT_UPDATES;
        return KIT_STEP(b, "InplaceFillScalar", part, create_number(dtype, value));
    }
    part = kit_alias(b, to, dtype == BP_C64 ? BP_F32 : BP_F64, 1, &twice, NULL, 0);
    part.role = KIT_UPDATES;
    KIT_STEP(b, "InplaceFillScalar", part, KIT_SCALAR_IS(0));
    if (value == 0) return b->status;
    part = kit_alias(b, to, dtype == BP_C64 ? BP_F32 : BP_F64, 1, &count, &two, 0);
    part.role = KIT_UPDATES;
    return KIT_STEP(b, "InplaceFillScalar", part, KIT_NUMBER_IS(value));
}

enum bp_status npu_full_build(struct kit_build *b)
{
    return create_fill(b, KIT_VALUE(KIT_OUT(0)), part_value(b, KIT_VALUE(KIT_SCALAR(full, value))));
}

enum bp_status npu_full_like_build(struct kit_build *b)
{
    return create_fill(b, KIT_VALUE(KIT_OUT(0)),
                       part_value(b, KIT_VALUE(KIT_SCALAR(full_like, value))));
}

enum bp_status npu_fill_build(struct kit_build *b)
{
    return create_fill(b, KIT_VALUE(KIT_OUT(0)), part_value(b, KIT_VALUE(KIT_SCALAR(fill, value))));
}

enum bp_status npu_zeros_build(struct kit_build *b)
{
    return create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
}

enum bp_status npu_ones_build(struct kit_build *b)
{
    return create_fill(b, KIT_VALUE(KIT_OUT(0)), 1);
}

enum bp_status npu_eye_build(struct kit_build *b)
{
    const struct bp_eye_attrs *attrs = b->attrs;
    const int64_t *shape = b->out[0]->shape, d = attrs->diagonal;
    const int64_t row = d < 0 ? -d : 0, column = d > 0 ? d : 0, step = shape[1] + 1;
    const int64_t rows = shape[0] - row, columns = shape[1] - column;
    const int64_t n = rows < columns ? rows : columns, item = part_item_size(b->out[0]->dtype);
    const int64_t at = (row * shape[1] + column) * item;
    struct kit_arg ones;

    create_fill(b, KIT_VALUE(KIT_OUT(0)), 0);
    if (n <= 0) return b->status;
    ones = kit_alias(b, KIT_VALUE(KIT_OUT(0)), create_bits(b->out[0]->dtype), 1, &n, &step, at);
    return create_fill(b, ones, 1);
}

/* Numbers from start on, with this step, in f64 or i64. The end lies between the last number and
 * the next one, so that no rounding changes how many there are. */
static struct kit_arg create_range(struct kit_build *b, uint32_t dtype, double start, double step,
                                   int64_t n)
{
    struct kit_arg to = kit_temporary(b, dtype, 1, &n);

    if (dtype == BP_I64)
        KIT_STEP(b, "Arange", KIT_SCALAR_IS((int64_t)start),
                 KIT_SCALAR_IS((int64_t)start + n * (int64_t)step), KIT_SCALAR_IS((int64_t)step),
                 to);
    else
        KIT_STEP(b, "Arange", KIT_NUMBER_IS(start), KIT_NUMBER_IS(start + ((double)n - 0.5) * step),
                 KIT_NUMBER_IS(step), to);
    return to;
}

static bool create_is_float(uint32_t dtype)
{
    return dtype == BP_F16 || dtype == BP_BF16 || dtype == BP_F32 || dtype == BP_F64;
}

enum bp_status npu_arange_build(struct kit_build *b)
{
    const struct bp_arange_attrs *attrs = b->attrs;
    const uint32_t dtype = create_is_float(b->out[0]->dtype) ? BP_F64 : BP_I64;

    if (!b->out[0]->count)
        return KIT_STEP(b, "InplaceFillScalar", KIT_UPDATED(0), KIT_SCALAR_IS(0));
    if (attrs->step == 0) return create_fill(b, KIT_VALUE(KIT_OUT(0)), attrs->start);
    return part_end(b, create_range(b, dtype, attrs->start, attrs->step, b->out[0]->count));
}

/* The first half of the numbers counts from the first end, the other half from the last one, as
 * both ends are exact. */
enum bp_status npu_linspace_build(struct kit_build *b)
{
    const double start = part_value(b, KIT_VALUE(KIT_SCALAR(linspace, start)));
    const double stop = part_value(b, KIT_VALUE(KIT_SCALAR(linspace, stop)));
    const int64_t n = b->out[0]->count;
    const double step = n > 1 ? (stop - start) / ((double)n - 1) : 0;
    struct kit_arg i, low, high, first;

    if (n < 2) return create_fill(b, KIT_VALUE(KIT_OUT(0)), start);
    i = create_range(b, BP_F64, 0, 1, n);
    low = part_plus(b, part_times(b, i, KIT_VALUE(KIT_NUMBER_IS(step))),
                    KIT_VALUE(KIT_NUMBER_IS(start)));
    high = part_times(b, part_plus(b, i, KIT_VALUE(KIT_NUMBER_IS(1 - (double)n))),
                      KIT_VALUE(KIT_NUMBER_IS(step)));
    high = part_plus(b, high, KIT_VALUE(KIT_NUMBER_IS(stop)));
    first = part_compare(b, "LtTensor", i, KIT_VALUE(KIT_NUMBER_IS((double)n / 2)));
    return part_end(b, part_where(b, first, low, high));
}

/* Numbers that are known in advance, as a constant of the plan. */
static enum bp_status create_known(struct kit_build *b, const int64_t *number, int64_t n)
{
    return KIT_STEP(
        b, "InplaceCopy", KIT_UPDATED(0),
        kit_reshaped(b, kit_constant(b, BP_I64, 1, &n, number), b->out[0]->rank, b->out[0]->shape));
}

enum bp_status npu_shape_build(struct kit_build *b)
{
    return create_known(b, b->in[0]->shape, b->in[0]->rank);
}

enum bp_status npu_numel_build(struct kit_build *b)
{
    return create_known(b, &b->in[0]->count, 1);
}

enum bp_status npu_is_empty_build(struct kit_build *b)
{
    return create_fill(b, KIT_VALUE(KIT_OUT(0)), !b->in[0]->count);
}

/* Writes the indices of the n elements of a triangle. Rows without elements are not visited: there
 * may be 2^31 of them. */
static void create_write_triangle(const struct bp_tril_indices_attrs *a, bool upper, int64_t n,
                                  int64_t *index)
{
    int64_t offset = a->offset < -a->rows ? -a->rows : a->offset, at = 0;

    if (offset > a->columns) offset = a->columns;
    for (int64_t i = upper || offset > 0 ? 0 : -offset; at < n; i++) {
        const int64_t first = upper && i + offset > 0 ? i + offset : 0;
        const int64_t end = upper || i + offset >= a->columns ? a->columns : i + offset + 1;

        for (int64_t j = first; j < end; j++) index[at] = i, index[n + at++] = j;
    }
}

/* The indices of the elements of a triangle: a constant of the plan. */
static enum bp_status create_triangle(struct kit_build *b, bool upper)
{
    const struct bp_view *y = b->out[0];
    const int64_t n = y->shape[1];
    int64_t *index;
    struct kit_arg all;

    if (!n) return b->status;
    if (n > CREATE_INDICES) return kit_refuse(b);
    index = malloc((size_t)(2 * n) * sizeof *index);
    if (!index) return b->status = BP_ERR_MEMORY;
    create_write_triangle(b->attrs, upper, n, index); /* both have the same attributes */
    all = kit_constant(b, BP_I64, 2, y->shape, index);
    free(index);
    if (y->dtype == BP_I64) return KIT_STEP(b, "InplaceCopy", KIT_UPDATED(0), all);
    return KIT_STEP(b, "Cast", all, KIT_OUT_DTYPE(0), KIT_OUT(0));
}

enum bp_status npu_tril_indices_build(struct kit_build *b)
{
    return create_triangle(b, false);
}

enum bp_status npu_triu_indices_build(struct kit_build *b)
{
    return create_triangle(b, true);
}
