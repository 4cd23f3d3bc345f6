/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c: keeps fault words in device memory, and copies of them; see guard.h. The stream's lock
 * guards the words, the list and the copies in it. */
#include "guard.h"
#include "call.h"
#include <string.h>

enum {
    GUARD_BYTES = KIT_FAULTS * sizeof(uint32_t)
};

void kit_guard_begin(struct kit_guard *guard, struct kit_stream *stream,
                     const struct kit_guard_calls *calls, const struct kit_report *report)
{
    *guard = (struct kit_guard){.stream = stream, .calls = calls, .report = report};
    stream->guard = guard;
}

void kit_guard_end(struct kit_guard *guard)
{
    /* Copies of the list may be freed: nothing finds their stream when they are forgotten. */
    guard->first = NULL;
    if (guard->memory) guard->calls->release(guard->stream, guard->memory);
    guard->memory = NULL;
}

/* Under the lock. */
static enum bp_status guard_make(struct kit_guard *guard)
{
    void *memory = NULL;
    enum bp_status status;

    TRY(guard->calls->allocate(guard->stream, GUARD_BYTES, &memory));
    status = guard->calls->clear(guard->stream, memory, GUARD_BYTES);
    if (status) guard->calls->release(guard->stream, memory);
    else guard->memory = memory;
    return status;
}

enum bp_status kit_guard_provide(struct kit_guard *guard)
{
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&guard->stream->lock);
    if (!guard->memory) status = guard_make(guard);
    pthread_mutex_unlock(&guard->stream->lock);
    return status;
}

enum bp_status kit_guard_take(struct kit_guard *guard, const char *row, int *out_word)
{
    TRY(kit_guard_provide(guard));
    *out_word = kit_fault_take(guard->stream, row);
    return BP_OK;
}

/* Under the lock. A capture must not record copies: its replays would make them. */
static bool guard_has_news(const struct kit_guard *guard)
{
    return !guard->stream->captured && guard->copied < guard->stream->launched;
}

bool kit_guard_has_news(struct kit_guard *guard)
{
    bool news;

    pthread_mutex_lock(&guard->stream->lock);
    news = guard_has_news(guard);
    pthread_mutex_unlock(&guard->stream->lock);
    return news;
}

/* Adds the copy behind the others. Under the lock. */
static enum bp_status guard_copy(struct kit_guard *guard, struct kit_guard_copy *copy)
{
    struct kit_guard_copy **at = &guard->first;

    memset(copy->words, 0, GUARD_BYTES);
    TRY(guard->calls->read(guard->stream, copy->words, guard->memory, GUARD_BYTES));
    TRY(guard->calls->clear(guard->stream, guard->memory, GUARD_BYTES));
    while (*at) at = &(*at)->next;
    *at = copy;
    copy->next = NULL;
    guard->copied = guard->stream->launched;
    return BP_OK;
}

enum bp_status kit_guard_read(struct kit_guard *guard, struct kit_guard_copy *copy)
{
    struct kit_stream *stream = guard->stream;
    enum bp_status status = BP_OK;

    copy->mark = (struct kit_mark){.stream = stream->number};
    pthread_mutex_lock(&stream->lock);
    if (guard_has_news(guard)) status = guard_copy(guard, copy);
    if (status == BP_OK && !stream->captured && kit_fault_is_possible(stream))
        copy->mark.launched = stream->launched;
    pthread_mutex_unlock(&stream->lock);
    return status;
}

/* Takes the faults of a copy out of the list. Under the lock. */
static void guard_collect(struct kit_guard *guard, struct kit_guard_copy **at)
{
    struct kit_guard_copy *copy = *at;

    for (int i = 0; i < KIT_FAULTS; i++)
        if (!guard->found[i]) guard->found[i] = copy->words[i];
    *at = copy->next;
    copy->next = NULL;
}

/* The copies up to the mark have ended, because the stream runs in order. */
static enum bp_status guard_report(struct kit_guard *guard, const struct kit_guard_copy *copy)
{
    if (!copy->mark.launched) return BP_OK;
    pthread_mutex_lock(&guard->stream->lock);
    while (guard->first && guard->first->mark.launched <= copy->mark.launched)
        guard_collect(guard, &guard->first);
    pthread_mutex_unlock(&guard->stream->lock);
    return kit_fault_report(guard->report, guard->stream, guard->found, copy->mark.launched);
}

static void guard_forget(struct kit_guard *guard, struct kit_guard_copy *copy)
{
    struct kit_guard_copy **at = &guard->first;

    pthread_mutex_lock(&guard->stream->lock);
    while (*at && *at != copy) at = &(*at)->next;
    if (*at) guard_collect(guard, at);
    pthread_mutex_unlock(&guard->stream->lock);
}

enum bp_status kit_guard_waited(struct kit_guard *guard, struct kit_guard_copy *copy,
                                enum bp_status outcome)
{
    enum bp_status status = outcome ? outcome : guard_report(guard, copy);

    guard_forget(guard, copy);
    copy->mark = (struct kit_mark){0};
    return status;
}

enum bp_status kit_guard_reached(struct kit_streams *streams, struct kit_guard_copy *copy)
{
    enum bp_status status = BP_OK;
    struct kit_stream *stream;

    if (!copy->mark.launched) return BP_OK;
    pthread_mutex_lock(&streams->lock);
    stream = kit_stream_find(streams, copy->mark.stream);
    if (stream) status = guard_report(stream->guard, copy);
    pthread_mutex_unlock(&streams->lock);
    return status;
}

void kit_guard_forget(struct kit_streams *streams, struct kit_guard_copy *copy)
{
    struct kit_stream *stream;

    pthread_mutex_lock(&streams->lock);
    stream = kit_stream_find(streams, copy->mark.stream);
    if (stream) guard_forget(stream->guard, copy);
    copy->mark = (struct kit_mark){0};
    pthread_mutex_unlock(&streams->lock);
}
