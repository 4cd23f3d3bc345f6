/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs a compiled group. The workspace, which is host memory, has the pointers of a run, the
 * rows of its contents, and the inputs that are converted. */
#include "engine.h"

#include <string.h>

static uint64_t run_aligned(uint64_t size)
{
    return (size + 63) / 64 * 64;
}

static uint64_t pointers_bytes(const struct ipu_engine *e)
{
    return run_aligned((e->model.graph.n_in + e->model.graph.n_out + 1u) * sizeof(void *));
}

static uint64_t contents_bytes(const struct ipu_engine *e)
{
    return run_aligned((e->model.graph.n_in + 1u) * sizeof(struct bp_ipu_content));
}

uint64_t ipu_workspace(const struct ipu_engine *e)
{
    uint64_t size = pointers_bytes(e) + contents_bytes(e);

    for (uint32_t i = 0; i < e->model.graph.n_in; i++)
        if (e->model.input[i].conversion) size += run_aligned(4 * e->model.input[i].count);
    return size;
}

static void run_convert(char *to, const struct ipu_input *input, const int64_t *from)
{
    for (uint64_t i = 0; i < input->count; i++) {
        int64_t v = from[i];
        if (input->conversion == IPU_FLOAT) ((float *)to)[i] = (float)v;
        else if (input->conversion == IPU_WRAP) ((int32_t *)to)[i] = (int32_t)v;
        else
            ((int32_t *)to)[i] = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
    }
}

/* A run that is not supported would be tried in another way, which reads tensors whose values the
 * device keeps or has lost. */
static enum bp_status run_failed(enum bp_status status)
{
    return status == BP_ERR_UNSUPPORTED ? BP_ERR_MEMORY : status;
}

enum bp_status ipu_run(const struct bp_engine_run *run)
{
    struct ipu *self = run->self;
    struct ipu_engine *e = run->engine;
    const struct bp_ipu_graph *graph = &e->model.graph;
    const void **in = run->workspace;
    void **out = (void **)run->workspace + graph->n_in;
    struct bp_ipu_content *content = (void *)((char *)run->workspace + pointers_bytes(e));
    char *converted = (char *)content + contents_bytes(e);
    struct bp_ipu_launch launch = {.size = sizeof launch,
                                   .in = in,
                                   .content = content,
                                   .out = out,
                                   .n_in = graph->n_in,
                                   .n_out = graph->n_out};
    enum bp_status status;

    for (uint32_t i = 0; i < graph->n_in; i++) {
        const struct ipu_input *input = &e->model.input[i];
        const struct bp_content *c = &run->content[input->at];
        in[i] = run->in[input->at]->data;
        content[i] = (struct bp_ipu_content){c->memory, c->version, c->after};
        if (!input->conversion) continue;
        run_convert(converted, input, in[i]);
        in[i] = converted;
        converted += run_aligned(4 * input->count);
    }
    for (uint32_t i = 0; i < graph->n_out; i++) out[i] = run->out[e->model.output[i]]->data;
    status = IPU(self, e->device, bp_ipu_run, e->program, &launch);
    if (launch.out_fault) *run->fault = 1;
    return run_failed(status);
}

enum bp_status ipu_state(void *p, uint32_t device, void *engine, uint32_t input, uint32_t forget,
                         const struct bp_view *view, void *stream)
{
    struct ipu *self = p;
    struct ipu_engine *e = engine;
    uint32_t i = 0;

    (void)device;
    (void)stream;
    while (e->model.input[i].at != input || e->model.after[i] == BP_IPU_NONE) i++;
    return run_failed(IPU(self, e->device, bp_ipu_state, e->program, i, forget, view->data));
}
