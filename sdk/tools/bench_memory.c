/* SPDX-License-Identifier: Apache-2.0 */
/* bench_memory.c: measures allocating and freeing memory, beside malloc and free of the same
 * sizes. */
#include "bench.h"

#include <backplane/buffer.h>
#include <stdlib.h>

enum { SMALL = 4096 };

static bool make_tensor(void *ctx)
{
    const struct bench *bench = ctx;
    const int64_t size = SMALL;
    struct bp_tensor *t;

    if (bp_tensor_create(bench->device, BP_U8, 1, &size, &t)) return false;
    bp_tensor_destroy(t);
    return true;
}

static bool one_malloc(void *ctx)
{
    void *volatile p = malloc(SMALL);

    (void)ctx;
    free(p);
    return p != NULL;
}

static bool one_storage(void *ctx)
{
    const struct bench *bench = ctx;
    struct bp_buffer *buffer;

    if (bp_buffer_create(bench->device, bench->stream, BP_SPACE_DEVICE, SMALL, &buffer))
        return false;
    bp_buffer_destroy(buffer);
    return true;
}

/* --- 512 live blocks: a random one is freed and replaced by one of random size ---------------- */

enum { LIVE = 512, DRAWS = 8192, SIZE_BITS_MIN = 6, SIZE_BITS_MAX = 20 };
struct live {
    struct bench *bench;
    struct {
        uint32_t size;
        uint32_t slot;
    } draw[DRAWS];
    unsigned buffers, blocks; /* position of each side in the draws */
    struct bp_buffer *buffer[LIVE];
    void *block[LIVE];
};

static bool next_storage(void *ctx)
{
    struct live *l = ctx;
    unsigned i = l->buffers++ % DRAWS;
    struct bp_buffer **slot = &l->buffer[l->draw[i].slot];

    bp_buffer_destroy(*slot);
    *slot = NULL;
    return !bp_buffer_create(l->bench->device, l->bench->stream, BP_SPACE_DEVICE, l->draw[i].size,
                             slot);
}

static bool next_block(void *ctx)
{
    struct live *l = ctx;
    unsigned i = l->blocks++ % DRAWS;
    void **slot = &l->block[l->draw[i].slot];

    free(*slot);
    *slot = malloc(l->draw[i].size);
    return *slot != NULL;
}

/* Draws sizes from 64 bytes to 1 MiB, equally many between each power of two and the next. */
static void memory_draw(struct live *l)
{
    uint64_t state = 1;

    for (int i = 0; i < DRAWS; i++) {
        uint32_t bits = SIZE_BITS_MIN + bench_random(&state) % (SIZE_BITS_MAX - SIZE_BITS_MIN);
        l->draw[i].size = (1u << bits) + bench_random(&state) % (1u << bits);
        l->draw[i].slot = bench_random(&state) % LIVE;
    }
}

/* Runs so many draws that every slot is filled before the measurement. */
static bool memory_fill(struct live *l)
{
    for (int i = 0; i < 8 * DRAWS; i++)
        if (!next_storage(l) || !next_block(l)) return false;
    return true;
}

static void run_live(struct bench *bench)
{
    struct live *l = calloc(1, sizeof *l);
    const struct bench_case row = {
        "memory/512-live", "ns", BENCH_TIME, 0, {.body = next_storage, .ctx = l},
        "malloc", {.body = next_block, .ctx = l}, 0, 0};

    if (!l || !bench_wants(bench, row.name)) {
        free(l);
        return;
    }
    l->bench = bench;
    memory_draw(l);
    if (memory_fill(l)) bench_run(bench, &row);
    else bench_failed(bench, row.name);
    bp_stream_synchronize(bench->stream);
    for (int i = 0; i < LIVE; i++) {
        bp_buffer_destroy(l->buffer[i]);
        free(l->block[i]);
    }
    free(l);
}

void bench_memory(struct bench *bench)
{
    const struct bench_side reference = {.body = one_malloc};
    const struct bench_case cases[] = {
        {"memory/one-size", "ns", BENCH_TIME, 0, {.body = one_storage, .ctx = bench}, "malloc",
         reference, 0, 0},
        {"tensor/create 4 KiB", "ns", BENCH_TIME, 0, {.body = make_tensor, .ctx = bench}, "malloc",
         reference, 0, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) bench_run(bench, &cases[i]);
    run_live(bench);
}
