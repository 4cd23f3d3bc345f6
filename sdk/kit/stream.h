/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: keeps the streams of a device, and the faults that their kernels report: the part of
 * streams and events that is the same for all drivers: docs/kit.md.
 *
 * A kernel that finds bad values in its inputs, such as an index out of range, writes a code into a
 * word of its stream. Each kernel row has its own word, so that the message can name the row. The
 * words are the plugin's, in memory that the host reads directly; or on the device: guard.h keeps
 * them, and copies of them. */
#ifndef KIT_STREAM_H
#define KIT_STREAM_H

#include <backplane/plugin.h>
#include <pthread.h>
#include <stdbool.h>

enum {
    KIT_FAULTS = 64
};

/* The kernel row that uses a fault word. */
struct kit_fault {
    const char *row;      /* NULL: the word is free; words are assigned in order */
    uint64_t first, last; /* first and last launch of the row that is not yet known to have
                             succeeded; 0: none */
};

/* The kit's part of a stream. Zero at first, but for the lock. */
struct kit_stream {
    struct kit_stream *next;
    uint64_t number;          /* unique among all streams that the device ever had; above 0 */
    pthread_mutex_t lock;     /* guards the fields below, and those of the plugin that it chooses */
    bool captured;            /* launches are recorded; the thread that captures the stream sets
                                 this field and the next one */
    uint64_t faults_captured; /* mask of the words that recorded launches may write */
    struct kit_fault fault[KIT_FAULTS];
    uint64_t launched;       /* launches that have been assigned a fault word */
    struct kit_guard *guard; /* guard.h; NULL: the plugin keeps the words */
};

/* The streams of a device. Zero at first, but for the lock. */
struct kit_streams {
    pthread_mutex_t lock; /* guards the list */
    struct kit_stream *first;
    uint64_t n; /* number of streams that the device ever had */
};

/* Adds a stream at the front of the list, with a new number; and removes it. */
void kit_stream_add(struct kit_streams *streams, struct kit_stream *stream);
void kit_stream_remove(struct kit_streams *streams, struct kit_stream *stream);
/* Whether the list has a stream. */
bool kit_streams_exist(struct kit_streams *streams);
/* Returns the stream of a number, or NULL. Under the lock of the list. */
struct kit_stream *kit_stream_find(const struct kit_streams *streams, uint64_t number);

/* Returns the index of the word into which a launch of this kernel row writes its faults. The name
 * is compared as a pointer. */
int kit_fault_take(struct kit_stream *stream, const char *row);
/* Counts a replay of recorded launches, which were assigned these words (a mask). */
void kit_fault_replay(struct kit_stream *stream, uint64_t words);

/* The launches that a wait or an event covers. */
struct kit_mark {
    uint64_t stream;   /* number of the stream, which may no longer exist; 0: none */
    uint64_t launched; /* number of launches of the stream before the mark; 0: none of these can
                          have faults */
};

/* A mark for all launches of the stream up to now. */
struct kit_mark kit_mark_make(struct kit_stream *stream);
/* Whether launches up to now are not yet known to have succeeded. Under the stream's lock. */
bool kit_fault_is_possible(const struct kit_stream *stream);

/* Where faults are reported. */
struct kit_report {
    const struct bp_host *host;
    const char *plugin;
    uint32_t device;
};

/* The launches up to number `until` have ended. Reads the KIT_FAULTS words, and clears those that
 * it has read. BP_ERR_FAULT: the message names the row that was launched first. Each fault is
 * reported once. */
enum bp_status kit_fault_report(const struct kit_report *report, struct kit_stream *stream,
                                uint32_t *words, uint64_t until);

/* Waits for an event by queries, with growing pauses, for drivers that can wait without a limit or
 * not at all. query: the plugin's event_query. BP_ERR_TIMEOUT, with a message, after timeout_ns. */
enum bp_status kit_event_wait(const struct kit_report *report,
                              enum bp_status (*query)(void *self, uint32_t device, void *event),
                              void *self, void *event, uint64_t timeout_ns);
/* The time of a monotonic clock. */
uint64_t kit_now_ns(void);

#endif
