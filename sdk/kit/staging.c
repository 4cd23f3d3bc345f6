/* SPDX-License-Identifier: Apache-2.0 */
/* staging.c: copies small memory of the host through pinned memory; see staging.h. */
#include "staging.h"
#include "call.h"

#include <string.h>

/* Creates the events and the pinned memory for the first copy. */
static enum bp_status staging_make(struct kit_staging *staging,
                                   const struct kit_staging_calls *calls, void *stream)
{
    void *memory = NULL;

    for (int i = 0; i < KIT_STAGES; i++)
        if (!staging->passed[i]) TRY(calls->event_create(stream, &staging->passed[i]));
    TRY(calls->allocate(stream, (size_t)KIT_STAGES * KIT_STAGE, &memory));
    staging->memory = memory;
    return BP_OK;
}

enum bp_status kit_staging_copy(struct kit_staging *staging, const struct kit_staging_calls *calls,
                                void *stream, void *dst, const void *src, size_t size)
{
    unsigned i = staging->next % KIT_STAGES;
    char *stage;

    if (!staging->memory) TRY(staging_make(staging, calls, stream));
    stage = (char *)staging->memory + (size_t)i * KIT_STAGE;
    if (staging->next >= KIT_STAGES) TRY(calls->event_wait(stream, staging->passed[i]));
    memcpy(stage, src, size);
    TRY(calls->copy(stream, dst, stage, size));
    staging->next++;
    return calls->event_record(stream, staging->passed[i]);
}

void kit_staging_end(struct kit_staging *staging, const struct kit_staging_calls *calls,
                     void *stream)
{
    for (int i = 0; i < KIT_STAGES; i++)
        if (staging->passed[i]) calls->event_destroy(stream, staging->passed[i]);
    if (staging->memory) calls->release(stream, staging->memory);
    *staging = (struct kit_staging){.next = 0};
}
