/* SPDX-License-Identifier: Apache-2.0 */
/* fake_work.c: queues the work of the fake device, and decides when it runs. */
#include "fake_work.h"

#include <stdlib.h>
#include <string.h>

enum { PATIENCE = 4 };

struct fake_all fake_all = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t queried;

static void work_init(void)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&fake_all.changed, &monotonic);
}

static void run_job(struct stream *s, struct job *j)
{
    const struct fake_row *row = j->launch ? (const void *)j->launch->l.kernel : NULL;
    enum bp_status status = fake_all.next_failure;
    const char *reason = "the work was told to fail";

    if (j->of || (!row && !j->copy.size)) return;
    fake_all.n_ended++;
    fake_all.next_failure = BP_OK;
    if (!status) status = j->doom;
    if (!status && row) status = row->run(&j->launch->l), reason = NULL;
    else if (!status && fake_mode != FAKE_POLLED) memmove(j->copy.dst, j->copy.src, j->copy.size);
    if (!status || s->failure) return;
    s->failure = status;
    s->reason = reason;
    s->failed_at = s->done + 1;
}

void fake_job_end(struct stream *s)
{
    struct job *j = s->first;

    run_job(s, j);
    s->first = j->next;
    if (!s->first) s->end = &s->first;
    s->done++;
    if (j->launch) fake_launch_destroy(j->launch);
    free(j);
}

bool fake_can_end(const struct stream *s)
{
    const struct job *j = s->first;

    return j && !fake_all.lost && !j->held && (!j->of || j->of->done >= j->at);
}

/* Ends, because a wait names only positions that existed before it. */
void fake_run_to(struct stream *s, uint64_t at)
{
    while (s->done < at && s->first) {
        if (s->first->of) fake_run_to(s->first->of, s->first->at);
        fake_job_end(s);
    }
}

void fake_wait_to(struct stream *s, uint64_t at)
{
    if (fake_mode != FAKE_THREAD && !fake_all.lost) fake_run_to(s, at);
    while (s->done < at && !fake_all.lost) pthread_cond_wait(&fake_all.changed, &fake_all.lock);
}

enum bp_status fake_gone(struct fake_instance *f)
{
    return bp_fail(f->host, BP_ERR_DEVICE_LOST, "somebody pulled the plug");
}

enum bp_status fake_report(struct fake_instance *f, struct stream *s, uint64_t at, bool mute)
{
    enum bp_status failure = s->failure;

    if (fake_all.lost) return fake_gone(f);
    if (!failure || s->failed_at > at || mute) return BP_OK;
    s->failure = BP_OK;
    return s->reason ? bp_fail(f->host, failure, "%s", s->reason) : failure;
}

void fake_be_queried(const struct event *e)
{
    if (fake_mode == FAKE_LATE && ++queried % PATIENCE == 0 && e->of && e->of->done < e->at)
        fake_run_to(e->of, e->of->done + 1);
}

static void *work_run(void *arg)
{
    struct fake_work *w = arg;

    pthread_mutex_lock(&fake_all.lock);
    while (!w->ending) {
        bool ran = false;
        for (struct stream *s = w->streams; s; s = s->next)
            if (fake_can_end(s)) fake_job_end(s), ran = true;
        if (ran) pthread_cond_broadcast(&fake_all.changed);
        else pthread_cond_wait(&fake_all.changed, &fake_all.lock);
    }
    pthread_mutex_unlock(&fake_all.lock);
    return NULL;
}

struct stream *fake_stream_add(struct fake_work *w, uint32_t device)
{
    struct stream *s = calloc(1, sizeof *s);

    if (!s) return NULL;
    if (fake_mode == FAKE_POLLED && fake_all.n_numbered == STREAMS) abort();
    *s = (struct stream){.next = w->streams, .device = device, .end = &s->first};
    w->streams = s;
    if (fake_mode != FAKE_POLLED) return s;
    s->after = calloc(STREAMS, sizeof *s->after);
    s->index = fake_all.n_numbered;
    return fake_all.numbered[fake_all.n_numbered++] = s;
}

enum bp_status fake_give(struct fake_instance *f, struct stream *s, const struct job *what,
                         bool staged)
{
    struct job *j = malloc(sizeof *j + (staged ? what->copy.size : 0));
    enum bp_status status = BP_OK;

    if (!j) abort();
    *j = *what;
    if (staged) j->copy.src = memcpy(j->staged, what->copy.src, what->copy.size);
    pthread_mutex_lock(&fake_all.lock);
    j->held = fake_all.holding && !j->of;
    if (fake_all.lost) {
        if (j->launch) fake_launch_destroy(j->launch);
        free(j);
        status = fake_gone(f);
    } else if (s->recorded_end) {
        *s->recorded_end = j;
        s->recorded_end = &j->next;
    } else {
        *s->end = j;
        s->end = &j->next;
        s->given++;
        pthread_cond_broadcast(&fake_all.changed);
    }
    pthread_mutex_unlock(&fake_all.lock);
    return status;
}

static bool work_touches(const void *data, const void *memory, const char *first, uint64_t size)
{
    uintptr_t at = (uintptr_t)data + (uintptr_t)memory;

    return at >= (uintptr_t)first && at < (uintptr_t)first + size;
}

static bool job_uses(const struct job *j, const void *first, uint64_t size, const void *plan)
{
    const struct launch *l = j->launch;
    bool uses = work_touches(j->copy.dst, j->copy.dst_memory, first, size) ||
                work_touches(j->copy.src, j->copy.src_memory, first, size);

    if (!l) return uses;
    for (uint32_t i = 0; i < l->l.n_in + l->l.n_out; i++)
        uses |= l->views[i] && work_touches(l->view[i].data, NULL, first, size);
    return uses || work_touches(l->l.workspace, NULL, first, size) || (plan && l->l.plan == plan);
}

bool fake_uses(const void *first, uint64_t size, const void *plan)
{
    bool uses = false;

    pthread_mutex_lock(&fake_all.lock);
    for (const struct fake_work *w = fake_all.lost ? NULL : fake_all.works; w; w = w->next)
        for (const struct stream *s = w->streams; s; s = s->next)
            for (const struct job *j = s->first; j; j = j->next)
                uses |= job_uses(j, first, size, plan);
    pthread_mutex_unlock(&fake_all.lock);
    return uses;
}

static void streams_free(struct stream *s)
{
    for (struct stream *next; s; s = next) {
        next = s->next;
        for (struct job *j; (j = s->first); s->first = j->next, free(j))
            if (j->launch) fake_launch_destroy(j->launch);
        free(s->after);
        free(s);
    }
}

void fake_work_destroy(struct fake_instance *f)
{
    struct fake_work **at, *w = f->work;

    pthread_mutex_lock(&fake_all.lock);
    w->ending = true;
    fake_all.n_numbered = 0;
    for (at = &fake_all.works; *at != w; at = &(*at)->next) {}
    *at = w->next;
    pthread_cond_broadcast(&fake_all.changed);
    pthread_mutex_unlock(&fake_all.lock);
    if (w->runs) pthread_join(w->thread, NULL);
    streams_free(w->streams);
    streams_free(w->retired);
    free(w);
}

enum bp_status fake_work_create(struct fake_instance *f)
{
    struct fake_work *w = calloc(1, sizeof *w);
    bool whole = w;

    if (!w) return bp_fail(f->host, BP_ERR_MEMORY, "no memory for an instance");
    pthread_once(&once, work_init);
    f->work = w;
    pthread_mutex_lock(&fake_all.lock);
    fake_all.lost = false;
    for (uint32_t i = 0; i < DEVICES && i < fake_number("count", 1); i++)
        whole &= (w->whole[i] = fake_stream_add(w, i)) != NULL;
    w->next = fake_all.works;
    fake_all.works = w;
    pthread_mutex_unlock(&fake_all.lock);
    if (fake_mode == FAKE_THREAD) w->runs = !pthread_create(&w->thread, NULL, work_run, w);
    if (whole && (w->runs || fake_mode != FAKE_THREAD)) return BP_OK;
    fake_work_destroy(f);
    return bp_fail(f->host, BP_ERR_MEMORY, "no memory for streams");
}
