/* SPDX-License-Identifier: Apache-2.0 */
/* generator.c: generators of random numbers, for streams whose random operators draw from them. */
#include "module.h"

struct py_generator {
    PyObject_HEAD struct py_state *state;
    struct bp_generator *handle;
};

/* Reads an integer from 0 to 2^64 - 1. */
static int generator_number(PyObject *what, uint64_t *out)
{
    *out = PyLong_Check(what) ? PyLong_AsUnsignedLongLong(what) : 0;
    if (!PyLong_Check(what)) PyErr_Format(PyExc_TypeError, "expected an integer, got %R", what);
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *generator_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"seed", NULL};
    struct py_state *state = PyType_GetModuleState(type);
    PyObject *number = NULL;
    struct py_generator *g;
    enum bp_status status;
    uint64_t seed = 0;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:Generator", words, &number) ||
        (number && generator_number(number, &seed)))
        return NULL;
    g = (struct py_generator *)PyType_GenericAlloc(type, 0);
    if (!g) return NULL;
    g->state = state;
    status = bp_generator_create(seed, &g->handle);
    if (!status) return (PyObject *)g;
    Py_DECREF((PyObject *)g);
    return py_fail(state, status);
}

static void generator_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    bp_generator_destroy(((struct py_generator *)self)->handle);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *generator_get(PyObject *self, PyObject *unused)
{
    struct py_generator *g = (struct py_generator *)self;
    uint64_t seed, offset;
    enum bp_status status = bp_generator_get(g->handle, &seed, &offset);

    (void)unused;
    if (status) return py_fail(g->state, status);
    return Py_BuildValue("(KK)", (unsigned long long)seed, (unsigned long long)offset);
}

static PyObject *generator_set(PyObject *self, PyObject *args)
{
    struct py_generator *g = (struct py_generator *)self;
    PyObject *number[2] = {0};
    uint64_t value[2] = {0};
    enum bp_status status;

    if (!PyArg_ParseTuple(args, "O|O:set_state", &number[0], &number[1])) return NULL;
    for (int i = 0; i < 2; i++)
        if (number[i] && generator_number(number[i], &value[i])) return NULL;
    status = bp_generator_set(g->handle, value[0], value[1]);
    if (status) return py_fail(g->state, status);
    Py_RETURN_NONE;
}

PyObject *py_stream_use_generator(PyObject *self, PyObject *what)
{
    struct py_stream *s = (struct py_stream *)self;
    struct bp_generator *handle = NULL;
    struct py_hold hold;
    enum bp_status status;

    if (Py_TYPE(what) == s->state->type.generator) handle = ((struct py_generator *)what)->handle;
    else if (what != Py_None) {
        PyErr_Format(PyExc_TypeError, "expected a Generator or None, got %R", what);
        return NULL;
    }
    hold = py_lane_take(s->lane, true);
    status = bp_stream_set_generator(s->lane->stream, handle); /* takes a reference */
    py_lane_leave(&hold);
    if (status) return py_fail(s->state, status);
    Py_RETURN_NONE;
}

static PyMethodDef generator_methods[] = {
    {"get_state", generator_get, METH_NOARGS,
     "get_state($self)\n--\n\nThe seed and the offset, which counts the numbers that were drawn."},
    {"set_state", generator_set, METH_VARARGS,
     "set_state($self, seed, offset=0, /)\n--\n\nSets the seed and the offset."},
    {0},
};
static PyType_Slot generator_slots[] = {
    {Py_tp_new, generator_new},
    {Py_tp_dealloc, generator_dealloc},
    {Py_tp_methods, generator_methods},
    {Py_tp_doc, "Generator(seed=0)\n--\n\nA generator of random numbers, the same on every device. "
                "Stream.set_generator() selects it for a stream."},
    {0},
};
PyType_Spec py_generator_spec = {"backplane.Generator", sizeof(struct py_generator), 0,
                                 Py_TPFLAGS_DEFAULT, generator_slots};
