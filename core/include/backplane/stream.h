/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: creates streams, waits for them and calls functions of the app when their work has
 * ended. A stream is a queue that runs its work in order. Work on different streams of a device may
 * run concurrently; events order the work of different streams.
 *
 * A stream is a timeline: each unit of work on it has a number, counting from 1. */
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

/* Creates a stream of the default kind: inline if the device works inline (BP_STREAMS=async:
 * asynchronous even there), otherwise asynchronous. */
BP_API enum bp_status bp_stream_create(struct bp_device *device, struct bp_stream **out_stream);

/* Creates a stream of the kind that flags select; 0: the default kind. On an inline device an
 * asynchronous stream has a queue and a thread of the core; that thread ends some time after the
 * stream is destroyed, unless a later stream reuses it. BP_ERR_UNSUPPORTED: an inline stream was
 * requested on an asynchronous device. */
BP_API enum bp_status bp_stream_create_with(struct bp_device *device, uint32_t flags,
                                            struct bp_stream **out_stream);

/* Returns the kind of the stream: one of enum bp_stream_flags. */
BP_API enum bp_stream_flags bp_stream_get_flags(struct bp_stream *stream);

/* Destroys the handle without a wait: work that was submitted to the stream is still completed. */
BP_API void bp_stream_destroy(struct bp_stream *stream);

/* Waits until all work that was submitted to the stream so far is done, and its callbacks have been
 * called. A failure of that work is returned by this call and by all later calls on the stream; on
 * a device whose streams share one order (BP_EMULATED_STREAMS), by the calls on all its streams. */
BP_API enum bp_status bp_stream_synchronize(struct bp_stream *stream);

/* bp_stream_synchronize with a limit: waits for timeout_ns at most (UINT64_MAX: no limit), whatever
 * BP_WAIT_TIMEOUT says. BP_ERR_TIMEOUT: the work had not ended; it continues, and the message names
 * it. */
BP_API enum bp_status bp_stream_synchronize_for(struct bp_stream *stream, uint64_t timeout_ns);

/* Cancels what the stream runs: any thread may call it while another thread uses the stream, for
 * example while that thread runs a graph, a program or a model. Never waits.
 *
 * From then on, until bp_stream_resume, calls of operators and runs of graphs, programs and
 * prepared calls return BP_ERR_CANCELLED: new ones at once; one that is running before its next
 * node, or before the next step of a call that runs in several steps (bp_prepared_steps). A kernel
 * that has begun runs to its end, and so does a replay. Tensors that a cancelled run should write
 * have undefined contents.
 *
 * Work that was submitted before: a stream with a queue (BP_STREAM_ASYNC on an inline device) skips
 * what it has not begun, copies included, and refuses new copies; waits for the stream, reads,
 * callbacks and events behind that work return BP_ERR_CANCELLED. On other streams that work is
 * completed, and copies are not refused. Collective calls are not refused on any stream, because
 * the other ranks wait for them. */
BP_API enum bp_status bp_stream_cancel(struct bp_stream *stream);

/* Makes a cancelled stream usable again; does nothing on another stream. To be called by the thread
 * that uses the stream, after its cancelled call has returned. On a stream with a queue the call
 * waits until the launch that runs has ended. A failure of the stream that was no cancellation
 * stays. */
BP_API enum bp_status bp_stream_resume(struct bp_stream *stream);

/* Returns BP_OK if the stream takes operator calls; otherwise what they would return:
 * BP_ERR_CANCELLED, or the failure of earlier work. For loops of the app between calls. Any thread
 * may call it; it never waits. */
BP_API enum bp_status bp_stream_check_calls(struct bp_stream *stream);

/* Arranges that the library calls fn(ctx, status) when all work that was submitted to the stream so
 * far has ended: exactly once, also if that work fails, and also after bp_stream_destroy. status:
 * BP_OK, or the failure, whose message bp_error_message returns on fn's thread. fn is not called if
 * this call fails, and may not be called if the process exits without bp_shutdown.
 *
 * On an inline stream fn is called before this call returns; otherwise on a thread of the library.
 * Work that is submitted to the stream later may run before or after fn. fn may use the library and
 * destroy any handle, but must not wait for work of the stream that called it (by synchronising
 * that stream or its device, by reading from it, or by a write or copy that waits: see tensor.h),
 * because the stream's work may wait for fn. Calls that would wait return BP_ERR_INVALID and have
 * no effect. If fn waits for other streams of the app, these must not wait for this stream. */
BP_API enum bp_status bp_stream_callback(struct bp_stream *stream,
                                         void (*fn)(void *ctx, enum bp_status status), void *ctx);

/* Returns the number of the last unit of work that was submitted to the stream; 0: none yet. */
BP_API uint64_t bp_stream_last(struct bp_stream *stream);

/* Returns the number that identifies the stream's memory in bp_device_pool. Live streams of one
 * device have different numbers, from 1; a destroyed stream may leave its number, and its memory,
 * to a later stream. */
BP_API uint32_t bp_stream_number(struct bp_stream *stream);

/* Returns the stream as a target of operator calls, which run on it. Valid as long as the stream
 * lives. NULL for no stream. */
BP_API struct bp_scope *bp_stream_scope(struct bp_stream *stream);

BP_API struct bp_device *bp_stream_device(struct bp_stream *stream);

#ifdef __cplusplus
}
#endif

#endif
