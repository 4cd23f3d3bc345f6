/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn.c: computes convolutions, also those with an epilogue, by cuDNN. The algorithm is chosen
 * when the plan is made, by the library's heuristics and without measurements: for half types by
 * the graph interface (cudnn_graph.c); for other types, and where the graph interface has no
 * engine, by the older interface. Filters whose layout differs from the images' layout are copied
 * through the workspace. For half types the library adds the bias to its sums in f32; for other
 * types the bias is written to the result before the products are added. In both cases the result
 * is rounded once. A handle belongs to one stream, so each stream has its own. */
#include "cudnn_plan.h"
#include <string.h>

#define KIT_LIST "gpu/cudnn.def"
#define KIT_TABLE dnn
#define KIT_CALLS struct cudnn_calls
#define KIT_MORE struct gpu_vendor_calls first;
#include <kit/table.h>

const struct cudnn_calls *const gpu_cudnn_call = &dnn.call;

static size_t cudnn_version(void)
{
    return dnn.call.cudnnGetVersion ? dnn.call.cudnnGetVersion() : 0;
}

static int cudnn_set_up(void *handle, void *raw_stream, const char **out_function)
{
    *out_function = "cudnnSetStream";
    return raw_stream ? dnn.call.cudnnSetStream(handle, raw_stream) : 0;
}

struct gpu_vendor gpu_cudnn = {
    .name = "cuDNN", .id = GPU_VENDOR_CUDNN, .calls = &dnn.first,
    .library = KIT_LIBRARY(dnn_symbols, dnn.function, NULL),
    .version = cudnn_version, .forget = cudnn_forget,
    .for_streams = true, .set_up = cudnn_set_up,
};

int cudnn_type_of(uint8_t dtype)
{
    return dtype == BP_F64 ? CUDNN_F64
           : dtype == BP_F32 ? CUDNN_F32
           : dtype == BP_F16 ? CUDNN_F16
                             : CUDNN_BF16;
}

bool cudnn_may_add_in_half(const struct cudnn_plan *p)
{
    return p->kind == CONV_GRAD_INPUT && p->dtype == BP_F16;
}

/* The tensor that is computed, by enum conv_kind. */
static const int result_of[] = {[CONV_FORWARD] = Y, [CONV_GRAD_INPUT] = X, [CONV_GRAD_WEIGHT] = W};

/* Assigns the call's views to the tensors X, W and Y. */
static void cudnn_parts_of(enum conv_kind kind, const struct bp_view *const *in,
                           const struct bp_view *const *out, const struct bp_view *part[TENSORS])
{
    part[X] = kind == CONV_FORWARD ? in[0] : kind == CONV_GRAD_INPUT ? out[0] : in[1];
    part[W] = kind == CONV_GRAD_WEIGHT ? out[0] : in[1];
    part[Y] = kind == CONV_FORWARD ? out[0] : in[0];
}

/* The strides of a dense tensor in this layout, by the view's axes. */
static void cudnn_dense(const struct bp_view *v, int format, int64_t stride[AXES])
{
    int64_t next = 1;

    if (format == CUDNN_CHANNELS_LAST) {
        stride[1] = 1;
        next = v->shape[1];
    }
    for (int a = v->rank - 1; a >= 0; a--) {
        if (a == 1 && format == CUDNN_CHANNELS_LAST) continue;
        stride[a] = next;
        next *= v->shape[a];
    }
}

static bool cudnn_lies(const struct bp_view *v, int format)
{
    int64_t stride[AXES];

    cudnn_dense(v, format, stride);
    for (int a = 0; a < v->rank; a++)
        if (v->shape[a] > 1 && v->stride[a] != stride[a]) return false;
    return v->count <= INT32_MAX;
}

static uint64_t in_workspace(uint64_t bytes)
{
    return gpu_gemm_aligned(bytes, CUDNN_WORKSPACE_ALIGNMENT);
}

/* Chooses one layout for all tensors. false: the images have different layouts, or none that the
 * library supports. */
static bool choose_format(struct cudnn_plan *p, const struct bp_view *const part[TENSORS])
{
    bool rows = cudnn_lies(part[X], CUDNN_ROW_MAJOR) && cudnn_lies(part[Y], CUDNN_ROW_MAJOR);
    bool last = cudnn_lies(part[X], CUDNN_CHANNELS_LAST) &&
                cudnn_lies(part[Y], CUDNN_CHANNELS_LAST);

    if ((!rows && !last) || part[W]->count > INT32_MAX) return false;
    p->format = rows && (!last || cudnn_lies(part[W], CUDNN_ROW_MAJOR)) ? CUDNN_ROW_MAJOR
                                                                 : CUDNN_CHANNELS_LAST;
    p->repack = !cudnn_lies(part[W], p->format);
    cudnn_dense(part[W], p->format, p->filter_stride);
    p->filter_bytes = in_workspace((uint64_t)part[W]->count * gpu_gemm_size(p->dtype));
    return true;
}

/* Converts shape and strides to int. A tensor with one spatial axis gets another one of extent 1
 * before it. */
static int shape_of(const struct bp_view *v, const int64_t *stride, int to_shape[AXES],
                    int to_stride[AXES])
{
    int gap = v->rank == 3;

    for (int a = 0; a < v->rank; a++) {
        to_shape[a + (a > 1 ? gap : 0)] = (int)v->shape[a];
        to_stride[a + (a > 1 ? gap : 0)] = (int)stride[a];
    }
    if (gap) {
        to_shape[2] = 1;
        to_stride[2] = (int)(v->shape[2] * stride[2]);
    }
    return v->rank + gap;
}

static void shape_parts(struct cudnn_plan *p, const struct bp_view *const part[TENSORS])
{
    int64_t stride[AXES];

    for (int i = 0; i < TENSORS; i++) {
        cudnn_dense(part[i], p->format, stride);
        p->rank = shape_of(part[i], stride, p->shape[i], p->stride[i]);
    }
}

void cudnn_bias_shape(const struct cudnn_plan *p, int out_shape[AXES], int out_stride[AXES])
{
    int channels = p->shape[Y][1];
    bool rows = p->format == CUDNN_ROW_MAJOR;

    for (int a = 0; a < p->rank; a++) {
        out_shape[a] = a == 1 ? channels : 1;
        out_stride[a] = a == 1 || (a > 1 && rows) ? 1 : channels;
    }
}

/* Converts the attributes. false: a value is too large. Padding after the image that no window
 * reaches has no effect: it is set equal to the padding before the image if the result's extent
 * stays the same. */
static bool steps_of(struct cudnn_steps *out, const struct bp_conv_attrs *attrs,
                     const struct bp_view *const part[TENSORS])
{
    int n = part[X]->rank - 2, gap = n == 1;

    *out = (struct cudnn_steps){{0}, {0}, {1, 1, 1}, {1, 1, 1}};
    for (int d = 0; d < n; d++) {
        int64_t window = (part[W]->shape[d + 2] - 1) * attrs->dilation[d] + 1;
        int64_t room = part[X]->shape[d + 2] + 2 * attrs->pad[d] - window;
        bool even = room >= 0 && room / attrs->stride[d] + 1 == part[Y]->shape[d + 2];
        if (attrs->pad[d] > INT16_MAX || attrs->pad[d + 3] > INT16_MAX ||
            attrs->stride[d] > INT16_MAX || attrs->dilation[d] > INT16_MAX)
            return false;
        out->pad[d + gap] = (int)attrs->pad[d];
        out->behind[d + gap] = (int)attrs->pad[even ? d : d + 3];
        out->stride[d + gap] = (int)attrs->stride[d];
        out->dilation[d + gap] = (int)attrs->dilation[d];
    }
    return true;
}

static int math_of(uint8_t dtype)
{
    if (dtype == BP_F32) return gpu_vendor_tf32() ? CUDNN_ANY_MATH : CUDNN_EXACT_MATH;
    return dtype == BP_F64 ? CUDNN_ANY_MATH : CUDNN_TENSOR_MATH;
}

/* ---- the older interface ---- */

static bool make_tensor(struct cudnn_plan *p, int i)
{
    int type = cudnn_type_of(p->dtype);

    if (i == W)
        return CUDNN_GOOD(p->device, cudnnCreateFilterDescriptor, &p->tensor[i]) &&
               CUDNN_GOOD(p->device, cudnnSetFilterNdDescriptor, p->tensor[i], type, p->format,
                          p->rank, p->shape[i]);
    return CUDNN_GOOD(p->device, cudnnCreateTensorDescriptor, &p->tensor[i]) &&
           CUDNN_GOOD(p->device, cudnnSetTensorNdDescriptor, p->tensor[i], type, p->rank,
                      p->shape[i], p->stride[i]);
}

static bool make_conv(struct cudnn_plan *p, int64_t groups)
{
    const struct cudnn_steps *s = &p->steps;

    for (int d = 0; d < 3; d++)
        if (s->pad[d] != s->behind[d]) return false;
    return CUDNN_GOOD(p->device, cudnnCreateConvolutionDescriptor, &p->conv) &&
           CUDNN_GOOD(p->device, cudnnSetConvolutionNdDescriptor, p->conv, p->rank - 2, s->pad,
                      s->stride, s->dilation, CUDNN_CORRELATION,
                      p->dtype == BP_F64 ? CUDNN_F64 : CUDNN_F32) &&
           CUDNN_GOOD(p->device, cudnnSetConvolutionMathType, p->conv, math_of(p->dtype)) &&
           CUDNN_GOOD(p->device, cudnnSetConvolutionGroupCount, p->conv, (int)groups);
}

static bool make_bias(struct cudnn_plan *p)
{
    int shape[AXES], stride[AXES];

    if (!p->adds_bias) return true;
    cudnn_bias_shape(p, shape, stride);
    return CUDNN_GOOD(p->device, cudnnCreateTensorDescriptor, &p->bias) &&
           CUDNN_GOOD(p->device, cudnnSetTensorNdDescriptor, p->bias, cudnn_type_of(p->dtype),
                      p->rank, shape, stride) &&
           CUDNN_GOOD(p->device, cudnnCreateActivationDescriptor, &p->activation) &&
           CUDNN_GOOD(p->device, cudnnSetActivationDescriptor, p->activation, CUDNN_IDENTITY,
                      CUDNN_KEEP_NAN, 0.0);
}

/* Whether a call succeeded. A status "not supported" is not logged. */
static bool cudnn_is_good(const struct cudnn_plan *p, const char *const name[], int code)
{
    return !cudnn_is_unsupported(code) &&
           gpu_vendor_good(p->device, &gpu_cudnn, name[p->kind], code);
}

/* Queries the library's heuristic for algorithms, best first. */
static bool cudnn_query(const struct cudnn_plan *p, int *n,
                        struct cudnn_found found[CUDNN_ALGORITHMS])
{
    static const char *const name[] = {"cudnnGetConvolutionForwardAlgorithm_v7",
                                       "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                       "cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
    void *x = p->tensor[X], *w = p->tensor[W], *y = p->tensor[Y];
    const struct cudnn_calls *call = &dnn.call;
    int code;

    if (p->kind == CONV_FORWARD)
        code = call->cudnnGetConvolutionForwardAlgorithm_v7(p->handle, x, w, p->conv, y,
                                                            CUDNN_ALGORITHMS, n, found);
    else if (p->kind == CONV_GRAD_INPUT)
        code = call->cudnnGetConvolutionBackwardDataAlgorithm_v7(p->handle, w, y, p->conv, x,
                                                                 CUDNN_ALGORITHMS, n, found);
    else
        code = call->cudnnGetConvolutionBackwardFilterAlgorithm_v7(p->handle, x, y, p->conv, w,
                                                                   CUDNN_ALGORITHMS, n, found);
    return cudnn_is_good(p, name, code);
}

static bool query_size(const struct cudnn_plan *p, size_t *out)
{
    static const char *const name[] = {"cudnnGetConvolutionForwardWorkspaceSize",
                                       "cudnnGetConvolutionBackwardDataWorkspaceSize",
                                       "cudnnGetConvolutionBackwardFilterWorkspaceSize"};
    void *x = p->tensor[X], *w = p->tensor[W], *y = p->tensor[Y];
    int algorithm = p->found.algorithm, code;
    const struct cudnn_calls *call = &dnn.call;

    if (p->kind == CONV_FORWARD)
        code = call->cudnnGetConvolutionForwardWorkspaceSize(p->handle, x, w, p->conv, y,
                                                             algorithm, out);
    else if (p->kind == CONV_GRAD_INPUT)
        code = call->cudnnGetConvolutionBackwardDataWorkspaceSize(p->handle, w, y, p->conv, x,
                                                                  algorithm, out);
    else
        code = call->cudnnGetConvolutionBackwardFilterWorkspaceSize(p->handle, x, y, p->conv, w,
                                                                    algorithm, out);
    return cudnn_is_good(p, name, code);
}

/* Whether an algorithm meets the guarantees of the kernel rows. */
static bool will_do(const struct cudnn_plan *p, const struct cudnn_found *f)
{
    static const int plain[] = {CUDNN_PLAIN_FORWARD, CUDNN_PLAIN_DATA, CUDNN_PLAIN_FILTER};
    bool loose = f->math == CUDNN_TENSOR_MATH || f->math == CUDNN_LOOSE_MATH;
    int may = p->adds_bias ? 1 << CUDNN_BIAS_FORWARD : plain[p->kind];

    return !f->state && f->deterministic && may >> f->algorithm & 1 &&
           f->workspace <= (size_t)cudnn_workspace_most &&
           !(loose && math_of(p->dtype) == CUDNN_EXACT_MATH) &&
           !(!loose && cudnn_may_add_in_half(p));
}

static bool cudnn_choose(struct cudnn_plan *p)
{
    struct cudnn_found found[CUDNN_ALGORITHMS];
    int n = 0, i = 0;

    if (!cudnn_query(p, &n, found)) return false;
    while (i < n && !will_do(p, &found[i])) i++;
    if (i == n) return false;
    p->found = found[i];
    return query_size(p, &p->found.workspace);
}

static bool make_older(struct cudnn_plan *p, int64_t groups)
{
    if (!make_conv(p, groups)) return false;
    for (int i = 0; i < TENSORS; i++)
        if (!make_tensor(p, i)) return false;
    return make_bias(p) && cudnn_choose(p);
}

/* ---- plans ---- */

static void cudnn_drop(struct cudnn_plan *p)
{
    cudnn_tail_finish(&p->tail, p->device->gpu);
    cudnn_graph_return(p->device, p->aligned);
    cudnn_graph_return(p->device, p->any);
    if (p->conv) CUDNN_GOOD(p->device, cudnnDestroyConvolutionDescriptor, p->conv);
    if (p->bias) CUDNN_GOOD(p->device, cudnnDestroyTensorDescriptor, p->bias);
    if (p->activation) CUDNN_GOOD(p->device, cudnnDestroyActivationDescriptor, p->activation);
    for (int i = 0; i < TENSORS; i++) {
        if (!p->tensor[i]) continue;
        if (i == W) CUDNN_GOOD(p->device, cudnnDestroyFilterDescriptor, p->tensor[i]);
        else CUDNN_GOOD(p->device, cudnnDestroyTensorDescriptor, p->tensor[i]);
    }
}

/* Kernels of a graph may need tensors aligned to 16 bytes. Tensors with less alignment use the
 * older interface, or, if it has no algorithm, a graph for small alignment; if there is none
 * either, they are copied to aligned addresses. The device's handle must be used by one thread at a
 * time, so its lock is held. */
static bool cudnn_make(struct cudnn_plan *p, int64_t groups)
{
    bool half = gpu_gemm_size(p->dtype) == 2, good;

    pthread_mutex_lock(&p->device->loading);
    if (half) p->aligned = cudnn_graph_take(p, CUDNN_ALIGNED);
    p->older = make_older(p, groups);
    if (half && !p->older) p->any = cudnn_graph_take(p, (int64_t)gpu_gemm_size(p->dtype));
    p->moves_all = p->aligned && !p->older && !p->any;
    good = p->older || p->any || p->moves_all;
    pthread_mutex_unlock(&p->device->loading);
    return good;
}

/* Enough for each of the paths that a launch may use. */
static uint64_t workspace_of(const struct cudnn_plan *p)
{
    const struct cudnn_graph *graph[] = {p->aligned, p->any};
    uint64_t most = p->found.workspace;

    for (int i = 0; i < 2; i++)
        if (graph[i] && (uint64_t)graph[i]->workspace > most) most = (uint64_t)graph[i]->workspace;
    for (int i = 0; i < OPERANDS; i++) most += p->moved_bytes[i];
    return most + (p->repack ? p->filter_bytes : 0) + p->bias_bytes;
}

static bool has_input(const struct bp_prep *prep, uint32_t i)
{
    return prep->n_in > i && prep->in[i];
}

/* Makes the graph of fused_conv for a half type, with as many of its steps as an engine computes. A
 * step that the library does not compute leaves all steps behind it to the tail. */
static bool make_fused_graph(struct cudnn_plan *p, bool residual, bool relu)
{
    pthread_mutex_lock(&p->device->loading);
    p->adds_residual = residual;
    p->adds_relu = relu;
    p->aligned = cudnn_graph_take(p, CUDNN_ALIGNED);
    p->adds_relu = p->aligned && relu;
    if (!p->aligned && relu && residual) p->aligned = cudnn_graph_take(p, CUDNN_ALIGNED);
    p->adds_residual = p->aligned && residual;
    p->moves_all = p->aligned != NULL;
    pthread_mutex_unlock(&p->device->loading);
    return p->aligned != NULL;
}

/* Makes the plan of fused_conv. For half types the library adds the bias and, if the residual lies
 * as the result, the residual, and applies relu. For other types, and with the setting PLAIN_CONV,
 * it computes the products alone. A tail computes the other steps; if it cannot add the bias, the
 * library adds it as for conv. */
static bool make_fused(struct cudnn_plan *p, struct gpu *gpu, const struct bp_prep *prep,
                       int64_t groups)
{
    const struct bp_fused_conv_attrs *attrs = prep->attrs;
    bool residual = has_input(prep, 3), activation = attrs->activation != BP_ACTIVATION_NONE;
    bool half = gpu_gemm_size(p->dtype) == 2, lies = residual && cudnn_lies(prep->in[3], p->format);
    bool relu = attrs->activation == BP_ACTIVATION_RELU && lies == residual;
    bool plain = !half || kit_setting_is_on(GPU_NAME, "PLAIN_CONV");

    if (!plain && (lies || relu) && make_fused_graph(p, lies, relu))
        return cudnn_tail_init(&p->tail, gpu, prep, false, residual && !lies,
                               activation && !p->adds_relu);
    if (plain && p->has_bias && cudnn_tail_init(&p->tail, gpu, prep, true, residual, activation)) {
        p->has_bias = p->adds_bias = p->moves_bias = false;
        return cudnn_make(p, groups);
    }
    return cudnn_tail_init(&p->tail, gpu, prep, false, residual, activation) &&
           cudnn_make(p, groups);
}

static void plan_bias(struct cudnn_plan *p, const struct bp_view *bias)
{
    p->has_bias = true;
    p->adds_bias = gpu_gemm_size(p->dtype) == 2;
    p->moves_bias = p->adds_bias && bias->count > 1 && bias->stride[0] != 1;
}

/* Computes the sizes of the plan's own buffers in the workspace, besides the library's part. */
static void plan_moves(struct cudnn_plan *p, const struct bp_view *const part[TENSORS])
{
    uint64_t size = gpu_gemm_size(p->dtype);

    if (p->moves_bias || (p->moves_all && p->adds_bias))
        p->bias_bytes = in_workspace((uint64_t)part[Y]->shape[1] * size);
    for (int i = 0; i < TENSORS; i++)
        if (p->moves_all && !(i == W && p->repack))
            p->moved_bytes[i] = in_workspace((uint64_t)part[i]->count * size);
    if (p->adds_residual) p->moved_bytes[RESIDUAL] = p->moved_bytes[Y];
}

enum bp_status gpu_cudnn_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    const int number = portable_number(prep->kernel);
    const bool fused = number == CUDNN_FUSED_CONV;
    struct cudnn_plan made = {.kind = fused ? CONV_FORWARD : (enum conv_kind)number,
                              .dtype = prep->out[0]->dtype},
                      *plan = NULL;
    struct bp_conv_attrs attrs = conv_attrs(made.kind, prep->attrs);
    KIT_CONTEXT caller = {NULL};
    const struct bp_view *part[TENSORS];
    bool good;

    cudnn_parts_of(made.kind, prep->in, prep->out, part);
    if (!part[X]->count || !part[W]->count || !part[Y]->count ||
        !steps_of(&made.steps, &attrs, part) || !choose_format(&made, part))
        return BP_ERR_UNSUPPORTED;
    shape_parts(&made, part);
    if (made.kind == CONV_FORWARD && has_input(prep, 2)) plan_bias(&made, prep->in[2]);
    TRY(gpu_vendor_enter(self, prep->device, &gpu_cudnn, &caller, &made.device, &made.handle));
    good = fused ? make_fused(&made, self, prep, attrs.groups) : cudnn_make(&made, attrs.groups);
    plan_moves(&made, part);
    if (good) plan = gpu_vendor_keep(made.device, &gpu_cudnn, &made, sizeof made);
    if (!plan) {
        cudnn_drop(&made);
        return good ? BP_ERR_MEMORY : BP_ERR_UNSUPPORTED;
    }
    BP_SET(out, plan, plan);
    BP_SET(out, workspace, workspace_of(&made));
    BP_SET(out, workspace_alignment, CUDNN_WORKSPACE_ALIGNMENT);
    return BP_OK;
}

void gpu_cudnn_end(void *self, const struct bp_kernel *row, void *plan)
{
    (void)row;
    cudnn_drop(plan);
    gpu_vendor_drop(self, plan, sizeof(struct cudnn_plan));
}

enum bp_status cudnn_assign(const struct bp_launch *launch, const struct bp_view *from,
                            const struct bp_view *to)
{
    struct bp_launch copy = *launch;

    copy.in = &from;
    copy.out = &to;
    copy.n_in = copy.n_out = 1;
    return portable_assign(&copy);
}

/* Writes the bias into the result, before products are added to it. */
static enum bp_status put_bias(const struct bp_launch *launch)
{
    const struct bp_view *y = launch->out[0];
    int64_t stride[AXES] = {0, launch->in[2]->stride[0]};
    struct bp_view bias = *launch->in[2];

    bias.rank = y->rank;
    bias.shape = y->shape;
    bias.stride = stride;
    bias.count = y->count;
    bias.flags = BP_VIEW_STRIDED;
    return cudnn_assign(launch, &bias, y);
}

/* Copies the bias into the workspace, with contiguous elements. */
static enum bp_status pack_bias(const struct bp_launch *launch, void *to)
{
    static const int64_t one = 1;
    struct bp_view bias = *launch->in[2];

    bias.data = to;
    bias.stride = &one;
    bias.flags = 0;
    return cudnn_assign(launch, launch->in[2], &bias);
}

static int call_with_bias(const struct cudnn_plan *p, void *handle, void *const at[OPERANDS],
                          void *workspace)
{
    union gpu_factor alpha = gpu_factor(p->dtype, 1), beta = gpu_factor(p->dtype, 0);

    return dnn.call.cudnnConvolutionBiasActivationForward(
        handle, &alpha, p->tensor[X], at[X], p->tensor[W], at[W], p->conv, p->found.algorithm,
        workspace, p->found.workspace, &beta, p->tensor[Y], at[Y], p->bias, at[BIAS],
        p->activation, p->tensor[Y], at[Y]);
}

/* Computes a product. beta: adds it to the bias that the result already holds. */
static int cudnn_call(const struct cudnn_plan *p, void *handle, void *const at[OPERANDS],
                      void *workspace)
{
    union gpu_factor alpha = gpu_factor(p->dtype, 1), beta = gpu_factor(p->dtype, p->has_bias);
    void *x = p->tensor[X], *w = p->tensor[W], *y = p->tensor[Y];
    size_t size = p->found.workspace;

    if (p->adds_bias) return call_with_bias(p, handle, at, workspace);
    switch (p->kind) {
    case CONV_FORWARD:
        return dnn.call.cudnnConvolutionForward(handle, &alpha, x, at[X], w, at[W], p->conv,
                                                p->found.algorithm, workspace, size, &beta, y,
                                                at[Y]);
    case CONV_GRAD_INPUT:
        return dnn.call.cudnnConvolutionBackwardData(handle, &alpha, w, at[W], y, at[Y], p->conv,
                                                     p->found.algorithm, workspace, size, &beta, x,
                                                     at[X]);
    default:
        return dnn.call.cudnnConvolutionBackwardFilter(handle, &alpha, x, at[X], y, at[Y], p->conv,
                                                       p->found.algorithm, workspace, size, &beta,
                                                       w, at[W]);
    }
}

static bool is_aligned(void *const at[OPERANDS])
{
    uintptr_t all = 0;

    for (int i = 0; i < OPERANDS; i++) all |= (uintptr_t)at[i];
    return all % CUDNN_ALIGNED == 0;
}

/* The graph for operands at these addresses; NULL: use the older interface. */
static const struct cudnn_graph *graph_for(const struct cudnn_plan *p, void *const at[OPERANDS])
{
    if (p->aligned && is_aligned(at)) return p->aligned;
    return p->older ? NULL : p->any;
}

/* Under the stream's lock: a handle must be used by one thread at a time. */
static enum bp_status cudnn_run(const struct cudnn_plan *p, struct gpu_stream *stream,
                                void *const at[OPERANDS], void *workspace)
{
    static const char *const name[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                       "cudnnConvolutionBackwardFilter"};
    const struct cudnn_graph *graph = graph_for(p, at);
    const char *function =
        p->adds_bias ? "cudnnConvolutionBiasActivationForward" : name[p->kind];
    void *handle;
    int code;

    TRY(gpu_vendor_handle(stream, &gpu_cudnn, &handle));
    code = graph ? cudnn_graph_run(p, graph, handle, at, workspace, &function)
                 : cudnn_call(p, handle, at, workspace);
    return gpu_vendor_check(p->device, &gpu_cudnn, function, code);
}

/* The operand that the library receives: the caller's, or a copy in the workspace. The result's
 * values are not copied into the workspace. */
static enum bp_status cudnn_place(const struct bp_launch *launch, int i, const struct bp_view *part,
                                  bool move, char **workspace, struct bp_view *out)
{
    const struct cudnn_plan *p = launch->plan;
    bool packs = i == W && p->repack;

    *out = *part;
    if (!move && !packs) return BP_OK;
    out->data = *workspace;
    *workspace += packs ? p->filter_bytes : p->moved_bytes[i];
    if (packs) {
        out->stride = p->filter_stride;
        out->flags = BP_VIEW_STRIDED;
    }
    return i == result_of[p->kind] ? BP_OK : cudnn_assign(launch, part, out);
}

static enum bp_status place_bias(const struct bp_launch *launch, bool move, char **workspace,
                                 void **out)
{
    const struct cudnn_plan *p = launch->plan;
    bool packs = p->moves_bias || move;

    if (p->has_bias && !p->adds_bias) return put_bias(launch);
    if (!p->adds_bias) return BP_OK;
    *out = packs ? *workspace : launch->in[2]->data;
    *workspace += p->bias_bytes;
    return packs ? pack_bias(launch, *out) : BP_OK;
}

/* Whether the operands must be copied to aligned addresses. A bias that is packed is copied in any
 * case. */
static bool must_move(const struct bp_launch *launch, const struct bp_view *const part[TENSORS])
{
    const struct cudnn_plan *p = launch->plan;

    return p->moves_all &&
           !is_aligned((void *[OPERANDS]){
               part[X]->data, part[W]->data, part[Y]->data,
               p->adds_bias && !p->moves_bias ? launch->in[2]->data : NULL,
               p->adds_residual ? launch->in[3]->data : NULL});
}

enum bp_status gpu_cudnn_run(const struct bp_launch *launch)
{
    const struct cudnn_plan *p = launch->plan;
    struct gpu_stream *stream = launch->stream;
    const int result = result_of[p->kind];
    const struct bp_view *part[TENSORS];
    struct bp_view at[OPERANDS] = {{.data = NULL}};
    KIT_CONTEXT caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;
    char *workspace = launch->workspace;
    void *bias = NULL;
    bool move;

    cudnn_parts_of(p->kind, launch->in, launch->out, part);
    move = must_move(launch, part);
    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    TRY(place_bias(launch, move, &workspace, &bias));
    for (int i = 0; i < TENSORS; i++)
        TRY(cudnn_place(launch, i, part[i], move, &workspace, &at[i]));
    if (p->adds_residual)
        TRY(cudnn_place(launch, RESIDUAL, launch->in[3], move, &workspace, &at[RESIDUAL]));
    pthread_mutex_lock(&stream->kit.lock);
    status = cudnn_run(p, stream,
                       (void *[OPERANDS]){at[X].data, at[W].data, at[Y].data, bias,
                                          at[RESIDUAL].data},
                       workspace);
    pthread_mutex_unlock(&stream->kit.lock);
    if (status == BP_OK && at[result].data != part[result]->data)
        status = cudnn_assign(launch, &at[result], part[result]);
    return status == BP_OK ? cudnn_tail_run(&p->tail, launch) : status;
}
