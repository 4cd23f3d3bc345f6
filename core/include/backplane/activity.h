/* SPDX-License-Identifier: Apache-2.0 */
/* activity.h: reports which plugin call each thread of this process is executing now. A program
 * uses the report to watch itself: a SIGSEGV handler names the plugin that crashed, and a watchdog
 * thread names the call that does not return. */
#ifndef BP_ACTIVITY_H
#define BP_ACTIVITY_H

#include <backplane/api.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds of plugin call that the library records. X(NAME, word, text): a message reads "the
 * plugin is in its WORD", or, in full, TEXT. Calls that return immediately on every working plugin
 * are not recorded, because recording them would cost time. */
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

struct bp_activity { /* output struct: set size before the call */
    size_t size;
    char plugin[64];     /* the plugin's name, or the file name of its library while the name is
                            unknown */
    char what[64];       /* the kernel row or other object in use; "" if there is none to name */
    const char *word;    /* the WORD of the step: "create" */
    const char *text;    /* the TEXT of the step */
    uint64_t elapsed_ns; /* time since the call began */
    uint32_t step;       /* enum bp_activity_step */
    uint32_t thread;     /* the thread's number, as gettid() returns it */
};

/* Finds the plugin call that a thread (its gettid() number) is executing now, the innermost one if
 * calls are nested. thread 0: among all threads of this process, the thread whose outermost call
 * has lasted longest is taken. Returns false if no call is recorded; *out is untouched then.
 *
 * A signal handler, including the handler of SIGSEGV, and any thread may call this function at any
 * time: it takes no lock, allocates no memory, and leaves errno and the error message unchanged. */
BP_API bool bp_activity_find(uint32_t thread, struct bp_activity *out);

/* Finds a launch or a copy that is being submitted now. Launches and copies are not recorded,
 * because recording them would cost time, but one that does not return can still be found: the
 * string `what` of *out names the device, the stream and the number of the launch on that stream
 * ("cpu:0, stream 1, launch 7"). out->thread and out->elapsed_ns are 0: a caller that gets the same
 * result twice knows that the launch is still running. Returns false, with *out untouched, if there
 * is no such launch, or if the search would have had to wait for a lock. The function waits for no
 * lock and allocates no memory, so that a signal handler may call it. */
BP_API bool bp_activity_launch(struct bp_activity *out);

#ifdef __cplusplus
}
#endif

#endif
