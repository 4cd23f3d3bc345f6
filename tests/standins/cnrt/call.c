/* SPDX-License-Identifier: Apache-2.0 */
/* call.c: checks a call of CNNL step by step, and runs its work in the queue of its handle. */
#include "cnnl.h"
#include <stdlib.h>
#include <string.h>

enum {
    GARBAGE = 0xa5
};

static int call_run_operator(struct cnnl_work *work)
{
    const struct base_tensor *in[CNNL_TENSORS], *out[CNNL_TENSORS];
    struct base_call call = {.op = work->op, .n_in = work->n_in, .n_out = work->n_out};

    if (*(size_t *)(void *)work->attrs) call.attrs = work->attrs;
    memcpy(call.type, work->type, sizeof call.type);
    for (int i = 0; i < work->n_in; i++) in[i] = work->in[i].rank < 0 ? NULL : &work->in[i];
    for (int i = 0; i < work->n_out; i++) out[i] = work->out[i].rank < 0 ? NULL : &work->out[i];
    memcpy(call.in, in, (size_t)work->n_in * sizeof *in);
    memcpy(call.out, out, (size_t)work->n_out * sizeof *out);
    return base_compute(&call);
}

int cnnl_compute(const char *op, const void *attrs, uint32_t type,
                 const struct base_tensor *const *in, int n_in,
                 const struct base_tensor *const *out, int n_out)
{
    struct base_call call = {.op = op,
                             .attrs = attrs,
                             .type = {type, BASE_ABSENT, BASE_ABSENT, BASE_ABSENT},
                             .n_in = n_in,
                             .n_out = n_out};

    for (int i = 0; i < n_in; i++) call.in[i] = in[i];
    for (int i = 0; i < n_out; i++) call.out[i] = out[i];
    return base_compute(&call);
}

int cnnl_assign(const struct base_tensor *from, const struct base_tensor *to)
{
    return cnnl_compute("assign", NULL, from->dtype, &from, 1, &to, 1);
}

void cnnl_begin(struct cnnl_call *call, const char *name, void *handle)
{
    const struct cnnl_handle *h = handle;

    *call = (struct cnnl_call){.code = cnrt_enter(name)};
    call->work.name = name;
    call->work.run = call_run_operator;
    for (int v = 0; v < 4; v++) call->work.type[v] = BASE_ABSENT;
    call->masks = cnrt_has_bf16() ? ~0u : ~CNNL_M(CNNL_BFLOAT16);
    if (call->code) return;
    if (!base_handle_is(handle, cnnl_handle_kind)) {
        call->code = base_misuse(CNNL_BAD_PARAM, "%s: %p is no handle", name, handle);
    } else if (!h->queue) {
        call->code = base_misuse(CNNL_BAD_PARAM, "%s: the handle has no queue", name);
    } else if (!base_stream_is(h->queue)) {
        call->code = base_misuse(CNNL_BAD_PARAM, "%s: the handle's queue is destroyed", name);
    } else if (cnrt_device() != h->device) {
        call->code = base_misuse(CNNL_BAD_PARAM, "%s: the handle is not of the thread's device",
                                 name);
    } else {
        call->code = h->device->sticky ? CNNL_EXECUTION_FAILED : 0;
        call->queue = h->queue;
        call->work.device = h->device;
    }
}

bool cnnl_is_assumed(void)
{
    const char *text = secure_getenv("BP_STANDIN_CNNL_ASSUMED");

    return text && atoi(text) == 1;
}

void cnnl_begin_assumed(struct cnnl_call *call, const char *name, void *handle, int preference)
{
    cnnl_begin(call, name, handle);
    if (call->code) return;
    if (!cnnl_is_assumed())
        call->code = base_refuse(CNNL_NOT_SUPPORTED, "%s: its numbers are not confirmed", name);
    else if (preference < CNNL_FAST || preference > CNNL_ULTRAHIGH)
        call->code = base_refuse(CNNL_BAD_PARAM, "%s: no preference %d", name, preference);
}

bool cnnl_failed(const struct cnnl_call *call)
{
    return call->code != 0;
}

void cnnl_check(struct cnnl_call *call, bool good, const char *text)
{
    if (call->code || good) return;
    call->code = base_refuse(CNNL_BAD_PARAM, "%s: %s", call->work.name, text);
}

static size_t tensor_bytes(const struct base_tensor *t)
{
    return (size_t)base_tensor_count(t) * base_dtype_size(t->dtype);
}

/* Checks the place of a tensor's memory, or of a workspace. */
static int place_check(const struct cnnl_work *work, const void *data, size_t bytes,
                       const char *what)
{
    struct base_range range = base_find(data);

    if (!bytes) return 0;
    if (!data) return base_refuse(CNNL_BAD_PARAM, "%s: a %s is NULL", work->name, what);
    if (range.place == BASE_DEVICE && range.device == work->device && range.room >= bytes) return 0;
    return base_misuse(CNNL_BAD_PARAM, "%s: a %s of %zu bytes at %p is not in memory of the device",
                       work->name, what, bytes, data);
}

/* Fills a tensor from its descriptor and checks it; returns a code. */
static int tensor_fill(const struct cnnl_call *call, struct base_tensor *out, const void *desc,
                       const void *data, unsigned dtypes)
{
    const struct cnnl_tensor *t = cnnl_tensor_of(desc);
    const char *name = call->work.name;

    if (!t) return base_misuse(CNNL_BAD_PARAM, "%s: %p is no tensor that is set", name, desc);
    if (!(dtypes & CNNL_M(t->dtype)))
        return base_refuse(CNNL_BAD_PARAM, "%s: dtype %d", name, t->dtype);
    if (!(call->masks & CNNL_M(t->dtype)))
        return base_refuse(CNNL_ARCH_MISMATCH, "%s: the device has no dtype %d", name, t->dtype);
    if (t->mode != CNNL_POINTER_HOST)
        return base_refuse(CNNL_NOT_SUPPORTED, "%s: a descriptor with a pointer mode", name);
    *out = base_tensor_of((void *)data, cnnl_dtype(t->dtype), t->rank, t->shape);
    memcpy(out->stride, t->stride, sizeof out->stride);
    if (base_tensor_count(out) && !base_tensor_is_contiguous(out))
        return base_refuse(CNNL_BAD_PARAM, "%s: a tensor is not contiguous", name);
    return place_check(&call->work, data, tensor_bytes(out), "tensor");
}

void cnnl_in(struct cnnl_call *call, const void *desc, const void *data, unsigned dtypes)
{
    struct base_tensor *t = &call->work.in[call->work.n_in++];

    if (!call->code) call->code = tensor_fill(call, t, desc, data, dtypes);
    if (!call->code && call->work.n_in == 1) call->work.type[0] = t->dtype;
}

/* Refuses a result that lies over an input, unless it has the same address, shape and dtype. */
static int overlap_check(const struct cnnl_work *work, const struct base_tensor *y)
{
    const char *begin = y->data;

    for (int i = 0; i < work->n_in; i++) {
        const struct base_tensor *x = &work->in[i];
        const char *from = x->data;
        if (x->rank < 0 || begin + tensor_bytes(y) <= from || from + tensor_bytes(x) <= begin)
            continue;
        if (begin == from && x->dtype == y->dtype && cnnl_same_shape(x, y)) continue;
        return base_misuse(CNNL_BAD_PARAM, "%s: a result overlaps an input", work->name);
    }
    return 0;
}

void cnnl_out(struct cnnl_call *call, const void *desc, void *data, unsigned dtypes)
{
    struct base_tensor *t = &call->work.out[call->work.n_out++];

    if (!call->code) call->code = tensor_fill(call, t, desc, data, dtypes);
    if (!call->code) call->code = overlap_check(&call->work, t);
    if (!call->code && call->work.n_in == 0) call->work.type[0] = t->dtype;
}

void cnnl_in_maybe(struct cnnl_call *call, const void *desc, const void *data, unsigned dtypes)
{
    if (data) cnnl_in(call, desc, data, dtypes);
    else call->work.in[call->work.n_in++].rank = -1;
}

void cnnl_out_maybe(struct cnnl_call *call, const void *desc, void *data, unsigned dtypes)
{
    if (data) cnnl_out(call, desc, data, dtypes);
    else call->work.out[call->work.n_out++].rank = -1;
}

/* Refuses a workspace that lies over a tensor. */
static int workspace_overlap(const struct cnnl_work *work, const char *at, size_t size)
{
    for (int i = 0; i < work->n_in + work->n_out; i++) {
        const struct base_tensor *t = i < work->n_in ? &work->in[i] : &work->out[i - work->n_in];
        const char *begin = t->data;
        if (t->rank < 0 || at + size <= begin || begin + tensor_bytes(t) <= at) continue;
        return base_misuse(CNNL_BAD_PARAM, "%s: the workspace overlaps a tensor", work->name);
    }
    return 0;
}

void cnnl_workspace(struct cnnl_call *call, void *workspace, size_t size, size_t needed)
{
    if (call->code) return;
    if (size < needed) {
        call->code = base_refuse(CNNL_BAD_PARAM, "%s: a workspace of %zu bytes, not %zu",
                                 call->work.name, size, needed);
        return;
    }
    if (size) call->code = place_check(&call->work, workspace, size, "workspace");
    call->work.workspace = workspace;
    call->work.workspace_size = size;
}

void cnnl_factors(struct cnnl_call *call, const void *alpha, const void *beta)
{
    const float *a = alpha, *b = beta;

    if (call->code || ((!a || *a == 1) && (!b || *b == 0))) return;
    call->code = base_refuse(CNNL_NOT_SUPPORTED, "%s: factors other than 1 and 0", call->work.name);
}

void cnnl_operator(struct cnnl_call *call, const char *op, const void *attrs, size_t size)
{
    call->work.op = op;
    if (size) memcpy(call->work.attrs, attrs, size);
}

bool cnnl_same_shape(const struct base_tensor *a, const struct base_tensor *b)
{
    return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

void cnnl_broadcasts(struct cnnl_call *call, int first, int n)
{
    const struct base_tensor *y = &call->work.out[0];
    int64_t shape[BASE_RANK];
    int rank = 0;

    if (call->code) return;
    for (int a = 0; a < BASE_RANK; a++) shape[a] = 1; /* counted from the last axis */
    for (int i = first; i < first + n; i++) {
        const struct base_tensor *x = &call->work.in[i];
        if (x->rank > rank) rank = x->rank;
        for (int a = 0; a < x->rank; a++) {
            int64_t extent = x->shape[x->rank - 1 - a];
            cnnl_check(call, extent == 1 || shape[a] == 1 || shape[a] == extent,
                       "inputs do not broadcast");
            if (extent != 1) shape[a] = extent;
        }
    }
    cnnl_check(call, y->rank == rank, "the result has another rank");
    for (int a = 0; a < rank && !call->code; a++)
        cnnl_check(call, y->shape[rank - 1 - a] == shape[a], "the result has another shape");
}

int cnnl_axis(struct cnnl_call *call, int axis, int rank)
{
    if (axis < 0) axis += rank;
    cnnl_check(call, axis >= 0 && axis < rank, "there is no such axis");
    return axis;
}

/* Replaces the addresses of tensors by those of the host. Returns whether all are valid. */
static bool work_reach(struct cnnl_work *work, struct base_tensor *tensor, int n)
{
    for (int i = 0; i < n; i++) {
        size_t bytes = tensor[i].rank < 0 ? 0 : tensor_bytes(&tensor[i]);
        if (!bytes) continue;
        tensor[i].data = base_reach_unlocked(work->device, tensor[i].data, bytes);
        if (!tensor[i].data) return false;
    }
    return true;
}

static int work_run(void *data, int code)
{
    struct cnnl_work work = *(const struct cnnl_work *)data;
    struct base_tensor *many = NULL;
    bool good = true;

    if (code) return code;
    if (work.n_many) {
        many = malloc((size_t)work.n_many * sizeof *many);
        if (!many) return CNRT_SYS_NO_MEMORY;
        memcpy(many, work.many, (size_t)work.n_many * sizeof *many);
        work.many = many;
        good = work_reach(&work, many, work.n_many);
    }
    if (work.workspace_size) {
        void *at = base_reach_unlocked(work.device, work.workspace, work.workspace_size);
        if (at) memset(at, GARBAGE, work.workspace_size);
        good = good && at;
    }
    good = good && work_reach(&work, work.in, work.n_in) && work_reach(&work, work.out, work.n_out);
    code = good ? work.run(&work) : BASE_ILLEGAL;
    free(many);
    if (!code) return 0;
    base_lock();
    base_misuse(code, "%s: %s", work.name,
                code == BASE_FAULT     ? "an index is out of range"
                : code == BASE_ILLEGAL ? "memory was freed too early"
                                       : "it could not be computed");
    base_unlock();
    return CNRT_KERNEL_TRAP;
}

static void work_drop(void *data)
{
    free(((struct cnnl_work *)data)->many);
}

int cnnl_end(struct cnnl_call *call)
{
    return base_leave(call->code);
}

int cnnl_submit(struct cnnl_call *call)
{
    static const struct base_work kind = {work_run, work_drop};
    struct cnnl_work *work = &call->work;

    if (!call->code) call->code = workspace_overlap(work, work->workspace, work->workspace_size);
    if (call->code) {
        free(work->many);
        return base_leave(call->code);
    }
    if (base_submit(call->queue, &kind, work, sizeof *work))
        return base_leave(CNNL_EXECUTION_FAILED);
    return base_leave(0);
}

int cnnl_report_size(const char *name, void *handle, size_t size, size_t *out)
{
    struct cnnl_call call;

    cnnl_begin(&call, name, handle);
    cnnl_check(&call, out != NULL, "NULL");
    if (!call.code) *out = size;
    return cnnl_end(&call);
}
