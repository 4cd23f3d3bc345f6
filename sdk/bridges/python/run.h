/* SPDX-License-Identifier: Apache-2.0 */
/* run.h: runs a graph, a program or a model with Python's tensors. */
#ifndef BP_PYTHON_RUN_H
#define BP_PYTHON_RUN_H

#include "module.h"

struct py_run {
    struct py_state *state;
    PyObject *device; /* borrowed */
    void *what;       /* the first argument of run */
    enum bp_status (*run)(void *what, struct bp_stream *stream, struct bp_tensor *const *in,
                          size_t n_in, struct bp_tensor **out, size_t n_out);
    uint32_t n_in, n_out;
};

/* The device of the current stream, or device; borrowed. */
PyObject *py_run_device(struct py_state *state, PyObject *device);
/* Runs with the inputs args (or the one list in args), and the keyword out: a list of tensors and
 * None. Returns a list of tensors. */
PyObject *py_run_with(const struct py_run *run, PyObject *args, PyObject *kw);
/* Runs with a list of inputs. out: a list or NULL. */
PyObject *py_run_list(const struct py_run *run, PyObject *inputs, PyObject *out);

#endif
