/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.c: Python objects over handles of C code in the same process, for an app that embeds
 * Python: backplane._foreign_tensor, _foreign_stream and _foreign_handle. Handles are capsules with
 * the names of their types, so that Python code cannot pass another address. */
#include "module.h"
#include <stdio.h>

/* The Device object of a handle of another core than the module's. */
static PyObject *foreign_device(struct py_state *state, struct bp_device *device)
{
    struct bp_device *again = NULL;
    PyObject *key, *found;
    enum bp_status status;

    key = PyUnicode_FromFormat("%s of %p", bp_device_name(device), (void *)device);
    found = key ? PyDict_GetItemWithError(state->devices, key) : NULL;
    if (found || !key || PyErr_Occurred()) {
        Py_XINCREF(found);
        Py_XDECREF(key);
        return found;
    }
    /* The same name in the same core is the same device: one more reference. */
    status = bp_device_create(bp_device_core(device), bp_device_name(device), &again);
    found = status ? py_fail(state, status) : py_device_wrap(state, again);
    if (found && PyDict_SetItem(state->devices, key, found)) Py_CLEAR(found);
    Py_DECREF(key);
    return found;
}

/* Makes a Tensor that shares the memory of a C tensor, which stays the caller's. */
PyObject *py_foreign_tensor(PyObject *module, PyObject *capsule)
{
    struct py_state *state = PyModule_GetState(module);
    struct bp_tensor *theirs = PyCapsule_GetPointer(capsule, "bp_tensor"), *view = NULL;
    struct bp_tensor_info info = {.size = sizeof info};
    PyObject *device, *tensor;
    enum bp_status status;

    if (!theirs) return NULL;
    status = bp_tensor_get_info(theirs, &info);
    if (!status && !info.device) {
        PyErr_SetString(PyExc_TypeError, "a symbolic tensor belongs to its graph");
        return NULL;
    }
    if (!status) status = bp_tensor_view(theirs, 0, info.rank, info.shape, info.stride, &view);
    if (status) return py_fail(state, status);
    device = foreign_device(state, info.device);
    if (!device) {
        bp_tensor_destroy(view);
        return NULL;
    }
    tensor = py_tensor_wrap(state, view, device);
    Py_DECREF(device);
    return tensor;
}

/* Makes a Stream of a C stream, which stays the caller's and outlives the object. */
PyObject *py_foreign_stream(PyObject *module, PyObject *capsule)
{
    struct py_state *state = PyModule_GetState(module);
    struct bp_stream *theirs = PyCapsule_GetPointer(capsule, "bp_stream");
    struct bp_device *handle = theirs ? bp_stream_device(theirs) : NULL;
    PyObject *device, *stream;

    if (!handle) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "this is the handle of no stream");
        return NULL;
    }
    device = foreign_device(state, handle);
    stream = device ? py_stream_over(state, device, theirs) : NULL;
    Py_XDECREF(device);
    return stream;
}

/* The handle of a Tensor as a capsule, to be used as long as the Tensor lives. */
PyObject *py_foreign_handle(PyObject *module, PyObject *tensor)
{
    struct py_state *state = PyModule_GetState(module);

    if (py_tensor_is(state, tensor))
        return PyCapsule_New(((struct py_tensor *)tensor)->handle, "bp_tensor", NULL);
    PyErr_Format(PyExc_TypeError, "expected a Tensor, got %R", tensor);
    return NULL;
}
