/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_tail.c: plans and launches what follows the library's convolution in fused_conv. */
#include "cudnn_tail.h"
#include "vendor.h"
#include <backplane/fused.h>
#include <string.h>

enum { STEPS = 3, AXES = 5 };

/* Returns the row of `fused` whose library is there, or NULL. */
static const struct bp_kernel *compiled_row(struct gpu *gpu)
{
    for (size_t i = 0; i < portable_rows.count; i++) {
        const struct bp_kernel *row = (const struct bp_kernel *)portable_rows.first + i;
        if (row->prepare == gpu_fused_prepare && gpu_vendor_has(gpu, row)) return row;
    }
    return NULL;
}

/* Appends an instruction whose first operand is the result of the one before it, or y. with: the
 * number of the input that is added; 0: none. */
static void code_add(int64_t *code, int *n, int of, const char *op, int with, const double *number)
{
    struct bp_fused_step step = {.from = {BP_FUSED_NONE, BP_FUSED_NONE, BP_FUSED_NONE}};

    snprintf(step.op, sizeof step.op, "%s", op);
    step.from[0] = *n ? BP_FUSED_R : BP_FUSED_X;
    if (with) step.from[1] = (uint8_t)(BP_FUSED_X + with);
    if (number) memcpy(step.number, number, 2 * sizeof *number);
    step.to = *n + 1 == of ? BP_FUSED_Y : BP_FUSED_R;
    bp_fused_put(code, (uint32_t)(*n)++, &step);
}

/* Compiles the steps. The bias is seen as a tensor of the shape of y. */
static bool tail_compile(struct cudnn_tail *t, struct gpu *gpu, const struct bp_prep *prep,
                         int n_step, bool activation)
{
    const struct bp_fused_conv_attrs *attrs = prep->attrs;
    const struct bp_view *y = prep->out[0], *in[STEPS] = {y};
    int64_t code[1 + STEPS * BP_FUSED_STEP_WORDS], stride[AXES] = {0};
    struct bp_view bias = *y;
    uint16_t port[STEPS + 1] = {0, 1, 2, 3};
    struct bp_prep fused = *prep;
    struct bp_fused_attrs of = {
        .size = sizeof of, .code = {code, 1 + n_step * BP_FUSED_STEP_WORDS}};
    struct bp_plan plan = {.size = sizeof plan};
    int n = 0, n_in = 1;

    if (t->bias) {
        stride[1] = prep->in[2]->stride[0];
        bias.stride = stride;
        bias.flags = BP_VIEW_STRIDED;
        code_add(code, &n, n_step, "add", n_in, NULL);
        in[n_in++] = &bias;
    }
    if (t->residual) {
        code_add(code, &n, n_step, "add", n_in, NULL);
        in[n_in++] = prep->in[3];
    }
    if (activation) {
        double number[2];
        const char *op = gpu_epilogue_code((enum bp_activation)attrs->activation, attrs->alpha,
                                           attrs->beta, number);
        code_add(code, &n, n_step, op, 0, number);
    }
    code[0] = bp_fused_head((uint32_t)n_in, 1, 1);
    fused.kernel = t->compiled;
    fused.attrs = &of;
    fused.in = in;
    fused.in_at = port;
    fused.n_in = (uint32_t)n_in;
    if (gpu_fused_prepare(gpu, &fused, &plan) != BP_OK) return false;
    t->plan = plan.plan;
    return true;
}

bool cudnn_tail_init(struct cudnn_tail *out, struct gpu *gpu, const struct bp_prep *prep, bool bias,
                     bool residual, bool activation)
{
    const struct bp_fused_conv_attrs *attrs = prep->attrs;
    int n = bias + residual + activation;

    *out = (struct cudnn_tail){.bias = bias, .residual = residual};
    if (n > 1) out->compiled = compiled_row(gpu);
    if (out->compiled && tail_compile(out, gpu, prep, n, activation)) return true;
    out->compiled = NULL;
    if (residual) out->add = gpu_epilogue_row("add", prep->out[0]->dtype);
    return !bias && (!residual || out->add) &&
           (!activation || gpu_epilogue_init(&out->activation,
                                             (enum bp_activation)attrs->activation, attrs->alpha,
                                             attrs->beta, prep->out[0]->dtype));
}

void cudnn_tail_finish(struct cudnn_tail *t, struct gpu *gpu)
{
    if (t->compiled) gpu_fused_end(gpu, t->compiled, t->plan);
}

enum bp_status cudnn_tail_run(const struct cudnn_tail *t, const struct bp_launch *launch)
{
    const struct bp_view *in[STEPS] = {launch->out[0]};
    uint16_t port[STEPS + 1] = {0, 1, 2, 3};
    struct bp_launch behind = *launch;

    behind.in = in;
    behind.in_at = port;
    behind.n_in = 1;
    if (t->bias) in[behind.n_in++] = launch->in[2];
    if (t->residual) in[behind.n_in++] = launch->in[3];
    behind.kernel = t->compiled;
    behind.plan = t->plan;
    if (t->compiled) return gpu_fused_run(&behind);
    if (t->add) {
        behind.kernel = t->add;
        TRY(t->add->launch(&behind));
    }
    return gpu_epilogue_run(&t->activation, launch);
}
