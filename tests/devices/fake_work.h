/* SPDX-License-Identifier: Apache-2.0 */
/* fake_work.h: declares the work items of the fake device, and their streams. An item has a
 * position in its stream, counted from 1. An event, and a wait for it, name a stream and a
 * position. Destroyed streams are kept until their instance ends, because events and waits may name
 * them. */
#ifndef BP_TEST_FAKE_WORK_H
#define BP_TEST_FAKE_WORK_H

#include "fake_parts.h"

#include <pthread.h>

enum { DEVICES = 2, STREAMS = 256, OPERANDS = 8, AXES = 8, ATTRS = 256 };

/* A copy of a launch, with everything that is valid only during the launch call. */
struct launch {
    struct bp_launch l;
    const struct bp_view *views[OPERANDS];
    struct bp_view view[OPERANDS];
    int64_t shape[OPERANDS][AXES], stride[OPERANDS][AXES];
    _Alignas(16) char attrs[ATTRS];
};

/* A work item: a wait for a position, a launch, a copy, or nothing. */
struct job {
    struct job *next;
    struct stream *of;
    uint64_t at;
    struct launch *launch;
    struct bp_copy copy;
    bool held;
    enum bp_status doom; /* the status with which it will fail */
    char staged[];
};

struct stream {
    struct stream *next;
    uint32_t device, index; /* index: for `work=told` */
    struct job *first, **end;
    uint64_t given, done;
    uint64_t failed_at; /* of the failure that has not been reported yet */
    enum bp_status failure;
    const char *reason;
    uint64_t *after; /* `work=told`: later work runs after these positions */
    struct job *recorded, **recorded_end; /* of a capture; recorded_end NULL: none is open */
};

struct event {
    struct stream *of;
    uint64_t at;
    uint64_t after[]; /* for `work=told` */
};

struct fake_work {
    struct fake_work *next;
    pthread_t thread;
    struct stream *whole[DEVICES], *streams, *retired; /* used without a stream; all; destroyed */
    bool runs, ending;                              /* state of the thread */
};

/* State that all instances share. */
extern struct fake_all {
    pthread_mutex_t lock; /* of all members below */
    pthread_cond_t changed;
    struct fake_work *works;
    struct stream *numbered[STREAMS]; /* for `work=told` */
    uint32_t n_numbered;
    uint64_t n_ended;
    enum bp_status next_failure;
    bool holding, lost, muted;
} fake_all;

/* The following are called with the lock held. */

void fake_launch_destroy(struct launch *launch);
/* Copies a launch, with everything that is valid only during the launch call. */
struct launch *fake_launch_copy(const struct bp_launch *l, const struct bp_host *host);
/* fake_job_end runs the first item of a stream. fake_can_end returns whether that item can run.
 * fake_run_to runs the items up to a position. */
void fake_job_end(struct stream *s);
bool fake_can_end(const struct stream *s);
void fake_run_to(struct stream *s, uint64_t at);
/* Like fake_run_to, or waits until the thread has run that item; other streams' work runs
 * meanwhile. */
void fake_wait_to(struct stream *s, uint64_t at);
enum bp_status fake_gone(struct fake_instance *f);
/* Returns the failure of work up to that position, once; BP_OK if the script suppresses it. */
enum bp_status fake_report(struct fake_instance *f, struct stream *s, uint64_t at, bool mute);
/* Counts a query; after some queries an item runs, so that polling without a wait ends, too. */
void fake_be_queried(const struct event *e);
/* NULL: out of memory. */
struct stream *fake_stream_add(struct fake_work *w, uint32_t device);

/* The following are called without the lock. */

static inline struct stream *fake_stream_of(struct fake_instance *f, uint32_t device, void *stream)
{
    return stream ? stream : f->work->whole[device];
}
/* Submits an item. staged: with a copy of the data to copy. */
enum bp_status fake_give(struct fake_instance *f, struct stream *s, const struct job *what,
                         bool staged);

#endif
