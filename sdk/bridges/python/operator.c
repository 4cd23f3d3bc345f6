/* SPDX-License-Identifier: Apache-2.0 */
/* operator.c: makes a built-in function of Python for each operator: of the table at import, of
 * plugins when it is first needed. */
#include "module.h"
#include <stdlib.h>
#include <string.h>

static void operator_dealloc(PyObject *self)
{
    struct py_operator *op = (struct py_operator *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    for (int i = 0; op->port && i < op->info->n_in; i++) Py_XDECREF(op->port[i]);
    for (int i = 0; op->attr && i < op->info->n_attr; i++) Py_XDECREF(op->attr[i]);
    free(op->port);
    free(op->attr);
    free(op->port_attr);
    free(op->doc);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static int operator_names(struct py_operator *op)
{
    const struct bp_opinfo *info = op->info;

    op->port = calloc((size_t)info->n_in + 1, sizeof *op->port);
    op->attr = calloc((size_t)info->n_attr + 1, sizeof *op->attr);
    op->port_attr = calloc((size_t)info->n_in + 1, sizeof *op->port_attr);
    if (!op->port || !op->attr || !op->port_attr) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < info->n_attr; i++)
        if (!(op->attr[i] = PyUnicode_InternFromString(info->attr[i].name))) return -1;
    for (int i = 0; i < info->n_in; i++) {
        if (!(op->port[i] = PyUnicode_InternFromString(info->in[i].name))) return -1;
        op->port_attr[i] = -1;
        for (int a = 0; info->in[i].kind == BP_PORT_HOST && a < info->n_attr; a++)
            if (!strcmp(info->attr[a].name, info->in[i].name)) op->port_attr[i] = a;
    }
    return 0;
}

static struct py_operator *operator_create(struct py_state *state, const struct bp_opinfo *info)
{
    struct py_operator *op = (struct py_operator *)PyType_GenericAlloc(state->type.operator_info,
                                                                       0);
    const char *dot = strrchr(info->name, '.');

    if (!op) return NULL;
    op->state = state;
    op->info = info;
    if (operator_names(op) || !(op->doc = py_operator_doc(op))) {
        Py_DECREF((PyObject *)op);
        return NULL;
    }
    op->method = (PyMethodDef){dot ? dot + 1 : info->name,
                               (PyCFunction)(void (*)(void))py_operator_call,
                               METH_FASTCALL | METH_KEYWORDS, op->doc};
    return op;
}

/* Adds the function of an operator to a dict, by all of its names. */
static int operator_publish(struct py_state *state, PyObject *functions, PyObject *place,
                            const struct bp_opinfo *info)
{
    struct py_operator *op = operator_create(state, info);
    PyObject *function = op ? PyCFunction_NewEx(&op->method, (PyObject *)op, place) : NULL;
    char *names = info->alias ? strdup(info->alias) : NULL, *save = NULL;
    int failed = !function || PyDict_SetItemString(functions, info->name, function) ||
                 PyDict_SetItemString(state->operators, info->name, (PyObject *)op);

    for (char *name = names ? strtok_r(names, " ", &save) : NULL; name && !failed;
         name = strtok_r(NULL, " ", &save))
        failed = PyDict_SetItemString(functions, name, function);
    free(names);
    Py_XDECREF(function);
    Py_XDECREF((PyObject *)op);
    return failed ? -1 : 0;
}

int py_operators_init(struct py_state *state, PyObject *module)
{
    PyObject *functions = PyDict_New(), *place = PyUnicode_FromString("backplane.ops");
    int failed = !functions || !place || !(state->operators = PyDict_New());

    for (uint32_t i = 0; !failed && i < bp_opinfo_count(); i++)
        failed = operator_publish(state, functions, place, bp_opinfo_at(i));
    if (!failed) failed = PyModule_AddObjectRef(module, "_operators", functions);
    Py_XDECREF(functions);
    Py_XDECREF(place);
    return failed ? -1 : 0;
}

PyObject *py_operator_find(PyObject *module, PyObject *name)
{
    struct py_state *state = PyModule_GetState(module);
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    const struct bp_opinfo *info = text ? bp_opinfo_find(text) : NULL;
    PyObject *functions = PyObject_GetAttrString(module, "_operators"), *function, *place;

    if (!info || !functions) {
        if (!PyErr_Occurred())
            PyErr_Format(state->error_of[BP_ERR_NOT_FOUND],
                         "%R is no operator; one of a plugin is known once a device of the plugin "
                         "has been opened",
                         name);
        Py_XDECREF(functions);
        return NULL;
    }
    function = PyDict_GetItemWithError(functions, name);
    if (!function && !PyErr_Occurred()) {
        place = PyUnicode_FromString("backplane.ops");
        if (place && !operator_publish(state, functions, place, info))
            function = PyDict_GetItemWithError(functions, name);
        Py_XDECREF(place);
    }
    Py_XINCREF(function);
    Py_DECREF(functions);
    return function;
}

PyObject *py_call_name(struct py_state *state, const char *name, PyObject *const *args,
                       Py_ssize_t n)
{
    PyObject *op = PyDict_GetItemString(state->operators, name);

    if (op) return py_operator_call(op, args, n, NULL);
    PyErr_Format(PyExc_SystemError, "there is no operator %s", name);
    return NULL;
}

static PyType_Slot operator_slots[] = {
    {Py_tp_dealloc, operator_dealloc},
    {Py_tp_traverse, py_visit_type},
    {0},
};
PyType_Spec py_operator_spec = {"backplane._Operator", sizeof(struct py_operator), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                    Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                operator_slots};
