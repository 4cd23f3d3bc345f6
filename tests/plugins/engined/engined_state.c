/* SPDX-License-Identifier: Apache-2.0 */
/* engined_state.c: keeps copies of the inputs of runs in memory of the engine, which it uses as
 * long as the core says that the inputs have the same contents. */
#include "engined.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The copy of one input. */
struct copy {
    struct engined_block block;
    struct bp_content noted;   /* memory 0: the copy is of no use */
    const void *memory, *data; /* of the tensor */
    uint64_t bytes;
    bool updated; /* the group updates the input */
    bool kept;    /* runs leave the new contents in the copy only */
    bool newer;   /* the copy is newer than the tensor */
    bool lost;    /* a run that was to update the copy has failed */
};

struct engined_state {
    pthread_mutex_t lock; /* one run at a time */
    struct copy *copy;
    uint32_t n, device;
};

static bool state_is_wanted(void)
{
    return engined_has("copies") || engined_has("keeps");
}

void engined_state_destroy(struct engined_state *s)
{
    if (!s) return;
    for (uint32_t i = 0; i < s->n; i++) engined_block_free(s->device, &s->copy[i].block);
    pthread_mutex_destroy(&s->lock);
    free(s->copy);
    free(s);
}

enum bp_status engined_state_create(const struct bp_engine_compile *c, const bool *updated,
                                    const struct bp_view *view, struct engined_state **out)
{
    struct engined_state *s;
    enum bp_status status = BP_OK;

    *out = NULL;
    if (!state_is_wanted()) return BP_OK;
    s = calloc(1, sizeof *s);
    if (s) s->copy = calloc(c->graph->n_in + 1u, sizeof *s->copy);
    if (!s || !s->copy) abort();
    pthread_mutex_init(&s->lock, NULL);
    s->device = c->device;
    s->n = c->graph->n_in;
    for (uint32_t i = 0; i < s->n && status == BP_OK; i++) {
        struct copy *copy = &s->copy[i];
        copy->bytes = (uint64_t)view[c->graph->in[i]].count *
                      engined_size(view[c->graph->in[i]].dtype);
        copy->updated = updated[c->graph->in[i]];
        copy->kept = copy->updated && engined_has("keeps");
        status = engined_block_make(c->device, copy->bytes, &copy->block);
    }
    if (status) engined_state_destroy(s);
    else *out = s;
    return status;
}

static struct bp_view copy_view(const struct copy *copy, const struct bp_view *of)
{
    struct bp_view view = *of;

    view.memory = copy->block.memory.handle;
    view.data = copy->block.memory.data;
    return view;
}

/* Whether the copy has the contents that the input has before the run. */
static bool copy_is_fresh(const struct copy *copy, const struct bp_view *in,
                          const struct bp_content *content)
{
    if (copy->newer) return true;
    if (engined_has("state=never")) return false;
    if (engined_has("state=blind")) return copy->noted.memory != 0;
    return content->memory && content->memory == copy->noted.memory &&
           content->version == copy->noted.after && in->memory == copy->memory &&
           in->data == copy->data;
}

enum bp_status engined_state_begin(struct engined_state *s, const struct bp_engine_run *run,
                                   struct bp_view *in)
{
    enum bp_status status = BP_OK;

    if (!s) return BP_OK;
    pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < s->n && status == BP_OK; i++) {
        struct copy *copy = &s->copy[i];
        struct bp_view view = copy_view(copy, run->in[i]);
        if (copy_is_fresh(copy, run->in[i], &run->content[i])) {
            atomic_fetch_add(&engined.reused, 1);
        } else {
            status = engined_copy(run, &view, run->in[i], copy->bytes);
            atomic_fetch_add(&engined.copied, 1);
        }
        copy->noted = run->content[i];
        copy->memory = run->in[i]->memory;
        copy->data = run->in[i]->data;
        in[i] = view;
    }
    return status;
}

enum bp_status engined_state_end(struct engined_state *s, const struct bp_engine_run *run,
                                 enum bp_status status)
{
    if (!s) return status;
    if (status == BP_OK && engined_has("state=spoils"))
        status = bp_fail(engined_cpu.host, BP_ERR_DEVICE, "a step has failed");
    for (uint32_t i = 0; i < s->n; i++) {
        struct copy *copy = &s->copy[i];
        struct bp_view view = copy_view(copy, run->in[i]);
        if (status == BP_OK && copy->updated && !copy->kept && !engined_has("state=lazy"))
            status = engined_copy(run, run->in[i], &view, copy->bytes);
        copy->lost = status != BP_OK && copy->kept;
        copy->newer = status == BP_OK && copy->kept && !engined_has("state=forgets");
        if (status) copy->noted.memory = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

bool engined_state_keeps(const struct engined_state *s, uint32_t input)
{
    return s && s->copy[input].kept;
}

/* Words: state=fails: nothing is written, and the call fails; silent: nothing is written; half: the
 * first half is written; newer: the copy stays newer; forgets (of runs): it never is; spoils: runs
 * fail; lazy: runs do not copy updated inputs back. */
enum bp_status engined_state_call(void *self, struct engined_state *s, uint32_t input,
                                  uint32_t forget, const struct bp_view *view, void *stream)
{
    const struct bp_engine_run run = {.self = self, .device = s->device, .stream = stream};
    struct copy *copy = &s->copy[input];
    struct bp_view from = copy_view(copy, view);
    enum bp_status status = BP_OK;

    atomic_fetch_add(forget ? &engined.forgotten : &engined.given, 1);
    if (forget && engined_has("forget=ignores")) return BP_OK;
    pthread_mutex_lock(&s->lock);
    if (forget) copy->noted.memory = 0;
    else if (copy->lost || engined_has("state=fails"))
        status = bp_fail(engined_cpu.host, BP_ERR_DEVICE, "the value is lost");
    else if (copy->newer && !engined_has("state=silent"))
        status = engined_copy(&run, view, &from,
                              engined_has("state=half") ? copy->bytes / 2 : copy->bytes);
    if (status == BP_OK && !engined_has("state=newer")) copy->newer = false;
    if (forget) copy->lost = false;
    pthread_mutex_unlock(&s->lock);
    return status;
}
