/* SPDX-License-Identifier: Apache-2.0 */
/* engine_state.c: runs groups whose engine keeps updated values from one run to the next, and gets
 * the values when something else needs the tensors (writeback.h).
 *
 * While an engine gives a value, no run of its group is submitted, and all runs have ended. */
#include "engine.h"
#include "schedule.h"

#include "../memory/writeback.h"
#include "../plugin/entry.h"

#include <stdlib.h>
#include <string.h>

/* A schedule whose launches this thread submits, so that a watcher that it calls does not wait for
 * the thread itself. */
static _Thread_local struct bp_state_run *submitted;

static struct bp_engine_code *code_of_keeper(struct bp_keeper *keeper)
{
    return (struct bp_engine_code *)(void *)((char *)keeper -
                                             offsetof(struct bp_engine_code, keeper));
}

/* Returns the code of launch n if its engine keeps values, or NULL. */
static struct bp_engine_code *keeping_code(const struct bp_schedule *s, uint32_t n)
{
    struct bp_engine_code *code = bp_engine_code_of(s->launch[n].prepared);

    return code && code->n_kept ? code : NULL;
}

/* ---- the keeper ---- */

static void keeper_retain(struct bp_keeper *keeper)
{
    bp_prepared_retain(code_of_keeper(keeper)->prepared);
}

static void keeper_release(struct bp_keeper *keeper)
{
    bp_prepared_release(code_of_keeper(keeper)->prepared);
}

/* How many submissions of the group this thread is in. */
static uint32_t state_inside(const struct bp_engine_code *code)
{
    uint32_t count = 0;

    for (const struct bp_state_run *run = submitted; run; run = run->outer)
        for (uint32_t n = 0; n < run->schedule->n_launch; n++)
            count += run->counted && keeping_code(run->schedule, n) == code;
    return count;
}

/* Notes that a run has ended. Called with the lock. */
static void user_remove(struct bp_engine_code *code, const struct bp_user *user)
{
    for (uint32_t i = 0; i < code->n_user; i++)
        if (code->user[i].timeline == user->timeline && code->user[i].number <= user->number)
            code->user[i--] = code->user[--code->n_user];
}

/* Waits for a run. The failure of a run is that of its stream: the engine knows which value it
 * has. */
static enum bp_status user_wait(const struct bp_engine_code *code, const struct bp_user *user)
{
    struct bp_deadline until = bp_deadline_of(code->device);
    enum bp_status status;

    TRY(bp_timeline_check_deadlock(user->timeline));
    status = bp_timeline_wait(user->timeline, user->number, &until);
    return bp_status_is_of_wait(status) ? status : BP_OK;
}

static enum bp_status keeper_begin(struct bp_keeper *keeper)
{
    struct bp_engine_code *code = code_of_keeper(keeper);
    uint32_t inside = state_inside(code);
    struct bp_user user;
    bool waits = true;

    pthread_mutex_lock(&code->lock);
    while (waits) {
        while (code->giving || code->submitting > inside)
            pthread_cond_wait(&code->turn, &code->lock);
        waits = code->n_user;
        if (!waits) break;
        user = code->user[0];
        pthread_mutex_unlock(&code->lock);
        TRY(user_wait(code, &user));
        pthread_mutex_lock(&code->lock);
        user_remove(code, &user);
    }
    code->giving = true;
    pthread_mutex_unlock(&code->lock);
    return BP_OK;
}

static void keeper_end(struct bp_keeper *keeper)
{
    struct bp_engine_code *code = code_of_keeper(keeper);

    pthread_mutex_lock(&code->lock);
    code->giving = false;
    pthread_cond_broadcast(&code->turn);
    pthread_mutex_unlock(&code->lock);
}

static enum bp_status state_call(const struct bp_engine_code *code, const struct bp_kept *kept,
                                 bool forget, struct bp_stream *stream)
{
    struct bp_timeline *timeline = stream->timeline;
    uint64_t number = bp_work_begin(timeline, "state of an engine");
    enum bp_status status;

    if (bp_process_is_stopping()) {
        status = bp_error_stopped();
    } else {
        bp_error_enter();
        status = code->engines->state(code->entry->self, code->device->index, code->engine,
                                      kept->input, forget, &kept->type.view, timeline->stream);
        status = bp_addon_leave(code->device, code->entry, status, "state");
    }
    bp_buffer_record_use(kept->buffer, timeline, number);
    bp_work_end(timeline, number);
    return status;
}

/* After a failure the value is lost: the next run reads what the app has written by then. */
static void state_forget(const struct bp_engine_code *code, const struct bp_buffer *buffer,
                         struct bp_stream *stream)
{
    char *before = strdup(bp_error_message());

    for (uint32_t k = 0; k < code->n_kept; k++)
        if (code->kept[k].buffer == buffer) state_call(code, &code->kept[k], true, stream);
    bp_stream_drain(stream);
    bp_error_write("%s", before ? before : "");
    free(before);
}

/* A stream of its own: that of the last run may be destroyed, and the reader's may record work. */
static enum bp_status keeper_give(struct bp_keeper *keeper, struct bp_buffer *buffer, bool forget)
{
    const struct bp_engine_code *code = code_of_keeper(keeper);
    uint32_t flags = code->device->is_inline ? BP_STREAM_INLINE : 0;
    struct bp_stream *stream;
    enum bp_status status;

    TRY(bp_stream_create_with(code->device, flags, &stream));
    status = BP_OK;
    for (uint32_t k = 0; k < code->n_kept && status == BP_OK; k++)
        if (code->kept[k].buffer == buffer)
            status = state_call(code, &code->kept[k], forget, stream);
    if (status == BP_OK) status = bp_stream_drain(stream);
    /* Whatever the reason, the value is given up: the work may end at any later time, and an engine
     * need not have the value after a failure. */
    if (status && bp_status_is_of_wait(status) && !forget)
        status = bp_error(BP_ERR_DEVICE, "state of an engine: %s", bp_error_message());
    if (status && !forget) state_forget(code, buffer, stream);
    bp_stream_destroy(stream);
    return status;
}

/* ---- groups ---- */

enum bp_status bp_state_add(struct bp_engine_code *code, uint32_t input, struct bp_tensor *tensor)
{
    struct bp_kept *kept = realloc(code->kept, (code->n_kept + 1u) * sizeof *kept);

    if (!kept) return bp_error(BP_ERR_MEMORY, "no host memory to compile a program");
    code->kept = kept;
    kept += code->n_kept++;
    *kept = (struct bp_kept){.input = input, .buffer = tensor->buffer, .first = tensor->offset,
                             .end = tensor->offset + bp_tensor_span(tensor)};
    bp_typed_view_init(&kept->type, &tensor->view);
    kept->type.view.data = tensor->view.data;
    kept->type.view.memory = tensor->view.memory;
    for (uint32_t k = 0; k < code->n_kept; k++) { /* the views have moved */
        code->kept[k].type.view.shape = code->kept[k].type.shape;
        code->kept[k].type.view.stride = code->kept[k].type.stride;
    }
    code->keeper = (struct bp_keeper){keeper_retain, keeper_release, keeper_begin, keeper_give,
                                      keeper_end};
    return BP_OK;
}

void bp_state_finish(struct bp_engine_code *code)
{
    free(code->kept);
    free(code->user);
    free(code->keeps);
    pthread_cond_destroy(&code->turn);
}

enum bp_status bp_state_write_through(const struct bp_engine_code *code, const struct bp_launch *l)
{
    for (uint32_t k = 0; k < code->n_kept; k++) {
        const struct bp_kept *kept = &code->kept[k];
        enum bp_status status;
        if (!bp_buffer_is_exposed(kept->buffer)) continue;
        status = code->engines->state(l->self, l->device, code->engine, kept->input, 0,
                                      l->in[kept->input], l->stream);
        if (status) return bp_error_leave(status, code->entry->plugin.name, "state");
    }
    return BP_OK;
}

/* ---- runs ---- */

static bool state_is_own(const struct bp_schedule *s, struct bp_buffer *buffer)
{
    for (uint32_t n = 0; s->n_kept && n < s->n_launch; n++) {
        struct bp_engine_code *code = keeping_code(s, n);
        if (code && bp_writeback_is(buffer, &code->keeper)) return true;
    }
    return false;
}

static enum bp_status state_settle_all(const struct bp_schedule *s, struct bp_tensor *const *in,
                                       struct bp_tensor *const *out)
{
    for (uint32_t i = 0; i < s->n_constant; i++) {
        struct bp_buffer *b = s->ir->value[s->value[s->constant[i]]->index].constant->buffer;
        if (!state_is_own(s, b)) TRY(bp_writeback_settle(b));
    }
    for (uint32_t i = 0; i < s->ir->n_input; i++) TRY(bp_writeback_settle(in[i]->buffer));
    for (uint32_t o = 0; o < s->ir->n_output; o++)
        if (out[o]) TRY(bp_writeback_settle(out[o]->buffer));
    return BP_OK;
}

enum bp_status bp_state_enter(const struct bp_schedule *s, struct bp_tensor *const *in,
                              struct bp_tensor *const *out)
{
    if (bp_device_has_writebacks(s->device)) TRY(state_settle_all(s, in, out));
    for (uint32_t n = 0; s->n_kept && n < s->n_launch; n++) {
        const struct bp_engine_code *code = keeping_code(s, n);
        for (uint32_t k = 0; code && k < code->n_kept; k++)
            TRY(bp_writeback_create(code->kept[k].buffer));
    }
    return BP_OK;
}

/* A watched run in a queue ends before its submission does, and the watcher may read tensors on
 * another thread. */
void bp_state_begin(const struct bp_schedule *s, bool waits_for_queue, struct bp_state_run *run)
{
    *run = (struct bp_state_run){.schedule = s, .counted = !waits_for_queue, .outer = submitted};
    for (uint32_t n = 0; n < s->n_launch; n++) {
        struct bp_engine_code *code = keeping_code(s, n);
        if (!code) continue;
        pthread_mutex_lock(&code->lock);
        while (code->giving) pthread_cond_wait(&code->turn, &code->lock);
        code->submitting += run->counted;
        pthread_mutex_unlock(&code->lock);
    }
    submitted = run;
}

/* Called with the lock. Without memory the work is waited for. */
static bool user_add(struct bp_engine_code *code, struct bp_timeline *timeline, uint64_t number)
{
    struct bp_user *more;

    for (uint32_t i = 0; i < code->n_user; i++)
        if (code->user[i].timeline == timeline) {
            if (code->user[i].number < number) code->user[i].number = number;
            return true;
        }
    more = realloc(code->user, (code->n_user + 1u) * sizeof *more);
    if (!more) return false;
    code->user = more;
    more[code->n_user++] = (struct bp_user){timeline, number};
    return true;
}

static void code_end_run(struct bp_engine_code *code, const struct bp_state_run *run,
                         struct bp_timeline *timeline)
{
    uint64_t number = atomic_load(&timeline->last);
    bool added;

    pthread_mutex_lock(&code->lock);
    added = timeline->is_inline || user_add(code, timeline, number);
    code->submitting -= run->counted;
    pthread_cond_broadcast(&code->turn);
    pthread_mutex_unlock(&code->lock);
    if (!added) bp_timeline_wait(timeline, number, &bp_deadline_none);
    if (timeline->recording) return; /* nothing has run, and the group refuses to be recorded */
    for (uint32_t k = 0; k < code->n_kept; k++) {
        const struct bp_kept *kept = &code->kept[k];
        if (!bp_buffer_is_exposed(kept->buffer))
            bp_writeback_set(kept->buffer, &code->keeper, kept->first, kept->end);
    }
}

void bp_state_end(struct bp_state_run *run, struct bp_timeline *timeline)
{
    const struct bp_schedule *s = run->schedule;

    submitted = run->outer;
    for (uint32_t n = 0; n < s->n_launch; n++)
        if (keeping_code(s, n)) code_end_run(keeping_code(s, n), run, timeline);
}

void bp_state_leave(const struct bp_schedule *s)
{
    char *before = strdup(bp_error_message());

    for (uint32_t n = 0; n < s->n_launch; n++) {
        struct bp_engine_code *code = keeping_code(s, n);
        for (uint32_t k = 0; code && k < code->n_kept; k++) {
            if (!bp_writeback_is(code->kept[k].buffer, &code->keeper)) continue;
            if (bp_writeback_settle(code->kept[k].buffer) == BP_OK) continue;
            bp_core_log(s->device->core, BP_LOG_WARN,
                        "%s: a program was destroyed, and the engine of %s has not given a value "
                        "that it keeps: %s",
                        s->device->name, code->entry->plugin.name, bp_error_message());
        }
    }
    if (before) bp_error_write("%s", before);
    free(before);
}
