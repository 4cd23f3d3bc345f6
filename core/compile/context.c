/* SPDX-License-Identifier: Apache-2.0 */
/* context.c: makes the contexts of a schedule: an arena, and views and launches with their
 * addresses. */
#include "engine.h"
#include "schedule.h"

#include <stdlib.h>

enum { IDLE_MAX = 8 }; /* contexts that a schedule keeps for later runs */

static void context_free(struct bp_schedule_context *c)
{
    if (c->arena) bp_buffer_release(c->arena);
    bp_engine_unbind(c);
    free(c->view);
    free(c->launch);
    free(c->list);
    free(c->patch);
    free(c->result);
    free(c->content);
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
    c->fills_arena = s->arena && bp_guards_wanted(s->device);
    return BP_OK;
}

/* Lists the values in the memory of inputs and results. */
static void context_list_values(const struct bp_schedule *s, struct bp_schedule_context *c)
{
    for (uint32_t v = 0; v < s->n_value; v++) {
        const struct bp_scheduled_value *value = s->value[v], *root = s->value[value->root];
        c->view[v] = value->type.view; /* its shape and strides stay in the schedule */
        if (root->source == BP_SOURCE_INPUT || root->source == BP_SOURCE_RESULT)
            c->patch[c->n_patch++] =
                (struct bp_context_patch){v, value->root, value->offset};
    }
}

static void context_list_operands(const struct bp_schedule *s, struct bp_schedule_context *c)
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
    }
}

/* Sets the addresses in the arena, which is often that of the context's last run. */
static void context_place(const struct bp_schedule *s, struct bp_schedule_context *c)
{
    const struct bp_address at = c->arena->memory;
    uintptr_t base = ((uintptr_t)at.data + s->alignment - 1) / s->alignment * s->alignment;

    if (c->is_placed && c->placed.data == at.data && c->placed.handle == at.handle) return;
    for (uint32_t v = 0; v < s->n_value; v++) {
        const struct bp_scheduled_value *value = s->value[v], *root = s->value[value->root];
        if (root->source != BP_SOURCE_ARENA || !root->bytes) continue;
        c->view[v].data = (void *)(base + root->at + value->offset);
        c->view[v].memory = at.handle;
    }
    for (uint32_t n = 0; n < s->n_launch; n++) {
        uint32_t workspace = s->launch[n].workspace;
        if (workspace == BP_NO_VALUE) continue;
        c->launch[n].workspace = c->view[workspace].data;
        c->launch[n].workspace_memory = c->view[workspace].memory;
    }
    c->placed = at;
    c->is_placed = true;
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
    context_list_values(s, c);
    context_list_operands(s, c);
    if (s->n_content) status = bp_content_allocate(s, c);
    if (status) context_free(c);
    else *out = c;
    return status;
}

static enum bp_status context_add_arena(const struct bp_schedule *s, struct bp_timeline *timeline,
                                        struct bp_schedule_context *c)
{
    struct bp_timeline *owner = timeline->is_inline ? s->device->host : timeline;

    if (!s->arena) return BP_OK;
    if (!c->arena)
        TRY(bp_buffer_allocate(s->device, owner, BP_SPACE_DEVICE, s->arena + s->alignment,
                               &c->arena));
    context_place(s, c);
    return BP_OK;
}

/* An idle context of an inline stream keeps its arena, which other streams do not take. */
static struct bp_schedule_context *idle_remove(struct bp_schedule *s, bool is_inline)
{
    struct bp_schedule_context **at = &s->idle, *c;

    while (*at && (*at)->arena && !is_inline) at = &(*at)->next;
    c = *at;
    if (c) {
        *at = c->next;
        s->n_idle--;
    }
    return c;
}

enum bp_status bp_context_take(struct bp_schedule *s, struct bp_timeline *timeline,
                               struct bp_schedule_context **out)
{
    struct bp_schedule_context *c;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&s->lock);
    c = idle_remove(s, timeline->is_inline);
    pthread_mutex_unlock(&s->lock);
    if (!c) TRY(context_create(s, &c));
    atomic_store(&c->refs, 1);
    status = s->n_engine ? bp_engine_bind(s, c, timeline) : BP_OK;
    if (status == BP_OK) status = context_add_arena(s, timeline, c);
    if (status) bp_context_put(s, c);
    else *out = c;
    return status;
}

void bp_context_leave_arena(struct bp_schedule_context *c, const struct bp_timeline *timeline)
{
    if (timeline->is_inline || !c->arena) return;
    bp_buffer_release(c->arena);
    c->arena = NULL;
}

void bp_context_put(struct bp_schedule *s, struct bp_schedule_context *c)
{
    if (atomic_fetch_sub(&c->refs, 1) != 1) return;
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
    if (s->n_content) bp_content_fill(s, c, timeline, in);
    if (c->timeline == timeline && c->stream == timeline->stream) return;
    c->timeline = timeline;
    c->stream = timeline->stream;
    for (uint32_t n = 0; n < s->n_launch; n++) {
        c->launch[n].stream = timeline->stream;
        c->launch[n].fault = s->device->is_inline ? &timeline->fault : NULL;
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
