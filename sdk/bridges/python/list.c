/* SPDX-License-Identifier: Apache-2.0 */
/* list.c: makes tensors of numbers and nested sequences of numbers. Without a given dtype, a
 * boolean becomes bool, integers i64, floats f32 and complex numbers c64. */
#include "module.h"
#include <stdlib.h>
#include <string.h>

/* The elements that are being read. */
struct elements {
    int64_t shape[BP_RANK_MAX];
    int rank;
    double *at; /* pairs for complex numbers */
    int64_t *integer;
    int64_t count, used;
    int kind; /* 0 bool, 1 integer, 2 float, 3 complex */
    bool huge, negative; /* an integer of 2^63 and more, as a u64; one below 0 */
};

/* Whether a Python object is a sequence of elements and no number or text. */
static bool elements_nested(PyObject *what)
{
    return PySequence_Check(what) && !PyUnicode_Check(what) && !PyBytes_Check(what);
}

static int elements_shape(struct elements *e, PyObject *what)
{
    PyObject *item = what;

    Py_INCREF(item);
    e->count = 1;
    while (elements_nested(item)) {
        Py_ssize_t n = PySequence_Size(item);
        PyObject *first = n > 0 ? PySequence_GetItem(item, 0) : NULL;

        Py_DECREF(item);
        item = first;
        if (n < 0 || (n && !first) || e->rank == BP_RANK_MAX) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_ValueError, "a tensor has at most %d axes", BP_RANK_MAX);
            Py_XDECREF(item);
            return -1;
        }
        e->shape[e->rank++] = (int64_t)n;
        if (__builtin_mul_overflow(e->count, (int64_t)n, &e->count) ||
            (uint64_t)e->count > SIZE_MAX / (4 * sizeof(double))) {
            PyErr_SetString(PyExc_OverflowError, "the lists have too many elements");
            Py_XDECREF(item);
            return -1;
        }
        if (!n) return 0;
    }
    Py_DECREF(item);
    return 0;
}

char py_kind_letter(PyObject *item)
{
    PyObject *dtype = PyObject_GetAttrString(item, "dtype");
    PyObject *kind = dtype ? PyObject_GetAttrString(dtype, "kind") : NULL;
    Py_UCS4 letter = 0;

    PyErr_Clear();
    if (kind && PyUnicode_Check(kind) && PyUnicode_GetLength(kind) == 1)
        letter = PyUnicode_ReadChar(kind, 0);
    Py_XDECREF(dtype);
    Py_XDECREF(kind);
    return letter < 128 ? (char)letter : 0;
}

/* The kind of a number of numpy: 0 bool, 3 complex; -1: another one, or no number of numpy. */
static int element_kind_stated(PyObject *item)
{
    char letter = py_kind_letter(item);

    return letter == 'b' ? 0 : letter == 'c' ? 3 : -1;
}

static int element_kind(PyObject *item)
{
    int stated;

    if (PyBool_Check(item)) return 0;
    if (PyLong_Check(item)) return 1;
    if (PyFloat_Check(item)) return 2;
    if (PyComplex_Check(item)) return 3;
    stated = element_kind_stated(item);
    return stated >= 0 ? stated : PyIndex_Check(item) ? 1 : 2;
}

static void element_read_complex(PyObject *item, double *at)
{
    PyObject *number = PyObject_CallFunctionObjArgs((PyObject *)&PyComplex_Type, item, NULL);

    if (!number) return;
    at[0] = PyComplex_RealAsDouble(number);
    at[1] = PyComplex_ImagAsDouble(number);
    Py_DECREF(number);
}

static void element_read_integer(struct elements *e, PyObject *item, double *at)
{
    PyObject *number = PyNumber_Index(item);

    e->integer[e->used] = number ? PyLong_AsLongLong(number) : -1;
    if (PyErr_Occurred() && number) { /* above 2^63: of a u64 */
        PyErr_Clear();
        e->integer[e->used] = (int64_t)PyLong_AsUnsignedLongLong(number);
        e->huge = true;
        at[0] = (double)(uint64_t)e->integer[e->used];
    } else {
        e->negative = e->negative || e->integer[e->used] < 0;
        at[0] = (double)e->integer[e->used];
    }
    Py_XDECREF(number);
}

static int element_read(struct elements *e, PyObject *item)
{
    double *at = &e->at[2 * e->used];
    int kind = element_kind(item);

    switch (kind) {
    case 0: at[0] = (double)(e->integer[e->used] = PyObject_IsTrue(item)); break;
    case 1: element_read_integer(e, item, at); break;
    case 2: at[0] = PyFloat_AsDouble(item); break;
    default: element_read_complex(item, at);
    }
    if (PyErr_Occurred()) return -1;
    if (kind > e->kind) e->kind = kind;
    e->used++;
    return 0;
}

static int elements_read(struct elements *e, PyObject *what, int axis)
{
    if (axis == e->rank) {
        if (!elements_nested(what)) return element_read(e, what);
    } else if (elements_nested(what) && PySequence_Size(what) == (Py_ssize_t)e->shape[axis]) {
        for (Py_ssize_t i = 0; i < (Py_ssize_t)e->shape[axis]; i++) {
            PyObject *item = PySequence_GetItem(what, i);
            int failed = item ? elements_read(e, item, axis + 1) : -1;
            Py_XDECREF(item);
            if (failed) return -1;
        }
        return 0;
    }
    PyErr_SetString(PyExc_ValueError, "the lists of one axis have different lengths");
    return -1;
}

/* Stores element i as a number of the dtype; only dtypes that C has. */
static void element_store(const struct elements *e, int64_t i, uint32_t dtype, void *out)
{
    double real = e->at[2 * i], imaginary = e->at[2 * i + 1];
    int64_t n = e->kind < 2 ? e->integer[i] : (int64_t)real;

    switch (dtype) {
    case BP_BOOL: ((uint8_t *)out)[i] = e->kind < 2 ? n != 0 : real != 0; break;
    case BP_I8: ((int8_t *)out)[i] = (int8_t)n; break;
    case BP_U8: ((uint8_t *)out)[i] = (uint8_t)n; break;
    case BP_I16: ((int16_t *)out)[i] = (int16_t)n; break;
    case BP_U16: ((uint16_t *)out)[i] = (uint16_t)n; break;
    case BP_I32: ((int32_t *)out)[i] = (int32_t)n; break;
    case BP_U32: ((uint32_t *)out)[i] = (uint32_t)n; break;
    case BP_I64:
    case BP_U64: ((int64_t *)out)[i] = n; break;
    case BP_F64: ((double *)out)[i] = real; break;
    case BP_C64:
        ((float *)out)[2 * i] = (float)real;
        ((float *)out)[2 * i + 1] = (float)imaginary;
        break;
    case BP_C128: memcpy((double *)out + 2 * i, &e->at[2 * i], 2 * sizeof(double)); break;
    default: ((float *)out)[i] = (float)real;
    }
}

/* Whether an integer dtype can hold element i. */
static bool element_fits(const struct elements *e, int64_t i, uint32_t dtype)
{
    uint32_t bits = bp_dtype_bits((enum bp_dtype)dtype);
    int64_t n = e->integer[i];

    if (dtype < BP_I8 || dtype > BP_U64 || bits == 64) return true;
    return dtype <= BP_I64 ? n >> (bits - 1) == 0 || n >> (bits - 1) == -1 : n >> bits == 0;
}

static int elements_check(const struct elements *e, uint32_t dtype)
{
    bool integer = dtype <= BP_U64, complex = dtype == BP_C64 || dtype == BP_C128;

    if ((integer && e->kind > 1) || (!complex && e->kind > 2)) {
        PyErr_Format(PyExc_TypeError, "a %s is no number for a tensor of %s: cast the tensor",
                     e->kind > 2 ? "complex" : "float", bp_dtype_name((enum bp_dtype)dtype));
        return -1;
    }
    if (integer && dtype != BP_BOOL &&
        ((e->huge && dtype != BP_U64) || (e->negative && dtype == BP_U64))) {
        PyErr_Format(PyExc_OverflowError, "an integer does not fit into %s",
                     bp_dtype_name((enum bp_dtype)dtype));
        return -1;
    }
    for (int64_t i = 0; i < e->used && e->kind < 2 && !e->huge; i++)
        if (!element_fits(e, i, dtype)) {
            PyErr_Format(PyExc_OverflowError, "%lld does not fit into %s", (long long)e->integer[i],
                         bp_dtype_name((enum bp_dtype)dtype));
            return -1;
        }
    return 0;
}

/* The tensor of elements; of a dtype that C has not, by a cast from f32. */
static PyObject *elements_tensor(struct py_state *state, struct elements *e, uint32_t dtype,
                                 PyObject *device)
{
    bool foreign = dtype > BP_C128 || dtype == BP_F16 || dtype == BP_BF16;
    uint32_t stored = foreign ? (uint32_t)BP_F32 : dtype;
    void *data = malloc((size_t)e->count * py_dtype_size(stored) + 1);
    struct bp_tensor *handle = NULL;
    struct py_lane *lane = py_lane_of(state, device);
    struct py_hold hold;
    enum bp_status status;
    PyObject *tensor, *name, *result;

    if (!data) return PyErr_NoMemory();
    for (int64_t i = 0; i < e->used; i++) element_store(e, i, stored, data);
    status = bp_tensor_create(((struct py_device *)device)->handle, (enum bp_dtype)stored,
                              (uint32_t)e->rank, e->shape, &handle);
    if (!status && e->count) {
        hold = py_lane_take(lane, e->count > 4096);
        status = bp_tensor_write(lane->stream, handle, data,
                                 (uint64_t)e->count * py_dtype_size(stored));
        py_lane_leave(&hold);
        if (status) bp_tensor_destroy(handle);
    }
    free(data);
    if (status) return py_fail(state, status);
    tensor = py_tensor_wrap(state, handle, device);
    if (!tensor || !foreign) return tensor;
    name = py_dtype_name(state, dtype);
    result = name ? py_cast(state, tensor, name) : NULL;
    Py_XDECREF(name);
    Py_DECREF(tensor);
    return result;
}

PyObject *py_tensor_of_list(struct py_state *state, PyObject *what, uint32_t like, PyObject *device)
{
    static const uint32_t usual[] = {BP_BOOL, BP_I64, BP_F32, BP_C64};
    struct elements e = {.kind = 0};
    double number[2] = {0};
    int64_t integer = 0;
    PyObject *result = NULL;
    bool one = PyFloat_Check(what) || PyLong_Check(what);

    if (!one && elements_shape(&e, what)) return NULL;
    if (one) e.count = 1;
    e.at = e.count > 1 ? calloc((size_t)e.count, 2 * sizeof *e.at) : number;
    e.integer = e.count > 1 ? calloc((size_t)e.count, sizeof *e.integer) : &integer;
    if (!e.at || !e.integer) PyErr_NoMemory();
    else if (!elements_read(&e, what, 0)) {
        if (!e.used) e.kind = 2;
        if (like == PY_DTYPE_NONE) like = usual[e.kind];
        if (!elements_check(&e, like)) result = elements_tensor(state, &e, like, device);
    }
    if (e.at != number) free(e.at);
    if (e.integer != &integer) free(e.integer);
    return result;
}
