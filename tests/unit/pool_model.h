/* SPDX-License-Identifier: Apache-2.0 */
/* pool_model.h: what is known of a device's memory without asking the allocator: which blocks live,
 * which work used which. A plain list, searched from end to end. */
#ifndef BP_TEST_POOL_MODEL_H
#define BP_TEST_POOL_MODEL_H

#include "memory/pool.h"

#include "../devices/fake.h"

enum {
    MODEL_BLOCKS = 200, MODEL_STREAMS = 5, MODEL_USES = 8, MODEL_CAPTURES = 3, MODEL_HELD = 256,
};

/* A piece of work: the place in a stream of the plugin's. */
struct use {
    uint32_t index;
    uint64_t position;
};

struct block {
    struct bp_buffer *storage; /* NULL: given back */
    uintptr_t first;
    uint64_t size;
    uint32_t n_use;
    struct use use[MODEL_USES];
    uint32_t captured; /* one more than the place of its capture; 0: none */
};

/* A capture of a stream's, and what it was given: nobody else gets that while it is there. */
struct recording {
    struct bp_pool *pool;     /* NULL: there is none */
    struct bp_stream *stream; /* NULL: it has ended */
    struct bp_stream *runner; /* runs what was recorded; NULL: nobody has */
    struct bp_timeline *timeline;
    uint64_t number; /* of the last run, */
    struct use run;  /* which is this */
    uint32_t n;
    struct block held[MODEL_HELD];
};

struct model {
    struct fake *paced;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream[MODEL_STREAMS]; /* or NULL */
    struct block live[MODEL_BLOCKS];
    uint32_t n_live;
    struct block *past; /* given back, work that used it has not ended */
    uint32_t n_past, room;
    uint64_t limit, failures, pressed;
    bool tight, shared; /* large pieces, little memory, many waits; much pinned memory */
    bool records; /* with captures */
    struct recording recording[MODEL_CAPTURES];
    uint64_t random;
    struct bp_shrinker pressure;
    char wrong[512]; /* what was found first */
};

uint64_t model_pick(struct model *m, uint64_t below);
void *model_native(struct bp_stream *stream);
bool model_overlaps(const struct block *a, const struct block *b);
void model_note_use(struct block *b, struct use u, const struct fake *paced);
void model_past(struct model *m, const struct block *b);

/* pool_capture.c: begins, ends, runs or destroys a capture. */
void model_record(struct model *m);
/* What came to be is held by the capture that is open on taker, if any; and by no other. */
void model_hold(struct model *m, struct block *b, const struct bp_stream *taker);
/* The stream goes; NULL: all do, with all captures. */
void model_stop(struct model *m, const struct bp_stream *stream);
bool model_is_open(const struct model *m);

/* Notes what is wrong, once. */
void model_wrong(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All that is kept in the allocator against all that is known: called after each step. */
void model_check(struct model *m);

#endif
