/* SPDX-License-Identifier: Apache-2.0 */
/* module.c: the extension module backplane._backplane: its types, its functions and its life. The
 * package backplane re-exports all of it. */
#include "module.h"
#include <dlfcn.h>
#include <string.h>

/* A libbackplane that is in the process already serves this module too, whichever package has
 * loaded it: its version has to be the one that the module was built for. */
static int version_check(void)
{
    Dl_info place = {0};

    if (!strcmp(bp_version(), BP_VERSION)) return 0;
    dladdr((void *)(uintptr_t)bp_version, &place);
    PyErr_Format(PyExc_ImportError,
                 "backplane %s needs libbackplane %s, but this process has %s of %s; import one "
                 "version in one process",
                 BP_VERSION, BP_VERSION, bp_version(), place.dli_fname ? place.dli_fname : "?");
    return -1;
}

static int module_types(struct py_state *state, PyObject *module)
{
    const struct {
        PyType_Spec *spec;
        PyTypeObject **type;
        const char *name; /* NULL: not public */
    } table[] = {
        {&py_device_spec, &state->type.device, "Device"},
        {&py_stream_spec, &state->type.stream, "Stream"},
        {&py_event_spec, &state->type.event, "Event"},
        {&py_tensor_spec, &state->type.tensor, "Tensor"},
        {&py_graph_spec, &state->type.graph, "Graph"},
        {&py_program_spec, &state->type.program, "Program"},
        {&py_model_spec, &state->type.model, "Model"},
        {&py_comm_spec, &state->type.comm, "Comm"},
        {&py_generator_spec, &state->type.generator, "Generator"},
        {&py_profile_spec, &state->type.profile, "profile"},
        {&py_operator_spec, &state->type.operator_info, NULL},
    };

    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        PyObject *type = PyType_FromModuleAndSpec(module, table[i].spec, NULL);

        if (!type) return -1;
        *table[i].type = (PyTypeObject *)type;
        if (table[i].name && PyModule_AddObjectRef(module, table[i].name, type)) return -1;
    }
    return 0;
}

static int module_exec(PyObject *module)
{
    struct py_state *state = PyModule_GetState(module);

    if (version_check()) return -1;
    state->devices = PyDict_New();
    state->ledger = py_ledger_create();
    state->word_out = PyUnicode_InternFromString("out");
    state->word_outputs = PyUnicode_InternFromString("outputs");
    state->word_row = PyUnicode_InternFromString("row");
    if (!state->devices || !state->ledger || !state->word_out || !state->word_outputs ||
        !state->word_row)
        return -1;
    if (py_errors_init(state, module) || py_dtypes_init(state, module) ||
        module_types(state, module) || py_operators_init(state, module))
        return -1;
    return PyModule_AddStringConstant(module, "__version__", BP_VERSION);
}

/* The module and its types refer to each other: without all of these references the collector would
 * keep a module that nothing uses. */
static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    struct py_state *state = PyModule_GetState(module);
    PyTypeObject **type = (PyTypeObject **)&state->type;

    Py_VISIT(state->host);
    Py_VISIT(state->devices);
    Py_VISIT(state->operators);
    Py_VISIT(state->dtype_number);
    Py_VISIT(state->dtype_name);
    for (size_t i = 0; i < sizeof state->type / sizeof *type; i++) Py_VISIT(type[i]);
    for (size_t i = 0; i < PY_STATUS_COUNT; i++) Py_VISIT(state->error_of[i]);
    Py_VISIT(state->error);
    return 0;
}

int py_visit_type(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int module_clear(PyObject *module)
{
    struct py_state *state = PyModule_GetState(module);
    PyTypeObject **type = (PyTypeObject **)&state->type;

    Py_CLEAR(state->host);
    Py_CLEAR(state->operators);
    Py_CLEAR(state->devices);
    for (size_t i = 0; i < sizeof state->type / sizeof *type; i++) Py_CLEAR(type[i]);
    for (size_t i = 0; i < PY_STATUS_COUNT; i++) Py_CLEAR(state->error_of[i]);
    Py_CLEAR(state->error);
    Py_CLEAR(state->dtype_number);
    Py_CLEAR(state->dtype_name);
    Py_CLEAR(state->plugin_path);
    Py_CLEAR(state->word_out);
    Py_CLEAR(state->word_outputs);
    Py_CLEAR(state->word_row);
    return 0;
}

static void module_free(void *module)
{
    struct py_state *state = PyModule_GetState(module);

    module_clear(module);
    if (state->core) bp_core_destroy(state->core);
    state->core = NULL;
    if (state->ledger) py_ledger_close(state->ledger);
    state->ledger = NULL;
}

/* The Python part of the package, which C code calls. */
static PyObject *module_set_host(PyObject *module, PyObject *host)
{
    struct py_state *state = PyModule_GetState(module);
    PyObject *before = state->host;

    Py_INCREF(host);
    state->host = host;
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* In a forked child: handles of the parent are stale, so the core and devices are opened anew. */
static PyObject *module_after_fork(PyObject *module, PyObject *unused)
{
    struct py_state *state = PyModule_GetState(module);
    PyObject *devices = PyDict_New(), *before = state->devices;

    (void)unused;
    if (!devices) return NULL;
    state->ledger = py_ledger_create(); /* the lock of the former one may be held */
    if (!state->ledger) return NULL;
    state->core = NULL;
    state->devices = devices;
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *module_einsum_labels(PyObject *module, PyObject *equation)
{
    const char *text = PyUnicode_Check(equation) ? PyUnicode_AsUTF8AndSize(equation, NULL) : NULL;
    enum bp_status status;
    int64_t labels[64];
    size_t n = 0;

    if (!text) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "an equation is a string");
        return NULL;
    }
    status = bp_einsum_labels(text, labels, sizeof labels / sizeof *labels, &n);
    if (status) return py_fail(PyModule_GetState(module), status);
    return py_shape_tuple(labels, (uint32_t)n);
}

static PyObject *module_load_plugin(PyObject *module, PyObject *path)
{
    struct py_state *state = PyModule_GetState(module);
    PyObject *bytes = NULL;
    PyThreadState *thread;
    enum bp_status status;
    const char *name;

    if (py_core_open(state) || !PyUnicode_FSConverter(path, &bytes)) return NULL;
    name = PyBytes_AsString(bytes);
    thread = PyEval_SaveThread();
    status = bp_core_load_path(state->core, name, NULL);
    PyEval_RestoreThread(thread);
    Py_DECREF(bytes);
    if (status) return py_fail(state, status);
    Py_RETURN_NONE;
}

/* Opens a library by its name: the one that the process has, else the one of the package. */
static PyObject *module_open_library(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;

    (void)module;
    if (!text) return NULL;
    return PyBool_FromLong(dlopen(text, RTLD_NOW | RTLD_LOCAL) != NULL);
}

static PyMethodDef module_methods[] = {
    {"_open_library", module_open_library, METH_O, NULL},
    {"_foreign_tensor", py_foreign_tensor, METH_O, NULL},
    {"_foreign_stream", py_foreign_stream, METH_O, NULL},
    {"_foreign_handle", py_foreign_handle, METH_O, NULL},
    {"asarray", (PyCFunction)(void (*)(void))py_asarray, METH_VARARGS | METH_KEYWORDS,
     "asarray(x, dtype=None, device=None, copy=None)\n--\n\nA tensor of any object: of its memory "
     "where the device can use it (DLPack, the buffer protocol), else of a copy. copy: True always "
     "copies, False never does."},
    {"empty", (PyCFunction)(void (*)(void))py_empty, METH_VARARGS | METH_KEYWORDS,
     "empty(shape, dtype='f32', device=None)\n--\n\nA tensor with undefined elements."},
    {"from_dlpack", (PyCFunction)(void (*)(void))py_from_dlpack, METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\nA tensor over the memory of an object of "
     "another package, without a copy unless `device` needs one."},
    {"plugins", py_plugins, METH_NOARGS,
     "plugins()\n--\n\nThe plugins that were found, each as a dict: with the reason why it cannot "
     "be used."},
    {"devices", py_device_names, METH_NOARGS, "devices()\n--\n\nThe names of all devices."},
    {"load_plugin", module_load_plugin, METH_O,
     "load_plugin(path, /)\n--\n\nLoads a plugin by the absolute path of its library."},
    {"operator", py_operator_find, METH_O,
     "operator(name, /)\n--\n\nThe function of an operator: also of one that a plugin defines, "
     "DOMAIN.NAME."},
    {"comm_id", py_comm_id, METH_NOARGS,
     "comm_id()\n--\n\nMakes the id of a communicator, for all of its ranks."},
    {"mark", py_mark, METH_O,
     "mark(name, /)\n--\n\nRecords a moment under a name in the profile, if one is recorded."},
    {"_range_begin", py_range_begin, METH_O, NULL},
    {"_range_end", py_range_end, METH_NOARGS, NULL},
    {"_einsum_labels", module_einsum_labels, METH_O, NULL},
    {"_cast", py_cast_now, METH_VARARGS, NULL},
    {"_set_host", module_set_host, METH_O, NULL},
    {"_after_fork", module_after_fork, METH_NOARGS, NULL},
    {"_synchronize_all", py_synchronize_all, METH_O, NULL},
    {0},
};
/* Slots that Python before 3.12 does not know: the module may be imported by interpreters with a
 * GIL of their own, because all that its files share is behind locks or constant. */
enum {
    MULTIPLE_INTERPRETERS = 3,
    OWN_GIL_SUPPORTED = 2
};

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, module_exec},
    {0},
    {0},
};
static struct PyModuleDef module_definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "backplane._backplane",
    .m_doc = "Devices, tensors and operators of Backplane.",
    .m_size = sizeof(struct py_state),
    .m_methods = module_methods,
    .m_slots = module_slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__backplane(void);
PyMODINIT_FUNC PyInit__backplane(void)
{
    if (Py_Version >= 0x030c0000)
        module_slots[1] = (PyModuleDef_Slot){MULTIPLE_INTERPRETERS,
                                             (void *)(uintptr_t)OWN_GIL_SUPPORTED};
    return PyModuleDef_Init(&module_definition);
}
