/* SPDX-License-Identifier: Apache-2.0 */
/* ranges.c: records the app's ranges and marks, and passes them on to plugins, whose vendors' tools
 * show them. */
#include "profile.h"

#include <stdio.h>
#include <stdlib.h>

/* Deeper ranges are only counted, so that their ends match. */
enum {
    DEPTH = 64,
    LENGTH = 128
};

struct ranges {
    uint32_t depth;
    struct {
        uint64_t began; /* 0: nothing was recorded then */
        char name[LENGTH];
    } at[DEPTH];
};

static _Thread_local struct ranges *own; /* freed with the thread */
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER; /* guards listeners */
static struct bp_range_listener *listeners;
static _Atomic uint32_t n_listener;

void bp_range_add_listener(struct bp_range_listener *listener)
{
    pthread_rwlock_wrlock(&lock);
    listener->next = listeners;
    listeners = listener;
    atomic_fetch_add(&n_listener, 1);
    pthread_rwlock_unlock(&lock);
}

void bp_range_remove_listener(struct bp_range_listener *listener)
{
    struct bp_range_listener **at;

    pthread_rwlock_wrlock(&lock);
    for (at = &listeners; *at && *at != listener; at = &(*at)->next) continue;
    if (*at) {
        *at = listener->next;
        atomic_fetch_sub(&n_listener, 1);
    }
    pthread_rwlock_unlock(&lock);
}

void bp_ranges_after_fork(void)
{
    pthread_rwlock_init(&lock, NULL);
    listeners = NULL;
    atomic_store(&n_listener, 0);
}

enum ranges_event {
    RANGES_BEGIN,
    RANGES_END,
    RANGES_MARK
};

static void listeners_call(enum ranges_event event, const char *name)
{
    if (!atomic_load_explicit(&n_listener, memory_order_relaxed)) return;
    pthread_rwlock_rdlock(&lock);
    for (struct bp_range_listener *l = listeners; l; l = l->next)
        if (event == RANGES_BEGIN && l->begin) l->begin(l->self, name);
        else if (event == RANGES_END && l->end) l->end(l->self);
        else if (event == RANGES_MARK && l->mark) l->mark(l->self, name);
    pthread_rwlock_unlock(&lock);
}

static void ranges_make_key(void)
{
    pthread_key_create(&key, free);
}

static struct ranges *ranges_of_thread(void)
{
    if (own) return own;
    pthread_once(&once, ranges_make_key);
    own = calloc(1, sizeof *own);
    if (own && pthread_setspecific(key, own)) {
        free(own);
        own = NULL;
    }
    return own;
}

void bp_range_begin(const char *name)
{
    struct ranges *r = ranges_of_thread();

    if (!name) name = "";
    listeners_call(RANGES_BEGIN, name);
    if (!r) return;
    if (r->depth < DEPTH) {
        r->at[r->depth].began = bp_profile_begin();
        if (r->at[r->depth].began) snprintf(r->at[r->depth].name, LENGTH, "%s", name);
    }
    r->depth++;
}

void bp_range_end(void)
{
    struct ranges *r = ranges_of_thread();

    if (!r || !r->depth) return; /* there was no range */
    listeners_call(RANGES_END, NULL);
    if (--r->depth >= DEPTH || !r->at[r->depth].began || !bp_profile_is_on()) return;
    bp_profile_put(&(struct bp_profile_put){.begin = r->at[r->depth].began,
                                            .end = bp_profile_now(),
                                            .text = r->at[r->depth].name,
                                            .kind = BP_PROFILE_RANGE});
}

void bp_mark(const char *name)
{
    uint64_t now = bp_profile_begin();

    listeners_call(RANGES_MARK, name ? name : "");
    if (now)
        bp_profile_put(&(struct bp_profile_put){
            .begin = now, .end = now, .text = name, .kind = BP_PROFILE_MARK});
}
