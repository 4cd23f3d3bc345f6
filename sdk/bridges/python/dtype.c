/* SPDX-License-Identifier: Apache-2.0 */
/* dtype.c: finds element types by the names of Backplane and of other packages, and converts them
 * to and from the formats of the buffer protocol. */
#include "module.h"
#include <string.h>

/* Names that other packages use. */
static const struct {
    const char *name;
    uint32_t dtype;
} dtype_alias[] = {
    {"int8", BP_I8},
    {"int16", BP_I16},
    {"int32", BP_I32},
    {"int64", BP_I64},
    {"uint8", BP_U8},
    {"uint16", BP_U16},
    {"uint32", BP_U32},
    {"uint64", BP_U64},
    {"float16", BP_F16},
    {"bfloat16", BP_BF16},
    {"float32", BP_F32},
    {"float64", BP_F64},
    {"complex64", BP_C64},
    {"complex128", BP_C128},
    {"half", BP_F16},
    {"float", BP_F32},
    {"double", BP_F64},
    {"int", BP_I64},
    {"complex", BP_C64},
    {"bool_", BP_BOOL},
    {"float8_e4m3fn", BP_F8E4M3},
    {"float8_e5m2", BP_F8E5M2},
    {"float8_e4m3fnuz", BP_F8E4M3FNUZ},
    {"float8_e5m2fnuz", BP_F8E5M2FNUZ},
    {"float8_e8m0fnu", BP_F8E8M0},
};

static const char *const dtype_format[] = {
    [BP_BOOL] = "?", [BP_I8] = "b",  [BP_I16] = "h",  [BP_I32] = "i",   [BP_I64] = "q",
    [BP_U8] = "B",   [BP_U16] = "H", [BP_U32] = "I",  [BP_U64] = "Q",   [BP_F16] = "e",
    [BP_F32] = "f",  [BP_F64] = "d", [BP_C64] = "Zf", [BP_C128] = "Zd",
};

static int dtype_add(struct py_state *state, const char *name, uint32_t dtype)
{
    PyObject *number = PyLong_FromUnsignedLong(dtype);
    int failed = !number || PyDict_SetItemString(state->dtype_number, name, number);

    Py_XDECREF(number);
    return failed;
}

int py_dtypes_init(struct py_state *state, PyObject *module)
{
    uint32_t room = 0;
    int failed;

    state->dtype_number = PyDict_New();
    if (!state->dtype_number) return -1;
#define X(NAME, name, number, bits, class) room = room > (number) ? room : (number) + 1;
    BP_DTYPES(X)
#undef X
    state->dtype_name = PyTuple_New((Py_ssize_t)room);
    if (!state->dtype_name) return -1;
    for (uint32_t i = 0; i < room; i++) {
        PyObject *name = PyUnicode_InternFromString(bp_dtype_name((enum bp_dtype)i));
        if (!name || PyTuple_SetItem(state->dtype_name, (Py_ssize_t)i, name)) return -1;
    }
    failed = 0;
#define X(NAME, name, number, bits, class) \
    failed = failed || dtype_add(state, #name, number) || \
             ((number) != BP_BOOL && PyModule_AddStringConstant(module, #name, #name));
    BP_DTYPES(X)
#undef X
    for (size_t i = 0; i < sizeof dtype_alias / sizeof *dtype_alias && !failed; i++)
        failed = dtype_add(state, dtype_alias[i].name, dtype_alias[i].dtype);
    return failed ? -1 : PyModule_AddObjectRef(module, "_dtype_numbers", state->dtype_number);
}

/* The name of a dtype object of another package, as a new reference: "float32" of numpy.float32 and
 * of torch.float32. */
static PyObject *dtype_foreign_name(PyObject *what)
{
    static const char *const places[] = {"name", "__name__"};
    PyObject *text, *parts, *last;

    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        PyObject *name = PyObject_GetAttrString(what, places[i]);
        if (name && PyUnicode_Check(name)) return name;
        PyErr_Clear();
        Py_XDECREF(name);
    }
    text = PyObject_Str(what);
    parts = text ? PyObject_CallMethod(text, "split", "s", ".") : NULL;
    last = parts ? PySequence_GetItem(parts, -1) : NULL;
    Py_XDECREF(text);
    Py_XDECREF(parts);
    return last;
}

int py_dtype_find(struct py_state *state, PyObject *what, uint32_t *out_dtype)
{
    PyObject *name = what, *number;

    if (!PyUnicode_Check(what)) name = dtype_foreign_name(what);
    else Py_INCREF(name);
    if (!name) return -1;
    number = PyDict_GetItemWithError(state->dtype_number, name);
    if (!number) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%R is no dtype; there are f32, i64, bool, ...", what);
        Py_DECREF(name);
        return -1;
    }
    *out_dtype = (uint32_t)PyLong_AsUnsignedLong(number);
    Py_DECREF(name);
    return 0;
}

PyObject *py_dtype_name(struct py_state *state, uint32_t dtype)
{
    PyObject *name = PyTuple_GetItem(state->dtype_name, (Py_ssize_t)dtype);

    Py_XINCREF(name);
    return name;
}

const char *py_dtype_format(uint32_t dtype)
{
    return dtype < sizeof dtype_format / sizeof *dtype_format ? dtype_format[dtype] : NULL;
}

uint32_t py_dtype_of_format(const char *format, Py_ssize_t size)
{
    static const char letters[] = "?bBhHiIlLqQnN";
    static const uint32_t of_size[2][9] = {{[1] = BP_U8, [2] = BP_U16, [4] = BP_U32, [8] = BP_U64},
                                           {[1] = BP_I8, [2] = BP_I16, [4] = BP_I32, [8] = BP_I64}};

    if (!format) return size == 1 ? (uint32_t)BP_U8 : PY_DTYPE_NONE;
    if (*format == '@' || *format == '=' || *format == '<') format++;
    if (!strcmp(format, "e")) return BP_F16;
    if (!strcmp(format, "f")) return BP_F32;
    if (!strcmp(format, "d")) return BP_F64;
    if (!strcmp(format, "Zf")) return BP_C64;
    if (!strcmp(format, "Zd")) return BP_C128;
    if (!*format || format[1] || !strchr(letters, *format) || size > 8) return PY_DTYPE_NONE;
    if (*format == '?') return BP_BOOL;
    return of_size[*format >= 'a'][size];
}

size_t py_dtype_size(uint32_t dtype)
{
    return bp_dtype_bits((enum bp_dtype)dtype) / 8;
}
