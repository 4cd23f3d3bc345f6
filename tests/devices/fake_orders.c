/* SPDX-License-Identifier: Apache-2.0 */
/* fake_orders.c: the orders that a test gives the fake device. */
#include "fake_work.h"

static void set(bool *what, bool to)
{
    pthread_mutex_lock(&fake_all.lock);
    *what = to;
    pthread_cond_broadcast(&fake_all.changed);
    pthread_mutex_unlock(&fake_all.lock);
}

static void hold(bool on)
{
    set(&fake_all.holding, on);
}

static void lose(void)
{
    set(&fake_all.lost, true);
}

static void mute(bool on)
{
    set(&fake_all.muted, on);
}

static void open_gate(void)
{
    pthread_mutex_lock(&fake_all.lock);
    for (struct fake_work *w = fake_all.works; w; w = w->next)
        for (struct stream *s = w->streams; s; s = s->next)
            for (struct job *j = s->first; j; j = j->next) j->held = false;
    pthread_cond_broadcast(&fake_all.changed);
    pthread_mutex_unlock(&fake_all.lock);
}

static uint64_t ended(void)
{
    uint64_t n;

    pthread_mutex_lock(&fake_all.lock);
    n = fake_all.n_ended;
    pthread_mutex_unlock(&fake_all.lock);
    return n;
}

static void fail(uint32_t status)
{
    pthread_mutex_lock(&fake_all.lock);
    fake_all.next_failure = (enum bp_status)status;
    pthread_mutex_unlock(&fake_all.lock);
}

static struct stream *told(void *stream)
{
    return stream ? stream : fake_all.numbered[0];
}

static void run(void *stream, uint64_t n)
{
    pthread_mutex_lock(&fake_all.lock);
    while (n-- > 0 && fake_can_end(told(stream))) fake_job_end(told(stream));
    pthread_mutex_unlock(&fake_all.lock);
}

static uint32_t index_of(void *stream)
{
    return told(stream)->index;
}

static uint64_t position(void *stream)
{
    return told(stream)->given;
}

static bool is_done(uint32_t index, uint64_t at)
{
    return fake_all.numbered[index]->done >= at;
}

static bool is_before(uint32_t index, uint64_t at, void *stream)
{
    const struct stream *s = told(stream);

    return is_done(index, at) || s->index == index || s->after[index] >= at;
}

struct fake fake = {.answer = fake_answer, .hold = hold, .open = open_gate, .ended = ended,
                    .fail = fail, .lose = lose, .mute = mute, .run = run, .index = index_of,
                    .position = position, .is_done = is_done, .is_before = is_before};
