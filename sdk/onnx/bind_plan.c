/* SPDX-License-Identifier: Apache-2.0 */
/* bind_plan.c: finds or makes the plan of a run of a bound model. The first of these that is
 * possible: a graph that serves every length of the past, a graph for this length that writes the
 * caches in place, a run that copies the caches. */
#include "bind_graph.h"
#include "row.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void onnx_bind_plan_destroy(struct bp_model *model, struct onnx_bind_plan *plan)
{
    if (!plan) return;
    for (uint32_t i = 0; plan->room && i < model->body.n_input; i++)
        bp_tensor_destroy(plan->room[i]);
    onnx_plan_release(model, plan->plan);
    free(plan->room);
    free(plan->axis);
    free(plan);
}

/* Whether an input has the type for which a plan is, behind another length of the past. */
static bool bind_fits_input(const struct bp_model_port *type, const struct bp_model_value *in,
                            uint32_t axis, int64_t longer)
{
    struct bp_tensor_info info;

    if (in->kind != type->kind) return false;
    if (in->kind != BP_MODEL_TENSOR) return true;
    info = onnx_info(in->at[0]);
    if (info.dtype != type->dtype || info.rank != type->rank) return false;
    for (uint32_t k = 0; k < info.rank; k++)
        if (info.shape[k] != type->shape[k] + (k == axis ? longer : 0)) return false;
    return true;
}

static bool bind_fits_plan(const struct onnx_request *r, const struct onnx_bind_plan *plan,
                           int64_t past)
{
    if (!plan || (plan->any ? !past : plan->at != past)) return false;
    for (uint32_t i = 0; i < r->n_in; i++)
        if (!onnx_bind_input(r->model->bind, i) &&
            !bind_fits_input(&plan->plan->type[i], &r->in[i], plan->axis[i], past - plan->at))
            return false;
    return true;
}

/* Finds how many places a run adds: the outputs that are bound have as many more than the inputs,
 * and the other extents of the inputs. */
static enum bp_status bind_added(const struct onnx_request *r, const struct onnx_plan *recorded,
                                 int64_t past, int64_t *out_added)
{
    const struct onnx_bind *bind = r->model->bind;

    for (uint32_t i = 0; i < bind->n; i++) {
        const struct onnx_bind_pair *pair = &bind->pair[i];
        const struct onnx_value *v = recorded->output[pair->output];
        struct bp_tensor_info in = onnx_info(r->in[pair->input].at[0]), out = {.rank = 0};
        int64_t added = -1;
        bool fits = v && v->kind == BP_MODEL_TENSOR;
        if (fits) out = onnx_info(v->tensor);
        fits = fits && out.rank == in.rank && out.dtype == in.dtype;
        for (uint32_t k = 0; fits && k < in.rank; k++)
            fits = k == pair->axis || in.shape[k] == out.shape[k];
        if (fits) added = out.shape[pair->axis] - past;
        if (added < 0 || (i && added != *out_added))
            return onnx_error(BP_ERR_INVALID,
                              "output %.80s is bound to input %.80s, and has other "
                              "extents than the input with new places along axis %u",
                              r->model->output[pair->output].name,
                              r->model->input[pair->input].name, pair->axis);
        *out_added = added;
    }
    return BP_OK;
}

/* Whether axis k of an input that is not bound grows with the caches: the model leaves the extent
 * open, and it is the length of the caches after the run. Not if the extent has the name of another
 * axis of a cache, as the batch has. */
static bool bind_axis_grows(const struct bp_model *model, uint32_t input, uint32_t k,
                            const struct bp_tensor_info *info, int64_t length)
{
    const struct bp_model_port *port = &model->input[input];

    if (port->rank != info->rank || port->shape[k] >= 0 || info->shape[k] != length) return false;
    for (uint32_t i = 0; i < model->bind->n; i++) {
        const struct onnx_bind_pair *pair = &model->bind->pair[i];
        const struct bp_model_port *cache = &model->input[pair->input];
        for (uint32_t c = 0; c < cache->rank; c++)
            if (c != pair->axis && *cache->extent_name[c] &&
                !strcmp(cache->extent_name[c], port->extent_name[k]))
                return false;
    }
    return true;
}

static enum bp_status bind_find_axes(const struct onnx_request *r, struct onnx_bind_plan *plan)
{
    for (uint32_t i = 0; i < r->n_in; i++) {
        struct bp_tensor_info info;
        plan->axis[i] = BUILD_NONE;
        if (onnx_bind_input(r->model->bind, i) || r->in[i].kind != BP_MODEL_TENSOR) continue;
        info = onnx_info(r->in[i].at[0]);
        for (uint32_t k = 0; k < info.rank; k++)
            if (bind_axis_grows(r->model, i, k, &info, plan->at + plan->added)) plan->axis[i] = k;
    }
    return BP_OK;
}

/* Records the model behind another length of the past. */
static enum bp_status bind_record(const struct onnx_request *r, const struct onnx_use *use,
                                  const struct onnx_bind_plan *plan, int64_t past,
                                  struct onnx_plan **out_recorded)
{
    struct bp_model_value *in = calloc(r->n_in + 1, sizeof *in);
    struct bp_tensor **own = calloc(r->n_in + 1, sizeof *own);
    enum bp_status status = in && own ? BP_OK : onnx_no_memory();

    for (uint32_t i = 0; i < r->n_in && status == BP_OK; i++) {
        const struct onnx_bind_pair *pair = onnx_bind_input(r->model->bind, i);
        uint32_t axis = pair ? pair->axis : plan->axis[i];
        struct bp_tensor_info info;
        int64_t shape[ONNX_RANK_MAX];
        in[i] = r->in[i];
        if (axis == BUILD_NONE) continue;
        info = onnx_info(r->in[i].at[0]);
        memcpy(shape, info.shape, info.rank * sizeof *shape);
        shape[axis] = pair ? past : past + plan->added;
        status = onnx_bind_zeros(r->stream, info.dtype, info.rank, shape, &own[i]);
        in[i].at = &own[i];
    }
    if (status == BP_OK)
        status = onnx_plan_record(r->model, use, r->stream, true, in, r->n_in, out_recorded);
    for (uint32_t i = 0; own && i < r->n_in; i++) bp_tensor_destroy(own[i]);
    free(own);
    free(in);
    return status;
}

static bool bind_is_graph(const struct onnx_plan *recorded)
{
    return recorded->graph && !recorded->fixed.inputs;
}

/* Makes a graph that serves every length of the past. */
static enum bp_status bind_make_any(const struct onnx_request *r, const struct onnx_use *use,
                                    const struct onnx_bind_plan *plan, struct onnx_plan **out_plan)
{
    struct onnx_plan *recorded[BUILD_RECORDINGS] = {NULL};
    struct build b = {.model = r->model,
                      .stream = r->stream,
                      .any = true,
                      .past = BUILD_PAST,
                      .added = plan->added,
                      .step = {0, 1, 1 - BUILD_PAST,
                               r->model->bind->capacity - plan->added - BUILD_PAST}};
    enum bp_status status = BP_OK;

    for (int k = 0; k < BUILD_RECORDINGS && status == BP_OK; k++) {
        status = bind_record(r, use, plan, BUILD_PAST + b.step[k], &recorded[k]);
        if (status == BP_OK && !bind_is_graph(recorded[k]))
            status = onnx_error(BP_ERR_UNSUPPORTED, "its nodes depend on data");
        if (status == BP_OK) b.from[k] = recorded[k]->graph;
    }
    if (status == BP_OK) status = onnx_build(&b, recorded, plan->axis, out_plan);
    for (int k = 0; k < BUILD_RECORDINGS; k++) onnx_plan_release(r->model, recorded[k]);
    return status;
}

/* Makes a graph for one length of the past. */
static enum bp_status bind_make_one(const struct onnx_request *r, const struct onnx_bind_plan *plan,
                                    struct onnx_plan *recorded, struct onnx_plan **out_plan)
{
    struct build b = {.model = r->model,
                      .stream = r->stream,
                      .from = {recorded->graph},
                      .past = plan->at,
                      .added = plan->added};

    return onnx_build(&b, &recorded, plan->axis, out_plan);
}

/* Creates the tensors of inputs that grow. */
static enum bp_status bind_make_room(const struct onnx_request *r, struct onnx_bind_plan *plan)
{
    for (uint32_t i = 0; i < r->n_in; i++) {
        struct bp_tensor_info info;
        int64_t shape[ONNX_RANK_MAX];
        if (plan->axis[i] == BUILD_NONE) continue;
        info = onnx_info(r->in[i].at[0]);
        memcpy(shape, info.shape, info.rank * sizeof *shape);
        shape[plan->axis[i]] = r->model->bind->capacity;
        TRY(onnx_bind_zeros(r->stream, info.dtype, info.rank, shape, &plan->room[i]));
    }
    return BP_OK;
}

/* Whether another kind of plan is to be tried. */
static bool bind_tries_on(enum bp_status status)
{
    return status == BP_ERR_UNSUPPORTED || status == BP_ERR_INVALID || status == BP_ERR_NO_KERNEL;
}

/* Makes a plan for which the recording at this length is known. */
static enum bp_status bind_make_best(const struct onnx_request *r, const struct onnx_use *use,
                                     struct onnx_bind_plan *plan, struct onnx_plan *recorded)
{
    struct onnx_plan *made = NULL;
    enum bp_status status = BP_ERR_UNSUPPORTED;

    if (!bind_is_graph(recorded)) return BP_OK;
    TRY(bind_added(r, recorded, plan->at, &plan->added));
    TRY(bind_find_axes(r, plan));
    if (plan->at + plan->added > r->model->bind->capacity) return BP_OK; /* the caller makes room */
    if (plan->at && plan->added != r->model->bind->refused)
        status = bind_make_any(r, use, plan, &made);
    if (bind_tries_on(status) && plan->at) r->model->bind->refused = plan->added;
    if (plan->at && status == BP_OK) {
        plan->any = true;
        status = bind_make_room(r, plan);
    } else if (bind_tries_on(status)) {
        for (uint32_t i = 0; i < r->n_in; i++) plan->axis[i] = BUILD_NONE;
        status = bind_make_one(r, plan, recorded, &made);
    }
    if (bind_tries_on(status)) { /* runs copy the caches */
        if (made) onnx_plan_release(r->model, made);
        plan->any = false;
        return BP_OK;
    }
    if (!made) return status;
    made->type = recorded->type; /* the types of the model's inputs */
    made->n_type = recorded->n_type;
    recorded->type = NULL;
    recorded->n_type = 0;
    plan->plan = made;
    return status;
}

static enum bp_status bind_make(const struct onnx_request *r, const struct onnx_use *use,
                                int64_t past, struct onnx_bind_plan *plan)
{
    struct onnx_plan *recorded = NULL;
    enum bp_status status;

    plan->at = past;
    plan->axis = calloc(r->n_in + 1, sizeof *plan->axis);
    plan->room = calloc(r->n_in + 1, sizeof *plan->room);
    if (!plan->axis || !plan->room) return onnx_no_memory();
    for (uint32_t i = 0; i < r->n_in; i++) plan->axis[i] = BUILD_NONE;
    TRY(onnx_plan_record(r->model, use, r->stream, false, r->in, r->n_in, &recorded));
    status = bind_make_best(r, use, plan, recorded);
    if (status == BP_OK && !plan->plan) {
        onnx_plan_drop_graph(r->model, recorded);
        plan->plan = recorded;
        return BP_OK;
    }
    onnx_plan_release(r->model, recorded);
    return status;
}

enum bp_status onnx_bind_plan(const struct onnx_request *r, const struct onnx_use *use,
                              int64_t past, struct onnx_bind_plan **out_plan)
{
    struct onnx_bind *bind = r->model->bind;
    struct onnx_bind_plan **place = &bind->plan[0], *plan;
    enum bp_status status;

    for (int i = 0; i < ONNX_PLANS; i++) {
        if (bind_fits_plan(r, bind->plan[i], past)) {
            bind->plan[i]->used = ++bind->uses;
            *out_plan = bind->plan[i];
            return BP_OK;
        }
        if (*place && (!bind->plan[i] || bind->plan[i]->used < (*place)->used))
            place = &bind->plan[i];
    }
    plan = calloc(1, sizeof *plan);
    if (!plan) return onnx_no_memory();
    status = bind_make(r, use, past, plan);
    if (status) {
        onnx_bind_plan_destroy(r->model, plan);
        return status;
    }
    onnx_bind_plan_destroy(r->model, *place);
    plan->used = ++bind->uses;
    bind->plans++;
    *place = *out_plan = plan;
    return BP_OK;
}
