/* SPDX-License-Identifier: Apache-2.0 */
/* quantize.c: builds the rows of quantisation, and of shifts of bits, by arithmetic: CANN's own
 * functions for them round otherwise, or do not exist. */
#include "builds.h"
#include "parts.h"
#include <math.h>
#include <string.h>

/* A scale or a zero point, of one value or of one for each place along an axis, for x. */
static struct kit_arg quantize_along(struct kit_build *b, struct kit_arg scale, int64_t axis,
                                     const struct bp_view *x)
{
    const struct bp_view *v = kit_arg_view(b, &scale);
    int64_t shape[KIT_AXES_MAX];

    if (!v) return scale;
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = 1;
    if (v->count != 1) shape[axis < 0 ? axis + (int64_t)x->rank : axis] = v->count;
    return kit_reshaped(b, scale, v->count == 1 ? 0 : x->rank, shape);
}

/* round(x / scale) + zero, where a quotient that is NaN counts as 0. */
enum bp_status npu_quantize_linear_build(struct kit_build *b)
{
    const struct bp_quantize_linear_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0];
    const uint32_t dtype = b->out[0]->dtype;
    struct kit_arg zero = KIT_IN(2), q, least = KIT_NUMBER_IS(0), most = KIT_NUMBER_IS(0);
    const bool is_signed = dtype == BP_I8 || dtype == BP_I16;
    const int bits = (int)(8 * part_item_size(dtype)) - is_signed;

    least.f = is_signed ? -ldexp(1, bits) : 0;
    most.f = ldexp(1, bits) - 1;
    q = part_two(b, "Div", part_in(b, 0), quantize_along(b, part_in(b, 1), a->axis, x));
    q = part_one(b, "Round", q);
    q = part_where_else(b, part_test(b, "EqTensor", q, q), q, KIT_VALUE(KIT_NUMBER_IS(0)));
    if (kit_arg_view(b, &zero))
        q = part_add(b, q, part_cast(b, quantize_along(b, zero, a->axis, x), part_dtype(b, q)));
    return part_end(b, part_clamp(b, q, least, most));
}

/* (x - zero) scale: the difference is exact. */
enum bp_status npu_dequantize_linear_build(struct kit_build *b)
{
    const struct bp_dequantize_linear_attrs *a = b->attrs;
    const struct bp_view *x = b->in[0];
    const uint32_t whole = x->dtype == BP_I32 ? BP_I64 : BP_I32;
    struct kit_arg zero = KIT_IN(2), y = part_cast(b, KIT_VALUE(KIT_IN(0)), whole), scale;

    if (kit_arg_view(b, &zero))
        y = part_sub(b, y, part_cast(b, quantize_along(b, zero, a->axis, x), whole));
    scale = quantize_along(b, part_in(b, 1), a->axis, x);
    return part_end(b, part_two(b, "Mul", part_cast(b, y, part_dtype(b, scale)), scale));
}

enum {
    SHIFT_WIDEST = 64
};

/* An operand of a shift as signed integers of the same bits. */
static struct kit_arg shift_in(struct kit_build *b, uint32_t port)
{
    const struct bp_view *v = b->in[port];

    return kit_alias(b, KIT_VALUE(KIT_IN(port)), create_bits(v->dtype), v->rank, v->shape,
                     v->stride, 0);
}

/* The place of each distance in a table: 0 to width - 1 is itself, others are width. */
static struct kit_arg shift_places(struct kit_build *b, struct kit_arg y, int width)
{
    struct kit_arg number = KIT_SCALAR_IS(width), zero = KIT_SCALAR_IS(0), at;

    at = part_cast(b, y, BP_I64);
    at = part_where_else(b, part_compare(b, "GeTensor", at, zero), at, number);
    return part_where_else(b, part_compare(b, "LtTensor", at, number), at, number);
}

/* For each place the entry of a table of integers, which has width + 1 of them. */
static struct kit_arg shift_look_up(struct kit_build *b, struct kit_arg places, uint32_t dtype,
                                    int width, const int64_t *table)
{
    const struct bp_view *v = kit_arg_view(b, &places);
    const int64_t n = width + 1;
    struct kit_arg to, entries;

    if (!v) return places;
    entries = part_cast(b, kit_constant(b, BP_I64, 1, &n, table), dtype);
    to = kit_temporary(b, dtype, v->rank, v->shape);
    KIT_STEP(b, "GatherV2", entries, KIT_INT_IS(0), kit_reshaped(b, places, 1, &v->count),
             kit_reshaped(b, to, 1, &v->count));
    return to;
}

/* Writes a result of the same bits as the output. */
static enum bp_status shift_end(struct kit_build *b, struct kit_arg z)
{
    const struct bp_view *out = b->out[0];

    KIT_STEP(b, "InplaceCopy",
             kit_as(kit_alias(b, KIT_VALUE(KIT_OUT(0)), create_bits(out->dtype), out->rank,
                              out->shape, out->stride, 0),
                    KIT_UPDATES),
             z);
    return part_pack(b);
}

/* x 2^y, of which the highest bits are lost. */
enum bp_status npu_left_shift_build(struct kit_build *b)
{
    const int width = (int)(8 * part_item_size(b->in[0]->dtype));
    struct kit_arg x = shift_in(b, 0), factor;
    int64_t table[SHIFT_WIDEST + 1] = {0};

    if (!b->out[0]->count) return b->status;
    for (int i = 0; i < width; i++) table[i] = (int64_t)(UINT64_C(1) << i);
    factor = shift_look_up(b, shift_places(b, shift_in(b, 1), width), part_dtype(b, x), width,
                           table);
    return shift_end(b, part_two(b, "Mul", x, factor));
}

/* x 2^-y, rounded down: in two steps, because 2^(width - 1) is no signed integer. Unsigned integers
 * lose the copies of what is a sign to the vendor's function. */
enum bp_status npu_right_shift_build(struct kit_build *b)
{
    const uint32_t dtype = b->in[0]->dtype;
    const int width = (int)(8 * part_item_size(dtype));
    const bool is_signed = (BP_MASK_SIGNED >> dtype & 1) != 0;
    struct kit_arg x = shift_in(b, 0), places = shift_places(b, shift_in(b, 1), width), z;
    int64_t divisor[2][SHIFT_WIDEST + 1], kept[SHIFT_WIDEST + 1];

    if (!b->out[0]->count) return b->status;
    for (int i = 0; i <= width; i++) {
        const int by = i < width ? i : width - 1, first = by < width - 2 ? by : width - 2;

        divisor[0][i] = (int64_t)(UINT64_C(1) << first);
        divisor[1][i] = (int64_t)(UINT64_C(1) << (by - first));
        kept[i] = i == width ? 0 : (int64_t)(UINT64_MAX >> (64 - width + i));
    }
    z = part_two(b, "FloorDivide", x,
                 shift_look_up(b, places, part_dtype(b, x), width, divisor[0]));
    z = part_two(b, "FloorDivide", z,
                 shift_look_up(b, places, part_dtype(b, x), width, divisor[1]));
    if (!is_signed)
        z = part_two(b, "BitwiseAndTensor", z,
                     shift_look_up(b, places, part_dtype(b, x), width, kept));
    return shift_end(b, z);
}
