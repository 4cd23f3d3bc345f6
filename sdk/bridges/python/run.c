/* SPDX-License-Identifier: Apache-2.0 */
/* run.c: runs a graph, a program or a model with Python's tensors, without the GIL. */
#include "run.h"
#include <stdlib.h>

PyObject *py_run_device(struct py_state *state, PyObject *device)
{
    PyObject *current = py_scope_current(state);

    if (current && Py_TYPE(current) == state->type.stream)
        return ((struct py_stream *)current)->device;
    return device;
}

int py_tensors_of(struct py_state *state, PyObject *sequence, PyObject *device,
                  struct bp_tensor **out, Py_ssize_t room, PyObject **out_kept)
{
    Py_ssize_t n = PySequence_Size(sequence);
    PyObject *kept;

    if (n < 0) return -1;
    if (n != room) {
        const char *why = "; one argument that is a list or a tuple is the list of all inputs";

        PyErr_Format(PyExc_TypeError, "expected %zd inputs, got %zd%s", room, n,
                     PyList_Check(sequence) ? why : "");
        return -1;
    }
    kept = PyList_New(0);
    for (Py_ssize_t i = 0; kept && i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i), *tensor = NULL;

        if (item == Py_None) out[i] = NULL;
        else {
            if (item) tensor = py_tensor_input(state, item, PY_DTYPE_NONE, device);
            if (!tensor || PyList_Append(kept, tensor)) Py_CLEAR(kept);
            if (kept) out[i] = ((struct py_tensor *)tensor)->handle;
        }
        Py_XDECREF(tensor);
        Py_XDECREF(item);
    }
    *out_kept = kept;
    return kept ? 0 : -1;
}

/* The handles of tensors to write. */
static int run_given(const struct py_run *run, PyObject *out, struct bp_tensor **at)
{
    if (!PyList_Check(out) || PyList_Size(out) != (Py_ssize_t)run->n_out) {
        PyErr_Format(PyExc_TypeError, "out: expected a list of %u tensors or None, got %R",
                     (unsigned)run->n_out, out);
        return -1;
    }
    for (uint32_t i = 0; i < run->n_out; i++) {
        PyObject *item = PyList_GetItem(out, (Py_ssize_t)i);
        if (item == Py_None) continue;
        if (!py_tensor_is(run->state, item)) {
            PyErr_Format(PyExc_TypeError, "out: %R is no Tensor", item);
            return -1;
        }
        at[i] = ((struct py_tensor *)item)->handle;
    }
    return 0;
}

/* The results as a list. */
static PyObject *run_results(const struct py_run *run, struct bp_tensor **at, PyObject *out)
{
    PyObject *list = PyList_New((Py_ssize_t)run->n_out);

    for (uint32_t i = 0; i < run->n_out; i++) {
        PyObject *given = out ? PyList_GetItem(out, (Py_ssize_t)i) : Py_None;
        PyObject *item = given;

        if (given != Py_None || !at[i]) Py_INCREF(item);
        else item = py_tensor_wrap(run->state, at[i], run->device);
        if (!item) Py_CLEAR(list);
        if (!list) Py_XDECREF(item);
        else PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    return list;
}

PyObject *py_run_list(const struct py_run *run, PyObject *inputs, PyObject *out)
{
    size_t n = (size_t)run->n_in + run->n_out + 1;
    struct bp_tensor **at = calloc(n, sizeof *at), **results = at + run->n_in;
    struct py_lane *lane = py_lane_of(run->state, run->device);
    PyObject *kept = NULL, *list = NULL;
    struct py_hold hold;
    enum bp_status status;

    if (!at) return PyErr_NoMemory();
    /* A list of our own: other threads may change the caller's while the GIL is released. */
    if (out && PyList_Check(out)) out = PyList_GetSlice(out, 0, PY_SSIZE_T_MAX);
    else Py_XINCREF(out);
    if (!py_tensors_of(run->state, inputs, run->device, at, (Py_ssize_t)run->n_in, &kept) &&
        !(out && run_given(run, out, results))) {
        hold = py_lane_take(lane, true);
        status = run->run(run->what, lane->stream, at, run->n_in, results, run->n_out);
        py_lane_leave(&hold);
        list = status ? py_fail(run->state, status) : run_results(run, results, out);
    }
    Py_XDECREF(kept);
    Py_XDECREF(out);
    free(at);
    return list;
}

PyObject *py_run_with(const struct py_run *run, PyObject *args, PyObject *kw)
{
    PyObject *only = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : NULL, *out = NULL;

    if (kw && PyDict_Size(kw)) {
        out = PyDict_GetItemString(kw, "out");
        if (!out || PyDict_Size(kw) > 1) {
            PyErr_SetString(PyExc_TypeError, "run() takes inputs and the keyword out");
            return NULL;
        }
        if (out == Py_None) out = NULL;
    }
    if (only && (PyList_Check(only) || PyTuple_Check(only))) args = only;
    return py_run_list(run, args, out);
}
