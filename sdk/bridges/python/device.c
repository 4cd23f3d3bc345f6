/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: opens the core and devices by name, and describes devices and plugins. Each device has
 * one Device object, whose default stream runs all calls outside of `with stream:` blocks. */
#include "module.h"
#include <backplane/runtime.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int py_core_open(struct py_state *state)
{
    struct bp_core_options options = {.size = sizeof options};
    struct bp_core *core = NULL;
    PyThreadState *thread;
    enum bp_status status;

    if (state->core) return 0;
    if (!state->plugin_path) {
        state->plugin_path = PyObject_CallMethod(state->host, "plugin_path", NULL);
        if (!state->plugin_path) return -1;
    }
    options.plugin_path = PyUnicode_AsUTF8AndSize(state->plugin_path, NULL);
    if (!options.plugin_path) return -1;
    thread = PyEval_SaveThread();
    status = bp_core_create(&options, &core);
    PyEval_RestoreThread(thread);
    if (status) return py_fail(state, status) ? 0 : -1;
    if (state->core) bp_core_destroy(core); /* another thread was faster */
    else state->core = core;
    return 0;
}

PyObject *py_device_wrap(struct py_state *state, struct bp_device *handle)
{
    struct bp_device_properties properties = {.size = sizeof properties};
    struct py_device *device;
    struct bp_stream *stream = NULL;
    const char *digits = strrchr(bp_device_name(handle), ':');
    enum bp_status status = bp_device_get_properties(handle, &properties);

    if (!status) status = bp_stream_create(handle, &stream);
    device = status ? NULL : (struct py_device *)PyType_GenericAlloc(state->type.device, 0);
    if (!device || py_lane_init(&device->lane, stream)) {
        bp_stream_destroy(stream);
        bp_device_destroy(handle);
        Py_XDECREF((PyObject *)device);
        return status ? py_fail(state, status) : NULL;
    }
    device->state = state;
    device->handle = handle;
    device->flags = properties.flags;
    device->dlpack_type = properties.dlpack_type;
    /* DLPack numbers host memory 0, whatever the number of the device. */
    device->dlpack_id = digits && properties.dlpack_type != 1 ? (uint32_t)atoi(digits + 1) : 0;
    return (PyObject *)device;
}

PyObject *py_device_open(struct py_state *state, const char *name)
{
    PyObject *key = PyUnicode_FromString(name), *found, *canonical = NULL, *made = NULL;
    struct bp_device *handle = NULL;
    PyThreadState *thread;
    enum bp_status status;

    if (!key) return NULL;
    found = PyDict_GetItemWithError(state->devices, key);
    if (found || PyErr_Occurred() || py_core_open(state)) goto done;
    thread = PyEval_SaveThread();
    status = bp_device_create(state->core, name, &handle);
    PyEval_RestoreThread(thread);
    if (status) {
        py_fail(state, status);
        goto done;
    }
    canonical = PyUnicode_FromString(bp_device_name(handle));
    found = canonical ? PyDict_GetItemWithError(state->devices, canonical) : NULL;
    if (found) bp_device_destroy(handle);
    else found = made = py_device_wrap(state, handle);
    if (found && (PyDict_SetItem(state->devices, canonical, found) ||
                  PyDict_SetItem(state->devices, key, found)))
        found = NULL;
done:
    Py_XINCREF(found);
    Py_XDECREF(made);
    Py_XDECREF(canonical);
    Py_DECREF(key);
    return found;
}

PyObject *py_device_of(struct py_state *state, PyObject *what)
{
    PyObject *current = py_scope_current(state), *name, *device;

    if (what && Py_TYPE(what) == state->type.device) {
        Py_INCREF(what);
        return what;
    }
    if (what && PyUnicode_Check(what)) {
        const char *text = PyUnicode_AsUTF8AndSize(what, NULL);
        return text ? py_device_open(state, text) : NULL;
    }
    if (what && what != Py_None) {
        PyErr_Format(PyExc_TypeError, "expected a Device or a name such as \"cpu\", got %R", what);
        return NULL;
    }
    if (current && Py_TYPE(current) == state->type.stream) {
        Py_INCREF(((struct py_stream *)current)->device);
        return ((struct py_stream *)current)->device;
    }
    if (current && Py_TYPE(current) == state->type.graph) {
        Py_INCREF(((struct py_graph *)current)->device);
        return ((struct py_graph *)current)->device;
    }
    name = PyObject_CallMethod(state->host, "default_device_name", NULL);
    if (!name) return NULL;
    device = py_device_of(state, name);
    Py_DECREF(name);
    return device;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"name", NULL};
    PyObject *name = NULL;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:Device", words, &name)) return NULL;
    return py_device_of(PyType_GetModuleState(type), name);
}

static void device_dealloc(PyObject *self)
{
    struct py_device *d = (struct py_device *)self;
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    if (d->state) {
        py_lane_finish(&d->lane);
        bp_device_destroy(d->handle);
    }
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *device_repr(PyObject *self)
{
    struct py_device *d = (struct py_device *)self;

    return PyUnicode_FromFormat("<backplane.Device %s>", bp_device_name(d->handle));
}

static PyObject *device_get_name(PyObject *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(bp_device_name(((struct py_device *)self)->handle));
}

static PyObject *device_get_stream(PyObject *self, void *unused)
{
    (void)unused;
    return py_stream_default(((struct py_device *)self)->state, self);
}

/* The dtypes of a mask, as a tuple of names. */
static PyObject *dtypes_of_mask(struct py_state *state, uint64_t mask)
{
    PyObject *list = PyList_New(0), *tuple;

    for (uint32_t i = 0; list && i < 64; i++) {
        PyObject *name = mask >> i & 1 ? py_dtype_name(state, i) : NULL;
        if (!name) {
            PyErr_Clear();
            continue;
        }
        if (PyList_Append(list, name)) Py_CLEAR(list);
        Py_DECREF(name);
    }
    tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *device_properties(PyObject *self, PyObject *unused)
{
    struct py_device *d = (struct py_device *)self;
    struct bp_device_properties p = {.size = sizeof p};
    enum bp_status status = bp_device_get_properties(d->handle, &p);
    PyObject *dtypes;

    (void)unused;
    if (status) return py_fail(d->state, status);
    dtypes = dtypes_of_mask(d->state, p.dtypes);
    if (!dtypes) return NULL;
    return Py_BuildValue("{s:s,s:s,s:s,s:s,s:K,s:I,s:N,s:N,s:N}", "name", p.name, "driver",
                         p.driver, "arch", p.arch, "pci", p.pci, "memory",
                         (unsigned long long)p.memory, "units", (unsigned)p.units, "inline",
                         PyBool_FromLong(p.flags & BP_DEVICE_INLINE), "host_visible",
                         PyBool_FromLong(p.flags & BP_DEVICE_HOST_VISIBLE), "dtypes", dtypes);
}

static PyObject *device_memory(PyObject *self, PyObject *unused)
{
    struct py_device *d = (struct py_device *)self;
    struct bp_memory_stats m = {.size = sizeof m};
    enum bp_status status = bp_device_memory(d->handle, &m);

    (void)unused;
    if (status) return py_fail(d->state, status);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "reserved",
                         (unsigned long long)m.reserved, "allocated",
                         (unsigned long long)m.allocated, "pending", (unsigned long long)m.pending,
                         "free", (unsigned long long)m.free, "peak", (unsigned long long)m.peak,
                         "limit", (unsigned long long)m.limit, "live", (unsigned long long)m.live);
}

static enum bp_status device_wait_for(void *device, uint64_t timeout_ns)
{
    return timeout_ns == UINT64_MAX ? bp_device_synchronize(device)
                                    : bp_device_synchronize_for(device, timeout_ns);
}

static PyObject *device_synchronize(PyObject *self, PyObject *unused)
{
    struct py_device *d = (struct py_device *)self;

    (void)unused;
    if (py_wait(d->state, device_wait_for, d->handle, -1)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *device_trim(PyObject *self, PyObject *unused)
{
    struct py_device *d = (struct py_device *)self;
    PyThreadState *thread = PyEval_SaveThread();
    enum bp_status status = bp_device_trim(d->handle);

    (void)unused;
    PyEval_RestoreThread(thread);
    if (status) return py_fail(d->state, status);
    Py_RETURN_NONE;
}

/* A list of (operator, kernel row, usable reason) of the device. */
static PyObject *device_kernels(PyObject *self, PyObject *args)
{
    struct py_device *d = (struct py_device *)self;
    PyObject *list = PyList_New(0);
    const char *op = NULL;

    if (!list || !PyArg_ParseTuple(args, "|z:kernels", &op)) {
        Py_XDECREF(list);
        return NULL;
    }
    for (uint32_t i = 0; list && i < bp_device_kernels(d->handle); i++) {
        struct bp_kernel_info k = {.size = sizeof k};
        PyObject *row;

        if (bp_device_kernel(d->handle, i, &k) || (op && strcmp(op, k.op))) continue;
        row = Py_BuildValue("(sss)", k.op, k.name, k.reason);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* The kinds of fallbacks that ran, as (operator, kind, calls, device, reason). */
static PyObject *device_fallbacks(PyObject *self, PyObject *unused)
{
    static const char *const word[] = {
#define X(NAME, number, word, text) [number] = #word,
        BP_FALLBACKS(X)
#undef X
    };
    struct py_device *d = (struct py_device *)self;
    PyObject *list = PyList_New(0);

    (void)unused;
    for (uint32_t i = 0; list && i < bp_device_fallbacks(d->handle); i++) {
        struct bp_fallback_info f = {.size = sizeof f};
        PyObject *row;

        if (bp_device_fallback(d->handle, i, &f)) continue;
        row = Py_BuildValue("(ssKss)", f.op,
                            f.kind < BP_FALLBACK_COUNT && word[f.kind] ? word[f.kind] : "?",
                            (unsigned long long)f.calls, f.where, f.why);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef device_methods[] = {
    {"properties", device_properties, METH_NOARGS,
     "properties($self)\n--\n\nThe device as its driver describes it, as a dict."},
    {"memory", device_memory, METH_NOARGS,
     "memory($self)\n--\n\nBytes that the library holds on the device, as a dict."},
    {"synchronize", device_synchronize, METH_NOARGS,
     "synchronize($self)\n--\n\nWaits for all work on all streams of the device."},
    {"trim", device_trim, METH_NOARGS, "trim($self)\n--\n\nReturns unused memory to the driver."},
    {"kernels", device_kernels, METH_VARARGS,
     "kernels($self, op=None, /)\n--\n\nThe kernel rows (operator, row, reason why this machine "
     "cannot run it or \"\")."},
    {"fallbacks", device_fallbacks, METH_NOARGS,
     "fallbacks($self)\n--\n\nThe fallbacks that ran: (operator, kind, calls, device, reason)."},
    {0},
};
static PyGetSetDef device_getset[] = {
    {"name", device_get_name, NULL, "The name, as \"cpu:0\".", NULL},
    {"stream", device_get_stream, NULL, "The default stream.", NULL},
    {0},
};
static PyType_Slot device_slots[] = {
    {Py_tp_new, device_new},
    {Py_tp_dealloc, device_dealloc},
    {Py_tp_traverse, py_visit_type},
    {Py_tp_repr, device_repr},
    {Py_tp_methods, device_methods},
    {Py_tp_getset, device_getset},
    {Py_tp_doc, "Device(name=None)\n--\n\nA device by its name, \"cpu:0\" or \"cpu\". The same "
                "name gives the same object. None: the default device."},
    {0},
};
PyType_Spec py_device_spec = {"backplane.Device", sizeof(struct py_device), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, device_slots};

/* ---- plugins ---- */

static const char *const plugin_state[] = {"unprobed", "ready", "absent", "broken"};

/* The loop over plugins, each of which is loaded. visit appends to list. */
static PyObject *plugins_visit(PyObject *module, bool devices)
{
    struct py_state *state = PyModule_GetState(module);
    PyObject *list;

    if (py_core_open(state)) return NULL;
    list = PyList_New(0);
    for (uint32_t i = 0; list && i < bp_core_plugins(state->core); i++) {
        struct bp_plugin_info p = {.size = sizeof p};
        PyThreadState *thread = PyEval_SaveThread();
        PyObject *row = NULL;

        bp_core_load(state->core, i);
        PyEval_RestoreThread(thread);
        if (bp_core_plugin(state->core, i, &p)) continue;
        if (!devices) {
            row = Py_BuildValue("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I}", "name", p.name, "kind", p.kind,
                                "adds_to", p.adds_to,
                                "version", p.version, "library", p.library, "state",
                                p.state < 4 ? plugin_state[p.state] : "?", "reason", p.reason,
                                "devices", (unsigned)p.devices);
            if (!row || PyList_Append(list, row)) Py_CLEAR(list);
            Py_XDECREF(row);
        }
        for (uint32_t n = 0; list && devices && n < p.devices; n++) {
            row = PyUnicode_FromFormat("%s:%u", p.kind, (unsigned)n);
            if (!row || (!PySequence_Contains(list, row) && PyList_Append(list, row)))
                Py_CLEAR(list);
            Py_XDECREF(row);
        }
    }
    return list;
}

PyObject *py_plugins(PyObject *module, PyObject *unused)
{
    (void)unused;
    return plugins_visit(module, false);
}

PyObject *py_device_names(PyObject *module, PyObject *unused)
{
    (void)unused;
    return plugins_visit(module, true);
}

PyObject *py_synchronize_all(PyObject *module, PyObject *arg)
{
    struct py_state *state = PyModule_GetState(module);
    double seconds = PyFloat_AsDouble(arg), end;
    struct timespec now;
    PyObject *devices;

    if (seconds < 0 && PyErr_Occurred()) return NULL;
    clock_gettime(CLOCK_MONOTONIC, &now);
    end = (double)now.tv_sec + (double)now.tv_nsec * 1e-9 + seconds;
    devices = PyDict_Values(state->devices);
    for (Py_ssize_t i = 0; devices && i < PyList_Size(devices); i++) {
        struct py_device *d = (struct py_device *)PyList_GetItem(devices, i);
        PyThreadState *thread = PyEval_SaveThread();
        double left;

        clock_gettime(CLOCK_MONOTONIC, &now); /* one time limit for all devices */
        left = end - ((double)now.tv_sec + (double)now.tv_nsec * 1e-9);
        bp_device_synchronize_for(d->handle, left > 0 ? (uint64_t)(left * 1e9) : 0);
        PyEval_RestoreThread(thread);
    }
    Py_XDECREF(devices);
    /* The module of a sub-interpreter may stay, as its types refer to it: its devices shall not. */
    if (PyInterpreterState_GetID(PyInterpreterState_Get())) {
        PyDict_Clear(state->devices);
        if (state->core) bp_core_destroy(state->core);
        state->core = NULL;
    }
    Py_RETURN_NONE;
}
