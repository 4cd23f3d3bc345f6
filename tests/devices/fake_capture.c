/* SPDX-License-Identifier: Apache-2.0 */
/* fake_capture.c: records work of the fake device, and submits it again: the word captures. */
#include "fake_work.h"

#include <backplane/capture.h>
#include <stdlib.h>

struct recording {
    struct job *first;
};

static void recording_free(struct job *j)
{
    for (struct job *next; j; j = next) {
        next = j->next;
        if (j->launch) fake_launch_destroy(j->launch);
        free(j);
    }
}

static enum bp_status capture_begin(void *self, uint32_t device, void *stream)
{
    struct stream *s = stream;

    pthread_mutex_lock(&fake_all.lock);
    s->recorded = NULL;
    s->recorded_end = &s->recorded;
    pthread_mutex_unlock(&fake_all.lock);
    return BP_OK;
}

/* Ends the capture, and returns the recorded work. */
static struct job *capture_take(struct stream *s)
{
    pthread_mutex_lock(&fake_all.lock);
    s->recorded_end = NULL;
    pthread_mutex_unlock(&fake_all.lock);
    return s->recorded;
}

static enum bp_status capture_end(void *self, uint32_t device, void *stream, void **out_recording)
{
    struct recording *r = calloc(1, sizeof *r);

    if (!r) abort();
    r->first = capture_take(stream);
    *out_recording = r;
    return BP_OK;
}

static void capture_abort(void *self, uint32_t device, void *stream)
{
    recording_free(capture_take(stream));
}

static enum bp_status capture_replay(void *self, uint32_t device, void *recording, void *stream)
{
    struct fake_instance *f = self;

    for (const struct job *j = ((struct recording *)recording)->first; j; j = j->next) {
        struct job again = {.copy = j->copy, .doom = j->doom};
        enum bp_status status;
        if (j->launch) again.launch = fake_launch_copy(&j->launch->l, f->host);
        status = fake_give(f, stream, &again, false);
        if (status) return status;
    }
    return BP_OK;
}

static void recording_destroy(void *self, uint32_t device, void *recording)
{
    recording_free(((struct recording *)recording)->first);
    free(recording);
}

const struct bp_captures fake_captures = {
    .size = sizeof fake_captures,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .capture_abort = capture_abort,
    .replay = capture_replay,
    .recording_destroy = recording_destroy,
};
