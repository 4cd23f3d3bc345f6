/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: keeps the list of a device's streams, and waits for events; see stream.h. */
#include "stream.h"
#include <stdio.h>
#include <time.h>

void kit_stream_add(struct kit_streams *streams, struct kit_stream *stream)
{
    pthread_mutex_lock(&streams->lock);
    stream->next = streams->first;
    stream->number = ++streams->n;
    streams->first = stream;
    pthread_mutex_unlock(&streams->lock);
}

void kit_stream_remove(struct kit_streams *streams, struct kit_stream *stream)
{
    struct kit_stream **at = &streams->first;

    pthread_mutex_lock(&streams->lock);
    while (*at != stream) at = &(*at)->next;
    *at = stream->next;
    pthread_mutex_unlock(&streams->lock);
}

bool kit_streams_exist(struct kit_streams *streams)
{
    bool exist;

    pthread_mutex_lock(&streams->lock);
    exist = streams->first != NULL;
    pthread_mutex_unlock(&streams->lock);
    return exist;
}

struct kit_stream *kit_stream_find(const struct kit_streams *streams, uint64_t number)
{
    struct kit_stream *stream = streams->first;

    while (stream && stream->number != number) stream = stream->next;
    return stream;
}

uint64_t kit_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

enum bp_status kit_event_wait(const struct kit_report *report,
                              enum bp_status (*query)(void *self, uint32_t device, void *event),
                              void *self, void *event, uint64_t timeout_ns)
{
    uint64_t start = kit_now_ns(), pause = 2000, past = 0;
    enum bp_status status;

    while ((status = query(self, report->device, event)) == BP_ERR_NOT_READY && past < timeout_ns) {
        if (pause > timeout_ns - past) pause = timeout_ns - past;
        nanosleep(&(struct timespec){0, (long)pause}, NULL);
        if (pause < 1000000) pause *= 2;
        past = kit_now_ns() - start;
    }
    if (status != BP_ERR_NOT_READY) return status;
    return bp_fail(report->host, BP_ERR_TIMEOUT, "%s:%u: the event was not reached after %.3f s",
                   report->plugin, report->device, (double)timeout_ns / 1e9);
}
