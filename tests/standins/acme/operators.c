/* SPDX-License-Identifier: Apache-2.0 */
/* operators.c: implements Acme's operators, by the portable kernels compiled as C. Each function
 * checks its tensors when it is called, and again when the work runs. */
#include "acme_standin.h"
#include "../base/rows.h"
#include <string.h>

/* As a caller describes a tensor. */
struct description {
    void *data;
    int32_t dtype, rank;
    int64_t shape[8], stride[8];
};

enum {
    MOST = 3
};

struct work {
    struct base_device *device;
    const char *name, *op;
    int n_in;
    struct base_tensor tensor[MOST]; /* inputs, then the output */
    uint32_t type[4];
    int64_t axes[8];
    union {
        struct bp_sum_attrs sum;
        struct bp_softmax_attrs softmax;
        struct bp_matmul_attrs matmul;
        struct bp_cast_attrs cast;
        struct bp_embedding_attrs embedding;
    } attrs;
    uint32_t *bad; /* a word for indices out of range, in pinned memory; or NULL */
};

struct call {
    struct work work;
    struct base_stream *stream;
    int code;
};

/* Bytes from the first to past the last element. */
static size_t tensor_span(const struct base_tensor *t)
{
    size_t last = 0;

    if (!base_tensor_count(t)) return 0;
    for (int a = 0; a < t->rank; a++) last += (size_t)((t->shape[a] - 1) * t->stride[a]);
    return (last + 1) * base_dtype_size(t->dtype);
}

static void call_begin(struct call *call, const char *name, const char *op, void *stream)
{
    *call = (struct call){.work = {.name = name, .op = op}, .stream = stream};
    for (int i = 0; i < 4; i++) call->work.type[i] = BASE_ABSENT;
    call->code = acme_enter(name, &call->work.device);
    if (!call->code) call->code = acme_stream_check(stream, call->work.device);
}

static void call_refuse(struct call *call, const char *why)
{
    if (!call->code) call->code = base_misuse(ACME_WRONG, "%s: %s", call->work.name, why);
}

static void call_tensor(struct call *call, int at, const struct description *d)
{
    static const uint32_t dtypes[] = {BASE_ABSENT, BP_F32, BP_F16, BP_BF16,
                                      BP_I32,      BP_I64, BP_BOOL};
    struct base_tensor *t = &call->work.tensor[at];
    struct base_range range;

    if (call->code) return;
    if (!d || d->dtype < 1 || d->dtype > 6 || d->rank < 0 || d->rank > 8) {
        call_refuse(call, "a description is wrong");
        return;
    }
    *t = (struct base_tensor){.data = d->data, .dtype = dtypes[d->dtype], .rank = d->rank};
    memcpy(t->shape, d->shape, sizeof t->shape);
    memcpy(t->stride, d->stride, sizeof t->stride);
    if (!base_tensor_count(t)) return;
    range = base_find(t->data);
    if (range.place != BASE_DEVICE || range.device != call->work.device)
        call_refuse(call, "a tensor is not on the device");
    else if (range.room < tensor_span(t)) call_refuse(call, "a tensor is longer than its memory");
}

static bool work_reach(struct work *work)
{
    for (int i = 0; i <= work->n_in; i++) {
        struct base_tensor *t = &work->tensor[i];
        size_t bytes = tensor_span(t);
        if (!bytes) continue;
        t->data = base_reach_unlocked(work->device, t->data, bytes);
        if (!t->data) return false;
    }
    return true;
}

static int operator_run(void *data, int code)
{
    struct work work = *(const struct work *)data;
    struct base_call call = {.op = work.op, .attrs = &work.attrs, .n_in = work.n_in, .n_out = 1};

    if (code) return code;
    if (!work_reach(&work)) return ACME_ILLEGAL;
    memcpy(call.type, work.type, sizeof call.type);
    for (int i = 0; i < work.n_in; i++) call.in[i] = &work.tensor[i];
    call.out[0] = &work.tensor[work.n_in];
    if (!strcmp(work.op, "sum")) work.attrs.sum.axes.at = work.axes;
    if (!work.attrs.sum.size) call.attrs = NULL; /* the operator has none */
    code = base_compute(&call);
    if (code == BASE_FAULT && work.bad) {
        uint32_t *bad = base_reach_unlocked(work.device, work.bad, sizeof *bad);
        if (!bad) return ACME_ILLEGAL;
        *bad = 1;
        code = 0;
    }
    return code ? ACME_FAILED : 0;
}

/* Submits the work, whose tensors and attributes are there, and ends the call. */
static int call_end(struct call *call)
{
    static const struct base_work kind = {.run = operator_run};

    if (!call->code && call->work.type[0] == BASE_ABSENT)
        call->work.type[0] = call->work.tensor[0].dtype;
    if (!call->code && !base_computes(call->work.op, call->work.type))
        call_refuse(call, "there is no such operator for these dtypes");
    if (!call->code) call->code = base_submit(call->stream, &kind, &call->work, sizeof call->work);
    return acme_leave(call->code);
}

static bool same_dtype(const struct call *call, int i, int k)
{
    return call->work.tensor[i].dtype == call->work.tensor[k].dtype;
}

static int unary_call(const char *name, const char *op, void *stream, const struct description *x,
                      const struct description *out)
{
    struct call call;

    call_begin(&call, name, op, stream);
    call.work.n_in = 1;
    call_tensor(&call, 0, x);
    call_tensor(&call, 1, out);
    if (!same_dtype(&call, 0, 1)) call_refuse(&call, "dtypes differ");
    return call_end(&call);
}

static int binary_call(const char *name, const char *op, void *stream, const struct description *x,
                       const struct description *y, const struct description *out)
{
    struct call call;

    call_begin(&call, name, op, stream);
    call.work.n_in = 2;
    call_tensor(&call, 0, x);
    call_tensor(&call, 1, y);
    call_tensor(&call, 2, out);
    if (!same_dtype(&call, 0, 1) || !same_dtype(&call, 0, 2)) call_refuse(&call, "dtypes differ");
    return call_end(&call);
}

#define UNARY(name, op) \
    ACME_API int name(void *stream, const struct description *x, const struct description *out); \
    int name(void *stream, const struct description *x, const struct description *out) \
    { \
        return unary_call(#name, op, stream, x, out); \
    }
#define BINARY(name, op) \
    ACME_API int name(void *stream, const struct description *x, const struct description *y, \
                      const struct description *out); \
    int name(void *stream, const struct description *x, const struct description *y, \
             const struct description *out) \
    { \
        return binary_call(#name, op, stream, x, y, out); \
    }
BINARY(acmeAdd, "add")
BINARY(acmeSub, "sub")
BINARY(acmeMul, "mul")
BINARY(acmeDiv, "div")
BINARY(acmeMax, "maximum")
BINARY(acmeMin, "minimum")
UNARY(acmeExp, "exp")
UNARY(acmeLog, "log")
UNARY(acmeSqrt, "sqrt")
UNARY(acmeAbs, "abs")
UNARY(acmeNeg, "neg")
UNARY(acmeRelu, "relu")
UNARY(acmeSigmoid, "sigmoid")
UNARY(acmeTanh, "tanh")
UNARY(acmeCopyTensor, "assign")

ACME_API int acmeConvert(void *stream, const struct description *x, const struct description *out);
int acmeConvert(void *stream, const struct description *x, const struct description *out)
{
    struct call call;

    call_begin(&call, "acmeConvert", "cast", stream);
    call.work.n_in = 1;
    call_tensor(&call, 0, x);
    call_tensor(&call, 1, out);
    call.work.type[0] = call.work.tensor[0].dtype;
    call.work.type[1] = call.work.tensor[1].dtype;
    call.work.attrs.cast = (struct bp_cast_attrs){.size = sizeof(struct bp_cast_attrs),
                                                  .to = call.work.tensor[1].dtype};
    return call_end(&call);
}

ACME_API int acmeReduceSum(void *stream, const struct description *x, const int64_t *axes,
                           int64_t n, int64_t keep, const struct description *out);
int acmeReduceSum(void *stream, const struct description *x, const int64_t *axes, int64_t n,
                  int64_t keep, const struct description *out)
{
    struct call call;

    call_begin(&call, "acmeReduceSum", "sum", stream);
    call.work.n_in = 1;
    call_tensor(&call, 0, x);
    call_tensor(&call, 1, out);
    if (n < 0 || n > 8) call_refuse(&call, "too many axes");
    for (int64_t i = 0; i < n && !call.code; i++) {
        if (axes[i] < 0 || axes[i] >= x->rank) call_refuse(&call, "there is no such axis");
        call.work.axes[i] = axes[i];
    }
    call.work.attrs.sum = (struct bp_sum_attrs){.size = sizeof(struct bp_sum_attrs), .keep = keep};
    call.work.attrs.sum.axes.n = (uint64_t)n;
    return call_end(&call);
}

ACME_API int acmeSoftmax(void *stream, const struct description *x, int64_t axis,
                         const struct description *out);
int acmeSoftmax(void *stream, const struct description *x, int64_t axis,
                const struct description *out)
{
    struct call call;

    call_begin(&call, "acmeSoftmax", "softmax", stream);
    call.work.n_in = 1;
    call_tensor(&call, 0, x);
    call_tensor(&call, 1, out);
    if (!call.code && (axis < 0 || axis >= x->rank)) call_refuse(&call, "there is no such axis");
    call.work.attrs.softmax = (struct bp_softmax_attrs){.size = sizeof(struct bp_softmax_attrs),
                                                        .axis = axis};
    return call_end(&call);
}

ACME_API int acmeMatmul(void *stream, const struct description *a, int64_t transpose_a,
                        const struct description *b, int64_t transpose_b,
                        const struct description *out);
int acmeMatmul(void *stream, const struct description *a, int64_t transpose_a,
               const struct description *b, int64_t transpose_b, const struct description *out)
{
    struct call call;

    call_begin(&call, "acmeMatmul", "matmul", stream);
    call.work.n_in = 2;
    call_tensor(&call, 0, a);
    call_tensor(&call, 1, b);
    call_tensor(&call, 2, out);
    if (!same_dtype(&call, 0, 1) || !same_dtype(&call, 0, 2)) call_refuse(&call, "dtypes differ");
    call.work.attrs.matmul = (struct bp_matmul_attrs){.size = sizeof(struct bp_matmul_attrs),
                                                      .transpose_a = transpose_a,
                                                      .transpose_b = transpose_b};
    return call_end(&call);
}

ACME_API int acmeEmbedding(void *stream, const struct description *weight,
                           const struct description *ids, int64_t padding, uint32_t *bad,
                           const struct description *out);
int acmeEmbedding(void *stream, const struct description *weight, const struct description *ids,
                  int64_t padding, uint32_t *bad, const struct description *out)
{
    struct call call;

    call_begin(&call, "acmeEmbedding", "embedding", stream);
    call.work.n_in = 2;
    call_tensor(&call, 0, weight);
    call_tensor(&call, 1, ids);
    call_tensor(&call, 2, out);
    if (!same_dtype(&call, 0, 2)) call_refuse(&call, "dtypes differ");
    if (!call.code && base_find(bad).place != BASE_PINNED)
        call_refuse(&call, "the word for bad indices is not in pinned memory");
    call.work.bad = bad;
    call.work.type[0] = call.work.tensor[0].dtype;
    call.work.type[2] = call.work.tensor[1].dtype;
    call.work.attrs.embedding = (struct bp_embedding_attrs){
        .size = sizeof(struct bp_embedding_attrs), .padding_idx = padding};
    return call_end(&call);
}
