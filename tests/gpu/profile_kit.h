/* SPDX-License-Identifier: Apache-2.0 */
/* profile_kit.h: runs the profiler of plugins/gpu without the core, on the stand-ins for CUPTI and
 * roctracer: takes the records, and tags launches as the core does. */
#ifndef BP_TEST_GPU_PROFILE_KIT_H
#define BP_TEST_GPU_PROFILE_KIT_H

#include "kit.h"
#include <backplane/profiler.h>
#include <pthread.h>

enum {
    TAKEN_MAX = 20000
};

/* A record that the plugin has handed over. */
struct taken {
    struct bp_record record;
    char name[96];
};

/* The records of one device. */
struct taker {
    struct bp_record_sink sink;
    pthread_mutex_t lock;
    struct taken taken[TAKEN_MAX];
    size_t n;
    bool closed; /* a record after stop is a failure */
};

/* A tracer of the plugin, as the cases are run with it. */
struct tracer {
    const char *name, *setting, *other; /* the settings for its library, and for the other one's */
    const char *path;                   /* of its stand-in */
};

void profile_ok(enum bp_status status, const char *what);
/* Sets the tracer's library, and creates the plugin's world. */
void profile_world(struct world *w, const struct tracer *tracer, const char *plugin);
enum bp_status profile_start(struct world *w, uint32_t device, struct taker *taker);
void profile_stop(struct world *w, uint32_t device, struct taker *taker);
/* The world's end, at which nothing may be left. */
void profile_end(struct world *w, const char *driver);

/* Between these calls the work of the thread has this tag. */
void profile_tag(struct world *w, uint32_t device, void *stream, uint64_t tag);
/* Tagged work: a launch on stream 0; and a copy of 64 bytes within device 0, on any stream. */
void tagged_launch(struct world *w, uint64_t tag);
void tagged_copy(struct world *w, void *stream, uint64_t tag);
void profile_wait(struct world *w);

/* The number of records of a kind, on a stream (NULL: any), with a tag (0: any). */
size_t taken_count(const struct taker *taker, uint32_t kind, const void *stream, uint64_t tag);
/* Checks that each tag from 1 to n has one record of this kind on the stream. */
void taken_each(const struct taker *taker, uint32_t kind, const void *stream, uint64_t n);

/* A function of a stand-in without arguments that returns an int, by its name; and the same of one
 * that takes bytes. */
int standin_number(const struct tracer *tracer, const char *function);
void standin_put(const struct tracer *tracer, const char *function, const void *record,
                 size_t size);

#endif
