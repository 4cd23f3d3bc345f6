/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h: declares the simulator, a library that behaves like the driver of a GPU as far as
 * plugins/gpu calls a driver (gpu/calls.def). Its kernels are the portable kernels, compiled as C.
 * It has these properties:
 *
 *   late        each stream is a thread with a queue; the thread may pause before each work item
 *   strict      a device address is not a valid host address; every address that a copy or a
 *               kernel receives is checked, both when the call is made and when the work runs
 *   contexts    each thread has a current context, or none. A kernel must be launched with the
 *               current device, with a function of a module that was loaded on this device, and
 *               into a stream of this device. The kernel must not read memory of a device to which
 *               its own device has no access. An event is recorded in streams of its own device.
 *   captured    calls on a captured stream are recorded; a wait for the stream, or a query of its
 *               state, is an error that invalidates the capture
 *   sticky      a failure of work stays with the context: all later calls return it, until the
 *               context is released
 *
 * These environment variables set it up. Each call of `initialise` reads them, except BP_SIM_ARCH,
 * BP_SIM_MANAGED, BP_SIM_JOIN, BP_SIM_SLOW and BP_SIM_ALGORITHMS, which are read at each use:
 *
 *   BP_SIM_DEVICES=n      number of devices (1)
 *   BP_SIM_ARCH=n,...     the architecture of each device (20); further devices have the last one
 *   BP_SIM_MANAGED=n      0: the devices have no managed memory; 1: only while no kernel runs
 *   BP_SIM_MEMORY=n       bytes of each device (1 GiB), and the same of pinned and managed memory
 *   BP_SIM_DELAY=n        the longest pause before a work item, in microseconds (50)
 *   BP_SIM_SEED=n         seed of the pauses
 *   BP_SIM_LOAD=n         time to load a module, in microseconds (0)
 *   BP_SIM_FAIL=call:n:code,...   the n-th call of this name (calls.def, or the list of a vendor's
 *                         library) does nothing and returns code; "work:n:code" is the n-th work
 *                         item, which fails on the device
 *   BP_SIM_JOIN=stop      the process stops when it joins a communicator of the stand-in for NCCL;
 *                         "die": the process is killed; "hang": the call never returns, or never
 *                         completes
 *   BP_SIM_SLOW=n         additional microseconds for each product with the algorithm that the
 *                         stand-in for cuBLASLt or hipBLASLt lists first among the acceptable ones
 *   BP_SIM_ALGORITHMS=n   the maximum number of algorithms that these stand-ins list; 0: like a
 *                         library that does not support the device */
#ifndef SIM_H
#define SIM_H

#include "image.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Codes, as those of the real drivers. */
enum {
    SIM_SUCCESS = 0,
    SIM_INVALID_VALUE = 1,
    SIM_OUT_OF_MEMORY = 2,
    SIM_NOT_INITIALISED = 3,
    SIM_NO_DEVICE = 100,
    SIM_INVALID_DEVICE = 101,
    SIM_INVALID_IMAGE = 200,
    SIM_INVALID_CONTEXT = 201,
    SIM_NO_IMAGE = 209,
    SIM_INVALID_HANDLE = 400,
    SIM_ILLEGAL_STATE = 401,
    SIM_NOT_FOUND = 500,
    SIM_NOT_READY = 600,
    SIM_ILLEGAL_ADDRESS = 700,
    SIM_CAPTURE_UNSUPPORTED = 900,
    SIM_CAPTURE_INVALIDATED = 901,
    SIM_CAPTURE_ISOLATION = 905,
    SIM_CAPTURED_EVENT = 907,
    SIM_REACHED_ALREADY = 704,
    SIM_OWN = 990, /* a code that no real driver has */
};

#define GPU_WHERE void *

/* The numbers of calls, of those of the stand-ins for vendors' libraries, and of "work". */
enum sim_call {
#define CALL(name, cuda, hip, parameters) SIM_CALL_##name,
#include "gpu/calls.def"
#define CALL(result, verb, parameters) SIM_CALL_cublasLt##verb,
#include "gpu/blaslt.def"
#define CALL(result, verb, parameters) SIM_CALL_hipblasLt##verb,
#define CALL_OF_ONE(result, verb, parameters)
#include "gpu/blaslt.def"
#define CALL(result, name, parameters) SIM_CALL_##name,
#include "gpu/cudnn.def"
#define CALL(result, name, parameters) SIM_CALL_##name,
#include "gpu/rocblas.def"
#define CALL(result, name, parameters) SIM_CALL_##name,
#include "gpu/nccl.def"
#define CALL(result, name, nvrtc, hiprtc, parameters) SIM_CALL_##nvrtc, SIM_CALL_##hiprtc,
#include "gpu/rtc.def"
#define CALL(name, parameters) SIM_CALL_##name,
#include "gpu/cupti.def"
#define CALL(result, name, parameters) SIM_CALL_##name,
#include "gpu/roctracer.def"
    SIM_CALL_work,
    SIM_CALLS,
};
#define CALL(name, cuda, hip, parameters) int sim_##name parameters;
#include "gpu/calls.def"

/* For tests: the number of driver objects that are not released yet: contexts, memory, streams,
 * events, modules, graphs. */
size_t sim_live(void);
/* For tests: the number of waits in which a real driver would have spun. */
size_t sim_spun(void);
/* For tests: the number of kernels, and of computations by vendors' libraries, that have been
 * enqueued or recorded. */
size_t sim_computed(void);

enum sim_kind {
    SIM_DEVICE,
    SIM_PINNED,
    SIM_MANAGED,
    SIM_KINDS
};

/* A device and its context. */
struct sim_device {
    int refs;       /* references to the context */
    int sticky;     /* the code of work that failed */
    unsigned flags; /* 4: waits sleep, and do not spin */
    uint64_t used[SIM_KINDS];
    unsigned peers; /* mask of the devices whose memory it can access */
};

/* The first field of each handle. */
enum sim_magic {
    SIM_STREAM = 0x57ea,
    SIM_EVENT,
    SIM_MODULE,
    SIM_FUNCTION,
    SIM_GRAPH,
    SIM_PROGRAM
};

struct sim {
    pthread_mutex_t lock; /* guards all fields below, and streams and events */
    pthread_cond_t moved; /* some work has ended, or no longer matters */
    bool ready;
    int n_device;
    uint64_t memory;
    unsigned delay, seed, load;
    size_t live, spun, computed;
    const struct sim_observer *observer; /* or NULL */
    struct sim_device device[8];
};
extern struct sim sim;

/* driver.c: begins a call, and locks the simulator. Returns the code that the call must return
 * immediately, or 0. The second function is for calls that need a context; it returns the context's
 * device. */
int sim_enter(enum sim_call call);
int sim_enter_context(enum sim_call call, struct sim_device **out);
/* Ends a call: unlocks the simulator and returns code. */
int sim_leave(int code);
/* Whether the settings make this call or work item fail: returns the code, or 0. Under the lock. */
int sim_doomed(enum sim_call call);

/* memory.c: the host memory, of at least `size` bytes, that a device address (or an address of host
 * memory that the device can access) refers to; NULL: none. Under the lock. */
void *sim_reach(const void *address, size_t size);
/* Whether an address is in a device's own memory; whether the device's kernels can access an
 * address. Under the lock. */
bool sim_is_of(const void *address, const struct sim_device *device);
bool sim_is_reached_by(const void *address, const struct sim_device *device);
/* Whether an address is one of device memory. */
bool sim_is_device_address(const void *address);

/* The work that an observer sees, and calls, which are moments or waits of the host. */
enum sim_work {
    SIM_WORK_OTHER, /* not observed */
    SIM_WORK_KERNEL,
    SIM_WORK_COPY_IN,
    SIM_WORK_COPY_OUT,
    SIM_WORK_COPY_WITHIN,
    SIM_WORK_COPY_PEER,
    SIM_WORK_STREAM_WAIT, /* the times are those of the call */
    SIM_CALLED_STREAM_SYNCHRONIZE,
    SIM_CALLED_CONTEXT_SYNCHRONIZE,
    SIM_CALLED_EVENT_SYNCHRONIZE,
    SIM_CALLED_ALLOCATE,
    SIM_CALLED_FREE,
};
struct sim_about {
    enum sim_work work;
    uint64_t bytes;
    char name[96]; /* of a kernel */
};
struct sim_observed {
    const struct sim_about *about;
    const struct sim_device *device;
    uint32_t stream;      /* its number, from 1; 0: none */
    uint64_t correlation; /* the result of `submitted`; 0: none */
    uint64_t begin, end;  /* of CLOCK_MONOTONIC, in nanoseconds */
};
/* A stand-in for a vendor's profiler. Its functions are called under the lock. `submitted` is
 * called by the thread that makes a call of the driver, before the call's work is enqueued, and
 * returns the number of the call; 0: the work is not observed. */
struct sim_observer {
    uint64_t (*submitted)(const struct sim_about *about);
    void (*ended)(const struct sim_observed *observed);
};
void sim_observe(const struct sim_observer *observer);
/* driver.c: the time; and reports to the observer a call that began at `begin` and has ended. */
uint64_t sim_now(void);
void sim_called(enum sim_work work, const struct sim_device *device, uint32_t stream,
                uint64_t bytes, uint64_t begin);
/* stream.c: describes the work that the next call of sim_submit or sim_compute enqueues. Under the
 * lock. */
void sim_describe(enum sim_work work, const char *name, uint64_t bytes);
/* Reports to the observer a part of the work item that this stream's thread runs. */
void sim_observe_part(const struct sim_about *about, uint64_t begin);
/* The number of a stream, from 1; 0: the handle is not a stream. Under the lock. */
uint32_t sim_stream_number(void *stream);

/* stream.c: enqueues work in a stream: the stream's thread later calls run(work, code) under the
 * lock, which `run` may release meanwhile. `size` bytes of `work` are copied. code: an earlier
 * failure on the device, or 0; `run` returns this code, or that of a new failure. On a captured
 * stream the work is recorded. Under the lock. */
int sim_submit(void *stream, int (*run)(void *work, int code), const void *work, size_t size);
/* The same for a kernel or a library's computation, which sim_computed counts. */
int sim_compute(void *stream, int (*run)(void *work, int code), const void *work, size_t size);
/* Waits until a condition of the simulator may have changed. Under the lock. */
void sim_wait(void);
void sim_wake(void);
/* The device of a stream; NULL: the handle is not a stream. Under the lock. */
struct sim_device *sim_device_of(void *stream);
/* The address of a stream's capture pointer (which is NULL without a capture); NULL: the handle is
 * not a stream. Under the lock. */
struct sim_capture;
struct sim_capture **sim_capture_of(void *stream);

/* capture.c: records work in a capture; the second function returns the number of a capture, 0 for
 * none. All functions are called under the lock. */
int sim_capture_add(struct sim_capture *capture, int (*run)(void *work, int code), const void *work,
                    size_t size, const struct sim_about *about);
uint64_t sim_capture_number(const struct sim_capture *capture);
/* Invalidates the open capture of this number, if there is one; returns code. */
int sim_capture_spoil(uint64_t number, int code);
/* Invalidates all open captures of a device. Returns whether there were any. */
bool sim_capture_spoil_all(const struct sim_device *device);
void sim_capture_drop(struct sim_capture *capture);

#endif
