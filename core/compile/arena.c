/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c: plans the memory of a schedule: values whose lifetimes do not meet share bytes of one
 * arena. */
#include "schedule.h"

#include <stdlib.h>

enum {
    ARENA_ALIGNMENT = 64,
    GUARD = 64 /* bytes behind each value, if they are checked */
};
/* The most bytes of a value, and of the arena, so that sums do not wrap. */
static const uint64_t max_bytes = UINT64_MAX / 4;

/* A free range of the arena. The ranges are sorted, and two of them never touch. */
struct range {
    uint64_t at, bytes;
};
struct arena {
    struct range *free;
    uint32_t n, room;
    uint64_t end; /* the arena's bytes so far */
};

static void value_extend(struct bp_schedule *s, uint32_t value, uint32_t launch)
{
    struct bp_scheduled_value *root;

    if (value == BP_NO_VALUE) return;
    root = s->value[s->value[value]->root];
    if (root->first == BP_NO_VALUE) root->first = launch;
    root->last = launch;
}

static void find_lifetimes(struct bp_schedule *s)
{
    for (uint32_t n = 0; n < s->n_launch; n++) {
        const struct bp_scheduled_launch *l = &s->launch[n];
        uint32_t n_value = l->step->launch.n_in + l->step->launch.n_out;
        for (uint32_t i = 0; i < n_value; i++) value_extend(s, l->value[i], n);
        value_extend(s, l->workspace, n);
    }
}

static uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static void range_remove(struct arena *a, uint32_t i)
{
    a->n--;
    for (; i < a->n; i++) a->free[i] = a->free[i + 1];
}

static enum bp_status range_insert(struct arena *a, uint32_t i, struct range range)
{
    if (a->n == a->room) {
        uint32_t room = a->room ? 2 * a->room : 64;
        struct range *free = realloc(a->free, room * sizeof *free);
        if (!free) return bp_error(BP_ERR_MEMORY, "no host memory to plan a program's memory");
        a->free = free;
        a->room = room;
    }
    for (uint32_t k = a->n++; k > i; k--) a->free[k] = a->free[k - 1];
    a->free[i] = range;
    return BP_OK;
}

/* Adds a range to the free ones, and joins it with its neighbours. */
static enum bp_status arena_free(struct arena *a, uint64_t at, uint64_t bytes)
{
    uint32_t i = 0;

    if (!bytes) return BP_OK;
    while (i < a->n && a->free[i].at < at) i++;
    if (i && a->free[i - 1].at + a->free[i - 1].bytes == at) {
        a->free[--i].bytes += bytes;
    } else {
        TRY(range_insert(a, i, (struct range){at, bytes}));
    }
    if (i + 1 < a->n && a->free[i].at + a->free[i].bytes == a->free[i + 1].at) {
        a->free[i].bytes += a->free[i + 1].bytes;
        range_remove(a, i + 1);
    }
    return BP_OK;
}

/* Takes bytes from free range i, from offset `at` on. */
static enum bp_status range_take(struct arena *a, uint32_t i, uint64_t at, uint64_t bytes)
{
    struct range old = a->free[i];

    range_remove(a, i);
    TRY(arena_free(a, old.at, at - old.at));
    return arena_free(a, at + bytes, old.at + old.bytes - at - bytes);
}

/* Allocates bytes in the smallest free range that has room for them (best fit), otherwise at the
 * arena's end, which grows. */
static enum bp_status arena_allocate(struct arena *a, uint64_t bytes, uint64_t alignment,
                                     uint64_t *out_at)
{
    uint32_t best = a->n;
    uint64_t at;

    for (uint32_t i = 0; i < a->n; i++) {
        at = round_up(a->free[i].at, alignment);
        if (at + bytes <= a->free[i].at + a->free[i].bytes &&
            (best == a->n || a->free[i].bytes < a->free[best].bytes))
            best = i;
    }
    if (best < a->n) {
        *out_at = round_up(a->free[best].at, alignment);
        return range_take(a, best, *out_at, bytes);
    }
    if (a->n && a->free[a->n - 1].at + a->free[a->n - 1].bytes == a->end) { /* grow the last one */
        struct range last = a->free[--a->n];
        at = round_up(last.at, alignment);
        a->end = at + bytes;
        *out_at = at;
        return arena_free(a, last.at, at - last.at);
    }
    at = round_up(a->end, alignment);
    TRY(arena_free(a, a->end, at - a->end));
    a->end = at + bytes;
    *out_at = at;
    return BP_OK;
}

/* The values of the arena, in lists of those that a launch uses first, and of those that it uses
 * last. */
struct events {
    uint32_t *first, *last;           /* of each launch: the head of its list, or BP_NO_VALUE */
    uint32_t *next_first, *next_last; /* of each value: the next one in its list */
};

static bool value_is_planned(const struct bp_schedule *s, uint32_t v)
{
    const struct bp_scheduled_value *value = s->value[v];

    return value->root == v && value->source == BP_SOURCE_ARENA && value->first != BP_NO_VALUE &&
           value->bytes;
}

static enum bp_status events_init(const struct bp_schedule *s, struct events *e)
{
    uint32_t n = s->n_launch + s->n_value;

    e->first = malloc((2 * (size_t)n + 1) * sizeof *e->first);
    if (!e->first) return bp_error(BP_ERR_MEMORY, "no host memory to plan a program's memory");
    e->last = e->first + s->n_launch;
    e->next_first = e->last + s->n_launch;
    e->next_last = e->next_first + s->n_value;
    for (uint32_t i = 0; i < s->n_launch; i++) e->first[i] = e->last[i] = BP_NO_VALUE;
    for (uint32_t v = s->n_value; v-- > 0;) {
        const struct bp_scheduled_value *value = s->value[v];
        if (!value_is_planned(s, v)) continue;
        e->next_first[v] = e->first[value->first];
        e->first[value->first] = v;
        e->next_last[v] = e->last[value->last];
        e->last[value->last] = v;
    }
    return BP_OK;
}

static enum bp_status plan_launch(struct bp_schedule *s, const struct events *e, uint32_t launch,
                                  struct arena *a)
{
    for (uint32_t v = e->first[launch]; v != BP_NO_VALUE; v = e->next_first[v]) {
        struct bp_scheduled_value *value = s->value[v];
        if (value->bytes > max_bytes || a->end > max_bytes)
            return bp_error(BP_ERR_UNSUPPORTED, "its values have more than 2^62 bytes");
        if (s->has_guards) value->guard = value->bytes;
        value->bytes = round_up(value->bytes + (s->has_guards ? GUARD : 0), ARENA_ALIGNMENT);
        if (s->has_guards) value->guard = value->bytes - value->guard;
        if (value->alignment < ARENA_ALIGNMENT) value->alignment = ARENA_ALIGNMENT;
        if (value->alignment < s->device->alignment) value->alignment = s->device->alignment;
        if (s->alignment < value->alignment) s->alignment = value->alignment;
        s->unplanned += value->bytes;
        TRY(arena_allocate(a, value->bytes, value->alignment, &value->at));
    }
    for (uint32_t v = e->last[launch]; v != BP_NO_VALUE; v = e->next_last[v])
        TRY(arena_free(a, s->value[v]->at, s->value[v]->bytes));
    return BP_OK;
}

enum bp_status bp_schedule_plan_memory(struct bp_schedule *s)
{
    struct arena a = {0};
    struct events e;
    enum bp_status status;

    find_lifetimes(s);
    s->has_guards = bp_guards_wanted(s->device);
    s->alignment = ARENA_ALIGNMENT;
    TRY(events_init(s, &e));
    status = BP_OK;
    for (uint32_t n = 0; n < s->n_launch && status == BP_OK; n++)
        status = plan_launch(s, &e, n, &a);
    s->arena = a.end;
    free(a.free);
    free(e.first);
    return status;
}
