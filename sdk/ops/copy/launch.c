/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h: slices with any step, tile, pad, roll, flip,
 * triangles, fills. */
#include "../../dialect/half.h"
#include "../../dialect/portable.h"
#include "kernel.h"
#include <stdbool.h>

static int64_t copy_magnitude(int64_t i)
{
    return i < 0 ? -i : i;
}

/* Sorts the axes by their stride in y, drops axes of extent 1, and joins neighbours that have a
 * common step in both tensors. */
static void copy_tidy(struct move_strided_args *a)
{
    int64_t n = 0;

    for (int64_t i = 1; i < a->rank; i++) /* insertion sort: there are few axes, mostly in order */
        for (int64_t k = i;
             k > 0 && copy_magnitude(a->y_stride[k]) > copy_magnitude(a->y_stride[k - 1]); k--) {
            int64_t *lists[] = {a->shape, a->y_stride, a->x_stride};
            for (int l = 0; l < 3; l++) {
                int64_t t = lists[l][k];
                lists[l][k] = lists[l][k - 1];
                lists[l][k - 1] = t;
            }
        }
    for (int64_t i = 0; i < a->rank; i++) {
        if (a->shape[i] == 1) continue;
        if (n && a->y_stride[n - 1] == a->shape[i] * a->y_stride[i] &&
            a->x_stride[n - 1] == a->shape[i] * a->x_stride[i])
            a->shape[n - 1] *= a->shape[i];
        else a->shape[n++] = a->shape[i];
        a->y_stride[n - 1] = a->y_stride[i];
        a->x_stride[n - 1] = a->x_stride[i];
    }
    if (!n) a->shape[n++] = 1;
    a->rank = n;
}

static int64_t copy_count_of(int64_t rank, const int64_t *shape)
{
    int64_t n = 1;

    for (int64_t i = 0; i < rank; i++) n *= shape[i];
    return n;
}

static enum bp_status copy_move(const struct bp_launch *launch, struct move_strided_args *args,
                                const struct bp_view *y, const struct bp_view *x)
{
    struct portable p = PORTABLE(copy, move_strided, portable_move_type(y->dtype), *args, 0, 1);

    p.count = copy_count_of(args->rank, args->shape);
    if (!p.count) return BP_OK;
    copy_tidy(args);
    portable_view(&p, y);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

/* Pairs every element of y with the element of x at the same coordinates; the caller then applies
 * its attributes. */
static struct move_strided_args same_places(const struct bp_view *y, const struct bp_view *x)
{
    struct move_strided_args a = {.rank = y->rank};

    for (int i = 0; i < y->rank; i++) {
        a.shape[i] = y->shape[i];
        a.y_stride[i] = y->stride[i];
        a.x_stride[i] = x->stride[i];
    }
    return a;
}

/* Returns the first index of a slice, clamped as the shape rule does. */
static int64_t first_of(int64_t start, int64_t step, int64_t extent)
{
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? extent - 1 : extent;

    if (start < 0) start += extent;
    return start < low ? low : start > high ? high : start;
}

/* Selects a part of the tensor `of`, with the shape of `part`: returns the offset of its first
 * element, and sets the strides. */
static int64_t select_part(const struct bp_strided_slice_attrs *a, const struct bp_view *of,
                           const struct bp_view *part, int64_t *stride)
{
    int64_t first = 0;

    for (int64_t i = 0; i < a->starts.n; i++) {
        int axis = portable_axis(a->axes.n ? a->axes.at[i] : i, of->rank);
        int64_t step = a->steps.n ? a->steps.at[i] : 1;
        first += first_of(a->starts.at[i], step, of->shape[axis]) * of->stride[axis];
        stride[axis] = part->shape[axis] > 1 ? step * of->stride[axis] : 0;
    }
    return first;
}

enum bp_status portable_strided_slice(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct move_strided_args args = same_places(y, x);

    args.x_first = select_part(launch->attrs, x, y, args.x_stride);
    return copy_move(launch, &args, y, x);
}

/* Returns the bits of an f64 converted to an integer, as the operator cast does it. */
static uint64_t integer_bits(uint32_t dtype, double v)
{
    uint64_t with_sign = BP_MASK_SIGNED;
    bool is_signed = with_sign >> dtype & 1;
    int bits = 8 << (portable_move_type(dtype) - TYPE_i8); /* i8 to i64 follow one another */
    double end = is_signed ? (double)(UINT64_C(1) << (bits - 1))
                           : (double)(UINT64_C(1) << (bits - 1)) * 2;

    if (v != v) return 0;
    if (v >= end) return is_signed ? (UINT64_C(1) << (bits - 1)) - 1 : ~UINT64_C(0);
    if (is_signed) return v <= -end ? (uint64_t)1 << (bits - 1) : (uint64_t)(int64_t)v;
    return v > 0 ? (uint64_t)v : 0;
}

static void set_bits(uint32_t dtype, double v, uint64_t *low, uint64_t *high)
{
    *high = 0;
    switch (dtype) {
    case BP_BOOL: *low = v != 0; break;
    case BP_F16: *low = f16_from_f32(f32_from_f64_odd(v)); break;
    case BP_BF16: *low = bf16_from_f32(f32_from_f64_odd(v)); break;
    case BP_F32:
    case BP_C64: *low = f32_bits((float)v); break; /* the imaginary part is the upper half: 0 */
    case BP_F64:
    case BP_C128: *low = f64_bits(v); break;
    default: *low = integer_bits(dtype, v); break;
    }
}

static enum bp_status copy_fill(const struct bp_launch *launch, struct move_fill_args *args,
                                const struct bp_view *y, double value)
{
    struct portable p = PORTABLE(copy, move_fill, portable_move_type(y->dtype), *args, 0, 1);
    struct move_strided_args axes = {.rank = args->rank};

    p.count = copy_count_of(args->rank, args->shape);
    if (!p.count) return BP_OK;
    for (int64_t i = 0; i < args->rank; i++) {
        axes.shape[i] = args->shape[i];
        axes.y_stride[i] = args->y_stride[i];
    }
    copy_tidy(&axes);
    args->rank = axes.rank;
    for (int64_t i = 0; i < axes.rank; i++) {
        args->shape[i] = axes.shape[i];
        args->y_stride[i] = axes.y_stride[i];
    }
    set_bits(y->dtype, value, &args->low, &args->high);
    portable_view(&p, y);
    return portable_run(launch, &p);
}

static enum bp_status fill_all(const struct bp_launch *launch, const struct bp_view *y,
                               double value)
{
    struct move_fill_args args = {.rank = y->rank};

    for (int i = 0; i < y->rank; i++) {
        args.shape[i] = y->shape[i];
        args.y_stride[i] = y->stride[i];
    }
    return copy_fill(launch, &args, y, value);
}

/* Number 0: full, 1: zeros, 2: ones. */
enum bp_status portable_full(const struct bp_launch *launch)
{
    int number = portable_number(launch->kernel);
    const struct bp_full_attrs *a = launch->attrs;

    return fill_all(launch, launch->out[0], number ? number - 1 : a->value);
}

/* Launches full_like and fill, which have the same attributes. */
enum bp_status portable_full_like(const struct bp_launch *launch)
{
    const struct bp_full_like_attrs *a = launch->attrs;

    return fill_all(launch, launch->out[0], a->value);
}

enum bp_status portable_strided_slice_grad(const struct bp_launch *launch)
{
    const struct bp_view *dy = launch->in[0], *dx = launch->out[0];
    struct move_strided_args args = same_places(dy, dy);
    enum bp_status status = fill_all(launch, dx, 0);

    for (int i = 0; i < dx->rank; i++) args.y_stride[i] = dx->stride[i];
    /* strided_slice_grad's attributes have the layout of strided_slice's */
    args.y_first = select_part(launch->attrs, dx, dy, args.y_stride);
    return status ? status : copy_move(launch, &args, dx, dy);
}

/* Treats each axis of y as two: the tiles, and the elements of one tile. */
enum bp_status portable_tile(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct move_strided_args args = {.rank = 2 * y->rank};

    if (!y->count) return BP_OK;
    for (int i = 0; i < y->rank; i++) {
        int axis = i - (y->rank - x->rank);
        int64_t n = axis < 0 ? 1 : x->shape[axis];
        args.shape[2 * i] = y->shape[i] / n;
        args.y_stride[2 * i] = n * y->stride[i];
        args.shape[2 * i + 1] = n;
        args.y_stride[2 * i + 1] = y->stride[i];
        args.x_stride[2 * i + 1] = axis < 0 ? 0 : x->stride[axis];
    }
    return copy_move(launch, &args, y, x);
}

enum bp_status portable_flip(const struct bp_launch *launch)
{
    const struct bp_flip_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct move_strided_args args = same_places(y, x);
    int64_t n = a->axes.n ? a->axes.n : y->rank;

    for (int64_t i = 0; i < n; i++) {
        int axis = a->axes.n ? portable_axis(a->axes.at[i], y->rank) : (int)i;
        args.x_first += (x->shape[axis] - 1) * x->stride[axis];
        args.x_stride[axis] = -x->stride[axis];
    }
    return copy_move(launch, &args, y, x);
}

/* Sorts the axes by their stride in y. Neighbours without a border become one axis. */
static enum bp_status copy_border(const struct bp_launch *launch, struct move_border_args *args,
                                  const struct bp_view *y, const struct bp_view *x)
{
    struct portable p = PORTABLE(copy, move_border, portable_move_type(y->dtype), *args, 0, 1);
    int64_t *lists[] = {args->shape, args->y_stride, args->extent, args->before, args->x_stride};
    int64_t n = 0;

    p.count = copy_count_of(args->rank, args->shape);
    for (int64_t i = 1; i < args->rank; i++)
        for (int64_t k = i; k > 0 && args->y_stride[k] > args->y_stride[k - 1]; k--)
            for (int l = 0; l < 5; l++) {
                int64_t t = lists[l][k];
                lists[l][k] = lists[l][k - 1];
                lists[l][k - 1] = t;
            }
    for (int64_t i = 0; i < args->rank; i++) {
        int64_t extent = args->extent[i];
        bool whole = !args->before[i] && args->shape[i] == extent;
        if (whole && extent == 1) continue;
        if (whole && n && args->y_stride[n - 1] == extent * args->y_stride[i] &&
            args->x_stride[n - 1] == extent * args->x_stride[i]) {
            /* With a constant value, a border of n rows is a border of n * extent elements, so that
             * the two axes can be joined. */
            if (args->mode == 0 ||
                (!args->before[n - 1] && args->shape[n - 1] == args->extent[n - 1])) {
                args->shape[n - 1] *= extent;
                args->extent[n - 1] *= extent;
                args->before[n - 1] *= extent;
                args->y_stride[n - 1] = args->y_stride[i];
                args->x_stride[n - 1] = args->x_stride[i];
                continue;
            }
        }
        for (int l = 0; l < 5; l++) lists[l][n] = lists[l][i];
        n++;
    }
    if (!n) args->shape[n] = args->extent[n] = 1;
    args->rank = n ? n : 1;
    portable_view(&p, y);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_pad(const struct bp_launch *launch)
{
    const struct bp_pad_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct move_border_args args = {.rank = y->rank, .mode = a->mode};

    for (int i = 0; i < y->rank; i++) {
        args.shape[i] = y->shape[i];
        args.y_stride[i] = y->stride[i];
        args.extent[i] = x->shape[i];
        args.before[i] = a->before.n ? a->before.at[i] : 0;
        args.x_stride[i] = x->stride[i];
    }
    set_bits(y->dtype, a->value, &args.low, &args.high);
    return copy_border(launch, &args, y, x);
}

/* A roll is a circular border at the front, with as many elements cut off at the end. */
enum bp_status portable_roll(const struct bp_launch *launch)
{
    const struct bp_roll_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct move_border_args args = {.rank = a->axes.n ? y->rank : 1,
                                    .mode = 3,
                                    .shape = {y->count},
                                    .y_stride = {1},
                                    .extent = {y->count},
                                    .x_stride = {1}};

    if (!y->count) return BP_OK;
    for (int i = 0; i < y->rank && a->axes.n; i++) {
        args.shape[i] = args.extent[i] = y->shape[i];
        args.y_stride[i] = y->stride[i];
        args.x_stride[i] = x->stride[i];
    }
    for (int64_t i = 0; i < a->shifts.n; i++) {
        int axis = a->axes.n ? portable_axis(a->axes.at[i], y->rank) : 0;
        int64_t shift = a->shifts.at[i] % args.extent[axis];
        args.before[axis] = shift < 0 ? shift + args.extent[axis] : shift;
    }
    return copy_border(launch, &args, y, x);
}

/* tril and triu have the same attributes; number 1 is triu. */
enum bp_status portable_triangle(const struct bp_launch *launch)
{
    const struct bp_tril_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    int64_t rows = y->shape[y->rank - 2], columns = y->shape[y->rank - 1], d = a->diagonal;
    struct move_triangle_args args = {rows, columns, 0, portable_number(launch->kernel)};
    struct portable p = PORTABLE(copy, move_triangle, portable_move_type(y->dtype), args, y->count,
                                 1);

    args.diagonal = d > columns ? columns : d < -rows ? -rows : d; /* beyond that, no difference */
    portable_view(&p, y);
    portable_view(&p, x);
    return portable_run(launch, &p);
}

enum bp_status portable_diag_embed(const struct bp_launch *launch)
{
    const struct bp_diag_embed_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    int p = portable_axis(a->axis1, y->rank), q = portable_axis(a->axis2, y->rank), at = 0;
    struct move_strided_args args = {.rank = x->rank};
    enum bp_status status = fill_all(launch, y, a->value);

    for (int i = 0; i < y->rank; i++)
        if (i != p && i != q) args.y_stride[at++] = y->stride[i];
    args.y_stride[at] = y->stride[p] + y->stride[q];
    args.y_first = a->offset < 0 ? -a->offset * y->stride[p] : a->offset * y->stride[q];
    for (int i = 0; i < x->rank; i++) {
        args.shape[i] = x->shape[i];
        args.x_stride[i] = x->stride[i];
    }
    return status ? status : copy_move(launch, &args, y, x);
}

/* Fills a diagonal of the `rows` rows from `row` on, and of blocks - 1 more matrices, each of which
 * begins `rows` rows further down. */
static enum bp_status fill_rows(const struct bp_launch *launch, const struct bp_view *y,
                                int64_t row, int64_t rows, int64_t blocks, int64_t offset,
                                double value)
{
    int64_t columns = y->shape[1], down, right, n;
    struct move_fill_args args = {.rank = 2};

    if (offset <= -rows || offset >= columns) return BP_OK;
    down = offset < 0 ? -offset : 0;
    right = offset > 0 ? offset : 0;
    n = rows - down < columns - right ? rows - down : columns - right;
    args.y_first = (row + down) * y->stride[0] + right * y->stride[1];
    args.shape[0] = blocks;
    args.y_stride[0] = rows * y->stride[0];
    args.shape[1] = n;
    args.y_stride[1] = y->stride[0] + y->stride[1];
    return copy_fill(launch, &args, y, value);
}

static enum bp_status fill_matrix(const struct bp_launch *launch,
                                  const struct bp_fill_diagonal_attrs *a, const struct bp_view *y)
{
    int64_t rows = y->shape[0], block = a->wrap ? y->shape[1] + 1 : rows, whole = rows / block;
    enum bp_status status = fill_rows(launch, y, 0, block, whole, a->offset, a->value);

    if (status || rows % block == 0) return status;
    return fill_rows(launch, y, whole * block, rows % block, 1, a->offset, a->value);
}

enum bp_status portable_fill_diagonal(const struct bp_launch *launch)
{
    const struct bp_fill_diagonal_attrs *a = launch->attrs;
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct move_strided_args args = same_places(y, x);
    struct move_fill_args line = {.rank = 1};
    enum bp_status status = BP_OK;

    if (y->data != x->data || y->memory != x->memory) status = copy_move(launch, &args, y, x);
    if (status || !y->count) return status;
    if (y->rank == 2) return fill_matrix(launch, a, y);
    line.shape[0] = y->shape[0];
    for (int i = 0; i < y->rank; i++) line.y_stride[0] += y->stride[i];
    return copy_fill(launch, &line, y, a->value);
}

enum bp_status portable_eye(const struct bp_launch *launch)
{
    const struct bp_eye_attrs *a = launch->attrs;
    const struct bp_view *y = launch->out[0];
    enum bp_status status = fill_all(launch, y, 0);

    if (status || !y->count) return status;
    return fill_rows(launch, y, 0, y->shape[0], 1, a->diagonal, 1);
}

/* Copies each tensor, repeated along the axes that it lacks or in which it has extent 1. */
enum bp_status portable_broadcast_tensors(const struct bp_launch *launch)
{
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < launch->n_out && status == BP_OK; i++) {
        const struct bp_view *x = launch->in[i], *y = launch->out[i];
        struct move_strided_args args = {.rank = y->rank};
        for (int k = 0; k < y->rank; k++) {
            int axis = k - (y->rank - x->rank);
            args.shape[k] = y->shape[k];
            args.y_stride[k] = y->stride[k];
            args.x_stride[k] = axis < 0 || x->shape[axis] == 1 ? 0 : x->stride[axis];
        }
        status = copy_move(launch, &args, y, x);
    }
    return status;
}

enum bp_status portable_meshgrid(const struct bp_launch *launch)
{
    const struct bp_meshgrid_attrs *a = launch->attrs;
    enum bp_status status = BP_OK;

    for (uint32_t i = 0; i < launch->n_out && status == BP_OK; i++) {
        const struct bp_view *x = launch->in[i], *y = launch->out[i];
        struct move_strided_args args = {.rank = y->rank};
        uint32_t axis = a->xy && launch->n_out > 1 && i < 2 ? 1 - i : i;
        for (int k = 0; k < y->rank; k++) {
            args.shape[k] = y->shape[k];
            args.y_stride[k] = y->stride[k];
        }
        if (x->rank) args.x_stride[axis] = x->stride[0];
        status = copy_move(launch, &args, y, x);
    }
    return status;
}
