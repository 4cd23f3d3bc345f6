/* SPDX-License-Identifier: Apache-2.0 */
/* libraries_work.h: makes launches by hand of kernel rows that call vendors' libraries, for
 * test_libraries.c and test_blaslt.c. The type is f32 unless a recipe names another type. */
#ifndef LIBRARIES_WORK_H
#define LIBRARIES_WORK_H

#include "kit.h"
#include "simulator/number.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *plugin_path, *driver_path;

static void begin(struct world *w)
{
    expect(world_make(w, load(plugin_path)) == BP_OK, "world_make: %s", error_text);
}

static void end(struct world *w)
{
    world_end(w);
    expect(!host_live, "%d allocations of the host's are left", host_live);
    expect(!driver_live(driver_path), "%zu things of the driver's are left",
           driver_live(driver_path));
}

enum { VIEWS = 5, VIEW_RANK = 4, SIZE = 64 };

/* A launch of a kernel row: the shapes of its inputs, then of the output; each input has the
 * numbers 1, 2, 3, ... A shape ends with 0; a shape that begins with 0 is an absent input. */
struct recipe {
    const char *row;
    const void *attrs;
    int n_in;
    int64_t shape[VIEWS][VIEW_RANK + 1];
    enum sim_type type;
    bool channels_last;  /* layout of the output and of the input before it */
    bool apart;          /* addresses are not multiples of 16 */
    int gap;             /* extra elements in the stride of the first axis of the first input */
    float result[8];     /* the first values of the result, in memory order */
    int n_result;
};

static const struct bp_matmul_attrs product = {.size = sizeof product};
static const struct bp_matmul_attrs transposed = {.size = sizeof transposed, .transpose_b = 1};
static const struct bp_addmm_attrs sum = {.size = sizeof sum, .alpha = 2, .beta = 0.5};
static const struct bp_addmm_attrs bias = {.size = sizeof bias, .alpha = 1, .beta = 1};
static const struct bp_fused_matmul_attrs clipped = {
    .size = sizeof clipped, .activation = BP_ACTIVATION_CLIP, .alpha = 10, .beta = 20};
static const struct bp_layer_norm_attrs norm = {.size = sizeof norm, .axis = -1};
static const struct bp_attention_attrs attention = {.size = sizeof attention, .causal = 1};
#define FUSED_CONV(function) \
    {.size = sizeof(struct bp_fused_conv_attrs), .stride = {1, 1, 1}, .dilation = {1, 1, 1}, \
     .groups = 1, .activation = (function)}
static const struct bp_fused_conv_attrs conv_relu = FUSED_CONV(BP_ACTIVATION_RELU);
static const struct bp_fused_conv_attrs conv_sum = FUSED_CONV(BP_ACTIVATION_NONE);
static const struct bp_fused_conv_attrs conv_swish = FUSED_CONV(BP_ACTIVATION_HARD_SWISH);
static const struct bp_conv_attrs conv = {.size = sizeof conv, .stride = {1, 1, 1},
                                          .dilation = {1, 1, 1}, .groups = 1};
static const struct bp_conv_attrs conv_steps = {
    .size = sizeof conv_steps, .stride = {1, 2, 1}, .pad = {0, 1}, .dilation = {1, 1, 1},
    .groups = 1};
static const struct bp_conv_attrs conv_uneven = {
    .size = sizeof conv_uneven, .stride = {1, 1, 1}, .pad = {0, 1}, .dilation = {1, 1, 1},
    .groups = 1};
static const struct bp_conv_attrs conv_groups = {.size = sizeof conv_groups, .stride = {1, 1, 1},
                                                 .dilation = {1, 1, 1}, .groups = 2};
static const struct bp_conv_grad_input_attrs grad_input = {
    .size = sizeof grad_input, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};
static const struct bp_conv_grad_weight_attrs grad_weight = {
    .size = sizeof grad_weight, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .groups = 1};

static const struct recipe recipes[] = {
    {"sim_matmul_f32_cublaslt", &product, 2, {{2, 3}, {3, 2}, {2, 2}}, .n_result = 4,
     .result = {22, 28, 49, 64}},
    {"sim_matmul_f32_cublaslt", &transposed, 2, {{2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, .n_result = 8,
     .result = {5, 11, 11, 25, 61, 83, 83, 113}, .apart = true},
    {"sim_matmul_f32_cublaslt", &product, 2, {{2, 2, 2}, {2, 2}, {2, 2, 2}}, .n_result = 8,
     .result = {7, 10, 15, 22, 31, 46, 39, 58}, .gap = 2},
    {"sim_linear_f32_cublaslt", NULL, 3, {{2, 2}, {2, 2}, {2}, {2, 2}}, .n_result = 4,
     .result = {6, 13, 12, 27}},
    {"sim_addmm_f32_cublaslt", &sum, 3, {{2, 2}, {2, 2}, {2, 2}, {2, 2}}, .n_result = 4,
     .result = {14.5f, 21, 31.5f, 46}},
    {"sim_matmul_f32_rocblas", &product, 2, {{2, 3}, {3, 2}, {2, 2}}, .n_result = 4,
     .result = {22, 28, 49, 64}},
    {"sim_addmm_f32_rocblas", &sum, 3, {{2, 2}, {2, 2}, {2, 2}, {2, 2}}, .n_result = 4,
     .result = {14.5f, 21, 31.5f, 46}},
    {"sim_conv_f32_cudnn", &conv, 3, {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}}, .n_result = 4,
     .result = {38, 48, 87, 113}},
    {"sim_conv_grad_input_f32_cudnn", &grad_input, 3,
     {{1, 1, 1, 2}, {1, 2, 1, 2}, {1, 2, 1, 3}, {1, 2, 1, 3}}, .n_result = 6,
     .result = {1, 4, 4, 3, 10, 8}},
    {"sim_conv_grad_weight_f32_cudnn", &grad_weight, 3,
     {{1, 1, 1, 2}, {1, 2, 1, 3}, {1, 2, 1, 2}, {1, 2, 1, 2}}, .n_result = 4,
     .result = {7, 13, 10, 16}, .channels_last = true},
    /* Sums that the half type cannot represent: they round otherwise with the bias than without. */
    {"sim_linear_bf16_cublaslt", NULL, 3, {{1, 9}, {2, 9}, {2}, {1, 2}}, SIM_BF16, .n_result = 2,
     .result = {286, 692}},
    {"sim_linear_f16_cublaslt", NULL, 3, {{1, 18}, {2, 18}, {2}, {1, 2}}, SIM_F16, .n_result = 2,
     .result = {2110, 5188}},
    {"sim_addmm_bf16_cublaslt", &bias, 3, {{2}, {1, 9}, {9, 2}, {1, 2}}, SIM_BF16, .n_result = 2,
     .result = {528, 572}},
    {"sim_fused_matmul_f32_cublaslt", &clipped, 3, {{2, 2}, {2, 2}, {2}, {2, 2}}, .n_result = 4,
     .result = {10, 12, 16, 20}},
    {"sim_fused_matmul_bf16_hipblaslt", &clipped, 3, {{2, 2}, {2, 2}, {2}, {2, 2}}, SIM_BF16,
     .n_result = 4, .result = {10, 12, 16, 20}},
    {"sim_matmul_f32_hipblaslt", &product, 2, {{2, 3}, {3, 2}, {2, 2}}, .n_result = 4,
     .result = {22, 28, 49, 64}},
    {"sim_matmul_f32_hipblaslt", &transposed, 2, {{2, 2, 2}, {2, 2, 2}, {2, 2, 2}}, .n_result = 8,
     .result = {5, 11, 11, 25, 61, 83, 83, 113}, .apart = true},
    {"sim_matmul_f32_hipblaslt", &product, 2, {{2, 2, 2}, {2, 2}, {2, 2, 2}}, .n_result = 8,
     .result = {7, 10, 15, 22, 31, 46, 39, 58}, .gap = 2},
    {"sim_addmm_f32_hipblaslt", &sum, 3, {{2, 2}, {2, 2}, {2, 2}, {2, 2}}, .n_result = 4,
     .result = {14.5f, 21, 31.5f, 46}},
    {"sim_linear_f32_hipblaslt", NULL, 3, {{2, 2}, {2, 2}, {2}, {2, 2}}, .n_result = 4,
     .result = {6, 13, 12, 27}},
    {"sim_linear_bf16_hipblaslt", NULL, 3, {{1, 9}, {2, 9}, {2}, {1, 2}}, SIM_BF16, .n_result = 2,
     .result = {286, 692}},
    {"sim_linear_f16_hipblaslt", NULL, 3, {{1, 18}, {2, 18}, {2}, {1, 2}}, SIM_F16, .n_result = 2,
     .result = {2110, 5188}},
    {"sim_addmm_bf16_hipblaslt", &bias, 3, {{2}, {1, 9}, {9, 2}, {1, 2}}, SIM_BF16, .n_result = 2,
     .result = {528, 572}},
    /* Run by cuDNN's graph interface, except where addresses are not multiples of 16. */
    {"sim_conv_bf16_cudnn", &conv, 3, {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}}, SIM_BF16,
     .n_result = 4, .result = {38, 48, 87, 113}},
    {"sim_conv_f16_cudnn", &conv, 2, {{1, 1, 2, 3}, {2, 1, 2, 2}, {1, 2, 1, 2}}, SIM_F16,
     .n_result = 4, .result = {37, 47, 85, 111}, .apart = true},
    {"sim_conv_bf16_cudnn", &conv, 3, {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}}, SIM_BF16,
     .n_result = 4, .result = {38, 48, 87, 113}, .apart = true},
    {"sim_conv_f16_cudnn", &conv_steps, 2, {{1, 1, 1, 3}, {1, 1, 1, 2}, {1, 1, 1, 2}}, SIM_F16,
     .n_result = 2, .result = {2, 8}},
    {"sim_conv_bf16_cudnn", &conv_groups, 2, {{1, 2, 2}, {2, 1, 1}, {1, 2, 2}}, SIM_BF16,
     .n_result = 4, .result = {1, 2, 6, 8}},
    {"sim_conv_grad_input_f16_cudnn", &grad_input, 3,
     {{1, 1, 1, 2}, {1, 2, 1, 2}, {1, 2, 1, 3}, {1, 2, 1, 3}}, SIM_F16, .n_result = 6,
     .result = {1, 4, 4, 3, 10, 8}},
    {"sim_conv_grad_weight_bf16_cudnn", &grad_weight, 3,
     {{1, 1, 1, 2}, {1, 2, 1, 3}, {1, 2, 1, 2}, {1, 2, 1, 2}}, SIM_BF16, .n_result = 4,
     .result = {7, 13, 10, 16}, .channels_last = true},
    /* The older interface does not support these pads. */
    {"sim_conv_f16_cudnn", &conv_uneven, 2, {{1, 1, 1, 3}, {1, 1, 1, 2}, {1, 1, 1, 3}}, SIM_F16,
     .n_result = 3, .result = {2, 5, 8}, .apart = true},
    /* Bias, residual and relu in one graph; copied where addresses are not multiples of 16. */
    {"sim_fused_conv_bf16_cudnn", &conv_relu, 4,
     {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}, {1, 2, 1, 2}}, SIM_BF16, .n_result = 4,
     .result = {39, 50, 90, 117}},
    {"sim_fused_conv_f16_cudnn", &conv_relu, 4,
     {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}, {1, 2, 1, 2}}, SIM_F16, .n_result = 4,
     .result = {39, 50, 90, 117}, .apart = true},
    {"sim_fused_conv_f16_cudnn", &conv_swish, 3, {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}},
     SIM_F16, .n_result = 4, .result = {38, 48, 87, 113}},
    {"sim_fused_conv_f32_cudnn", &conv_relu, 4,
     {{1, 1, 2, 3}, {2, 1, 2, 2}, {2}, {1, 2, 1, 2}, {1, 2, 1, 2}}, .n_result = 4,
     .result = {39, 50, 90, 117}},
    /* The second key has the whole weight. */
    {"sim_attention_f16_cudnn", &attention, 3, {{1, 1, 8}, {1, 2, 8}, {1, 2, 8}, {1, 1, 8}},
     SIM_F16, .n_result = 8, .result = {9, 10, 11, 12, 13, 14, 15, 16}},
    {"sim_attention_bf16_cudnn", &attention, 3,
     {{1, 2, 1, 8}, {1, 1, 2, 8}, {1, 1, 2, 8}, {1, 2, 1, 8}}, SIM_BF16, .n_result = 8,
     .result = {9, 10, 11, 12, 13, 14, 15, 16}, .apart = true},
    /* A mask: a graph of several operations. */
    {"sim_attention_f16_cudnn", &attention, 4,
     {{1, 1, 8}, {1, 2, 8}, {1, 2, 8}, {1, 1, 2}, {1, 1, 8}}, SIM_F16, .n_result = 8,
     .result = {9, 10, 11, 12, 13, 14, 15, 16}, .apart = true},
    {"sim_layer_norm_f16_cudnn", &norm, 3, {{2, 2}, {2}, {2}, {2, 2}}, SIM_F16, .n_result = 4,
     .result = {0, 4, 0, 4}},
    {"sim_layer_norm_bf16_cudnn", &norm, 3, {{2, 2}, {2}, {2}, {2, 2}}, SIM_BF16, .n_result = 4,
     .result = {0, 4, 0, 4}, .apart = true},
};
enum {
    RECIPES = sizeof recipes / sizeof *recipes,
    NORM = RECIPES - 2,
    MASKED = RECIPES - 3,
    ATTENTION = RECIPES - 5,
    FUSED_CONVS = RECIPES - 9,
    GRAPHS = RECIPES - 17,
    UNEVEN = RECIPES - 10,
    HIP = GRAPHS - 8,
};

struct views {
    struct bp_view view[VIEWS];
    int64_t stride[VIEWS][VIEW_RANK];
    const struct bp_view *at[VIEWS];
    uint16_t port[VIEWS];
};

static void make_views(struct views *v, const struct recipe *r)
{
    static const uint8_t dtype[] = {BP_F32, BP_F64, BP_F16, BP_BF16};

    for (int i = 0; i <= r->n_in; i++) {
        struct bp_view *view = &v->view[i];
        *view = (struct bp_view){.shape = r->shape[i], .stride = v->stride[i], .count = 1,
                                 .dtype = dtype[r->type]};
        while (r->shape[i][view->rank]) view->count *= r->shape[i][view->rank++];
        for (int64_t a = view->rank - 1, next = 1; a >= 0; next *= r->shape[i][a--])
            v->stride[i][a] = next;
        if (r->channels_last && i == 1) {
            v->stride[i][1] = 1;
            v->stride[i][3] = r->shape[i][1];
        }
        if (!i) v->stride[i][0] += r->gap;
        v->at[i] = view;
    }
}

/* Gives each tensor a part of the world's x. */
static void place_views(struct world *w, struct views *v, const struct recipe *r)
{
    for (int i = 0; i <= r->n_in; i++)
        v->view[i].data = (char *)w->x.data + 768 * i + (r->apart ? 4 : 0);
}

static bool write_inputs(struct world *w, const struct views *v, const struct recipe *r)
{
    float number[SIZE];

    for (int i = 0; i < SIZE; i++) sim_put(r->type, number, i, i + 1);
    for (int i = 0; i < r->n_in; i++) {
        struct bp_memory to = {NULL, v->view[i].data};
        if (put(w, to, number, SIZE * sim_size(r->type))) return false;
    }
    return true;
}

static void compare(struct world *w, const struct views *v, const struct recipe *r)
{
    struct bp_memory from = {NULL, v->view[r->n_in].data};
    float got[SIZE];

    if (!expect(get(w, got, from, (uint64_t)v->view[r->n_in].count * sim_size(r->type)) == BP_OK,
                "%s: %s", r->row, error_text))
        return;
    for (int i = 0; i < r->n_result; i++)
        expect(sim_get(r->type, got, i) == (double)r->result[i], "%s: element %d is %g, not %g",
               r->row, i, sim_get(r->type, got, i), (double)r->result[i]);
}

enum outcome { WORKS, PASSED_OVER, FAILS };

static enum bp_status make_plan(struct world *w, const struct recipe *r, const struct views *v,
                                struct bp_plan *out)
{
    const struct bp_kernel *row = find_named(w, r->row);
    struct bp_prep prep = {.size = sizeof prep, .kernel = row, .in = v->at, .out = v->at + r->n_in,
                           .in_at = v->port, .out_at = v->port, .n_in = (uint32_t)r->n_in,
                           .n_out = 1, .attrs = r->attrs, .width = 1};

    return row->prepare(w->self, &prep, out);
}

static enum outcome run_recipe(struct world *w, const struct recipe *r)
{
    struct views v = {.port = {0, 1, 2, 3, 4}};
    const struct bp_kernel *row = find_named(w, r->row);
    struct bp_plan plan = {.size = sizeof plan};
    enum bp_status status;

    make_views(&v, r);
    status = make_plan(w, r, &v, &plan);
    if (status == BP_ERR_UNSUPPORTED) return PASSED_OVER;
    if (!expect(status == BP_OK, "%s: prepare answers %d: %s", r->row, status, error_text))
        return FAILS;
    expect(plan.workspace <= 4096, "%s wants %d bytes", r->row, (int)plan.workspace);
    place_views(w, &v, r);
    expect(write_inputs(w, &v, r), "%s: %s", r->row, error_text);
    struct bp_launch launch = {.self = w->self, .kernel = row, .plan = plan.plan, .in = v.at,
                               .out = v.at + r->n_in, .in_at = v.port, .out_at = v.port,
                               .n_in = (uint32_t)r->n_in, .n_out = 1, .attrs = r->attrs,
                               .workspace = w->workspace.data,
                               .workspace_size = plan.workspace, .stream = w->stream[0],
                               .width = 1};
    status = row->launch(&launch);
    expect(status == BP_OK || status == BP_ERR_DEVICE || status == BP_ERR_DEVICE_LOST,
           "%s: launch answers %d: %s", r->row, status, error_text);
    if (status == BP_OK) compare(w, &v, r);
    if (row->plan_destroy) row->plan_destroy(w->self, row, plan.plan);
    return status == BP_OK ? WORKS : FAILS;
}

/* Makes a plan and destroys it; *workspace receives the bytes that the plan requests. */
static enum bp_status plan_recipe(struct world *w, const struct recipe *r, uint64_t *workspace)
{
    struct views v = {.port = {0, 1, 2, 3, 4}};
    const struct bp_kernel *row = find_named(w, r->row);
    struct bp_plan plan = {.size = sizeof plan};
    enum bp_status status;

    make_views(&v, r);
    status = make_plan(w, r, &v, &plan);
    if (status == BP_OK) row->plan_destroy(w->self, row, plan.plan);
    *workspace = plan.workspace;
    return status;
}

#endif
