/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs a compiled sub-graph on ONNX Runtime's own buffers. Each run that is under way has a
 * runner: a stream, and tensors that are moved to the buffers. Runners are kept for later runs. */
#include "ort.h"

#include <stdlib.h>
#include <string.h>

enum { RUNNER_KNOWN = 8 }; /* sets of input types whose output types a runner remembers */

struct port_type {
    uint32_t dtype, rank;
    int64_t shape[BP_RANK_MAX];
};

/* The types of the outputs, for one set of input types. */
struct known {
    struct port_type *type; /* inputs, then outputs; NULL: the entry is free */
    bool is_fixed;          /* the output types follow from the input types */
};

struct ort_runner {
    struct ort_runner *next;
    struct bp_stream *stream;
    struct bridge_wraps wraps;
    struct port_type *type;        /* of the inputs of the run, then of the outputs */
    struct bp_tensor **in, **out;
    struct known known[RUNNER_KNOWN];
    uint32_t n_known;              /* entries that were made, in turn */
};

struct ort_runner *ort_runner_next(const struct ort_runner *runner)
{
    return runner->next;
}

void ort_runner_destroy(struct ort_runner *runner)
{
    if (!runner) return;
    bridge_wraps_finish(&runner->wraps);
    bp_stream_destroy(runner->stream);
    for (int i = 0; i < RUNNER_KNOWN; i++) free(runner->known[i].type);
    free(runner->type);
    free(runner->in);
    free(runner->out);
    free(runner);
}

static struct ort_status *runner_create(const struct ort_unit *unit, struct ort_runner **out)
{
    struct ort_runner *runner = calloc(1, sizeof *runner);
    size_t ports = (size_t)unit->n_in + unit->n_out + 1;
    enum bp_status status;

    if (!runner) return ort_no_memory();
    runner->type = calloc(ports, sizeof *runner->type);
    runner->in = calloc(unit->n_in + 1, sizeof *runner->in);
    runner->out = calloc(unit->n_out + 1, sizeof *runner->out);
    status = runner->type && runner->in && runner->out ? BP_OK : BP_ERR_MEMORY;
    if (status == BP_OK) status = bridge_wraps_init(&runner->wraps, unit->ep->offer->memory);
    if (status == BP_OK) status = bp_stream_create(unit->ep->offer->device, &runner->stream);
    if (status) {
        ort_runner_destroy(runner);
        return ort_failure(status);
    }
    *out = runner;
    return NULL;
}

static struct ort_status *runner_take(struct ort_unit *unit, struct ort_runner **out)
{
    struct ort_runner *runner;

    pthread_mutex_lock(&unit->lock);
    runner = unit->idle;
    if (runner) unit->idle = runner->next;
    pthread_mutex_unlock(&unit->lock);
    if (!runner) return runner_create(unit, out);
    *out = runner;
    return NULL;
}

static void runner_give_back(struct ort_unit *unit, struct ort_runner *runner)
{
    pthread_mutex_lock(&unit->lock);
    runner->next = unit->idle;
    unit->idle = runner;
    pthread_mutex_unlock(&unit->lock);
}

/* --- inputs --- */

static struct ort_status *type_read(const struct ort_value *value, struct port_type *out)
{
    struct ort_tensor_type *type = NULL;
    struct ort_status *status;
    const int64_t *shape = NULL;
    int32_t element = 0;
    size_t rank = 0;

    if (ort.value_type_reference) TRY(ort.value_type_reference(value, &element, &shape, &rank));
    else {
        TRY(ort.value_tensor_type(value, &type));
        status = ort.tensor_type_element(type, &element);
        if (!status) status = ort.tensor_type_rank(type, &rank);
        if (!status && rank <= BP_RANK_MAX)
            status = ort.tensor_type_shape(type, out->shape, rank);
        ort.tensor_type_release(type);
        TRY(status);
    }
    out->dtype = bridge_dtype_of_onnx(element);
    if (rank > BP_RANK_MAX || out->dtype == UINT32_MAX)
        return ort_error(ORT_NOT_IMPLEMENTED, "Backplane: an input has %zu axes and element type "
                         "%d", rank, element);
    out->rank = (uint32_t)rank;
    if (shape && rank) memcpy(out->shape, shape, rank * sizeof *shape);
    if (rank < BP_RANK_MAX) /* types are compared as bytes */
        memset(out->shape + rank, 0, (BP_RANK_MAX - rank) * sizeof *out->shape);
    return NULL;
}

static struct ort_status *wrap_at(struct ort_runner *runner, const void *data,
                                  const struct port_type *type, struct bp_tensor **out)
{
    enum bp_status status = bridge_wrap(&runner->wraps, data, type->dtype, type->rank, type->shape,
                                        out);

    return status ? ort_failure(status) : NULL;
}

static struct ort_status *runner_inputs(struct ort_runner *runner, const struct ort_unit *unit,
                                        struct ort_context *context)
{
    for (uint32_t i = 0; i < unit->n_in; i++) {
        const struct ort_value *value = NULL;
        const void *data = NULL;
        TRY(ort.context_input(context, unit->from[i], &value));
        if (!value) return ort_error(ORT_INVALID_ARGUMENT, "Backplane: input %u is absent", i);
        TRY(type_read(value, &runner->type[i]));
        TRY(ort.tensor_data(value, &data));
        TRY(wrap_at(runner, data, &runner->type[i], &runner->in[i]));
    }
    return NULL;
}

/* --- outputs --- */

/* Lets ONNX Runtime allocate an output. */
static struct ort_status *output_make(struct ort_context *context, uint32_t i,
                                      const struct port_type *type, void **out_data)
{
    struct ort_value *value = NULL;

    TRY(ort.context_output(context, i, type->shape, type->rank, &value));
    if (!value) return ort_error(ORT_FAIL, "Backplane: output %u was not allocated", i);
    return ort.tensor_data_mutable(value, out_data);
}

static const struct known *known_find(const struct ort_runner *runner, const struct ort_unit *unit)
{
    for (int i = 0; i < RUNNER_KNOWN; i++) {
        const struct known *k = &runner->known[i];
        if (k->type && !memcmp(k->type, runner->type, unit->n_in * sizeof *k->type)) return k;
    }
    return NULL;
}

/* Remembers the types of the outputs. */
static void known_add(struct ort_runner *runner, const struct ort_unit *unit)
{
    size_t size = ((size_t)unit->n_in + unit->n_out + 1) * sizeof(struct port_type);
    struct known *k = &runner->known[runner->n_known % RUNNER_KNOWN];
    struct bp_graph *graph = NULL;

    if (bp_model_planned(unit->model, runner->in, unit->n_in, &graph)) return;
    if (!k->type) k->type = malloc(size);
    if (!k->type) return;
    memcpy(k->type, runner->type, size);
    k->is_fixed = graph != NULL;
    runner->n_known++;
}

/* Runs with outputs in ONNX Runtime's memory, whose types are known. */
static struct ort_status *runner_run_into(struct ort_runner *runner, const struct ort_unit *unit,
                                          struct bp_stream *stream, struct ort_context *context,
                                          const struct port_type *type)
{
    enum bp_status status;

    for (uint32_t i = 0; i < unit->n_out; i++) {
        void *data = NULL;
        TRY(output_make(context, i, &type[i], &data));
        TRY(wrap_at(runner, data, &type[i], &runner->out[i]));
    }
    status = bp_model_run_into(unit->model, stream, runner->in, unit->n_in, runner->out, NULL,
                               unit->n_out);
    return status ? ort_failure(status) : NULL;
}

/* Copies an output to ONNX Runtime's memory. */
static struct ort_status *output_copy(struct ort_runner *runner, struct bp_stream *stream,
                                      struct ort_context *context, uint32_t i,
                                      struct port_type *type)
{
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_tensor_get_info(runner->out[i], &info);
    struct bp_tensor *to;
    void *data = NULL;

    if (status) return ort_failure(status);
    *type = (struct port_type){.dtype = info.dtype, .rank = info.rank};
    if (info.rank) memcpy(type->shape, info.shape, info.rank * sizeof *info.shape);
    TRY(output_make(context, i, type, &data));
    if (!info.count) return NULL;
    TRY(wrap_at(runner, data, type, &to));
    status = bp_tensor_copy(stream, to, runner->out[i]);
    return status ? ort_failure(status) : NULL;
}

/* Runs with outputs in new memory, because their types are not known before, and copies them. */
static struct ort_status *runner_run_new(struct ort_runner *runner, const struct ort_unit *unit,
                                         struct bp_stream *stream, struct ort_context *context)
{
    struct ort_status *failed = NULL;
    enum bp_status status;

    status = bp_model_run(unit->model, stream, runner->in, unit->n_in, runner->out, unit->n_out);
    if (status) return ort_failure(status);
    for (uint32_t i = 0; i < unit->n_out && !failed; i++)
        failed = output_copy(runner, stream, context, i, &runner->type[unit->n_in + i]);
    for (uint32_t i = 0; i < unit->n_out; i++) bp_tensor_destroy(runner->out[i]);
    return failed;
}

static struct ort_status *runner_run(struct ort_runner *runner, struct ort_unit *unit,
                                     struct ort_context *context)
{
    struct bp_stream *stream = runner->stream;
    enum bp_status status = BP_OK;
    const struct known *k;
    void *handle = NULL;

    if (unit->ep->offer->info) TRY(ort.context_stream(context, &handle));
    if (handle) stream = handle;
    bridge_wraps_begin(&runner->wraps);
    TRY(runner_inputs(runner, unit, context));
    k = known_find(runner, unit);
    if (k && k->is_fixed)
        TRY(runner_run_into(runner, unit, stream, context, k->type + unit->n_in));
    else TRY(runner_run_new(runner, unit, stream, context));
    if (!k) known_add(runner, unit);
    if (!handle) status = bp_stream_synchronize(stream);
    return status ? ort_failure(status) : NULL;
}

struct ort_status *ort_unit_run(struct ort_unit *unit, struct ort_context *context)
{
    struct ort_runner *runner = NULL;
    struct ort_status *status;

    TRY(ort_unit_check(unit, context));
    TRY(runner_take(unit, &runner));
    status = runner_run(runner, unit, context);
    if (status) ort_runner_destroy(runner); /* its stream may have failed */
    else runner_give_back(unit, runner);
    return status;
}
