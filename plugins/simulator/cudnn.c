/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn.c: simulates cuDNN: implements the functions of gpu/cudnn.def on simulated streams. Only
 * one of the algorithms that it lists meets the guarantees of plugins/gpu; the others refuse to
 * run. */
#include "cudnn.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 91900, WORKSPACE = 1024 };

enum sim_type cudnn_type_of(int type)
{
    return type == CUDNN_F32 ? SIM_F32
           : type == CUDNN_F64 ? SIM_F64
           : type == CUDNN_F16 ? SIM_F16
           : type == CUDNN_BF16 ? SIM_BF16
                                : SIM_TYPES;
}

/* Creates an object and ends the call, under the lock. code: returned if it is not 0. */
static int cudnn_make(int code, enum kind kind, void **out)
{
    struct thing *made;

    if (code) return sim_leave(code);
    made = calloc(1, sizeof *made);
    if (!made) return sim_leave(BAD_PARAM);
    made->kind = kind;
    made->groups = 1;
    sim.live++;
    *out = made;
    return sim_leave(0);
}

static int cudnn_create(enum sim_call call, enum kind kind, void **out)
{
    return cudnn_make(sim_enter(call), kind, out);
}

/* Destroys an object even if the call is set to fail. */
static int cudnn_destroy(enum sim_call call, void *p, enum kind kind)
{
    int code = sim_enter(call);
    struct thing *thing = p;

    if (!thing || thing->kind != kind) return sim_leave(BAD_PARAM);
    thing->kind = 0;
    free(thing);
    sim.live--;
    return sim_leave(code);
}

/* Begins a call on an object of this kind. */
static int cudnn_enter(enum sim_call call, const struct thing *thing, enum kind kind)
{
    int code = sim_enter(call);

    return code || thing->kind == kind ? code : BAD_PARAM;
}

const char *cudnnGetErrorString(int code)
{
    return code == NOT_SUPPORTED ? "not supported" : "a failure";
}

size_t cudnnGetVersion(void)
{
    return VERSION;
}

/* Creating a handle waits for the device, which invalidates captures. */
int cudnnCreate(void **out)
{
    struct sim_device *device;
    int code = sim_enter_context(SIM_CALL_cudnnCreate, &device);

    if (!code && sim_capture_spoil_all(device)) code = NOT_INITIALIZED;
    return cudnn_make(code, HANDLE, out);
}
int cudnnDestroy(void *handle)
{
    return cudnn_destroy(SIM_CALL_cudnnDestroy, handle, HANDLE);
}
int cudnnCreateTensorDescriptor(void **out)
{
    return cudnn_create(SIM_CALL_cudnnCreateTensorDescriptor, TENSOR, out);
}
int cudnnDestroyTensorDescriptor(void *tensor)
{
    return cudnn_destroy(SIM_CALL_cudnnDestroyTensorDescriptor, tensor, TENSOR);
}
int cudnnCreateFilterDescriptor(void **out)
{
    return cudnn_create(SIM_CALL_cudnnCreateFilterDescriptor, FILTER, out);
}
int cudnnDestroyFilterDescriptor(void *filter)
{
    return cudnn_destroy(SIM_CALL_cudnnDestroyFilterDescriptor, filter, FILTER);
}
int cudnnCreateConvolutionDescriptor(void **out)
{
    return cudnn_create(SIM_CALL_cudnnCreateConvolutionDescriptor, CONV, out);
}
int cudnnDestroyConvolutionDescriptor(void *conv)
{
    return cudnn_destroy(SIM_CALL_cudnnDestroyConvolutionDescriptor, conv, CONV);
}

int cudnnCreateActivationDescriptor(void **out)
{
    return cudnn_create(SIM_CALL_cudnnCreateActivationDescriptor, ACTIVATION, out);
}
int cudnnDestroyActivationDescriptor(void *activation)
{
    return cudnn_destroy(SIM_CALL_cudnnDestroyActivationDescriptor, activation, ACTIVATION);
}

/* Accepts only the activation that changes nothing. */
int cudnnSetActivationDescriptor(void *activation, int mode, int nan, double coefficient)
{
    int code = cudnn_enter(SIM_CALL_cudnnSetActivationDescriptor, activation, ACTIVATION);

    (void)coefficient;
    if (!code && (mode != CUDNN_IDENTITY || (nan != 0 && nan != CUDNN_KEEP_NAN))) code = BAD_PARAM;
    if (!code) ((struct thing *)activation)->math = mode;
    return sim_leave(code);
}

int cudnnSetStream(void *handle, void *stream)
{
    int code = cudnn_enter(SIM_CALL_cudnnSetStream, handle, HANDLE);

    if (!code) ((struct thing *)handle)->stream = stream;
    return sim_leave(code);
}

/* Spatial axes are placed at the end; missing axes have extent 1. */
static bool take_shape(struct thing *t, int type, int rank, const int *shape)
{
    t->type = cudnn_type_of(type);
    for (int a = 0; a < AXES; a++) t->shape[a] = 1;
    for (int a = 0; a < rank && rank <= AXES; a++) t->shape[a < 2 ? a : a + AXES - rank] = shape[a];
    return rank >= 4 && rank <= AXES && t->type < SIM_TYPES;
}

int cudnnSetTensorNdDescriptor(void *p, int type, int rank, const int *shape, const int *stride)
{
    int code = cudnn_enter(SIM_CALL_cudnnSetTensorNdDescriptor, p, TENSOR);
    struct thing *t = p;

    if (!code && !take_shape(t, type, rank, shape)) code = BAD_PARAM;
    for (int a = 0; a < rank && !code; a++) {
        t->stride[a < 2 ? a : a + AXES - rank] = stride[a];
        if (stride[a] < 1) code = BAD_PARAM;
    }
    return sim_leave(code);
}

int cudnnSetFilterNdDescriptor(void *p, int type, int format, int rank, const int *shape)
{
    static const int order[][AXES] = {{4, 3, 2, 1, 0}, {1, 4, 3, 2, 0}};
    int code = cudnn_enter(SIM_CALL_cudnnSetFilterNdDescriptor, p, FILTER);
    struct thing *t = p;
    int64_t next = 1;

    if (!code && (!take_shape(t, type, rank, shape) || format < 0 || format > 1)) code = BAD_PARAM;
    for (int i = 0; i < AXES && !code; i++) {
        t->stride[order[format][i]] = next;
        next *= t->shape[order[format][i]];
    }
    return sim_leave(code);
}

int cudnnSetConvolutionNdDescriptor(void *p, int axes, const int *pad, const int *stride,
                                    const int *dilation, int mode, int sums)
{
    int code = cudnn_enter(SIM_CALL_cudnnSetConvolutionNdDescriptor, p, CONV);
    struct thing *t = p;

    if (!code && (axes < 2 || axes > 3 || mode != CUDNN_CORRELATION)) code = BAD_PARAM;
    if (code) return sim_leave(code);
    t->sums = cudnn_type_of(sums);
    for (int d = 0; d < 3; d++) {
        int from = d - (3 - axes);
        t->pad[d] = t->behind[d] = from < 0 ? 0 : pad[from];
        t->step[d] = from < 0 ? 1 : stride[from];
        t->dilation[d] = from < 0 ? 1 : dilation[from];
    }
    return sim_leave(0);
}

int cudnnSetConvolutionMathType(void *p, int math)
{
    int code = cudnn_enter(SIM_CALL_cudnnSetConvolutionMathType, p, CONV);

    if (!code) ((struct thing *)p)->math = math;
    return sim_leave(code);
}

int cudnnSetConvolutionGroupCount(void *p, int groups)
{
    int code = cudnn_enter(SIM_CALL_cudnnSetConvolutionGroupCount, p, CONV);

    if (!code) ((struct thing *)p)->groups = groups;
    return sim_leave(code);
}

/* ---- the choice of an algorithm ---- */

bool cudnn_fits(const struct thing *x, const struct thing *w, const struct thing *conv,
                const struct thing *y)
{
    bool good = x->kind == TENSOR && w->kind == FILTER && y->kind == TENSOR && conv->kind == CONV &&
                x->type == w->type && x->type == y->type && x->shape[0] == y->shape[0] &&
                x->shape[1] == w->shape[1] * conv->groups && y->shape[1] == w->shape[0] &&
                w->shape[0] % conv->groups == 0 &&
                (conv->sums == SIM_F64) == (x->type == SIM_F64) && conv->sums != SIM_F16;

    for (int d = 0; d < 3; d++) {
        int64_t window = (w->shape[d + 2] - 1) * conv->dilation[d] + 1;
        int64_t room = x->shape[d + 2] + conv->pad[d] + conv->behind[d] - window;
        good = good && y->shape[d + 2] == room / conv->step[d] + 1;
    }
    return good;
}

bool cudnn_is_bias(const struct thing *bias, const struct thing *y)
{
    bool good = bias->kind == TENSOR && bias->type == y->type && bias->shape[1] == y->shape[1];

    for (int a = 0; a < AXES; a++) good = good && (a == 1 || bias->shape[a] == 1);
    return good && bias->stride[1] == 1;
}

/* Algorithms that plugins/gpu must not choose, for each kind of product: a transform, one whose
 * sums have no fixed order, one on tensor cores where products must be exact, and one with too much
 * workspace. Also the one that it must choose, which for gradients of images in f16 adds in f16,
 * because it uses no tensor cores. */
static const int good_algorithm[] = {1, 1, 1}, transform[] = {6, 4, 4};

static int cudnn_find(enum sim_call call, int kind, const void *x, const void *w, const void *conv,
                      const void *y, int requested, int *out_n, struct cudnn_found *out)
{
    bool adds_in_half = kind == 1 && ((const struct thing *)x)->type == SIM_F16;
    int math = ((const struct thing *)conv)->math, good = good_algorithm[kind];
    const struct cudnn_found list[] = {
        {0, NOT_SUPPORTED, -1, 0, 1, math, {0}},
        {transform[kind], 0, 1, 0, 1, math, {0}},
        {0, 0, 2, 0, 0, math, {0}},
        {good, 0, 3, (size_t)1 << 40, 1, math, {0}},
        {0, 0, 4, 0, 1, CUDNN_TENSOR_MATH, {0}},
        {good, 0, 5, WORKSPACE, 1, adds_in_half ? CUDNN_ANY_MATH : math, {0}},
    };
    int code = sim_enter(call), skip = math == CUDNN_EXACT_MATH ? -1 : 4, n = 0;

    if (!code && !cudnn_fits(x, w, conv, y)) code = BAD_PARAM;
    if (code) return sim_leave(code);
    for (int i = 0; i < 6 && n < requested; i++)
        if (i != skip) out[n++] = list[i];
    *out_n = n;
    return sim_leave(0);
}

int cudnnGetConvolutionForwardAlgorithm_v7(void *handle, void *x, void *w, void *conv, void *y,
                                           int requested, int *out_n, struct cudnn_found *out)
{
    (void)handle;
    return cudnn_find(SIM_CALL_cudnnGetConvolutionForwardAlgorithm_v7, 0, x, w, conv, y, requested,
                      out_n, out);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *handle, void *w, void *y, void *conv, void *x,
                                                int requested, int *out_n, struct cudnn_found *out)
{
    (void)handle;
    return cudnn_find(SIM_CALL_cudnnGetConvolutionBackwardDataAlgorithm_v7, 1, x, w, conv, y,
                      requested, out_n, out);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *handle, void *x, void *y, void *conv,
                                                  void *w, int requested, int *out_n,
                                                  struct cudnn_found *out)
{
    (void)handle;
    return cudnn_find(SIM_CALL_cudnnGetConvolutionBackwardFilterAlgorithm_v7, 2, x, w, conv, y,
                      requested, out_n, out);
}

static int size_for(enum sim_call call, int kind, int algorithm, size_t *out)
{
    int code = sim_enter(call);

    if (!code && algorithm != good_algorithm[kind]) code = NOT_SUPPORTED;
    if (!code) *out = WORKSPACE;
    return sim_leave(code);
}

int cudnnGetConvolutionForwardWorkspaceSize(void *handle, void *x, void *w, void *conv, void *y,
                                            int algorithm, size_t *out)
{
    (void)handle, (void)x, (void)w, (void)conv, (void)y;
    return size_for(SIM_CALL_cudnnGetConvolutionForwardWorkspaceSize, 0, algorithm, out);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(void *handle, void *w, void *y, void *conv,
                                                 void *x, int algorithm, size_t *out)
{
    (void)handle, (void)x, (void)w, (void)conv, (void)y;
    return size_for(SIM_CALL_cudnnGetConvolutionBackwardDataWorkspaceSize, 1, algorithm, out);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(void *handle, void *x, void *y, void *conv,
                                                   void *w, int algorithm, size_t *out)
{
    (void)handle, (void)x, (void)w, (void)conv, (void)y;
    return size_for(SIM_CALL_cudnnGetConvolutionBackwardFilterWorkspaceSize, 2, algorithm, out);
}

/* ---- runs ---- */

int64_t cudnn_extent_of(const struct thing *t)
{
    int64_t last = 1;

    for (int a = 0; a < AXES; a++) last += (t->shape[a] - 1) * t->stride[a];
    return last;
}

static int64_t cudnn_place(const struct thing *t, const int64_t index[AXES])
{
    int64_t at = 0;

    for (int a = 0; a < AXES; a++) at += index[a] * t->stride[a];
    return at;
}

/* Adds the products of one element of y to `sums`, which has the layout of the result. */
static void add_products(const struct run *r, void *const at[3], const int64_t y[AXES],
                         double *sums)
{
    const struct thing *w = &r->part[1], *c = &r->conv;
    int64_t filters = w->shape[0] / c->groups, first = y[1] / filters * w->shape[1];
    int64_t k[AXES] = {y[1]}, x[AXES] = {y[0]};
    bool inside;

    for (int64_t i = 0; i < w->shape[1] * w->shape[2] * w->shape[3] * w->shape[4]; i++) {
        int64_t rest = i;
        inside = true;
        for (int a = AXES - 1; a > 0; a--) {
            k[a] = rest % w->shape[a];
            rest /= w->shape[a];
        }
        x[1] = first + k[1];
        for (int d = 0; d < 3; d++) {
            x[d + 2] = y[d + 2] * c->step[d] - c->pad[d] + k[d + 2] * c->dilation[d];
            inside = inside && x[d + 2] >= 0 && x[d + 2] < r->part[0].shape[d + 2];
        }
        if (!inside) continue;
        int64_t lies[3] = {cudnn_place(&r->part[0], x), cudnn_place(w, k),
                           cudnn_place(&r->part[2], y)};
        int one = r->result == 0 ? 1 : 0, other = r->result == 2 ? 1 : 2;
        sums[lies[r->result]] += sim_get(w->type, at[one], lies[one]) *
                                 sim_get(w->type, at[other], lies[other]);
    }
}

/* Rounds sums of half types before the result's old value is added, as some of the library's
 * kernels do. A bias is added before this rounding. */
static void cudnn_put(const struct run *r, void *at, const double *sums)
{
    const struct thing *result = &r->part[r->result];

    for (int64_t i = 0, all = cudnn_extent_of(result); i < all; i++) { /* tensors are dense */
        double sum = r->alpha * sums[i];
        if (r->beta != 0)
            sum = sim_rounded(result->type, sum) + r->beta * sim_get(result->type, at, i);
        sim_put(result->type, at, i, sum);
    }
}

/* Computes what follows a product, for the element of y at `index`, whose sum is in *sum. */
static void add_steps(const struct run *r, void *const at[PARTS], const int64_t index[AXES],
                      double *sum)
{
    const struct thing *y = &r->part[2];

    if (at[BIAS]) *sum += sim_get(y->type, at[BIAS], index[1]);
    if (at[RESIDUAL]) *sum += sim_get(y->type, at[RESIDUAL], cudnn_place(y, index));
    if (r->relu && (*sum < 0 || (r->loses_nan && isnan(*sum)))) *sum = 0;
}

static void cudnn_compute(const struct run *r, void *const at[PARTS], double *sums)
{
    const struct thing *y = &r->part[2];
    int64_t index[AXES], n = 1;

    for (int a = 0; a < AXES; a++) n *= y->shape[a];
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        for (int a = AXES - 1; a >= 0; a--) {
            index[a] = rest % y->shape[a];
            rest /= y->shape[a];
        }
        add_products(r, at, index, sums);
        if (r->result == 2) add_steps(r, at, index, &sums[cudnn_place(y, index)]);
    }
    cudnn_put(r, at[r->result], sums);
}

/* The host memory of `count` elements of this type; false: there is no such memory. */
static bool reach_elements(const void *from, int64_t count, enum sim_type type, void **out)
{
    *out = sim_reach(from, (size_t)count * sim_size(type));
    return *out;
}

int cudnn_reach(const struct thing *part, void *const from[], int n, int needed, void *out[],
                int code)
{
    if (!code) code = sim_doomed(SIM_CALL_work);
    for (int i = 0; i < n && !code; i++) {
        out[i] = NULL;
        if (i >= needed && !from[i]) continue;
        if (!reach_elements(from[i], cudnn_extent_of(&part[i]), part[i].type, &out[i]))
            code = SIM_ILLEGAL_ADDRESS;
    }
    return code;
}

int cudnn_run_conv(void *p, int code)
{
    const struct run *r = p;
    const struct thing *y = &r->part[2];
    void *at[PARTS] = {NULL};
    double *sums;

    code = cudnn_reach(r->part, r->at, 3, 3, at, code);
    if (!code && r->at[BIAS] && !reach_elements(r->at[BIAS], y->shape[1], y->type, &at[BIAS]))
        code = SIM_ILLEGAL_ADDRESS;
    if (!code && r->at[RESIDUAL] &&
        !reach_elements(r->at[RESIDUAL], cudnn_extent_of(y), y->type, &at[RESIDUAL]))
        code = SIM_ILLEGAL_ADDRESS;
    if (code) return code;
    sums = calloc((size_t)cudnn_extent_of(&r->part[r->result]), sizeof *sums);
    if (!sums) return SIM_OUT_OF_MEMORY;
    pthread_mutex_unlock(&sim.lock);
    cudnn_compute(r, at, sums);
    free(sums);
    pthread_mutex_lock(&sim.lock);
    return SIM_SUCCESS;
}

static int cudnn_start(enum sim_call call, const struct thing *handle, const struct run *r,
                       int algorithm, void *workspace, size_t size)
{
    struct sim_device *device;
    int code = sim_enter_context(call, &device);

    if (!code && r->result == 0 && r->part[0].type == SIM_F16) code = NOT_SUPPORTED;
    if (!code && (handle->kind != HANDLE || algorithm != good_algorithm[(r->result + 1) % 3] ||
                  !cudnn_fits(&r->part[0], &r->part[1], &r->conv, &r->part[2]) ||
                  size < WORKSPACE || !sim_reach(workspace, size)))
        code = BAD_PARAM;
    return sim_leave(code ? code : sim_compute(handle->stream, cudnn_run_conv, r, sizeof *r));
}

/* Copies the descriptors of a product; the caller promises not to change the operands' memory. */
static struct run run_of(const void *x, const void *w, const void *y, const void *conv, int result,
                         const void *alpha, const void *beta, const void *const at[3])
{
    enum sim_type type = ((const struct thing *)x)->type;
    struct run r = {.part = {*(const struct thing *)x, *(const struct thing *)w,
                             *(const struct thing *)y},
                    .conv = *(const struct thing *)conv, .result = result,
                    .alpha = sim_factor(type, alpha), .beta = sim_factor(type, beta)};

    memcpy(r.at, at, 3 * sizeof *at);
    return r;
}

int cudnnConvolutionForward(void *handle, const void *alpha, void *x, const void *at_x, void *w,
                            const void *at_w, void *conv, int algorithm, void *workspace,
                            size_t size, const void *beta, void *y, void *at_y)
{
    struct run r = run_of(x, w, y, conv, 2, alpha, beta, (const void *[]){at_x, at_w, at_y});

    return cudnn_start(SIM_CALL_cudnnConvolutionForward, handle, &r, algorithm, workspace, size);
}

/* The result is also operand z, which is not read because its factor is 0. */
int cudnnConvolutionBiasActivationForward(void *handle, const void *alpha, void *x,
                                          const void *at_x, void *w, const void *at_w, void *conv,
                                          int algorithm, void *workspace, size_t size,
                                          const void *beta, void *z, const void *at_z, void *bias,
                                          const void *at_bias, void *activation, void *y,
                                          void *at_y)
{
    struct run r = run_of(x, w, y, conv, 2, alpha, beta, (const void *[]){at_x, at_w, at_y});
    const struct thing *how = activation;

    r.at[BIAS] = (void *)at_bias;
    if (r.alpha != 1 || r.beta != 0 || z != y || at_z != at_y || !at_bias ||
        !cudnn_is_bias(bias, y) || how->kind != ACTIVATION || how->math != CUDNN_IDENTITY)
        algorithm = -1;
    return cudnn_start(SIM_CALL_cudnnConvolutionBiasActivationForward, handle, &r, algorithm,
                       workspace, size);
}

int cudnnConvolutionBackwardData(void *handle, const void *alpha, void *w, const void *at_w,
                                 void *y, const void *at_y, void *conv, int algorithm,
                                 void *workspace, size_t size, const void *beta, void *x,
                                 void *at_x)
{
    struct run r = run_of(x, w, y, conv, 0, alpha, beta, (const void *[]){at_x, at_w, at_y});

    return cudnn_start(SIM_CALL_cudnnConvolutionBackwardData, handle, &r, algorithm, workspace,
                       size);
}

int cudnnConvolutionBackwardFilter(void *handle, const void *alpha, void *x, const void *at_x,
                                   void *y, const void *at_y, void *conv, int algorithm,
                                   void *workspace, size_t size, const void *beta, void *w,
                                   void *at_w)
{
    struct run r = run_of(x, w, y, conv, 1, alpha, beta, (const void *[]){at_x, at_w, at_y});

    return cudnn_start(SIM_CALL_cudnnConvolutionBackwardFilter, handle, &r, algorithm, workspace,
                       size);
}
