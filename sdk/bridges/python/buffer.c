/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c: lends the memory of tensors to Python by the buffer protocol, and reads elements into
 * bytes. */
#include "module.h"
#include <stdlib.h>

/* Waits for the device and returns the host's address. */
static int tensor_map(struct py_tensor *t, void **out_data)
{
    PyThreadState *thread = NULL;
    enum bp_status status;

    if (t->symbolic) {
        PyErr_SetString(PyExc_BufferError, "a symbolic tensor has no elements");
        return -1;
    }
    thread = PyEval_SaveThread();
    status = bp_tensor_map(t->handle, out_data);
    PyEval_RestoreThread(thread);
    if (status == BP_ERR_UNSUPPORTED) PyErr_SetString(PyExc_BufferError, bp_error_message());
    else if (status) py_fail(t->state, status);
    return status ? -1 : 0;
}

bool py_info_overlaps(const struct bp_tensor_info *info)
{
    for (uint32_t i = 0; i < info->rank; i++)
        if (!info->stride[i] && info->shape[i] > 1) return true;
    return false;
}

/* Checks what the buffer protocol lets a consumer demand. */
static int buffer_check(const struct py_tensor *t, const struct bp_tensor_info *info, int flags)
{
    const char *wrong = NULL;

    if (!py_dtype_format(t->dtype))
        wrong = "the buffer protocol has no format for this dtype: use tobytes(), or to(\"f32\")";
    else if ((flags & PyBUF_WRITABLE) && info->frozen) wrong = "the tensor is frozen: read only";
    else if ((flags & PyBUF_WRITABLE) && py_info_overlaps(info))
        wrong = "elements of the tensor share memory: read only";
    else if (!info->contiguous && (flags & PyBUF_STRIDES) != PyBUF_STRIDES)
        wrong = "the tensor is strided: use contiguous()";
    else if (!info->contiguous &&
             (flags & (PyBUF_C_CONTIGUOUS | PyBUF_ANY_CONTIGUOUS) & ~PyBUF_STRIDES))
        wrong = "the tensor is strided: use contiguous()";
    else if (info->rank > 1 && (flags & PyBUF_F_CONTIGUOUS & ~PyBUF_STRIDES))
        wrong = "the tensor is not in column-major order";
    if (wrong) PyErr_SetString(PyExc_BufferError, wrong);
    return wrong ? -1 : 0;
}

int py_tensor_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    struct py_tensor *t = (struct py_tensor *)self;
    struct bp_tensor_info info = {.size = sizeof info};
    Py_ssize_t *numbers, size = (Py_ssize_t)py_dtype_size(t->dtype);
    static char nothing;
    void *data = NULL;

    view->obj = NULL;
    if (tensor_map(t, &data)) return -1;
    if (bp_tensor_get_info(t->handle, &info) || buffer_check(t, &info, flags)) return -1;
    numbers = malloc((2 * (size_t)info.rank + 1) * sizeof *numbers);
    if (!numbers) {
        PyErr_NoMemory();
        return -1;
    }
    for (uint32_t i = 0; i < info.rank; i++) {
        numbers[i] = (Py_ssize_t)info.shape[i];
        numbers[info.rank + i] = (Py_ssize_t)info.stride[i] * size;
    }
    *view = (Py_buffer){.buf = data ? data : &nothing,
                        .obj = self,
                        .len = (Py_ssize_t)t->bytes,
                        .itemsize = size,
                        .readonly = info.frozen || py_info_overlaps(&info),
                        .ndim = (int)info.rank,
                        .internal = numbers};
    if (flags & PyBUF_FORMAT) view->format = (char *)(uintptr_t)py_dtype_format(t->dtype);
    if (flags & PyBUF_ND) view->shape = numbers;
    if ((flags & PyBUF_STRIDES) == PyBUF_STRIDES) view->strides = numbers + info.rank;
    Py_INCREF(self);
    return 0;
}

void py_tensor_release_buffer(PyObject *self, Py_buffer *view)
{
    (void)self;
    free(view->internal);
}

PyObject *py_tensor_bytes(struct py_tensor *t)
{
    struct py_lane *lane;
    struct py_hold hold;
    enum bp_status status;
    PyObject *bytes;

    if (t->symbolic) {
        PyErr_SetString(PyExc_TypeError, "a symbolic tensor has no elements");
        return NULL;
    }
    bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)t->bytes);
    if (!bytes) return NULL;
    lane = py_lane_of(t->state, t->owner);
    hold = py_lane_take(lane, t->bytes >= 65536);
    status = bp_tensor_read(lane->stream, t->handle, PyBytes_AsString(bytes), t->bytes);
    py_lane_leave(&hold);
    if (!status) return bytes;
    Py_DECREF(bytes);
    return py_fail(t->state, status);
}
