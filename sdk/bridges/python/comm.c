/* SPDX-License-Identifier: Apache-2.0 */
/* comm.c: collectives: communicators of several ranks, and their calls on tensors. */
#include "module.h"
#include <stdio.h>
#include <string.h>

struct py_comm {
    PyObject_HEAD struct py_state *state;
    struct bp_comm *handle;
    PyObject *device;
    struct py_lane lane; /* the library wants the calls on a communicator one after another */
};

PyObject *py_comm_id(PyObject *module, PyObject *unused)
{
    struct bp_comm_id id;
    PyThreadState *thread = PyEval_SaveThread();
    enum bp_status status = bp_comm_id_create(&id);

    (void)unused;
    PyEval_RestoreThread(thread);
    return status ? py_fail(PyModule_GetState(module), status) : PyUnicode_FromString(id.text);
}

/* Takes handle over. */
static PyObject *comm_wrap(struct py_state *state, struct bp_comm *handle, PyObject *device)
{
    struct py_comm *c = (struct py_comm *)PyType_GenericAlloc(state->type.comm, 0);

    if (!c || py_lane_init(&c->lane, NULL)) {
        bp_comm_destroy(handle);
        Py_XDECREF((PyObject *)c);
        return NULL;
    }
    c->state = state;
    c->handle = handle;
    c->device = device;
    Py_INCREF(device);
    return (PyObject *)c;
}

static PyObject *comm_join(struct py_state *state, PyObject *device, const struct bp_comm_id *id,
                           uint32_t rank, uint32_t size)
{
    struct bp_comm *handle = NULL;
    PyThreadState *thread = PyEval_SaveThread();
    enum bp_status status = bp_comm_create(((struct py_device *)device)->handle, id, rank, size,
                                           &handle);

    PyEval_RestoreThread(thread);
    return status ? py_fail(state, status) : comm_wrap(state, handle, device);
}

static int comm_number(PyObject *value, const char *what, unsigned *out)
{
    long number = PyLong_AsLong(value);

    if (number == -1 && PyErr_Occurred()) return -1;
    if (number < 0 || number >= (long)INT32_MAX) {
        PyErr_Format(PyExc_ValueError, "%s: %R is no number of ranks", what, value);
        return -1;
    }
    *out = (unsigned)number;
    return 0;
}

static PyObject *comm_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"id", "rank", "size", "device", NULL};
    struct py_state *state = PyType_GetModuleState(type);
    PyObject *device = NULL, *number[2] = {0}, *result;
    struct bp_comm_id id = {{0}};
    unsigned rank = 0, size = 0;
    const char *text = NULL;
    enum bp_status status = BP_OK;
    uint32_t job_rank, job_size;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|zOOO:Comm", words, &text, &number[0],
                                     &number[1], &device) ||
        (number[0] && comm_number(number[0], "rank", &rank)) ||
        (number[1] && comm_number(number[1], "size", &size)))
        return NULL;
    if (text && strlen(text) >= sizeof id.text) {
        PyErr_SetString(PyExc_ValueError, "this is no id of a communicator: it is too long");
        return NULL;
    }
    if (text) snprintf(id.text, sizeof id.text, "%s", text);
    else {
        status = bp_comm_id_of_job(&id, &job_rank, &job_size);
        rank = job_rank;
        size = job_size;
    }
    if (status) return py_fail(state, status);
    device = py_device_of(state, device);
    if (!device) return NULL;
    result = comm_join(state, device, &id, rank, size);
    Py_DECREF(device);
    return result;
}

static void comm_dealloc(PyObject *self)
{
    struct py_comm *c = (struct py_comm *)self;
    PyTypeObject *type = Py_TYPE(self);

    bp_comm_destroy(c->handle);
    if (c->state) py_lane_finish(&c->lane);
    Py_XDECREF(c->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int comm_reduction(PyObject *word, enum bp_reduction *out)
{
    static const char *const name[] = {
#define X(NAME, name, number) [number] = #name,
        BP_REDUCTIONS(X)
#undef X
    };
    const char *text = PyUnicode_Check(word) ? PyUnicode_AsUTF8AndSize(word, NULL) : NULL;

    for (int i = 0; text && i < BP_REDUCTION_COUNT; i++)
        if (!strcmp(text, name[i])) {
            *out = (enum bp_reduction)i;
            return 0;
        }
    PyErr_Format(PyExc_ValueError, "%R is no reduction; there are sum, product, min, max, average",
                 word);
    return -1;
}

/* The arguments of the calls: tensors, a reduction, the number of a rank. */
struct comm_call {
    struct py_comm *c;
    struct bp_tensor *src, *dst;
    enum bp_reduction reduction;
    unsigned rank;
};

/* The name of an argument, by its letter: s source, d destination, r reduction, n rank of the root,
 * t and f rank to send to and to receive from. */
static const char *comm_name(char letter)
{
    switch (letter) {
    case 's': return "src";
    case 'd': return "dst";
    case 'r': return "reduction";
    case 'n': return "root";
    case 't': return "to";
    default: return "source";
    }
}

/* An argument by its place or its name; None where one that has a default is left out. */
static PyObject *comm_argument(PyObject *args, PyObject *kw, Py_ssize_t at, char letter)
{
    const char *name = comm_name(letter);
    PyObject *named = kw ? PyDict_GetItemString(kw, name) : NULL;

    if (named && at < PyTuple_Size(args)) {
        PyErr_Format(PyExc_TypeError, "the argument %s is given twice", name);
        return NULL;
    }
    if (at < PyTuple_Size(args)) return PyTuple_GetItem(args, at);
    if (named) return named;
    if (letter == 'r' || letter == 'n') return Py_None;
    PyErr_Format(PyExc_TypeError, "the argument %s is missing", name);
    return NULL;
}

static int comm_set(struct comm_call *call, char letter, PyObject *value)
{
    if (value == Py_None && !strchr("tf", letter)) return 0;
    if (letter == 'r') return comm_reduction(value, &call->reduction);
    if (strchr("ntf", letter)) return comm_number(value, comm_name(letter), &call->rank);
    if (!py_tensor_is(call->c->state, value)) {
        PyErr_Format(PyExc_TypeError, "%s: expected a Tensor, got %R", comm_name(letter), value);
        return -1;
    }
    *(letter == 's' ? &call->src : &call->dst) = ((struct py_tensor *)value)->handle;
    return 0;
}

/* Reads the arguments that letters stand for, in their order. */
static int comm_read(struct comm_call *call, PyObject *args, PyObject *kw, const char *letters)
{
    Py_ssize_t given = PyTuple_Size(args), at = 0, named = kw ? PyDict_Size(kw) : 0;

    call->reduction = BP_REDUCE_SUM;
    for (const char *letter = letters; *letter; letter++, at++) {
        PyObject *value = comm_argument(args, kw, at, *letter);

        if (!value || comm_set(call, *letter, value)) return -1;
        if (kw && PyDict_GetItemString(kw, comm_name(*letter))) named--;
    }
    if (given > at)
        PyErr_Format(PyExc_TypeError, "expected at most %zd arguments, got %zd", at, given);
    else if (named) PyErr_Format(PyExc_TypeError, "there is no argument of a name in %R", kw);
    return given > at || named ? -1 : 0;
}

static PyObject *comm_run(PyObject *self, PyObject *args, PyObject *kw, const char *letters,
                          enum bp_status (*run)(const struct comm_call *, struct bp_stream *))
{
    struct comm_call call = {.c = (struct py_comm *)self};
    struct py_lane *lane;
    struct py_hold hold;
    enum bp_status status;

    if (comm_read(&call, args, kw, letters)) return NULL;
    lane = py_lane_of(call.c->state, call.c->device);
    hold = py_lane_take(lane, true);
    if (hold.lane) pthread_mutex_lock(&call.c->lane.lock); /* two threads may have two streams */
    status = run(&call, lane->stream);
    if (hold.lane) pthread_mutex_unlock(&call.c->lane.lock);
    py_lane_leave(&hold);
    if (status) return py_fail(call.c->state, status);
    Py_RETURN_NONE;
}

static enum bp_status run_all_reduce(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_all_reduce(c->c->handle, s, c->src, c->dst, c->reduction);
}

static PyObject *comm_all_reduce(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "sdr", run_all_reduce);
}

static enum bp_status run_reduce(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_reduce(c->c->handle, s, c->src, c->dst, c->reduction, c->rank);
}

static PyObject *comm_reduce(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "sdrn", run_reduce);
}

static enum bp_status run_broadcast(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_broadcast(c->c->handle, s, c->src, c->dst, c->rank);
}

static PyObject *comm_broadcast(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "sdn", run_broadcast);
}

static enum bp_status run_all_gather(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_all_gather(c->c->handle, s, c->src, c->dst);
}

static PyObject *comm_all_gather(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "sd", run_all_gather);
}

static enum bp_status run_reduce_scatter(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_reduce_scatter(c->c->handle, s, c->src, c->dst, c->reduction);
}

static PyObject *comm_reduce_scatter(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "sdr", run_reduce_scatter);
}

static enum bp_status run_all_to_all(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_all_to_all(c->c->handle, s, c->src, c->dst);
}

static PyObject *comm_all_to_all(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "sd", run_all_to_all);
}

static enum bp_status run_gather(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_gather(c->c->handle, s, c->src, c->dst, c->rank);
}

static PyObject *comm_gather(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "sdn", run_gather);
}

static enum bp_status run_scatter(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_scatter(c->c->handle, s, c->src, c->dst, c->rank);
}

static PyObject *comm_scatter(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "sdn", run_scatter);
}

static enum bp_status run_send(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_send(c->c->handle, s, c->src, c->rank);
}

static PyObject *comm_send(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "st", run_send);
}

static enum bp_status run_recv(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_recv(c->c->handle, s, c->dst, c->rank);
}

static PyObject *comm_recv(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "df", run_recv);
}

static enum bp_status run_barrier(const struct comm_call *c, struct bp_stream *s)
{
    return bp_comm_barrier(c->c->handle, s);
}

static PyObject *comm_barrier(PyObject *self, PyObject *args, PyObject *kw)
{
    return comm_run(self, args, kw, "", run_barrier);
}

static PyObject *comm_split(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *words[] = {"color", "key", NULL};
    struct py_comm *c = (struct py_comm *)self;
    struct bp_comm *part = NULL;
    long long color, key = 0;
    struct py_hold hold;
    enum bp_status status;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "L|L:split", words, &color, &key)) return NULL;
    hold = py_lane_take(&c->lane, true);
    status = bp_comm_split(c->handle, color, key, &part);
    py_lane_leave(&hold);
    if (status) return py_fail(c->state, status);
    if (part) return comm_wrap(c->state, part, c->device);
    Py_RETURN_NONE;
}

static PyObject *comm_abort(PyObject *self, PyObject *unused)
{
    struct py_comm *c = (struct py_comm *)self;
    enum bp_status status = bp_comm_abort(c->handle); /* no lock: for a call in progress */

    (void)unused;
    if (status) return py_fail(c->state, status);
    Py_RETURN_NONE;
}

static PyObject *comm_set_timeout(PyObject *self, PyObject *seconds)
{
    struct py_comm *c = (struct py_comm *)self;
    double value = PyFloat_AsDouble(seconds);
    struct py_hold hold;
    enum bp_status status;

    if (PyErr_Occurred()) return NULL;
    hold = py_lane_take(&c->lane, true);
    status = bp_comm_set_timeout(c->handle,
                                 value < 0 || value > 1e9 ? UINT64_MAX : (uint64_t)(value * 1e9));
    py_lane_leave(&hold);
    if (status) return py_fail(c->state, status);
    Py_RETURN_NONE;
}

static PyObject *comm_get_number(PyObject *self, void *size)
{
    struct py_comm *c = (struct py_comm *)self;

    return PyLong_FromUnsignedLong(size ? bp_comm_size(c->handle) : bp_comm_rank(c->handle));
}

#define CALL(function) (PyCFunction)(void (*)(void))(function), METH_VARARGS | METH_KEYWORDS

static PyMethodDef comm_methods[] = {
    {"all_reduce", CALL(comm_all_reduce),
     "all_reduce($self, src, dst, reduction='sum')\n--\n\ndst = the reduction of the src of all "
     "ranks."},
    {"reduce", CALL(comm_reduce),
     "reduce($self, src, dst, reduction='sum', root=0)\n--\n\nLike all_reduce; only root gets "
     "the result."},
    {"broadcast", CALL(comm_broadcast),
     "broadcast($self, src, dst, root=0)\n--\n\ndst of every rank = src of root."},
    {"all_gather", CALL(comm_all_gather),
     "all_gather($self, src, dst)\n--\n\ndst = the src of all ranks, in rank order."},
    {"reduce_scatter", CALL(comm_reduce_scatter),
     "reduce_scatter($self, src, dst, reduction='sum')\n--\n\ndst = the part of this rank of "
     "the reduction of all src."},
    {"all_to_all", CALL(comm_all_to_all),
     "all_to_all($self, src, dst)\n--\n\nPart j of dst = the part for this rank of the src of "
     "rank j."},
    {"gather", CALL(comm_gather),
     "gather($self, src, dst, root=0)\n--\n\ndst of root = the src of all ranks."},
    {"scatter", CALL(comm_scatter),
     "scatter($self, src, dst, root=0)\n--\n\ndst = the part of this rank of the src of root."},
    {"send", CALL(comm_send),
     "send($self, src, to)\n--\n\nSends src to a rank."},
    {"recv", CALL(comm_recv),
     "recv($self, dst, source)\n--\n\nReceives dst from a rank."},
    {"barrier", CALL(comm_barrier),
     "barrier($self)\n--\n\nNo rank finishes it before every rank has called it."},
    {"split", CALL(comm_split),
     "split($self, color, key=0)\n--\n\nA new communicator of the ranks with the same color; "
     "None for color -1."},
    {"abort", comm_abort, METH_NOARGS,
     "abort($self)\n--\n\nAborts the communicator for all ranks."},
    {"set_timeout", comm_set_timeout, METH_O,
     "set_timeout($self, seconds, /)\n--\n\nSets the timeout of later calls; -1: none."},
    {0},
};
static PyGetSetDef comm_getset[] = {
    {"rank", comm_get_number, NULL, "The number of this rank.", NULL},
    {"size", comm_get_number, NULL, "The number of ranks.", "size"},
    {0},
};
static PyType_Slot comm_slots[] = {
    {Py_tp_new, comm_new},
    {Py_tp_dealloc, comm_dealloc},
    {Py_tp_methods, comm_methods},
    {Py_tp_getset, comm_getset},
    {Py_tp_doc, "Comm(id=None, rank=0, size=0, device=None)\n--\n\nJoins the communicator of an id "
                "(comm_id()); None: the id, rank and size of the launcher."},
    {0},
};
PyType_Spec py_comm_spec = {"backplane.Comm", sizeof(struct py_comm), 0, Py_TPFLAGS_DEFAULT,
                            comm_slots};
