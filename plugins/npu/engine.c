/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c: claims, compiles and runs groups of nodes as models of the vendor's compiler. The
 * engine is used if the setting BP_NPU_ATC names the program atc, and the app allows fast math: by
 * which rules the compiler computes is not known. */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

/* The beginning of saved bytes: they serve one product and one release. */
struct npu_saved {
    char text[112];
    uint64_t size; /* of the model behind it */
};

/* A compiled group: the model on the device, and its bytes, for `save`. */
struct npu_engine {
    bool loaded;
    uint32_t model;
    void *bytes;
    size_t size;
};

/* The lists of a run, which its work may read until it has ended. */
struct npu_run_left {
    struct npu_run_left *next;
    void *in, *out, *event;
};

struct npu_context {
    struct npu_run_left *left;
};

static enum bp_status engine_claim(void *self, const struct bp_graph_data *graph,
                                   struct bp_claim *out)
{
    bool fast = BP_HAS(out, flags) && out->flags & BP_ENGINE_FAST_MATH;
    const struct npu *npu = self;
    const char *why = !npu->call->aclmdlLoadFromMem ? "CANN has no function aclmdlLoadFromMem"
                      : !kit_setting("npu", "ATC")  ? "BP_NPU_ATC does not name the program atc"
                      : !fast ? "the compiler's rules are not known: BP_ALLOW=fast-math allows them"
                              : NULL;

    for (uint32_t i = 0; i < graph->n_node; i++) {
        const struct bp_data_node *node = BP_ROW(struct bp_data_node, graph->node,
                                                 graph->node_stride, i);
        const char *refused = why ? why : npu_engine_refuses(graph, node);
        out->reason[i] = refused;
        out->group[i] = !refused;
        if (!refused) out->n_group = 1;
    }
    return BP_OK;
}

static size_t engine_value_bytes(const struct bp_graph_data *graph, uint32_t value)
{
    const struct bp_data_value *v = npu_value(graph, value);
    size_t n = v->dtype == BP_F16 ? 2 : 4;

    for (uint32_t a = 0; a < v->rank; a++) n *= (size_t)v->shape[a];
    return n;
}

/* Checks that the model has the inputs and outputs of the group, by number and size. */
static enum bp_status engine_check(struct npu_device *device, const struct npu_engine *e,
                                   const struct bp_graph_data *graph)
{
    const struct npu_calls *call = device->npu->call;
    void *description = call->aclmdlCreateDesc();
    enum bp_status status;
    bool same;

    if (!description)
        return bp_fail(device->npu->host, BP_ERR_MEMORY, "npu: no memory for a model");
    status = NPU_CALL(device, aclmdlGetDesc, description, e->model);
    same = !status && call->aclmdlGetNumInputs(description) == graph->n_in &&
           call->aclmdlGetNumOutputs(description) == graph->n_out;
    for (uint32_t i = 0; same && i < graph->n_in; i++)
        same = call->aclmdlGetInputSizeByIndex(description, i) ==
               engine_value_bytes(graph, graph->in[i]);
    for (uint32_t i = 0; same && i < graph->n_out; i++)
        same = call->aclmdlGetOutputSizeByIndex(description, i) ==
               engine_value_bytes(graph, graph->out[i]);
    NPU_NOTE(device, aclmdlDestroyDesc, description);
    if (status || same) return status;
    return bp_fail(device->npu->host, BP_ERR_DEVICE,
                   "npu:%u: the compiled model has other inputs or outputs than its group",
                   device->index);
}

static struct npu_saved engine_saved(const struct npu *npu, const struct npu_engine *e)
{
    struct npu_saved saved = {.size = e->size};

    snprintf(saved.text, sizeof saved.text, "npu atc 1 %s %d.%d.%d", npu->product, npu->version[0],
             npu->version[1], npu->version[2]);
    return saved;
}

/* Takes the model from saved bytes, which may come from a file of any content. */
static enum bp_status engine_take(const struct npu *npu, const struct bp_engine_compile *compile,
                                  struct npu_engine *e)
{
    struct npu_saved saved, expected;

    if (compile->blob_size < sizeof saved) return BP_ERR_STALE;
    memcpy(&saved, compile->blob, sizeof saved);
    e->size = compile->blob_size - sizeof saved;
    expected = engine_saved(npu, e);
    if (memcmp(&saved, &expected, sizeof saved) != 0) return BP_ERR_STALE;
    e->bytes = malloc(e->size + 1);
    if (!e->bytes) return bp_fail(npu->host, BP_ERR_MEMORY, "npu: no memory for a model");
    memcpy(e->bytes, (const char *)compile->blob + sizeof saved, e->size);
    return BP_OK;
}

static enum bp_status engine_make(struct npu_device *device,
                                  const struct bp_engine_compile *compile, struct npu_engine *e)
{
    struct npu_onnx model = {.n = 0};
    enum bp_status status;

    if (compile->blob) return engine_take(device->npu, compile, e);
    status = npu_engine_model(device, compile->graph, &model);
    if (!status) status = npu_atc_compile(device->npu, compile, &model, &e->bytes, &e->size);
    npu_onnx_free(&model);
    return status;
}

static void engine_free(struct npu_device *device, struct npu_engine *e)
{
    if (e->loaded) NPU_NOTE(device, aclmdlUnload, e->model);
    free(e->bytes);
    free(e);
}

/* Saved bytes that cannot be loaded are stale: the compiler makes new ones. */
static enum bp_status engine_load(struct npu_device *device,
                                  const struct bp_engine_compile *compile, struct npu_engine *e)
{
    int code;

    TRY(engine_make(device, compile, e));
    code = device->npu->call->aclmdlLoadFromMem(e->bytes, e->size, &e->model);
    if (code && compile->blob) return BP_ERR_STALE;
    TRY(npu_check(device->npu, device, "aclmdlLoadFromMem", code));
    e->loaded = true;
    return engine_check(device, e, compile->graph);
}

static enum bp_status engine_compile(void *self, const struct bp_engine_compile *compile,
                                     struct bp_engine_compiled *out)
{
    struct npu *npu = self;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    struct npu_engine *e;
    enum bp_status status;

    TRY(npu_device_use(npu, compile->device, &caller, &device));
    e = calloc(1, sizeof *e);
    if (!e) return bp_fail(npu->host, BP_ERR_MEMORY, "npu: no memory for a model");
    status = engine_load(device, compile, e);
    if (status) {
        engine_free(device, e);
        return status;
    }
    BP_SET(out, engine, e);
    BP_SET(out, bytes, e->size);
    BP_SET(out, note, "atc");
    return BP_OK;
}

static void engine_engine_destroy(void *self, uint32_t index, void *engine)
{
    KIT_CONTEXT caller = {NULL};

    engine_free(npu_device_reuse(self, index, &caller), engine);
}

static enum bp_status engine_save(void *self, uint32_t device, void *engine, void *ctx,
                                  enum bp_status (*write)(void *ctx, const void *data, uint64_t n))
{
    const struct npu_engine *e = engine;
    struct npu_saved saved = engine_saved(self, e);

    (void)device;
    TRY(write(ctx, &saved, sizeof saved));
    return write(ctx, e->bytes, e->size);
}

/* Destroys a list of buffers. The memory is the program's. */
static void run_drop_list(const struct npu_calls *call, void *list)
{
    size_t n = list ? call->aclmdlGetDatasetNumBuffers(list) : 0;

    for (size_t i = 0; i < n; i++)
        call->aclDestroyDataBuffer(call->aclmdlGetDatasetBuffer(list, i));
    if (list) call->aclmdlDestroyDataset(list);
}

static void run_drop(struct npu_device *device, struct npu_run_left *left)
{
    run_drop_list(device->npu->call, left->in);
    run_drop_list(device->npu->call, left->out);
    if (left->event) NPU_NOTE(device, aclrtDestroyEvent, left->event);
    free(left);
}

/* Destroys what earlier runs have left, as far as their work has ended; all: whatever its state. */
static void run_reap(struct npu_device *device, struct npu_context *context, bool all)
{
    struct npu_run_left **at = &context->left;

    while (*at) {
        struct npu_run_left *left = *at;
        int state = 0;
        if (!all) NPU_NOTE(device, aclrtQueryEventStatus, left->event, &state);
        if (!all && state != NPU_EVENT_RECORDED) {
            at = &left->next;
            continue;
        }
        *at = left->next;
        run_drop(device, left);
    }
}

static enum bp_status run_list(struct npu_device *device, const struct bp_view *const *view,
                               uint32_t n, void **out)
{
    const struct npu_calls *call = device->npu->call;

    *out = call->aclmdlCreateDataset();
    for (uint32_t i = 0; *out && i < n; i++) {
        size_t size = (size_t)view[i]->count * (view[i]->dtype == BP_F16 ? 2 : 4);
        void *buffer = call->aclCreateDataBuffer(view[i]->data, size);
        enum bp_status status = buffer ? NPU_CALL(device, aclmdlAddDatasetBuffer, *out, buffer)
                                       : BP_ERR_MEMORY;
        if (status && buffer) call->aclDestroyDataBuffer(buffer);
        if (status) return status;
    }
    if (*out) return BP_OK;
    return bp_fail(device->npu->host, BP_ERR_MEMORY, "npu: no memory for a run of a model");
}

static enum bp_status run_submit(struct npu_device *device, const struct bp_engine_run *run,
                                 struct npu_run_left *left)
{
    const struct npu_engine *e = run->engine;
    struct npu_stream *stream = run->stream;

    TRY(run_list(device, run->in, run->n_in, &left->in));
    TRY(run_list(device, run->out, run->n_out, &left->out));
    TRY(npu_event_make(device, &left->event));
    TRY(NPU_CALL(device, aclmdlExecuteAsync, e->model, left->in, left->out, stream->raw));
    return NPU_CALL(device, aclrtRecordEvent, left->event, stream->raw);
}

static enum bp_status engine_run(const struct bp_engine_run *run)
{
    struct npu_stream *stream = run->stream;
    struct npu_context *context = run->context;
    KIT_CONTEXT caller = {NULL};
    struct npu_device *device;
    struct npu_run_left *left;
    enum bp_status status;

    TRY(npu_device_use(run->self, run->device, &caller, &device));
    run_reap(device, context, false);
    left = calloc(1, sizeof *left);
    if (!left) return bp_fail(device->npu->host, BP_ERR_MEMORY, "npu: no memory for a run");
    status = run_submit(device, run, left);
    if (status) { /* the work may have been submitted, and use the lists */
        NPU_NOTE(device, aclrtSynchronizeStream, stream->raw);
        run_drop(device, left);
        return status;
    }
    left->next = context->left;
    context->left = left;
    return BP_OK;
}

static enum bp_status engine_context_create(void *self, uint32_t device, void *engine,
                                            void **out_context)
{
    struct npu_context *context = calloc(1, sizeof *context);

    (void)device;
    (void)engine;
    if (!context)
        return bp_fail(((struct npu *)self)->host, BP_ERR_MEMORY, "npu: no memory for a context");
    *out_context = context;
    return BP_OK;
}

static void engine_context_destroy(void *self, uint32_t index, void *engine, void *context)
{
    KIT_CONTEXT caller = {NULL};

    (void)engine;
    run_reap(npu_device_reuse(self, index, &caller), context, true);
    free(context);
}

const struct bp_engines npu_engines = {.size = sizeof npu_engines,
                                       .known = &npu_engine_ops[0].known,
                                       .n_known = NPU_ENGINE_OPS,
                                       .known_stride = sizeof(struct npu_engine_op),
                                       .claim = engine_claim,
                                       .compile = engine_compile,
                                       .run = engine_run,
                                       .engine_destroy = engine_engine_destroy,
                                       .context_create = engine_context_create,
                                       .context_destroy = engine_context_destroy,
                                       .save = engine_save};
