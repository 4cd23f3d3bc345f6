/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_index.c: t[...] with integers, slices, None and ..., as views, and assignments to them. */
#include "module.h"

/* A view under construction. */
struct view {
    const struct bp_tensor_info *base;
    int64_t offset;
    int64_t shape[BP_RANK_MAX], stride[BP_RANK_MAX];
    uint32_t rank; /* axes so far */
    uint32_t axis; /* of base: the next one */
};

static int view_add(struct view *v, int64_t extent, int64_t stride)
{
    if (v->rank == BP_RANK_MAX) {
        PyErr_Format(PyExc_IndexError, "a tensor has at most %d axes", BP_RANK_MAX);
        return -1;
    }
    v->shape[v->rank] = extent;
    v->stride[v->rank++] = stride;
    return 0;
}

static int view_keep(struct view *v)
{
    uint32_t axis = v->axis++;

    return view_add(v, v->base->shape[axis], v->base->stride[axis]);
}

static int view_integer(struct view *v, PyObject *item)
{
    int64_t extent = v->base->shape[v->axis];
    Py_ssize_t index = PyNumber_AsSsize_t(item, PyExc_IndexError);

    if (index == -1 && PyErr_Occurred()) return -1;
    if (index < -extent || index >= extent) {
        PyErr_Format(PyExc_IndexError, "index %zd is outside of axis %u of extent %lld", index,
                     (unsigned)v->axis, (long long)extent);
        return -1;
    }
    v->offset += (index < 0 ? index + extent : index) * v->base->stride[v->axis++];
    return 0;
}

static int view_slice(struct view *v, PyObject *item)
{
    int64_t extent = v->base->shape[v->axis], stride = v->base->stride[v->axis];
    Py_ssize_t start, stop, step, count;

    if (PySlice_Unpack(item, &start, &stop, &step)) return -1;
    if (step < 0) {
        PyErr_SetString(PyExc_ValueError, "a slice with a negative step is no view; use ops.flip");
        return -1;
    }
    count = PySlice_AdjustIndices((Py_ssize_t)extent, &start, &stop, step);
    if (count) v->offset += start * stride;
    v->axis++;
    return view_add(v, count, stride * step);
}

/* Axes of the base that the items of a key take. */
static int key_axes(PyObject *key, Py_ssize_t n, uint32_t *out_ellipsis)
{
    int axes = 0;

    *out_ellipsis = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(key, i);
        if (item == Py_Ellipsis) ++*out_ellipsis;
        else if (item != Py_None) axes++;
    }
    return axes;
}

static int view_item(struct view *v, PyObject *item, int skipped)
{
    if (item == Py_None) return view_add(v, 1, 0);
    if (item == Py_Ellipsis) {
        for (int k = 0; k < skipped; k++)
            if (view_keep(v)) return -1;
        return 0;
    }
    if (PySlice_Check(item)) return view_slice(v, item);
    if (PyIndex_Check(item) && !PyBool_Check(item)) return view_integer(v, item);
    PyErr_Format(
        PyExc_TypeError,
        "a tensor is indexed by integers, slices, None and ..., not by %R; use ops.gather, "
        "ops.index_select or ops.masked_select",
        item);
    return -1;
}

static int view_of_key(struct view *v, PyObject *key)
{
    Py_ssize_t n = PyTuple_Size(key);
    uint32_t ellipses;
    int axes = key_axes(key, n, &ellipses), skipped = (int)v->base->rank - axes;

    if (ellipses > 1 || skipped < 0) {
        PyErr_Format(PyExc_IndexError,
                     ellipses > 1 ? "an index has at most one ..."
                                  : "%d indices for a tensor with %u axes",
                     axes, (unsigned)v->base->rank);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (view_item(v, PyTuple_GetItem(key, i), skipped)) return -1;
    while (v->axis < v->base->rank)
        if (view_keep(v)) return -1;
    return 0;
}

static PyObject *tensor_indexed(struct py_tensor *t, PyObject *key)
{
    struct bp_tensor_info info = {.size = sizeof info};
    struct view v = {.base = &info};
    struct bp_tensor *handle = NULL;
    enum bp_status status = bp_tensor_get_info(t->handle, &info);
    PyObject *tuple = PyTuple_Check(key) ? key : PyTuple_Pack(1, key);
    int failed;

    if (tuple == key) Py_INCREF(tuple);
    if (!tuple || status) {
        Py_XDECREF(tuple);
        return status ? py_fail(t->state, status) : NULL;
    }
    failed = view_of_key(&v, tuple);
    Py_DECREF(tuple);
    if (failed) return NULL;
    status = bp_tensor_view(t->handle, v.offset, v.rank, v.shape, v.stride, &handle);
    return status ? py_fail(t->state, status) : py_tensor_wrap(t->state, handle, t->owner);
}

PyObject *py_tensor_subscript(PyObject *self, PyObject *key)
{
    struct py_tensor *t = (struct py_tensor *)self;

    if (t->symbolic) return PyObject_CallMethod(t->state->host, "record_index", "OO", self, key);
    return tensor_indexed(t, key);
}

int py_tensor_assign(PyObject *self, PyObject *key, PyObject *value)
{
    struct py_tensor *t = (struct py_tensor *)self;
    struct bp_tensor_info info = {.size = sizeof info};
    struct bp_tensor *wide = NULL;
    PyObject *view, *source = NULL, *expanded = NULL;
    enum bp_status status;
    int failed = -1;

    if (!value || t->symbolic) {
        PyErr_SetString(PyExc_TypeError, value ? "a symbolic tensor is not assigned to"
                                               : "elements of a tensor cannot be deleted");
        return -1;
    }
    view = tensor_indexed(t, key);
    if (view) source = py_tensor_input(t->state, value, t->dtype, t->owner);
    if (source) {
        status = bp_tensor_get_info(((struct py_tensor *)view)->handle, &info);
        if (!status)
            status = bp_tensor_expand(((struct py_tensor *)source)->handle, info.rank, info.shape,
                                      &wide);
        expanded = status ? py_fail(t->state, status)
                          : py_tensor_wrap(t->state, wide, ((struct py_tensor *)source)->owner);
    }
    if (expanded)
        failed = py_tensor_copy_to((struct py_tensor *)view, (struct py_tensor *)expanded);
    Py_XDECREF(view);
    Py_XDECREF(source);
    Py_XDECREF(expanded);
    return failed;
}
