/* SPDX-License-Identifier: Apache-2.0 */
/* engine_content.c: describes to engines the contents of the inputs of a run, so that an engine
 * with copies in memory of its own copies only inputs that have changed.
 *
 * Versions of buffers are counted when the app calls, and a queue runs work later. So the rows are
 * filled by the call, into the context that the run has. */
#include "engine.h"
#include "schedule.h"

#include <stdlib.h>

const struct bp_content bp_content_unknown[BP_FLAT_MAX];

static bool launch_has_content(const struct bp_scheduled_launch *l)
{
    const struct bp_engine_code *code = bp_engine_code_of(l->prepared);

    return code && code->engines->flags & BP_ENGINE_UPDATES;
}

enum bp_status bp_content_allocate(const struct bp_schedule *s, struct bp_schedule_context *c)
{
    struct bp_content *at = c->content = calloc(s->n_content + 1u, sizeof *c->content);

    if (!at) return bp_error(BP_ERR_MEMORY, "no host memory for a run of a program");
    for (uint32_t n = 0; n < s->n_launch; n++) {
        if (!launch_has_content(&s->launch[n])) continue;
        c->launch[n].attrs = at; /* engine_launch takes them from there */
        at += c->launch[n].n_in;
    }
    return BP_OK;
}

/* Returns the tensor of the app in which a value lies, or NULL. */
static const struct bp_tensor *content_tensor(const struct bp_schedule *s,
                                              const struct bp_scheduled_value *root,
                                              struct bp_tensor *const *in)
{
    if (root->source == BP_SOURCE_INPUT) return in[root->index];
    return root->source == BP_SOURCE_CONSTANT ? s->ir->value[root->index].constant : NULL;
}

static struct bp_content content_of(const struct bp_schedule *s, uint32_t v,
                                    struct bp_tensor *const *in)
{
    const struct bp_scheduled_value *root = s->value[s->value[v]->root];
    const struct bp_tensor *t = content_tensor(s, root, in);
    uint64_t version;

    if (!t || bp_buffer_is_exposed(t->buffer)) return bp_content_unknown[0];
    version = atomic_load_explicit(&t->buffer->version, memory_order_relaxed);
    return (struct bp_content){t->buffer->id, version, version + root->n_update};
}

void bp_content_fill(const struct bp_schedule *s, struct bp_schedule_context *c,
                     const struct bp_timeline *timeline, struct bp_tensor *const *in)
{
    struct bp_content *at = c->content;

    for (uint32_t n = 0; n < s->n_launch; n++) {
        if (!launch_has_content(&s->launch[n])) continue;
        for (uint32_t i = 0; i < c->launch[n].n_in; i++)
            *at++ = timeline->recording ? bp_content_unknown[0]
                                        : content_of(s, s->launch[n].value[i], in);
    }
}
