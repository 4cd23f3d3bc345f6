/* SPDX-License-Identifier: Apache-2.0 */
/* fake_orders.c: implements the functions by which a test controls the fake device. */
#include "fake_work.h"

static void orders_set(bool *what, bool to)
{
    pthread_mutex_lock(&fake_all.lock);
    *what = to;
    pthread_cond_broadcast(&fake_all.changed);
    pthread_mutex_unlock(&fake_all.lock);
}

static void orders_hold(bool on)
{
    orders_set(&fake_all.holding, on);
}

static void orders_lose(void)
{
    orders_set(&fake_all.lost, true);
}

static void orders_mute(bool on)
{
    orders_set(&fake_all.muted, on);
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

static uint64_t orders_ended(void)
{
    uint64_t n;

    pthread_mutex_lock(&fake_all.lock);
    n = fake_all.n_ended;
    pthread_mutex_unlock(&fake_all.lock);
    return n;
}

static void orders_fail(uint32_t status)
{
    pthread_mutex_lock(&fake_all.lock);
    fake_all.next_failure = (enum bp_status)status;
    pthread_mutex_unlock(&fake_all.lock);
}

static struct stream *orders_polled(void *stream)
{
    return stream ? stream : fake_all.numbered[0];
}

static void orders_run(void *stream, uint64_t n)
{
    pthread_mutex_lock(&fake_all.lock);
    while (n-- > 0 && fake_can_end(orders_polled(stream))) fake_job_end(orders_polled(stream));
    pthread_mutex_unlock(&fake_all.lock);
}

static uint32_t index_of(void *stream)
{
    return orders_polled(stream)->index;
}

static uint64_t orders_position(void *stream)
{
    return orders_polled(stream)->given;
}

static bool is_done(uint32_t index, uint64_t at)
{
    return fake_all.numbered[index]->done >= at;
}

static bool is_before(uint32_t index, uint64_t at, void *stream)
{
    const struct stream *s = orders_polled(stream);

    return is_done(index, at) || s->index == index || s->after[index] >= at;
}

struct fake fake = {.result = fake_override,
                    .hold = orders_hold, .open = open_gate, .ended = orders_ended,
                    .fail = orders_fail, .lose = orders_lose, .mute = orders_mute,
                    .run = orders_run, .index = index_of, .position = orders_position,
                    .is_done = is_done, .is_before = is_before};
