/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_onnx.c: loads arbitrary bytes as an ONNX model, which must be planned and run on the cpu or
 * refused with a message, without a leak and within the memory limit. */
#include "fuzz.h"
#include "../onnx/small_models.h"
#include <backplane/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_MAX = 4096, NODES_MAX = 256, BYTES_MAX = 1 << 16 };

static struct bp_device *device;
static struct bp_stream *stream;

static void fuzz_begin(void)
{
    struct bp_core *core;

    setenv("BP_MEM_LIMIT", "64M", 1);
    if (bp_core_create(NULL, &core) || bp_device_create(core, "cpu", &device) ||
        bp_stream_create(device, &stream)) {
        fprintf(stderr, "%s\n", bp_error_message());
        abort();
    }
}

/* Fills a tensor with zeros. BP_ERR_INVALID: it has too many elements. */
static enum bp_status fuzz_clear(struct bp_tensor *t)
{
    static const char zero[BYTES_MAX];
    struct bp_tensor_info info = {.size = sizeof info};

    if (bp_tensor_get_info(t, &info)) abort();
    if (info.bytes > sizeof zero) return BP_ERR_INVALID;
    return info.bytes ? bp_tensor_write(stream, t, zero, info.bytes) : BP_OK;
}

/* Whether a graph runs in a short time. The work of a convolution is at most the product of two
 * values' sizes. */
static int is_small(struct bp_graph *graph)
{
    struct bp_graph_info info = {.size = sizeof info};

    if (bp_graph_get_info(graph, &info)) abort();
    for (uint32_t v = 0; v < info.values; v++) {
        struct bp_value_info value = {.size = sizeof value};
        int64_t count = 1;
        if (bp_graph_value(graph, v, &value)) abort();
        for (uint32_t i = 0; i < value.rank; i++)
            if (__builtin_mul_overflow(count, value.shape[i], &count) || count > COUNT_MAX)
                return 0;
    }
    return info.nodes <= NODES_MAX;
}

/* Runs the model twice, because the second run finds state that the first one made. Outputs are
 * set, or, after a failure, unchanged. */
static void fuzz_run(struct bp_model *model, struct bp_tensor *const *in, uint32_t n_in)
{
    uint32_t n = bp_model_outputs(model);
    struct bp_model_value *value = calloc(n_in + 2 * n + 1, sizeof *value), *out = value + n_in;

    if (!value) return;
    for (uint32_t i = 0; i < n_in; i++)
        value[i] = (struct bp_model_value){(struct bp_tensor **)&in[i], 1, BP_MODEL_TENSOR, 0};
    for (int round = 0; round < 2; round++, out += n) {
        (void)bp_error_set(BP_OK, "");
        if (!bp_model_run_values(model, stream, value, n_in, out, n)) continue;
        for (uint32_t i = 0; i < n; i++)
            if (out[i].at || out[i].n || out[i].kind) abort();
        if (!*bp_error_message()) abort();
        break;
    }
    (void)bp_stream_synchronize(stream);
    for (uint32_t i = n_in; i < n_in + 2 * n; i++) bp_model_value_finish(&value[i]);
    free(value);
}

/* Makes inputs of the declared types, all zero; open extents are 2. A model that is not a graph is
 * run only if it has no loops, because a loop might not end. */
static void fuzz_plan(struct bp_model *model, int has_rounds)
{
    uint32_t n = bp_model_inputs(model);
    struct bp_tensor **in = calloc(n + 1, sizeof *in);
    struct bp_graph *graph;
    int good = in != NULL;

    for (uint32_t i = 0; good && i < n; i++) {
        struct bp_model_port port = {.size = sizeof port};
        int64_t shape[16];
        if (bp_model_input(model, i, &port)) abort();
        good = port.kind == BP_MODEL_TENSOR && port.rank <= 16;
        for (uint32_t k = 0; good && k < port.rank; k++) {
            shape[k] = port.shape[k] < 0 ? 2 : port.shape[k];
            good = shape[k] <= 64;
        }
        good = good && !bp_tensor_create(device, port.dtype, port.rank, shape, &in[i]) &&
               !fuzz_clear(in[i]);
    }
    if (good && !bp_model_planned(model, in, n, &graph) && (graph ? is_small(graph) : !has_rounds))
        fuzz_run(model, in, n);
    for (uint32_t i = 0; in && i < n; i++) bp_tensor_destroy(in[i]);
    free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct bp_model_options options = {.size = sizeof options};
    struct bp_model *model = NULL;

    if (!device) fuzz_begin();
    (void)bp_error_set(BP_OK, "");
    if (bp_model_load_memory(device, data, size, &options, &model)) {
        if (model || !*bp_error_message()) abort();
        return 0;
    }
    fuzz_plan(model, memmem(data, size, "Loop", 4) || memmem(data, size, "Scan", 4));
    bp_model_destroy(model);
    return 0;
}

const char *const bp_fuzz_seeds[] = {SMALL_MODELS DOUBLING_MODEL, NULL};
