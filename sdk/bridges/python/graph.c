/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c: graphs, which record the calls of `with graph:` blocks and the calls on their symbolic
 * tensors, and which run node by node. */
#include "module.h"
#include "run.h"
#include <limits.h>
#include <stdlib.h>

static PyObject *graph_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *words[] = {"device", NULL};
    struct py_state *state = PyType_GetModuleState(type);
    PyObject *device = NULL;
    struct py_graph *g;
    enum bp_status status;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "|O:Graph", words, &device)) return NULL;
    device = py_device_of(state, device);
    if (!device) return NULL;
    g = (struct py_graph *)PyType_GenericAlloc(type, 0);
    if (!g || py_lane_init(&g->lane, NULL)) {
        Py_DECREF(device);
        Py_XDECREF((PyObject *)g);
        return NULL;
    }
    g->state = state;
    g->device = device;
    status = bp_graph_create(bp_device_core(((struct py_device *)device)->handle), &g->handle);
    if (!status) return (PyObject *)g;
    Py_DECREF((PyObject *)g);
    return py_fail(state, status);
}

static void graph_dealloc(PyObject *self)
{
    struct py_graph *g = (struct py_graph *)self;
    PyTypeObject *type = Py_TYPE(self);

    bp_graph_destroy(g->handle);
    if (g->state) py_lane_finish(&g->lane);
    Py_XDECREF(g->device);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *graph_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_scope_enter(((struct py_graph *)self)->state, self);
}

static PyObject *graph_exit(PyObject *self, PyObject *unused)
{
    (void)unused;
    return py_scope_leave(((struct py_graph *)self)->state, self);
}

static PyObject *graph_input(PyObject *self, PyObject *args, PyObject *kw)
{
    static char *words[] = {"name", "shape", "dtype", NULL};
    struct py_graph *g = (struct py_graph *)self;
    PyObject *shape, *dtype = Py_None;
    struct bp_tensor *tensor = NULL;
    int64_t extent[BP_RANK_MAX];
    const char *name = NULL;
    uint32_t number = BP_F32;
    enum bp_status status;
    int n;

    if (!PyArg_ParseTupleAndKeywords(args, kw, "zO|O:input", words, &name, &shape, &dtype))
        return NULL;
    n = py_integers(shape, extent, BP_RANK_MAX, "shape");
    if (n < 0 || (dtype != Py_None && py_dtype_find(g->state, dtype, &number))) return NULL;
    status = bp_graph_input(g->handle, name, (enum bp_dtype)number, (uint32_t)n, extent, &tensor);
    return status ? py_fail(g->state, status) : py_tensor_wrap(g->state, tensor, self);
}

/* Calls set(graph, tensor, name) for output and name. */
static PyObject *graph_set(PyObject *self, PyObject *args,
                           enum bp_status (*set)(struct bp_graph *, struct bp_tensor *,
                                                 const char *))
{
    struct py_graph *g = (struct py_graph *)self;
    const char *name = NULL;
    PyObject *tensor;
    enum bp_status status;

    if (!PyArg_ParseTuple(args, "O!|z", g->state->type.tensor, &tensor, &name)) return NULL;
    status = set(g->handle, ((struct py_tensor *)tensor)->handle, name);
    if (status) return py_fail(g->state, status);
    Py_INCREF(tensor);
    return tensor;
}

static PyObject *graph_output(PyObject *self, PyObject *args)
{
    return graph_set(self, args, bp_graph_output);
}

static PyObject *graph_name(PyObject *self, PyObject *args)
{
    return graph_set(self, args, bp_graph_name);
}

/* The handles of a list of tensors and None. */
static int graph_handles(struct py_state *state, PyObject *list, struct bp_tensor **out, int room)
{
    Py_ssize_t n = PyList_Check(list) ? PyList_Size(list) : -1;

    for (Py_ssize_t i = 0; i < n && n <= room; i++) {
        PyObject *item = PyList_GetItem(list, i);
        bool is = py_tensor_is(state, item);
        if (!is && item != Py_None) n = -1;
        else out[i] = is ? ((struct py_tensor *)item)->handle : NULL;
    }
    if (n >= 0 && n <= room) return (int)n;
    PyErr_Format(PyExc_TypeError, "expected a list of at most %d tensors, got %R", room, list);
    return -1;
}

/* The record of gradients: backplane.grad() is the function for users. */
static PyObject *graph_gradient(PyObject *self, PyObject *args)
{
    struct py_graph *g = (struct py_graph *)self;
    PyObject *y, *dy, *x, *result = NULL;
    struct bp_tensor **at, **dx;
    Py_ssize_t room;
    int n_y, n_dy, n_x;
    enum bp_status status;

    if (!PyArg_ParseTuple(args, "O!O!O!:_gradient", &PyList_Type, &y, &PyList_Type, &dy,
                          &PyList_Type, &x))
        return NULL;
    room = PyList_Size(y) + PyList_Size(dy) + PyList_Size(x);
    at = room < INT_MAX ? calloc((size_t)4 * (size_t)room + 1, sizeof *at) : NULL;
    if (!at) return PyErr_NoMemory();
    dx = at + 3 * room;
    n_y = graph_handles(g->state, y, at, (int)room);
    n_dy = graph_handles(g->state, dy, at + room, (int)room);
    n_x = graph_handles(g->state, x, at + 2 * room, (int)room);
    if (n_y < 0 || n_x < 0 || n_dy < 0) goto done;
    if (n_y != n_dy) {
        PyErr_SetString(PyExc_ValueError, "as many gradients as results are needed");
        goto done;
    }
    status = bp_graph_gradient(g->handle, at, at + room, (size_t)n_y, at + 2 * room, (size_t)n_x,
                               dx);
    result = status ? py_fail(g->state, status) : PyList_New(n_x);
    for (int i = 0; result && i < n_x; i++) {
        PyObject *item = dx[i] ? py_tensor_wrap(g->state, dx[i], self) : Py_None;
        if (item == Py_None) Py_INCREF(item);
        if (!item || PyList_SetItem(result, i, item)) Py_CLEAR(result);
    }
done:
    free(at);
    return result;
}

static enum bp_status graph_run_any(void *what, struct bp_stream *stream,
                                    struct bp_tensor *const *in, size_t n_in,
                                    struct bp_tensor **out, size_t n_out)
{
    return bp_graph_run(what, stream, in, n_in, out, n_out);
}

static PyObject *graph_run(PyObject *self, PyObject *args, PyObject *kw)
{
    struct py_graph *g = (struct py_graph *)self;
    struct bp_graph_info info = {.size = sizeof info};
    enum bp_status status = bp_graph_get_info(g->handle, &info);
    struct py_run run = {.state = g->state,
                         .device = py_run_device(g->state, g->device),
                         .what = g->handle,
                         .run = graph_run_any,
                         .n_in = info.inputs,
                         .n_out = info.outputs};

    return status ? py_fail(g->state, status) : py_run_with(&run, args, kw);
}

/* The nodes as (name, operator). */
static PyObject *graph_nodes(PyObject *self, PyObject *unused)
{
    struct py_graph *g = (struct py_graph *)self;
    struct bp_graph_info info = {.size = sizeof info};
    PyObject *list = PyList_New(0);

    (void)unused;
    bp_graph_get_info(g->handle, &info);
    for (uint32_t i = 0; list && i < info.nodes; i++) {
        struct bp_node_info node = {.size = sizeof node};
        PyObject *item;

        if (bp_graph_node(g->handle, i, &node)) continue;
        item = Py_BuildValue("(ss)", node.name, node.op);
        if (!item || PyList_Append(list, item)) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *graph_repr(PyObject *self)
{
    struct bp_graph_info info = {.size = sizeof info};

    bp_graph_get_info(((struct py_graph *)self)->handle, &info);
    return PyUnicode_FromFormat("<backplane.Graph of %u nodes, %u inputs, %u outputs>",
                                (unsigned)info.nodes, (unsigned)info.inputs,
                                (unsigned)info.outputs);
}

static PyObject *graph_get_device(PyObject *self, void *unused)
{
    (void)unused;
    Py_INCREF(((struct py_graph *)self)->device);
    return ((struct py_graph *)self)->device;
}

static PyMethodDef graph_methods[] = {
    {"__enter__", graph_enter, METH_NOARGS, NULL},
    {"__exit__", graph_exit, METH_VARARGS, NULL},
    {"input", (PyCFunction)(void (*)(void))graph_input, METH_VARARGS | METH_KEYWORDS,
     "input($self, name, shape, dtype='f32')\n--\n\nAdds an input; returns its symbolic tensor."},
    {"output", graph_output, METH_VARARGS,
     "output($self, tensor, name=None, /)\n--\n\nMakes a value the next output. Returns it."},
    {"name", graph_name, METH_VARARGS,
     "name($self, tensor, name, /)\n--\n\nNames a value and its node."},
    {"run", (PyCFunction)(void (*)(void))graph_run, METH_VARARGS | METH_KEYWORDS,
     "run($self, *inputs, out=None)\n--\n\nRuns the graph node by node. Returns a list of tensors, "
     "those of `out` where given."},
    {"nodes", graph_nodes, METH_NOARGS, "nodes($self)\n--\n\nThe nodes as (name, operator)."},
    {"export", py_export, METH_O,
     "export($self, path, /)\n--\n\nWrites the graph as an ONNX model: the operators of "
     "convolutional and transformer networks."},
    {"_gradient", graph_gradient, METH_VARARGS, NULL},
    {0},
};
static PyGetSetDef graph_getset[] = {
    {"device", graph_get_device, NULL, "The device of constants that numbers become.", NULL},
    {0},
};
static PyType_Slot graph_slots[] = {
    {Py_tp_new, graph_new},
    {Py_tp_dealloc, graph_dealloc},
    {Py_tp_repr, graph_repr},
    {Py_tp_methods, graph_methods},
    {Py_tp_getset, graph_getset},
    {Py_tp_doc, "Graph(device=None)\n--\n\nRecords calls instead of running them: those in a `with "
                "graph:` block, and those on its symbolic tensors."},
    {0},
};
PyType_Spec py_graph_spec = {"backplane.Graph", sizeof(struct py_graph), 0, Py_TPFLAGS_DEFAULT,
                             graph_slots};
