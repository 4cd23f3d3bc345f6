/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: makes the contexts of a schedule: an arena, and views and launches with their
 * addresses. */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

enum { IDLE_MAX = 8 }; /* contexts that a schedule keeps for later runs */

static void context_free(struct bp_schedule_context *c)
{
    if (c->arena) bp_buffer_release(c->arena);
    free(c->view);
    free(c->launch);
    free(c->list);
    free(c->patch);
    free(c->result);
    free(c);
}

static void *context_array(size_t n, size_t size)
{
    return calloc(n + 1, size);
}

static uint32_t count_operands(const struct bp_scheduled_launch *l)
{
    return l->step->launch.n_in + l->step->launch.n_out;
}

static enum bp_status context_allocate(const struct bp_schedule *s, struct bp_schedule_context *c)
{
    size_t n = 0;

    for (uint32_t i = 0; i < s->n_launch; i++) n += count_operands(&s->launch[i]);
    c->view = context_array(s->n_value, sizeof *c->view);
    c->launch = context_array(s->n_launch, sizeof *c->launch);
    c->list = context_array(n, sizeof *c->list);
    c->patch = context_array(s->n_value, sizeof *c->patch);
    c->result = context_array(s->n_result, sizeof *c->result);
    if (!c->view || !c->launch || !c->list || !c->patch || !c->result)
        return bp_error(BP_ERR_MEMORY, "no host memory for a run of a program");
    if (!s->arena) return BP_OK;
    c->fills_arena = s->device->host_visible && bp_compile_checks("arena");
    return bp_buffer_allocate(s->device, s->device->host, BP_SPACE_DEVICE,
                              s->arena + s->alignment, &c->arena);
}

/* Sets the addresses that are equal in all runs of the context, and lists the other values. */
static void context_place_values(const struct bp_schedule *s, struct bp_schedule_context *c)
{
    uintptr_t base = 0;

    if (c->arena)
        base = ((uintptr_t)c->arena->memory.data + s->alignment - 1) / s->alignment * s->alignment;
    for (uint32_t v = 0; v < s->n_value; v++) {
        const struct bp_scheduled_value *value = s->value[v], *root = s->value[value->root];
        c->view[v] = value->type.view; /* its shape and strides stay in the schedule */
        if (root->source == BP_SOURCE_CONSTANT) continue; /* the type has its address */
        if (root->source == BP_SOURCE_SHAPE) continue;    /* the view has no address */
        if (root->source != BP_SOURCE_ARENA) {
            c->patch[c->n_patch++] =
                (struct bp_context_patch){v, value->root, value->offset};
        } else if (c->arena && root->bytes) {
            c->view[v].data = (void *)(base + root->at + value->offset);
            c->view[v].memory = c->arena->memory.handle;
        }
    }
}

static void context_place_launches(const struct bp_schedule *s, struct bp_schedule_context *c)
{
    const struct bp_view **list = c->list;

    for (uint32_t n = 0; n < s->n_launch; n++) {
        const struct bp_scheduled_launch *from = &s->launch[n];
        struct bp_launch *l = &c->launch[n];
        *l = from->step->launch;
        if (!from->step->attrs && from->step->row == from->prepared->row)
            l->attrs = from->prepared->attrs;
        l->in = list;
        l->out = list + l->n_in;
        for (uint32_t i = 0; i < count_operands(from); i++)
            *list++ = from->value[i] == BP_NO_VALUE ? NULL : &c->view[from->value[i]];
        if (from->workspace == BP_NO_VALUE) continue;
        l->workspace = c->view[from->workspace].data;
        l->workspace_memory = c->view[from->workspace].memory;
    }
}

static enum bp_status context_create(const struct bp_schedule *s,
                                     struct bp_schedule_context **out)
{
    struct bp_schedule_context *c = calloc(1, sizeof *c);
    enum bp_status status;

    if (!c) return bp_error(BP_ERR_MEMORY, "no host memory for a run of a program");
    status = context_allocate(s, c);
    if (status) {
        context_free(c);
        return status;
    }
    context_place_values(s, c);
    context_place_launches(s, c);
    *out = c;
    return BP_OK;
}

enum bp_status bp_context_take(struct bp_schedule *s, struct bp_schedule_context **out)
{
    struct bp_schedule_context *c;

    pthread_mutex_lock(&s->lock);
    c = s->idle;
    if (c) {
        s->idle = c->next;
        s->n_idle--;
    }
    pthread_mutex_unlock(&s->lock);
    if (!c) return context_create(s, out);
    *out = c;
    return BP_OK;
}

void bp_context_put(struct bp_schedule *s, struct bp_schedule_context *c)
{
    pthread_mutex_lock(&s->lock);
    if (s->n_idle < IDLE_MAX) {
        c->next = s->idle;
        s->idle = c;
        s->n_idle++;
        c = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    if (c) context_free(c);
}

void bp_context_bind(const struct bp_schedule *s, struct bp_schedule_context *c,
                     struct bp_timeline *timeline, struct bp_tensor *const *in)
{
    for (uint32_t i = 0; i < c->n_patch; i++) {
        const struct bp_context_patch *patch = &c->patch[i];
        const struct bp_scheduled_value *root = s->value[patch->root];
        const struct bp_tensor *of =
            root->source == BP_SOURCE_INPUT ? in[root->index] : c->result[root->index];
        c->view[patch->value].data = (void *)((uintptr_t)of->view.data + patch->offset);
        c->view[patch->value].memory = of->view.memory;
    }
    if (c->fills_arena) memset(c->arena->memory.data, 0xff, s->arena + s->alignment);
    if (c->timeline == timeline && c->stream == timeline->stream) return;
    c->timeline = timeline;
    c->stream = timeline->stream;
    for (uint32_t n = 0; n < s->n_launch; n++) {
        c->launch[n].stream = timeline->stream;
        c->launch[n].fault = &timeline->fault;
    }
}

bool bp_context_free_idle(struct bp_schedule *s)
{
    struct bp_schedule_context *list, *next;

    pthread_mutex_lock(&s->lock);
    list = s->idle;
    s->idle = NULL;
    s->n_idle = 0;
    pthread_mutex_unlock(&s->lock);
    for (struct bp_schedule_context *c = list; c; c = next) {
        next = c->next;
        context_free(c);
    }
    return list != NULL;
}

/* lower.c creates a schedule; its contexts, which this file makes, are freed with it. */
static void schedule_free_values(struct bp_schedule *s)
{
    for (uint32_t n = 0; n < s->n_launch; n++) {
        bp_prepared_release(s->launch[n].prepared);
        free(s->launch[n].value);
    }
    for (uint32_t v = 0; v < s->n_value; v++) free(s->value[v]);
    free(s->launch);
    free(s->value);
    free(s->input);
    free(s->output);
    free(s->result);
    free(s->update);
    free(s->constant);
}

void bp_schedule_destroy(struct bp_schedule *s)
{
    if (!s) return;
    if (s->shrinker.shrink) bp_shrinker_unregister(s->device, &s->shrinker);
    bp_context_free_idle(s);
    schedule_free_values(s);
    bp_ir_destroy(s->ir);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
