/* SPDX-License-Identifier: Apache-2.0 */
/* pool_model.h: what is known of a device's memory without asking the allocator: which blocks live,
 * which work used which. A plain list, searched from end to end. */
#ifndef BP_TEST_POOL_MODEL_H
#define BP_TEST_POOL_MODEL_H

#include "memory/pool.h"

#include "../plugins/paced.h"

enum { MODEL_BLOCKS = 200, MODEL_STREAMS = 5, MODEL_USES = 8 };

/* A piece of work: the place in a stream of the plugin's. */
struct use {
    uint32_t index;
    uint64_t position;
};

struct block {
    struct bp_storage *storage; /* NULL: given back */
    uintptr_t first;
    uint64_t size;
    uint32_t n_use;
    struct use use[MODEL_USES];
};

struct model {
    struct paced *paced;
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream[MODEL_STREAMS]; /* or NULL */
    struct block live[MODEL_BLOCKS];
    uint32_t n_live;
    struct block *past; /* given back, work that used it has not ended */
    uint32_t n_past, room;
    uint64_t limit, failures, pressed;
    bool tight, shared; /* large pieces, little memory, many waits; much pinned memory */
    uint64_t random;
    struct bp_pressure pressure;
    char wrong[512]; /* what was found first */
};

/* Notes what is wrong, once. */
void model_wrong(struct model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All that is kept in the allocator against all that is known: called after each step. */
void model_check(struct model *m);

#endif
