/* SPDX-License-Identifier: Apache-2.0 */
/* model.c: ONNX models. The library libbackplane-onnx is opened when the first model is loaded, so
 * that the package works, and is imported fast, without it. */
#include "module.h"
#include <backplane/model.h>
#include <dlfcn.h>
#include <stdlib.h>

#define MODEL_FUNCTIONS(X) \
    X(bp_model_load) \
    X(bp_model_load_memory) \
    X(bp_model_destroy) \
    X(bp_model_inputs) \
    X(bp_model_outputs) \
    X(bp_model_input) \
    X(bp_model_output) \
    X(bp_model_run_into) \
    X(bp_model_weight) \
    X(bp_model_export) \
    X(bp_model_get_info) \
    X(bp_model_get_metadata)

static struct {
    bool open; /* of all interpreters */
    pthread_mutex_t lock;
#define X(name) __typeof__(name) *name;
    MODEL_FUNCTIONS(X)
#undef X
} onnx = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct py_model {
    PyObject_HEAD struct py_state *state;
    struct bp_model *handle;
    PyObject *device, *inputs, *outputs; /* lists of (name, dtype, shape) */
};

/* Finds the functions. Returns the text of a failure, or NULL. */
static const char *onnx_find(void)
{
    void *library = onnx.open ? NULL : dlopen("libbackplane-onnx.so.0", RTLD_NOW | RTLD_LOCAL);

    if (onnx.open) return NULL;
    if (!library) return dlerror();
#define X(name) \
    *(void **)&onnx.name = dlsym(library, #name); \
    if (!onnx.name) return "it has no function " #name;
    MODEL_FUNCTIONS(X)
#undef X
    onnx.open = true;
    return NULL;
}

static int onnx_open(struct py_state *state)
{
    const char *failure;

    pthread_mutex_lock(&onnx.lock);
    failure = onnx_find();
    if (failure)
        PyErr_Format(state->error_of[BP_ERR_NOT_FOUND],
                     "models need libbackplane-onnx, which cannot be opened: %s", failure);
    pthread_mutex_unlock(&onnx.lock);
    return failure ? -1 : 0;
}

/* A list of (name, dtype or None, shape or None); open extents are names or None. */
static PyObject *model_ports(struct py_model *m, uint32_t n,
                             enum bp_status (*get)(struct bp_model *, uint32_t,
                                                   struct bp_model_port *))
{
    PyObject *list = PyList_New(0);

    for (uint32_t i = 0; list && i < n; i++) {
        struct bp_model_port port = {.size = sizeof port};
        PyObject *shape = NULL, *dtype = NULL, *row = NULL;
        enum bp_status status = get(m->handle, i, &port);

        if (!status && port.rank != UINT32_MAX) shape = PyTuple_New((Py_ssize_t)port.rank);
        for (uint32_t k = 0; shape && k < port.rank; k++) {
            const char *name = port.extent_name ? port.extent_name[k] : "";
            PyObject *extent;

            if (port.shape[k] >= 0) extent = PyLong_FromLongLong(port.shape[k]);
            else if (name && *name) extent = PyUnicode_FromString(name);
            else {
                extent = Py_None;
                Py_INCREF(extent);
            }
            PyTuple_SetItem(shape, (Py_ssize_t)k, extent);
        }
        if (!status && port.dtype != UINT32_MAX) dtype = py_dtype_name(m->state, port.dtype);
        if (!status && !PyErr_Occurred())
            row = PyObject_CallMethod(m->state->host, "port", "sOO", port.name,
                                      dtype ? dtype : Py_None, shape ? shape : Py_None);
        if (status) py_fail(m->state, status);
        if (!row || PyList_Append(list, row)) Py_CLEAR(list);
        Py_XDECREF(row);
        Py_XDECREF(shape);
        Py_XDECREF(dtype);
    }
    return list;
}

/* Loads the model from a path, or from memory; what is bytes in both cases. */
static enum bp_status model_load(struct py_model *m, PyObject *what, bool memory,
                                 const struct bp_model_options *options)
{
    struct bp_device *device = ((struct py_device *)m->device)->handle;
    PyThreadState *thread;
    enum bp_status status;
    Py_ssize_t size = 0;
    char *data;

    PyBytes_AsStringAndSize(what, &data, &size);
    thread = PyEval_SaveThread();
    status = memory ? onnx.bp_model_load_memory(device, data, (size_t)size, options, &m->handle)
                    : onnx.bp_model_load(device, data, options, &m->handle);
    PyEval_RestoreThread(thread);
    return status;
}

static int model_init(struct py_model *m, PyObject *what, const struct bp_model_options *options)
{
    bool memory = PyBytes_Check(what);
    PyObject *bytes = NULL;
    enum bp_status status;

    if (onnx_open(m->state)) return -1;
    if (memory) {
        bytes = what;
        Py_INCREF(bytes);
    } else if (!PyUnicode_FSConverter(what, &bytes)) return -1;
    status = model_load(m, bytes, memory, options);
    Py_DECREF(bytes);
    if (status) {
        py_fail(m->state, status);
        return -1;
    }
    m->inputs = model_ports(m, onnx.bp_model_inputs(m->handle), onnx.bp_model_input);
    m->outputs = model_ports(m, onnx.bp_model_outputs(m->handle), onnx.bp_model_output);
    return m->inputs && m->outputs ? 0 : -1;
}

static PyObject *model_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"model", "device", "any_shape", "cache", "folder", NULL};
    struct py_state *state = PyType_GetModuleState(type);
    struct bp_model_options options = {.size = sizeof options};
    PyObject *what, *device = NULL;
    int any_shape = 0;
    struct py_model *m;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|Opzz:Model", words, &what, &device, &any_shape,
                                     &options.cache, &options.folder))
        return NULL;
    options.any_shape = (uint32_t)any_shape;
    device = py_device_of(state, device);
    m = device ? (struct py_model *)PyType_GenericAlloc(type, 0) : NULL;
    if (!m) {
        Py_XDECREF(device);
        return NULL;
    }
    m->state = state;
    m->device = device;
    if (!model_init(m, what, &options)) return (PyObject *)m;
    Py_DECREF((PyObject *)m);
    return NULL;
}

static void model_dealloc(PyObject *self)
{
    struct py_model *m = (struct py_model *)self;
    PyTypeObject *type = Py_TYPE(self);

    if (m->handle) onnx.bp_model_destroy(m->handle);
    Py_XDECREF(m->device);
    Py_XDECREF(m->inputs);
    Py_XDECREF(m->outputs);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* Item k of the description of port i; borrowed. */
static PyObject *port_item(PyObject *ports, Py_ssize_t i, Py_ssize_t k)
{
    return PyTuple_GetItem(PyList_GetItem(ports, i), k);
}

/* The tensor of input i: of a dict by name, of a sequence by position. */
static PyObject *model_feed(struct py_model *m, PyObject *feeds, Py_ssize_t i)
{
    PyObject *name = port_item(m->inputs, i, 0), *dtype = port_item(m->inputs, i, 1), *value;
    PyObject *tensor;
    uint32_t like = PY_DTYPE_NONE;

    if (PyDict_Check(feeds)) {
        value = PyDict_GetItemWithError(feeds, name);
        if (!value && !PyErr_Occurred()) value = Py_None;
        Py_XINCREF(value);
    } else value = PySequence_GetItem(feeds, i);
    if (!value || value == Py_None) return value;
    if (dtype != Py_None && py_dtype_find(m->state, dtype, &like)) return NULL;
    tensor = py_tensor_input(m->state, value, like, m->device);
    Py_DECREF(value);
    return tensor;
}

/* The inputs as a list of tensors and None; their handles in at. */
static PyObject *model_feeds(struct py_model *m, PyObject *feeds, struct bp_tensor **at)
{
    Py_ssize_t n = PyList_Size(m->inputs), given = PyObject_Size(feeds);
    PyObject *kept = given < 0 ? NULL : PyList_New(0);

    if (kept && given > n) {
        PyErr_Format(PyExc_TypeError, "the model has %zd inputs, got %zd", n, given);
        Py_CLEAR(kept);
    }
    for (Py_ssize_t i = 0; kept && i < n; i++) {
        PyObject *tensor = model_feed(m, feeds, i);

        at[i] = tensor && tensor != Py_None ? ((struct py_tensor *)tensor)->handle : NULL;
        if (!tensor || PyList_Append(kept, tensor)) Py_CLEAR(kept);
        Py_XDECREF(tensor);
    }
    return kept;
}

static Py_ssize_t model_find_output(struct py_model *m, PyObject *name)
{
    for (Py_ssize_t i = 0; i < PyList_Size(m->outputs); i++)
        if (PyUnicode_Check(name) && !PyUnicode_Compare(port_item(m->outputs, i, 0), name))
            return i;
    PyErr_Format(m->state->error_of[BP_ERR_NOT_FOUND], "the model has no output %R", name);
    return -1;
}

/* Sets want[i] of the outputs that names lists; None: all. */
static int model_want(struct py_model *m, PyObject *names, uint8_t *want)
{
    Py_ssize_t n = names == Py_None ? PyList_Size(m->outputs) : PySequence_Size(names);

    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name = names == Py_None ? NULL : PySequence_GetItem(names, i);
        Py_ssize_t index = name ? model_find_output(m, name) : names == Py_None ? i : -1;

        Py_XDECREF(name);
        if (index < 0) return -1;
        want[index] = 1;
    }
    return n < 0 ? -1 : 0;
}

/* The results in the order of names. */
static PyObject *model_results(struct py_model *m, PyObject *names, struct bp_tensor **out)
{
    Py_ssize_t n = PyList_Size(m->outputs);
    PyObject *all = PyList_New(n), *list;

    for (Py_ssize_t i = 0; all && i < n; i++) {
        PyObject *item = out[i] ? py_tensor_wrap(m->state, out[i], m->device) : Py_None;

        if (item == Py_None) Py_INCREF(item);
        if (!item || PyList_SetItem(all, i, item)) Py_CLEAR(all);
    }
    if (!all || names == Py_None) return all;
    list = PyList_New(0);
    for (Py_ssize_t i = 0; list && i < PySequence_Size(names); i++) {
        PyObject *name = PySequence_GetItem(names, i);
        PyObject *item = name ? PyList_GetItem(all, model_find_output(m, name)) : NULL;

        Py_XDECREF(name);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
    }
    Py_DECREF(all);
    return list;
}

/* ONNX Runtime's InferenceSession has run_options as its third argument. */
static int model_refuse(PyObject *options)
{
    if (options != Py_None) PyErr_SetString(PyExc_TypeError, "run() has no run_options: pass None");
    return options == Py_None ? 0 : -1;
}

static PyObject *model_run(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *words[] = {"output_names", "input_feed", "run_options", NULL};
    struct py_model *m = (struct py_model *)self;
    size_t n_in = (size_t)PyList_Size(m->inputs), n_out = (size_t)PyList_Size(m->outputs);
    struct bp_tensor **at = calloc(n_in + n_out + 1, sizeof *at);
    uint8_t *want = calloc(n_out + 1, 1);
    struct py_lane *lane = py_lane_of(m->state, m->device);
    PyObject *names, *feeds, *options = Py_None, *kept = NULL, *list = NULL;
    struct py_hold hold;
    enum bp_status status;

    if (!at || !want) PyErr_NoMemory();
    else if (PyArg_ParseTupleAndKeywords(args, kw, "OO|O:run", words, &names, &feeds, &options) &&
             !model_refuse(options) && !model_want(m, names, want))
        kept = model_feeds(m, feeds, at);
    if (kept) {
        hold = py_lane_take(lane, true);
        status = onnx.bp_model_run_into(m->handle, lane->stream, at, n_in, at + n_in, want, n_out);
        py_lane_leave(&hold);
        list = status ? py_fail(m->state, status) : model_results(m, names, at + n_in);
    }
    Py_XDECREF(kept);
    free(at);
    free(want);
    if (!list) return NULL;
    kept = PyObject_CallMethod(m->state->host, "like_feeds", "OO", list, feeds);
    Py_DECREF(list);
    return kept;
}

/* The numbers of the values that are outputs of a graph, in their order; the caller frees them. */
static uint32_t *export_outputs(struct py_state *state, struct bp_graph *graph,
                                struct bp_graph_info *info)
{
    uint32_t *number = bp_graph_get_info(graph, info) ? NULL
                                                      : calloc(info->outputs + 1, sizeof *number);

    for (uint32_t i = 0; number && i < info->values; i++) {
        struct bp_value_info value = {.size = sizeof value};

        if (!bp_graph_value(graph, i, &value) && value.output < info->outputs)
            number[value.output] = i;
    }
    if (!number) PyErr_NoMemory();
    for (uint32_t i = 0; number && i < info->outputs; i++) {
        struct bp_value_info value = {.size = sizeof value};

        if (!bp_graph_value(graph, number[i], &value) && value.output == i) continue;
        PyErr_Format(state->error_of[BP_ERR_UNSUPPORTED],
                     "output %u is a value that is an output already: copy it", (unsigned)i);
        free(number);
        return NULL;
    }
    return number;
}

PyObject *py_export(PyObject *self, PyObject *path)
{
    struct py_graph *g = (struct py_graph *)self;
    struct bp_graph_info info = {.size = sizeof info};
    struct py_lane *lane = py_lane_of(g->state, g->device);
    PyObject *bytes = NULL;
    struct py_hold hold;
    enum bp_status status;
    uint32_t *number;
    const char *name;

    if (onnx_open(g->state) || !PyUnicode_FSConverter(path, &bytes)) return NULL;
    number = export_outputs(g->state, g->handle, &info);
    name = PyBytes_AsString(bytes);
    if (number) {
        hold = py_lane_take(lane, true);
        status = onnx.bp_model_export(g->handle, number, info.outputs, lane->stream, name);
        py_lane_leave(&hold);
        if (status) py_fail(g->state, status);
    }
    free(number);
    Py_DECREF(bytes);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *model_weight(PyObject *self, PyObject *name)
{
    struct py_model *m = (struct py_model *)self;
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    struct bp_tensor *tensor = NULL;
    enum bp_status status;

    if (!text) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "expected the name of a weight");
        return NULL;
    }
    status = onnx.bp_model_weight(m->handle, text, &tensor);
    return status ? py_fail(m->state, status) : py_tensor_wrap(m->state, tensor, m->device);
}

/* The model's metadata as a dict; of several entries with a key, the last one. */
static PyObject *model_metadata(struct py_model *m, uint32_t n)
{
    PyObject *all = PyDict_New();

    for (uint32_t i = 0; all && i < n; i++) {
        struct bp_model_metadata e = {.size = sizeof e};
        enum bp_status status = onnx.bp_model_get_metadata(m->handle, i, &e);
        PyObject *value = status ? py_fail(m->state, status) : PyUnicode_FromString(e.value);

        if (!value || PyDict_SetItemString(all, e.key, value)) Py_CLEAR(all);
        Py_XDECREF(value);
    }
    return all;
}

static PyObject *model_info(PyObject *self, PyObject *unused)
{
    struct py_model *m = (struct py_model *)self;
    struct bp_model_info i = {.size = sizeof i};
    enum bp_status status = onnx.bp_model_get_info(m->handle, &i);
    PyObject *metadata = status ? py_fail(m->state, status) : model_metadata(m, i.metadata);

    (void)unused;
    if (!metadata) return NULL;
    return Py_BuildValue("{s:L,s:s,s:s,s:I,s:I,s:K,s:s,s:s,s:s,s:s,s:L,s:L,s:K,s:N}", "opset",
                         (long long)i.opset, "producer", i.producer, "producer_version",
                         i.producer_version, "nodes", (unsigned)i.nodes, "weights",
                         (unsigned)i.weights, "weight_bytes", (unsigned long long)i.weight_bytes,
                         "graph_name", i.graph_name, "graph_doc", i.graph_doc, "domain", i.domain,
                         "doc", i.doc, "model_version", (long long)i.model_version, "ir_version",
                         (long long)i.ir_version, "runs", (unsigned long long)i.runs, "metadata",
                         metadata);
}

static PyObject *model_get_ports(PyObject *self, void *outputs)
{
    struct py_model *m = (struct py_model *)self;

    return PyList_GetSlice(outputs ? m->outputs : m->inputs, 0, PY_SSIZE_T_MAX);
}

static PyObject *model_get_inputs(PyObject *self, PyObject *unused)
{
    (void)unused;
    return model_get_ports(self, NULL);
}

static PyObject *model_get_outputs(PyObject *self, PyObject *unused)
{
    (void)unused;
    return model_get_ports(self, "outputs");
}

static PyObject *model_get_device(PyObject *self, void *unused)
{
    (void)unused;
    Py_INCREF(((struct py_model *)self)->device);
    return ((struct py_model *)self)->device;
}

static PyMethodDef model_methods[] = {
    {"run", (PyCFunction)(void (*)(void))model_run, METH_VARARGS | METH_KEYWORDS,
     "run($self, output_names, input_feed, run_options=None)\n--\n\nRuns the model with a dict of "
     "inputs by name, or a sequence of all inputs. Returns a list of the named outputs, None: of "
     "all. They are arrays if inputs are arrays of numpy and none is a Tensor, else tensors."},
    {"get_inputs", model_get_inputs, METH_NOARGS,
     "get_inputs($self)\n--\n\nThe inputs, with name, type and shape."},
    {"get_outputs", model_get_outputs, METH_NOARGS,
     "get_outputs($self)\n--\n\nThe outputs, with name, type and shape."},
    {"weight", model_weight, METH_O,
     "weight($self, name, /)\n--\n\nThe frozen tensor of an initialiser."},
    {"info", model_info, METH_NOARGS,
     "info($self)\n--\n\nFacts of the model file and of its runs, as a dict."},
    {0},
};
static PyGetSetDef model_getset[] = {
    {"inputs", model_get_ports, NULL, "The inputs as (name, dtype, shape).", NULL},
    {"outputs", model_get_ports, NULL, "The outputs as (name, dtype, shape).", "outputs"},
    {"device", model_get_device, NULL, "The device.", NULL},
    {0},
};
static PyType_Slot model_slots[] = {
    {Py_tp_new, model_new},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_methods, model_methods},
    {Py_tp_getset, model_getset},
    {Py_tp_doc, "Model(model, device=None, any_shape=False, cache=None, folder=None)\n--\n\nAn "
                "ONNX model, of a path or of bytes, on a device."},
    {0},
};
PyType_Spec py_model_spec = {"backplane.Model", sizeof(struct py_model), 0, Py_TPFLAGS_DEFAULT,
                             model_slots};
