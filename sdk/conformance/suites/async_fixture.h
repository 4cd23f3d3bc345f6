/* SPDX-License-Identifier: Apache-2.0 */
/* async_fixture.h: functions shared by cases on order and on the allocator: numbered streams,
 * events and tensors, a device of the case's own, and gates that hold back a stream's work.
 *
 * The functions that return bool record the first failure and return whether all checks passed.
 * After a failure, only work_finish may be called. */
#ifndef BP_CONFORM_WORK_H
#define BP_CONFORM_WORK_H

#include "../check.h"
#include <pthread.h>

enum {
    WORK_STREAMS = 8,
    WORK_EVENTS = 4,
    WORK_TENSORS = 12,
    WORK_HOST = -1
};

/* A gate holds back all work that is submitted to a stream after the gate is shut.
 *
 * On an inline device behind the core's queue the gate is firm: a callback blocks the queue until
 * the gate is opened, so later work has certainly not begun. On other devices a pile of copies
 * delays later work, and an event behind the pile shows whether they have ended. On an inline
 * stream nothing is held back. */
struct work_gate {
    struct bp_stream *stream; /* NULL: not used */
    bool firm;
    pthread_mutex_t lock; /* protects open, left and late */
    pthread_cond_t changed;
    bool open, left, late;
    struct bp_tensor *pile[2];
    struct bp_event *behind; /* recorded behind the pile */
};

struct work {
    struct check *c;
    struct bp_core *core;     /* created by the case, or NULL */
    struct bp_device *device; /* opened by the case, or that of the fixture */
    struct bp_stream *stream[WORK_STREAMS];
    struct bp_event *event[WORK_EVENTS];
    struct bp_tensor *tensor[WORK_TENSORS];
    uint64_t bytes[WORK_TENSORS];
    struct work_gate gate[WORK_STREAMS]; /* the gates of the streams with the same index */
    pthread_t opener;
    bool opening;        /* the opener thread was started */
    _Atomic bool opened; /* the opener has begun to open gates */
    int gates;           /* the gates that it opens, as a bit mask */
};

/* Prepares w for the device under test. */
void work_init(struct work *w, struct check *c);
/* Prepares w for the same device opened in a second core, so that its memory is in its initial
 * state. limit: the value of BP_MEM_LIMIT for that core, or NULL. */
bool work_init_own(struct work *w, struct check *c, const char *limit);
/* Opens all gates and destroys all objects. */
void work_finish(struct work *w);

/* kind: enum bp_stream_flags, or 0 for the default kind. */
bool work_stream(struct work *w, int stream, int64_t kind);
/* Creates a tensor of that many bytes, a multiple of 8. `home`: the index of the owning stream, or
 * WORK_HOST for none. */
bool work_tensor(struct work *w, int tensor, int owner, uint64_t bytes);
bool work_tensor_in(struct work *w, int tensor, int owner, uint64_t bytes, uint32_t space);
void work_drop(struct work *w, int tensor);
/* Fills a tensor with the bytes of a seed. Overwrites the host's buffer after the write call has
 * returned. */
bool work_fill(struct work *w, int stream, int tensor, int seed);
bool work_copy(struct work *w, int stream, int to, int from);
bool work_holds(struct work *w, int stream, int tensor, int seed, const char *what);
/* Fills host memory, or a tensor that the host can access, with the bytes of a seed. */
void work_bytes(void *to, uint64_t size, int seed);

/* Records an event, which is created at its first recording. */
bool work_record(struct work *w, int event, int stream);
bool work_wait(struct work *w, int stream, int event);
bool work_sync(struct work *w, int stream);
/* Waits until the event has completed, at most for as long as its work would need if nothing
 * blocked it. Waits longer if all gates are firm, because held work cannot begin meanwhile even on
 * a busy machine. */
void work_pause(struct work *w, int event);
/* Checks that the event had not completed, if the gate of stream `held` is still shut after the
 * query. */
bool work_is_behind(struct work *w, int event, int held, const char *what);
/* Calls bp_stream_wait for an event behind the gate of `held`. An inline stream blocks in this call
 * until the gate is opened, so another thread opens the gate. */
bool work_wait_held(struct work *w, int stream, int event, int held);
void work_leave(struct work *w, int stream); /* destroys the stream */

bool work_shut(struct work *w, int stream);
/* Whether the work submitted to the stream since the gate was shut has certainly not begun up to
 * now. */
bool work_held(struct work *w, int stream);
void work_open(struct work *w, int stream);
/* Starts a thread that opens the gates of some streams (a bit mask) after a short time, for calls
 * that block. */
bool work_open_soon(struct work *w, int streams);
/* Called after such a call has returned: checks that the gates had been opened before, if one of
 * them is firm. */
bool work_was_opened(struct work *w, const char *call);

/* Launches of the operator add on f32. Element i of a tensor is i * factor + add. */

/* Whether the device has a kernel row for add on f32. If not, the case is unsupported. */
bool work_adds(struct check *c);
bool work_floats(struct work *w, int owner, int64_t n, struct bp_tensor **out);
bool work_put(struct work *w, int stream, struct bp_tensor *t, int factor, int add);
bool work_has(struct work *w, int stream, struct bp_tensor *t, int factor, int add,
              const char *what);
bool work_add(struct work *w, struct bp_scope *scope, struct bp_tensor *x, struct bp_tensor *y,
              struct bp_tensor **out);
/* Submits the sum to a stream. */
bool work_launch(struct work *w, int stream, struct bp_tensor *x, struct bp_tensor *y,
                 struct bp_tensor **out);

/* Launches that take some time without a gate. A fast device may finish them before the case looks,
 * as may any device on a busy machine; therefore a case tries up to WORK_TRIES times. */
enum {
    WORK_TRIES = 8,
    WORK_LAUNCHES = 24
};
struct work_load {
    struct bp_tensor *x, *z, *copy; /* z becomes x + x, all twos; copy has the size of z */
};
/* Chooses the number of elements so that the launches take the stream 2 ms, at most 4M elements,
 * and at most a small part of the device's memory. */
bool work_load_init(struct work *w, int stream, struct work_load *out);
void work_load_finish(struct work_load *load);
/* Submits the launches, and event 0 behind them. */
bool work_load_give(struct work *w, int stream, struct work_load *load);
/* Submits the same number of copies of z, and event 0 behind them. The bytes are chosen for 2 ms,
 * at most 64 MiB, and at most a small part of the device's memory. */
bool work_load_copy(struct work *w, int stream, struct work_load *load);

double work_seconds(void); /* of a monotonic clock */

/* A launch that fails: a gather-like operator that reads values of x at indices, one of which can
 * be out of range. This is the only failure that every device can be made to produce. */
struct work_fault {
    const char *op;
    uint32_t dtype; /* the dtype of index */
    struct bp_tensor *x, *index;
};
/* Makes valid indices. If the device has no such kernel row, the case is unsupported. */
bool work_fault_init(struct work *w, int stream, struct work_fault *out);
void work_fault_finish(struct work_fault *fault);
bool work_fault_put(struct work *w, int stream, struct work_fault *fault, bool bad);
/* Makes the call with tensors, or with values of a graph that have the types of x and index. */
enum bp_status work_fault_call(const struct work_fault *fault, struct bp_scope *scope,
                               struct bp_tensor *x, struct bp_tensor *index,
                               struct bp_tensor **out);
/* Checks that the status is that of the failure, and that the message on this thread names the
 * operator. */
bool work_fault_is(struct check *c, const struct work_fault *fault, enum bp_status status,
                   const char *what);

/* Whether an event on a stream of the kind can be queried without waiting. If not, the case is
 * unsupported, because a call that returns before its work is done cannot be observed. */
bool work_is_observed(struct check *c, int64_t kind);

/* Reads the device's memory statistics and checks their sums and counts. */
bool work_stats(struct work *w, struct bp_memory_stats *out);

/* In memory_returned.c: bytes that the process has allocated. 0: its allocator does not report
 * this. */
uint64_t heap_in_use(void);

#endif
