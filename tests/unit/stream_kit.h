/* SPDX-License-Identifier: Apache-2.0 */
/* stream_kit.h: sets up devices of the stream tests, whose work can be held and released, and a
 * core that finds them. */
#ifndef BP_TEST_STREAM_KIT_H
#define BP_TEST_STREAM_KIT_H

#include "../devices/fake.h"
#include "fixture.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The kinds of streams. X(NAME, library, or NULL: cpu; device, flags of the stream). */
#define PLACES(X) \
    X(INLINE, NULL, 0, BP_STREAM_INLINE) \
    X(QUEUE, NULL, 0, BP_STREAM_ASYNC) \
    X(GATED, HOSTILE_DIR "/bp_gated.so", 0, 0) \
    X(GATED_1, HOSTILE_DIR "/bp_gated.so", 1, 0) \
    X(TWO, HOSTILE_DIR "/bp_gated_two.so", 0, 0) \
    X(PLAIN, HOSTILE_DIR "/bp_gated_plain.so", 0, 0) \
    X(SINGLE, HOSTILE_DIR "/bp_gated_single.so", 0, 0) \
    X(TEMPLATE, TEMPLATE_PLUGIN, 0, 0)

enum place {
#define X(NAME, library, device, flags) NAME,
    PLACES(X)
#undef X
    PLACE_COUNT,
};
static const struct {
    const char *name, *library;
    uint32_t device, flags;
} places[] = {
#define X(NAME, library, device, flags) {#NAME, library, device, flags},
    PLACES(X)
#undef X
};

static inline struct bp_core *core_with(const char *variable, const char *value)
{
    struct bp_core *core;

    if (variable) setenv(variable, value, 1);
    OK(bp_core_create(NULL, &core));
    if (variable) unsetenv(variable);
    return core;
}

static inline struct bp_device *open_place(struct bp_core *core, enum place place)
{
    struct bp_device *device;
    uint32_t index;

    if (!places[place].library) {
        OK(bp_device_create(core, "cpu:0", &device));
        return device;
    }
    OK(bp_core_load_path(core, places[place].library, &index));
    OK(bp_device_create_at(core, index, places[place].device, &device));
    return device;
}

static inline struct bp_stream *stream_at(struct bp_device *device, enum place place)
{
    struct bp_stream *stream;

    OK(bp_stream_create_with(device, places[place].flags, &stream));
    return stream;
}

/* The control of a gated device; NULL for other kinds. */
static inline struct fake *control_of(enum place place)
{
    struct fake *gate;

    if (place < GATED || place > SINGLE) return NULL;
    gate = fake_of(places[place].library);
    cr_assert_not_null(gate);
    return gate;
}

/* A core, a device and a stream of one kind. */
struct spot {
    struct bp_core *core;
    struct bp_device *device;
    struct bp_stream *stream;
    struct fake *gate;
};

static inline struct spot spot_at(enum place place, const char *variable, const char *value)
{
    struct spot s = {.core = core_with(variable, value)};

    s.device = open_place(s.core, place);
    s.stream = stream_at(s.device, place);
    s.gate = control_of(place);
    return s;
}

static inline void spot_finish(struct spot *s)
{
    bp_stream_destroy(s->stream);
    bp_device_destroy(s->device);
    bp_core_destroy(s->core);
}

static inline struct bp_tensor *floats_at(struct bp_device *device, int64_t n)
{
    struct bp_tensor *t;

    OK(bp_tensor_create(device, BP_F32, 1, SHAPE(n), &t));
    return t;
}

static inline struct bp_event *event_at(struct bp_device *device)
{
    struct bp_event *event;

    OK(bp_event_create(device, &event));
    return event;
}

/* A stream callback that waits for a semaphore: it holds a queue. */
static inline void hold_until(void *semaphore, enum bp_status status)
{
    (void)status;
    sem_wait(semaphore);
}

/* Holds a queue, which has begun the callback when hold_queue returns. */
struct latch {
    sem_t begun, end;
};

static inline void hold_latch(void *latch, enum bp_status status)
{
    (void)status;
    sem_post(&((struct latch *)latch)->begun);
    sem_wait(&((struct latch *)latch)->end);
}

static inline void hold_queue(struct bp_stream *stream, struct latch *latch)
{
    sem_init(&latch->begun, 0, 0);
    sem_init(&latch->end, 0, 0);
    OK(bp_stream_callback(stream, hold_latch, latch));
    sem_wait(&latch->begun);
}

#endif
