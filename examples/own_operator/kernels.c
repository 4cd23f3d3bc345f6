/* SPDX-License-Identifier: Apache-2.0 */
/* kernels.c: defines an operator of a plugin's own, y = x^3, and its kernel. README.md puts this
 * file in the place of kernels.c in a copy of the sample plugin. */
#include "template.h"
#include <string.h>

/* The operator: one input and one output of one dtype. */
static const struct bp_port in[] = {{"x", BP_PORT_IN, BP_VAR_T, -1, 0, "numbers"}};
static const struct bp_port out[] = {{"y", BP_PORT_OUT, BP_VAR_T, -1, 0, "their cubes"}};

/* y has the shape of x. */
static enum bp_status cube_infer(const struct bp_prep *prep, struct bp_inferred *y, uint32_t n_out)
{
    const struct bp_view *x = prep->in[0];

    if (n_out != 1) return BP_ERR_INVALID;
    y->rank = x->rank;
    memcpy(y->extent, x->shape, x->rank * sizeof *x->shape);
    return BP_OK;
}

static const struct bp_operator operators[] = {
    {.infer = cube_infer,
     .info = {.name = "template.cube", .doc = "y = x^3", .in = in, .out = out, .n_in = 1,
              .n_out = 1, .types = {BP_M(F32)}}},
};

/* The kernel. cube_f32 submits a job, and the device runs cube_job later, in stream order. */
struct cube {
    float *y;
    const float *x;
    int64_t count;
};

static void cube_job(const void *args)
{
    const struct cube *a = args;

    for (int64_t i = 0; i < a->count; i++) a->y[i] = a->x[i] * a->x[i] * a->x[i];
}

static enum bp_status cube_f32(const struct bp_launch *launch)
{
    const struct bp_view *x = launch->in[0], *y = launch->out[0];
    struct cube args = {template_reach(y->memory, y->data), template_reach(x->memory, x->data),
                        y->count};

    template_submit(launch->self, cube_job, &args, sizeof args);
    return BP_OK;
}

static const struct bp_kernel rows[] = {
    {.op = "template.cube", .name = "template_cube_f32", .types = {BP_M(F32)}, .launch = cube_f32,
     .flags = BP_KERNEL_DETERMINISTIC, .in_known = 1, .out_known = 1},
};

const struct bp_kernels template_kernels = {
    .size = sizeof template_kernels, .first = rows, .count = 1, .stride = sizeof *rows,
    .op = operators, .op_count = 1, .op_stride = sizeof *operators,
};
