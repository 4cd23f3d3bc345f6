/* SPDX-License-Identifier: Apache-2.0 */
/* product.c: implements products of matrices and convolutions of CNNL, whose numbers no public
 * source confirms. Orders of arguments are those of public callers. Convolutions take images
 * and filters with the channels last. */
#include "cnnl.h"
#include <string.h>

static const char matmul_kind[] = "descriptor of products", bmm_kind[] = "descriptor of batches";
static const char algo_kind[] = "algorithm of products", bmm_algo_kind[] = "algorithm of batches";
static const char result_kind[] = "heuristic result", conv_kind[] = "convolution descriptor";

struct product {
    bool has_dtype;
    int dtype, transpose[2], tf32;
};

/* An algorithm, and the heuristic result from which it is read. */
struct choice {
    bool set;
    size_t size;
};

struct convolution {
    bool set;
    int axes, pad[6], stride[3], dilation[3], groups, dtype;
};

int cnnlMatMulDescCreate(void **out)
{
    return cnnl_desc_create("cnnlMatMulDescCreate", out, matmul_kind, sizeof(struct product));
}

int cnnlMatMulDescDestroy(void *desc)
{
    return cnnl_desc_destroy("cnnlMatMulDescDestroy", desc, matmul_kind);
}

int cnnlBatchMatMulBCastDescCreate(void **out)
{
    return cnnl_desc_create("cnnlBatchMatMulBCastDescCreate", out, bmm_kind,
                            sizeof(struct product));
}

int cnnlBatchMatMulBCastDescDestroy(void *desc)
{
    return cnnl_desc_destroy("cnnlBatchMatMulBCastDescDestroy", desc, bmm_kind);
}

int cnnlMatMulAlgoCreate(void **out)
{
    return cnnl_desc_create("cnnlMatMulAlgoCreate", out, algo_kind, sizeof(struct choice));
}

int cnnlMatMulAlgoDestroy(void *algo)
{
    return cnnl_desc_destroy("cnnlMatMulAlgoDestroy", algo, algo_kind);
}

int cnnlBatchMatMulBCastAlgoCreate(void **out)
{
    return cnnl_desc_create("cnnlBatchMatMulBCastAlgoCreate", out, bmm_algo_kind,
                            sizeof(struct choice));
}

int cnnlBatchMatMulBCastAlgoDestroy(void *algo)
{
    return cnnl_desc_destroy("cnnlBatchMatMulBCastAlgoDestroy", algo, bmm_algo_kind);
}

int cnnlCreateMatMulHeuristicResult(void **out)
{
    return cnnl_desc_create("cnnlCreateMatMulHeuristicResult", out, result_kind,
                            sizeof(struct choice));
}

int cnnlDestroyMatMulHeuristicResult(void *result)
{
    return cnnl_desc_destroy("cnnlDestroyMatMulHeuristicResult", result, result_kind);
}

/* Sets an attribute, whose numbers begin at `first`; all values are ints. */
static int product_set(const char *name, void *desc, const char *kind, int at, int last,
                       const void *value, size_t size)
{
    int code = cnrt_enter(name), number;
    struct product *p = desc;

    if (!code && !cnnl_is_assumed())
        code = base_refuse(CNNL_NOT_SUPPORTED, "%s: its numbers are not confirmed", name);
    if (!code && !base_handle_is(desc, kind))
        code = base_misuse(CNNL_BAD_PARAM, "%s: %p is no %s", name, desc, kind);
    if (!code && (at < 0 || at > last || !value || size != sizeof number))
        code = base_refuse(CNNL_BAD_PARAM, "%s: no such attribute, or a value that is no int",
                           name);
    if (code) return base_leave(code);
    memcpy(&number, value, sizeof number);
    if (at < 2) p->transpose[at] = number;
    else if (at == 2) p->dtype = number;
    else p->tf32 = number;
    p->has_dtype |= at == 2;
    return base_leave(0);
}

int cnnlSetMatMulDescAttr(void *desc, int attribute, const void *value, size_t size)
{
    return product_set("cnnlSetMatMulDescAttr", desc, matmul_kind, attribute - CNNL_MATMUL_TRANSA,
                       3, value, size);
}

int cnnlSetBatchMatMulBCastDescAttr(void *desc, int attribute, const void *value, size_t size)
{
    return product_set("cnnlSetBatchMatMulBCastDescAttr", desc, bmm_kind,
                       attribute - CNNL_BMM_TRANSA, 2, value, size);
}

static size_t product_size(const void *a_desc, const void *b_desc)
{
    return 256 + cnnl_size(a_desc) + cnnl_size(b_desc);
}

static int product_heuristic(const char *name, void *handle, const void *desc, const char *kind,
                             const void *a_desc, const void *b_desc, int requested, void **results,
                             int *got)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, name, handle, CNNL_FAST);
    cnnl_check(&call, base_handle_is(desc, kind), "no descriptor");
    cnnl_check(&call, requested >= 1 && results && got, "no room for a result");
    cnnl_check(&call, cnnl_tensor_of(a_desc) && cnnl_tensor_of(b_desc), "no tensor");
    if (!cnnl_failed(&call))
        cnnl_check(&call, base_handle_is(results[0], result_kind), "no result to fill in");
    if (!cnnl_failed(&call)) {
        *(struct choice *)results[0] = (struct choice){true, product_size(a_desc, b_desc)};
        *got = 1;
    }
    return cnnl_end(&call);
}

int cnnlGetMatMulAlgoHeuristic(void *handle, const void *desc, const void *a_desc,
                               const void *b_desc, const void *c_desc, const void *d_desc,
                               const void *preference, int requested, void **results, int *got)
{
    (void)c_desc, (void)d_desc, (void)preference;
    return product_heuristic("cnnlGetMatMulAlgoHeuristic", handle, desc, matmul_kind, a_desc,
                             b_desc, requested, results, got);
}

int cnnlGetBatchMatMulAlgoHeuristic(void *handle, const void *desc, const void *a_desc,
                                    const void *b_desc, const void *c_desc, const void *preference,
                                    int requested, void **results, int *got)
{
    (void)c_desc, (void)preference;
    return product_heuristic("cnnlGetBatchMatMulAlgoHeuristic", handle, desc, bmm_kind, a_desc,
                             b_desc, requested, results, got);
}

static int product_choice(const char *name, const void *result, void *algo, const char *kind,
                          size_t *size)
{
    const struct choice *a = result;
    int code = cnrt_enter(name);

    if (!code && (!base_handle_is(result, result_kind) || !a->set || !size))
        code = base_refuse(CNNL_BAD_PARAM, "%s: no result that is filled in, or NULL", name);
    if (!code && !base_handle_is(algo, kind))
        code = base_misuse(CNNL_BAD_PARAM, "%s: %p is no %s", name, algo, kind);
    if (!code) {
        *(struct choice *)algo = *a;
        *size = a->size;
    }
    return base_leave(code);
}

int cnnlGetMatMulHeuristicResult(const void *result, void *algo, size_t *size)
{
    return product_choice("cnnlGetMatMulHeuristicResult", result, algo, algo_kind, size);
}

int cnnlGetBatchMatMulHeuristicResult(const void *result, void *algo, size_t *size)
{
    return product_choice("cnnlGetBatchMatMulHeuristicResult", result, algo, bmm_algo_kind, size);
}

/* Checks a product whose tensors are appended, and submits it. rank 0: any from 3. */
static int product_submit(struct cnnl_call *call, const struct product *p, const void *algo,
                          const char *kind, const void *alpha, const void *beta, void *workspace,
                          size_t size, size_t needed)
{
    struct bp_matmul_attrs attrs = {.size = sizeof attrs};
    const struct base_tensor *a = &call->work.in[0], *b = &call->work.in[1];
    const struct base_tensor *c = &call->work.out[0];
    bool batches = kind == bmm_algo_kind;

    cnnl_check(call, base_handle_is(algo, kind) && ((const struct choice *)algo)->set,
               "an algorithm that no heuristic has set");
    cnnl_check(call, alpha && beta, "NULL factors");
    cnnl_factors(call, alpha, beta);
    cnnl_check(call, p->has_dtype, "the type of the computation is not set");
    cnnl_check(call, p->dtype == CNNL_FLOAT, "the type of the computation is not float");
    if (!cnnl_failed(call)) {
        int64_t k[2], m, n;
        cnnl_check(call, batches ? a->rank >= 3 && b->rank >= 3 : a->rank == 2 && b->rank == 2,
                   "a rank");
        if (cnnl_failed(call)) return cnnl_submit(call);
        k[0] = a->shape[a->rank - (p->transpose[0] ? 2 : 1)];
        k[1] = b->shape[b->rank - (p->transpose[1] ? 1 : 2)];
        m = a->shape[a->rank - (p->transpose[0] ? 1 : 2)];
        n = b->shape[b->rank - (p->transpose[1] ? 2 : 1)];
        cnnl_check(call, k[0] == k[1] && k[0] > 0, "the inner extents differ, or are 0");
        cnnl_check(call, c->rank >= 2 && c->shape[c->rank - 2] == m && c->shape[c->rank - 1] == n,
                   "the result has another shape");
        cnnl_check(call, a->dtype == b->dtype && a->dtype == c->dtype, "dtypes differ");
        for (int i = 0; batches && i < c->rank - 2 && !cnnl_failed(call); i++) {
            int64_t x = i < c->rank - a->rank ? 1 : a->shape[i - (c->rank - a->rank)];
            int64_t y = i < c->rank - b->rank ? 1 : b->shape[i - (c->rank - b->rank)];
            cnnl_check(call, (x == 1 || y == 1 || x == y) && c->shape[i] == (x == 1 ? y : x),
                       "batches do not broadcast to the result");
        }
    }
    cnnl_workspace(call, workspace, size, needed);
    if (!cnnl_failed(call)) {
        attrs.transpose_a = p->transpose[0] != 0;
        attrs.transpose_b = p->transpose[1] != 0;
    }
    cnnl_operator(call, "matmul", &attrs, sizeof attrs);
    return cnnl_submit(call);
}

int cnnlMatMul_v2(void *handle, const void *desc, const void *algo, const void *alpha,
                  const void *a_desc, const void *a, const void *b_desc, const void *b,
                  const void *beta, const void *c_desc, const void *c, void *workspace, size_t size,
                  const void *d_desc, void *d)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlMatMul_v2", handle, CNNL_FAST);
    cnnl_check(&call, base_handle_is(desc, matmul_kind), "no descriptor");
    cnnl_check(&call, c_desc == d_desc && c == d, "an addend other than the result");
    cnnl_in(&call, a_desc, a, CNNL_FLOATS);
    cnnl_in(&call, b_desc, b, CNNL_FLOATS);
    cnnl_out(&call, d_desc, d, CNNL_FLOATS);
    return product_submit(&call, desc, algo, algo_kind, alpha, beta, workspace, size,
                          product_size(a_desc, b_desc));
}

int cnnlBatchMatMulBCast_v2(void *handle, const void *desc, const void *algo, const void *alpha,
                            const void *a_desc, const void *a, const void *b_desc, const void *b,
                            const void *beta, const void *c_desc, void *c, void *workspace,
                            size_t size)
{
    struct cnnl_call call;

    cnnl_begin_assumed(&call, "cnnlBatchMatMulBCast_v2", handle, CNNL_FAST);
    cnnl_check(&call, base_handle_is(desc, bmm_kind), "no descriptor");
    cnnl_in(&call, a_desc, a, CNNL_FLOATS);
    cnnl_in(&call, b_desc, b, CNNL_FLOATS);
    cnnl_out(&call, c_desc, c, CNNL_FLOATS);
    return product_submit(&call, desc, algo, bmm_algo_kind, alpha, beta, workspace, size,
                          product_size(a_desc, b_desc));
}

int cnnlCreateConvolutionDescriptor(void **out)
{
    return cnnl_desc_create("cnnlCreateConvolutionDescriptor", out, conv_kind,
                            sizeof(struct convolution));
}

int cnnlDestroyConvolutionDescriptor(void *desc)
{
    return cnnl_desc_destroy("cnnlDestroyConvolutionDescriptor", desc, conv_kind);
}

int cnnlSetConvolutionDescriptor(void *desc, int dims, const int *pad, const int *stride,
                                 const int *dilation, int groups, int dtype)
{
    struct convolution c = {.set = true, .axes = dims - 2, .groups = groups, .dtype = dtype};
    int code = cnrt_enter("cnnlSetConvolutionDescriptor");

    if (!code && !base_handle_is(desc, conv_kind))
        code = base_misuse(CNNL_BAD_PARAM, "%p is no convolution descriptor", desc);
    if (!code &&
        (dims < 4 || dims > 5 || !pad || !stride || !dilation || groups < 1 || dtype != CNNL_FLOAT))
        code = base_refuse(CNNL_BAD_PARAM, "%d axes, %d groups, or dtype %d", dims, groups, dtype);
    for (int a = 0; !code && a < c.axes; a++) {
        memcpy(c.pad + 2 * a, pad + 2 * a, 2 * sizeof *pad);
        c.stride[a] = stride[a];
        c.dilation[a] = dilation[a];
        if (pad[2 * a] < 0 || pad[2 * a + 1] < 0 || stride[a] < 1 || dilation[a] < 1)
            code = base_refuse(CNNL_BAD_PARAM, "a padding, a stride or a dilation");
    }
    if (!code) *(struct convolution *)desc = c;
    return base_leave(code);
}

static int conv_algorithm(const char *name, void *handle, const void *desc, int preference,
                          int known, int *algo)
{
    const struct convolution *c = desc;
    struct cnnl_call call;

    cnnl_begin_assumed(&call, name, handle, CNNL_FAST);
    cnnl_check(&call, base_handle_is(desc, conv_kind) && c->set, "no descriptor that is set");
    cnnl_check(&call, preference == known && algo, "no such preference, or NULL");
    if (!cnnl_failed(&call)) *algo = CNNL_ALGORITHM;
    return cnnl_end(&call);
}

int cnnlGetConvolutionForwardAlgorithm(void *handle, const void *desc, const void *x_desc,
                                       const void *w_desc, const void *y_desc, int preference,
                                       int *algo)
{
    (void)x_desc, (void)w_desc, (void)y_desc;
    return conv_algorithm("cnnlGetConvolutionForwardAlgorithm", handle, desc, preference,
                          CNNL_FORWARD_FASTEST, algo);
}

int cnnlGetConvolutionBackwardDataAlgorithm(void *handle, const void *w_desc, const void *dy_desc,
                                            const void *desc, const void *dx_desc, int preference,
                                            int *algo)
{
    (void)w_desc, (void)dy_desc, (void)dx_desc;
    return conv_algorithm("cnnlGetConvolutionBackwardDataAlgorithm", handle, desc, preference,
                          CNNL_BACKWARD_DATA_FASTEST, algo);
}

int cnnlGetConvolutionBackwardFilterAlgorithm(void *handle, const void *desc, const void *x_desc,
                                              const void *dy_desc, const void *dw_desc,
                                              int preference, int *algo)
{
    (void)x_desc, (void)dy_desc, (void)dw_desc;
    return conv_algorithm("cnnlGetConvolutionBackwardFilterAlgorithm", handle, desc, preference,
                          CNNL_BACKWARD_FILTER_FASTEST, algo);
}

static size_t conv_size(const void *x_desc, const void *w_desc)
{
    return 512 + cnnl_size(x_desc) + cnnl_size(w_desc);
}

int cnnlGetConvolutionForwardWorkspaceSize(void *handle, const void *x_desc, const void *w_desc,
                                           const void *y_desc, const void *bias_desc,
                                           const void *desc, int algo, size_t *out)
{
    (void)y_desc, (void)bias_desc, (void)desc, (void)algo;
    return cnnl_report_size("cnnlGetConvolutionForwardWorkspaceSize", handle,
                            conv_size(x_desc, w_desc), out);
}

int cnnlGetConvolutionBackwardDataWorkspaceSize(void *handle, const void *w_desc,
                                                const void *dy_desc, const void *desc,
                                                const void *dx_desc, int algo, size_t *out)
{
    (void)dy_desc, (void)desc, (void)algo;
    return cnnl_report_size("cnnlGetConvolutionBackwardDataWorkspaceSize", handle,
                            conv_size(dx_desc, w_desc), out);
}

int cnnlGetConvolutionBackwardFilterWorkspaceSize(void *handle, const void *x_desc,
                                                  const void *dy_desc, const void *dw_desc,
                                                  const void *desc, int algo, size_t *out)
{
    (void)dy_desc, (void)desc, (void)algo;
    return cnnl_report_size("cnnlGetConvolutionBackwardFilterWorkspaceSize", handle,
                            conv_size(x_desc, dw_desc), out);
}

/* Views a tensor with the channels last as one with the channels second. */
static void conv_view(struct base_tensor *t)
{
    int64_t channels = t->shape[t->rank - 1], step = t->stride[t->rank - 1];

    memmove(t->shape + 2, t->shape + 1, (size_t)(t->rank - 2) * sizeof *t->shape);
    memmove(t->stride + 2, t->stride + 1, (size_t)(t->rank - 2) * sizeof *t->stride);
    t->shape[1] = channels;
    t->stride[1] = step;
}

static void conv_layout(struct cnnl_call *call, const void *desc)
{
    const struct cnnl_tensor *t = cnnl_tensor_of(desc);

    cnnl_check(call,
               t && ((t->rank == 4 && t->layout == CNNL_NHWC) ||
                     (t->rank == 5 && t->layout == CNNL_NDHWC)),
               "a tensor's layout is neither NHWC nor NDHWC");
}

/* Checks the tensors of a convolution x * w = y, which have the channels last, and their types. */
static void conv_check(struct cnnl_call *call, const struct convolution *c, int algo,
                       struct base_tensor *x, struct base_tensor *w, struct base_tensor *y)
{
    if (cnnl_failed(call)) return;
    cnnl_check(call, algo == CNNL_ALGORITHM, "an algorithm that the library has not named");
    cnnl_check(call, x->rank == c->axes + 2 && w->rank == x->rank && y->rank == x->rank, "a rank");
    cnnl_check(call, x->dtype == w->dtype && x->dtype == y->dtype, "dtypes differ");
    if (cnnl_failed(call)) return;
    conv_view(x);
    conv_view(w);
    conv_view(y);
    cnnl_check(call,
               x->shape[0] == y->shape[0] && x->shape[1] == w->shape[1] * c->groups &&
                   y->shape[1] == w->shape[0] && w->shape[0] % c->groups == 0,
               "images, channels or filters do not agree");
    for (int a = 0; a < c->axes && !cnnl_failed(call); a++) {
        int64_t span = (w->shape[2 + a] - 1) * c->dilation[a] + 1;
        int64_t room = x->shape[2 + a] + c->pad[2 * a] + c->pad[2 * a + 1] - span;
        cnnl_check(call, room >= 0 && y->shape[2 + a] == room / c->stride[a] + 1, "an extent");
    }
}

static struct bp_conv_attrs conv_attrs(const struct convolution *c)
{
    struct bp_conv_attrs attrs = {sizeof attrs, {1, 1, 1}, {1, 1, 1}, {0}, c->groups};

    for (int a = 0; a < c->axes; a++) {
        attrs.stride[a] = c->stride[a];
        attrs.dilation[a] = c->dilation[a];
        attrs.pad[a] = c->pad[2 * a];
        attrs.pad[3 + a] = c->pad[2 * a + 1];
    }
    return attrs;
}

/* The attributes of the gradients have the same members. */
static void conv_operator(struct cnnl_call *call, const char *op, const struct convolution *c)
{
    struct bp_conv_attrs attrs;

    if (cnnl_failed(call)) return;
    attrs = conv_attrs(c);
    cnnl_operator(call, op, &attrs, sizeof attrs);
}

static const struct convolution *conv_begin(struct cnnl_call *call, const char *name, void *handle,
                                            const void *desc)
{
    cnnl_begin_assumed(call, name, handle, CNNL_FAST);
    cnnl_check(call, base_handle_is(desc, conv_kind) && ((const struct convolution *)desc)->set,
               "no descriptor that is set");
    return desc;
}

int cnnlConvolutionForward(void *handle, const void *desc, int algo, const void *alpha,
                           const void *x_desc, const void *x, const void *w_desc, const void *w,
                           const void *bias_desc, const void *bias, void *workspace, size_t size,
                           const void *beta, const void *y_desc, void *y)
{
    struct cnnl_call call;
    const struct convolution *c = conv_begin(&call, "cnnlConvolutionForward", handle, desc);
    struct cnnl_work *work = &call.work;

    cnnl_factors(&call, alpha, beta);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_in(&call, w_desc, w, CNNL_FLOATS);
    cnnl_in_maybe(&call, bias_desc, bias, CNNL_FLOATS);
    cnnl_out(&call, y_desc, y, CNNL_FLOATS);
    conv_layout(&call, x_desc);
    conv_layout(&call, w_desc);
    conv_layout(&call, y_desc);
    conv_check(&call, c, algo, &work->in[0], &work->in[1], &work->out[0]);
    if (!cnnl_failed(&call) && bias)
        cnnl_check(&call,
                   work->in[2].rank == 1 && work->in[2].shape[0] == work->in[1].shape[0] &&
                       work->in[2].dtype == work->in[0].dtype,
                   "the bias has another shape or dtype");
    cnnl_workspace(&call, workspace, size, conv_size(x_desc, w_desc));
    conv_operator(&call, "conv", c);
    return cnnl_submit(&call);
}

/* The portable kernels take the tensor whose gradient is computed for its shape. */
static int conv_run_gradient(struct cnnl_work *work)
{
    const struct base_tensor *in[] = {&work->in[0], &work->in[1], &work->out[0]};
    const struct base_tensor *out = &work->out[0];

    return cnnl_compute(work->op, work->attrs, in[0]->dtype, in, 3, &out, 1);
}

int cnnlConvolutionBackwardData(void *handle, const void *alpha, const void *w_desc, const void *w,
                                const void *dy_desc, const void *dy, const void *desc, int algo,
                                void *workspace, size_t size, const void *beta, const void *dx_desc,
                                void *dx)
{
    struct cnnl_call call;
    const struct convolution *c = conv_begin(&call, "cnnlConvolutionBackwardData", handle, desc);
    struct cnnl_work *work = &call.work;

    cnnl_factors(&call, alpha, beta);
    cnnl_in(&call, dy_desc, dy, CNNL_FLOATS);
    cnnl_in(&call, w_desc, w, CNNL_FLOATS);
    cnnl_out(&call, dx_desc, dx, CNNL_FLOATS);
    conv_layout(&call, w_desc);
    conv_layout(&call, dy_desc);
    conv_layout(&call, dx_desc);
    conv_check(&call, c, algo, &work->out[0], &work->in[1], &work->in[0]);
    cnnl_workspace(&call, workspace, size, conv_size(dx_desc, w_desc));
    conv_operator(&call, "conv_grad_input", c);
    work->run = conv_run_gradient;
    return cnnl_submit(&call);
}

int cnnlConvolutionBackwardFilter(void *handle, const void *alpha, const void *x_desc,
                                  const void *x, const void *dy_desc, const void *dy,
                                  const void *desc, int algo, void *workspace, size_t size,
                                  const void *beta, const void *dw_desc, void *dw)
{
    struct cnnl_call call;
    const struct convolution *c = conv_begin(&call, "cnnlConvolutionBackwardFilter", handle, desc);
    struct cnnl_work *work = &call.work;

    cnnl_factors(&call, alpha, beta);
    cnnl_in(&call, dy_desc, dy, CNNL_FLOATS);
    cnnl_in(&call, x_desc, x, CNNL_FLOATS);
    cnnl_out(&call, dw_desc, dw, CNNL_FLOATS);
    conv_layout(&call, x_desc);
    conv_layout(&call, dy_desc);
    conv_layout(&call, dw_desc);
    conv_check(&call, c, algo, &work->in[1], &work->out[0], &work->in[0]);
    cnnl_workspace(&call, workspace, size, conv_size(x_desc, dw_desc));
    conv_operator(&call, "conv_grad_weight", c);
    work->run = conv_run_gradient;
    return cnnl_submit(&call);
}
