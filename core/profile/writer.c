/* SPDX-License-Identifier: Apache-2.0 */
/* writer.c: writes events into chunks of the calling thread, and records of plugins into one more.
 *
 * A thread marks its writer as busy, reads which recording there is, writes, and unmarks it. The
 * thread that ends a recording sets it to NULL, lets all processors see that (membarrier, so that
 * the mark needs no fence of its own), and waits for marked writers. */
#include "profile.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RECORDS = (BP_PROFILE_CHUNK - sizeof(struct bp_profile_chunk)) /
              sizeof(struct bp_profile_record)
};
_Static_assert(sizeof(struct bp_profile_record) == 64, "a record fills a line of the cache");

_Atomic uint32_t bp_profile_state;
_Atomic uint64_t bp_profile_removed;

static _Atomic(struct bp_profile_recording *) recording;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards writers */
static struct bp_profile_writer *writers;                /* of all threads */
static _Thread_local struct bp_profile_writer *own;
static pthread_key_t key; /* its destructor frees a thread's writer */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct bp_profile_writer plugins; /* of records of plugins */
static pthread_mutex_t plugins_lock = PTHREAD_MUTEX_INITIALIZER;

static void writer_destroy(void *ctx)
{
    struct bp_profile_writer *w = ctx, **at;

    own = NULL;
    pthread_mutex_lock(&lock);
    for (at = &writers; *at && *at != w; at = &(*at)->next) continue;
    if (*at) *at = w->next;
    pthread_mutex_unlock(&lock);
    bp_profile_chunk_release(w->chunk);
    free(w);
}

static void writer_make_key(void)
{
    pthread_key_create(&key, writer_destroy);
}

static struct bp_profile_writer *writer_create(void)
{
    struct bp_profile_writer *w = calloc(1, sizeof *w);

    pthread_once(&once, writer_make_key);
    if (!w || pthread_setspecific(key, w)) {
        free(w);
        return NULL;
    }
    w->thread = (uint32_t)syscall(SYS_gettid);
    pthread_mutex_lock(&lock);
    w->next = writers;
    writers = w;
    pthread_mutex_unlock(&lock);
    return own = w;
}

static inline struct bp_profile_seen *writer_seen(struct bp_profile_writer *w, const char *text)
{
    return &w->cache[(uint64_t)(uintptr_t)text * UINT64_C(0x9E3779B97F4A7C15) >> 55];
}

static __attribute__((noinline)) uint32_t writer_find_name(struct bp_profile_writer *w,
                                                           struct bp_profile_recording *r,
                                                           const char *text)
{
    const struct bp_profile_text *known = NULL;

    if (text && *text) known = bp_profile_names_find(&r->names, &r->file, text);
    if (!known) return 0;
    *writer_seen(w, text) = (struct bp_profile_seen){text, known, known->number};
    return known->number;
}

/* Returns the number of a text that has not changed since it was seen. */
static inline uint32_t writer_name(struct bp_profile_writer *w, struct bp_profile_recording *r,
                                   const char *text)
{
    const struct bp_profile_seen *seen = writer_seen(w, text);

    if (!text) return 0;
    return __builtin_expect(seen->at == text, 1) ? seen->number : writer_find_name(w, r, text);
}

/* Returns the number of a text. The text at an address is compared, because the memory may hold
 * another one than before. */
static inline uint32_t writer_text(struct bp_profile_writer *w, struct bp_profile_recording *r,
                                   const char *text)
{
    const struct bp_profile_seen *seen = writer_seen(w, text);

    if (!text) return 0;
    if (seen->at == text && !strcmp(seen->text->text, text)) return seen->number;
    return writer_find_name(w, r, text);
}

static void writer_empty(struct bp_profile_writer *w, uint64_t removed)
{
    memset(w->cache, 0, sizeof w->cache);
    w->removed = removed;
}

/* Takes a chunk at the beginning of a recording, and when the last one is full. */
static __attribute__((noinline)) struct bp_profile_chunk *writer_take_chunk(
    struct bp_profile_writer *w, struct bp_profile_recording *r)
{
    char name[32] = "";
    uint32_t number = 0;

    if (w->serial != r->serial) writer_empty(w, w->removed);
    w->serial = r->serial;
    bp_profile_chunk_release(w->chunk);
    w->chunk = NULL;
    if (w->thread && !pthread_getname_np(pthread_self(), name, sizeof name))
        number = writer_text(w, r, name);
    return w->chunk = bp_profile_file_chunk(&r->file, BP_PROFILE_CHUNK_RECORDS, w->thread, number);
}

/* The caller owns the writer now. */
static inline void writer_put(struct bp_profile_writer *w, struct bp_profile_recording *r,
                              const struct bp_profile_put *e)
{
    bool raw = e->flags & BP_PROFILE_RAW_CLOCK;
    uint64_t removed = atomic_load_explicit(&bp_profile_removed, memory_order_relaxed);
    struct bp_profile_chunk *chunk = w->chunk;
    struct bp_profile_record *record;
    uint32_t used = 0;

    if (!raw && w->thread && e->begin < r->line.start) return; /* a plugin's is misdated: readers */
    if (chunk) used = atomic_load_explicit(&chunk->used, memory_order_relaxed);
    if (__builtin_expect(!chunk || w->serial != r->serial || used == RECORDS, 0)) {
        chunk = writer_take_chunk(w, r);
        used = 0;
    }
    if (__builtin_expect(!chunk, 0)) {
        atomic_fetch_add_explicit(&r->lost, 1, memory_order_relaxed);
        return;
    }
    record = (struct bp_profile_record *)(chunk + 1) + used;
    record->begin = raw ? e->begin : bp_profile_ns(&r->line, e->begin);
    record->end = raw || e->kind == BP_PROFILE_KIND_CLOCK ? e->end
                                                          : bp_profile_ns(&r->line, e->end);
    record->tag = e->tag;
    record->bytes = e->bytes;
    if (__builtin_expect(w->removed != removed, 0)) writer_empty(w, removed);
    record->name = e->text ? writer_text(w, r, e->text) : writer_name(w, r, e->name);
    record->kernel = e->kernel_text ? writer_text(w, r, e->kernel_text)
                                    : writer_name(w, r, e->kernel);
    record->node = writer_text(w, r, e->node);
    record->shapes = writer_text(w, r, e->shapes);
    record->device = writer_name(w, r, e->device);
    record->stream = e->stream;
    record->kind = e->kind;
    record->flags = e->flags;
    record->queue = e->queue;
    atomic_store_explicit(&chunk->used, used + 1, memory_order_release);
    if (__builtin_expect(e->kind == BP_PROFILE_KIND_CLOCK, 0)) atomic_fetch_add(&r->clocks, 1);
}

void bp_profile_put(const struct bp_profile_put *event)
{
    struct bp_profile_writer *w = own ? own : writer_create();
    struct bp_profile_recording *r;

    if (!w) return;
    atomic_store_explicit(&w->busy, 1, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    r = atomic_load_explicit(&recording, memory_order_acquire);
    if (r) writer_put(w, r, event);
    atomic_store_explicit(&w->busy, 0, memory_order_release);
}

void bp_profile_put_records(const struct bp_profile_put *event, size_t count)
{
    struct bp_profile_recording *r;

    pthread_mutex_lock(&plugins_lock);
    r = atomic_load(&recording);
    for (size_t i = 0; r && i < count; i++) writer_put(&plugins, r, &event[i]);
    pthread_mutex_unlock(&plugins_lock);
}

static void writers_wait(void)
{
    pthread_mutex_lock(&lock);
    for (struct bp_profile_writer *w = writers; w; w = w->next)
        while (atomic_load_explicit(&w->busy, memory_order_acquire)) sched_yield();
    pthread_mutex_unlock(&lock);
}

void bp_profile_writers_set(struct bp_profile_recording *to)
{
    pthread_mutex_lock(&plugins_lock);
    atomic_store(&recording, to);
    pthread_mutex_unlock(&plugins_lock);
    bp_process_barrier();
    writers_wait();
}

void bp_profile_writers_finish(void)
{
    pthread_mutex_lock(&lock);
    for (struct bp_profile_writer *w = writers; w; w = w->next) {
        bp_profile_chunk_release(w->chunk);
        w->chunk = NULL;
    }
    pthread_mutex_unlock(&lock);
    pthread_mutex_lock(&plugins_lock);
    bp_profile_chunk_release(plugins.chunk);
    plugins.chunk = NULL;
    pthread_mutex_unlock(&plugins_lock);
}

void bp_profile_writers_after_fork(void)
{
    atomic_store(&bp_profile_state, 0);
    atomic_store(&recording, NULL);
    pthread_mutex_init(&lock, NULL);
    pthread_mutex_init(&plugins_lock, NULL);
    writers = NULL; /* of threads of the parent; the child writes nothing to their chunks */
    own = NULL;
    memset(&plugins, 0, sizeof plugins);
}
