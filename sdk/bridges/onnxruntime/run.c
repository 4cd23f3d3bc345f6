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

struct ort_runner {
    struct ort_runner *next;
    struct bp_stream *stream;
    struct bridge_wraps wraps;
    struct port_type *type;        /* of the inputs of the run, then of the outputs */
    struct bp_tensor **in, **out;
    struct bp_tensor **copy;       /* of each input: a copy on the device, or NULL */
    void **data;                   /* of each output: its memory in this run */
    bool *is_host;                 /* of each output: that is memory of the processor */
    struct bp_model_type *output;  /* of the model's outputs, as the library returns them */
    struct port_type *known[RUNNER_KNOWN]; /* types of inputs and of the outputs that follow */
    uint32_t n_known;                      /* entries that were made, in turn */
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
    for (int i = 0; i < RUNNER_KNOWN; i++) free(runner->known[i]);
    free(runner->type);
    free(runner->output);
    free(runner->data);
    free(runner->is_host);
    free(runner->in);
    free(runner->out);
    free(runner->copy);
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
    runner->data = calloc(unit->n_out + 1, sizeof *runner->data);
    runner->is_host = calloc(unit->n_out + 1, sizeof *runner->is_host);
    runner->output = calloc(unit->n_out + 1, sizeof *runner->output);
    runner->copy = calloc(unit->n_in + 1, sizeof *runner->copy);
    status = runner->type && runner->in && runner->out && runner->output && runner->copy &&
                     runner->data && runner->is_host
                 ? BP_OK
                 : bridge_no_memory();
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

    if (status == BP_ERR_NOT_FOUND)
        return ort_error(ORT_INVALID_ARGUMENT, "Backplane: a tensor lies at %p, which is no memory "
                         "of the device", data);
    return status ? ort_failure(status) : NULL;
}

/* Whether a value has to be copied: it lies in memory of the processor, and the device does not
 * read that; ONNX Runtime leaves some values between two sub-graphs there. Or its address, which an
 * app may choose, is no multiple of the element's size. */
static bool is_foreign(const struct ort_unit *unit, const struct ort_value *value, const void *data,
                       uint32_t dtype)
{
    uint32_t size = bp_dtype_bits(dtype) / 8;

    if (!unit->ep->offer->info) return size && (uintptr_t)data % size;
    return ort_offer_of(ort.value_device(value)) != unit->ep->offer;
}

/* Fails if a value lies in memory of another of our devices, whose addresses hold no memory. */
static struct ort_status *value_check_device(const struct ort_unit *unit,
                                             const struct ort_value *value)
{
    const struct ort_offer *of = ort_offer_of(ort.value_device(value));

    if (!of || of == unit->ep->offer) return NULL;
    return ort_error(ORT_INVALID_ARGUMENT, "Backplane: a tensor lies in memory of %s, but the "
                     "session runs on %s", of->name, unit->ep->offer->name);
}

/* Copies an input to the device. */
static enum bp_status input_copy(struct ort_runner *runner, const struct ort_unit *unit,
                                 struct bp_stream *stream, const void *data, uint32_t i)
{
    const struct port_type *type = &runner->type[i];
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_tensor_create(unit->ep->offer->device, type->dtype, type->rank,
                                             type->shape, &runner->copy[i]);

    if (status) return status;
    runner->in[i] = runner->copy[i];
    status = bp_tensor_get_info(runner->in[i], &info);
    if (status || !info.bytes) return status;
    return bp_tensor_write(stream, runner->in[i], data, info.bytes);
}

static struct ort_status *runner_inputs(struct ort_runner *runner, const struct ort_unit *unit,
                                        struct bp_stream *stream, struct ort_context *context)
{
    for (uint32_t i = 0; i < unit->n_in; i++) {
        const struct ort_value *value = NULL;
        const void *data = NULL;
        enum bp_status status;
        TRY(ort.context_input(context, unit->from[i], &value));
        if (!value) return ort_error(ORT_INVALID_ARGUMENT, "Backplane: input %u is absent", i);
        TRY(value_check_device(unit, value));
        TRY(type_read(value, &runner->type[i]));
        TRY(ort.tensor_data(value, &data));
        if (is_foreign(unit, value, data, runner->type[i].dtype)) {
            status = input_copy(runner, unit, stream, data, i);
            if (status) return ort_failure(status);
        } else TRY(wrap_at(runner, data, &runner->type[i], &runner->in[i]));
    }
    return NULL;
}

/* --- outputs --- */

/* Lets ONNX Runtime allocate an output. out_foreign: whether it lies in memory of the processor. */
static struct ort_status *output_make(const struct ort_unit *unit, struct ort_context *context,
                                      uint32_t i, const struct port_type *type, void **out_data,
                                      bool *out_foreign)
{
    struct ort_value *value = NULL;

    TRY(ort.context_output(context, i, type->shape, type->rank, &value));
    if (!value) return ort_error(ORT_FAIL, "Backplane: output %u was not allocated", i);
    TRY(value_check_device(unit, value));
    TRY(ort.tensor_data_mutable(value, out_data));
    *out_foreign = is_foreign(unit, value, *out_data, type->dtype);
    for (uint32_t k = 0; k < type->rank; k++)
        if (!type->shape[k]) return NULL; /* empty: without memory */
    if (*out_data) return NULL;
    return ort_error(ORT_RUNTIME_EXCEPTION, "Backplane: no memory for output %u: %s", i,
                     bp_error_message());
}

static const struct port_type *known_find(const struct ort_runner *runner,
                                          const struct ort_unit *unit)
{
    for (int i = 0; i < RUNNER_KNOWN; i++) {
        const struct port_type *k = runner->known[i];
        if (k && !memcmp(k, runner->type, unit->n_in * sizeof *k)) return k;
    }
    return NULL;
}

/* Finds the types of the outputs of this run, and remembers them if every run with these input
 * types has them. out_known: whether all are known. */
static struct ort_status *runner_output_types(struct ort_runner *runner,
                                              const struct ort_unit *unit,
                                              struct bp_stream *stream, bool *out_known)
{
    size_t ports = (size_t)unit->n_in + unit->n_out;
    const struct port_type *known = known_find(runner, unit);
    struct port_type *kept;
    uint32_t by_values = 0;
    enum bp_status status;

    *out_known = true;
    if (known) {
        memcpy(runner->type + unit->n_in, known + unit->n_in, unit->n_out * sizeof *known);
        return NULL;
    }
    status = bp_model_output_types(unit->model, stream, runner->in, unit->n_in, runner->output,
                                   unit->n_out, &by_values);
    if (status) return ort_failure(status);
    for (uint32_t i = 0; i < unit->n_out; i++) {
        const struct bp_model_type *t = &runner->output[i];
        *out_known &= t->is_known != 0;
        runner->type[unit->n_in + i] = (struct port_type){.dtype = t->dtype, .rank = t->rank};
        memcpy(runner->type[unit->n_in + i].shape, t->shape, sizeof t->shape);
    }
    if (!*out_known || by_values) return NULL;
    kept = realloc(runner->known[runner->n_known % RUNNER_KNOWN], (ports + 1) * sizeof *kept);
    if (!kept) return NULL;
    memcpy(kept, runner->type, ports * sizeof *kept);
    runner->known[runner->n_known++ % RUNNER_KNOWN] = kept;
    return NULL;
}

/* Copies a result to ONNX Runtime's memory. */
static struct ort_status *output_copy(struct ort_runner *runner, struct bp_stream *stream,
                                      struct bp_tensor *from, void *data, bool is_host,
                                      const struct port_type *type)
{
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_tensor_get_info(from, &info);
    struct bp_tensor *to;

    if (status) return ort_failure(status);
    if (!info.count) return NULL;
    if (is_host) status = bp_tensor_read(stream, from, data, info.bytes);
    else {
        TRY(wrap_at(runner, data, type, &to));
        status = bp_tensor_copy(stream, to, from);
    }
    return status ? ort_failure(status) : NULL;
}

/* Runs with outputs in ONNX Runtime's memory, whose types are known. An output in memory that the
 * device does not write becomes a new tensor, and is copied. */
static struct ort_status *runner_run_into(struct ort_runner *runner, const struct ort_unit *unit,
                                          struct bp_stream *stream, struct ort_context *context)
{
    const struct port_type *type = runner->type + unit->n_in;
    struct ort_status *failed = NULL;
    enum bp_status status;

    for (uint32_t i = 0; i < unit->n_out; i++) {
        TRY(output_make(unit, context, i, &type[i], &runner->data[i], &runner->is_host[i]));
        runner->out[i] = NULL;
        if (!runner->is_host[i])
            TRY(wrap_at(runner, runner->data[i], &type[i], &runner->out[i]));
    }
    status = bp_model_run_into(unit->model, stream, runner->in, unit->n_in, runner->out, NULL,
                               unit->n_out);
    if (status) return ort_failure(status);
    for (uint32_t i = 0; i < unit->n_out; i++) {
        if (!runner->is_host[i]) continue;
        if (!failed)
            failed = output_copy(runner, stream, runner->out[i], runner->data[i], true, &type[i]);
        bp_tensor_destroy(runner->out[i]);
    }
    return failed;
}

/* Copies a new output to ONNX Runtime's memory. */
static struct ort_status *output_give(struct ort_runner *runner, const struct ort_unit *unit,
                                      struct bp_stream *stream, struct ort_context *context,
                                      uint32_t i)
{
    struct port_type *type = &runner->type[unit->n_in + i];
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_tensor_get_info(runner->out[i], &info);
    void *data = NULL;
    bool is_host;

    if (status) return ort_failure(status);
    *type = (struct port_type){.dtype = info.dtype, .rank = info.rank};
    if (info.rank) memcpy(type->shape, info.shape, info.rank * sizeof *info.shape);
    TRY(output_make(unit, context, i, type, &data, &is_host));
    return output_copy(runner, stream, runner->out[i], data, is_host, type);
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
        failed = output_give(runner, unit, stream, context, i);
    for (uint32_t i = 0; i < unit->n_out; i++) bp_tensor_destroy(runner->out[i]);
    return failed;
}

/* --- runs --- */

static struct ort_status *runner_run_on(struct ort_runner *runner, struct ort_unit *unit,
                                        struct bp_stream *stream, struct ort_context *context)
{
    bool known = false;

    bridge_wraps_begin(&runner->wraps);
    TRY(runner_inputs(runner, unit, stream, context));
    TRY(runner_output_types(runner, unit, stream, &known));
    return known ? runner_run_into(runner, unit, stream, context)
                 : runner_run_new(runner, unit, stream, context);
}

/* Runs on the stream of ONNX Runtime, which waits for it, or on the runner's own. */
static struct ort_status *runner_run(struct ort_runner *runner, struct ort_unit *unit,
                                     struct ort_context *context)
{
    struct bp_stream *stream = runner->stream;
    struct ort_status *failed;
    enum bp_status status = BP_OK;
    void *handle = NULL;

    if (unit->ep->offer->info) TRY(ort.context_stream(context, &handle));
    if (handle) status = ort_stream_begin(handle, &stream);
    if (status) return ort_failure(status);
    failed = runner_run_on(runner, unit, stream, context);
    for (uint32_t i = 0; i < unit->n_in; i++) {
        bp_tensor_destroy(runner->copy[i]);
        runner->copy[i] = NULL;
    }
    bridge_wraps_end(&runner->wraps);
    if (handle) return ort_stream_end(handle, failed);
    /* Also after a failure: ONNX Runtime frees the buffers. */
    status = bp_stream_synchronize(stream);
    if (failed) return failed;
    return status ? ort_failure(status) : NULL;
}

static struct ort_status *unit_run(struct ort_unit *unit, struct ort_context *context)
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

struct ort_status *ort_unit_run(struct ort_unit *unit, struct ort_context *context)
{
    struct ort_status *status;
    uint32_t before = 0;

    bp_thread_set_fallback(unit->ep->fallback, &before);
    status = unit_run(unit, context);
    bp_thread_set_fallback(before, NULL);
    return status;
}
