/* SPDX-License-Identifier: Apache-2.0 */
/* paced.c: a device whose work ends when the test says so, and that knows for certain which work
 * comes after which: the oracle for who may use memory when. Its memory is addresses that nobody
 * may touch, each used once, aligned to 64 and no more. With PACED_ONE_ORDER it has no streams
 * and events, with PACED_HANDLES its memory is handles and its streams cannot wait for each
 * other. */
#include "paced.h"

#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { STREAMS = 256 };

struct item {
    uint32_t of;   /* a wait: for this stream, or STREAMS: a copy */
    uint64_t position;
    struct bp_copy copy;
};

struct stream {
    struct item *item; /* item[i] is at place i + 1 */
    uint64_t n, room, done;
    uint64_t after[STREAMS]; /* what is given to it from now on comes after these places */
};

struct event {
    uint32_t of;
    uint64_t position;
    uint64_t after[STREAMS];
};

struct chunk {
    struct chunk *next;
    uintptr_t first;
    uint64_t size;
};

static const struct bp_host *host;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *stream_of[STREAMS];
static uint32_t n_stream;
static struct chunk *chunks;
static const size_t ADDRESSES = (size_t)1 << 38;
static void *addresses;
static uintptr_t next_address;

static void run(void *stream, uint64_t n);
static uint32_t index_of(void *stream);
static uint64_t position(void *stream);
static bool is_done(uint32_t index, uint64_t at);
static bool is_before(uint32_t index, uint64_t at, void *stream);

BP_EXPORT struct paced paced;
struct paced paced = {UINT64_C(1) << 40, 0, 0, 0, run, index_of, position, is_done, is_before};

/* Under the lock, as all that follows up to the callbacks. */
static bool end_one(struct stream *s)
{
    const struct item *item = &s->item[s->done];

    if (s->done == s->n) return false;
    if (item->of < STREAMS && stream_of[item->of]->done < item->position) return false;
    s->done++;
    return true;
}

/* Waits name places that were there before them, so that this ends. */
static void run_to(struct stream *s, uint64_t at)
{
    while (s->done < at) {
        const struct item *item = &s->item[s->done];
        if (item->of < STREAMS) run_to(stream_of[item->of], item->position);
        s->done++;
    }
}

static struct stream *find(void *stream)
{
    return stream ? stream : stream_of[0];
}

static void add(struct stream *s, const struct item *item)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->item = realloc(s->item, s->room * sizeof *s->item);
        if (!s->item) abort();
    }
    s->item[s->n++] = *item;
}

static bool touches(const struct chunk *chunk, const void *memory, const void *data)
{
    uintptr_t at = (uintptr_t)memory + (uintptr_t)data;

    return at >= chunk->first && at < chunk->first + chunk->size;
}

static bool is_in_use(const struct chunk *chunk)
{
    for (uint32_t i = 0; i < n_stream; i++)
        for (uint64_t k = stream_of[i]->done; k < stream_of[i]->n; k++) {
            const struct item *item = &stream_of[i]->item[k];
            if (item->of < STREAMS) continue;
            if (touches(chunk, item->copy.dst_memory, item->copy.dst) ||
                touches(chunk, item->copy.src_memory, item->copy.src))
                return true;
        }
    return false;
}

static void run(void *stream, uint64_t n)
{
    pthread_mutex_lock(&lock);
    while (n-- > 0 && end_one(find(stream))) {}
    pthread_mutex_unlock(&lock);
}

static uint32_t index_of(void *stream)
{
    uint32_t i = 0;

    while (stream_of[i] != find(stream)) i++;
    return i;
}

static uint64_t position(void *stream)
{
    return find(stream)->n;
}

static bool is_done(uint32_t index, uint64_t at)
{
    return stream_of[index]->done >= at;
}

static bool is_before(uint32_t index, uint64_t at, void *stream)
{
    return is_done(index, at) || find(stream) == stream_of[index] ||
           find(stream)->after[index] >= at;
}

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    (void)self;
    *out_count = 1;
    return BP_OK;
}

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    (void)self;
    (void)device;
    BP_SET(out, memory, paced.budget);
    BP_SET(out, dtypes, BP_MASK_ANY);
    BP_SET(out, alignment, 64);
#ifdef PACED_HANDLES
    BP_SET(out, flags, BP_DEVICE_HANDLES);
#endif
    return BP_OK;
}

static enum bp_status memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out)
{
    struct chunk *chunk = malloc(sizeof *chunk);

    (void)self;
    (void)device;
#ifndef PACED_HANDLES
    (void)space;
#endif
    if (!chunk) abort();
    pthread_mutex_lock(&lock);
    if (size > paced.budget - paced.used) {
        pthread_mutex_unlock(&lock);
        free(chunk);
        return bp_fail(host, BP_ERR_MEMORY, "%llu bytes are too many", (unsigned long long)size);
    }
    *chunk = (struct chunk){chunks, next_address + 64, size};
    chunks = chunk;
    next_address += (size + 8191) & ~UINT64_C(4095);
    paced.used += size;
    paced.chunks++;
    pthread_mutex_unlock(&lock);
#ifdef PACED_HANDLES
    *out = (struct bp_memory){.handle = (void *)chunk->first,
                              .host = space == BP_SPACE_DEVICE ? NULL : (void *)chunk->first};
#else
    *out = (struct bp_memory){NULL, (void *)chunk->first};
#endif
    return BP_OK;
}

static void memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    uintptr_t first = (uintptr_t)memory->handle + (uintptr_t)memory->data;
    struct chunk **at = &chunks, *chunk;

    (void)self;
    (void)device;
    (void)space;
    pthread_mutex_lock(&lock);
    while (*at && (*at)->first != first) at = &(*at)->next;
    chunk = *at;
    if (!chunk) abort();
    *at = chunk->next;
    paced.used -= chunk->size;
    paced.broken += is_in_use(chunk);
    pthread_mutex_unlock(&lock);
    free(chunk);
}

static enum bp_status copy_within(void *self, uint32_t device, void *stream,
                                  const struct bp_copy *copy)
{
    struct item item = {STREAMS, 0, *copy};

    (void)self;
    (void)device;
    pthread_mutex_lock(&lock);
    add(find(stream), &item);
    pthread_mutex_unlock(&lock);
    return BP_OK;
}

static enum bp_status synchronize(void *self, uint32_t device, void *stream)
{
    (void)self;
    (void)device;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_stream; i++)
        if (!stream || stream == stream_of[i]) run_to(stream_of[i], stream_of[i]->n);
    pthread_mutex_unlock(&lock);
    return BP_OK;
}

static enum bp_status copy_host(void *self, uint32_t device, void *stream,
                                const struct bp_copy *copy)
{
    (void)copy;
    return synchronize(self, device, stream);
}

static struct stream *new_stream(void)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s || n_stream == STREAMS) abort();
    stream_of[n_stream++] = s;
    return s;
}

#ifndef PACED_ONE_ORDER
static enum bp_status stream_create(void *self, uint32_t device, void **out_stream)
{
    (void)self;
    (void)device;
    pthread_mutex_lock(&lock);
    *out_stream = new_stream();
    pthread_mutex_unlock(&lock);
    return BP_OK;
}

/* It stays, since tests remember it. The core promises that its work has ended, and what its waits
 * are for. */
static void stream_destroy(void *self, uint32_t device, void *stream)
{
    struct stream *s = stream;

    (void)self;
    (void)device;
    pthread_mutex_lock(&lock);
    while (s->done < s->n && s->item[s->done].of < STREAMS && end_one(s)) {}
    paced.broken += s->done < s->n;
    pthread_mutex_unlock(&lock);
}

static enum bp_status event_create(void *self, uint32_t device, void **out_event)
{
    (void)self;
    (void)device;
    *out_event = calloc(1, sizeof(struct event));
    return *out_event ? BP_OK : BP_ERR_MEMORY;
}

static void event_destroy(void *self, uint32_t device, void *event)
{
    (void)self;
    (void)device;
    free(event);
}

static enum bp_status event_record(void *self, uint32_t device, void *stream, void *event)
{
    struct stream *s = find(stream);
    struct event *e = event;

    (void)self;
    (void)device;
    pthread_mutex_lock(&lock);
    e->of = index_of(stream);
    e->position = s->n;
    for (uint32_t i = 0; i < n_stream; i++) e->after[i] = s->after[i];
    pthread_mutex_unlock(&lock);
    return BP_OK;
}

static enum bp_status event_query(void *self, uint32_t device, void *event)
{
    const struct event *e = event;
    bool done;

    (void)self;
    (void)device;
    pthread_mutex_lock(&lock);
    done = is_done(e->of, e->position);
    pthread_mutex_unlock(&lock);
    return done ? BP_OK : BP_ERR_BUSY;
}

static enum bp_status event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns)
{
    const struct event *e = event;

    (void)self;
    (void)device;
    (void)timeout_ns;
    pthread_mutex_lock(&lock);
    run_to(stream_of[e->of], e->position);
    pthread_mutex_unlock(&lock);
    return BP_OK;
}

#ifndef PACED_HANDLES
static enum bp_status stream_wait(void *self, uint32_t device, void *stream, void *event)
{
    struct stream *s = find(stream);
    const struct event *e = event;
    struct item item = {.of = e->of, .position = e->position};

    (void)self;
    (void)device;
    pthread_mutex_lock(&lock);
    add(s, &item);
    for (uint32_t i = 0; i < n_stream; i++)
        if (s->after[i] < e->after[i]) s->after[i] = e->after[i];
    if (s->after[e->of] < e->position) s->after[e->of] = e->position;
    pthread_mutex_unlock(&lock);
    return BP_OK;
}
#endif
#endif

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .copy_in = copy_host,
    .copy_out = copy_host,
    .copy_within = copy_within,
    .synchronize = synchronize,
#ifndef PACED_ONE_ORDER
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
#ifndef PACED_HANDLES
    .stream_wait = stream_wait,
#endif
#endif
};

static enum bp_status create(const struct bp_host *core, void **out_self)
{
    host = core;
    if (!addresses)
        addresses = mmap(NULL, ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                         -1, 0);
    if (addresses == MAP_FAILED) return bp_fail(core, BP_ERR_MEMORY, "no addresses");
    next_address = (uintptr_t)addresses;
    paced.used = paced.broken = paced.chunks = 0;
    new_stream(); /* of index 0: the one order, or nobody's */
    *out_self = &paced;
    return BP_OK;
}

static void destroy(void *self)
{
    (void)self;
    for (uint32_t i = 0; i < n_stream; i++) {
        free(stream_of[i]->item);
        free(stream_of[i]);
    }
    n_stream = 0;
}

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = PACED_NAME,
    .version = "1",
    .kind = PACED_NAME,
    .create = create,
    .destroy = destroy,
    .runtime = &runtime,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
