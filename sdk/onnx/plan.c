/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c: plans a model for a set of input types: records its nodes as a graph and a program, or
 * else plans to run the nodes one by one. */
#include "plan.h"
#include "row.h"
#include "run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED_BYTES = 16 << 20 }; /* of constants that depend on fixed inputs */

static bool same_type(const struct bp_model_port *type, const struct bp_model_value *in)
{
    struct bp_tensor_info info;

    if (in->kind != BP_MODEL_TENSOR) return type->kind == in->kind;
    info = onnx_info(in->at[0]);
    return type->kind == BP_MODEL_TENSOR && info.dtype == type->dtype && info.rank == type->rank &&
           !memcmp(info.shape, type->shape, info.rank * sizeof *info.shape);
}

/* A number for the types of inputs, so that those of kept plans are compared only if they may be
 * equal. */
static uint64_t types_hash(const struct bp_model_value *in, size_t n_in)
{
    uint64_t hash = 1469598103934665603u;

    for (size_t i = 0; i < n_in; i++) {
        struct bp_tensor_info info;
        hash = (hash ^ in[i].kind) * 1099511628211u;
        if (in[i].kind != BP_MODEL_TENSOR) continue;
        info = onnx_info(in[i].at[0]);
        hash = (hash ^ (info.dtype << 8 | info.rank)) * 1099511628211u;
        for (uint32_t k = 0; k < info.rank; k++)
            hash = (hash ^ (uint64_t)info.shape[k]) * 1099511628211u;
    }
    return hash;
}

static bool plan_fits(const struct bp_model *model, const struct onnx_plan *plan,
                      const struct onnx_wanted *w)
{
    const uint8_t *want = w->want;

    if (plan->hash != w->hash) return false;
    if (w->fixes ? plan->is_unfixed : plan->fixed.inputs != 0) return false;
    if (!want != !plan->want || (want && memcmp(want, plan->want, model->body.n_output)))
        return false;
    for (size_t i = 0; i < w->n_in; i++)
        if (!same_type(&plan->type[i], &w->in[i])) return false;
    return onnx_fixed_fits(&plan->fixed, w->fixed, w->in);
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

/* Adds an input's value to the walk: a symbolic one, or a constant if the plan fixes the input. The
 * graph has the input in both cases. */
static enum bp_status add_input(struct onnx_run *run, const struct onnx_plan *plan, uint32_t i,
                                struct bp_tensor *symbolic)
{
    struct onnx_value **slot = &run->slot[run->model->body.input[i]];
    const struct bp_model_port *type = &plan->type[i];
    struct bp_tensor *fixed;

    if (i >= ONNX_FIXED_MAX || !(plan->fixed.inputs >> i & 1)) {
        TRY(onnx_value_tensor(run, symbolic, true, slot));
        (*slot)->origin = 1ull << (i < ONNX_FIXED_MAX ? i : ONNX_FIXED_MAX);
        return BP_OK;
    }
    bp_tensor_destroy(symbolic);
    TRY(onnx_put(run->stream, type->dtype, type->rank, type->shape, plan->fixed.value[i], &fixed));
    return onnx_value_tensor(run, fixed, false, slot);
}

/* Adds the inputs to the graph, under the model's names. */
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
        TRY(add_input(run, plan, i, t));
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

/* Freezes the constants that this plan created, so that the kernels of its calls may pack them. A
 * plan keeps them, so those that depend on fixed inputs must be few. */
static enum bp_status freeze_constants(const struct onnx_plan *plan, struct bp_graph *graph)
{
    struct bp_graph_info all = {.size = sizeof all};
    uint64_t bytes = 0;

    TRY(bp_graph_get_info(graph, &all));
    for (uint32_t i = 0; i < all.values; i++) {
        struct bp_value_info info = {.size = sizeof info};
        TRY(bp_graph_value(graph, i, &info));
        if (!info.constant) continue;
        if (onnx_info(info.constant).frozen) { /* a view of it may not know */
            TRY(bp_tensor_freeze(info.constant));
            continue;
        }
        bytes += onnx_info(info.constant).bytes;
        if (plan->fixed.inputs && bytes > FIXED_BYTES)
            return onnx_error(BP_ERR_UNSUPPORTED, "values that depend on small inputs have more "
                              "than %d bytes", FIXED_BYTES);
        TRY(bp_tensor_freeze(info.constant));
    }
    return BP_OK;
}

/* Records the graph with the values that the plan fixes. out_unknown: as the member of onnx_run. */
static enum bp_status record_graph(struct bp_model *model, const struct onnx_wanted *w,
                                   struct onnx_plan *plan, uint64_t *out_unknown)
{
    struct onnx_use own = {.begun = w->use->begun}; /* iterations that are recorded do not count */
    struct onnx_run run;
    enum bp_status status = onnx_run_init(&run, model, model->stream, &own);

    if (status == BP_OK) status = bp_graph_create(model->core, &plan->graph);
    if (status == BP_OK) {
        run.graph = plan->graph;
        run.skip = plan->skip;
        run.keeps_ranges = w->keeps_ranges;
        status = add_inputs(&run, plan);
    }
    if (status == BP_OK) status = onnx_walk(&run, &model->body);
    if (status == BP_OK) status = take_outputs(&run, plan);
    if (status == BP_OK) status = freeze_constants(plan, plan->graph);
    if (status == BP_OK) status = onnx_program_create(model, plan->graph, &plan->shared);
    if (status == BP_OK) /* runs on other streams read values computed here */
        status = bp_stream_synchronize(model->stream);
    *out_unknown = run.unknown;
    onnx_run_finish(&run);
    return status;
}

void onnx_plan_drop_graph(struct bp_model *model, struct onnx_plan *plan)
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
    onnx_plan_drop_graph(model, plan);
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

/* Finds a kept plan for these inputs and outputs, and retains it; NULL: none is kept. */
static struct onnx_plan *find_kept(struct bp_model *model, const struct onnx_wanted *w)
{
    struct onnx_plan *found = NULL;

    pthread_mutex_lock(&model->lock);
    for (int i = 0; i < ONNX_PLANS + ONNX_DERIVED && !found; i++)
        if (model->plan[i] && plan_fits(model, model->plan[i], w))
            found = model->plan[i];
    if (found) {
        found->refs++;
        found->used = ++model->uses;
    }
    pthread_mutex_unlock(&model->lock);
    return found;
}

/* Keeps a plan in the place of the least recently used one, which runs may still use. Dropped plans
 * with fixed inputs that served one run or none are counted: after some of them the model fixes no
 * inputs any more, because their values change from run to run. */
static void plan_keep(struct bp_model *model, struct onnx_plan *plan)
{
    int first = plan->derived ? ONNX_PLANS : 0, n = plan->derived ? ONNX_DERIVED : ONNX_PLANS;
    struct onnx_plan **list = &model->plan[first], **place = list, *oldest;

    pthread_mutex_lock(&model->lock);
    for (int i = 0; i < n && *place; i++)
        if (!list[i] || list[i]->used < (*place)->used) place = &list[i];
    oldest = *place;
    if (oldest && oldest->fixed.inputs && oldest->runs < 2 && oldest->refs == 1) model->unused++;
    if (model->unused >= ONNX_PLANS) atomic_store(&model->fixed, 0);
    *place = plan;
    plan->refs++;
    plan->used = ++model->uses;
    *(plan->derived ? &model->derived : &model->recorded) += 1;
    pthread_mutex_unlock(&model->lock);
    onnx_plan_release(model, oldest);
}

/* Drops derived plans, the least recently used ones first, until their memory is within bounds; the
 * last ones stay in any case. */
static void plan_shrink(struct bp_model *model)
{
    for (bool dropped = true; dropped;) {
        struct onnx_plan **oldest = NULL, *plan = NULL;
        uint64_t bytes = 0, n = 0;
        pthread_mutex_lock(&model->lock);
        for (int i = ONNX_PLANS; i < ONNX_PLANS + ONNX_DERIVED; i++) {
            struct onnx_plan **place = &model->plan[i];
            if (!*place) continue;
            n++;
            bytes += (*place)->bytes;
            if (!oldest || (*place)->used < (*oldest)->used) oldest = place;
        }
        dropped = n > ONNX_PLANS && bytes > ONNX_DERIVED_BYTES;
        if (dropped) {
            plan = *oldest;
            *oldest = NULL;
        }
        pthread_mutex_unlock(&model->lock);
        onnx_plan_release(model, plan);
    }
}

/* Records the graph. While a node has to read a value that depends on small inputs of integers
 * alone, these are fixed, and the graph is recorded anew. */
static enum bp_status plan_record(struct bp_model *model, struct onnx_wanted *w,
                                  struct onnx_plan *plan)
{
    bool fixes = w->fixes && model->unused < ONNX_PLANS;
    uint64_t fixable = fixes ? onnx_fixable(w->in, w->n_in) : 0, unknown = 0;

    for (;;) {
        enum bp_status status = record_graph(model, w, plan, &unknown);
        unknown &= ~plan->fixed.inputs;
        plan->is_unfixed = !w->fixes && unknown && !(unknown & ~onnx_fixable(w->in, w->n_in));
        if (status != BP_ERR_UNSUPPORTED || !unknown || unknown & ~fixable) return status;
        onnx_plan_drop_graph(model, plan);
        TRY(onnx_fixed_read(w->stream, w->in, w->n_in, unknown, w->fixed));
        for (uint32_t i = 0; i < ONNX_FIXED_MAX; i++)
            if (unknown >> i & 1)
                memcpy(plan->fixed.value[i], w->fixed->value[i], ONNX_FIXED_BYTES);
        plan->fixed.inputs |= unknown;
        atomic_fetch_or(&model->fixed, unknown);
    }
}

enum bp_status onnx_plan_new(const struct bp_model *model, const struct onnx_wanted *w,
                             struct onnx_plan **out_plan)
{
    struct onnx_plan *plan = calloc(1, sizeof *plan);
    enum bp_status status;

    if (!plan) return onnx_no_memory();
    plan->refs = 1;
    plan->hash = types_hash(w->in, w->n_in);
    status = keep_types(plan, w->in, w->n_in);
    if (status == BP_OK && w->want) {
        plan->want = malloc(model->body.n_output + 1);
        if (plan->want) memcpy(plan->want, w->want, model->body.n_output);
        else status = onnx_no_memory();
    }
    if (status) plan_destroy((struct bp_model *)(uintptr_t)model, plan);
    else *out_plan = plan;
    return status;
}

enum bp_status onnx_plan_make(struct bp_model *model, struct onnx_wanted *w,
                              struct onnx_plan **out_plan)
{
    struct onnx_plan *plan;
    enum bp_status status;

    TRY(onnx_plan_new(model, w, &plan));
    status = w->want ? onnx_find_unneeded(model, w->want, &plan->skip) : BP_OK;
    if (status == BP_OK) {
        status = plan_record(model, w, plan);
        if (status == BP_ERR_UNSUPPORTED || status == BP_ERR_INVALID) {
            snprintf(plan->why, sizeof plan->why, "%s", bp_error_message());
            onnx_plan_drop_graph(model, plan); /* run node by node, which reports an error */
            status = BP_OK;
        }
    }
    if (status) plan_destroy(model, plan);
    else *out_plan = plan;
    return status;
}

/* Makes the plan, unless another thread has made it meanwhile. Called with the lock `planning`,
 * which guards the model's stream. */
static enum bp_status plan_make_once(struct bp_model *model, struct onnx_wanted *w,
                                     struct onnx_plan **out_plan)
{
    uint64_t fixed = w->fixes ? atomic_load(&model->fixed) & onnx_fixable(w->in, w->n_in) : 0;

    if (!w->stream && w->fixes) {
        TRY(bp_device_synchronize(model->device));
        w->stream = model->stream;
    }
    if (fixed) TRY(onnx_fixed_read(w->stream, w->in, w->n_in, fixed, w->fixed));
    if ((*out_plan = find_kept(model, w))) return BP_OK;
    TRY(onnx_line_plan(model, w, out_plan));
    if (!*out_plan) TRY(onnx_plan_make(model, w, out_plan));
    plan_keep(model, *out_plan);
    if ((*out_plan)->derived) plan_shrink(model);
    return BP_OK;
}

enum bp_status onnx_plan_find(struct bp_model *model, const struct onnx_use *use,
                              struct bp_stream *stream, bool fixes,
                              const struct bp_model_value *in, size_t n_in, const uint8_t *want,
                              struct onnx_plan **out_plan)
{
    struct onnx_fixed known; /* its values are not initialised: that would take time in each run */
    struct onnx_wanted w = {stream, use, in, n_in, want, fixes, &known, false,
                            types_hash(in, n_in)};
    uint64_t fixed = fixes && stream ? atomic_load(&model->fixed) : 0;
    struct onnx_plan *plan;
    enum bp_status status = BP_OK;

    known.inputs = 0;
    if (fixed) TRY(onnx_fixed_read(stream, in, n_in, fixed & onnx_fixable(in, n_in), &known));
    plan = find_kept(model, &w);
    if (!plan) {
        pthread_mutex_lock(&model->planning);
        status = plan_make_once(model, &w, &plan);
        pthread_mutex_unlock(&model->planning);
    }
    if (status == BP_OK) *out_plan = plan;
    return status;
}

enum bp_status onnx_plan_record(struct bp_model *model, const struct onnx_use *use,
                                struct bp_stream *stream, bool keeps_ranges,
                                const struct bp_model_value *in, size_t n_in,
                                struct onnx_plan **out_plan)
{
    struct onnx_fixed known;
    struct onnx_wanted w = {stream, use, in, n_in, NULL, true, &known, keeps_ranges, 0};
    enum bp_status status;

    known.inputs = 0;
    pthread_mutex_lock(&model->planning);
    status = onnx_plan_make(model, &w, out_plan);
    pthread_mutex_unlock(&model->planning);
    return status;
}
