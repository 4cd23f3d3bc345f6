/* SPDX-License-Identifier: Apache-2.0 */
/* engine_run.c: runs groups of nodes that engines compiled, as launches of a schedule, with a
 * context of the engine for each run at a time. */
#include "engine.h"
#include "schedule.h"

#include "../plugin/entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum bp_status engine_launch(const struct bp_launch *l)
{
    const struct bp_engine_context *context = l->plan;
    const struct bp_engine_code *code = context->code;
    const struct bp_content *content = l->attrs;
    struct bp_engine_run run = bp_engine_run_of(code, l, content ? content : bp_content_unknown);
    enum bp_status status;

    run.context = context->context;
    status = code->engines->run(&run);
    if (status) return bp_error_leave(status, code->entry->plugin.name, "run");
    return code->n_kept ? bp_state_write_through(code, l) : BP_OK;
}

void bp_engine_code_destroy(void *self, const struct bp_kernel *kernel, void *plan)
{
    struct bp_engine_code *code = plan;
    struct bp_engine_context *context, *next;
    const struct bp_engines *engines = code->engines;
    uint32_t device = code->device->index;

    (void)self;
    (void)kernel;
    for (context = code->context; context; context = next) {
        next = context->next;
        engines->context_destroy(code->entry->self, device, code->engine, context->context);
        free(context);
    }
    engines->engine_destroy(code->entry->self, device, code->engine);
    bp_state_finish(code);
    pthread_mutex_destroy(&code->lock);
    free(code->in_layout);
    free(code->out_layout);
    free(code->may_share);
    free(code->note);
    free(code->call_at);
    free(code->id);
    free(code->updates);
    bp_graph_copy_destroy(code->graph);
    free(code);
}

void bp_engine_code_init(struct bp_engine_code *code, struct bp_plugin_entry *entry,
                         struct bp_device *device)
{
    snprintf(code->name, sizeof code->name, "%.60s_engine", entry->plugin.name);
    code->kernel = (struct bp_kernel){.op = bp_engine_row.info.name,
                                      .name = code->name,
                                      .flags = BP_KERNEL_STRIDED | BP_KERNEL_NO_CAPTURE,
                                      .launch = engine_launch,
                                      .plan_destroy = bp_engine_code_destroy};
    code->engines = &entry->engines;
    code->entry = entry;
    code->device = device;
    code->plain.code = code;
    pthread_mutex_init(&code->lock, NULL);
    pthread_cond_init(&code->turn, NULL);
}

/* ---- contexts ---- */

/* Finds a context that no run uses, of a code whose lock is held. */
static struct bp_engine_context *context_find_free(const struct bp_engine_code *code)
{
    struct bp_engine_context *context = code->context;

    while (context && context->taken) context = context->next;
    return context;
}

/* Finds a context for a run at a time, of which the lock is held. */
static struct bp_engine_context *context_find(const struct bp_engine_code *code,
                                              const struct bp_timeline *timeline)
{
    struct bp_engine_context *context = code->context;

    if (code->device->is_inline) return context_find_free(code);
    while (context && context->timeline != timeline) context = context->next;
    return context;
}

static enum bp_status context_make(struct bp_engine_code *code,
                                   struct bp_engine_context **out_context)
{
    struct bp_engine_context *made = calloc(1, sizeof *made);
    enum bp_status status;

    if (!made) return bp_error(BP_ERR_MEMORY, "no host memory for a context of an engine");
    bp_error_enter();
    status = code->engines->context_create(code->entry->self, code->device->index, code->engine,
                                           &made->context);
    status = bp_addon_leave(code->device, code->entry, status, "context_create");
    if (status) {
        free(made);
        return status;
    }
    made->code = code;
    *out_context = made;
    return BP_OK;
}

/* Work of one stream of a device that is not inline runs in order, so that it has one context. */
static enum bp_status context_take(struct bp_engine_code *code, struct bp_timeline *timeline,
                                   struct bp_engine_context **out_context)
{
    struct bp_engine_context *context;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&code->lock);
    context = context_find(code, timeline);
    if (context) context->taken = true;
    pthread_mutex_unlock(&code->lock);
    if (!context) {
        status = context_make(code, &context);
        if (status) return status;
        context->taken = true;
        context->timeline = timeline;
        pthread_mutex_lock(&code->lock);
        context->next = code->context;
        code->context = context;
        pthread_mutex_unlock(&code->lock);
    }
    *out_context = context;
    return BP_OK;
}

/* ---- contexts of calls ---- */

/* Finds a context for a run of a call, of which the lock is held. */
static struct bp_engine_context *call_context_find(const struct bp_engine_code *code,
                                                   const void *stream)
{
    struct bp_engine_context *context = code->context;

    if (code->device->is_inline) return context_find_free(code);
    while (context && context->stream != stream) context = context->next;
    return context;
}

enum bp_status bp_engine_context_take(struct bp_engine_code *code, void *stream,
                                      struct bp_engine_context **out_context)
{
    struct bp_engine_context *context;

    pthread_mutex_lock(&code->lock);
    context = call_context_find(code, stream);
    if (context) context->taken = true;
    pthread_mutex_unlock(&code->lock);
    if (!context) {
        TRY(context_make(code, &context));
        context->taken = true;
        context->stream = stream;
        pthread_mutex_lock(&code->lock);
        context->next = code->context;
        code->context = context;
        pthread_mutex_unlock(&code->lock);
    }
    *out_context = context;
    return BP_OK;
}

void bp_engine_context_return(struct bp_engine_context *context)
{
    struct bp_engine_code *code = context->code;

    pthread_mutex_lock(&code->lock);
    context->taken = false;
    pthread_mutex_unlock(&code->lock);
}

enum bp_status bp_engine_bind(const struct bp_schedule *s, struct bp_schedule_context *c,
                              struct bp_timeline *timeline)
{
    for (uint32_t n = 0; n < s->n_launch; n++) {
        struct bp_engine_code *code = bp_engine_code_of(s->launch[n].prepared);
        struct bp_engine_context *context = code ? c->launch[n].plan : NULL;
        if (!code || !code->engines->context_create) continue;
        if (code->device->is_inline ? context != &code->plain : context->timeline == timeline)
            continue;
        TRY(context_take(code, timeline, &context));
        c->launch[n].plan = context;
        if (!code->device->is_inline) continue;
        context->next_of_owner = c->engines;
        c->engines = context;
    }
    return BP_OK;
}

void bp_engine_unbind(struct bp_schedule_context *c)
{
    struct bp_engine_context *next;

    for (struct bp_engine_context *context = c->engines; context; context = next) {
        struct bp_engine_code *code = context->code;
        next = context->next_of_owner;
        pthread_mutex_lock(&code->lock);
        context->taken = false;
        pthread_mutex_unlock(&code->lock);
    }
    c->engines = NULL;
}
