/* SPDX-License-Identifier: Apache-2.0 */
/* through.c: preloaded into a program that calls operators, makes each such call through the Python
 * package: it converts the call to a call of the function in backplane.ops with Python arguments,
 * and returns that result. So the conformance suite's kernel cases test the package.
 *
 * Calls that graphs record, calls with a `want`, and calls that the package itself makes go to the
 * library. At exit the number of calls that went through Python is written to the file that
 * BP_TEST_THROUGH names; THROUGH_PACKAGE is the folder of the package. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <backplane/backplane.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SCOPES = 4096
};

static _Thread_local bool inside; /* this thread is in a call of Python */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    struct bp_scope *scope;
    struct bp_stream *stream;
} known[SCOPES]; /* by a hash of the scope */
static PyObject *extension, *operators;
static PyThreadState *idle;
static unsigned long calls, failures;

static void *library_function(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);

    if (!found) abort();
    return found;
}

static size_t scope_slot(const struct bp_scope *scope)
{
    return ((uintptr_t)scope >> 4) * 2654435761u % SCOPES;
}

/* Remembers which stream a scope belongs to. */
struct bp_scope *bp_stream_scope(struct bp_stream *stream)
{
    struct bp_scope *(*real)(struct bp_stream *) = (struct bp_scope * (*)(struct bp_stream *))
        library_function("bp_stream_scope");
    struct bp_scope *scope = real(stream);

    if (!scope || inside) return scope;
    pthread_mutex_lock(&lock);
    known[scope_slot(scope)].scope = scope;
    known[scope_slot(scope)].stream = stream;
    pthread_mutex_unlock(&lock);
    return scope;
}

static struct bp_stream *stream_of(struct bp_scope *scope)
{
    struct bp_stream *stream = NULL;

    pthread_mutex_lock(&lock);
    if (known[scope_slot(scope)].scope == scope) stream = known[scope_slot(scope)].stream;
    pthread_mutex_unlock(&lock);
    return stream;
}

static void through_report(void)
{
    const char *path = getenv("BP_TEST_THROUGH");
    FILE *file = path ? fopen(path, "a") : NULL;

    if (!file) return;
    fprintf(file, "%lu %lu\n", calls, failures);
    fclose(file);
}

static void through_start(void)
{
    PyObject *path, *folder;

    Py_InitializeEx(0);
    path = PySys_GetObject("path");
    folder = PyUnicode_FromString(getenv("THROUGH_PACKAGE") ? getenv("THROUGH_PACKAGE") : "");
    if (!path || !folder || PyList_Insert(path, 0, folder)) abort();
    extension = PyImport_ImportModule("backplane");
    if (extension) extension = PyObject_GetAttrString(extension, "_backplane");
    operators = extension ? PyObject_GetAttrString(extension, "_operators") : NULL;
    if (!operators) {
        PyErr_Print();
        abort();
    }
    atexit(through_report);
    idle = PyEval_SaveThread();
}

/* ---- arguments ---- */

static PyObject *tensor_object(struct bp_tensor *tensor)
{
    PyObject *capsule, *object;

    if (!tensor) Py_RETURN_NONE;
    capsule = PyCapsule_New(tensor, "bp_tensor", NULL);
    object = capsule ? PyObject_CallMethod(extension, "_foreign_tensor", "O", capsule) : NULL;
    Py_XDECREF(capsule);
    return object;
}

static PyObject *integers_tuple(const int64_t *at, int64_t n)
{
    PyObject *tuple = PyTuple_New((Py_ssize_t)n);

    for (int64_t i = 0; tuple && i < n; i++)
        PyTuple_SetItem(tuple, (Py_ssize_t)i, PyLong_FromLongLong(at[i]));
    return tuple;
}

static PyObject *attr_object(const struct bp_attr *attr, const void *attrs)
{
    const void *field = (const char *)attrs + attr->offset;
    struct bp_dims dims;
    int64_t integer;
    double number;

    memcpy(&integer, field, sizeof integer);
    switch (attr->kind) {
    case BP_ATTR_F64: memcpy(&number, field, sizeof number); return PyFloat_FromDouble(number);
    case BP_ATTR_FLAG: return PyBool_FromLong(integer != 0);
    case BP_ATTR_DTYPE: return PyUnicode_FromString(bp_dtype_name((enum bp_dtype)integer));
    case BP_ATTR_INTS: return integers_tuple(field, attr->count);
    case BP_ATTR_DIMS: memcpy(&dims, field, sizeof dims); return integers_tuple(dims.at, dims.n);
    default: return PyLong_FromLongLong(integer);
    }
}

static PyObject *arg_object(const struct bp_port *port, const struct bp_arg *arg)
{
    PyObject *list;

    if (port->kind != BP_PORT_VAR) return tensor_object(arg->n ? arg->at[0] : NULL);
    list = PyList_New((Py_ssize_t)arg->n);
    for (size_t i = 0; list && i < arg->n; i++) {
        PyObject *item = tensor_object(arg->at[i]);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item)) Py_CLEAR(list);
    }
    return list;
}

static int words_add(PyObject *words, const char *name, PyObject *value)
{
    int failed = !value || PyDict_SetItemString(words, name, value);

    Py_XDECREF(value);
    return failed;
}

/* Whether the tensor of a port supplies an attribute, which then has no value of its own. */
static bool given_by_tensor(const struct bp_opinfo *info, const struct bp_call *call,
                            const char *name)
{
    for (size_t i = 0; i < call->n_in; i++)
        if (!strcmp(info->in[i].name, name) && call->in[i].n && call->in[i].at[0]) return true;
    return false;
}

static PyObject *call_words(const struct bp_opinfo *info, const struct bp_call *call,
                            struct bp_tensor **out, size_t n_out)
{
    PyObject *words = PyDict_New(), *list = PyList_New((Py_ssize_t)n_out);
    bool given = false, failed = !words || !list;

    for (uint32_t i = 0; !failed && call->attrs && i < info->n_attr; i++)
        if (!given_by_tensor(info, call, info->attr[i].name))
            failed = words_add(words, info->attr[i].name, attr_object(&info->attr[i], call->attrs));
    for (size_t i = 0; !failed && i < n_out; i++) {
        PyObject *item = tensor_object(out[i]);
        given = given || out[i];
        failed = !item || PyList_SetItem(list, (Py_ssize_t)i, item);
    }
    if (!failed) failed = words_add(words, "outputs", PyLong_FromSize_t(n_out));
    if (!failed && given) failed = PyDict_SetItemString(words, "out", list);
    if (!failed && call->kernel)
        failed = words_add(words, "row", PyUnicode_FromString(call->kernel));
    Py_XDECREF(list);
    if (failed) Py_CLEAR(words);
    return words;
}

static PyObject *call_inputs(const struct bp_opinfo *info, const struct bp_call *call)
{
    PyObject *args = PyTuple_New((Py_ssize_t)call->n_in);

    for (size_t i = 0; args && i < call->n_in; i++) {
        PyObject *item = arg_object(&info->in[i], &call->in[i]);
        /* A host input that is absent, beside an attribute: the attribute is given by its name. */
        if (!item || PyTuple_SetItem(args, (Py_ssize_t)i, item)) Py_CLEAR(args);
    }
    return args;
}

/* ---- the call ---- */

/* The status of a Python exception, whose text becomes the message. */
static enum bp_status status_of_exception(void)
{
    PyObject *type, *value, *trace, *number, *text;
    enum bp_status status = BP_ERR_INTERNAL;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    number = PyObject_GetAttrString(value, "status");
    if (number) status = (enum bp_status)PyLong_AsLong(number);
    PyErr_Clear();
    text = PyObject_Str(value);
    if (text) bp_error_set(status, PyUnicode_AsUTF8(text));
    Py_XDECREF(number);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return status;
}

/* Sets the outputs that the caller left to the call: a handle of its own for each. */
static enum bp_status through_results(PyObject *result, struct bp_tensor **out, size_t n_out)
{
    for (size_t i = 0; i < n_out; i++) {
        PyObject *item = PyTuple_Check(result) ? PyTuple_GetItem(result, (Py_ssize_t)i) : result;
        struct bp_tensor_info info = {.size = sizeof info};
        struct bp_tensor *handle;
        PyObject *capsule;

        if (out[i] || !item || item == Py_None) continue;
        capsule = PyObject_CallMethod(extension, "_foreign_handle", "O", item);
        if (!capsule) return status_of_exception();
        handle = PyCapsule_GetPointer(capsule, "bp_tensor");
        Py_DECREF(capsule);
        bp_tensor_get_info(handle, &info);
        if (bp_tensor_view(handle, 0, info.rank, info.shape, info.stride, &out[i]))
            return BP_ERR_INTERNAL;
    }
    return BP_OK;
}

static enum bp_status through_call(struct bp_stream *stream, const struct bp_opinfo *info,
                                   const struct bp_call *call, struct bp_tensor **out, size_t n_out)
{
    PyObject *capsule = PyCapsule_New(stream, "bp_stream", NULL);
    PyObject *scope, *entered, *left, *result = NULL;
    PyObject *args = call_inputs(info, call), *words = call_words(info, call, out, n_out);
    PyObject *function = PyObject_CallMethod(extension, "operator", "s", info->name);
    enum bp_status status;

    scope = capsule ? PyObject_CallMethod(extension, "_foreign_stream", "O", capsule) : NULL;
    entered = scope ? PyObject_CallMethod(scope, "__enter__", NULL) : NULL;
    if (entered && args && words && function) result = PyObject_Call(function, args, words);
    status = result ? through_results(result, out, n_out) : status_of_exception();
    left = entered ? PyObject_CallMethod(scope, "__exit__", NULL) : NULL;
    Py_XDECREF(left);
    Py_XDECREF(entered);
    Py_XDECREF(scope);
    Py_XDECREF(capsule);
    Py_XDECREF(args);
    Py_XDECREF(words);
    Py_XDECREF(function);
    Py_XDECREF(result);
    return status;
}

enum bp_status bp_call_run(struct bp_scope *scope, const struct bp_call *call,
                           struct bp_tensor **out, size_t n_out, const uint8_t *want)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    enum bp_status (*real)(struct bp_scope *, const struct bp_call *, struct bp_tensor **, size_t,
                           const uint8_t *) = NULL;
    const struct bp_opinfo *info = call && call->op ? bp_opinfo_find(call->op) : NULL;
    struct bp_stream *stream = inside || !scope ? NULL : stream_of(scope);
    PyGILState_STATE gil;
    enum bp_status status;

    /* A given output whose extents depend on data gets other extents, which a view has not. */
    if (info && info->flags & BP_OP_BOUND)
        for (size_t i = 0; i < n_out; i++) stream = out[i] ? NULL : stream;
    if (inside || !stream || !info || want || !n_out) {
        *(void **)&real = library_function("bp_call_run");
        return real(scope, call, out, n_out, want);
    }
    pthread_once(&once, through_start);
    inside = true;
    gil = PyGILState_Ensure();
    status = through_call(stream, info, call, out, n_out);
    __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    if (status) __atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED);
    PyGILState_Release(gil);
    inside = false;
    return status;
}
