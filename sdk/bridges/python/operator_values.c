/* SPDX-License-Identifier: Apache-2.0 */
/* operator_values.c: writes Python values into the attribute struct of an operator call. */
#include "module.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int value_wrong(const struct bp_attr *attr, const char *expected, PyObject *value)
{
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s: expected %s, got %R", attr->name, expected, value);
    return -1;
}

static int value_dtype(struct py_state *state, PyObject *value, int64_t *out)
{
    uint32_t dtype;

    if (py_dtype_find(state, value, &dtype)) return -1;
    *out = (int64_t)dtype;
    return 0;
}

/* At most attr->count integers; the others keep their default. One integer would have to stand for
 * as many as the operator reads, which depends on its tensors. */
static int value_integers(const struct bp_attr *attr, PyObject *value, int64_t *at)
{
    if (PyIndex_Check(value) && attr->count > 1)
        return value_wrong(attr, "a sequence of integers, one for each axis", value);
    return py_integers(value, at, attr->count, attr->name) < 0 ? -1 : 0;
}

/* Memory for a long list: a block that begins with the address of the block before. */
static int64_t *dims_large(struct py_dims_room *dims, size_t n)
{
    void **block = malloc((n + 1) * sizeof(int64_t));

    if (!block) {
        PyErr_NoMemory();
        return NULL;
    }
    *block = dims->large;
    dims->large = block;
    return (int64_t *)(void *)(block + 1);
}

void py_dims_finish(struct py_dims_room *dims)
{
    while (dims->large) {
        void *before = *(void **)dims->large;

        free(dims->large);
        dims->large = before;
    }
}

static int value_dims(const struct bp_attr *attr, PyObject *value, struct bp_dims *out,
                      struct py_dims_room *dims)
{
    Py_ssize_t size = PySequence_Check(value) ? PySequence_Size(value) : 1;
    int64_t *at = dims->at + dims->used;
    int n;

    if (size < 0 || size > INT_MAX) return value_wrong(attr, "a list of integers", value);
    if (size > (Py_ssize_t)(sizeof dims->at / sizeof *dims->at) - dims->used) {
        at = dims_large(dims, (size_t)size);
    } else dims->used += (int)size;
    n = at ? py_integers(value, at, (int)size, attr->name) : -1;
    if (n < 0) return -1;
    *out = (struct bp_dims){n ? at : NULL, n};
    return 0;
}

int py_attr_set(struct py_state *state, const struct bp_attr *attr, PyObject *value, char *attrs,
                struct py_dims_room *dims)
{
    char *field = attrs + attr->offset;
    int64_t integer = 0;
    double number;

    switch (attr->kind) {
    case BP_ATTR_F64:
        number = PyFloat_AsDouble(value);
        if (number == -1 && PyErr_Occurred()) return value_wrong(attr, "a number", value);
        memcpy(field, &number, sizeof number);
        return 0;
    case BP_ATTR_FLAG:
        integer = PyObject_IsTrue(value);
        if (integer < 0) return -1;
        break;
    case BP_ATTR_DTYPE:
        if (value_dtype(state, value, &integer)) return -1;
        break;
    case BP_ATTR_INTS: return value_integers(attr, value, (int64_t *)(void *)field);
    case BP_ATTR_DIMS: return value_dims(attr, value, (struct bp_dims *)(void *)field, dims);
    default:
        if (!PyIndex_Check(value)) return value_wrong(attr, "an integer", value);
        integer = PyLong_AsLongLong(value);
        if (integer == -1 && PyErr_Occurred()) return value_wrong(attr, "an integer", value);
    }
    memcpy(field, &integer, sizeof integer);
    return 0;
}
