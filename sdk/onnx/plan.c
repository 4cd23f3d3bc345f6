/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: plans a model for a set of input types: records its nodes as a graph and a program, or
 * else plans to run the nodes one by one. */
#include "row.h"
#include "run.h"
#include <stdio.h>
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

static bool plan_fits(const struct bp_model *model, const struct onnx_plan *plan,
                      const struct bp_model_value *in, size_t n_in, const uint8_t *want)
{
    if (!want != !plan->want || (want && memcmp(want, plan->want, model->body.n_output)))
        return false;
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
        TRY(onnx_value_tensor(run, t, true, &run->slot[body->input[i]]));
    }
    return BP_OK;
}

/* Makes all symbolic tensors of a value outputs of the graph, in order. */
static enum bp_status add_output(struct bp_graph *graph, const struct onnx_value *v)
{
    if (!v) return onnx_error(BP_ERR_INVALID, "it has no value");
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
        enum bp_status status;
        if (plan->want && !plan->want[i]) continue;
        status = add_output(run->graph, v);
        if (status)
            return onnx_error(status, "output %.80s: %s", run->model->output[i].name,
                              bp_error_message());
        plan->output[i] = onnx_value_retain(v);
        onnx_value_settle(v, run->use);
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

static enum bp_status plan_record(struct bp_model *model, const struct onnx_use *use,
                                  struct onnx_plan *plan)
{
    struct onnx_use own = {.begun = use->begun}; /* iterations that are recorded do not count */
    struct onnx_run run;
    enum bp_status status = onnx_run_init(&run, model, model->stream, &own);

    if (status == BP_OK) status = bp_graph_create(model->core, &plan->graph);
    if (status == BP_OK) {
        run.graph = plan->graph;
        run.skip = plan->skip;
        status = add_inputs(&run, plan);
    }
    if (status == BP_OK) status = onnx_walk(&run, &model->body);
    if (status == BP_OK) status = take_outputs(&run, plan);
    if (status == BP_OK) status = freeze_constants(plan->graph);
    if (status == BP_OK) status = bp_program_create(plan->graph, model->device, &plan->shared);
    if (status == BP_OK) /* runs on other streams read values computed here */
        status = bp_stream_synchronize(model->stream);
    onnx_run_finish(&run);
    return status;
}

static void finish_graph(struct bp_model *model, struct onnx_plan *plan)
{
    for (uint32_t i = 0; plan->output && i < model->body.n_output; i++)
        onnx_value_release(plan->output[i]);
    free(plan->output);
    plan->output = NULL;
    bp_program_destroy(plan->shared);
    plan->shared = NULL;
    for (int i = 0; i < ONNX_PROGRAMS; i++) {
        bp_program_destroy(plan->program[i].program);
        plan->program[i].program = NULL;
    }
    bp_graph_destroy(plan->graph);
    plan->graph = NULL;
}

static void plan_destroy(struct bp_model *model, struct onnx_plan *plan)
{
    finish_graph(model, plan);
    for (uint32_t i = 0; i < plan->n_type; i++) free((void *)plan->type[i].shape);
    free(plan->type);
    free(plan->want);
    free(plan->skip);
    free(plan);
}

void onnx_plan_release(struct bp_model *model, struct onnx_plan *plan)
{
    bool is_last;

    if (!plan) return;
    pthread_mutex_lock(&model->lock);
    is_last = !--plan->refs;
    pthread_mutex_unlock(&model->lock);
    if (is_last) plan_destroy(model, plan);
}

/* Finds a kept plan for these types and outputs, and retains it; NULL: none is kept. */
static struct onnx_plan *find_kept(struct bp_model *model, const struct bp_model_value *in,
                                   size_t n_in, const uint8_t *want)
{
    struct onnx_plan *found = NULL;

    pthread_mutex_lock(&model->lock);
    for (int i = 0; i < ONNX_PLANS && !found; i++)
        if (model->plan[i] && plan_fits(model, model->plan[i], in, n_in, want))
            found = model->plan[i];
    if (found) {
        found->refs++;
        found->used = ++model->uses;
    }
    pthread_mutex_unlock(&model->lock);
    return found;
}

/* Keeps a plan in the place of the least recently used one, which runs may still use. */
static void plan_keep(struct bp_model *model, struct onnx_plan *plan)
{
    struct onnx_plan **place = &model->plan[0], *oldest;

    pthread_mutex_lock(&model->lock);
    for (int i = 0; i < ONNX_PLANS && *place; i++)
        if (!model->plan[i] || model->plan[i]->used < (*place)->used) place = &model->plan[i];
    oldest = *place;
    *place = plan;
    plan->refs++;
    plan->used = ++model->uses;
    pthread_mutex_unlock(&model->lock);
    onnx_plan_release(model, oldest);
}

static enum bp_status keep_want(const struct bp_model *model, struct onnx_plan *plan,
                                const uint8_t *want)
{
    plan->want = malloc(model->body.n_output + 1);
    if (!plan->want) return onnx_no_memory();
    memcpy(plan->want, want, model->body.n_output);
    return onnx_find_unneeded(model, want, &plan->skip);
}

static enum bp_status plan_make(struct bp_model *model, const struct onnx_use *use,
                                const struct bp_model_value *in, size_t n_in, const uint8_t *want,
                                struct onnx_plan **out_plan)
{
    struct onnx_plan *plan = calloc(1, sizeof *plan);
    enum bp_status status;

    if (!plan) return onnx_no_memory();
    plan->refs = 1;
    status = keep_types(plan, in, n_in);
    if (status == BP_OK && want) status = keep_want(model, plan, want);
    if (status == BP_OK) {
        status = plan_record(model, use, plan);
        if (status == BP_ERR_UNSUPPORTED || status == BP_ERR_INVALID) {
            snprintf(plan->why, sizeof plan->why, "%s", bp_error_message());
            finish_graph(model, plan); /* run node by node, which reports an error */
            status = BP_OK;
        }
    }
    if (status) plan_destroy(model, plan);
    else *out_plan = plan;
    return status;
}

enum bp_status onnx_plan_find(struct bp_model *model, const struct onnx_use *use,
                              const struct bp_model_value *in, size_t n_in, const uint8_t *want,
                              struct onnx_plan **out_plan)
{
    struct onnx_plan *plan = find_kept(model, in, n_in, want);
    enum bp_status status = BP_OK;

    if (!plan) {
        pthread_mutex_lock(&model->planning);
        plan = find_kept(model, in, n_in, want); /* another thread may have made it meanwhile */
        if (!plan) {
            status = plan_make(model, use, in, n_in, want, &plan);
            if (status == BP_OK) plan_keep(model, plan);
        }
        pthread_mutex_unlock(&model->planning);
    }
    if (status == BP_OK) *out_plan = plan;
    return status;
}
