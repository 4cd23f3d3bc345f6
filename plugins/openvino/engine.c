/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c: compiles a group: writes its model, lets the library compile it, and checks that the
 * library has inferred the same types. Read next: claim.c, model.c, run.c. */
#include "engine.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

const struct bp_engines openvino_engines = {.size = sizeof openvino_engines,
                                            .known = &openvino_ops[0].known,
                                            .n_known = OPENVINO_OPS,
                                            .known_stride = sizeof(struct ov_op),
#define X(name) .name = openvino_##name,
                                            OPENVINO_ENGINE_CALLBACKS(X)
#undef X
};

/* Reports the work that comes now. The library's own calls cannot be interrupted. */
static enum bp_status compile_step(struct openvino *self, const struct bp_engine_compile *compile,
                                   double done, const char *what)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (compile->progress && compile->progress(compile->ctx, done, what))
        return bp_fail(self->host, BP_ERR_CANCELLED, "openvino: cancelled before %s", what);
    if (compile->deadline_ns &&
        (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec >= compile->deadline_ns)
        return bp_fail(self->host, BP_ERR_TIMEOUT, "openvino: the deadline passed before %s", what);
    return BP_OK;
}

void openvino_properties(const struct openvino *self, const struct ov_engine *e, char threads[16],
                         const char *property[16])
{
    uint32_t n = 0;

    property[n++] = "PERFORMANCE_HINT";
    property[n++] = "LATENCY";
    if (!e->wide) {
        property[n++] = "INFERENCE_PRECISION_HINT";
        property[n++] = "f32";
    }
    if (openvino_is_cpu(self, e->device)) {
        snprintf(threads, 16, "%" PRIu32, e->width);
        property[n++] = "NUM_STREAMS";
        property[n++] = "1";
        property[n++] = "INFERENCE_NUM_THREADS";
        property[n++] = threads;
        property[n++] = "ENABLE_CPU_PINNING"; /* the app's threads stay where they are */
        property[n++] = "NO";
    }
    property[n] = NULL;
}

static enum bp_status compile_model(struct openvino *self, struct ov_engine *e,
                                    const struct ov_model *model)
{
    const char *p[16] = {NULL};
    char threads[16];
    size_t n = 0;

    openvino_properties(self, e, threads, p);
    while (p[n]) n++;
    return OV(self, ov_core_compile_model, self->core, model, self->device[e->device], n, &e->model,
              p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], p[10], p[11]);
}

/* The library keeps what it needs of the block, which it owns. */
static enum bp_status read_model(struct openvino *self, struct ir *ir, struct ov_model **out)
{
    int64_t bytes = (int64_t)ir->block;
    struct ov_tensor *block = NULL;
    const char *text;
    size_t length;
    void *data;
    enum bp_status status;

    TRY(ir_end(ir, &text, &length));
    if (bytes) {
        TRY(OV(self, ov_tensor_create, self->type[BP_U8], (struct ov_shape){1, &bytes}, &block));
        status = OV(self, ov_tensor_data, block, &data);
        if (!status) ir_fill(ir, data);
        if (status) {
            self->call->ov_tensor_free(block);
            return status;
        }
    }
    status = OV(self, ov_core_read_model_from_memory_buffer, self->core, text, length, block, out);
    if (block) self->call->ov_tensor_free(block);
    return status;
}

/* Compares the type that the library has inferred for an input or output. */
static enum bp_status check_port(struct openvino *self, const struct ov_tensor_type *t,
                                 struct ov_output_const_port *port, const char *what)
{
    struct ov_shape shape = {0, NULL};
    unsigned type = 0;
    enum bp_status status = OV(self, ov_port_get_element_type, port, &type);
    bool same;

    if (!status) status = OV(self, ov_const_port_get_shape, port, &shape);
    if (status) return status;
    same = type == self->type[t->dtype] && shape.rank == t->rank &&
           (!t->rank || !memcmp(shape.extent, t->extent, t->rank * sizeof *t->extent));
    self->call->ov_shape_free(&shape);
    if (same) return BP_OK;
    return bp_fail(self->host, BP_ERR_DEVICE,
                   "openvino: the library infers another type for %s %" PRIu32, what, t->at);
}

static enum bp_status engine_check_types(struct openvino *self, const struct ov_engine *e)
{
    struct ov_output_const_port *port;
    size_t n_in = 0, n_out = 0;
    enum bp_status status;

    TRY(OV(self, ov_compiled_model_inputs_size, e->model, &n_in));
    TRY(OV(self, ov_compiled_model_outputs_size, e->model, &n_out));
    if (n_in != e->n_in || n_out != e->n_out)
        return bp_fail(self->host, BP_ERR_DEVICE,
                       "openvino: the library's model has %zu inputs and %zu outputs, expected "
                       "%" PRIu32 " and %" PRIu32,
                       n_in, n_out, e->n_in, e->n_out);
    for (uint32_t i = 0; i < e->n_in + e->n_out; i++) {
        bool input = i < e->n_in;
        uint32_t k = input ? i : i - e->n_in;
        TRY(input ? OV(self, ov_compiled_model_input_by_index, e->model, k, &port)
                  : OV(self, ov_compiled_model_output_by_index, e->model, k, &port));
        status = check_port(self, input ? &e->in[k] : &e->out[k], port, input ? "input" : "output");
        self->call->ov_output_const_port_free(port);
        if (status) return status;
    }
    return BP_OK;
}

static enum bp_status compile_group(struct openvino *self, const struct bp_engine_compile *compile,
                                    struct ov_engine *e, struct ir *ir)
{
    struct ov_model *model;
    enum bp_status status;

    TRY(compile_step(self, compile, 0, "the model is written"));
    TRY(openvino_write_model(self, compile->graph, e, ir));
    if (compile->blob) {
        TRY(openvino_load(self, e, compile->blob, compile->blob_size));
        return engine_check_types(self, e) ? BP_ERR_STALE : BP_OK;
    }
    TRY(compile_step(self, compile, 0.1, "the library reads the model"));
    TRY(read_model(self, ir, &model));
    status = compile_step(self, compile, 0.2, "the library compiles the model");
    if (!status) status = compile_model(self, e, model);
    self->call->ov_model_free(model);
    return status ? status : engine_check_types(self, e);
}

/* Names the device, the precision, and with fast math the operators that lose NaN or accuracy, each
 * once. */
static void write_note(const struct openvino *self, const struct bp_graph_data *graph,
                       struct ov_engine *e)
{
    bool named[OPENVINO_OPS] = {false}, any = false;
    size_t room = sizeof e->note, used;

    used = (size_t)snprintf(e->note, room, "OpenVINO %s, %s, %s", self->version,
                            self->device[e->device], e->wide ? "the library's precision" : "f32");
    for (uint32_t i = 0; i < graph->n_node && e->fast; i++) {
        const struct ov_op *op = openvino_op_find(openvino_node(graph, i)->op);
        if (!op->lossy || named[op - openvino_ops] || used >= room) continue;
        named[op - openvino_ops] = true;
        used += (size_t)snprintf(e->note + used, room - used, "%s %s",
                                 any ? "," : "; loses NaN or accuracy:", op->known.op);
        any = true;
    }
}

static struct ov_engine *engine_allocate(struct openvino *self, const struct bp_graph_data *graph)
{
    size_t types = 2 * (size_t)graph->n_in + graph->n_out;
    size_t bytes = sizeof(struct ov_engine) + types * sizeof(struct ov_tensor_type) +
                   graph->n_node * sizeof(struct ov_index) + graph->n_out * sizeof(struct ov_copy);
    struct ov_engine *e = self->host->allocate(self->host->ctx, bytes, _Alignof(max_align_t));

    if (!e) return NULL;
    *e = (struct ov_engine){.bytes = bytes, .in = (struct ov_tensor_type *)(e + 1)};
    e->out = e->in + 2 * (size_t)graph->n_in;
    e->index = (struct ov_index *)(e->out + graph->n_out);
    e->copy = (struct ov_copy *)(e->index + graph->n_node);
    return e;
}

enum bp_status openvino_compile(void *p, const struct bp_engine_compile *compile,
                                struct bp_engine_compiled *out)
{
    struct openvino *self = p;
    struct ov_engine *e = engine_allocate(self, compile->graph);
    struct ir ir;
    enum bp_status status;

    if (!e) return bp_fail(self->host, BP_ERR_MEMORY, "openvino: no memory for a compiled group");
    e->device = compile->device;
    e->width = compile->width ? compile->width : 1;
    e->wide = compile->dtypes & (BP_M(F16) | BP_M(BF16)) ? 1 : 0;
    e->fast = compile->flags & BP_ENGINE_FAST_MATH;
    status = ir_begin(&ir, self->host);
    if (!status) {
        status = compile_group(self, compile, e, &ir);
        ir_finish(&ir);
    }
    if (status) {
        openvino_engine_destroy(self, compile->device, e);
        return status;
    }
    write_note(self, compile->graph, e);
    out->engine = e;
    BP_SET(out, note, e->note);
    for (uint32_t i = 0; BP_HAS(out, out_type) && i < e->n_out; i++) {
        struct bp_inferred *type = &out->out_type[e->out[i].at];
        *type = (struct bp_inferred){.dtype = e->out[i].dtype, .rank = e->out[i].rank};
        memcpy(type->extent, e->out[i].extent, sizeof e->out[i].extent);
    }
    return BP_OK;
}

void openvino_engine_destroy(void *p, uint32_t device, void *engine)
{
    struct openvino *self = p;
    struct ov_engine *e = engine;

    (void)device;
    if (e->model) self->call->ov_compiled_model_free(e->model);
    self->host->release(self->host->ctx, e, e->bytes);
}
