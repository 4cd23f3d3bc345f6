/* SPDX-License-Identifier: Apache-2.0 */
/* profile_kit.c: implements the helpers of the tests of the profiler; see profile_kit.h. */
#include "profile_kit.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void profile_ok(enum bp_status status, const char *what)
{
    expect(status == BP_OK, "%s answers %d: %s", what, status, error_text);
}

static void profile_kit_take(void *ctx, const struct bp_record *first, size_t count, size_t stride)
{
    struct taker *taker = ctx;

    pthread_mutex_lock(&taker->lock);
    expect(!taker->closed, "a record after stop");
    for (size_t i = 0; i < count && taker->n < TAKEN_MAX; i++) {
        const struct bp_record *r = (const void *)((const char *)first + i * stride);
        struct taken *to = &taker->taken[taker->n++];
        to->record = *r;
        snprintf(to->name, sizeof to->name, "%s", r->name ? r->name : "");
    }
    pthread_mutex_unlock(&taker->lock);
}

void profile_world(struct world *w, const struct tracer *tracer, const char *plugin)
{
    setenv(tracer->setting, tracer->path, 1);
    setenv(tracer->other, "off", 1);
    profile_ok(world_make(w, load(plugin)), "world_make");
    if (!expect(w->plugin->profiler != NULL, "the plugin has no profiler")) exit(1);
}

enum bp_status profile_start(struct world *w, uint32_t device, struct taker *taker)
{
    if (!taker->sink.size) pthread_mutex_init(&taker->lock, NULL);
    taker->sink = (struct bp_record_sink){sizeof taker->sink, taker, profile_kit_take};
    taker->n = 0;
    taker->closed = false;
    return w->plugin->profiler->start(w->self, device, &taker->sink);
}

void profile_stop(struct world *w, uint32_t device, struct taker *taker)
{
    w->plugin->profiler->stop(w->self, device);
    pthread_mutex_lock(&taker->lock);
    taker->closed = true;
    pthread_mutex_unlock(&taker->lock);
}

void profile_end(struct world *w, const char *driver)
{
    world_end(w);
    expect(!host_live && !driver_live(driver), "something is left");
}

void profile_tag(struct world *w, uint32_t device, void *stream, uint64_t tag)
{
    w->plugin->profiler->tag(w->self, device, stream, tag);
}

void tagged_launch(struct world *w, uint64_t tag)
{
    profile_tag(w, 0, w->stream[0], tag);
    profile_ok(launch_gather(w), "gather");
    profile_tag(w, 0, w->stream[0], 0);
}

void tagged_copy(struct world *w, void *stream, uint64_t tag)
{
    struct bp_copy copy = {w->y.handle, (char *)w->y.data + 1024, w->x.handle, w->x.data, 64};

    profile_tag(w, 0, stream, tag);
    profile_ok(w->r->copy_within(w->self, 0, stream, &copy), "copy_within");
    profile_tag(w, 0, stream, 0);
}

void profile_wait(struct world *w)
{
    profile_ok(w->r->synchronize(w->self, 0, NULL), "synchronize");
}

size_t taken_count(const struct taker *taker, uint32_t kind, const void *stream, uint64_t tag)
{
    size_t n = 0;

    for (size_t i = 0; i < taker->n; i++) {
        const struct bp_record *r = &taker->taken[i].record;
        n += r->kind == kind && (!stream || r->stream == stream) && (!tag || r->tag == tag);
    }
    return n;
}

void taken_each(const struct taker *taker, uint32_t kind, const void *stream, uint64_t n)
{
    for (uint64_t tag = 1; tag <= n; tag++) {
        size_t found = taken_count(taker, kind, stream, tag);
        expect(found == 1, "tag %u has %zu records of kind %u", (unsigned)tag, found, kind);
    }
}

int standin_number(const struct tracer *tracer, const char *function)
{
    int (*number)(void) = NULL;

    *(void **)&number = dlsym(dlopen(tracer->path, RTLD_NOW | RTLD_LOCAL), function);
    return expect(number != NULL, "no function %s", function) ? number() : -1;
}

void standin_put(const struct tracer *tracer, const char *function, const void *record, size_t size)
{
    void (*put_it)(const void *, size_t) = NULL;

    *(void **)&put_it = dlsym(dlopen(tracer->path, RTLD_NOW | RTLD_LOCAL), function);
    if (expect(put_it != NULL, "no function %s", function)) put_it(record, size);
}
