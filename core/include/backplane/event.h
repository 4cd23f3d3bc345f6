/* SPDX-License-Identifier: Apache-2.0 */
/* event.h: a point in a stream's timeline, to wait for. */
#ifndef BP_EVENT_H
#define BP_EVENT_H

#include <backplane/api.h>
#include <backplane/stream.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bp_event;

BP_API enum bp_status bp_event_create(struct bp_device *device, struct bp_event **out_event);
BP_API void bp_event_destroy(struct bp_event *event);

/* The event now stands for the end of all work given to stream so far; where it stood before is
 * forgotten. stream is one of the event's device. */
BP_API enum bp_status bp_event_record(struct bp_event *event, struct bp_stream *stream);

/* BP_OK: that work is done. BP_ERR_NOT_READY, without a message: it is not. BP_ERR_INVALID: the
 * event was never recorded. Another status is the failure of that work, or of work that cannot be
 * told apart from it; never one of later work, once this has been known to have ended well. On a
 * device without events (BP_EMULATED_EVENTS) that is not inline, this waits. */
BP_API enum bp_status bp_event_query(struct bp_event *event);

/* Waits on the host. BP_ERR_TIMEOUT: not done after timeout_ns. UINT64_MAX: for as long as it
 * takes, or as BP_WAIT_TIMEOUT says (core.h). On a device without events this waits for all that
 * its stream has been given by now, and timeout_ns is a second at least. */
BP_API enum bp_status bp_event_wait(struct bp_event *event, uint64_t timeout_ns);

/* Work given to stream from now on waits for the event. Devices may differ, in kind too; where a
 * device cannot wait by itself, and on an inline stream, this call waits (BP_BLOCKS). A failure of
 * the event's work that is known by then is answered; stream waits all the same, and has not
 * failed. */
BP_API enum bp_status bp_stream_wait(struct bp_stream *stream, struct bp_event *event);

#ifdef __cplusplus
}
#endif

#endif
