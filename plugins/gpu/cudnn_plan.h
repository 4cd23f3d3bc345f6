/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_plan.h: what the files on cuDNN share: a plan of a convolution, which the library's older
 * interface runs (cudnn.c), or its graph interface (cudnn_graph.c). */
#ifndef GPU_CUDNN_PLAN_H
#define GPU_CUDNN_PLAN_H

#include "cudnn.h"
#include "gemm.h"
#include "vendor.h"
#include <ops/conv/launch_shape.h>

enum { CUDNN_ALIGNED = 16, CUDNN_WORKSPACE_ALIGNMENT = 256 };
static const int64_t cudnn_workspace_most = INT64_C(1) << 30;

/* Image, filters, result of the forward; what is computed is one of them. The library's own
 * operands are these and the bias, if it adds it. */
enum { X, W, Y, TENSORS, BIAS = TENSORS, OPERANDS, AXES = 5 };

/* Steps of a convolution along its spatial axes, as the library has them; pads in front and behind,
 * which the older interface has alike only. */
struct cudnn_steps {
    int pad[3], behind[3], stride[3], dilation[3];
};

/* A graph of a convolution, and of the sum with its bias, and the plan for it that the library has
 * made. The graph is destroyed with the plan: the library's documents do not say whether a plan
 * needs it. */
enum { CUDNN_MADE = 12 };
struct cudnn_graph {
    void *made[CUDNN_MADE]; /* descriptors, in the order of their making; the last is the plan */
    int n;                  /* of them */
    int64_t workspace;
};

struct cudnn_plan {
    enum conv_kind kind;
    struct gpu_device *device;
    uint8_t dtype;
    int rank;              /* of the library's tensors: 4 or 5 */
    int format;            /* of all three */
    bool repack, has_bias; /* the filters lie in another way */
    bool adds_bias;        /* the library does, in f32, before it rounds to a half type */
    bool moves_bias;       /* its elements do not lie side by side */
    int shape[TENSORS][AXES], stride[TENSORS][AXES];
    struct cudnn_steps steps;
    void *handle;
    bool older;                         /* there is an algorithm of the older interface */
    void *conv, *tensor[TENSORS], *bias, *activation; /* of it */
    struct cudnn_found found;
    const struct cudnn_graph *aligned, *any; /* for tensors at multiples of 16 bytes; for others;
                                                NULL: there is none */
    bool moves_all; /* tensors at other addresses are copied, as only `aligned` is there */
    uint64_t moved_bytes[TENSORS]; /* of the workspace, behind the filters */
    uint64_t filter_bytes; /* at the workspace's beginning, if they are repacked */
    uint64_t bias_bytes;   /* behind them, if the bias is moved */
    int64_t filter_stride[AXES];
};

/* The library's functions, once it is open. */
extern const struct cudnn_calls *const gpu_cudnn_call;

/* Calls the library for a plan that is being made; false, and a line in the log: it failed. */
#define CUDNN_GOOD(device, name, ...) \
    gpu_vendor_good(device, &gpu_cudnn, #name, gpu_cudnn_call->name(__VA_ARGS__))

/* The library's number of a type. */
int cudnn_type_of(uint8_t dtype);
/* Whether the library has kernels for a plan that round each part of a sum to f16, and say so in no
 * note. Kernels for tensor cores, and those that keep NaN, add in f32. */
bool cudnn_may_add_in_half(const struct cudnn_plan *plan);
/* A bias as a tensor of the plan's rank, which every element of a channel has. */
void cudnn_bias_shape(const struct cudnn_plan *plan, int out_shape[AXES], int out_stride[AXES]);

/* cudnn_graph.c: makes the graph of a plan's operation for tensors at multiples of `alignment`
 * bytes. false: there is none that does what rows promise; nothing is left then. Under the device's
 * lock of loading. */
bool cudnn_graph_make(const struct cudnn_plan *plan, int64_t alignment, struct cudnn_graph *out);
void cudnn_graph_drop(const struct gpu_device *device, struct cudnn_graph *graph);
/* Gives it to the stream of a handle: what the library answers, and which function of it. */
int cudnn_graph_run(const struct cudnn_plan *plan, const struct cudnn_graph *graph, void *handle,
                    void *const at[OPERANDS], void *workspace, const char **out_function);

/* cudnn_kept.c: such a graph, which the device keeps, and gives to other plans of equal operations;
 * NULL: there is none. Under the device's lock of loading. */
const struct cudnn_graph *cudnn_graph_take(const struct cudnn_plan *plan, int64_t alignment);
/* A plan needs it no more (NULL: nothing). */
void cudnn_graph_return(struct gpu_device *device, const struct cudnn_graph *graph);
/* The device is about to be closed: destroys all that it keeps. */
void cudnn_forget(struct gpu_device *device);

#endif
