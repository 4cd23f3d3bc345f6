/* SPDX-License-Identifier: Apache-2.0 */
/* limits.c: limits the bytes that loading creates, the bytes of a run, the iterations of loops and
 * the time, because a model may come from an untrusted source. A node of a few bytes can request
 * terabytes. Its memory is therefore computed before it runs: the node is recorded in a separate
 * graph, which has shapes and no memory. */
#include "row.h"
#include <stdlib.h>
#include <time.h>

/* The default limit of the bytes that loading creates: fold_base plus fold_factor for each byte of
 * weights. Shapes, masks, tables and constants of one fill value are far smaller than fold_base.
 * Unpacked weights (8 bits to f32, twice, for a scaled and a transposed copy) are smaller than the
 * second term. */
static const uint64_t fold_base = UINT64_C(1) << 30, fold_factor = 8;
static const uint64_t rounds_default = UINT64_C(1) << 20;
static const uint64_t value_size = 512; /* of a value on the host, estimated: loops keep many */

static uint64_t limits_add(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct onnx_use onnx_use_begin(const struct bp_model *model)
{
    return (struct onnx_use){.begun = model->options.time_ms ? now_ms() : 0};
}

enum bp_status onnx_check_end(const struct onnx_run *run)
{
    uint64_t limit = run->model->options.time_ms;

    if (run->stream) TRY(bp_stream_check_calls(run->stream));
    if (!limit || now_ms() - run->use->begun < limit) return BP_OK;
    return onnx_error(BP_ERR_TIMEOUT, "the model took longer than it may, %llu ms (time_ms of "
                      "bp_model_options)", (unsigned long long)limit);
}

enum bp_status onnx_check_round(struct onnx_run *run)
{
    uint64_t given = run->model->options.rounds, limit = given ? given : rounds_default;

    if (run->use->rounds++ < limit) return onnx_check_end(run);
    return onnx_error(BP_ERR_UNSUPPORTED, "loops of a run went round %llu times, as often as they "
                      "may (rounds of bp_model_options)", (unsigned long long)limit);
}

static enum bp_status fold_fits(const struct onnx_run *run, uint64_t bytes)
{
    const struct onnx_use *use = run->use;
    uint64_t limit = run->model->options.fold_bytes;

    if (!limit) limit = limits_add(fold_base, use->given > UINT64_MAX / fold_factor
                                           ? UINT64_MAX : use->given * fold_factor);
    if (limits_add(use->folded, bytes) <= limit) return BP_OK;
    return onnx_error(BP_ERR_MEMORY, "it takes %llu bytes, beside %llu that were made before it, "
                      "while the model is loaded, of %llu that may be (fold_bytes of "
                      "bp_model_options)", (unsigned long long)bytes,
                      (unsigned long long)use->folded, (unsigned long long)limit);
}

enum bp_status onnx_check_fold(struct onnx_run *run, uint64_t bytes)
{
    TRY(fold_fits(run, bytes));
    run->use->folded += bytes;
    return BP_OK;
}

static enum bp_status alive_fits(const struct bp_model *model, const struct onnx_use *use,
                                 uint64_t more)
{
    uint64_t limit = model->options.run_bytes, has = limits_add(use->alive, use->copied);

    if (!limit || limits_add(has, more) <= limit) return BP_OK;
    return onnx_error(BP_ERR_MEMORY, "values of the run take %llu bytes, of %llu that they may "
                      "(run_bytes of bp_model_options)", (unsigned long long)limits_add(has, more),
                      (unsigned long long)limit);
}

enum bp_status onnx_check_alive(const struct onnx_run *run, uint64_t more)
{
    return alive_fits(run->model, run->use, more);
}

enum bp_status onnx_check_copy(const struct bp_model *model, struct onnx_use *use, uint64_t bytes)
{
    TRY(alive_fits(model, use, bytes));
    use->copied += bytes;
    return BP_OK;
}

enum bp_status onnx_check_host(const struct onnx_call *c, uint64_t count, uint64_t size)
{
    uint64_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes)) bytes = UINT64_MAX / 4;
    if (c->run->slot != c->run->model->constant) return onnx_check_alive(c->run, bytes);
    return c->symbolic ? fold_fits(c->run, bytes) : onnx_check_fold(c->run, bytes);
}

/* Computes the bytes of a tensor's elements. Elements that a stride of 0 repeats count once. */
uint64_t onnx_tensor_bytes(struct bp_tensor *t)
{
    struct bp_tensor_info info = onnx_info(t);
    uint64_t bytes = bp_dtype_bits(info.dtype) / 8;

    for (uint32_t i = 0; i < info.rank; i++) {
        bool once = info.stride && !info.stride[i] && info.shape[i];
        if (!once && __builtin_mul_overflow(bytes, (uint64_t)info.shape[i], &bytes))
            return UINT64_MAX / 4;
    }
    return bytes;
}

void onnx_count_value(struct onnx_use *use, struct onnx_value *value)
{
    value->use = use;
    value->bytes = onnx_tensor_bytes(value->tensor) + value_size;
    use->alive += value->bytes;
}

/* The bytes of the results of all nodes of a graph, without views. */
static uint64_t graph_bytes(struct bp_graph *graph)
{
    struct bp_graph_info all = {.size = sizeof all};
    uint64_t sum = 0;

    if (bp_graph_get_info(graph, &all)) return 0;
    for (uint32_t i = 0; i < all.values; i++) {
        struct bp_value_info info = {.size = sizeof info};
        struct bp_node_info node = {.size = sizeof node};
        const struct bp_opinfo *op;
        uint64_t bytes;
        if (bp_graph_value(graph, i, &info) || info.node == UINT32_MAX ||
            bp_graph_node(graph, info.node, &node))
            continue;
        op = bp_opinfo_find(node.op);
        bytes = bp_dtype_bits(info.dtype) / 8;
        for (uint32_t k = 0; k < info.rank; k++)
            if (__builtin_mul_overflow(bytes, (uint64_t)info.shape[k], &bytes)) bytes = UINT64_MAX;
        if (!op || !(op->flags & BP_OP_VIEW)) sum = limits_add(sum, bytes);
    }
    return sum;
}

uint64_t onnx_node_bytes(const struct onnx_run *run, const struct onnx_node *node)
{
    struct onnx_run dry = *run; /* so the dry run does not count nodes of the host (onnx_by_host) */
    struct onnx_call c = {.run = &dry, .node = node, .symbolic = true};
    uint64_t bytes = 0;

    if (node->n_body || bp_graph_create(run->model->core, &dry.graph)) return 0;
    c.scope = bp_graph_scope(dry.graph);
    c.out = calloc(node->n_out + 1, sizeof *c.out);
    /* A node that fails here fails again when it runs, and the run reports the message. */
    if (c.out && !(node->row->emit ? node->row->emit : onnx_emit_map)(&c))
        bytes = graph_bytes(dry.graph);
    for (uint32_t i = 0; c.out && i < node->n_out; i++) onnx_value_release(c.out[i]);
    free(c.out);
    bp_graph_destroy(dry.graph);
    return bytes;
}
