/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h: interface 4 of a plugin: work that is recorded once, and then given to a stream as a
 * whole, again and again. (<backplane/graph.h> is the app's: graphs of operators.)
 *
 * Optional. Without it the core runs a program node by node, and says so. What compiles whole
 * graphs of operators will stand at the end of the table. */
#ifndef BP_CAPTURE_H
#define BP_CAPTURE_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The callbacks up to recording_destroy are all there, or none is. stream is what stream_create of
 * runtime.h returned.
 *
 * From capture_begin to capture_end, or capture_abort, what is given to the stream is recorded and
 * not done. The core then gives it launches of rows that do not say BP_KERNEL_NO_CAPTURE, of no
 * operator whose extents depend on data, and copies within the device: nothing else, all of it on
 * the thread that began. Nobody waits for the stream meanwhile, records events in it, or has others
 * wait for it; one capture at a time is open on a device. Streams that are not captured go on:
 * they, and the device as a whole, may be waited for by other threads. Memory may be allocated and
 * given back, plans made, modules loaded. */
struct bp_captures { /* table */
    size_t size;

    /* Begins to record. All work that was given to the stream before comes before all replays.
     * BP_ERR_BUSY: not now, perhaps the next time. */
    enum bp_status (*capture_begin)(void *self, uint32_t device, void *stream);

    /* Ends that, and makes what was recorded ready to be replayed. If it fails, nothing is left of
     * it: the stream is as it was before capture_begin. So too where launches have failed since. */
    enum bp_status (*capture_end)(void *self, uint32_t device, void *stream, void **out_recording);

    /* Ends it, and forgets what was recorded. */
    void (*capture_abort)(void *self, uint32_t device, void *stream);

    /* Gives all that was recorded to the stream on which it was, in its order, behind what the
     * stream has been given. Addresses, attributes and numbers are those of the recorded calls;
     * what lies in memory is read anew. Faults that kernels find are the stream's, as those of its
     * launches. */
    enum bp_status (*replay)(void *self, uint32_t device, void *recording, void *stream);

    /* All replays have ended. The stream may be gone. */
    void (*recording_destroy)(void *self, uint32_t device, void *recording);
};

#ifdef __cplusplus
}
#endif

#endif
