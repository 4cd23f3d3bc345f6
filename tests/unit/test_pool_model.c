/* SPDX-License-Identifier: Apache-2.0 */
/* test_pool_model.c: tests the allocator with random traces: memory is taken, used and freed on
 * several streams, which end their work on command, wait for each other, and are created and
 * destroyed. A device that knows the order of work (the fake one, paced) decides who may use memory
 * at which time, and a plain list knows the owner of each block.
 *
 *   test_pool_model [TRACES [FIRST]]   one test for each; its number is the seed */
#include "pool_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 1500 };

/* Traces differ in kind with a period of 36. A sanitizer makes each several times as long. */
#ifdef __SANITIZE_ADDRESS__
enum { TRACES = 72 };
#else
enum { TRACES = 150 };
#endif

static const char *const libraries[] = {"bp_paced.so", "bp_paced_order.so", "bp_paced_handles.so"};

uint64_t model_pick(struct model *m, uint64_t below)
{
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random * UINT64_C(0x2545f4914f6cdd1d) % below;
}

static uint64_t pool_model_pick(struct model *m, uint64_t below)
{
    return model_pick(m, below);
}

static bool pool_model_good(struct model *m, enum bp_status status, const char *what)
{
    if (status) model_wrong(m, "%s: %s", what, bp_error_message());
    return status == BP_OK;
}

void *model_native(struct bp_stream *stream)
{
    return stream->timeline->stream;
}

static void *pool_model_native(struct bp_stream *stream)
{
    return model_native(stream);
}

/* Returns a random stream, or NULL if the entry is empty. */
static struct bp_stream *some_stream(struct model *m)
{
    return m->stream[pool_model_pick(m, m->tight ? 3 : MODEL_STREAMS)];
}

bool model_overlaps(const struct block *a, const struct block *b)
{
    return a->first < b->first + b->size && b->first < a->first + a->size;
}

static bool has_ended(struct model *m, const struct block *b)
{
    for (uint32_t i = 0; i < b->n_use; i++)
        if (!m->fake->is_done(b->use[i].index, b->use[i].position)) return false;
    return true;
}

static void forget_ended(struct model *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_retired; i++)
        if (!has_ended(m, &m->retired[i])) m->retired[n++] = m->retired[i];
    m->n_retired = n;
}

/* Checks a new block: no live block overlaps it, and each work that used the memory has ended or is
 * ordered before the taker's next work. */
static void check_new(struct model *m, const struct block *b, struct bp_stream *taker)
{
    if (b->size && b->first % 64) model_wrong(m, "memory is not aligned");
    for (uint32_t i = 0; i < m->n_live; i++)
        if (model_overlaps(b, &m->live[i])) model_wrong(m, "a block lives twice");
    forget_ended(m);
    for (uint32_t i = 0; i < m->n_retired; i++) {
        const struct block *past = &m->retired[i];
        if (!model_overlaps(b, past)) continue;
        for (uint32_t k = 0; k < past->n_use; k++) {
            const struct use *u = &past->use[k];
            bool before = taker
                              ? m->fake->is_before(u->index, u->position, pool_model_native(taker))
                              : m->fake->is_done(u->index, u->position);
            if (!before)
                model_wrong(m, "memory came to %s before work %" PRIu64 " of stream %u had ended",
                            taker ? "a stream" : "the host", u->position, u->index);
        }
    }
}

/* Checks that an allocation failed rightly: no memory was left that could have been returned to the
 * plugin. */
static void check_failure(struct model *m, uint64_t size)
{
    uint64_t used = m->fake->used, needed = size + 512, left = m->fake->budget - used;

    m->failures++;
    if (m->limit && m->limit - used < left) left = m->limit - used;
    if (left >= needed) model_wrong(m, "out of memory, but %" PRIu64 " bytes were left", left);
    if (!strstr(bp_error_message(), "out of memory: asked for ")) model_wrong(m, "no explanation");
    if (model_is_open(m)) return; /* captured work is not waited for */
    if (size > m->fake->budget || (m->limit && size > m->limit)) return;
    forget_ended(m);
    if (m->n_retired) model_wrong(m, "out of memory, but work was not waited for");
    pool_model_good(m, bp_device_trim(m->device), "trim");
    if (m->fake->used != used) model_wrong(m, "out of memory, but free segments were kept");
}

static uint64_t some_size(struct model *m)
{
    if (m->tight && pool_model_pick(m, 3)) return (1 << 20) + pool_model_pick(m, 3) * 700000;
    switch (pool_model_pick(m, 16)) {
    case 0: return 0;
    case 1: return pool_model_pick(m, 6 << 20) + 1;
    case 2:
    case 3: return pool_model_pick(m, 1 << 20) + 1;
    case 4:
    case 5:
    case 6: return 4096;
    case 7: return 300000;
    default: return pool_model_pick(m, 40000) + 1;
    }
}

/* Allocates a block; returns whether it exists, as the last one of the list. */
static bool take_of(struct model *m, struct bp_stream *taker, uint32_t space, uint64_t size)
{
    struct block b = {.size = size};
    enum bp_status status;

    if (m->n_live == MODEL_BLOCKS) return false;
    status = bp_buffer_create(m->device, taker, space, size, &b.buffer);
    if (status == BP_ERR_MEMORY && (m->limit || m->fake->budget < 1 << 30)) {
        check_failure(m, size);
        return false;
    }
    if (!pool_model_good(m, status, "bp_buffer_create")) return false;
    if (size) b.first = (uintptr_t)b.buffer->memory.handle + (uintptr_t)b.buffer->memory.data;
    else if (b.buffer->memory.handle || b.buffer->memory.data)
        model_wrong(m, "0 bytes lie somewhere");
    check_new(m, &b, space ? NULL : taker);
    model_hold(m, &b, space ? NULL : taker);
    m->live[m->n_live++] = b;
    return true;
}

static void pool_model_take(struct model *m)
{
    struct bp_stream *taker = pool_model_pick(m, 8) ? some_stream(m) : NULL;
    uint32_t space = pool_model_pick(m, m->shared ? 2 : 16) ? BP_SPACE_DEVICE : BP_SPACE_PINNED;

    take_of(m, taker, space, some_size(m));
}

void model_retire(struct model *m, const struct block *b)
{
    if (m->n_retired == m->room) {
        m->room = m->room ? 2 * m->room : 256;
        m->retired = realloc(m->retired, m->room * sizeof *m->retired);
        if (!m->retired) abort();
    }
    if (b->size) m->retired[m->n_retired++] = *b;
}

static void give_at(struct model *m, uint32_t i)
{
    struct block b = m->live[i];

    m->live[i] = m->live[--m->n_live];
    model_retire(m, &b);
    bp_buffer_destroy(b.buffer);
}

void model_note_use(struct block *b, struct use u, const struct fake *fake)
{
    for (uint32_t i = 0; i < b->n_use; i++)
        if (b->use[i].index == u.index || fake->is_done(b->use[i].index, b->use[i].position)) {
            b->use[i] = u;
            return;
        }
    b->use[b->n_use++] = u;
}

static void note_use(struct model *m, struct block *b, void *stream)
{
    struct use u = {m->fake->index(stream), m->fake->position(stream)};

    model_note_use(b, u, m->fake);
}

static void pool_model_give(struct model *m)
{
    uint32_t i = (uint32_t)pool_model_pick(m, MODEL_BLOCKS);

    if (i < m->n_live) give_at(m, i);
}

/* Submits a copy from one block to another. */
static void use_of(struct model *m, struct bp_stream *stream, struct block *a, struct block *b)
{
    struct bp_copy copy;

    if (!a->size || !b->size || a->n_use == MODEL_USES || b->n_use == MODEL_USES) return;
    copy = (struct bp_copy){a->buffer->memory.handle, a->buffer->memory.data,
                            b->buffer->memory.handle, b->buffer->memory.data, 1};
    if (!pool_model_good(m, bp_memory_copy(stream, BP_COPY_WITHIN, &copy, a->buffer, b->buffer),
                         "copy"))
        return;
    note_use(m, a, pool_model_native(stream));
    if (a != b) note_use(m, b, pool_model_native(stream));
}

static void pool_model_use(struct model *m)
{
    struct bp_stream *stream = some_stream(m);

    if (stream && m->n_live)
        use_of(m, stream, &m->live[pool_model_pick(m, m->n_live)],
               &m->live[pool_model_pick(m, m->n_live)]);
}

static void wait_between(struct model *m)
{
    struct bp_stream *a = some_stream(m), *b = some_stream(m);
    struct bp_event *event = NULL;

    if (!a || !b || !pool_model_good(m, bp_event_create(m->device, &event), "event")) return;
    if (pool_model_good(m, bp_event_record(event, a), "record")) {
        enum bp_status status = pool_model_pick(m, 4) ? BP_OK : bp_event_query(event);
        if (status != BP_ERR_NOT_READY) pool_model_good(m, status, "query");
        pool_model_good(m, bp_stream_wait(b, event), "wait");
    }
    bp_event_destroy(event);
}

static void pool_model_progress(struct model *m)
{
    struct bp_stream *stream = some_stream(m);

    if (m->tight && pool_model_pick(m, 4)) return;
    if (stream) m->fake->run(pool_model_native(stream), 1 + pool_model_pick(m, 8));
}

/* Stream a waits for the work that b has so far. Stream c may then wait for a, for the work of a
 * before or after this wait. */
static void wait_in_turn(struct model *m, struct bp_stream *a, struct bp_stream *b,
                         struct bp_stream *c)
{
    struct bp_event *of_a = NULL, *of_b = NULL;
    bool before = pool_model_pick(m, 2);

    if (!pool_model_good(m, bp_event_create(m->device, &of_a), "event") ||
        !pool_model_good(m, bp_event_create(m->device, &of_b), "event"))
        return;
    pool_model_good(m, bp_event_record(of_b, b), "record");
    if (before) pool_model_good(m, bp_event_record(of_a, a), "record");
    pool_model_good(m, bp_stream_wait(a, of_b), "wait");
    if (!before) pool_model_good(m, bp_event_record(of_a, a), "record");
    if (pool_model_pick(m, 2)) pool_model_good(m, bp_stream_wait(c, of_a), "wait");
    bp_event_destroy(of_a);
    bp_event_destroy(of_b);
}

/* A case that random steps rarely produce: b uses a block of a, which is freed when a is ordered
 * after this use and all other work of a has ended. Then c allocates the same size. */
static void near_miss(struct model *m)
{
    struct bp_stream *a = m->stream[0], *b = m->stream[1], *c = m->stream[2];
    uint64_t size = (1 << 20) + pool_model_pick(m, 2) * 1000000;

    if (!a || !b || !c) return;
    if (pool_model_pick(m, 2)) {
        if (!take_of(m, pool_model_pick(m, 2) ? a : b, BP_SPACE_DEVICE, size)) return;
        use_of(m, b, &m->live[m->n_live - 1], &m->live[m->n_live - 1]);
        wait_in_turn(m, a, b, c);
        give_at(m, m->n_live - 1);
    }
    if (pool_model_pick(m, 2) && take_of(m, a, BP_SPACE_DEVICE, size)) give_at(m, m->n_live - 1);
    m->fake->run(pool_model_native(a), 1000);
    take_of(m, pool_model_pick(m, 3) ? c : NULL, BP_SPACE_DEVICE, size);
}

static void replace_stream(struct model *m)
{
    struct bp_stream **at = &m->stream[pool_model_pick(m, MODEL_STREAMS)];

    if (*at) {
        model_stop(m, *at);
        bp_stream_destroy(*at);
        *at = NULL;
    } else {
        pool_model_good(m, bp_stream_create(m->device, at), "stream");
    }
}

static void pool_model_step(struct model *m)
{
    struct bp_stream *stream;
    uint64_t way = pool_model_pick(m, 1000);

    if (m->tight && !pool_model_pick(m, 8)) wait_between(m);
    if (m->tight && !pool_model_pick(m, 16)) near_miss(m);
    if (m->records && !pool_model_pick(m, 12)) model_record(m);
    if (way < 320) pool_model_take(m);
    else if (way < 600) pool_model_give(m);
    else if (way < 780) pool_model_use(m);
    else if (way < 850) wait_between(m);
    else if (way < 960) pool_model_progress(m);
    else if (way < 975) replace_stream(m);
    else if (way < 985 && (stream = some_stream(m)))
        pool_model_good(m, bp_stream_synchronize(stream), "sync");
    else if (way < 988) pool_model_good(m, bp_device_synchronize(m->device), "device sync");
    else if (way < 991) pool_model_good(m, bp_device_trim(m->device), "trim");
    else if (way < 996)
        for (int i = 0; i < 40; i++) pool_model_give(m);
}

static bool pool_model_give_up(void *ctx)
{
    struct model *m = ctx;

    return m->pressed++ % 2 == 0;
}

static void pool_model_begin(struct model *m, const char *library, uint64_t seed)
{
    char path[4096];
    struct bp_core_options options = {.size = sizeof options};
    uint32_t index;

    m->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    m->tight = seed / 3 % 2;
    m->shared = seed / 6 % 3 == 0;
    m->records = seed / 18 % 2;
    snprintf(path, sizeof path, "%s/%s", HOSTILE_DIR, library);
    m->fake = fake_open(path);
    if (!m->fake || bp_core_create(&options, &m->core)) {
        fprintf(stderr, "%s: %s\n", path, m->fake ? bp_error_message() : dlerror());
        exit(1);
    }
    m->fake->budget = pool_model_pick(m, m->tight ? 2 : 3) ? UINT64_C(1) << 40
                                                            : (4 + pool_model_pick(m, 24)) << 20;
    m->limit = m->core->memory_limit = pool_model_pick(m, 2) ? 0
                                                             : (6 + pool_model_pick(m, 30)) << 20;
    if (bp_core_load_path(m->core, path, &index) ||
        bp_device_create_at(m->core, index, 0, &m->device)) {
        fprintf(stderr, "%s: %s\n", path, bp_error_message());
        exit(1);
    }
    m->pressure = (struct bp_shrinker){pool_model_give_up, m, NULL};
    bp_shrinker_register(m->device, &m->pressure);
}

/* At the end all memory is freed, and the device ends with its last buffer. */
static void pool_model_end(struct model *m)
{
    bool storage_last = pool_model_pick(m, 2);

    model_stop(m, NULL);
    while (m->n_live > (storage_last ? 1u : 0u)) pool_model_give(m), forget_ended(m);
    for (int i = 0; i < MODEL_STREAMS; i++) bp_stream_destroy(m->stream[i]);
    pool_model_good(m, bp_device_synchronize(m->device), "device sync");
    pool_model_good(m, bp_device_trim(m->device), "trim");
    model_check(m);
    if (!m->n_live && m->fake->used) model_wrong(m, "memory is kept after all");
    bp_shrinker_unregister(m->device, &m->pressure);
    bp_device_destroy(m->device);
    if (m->n_live && m->live[0].size && !m->fake->used)
        model_wrong(m, "the device ended before its memory");
    while (m->n_live && !*m->wrong) pool_model_give(m);
    if (m->fake->used) model_wrong(m, "the device did not end");
    bp_core_destroy(m->core);
    free(m->retired);
}

static bool pool_model_run(uint64_t seed)
{
    const char *library = libraries[seed % 3];
    struct model *m = calloc(1, sizeof *m);
    uint32_t i;
    bool passed;

    if (!m) abort();
    pool_model_begin(m, library, seed);
    for (i = 0; i < STEPS && !*m->wrong; i++) {
        pool_model_step(m);
        model_check(m);
    }
    passed = !*m->wrong;
    if (passed) pool_model_end(m);
    passed = !*m->wrong;
    printf("%s %" PRIu64 " - trace %" PRIu64 " on %s\n", passed ? "ok" : "not ok", seed, seed,
           library);
    if (!passed) printf("# after step %u: %s\n", i, m->wrong);
    fflush(stdout);
    if (!passed) exit(1); /* the state is broken: do not free it */
    free(m);
    return passed;
}

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : TRACES;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    printf("%" PRIu64 "..%" PRIu64 "\n", first, first + n - 1);
    for (uint64_t seed = first; seed < first + n; seed++) pool_model_run(seed);
    return 0;
}
