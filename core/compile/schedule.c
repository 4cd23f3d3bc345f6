/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c: frees schedules, and keeps what their launches use until the work on the streams has
 * ended. */
#include "schedule.h"

#include "engine.h"

#include <stdlib.h>

void bp_schedule_add_user(struct bp_schedule *s, struct bp_timeline *timeline, uint64_t number)
{
    bool added;

    if (timeline->is_inline) return;
    pthread_mutex_lock(&s->lock);
    added = bp_users_add(&s->users, timeline, number);
    pthread_mutex_unlock(&s->lock);
    if (!added) bp_timeline_wait(timeline, number, &bp_deadline_none);
}

/* The prepared calls, whose plans kernels use, and the constants have users of their own, so that
 * each is freed when the work has ended. */
static void schedule_note_user(struct bp_schedule *s, const struct bp_user *user)
{
    for (uint32_t n = 0; n < s->n_launch; n++) {
        struct bp_prepared *p = s->launch[n].prepared;
        bool added;
        if (n && p == s->launch[n - 1].prepared) continue;
        pthread_mutex_lock(&s->device->lock);
        added = bp_users_add(&p->pending.users, user->timeline, user->number);
        pthread_mutex_unlock(&s->device->lock);
        if (!added) bp_timeline_wait(user->timeline, user->number, &bp_deadline_none);
    }
    for (uint32_t v = 0; v < s->ir->n_value; v++) {
        const struct bp_tensor *constant = s->ir->value[v].constant;
        if (constant) bp_buffer_record_use(constant->buffer, user->timeline, user->number);
    }
}

static void schedule_note_users(struct bp_schedule *s)
{
    for (uint32_t i = 0; i < s->users.n; i++) {
        const struct bp_user *user = i < BP_USERS_INLINE ? &s->users.at[i]
                                                         : &s->users.more[i - BP_USERS_INLINE];
        if (!bp_timeline_passed(user->timeline, user->number)) schedule_note_user(s, user);
    }
}

static void schedule_free(struct bp_schedule *s)
{
    bp_context_free_idle(s);
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
    bp_ir_destroy(s->ir);
    bp_users_finish(&s->users);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void bp_schedule_release(struct bp_schedule *s)
{
    if (atomic_fetch_sub(&s->refs, 1) == 1) schedule_free(s);
}

/* Tasks of queues may still have references. They read neither constants nor users. */
void bp_schedule_destroy(struct bp_schedule *s)
{
    if (!s) return;
    if (s->n_kept) bp_state_leave(s);
    if (s->shrinker.shrink) {
        bp_shrinker_unregister(s->device, &s->shrinker);
        if (s->n_content) atomic_fetch_sub(&s->device->n_writebacks, 1);
    }
    bp_context_free_idle(s);
    schedule_note_users(s);
    bp_ir_drop_constants(s->ir);
    bp_schedule_release(s);
}
