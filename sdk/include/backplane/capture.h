/* SPDX-License-Identifier: Apache-2.0 */
/* capture.h: defines interface 4 of a plugin, which records work of a stream once, and then submits
 * the whole recording to the stream again and again. (<backplane/graph.h> belongs to the app:
 * graphs of operators.)
 *
 * The interface is optional. Without it the core runs a program node by node, and reports that.
 * Interface 7 (engine.h) compiles parts of a graph of operators. */
#ifndef BP_CAPTURE_H
#define BP_CAPTURE_H

#include <backplane/status.h>
#include <backplane/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The callbacks up to recording_destroy are either all set or all NULL. stream is a pointer that
 * stream_create of runtime.h returned.
 *
 * From capture_begin to capture_end or capture_abort, work that is submitted to the stream is
 * recorded and not executed. During a capture the core submits only launches of rows without
 * BP_KERNEL_NO_CAPTURE, of operators whose extents do not depend on data, and copies within the
 * device, all of them on the thread that began the capture. Meanwhile no thread waits for the
 * stream, records events in it, or makes other streams wait for it; at most one capture is open on
 * a device. Streams that are not captured continue: other threads may wait for them, and for the
 * device as a whole. Memory may be allocated and freed, plans made, modules loaded. */
struct bp_captures { /* table */
    size_t size;

    /* Begins to record. All work that was submitted to the stream before runs before all replays.
     * BP_ERR_BUSY: a capture is not possible now, but perhaps the next time. */
    enum bp_status (*capture_begin)(void *self, uint32_t device, void *stream);

    /* Ends the capture, and makes the recorded work ready to be replayed. If it fails, the
     * recording is discarded, and the stream is as it was before capture_begin. The same holds if
     * launches have failed since capture_begin. */
    enum bp_status (*capture_end)(void *self, uint32_t device, void *stream, void **out_recording);

    /* Ends the capture, and discards the recorded work. */
    void (*capture_abort)(void *self, uint32_t device, void *stream);

    /* Submits all recorded work to the stream on which it was recorded, in its recorded order,
     * behind the work that the stream has been given. Addresses, attributes and numbers are those
     * of the recorded calls; the contents of memory are read anew. Faults that kernels find are
     * faults of the stream, like those of its launches. */
    enum bp_status (*replay)(void *self, uint32_t device, void *recording, void *stream);

    /* Destroys a recording. All its replays have ended. The stream may have been destroyed
     * before. */
    void (*recording_destroy)(void *self, uint32_t device, void *recording);
};

#ifdef __cplusplus
}
#endif

#endif
