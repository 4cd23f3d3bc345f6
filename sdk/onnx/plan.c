/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: plans a model for a set of input types: records its nodes as a graph and a program, or
 * else plans to run the nodes one by one. */
#include "row.h"
#include "run.h"
#include <stdlib.h>
#include <string.h>

static bool same_type(const struct bp_model_port *type, const struct bp_model_value *in)
{
    struct bp_tensor_info info;

    if (in->kind != BP_MODEL_TENSOR) return type->kind == in->kind;
    info = onnx_info(in->at[0]);
    return type->kind == BP_MODEL_TENSOR && info.dtype == type->dtype && info.rank == type->rank &&
           !memcmp(info.shape, type->shape, info.rank * sizeof *info.shape);
}

static bool plan_fits(const struct onnx_plan *plan, const struct bp_model_value *in, size_t n_in)
{
    for (size_t i = 0; i < n_in; i++)
        if (!same_type(&plan->type[i], &in[i])) return false;
    return true;
}

static enum bp_status keep_types(struct onnx_plan *plan, const struct bp_model_value *in,
                                 size_t n_in)
{
    plan->type = calloc(n_in + 1, sizeof *plan->type);
    if (!plan->type) return onnx_no_memory();
    for (size_t i = 0; i < n_in; i++) {
        struct bp_model_port *type = &plan->type[i];
        struct bp_tensor_info info;
        type->kind = in[i].kind;
        plan->n_type++;
        if (in[i].kind != BP_MODEL_TENSOR) continue;
        info = onnx_info(in[i].at[0]);
        type->dtype = info.dtype;
        type->rank = info.rank;
        int64_t *shape = malloc((info.rank + 1) * sizeof *shape);
        if (!shape) return onnx_no_memory();
        memcpy(shape, info.shape, info.rank * sizeof *shape);
        type->shape = shape;
    }
    return BP_OK;
}

/* Adds symbolic inputs to the graph, under the model's names. */
static enum bp_status add_inputs(struct onnx_run *run, const struct onnx_plan *plan)
{
    const struct onnx_body *body = &run->model->body;

    for (uint32_t i = 0; i < body->n_input; i++) {
        const struct bp_model_port *type = &plan->type[i];
        struct bp_tensor *t;
        if (type->kind != BP_MODEL_TENSOR) /* its elements are known only in a run */
            return onnx_error(BP_ERR_UNSUPPORTED, "input %u is no tensor", i);
        TRY(bp_graph_input(run->graph, run->model->input[i].name, type->dtype, type->rank,
                           type->shape, &t));
        TRY(onnx_value_tensor(run->model, t, true, &run->slot[body->input[i]]));
    }
    return BP_OK;
}

/* Makes all symbolic tensors of a value outputs of the graph, in order. */
static enum bp_status add_output(struct bp_graph *graph, const struct onnx_value *v)
{
    if (!v) return onnx_error(BP_ERR_INVALID, "an output has no value");
    if (v->symbolic && v->tensor) TRY(bp_graph_output(graph, v->tensor, NULL));
    for (size_t i = 0; i < v->n_item; i++) TRY(add_output(graph, v->item[i]));
    return BP_OK;
}

static enum bp_status take_outputs(struct onnx_run *run, struct onnx_plan *plan)
{
    const struct onnx_body *body = &run->model->body;

    plan->output = calloc(body->n_output + 1, sizeof *plan->output);
    if (!plan->output) return onnx_no_memory();
    for (uint32_t i = 0; i < body->n_output; i++) {
        struct onnx_value *v = run->slot[body->output[i]];
        TRY(add_output(run->graph, v));
        plan->output[i] = onnx_value_retain(v);
    }
    return BP_OK;
}

/* Freezes the constants that this plan created, so that the kernels of its calls may pack them. */
static enum bp_status freeze_constants(struct bp_graph *graph)
{
    struct bp_graph_info all = {.size = sizeof all};

    TRY(bp_graph_get_info(graph, &all));
    for (uint32_t i = 0; i < all.values; i++) {
        struct bp_value_info info = {.size = sizeof info};
        TRY(bp_graph_value(graph, i, &info));
        if (info.constant && !onnx_info(info.constant).frozen) TRY(bp_tensor_freeze(info.constant));
    }
    return BP_OK;
}

static enum bp_status plan_record(struct bp_model *model, struct onnx_plan *plan)
{
    struct onnx_run run;
    enum bp_status status = onnx_run_init(&run, model, model->stream);

    if (status == BP_OK) status = bp_graph_create(model->core, &plan->graph);
    if (status == BP_OK) {
        run.graph = plan->graph;
        status = add_inputs(&run, plan);
    }
    if (status == BP_OK) status = onnx_walk(&run, &model->body);
    if (status == BP_OK) status = take_outputs(&run, plan);
    if (status == BP_OK) status = freeze_constants(plan->graph);
    if (status == BP_OK) status = bp_program_create(plan->graph, model->device, &plan->program);
    if (status == BP_OK) /* runs on other streams read values computed here */
        status = bp_stream_synchronize(model->stream);
    onnx_run_finish(&run);
    return status;
}

/* Frees the least recently used plan, and returns its entry. */
static struct onnx_plan *make_place(struct bp_model *model)
{
    struct onnx_plan *oldest = &model->plan[0];

    for (int i = 1; i < ONNX_PLANS; i++)
        if (model->plan[i].used < oldest->used) oldest = &model->plan[i];
    onnx_plan_finish(model, oldest);
    return oldest;
}

static void finish_outputs(struct bp_model *model, struct onnx_plan *plan)
{
    for (uint32_t i = 0; plan->output && i < model->body.n_output; i++)
        onnx_value_release(plan->output[i]);
    free(plan->output);
    plan->output = NULL;
    bp_program_destroy(plan->program);
    bp_graph_destroy(plan->graph);
    plan->program = NULL;
    plan->graph = NULL;
}

void onnx_plan_finish(struct bp_model *model, struct onnx_plan *plan)
{
    finish_outputs(model, plan);
    for (uint32_t i = 0; i < plan->n_type; i++) free((void *)plan->type[i].shape);
    free(plan->type);
    *plan = (struct onnx_plan){0};
}

enum bp_status onnx_plan_find(struct bp_model *model, const struct bp_model_value *in, size_t n_in,
                              struct onnx_plan **out_plan)
{
    struct onnx_plan *plan;
    enum bp_status status;

    for (int i = 0; i < ONNX_PLANS; i++) {
        plan = &model->plan[i];
        if (!plan->used || !plan_fits(plan, in, n_in)) continue;
        plan->used = ++model->runs;
        *out_plan = plan;
        return BP_OK;
    }
    plan = make_place(model);
    status = keep_types(plan, in, n_in);
    if (status == BP_OK) {
        status = plan_record(model, plan);
        if (status == BP_ERR_UNSUPPORTED || status == BP_ERR_INVALID) {
            finish_outputs(model, plan); /* run node by node, which reports an error */
            status = BP_OK;
        }
    }
    if (status) {
        onnx_plan_finish(model, plan);
        return status;
    }
    plan->used = ++model->runs;
    *out_plan = plan;
    return BP_OK;
}
