/* SPDX-License-Identifier: Apache-2.0 */
/* launch.c: launches the kernels of kernel.h for the creation operators. */
#include "kernel.h"
#include "../../dialect/portable.h"

/* Integers of one size share one type, whether signed or not. */
static enum portable_type create_type_of(uint32_t dtype)
{
    uint64_t floats = BP_MASK_FLOAT;

    return floats >> dtype & 1 ? portable_type(dtype) : portable_move_type(dtype);
}

static enum bp_status create_fill_line(const struct bp_launch *launch,
                                       const struct create_line_args *args)
{
    const struct bp_view *y = launch->out[0];
    struct portable p = PORTABLE(create, create_line, create_type_of(y->dtype), *args, y->count, 2);

    portable_view(&p, y);
    return portable_run(launch, &p);
}

enum bp_status portable_arange(const struct bp_launch *launch)
{
    const struct bp_arange_attrs *a = launch->attrs;
    uint64_t floats = BP_MASK_FLOAT;
    int64_t n = launch->out[0]->count;
    struct create_line_args args = {.start = a->start, .step = a->step, .n = n, .middle = n};

    if (!(floats >> launch->out[0]->dtype & 1)) {
        args.first = (int64_t)a->start;
        args.by = (int64_t)a->step;
    }
    return create_fill_line(launch, &args);
}

/* Computed from both ends, so that both ends are exact. */
enum bp_status portable_linspace(const struct bp_launch *launch)
{
    const struct bp_linspace_attrs *a = launch->attrs;
    int64_t n = launch->out[0]->count;
    struct create_line_args args = {
        .start = a->start, .last = a->stop, .n = n, .middle = (n + 1) / 2};

    if (n > 1) args.step = (a->stop - a->start) / (double)(n - 1);
    return create_fill_line(launch, &args);
}

/* tril_indices and triu_indices have the same attributes; number 1 is the upper triangle. */
enum bp_status portable_triangle_indices(const struct bp_launch *launch)
{
    const struct bp_tril_indices_attrs *a = launch->attrs;
    const struct bp_view *y = launch->out[0];
    int64_t n = y->shape[1], upper = portable_number(launch->kernel), offset = a->offset;
    struct create_triangle_args args = {n, a->rows, a->columns, 0, 0, 0, upper};
    struct portable p = PORTABLE(create, create_triangle, create_type_of(y->dtype), args, n, 8);

    if (upper && offset > INT64_MIN) offset--;
    offset = offset > a->columns ? a->columns : offset < -a->rows ? -a->rows : offset;
    args.offset = offset;
    args.first = offset < 0 ? -offset : 0;
    args.full = a->columns - offset - 1;
    if (args.full < args.first) args.full = args.first;
    if (args.full > a->rows) args.full = a->rows;
    portable_view(&p, y);
    return portable_run(launch, &p);
}

/* Number 0: shape, 1: numel, 2: is_empty. */
enum bp_status portable_shape_facts(const struct bp_launch *launch)
{
    int number = portable_number(launch->kernel);
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct create_numbers_args args = {y->rank ? y->stride[0] : 1,
                                       {number == 1 ? x->count : x->count == 0}};
    struct portable p = PORTABLE(create, create_numbers, create_type_of(y->dtype), args, y->count,
                                 1);

    for (int i = 0; i < x->rank && number == 0; i++) args.number[i] = x->shape[i];
    portable_view(&p, y);
    return portable_run(launch, &p);
}
