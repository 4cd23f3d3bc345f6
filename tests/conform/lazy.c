/* SPDX-License-Identifier: Apache-2.0 */
/* lazy.c: a sound device that does nothing before it must: work of a stream runs when somebody
 * waits for it, or has asked often enough. Streams and events are its own. What breaks the rules of
 * order breaks each time: a stream that is destroyed forgets its work, and memory that is given
 * back is zero from then on. The suites must pass here, and find the broken rules of
 * core_mutants.py.
 *
 * Built again with LAZY_ROWS it has kernels too (lazy_rows.c), as device "late" without dtypes of
 * 64 bits, whose work fails after its call has returned. LAZY_BREAK names one way in which it is
 * not sound, which teeth.py must see:
 *   event-ok   event_query and event_wait say nothing of work that has failed
 *   sync-ok    synchronize and copy_out say nothing of it
 *   add-fails, add-loses   one launch of add fails, that of 924 elements, or the device is lost
 *   add-waits, copy-waits  a launch, or a copy on the device, returns when its work has been done;
 *              an event behind it comes when it has been asked for, all the same
 *   event-leak  events are not freed
 *   plan-malloc  plans are the plugin's own memory, and are not freed
 *   one-block  launches of all streams have one block of arguments
 *   declines   add takes small tensors only
 *   map-leak   memory that is given back stays mapped
 *   file-leak  with each stream a file is opened that stays open
 *   host-leak, plan-leak, wrong-size   the host's memory is not released, or as another size */
#include "lazy.h"

#include <backplane/plugin.h>
#include <backplane/runtime.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

enum { MEMORY = 256 << 20, ALIGNMENT = 16, PAGE = 4096, PATIENCE = 4 };
static const uint64_t SHORT_WAIT = 1000000000;

struct stream;

/* A copy, a launch, or a wait for place `at` of another stream. */
struct job {
    struct stream *of; /* NULL: no wait */
    uint64_t at;
    struct lazy_launch *launch; /* NULL: a copy */
    struct bp_copy copy;
    void *staged; /* of a copy in */
};

/* Streams stay until the end: waits and events name them. */
struct stream {
    struct stream *next;
    struct job *job; /* job[i] is at place i + 1 */
    uint64_t n, room, done;
    uint64_t failed; /* place of a launch whose failure nobody has been told; 0: none */
    enum bp_status failure;
};

struct event {
    struct stream *of;
    uint64_t at;
};

struct lazy {
    const struct bp_host *host;
    pthread_mutex_t lock;   /* all below */
    struct stream *streams; /* newest first */
    uint64_t used;
    struct bp_memory last; /* given back last, and mapped still; data NULL: none */
    uint32_t asked;        /* how often, modulo PATIENCE */
};

/* What follows is called under the lock, up to the callbacks. */

static void run_launch(struct stream *s, struct job *job)
{
    enum bp_status status = lazy_launch_run(job->launch);

    lazy_launch_destroy(job->launch);
    job->launch = NULL;
    if (!status || s->failed) return;
    s->failed = s->done;
    s->failure = status;
}

/* The failure of work up to that place, once; the core knows which launches there were. */
static enum bp_status tell(struct stream *s, uint64_t at, bool swallow)
{
    if (!s->failed || s->failed > at || swallow) return BP_OK;
    s->failed = 0;
    return s->failure;
}

static void run_to(struct stream *s, uint64_t at)
{
    while (s->done < at) {
        struct job *job = &s->job[s->done++];
        if (job->of) run_to(job->of, job->at);
        else if (job->launch) run_launch(s, job);
        else memmove(job->copy.dst, job->copy.src, job->copy.size);
        free(job->staged);
        job->staged = NULL;
    }
}

/* Who only asks gets there too, some time. */
static void be_asked(struct lazy *lazy, const struct event *e)
{
    if (++lazy->asked % PATIENCE == 0 && e->of->done < e->at) run_to(e->of, e->of->done + 1);
}

static void add(struct stream *s, struct job job)
{
    if (s->n == s->room) {
        s->room = s->room ? 2 * s->room : 64;
        s->job = realloc(s->job, s->room * sizeof *s->job);
        if (!s->job) abort();
    }
    s->job[s->n++] = job;
}

static void forget(struct stream *s)
{
    for (uint64_t i = s->done; i < s->n; i++) {
        free(s->job[i].staged);
        if (s->job[i].launch) lazy_launch_destroy(s->job[i].launch);
    }
    s->done = s->n;
    free(s->job);
    s->job = NULL;
    s->room = 0;
}

static enum bp_status device_count(void *self, uint32_t *out_count)
{
    *out_count = 1;
    return BP_OK;
}

static enum bp_status device_properties(void *self, uint32_t device,
                                        struct bp_device_properties *out)
{
    strcpy(out->name, "a lazy device");
    strcpy(out->driver, "none: host memory");
    BP_SET(out, memory, MEMORY);
    BP_SET(out, dtypes, LAZY_DTYPES);
    BP_SET(out, alignment, ALIGNMENT);
    return BP_OK;
}

/* As little aligned as was promised. */
static enum bp_status memory_allocate(void *self, uint32_t device, uint32_t space, uint64_t size,
                                      struct bp_memory *out)
{
    struct lazy *lazy = self;
    char *pages = MAP_FAILED;
    bool fits;

    pthread_mutex_lock(&lazy->lock);
    fits = size <= MEMORY - lazy->used;
    if (fits) lazy->used += size;
    pthread_mutex_unlock(&lazy->lock);
    if (fits)
        pages = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED)
        return bp_fail(lazy->host, BP_ERR_MEMORY, "lazy: %llu bytes are more than is left",
                       (unsigned long long)size);
    *out = (struct bp_memory){(void *)size, pages + ALIGNMENT};
    return BP_OK;
}

static void unmap(const struct bp_memory *memory)
{
    if (memory->data && !lazy_breaks("map-leak"))
        munmap((char *)memory->data - ALIGNMENT, (uintptr_t)memory->handle + PAGE);
}

/* The last one's addresses stay, so that work that comes too late finds zeros; those before are
 * gone, so that it crashes. */
static void memory_free(void *self, uint32_t device, uint32_t space, const struct bp_memory *memory)
{
    struct lazy *lazy = self;
    uint64_t size = (uintptr_t)memory->handle;
    struct bp_memory before;

    pthread_mutex_lock(&lazy->lock);
    lazy->used -= size;
    before = lazy->last;
    lazy->last = *memory;
    pthread_mutex_unlock(&lazy->lock);
    madvise((char *)memory->data - ALIGNMENT, size + PAGE, MADV_DONTNEED);
    unmap(&before);
}

static enum bp_status copy_in(void *self, uint32_t device, void *stream, const struct bp_copy *copy)
{
    struct lazy *lazy = self;
    struct job job = {.copy = *copy, .staged = malloc(copy->size)};

    if (!job.staged) abort();
    job.copy.src = memcpy(job.staged, copy->src, copy->size);
    pthread_mutex_lock(&lazy->lock);
    add(stream, job);
    pthread_mutex_unlock(&lazy->lock);
    return BP_OK;
}

static enum bp_status copy_out(void *self, uint32_t device, void *stream,
                               const struct bp_copy *copy)
{
    struct lazy *lazy = self;
    struct stream *s = stream;
    enum bp_status status;

    pthread_mutex_lock(&lazy->lock);
    run_to(s, s->n);
    memcpy(copy->dst, copy->src, copy->size);
    status = tell(s, s->n, lazy_breaks("sync-ok"));
    pthread_mutex_unlock(&lazy->lock);
    return status;
}

static enum bp_status copy_within(void *self, uint32_t device, void *stream,
                                  const struct bp_copy *copy)
{
    struct lazy *lazy = self;

    pthread_mutex_lock(&lazy->lock);
    add(stream, (struct job){.copy = *copy});
    if (lazy_breaks("copy-waits")) run_to(stream, ((struct stream *)stream)->n);
    pthread_mutex_unlock(&lazy->lock);
    return BP_OK;
}

static enum bp_status synchronize(void *self, uint32_t device, void *stream)
{
    struct lazy *lazy = self;
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&lazy->lock);
    for (struct stream *s = lazy->streams; s; s = s->next)
        if (!stream || stream == s) run_to(s, s->n);
    if (stream) status = tell(stream, UINT64_MAX, lazy_breaks("sync-ok"));
    pthread_mutex_unlock(&lazy->lock);
    return status;
}

static enum bp_status stream_create(void *self, uint32_t device, void **out_stream)
{
    struct lazy *lazy = self;
    struct stream *s = calloc(1, sizeof *s);

    if (!s || (lazy_breaks("file-leak") && open("/dev/null", O_RDONLY) < 0)) abort();
    pthread_mutex_lock(&lazy->lock);
    s->next = lazy->streams;
    lazy->streams = s;
    pthread_mutex_unlock(&lazy->lock);
    *out_stream = s;
    return BP_OK;
}

static void stream_destroy(void *self, uint32_t device, void *stream)
{
    struct lazy *lazy = self;

    pthread_mutex_lock(&lazy->lock);
    forget(stream);
    pthread_mutex_unlock(&lazy->lock);
}

static enum bp_status event_create(void *self, uint32_t device, void **out_event)
{
    *out_event = calloc(1, sizeof(struct event));
    return *out_event ? BP_OK : BP_ERR_MEMORY;
}

static void event_destroy(void *self, uint32_t device, void *event)
{
    if (!lazy_breaks("event-leak")) free(event);
}

static enum bp_status event_record(void *self, uint32_t device, void *stream, void *event)
{
    struct lazy *lazy = self;
    struct stream *s = stream;

    pthread_mutex_lock(&lazy->lock);
    if (lazy_breaks("add-waits") || lazy_breaks("copy-waits")) add(s, (struct job){.of = s});
    *(struct event *)event = (struct event){s, s->n};
    pthread_mutex_unlock(&lazy->lock);
    return BP_OK;
}

static enum bp_status event_query(void *self, uint32_t device, void *event)
{
    struct lazy *lazy = self;
    const struct event *e = event;
    enum bp_status status = BP_ERR_BUSY;

    pthread_mutex_lock(&lazy->lock);
    be_asked(lazy, e);
    if (e->of->done >= e->at) status = tell(e->of, e->at, lazy_breaks("event-ok"));
    pthread_mutex_unlock(&lazy->lock);
    return status;
}

static enum bp_status event_wait(void *self, uint32_t device, void *event, uint64_t timeout_ns)
{
    struct lazy *lazy = self;
    const struct event *e = event;
    enum bp_status status = BP_OK;
    bool done;

    pthread_mutex_lock(&lazy->lock);
    if (timeout_ns >= SHORT_WAIT) run_to(e->of, e->at);
    else be_asked(lazy, e);
    done = e->of->done >= e->at;
    if (done) status = tell(e->of, e->at, lazy_breaks("event-ok"));
    pthread_mutex_unlock(&lazy->lock);
    return done ? status : bp_fail(lazy->host, BP_ERR_TIMEOUT, "lazy: not in so short a time");
}

static enum bp_status stream_wait(void *self, uint32_t device, void *stream, void *event)
{
    struct lazy *lazy = self;
    const struct event *e = event;

    pthread_mutex_lock(&lazy->lock);
    if (e->of->done < e->at) add(stream, (struct job){.of = e->of, .at = e->at});
    pthread_mutex_unlock(&lazy->lock);
    return BP_OK;
}

enum bp_status lazy_give(const struct bp_launch *launch, struct lazy_launch *copy)
{
    struct lazy *lazy = launch->self;

    pthread_mutex_lock(&lazy->lock);
    add(launch->stream, (struct job){.launch = copy});
    if (lazy_breaks("add-waits")) run_to(launch->stream, ((struct stream *)launch->stream)->n);
    pthread_mutex_unlock(&lazy->lock);
    return BP_OK;
}

void lazy_catch_up(const struct bp_launch *launch)
{
    struct lazy *lazy = launch->self;
    struct stream *s = launch->stream;

    pthread_mutex_lock(&lazy->lock);
    run_to(s, s->n);
    pthread_mutex_unlock(&lazy->lock);
}

const struct bp_host *lazy_host(void *self)
{
    return ((struct lazy *)self)->host;
}

static const struct bp_runtime runtime = {
    .size = sizeof runtime,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_allocate = memory_allocate,
    .memory_free = memory_free,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy_within = copy_within,
    .synchronize = synchronize,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_wait = event_wait,
    .stream_wait = stream_wait,
};

static enum bp_status create(const struct bp_host *host, void **out_self)
{
    struct lazy *lazy = calloc(1, sizeof *lazy);

    if (!lazy) abort();
    lazy->host = host;
    pthread_mutex_init(&lazy->lock, NULL);
    *out_self = lazy;
    return BP_OK;
}

static void destroy(void *self)
{
    struct lazy *lazy = self;
    struct stream *next;

    for (struct stream *s = lazy->streams; s; s = next) {
        next = s->next;
        forget(s);
        free(s);
    }
    unmap(&lazy->last);
    pthread_mutex_destroy(&lazy->lock);
    free(lazy);
}

static const struct bp_plugin plugin = {
    .size = sizeof plugin,
    .abi_major = BP_ABI_MAJOR,
    .abi_minor = BP_ABI_MINOR,
    .build = BP_BUILD_FLAGS,
    .name = LAZY_NAME,
    .version = "1",
    .kind = LAZY_NAME,
    .create = create,
    .destroy = destroy,
    .runtime = &runtime,
    .kernels = LAZY_KERNELS,
};

const struct bp_plugin *bp_plugin_get(void)
{
    return &plugin;
}
