/* SPDX-License-Identifier: Apache-2.0 */
/* bind_graph.c: makes a graph that writes caches in place from recordings of a model. The buffers
 * are constants of the graph, so that a device can record its runs. */
#include "bind_graph.h"
#include "row.h"
#include <stdlib.h>
#include <string.h>

struct bp_tensor *onnx_build_keep(struct build *b, struct bp_tensor *t)
{
    struct bp_tensor **more = realloc(b->kept, (b->n_kept + 1) * sizeof *more);

    if (!more) {
        bp_tensor_destroy(t);
        return NULL;
    }
    b->kept = more;
    return more[b->n_kept++] = t;
}

enum bp_status onnx_build_call(struct build *b, const char *op, const void *attrs, size_t n,
                               struct bp_tensor *const *in, struct bp_tensor **out)
{
    struct bp_arg arg[8];
    struct bp_call call = {.size = sizeof call, .op = op, .in = arg, .n_in = n, .attrs = attrs};
    struct bp_tensor *made = NULL;

    for (size_t i = 0; i < n; i++) arg[i] = (struct bp_arg){&in[i], in[i] != NULL};
    TRY(bp_call_run(bp_graph_scope(b->to), &call, &made, 1, NULL));
    *out = onnx_build_keep(b, made);
    return *out ? BP_OK : onnx_no_memory();
}

enum bp_status onnx_build_number(struct build *b, int64_t number, struct bp_tensor **out)
{
    struct bp_tensor *t;

    TRY(onnx_put(b->stream, BP_I64, 0, NULL, &number, &t));
    *out = onnx_build_keep(b, t);
    return *out ? BP_OK : onnx_no_memory();
}

struct bp_value_info onnx_build_value(const struct build *b, int recording, uint32_t v)
{
    struct bp_value_info info = {.size = sizeof info};

    (void)bp_graph_value(b->from[recording], v, &info);
    return info;
}

struct bp_node_info onnx_build_node(const struct build *b, int recording, uint32_t n)
{
    struct bp_node_info info = {.size = sizeof info};

    (void)bp_graph_node(b->from[recording], n, &info);
    return info;
}

/* Adds an input that is not bound. An input that grows has room for all places. */
static enum bp_status build_input(struct build *b, uint32_t v, const struct bp_value_info *info,
                                  uint32_t axis)
{
    int64_t shape[ONNX_RANK_MAX];
    struct bp_tensor *t;

    if (b->any && b->value[v].axis != axis)
        return onnx_error(BP_ERR_UNSUPPORTED, "input %.80s grows along another axis", info->name);
    memcpy(shape, info->shape, info->rank * sizeof *shape);
    if (b->any && axis != BUILD_NONE) shape[axis] = b->model->bind->capacity;
    TRY(bp_graph_input(b->to, info->name, info->dtype, info->rank, shape, &t));
    b->value[v].t = onnx_build_keep(b, t);
    return b->value[v].t ? BP_OK : onnx_no_memory();
}

/* Adds the inputs and constants. The inputs of a recording are those of the model, in order. */
static enum bp_status build_values(struct build *b, const uint32_t *axis)
{
    const struct onnx_bind *bind = b->model->bind;
    struct bp_tensor *t;
    uint32_t input = 0;

    TRY(bp_graph_input(b->to, NULL, BP_I64, 0, NULL, &t));
    b->position = onnx_build_keep(b, t);
    if (!b->position) return onnx_no_memory();
    for (uint32_t v = 0; v < b->n_value; v++) {
        struct bp_value_info info = onnx_build_value(b, 0, v);
        b->value[v].axis = b->value[v].past = b->value[v].written = BUILD_NONE;
        if (info.rank > ONNX_RANK_MAX)
            return onnx_error(BP_ERR_UNSUPPORTED, "%.80s has %u axes", info.name, info.rank);
        if (info.kind == 1) b->value[v].t = info.constant;
        if (b->any) TRY(onnx_grow_value(b, v));
        if (info.kind != 0) continue;
        for (uint32_t p = 0; p < bind->n; p++)
            if (bind->pair[p].input == input) b->value[v].past = p;
        if (b->value[v].past == BUILD_NONE) TRY(build_input(b, v, &info, axis[input]));
        input++;
    }
    return BP_OK;
}

static enum bp_status build_nodes(struct build *b)
{
    for (uint32_t n = 0; n < b->n_node; n++) TRY(onnx_build_add(b, n));
    for (uint32_t p = 0; p < b->model->bind->n; p++)
        if (!b->written[p])
            return onnx_error(BP_ERR_UNSUPPORTED, "input %.80s: no node appends to it",
                              b->model->input[b->model->bind->pair[p].input].name);
    return BP_OK;
}

/* Returns the value that is output number `output` of the recorded graph. */
static enum bp_status build_output_value(const struct build *b, uint32_t output, uint32_t *out)
{
    for (uint32_t v = 0; v < b->n_value; v++)
        if (onnx_build_value(b, 0, v).output == output) {
            *out = v;
            return BP_OK;
        }
    return onnx_error(BP_ERR_UNSUPPORTED, "two outputs are one value");
}

/* Adds output number i of the model, which is output number `output` of the recording if it is
 * symbolic. */
static enum bp_status build_output(struct build *b, struct onnx_plan *plan, uint32_t i,
                                   const struct onnx_value *from, uint32_t output)
{
    const struct onnx_bind_pair *pair = onnx_bind_output(b->model->bind, i);
    const char *name = b->model->output[i].name;
    struct onnx_value *to;
    uint32_t v = 0;

    if (!from || from->kind != BP_MODEL_TENSOR || (!from->symbolic && (b->any || pair)))
        return onnx_error(BP_ERR_UNSUPPORTED, "output %.80s is no tensor that a run computes",
                          name);
    if (!from->symbolic) {
        plan->output[i] = onnx_value_retain((struct onnx_value *)from);
        return BP_OK;
    }
    TRY(build_output_value(b, output, &v));
    if (pair) {
        if (b->value[v].written == (uint32_t)(pair - b->model->bind->pair)) return BP_OK;
        return onnx_error(BP_ERR_UNSUPPORTED, "output %.80s is not its input with new places",
                          name);
    }
    if (!b->value[v].t || b->value[v].axis != BUILD_NONE)
        return onnx_error(BP_ERR_UNSUPPORTED, "output %.80s grows with the caches", name);
    TRY(bp_graph_output(b->to, b->value[v].t, NULL));
    to = calloc(1, sizeof *to);
    if (!to) return onnx_no_memory();
    atomic_init(&to->refs, 1);
    to->kind = BP_MODEL_TENSOR;
    to->symbolic = true;
    to->tensor = b->value[v].t;
    plan->output[i] = to;
    for (size_t k = 0; k < b->n_kept; k++) /* the output owns it */
        if (b->kept[k] == to->tensor) b->kept[k] = NULL;
    return BP_OK;
}

static enum bp_status build_outputs(struct build *b, const struct onnx_plan *recorded,
                                    struct onnx_plan *plan)
{
    uint32_t output = 0;

    plan->output = calloc(b->model->body.n_output + 1, sizeof *plan->output);
    if (!plan->output) return onnx_no_memory();
    for (uint32_t i = 0; i < b->model->body.n_output; i++) {
        const struct onnx_value *from = recorded->output[i];
        TRY(build_output(b, plan, i, from, output));
        output += from->symbolic;
    }
    return BP_OK;
}

static enum bp_status build_begin(struct build *b)
{
    struct bp_graph_info info = {.size = sizeof info}, other = {.size = sizeof other};

    TRY(bp_graph_get_info(b->from[0], &info));
    for (int i = 1; b->any && i < BUILD_RECORDINGS; i++) {
        TRY(bp_graph_get_info(b->from[i], &other));
        if (info.values != other.values || info.nodes != other.nodes)
            return onnx_error(BP_ERR_UNSUPPORTED, "the nodes depend on the length of the past");
    }
    b->n_value = info.values;
    b->n_node = info.nodes;
    b->value = calloc(info.values + 1, sizeof *b->value);
    b->written = calloc(b->model->bind->n + 1, sizeof *b->written);
    if (!b->value || !b->written) return onnx_no_memory();
    return bp_graph_create(b->model->core, &b->to);
}

enum bp_status onnx_build(struct build *b, struct onnx_plan *const *recorded, const uint32_t *axis,
                          struct onnx_plan **out_plan)
{
    struct onnx_plan *plan = calloc(1, sizeof *plan);
    enum bp_status status;

    if (!plan) return onnx_no_memory();
    plan->refs = 1;
    status = build_begin(b);
    if (status == BP_OK) status = build_values(b, axis);
    if (status == BP_OK) status = build_nodes(b);
    if (status == BP_OK) status = build_outputs(b, recorded[0], plan);
    if (status == BP_OK) status = onnx_program_create(b->model, b->to, &plan->shared);
    plan->graph = b->to;
    for (size_t i = 0; i < b->n_kept; i++) bp_tensor_destroy(b->kept[i]);
    free(b->kept);
    free(b->value);
    free(b->written);
    if (status) onnx_plan_release(b->model, plan);
    else *out_plan = plan;
    return status;
}
