/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: defines the device's operators: a kernel row for each, and the functions behind it.
 *
 * launch runs within the app's call: it copies the kernel's arguments, with addresses of the
 * device, and submits a job. The kernel itself (run_...) runs on the device, some time later. */
#include "template.h"
#include <math.h>

struct args {
    struct operand {
        float *first;
        int64_t rank, shape[TEMPLATE_RANK], stride[TEMPLATE_RANK]; /* in the axes of out */
    } out, x, y;
    int64_t count, row, axis; /* elements; softmax: rows, elements of a row, the row's axis */
};
_Static_assert(sizeof(struct args) <= TEMPLATE_ARGS, "they are copied into a job");

/* view in the axes of out: along an axis that view lacks, or has with extent 1, it repeats. */
static struct operand view_of(const struct bp_view *view, const struct bp_view *out)
{
    struct operand o = {.first = template_reach(view->memory, view->data), .rank = out->rank};
    int lead = out->rank - view->rank;

    for (int i = 0; i < out->rank; i++) {
        o.shape[i] = out->shape[i];
        if (i >= lead && view->shape[i - lead] != 1) o.stride[i] = view->stride[i - lead];
    }
    return o;
}

/* Returns the address of element number i in row-major order. */
static float *operand_at(const struct operand *o, int64_t i)
{
    int64_t offset = 0;

    for (int64_t axis = o->rank - 1; axis >= 0; i /= o->shape[axis--])
        offset += i % o->shape[axis] * o->stride[axis];
    return o->first + offset;
}

static void run_add(const void *args)
{
    const struct args *a = args;

    for (int64_t i = 0; i < a->count; i++)
        *operand_at(&a->out, i) = *operand_at(&a->x, i) + *operand_at(&a->y, i);
}

static enum bp_status add_f32(const struct bp_launch *launch)
{
    const struct bp_view *out = launch->out[0], *x = launch->in[0], *y = launch->in[1];
    struct args args = {view_of(out, out), view_of(x, out), view_of(y, out), .count = out->count};

    template_submit(launch->self, run_add, &args, sizeof args);
    return BP_OK;
}

/* Computes in double, so that the differences and the sum lose no accuracy. */
static void run_softmax(const void *args)
{
    const struct args *a = args;
    int64_t x_step = a->x.stride[a->axis], y_step = a->out.stride[a->axis];

    for (int64_t r = 0; r < a->count; r++) {
        float *x = operand_at(&a->x, r), *y = operand_at(&a->out, r);
        double max = -INFINITY, sum = 0;
        for (int64_t i = 0; i < a->row; i++) max = fmax(max, x[i * x_step]);
        for (int64_t i = 0; i < a->row; i++) sum += exp(x[i * x_step] - max);
        for (int64_t i = 0; i < a->row; i++)
            y[i * y_step] = (float)(exp(x[i * x_step] - max) / sum);
    }
}

static enum bp_status softmax_f32(const struct bp_launch *launch)
{
    const struct bp_softmax_attrs *attrs = launch->attrs;
    const struct bp_view *out = launch->out[0];
    struct args args = {.out = view_of(out, out), .x = view_of(launch->in[0], out)};

    if (out->count == 0) return BP_OK;
    args.axis = (attrs->axis + out->rank) % out->rank; /* -1 is the last axis */
    args.row = out->shape[args.axis];
    args.count = out->count / args.row;
    args.out.shape[args.axis] = args.x.shape[args.axis] = 1; /* count rows, not elements */
    template_submit(launch->self, run_softmax, &args, sizeof args);
    return BP_OK;
}

/* The core calls it before a launch. The ABI does not limit the rank, but these kernels do. */
static enum bp_status row_accepts(void *self, const struct bp_prep *prep)
{
    return prep->out[0]->rank <= TEMPLATE_RANK ? BP_OK : BP_ERR_UNSUPPORTED;
}

#define FLAGS (BP_KERNEL_STRIDED | BP_KERNEL_DETERMINISTIC | BP_KERNEL_IN_PLACE)
static const struct bp_kernel rows[] = {
    {BP_OPROW(add), .name = "template_add_f32", .types = {BP_M(F32)}, .flags = FLAGS,
     .launch = add_f32, .accepts = row_accepts},
    {BP_OPROW(softmax), .name = "template_softmax_f32", .types = {BP_M(F32)}, .flags = FLAGS,
     .launch = softmax_f32, .accepts = row_accepts},
};

const struct bp_kernels template_kernels = {
    .size = sizeof template_kernels, .first = rows, .count = sizeof rows / sizeof *rows,
    .stride = sizeof *rows,
};
