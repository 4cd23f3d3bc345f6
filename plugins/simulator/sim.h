/* SPDX-License-Identifier: Apache-2.0 */
/* sim.h: what the files of the simulator share: a library that behaves as the driver of a GPU does,
 * as far as plugins/gpu calls one (gpu/calls.def). Kernels are the portable ones, compiled as C.
 *
 *   later       each stream is a thread with a queue; before each piece of work it may pause
 *   strict      an address of the device is none of the host's; every address that a copy or a
 *               kernel is given is looked up, when it is given and when the work is done
 *   contexts    each thread has one that is current, or none; a kernel is launched, by the device
 *               that is current, with a function of a module that was loaded there, into a stream
 *               that was made there, and reads no memory of a device that its own does not reach;
 *               an event is recorded in streams of its device
 *   captured    calls on a stream that is captured are recorded; to wait for it, or to ask how far
 *               it is, is an error that spoils the capture
 *   sticky      a failure of work stays with the context: all later calls answer it, until the
 *               context has been given back
 *
 * The environment, read by each initialise:
 *
 *   BP_SIM_DEVICES=n      devices (1)
 *   BP_SIM_ARCH=n,...     the architecture of each (20); the last one's is that of those behind it
 *   BP_SIM_MANAGED=n      0: the devices have no managed memory; 1: only as long as no kernel runs
 *   BP_SIM_MEMORY=n       bytes of each (1 GiB), and as many of pinned and of managed memory
 *   BP_SIM_DELAY=n        the longest pause before a piece of work, in microseconds (50)
 *   BP_SIM_SEED=n         of the pauses
 *   BP_SIM_LOAD=n         what a module takes to load, in microseconds (0)
 *   BP_SIM_FAIL=call:n:code,...   the n-th call of this name (calls.def, or the list of a vendor's
 *                         library) does nothing and answers
 *                         code; "work:n:code" is the n-th piece of work, which fails on the device
 *   BP_SIM_JOIN=stop      the process stops when the stand-in for NCCL is to join it; "die": it is
 *                         killed; "hang": the call never returns, or
 *                         answers for ever that it is under way
 *   BP_SIM_SLOW=n         microseconds that each product takes longer with the algorithm that the
 *                         stand-in for cuBLASLt names first among those that are good; so too
 *                         that for hipBLASLt
 *   BP_SIM_ALGORITHMS=n   how many these name, at most: 0 where a library does not serve a device
 */
#ifndef SIM_H
#define SIM_H

#include "image.h"
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Codes, as of the real drivers. */
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
    SIM_OWN = 990, /* which the real ones do not have */
};

#define GPU_WHERE void *

/* Calls, those of the stand-ins for vendors' libraries, and "work", by number. */
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
    SIM_CALL_work,
    SIM_CALLS,
};
#define CALL(name, cuda, hip, parameters) int sim_##name parameters;
#include "gpu/calls.def"

/* How many things of the driver's are not given back yet: contexts, memory, streams, events,
 * modules, graphs. For tests. */
size_t sim_live(void);
/* In how many waits a driver would have spun. For tests. */
size_t sim_spun(void);

enum sim_kind { SIM_DEVICE, SIM_PINNED, SIM_MANAGED, SIM_KINDS };

/* A device and its context. */
struct sim_device {
    int refs;    /* of the context */
    int sticky;  /* code of work that failed */
    unsigned flags; /* 4: waits block */
    uint64_t used[SIM_KINDS];
    unsigned peers; /* mask of devices whose memory it may reach */
};

/* What each handle begins with. */
enum sim_magic { SIM_STREAM = 0x57ea, SIM_EVENT, SIM_MODULE, SIM_FUNCTION, SIM_GRAPH, SIM_PROGRAM };

struct sim {
    pthread_mutex_t lock; /* of everything below, and of streams and events */
    pthread_cond_t moved; /* some work has ended, or does not matter any more */
    bool ready;
    int n_device;
    uint64_t memory;
    unsigned delay, seed, load;
    size_t live, spun;
    struct sim_device device[8];
};
extern struct sim sim;

/* driver.c: begins a call. The code that the call is to answer at once, or 0. The second one is for
 * calls that need a context, whose device is put out. Under the lock, which they take. */
int sim_enter(enum sim_call call);
int sim_enter_context(enum sim_call call, struct sim_device **out);
/* Ends it: gives the lock back and returns code. */
int sim_leave(int code);
/* Whether a piece of work is told to fail: the code, or 0. Under the lock. */
int sim_doomed(enum sim_call call);

/* memory.c: the memory that an address of the device's side (or of host memory that it reaches)
 * names, of size bytes at least; NULL: none. Under the lock. */
void *sim_reach(const void *address, size_t size);
/* Whether a device's own memory is at an address; whether its kernels reach what is there. Under
 * the lock. */
bool sim_is_of(const void *address, const struct sim_device *device);
bool sim_is_reached_by(const void *address, const struct sim_device *device);
/* Whether it is an address of device memory. */
bool sim_is_far(const void *address);

/* stream.c: gives work to a stream: run(work, code) is called later, on its thread, under the lock,
 * which it may let go; size bytes of work are copied. code is what failed on the device before, or
 * 0; run answers it, or what fails now. On a stream that is captured it is recorded. Under the
 * lock. */
int sim_submit(void *stream, int (*run)(void *work, int code), const void *work, size_t size);
/* Waits until a condition of the simulator may have changed. Under the lock. */
void sim_wait(void);
void sim_wake(void);
/* The device of a stream; NULL: it is no stream. Under the lock. */
struct sim_device *sim_device_of(void *stream);
/* Where a stream has its capture (NULL: it has none); NULL: it is no stream. Under the lock. */
struct sim_capture;
struct sim_capture **sim_capture_of(void *stream);

/* capture.c, under the lock. What is recorded of a call; and its number among captures, 0 for none.
 */
int sim_capture_add(struct sim_capture *capture, int (*run)(void *work, int code), const void *work,
                    size_t size);
uint64_t sim_capture_number(const struct sim_capture *capture);
/* The capture of this number, if it is open, cannot end well any more; returns code. */
int sim_capture_spoil(uint64_t number, int code);
/* The same for all of a device: whether there were any. */
bool sim_capture_spoil_all(const struct sim_device *device);
void sim_capture_drop(struct sim_capture *capture);

#endif
