/* SPDX-License-Identifier: Apache-2.0 */
/* capture.c: lets the plugin capture a stream's calls, keeps the objects that they use, and replays
 * them. */
#include "capture.h"

#include "../base/generator.h"
#include "../graph/graph.h"
#include "../memory/pool.h"
#include "../call/fallback.h"
#include "../device/profiled.h"

#include <stdlib.h>

static enum bp_status no_memory(const struct bp_device *device)
{
    return bp_error(BP_ERR_MEMORY, "%s: no host memory for a recording", device->name);
}

/* Called when all replays have ended. */
static void capture_give_back(struct bp_deferred *pending)
{
    struct bp_capture *r = (struct bp_capture *)pending;
    struct bp_plugin_entry *entry = r->device->entry;

    if (r->ready) entry->captures.recording_destroy(entry->self, r->device->index, r->recorded);
    for (uint32_t i = 0; i < r->n_kept; i++) bp_prepared_release(r->kept[i]);
    free(r->kept);
    free(r->fallback);
    free(r);
}

/* Without a capture, each launch records that it uses the constants; here the last replay records
 * it for all launches. */
static void note_constants(const struct bp_capture *r)
{
    for (uint32_t v = 0; r->ran && v < r->graph->n_value; v++)
        if (r->graph->value[v].constant && r->graph->value[v].constant->buffer)
            bp_buffer_record_use(r->graph->value[v].constant->buffer, r->timeline, r->ran);
}

void bp_capture_destroy(struct bp_capture *r)
{
    struct bp_device *device;

    if (!r) return;
    device = r->device;
    note_constants(r);
    if (r->rng) bp_buffer_release(r->rng);
    if (r->memory) bp_capture_pool_destroy(r->memory, r->ran ? r->timeline : NULL, r->ran);
    bp_deferred_release(device, &r->pending);
    bp_device_release(device);
}

static enum bp_status check_begin(const struct bp_stream *stream)
{
    const struct bp_device *device = stream->device;

    if (!device->entry->captures.capture_begin || stream->timeline->queue ||
        stream->timeline->is_inline)
        return bp_error(BP_ERR_UNSUPPORTED, "%s does not record work", device->name);
    if (stream->synchronous)
        return bp_error(BP_ERR_UNSUPPORTED, "BP_SYNC=launch: each launch is waited for");
    return BP_OK;
}

static enum bp_status capture_make(struct bp_stream *stream, const struct bp_graph *graph,
                                   struct bp_capture **out)
{
    struct bp_capture *r = calloc(1, sizeof *r);

    if (!r) return no_memory(stream->device);
    r->device = stream->device;
    r->timeline = stream->timeline;
    r->base = atomic_load(&stream->timeline->base);
    r->graph = graph;
    r->pending.release = capture_give_back;
    bp_device_retain(r->device);
    *out = r;
    return BP_OK;
}

static bool capture_draws(const struct bp_graph *graph)
{
    for (uint32_t n = 0; n < graph->n_node; n++)
        if (graph->node[n].row->random) return true;
    return false;
}

/* The memory of the seed is allocated before any call is captured: memory that captured calls have
 * freed is written again by each replay, after the copy of the seed. */
static enum bp_status capture_start(struct bp_capture *r)
{
    struct bp_plugin_entry *entry = r->device->entry;

    TRY(bp_capture_pool_begin(r->timeline, &r->memory));
    if (capture_draws(r->graph))
        TRY(bp_buffer_allocate(r->device, r->timeline, BP_SPACE_DEVICE, 2 * sizeof(uint64_t),
                               &r->rng));
    bp_error_enter();
    return bp_device_leave(
        r->device,
        entry->captures.capture_begin(entry->self, r->device->index, r->timeline->stream),
        "capture_begin");
}

/* Ends the capture: from now on the stream's calls run again. */
static void capture_leave(struct bp_capture *r)
{
    r->timeline->recording = NULL;
    if (r->memory) bp_capture_pool_end(r->memory);
    bp_timeline_unlock_stream(r->timeline);
    atomic_store(&r->device->recording, false);
}

enum bp_status bp_capture_begin(struct bp_stream *stream, const struct bp_graph *graph,
                                struct bp_capture **out_recording)
{
    struct bp_device *device = stream->device;
    struct bp_capture *r;
    enum bp_status status;

    TRY(check_begin(stream));
    TRY(capture_make(stream, graph, &r));
    status = atomic_exchange(&device->recording, true)
                 ? bp_error(BP_ERR_BUSY, "%s: other work is being recorded now", device->name)
                 : BP_OK;
    if (status == BP_OK) {
        status = bp_timeline_lock_stream(r->timeline);
        if (status) atomic_store(&device->recording, false);
        else if ((status = capture_start(r)) != BP_OK) capture_leave(r);
    }
    if (status) {
        bp_capture_destroy(r);
        return status;
    }
    r->timeline->recording = r;
    *out_recording = r;
    return BP_OK;
}

enum bp_status bp_capture_end(struct bp_capture *r)
{
    struct bp_plugin_entry *entry = r->device->entry;
    enum bp_status status;

    bp_error_enter();
    status = bp_device_leave(
        r->device,
        entry->captures.capture_end(entry->self, r->device->index, r->timeline->stream,
                                    &r->recorded),
        "capture_end");
    r->ready = status == BP_OK;
    capture_leave(r);
    if (status) bp_capture_destroy(r);
    return status;
}

void bp_capture_abort(struct bp_capture *r)
{
    struct bp_plugin_entry *entry = r->device->entry;

    entry->captures.capture_abort(entry->self, r->device->index, r->timeline->stream);
    capture_leave(r);
    bp_capture_destroy(r);
}

bool bp_capture_is_of(const struct bp_capture *r, const struct bp_stream *stream)
{
    return r->timeline == stream->timeline && r->base == atomic_load(&stream->timeline->base);
}

/* Draws the random numbers of a replay, as a run without a capture would, and writes their seed and
 * first block to the memory that the captured calls read. The stream copies them after its earlier
 * replays and before this one. */
static enum bp_status capture_draw(struct bp_capture *r, struct bp_stream *stream)
{
    struct bp_generator *generator = stream->generator ? stream->generator
                                                       : r->device->core->generator;
    uint64_t from[2];
    struct bp_copy copy = {.src = from, .size = sizeof from};

    if (!r->random_blocks) return BP_OK;
    bp_generator_reserve(generator, r->random_blocks, &from[0], &from[1]);
    if (!r->rng) return BP_OK; /* nothing reads the results of the random nodes */
    copy.dst_memory = r->rng->memory.handle;
    copy.dst = r->rng->memory.data;
    return bp_memory_copy(stream, BP_COPY_IN, &copy, r->rng, NULL);
}

enum bp_status bp_capture_replay(struct bp_capture *r, struct bp_stream *stream)
{
    struct bp_timeline *timeline = r->timeline;
    struct bp_plugin_entry *entry = r->device->entry;
    enum bp_status status;
    uint64_t began;
    bool noted;

    TRY(bp_stream_check(stream));
    TRY(capture_draw(r, stream));
    r->ran = bp_work_begin(timeline, "a program");
    bp_error_enter();
    began = bp_work_profile_begin(timeline, r->ran);
    status = bp_process_is_stopping() ? bp_error_stopped()
                           : bp_device_leave(r->device,
                                             entry->captures.replay(entry->self, r->device->index,
                                                                  r->recorded, timeline->stream),
                                             "replay");
    if (began)
        bp_work_profile_end(timeline, r->ran, began,
                            &(struct bp_profile_put){.kind = BP_RECORD_REPLAY, .name = "replay"});
    bp_work_end(timeline, r->ran);
    pthread_mutex_lock(&r->device->lock);
    noted = bp_users_add(&r->pending.users, timeline, r->ran);
    pthread_mutex_unlock(&r->device->lock);
    if (!noted) bp_timeline_wait(timeline, r->ran, &bp_deadline_none);
    for (uint32_t i = 0; i < r->n_fallback && status == BP_OK; i++)
        bp_fallback_count(r->device, r->fallback[i].row, r->fallback[i].kind, r->fallback[i].bytes,
                          0);
    return status;
}

uint64_t bp_capture_bytes(const struct bp_capture *r)
{
    struct bp_pool_stats stats = {.size = sizeof stats};

    bp_pool_stats(r->memory, &stats);
    return stats.reserved;
}
