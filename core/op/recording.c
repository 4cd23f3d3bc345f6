/* SPDX-License-Identifier: Apache-2.0 */
/* recording.c: a stream's calls are recorded by the plugin, kept with what they use, replayed. */
#include "recording.h"

#include "../graph/graph.h"
#include "../memory/pool.h"
#include "fallback.h"

#include <stdlib.h>

static enum bp_status take(struct bp_recording *r, struct bp_prepared *p);
static void count(struct bp_recording *r, const struct bp_op_row *row, uint32_t kind,
                  uint64_t bytes);

static enum bp_status no_memory(const struct bp_device *device)
{
    return bp_error(BP_ERR_MEMORY, "%s: no host memory for a recording", device->name);
}

/* All replays have ended. */
static void give_back(struct bp_pending *pending)
{
    struct bp_recording *r = (struct bp_recording *)pending;
    struct bp_plugin_entry *entry = r->device->entry;

    if (r->ready) entry->graphs.recording_destroy(entry->self, r->device->index, r->recorded);
    for (uint32_t i = 0; i < r->n_kept; i++) bp_prepared_release(r->kept[i]);
    free(r->kept);
    free(r->fallback);
    free(r);
}

/* Each launch would have noted that it uses them; the last replay does so for all. */
static void note_constants(const struct bp_recording *r)
{
    for (uint32_t v = 0; r->ran && v < r->graph->n_value; v++)
        if (r->graph->value[v].constant && r->graph->value[v].constant->storage)
            bp_storage_use(r->graph->value[v].constant->storage, r->timeline, r->ran);
}

void bp_recording_destroy(struct bp_recording *r)
{
    struct bp_device *device;

    if (!r) return;
    device = r->device;
    note_constants(r);
    if (r->memory) bp_capture_destroy(r->memory, r->ran ? r->timeline : NULL, r->ran);
    bp_pending_release(device, &r->pending);
    bp_device_release(device);
}

static enum bp_status check_begin(const struct bp_stream *stream)
{
    const struct bp_device *device = stream->device;

    if (!device->entry->graphs.capture_begin || stream->timeline->queue || stream->timeline->now)
        return bp_error(BP_ERR_UNSUPPORTED, "%s does not record work", device->name);
    if (stream->synchronous)
        return bp_error(BP_ERR_UNSUPPORTED, "BP_SYNC=launch: each launch is waited for");
    return BP_OK;
}

static enum bp_status make(struct bp_stream *stream, const struct bp_graph *graph,
                           struct bp_recording **out)
{
    struct bp_recording *r = calloc(1, sizeof *r);

    if (!r) return no_memory(stream->device);
    r->device = stream->device;
    r->timeline = stream->timeline;
    r->base = atomic_load(&stream->timeline->base);
    r->graph = graph;
    r->pending.release = give_back;
    r->take = take;
    r->count = count;
    bp_device_retain(r->device);
    *out = r;
    return BP_OK;
}

static enum bp_status begin(struct bp_recording *r)
{
    struct bp_plugin_entry *entry = r->device->entry;

    TRY(bp_capture_begin(r->timeline, &r->memory));
    bp_error_enter();
    return bp_device_leave(
        r->device, entry->graphs.capture_begin(entry->self, r->device->index, r->timeline->stream),
        "capture_begin");
}

/* The stream's calls are done again. */
static void leave(struct bp_recording *r)
{
    r->timeline->recording = NULL;
    if (r->memory) bp_capture_end(r->memory);
    bp_timeline_release(r->timeline);
    atomic_store(&r->device->recording, false);
}

enum bp_status bp_recording_begin(struct bp_stream *stream, const struct bp_graph *graph,
                                  struct bp_recording **out_recording)
{
    struct bp_device *device = stream->device;
    struct bp_recording *r;
    enum bp_status status;

    TRY(check_begin(stream));
    TRY(make(stream, graph, &r));
    status = atomic_exchange(&device->recording, true)
                 ? bp_error(BP_ERR_BUSY, "%s: other work is being recorded now", device->name)
                 : BP_OK;
    if (status == BP_OK) {
        status = bp_timeline_seize(r->timeline);
        if (status) atomic_store(&device->recording, false);
        else if ((status = begin(r)) != BP_OK) leave(r);
    }
    if (status) {
        bp_recording_destroy(r);
        return status;
    }
    r->timeline->recording = r;
    *out_recording = r;
    return BP_OK;
}

enum bp_status bp_recording_end(struct bp_recording *r)
{
    struct bp_plugin_entry *entry = r->device->entry;
    enum bp_status status;

    bp_error_enter();
    status = bp_device_leave(
        r->device,
        entry->graphs.capture_end(entry->self, r->device->index, r->timeline->stream, &r->recorded),
        "capture_end");
    r->ready = status == BP_OK;
    leave(r);
    if (status) bp_recording_destroy(r);
    return status;
}

void bp_recording_abort(struct bp_recording *r)
{
    struct bp_plugin_entry *entry = r->device->entry;

    entry->graphs.capture_abort(entry->self, r->device->index, r->timeline->stream);
    leave(r);
    bp_recording_destroy(r);
}

bool bp_recording_is_of(const struct bp_recording *r, const struct bp_stream *stream)
{
    return r->timeline == stream->timeline && r->base == atomic_load(&stream->timeline->base);
}

enum bp_status bp_recording_replay(struct bp_recording *r, struct bp_stream *stream)
{
    struct bp_timeline *timeline = r->timeline;
    struct bp_plugin_entry *entry = r->device->entry;
    enum bp_status status;
    bool noted;

    TRY(bp_stream_check(stream));
    r->ran = bp_work_begin(timeline, "a program");
    bp_error_enter();
    status = bp_stopping() ? bp_stopped()
                           : bp_device_leave(r->device,
                                             entry->graphs.replay(entry->self, r->device->index,
                                                                  r->recorded, timeline->stream),
                                             "replay");
    bp_work_end(timeline, r->ran);
    pthread_mutex_lock(&r->device->lock);
    noted = bp_users_add(&r->pending.users, timeline, r->ran);
    pthread_mutex_unlock(&r->device->lock);
    if (!noted) bp_timeline_wait(timeline, r->ran, &bp_no_deadline);
    for (uint32_t i = 0; i < r->n_fallback && status == BP_OK; i++)
        bp_fallback_count(r->device, r->fallback[i].row, r->fallback[i].kind, r->fallback[i].bytes,
                          0);
    return status;
}

uint64_t bp_recording_bytes(const struct bp_recording *r)
{
    struct bp_pool_stats stats = {.size = sizeof stats};

    bp_pool_stats(r->memory, &stats);
    return stats.reserved;
}

static enum bp_status check_row(const struct bp_op_row *row)
{
    if (row->random)
        return bp_error(BP_ERR_UNSUPPORTED, "%s draws random numbers, others each time",
                        row->info.name);
    if (row->bound)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: its extents depend on data, which the host reads",
                        row->info.name);
    return BP_OK;
}

static enum bp_status check_step(const struct bp_step *step)
{
    if (step->elsewhere)
        return bp_error(BP_ERR_UNSUPPORTED, "%s runs on %s", step->row->info.name,
                        step->elsewhere->device->name);
    if (step->kernel->flags & BP_KERNEL_NO_CAPTURE)
        return bp_error(BP_ERR_UNSUPPORTED, "%s: its kernel %s is not to be recorded",
                        step->row->info.name, step->kernel->name);
    return check_row(step->row);
}

static enum bp_status take(struct bp_recording *r, struct bp_prepared *p)
{
    TRY(check_row(p->row));
    for (uint32_t i = 0; i < p->n_step; i++) TRY(check_step(&p->step[i]));
    if (r->n_kept && r->kept[r->n_kept - 1] == p) return BP_OK;
    if (r->n_kept == r->room_kept) {
        uint32_t room = r->room_kept ? 2 * r->room_kept : 64;
        void *grown = realloc(r->kept, room * sizeof(struct bp_prepared *));
        if (!grown) return no_memory(r->device);
        r->kept = grown;
        r->room_kept = room;
    }
    bp_prepared_retain(p);
    r->kept[r->n_kept++] = p;
    return BP_OK;
}

/* Without memory replays are not counted. */
static void count(struct bp_recording *r, const struct bp_op_row *row, uint32_t kind,
                  uint64_t bytes)
{
    if (r->n_fallback == r->room_fallback) {
        uint32_t room = r->room_fallback ? 2 * r->room_fallback : 16;
        void *grown = realloc(r->fallback, room * sizeof *r->fallback);
        if (!grown) return;
        r->fallback = grown;
        r->room_fallback = room;
    }
    r->fallback[r->n_fallback++] = (struct bp_recorded_fallback){row, kind, bytes};
}
