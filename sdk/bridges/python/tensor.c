/* SPDX-License-Identifier: Apache-2.0 */
/* tensor.c: the type Tensor: its description, views, copies and conversions to other packages.
 * Methods that make views call bp_tensor_...; of a symbolic tensor they record the operator. */
#include "module.h"
#include <stddef.h>
#include <string.h>
#include <structmember.h>

static void tensor_dealloc(PyObject *self)
{
    struct py_tensor *t = (struct py_tensor *)self;
    PyTypeObject *type = Py_TYPE(self);
    struct py_ledger *ledger = t->state ? t->state->ledger : NULL;

    if (t->weak) PyObject_ClearWeakRefs(self);
    bp_tensor_destroy(t->handle);
    Py_XDECREF(t->owner);
    PyObject_Free(self);
    if (ledger) py_ledger_release(ledger);
    Py_DECREF(type);
}

bool py_tensor_is(const struct py_state *state, PyObject *object)
{
    return Py_TYPE(object) == state->type.tensor;
}

bool py_tensor_any(PyObject *object)
{
    return PyType_GetSlot(Py_TYPE(object), Py_tp_dealloc) == (void *)tensor_dealloc;
}

PyObject *py_tensor_wrap(struct py_state *state, struct bp_tensor *handle, PyObject *owner)
{
    struct bp_tensor_info info = {.size = sizeof info};
    enum bp_status status = bp_tensor_get_info(handle, &info);
    struct py_tensor *t = status ? NULL
                                 : (struct py_tensor *)PyType_GenericAlloc(state->type.tensor, 0);

    if (!t) {
        bp_tensor_destroy(handle);
        return status ? py_fail(state, status) : NULL;
    }
    t->state = state;
    t->handle = handle;
    t->owner = owner;
    Py_INCREF(owner);
    t->bytes = info.bytes;
    t->dtype = info.dtype;
    t->rank = info.rank;
    t->symbolic = Py_TYPE(owner) == state->type.graph;
    return (PyObject *)t;
}

void py_tensor_refresh(struct py_tensor *t)
{
    struct bp_tensor_info info = {.size = sizeof info};

    if (!bp_tensor_get_info(t->handle, &info)) t->bytes = info.bytes;
}

PyObject *py_shape_tuple(const int64_t *shape, uint32_t rank)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)rank);

    for (uint32_t i = 0; tuple && i < rank; i++) {
        PyObject *extent = PyLong_FromLongLong(shape[i]);
        if (!extent || PyTuple_SetItem(tuple, (Py_ssize_t)i, extent)) Py_CLEAR(tuple);
    }
    return tuple;
}

static int tensor_info(const struct py_tensor *t, struct bp_tensor_info *out)
{
    enum bp_status status;

    *out = (struct bp_tensor_info){.size = sizeof *out};
    status = bp_tensor_get_info(t->handle, out);
    if (status) py_fail(t->state, status);
    return status ? -1 : 0;
}

static PyObject *tensor_get_shape(PyObject *self, void *unused)
{
    struct bp_tensor_info info;

    (void)unused;
    if (tensor_info((struct py_tensor *)self, &info)) return NULL;
    return py_shape_tuple(info.shape, info.rank);
}

static PyObject *tensor_get_stride(PyObject *self, void *unused)
{
    struct bp_tensor_info info;

    (void)unused;
    if (tensor_info((struct py_tensor *)self, &info)) return NULL;
    return py_shape_tuple(info.stride, info.rank);
}

static PyObject *tensor_get_size(PyObject *self, void *unused)
{
    struct bp_tensor_info info;

    (void)unused;
    if (tensor_info((struct py_tensor *)self, &info)) return NULL;
    return PyLong_FromLongLong(info.count);
}

static PyObject *tensor_get_frozen(PyObject *self, void *unused)
{
    struct bp_tensor_info info;

    (void)unused;
    if (tensor_info((struct py_tensor *)self, &info)) return NULL;
    return PyBool_FromLong(info.frozen);
}

static PyObject *tensor_get_address(PyObject *self, void *unused)
{
    struct bp_tensor_info info;

    (void)unused;
    if (tensor_info((struct py_tensor *)self, &info)) return NULL;
    if (!info.data) Py_RETURN_NONE;
    return PyLong_FromVoidPtr(info.data);
}

static PyObject *tensor_get_contiguous(PyObject *self, void *unused)
{
    struct bp_tensor_info info;

    (void)unused;
    if (tensor_info((struct py_tensor *)self, &info)) return NULL;
    return PyBool_FromLong(info.contiguous);
}

static PyObject *tensor_get_dtype(PyObject *self, void *unused)
{
    struct py_tensor *t = (struct py_tensor *)self;

    (void)unused;
    return py_dtype_name(t->state, t->dtype);
}

static PyObject *tensor_get_ndim(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLong(((struct py_tensor *)self)->rank);
}

static PyObject *tensor_get_nbytes(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromUnsignedLongLong(((struct py_tensor *)self)->bytes);
}

/* The owner, if the tensor is of the wanted kind; else None. */
static PyObject *tensor_get_owner(PyObject *self, void *symbolic)
{
    struct py_tensor *t = (struct py_tensor *)self;
    PyObject *result = t->symbolic == (symbolic != NULL) ? t->owner : Py_None;

    Py_INCREF(result);
    return result;
}

static PyObject *tensor_method_of_host(PyObject *self, const char *name)
{
    return PyObject_CallMethod(((struct py_tensor *)self)->state->host, name, "O", self);
}

static PyObject *tensor_repr(PyObject *self)
{
    return tensor_method_of_host(self, "repr_of");
}

static PyObject *tensor_numpy(PyObject *self, PyObject *unused)
{
    (void)unused;
    return tensor_method_of_host(self, "to_numpy");
}

static PyObject *tensor_tolist(PyObject *self, PyObject *unused)
{
    (void)unused;
    return tensor_method_of_host(self, "to_list");
}

static PyObject *tensor_item(PyObject *self, PyObject *unused)
{
    (void)unused;
    return tensor_method_of_host(self, "to_item");
}

static PyObject *tensor_float(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL), *result = item ? PyNumber_Float(item) : NULL;

    Py_XDECREF(item);
    return result;
}

static PyObject *tensor_int(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL), *result = item ? PyNumber_Long(item) : NULL;

    Py_XDECREF(item);
    return result;
}

static int tensor_bool(PyObject *self)
{
    PyObject *item = tensor_item(self, NULL);
    int result = item ? PyObject_IsTrue(item) : -1;

    Py_XDECREF(item);
    return result;
}

/* Comparisons are of elements, so tensors hash by identity. */
static Py_hash_t tensor_hash(PyObject *self)
{
    return (Py_hash_t)((uintptr_t)self >> 4);
}

static Py_ssize_t tensor_length(PyObject *self)
{
    struct bp_tensor_info info;

    if (tensor_info((struct py_tensor *)self, &info)) return -1;
    if (!info.rank) {
        PyErr_SetString(PyExc_TypeError, "len() of a tensor without axes");
        return -1;
    }
    return (Py_ssize_t)info.shape[0];
}

/* An iterator over the views of the first axis. */
static PyObject *tensor_iter(PyObject *self)
{
    Py_ssize_t n = tensor_length(self);
    PyObject *list = n < 0 ? NULL : PyList_New(n), *iterator;

    for (Py_ssize_t i = 0; list && i < n; i++) {
        PyObject *index = PyLong_FromSsize_t(i);
        PyObject *view = index ? py_tensor_subscript(self, index) : NULL;

        Py_XDECREF(index);
        if (!view || PyList_SetItem(list, i, view)) Py_CLEAR(list);
    }
    iterator = list ? PyObject_GetIter(list) : NULL;
    Py_XDECREF(list);
    return iterator;
}

static PyObject *tensor_tobytes(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_tensor_bytes((struct py_tensor *)self);
}

static PyObject *tensor_array(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *words[] = {"dtype", "copy", NULL};
    struct py_tensor *t = (struct py_tensor *)self;
    PyObject *dtype = Py_None, *copy = Py_None;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|OO:__array__", words, &dtype, &copy)) return NULL;
    return PyObject_CallMethod(t->state->host, "to_array", "OOO", self, dtype, copy);
}

/* ---- views ---- */

int py_integers(PyObject *what, int64_t *out, int room, const char *name)
{
    Py_ssize_t n;

    if (PyIndex_Check(what)) {
        out[0] = PyLong_AsLongLong(what);
        return out[0] == -1 && PyErr_Occurred() ? -1 : 1;
    }
    n = PySequence_Check(what) ? PySequence_Size(what) : -1;
    if (n < 0 || n > room) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "%s: expected an integer or at most %d integers, got %R",
                     name, room, what);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(what, i);
        if (!item) return -1;
        out[i] = PyLong_AsLongLong(item);
        Py_DECREF(item);
        if (out[i] == -1 && PyErr_Occurred()) return -1;
    }
    return (int)n;
}

/* The integers of f(2, 3) and of f((2, 3)). */
static int integers_of_args(PyObject *args, int64_t *out, const char *name)
{
    PyObject *only = PyTuple_Size(args) == 1 ? PyTuple_GetItem(args, 0) : NULL;

    return py_integers(only ? only : args, out, BP_RANK_MAX, name);
}

static PyObject *tensor_view_result(struct py_tensor *t, enum bp_status status,
                                    struct bp_tensor *view)
{
    return status ? py_fail(t->state, status) : py_tensor_wrap(t->state, view, t->owner);
}

/* Records an operator whose second argument is a list of integers. */
static PyObject *tensor_record(struct py_tensor *t, const char *op, const int64_t *list, int n)
{
    PyObject *args[2] = {(PyObject *)t, py_shape_tuple(list, (uint32_t)n)}, *result;

    if (!args[1]) return NULL;
    result = py_call_name(t->state, op, args, 2);
    Py_DECREF(args[1]);
    return result;
}

static PyObject *tensor_reshape(PyObject *self, PyObject *args)
{
    struct py_tensor *t = (struct py_tensor *)self;
    struct bp_tensor *view = NULL;
    int64_t shape[BP_RANK_MAX];
    int n = integers_of_args(args, shape, "reshape");
    enum bp_status status;

    if (n < 0) return NULL;
    if (t->symbolic) return tensor_record(t, "reshape", shape, n);
    status = bp_tensor_reshape(t->handle, (uint32_t)n, shape, &view);
    if (status == BP_ERR_UNSUPPORTED) { /* its strides allow no view */
        PyObject *dense = py_tensor_copied(t, t->owner), *result;
        if (!dense) return NULL;
        result = tensor_reshape(dense, args);
        Py_DECREF(dense);
        return result;
    }
    return tensor_view_result(t, status, view);
}

static PyObject *tensor_permuted(struct py_tensor *t, const int64_t *perm)
{
    struct bp_tensor *view = NULL;
    enum bp_status status = bp_tensor_transpose(t->handle, perm, &view);

    return tensor_view_result(t, status, view);
}

static PyObject *tensor_transpose(PyObject *self, PyObject *args)
{
    struct py_tensor *t = (struct py_tensor *)self;
    int64_t perm[BP_RANK_MAX];
    int n = integers_of_args(args, perm, "transpose");

    if (n < 0) return NULL;
    if (n && (uint32_t)n != t->rank) {
        PyErr_Format(PyExc_ValueError, "transpose: expected %u axes, got %d", (unsigned)t->rank, n);
        return NULL;
    }
    if (!t->symbolic) return tensor_permuted(t, n ? perm : NULL);
    if (!n)
        for (uint32_t i = 0; i < t->rank; i++) perm[i] = (int64_t)(t->rank - 1 - i);
    return PyObject_CallMethod(t->state->host, "record_transpose", "ON", self,
                               py_shape_tuple(perm, t->rank));
}

static PyObject *tensor_get_reversed(PyObject *self, void *unused)
{
    PyObject *none = PyTuple_New(0), *result = none ? tensor_transpose(self, none) : NULL;

    (void)unused;
    Py_XDECREF(none);
    return result;
}

static PyObject *tensor_expand(PyObject *self, PyObject *args)
{
    struct py_tensor *t = (struct py_tensor *)self;
    struct bp_tensor *view = NULL;
    int64_t shape[BP_RANK_MAX];
    int n = integers_of_args(args, shape, "expand");
    enum bp_status status;

    if (n < 0) return NULL;
    if (t->symbolic) return tensor_record(t, "expand", shape, n);
    status = bp_tensor_expand(t->handle, (uint32_t)n, shape, &view);
    return tensor_view_result(t, status, view);
}

/* ---- copies ---- */

int py_tensor_copy_to(struct py_tensor *dst, struct py_tensor *src)
{
    struct py_lane *lane;
    struct py_hold hold;
    enum bp_status status;

    if (dst->symbolic || src->symbolic) {
        PyErr_SetString(PyExc_TypeError, "a symbolic tensor has no elements to copy");
        return -1;
    }
    lane = py_lane_of(dst->state, dst->owner);
    hold = py_lane_take(lane, dst->bytes >= 65536 || dst->owner != src->owner);
    status = bp_tensor_copy(lane->stream, dst->handle, src->handle);
    py_lane_leave(&hold);
    if (status) py_fail(dst->state, status);
    return status ? -1 : 0;
}

PyObject *py_tensor_copied(struct py_tensor *t, PyObject *device)
{
    struct bp_tensor_info info;
    struct bp_tensor *handle = NULL;
    enum bp_status status;
    PyObject *copy;

    if (tensor_info(t, &info)) return NULL;
    if (t->symbolic) {
        PyErr_SetString(PyExc_TypeError, "a symbolic tensor has no elements to copy");
        return NULL;
    }
    status = bp_tensor_create(((struct py_device *)device)->handle, info.dtype, info.rank,
                              info.shape, &handle);
    if (status) return py_fail(t->state, status);
    copy = py_tensor_wrap(t->state, handle, device);
    if (copy && py_tensor_copy_to((struct py_tensor *)copy, t)) Py_CLEAR(copy);
    return copy;
}

/* Converts to the dtype that an object of another package stands for. */
static PyObject *tensor_to_foreign(struct py_tensor *t, PyObject *what)
{
    PyObject *name, *result;
    uint32_t dtype;

    if (py_dtype_find(t->state, what, &dtype)) {
        PyErr_Format(PyExc_TypeError, "to(): expected a device or a dtype, got %R", what);
        return NULL;
    }
    name = py_dtype_name(t->state, dtype);
    if (!name) return NULL;
    result = PyObject_CallMethod(t->state->host, "cast", "OO", (PyObject *)t, name);
    Py_DECREF(name);
    return result;
}

static PyObject *tensor_to(PyObject *self, PyObject *what)
{
    struct py_tensor *t = (struct py_tensor *)self;
    PyObject *device, *result = self;

    if (PyUnicode_Check(what)) { /* a dtype, or the name of a device */
        PyObject *number = PyDict_GetItemWithError(t->state->dtype_number, what);
        if (number) return PyObject_CallMethod(t->state->host, "cast", "OO", self, what);
        if (PyErr_Occurred()) return NULL;
    }
    if (!PyUnicode_Check(what) && Py_TYPE(what) != t->state->type.device)
        return tensor_to_foreign(t, what);
    device = py_device_of(t->state, what);
    if (!device) return NULL;
    if (device == t->owner) Py_INCREF(result);
    else result = py_tensor_copied(t, device);
    Py_DECREF(device);
    return result;
}

static PyObject *tensor_copy(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = (struct py_tensor *)self;

    (void)unused;
    return py_tensor_copied(t, t->owner);
}

static PyObject *tensor_contiguous(PyObject *self, PyObject *unused)
{
    struct bp_tensor_info info;

    (void)unused;
    if (tensor_info((struct py_tensor *)self, &info)) return NULL;
    if (!info.contiguous) return tensor_copy(self, NULL);
    Py_INCREF(self);
    return self;
}

static PyObject *tensor_freeze(PyObject *self, PyObject *unused)
{
    struct py_tensor *t = (struct py_tensor *)self;
    PyThreadState *thread = PyEval_SaveThread();
    enum bp_status status = bp_tensor_freeze(t->handle);

    (void)unused;
    PyEval_RestoreThread(thread);
    if (status) return py_fail(t->state, status);
    Py_INCREF(self);
    return self;
}

/* By it numpy's arrays and numbers leave an operator with a tensor on the right to the tensor. */
static PyObject *tensor_get_priority(PyObject *self, void *unused)
{
    (void)self;
    (void)unused;
    return PyFloat_FromDouble(1000);
}

static PyMethodDef tensor_methods[] = {
    {"reshape", tensor_reshape, METH_VARARGS,
     "reshape($self, *shape)\n--\n\nA view in another shape; a copy if the strides allow no view."},
    {"transpose", tensor_transpose, METH_VARARGS,
     "transpose($self, *axes)\n--\n\nA view with permuted axes; none: reversed."},
    {"expand", tensor_expand, METH_VARARGS,
     "expand($self, *shape)\n--\n\nA view that repeats elements along axes of extent 1."},
    {"to", tensor_to, METH_O,
     "to($self, where, /)\n--\n\nThe tensor on another device, or with another dtype: itself if it "
     "is so already."},
    {"copy", tensor_copy, METH_NOARGS, "copy($self)\n--\n\nA dense copy on the same device."},
    {"contiguous", tensor_contiguous, METH_NOARGS,
     "contiguous($self)\n--\n\nItself if it is row-major without gaps, else a copy."},
    {"freeze", tensor_freeze, METH_NOARGS,
     "freeze($self)\n--\n\nPromises that the elements stay, so that kernels may prepare them once. "
     "Returns itself."},
    {"numpy", tensor_numpy, METH_NOARGS,
     "numpy($self)\n--\n\nA numpy array: of the same memory where the host can access it, else of "
     "a copy."},
    {"tolist", tensor_tolist, METH_NOARGS, "tolist($self)\n--\n\nThe elements as nested lists."},
    {"item", tensor_item, METH_NOARGS, "item($self)\n--\n\nThe one element as a number of Python."},
    {"tobytes", tensor_tobytes, METH_NOARGS,
     "tobytes($self)\n--\n\nThe bytes of the elements in row-major order."},
    {"__array__", (PyCFunction)(void (*)(void))tensor_array, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack__", (PyCFunction)(void (*)(void))py_dlpack_export, METH_VARARGS | METH_KEYWORDS,
     NULL},
    {"__dlpack_device__", py_dlpack_device, METH_NOARGS, NULL},
    {0},
};
static PyGetSetDef tensor_getset[] = {
    {"shape", tensor_get_shape, NULL, "The extents.", NULL},
    {"stride", tensor_get_stride, NULL, "The strides, in elements.", NULL},
    {"dtype", tensor_get_dtype, NULL, "The element type, as \"f32\".", NULL},
    {"ndim", tensor_get_ndim, NULL, "The number of axes.", NULL},
    {"size", tensor_get_size, NULL, "The number of elements.", NULL},
    {"nbytes", tensor_get_nbytes, NULL, "Bytes of the elements.", NULL},
    {"device", tensor_get_owner, NULL, "The device; None of a symbolic tensor.", NULL},
    {"graph", tensor_get_owner, NULL, "The graph of a symbolic tensor, or None.", "symbolic"},
    {"T", tensor_get_reversed, NULL, "A view with the axes in reversed order.", NULL},
    {"frozen", tensor_get_frozen, NULL, "Whether the elements are promised to stay.", NULL},
    {"is_contiguous", tensor_get_contiguous, NULL, "Whether it is row-major without gaps.", NULL},
    {"__array_priority__", tensor_get_priority, NULL, NULL, NULL},
    {"address", tensor_get_address, NULL, "The host's address of the first element, or None.",
     NULL},
    {0},
};
static PyMemberDef tensor_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct py_tensor, weak), READONLY, NULL},
    {0},
};
static PyType_Slot tensor_slots[] = {
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_getset},
    {Py_tp_members, tensor_members},
    {Py_tp_doc, "An array of elements on a device, or a symbolic tensor of a graph. asarray(), "
                "from_dlpack(), empty() and operators make tensors."},
    {Py_tp_iter, tensor_iter},
    {Py_mp_length, tensor_length},
    {Py_mp_subscript, py_tensor_subscript},
    {Py_mp_ass_subscript, py_tensor_assign},
    {Py_bf_getbuffer, py_tensor_get_buffer},
    {Py_bf_releasebuffer, py_tensor_release_buffer},
    {Py_nb_float, tensor_float},
    {Py_nb_int, tensor_int},
    {Py_nb_bool, tensor_bool},
    {Py_nb_power, py_number_power},
    {Py_nb_positive, py_number_positive},
    {Py_tp_richcompare, py_number_compare},
    {Py_tp_hash, tensor_hash},
#define X(slot, op) {slot, py_number_##op},
    PY_BINARY(X) PY_UNARY(X)
#undef X
        {0},
};
PyType_Spec py_tensor_spec = {"backplane.Tensor", sizeof(struct py_tensor), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};
