/* SPDX-License-Identifier: Apache-2.0 */
/* ordering.c: records which work of other timelines a timeline runs after, by the waits that were
 * inserted; and which work uses an object. */
#include "device.h"

#include <stdlib.h>
#include <string.h>

/* Called with the timeline locked. If host memory runs out, the wait is not recorded: memory is
 * then reused later than possible, which is safe. */
static void ordering_add(struct bp_timeline *timeline, struct bp_timeline *of, uint64_t number)
{
    struct bp_ordering *ordering;
    uint64_t at = atomic_load_explicit(&timeline->last, memory_order_relaxed);

    for (uint32_t i = 0; i < timeline->n_ordering; i++) {
        ordering = &timeline->orderings[i];
        if (ordering->of != of) continue;
        if (ordering->number < number) *ordering = (struct bp_ordering){of, number, at};
        return;
    }
    if (timeline->n_ordering == timeline->room) {
        uint32_t room = timeline->room ? 2 * timeline->room : 8;
        ordering = realloc(timeline->orderings, room * sizeof *ordering);
        if (!ordering) return;
        timeline->orderings = ordering;
        timeline->room = room;
    }
    timeline->orderings[timeline->n_ordering++] = (struct bp_ordering){of, number, at};
}

/* Also copies the waits that `other` made before its work `number` was submitted. */
void bp_timeline_record_order(struct bp_timeline *timeline, struct bp_timeline *other,
                              uint64_t number)
{
    struct bp_ordering *copy = NULL;
    uint32_t n = 0;

    if (timeline->device != other->device) return;
    pthread_mutex_lock(&other->lock);
    if (other->n_ordering) copy = malloc(other->n_ordering * sizeof *copy);
    for (uint32_t i = 0; copy && i < other->n_ordering; i++)
        if (other->orderings[i].at < number) copy[n++] = other->orderings[i];
    pthread_mutex_unlock(&other->lock);

    pthread_mutex_lock(&timeline->lock);
    ordering_add(timeline, other, number);
    for (uint32_t i = 0; i < n; i++)
        if (copy[i].of != timeline) ordering_add(timeline, copy[i].of, copy[i].number);
    pthread_mutex_unlock(&timeline->lock);
    free(copy);
}

bool bp_timeline_is_after(struct bp_timeline *timeline, struct bp_timeline *other, uint64_t number)
{
    bool is_after = false;

    if (timeline == other) return true;
    if (timeline->is_inline) return false;
    pthread_mutex_lock(&timeline->lock);
    for (uint32_t i = 0; i < timeline->n_ordering && !is_after; i++)
        is_after = timeline->orderings[i].of == other && timeline->orderings[i].number >= number;
    pthread_mutex_unlock(&timeline->lock);
    return is_after;
}

/* While the timeline is in use its orderings may change but are never removed. */
bool bp_timeline_waits_passed(struct bp_timeline *timeline, bool poll)
{
    for (uint32_t i = 0;; i++) {
        struct bp_ordering ordering = {0};
        pthread_mutex_lock(&timeline->lock);
        if (i < timeline->n_ordering) ordering = timeline->orderings[i];
        pthread_mutex_unlock(&timeline->lock);
        if (!ordering.of) return true;
        if (bp_timeline_passed(ordering.of, ordering.number)) continue;
        if (!poll || !bp_timeline_poll(ordering.of, ordering.number)) return false;
    }
}

static struct bp_user *ordering_user_at(struct bp_users *users, uint32_t i)
{
    return i < BP_USERS_INLINE ? &users->at[i] : &users->more[i - BP_USERS_INLINE];
}

bool bp_users_add(struct bp_users *users, struct bp_timeline *timeline, uint64_t number)
{
    struct bp_user *more;

    for (uint32_t i = 0; i < users->n; i++) {
        struct bp_user *user = ordering_user_at(users, i);
        if (user->timeline != timeline) continue;
        if (user->number < number) user->number = number;
        return true;
    }
    if (users->n >= BP_USERS_INLINE && users->n - BP_USERS_INLINE == users->room) {
        uint32_t room = users->room ? 2 * users->room : BP_USERS_INLINE;
        more = realloc(users->more, room * sizeof *more);
        if (!more) return false;
        users->more = more;
        users->room = room;
    }
    *ordering_user_at(users, users->n++) = (struct bp_user){timeline, number};
    return true;
}

bool bp_users_passed(const struct bp_users *users, bool poll)
{
    for (uint32_t i = 0; i < users->n; i++) {
        const struct bp_user *user = i < BP_USERS_INLINE ? &users->at[i]
                                                         : &users->more[i - BP_USERS_INLINE];
        if (bp_timeline_passed(user->timeline, user->number)) continue;
        if (!poll || !bp_timeline_poll(user->timeline, user->number)) return false;
    }
    return true;
}

void bp_users_finish(struct bp_users *users)
{
    free(users->more);
    *users = (struct bp_users){0};
}

enum bp_status bp_snapshot_init(struct bp_device *device, struct bp_timeline *only,
                                struct bp_snapshot *out_snapshot)
{
    struct bp_timeline *t = only ? only : atomic_load(&device->timelines);

    *out_snapshot = (struct bp_snapshot){0};
    for (; t; t = only ? NULL : t->next)
        if (!t->is_inline &&
            !bp_users_add(&out_snapshot->users, t,
                          atomic_load_explicit(&t->submitted, memory_order_acquire))) {
            bp_snapshot_finish(out_snapshot);
            return bp_error(BP_ERR_MEMORY, "%s: no memory to wait for its streams", device->name);
        }
    return BP_OK;
}

void bp_snapshot_advance(const struct bp_snapshot *snapshot)
{
    const struct bp_users *users = &snapshot->users;

    for (uint32_t i = 0; i < users->n; i++) {
        const struct bp_user *user = i < BP_USERS_INLINE ? &users->at[i]
                                                         : &users->more[i - BP_USERS_INLINE];
        if (!user->timeline->queue) bp_timeline_advance(user->timeline, user->number);
    }
}

void bp_snapshot_finish(struct bp_snapshot *snapshot)
{
    bp_users_finish(&snapshot->users);
}
