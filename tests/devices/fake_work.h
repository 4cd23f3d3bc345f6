/* SPDX-License-Identifier: Apache-2.0 */
/* fake_work.h: pieces of work of the fake device, and the streams that they are in. A piece has a
 * place in its stream, from 1 on; an event, and a wait for it, name a stream and a place. Streams
 * that were destroyed stay until their instance ends, for these name them. */
#ifndef BP_TEST_FAKE_WORK_H
#define BP_TEST_FAKE_WORK_H

#include "fake_parts.h"

#include <pthread.h>

enum { DEVICES = 2, STREAMS = 256, OPERANDS = 8, AXES = 8, ATTRS = 128 };

/* A launch, with all that is valid during its call only. */
struct launch {
    struct bp_launch l;
    const struct bp_view *views[OPERANDS];
    struct bp_view view[OPERANDS];
    int64_t shape[OPERANDS][AXES], stride[OPERANDS][AXES];
    _Alignas(16) char attrs[ATTRS];
};

/* A wait for a place, a launch, a copy; or nothing. */
struct job {
    struct job *next;
    struct stream *of;
    uint64_t at;
    struct launch *launch;
    struct bp_copy copy;
    bool held;
    enum bp_status doom; /* with which it will fail */
    char staged[];
};

struct stream {
    struct stream *next;
    uint32_t device, index; /* index: of work=told */
    struct job *first, **end;
    uint64_t given, done;
    uint64_t failed_at; /* of the failure that nobody has been told of */
    enum bp_status failure;
    const char *reason;
    uint64_t *after; /* told: what is given from now on comes after these places */
};

struct event {
    struct stream *of;
    uint64_t at;
    uint64_t after[]; /* told */
};

struct fake_work {
    struct fake_work *next;
    pthread_t thread;
    struct stream *whole[DEVICES], *streams, *past; /* of who has no stream; all; all destroyed */
    bool runs, ending; /* the thread */
};

/* Of all instances. */
extern struct fake_all {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    struct fake_work *works;
    struct stream *numbered[STREAMS]; /* told */
    uint32_t n_numbered;
    uint64_t n_ended;
    enum bp_status next_failure;
    bool holding, lost, muted;
} fake_all;

/* Under the lock: */

void fake_launch_destroy(struct launch *launch);
/* The first piece of work of a stream runs, and whether it can. */
void fake_job_end(struct stream *s);
bool fake_can_end(const struct stream *s);
void fake_run_to(struct stream *s, uint64_t at);
/* The same, or waits until the thread has done it; the work of others runs meanwhile. */
void fake_wait_to(struct stream *s, uint64_t at);
enum bp_status fake_gone(struct fake_instance *f);
/* The failure of work up to that place, once; or nothing, where the script says so. */
enum bp_status fake_tell(struct fake_instance *f, struct stream *s, uint64_t at, bool mute);
/* Who only asks gets there too, some time. */
void fake_be_asked(const struct event *e);
/* NULL: there is no memory. */
struct stream *fake_stream_add(struct fake_work *w, uint32_t device);

/* Not under the lock: */

static inline struct stream *fake_stream_of(struct fake_instance *f, uint32_t device, void *stream)
{
    return stream ? stream : f->work->whole[device];
}
/* staged: with a copy of what is copied. */
enum bp_status fake_give(struct fake_instance *f, struct stream *s, const struct job *what,
                         bool staged);

#endif
