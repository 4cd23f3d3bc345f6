/* SPDX-License-Identifier: Apache-2.0 */
/* async_fixture.h: what cases on order and on the allocator share: some streams, events and tensors
 * by number, a device of their own, and gates that hold a stream's work.
 *
 * The functions that answer bool record what is wrong, and answer whether all was well. After a
 * failure they may be called no more but for work_finish. */
#ifndef BP_CONFORM_WORK_H
#define BP_CONFORM_WORK_H

#include "../check.h"
#include <pthread.h>

enum { WORK_STREAMS = 8, WORK_EVENTS = 4, WORK_TENSORS = 12, WORK_HOST = -1 };

/* Holds what is given to a stream after it, so that nothing of that has begun.
 *
 * Where the core's queue stands in front of an inline device that is certain until the gate is
 * opened (firm): a callback waits. Elsewhere copies are in front, which take their time: whether
 * they have ended is asked. On an inline stream nothing is held. */
struct work_gate {
    struct bp_stream *stream; /* NULL: not used */
    bool firm;
    pthread_mutex_t lock; /* the four below */
    pthread_cond_t changed;
    bool open, left, late;
    struct bp_tensor *pile[2];
    struct bp_event *behind; /* the pile */
};

struct work {
    struct check *c;
    struct bp_core *core;     /* own, or NULL */
    struct bp_device *device; /* own, or the place's */
    struct bp_stream *stream[WORK_STREAMS];
    struct bp_event *event[WORK_EVENTS];
    struct bp_tensor *tensor[WORK_TENSORS];
    uint64_t bytes[WORK_TENSORS];
    struct work_gate gate[WORK_STREAMS]; /* of the stream of that number */
    pthread_t opener;
    bool opening; /* the opener was started */
    _Atomic bool opened; /* it is about to open */
    int gates;    /* that it opens: bits */
};

/* On the device under test. */
void work_init(struct work *w, struct check *c);
/* On the same device opened in a core of its own, so that its memory is as new; limit: BP_MEM_LIMIT
 * there, or NULL. */
bool work_init_own(struct work *w, struct check *c, const char *limit);
/* Opens what is shut, destroys what is there. */
void work_finish(struct work *w);

/* kind: enum bp_stream_flags, or 0: the usual one. */
bool work_stream(struct work *w, int stream, int64_t kind);
/* A tensor of so many bytes, a multiple of 8; home: a stream, or WORK_HOST. */
bool work_tensor(struct work *w, int tensor, int home, uint64_t bytes);
bool work_tensor_in(struct work *w, int tensor, int home, uint64_t bytes, uint32_t space);
void work_drop(struct work *w, int tensor);
/* Fills with the bytes of a seed. The host's are overwritten when the call has returned. */
bool work_fill(struct work *w, int stream, int tensor, int seed);
bool work_copy(struct work *w, int stream, int to, int from);
bool work_holds(struct work *w, int stream, int tensor, int seed, const char *what);
/* The host's bytes of a seed: in a tensor that it reaches. */
void work_bytes(void *to, uint64_t size, int seed);

/* An event is made when it is first recorded. */
bool work_record(struct work *w, int event, int stream);
bool work_wait(struct work *w, int stream, int event);
bool work_sync(struct work *w, int stream);
/* Until the event has come, or for so long that it would have if what is before it waited for
 * nothing: longer where a machine that is busy cannot let go what is held meanwhile. */
void work_pause(struct work *w, int event);
/* If the gate of `held` is shut still, afterwards, the event has not come. */
bool work_is_behind(struct work *w, int event, int held, const char *what);
/* bp_stream_wait of an event behind the gate of `held`; where the stream is inline it waits until
 * that is opened, which is seen to. */
bool work_wait_held(struct work *w, int stream, int event, int held);
void work_leave(struct work *w, int stream); /* destroys it */

bool work_shut(struct work *w, int stream);
/* Whether what was given to the stream since has certainly not begun, until now. */
bool work_held(struct work *w, int stream);
void work_open(struct work *w, int stream);
/* Another thread opens the gates of some streams (bits) in a moment: for calls that wait. */
bool work_open_soon(struct work *w, int streams);
/* Such a call has returned: it was not to, before that, if one of these gates is firm. */
bool work_was_opened(struct work *w, const char *call);

/* Launches: of the operator add, on f32. Element i of a tensor is i * factor + add. */

/* Whether the device has a row for that; else the case is unsupported. */
bool work_adds(struct check *c);
bool work_floats(struct work *w, int home, int64_t n, struct bp_tensor **out);
bool work_put(struct work *w, int stream, struct bp_tensor *t, int factor, int add);
bool work_has(struct work *w, int stream, struct bp_tensor *t, int factor, int add,
              const char *what);
bool work_add(struct work *w, struct bp_scope *scope, struct bp_tensor *x, struct bp_tensor *y,
              struct bp_tensor **out);
/* The same on a stream. */
bool work_launch(struct work *w, int stream, struct bp_tensor *x, struct bp_tensor *y,
                 struct bp_tensor **out);

/* Launches that take a while, without a gate. A device that is quick, or a machine that is busy,
 * may have ended them before somebody looks: a case looks again, up to so many times. */
enum { WORK_TRIES = 8, WORK_LAUNCHES = 24 };
struct work_load {
    struct bp_tensor *x, *z, *copy; /* z becomes x + x: twos; copy is like z */
};
/* As many elements as take the stream 2 ms, at most 4M. */
bool work_load_init(struct work *w, int stream, struct work_load *out);
void work_load_finish(struct work_load *load);
/* Gives the launches, and event 0 behind them. */
bool work_load_give(struct work *w, int stream, struct work_load *load);
/* Gives as many copies of z, whose bytes are as many as take 2 ms or 64 MiB, and event 0. */
bool work_load_copy(struct work *w, int stream, struct work_load *load);

double work_seconds(void); /* of a clock that goes on steadily */

/* A launch that fails: by one of its rows the device takes values x at indices, of which one may
 * lie past the end. That is the one failure that any device can be brought to. */
struct work_fault {
    const char *op;
    uint32_t dtype; /* of index */
    struct bp_tensor *x, *index;
};
/* With sound indices. Where the device has no such row the case is unsupported. */
bool work_fault_init(struct work *w, int stream, struct work_fault *out);
void work_fault_finish(struct work_fault *fault);
bool work_fault_put(struct work *w, int stream, struct work_fault *fault, bool bad);
/* With tensors or values of a graph like x and index. */
enum bp_status work_fault_call(const struct work_fault *fault, struct bp_scope *scope,
                               struct bp_tensor *x, struct bp_tensor *index,
                               struct bp_tensor **out);
/* Whether the status is that of the failure, and the message on this thread names the operator. */
bool work_fault_is(struct check *c, const struct work_fault *fault, enum bp_status status,
                   const char *what);

/* Whether an event on a stream of the kind can be asked without a wait; else the case is
 * unsupported: what returns before its work is done cannot be seen. */
bool work_is_seen(struct check *c, int64_t kind);

/* The device's figures, of which sums and counts have been checked. */
bool work_stats(struct work *w, struct bp_memory_stats *out);

/* memory_returned.c: bytes that the process has allocated; 0: its allocator does not tell. */
uint64_t heap_in_use(void);

#endif
