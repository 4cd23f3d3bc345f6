/* SPDX-License-Identifier: Apache-2.0 */
/* test_figures.c: reads bp_device_memory while threads allocate under a limit, so that blocks move
 * from pool to pool and segments are reserved and released all the time. The sums must be
 * consistent, and never exceed the limit or the peak. Silent on success. */
#include <backplane/backplane.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 3, ROUNDS = 1000, SLOTS = 12, IDLE = 300, KINDS = 2 };

/* Pools are summed from the newest stream's on. Each thread has a stream created before and one
 * after many idle streams, so that memory moves from one to the other while the sum is computed; it
 * must not be counted twice. */
struct worker {
    pthread_t thread;
    uint32_t random;
    struct bp_stream *stream[KINDS];
};

static struct bp_device *device;
static atomic_int working = THREADS;

static void figures_need(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s: %s\n", what, bp_error_message());
    exit(1);
}

static uint32_t figures_next(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

static void figures_drop(struct bp_buffer **held)
{
    for (int i = 0; i < SLOTS; i++) {
        bp_buffer_destroy(held[i]);
        held[i] = NULL;
    }
}

static void *figures_work(void *arg)
{
    struct worker *w = arg;
    struct bp_buffer *held[SLOTS] = {NULL};

    for (int i = 0; i < ROUNDS; i++) {
        uint64_t size = 1 +
                        figures_next(&w->random) % (figures_next(&w->random) % 2 ? 12000 : 2500000);
        uint32_t at = figures_next(&w->random) % SLOTS, kind = figures_next(&w->random) % KINDS;
        enum bp_status status;
        bp_buffer_destroy(held[at]);
        held[at] = NULL;
        status = bp_buffer_create(device, w->stream[kind], BP_SPACE_DEVICE, size, &held[at]);
        figures_need(status == BP_OK || status == BP_ERR_MEMORY, "create");
        if (status) figures_drop(held);
        if (figures_next(&w->random) % 64 == 0) figures_need(!bp_device_trim(device), "trim");
    }
    figures_drop(held);
    working--;
    return NULL;
}

static void figures_look(void)
{
    struct bp_memory_stats s = {.size = sizeof s};

    figures_need(!bp_device_memory(device, &s), "memory");
    if (s.reserved == s.allocated + s.rounding + s.pending + s.free && s.free <= s.reserved &&
        s.largest_free <= s.free && s.reserved <= s.limit && s.reserved <= s.peak_reserved &&
        s.allocated <= s.peak)
        return;
    fprintf(stderr,
            "reserved %llu, limit %llu, peak %llu; allocated %llu, rounding %llu, pending %llu, "
            "free %llu, largest %llu\n",
            (unsigned long long)s.reserved, (unsigned long long)s.limit,
            (unsigned long long)s.peak_reserved, (unsigned long long)s.allocated,
            (unsigned long long)s.rounding, (unsigned long long)s.pending,
            (unsigned long long)s.free, (unsigned long long)s.largest_free);
    exit(1);
}

static void make_streams(struct worker *worker, int kind, uint32_t flags)
{
    for (int i = 0; i < THREADS; i++)
        figures_need(!bp_stream_create_with(device, flags, &worker[i].stream[kind]), "stream");
}

/* Each idle stream has a pool without memory. */
static void make_idle(struct bp_stream **idle)
{
    struct bp_buffer *storage;

    for (int i = 0; i < IDLE; i++) {
        figures_need(!bp_stream_create_with(device, BP_STREAM_INLINE, &idle[i]), "stream");
        figures_need(!bp_buffer_create(device, idle[i], BP_SPACE_DEVICE, 1, &storage), "create");
        bp_buffer_destroy(storage);
        figures_need(!bp_device_trim(device), "trim");
    }
}

int main(void)
{
    static struct worker worker[THREADS];
    static struct bp_stream *idle[IDLE];
    struct bp_core *core;

    setenv("BP_MEM_LIMIT", "8M", 1);
    figures_need(!bp_core_create(NULL, &core), "core");
    figures_need(!bp_device_create(core, "cpu:0", &device), "device");
    make_streams(worker, 0, BP_STREAM_INLINE);
    make_idle(idle);
    make_streams(worker, 1, BP_STREAM_INLINE);
    for (uint32_t i = 0; i < THREADS; i++) {
        worker[i].random = i * 77777 + 1;
        pthread_create(&worker[i].thread, NULL, figures_work, &worker[i]);
    }
    while (working) figures_look();
    for (int i = 0; i < THREADS; i++) {
        pthread_join(worker[i].thread, NULL);
        for (int kind = 0; kind < KINDS; kind++) bp_stream_destroy(worker[i].stream[kind]);
    }
    for (int i = 0; i < IDLE; i++) bp_stream_destroy(idle[i]);
    figures_look();
    bp_device_destroy(device);
    bp_core_destroy(core);
    return 0;
}
