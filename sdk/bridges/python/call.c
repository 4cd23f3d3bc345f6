/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: calls an operator with Python arguments: inputs by position or name, attributes by name,
 * and the keywords `out` (tensors to write), `outputs` (how many to return) and `row` (the kernel
 * row to run). Inputs that are no tensors are converted. */
#include "module.h"
#include <stddef.h>
#include <string.h>

enum {
    CALL_PORTS = 16,
    CALL_TENSORS = 256,
    CALL_ATTRS = 768,
    LARGE_BYTES = 16384,
    LARGE_WORK = 65536
};

struct call {
    struct py_operator *op;
    struct py_state *state;
    PyObject *value[CALL_PORTS];          /* borrowed; NULL: absent */
    PyObject *out, *outputs, *row;        /* borrowed, or NULL */
    PyObject *owner;                      /* Device or Graph, a reference */
    struct bp_arg arg[CALL_PORTS];
    struct py_dims_room dims;
    int n_kept, n_flat, n_out;
    uint32_t given;              /* bits of inputs that have a value, maybe of an attribute */
    uint32_t like[BP_VAR_COUNT]; /* dtypes of the type variables, as far as known */
    uint64_t bytes;
    double work; /* the product of the numbers of elements: no result of broadcasts has more */
    bool waits;
    _Alignas(8) char attrs[CALL_ATTRS];
    /* From here on, only what is in use has values. */
    PyObject *kept[CALL_TENSORS + 1];     /* tensors of lists, or made of other objects; out */
    struct bp_tensor *flat[CALL_TENSORS]; /* inputs */
    struct bp_tensor *result[CALL_TENSORS];
};

static int call_error(const struct call *c, const char *text, PyObject *what)
{
    if (what) PyErr_Format(PyExc_TypeError, "%s(): %s %R", c->op->info->name, text, what);
    else PyErr_Format(PyExc_TypeError, "%s(): %s", c->op->info->name, text);
    return -1;
}

static bool word_equals(PyObject *word, PyObject *name)
{
    return word == name || (name && PyUnicode_Compare(word, name) == 0);
}

/* Assigns a value to an input. A host input that is no tensor supplies the attribute. */
static int call_set_port(struct call *c, int port, PyObject *value)
{
    int attr = c->op->port_attr[port];

    if (c->given >> port & 1) return call_error(c, "two values for", c->op->port[port]);
    if (value != Py_None) c->given |= 1u << port;
    if (attr >= 0 && !py_tensor_is(c->state, value)) {
        if (value == Py_None) return 0;
        return py_attr_set(c->state, &c->op->info->attr[attr], value, c->attrs, &c->dims);
    }
    if (attr >= 0) c->waits = true; /* the host reads the tensor */
    c->value[port] = value == Py_None ? NULL : value;
    return 0;
}

static int call_set_word(struct call *c, PyObject *word, PyObject *value)
{
    const struct bp_opinfo *info = c->op->info;

    for (int i = 0; i < info->n_in; i++)
        if (word_equals(word, c->op->port[i])) return call_set_port(c, i, value);
    for (int i = 0; i < info->n_attr; i++)
        if (word_equals(word, c->op->attr[i]))
            return value == Py_None
                       ? 0
                       : py_attr_set(c->state, &info->attr[i], value, c->attrs, &c->dims);
    if (value == Py_None) value = NULL;
    if (word_equals(word, c->state->word_out)) c->out = value;
    else if (word_equals(word, c->state->word_outputs)) c->outputs = value;
    else if (word_equals(word, c->state->word_row)) c->row = value;
    else return call_error(c, "unexpected keyword", word);
    return 0;
}

static int call_read_arguments(struct call *c, PyObject *const *args, Py_ssize_t n,
                               PyObject *kwnames)
{
    const struct bp_opinfo *info = c->op->info;
    Py_ssize_t words = kwnames ? PyTuple_Size(kwnames) : 0;

    if (n > info->n_in) {
        PyErr_Format(PyExc_TypeError,
                     "%s() takes %u inputs by position, got %zd arguments; attributes are given by "
                     "name",
                     info->name, (unsigned)info->n_in, n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (call_set_port(c, (int)i, args[i])) return -1;
    for (Py_ssize_t i = 0; i < words; i++)
        if (call_set_word(c, PyTuple_GetItem(kwnames, i), args[n + i])) return -1;
    for (int i = 0; i < info->n_in; i++)
        if (!c->value[i] && info->in[i].kind == BP_PORT_IN)
            return call_error(c, "an input is absent:", c->op->port[i]);
    return 0;
}

static void call_weigh(struct call *c, const struct py_tensor *t)
{
    size_t size = py_dtype_size(t->dtype);

    c->bytes += t->bytes;
    c->work *= (double)(size ? t->bytes / size : t->bytes);
}

/* Notes what a tensor says about the call: where it runs, and the dtypes of numbers. */
static void call_note(struct call *c, const struct py_tensor *t, uint32_t var)
{
    call_weigh(c, t);
    if (c->like[var] == PY_DTYPE_NONE) c->like[var] = t->dtype;
    if (!c->owner || (t->symbolic && Py_TYPE(c->owner) != c->state->type.graph)) {
        Py_INCREF(t->owner);
        Py_XDECREF(c->owner);
        c->owner = t->owner;
    }
}

static int call_find_owner(struct call *c)
{
    const struct bp_opinfo *info = c->op->info;
    PyObject *current;

    for (int i = 0; i < BP_VAR_COUNT; i++) c->like[i] = PY_DTYPE_NONE;
    for (int i = 0; i < info->n_in; i++) {
        PyObject *value = c->value[i];
        if (!value) continue;
        if (py_tensor_is(c->state, value)) {
            call_note(c, (struct py_tensor *)value, info->in[i].var);
        } else if (info->in[i].kind == BP_PORT_VAR && (PyList_Check(value) || PyTuple_Check(value)))
            for (Py_ssize_t k = 0; k < PySequence_Size(value); k++) {
                PyObject *item = PySequence_GetItem(value, k);
                if (item && py_tensor_is(c->state, item))
                    call_note(c, (struct py_tensor *)item, info->in[i].var);
                Py_XDECREF(item);
            }
    }
    if (c->owner) return 0;
    current = py_scope_current(c->state);
    if (current && Py_TYPE(current) == c->state->type.graph) {
        c->owner = current;
        Py_INCREF(current);
    } else c->owner = py_device_of(c->state, NULL);
    return c->owner ? 0 : -1;
}

/* Converts an object that is no tensor. A constant of a graph is frozen, so it is a copy: others
 * may write the object's memory later. */
static PyObject *call_convert(struct call *c, PyObject *value, uint32_t var)
{
    bool graph = Py_TYPE(c->owner) == c->state->type.graph;
    PyObject *device = graph ? ((struct py_graph *)c->owner)->device : c->owner;
    PyObject *result = graph
                           ? py_tensor_from(c->state, value, c->like[var], device, PY_MUST_COPY)
                           : py_tensor_input(c->state, value, c->like[var], device);

    if (!result) return NULL;
    if (graph) { /* waits for the device */
        PyThreadState *thread = PyEval_SaveThread();
        bp_tensor_freeze(((struct py_tensor *)result)->handle);
        PyEval_RestoreThread(thread);
    }
    call_weigh(c, (struct py_tensor *)result);
    if (c->like[var] == PY_DTYPE_NONE) c->like[var] = ((struct py_tensor *)result)->dtype;
    return result;
}

static int call_add_tensor(struct call *c, PyObject *value, uint32_t var)
{
    PyObject *tensor = value;

    if (c->n_flat == CALL_TENSORS) return call_error(c, "too many tensors", NULL);
    if (!py_tensor_is(c->state, value)) {
        tensor = call_convert(c, value, var);
        if (!tensor) return -1;
        c->kept[c->n_kept++] = tensor;
    }
    c->flat[c->n_flat++] = ((struct py_tensor *)tensor)->handle;
    return 0;
}

static int call_add_list(struct call *c, int port)
{
    PyObject *value = c->value[port];
    Py_ssize_t n = PySequence_Check(value) ? PySequence_Size(value) : -1;

    if (n < 0 || py_tensor_is(c->state, value))
        return call_error(c, "expected a list of tensors for", c->op->port[port]);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(value, i);
        int failed = item ? call_add_tensor(c, item, c->op->info->in[port].var) : -1;
        /* Held: the sequence may make its items, and other code may change it. */
        if (!failed && py_tensor_is(c->state, item)) c->kept[c->n_kept++] = item;
        else Py_XDECREF(item);
        if (failed) return -1;
    }
    return 0;
}

static int call_add_inputs(struct call *c)
{
    const struct bp_opinfo *info = c->op->info;

    for (int i = 0; i < info->n_in; i++) {
        int first = c->n_flat, failed = 0;
        if (c->value[i] && info->in[i].kind == BP_PORT_VAR) failed = call_add_list(c, i);
        else if (c->value[i]) failed = call_add_tensor(c, c->value[i], info->in[i].var);
        if (failed) return -1;
        c->arg[i] = (struct bp_arg){&c->flat[first], (size_t)(c->n_flat - first)};
    }
    return 0;
}

static bool port_is_several(const struct bp_port *port)
{
    return port->kind == BP_PORT_VAROUT || port->kind == BP_PORT_VIEWS;
}

/* The number of tensors of an output of any number: as many as the variadic input has, or as the
 * attributes state; -1: not known. */
static int call_count_several(const struct call *c)
{
    const struct bp_opinfo *info = c->op->info;
    struct bp_tensor_info x = {.size = sizeof x};
    int64_t axis = -1;

    for (int i = 0; i < info->n_in; i++)
        if (info->in[i].kind == BP_PORT_VAR) return (int)c->arg[i].n;
    for (int i = 0; i < info->n_attr; i++) {
        const char *name = info->attr[i].name, *field = c->attrs + info->attr[i].offset;
        struct bp_dims dims = {0};
        int64_t number = 0;

        if (!strcmp(name, "sizes")) memcpy(&dims, field, sizeof dims);
        else if (info->attr[i].kind == BP_ATTR_I64) memcpy(&number, field, sizeof number);
        if (dims.n > 0) return (int)dims.n;
        if (!strcmp(name, "sections") && number > 0) return (int)number;
        if (!strcmp(name, "axis")) axis = number;
    }
    if (strcmp(info->name, "unstack") || bp_tensor_get_info(c->flat[0], &x)) return -1;
    if (axis < 0) axis += x.rank;
    return axis >= 0 && axis < (int64_t)x.rank ? (int)x.shape[axis] : -1;
}

/* Notes the tensors that the caller provides. Other threads may change the caller's list during
 * the call, so the call has a tuple of its own. */
static int call_set_given(struct call *c)
{
    PyObject *out = PySequence_Check(c->out) ? PySequence_Tuple(c->out) : NULL;
    Py_ssize_t given = out ? PyTuple_Size(out) : -1;

    if (out) c->kept[c->n_kept++] = out;
    else if (PyErr_Occurred()) return -1;
    if (given < 0 || given > CALL_TENSORS) return call_error(c, "out: no tensors:", c->out);
    c->out = out;
    for (int i = c->n_out; i < given; i++) c->result[i] = NULL;
    if (given > c->n_out) c->n_out = (int)given;
    for (Py_ssize_t i = 0; i < given; i++) {
        PyObject *item = PyTuple_GetItem(out, i);
        if (py_tensor_is(c->state, item)) c->result[i] = ((struct py_tensor *)item)->handle;
        else if (item != Py_None) return call_error(c, "out: no tensors:", out);
    }
    return 0;
}

/* Finds how many tensors the call returns, and which ones the caller provides. */
static int call_set_outputs(struct call *c)
{
    const struct bp_opinfo *info = c->op->info;
    long wanted;

    for (int i = 0; i < info->n_out; i++) {
        int n = port_is_several(&info->out[i]) ? call_count_several(c) : 1;
        if (info->out[i].kind == BP_PORT_OPTOUT) break;
        if (info->out[i].kind == BP_PORT_UPDATE && !c->value[info->out[i].share]) break;
        if (n < 0 && !c->outputs) return call_error(c, "outputs=: say how many", NULL);
        c->n_out += n;
    }
    wanted = c->outputs ? PyLong_AsLong(c->outputs) : c->n_out;
    if (PyErr_Occurred()) return -1;
    if (wanted < 0 || wanted > CALL_TENSORS) return call_error(c, "too many outputs", NULL);
    c->n_out = (int)wanted;
    memset(c->result, 0, (size_t)c->n_out * sizeof *c->result);
    if (!c->out) return 0;
    if (py_tensor_is(c->state, c->out)) {
        c->result[0] = ((struct py_tensor *)c->out)->handle;
        return 0;
    }
    return call_set_given(c);
}

/* The object of result i: the tensor that was given for it, or a new one. */
static PyObject *call_result(struct call *c, struct bp_tensor *given, int i, PyObject *owner)
{
    PyObject *object;

    if (c->result[i] == given && given) {
        object = c->out;
        if (py_tensor_is(c->state, object)) Py_INCREF(object);
        else object = PySequence_GetItem(object, i);
        if (object && c->op->info->flags & BP_OP_BOUND) /* has the extents that the data gave */
            py_tensor_refresh((struct py_tensor *)object);
        return object;
    }
    if (!c->result[i]) Py_RETURN_NONE;
    object = py_tensor_wrap(c->state, c->result[i], owner);
    c->result[i] = NULL;
    return object;
}

static PyObject *call_results(struct call *c, struct bp_tensor *const *given, PyObject *owner)
{
    bool several = false;
    PyObject *tuple;

    for (int i = 0; i < c->op->info->n_out; i++)
        several = several || port_is_several(&c->op->info->out[i]);
    if (c->n_out == 1 && !several) return call_result(c, given[0], 0, owner);
    tuple = PyTuple_New(c->n_out);
    for (int i = 0; i < c->n_out; i++) {
        PyObject *object = call_result(c, given[i], i, owner);
        if (!object) Py_CLEAR(tuple);
        if (!tuple) Py_XDECREF(object);
        else PyTuple_SetItem(tuple, i, object);
    }
    return tuple;
}

static PyObject *call_launch(struct call *c)
{
    const struct bp_opinfo *info = c->op->info;
    struct bp_call call = {.size = sizeof call,
                           .op = info->name,
                           .in = c->arg,
                           .n_in = info->n_in,
                           .attrs = info->attrs_size ? c->attrs : NULL};
    struct py_target target = py_target_of(c->state, c->owner);
    struct bp_tensor *given[CALL_TENSORS];
    struct py_hold hold;
    enum bp_status status;
    /* Attributes may make any amount of results and work of small inputs. */
    bool small = c->bytes < LARGE_BYTES && c->work <= LARGE_WORK && c->n_flat && !info->n_attr &&
                 !(info->flags & BP_OP_BOUND);
    bool waits = c->waits || (!target.records && !small);

    if (c->row && !(call.kernel = PyUnicode_AsUTF8AndSize(c->row, NULL))) return NULL;
    memcpy(given, c->result, (size_t)c->n_out * sizeof *given);
    hold = py_lane_take(target.lane, waits);
    status = bp_call_run(target.scope, &call, c->result, (size_t)c->n_out, NULL);
    py_lane_leave(&hold);
    return status ? py_fail(c->state, status) : call_results(c, given, target.owner);
}

PyObject *py_operator_call(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    struct py_operator *op = (struct py_operator *)self;
    PyObject *result = NULL;
    struct call c;

    if (op->info->n_in > CALL_PORTS || op->info->attrs_size > CALL_ATTRS) {
        PyErr_Format(PyExc_SystemError, "%s has too many inputs or attributes", op->info->name);
        return NULL;
    }
    memset(&c, 0, offsetof(struct call, kept));
    c.op = op;
    c.work = 1;
    c.state = op->state;
    if (op->info->attrs_size) memcpy(c.attrs, op->info->defaults, op->info->attrs_size);
    if (!call_read_arguments(&c, args, n, kwnames) && !call_find_owner(&c) &&
        !call_add_inputs(&c) && !call_set_outputs(&c))
        result = call_launch(&c);
    for (int i = 0; i < c.n_kept; i++) Py_DECREF(c.kept[i]);
    Py_XDECREF(c.owner);
    py_dims_finish(&c.dims);
    py_ledger_release(op->state->ledger);
    return result;
}
