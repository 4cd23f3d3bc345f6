/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn.c: convolutions by cuDNN. Which algorithm runs is chosen when the plan is made, by what the
 * library knows, without trying. Filters that do not lie as the images do go through the workspace.
 * A bias is what the result is before the products are added: it rounds once, as they do. Handles
 * have a stream: each stream has its own. */
#include "cudnn.h"
#include "gemm.h"
#include "vendor.h"
#include <ops/conv/launch_shape.h>
#include <string.h>

static const struct gpu_vendor_symbol symbols[] = {
#define CALL(result, name, parameters) {#name, true},
#define CALL_OR_NONE(result, name, parameters) {#name, false},
#include "cudnn.def"
};
enum { SYMBOLS = sizeof symbols / sizeof *symbols };

static union {
    void *function[SYMBOLS];
    struct gpu_vendor_calls first;
    struct cudnn_calls call;
} dnn;
_Static_assert(sizeof dnn.call == sizeof dnn.function, "functions alone");

static size_t version(void)
{
    return dnn.call.cudnnGetVersion ? dnn.call.cudnnGetVersion() : 0;
}

static int set_up(void *handle, void *raw_stream, const char **out_function)
{
    *out_function = "cudnnSetStream";
    return raw_stream ? dnn.call.cudnnSetStream(handle, raw_stream) : 0;
}

struct gpu_vendor gpu_cudnn = {
    .name = "cuDNN", .id = GPU_VENDOR_CUDNN, .symbol = symbols, .n = SYMBOLS,
    .function = dnn.function, .calls = &dnn.first, .lock = PTHREAD_MUTEX_INITIALIZER,
    .version = version,
    .for_streams = true, .set_up = set_up,
};

enum { AXES = 5, ALIGNMENT = 256 };

/* Image, filters, result of the forward; what is computed is one of them. */
enum { X, W, Y, TENSORS };

struct plan {
    enum conv_kind kind;
    struct gpu_device *device;
    uint8_t dtype;
    int rank;                       /* of the library's tensors: 4 or 5 */
    int format;                     /* of all three */
    bool repack, has_bias;          /* the filters lie in another way */
    void *handle, *conv, *tensor[TENSORS];
    struct cudnn_found found;
    uint64_t filter_bytes;          /* at the workspace's beginning, if they are repacked */
    int64_t filter_stride[AXES];
};

/* Calls the library for a plan that is being made; false, and a line in the log: it failed. */
#define GOOD(device, name, ...) \
    gpu_vendor_good(device, &gpu_cudnn, #name, dnn.call.name(__VA_ARGS__))

static int type_of(uint8_t dtype)
{
    return dtype == BP_F64 ? CUDNN_F64
           : dtype == BP_F32 ? CUDNN_F32
           : dtype == BP_F16 ? CUDNN_F16
                             : CUDNN_BF16;
}

/* The views that play the three parts. */
static void parts_of(enum conv_kind kind, const struct bp_view *const *in,
                     const struct bp_view *const *out, const struct bp_view *part[TENSORS])
{
    part[X] = kind == CONV_FORWARD ? in[0] : kind == CONV_GRAD_INPUT ? out[0] : in[1];
    part[W] = kind == CONV_GRAD_WEIGHT ? out[0] : in[1];
    part[Y] = kind == CONV_FORWARD ? out[0] : in[0];
}

/* Strides of a dense tensor, by the view's axes. */
static void dense(const struct bp_view *v, int format, int64_t stride[AXES])
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

static bool lies(const struct bp_view *v, int format)
{
    int64_t stride[AXES];

    dense(v, format, stride);
    for (int a = 0; a < v->rank; a++)
        if (v->shape[a] > 1 && v->stride[a] != stride[a]) return false;
    return v->count <= INT32_MAX;
}

/* One format for all; false: images lie in different ways, or in none that is known. */
static bool choose_format(struct plan *p, const struct bp_view *const part[TENSORS])
{
    bool rows = lies(part[X], CUDNN_ROW_MAJOR) && lies(part[Y], CUDNN_ROW_MAJOR);
    bool last = lies(part[X], CUDNN_CHANNELS_LAST) && lies(part[Y], CUDNN_CHANNELS_LAST);

    if ((!rows && !last) || part[W]->count > INT32_MAX) return false;
    p->format = rows && (!last || lies(part[W], CUDNN_ROW_MAJOR)) ? CUDNN_ROW_MAJOR
                                                                 : CUDNN_CHANNELS_LAST;
    p->repack = !lies(part[W], p->format);
    dense(part[W], p->format, p->filter_stride);
    p->filter_bytes = (uint64_t)part[W]->count * gpu_gemm_size(p->dtype);
    p->filter_bytes = (p->filter_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return true;
}

/* An axis of extent 1 comes in front of the only spatial axis of one. */
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

static bool make_tensor(struct plan *p, int i, const struct bp_view *v)
{
    int64_t stride[AXES];
    int to_shape[AXES], to_stride[AXES];

    dense(v, p->format, stride);
    p->rank = shape_of(v, stride, to_shape, to_stride);
    if (i == W)
        return GOOD(p->device, cudnnCreateFilterDescriptor, &p->tensor[i]) &&
               GOOD(p->device, cudnnSetFilterNdDescriptor, p->tensor[i], type_of(p->dtype),
                    p->format, p->rank, to_shape);
    return GOOD(p->device, cudnnCreateTensorDescriptor, &p->tensor[i]) &&
           GOOD(p->device, cudnnSetTensorNdDescriptor, p->tensor[i], type_of(p->dtype), p->rank,
                to_shape, to_stride);
}

/* Steps of a convolution along its spatial axes, as the library has them: what is added behind is
 * as much as in front. */
struct steps {
    int pad[3], stride[3], dilation[3];
};

/* false: what the attributes say cannot be said so. */
static bool steps_of(struct steps *out, const struct bp_conv_attrs *attrs,
                     const struct bp_view *const part[TENSORS])
{
    int n = part[X]->rank - 2, gap = n == 1;

    *out = (struct steps){{0}, {1, 1, 1}, {1, 1, 1}};
    for (int d = 0; d < n; d++) {
        int64_t window = (part[W]->shape[d + 2] - 1) * attrs->dilation[d] + 1;
        int64_t room = part[X]->shape[d + 2] + 2 * attrs->pad[d] - window;
        if (room < 0 || room / attrs->stride[d] + 1 != part[Y]->shape[d + 2]) return false;
        if (attrs->pad[d] > INT16_MAX || attrs->stride[d] > INT16_MAX ||
            attrs->dilation[d] > INT16_MAX)
            return false;
        out->pad[d + gap] = (int)attrs->pad[d];
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

static bool make_conv(struct plan *p, const struct steps *s, int64_t groups)
{
    return GOOD(p->device, cudnnCreateConvolutionDescriptor, &p->conv) &&
           GOOD(p->device, cudnnSetConvolutionNdDescriptor, p->conv, p->rank - 2, s->pad,
                s->stride, s->dilation, CUDNN_CORRELATION,
                p->dtype == BP_F64 ? CUDNN_F64 : CUDNN_F32) &&
           GOOD(p->device, cudnnSetConvolutionMathType, p->conv, math_of(p->dtype)) &&
           GOOD(p->device, cudnnSetConvolutionGroupCount, p->conv, (int)groups);
}

/* Whether an answer is good; those that say "no" are not logged. */
static bool is_good(const struct plan *p, const char *const name[], int code)
{
    return !cudnn_is_unsupported(code) &&
           gpu_vendor_good(p->device, &gpu_cudnn, name[p->kind], code);
}

/* Best first. */
static bool ask(const struct plan *p, int *n, struct cudnn_found found[CUDNN_ALGORITHMS])
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
    return is_good(p, name, code);
}

static bool ask_size(const struct plan *p, size_t *out)
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
    return is_good(p, name, code);
}

/* Whether an algorithm does what the rows promise. */
static bool will_do(const struct plan *p, const struct cudnn_found *f)
{
    static const int plain[] = {CUDNN_PLAIN_FORWARD, CUDNN_PLAIN_DATA, CUDNN_PLAIN_FILTER};
    static const size_t most = (size_t)1 << 30;
    bool loose = f->math == CUDNN_TENSOR_MATH || f->math == CUDNN_LOOSE_MATH;

    return !f->state && f->deterministic && plain[p->kind] >> f->algorithm & 1 &&
           f->workspace <= most &&
           !(loose && math_of(p->dtype) == CUDNN_EXACT_MATH);
}

/* The device's handle is for one thread at a time. */
static bool choose(struct plan *p)
{
    struct cudnn_found found[CUDNN_ALGORITHMS];
    int n = 0, i = 0;
    bool good;

    pthread_mutex_lock(&p->device->loading);
    good = ask(p, &n, found);
    while (good && i < n && !will_do(p, &found[i])) i++;
    good = good && i < n;
    if (good) {
        p->found = found[i];
        good = ask_size(p, &p->found.workspace);
    }
    pthread_mutex_unlock(&p->device->loading);
    return good;
}

static void drop(const struct plan *p)
{
    if (p->conv) GOOD(p->device, cudnnDestroyConvolutionDescriptor, p->conv);
    for (int i = 0; i < TENSORS; i++) {
        if (!p->tensor[i]) continue;
        if (i == W) GOOD(p->device, cudnnDestroyFilterDescriptor, p->tensor[i]);
        else GOOD(p->device, cudnnDestroyTensorDescriptor, p->tensor[i]);
    }
}

static bool make(struct plan *p, const struct steps *steps, int64_t groups,
                 const struct bp_view *const part[TENSORS])
{
    for (int i = 0; i < TENSORS; i++)
        if (!make_tensor(p, i, part[i])) return false;
    return make_conv(p, steps, groups) && choose(p);
}

enum bp_status gpu_cudnn_prepare(void *self, const struct bp_prep *prep, struct bp_plan *out)
{
    struct plan made = {.kind = (enum conv_kind)portable_number(prep->kernel),
                        .dtype = prep->out[0]->dtype},
                *plan = NULL;
    struct bp_conv_attrs attrs = conv_attrs(made.kind, prep->attrs);
    GPU_CALLER caller = {NULL};
    const struct bp_view *part[TENSORS];
    struct steps steps;
    bool good;

    parts_of(made.kind, prep->in, prep->out, part);
    if (!part[X]->count || !part[W]->count || !part[Y]->count || !steps_of(&steps, &attrs, part) ||
        !choose_format(&made, part))
        return BP_ERR_UNSUPPORTED;
    made.has_bias = made.kind == CONV_FORWARD && prep->n_in > 2 && prep->in[2];
    TRY(gpu_vendor_enter(self, prep->device, &gpu_cudnn, &caller, &made.device, &made.handle));
    good = make(&made, &steps, attrs.groups, part);
    if (good) plan = gpu_vendor_keep(made.device, &gpu_cudnn, &made, sizeof made);
    if (!plan) {
        drop(&made);
        return good ? BP_ERR_MEMORY : BP_ERR_UNSUPPORTED;
    }
    BP_SET(out, plan, plan);
    BP_SET(out, workspace, made.found.workspace + (made.repack ? made.filter_bytes : 0));
    BP_SET(out, workspace_alignment, ALIGNMENT);
    return BP_OK;
}

void gpu_cudnn_end(void *self, const struct bp_kernel *row, void *plan)
{
    const struct bp_host *host = ((struct gpu *)self)->host;

    (void)row;
    drop(plan);
    host->release(host->ctx, plan, sizeof(struct plan));
}

/* Has a kernel of our own copy elements. */
static enum bp_status assign(const struct bp_launch *launch, const struct bp_view *from,
                             const struct bp_view *to)
{
    struct bp_launch copy = *launch;

    copy.in = &from;
    copy.out = &to;
    copy.n_in = copy.n_out = 1;
    return portable_assign(&copy);
}

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
    return assign(launch, &bias, y);
}

/* A product and its sum into what is there, by beta. */
static int call(const struct plan *p, void *handle, void *const at[TENSORS], void *workspace)
{
    union gpu_factor alpha = gpu_factor(p->dtype, 1), beta = gpu_factor(p->dtype, p->has_bias);
    void *x = p->tensor[X], *w = p->tensor[W], *y = p->tensor[Y];
    size_t size = p->found.workspace;

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

/* Under the stream's lock: a handle is for one thread at a time. */
static enum bp_status run(const struct plan *p, struct gpu_stream *stream,
                          void *const at[TENSORS], void *workspace)
{
    static const char *const name[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                       "cudnnConvolutionBackwardFilter"};
    void *handle;

    TRY(gpu_vendor_handle(stream, &gpu_cudnn, &handle));
    return gpu_vendor_check(p->device, &gpu_cudnn, name[p->kind], call(p, handle, at, workspace));
}

enum bp_status gpu_cudnn_run(const struct bp_launch *launch)
{
    const struct plan *p = launch->plan;
    struct gpu_stream *stream = launch->stream;
    const struct bp_view *part[TENSORS];
    struct bp_view filters;
    GPU_CALLER caller = {NULL};
    struct gpu_device *device;
    enum bp_status status;
    char *workspace = launch->workspace;

    parts_of(p->kind, launch->in, launch->out, part);
    filters = *part[W];
    TRY(gpu_device_use(launch->self, launch->device, &caller, &device));
    if (p->has_bias) TRY(put_bias(launch));
    if (p->repack) {
        filters.data = workspace;
        filters.stride = p->filter_stride;
        filters.flags = BP_VIEW_STRIDED;
        workspace += p->filter_bytes;
        if (p->kind != CONV_GRAD_WEIGHT) TRY(assign(launch, part[W], &filters));
    }
    pthread_mutex_lock(&stream->lock);
    status = run(p, stream, (void *[]){part[X]->data, filters.data, part[Y]->data}, workspace);
    pthread_mutex_unlock(&stream->lock);
    if (status || !p->repack || p->kind != CONV_GRAD_WEIGHT) return status;
    return assign(launch, &filters, part[W]);
}
