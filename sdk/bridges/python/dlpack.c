/* SPDX-License-Identifier: Apache-2.0 */
/* dlpack.c: exchanges tensors with other packages by DLPack capsules, without a copy. */
#include "module.h"
#include <stdlib.h>
#include <string.h>

static const char capsule_name[] = "dltensor", capsule_used[] = "used_dltensor";
static const char capsule_versioned[] = "dltensor_versioned";
static const char capsule_versioned_used[] = "used_dltensor_versioned";
enum {
    HOST_MEMORY = 1
}; /* DLDeviceType */

/* ---- to other packages ---- */

static void capsule_drop(PyObject *capsule)
{
    struct bp_dlpack_managed *managed;
    struct bp_dlpack_legacy *legacy;

    if (PyCapsule_IsValid(capsule, capsule_versioned)) {
        managed = PyCapsule_GetPointer(capsule, capsule_versioned);
        if (managed->deleter) managed->deleter(managed);
    } else if (PyCapsule_IsValid(capsule, capsule_name)) {
        legacy = PyCapsule_GetPointer(capsule, capsule_name);
        if (legacy->deleter) legacy->deleter(legacy);
    }
}

PyObject *py_dlpack_device(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = (struct py_tensor *)self;
    struct py_device *d = (struct py_device *)t->owner;

    (void)unused;
    if (t->symbolic || !d->dlpack_type) {
        PyErr_SetString(PyExc_BufferError, t->symbolic ? "a symbolic tensor has no memory"
                                                       : "memory of the device has no DLPack type");
        return NULL;
    }
    return Py_BuildValue("(II)", d->dlpack_type, d->dlpack_id);
}

static PyObject *export_failed(struct py_tensor *t, enum bp_status status)
{
    if (status != BP_ERR_UNSUPPORTED) return py_fail(t->state, status);
    PyErr_SetString(PyExc_BufferError, bp_error_message());
    return NULL;
}

/* Moves the offset into the address, as numpy and torch do: Paddle 3.3 ignores the offset. All
 * devices that have a DLPack type have addresses. */
static void offset_into_address(struct bp_dlpack_tensor *tensor)
{
    if (tensor->data) tensor->data = (char *)tensor->data + tensor->byte_offset;
    tensor->byte_offset = 0;
}

/* The capsule of a tensor whose work is done. */
static PyObject *capsule_of(struct py_tensor *t, bool versioned, bool copied)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_dlpack_managed *managed = NULL;
    struct bp_dlpack_legacy *legacy = NULL;
    enum bp_status status;
    PyObject *capsule;

    status = versioned ? bp_tensor_to_dlpack(t->handle, &managed)
                       : bp_tensor_to_dlpack_legacy(t->handle, &legacy);
    if (status) return export_failed(t, status);
    offset_into_address(managed ? &managed->tensor : &legacy->tensor);
    if (managed && copied) managed->flags |= BP_DLPACK_IS_COPIED;
    if (managed && !bp_tensor_get_info(t->handle, &info) && py_info_overlaps(&info))
        managed->flags |= BP_DLPACK_READ_ONLY;
    capsule = versioned ? PyCapsule_New(managed, capsule_versioned, capsule_drop)
                        : PyCapsule_New(legacy, capsule_name, capsule_drop);
    if (capsule) return capsule;
    if (managed) managed->deleter(managed);
    if (legacy) legacy->deleter(legacy);
    return NULL;
}

/* Whether max_version, (major, minor) or None, allows a capsule with a version: 1 or 0; or -1. */
static int version_allows(PyObject *max_version)
{
    PyObject *major;
    long number;

    if (max_version == Py_None) return 0;
    major = PySequence_GetItem(max_version, 0);
    number = major ? PyLong_AsLong(major) : -1;
    Py_XDECREF(major);
    return PyErr_Occurred() ? -1 : number >= 1;
}

/* The tensor that a consumer's dl_device and copy demand: t itself, or a copy. */
static PyObject *export_source(struct py_tensor *t, PyObject *dl_device, int copy)
{
    struct py_device *d = (struct py_device *)t->owner;
    PyObject *device = t->owner, *result;
    int type = (int)d->dlpack_type, id = (int)d->dlpack_id;

    if (dl_device != Py_None && !PyTuple_Check(dl_device)) {
        PyErr_Format(PyExc_TypeError, "dl_device: expected (type, number), got %R", dl_device);
        return NULL;
    }
    if (dl_device != Py_None && !PyArg_ParseTuple(dl_device, "ii;dl_device", &type, &id))
        return NULL;
    if (type == (int)d->dlpack_type && id == (int)d->dlpack_id && copy != 1) {
        Py_INCREF((PyObject *)t);
        return (PyObject *)t;
    }
    /* A copy can be made on the same device, or in host memory, which has the number 0. */
    if (copy == 0 || id != (type == (int)d->dlpack_type ? (int)d->dlpack_id : 0) ||
        (type != HOST_MEMORY && type != (int)d->dlpack_type)) {
        PyErr_SetString(PyExc_BufferError, "the tensor is on another device, or may not be copied");
        return NULL;
    }
    device = type == (int)d->dlpack_type ? device : py_device_open(t->state, "cpu");
    if (!device) return NULL;
    result = py_tensor_copied(t, device);
    if (device != t->owner) Py_DECREF(device);
    return result;
}

PyObject *py_dlpack_export(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *words[] = {"stream", "max_version", "dl_device", "copy", NULL};
    struct py_tensor *t = (struct py_tensor *)self;
    PyObject *stream = Py_None, *max_version = Py_None, *dl_device = Py_None, *copy = Py_None;
    PyObject *source, *capsule = NULL, *where;
    enum bp_status status;
    PyThreadState *thread;
    int versioned;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|$OOOO:__dlpack__", words, &stream, &max_version,
                                     &dl_device, &copy))
        return NULL;
    where = py_dlpack_device(self, NULL);
    Py_XDECREF(where);
    versioned = where ? version_allows(max_version) : -1;
    if (versioned < 0) return NULL;
    source = export_source(t, dl_device, copy == Py_None ? -1 : PyObject_IsTrue(copy));
    if (!source) return NULL;
    /* The consumer knows nothing of our streams: the work is done when it gets the memory. */
    thread = PyEval_SaveThread();
    status = bp_device_synchronize(
        ((struct py_device *)((struct py_tensor *)source)->owner)->handle);
    PyEval_RestoreThread(thread);
    if (status) py_fail(t->state, status);
    else capsule = capsule_of((struct py_tensor *)source, versioned, source != self);
    Py_DECREF(source);
    return capsule;
}

/* ---- from other packages ---- */

/* Opens the device of a DLPack device type: a new reference. */
static PyObject *device_of_type(struct py_state *state, int type, int id)
{
    static const struct {
        int type;
        const char *kind;
    } table[] = {{1, "cpu"}, {2, "cuda"}, {10, "hip"}};
    PyObject *name, *device = NULL;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].type != type) continue;
        name = PyUnicode_FromFormat("%s:%d", table[i].kind, type == HOST_MEMORY ? 0 : id);
        if (name) device = py_device_of(state, name);
        Py_XDECREF(name);
        return device;
    }
    PyErr_Format(PyExc_BufferError, "no device has memory of DLPack type %d", type);
    return NULL;
}

/* Calls what.__dlpack__, with a version if it takes one. */
static PyObject *capsule_request(PyObject *what)
{
    PyObject *method = PyObject_GetAttrString(what, "__dlpack__"), *capsule = NULL;
    PyObject *none = PyTuple_New(0), *kw = Py_BuildValue("{s:(ii)}", "max_version", 1, 0);

    if (method && none && kw) {
        capsule = PyObject_Call(method, none, kw);
        if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            capsule = PyObject_Call(method, none, NULL);
        }
    }
    Py_XDECREF(method);
    Py_XDECREF(none);
    Py_XDECREF(kw);
    return capsule;
}

/* Makes a tensor of a capsule, which is used up then. */
static PyObject *capsule_consume(struct py_state *state, PyObject *capsule, PyObject *device)
{
    struct bp_device *handle = ((struct py_device *)device)->handle;
    struct bp_tensor *tensor = NULL;
    enum bp_status status;

    if (PyCapsule_IsValid(capsule, capsule_versioned)) {
        status = bp_tensor_from_dlpack(handle, PyCapsule_GetPointer(capsule, capsule_versioned),
                                       &tensor);
        if (!status) PyCapsule_SetName(capsule, capsule_versioned_used);
    } else if (PyCapsule_IsValid(capsule, capsule_name)) {
        status = bp_tensor_from_dlpack_legacy(handle, PyCapsule_GetPointer(capsule, capsule_name),
                                              &tensor);
        if (!status) PyCapsule_SetName(capsule, capsule_used);
    } else {
        PyErr_SetString(PyExc_TypeError, "__dlpack__ returned no DLPack capsule, or a used one");
        return NULL;
    }
    return status ? py_fail(state, status) : py_tensor_wrap(state, tensor, device);
}

PyObject *py_dlpack_import(struct py_state *state, PyObject *what, PyObject *device)
{
    PyObject *where = PyObject_CallMethod(what, "__dlpack_device__", NULL);
    PyObject *capsule, *of_memory, *result = NULL, *pair[2] = {0};
    int type = -1, id = -1;

    for (int i = 0; where && i < 2; i++) { /* the type may be an enumeration */
        pair[i] = PySequence_GetItem(where, i);
        if (pair[i] == Py_None) id = 0; /* Paddle has no number for host memory */
        else if (pair[i]) *(i ? &id : &type) = (int)PyLong_AsLong(pair[i]);
        Py_XDECREF(pair[i]);
    }
    Py_XDECREF(where);
    if (!where || PyErr_Occurred()) return NULL;
    of_memory = device_of_type(state, type, id);
    if (!of_memory) return NULL;
    if (device && of_memory != device) {
        PyErr_Format(PyExc_BufferError, "the memory is of %R, not of %R", of_memory, device);
        Py_DECREF(of_memory);
        return NULL;
    }
    capsule = capsule_request(what);
    if (capsule) result = capsule_consume(state, capsule, of_memory);
    Py_XDECREF(capsule);
    Py_DECREF(of_memory);
    return result;
}

PyObject *py_from_dlpack(PyObject *module, PyObject *args, PyObject *kw)
{
    static char *words[] = {"", "device", "copy", NULL};
    struct py_state *state = PyModule_GetState(module);
    PyObject *what, *device = Py_None, *copy = Py_None, *tensor, *to, *result = NULL;
    int copies;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|$OO:from_dlpack", words, &what, &device, &copy))
        return NULL;
    copies = copy == Py_None ? -1 : PyObject_IsTrue(copy);
    if (PyErr_Occurred()) return NULL;
    tensor = py_dlpack_import(state, what, NULL);
    if (!tensor || (device == Py_None && copies != 1)) return tensor;
    if (device == Py_None) {
        to = ((struct py_tensor *)tensor)->owner;
        Py_INCREF(to);
    } else to = py_device_of(state, device);
    if (to && to == ((struct py_tensor *)tensor)->owner && copies != 1) {
        Py_DECREF(to);
        return tensor;
    }
    if (to && !copies)
        PyErr_SetString(PyExc_BufferError, "the memory is of another device: it must be copied");
    else if (to) result = py_tensor_copied((struct py_tensor *)tensor, to);
    Py_XDECREF(to);
    Py_DECREF(tensor);
    return result;
}
