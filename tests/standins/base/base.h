/* SPDX-License-Identifier: Apache-2.0 */
/* base.h: declares the functions that the stand-ins for vendors' libraries share. A stand-in is a
 * set of shared libraries with the names and the functions of a vendor's libraries, for machines
 * without the vendor's device. The base simulates a device with these properties:
 *
 *   late        each stream is a thread with a queue; the thread may pause before each work item
 *   strict      a device address is not a valid host address; it is checked when a call is made
 *               and again when the work runs. Each allocation lies between guard zones, and freed
 *               memory is overwritten at once and kept for some time, so that a late use is noticed
 *   sticky      a failure of work stays with the device: later work of the device does nothing
 *   captured    work that is submitted to a captured stream is recorded
 *
 * How a stand-in uses the base:
 *
 *   1. It defines one struct base_vendor, and calls base_vendor_open when the app initialises the
 *      library; this reads the environment and makes the devices.
 *   2. Each of its functions begins with base_enter("name of the function") and ends with
 *      `return base_leave(code);`. Between the two it holds the lock of the base, checks its
 *      arguments, and calls functions that this header marks "under the lock". If base_enter
 *      returns a code other than 0, the function does nothing and returns base_leave(code).
 *   3. An argument that the vendor's library is known to refuse gets base_refuse: the caller
 *      receives the code and the text. A call whose effect the vendor leaves undefined gets
 *      base_misuse, which also writes a line to BP_STANDIN_LOG: tests fail if that file has one.
 *   4. Work is a struct base_work, submitted by base_submit; `run` is called on the stream's
 *      thread without the lock. It takes base_lock for functions under the lock, and returns 0
 *      or the vendor's code, which then becomes sticky.
 *   5. Functions of the base return 0, a code of enum base_code (negative), or the vendor's own
 *      code (positive) of work that failed. The stand-in translates the negative ones.
 *
 * All stand-ins of a process share one copy of the base, libbp_standin_base.so. Its environment:
 *
 *   BP_STANDIN_DEVICES=n  devices of each vendor (1)
 *   BP_STANDIN_MEMORY=n   bytes of each device (1 GiB)
 *   BP_STANDIN_DELAY=n    the longest pause before a work item, in microseconds (50)
 *   BP_STANDIN_SEED=n     seed of the pauses
 *   BP_STANDIN_KEEP=n     destroyed handles whose memory is not reused yet (512). With 0, freed
 *                         memory of devices is not kept either: for tests that measure the memory
 *                         of the process
 *   BP_STANDIN_FAIL=list  faults, separated by commas:
 *                         call:n:code   the n-th call of this name does nothing, returns code
 *                         call:n:+us    the n-th call of this name begins so many microseconds late
 *                         work:n:code   the n-th work item fails on the device, which is then lost
 *                         work:n:+us    the n-th work item begins so much later
 *   BP_STANDIN_LOG=file   gets a line for each misuse; without it the error output gets the line
 *   BP_STANDIN_CALLS=file gets a line for each call: its name and the code that it returned */
#ifndef STANDINS_BASE_H
#define STANDINS_BASE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BASE_API __attribute__((visibility("default")))

/* Codes of the base; a vendor's codes are positive. */
enum base_code {
    BASE_OK = 0,
    BASE_NO_MEMORY = -1,     /* the device or the host has no memory left */
    BASE_BAD = -2,           /* an argument is not possible */
    BASE_ILLEGAL = -3,       /* an address is not memory of the expected place and size */
    BASE_PENDING = -4,       /* the work is not done yet */
    BASE_TIMEOUT = -5,       /* the work is not done after the time that the caller waits */
    BASE_CAPTURED = -6,      /* the stream is captured: its capture is now invalid */
    BASE_INVALIDATED = -7,   /* the capture was invalid already */
    BASE_UNJOINED = -8,      /* a stream has joined the capture and was not joined again */
    BASE_ISOLATION = -9,     /* a wait crosses the border of a capture */
    BASE_NOT_CAPTURED = -10, /* the stream is not captured */
    BASE_NO_KERNEL = -11,    /* rows.h */
    BASE_FAULT = -12
};

enum {
    BASE_DEVICES = 8
};

struct base_device {
    const struct base_vendor *vendor;
    int number;
    int sticky; /* code of work that failed; 0: none */
    uint64_t used, total;
    uint32_t peers; /* mask of devices whose memory this device may access */
};

struct base_vendor {
    const char *name; /* in messages: "cann" */
    int illegal;      /* the sticky code of work that accesses memory that it may not access */
    int n_device;     /* 0: not opened */
    unsigned depth;   /* work items of a stream at which base_submit waits; 0: any number */
    struct base_device device[BASE_DEVICES];
};

/* settings.c: opens a vendor: reads the environment, makes its devices. A second call reads the
 * environment again and keeps memory and streams; sticky codes end. */
BASE_API void base_vendor_open(struct base_vendor *vendor);
/* For tests: sets what an environment variable sets: base_control("FAIL", "aclrtMalloc:1:5").
 * Counting of the n-th call begins anew. Returns 0, or -1 for an unknown name. */
BASE_API int base_control(const char *name, const char *value);
/* For tests: the number of misuses so far, and of handles and allocations that are not released. */
BASE_API size_t base_misuses(void);
BASE_API size_t base_live(void);
/* For tests: writes the names and kinds of handles that are not released to the log. */
BASE_API void base_live_print(void);

/* call.c: begins a call of the vendor's function `name`, and locks the base. Returns the code that
 * the call must return without any effect, or 0. */
BASE_API int base_enter(const char *name);
BASE_API int base_leave(int code); /* unlocks, returns code */
BASE_API void base_lock(void);
BASE_API void base_unlock(void);
BASE_API void base_sleep(long us); /* without the lock */
/* Stores the message of this thread's last error; return code. base_misuse also reports the message
 * as misuse. Under the lock. */
BASE_API int base_refuse(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
BASE_API int base_misuse(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The calling thread's last message; "" if there was none. base_message_take also forgets it. */
BASE_API const char *base_message(void);
BASE_API const char *base_message_take(void);

/* handle.c: the handles that a vendor's functions returned. A handle is an address of the host from
 * base_handle_create, zeroed; `kind` is a text such as "stream", the same address for all of a
 * kind. base_handle_destroy frees it later, so that a stale handle is not mistaken for a new one.
 * Under the lock. */
BASE_API void *base_handle_create(const char *kind, size_t size);
BASE_API bool base_handle_is(const void *handle, const char *kind); /* false for NULL */
BASE_API bool base_handle_was(const void *handle);                  /* destroyed some time ago */
BASE_API void base_handle_destroy(void *handle);
/* The most recently created living handle of a kind that `accepts`; NULL: none. */
BASE_API void *base_handle_find(const char *kind, bool (*accepts)(const void *handle, void *self),
                                void *self);

/* memory.c: places of addresses. BASE_HOST: pageable host memory, or anything else that no
 * stand-in allocated. BASE_PINNED has addresses of the host that devices can access too. */
enum base_place {
    BASE_HOST,
    BASE_PINNED,
    BASE_DEVICE,
    BASE_FREED
};

struct base_range {
    enum base_place place;
    struct base_device *device; /* of BASE_DEVICE and BASE_PINNED */
    void *host;                 /* where the host finds the address */
    size_t room;                /* bytes from the address to the end of the allocation; of BASE_HOST
                                   unknown: 0 */
    size_t slack;               /* bytes that kernels may read beyond them */
    bool is_start;
};

/* Allocates memory in a place: BASE_DEVICE or BASE_PINNED. `slack` bytes after the end may be read
 * but not written. alignment: a power of two. Returns 0, BASE_NO_MEMORY or BASE_BAD (no bytes).
 * Under the lock. */
BASE_API int base_allocate(struct base_device *device, enum base_place place, size_t size,
                           size_t slack, size_t alignment, void **out);
/* Registers memory of the app as pinned; base_free ends that. Under the lock. */
BASE_API int base_pin(struct base_device *device, void *memory, size_t size);
/* Frees an allocation of this place; memory that work in flight uses is overwritten all the same.
 * Returns 0, or BASE_BAD if the address is not the start of such an allocation. Under the lock. */
BASE_API int base_free(void *memory, enum base_place place);
BASE_API struct base_range base_find(const void *address);
/* The host address of `size` bytes of a device's own memory, of memory of one of its peers, or of
 * pinned memory, NULL if it has no access. May be called with and without the lock. */
BASE_API void *base_reach(const struct base_device *device, const void *address, size_t size);
BASE_API void *base_reach_unlocked(const struct base_device *device, const void *address,
                                   size_t size);
/* Checks all guard zones; a damaged one is a misuse. Returns how many are damaged. Under the
 * lock. */
BASE_API size_t base_guards_check(void);

/* stream.c: streams and events. `owner` is the vendor's: its context. */
struct base_stream;
struct base_event;
struct base_work {
    /* Runs the work, without the lock. data: a copy that the caller may change only if the work is
     * not recorded. code: the sticky code of the device: if it is not 0, the work only returns
     * it. */
    int (*run)(void *data, int code);
    /* Under the lock: frees what the data owns, once, when the work will not run again; may be
     * NULL. */
    void (*drop)(void *data);
};
extern BASE_API const char base_stream_kind[], base_event_kind[], base_graph_kind[];

BASE_API struct base_stream *base_stream_create(struct base_device *device, void *owner);
BASE_API bool base_stream_is(const void *handle);
BASE_API struct base_device *base_stream_device(const struct base_stream *stream);
BASE_API void *base_stream_owner(const struct base_stream *stream);
/* Destroys a stream after its work has ended; the lock is released meanwhile. */
BASE_API void base_stream_destroy(struct base_stream *stream);
/* Enqueues work, or records it. `size` bytes of data are copied. On a failure, drop was called.
 * Waits while the stream has as much work as the vendor's depth; the lock is released meanwhile. */
BASE_API int base_submit(struct base_stream *stream, const struct base_work *work, const void *data,
                         size_t size);
/* Waits for all work that was submitted before; ms < 0: without a limit. The lock is released
 * meanwhile. Returns 0, BASE_TIMEOUT, BASE_CAPTURED or the device's sticky code. */
BASE_API int base_stream_wait(struct base_stream *stream, int ms);
BASE_API int base_stream_query(struct base_stream *stream); /* 0, BASE_PENDING, BASE_CAPTURED */
/* Waits for all streams of a device. */
BASE_API int base_device_wait(struct base_device *device, int ms);
/* The number of work items of a device's streams that have not run yet. */
BASE_API size_t base_device_pending(const struct base_device *device);
/* Destroys the streams of an owner and its events, as the end of a context does. */
BASE_API void base_owner_end(const void *owner);

BASE_API struct base_event *base_event_create(struct base_device *device, void *owner,
                                              uint32_t flags);
BASE_API bool base_event_is(const void *handle);
BASE_API uint32_t base_event_flags(const struct base_event *event);
BASE_API void *base_event_owner(const struct base_event *event);
BASE_API struct base_device *base_event_device(const struct base_event *event);
BASE_API void base_event_destroy(struct base_event *event);
/* Records the position of a stream: an event may be recorded again and again. */
BASE_API int base_event_record(struct base_event *event, struct base_stream *stream);
BASE_API bool base_event_was_recorded(const struct base_event *event);
/* 0: the recorded work is done, or the event was never recorded; BASE_PENDING, BASE_CAPTURED. */
BASE_API int base_event_query(struct base_event *event);
BASE_API int base_event_wait(struct base_event *event, int ms);
/* Makes later work of the stream wait; a wait takes the record that was made last before it. */
BASE_API int base_stream_wait_event(struct base_stream *stream, struct base_event *event);
/* The milliseconds between two events; BASE_BAD: never recorded, BASE_PENDING: not done. */
BASE_API int base_event_elapsed(const struct base_event *from, const struct base_event *to,
                                float *out);

/* capture.c: captures. While a stream is captured, its work is recorded. Another stream joins the
 * capture when it waits for an event that was recorded in it. All under the lock. */
struct base_capture;
struct base_graph;
enum base_mode {
    BASE_GLOBAL,
    BASE_THREAD,
    BASE_RELAXED
};
enum base_capturing {
    BASE_CAPTURE_NONE,
    BASE_CAPTURE_ACTIVE,
    BASE_CAPTURE_INVALID
};

/* Begins a capture. BASE_CAPTURED: the stream is captured already (the capture stays valid). */
BASE_API int base_capture_begin(struct base_stream *stream, enum base_mode mode);
/* Ends a capture; it ends with a failure, too: BASE_NOT_CAPTURED, BASE_INVALIDATED, BASE_UNJOINED,
 * BASE_NO_MEMORY, BASE_BAD for a stream that has joined. */
BASE_API int base_capture_end(struct base_stream *stream, struct base_graph **out);
BASE_API enum base_capturing base_capture_state(const struct base_stream *stream);
/* Whether a call that may wait for the device, such as a synchronous copy, is forbidden to this
 * thread by a capture's mode. The captures that forbid it become invalid. */
BASE_API bool base_capture_forbids(void);
BASE_API bool base_graph_is(const void *handle);
BASE_API size_t base_graph_size(const struct base_graph *graph); /* work items */
BASE_API int base_graph_launch(struct base_graph *graph, struct base_stream *stream);
BASE_API void base_graph_destroy(struct base_graph *graph);

#endif
