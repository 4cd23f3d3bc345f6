/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: loads a model, and describes its inputs, outputs and state. */
#include "bind.h"
#include "plan.h"
#include "resolve.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STRUCT_MAX = 65536 }; /* a size field with a larger number is invalid */

/* Reads the kind, dtype and shape of a port from its declared type. */
static enum bp_status read_type(const Onnx__TypeProto *type, struct bp_model_port *port)
{
    const Onnx__TypeProto__Tensor *t;
    const char **name;
    int64_t *shape;

    for (; type; port->kind = port->kind ? port->kind : BP_MODEL_SEQUENCE) {
        if (type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) break;
        if (type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE) {
            port->kind = BP_MODEL_OPTIONAL;
            type = type->optional_type->elem_type;
        } else if (type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE)
            type = type->sequence_type->elem_type;
        else return onnx_error(BP_ERR_UNSUPPORTED, "%.80s is no tensor, sequence or optional",
                               port->name);
    }
    if (!port->kind) port->kind = BP_MODEL_TENSOR;
    if (!type) return BP_OK;
    t = type->tensor_type;
    port->dtype = onnx_dtype(t->elem_type);
    if (t->elem_type && port->dtype == ONNX_NO_DTYPE)
        return onnx_error(BP_ERR_UNSUPPORTED, "%.80s: element type %d%s is not supported",
                          port->name, t->elem_type, onnx_type_words(t->elem_type));
    if (!t->shape || port->kind != BP_MODEL_TENSOR) return BP_OK;
    if (t->shape->n_dim > ONNX_RANK_MAX)
        return onnx_error(BP_ERR_UNSUPPORTED, "%.80s: %zu axes, at most %d", port->name,
                          t->shape->n_dim, ONNX_RANK_MAX);
    shape = calloc(t->shape->n_dim + 1, sizeof *shape + sizeof *name);
    if (!shape) return onnx_no_memory();
    name = (const char **)(shape + t->shape->n_dim); /* in the same allocation */
    port->shape = shape;
    port->extent_name = name;
    port->rank = (uint32_t)t->shape->n_dim;
    for (uint32_t i = 0; i < port->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *d = t->shape->dim[i];
        bool known = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        bool named = d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        shape[i] = known && d->dim_value >= 0 ? d->dim_value : -1;
        name[i] = named ? onnx_text(d->dim_param) : "";
    }
    return BP_OK;
}

static enum bp_status read_port(const Onnx__ValueInfoProto *from, struct bp_model_port *port)
{
    *port = (struct bp_model_port){.size = sizeof *port, .name = onnx_text(from->name),
                                   .dtype = ONNX_NO_DTYPE, .rank = UINT32_MAX};
    return read_type(from->type, port);
}

/* Reads the inputs for which the model has no value, and all outputs. */
static enum bp_status read_ports(struct bp_model *model)
{
    const Onnx__GraphProto *g = model->proto->graph;

    model->input = calloc(model->body.n_input + 1, sizeof *model->input);
    model->output = calloc(g->n_output + 1, sizeof *model->output);
    if (!model->input || !model->output) return onnx_no_memory();
    for (uint32_t i = 0; i < model->body.n_input; i++)
        TRY(read_port(model->body.declared[i], &model->input[i]));
    for (size_t i = 0; i < g->n_output; i++) {
        struct bp_model_port *port = &model->output[i];
        if (read_port(g->output[i], port)) { /* a bad declaration is ignored */
            free((void *)port->shape);
            *port = (struct bp_model_port){.size = sizeof *port, .rank = UINT32_MAX,
                                           .dtype = ONNX_NO_DTYPE,
                                           .name = onnx_text(g->output[i]->name)};
        }
    }
    return BP_OK;
}

static enum bp_status model_prepare(struct bp_model *model)
{
    model->use = onnx_use_begin(model);
    TRY(bp_stream_create(model->device, &model->stream));
    TRY(onnx_resolve(model));
    TRY(read_ports(model));
    return onnx_weights(model);
}

/* Loads the model from the bytes of its file. */
static enum bp_status model_load(struct bp_model *model, const void *data, size_t size,
                                 bool is_mapped)
{
    enum bp_status status;

    model->bytes = data;
    model->n_bytes = size;
    model->is_mapped = is_mapped;
    status = onnx_unpack_model(data, size, &model->proto);
    if (status == BP_OK) status = model_prepare(model);
    onnx_return_all(model);
    onnx_reload_finish(model);
    model->options.folder = NULL; /* owned by the caller */
    model->options.share = NULL;
    model->options.constant = NULL;
    model->options.n_constant = 0;
    return status;
}

static struct bp_model *new_model(struct bp_device *device, const struct bp_model_options *options)
{
    struct bp_model *model = calloc(1, sizeof *model);

    if (!model) return NULL;
    model->magic = ONNX_MAGIC;
    pthread_mutex_init(&model->planning, NULL);
    pthread_mutex_init(&model->lock, NULL);
    model->last.host_node = "";
    snprintf(model->last.reason, sizeof model->last.reason, "it has not been run");
    model->device = device;
    model->core = bp_device_core(device);
    if (options) {
        size_t size = options->size < sizeof *options ? options->size : sizeof *options;
        memcpy(&model->options, options, size);
    }
    if (!model->options.cache) return model;
    model->options.cache = strdup(model->options.cache);
    if (model->options.cache) return model;
    bp_model_destroy(model);
    return NULL;
}

static enum bp_status model_done(struct bp_model *model, enum bp_status status,
                                 struct bp_model **out_model)
{
    if (status == BP_OK) *out_model = model;
    else bp_model_destroy(model);
    return status;
}

enum bp_status onnx_check_model(const char *call, const struct bp_model *model)
{
    if (onnx_is_model(model)) return BP_OK;
    return onnx_error(BP_ERR_INVALID, "%s: expected a model, got %s", call,
                      model ? "another handle, or none" : "NULL");
}

static enum bp_status check_flags(const char *call, const struct bp_model_options *options)
{
    const uint32_t known = BP_PROGRAM_FLAGS;
    size_t end = offsetof(struct bp_model_options, program_zero) + sizeof(uint32_t);

    if (!options || options->size < end) return BP_OK;
    if (!(options->program_flags & ~known) && !options->program_zero) return BP_OK;
    return onnx_error(BP_ERR_INVALID, "%s: options->program_flags is %u, program_zero %u: expected "
                      "flags of enum bp_program_flags and 0", call, options->program_flags,
                      options->program_zero);
}

static enum bp_status check_share(const char *call, struct bp_device *device,
                                  const struct bp_model_options *options)
{
    size_t end = offsetof(struct bp_model_options, share) + sizeof options->share;
    struct bp_model *share = options && options->size >= end ? options->share : NULL;

    if (!share) return BP_OK;
    if (!onnx_is_model(share))
        return onnx_error(BP_ERR_INVALID, "%s: options->share: expected a model, got another "
                          "handle, or none", call);
    if (share->device != device)
        return onnx_error(BP_ERR_INVALID, "%s: options->share is a model on %s, expected one on %s",
                          call, bp_device_name(share->device), bp_device_name(device));
    return BP_OK;
}

static enum bp_status check_load(const char *call, struct bp_device *device, const void *from,
                                 const struct bp_model_options *options,
                                 struct bp_model **out_model)
{
    if (!bp_device_core(device))
        return onnx_error(BP_ERR_INVALID, "%s: expected a device, got %s", call,
                          device ? "another handle, or none" : "NULL");
    if (!from || !out_model)
        return onnx_error(BP_ERR_INVALID, "%s: %s is NULL", call, from ? "out_model" : "the model");
    if (options && (options->size < 2 * sizeof(size_t) || options->size > STRUCT_MAX))
        return onnx_error(BP_ERR_INVALID, "%s: options->size is %zu: set it to sizeof(struct "
                          "bp_model_options)", call, options->size);
    TRY(check_flags(call, options));
    return check_share(call, device, options);
}

enum bp_status bp_model_load_memory(struct bp_device *device, const void *data, size_t size,
                                    const struct bp_model_options *options,
                                    struct bp_model **out_model)
{
    struct bp_model *model;
    enum bp_status status;

    TRY(check_load("bp_model_load_memory", device, data, options, out_model));
    model = new_model(device, options);
    if (!model) return onnx_no_memory();
    status = model_load(model, data, size, false);
    return model_done(model, status, out_model);
}

static enum bp_status load_file(struct bp_model *model, const char *path)
{
    enum bp_status status;
    size_t size;
    void *data;
    int file;

    TRY(onnx_file_map(path, &data, &size, &file));
    model->mapped = onnx_reload_file(model, file, path);
    close(file);
    status = model_load(model, data, size, true);
    onnx_file_unmap(data, size);
    return status;
}

enum bp_status bp_model_load(struct bp_device *device, const char *path,
                             const struct bp_model_options *options, struct bp_model **out_model)
{
    struct bp_model *model;
    enum bp_status status;
    char *folder;

    TRY(check_load("bp_model_load", device, path, options, out_model));
    model = new_model(device, options);
    folder = strdup(strchr(path, '/') ? path : "./");
    if (!model || !folder) {
        free(model);
        free(folder);
        return onnx_no_memory();
    }
    strrchr(folder, '/')[1] = 0;
    if (!model->options.folder) model->options.folder = folder;
    status = load_file(model, path);
    free(folder);
    return model_done(model, status, out_model);
}

static void finish_ports(struct bp_model_port *port, size_t n)
{
    for (size_t i = 0; port && i < n; i++) free((void *)port[i].shape);
    free(port);
}

void bp_model_destroy(struct bp_model *model)
{
    if (!onnx_is_model(model)) return;
    model->magic = 0;
    onnx_bind_destroy(model);
    onnx_lines_destroy(model);
    for (int i = 0; i < ONNX_PLANS + ONNX_DERIVED; i++) onnx_plan_release(model, model->plan[i]);
    for (uint32_t i = 0; model->constant && i < model->n_slot; i++)
        onnx_value_release(model->constant[i]);
    free(model->constant);
    free(model->hash);
    free(model->weight);
    if (model->proto && model->proto->graph) {
        finish_ports(model->input, model->body.n_input);
        finish_ports(model->output, model->proto->graph->n_output);
    }
    onnx_body_finish(&model->body);
    for (uint32_t i = 0; i < model->n_call; i++) free(model->call[i]);
    free(model->call);
    onnx_defaults_finish(model);
    if (model->proto) onnx__model_proto__free_unpacked(model->proto, NULL);
    bp_stream_destroy(model->stream);
    free((char *)(uintptr_t)model->options.cache);
    pthread_mutex_destroy(&model->planning);
    pthread_mutex_destroy(&model->lock);
    free(model);
}

uint32_t bp_model_inputs(struct bp_model *model)
{
    return onnx_is_model(model) ? model->body.n_input : 0;
}

uint32_t bp_model_outputs(struct bp_model *model)
{
    return onnx_is_model(model) ? model->body.n_output : 0;
}

enum bp_status onnx_fill_info(const char *call, void *out, const void *from, size_t size)
{
    size_t room = out ? *(size_t *)out : 0;

    if (room < 2 * sizeof room || room > STRUCT_MAX)
        return onnx_error(BP_ERR_INVALID, "%s: out is NULL, or its size field is not set to its "
                          "sizeof", call);
    if (room > size) room = size;
    memcpy(out, from, room);
    *(size_t *)out = room;
    return BP_OK;
}

static enum bp_status fill_port_info(const char *call, const struct bp_model_port *port, uint32_t n,
                                     uint32_t index, struct bp_model_port *out)
{
    if (index >= n)
        return onnx_error(BP_ERR_NOT_FOUND, "%s: there is no number %u, of %u", call, index, n);
    return onnx_fill_info(call, out, &port[index], sizeof *out);
}

enum bp_status bp_model_input(struct bp_model *model, uint32_t index, struct bp_model_port *out)
{
    TRY(onnx_check_model("bp_model_input", model));
    return fill_port_info("bp_model_input", model->input, model->body.n_input, index, out);
}

enum bp_status bp_model_output(struct bp_model *model, uint32_t index, struct bp_model_port *out)
{
    TRY(onnx_check_model("bp_model_output", model));
    return fill_port_info("bp_model_output", model->output, model->body.n_output, index, out);
}

/* Adds the facts of the run that ended last. Another run may replace them at any time, so the text
 * is a copy that belongs to the thread. */
static void add_last(struct bp_model *model, struct bp_model_info *info)
{
    static _Thread_local struct onnx_last last;

    pthread_mutex_lock(&model->lock);
    last = model->last;
    info->recorded = model->recorded;
    info->derived = model->derived;
    pthread_mutex_unlock(&model->lock);
    info->runs = last.runs;
    info->replays = last.replays;
    info->reason = last.reason;
    info->host_node = last.host_node;
    info->host_nodes = last.host_nodes;
}

enum bp_status bp_model_get_info(struct bp_model *model, struct bp_model_info *out)
{
    struct bp_model_info info = {.size = sizeof info};

    TRY(onnx_check_model("bp_model_get_info", model));
    onnx_describe(model, &info);
    info.nodes = model->n_node;
    info.weights = model->n_weight;
    info.weight_bytes = model->weight_bytes;
    info.shared_bytes = model->shared_bytes;
    onnx_reload_describe(model, &info);
    add_last(model, &info);
    return onnx_fill_info("bp_model_get_info", out, &info, sizeof info);
}

/* Finds or makes the plan for inputs of these types, which the model keeps. The caller releases
 * it. */
static enum bp_status model_plan(const char *call, struct bp_model *model,
                                 struct bp_tensor *const *in, size_t n_in, bool fixes,
                                 struct onnx_plan **out_plan)
{
    struct bp_model_value *value;
    struct onnx_use use;
    enum bp_status status = BP_OK;

    if (n_in != model->body.n_input)
        return onnx_error(BP_ERR_INVALID, "%s: %zu inputs given, the model has %u", call, n_in,
                          model->body.n_input);
    value = calloc(n_in + 1, sizeof *value);
    if (!value) return onnx_no_memory();
    for (size_t i = 0; i < n_in; i++) {
        value[i] = (struct bp_model_value){(struct bp_tensor **)&in[i], 1, BP_MODEL_TENSOR, 0};
        if (status == BP_OK) status = onnx_check_value(model, &model->input[i], &value[i]);
    }
    use = onnx_use_begin(model);
    if (status == BP_OK)
        status = onnx_plan_find(model, &use, NULL, fixes, value, n_in, NULL, out_plan);
    free(value);
    return status;
}

enum bp_status bp_model_planned(struct bp_model *model, struct bp_tensor *const *in, size_t n_in,
                                struct bp_graph **out_graph)
{
    struct onnx_plan *plan;

    TRY(onnx_check_model("bp_model_planned", model));
    if ((n_in && !in) || !out_graph)
        return onnx_error(BP_ERR_INVALID, "bp_model_planned: %s is NULL",
                          out_graph ? "in" : "out_graph");
    TRY(model_plan("bp_model_planned", model, in, n_in, false, &plan));
    *out_graph = plan->graph;
    onnx_plan_release(model, plan); /* the model keeps it */
    return BP_OK;
}

enum bp_status bp_model_program(struct bp_model *model, struct bp_tensor *const *in, size_t n_in,
                                struct bp_program **out_program)
{
    struct onnx_plan *plan;
    enum bp_status status = BP_OK;

    TRY(onnx_check_model("bp_model_program", model));
    if ((n_in && !in) || !out_program)
        return onnx_error(BP_ERR_INVALID, "bp_model_program: %s is NULL",
                          out_program ? "in" : "out_program");
    TRY(model_plan("bp_model_program", model, in, n_in, true, &plan));
    if (plan->shared) *out_program = plan->shared;
    else status = onnx_error(BP_ERR_UNSUPPORTED, "no program: %s", plan->why);
    onnx_plan_release(model, plan); /* the model keeps it */
    return status;
}
