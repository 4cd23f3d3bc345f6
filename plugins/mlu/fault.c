/* SPDX-License-Identifier: Apache-2.0 */
/* fault.c: manages the fault words of a stream, into which launches write that they found bad input
 * values; see mlu.h. */
#include "mlu.h"

enum {
    DEVICE_TO_HOST = 2
};

static enum bp_status fault_clear(struct mlu_stream *s, int first, int n)
{
    return MLU_CALL(s->device, cnrtMemsetAsync, s->words + first, 0, (size_t)n * sizeof *s->words,
                    s->raw);
}

/* Under the stream's lock. */
static enum bp_status fault_make(struct mlu_stream *s)
{
    void *words = NULL;

    TRY(MLU_CALL(s->device, cnrtMalloc, &words, KIT_FAULTS * sizeof *s->words));
    s->words = words;
    return fault_clear(s, 0, KIT_FAULTS);
}

enum bp_status mlu_fault_provide(struct mlu_stream *s)
{
    enum bp_status status = BP_OK;

    pthread_mutex_lock(&s->kit.lock);
    if (!s->words) status = fault_make(s);
    pthread_mutex_unlock(&s->kit.lock);
    return status;
}

enum bp_status mlu_fault_take(struct mlu_stream *s, const struct bp_kernel *row, uint32_t **out)
{
    TRY(mlu_fault_provide(s));
    *out = s->words + kit_fault_take(&s->kit, row->name);
    return BP_OK;
}

enum bp_status mlu_fault_read(struct mlu_stream *s, uint32_t *word, struct kit_mark *out_mark)
{
    struct kit_mark mark = kit_mark_make(&s->kit);

    *out_mark = (struct kit_mark){0};
    if (!kit_fault_is_possible(&s->kit)) return BP_OK;
    TRY(mlu_check(s->device->self, s->device, "cnrtMemcpyAsync",
                  s->device->self->call->copy(word, s->words, KIT_FAULTS * sizeof *word, s->raw,
                                              DEVICE_TO_HOST)));
    *out_mark = mark;
    return BP_OK;
}

enum bp_status mlu_fault_check(struct mlu_stream *s, uint32_t *word, struct kit_mark mark)
{
    enum bp_status status;
    uint64_t words;

    if (!mark.launched) return BP_OK;
    status = kit_fault_report(&s->device->report, &s->kit, word, mark.launched, &words);
    for (int i = 0; i < KIT_FAULTS; i++)
        if (words >> i & 1) fault_clear(s, i, 1);
    return status;
}
