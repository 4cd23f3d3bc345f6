/* SPDX-License-Identifier: Apache-2.0 */
/* create.c: makes tensors of Python objects: by sharing their memory, where the device can use it,
 * or by a copy. */
#include "module.h"
#include <stdlib.h>

/* Writes size bytes of dense host memory to a new tensor. */
static PyObject *tensor_of_memory(struct py_state *state, PyObject *device, uint32_t dtype,
                                  uint32_t rank, const int64_t *shape, const void *data)
{
    struct bp_tensor *handle = NULL;
    struct py_lane *lane = py_lane_of(state, device);
    enum bp_status status = bp_tensor_create(((struct py_device *)device)->handle,
                                             (enum bp_dtype)dtype, rank, shape, &handle);
    struct py_hold hold;
    PyObject *result;
    struct py_tensor *t;

    if (status) return py_fail(state, status);
    result = py_tensor_wrap(state, handle, device);
    t = (struct py_tensor *)result;
    if (!t || !t->bytes) return result;
    hold = py_lane_take(lane, t->bytes >= 65536);
    status = bp_tensor_write(lane->stream, t->handle, data, t->bytes);
    py_lane_leave(&hold);
    if (!status) return result;
    Py_DECREF(result);
    return py_fail(state, status);
}

/* Copies the memory of a buffer to the device. */
static PyObject *tensor_of_view(struct py_state *state, Py_buffer *view, PyObject *device)
{
    uint32_t dtype = py_dtype_of_format(view->format, view->itemsize);
    int64_t shape[BP_RANK_MAX];
    PyObject *result = NULL;
    void *dense = NULL;

    if (dtype == PY_DTYPE_NONE || view->ndim > BP_RANK_MAX) {
        PyErr_Format(PyExc_TypeError, "a buffer of format \"%s\" with %d axes is no tensor",
                     view->format ? view->format : "B", view->ndim);
        return NULL;
    }
    for (int i = 0; i < view->ndim; i++)
        shape[i] = view->shape ? (int64_t)view->shape[i] : (int64_t)(view->len / view->itemsize);
    if (PyBuffer_IsContiguous(view, 'C')) {
        result = tensor_of_memory(state, device, dtype, (uint32_t)view->ndim, shape, view->buf);
    } else {
        dense = malloc((size_t)view->len + 1);
        if (!dense) PyErr_NoMemory();
        else if (!PyBuffer_ToContiguous(dense, view, view->len, 'C'))
            result = tensor_of_memory(state, device, dtype, (uint32_t)view->ndim, shape, dense);
        free(dense);
    }
    return result;
}

static PyObject *tensor_of_buffer(struct py_state *state, PyObject *what, PyObject *device,
                                  enum py_share share)
{
    struct py_device *d = (struct py_device *)device;
    Py_buffer view;
    PyObject *result;

    if (share != PY_MUST_COPY && d->dlpack_type == 1) {
        result = py_share_buffer(state, what, device);
        if (result || share == PY_MUST_SHARE) return result;
        PyErr_Clear();
    }
    if (PyObject_GetBuffer(what, &view, PyBUF_FULL_RO)) return NULL;
    result = tensor_of_view(state, &view, device);
    PyBuffer_Release(&view);
    return result;
}

/* A tensor on its own device, or a copy of it on another one. */
static PyObject *tensor_of_tensor(struct py_tensor *t, PyObject *device, enum py_share share)
{
    if (t->symbolic && share != PY_MUST_COPY) device = t->owner;
    if (t->owner == device && share != PY_MUST_COPY) {
        Py_INCREF((PyObject *)t);
        return (PyObject *)t;
    }
    if (share == PY_MUST_SHARE) {
        PyErr_SetString(PyExc_BufferError, "the tensor is on another device: it must be copied");
        return NULL;
    }
    return py_tensor_copied(t, device);
}

/* Tries DLPack. Returns NULL without an exception if another way may do. */
static PyObject *tensor_of_dlpack(struct py_state *state, PyObject *what, PyObject *device,
                                  enum py_share share)
{
    PyObject *result = py_dlpack_import(state, what, share == PY_MUST_SHARE ? device : NULL);
    PyObject *copy;

    if (!result) {
        bool another_way = PyErr_ExceptionMatches(PyExc_BufferError) ||
                           PyErr_ExceptionMatches(PyExc_TypeError) ||
                           PyErr_ExceptionMatches(state->error_of[BP_ERR_UNSUPPORTED]);

        if (share != PY_MUST_SHARE && another_way) PyErr_Clear();
        return NULL;
    }
    if (share == PY_MUST_SHARE ||
        (share == PY_MAY_SHARE && ((struct py_tensor *)result)->owner == device))
        return result;
    copy = py_tensor_copied((struct py_tensor *)result, device);
    Py_DECREF(result);
    return copy;
}

/* A tensor of an array in a format that neither DLPack nor the buffer protocol describes: of a copy
 * that its package makes. Returns NULL without an exception if the object is no array. */
static PyObject *tensor_of_array(struct py_state *state, PyObject *what, PyObject *device)
{
    PyObject *found = PyObject_CallMethod(state->host, "plain_array", "O", what);
    PyObject *tensor = NULL, *result = NULL, *dtype;

    if (found && found != Py_None) {
        tensor = tensor_of_buffer(state, PyTuple_GetItem(found, 0), device, PY_MUST_COPY);
        dtype = PyTuple_GetItem(found, 1);
        result = tensor && dtype != Py_None ? py_cast(state, tensor, dtype) : tensor;
        if (result == tensor) Py_XINCREF(result);
    }
    Py_XDECREF(tensor);
    Py_XDECREF(found);
    return result;
}

/* Whether a number of numpy is a date or a duration, which numpy lends as 8 bytes. */
static bool number_is_time(PyObject *what)
{
    char letter = py_kind_letter(what);

    return letter == 'M' || letter == 'm';
}

PyObject *py_tensor_from(struct py_state *state, PyObject *what, uint32_t like, PyObject *device,
                         enum py_share share)
{
    PyObject *result;
    bool dlpack, array;

    if (py_tensor_is(state, what)) return tensor_of_tensor((struct py_tensor *)what, device, share);
    if (share != PY_MUST_SHARE && (PyFloat_Check(what) || PyLong_Check(what)))
        return py_tensor_of_list(state, what, like, device);
    dlpack = PyObject_HasAttrString(what, "__dlpack__");
    array = dlpack || PyObject_HasAttrString(what, "astype");
    if (array && !dlpack && number_is_time(what)) {
        PyErr_Format(PyExc_TypeError, "no tensor has the dtype of %R: convert it with astype()",
                     what);
        return NULL;
    }
    if (PyObject_CheckBuffer(what)) {
        result = tensor_of_buffer(state, what, device, share);
        if (result || !array) return result;
        PyErr_Clear();
    }
    if (dlpack) {
        result = tensor_of_dlpack(state, what, device, share);
        if (result || PyErr_Occurred()) return result;
    }
    if (share == PY_MUST_SHARE) {
        PyErr_Format(PyExc_BufferError, "%R has no memory to share", what);
        return NULL;
    }
    if (!PyList_Check(what) && !PyTuple_Check(what)) {
        result = tensor_of_array(state, what, device);
        if (result || PyErr_Occurred()) return result;
    }
    return py_tensor_of_list(state, what, like, device);
}

PyObject *py_tensor_input(struct py_state *state, PyObject *what, uint32_t like, PyObject *device)
{
    bool copies = !py_tensor_is(state, what) && py_lane_of(state, device)->queued;

    return py_tensor_from(state, what, like, device, copies ? PY_MUST_COPY : PY_MAY_SHARE);
}

PyObject *py_cast(struct py_state *state, PyObject *tensor, PyObject *dtype)
{
    PyObject *current = py_scope_current(state), *stream = NULL, *entered = NULL, *result = NULL;
    struct py_tensor *t = (struct py_tensor *)tensor;

    if (current && Py_TYPE(current) == state->type.graph && !t->symbolic) {
        stream = py_stream_default(state, t->owner);
        entered = stream ? py_scope_enter(state, stream) : NULL;
        if (!entered) goto done;
    }
    result = PyObject_CallMethod(state->host, "cast", "OO", tensor, dtype);
done:
    if (entered) Py_XDECREF(py_scope_leave(state, stream));
    Py_XDECREF(entered);
    Py_XDECREF(stream);
    return result;
}

PyObject *py_cast_now(PyObject *module, PyObject *args)
{
    struct py_state *state = PyModule_GetState(module);
    PyObject *tensor, *dtype;

    if (!PyArg_ParseTuple(args, "O!O:_cast", state->type.tensor, &tensor, &dtype)) return NULL;
    return py_cast(state, tensor, dtype);
}

/* Converts a tensor to a dtype, unless it has the dtype; takes it over. */
static PyObject *tensor_cast(struct py_state *state, PyObject *tensor, PyObject *dtype,
                             enum py_share share)
{
    uint32_t number;
    PyObject *name, *result = NULL;

    if (!tensor || dtype == Py_None) return tensor;
    if (py_dtype_find(state, dtype, &number)) Py_CLEAR(tensor);
    if (!tensor || ((struct py_tensor *)tensor)->dtype == number) return tensor;
    name = py_dtype_name(state, number);
    if (share != PY_MUST_SHARE) result = name ? py_cast(state, tensor, name) : NULL;
    else PyErr_SetString(PyExc_BufferError, "another dtype needs a copy");
    Py_XDECREF(name);
    Py_DECREF(tensor);
    return result;
}

PyObject *py_asarray(PyObject *module, PyObject *args, PyObject *kw)
{
    static char *words[] = {"", "dtype", "device", "copy", NULL};
    struct py_state *state = PyModule_GetState(module);
    PyObject *what, *dtype = Py_None, *device = NULL, *copy = Py_None, *result;
    enum py_share share = PY_MAY_SHARE;
    uint32_t like = PY_DTYPE_NONE;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|OOO:asarray", words, &what, &dtype, &device,
                                     &copy))
        return NULL;
    if (dtype != Py_None && py_dtype_find(state, dtype, &like)) return NULL;
    if (copy != Py_None) {
        int copies = PyObject_IsTrue(copy);
        if (copies < 0) return NULL;
        share = copies ? PY_MUST_COPY : PY_MUST_SHARE;
    }
    if ((!device || device == Py_None) && py_tensor_is(state, what) &&
        !((struct py_tensor *)what)->symbolic) {
        device = ((struct py_tensor *)what)->owner;
        Py_INCREF(device);
    } else device = py_device_of(state, device);
    if (!device) return NULL;
    result = tensor_cast(state, py_tensor_from(state, what, like, device, share), dtype, share);
    Py_DECREF(device);
    return result;
}

PyObject *py_empty(PyObject *module, PyObject *args, PyObject *kw)
{
    static char *words[] = {"shape", "dtype", "device", NULL};
    struct py_state *state = PyModule_GetState(module);
    PyObject *shape, *dtype = Py_None, *device = NULL, *result = NULL;
    struct bp_tensor *handle = NULL;
    int64_t extent[BP_RANK_MAX];
    uint32_t number = BP_F32;
    enum bp_status status;
    int n;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|OO:empty", words, &shape, &dtype, &device))
        return NULL;
    n = py_integers(shape, extent, BP_RANK_MAX, "shape");
    if (n < 0 || (dtype != Py_None && py_dtype_find(state, dtype, &number))) return NULL;
    device = py_device_of(state, device);
    if (!device) return NULL;
    status = bp_tensor_create(((struct py_device *)device)->handle, (enum bp_dtype)number,
                              (uint32_t)n, extent, &handle);
    if (status) py_fail(state, status);
    else result = py_tensor_wrap(state, handle, device);
    Py_DECREF(device);
    return result;
}
