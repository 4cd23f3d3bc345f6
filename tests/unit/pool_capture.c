/* SPDX-License-Identifier: Apache-2.0 */
/* pool_capture.c: adds captures to the random traces: captures begin, end, run again at the same
 * addresses, and are destroyed, while some of their buffers live on. */
#include "pool_model.h"

bool model_is_open(const struct model *m)
{
    for (uint32_t i = 0; i < MODEL_CAPTURES; i++)
        if (m->recording[i].stream) return true;
    return false;
}

static struct recording *open_on(struct model *m, const struct bp_stream *stream)
{
    for (uint32_t i = 0; i < MODEL_CAPTURES; i++)
        if (stream && m->recording[i].stream == stream) return &m->recording[i];
    return NULL;
}

void model_hold(struct model *m, struct block *b, const struct bp_stream *taker)
{
    struct recording *own = open_on(m, taker);

    for (uint32_t i = 0; i < MODEL_CAPTURES; i++) {
        const struct recording *r = &m->recording[i];
        for (uint32_t k = 0; r->pool && r != own && k < r->n; k++)
            if (model_overlaps(b, &r->held[k])) model_wrong(m, "a capture holds that memory");
    }
    if (!own) return;
    b->captured = 1 + (uint32_t)(own - m->recording);
    if (b->size && own->n < MODEL_HELD)
        own->held[own->n++] = (struct block){.first = b->first, .size = b->size};
}

static void pool_capture_begin(struct model *m, struct recording *r, struct bp_stream *stream)
{
    enum bp_status expected = open_on(m, stream) ? BP_ERR_INVALID : BP_OK;
    struct bp_pool *pool = NULL;

    if (bp_capture_pool_begin(stream->timeline, &pool) != expected)
        model_wrong(m, "capture: %s", bp_error_message());
    if (!pool) return;
    r->pool = pool;
    r->stream = stream;
    r->runner = NULL;
    r->timeline = NULL;
    r->n = 0;
}

static void pool_capture_end(struct recording *r)
{
    bp_capture_pool_end(r->pool);
    r->stream = NULL;
}

/* Runs recorded work, always on the same stream. The core knows only the number of this work. */
static void pool_capture_run(struct model *m, struct recording *r)
{
    struct bp_stream *stream = r->runner ? r->runner : m->stream[model_pick(m, MODEL_STREAMS)];
    struct bp_plugin_entry *entry = m->device->entry;
    const struct block *b;
    struct bp_copy copy = {.size = 1};

    if (!stream || !r->n) return;
    b = &r->held[model_pick(m, r->n)];
    if (m->device->properties.flags & BP_DEVICE_HANDLES)
        copy.src_memory = copy.dst_memory = (void *)b->first;
    else
        copy.src = copy.dst = (void *)b->first;
    r->runner = stream;
    r->timeline = stream->timeline;
    r->number = bp_work_begin(r->timeline, "a run of what was recorded");
    entry->runtime.copy_within(entry->self, m->device->index, model_native(stream), &copy);
    bp_work_end(r->timeline, r->number);
    r->run = (struct use){m->fake->index(model_native(stream)),
                          m->fake->position(model_native(stream))};
}

static void pool_capture_destroy(struct model *m, struct recording *r)
{
    uint32_t place = 1 + (uint32_t)(r - m->recording);

    if (r->stream) pool_capture_end(r);
    for (uint32_t i = 0; i < m->n_live; i++) {
        if (m->live[i].captured != place) continue;
        m->live[i].captured = 0;
        if (r->timeline) model_note_use(&m->live[i], r->run, m->fake);
    }
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->timeline) model_note_use(&r->held[i], r->run, m->fake);
        model_retire(m, &r->held[i]);
    }
    bp_capture_pool_destroy(r->pool, r->timeline, r->number);
    r->pool = NULL;
}

void model_record(struct model *m)
{
    struct recording *r = &m->recording[model_pick(m, MODEL_CAPTURES)];
    struct bp_stream *stream = m->stream[model_pick(m, MODEL_STREAMS)];
    uint64_t way = model_pick(m, 8);

    if (!r->pool && stream) pool_capture_begin(m, r, stream);
    else if (r->pool && r->stream && way < 3) pool_capture_end(r);
    else if (r->pool && !r->stream && way < 6) pool_capture_run(m, r);
    else if (r->pool && way == 7) pool_capture_destroy(m, r);
}

void model_stop(struct model *m, const struct bp_stream *stream)
{
    for (uint32_t i = 0; i < MODEL_CAPTURES; i++) {
        struct recording *r = &m->recording[i];
        if (r->pool && (!stream || r->stream == stream || r->runner == stream))
            pool_capture_destroy(m, r);
    }
}
