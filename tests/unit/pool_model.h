/* SPDX-License-Identifier: Apache-2.0 */
/* pool_model.h: models a device's memory without the allocator: which blocks are live, and which
 * work has used each block. It is a plain list that is searched linearly. */
#ifndef BP_TEST_POOL_MODEL_H
#define BP_TEST_POOL_MODEL_H

#include "memory/pool.h"

#include "../devices/fake.h"

enum {
    MODEL_BLOCKS = 200, MODEL_STREAMS = 5, MODEL_USES = 8, MODEL_CAPTURES = 3, MODEL_HELD = 256,
};

/* One piece of work: its position in a stream of the plugin. */
struct use {
    uint32_t index;
    uint64_t position;
};

struct block {
    struct bp_buffer *buffer; /* NULL: freed */
    uintptr_t first;
    uint64_t size;
    uint32_t n_use;
    struct use use[MODEL_USES];
    uint32_t captured; /* one more than the index of its capture; 0: none */
};

/* A capture of a stream, and the blocks that it allocated: no other user gets them while the
 * capture exists. */
struct recording {
    struct bp_pool *pool;     /* NULL: there is no capture */
    struct bp_stream *stream; /* NULL: the capture has ended */
    struct bp_stream *runner; /* runs the recorded work; NULL: it has not run */
    struct bp_timeline *timeline;
    uint64_t number; /* of the last run on the timeline */
    struct use run;  /* the last run */
    uint32_t n;
    struct block held[MODEL_HELD];
};

struct model {
    struct fake *fake;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream[MODEL_STREAMS]; /* or NULL */
    struct block live[MODEL_BLOCKS];
    uint32_t n_live;
    struct block *retired; /* freed blocks whose work has not ended */
    uint32_t n_retired, room;
    uint64_t limit, failures, pressed;
    bool tight, shared; /* large blocks, a small budget, many waits; much pinned memory */
    bool records; /* the trace has captures */
    struct recording recording[MODEL_CAPTURES];
    uint64_t random;
    struct bp_shrinker pressure;
    char wrong[512]; /* the first error found */
};

uint64_t model_pick(struct model *m, uint64_t below);
void *model_native(struct bp_stream *stream);
bool model_overlaps(const struct block *a, const struct block *b);
void model_note_use(struct block *b, struct use u, const struct fake *fake);
void model_retire(struct model *m, const struct block *b);

/* pool_capture.c: begins, ends, runs or destroys a capture. */
void model_record(struct model *m);
/* Notes that the open capture of `taker`, if any, holds a new block, and that no other capture
 * does. */
void model_hold(struct model *m, struct block *b, const struct bp_stream *taker);
/* The stream is about to be destroyed; NULL: all streams and all captures. */
void model_stop(struct model *m, const struct bp_stream *stream);
bool model_is_open(const struct model *m);

/* Stores the first error only. */
void model_wrong(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Compares the state of the allocator with the model; called after each step. */
void model_check(struct model *m);

#endif
