/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: streams, which select the stream of later calls in a `with` block, and events. */
#include "module.h"
#include <string.h>

static struct py_stream *stream_alloc(struct py_state *state, PyObject *device)
{
    struct py_stream *s = (struct py_stream *)PyType_GenericAlloc(state->type.stream, 0);

    if (!s) return NULL;
    s->state = state;
    s->device = device;
    Py_INCREF(device);
    return s;
}

PyObject *py_stream_default(struct py_state *state, PyObject *device)
{
    struct py_stream *s = stream_alloc(state, device);

    if (s) s->lane = &((struct py_device *)device)->lane;
    return (PyObject *)s;
}

PyObject *py_stream_over(struct py_state *state, PyObject *device, struct bp_stream *handle)
{
    struct py_stream *s = stream_alloc(state, device);

    if (!s) return NULL;
    s->foreign = true;
    if (!py_lane_init(&s->own, handle)) s->lane = &s->own;
    else Py_CLEAR(s);
    return (PyObject *)s;
}

static PyObject *stream_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"device", "kind", NULL};
    struct py_state *state = PyType_GetModuleState(type);
    PyObject *device = NULL;
    const char *kind = "";
    struct bp_stream *handle = NULL;
    struct py_stream *s;
    enum bp_status status;
    uint32_t flags = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|Os:Stream", words, &device, &kind)) return NULL;
    if (!strcmp(kind, "inline")) flags = BP_STREAM_INLINE;
    else if (!strcmp(kind, "async")) flags = BP_STREAM_ASYNC;
    else if (*kind) {
        PyErr_SetString(PyExc_ValueError, "kind: expected \"inline\" or \"async\"");
        return NULL;
    }
    device = py_device_of(state, device);
    s = device ? stream_alloc(state, device) : NULL;
    Py_XDECREF(device);
    if (!s) return NULL;
    status = bp_stream_create_with(((struct py_device *)device)->handle, flags, &handle);
    if (status || py_lane_init(&s->own, handle)) {
        if (status) py_fail(state, status);
        else bp_stream_destroy(handle);
        Py_DECREF((PyObject *)s);
        return NULL;
    }
    s->lane = &s->own;
    /* Work of another stream may now be what a call on the default stream waits for. */
    ((struct py_device *)device)->lane.may_wait |= s->own.may_wait;
    return (PyObject *)s;
}

static void stream_dealloc(PyObject *self)
{
    struct py_stream *s = (struct py_stream *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (s->foreign) s->own.stream = NULL;
    if (s->lane == &s->own) py_lane_finish(&s->own);
    Py_XDECREF(s->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *stream_repr(PyObject *self)
{
    struct py_stream *s = (struct py_stream *)self;

    return PyUnicode_FromFormat("<backplane.Stream %s of %s>",
                                bp_stream_get_flags(s->lane->stream) == BP_STREAM_INLINE ? "inline"
                                                                                         : "async",
                                bp_device_name(bp_stream_device(s->lane->stream)));
}

static PyObject *stream_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_scope_enter(((struct py_stream *)self)->state, self);
}

static PyObject *stream_exit(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_scope_leave(((struct py_stream *)self)->state, self);
}

static enum bp_status stream_wait_for(void *stream, uint64_t timeout_ns)
{
    return timeout_ns == UINT64_MAX ? bp_stream_synchronize(stream)
                                    : bp_stream_synchronize_for(stream, timeout_ns);
}

static PyObject *stream_synchronize(PyObject *self, PyObject *args)
{
    struct py_stream *s = (struct py_stream *)self;
    double seconds = -1;

    if (!PyArg_ParseTuple(args, "|d:synchronize", &seconds)) return NULL;
    /* Without the lane: another thread may cancel the stream. */
    if (py_wait(s->state, stream_wait_for, s->lane->stream, seconds)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *stream_result(struct py_stream *s, enum bp_status status)
{
    if (status) return py_fail(s->state, status);
    Py_RETURN_NONE;
}

static PyObject *stream_cancel(PyObject *self, PyObject *unused)
{
    struct py_stream *s = (struct py_stream *)self;

    (void)unused;
    return stream_result(s, bp_stream_cancel(s->lane->stream));
}

static PyObject *stream_resume(PyObject *self, PyObject *unused)
{
    struct py_stream *s = (struct py_stream *)self;
    PyThreadState *thread = PyEval_SaveThread();
    enum bp_status status = bp_stream_resume(s->lane->stream);

    (void)unused;
    PyEval_RestoreThread(thread);
    return stream_result(s, status);
}

static PyObject *stream_get_device(PyObject *self, void *unused)
{
    (void)unused;
    Py_INCREF(((struct py_stream *)self)->device);
    return ((struct py_stream *)self)->device;
}

/* ---- events ---- */

struct py_event {
    PyObject_HEAD struct py_state *state;
    struct bp_event *handle;
};

static PyObject *event_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"device", NULL};
    struct py_state *state = PyType_GetModuleState(type);
    PyObject *device = NULL;
    struct py_event *e;
    enum bp_status status;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:Event", words, &device)) return NULL;
    device = py_device_of(state, device);
    if (!device) return NULL;
    e = (struct py_event *)PyType_GenericAlloc(type, 0);
    if (e) {
        e->state = state;
        status = bp_event_create(((struct py_device *)device)->handle, &e->handle);
        if (status) {
            py_fail(state, status);
            Py_CLEAR(e);
        }
    }
    Py_DECREF(device);
    return (PyObject *)e;
}

static void event_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    bp_event_destroy(((struct py_event *)self)->handle);
    PyObject_Free(self);
    Py_DECREF(type);
}

static struct py_stream *stream_check(struct py_state *state, PyObject *what)
{
    if (Py_TYPE(what) == state->type.stream) return (struct py_stream *)what;
    PyErr_Format(PyExc_TypeError, "expected a Stream, got %R", what);
    return NULL;
}

static PyObject *pyevent_record(PyObject *self, PyObject *what)
{
    struct py_event *e = (struct py_event *)self;
    struct py_stream *s = stream_check(e->state, what);
    struct py_hold hold;
    enum bp_status status;

    if (!s) return NULL;
    hold = py_lane_take(s->lane, true);
    status = bp_event_record(e->handle, s->lane->stream);
    py_lane_leave(&hold);
    return stream_result(s, status);
}

static PyObject *pyevent_query(PyObject *self, PyObject *unused)
{
    struct py_event *e = (struct py_event *)self;
    PyThreadState *thread = PyEval_SaveThread();
    enum bp_status status = bp_event_query(e->handle);

    (void)unused;
    PyEval_RestoreThread(thread);
    if (status && status != BP_ERR_NOT_READY) return py_fail(e->state, status);
    return PyBool_FromLong(!status);
}

static enum bp_status event_wait_for(void *event, uint64_t timeout_ns)
{
    return bp_event_wait(event, timeout_ns);
}

static PyObject *pyevent_wait(PyObject *self, PyObject *args)
{
    struct py_event *e = (struct py_event *)self;
    double seconds = -1;

    if (!PyArg_ParseTuple(args, "|d:wait", &seconds)) return NULL;
    if (py_wait(e->state, event_wait_for, e->handle, seconds)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *stream_wait(PyObject *self, PyObject *what)
{
    struct py_stream *s = (struct py_stream *)self;
    struct py_hold hold;
    enum bp_status status;

    if (Py_TYPE(what) != s->state->type.event) {
        PyErr_Format(PyExc_TypeError, "expected an Event, got %R", what);
        return NULL;
    }
    hold = py_lane_take(s->lane, true);
    status = bp_stream_wait(s->lane->stream, ((struct py_event *)what)->handle);
    py_lane_leave(&hold);
    return stream_result(s, status);
}

static PyMethodDef event_methods[] = {
    {"record", pyevent_record, METH_O,
     "record($self, stream, /)\n--\n\nMoves the event to the end of the work that the stream has "
     "now."},
    {"query", pyevent_query, METH_NOARGS,
     "query($self)\n--\n\nWhether the work before the event is done."},
    {"wait", pyevent_wait, METH_VARARGS,
     "wait($self, seconds=-1, /)\n--\n\nWaits on the host. TimeoutError: the work is not done "
     "after that time."},
    {0},
};
static PyType_Slot event_slots[] = {
    {Py_tp_new, event_new},
    {Py_tp_dealloc, event_dealloc},
    {Py_tp_methods, event_methods},
    {Py_tp_doc, "Event(device=None)\n--\n\nA point in a stream's work, for which the host or "
                "another stream can wait."},
    {0},
};
PyType_Spec py_event_spec = {"backplane.Event", sizeof(struct py_event), 0, Py_TPFLAGS_DEFAULT,
                             event_slots};

static PyMethodDef stream_methods[] = {
    {"__enter__", stream_enter, METH_NOARGS, NULL},
    {"__exit__", stream_exit, METH_VARARGS, NULL},
    {"synchronize", stream_synchronize, METH_VARARGS,
     "synchronize($self, seconds=-1, /)\n--\n\nWaits for the stream's work. TimeoutError: the work "
     "is not done after that time."},
    {"wait", stream_wait, METH_O,
     "wait($self, event, /)\n--\n\nLater work of the stream waits for the event."},
    {"set_generator", py_stream_use_generator, METH_O,
     "set_generator($self, generator, /)\n--\n\nLater random operators on the stream draw from the "
     "generator; None: from the one that all streams share."},
    {"cancel", stream_cancel, METH_NOARGS,
     "cancel($self)\n--\n\nCancels the stream's work, from any thread; calls raise CancelledError "
     "until resume()."},
    {"resume", stream_resume, METH_NOARGS,
     "resume($self)\n--\n\nMakes a cancelled stream usable again."},
    {0},
};
static PyGetSetDef stream_getset[] = {
    {"device", stream_get_device, NULL, "The device.", NULL},
    {0},
};
static PyType_Slot stream_slots[] = {
    {Py_tp_new, stream_new},
    {Py_tp_dealloc, stream_dealloc},
    {Py_tp_repr, stream_repr},
    {Py_tp_methods, stream_methods},
    {Py_tp_getset, stream_getset},
    {Py_tp_doc, "Stream(device=None, kind=\"\")\n--\n\nA queue of work of a device; kind "
                "\"inline\" or \"async\", \"\": the device's usual kind. `with stream:` selects it "
                "for the calls of this thread."},
    {0},
};
PyType_Spec py_stream_spec = {"backplane.Stream", sizeof(struct py_stream), 0, Py_TPFLAGS_DEFAULT,
                              stream_slots};
