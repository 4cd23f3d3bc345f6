/* SPDX-License-Identifier: Apache-2.0 */
/* move.c: implements the operators of CNNL that only move elements. Most are copies between strided
 * views of the input and of the result. */
#include "cnnl.h"
#include <stdlib.h>
#include <string.h>

/* One input and one result of the same dtype, once the call has begun. */
static void move_tensors(struct cnnl_call *call, const void *x_desc, const void *x,
                         const void *y_desc, void *y)
{
    cnnl_in(call, x_desc, x, CNNL_MOVED);
    cnnl_out(call, y_desc, y, CNNL_MOVED);
    if (cnnl_failed(call)) return;
    cnnl_check(call, call->work.in[0].dtype == call->work.out[0].dtype, "dtypes differ");
}

/* Whether the two tensors have the same shape; also if the call has failed. */
static bool move_same(const struct cnnl_call *call)
{
    return cnnl_failed(call) || cnnl_same_shape(&call->work.in[0], &call->work.out[0]);
}

/* Copies the input to the result, which has its shape. */
static int copy_run(struct cnnl_work *work)
{
    return cnnl_assign(&work->in[0], &work->out[0]);
}

int cnnlCopy(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlCopy", handle);
    move_tensors(&call, x_desc, x, y_desc, y);
    cnnl_check(&call, move_same(&call), "shapes differ");
    call.work.run = copy_run;
    return cnnl_submit(&call);
}

/* A value, of the dtype of the result, in every element of it. */
static int fill_run(struct cnnl_work *work)
{
    struct base_tensor *y = &work->out[0], one = *y;

    one.data = work->n_in ? work->in[0].data : work->value;
    memset(one.stride, 0, sizeof one.stride);
    return cnnl_assign(&one, y);
}

int cnnlFill_v3(void *handle, int mode, const void *value, const void *y_desc, void *y)
{
    const struct cnnl_tensor *t;
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlFill_v3", handle);
    cnnl_check(&call, mode == CNNL_POINTER_HOST || mode == CNNL_POINTER_DEVICE, "no such mode");
    cnnl_check(&call, value != NULL, "NULL");
    cnnl_out(&call, y_desc, y, CNNL_MOVED);
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    call.work.run = fill_run;
    t = cnnl_tensor_of(y_desc);
    if (mode == CNNL_POINTER_DEVICE) {
        call.work.in[0] = base_tensor_of((void *)value, call.work.out[0].dtype, 0, NULL);
        call.work.n_in = 1;
    }
    cnnl_check(&call, (base_find(value).place == BASE_DEVICE) == (mode == CNNL_POINTER_DEVICE),
               "the value is not where the mode says");
    if (!cnnl_failed(&call) && mode == CNNL_POINTER_HOST)
        memcpy(call.work.value, value, (size_t)cnnl_bytes(t->dtype));
    return cnnl_submit(&call);
}

static int expand_run(struct cnnl_work *work)
{
    struct base_tensor *x = &work->in[0], *y = &work->out[0], wide = *y;
    int missing = y->rank - x->rank;

    wide.data = x->data;
    for (int a = 0; a < y->rank; a++)
        wide.stride[a] = a < missing || x->shape[a - missing] != y->shape[a]
                             ? 0
                             : x->stride[a - missing];
    return cnnl_assign(&wide, y);
}

int cnnlExpand(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    struct cnnl_call call;
    int missing;

    cnnl_begin(&call, "cnnlExpand", handle);
    move_tensors(&call, x_desc, x, y_desc, y);
    missing = call.work.out[0].rank - call.work.in[0].rank;
    cnnl_check(&call, missing >= 0, "the result has fewer axes");
    for (int a = 0; a < call.work.in[0].rank && !cnnl_failed(&call); a++) {
        int64_t extent = call.work.in[0].shape[a];
        cnnl_check(&call, extent == 1 || extent == call.work.out[0].shape[a + missing],
                   "the input does not broadcast");
    }
    call.work.run = expand_run;
    return cnnl_submit(&call);
}

/* Attributes that have lists of numbers are made when the work runs: work->number has the lists. */
static int tile_run(struct cnnl_work *work)
{
    struct bp_tile_attrs attrs = {sizeof attrs, {work->number, work->out[0].rank}};

    return cnnl_compute("tile", &attrs, work->in[0].dtype,
                        (const struct base_tensor *[]){&work->in[0]}, 1,
                        (const struct base_tensor *[]){&work->out[0]}, 1);
}

int cnnlTile(void *handle, const void *x_desc, const void *x, const void *y_desc, void *y)
{
    struct cnnl_call call;
    int missing;

    cnnl_begin(&call, "cnnlTile", handle);
    move_tensors(&call, x_desc, x, y_desc, y);
    missing = call.work.out[0].rank - call.work.in[0].rank;
    cnnl_check(&call, missing >= 0, "the result has fewer axes");
    for (int a = 0; a < call.work.out[0].rank && !cnnl_failed(&call); a++) {
        int64_t extent = a < missing ? 1 : call.work.in[0].shape[a - missing];
        int64_t result = call.work.out[0].shape[a];
        cnnl_check(&call, extent ? result % extent == 0 : result == 0, "an extent is no multiple");
        call.work.number[a] = extent ? result / extent : 1;
    }
    call.work.run = tile_run;
    return cnnl_submit(&call);
}

static size_t transpose_size(const void *x_desc)
{
    return cnnl_size(x_desc);
}

int cnnlGetTransposeWorkspaceSize(void *handle, const void *x_desc, const void *desc, size_t *out)
{
    (void)desc;
    return cnnl_report_size("cnnlGetTransposeWorkspaceSize", handle, transpose_size(x_desc), out);
}

static int transpose_run(struct cnnl_work *work)
{
    struct base_tensor from = work->out[0];

    from.data = work->in[0].data;
    for (int a = 0; a < from.rank; a++) from.stride[a] = work->in[0].stride[work->number[a]];
    return cnnl_assign(&from, &work->out[0]);
}

int cnnlTranspose_v2(void *handle, const void *desc, const void *x_desc, const void *x,
                     const void *y_desc, void *y, void *workspace, size_t size)
{
    const struct cnnl_transpose *t = desc;
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlTranspose_v2", handle);
    cnnl_check(&call, base_handle_is(desc, cnnl_transpose_kind), "no transpose descriptor");
    move_tensors(&call, x_desc, x, y_desc, y);
    if (!cnnl_failed(&call)) {
        cnnl_check(&call, t->n == call.work.in[0].rank && t->n == call.work.out[0].rank,
                   "another number of axes");
        cnnl_check(&call, x != y, "a transpose is not in place");
    }
    for (int a = 0; !cnnl_failed(&call) && a < t->n; a++) {
        call.work.number[a] = t->perm[a];
        cnnl_check(&call, call.work.out[0].shape[a] == call.work.in[0].shape[t->perm[a]],
                   "the result has another shape");
    }
    cnnl_workspace(&call, workspace, size, transpose_size(x_desc));
    call.work.run = transpose_run;
    return cnnl_submit(&call);
}

/* The parts of a concatenation or a split: their memory is in work->many, and the whole is input 0
 * or result 0. number[0] is the axis. */
static int parts_run(struct cnnl_work *work)
{
    bool splits = work->n_in;
    struct base_tensor *whole = splits ? &work->in[0] : &work->out[0];
    int axis = (int)work->number[0], code = 0;
    char *at = whole->data;

    for (int i = 0; i < work->n_many && !code; i++) {
        struct base_tensor *part = &work->many[i], slice = *part;
        memcpy(slice.stride, whole->stride, sizeof slice.stride);
        slice.data = at;
        if (base_tensor_count(part))
            code = splits ? cnnl_assign(&slice, part) : cnnl_assign(part, &slice);
        at += part->shape[axis] * whole->stride[axis] * (int64_t)base_dtype_size(whole->dtype);
    }
    return code;
}

/* Appends the parts, whose descriptors and addresses are in lists, and checks their shapes. Each
 * passes through in[1], which is then removed again. */
static void parts_add(struct cnnl_call *call, const struct base_tensor *whole, int n, int axis,
                      const void *const *desc, const void *const *data)
{
    int64_t sum = 0;
    int n_in = call->work.n_in;

    axis = cnnl_axis(call, axis, whole->rank);
    cnnl_check(call, n > 0 && desc && data, "no parts");
    if (cnnl_failed(call)) return;
    call->work.many = calloc((size_t)n, sizeof *call->work.many);
    if (!call->work.many) call->code = CNNL_ALLOC_FAILED;
    for (int i = 0; i < n && !cnnl_failed(call); i++) {
        struct base_tensor *part = &call->work.many[i];
        cnnl_in(call, desc[i], data[i], CNNL_MOVED);
        *part = call->work.in[n_in];
        call->work.n_in = n_in;
        cnnl_check(call, part->dtype == whole->dtype && part->rank == whole->rank,
                   "a part differs");
        for (int a = 0; a < whole->rank && !cnnl_failed(call); a++)
            cnnl_check(call, a == axis || part->shape[a] == whole->shape[a], "a part's shape");
        sum += part->shape[axis];
    }
    cnnl_check(call, sum == whole->shape[axis], "the parts are not as long as the whole");
    call->work.n_many = n;
    call->work.number[0] = axis;
    call->work.run = parts_run;
}

static size_t parts_size(int n)
{
    return n > 0 ? (size_t)n * 16 : 0;
}

int cnnlGetConcatWorkspaceSize(void *handle, int n, size_t *out)
{
    return cnnl_report_size("cnnlGetConcatWorkspaceSize", handle, parts_size(n), out);
}

int cnnlConcat(void *handle, int n, int axis, const void *const *x_desc, const void *const *x,
               void *workspace, size_t size, const void *y_desc, void *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlConcat", handle);
    cnnl_out(&call, y_desc, y, CNNL_MOVED);
    parts_add(&call, &call.work.out[0], n, axis, x_desc, x);
    cnnl_workspace(&call, workspace, size, parts_size(n));
    return cnnl_submit(&call);
}

int cnnlGetSplitWorkspaceSize(void *handle, int n, size_t *out)
{
    return cnnl_report_size("cnnlGetSplitWorkspaceSize", handle, parts_size(n), out);
}

int cnnlSplit(void *handle, int n, int axis, const void *x_desc, const void *x, void *workspace,
              size_t size, const void *const *y_desc, void *const *y)
{
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlSplit", handle);
    cnnl_in(&call, x_desc, x, CNNL_MOVED);
    parts_add(&call, &call.work.in[0], n, axis, y_desc, (const void *const *)y);
    cnnl_workspace(&call, workspace, size, parts_size(n));
    return cnnl_submit(&call);
}

/* number[2 a]: the elements before axis a. */
static int pad_run(struct cnnl_work *work)
{
    struct base_tensor *x = &work->in[0], *y = &work->out[0], one = *y, inner = *x;
    int64_t offset = 0;
    int code;

    one.data = work->value;
    memset(one.stride, 0, sizeof one.stride);
    memcpy(inner.stride, y->stride, sizeof inner.stride);
    for (int a = 0; a < x->rank; a++) offset += work->number[2 * a] * y->stride[a];
    inner.data = (char *)y->data + offset * (int64_t)base_dtype_size(y->dtype);
    code = cnnl_assign(&one, y);
    return code ? code : cnnl_assign(x, &inner);
}

int cnnlPad(void *handle, const void *x_desc, const void *x, const int *paddings, const void *value,
            const void *y_desc, void *y)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;

    cnnl_begin(&call, "cnnlPad", handle);
    cnnl_check(&call, paddings && value, "NULL");
    move_tensors(&call, x_desc, x, y_desc, y);
    cnnl_check(&call, work->in[0].rank == work->out[0].rank, "another number of axes");
    cnnl_check(&call, base_find(value).place == BASE_HOST, "the value is not of the host");
    if (cnnl_failed(&call)) return cnnl_submit(&call);
    for (int a = 0; a < work->in[0].rank; a++) {
        int before = paddings[2 * a], behind = paddings[2 * a + 1];
        work->number[2 * a] = before;
        cnnl_check(&call, before >= 0 && behind >= 0, "a padding is negative");
        cnnl_check(&call, work->out[0].shape[a] == work->in[0].shape[a] + before + behind,
                   "the result has another shape");
    }
    memcpy(work->value, value, base_dtype_size(work->in[0].dtype));
    work->run = pad_run;
    return cnnl_submit(&call);
}

static int flip_run(struct cnnl_work *work)
{
    struct bp_flip_attrs attrs = {sizeof attrs, {work->number + 1, work->number[0]}};

    return cnnl_compute("flip", &attrs, work->in[0].dtype,
                        (const struct base_tensor *[]){&work->in[0]}, 1,
                        (const struct base_tensor *[]){&work->out[0]}, 1);
}

int cnnlFlip(void *handle, const int *dims, int n, const void *x_desc, const void *x,
             const void *y_desc, void *y)
{
    struct cnnl_call call;
    unsigned seen = 0;

    cnnl_begin(&call, "cnnlFlip", handle);
    move_tensors(&call, x_desc, x, y_desc, y);
    cnnl_check(&call, move_same(&call), "shapes differ");
    cnnl_check(&call, dims && n > 0 && n <= call.work.in[0].rank, "no axes");
    cnnl_check(&call, x != y, "a flip is not in place");
    for (int i = 0; !cnnl_failed(&call) && i < n; i++) {
        call.work.number[1 + i] = cnnl_axis(&call, dims[i], call.work.in[0].rank);
        cnnl_check(&call, !(seen >> call.work.number[1 + i] & 1), "an axis twice");
        seen |= 1u << call.work.number[1 + i];
    }
    call.work.number[0] = n;
    call.work.run = flip_run;
    return cnnl_submit(&call);
}

/* number: begin and step of each axis. */
static int slice_run(struct cnnl_work *work)
{
    struct base_tensor *x = &work->in[0], from = work->out[0];
    int64_t offset = 0;

    for (int a = 0; a < x->rank; a++) {
        offset += work->number[2 * a] * x->stride[a];
        from.stride[a] = work->number[2 * a + 1] * x->stride[a];
    }
    from.data = (char *)x->data + offset * (int64_t)base_dtype_size(x->dtype);
    return cnnl_assign(&from, &work->out[0]);
}

int cnnlStridedSlice(void *handle, const void *x_desc, const void *x, const int *begin,
                     const int *end, const int *stride, const void *y_desc, void *y)
{
    struct cnnl_call call;
    struct cnnl_work *work = &call.work;

    cnnl_begin(&call, "cnnlStridedSlice", handle);
    cnnl_check(&call, begin && end && stride, "NULL");
    move_tensors(&call, x_desc, x, y_desc, y);
    cnnl_check(&call, work->in[0].rank == work->out[0].rank, "another number of axes");
    cnnl_check(&call, x != y, "a slice is not in place");
    for (int a = 0; !cnnl_failed(&call) && a < work->in[0].rank; a++) {
        int64_t extent = work->in[0].shape[a], from = begin[a], to = end[a];
        if (from < 0) from += extent;
        if (to < 0) to += extent;
        cnnl_check(&call, stride[a] > 0, "only strides above 0 are known");
        cnnl_check(&call, from >= 0 && from <= extent && to >= from && to <= extent,
                   "a bound is out of range");
        if (cnnl_failed(&call)) break;
        cnnl_check(&call, work->out[0].shape[a] == (to - from + stride[a] - 1) / stride[a],
                   "the result has another shape");
        work->number[2 * a] = from;
        work->number[2 * a + 1] = stride[a];
    }
    work->run = slice_run;
    return cnnl_submit(&call);
}

int cnnlTri(void *handle, int k, bool upper, const void *x_desc, const void *x, const void *y_desc,
            void *y)
{
    struct bp_tril_attrs attrs = {sizeof attrs, k};
    struct cnnl_call call;

    cnnl_begin(&call, "cnnlTri", handle);
    move_tensors(&call, x_desc, x, y_desc, y);
    cnnl_check(&call, move_same(&call), "shapes differ");
    cnnl_check(&call, call.work.in[0].rank >= 2, "fewer than two axes");
    cnnl_operator(&call, upper ? "triu" : "tril", &attrs, sizeof attrs);
    return cnnl_submit(&call);
}
