/* SPDX-License-Identifier: Apache-2.0 */
/* profiler.c: profiles of a block of code, and the app's own ranges and marks in them. */
#include "module.h"

struct py_profile {
    PyObject_HEAD struct py_state *state;
    struct bp_profiler_options options; /* without path */
    PyObject *path;                     /* bytes */
    struct bp_profiler *handle;         /* NULL outside of the block */
};

static PyObject *profile_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"path",    "shapes", "memory", "skip",
                            "warm_up", "record", "repeat", NULL};
    unsigned int skip = 0, warm_up = 0, record = 0, repeat = 0;
    int shapes = 0, memory = 0;
    PyObject *path = NULL;
    struct py_profile *p;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "O&|$ppIIII:profile", words, PyUnicode_FSConverter,
                                     &path, &shapes, &memory, &skip, &warm_up, &record, &repeat))
        return NULL;
    p = (struct py_profile *)PyType_GenericAlloc(type, 0);
    if (!p) {
        Py_DECREF(path);
        return NULL;
    }
    p->state = PyType_GetModuleState(type);
    p->path = path;
    p->options = (struct bp_profiler_options){.size = sizeof p->options,
                                              .flags = (shapes ? BP_PROFILER_SHAPES : 0) |
                                                       (memory ? BP_PROFILER_MEMORY : 0),
                                              .skip = skip,
                                              .warm_up = warm_up,
                                              .record = record,
                                              .repeat = repeat};
    return (PyObject *)p;
}

/* Stops and frees the profiler. Plugins hand over their last records, which may take a while. */
static enum bp_status profile_stop(struct py_profile *p)
{
    struct bp_profiler *handle = p->handle;
    enum bp_status status;

    p->handle = NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = bp_profiler_stop(handle);
    bp_profiler_destroy(handle);
    Py_END_ALLOW_THREADS;
    return status;
}

static void profile_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct py_profile *p = (struct py_profile *)self;

    if (p->handle) profile_stop(p);
    Py_XDECREF(p->path);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *profile_enter(PyObject *self, PyObject *unused)
{
    struct py_profile *p = (struct py_profile *)self;
    struct bp_profiler_options options = p->options;
    struct bp_profiler *handle = NULL;
    enum bp_status status;

    (void)unused;
    if (p->handle) {
        PyErr_SetString(PyExc_RuntimeError, "the profile has begun already");
        return NULL;
    }
    options.path = PyBytes_AsString(p->path);
    Py_BEGIN_ALLOW_THREADS;
    status = bp_profiler_start(&options, &handle);
    Py_END_ALLOW_THREADS;
    if (status) return py_fail(p->state, status);
    p->handle = handle;
    return Py_NewRef(self);
}

static PyObject *profile_exit(PyObject *self, PyObject *exception)
{
    struct py_profile *p = (struct py_profile *)self;
    enum bp_status status = p->handle ? profile_stop(p) : BP_OK;

    (void)exception;
    if (status) return py_fail(p->state, status);
    Py_RETURN_NONE;
}

static PyObject *profile_step(PyObject *self, PyObject *unused)
{
    struct py_profile *p = (struct py_profile *)self;
    enum bp_status status;

    (void)unused;
    if (!p->handle) {
        PyErr_SetString(PyExc_RuntimeError, "step() belongs into the block of the profile");
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS;
    status = bp_profiler_step(p->handle);
    Py_END_ALLOW_THREADS;
    if (status) return py_fail(p->state, status);
    Py_RETURN_NONE;
}

PyObject *py_range_begin(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);

    (void)module;
    if (!text) return NULL;
    bp_range_begin(text);
    Py_RETURN_NONE;
}

PyObject *py_range_end(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    bp_range_end();
    Py_RETURN_NONE;
}

PyObject *py_mark(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);

    (void)module;
    if (!text) return NULL;
    bp_mark(text);
    Py_RETURN_NONE;
}

static PyMethodDef profile_methods[] = {
    {"__enter__", profile_enter, METH_NOARGS, NULL},
    {"__exit__", profile_exit, METH_VARARGS, NULL},
    {"step", profile_step, METH_NOARGS,
     "step($self)\n--\n\nEnds a step of the schedule, and begins the next."},
    {0},
};
static PyType_Slot profile_slots[] = {
    {Py_tp_new, profile_new},
    {Py_tp_dealloc, profile_dealloc},
    {Py_tp_methods, profile_methods},
    {Py_tp_doc,
     "profile(path, *, shapes=False, memory=False, skip=0, warm_up=0, record=0, repeat=0)\n--\n\n"
     "Records the calls and the devices' work of the block of a with statement in a file, which "
     "`bp trace` reads. record: the number of steps that are recorded, after `skip` steps and "
     "`warm_up` ones; 0 records all."},
    {0},
};
PyType_Spec py_profile_spec = {"backplane.profile", sizeof(struct py_profile), 0,
                               Py_TPFLAGS_DEFAULT, profile_slots};
