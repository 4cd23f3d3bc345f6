/* SPDX-License-Identifier: Apache-2.0 */
/* cudnn_plan.h: declares the state that the files for cuDNN share: a plan of a convolution, which
 * runs by the library's older interface (cudnn.c) or by its graph interface (cudnn_graph.c). */
#ifndef GPU_CUDNN_PLAN_H
#define GPU_CUDNN_PLAN_H

#include "cudnn_kept.h"
#include "cudnn_tail.h"
#include "gemm.h"
#include <ops/conv/launch_shape.h>

/* The three tensors: image, filters and the forward's result; one of them is the tensor that is
 * computed. The library's operands are these tensors, and the bias and the residual if the library
 * adds them. */
enum { X, W, Y, TENSORS, BIAS = TENSORS, RESIDUAL, OPERANDS, AXES = CUDNN_AXES };

/* The number of the rows of fused_conv in rows.def; those of others are enum conv_kind. */
enum { CUDNN_FUSED_CONV = 4 };

/* The parameters of a convolution along its spatial axes, in the library's order. pad is the
 * padding before and `behind` the padding after; the older interface supports only equal ones. */
struct cudnn_steps {
    int pad[3], behind[3], stride[3], dilation[3];
};

struct cudnn_plan {
    enum conv_kind kind;
    struct gpu_device *device;
    uint8_t dtype;
    int rank;              /* of the library's tensors: 4 or 5 */
    int format;            /* the layout of all three tensors */
    bool repack, has_bias; /* repack: the filters have another layout */
    bool adds_bias;        /* the library adds the bias, in f32, before it rounds to a half type */
    bool moves_bias;       /* the bias's elements are not contiguous, or must be aligned */
    bool adds_residual, adds_relu; /* of fused_conv: the graph has these steps behind the bias */
    int shape[TENSORS][AXES], stride[TENSORS][AXES];
    struct cudnn_steps steps;
    void *handle;
    bool older;                         /* the older interface has an algorithm */
    void *conv, *tensor[TENSORS], *bias, *activation; /* descriptors of the older interface */
    struct cudnn_found found;
    const struct cudnn_graph *aligned, *any; /* for tensors at multiples of 16 bytes; for others;
                                                NULL: there is no graph */
    bool moves_all; /* tensors at other addresses are copied, since only `aligned` exists */
    uint64_t moved_bytes[OPERANDS]; /* in the workspace, after the filters; not of the bias */
    uint64_t filter_bytes; /* at the workspace's beginning, if they are repacked */
    uint64_t bias_bytes;   /* after the filters, if the bias is moved */
    int64_t filter_stride[AXES];
    struct cudnn_tail tail; /* what the library does not compute */
};

/* Whether the library has kernels for this plan that round partial sums to f16 without a numerical
 * note about it. Kernels for tensor cores, and those with the note that they keep NaN, add in
 * f32. */
bool cudnn_may_add_in_half(const struct cudnn_plan *plan);
/* The shape and strides of the bias as a tensor of the plan's rank: one value for each channel. */
void cudnn_bias_shape(const struct cudnn_plan *plan, int out_shape[AXES], int out_stride[AXES]);

/* cudnn_graph.c: takes the graph of a plan's operation, for tensors at multiples of `alignment`
 * bytes, from the device's cache, or makes it. NULL: no engine meets the guarantees of the kernel
 * rows. Under the device's lock `loading`. */
const struct cudnn_graph *cudnn_graph_take(const struct cudnn_plan *plan, int64_t alignment);
/* Enqueues the graph in the stream of a handle. Returns the library's code, and the name of the
 * function that returned it. */
int cudnn_graph_run(const struct cudnn_plan *plan, const struct cudnn_graph *graph, void *handle,
                    void *const at[OPERANDS], void *workspace, const char **out_function);

#endif
