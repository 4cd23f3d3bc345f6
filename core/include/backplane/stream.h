/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: a stream runs the work it is given in order. Work on different streams of a device may
 * run at once; order between them is made by events.
 *
 * A stream is a timeline: each piece of work on it has a number, counting from 1. */
#ifndef BP_STREAM_H
#define BP_STREAM_H

#include <backplane/api.h>
#include <backplane/device.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_stream;
struct bp_scope; /* the target of operator calls: see call.h */

enum bp_stream_flags {
    BP_STREAM_INLINE = 1, /* work is done when its call returns */
    BP_STREAM_ASYNC = 2,  /* calls return before their work is done */
};

/* A stream of the usual kind: inline where the device works inline (BP_STREAMS=async: not even
 * there), else asynchronous. */
BP_API enum bp_status bp_stream_create(struct bp_device *device, struct bp_stream **out_stream);

/* A stream of the kind that flags say; 0: the usual one. On a device that works inline an
 * asynchronous stream has a queue and a thread of the core's; the thread ends a while after the
 * stream is destroyed, unless a later one has taken it. BP_ERR_UNSUPPORTED: an inline stream on a
 * device that is asynchronous. */
BP_API enum bp_status bp_stream_create_with(struct bp_device *device, uint32_t flags,
                                            struct bp_stream **out_stream);

/* What the stream is: one of enum bp_stream_flags. */
BP_API enum bp_stream_flags bp_stream_get_flags(struct bp_stream *stream);

/* Does not wait: work that was given to the stream is done all the same. */
BP_API void bp_stream_destroy(struct bp_stream *stream);

/* Waits until all work given to the stream so far is done, and its callbacks have been called.
 * A failure of that work is returned, by this call and all later ones on the stream; on a device
 * whose streams share one order (BP_EMULATED_STREAMS), by those of all its streams. */
BP_API enum bp_status bp_stream_synchronize(struct bp_stream *stream);

/* Has fn(ctx, status) called when all work given to the stream so far has ended: exactly once, also
 * if that work fails, and also after bp_stream_destroy. status: BP_OK, or the failure, of which
 * bp_error_message says more on fn's thread. fn is not called if this call fails, and may not be if
 * the process exits without bp_shutdown.
 *
 * On an inline stream fn is called before this call returns; else on a thread of the library's.
 * Work given to the stream later may run before or after fn. fn may use the library, and destroy
 * what it likes, but waits for no work of the stream that called it (synchronising it or its
 * device, reading from it, a write or copy that waits: see tensor.h): the stream's work may wait
 * for fn. Such calls answer BP_ERR_INVALID and have done nothing. Other streams of the app that fn
 * waits for must not wait for this one. */
BP_API enum bp_status bp_stream_callback(struct bp_stream *stream,
                                         void (*fn)(void *ctx, enum bp_status status), void *ctx);

/* The number of the last piece of work given to the stream; 0: none yet. */
BP_API uint64_t bp_stream_last(struct bp_stream *stream);

/* A number for the stream's memory in bp_device_pool. Streams of the device that live have
 * different ones, from 1; one that was destroyed may leave its number, and its memory, to a later
 * one. */
BP_API uint32_t bp_stream_number(struct bp_stream *stream);

/* The stream as the target of operator calls, which run on it. Valid as long as the stream. NULL
 * for no stream. */
BP_API struct bp_scope *bp_stream_scope(struct bp_stream *stream);

BP_API struct bp_device *bp_stream_device(struct bp_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
