/* SPDX-License-Identifier: Apache-2.0 */
/* lane.c: orders the calls of several threads on one stream, and keeps the stream or the graph that
 * each thread's `with` blocks have selected. */
#include "module.h"
#include <stdlib.h>

/* A `with` block of a thread. */
struct py_frame {
    struct py_frame *below;
    const struct py_state *state;
    PyObject *owner; /* a Stream or a Graph */
    unsigned forks;  /* of the process that entered the block */
};
static _Thread_local struct py_frame *frame_top;

/* Counts the forks that this process came from. The lock of a lane from before a fork may be held
 * by a thread that the child has not: calls on such a stream fail, and take no lock. */
static unsigned lane_forks;

static void lane_count_fork(void)
{
    lane_forks++;
}

static void lane_watch_forks(void)
{
    pthread_atfork(NULL, NULL, lane_count_fork);
}

int py_lane_init(struct py_lane *lane, struct bp_stream *stream)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_mutexattr_t kind;
    int failed = pthread_mutexattr_init(&kind);

    pthread_once(&once, lane_watch_forks);
    lane->forks = lane_forks;

    if (!failed) failed = pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    if (!failed) failed = pthread_mutex_init(&lane->lock, &kind);
    if (failed) {
        PyErr_NoMemory();
        return -1;
    }
    pthread_mutexattr_destroy(&kind);
    lane->stream = stream;
    lane->queued = stream && bp_stream_get_flags(stream) != BP_STREAM_INLINE;
    lane->may_wait = lane->queued;
    return 0;
}

void py_lane_finish(struct py_lane *lane)
{
    if (lane->stream) bp_stream_destroy(lane->stream);
    lane->stream = NULL;
    if (lane->forks == lane_forks) pthread_mutex_destroy(&lane->lock);
}

struct py_hold py_lane_take(struct py_lane *lane, bool waits)
{
    struct py_hold hold = {.lane = lane};

    if (lane->forks != lane_forks) hold.lane = NULL;
    else if (waits || lane->may_wait) {
        hold.thread = PyEval_SaveThread();
        pthread_mutex_lock(&lane->lock);
    } else if (pthread_mutex_trylock(&lane->lock)) {
        PyThreadState *thread = PyEval_SaveThread();
        pthread_mutex_lock(&lane->lock);
        PyEval_RestoreThread(thread);
    }
    return hold;
}

void py_lane_leave(struct py_hold *hold)
{
    if (hold->lane) pthread_mutex_unlock(&hold->lane->lock);
    if (hold->thread) PyEval_RestoreThread(hold->thread);
}

PyObject *py_scope_enter(struct py_state *state, PyObject *owner)
{
    struct py_frame *frame = malloc(sizeof *frame);

    if (!frame) return PyErr_NoMemory();
    Py_INCREF(owner);
    *frame = (struct py_frame){frame_top, state, owner, lane_forks};
    frame_top = frame;
    Py_INCREF(owner);
    return owner;
}

PyObject *py_scope_leave(struct py_state *state, PyObject *owner)
{
    struct py_frame **at = &frame_top, *frame;

    /* Coroutines and generators may leave in another order. */
    while (*at && ((*at)->owner != owner || (*at)->state != state)) at = &(*at)->below;
    frame = *at;
    if (!frame) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this `with` block does not end on the thread where it began");
        return NULL;
    }
    *at = frame->below;
    Py_DECREF(frame->owner);
    free(frame);
    Py_RETURN_NONE;
}

PyObject *py_scope_current(const struct py_state *state)
{
    bool ours = frame_top && frame_top->state == state && frame_top->forks == lane_forks;

    return ours ? frame_top->owner : NULL;
}

static struct py_target target_of_graph(PyObject *graph)
{
    struct py_graph *g = (struct py_graph *)graph;

    return (struct py_target){bp_graph_scope(g->handle), &g->lane, graph, true};
}

struct py_lane *py_lane_of(struct py_state *state, PyObject *device)
{
    PyObject *current = py_scope_current(state);

    if (current && Py_TYPE(current) == state->type.stream &&
        ((struct py_stream *)current)->device == device)
        return ((struct py_stream *)current)->lane;
    return &((struct py_device *)device)->lane;
}

struct py_target py_target_of(struct py_state *state, PyObject *owner)
{
    PyObject *current = py_scope_current(state);
    struct py_lane *lane;

    if (Py_TYPE(owner) == state->type.graph) return target_of_graph(owner);
    if (current && Py_TYPE(current) == state->type.graph) return target_of_graph(current);
    lane = py_lane_of(state, owner);
    return (struct py_target){bp_stream_scope(lane->stream), lane, owner, false};
}
