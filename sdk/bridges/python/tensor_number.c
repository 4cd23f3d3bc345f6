/* SPDX-License-Identifier: Apache-2.0 */
/* tensor_number.c: Python's operators on tensors, as calls of Backplane's operators. A number
 * becomes a tensor of the other operand's dtype. */
#include "module.h"

static struct py_state *number_state(PyObject *a, PyObject *b)
{
    return PyType_GetModuleState(Py_TYPE(!b || py_tensor_any(a) ? a : b));
}

/* Whether a call can convert an operand. Operands of other types, as symbols of other packages,
 * have operators of their own, which Python then calls. */
static bool number_converts(PyObject *what)
{
    if (py_tensor_any(what) || PyNumber_Check(what) || PyObject_CheckBuffer(what)) return true;
    if (PySequence_Check(what)) return !PyUnicode_Check(what);
    return PyObject_HasAttrString(what, "__dlpack__");
}

static PyObject *number_call(const char *op, PyObject *a, PyObject *b)
{
    PyObject *args[2] = {a, b};

    if (b && !(number_converts(a) && number_converts(b))) Py_RETURN_NOTIMPLEMENTED;
    return py_call_name(number_state(a, b), op, args, b ? 2 : 1);
}

PyObject *py_number_add(PyObject *a, PyObject *b)
{
    return number_call("add", a, b);
}

PyObject *py_number_sub(PyObject *a, PyObject *b)
{
    return number_call("sub", a, b);
}

PyObject *py_number_mul(PyObject *a, PyObject *b)
{
    return number_call("mul", a, b);
}

PyObject *py_number_div(PyObject *a, PyObject *b)
{
    return number_call("div", a, b);
}

PyObject *py_number_floor_divide(PyObject *a, PyObject *b)
{
    return number_call("floor_divide", a, b);
}

PyObject *py_number_mod(PyObject *a, PyObject *b)
{
    return number_call("mod", a, b);
}

PyObject *py_number_matmul(PyObject *a, PyObject *b)
{
    return number_call("matmul", a, b);
}

PyObject *py_number_bitwise_and(PyObject *a, PyObject *b)
{
    return number_call("bitwise_and", a, b);
}

PyObject *py_number_bitwise_or(PyObject *a, PyObject *b)
{
    return number_call("bitwise_or", a, b);
}

PyObject *py_number_bitwise_xor(PyObject *a, PyObject *b)
{
    return number_call("bitwise_xor", a, b);
}

PyObject *py_number_left_shift(PyObject *a, PyObject *b)
{
    return number_call("left_shift", a, b);
}

PyObject *py_number_right_shift(PyObject *a, PyObject *b)
{
    return number_call("right_shift", a, b);
}

PyObject *py_number_neg(PyObject *a)
{
    return number_call("neg", a, NULL);
}

PyObject *py_number_abs(PyObject *a)
{
    return number_call("abs", a, NULL);
}

PyObject *py_number_bitwise_not(PyObject *a)
{
    return number_call("bitwise_not", a, NULL);
}

PyObject *py_number_power(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
    return number_call("pow", a, b);
}

PyObject *py_number_positive(PyObject *a)
{
    Py_INCREF(a);
    return a;
}

PyObject *py_number_compare(PyObject *a, PyObject *b, int how)
{
    static const char *const op[] = {
        [Py_LT] = "less_than", [Py_LE] = "less_equal",   [Py_EQ] = "equal",
        [Py_NE] = "not_equal", [Py_GT] = "greater_than", [Py_GE] = "greater_equal"};

    return number_call(op[how], a, b);
}
