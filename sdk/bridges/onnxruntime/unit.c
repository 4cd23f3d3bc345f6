/* SPDX-License-Identifier: Apache-2.0 */
/* unit.c: compiles a sub-graph: loads it as a model, whose large weights are tensors over ONNX
 * Runtime's own memory where the device reads that memory, and otherwise copies of them. */
#include "ort.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t unit_program_flags(const struct ort_options *o)
{
    return (o->tune ? BP_PROGRAM_TUNE : 0) |
           (strcmp(o->precision, "winograd") ? 0 : BP_PROGRAM_WINOGRAD);
}

static struct ort_status *unit_load(struct ort_unit *unit)
{
    const struct ort_options *wanted = &unit->ep->options;
    struct bp_model_options o = {.size = sizeof o,
                                 .any_shape = 1,
                                 .cache = *unit->cache ? unit->cache : NULL,
                                 .program_flags = unit_program_flags(wanted)};
    struct ort_offer *offer = unit->ep->offer;
    struct ort_writing *t = &unit->text;
    struct bp_model_constant *constant = calloc(t->n_weight + 1, sizeof *constant);
    enum bp_status status = BP_OK;
    size_t n = 0;

    if (!constant) return ort_no_memory();
    for (; n < t->n_weight && status == BP_OK; n++) {
        constant[n].name = t->weight[n].name;
        status = ort_weight_make(offer, &t->weight[n], &constant[n].tensor);
        if (status) break;
    }
    o.constant = constant;
    o.n_constant = n;
    if (status == BP_OK)
        status = bp_model_load_memory(offer->device, t->model.at, t->model.n, &o, &unit->model);
    for (size_t i = 0; i < n; i++) bp_tensor_destroy(constant[i].tensor);
    free(constant);
    return status ? ort_failure(status) : NULL;
}

/* The number of the fused node's input of this name; UINT32_MAX: it has none. */
static struct ort_status *input_find(const struct ort_value_info **input, size_t n,
                                     const char *name, uint32_t *out)
{
    const char *has;

    *out = UINT32_MAX;
    for (size_t i = 0; i < n && *out == UINT32_MAX; i++) {
        TRY(ort.value_info_name(input[i], &has));
        if (!strcmp(has, name)) *out = (uint32_t)i;
    }
    return NULL;
}

/* Finds the inputs of the fused node that are weights. Weights of files do not need them. */
static struct ort_status *unit_find_weights(struct ort_unit *unit,
                                            const struct ort_value_info **input, size_t n)
{
    for (size_t i = 0; i < unit->text.n_weight; i++) {
        struct ort_weight *w = &unit->text.weight[i];
        if (!w->file) TRY(input_find(input, n, w->name, &w->input));
    }
    return NULL;
}

/* Maps the inputs of the model to those of the fused node. */
static struct ort_status *unit_find_inputs(struct ort_unit *unit,
                                           const struct ort_value_info **input, size_t n)
{
    unit->n_in = bp_model_inputs(unit->model);
    unit->n_out = bp_model_outputs(unit->model);
    unit->from = calloc(unit->n_in + 1, sizeof *unit->from);
    if (!unit->from) return ort_no_memory();
    for (uint32_t i = 0; i < unit->n_in; i++) {
        struct bp_model_port port = {.size = sizeof port};
        enum bp_status status = bp_model_input(unit->model, i, &port);
        if (status) return ort_failure(status);
        TRY(input_find(input, n, port.name, &unit->from[i]));
        if (unit->from[i] == UINT32_MAX)
            return ort_error(ORT_FAIL, "Backplane: the fused node has no input %s", port.name);
    }
    return NULL;
}

static struct ort_status *unit_fill(struct ort_unit *unit, const struct ort_graph *graph,
                                    const struct ort_value_info **input, size_t n)
{
    const char *wanted = unit->ep->options.cache;

    TRY(ort_context_read(unit->ep, graph, &unit->text.model, unit->cache, sizeof unit->cache));
    if (!unit->text.model.n) {
        TRY(ort_write_graph(&unit->text, graph));
        TRY(unit_find_weights(unit, input, n));
        if (unit->ep->options.context_enable)
            TRY(ort_context_cache(unit->ep, graph, unit->cache, sizeof unit->cache));
    }
    if (*wanted) snprintf(unit->cache, sizeof unit->cache, "%s", wanted);
    TRY(unit_load(unit));
    return unit_find_inputs(unit, input, n);
}

static struct ort_status *unit_state_create(struct ort_compute *self,
                                            struct ort_node_context *context, void **out_state)
{
    (void)context;
    *out_state = self;
    return NULL;
}

static struct ort_status *unit_state_run(struct ort_compute *self, void *state,
                                         struct ort_context *context)
{
    (void)state;
    return ort_unit_run((struct ort_unit *)self, context);
}

static void unit_state_release(struct ort_compute *self, void *state)
{
    (void)self;
    (void)state;
}

struct ort_status *ort_unit_create(struct ort_provider *ep, const struct ort_graph *graph,
                                   const struct ort_node *fused, struct ort_unit **out)
{
    struct ort_unit *unit = calloc(1, sizeof *unit);
    const struct ort_value_info **input = NULL;
    struct ort_status *status;
    size_t n = 0;

    if (!unit) return ort_no_memory();
    unit->base = (struct ort_compute){ORT_SINCE, unit_state_create, unit_state_run,
                                      unit_state_release};
    unit->ep = ep;
    pthread_mutex_init(&unit->lock, NULL);
    status = ort.node_n_input(fused, &n);
    if (!status && !(input = calloc(n + 1, sizeof *input))) status = ort_no_memory();
    if (!status && n) status = ort.node_input(fused, input, n);
    if (!status) status = unit_fill(unit, graph, input, n);
    free(input);
    if (status) ort_unit_destroy(unit);
    else *out = unit;
    return status;
}

void ort_unit_destroy(struct ort_unit *unit)
{
    while (unit->idle) {
        struct ort_runner *runner = unit->idle;
        unit->idle = ort_runner_next(runner);
        ort_runner_destroy(runner);
    }
    bp_model_destroy(unit->model);
    ort_writing_finish(&unit->text);
    free(unit->from);
    pthread_mutex_destroy(&unit->lock);
    free(unit);
}

/* Compares the places of the weights with those that the model was loaded with. */
static struct ort_status *unit_moved(struct ort_unit *unit, struct ort_context *context,
                                     bool *out_moved)
{
    *out_moved = false;
    for (size_t i = 0; i < unit->text.n_weight; i++) {
        struct ort_weight *w = &unit->text.weight[i];
        const struct ort_value *value = NULL;
        const void *data = NULL;
        if (w->input == UINT32_MAX) continue;
        TRY(ort.context_input(context, w->input, &value));
        if (!value) /* its memory at the load may be gone */
            return ort_error(ORT_FAIL, "Backplane: the run has no value for the weight %.80s",
                             w->name);
        TRY(ort.tensor_data(value, &data));
        *out_moved |= data != w->data;
        w->data = data;
    }
    return NULL;
}

struct ort_status *ort_unit_check(struct ort_unit *unit, struct ort_context *context)
{
    struct ort_status *status = NULL;
    bool moved = false;

    pthread_mutex_lock(&unit->lock);
    if (!unit->is_checked && bridge_memory_is_host(unit->ep->offer->memory))
        status = unit_moved(unit, context, &moved);
    if (!status && (moved || !unit->model)) { /* no model: an earlier reload failed */
        ort_log(unit->ep->logger, ORT_INFO, "Backplane: the weights were moved; loaded again");
        bp_model_destroy(unit->model);
        unit->model = NULL;
        status = unit_load(unit);
    }
    if (!status && !unit->is_checked) {
        unit->is_checked = true;
        ort_writing_finish(&unit->text);
    }
    pthread_mutex_unlock(&unit->lock);
    return status;
}
