/* SPDX-License-Identifier: Apache-2.0 */
/* error.c: makes the exception classes, one for each status, and raises them with the library's
 * messages. */
#include "module.h"
#include <stdio.h>
#include <string.h>

/* Statuses whose exception is also one of Python's own, and those whose name would be Python's. */
static const struct {
    enum bp_status status;
    const char *name;      /* NULL: from the name of the status */
    PyObject *const *also; /* NULL: none */
} error_table[] = {
    {BP_ERR_INVALID, NULL, &PyExc_ValueError},
    {BP_ERR_UNSUPPORTED, NULL, &PyExc_NotImplementedError},
    {BP_ERR_MEMORY, "OutOfMemoryError", &PyExc_MemoryError},
    {BP_ERR_NOT_FOUND, NULL, &PyExc_LookupError},
    {BP_ERR_TIMEOUT, NULL, &PyExc_TimeoutError},
    {BP_ERR_NO_KERNEL, NULL, &PyExc_NotImplementedError},
};

/* The name of the class of a status: "DeviceLostError" of ERR_DEVICE_LOST. */
static void error_class_name(const char *status, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "backplane.");
    bool capital = true;

    for (const char *c = status + strlen("ERR_"); *c && n + 8 < size; c++) {
        if (*c == '_') capital = true;
        else {
            out[n++] = (char)(capital ? *c : *c - 'A' + 'a');
            capital = false;
        }
    }
    snprintf(out + n, size - n, "Error");
}

static int error_class_add(struct py_state *state, PyObject *module, enum bp_status status,
                           const char *name)
{
    char full[64];
    PyObject *also = NULL, *bases;

    error_class_name(name, full, sizeof full);
    for (size_t i = 0; i < sizeof error_table / sizeof *error_table; i++) {
        if (error_table[i].status != status) continue;
        also = *error_table[i].also;
        if (error_table[i].name) snprintf(full, sizeof full, "backplane.%s", error_table[i].name);
    }
    bases = also ? PyTuple_Pack(2, state->error, also) : PyTuple_Pack(1, state->error);
    if (!bases) return -1;
    state->error_of[status] = PyErr_NewExceptionWithDoc(full, bp_status_text(status), bases, NULL);
    Py_DECREF(bases);
    if (!state->error_of[status]) return -1;
    return PyModule_AddObjectRef(module, strchr(full, '.') + 1, state->error_of[status]);
}

int py_errors_init(struct py_state *state, PyObject *module)
{
    int failed;

    state->error = PyErr_NewExceptionWithDoc(
        "backplane.Error",
        "A failure of Backplane. str() is the library's message; status is the number of the "
        "status code, and status_name its name.",
        PyExc_RuntimeError, NULL);
    failed = !state->error || PyModule_AddObjectRef(module, "Error", state->error);
#define X(name, number, text) \
    if (!failed && (number) != 0) failed = error_class_add(state, module, BP_##name, #name);
    BP_STATUSES(X)
#undef X
    return failed ? -1 : 0;
}

PyObject *py_fail(struct py_state *state, enum bp_status status)
{
    const char *message = bp_error_message();

    if (!*message || status == BP_ERR_NOT_READY) message = bp_status_text(status);
    return py_fail_with(state, status, message);
}

PyObject *py_fail_with(struct py_state *state, enum bp_status status, const char *message)
{
    PyObject *type = (size_t)status < PY_STATUS_COUNT ? state->error_of[status] : NULL;
    PyObject *text, *error, *number, *name;

    if (!type) type = state->error;
    text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)strlen(message), "replace");
    error = text ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
    number = PyLong_FromLong((long)status);
    name = PyUnicode_FromString(bp_status_name(status));
    if (error && number && name && !PyObject_SetAttrString(error, "status", number) &&
        !PyObject_SetAttrString(error, "status_name", name))
        PyErr_SetObject(type, error);
    Py_XDECREF(text);
    Py_XDECREF(error);
    Py_XDECREF(number);
    Py_XDECREF(name);
    return NULL;
}
