/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h: keeps the fault words (stream.h) of a stream in device memory, for drivers whose device
 * memory the host cannot read directly: docs/kit.md. Kernels, or calls that check indices, write
 * the words; a wait or an event enqueues a copy of the words to the host, and clears the words
 * behind the copy. So each copy has the faults of the launches since the copy before, a fault is
 * reported once, and the stream can be used on after a fault. */
#ifndef KIT_GUARD_H
#define KIT_GUARD_H

#include "stream.h"
#include <stddef.h>

/* The calls of the vendor. stream: the plugin's stream. memory: as `allocate` has returned it, an
 * address or a handle; `at` and `size` are bytes. clear and read are enqueued in the stream. */
struct kit_guard_calls {
    enum bp_status (*allocate)(struct kit_stream *stream, size_t size, void **out);
    void (*release)(struct kit_stream *stream, void *memory);
    enum bp_status (*clear)(struct kit_stream *stream, void *memory, size_t size);
    enum bp_status (*read)(struct kit_stream *stream, uint32_t *to, void *memory, size_t size);
};

/* A copy of the words, of an event or of a wait. Zero at first, but for `words`. */
struct kit_guard_copy {
    struct kit_guard_copy *next;
    uint32_t *words;      /* KIT_FAULTS words of the host's memory, which the plugin owns */
    struct kit_mark mark; /* the launches before the copy; none: they cannot have faults */
};

/* The words of a stream. */
struct kit_guard {
    struct kit_stream *stream;
    const struct kit_guard_calls *calls;
    const struct kit_report *report;
    void *memory;                 /* NULL: not needed yet */
    uint64_t copied;              /* launches that a copy covers */
    struct kit_guard_copy *first; /* copies in the order of the stream */
    uint32_t found[KIT_FAULTS];   /* faults of copies that are no longer in the list */
};

/* Initialises the guard of a stream. The report has to live as long. */
void kit_guard_begin(struct kit_guard *guard, struct kit_stream *stream,
                     const struct kit_guard_calls *calls, const struct kit_report *report);
/* Frees the words. The plugin has waited for the stream, or destroyed it. Copies of events have no
 * stream any more. */
void kit_guard_end(struct kit_guard *guard);

/* Makes the words if the stream has none; before a capture, which must not record their making. */
enum bp_status kit_guard_provide(struct kit_guard *guard);
/* The index of the word for a launch of this kernel row, whose name is compared as a pointer. Makes
 * the words if the stream has none. */
enum bp_status kit_guard_take(struct kit_guard *guard, const char *row, int *out_word);

/* Whether kit_guard_read will copy: launches have been assigned words since the last copy. */
bool kit_guard_has_news(struct kit_guard *guard);
/* Enqueues a copy of the words, if it is needed, and marks the launches up to now. An earlier use
 * of the copy has been forgotten. After a failure, here or of the event's own call, the plugin
 * waits for the stream before it forgets the copy. */
enum bp_status kit_guard_read(struct kit_guard *guard, struct kit_guard_copy *copy);

/* After a wait for the stream, whose outcome is returned if it is a failure. Otherwise the launches
 * up to the copy's mark have ended: BP_ERR_FAULT, with a message that names the kernel row, if one
 * has found bad values. The copy is forgotten. */
enum bp_status kit_guard_waited(struct kit_guard *guard, struct kit_guard_copy *copy,
                                enum bp_status outcome);
/* The same for an event that has been reached, whose stream may no longer exist: then there are no
 * faults. The copy is kept: other threads may query the event. */
enum bp_status kit_guard_reached(struct kit_streams *streams, struct kit_guard_copy *copy);
/* The copy of an event has ended, or its device is lost: it can be used again, or its memory be
 * freed. The guard keeps faults that are not yet reported. */
void kit_guard_forget(struct kit_streams *streams, struct kit_guard_copy *copy);

#endif
