/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h: declares captures: calls on a stream that the plugin records and does not run
 * (backplane/graphs.h). A capture keeps all objects that its replays use: memory, prepared calls,
 * and the graph whose constants they read. */
#ifndef BP_CAPTURE_PRIVATE_H
#define BP_CAPTURE_PRIVATE_H

#include "../call/prepared.h"

/* A fallback step of a captured call, so that each replay is counted. */
struct bp_captured_fallback {
    const struct bp_opdef *row;
    uint32_t kind; /* enum bp_fallback_kind */
    uint64_t bytes;
};

/* One capture. Its owner must serialize the calls on it. */
struct bp_capture {
    struct bp_deferred pending;   /* first: frees the capture after its replays */
    struct bp_device *device;     /* a reference, until bp_capture_destroy */
    struct bp_timeline *timeline; /* of the captured stream */
    uint64_t base;                /* identifies that stream: its numbers begin here */
    const struct bp_graph *graph; /* some of its constants are read by the captured calls; its owner
                                     keeps it alive */
    struct bp_pool *memory;       /* memory that was allocated during the capture */
    bool ready;
    void *recorded;               /* the plugin's recording, if ready */
    uint64_t ran;                 /* number of the last replay; 0: none */
    struct bp_buffer *rng;        /* of captured random calls: the seed and the first block of a
                                     replay, which it writes there; or NULL */
    uint64_t random_blocks;       /* blocks of random numbers that each replay draws */
    struct bp_prepared **kept;    /* prepared calls, a reference each */
    struct bp_captured_fallback *fallback;
    uint32_t n_kept, room_kept, n_fallback, room_fallback;
};

/* Begins to capture the stream's calls on this thread, until bp_capture_end or bp_capture_abort.
 * BP_ERR_UNSUPPORTED: the device cannot capture, or the user's settings forbid it. BP_ERR_BUSY:
 * another thread is using the stream or capturing on the device; a later attempt may succeed. */
enum bp_status bp_capture_begin(struct bp_stream *stream, const struct bp_graph *graph,
                                struct bp_capture **out_recording);
/* Ends the capture and makes it ready for replays. If that fails, the capture is destroyed, as by
 * bp_capture_abort. */
enum bp_status bp_capture_end(struct bp_capture *recording);
void bp_capture_abort(struct bp_capture *recording); /* also destroys it */

/* Whether the stream is the one on which the capture was made: only that stream may replay it. */
bool bp_capture_is_of(const struct bp_capture *recording, const struct bp_stream *stream);
enum bp_status bp_capture_replay(struct bp_capture *recording, struct bp_stream *stream);

/* Destroys a capture that is ready; NULL is allowed. The plugin's recording is destroyed after the
 * last replay has ended; the graph may be freed immediately afterwards. Tensors in the capture's
 * memory are destroyed by their owner. */
void bp_capture_destroy(struct bp_capture *recording);

/* Returns the bytes of device memory that the capture has. */
uint64_t bp_capture_bytes(const struct bp_capture *recording);

/* captured.c: called when a prepared call is about to be captured. Returns an error if the call
 * cannot be captured; otherwise keeps it. */
enum bp_status bp_capture_add_call(struct bp_capture *recording, struct bp_prepared *prepared);
/* Reserves blocks of random numbers of each replay, and returns the first one, relative to those of
 * the replay. */
uint64_t bp_capture_draw(struct bp_capture *recording, uint64_t blocks);
/* Returns the address for launch->rng; NULL: the graph has no random node. */
const uint64_t *bp_capture_rng(const struct bp_capture *recording);
/* Records a captured fallback step, which each replay counts. */
void bp_capture_count_fallback(struct bp_capture *recording, const struct bp_opdef *row,
                               uint32_t kind, uint64_t bytes);

#endif
