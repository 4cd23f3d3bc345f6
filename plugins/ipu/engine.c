/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c: compiles a group: writes its graph, and lets Poplar compile it. Read next: claim.c,
 * model.c, run.c. */
#include "engine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const struct bp_engines ipu_engines = {.size = sizeof ipu_engines,
                                       .known = &ipu_ops[0].known,
                                       .n_known = IPU_OPS,
                                       .known_stride = sizeof(struct ipu_op),
                                       .flags = BP_ENGINE_UPDATES,
#define X(name) .name = ipu_##name,
                                       IPU_ENGINE_CALLBACKS(X)
#undef X
};

/* Passes the shim's progress on. Another number than 0: the result is not wanted any more. */
static uint32_t compile_progress(void *ctx, double done)
{
    const struct bp_engine_compile *compile = ctx;
    struct timespec now;

    if (compile->progress && compile->progress(compile->ctx, done, "Poplar compiles the graph"))
        return 1;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return compile->deadline_ns &&
           (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec >= compile->deadline_ns;
}

/* Poplar knows nothing of a model's names: they are valid during compile only. */
static void engine_seal(struct ipu_engine *e)
{
    for (uint32_t i = 0; i < e->model.graph.n_node; i++) e->model.node[i].name = "node";
    e->model.graph.ctx = NULL;
    e->model.graph.progress = NULL;
}

static enum bp_status engine_compile(struct ipu *self, const struct bp_engine_compile *compile,
                                     struct ipu_engine *e)
{
    TRY(ipu_model_init(self, compile->graph, compile->flags & BP_ENGINE_FAST_MATH, &e->model));
    e->model.graph.ctx = (void *)(uintptr_t)compile;
    e->model.graph.progress = compile_progress;
    if (compile_progress(e->model.graph.ctx, 0))
        return bp_fail(self->host, BP_ERR_CANCELLED, "ipu:%" PRIu32 ": cancelled", e->device);
    if (compile->blob) return ipu_load(self, e, compile->blob, compile->blob_size);
    return IPU(self, e->device, bp_ipu_compile, self->devices, e->device, &e->model.graph,
               &e->program);
}

static struct ipu_engine *engine_allocate(struct ipu *self, uint32_t device)
{
    struct ipu_engine *e = self->host->allocate(self->host->ctx, sizeof *e, _Alignof(max_align_t));

    if (e) *e = (struct ipu_engine){.device = device};
    return e;
}

/* Ends compile and refit: the engine is the result, or is destroyed. */
static enum bp_status engine_finish(struct ipu *self, struct ipu_engine *e, enum bp_status status,
                                    struct bp_engine_compiled *out)
{
    if (status) {
        ipu_engine_destroy(self, e->device, e);
        return status;
    }
    engine_seal(e);
    snprintf(e->note, sizeof e->note, "Poplar, %" PRIu32 " nodes, %" PRIu64 " bytes of weights%s",
             e->model.graph.n_node, e->model.constant_bytes,
             e->model.graph.fast ? ", NaN may be lost" : "");
    for (uint32_t i = 0; i < e->model.graph.n_in; i++)
        if (e->model.after[i] != BP_IPU_NONE) out->keeps[e->model.input[i].at] = 1;
    out->engine = e;
    out->workspace = ipu_workspace(e);
    out->workspace_alignment = 64;
    out->bytes = e->model.constant_bytes;
    BP_SET(out, note, e->note);
    return BP_OK;
}

enum bp_status ipu_compile(void *p, const struct bp_engine_compile *compile,
                           struct bp_engine_compiled *out)
{
    struct ipu *self = p;
    struct ipu_engine *e = engine_allocate(self, compile->device);

    if (!e) return bp_fail(self->host, BP_ERR_MEMORY, "ipu: no memory for a compiled group");
    return engine_finish(self, e, engine_compile(self, compile, e), out);
}

/* The code has no weights, so that a group with other weights shares it. */
enum bp_status ipu_refit(void *p, const struct bp_engine_refit *refit,
                         struct bp_engine_compiled *out)
{
    struct ipu *self = p;
    const struct bp_engine_compile *compile = refit->compile;
    struct ipu_engine *e = engine_allocate(self, compile->device);
    const struct ipu_engine *old = refit->engine;
    enum bp_status status;

    if (!e) return bp_fail(self->host, BP_ERR_MEMORY, "ipu: no memory for a compiled group");
    status = ipu_model_init(self, compile->graph, compile->flags & BP_ENGINE_FAST_MATH, &e->model);
    if (!status)
        status = IPU(self, e->device, bp_ipu_share, old->program, &e->model.graph, &e->program);
    return engine_finish(self, e, status, out);
}

void ipu_engine_destroy(void *p, uint32_t device, void *engine)
{
    struct ipu *self = p;
    struct ipu_engine *e = engine;

    (void)device;
    if (e->program) self->call->bp_ipu_destroy(e->program);
    ipu_model_finish(&e->model);
    self->host->release(self->host->ctx, e, sizeof *e);
}
