/* SPDX-License-Identifier: Apache-2.0 */
/* activity.h: in which call of which plugin a thread of this process is now. For programs that
 * watch themselves: a handler of SIGSEGV that names the plugin, a thread that says what is waited
 * for. */
#ifndef BP_ACTIVITY_H
#define BP_ACTIVITY_H

#include <backplane/api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The calls that are known. X(NAME, word, text): "the plugin is in its WORD", or longer, TEXT.
 * Those that come back at once on every sound plugin are not noted, for that would cost time. */
#define BP_ACTIVITIES(X) \
    X(OPEN, open, "its library is being opened, its constructors run") \
    X(ENTRY, entry, "its function bp_plugin_get runs") \
    X(VERSION, version, "its tables are being read") \
    X(CREATE, create, "it makes an instance: finds its driver, starts it") \
    X(DEVICES, devices, "it says how many devices there are, and which kernels this machine runs") \
    X(DEVICE, device, "a device is being opened: it says the device's properties") \
    X(DESTROY, destroy, "its instance ends") \
    X(STREAM, stream, "it makes or ends a stream or an event") \
    X(MEMORY, memory, "it takes or gives back memory of a device") \
    X(PREPARE, prepare, "it prepares a kernel: makes a plan, compiles") \
    X(LAUNCH, launch, "it launches a kernel") \
    X(COPY, copy, "it copies") \
    X(WAIT, wait, "work that was given to a device is waited for")

enum bp_activity_step {
#define X(NAME, word, text) BP_ACTIVITY_##NAME,
    BP_ACTIVITIES(X)
#undef X
    BP_ACTIVITY_COUNT,
};

struct bp_activity { /* answer: set size before the call */
    size_t size;
    char plugin[64];     /* its name, or the file name of its library while it has none */
    char what[64];       /* the kernel row or the like; "" where there is nothing to name */
    const char *word;    /* of the step: "create" */
    const char *text;    /* of the step */
    uint64_t elapsed_ns; /* since it began */
    uint32_t step;       /* enum bp_activity_step */
    uint32_t thread;     /* as gettid() says it */
};

/* What a thread is in now, the innermost call. thread 0: of all threads of this process the call
 * that has gone on longest. false: none that is noted; out is untouched then.
 *
 * A signal handler may call it, also that of SIGSEGV, and any thread at any time: it takes no lock
 * and no memory, and leaves errno and the error message as they are. */
BP_API bool bp_activity_find(uint32_t thread, struct bp_activity *out);

/* Launches and copies are not noted, which would cost time, but one that goes on can be found: on
 * which device, and its number on its stream (what: "cpu:0, stream 1, launch 7"). thread and
 * elapsed_ns are 0: whoever asks twice and gets one answer knows that it lasts. false: there is
 * none, or this could not be looked up now; out is untouched. It waits for no lock and takes no
 * memory, so that a signal handler may call it. */
BP_API bool bp_activity_launch(struct bp_activity *out);

#ifdef __cplusplus
}
#endif

#endif
