/* SPDX-License-Identifier: Apache-2.0 */
/* program.c: programs: graphs that are compiled once and run many times. */
#include "module.h"
#include "run.h"

struct py_program {
    PyObject_HEAD struct py_state *state;
    struct bp_program *handle;
    PyObject *device;
    uint32_t n_in, n_out;
};

static enum bp_status program_create(struct py_program *p, struct py_graph *graph,
                                     const struct bp_program_options *options)
{
    struct bp_graph_info info = {.size = sizeof info};
    enum bp_status status = bp_graph_get_info(graph->handle, &info);

    p->n_in = info.inputs;
    p->n_out = info.outputs;
    if (status) return status;
    return bp_program_create_with(graph->handle, ((struct py_device *)p->device)->handle, options,
                                  &p->handle);
}

static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"graph", "device", "cache", "passes", "tune", "winograd",
                             "fast_math", "like", NULL};
    struct py_state *state = PyType_GetModuleState(type);
    struct bp_program_options options = {.size = sizeof options};
    PyObject *graph, *device = Py_None, *like = Py_None;
    int passes = 1, tune = 0, winograd = 0, fast_math = 0;
    struct py_program *p;
    enum bp_status status;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "O!|OzppppO:Program", words, state->type.graph,
                                     &graph, &device, &options.cache, &passes, &tune, &winograd,
                                     &fast_math, &like))
        return NULL;
    if (like != Py_None && !PyObject_TypeCheck(like, state->type.program)) {
        PyErr_SetString(PyExc_TypeError, "like: expected a Program or None");
        return NULL;
    }
    if (like != Py_None) options.like = ((struct py_program *)like)->handle;
    options.flags = (passes ? 0 : BP_PROGRAM_NO_PASSES) | (tune ? BP_PROGRAM_TUNE : 0) |
                    (winograd ? BP_PROGRAM_WINOGRAD : 0) |
                    (fast_math ? BP_PROGRAM_FAST_MATH : 0);
    device = device == Py_None ? ((struct py_graph *)graph)->device : device;
    device = py_device_of(state, device);
    p = device ? (struct py_program *)PyType_GenericAlloc(type, 0) : NULL;
    if (!p) {
        Py_XDECREF(device);
        return NULL;
    }
    p->state = state;
    p->device = device;
    status = program_create(p, (struct py_graph *)graph, &options);
    if (!status) return (PyObject *)p;
    Py_DECREF((PyObject *)p);
    if (status != BP_ERR_NOT_READY) return py_fail(state, status);
    return py_fail_with(state, status, "the program `like` is not compiled: call compile()");
}

static void program_dealloc(PyObject *self)
{
    struct py_program *p = (struct py_program *)self;
    PyTypeObject *type = Py_TYPE(self);

    bp_program_destroy(p->handle);
    Py_XDECREF(p->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static enum bp_status program_run_any(void *what, struct bp_stream *stream,
                                      struct bp_tensor *const *in, size_t n_in,
                                      struct bp_tensor **out, size_t n_out)
{
    return bp_program_run(what, stream, in, n_in, out, n_out);
}

static PyObject *pyprogram_run(PyObject *self, PyObject *args, PyObject *kw)
{
    struct py_program *p = (struct py_program *)self;
    struct py_run run = {.state = p->state,
                         .device = p->device,
                         .what = p->handle,
                         .run = program_run_any,
                         .n_in = p->n_in,
                         .n_out = p->n_out};

    return py_run_with(&run, args, kw);
}

static PyObject *program_fail(struct py_program *p, enum bp_status status)
{
    if (status != BP_ERR_NOT_READY) return py_fail(p->state, status);
    return py_fail_with(p->state, status, "the program is not compiled: call compile()");
}

static PyObject *program_result(struct py_program *p, enum bp_status status)
{
    if (status) return program_fail(p, status);
    Py_RETURN_NONE;
}

static PyObject *program_compile(PyObject *self, PyObject *unused)
{
    struct py_program *p = (struct py_program *)self;
    PyThreadState *thread = PyEval_SaveThread();
    enum bp_status status = bp_program_compile(p->handle);

    (void)unused;
    PyEval_RestoreThread(thread);
    return program_result(p, status);
}

static PyObject *program_cancel(PyObject *self, PyObject *unused)
{
    struct py_program *p = (struct py_program *)self;
    enum bp_status status = bp_program_cancel(p->handle);

    (void)unused;
    if (status && status != BP_ERR_NOT_FOUND) return py_fail(p->state, status);
    return PyBool_FromLong(!status);
}

static PyObject *program_file(PyObject *self, PyObject *path,
                              enum bp_status (*use)(struct bp_program *, const char *))
{
    struct py_program *p = (struct py_program *)self;
    PyObject *bytes = NULL;
    PyThreadState *thread;
    enum bp_status status;
    const char *name;

    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    name = PyBytes_AsString(bytes);
    thread = PyEval_SaveThread();
    status = use(p->handle, name);
    PyEval_RestoreThread(thread);
    Py_DECREF(bytes);
    return program_result(p, status);
}

static PyObject *program_save(PyObject *self, PyObject *path)
{
    return program_file(self, path, bp_program_save);
}

static PyObject *program_load(PyObject *self, PyObject *path)
{
    return program_file(self, path, bp_program_load);
}

static PyObject *program_info(PyObject *self, PyObject *unused)
{
    struct py_program *p = (struct py_program *)self;
    struct bp_program_info i = {.size = sizeof i};
    enum bp_status status = bp_program_get_info(p->handle, &i);

    (void)unused;
    if (status) return py_fail(p->state, status);
    return Py_BuildValue(
        "{s:K,s:K,s:N,s:s,s:I,s:I,s:I,s:K,s:K,s:s}", "runs", (unsigned long long)i.runs, "replays",
        (unsigned long long)i.replays, "compiled", PyBool_FromLong(i.compiled), "not_compiled",
        i.not_compiled ? i.not_compiled : "", "recorded_nodes", (unsigned)i.recorded_nodes, "nodes",
        (unsigned)i.nodes, "launches", (unsigned)i.launches, "arena", (unsigned long long)i.arena,
        "constants", (unsigned long long)i.constants, "cache", i.cache ? i.cache : "");
}

/* The launches of a compiled program: (node, operator, kernel row). */
static PyObject *program_launches(PyObject *self, PyObject *unused)
{
    struct py_program *p = (struct py_program *)self;
    struct bp_launch_info launch = {.size = sizeof launch};
    PyObject *list = PyList_New(0);
    enum bp_status status = BP_OK;

    (void)unused;
    for (uint32_t i = 0; list && !status; i++) {
        PyObject *item;

        status = bp_program_launch(p->handle, i, &launch);
        if (status) break;
        item = Py_BuildValue("(sss)", launch.node, launch.op, launch.kernel);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    if (!status || status == BP_ERR_NOT_FOUND) return list;
    Py_XDECREF(list);
    return program_fail(p, status);
}

static PyMethodDef program_methods[] = {
    {"run", (PyCFunction)(void (*)(void))pyprogram_run, METH_VARARGS | METH_KEYWORDS,
     "run($self, *inputs, out=None)\n--\n\nRuns the program. Returns a list of tensors, those of "
     "`out` where given."},
    {"compile", program_compile, METH_NOARGS, "compile($self)\n--\n\nCompiles the program now."},
    {"cancel", program_cancel, METH_NOARGS,
     "cancel($self)\n--\n\nEnds the compilation that goes on in another thread. Returns whether "
     "there is one."},
    {"save", program_save, METH_O,
     "save($self, path, /)\n--\n\nWrites what the compiler found to a file."},
    {"load", program_load, METH_O,
     "load($self, path, /)\n--\n\nCompiles the program from a file of save()."},
    {"info", program_info, METH_NOARGS,
     "info($self)\n--\n\nCounts of runs, nodes and bytes, as a dict."},
    {"launches", program_launches, METH_NOARGS,
     "launches($self)\n--\n\nThe launches of the compiled program: (node, operator, kernel row)."},
    {0},
};
static PyType_Slot program_slots[] = {
    {Py_tp_new, program_new},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_call, pyprogram_run},
    {Py_tp_methods, program_methods},
    {Py_tp_doc, "Program(graph, device=None, cache=None, passes=True, tune=False, "
                "winograd=False, fast_math=False, like=None)\n--\n\n"
                "A graph that is compiled once and runs many times."},
    {0},
};
PyType_Spec py_program_spec = {"backplane.Program", sizeof(struct py_program), 0,
                               Py_TPFLAGS_DEFAULT, program_slots};
