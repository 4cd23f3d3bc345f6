/* SPDX-License-Identifier: Apache-2.0 */
/* staging.h: copies small memory of the host to a device through spans of pinned memory, used round
 * robin: docs/kit.md. The host's memory has been read when the call returns, so that the caller
 * need not wait for the stream. */
#ifndef KIT_STAGING_H
#define KIT_STAGING_H

#include <backplane/plugin.h>
#include <stddef.h>

enum {
    KIT_STAGES = 4,
    KIT_STAGE = 64 << 10
};

/* The spans of a stream. Zero at first. */
struct kit_staging {
    void *memory;             /* KIT_STAGES spans of KIT_STAGE bytes; NULL: not used yet */
    void *passed[KIT_STAGES]; /* the event after the last copy from each span */
    unsigned next;
};

/* The calls of the vendor, with the plugin's stream. */
struct kit_staging_calls {
    enum bp_status (*allocate)(void *stream, size_t size, void **out); /* pinned memory */
    void (*release)(void *stream, void *memory);
    enum bp_status (*event_create)(void *stream, void **out);
    void (*event_destroy)(void *stream, void *event);
    enum bp_status (*event_record)(void *stream, void *event);
    enum bp_status (*event_wait)(void *stream, void *event);
    /* Enqueues a copy from pinned memory to the device. */
    enum bp_status (*copy)(void *stream, void *dst, const void *src, size_t size);
};

/* Copies at most KIT_STAGE bytes. The plugin's lock guards the spans. After a failure the caller
 * waits for the stream, because no event shows when the span is free. */
enum bp_status kit_staging_copy(struct kit_staging *staging, const struct kit_staging_calls *calls,
                                void *stream, void *dst, const void *src, size_t size);
/* Frees the spans. The copies have ended. */
void kit_staging_end(struct kit_staging *staging, const struct kit_staging_calls *calls,
                     void *stream);

#endif
