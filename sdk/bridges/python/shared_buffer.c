/* SPDX-License-Identifier: Apache-2.0 */
/* shared_buffer.c: makes tensors over the memory of Python objects that have the buffer protocol.
 *
 * The library releases such memory on any thread, with or without the GIL, of this or another
 * interpreter, perhaps after the interpreter has ended. So the release only notes the buffer in the
 * ledger of its interpreter, and calls of this module, which have the GIL, release the buffers that
 * are noted. */
#include "module.h"
#include <stdatomic.h>
#include <stdlib.h>

enum {
    HOST_MEMORY = 1
}; /* DLDeviceType */

/* A buffer that a tensor holds. */
struct held {
    struct bp_dlpack_managed managed;
    struct py_ledger *ledger;
    struct held *next; /* in the list of the ledger */
    Py_buffer view;
    int64_t numbers[2 * BP_RANK_MAX];
};

/* The buffers of one interpreter. Lives until its module and all its buffers are gone. */
struct py_ledger {
    pthread_mutex_t lock;
    struct held *noted;  /* to be released */
    size_t users;        /* the module, and buffers that are not released */
    bool closed;         /* the interpreter has ended: its buffers must not be touched */
    atomic_bool waiting; /* whether noted is not NULL */
};

struct py_ledger *py_ledger_create(void)
{
    struct py_ledger *ledger = calloc(1, sizeof *ledger);

    if (!ledger || pthread_mutex_init(&ledger->lock, NULL)) {
        free(ledger);
        PyErr_NoMemory();
        return NULL;
    }
    ledger->users = 1;
    return ledger;
}

/* Drops a use; the lock is held, and released here. */
static void ledger_unlock_and_drop(struct py_ledger *ledger)
{
    bool last = --ledger->users == 0;

    pthread_mutex_unlock(&ledger->lock);
    if (!last) return;
    pthread_mutex_destroy(&ledger->lock);
    free(ledger);
}

void py_ledger_release(struct py_ledger *ledger)
{
    struct held *held;

    if (!atomic_load_explicit(&ledger->waiting, memory_order_acquire)) return;
    pthread_mutex_lock(&ledger->lock);
    held = ledger->noted;
    ledger->noted = NULL;
    atomic_store_explicit(&ledger->waiting, false, memory_order_relaxed);
    pthread_mutex_unlock(&ledger->lock);
    while (held) {
        struct held *next = held->next;

        PyBuffer_Release(&held->view); /* may run code of Python */
        free(held);
        pthread_mutex_lock(&ledger->lock);
        ledger_unlock_and_drop(ledger);
        held = next;
    }
}

void py_ledger_close(struct py_ledger *ledger)
{
    py_ledger_release(ledger);
    pthread_mutex_lock(&ledger->lock);
    ledger->closed = true;
    ledger_unlock_and_drop(ledger);
}

/* Called by the library, on any thread. */
static void held_release(struct bp_dlpack_managed *managed)
{
    struct held *held = managed->manager_ctx;
    struct py_ledger *ledger = held->ledger;

    pthread_mutex_lock(&ledger->lock);
    if (ledger->closed) {
        free(held);
        ledger_unlock_and_drop(ledger);
        return;
    }
    held->next = ledger->noted;
    ledger->noted = held;
    atomic_store_explicit(&ledger->waiting, true, memory_order_release);
    pthread_mutex_unlock(&ledger->lock);
}

static struct bp_dlpack_dtype dtype_to_dlpack(uint32_t dtype)
{
    uint8_t code = BP_DLPACK_FLOAT;

    if (dtype == BP_BOOL) code = BP_DLPACK_BOOL;
    else if (dtype <= BP_I64) code = BP_DLPACK_INT;
    else if (dtype <= BP_U64) code = BP_DLPACK_UINT;
    else if (dtype == BP_C64 || dtype == BP_C128) code = BP_DLPACK_COMPLEX;
    return (struct bp_dlpack_dtype){code, (uint8_t)(py_dtype_size(dtype) * 8), 1};
}

static int held_describe(struct held *held)
{
    Py_buffer *view = &held->view;
    uint32_t dtype = py_dtype_of_format(view->format, view->itemsize);
    struct bp_dlpack_tensor *tensor = &held->managed.tensor;
    int rank = view->ndim;

    if (dtype == PY_DTYPE_NONE || rank > BP_RANK_MAX || view->suboffsets) {
        PyErr_SetString(PyExc_BufferError, "the buffer is no tensor");
        return -1;
    }
    for (int i = 0; i < rank; i++) {
        held->numbers[i] = view->shape[i];
        held->numbers[rank + i] = view->strides ? view->strides[i] / view->itemsize : 1;
        if (view->strides && view->strides[i] % view->itemsize) {
            PyErr_SetString(PyExc_BufferError, "the strides are no multiples of an element");
            return -1;
        }
    }
    held->managed.version = (struct bp_dlpack_version){BP_DLPACK_MAJOR, BP_DLPACK_MINOR};
    held->managed.manager_ctx = held;
    held->managed.deleter = held_release;
    held->managed.flags = view->readonly ? BP_DLPACK_READ_ONLY : 0;
    *tensor = (struct bp_dlpack_tensor){.data = view->buf,
                                        .device = {HOST_MEMORY, 0},
                                        .ndim = rank,
                                        .dtype = dtype_to_dlpack(dtype),
                                        .shape = held->numbers,
                                        .strides = held->numbers + rank};
    return 0;
}

PyObject *py_share_buffer(struct py_state *state, PyObject *what, PyObject *device)
{
    struct held *held = calloc(1, sizeof *held);
    struct bp_tensor *handle = NULL;
    enum bp_status status = BP_OK;

    if (!held) return PyErr_NoMemory();
    held->ledger = state->ledger;
    if (PyObject_GetBuffer(what, &held->view, PyBUF_RECORDS_RO)) {
        free(held);
        return NULL;
    }
    if (!held_describe(held)) {
        status = bp_tensor_from_dlpack(((struct py_device *)device)->handle, &held->managed,
                                       &handle);
        if (!status) {
            pthread_mutex_lock(&state->ledger->lock);
            state->ledger->users++;
            pthread_mutex_unlock(&state->ledger->lock);
            return py_tensor_wrap(state, handle, device);
        }
        py_fail(state, status);
    }
    PyBuffer_Release(&held->view);
    free(held);
    return NULL;
}
