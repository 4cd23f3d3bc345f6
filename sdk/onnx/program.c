/* SPDX-License-Identifier: Apache-2.0 */
/* program.c: runs the graph of a plan. Runs on inline streams share one program, which several
 * threads may run at a time. Other runs take a program that no other run uses, so that threads do
 * not wait for each other, and each stream has its own recording. */
#include "onnx.h"
#include <stdio.h>

/* Finds the program for a run on a stream: the one that last ran there, else a new one, else the
 * one that was not used for the longest time. NULL: runs use all of them. Called with the lock
 * held. */
static struct onnx_program *program_choose(struct onnx_plan *plan, uint32_t stream)
{
    struct onnx_program *best = NULL;

    for (int i = 0; i < ONNX_PROGRAMS; i++) {
        struct onnx_program *p = &plan->program[i];
        if (p->is_used) continue;
        if (p->stream == stream) return p;
        if (!best || p->last < best->last) best = p;
    }
    return best;
}

static struct onnx_program *program_take(struct bp_model *model, struct onnx_plan *plan,
                                         struct bp_stream *stream)
{
    uint32_t number = bp_stream_number(stream);
    struct onnx_program *p;

    pthread_mutex_lock(&model->lock);
    p = program_choose(plan, number);
    if (p) {
        p->is_used = true;
        p->stream = number;
        p->last = ++model->uses;
    }
    pthread_mutex_unlock(&model->lock);
    return p;
}

static void program_return(struct bp_model *model, struct onnx_plan *plan, struct onnx_program *p,
                           struct onnx_last *last)
{
    struct bp_program_info info = {.size = sizeof info};

    if (p->program && bp_program_get_info(p->program, &info) == BP_OK)
        snprintf(last->reason, sizeof last->reason, "%s", info.reason);
    pthread_mutex_lock(&model->lock);
    plan->replays += info.replays - p->replays;
    p->replays = info.replays;
    p->is_used = false;
    pthread_mutex_unlock(&model->lock);
}

enum bp_status onnx_program_create(const struct bp_model *model, struct bp_graph *graph,
                                   struct bp_program **out_program)
{
    const struct bp_program_options options = {.size = sizeof options,
                                               .flags = model->options.program_flags,
                                               .cache = model->options.cache};

    return bp_program_create_with(graph, model->device, &options, out_program);
}

enum bp_status onnx_plan_run(struct bp_model *model, struct onnx_plan *plan,
                             struct bp_stream *stream, struct bp_tensor *const *in, size_t n_in,
                             struct bp_tensor **out, size_t n_out, struct onnx_last *last)
{
    struct bp_program_info info = {.size = sizeof info};
    struct onnx_program *p;
    enum bp_status status = bp_program_get_info(plan->shared, &info);

    if (status) return status;
    if (!info.records || bp_stream_get_flags(stream) & BP_STREAM_INLINE) {
        status = bp_program_run(plan->shared, stream, in, n_in, out, n_out);
        snprintf(last->reason, sizeof last->reason,
                 info.records ? "work of an inline stream is not recorded"
                              : "the device does not record work");
        return status;
    }
    p = program_take(model, plan, stream);
    if (!p) {
        snprintf(last->reason, sizeof last->reason, "%d other runs used the plan's programs",
                 ONNX_PROGRAMS);
        return bp_graph_run(plan->graph, stream, in, n_in, out, n_out);
    }
    if (!p->program) status = onnx_program_create(model, plan->graph, &p->program);
    if (status == BP_OK) status = bp_program_run(p->program, stream, in, n_in, out, n_out);
    program_return(model, plan, p, last);
    return status;
}
