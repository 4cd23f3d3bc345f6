/* SPDX-License-Identifier: Apache-2.0 */
/* event.h: records events, which are points in a stream's timeline for which the host or another
 * stream can wait. */
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

/* Moves the event to the end of all work that was submitted to stream so far; its former position
 * is forgotten. stream belongs to the event's device. */
BP_API enum bp_status bp_event_record(struct bp_event *event, struct bp_stream *stream);

/* Returns BP_OK if the work before the event is done, BP_ERR_NOT_READY, without a message, if it is
 * not. BP_ERR_INVALID: the event was never recorded. Any other status is the failure of that work,
 * or of work that the device cannot distinguish from it; it is never a failure of later work, once
 * that work is known to have ended without a failure. On a device without events
 * (BP_EMULATED_EVENTS) that is not inline, the call waits. */
BP_API enum bp_status bp_event_query(struct bp_event *event);

/* Waits on the host. BP_ERR_TIMEOUT: the work is not done after timeout_ns. UINT64_MAX: waits as
 * long as the work takes, or as BP_WAIT_TIMEOUT allows (core.h). On a device without events the
 * call waits for all work that its stream has been given by now, and a timeout_ns below one second
 * counts as one second. */
BP_API enum bp_status bp_event_wait(struct bp_event *event, uint64_t timeout_ns);

/* Work that is submitted to stream from now on waits for the event. The event may be of another
 * device, and of another kind of device; if a device cannot wait by itself, and on an inline
 * stream, this call waits (BP_BLOCKS). If a failure of the event's work is known by then, the call
 * returns it; stream still waits for the event, and is not itself failed. */
BP_API enum bp_status bp_stream_wait(struct bp_stream *stream, struct bp_event *event);

#ifdef __cplusplus
}
#endif

#endif
