/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h: calls on a stream that the plugin records and does not do (backplane/graphs.h), with
 * all that replays of them use: memory, prepared calls, the graph whose constants they read. */
#ifndef BP_CAPTURE_PRIVATE_H
#define BP_CAPTURE_PRIVATE_H

#include "../call/prepared.h"

/* A step that is not the call itself, so that each replay is counted. */
struct bp_captured_fallback {
    const struct bp_opdef *row;
    uint32_t kind; /* enum bp_fallback_kind */
    uint64_t bytes;
};

/* Who has it orders its calls. */
struct bp_capture {
    struct bp_deferred pending;   /* first: replays */
    struct bp_device *device;     /* a reference, until it is destroyed */
    struct bp_timeline *timeline; /* of the stream on which it was recorded, */
    uint64_t base;                /* which is the one whose numbers begin here */
    const struct bp_graph *graph; /* of whose constants it reads some; its owner keeps it */
    struct bp_pool *memory;       /* what was taken while it was recorded */
    bool ready;
    void *recorded;               /* the plugin's, if ready */
    uint64_t ran;                 /* number of the last replay; 0: none */
    struct bp_prepared **kept;    /* references */
    struct bp_captured_fallback *fallback;
    uint32_t n_kept, room_kept, n_fallback, room_fallback;
};

/* From now to end or abort the stream's calls are recorded, on this thread. BP_ERR_UNSUPPORTED: the
 * device does not record, or not now by the user's settings. BP_ERR_BUSY: another thread is using
 * the stream, or recording on the device: the next time it may be possible. */
enum bp_status bp_capture_begin(struct bp_stream *stream, const struct bp_graph *graph,
                                struct bp_capture **out_recording);
/* Makes it ready. If that fails it is over, as by abort. */
enum bp_status bp_capture_end(struct bp_capture *recording);
void bp_capture_abort(struct bp_capture *recording); /* destroys it too */

/* Whether the stream is the one on which it was recorded: the only one that replays it. */
bool bp_capture_is_of(const struct bp_capture *recording, const struct bp_stream *stream);
enum bp_status bp_capture_replay(struct bp_capture *recording, struct bp_stream *stream);

/* Of one that is ready; NULL: nothing. It goes behind the last replay; the graph may go afterwards.
 * Tensors in its memory are destroyed by their owner. */
void bp_capture_destroy(struct bp_capture *recording);

/* Device memory that it has. */
uint64_t bp_capture_bytes(const struct bp_capture *recording);

/* captured.c: a call is about to be recorded: refuses one that cannot be, keeps it otherwise. */
enum bp_status bp_capture_add_call(struct bp_capture *recording, struct bp_prepared *prepared);
/* A recorded step of another kind than the call's own. */
void bp_capture_count_fallback(struct bp_capture *recording, const struct bp_opdef *row,
                               uint32_t kind, uint64_t bytes);

#endif
